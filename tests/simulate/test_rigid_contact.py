"""Rigid contact against exact solutions: impacts, sliding, rolling, sticking, redundancy, paradoxes."""

from __future__ import annotations

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import heavytop as ht
from heavytop.errors import ConfigurationError, SimulationError
from heavytop.geometry import so3

G = 9.81
RADIUS, MASS = 0.028575, 0.17


def free(mass: float, moment: object, gravity: tuple[float, float, float] = (0.0, 0.0, -G)) -> ht.System:
    system = ht.System(gravity=gravity, name="body")
    system.body("body", joint=ht.Free(velocity="mixed"), inertia=ht.Inertia(mass, moment_at_com=moment))
    return system


@cache
def ball() -> ht.Model:
    system = free(MASS, np.full(3, 0.4 * MASS * RADIUS**2))
    mu, e = system.parameter("mu", 0.2), system.parameter("e", 0.0)
    system.ground()
    system.contact("body", "ground", ht.Sphere(RADIUS), friction=mu, restitution=e)
    return system.derive()


def start(height: float = RADIUS, **velocity: float) -> tuple[np.ndarray, np.ndarray]:
    q, v = ball().neutral(), np.zeros(6)
    q[2] = height
    for name, value in velocity.items():
        v[("x", "y", "z", "wx", "wy", "wz").index(name)] = value
    return q, v


def simulate(model: ht.Model, begin: tuple, until: float, step: float, **options: object) -> ht.Run:
    return ht.simulate(model, begin, until, step, "moreau", **options)  # type: ignore[arg-type]


def solved(run: ht.Run) -> bool:
    return run.outcome.ok and float(np.nanmax(run.channels["residual"])) < 1e-9


@pytest.mark.parametrize("step", [1e-2, 1e-3])
def test_a_sliding_ball_rolls_with_five_sevenths_of_its_speed(step: float) -> None:
    """Slips for 2 v0 / (7 mu g), exactly, whatever the step."""
    slip = 2 / (7 * 0.2 * G)
    run = simulate(ball(), start(x=1.0), 2 * slip, step)
    assert solved(run)
    assert abs(run.v[-1, 0] - 5 / 7) < 1e-13
    assert abs(run.q[-1, 0] - (slip - 0.5 * 0.2 * G * slip**2 + 5 / 7 * slip)) < 1e-13
    assert run.invariants["energy"].relative < 1e-13
    assert run.contact_work is not None
    assert np.isclose(run.contact_work[-1, 1], -MASS / 7, rtol=1e-12)  # 2/7 of the kinetic energy
    assert abs(run.contacts["body"].force[-1] - [0.0, 0.0, MASS * G]).max() < 1e-12


def test_a_billiard_ball_follows_a_parabola() -> None:
    """Coriolis 1835: v0 t - mu g u t^2 / 2 while slipping along u, then v0 - 2/7 u0."""
    spin, v0 = np.array([30.0, -20.0, 5.0]), np.array([1.0, 0.3])
    u0 = np.array([v0[0] - RADIUS * spin[1], v0[1] + RADIUS * spin[0]])
    slip = 2 * np.linalg.norm(u0) / (7 * 0.2 * G)
    q, v = start(x=v0[0], y=v0[1], wx=spin[0], wy=spin[1], wz=spin[2])
    run = simulate(ball(), (q, v), 1.5 * slip, 1e-2)
    k = int(np.argmin(np.abs(run.t - 0.5 * slip)))
    parabola = v0 * run.t[k] - 0.5 * 0.2 * G * u0 / np.linalg.norm(u0) * run.t[k] ** 2
    assert np.linalg.norm(run.q[k, :2] - parabola) < 1e-14
    assert np.linalg.norm(run.v[-1, :2] - (v0 - 2 / 7 * u0)) < 1e-13


def test_a_bouncing_ball_comes_to_rest() -> None:
    """Peaks e^2n, rest after sqrt(2 h / g) (1 + e) / (1 - e), then with a velocity of exactly zero; the balance of energy is exact."""
    run = simulate(ball(), start(height=1.0 + RADIUS), 5.0, 1e-3, parameters={"e": 0.8})
    height = run.q[:, 2] - RADIUS
    peak = height[(run.t > 0.5) & (run.t < 1.2)].max()
    assert abs(peak - 0.64) < 1e-5
    moving = run.t[np.flatnonzero(np.abs(run.v[:, 2]) > 1e-12)[-1]]
    assert abs(moving - np.sqrt(2 / G) * 9.0) < 0.05
    assert height.min() > -1e-12
    assert run.invariants["energy"].relative < 1e-12
    assert not np.any(run.v[-1])
    contact = run.contacts["body"]
    assert contact.closed[-1]
    assert contact.unique
    assert abs(contact.touchdowns[0] - np.sqrt(2 / G)) < 2e-3


