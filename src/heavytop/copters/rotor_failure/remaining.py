"""Capabilities of a vehicle without some of its rotors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from heavytop.control import FeedbackLaw, Hull
from heavytop.copters.hover_feasibility import LEAST, STRONGEST, reach
from heavytop.errors import ModelError
from heavytop.ocp import Limits

if TYPE_CHECKING:
    from heavytop.copters.vehicle import Vehicle


@dataclass(frozen=True)
class Remaining:
    """Capabilities of a vehicle with dead rotors.

    Attributes
    ----------
    dead : indices of the dead rotors.
    hovers : whether the others can carry the weight without any moment. lift : largest thrust without roll and pitch moment, per weight.
    controls : directions of moments both ways while hovering: roll, pitch, yaw.
    spins : whether the vehicle can hold its position by giving up yaw and spinning.

    Examples
    --------
    >>> from heavytop.copters import hexacopter
    >>> remaining(hexacopter(), 0).hovers
    True
    """

    dead: tuple[int, ...]
    hovers: bool
    lift: float
    controls: tuple[str, ...]
    spins: bool

    @property
    def holds_position(self) -> bool:
        """Whether it can hold its position."""
        return self.spins or (self.hovers and {"roll", "pitch"} <= set(self.controls))

    def __str__(self) -> str:
        if not self.dead:
            return "all rotors turn: it flies fully."
        if self.hovers and {"roll", "pitch", "yaw"} <= set(self.controls):
            return "it flies fully."
        if self.hovers and {"roll", "pitch"} <= set(self.controls):
            return "it holds its position and steers roll and pitch; its heading can be turned one way only, or not at all."
        if self.spins:
            return "it holds its position and spins; its heading is given up."
        if self.lift > 1:
            return f"it cannot hold an attitude; {self.lift:.2g} times its weight can be lifted, which slows a fall."
        return f"it falls: at most {self.lift:.2g} of its weight can be lifted without tumbling."


def remaining(vehicle: Vehicle, *dead: int) -> Remaining:
    """Capabilities of a vehicle with fixed rotors of which some are dead.

    Examples
    --------
    >>> from heavytop.copters import quadcopter
    >>> print(remaining(quadcopter(), 1))
    it holds its position and spins; its heading is given up.
    >>> print(remaining(quadcopter(), 0, 1))
    it falls: at most 0 of its weight can be lifted without tumbling.
    """
    W = Hull.of(vehicle.model).wrenches
    limits = np.array([rotor.thrust for rotor in vehicle.airframe.rotors], dtype=float)
    weight = vehicle.weight
    if not weight:
        raise ModelError(f"{vehicle.name!r} has no weight, so hovering is undefined: give its model gravity.")
    least = LEAST * weight * vehicle.airframe.reach
    low, high = np.maximum(limits[:, 0], 0.0), np.minimum(limits[:, 1], STRONGEST * weight)
    low[list(dead)] = high[list(dead)] = 0.0
    lift = reach(W, low, high, {"roll": 0.0, "pitch": 0.0}, "thrust") or 0.0
    level = {"thrust": weight, "roll": 0.0, "pitch": 0.0, "yaw": 0.0}
    hovers = reach(W, low, high, {k: v for k, v in level.items() if k != "yaw"}, "yaw") is not None
    exact = reach(W, low, high, level, "thrust")

    def controlled(name: str, yaw: bool) -> bool:
        """Whether moments can be made both ways, with the other ones zero; also that about z, unless the heading is given up."""
        others = {k: v for k, v in level.items() if k != name and (k != "yaw" or yaw)}
        both = [reach(W, low, high, others, name, sign) for sign in (1.0, -1.0)]
        return all(b is not None and b > least for b in both)

    controls = [name for name in ("roll", "pitch", "yaw") if controlled(name, exact is not None)]
    if not {"roll", "pitch"} <= set(controls):
        controls += [name for name in ("roll", "pitch") if name not in controls and controlled(name, yaw=False)]
    spins = len(vehicle.airframe.rotors) == 4 and _spins(W, dead) and lift / weight > 1.05
    return Remaining(dead, bool(hovers), float(lift / weight), tuple(controls), spins)


def _spins(W: np.ndarray, dead: tuple[int, ...]) -> bool:
    """One dead rotor of four, or two opposite ones."""
    if len(dead) == 1:
        return True
    return len(dead) == 2 and bool(
        W[3:5, dead[0]] @ W[3:5, dead[1]] < -0.9 * np.prod(np.linalg.norm(W[3:5, list(dead)], axis=0))
    )


def without_rotors(vehicle: Vehicle, *dead: int) -> FeedbackLaw:
    """The law of a vehicle with more rotors than it needs, the dead ones held at zero and heading last."""
    limits = vehicle.limits
    nu = vehicle.model.nu
    lower, upper = limits.bounds(vehicle.model) if limits else (np.zeros(nu), np.full(nu, np.inf))
    lower[list(dead)] = 0.0
    upper[list(dead)] = 1e-9
    priority = limits.torque_priority if limits else 100.0
    return vehicle.law(limits=Limits(lower, upper, priority))
