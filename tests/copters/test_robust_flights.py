"""The robust controller under all conditions, margins compared with flights, dead rotors, sensors in files, RotorPy's law."""

from __future__ import annotations

import re
import subprocess
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from heavytop_bench import failures, reality
from heavytop_bench.geometric import GeometricLaw
from heavytop_bench.hummingbird import courses
from heavytop_bench.peers import rotorpy as rotorpy_peer

import heavytop as ht
from heavytop.control import (
    Actuated,
    ConstantWind,
    Delayed,
    Propellers,
    Reference,
    Sensors,
    Windy,
    export_controller,
    linearize,
    robust,
)
from heavytop.control.linear.margins import loop_matrices
from heavytop.copters import (
    RotorPlant,
    agile_law,
    bicopter,
    catalogue,
    dead_rotor_law,
    fly,
    hexacopter,
    load,
    octocopter,
    quadcopter,
    remaining,
    robust_controller,
    tricopter,
)
from heavytop.copters.catalogue.toml_airframe import read_airframe
from heavytop.errors import ControlError, FileFormatError, HeavytopError, ModelError
from heavytop.simulate import Ending

# --- margins ----------------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_margins_are_where_the_loop_becomes_unstable() -> None:
    """At the margin of the lag the linearised loop with such actuators changes its stability; the gain likewise."""
    craft = quadcopter()
    law = craft.law(limits=False)
    found = law.margins()
    model, hover = craft.model, np.full(4, craft.mass * 9.81 / 4)
    for factor, stable in ((0.98, True), (1.02, False)):
        slow = Actuated(law.with_reference(model.neutral()), Propellers(factor * found.lag), hover)
        assert linearize(model, slow, model.neutral(), z=hover).is_stable() is stable
    open_loop, cut = loop_matrices(law, Reference.set_point(model), 0.0)
    assert np.max(np.linalg.eigvals(open_loop - 1.01 * found.gain[0] * cut).real) < 0
    assert np.max(np.linalg.eigvals(open_loop - 0.99 * found.gain[0] * cut).real) > 0
    # phase, delay and crossover belong together where one loop decides
    w = found.crossover
    locus = np.linalg.eigvals(np.linalg.solve(1j * w * np.eye(12) - open_loop, cut)) * np.exp(-1j * w * found.delay)
    assert np.min(np.abs(1 + locus)) < 0.02
    assert "delay margin" in found.report()


@pytest.mark.slow
def test_flights_confirm_the_delay_margin() -> None:
    craft = quadcopter()
    model, law = craft.model, craft.law(limits=False)
    margin, step = law.margins().delay, 2e-3
    q, v = model.neutral(), np.full(6, 1e-4)
    for factor, calm in ((0.9, True), (1.1, False)):
        # half a sample of delay is in the sampling itself
        late = Delayed(law.with_reference(model.neutral()), round(factor * margin / step - 0.5), (q, v))
        run = ht.simulate(model, (q, v), 30.0, step, control=late, balance=False)
        assert bool(np.abs(run.v[-500:]).max() < 1e-4) is calm


# --- conditions -------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_every_start_recovers_in_every_condition() -> None:
    for cases, options in ((reality.QUIET, {}), (reality.ROUGH, {}), (reality.SLOW, {"rate": 50.0})):
        for found in reality.recover(cases, 20, **options):
            assert found.share == 1.0, found
    for found in reality.recover(reality.FAR_STARTS, 50, spread=reality.FAR, seconds=20.0):
        assert found.share == 1.0, found
        assert found.drop < 5.0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["circle 1.5 m 0.5 Hz", "minimum snap"])
def test_courses_are_followed_within_millimetres(name: str) -> None:
    start, delayed = (0.035, 0.040) if "1.5" in name else (0.008, 0.015)
    for found in reality.track(courses()[name]):
        assert found.late < (0.010 if "drag" in found.name or "delay" in found.name else 0.005), found
        assert found.rms < (delayed if "delay" in found.name else start), found


