"""Simulate on the manifold: integrators, inputs and laws, events, invariants, runs.

``heavytop.simulate`` is the function as well as this package: the package can be called.
"""

import sys
from inspect import signature
from types import ModuleType

from heavytop.simulate import integrators as integrators
from heavytop.simulate.bodies import PointForce as PointForce
from heavytop.simulate.bodies import PointSpring as PointSpring
from heavytop.simulate.bodies import scalable_body as scalable_body
from heavytop.simulate.bodies import unified_body as unified_body
from heavytop.simulate.controller import Controller as Controller
from heavytop.simulate.controller import Feedback as Feedback
from heavytop.simulate.controller import complete as complete
from heavytop.simulate.dynamics import Dynamics as Dynamics
from heavytop.simulate.events import Event as Event
from heavytop.simulate.events import Occurrence as Occurrence
from heavytop.simulate.integrators import RKMK4 as RKMK4
from heavytop.simulate.integrators import RKMK6 as RKMK6
from heavytop.simulate.integrators import RKMK8 as RKMK8
from heavytop.simulate.integrators import RKMK45 as RKMK45
from heavytop.simulate.integrators import EnergyMomentum as EnergyMomentum
from heavytop.simulate.integrators import ProjectedRK4 as ProjectedRK4
from heavytop.simulate.integrators import Terze as Terze
from heavytop.simulate.integrators import Variational as Variational
from heavytop.simulate.invariants import Invariant as Invariant
from heavytop.simulate.limit_events import limit_events as limit_events
from heavytop.simulate.outcome import Ending as Ending
from heavytop.simulate.outcome import Outcome as Outcome
from heavytop.simulate.run import Run as Run
from heavytop.simulate.spec import RunSpec as RunSpec
from heavytop.simulate.spec import prepare as prepare
from heavytop.simulate.spec import simulate as simulate
from heavytop.simulate.spec import simulate_dynamics as simulate_dynamics
from heavytop.simulate.user_dynamics import UserDynamics as UserDynamics


class _Callable(ModuleType):  # a package that is called, and documented, like its function of the same name
    __call__ = staticmethod(simulate)
    __doc__ = property(lambda self: simulate.__doc__)  # pyright: ignore
    __signature__ = property(lambda self: signature(simulate))


sys.modules[__name__].__class__ = _Callable
