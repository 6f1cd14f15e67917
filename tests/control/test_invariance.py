"""The closed loop does not depend on the coordinates."""

from __future__ import annotations

import numpy as np
import pytest

from heavytop.compile import trace_of
from heavytop.control import ClosedLoop, Integral, energy_law, figure_eight, flat_reference
from heavytop.control.references.reference import coordinates_of_motion
from heavytop.copters import quadcopter, tricopter_with_load
from heavytop.geometry import se3, so3

COORDINATES = (("matrix", "body"), ("quaternion", "mixed"), ("euler", "mixed"), ("quaternion", "unified"))
KINDS = ("P", "B", "E", "Ed")
# start and end (2 s) on the eight with w = 1.2
START = {"r": (0.5, 0.3, -0.2), "rpy": (0.3, -0.2, 0.4), "velocity": (3.0, 4.0, 0.5), "omega": (0.2, -0.1, 0.3)}
END_OF_P = (2.69257239, -2.00391245, 0.00134918)


def start_of(model) -> tuple[np.ndarray, np.ndarray]:
    R = so3.from_roll_pitch_yaw(np.array(START["rpy"]))
    xi = np.concatenate([R.T @ START["velocity"], START["omega"]])
    q, v, _ = coordinates_of_motion(model, se3.pose(R, START["r"]), xi, np.zeros(6))
    return q, v


@pytest.mark.parametrize("kind", KINDS)
def test_inputs_agree_in_all_coordinates(lab, kind: str) -> None:
    rng = np.random.default_rng(0)
    G, G_R = se3.random(rng, (10,)), se3.random(rng, (10,))
    xi, xi_R, rate = rng.standard_normal((3, 10, 6))
    results = []
    for attitude, velocity in COORDINATES:
        craft = quadcopter(attitude=attitude, velocity=velocity)
        q, v, _ = coordinates_of_motion(craft.model, G, xi, np.zeros((10, 6)))
        desired = coordinates_of_motion(craft.model, G_R, xi_R, rate)
        law = lab.LAWS[kind](craft.model, craft.prototype)
        results.append(law.traced_law(q, v, *desired, [])[0])
    for other in results[1:]:
        np.testing.assert_allclose(other, results[0], atol=1e-10 * np.max(np.abs(results[0])))


@pytest.mark.parametrize("kind", ["P", *(pytest.param(k, marks=pytest.mark.slow) for k in ("B", "E", "Ed"))])
@pytest.mark.thorough
def test_flights_agree_in_all_coordinates(lab, kind: str) -> None:
    ends = []
    for attitude, velocity in COORDINATES[:3]:
        craft = quadcopter(attitude=attitude, velocity=velocity)
        reference = flat_reference(craft.model, figure_eight(1.2), heading=(1, 0, 0))
        law = lab.LAWS[kind](craft.model, craft.prototype)
        loop = ClosedLoop(craft.model, law.with_reference(reference))
        flight = loop.fly(start_of(craft.model), 2.0, step=5e-4, record_every=4000)
        ends.append(craft.model.pose("world", "hull", flight.q[-1]))
    for other in ends[1:]:
        np.testing.assert_allclose(other, ends[0], atol=1e-10)
    if kind == "P":
        np.testing.assert_allclose(ends[0][:3, 3], END_OF_P, atol=6e-9)


@pytest.mark.parametrize("kind", ["P", "B", "Ed"])
def test_absolute_and_relative_load_velocity(lab, kind: str) -> None:
    """Inputs and accelerations of the bodies agree for a moving reference."""
    relative, absolute = (tricopter_with_load(load_velocity=frame) for frame in ("relative", "absolute"))
    rng = np.random.default_rng(1)
    q, q_R = relative.model.random(rng, (2, 8))
    v, v_R, a_R = rng.standard_normal((3, 8, 9))

    def absolute_velocity(q, v):
        w = np.matvec(relative.model.jacobian("world", "load", q), v)[:, 3:]
        return np.concatenate([v[:, :6], w], axis=1)

    e = relative.model.expressions
    bias = trace_of("bias", {"q": e.q, "v": e.v, "p": e.p}, {"bias": e.kinematics.motion("world", "load").bias})

    def absolute_acceleration(q, v, a):
        w_rate = (np.matvec(relative.model.jacobian("world", "load", q), a) + bias(q, v, [])[0])[:, 3:]
        return np.concatenate([a[:, :6], w_rate], axis=1)

    first = lab.LAWS[kind](relative.model, relative.prototype)
    second = lab.LAWS[kind](absolute.model, absolute.prototype)
    u = first.traced_law(q, v, q_R, v_R, a_R, [])[0]
    other = second.traced_law(
        q, absolute_velocity(q, v), q_R, absolute_velocity(q_R, v_R), absolute_acceleration(q_R, v_R, a_R), []
    )[0]
    np.testing.assert_allclose(other, u, atol=1e-10 * np.max(np.abs(u)))
    a = relative.model.acceleration(q, v, u)
    b = absolute.model.acceleration(q, absolute_velocity(q, v), u)
    np.testing.assert_allclose(b, absolute_acceleration(q, v, a), atol=1e-10 * np.max(np.abs(a)))


@pytest.mark.parametrize("kind", ["P", "B", "Ed"])
def test_load_velocity_at_a_set_point(lab, kind: str) -> None:
    relative, absolute = (tricopter_with_load(load_velocity=frame) for frame in ("relative", "absolute"))
    rng = np.random.default_rng(2)
    q, v = relative.model.random(rng, (8,)), rng.standard_normal((8, 9))
    w = np.concatenate([v[:, :6], np.matvec(relative.model.jacobian("world", "load", q), v)[:, 3:]], axis=1)
    zero = np.zeros(9)
    results = [
        lab.LAWS[kind](craft.model, craft.prototype).traced_law(q, x, craft.model.neutral(), zero, zero, [])[0]
        for craft, x in ((relative, v), (absolute, w))
    ]
    np.testing.assert_allclose(results[1], results[0], atol=1e-10 * np.max(np.abs(results[0])))


def test_integral_action_is_invariant(lab) -> None:
    rng = np.random.default_rng(3)
    G, xi, z = se3.random(rng, (10,)), rng.standard_normal((10, 6)), rng.standard_normal((10, 6))
    values = []
    for attitude, velocity in COORDINATES:
        craft = quadcopter(attitude=attitude, velocity=velocity)
        law = energy_law(craft.model, craft.prototype, integral=Integral("hull", gain=2.0, moment_gain=0.1))
        q, v, _ = coordinates_of_motion(craft.model, G, xi, np.zeros((10, 6)))
        values.append(law.traced_law(q, v, craft.model.neutral(), np.zeros(6), np.zeros(6), [], z))
    for u, rate in values[1:]:
        np.testing.assert_allclose(u, values[0][0], atol=1e-9)
        np.testing.assert_allclose(rate, values[0][1], atol=1e-12)
