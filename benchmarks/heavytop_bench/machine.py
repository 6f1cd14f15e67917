"""The machine and the versions of a benchmark."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any

from heavytop._version import __version__
from heavytop.compile import host
from heavytop.errors import CompileError
from heavytop_bench.peers import versions

BUSY = 0.75
"""Load average per core above which a report notes other work; a benchmark takes one core."""
LIBRARIES = ("numpy", "casadi", "llvmlite")


def processor() -> str:
    """The name of the processor."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def describe() -> dict[str, Any]:
    """Processor, cores, load and versions, as plain data."""
    try:
        native = f"{host().triple} {host().cpu}, {host().lanes} lanes, LLVM {host().llvm}"
    except CompileError as error:
        native = f"none: {error}"
    return {
        "processor": processor(),
        "native": native,
        "cores": os.cpu_count(),
        "load_average": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
        "system": platform.platform(),
        "python": platform.python_version(),
        "heavytop": __version__,
        "libraries": {name: version(name) for name in LIBRARIES},
        "peers": versions(),
    }


def other_work() -> str:
    """A note that other work is running, which makes times longer; empty otherwise."""
    if not hasattr(os, "getloadavg"):
        return ""
    load, cores = os.getloadavg()[0], os.cpu_count() or 1
    if load < BUSY * cores:
        return ""
    return f"measured during other work (load average {load:.1f} on {cores} cores at the start): all times may be too long."


def text(machine: dict[str, Any]) -> str:
    """The same in three lines."""
    load = machine["load_average"]
    busy = "unknown" if load is None else f"{load[0]:.2f}"
    libraries = {"heavytop": machine["heavytop"], **machine["libraries"], **machine["peers"]}
    return "\n".join(
        [
            f"{machine['processor']} ({machine['native']}), {machine['cores']} cores, load average {busy} at the start",
            f"{machine['system']}, Python {machine['python']}",
            ", ".join(f"{name} {number}" for name, number in libraries.items()),
        ]
    )
