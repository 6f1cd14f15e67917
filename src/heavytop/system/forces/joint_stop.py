"""Compliant stops at the ends of a joint's range."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from heavytop._arrays import Array, as_array, is_symbolic
from heavytop._format import Brief
from heavytop.system.forces.base import JointElement
from heavytop.system.forces.ports import Displacement, Port, spread

FAR = 1e30
"""Stands for an end that does not exist."""


@dataclass(frozen=True, eq=False, repr=False)
class JointStop(Brief, JointElement):
    """A spring and a damper that act outside the range from ``lower`` to ``upper`` of the joint's displacement from neutral.

    With the depth p beyond an end and u = min(max(p, 0), s) the force is k (u^2 / (2 s) + max(p, 0) - u): it sets in like a parabola
    over the ``smoothing`` s and goes on linearly, with continuous slope. The damper fades in over the same depth.

    >>> import heavytop as ht
    >>> system = ht.System(gravity=(0, 0, 0))
    >>> system.body("arm", joint=ht.Revolute("z"), inertia=ht.Inertia(1.0, com=(1, 0, 0)))
    >>> system.add(JointStop("arm", lower=-1.0, upper=1.0, stiffness=100.0))
    >>> model = system.derive(native=False)
    >>> bool(model.acceleration([1.2], [0.0])[0] < -10), bool(abs(model.acceleration([0.0], [0.0])[0]) < 0.1)
    (True, True)
    """

    joint: str
    lower: Array
    upper: Array
    stiffness: Array
    viscosity: Array = 0.0
    smoothing: Array = 1e-3
    displacement: Any = field(default=None, repr=False)

    def not_negative(self) -> Mapping[str, Any]:
        span = as_array(self.upper) - as_array(self.lower)
        return {"stiffness": self.stiffness, "damping": self.viscosity, "upper less lower": span}

    def positive(self) -> Mapping[str, Array]:
        return {"smoothing": self.smoothing}

    def resolved(self, port: Port) -> JointStop:
        def each(name: str) -> Array:
            return spread(getattr(self, name), port.size, f"{name} of {self.title}")

        return replace(
            self,
            lower=_limited(each("lower")),
            upper=_limited(each("upper")),
            stiffness=each("stiffness"),
            viscosity=each("viscosity"),
            displacement=Displacement.at(port, 0.0, self.title),
        )

    def _depths(self, q: Array) -> tuple[Array, Array, Array]:
        """The displacement and its depths beyond the lower and the upper end (n,)."""
        delta = self.displacement.of(q)
        return delta, np.maximum(self.lower - delta, 0.0), np.maximum(delta - self.upper, 0.0)

    def energy(self, q: Array, /) -> Array:
        total = 0.0
        for depth in self._depths(q)[1:]:
            soft = np.minimum(depth, self.smoothing)
            hard = depth - soft
            stored = soft**3 / (6 * self.smoothing) + 0.5 * hard * (self.smoothing + hard)
            total = total + np.vecdot(self.stiffness, stored)
        return total

    def energy_gradient(self, q: Array, /) -> Array:
        delta, low, high = self._depths(q)
        return self.displacement.pulled_back(delta, self.stiffness * (self._ramp(high) - self._ramp(low)))

    def _ramp(self, depth: Array) -> Array:
        soft = np.minimum(depth, self.smoothing)
        return soft**2 / (2 * self.smoothing) + depth - soft

    def dissipation(self, q: Array, v: Array, /) -> Array:
        delta, low, high = self._depths(q)
        rate = self.displacement.rate(delta, v)
        return 0.5 * np.vecdot(self.viscosity * (self._contact(low) + self._contact(high)), rate * rate)

    def _contact(self, depth: Array) -> Array:
        """From 0 to 1 over the smoothing, with continuous slope."""
        share = np.minimum(depth, self.smoothing) / self.smoothing
        return share**2 * (3.0 - 2.0 * share)


def _limited(ends: Array) -> Array:
    return ends if is_symbolic(ends) else np.clip(ends, -FAR, FAR)