@pytest.mark.thorough
def test_a_batch_gives_the_same_numbers_as_each_alone() -> None:
    heights = np.linspace(0.1, 1.0, 5)
    begins = [start(height=h, x=0.5, wy=3.0) for h in heights]
    q, v = (np.stack([begin[i] for begin in begins]) for i in (0, 1))
    mu = np.linspace(0.1, 0.9, 5)
    many = simulate(ball(), (q, v), 0.8, 2e-3, parameters={"mu": mu, "e": 0.5})
    for k in range(5):
        one = simulate(ball(), (q[k], v[k]), 0.8, 2e-3, parameters={"mu": mu[k], "e": 0.5})
        assert np.array_equal(one.q, many.q[:, k])
    assert np.all(many.contacts["body"].use <= 1.0 + 1e-9)


def test_other_integrators_name_the_one_that_solves_contacts() -> None:
    with pytest.raises(SimulationError, match="moreau"):
        ht.simulate(ball(), start(), 0.1, 1e-3)
    with pytest.raises(SimulationError, match="rkmk4"):
        ht.simulate(ht.library.pendulum().derive(), ([1.0], [0.0]), 0.1, 1e-3, "moreau")


def test_the_report_has_a_line_on_contacts() -> None:
    text = simulate(ball(), start(x=1.0), 0.1, 1e-2).report(show=False)
    assert "1 of 1 closed" in text
    assert "J friction" in text
    assert "momentum" not in text


# --- larger problems ------------------------------------------------------------------------------------------------------


@cache
def block() -> ht.Model:
    """A block under a gravity of given direction: an incline."""
    system = ht.System(name="block")
    angle, mu = system.parameter("angle", 0.1), system.parameter("mu", 0.5)
    system.gravity = ht.vector(G * np.sin(angle), 0.0 * angle, -G * np.cos(angle))
    system.body(
        "body",
        joint=ht.Free(velocity="mixed"),
        inertia=ht.Inertia(1.0, moment_at_com=(0.02 / 12, 0.05 / 12, 0.05 / 12)),
    )
    system.ground()
    system.contact("body", "ground", ht.Box((0.2, 0.1, 0.1)), friction=mu)
    return system.derive()


@pytest.mark.thorough
@pytest.mark.parametrize("share", [0.9, 0.999, 1.001, 1.1])
def test_a_block_stays_below_the_angle_of_friction_and_slides_above(share: float) -> None:
    angle = share * np.arctan(0.5)
    q = block().neutral()
    q[2] = 0.05
    run = simulate(block(), (q, np.zeros(6)), 1.0, 1e-3, parameters={"angle": angle})
    speed = max(0.0, G * (np.sin(angle) - 0.5 * np.cos(angle)))
    assert solved(run)
    assert abs(run.v[-1, 0] - speed) < 1e-12
    assert abs(run.q[-1, 0] - 0.5 * speed) < 1e-12
    assert np.abs(run.v[-1, 1:]).max() < 1e-12
    assert not run.contacts["body"].unique
    assert np.allclose(run.contacts["body"].force[-1, 2], G * np.cos(angle), rtol=1e-10)


@pytest.mark.thorough
@pytest.mark.parametrize("mu", [0.2, 0.05])
def test_a_cylinder_rolls_or_slides_down_an_incline(mu: float) -> None:
    """2/3 g sin if mu >= tan / 3, else g (sin - mu cos)."""
    mass, radius, angle = 1.0, 0.1, 0.3
    across, along = mass * (0.25 * radius**2 + 0.01 / 12), 0.5 * mass * radius**2
    system = free(mass, (across, along, across), gravity=(G * np.sin(angle), 0.0, -G * np.cos(angle)))
    at = np.eye(4)
    at[:3, :3] = so3.rotation_about("x", np.pi / 2)
    system.ground(friction=mu)
    system.contact("body", "ground", ht.Cylinder(radius, 0.1), at=at)
    model = system.derive()
    q = model.neutral()
    q[2] = radius
    run = simulate(model, (q, np.zeros(6)), 1.0, 1e-3)
    exact = 2 / 3 * G * np.sin(angle) if mu >= np.tan(angle) / 3 else G * (np.sin(angle) - mu * np.cos(angle))
    assert solved(run)
    assert abs(run.v[-1, 0] / exact - 1) < 1e-12
    assert abs(run.q[-1, 0] - exact / 2) < 1e-12


