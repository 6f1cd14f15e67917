"""A box that a point stays out of: a smooth constraint around a body with corners."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from heavytop._arrays import Array, vector
from heavytop._format import format_vector
from heavytop.errors import PlanError, wrong_shape
from heavytop.plan.constraints import Constraint
from heavytop.plan.scene import NodeScene, check_frame
from heavytop.system.model import Model

POWER = 16
"""Of the norm that rounds the box: the larger, the nearer to its faces and the sharper at its edges."""
SWELL = 3.0 ** (1 / POWER)
"""The rounded body that holds the box is larger by this factor."""


@dataclass(frozen=True)
class KeepOutBox(Constraint):
    """A point of a frame stays out of a box with edges along the axes of the world.

    With the distances d from the centre and half the sides h, sum_i (d_i / h_i)^16 >= 3: a body with round edges that holds the box and stands 7 %
    of half a side beside its faces. :class:`HalfSpace` is for walls without an end.

    Examples
    --------
    >>> KeepOutBox("hull", (0, 0, 0), (1, 1, 2)).label
    "'hull' out of the box from (0, 0, 0) to (1, 1, 2)"
    """

    frame: str
    lower: Any
    upper: Any
    offset: Any = (0.0, 0.0, 0.0)

    def __post_init__(self) -> None:
        for name, what in (("lower", "lower corner"), ("upper", "upper corner"), ("offset", "offset of the point")):
            side = np.asarray(getattr(self, name), dtype=float)
            if side.shape != (3,) or not np.all(np.isfinite(side)):
                raise wrong_shape(f"{what} of a box to keep out of", (3,), side.shape, "Three finite numbers in m.")
            object.__setattr__(self, name, tuple(side.tolist()))
        if not np.all(np.array(self.lower) < self.upper):
            raise PlanError(
                f"the lower corner of a box to keep out of must lie below its upper one, got {self.lower} and {self.upper}."
            )

    @property
    def label(self) -> str:
        low, high = (format_vector(side, 6) for side in (self.lower, self.upper))
        return f"{self.frame!r} out of the box from {low} to {high}"

    @property
    def kind(self) -> str:
        return f"keep out box {self.frame} {self.offset}"

    @property
    def own(self) -> np.ndarray:
        low, high = np.array(self.lower), np.array(self.upper)
        return np.concatenate([(low + high) / 2, (high - low) / 2])

    def function(self, scene: NodeScene) -> Array:
        away = (scene.point(self.frame, self.offset) - scene.own[:3]) / scene.own[3:]
        squares = away * away
        # away from the centre by the norm; the small number keeps its slope finite in the centre itself
        return vector((np.sum(squares ** (POWER // 2)) + 1e-12) ** (1 / POWER) - SWELL)

    def bounds(self, model: Model) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros(1), np.full(1, np.inf)

    def excess(self, model: Model, values: np.ndarray) -> np.ndarray:
        """How deep (m) the point is in the rounded box, along the shortest half side."""
        return -values * float(np.min(self.own[3:]))

    def missed_by(self, at: np.ndarray) -> float:
        """How deep (m) a place (3,) is in the box itself; negative outside."""
        return float(np.min(np.minimum(at - np.array(self.lower), np.array(self.upper) - at)))

    def check(self, model: Model) -> None:
        check_frame(model, self.frame)
