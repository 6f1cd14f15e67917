"""Features K67 to K81 and K85 to K87: one rigid body, as particles, 6-vectors and 4 x 4 matrices."""

from __future__ import annotations

import numpy as np
import pytest
from heavytop_mechanics import calculus, multipliers, rayleigh, rigid_body

from heavytop._arrays import symbol
from heavytop.coordinates import Pose, Rotation
from heavytop.errors import ModelError, ShapeError
from heavytop.geometry import critical_points, se3, so3

RNG = np.random.default_rng(17)
WEIGHTS = RNG.uniform(0.2, 1.5, 6)
POINTS = RNG.standard_normal((6, 3))
GRAVITY = np.array([0.3, -0.2, -9.81])
MOMENTS = rigid_body.moments(WEIGHTS, POINTS)
MASS = se3.Vee(MOMENTS)
G = se3.exp(RNG.standard_normal(6))
XI, XI_RATE = RNG.standard_normal(6), RNG.standard_normal(6)
R, POSITION = se3.rotation(G), se3.position(G)
POSE = Pose()


def moved(direction):
    return G @ se3.exp(direction)


def slope(function, step=1e-6):
    """Directional derivatives (6,) of a function of the pose."""
    return np.array([(function(moved(step * e)) - function(moved(-step * e))) / (2 * step) for e in np.eye(6)])


def test_points_keep_their_distances_and_move_as_said() -> None:
    h = 1e-5

    def at(t):
        # a motion with velocity XI and rate XI_RATE at t = 0, to second order
        return se3.transform(G @ se3.exp(XI * t + 0.5 * XI_RATE * t**2), POINTS)

    apart = np.linalg.norm(POINTS[:, None] - POINTS, axis=-1)
    np.testing.assert_allclose(np.linalg.norm(at(0.7)[:, None] - at(0.7), axis=-1), apart, atol=1e-13)
    velocity = rigid_body.point_velocity(R, XI, POINTS)
    acceleration = rigid_body.point_acceleration(R, XI, XI_RATE, POINTS)
    np.testing.assert_allclose(velocity, (at(h) - at(-h)) / (2 * h), atol=1e-8)
    np.testing.assert_allclose(acceleration, (at(h) - 2 * at(0) + at(-h)) / h**2, atol=1e-4)


def test_kinetic_energy_in_three_forms() -> None:
    velocity = rigid_body.point_velocity(R, XI, POINTS)
    total = 0.5 * np.sum(WEIGHTS[:, None] * velocity**2)
    assert rigid_body.kinetic_energy(MASS, XI) == pytest.approx(total, rel=1e-13)
    assert rigid_body.kinetic_energy_from_moments(MOMENTS, XI) == pytest.approx(total, rel=1e-13)
    mixed = np.concatenate([R @ XI[:3], XI[3:]])
    assert 0.5 * mixed @ rigid_body.mixed_inertia(MASS, R) @ mixed == pytest.approx(total, rel=1e-13)
    assert np.max(np.abs(rigid_body.mixed_inertia(MASS, R) - rigid_body.mixed_inertia(MASS, np.eye(3)))) > 0.1


def test_inertia_force_in_two_forms_and_as_a_sum() -> None:
    acceleration = rigid_body.point_acceleration(R, XI, XI_RATE, POINTS)
    jacobians = R @ np.concatenate([np.tile(np.eye(3), (6, 1, 1)), -so3.wed(POINTS)], axis=-1)
    total = np.einsum("p,pxi,px->i", WEIGHTS, jacobians, acceleration)
    np.testing.assert_allclose(rigid_body.inertia_force(MASS, XI, XI_RATE), total, rtol=1e-12)
    np.testing.assert_allclose(rigid_body.inertia_force_from_moments(MOMENTS, XI, XI_RATE), total, rtol=1e-12)
    np.testing.assert_allclose(np.einsum("p,pxi,pxj->ij", WEIGHTS, jacobians, jacobians), MASS, atol=1e-13)


