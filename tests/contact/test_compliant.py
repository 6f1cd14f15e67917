"""Compliant contact against exact solutions: restitution, sliding to rolling, billiard, creep, Euler's disc, tippe top, Hertz chain, bowl."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import heavytop as ht
from heavytop.errors import ModelError
from heavytop.geometry import so3
from heavytop.simulate import Ending
from heavytop.system.forces.contact import hysteresis_of

G, R = 9.81, 0.05


def ball(gravity: tuple[float, float, float] = (0, 0, -G), **contact: Any) -> ht.System:
    system = ht.System(name="ball", gravity=gravity)
    system.body("ball", joint=ht.Free(), inertia=ht.Inertia(1.0, moment_at_com=(0.4 * R * R,) * 3))
    system.ground(friction=0.3)
    system.contact("ball", "ground", ht.Sphere(R), **{"stiffness": 1e6, **contact})
    return system


def resting(model: ht.Model, depth: float) -> np.ndarray:
    q = model.neutral()
    q[2] = R - depth
    return q


# --- normal force ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("e", "c"), [(0.882190, 0.2), (0.593624, 1.0), (0.196980, 5.0)])
def test_hysteresis_of_a_restitution(e: float, c: float) -> None:
    assert hysteresis_of(e, 1.0) == pytest.approx(c, rel=2e-6)
    assert hysteresis_of(e, 2.0) == pytest.approx(c / 2, rel=2e-6)


@pytest.mark.parametrize("e", [1.0, 0.99999, 0.5, 0.03, 0.001])
def test_hysteresis_satisfies_its_equation(e: float) -> None:
    x = hysteresis_of(e, 1.0)
    assert (1 + x) * np.exp(-x * (1 + e)) == pytest.approx(1 - e * x, abs=1e-12)


@pytest.mark.parametrize(
    "exponent", [1.5, pytest.param(1.0, marks=pytest.mark.thorough), pytest.param(2.2, marks=pytest.mark.thorough)]
)
def test_restitution_at_the_given_speed(exponent: float) -> None:
    model = ball(gravity=(0, 0, 0), restitution=(0.6, 2.0), exponent=exponent, stiffness=1e5).derive()
    run = ht.simulate(model, (resting(model, 0.0), [0, 0, -2.0, 0, 0, 0]), 0.1, 2e-5)
    assert run.outcome.ok
    assert run.work is not None
    assert run.v[-1, 2] == pytest.approx(1.2, rel=1e-6)
    assert run.work[-1, 1] == pytest.approx(0.5 * (4.0 - 1.44), rel=1e-6)


def test_rest_has_the_depth_of_the_weight_and_its_energy() -> None:
    model = ball(restitution=0.3).derive()
    depth = (G / 1e6) ** (2 / 3)
    q = resting(model, depth)
    assert np.max(np.abs(model.acceleration(q, np.zeros(6)))) < 1e-9
    assert float(model.potential_energy(q)) == pytest.approx(G * q[2] + 0.4 * 1e6 * depth**2.5, rel=1e-12)
    found = ht.control.equilibrium(model, resting(model, 0.5 * depth))
    assert found.q[2] == pytest.approx(q[2], abs=1e-9)
    modes = np.linalg.eigvals(model.linearize(q, np.zeros(6))[0])
    assert np.max(np.abs(modes[modes.imag > 1.0])) == pytest.approx(np.sqrt(1.5 * G / depth), rel=1e-6)


# --- friction -------------------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize(("method", "step", "error"), [("rkmk4", 5e-5, 2e-8), ("ros2", 2.5e-4, 3e-6)])
def test_sliding_becomes_rolling(method: str, step: float, error: float) -> None:
    """5/7 of the speed after 2 v0/(7 mu g): the same path as rigid Coulomb friction up to the slip speed."""
    model = ball(slip_speed=1e-3).derive()
    start, v0, until = resting(model, (G / 1e6) ** (2 / 3)), 1.0, 0.3
    run = ht.simulate(model, (start, [v0, 0, 0, 0, 0, 0]), until, step, method, record_every=10**6)
    t = 2 * v0 / (7 * 0.3 * G)
    x = v0 * t - 0.15 * G * t * t + 5 / 7 * v0 * (until - t)
    assert run.outcome.ok
    assert run.work is not None
    assert run.q[-1, 0] == pytest.approx(x, abs=error)
    assert run.work[-1, 1] == pytest.approx(0.5 * v0**2 * 2 / 7, rel=1e-4)


def test_billiard() -> None:
    """A ball with side spin moves on a parabola and then straight on with v0 - 2/7 u0."""
    model = ball(slip_speed=1e-3, friction=0.2).derive()
    v0, w0 = np.array([1.0, 0.5, 0.0]), np.array([10.0, -4.0, 0.0])
    u0 = v0 + np.cross(w0, [0, 0, -R])
    t = float(2 * np.linalg.norm(u0) / (7 * 0.2 * G))
    end = v0 * t - 0.1 * G * u0 / np.linalg.norm(u0) * t * t + (v0 - 2 / 7 * u0) * 0.1
    start = resting(model, (G / 1e6) ** (2 / 3)), np.concatenate([v0, w0])
    run = ht.simulate(model, start, t + 0.1, 5e-5, record_every=10**6)
    np.testing.assert_allclose(run.q[-1, :2], end[:2], atol=2e-8)


@pytest.mark.thorough
@pytest.mark.parametrize("share", [0.9, 0.999])
def test_a_box_below_the_friction_angle_creeps_as_the_law_says(share: float) -> None:
    """x (3 - x^2)/2 = share at the creep speed x s; ros2 at 2 ms, where explicit steps need 1e-5 s."""
    angle = np.arctan(0.5 * share)
    system = ht.System(name="box", gravity=(G * np.sin(angle), 0, -G * np.cos(angle)))
    system.body("box", joint=ht.Free(), inertia=ht.Inertia(1.0, moment_at_com=(2e-3, 2e-3, 3e-3)))
    system.ground()
    options: dict[str, Any] = {"friction": 0.5, "stiffness": 1e5, "restitution": (0.05, 0.1), "slip_speed": 1e-4}
    system.contact("box", "ground", ht.Box((0.2, 0.2, 0.05)), **options)
    model = system.derive()
    q = model.neutral()
    q[2] = 0.025 - (G * np.cos(angle) / 4e5) ** (2 / 3)
    run = ht.simulate(model, (q, np.zeros(6)), 2.0, 2e-3, "ros2")
    assert run.outcome.ok
    x = min(root.real for root in np.roots([-0.5, 0, 1.5, -share]) if root.real > 0)
    assert run.v[-1, 0] == pytest.approx(1e-4 * x, rel=1e-2)


@pytest.mark.thorough
def test_spinning_and_rolling_resistance() -> None:
    """Moments rolling N and spinning N: a ball rolls to a stop after v^2/(2 a), a = 5/7 g rolling/R, and spins to a stop after I w/(spinning N)."""
    model = ball(rolling=1e-3, spinning=2e-3, turn_speed=1e-2).derive()
    start = resting(model, (G / 1e6) ** (2 / 3))
    run = ht.simulate(model, (start, [0.2, 0, 0, 0, 0.2 / R, 0]), 3.0, 1e-3, "ros2", record_every=100)
    a = 5 / 7 * G * 1e-3 / R
    assert run.outcome.ok
    assert run.q[-1, 0] == pytest.approx(0.2**2 / (2 * a), rel=2e-2)
    assert np.max(np.abs(run.v[-1])) < 1e-3
    spun = ht.simulate(model, (start, [0, 0, 0, 0, 0, 10.0]), 1.0, 1e-3, "ros2")
    t = 0.4 * R * R * 10.0 / (2e-3 * G)
    k = round(0.8 * t / 1e-3)
    assert spun.v[k, 5] == pytest.approx(10.0 * (1 - spun.t[k] / t), rel=1e-3)


def test_sliding_and_spinning_share_the_friction_of_a_patch() -> None:
    """Coulomb and Contensou: a spinning disc slides nearly freely, with 3 pi v/(8 r w) of the friction; it spins with 3 pi/16 mu N r alone."""
    system = ball(patch=0.01, friction=0.3, slip_speed=1e-4)
    model = system.derive()
    q = resting(model, (G / 1e6) ** (2 / 3))
    spinning = model.acceleration(q, np.array([0, 0, 0, 0, 0, 50.0]))
    assert spinning[5] == pytest.approx(-3 * np.pi / 16 * 0.3 * G * 0.01 / (0.4 * R * R), rel=1e-9)
    both = model.acceleration(q, np.array([1e-3, 0, 0, 0, 0, 50.0]))
    share = 1e-3 / (1e-3 + 8 / (3 * np.pi) * 0.01 * 50.0)
    assert both[0] == pytest.approx(-0.3 * G * share, rel=1e-6)


# --- shapes and surfaces ------------------------------------------------------------------------------------------------------------


def bodies() -> list[tuple[str, ht.System]]:
    shapes = {
        "sphere": ht.Sphere(0.1),
        "capsule": ht.Capsule(0.05, 0.2),
        "ellipsoid": ht.Ellipsoid((0.1, 0.15, 0.08)),
        "box": ht.Box((0.1, 0.2, 0.15)),
        "cylinder": ht.Cylinder(0.1, 0.1),
        "points": ht.Points([(0.1, 0, 0), (-0.1, 0.05, 0), (0, -0.1, 0.05)], radius=0.02),
    }
    made = []
    for name, shape in shapes.items():
        for surface in ("plane", "height", "sphere"):
            if surface == "sphere" and name in ("ellipsoid", "cylinder"):
                continue
            system = ht.System(name=f"{name} on {surface}")
            system.body(
                "body", joint=ht.Free(), inertia=ht.Inertia(1.0, com=(0.01, 0, 0.02), moment_at_com=(0.01, 0.02, 0.015))
            )
            options: dict[str, Any] = {
                "friction": 0.4,
                "stiffness": 1e4,
                "rolling": 1e-3,
                "spinning": 1e-3,
                "at": (0.02, 0.0, -0.01),
            }
            if surface == "sphere":
                system.frame("rock", "world", (0.0, 0.0, -0.5))
                system.contact("body", "rock", shape, against=ht.Sphere(0.5), **options)
            else:
                system.ground(
                    height=None if surface == "plane" else (lambda x, y: 0.05 * np.sin(3 * x) * np.cos(2 * y))
                )
                system.contact("body", "ground", shape, **options)
            made.append((system.name, system))
    return made


@pytest.mark.parametrize(
    "case", [pytest.param(c, marks=[] if c in (0, 9) else [pytest.mark.thorough]) for c in range(16)]
)
def test_power_balance_and_passivity_of_every_pair(case: int) -> None:
    """Along random motions in contact: energy and dissipated power balance, friction never adds energy, gradients agree with differences."""
    name, system = bodies()[case]
    model = system.derive(native=False)
    rng = np.random.default_rng(case)
    touched = 0
    for _ in range(12):
        q = model.coordinates.random(rng)
        q[:2], q[2] = rng.uniform(-0.2, 0.2, 2), rng.uniform(0.0, 0.1)
        v = rng.standard_normal(6)
        a = model.acceleration(q, v)
        # d/dt (T + V) = -P along the motion, by central differences
        rates = []
        for h in (1e-6, -1e-6):
            moved = model.coordinates.retract(q, h * v + 0.5 * h * h * a)
            rates.append(float(model.energy(moved, v + h * a)))
        lost = float(model.power(q, v).dissipated)
        assert (rates[0] - rates[1]) / 2e-6 == pytest.approx(-lost, rel=1e-4, abs=1e-3)
        assert lost >= 0.0
        touched += lost > 1e-3
    assert touched >= 2, name


def test_the_secant_of_friction_gives_friction() -> None:
    """secant(x, w) w = resistance for motions without closing speed, and it is symmetric and positive semidefinite."""
    system = ball(rolling=1e-3, spinning=1e-3, patch=0.01, hysteresis=0.0)
    (element,) = system.describe().elements
    pose = np.eye(4)
    pose[:3, :3], pose[2, 3] = so3.exp(np.array([0.3, -0.2, 0.5])), R - 1e-3
    for twist in np.random.default_rng(2).standard_normal((5, 6)) * [[1e-2], [1.0], [1.0], [10.0], [1e-3]]:
        S = element.secant(pose, twist)
        np.testing.assert_allclose(S @ twist, element.resistance(pose, twist), rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(S, S.T, atol=1e-12 * np.max(np.abs(S)))
        assert np.min(np.linalg.eigvalsh(S)) > -1e-9 * np.max(np.abs(S))


@pytest.mark.thorough
def test_a_chain_of_balls() -> None:
    """Five balls with Hertz contact without losses: velocities of Newton's cradle by an independent integration to 1e-10."""
    system, k = ht.System(name="cradle", gravity=(0, 0, 0)), 1e6
    for i in range(5):
        at = (2 * R * i, 0, 0)
        system.body(f"ball {i}", joint=ht.Prismatic("x"), at=at, inertia=ht.Inertia(0.1))
        if i:
            options: dict[str, Any] = {"friction": 0.0, "stiffness": k, "hysteresis": 0.0}
            system.contact(f"ball {i}", f"ball {i - 1}", ht.Sphere(R), against=ht.Sphere(R), **options)
    model = system.derive()

    def motion(t: float, x: np.ndarray) -> np.ndarray:
        push = k * np.maximum(x[:4] - x[1:5], 0.0) ** 1.5
        return np.concatenate([x[5:], (np.append(0.0, push) - np.append(push, 0.0)) / 0.1])

    v0 = np.array([1.0, 0, 0, 0, 0])
    exact = solve_ivp(motion, (0, 0.02), np.concatenate([np.zeros(5), v0]), "DOP853", rtol=1e-12, atol=1e-14).y[5:, -1]
    run = ht.simulate(model, (np.zeros(5), v0), 0.02, 1e-5, record_every=10**6)
    np.testing.assert_allclose(run.v[-1], exact, atol=1e-7)
    np.testing.assert_allclose(exact, [-0.071085, -0.030274, -0.014464, 0.127045, 0.988777], atol=2e-6)


