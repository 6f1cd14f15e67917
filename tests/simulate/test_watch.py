"""The watch over energy, loops and branches: near misses of singular configurations are told, and nothing else is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from simulate.test_singular import ROD, four_bar, slider_crank
from typer.testing import CliRunner

import heavytop as ht
from heavytop.cli import app
from heavytop.errors import ConfigurationError, SimulationError
from heavytop.geometry import se3, so3
from heavytop.simulate import Ending

NEAR_MISS = """\
import heavytop as ht

rod = ht.Inertia(1.0, com=(0.5, 0, 0), moment_at_com=(1e-3, 1 / 12, 1 / 12))
system = ht.System(name="near miss")
system.body("crank", joint=ht.Revolute("y"), inertia=rod)
system.body("rod", parent="crank", at=(1, 0, 0), joint=ht.Revolute("y"), inertia=rod)
system.body("slider", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
system.loop("slider", "rod", ht.Revolute("y"), at_b=(1.000001, 0, 0), name="pin")
start = system.derive().assemble([0.5, -1.0, 1.7], [3.0, 0.0, 0.0], fixed=("crank",))
"""


def run_from(model: ht.Model, q: np.ndarray, v: np.ndarray, **options) -> ht.Run:
    return ht.simulate(model, (q, v), until=4.0, step=2e-3, record_every=50, progress=False, **options)


@pytest.mark.thorough
def test_a_near_miss_is_told_alone_and_in_a_batch() -> None:
    model, q, v = slider_crank(6, rod=1.00001)
    run = run_from(model, q, v)
    assert {o.ending for o in run.outcomes} == {Ending.jumped}
    assert not run.outcome.ok
    text = str(run.outcomes[2])
    for words in ("balance of energy", "loop 'pin' is nearly singular", "q = (", "smaller step", "rkmk45"):
        assert words in text
    alone = run_from(model, q[2], v[2])
    assert alone.outcome.time == run.outcomes[2].time
    assert alone.t[-1] < alone.outcome.time < 4.0
    # what is left of the run is right
    assert np.max(np.abs(alone.energy - alone.energy[0])) < 2e-3 * np.max(alone.kinetic_energy)
    assert np.all(np.isnan(run.q[run.t > run.outcomes[2].time, 2]))
    with pytest.raises(SimulationError, match="nearly singular"):
        run_from(model, q[2], v[2], raise_on_failure=True)


@pytest.mark.parametrize("step", [1e-3, 1e-5])
@pytest.mark.thorough
def test_a_start_typed_with_seven_digits_is_no_jump(step: float) -> None:
    """What is accepted as closed is closed in the first step, and the energy that this brings is none that the step lost."""
    model, q, _ = slider_crank(1, rod=1.3)
    typed = np.array([float(f"{x:.7g}") for x in q[0]])
    assert 1e-9 < np.max(np.abs(model.evaluate("position_residual", typed))) < 1e-6
    starts = np.stack([typed, q[0]])
    run = ht.simulate(model, (starts, np.zeros((2, 3))), until=300 * step, step=step, progress=False)
    assert run.outcome.ok, run.outcome
    np.testing.assert_allclose(run.q[-1, 0], run.q[-1, 1], atol=1e-5)


@pytest.mark.thorough
def test_error_control_passes_the_near_miss() -> None:
    model, q, v = slider_crank(4, rod=1.0001)
    run = run_from(model, q, v, integrator="rkmk45")
    assert run.outcome.ok
    assert np.max(np.abs(run.energy - run.energy[0]) / np.max(run.kinetic_energy, axis=0)) < 1e-4


@pytest.mark.thorough
def test_error_control_that_is_too_coarse_is_told() -> None:
    model, q, v = slider_crank(2, rod=1.001)
    run = run_from(model, q, v, integrator=ht.simulate.RKMK45(rtol=0.1, atol=0.1))
    assert run.outcome.ending is Ending.jumped
    assert "take a tighter rtol" in str(run.outcome)


def driven(rod: float, friction: float) -> ht.Model:
    system = ht.System(name="driven slider-crank")
    system.body("crank", joint=ht.Revolute("y"), inertia=ROD)
    system.body("rod", parent="crank", at=(1, 0, 0), joint=ht.Revolute("y"), inertia=ROD)
    system.body("slider", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.loop("slider", "rod", ht.Revolute("y"), at_b=(rod, 0, 0), name="pin")
    system.joint_friction("slider", coulomb=friction, viscous=0.2)
    system.input("motor", ht.JointForce("crank"))
    return system.derive()


def start_of(model: ht.Model) -> tuple[np.ndarray, np.ndarray]:
    return model.assemble([0.5, -1.0, 1.7], [3.0, 0.0, 0.0], fixed=("crank",))


@pytest.mark.thorough
def test_work_and_friction_are_no_jump_and_hide_none() -> None:
    """Inputs and resistances do work; the balance with it is kept, also in batches, and a jump in it is seen all the same."""
    clean, wrong = driven(0.8, 0.5), driven(1.00001, 0.5)
    for model, ending in ((clean, Ending.finished), (wrong, Ending.jumped)):
        q, v = start_of(model)
        inputs = 2.0 * np.sin(np.arange(2000) * 0.01)[:, None]
        for starts in ((q, v), (np.stack([q, q]), np.stack([v, v]))):
            run = ht.simulate(model, starts, until=4.0, step=2e-3, inputs=inputs, record_every=100, progress=False)
            assert run.outcome.ending is ending, run.outcome
            assert run.work is not None


@pytest.mark.thorough
def test_a_step_too_large_is_no_matter_of_singularities() -> None:
    model, q, v = four_bar(1)
    run = ht.simulate(model, (q[0], 2 * v[0]), until=20.0, step=0.2, progress=False)
    assert run.outcome.ending is Ending.jumped
    assert "No loop or constraint is nearly singular there: the step 0.2 s is too large" in str(run.outcome)


@pytest.mark.thorough
def test_constraints_that_move_do_work_which_is_no_jump() -> None:
    model = ht.library.rolling_ball(turntable=2.0, minimal=False).derive()
    q, v = model.assemble(model.neutral(), [0.5, 0, 0, 0, 0, 0])
    assert ht.simulate(model, (q, v), until=2.0, step=1e-2).outcome.ok


# --- the ledger of every system -----------------------------------------------------------------------------------------


def dropped(stiffness: float) -> ht.Model:
    system = ht.System(name="ball")
    system.body("ball", joint=ht.Prismatic("z"), inertia=ht.Inertia(1.0))
    system.joint_stop("ball", lower=0.0, stiffness=stiffness)
    return system.derive()


@pytest.mark.thorough
def test_a_stop_that_the_step_does_not_resolve_is_reported() -> None:
    """The ball rose from 1 m to 7 m; the batch has one that never touches the stop."""
    model = dropped(1e7)
    run = ht.simulate(model, ([1.0], [0.0]), until=3.0, step=1e-3)
    assert run.outcome.ending is Ending.jumped
    assert 0.45 < run.outcome.time < 0.6
    assert run.t[-1] < run.outcome.time
    for words in ("% of the energy exchanged", "|lambda| = 3162 1/s", "Take a step below 0.00016 s"):
        assert words in str(run.outcome)
    assert ht.simulate(model, ([1.0], [0.0]), until=3.0, step=1e-4).outcome.ok
    assert ht.simulate(model, ([1.0], [0.0]), until=3.0, step=1e-3, balance=False).outcome.ok
    both = ht.simulate(model, ([[1.0], [60.0]], [[0.0], [0.0]]), until=3.0, step=1e-3)
    assert [o.ending for o in both.outcomes] == [Ending.jumped, Ending.finished]


@pytest.mark.thorough
def test_batches_under_error_control_are_watched() -> None:
    """Their work is integrated for it: without damping nothing would have to be."""
    system = ht.System(name="damped ball")
    system.body("ball", joint=ht.Prismatic("z"), inertia=ht.Inertia(1.0))
    system.joint_stop("ball", lower=0.0, stiffness=1e7, damping=1.0)
    model, start = system.derive(), (np.ones((2, 1)), np.zeros((2, 1)))
    run = ht.simulate(model, start, 3.0, 0.01, ht.RKMK45(rtol=0.3, atol=0.3), progress=False)
    assert {o.ending for o in run.outcomes} == {Ending.jumped}
    assert "a tighter rtol resolves" in str(run.outcome)


def test_an_outcome_states_that_nothing_is_watched() -> None:
    model = ht.library.pendulum().derive()
    for options, stated in (({"integrator": "variational"}, True), ({}, False), ({"balance": False}, False)):
        run = ht.simulate(model, ([1.0], [0.0]), 0.1, 0.01, **options)
        assert ("the balance of energy is not monitored" in str(run.outcome)) == stated


@pytest.mark.parametrize("batch", [(), (2,)])
def test_a_motion_whose_energy_overflows_is_not_finished(batch: tuple[int, ...]) -> None:
    """An unstable step takes the oscillator to 1e163 m: its state is finite, its energy is not."""
    system = ht.System(gravity=(0, 0, 0), name="oscillator")
    system.body("mass", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.joint_spring("mass", stiffness=32839.0)
    system.joint_damper("mass", damping=0.0)
    start = np.zeros((*batch, 1)), np.ones((*batch, 1))
    run = ht.simulate(system.derive(), start, until=81 * 0.0407, step=0.0407)
    assert {outcome.ending.value for outcome in np.atleast_1d(run.outcomes)} == {"jumped"}
    assert "larger than any number" in run.outcome.message


@pytest.mark.parametrize("batch", [(), (3,)])
def test_friction_that_creeps_is_reported(batch: tuple[int, ...]) -> None:
    """A block that sticks crept 17 times too far; in a batch its work is not recorded, and watched all the same."""
    system = ht.System(gravity=(3.0, 0, -9), name="block")
    friction = {"coulomb": 5.0, "smoothing": 1e-4}
    system.body("block", joint=ht.Prismatic("x", friction=friction), inertia=ht.Inertia(1.0))
    model, start = system.derive(), (np.zeros((*batch, 1)), np.zeros((*batch, 1)))
    assert {o.ending for o in ht.simulate(model, start, 0.5, 1e-3).outcomes.ravel()} == {Ending.jumped}
    run = ht.simulate(model, start, 0.5, 2e-5)
    assert run.outcome.ok
    assert (run.work is None) == bool(batch)
    np.testing.assert_allclose(run.q[-1], 1e-4 * np.arctanh(0.6) * 0.5, rtol=1e-3)


@pytest.mark.thorough
@pytest.mark.parametrize(("rate", "step", "integrator"), [(60.0, 0.05, "rkmk4"), (60.0, 0.3, "rkmk8")])
def test_a_driver_faster_than_the_step_is_reported(rate: float, step: float, integrator: str) -> None:
    system = ht.System(name="trolley")
    motion = ht.Prescribed(ht.Prismatic("x"), lambda t: 0.05 * np.sin(rate * t))
    system.body("trolley", joint=motion, inertia=ht.Inertia(10.0))
    system.body("load", parent="trolley", joint=ht.Revolute("y"), inertia=ht.Inertia(2.0, com=(0, 0, -1)))
    run = ht.simulate(system.derive(), ([0.1], [0.0]), 5.0, step, integrator)
    assert run.outcome.ending is Ending.jumped
    assert "Look at its drivers ('trolley')" in str(run.outcome)


def test_a_coarse_step_of_a_smooth_motion_is_reported() -> None:
    """Errors of each step are small and smooth; their sum is not."""
    model = ht.library.pendulum().derive()
    run = ht.simulate(model, ([2.5], [0.0]), 200.0, 0.25)
    assert run.outcome.ending is Ending.jumped
    assert ht.simulate(model, ([2.5], [0.0]), 200.0, 0.02).outcome.ok


@pytest.mark.parametrize(
    "name", ["cart_pole", *(pytest.param(n, marks=pytest.mark.thorough) for n in ("quadcopter", "furuta", "panda"))]
)
def test_the_ledger_changes_no_bit(name: str) -> None:
    """Batches integrate their work in the program of the motion, whose results stay the same."""
    rng, model = np.random.default_rng(3), getattr(ht.library, name)().derive()
    q = model.coordinates.random(rng, (5,)) if model.nq != model.nv else rng.uniform(-9, 9, (5, model.nq))
    start, inputs = (q, rng.standard_normal((5, model.nv))), rng.standard_normal(model.nu)
    watched, plain = (ht.simulate(model, start, 0.2, 1e-3, inputs=inputs, balance=x) for x in (None, False))
    assert watched.outcome.ok
    np.testing.assert_array_equal(watched.q, plain.q)
    np.testing.assert_array_equal(watched.v, plain.v)
    alone = ht.simulate(model, (start[0][2], start[1][2]), 0.2, 1e-3, inputs=inputs)
    np.testing.assert_array_equal(watched.q[:, 2], alone.q)


@pytest.mark.thorough
def test_near_misses_with_friction_and_an_input_are_reported() -> None:
    """What the rod passes at 1e-3 of its scale changes the motion behind it, at errors far below those of a step that is too large."""
    system = ht.System(name="slider-crank")
    system.body("crank", joint=ht.Revolute("y", friction={"coulomb": 5.0}), inertia=ROD)
    system.body("rod", parent="crank", at=(1, 0, 0), joint=ht.Revolute("y"), inertia=ROD)
    slider = ht.Prismatic("x", friction={"coulomb": 5.0}, damping=1.0)
    system.body("slider", joint=slider, inertia=ht.Inertia(1.0))
    system.loop("slider", "rod", ht.Revolute("y"), at_b=(1.0012, 0, 0), name="pin")
    system.input("M", ht.JointForce("crank"))
    model = system.derive()
    starts = [model.assemble([c, -1.0, 1.7], [3.0, 0, 0], fixed=("crank",)) for c in np.linspace(0.2, 1.3, 8)]
    start = tuple(np.stack(parts) for parts in zip(*starts, strict=True))
    inputs = 100 * np.sin(6.4 * np.arange(300) * 1e-2)[:, None]
    options = {"inputs": inputs, "control_step": 1e-2, "record_every": 100, "progress": False}
    exact = ht.simulate(model, start, 3.0, 5e-5, "rkmk8", **options, balance=False)
    run = ht.simulate(model, start, 3.0, 1e-3, **options)
    for k, outcome in enumerate(run.outcomes):
        assert not outcome.ok or np.max(np.abs(run.q[-1, k] - exact.q[-1, k])) < 1e-3
    assert any("loop 'pin' is nearly singular" in str(outcome) for outcome in run.outcomes)


# --- starts -------------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_a_singular_start_raises_or_is_determined() -> None:
    model, _, _ = four_bar(1)
    flat = np.array([0.0, 0.0, -np.pi])
    branch, other = np.array([-1.0, 1.0, -1.0]), np.array([0.0, 1.0, 0.0])
    for v in (branch, other):  # both satisfy the constraints; each lies along one branch
        np.testing.assert_allclose(model.constraint_residuals(flat, v)[1], 0.0, atol=1e-12)
    between = branch + 0.7 * other
    np.testing.assert_allclose(model.constraint_residuals(flat, between)[1], 0.0, atol=1e-12)
    with pytest.raises(ConfigurationError, match="leave 2 degrees of freedom.*along none of them.*assemble"):
        run_from(model, flat, between)
    assert run_from(model, flat, np.zeros(3)).outcome.ok  # equal bars at rest: their weight pulls along one branch
    with pytest.raises(ConfigurationError, match="singular configuration.*at rest"):
        run_from(four_bar(1, last=2.5)[0], flat, np.zeros(3))
    with pytest.raises(ConfigurationError, match="of trajectory 1 "):
        run_from(model, np.stack([flat, flat]), np.stack([branch, between]))
    for v in (branch, other):
        run = run_from(model, flat, 3 * v)
        assert run.outcome.ok
        assert np.max(np.abs(run.energy - run.energy[0])) < 1e-5 * np.max(run.kinetic_energy)


@pytest.mark.thorough
def test_rest_where_nothing_is_singular_is_a_start() -> None:
    model, q, v = four_bar(2)
    assert run_from(model, q, 0 * v).outcome.ok
    bricard = ht.library.bricard().derive()
    assert ht.simulate(bricard, bricard.assemble(), until=0.1, step=1e-3).outcome.ok


# --- the shell ----------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_the_shell_reports_by_its_exit_code(tmp_path: Path) -> None:
    path = tmp_path / "near.py"
    path.write_text(NEAR_MISS)
    result = CliRunner().invoke(app, ["simulate", str(path), "--until", "4"])
    assert result.exit_code not in (0, 2)
    assert "jumped" in result.output


@pytest.mark.parametrize("name", ["four-bars:3", "governor", "andrews"])
@pytest.mark.thorough
def test_mechanisms_start_from_their_own_starts(name: str) -> None:
    result = CliRunner().invoke(app, ["simulate", name, "--until", "0.02"])
    assert result.exit_code == 0, result.output


@pytest.mark.thorough
def test_the_shell_rejects_the_flat_four_bars() -> None:
    flat, pushed = ",".join(["0"] * 7), ",".join(["0.5"] * 7)
    result = CliRunner().invoke(app, ["simulate", "four-bars:3", "--q", flat, "--v", pushed])
    assert result.exit_code != 0
    assert "singular configuration" in result.output.replace("\n", " ")


@pytest.mark.parametrize("angle", [np.pi - 1e-3, 1.0, 0.0])
def test_a_mechanism_at_rest_stays_at_rest(angle: float) -> None:
    """Its energy is rounding, and so is what the energy misses: one that hung in a universal joint was said to jump."""
    system = ht.System(name="hung")
    body = ht.Inertia(1.0, moment_at_com=(0.1, 0.1, 0.1))
    system.body("a", joint=ht.Free("quaternion"), inertia=body)
    system.loop("world", "a", ht.Universal(), name="cross")
    model = system.derive()
    turn = ht.geometry.so3.rotation_about("x", angle)
    q = np.concatenate([np.zeros(3), ht.coordinates.Quaternion().from_rotation_matrix(turn)])
    run = ht.simulate(model, (q, np.zeros(6)), until=0.5, step=0.01)
    assert run.outcome.ok
    assert np.max(np.abs(run.v)) < 1e-12


@pytest.mark.thorough
def test_jumps_under_error_control_are_dated_in_their_step() -> None:
    """A thread that winds once around: rkmk45 ends at the jump, where the angle is -pi, not at the end of its step."""
    system = ht.System(name="press")
    system.body("screw", joint=ht.Revolute("z"), inertia=ht.Inertia(1.0, moment_at_com=(0.1, 0.1, 0.1)))
    system.body("nut", joint=ht.Prismatic("z"), inertia=ht.Inertia(2.0))
    thread = ht.Custom(
        ht.coordinates.Angle(),
        lambda q: se3.pose(so3.rotation_about("z", -q[0]), ht.vector(0.0, 0.0, 0.1 * q[0])),
    )
    system.loop("screw", "nut", thread, name="thread")
    model = system.derive()
    fixed = ht.simulate(model, ([0.0, 0.0], [2.0, 0.2]), 6.0, 1e-3)
    chosen = ht.simulate(model, ([0.0, 0.0], [2.0, 0.2]), 6.0, 1e-3, "rkmk45")
    assert fixed.outcome.ending is chosen.outcome.ending is ht.simulate.Ending.jumped
    angle, slope = -np.pi, -2.0 * 9.81 * 0.1 / (0.1 + 2.0 * 0.01)
    exact = (2.0 + np.sqrt(4.0 + 2.0 * slope * angle)) / -slope
    assert exact <= chosen.outcome.time < exact + 1e-3
    assert abs(fixed.outcome.time - exact) < 1e-3
    assert np.abs(chosen.q[:, 1] - 0.1 * chosen.q[:, 0]).max() < 1e-12


@pytest.mark.parametrize("integrator", ["rkmk4", "ros2", "energy_momentum"])
@pytest.mark.parametrize("steps", [32, 50, 100])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_a_motion_from_rest_to_rest_finishes(integrator: str, steps: int, batch: tuple[int, ...]) -> None:
    """Its net work is zero: rounding of the balance was compared with rounding of the work."""
    system = ht.System(gravity=(0, 0, 0), name="shuttle")
    system.body("mass", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.3))
    system.input("force", ht.JointForce("mass"))
    model = system.derive()
    force = np.sin(2 * np.pi * (np.arange(steps) + 0.5) / steps)
    inputs = np.broadcast_to(force.reshape(-1, *[1] * len(batch), 1), (steps, *batch, 1))
    start = (np.zeros((*batch, 1)), np.zeros((*batch, 1)))
    run = ht.simulate(model, start, 0.01 * steps, 0.01, integrator, inputs=inputs, record_every=steps)
    assert run.outcome.ok, run.outcome
    assert np.max(np.abs(run.v[-1])) < 1e-12