def test_newton_and_euler_at_the_centre_of_mass() -> None:
    theta = np.diag([1.0, 2.0, 2.5])
    mass = np.block([[3.0 * np.eye(3), np.zeros((3, 3))], [np.zeros((3, 3)), theta]])
    force = rigid_body.inertia_force(mass, XI, XI_RATE)
    v, w = XI[:3], XI[3:]
    np.testing.assert_allclose(force[:3], 3.0 * (XI_RATE[:3] + np.cross(w, v)), atol=1e-13)
    np.testing.assert_allclose(force[3:], theta @ XI_RATE[3:] + np.cross(w, theta @ w), atol=1e-13)


def test_acceleration_energy_with_all_terms(jacobian_by_differences) -> None:
    acceleration = rigid_body.point_acceleration(R, XI, XI_RATE, POINTS)
    total = 0.5 * np.sum(WEIGHTS[:, None] * acceleration**2)
    assert rigid_body.acceleration_energy(MASS, XI, XI_RATE) == pytest.approx(total, rel=1e-12)
    assert rigid_body.acceleration_energy_from_moments(MOMENTS, XI, XI_RATE) == pytest.approx(total, rel=1e-12)
    by_rate = jacobian_by_differences(lambda a: rigid_body.acceleration_energy(MASS, XI, a), XI_RATE)
    np.testing.assert_allclose(by_rate, rigid_body.inertia_force(MASS, XI, XI_RATE), atol=1e-7)


def test_connection_has_the_printed_entries_and_no_others() -> None:
    """Eq. 3.61: 24 entries with their skew partners; everything else vanishes."""
    m = MOMENTS[3, 3]
    sx, sy, sz = m * (MOMENTS[:3, 3] / m)
    T = MOMENTS[:3, :3]  # Theta'
    printed = {
        m: ("324", "135", "216"),
        sx: ("254", "364", "515", "616"),
        sy: ("424", "145", "365", "626"),
        sz: ("434", "535", "146", "256"),
        T[0, 0]: ("654",),
        T[1, 1]: ("465",),
        T[2, 2]: ("546",),
        T[0, 1]: ("464", "655"),
        T[0, 2]: ("544", "656"),
        T[1, 2]: ("545", "466"),
    }
    expected = np.zeros((6, 6, 6))
    for value, names in printed.items():
        for name in names:
            i, j, k = (int(x) - 1 for x in name)
            expected[i, j, k], expected[j, i, k] = value, -value
    assert np.count_nonzero(expected) == 48
    np.testing.assert_allclose(rigid_body.connection(MASS), expected, atol=1e-13)
    force = np.einsum("ijk,j,k->i", rigid_body.connection(MASS), XI, XI)
    np.testing.assert_allclose(force, rigid_body.inertia_force(MASS, XI, np.zeros(6)), atol=1e-13)


def test_commutation_coefficients_of_the_body() -> None:
    """Eqs 3.52, 3.53: gamma^k_ij xi^j = -ad(xi)^T, row i and column k."""
    gamma = np.asarray(POSE.commutation(POSE.neutral()))
    np.testing.assert_allclose(np.einsum("kij,j->ik", gamma, XI), -se3.ad(XI).T, atol=1e-15)
    assert np.count_nonzero(gamma) == 18


def test_gravity_in_all_forms() -> None:
    energy = -np.sum(WEIGHTS[:, None] * se3.transform(G, POINTS) * GRAVITY)
    assert rigid_body.gravity_energy(MOMENTS, G, GRAVITY) == pytest.approx(energy, rel=1e-13)
    assert rigid_body.gravity_energy_from_moments(MOMENTS, G, GRAVITY) == pytest.approx(energy, rel=1e-13)
    force = slope(lambda g: rigid_body.gravity_energy(MOMENTS, g, GRAVITY))
    np.testing.assert_allclose(rigid_body.gravity_force(MASS, G, GRAVITY), force, atol=1e-7)
    np.testing.assert_allclose(rigid_body.gravity_force_from_moments(MOMENTS, G, GRAVITY), force, atol=1e-7)


