"""Displacement of a joint from a rest position, in its velocity coordinates: the angle of a hinge, the rotation vector of a ball joint."""

from __future__ import annotations

from typing import Any

import numpy as np

from heavytop._arrays import Array, as_array, from_columns, shape
from heavytop.coordinates import Coordinates
from heavytop.errors import ModelError, wrong_shape
from heavytop.system.forces.ports import JointPort, Port


def spread(value: Any, size: int, what: str) -> Array:
    """One value for each velocity of a joint (n,), from one number or from n; symbols are welcome."""
    value = as_array(value)
    if shape(value) == ():
        return value * np.ones(size)
    if shape(value) != (size,):
        raise wrong_shape(what, (size,), shape(value), "Give one number, or one for each velocity of the joint.")
    return value


class Displacement:
    """delta (n,) with ``retract(rest, delta) = q`` and its rate ``delta' = T(delta) w``."""

    def __init__(self, coordinates: Coordinates, rest: Array) -> None:
        self.coordinates = coordinates
        self.rest = coordinates.retract(coordinates.neutral(), rest)

    @classmethod
    def at(cls, port: Port, rest: Any, what: str) -> Displacement:
        """From the rest position ``rest`` of the joint at a port: a displacement from its neutral configuration."""
        if not isinstance(port, JointPort) or not port.coordinates.is_group:
            raise ModelError(
                f"{what} measures a displacement, which this joint's coordinates do not offer. Give an energy instead: "
                "system.potential(lambda q: ...), or your own ht.JointElement."
            )
        return cls(port.coordinates, spread(rest, port.size, f"rest of {what}"))

    def of(self, q: Array) -> Array:
        """delta (n,); at most half a turn for rotations."""
        return self.coordinates.difference(self.rest, q)

    def rate(self, delta: Array, w: Array) -> Array:
        """T(delta) w (n,)."""
        return self.coordinates.tangent_inverse(delta, w)

    def pulled_back(self, delta: Array, force: Array) -> Array:
        """T(delta)^T force (n,): a force on the displacement as one on the velocities."""
        columns = [self.rate(delta, unit) for unit in np.eye(shape(delta)[0])]
        return np.matvec(np.swapaxes(from_columns(*columns), -1, -2), force)
