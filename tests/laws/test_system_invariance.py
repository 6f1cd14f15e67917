"""The motion does not depend on the coordinates that describe it (features K75, K88, K99-K101, K103)."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from systems import model_of, random_damping, random_inertia, random_pose, state_of, twist_rate

import heavytop as ht
from heavytop.geometry import se3

ATTITUDES = {
    "matrix": ht.coordinates.Rotation(),
    "quaternion": ht.coordinates.Quaternion(),
    "euler": ht.coordinates.EulerAngles(),
}


def vehicle(attitude: str, free: str = "body", ball: str = "relative", revolute: str = "angle") -> ht.System:
    """A free body with an arm on a ball joint, a wheel on the arm; springs, dampers, inputs."""
    rng = np.random.default_rng(11)
    system = ht.System(gravity=(1.0, 2.0, -9.0), name="vehicle")
    system.body("hull", joint=ht.Free(attitude, free), inertia=random_inertia(rng))
    system.body(
        "arm", parent="hull", at=random_pose(rng), joint=ht.Spherical(attitude, ball), inertia=random_inertia(rng)
    )
    system.body(
        "wheel", parent="arm", at=random_pose(rng), joint=ht.Revolute((1, 2, 3), revolute), inertia=random_inertia(rng)
    )
    system.damper("hull", "arm", random_damping(rng))
    system.damper("world", "wheel", random_damping(rng))
    system.spring("hull", "wheel", ht.Stiffness(5.0, (0.1, 0.0, 0.2), (1.0, 2.0, 3.0)), rest=random_pose(rng))
    system.input("thrust", ht.Thruster("arm", at=(0.1, 0.2, 0.3), axis="y"))
    for k in range(3):
        system.input(f"ball{k}", ht.JointForce("arm", k))
    system.input("motor", ht.JointForce("wheel"))
    return system


def configuration(attitude: str, revolute: str = "angle") -> np.ndarray:
    """One and the same configuration in different coordinates."""
    rng = np.random.default_rng(12)
    block = ATTITUDES[attitude]
    hull, arm = (block.from_rotation_matrix(random_pose(rng)[:3, :3]) for _ in range(2))
    angle = [0.7] if revolute == "angle" else [np.cos(0.7), np.sin(0.7)]
    return np.concatenate([[0.1, 0.2, 0.3], hull, arm, angle])


def physical(model: ht.Model, q, v, u):
    """Twists of all bodies and their rates."""
    a = model.acceleration(q, v, u)
    twists = [model.jacobian("world", body, q) @ v for body in model.body_names]
    return np.array(twists), np.array([twist_rate(model, body, q, v, a) for body in model.body_names])


@pytest.fixture(scope="module")
def standard():
    """Twists and twist rates with rotation matrices and the joints' plain velocities."""
    model, q = vehicle("matrix").derive(native=False), configuration("matrix")
    rng = np.random.default_rng(13)
    v, u = rng.standard_normal(model.nv), rng.standard_normal(model.nu)
    return v, u, *physical(model, q, v, u), model.potential_energy(q), model.kinetic_energy(q, v)


@pytest.mark.parametrize("revolute", ["angle", "circle"])
@pytest.mark.parametrize(
    ("attitude", "free", "ball"),
    [
        ("quaternion", "body", "relative"),
        ("euler", "body", "relative"),
        ("matrix", "mixed", "absolute"),
        ("quaternion", "unified", "absolute"),
        ("euler", "mixed", "absolute"),
        ("matrix", "unified", "relative"),
    ],
)
def test_accelerations_do_not_depend_on_the_coordinates(standard, attitude, free, ball, revolute):
    plain, u, twists, rates, potential, kinetic = standard
    model, q = vehicle(attitude, free, ball, revolute).derive(native=False), configuration(attitude, revolute)
    stacked = np.concatenate([model.jacobian("world", body, q) for body in model.body_names])
    v = np.linalg.lstsq(stacked, twists.reshape(-1))[0]  # the same motion in these velocity coordinates
    got_twists, got_rates = physical(model, q, v, u)
    assert_allclose(got_twists, twists, atol=1e-12)
    assert_allclose(got_rates, rates, atol=1e-10 * np.max(np.abs(rates)))
    assert_allclose(model.potential_energy(q), potential, rtol=1e-12)
    assert_allclose(model.kinetic_energy(q, v), kinetic, rtol=1e-12)
    if (free, ball) == ("body", "relative"):
        assert_allclose(v, plain, atol=1e-12)


