"""Benchmarks run, agree with the peers before they time anything, and report in one form. No test asserts a time."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from heavytop_bench import agreement, forward, machine, peers, plan_peers, registry
from heavytop_bench.agreement import DisagreementError
from heavytop_bench.measure import BenchEffort, best_times
from heavytop_bench.peers.base import AGREE, MotionFound, MotionTrial, Peer, Trial
from heavytop_bench.peers.mujoco import MuJoCoTree
from heavytop_bench.peers.pinocchio import PinocchioTree
from heavytop_bench.report import BenchReport, Ratio
from heavytop_bench.robots import robots_folder
from heavytop_bench.states import States
from heavytop_bench.trees import Tree, chain, panda, tricopter_load
from typer.testing import CliRunner

import heavytop as ht
from heavytop import library
from heavytop.cli import app
from heavytop.cli.bench import complete_benchmark
from heavytop.compile import host
from heavytop.errors import ModelError, UnknownNameError
from heavytop.plan import Effort

NEEDS_PEERS = {"forward", "single", "scaling", "derivatives"}


@pytest.fixture
def no_peers(monkeypatch):
    monkeypatch.setattr(peers, "versions", dict)


def check_schema(report: dict) -> None:
    assert set(report) == {"title", "rows", "ratios", "notes", "missing"}
    assert report["rows"]
    for row in report["rows"]:
        assert all(isinstance(value, (int, float, str)) for value in row.values())
    for name, ratio in report["ratios"].items():
        assert ratio["name"] == name
        assert np.isfinite(ratio["value"])
        assert ratio["met"] in (True, False, None)


LONG = ("fly", "free-body", "gradients", "laws", "estimate")


def test_every_benchmark_is_described():
    page = (Path(__file__).parents[2] / "docs" / "benchmarks.md").read_text("utf-8")
    assert [name for name in registry.BENCHMARKS if f"| `{name}` | " not in page] == []


def marked(name):
    return pytest.param(name, marks=pytest.mark.slow if name in LONG else pytest.mark.thorough)


@pytest.mark.parametrize("name", [marked(n) for n in registry.BENCHMARKS if n != "ready"])
def test_without_peers_own_figures_are_reported(name, no_peers):
    report = registry.run(name, BenchEffort.tiny())
    assert report.name == name
    data = json.loads(json.dumps(report.to_json()))
    check_schema(data)
    if name in NEEDS_PEERS:
        assert "pin" in data["missing"]
        assert not any("pin" in ratio for ratio in data["ratios"])
        assert f"not installed, so not compared: {', '.join(data['missing'])}" in report.text()


@pytest.mark.peers
@pytest.mark.parametrize("name", sorted(NEEDS_PEERS))
def test_ratios_with_peers(name):
    data = registry.run(name, BenchEffort.tiny()).to_json()
    check_schema(data)
    assert data["missing"] == []
    assert any("pin" in ratio and data["ratios"][ratio]["target"] for ratio in data["ratios"])
    assert all(ratio["value"] > 0 for label, ratio in data["ratios"].items() if "/" in label)


@pytest.mark.peers
@pytest.mark.parametrize("tree", [tricopter_load(), panda(), chain(6)], ids=lambda t: t.name)
@pytest.mark.parametrize("engine", [PinocchioTree, MuJoCoTree])
def test_accelerations_agree_with_peers(tree, engine):
    model = tree.derive()
    states = States.random(tree, model, 20, seed=3)
    ours = model.acceleration(states.q, states.v, states.u)
    assert agreement.check(tree.name, ours, engine(tree).accelerations(states)) < 1e-11


@pytest.mark.peers
def test_disagreement_stops_the_benchmark(monkeypatch):
    wrong = PinocchioTree.accelerations
    monkeypatch.setattr(PinocchioTree, "accelerations", lambda self, states: wrong(self, states) * (1 + 1e-8))
    with pytest.raises(DisagreementError, match=r"pin, tricopter-load: .* 1e-08"):
        forward.run(BenchEffort.tiny())


class Ours(Peer):
    """An engine that happens to agree: heavytop itself, interpreted."""

    name, module = "ours", "heavytop"

    def __init__(self, off: float = 0.0, installed: bool = True) -> None:
        self.off, self.installed = off, installed

    def version(self):
        return "1.0" if self.installed else None

    def forward(self, tree, states):
        model = tree.system.derive(native=False)
        few = states.rows(AGREE)
        accelerations = model.acceleration(few.q, few.v, few.u) * (1 + self.off)
        return Trial((accelerations,), lambda: None, 1)


@pytest.mark.thorough
def test_a_user_defined_peer_takes_part_in_the_benchmarks_it_supports():
    report = forward.run(BenchEffort.tiny(), [Ours()])
    assert report.missing == []
    assert all("ours_ns" in row for row in report.rows)
    assert [r.name for r in report.ratios if r.target] == [
        f"{name} arrays / ours" for name in ("tricopter-load", "panda", "chain-20")
    ]
    assert registry.run("single", BenchEffort.tiny(), [Ours()]).ratios == []


@pytest.mark.thorough
def test_a_peer_that_is_not_installed_is_reported():
    report = forward.run(BenchEffort.tiny(), [Ours(installed=False)])
    assert report.missing == ["ours"]
    assert report.ratios == []


@pytest.mark.thorough
def test_a_peer_that_computes_something_else_is_not_timed():
    with pytest.raises(DisagreementError, match="ours, tricopter-load"):
        forward.run(BenchEffort.tiny(), [Ours(off=1e-8)])


def test_only_trees_that_peers_know():
    with pytest.raises(ModelError, match="joint"):
        Tree.of("cart", library.cart_pole())


@pytest.mark.slow
def test_readiness_starts_processes():
    report = registry.run("ready", BenchEffort.tiny())
    expected = {"import", "cached", "uncached"}
    if robots_folder() is not None:
        expected |= {"humanoid, cached", "humanoid, uncached"}
    assert {row["what"] for row in report.rows} == expected


def test_agreement_sees_each_state_and_nan():
    ours = np.array([[1e6, 1.0], [1.0, 1e-3]])
    assert agreement.check("same", ours, ours) == 0
    theirs = ours.copy()
    theirs[1, 1] += 1e-8  # small relative to the first state, not to its own
    with pytest.raises(DisagreementError):
        agreement.check("other", ours, theirs)
    with pytest.raises(DisagreementError, match="nan"):
        agreement.check("nan", ours, np.full_like(ours, np.nan))


def test_targets_have_two_sides():
    assert Ratio("speed", 18.0, 18.0).met
    assert not Ratio("speed", 17.9, 18.0).met
    assert Ratio("time", 1.0, 1.5, at_least=False, unit="s").met
    assert not Ratio("time", 1.6, 1.5, at_least=False, unit="s").met
    assert Ratio("for information", 3.0).met is None
    report = BenchReport("name", "title", rows=[{"a": 1, "b_ns": 2.5}])
    report.ratio("a / b", 2.0, 3.0)
    report.limit("wait", 2.0, 3.0, "s")
    assert [r.name for r in report.unmet] == ["a / b"]
    text = report.text()
    assert ">= 3" in text
    assert "<= 3" in text


def test_best_times_take_the_least_and_go_round():
    now, order = [0.0], []

    def work(name, seconds):
        def call():
            order.append(name)
            now[0] += seconds + (len(order) % 3)  # disturbed two times of three

        return call

    effort = BenchEffort(seconds=0.0, block=1e-9, rounds=7)
    times = best_times({"a": work("a", 0.5), "b": work("b", 0.25)}, effort, clock=lambda: now[0])
    assert times == {"a": 0.5, "b": 0.25}
    assert order[-4:] == ["a", "a", "b", "b"]  # one call to warm up, one timed, in turn


def test_registry_names_every_module():
    for name in registry.BENCHMARKS:
        assert registry.title(name)
    with pytest.raises(UnknownNameError, match="Did you mean 'forward'"):
        registry.run("forwrad")


@pytest.mark.thorough
def test_command_prints_one_json_object(no_peers):
    result = CliRunner().invoke(app, ["bench", "threads", "forward", "--quick", "--json"])
    assert result.exit_code == 0, result.output
    data = json.loads(result.stdout)
    assert set(data) == {"machine", "benchmarks"}
    assert list(data["benchmarks"]) == ["threads", "forward"]
    assert {"processor", "cores", "load_average", "python", "libraries", "peers", "heavytop"} <= set(data["machine"])
    for report in data["benchmarks"].values():
        check_schema(report)


def test_command_lists_and_rejects():
    runner = CliRunner()
    listed = runner.invoke(app, ["bench", "--list"]).stdout
    assert all(name in listed for name in registry.BENCHMARKS)
    unknown = runner.invoke(app, ["bench", "nonsense"])
    assert unknown.exit_code == 2
    assert "unknown benchmark 'nonsense'" in unknown.output
    assert runner.invoke(app, ["bench", "forward", "--seconds", "0"]).exit_code == 2


def test_missing_package_is_reported_with_its_remedy(monkeypatch):
    monkeypatch.setitem(sys.modules, "heavytop_bench", None)
    result = CliRunner().invoke(app, ["bench", "--list"])
    assert result.exit_code == 2
    assert "pip install heavytop" in " ".join(result.output.split())
    assert complete_benchmark("plan") == []


def test_command_text_names_the_machine(no_peers):
    result = CliRunner().invoke(app, ["bench", "threads", "--quick"])
    assert result.exit_code == 0
    assert "load average" in result.stdout
    assert "two threads / one" in result.stdout


def test_other_load_is_noted(monkeypatch, no_peers):
    monkeypatch.setattr("os.getloadavg", lambda: (64.0, 1.0, 1.0), raising=False)
    assert "load average 64.0" in registry.run("threads", BenchEffort.tiny()).notes[-1]
    monkeypatch.setattr("os.getloadavg", lambda: (0.1, 64.0, 64.0), raising=False)
    assert machine.other_work() == ""
    assert " lanes" in machine.describe()["native"]
    assert host().triple in machine.describe()["native"]


@pytest.mark.thorough
def test_parts_of_a_benchmark_run_alone(no_peers):
    lines: list[str] = []
    report = registry.run("plan:problems", replace(BenchEffort.tiny(), progress=lines.append))
    assert [row["problem"] for row in report.rows] == ["cart-pole: swing-up"]
    assert len(lines) == 1
    assert lines[0].startswith("plan, cart-pole: cost 0.53")
    with pytest.raises(UnknownNameError, match="part of the benchmark 'plan' 'sped'. Did you mean 'speed'"):
        registry.run_all(["plan:sped"])
    with pytest.raises(UnknownNameError, match="part of the benchmark 'forward'"):
        registry.run_all(["forward:speed"])


class OurPlanner(Peer):
    """A planner that happens to agree: heavytop itself."""

    name, module = "planner", "heavytop"

    def __init__(self, off: float = 0.0, installed: bool = True, native: bool = True) -> None:
        self.off, self.installed, self.native = off, installed, native

    def version(self):
        return "1.0" if self.installed else None

    def motion(self, case):
        accelerations = lambda q, v, u: case.model.acceleration(q, v, u) * (1 + self.off)  # noqa: E731

        def solve():
            found = ht.plan(
                case.model, case.start, case.goal, case.duration, limits=(case.low, case.high), steps=case.steps,
                cost=case.weight * Effort(about=case.about), tolerance=1e-4,
            )  # fmt: skip
            return MotionFound(found.u[: case.steps], found.iterations, "from straight")

        return (MotionTrial(accelerations, solve, self.native),)


def planned(peer: Peer) -> BenchReport:
    report = BenchReport("plan", "")
    plan_peers.compare(report, [peer], BenchEffort.tiny())
    return report


@pytest.mark.thorough
def test_planners_are_compared_by_cost_arrival_and_time():
    report = planned(OurPlanner())
    kinds = ["ours", "ours, plan to 1e-8", "planner, from straight"]
    assert [row["problem"] for row in report.rows] == [f"cart-pole swing-up, {kind}" for kind in kinds]
    ratios = {ratio.name: ratio.value for ratio in report.ratios}
    assert ratios["cart-pole swing-up: cost, planner / ours"] == pytest.approx(1.0, abs=1e-3)
    assert {"cart-pole swing-up: planner / ours", "cart-pole swing-up: planner / our whole plan"} < set(ratios)
    assert report.rows[1]["arrives_off"] < 1e-6 < report.rows[0]["arrives_off"] < 1e-2


@pytest.mark.thorough
def test_planners_that_run_in_python_are_not_timed():
    assert [ratio.name for ratio in planned(OurPlanner(native=False)).ratios] == [
        "cart-pole swing-up: cost, planner / ours"
    ]


@pytest.mark.thorough
def test_planners_with_other_accelerations_are_noted():
    report = planned(OurPlanner(off=1e-6))
    assert report.ratios == []
    assert len(report.rows) == 2
    assert any("planner, cart-pole swing-up: the results differ by 1e-06" in note for note in report.notes)


def test_planners_that_are_not_installed_are_noted():
    report = planned(OurPlanner(installed=False))
    assert (report.missing, report.rows) == (["planner"], [])
    assert "heavytop[planners]" in report.notes[0]
