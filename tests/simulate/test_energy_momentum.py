"""The energy-momentum method on systems with loops and velocity constraints, and what it tells when it does not converge."""

from functools import cache

import numpy as np
import pytest

import heavytop as ht
from heavytop.errors import SimulationError
from heavytop.library import mechanisms, nonholonomic
from heavytop.simulate import Ending, EnergyMomentum, UserDynamics

RADIUS = 0.3


@cache
def four_bar() -> tuple[ht.Model, tuple[np.ndarray, np.ndarray]]:
    """Swings in gravity. (An angle that winds up loses the digits of its turns, and the equations of the loop with it.)"""
    system = ht.System(name="four-bar")
    moments = (0.01, 0.1, 0.1)
    system.body("crank", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, (0.2, 0, 0), moments))
    system.body(
        "coupler", parent="crank", at=(0.4, 0, 0), joint=ht.Revolute("y"), inertia=ht.Inertia(2.0, (0.5, 0, 0), moments)
    )
    system.body("rocker", at=(1.2, 0, 0), joint=ht.Revolute("y"), inertia=ht.Inertia(1.5, (0.4, 0, 0), moments))
    system.loop("coupler", "rocker", ht.Revolute("y"), at_a=(1.0, 0, 0), at_b=(0.8, 0, 0))
    model = system.derive()
    return model, model.assemble([0.3, -0.8, -1.5], [5.0, 0, 0], fixed=("crank",))


@cache
def wheel_with_pendulums() -> tuple[ht.Model, tuple[np.ndarray, np.ndarray]]:
    """A double pendulum on the axle of an upright wheel that rolls and steers."""
    system = ht.System(name="wheel with pendulums")
    system.body("fork", joint=ht.Planar(), inertia=ht.Inertia(0.5, (0.05, 0, 0), (0.01, 0.01, 0.02)))
    system.body("wheel", parent="fork", joint=ht.Revolute("y"), inertia=ht.Inertia(2.0, (0, 0, 0), (0.05, 0.09, 0.05)))
    rod = ht.Inertia(0.5, (0, 0.1, -0.2), (0.01, 0.01, 0.001))
    system.body("upper", parent="fork", joint=ht.Revolute("y"), inertia=rod)
    system.body("lower", parent="upper", at=(0, 0, -0.4), joint=ht.Revolute("y"), inertia=rod)

    def slip(q, v):
        """Sideways, and forwards against the rim."""
        c, s = np.cos(q[2]), np.sin(q[2])
        return ht.vector(c * v[1] - s * v[0], c * v[0] + s * v[1] - RADIUS * v[3])

    system.constrain(slip, name="rolling")
    model = system.derive()
    return model, model.assemble([0.0, 0, 0.3, 0, 1.0, 2.0], [0.0, 0, 0.7, 2.0, 1.0, -2.0])


