"""Sweeps: many runs at the points of a grid or of draws, in native batches, in one process or on a cluster, into a store that survives.

``heavytop.sweep`` is the function as well as this package: the package can be called.
"""

import sys
from inspect import signature
from types import ModuleType

from heavytop.sweep.adaptive import Boundary as Boundary
from heavytop.sweep.adaptive import Quantile as Quantile
from heavytop.sweep.adaptive import quantile as quantile
from heavytop.sweep.adaptive import refine as refine
from heavytop.sweep.api import make_study as make_study
from heavytop.sweep.api import run_study as run_study
from heavytop.sweep.api import sweep as sweep
from heavytop.sweep.cluster import NoWorkersWarning as NoWorkersWarning
from heavytop.sweep.distributions import Distribution as Distribution
from heavytop.sweep.distributions import attitude as attitude
from heavytop.sweep.distributions import choice as choice
from heavytop.sweep.distributions import normal as normal
from heavytop.sweep.distributions import uniform as uniform
from heavytop.sweep.grid import zipped as zipped
from heavytop.sweep.integrity import DamagedStoreWarning as DamagedStoreWarning
from heavytop.sweep.measure import Measured as Measured
from heavytop.sweep.measure import final as final
from heavytop.sweep.measure import take as take
from heavytop.sweep.result import Result as Result
from heavytop.sweep.result import open_result as open_result
from heavytop.sweep.statistics import quantile_interval as quantile_interval
from heavytop.sweep.statistics import share_interval as share_interval
from heavytop.sweep.study import Study as Study
from heavytop.sweep.study_file import load_study as load_study
from heavytop.sweep.study_file import read_study as read_study


class _Callable(ModuleType):  # a package that is called, and tells about itself, like its function of the same name
    __call__ = staticmethod(sweep)
    __doc__ = property(lambda self: sweep.__doc__)  # pyright: ignore
    __signature__ = property(lambda self: signature(sweep))


sys.modules[__name__].__class__ = _Callable
