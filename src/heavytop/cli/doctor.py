"""``heavytop doctor``: the installation, and whether it computes correctly."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from time import perf_counter
from typing import Annotated, NamedTuple

import typer
from typer import Option

from heavytop.cli.choices import JSON
from heavytop.cli.terminal import FAILURE, console, print_json, reported

PACKAGES = ("numpy", "scipy", "casadi", "llvmlite", "sympy", "typer", "rich", "matplotlib", "xarray", "h5netcdf")


@reported
def doctor(
    clear_cache: Annotated[bool, Option("--clear-cache", help="Remove all cached native code first.")] = False,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Show versions, processor and cache folder, and check in a few seconds that the installation computes correctly.

    The exit code is 1 if a check fails.

    Examples:

    - `heavytop doctor`
    - `heavytop doctor --clear-cache`
    """
    from rich.markup import escape
    from rich.table import Table

    screen = console(stderr=json)
    if clear_cache:
        from heavytop.compile import Cache

        store = Cache()
        screen.print(f"removed {store.clear()} cached files from {store.folder}\n")
    facts = _facts()
    if not json:
        table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, pad_edge=False)
        table.add_column(style="dim")
        table.add_column()
        for row in facts.items():
            table.add_row(*map(escape, row))
        screen.print(table)
        screen.print()
    results = []
    for check in _checks():
        results.append(check)
        if not json:
            screen.print("[green]✓[/] " if check.passed else "[red]✗[/] ", end="")
            screen.print(f"{check.check}  {check.seconds:.2f} s", markup=False)
    failures = sum(not check.passed for check in results)
    if json:
        print_json({"facts": facts, "checks": [check._asdict() for check in results], "ok": not failures})
    else:
        good, bad = "[bold green]All is well.[/]", f"[bold red]{failures} of the checks failed.[/]"
        screen.print(f"\n{bad if failures else good}")
    if failures:
        raise typer.Exit(FAILURE)


def _facts() -> dict[str, str]:
    import os
    import platform

    from heavytop._version import __version__

    return {
        "heavytop": __version__,
        "Python": f"{platform.python_version()} on {platform.system()} {platform.machine()}",
        "packages": ", ".join(f"{name} {_version(name)}" for name in PACKAGES),
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "native code": _native(),
        "cache": _cache(),
        "flight stacks": _stacks(),
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def _processor() -> str:
    import platform

    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _native() -> str:
    from heavytop.compile import executable_memory, host, native_allowed
    from heavytop.errors import CompileError

    try:
        machine = host()
    except CompileError as error:
        return f"no: {error}"
    if not native_allowed():
        return "switched off: everything is interpreted"
    if not executable_memory():
        return "no: this system forbids executable memory; everything is interpreted"
    fused = ", fused multiply-add" if machine.fma else ""
    return f"LLVM {machine.llvm} for {machine.cpu}, {machine.lanes} states at a time{fused}"


def _cache() -> str:
    from heavytop.compile import Cache

    stats = Cache().stats()
    state = "" if stats.writable else ", NOT WRITABLE (set HEAVYTOP_CACHE to another folder)"
    if not stats.trusted:
        state = ", NOT USED: others can write there (chmod go-w, or set HEAVYTOP_CACHE to another folder)"
    return f"{stats.folder}: {stats.entries} entries, {stats.bytes / 2**20:.1f} of {stats.limit / 2**20:.0f} MB{state}"


def _stacks() -> str:
    from heavytop.copters import stacks

    return ", ".join(f"{name}: {state}" for name, state in stacks.found().items())


class _Result(NamedTuple):
    check: str
    passed: bool
    seconds: float


def _checks() -> Iterator[_Result]:
    from heavytop.cli.selfcheck import CHECKS

    for check in CHECKS:
        start = perf_counter()
        try:
            result = check()
            passed = result.passed
            note = f"{result.what:<38} deviation {result.deviation:.1e} (allowed {result.allowed:.0e})"
        except Exception as error:
            passed, note = False, f"{check.__name__}: {type(error).__name__}: {error}"
        yield _Result(note, passed, perf_counter() - start)
