"""The same optimal motions by Crocoddyl."""

from __future__ import annotations

import numpy as np
import pytest
from heavytop_bench.agreement import DisagreementError
from heavytop_bench.peers.crocoddyl import PEER
from heavytop_bench.plan_peers import _agree, arrival, cases

from heavytop.plan import Effort, plan

pytestmark = pytest.mark.peers


@pytest.mark.parametrize("number", range(4), ids=["cart-pole", "quadcopter", "quadcopter at its limits", "panda"])
def test_the_optimum_is_the_same(number: int) -> None:
    if PEER.version() is None:
        pytest.skip("crocoddyl is not installed (extra 'planners')")
    case = cases()[number]
    trials = PEER.motion(case)
    try:
        _agree(case.name, case, trials[0].accelerations)
    except DisagreementError:
        pytest.skip("crocoddyl is built for another pin: its accelerations are wrong")
    ours = plan(
        case.model, case.start, case.goal, case.duration, limits=(case.low, case.high), steps=case.steps,
        cost=case.weight * Effort(about=case.about),
    )  # fmt: skip
    u = [trial.solve().u for trial in trials]
    near = [one for one in u if arrival(case, one) < 5e-3]
    assert near
    least = min(map(case.effort, near))
    assert least == pytest.approx(
        ours.cost, rel=4e-3
    )  # the goal is a cost there; attitudes of its steps are of second order
    assert arrival(case, ours.u[: case.steps]) < 1e-6
    if case.name != "panda":  # two optima of the arm differ by a thousandth
        best = next(one for one in near if case.effort(one) == least)
        assert np.max(np.abs(best - ours.u[: case.steps])) < 0.1 * np.max(np.abs(ours.u - case.about))
