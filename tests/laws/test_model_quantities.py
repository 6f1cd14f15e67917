"""Kinematics, momenta, energies and power of a model against sums over particles and finite differences, in any coordinates."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from systems import along, flow, model_of, random_inertia, state_of

import heavytop as ht
from heavytop.errors import ModelError, ShapeError
from heavytop.geometry import se3

NAMES = ("tree-free-root", "tree-absolute-chain", "tree-custom", "tree-remapped", "free-quaternion-unified")
every_system = pytest.mark.parametrize("name", NAMES)


def particles(model: ht.Model, body: str) -> tuple[np.ndarray, np.ndarray]:
    """Four masses (4,) at points (4, 3) of a body with its mass, centre and moments."""
    inertia = model.description.inertias[body]
    p = {parameter.name: parameter for parameter in model.description.parameters}
    import casadi

    from heavytop._arrays import to_sx

    symbols = [to_sx(x.symbol) for x in p.values()]
    f = casadi.Function("m", symbols, [to_sx(inertia.moments)])
    moments = np.asarray(f.call([x.value for x in p.values()])[0].full()).reshape(4, 4)
    values, vectors = np.linalg.eigh(
        moments
    )  # M' = sum_k lambda_k e_k e_k^T: homogeneous "particles" of weight lambda_k
    return values, vectors.T


def points(model: ht.Model, q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Weights (n,) and places (..., n, 4) of the homogeneous particles of all bodies in the world."""
    weights, places = [], []
    for body in model.body_names:
        w, h = particles(model, body)
        weights.append(w)
        places.append(np.einsum("...ij,kj->...ki", model.pose("world", body, q), h))
    return np.concatenate(weights), np.concatenate(places, axis=-2)


@every_system
def test_mass_center_and_momentum_are_sums_over_particles(name: str) -> None:
    model = model_of(name)
    q, v, _ = state_of(model, 1)
    w, x = points(model, q)
    mass = np.sum(w * x[:, 3] ** 2)
    assert_allclose(model.mass, mass, rtol=1e-12)
    assert_allclose(model.center_of_mass(q), (w * x[:, 3]) @ x[:, :3] / mass, rtol=1e-11, atol=1e-12)
    rate = along(lambda t: points(model, flow(model, q, v, t))[1])
    push, spin = (w * x[:, 3]) @ rate[:, :3], np.cross(x[:, :3], rate[:, :3]).T @ w
    momentum = model.momentum(q, v)
    assert_allclose(momentum.linear, push, atol=1e-7)
    assert_allclose(momentum.angular, spin, atol=1e-7)
    com = model.center_of_mass(q)
    assert_allclose(momentum.linear, mass * along(lambda t: model.center_of_mass(flow(model, q, v, t))), atol=1e-7)
    own = model.momentum(q, v, about="center_of_mass")
    assert_allclose(own.angular, momentum.angular - np.cross(com, momentum.linear), atol=1e-12)
    assert_allclose(model.momentum(q, v, about=com).angular, own.angular, atol=1e-12)


@every_system
def test_acceleration_energy_is_a_sum_over_particles_and_its_gradient_is_the_inertia_force(name: str) -> None:
    model = model_of(name)
    q, v, _ = state_of(model, 2)
    a = np.random.default_rng(3).standard_normal(model.nv)
    slope = along(
        lambda t: np.array([[model.acceleration_energy(q, v, a + s * e) for e in np.eye(model.nv)] for s in t])
    )
    force = model.mass_matrix(q) @ a + model.bias(q, v)
    assert_allclose(slope, force, rtol=0, atol=1e-8 * max(1.0, np.max(np.abs(force))))
    total = 0.0
    for body in model.body_names:
        w, h = particles(model, body)
        G, xi, xi_rate = (
            model.pose("world", body, q),
            model.twist("world", body, q, v),
            model.twist_rate("world", body, q, v, a),
        )
        second = h @ (G @ (se3.wed(xi_rate) + se3.wed(xi) @ se3.wed(xi))).T
        total = total + 0.5 * np.sum(w * np.sum(second**2, axis=1))
    assert_allclose(model.acceleration_energy(q, v, a), total, rtol=1e-10)


