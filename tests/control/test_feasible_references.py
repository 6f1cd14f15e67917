"""References with a yaw rate, of trees, with allocated times; exceeded limits."""

from __future__ import annotations

import numpy as np
import pytest

import heavytop as ht
from heavytop.control import (
    Limits,
    Reference,
    Sector,
    TiltLimits,
    flat_reference,
    looping,
    minimum_snap,
    snap_shares,
    timed_snap,
    tree_reference,
)
from heavytop.copters import quadcopter, tricopter
from heavytop.errors import ControlError
from heavytop.geometry import se3, so3

QUAD = quadcopter()


def check_consistent(reference: Reference, times: np.ndarray, tolerance: float = 1e-6) -> None:
    """v_R and a_R are the rates of q_R and v_R, by central differences on the manifold."""
    model, h = reference.model, 1e-4
    (q0, v0, _), (q1, v1, _) = reference(times - h), reference(times + h)
    _, v, a = reference(times)
    np.testing.assert_allclose(model.difference(q0, q1) / (2 * h), v, atol=tolerance * max(1.0, np.abs(v).max()))
    np.testing.assert_allclose((v1 - v0) / (2 * h), a, atol=tolerance * max(1.0, np.abs(a).max()))


@pytest.mark.thorough
def test_yaw_is_the_integral_of_the_prescribed_rate() -> None:
    """On the spot: R = rotation about z by the integral of the rate, several turns."""
    reference = flat_reference(
        QUAD.model, lambda t: 0.0 * np.stack([t, t, t]), yaw_rate=lambda t: 3.0 + 2.0 * np.cos(t), duration=5.0
    )
    times = np.linspace(0.0, 5.0, 11)
    R = se3.rotation(QUAD.model.pose("world", "hull", reference(times)[0]))
    for t, turned in zip(times, R, strict=True):
        np.testing.assert_allclose(turned, so3.rotation_about("z", 3 * t + 2 * np.sin(t)), atol=1e-11)
    check_consistent(reference, times[1:-1])
    np.testing.assert_allclose(reference(9.0)[1], 0.0)


def test_yaw_rate_through_inverted_flight_and_past_every_heading() -> None:
    """A looping with a constant yaw rate: no heading is singular."""
    reference = flat_reference(QUAD.model, looping(1.5, 3.6), yaw_rate=lambda t: 1.5 + 0.0 * t, duration=3.6)
    times = np.linspace(0.05, 3.55, 36)
    q, v, a = reference(times)
    np.testing.assert_allclose(v[:, 5], 1.5, atol=1e-12)
    np.testing.assert_allclose(a[:, 5], 0.0, atol=1e-12)
    assert QUAD.model.pose("world", "hull", q)[:, 2, 2].min() < -0.9  # upside down
    check_consistent(reference, times, 2e-5)
    assert reference.feasibility().largest_residual < 1e-10


@pytest.mark.thorough
def test_a_yaw_rate_needs_a_duration_and_no_side() -> None:
    for wrong in ({}, {"duration": 1.0, "side": (0, 1, 0)}):
        with pytest.raises(ControlError, match="duration"):
            flat_reference(QUAD.model, looping(), yaw_rate=lambda t: 0.0 * t, **wrong)
    with pytest.raises(ControlError, match="parallel"):
        flat_reference(QUAD.model, looping(), heading=(0, 0, 1), yaw_rate=lambda t: 0.0 * t, duration=1.0)


def with_arm() -> ht.Model:
    system = QUAD.describe()
    link = ht.Inertia(0.15, com=(0.0, 0.0, -0.1), moment_at_com=(1e-3, 1e-3, 2e-4))
    system.body("upper", parent="hull", at=(0.05, 0.0, -0.05), joint=ht.Revolute("y"), inertia=link)
    system.body("lower", parent="upper", at=(0.0, 0.0, -0.2), joint=ht.Revolute("y"), inertia=link)
    system.input("shoulder", ht.JointForce("upper"))
    system.input("elbow", ht.JointForce("lower"))
    return system.derive()


