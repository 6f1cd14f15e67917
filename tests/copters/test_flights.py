"""Flights: tracking, disturbances, rotor lag, reports."""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import heavytop as ht
from heavytop import control
from heavytop.copters import (
    Conditions,
    Flight,
    RotorPlant,
    Vehicle,
    agile_law,
    angle_between,
    fly,
    load,
    quadcopter,
    quadcopter_with_load,
    remaining,
    tricopter,
    tricopter_with_load_full,
)
from heavytop.copters.catalogue import names
from heavytop.copters.propulsion import typical_propulsion
from heavytop.copters.rotor_plant import OnRotors
from heavytop.copters.vehicle import weight_of
from heavytop.errors import ControlError, ModelError
from heavytop.geometry import se3, so3
from heavytop.show import flight_report, write_page
from heavytop.simulate import simulate


@cache
def looping() -> Flight:
    return fly(quadcopter(), "looping")


@pytest.mark.thorough
def test_looping_is_followed_and_balanced() -> None:
    numbers = looping().numbers()
    assert numbers["position error max [m]"] < 0.003
    assert numbers["energy balance [J]"] < 1e-9
    assert numbers["drift off the manifold"] < 1e-13
    assert numbers["thrust largest [N]"] < 6.0
    assert looping().pose()[:, 2, 2].min() < -0.99


@pytest.mark.thorough
def test_commands_are_counted_before_the_lag() -> None:
    """With noise the commands are at their limits and chatter; the thrusts behind the lag of the motors show little of it."""
    flight = fly(quadcopter(), "hover", noise=40.0, rotors=True, until=0.3)
    commands, n = flight.run.u, flight.numbers()
    at_limit = np.any((commands <= 1e-8) | (commands >= 6.0 - 1e-8), axis=1)
    assert n["time at limits [%]"] == 100 * np.mean(at_limit) > 30
    assert 0.0 < n["thrust least [N]"] < n["thrust largest [N]"] < 6.0
    assert (n["command least [N]"], n["command largest [N]"]) == (commands.min(), commands.max())
    assert n["command change per sample [N]"] == pytest.approx(np.abs(np.diff(commands, axis=0)).mean(), rel=1e-12)
    report = flight_report(flight)
    panel = next(panel for panel in report.panels if panel.title == "Commanded thrusts")
    assert panel.limits == (0.0, 6.0)
    np.testing.assert_array_equal(panel.series["rotor 1"], commands[:, 0])
    rows = {row[0]: row[1] for table in report.tables for row in table.rows}
    assert rows["commands at their limits"] == f"{100 * np.mean(at_limit):.3g} % of the time"
    assert looping().numbers()["time at limits [%]"] == 0


@pytest.mark.thorough
def test_commands_of_a_law_with_actuators() -> None:
    """A user's law with lagging propellers: its demand is the command."""
    quad = quadcopter()
    law = quad.law(limits=False).with_reference(quad.model.integrate(quad.model.neutral(), [0, 0, 6.0, 0, 0, 0], 1.0))
    slow = control.Actuated(law, control.Propellers(0.5, lowest=0.0, highest=6.0), np.full(4, 2.2), sample_time=1e-3)
    flight = fly(quad, "hover", slow, until=0.05)
    assert flight.thrusts.max() < 4.0 < 6.0 < flight.commanded_thrusts.min()
    assert flight.numbers()["time at limits [%]"] == 100


@pytest.mark.thorough
def test_commands_of_a_detailed_plant() -> None:
    flight = fly(tricopter_with_load_full(), "hover", until=0.02)
    assert flight.commands.shape == (len(flight.t), 6)
    np.testing.assert_allclose(flight.commanded_thrusts.sum(axis=1), flight.vehicle.weight, rtol=1e-3)


@pytest.mark.thorough
def test_report_shows_the_flight(tmp_path) -> None:
    report = flight_report(looping())
    assert report.title == "Quadcopter, looping"
    titles = [panel.title for panel in report.panels]
    assert titles == ["Position", "Distance from the reference", "Attitude error", "Thrusts", "Energies"]
    assert report.panels[3].limits == (0.0, 6.0)
    assert set(report.scene.bodies) == {"hull", *(f"propeller {k}" for k in (1, 2, 3, 4))}
    np.testing.assert_allclose(report.scene.bodies["hull"].motion[-1], looping().pose()[-1])
    # a propeller whose drag turns the hull positively turns negatively
    spins = [report.scene.bodies[f"propeller {k}"].motion.angle[-1] for k in (1, 2, 3, 4)]
    assert np.sign(spins).tolist() == [-1, 1, -1, 1]
    page = write_page(report, tmp_path / "loop.html")
    assert 100_000 < page.stat().st_size < 5_000_000


