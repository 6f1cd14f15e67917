"""Simulate on the manifold: integrators, inputs and laws, events, invariants, runs.

``heavytop.simulate`` is the function as well as this package: the package can be called.
"""

import sys
from inspect import signature
from types import ModuleType

from heavytop.simulate import energy_monitor, integrators as integrators
from heavytop.simulate.c_step import export_step as export_step
from heavytop.simulate.contact_record import ContactRecord as ContactRecord, JointReaction as JointReaction
from heavytop.simulate.controller import (
    ARGUMENTS,
    LOST,
    MEMORY_OUTPUTS,
    SEEN,
    STATUS,
    BoundLaw,
    Controller as Controller,
    Feedback as Feedback,
    bind,
    complete as complete,
)
from heavytop.simulate.dynamics import Dynamics as Dynamics, as_dynamics, usual_integrator
from heavytop.simulate.events import (
    Event as Event,
    Occurrence as Occurrence,
    as_events,
    contact_events as contact_events,
    limit_events as limit_events,
    trace_events,
)
from heavytop.simulate.gradients import (
    Gradient as Gradient,
    Loss as Loss,
    TunedGains as TunedGains,
    gradient as gradient,
    tune as tune,
)
from heavytop.simulate.gradients.sensitivities import Sensitivities as Sensitivities
from heavytop.simulate.integrators import (
    RKMK4 as RKMK4,
    RKMK6 as RKMK6,
    RKMK8 as RKMK8,
    RKMK45 as RKMK45,
    ROS2 as ROS2,
    EnergyMomentum as EnergyMomentum,
    Moreau as Moreau,
    ProjectedRK4 as ProjectedRK4,
    Terze as Terze,
    Variational as Variational,
)
from heavytop.simulate.integrators.tableaus import BUTCHER6, COOPER_VERNER8, RADAU5, RADAU9, RK4, Tableau
from heavytop.simulate.invariants import Invariant as Invariant, lacks_work
from heavytop.simulate.live_run import LiveRun as LiveRun
from heavytop.simulate.live_step import LiveStep, Number, live_step
from heavytop.simulate.outcome import Ending as Ending, Outcome as Outcome
from heavytop.simulate.plant import Control
from heavytop.simulate.recording import RecordGrid
from heavytop.simulate.report import NO_WORK
from heavytop.simulate.run import Run as Run, Settings, Timing
from heavytop.simulate.spec import (
    RunSpec as RunSpec,
    prepare as prepare,
    simulate as simulate,
    simulate_dynamics as simulate_dynamics,
)
from heavytop.simulate.step_assembly import Terminals, step_schedule
from heavytop.simulate.step_function import BoundStep as BoundStep, StepFunction as StepFunction, stepper as stepper
from heavytop.simulate.user_dynamics import UserDynamics as UserDynamics


class _Callable(ModuleType):  # a package that is called, and documented, like its function of the same name
    __call__ = staticmethod(simulate)
    __doc__ = property(lambda self: simulate.__doc__)  # pyright: ignore
    __signature__ = property(lambda self: signature(simulate))


sys.modules[__name__].__class__ = _Callable
