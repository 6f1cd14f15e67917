"""Output and errors of the commands; results as plain data for ``--json``."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from functools import wraps
from io import TextIOWrapper
from json import dumps
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from heavytop.simulate import Outcome, Run

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


def print_json(content: dict[str, Any]) -> None:
    """Print one object on standard output; numbers that are not finite are null, as JSON has none."""
    typer.echo(dumps(_plain(content), indent=1, allow_nan=False))


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def outcome_data(outcome: Outcome) -> dict[str, Any]:
    """Ending, time and message."""
    return {"ending": outcome.ending.value, "ok": outcome.ok, "time": outcome.time, "message": outcome.message}


def run_data(run: Run) -> dict[str, Any]:
    """Outcome, last state, energies, drifts, events and times of a run."""
    end: dict[str, Any] = {"time": run.settings.start_time, "q": {}, "v": {}}
    if len(run):
        q, v = dict(zip(run.q_names, run.q[-1], strict=True)), dict(zip(run.v_names, run.v[-1], strict=True))
        end = {"time": run.t[-1], "q": q, "v": v}
    return {
        "system": run.name,
        "integrator": run.integrator,
        "step": run.settings.step,
        "outcome": outcome_data(run.outcome),
        "records": len(run),
        "end": end,
        "energy": {"start": run.energy[0], "end": run.energy[-1]} if run.has_energy and len(run) else {},
        "drift": {
            name: {"absolute": kept.drift, "relative": kept.relative, "unit": kept.unit}
            for name, kept in run.invariants.items()
        },
        "events": [{"time": o.time, "name": o.name} for o in run.events],
        "seconds": {"prepared": run.timing.compile_seconds, "loop": run.timing.wall_seconds},
    }
