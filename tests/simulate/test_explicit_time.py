"""Simulation of systems that the time moves: order of the energy balance, drivers in the report, batches, events, laws."""

from __future__ import annotations

import pickle
from functools import cache
from typing import Any

import numpy as np
import pytest

import heavytop as ht
from heavytop.errors import SimulationError


@cache
def crane() -> ht.Model:
    system = ht.System(name="crane")
    drive = ht.Prescribed(ht.Prismatic("x"), lambda t: 0.5 * np.sin(1.3 * t))
    system.body("trolley", joint=drive, inertia=ht.Inertia(10.0))
    load = ht.Inertia(2.0, com=(0, 0, -1.2), moment_at_com=(0.3, 0.3, 0.3))
    system.body("load", parent="trolley", joint=ht.Revolute("y"), inertia=load)
    system.joint_damper("load", damping=0.1)
    system.input("motor", ht.JointForce("load"))
    return system.derive()


START = ([0.5], [0.2])


def run(integrator: Any, step: float, **options: Any) -> ht.Run:
    return ht.simulate(crane(), START, until=3.3, step=step, integrator=integrator, start_time=0.3, **options)


@pytest.mark.thorough
@pytest.mark.parametrize(("integrator", "order", "steps"), [("rkmk4", 4, (0.1, 0.05)), ("rkmk8", 8, (0.2, 0.1))])
def test_energy_balance_to_the_order_of_the_method(integrator: str, order: int, steps: tuple[float, float]) -> None:
    """The driver's power comes from reactions, not from the energy: the balance converges as fast as the motion does."""
    drifts = [run(integrator, h).invariants["energy"].drift for h in steps]
    assert np.log2(drifts[0] / drifts[1]) > order - 0.5
    fine = run("rkmk8", 0.02)
    assert fine.invariants["energy"].drift < 1e-12
    assert np.max(np.abs(fine.work[:, 2])) > 1.0  # type: ignore[index]
    errors = [np.abs(run(integrator, h).q[-1] - fine.q[-1])[0] for h in steps]
    assert np.log2(errors[0] / errors[1]) > order - 0.7


def test_report_tells_the_power_of_the_driver() -> None:
    done = run("rkmk8", 0.02)
    text = done.report(show=False)
    assert "work of drivers" in text
    assert "power of drivers in W" in text
    assert "trolley" in text
    power = done.driver_power["trolley"]
    by_trapezium = np.concatenate([[0.0], np.cumsum(0.01 * (power[1:] + power[:-1]))])
    np.testing.assert_allclose(done.work[:, 2], by_trapezium, atol=2e-3)  # type: ignore[index]
    again = pickle.loads(pickle.dumps(done))
    assert again.report(show=False).splitlines()[:14] == text.splitlines()[:14]


def test_start_time_continues_a_run() -> None:
    whole = ht.simulate(crane(), START, until=2.0, step=0.01)
    first = ht.simulate(crane(), START, until=1.0, step=0.01)
    second = ht.simulate(crane(), first.final, until=2.0, step=0.01, start_time=1.0)
    np.testing.assert_allclose(second.q[-1], whole.q[-1], rtol=1e-12)


@pytest.mark.thorough
def test_batches_events_and_laws_see_the_time() -> None:
    q = np.array([[0.5], [-0.3], [0.1]])
    law = ht.Feedback(lambda t, q, v: ht.vector(-2.0 * q[0] + 0.3 * np.sin(t)))
    event = ht.Event(lambda t, q, v: q[0] - 0.05, name="passes", terminal=False)
    options = {"until": 1.5, "step": 0.05, "start_time": 0.3, "control": law, "hold": "continuous", "events": event}
    for method in ("rkmk8", "rkmk45"):
        together = ht.simulate(crane(), (q, np.zeros((3, 1))), balance=True, integrator=method, **options)  # type: ignore[arg-type]
        fine = ht.simulate(crane(), (q[0], [0.0]), integrator="rkmk8", **(options | {"step": 0.01}))  # type: ignore[arg-type]
        np.testing.assert_allclose(together.q[-1, 0], fine.q[-1], atol=1e-6)
        np.testing.assert_allclose(together.energy[-1, 0], fine.energy[-1], atol=1e-5)
        own = [o.time for o in together.events if o.trajectory == (0,)]
        np.testing.assert_allclose(own, [o.time for o in fine.events], atol=1e-6)
        assert together.invariants["energy"].drift < 1e-5