@pytest.mark.slow
def test_a_dead_rotor_is_noticed_and_survived() -> None:
    for cases in (reality.DEAD, reality.DEAD_ROUGH):
        for found in reality.recover(cases, 20, "survivor", spread=None, seconds=20.0):
            assert found.within_3_m == 1.0, found
    still, windy = reality.two_dead(20)
    assert still.within_3_m == windy.within_5_m == 1.0
    assert reality.hexacopter_eight() < 0.03


@pytest.mark.thorough
def test_lost_blade_and_stuck_motor_are_survived_without_announcement() -> None:
    for found in reality.recover(reality.FAILED, 8, "survivor", spread=None, seconds=8.0):
        assert found.within_3_m == 1.0, found


@pytest.mark.slow
def test_failures_in_noise_and_gusts_and_in_the_middle_of_a_flip() -> None:
    for found in reality.recover(reality.FAILED_ROUGH, 20, "survivor", spread=None, seconds=20.0):
        assert found.within_5_m == 1.0, found
    for kind in failures.KINDS:
        end, drop = failures.in_a_course(load("hummingbird"), (0.8, 1.4, 1.5), kind)
        assert end.max() < 0.5, kind
        assert drop.max() < 2.0, kind


@pytest.mark.parametrize("name", ["racer", "hexacopter"])
@pytest.mark.thorough
def test_unannounced_failures_of_other_vehicles(name: str) -> None:
    """The right rotor is given up, a weak one is kept, and the position is held."""
    for held in failures.fail(failures.VEHICLES[name](), failures.SINGLE, 4, seconds=5.0):
        assert held.held == 1.0, held
        assert held.found == 1.0 or held.name == "stuck", (
            held
        )  # a stuck rotor near its hover thrust need not be noticed


@pytest.mark.parametrize("name", ["quadcopter", "hexacopter"])
@pytest.mark.thorough
def test_two_blades_lost_at_the_same_instant(name: str) -> None:
    """No rotor alone explains the residual: the pair is isolated, and the other rotors hold the position."""
    cases = (failures.Failure("lost blade", (0, 2)), failures.Failure("lost blade", (1, 3), wind=3.0))
    still, windy = failures.fail(failures.VEHICLES[name](), cases, 4, seconds=6.0)
    assert still.held == still.back == still.found == windy.held == 1.0, (still, windy)
    assert max(still.farthest, windy.farthest) < 1.0


@pytest.mark.thorough
def test_two_opposite_dead_rotors_in_steady_wind() -> None:
    """One input balances the moment of the wind together with a nutation, which the law must not oppose."""
    craft = load("hummingbird")
    plant = RotorPlant(craft, uncertain=True, wind=True)
    flown = robust_controller(craft, Sensors(), failures=True).with_reference(craft.model.neutral())
    start = plant.start(craft.model.neutral(), np.zeros(6))
    run = ht.simulate(
        plant, start, 12.0, 5e-3, control=Windy(flown, ConstantWind((0.0, 5.0, 0.0))), balance=False,
        parameters={"rotor1_health": 0.0, "rotor3_health": 0.0},
    )  # fmt: skip
    assert run.outcome.ok
    assert np.linalg.norm(run.q[:, :3], axis=-1).max() < 2.5


@pytest.mark.parametrize("kind", ["health", "thrust"])
@pytest.mark.thorough
def test_two_adjacent_rotors_that_fail_are_reported_as_lost(kind: str) -> None:
    """Nothing holds the position: the outcome says so, and the fall is braked; the flight without a rotor beside it is finished."""
    craft = load("hummingbird")
    plant = RotorPlant(craft, uncertain=True)
    flown = robust_controller(craft, Sensors(), failures=True).with_reference(craft.model.neutral())
    start = plant.start(np.tile(craft.model.neutral(), (2, 1)), np.zeros((2, 6)))
    failed = {f"rotor0_{kind}": np.zeros(2), f"rotor1_{kind}": np.array([0.0, 1.0])}
    run = ht.simulate(plant, start, 5.0, 5e-3, control=flown, parameters=failed, balance=False)
    assert [o.ending for o in run.outcomes] == [Ending.lost, Ending.finished]
    assert "cannot hold its position" in run.outcome.message
    sink = -np.gradient(run.q[:, 0, 2], run.t)
    assert sink.max() < 10.0  # without thrust 20 m/s
    assert run.channels["dead"][-1, 1].tolist() == [1, 0, 0, 0]


