"""Options that several commands share: lists, completion of names, places to write to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import typer
from typer import Option

from heavytop.cli.terminal import fail, print_json

FIGURES = (".png", ".pdf", ".svg")
PAGES = (".html", ".htm")

LIST_SYSTEMS: Any = Option("--list", help="List the built-in systems.")
JSON: Any = Option("--json", help="Print one JSON object instead of tables.")


def _completion(module: str, names: str) -> Callable[[str], list[str]]:
    """Completion from an attribute of a module, imported when it is needed."""

    def complete(incomplete: str) -> list[str]:
        found: Any = getattr(import_module(module), names)
        listed: Any = found() if callable(found) else found
        return [name for name in listed if name.startswith(incomplete)]

    return complete


complete_system = _completion("heavytop.library", "names")
complete_vehicle = _completion("heavytop.copters.catalogue", "names")
complete_maneuver = _completion("heavytop.copters.maneuvers", "MANEUVERS")
complete_law = _completion("heavytop.copters.composition", "LAW_NAMES")
complete_integrator = _completion("heavytop.simulate.integrators", "INTEGRATORS")
complete_problem = _completion("heavytop.plan.problems", "PROBLEMS")


def reject_others(context: typer.Context, used: Collection[str], what: str) -> None:
    """Reject arguments on the command line that ``what`` does not use."""
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE" and name not in used:
            shown = next((o for o in parameter.opts if o.startswith("--")), repr(str(context.params[name])))
            raise fail(f"{shown} has no effect on {what}: omit it.")


def list_systems(json: bool = False) -> None:
    """Print the built-in systems."""
    from heavytop import library

    print_list(library.summaries(), json)
    if not json:
        typer.echo("A Python file that defines `system` or a robot file (URDF, MJCF) works, too.")


def print_list(names: Mapping[str, str], json: bool) -> None:
    """Print names with their meaning, or as one JSON object."""
    if json:
        print_json(dict(names))
        return
    width = max(map(len, names), default=0) + 2
    for name, what in names.items():
        typer.echo(f"{name:<{width}}{what}")


def check_places(**places: tuple[Path | None, tuple[str, ...]]) -> None:
    """Reject files in folders that do not exist or with endings that cannot be written, before the work starts.

    Keys are option names, values the path and its possible endings (none: any).
    """
    for option, (path, endings) in places.items():
        if path is None:
            continue
        if not path.resolve().parent.is_dir():
            raise fail(f"--{option}: cannot write {str(path)!r}: the folder {str(path.parent)!r} does not exist.")
        if path.is_dir():
            raise fail(f"--{option}: {str(path)!r} is a folder; give the name of a file.")
        if endings and path.suffix.lower() not in endings:
            raise fail(f"--{option}: the name must end with {' or '.join(endings)}, got {path.name!r}.")
