"""Viscous damping of one body in a fluid that moves with another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from heavytop._arrays import Array
from heavytop._format import Brief
from heavytop.system.description.moments import Damping
from heavytop.system.forces.base import Line, PairElement


@dataclass(frozen=True, eq=False, repr=False)
class Damper(Brief, PairElement):
    """Damping of body b in a fluid fixed to body a: R = 1/2 xi^T D xi (eq. 3.122).

    >>> import heavytop as ht
    >>> system = ht.System(gravity=(0, 0, 0))
    >>> system.body("arm", joint=ht.Revolute("z"), inertia=ht.Inertia(1.0, com=(1, 0, 0)))
    >>> system.add(Damper("world", "arm", ht.Damping(0.5)))
    >>> model = system.derive(native=False)
    >>> float(model.acceleration([0.0], [2.0])[0])
    0.0
    """

    a: str
    b: str
    damping_moments: Damping

    def not_negative(self) -> Mapping[str, Any]:
        return {"damping": self.damping_moments}

    def lines(self) -> tuple[Line, ...]:
        return ()

    def dissipation(self, pose: Array, twist: Array, /) -> Array:
        return 0.5 * np.vecdot(twist, np.matvec(self.damping_moments.matrix, twist))

    def resistance(self, pose: Array, twist: Array, /) -> Array:
        return np.matvec(self.damping_moments.matrix, twist)

    def damping(self, pose: Array, /) -> Array:
        return self.damping_moments.matrix
