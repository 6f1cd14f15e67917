"""``heavytop sweep``: run a study from a file, resume it, inspect its store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from heavytop._format import counted
from heavytop.cli.choices import JSON, PAGES, check_places, reject_others
from heavytop.cli.terminal import FAILURE, console, fail, notice, outcome_data, print_json, reported

if TYPE_CHECKING:
    from heavytop.sweep import Result

INTERRUPTED = 130
ACTIONS = {"status": (), "show": ("page", "study_file", "runs"), "rerun": ("page", "study_file", "point")}
"""Actions on a store, and the options they take."""


@reported
def sweep(
    context: typer.Context,
    target: Annotated[
        str | None,
        Argument(
            metavar="STUDY.toml|status|show|rerun",
            help="A study file, or an action on a store.",
            autocompletion=lambda incomplete: [name for name in ACTIONS if name.startswith(incomplete)],
        ),
    ] = None,
    path: Annotated[
        Path | None, Argument(metavar="STORE", help="Path of the store for status, show and rerun.")
    ] = None,
    store: Annotated[Path | None, Option(help="Zarr store to write to or resume from.")] = None,
    workers: Annotated[int | None, Option(help="Worker processes on this machine.", min=1)] = None,
    scheduler: Annotated[str | None, Option(help="Address or file of a Dask scheduler.")] = None,
    resume: Annotated[bool, Option("--resume", help="Fail if the store does not exist.")] = False,
    retry_failed: Annotated[bool, Option("--retry-failed", help="Retry chunks that failed.")] = False,
    chunk: Annotated[int | None, Option(help="Number of points per chunk.", min=1)] = None,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Check the study and print the planned work, without running it.")
    ] = False,
    page: Annotated[Path | None, Option(help="Also write a page with maps and histograms.")] = None,
    runs: Annotated[int, Option(help="With --page: also write and link 3-D pages of this many points.", min=0)] = 0,
    point: Annotated[
        list[str] | None, Option("--point", help="For rerun: NAME=VALUE of the point; may be repeated.")
    ] = None,
    study_file: Annotated[
        Path | None, Option("--study", help="For rerun and show: the study file of the store.")
    ] = None,
    list_: Annotated[bool, Option("--list", help="List the names that a study can use and exit.")] = False,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Run a study from a TOML file: a vehicle or system at many points.

    Run the same command again after an interruption: chunks in the store are not computed again.

    Examples:

    - `heavytop sweep study.toml --store study.zarr --workers 8`
    - `heavytop sweep status study.zarr`
    - `heavytop sweep show study.zarr --page study.html`
    - `heavytop sweep rerun study.zarr --study study.toml --point delay=0.02 --point draw=17 --page run.html`
    """
    check_places(page=(page, PAGES))
    if list_:
        _list(json)
        return
    if target is None:
        raise fail("give a study: heavytop sweep study.toml, or see heavytop sweep --help.")
    if point and target != "rerun":
        raise fail("--point is for rerun: heavytop sweep rerun study.zarr --study study.toml --point draw=17.")
    if target not in ACTIONS:
        _check_study(target, path, page, runs)
        own = [p.name for p in context.command.params if p.name not in ("path", "point", "study_file")]
        reject_others(context, own, "the run of a study")
        options = {"workers": workers, "scheduler": scheduler, "resume": resume, "retry_failed": retry_failed}
        _run(Path(target), store, chunk, dry_run, page, runs, json, **options)
        return
    reject_others(context, ("target", "path", "json", *ACTIONS[target]), f"heavytop sweep {target}")
    if path is None:
        raise fail(f"{target} needs a store: heavytop sweep {target} study.zarr.")
    if not path.exists():
        raise fail(f"the store {str(path)!r} does not exist. heavytop sweep study.toml --store {path} makes it.")
    if target == "status":
        _status(path, json)
    elif target == "show":
        _show(path, page or Path(f"{path.stem}.html"), study_file, runs, json)
    else:
        _rerun(path, study_file, point or [], page, json)


