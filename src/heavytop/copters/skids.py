"""Skids: points of the hull on which a vehicle stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from heavytop._arrays import numbers
from heavytop.copters.airframe import Rotor
from heavytop.errors import ModelError
from heavytop.system import Points, System

GIVEN_IN = 1e-3
"""Depth (m) by which skids give in under the weight, by default."""
SLIP_SPEED = 5e-3
"""Speed (m/s) from which on their friction is full."""


@dataclass(frozen=True)
class Skids:
    """Ends of a landing gear that touch the ground z = 0.

    Parameters
    ----------
    points : (n, 3) centres of their ends in the hull, m. radius : radius of the ends, m.
    friction : Coulomb's coefficient. restitution : coefficient at a speed in m/s.
    stiffness : N/m^1.5 of each; None: such that the weight presses them in by 1 mm.

    Examples
    --------
    >>> skids = Skids([(x, y, -0.1) for x in (-0.1, 0.1) for y in (-0.1, 0.1)], radius=0.01)
    >>> round(skids.height(9.81), 4)
    0.109
    """

    points: Any
    radius: float = 0.01
    friction: float = 0.6
    restitution: tuple[float, float] = (0.2, 1.0)
    stiffness: float | None = None

    def __post_init__(self) -> None:
        places = numbers(self.points, "points of skids")
        if places.ndim != 2 or places.shape[1] != 3 or len(places) < 3:
            raise ModelError(f"skids must have three or more points (n, 3) in m, got an array of shape {places.shape}.")
        object.__setattr__(self, "points", tuple(tuple(place) for place in places.tolist()))
        for name in ("radius", "friction", "stiffness"):
            value = getattr(self, name)
            if value is not None and not (np.isfinite(value) and value >= (1e-6 if name == "stiffness" else 0.0)):
                raise ModelError(f"{name} of skids must be a non-negative number, got {value!r}.")

    def _stiffness(self, weight: float) -> float:
        return weight / self._standing / GIVEN_IN**1.5 if self.stiffness is None else self.stiffness

    @property
    def _standing(self) -> int:
        """Number of the lowest points."""
        z = np.array(self.points)[:, 2]
        return int(np.sum(z < z.min() + 1e-6))

    def height(self, weight: float) -> float:
        """Height (m) of the hull's origin over the ground at rest, level, under a weight in N."""
        depth = (weight / self._standing / self._stiffness(weight)) ** (2 / 3)
        return float(self.radius - np.array(self.points)[:, 2].min() - depth)

    def add_to(self, system: System, weight: float) -> None:
        """Add the ground and the contact of the skids to the description of a vehicle with a weight in N."""
        system.ground(friction=self.friction)
        system.contact(
            "hull",
            "ground",
            Points(self.points, self.radius),
            stiffness=self._stiffness(weight),
            restitution=self.restitution,
            slip_speed=SLIP_SPEED,
            name="skids",
        )


def typical_skids(rotors: Sequence[Rotor]) -> Skids:
    """Four ends below the inner part of the arms, half an arm below the rotors."""
    at = np.array([rotor.at for rotor in rotors], dtype=float)
    arm = float(np.max(np.linalg.norm(at[:, :2], axis=1)))
    low = float(at[:, 2].min()) - 0.5 * arm
    return Skids([(0.5 * x * arm, 0.5 * y * arm, low) for x in (-1, 1) for y in (-1, 1)], radius=0.05 * arm)