@pytest.mark.thorough
def test_a_rocking_block_loses_housners_share() -> None:
    """Housner 1963: the angular velocity behind an impact is 1 - 3/2 sin^2(alpha) of that before."""
    width, height = 0.2, 0.8
    size, alpha = 0.5 * np.hypot(width, height), np.arctan(width / height)
    rate = 3 * G / (4 * size)
    fall = solve_ivp(
        lambda _, y: [y[1], -rate * np.sin(alpha - y[0])],
        (0, 5),
        [0.5 * alpha, 0.0],
        events=lambda _, y: y[0],
        rtol=1e-12,
        atol=1e-14,
    )
    hit, before = fall.t_events[0][0], fall.y_events[0][0][1]
    system = free(1.0, np.array([height**2 + 0.04**2, width**2 + height**2, width**2 + 0.04**2]) / 12)
    feet = [(i * width / 2, j * 0.02, -height / 2) for i in (-1, 1) for j in (-1, 1)]
    system.ground(friction=0.6)
    system.contact("body", "ground", ht.Points(feet))
    model = system.derive()
    R = np.asarray(so3.rotation_about("y", 0.5 * alpha))
    q = model.neutral()
    q[:3], q[3:] = -R @ np.array([width / 2, 0.0, -height / 2]), R.T.reshape(-1)
    run = simulate(model, (q, np.zeros(6)), 1.3 * hit, 1e-3)
    k = int(np.flatnonzero(run.t < 1.02 * hit)[-1]) + 1
    ratio = 1 - 1.5 * np.sin(alpha) ** 2
    after = solve_ivp(
        lambda _, y: [y[1], -rate * np.sin(alpha - y[0])], (0, run.t[k] - hit), [0.0, -before * ratio], rtol=1e-12
    )
    assert solved(run)
    assert abs(abs(run.v[k, 4]) / abs(after.y[1, -1]) - 1) < 3e-5


@pytest.mark.thorough
@pytest.mark.parametrize("velocity", ["mixed", "body"])
def test_the_order_is_two_on_a_rolling_disc(velocity: str) -> None:
    """Moffatt 2000: with its centre at rest a disc precesses with Omega^2 sin(alpha) = 4 g / a."""
    radius, alpha, mass = 0.0375, 0.5, 0.4
    omega = np.sqrt(4 * G / (radius * np.sin(alpha)))
    system = ht.System(name="disc")
    joint = ht.Free(velocity=velocity)  # pyright: ignore[reportArgumentType]
    moment = mass * radius**2 * np.array([0.25, 0.25, 0.5])
    system.body("body", joint=joint, inertia=ht.Inertia(mass, moment_at_com=moment))
    system.ground(friction=0.8)
    system.contact("body", "ground", ht.Rim(radius))
    model = system.derive()
    R = np.asarray(so3.rotation_about("x", alpha))
    low = R @ np.array([0.0, -1.0, 0.0])
    spin = omega * np.sin(alpha) * low
    spin *= np.sign(np.dot(np.cross(spin, R[:, 2]), np.cross([0, 0, 1], R[:, 2])))
    q, v = model.neutral(), np.zeros(6)
    q[2], q[3:], v[3:] = radius * np.sin(alpha), R.T.reshape(-1), R.T @ spin
    period, errors = 2 * np.pi / omega, []
    for steps in (100, 200, 400):
        run = simulate(model, (q, v), 5 * period, period / steps)
        axis = run.q[:, 9:]
        angle = np.unwrap(np.arctan2(axis[:, 1], axis[:, 0]))
        errors.append(abs(abs(angle[-1] - angle[0]) / run.t[-1] / omega - 1))
        assert solved(run)
    assert errors[2] < 2e-5
    assert all(3.5 < a / b < 4.5 for a, b in pairwise(errors))


@pytest.mark.thorough
def test_the_order_is_two_where_friction_reverses() -> None:
    """A mass on a spring rubs on the floor: half periods of a cosine about the points +- mu g / k."""
    k, mu, begin, until = 400.0, 0.3, 0.1, 1.0
    system = ht.System(name="rubbing mass")
    system.body("body", joint=ht.Free(velocity="mixed"), inertia=ht.Inertia(1.0, moment_at_com=(0.1, 0.1, 0.1)))
    system.ground(friction=mu)
    system.contact("body", "ground", ht.Points([(0.0, 0.0, 0.0)]))
    system.potential(lambda q: 0.5 * k * q[0] ** 2)
    model = system.derive()
    x, w, centre, left = begin, np.sqrt(k), mu * G / k, until
    while left > np.pi / w:
        x, centre, left = 2 * centre - x, -centre, left - np.pi / w
    exact = centre + (x - centre) * np.cos(w * left)
    q, errors = model.neutral(), []
    q[0] = begin
    for step in (4e-3, 2e-3, 1e-3):
        run = simulate(model, (q, np.zeros(6)), until, step)
        assert solved(run)
        errors.append(abs(run.q[-1, 0] - exact))
    assert errors[2] < 1e-6
    assert all(3.5 < a / b < 4.5 for a, b in pairwise(errors))