@pytest.mark.thorough
def test_a_ball_in_a_bowl() -> None:
    """Small rolling oscillations in a bowl of radius B: omega^2 = 5 g / (7 (B - R))."""
    system = ht.System(name="bowl")
    system.body("ball", joint=ht.Free(), inertia=ht.Inertia(1.0, moment_at_com=(0.4 * R * R,) * 3))
    system.ground(height=lambda x, y: 1.0 - np.sqrt(1.0 - x * x - y * y), friction=0.8)
    system.contact("ball", "ground", ht.Sphere(R), stiffness=1e6, slip_speed=1e-3)
    model = system.derive()
    q = resting(model, (G / 1e6) ** (2 / 3))
    q[0] = 0.02
    q[2] += 1.0 - np.sqrt(1.0 - 0.02**2) + 0.5 * 0.02**2 / 0.95 - 0.5 * 0.02**2
    omega = np.sqrt(5 * G / (7 * 0.95))
    event = ht.Event(lambda t, q, v: q[0], terminal=False)
    run = ht.simulate(model, (q, np.zeros(6)), 3.0, 5e-4, "ros2", events=event)
    times = [e.time for e in run.events]
    assert np.mean(np.diff(times)) == pytest.approx(np.pi / omega, rel=1e-3)


def tippe_top(slip_speed: float, **options: Any) -> tuple[ht.Model, tuple[np.ndarray, np.ndarray], float]:
    """A ball of 20 mm whose mass centre is 6 mm below its middle, spun at 155 rad/s about a nearly vertical axis."""
    r, offset, mass = 0.02, 0.006, 0.02
    system = ht.System(name="tippe top")
    moment = mass * r * r * np.array([131 / 350, 131 / 350, 2 / 5])
    system.body("top", joint=ht.Free(), inertia=ht.Inertia(mass, com=(0, 0, -offset), moment_at_com=moment))
    system.ground(friction=0.3)
    system.contact("top", "ground", ht.Sphere(r), stiffness=1e5, slip_speed=slip_speed, **options)
    model = system.derive()
    q, rotation = model.neutral(), so3.exp(np.array([0.1, 0.0, 0.0]))
    q[2], q[3:12] = r - (mass * G / 1e5) ** (2 / 3), rotation.T.reshape(-1)
    return model, (q, np.array([0, 0, 0, 0, 0, 155.0])), offset


