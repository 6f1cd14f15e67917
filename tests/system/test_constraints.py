"""Loops, holonomic and velocity constraints: kinematics, accelerations, reactions, redundancy, consistent starts, bad input."""

import json
from pathlib import Path

import numpy as np
import pytest

import heavytop as ht
from heavytop.errors import ConfigurationError, ModelError, UnknownNameError
from heavytop.geometry import se3, so3
from heavytop.library import mechanisms, nonholonomic

GOLDEN = Path(__file__).parents[1] / "golden"
RNG = np.random.default_rng(20)

JOINTS = [
    ht.Spherical(),
    ht.Revolute("x"),
    ht.Revolute((1, 2, -1)),
    ht.Prismatic("y"),
    ht.Cylindrical((0, 1, 1)),
    ht.Universal(("x", "z")),
    ht.Planar(),
    ht.Fixed(),
]


@pytest.mark.parametrize("joint", JOINTS, ids=lambda j: type(j).__name__)
def test_loop_equations_hold_exactly_on_the_poses_of_the_joint(joint):
    nv = joint.coordinates.nv
    for q in joint.coordinates.random(RNG, (5,)):
        G = joint.pose(q)
        assert np.max(np.abs(joint.closure(G))) < 1e-14
        assert joint.closure(G).shape == (6 - nv,)
        # along the joint's own twists the equations stay zero, along the others they change: their slope has rank 6 - nv
        h = 1e-6
        slope = np.array(
            [(joint.closure(G @ se3.exp(h * e)) - joint.closure(G @ se3.exp(-h * e))) / (2 * h) for e in np.eye(6)]
        ).T
        assert np.linalg.matrix_rank(slope, tol=1e-6) == 6 - nv
        assert np.max(np.abs(slope @ joint.jacobian(q)), initial=0.0) < 1e-8


def closed_models():
    yield "four-bars", mechanisms.four_bars(3).derive(), None
    yield "bricard", mechanisms.bricard().derive(), None
    yield "andrews", mechanisms.andrews().derive(), mechanisms.andrews_start


CLOSED = {name: (model, start) for name, model, start in closed_models()}


def state(name):
    model, start = CLOSED[name]
    if start is not None:
        q, _ = start(model)
    elif name == "four-bars":
        q, _ = model.assemble(mechanisms.four_bars_start(model)[0] + 0.4)
    else:
        q, _ = model.assemble(np.array([0.3, 0.3, 0.3, 0.3, 0.3]))
    _, v = model.assemble(q, RNG.standard_normal(model.nv))
    return model, q, v


@pytest.mark.parametrize("name", CLOSED)
def test_constraint_rows_are_the_rate_of_the_loop_equations(name):
    model, q, v = state(name)
    h = 1e-6
    forward, backward = model.integrate(q, v, h), model.integrate(q, v, -h)
    phi = [model.constraint_residuals(x, v)[0] for x in (forward, backward)]
    np.testing.assert_allclose((phi[0] - phi[1]) / (2 * h), model.constraint_jacobian(q) @ v, atol=1e-8)


@pytest.mark.parametrize("name", CLOSED)
def test_acceleration_keeps_the_loops_closed_and_obeys_gauss(name):
    model, q, v = state(name)
    a = model.acceleration(q, v)
    h = 1e-5
    rows = [model.constraint_jacobian(model.integrate(q, v, s)) @ (v + s * a) for s in (h, -h)]
    np.testing.assert_allclose((rows[0] - rows[1]) / (2 * h), 0.0, atol=2e-7 * max(1, np.max(np.abs(a))))
    # M a + passive = Phi^T lam: the defect has no component along admissible velocities (Lagrange-d'Alembert)
    defect = model.inverse_dynamics(q, v, a)
    _, sigma, rows = np.linalg.svd(model.constraint_jacobian(q))
    null = rows[np.sum(sigma > 1e-9) :]
    assert np.max(np.abs(null @ defect)) < 1e-9 * max(1.0, np.max(np.abs(defect)))


@pytest.mark.parametrize("name", CLOSED)
def test_degrees_of_freedom_with_redundant_equations(name):
    model, q, _ = state(name)
    assert model.degrees_of_freedom(q) == 1
    assert model.constraint_jacobian(q).shape[0] > model.nv - 1  # Gruebler's count would give none