@pytest.mark.thorough
@pytest.mark.parametrize("velocity", ["mixed", "body"])
def test_a_rattleback_reverses(velocity: str) -> None:
    """Data of Kane and Levinson 1982; times and spins of rolling without slip by a velocity constraint, order 8 at 0.5 ms."""
    moment = np.array([[2e-4, -2e-5, 0.0], [-2e-5, 1.6e-3, 0.0], [0.0, 0.0, 1.7e-3]])
    system = ht.System(name="rattleback")
    joint = ht.Free(velocity=velocity)  # pyright: ignore[reportArgumentType]
    system.body("body", joint=joint, inertia=ht.Inertia(1.0, moment_at_com=moment))
    system.ground(friction=2.0)
    system.contact("body", "ground", ht.Ellipsoid((0.2, 0.03, 0.02)), at=(0.0, 0.0, 0.01))
    model = system.derive()
    R = np.asarray(so3.rotation_about("x", np.deg2rad(0.5)))
    q = model.neutral()
    q[3:] = R.T.reshape(-1)
    gap, point, _ = model.traced("contact_points").interpret(q, model.parameter_vector())
    q[2] -= gap[0]
    spin = R.T @ np.array([0.0, 0.0, -5.0])
    linear = -np.cross(spin, R.T @ point[0])
    v = np.concatenate([R @ linear if velocity == "mixed" else linear, spin])
    largest = []
    for step in (5e-4, 2.5e-4):
        run = simulate(model, (q, v), 10.0, step)
        turned = run.q[:, 3:].reshape(-1, 3, 3)
        about_z = np.einsum("nji,nj->ni", turned, run.v[:, 3:])[:, 2]
        k = np.flatnonzero((about_z[:-1] < 0) & (about_z[1:] >= 0))[0]
        assert abs(run.t[k] - 5.816) < 0.01
        largest.append(abs(about_z.max() - 5.0008))
        assert solved(run)
        assert -2e-4 < run.energy[-1] - run.energy[0] < 0.0  # of 0.021 J in its spin; contacts supply none
        assert run.contacts["body"].gap.min() > -2e-8
    assert largest[1] < 0.01
    assert largest[1] < 0.3 * largest[0]


@pytest.mark.thorough
@pytest.mark.parametrize("force", [8.0, 5.0])
def test_a_gripper_holds_a_box_by_friction_alone(force: float) -> None:
    """Holds if 2 mu F >= m g = 4.905 N; eight redundant points per pad share the force evenly, so that the box does not turn."""
    system = ht.System(name="gripper")
    system.body("box", joint=ht.Free(), inertia=ht.Inertia.of(ht.Box((0.1, 0.1, 0.1)), density=500.0))
    for side, sign in (("left", 1.0), ("right", -1.0)):
        system.body(side, joint=ht.Prismatic("x"), inertia=ht.Inertia(0.1))
        pad = np.eye(4)
        pad[:3, :3] = so3.rotation_about("y", sign * np.pi / 2)
        system.frame(f"{side} pad", side, pad)
        system.contact("box", f"{side} pad", ht.Box((0.1, 0.1, 0.1)), friction=0.4)
        system.input(side, ht.JointForce(side))
    model = system.derive()
    q = model.neutral()
    q[-2:] = -0.05, 0.05
    run = simulate(model, (q, np.zeros(model.nv)), 0.5, 1e-3, inputs=np.array([force, -force]))
    assert solved(run)
    assert abs(run.v[-1, 2] - 0.5 * min(0.0, 2 * 0.4 * force / 0.5 - G)) < 1e-12
    assert np.abs(run.v[-1, 3:6]).max() < 1e-12
    assert run.contacts["box"].unique is False
    assert np.allclose(run.contacts["box"].force[-1, 0], force)


@cache
def rod() -> ht.Model:
    """A rod of length 2 m whose tip slides on the floor."""
    system = ht.System(gravity=(0.0, -G, 0.0), name="rod")
    mu = system.parameter("mu", 0.5)
    system.body("rod", joint=ht.Planar(), inertia=ht.Inertia(1.0, moment_at_com=(1 / 3, 1 / 3, 1 / 3)))
    floor = np.eye(4)
    floor[:3, :3] = [[1, 0, 0], [0, 0, 1], [0, -1, 0]]
    system.frame("floor", "world", floor)
    system.contact("rod", "floor", ht.Points([(-1.0, 0.0, 0.0)]), friction=mu)
    return system.derive()


@pytest.mark.thorough
@pytest.mark.parametrize("mu", [0.5, 1.0, 1.3, 1.6])
def test_painleves_rod(mu: float) -> None:
    """N = m g / (1 + 3 cos (cos - mu sin)) for the angle 60 deg; beyond the paradox there is none, and the run ends."""
    angle, step = np.pi / 3, 1e-4
    run = simulate(rod(), ([0.0, np.sin(angle), angle], [-1.0, 0.0, 0.0]), 3 * step, step, parameters={"mu": mu})
    p = 1 + 3 * np.cos(angle) * (np.cos(angle) - mu * np.sin(angle))
    if p <= 0:
        assert run.outcome.ending.value == "ill_posed"
        assert "Painleve" in run.outcome.message
    else:
        assert abs(run.contacts["rod"].force[1, 1] / (G / p) - 1) < 1e-4