def _check_study(target: str, path: Path | None, page: Path | None, runs: int) -> None:
    """Reject a target that is not a study, and options that contradict each other, before anything is read."""
    if path is not None and target.lower().endswith(".toml"):
        raise fail(f"a study names its store by an option: heavytop sweep {target} --store {path}.")
    if not target.lower().endswith(".toml") and not Path(target).is_file():
        from heavytop.errors import did_you_mean

        near = did_you_mean(target, ACTIONS)
        raise fail(f"{target!r} is neither a study (a TOML file) nor one of {', '.join(ACTIONS)}.{near}")
    if runs and page is None:
        raise fail("--runs links 3-D pages on the page of the study: --page study.html --runs 3.")


def _list(json: bool) -> None:
    from heavytop.sweep import listed

    if json:
        print_json(dict(listed()))
        return
    for title, names in listed().items():
        typer.echo(f"{title}:\n  {', '.join(names)}")


def _run(
    file: Path,
    store: Path | None,
    chunk: int | None,
    dry_run: bool,
    page: Path | None,
    runs: int,
    json: bool,
    *,
    workers: int | None,
    scheduler: str | None,
    resume: bool,
    retry_failed: bool,
) -> None:
    from heavytop.sweep import load_study, run_study

    if resume and store is None:
        raise fail("--resume needs a store: --store study.zarr.")
    if resume and store is not None and not store.exists():
        raise fail(f"--resume needs an existing store; {store} does not exist.")
    if workers is not None and scheduler is not None:
        raise fail("give either --workers (on this machine) or --scheduler (a cluster), not both.")
    made = load_study(file, chunk)
    made.check()
    study = made.study
    if dry_run:
        _plan(made.title, study, store, json)
        return
    client: Any = scheduler or ("local" if workers else None)
    try:
        result = run_study(study, store, client, workers=workers, retry_failed=retry_failed)
    except KeyboardInterrupt:
        if store is not None and store.exists():
            notice(f"interrupted. Run the same command again to do the rest: {_progress(store)}.")
        else:
            notice("interrupted. With --store, finished work is kept.")
        raise typer.Exit(INTERRUPTED) from None
    shown = None if page is None else result.show(page, runs)
    if json:
        print_json({"title": made.title, **_facts(result), "store": store, "page": shown})
    else:
        _summary(made.title, result)
        if shown is not None:
            typer.echo(f"page:  {shown}")
        if store is not None:
            typer.echo(f"store: {store}")
    if result.outcomes().get("failed"):
        raise typer.Exit(FAILURE)


def _facts(result: Result) -> dict[str, Any]:
    """Size of a result, outcomes of its points, spread of its measures."""
    measures = {
        name: {"least": s.least, "median": s.median, "largest": s.largest, "mean": s.mean, "unit": unit}
        for name, unit, s in _spreads(result)
    }
    ended = {"outcomes": result.outcomes(), "causes": result.causes()}
    return {"points": result.points, "dimensions": dict(result.data.sizes), **ended, "measures": measures}


def _spreads(result: Result) -> Iterator[tuple[str, str, Any]]:
    """Name, unit and spread of every measure with one number per point."""
    from heavytop.sweep import spread

    for name, array in result.data.data_vars.items():
        if name in ("outcome", "end_time", "cause") or array.dims != result.dims:
            continue
        found = spread(result, str(name))
        if found is not None:
            yield str(name), str(array.attrs.get("units", "")), found


def _plan(title: str, study: Any, store: Path | None, json: bool) -> None:
    from heavytop.sweep import DRAW, Store

    grid, chunks, apart = study.grid, study.chunks, study.cases.apart
    if store is not None and store.exists():
        Store(store).check(study)
    if json:
        print_json({"title": title, "points": grid.points, "dimensions": grid.sizes, "chunks": len(chunks)})
        return
    axes = (counted(n, d) if d == DRAW else f"{n} {d}" for d, n in grid.sizes.items())
    typer.echo(f"{title}: {grid.points:,} points, {' x '.join(axes) or 'one'}")
    typer.echo(f"chunks: {len(chunks):,} of at most {' x '.join(map(str, chunks.size)) or 1} points")
    together = ", ".join(n for n in grid.variables if n not in apart) or "nothing"
    typer.echo(f"in one native batch: {together}; apart: {', '.join(apart) or 'nothing'}")
    typer.echo(f"measured: {', '.join(f'{n} [{e.unit}]' if e.unit else n for n, e in study.layout.items())}")
    if store is not None and store.exists():
        typer.echo(f"store: {_progress(store)}")


