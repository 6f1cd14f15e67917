"""The linearly implicit method: order on every kind of system, L-stability on every kind of stiff element, balance of energy in stiff steps."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import heavytop as ht
from heavytop.simulate import Ending

GAMMA = 1 - 0.5**0.5
ROD = ht.Inertia(1.0, com=(0.5, 0, 0), moment_at_com=(1e-3, 1 / 12, 1 / 12))


def slider(**gravity: Any) -> ht.System:
    system = ht.System(name="slider", **gravity)
    system.body("slider", joint=ht.Prismatic("z"), inertia=ht.Inertia(2.0))
    return system


def arm() -> ht.System:
    """Two links with motors: the mass matrix changes with the configuration."""
    system = ht.System(name="arm")
    system.body("upper", joint=ht.Revolute("y"), inertia=ROD)
    system.body("lower", parent="upper", at=(1, 0, 0), joint=ht.Revolute("y"), inertia=ROD)
    for joint in ("upper", "lower"):
        system.input(joint, ht.JointForce(joint))
    return system


# --- order ------------------------------------------------------------------------------------------------------------------


def four_bars_start(model: ht.Model) -> tuple:
    start = ht.library.start("four_bars", model)
    assert start is not None
    return start


def loops() -> tuple[ht.Model, tuple, dict]:
    model = ht.library.four_bars().derive()
    return model, four_bars_start(model), {}


def velocity_constraints(minimal: bool) -> tuple[ht.Model, tuple, dict]:
    model = ht.library.car(minimal=minimal).derive()
    velocity = np.array([3.0, 0.5]) if minimal else np.array([3.0, 0.0, 0.0, 0.5])
    return model, (model.neutral(), velocity), {"inputs": [2.0]}


def driver() -> tuple[ht.Model, tuple, dict]:
    system = ht.System(name="swing")
    place = (0.1 * np.sin(5 * system.time), 0, 0)
    system.body("swing", at=place, joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
    system.joint_damper("swing", damping=0.3)
    return system.derive(), ([0.3], [1.0]), {}


def law() -> tuple[ht.Model, tuple, dict]:
    control = ht.Feedback(lambda q, v: -50.0 * q - 5.0 * v, ("q", "v"))
    return arm().derive(), ([0.3, 0.2], [1.0, -1.0]), {"control": control, "hold": "continuous"}


CASES: dict[str, Callable[[], tuple]] = {
    "loops": loops,
    "velocity constraints": lambda: velocity_constraints(minimal=False),
    "basis": lambda: velocity_constraints(minimal=True),
    "driver": driver,
    "law": law,
}


@pytest.mark.parametrize(
    "case", [pytest.param(c, marks=[pytest.mark.thorough] if c != "driver" else []) for c in CASES]
)
def test_order(case: str) -> None:
    model, start, options = CASES[case]()
    exact = ht.simulate(model, start, 0.5, 1e-3, "rkmk8", record_every=10**7, **options)
    steps, errors = [0.004, 0.002, 0.001], []
    for step in steps:
        run = ht.simulate(model, start, 0.5, step, "ros2", record_every=10**7, **options)
        assert run.outcome.ok
        q = np.linalg.norm(model.coordinates.difference(exact.q[-1], run.q[-1]))
        errors.append([q, np.linalg.norm(run.v[-1] - exact.v[-1]), run.invariants["energy"].relative])
    slopes = np.polyfit(np.log(steps), np.log(errors), 1)[0]
    np.testing.assert_allclose(slopes[:2], 2, atol=0.1)
    assert slopes[2] > 1.7  # of the balance of energy


# --- stiffness ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("z", [0.1, 3.0, 1e3, 1e7])
def test_stability_function(z: float) -> None:
    """One step of v' = -lambda v multiplies v by (1 - (1 - 2 gamma) z) / (1 + gamma z)^2, z = lambda h, which vanishes for large z."""
    system = slider(gravity=(0, 0, 0))
    system.damper("world", "slider", ht.Damping(2.0 * z / 0.01))
    run = ht.simulate(system.derive(), ([0.0], [1.0]), 0.01, 0.01, "ros2")
    expected = (1 - (1 - 2 * GAMMA) * z) / (1 + GAMMA * z) ** 2
    assert float(run.v[-1, 0]) == pytest.approx(expected, rel=1e-9, abs=1e-14)
    assert run.work is not None
    # the damper took all that is missing of the kinetic energy
    assert run.work[-1, 1] == pytest.approx(1.0 - expected**2, rel=1e-7)


