"""Measurements of the library itself and against other engines, in one process.

A benchmark is a module with ``TITLE`` and ``run(effort, peers) -> Report``; :mod:`heavytop.bench.registry` lists them.
"""

from heavytop.bench.measure import BenchEffort as BenchEffort
from heavytop.bench.peers import Peer as Peer
from heavytop.bench.peers import Trial as Trial
from heavytop.bench.registry import BENCHMARKS as BENCHMARKS
from heavytop.bench.registry import run as run
from heavytop.bench.registry import run_all as run_all
from heavytop.bench.report import BenchReport as BenchReport
from heavytop.bench.report import Ratio as Ratio