def check_kept(model: ht.Model, start: tuple[np.ndarray, np.ndarray], steps: int, step: float) -> ht.Run:
    run = ht.simulate(model, start, steps * step, step, "energy_momentum", record_every=max(steps // 2000, 1))
    assert run.outcome.ending is Ending.finished, run.outcome
    position, velocity = model.constraint_residuals(run.q, run.v)
    assert run.invariants["energy"].relative < 1e-12
    assert np.max(np.abs(position), initial=0.0) < 1e-12
    assert np.max(np.abs(velocity)) < 1e-12
    return run


@pytest.mark.parametrize("system", [four_bar, wheel_with_pendulums])
@pytest.mark.thorough
def test_energy_and_constraints_of_constrained_systems(system) -> None:
    check_kept(*system(), 2000, 2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("system", [four_bar, wheel_with_pendulums])
def test_energy_and_constraints_for_a_hundred_thousand_steps(system) -> None:
    run = check_kept(*system(), 100_000, 2e-3)
    print(run.report(show=False))


@pytest.mark.parametrize("system", [four_bar, wheel_with_pendulums])
@pytest.mark.thorough
def test_order_two_with_constraints(system) -> None:
    model, start = system()
    exact = ht.simulate(model, start, 0.4, 2e-4, "rkmk8", record_every=2000)
    errors = []
    for step in (4e-3, 2e-3, 1e-3):
        run = ht.simulate(model, start, 0.4, step, "energy_momentum")
        errors.append([np.max(np.abs(run.q[-1] - exact.q[-1])), np.max(np.abs(run.v[-1] - exact.v[-1]))])
    np.testing.assert_allclose(np.log2(np.array(errors)[:-1] / np.array(errors)[1:]), 2.0, atol=0.1)


@pytest.mark.slow
def test_redundant_equations_of_a_spatial_loop() -> None:
    model = mechanisms.bricard().derive()
    check_kept(model, model.assemble(), 300, 1e-2)


@pytest.mark.parametrize("minimal", [pytest.param(True, marks=pytest.mark.slow), False])
@pytest.mark.thorough
def test_a_constraint_that_moves_does_work(minimal: bool) -> None:
    """A ball on a turntable: its centre runs in a circle with 2/7 of the rate of the table, which gives and takes energy."""
    system = nonholonomic.rolling_ball(turntable=2.0)
    q, w = system.derive().neutral(), np.array([1.0, -0.5, 4.0])
    q[:2] = 0.3, -0.1
    v = w if minimal else system.derive().evaluate("joint_velocity", q, w)
    model = nonholonomic.rolling_ball(turntable=2.0, minimal=minimal).derive()
    misses = []
    for step in (np.pi / 500, np.pi / 1000):
        run = ht.simulate(model, (q, v), 2 * np.pi / (4 / 7), step, "energy_momentum")
        misses.append(np.linalg.norm(run.q[-1, :2] - run.q[0, :2]))
    assert misses[1] < 1e-2
    assert misses[0] / misses[1] == pytest.approx(4.0, abs=0.2)
    if not minimal:
        assert np.ptp(run.energy) > 0.1 * run.energy[0]
        assert np.max(np.abs(model.constraint_residuals(run.q, run.v)[1])) < 1e-12


@pytest.mark.thorough
def test_free_body_with_any_origin_keeps_all_momenta() -> None:
    system = ht.System(gravity=(0, 0, 0), name="stone")
    system.body("stone", joint=ht.Free(), inertia=ht.Inertia(2.0, (0.1, 0.2, -0.3), (0.3, 0.4, 0.5)))
    model = system.derive()
    run = ht.simulate(model, (model.neutral(), [1.0, -2.0, 0.5, 3.0, 1.0, 2.0]), 100.0, 0.05, "energy_momentum")
    kept = {name: i.relative for name, i in run.invariants.items() if "momentum" in name or name == "energy"}
    assert len(kept) == 7
    assert max(kept.values()) < 1e-11, kept
    center = np.einsum("tij,j->ti", model.pose("world", "stone", run.q)[:, :3, :3], [0.1, 0.2, -0.3]) + run.q[:, :3]
    speed = (center[1] - center[0]) / run.t[1]
    np.testing.assert_allclose(center, center[0] + run.t[:, None] * speed, atol=1e-9)


# --- convergence ----------------------------------------------------------------------------------------------------------------


def test_iterations_are_a_loop_of_the_program() -> None:
    """The step is written down with one iteration, whatever the most of them is."""
    from heavytop.compile import Repeat
    from heavytop.simulate import Control, as_dynamics, step_schedule

    dynamics = as_dynamics(ht.library.double_pendulum().derive())
    counts = set()
    for iterations in (5, 500):
        schedule = step_schedule(dynamics, Control("table"), EnergyMomentum(iterations=iterations), balance=False)
        (loop,) = (item for item in schedule.advance if isinstance(item, Repeat))
        assert loop.times == iterations
        assert loop.done is not None
        counts.add((len(schedule.advance), len(loop.body)))
    assert len(counts) == 1


def test_an_unsolved_step_is_told() -> None:
    model = ht.library.double_pendulum().derive()
    run = ht.simulate(model, (model.neutral(), [9.0, -11.0]), 50.0, 0.5, "energy_momentum")
    assert run.outcome.ending is Ending.diverged
    number = round(run.outcome.time / 0.5)
    assert f"step {number}, the one before t = {run.outcome.time:g} s was not solved" in str(run.outcome)
    assert "last relative change was" in str(run.outcome)
    assert "take a step below" in str(run.outcome)
    assert run.t[-1] < run.outcome.time
    with pytest.raises(SimulationError, match="was not solved"):
        ht.simulate(model, run.final, 50.0, 0.5, EnergyMomentum(), raise_on_failure=True)


@pytest.mark.thorough
def test_only_the_unsolved_trajectories_of_a_batch_end() -> None:
    model = ht.library.double_pendulum().derive()
    speeds = np.array([[0.1, 0.0], [9.0, -11.0], [0.0, 0.2]])
    run = ht.simulate(model, (model.neutral(), speeds), 5.0, 0.25, EnergyMomentum(iterations=9), record_every=5)
    assert [o.ok for o in run.outcomes] == [True, False, True]
    alone = ht.simulate(model, (model.neutral(), speeds[2]), 5.0, 0.25, EnergyMomentum(iterations=9), record_every=5)
    np.testing.assert_array_equal(run.q[:, 2], alone.q)


@pytest.mark.parametrize("options", [{"tolerance": 0.0}, {"tolerance": 2.0}, {"iterations": 1}, {"iterations": 2.5}])
def test_wrong_options(options) -> None:
    with pytest.raises(SimulationError, match=r"EnergyMomentum"):
        EnergyMomentum(**options)


def test_it_needs_the_energy() -> None:
    fall = UserDynamics(ht.coordinates.Vector(1), lambda q, v: np.array([-9.81]), name="stone")
    with pytest.raises(SimulationError, match="needs the energy of 'stone'"):
        ht.simulate(fall, ([0.0], [0.0]), 1.0, 0.1, "energy_momentum")


def crank_that_turns(coordinates: str) -> tuple[ht.Model, tuple[np.ndarray, np.ndarray]]:
    """A four-bar without gravity whose crank goes round and round."""
    system, moments = ht.System(gravity=(0, 0, 0), name="crank"), (0.01, 0.1, 0.1)
    hinge = ht.Revolute("y", coordinates)
    system.body("crank", joint=hinge, inertia=ht.Inertia(1.0, (0.2, 0, 0), moments))
    rod, rocker = ht.Inertia(2.0, (0.5, 0, 0), moments), ht.Inertia(1.5, (0.4, 0, 0), moments)
    system.body("coupler", parent="crank", at=(0.4, 0, 0), joint=hinge, inertia=rod)
    system.body("rocker", at=(1.2, 0, 0), joint=hinge, inertia=rocker)
    system.loop("coupler", "rocker", ht.Revolute("y"), at_a=(1.0, 0, 0), at_b=(0.8, 0, 0))
    model, angles = system.derive(), np.array([0.3, -0.8, -1.5])
    q = angles if coordinates == "angle" else np.stack([np.cos(angles), np.sin(angles)], axis=-1).ravel()
    return model, model.assemble(q, [9.0, 0, 0], fixed=("crank",))


@pytest.mark.slow
def test_a_crank_that_turns_for_a_hundred_thousand_steps() -> None:
    """350 turns: an angle of 2200 rad is known to 4e-13, and the loop with it; cosine and sine do not wind up."""
    check_kept(*crank_that_turns("circle"), 100_000, 2e-3)
    model, start = crank_that_turns("angle")
    run = ht.simulate(model, start, 200.0, 2e-3, "energy_momentum", record_every=500)
    position, velocity = model.constraint_residuals(run.q, run.v)
    rounding = np.spacing(np.max(np.abs(run.q)))
    assert run.outcome.ok
    assert run.invariants["energy"].relative < 1e-12
    assert np.max(np.abs(position)) < 4 * rounding
    assert np.max(np.abs(velocity)) < 4 * rounding * np.max(np.abs(run.v))


@pytest.mark.slow
def test_a_wheel_that_tilts_and_one_that_falls_flat() -> None:
    """Rolling, leaning and turning it keeps energy and contact; a wheel that falls over has no contact point when it is flat, and the run says so."""

    def rolling(q, v):
        R = ht.coordinates.Pose().pose(q)[:3, :3]
        down = R[2, 1] * R[:, 1] - ht.vector(0.0, 0.0, 1.0)
        return R @ v[:3] + np.cross(R @ v[3:], RADIUS * down / np.sqrt(np.vecdot(down, down)))

    system = ht.System(name="wheel")
    system.body("wheel", joint=ht.Free(), inertia=ht.Inertia(2.0, (0, 0, 0), (0.05, 0.09, 0.05)))
    system.constrain(rolling, name="rolling")
    model = system.derive()

    def start(tilt, omega):
        pose = ht.geometry.se3.pose(ht.geometry.so3.rotation_about("x", tilt), [0, 0, RADIUS * np.cos(tilt)])
        arm = RADIUS * np.array([0.0, 0.0, -1.0])  # to the contact, in the axes of the wheel
        return ht.coordinates.Pose().from_pose(pose), np.concatenate([-np.cross(omega, arm), omega])

    run = check_kept(model, start(0.2, np.array([0.0, 8.0, 0.3])), 10_000, 2e-3)
    assert np.max(np.abs(run.q[:, 8])) > 0.3  # the axle leans
    for integrator in ("energy_momentum", "rkmk4"):
        fallen = ht.simulate(model, start(0.3, np.zeros(3)), 5.0, 1e-3, integrator)
        assert fallen.outcome.ending in (Ending.jumped, Ending.diverged)
        assert fallen.q[-1, 2] < 0.01


# --- frames, constraints and potentials that time moves -------------------------------------------------------------------


def shaken(damping: float = 0.0) -> ht.System:
    """A mass on a strut whose other end a driver shakes."""
    system = ht.System(gravity=(0, 0, 0), name="shaken mass")
    system.body("b", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.frame("end", "world", ht.vector(-2 + 0.3 * np.sin(3 * system.time), 0.0, 0.0))
    system.strut("end", "b", stiffness=20.0, rest_length=2.0, damping=damping)
    return system


def crane() -> ht.System:
    """A double pendulum with a strut to a moving frame, joint damping, and a push given in the axes of that frame."""
    system = ht.System(name="crane")
    rod = ht.Inertia(1.0, com=(0, 0, -0.5), moment_at_com=(0.1, 0.1, 0.01))
    system.body("upper", joint=ht.Revolute("y", damping=0.2), inertia=rod)
    system.body("lower", parent="upper", at=(0, 0, -1), joint=ht.Revolute("y"), inertia=rod)
    place = ht.vector(1.0 + 0.4 * np.sin(4 * system.time), 0.0, -1.0 + 0.2 * np.cos(3 * system.time))
    system.frame("buoy", "world", place)
    system.strut("buoy", "lower", stiffness=15.0, rest_length=0.5, damping=1.5)
    system.input("F", ht.Wrench("lower", force=(1, 0, 0), relative_to="buoy"))
    return system


@pytest.mark.thorough
def test_a_force_relative_to_a_moving_frame_does_its_whole_work() -> None:
    system = ht.System(gravity=(0, 0, 0), name="pushed")
    system.body("b", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.frame("cart", "world", ht.vector(0.5 * np.sin(3 * system.time), 0.0, 0.0))
    system.input("F", ht.Wrench("b", force=(1, 0, 0), relative_to="cart"))
    run = ht.simulate(system.derive(), ([0.0], [1.0]), 2.0, 1e-2, "energy_momentum", inputs=[2.0])
    np.testing.assert_allclose(run.v[-1], 5.0, rtol=1e-13)
    assert run.invariants["energy"].relative < 1e-13


@pytest.mark.parametrize(
    ("system", "start", "inputs"),
    [
        (shaken(2.0), ([0.0], [2.0]), None),
        (shaken(), ([0.1], [0.0]), None),
        (crane(), ([0.3, 0.2], [0.5, -1.0]), [3.0]),
    ],
    ids=["damper", "spring", "crane"],
)
@pytest.mark.thorough
def test_order_two_with_moving_frames(system: ht.System, start: tuple, inputs: list | None) -> None:
    model = system.derive()
    exact = ht.simulate(model, start, 1.0, 1e-3, "rkmk8", inputs=inputs)
    errors = []
    for step in (2e-2, 1e-2, 5e-3):
        run = ht.simulate(model, start, 1.0, step, "energy_momentum", inputs=inputs)
        assert run.outcome.ok
        assert run.invariants["energy"].relative < 1e-12
        errors.append(np.max(np.abs(run.v[-1] - exact.v[-1])))
    assert errors[-1] < 2e-3
    np.testing.assert_allclose(np.log2(np.array(errors[:-1]) / errors[1:]), 2.0, atol=0.15)


@pytest.mark.thorough
def test_order_two_with_a_constraint_that_time_moves() -> None:
    """A pendulum on a cart that a constraint moves back and forth, with a damper in its joint."""
    system = ht.System(name="driven cart")
    system.body("cart", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.body("bob", parent="cart", joint=ht.Revolute("y", damping=0.1), inertia=ht.Inertia(1.0, com=(0, 0, -0.5)))
    system.constrain(lambda q: ht.vector(q[0] - 0.4 * np.sin(3 * system.time)), name="motor")
    model = system.derive()
    start = [0.0, 0.3], [1.2, 0.5]
    exact = ht.simulate(model, start, 1.5, 1e-3)
    errors = []
    for step in (2e-2, 1e-2, 5e-3):
        run = ht.simulate(model, start, 1.5, step, "energy_momentum")
        assert run.outcome.ok
        assert run.invariants["energy"].relative < 1e-11
        errors.append(np.max(np.abs(run.v[-1] - exact.v[-1])))
    np.testing.assert_allclose(np.log2(np.array(errors[:-1]) / errors[1:]), 2.0, atol=0.25)


@pytest.mark.parametrize("step", [1e-2, 1e-3, 1e-4, 1e-5])
def test_a_driver_moves_a_mass_from_rest_at_any_step(step: float) -> None:
    """The energy of a spring near its rest length rounds as its length does: no reason to call a small step unsolved."""
    run = ht.simulate(shaken().derive(), ([0.0], [0.0]), 0.1, step, "energy_momentum")
    assert run.outcome.ok, run.outcome
    # x'' = 20 (0.3 sin 3t - x)
    t, w = run.t, np.sqrt(20.0)
    exact = 6.0 / (20.0 - 9.0) * (np.sin(3 * t) - 3.0 / w * np.sin(w * t))
    assert np.max(np.abs(run.q[:, 0] - exact)) < 3 * step**2 * 0.1 + 1e-12


@pytest.mark.parametrize("steps", [10, 20, 64])
def test_inputs_may_bring_a_body_to_rest(steps: int) -> None:
    """At rest the energy that is held is rounding of earlier ones: nothing to correct, neither a stall nor a drift."""
    system = ht.System(gravity=(0, 0, 0), name="shuttle")
    system.body("mass", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.input("force", ht.JointForce("mass"))
    model = system.derive()
    force = np.concatenate([np.ones(steps), -np.ones(steps), np.zeros(20)])
    run = ht.simulate(model, ([0.0], [0.0]), 0.01 * len(force), 0.01, "energy_momentum", inputs=force[:, None])
    assert run.outcome.ok, run.outcome
    np.testing.assert_allclose(run.q[-1, 0], (0.01 * steps) ** 2, rtol=1e-13)
    assert np.abs(run.v[2 * steps :]).max() < 1e-15