def damper() -> ht.System:
    system = slider()
    system.damper("world", "slider", ht.Damping(1e7))
    return system


def joint_damper() -> ht.System:
    system = arm()
    system.joint_damper("lower", damping=1e6)
    system.joint_spring("upper", stiffness=200.0)
    system.joint_damper("upper", damping=30.0)
    return system


def friction() -> ht.System:
    system = slider()
    system.joint_friction("slider", coulomb=30.0, smoothing=1e-6)
    return system


def strut() -> ht.System:
    system = ht.System(name="strut")
    system.body("ball", joint=ht.Free(), inertia=ht.Inertia(1.0, moment_at_com=(0.1, 0.2, 0.3)))
    system.damper("world", "ball", ht.Damping(3.0, (0, 0, 0), (1.0, 1.0, 1.0)))
    system.strut("world", "ball", at_a=(0, 0, 2), at_b=(0, 0, 0.1), stiffness=1e6, damping=1e6, rest_length=1.9)
    return system


def stop() -> ht.System:
    system = slider()
    system.joint_stop("slider", lower=0.0, stiffness=1e4, damping=1e4)
    return system


def fluid() -> ht.System:
    """A stiff resistance as a function of all coordinates."""
    system = arm()
    system.dissipation(lambda q, v: 5e5 * (v[0] * v[0] + v[1] * v[1]))
    return system


def closed_loop() -> ht.System:
    """A four-bar linkage with one stiff damper."""
    system = ht.library.four_bars(1)
    system.joint_damper(system.describe().joints[0].label, damping=1e6)
    return system


STIFF = {f.__name__: f for f in (damper, joint_damper, friction, strut, stop, fluid, closed_loop)}


@cache
def stiff(kind: str) -> ht.Model:
    return STIFF[kind]().derive()


@pytest.mark.parametrize(
    "kind", [pytest.param(k, marks=[] if k in ("damper", "strut") else [pytest.mark.thorough]) for k in STIFF]
)
def test_stiff_elements_at_steps_that_do_not_resolve_them(kind: str) -> None:
    """Modes of 5e3 to 5e6 1/s at 5 ms: the motion is that of steps a quarter as long, and explicit steps diverge."""
    model = stiff(kind)
    start = four_bars_start(model) if kind == "closed_loop" else (model.neutral(), np.zeros(model.nv))
    run = ht.simulate(model, start, 2.0, 5e-3, "ros2")
    assert run.outcome.ok, run.outcome
    fine = ht.simulate(model, start, 2.0, 1.25e-3, "ros2", record_every=4)
    error = np.max(np.abs(run.q - fine.q))
    assert error < 2e-3
    assert not ht.simulate(model, start, 2.0, 5e-3, "rkmk4").outcome.ok


def test_friction_holds_with_the_creep_of_its_law() -> None:
    """Weight 19.62 N below the threshold 30 N: the slider creeps at the speed where the smoothed friction carries it."""
    run = ht.simulate(stiff("friction"), ([0.0], [0.0]), 1.0, 0.01, "ros2")
    assert run.outcome.ok
    assert abs(run.q[-1, 0]) < 1e-5
    assert np.max(np.abs(stiff("friction").acceleration(run.q[-1], run.v[-1]))) < 1e-6


@pytest.mark.parametrize("step", [1e-3, 7e-3])
def test_a_sliding_motion_stops(step: float) -> None:
    """Friction decelerates by 15 m/s^2 up to the stop at v0^2/(2 a), whatever the step is compared with the smoothing."""
    system = slider(gravity=(0, 0, 0))
    system.joint_friction("slider", coulomb=30.0, smoothing=1e-6)
    run = ht.simulate(system.derive(), ([0.0], [1.0]), 1.0, step, "ros2")
    assert run.outcome.ok
    assert run.q[-1, 0] == pytest.approx(1.0 / 30.0, abs=8 * 15.0 * step**2)
    assert abs(run.v[-1, 0]) < 1e-9


