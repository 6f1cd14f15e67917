"""The mass matrix by composite bodies is that of the sums over bodies."""

from __future__ import annotations

import numpy as np
import pytest
from heavytop_bench.trees import chain, panda, tricopter_load

import heavytop as ht
from heavytop.compile import trace_of
from heavytop.system.dynamics.articulated import composite_mass_matrix, has_composites, recursive_mass_matrix


def branched() -> ht.System:
    """A branched arm with a parameter."""
    system = ht.System(name="branched")
    length = system.parameter("length", 0.7)
    for name, parent in (("a", "world"), ("b", "a"), ("c", "a")):
        at = (0, 0, 0) if parent == "world" else (length, 0, 0)
        inertia = ht.Inertia(mass=1.3, com=(0.1, 0.2, 0), moment_at_com=(0.02, 0.03, 0.04))
        system.body(
            name, parent=parent, at=at, joint=ht.Spherical() if name == "b" else ht.Revolute("y"), inertia=inertia
        )
    return system


@pytest.mark.parametrize("make", [lambda: chain(7), panda, tricopter_load, branched])
def test_composite_bodies_agree_with_the_sum_over_bodies(make) -> None:
    model = make().derive()
    dynamics, p = model.expressions.dynamics, model.parameter_vector()
    assert has_composites(dynamics)
    for q in model.random(4, (3,)):
        M = composite_mass_matrix(dynamics, model.expressions.p, q, p)
        np.testing.assert_allclose(M, model.mass_matrix(q), rtol=0, atol=1e-13 * np.max(np.abs(M)))
    e = model.expressions
    symbolic = trace_of("mass", {"q": e.q, "p": e.p}, {"M": recursive_mass_matrix(dynamics)})
    np.testing.assert_allclose(symbolic.interpret(q, p)[0], M, rtol=0, atol=1e-13 * np.max(np.abs(M)))
