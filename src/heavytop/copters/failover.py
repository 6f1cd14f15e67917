"""A rotor that stops is noticed by its speed, and the law for a vehicle without it takes over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._arrays import Array, concatenate, part, vector
from heavytop.control.commands import hover_levels
from heavytop.control.hull import Hull
from heavytop.control.informed import Informed, reading, state_of, within
from heavytop.control.wrapper import Seen
from heavytop.copters.dead_rotor import dead_rotor_law
from heavytop.copters.propulsion import typical_propulsion

if TYPE_CHECKING:
    from heavytop.copters.vehicle import Vehicle

EXPECTED_TIME = 0.2
"""Time constant (s) with which the expected speed rises: slower than any motor, so that a slow one is not taken for a dead one. It falls
at once."""
SLOW, TURNING = 0.35, 0.6
"""Shares of the hovering speed: a rotor below the first that should be above the second is suspicious."""
DWELL = 0.04
"""Time (s) of suspicion after which it is dead."""


class Failover(Informed):
    """A law that changes to the one for a dead rotor as soon as the speed of a rotor stays away. It never changes back.

    It stands where the law stands: ``robust_controller(vehicle, law=Failover(OnPart(law, vehicle.model), vehicle))``. Needs measured rotor
    speeds. The channel ``dead`` tells which rotor is given up.

    Parameters
    ----------
    controller : the law of the sound vehicle, inside :class:`.OnPart`. vehicle : with four fixed rotors.

    Examples
    --------
    >>> from heavytop.control import OnPart
    >>> from heavytop.copters import agile_law, load
    >>> craft = load("hummingbird")
    >>> Failover(OnPart(agile_law(craft), craft.model), craft).state_size
    8
    """

    def __init__(self, controller: Any, vehicle: Vehicle) -> None:
        super().__init__(controller)
        self.vehicle, self.hull = vehicle, Hull.of(vehicle.model)
        self.actuators = (vehicle.propulsion or typical_propulsion(vehicle)).actuators
        self.laws = [dead_rotor_law(vehicle, k) for k in range(vehicle.model.nu)]
        self.own_state_size = 2 * vehicle.model.nu

    def first(self) -> np.ndarray:
        """Expected speeds of hovering, no suspicion."""
        return np.concatenate([hover_levels(self.hull, self.actuators), np.zeros(self.vehicle.model.nu)])

    def _suspicion(self, at: Seen) -> Array:
        """Seconds (nu,) of suspicion; at :data:`DWELL` they stay."""
        nu = self.vehicle.model.nu
        hover = hover_levels(self.hull, self.actuators)
        expected, before = part(at.z, 0, nu), part(at.z, nu, 2 * nu)
        speed = reading(at, "rotor_speeds", "Failover")
        odd = np.where(speed < SLOW * hover, 1.0, 0.0) * np.where(expected > TURNING * hover, 1.0, 0.0)
        counted = within(before + at.period * (2 * odd - 1), 0.0, DWELL)
        # one dead rotor is what the law can bear: the first one stays the only one
        found = np.where(before >= DWELL, 1.0, 0.0)
        any_found = sum((found[k] for k in range(nu)), start=0.0)
        return np.where(found > 0.5, DWELL, np.where(any_found > 0.5, 0.0, counted))

    def dead(self, at: Seen) -> Array:
        """1 for the rotor that is given up (nu,)."""
        suspicion, nu = self._suspicion(at), self.vehicle.model.nu
        flags, taken = [], 0.0
        for k in range(nu):
            flag = np.where(suspicion[k] >= DWELL, 1.0, 0.0) * (1.0 - taken)
            taken = taken + flag
            flags.append(flag)
        return vector(*flags)

    def acted(self, at: Seen, u: Array) -> Array:
        """The inputs of the law that holds."""
        dead = self.dead(at)
        q, v = state_of(at, self.vehicle.model.nv)
        p = self.vehicle.model.parameter_vector()
        for k, law in enumerate(self.laws):
            u = np.where(dead[k] > 0.5, law.traced_law.expressions(q, v, *at.reference, p)[0], u)
        return u

    def following(self, at: Seen, u: Array) -> Array:
        """Expected speeds and suspicion."""
        nu = self.vehicle.model.nu
        expected, kept = part(at.z, 0, nu), float(np.exp(-at.period / EXPECTED_TIME))
        target = self.actuators.target(self.acted(at, u))
        return concatenate(np.minimum(target, target + (expected - target) * kept), self._suspicion(at))

    def channels(self, at: Seen, u: Array) -> dict[str, Array]:
        """Which rotors are given up."""
        return {"dead": self.dead(at)}
