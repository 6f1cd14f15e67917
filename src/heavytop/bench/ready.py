"""How long a user waits: import, first acceleration of a new model, and of one met before in an earlier process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from heavytop.bench.measure import BenchEffort
from heavytop.bench.peers import Peer
from heavytop.bench.report import BenchReport
from heavytop.errors import HeavytopError

TITLE = "tricopter with load in a new process, seconds"
LIMITS = {"import": 0.6, "cached": 0.150, "uncached": 1.5}
ROUNDS = 5

# the benchmark's own imports are done before the clock starts: a user's script would hold the description itself
SCRIPT = """
import time
start = time.perf_counter()
import heavytop
imported = time.perf_counter() - start
from heavytop.bench.trees import tricopter_load
import numpy as np
tree = tricopter_load()
start = time.perf_counter()
model = tree.derive()
model.acceleration(model.neutral(), np.zeros(model.nv))
first = time.perf_counter() - start
import json
print(json.dumps({"import": imported, "first": first, "cache_hit": model.compiled("acceleration").stats().cache_hit}))
"""


def run(effort: BenchEffort, peers: Sequence[Peer] | None = None) -> BenchReport:
    """Start processes with an empty cache and then with a filled one; the best of a few. No peer takes part."""
    report = BenchReport("ready", TITLE)
    rounds = 1 if effort.seconds == 0 else ROUNDS
    results: dict[str, list[float]] = {name: [] for name in LIMITS}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            for kind in ("uncached", "cached"):
                figures = _process(folder)
                if figures["cache_hit"] != (kind == "cached"):
                    raise HeavytopError(f"the {kind} process found the cache in the other state.")
                results[kind].append(figures["first"])
                results["import"].append(figures["import"])
    for name, limit in LIMITS.items():
        report.row(what=name, best_s=min(results[name]), worst_s=max(results[name]))
        report.limit(name, min(results[name]), limit, "s")
    report.notes.append(
        "uncached and cached: from the description to the first acceleration, after the import; wall time."
    )
    return report


def _process(folder: str) -> dict:
    """Figures of one fresh process that keeps compiled code in ``folder``."""
    source = str(Path(__file__).parents[2])
    paths = [source, *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = {**os.environ, "HEAVYTOP_CACHE": folder, "PYTHONPATH": os.pathsep.join(paths)}
    done = subprocess.run([sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise HeavytopError(f"a fresh process failed:\n{done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])