def test_free_body_falls() -> None:
    a = rigid_body.acceleration(MASS, G, np.zeros(6), GRAVITY)
    np.testing.assert_allclose(R @ a[:3], GRAVITY, atol=1e-13)
    np.testing.assert_allclose(a[3:], 0, atol=1e-13)


# --- stiffness (K76 to K79) -----------------------------------------------------------------------------------------------------


def springs():
    rng = np.random.default_rng(3)
    return rng.uniform(1, 10, 5), rng.standard_normal((5, 3)), rng.standard_normal((5, 3))


def test_spring_set_against_the_sum_over_springs() -> None:
    k, h, p = springs()
    s = rigid_body.springs(k, h, p)

    def energy(g):
        return 0.5 * np.sum(k[:, None] * (se3.transform(g, h) - p) ** 2)

    assert s.energy(G) == pytest.approx(energy(G), rel=1e-13)
    np.testing.assert_allclose(s.gradient(G), slope(energy), atol=1e-7)
    # second derivative along constant body velocities
    step = 1e-3
    for direction in np.random.default_rng(1).standard_normal((5, 6)):
        second = (energy(moved(step * direction)) - 2 * energy(G) + energy(moved(-step * direction))) / step**2
        assert direction @ s.hessian(G) @ direction == pytest.approx(second, rel=1e-4)


def test_all_hessians_have_the_same_order_of_derivatives() -> None:
    """d_i d_j V with row i and column j: of a spring set, of -tr(P R), and of any function on any coordinates."""
    k, h, p = springs()
    s = rigid_body.springs(k, h, p)
    c = Pose()
    q = c.random(3)
    pose = c.pose(q)
    by_calculus = calculus.second_derivatives(c, lambda q: s.energy(c.pose(q)), q)
    np.testing.assert_allclose(s.hessian(pose), by_calculus, rtol=1e-12, atol=1e-12)
    assert np.abs(by_calculus - by_calculus.T).max() > 1e-2

    P = np.random.default_rng(5).standard_normal((3, 3))
    turn = Rotation()
    R = turn.random(4)
    second = calculus.second_derivatives(turn, lambda q: critical_points.value(P, turn.rotation_matrix(q)), R)
    np.testing.assert_allclose(critical_points.hessian(P, turn.rotation_matrix(R)), second, atol=1e-13)


@pytest.mark.parametrize("stiffness", [[0.0, 0.0], [1.0, -1.0], [np.nan, 1.0], [np.inf, 1.0]])
def test_springs_without_a_total_have_no_centre(stiffness) -> None:
    with pytest.raises(ModelError, match="no centre"):
        rigid_body.springs(stiffness, np.eye(3)[:2], np.eye(3)[1:])


