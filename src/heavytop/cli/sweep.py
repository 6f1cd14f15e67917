"""``heavytop sweep``: run a study that is written in a file, resume it, look at it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from heavytop.cli.choices import JSON, check_places, refuse_others
from heavytop.cli.terminal import FAILURE, console, fail, notice, reported

if TYPE_CHECKING:
    from heavytop.sweep import Result

INTERRUPTED = 130
ACTIONS = {"status": (), "show": ("page", "study_file", "runs"), "rerun": ("page", "study_file", "point")}
"""What can be done with a store, and the options it takes."""


@reported
def sweep(
    context: typer.Context,
    target: Annotated[
        str | None,
        typer.Argument(
            metavar="STUDY.toml|status|show|rerun",
            help="A study, or what to do with a store.",
            autocompletion=lambda incomplete: [name for name in ACTIONS if name.startswith(incomplete)],
        ),
    ] = None,
    path: Annotated[Path | None, typer.Argument(metavar="STORE", help="Store, for status, show and rerun.")] = None,
    store: Annotated[Path | None, typer.Option("--store", help="Zarr store to write to, and to resume from.")] = None,
    workers: Annotated[int | None, typer.Option("--workers", help="Worker processes on this machine.", min=1)] = None,
    scheduler: Annotated[str | None, typer.Option("--scheduler", help="Address or file of a Dask scheduler.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Require that the store exists.")] = False,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Retry chunks that were given up.")] = False,
    chunk: Annotated[int | None, typer.Option("--chunk", help="Points of one piece of work.", min=1)] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check the study and say what would be done.")] = False,
    page: Annotated[Path | None, typer.Option("--page", help="Also write a page with maps and histograms.")] = None,
    runs: Annotated[int, typer.Option("--runs", help="With --page: link 3-D pages of this many points.", min=0)] = 0,
    point: Annotated[
        list[str] | None, typer.Option("--point", help="For rerun: NAME=VALUE of the point; repeat for several.")
    ] = None,
    study_file: Annotated[
        Path | None, typer.Option("--study", help="For rerun and show: the study of the store.")
    ] = None,
    list_: Annotated[bool, typer.Option("--list", help="List what a study can name and exit.")] = False,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Run a study: a vehicle or system at many points, with what varies and what is measured in a TOML file.

    Run the same command again after an interruption: what is in the store is not done again.

    Examples:

    - `heavytop sweep study.toml --store study.zarr --workers 8`
    - `heavytop sweep status study.zarr`
    - `heavytop sweep show study.zarr --page study.html`
    - `heavytop sweep rerun study.zarr --study study.toml --point delay=0.02 --point draw=17 --page run.html`
    """
    check_places(page=(page, (".html", ".htm")))
    if list_:
        _list(json)
        return
    if target is None:
        raise fail("give a study: heavytop sweep study.toml, or see heavytop sweep --help.")
    _check_together(target, path, point, page, runs)
    if target in ACTIONS:
        refuse_others(context, ("target", "path", "json", *ACTIONS[target]), f"heavytop sweep {target}")
    else:
        own = [p.name for p in context.command.params if p.name not in ("path", "point", "study_file")]
        refuse_others(context, own, "a study that is run")
    if target == "status":
        _status(_needed(path, "status"), json)
    elif target == "show":
        _show(_needed(path, "show"), page or Path(f"{_needed(path, 'show').stem}.html"), study_file, runs, json)
    elif target == "rerun":
        _rerun(_needed(path, "rerun"), study_file, point or [], page, json)
    else:
        _run(Path(target), store, workers, scheduler, resume, retry_failed, chunk, dry_run, page, runs, json)


def _check_together(target: str, path: Path | None, point: list[str] | None, page: Path | None, runs: int) -> None:
    """Refuse what means nothing together, before anything is read."""
    if target not in ACTIONS:
        if path is not None and target.lower().endswith(".toml"):
            raise fail(f"a study names its store by an option: heavytop sweep {target} --store {path}.")
        if not target.lower().endswith(".toml") and not Path(target).is_file():
            from heavytop.errors import did_you_mean

            near = did_you_mean(target, ACTIONS)
            raise fail(f"{target!r} is neither a study (a TOML file) nor one of {', '.join(ACTIONS)}.{near}")
        if runs and page is None:
            raise fail("--runs links 3-D pages on the page of the study: --page study.html --runs 3.")
    if point and target != "rerun":
        raise fail("--point is for rerun: heavytop sweep rerun study.zarr --study study.toml --point draw=17.")


def _needed(path: Path | None, what: str) -> Path:
    if path is None:
        raise fail(f"{what} needs a store: heavytop sweep {what} study.zarr.")
    if not path.exists():
        raise fail(f"there is no store {str(path)!r}. heavytop sweep study.toml --store {path} makes it.")
    return path


def _list(json: bool) -> None:
    from heavytop.sweep.study_file import listed

    if json:
        _print_json(dict(listed()))
        return
    for title, names in listed().items():
        typer.echo(f"{title}:\n  {', '.join(names)}")


def _run(
    file: Path,
    store: Path | None,
    workers: int | None,
    scheduler: str | None,
    resume: bool,
    retry_failed: bool,
    chunk: int | None,
    dry_run: bool,
    page: Path | None,
    runs: int,
    json: bool,
) -> None:
    from heavytop.sweep import run_study
    from heavytop.sweep.study_file import load_study

    if resume and (store is None or not store.exists()):
        raise fail(
            "--resume needs a store: --store study.zarr."
            if store is None
            else f"--resume needs an existing store; {store} does not exist."
        )
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
        _print_json({"title": made.title, **_facts(result), "store": store, "page": shown})
    else:
        _summary(made.title, result)
        if shown is not None:
            typer.echo(f"page:  {shown}")
        if store is not None:
            typer.echo(f"store: {store}")
    if result.outcomes().get("failed"):
        raise typer.Exit(FAILURE)


