"""What the options of several commands share: lists, completion of names, and places to write to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from heavytop.cli.terminal import fail

FIGURES = (".png", ".pdf", ".svg")


def _list_systems(wanted: bool) -> None:
    if wanted:
        from heavytop import library

        for name, what in library.summaries().items():
            typer.echo(f"{name:<24} {what}")
        typer.echo("A Python file that defines `system`, or a robot file (URDF, MJCF), serves as well.")
        raise typer.Exit


LIST_SYSTEMS: Any = typer.Option("--list", callback=_list_systems, is_eager=True, help="List the built-in systems.")
JSON: Any = typer.Option("--json", help="Print one JSON object instead of tables.")


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
