"""The closed loop of a vehicle as native code for a few milliseconds at a time.

The reference and the external wrench enter as a signal, the numbers of the prototype and the air drag as parameters, so one piece of native
code per vehicle and law serves the whole flight.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate, part, split
from heavytop.compile import Stepper
from heavytop.control import FeedbackLaw, PartialPlant, Prototype, Seen, Wrapper
from heavytop.copters.live.gains import tunable
from heavytop.copters.vehicle import Vehicle
from heavytop.simulate import Control, Terminals, as_dynamics, bind, step_schedule
from heavytop.simulate.integrators import as_integrator
from heavytop.system import Damping, Model, Wrench

STEP = 1e-3
"""Step of the integrator and sample time of the law, s."""
OUTSIDE = ("push_x", "push_y", "push_z", "twist_x", "twist_y", "twist_z")
AIR_DRAG = "air_drag"


class _Pilot(Wrapper):
    """The law with a reference and an external wrench as signal (q_R, v_R, a_R, wrench), inputs (u, wrench)."""

    def __init__(self, law: FeedbackLaw) -> None:
        super().__init__(law)
        self._parts = (law.model.nq, law.model.nv, law.model.nv, len(OUTSIDE))
        self.own_signal_size = sum(self._parts)

    @property
    def needs_reference(self) -> bool:
        return False

    def plant(self, model: Any) -> PartialPlant:
        return PartialPlant.with_inputs(model, model.u_names[: -len(OUTSIDE)])

    def seen(self, at: Seen) -> dict[str, Array]:
        """The reference, and the parameters of the law."""
        q_R, v_R, a_R, _ = split(at.signal, self._parts)
        return {"q_R": q_R, "v_R": v_R, "a_R": a_R, "p": part(at.p, 0, len(self.law.model.parameter_names))}

    def acted(self, at: Seen, u: Array) -> Array:
        return concatenate(u, split(at.signal, self._parts)[3])


class NativeLoop:
    """A vehicle with one of its laws, ready to be stepped.

    >>> from heavytop.copters import tricopter
    >>> vehicle = tricopter()
    >>> loop = NativeLoop(vehicle, "energy")
    >>> q = vehicle.model.neutral()
    >>> state = loop.start(q, np.zeros(6))
    >>> state, u, finite = loop.run(state, loop.signal(q), loop.parameters(vehicle.prototype), steps=10)
    >>> bool(np.allclose(loop.seen(state)[0], q)), u.shape, finite
    (True, (6,), True)
    """

    def __init__(self, vehicle: Vehicle, law: str) -> None:
        self.vehicle, self.law_name = vehicle, law
        self.tuned = tunable(vehicle, law)
        self.model = _plant(vehicle, self.tuned.law.model)
        self._stepper = self._compiled()
        self._at = Terminals.of(self._stepper)

    def _compiled(self) -> Stepper:
        dynamics = as_dynamics(self.model)
        law = bind(_Pilot(self.tuned.law), dynamics, self.model, None, period=STEP)
        control = Control("sampled", law)
        return Stepper(step_schedule(dynamics, control, as_integrator("rkmk4"), balance=False), lanes=1)

    def start(self, q: Any, v: Any) -> dict[str, np.ndarray]:
        """The state of the stepper at (q, v)."""
        layout = self._stepper.layout
        rest = {name: np.zeros(layout.shapes[name]) for name in layout.state}
        return rest | {self._at.q: np.array(q, dtype=float), self._at.v: np.array(v, dtype=float)}

    def seen(self, state: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """(q, v) of a state of the stepper."""
        return state[self._at.q], state[self._at.v]

    def signal(self, q_R: Any, v_R: Any = None, a_R: Any = None, wrench: Any = None) -> np.ndarray:
        """Samples (n, size) of the reference and of the wrench (force and moment in world axes at the hull's origin, N and N m)."""
        q_R = np.atleast_2d(np.asarray(q_R, dtype=float))
        n, nv = len(q_R), self.model.nv
        parts = [np.zeros((n, size)) if x is None else x for x, size in ((v_R, nv), (a_R, nv), (wrench, len(OUTSIDE)))]
        return np.concatenate([q_R, *(np.broadcast_to(x, (n, np.shape(x)[-1])) for x in parts)], axis=-1)

    def parameters(self, prototype: Prototype, drag: float = 0.0) -> np.ndarray:
        """The parameters of the plant: those of the model itself, the prototype's numbers, the air drag in N s/m."""
        own = self.vehicle.model.parameter_vector()
        return np.concatenate([own, self.tuned.values(prototype), [drag]])

    def run(
        self, state: dict[str, np.ndarray], signal: np.ndarray, parameters: np.ndarray, steps: int
    ) -> tuple[dict[str, np.ndarray], np.ndarray, bool]:
        """Do some steps; return the state, the vehicle's inputs and whether all stayed finite.

        Sample k of the signal serves step k, the last one all steps beyond.
        """
        tables = dict.fromkeys(self._stepper.layout.tables, signal)
        constants = {self._at.p: parameters, self._at.h: np.asarray(STEP)}
        done = self._stepper.run(state, constants, tables, steps=steps, step_size=STEP, record_every=max(steps, 1))
        u = done.records[self._at.u][0, : self.vehicle.model.nu]
        return done.state, u, bool(done.failed < 0) and bool(np.all(np.isfinite(done.state[self._at.v])))


def _plant(vehicle: Vehicle, law_model: Model) -> Model:
    """The vehicle in moving air with an external wrench; the parameters of the law come first."""
    system = vehicle.describe()
    drag = system.parameter(AIR_DRAG, 0.0)
    system.damper("world", "hull", Damping(drag))
    for name, axis in zip(OUTSIDE, np.vstack([np.eye(3), np.eye(3)]), strict=True):
        force, moment = (axis, np.zeros(3)) if name.startswith("push") else (np.zeros(3), axis)
        system.input(name, Wrench("hull", force=force, moment=moment, frame="world"))
    description = system.describe()
    own = tuple(p for p in description.parameters if p.name == AIR_DRAG)
    return Model(replace(description, parameters=(*law_model.description.parameters, *own)))
