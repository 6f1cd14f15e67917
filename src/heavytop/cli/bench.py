"""``heavytop bench``: speed on this machine, compared with other engines. The measurements are in the package ``heavytop_bench``."""

from __future__ import annotations

from dataclasses import replace
from json import dumps
from math import isfinite
from types import ModuleType
from typing import Annotated

import typer
from typer import Argument, Option

from heavytop.cli.choices import print_list
from heavytop.cli.terminal import FAILURE, fail, reported, working
from heavytop.errors import HeavytopError


class BenchMissingError(HeavytopError, ImportError):
    """The package ``heavytop_bench`` is not installed."""


def complete_benchmark(incomplete: str) -> list[str]:
    """Benchmarks and parts of benchmarks that begin with ``incomplete``."""
    try:
        registry = _registry()
    except BenchMissingError:
        return []
    names = [*registry.BENCHMARKS, *(f"{n}:{part}" for n in registry.BENCHMARKS for part in registry.parts(n))]
    return [name for name in names if name.startswith(incomplete)]


def _registry() -> ModuleType:
    try:
        from heavytop_bench import registry
    except ModuleNotFoundError as error:
        if error.name != "heavytop_bench":
            raise
        raise BenchMissingError(
            "the package heavytop_bench is not installed: pip install heavytop, or put the folder benchmarks of the source on PYTHONPATH."
        ) from None
    return registry


@reported
def bench(
    names: Annotated[
        list[str] | None,
        Argument(
            metavar="NAME...",
            help="Benchmarks or parts of them (NAME:PART); default: all.",
            autocompletion=complete_benchmark,
        ),
    ] = None,
    json: Annotated[bool, Option("--json", help="Print one JSON object with all figures and ratios.")] = False,
    list_: Annotated[bool, Option("--list", help="List the benchmarks and exit.")] = False,
    seconds: Annotated[float, Option(help="Wall time of each measurement.")] = 4.0,
    quick: Annotated[
        bool, Option("--quick", help="Only check that everything runs; the times are meaningless.")
    ] = False,
    check: Annotated[bool, Option("--check", help="Exit with code 1 if a target is missed.")] = False,
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
    registry = _registry()

    from heavytop_bench import machine
    from heavytop_bench.measure import BenchEffort

    if list_:
        listed = {name: registry.title(name) for name in registry.BENCHMARKS}
        for name in registry.BENCHMARKS:
            listed |= {f"{name}:{part}": f"a part of {name}" for part in registry.parts(name)}
        print_list(listed, json)
        return
    if not (isfinite(seconds) and seconds > 0):
        raise fail(f"--seconds must be a positive number, got {seconds:g}.")
    for name in names or ():
        registry.title(name)  # raises on an unknown name before anything is measured
    effort = BenchEffort.tiny() if quick else replace(BenchEffort(), seconds=seconds)
    show = None if json else lambda report: typer.echo(f"\n{report.text()}")
    if not json:
        typer.echo(machine.text(machine.describe()))
    with working("measuring") as report_progress:
        result = registry.run_all(names or (), replace(effort, progress=report_progress), show)
    if json:
        typer.echo(dumps(result, indent=1))
    ratios = [ratio for part in result["benchmarks"].values() for ratio in part["ratios"].values()]
    if check and any(ratio["met"] is False for ratio in ratios):
        raise typer.Exit(FAILURE)
