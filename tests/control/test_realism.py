"""Integral action, actuators, wind, noise, delay: each against what it must do."""

from __future__ import annotations

import numpy as np
import pytest

import heavytop as ht
from heavytop import control
from heavytop.control import (
    Actuated,
    ClosedLoop,
    ConstantWind,
    Delayed,
    Gust,
    Integral,
    Noisy,
    Propellers,
    Reference,
    TiltingPropellers,
    VirtualVehicle,
    VonKarman,
    Winds,
    Windy,
    add_rotor_drag,
    add_wind,
    energy_law,
    hover,
)
from heavytop.copters import quadcopter
from heavytop.errors import ControlError, UnknownNameError
from heavytop.simulate import simulate

HOVER = np.full(4, 0.9 * 9.81 / 4)


@pytest.fixture(scope="module")
def integral_law(lab):
    craft = lab.vehicle("quadcopter")
    return energy_law(craft.model, craft.prototype, integral=Integral("hull", gain=2.0, moment_gain=(0, 0, 0.05)))


# --- integral action --------------------------------------------------------------------------------------------------------


def test_integral_action_is_stable_and_removes_the_sag(lab, integral_law) -> None:
    linear = hover(integral_law)
    assert linear.A.shape == (16, 16)
    assert linear.is_stable(0.1)
    controller = integral_law.with_reference(lab.vehicle("quadcopter").model.neutral())
    start = (lab.vehicle("quadcopter").model.neutral(), np.zeros(6))
    flight = ClosedLoop(lab.disturbed("quadcopter", 0.9), controller).fly(start, 40.0, step=5e-3, record_every=100)
    assert np.min(flight.q[:, 2]) < -0.1
    assert np.linalg.norm(flight.q[-1, :3]) < 1e-5


@pytest.mark.thorough
def test_integral_action_sampled(lab, integral_law) -> None:
    """Sampled at 500 Hz the law does the same as continuously."""
    model, plant = lab.vehicle("quadcopter").model, lab.disturbed("quadcopter")
    target = lab.configuration((0.0, 0.0, 1.0))
    sampled = integral_law.with_reference(target, sample_time=2e-3)
    run = simulate(plant, (model.neutral(), np.zeros(6)), 2.0, 2e-3, control=sampled, balance=False)
    flight = ClosedLoop(plant, integral_law.with_reference(target)).fly((model.neutral(), np.zeros(6)), 2.0, step=2e-3)
    assert abs(flight.q[-1, 2] - 1.0) < 0.4
    np.testing.assert_allclose(run.q[-1, :3], flight.q[-1, :3], atol=5e-3)


@pytest.mark.thorough
def test_integral_action_takes_the_period_of_the_simulation(lab, integral_law) -> None:
    """The integral is that of the error, whatever the sampling; another sample time is refused."""
    model = lab.vehicle("quadcopter").model
    start, target = (model.neutral(), np.zeros(6)), lab.configuration((0.0, 0.0, 1.0))
    for options in ({}, {"control_step": 1e-2}):
        run = simulate(model, start, 0.2, 5e-3, control=integral_law, reference=target, balance=False, **options)
        every = 2 if options else 1
        errors = (run.q[:-1:every, :3] - target[:3]) * every * 5e-3
        np.testing.assert_allclose(run.channels["z"][-1, :3], np.sum(errors, axis=0), atol=1e-12)
    # steps that divide the duration are a little shorter: then the integral is too
    near = integral_law.with_reference(target, sample_time=5e-3)
    run = simulate(model, start, 0.996, 5e-3, control=near, balance=False)
    np.testing.assert_allclose(
        run.channels["z"][-1, :3], np.sum((run.q[:-1, :3] - target[:3]) * 0.00498, axis=0), atol=1e-12
    )
    assert near.sampled(5e-3) is near
    fixed = integral_law.with_reference(target, sample_time=1.0)
    with pytest.raises(
        ControlError, match=r"has the sample time 1 s, but .* samples it every 0.01 s. Omit sample_time"
    ):
        simulate(model, start, 0.2, 1e-2, control=fixed)
    with pytest.raises(ControlError, match="has the sample time 1 s, but this simulation evaluates it continuously"):
        simulate(model, start, 0.2, 1e-2, control=fixed, hold="continuous")
    with pytest.raises(ControlError, match="the sample time must be positive"):
        integral_law.with_reference(target, sample_time=0.0)


