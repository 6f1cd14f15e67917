"""How runs end: events, blow-ups, interruption, limits; what is recorded; the user's dynamics."""

from __future__ import annotations

import _thread
import dataclasses
import signal
import threading
from functools import cache
from typing import Any

import numpy as np
import pytest

import heavytop as ht
from heavytop._progress import Progress
from heavytop.compile import Stepper
from heavytop.errors import ConfigurationError, SimulationError
from heavytop.library import mechanisms
from heavytop.simulate import Ending, RecordGrid
from heavytop.simulate.adaptive_step import ChosenSteps

G = 9.81


@cache
def stone() -> ht.UserDynamics:
    return ht.UserDynamics(
        ht.coordinates.Vector(3),
        lambda q, v: np.array([0, 0, -G]),
        kinetic=lambda q, v: 0.5 * np.vecdot(v, v),
        potential=lambda q: G * q[2],
        name="stone",
    )


@cache
def stiff_spring(stiffness: float = 1e6) -> ht.Model:
    system = ht.System(name="stiff")
    system.body("mass", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.potential(lambda q: 0.5 * stiffness * q[0] ** 2)
    return system.derive()


TOUCH = ht.Event(lambda t, q, v: q[2], name="touch-down", direction=-1)


@pytest.mark.parametrize("integrator", ["rkmk4", "rkmk45", "energy_momentum", "variational"])
@pytest.mark.parametrize("every", [1, 7])
def test_terminal_event(integrator: str, every: int) -> None:
    run = ht.simulate(stone(), ([0, 0, 2.0], [1.0, 0, 3.0]), 5.0, 0.05, integrator, record_every=every, events=TOUCH)
    exact = (3 + np.sqrt(9 + 4 * G)) / G
    assert run.outcome.ending is Ending.event
    assert run.outcome.ok
    assert run.t[-1] == pytest.approx(exact, abs=2e-10)
    assert abs(run.q[-1, 2]) < 1e-9
    assert run.q[-1, 0] == pytest.approx(exact, abs=1e-9)
    assert np.all(np.diff(run.t) > 0)
    assert str(run.outcome).startswith("event: touch-down at t = 1.0138")


@pytest.mark.parametrize("integrator", ["rkmk4", "rkmk45"])
def test_events_of_a_batch(integrator: str) -> None:
    heights = np.array([[1.0, 2.0], [3.0, 50.0]])
    q = np.zeros((2, 2, 3))
    q[..., 2] = heights
    passing = ht.Event(lambda t, q, v: q[0] - 0.3, name="passing", terminal=False)
    run = ht.simulate(stone(), (q, [1.0, 0, 0]), 2.0, 0.01, integrator, events=[TOUCH, passing])
    times = {o.trajectory: o.time for o in run.events if o.name == "touch-down"}
    assert set(times) == {(0, 0), (0, 1), (1, 0)}
    for index, when in times.items():
        assert when == pytest.approx(np.sqrt(2 * heights[index] / G), abs=2e-10)
        assert np.all(np.isnan(run.q[run.t > when][:, *index]))
        assert np.all(np.isfinite(run.q[run.t < when][:, *index]))
    assert sum(o.name == "passing" for o in run.events) == 4
    assert run.outcomes[1, 1].ending is Ending.finished
    assert [o.time for o in run.events] == sorted(o.time for o in run.events)


@pytest.mark.thorough
def test_events_with_laws_that_see_the_time() -> None:
    """The input changes with t inside the step in which the event lies."""
    system = ht.System(gravity=(0, 0, 0), name="cart")
    system.body("cart", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.input("push", ht.JointForce("cart"))
    law = ht.Feedback(lambda t: ht.vector(6 * t), ("t",))
    for hold in ("continuous", "zero-order"):
        event = ht.Event(lambda t, q, v: q[0] - 1.0, name="there")
        run = ht.simulate(system.derive(), ([0.0], [0.0]), 3.0, 0.3, control=law, hold=hold, events=event)
        fine = ht.simulate(system.derive(), ([0.0], [0.0]), 3.0, 0.3, "rkmk8", control=law, hold=hold, events=event)
        assert run.t[-1] == pytest.approx(fine.t[-1], abs=1e-8)
        if hold == "continuous":
            assert run.t[-1] == pytest.approx(1.0, abs=1e-9)  # q = t^3


def test_direction_and_repeated_crossings() -> None:
    system = ht.System(name="pendulum")
    system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
    model = system.derive()
    counts = {}
    for direction in (-1, 0, 1):
        event = ht.Event(lambda t, q, v: q[0], direction=direction, terminal=False)
        run = ht.simulate(model, ([0.1], [0.0]), 10.0, 0.01, events=event)
        counts[direction] = len(run.events)
    assert counts[0] == counts[-1] + counts[1]
    assert abs(counts[1] - counts[-1]) <= 1
    period = 2 * np.pi * np.sqrt(1 / G) * (1 + 0.1**2 / 16)
    run = ht.simulate(model, ([0.1], [0.0]), 10.0, 0.01, "rkmk8", events=ht.Event(lambda t, q, v: q[0], terminal=False))
    assert 2 * np.mean(np.diff([o.time for o in run.events])) == pytest.approx(period, rel=1e-6)


@pytest.mark.parametrize("integrator", ["rkmk4", "rkmk45", "projected_rk4", "energy_momentum"])
@pytest.mark.parametrize("depth", [1e-5, 1e-3, 0.3])
def test_two_crossings_within_a_step_are_found(integrator: str, depth: float) -> None:
    system = ht.System()
    system.body("ball", joint=ht.Prismatic("z"), inertia=ht.Inertia(1.0))
    speed, g = 5.0, 9.81
    high = ht.Event(lambda t, q, v: q[0] - (speed**2 / 2 / g - depth), name="high", terminal=False)
    run = ht.simulate(system.derive(), ([0.0], [speed]), 1.0, 0.5, integrator, events=high)
    expected = speed / g + np.array([-1, 1]) * np.sqrt(2 * depth / g)
    assert [o.time for o in run.events] == pytest.approx(list(expected), abs=1e-7)
    rising = dataclasses.replace(high, direction=1, terminal=True)
    run = ht.simulate(system.derive(), ([0.0], [speed]), 1.0, 0.5, integrator, events=rising)
    assert run.outcome.time == pytest.approx(expected[0], abs=1e-7)
    assert run.q.max() < speed**2 / 2 / g - depth + 1e-6


@pytest.mark.parametrize("integrator", ["rkmk8", "rkmk45"])
@pytest.mark.thorough
def test_two_crossings_of_speeds_in_a_batch(integrator: str) -> None:
    model = ht.library.pendulum().derive()
    start = np.array([[0.5], [0.9], [1.3]]), np.zeros((3, 1))
    fine = ht.simulate(model, start, 2.0, 1e-3, "rkmk8")
    level = 0.9999 * float(np.abs(fine.v[:, 1]).max())
    event = ht.Event(lambda t, q, v: v[0] ** 2 - level**2, terminal=False)
    reference = ht.simulate(model, start, 2.0, 1e-3, "rkmk8", events=event).events
    found = ht.simulate(model, start, 2.0, 0.05, integrator, events=event).events
    assert len(reference) == len(found) > 4
    assert [o.trajectory for o in found] == [o.trajectory for o in reference]
    assert [o.time for o in found] == pytest.approx([o.time for o in reference], abs=1e-6)


@pytest.mark.thorough
@pytest.mark.parametrize("integrator", ["rkmk4", "rkmk45"])
def test_events_that_are_nan_raise(integrator: str) -> None:
    model = ht.library.pendulum().derive()
    root = ht.Event(lambda t, q, v: 1 + np.sqrt(0.45 - t), name="root")
    with pytest.raises(SimulationError, match="'root' is NaN at t = 0"):
        ht.simulate(model, ([1.0], [0.0]), 1.0, 0.1, integrator, events=root)
    early = ht.Event(lambda t, q, v: t - 0.25, name="early")
    run = ht.simulate(model, ([1.0], [0.0]), 1.0, 0.1, integrator, events=(root, early))
    assert run.outcome.time == pytest.approx(0.25, abs=1e-9)


def test_an_event_that_holds_at_the_start_does_not_fire() -> None:
    run = ht.simulate(stone(), ([0, 0, 0.0], [0.0, 0, 3.0]), 5.0, 0.05, events=ht.Event(lambda t, q, v: q[2]))
    assert run.t[-1] == pytest.approx(6 / G, abs=1e-9)


@pytest.mark.parametrize("integrator", ["rkmk4", "rkmk8", "projected_rk4", "variational"])
def test_blow_up_of_a_stiff_spring(integrator: str) -> None:
    run = ht.simulate(stiff_spring(), ([0.01], [0.0]), 10.0, 0.01, integrator)
    assert run.outcome.ending is Ending.diverged
    assert not run.outcome.ok
    message = str(run.outcome)
    assert "step 0.01 s is too large" in message
    assert "|lambda| = 1000 1/s" in message
    assert f"t = {run.outcome.time:.6g} s" in message
    assert len(run) >= 1
    assert np.all(np.isfinite(run.q))
    assert run.t[-1] < run.outcome.time
    what = "a step before" if integrator == "variational" else "not finite from"
    with pytest.raises(SimulationError, match=f"diverged: {what} t ="):
        ht.simulate(stiff_spring(), ([0.01], [0.0]), 10.0, 0.01, integrator, raise_on_failure=True)


def test_blow_up_of_some_trajectories_of_a_batch() -> None:
    system = ht.System(name="springs")
    stiffness = system.parameter("stiffness", 1.0)
    system.body("mass", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.potential(lambda q: 0.5 * stiffness * q[0] ** 2)
    values = np.array([1.0, 1e6, 10.0, 1e7, 100.0])
    run = ht.simulate(system.derive(), ([0.01], [0.0]), 5.0, 0.01, parameters={"stiffness": values})
    endings = [o.ending for o in run.outcomes]
    assert endings == [Ending.finished, Ending.diverged, Ending.finished, Ending.diverged, Ending.finished]
    assert run.outcome.ending is Ending.diverged
    assert "2 of 5 trajectories" in str(run.outcome)
    assert "(trajectory 3)" in str(run.outcome)  # the first to go
    assert np.all(np.isfinite(run.q[:, [0, 2, 4]]))
    for index in (1, 3):
        late = run.t >= run.outcomes[index].time
        assert np.all(np.isnan(run.q[late, index]))
        assert np.all(np.isfinite(run.q[~late, index]))
        last = np.flatnonzero(~late)[-1]
        np.testing.assert_array_equal(run.final[0][index], run.q[last, index])
        np.testing.assert_array_equal(run.final[1][index], run.v[last, index])
    np.testing.assert_array_equal(run.final[0][::2], run.q[-1, ::2])
    np.testing.assert_allclose(run.q[-1, 4, 0], 0.01 * np.cos(50.0), atol=1e-5)


def test_adaptive_run_that_loses_its_solution() -> None:
    """v' = v^2 is infinite at t = 1."""
    explosion = ht.UserDynamics(ht.coordinates.Vector(1), lambda q, v: v * v, name="explosion")
    run = ht.simulate(explosion, ([0.0], [1.0]), 2.0, 0.1, "rkmk45")
    assert run.outcome.ending is Ending.diverged
    assert run.outcome.time == pytest.approx(1.0, abs=1e-6)
    assert np.all(np.isfinite(run.v))
    limited = ht.simulate(explosion, ([0.0], [1.0]), 2.0, 0.1, ht.RKMK45(max_steps=20))
    assert limited.outcome.ending is Ending.step_limit
    assert "raise max_steps" in str(limited.outcome)


def test_fixed_step_through_a_singularity_names_the_growth() -> None:
    explosion = ht.UserDynamics(ht.coordinates.Vector(1), lambda q, v: v * v * v, name="explosion")
    run = ht.simulate(explosion, ([0.0], [1.0]), 2.0, 0.01)
    assert run.outcome.ending is Ending.diverged
    assert "the largest velocity grew from 1 to" in str(run.outcome)
    assert "a force without bound" in str(run.outcome)


@pytest.mark.parametrize("integrator", ["rkmk4", ht.RKMK45(max_steps=10**9)], ids=["rkmk4", "rkmk45"])
@pytest.mark.thorough
def test_interruption_returns_what_was_computed(integrator: Any) -> None:
    system = ht.System(gravity=(0, 0, 0), name="long")
    system.body("body", joint=ht.Free(), inertia=ht.Inertia(1.0, moment_at_com=(1, 2, 3)))
    model = system.derive()
    start = model.neutral(), np.ones(6)
    ht.simulate(model, start, 0.1, 1e-3, integrator)  # compiled before the clock runs
    # a process started in the background of a shell ignores the signal, so say that this one does not
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timer = threading.Timer(0.6, _thread.interrupt_main)
    try:
        timer.start()
        run = ht.simulate(model, start, 1e6, 1e-3, integrator, record_every=10**6)
        timer.join()
    finally:
        signal.signal(signal.SIGINT, before)
    assert run.outcome.ending is Ending.interrupted
    assert "stopped from outside at t =" in str(run.outcome)
    assert 0 < run.outcome.time < 1e6
    assert np.all(np.isfinite(run.q))


@pytest.mark.thorough
@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("every", [1, 7])
@pytest.mark.parametrize(
    ("integrator", "hold"), [("rkmk4", "zero-order"), ("rkmk45", "zero-order"), ("rkmk45", "continuous")]
)
def test_ctrl_c_does_not_wait_for_what_was_recorded(
    integrator: str, hold: str, count: int, every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Times, inputs and channels come with the blocks: after the signal nothing as long as the recording is left to do."""
    system = ht.System(name="pendulum")
    system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
    system.input("motor", ht.JointForce("rod"))
    model = system.derive()
    law = ht.Feedback(lambda q, v: 0.3 - q - v, ("q", "v"))
    start = (np.full((count, 1), 0.2), np.zeros((count, 1))) if count > 1 else ([0.2], [0.0])
    options = {"integrator": integrator, "control": law, "record_every": every, "hold": hold}
    monkeypatch.setattr("heavytop.simulate.adaptive_step.OBSERVED", 16)
    monkeypatch.setattr("heavytop.simulate.adaptive_step.MOST", 16)
    monkeypatch.setattr("heavytop.simulate.fixed_step.BLOCK_BYTES", 4e3)
    whole = ht.simulate(model, start, 3.0, 1e-3, **options)
    times, calls, asked = RecordGrid.times, [0], []

    def watched(grid: RecordGrid, first: int = 0, after: int | None = None) -> np.ndarray:
        found = times(grid, first, after)
        asked.append(len(found))
        return found

    run = Stepper.run

    def stopping(*arguments: object, **named: object) -> object:
        calls[0] += 1
        if calls[0] == (200 if integrator == "rkmk45" and hold == "zero-order" else 6):
            raise KeyboardInterrupt
        return run(*arguments, **named)

    observe = ChosenSteps._observe

    def observing(run: ChosenSteps, n: int) -> None:
        asked.append(n - run.observed)
        observe(run, n)

    monkeypatch.setattr(RecordGrid, "times", watched)
    monkeypatch.setattr(ChosenSteps, "_observe", observing)
    monkeypatch.setattr(
        "heavytop.simulate.adaptive_step._times", lambda grid: times(grid)
    )  # before the first step, in pieces
    monkeypatch.setattr(Stepper, "run", stopping)
    cut = ht.simulate(model, start, 3.0, 1e-3, **options)
    assert cut.outcome.ending is Ending.interrupted
    n = len(cut.t)
    assert 10 < n < len(whole.t)
    last = (
        n if (n - 1) * every * 1e-3 == pytest.approx(cut.t[-1]) else n - 1
    )  # the last state may lie between two records
    for name in ("t", "q", "v", "u"):
        np.testing.assert_array_equal(getattr(cut, name)[:last], getattr(whole, name)[:last])
    for name in whole.channels:
        np.testing.assert_array_equal(cut.channels[name][:last], whole.channels[name][:last])
    assert np.all(np.isfinite(cut.q))
    assert max(asked) < 0.7 * n


def test_record_stride_keeps_start_and_end() -> None:
    run = ht.simulate(stone(), ([0, 0, 2.0], np.zeros(3)), 1.0, 0.01, record_every=30)
    np.testing.assert_allclose(run.t, [0, 0.3, 0.6, 0.9, 1.0], atol=1e-14)
    np.testing.assert_allclose(run.q[:, 2], 2 - 0.5 * G * run.t**2, atol=1e-13)
    shortened = ht.simulate(stone(), ([0, 0, 2.0], np.zeros(3)), 1.0, 0.3)
    np.testing.assert_allclose(shortened.t, [0, 0.25, 0.5, 0.75, 1.0], atol=1e-14)
    nothing = ht.simulate(stone(), ([0, 0, 2.0], np.zeros(3)), 0.0, 0.1)
    assert nothing.t.tolist() == [0.0]
    later = ht.simulate(stone(), ([0, 0, 2.0], np.zeros(3)), 3.0, 0.5, start_time=2.0)
    assert later.t.tolist() == [2.0, 2.5, 3.0]


def test_runs_can_be_continued() -> None:
    system = ht.System(name="pendulum")
    system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
    model = system.derive()
    whole = ht.simulate(model, ([1.0], [0.0]), 2.0, 0.01)
    first = ht.simulate(model, ([1.0], [0.0]), 1.0, 0.01)
    second = ht.simulate(model, first.final, 2.0, 0.01, start_time=1.0)
    np.testing.assert_allclose(second.q[-1], whole.q[-1], atol=1e-13)


@pytest.mark.thorough
def test_start_off_the_manifold_or_the_loop_is_told() -> None:
    system = ht.System(name="top")
    system.body("top", joint=ht.Spherical("quaternion"), inertia=ht.Inertia(1.0, moment_at_com=(1, 1, 1)))
    with pytest.raises(ConfigurationError, match=r"start q of 'top'.*off its manifold"):
        ht.simulate(system.derive(), ([2.0, 0, 0, 0], np.zeros(3)), 1.0, 0.1)
    model = mechanisms.bricard().derive()
    q, v = model.assemble()
    with pytest.raises(
        ConfigurationError, match=r"start configuration q of 'bricard' violates its constraints.*assemble"
    ):
        ht.simulate(model, (q + 0.1, v), 1.0, 0.1)
    run = ht.simulate(model, (q, v), 0.1, 0.01)
    assert run.invariants["loops"].drift < 1e-10
    with pytest.raises(ht.errors.ModelError, match=r"Call .derive\(\) first"):
        ht.simulate(system, ([1.0, 0, 0, 0], np.zeros(3)), 1.0, 0.1)


def test_progress_bar_waits_and_needs_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with Progress("nothing", enabled=False) as silent:
        silent.update(0.5)
    assert silent._bar is None
    monkeypatch.setattr("heavytop._progress.DELAY", 0.0)
    with Progress("rolling", enabled=True) as bar:
        bar.update(0.25)
        assert bar._bar is not None
    with Progress("waiting", enabled=True) as patient:
        monkeypatch.setattr("heavytop._progress.DELAY", 100.0)
        patient.update(0.25)
        assert patient._bar is None


def test_bad_events_are_told() -> None:
    with pytest.raises(SimulationError, match="direction of event 'x' must be -1, 0 or 1, got 2"):
        ht.Event(lambda t, q, v: q[0], name="x", direction=2)
    with pytest.raises(SimulationError, match=r"an event must be an ht.Event or a function of \(t, q, v\), got 3"):
        ht.simulate(stone(), (np.zeros(3), np.zeros(3)), 1.0, 0.1, events=[3])
    with pytest.raises(SimulationError, match=r"event 'event1' must return one number, got shape \(3,\)"):
        ht.simulate(stone(), (np.zeros(3), np.zeros(3)), 1.0, 0.1, events=lambda t, q, v: q)
