"""Quadratic weights of deviations, shared by the linear-quadratic regulator and predictive control."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from heavytop._arrays import numbers
from heavytop.errors import ControlError, wrong_shape
from heavytop.ocp import is_turn
from heavytop.system import Model


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights of squared deviations per second: of places, velocities and inputs.

    Parameters
    ----------
    places : a number or one for each entry of the chart; None: 10 along shifts, 5 about turns.
    speeds : a number or (nv,); None: 1, and 0.1 for the velocities of turns.
    inputs : a number or (nu,).

    Examples
    --------
    >>> import heavytop as ht
    >>> Weights(places=2.0).vectors(ht.library.cart_pole().derive())[0]
    array([2., 2., 1., 1.])
    """

    places: Any = None
    speeds: Any = None
    inputs: Any = 0.1

    def vectors(self, model: Model) -> tuple[np.ndarray, np.ndarray]:
        """Weights of (e, v) (nx,) and of the inputs (nu,), checked."""
        turns = is_turn(model.coordinates)
        speeds = np.where(turns, 0.1, 1.0) if len(turns) == model.nv else np.ones(model.nv)
        rows = (
            ("places", np.where(turns, 5.0, 10.0) if self.places is None else self.places, len(turns)),
            ("speeds", speeds if self.speeds is None else self.speeds, model.nv),
            ("inputs", self.inputs, model.nu),
        )
        values = []
        for name, given, size in rows:
            array = numbers(given, f"weights of {name}")
            if array.shape not in ((), (size,)):
                raise wrong_shape(f"weights of {name}", (size,), array.shape)
            if not np.all(np.isfinite(array)) or np.any(array < 0) or (name == "inputs" and np.any(array <= 0)):
                least = "positive" if name == "inputs" else "zero or positive"
                raise ControlError(f"weights of {name} must be {least} and finite, got {array.tolist()}.")
            values.append(np.broadcast_to(array, (size,)))
        return np.concatenate(values[:2]), values[2].copy()