def test_spring_sets_of_the_reference(golden) -> None:
    """G:g, degenerate sets included; where the minimum is not strict the pose is one of many, energy and K are not."""
    for case in golden("g_stiffness.json")["sets"]:
        rows = np.array(case["springs_[k,hx,hy,hz,px,py,pz]"])
        s = rigid_body.springs(rows[:, 0], rows[:, 1:4], rows[:, 4:7])
        form = s.minimum()
        np.testing.assert_allclose(s.stiffness, case["k"], rtol=1e-13)
        np.testing.assert_allclose(s.center, case["h"], atol=1e-13)
        np.testing.assert_allclose(s.anchor, case["p"], atol=1e-13)
        np.testing.assert_allclose(s.moment, case["P"], atol=1e-12)
        np.testing.assert_allclose(form.moment_at_center, case["Pi_s"], atol=1e-11)
        np.testing.assert_allclose(form.matrix[3:, 3:], case["Pi"], atol=1e-11)
        np.testing.assert_allclose(form.moments, case["Kprime"], atol=1e-11)
        assert form.least_energy == pytest.approx(case["V0"], abs=1e-11)
        if case["minimum_strict"]:
            np.testing.assert_allclose(se3.rotation(form.rest), case["R_R"], atol=1e-11)
            np.testing.assert_allclose(se3.position(form.rest), case["r_R"], atol=1e-11)
        for sample in case["evaluations"]:
            g = se3.pose(np.array(sample["R"]), np.array(sample["r"]))
            assert s.energy(g) == pytest.approx(sample["V"], rel=1e-12)
            np.testing.assert_allclose(s.gradient(g), sample["grad_[force;moment]"], atol=1e-11)
            # the centre form (3.72 to 3.74), to twelve digits
            V, slope_there = sample["V"], np.array(sample["grad_[force;moment]"])
            centred = rigid_body.stiffness_energy(form.moments, g, form.rest) + form.least_energy
            assert centred == pytest.approx(V, rel=1e-12)
            size = 1e-12 * np.max(np.abs(slope_there))
            np.testing.assert_allclose(
                rigid_body.stiffness_force(form.moments, g, form.rest), slope_there, rtol=0, atol=size
            )
            by_matrix = rigid_body.stiffness_force_from_matrix(form.matrix, g, form.rest)
            np.testing.assert_allclose(by_matrix, slope_there, rtol=0, atol=size)


def test_minimum_and_centre_form() -> None:
    k, h, p = springs()
    s = rigid_body.springs(k, h, p)
    form = s.minimum()
    np.testing.assert_allclose(s.gradient(form.rest), 0, atol=1e-12)
    np.testing.assert_allclose(s.hessian(form.rest), form.matrix, atol=1e-12)  # eq. 3.75
    assert np.min(np.linalg.eigvalsh(form.matrix)) > 0
    for other in se3.exp(0.5 * np.random.default_rng(0).standard_normal((200, 6))):
        assert s.energy(form.rest @ other) > form.least_energy
    assert rigid_body.stiffness_energy(form.moments, G, form.rest) + form.least_energy == pytest.approx(
        s.energy(G), rel=1e-12
    )
    np.testing.assert_allclose(rigid_body.stiffness_force(form.moments, G, form.rest), s.gradient(G), atol=1e-12)
    np.testing.assert_allclose(
        rigid_body.stiffness_force_from_matrix(form.matrix, G, form.rest), s.gradient(G), atol=1e-12
    )


def test_minimum_is_what_a_global_search_finds() -> None:
    from scipy.optimize import minimize

    k, h, p = springs()
    s = rigid_body.springs(k, h, p)
    form = s.minimum()
    starts = se3.exp(np.random.default_rng(5).uniform(-3, 3, (8, 6)))
    found = [minimize(lambda x, g=g: float(s.energy(g @ se3.exp(x))), np.zeros(6), tol=1e-12).fun for g in starts]
    assert min(found) == pytest.approx(form.least_energy, rel=1e-8)


def test_minima_of_the_reference_are_what_a_global_search_finds(golden) -> None:
    """K78 on G:g, degenerate sets included; strict ones are definite by Sylvester's criterion."""
    from scipy.optimize import minimize

    for case in golden("g_stiffness.json")["sets"]:
        rows = np.array(case["springs_[k,hx,hy,hz,px,py,pz]"])
        s = rigid_body.springs(rows[:, 0], rows[:, 1:4], rows[:, 4:7])
        form = s.minimum()

        def energy(x, g, s=s):
            return float(s.energy(g @ se3.exp(x)))

        def slope_at(x, g, s=s):
            return se3.tangent(x).T @ s.gradient(g @ se3.exp(x))

        starts = se3.exp(np.random.default_rng(5).uniform(-3, 3, (6, 6)))
        least = min(minimize(energy, np.zeros(6), (g,), jac=slope_at).fun for g in starts)
        assert least == pytest.approx(form.least_energy, rel=1e-9, abs=1e-9)
        minors = [np.linalg.det(form.matrix[:k, :k] / s.stiffness) for k in range(1, 7)]
        assert (min(minors) > 1e-12) == case["minimum_strict"]