def _print_json(content: dict[str, Any]) -> None:
    from heavytop.cli.data import print_json

    print_json(content)


def _facts(result: Result) -> dict[str, Any]:
    """What --json tells of a result: its size, how its points ended, and the spread of its measures."""
    measures = {
        name: {"least": s.least, "median": s.median, "largest": s.largest, "mean": s.mean, "unit": unit}
        for name, unit, s in _spreads(result)
    }
    ended = {"outcomes": result.outcomes(), "causes": result.causes()}
    return {"points": result.points, "dimensions": dict(result.data.sizes), **ended, "measures": measures}


def _spreads(result: Result) -> Iterator[tuple[str, str, Any]]:
    """Name, unit and spread of every measure with one number for each point."""
    from heavytop.sweep.reductions import spread

    for name, array in result.data.data_vars.items():
        if name in ("outcome", "end_time", "cause") or array.dims != result.dims:
            continue
        found = spread(result, str(name))
        if found is not None:
            yield str(name), str(array.attrs.get("units", "")), found


def _plan(title: str, study: Any, store: Path | None, json: bool) -> None:
    from heavytop.sweep.store import Store

    chunks = study.chunks
    if json:
        if store is not None and store.exists():
            Store(store).check(study)
        _print_json(
            {"title": title, "points": study.grid.points, "dimensions": study.grid.sizes, "chunks": len(chunks)}
        )
        return
    typer.echo(
        f"{title}: {study.grid.points:,} points, {' x '.join(f'{n} {d}' for d, n in study.grid.sizes.items()) or 'one'}"
    )
    typer.echo(f"chunks: {len(chunks):,} of at most {' x '.join(map(str, chunks.size)) or 1} points")
    apart = study.cases.apart
    typer.echo(
        f"in one native batch: {', '.join(n for n in study.grid.variables if n not in apart) or 'nothing'}; apart: {', '.join(apart) or 'nothing'}"
    )
    measured = ", ".join(f"{n}{f' [{e.unit}]' if e.unit else ''}" for n, e in study.layout.items())
    typer.echo(f"measured: {measured}")
    if store is not None and store.exists():
        Store(store).check(study)
        typer.echo(f"store: {_progress(store)}")


def _progress(store: Path) -> str:
    from heavytop.sweep.store import DONE, GIVEN_UP, Store

    marks = Store(store).marks()
    given_up = int((marks == GIVEN_UP).sum())
    return f"{int((marks == DONE).sum()):,} of {len(marks):,} chunks are done" + (
        f", {given_up:,} were given up" if given_up else ""
    )


def _status(path: Path, json: bool) -> None:
    from heavytop.sweep import open_result
    from heavytop.sweep.store import DONE, GIVEN_UP, Store

    if json:
        marks = Store(path).marks()
        chunks = {"all": len(marks), "done": (marks == DONE).sum(), "given_up": (marks == GIVEN_UP).sum()}
        _print_json({"store": path, "chunks": chunks, **_facts(open_result(path)), "study": Store(path).lines})
        return
    typer.echo(_progress(path))
    result = open_result(path)
    _outcomes(result)
    typer.echo("study:")
    for line in Store(path).lines:
        typer.echo(f"  {line}")


def _outcomes(result: Result) -> None:
    typer.echo(", ".join(f"{name}: {count:,}" for name, count in result.outcomes().items()))
    for text, count in list(result.causes().items())[:5]:
        typer.echo(f"  {count:,} x {text}")


def _summary(title: str, result: Result) -> None:
    from rich.markup import escape
    from rich.table import Table

    from heavytop.sweep.reductions import SAMPLE

    table = Table(title=f"{title}: {result.points:,} points", title_justify="left")
    for column, justify in (
        ("measure", "left"),
        ("least", "right"),
        ("median" if result.points <= SAMPLE else "median (of a sample)", "right"),
        ("largest", "right"),
        ("mean", "right"),
    ):
        table.add_column(column, justify=justify)  # pyright: ignore
    for name, unit, found in _spreads(result):
        cells = (found.least, found.median, found.largest, found.mean)
        noise = 1e-14 * max(abs(found.least), abs(found.largest))
        shown = (0.0 if abs(c) <= noise else c for c in cells)
        table.add_row(escape(f"{name} [{unit}]" if unit else name), *(f"{c:.4g}" for c in shown))
    console().print(table)
    _outcomes(result)


def _with_study(path: Path, study_file: Path | None) -> Result:
    from heavytop.sweep import open_result
    from heavytop.sweep.store import Store
    from heavytop.sweep.study_file import load_study

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
        _print_json({"store": path, **_facts(result), "page": shown})
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
        from heavytop.cli.data import outcome_data

        _print_json({"store": path, "point": at, "outcome": outcome_data(made.outcome), "page": shown})
        return
    typer.echo(
        ", ".join(
            f"{name} = {value:g}" if isinstance(value, float) else f"{name} = {value}" for name, value in at.items()
        )
    )
    typer.echo(str(made.outcome))
    if shown is not None:
        typer.echo(f"page: {shown}")