@pytest.mark.thorough
def test_tilting_propellers_point_along_their_force() -> None:
    flight = fly(tricopter(), "hover-roll", until=2.0)
    scene = flight_report(flight).scene
    pod = scene.bodies["pod 2"].motion
    arrow = scene.arrows["thrust 2"]
    along = np.sum(pod[:, :3, 2] * arrow.vector, axis=-1) / np.linalg.norm(arrow.vector, axis=-1)
    np.testing.assert_allclose(along, 1.0, atol=1e-9)
    np.testing.assert_allclose(pod[:, :3, 3], arrow.origin, atol=1e-12)


@pytest.mark.thorough
def test_wind_payload_and_noise_disturb_but_do_not_destroy() -> None:
    calm = Conditions()
    assert calm.calm
    flight = fly(quadcopter(), "hover", wind=4.0, noise=1.0, payload=0.1, seed=3)
    assert 0.02 < flight.position_error.max() < 0.5
    # integral action removes most of the sag of 0.27 m by the payload
    assert flight.position_error[-1] < 0.2
    again = fly(quadcopter(), "hover", wind=4.0, noise=1.0, payload=0.1, seed=3)
    np.testing.assert_array_equal(flight.run.q, again.run.q)
    with pytest.raises(ModelError, match="payload.*-1"):  # lighter than the vehicle itself
        fly(quadcopter(), "hover", payload=-1)


@pytest.mark.thorough
def test_payload_without_integral_action_sags_as_predicted() -> None:
    flight = fly(quadcopter(), "hover", payload=0.1, integral=False)
    # z = -(m_t - m) g mbar / (m kbar), docs/control, with mbar = 1 and kbar = 4
    assert flight.pose()[-1, 2, 3] == pytest.approx(-0.1 * 9.81 / (0.9 * 4.0), rel=5e-3)


@pytest.mark.thorough
def test_the_load_swings_out() -> None:
    flight = fly(quadcopter_with_load(), "transport")
    swing = np.degrees(flight.swing_error)
    assert swing[0] == pytest.approx(25.0)
    assert swing[-1] < 0.5
    assert flight.position_error[-1] < 0.05


@pytest.mark.slow
def test_eight_bodies_fly_like_the_reduced_vehicle() -> None:
    flight = fly(tricopter_with_load_full(), "transport")
    assert flight.run.q.shape[-1] == 30
    assert flight.position_error[-1] < 0.01
    assert np.degrees(flight.swing_error[-1]) < 0.1
    assert flight.numbers()["energy balance [J]"] < 1e-8


@pytest.mark.thorough
def test_rotors_lag_and_drag_slows() -> None:
    craft = load("hummingbird")
    plant = RotorPlant(craft)
    model = craft.model
    # hover is an equilibrium with the speeds of hovering
    q, v = plant.start(model.neutral(), np.zeros(6))
    law = craft.law().with_reference(model.neutral())
    run = simulate(plant, (q, v), 0.5, 1e-3, control=OnRotors(law, craft), balance=False)
    np.testing.assert_allclose(run.q[-1, :3], 0.0, atol=1e-9)
    # a step of the command is followed with the time constant of 5 ms
    thrust = np.full(4, 4 * 0.5 * 9.81 / 4)
    run = simulate(plant, (q, v), 0.005, 1e-4, inputs=thrust, balance=False)
    n0, n1, n = v[6], 2 * v[6], run.v[-1, 6]
    assert (n1 - n) / (n1 - n0) == pytest.approx(np.exp(-1.0), rel=1e-6)
    # sideways: deceleration by rotor and frame drag at 2 m/s
    moving = np.concatenate([[2.0, 0, 0, 0, 0, 0], v[6:]])
    a = simulate(plant, (q, moving), 1e-5, 1e-5, inputs=np.full(4, 0.5 * 9.81 / 4), balance=False)
    slope = (a.v[-1, 0] - 2.0) / 1e-5
    assert slope == pytest.approx(-(4 * 1.19e-4 * v[6] * 2.0 + 0.5e-2 * 4.0) / 0.5, rel=1e-3)