@every_system
def test_twists_and_rates_belong_to_poses(name: str) -> None:
    model = model_of(name)
    q, v, _ = state_of(model, 4)
    a = np.random.default_rng(5).standard_normal(model.nv)
    frames = ("world", *model.body_names)
    for pair in ((frames[0], frames[-1]), (frames[1], frames[-1]), (frames[-1], frames[0])):
        G = model.pose(*pair, q)
        G_rate = along(lambda t, pair=pair: model.pose(*pair, flow(model, q, v, t)))
        assert_allclose(model.twist(*pair, q, v), se3.vee(np.linalg.solve(G, G_rate)), atol=1e-7)
        J_rate = along(lambda t, pair=pair: model.jacobian(*pair, flow(model, q, v, t)))
        assert_allclose(model.jacobian_rate(*pair, q, v), J_rate, atol=1e-7 * max(1.0, np.max(np.abs(J_rate))))
        rate = model.jacobian(*pair, q) @ a + model.jacobian_rate(*pair, q, v) @ v
        assert_allclose(model.twist_rate(*pair, q, v, a), rate, atol=1e-10 * max(1.0, np.max(np.abs(rate))))


@every_system
def test_power_is_the_rate_of_the_energy(name: str) -> None:
    model = model_of(name)
    q, v, u = state_of(model, 6)
    a = model.acceleration(q, v, u)
    power = model.power(q, v, u)
    rate = along(lambda t: model.energy(flow(model, q, v, t), v + np.multiply.outer(t, a)), 5e-4)
    scale = max(1.0, float(np.abs(a) @ np.abs(model.mass_matrix(q)) @ np.abs(v)))
    assert_allclose(rate, power.input + power.supplied - power.dissipated, rtol=0, atol=1e-8 * scale)
    assert_allclose(power.input, v @ model.input_matrix(q) @ u, atol=1e-10 * scale)
    assert_allclose(model.power(q, v).input, 0.0)


def test_batches_parameters_and_arguments() -> None:
    model = model_of("tree-free-root")
    q, v, u = state_of(model, 7, (3, 2))
    assert model.center_of_mass(q).shape == (3, 2, 3)
    assert model.momentum(q, v, about=(0.1, 0.2, 0.3)).angular.shape == (3, 2, 3)
    assert model.power(q, v, u).supplied.shape == (3, 2)
    heavier = model.momentum(q, v, parameters={"mass": 2.0}).linear
    assert np.max(np.abs(heavier - model.momentum(q, v).linear)) > 0.1
    with pytest.raises(ModelError, match="about.*'center_of_mass'"):
        model.momentum(q, v, about="com")
    with pytest.raises(ShapeError, match="about of momentum"):
        model.momentum(q, v, about=(1.0, 2.0))


def test_acceleration_energy_counts_the_inertia_in_joints() -> None:
    system = ht.System()
    system.body("b", joint=ht.Spherical("quaternion"), inertia=random_inertia(np.random.default_rng(0)))
    system.armature("b", (0.1, 0.2, 0.4), gear_ratio=2.0)
    model = system.derive(native=False)
    q, v, _ = state_of(model, 8)
    a = np.array([0.3, -0.2, 0.5])
    slope = along(lambda t: np.array([[model.acceleration_energy(q, v, a + s * e) for e in np.eye(3)] for s in t]))
    assert_allclose(slope, model.mass_matrix(q) @ a + model.bias(q, v), atol=1e-8)


def test_units_come_from_the_joints() -> None:
    class Steps(ht.Custom):
        """A joint that counts in other units than its coordinates."""

        q_units = ("step",)  # type: ignore[assignment]
        v_units = ("step/s",)  # type: ignore[assignment]

    system = ht.System(name="units")
    system.body("a", joint=ht.Cylindrical("z"), inertia=ht.Inertia(1.0, moment_at_com=(1, 1, 1)))
    screw = Steps(ht.coordinates.Angle(), lambda q: se3.pose(np.eye(3), ht.vector(0.1 * q[0], 0.0, 0.0)))
    system.body("b", parent="a", joint=screw, inertia=ht.Inertia(1.0))
    system.input("lift", ht.JointForce("a", index=1))
    system.input("turn", ht.JointForce("a"))
    system.input("push", ht.JointForce("b"))
    system.input("jet", ht.Thruster("b"))
    model = system.derive(native=False)
    assert model.q_units == ("rad", "m", "step")
    assert model.v_units == ("rad/s", "m/s", "step/s")
    assert model.u_units == ("N", "N m", "", "N")
