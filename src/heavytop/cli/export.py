"""``heavytop export``: the functions of a model as C99."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from heavytop.cli.choices import JSON, LIST_SYSTEMS, list_systems
from heavytop.cli.target import BASE, TARGET, check_target, derived, load_target
from heavytop.cli.terminal import console, fail, print_json, reported, working


@reported
def export(
    target: Annotated[str, TARGET] = "",
    folder: Annotated[
        Path | None, Argument(metavar="FOLDER", help="Output folder; created if it does not exist.")
    ] = None,
    functions: Annotated[
        str, Option("--functions", "-f", help="Functions of the model, comma-separated.")
    ] = "acceleration,mass_matrix,bias",
    precision: Annotated[str, Option(help="Number type: double or float.")] = "double",
    footprint: Annotated[
        bool, Option("--footprint", help="Measure code and stack size for a Cortex-M7 (needs arm-none-eabi-gcc).")
    ] = False,
    base: Annotated[str, BASE] = "fixed",
    json: Annotated[bool, JSON] = False,
    listed: Annotated[bool, LIST_SYSTEMS] = False,
) -> None:
    """Write a model as C99 without dependencies: source, header, a test with vectors, README and Makefile.

    The code calls no malloc and has no globals. `make -C FOLDER test` compiles and checks it.

    Examples:

    - `heavytop export quadcopter quad_c`
    - `heavytop export my_robot.py out -f acceleration,pose:world:tool --precision float`
    """
    if listed:
        list_systems(json)
        return
    check_target(target, base, "export")
    if folder is None:
        raise fail(f"name a folder to write to: heavytop export {target} {Path(target).stem.replace(':', '-')}_c.")
    if precision not in ("double", "float"):
        raise fail(f"--precision must be double or float, got {precision!r}.")
    names = [name.strip() for name in functions.split(",") if name.strip()]
    if not names:
        raise fail("--functions names no function.")
    model = derived(load_target(target, base))
    with working("writing C"):
        paths = model.export_c(
            folder, names, precision="float" if precision == "float" else "double", footprint=footprint
        )
    if json:
        print_json({"system": model.name, "functions": names, "precision": precision, "files": paths})
        return
    for path in paths:
        console().print(str(path), highlight=False)
    console().print(f"check it with: make -C {folder} test", highlight=False)
