"""Integral action on position and attitude errors.

The state of a term is the integral of a position error in axes of body a, or of an attitude error in axes of body b: both are
geometric vectors, so the law does not depend on the coordinates of the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate, part, symbol, transpose, vector
from heavytop.control.laws.law_terms import LawTerms
from heavytop.errors import ControlError, wrong_shape
from heavytop.geometry import se3, so3
from heavytop.system import WORLD, Stiffness


@dataclass(frozen=True, eq=False)
class Integral:
    """Integral action on body ``body`` relative to body ``relative_to``.

    Parameters
    ----------
    body : body or frame name.
    gain : force per integrated position error, N/(m s).
    moment_gain : moment per integrated attitude error about the body axes, N m/(rad s): one number or (3,); axes with gain 0 are not
        integrated. An underactuated vehicle can keep its position or its tilt, not both: integrate its yaw only, (0, 0, gain).
    at : (3,) point whose position error is integrated, in the body frame. The force acts at the prototype's centre of stiffness.
    limit : bound of each component of the integrals (m s, rad s); growth beyond it stops (anti-windup).

    Examples
    --------
    >>> Integral("hull", gain=0.5, limit=2.0).gain
    0.5
    """

    body: str
    gain: float = 0.0
    moment_gain: Any = 0.0
    at: Any = (0.0, 0.0, 0.0)
    limit: float = np.inf
    relative_to: str = WORLD

    def __post_init__(self) -> None:
        if np.shape(self.moment_gain) not in ((), (3,)):
            raise wrong_shape(f"moment_gain of the integral action on {self.body!r}", (3,), np.shape(self.moment_gain))
        if self.gain < 0 or np.any(self.moments < 0) or self.size == 0:
            raise ControlError(
                f"integral action on {self.body!r} needs non-negative gains that are not both zero, got gain = {self.gain} and "
                f"moment_gain = {self.moment_gain}."
            )
        if not self.limit > 0:
            raise ControlError(f"the limit of the integral action on {self.body!r} must be positive, got {self.limit}.")

    @property
    def moments(self) -> np.ndarray:
        """Moment gain (3,) about each body axis."""
        return np.broadcast_to(np.asarray(self.moment_gain, dtype=float), (3,))

    @property
    def axes(self) -> tuple[int, ...]:
        """Body axes whose attitude error is integrated."""
        return tuple(i for i in range(3) if self.moments[i] != 0)

    @property
    def size(self) -> int:
        """Number of states."""
        return 3 * bool(self.gain) + len(self.axes)

    def force_and_rate(self, terms: LawTerms, z: Array) -> tuple[Array, Array]:
        """Generalised force (nv,) to be added to c_bar, and the rate (size,) of the states ``z``."""
        stiffness = terms.prototype.stiffness.get((self.relative_to, self.body))
        center = np.zeros(3) if stiffness is None else stiffness.center
        t = terms.term(self.relative_to, self.body, stiffness or Stiffness())
        R = se3.rotation(t.motion.pose)
        wrench, errors, place = np.zeros(6), [], 0
        if self.gain:
            point = np.asarray(self.at, dtype=float)
            errors.append(se3.transform(t.motion.pose, point) - se3.transform(t.reference.pose, point))
            force = np.matvec(transpose(R), self.gain * part(z, 0, 3))
            wrench = wrench + concatenate(force, np.cross(center, force))
            place = 3
        if self.axes:
            turned = 0.5 * so3.vee2(np.eye(3) - se3.rotation(t.error))
            errors.append(vector(*(turned[i] for i in self.axes)))
            moment: list[Array] = [0.0, 0.0, 0.0]
            for k, i in enumerate(self.axes):
                moment[i] = self.moments[i] * z[place + k]
            wrench = wrench + concatenate(np.zeros(3), vector(*moment))
        return t.generalised(wrench), self._limited_rate(z, concatenate(*errors))

    def _limited_rate(self, z: Array, rate: Array) -> Array:
        if np.isinf(self.limit):
            return rate
        kept = [
            np.where(np.logical_and(z[i] * rate[i] > 0, z[i] * z[i] > self.limit**2), 0.0, rate[i])
            for i in range(self.size)
        ]
        return vector(*kept)


def integral_symbols(integrals: tuple[Integral, ...]) -> Array:
    """The states z of all integrals."""
    return symbol("z", sum(i.size for i in integrals))
