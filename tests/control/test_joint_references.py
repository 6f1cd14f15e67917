"""References of joints: limits are kept, motions are fastest, paths in space are followed, laws follow them."""

from __future__ import annotations

import numpy as np
import pytest

import heavytop as ht
from heavytop import control
from heavytop.errors import ControlError, UnknownNameError
from heavytop.geometry import se3, so3

LIMITS = control.MotionLimits(
    velocity={"a": 2.0, "b": 1.0, "c": 0.5}, acceleration=6.0, jerk={"a": 40.0, "b": 30.0, "c": 20.0}
)


def robot(ranges: bool = True) -> ht.Model:
    system = ht.System(name="robot")
    inertia = ht.Inertia(1.0, com=(0.2, 0, 0), moment_at_com=(0.01, 0.02, 0.02))
    system.body("a", joint=ht.Revolute("z", limits=(-3, 3)), inertia=inertia)
    system.body("b", parent="a", at=(0, 0, 0.5), joint=ht.Revolute("y", limits=(-2, 2)), inertia=inertia)
    system.body("c", parent="b", at=(0.5, 0, 0), joint=ht.Prismatic("x", limits=(0, 0.6)), inertia=inertia)
    system.frame("tool", "c", at=(0.1, 0, 0))
    if not ranges:
        system.limits.clear()
    for name in "abc":
        system.input(f"motor_{name}", ht.JointForce(name))
    return system.derive()


ROBOT = robot()
POINTS = np.array([[0.0, 0.0, 0.1], [1.5, -0.6, 0.4], [1.2, 0.8, 0.2], [-0.5, 0.1, 0.5]])


def peaks(reference: control.Reference) -> list[np.ndarray]:
    """Largest velocity, acceleration and jerk of each joint from differences of samples inside smooth pieces."""
    edges = np.array([0.0, *reference.breaks, reference.duration])
    shares = np.linspace(1e-6, 1 - 1e-6, 41)
    t = (edges[:-1, None] + np.diff(edges)[:, None] * shares).ravel()
    _, v, a = reference(t)
    h = 1e-7 * np.diff(edges).min()
    jerk = (reference(t + h)[2] - reference(t - h)[2]) / (2 * h)
    inner = np.abs(np.subtract.outer(t, edges)).min(axis=1) > 2 * h
    return [np.abs(v).max(axis=0), np.abs(a).max(axis=0), np.abs(jerk[inner]).max(axis=0)]


@pytest.mark.parametrize("method", ["fastest", "smooth"])
def test_limits_are_kept_and_reached(method) -> None:
    reference = control.joint_reference(ROBOT, POINTS, LIMITS, method=method)
    v, a, j = peaks(reference)
    bounds = np.array([[2.0, 1.0, 0.5], [6.0, 6.0, 6.0], [40.0, 30.0, 20.0]])
    assert np.all(v <= bounds[0] * (1 + 1e-9))
    assert np.all(a <= bounds[1] * (1 + 1e-9))
    assert np.all(j <= bounds[2] * (1 + 1e-4))  # by differences
    assert np.max(np.array([v, a, j]) / bounds) > 0.99
    for time, point in zip(reference.times, POINTS, strict=True):
        np.testing.assert_allclose(reference(time)[0], point, atol=1e-9)
    # velocity and acceleration are the derivatives of the position
    t = np.linspace(0.01, reference.duration - 0.01, 301)
    h = 1e-5
    q0, q1 = reference(t - h)[0], reference(t + h)[0]
    np.testing.assert_allclose((q1 - q0) / (2 * h), reference(t)[1], atol=1e-6)
    if method == "smooth":
        np.testing.assert_allclose((reference(t + h)[1] - reference(t - h)[1]) / (2 * h), reference(t)[2], atol=1e-5)
    # at rest before and after
    for end in (-1.0, reference.duration + 1.0):
        _, v, a = reference(end)
        assert not np.any(v)
        assert not np.any(a)


def test_a_trapezoid_is_that_of_a_textbook() -> None:
    slow = control.MotionLimits(velocity=1.0, acceleration=2.0)
    reference = control.joint_reference(ROBOT, [[0, 0, 0], [2.0, 0.5, 0]], slow)
    assert reference.duration == pytest.approx(2.0 / 1.0 + 1.0 / 2.0, rel=1e-12)
    np.testing.assert_allclose(reference(0.25)[0][0], 0.5 * 2.0 * 0.25**2, rtol=1e-12)
    np.testing.assert_allclose(reference(1.0)[1][0], 1.0, rtol=1e-12)
    short = control.joint_reference(ROBOT, [[0, 0, 0], [0.02, 0.01, 0]], slow)
    assert short.duration == pytest.approx(2 * np.sqrt(0.02 / 2.0), rel=1e-12)


