"""Dry and viscous friction in a joint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from heavytop._arrays import Array
from heavytop._format import Brief
from heavytop.system.forces.base import JointElement
from heavytop.system.forces.joint_damper import diagonal
from heavytop.system.forces.ports import Port, spread


@dataclass(frozen=True, eq=False, repr=False)
class JointFriction(Brief, JointElement):
    """Smooth Coulomb friction with the Stribeck effect, and viscous friction, for each velocity w of the joint:

    (F_C + (F_S - F_C) exp(-(w / w_S)^2)) tanh(w / w_0) + d w

    F_C is the ``coulomb`` friction, F_S the ``static`` one, w_S the ``stribeck_speed``, w_0 the ``smoothing`` and d the ``viscous``
    coefficient. It never drives: w times the force is not negative. Being smooth it creeps instead of sticking.

    >>> import heavytop as ht
    >>> system = ht.System(gravity=(0, 0, 0))
    >>> system.body("arm", joint=ht.Revolute("z"), inertia=ht.Inertia(1.0, com=(1, 0, 0)))
    >>> system.add(JointFriction("arm", coulomb=0.3))
    >>> float(system.derive(native=False).acceleration([0.0], [2.0])[0].round(6))
    -0.3
    """

    joint: str
    coulomb: Array
    viscous: Array = 0.0
    static: Array | None = None
    stribeck_speed: Array = 0.1
    smoothing: Array = 0.01

    def resolved(self, port: Port) -> JointFriction:
        def each(name: str) -> Array:
            return spread(getattr(self, name), port.size, f"{name} of {self.title}")

        static = None if self.static is None else each("static")
        return replace(
            self,
            coulomb=each("coulomb"),
            viscous=each("viscous"),
            static=static,
            stribeck_speed=each("stribeck_speed"),
            smoothing=each("smoothing"),
        )

    def resistance(self, q: Array, v: Array, /) -> Array:
        level = self.coulomb
        if self.static is not None:
            level = level + (self.static - self.coulomb) * np.exp(-((v / self.stribeck_speed) ** 2))
        return level * np.tanh(v / self.smoothing) + self.viscous * v

    def damping(self, q: Array, /) -> Array:
        return diagonal(self.viscous)

    def not_negative(self) -> Mapping[str, Any]:
        static = {} if self.static is None else {"static": self.static}
        return {"coulomb": self.coulomb, "viscous": self.viscous, **static}

    def positive(self) -> Mapping[str, Array]:
        return {"stribeck_speed": self.stribeck_speed, "smoothing": self.smoothing}

    def joint_constants(self) -> Mapping[str, Array]:
        return {"friction": self.coulomb, "damping": self.viscous}

    def left_out(self) -> str:
        return (
            "smooth near zero here" if self.static is None else "without the static friction, and smooth near zero here"
        )
