"""``heavytop bench``: how fast it is here, beside other engines."""

from __future__ import annotations

from typing import Annotated

import typer

from heavytop.cli.choices import complete_benchmark, print_list
from heavytop.cli.terminal import FAILURE, fail, reported, working


@reported
def bench(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME...",
            help="Benchmarks, or parts of them (NAME:PART); all of them if none is named.",
            autocompletion=complete_benchmark,
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object with all figures and ratios.")] = False,
    list_: Annotated[bool, typer.Option("--list", help="List the benchmarks and exit.")] = False,
    seconds: Annotated[float, typer.Option(help="Wall time of each measurement.")] = 4.0,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only check that everything runs; the times mean nothing.")
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Exit code 1 if a target is missed.")] = False,
) -> None:
    """Measure speed on this machine, against the targets and, where installed, against Pinocchio and MuJoCo.

    Every engine gets the same parameters and states; none is timed before its accelerations were found equal to 1e-9.
    Close other programs first: times are the best of many short blocks, but a busy machine still disturbs them.

    Examples:

    - `heavytop bench forward`
    - `heavytop bench plan:speed` (one part; the whole of `plan` takes minutes)
    - `heavytop bench --json > bench.json`
    - `heavytop bench --list`
    """
    from dataclasses import replace
    from math import isfinite

    from heavytop.bench import machine
    from heavytop.bench.measure import BenchEffort
    from heavytop.bench.registry import BENCHMARKS, parts, run_all, title

    if list_:
        listed = {name: title(name) for name in BENCHMARKS}
        print_list(
            listed | {f"{name}:{part}": f"a part of {name}" for name in BENCHMARKS for part in parts(name)}, json
        )
        return
    if not (isfinite(seconds) and seconds > 0):
        raise fail(f"--seconds must be a positive number, got {seconds:g}.")
    for name in names or ():
        title(name)  # an unknown name is refused before anything is measured
    effort = BenchEffort.tiny() if quick else replace(BenchEffort(), seconds=seconds)
    if json:
        from json import dumps

        with working("measuring") as tell:
            result = run_all(names or (), replace(effort, tell=tell))
        typer.echo(dumps(result, indent=1))
    else:
        typer.echo(machine.text(machine.describe()))
        with working("measuring") as tell:
            result = run_all(names or (), replace(effort, tell=tell), lambda report: typer.echo(f"\n{report.text()}"))
    ratios = [ratio for part in result["benchmarks"].values() for ratio in part["ratios"].values()]
    if check and any(ratio["met"] is False for ratio in ratios):
        raise typer.Exit(FAILURE)