def test_indefinite_stiffness_moments_are_fine() -> None:
    """Erratum 0.31: K' may have a negative eigenvalue although the rest pose is the minimum."""
    found = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        form = rigid_body.springs(
            rng.uniform(1, 10, 4), rng.standard_normal((4, 3)), rng.standard_normal((4, 3))
        ).minimum()
        found += np.min(np.linalg.eigvalsh(form.moments)) < -1e-6
        for g in se3.exp(rng.standard_normal((50, 6))):
            assert rigid_body.stiffness_energy(form.moments, form.rest @ g, form.rest) > -1e-12
    assert found > 0


# --- damping (K80, K81) ---------------------------------------------------------------------------------------------------------


def test_damping_parameters_and_force(jacobian_by_differences) -> None:
    d = rayleigh.body_damping(WEIGHTS, POINTS)
    np.testing.assert_allclose(d.matrix, MASS, atol=1e-13)  # the same moments as an inertia
    fluid = np.random.default_rng(2).standard_normal((6, 3))

    def dissipation(xi):
        return 0.5 * np.sum(WEIGHTS[:, None] * (rigid_body.point_velocity(R, xi, POINTS) - fluid) ** 2)

    force = rayleigh.body_drag(WEIGHTS, POINTS, R, XI, fluid)
    np.testing.assert_allclose(force, jacobian_by_differences(dissipation, XI), atol=1e-7)
    still = rayleigh.body_drag(WEIGHTS, POINTS, R, XI, rigid_body.point_velocity(R, XI, POINTS))
    np.testing.assert_allclose(still, 0, atol=1e-13)
    assert rigid_body.kinetic_energy(d.matrix, XI) == pytest.approx(
        0.5 * XI @ rayleigh.body_drag(WEIGHTS, POINTS, R, XI, 0 * fluid), rel=1e-13
    )


def test_fluid_that_moves_like_a_rigid_body() -> None:
    rng = np.random.default_rng(4)
    fluid_pose, fluid_twist = se3.exp(rng.standard_normal(6)), rng.standard_normal(6)
    carried = se3.transform(se3.inverse(fluid_pose), se3.transform(G, POINTS))
    fluid = rigid_body.point_velocity(se3.rotation(fluid_pose), fluid_twist, carried)
    relative = rayleigh.relative_twist(G, XI, fluid_pose, fluid_twist)
    np.testing.assert_allclose(MASS @ relative, rayleigh.body_drag(WEIGHTS, POINTS, R, XI, fluid), atol=1e-12)


def test_dissipation_from_4x4_moments(jacobian_by_differences) -> None:
    """(3.93), (3.95): R = tr(wed(xi) D' wed(xi)^T) / 2 is the sum over particles, and f^D = vee2(wed(xi) D') its slope."""
    drags = rigid_body.moments(WEIGHTS, POINTS)
    total = 0.5 * np.sum(WEIGHTS[:, None] * rigid_body.point_velocity(R, XI, POINTS) ** 2)
    assert rigid_body.kinetic_energy_from_moments(drags, XI) == pytest.approx(total, rel=1e-13)
    force = se3.vee2(se3.wed(XI) @ drags)
    np.testing.assert_allclose(force, rayleigh.body_damping(WEIGHTS, POINTS).matrix @ XI, atol=1e-12)
    by_differences = jacobian_by_differences(lambda x: rigid_body.kinetic_energy_from_moments(drags, x), XI)
    np.testing.assert_allclose(force, by_differences, atol=1e-7)


# --- motion (K87) ---------------------------------------------------------------------------------------------------------------


