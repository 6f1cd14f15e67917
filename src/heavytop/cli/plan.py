"""``heavytop plan``: an optimal motion from a study or a ready-made problem."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from heavytop._files import NETCDF
from heavytop.cli.choices import JSON, PAGES, check_places, complete_problem, print_list
from heavytop.cli.terminal import FAILURE, fail, print_json, reported, working


@reported
def plan(
    study: Annotated[
        str,
        Argument(
            metavar="STUDY.toml|PROBLEM",
            help="A TOML file or the name of a built-in problem.",
            autocompletion=complete_problem,
        ),
    ] = "",
    out: Annotated[Path | None, Option("--out", "-o", help="Write an HTML page with the motion.")] = None,
    save: Annotated[Path | None, Option(help="Write the motion as netCDF.")] = None,
    tolerance: Annotated[float | None, Option(help="Largest allowed defect in an interval.")] = None,
    listed: Annotated[bool, Option("--list", help="List the built-in problems.")] = False,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Plan an optimal motion and report its duration, cost, accuracy and active limits.

    Examples:

    - `heavytop plan gates --out gates.html`
    - `heavytop plan my_study.toml --save motion.nc`
    - `heavytop plan --list`
    """
    from heavytop.plan import InfeasibleError, problems, read_study

    if listed or not study:
        first = {name: (make.__doc__ or "").strip().splitlines()[0] for name, make in problems.PROBLEMS.items()}
        print_list({name: line.replace("``", "") for name, line in first.items()}, json)
        return
    check_places(out=(out, PAGES), save=(save, NETCDF))
    if tolerance is not None and not 0 < tolerance < float("inf"):
        raise fail(f"--tolerance must be a positive number, got {tolerance:g}.")
    if study.lower().endswith(".toml"):
        if not Path(study).is_file():
            raise fail(f"the file {study!r} does not exist.")
        task = read_study(study)
    else:
        task = problems.load(study)
    try:
        with working(f"planning {study}"):
            found = task.plan(**({} if tolerance is None else {"tolerance": tolerance}))
    except InfeasibleError as error:
        raise fail(str(error), FAILURE) from None
    if not json:
        typer.echo(found.report())
    if save is not None:
        found.run().save(save)
    if out is not None:
        from heavytop.show import write_page
        from heavytop.show.plan_report import plan_report

        with working("writing the page"):
            write_page(plan_report(found), out)
    if json:
        facts = ("duration", "cost", "iterations", "accuracy", "converged", "message")
        held = [{"label": item.label, "from": item.times[0], "to": item.times[-1]} for item in found.active]
        content = {name: getattr(found, name) for name in facts}
        print_json({"system": found.model.name, **content, "held_by": held, "files": [p for p in (save, out) if p]})
    else:
        for path in filter(None, (save, out)):
            typer.echo(f"wrote {path}")
    if not found.converged:
        raise typer.Exit(FAILURE)