@pytest.mark.thorough
def test_jellett() -> None:
    """Angular momentum about the mass centre along the arm to the contact point is conserved by any friction at the point of a sphere."""
    model, start, offset = tippe_top(0.01)
    run = ht.simulate(model, start, 0.2, 1e-4, record_every=100)
    assert run.outcome.ok
    values = []
    for q, v in zip(run.q, run.v, strict=True):
        rotation = q[3:12].reshape(3, 3).T
        spin = rotation @ (0.02 * 0.02**2 * np.array([131 / 350, 131 / 350, 2 / 5]) * v[3:])
        arm = rotation @ np.array([0, 0, offset]) - np.array([0, 0, 0.02])
        values.append(spin @ arm)
    assert np.ptp(values) / abs(values[0]) < 1e-8


@pytest.mark.thorough
def test_steady_motion_of_a_disc() -> None:
    """Omega^2 sin(alpha) = 4 g/a: the centre of a thin disc rests while its point of contact runs around (Moffatt 2000)."""
    radius, tilt, mass = 0.04, 0.5, 0.1
    system = ht.System(name="disc")
    moment = mass * radius**2 * np.array([0.25, 0.25, 0.5])
    system.body("disc", joint=ht.Free(), inertia=ht.Inertia(mass, moment_at_com=moment))
    system.ground(friction=0.5)
    system.contact("disc", "ground", ht.Rim(radius), stiffness=1e6)
    model = system.derive()
    q, rotation = model.neutral(), np.array(so3.rotation_about("y", tilt))
    q[2], q[3:12] = radius * np.sin(tilt) - (mass * G / 1e6) ** (2 / 3), rotation.T.reshape(-1)
    spin = np.sqrt(4 * G / radius * np.sin(tilt))  # about the diameter through the point of contact
    run = ht.simulate(model, (q, [0, 0, 0, spin, 0, 0]), 0.5, 2e-5, record_every=100)
    assert np.ptp(run.q[:, 2]) < 1e-12
    assert np.max(np.abs(run.v[:, :3])) < 1e-9


