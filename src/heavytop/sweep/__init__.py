"""Sweeps: many runs at the points of a grid or of draws, in native batches, in one process or on a cluster, into a store that survives.

``heavytop.sweep`` is the function as well as this package: the package can be called.
"""

import sys
from inspect import signature
from types import ModuleType

from heavytop.sweep.adaptive import Boundary as Boundary, Quantile as Quantile, quantile as quantile, refine as refine
from heavytop.sweep.api import (
    SlowSweepWarning as SlowSweepWarning,
    make_study as make_study,
    run_study as run_study,
    sweep as sweep,
)
from heavytop.sweep.cluster import NoWorkersWarning as NoWorkersWarning
from heavytop.sweep.distributions import (
    Distribution as Distribution,
    attitude as attitude,
    choice as choice,
    normal as normal,
    uniform as uniform,
)
from heavytop.sweep.grid import DRAW, zipped as zipped
from heavytop.sweep.measure import FAILED, OUTCOMES, Measured as Measured, final as final, take as take
from heavytop.sweep.result import Result as Result, open_result as open_result
from heavytop.sweep.statistics import (
    SAMPLE,
    binned_sums,
    boxes,
    extremes,
    pick,
    places,
    points,
    quantile_interval as quantile_interval,
    sample,
    share_interval as share_interval,
    spread,
    sums,
    valid,
    width,
)
from heavytop.sweep.store import DONE, GIVEN_UP, DamagedStoreWarning as DamagedStoreWarning, Store
from heavytop.sweep.study import Study as Study
from heavytop.sweep.study_file import listed, load_study as load_study, read_study as read_study


class _Callable(ModuleType):  # a package that is called, and documented, like its function of the same name
    __call__ = staticmethod(sweep)
    __doc__ = property(lambda self: sweep.__doc__)  # pyright: ignore
    __signature__ = property(lambda self: signature(sweep))


sys.modules[__name__].__class__ = _Callable
