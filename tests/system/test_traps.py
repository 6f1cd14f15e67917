"""Traps for careful users: each must give the right result or a clear error."""

import math

import numpy as np
import pytest

import heavytop as ht
from heavytop import library
from heavytop.errors import ConfigurationError, ModelError, ShapeError
from heavytop.library import nonholonomic


class Geared(ht.Revolute):
    """A user's joint that inherits everything but turns three times as far."""

    def pose(self, q):
        return super().pose(3 * q)

    def jacobian(self, q):
        return 3 * super().jacobian(q)


def arm(joint):
    system = ht.System(name="arm")
    system.body("arm", joint=joint, inertia=ht.Inertia(1.0, com=(1, 0, 0), moment_at_com=(0.1, 0.1, 0.1)))
    return system.derive()


def test_native_code_of_a_joint_is_not_given_to_its_subclass():
    plain, geared = arm(ht.Revolute("y")).mass_matrix([0.1]), arm(Geared("y")).mass_matrix([0.1])
    np.testing.assert_allclose(geared, 9 * plain, rtol=1e-14)


def test_user_functions_see_the_velocities_of_the_joints():
    system = ht.System(gravity=(0, 0, 0), name="cart")
    system.body("cart", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.force(lambda q, v: -4 * v**2)
    system.dissipation(lambda q, v: v[0] ** 2)
    own = system.derive(native=False)
    other = system.derive(velocity=lambda q, v: 2 * v, native=False)
    np.testing.assert_allclose(own.acceleration([0.0], [1.0]), [-6.0])
    np.testing.assert_allclose(other.acceleration([0.0], [2.0]), [-12.0])  # w = 2 v, so w' = 2 v'
    np.testing.assert_allclose(other.damping_matrix([0.0]), [[0.5]])


def test_constraints_see_the_velocities_of_the_joints():
    system = nonholonomic.skate(minimal=False)
    other = system.derive(velocity=lambda q, v: ht.vector(v[0] + v[1], v[1], 3 * v[2]), native=False)
    v = np.array([np.cos(0.3), np.sin(0.3), 2.0])
    a = system.derive(native=False).acceleration([0, 0, 0.3], v)
    w = np.array([v[0] + v[1], v[1], 3 * v[2]])
    np.testing.assert_allclose(
        other.acceleration([0, 0, 0.3], w), [a[0] + a[1], a[1], 3 * a[2]], rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("name", ["tricopter-load", "furuta", "heavy-top", "rolling-disc", "chain:4"])
def test_difference_inverts_integrate(name):
    model = library.load(name).derive()
    q0 = model.random(1)
    q1 = model.integrate(q0, 0.1 * np.ones(model.nv), 1.0)
    np.testing.assert_allclose(model.integrate(q0, model.difference(q0, q1), 1.0), q1, atol=1e-14)


def test_a_velocity_that_moves_no_mass_is_named():
    system = ht.System(name="bead")
    system.body("bead", joint=ht.Spherical(), inertia=ht.Inertia(1.0, com=(0.1, 0.2, 0.3)))
    model = system.derive()
    assert model.pose("world", "bead", model.neutral()).shape == (4, 4)  # kinematics needs no inertia
    with pytest.raises(ModelError, match="'bead.omega_[xyz]' of 'bead'"):
        model.acceleration(model.neutral(), np.zeros(3))


def test_equations_of_loops_are_among_the_constraints():
    model = library.load("four-bars:2").derive()
    assert model.constraints(model.neutral()).shape == (10,)
    assert np.max(np.abs(model.constraints(model.random(0)))) > 0.1


def test_nearly_parallel_constraints_are_judged_alike_everywhere():
    def build(angle):
        system = ht.System(gravity=(0, 0, 0))
        system.body("slab", joint=ht.Planar(), inertia=ht.Inertia(1.0, moment_at_com=(0.1, 0.1, 0.1)))
        system.constrain(lambda q, v: v[0])
        system.constrain(lambda q, v: v[0] + angle * v[1])
        system.input("push", ht.JointForce("slab", index=1))
        return system.derive(native=False)

    for angle, freedom in ((1e-4, 1), (1e-8, 2)):
        model = build(angle)
        assert model.degrees_of_freedom(np.zeros(3)) == freedom
        pushed = model.acceleration(np.zeros(3), np.zeros(3), [1.0])[1]
        assert pushed == pytest.approx(float(freedom - 1), abs=1e-6)


def test_open_argument_lists_need_a_kind():
    system = ht.System(gravity=(0, 0, 0))
    system.body("slab", joint=ht.Planar(), inertia=ht.Inertia(1.0, moment_at_com=(0.1, 0.1, 0.1)))
    with pytest.raises(ModelError, match="kind='position' or kind='velocity'"):
        system.constrain(lambda *args: args[1][0])
    system.constrain(lambda *args: args[1][0], kind="velocity")
    assert system.derive(native=False).degrees_of_freedom(np.zeros(3)) == 2


def test_a_reused_buffer_does_not_change_a_description():
    pose, system, parent = np.eye(4), ht.System(name="ladder"), "world"
    for k in range(3):
        pose[2, 3] = -(k + 1.0)
        system.body(f"b{k}", parent=parent, at=pose, joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
        parent = f"b{k}"
    model = system.derive(native=False)
    assert model.pose("world", "b2", model.neutral())[2, 3] == -6.0
    point = np.zeros(3)
    for k in range(2):
        point[0] = k + 1.0
        system.input(f"u{k}", ht.Thruster("b0", at=point))
    columns = system.derive(native=False).input_matrix(model.neutral())
    assert columns[0, 1] == 2 * columns[0, 0] != 0


def held_arrays():
    """Everything that a user can reach of a description: name -> array."""
    system = ht.System(name="held", gravity=(0.0, 0.0, -9.81))
    length = system.parameter("length", 1.0)
    inertia = ht.Inertia(1.0, com=ht.vector(length, 0.0, 0.0), moment_at_com=(0.1, 0.1, 0.1))
    system.body("arm", at=(0.1, 0, 0), joint=ht.Revolute((0, 1, 1), stiffness=np.ones(1)), inertia=inertia)
    system.body("tip", parent="arm", at=ht.vector(length, 0.0, 0.0), joint=ht.Spherical(), inertia=ht.Inertia(1.0))
    system.shape("arm", ht.Box((1, 1, 1)), at=(1, 0, 0))
    system.strut("world", "tip", at_a=(0, 0, 1), stiffness=2.0)
    system.spring("world", "tip", ht.Stiffness(2.0, (0, 0, 1)), rest=(0, 0, 1))
    system.input("fan", ht.Thruster("tip", at=(0, 0, 1), axis=(1, 0, 0)))
    system.input("push", ht.Wrench("tip", force=(0, 0, 1)))
    system.loop("world", "tip", ht.Spherical(), at_a=(1.1, 0, 0))
    d = system.describe()
    arm, tip = d.graph.edges
    spring, strut, stiffness = d.elements
    fan, push = d.inputs.values()
    return {
        "gravity": system.gravity,
        "center of mass": inertia.com,
        "moment": inertia.moment_at_com,
        "at": arm.at,
        "symbolic at": tip.at,
        "axis": arm.joint.axis,
        "part of a joint": arm.joint.parts["stiffness"],
        "joint spring": spring.stiffness,
        "end of a strut": strut.at_a,
        "stiffness": stiffness.stiffness.center,
        "rest": stiffness.rest,
        "point of attack": fan.at,
        "axis of an input": fan.axis,
        "force": push.force,
        "loop": d.loops[0].at_a,
        "shape": d.shapes[0].at,
    }


HELD = held_arrays()


@pytest.mark.parametrize("array", HELD.values(), ids=HELD)
def test_arrays_of_a_description_are_read_only(array):
    """They were shared with the derived model, whose results, and those of the cache on disk, then became wrong."""
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1.0


def test_gravity_is_replaced_as_a_whole():
    system = ht.System(name="pendulum")
    system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
    earth = system.derive()
    with pytest.raises(ValueError, match="read-only"):
        system.gravity[2] = -1.62
    system.gravity = (0, 0, -1.62)
    moon = system.derive()
    np.testing.assert_allclose([m.acceleration([np.pi / 2], [0.0])[0] for m in (earth, moon)], [-9.81, -1.62])


def test_functions_of_the_math_module_are_rejected():
    def built(add):
        system = ht.System(name="rod")
        system.body("rod", joint=ht.Planar(), inertia=ht.Inertia(1.0, moment_at_com=(0.1, 0.1, 0.1)))
        add(system)
        return system.derive(native=False)

    for add, text in (
        (
            lambda s: s.potential(lambda q: 100 * math.cos(q[0])),
            r"potential\(q\) of 'rod' must return finite numbers, got nan",
        ),
        (lambda s: s.potential(lambda q: q[0] * math.cos(q[1])), "nan.*NumPy"),
        (lambda s: s.dissipation(lambda q, v: v[0] ** 2 * float(v[1])), "nan.*NumPy"),
        (lambda s: s.constrain(lambda q, v: v[1] * math.cos(q[2]) - v[0]), "nan.*NumPy"),
        (lambda s: s.constrain(lambda q, v: 1.0), "does not depend on the velocities"),
        (lambda s: s.constrain(lambda q, v: None), "returned None instead of its equations"),
        (lambda s: s.potential(lambda q: None), "got None. Does it lack a return"),
    ):
        with pytest.raises(ModelError, match=text):
            built(add)
    free = built(lambda s: None)
    with pytest.raises(ModelError, match="nan.*NumPy"):
        ht.simulate(free, (free.neutral(), np.zeros(3)), 1.0, 0.1, events=lambda t, q, v: math.sin(q[0]))


@pytest.mark.parametrize("bad", [np.array([1 + 2j]), "abc", [[1], [1, 2]], None])
def test_only_real_numbers_are_numbers(bad):
    system = ht.System(name="rod")
    system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
    with pytest.raises(ShapeError, match="q of 'rod'"):
        system.derive(native=False).acceleration(bad, [0.0])


def test_loops_are_checked_with_the_parameters_of_the_call():
    bar = ht.Inertia(1.0, com=(0.5, 0, 0), moment_at_com=(0.1, 0.1, 0.1))
    system = ht.System(name="four-bar")
    base = system.parameter("base", 1.0)
    system.body("a", joint=ht.Revolute("z"), inertia=bar)
    system.body("b", parent="a", at=(1, 0, 0), joint=ht.Revolute("z"), inertia=bar)
    system.body("c", at=(base, 0, 0), joint=ht.Revolute("z"), inertia=bar)
    system.loop("b", "c", ht.Revolute("z"), at_a=(1, 0, 0), at_b=(1, 0, 0))
    model, longer = system.derive(native=False), {"base": 1.2}
    q, v = model.assemble([1.5, -1.5, 1.5], parameters=longer)
    assert np.all(np.isfinite(model.acceleration(q, v, parameters=longer)))
    with pytest.raises(ConfigurationError, match=r"model\.assemble"):
        model.acceleration(q, v)


@pytest.mark.parametrize(("own", "other"), [("relative", "absolute"), ("absolute", "relative")])
@pytest.mark.parametrize("constrained", [False, True])
def test_the_choice_of_a_velocity_frame_is_not_seen_by_user_functions(own, other, constrained):
    system, inertia = ht.System(), ht.Inertia(1.0, com=(0, 0.1, -0.2), moment_at_com=(0.1, 0.2, 0.3))
    system.body("hull", joint=ht.Spherical(), inertia=inertia)
    system.body("load", parent="hull", at=(0, 0, -0.5), joint=ht.Spherical("quaternion", own), inertia=inertia)
    system.dissipation(lambda q, v: 0.15 * (v[3] ** 2 + v[4] ** 4) + 0.1 * v[0] * v[4])
    system.force(lambda q, v: ht.vector(v[3] * v[1], q[0], v[4], v[3], q[10] * v[0], v[5] ** 2))
    system.potential(lambda q: q[0] * q[10] + q[12] ** 2)
    if constrained:
        function = lambda q, v: v[3] + 0.4 * v[1] - 0.2 * v[5]  # noqa: E731
        system.constrain(function, work=lambda q, v: -0.3 * v * v, friction=lambda q, v: -0.1 * v)
    declared, chosen = system.derive(native=False), system.derive(velocity={"load": other}, native=False)

    def map_of(q):
        W = np.eye(6)
        W[3:] = declared.jacobian("hull" if other == "relative" else "world", "load", q)[3:]
        return W

    q, v = declared.random(1), np.random.default_rng(2).standard_normal(6)
    q, v = declared.assemble(q, v) if constrained else (q, v)
    w, h = map_of(q) @ v, 1e-5
    np.testing.assert_allclose(chosen.power(q, w)[:3], declared.power(q, v)[:3], rtol=1e-12, atol=1e-12)
    drift = (map_of(declared.integrate(q, v, h)) - map_of(declared.integrate(q, v, -h))) @ v / (2 * h)
    expected = map_of(q) @ declared.acceleration(q, v) + drift
    np.testing.assert_allclose(chosen.acceleration(q, w), expected, rtol=1e-7, atol=1e-7)
    if constrained:
        Phi = chosen.constraint_jacobian(q)
        np.testing.assert_allclose(Phi @ map_of(q), declared.constraint_jacobian(q), atol=1e-14)


def test_velocity_coordinates_are_chosen_once():
    system = nonholonomic.skate(minimal=True)
    with pytest.raises(ModelError, match="basis of 'skate'"):
        system.derive(velocity=lambda q, v: 2 * v)


def random_chain(rng, n):
    """A branched chain of n hinges and sliders."""
    system = ht.System(name="chain")
    for k in range(n):
        joint = ht.Revolute("xyz"[rng.integers(3)]) if rng.random() < 0.7 else ht.Prismatic("xyz"[rng.integers(3)])
        parent = f"b{rng.integers(max(0, k - 3), k)}" if k else "world"
        inertia = ht.Inertia(1.0, com=0.2 * rng.standard_normal(3), moment_at_com=(0.1, 0.12, 0.15))
        system.body(f"b{k}", parent=parent, at=0.5 * rng.standard_normal(3), joint=joint, inertia=inertia)
    return system


def random_map(rng, n, kind):
    """W(q) of a velocity map as a function to nested lists, with a condition of up to 100."""
    left, right = (np.linalg.qr(rng.standard_normal((n, n)))[0] for _ in range(2))
    sizes = 10 ** rng.uniform(0, 2, n)
    sizes[0], sizes[-1] = 1.0, 100.0
    dense = left @ np.diag(sizes) @ right
    if kind == "constant":
        return lambda q: dense.tolist()
    if kind == "dense":
        bent = 0.3 / n * rng.standard_normal((n, n))
        return lambda q: [[dense[i, j] + bent[i, j] * np.cos(q[(i + j) % n]) for j in range(n)] for i in range(n)]
    if kind == "turned":  # no entry stays away from zero at all states
        at = rng.permutation(n)[:2]

        def turned(q):
            c, s = np.cos(q[0]), np.sin(q[0])
            first, second = right[at[0]].copy(), right[at[1]].copy()
            rows = [list(row) for row in right]
            rows[at[0]] = [c * a - s * b for a, b in zip(first, second, strict=True)]
            rows[at[1]] = [s * a + c * b for a, b in zip(first, second, strict=True)]
            return [[sum(left[i, k] * sizes[k] * rows[k][j] for k in range(n)) for j in range(n)] for i in range(n)]

        return turned
    small = 0.02 * np.eye(n, k=-1) + (0.03 * np.eye(n, k=1) if kind == "band" else 0.0)
    order = rng.permutation(n)
    return lambda q: [[small[i, j] + (i == j) * (1.5 + 0.3 * np.sin(q[0])) for j in order] for i in order[::-1]]


KINDS = ("constant", "dense", "turned", "band", "triangular")


def error_of_map(seed, n, kind):
    """Largest relative error of the kinetic energy in random velocity coordinates at random states."""
    rng = np.random.default_rng(seed)
    system, W = random_chain(rng, n), random_map(rng, n, kind)
    velocity = lambda q, v: ht.vector(*(sum(x * v[j] for j, x in enumerate(row)) for row in W(q)))  # noqa: E731
    own, other = system.derive(native=False), system.derive(velocity, native=False)
    errors = []
    for _ in range(3):
        q, v = 2.0 * rng.standard_normal(n), rng.standard_normal(n)
        errors.append(other.kinetic_energy(q, np.array(W(q), dtype=float) @ v) / own.kinetic_energy(q, v) - 1.0)
    return np.max(np.abs(errors))


@pytest.mark.parametrize("kind", KINDS)
def test_velocity_maps_are_inverted_to_rounding(kind):
    assert error_of_map(3, 8, kind) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_random_velocity_maps_are_inverted_to_rounding(kind):
    sizes = np.random.default_rng(0).integers(2, 21, 100)
    assert max(error_of_map(seed, int(n), kind) for seed, n in enumerate(sizes)) < 1e-12
