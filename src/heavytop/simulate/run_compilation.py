"""The native code of a run: found in memory, found on disk, or made now."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heavytop._likeness import likeness
from heavytop.compile import Kernel, Schedule, Stepper, Traced
from heavytop.simulate.controller import content
from heavytop.simulate.dynamics import Dynamics
from heavytop.simulate.energy_monitor import beginning
from heavytop.simulate.integrators.error_control import dense_output
from heavytop.simulate.plant import Control
from heavytop.simulate.recording import RunProblem
from heavytop.simulate.step_assembly import Terminals, step_schedule


@dataclass(frozen=True, eq=False)
class Native:
    """A stepper with what is needed to feed it.

    Attributes
    ----------
    events : their values as a kernel of (t, q, v); None if there are none.
    dense : states within an attempt, see :func:`.dense_output`; None where the step is fixed.
    """

    stepper: Stepper
    terminals: Terminals
    events: Kernel | None
    dense: Kernel | None = None

    def start(self, problem: RunProblem) -> dict[str, np.ndarray]:
        """The state of the stepper at the start of a run; what nobody tells is zero."""
        at, layout = self.terminals, self.stepper.layout
        own = {at.own[name]: np.asarray(value) for name, value in problem.integrator.start(problem).items()}
        state = {at.q: problem.q, at.v: problem.v, **own}
        if at.watch is not None:
            state[at.watch] = beginning(problem.dynamics, problem.q, problem.v, problem.p)
        if at.memory is not None:
            state[at.memory] = problem.memory
        zeros = {name: np.zeros(layout.shapes[name]) for name in layout.state}
        return {name: state.get(name, zero) for name, zero in zeros.items()}


def native(problem: RunProblem, events: Traced | None, lanes: int) -> Native:
    """The native code of a run with the values of its ``events`` as a function of (t, q, v)."""
    integrator, control = problem.integrator, _inside(problem)
    inside = None if integrator.chooses_step else events
    # the text of an integrator of the user does not tell what its code does
    known = type(integrator).__module__.partition(".")[0] == "heavytop"
    options = f"{integrator.fingerprint} {control.kind} {control.every} balance={problem.balance}"
    if control.law is not None:
        options += f" law {control.law.fingerprint}"
    if inside is not None:
        options += f" events {content(inside)}"
    key = (options, lanes, problem.threads, None if known else likeness(integrator))
    mark = f"{problem.dynamics.fingerprint} {options}" if known and problem.dynamics.fingerprint is not None else None

    def make() -> Native:
        stepper = _stepper(problem, control, inside, mark, lanes)
        at = Terminals.of(stepper)
        dense = _dense(problem.dynamics, stepper, at) if integrator.chooses_step else None
        return Native(stepper, at, None if events is None else Kernel(events), dense)

    if events is not None and inside is None:
        key = (*key, content(events))
    return problem.dynamics.steppers.recall(key, make)


def _dense(dynamics: Dynamics, stepper: Stepper, at: Terminals) -> Kernel:
    flats = stepper.layout.shapes[at.own["dense_flats"]][0]

    def build() -> Traced:
        return dense_output(dynamics.coordinates, flats)

    if dynamics.fingerprint is None:
        return Kernel(build())
    return Kernel.cached(f"{dynamics.fingerprint} dense {flats}", build)


def _inside(problem: RunProblem) -> Control:
    """What of the control happens in the native step: a method that chooses its steps has its law called between segments."""
    control = problem.plan.control
    return Control("table") if problem.integrator.chooses_step and control.kind == "sampled" else control


def _stepper(problem: RunProblem, control: Control, events: Traced | None, mark: str | None, lanes: int) -> Stepper:
    def build() -> Schedule:
        return step_schedule(problem.dynamics, control, problem.integrator, balance=problem.balance, events=events)

    if mark is None:
        return Stepper(build(), lanes, problem.threads)
    return Stepper.cached(mark, build, lanes, problem.threads)
