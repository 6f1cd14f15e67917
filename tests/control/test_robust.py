"""Observers, prediction, identification, governor: compared with known truths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heavytop as ht
from heavytop import control
from heavytop.control import (
    AirDrag,
    CommandMemory,
    Compensated,
    ForceObserver,
    Governed,
    Hull,
    Identified,
    LagInverse,
    MomentObserver,
    OnPart,
    Predicted,
    Propellers,
    RotorState,
    Sensed,
    Sensor,
    Sensors,
    ThrustScale,
    Windy,
    flat_reference,
)
from heavytop.control.observers.compensation import DragReference
from heavytop.control.references.governor import gentle
from heavytop.copters import RotorPlant, quadcopter, robust_controller
from heavytop.copters.catalogue import load
from heavytop.errors import ControlError
from heavytop.geometry import so3

STEP = 0.005
STATE_ONLY = Sensors(accelerometer=None, rotor_speeds=None)


def craft() -> Any:
    return load("hummingbird")


def law(vehicle: Any) -> Any:
    """Without limits: small, so that it compiles fast."""
    return control.energy_law(vehicle.model, vehicle.prototype)


def hold(vehicle: Any, *wraps: Any) -> Any:
    """The law at the origin, inside wrappers, the innermost last."""
    controller: Any = OnPart(law(vehicle), vehicle.model)
    for wrap in reversed(wraps):
        controller = wrap(controller)
    return controller.with_reference(vehicle.model.neutral())


def watch(record: Any, *signals: str) -> Any:
    """Feedback with hovering inputs and a channel for the state and signals it sees."""
    return ht.Feedback(record, ("q", "v", *signals))


# --- sensors ----------------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_an_accelerometer_feels_thrust_and_not_gravity() -> None:
    model = quadcopter().model
    thrusts = np.array([2.0, 2.3, 2.1, 2.2])
    probe = watch(lambda q, v, felt: {"u": thrusts + 0 * v[:4], "felt": felt}, "accelerometer")
    run = ht.simulate(
        model,
        (model.random(3), 0.3 * np.arange(6.0)),
        0.2,
        STEP,
        control=Sensed(probe, model, Sensors(rotor_speeds=None)),
    )
    np.testing.assert_allclose(
        run.channels["felt"][1:], np.array([0, 0, np.sum(thrusts) / 0.9]) + np.zeros((40, 3)), atol=2e-3
    )
    np.testing.assert_array_equal(run.channels["felt"][0], 0.0)  # nothing was felt before


@pytest.mark.slow
def test_sensors_are_late_noisy_and_biased_as_described() -> None:
    vehicle = craft()
    plant, model = RotorPlant(vehicle), vehicle.model
    probe = watch(
        lambda q, *seen: {"u": 0.9 + 0 * seen[0][:4], "seen": np.concatenate([q[:3], *seen])},
        "accelerometer",
        "rotor_speeds",
    )
    delays = np.array([0.0, 0.01, 0.03])
    start = plant.start(np.tile(model.neutral(), (3, 1)), np.tile([1.0, -2.0, 0.5, 0.1, 0.2, 0.3], (3, 1)))
    run = ht.simulate(plant, start, 0.2, STEP, control=Sensed(probe, model, Sensors().late(delays)))
    truth, seen = np.concatenate([run.q[..., :3], run.v[..., :6]], -1), run.channels["seen"]
    for k, late in enumerate((0, 2, 6)):
        np.testing.assert_allclose(seen[late:, k, :9], truth[: len(truth) - late, k], atol=1e-12)
        np.testing.assert_allclose(seen[late:, k, -4:], run.v[: len(truth) - late, k, 6:], atol=1e-9)
        np.testing.assert_allclose(seen[:late, k, :9], truth[:1, k] + np.zeros((late, 9)), atol=1e-12)
    sensors = Sensors(position=Sensor(0.01), gyro=Sensor(0.0, bias=0.05), rotor_speeds=Sensor(3.0), seed=4)
    noisy = Sensed(probe, model, sensors, members=3)
    run = ht.simulate(plant, start, 4.0, STEP, control=noisy)
    off = run.channels["seen"] - np.concatenate(
        [run.q[..., :3], run.v[..., :6], run.channels["seen"][..., 9:12], run.v[..., 6:]], -1
    )
    np.testing.assert_allclose(off[..., :3].std(0), 0.01, rtol=0.15)
    np.testing.assert_allclose(off[..., 12:].std(0), 3.0, rtol=0.15)
    np.testing.assert_allclose(off[..., 6:9].std(0), 0.0, atol=1e-9)  # a bias is constant, and each member has its own
    assert np.ptp(off[0, :, 6:9], axis=0).min() > 1e-3
    assert np.abs(off[0, :, 6:9]).max() < 0.2
    with pytest.raises(ControlError, match="no rotors"):
        Sensed(probe, model, Sensors()).sampled(STEP).traced(model)
    with pytest.raises(ControlError, match="must not be negative"):
        Sensor(noise=-1.0)


# --- observers --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sensors",
    [pytest.param(STATE_ONLY, marks=pytest.mark.slow), Sensors(rotor_speeds=None)],
    ids=["velocity", "accelerometer"],
)
@pytest.mark.thorough
def test_a_constant_force_is_found_and_answered(sensors: Sensors) -> None:
    """Wind of 3 m/s with the drag 0.2 N s/m on 0.9 kg: 0.667 m/s^2, and the vehicle returns without integral action."""
    vehicle = quadcopter()
    windy = vehicle.describe()
    control.add_wind(windy, "hull", 0.2)
    model = vehicle.model
    controller = hold(
        vehicle,
        lambda c: Sensed(c, model, sensors),
        lambda c: ForceObserver(c, model, 0.05),
        lambda c: Compensated(c, model),
    )
    wind = control.ConstantWind((3.0, 0.0, 0.0))
    run = ht.simulate(
        windy.derive(), (model.neutral(), np.zeros(6)), 8.0, STEP, control=Windy(controller, wind), balance=False
    )
    np.testing.assert_allclose(run.channels["disturbing_acceleration"][-1], [0.2 * 3 / 0.9, 0, 0], atol=2e-3)
    assert np.linalg.norm(run.q[-1, :3]) < 2e-3
    plain = Windy(law(vehicle).with_reference(model.neutral()), wind)
    lost = ht.simulate(windy.derive(), (model.neutral(), np.zeros(6)), 8.0, STEP, control=plain, balance=False)
    assert np.linalg.norm(lost.q[-1, :3]) > 0.1


@pytest.mark.slow
def test_a_constant_moment_is_found_and_answered() -> None:
    vehicle = quadcopter()
    crooked = vehicle.describe()
    crooked.input("push", ht.Wrench("hull", moment=(0.01, -0.02, 0.003)))
    model, plant = vehicle.model, crooked.derive()

    class Pushed(control.Wrapper):
        def plant(self, model: Any) -> Any:
            return control.PartialPlant.with_inputs(model, model.u_names[:4])

        def acted(self, at: Any, u: Any) -> Any:
            return ht.vector(*(u[i] for i in range(4)), 1.0)

    wraps = (lambda c: MomentObserver(c, model, 0.05), lambda c: Compensated(c, model))
    run = ht.simulate(
        plant, (model.neutral(), np.zeros(6)), 8.0, STEP, control=Pushed(hold(vehicle, *wraps)), balance=False
    )
    expected = np.array([0.01 / 0.008, -0.02 / 0.008, 0.003 / 0.014])
    np.testing.assert_allclose(run.channels["disturbing_angular_acceleration"][-1], expected, rtol=1e-3)
    assert np.linalg.norm(run.q[-1, :3]) < 1e-3


def test_weak_thrust_is_found_and_answered() -> None:
    vehicle, weak = quadcopter(), quadcopter(thrust_gain=0.8)
    model = vehicle.model
    controller = hold(vehicle, lambda c: ThrustScale(c, model, 0.2), lambda c: Compensated(c, model))
    run = ht.simulate(weak.model, (model.neutral(), np.zeros(6)), 8.0, STEP, control=controller, balance=False)
    assert run.channels["thrust_scale"][-1, 0] == pytest.approx(0.8, abs=1e-3)
    assert abs(run.q[-1, 2]) < 1e-3


# --- actuators --------------------------------------------------------------------------------------------------------------


def stack(
    vehicle: Any, actuators: Propellers, inner: Any, sensors: Sensors, delay: float | None = None, longest: float = 0.04
) -> Any:
    model = vehicle.model
    rotors = RotorState(inner, model, actuators, delay or 0.0)
    known = Identified(rotors, model, actuators, longest=longest) if delay is None else rotors
    return Sensed(CommandMemory(known, model, actuators, longest), model, sensors)


@pytest.mark.slow
def test_delay_and_lag_are_identified() -> None:
    vehicle = craft()
    model, plant = vehicle.model, RotorPlant(vehicle, uncertain=True)
    delays, lags = np.array([0.0, 0.02, 0.035, 0.01]), np.array([0.005, 0.04, 0.025, 0.06])
    shaken = ht.Feedback(
        lambda t, v: ht.vector(*(1.2 + 0.3 * np.sin((3 + k) * t + k) for k in range(4))) + 0 * v[:4], ("t", "v")
    )
    controller = stack(vehicle, vehicle.propulsion.actuators, shaken, Sensors(rotor_speeds=Sensor(2.0)).late(delays))
    start = plant.start(np.tile(model.neutral(), (4, 1)), np.zeros((4, 6)))
    run = ht.simulate(plant, start, 1.5, STEP, control=controller, parameters={"lag": lags}, balance=False)
    np.testing.assert_allclose(run.channels["identified_delay"][-1, :, 0], delays, atol=1e-9)
    np.testing.assert_allclose(run.channels["identified_lag"][-1, :, 0], lags, rtol=1e-9)


@pytest.mark.thorough
def test_the_prediction_is_the_state_of_now() -> None:
    """Late by 30 ms, turning and accelerating: what is predicted is where the vehicle is."""
    vehicle = craft()
    model, plant, actuators = vehicle.model, RotorPlant(vehicle, drag=False), vehicle.propulsion.actuators
    seen = ht.Feedback(
        lambda t, q, v: {
            "u": ht.vector(1.3, 1.2 + 0.1 * np.sin(9 * t), 1.3, 1.2 - 0.1 * np.sin(9 * t)) + 0 * v[:4],
            "seen": q,
        },
        ("t", "q", "v"),
    )
    controller = stack(
        vehicle, actuators, Predicted(seen, model, actuators, 0.03, ahead=0.0), Sensors().late(0.03), 0.03, 0.03
    )
    start = plant.start(model.neutral(), np.array([1.0, 0.5, 0, 0.4, 0, 1.0]))
    run = ht.simulate(plant, start, 0.6, STEP, control=controller, balance=False)
    off = np.abs(run.channels["seen"] - run.q[:, :12])[20:].max(axis=0)
    late = np.abs(run.q[20:-6, :12] - run.q[26:, :12]).max(axis=0)
    assert np.max(off[:3]) < 0.05 * np.max(late[:3])
    assert np.max(off[3:]) < 0.05 * np.max(late[3:])


@pytest.mark.slow
def test_actuators_become_faster() -> None:
    """Rotors of 50 ms behave like rotors of 10 ms, as long as no limit is reached."""
    vehicle = craft()
    model, plant = vehicle.model, RotorPlant(vehicle, uncertain=True)
    actuators = Propellers(0.05, "speed", 0.0, 12.5, vehicle.propulsion.thrust_coefficient)
    step = ht.Feedback(lambda v: {"u": 1.3 + 0 * v[:4]}, ("v",))
    inner = LagInverse(step, actuators, time=0.01)
    controller = stack(vehicle, actuators, inner, Sensors(), 0.0, 0.0)
    start = plant.start(model.neutral(), np.zeros(6))
    run = ht.simulate(plant, start, 0.1, 1e-3, control=controller, parameters={"lag": 0.05}, balance=False)
    speed, end = run.v[:, 6], np.sqrt(1.3 / vehicle.propulsion.thrust_coefficient)
    np.testing.assert_allclose((speed - end) / (speed[0] - end), np.exp(-run.t / 0.01), atol=5e-3)


# --- references -------------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_a_reference_with_drag_needs_thrust_along_its_axis_only() -> None:
    vehicle = craft()
    hull, p = Hull.of(vehicle.model), vehicle.propulsion
    drag = AirDrag(
        p.rotor_drag, p.inflow, p.translational_lift, p.parasitic_drag, [r.at for r in vehicle.airframe.rotors]
    )
    bare = flat_reference(vehicle.model, control.circle(1.5, 3.0), None, (1, 0, 0), 6.0)
    reference = DragReference.of(bare, hull, drag, p.actuators)
    t = np.linspace(0.5, 5.0, 7)
    wanted, thrust_part, turn = hull.reference(*reference(t))
    plain, acceleration, _ = hull.reference(*bare(t))
    specific = acceleration - hull.gravity
    levels = p.actuators.level(
        np.linalg.norm(thrust_part - hull.gravity, axis=-1)[:, None] * hull.mass / 4 * np.ones(4)
    )
    felt = np.matvec(wanted.R, drag.acceleration(hull, plain._replace(R=wanted.R), levels))
    across = np.cross(wanted.R[..., 2], specific - felt)
    assert np.max(np.linalg.norm(felt, axis=-1)) > 1.0
    assert np.max(np.abs(across)) < 1e-6
    np.testing.assert_allclose(thrust_part, acceleration - felt, atol=1e-7)
    h = 1e-4
    (before, *_), (after, *_) = hull.reference(*reference(t - h)), hull.reference(*reference(t + h))
    omega = so3.vee(
        0.5
        * (
            np.swapaxes(wanted.R, -1, -2) @ (after.R - before.R) / (2 * h)
            - np.swapaxes(after.R - before.R, -1, -2) @ wanted.R / (2 * h)
        )
    )
    np.testing.assert_allclose(wanted.omega, omega, atol=1e-5)
    np.testing.assert_allclose(turn, (after.omega - before.omega) / (2 * h), atol=1e-4)
    rest = control.Reference.set_point(vehicle.model)
    assert DragReference.of(rest, hull, drag) is rest


def test_the_governor_passes_small_errors_and_limits_large_ones() -> None:
    vehicle = quadcopter()
    model = vehicle.model
    inner = law(vehicle)
    governed = Governed(OnPart(inner, model), model, distance=0.5, velocity=1.0, speed=4.0)
    traced = governed.composed(control.PartialPlant.of(model))
    q_R, rest, p = model.neutral(), np.zeros(6), model.parameter_vector()

    def u(r: Any, v: Any) -> np.ndarray:
        q = model.neutral()
        q[:3] = r
        given = {"q": q, "v": np.asarray(v, float), "q_R": q_R, "v_R": rest, "a_R": rest, "p": p}
        return traced(*(given[name] for name in traced.inputs))[0]

    def plain(r: Any, v: Any, v_R: Any = rest) -> np.ndarray:
        q = model.neutral()
        q[:3] = r
        return inner(q, np.asarray(v, float), q_R, v_R)

    np.testing.assert_allclose(
        u([0.2, 0, 0.3], [0.3, 0, 0, 1, 2, 3]), plain([0.2, 0, 0.3], [0.3, 0, 0, 1, 2, 3]), rtol=1e-9
    )
    # ten metres off at rest: half a metre off, and a reference that comes with the largest difference of velocity
    np.testing.assert_allclose(
        u([10, 0, 0], rest), plain([0.5, 0, 0], rest, np.array([-1.0, 0, 0, 0, 0, 0])), rtol=1e-9
    )
    assert gentle(inner, Hull.of(model)) == pytest.approx((1.22 * 9.81 / 4, 1.22 * 9.81 / 4))  # no limits: any lift
    weak = quadcopter(thrust=(0.0, 1.5 * vehicle.mass * 9.81 / 4))
    assert gentle(weak.law(), Hull.of(weak.model)) == pytest.approx((0.25 * 9.81 / 4, 0.25 * 9.81 / 4))
    with pytest.raises(ControlError, match="must be positive"):
        Governed(OnPart(inner, model), model, distance=-1.0, velocity=1.0)


@pytest.mark.slow
def test_all_of_it_flies_natively_with_everything_wrong() -> None:
    vehicle = craft()
    plant = RotorPlant(vehicle, uncertain=True)
    flown = control.robust(law(vehicle), Sensors().late(0.02), vehicle.propulsion.actuators)
    wrong = {"mass_factor": 1.2, "moment_factor": 0.8, "lag": 0.04, "thrust_factor": 0.9}
    q = vehicle.model.neutral()
    q[:3] = (2.0, -1.0, 1.0)
    run = ht.simulate(
        plant,
        plant.start(q, np.zeros(6)),
        8.0,
        STEP,
        control=flown.with_reference(vehicle.model.neutral()),
        parameters=wrong,
        balance=False,
    )
    assert np.linalg.norm(run.q[-1, :3]) < 0.02


def test_missing_signals_raise() -> None:
    vehicle = quadcopter()
    model = vehicle.model
    with pytest.raises(ControlError, match="needs levels"):
        LagInverse(OnPart(law(vehicle), model), Propellers(0.02)).sampled(STEP).with_reference(model.neutral()).traced(
            model
        )
    with pytest.raises(ControlError, match="not a single free body"):
        Hull.of(load("quadcopter-with-load").model)


@pytest.mark.thorough
def test_a_law_that_knows_lag_and_drag_needs_no_observers() -> None:
    """A circle at 4.7 m/s on the estimates of an IMU at 100 Hz and poses at 25 Hz."""
    vehicle = craft()
    model, plant = vehicle.model, RotorPlant(vehicle)
    imu = control.GyroSensor("hull", noise=0.02), control.AccelerometerSensor("hull", noise=0.2, bias=0.05, walk=0.01)
    own = ht.estimator(model, [*imu, control.PoseSensor("hull", noise=(0.005,) * 6, period=0.04)], 0.01, inputs="imu")
    sensors = Sensors(Sensor(0.005), Sensor(0.005), Sensor(), Sensor(0.02), Sensor(0.2, 0.05), None)
    curve = control.circle(1.5, np.pi)
    reference = flat_reference(model, curve, None, (1.0, 0.0, 0.0), 6.0)
    q, v, _ = reference(0.0)
    start = own.begin(q, v, 0.01, 0.05)

    def distance(**given) -> float:
        flown = robust_controller(vehicle, sensors, delay=0.0, estimator=own, start=start, **given)
        run = ht.simulate(
            plant, plant.start(q, v), 6.0, 0.002, control=flown.with_reference(reference), control_step=0.01, balance=False
        )  # fmt: skip
        off = run.q[:, :3] - reference(run.t)[0][:, :3]
        return float(np.sqrt(np.mean(np.sum(off**2, axis=1))))

    assert distance(observers=False) < 0.03
    assert distance(observers=False, drag=False) > 0.04