@pytest.mark.thorough
def test_a_touchdown_is_not_painleves_paradox() -> None:
    """A tip that comes down within a step, with friction that presses it against the floor, jams: its impulse exists, and stops it."""
    angle, step = np.pi / 3, 1e-4
    start = ([0.0, np.sin(angle) + 2e-8, angle], [-1.0, 0.0, 0.0])
    run = simulate(rod(), start, step, step, parameters={"mu": 1.6})
    assert solved(run), run.outcome
    assert run.contacts["rod"].force[-1, 1] > 100.0
    x, y, turn = run.v[-1]
    assert np.allclose([x + turn * np.sin(angle), y - turn * np.cos(angle)], 0.0, atol=1e-3)  # of the tip


@cache
def limp() -> ht.Model:
    """A trunk with one leg of two links whose joints are free."""
    system, shape = ht.System(name="limp"), ht.Box((0.4, 0.2, 0.1))
    system.ground(friction=1.0)
    system.body("trunk", joint=ht.Free(), inertia=ht.Inertia.of(shape, density=300.0))
    link = ht.Inertia(0.3, com=(0.0, 0.0, -0.08), moment_at_com=(7e-4, 7e-4, 1e-4))
    system.body("upper", parent="trunk", joint=ht.Revolute("y"), at=(0.2, 0.12, 0.0), inertia=link)
    system.body("lower", parent="upper", joint=ht.Revolute("y"), at=(0.0, 0.0, -0.16), inertia=link)
    system.contact("lower", "ground", ht.Points([(0.0, 0.0, -0.16)], radius=0.02))
    system.contact("trunk", "ground", shape)
    return system.derive()


@pytest.mark.thorough
def test_a_limp_leg_between_sliding_and_sticking() -> None:
    """Random starts just before steps in which Newton's method is stuck between contacts that slide and stick."""
    columns = [
        [0.597754, 0.473943, 0.646582, -0.160874, 0.861042, -0.482417, -0.785373, 0.184348, 0.590936],
        [0.994204, -0.105091, -0.022664, 0.098507, 0.97494, -0.199472, 0.043058, 0.196083, 0.979641],
    ]
    u, _, w = np.linalg.svd(np.reshape(columns, (2, 3, 3)))
    places = [[0.003171, -0.003909, 0.207105], [-0.048631, 0.021987, 0.30842]]
    angles = [[0.575929, -0.247114], [-0.683396, 0.140991]]
    q = np.concatenate([places, (u @ w).reshape(2, 9), angles], axis=-1)
    v = [
        [-0.014935, -0.066919, -0.074097, 0.268389, 0.236288, -0.267496, 2.077178, -4.094196],
        [-0.868227, 0.657439, -1.732341, -0.589722, -6.547169, -1.280758, 3.145852, 1.566218],
    ]
    run = simulate(limp(), (q, np.array(v)), 0.03, 1e-3)
    assert all(outcome.ok for outcome in run.outcomes), run.outcome
    assert solved(run)
    assert min(contact.gaps.min() for contact in run.contacts.values()) > -1e-7


