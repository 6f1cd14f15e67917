"""Other processes that run the library under test."""

import os
import subprocess
import sys
from pathlib import Path

import heavytop


def environment(**variables: str) -> dict[str, str]:
    """The environment of a process that imports the library this process uses."""
    return {**os.environ, "PYTHONPATH": str(Path(heavytop.__file__).parents[1]), **variables}


def start(code: str, *arguments: str, **variables: str) -> subprocess.Popen[str]:
    """Run Python code in a new process."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        env=environment(**variables),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def finish(code: str, *arguments: str, timeout: float = 120, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run Python code in a new process and wait for its end."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        env=environment(**variables),
        text=True,
        capture_output=True,
        timeout=timeout,
    )


def shell(*arguments: str, timeout: float = 120, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the command ``heavytop``."""
    return subprocess.run(
        [sys.executable, "-m", "heavytop", *arguments],
        env=environment(**variables),
        text=True,
        capture_output=True,
        timeout=timeout,
    )
