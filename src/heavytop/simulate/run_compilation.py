"""The native code of a run: found in memory, found on disk, or made now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from heavytop._arrays import Array
from heavytop.compile import Kernel, Schedule, Stepper, Traced, trace
from heavytop.coordinates import Coordinates
from heavytop.functions import is_local, key, store
from heavytop.simulate.dynamics import Dynamics
from heavytop.simulate.energy_monitor import BLANK, CLOSING, SINCE, beginning, ledger
from heavytop.simulate.integrators.base import Integrator
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
    between : configurations within a fixed step, see :func:`between`; None without events.
    ledger : entry of one state in the ledger (:func:`.energy_monitor.ledger`); None if none is kept.
    """

    stepper: Stepper
    terminals: Terminals
    events: Kernel | None
    dense: Kernel | None = None
    between: Kernel | None = None
    ledger: Kernel | None = None

    def start(self, problem: RunProblem) -> dict[str, np.ndarray]:
        """The state of the stepper at the start of a run; missing entries are zero."""
        at, layout = self.terminals, self.stepper.layout
        state = {at.q: problem.q, at.v: problem.v}
        if at.own:
            state |= {at.own[name]: np.asarray(value) for name, value in problem.integrator.start(problem).items()}
        if at.watch is not None:
            state[at.watch] = beginning(problem.dynamics, problem.q, problem.v, problem.p)
        if at.ledger is not None:
            state[at.ledger] = BLANK
            if at.watch is not None:
                closing = state[at.watch][..., CLOSING, None] > 0.0
                state[at.ledger] = np.where(closing & (np.arange(len(BLANK)) == SINCE), 2.0 * BLANK, BLANK)
        if at.memory is not None:
            state[at.memory] = problem.memory
        zeros = {name: np.zeros(layout.shapes[name]) for name in layout.state}
        return {name: state.get(name, zero) for name, zero in zeros.items()}

    def entered(self, problem: RunProblem, state: dict[str, np.ndarray], t: np.ndarray | float) -> np.ndarray | None:
        """The ledger (*batch, n) with these states entered; None if none is kept."""
        at = self.terminals
        if self.ledger is None or at.ledger is None:
            return None
        paid = [] if at.exchanged is None or at.paid is None else [state[at.paid], state[at.exchanged]]
        p = problem.dynamics.at_times(problem.p, t)
        return self.ledger(state[at.q], state[at.v], p, np.asarray(t, float), *paid, state[at.ledger])[0]


def step_key(integrator: Integrator, control: Control, events: Traced | None) -> str | None:
    """Key of the native step of a run, whatever is simulated; None if a part of it has none."""
    inside, method = _inside(integrator, control), integrator.code_key
    law = None if inside.law is None else inside.law.traced
    if method is None:
        return None
    found = key(inside.kind, inside.every, law, events)
    if found is None:
        return None
    return f"{found} {method}" if is_local(found) else f"{method} {found}"  # local if one of them is


def native(problem: RunProblem, events: Traced | None, step: str | None, lanes: int) -> tuple[Native, bool]:
    """The native code of a run, and whether it was made now.

    Parameters
    ----------
    events : their values as a function of (t, q, v). step : see :func:`step_key`.
    """
    dynamics, integrator = problem.dynamics, problem.integrator
    fresh: list[bool] = []

    def make() -> Native:
        fresh.append(True)
        mark = None
        if not (step is None or is_local(step) or dynamics.equations_key is None):
            mark = f"{dynamics.equations_key} {step} balance={problem.balance} watched={problem.watched}"
        inside = None if integrator.chooses_step else events
        stepper = _stepper(problem, _inside(integrator, problem.plan.control), inside, mark, lanes)
        at = Terminals.of(stepper)
        entry = None
        if at.ledger is not None:
            works = 0 if at.paid is None else stepper.layout.shapes[at.paid][0]
            entry = _kernel(dynamics, f"ledger {works}", lambda: ledger(dynamics, works))
        if integrator.chooses_step:
            flats = stepper.layout.shapes[at.own["dense_flats"]][0]
            within = _kernel(dynamics, f"dense {flats}", lambda: dense_output(dynamics.coordinates, flats))
            return Native(stepper, at, None if events is None else Kernel(events), within, ledger=entry)
        if events is None:
            return Native(stepper, at, None, ledger=entry)
        within = _kernel(dynamics, "between", lambda: between(dynamics.coordinates))
        return Native(stepper, at, Kernel(events), None, within, entry)

    where = (
        None
        if step is None or dynamics.key is None
        else ("native", dynamics.key, step, problem.balance, problem.watched, lanes, problem.threads)
    )
    return store.get(where, make), bool(fresh)


def _kernel(dynamics: Dynamics, name: str, build: Callable[[], Traced]) -> Kernel:
    if dynamics.equations_key is None:
        return Kernel(build())
    return Kernel.cached(f"{dynamics.equations_key} {name}", build)


def between(coordinates: Coordinates) -> Traced:
    """(q0, w0, q1, w1, h, x) -> q at a fraction ``x`` of a step, from both ends and their velocities.

    ``q0 o exp(h (x w0 + x^2/2 (w1 - w0)))``, moved on by ``x^2 (3 - 2 x)`` of the rest to q1: Hermite's cubic where the space is flat, exact for
    steady spins of any number of turns.
    """

    def within(q0: Array, w0: Array, q1: Array, w1: Array, h: Array, x: Array) -> dict[str, Array]:
        rest = coordinates.difference(coordinates.retract(q0, 0.5 * h * (w0 + w1)), q1)
        near = coordinates.retract(q0, h * (x * w0 + 0.5 * x * x * (w1 - w0)))
        return {"q": coordinates.retract(near, x * x * (3 - 2 * x) * rest)}

    nq, nw = (coordinates.nq,), (coordinates.nv,)
    return trace(within, {"q0": nq, "w0": nw, "q1": nq, "w1": nw, "h": (), "x": ()}, name="between")


def _inside(integrator: Integrator, control: Control) -> Control:
    """The part of the control in the native step: a method that chooses its steps has its law called between segments."""
    return Control("table") if integrator.chooses_step and control.kind == "sampled" else control


def _stepper(problem: RunProblem, control: Control, events: Traced | None, mark: str | None, lanes: int) -> Stepper:
    def build() -> Schedule:
        flags = {"balance": problem.balance, "watched": problem.watched}
        return step_schedule(problem.dynamics, control, problem.integrator, **flags, events=events)

    if mark is None:
        return Stepper(build(), lanes, problem.threads)
    return Stepper.cached(mark, build, lanes, problem.threads)