def test_wrappers_hand_the_period_on(lab, integral_law) -> None:
    model = lab.vehicle("quadcopter").model
    start, inner = (model.neutral(), np.zeros(6)), integral_law.with_reference(model.neutral())
    actuated = Actuated(inner, Propellers(0.02), HOVER)
    late = Delayed(Noisy(actuated, model), 1, start)
    sampled = late.sampled(0.01)
    assert late.sampled(0.01 * (1 + 1e-15)) is sampled
    assert sampled.sampled(0.01) is sampled
    assert sampled.controller.controller.sample_time == sampled.controller.controller.controller.sample_time == 0.01
    assert late.sampled(None) is late
    assert actuated.sample_time is None
    # nothing in it depends on the period
    static = Delayed(lab.law("quadcopter", "Ed").with_reference(model.neutral()), 1, start)
    assert static.sampled(0.01) is static
    # one period of a first-order lag, exactly
    z = actuated.initial_state()
    function = actuated.sampled(0.01).traced(model)
    values = dict(zip(function.outputs, function(0.0, *start, z), strict=True))
    wanted = HOVER + (1 - np.exp(-0.01 / 0.02)) * (values["demand"] - HOVER)
    np.testing.assert_allclose(values["z_next"][:4], wanted, rtol=1e-12)
    with pytest.raises(ControlError, match="Actuated has the sample time 0.5 s, but .* every 0.01 s"):
        simulate(model, start, 0.1, 0.01, control=Actuated(inner, Propellers(0.02), HOVER, sample_time=0.5))


def test_virtual_vehicle_is_not_sampled(lab) -> None:
    law, model = lab.law("quadcopter", "Ed"), lab.vehicle("quadcopter").model
    virtual = VirtualVehicle(law, Reference.set_point(model, model.neutral()))
    with pytest.raises(ControlError, match=r"0.01 s.*hold='continuous'"):
        simulate(model, (model.neutral(), np.zeros(6)), 0.1, 0.01, control=virtual)


def test_integral_stops_at_its_limit(lab) -> None:
    craft = lab.vehicle("quadcopter")
    law = energy_law(craft.model, craft.prototype, integral=Integral("hull", gain=2.0, limit=0.1))
    q = lab.configuration((1.0, -1.0, 0.5))
    for z, expected in (((0.2, -0.2, 0.0), (0, 0, 0.5)), ((-0.2, 0.2, 0.2), (1, -1, 0)), ((0.09, 0, 0), (1, -1, 0.5))):
        rate = law.traced_law(q, np.zeros(6), craft.model.neutral(), np.zeros(6), np.zeros(6), [], z)[1]
        np.testing.assert_allclose(rate, expected)


@pytest.mark.parametrize("options", [{}, {"gain": -1.0}, {"gain": 1.0, "limit": 0.0}])
def test_bad_integral(options: dict) -> None:
    with pytest.raises(ControlError, match="integral action on 'hull'"):
        Integral("hull", **options)


# --- actuators --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("follows", ["thrust", "speed"])
def test_propellers_of_first_order(follows: str) -> None:
    propellers = Propellers(0.05, follows, lowest=0.0)
    u, demand = np.array([1.0, 4.0]), np.array([4.0, -1.0])
    z = propellers.start(u)
    np.testing.assert_allclose(propellers.output(z), u)
    # 63 % of the way after one time constant, in thrust or in speed
    after = propellers.after(z, demand, 0.05)
    goal = propellers.start(np.array([4.0, 0.0]))
    np.testing.assert_allclose((after - z) / (goal - z), 1 - np.exp(-1))
    small = 1e-6
    np.testing.assert_allclose(propellers.rate(z, demand), (propellers.after(z, demand, small) - z) / small, rtol=1e-4)


def test_tilting_propellers_take_the_shorter_way_at_a_limited_rate() -> None:
    servo = TiltingPropellers(0.05, 0.03, tilt_rate=5.0)
    u = np.array([0.5, -3.0])  # tilt close to half a turn
    z = servo.start(u)
    np.testing.assert_allclose(servo.output(z), u)
    demand = np.array([-0.5, -3.0])  # the other side of half a turn
    rate = servo.rate(z, demand)
    assert np.sign(rate[1]) == np.sign(z[1])
    assert abs(servo.rate(z, np.array([3.0, 0.0]))[1]) == 5.0
    assert abs(servo.after(z, np.array([3.0, 0.0]), 0.1)[1] - z[1]) <= 0.5 + 1e-12


