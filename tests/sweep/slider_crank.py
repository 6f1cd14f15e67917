"""A slider-crank whose lengths are nearly equal: two branches of motion nearly meet."""

from __future__ import annotations

import numpy as np

import heavytop as ht


def slider_crank() -> tuple[ht.Model, tuple[np.ndarray, np.ndarray]]:
    rod = ht.Inertia(1.0, com=(0.5, 0, 0), moment_at_com=(1e-3, 1 / 12, 1 / 12))
    system = ht.System(name="slider-crank")
    system.body("crank", joint=ht.Revolute("y"), inertia=rod)
    system.body("rod", parent="crank", at=(1, 0, 0), joint=ht.Revolute("y"), inertia=rod)
    system.body("slider", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.loop("slider", "rod", ht.Revolute("y"), at_b=(1.0001, 0, 0), name="pin")
    system.input("motor", ht.JointForce("crank"))
    model = system.derive()
    return model, model.assemble([0.5, -1.0, 1.7], [3.0, 0.0, 0.0], fixed=("crank",))
