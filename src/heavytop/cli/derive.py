"""``heavytop derive``: the equations of motion of a system."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from heavytop._files import write_whole
from heavytop.cli.choices import LIST_SYSTEMS, check_places, complete_system, list_systems, need_target
from heavytop.cli.target import BASE_HELP, HELP, check_base, derived, load_target
from heavytop.cli.terminal import console, fail, reported, working


@reported
def derive(
    target: Annotated[str, typer.Argument(metavar="NAME|FILE", help=HELP, autocompletion=complete_system)] = "",
    latex: Annotated[bool, typer.Option("--latex", help="All equations as LaTeX.")] = False,
    text: Annotated[bool, typer.Option("--text", help="All equations as text.")] = False,
    json: Annotated[bool, typer.Option("--json", help="All equations as JSON with Python expressions.")] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write to this file instead of the terminal.")] = None,
    base: Annotated[str, typer.Option("--base", help=BASE_HELP)] = "fixed",
    listed: Annotated[bool, LIST_SYSTEMS] = False,
) -> None:
    """Derive the equations of motion `M a + c + D v + fK + fG = B u`.

    Without an option: what the system consists of, its equations if they are short, and one acceleration.

    Examples:

    - `heavytop derive furuta`
    - `heavytop derive tricopter-load --text --out tricopter.txt`
    - `heavytop derive my_robot.py --latex`
    - `heavytop derive robot.urdf --base free`
    """
    if listed:
        list_systems(json)
        return
    need_target(target, "derive")
    check_base(target, base)
    if latex + text + json > 1:
        raise fail("choose one of --latex, --text and --json.")
    check_places(out=(out, ()))
    found = load_target(target, base)
    start = perf_counter()
    model = derived(found)
    seconds = perf_counter() - start
    if not (latex or text or json):
        from heavytop.cli.summary import summary

        to_file = out is not None
        with working("writing the equations"):
            shown = summary(model, target, seconds)
        if not to_file:
            console().print(shown)
            return
        from io import StringIO

        from rich.console import Console

        buffer = StringIO()
        Console(file=buffer, width=100).print(shown)
        _write(out, buffer.getvalue())
        return
    with working("writing the equations"):
        equations = model.equations()
        if json:
            from json import dumps

            content = dumps(equations.to_dict(), indent=1)
        else:
            content = equations.latex() if latex else equations.text()
    if out is None:
        typer.echo(content)
    else:
        _write(out, content + "\n")


def _write(path: Path, content: str) -> None:
    """Write a file whole or not at all."""
    write_whole(path, content, "equations.tex")
    typer.echo(f"wrote {path}")