# --- runs and tools -----------------------------------------------------------------------------------------------------------------


@cache
def solo() -> ht.Model:
    """Four legs of two hinges under a hull."""
    system = ht.System(name="quadruped")
    system.body("hull", joint=ht.Free(), inertia=ht.Inertia(2.0, moment_at_com=(0.02, 0.03, 0.04)))
    system.ground(friction=0.8)
    for i, (x, y) in enumerate([(0.2, 0.1), (0.2, -0.1), (-0.2, 0.1), (-0.2, -0.1)]):
        leg = ht.Inertia(0.1, com=(0, 0, -0.1), moment_at_com=(4e-4, 4e-4, 2e-5))
        system.body(f"thigh {i}", parent="hull", at=(x, y, 0), joint=ht.Revolute("y"), inertia=leg)
        system.body(f"shank {i}", parent=f"thigh {i}", at=(0, 0, -0.2), joint=ht.Revolute("y"), inertia=leg)
        options: dict[str, Any] = {"stiffness": 1e5, "slip_speed": 1e-3, "restitution": (0.1, 0.5)}
        system.contact(f"shank {i}", "ground", ht.Sphere(0.016), at=(0, 0, -0.2), **options)
        system.joint_spring(f"thigh {i}", stiffness=30.0, rest=0.6)
        system.joint_spring(f"shank {i}", stiffness=30.0, rest=-1.2)
        system.joint_damper(f"thigh {i}", damping=0.5)
        system.joint_damper(f"shank {i}", damping=0.5)
    return system.derive()


