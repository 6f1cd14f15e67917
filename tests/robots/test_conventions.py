"""States to other programs and back."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose

import heavytop as ht
from heavytop.geometry import se3, so3

PROGRAMS = ("pinocchio", "mujoco", "drake", "exudyn", "ros", "sympy", "rotorpy")
AT = se3.pose(so3.exp(np.array([0.3, -0.5, 0.2])), np.array([1.0, 2.0, -0.5]))


@pytest.fixture(scope="module", params=[("matrix", "body"), ("quaternion", "mixed")], ids=str)
def model(request) -> ht.Model:
    attitude, velocity = request.param
    inertia = ht.Inertia(1.0, (0.1, 0.2, 0.3), (1.0, 1.1, 1.2))
    system = ht.System()
    system.body("hull", at=AT, joint=ht.Free(attitude, velocity), inertia=inertia)
    system.body("arm", parent="hull", joint=ht.Revolute("z", "circle"), inertia=inertia)
    system.body("ball", parent="arm", joint=ht.Spherical(attitude), inertia=inertia)
    system.body("slide", parent="ball", joint=ht.Prismatic("x"), inertia=inertia)
    return system.derive(native=False)


def state_of(model: ht.Model) -> ht.conventions.ModelState:
    rng = np.random.default_rng(3)
    v, a, force = rng.standard_normal((3, 5, model.nv))
    return ht.conventions.ModelState(model.random(rng, (5,)), v, a, force)


@pytest.mark.parametrize("program", PROGRAMS)
def test_there_and_back(model, program) -> None:
    state = state_of(model)
    there = getattr(ht.conventions, f"to_{program}")(model, *state)
    back = getattr(ht.conventions, f"from_{program}")(model, *there)
    for ours, again in zip(state, back, strict=True):
        sign = np.ones_like(ours)
        if ours is state.q and model.nq == 7 + 2 + 4 + 1:  # quaternions are determined up to sign
            for part in (slice(3, 7), slice(9, 13)):
                sign[:, part] = np.sign(np.sum(ours[:, part] * again[:, part], axis=-1, keepdims=True))
        assert_allclose(again * sign, ours, atol=1e-13)


@pytest.mark.parametrize("program", PROGRAMS)
def test_power_is_the_same_everywhere(model, program) -> None:
    state = state_of(model)
    there = getattr(ht.conventions, f"to_{program}")(model, *state)
    power = np.sum(state.v * state.force, axis=-1)
    assert_allclose(np.sum(there.v * there.force, axis=-1), power, rtol=1e-12)


@pytest.mark.parametrize("program", ["mujoco", "drake", "exudyn", "sympy", "rotorpy"])
def test_linear_rows_are_rates_of_the_position_in_the_world(model, program) -> None:
    """Central differences of the position along the motion give the linear velocity and acceleration of programs in world axes."""
    state, dt = state_of(model), 1e-4
    to = getattr(ht.conventions, f"to_{program}")
    there = to(model, *state)

    def position(t: float) -> np.ndarray:
        v = state.v + state.a * t / 2  # mean velocity from 0 to t
        q = to(model, model.integrate(state.q, v, t)).q
        return q[..., 4:7] if program == "drake" else q[..., :3]

    rows = slice(3, 6) if program == "drake" else slice(0, 3)
    assert_allclose((position(dt) - position(-dt)) / (2 * dt), there.v[..., rows], atol=1e-6)
    second = (position(dt) - 2 * position(0.0) + position(-dt)) / dt**2
    assert_allclose(second, there.a[..., rows], atol=1e-5)


@pytest.fixture(scope="module")
def carried() -> ht.Model:
    """Free and planar joints between bodies."""
    inertia = ht.Inertia(1.0, (0.1, 0.2, 0.3), (1.0, 1.1, 1.2))
    system = ht.System()
    system.body("arm", joint=ht.Revolute("z"), inertia=inertia)
    system.body("hull", parent="arm", at=AT, joint=ht.Free(), inertia=inertia)
    system.body("puck", parent="hull", at=AT, joint=ht.Planar(), inertia=inertia)
    return system.derive(native=False)


@pytest.mark.parametrize("program", ["pinocchio", "drake"])
def test_free_and_planar_joints_between_bodies(carried, program) -> None:
    """Their coordinates are those in the joint; velocities, accelerations and forces go with them."""
    state = state_of(carried)
    to, back = (getattr(ht.conventions, f"{way}_{program}") for way in ("to", "from"))
    there = to(carried, *state)
    again = back(carried, *there)
    for ours, theirs in zip(state[1:], again[1:], strict=True):
        assert_allclose(theirs, ours, atol=1e-13)
    for name in ("hull", "puck"):
        assert_allclose(carried.pose("world", name, again.q), carried.pose("world", name, state.q), atol=1e-13)
    assert_allclose(np.sum(there.v * there.force, axis=-1), np.sum(state.v * state.force, axis=-1), rtol=1e-12)
    relative = np.linalg.inv(AT) @ carried.pose("arm", "hull", state.q)
    place = there.q[:, 1:4] if program == "pinocchio" else there.q[:, 5:8]
    assert_allclose(place, relative[:, :3, 3], atol=1e-13)
    dt = 1e-6  # accelerations are the rates of the velocities there
    moved = carried.integrate(state.q, state.v, dt)
    ahead = to(carried, moved, state.v + dt * state.a)
    behind = to(carried, carried.integrate(state.q, -state.v, dt), state.v - dt * state.a)
    assert_allclose((ahead.v - behind.v) / (2 * dt), there.a, atol=1e-6)


def test_acceleration_needs_the_velocity(model) -> None:
    state = state_of(model)
    with pytest.raises(ht.errors.ModelError, match="accelerations need the velocity"):
        ht.conventions.to_mujoco(model, state.q, a=state.a)
    with pytest.raises(ht.errors.ModelError, match=r"q of 'system' must have shape \(..., "):
        ht.conventions.to_mujoco(model, state.v)


def test_single_quantities() -> None:
    c = ht.conventions
    assert_allclose(c.quaternion_from_xyzw(c.quaternion_to_xyzw([0.1, 0.2, 0.3, 0.4])), [0.1, 0.2, 0.3, 0.4])
    assert_allclose(c.twist_to_angular_first(np.arange(6.0)), [3, 4, 5, 0, 1, 2])
    north = se3.pose(
        so3.rotation_about("z", np.pi / 2), np.array([1.0, 2.0, 3.0])
    )  # looks north, 1 m east, 2 m north, 3 m up
    ned = c.pose_to_ned(north)
    assert_allclose(ned[:3, :3], np.eye(3), atol=1e-15)
    assert_allclose(ned[:3, 3], [2, 1, -3])
    assert_allclose(c.pose_from_ned(ned), north, atol=1e-15)
