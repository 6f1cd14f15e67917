"""Integral action: forces that grow until a point of a body is where it shall be.

The state of a term is the integral of a position error in axes of body a, or of an attitude error in axes of body b: both are
vectors of space, so the law does not depend on the coordinates of the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate, part, symbol, transpose, vector
from heavytop.control.setting import Setting
from heavytop.errors import ControlError
from heavytop.geometry import se3, so3
from heavytop.system.moments import Stiffness
from heavytop.system.names import WORLD


@dataclass(frozen=True, eq=False)
class Integral:
    """Integral action on body ``body`` relative to body ``relative_to``.

    Parameters
    ----------
    body : body or frame name.
    gain : force per integrated position error, N/(m s).
    moment_gain : moment per integrated attitude error, N m/(rad s); 0 integrates no attitude.
    at : (3,) point whose position error is integrated, in the body frame. The force acts at the prototype's centre of stiffness.
    limit : bound of each component of the integrals (m s, rad s); growth beyond it stops (anti-windup).
    """

    body: str
    gain: float = 0.0
    moment_gain: float = 0.0
    at: Any = (0.0, 0.0, 0.0)
    limit: float = np.inf
    relative_to: str = WORLD

    def __post_init__(self) -> None:
        if self.gain < 0 or self.moment_gain < 0 or self.gain == self.moment_gain == 0:
            raise ControlError(
                f"integral action on {self.body!r} needs gains that are not negative and not both zero, got gain = {self.gain} and "
                f"moment_gain = {self.moment_gain}."
            )
        if not self.limit > 0:
            raise ControlError(f"the limit of the integral action on {self.body!r} must be positive, got {self.limit}.")

    @property
    def size(self) -> int:
        """Number of states."""
        return 3 * bool(self.gain) + 3 * bool(self.moment_gain)

    def force_and_rate(self, setting: Setting, z: Array) -> tuple[Array, Array]:
        """Generalised force (nv,) that joins cbar, and the rate (size,) of the states ``z``."""
        stiffness = setting.prototype.stiffness.get((self.relative_to, self.body))
        center = np.zeros(3) if stiffness is None else stiffness.center
        t = setting.term(self.relative_to, self.body, stiffness or Stiffness())
        R = se3.rotation(t.motion.pose)
        wrench, errors, place = np.zeros(6), [], 0
        if self.gain:
            point = np.asarray(self.at, dtype=float)
            errors.append(se3.transform(t.motion.pose, point) - se3.transform(t.reference.pose, point))
            force = np.matvec(transpose(R), self.gain * part(z, 0, 3))
            wrench = wrench + concatenate(force, np.cross(center, force))
            place = 3
        if self.moment_gain:
            errors.append(0.5 * so3.vee2(np.eye(3) - se3.rotation(t.error)))
            wrench = wrench + concatenate(np.zeros(3), self.moment_gain * part(z, place, place + 3))
        return t.generalised(wrench), self._held(z, concatenate(*errors))

    def _held(self, z: Array, rate: Array) -> Array:
        """No growth beyond the limit."""
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
