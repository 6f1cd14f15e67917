"""How much memory this process can still get: of the machine, of its container, of its own limit."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path


def available_memory() -> float:
    """Bytes that can still be had; infinite where nothing is known.

    >>> available_memory() > 0
    True
    """
    return min(_bounds(), default=float("inf"))


def _bounds() -> Iterator[float]:
    fields = _fields(Path("/proc/meminfo"))
    if "MemAvailable:" in fields:
        yield 1024.0 * fields["MemAvailable:"]
    elif hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        yield float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE")
    group = Path("/sys/fs/cgroup")
    for most, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        limit, present = _number(group / most), _number(group / used)
        if limit is not None and present is not None:
            yield max(limit - present, 0.0)
    if sys.platform != "win32":
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        if limit != resource.RLIM_INFINITY:
            yield max(limit - 1024.0 * _fields(Path("/proc/self/status")).get("VmSize:", 0.0), 0.0)


def _fields(path: Path) -> dict[str, float]:
    """The lines ``Name: number unit`` of a file of the kernel."""
    try:
        lines = [line.split() for line in path.read_text(encoding="ascii", errors="replace").splitlines()]
    except OSError:
        return {}
    return {line[0]: float(line[1]) for line in lines if len(line) >= 2 and line[1].isdigit()}


def _number(path: Path) -> float | None:
    try:
        return float(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
