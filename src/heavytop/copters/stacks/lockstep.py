"""A program in lock-step: its clock is that of the simulation (``lockstep.c``, preloaded), its packets go through one socket."""

from __future__ import annotations

import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

from heavytop.compile import cache_folder
from heavytop.copters.stacks.program import PATIENCE, FirmwareProgram, tail
from heavytop.copters.stacks.stack import StackError

ROOM = 256
"""Bytes of a packet, at most."""
PACKET = f"I{ROOM}s"
"""Length and bytes of a packet."""


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


def placed(folder: Path) -> str:
    """The path of the library relative to the working directory of a program: LD_PRELOAD takes no path with spaces or colons."""
    (folder / "lockstep.so").symlink_to(preload())
    return "./lockstep.so"


class LockstepProgram(FirmwareProgram):
    """A running program whose time passes only between two exchanges.

    Parameters
    ----------
    command : program and arguments. folder : its working directory, which is removed with it. period : sampling period, s.
    sends, receives : UDP ports that the program sends to and listens at.
    """

    def __init__(
        self, command: Sequence[str], folder: Path, period: float, sends: Sequence[int], receives: Sequence[int]
    ) -> None:
        self.sends = len(sends)
        self.received, self.sent = (
            struct.Struct("<Q" + self.sends * PACKET),
            struct.Struct("<" + len(receives) * PACKET),
        )
        self.socket, theirs = socket.socketpair()
        with theirs:
            try:
                environment = {
                    "LD_PRELOAD": placed(folder),
                    "HEAVYTOP_LINK": str(theirs.fileno()),
                    "HEAVYTOP_PERIOD_NS": str(round(period * 1e9)),
                    "HEAVYTOP_SENDS": ",".join(map(str, sends)),
                    "HEAVYTOP_RECEIVES": ",".join(map(str, receives)),
                }
                super().__init__(command, folder, environment, [theirs.fileno()], attached=True)
            except BaseException:
                self.socket.close()
                raise
        self.socket.settimeout(PATIENCE)

    def receive(self) -> list[bytes]:
        """The packets (empty: none) that the program sent in the last sample, one per port."""
        try:
            message = self._read()
        except TimeoutError:
            raise self.failure(f"{self.name} did not answer within {PATIENCE:g} s") from None
        except OSError as error:
            raise self.ended() from error
        _, *packets = self.received.unpack(message)
        return [packets[k + 1][: packets[k]] for k in range(0, 2 * self.sends, 2)]

    def _read(self) -> bytes:
        size = self.received.size
        message = self.socket.recv(size)
        while len(message) < size:
            more = self.socket.recv(size - len(message))
            if not more:
                raise self.ended()
            message += more
        return message

    def send(self, *packets: bytes | bytearray) -> None:
        """The packets of the next sample, one per port; empty: none."""
        try:
            self.socket.sendall(self.sent.pack(*[part for packet in packets for part in (len(packet), packet)]))
        except OSError as error:
            raise self.ended() from error

    def close(self) -> None:
        """End the program and remove its folder."""
        self.socket.close()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(1.0)
        super().close()


def free_port() -> int:
    """A TCP port of this machine that nothing listens at."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def served(command: Sequence[str], folder: Path, first: int, port: int) -> FirmwareProgram:
    """The program in real time, its servers moved from the port ``first`` to ``port`` of 127.0.0.1."""
    environment = {"LD_PRELOAD": placed(folder), "HEAVYTOP_SERVE": str(port), "HEAVYTOP_SERVER": str(first)}
    return FirmwareProgram(command, folder, environment, attached=True)