def test_angle_between_poses() -> None:
    a = se3.pose(so3.exp(np.array([0.1, 0.2, 0.3])), np.zeros(3))
    b = a @ se3.pose(so3.exp(np.array([0.0, 3.0, 0.0])), np.ones(3))
    assert angle_between(a, b) == pytest.approx(3.0)


@pytest.mark.thorough
def test_flights_with_rotors_that_lag_and_drag() -> None:
    craft = load("hummingbird")
    ideal, real = fly(craft, "looping", noise=0.0), fly(craft, "looping", rotors=True, noise=0.0)
    assert ideal.position_error.max() < 0.02
    assert 0.05 < real.position_error.max() < 1.0
    assert real.position_error[-1] < 0.05
    assert real.u.shape == ideal.u.shape
    assert np.all(real.u > 0)
    with pytest.raises(ModelError, match="motors and servos"):
        RotorPlant(tricopter_with_load_full())


@pytest.mark.thorough
def test_rotors_fly_with_wind_noise_payload_and_delay() -> None:
    everything = {"wind": 2.0, "noise": 1.0, "payload": 0.05, "delay": 0.005}
    flight = fly(quadcopter(), "hover", rotors=True, until=3.0, **everything)
    assert flight.run.u.shape[-1] == 4 + 3
    assert 0.02 < flight.position_error.max() < 0.4
    # thrusts follow their commands, late
    lag = flight.u[1:] - flight.u[:-1]
    assert 0 < np.abs(lag).max() < np.abs(np.diff(flight.run.u[:, :4], axis=0)).max()
    with pytest.raises(ModelError, match=r"is 0\.1 samples of 0\.001 s"):
        fly(quadcopter(), "hover", delay=1e-4)
    with pytest.raises(ModelError, match="delay of a flight must be at most 2 s, got 1e.09"):
        fly(quadcopter(), "hover", delay=1e9)


def test_wind_in_a_rotor_plant_is_motion_through_the_air() -> None:
    """Galilei: rest in wind w is equivalent to the velocity -w in still air."""
    craft = load("hummingbird")
    blown, still = RotorPlant(craft, wind=True), RotorPlant(craft)
    q, v = blown.start(craft.model.random(3), np.zeros(6))
    R = craft.model.pose("world", "hull", q[: craft.model.nq])[:3, :3]
    wind, thrust = np.array([3.0, -1.0, 0.5]), np.full(4, 1.2)
    a = blown.motion()(q, v, np.concatenate([thrust, wind]), [])[1]
    moving = np.concatenate([-R.T @ wind, v[3:]])
    b = still.motion()(q, moving, thrust, [])[1]
    np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10)


def test_rotors_that_tilt_turn_with_their_servos() -> None:
    """The response to a command turned by 0.2 rad is that of a critically damped servo."""
    craft = tricopter()
    plant = RotorPlant(craft)
    q, v = plant.start(craft.model.neutral(), np.zeros(6))
    share = craft.mass * 9.81 / 3
    np.testing.assert_allclose(plant.forces(q, v), np.tile([0.0, share], 3), atol=1e-9)
    # level rotors carry it; their torques, of which two have one sign, turn it about the vertical
    turn = sum(rotor.drag_ratio for rotor in craft.airframe.rotors) * share / 0.024
    rates = plant.motion()(q, v, np.tile([0.0, share], 3), [])[1]
    np.testing.assert_allclose(rates, [0, 0, 0, 0, 0, turn, *np.zeros(6)], atol=1e-9)
    turned = np.tile([-share * np.sin(0.2), share * np.cos(0.2)], 3)
    run = simulate(plant, (q, v), 0.03, 1e-3, inputs=turned, balance=False)
    x = 80.0 * run.t[-1]
    np.testing.assert_allclose(run.q[-1, -3:], 0.2 * (1 - (1 + x) * np.exp(-x)), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in names() if name != "tricopter-with-load-full"])
def test_every_vehicle_flies_with_rotors(name: str) -> None:
    flight = fly(load(name), "hover", rotors=True, wind=1.0, noise=1.0, delay=0.003, until=4.0)
    blown = fly(load(name), "hover", wind=1.0, until=4.0)  # the wind alone carries a load by half a metre
    assert flight.run.outcome.ok
    assert flight.position_error.max() < max(0.5, blown.position_error.max() + 0.1)


