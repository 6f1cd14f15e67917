"""Runs that go on and take changes."""

from __future__ import annotations

import numpy as np
import pytest

import heavytop as ht
from heavytop.errors import ShapeError, SimulationError, UnknownNameError


@pytest.fixture(scope="module")
def run() -> ht.Run:
    model = ht.library.furuta().derive()
    law = ht.control.lqr(model, [0.0, 0.0])
    return ht.simulate(model, ([0.3, 0.2], [0.0, 0.0]), until=1.0, step=2e-3, control=law)


@pytest.mark.thorough
def test_the_same_motion_in_pieces(run: ht.Run) -> None:
    live = ht.simulate.LiveRun(run)
    for _ in range(10):
        live.advance(0.1)
    assert live.time == pytest.approx(1.0)
    assert live.q == pytest.approx(run.q[-1], rel=1e-12, abs=1e-13)
    assert live.u == pytest.approx(run.u[-51], rel=1e-9)  # of the start of the last piece
    assert live.drift < 1e-6


def test_gains_and_parameters_change_on_the_way(run: ht.Run) -> None:
    live = ht.simulate.LiveRun(run)
    gains = [name for name in live.numbers if name.startswith("gain")]
    assert len(gains) == 4
    for name in gains:
        live.change(name, 0.0)
    live.advance(1.0)
    assert abs(live.q[1]) > 1.0
    assert live.problem is None
    live.restart()
    live.change("m_p", 0.2)
    assert live.numbers["m_p"] == 0.2
    assert live.q == pytest.approx([0.3, 0.2])


def test_mistakes_are_reported(run: ht.Run) -> None:
    live = ht.simulate.LiveRun(run)
    with pytest.raises(UnknownNameError, match="'m_p'"):
        live.change("m_pp", 1.0)
    with pytest.raises(ShapeError, match="finite"):
        live.change("m_p", np.nan)
    with pytest.raises(UnknownNameError):
        live.hold("arms", (0.0, 0.0, 1.0))
    model = ht.library.pendulum().derive()
    with pytest.raises(SimulationError, match="3 trajectories"):
        ht.simulate.LiveRun(ht.simulate(model, (np.zeros((3, 1)), [0.0]), until=0.1, step=0.01))


def test_too_large_a_step_stops_with_a_reason() -> None:
    model = ht.library.double_pendulum().derive()
    live = ht.simulate.LiveRun(ht.simulate(model, ([2.0, 1.0], [5.0, 5.0]), until=0.12, step=0.12, balance=None))
    live.advance(12.0)
    assert live.problem is not None
    assert "too large" in live.problem
    before = live.time
    live.advance(1.0)
    assert live.time == before


def test_loops_are_closed_after_a_change_and_at_the_restart() -> None:
    system = ht.System(name="crank")
    l = system.parameter("l", 1.0)
    for name, length in (("crank", 0.3), ("rocker", 0.8)):
        system.body(name, inertia=ht.Inertia(1.0, com=(length / 2, 0, 0), moment_at_com=(0.01, 0.05, 0.05)))
    system.body("coupler", inertia=ht.Inertia(1.0, com=(0.5, 0.0, 0.0), moment_at_com=(0.01, 0.05, 0.05)))
    system.connect("world", "crank", ht.Revolute("y"))
    system.connect("world", "rocker", ht.Revolute("y"), at=(1.0, 0.0, 0.0))
    system.connect("crank", "coupler", ht.Revolute("y"), at=(0.3, 0.0, 0.0))
    system.loop("coupler", "rocker", ht.Revolute("y"), at_a=(l, 0.0, 0.0), at_b=(0.8, 0.0, 0.0))
    model = system.derive()
    live = ht.simulate.LiveRun(ht.simulate(model, model.assemble([-1.0, -1.4, 0.8]), until=0.5, step=1e-3))
    live.advance(0.1)
    live.change("l", 1.05)
    assert max(np.abs(x).max() for x in model.constraint_residuals(live.q, live.v, {"l": 1.05})) < 1e-9
    live.restart()
    assert max(np.abs(x).max() for x in model.constraint_residuals(live.q, live.v, {"l": 1.05})) < 1e-9
    live.advance(0.5)
    assert live.problem is None
    live.change("l", 3.0)
    assert "cannot be closed" in str(live.problem)


@pytest.mark.thorough
def test_rigid_contact_goes_on_as_in_a_run() -> None:
    model = ht.library.load("bouncing-ball").derive()
    start = ht.library.start("bouncing-ball", model)
    assert start is not None
    run = ht.simulate(model, start, until=1.0, step=1e-3, integrator="moreau")
    live = ht.simulate.LiveRun(run)
    for _ in range(20):
        live.advance(0.05)
    assert live.problem is None
    assert live.q == pytest.approx(run.q[-1], rel=1e-12, abs=1e-12)
