"""What the options of several commands share: lists, completion of names, and places to write to."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import typer

from heavytop.cli.terminal import fail

FIGURES = (".png", ".pdf", ".svg")


LIST_SYSTEMS: Any = typer.Option("--list", help="List the built-in systems.")
JSON: Any = typer.Option("--json", help="Print one JSON object instead of tables.")


def need_target(target: str, command: str) -> None:
    """Refuse a command without the name of a system."""
    if not target:
        raise fail(
            f"name a system or a file: heavytop {command} furuta. heavytop {command} --list shows the built-in systems."
        )


def refuse_others(context: typer.Context, taken: Collection[str], what: str) -> None:
    """Refuse arguments that were given though ``what`` is done does not use them."""
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if source is not None and source.name == "COMMANDLINE" and parameter.name not in taken:
            shown = next((o for o in parameter.opts if o.startswith("--")), None) or repr(
                str(context.params[parameter.name or ""])
            )
            raise fail(f"{shown} has no effect on {what}: leave it out.")


def list_systems(json: bool = False) -> None:
    """Print the built-in systems."""
    from heavytop import library

    print_list(library.summaries(), json)
    if not json:
        typer.echo("A Python file that defines `system` or a robot file (URDF, MJCF) will do as well.")


def print_list(names: Mapping[str, str], json: bool) -> None:
    """Print names with what they mean, or one JSON object of them."""
    if json:
        from heavytop.cli.data import print_json

        print_json(dict(names))
        return
    width = max(map(len, names), default=0) + 2
    for name, what in names.items():
        typer.echo(f"{name:<{width}}{what}")


def complete_system(incomplete: str) -> list[str]:
    """Built-in systems that begin so."""
    from heavytop import library

    return [name for name in library.names() if name.startswith(incomplete)]


def complete_vehicle(incomplete: str) -> list[str]:
    """Vehicles of the catalogue that begin so."""
    from heavytop.copters import catalogue

    return [name for name in catalogue.names() if name.startswith(incomplete)]


def complete_integrator(incomplete: str) -> list[str]:
    """Integrators that begin so."""
    from heavytop.simulate.integrators import INTEGRATORS

    return [name for name in INTEGRATORS if name.startswith(incomplete)]


def complete_maneuver(incomplete: str) -> list[str]:
    """Maneuvers that begin so."""
    from heavytop.copters.maneuvers import MANEUVERS

    return [name for name in MANEUVERS if name.startswith(incomplete)]


def complete_law(incomplete: str) -> list[str]:
    """Laws of flights that begin so."""
    from heavytop.copters.composition import LAW_NAMES

    return [name for name in LAW_NAMES if name.startswith(incomplete)]


def complete_problem(incomplete: str) -> list[str]:
    """Ready-made planning problems that begin so."""
    from heavytop.plan.problems import PROBLEMS

    return [name for name in PROBLEMS if name.startswith(incomplete)]


def check_places(**places: tuple[Path | None, tuple[str, ...]]) -> None:
    """Refuse files in folders that do not exist or with endings that cannot be written, before the work starts.

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
