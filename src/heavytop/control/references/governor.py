"""Reference governor: large errors are limited before they saturate the inputs, and the reference approaches the true one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from heavytop._arrays import Array
from heavytop.control.laws.wrapper import Seen, Wrapper
from heavytop.control.observers.hull import Hull, HullMotion, limited
from heavytop.errors import ControlError
from heavytop.system import GRAVITY, Model

GENTLE, SPARE = 1.22, 0.5
"""Largest acceleration demanded by an error of position, or by one of velocity: per gravity, and per acceleration by the spare thrust."""
HOMING = 0.4
"""Rate of the approach per frequency of the position loop; from its largest speed it is braked with the acceleration of :func:`gentle`."""


class Governed(Wrapper):
    """A law with limited errors.

    The law follows a reference at most ``distance`` from the vehicle, in the direction of the true one, that moves towards it with up to
    ``speed``. The velocity of the reference differs from the vehicle's by at most ``velocity``, and by more where that brakes an approach: both
    errors together demand at most the acceleration of both limits. Smaller errors are unchanged.

    Parameters
    ----------
    controller : a law without a reference. model : model of the vehicle.
    distance : m. velocity : m/s. speed : largest speed of approach, m/s. homing : 1/s, speed per distance beyond ``distance``.
        Defaults: distance and velocity from the prototype and the spare thrust, see :func:`gentle`; 5 times the velocity; 0.8 velocity /
        distance.

    Examples
    --------
    >>> from heavytop.control import OnPart
    >>> from heavytop.copters import quadcopter
    >>> quad = quadcopter()
    >>> governed = Governed(OnPart(quad.law(), quad.model), quad.model, distance=0.5, velocity=1.2)
    >>> governed.distance
    0.5
    """

    def __init__(
        self,
        controller: Any,
        model: Model,
        distance: float | None = None,
        velocity: float | None = None,
        speed: float | None = None,
        homing: float | None = None,
    ) -> None:
        super().__init__(controller)
        self.model, self.hull = model, Hull.of(model)
        own = gentle(self.law, self.hull) if distance is None or velocity is None else (distance, velocity)
        self.distance = own[0] if distance is None else float(distance)
        self.velocity = own[1] if velocity is None else float(velocity)
        # a critically damped position loop with these limits has the frequency 2 velocity / distance
        self.speed = 2 * self.velocity / HOMING if speed is None else float(speed)
        self.homing = 2 * HOMING * self.velocity / self.distance if homing is None else float(homing)
        if not (self.distance > 0 and self.velocity > 0 and self.speed > 0 and self.homing > 0):
            raise ControlError("distance, velocity, speed and homing of a governor must be positive.")

    def seen(self, at: Seen) -> Mapping[str, Array]:
        hull = self.hull
        motion = hull.motion(at.q, at.v)
        wanted, acceleration, turn = hull.reference(*at.reference)
        off = wanted.r - motion.r
        far = np.sqrt(np.vecdot(off, off) + 1e-18)
        home = np.minimum(self.speed, self.homing * np.maximum(far - self.distance, 0.0)) / far
        near = limited(off, self.distance)
        # the sum of both demands is limited, not each: the distance left must not cancel the braking
        ahead = self.velocity / self.distance * near
        excess = limited(wanted.velocity + home * off - motion.velocity + ahead, 2 * self.velocity)
        place, velocity = motion.r + near, motion.velocity + excess - ahead
        q, v, a = hull.coordinates(HullMotion(place, wanted.R, velocity, wanted.omega), acceleration, turn)
        return {"q_R": q, "v_R": v, "a_R": a}


def gentle(law: Any, hull: Hull) -> tuple[float, float]:
    """Errors of position (m) and of velocity (m/s) that demand a gentle acceleration each, for the law of a hull.

    With stiffness k, damping d and mass m of the prototype, gravity g and the largest thrust per weight L:

        a = g min(1.22, (L - 1) / 2),    distance = a m / k,    velocity = a m / d.
    """
    prototype = getattr(law, "prototype", None)
    if prototype is None:
        raise ControlError(f"{law!r} has no prototype: give distance and velocity of the governor.")
    mass = sum(float(m.mass) for m in prototype.inertia.values())
    stiffness, damping = (
        sum(float(m.total) for (a, _), m in given.items() if a == "world")
        for given in (prototype.stiffness, prototype.damping)
    )
    if not (stiffness > 0 and damping > 0):
        raise ControlError(
            "the prototype has no stiffness or damping relative to the world: give distance and velocity."
        )
    gravity = float(np.linalg.norm(hull.gravity)) or GRAVITY
    acceleration = gravity * max(min(GENTLE, SPARE * (lift(law, hull) - 1)), LEAST)
    return acceleration * mass / stiffness, acceleration * mass / damping


LEAST = 0.05
"""Smallest acceleration that a governor allows, per gravity: of vehicles that hardly lift themselves."""


def lift(law: Any, hull: Hull) -> float:
    """Largest thrust along the body's z axis per weight, within the limits of a law; infinite without limits or weight."""
    weight, limits = hull.mass * float(np.linalg.norm(hull.gravity)), getattr(law, "limits", None)
    if limits is None or not weight:
        return np.inf
    along = hull.wrenches[2]
    low, high = (np.where(along == 0, 0.0, bound) for bound in limits.bounds(hull.model))
    return float(np.sum(np.maximum(along * low, along * high))) / weight