@cache
def mechanism() -> ht.Model:
    """A loop whose anchor moves, in a potential that changes."""
    system = ht.System(name="mechanism")
    bar = ht.Inertia(1.0, com=(0.5, 0, 0), moment_at_com=(0.1,) * 3)
    system.body("a", joint=ht.Revolute("y"), inertia=bar)
    system.body("b", parent="a", at=(1.0, 0, 0), joint=ht.Revolute("y"), inertia=bar)
    system.body("c", parent="b", at=(1.2, 0, 0), joint=ht.Revolute("y"), inertia=bar)
    anchor = (1.6 + 0.1 * np.sin(2 * system.time), 0.0, 0.2 * np.cos(system.time))
    system.loop("world", "c", ht.Revolute("y"), at_a=anchor, at_b=(1.0, 0, 0), name="end")
    system.potential(lambda q: 2 * (q[0] - np.sin(3 * system.time)) ** 2)
    return system.derive()


@pytest.mark.parametrize(("integrator", "energy"), [("rkmk4", 2e-4), ("energy_momentum", 1e-12)])
@pytest.mark.thorough
def test_loop_with_a_moving_anchor(integrator: str, energy: float) -> None:
    start = mechanism().assemble([0.8, -1.5, 0.7], [0.3, 0.2, 0.1], parameters={"time": 0.2})
    done = ht.simulate(mechanism(), start, until=1.2, step=0.01, start_time=0.2, integrator=integrator)
    assert done.outcome.ok
    assert done.invariants["loops"].drift < 1e-10
    assert done.invariants["velocity constraints"].drift < 1e-5
    assert done.invariants["energy"].drift < energy
    assert set(done.driver_power) == {"end", "potentials"}


@pytest.mark.thorough
def test_constraints_are_watched_without_a_balance() -> None:
    start = mechanism().assemble([0.8, -1.5, 0.7], [0.3, 0.2, 0.1], parameters={"time": 0.2})
    done = ht.simulate(mechanism(), start, until=1.0, step=0.1, start_time=0.2, balance=False)
    assert done.work is None
    assert done.outcome.ok
    with pytest.raises(ht.errors.ConfigurationError, match="violates its constraints"):
        ht.simulate(mechanism(), start, until=1.0, step=0.01)  # consistent at 0.2 s, not at 0


def test_what_cannot_take_the_time_says_so() -> None:
    with pytest.raises(SimulationError, match="not a parameter of a run"):
        ht.simulate(crane(), START, until=1.0, step=0.1, parameters={"time": 1.0})
    with pytest.raises(SimulationError, match="drivers bring in"):
        run("energy_momentum", 0.1)
    with pytest.raises(SimulationError, match="Variational"):
        run("variational", 0.1)


# --- drivers that jump ----------------------------------------------------------------------------------------------------


def driven(motion: Any, **parameters: float) -> ht.Model:
    """A pendulum on a trolley; ``motion(t, ...)`` takes the parameters too."""
    system = ht.System(name="driven")
    symbols = [system.parameter(name, value) for name, value in parameters.items()]
    drive = ht.Prescribed(ht.Prismatic("x"), lambda t: motion(t, *symbols))
    system.body("trolley", joint=drive, inertia=ht.Inertia(10.0))
    system.body("load", parent="trolley", joint=ht.Revolute("y"), inertia=ht.Inertia(2.0, com=(0, 0, -1.2)))
    return system.derive()


def simulated(model: ht.Model, **options: Any) -> ht.Run:
    return ht.simulate(model, (np.zeros(model.nq), np.zeros(model.nv)), **({"until": 2.0, "step": 0.01} | options))


@pytest.mark.parametrize(
    ("motion", "message"),
    [
        (lambda t: np.where(t < 1, 0.0, 0.3 * (t - 1)), r"velocity of 'trolley' of 'driven' jumps by 0.3 at t = 1 s"),
        (lambda t: 0.3 * np.abs(t - 1.0005), r"velocity of 'trolley' of 'driven' jumps by 0.6 at t = 1.0005 s"),
        (lambda t: np.where(t < 0.777, 0.0, 0.3), r"^'trolley' of 'driven' jumps by 0.3 at t = 0.777 s"),
        (lambda t: np.where(t < 1.5, np.sqrt(1.5 - t), 0.0), "not finite|infinite"),
    ],
)
def test_motions_that_jump_are_refused(motion: Any, message: str) -> None:
    """Nothing in the equations shows it: the energy changed at once, and the run was called finished."""
    with pytest.raises(ht.errors.HeavytopError, match=message):
        simulated(driven(motion))


@pytest.mark.thorough
def test_motions_whose_acceleration_jumps_are_fine() -> None:
    done = simulated(driven(lambda t: np.where(t < 1, 0.0, 0.5 * (t - 1) ** 2)))
    assert done.outcome.ok
    assert done.invariants["energy"].relative < 1e-4