@pytest.mark.thorough
def test_four_bars_gain_freedom_in_line():
    model = mechanisms.four_bars(4).derive()
    q = np.zeros(model.nv)  # all links on one line
    assert model.degrees_of_freedom(q) == 5
    assert np.all(np.isfinite(model.acceleration(q, np.zeros(model.nv))))


@pytest.mark.thorough
def test_a_loop_that_is_redundant_as_a_whole_changes_nothing():
    """A plate on a plane with a second guide in the same plane: all rows of the guide are rounding errors."""
    plane = se3.pose(so3.rotation_about((1, 2, 3), 0.7), np.array([0.3, 0.1, 0.2]))
    q, v = np.array([0.4, 0.1, 0.9, 0.2]), np.array([0.5, 0.5, 1.0, 0.3])
    inertia = ht.Inertia(1.0, com=(0.1, 0.2, 0.3), moment_at_com=(0.1, 0.1, 0.1))
    system = ht.System(gravity=(1.0, -3.0, -9.81))
    system.body("plate", at=plane, joint=ht.Planar(), inertia=inertia)
    system.body("arm", parent="plate", at=(0.2, 0.1, 0), joint=ht.Revolute("x"), inertia=inertia)
    system.constrain(lambda q: ht.vector(q[0] - q[1] - 0.3), name="slope")
    without = system.derive(native=False)
    guide = plane @ se3.pose(so3.rotation_about("z", 0.4), np.array([0.3, -0.2, 0.1]))
    slid = guide @ se3.pose(so3.rotation_about("z", 1.1), np.array([0.7, 0.3, 0.0]))
    system.loop("world", "plate", ht.Planar(), at_a=guide, at_b=se3.inverse(without.pose("world", "plate", q)) @ slid)
    guided = system.derive(native=False)
    assert guided.degrees_of_freedom(q) == without.degrees_of_freedom(q) == 3
    assert np.allclose(guided.acceleration(q, v), without.acceleration(q, v), rtol=1e-12)


@pytest.mark.thorough
def test_reaction_wrenches_replace_the_loop():
    """The tree without the loop, driven by the reported reaction and its opposite, accelerates like the closed mechanism."""
    model, q, v = state("bricard")
    wrench = model.constraint_forces(q, v)["closure"]
    cut = mechanisms.bricard()
    cut._loops.clear()
    corner = np.array([0.0, 0.0, 1.0])
    cut.frame("tip", "rod5", at=corner - (0.0, -1.0, 1.0))
    cut.input("reaction", ht.Wrench("tip", force=wrench[:3], moment=wrench[3:]))
    a = cut.derive().acceleration(q, v, [1.0])
    np.testing.assert_allclose(a, model.acceleration(q, v), rtol=1e-9, atol=1e-9)


@pytest.mark.thorough
def test_driving_a_mechanism_by_its_crank():
    model = mechanisms.four_bars(1).derive()
    q, v = model.assemble([1.2, 1.0, -1.0], [2.0, 0.0, 0.0], fixed=("crank0",))
    assert q[0] == 1.2
    assert v[0] == 2.0
    np.testing.assert_allclose(q, [1.2, 1.2, -1.2], atol=1e-11)
    np.testing.assert_allclose(v, [2.0, 2.0, -2.0], atol=1e-11)


