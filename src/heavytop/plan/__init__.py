"""Plan optimal motions on the manifold: goals, constraints, costs, guesses, plans.

``heavytop.plan`` is the function as well as this package: the package can be called.
"""

import sys
from inspect import signature
from types import ModuleType

from heavytop.ocp import Fatrop as Fatrop, Ipopt as Ipopt, Nlpsol as Nlpsol, State as State
from heavytop.plan import problems as problems
from heavytop.plan.api import plan as plan
from heavytop.plan.constraints import (
    AtPose as AtPose,
    Between as Between,
    Cone as Cone,
    Constraint as Constraint,
    Gate as Gate,
    HalfSpace as HalfSpace,
    KeepIn as KeepIn,
    KeepOut as KeepOut,
    KeepOutBox as KeepOutBox,
    Own as Own,
    Point as Point,
    Rest as Rest,
    swing as swing,
)
from heavytop.plan.costs import (
    Cost as Cost,
    Distance as Distance,
    Effort as Effort,
    Jerk as Jerk,
    OwnCost as OwnCost,
    Speed as Speed,
    Time as Time,
)
from heavytop.plan.guess import Guess as Guess
from heavytop.plan.infeasible import InfeasibleError as InfeasibleError
from heavytop.plan.problem import Phase as Phase
from heavytop.plan.result import Plan as Plan
from heavytop.plan.study import read_study


class _Callable(ModuleType):  # a callable package, documented like its function of the same name
    def __call__(self, *arguments, **named):
        return self.plan(*arguments, **named)

    __doc__ = property(lambda self: plan.__doc__)  # pyright: ignore
    __signature__ = property(lambda self: signature(plan))


sys.modules[__name__].__class__ = _Callable
