"""Problems with exact solutions by the solver that is not the usual one for them: rigid ones with compliant contact, a bowl with rigid contact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heavytop as ht
from heavytop.geometry import so3

G = 9.81
pytestmark = pytest.mark.thorough


@pytest.mark.parametrize("mu", [0.3, 0.05])
def test_a_cylinder_on_an_incline(mu: float) -> None:
    """2/3 g sin(angle) if mu >= tan(angle)/3, else g (sin - mu cos); where it rolls, it creeps at a constant speed."""
    angle, radius, k = 0.3, 0.1, 1e6
    system = ht.System(gravity=(G * np.sin(angle), 0.0, -G * np.cos(angle)), name="cylinder")
    moment = (0.5 * radius**2, 0.5 * radius**2, 0.5 * radius**2)
    system.body("body", joint=ht.Free(velocity="mixed"), inertia=ht.Inertia(1.0, moment_at_com=moment))
    system.ground(friction=mu)
    points = [(0.0, y, 0.0) for y in (-0.1, 0.1)]
    system.contact("body", "ground", ht.Points(points, radius=radius), stiffness=k, exponent=1.0, slip_speed=1e-3)
    model = system.derive()
    q = model.neutral()
    q[2] = radius - 0.5 * G * np.cos(angle) / k
    run = ht.simulate(model, (q, np.zeros(6)), 0.5, 5e-5, "rkmk4", record_every=1000)
    exact = 2 / 3 * G * np.sin(angle) if mu >= np.tan(angle) / 3 else G * (np.sin(angle) - mu * np.cos(angle))
    assert run.outcome.ok
    late = run.t > 0.24
    assert np.allclose(np.polyfit(run.t[late], run.v[late, 0], 1)[0], exact, rtol=1e-7)


def test_a_dry_oscillator_with_bristles() -> None:
    """Den Hartog: k = 100, F = 7, from 1 m: rest at -0.02 m. Friction of bristles that slide is F to 5e-4, and seven half periods add that up."""
    system = ht.System(gravity=(0.0, 0.0, 0.0), name="oscillator")
    system.body("mass", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.joint_spring("mass", stiffness=100.0)
    system.joint_friction("mass", coulomb=7.0, bristles=1e-5)
    model = system.derive()
    q, v = np.zeros(model.nq), np.zeros(model.nv)
    q[0] = 1.0
    run = ht.simulate(model, (q, v), 3.0, 1e-4, "rkmk4", record_every=10)
    assert run.outcome.ok
    assert abs(run.q[-1, 0] + 0.02) < 6e-4
    assert abs(run.v[-1, 0]) < 1e-12


def test_an_oscillator_at_a_compliant_stop() -> None:
    """Five impacts with a linear spring as the stop: the rigid motion, later by five half periods of the stop."""
    k = 1e8
    system = ht.System(gravity=(0.0, 0.0, 0.0), name="oscillator")
    system.body("mass", joint=ht.Prismatic("z"), inertia=ht.Inertia(1.0))
    system.joint_spring("mass", stiffness=100.0)
    system.ground(friction=0.0)
    point = ht.Points([(0.0, 0.0, 0.0)])
    system.contact("mass", "ground", point, stiffness=k, exponent=1.0, hysteresis=0.0)
    late = 5 * np.pi / np.sqrt(100.0 + k)
    run = ht.simulate(system.derive(), ([1.0], [0.0]), 0.525 * np.pi + late, 2e-6, "rkmk4", record_every=1000)
    assert run.outcome.ok
    assert abs(run.q[-1, 0] - 0.707107) < 1e-5


def test_a_ball_leaves_a_compliant_ring() -> None:
    """The ball on a rope, as a point in a ring: with v0^2 = 3.5 g l it leaves it at 120 degrees and flies for 0.78207 s."""
    system = ht.System(gravity=(0.0, -G, 0.0), name="ring")
    system.body("ball", joint=ht.Planar(), inertia=ht.Inertia(1.0, moment_at_com=(1, 1, 1)))
    options: dict[str, Any] = {"friction": 0.0, "stiffness": 1e6, "exponent": 1.0, "hysteresis": 0.0}
    system.contact("ball", "world", ht.Sphere(0.01), against=ht.Bore(1.01), **options)
    deep = 4.5 * G / 1e6  # centripetal force and weight
    start = ([0.0, -1.0 - deep, 0.0], [np.sqrt(3.5 * G), 0.0, 0.0])
    run = ht.simulate(system.derive(), start, 1.9, 2e-5, "rkmk4", record_every=5)
    force = np.linalg.norm(run.contacts["ball"].force, axis=-1)
    off = np.flatnonzero(force > 0)
    leaving = off[np.argmax(np.diff(off))]
    back = off[np.argmax(np.diff(off)) + 1]
    angle = np.arctan2(run.q[leaving, 0], -run.q[leaving, 1]) % (2 * np.pi)
    assert run.outcome.ok
    assert abs(angle - 2 * np.pi / 3) < 3e-3
    assert abs(run.t[back] - run.t[leaving] - 0.78207) < 1e-3


@pytest.mark.parametrize("mu", [0.5, 1.0, 1.3])
def test_painleves_rod_slides_on_a_compliant_floor(mu: float) -> None:
    """N = m g / (1 + 3 cos (cos - mu sin)) presses the tip in so far that it stays there."""
    angle, k = np.pi / 3, 1e7
    system = ht.System(gravity=(0.0, -G, 0.0), name="rod")
    system.body("rod", joint=ht.Planar(), inertia=ht.Inertia(1.0, moment_at_com=(1 / 3, 1 / 3, 1 / 3)))
    floor = np.eye(4)
    floor[:3, :3] = [[1, 0, 0], [0, 0, 1], [0, -1, 0]]
    system.frame("floor", "world", floor)
    options: dict[str, Any] = {"friction": mu, "stiffness": k, "exponent": 1.0, "hysteresis": 0.0}
    system.contact("rod", "floor", ht.Points([(-1.0, 0.0, 0.0)]), **options)
    exact = G / (1 + 3 * np.cos(angle) * (np.cos(angle) - mu * np.sin(angle)))
    start = ([0.0, np.sin(angle) - exact / k, angle], [-1.0, 0.0, 0.0])
    model = system.derive()
    run = ht.simulate(model, start, 1e-3, 1e-5, "rkmk4")
    assert run.outcome.ok
    assert np.allclose(run.contacts["rod"].force[:20, 1], exact, rtol=2e-2)


@pytest.mark.parametrize("force", [8.0, 5.0])
def test_a_compliant_gripper(force: float) -> None:
    """Holds iff 2 mu F >= m g, up to the creep of the friction law, x (3 - x^2)/2 = m g/(2 mu F); the box does not turn."""
    system = ht.System(name="gripper")
    system.body("box", joint=ht.Free(), inertia=ht.Inertia(0.5, moment_at_com=(8e-4, 8e-4, 8e-4)))
    k = 1e5
    for side, sign in (("left", 1.0), ("right", -1.0)):
        system.body(side, joint=ht.Prismatic("x"), inertia=ht.Inertia(0.1))
        pad = np.eye(4)
        pad[:3, :3] = so3.rotation_about("y", sign * np.pi / 2)
        system.frame(f"{side} pad", side, pad)
        options: dict[str, Any] = {"friction": 0.4, "stiffness": k, "exponent": 1.0, "slip_speed": 1e-3}
        system.contact("box", f"{side} pad", ht.Box((0.1, 0.1, 0.1)), **options)
        system.input(side, ht.JointForce(side))
    model = system.derive()
    q = model.neutral()
    q[-2:] = -0.05 + force / (4 * k), 0.05 - force / (4 * k)
    run = ht.simulate(model, (q, np.zeros(model.nv)), 0.5, 2e-4, "ros2", inputs=np.array([force, -force]))
    assert run.outcome.ok
    assert np.abs(run.v[-1, 3:6]).max() < 1e-9
    if force == 8.0:
        x = -run.v[-1, 2] / 1e-3
        assert abs(0.5 * x * (3 - x * x) - 0.5 * G / (0.8 * force)) < 1e-9
    else:
        late = run.t > 0.25
        assert abs(np.polyfit(run.t[late], run.v[late, 2], 1)[0] - (0.8 * force / 0.5 - G)) < 1e-4


def test_a_rigid_ball_in_a_bowl() -> None:
    """Small rolling oscillations in a bowl of radius 1 m: omega^2 = 5 g / (7 (B - R)), without loss."""
    radius = 0.05
    system = ht.System(name="bowl")
    system.body("ball", joint=ht.Free(), inertia=ht.Inertia(1.0, moment_at_com=(0.4 * radius**2,) * 3))
    system.ground(height=lambda x, y: 1.0 - np.sqrt(1.0 - x * x - y * y), friction=0.8)
    system.contact("ball", "ground", ht.Sphere(radius))
    model = system.derive()
    q, angle = model.neutral(), 0.01
    q[:3] = (1.0 - radius) * np.sin(angle), 0.0, 1.0 - (1.0 - radius) * np.cos(angle)
    run = ht.simulate(model, (q, np.zeros(6)), 4.0, 1e-3, "moreau")
    x = run.q[:, 0]
    k = np.flatnonzero(np.sign(x[:-1]) != np.sign(x[1:]))
    times = run.t[k] - x[k] * (run.t[k + 1] - run.t[k]) / (x[k + 1] - x[k])
    assert run.outcome.ok
    assert abs(np.mean(np.diff(times)) * np.sqrt(5 * G / (7 * (1.0 - radius))) / np.pi - 1) < 3e-5
    assert abs(np.abs(x[run.t > 2.0]).max() / x[0] - 1) < 1e-3