@pytest.mark.thorough
def test_rigid_balls_obey_newtons_law() -> None:
    """With gaps the last ball leaves; touching ones separate by Newton's law of each pair: rigid balls do not cradle."""
    system = ht.System(name="cradle", gravity=(0.0, 0.0, 0.0))
    for k in range(5):
        system.body(f"ball{k}", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    for k in range(4):
        system.contact(
            f"ball{k}", f"ball{k + 1}", ht.Sphere(0.1), against=ht.Sphere(0.1), friction=0.0, restitution=1.0
        )
    model = system.derive()
    for gap, exact in ((1e-3, (0, 0, 0, 0, 1)), (0.0, (-0.6, 0.4, 0.4, 0.4, 0.4))):
        q, v = np.arange(5) * (0.2 + gap), np.zeros(5)
        q[0], v[0] = q[0] - 0.05, 1.0
        run = simulate(model, (q, v), 0.2, 1e-3)
        assert np.allclose(run.v[-1], exact, atol=1e-12)


@pytest.mark.thorough
def test_tumbling_boxes_lose_energy_and_stay_outside() -> None:
    shape = ht.Box((0.2, 0.1, 0.1))
    system = ht.System(name="box")
    system.body("box", joint=ht.Free(), inertia=ht.Inertia.of(shape, density=500.0))
    system.ground(friction=0.5)
    system.contact("box", "ground", shape, restitution=0.3)
    model = system.derive()
    rng, n = np.random.default_rng(0), 64
    q, v = np.tile(model.neutral(), (n, 1)), rng.standard_normal((n, 6)) * [1, 1, 1, 3, 3, 3]
    q[:, 2] = 0.5
    run = simulate(model, (q, v), 3.0, 1e-3, balance=True)
    assert all(outcome.ok for outcome in run.outcomes)
    assert run.contacts["box"].gaps.min() > -1e-7
    energy = run.energy
    assert np.all(energy[-1] < energy[0])
    assert np.max(np.diff(energy, axis=0)) < 1e-6 * energy[0].max()
    assert np.abs(run.v[-1]).max() < 1e-9  # all at rest
    assert run.invariants["energy"].drift < 1e-9 * energy[0].max()


@pytest.mark.thorough
@pytest.mark.parametrize("velocity", ["mixed", "body"])
def test_a_ball_that_bounces_and_skids_rolls_whatever_its_velocities(velocity: str) -> None:
    """Every impulse keeps the angular momentum about the point of contact: it rolls with 5/7 of its first velocity."""
    system = ht.System(name="ball")
    joint = ht.Free(velocity=velocity)  # pyright: ignore[reportArgumentType]
    system.body("ball", joint=joint, inertia=ht.Inertia.of(ht.Sphere(0.05), density=190.0))
    system.ground()
    system.contact("ball", "ground", ht.Sphere(0.05), friction=0.3, restitution=0.8)
    model = system.derive()
    q, v = model.neutral(), np.zeros(6)
    q[2], v[0] = 1.05, 2.0
    run = ht.simulate(model, (q, v), until=5.0, step=1e-3, integrator="moreau")
    R = run.q[-1, 3:].reshape(3, 3).T if velocity == "body" else np.eye(3)
    assert np.allclose(R @ run.v[-1, :3], [10 / 7, 0.0, 0.0], atol=1e-8)


@pytest.mark.parametrize(
    "until", [pytest.param(20.0, marks=pytest.mark.thorough), pytest.param(1000.0, marks=pytest.mark.slow)]
)
def test_a_copter_on_skids_does_not_creep(until: float) -> None:
    """It lands tilted with a part of its weight as thrust, stands, and feels exactly one g; the balance of energy closes with inputs and impacts."""
    system, thrust = ht.System(name="copter"), 0.6 * G
    system.body("hull", joint=ht.Free(), inertia=ht.Inertia(1.0, moment_at_com=(0.01, 0.01, 0.02)))
    system.input("thrust", ht.Thruster("hull"))
    system.ground(friction=0.6)
    skids = [(0.12 * i, 0.1 * j, -0.08) for i in (-1, 1) for j in (-1, 1)]
    system.contact("hull", "ground", ht.Points(skids), restitution=0.3)
    model = system.derive()
    R = np.asarray(so3.rotation_about("y", 0.1))
    q, v = model.neutral(), np.zeros(6)
    q[2], q[3:], v[:3] = 0.4, R.T.reshape(-1), R.T @ [0.5, 0.0, -0.5]
    landed = simulate(model, (q, v), 2.0, 1e-3, inputs=np.array([thrust]), balance=True)
    assert solved(landed)
    assert landed.work is not None
    assert landed.invariants["energy"].relative < 1e-9
    assert np.allclose(landed.contacts["hull"].force[-1], [0.0, 0.0, 0.4 * G], atol=1e-9)
    run = simulate(model, (landed.q[-1], landed.v[-1]), until, 2e-3, inputs=np.array([thrust]), record_every=500)
    assert np.abs(run.q[-1, :3] - run.q[1, :3]).max() < 2e-11  # 1e-9 m in 1,000 s
    upwards = thrust + run.contacts["hull"].force[-1, 2]
    assert abs(upwards / G - 1.0) < 1e-12  # specific force


@pytest.mark.parametrize("stop", [False, True], ids=["floor", "stop"])
def test_a_preloaded_spring_presses_without_work(stop: bool) -> None:
    """At rest nothing moves: the balance of energy has nothing to miss, however stiff the spring is relative to the step."""
    system = ht.System(name="pressed")
    system.body("foot", joint=ht.Prismatic("z"), inertia=ht.Inertia(1.0))
    system.joint_spring("foot", stiffness=1e6, rest=-0.01)
    if stop:
        system.limit("foot", 0.1, 1.0, hard=True)
    else:
        system.ground(friction=0.5)
        system.contact("foot", "ground", ht.Sphere(0.1))
    run = simulate(system.derive(), ([0.1], [0.0]), 1.0, 1e-3)
    assert solved(run), run.outcome
    assert np.all(run.q == 0.1)
    assert run.contact_work is not None
    assert np.abs(run.contact_work[-1]).sum() < 1e-9
    force = run.channels["impulse"][-1] / 1e-3
    assert abs(force[0] / (0.11e6 + G) - 1) < 1e-12


@pytest.mark.thorough
def test_a_robot_with_servos_stands_still() -> None:
    """Round feet neither creep nor roll: after it came to rest it stays within rounding, with all of its weight on the floor."""
    from heavytop_bench.contact import FEET, KD, KP, POSE, solo, stance
    from heavytop_bench.robots import ROBOTS, robots_folder

    folder = robots_folder()
    if folder is None:
        pytest.skip("example-robot-data is not installed")
    model = solo(folder / ROBOTS["solo12"], "rigid")
    servos = ht.Feedback(lambda q, v: -KP * (q[12:] - POSE) - KD * v[6:], ("q", "v"))
    run = simulate(model, (stance(model), np.zeros(model.nv)), 40.0, 1e-3, control=servos, record_every=1000)
    assert solved(run)
    assert np.abs(run.q[-1] - run.q[20]).max() < 2e-11  # 1e-9 in 1,000 s
    weight = sum(run.contacts[foot].force[-1, 2] for foot in FEET)
    assert abs(weight / (model.mass * G) - 1.0) < 1e-12


@pytest.mark.thorough
def test_an_incline_of_any_orientation_at_the_friction_angle() -> None:
    """At 0.999 of the friction angle's slope a box stays, at 1.001 it slides with the exact acceleration."""
    shape, mu, rng = ht.Box((0.2, 0.3, 0.1)), 0.5, np.random.default_rng(11)
    for slope in (0.999, 1.001):
        angle = np.arctan(slope * mu)
        turns = [
            so3.rotation_about(axis, x) for axis, x in zip("zyz", (*rng.uniform(0, 6, 1), angle, 2.0), strict=True)
        ]
        R = np.asarray(turns[0]) @ np.asarray(turns[1]) @ np.asarray(turns[2])
        pose = np.eye(4)
        pose[:3, :3], pose[:3, 3] = R, rng.uniform(-1.0, 1.0, 3)
        system = ht.System(name="incline")
        system.frame("slope", "world", pose)
        system.ground(frame="slope", friction=mu)
        system.body("box", joint=ht.Free(), inertia=ht.Inertia.of(shape, density=500.0))
        system.contact("box", "ground", shape)
        model = system.derive()
        q = model.neutral()
        q[:3], q[3:] = pose[:3, 3] + R @ [0.0, 0.0, 0.05], (R @ np.asarray(so3.rotation_about("z", 1.0))).T.reshape(-1)
        run = simulate(model, (q, np.zeros(6)), 1.0, 1e-3)
        exact = max(0.0, G * (np.sin(angle) - mu * np.cos(angle)))
        assert abs(np.linalg.norm(run.v[-1, :3]) - exact) < 1e-12
        assert np.abs(run.v[-1, 3:]).max() < 1e-12


@pytest.mark.thorough
def test_a_loop_falls_on_the_floor() -> None:
    """A free four-bar linkage bounces and comes to rest with its loop closed."""
    system = ht.System(name="linkage")
    system.ground(friction=0.6)
    system.body("a", joint=ht.Free(), inertia=ht.Inertia(1.0, moment_at_com=(0.02, 0.02, 0.02)))
    link = ht.Inertia(0.4, com=(0.15, 0.0, 0.0), moment_at_com=(1e-3, 4e-3, 4e-3))
    for parent, name, place in (("a", "b", 0.15), ("b", "c", 0.3), ("c", "d", 0.3)):
        system.body(name, parent=parent, joint=ht.Revolute("y"), at=(place, 0.0, 0.0), inertia=link)
    system.loop("d", "a", ht.Revolute("y"), at_a=(0.3, 0.0, 0.0), at_b=(-0.15, 0.0, 0.0))
    system.contact("a", "ground", ht.Points([(-0.15, 0.1, 0.0), (0.15, -0.1, 0.0)], radius=0.02), restitution=0.3)
    for name in "bcd":
        system.contact(name, "ground", ht.Points([(0, 0, 0), (0.3, 0, 0)], radius=0.02), restitution=0.3)
    model = system.derive()
    q = model.neutral()
    q[2], q[3:12] = 0.8, np.asarray(so3.exp(np.array([0.3, 0.4, 0.2]))).T.reshape(-1)
    q[12:] = np.pi / 2
    q, v = model.assemble(q)
    v[:6] = [0.5, 0.2, 0.0, 1.0, 2.0, 0.5]
    run = simulate(model, (q, v), 4.0, 1e-3, balance=True)
    assert solved(run), run.outcome
    assert max(np.abs(model.constraints(x)).max() for x in run.q[::100]) < 1e-12
    assert min(contact.gaps.min() for contact in run.contacts.values()) > -1e-7  # type: ignore[union-attr]
    assert run.invariants["energy"].relative < 1e-9
    assert np.abs(run.v[-1]).max() < 1e-9


def test_a_start_where_the_height_is_not_a_number_is_rejected() -> None:
    system = ht.System(name="ball")
    system.body("ball", joint=ht.Free(), inertia=ht.Inertia.of(ht.Sphere(0.1), density=100.0))
    system.ground(height=lambda x, y: np.log(x), friction=0.3)
    system.contact("ball", "ground", ht.Sphere(0.1))
    model = system.derive()
    q = np.tile(model.neutral(), (2, 1))
    q[:, 0], q[:, 2] = (2.0, -2.0), 2.0
    with pytest.raises(ConfigurationError, match=r"'ball' is not a number .*trajectory.* 1"):
        ht.simulate(model, (q, np.zeros((2, 6))), 0.1, 1e-3, "moreau")


def test_a_body_that_stands_from_the_start_does_not_touch_down() -> None:
    system = ht.System(name="crate")
    system.body("crate", joint=ht.Prismatic("z"), inertia=ht.Inertia(2.0))
    system.ground(friction=0.5)
    system.contact("crate", "ground", ht.Box((0.2, 0.2, 0.2)))
    model = system.derive()
    for height, expected in ((0.1, []), (0.11, [np.sqrt(0.02 / 9.81)])):
        run = ht.simulate(model, ([height], [0.0]), 0.1, 1e-3, "moreau")
        assert run.contacts["crate"].touchdowns == pytest.approx(expected, abs=1e-3)
        assert run.contacts["crate"].liftoffs.size == 0


def test_a_body_pushed_to_the_ground_within_a_step_stops_there() -> None:
    """A contact that seems far away at the start of a step (5e4 m/s^2 close 3 mm in 0.35 ms) is noticed at its end."""
    system = ht.System(name="ram")
    system.body("ram", joint=ht.Prismatic("z"), inertia=ht.Inertia(2.0))
    system.ground(friction=0.0)
    system.contact("ram", "ground", ht.Sphere(0.1))
    system.input("push", ht.JointForce("ram"))
    model = system.derive()
    run = ht.simulate(
        model,
        ([0.103], [0.0]),
        until=0.01,
        step=1e-3,
        integrator="moreau",
        control=ht.Feedback(lambda q: 0.0 * q - 1e5, ("q",)),
    )
    assert run.outcome.ok
    assert np.abs(run.q[1:, 0] - 0.1).max() < 1e-9
    assert run.invariants["energy"].relative < 1e-9


@pytest.mark.parametrize("turn", [0.0, 2.0])
def test_a_foot_that_sticks_while_its_pole_swings_closes_the_balance(turn: float) -> None:
    """Velocities at the end of a step are corrected with the response half way: the work of that is what the energy changes by."""
    system = ht.System(name="pole")
    system.body("pole", joint=ht.Free(velocity="mixed"), inertia=ht.Inertia(2.0, moment_at_com=(0.1, 0.12, 0.02)))
    system.body(
        "arm",
        parent="pole",
        joint=ht.Revolute("y"),
        inertia=ht.Inertia(0.5, com=(0.2, 0.0, 0.1), moment_at_com=(0.01, 0.02, 0.01)),
    )
    system.ground(friction=3.0)
    system.contact("pole", "ground", ht.Points([(0.0, 0.0, -0.4)]))
    model = system.derive()
    q, v = model.neutral(), np.zeros(model.nv)
    q[2] = 0.4
    spin = np.array([0.3, 0.5, turn])  # about the foot
    v[:3], v[3:6], v[6] = np.cross(spin, [0.0, 0.0, 0.4]), spin, -1.0
    run = ht.simulate(model, (q, v), until=0.3, step=1e-3, integrator="moreau")
    assert run.outcome.ok
    assert run.contacts["pole"].closed[1:].all()
    assert run.invariants["energy"].relative < 1e-9


def test_spheres_that_glance_rebound() -> None:
    """A gap that curves away explains no approach: the relative normal velocity is reversed with the coefficient of restitution."""
    system = ht.System(gravity=(0, 0, 0), name="glance")
    system.body("ball", joint=ht.Free("quaternion"), inertia=ht.Inertia.of(ht.Sphere(0.1), density=100.0))
    system.contact("ball", "world", ht.Sphere(0.1), against=ht.Sphere(0.15), friction=0.0, restitution=0.6)
    model = system.derive()
    speeds = np.array([0.5, 1.0, 2.0, 3.0, 5.0])
    q = np.tile(model.neutral(), (5, 1))
    q[:, 2], q[:, 0] = 0.25 + 0.1 * 2e-3, -2e-3 * speeds
    v = np.zeros((5, 6))
    v[:, 2], v[:, 0] = -0.1, speeds
    run = ht.simulate(model, (q, v), 0.02, 1e-3, "moreau")
    first = np.argmax(np.linalg.norm(run.contacts["ball"].force, axis=-1) > 0, axis=0)
    for lane, k in enumerate(first):
        assert k > 0
        n = run.q[k, lane, :3] / np.linalg.norm(run.q[k, lane, :3])
        before, after = v[lane, :3], run.v[-1, lane, :3]
        push = (after - before) / np.linalg.norm(after - before)  # the normal at the impact
        assert push @ n > 0.99
        assert -(push @ after) / (push @ before) == pytest.approx(0.6, abs=1e-6)


def test_a_body_that_leaves_the_domain_of_its_height_ends_unsolved() -> None:
    system = ht.System(name="dome")
    system.body("ball", joint=ht.Free("quaternion"), inertia=ht.Inertia.of(ht.Sphere(0.1), density=100.0))
    system.ground(height=lambda x, y: np.sqrt(1 - x * x - y * y), friction=0.1)
    system.contact("ball", "ground", ht.Sphere(0.1))
    model = system.derive()
    q = model.neutral()
    q[2] = 1.1
    run = ht.simulate(model, (q, np.r_[0.5, 0, 0, 0, 0, 0]), until=3.0, step=1e-3, integrator="moreau")
    assert run.outcome.ending.name == "unsolved"
    assert "domain" in run.outcome.message
