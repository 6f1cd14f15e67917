"""Identification: parameters with confidence from logs of motions.

``heavytop.identify`` is the function as well as this package: the package can be called.
"""

import sys
from inspect import signature
from types import ModuleType

from heavytop.identify.api import identify as identify
from heavytop.identify.copter import airborne as airborne, identify_copter as identify_copter
from heavytop.identify.information import Excitation as Excitation, excitation as excitation
from heavytop.identify.outputs import MeasuredOutput as MeasuredOutput
from heavytop.identify.prediction import OpenLoopPrediction as OpenLoopPrediction
from heavytop.identify.regression import (
    BaseParameters as BaseParameters,
    Regressor as Regressor,
    base_parameters as base_parameters,
)
from heavytop.identify.result import Identification as Identification
from heavytop.identify.trials import LogWarning as LogWarning
from heavytop.identify.unknowns import (
    Bias as Bias,
    BodyInertia as BodyInertia,
    Delay as Delay,
    Lag as Lag,
    UnknownParameter as UnknownParameter,
    unknown_inertia as unknown_inertia,
)


class _Callable(ModuleType):  # a callable package, documented like its function of the same name
    def __call__(self, *arguments, **named):
        return self.identify(*arguments, **named)

    __doc__ = property(lambda self: identify.__doc__)  # pyright: ignore
    __signature__ = property(lambda self: signature(identify))


sys.modules[__name__].__class__ = _Callable
