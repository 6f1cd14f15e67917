"""``heavytop doctor``: what is installed, and whether it computes right."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from heavytop.cli.choices import JSON
from heavytop.cli.terminal import FAILURE, console, reported

if TYPE_CHECKING:
    from rich.console import Console

PACKAGES = ("numpy", "scipy", "casadi", "llvmlite", "sympy", "typer", "rich", "xarray", "h5netcdf", "matplotlib", "k3d")


@reported
def doctor(
    clear_cache: Annotated[bool, typer.Option("--clear-cache", help="Remove all cached native code first.")] = False,
    json: Annotated[bool, JSON] = False,
) -> None:
    """Show versions, processor and cache folder, and check in a few seconds that the installation computes right.

    The exit code is 1 if a check fails.

    Examples:

    - `heavytop doctor`
    - `heavytop doctor --clear-cache`
    """
    screen = console(stderr=json)
    if clear_cache:
        from heavytop.compile import Cache

        store = Cache()
        screen.print(f"removed {store.clear()} cached files from {store.folder}\n")
    facts = _facts()
    if json:
        from heavytop.cli.data import print_json

        done = list(_checks())
        checks = [{"check": check.note, "passed": check.passed, "seconds": check.seconds} for check in done]
        print_json({"facts": dict(facts), "checks": checks, "ok": all(check.passed for check in done)})
        failures = sum(not check.passed for check in done)
    else:
        failures = _print(screen, facts)
    if failures:
        raise typer.Exit(FAILURE)


def _print(screen: Console, facts: list[tuple[str, str]]) -> int:
    """Print the facts, then a line for each check as it is done; the number of failures."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, pad_edge=False)
    table.add_column(style="dim")
    table.add_column()
    for label, value in facts:
        table.add_row(label, value)
    screen.print(table)
    screen.print()
    failures = 0
    for check in _checks():
        failures += not check.passed
        screen.print("[green]✓[/] " if check.passed else "[red]✗[/] ", end="")
        screen.print(f"{check.note}  {check.seconds:.2f} s", markup=False)
    screen.print(f"\n[bold red]{failures} of the checks failed.[/]" if failures else "\n[bold green]All is well.[/]")
    return failures


def _facts() -> list[tuple[str, str]]:
    import os
    import platform

    from heavytop._version import __version__

    packages = ", ".join(f"{name} {_version(name)}" for name in PACKAGES)
    return [
        ("heavytop", __version__),
        ("Python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        ("packages", packages),
        ("processor", f"{_processor()}, {os.cpu_count()} cores"),
        ("native code", _native()),
        ("cache", _cache()),
    ]


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "(missing)"


def _processor() -> str:
    import platform

    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def _native() -> str:
    from heavytop.compile.jit import executable_memory, host, native_allowed
    from heavytop.errors import CompileError

    try:
        machine = host()
    except CompileError as error:
        return f"no: {error}"
    if not native_allowed():
        return "switched off: everything is interpreted"
    if not executable_memory():
        return "no: this system forbids executable memory; everything is interpreted"
    return f"LLVM {machine.llvm} for {machine.cpu}, {machine.lanes} states at a time" + (
        ", fused multiply-add" if machine.fma else ""
    )


def _cache() -> str:
    from heavytop.compile import Cache

    stats = Cache().stats()
    state = "" if stats.writable else ", NOT WRITABLE (set HEAVYTOP_CACHE to another folder)"
    if not stats.trusted:
        state = ", NOT USED: others can write there (chmod go-w, or set HEAVYTOP_CACHE to another folder)"
    return f"{stats.folder}: {stats.entries} entries, {stats.bytes / 2**20:.1f} of {stats.limit / 2**20:.0f} MB{state}"


class _Check(NamedTuple):
    note: str
    passed: bool
    seconds: float


def _checks() -> Iterator[_Check]:
    """The checks, one after the other."""
    from heavytop.cli.selfcheck import CHECKS

    for check in CHECKS:
        start = perf_counter()
        try:
            result = check()
            passed = result.passed
            note = f"{result.what:<38} deviation {result.deviation:.1e} (allowed {result.allowed:.0e})"
        except Exception as error:
            passed, note = False, f"{check.__name__}: {type(error).__name__}: {error}"
        yield _Check(note, passed, perf_counter() - start)
