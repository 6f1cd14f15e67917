"""Tyres: cornering stiffness, slip, the circle of friction, braking distance, rolling resistance, standing on a slope."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import heavytop as ht
from heavytop.errors import ModelError

G, R, K, MU, C_X, C_Y = 9.81, 0.3, 2e5, 0.9, 5e4, 4e4


def sledge(gravity: tuple[float, float, float] = (0, 0, -G), **tyre: Any) -> ht.System:
    """A mass that is guided along x and z and carried by one wheel."""
    system = ht.System(name="sledge", gravity=gravity)
    system.body("rail", joint=ht.Prismatic("x"))
    system.body("side", parent="rail", joint=ht.Prismatic("y"))
    system.body("mass", parent="side", joint=ht.Prismatic("z"), inertia=ht.Inertia(100.0, moment_at_com=(1, 1, 1)))
    system.body("wheel", parent="mass", joint=ht.Revolute("y"), inertia=ht.Inertia(20.0, moment_at_com=(0.5, 1, 0.5)))
    system.ground(friction=MU)
    system.tyre("wheel", radius=R, stiffness=K, damping=2e3, slip=C_X, cornering=C_Y, **tyre)
    system.input("brake", ht.JointForce("wheel"))
    return system


@cache
def model() -> ht.Model:
    return sledge().derive()


def force(vx: float, vy: float, omega: float) -> np.ndarray:
    """Forces over 120 kg along and across, from the accelerations at the static depth."""
    q = np.array([0.0, 0.0, R - 120 * G / K, 0.0])
    return 120.0 * model().acceleration(q, np.array([vx, vy, 0.0, omega]))[:2]


def brush(x: float) -> float:
    return x - x**2 / 3 + x**3 / 27 if x < 3 else 1.0


def test_forces_at_small_and_large_slip() -> None:
    most = MU * 120 * G
    np.testing.assert_allclose(force(20.0, 0.0, 20.0 / R), 0.0, atol=1e-6)
    side = force(20.0, 20.0 * 0.002, 20.0 / R)
    np.testing.assert_allclose(side, [0.0, -most * brush(C_Y * 0.002 / most)], rtol=1e-4, atol=1e-3)
    braking = force(20.0, 0.0, 20.0 * (1 - 0.01) / R)
    np.testing.assert_allclose(braking, [-most * brush(C_X * 0.01 / most), 0.0], rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(force(20.0, 0.0, 0.0), [-most, 0.0], rtol=1e-9, atol=1e-6)
    assert np.hypot(*force(20.0, 3.0, 30.0)) == pytest.approx(most, rel=1e-9)


@pytest.mark.thorough
def test_a_locked_wheel_stops_after_the_distance_of_its_friction() -> None:
    """v^2/(2 mu g), and the brake took no energy: all of it went into the sliding tyre."""
    system = sledge()
    system.joint_friction("wheel", coulomb=2e3, smoothing=1e-3)
    locked = system.derive()
    start = np.array([0.0, 0.0, R - 120 * G / K, 0.0]), np.array([10.0, 0.0, 0.0, 0.0])
    run = ht.simulate(locked, start, 2.0, 1e-3, "ros2")
    assert run.outcome.ok, run.outcome
    assert run.q[-1, 0] == pytest.approx(100.0 / (2 * MU * G), rel=5e-3)
    assert abs(run.v[-1, 0]) < 1e-3


@pytest.mark.thorough
def test_a_braked_wheel_creeps_down_a_slope_as_its_law_says() -> None:
    """Standing on 10 degrees: the tyre resists like a damper C_x / v_0."""
    tilt = np.deg2rad(10.0)
    system = sledge(gravity=(G * np.sin(tilt), 0, -G * np.cos(tilt)), low_speed=1e-3)
    system.joint_friction("wheel", coulomb=2e3, smoothing=1e-6)
    start = np.array([0.0, 0.0, R - 120 * G * np.cos(tilt) / K, 0.0])
    run = ht.simulate(system.derive(), (start, np.zeros(4)), 2.0, 2e-3, "ros2")
    assert run.outcome.ok
    load, most = 120 * G * np.sin(tilt), MU * 120 * G * np.cos(tilt)
    s = min(
        root.real for root in np.roots([1 / 27, -1 / 3, 1, -load / most]) if abs(root.imag) < 1e-9 and root.real > 0
    )
    assert run.v[-1, 0] == pytest.approx(s * most / C_X * 1e-3, rel=2e-2)


@pytest.mark.thorough
def test_rolling_resistance() -> None:
    """It decelerates by f g m/(m + I/R^2) where the wheel rolls freely."""
    rolling = sledge(rolling=0.02).derive()
    start = np.array([0.0, 0.0, R - 120 * G / K, 0.0]), np.array([5.0, 0.0, 0.0, 5.0 / R])
    run = ht.simulate(rolling, start, 2.0, 1e-3, "ros2")
    assert run.outcome.ok
    assert (5.0 - run.v[-1, 0]) / 2.0 == pytest.approx(0.02 * G * 120 / (120 + 1 / R**2), rel=1e-2)


def test_plausible_mistakes() -> None:
    system = ht.System(name="cart")
    system.body("wheel", joint=ht.Free(), inertia=ht.Inertia(1.0, moment_at_com=(1, 1, 1)))
    options: dict[str, Any] = {"radius": 0.3, "stiffness": 1e5, "slip": 1e4, "cornering": 1e4}
    with pytest.raises(ModelError, match="ground"):
        system.tyre("wheel", **options)
    system.ground()
    with pytest.raises(ModelError, match="friction"):
        system.tyre("wheel", **options)
    with pytest.raises(ModelError, match="radius"):
        system.tyre("wheel", **{**options, "radius": -0.3}, friction=1.0)