@pytest.mark.thorough
def test_a_stiff_continuous_law_is_part_of_the_equations() -> None:
    """A position servo with modes of 3e4 1/s at a step of 10 ms: the arm follows the slow motion kp/kd = 2 1/s of its law."""
    law = ht.Feedback(lambda q, v: -1e5 * q - 5e4 * v, ("q", "v"))
    model = arm().derive()
    start = np.array([0.4, -0.3])
    run = ht.simulate(model, (start, -2.0 * start), 1.0, 0.01, "ros2", control=law, hold="continuous")
    assert run.outcome.ok
    np.testing.assert_allclose(run.q[-1], start * np.exp(-2.0), atol=2e-4)
    held = ht.simulate(model, (start, -2.0 * start), 1.0, 0.01, "ros2", control=law)
    assert not held.outcome.ok  # sampled at 10 ms this loop is unstable, whatever the integrator


@pytest.mark.thorough
def test_a_stop_that_throws_a_body_back_is_reported() -> None:
    """A damper of 5e6 1/s that sets in within a step of 5 ms: a step may gain energy there, and such a run does not end as finished."""
    system = slider()
    system.joint_stop("slider", lower=0.0, stiffness=1e7, damping=1e7)
    run = ht.simulate(system.derive(), ([0.2], [0.0]), 2.0, 5e-3, "ros2")
    assert run.outcome.ending is Ending.jumped


@pytest.mark.thorough
def test_oscillations_that_the_step_does_not_resolve_are_reported() -> None:
    """L-stability takes the energy of a fast spring, which nothing dissipates: such a run is wrong and does not end as finished."""
    system = slider()
    system.joint_stop("slider", lower=0.0, stiffness=1e8, damping=0.0)
    run = ht.simulate(system.derive(), ([0.5], [0.0]), 2.0, 5e-3, "ros2")
    assert run.outcome.ending is Ending.jumped


# --- runs ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_batch_equals_single_runs_and_events_are_found() -> None:
    options = {"until": 1.0, "step": 2e-3, "integrator": "ros2"}
    model, speeds = stiff("friction"), np.array([[0.5], [0.3], [-1.0]])
    batch = ht.simulate(model, (np.zeros((3, 1)), speeds), **options)
    for k, v in enumerate(speeds):
        np.testing.assert_array_equal(ht.simulate(model, ([0.0], v), **options).q, batch.q[:, k])
    falls = ht.Event(lambda t, q, v: q[0] - 0.1)
    run = ht.simulate(stiff("stop"), ([0.5], [0.0]), events=falls, **options)
    assert run.events[0].time == pytest.approx(np.sqrt(2 * 0.4 / 9.81), rel=1e-6)


@pytest.mark.parametrize("damping", [1e2, 1e4, 1e6])
def test_stiff_elements_follow_a_driven_base(damping: float) -> None:
    """A damper of any strength drags a mass behind an oscillating base: m v' = c (V - v), V = A w cos(w t); the drive's work is balanced."""
    amplitude, rate = 0.05, 8.0
    system = ht.System(gravity=(0, 0, 0), name="dragged")
    system.body("base", joint=ht.Prescribed(ht.Prismatic("x"), lambda t: amplitude * np.sin(rate * t)))
    system.body("mass", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.damper("base", "mass", ht.Damping(damping))
    model = system.derive()
    phase = np.arctan(rate / damping)
    size = amplitude * rate * np.cos(phase)
    errors = []
    for step in (2e-3, 1e-3):
        run = ht.simulate(model, ([0.0], [size * np.cos(phase)]), until=1.0, step=step, integrator="ros2")
        assert run.outcome.ok
        errors.append(np.abs(run.v[:, 0] - size * np.cos(rate * run.t - phase)).max())
    assert errors[1] < 2e-6
    assert errors[1] < 0.6 * errors[0]