@pytest.mark.slow
def test_no_sound_rotor_is_given_up() -> None:
    for cases in (reality.QUIET, reality.ROUGH):
        for found in reality.recover(cases, 20, "survivor"):
            assert found.share == 1.0, found


def test_capabilities_with_dead_rotors() -> None:
    assert remaining(octocopter(), 0).controls == ("roll", "pitch", "yaw")
    assert "holds its position and spins" in str(remaining(quadcopter(), 2))
    assert not remaining(hexacopter(), 0, 1).holds_position
    assert remaining(hexacopter(), 0).holds_position
    with pytest.raises(ControlError, match="it falls"):
        dead_rotor_law(quadcopter(), 0, 1)


def test_gains_of_a_dead_rotor_hold_the_axis() -> None:
    """Hovering in the relative equilibrium needs no more than its own thrusts: the weight is carried, the moments balance."""
    craft = load("hummingbird")
    law = dead_rotor_law(craft, 0)
    assert law.gains.shape == (25, 2, 4)  # pyright: ignore[reportAttributeAccessIssue]
    model = craft.model
    u = law(model.neutral(), np.array([0, 0, 0, 0, 0, -13.0]), model.neutral())
    assert u[0] == 0
    assert np.sum(u) == pytest.approx(craft.mass * 9.81, rel=0.25)


# --- files, flights, export -------------------------------------------------------------------------------------------------


def test_sensors_in_a_file() -> None:
    text = Path(catalogue.__file__).with_name("hummingbird.toml").read_text(encoding="utf-8")
    sensors = read_airframe(text).sensors
    assert sensors is not None
    assert sensors.accelerometer is not None
    assert (sensors.position.noise, sensors.accelerometer.bias) == (0.005, 0.05)
    without = read_airframe(text.replace("rotor_speeds = {noise = 2.5} ", "rotor_speeds = false ")).sensors
    assert without is not None
    assert "rotor_speeds" not in without.names
    for old, new, message in (
        ("{noise = 0.005}", "{nois = 0.005}", r"line 2\d: unknown key 'nois'"),
        ("{noise = 0.005}", "{noise = -1}", "non-negative"),
        ("gyro = {noise = 0.02}", "gyro = false", "'gyro' must be measured"),
        ("gyro =", "gyros =", "Did you mean 'gyro'"),
    ):
        with pytest.raises(FileFormatError, match=message):
            read_airframe(text.replace(old, new, 1))


SENSING = "[sensors]\nposition = {noise = 0.02, delay = 0.01}\ngyro = {bias = 0.01}\n"


def small(tail: str = "") -> Any:
    """A quadcopter from a file."""
    corners = ((0.1, 0.1, 1), (-0.1, 0.1, -1), (-0.1, -0.1, 1), (0.1, -0.1, -1))
    rotors = "".join(f"[[rotor]]\nat = [{x}, {y}, 0.0]\ntorque = {s}\n" for x, y, s in corners)
    head = "name = 'small'\nmass = 0.5\nmoment = [0.003, 0.003, 0.006]\n"
    drive = "[rotors]\nthrust_coefficient = 5e-6\ntorque_coefficient = 1e-7\nspeed = [0.0, 1400.0]\n"
    return read_airframe(head + drive + rotors + tail)


