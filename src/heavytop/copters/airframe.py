"""The shape of a multicopter: poses of its rotors and its slung load. Data for models and for drawing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from heavytop._format import Brief, counted
from heavytop.errors import ModelError, wrong_shape
from heavytop.geometry import so3


@dataclass(frozen=True, eq=False, repr=False)
class Rotor(Brief):
    """A propeller on the hull.

    Parameters
    ----------
    at : (3,) its centre in the hull frame, m.
    axis : direction of its thrust in the hull frame: "x", "y", "z" or (3,).
    drag_ratio : torque about ``axis`` per thrust, m; the sign is that of the torque on the hull.
    thrust : least and largest thrust, N.
    tilt : (3,) direction of a second force component if the propeller tilts, perpendicular to ``axis``; None if it is fixed.
    radius : radius of the propeller, m; for drawing.
    tilt_range : least and largest tilt, rad; default: full turns.
    tilt_rate : largest change of the tilt per second, rad/s.

    Examples
    --------
    >>> Rotor((0.2, 0, 0), drag_ratio=0.016, thrust=(0.0, 6.0)).wrench
    array([ 0.   ,  0.   ,  1.   ,  0.   , -0.2  ,  0.016])
    """

    at: Any
    axis: Any = "z"
    drag_ratio: float = 0.0
    thrust: tuple[float, float] = (0.0, np.inf)
    tilt: Any = None
    radius: float = 0.1
    tilt_range: tuple[float, float] = (-np.inf, np.inf)
    tilt_rate: float = np.inf

    def __post_init__(self) -> None:
        at = np.array(self.at, dtype=float)
        if at.shape != (3,):
            raise wrong_shape("position 'at' of a rotor", (3,), at.shape)
        low, high = self.thrust
        if not low < high:
            raise ModelError(f"thrust of a rotor must be (least, largest), got {tuple(self.thrust)}.")
        if not self.radius > 0:
            raise ModelError(f"radius of a rotor must be positive, got {self.radius}.")
        axis = np.asarray(so3.unit_axis(self.axis), dtype=float)
        object.__setattr__(self, "at", at)
        object.__setattr__(self, "axis", axis)
        if self.tilt is not None:
            tilt = np.asarray(so3.unit_axis(self.tilt), dtype=float)
            if abs(tilt @ axis) > 1e-9:
                raise ModelError(f"tilt of a rotor must be perpendicular to its axis, got {self.tilt} and {self.axis}.")
            object.__setattr__(self, "tilt", tilt)
        elif np.any(np.isfinite(self.tilt_range)) or np.isfinite(self.tilt_rate):
            raise ModelError("tilt_range and tilt_rate need a tilting rotor: give it tilt=(3,).")

    @property
    def directions(self) -> np.ndarray:
        """(k, 3) directions of its forces, one per input: (tilt, axis), or (axis,) if it is fixed."""
        return np.array([self.axis]) if self.tilt is None else np.array([self.tilt, self.axis])

    @property
    def wrench(self) -> np.ndarray:
        """(6,) force and moment about the hull's origin per thrust along ``axis``."""
        return self.wrench_along(self.axis)

    def wrench_along(self, direction: np.ndarray) -> np.ndarray:
        """(6,) the same per force along a direction (3,)."""
        return np.concatenate([direction, np.cross(self.at, direction) + self.drag_ratio * direction])

    @property
    def spin(self) -> float:
        """+1 if it turns counter-clockwise about ``axis`` (the torque on the hull is opposite), -1 otherwise."""
        return -1.0 if self.drag_ratio > 0 else 1.0


@dataclass(frozen=True)
class Hanging:
    """A slung load for drawing: its body, length of the cable or rod and size of the crate, m.

    >>> Hanging(cable=0.8).cable
    0.8
    """

    body: str = "load"
    cable: float = 0.5
    size: float = 0.12