PAIRS = {
    "skate": nonholonomic.skate,
    "chaplygin-sleigh": nonholonomic.chaplygin_sleigh,
    "rolling-disc": nonholonomic.rolling_disc,
    "rolling-ball": lambda minimal: nonholonomic.rolling_ball(turntable=1.3, minimal=minimal),
    "car": nonholonomic.car,
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.thorough
def test_minimal_velocities_and_multipliers_agree(name):
    minimal, full = PAIRS[name](minimal=True).derive(), PAIRS[name](minimal=False).derive()
    q, w = minimal.random(3), RNG.standard_normal(minimal.nv)
    if name == "car":
        q[3] = 0.4
    u = RNG.standard_normal(minimal.nu)

    def velocity(q, w):
        return minimal.evaluate("joint_velocity", q, w)

    v, w_rate = velocity(q, w), minimal.acceleration(q, w, u)
    assert np.max(np.abs(full.constraint_residuals(q, v)[1])) < 1e-13
    h = 1e-5
    moved = [velocity(full.integrate(q, v, s), w + s * w_rate) for s in (h, -h)]
    # d/dt of the joint velocities on both sides; the retraction differs from the motion only to second order in h
    np.testing.assert_allclose((moved[0] - moved[1]) / (2 * h), full.acceleration(q, v, u), rtol=1e-6, atol=1e-6)
    power = minimal.kinetic_energy(q, w) - full.kinetic_energy(q, v)
    assert abs(power) < 1e-12 * max(1.0, full.kinetic_energy(q, v))


@pytest.mark.parametrize("index", range(3))
def test_sleigh_of_document_004(index):
    golden = json.loads((GOLDEN / "b_chaplygin_sleigh.json").read_text())["states"][index]
    q = np.r_[golden["x_c"], golden["theta"], golden["delta"]]
    w = np.array(golden["qdot_[u,thetadot,deltadot]"])
    model = nonholonomic.chaplygin_sleigh().derive()
    np.testing.assert_allclose(model.mass_matrix(q), golden["M_star"], rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(model.acceleration(q, w), golden["qddot"], rtol=1e-12)
    # the hinge force is internal, so the forces of both bodies add up to the reaction of the runner
    full = nonholonomic.chaplygin_sleigh(minimal=False).derive()
    reaction = full.constraint_forces(q, model.evaluate("joint_velocity", q, w))["runner"]
    total = np.array(golden["ideal_constraint_force_Qc(6)"])
    np.testing.assert_allclose(reaction[:2], total[:2] + total[3:5], rtol=1e-11)


def test_nonideal_constraint_does_the_prescribed_work():
    """Friction of the blade: the prescribed force acts as given along admissible motions (document 004, nonideal forces)."""

    def drag(q, v):
        return ht.vector(-0.7 * v[0], -0.7 * v[1], -0.1 * v[2])

    def build(work, minimal):
        system = ht.System(gravity=(0, 0, 0))
        system.body("skate", joint=ht.Planar(), inertia=ht.Inertia(2.0, moment_at_com=(0.15, 0.15, 0.3)))
        system.constrain(lambda q, v: v[1] * np.cos(q[2]) - v[0] * np.sin(q[2]), work=work, name="blade")
        if minimal:
            system.basis(lambda q, w: ht.vector(w[0] * np.cos(q[2]), w[0] * np.sin(q[2]), w[1]), ("u", "omega"))
        return system.derive()

    q, w = np.array([0.1, 0.2, 0.8]), np.array([1.5, -0.4])
    change = build(drag, True).acceleration(q, w) - build(None, True).acceleration(q, w)
    np.testing.assert_allclose(change, [-0.7 * 1.5 / 2.0, -0.1 * -0.4 / 0.3], rtol=1e-12)
    v = np.array([1.5 * np.cos(0.8), 1.5 * np.sin(0.8), -0.4])
    full = build(drag, False).acceleration(q, v) - build(None, False).acceleration(q, v)
    np.testing.assert_allclose(full, [change[0] * np.cos(0.8), change[0] * np.sin(0.8), change[1]], atol=1e-12)


def test_holonomic_constraint_by_a_function_is_a_pendulum():
    system = ht.System()
    system.body(
        "bob",
        joint=ht.Planar(),
        at=se3.pose(np.array([[1, 0, 0], [0, 0, -1], [0, 1, 0]]), np.zeros(3)),
        inertia=ht.Inertia(1.0, moment_at_com=(0.1, 0.1, 0.1)),
    )
    system.constrain(lambda q: q[0] ** 2 + q[1] ** 2 - 4.0, name="rod")
    model = system.derive()
    q = np.array([2 * np.sin(0.3), -2 * np.cos(0.3), 0.0])
    a = model.acceleration(q, np.zeros(3))
    tangent = np.array([np.cos(0.3), np.sin(0.3)])
    np.testing.assert_allclose(a[:2], -9.81 * np.sin(0.3) * tangent, rtol=1e-12)
    tension = model.constraint_forces(q, np.zeros(3))["rod"][:2]
    np.testing.assert_allclose(np.linalg.norm(tension), 9.81 * np.cos(0.3), rtol=1e-12)


def skate_system():
    system = ht.System(gravity=(0, 0, 0))
    system.body("skate", joint=ht.Planar(), inertia=ht.Inertia(1.0, moment_at_com=(0.1, 0.1, 0.1)))
    return system


def test_bad_constraints_are_named():
    system = skate_system()
    system.constrain(lambda q, v: v[0] ** 2, name="square")
    with pytest.raises(ModelError, match="'square'.*linear in v"):
        system.derive()
    system = skate_system()
    system.constrain(lambda q, v: v[0], name="slide")
    with pytest.raises(ModelError, match="'slide'"):
        system.constrain(lambda q, v: v[1], name="slide")
    with pytest.raises(ModelError, match="3 arguments"):
        system.constrain(lambda q, v, u: v)
    system.basis(lambda q, w: ht.vector(w[0], w[1], 0.0), ("a", "b"))
    with pytest.raises(ModelError, match="basis.*'slide'"):
        system.derive()
    system = skate_system()
    system.constrain(lambda q, v: v[0])
    system.basis(lambda q, w: ht.vector(w[0], w[1]), ("a", "b"))
    with pytest.raises(ModelError, match="basis.*3"):
        system.derive()


def test_bad_loops_are_named():
    with pytest.raises(ModelError, match="Free.*loop"):
        mechanisms.bricard().loop("rod1", "rod5", ht.Free())
    system = mechanisms.four_bars(1)
    system.loop("crank0", "crank7", ht.Spherical())
    with pytest.raises(UnknownNameError, match="'crank0' and 'crank7'"):
        system.derive()
    model = mechanisms.four_bars(1).derive()
    with pytest.raises(ConfigurationError, match=r"model\.assemble"):
        model.acceleration([0.1, 0.2, 0.9], np.zeros(3))
    with pytest.raises(UnknownNameError, match="'crank9'"):
        model.assemble([1.0, -1.0, 1.0], fixed=("crank9",))
    with pytest.raises(ConfigurationError, match=r"model\.assemble"):
        model.linearize([1.0, -1.0, 1.0])
    with pytest.raises(ModelError, match="constraint_forces: 'skate'"):
        nonholonomic.skate().derive().constraint_forces([0, 0, 0], [1.0, 0.0])


@pytest.mark.thorough
def test_a_mechanism_that_cannot_be_closed():
    system = ht.System()
    system.body("a", joint=ht.Revolute("y"), inertia=mechanisms.ROD)
    system.body("b", parent="a", at=(1, 0, 0), joint=ht.Revolute("y"), inertia=mechanisms.ROD)
    system.loop("world", "b", ht.Revolute("y"), at_a=(5.0, 0, 0), at_b=(1, 0, 0))
    with pytest.raises(ConfigurationError, match="cannot be assembled"):
        system.derive().assemble([0.1, 0.2])


@pytest.mark.parametrize("radius", [1e-3, 0.1, 10.0])
@pytest.mark.parametrize("far", [0.3, 30.0])
def test_small_bodies_are_assembled_from_far_away(radius: float, far: float) -> None:
    """The distance of a place is unrelated to the size of a body that moves there."""
    inertia = ht.Inertia(1.0, moment_at_com=(radius**2,) * 3)
    system = ht.System(name="bead")
    system.body("bead", joint=ht.Free(), inertia=inertia)
    system.constrain(lambda q: ht.vector(q[2] - q[0] ** 2, q[1] - far))
    q, _ = system.derive(native=False).assemble(np.r_[1.0, 0.0, 2.0, np.eye(3).ravel()])
    np.testing.assert_allclose([q[2], q[1]], [q[0] ** 2, far], atol=1e-9 * far)
    pair = ht.System(name="pair")
    for name in ("a", "b"):
        pair.body(name, joint=ht.Free(), inertia=inertia)
    pair.loop("a", "b", ht.Spherical(), at_a=(radius, 0, 0), at_b=(-radius, 0, 0))
    model = pair.derive(native=False)
    guess = model.neutral()
    guess[12] = far
    q, _ = model.assemble(guess)
    np.testing.assert_allclose(q[12] - q[0], 2 * radius, atol=1e-9 * (far + radius))
