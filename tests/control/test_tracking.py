"""Tracking errors against an independent computation with the same vehicles, steps and starts."""

from __future__ import annotations

import numpy as np
import pytest

import heavytop as ht
from heavytop import control
from heavytop.control import (
    ClosedLoop,
    Reference,
    VirtualVehicle,
    figure_eight,
    lateral_lever,
    looping,
    oscillation_reference,
    smoothstep,
    virtual_reference,
)
from heavytop.copters import tilting_thrusts
from heavytop.geometry import se3, so3

# manoeuvre, law: errors from a wrong start; with wrong mass and inertia (A); also with wrong thrust (B').
# Each: position max, rms (m), attitude max, rms (degrees).
QUADCOPTER = {
    ("loop", "P"): ((0.866, 0.2848, 20, 3.33), (0.328, 0.244, 8.21, 2.56), (0.711, 0.536, 18.9, 5.74)),
    ("loop", "Ed"): ((0.866, 0.2842, 20, 3.33), (0.302, 0.236, 5.94, 2.09), (0.668, 0.519, 13.0, 4.42)),
    ("loop", "B"): ((3.205, 1.449, 180, 50.6), (5.22, 2.30, 180, 57), (5.52, 2.46, 180, 58)),
    ("loop", "E"): ((3.191, 1.489, 99.9, 35.1), (1.48, 0.709, 45.4, 15.4), (1.47, 0.763, 84, 23.7)),
    ("eight0.8", "P"): ((0.907, 0.2063, 20, 2.29), (0.261, 0.246, 1.18, 0.765), (0.581, 0.547, 2.52, 1.62)),
    ("eight0.8", "Ed"): ((0.907, 0.2055, 20, 2.31), (0.261, 0.246, 1.18, 0.766), (0.581, 0.547, 2.51, 1.62)),
    ("eight0.8", "B"): ((0.921, 0.2084, 20, 2.87), (0.281, 0.260, 2.05, 1.55), (0.621, 0.579, 4.56, 3.34)),
    ("eight1.5", "P"): ((1.046, 0.3099, 23.7, 5.33), (0.299, 0.235, 7.44, 3.79), (0.671, 0.549, 14.8, 7.53)),
    ("eight1.5", "Ed"): ((1.046, 0.3129, 22.2, 5.01), (0.306, 0.234, 6.93, 3.72), (0.667, 0.543, 13.4, 7.08)),
    ("eight1.5", "B"): ((1.253, 0.6549, 33.4, 15.6), (1.70, 0.855, 71.7, 22.5), (3.48, 1.90, 135, 43.8)),
    ("flip", "P"): ((0.866, 0.3023, 20, 7.53), (0.265, 0.222, 5.13, 1.02), (0.638, 0.508, 40.7, 8.87)),
    ("flip", "Ed"): ((0.866, 0.3028, 20, 3.72), (0.264, 0.220, 1.36, 0.370), (0.594, 0.495, 6.64, 1.78)),
    ("flip", "B"): ((3.79, 1.61, 180, 69), (15.0, 6.65, 180, 67), None),
}
FAST = {("loop", "Ed"), ("loop", "B"), ("flip", "Ed")}
ROWS = [pytest.param(*key, marks=() if key in FAST else pytest.mark.slow) for key in QUADCOPTER]
CLOSE = {"rtol": 8e-3, "atol": 6e-4}
"""About one unit in the last digit given, of numbers with two to four digits."""


@pytest.mark.parametrize(("name", "kind"), ROWS)
@pytest.mark.thorough
def test_quadcopter(lab, name: str, kind: str) -> None:
    reference, until = lab.manoeuvre(name)
    law = lab.law("quadcopter", kind)
    plants = (lab.vehicle("quadcopter").model, lab.disturbed("quadcopter"), lab.disturbed("quadcopter", 0.9))
    starts = (lab.turned(reference(0.0)[0], 0.5, 20.0), None, None)
    for plant, start, expected in zip(plants, starts, QUADCOPTER[name, kind], strict=True):
        if expected is not None:
            np.testing.assert_allclose(lab.track(plant, law, reference, until, start), expected, **CLOSE)


@pytest.mark.parametrize(
    ("name", "kind"),
    [("loop", "Ed"), *(pytest.param(*k, marks=pytest.mark.slow) for k in QUADCOPTER if k != ("loop", "Ed"))],
)
def test_nothing_happens_on_the_reference(lab, name: str, kind: str) -> None:
    reference, until = lab.manoeuvre(name)
    measured = lab.track(lab.vehicle("quadcopter").model, lab.law("quadcopter", kind), reference, until)
    assert measured[0] < (1.2e-9 if kind == "Ed" else 2e-8)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("loop", (0.866, 0.2842)),
        pytest.param("eight1.5", (1.063, 0.3181), marks=pytest.mark.slow),
        pytest.param("flip", (0.866, 0.3118), marks=pytest.mark.slow),
    ],
)
@pytest.mark.thorough
def test_quadcopter_with_limits(lab, name: str, expected: tuple[float, float]) -> None:
    reference, until = lab.manoeuvre(name)
    law = lab.law("quadcopter", "Ed", (0.0, 6.0, 100.0))
    start = lab.turned(reference(0.0)[0], 0.5, 20.0)
    measured = lab.track(lab.vehicle("quadcopter").model, law, reference, until, start)
    np.testing.assert_allclose(measured[:2], expected, atol=6e-4)


