"""The robust controller on very different vehicles: constants from the description, scaling, sample rates, quiet commands."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from heavytop_bench import fleet

import heavytop as ht
from heavytop.control import ConstantWind, Filtered, Hull, Sensors, Tuning, Windy, hover_levels
from heavytop.copters import (
    Authority,
    RotorPlant,
    Vehicle,
    agile_frequencies,
    agile_law,
    bicopter,
    load,
    multicopter,
    quadcopter,
    ring,
    robust_controller,
    tricopter,
)
from heavytop.copters.robust_controller import TYPICAL_SENSORS
from heavytop.geometry import so3

# --- constants --------------------------------------------------------------------------------------------------------------


def scaled(length: float, mass: float) -> tuple[Vehicle, float]:
    """A vehicle scaled in size and mass, and the factor of its times: accelerations stay."""
    time = np.sqrt(length)
    rotors = ring(4, 0.1 * length, drag_ratio=0.01 * length)
    size = np.array([2e-3, 2.4e-3, 4e-3]) * mass * length**2
    return fleet.described("scaled", 0.5 * mass, size.tolist(), rotors, 2.4, 0.03 * time), time


SCALES = np.exp(np.random.default_rng(8).uniform(np.log([0.05, 0.005]), np.log([8.0, 100.0]), (4, 2))).tolist()
"""Factors of size and mass."""


@pytest.mark.parametrize(("length", "mass"), SCALES)
def test_all_constants_scale_with_the_vehicle(length: float, mass: float) -> None:
    (own, _), (other, time) = scaled(1.0, 1.0), scaled(length, mass)
    a, b = Authority.of(own), Authority.of(other)
    assert b.lift == pytest.approx(a.lift)
    assert (b.tilt, b.yaw) == pytest.approx((a.tilt / time**2, a.yaw / time**2))
    assert b.drop() == pytest.approx(a.drop() * length)
    slow, fast = agile_frequencies(own), agile_frequencies(other, longest=0.04 * time)
    assert fast == pytest.approx(np.array(slow) / time)
    p, r = Tuning.of(slow[1], 0.03), Tuning.of(fast[1], 0.03 * time)
    times = ("observer", "velocity", "scale", "lag_left")
    assert [getattr(r, n) for n in times] == pytest.approx([getattr(p, n) * time for n in times])
    assert r.sample_rate == pytest.approx(p.sample_rate / time)


@pytest.mark.thorough
def test_the_closed_loop_scales_with_the_vehicle() -> None:
    """Upside down and thrown: the scaled vehicle flies the scaled trajectory."""
    paths = []
    for length, mass in ((1.0, 1.0), *SCALES[:3]):
        craft, time = scaled(length, mass)
        plant = RotorPlant(craft)
        q = craft.model.neutral()
        q[:3] = np.array([1.0, -0.5, 0.3]) * length
        q[3:12] = so3.exp(np.array([2.9, 0.2, 0.4])).T.ravel()
        v = np.array([1.0, 0.5, -1.0, 2.0, 1.0, -1.0]) / np.array([1 / time] * 3 + [time] * 3)
        period = 5e-3 * time
        control = robust_controller(craft, Sensors(), longest=0.04 * time).with_reference(craft.model.neutral())
        run = ht.simulate(plant, plant.start(q, v), 400 * period, period, control=control, balance=False)
        paths.append(run.q[:, :3] / length)
    for path in paths[1:]:
        np.testing.assert_allclose(path, paths[0], atol=1e-6)
    assert np.linalg.norm(paths[0][-1]) < 0.2


@pytest.mark.thorough
def test_a_weak_or_slow_vehicle_gets_slow_poles() -> None:
    heavy, agile = fleet.heavy_hexacopter(), load("hummingbird")
    assert agile_frequencies(heavy)[1] < 0.6 * agile_frequencies(agile)[1]
    assert agile_frequencies(load("crazyflie"))[1] == pytest.approx(0.8 / 0.072)
    assert agile_frequencies(agile, period=0.04)[1] == pytest.approx(1 / 0.04 / 2.2, rel=0.1)
    # the promise of a law that is made for a period is that period
    for period in (0.02, 0.05):
        tuned: Any = robust_controller(heavy, period=period).controller
        assert tuned.tuning.sample_rate <= 1 / period * (1 + 1e-4)
    assert Authority(0.9, 1.0, 1.0, 0.1).drop() == np.inf


def test_the_motion_of_a_hull_is_that_of_its_centre_of_mass() -> None:
    model = fleet.skewed_quadcopter().model
    hull, rng = Hull.of(model), np.random.default_rng(0)
    assert hull.com.tolist() == [0.02, 0.0, 0.0]
    q, v, u = model.random(rng), rng.standard_normal(6), rng.uniform(0.0, 4.0, 4)
    a = model.acceleration(q, v, u)
    m, acceleration, turn = hull.reference(q, v, a)
    force, moment = hull.forces(u)
    np.testing.assert_allclose(acceleration, m.R @ force / hull.mass + hull.gravity, atol=1e-12)
    np.testing.assert_allclose(turn, hull.angular_acceleration(m.omega, moment), atol=1e-10)
    for back, there in zip(hull.coordinates(m, acceleration, turn), (q, v, a), strict=True):
        np.testing.assert_allclose(back, there, atol=1e-12)


@pytest.mark.thorough
def test_poles_hold_for_a_centre_of_mass_that_is_not_the_origin() -> None:
    options: dict[str, Any] = {"mass": 0.9, "moment": (0.008, 0.008, 0.014)}
    rotors = ring(4, 0.2, drag_ratio=0.016, thrust=(0.0, 6.0))
    moved = [replace(r, at=r.at + np.array([0.02, -0.01, 0.03])) for r in rotors]
    own, other = multicopter(rotors, **options), multicopter(moved, com=(0.02, -0.01, 0.03), **options)
    a, b = (agile_law(craft, limits=False).poles() for craft in (own, other))
    # double poles split by the root of the rounding
    np.testing.assert_allclose(np.poly(b), np.poly(a), rtol=1e-6)


def test_the_force_that_accompanies_a_moment() -> None:
    """Forces of the bicopter act at two heights above its centre of mass; parallel and all wrenches need none."""
    arm, height, inclination = 0.25, 0.1, np.deg2rad(15.0)
    found = Hull.of(bicopter(arm=arm, height=height, inclination=inclination).model).sideways
    np.testing.assert_allclose(found[0], [0, 1 / height, 0], atol=1e-12)
    np.testing.assert_allclose(found[1], [-1 / (arm / np.tan(inclination) + height), 0, 0], atol=1e-12)
    for craft in (quadcopter(), tricopter()):
        assert not Hull.of(craft.model).sideways.any()


@pytest.mark.thorough
def test_a_bicopter_balances_a_moment_by_the_wind() -> None:
    """The wind acts on the rotors above the centre of mass: the hull leans further than against the force alone."""
    craft = fleet.VEHICLES["bicopter"]()
    plant = RotorPlant(craft, wind=True)
    control = Windy(
        robust_controller(craft, Sensors()).with_reference(craft.model.neutral()), ConstantWind((6.0, 0.0, 0.0))
    )
    start = plant.start(craft.model.neutral(), np.zeros(6))
    run = ht.simulate(plant, start, 8.0, 5e-3, control=control, balance=False)
    assert np.linalg.norm(run.q[-1, :3]) < 0.02


# --- flights ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Crazyflie", "9 kg hexacopter", "quadcopter, 2 cm off", "bicopter"])
@pytest.mark.thorough
def test_every_start_of_every_vehicle_recovers(name: str) -> None:
    craft = fleet.VEHICLES[name]()
    flown = fleet.recover(craft, count=16)
    for found in flown:
        assert found.share == 1.0, found
    worst = Authority.of(craft).drop(np.pi, *fleet.SPREAD[1:])
    assert 0.3 * worst < flown[0].drop < worst


@pytest.mark.parametrize(("mass", "lift", "lag"), [(25.0, 1.5, 0.15), (0.5, 4.0, 0.02)])
@pytest.mark.thorough
def test_an_approach_is_braked_in_time(mass: float, lift: float, lag: float) -> None:
    """From 12 m below and 12 m away, a slow vehicle too: it does not fly past its set point."""
    arm = 0.3 * np.cbrt(mass)
    turn = mass * (0.35 * arm) ** 2 * np.array([1.0, 1.0, 1.8])
    craft = fleet.described("any", mass, turn.tolist(), ring(6, arm, drag_ratio=0.06 * arm), lift, lag)
    plant, q = RotorPlant(craft), np.tile(craft.model.neutral(), (2, 1))
    q[0, 2], q[1, 0] = -12.0, 12.0
    control = robust_controller(craft, Sensors()).with_reference(craft.model.neutral())
    run = ht.simulate(plant, plant.start(q, np.zeros((2, 6))), 8.0, 0.01, control=control, balance=False)
    assert max(run.q[:, 0, 2].max(), -run.q[:, 1, 0].min()) < 0.01
    assert np.linalg.norm(run.q[-1, :, :3], axis=-1).max() < 0.2


def test_wind_acts_on_rotors_without_coefficients_of_drag() -> None:
    """By the drag of the vehicle, in proportion to its mass unless given."""
    wind = np.array([5.0, -3.0, 1.0])
    for drag, own in ((None, 0.11 * 0.5), (0.3, 0.3)):
        moment = (2e-3, 2.4e-3, 4e-3)
        craft = fleet.described("any", 0.5, moment, ring(4, 0.1, drag_ratio=0.01), 2.4, 0.03, drag=drag)
        plant = RotorPlant(craft, wind=True)
        start = plant.start(craft.model.neutral(), np.zeros(6))
        inputs = np.concatenate([np.full(4, craft.weight / 4), wind])
        run = ht.simulate(plant, start, 1e-3, 1e-3, inputs=inputs, balance=False)
        np.testing.assert_allclose(run.v[-1, :3] / 1e-3, own * wind / 0.5, rtol=1e-3)


@pytest.mark.parametrize("name", ["Hummingbird", "9 kg hexacopter", "tricopter", "bicopter"])
@pytest.mark.thorough
def test_the_least_sample_rate_is_kept(name: str) -> None:
    craft = fleet.VEHICLES[name]()
    least = robust_controller(craft, Sensors()).margins().sample_rate
    for found in fleet.recover(craft, fleet.SLOW, 12, 1.1 * least):
        assert found.share == 1.0, found


@pytest.mark.slow
@pytest.mark.parametrize("name", list(fleet.PARTS))
def test_every_start_of_vehicles_with_parts_recovers(name: str) -> None:
    for condition in fleet.CONDITIONS:
        assert fleet.recover_with_parts(fleet.PARTS[name], condition, 20).share == 1.0, condition


@pytest.mark.slow
@pytest.mark.parametrize("name", list(fleet.VEHICLES))
def test_the_table_of_all_vehicles(name: str) -> None:
    craft = fleet.VEHICLES[name]()
    least = robust_controller(craft, Sensors()).margins().sample_rate
    for conditions, rate in ((fleet.CONDITIONS, 200.0), (fleet.SLOW, 100.0), (fleet.SLOW, 1.1 * least)):
        for found in fleet.recover(craft, conditions, 60, rate):
            assert found.share == 1.0, found
    far = fleet.recover(craft, fleet.CONDITIONS[:1], 100, spread=fleet.FAR, seconds=25.0)[0]
    assert far.share == 1.0


# --- noise ------------------------------------------------------------------------------------------------------------------


def hovering(craft: Vehicle, sensors: Sensors, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    """Commands (n, nu) and distances (n,) after the first two seconds of a flight at the set point."""
    plant, model = RotorPlant(craft), craft.model
    control = robust_controller(craft, sensors, **options).with_reference(model.neutral())
    start = plant.start(model.neutral(), np.zeros(6))
    run = ht.simulate(plant, start, 8.0, 5e-3, control=control, balance=False)
    return run.u[400:], np.linalg.norm(run.q[400:, :3], axis=-1)


@pytest.mark.parametrize("name", ["racer", "9 kg hexacopter"])
@pytest.mark.thorough
def test_commands_are_quiet_with_noisy_sensors(name: str) -> None:
    craft = fleet.VEHICLES[name]()
    u, off = hovering(craft, TYPICAL_SENSORS)
    low, high = craft.limits.bounds(craft.model)  # pyright: ignore[reportOptionalMemberAccess]
    hover = craft.weight / craft.model.nu
    assert np.mean(np.abs(np.diff(u, axis=0))) < 0.06 * hover
    assert np.mean(np.any((u <= low + 1e-9) | (u >= high - 1e-9), axis=-1)) < 0.01
    assert np.sqrt(np.mean(off**2)) < 0.015


@pytest.mark.thorough
def test_activity_is_an_option_in_newtons_per_sample() -> None:
    craft = fleet.VEHICLES["quadcopter"]()
    change = [
        np.mean(np.abs(np.diff(hovering(craft, TYPICAL_SENSORS, activity=a)[0], axis=0))) for a in (0.08, 0.2, 10.0)
    ]
    assert change[0] < 0.08
    assert change[0] < change[1] < 0.2
    assert change[2] > 2 * change[1]


def test_the_filter_is_a_kalman_filter() -> None:
    """Its gains are those to which the recursion of the covariance converges; perfect sensors pass."""
    model, h = quadcopter().model, 5e-3
    passive = ht.Feedback(lambda v: v[:4], ("v",))
    (K, k), s = Filtered(passive, model, TYPICAL_SENSORS).gains(h), TYPICAL_SENSORS
    assert s.accelerometer is not None
    deviation = np.hypot(s.accelerometer.noise, s.accelerometer.bias) + 9.81 * s.attitude.noise
    F, q = np.array([[1, h], [0, 1]]), deviation * np.array([h * h / 2, h])
    P, R = np.eye(2), np.diag([s.position.noise**2, s.velocity.noise**2])
    gain = np.eye(2)
    for _ in range(5000):
        P = F @ P @ F.T + np.outer(q, q)
        gain = P @ np.linalg.inv(P + R)
        P = (np.eye(2) - gain) @ P
    np.testing.assert_allclose(K, np.maximum(gain, 0.05 * np.eye(2)), rtol=1e-4)
    assert k == 0.05
    exact, one = Filtered(passive, model, Sensors()).gains(h)
    assert exact.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert one == 1.0


def test_levels_of_hovering_carry_the_weight_without_a_moment() -> None:
    craft = fleet.skewed_quadcopter()
    hull, actuators = Hull.of(craft.model), craft.propulsion.actuators  # pyright: ignore[reportOptionalMemberAccess]
    force, moment = hull.forces(actuators.output(hover_levels(hull, actuators)))
    np.testing.assert_allclose(force, [0, 0, craft.weight], atol=1e-9)
    np.testing.assert_allclose(moment, 0, atol=1e-9)