@pytest.mark.thorough
def test_absolute_by_mapping_function_and_joint_agree():
    """Three ways to the absolute velocity of the arm."""
    q = configuration("quaternion")
    relative = vehicle("quaternion")

    def absolute(q, v):
        R_T = se3.rotation(relative_pose(q)).T
        return np.concatenate([v[:6], v[6:9] + np.matvec(R_T, v[3:6]), v[9:]])

    plain = relative.derive(native=False)

    def relative_pose(q):
        return plain.pose("hull", "arm", q)

    models = [
        relative.derive(absolute, native=False),
        relative.derive({"arm": "absolute"}, native=False),
        vehicle("quaternion", ball="absolute").derive(native=False),
        vehicle("quaternion", ball="absolute").derive({"arm": "absolute"}, native=False),
    ]
    rng = np.random.default_rng(14)
    v, u = rng.standard_normal(10), rng.standard_normal(5)
    first = models[0]
    for model in models[1:]:
        assert_allclose(model.acceleration(q, v, u), first.acceleration(q, v, u), rtol=1e-11)
        assert_allclose(model.mass_matrix(q), first.mass_matrix(q), atol=1e-13)
        assert_allclose(model.input_matrix(q), first.input_matrix(q), atol=1e-13)
        assert_allclose(model.commutation(q), first.commutation(q), atol=1e-12)
        assert_allclose(model.connection(q), first.connection(q), atol=1e-12)
        assert_allclose(model.damping_matrix(q), first.damping_matrix(q), atol=1e-13)
    back = vehicle("quaternion", ball="absolute").derive({"arm": "relative"}, native=False)
    assert_allclose(back.mass_matrix(q), plain.mass_matrix(q), atol=1e-13)


def test_the_centre_of_mass_falls_freely():
    """Internal springs, dampers and motors do not move the centre of mass (K75, K99)."""
    gravity = np.array([0.5, -1.0, -9.0])
    rng = np.random.default_rng(15)
    system = ht.System(gravity=gravity)
    system.body("root", joint=ht.Free("quaternion"), inertia=random_inertia(rng))
    system.body("ball", parent="root", at=random_pose(rng), joint=ht.Spherical(), inertia=random_inertia(rng))
    system.body(
        "slider", parent="root", at=random_pose(rng), joint=ht.Prismatic((1, 1, 0)), inertia=random_inertia(rng)
    )
    system.body("leaf", parent="ball", at=random_pose(rng), joint=ht.Universal(), inertia=random_inertia(rng))
    system.spring("slider", "leaf", ht.Stiffness(20.0, (0.1, 0.2, 0.3), (3.0, 2.0, 4.0)), rest=(0.3, 0.0, 0.1))
    system.damper("ball", "slider", random_damping(rng))
    system.input("motor", ht.JointForce("slider"))
    system.input("twist", ht.Wrench("leaf", force=(1, 2, 3), moment=(3, 2, 1), relative_to="root"))
    model = system.derive(native=False)
    q, v, u = state_of(model, 16)
    a = model.acceleration(q, v, 10 * u)
    force, mass = np.zeros(3), 0.0
    for body, inertia in model.description.inertias.items():
        R = model.pose("world", body, q)[:3, :3]
        twist = model.jacobian("world", body, q) @ v
        rate = twist_rate(model, body, q, v, a)
        omega, com = twist[3:], inertia.com
        at_com = rate[:3] + np.cross(rate[3:], com) + np.cross(omega, twist[:3] + np.cross(omega, com))
        force, mass = force + inertia.mass * R @ at_com, mass + inertia.mass
    assert np.max(np.abs(a)) > 10
    assert_allclose(force / mass, gravity, atol=1e-11 * np.max(np.abs(a)))


def two_bodies(add) -> ht.Model:
    rng = np.random.default_rng(17)
    system = ht.System(gravity=(0, 0, 0))
    for name in ("one", "two"):
        system.body(name, joint=ht.Free(), inertia=random_inertia(rng))
    add(system, rng)
    return system.derive(native=False)


def test_springs_are_symmetric_in_the_two_bodies():
    """A set of springs from a to b is the same set from b to a (K100)."""
    k, points, anchors = (np.random.default_rng(18).uniform(0.5, 2, s) for s in ((6,), (6, 3), (6, 3)))
    forth = two_bodies(lambda s, _: s.spring("one", "two", ht.Stiffness.from_springs(k, points, anchors)))
    back = two_bodies(lambda s, _: s.spring("two", "one", ht.Stiffness.from_springs(k, anchors, points)))
    q, v, _ = state_of(forth, 19)
    assert_allclose(forth.stiffness_force(q), back.stiffness_force(q), atol=1e-12)
    assert_allclose(forth.potential_energy(q), back.potential_energy(q), rtol=1e-12)
    assert_allclose(forth.acceleration(q, v), back.acceleration(q, v), rtol=1e-11)
    assert np.max(np.abs(forth.stiffness_force(q))) > 0.1


