"""``heavytop show``: a page of a system with sliders for its joints."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from heavytop.cli.choices import JSON, LIST_SYSTEMS, PAGES, check_places, list_systems
from heavytop.cli.data import print_json
from heavytop.cli.target import BASE, TARGET, check_target, derived, is_file, load_target
from heavytop.cli.terminal import reported, working


@reported
def show(
    target: Annotated[str, TARGET] = "",
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The page to write; default: NAME.html.")] = None,
    base: Annotated[str, BASE] = "fixed",
    browse: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
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
    from heavytop import library

    check_places(out=(out, PAGES))
    found = load_target(target, base)
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
