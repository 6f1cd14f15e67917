"""Other processes that run the library under test.

A limit counts the time of the processor, which a busy machine does not change. A process that waits for ever takes none of it: for that case
alone there is ``GUARD``, hours that no test needs on any machine.
"""

import os
import subprocess
import sys
from pathlib import Path

import heavytop

GUARD = 4 * 3600.0
"""Seconds on the wall after which a process counts as hanging."""


def environment(**variables: str) -> dict[str, str]:
    """The environment of a process that imports the library this process uses."""
    return {**os.environ, "PYTHONPATH": str(Path(heavytop.__file__).parents[1]), **variables}


def begin(command: list[str], processor: float, **variables: str) -> subprocess.Popen[str]:
    """Start a command that is killed (SIGXCPU; Linux only) once it has taken so many seconds of the processor."""
    process = subprocess.Popen(
        command, env=environment(**variables), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    if sys.platform == "linux":
        import resource

        resource.prlimit(process.pid, resource.RLIMIT_CPU, (int(processor), int(processor)))
    return process


def done(command: list[str], processor: float, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command with such a limit and wait for its end."""
    process = begin(command, processor, **variables)
    try:
        out, errors = process.communicate(timeout=GUARD)
    except BaseException:
        process.kill()
        raise
    return subprocess.CompletedProcess(command, process.returncode, out, errors)


def start(code: str, *arguments: str, processor: float = 300, **variables: str) -> subprocess.Popen[str]:
    """Run Python code in a new process."""
    return begin([sys.executable, "-c", code, *arguments], processor, **variables)


def finish(code: str, *arguments: str, processor: float = 120, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in a new process and wait for its end."""
    return done([sys.executable, "-c", code, *arguments], processor, **variables)


def shell(*arguments: str, processor: float = 120, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command ``heavytop``."""
    return done([sys.executable, "-m", "heavytop", *arguments], processor, **variables)