def test_an_s_curve_is_that_of_a_textbook() -> None:
    # v = a^2 / j ... all three limits are reached: T = d/v + v/a + a/j
    limits = control.MotionLimits(velocity=1.0, acceleration=2.0, jerk=10.0)
    reference = control.joint_reference(ROBOT, [[0, 0, 0], [2.0, 0.0, 0.0]], limits)
    assert reference.duration == pytest.approx(2.0 + 0.5 + 0.2, rel=1e-12)
    # neither velocity nor acceleration is reached: T = 4 (d / (2 j))^(1/3)
    short = control.joint_reference(ROBOT, [[0, 0, 0], [0.01, 0.0, 0.0]], limits)
    assert short.duration == pytest.approx(4 * np.cbrt(0.01 / 20.0), rel=1e-12)


def test_tiny_and_huge_motions() -> None:
    model = robot(ranges=False)
    for distance in (1e-9, 1e-6, 1e-3, 1e3):
        for v, a, j in ((100.0, 50.0, 0.02), (10.0, 0.02, 7e3), (1.0, 1.0, np.inf)):
            limits = control.MotionLimits(v, a, None if np.isinf(j) else j)
            reference = control.joint_reference(model, [[0, 0, 0], [distance, 0.3 * distance, 0]], limits)
            # never faster than with one limit alone
            least = max(4 * np.cbrt(distance / (2 * j)), 2 * np.sqrt(distance / a), distance / v)
            assert least * (1 - 1e-9) <= reference.duration <= 3 * least
            np.testing.assert_allclose(reference(reference.duration)[0][:2], [distance, 0.3 * distance], rtol=1e-8)


def test_waypoints_are_passed_with_their_velocities() -> None:
    speeds = np.array([[0, 0, 0], [1.0, 0.3, -0.2], [-1.0, 0.2, 0.1], [0, 0, 0]])
    reference = control.joint_reference(ROBOT, POINTS, LIMITS, velocities=speeds)
    for time, point, speed in zip(reference.times[1:-1], POINTS[1:-1], speeds[1:-1], strict=True):
        q, v, _ = reference(time)
        np.testing.assert_allclose(q, point, atol=1e-9)
        np.testing.assert_allclose(v, speed, atol=1e-9)
    v, a, _ = peaks(reference)
    assert np.all(v <= np.array([2.0, 1.0, 0.5]) * (1 + 1e-9))
    assert np.all(a <= 6.0 * (1 + 1e-9))
    longer = control.joint_reference(ROBOT, POINTS, LIMITS, minimum_times=[3.0, 0.0, 4.0])
    np.testing.assert_allclose(np.diff(longer.times)[[0, 2]], [3.0, 4.0], rtol=1e-12)


@pytest.mark.thorough
def test_random_motions_end_where_they_should_within_limits() -> None:
    rng, model = np.random.default_rng(5), robot(ranges=False)
    for _ in range(25):
        points = rng.uniform([-2.5, -1.5, 0.1], [2.5, 1.5, 0.5], (2, 3))
        speeds = rng.uniform(-0.6, 0.6, (2, 3)) * [2.0, 1.0, 0.5] * rng.integers(0, 2, (2, 1))
        reference = control.joint_reference(model, points, LIMITS, velocities=speeds)
        q, v, _ = reference(np.array([0.0, reference.duration]))
        np.testing.assert_allclose(q, points, atol=1e-8)
        np.testing.assert_allclose(v, speeds, atol=1e-8)
        largest = peaks(reference)
        assert np.all(largest[0] <= np.array([2.0, 1.0, 0.5]) * (1 + 1e-9))
        assert np.all(largest[1] <= 6.0 * (1 + 1e-9))