@pytest.mark.thorough
def test_a_quadruped_lands_and_stands() -> None:
    """Dropped from 5 cm: the feet carry the weight, the balance closes, and the end is the same at steps of 0.2 and 0.1 ms."""
    model = solo()
    q = model.neutral()
    q[12:] = [0.6, -1.2] * 4
    q[2] = 0.4 * np.cos(0.6) + 0.016 + 0.05
    ends = []
    for step in (2e-4, 1e-4):
        run = ht.simulate(model, (q, np.zeros(model.nv)), 2.0, step, "ros2", record_every=50)
        assert run.outcome.ok, run.outcome
        assert run.invariants["energy"].relative < 1e-3
        ends.append(run.q[-1])
    np.testing.assert_allclose(ends[0], ends[1], atol=5e-4)
    forces = model.contact_forces(run.q[-1], run.v[-1])
    assert sum(contact.force[2] for contact in forces.values()) == pytest.approx(model.mass * G, rel=1e-3)


@pytest.mark.thorough
def test_exported_c(tmp_path: Path) -> None:
    model = ball(rolling=1e-3).derive()
    model.export_c(tmp_path, ["acceleration"])
    done = subprocess.run(["make", "-C", str(tmp_path), "test"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_beyond_the_step_limit_no_run_is_finished_and_wrong() -> None:
    model = ball(slip_speed=1e-4, friction=1.0).derive()
    run = ht.simulate(model, (resting(model, -0.1), [1.0, 0, 0, 0, 0, 0]), 1.0, 2e-2)
    assert run.outcome.ending is not Ending.finished


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"restitution": 0.0}, "above 0"),
        ({"restitution": (0.5, 1.0), "hysteresis": 1.0}, "not both"),
        ({"stiffness": -1.0}, "stiffness"),
        ({"exponent": 0.5}, "exponent"),
        ({"slip_speed": 0.0}, "slip_speed"),
        ({"friction": -0.1}, "friction"),
        ({"stiffness": None, "rolling": 0.1}, "rolling= belongs to compliant"),
        ({"stiffness": None, "restitution": (0.5, 1.0)}, "belongs to compliant"),
    ],
)
def test_plausible_mistakes(options: dict, words: str) -> None:
    with pytest.raises(ModelError, match=words):
        ball(**options)