@pytest.mark.parametrize("how", [{}, {"law": "robust", "rotors": True}])
@pytest.mark.thorough
def test_sensors_of_a_file_are_there_in_every_flight(how: dict[str, Any]) -> None:
    """Noise and delay act with every law unless noise=0 takes the first away; a file without the table has perfect sensors."""
    craft = small(SENSING)
    flight = fly(craft, "hover", until=1.0, **how)
    assert flight.outcome.ok
    assert flight.conditions.noise == 1.0
    assert not flight.conditions.calm
    none = fly(craft, "hover", until=1.0, noise=0.0, **how)
    assert none.position_error.max() < 1e-4
    assert flight.position_error.max() > 1e-3


@pytest.mark.thorough
def test_a_bare_law_sees_late_what_the_file_says_is_late() -> None:
    """The commands follow from the state 10 ms ago."""
    names = ("position", "attitude", "velocity", "gyro")
    craft = small("[sensors]\n" + "".join(f"{name} = {{delay = 0.01}}\n" for name in names))
    q = craft.model.neutral() + np.eye(12)[2] * 0.1
    late, prompt = (fly(c, "hover", until=0.02, start=(q, np.array([0, 0, 1.0, 0, 0, 0]))) for c in (craft, small()))
    assert np.ptp(late.run.u[:10], axis=0).max() < 1e-12
    assert np.ptp(late.run.u[:13], axis=0).max() > 1e-3
    assert np.ptp(prompt.run.u[:10], axis=0).max() > 1e-3
    with pytest.raises(ModelError, match=r"is 0\.5 samples"):
        fly(craft, "hover", until=0.1, delay=5e-4)


@pytest.mark.thorough
def test_sensors_that_cannot_be_simulated_raise() -> None:
    arm = "[[limb]]\nname = 'arm'\nmass = 0.05\ntip = [0.0, 0.0, -0.1]\n"
    with pytest.raises(ControlError, match=r"'small' cannot be simulated: .* not a single free body"):
        fly(small(SENSING + arm), "hover", until=0.1)


@pytest.mark.thorough
def test_a_controller_with_sensors_is_not_sensed_twice() -> None:
    craft = small(SENSING + "rotor_speeds = false\n")
    flight = fly(craft, "hover", lambda v: robust(agile_law(v), v.sensors), until=0.1, step=5e-3)
    assert flight.conditions.sensors is None
    assert flight.conditions.noise == 0


@pytest.mark.parametrize("make", [bicopter, tricopter])
@pytest.mark.thorough
def test_the_robust_controller_of_tilting_rotors(make: Any) -> None:
    """Their servos are predicted: wind, late and noisy measurements and an unknown payload at the same time."""
    flight = fly(make(), "hover", "robust", rotors=True, wind=3.0, delay=0.015, noise=1.0, payload=0.1, until=6.0)
    assert flight.outcome.ok
    assert flight.position_error.max() < 0.25
    assert fly(make(), "hover", law="robust", until=0.5).outcome.ok


@pytest.mark.thorough
def test_a_robust_flight_of_no_duration_is_its_start() -> None:
    flight = fly(quadcopter(), "hover", law="robust", until=0)
    assert flight.t.tolist() == [0.0]
    with pytest.raises(HeavytopError, match="until"):
        fly(quadcopter(), "hover", law="robust", until=-1.0)


@pytest.mark.thorough
def test_a_flight_that_tumbles_is_lost() -> None:
    flight = fly(quadcopter(), "hover", until=1.0)
    assert flight.outcome.ok
    assert flight.margins is not None
    spinning = flight.run.v.copy()
    spinning[:, 3] = 30.0
    run = SimpleNamespace(outcome=flight.run.outcome, v=spinning, q=flight.run.q, t=flight.run.t, batch=())
    lost = replace(flight, run=run).outcome  # pyright: ignore[reportArgumentType]
    assert lost.ending is Ending.lost
    assert not lost.ok
    assert "tumbles" in lost.message
    assert "falls" not in lost.message
    dropped = flight.run.q.copy()
    dropped[:, 2] -= 5.0 * flight.t**2
    run = SimpleNamespace(
        outcome=flight.run.outcome, v=flight.run.v, q=dropped - 3 * np.eye(12)[2], t=flight.t, batch=()
    )
    lost = replace(flight, run=run).outcome  # pyright: ignore[reportArgumentType]
    assert lost.ending is Ending.lost
    assert re.search(r"8 m from the reference .*; it falls at (9\.99|10) m/s, 8 m below the reference", lost.message)


