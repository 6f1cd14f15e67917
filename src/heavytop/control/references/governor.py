"""Reference governor: large errors are limited before they saturate the inputs, and the reference approaches the true one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from heavytop._arrays import Array
from heavytop.control.laws.wrapper import Seen, Wrapper
from heavytop.control.observers.hull import Hull, HullMotion, limited
from heavytop.errors import ControlError
from heavytop.system import Model

GENTLE = 12.0
"""Largest acceleration (m/s^2) demanded by an error of position, or by one of velocity."""


class Governed(Wrapper):
    """A law with limited errors.

    The law follows a reference at most ``distance`` from the vehicle, in the direction of the true one, that moves towards it with up to
    ``speed``, and whose velocity differs from the vehicle's by at most ``velocity``. Smaller errors are unchanged.

    Parameters
    ----------
    controller : a law without a reference. model : of the vehicle.
    distance : m. velocity : m/s. speed : largest speed of approach, m/s. homing : 1/s, speed per distance beyond ``distance``.

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
        speed: float = 4.0,
        homing: float = 1.0,
    ) -> None:
        super().__init__(controller)
        self.model, self.hull = model, Hull.of(model)
        own = gentle(self.law) if distance is None or velocity is None else (distance, velocity)
        self.distance = own[0] if distance is None else float(distance)
        self.velocity = own[1] if velocity is None else float(velocity)
        self.speed, self.homing = float(speed), float(homing)
        if not (self.distance > 0 and self.velocity > 0 and self.speed > 0 and self.homing > 0):
            raise ControlError("distance, velocity, speed and homing of a governor must be positive.")

    def seen(self, at: Seen) -> Mapping[str, Array]:
        hull = self.hull
        motion = hull.motion(at.q, at.v)
        wanted, acceleration, turn = hull.reference(*at.reference)
        off = wanted.r - motion.r
        far = np.sqrt(np.vecdot(off, off) + 1e-18)
        home = np.minimum(self.speed, self.homing * np.maximum(far - self.distance, 0.0)) / far
        velocity = motion.velocity + limited(wanted.velocity + home * off - motion.velocity, self.velocity)
        place = motion.r + limited(off, self.distance)
        q, v, a = hull.coordinates(HullMotion(place, wanted.R, velocity, wanted.omega), acceleration, turn)
        return {"q_R": q, "v_R": v, "a_R": a}


def gentle(law: Any) -> tuple[float, float]:
    """Errors of position (m) and of velocity (m/s) that demand :data:`GENTLE` each, from the stiffness and damping of a prototype."""
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
    return GENTLE * mass / stiffness, GENTLE * mass / damping