@pytest.mark.thorough
def test_tree_references_are_feasible_and_move_the_common_centre_of_mass() -> None:
    model = with_arm()
    path = {"upper": lambda t: 0.5 * np.sin(1.3 * t), "lower": lambda t: 0.8 - 0.3 * np.cos(2.0 * t)}
    reference = tree_reference(
        model, lambda t: ht.vector(np.cos(t), np.sin(t), 0.3 * np.sin(2 * t)), path, heading=(1, 0, 0), duration=6.0
    )
    report = reference.feasibility(samples=101)
    assert report.largest_residual < 1e-9
    assert report.inputs.shape[1] == 6
    times = np.linspace(0.1, 5.0, 9)
    check_consistent(reference, times)
    q = reference(times)[0]
    inertias = model.description.inertias
    mass = sum(float(i.mass) for i in inertias.values())
    center = sum(
        float(i.mass) * se3.transform(model.pose("world", b, q), np.asarray(i.com, dtype=float))
        for b, i in inertias.items()
    )
    np.testing.assert_allclose(center / mass, [[np.cos(t), np.sin(t), 0.3 * np.sin(2 * t)] for t in times], atol=1e-12)
    np.testing.assert_allclose(q[:, -2], 0.5 * np.sin(1.3 * times))


def test_wrong_tree_references_are_rejected() -> None:
    model = with_arm()
    with pytest.raises(ht.errors.UnknownNameError, match="elbow"):
        tree_reference(model, looping(), {"elbow": 0.0})
    with pytest.raises(ht.errors.ShapeError, match="upper"):
        tree_reference(model, looping(), {"upper": (0.0, 1.0)})
    with pytest.raises(ControlError, match="0 free bodies"):
        tree_reference(ht.library.pendulum().derive(), looping())
    for curve, options in (
        (lambda t: ht.vector(t, 0.0 * t, 0.0 * t), {"heading": (0, 0, 1)}),  # the thrust is parallel to it
        (lambda t: ht.vector(t, 0.0 * t, -4.905 * t**2), {}),  # free fall
        (lambda t: ht.vector(t, 0.0 * t, 0.0 * t), {"joints": {"upper": np.nan}}),
    ):
        with pytest.raises(ControlError, match="singular at t = "):
            tree_reference(model, curve, duration=2.0, **options)


POINTS = [[0, 0, 0], [2, 0, 1], [2.5, 2, 0.5], [0, 2, 1.0]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"margin": 2.0}, "margin"),
        ({"speed": -1.0}, "speed"),
        ({"rate": np.nan}, "rate"),
        ({"heading": (0, 0, 1)}, "parallel"),
        ({"points": [[0, 0, 0]]}, "two points, got 1"),
        ({"limits": None}, "unlimited"),
        ({"limits": Limits(0.0, 2.0)}, "long enough"),
    ],
)
def test_wrong_arguments_of_time_allocation_are_rejected(options, message) -> None:
    with pytest.raises(ControlError, match=message):
        timed_snap(**{"model": QUAD.model, "points": POINTS, "limits": QUAD.limits, **options})


def test_a_yaw_rate_that_is_not_finite_is_rejected() -> None:
    with pytest.raises(ControlError, match="not finite"):
        flat_reference(QUAD.model, looping(), yaw_rate=lambda t: np.nan + 0 * t, duration=2.0)


def test_shares_of_least_snap() -> None:
    """Better than equal and than proportional shares, and stationary."""
    best = snap_shares(POINTS)
    assert best.sum() == pytest.approx(1.0)

    def snap(share: np.ndarray) -> float:
        curve = minimum_snap(POINTS, np.concatenate([[0.0], np.cumsum(share / share.sum())]))
        t = np.linspace(0.0, 1.0, 4001)
        return float(np.mean(np.sum(curve.derivative(4)(t) ** 2, axis=1)))

    legs = np.linalg.norm(np.diff(POINTS, axis=0), axis=1)
    assert snap(best) < snap(np.ones(3))
    assert snap(best) < snap(legs)
    for k in range(3):
        other = best.copy()
        other[k] *= 1.05
        assert snap(best) < snap(other)
    with pytest.raises(ControlError, match="equal"):
        snap_shares([[0, 0, 0], [0, 0, 0]])