@pytest.mark.slow
def test_the_robust_law_by_name() -> None:
    plain = fly(load("hummingbird"), "circle", rotors=True, delay=0.01, noise=1.0, wind=3.0)
    flight = fly(load("hummingbird"), "circle", "robust", rotors=True, delay=0.01, noise=1.0, wind=3.0)
    assert flight.outcome.ok
    assert flight.position_error[2000:].max() < 0.15 < plain.position_error[2000:].max()
    assert fly(quadcopter(), "step", "robust", payload=0.2).position_error[-1] < 0.02


@pytest.mark.slow
def test_export_of_the_robust_controller_as_c(tmp_path: Path) -> None:
    craft = load("hummingbird")
    controller = robust_controller(craft, Sensors(), law=craft.law(limits=False))
    export_controller(controller, tmp_path, 0.005)
    done = subprocess.run(["make", "-C", str(tmp_path), "test"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    with pytest.raises(ControlError, match="without one"):
        export_controller(controller.with_reference(craft.model.neutral()), tmp_path, 0.005)


# --- RotorPy ----------------------------------------------------------------------------------------------------------------


@pytest.mark.peers
def test_the_geometric_law_is_that_of_rotorpy() -> None:
    control = pytest.importorskip("rotorpy.controllers.quadrotor_control")
    from scipy.spatial.transform import Rotation

    craft = load("hummingbird")
    law, theirs = GeometricLaw(craft), control.SE3Control(rotorpy_peer._parameters())
    rng = np.random.default_rng(2)
    for _ in range(8):
        q, twist, place, speed, push = craft.model.random(rng), *(rng.standard_normal(n) for n in (6, 3, 3, 3))
        R = craft.model.pose("world", "hull", q)[:3, :3]
        state = {"x": q[:3], "v": R @ twist[:3], "q": Rotation.from_matrix(R).as_quat(), "w": twist[3:]}
        flat = {
            "x": place,
            "x_dot": speed,
            "x_ddot": push,
            "x_dddot": 0 * push,
            "x_ddddot": 0 * push,
            "yaw": 0.0,
            "yaw_dot": 0.0,
            "yaw_ddot": 0.0,
        }
        q_R = craft.model.neutral()
        q_R[:3] = place
        u = law(q, twist, q_R, np.concatenate([speed, np.zeros(3)]), np.concatenate([push, np.zeros(3)]))
        np.testing.assert_allclose(u, theirs.update(0.0, state, flat)["cmd_motor_thrusts"], rtol=1e-6, atol=1e-6)


def test_agile_law_has_its_poles() -> None:
    craft = load("hummingbird")
    law = agile_law(craft, 4.0, 12.0)
    hover = linearize(craft.model, law.with_reference(craft.model.neutral()), craft.model.neutral())
    assert np.min(np.abs(hover.poles + 12.0)) < 1e-2


@pytest.mark.slow
@pytest.mark.parametrize(("radius", "frequency"), reality.OVERDEMANDS)
def test_a_reference_that_no_input_can_follow(radius: float, frequency: float) -> None:
    """The vehicle recovers: no tumbling, a bounded drop, at the set point some seconds after the demand ends."""
    run, off = reality.overdemand(radius, frequency)
    assert run.outcome.ok
    assert off.max() > 1.0  # it could not be followed
    assert run.q[:, 2].min() > -3.0
    assert np.max(off[run.t > 9.0]) < 0.05
