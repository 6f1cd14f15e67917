"""The free body: reference, comparison, rows. No test asserts a time."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from heavytop_bench import free_body, peers
from heavytop_bench.free_body import (
    LEVELS,
    OMEGA_END,
    OURS,
    QUATERNION_END,
    TUMBLING,
    UNSTABLE,
    AccuracyPoint,
    cheapest,
    compare,
    errors_of,
    model_of,
    our_run,
    step_times,
)
from heavytop_bench.measure import BenchEffort
from heavytop_bench.peers import FreeBodyMethod, known
from heavytop_bench.report import BenchReport

from heavytop.geometry.quaternion import rotation_from_quaternion
from heavytop.simulate import RKMK45

GOLDEN = Path(__file__).parents[1] / "golden" / "a_unstable_rotation.json"
METHODS: dict[str, FreeBodyMethod] = {
    method.name: method for peer in known() if peer.offers("free_body") for method in peer.free_body()
}
END = OMEGA_END, rotation_from_quaternion(QUATERNION_END / np.linalg.norm(QUATERNION_END))


def test_reference_is_that_of_the_golden_data():
    data = json.loads(GOLDEN.read_text())
    assert data["parameters"]["J"] == list(UNSTABLE.moment)
    assert data["parameters"]["Omega0"] == list(UNSTABLE.omega)
    np.testing.assert_allclose(data["Omega"][-1], END[0], rtol=1e-15)
    np.testing.assert_allclose(data["R"][-1], END[1], atol=1e-15)


@pytest.mark.parametrize(("method", "limit"), [("rkmk4", 3e-5), ("rkmk8", 1e-7), (RKMK45(1e-12, 1e-10), 1e-6)])
@pytest.mark.thorough
def test_our_runs_reach_the_reference(method, limit):
    omega, attitude = errors_of(our_run(model_of(UNSTABLE), UNSTABLE, 1e-3, 1000, method)(), END)
    assert omega < limit
    assert attitude < limit


@pytest.mark.thorough
def test_without_peers_only_our_figures(monkeypatch):
    monkeypatch.setattr(peers, "versions", dict)
    report = free_body.run(BenchEffort.tiny())
    assert report.missing == ["exudyn", "mujoco", "pin"]
    assert not report.ratios
    methods = {str(row["method"]).partition(",")[0] for row in report.rows}
    assert methods == {*OURS, "rkmk45"}
    tables = {row["table"] for row in report.rows}
    assert tables == {"sweep", "cheapest", "100 s at 1 ms", "tumbling, 10 s at 10 ms"}
    kept = [row for row in report.rows if row["table"] == "100 s at 1 ms" and row["method"] == "energy_momentum"]
    assert abs(float(kept[0]["energy_change"])) < 1e-13


@pytest.mark.peers
@pytest.mark.parametrize(("name", "limit"), [("exudyn RK44", 3e-5), ("exudyn RK67", 1e-6), ("mujoco RK4", 3e-5)])
def test_peers_reach_the_reference(name, limit):
    omega, attitude = errors_of(METHODS[name].make(UNSTABLE, 1e-3, 1000)(), END)
    assert omega < limit
    assert attitude < limit


@pytest.mark.peers
def test_runs_of_peers_start_afresh():
    for method in METHODS.values():
        run = method.make(TUMBLING, 0.01, 5)
        first, second = run(), run()
        np.testing.assert_array_equal(first[0], second[0])
        np.testing.assert_array_equal(first[1], second[1])


@pytest.mark.peers
def test_first_order_loops_gain_energy_in_tumbling():
    for name in ("mujoco Euler", "pin semi-implicit"):
        end = METHODS[name].make(TUMBLING, 0.01, 1000)()
        assert TUMBLING.energy(end) > 1.001 * TUMBLING.energy(TUMBLING.start)
    end = our_run(model_of(TUMBLING), TUMBLING, 0.01, 1000, "energy_momentum")()
    assert TUMBLING.energy(end) == pytest.approx(TUMBLING.energy(TUMBLING.start), rel=1e-13)


def test_cheapest_run_of_an_accuracy():
    points = [AccuracyPoint("a", 10, 1e-4, 1e-2, 1.0, 0.5), AccuracyPoint("a", 100, 1e-9, 1e-6, 3.0, 2.5)]
    assert cheapest(points, 1e-3, with_attitude=False) is points[0]
    assert cheapest(points, 1e-3, with_attitude=True) is points[1]
    assert cheapest(points, 1e-10, with_attitude=False) is None


def test_ratios_hold_their_targets():
    report = BenchReport("free-body", "title")
    points = [
        AccuracyPoint("rkmk4", 100, 1e-8, 1e-8, 2.0, 1.0),
        AccuracyPoint("exudyn RK44", 100, 1e-8, 1e-8, 1.5, 1.4),
        AccuracyPoint("pin RK4", 100, 1e-3, 1.0, 9.0, 9.0),
    ]
    compare(report, points)
    ratios = {ratio.name: ratio for ratio in report.ratios}
    for level in LEVELS:
        loop = ratios[f"Omega and R {level:.0e}: ours / exudyn RK44"]
        whole = ratios[f"Omega and R {level:.0e}, whole call: ours / exudyn RK44"]
        assert (loop.value, loop.met) == (1.4, True)
        assert (whole.value, whole.met) == (0.75, False)
        assert f"Omega and R {level:.0e}: ours / pin RK4" not in ratios
    assert ratios["Omega 1e-03: ours / pin RK4"].met
    assert ratios["Omega 1e-03, whole call: ours / pin RK4"].met is None  # a loop in Python has no target as a whole
    assert "Omega 1e-04: ours / pin RK4" not in ratios
    assert any(note.startswith("pin RK4 does not reach 1e-02") for note in report.notes)


def test_time_per_step_leaves_out_the_start():
    times = {("a, 1e-03", 1): 1.0, ("a, 1e-09", 11): 2.0, ("b", 1): 3.0, ("b", 4): 2.0}
    assert step_times(times) == {"a": 0.1, "b": 0.5}
    assert errors_of((np.full(3, np.nan), np.eye(3)), END) == (1e300, 1e300)
