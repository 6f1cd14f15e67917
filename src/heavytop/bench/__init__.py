"""Measurements of the library itself and against other engines, in one process.

A benchmark is a module with ``TITLE`` and ``run(effort) -> Report``; :mod:`heavytop.bench.registry` lists them.
"""

from heavytop.bench.measure import Effort as Effort