@dataclass(frozen=True, eq=False)
class Airframe:
    """Rotors and load of a vehicle.

    The inputs of the vehicle are, rotor after rotor, the forces along :attr:`Rotor.directions`.
    """

    rotors: Sequence[Rotor]
    load: Hanging | None = None
    front: Any = field(default=(1.0, 0.0, 0.0))

    def __repr__(self) -> str:
        return f"Airframe({counted(len(self.rotors), 'rotor')}{' with a load' if self.load is not None else ''})"

    def __post_init__(self) -> None:
        object.__setattr__(self, "rotors", tuple(self.rotors))
        if not self.rotors:
            raise ModelError("an airframe needs at least one rotor.")

    @property
    def inputs(self) -> int:
        """Number of inputs."""
        return sum(len(rotor.directions) for rotor in self.rotors)

    @property
    def positions(self) -> np.ndarray:
        """(n, 3) centres of the propellers, m."""
        return np.array([rotor.at for rotor in self.rotors])

    @property
    def reach(self) -> float:
        """Largest distance of a propeller's centre from the origin, m."""
        return float(np.max(np.linalg.norm(self.positions, axis=1)))

    def forces(self, u: Any) -> np.ndarray:
        """(..., n, 3) forces of the rotors in the hull frame, N, from the inputs u (..., inputs).

        >>> Airframe([Rotor((1, 0, 0), tilt="y"), Rotor((-1, 0, 0))]).forces([1.0, 2.0, 3.0])
        array([[0., 1., 2.],
               [0., 0., 3.]])
        """
        u = np.asarray(u, dtype=float)
        if u.shape[-1:] != (self.inputs,):
            raise wrong_shape("inputs of an airframe", ("...", self.inputs), u.shape)
        ends = np.cumsum([len(rotor.directions) for rotor in self.rotors])
        parts = np.split(u, ends[:-1], axis=-1)
        return np.stack([x @ rotor.directions for x, rotor in zip(parts, self.rotors, strict=True)], axis=-2)

    def thrusts(self, u: Any) -> np.ndarray:
        """(..., n) thrusts in N: signed along the axis of a fixed rotor, the size of the force of a tilting one."""
        forces = self.forces(u)
        along = [
            np.linalg.norm(forces[..., k, :], axis=-1) if rotor.tilt is not None else forces[..., k, :] @ rotor.axis
            for k, rotor in enumerate(self.rotors)
        ]
        return np.stack(along, axis=-1)

    def tilts(self, u: Any) -> np.ndarray:
        """(..., n) tilt angles of the thrust axes, rad; zero for fixed rotors.

        The sign is that of the right-hand rule about ``tilt x axis``, the arm of a tricopter: ``atan2(-ft, fz)`` with the
        arm pointing outwards.
        """
        forces = self.forces(u)
        angles = [
            np.zeros(forces.shape[:-2])
            if rotor.tilt is None
            else np.arctan2(-forces[..., k, :] @ rotor.tilt, forces[..., k, :] @ rotor.axis)
            for k, rotor in enumerate(self.rotors)
        ]
        return np.stack(angles, axis=-1)

    @property
    def thrust_range(self) -> tuple[float, float] | None:
        """Range of thrusts common to all rotors; None without finite limits."""
        low = max(rotor.thrust[0] for rotor in self.rotors)
        high = min(rotor.thrust[1] for rotor in self.rotors)
        return (low, high) if np.isfinite(low) and np.isfinite(high) else None


def ring(
    count: int, arm: float, *, start: float = 0.0, drag_ratio: float = 0.0, height: float = 0.0, **options: Any
) -> tuple[Rotor, ...]:
    """``count`` rotors on a circle of radius ``arm``, the first at the angle ``start`` (rad) from x, torques alternating.

    >>> [tuple(float(x) for x in np.round(rotor.at, 3)) for rotor in ring(4, 0.2)]
    [(0.2, 0.0, 0.0), (0.0, 0.2, 0.0), (-0.2, 0.0, 0.0), (-0.0, -0.2, 0.0)]
    """
    angles = [start + 2 * np.pi * k / count for k in range(count)]
    return tuple(
        Rotor((arm * np.cos(a), arm * np.sin(a), height), drag_ratio=(-1) ** k * drag_ratio, **options)
        for k, a in enumerate(angles)
    )
