"""Derivatives in closed form compared with differentiation and with differences."""

from __future__ import annotations

import numpy as np
import pytest

import heavytop as ht
from heavytop.system import solve_definite
from heavytop.system.dynamics import derivatives, tree_slopes
from heavytop.system.dynamics.solve import inverse_definite


def inertia(rng: np.random.Generator) -> ht.Inertia:
    return ht.Inertia.from_particles(rng.uniform(0.2, 1.0, 6), rng.standard_normal((6, 3)))


def placed(rng: np.random.Generator) -> np.ndarray:
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = np.linalg.qr(rng.standard_normal((3, 3)))[0], rng.standard_normal(3)
    pose[:3, 0] *= np.sign(np.linalg.det(pose[:3, :3]))
    return pose


def arm() -> ht.System:
    """Oblique axes, slides and branches on a fixed base; all driven."""
    rng, system = np.random.default_rng(1), ht.System(name="arm")
    axis = (0.48, 0.6, 0.64)
    system.body("a", joint=ht.Revolute(axis), inertia=inertia(rng), at=placed(rng))
    system.body("b", joint=ht.Prismatic("x"), parent="a", inertia=inertia(rng), at=placed(rng))
    system.body("c", joint=ht.Revolute("y"), parent="b", inertia=inertia(rng), at=placed(rng))
    system.body("d", joint=ht.Revolute("z"), parent="a", inertia=inertia(rng), at=placed(rng))
    for name in "abcd":
        system.input(f"u_{name}", ht.JointForce(name))
    return system


def flying() -> ht.System:
    """A free body with a ball joint, springs, dampers, a follower and parameters."""
    rng, system = np.random.default_rng(2), ht.System(name="flying")
    mass = system.parameter("mass", 1.3)
    system.body("hull", joint=ht.Free(), inertia=ht.Inertia(mass, com=(0.1, 0.2, -0.3), moment_at_com=(0.3, 0.4, 0.5)))
    system.body("ball", joint=ht.Spherical(), parent="hull", inertia=inertia(rng), at=placed(rng))
    system.body(
        "tip", joint=ht.Revolute("x", damping=0.3, armature=0.2), parent="ball", inertia=inertia(rng), at=placed(rng)
    )
    follower = ht.Coupled(ht.Revolute("y"), "tip", ratio=-0.7)
    system.body("hook", joint=follower, parent="hull", inertia=inertia(rng), at=placed(rng))
    system.spring("hull", "tip", ht.Stiffness(3.0, moment_at_center=(0.5, 0.6, 0.7)))
    return system


@pytest.mark.thorough
@pytest.mark.parametrize("make", [arm, flying])
def test_closed_form_agrees_with_differentiation(make, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = make().derive()
    assert tree_slopes.is_closed_form(closed.expressions.dynamics)
    plain = make().derive()
    monkeypatch.setattr(derivatives, "is_closed_form", lambda _: False)
    rng = np.random.default_rng(0)
    q, v, u = closed.random(0, (5,)), rng.standard_normal((5, closed.nv)), rng.standard_normal((5, closed.nu))
    p = np.broadcast_to(closed.parameter_vector(), (5, len(closed.parameter_names)))
    theirs = plain.traced("acceleration_derivatives").interpret(q, v, u, p)
    monkeypatch.undo()
    ours = closed.traced("acceleration_derivatives").interpret(q, v, u, p)
    for x, y in zip(ours, theirs, strict=True):
        assert np.max(np.abs(x - y), initial=0.0) <= 1e-13 * max(np.max(np.abs(y), initial=0.0), 1.0)


@pytest.mark.thorough
def test_they_are_as_exact_far_from_the_origin_of_the_world() -> None:
    model = flying().derive()
    q, v = model.random(0), np.random.default_rng(3).standard_normal(model.nv)
    far = q.copy()
    far[:3] += 1e7
    for near_by, far_off in zip(
        model.acceleration_derivatives(q, v), model.acceleration_derivatives(far, v), strict=True
    ):
        np.testing.assert_allclose(far_off, near_by, rtol=0, atol=1e-11 * np.max(np.abs(near_by), initial=1.0))


def test_joints_whose_subspace_turns_are_differentiated() -> None:
    system = ht.System(name="turning")
    system.body("a", joint=ht.Universal(), inertia=ht.Inertia(1.0, com=(0, 0, -1), moment_at_com=(1, 1, 1)))
    model = system.derive()
    assert not tree_slopes.is_closed_form(model.expressions.dynamics)
    model.acceleration_derivatives(model.random(0), np.ones(model.nv))


@pytest.mark.thorough
def test_parameter_derivatives_are_slopes_of_the_acceleration() -> None:
    model = flying().derive()
    q, v, step = model.random(0), np.ones(model.nv), 1e-6
    up, down = (model.acceleration(q, v, parameters={"mass": 1.3 + s}) for s in (step, -step))
    np.testing.assert_allclose(model.parameter_derivatives(q, v)[:, 0], (up - down) / (2 * step), atol=1e-7)
    with pytest.raises(ht.errors.ModelError, match="no parameters"):
        arm().derive().parameter_derivatives(np.zeros(4), np.zeros(4))


def test_inverse_keeps_the_zeros_between_branches() -> None:
    model = arm().derive()
    M = model.expressions.dynamics.mass_matrix
    q = model.random(0)
    traced = ht.compile.trace_of("inverse", {"q": model.expressions.q}, {"P": inverse_definite(M)})
    P = traced.interpret(q)[0]
    np.testing.assert_allclose(P @ model.mass_matrix(q), np.eye(4), atol=1e-12)
    np.testing.assert_allclose(P, solve_definite(model.mass_matrix(q), np.eye(4)), rtol=1e-12)
