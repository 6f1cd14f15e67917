"""How long a user waits: import, first acceleration of a new model, and of one met before in an earlier process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import heavytop
from heavytop.errors import HeavytopError
from heavytop_bench.measure import BenchEffort
from heavytop_bench.peers import Peer
from heavytop_bench.report import BenchReport
from heavytop_bench.robots import robots_folder

TITLE = "tricopter with load, and a humanoid from its file, in a new process, seconds"
LIMITS = {"import": 0.6, "cached": 0.150, "uncached": 1.5}
HUMANOID = "g1_description/urdf/g1_29dof_with_hand_rev_1_0.urdf"
"""A robot of example-robot-data with 49 degrees of freedom."""
HUMANOID_LIMITS = {"humanoid, cached": 0.3, "humanoid, uncached": 3.0}
ROUNDS = 5

# the benchmark's own imports are done before the clock starts: a user's script would hold the description itself
SCRIPT = """
import time
start = time.perf_counter()
import heavytop
imported = time.perf_counter() - start
from heavytop_bench.trees import tricopter_load
import numpy as np
tree = tricopter_load()
start = time.perf_counter()
model = tree.derive()
model.acceleration(model.neutral(), np.zeros(model.nv))
first = time.perf_counter() - start
import json
print(json.dumps({"import": imported, "first": first, "cache_hit": model.compiled("acceleration").stats().cache_hit}))
"""

# from the file to the first acceleration, with the imports that it takes
HUMANOID_SCRIPT = """
import time
import heavytop
import numpy as np
start = time.perf_counter()
model = heavytop.load({file!r}, base="free").derive()
model.acceleration(model.neutral(), np.zeros(model.nv))
first = time.perf_counter() - start
import json
print(json.dumps({{"first": first, "cache_hit": model.compiled("acceleration").stats().cache_hit}}))
"""


def run(effort: BenchEffort, peers: Sequence[Peer] | None = None) -> BenchReport:
    """Start processes with an empty cache and then with a filled one; the best of a few. No peer takes part."""
    report = BenchReport("ready", TITLE)
    rounds = 1 if effort.seconds == 0 else ROUNDS
    results: dict[str, list[float]] = {name: [] for name in LIMITS}
    for kind, figures in _rounds(SCRIPT, rounds):
        results[kind].append(figures["first"])
        results["import"].append(figures["import"])
    limits, robots = dict(LIMITS), robots_folder()
    if robots is None:
        report.missing.append("example-robot-data")
    else:
        limits |= HUMANOID_LIMITS
        for kind, figures in _rounds(HUMANOID_SCRIPT.format(file=str(robots / HUMANOID)), rounds):
            results.setdefault(f"humanoid, {kind}", []).append(figures["first"])
    for name, limit in limits.items():
        report.row(what=name, best_s=min(results[name]), worst_s=max(results[name]))
        report.limit(name, min(results[name]), limit, "s")
    report.notes.append(
        "uncached and cached: from the description to the first acceleration, after the import; wall time."
    )
    report.notes.append("humanoid: from its URDF file to the first acceleration, 49 degrees of freedom.")
    return report


def _rounds(script: str, rounds: int) -> Iterator[tuple[str, dict]]:
    """Figures of processes with an empty cache ("uncached") and with the one that those filled."""
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            for kind in ("uncached", "cached"):
                figures = _process(folder, script)
                if figures["cache_hit"] != (kind == "cached"):
                    raise HeavytopError(f"the {kind} process found the cache in the other state.")
                yield kind, figures


def _process(folder: str, script: str) -> dict:
    """Figures of one fresh process that keeps compiled code in ``folder``."""
    packages = [str(Path(file).parents[1]) for file in (heavytop.__file__, __file__)]
    paths = [*packages, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "HEAVYTOP_CACHE": folder, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise HeavytopError(f"a fresh process failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])
