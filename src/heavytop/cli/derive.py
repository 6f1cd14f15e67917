"""``heavytop derive``: the equations of motion of a system; ``heavytop show``: a page of it with sliders for its joints."""

from __future__ import annotations

from io import StringIO
from json import dumps
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer
from typer import Option

from heavytop._files import write_whole
from heavytop.cli.choices import JSON, LIST_SYSTEMS, PAGES, check_places, list_systems
from heavytop.cli.target import BASE, TARGET, check_target, derived, is_file, is_robot, load_target
from heavytop.cli.terminal import WIDTH, console, fail, print_json, reported, working


@reported
def derive(
    target: Annotated[str, TARGET] = "",
    latex: Annotated[bool, Option("--latex", help="Print all equations as LaTeX.")] = False,
    text: Annotated[bool, Option("--text", help="Print all equations as text.")] = False,
    json: Annotated[bool, Option("--json", help="Print all equations as JSON with Python expressions.")] = False,
    out: Annotated[Path | None, Option("--out", "-o", help="Write to this file instead of the terminal.")] = None,
    base: Annotated[str, BASE] = "fixed",
    listed: Annotated[bool, LIST_SYSTEMS] = False,
) -> None:
    """Derive the equations of motion `M a + c + D v + fK + fG = B u`.

    Without an option: the parts of the system, its equations if they are short, and one acceleration.

    Examples:

    - `heavytop derive furuta`
    - `heavytop derive tricopter-load --text --out tricopter.txt`
    - `heavytop derive my_robot.py --latex`
    - `heavytop derive robot.urdf --base free`
    """
    if listed:
        list_systems(json)
        return
    check_target(target, base, "derive")
    if latex + text + json > 1:
        raise fail("choose one of --latex, --text and --json.")
    check_places(out=(out, ()))
    found = load_target(target, base)
    start = perf_counter()
    model = derived(found)
    seconds = perf_counter() - start
    with working("writing the equations"):
        if latex or text or json:
            equations = model.equations()
            content = dumps(equations.to_dict(), indent=1) if json else equations.latex() if latex else equations.text()
            content += "\n"
        else:
            from heavytop.cli.summary import summary

            shown = summary(model, target, seconds)
            if out is None:
                console().print(shown)
                return
            from rich.console import Console

            buffer = StringIO()
            Console(file=buffer, width=WIDTH).print(shown)
            content = buffer.getvalue()
    if out is None:
        typer.echo(content, nl=False)
    else:
        write_whole(out, content, "equations.tex")
        typer.echo(f"wrote {out}")


@reported
def show(
    target: Annotated[str, TARGET] = "",
    out: Annotated[Path | None, Option("--out", "-o", help="File name of the page; default: NAME.html.")] = None,
    base: Annotated[str, BASE] = "fixed",
    collision: Annotated[bool, Option("--collision", help="Draw the collision geometry of a robot file.")] = False,
    browse: Annotated[bool, Option("--open", help="Open the page in the browser.")] = False,
    json: Annotated[bool, JSON] = False,
    listed: Annotated[bool, LIST_SYSTEMS] = False,
) -> None:
    """Write a page of a system at rest with a slider for every joint.

    Examples:

    - `heavytop show robot.urdf --open`
    - `heavytop show furuta --out furuta.html`
    """
    if listed:
        list_systems(json)
        return
    check_target(target, base, "show")
    if collision and not is_robot(target):
        raise fail(f"--collision is for robot files; {target!r} has no collision geometry.")
    from heavytop import library

    check_places(out=(out, PAGES))
    found = load_target(target, base, "collision" if collision else "visual")
    page = out if out is not None else Path(f"{Path(target).stem.replace(':', '-')}.html")
    model = derived(found, native=False)
    published = None if is_file(target) else library.start(target, model)
    with working("writing the page"):
        written = model.show(page, None if published is None else published[0])
    if json:
        print_json({"system": model.name, "q": model.q_names, "files": [written]})
    else:
        typer.echo(f"wrote {written}")
    if browse:
        typer.launch(str(written))