def _progress(store: Path) -> str:
    from heavytop.sweep import DONE, GIVEN_UP, Store

    marks = Store(store).marks()
    given_up = int((marks == GIVEN_UP).sum())
    return f"{int((marks == DONE).sum()):,} of {len(marks):,} chunks are done" + (
        f", {given_up:,} were given up" if given_up else ""
    )


def _status(path: Path, json: bool) -> None:
    from heavytop.sweep import DONE, GIVEN_UP, Store, open_result

    store = Store(path)
    if json:
        marks = store.marks()
        chunks = {"all": len(marks), "done": (marks == DONE).sum(), "given_up": (marks == GIVEN_UP).sum()}
        print_json({"store": path, "chunks": chunks, **_facts(open_result(path)), "study": store.lines})
        return
    typer.echo(_progress(path))
    _outcomes(open_result(path))
    typer.echo("study:")
    for line in store.lines:
        typer.echo(f"  {line}")


def _outcomes(result: Result) -> None:
    typer.echo(", ".join(f"{name}: {count:,}" for name, count in result.outcomes().items()))
    for text, count in list(result.causes().items())[:5]:
        typer.echo(f"  {count:,} x {text}")


def _summary(title: str, result: Result) -> None:
    from rich.markup import escape
    from rich.table import Table

    from heavytop.sweep import SAMPLE

    table = Table("measure", title=f"{title}: {result.points:,} points", title_justify="left")
    for column in ("least", "median" if result.points <= SAMPLE else "median (of a sample)", "largest", "mean"):
        table.add_column(column, justify="right")
    for name, unit, found in _spreads(result):
        cells = (found.least, found.median, found.largest, found.mean)
        noise = 1e-14 * max(abs(found.least), abs(found.largest))
        shown = (0.0 if abs(c) <= noise else c for c in cells)
        table.add_row(escape(f"{name} [{unit}]" if unit else name), *(f"{c:.4g}" for c in shown))
    console().print(table)
    _outcomes(result)


def _with_study(path: Path, study_file: Path | None) -> Result:
    from heavytop.sweep import Store, load_study, open_result

    if study_file is None:
        return open_result(path)
    study = load_study(study_file).study
    Store(path).check(study)
    return open_result(path, study)


def _show(path: Path, page: Path, study_file: Path | None, runs: int, json: bool) -> None:
    if runs and study_file is None:
        raise fail("--runs needs the study of the store: --study study.toml.")
    result = _with_study(path, study_file)
    shown = result.show(page, runs)
    if json:
        print_json({"store": path, **_facts(result), "page": shown})
    else:
        typer.echo(f"page: {shown}")


def _rerun(path: Path, study_file: Path | None, point: list[str], page: Path | None, json: bool) -> None:
    if study_file is None:
        raise fail("rerun needs the study of the store: --study study.toml.")
    result = _with_study(path, study_file)
    chosen: dict[str, Any] = {}
    for text in point:
        name, equals, value = text.partition("=")
        if not equals:
            raise fail(f"--point takes NAME=VALUE, got {text!r}.")
        chosen[name] = value
    run = result.rerun(**chosen)
    made = run if hasattr(run, "outcome") else run.run
    shown = None if page is None else run.show(page)
    at = {name: point[0] for name, point in result.study.at(result.place(**chosen)).items()}  # pyright: ignore
    if json:
        print_json({"store": path, "point": at, "outcome": outcome_data(made.outcome), "page": shown})
        return
    typer.echo(
        ", ".join(f"{n} = {value:g}" if isinstance(value, float) else f"{n} = {value}" for n, value in at.items())
    )
    typer.echo(str(made.outcome))
    if shown is not None:
        typer.echo(f"page: {shown}")
