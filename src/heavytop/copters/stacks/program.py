"""Programs of stacks: their file, their process and their output. No program outlives the process that started it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from heavytop.copters.stacks.stack import StackError

LAST_LINES = 8
PATIENCE, STARTUP = 20.0, 60.0
"""Seconds of real time after which a program that does not answer, or does not start, is given up."""
SLICE = 0.25
"""Seconds between two checks whether a program that does not answer is still there."""
ATTACHED = """
import ctypes, os, signal, sys
ctypes.CDLL(None).prctl(1, signal.SIGKILL)
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""
"""Become a program that the kernel (Linux) ends with its parent: PR_SET_PDEATHSIG."""


def program_file(path: str | Path, remedy: str) -> Path:
    """The file of a program.

    Raises
    ------
    StackError
        There is none, or it must not be executed; the message ends with the remedy.
    """
    if not Path(path).is_file():
        raise StackError(f"there is no program {str(path)!r}. {remedy}")
    if not os.access(path, os.X_OK):
        raise StackError(f"the file {str(path)!r} is not executable: chmod +x, or another path. {remedy}")
    return Path(path).resolve()


class FirmwareProgram:
    """A running program in a folder of its own, which is removed with it.

    Parameters
    ----------
    command : program and arguments. folder : its working directory; its output goes to log.txt there.
    environment : further variables. pass_fds : open files that it inherits.
    attached : whether it ends with this process by itself.
    """

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        environment: Mapping[str, str],
        pass_fds: Sequence[int] = (),
        attached: bool = False,
    ) -> None:
        self.folder, self.name, self.log = folder, Path(command[0]).name, folder / "log.txt"
        if not attached and sys.platform.startswith("linux"):
            command = [sys.executable, "-I", "-S", "-c", ATTACHED, str(os.getpid()), *command]
        with open(self.log, "wb") as log:
            try:
                self.process = subprocess.Popen(
                    list(command), cwd=folder, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                    pass_fds=pass_fds,
                )  # fmt: skip
            except OSError as error:
                shutil.rmtree(folder, ignore_errors=True)
                raise StackError(f"{self.name} cannot be started: {error}.") from error

    @property
    def output(self) -> str:
        """The text that the program has printed."""
        return self.log.read_bytes().decode(errors="replace") if self.log.exists() else ""

    def failure(self, problem: str) -> StackError:
        """The error of a problem, with the last lines of the program."""
        return StackError(f"{problem}. {tail(self.output)}")

    def ended(self, wait: float = 2.0) -> StackError:
        """The error of a program that is gone."""
        try:
            code = self.process.wait(wait)
        except subprocess.TimeoutExpired:
            return self.failure(f"{self.name} closed its connection")
        how = f"crashed (signal {-code})" if code < 0 else f"ended with code {code}"
        return self.failure(f"{self.name} {how}")

    def check(self) -> None:
        """Raise a StackError if the program is gone."""
        if self.process.poll() is not None:
            raise self.ended()

    def close(self) -> None:
        """End the program and remove its folder."""
        self.process.terminate()
        try:
            self.process.wait(3.0)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)


class Patience:
    """Real time that is left for an answer of a program, or of one that was started by hand (None)."""

    def __init__(self, program: FirmwareProgram | None, seconds: float, problem: str) -> None:
        self.program, self.seconds, self.problem = program, seconds, problem
        self.begin = time.monotonic()

    def check(self) -> None:
        """Raise a StackError if the program is gone or the time is over."""
        if self.program is not None:
            self.program.check()
        if time.monotonic() - self.begin > self.seconds:
            problem = f"{self.problem} within {self.seconds:g} s"
            raise StackError(f"{problem}.") if self.program is None else self.program.failure(problem)


def new_folder(name: str) -> Path:
    """A new folder for a program."""
    return Path(tempfile.mkdtemp(prefix=f"heavytop-{name}-"))


def last_lines(text: str) -> list[str]:
    """The last lines of an output that are not empty."""
    return [line for line in text.splitlines() if line.strip()][-LAST_LINES:]


def tail(text: str) -> str:
    """The last lines of an output, in one."""
    lines = last_lines(text)
    return "Its last lines: " + " | ".join(lines) if lines else "It printed nothing."
