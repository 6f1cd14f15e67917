"""Output and errors of the commands."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import wraps
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import typer

if TYPE_CHECKING:
    from rich.console import Console

P = ParamSpec("P")
T = TypeVar("T")

WIDTH = 100
"""Columns of output that does not go to a terminal."""
FAILURE, MISUSE = 1, 2
"""Exit codes: a check failed; the input is wrong."""


def console(stderr: bool = False) -> Console:
    """A console; output to a file or pipe has 100 columns and no spinner, even if colours are forced (notebooks)."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    if stream is not None and stream.isatty():  # None: closed by the shell (>&-)
        return Console(stderr=stderr, highlight=False, emoji=False)
    return Console(stderr=stderr, highlight=False, emoji=False, width=WIDTH, force_terminal=False)


def fail(message: str, code: int = MISUSE) -> typer.Exit:
    """Print an error to stderr; raise the result."""
    console(stderr=True).print(f"[bold red]error:[/] {_escaped(message)}", soft_wrap=True)
    return typer.Exit(code)


def notice(message: str) -> None:
    """Print a remark to stderr."""
    console(stderr=True).print(f"[dim]{_escaped(message)}[/]", soft_wrap=True)


@contextmanager
def working(what: str) -> Iterator[Callable[[str], None]]:
    """Show a spinner with a text on a terminal. Yields a function that prints a line of progress to stderr."""
    screen = console(stderr=True)
    with screen.status(_escaped(what)) if screen.is_terminal else nullcontext():
        yield lambda text: screen.print(_escaped(text), highlight=False, soft_wrap=True)


def _escaped(message: str) -> str:
    from rich.markup import escape

    return escape(message)


def reported(command: Callable[P, T]) -> Callable[P, T]:
    """Show the errors of heavytop as one message with exit code 2, without a traceback."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        from heavytop.errors import HeavytopError

        try:
            return command(*args, **kwargs)
        except HeavytopError as error:
            raise fail(str(error)) from None
        except BrokenPipeError:
            raise
        except OSError as error:
            where = f" {error.filename!r}" if error.filename else ""
            raise fail(f"cannot write or read{where}: {error.strerror or error}.") from None
        except MemoryError as error:
            raise fail(f"not enough memory: {error or 'the request is too large'}.") from None

    return run


class Shell(typer.Typer):
    """The commands, for terminals and files that cannot show every character, and for full disks."""

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        for stream in (sys.stdout, sys.stderr):
            if isinstance(stream, TextIOWrapper):  # a terminal or file in Latin-1 shows \u03b8 instead of an error
                stream.reconfigure(errors="backslashreplace")
        try:
            try:
                return super().__call__(*arguments, **named)
            finally:
                if sys.stdout is not None:  # while an error can still be reported
                    sys.stdout.flush()
        except BrokenPipeError:  # closed by the reader (heavytop derive furuta | head -1)
            _discard_output()
            sys.exit(FAILURE)
        except OSError as error:  # of the help, which typer prints, or of the last lines
            _discard_output()
            sys.exit(fail(f"cannot write: {error.strerror or error}.").exit_code)


def _discard_output() -> None:
    """Discard the rest of the output, which Python would try to write again at the end of the process."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