def test_slow_propellers_lag_and_still_fly(lab) -> None:
    law, model = lab.law("quadcopter", "Ed"), lab.vehicle("quadcopter").model
    start = (lab.configuration((1.0, 0.0, 0.0)), np.zeros(6))
    inner = law.with_reference(model.neutral())
    flight = ClosedLoop(model, Actuated(inner, Propellers(0.02), HOVER)).fly(start, 6.0, step=2e-3)
    ideal = ClosedLoop(model, inner).fly(start, 6.0, step=2e-3)
    assert np.linalg.norm(flight.q[-1, :3]) < 1e-2
    assert np.max(np.abs(flight.q[:, :3] - ideal.q[:, :3])) > 1e-3
    # u' = (demand - u) / tau along the flight
    u, demand = flight.u, flight.channels["demand"]
    rate = (u[2:] - u[:-2]) / (flight.t[2:] - flight.t[:-2])[:, None]
    np.testing.assert_allclose(rate[10:], ((demand - u) / 0.02)[1:-1][10:], atol=0.2)


def test_actuators_sampled(lab) -> None:
    law, model = lab.law("quadcopter", "Ed"), lab.vehicle("quadcopter").model
    controller = Actuated(law.with_reference(model.neutral()), Propellers(0.02), HOVER, sample_time=2e-3)
    run = simulate(model, (lab.configuration((1.0, 0, 0)), np.zeros(6)), 6.0, 2e-3, control=controller, balance=False)
    assert np.linalg.norm(run.q[-1, :3]) < 1e-2


def test_bad_actuators(lab) -> None:
    with pytest.raises(ControlError, match="must be positive"):
        Propellers(0.0)
    with pytest.raises(ControlError, match="'thrust' or 'speed'"):
        Propellers(0.1, "torque")
    with pytest.raises(ControlError, match="in pairs"):
        TiltingPropellers().size(3)
    law, model = lab.law("quadcopter", "Ed"), lab.vehicle("quadcopter").model
    with pytest.raises(ValueError, match=r"must have shape \(4,\), got \(3,\)"):
        Actuated(law.with_reference(model.neutral()), Propellers(0.1), np.zeros(3)).traced(model)


# --- air --------------------------------------------------------------------------------------------------------------------


def test_rotor_drag_acts_in_the_rotor_plane_only() -> None:
    craft = quadcopter(velocity="mixed", attitude="quaternion")
    system = craft.describe()
    add_rotor_drag(system, "hull", 0.3)
    model = system.derive()
    q, v = model.random(1), np.random.default_rng(2).standard_normal(6)
    R = model.pose("world", "hull", q)[:3, :3]
    force = craft.model.inverse_dynamics(q, v, np.zeros(6)) - model.inverse_dynamics(q, v, np.zeros(6))
    np.testing.assert_allclose(force[:3], -0.3 * R @ np.diag([1, 1, 0]) @ R.T @ v[:3], atol=1e-12)
    with pytest.raises(UnknownNameError, match="rotor drag"):
        add_rotor_drag(system, "hul", 0.3)


@pytest.mark.thorough
def test_wind_carries_the_vehicle_and_integral_action_brings_it_back(lab, integral_law) -> None:
    system = quadcopter().describe()
    add_wind(system, "hull", 0.2)
    plant, model = system.derive(), lab.vehicle("quadcopter").model
    assert plant.nu == 7
    start, wind = (model.neutral(), np.zeros(6)), ConstantWind((4.0, 0.0, 0.0))
    plain = Windy(lab.law("quadcopter", "Ed").with_reference(model.neutral()), wind)
    drifted = ClosedLoop(plant, plain).fly(start, 30.0, step=5e-3, record_every=100)
    assert drifted.q[-1, 0] > 0.1
    held = Windy(integral_law.with_reference(model.neutral()), wind)
    flight = ClosedLoop(plant, held).fly(start, 60.0, step=5e-3, record_every=100)
    assert np.linalg.norm(flight.q[-1, :3]) < 1e-4
    tilt = np.arccos(flight.q[-1, 11])
    assert np.tan(tilt) == pytest.approx(0.2 * 4.0 / (0.9 * 9.81), rel=1e-3)  # thrust balances weight and drag
    with pytest.raises(ControlError, match="no wind inputs"):
        plain.traced(model)


def test_winds() -> None:
    t = np.linspace(0.0, 10.0, 101)
    gust = Gust((3.0, 0.0, 0.0), 2.0, 4.0).at(t)
    assert gust[:20].max() == gust[61:].max() == 0.0
    assert gust[40, 0] == pytest.approx(3.0)
    both = Winds((ConstantWind((1.0, 0, 0)), Gust((3.0, 0, 0), 2.0, 4.0))).at(t)
    np.testing.assert_allclose(both, gust + np.array([1.0, 0, 0]))


