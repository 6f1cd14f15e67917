"""Compensation of observed disturbances: the reference leans against them, its accelerations make up for them, the thrust is scaled.

A vehicle that can only push along one axis must lean against a lateral force: in the flat attitude g is replaced by g + d
(``b = unit(r'' - g - d)``), and the law gets the acceleration r'' - d of the thrust alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from heavytop._arrays import Array, transpose, vector
from heavytop.control.actuators.lag import Propellers
from heavytop.control.disturbances.air_drag import AirDrag, leaned
from heavytop.control.laws.wrapper import Seen, Wrapper
from heavytop.control.observers.hull import Hull, HullMotion
from heavytop.control.references.drag_reference import DragReference, reference_speeds
from heavytop.control.references.reference import Reference
from heavytop.system import Model

LIGHTEST = 2.0
"""Least specific thrust (m/s^2) when a disturbance lifts the vehicle: its axis stays upwards."""


class Compensated(Wrapper):
    """A law that compensates the disturbances reported by the observers around it (force, moment, scale of the thrust), and known drag.

    Parameters
    ----------
    controller : a law that has no reference yet. model : of the vehicle.
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
        lift = np.minimum(d[2], -self.hull.gravity[2] - LIGHTEST)
        return vector(d[0], d[1], lift)

    def seen(self, at: Seen) -> Mapping[str, Array]:
        """The reference that leans against the disturbance."""
        hull = self.hull
        motion = hull.motion(at.q, at.v)
        wanted, acceleration, turn = hull.reference(*at.reference)
        specific = acceleration - hull.gravity
        d = self.disturbance(at, motion, wanted, specific)
        R = leaned(wanted.R, specific - d)
        if "moment" in at.signals:
            extra = at.signals["moment"]
            turn = turn - np.matvec(transpose(R), np.matvec(motion.R, extra))
        q, v, a = hull.coordinates(HullMotion(wanted.r, R, wanted.velocity, wanted.omega), acceleration - d, turn)
        return {"q_R": q, "v_R": v, "a_R": a}

    def acted(self, at: Seen, u: Array) -> Array:
        """The mean thrust divided by its scale; differences, which turn the vehicle, stay."""
        if "thrust_scale" not in at.signals:
            return u
        scale, nu = at.signals["thrust_scale"][0], self.model.nu
        # rotors at rest stay at rest: the others share the missing thrust
        turns = [np.where(u[k] > 0, 1.0, 0.0) for k in range(nu)]
        total, count = sum((u[k] for k in range(nu)), start=0.0), sum(turns, start=0.0)
        extra = (1 / scale - 1) * total / np.maximum(count, 1.0)
        return vector(*(np.maximum(u[k] + turns[k] * extra, np.minimum(u[k], 0.0)) for k in range(nu)))
