"""Measurements of heavytop and comparisons with other engines, in one process.

A benchmark is a module with ``TITLE`` and ``run(effort, peers) -> Report``; :mod:`heavytop_bench.registry` lists them.
"""

from heavytop_bench.measure import BenchEffort as BenchEffort
from heavytop_bench.peers import Peer as Peer, Trial as Trial
from heavytop_bench.registry import BENCHMARKS as BENCHMARKS, run as run, run_all as run_all
from heavytop_bench.report import BenchReport as BenchReport, Ratio as Ratio