def test_static_sag(lab) -> None:
    """z = -(m_t / c_t - m) g mbar / (m kbar) at a set point."""
    law, model = lab.law("quadcopter", "Ed"), lab.vehicle("quadcopter").model
    for gain, sag in ((1.0, 0.24525), (0.9, 0.54500)):
        plant = lab.disturbed("quadcopter", gain)
        flight = ClosedLoop(plant, law.with_reference(model.neutral())).fly(
            (model.neutral(), np.zeros(6)), 12.0, step=5e-3
        )
        assert flight.q[-1, 2] == pytest.approx(-sag, abs=6e-6)


# --- tricopter --------------------------------------------------------------------------------------------------------------


def level_loop(model) -> Reference:
    path = looping(1.5, 5.0)
    return Reference.from_pose(model, lambda t: se3.pose(np.eye(3), path(t)), duration=6.0)


def hover_roll(model) -> Reference:
    def pose(t):
        return se3.pose(so3.rotation_about("x", 2 * np.pi * smoothstep(t / 3.0)), np.zeros(3))

    return Reference.from_pose(model, pose, duration=4.0)


def test_thrusts_of_the_tricopter_references(lab) -> None:
    model = lab.vehicle("tricopter").model
    thrust, _ = tilting_thrusts(level_loop(model).feasibility(samples=6001).inputs)
    assert thrust.min() == pytest.approx(0.003, abs=6e-4)
    thrust, tilt = tilting_thrusts(hover_roll(model).feasibility(samples=6001).inputs)
    assert (thrust.min(), thrust.max()) == (pytest.approx(3.68, abs=6e-3), pytest.approx(7.84, abs=6e-3))
    turns = (np.unwrap(tilt, axis=0)[-1] - tilt[0]) / (2 * np.pi)
    np.testing.assert_allclose(np.abs(turns), 1.0, atol=1e-9)  # each arm turns once


TRICOPTER = {
    ("loop", "Ed"): ((0.866, 0.2283, 60, 9.13), (0.1485, 0.1064), (0.3307, 0.2367)),
    ("roll", "Ed"): ((0.866, 0.2796, 60, 11.2), (0.1090, 0.0958, 0.350, 0.194), (0.2425, 0.2133)),
    ("roll", "B"): ((0.866, 0.2796, 60, 11.2), (0.1074, 0.0729, 0.350, 0.194), (0.2408, 0.1692)),
}


@pytest.mark.parametrize(
    ("name", "kind"), [pytest.param(*k, marks=() if k == ("roll", "B") else pytest.mark.slow) for k in TRICOPTER]
)
@pytest.mark.thorough
def test_tricopter(lab, name: str, kind: str) -> None:
    model = lab.vehicle("tricopter").model
    reference, until = (level_loop(model), 6.0) if name == "loop" else (hover_roll(model), 4.0)
    law = lab.law("tricopter", kind)
    plants = (model, lab.disturbed("tricopter"), lab.disturbed("tricopter", 0.9))
    starts = (lab.turned(reference(0.0)[0], 0.5, 60.0), None, None)
    for plant, start, expected in zip(plants, starts, TRICOPTER[name, kind], strict=True):
        measured = lab.track(plant, law, reference, until, start)
        np.testing.assert_allclose(measured[: len(expected)], expected, **CLOSE)


# --- bicopter ---------------------------------------------------------------------------------------------------------------

LEVERS = {"xz": lateral_lever(0.006, 1.0, 0.10), "yz": lateral_lever(0.020, 1.0, 0.25 / np.tan(np.deg2rad(15)) + 0.10)}
BICOPTER = {
    "xz": ((0.520, 0.122, 15, 2.1), (0.276, 0.229, 0.80, 0.48), (0.613, 0.509, 1.48, 1.04)),
    "yz": ((0.534, 0.149, 15, 2.04), (0.276, 0.229), (0.613, 0.509)),
}


@pytest.mark.parametrize("plane", [pytest.param("xz", marks=pytest.mark.slow), "yz"])
@pytest.mark.thorough
def test_bicopter_in_a_vertical_plane(lab, plane: str) -> None:
    model, law = lab.vehicle("bicopter").model, lab.law("bicopter", "Ed")
    until = 4 * np.pi / 1.2
    reference = oscillation_reference(model, figure_eight(1.2, 3.0, 0.5, plane), LEVERS[plane], period=until / 2)
    assert reference.feasibility().largest_residual < 1e-12
    assert lab.track(model, law, reference, until)[0] < 1e-12
    plants = (model, lab.disturbed("bicopter"), lab.disturbed("bicopter", 0.9))
    starts = (lab.turned(reference(0.0)[0], 0.3, 15.0), None, None)
    for plant, start, expected in zip(plants, starts, BICOPTER[plane], strict=True):
        measured = lab.track(plant, law, reference, until, start)
        np.testing.assert_allclose(measured[: len(expected)], expected, rtol=1e-2, atol=6e-4)


