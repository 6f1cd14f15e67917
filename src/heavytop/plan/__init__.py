"""Plan optimal motions on the manifold: goals, constraints, costs, guesses, plans.

``heavytop.plan`` is the function as well as this package: the package can be called.
"""

import sys
from inspect import signature
from types import ModuleType

from heavytop.ocp.problem import State as State
from heavytop.ocp.solvers.fatrop import Fatrop as Fatrop
from heavytop.ocp.solvers.ipopt import Ipopt as Ipopt
from heavytop.ocp.solvers.nlpsol import Nlpsol as Nlpsol
from heavytop.plan import problems as problems
from heavytop.plan.api import plan as plan
from heavytop.plan.constraints import AtPose as AtPose
from heavytop.plan.constraints import Between as Between
from heavytop.plan.constraints import Cone as Cone
from heavytop.plan.constraints import Constraint as Constraint
from heavytop.plan.constraints import Gate as Gate
from heavytop.plan.constraints import HalfSpace as HalfSpace
from heavytop.plan.constraints import KeepIn as KeepIn
from heavytop.plan.constraints import KeepOut as KeepOut
from heavytop.plan.constraints import KeepOutBox as KeepOutBox
from heavytop.plan.constraints import Own as Own
from heavytop.plan.constraints import Point as Point
from heavytop.plan.constraints import Rest as Rest
from heavytop.plan.constraints import swing as swing
from heavytop.plan.costs import Cost as Cost
from heavytop.plan.costs import Distance as Distance
from heavytop.plan.costs import Effort as Effort
from heavytop.plan.costs import Jerk as Jerk
from heavytop.plan.costs import OwnCost as OwnCost
from heavytop.plan.costs import Speed as Speed
from heavytop.plan.costs import Time as Time
from heavytop.plan.feasibility.infeasible import InfeasibleError as InfeasibleError
from heavytop.plan.guess import Guess as Guess
from heavytop.plan.problem import Phase as Phase
from heavytop.plan.result import Plan as Plan


class _Callable(ModuleType):  # a callable package, documented like its function of the same name
    def __call__(self, *arguments, **named):
        return self.plan(*arguments, **named)

    __doc__ = property(lambda self: plan.__doc__)  # pyright: ignore
    __signature__ = property(lambda self: signature(plan))


sys.modules[__name__].__class__ = _Callable