@pytest.mark.thorough
def test_times_as_short_as_the_limits_allow() -> None:
    """Within the limits, and infeasible if slightly faster."""
    curve = timed_snap(QUAD.model, POINTS, QUAD.limits, margin=0.0)
    reference = flat_reference(QUAD.model, curve, duration=curve.duration)
    report = reference.feasibility(QUAD.limits)
    assert report.largest_residual < 1e-9
    assert all(e.by < 0.02 for e in report.exceeded)  # between the samples
    quick = minimum_snap(POINTS, 0.97 * curve.breaks)
    assert not flat_reference(QUAD.model, quick, duration=quick.duration).feasibility(QUAD.limits).is_feasible()
    slow = timed_snap(QUAD.model, POINTS, QUAD.limits, speed=1.0)
    t = np.linspace(0.0, slow.duration, 2001)
    assert np.linalg.norm(slow.derivative(1)(t), axis=1).max() == pytest.approx(1.0, abs=2e-3)
    calm = timed_snap(QUAD.model, POINTS, rate=0.5)
    v = flat_reference(QUAD.model, calm, duration=calm.duration)(np.linspace(0.0, calm.duration, 1001))[1]
    assert np.linalg.norm(v[:, 3:], axis=1).max() == pytest.approx(0.5, abs=5e-3)


@pytest.mark.thorough
def test_a_flight_along_allocated_times_keeps_thrust_and_rate() -> None:
    """Without limits in the law, thrusts and angular velocity of the flight stay within the allocated ones."""
    curve = timed_snap(QUAD.model, POINTS, QUAD.limits, rate=4.0)
    reference = flat_reference(QUAD.model, curve, duration=curve.duration)
    law = QUAD.law(limits=False).with_reference(reference)
    run = ht.simulate(QUAD.model, reference(0.0)[:2], curve.duration, 2e-3, control=law, progress=False)
    assert run.u.min() >= 0.0
    assert run.u.max() <= 6.0
    assert np.linalg.norm(run.v[:, 3:], axis=1).max() <= 4.01


def test_exceeded_limits_with_time_and_excess() -> None:
    reference = flat_reference(QUAD.model, looping(1.5, 3.6), side=(0, 1, 0), duration=3.6)
    report = reference.feasibility(Limits(0.0, 5.0))
    assert report.outside
    worst = max(report.exceeded, key=lambda e: e.by)
    assert worst.value == pytest.approx(report.upper.max())
    assert worst.by == pytest.approx(report.upper.max() - 5.0)
    k = int(np.argmin(np.abs(report.times - worst.time)))
    assert report.inputs[k].max() == pytest.approx(worst.value)
    with pytest.raises(ControlError, match=r"'thrust0' needs 5\.\d+ at t = .* beyond its bound 5"):
        report.require()


def test_exceeded_sectors() -> None:
    """Rolling over on the spot tilts every rotor by a full turn, beyond limits of thrust, tilt and tilt rate."""
    craft = tricopter()

    def pose(t):
        return se3.pose(so3.rotation_about("x", 2 * np.pi * ht.control.smoothstep(t / 3.0)), np.zeros(3))

    roll = Reference.from_pose(craft.model, pose, duration=3.0)
    sectors = [Sector(2 * k, 2 * k + 1, (0.0, 7.0), (-2.0, 2.0), rate=5.0) for k in range(3)]
    report = roll.feasibility(TiltLimits(sectors=sectors, period=0.01))
    listed = "; ".join(map(str, report.exceeded))
    for what in ("thrust of", "tilt of", "tilt rate of"):
        assert what in listed
    free = TiltLimits(sectors=[Sector(2 * k, 2 * k + 1, (0.0, 8.0)) for k in range(3)])
    assert roll.feasibility(free).is_feasible()