@pytest.mark.parametrize(
    ("delay", "near"), [(0.003, "0 s or 0.005 s"), (0.0076, "0.005 s or 0.01 s"), (0.5025, "0.5 s or 0.505 s")]
)
def test_a_delay_between_samples_raises(delay: float, near: str) -> None:
    with pytest.raises(ModelError, match=f"{delay:g} s is .* samples of 0.005 s.* {near}"):
        fly(quadcopter(), "hover", delay=delay, step=0.005, until=0.1)
    with pytest.raises(ModelError, match=r"samples of 0.005 s"):
        fly(quadcopter(), "hover", "robust", delay=delay, until=0.1)


@pytest.mark.thorough
def test_a_robust_flight_takes_limits_and_no_integral_action() -> None:
    craft = quadcopter()
    start = craft.model.neutral(), np.array([0.0, 0, -8.0, 0, 0, 0])
    kept, free = (fly(craft, "hover", "robust", start=start, until=0.3, limits=on) for on in (True, False))
    assert kept.limits
    assert not free.limits
    assert kept.run.u.max() <= 6.0 + 1e-9 < free.run.u.max()
    assert free.vehicle is craft
    with pytest.raises(ControlError, match="integral="):
        fly(craft, "hover", "robust", integral=True, until=0.1)


def on_the_moon() -> Vehicle:
    craft = quadcopter()

    def describe() -> ht.System:
        system = craft.describe()
        system.gravity = (0, 0, -1.62)
        return system

    return replace(craft, model=describe().derive(), describe=describe)


@pytest.mark.thorough
def test_hovering_is_that_of_the_gravity_of_the_model() -> None:
    craft, moon = quadcopter(), on_the_moon()
    assert moon.weight == pytest.approx(0.9 * 1.62)
    plant = RotorPlant(moon)
    q, v = plant.start(moon.model.neutral(), np.zeros(6))
    assert plant.forces(q, v).sum() == pytest.approx(moon.weight)
    assert remaining(moon).lift == pytest.approx(remaining(craft).lift * 9.81 / 1.62)
    poles = (agile_law(c, position=3.0, attitude=9.0).poles() for c in (moon, craft))
    there, here = (np.sort(p.real[np.abs(p.imag) < 1e-2]) for p in poles)  # all but the pair of the yaw
    assert len(here) == 10
    np.testing.assert_allclose(there, here, rtol=1e-4)
    # idle rotors brake little: the poles of a vehicle follow from its rotors, and those on the moon are slower
    assert np.max(np.abs(agile_law(moon).poles())) < 0.8 * np.max(np.abs(agile_law(craft).poles()))
    free = tuple(replace(rotor, thrust=(0.0, np.inf)) for rotor in craft.airframe.rotors)
    top = [
        typical_propulsion(replace(c, airframe=replace(c.airframe, rotors=free))).thrust_range[1] for c in (craft, moon)
    ]
    assert top[0] / top[1] == pytest.approx(9.81 / 1.62)
    full = tricopter_with_load_full()
    assert full.full is not None
    q, v = full.full.start(full.model.neutral(), np.zeros(full.model.nv))
    assert full.full.forces(q, v).sum() == pytest.approx(weight_of(full.full.model))


def test_a_rotor_plant_carries_a_payload() -> None:
    craft = quadcopter()
    assert RotorPlant(craft, payload=0.2).passive.mass == pytest.approx(craft.mass + 0.2)
    assert craft.describe().derive(native=False).mass == craft.mass


@pytest.mark.thorough
@pytest.mark.parametrize("how", [{}, {"law": "robust", "wind": 4.0}], ids=["energy", "robust"])
def test_an_equal_flight_is_not_traced_again(how: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    first = fly(quadcopter(mass=0.91), "circle", until=0.02, **how)

    def traced(*given: Any) -> None:
        raise AssertionError("an equal flight was traced again")

    monkeypatch.setattr(sys.modules["heavytop.compile.trace"], "make_function", traced)
    again = fly(quadcopter(mass=0.91), "circle", until=0.02, **how)
    np.testing.assert_array_equal(first.run.q, again.run.q)
