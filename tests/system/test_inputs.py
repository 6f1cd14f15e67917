"""Columns of the input matrix are powers of forces; user functions enter the equations as given."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from systems import along, directions, flow, random_inertia, random_pose

import heavytop as ht
from heavytop.geometry import se3, so3


def chain(add, velocity=None) -> ht.Model:
    rng = np.random.default_rng(1)
    system = ht.System(name="chain")
    system.body("hull", joint=ht.Free("quaternion", "mixed"), inertia=random_inertia(rng))
    system.body(
        "ball", parent="hull", at=random_pose(rng), joint=ht.Spherical(velocity="absolute"), inertia=random_inertia(rng)
    )
    system.body("arm", inertia=random_inertia(rng))
    system.connect("arm", "ball", ht.Cylindrical((1, 2, 3)), at=random_pose(rng), name="sleeve")
    system.frame("tip", "arm", random_pose(rng))
    add(system)
    return system.derive(velocity, native=False)


def twists(model, q, body):
    """World velocity of the origin and world angular velocity of a frame, for each unit velocity: (nv, 3) each, by differences."""
    Q = np.broadcast_to(q, (model.nv, model.nq))
    rates = along(lambda t: model.pose("world", body, flow(model, Q, directions(model), t)))
    R = model.pose("world", body, q)[:3, :3]
    return rates[:, :3, 3], so3.vee(rates[:, :3, :3] @ R.T)


def test_thruster():
    model = chain(lambda s: s.input("f", ht.Thruster("tip", at=(0.1, 0.2, 0.3), axis=(0, 3, 4), drag_ratio=0.05)))
    q = model.random(2)
    G = model.pose("world", "tip", q)
    linear, angular = twists(model, q, "tip")
    direction = G[:3, :3] @ [0, 0.6, 0.8]
    point = linear + np.cross(angular, G[:3, :3] @ [0.1, 0.2, 0.3])
    assert_allclose(model.input_matrix(q)[:, 0], point @ direction + 0.05 * angular @ direction, atol=1e-9)


@pytest.mark.parametrize("frame", ["body", "world"])
@pytest.mark.parametrize("relative_to", ["world", "hull"])
def test_wrench(frame, relative_to):
    force, moment = np.array([1.0, -2.0, 3.0]), np.array([0.5, 0.4, -0.3])
    element = ht.Wrench("tip", force, moment, frame=frame, relative_to=relative_to)
    model = chain(lambda s: s.input("f", element))
    q = model.random(3)
    G = model.pose("world", "tip", q)
    turn = np.eye(3) if frame == "world" else G[:3, :3]
    linear, angular = twists(model, q, "tip")
    power = linear @ (turn @ force) + angular @ (turn @ moment)
    if relative_to == "hull":  # the reaction attacks the hull at the same point
        hull_linear, hull_angular = twists(model, q, "hull")
        arm = G[:3, 3] - model.pose("world", "hull", q)[:3, 3]
        power -= (hull_linear + np.cross(hull_angular, arm)) @ (turn @ force) + hull_angular @ (turn @ moment)
    assert_allclose(model.input_matrix(q)[:, 0], power, atol=1e-9)


@pytest.mark.parametrize(("joint", "index"), [("hull", 4), ("ball", 1), ("sleeve", 0), ("sleeve", 1)])
@pytest.mark.parametrize("mapped", [False, True])
def test_joint_force_works_on_the_motion_relative_to_the_parent(joint, index, mapped):
    velocity = (lambda q, v: v + 0.5 * np.cos(q[0]) * v[0]) if mapped else None
    model = chain(lambda s: s.input("f", ht.JointForce(joint, index, gear=2.0)), velocity)
    q = model.random(4)
    own = model.coordinates.left_inverse(q) @ model.kinematics_matrix(q)  # joint velocities per unit of v
    row = model.coordinates.v_slice(joint).start + index
    assert_allclose(model.input_matrix(q)[:, 0], 2.0 * own[row], atol=1e-12)


def test_inputs_are_named_and_ordered():
    def add(system):
        system.input("b", ht.JointForce("sleeve", 0))
        system.input("a", ht.JointForce("sleeve", 1))

    model = chain(add)
    assert model.u_names == ("b", "a")
    assert model.v_names[-2:] == ("sleeve.block1.rate", "sleeve.block2.v_x")
    assert_allclose(model.input_matrix(model.neutral())[-2:], np.eye(2), atol=1e-15)


def test_models_without_inputs_take_none_or_nothing():
    model = chain(lambda s: None)
    q, v = model.random(5), np.ones(model.nv)
    assert model.input_matrix(q).shape == (model.nv, 0)
    assert_allclose(model.acceleration(q, v), model.acceleration(q, v, np.zeros(0)))


def test_quadratic_dissipation_is_damping():
    """1/2 v^T D(q) v adds D(q) to the damping matrix; other functions act by their gradient only."""
    model = chain(lambda s: s.dissipation(lambda q, v: 0.5 * (2 + np.cos(q[0])) * (v[0] - 3 * v[7]) ** 2))
    q, v = model.random(6), np.arange(1.0, model.nv + 1)
    row = np.eye(model.nv)[0] - 3 * np.eye(model.nv)[7]
    D = (2 + np.cos(q[0])) * np.outer(row, row)
    assert_allclose(model.damping_matrix(q), D, atol=1e-13)
    assert_allclose(model.dissipation_force(q, v), D @ v, atol=1e-12)
    cubic = chain(lambda s: s.dissipation(lambda q, v: np.abs(v[2]) ** 3 / 3))
    assert not np.any(cubic.damping_matrix(q))
    assert_allclose(cubic.dissipation_force(q, v)[2], v[2] ** 2, rtol=1e-12)
    free = chain(lambda s: None)
    difference = free.acceleration(q, v) - cubic.acceleration(q, v)
    assert_allclose(free.mass_matrix(q) @ difference, cubic.dissipation_force(q, v), atol=1e-10)


def test_potential_of_the_user_equals_the_spring_it_describes():
    """A spring of the tip to the world written as a potential through the model's own poses."""
    stiffness = ht.Stiffness(3.0, (0.0, 0.0, 0.0), (1.0, 1.0, 1.0))
    rest = se3.pose(so3.rotation_about("x", 0.3), np.array([0.1, 0.2, 0.3]))
    spring = chain(lambda s: s.spring("world", "tip", stiffness, rest=rest))
    plain = chain(lambda s: None)

    def energy(q):
        offset = plain.pose("world", "tip", q) - rest
        return 0.5 * np.trace(offset @ stiffness.moments @ np.swapaxes(offset, -1, -2))

    user = chain(lambda s: s.potential(energy))
    q, v = spring.random(7), np.ones(spring.nv)
    assert_allclose(user.potential_energy(q), spring.potential_energy(q), rtol=1e-13)
    assert_allclose(user.stiffness_force(q), spring.stiffness_force(q), atol=1e-12)
    assert_allclose(user.acceleration(q, v), spring.acceleration(q, v), atol=1e-10)


def test_force_of_the_user_acts_on_the_right():
    model, free = chain(lambda s: s.force(lambda q, v: q[0] * v)), chain(lambda s: None)
    q, v = model.random(8), np.ones(model.nv)
    assert_allclose(model.applied_force(q, v), q[0] * v, atol=1e-14)
    gained = model.acceleration(q, v) - free.acceleration(q, v)
    assert_allclose(model.mass_matrix(q) @ gained, q[0] * v, atol=1e-11)


@pytest.mark.thorough
def test_a_wrench_with_a_parameter_has_a_unit() -> None:
    system = ht.System()
    system.body("hull", joint=ht.Free(), inertia=ht.Inertia(1.0, moment_at_com=(1, 1, 1)))
    system.input("push", ht.Wrench("hull", force=(0, 0, system.parameter("k", 2.0))))
    model = system.derive(native=False)
    assert model.u_units == ("N",)
    assert ht.simulate(model, (model.neutral(), np.zeros(6)), 0.02, 0.01, inputs=np.array([1.0])).outcome.ok
