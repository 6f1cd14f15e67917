"""A program in lock-step: its clock is that of the simulation (``lockstep.c``, preloaded), its packets go through one socket."""

from __future__ import annotations

import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

from heavytop.compile import cache_folder
from heavytop.copters.stacks.stack import StackError

ROOM = 256
"""Bytes of a packet, at most."""
PACKET = struct.Struct(f"<I{ROOM}s")
LAST_LINES = 8
PATIENCE = 20.0
"""Seconds of real time after which a program that does not answer is given up."""


def preload() -> Path:
    """The shared library with the clock, compiled once by the user's C compiler.

    Raises
    ------
    StackError
        The system is not Linux, or has no C compiler.
    """
    if not sys.platform.startswith("linux"):
        raise StackError(
            f"a stack flies in lock-step on Linux only (its clock is replaced by LD_PRELOAD), this is {sys.platform}."
        )
    source = files("heavytop.copters.stacks").joinpath("lockstep.c").read_bytes()
    made = cache_folder() / "stacks" / f"lockstep-{sha256(source).hexdigest()[:16]}.so"
    if made.exists():
        return made
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise StackError("a stack needs a C compiler for its clock, and there is neither cc nor gcc. Install gcc.")
    made.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=made.parent) as folder:
        text, library = Path(folder, "lockstep.c"), Path(folder, "lockstep.so")
        text.write_bytes(source)
        result = subprocess.run(
            [compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(text), "-ldl"],
            capture_output=True,
            text=True,
            check=False,
        )
        if result.returncode:
            raise StackError(f"the clock of stacks does not compile: {tail(result.stderr)}")
        os.replace(library, made)
    return made


class LockstepProgram:
    """A running program whose time passes only between two exchanges.

    Parameters
    ----------
    command : program and arguments. folder : its working directory, which is removed with it. period : sampling period, s.
    sends, receives : UDP ports that the program sends to and listens at.
    """

    def __init__(
        self, command: Sequence[str], folder: Path, period: float, sends: Sequence[int], receives: Sequence[int]
    ) -> None:
        self.folder, self.name, self.sends, self.receives = folder, Path(command[0]).name, len(sends), len(receives)
        self.log = folder / "log.txt"
        ours, theirs = socket.socketpair()
        surroundings = {
            **os.environ,
            "LD_PRELOAD": str(preload()),
            "HEAVYTOP_LINK": str(theirs.fileno()),
            "HEAVYTOP_PERIOD_NS": str(round(period * 1e9)),
            "HEAVYTOP_SENDS": ",".join(map(str, sends)),
            "HEAVYTOP_RECEIVES": ",".join(map(str, receives)),
        }
        with open(self.log, "wb") as log, theirs:
            try:
                self.process = subprocess.Popen(
                    list(command),
                    cwd=folder,
                    env=surroundings,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    pass_fds=[theirs.fileno()],
                )
            except OSError as error:
                ours.close()
                raise StackError(f"{command[0]} cannot be started: {error}.") from error
        self.socket = ours
        ours.settimeout(PATIENCE)
        self.size = 8 + self.sends * PACKET.size

    def receive(self) -> list[bytes]:
        """The packets (empty: none) that the program sent in the last sample, one per port."""
        try:
            message = self._read()
        except TimeoutError:
            raise StackError(f"{self.name} did not answer within {PATIENCE:g} s. {self.last_lines()}") from None
        except OSError as error:
            raise self.ended() from error
        packets = []
        for length, content in PACKET.iter_unpack(message[8:]):
            packets.append(content[:length])
        return packets

    def _read(self) -> bytes:
        message = self.socket.recv(self.size)
        while len(message) < self.size:
            more = self.socket.recv(self.size - len(message))
            if not more:
                raise self.ended()
            message += more
        return message

    def send(self, *packets: bytes) -> None:
        """The packets of the next sample, one per port; empty: none."""
        try:
            self.socket.sendall(b"".join(PACKET.pack(len(packet), packet) for packet in packets))
        except OSError as error:
            raise self.ended() from error

    def ended(self) -> StackError:
        """The error of a program that is gone."""
        try:
            code = self.process.wait(2.0)
        except subprocess.TimeoutExpired:
            code = None
        how = f"crashed (signal {-code})" if code is not None and code < 0 else f"ended with code {code}"
        return StackError(f"{self.name} {how}. {self.last_lines()}")

    def last_lines(self) -> str:
        """The end of the program's output."""
        return tail(output(self.log))

    def close(self) -> None:
        """End the program and remove its folder."""
        self.socket.close()
        try:
            self.process.wait(1.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


def free_port() -> int:
    """A TCP port of this machine that nothing listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def served(command: Sequence[str], folder: Path, first: int, port: int) -> subprocess.Popen[bytes]:
    """The program in real time, its servers moved from the port ``first`` to ``port`` of 127.0.0.1; its output in log.txt of the folder."""
    surroundings: Mapping[str, str] = {
        **os.environ, "LD_PRELOAD": str(preload()), "HEAVYTOP_SERVE": str(port), "HEAVYTOP_SERVER": str(first),
    }  # fmt: skip
    with open(folder / "log.txt", "wb") as log:
        return subprocess.Popen(
            list(command), cwd=folder, env=surroundings, stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )


def output(file: Path) -> str:
    """The text that a program has printed into a file."""
    return file.read_bytes().decode(errors="replace") if file.exists() else ""


def last_lines(text: str) -> list[str]:
    """The last lines of an output that are not empty."""
    return [line for line in text.splitlines() if line.strip()][-LAST_LINES:]


def tail(text: str) -> str:
    """The last lines of an output, in one."""
    lines = last_lines(text)
    return "Its last lines: " + " | ".join(lines) if lines else "It printed nothing."
