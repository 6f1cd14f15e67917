"""RAPTOR: a neural policy that flies quadcopters it has never seen (distribution ``foundation-policy``), as a controller.

The policy works at 100 Hz on position, attitude, velocities and its last action. It knows nothing of the vehicle, so that a vehicle with a
wrong spin, order or sign does not fly with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec
from math import atan2, cos, pi, sin, sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop.copters.stacks.stack import Desired, Measurements, StackError, Sticks

if TYPE_CHECKING:
    from heavytop.copters.vehicle import Vehicle

PLACES = (-pi / 4, -3 * pi / 4, 3 * pi / 4, pi / 4)
"""Directions of the policy's motors from ahead: front right, back right, back left, front left; the first and the third turn counter-clockwise."""
SPREAD = np.deg2rad(20.0)
"""Deviation of a rotor from these directions up to which a vehicle is a quadcopter of this kind."""


@dataclass(frozen=True)
class Raptor:
    """The policy RAPTOR (extra ``stacks``).

    Parameters
    ----------
    period : sampling period, s; the policy was trained at 100 Hz.
    strongest : thrust-to-weight ratio to which the motors of stronger vehicles are limited: the policy has no integral action and hovers next to its
        goal where the throttle of hovering is far below those it knows (5 cm at a ratio of 10).
    reach : m; a goal further away is given as one in its direction at this distance: weak vehicles fall when the policy is given larger ones.

    Examples
    --------
    >>> Raptor().period
    0.01
    """

    period: float = 0.01
    strongest: float = 5.0
    reach: float = 1.0

    @property
    def name(self) -> str:
        return "RAPTOR"

    def start(self, vehicle: Vehicle, first: Measurements) -> RaptorLink:
        """A policy with a fresh memory."""
        try:
            from foundation_policy import Raptor as Policy  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise StackError("RAPTOR needs the package foundation-policy: pip install 'heavytop[stacks]'.") from error
        policy: Any = Policy()
        policy.reset()
        lift = sum(rotor.thrust[1] for rotor in vehicle.airframe.rotors)
        largest = min(sqrt(self.strongest * vehicle.weight / lift), 1.0)
        return RaptorLink(policy, *arrangement(vehicle), largest, self.reach)


def arrangement(vehicle: Vehicle) -> tuple[list[int], float]:
    """The vehicle's rotor for each of the policy's motors, and the angle (rad) about z from the hull's x to the policy's.

    Raises
    ------
    StackError
        The vehicle is not a quadcopter with rotors at right angles and alternating spins.

    Examples
    --------
    >>> from heavytop.copters import quadcopter
    >>> order, angle = arrangement(quadcopter())
    >>> order, round(angle, 4)
    ([3, 2, 1, 0], -0.7854)
    """
    rotors = vehicle.airframe.rotors
    azimuths = [atan2(rotor.at[1], rotor.at[0]) for rotor in rotors]
    turned = []
    for k, rotor in enumerate(rotors):
        angle = _half_turn(azimuths[k] - PLACES[0])
        order = [
            min(range(len(rotors)), key=lambda j: abs(_half_turn(azimuths[j] - angle - place))) for place in PLACES
        ]
        away = max(abs(_half_turn(azimuths[j] - angle - place)) for j, place in zip(order, PLACES, strict=True))
        spins = [rotors[j].spin for j in order]
        if rotor.spin > 0 and len(set(order)) == 4 == len(rotors) and away < SPREAD and spins == [1.0, -1.0, 1.0, -1.0]:
            turned.append((order, angle))
    if not turned:
        raise StackError(
            f"RAPTOR flies quadcopters with rotors at right angles whose spins alternate; {vehicle.name!r} has "
            f"{len(rotors)} rotors at {np.degrees(azimuths).round(1).tolist()} degrees."
        )
    return min(turned, key=lambda found: abs(found[1]))


class RaptorLink:
    """The policy in flight."""

    def __init__(self, policy: Any, order: list[int], angle: float, largest: float, reach: float) -> None:
        self.policy, self.order, self.largest, self.reach = policy, order, largest, reach
        self.axes = np.array([[cos(angle), -sin(angle), 0.0], [sin(angle), cos(angle), 0.0], [0.0, 0.0, 1.0]])
        self.angle, self.action = angle, np.zeros(4)

    def exchange(self, seen: Measurements, sticks: Sticks, desired: Desired) -> list[float]:
        """Commands (4,) from 0 to 1 of the vehicle's motors."""
        heading = desired.heading + self.angle
        world = np.array([[cos(heading), sin(heading), 0.0], [-sin(heading), cos(heading), 0.0], [0.0, 0.0, 1.0]])
        away, speed = np.subtract(seen.position, desired.position), np.subtract(seen.velocity, desired.velocity)
        away = away * min(self.reach / max(float(np.linalg.norm(away)), 1e-9), 1.0)
        R = world @ np.array(seen.R) @ self.axes
        seen_by_policy = np.concatenate(
            [world @ away, R.reshape(-1), world @ speed, self.axes.T @ seen.gyro, self.action]
        )
        self.action = np.clip(self.policy.evaluate_step(seen_by_policy[None])[0], -1.0, 1.0)
        commands = [0.0] * 4
        for command, rotor in zip(self.action, self.order, strict=True):
            commands[rotor] = 0.5 * (float(command) + 1.0) * self.largest
        return commands

    def close(self) -> None:
        """Nothing to end."""


def _half_turn(angle: float) -> float:
    return (angle + pi) % (2 * pi) - pi


def state() -> str:
    """Whether the policy is installed, as text."""
    return "installed" if find_spec("foundation_policy") else "not installed: pip install 'heavytop[stacks]'"
