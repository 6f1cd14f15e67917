"""Steps of many trajectories. No test asserts a time."""

from __future__ import annotations

import numpy as np
import pytest
from heavytop_bench import peers, simulate
from heavytop_bench.agreement import DisagreementError
from heavytop_bench.measure import BenchEffort
from heavytop_bench.peers import mujoco
from heavytop_bench.simulate import STEP, steps_of

from heavytop.copters import quadcopter


@pytest.mark.thorough
def test_without_mujoco_our_figures_and_the_limit(monkeypatch):
    monkeypatch.setattr(peers, "versions", dict)
    report = simulate.run(BenchEffort.tiny())
    assert report.missing == ["mujoco"]
    assert [row["system"] for row in report.rows] == ["tricopter-load", "quadcopter"]
    strict, arrays = report.ratios
    assert strict.name == "tricopter-load: step / 4 evaluations"
    assert (strict.target, strict.at_least) == (1.4, False)
    assert arrays.target is None


@pytest.mark.peers
def test_with_mujoco():
    report = simulate.run(BenchEffort.tiny())
    assert report.missing == []
    assert report.ratios[-1].name == "quadcopter: step / mujoco rollout RK4"
    assert report.ratios[-1].target == 50


@pytest.mark.peers
def test_rollout_is_the_same_motion():
    model = quadcopter().model
    rng = np.random.default_rng(2)
    q, v, u = model.random(rng, (3,)), rng.standard_normal((3, 6)), rng.uniform(1.0, 3.0, (3, 4))
    end, theirs = steps_of(model, q, v, u, 200), mujoco.Rollout(quadcopter(), q, v, u, STEP, 200).run()
    np.testing.assert_allclose(end.q[-1, :, :3], theirs[:, :3], atol=1e-9)
    np.testing.assert_allclose(end.v[-1, :, 3:], theirs[:, 10:], rtol=1e-8)


@pytest.mark.peers
def test_another_vehicle_is_not_timed(monkeypatch):
    xml = mujoco.vehicle_xml
    monkeypatch.setattr(mujoco, "vehicle_xml", lambda *given: xml(*given).replace('mass="0.9', 'mass="0.8'))
    with pytest.raises(DisagreementError, match="positions of the quadcopter"):
        simulate.run(BenchEffort.tiny())