def test_dampers_are_not_symmetric_in_the_two_bodies():
    """Drag acts where the body is, in the fluid of the other one (K101)."""
    damping = random_damping(np.random.default_rng(20))
    forth = two_bodies(lambda s, _: s.damper("one", "two", damping))
    back = two_bodies(lambda s, _: s.damper("two", "one", damping))
    q, v, _ = state_of(forth, 21)
    D, E = forth.damping_matrix(q), back.damping_matrix(q)
    assert np.max(np.abs(D - E)) > 0.01
    for matrix in (D, E):
        assert_allclose(matrix, matrix.T, atol=1e-14)
        assert np.linalg.eigvalsh(matrix)[0] > -1e-12
    assert np.linalg.matrix_rank(D) == 6
    assert v @ D @ v > 0


@pytest.mark.parametrize("name", ["tree-spherical", "tree-custom"])
def test_symbols_in_symbols_out(name):
    """Every quantity takes symbols; derivatives of it are then exact."""
    import casadi

    from heavytop._arrays import is_symbolic, jacobian, symbol, to_sx

    model = model_of(name)
    q, v, u = state_of(model, 22)
    Q, V, U = symbol("q", model.nq), symbol("v", model.nv), symbol("u", model.nu)
    values = [q, v, u]

    def number(expression):
        f = casadi.Function("f", [to_sx(s) for s in (Q, V, U)], [to_sx(expression)])
        return f(*values).full().reshape(tuple(expression.shape))

    for expression, expected in (
        (model.mass_matrix(Q), model.mass_matrix(q)),
        (model.acceleration(Q, V, U), model.acceleration(q, v, u)),
        (model.pose("world", "sensor", Q), model.pose("world", "sensor", q)),
        (model.kinematics_matrix(Q), model.kinematics_matrix(q)),
        (model.rate(Q, V), model.rate(q, v)),
        (model.inverse_dynamics(Q, V, V), model.inverse_dynamics(q, v, v)),
        (model.stiffness_force(Q), model.stiffness_force(q)),
    ):
        assert is_symbolic(expression)
        assert_allclose(number(expression), expected, atol=1e-11 * max(1, np.max(np.abs(expected), initial=0)))
    assert tuple(model.constraints(Q).shape) == model.constraints(q).shape
    energy = model.energy(Q, V)
    momentum = jacobian(np.reshape(energy, (1,)), V)
    assert_allclose(number(momentum)[0], model.mass_matrix(q) @ v, rtol=1e-11)


def test_parameters_equal_numbers():
    """A model with parameters at other values equals the model derived with those numbers."""

    def pendulum(mass=None, length=None):
        system = ht.System(name="pendulum")
        m = system.parameter("mass", 1.0) if mass is None else mass
        l = system.parameter("length", 0.5) if length is None else length
        inertia = ht.Inertia(m, (0, 0, -l), (m * l**2 / 3, m * l**2 / 3, 0))
        system.body("rod", at=(0, 0, 2 * l), joint=ht.Revolute("y"), inertia=inertia)
        system.body(
            "bob", parent="rod", at=(0, 0, -2 * l), joint=ht.Revolute("x"), inertia=ht.Inertia(m, (0, 0, -l), (m, m, m))
        )
        system.input("push", ht.Thruster("bob", at=(l, 0, 0), axis="y", drag_ratio=l))
        return system.derive(native=False)

    model, fixed = pendulum(), pendulum(2.0, 0.8)
    q, v, u = state_of(model, 23)
    values = {"mass": 2.0, "length": 0.8}
    assert model.parameter_names == ("mass", "length")
    assert_allclose(model.acceleration(q, v, u, parameters=values), fixed.acceleration(q, v, u), rtol=1e-12)
    assert_allclose(model.energy(q, v, parameters=values), fixed.energy(q, v), rtol=1e-12)
    assert_allclose(model.pose("world", "bob", q, parameters=values), fixed.pose("world", "bob", q), atol=1e-14)
    only_mass = model.mass_matrix(q, parameters={"mass": 2.0})
    assert_allclose(only_mass, 2 * model.mass_matrix(q), rtol=1e-12)