@pytest.mark.thorough
def test_the_jump_of_one_member_of_a_batch_is_found() -> None:
    model = driven(lambda t, when: 0.3 * np.maximum(t - when, 0.0), when=5.0)
    assert simulated(model).outcome.ok
    with pytest.raises(SimulationError, match="jumps by .* at t = 1.3 s"):
        simulated(model, parameters={"when": np.array([3.0, 1.3])})


def test_the_jumps_of_later_members_of_a_large_batch_are_found() -> None:
    from heavytop.system import PrescribedMotions
    from heavytop.system.constraints.prescribed_motion import MOST_SETS

    model = driven(lambda t, ahead: 0.3 * np.maximum(t + ahead, 0.0), ahead=-5.0)
    p = np.repeat(model.parameter_vector()[None], 3 * MOST_SETS, axis=0)
    p[:, model.parameter_names.index("ahead")] = np.linspace(-5.0, -1.0, len(p))
    motions = PrescribedMotions(model)
    motions.check(p, 0.0, 0.9, 10)
    motions.check(p[:0], 0.0, 0.9, 10)
    assert all(len(digest) == 32 for digest, *_ in motions._fine)
    with pytest.raises(SimulationError, match=r"velocity of 'trolley' of 'driven' jumps by 0\.3"):
        motions.check(p, 0.0, 2.0, 10)


@pytest.mark.thorough
def test_an_anchor_that_jumps() -> None:
    system = ht.System(name="triangle")
    bar = ht.Inertia(1.0, com=(0.5, 0, 0), moment_at_com=(0.1,) * 3)
    system.body("a", joint=ht.Revolute("y"), inertia=bar)
    system.body("b", parent="a", at=(1.0, 0, 0), joint=ht.Revolute("y"), inertia=bar)
    anchor = (1.2 + 0.2 * np.abs(system.time - 0.5), 0.0, 0.0)
    system.loop("world", "b", ht.Revolute("y"), at_a=anchor, at_b=(1.0, 0, 0), name="end")
    model = system.derive()
    with pytest.raises(SimulationError, match="velocity of 'at_a of loop end' of 'triangle' jumps"):
        ht.simulate(model, model.assemble([0.8, -1.5], [0.0, 0.0]), until=1.0, step=0.01)


@pytest.mark.thorough
@pytest.mark.parametrize("batch", [(), (2,)])
def test_work_that_no_step_sees_is_told(batch: tuple[int, ...]) -> None:
    """A shake between two steps: smooth, so that it is no jump, and far too fast."""
    model = driven(lambda t: 1e-3 * np.sin(5000 * t))
    start = (np.zeros((*batch, 1)), np.zeros((*batch, 1)))
    done = ht.simulate(model, start, until=1.0, step=0.01)
    assert done.outcome.ending is ht.simulate.Ending.jumped
    assert "drivers ('trolley')" in str(done.outcome)
    assert ht.simulate(model, start, until=0.1, step=2e-5).outcome.ok


