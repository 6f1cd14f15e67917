"""Detection of a stopped rotor by its speed, and the switch to the law without it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._arrays import Array, concatenate, vector
from heavytop.control import Hull, Seen, Wrapper, hover_levels
from heavytop.copters.propulsion import typical_propulsion
from heavytop.copters.rotor_failure.dead_rotor import dead_rotor_law

if TYPE_CHECKING:
    from heavytop.copters.vehicle import Vehicle

STILL, ALIVE, COMMANDED = 0.15, 0.35, 0.4
"""Shares of the hovering speed: a rotor below the first while commanded above the third is suspicious, one above the second is alive."""
DWELL = 0.025
"""Time (s) of suspicion, beyond delay and lag, after which a rotor is dead."""
LATCHED = 1e3
"""Suspicion that never ends."""


class Failover(Wrapper):
    """A law that switches to the one for a dead rotor when the speed of a rotor stays low. It never switches back.

    It replaces the law: ``robust_controller(vehicle, law=Failover(OnPart(law, vehicle.model), vehicle))``. It requires measured rotor
    speeds. The channel ``dead`` is 1 for a rotor that is given up.

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
        """Hovering commands, no suspicion."""
        return np.concatenate([hover_levels(self.hull, self.actuators), np.zeros(self.vehicle.model.nu)])

    def _suspicion(self, at: Seen) -> list[Array]:
        """Seconds of suspicion of every rotor."""
        if "suspicion" in at.shared:
            return at.shared["suspicion"]
        nu, speed = self.vehicle.model.nu, at.signals["rotor_speeds"]
        hover, lag = hover_levels(self.hull, self.actuators), float(np.mean(self.actuators.time_constant))
        patience = DWELL + at.signals.number("delay", 0.0) + 0.5 * at.signals.number("lag", lag)
        before = [at.z[nu + k] for k in range(nu)]
        taken = sum((np.where(b > 0.5 * LATCHED, 1.0, 0.0) for b in before), start=0.0)
        counted = []
        for k in range(nu):
            suspicious = np.where(speed[k] < STILL * hover[k], 1.0, 0.0) * np.where(
                at.z[k] > COMMANDED * hover[k], 1.0, 0.0
            )
            count = np.where(speed[k] > ALIVE * hover[k], 0.0, before[k] + at.period * suspicious)
            # the laws are for one dead rotor: the first one stays the only one
            new = np.where(count > patience, 1.0, 0.0) * np.where(taken > 0.5, 0.0, 1.0)
            counted.append(
                np.where(
                    before[k] > 0.5 * LATCHED,
                    LATCHED,
                    np.where(new > 0.5, LATCHED, count * (1 - np.minimum(taken, 1.0))),
                )
            )
            taken = taken + new
        at.shared["suspicion"] = counted
        return counted

    def dead(self, at: Seen) -> Array:
        """1 for the rotor that is given up (nu,)."""
        return vector(*(np.where(count > 0.5 * LATCHED, 1.0, 0.0) for count in self._suspicion(at)))

    def acted(self, at: Seen, u: Array) -> Array:
        """The inputs of the active law."""
        dead = self.dead(at)
        p = self.vehicle.model.parameter_vector()
        for k, law in enumerate(self.laws):
            u = np.where(dead[k] > 0.5, law.traced_law.expressions(at.q, at.v, *at.reference, p)[0], u)
        return u

    def following(self, at: Seen, u: Array) -> Array:
        return concatenate(self.actuators.target(self.acted(at, u)), vector(*self._suspicion(at)))

    def channels(self, at: Seen, u: Array) -> dict[str, Array]:
        return {"dead": self.dead(at)}