@pytest.mark.thorough
def test_contacts_of_a_run() -> None:
    """Forces, gaps and points of the record: a bouncing ball touches down and lifts off, at rest it is carried."""
    model = ball(restitution=(0.5, 1.0), stiffness=1e5).derive()
    run = ht.simulate(model, (resting(model, -0.1), [0.2, 0, 0, 0, 0, 0]), 1.0, 1e-4)
    contact = run.contacts["ball"]
    assert len(contact.touchdowns) >= 2
    assert contact.touchdowns[0] == pytest.approx(np.sqrt(0.2 / G), abs=2e-4)
    assert contact.force.shape == (len(run.t), 3)
    pressed = contact.force[contact.closed]
    assert np.all(pressed[:, 2] >= 0.0)
    assert np.all(np.hypot(pressed[:, 0], pressed[:, 1]) <= 0.3 * pressed[:, 2] * (1 + 1e-9))
    # the impulse of all forces is the change of momentum
    impulse = np.sum(0.5 * (contact.force[1:] + contact.force[:-1]), axis=0) * 1e-4
    momentum = [row[:3] @ q[3:12].reshape(3, 3) for q, row in ((run.q[0], run.v[0]), (run.q[-1], run.v[-1]))]
    np.testing.assert_allclose(impulse - np.array([0, 0, G]), momentum[1] - momentum[0], atol=2e-3)