def test_a_potential_that_jumps_is_told_and_can_be_let() -> None:
    system = ht.System(name="switched")
    system.body("a", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.potential(lambda q: np.where(system.time < 1, 1.0, 2.0) * q[0] ** 2)
    model = system.derive()
    done = ht.simulate(model, ([1.0], [0.0]), until=2.0, step=1e-3)
    assert done.outcome.ending is ht.simulate.Ending.jumped
    assert done.outcome.time == pytest.approx(1.0, abs=2e-3)
    assert "balance=False goes on" in str(done.outcome)
    let = ht.simulate(model, ([1.0], [0.0]), until=2.0, step=1e-3, balance=False)
    assert let.outcome.ok
    q, v = np.cos(np.sqrt(2)), -np.sqrt(2) * np.sin(np.sqrt(2))
    assert let.q[-1, 0] == pytest.approx(
        q * np.cos(2.0) + v / 2 * np.sin(2.0), abs=1e-3
    )  # the switch lies within a step


def test_a_motion_written_with_math_is_refused() -> None:
    import math

    with pytest.raises(ht.errors.ModelError, match=r"finite numbers, got \[nan\]. Write it with NumPy"):
        driven(lambda t: math.sin(t))


def pushed(force: Any) -> ht.Model:
    system = ht.System(name="pushed", gravity=(0, 0, 0))
    system.body("cart", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.force(lambda q, v: ht.vector(force(system.time)))
    return system.derive()


@pytest.mark.thorough
def test_error_control_does_not_step_over_pulses() -> None:
    """33 ms between records of 10 ms, after 5 s in which nothing happens; also that of a driver."""
    model = pushed(lambda t: 100 * np.exp(-(((t - 5) / 0.02) ** 2)))
    done = ht.simulate(model, ([0.0], [0.0]), 10.0, 0.01, "rkmk45")
    assert done.v[-1, 0] == pytest.approx(2 * np.sqrt(np.pi), rel=1e-7)
    shaken = driven(lambda t: 0.01 * np.exp(-(((t - 2) / 0.02) ** 2)))
    fine = ht.simulate(shaken, ([0.0], [0.0]), 3.0, 1e-3, "rkmk8")
    done = ht.simulate(shaken, ([0.0], [0.0]), 3.0, 0.02, "rkmk45")
    assert abs(fine.v[-1, 0]) > 1e-6
    assert done.v[-1, 0] == pytest.approx(fine.v[-1, 0], abs=1e-7)


@pytest.mark.thorough
def test_steps_end_at_breakpoints() -> None:
    """With records every 5 s only the breakpoints show the pulse; a jump is in the steps of one side only."""
    model = pushed(lambda t: 100 * np.exp(-(((t - 5) / 0.02) ** 2)))
    done = ht.simulate(model, ([0.0], [0.0]), 10.0, 10.0, "rkmk45", breakpoints=[4.9, 5.1])
    assert done.v[-1, 0] == pytest.approx(2 * np.sqrt(np.pi), rel=1e-7)
    model = pushed(lambda t: np.where(np.logical_and(t >= 0.3, t < 0.7), 10.0, 0.0))
    for integrator, step, every in (("rkmk4", 0.1, 1), ("rkmk8", 0.1, 4), ("rkmk45", 0.25, 1)):
        done = ht.simulate(model, ([0.0], [0.0]), 1.0, step, integrator, breakpoints=(0.7, 0.3), record_every=every)
        assert done.v[-1, 0] == pytest.approx(4.0, abs=1e-12)
        assert done.q[-1, 0] == pytest.approx(2.0, abs=1e-12)
    with pytest.raises(SimulationError, match="breakpoint 0.3 s is not at the end of a step of 0.25 s"):
        ht.simulate(model, ([0.0], [0.0]), 1.0, 0.25, breakpoints=[0.3])
    with pytest.raises(SimulationError, match="breakpoint 0.3 s is one step"):
        ht.simulate(model, ([0.0], [0.0]), 1.0, 0.1, breakpoints=[0.1 * 4, 0.5, 0.2, 0.3])
    with pytest.raises(SimulationError, match="finite"):
        ht.simulate(model, ([0.0], [0.0]), 1.0, 0.25, breakpoints=[np.nan])
    batch = ht.simulate(model, (np.zeros((3, 1)), [[0.0], [1.0], [2.0]]), 1.0, 0.25, "rkmk45", breakpoints=(0.3, 0.7))
    assert batch.v[-1, :, 0] == pytest.approx([4.0, 5.0, 6.0], abs=1e-12)


def test_a_short_smooth_pulse_is_not_a_jump() -> None:
    """Its velocity is zero at all instants of the run."""
    system = ht.System(gravity=(0, 0, 0), name="pulse")
    anchor = ht.vector(0.5 * np.exp(-(((system.time - 5.0) / 0.02) ** 2)), 0.0, 0.0)
    system.body("b", at=anchor, joint=ht.Prismatic("x", stiffness=3.0), inertia=ht.Inertia(1.0))
    from heavytop.system import PrescribedMotions

    PrescribedMotions(system.derive(native=False)).check(np.array([0.0]), 0.0, 10.0, 10)


@pytest.mark.parametrize(
    ("joint", "integrator", "step"), [(ht.Prismatic("x"), "rkmk4", 0.05), (ht.Revolute("z"), "rkmk8", 0.3)]
)
@pytest.mark.thorough
def test_a_driver_faster_than_the_step_does_not_finish(joint: Any, integrator: str, step: float) -> None:
    system = ht.System(name="shaken")
    system.body("base", joint=ht.Prescribed(joint, lambda t: 0.05 * np.sin(60 * t)), inertia=ht.Inertia(10.0))
    load = ht.Inertia(2.0, com=(0, 0, -1), moment_at_com=(0.1, 0.1, 0.1))
    system.body("load", parent="base", at=(0.5, 0, 0), joint=ht.Revolute("y"), inertia=load)
    model = system.derive()
    done = ht.simulate(model, ([0.1], [0.0]), 5.0, step, integrator)
    assert done.outcome.ending is ht.simulate.Ending.jumped
    right = ht.simulate(model, ([0.1], [0.0]), 1.0, step, "rkmk45")
    fine = ht.simulate(model, ([0.1], [0.0]), 1.0, 1e-3, integrator)
    assert right.q[-1] == pytest.approx(fine.q[-1], abs=1e-6)