@pytest.mark.thorough
def test_a_line_and_a_circle_are_followed() -> None:
    start, goal = np.array([0.7, 0.3, 0.4]), np.array([0.6, -0.4, 0.7])
    limits = control.MotionLimits(velocity=1.5, acceleration=5.0, jerk=40.0)
    reference = control.path_reference(ROBOT, "tool", control.line(start, goal), limits, q0=[0.3, 0.1, 0.3], speed=0.4)
    t = np.linspace(0.0, reference.duration, 400)
    q, v, a = reference(t)
    tool = ROBOT.pose("world", "tool", q)[:, :3, 3]
    way = goal - start
    off = (tool - start) - np.outer((tool - start) @ way / (way @ way), way)
    assert np.abs(off).max() < 1e-6
    np.testing.assert_allclose(tool[[0, -1]], [start, goal], atol=1e-6)
    speed = np.linalg.norm(ROBOT.twist("world", "tool", q, v)[:, :3], axis=1)
    assert speed.max() <= 0.4 * (1 + 1e-9)
    assert np.abs(v).max() <= 1.5 * (1 + 1e-9)
    assert np.abs(a).max() <= 5.0 * (1 + 1e-9)
    h = 1e-5
    np.testing.assert_allclose((reference(t[5:-5] + h)[0] - reference(t[5:-5] - h)[0]) / (2 * h), v[5:-5], atol=1e-7)
    circle = control.arc((0.85, 0.2, 0.4), center=(0.85, 0.0, 0.4), normal=(0, 0, 1), angle=2 * np.pi)
    around = control.path_reference(ROBOT, "tool", circle, limits, q0=[0.3, 0.1, 0.3])
    tool = ROBOT.pose("world", "tool", around(np.linspace(0, around.duration, 200))[0])[:, :3, 3]
    np.testing.assert_allclose(np.linalg.norm(tool - [0.85, 0.0, 0.4], axis=1), 0.2, atol=1e-6)
    np.testing.assert_allclose(tool[:, 2], 0.4, atol=1e-6)


def test_poses_turn_about_one_axis_along_a_line() -> None:
    G0 = se3.pose(so3.rotation_about("x", 0.2), [0, 0, 0])
    G1 = se3.pose(so3.rotation_about("x", 0.2) @ so3.rotation_about((1, 1, 0), 1.0), [1, 0, 0])
    path = control.line(G0, G1)
    np.testing.assert_allclose(path(0.0), G0, atol=1e-12)
    np.testing.assert_allclose(path(1.0), G1, atol=1e-12)
    assert so3.angle(G0[:3, :3].T @ path(0.5)[:3, :3]) == pytest.approx(0.5)


@pytest.mark.thorough
def test_a_law_follows_it_in_a_simulation() -> None:
    reference = control.joint_reference(ROBOT, POINTS, LIMITS)
    assert reference.feasibility().is_feasible()
    law = control.computed_torque(ROBOT, stiffness=100.0, damping=20.0).with_reference(reference)
    run = ht.simulate(ROBOT, reference(0.0)[:2], until=reference.duration, step=1e-3, control=law)
    wanted = reference(run.t)[0]
    assert np.abs(run.q - wanted).max() < 5e-3


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: control.joint_reference(ROBOT, [[0, 0, 0], [4.0, 0, 0]], LIMITS), ControlError, "'a' moves to 4"),
        (lambda: control.joint_reference(ROBOT, [[0, 0, 0]], LIMITS), ValueError, "start"),
        (lambda: control.joint_reference(ROBOT, [[0, 0, 0], [0, 0, 0]], LIMITS), ControlError, "same"),
        (lambda: control.joint_reference(ROBOT, POINTS, control.MotionLimits(2.0)), ControlError, "acceleration"),
        (lambda: control.joint_reference(ROBOT, POINTS, control.MotionLimits(None, 1.0)), ControlError, "velocity"),
        (
            lambda: control.joint_reference(ROBOT, POINTS, control.MotionLimits({"aa": 1.0}, 1.0)),
            UnknownNameError,
            "Did you mean 'a'",
        ),
        (
            lambda: control.joint_reference(ROBOT, POINTS, LIMITS, velocities=np.full((4, 3), 0.9)),
            ControlError,
            "'c'",
        ),
        (
            lambda: control.path_reference(ROBOT, "tool", control.line((0.7, 0, 0.4), (3.0, 0, 0.4)), LIMITS),
            ControlError,
            "cannot be followed at s = ",
        ),
    ],
)
def test_mistakes(call, error, text) -> None:
    with pytest.raises(error, match=text):
        call()


def test_sequences_meet_or_raise() -> None:
    first, second = (control.joint_reference(ROBOT, pair, LIMITS) for pair in (POINTS[:2], POINTS[1:3]))
    both = control.sequence(first, second)
    t = np.linspace(0.0, both.duration, 200)
    early = t < first.duration
    np.testing.assert_array_equal(both(t)[0][early], first(t[early])[0])
    np.testing.assert_array_equal(both(t)[1][~early], second(t[~early] - first.duration)[1])
    with pytest.raises(ControlError, match="do not meet"):
        control.sequence(second, first)
    with pytest.raises(ControlError, match="no end"):
        control.sequence(control.Reference.set_point(ROBOT, POINTS[0]), first)
    effort = {"motor_a": (-1e-3, 1e-3)}
    assert both.feasibility(effort).outside == ("motor_a",)