def test_energy_balance_of_the_free_body(integrate) -> None:
    k, h, p = springs()
    form = rigid_body.springs(k, h, p).minimum()
    damping = 0.1 * MASS
    t = np.linspace(0, 1, 101)

    def rate(_, z):
        g = POSE.pose(z[:12])
        a = rigid_body.acceleration(MASS, g, z[12:], GRAVITY, damping, form.moments, form.rest)
        return np.concatenate([POSE.rate(z[:12], z[12:]), a])

    run = integrate(rate, np.concatenate([POSE.from_pose(G), XI]), t)
    g, xi = POSE.pose(run[:, :12]), run[:, 12:]
    energy = rigid_body.kinetic_energy(MASS, xi) + rigid_body.gravity_energy(MOMENTS, g, GRAVITY)
    energy = energy + rigid_body.stiffness_energy(form.moments, g, form.rest)
    loss = 2 * rigid_body.kinetic_energy(damping, xi)
    work = np.cumsum((loss[:-2:2] + 4 * loss[1:-1:2] + loss[2::2]) * (t[1] - t[0]) / 3)
    assert work[-1] > 0.1
    np.testing.assert_allclose(energy[2::2] - energy[0], -work, atol=1e-6)


def test_heavy_top_as_a_constrained_body(golden, integrate) -> None:
    """G:f: a free body whose reference point is held by a multiplier; the multiplier is the reaction."""
    data = golden("f_heavy_top.json")
    p = data["parameters"]
    m, X = p["m"], np.array(p["X"], dtype=float)
    wedge = m * so3.wed(X)
    mass = np.block([[m * np.eye(3), -wedge], [wedge, np.diag(p["J_com"]) - wedge @ so3.wed(X)]])
    hold = np.concatenate([np.eye(3), np.zeros((3, 3))], axis=1)

    def release(g, xi):
        force = mass @ rigid_body.acceleration(mass, g, xi, p["gravity"])
        return multipliers.constrained(mass, force, hold, np.zeros(3))

    def unpack(z):
        return se3.pose(z[:9].reshape(3, 3).T, np.zeros(3)), np.concatenate([np.zeros(3), z[9:]])

    def rate(_, z):
        g, xi = unpack(z)
        return np.concatenate([Rotation().rate(z[:9], z[9:]), release(g, xi).acceleration[3:]])

    times = np.array(data["t"])[:4]
    run = integrate(rate, np.concatenate([np.eye(3).reshape(9), p["Omega0"]]), times, 1e-11, 1e-11)
    np.testing.assert_allclose(run[:, 9:], np.array(data["Omega"])[:4], atol=1e-7)
    for state, reaction in zip(run, data["reaction"], strict=False):
        g, xi = unpack(state)
        result = release(g, xi)
        np.testing.assert_allclose(se3.rotation(g) @ result.force[:3], reaction, atol=1e-5)
        np.testing.assert_allclose(result.force[3:], 0, atol=1e-9)


def test_formulas_take_symbols_and_batches() -> None:
    xi = symbol("xi", 6)
    assert rigid_body.inertia_force(MASS, xi, xi).shape == (6,)
    assert rigid_body.acceleration(MASS, G, xi, GRAVITY).shape == (6,)
    many = np.random.default_rng(0).standard_normal((4, 6))
    batch = rigid_body.acceleration(MASS, se3.exp(many), many, GRAVITY)
    np.testing.assert_allclose(batch[1], rigid_body.acceleration(MASS, se3.exp(many[1]), many[1], GRAVITY), rtol=1e-12)


def test_messages() -> None:
    with pytest.raises(ShapeError, match=r"anchors of springs must have shape \(2, 3\), got \(1, 3\)"):
        rigid_body.springs([1.0, 1.0], np.zeros((2, 3)), np.zeros((1, 3)))
    with pytest.raises(ShapeError, match=r"fluid velocities must have shape \(..., 6, 3\)"):
        rayleigh.body_drag(WEIGHTS, POINTS, R, XI, np.zeros(3))
