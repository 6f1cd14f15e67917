"""Placements of frames: positions and poses, as numbers or as expressions of parameters and of the time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from heavytop._arrays import Array, Floats, as_array, constant
from heavytop.errors import ModelError, ShapeError, wrong_shape
from heavytop.geometry import linalg, se3

INSTANTS = (0.0, 0.37, 2.9)
"""Times in s at which what depends on time is checked."""


def placement(at: Array, where: str) -> Array:
    """A pose (4, 4) from a position (3,), a pose, or None for the frame itself."""
    if at is None:
        return constant(np.eye(4))
    value = as_array(at)
    if value.shape == (3,):
        value = se3.pose(np.eye(3), value)
    if value.shape != (4, 4):
        raise wrong_shape(where, (3,), value.shape, "Give a position (3,) or a pose (4, 4).")
    return constant(value)


def check_pose(where: str, at_time: Callable[[float], Floats], moves: bool) -> None:
    """Raise unless the numbers ``at_time(t)`` (4, 4) are a pose, at several times if it ``moves``."""
    for instant in INSTANTS if moves else INSTANTS[:1]:
        numbers, when = at_time(instant), f" at t = {instant:g} s" if moves else ""
        if not np.all(np.isfinite(numbers)):
            raise ShapeError(f"{where} must be finite, got {numbers[:3, 3].tolist()}{when}.")
        if not linalg.is_pose(numbers, 1e-9):
            defect = np.max(np.abs(numbers[:3, :3].T @ numbers[:3, :3] - np.eye(3)))
            raise ModelError(
                f"{where} is not a pose{when}: its rotation part is off by {defect:.3g} from orthogonality, det = "
                f"{np.linalg.det(numbers[:3, :3]):.6g}, last row {numbers[3].tolist()}. Build it with se3.pose(R, r)."
            )