@pytest.mark.thorough
def test_bicopter_horizontal_eight_and_virtual_vehicle(lab) -> None:
    model, law = lab.vehicle("bicopter").model, lab.law("bicopter", "Ed")
    until = 4 * np.pi / 0.8
    reference = oscillation_reference(model, figure_eight(0.8), LEVERS["xz"], period=until / 2)
    assert reference.feasibility(samples=4001).largest_residual == pytest.approx(0.023, abs=6e-4)
    np.testing.assert_allclose(lab.track(model, law, reference, until), (0.0123, 0.0086, 0.293, 0.228), rtol=6e-3)
    q, v, _ = reference(0.0)
    flight = ClosedLoop(model, VirtualVehicle(law, reference)).fly((q, v), until)
    assert np.max(np.abs(flight.q - flight.channels["q_virtual"])) < 4e-12
    beforehand = virtual_reference(law, reference, until)
    assert lab.track(model, law, beforehand, until)[0] < 1e-10
    assert beforehand.feasibility(samples=1001).largest_residual < 1e-5


@pytest.mark.slow
def test_bicopter_horizontal_eight_disturbed(lab) -> None:
    model, law = lab.vehicle("bicopter").model, lab.law("bicopter", "Ed")
    until = 4 * np.pi / 0.8
    reference = oscillation_reference(model, figure_eight(0.8), LEVERS["xz"], period=until / 2)
    plants = (model, lab.disturbed("bicopter"), lab.disturbed("bicopter", 0.9))
    starts = (lab.turned(reference(0.0)[0], 0.3, 15.0), None, None)
    for plant, start, expected in zip(plants, starts, ((0.550, 0.125), (0.256, 0.240), (0.567, 0.531)), strict=True):
        np.testing.assert_allclose(lab.track(plant, law, reference, until, start)[:2], expected, atol=6e-4)


@pytest.mark.slow
def test_looping_from_random_starts(lab) -> None:
    """60 starts (2 m, below 120 degrees): all laws are back within 5 cm at 10 s."""
    from heavytop.control import random_states

    reference, _ = lab.manoeuvre("loop")
    model = lab.vehicle("quadcopter").model
    q, _ = random_states(model, 60, 11, distance=2.0, angle=np.deg2rad(120.0))
    peaks = {}
    for kind in ("P", "B", "E", "Ed"):
        controller = lab.law("quadcopter", kind).with_reference(reference)
        flight = ClosedLoop(model, controller).fly((q, np.zeros(6)), 10.0, step=2e-3, record_every=5)
        r = reference(flight.t)[0][:, None, :3]
        distance = np.linalg.norm(flight.q[..., :3] - r, axis=-1)
        assert np.max(distance[-1]) < 0.05
        peaks[kind] = np.median(distance.max(axis=0))
    assert peaks["Ed"] == pytest.approx(peaks["P"], rel=0.05)
    assert peaks["Ed"] < peaks["E"] < peaks["B"]


def cart_with_mass() -> ht.Model:
    system = ht.System(gravity=(0, 0, 0))
    system.body("cart", joint=ht.Prismatic("x"), inertia=ht.Inertia(system.parameter("mass", 1.0)))
    system.input("motor", ht.JointForce("cart"))
    return system.derive()


@pytest.mark.parametrize("traced", [True, False])
@pytest.mark.parametrize("kind", ["energy", "torque", "regulator"])
def test_a_reference_means_the_same_to_all_controllers(kind: str, traced: bool) -> None:
    """The values of parameters that it is made for, and the time at which it begins."""
    model = cart_with_mass()
    made = control.Reference.from_function(
        model, lambda t: ht.vector(0.1 * (1 - np.cos(2 * t))), duration=10.0, start_time=2.0, parameters={"mass": 3.0}
    )
    if not traced:
        made = control.Reference(model, made, duration=10.0, start_time=2.0, parameters={"mass": 3.0})
    if kind == "energy":
        prototype = control.Prototype.for_model(model, np.zeros(1), poles=[-5, -6])
        controller = control.energy_law(model, prototype).with_reference(made)
    elif kind == "torque":
        controller = control.computed_torque(model, stiffness=30.0, damping=11.0).with_reference(made)
    else:
        controller = control.lqr(model, made)
    run = ht.simulate(
        model,
        ([0.0], [0.0]),
        5.0,
        1e-3,
        start_time=2.0,
        control=controller,
        parameters={"mass": 3.0},
        hold="continuous",
    )
    assert np.max(np.abs(run.q[:, 0] - 0.1 * (1 - np.cos(2 * (run.t - 2.0))))) < 1e-5
