"""Compensation of observed disturbances: the reference leans against them, its accelerations make up for them, the thrust is scaled.

A vehicle that can only push along one axis must lean against a lateral force: in the flat attitude g is replaced by g + d
(``b = unit(r'' - g - d)``), and the law gets the acceleration r'' - d of the thrust alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from heavytop._arrays import Array, scale, transpose, vector
from heavytop.control.actuators.lag import Propellers
from heavytop.control.disturbances.air_drag import AirDrag, leaned
from heavytop.control.laws.wrapper import Seen, Wrapper
from heavytop.control.observers.hull import UP, Hull, HullMotion, limited
from heavytop.control.references.reference import Motion3, Reference
from heavytop.geometry import so3
from heavytop.system import Model

ITERATIONS = 12
STENCIL = 4e-3
"""Spacing (s) of the five-point stencil for the rates of the attitude."""


def reference_speeds(hull: Hull, actuators: Propellers | None, specific: Array) -> Array:
    """Speeds (nu,) of the rotors that produce a specific force (3,), in proportions as in hover."""
    share = np.linalg.pinv(hull.wrenches) @ np.array([0.0, 0.0, hull.mass, 0.0, 0.0, 0.0])
    size = np.sqrt(np.vecdot(specific, specific) + 1e-18)
    return (actuators or Propellers(follows="speed")).level(scale(size, share, 1))


class DragReference:
    """References whose thrust and drag together accelerate the vehicle along the curve.

    At every time m (r'' - g) = f b + drag(R, r', n(f)) is solved for the axis b by fixed-point iteration; the vehicle turns as little as possible
    from the attitude of the given reference. Angular velocity and its rate follow from five neighbouring times (order four).
    Its accelerations are those of the thrust alone, r'' - d.
    """

    def __init__(self, reference: Reference, hull: Hull, drag: AirDrag, actuators: Propellers | None) -> None:
        self.reference, self.hull, self.drag, self.actuators = reference, hull, drag, actuators

    @classmethod
    def of(cls, reference: Reference, hull: Hull, drag: AirDrag, actuators: Propellers | None = None) -> Reference:
        """The reference with drag; one at rest in still air is unchanged."""
        times = np.linspace(0.0, reference.horizon, 9)
        _, v, a = reference(times)
        if not np.any(v) and not np.any(a) and not np.any(np.asarray(drag.wind)):
            return reference
        return reference._changed(evaluate=cls(reference, hull, drag, actuators).evaluate, traced=None)

    def evaluate(self, t: np.ndarray) -> Motion3:
        """q_R, v_R and a_R at times (n,)."""
        h, hull = STENCIL, self.hull
        around = [self._attitude(t + k * h) for k in (-2, -1, 0, 1, 2)]
        R = [turned for turned, *_ in around]
        now, motion, acceleration, d = around[2]
        back = np.swapaxes(now, -1, -2)
        first = (R[0] - 8 * R[1] + 8 * R[3] - R[4]) / (12 * h)
        second = (-R[0] + 16 * R[1] - 30 * R[2] + 16 * R[3] - R[4]) / (12 * h * h)
        omega, omega_rate = 0.5 * so3.vee2(back @ first), 0.5 * so3.vee2(back @ second)
        wanted = HullMotion(motion.r, now, motion.velocity, omega)
        q, v, a = hull.coordinates(wanted, acceleration - d, omega_rate)
        return q, v, a

    def _attitude(self, t: np.ndarray) -> tuple[Any, HullMotion, Any, Any]:
        """Rotation, motion, acceleration and the drag's part of it (n, 3), world axes."""
        hull = self.hull
        motion, acceleration, _ = hull.reference(*self.reference(t))
        specific = acceleration - hull.gravity
        d, R = np.zeros_like(specific), motion.R
        for _ in range(ITERATIONS):
            R = leaned(motion.R, specific - d)
            speeds = reference_speeds(hull, self.actuators, specific - d)
            d = np.matvec(R, self.drag.acceleration(hull, motion._replace(R=R), speeds))
        return leaned(motion.R, specific - d), motion, acceleration, d


STEEPEST = 0.5
"""Largest share of the thrust across the body's z axis that compensates a moment."""
ROUNDING = 1e-9
"""Inputs with less than this share of the largest contribution to the thrust do not contribute."""
LIGHTEST = 0.2
"""Least specific thrust, per gravity, when a disturbance lifts the vehicle: its axis stays upwards."""


class Compensated(Wrapper):
    """A law that compensates the disturbances reported by the observers around it (force, moment, scale of the thrust), and known drag.

    Parameters
    ----------
    controller : a law that has no reference yet. model : model of the vehicle.
    drag : known drag: the reference balances the drag along it exactly, the rest is compensated. actuators : for the rotor speeds of the reference.

    Examples
    --------
    >>> from heavytop.control import ForceObserver, OnPart
    >>> from heavytop.copters import quadcopter
    >>> quad = quadcopter()
    >>> observed = ForceObserver(Compensated(OnPart(quad.law(), quad.model), quad.model), quad.model)
    >>> observed.needs_reference
    True
    """

    def __init__(
        self, controller: Any, model: Model, drag: AirDrag | None = None, actuators: Propellers | None = None
    ) -> None:
        super().__init__(controller)
        self.model, self.hull, self.drag, self.actuators = model, Hull.of(model), drag, actuators

    def referred(self, reference: Reference) -> Reference:
        """The reference with an attitude that balances the known drag."""
        inner = super().referred(reference)
        if self.drag is None:
            return inner
        return DragReference.of(inner, self.hull, self.drag, self.actuators)

    def disturbance(self, at: Seen, motion: HullMotion, wanted: HullMotion, specific: Array) -> Array:
        """Acceleration (3,) in world axes that the thrust must balance besides the drag along the reference."""
        d = at.signals.get("force", np.zeros(3))
        if self.drag is not None and "levels" in at.signals:
            here = self.drag.acceleration(self.hull, motion, at.signals["levels"])
            speeds = reference_speeds(self.hull, self.actuators, specific)
            there = self.drag.acceleration(self.hull, wanted, speeds)
            d = d + np.matvec(motion.R, here) - np.matvec(wanted.R, there)
        lift = np.minimum(d[2], -(1 - LIGHTEST) * self.hull.gravity[2])
        return vector(d[0], d[1], lift)

    def seen(self, at: Seen) -> Mapping[str, Array]:
        """The reference that leans against the disturbance."""
        hull = self.hull
        motion = hull.motion(at.q, at.v)
        wanted, acceleration, turn = hull.reference(*at.reference)
        specific = acceleration - hull.gravity
        d = self.disturbance(at, motion, wanted, specific)
        R = leaned(wanted.R, specific - d, self._axis(at, specific - d))
        if "moment" in at.signals:
            extra = at.signals["moment"]
            turn = turn - np.matvec(transpose(R), np.matvec(motion.R, extra))
        q, v, a = hull.coordinates(HullMotion(wanted.r, R, wanted.velocity, wanted.omega), acceleration - d, turn)
        return {"q_R": q, "v_R": v, "a_R": a}

    def _axis(self, at: Seen, specific: Array) -> Array:
        """Body axis (3,) of the thrust: tilted by the force that accompanies the compensation of the moment."""
        sideways = self.hull.sideways
        if "moment" not in at.signals or not np.any(sideways):
            return UP
        size = np.sqrt(np.vecdot(specific, specific) + 1e-18)
        push = -np.matvec(sideways @ self.hull.moment, at.signals["moment"]) / (self.hull.mass * size)
        across = limited(vector(push[0], push[1], 0.0 * push[0]), STEEPEST)
        return across + np.sqrt(1 - np.vecdot(across, across)) * UP

    def acted(self, at: Seen, u: Array) -> Array:
        """The mean thrust divided by its scale; differences, which turn the vehicle, stay."""
        if "thrust_scale" not in at.signals:
            return u
        scale, nu, along = at.signals["thrust_scale"][0], self.model.nu, self.hull.wrenches[2]
        # more thrust without a moment; rotors at rest stay at rest: the others share the missing thrust
        share = np.linalg.pinv(self.hull.wrenches) @ np.eye(6)[2]
        share = np.where(share * along > ROUNDING * np.max(share * along), share, 0.0)
        turns = [share[k] * np.where(along[k] * u[k] > 0, 1.0, 0.0) for k in range(nu)]
        total = sum((along[k] * u[k] for k in range(nu)), start=0.0)
        least = float(np.min((share * along)[share != 0], initial=1.0))
        shared = sum((along[k] * turns[k] for k in range(nu)), start=0.0)
        extra = (1 / scale - 1) * total / np.maximum(shared, least)
        return vector(*(np.maximum(u[k] + turns[k] * extra, np.minimum(u[k], 0.0)) for k in range(nu)))