def test_turbulence_has_its_variance_and_spectrum() -> None:
    from scipy.integrate import quad

    wind = VonKarman((8.0, 0.0, 0.0), intensity=1.5, length=20.0, seed=3)
    for axis in range(3):
        total = quad(lambda x, axis=axis: wind.spectrum(np.exp(x))[axis] * np.exp(x), -15, 25)[0]
        assert total == pytest.approx(1.5**2, rel=1e-3)
    t = np.arange(0.0, 2000.0, 0.25)
    u = wind.at(t) - (8.0, 0.0, 0.0)
    np.testing.assert_allclose(u.std(axis=0), 1.5, rtol=0.12)
    np.testing.assert_allclose(VonKarman((8.0, 0, 0), 1.5, 20.0, seed=3).at(t[:5]), wind.at(t[:5]))
    assert not np.allclose(VonKarman((8.0, 0, 0), 1.5, 20.0, seed=4).at(t[:5]), wind.at(t[:5]))
    # along the wind the spectrum falls with the power -5/3 far above the bend
    high = wind.spectrum(np.array([100.0, 200.0]))
    np.testing.assert_allclose(np.log2(high[1] / high[0]), -5 / 3, atol=1e-3)
    with pytest.raises(ControlError, match="mean wind"):
        VonKarman((0.0, 0.0, 0.0))


# --- measurements -----------------------------------------------------------------------------------------------------------


def test_noise(lab) -> None:
    law, model = lab.law("quadcopter", "Ed"), lab.vehicle("quadcopter").model
    inner = law.with_reference(model.neutral())
    noisy = Noisy(inner, model, configuration=0.01, velocity=0.02, seed=5)
    run = simulate(model, (model.neutral(), np.zeros(6)), 4.0, 4e-3, control=noisy, balance=False)
    distance = np.linalg.norm(run.q[:, :3], axis=1)
    assert 1e-3 < distance.max() < 0.2
    again = simulate(model, (model.neutral(), np.zeros(6)), 4.0, 4e-3, control=noisy, balance=False)
    np.testing.assert_array_equal(run.q, again.q)
    silent = Noisy(inner, model)
    still = simulate(model, (model.neutral(), np.zeros(6)), 1.0, 4e-3, control=silent, balance=False)
    assert np.max(np.abs(still.q - model.neutral())) < 1e-12
    with pytest.raises(ControlError, match="must not be negative"):
        Noisy(inner, model, velocity=-1.0)


@pytest.mark.thorough
def test_delay(lab) -> None:
    law, model = lab.law("quadcopter", "Ed"), lab.vehicle("quadcopter").model
    inner = law.with_reference(model.neutral())
    start = (lab.configuration((1.0, 0, 0)), np.zeros(6))
    late = Delayed(inner, 3, start)
    run = simulate(model, start, 6.0, 4e-3, control=late, balance=False)
    prompt = simulate(model, start, 6.0, 4e-3, control=inner, balance=False)
    np.testing.assert_allclose(run.u[:4], np.broadcast_to(prompt.u[0], (4, 4)), rtol=1e-12)  # nothing has arrived yet
    np.testing.assert_allclose(run.u[10], law(run.q[7], run.v[7], model.neutral()), rtol=1e-9)
    assert np.linalg.norm(run.q[-1, :3]) < 1e-2
    with pytest.raises(ControlError, match="1 or more, got 0"):
        Delayed(inner, 0, start)


def test_noise_of_sensors_begins_at_zero_like_any_other() -> None:
    model = quadcopter().model
    watch = ht.Feedback(lambda v: {"u": 0 * v[:4]}, ("v",))
    sensed = control.Sensed(watch, model, control.Sensors(gyro=control.Sensor(0.1), rotor_speeds=None))
    start = model.neutral(), np.zeros(6)
    with pytest.raises(ControlError, match="noise begins at t = 0, it has no value at t = -0.1 s"):
        ht.simulate(model, start, 0.1, 0.01, control=sensed, start_time=-0.1)


@pytest.mark.parametrize("samples", [1.5, 0])
def test_a_delay_is_a_whole_number_of_samples(samples: object) -> None:
    model = ht.library.pendulum().derive()
    brake = ht.Feedback(lambda v: -v, ("v",))
    with pytest.raises(ControlError, match="1 or more"):
        control.Delayed(brake, samples, (model.neutral(), np.zeros(1)))  # type: ignore[arg-type]


def test_the_state_is_always_measured() -> None:
    with pytest.raises(ControlError, match="gyro=Sensor"):
        control.Sensors(gyro=None)  # pyright: ignore
