"""Live pages: their simulation is that of native code, keeps watch, and takes changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from show.live_node import SYSTEMS, difference, library_run, page_parts, simulated, started

import heavytop as ht
from heavytop.errors import SimulationError

TOLERANCE = 1e-12


@pytest.mark.thorough
def test_pendulum_page_simulates_as_native_code_does(tmp_path: Path) -> None:
    model, start = started("double-pendulum")
    run = ht.simulate(model, start, until=1.0, step=0.001)
    path: Any = run.show(tmp_path / "live.html", live=True)
    result = simulated(path, 1000)
    assert difference(result, run) < TOLERANCE
    assert result["time"] == pytest.approx(1.0)
    assert result["problem"] is None
    assert result["drift"] < 1e-9
    assert max(result["bytes"]) < 20_000
    # another length, as a run with that parameter
    longer = ht.simulate(model, start, until=1.0, step=0.001, parameters={"l_1": 1.4})
    changed = 'motion.change(number("l_1").index, 1.4); motion.restart();'
    assert difference(simulated(path, 1000, changed), longer) < TOLERANCE
    # another start
    other = ht.simulate(model, ([0.5, 0.3], [1.0, 0.2]), until=1.0, step=0.001)
    moved = "motion.delta[0] = 0.2; motion.v0[0] = 1.0; motion.restart();"
    assert difference(simulated(path, 1000, moved), other) < TOLERANCE


@pytest.mark.thorough
def test_hand_pulls_and_its_work_is_in_the_balance(tmp_path: Path) -> None:
    model = ht.library.double_pendulum().derive()
    path = model.show(tmp_path / "live.html", live=True)
    hold = 'const body = live.bodies.find((b) => b.name === "lower"); motion.hold(body, [0, 0, -0.7], [1.2, 0, -0.9]);'
    result = simulated(path, 4000, hold)
    assert result["problem"] is None
    assert result["drift"] < 1e-6
    place = np.array(result["poses"][-1]).reshape(4, 4) @ [0, 0, -0.7, 1]
    assert place[0] > 0.5
    assert result["work"][0] > 1.0
    assert simulated(path, 4000)["q"] == pytest.approx(np.zeros(2), abs=1e-12)  # left alone it hangs


@pytest.mark.thorough
def test_too_large_a_step_is_noticed(tmp_path: Path) -> None:
    model, start = started("double-pendulum")
    path: Any = ht.simulate(model, (start[0] + 1.5, start[1] + 4.0), until=1.0, step=0.001).show(
        tmp_path / "a.html", live=True
    )
    result = simulated(path, 60, "motion.setStep(0.12); motion.openBooks();")
    assert result["problem"]["smaller"]
    assert "step of 0.12" in result["problem"]["why"]
    assert simulated(path, 60)["problem"] is None


@pytest.mark.thorough
def test_a_wrong_frame_is_taken_back(tmp_path: Path) -> None:
    """The page keeps the last state that is right, though a step enters the balance of energy only now and then."""
    system = ht.System(name="mass on a spring")
    k = system.parameter("k", 100.0)
    system.body("block", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0, moment_at_com=(0.1, 0.1, 0.1)))
    system.joint_spring("block", stiffness=k)
    run = ht.simulate(system.derive(), ([0.3], [0.0]), until=1.0, step=1e-3)
    path: Any = run.show(tmp_path / "a.html", live=True)
    for stiffness in (1e6, 1e7, 1e9):  # rkmk4 is stable below 8e6 and right far below
        stiff = f'motion.change(number("k").index, {stiffness}); motion.restart();'
        result = simulated(path, 17, stiff)
        assert "step of 0.00100" in result["problem"]["why"]
        assert result["problem"]["smaller"]
        assert (result["time"], result["q"].item()) == (0.0, 0.3)
        live = ht.simulate.LiveRun(run)
        live.change("k", stiffness)
        live.advance(0.017)
        assert live.problem is not None
        assert (live.time, live.q.item()) == (0.0, 0.3)


@pytest.mark.thorough
def test_the_motion_ends_in_the_step_before_an_event(tmp_path: Path) -> None:
    model, start = started("pendulum")
    low = ht.Event(lambda t, q, v: q[0] - 0.1, name="low", direction=-1)
    run = ht.simulate(model, start, until=2.0, step=1e-3, events=low)
    result = simulated(run.show(tmp_path / "a.html", live=True), 1500)
    assert result["problem"]["why"] == "The motion ends here: low."
    assert 0.0 <= run.t[-1] - result["time"] <= 1e-3
    assert result["q"][0] > 0.1


@pytest.mark.thorough
def test_loops_are_closed_after_a_change_and_reported_where_they_cannot_be(tmp_path: Path) -> None:
    system = ht.System(name="four-bar")
    l = system.parameter("l", 1.0)
    for name, length in (("crank", 0.3), ("rocker", 0.8)):
        system.body(name, inertia=ht.Inertia(1.0, com=(length / 2, 0, 0), moment_at_com=(0.01, 0.05, 0.05)))
    system.body("coupler", inertia=ht.Inertia(1.0, com=(l / 2, 0.0, 0.0), moment_at_com=(0.01, 0.05, 0.05)))
    system.connect("world", "crank", ht.Revolute("y"))
    system.connect("world", "rocker", ht.Revolute("y"), at=(1.0, 0.0, 0.0))
    system.connect("crank", "coupler", ht.Revolute("y"), at=(0.3, 0.0, 0.0))
    system.loop("coupler", "rocker", ht.Revolute("y"), at_a=(l, 0.0, 0.0), at_b=(0.8, 0.0, 0.0))
    model = system.derive()
    start = model.assemble([-1.0, -1.4, 0.8])
    run = ht.simulate(model, start, until=0.5, step=0.001)
    path: Any = run.show(tmp_path / "a.html", live=True)
    assert difference(simulated(path, 500), run) < TOLERANCE
    result = simulated(path, 500, 'motion.change(number("l").index, 1.05);')
    assert result["problem"] is None
    assert result["open"] < 1e-9
    broken = simulated(path, 0, 'motion.change(number("l").index, 3.0);')
    assert "cannot be closed" in broken["problem"]["why"]


@pytest.mark.thorough
def test_regulator_with_its_gains(tmp_path: Path) -> None:
    model = ht.library.furuta().derive()
    law = ht.control.lqr(model, [0.0, 0.0])
    run = ht.simulate(model, ([0.3, 0.2], [0.0, 0.0]), until=1.0, step=0.002, control=law)
    path: Any = run.show(tmp_path / "a.html", live=True)
    result = simulated(path, 500)
    assert difference(result, run) < TOLERANCE
    assert {"goal theta.angle", "gain tau: alpha.angle", "gain tau: alpha.rate"} <= set(result["names"])
    off = "for (const n of live.numbers) if (n.name.startsWith('gain')) motion.step.buffers[n.name_of][n.index] = 0;"
    fallen = simulated(path, 500, off)
    assert abs(fallen["q"][1]) > 1.0 > abs(result["q"][1])


@pytest.mark.thorough
def test_gains_of_a_law_are_sliders(tmp_path: Path) -> None:
    model = ht.library.cart_pole().derive()

    def pushed(q: Any, v: Any, k: Any) -> Any:
        return ht.vector(k["stiffness"] * q[1] + k["damping"] * v[1])

    law = ht.Feedback(pushed, ("q", "v", "gains"), gains={"stiffness": 40.0, "damping": 8.0})
    start = [0.0, 0.2], [0.0, 0.0]
    path: Any = ht.simulate(model, start, until=1.0, step=0.01, control=law).show(tmp_path / "a.html", live=True)
    other = ht.simulate(model, start, until=1.0, step=0.01, control=law, gains={"damping": 2.0})
    result = simulated(path, 100, 'motion.change(number("damping").index, 2.0); motion.restart();')
    assert difference(result, other) < TOLERANCE


@pytest.mark.thorough
def test_size_of_a_body_given_in_numbers(tmp_path: Path) -> None:
    def arm(size: float) -> ht.Model:
        system = ht.System(name="arm")
        rod = ht.Inertia(1.2, com=(0.0, 0.0, -0.5 * size), moment_at_com=np.array([0.1, 0.1, 0.001]) * size**2)
        system.body("upper", joint=ht.Revolute("y"), inertia=rod)
        end = ht.Inertia(0.7, com=(0.1, 0.0, -0.4), moment_at_com=(0.05, 0.05, 0.001))
        system.body("lower", parent="upper", at=(0.0, 0.05 * size, -1.0 * size), joint=ht.Revolute("x"), inertia=end)
        return system.derive()

    start = [0.8, 0.4], [0.3, 0.0]
    path: Any = ht.simulate(arm(1.0), start, until=1.0, step=1e-3).show(tmp_path / "a.html", live=True)
    larger = ht.simulate(arm(1.5), start, until=1.0, step=1e-3)
    result = simulated(path, 1000, 'motion.change(number("size of upper").index, 1.5); motion.restart();')
    assert difference(result, larger) < TOLERANCE
    assert "mass of lower" in result["names"]


@pytest.mark.thorough
def test_rigid_contact_bounces_in_the_page(tmp_path: Path) -> None:
    system = ht.System(name="ball")
    system.ground()
    ball = ht.Sphere(0.1)
    system.body("ball", joint=ht.Free(), inertia=ht.Inertia.of(ball, density=500.0))
    system.contact("ball", "ground", ball, friction=0.4, restitution=0.6)
    model = system.derive()
    q = model.neutral()
    q[2] = 0.5
    run = ht.simulate(model, (q, [1.0, 0, 0, 0, 0, 0]), until=1.5, step=1e-3, integrator="moreau")
    result = simulated(run.show(tmp_path / "a.html", live=True), 1500)
    assert difference(result, run) < TOLERANCE
    assert result["problem"] is None
    assert np.min(run.q[:, 2]) > 0.09  # it bounced
    alone = simulated(model.show(tmp_path / "b.html", q, live=True), 1000)
    assert alone["problem"] is None
    assert alone["q"][2] > 0.09


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["bouncing-ball", "rattleback"])
def test_systems_of_the_library_with_rigid_contact(name: str, tmp_path: Path) -> None:
    model = ht.library.load(name).derive()
    start = ht.library.start(name, model)
    assert start is not None
    run = ht.simulate(model, start, until=1.0, step=1e-3, integrator="moreau")
    result = simulated(run.show(tmp_path / "a.html", live=True), 1000)
    assert result["problem"] is None
    assert np.max(np.abs(run.q[-1] - run.q[0])) > 0.5
    assert difference(result, run) < TOLERANCE


@pytest.mark.thorough
def test_what_a_page_cannot_run_is_explained(tmp_path: Path) -> None:
    model = ht.library.cart_pole().derive()
    called = ht.simulate(model, ([0.0, 0.1], [0.0, 0.0]), until=0.1, step=0.01, inputs=lambda t, q, v: [0.0])
    with pytest.raises(SimulationError, match=r"Python function at every sample.*ht\.Feedback"):
        called.show(tmp_path / "a.html", live=True)
    called.save(tmp_path / "a.nc")
    with pytest.raises(SimulationError, match="holds only numbers|no model"):
        ht.Run.load(tmp_path / "a.nc").show(tmp_path / "b.html", live=True)
    ball = ht.UserDynamics(ht.coordinates.Circle(), lambda q, v: ht.vector(-9.81 * q[1]), name="swing")
    with pytest.raises(SimulationError):
        ht.simulate(ball, ([0.0, 1.0], [0.0]), until=0.1, step=0.01).show(tmp_path / "a.html", live=True)


@pytest.mark.thorough
def test_predictive_control_is_explained(tmp_path: Path) -> None:
    model = ht.library.cart_pole().derive()
    mpc = ht.control.mpc(model, [0.0, 0.0], horizon=10, step=0.05)
    run = ht.simulate(model, ([0.0, 0.1], [0.0, 0.0]), until=0.1, step=0.05, control=mpc)
    with pytest.raises(SimulationError, match=r"solves a program in Python.*lqr"):
        run.show(tmp_path / "a.html", live=True)


@pytest.mark.thorough
def test_hostile_names_stay_text(tmp_path: Path) -> None:
    evil = '</script><img src=x onerror="window.hurt=1">'
    system = ht.System(name=evil)
    system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
    system.input("motor", ht.JointForce("rod"))

    class Evil(ht.Feedback):
        def __repr__(self) -> str:
            return evil

    event = ht.Event(lambda t, q, v: q[0] + 9.0, name=evil)
    law = Evil(lambda v: -v, ("v",))
    run = ht.simulate(system.derive(), ([1.0], [0.0]), until=0.1, step=0.01, control=law, events=event)
    path: Any = run.show(tmp_path / "a.html", live=True)
    text = path.read_text(encoding="utf-8")
    assert "<img" not in text
    assert text.count("</script>") == text.count("<script")
    document = json.loads(page_parts(path)["document"])
    assert evil in document["title"].lower() or evil[1:] in document["title"]
    (line,) = document["live"]["source"]["law"]
    assert line.endswith(evil)
    assert document["live"]["events"][0]["name"] == evil
    assert simulated(path, 10)["problem"] is None


@pytest.mark.thorough
def test_page_has_a_policy_and_no_addresses(tmp_path: Path) -> None:
    model, start = started("pendulum")
    path: Any = ht.simulate(model, start, until=0.1, step=0.01).show(tmp_path / "a.html", live=True)
    text = path.read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    assert "connect-src" not in text
    head = text[: text.index('<script type="application/json"')]
    assert "http" not in head.replace("http-equiv", "")
    assert set(page_parts(path)) >= {"document", "step-code", "function-code", "signals", "viewer", "snapshot"}


@pytest.mark.thorough
def test_batches_run_all_trajectories(tmp_path: Path) -> None:
    model, (q, v) = started("double-pendulum")
    starts = q + np.linspace(0.0, 0.5, 5)[:, None], v
    run = ht.simulate(model, starts, until=0.5, step=0.001)
    result = simulated(run.show(tmp_path / "a.html", live=True), 500)
    assert difference(result, run) < TOLERANCE
    other = simulated(run.show(tmp_path / "b.html", 3, live=True), 500)
    assert other["q"][:2] == pytest.approx(run.q[-1, 3], rel=1e-11)


@pytest.mark.thorough
@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_of_the_library(name: str, tmp_path: Path) -> None:
    run = library_run(name)
    assert run.outcome.ok, run.outcome
    path: Any = run.show(tmp_path / "live.html", live=True)
    replay: Any = run.show(tmp_path / "replay.html")
    result = simulated(path, len(run.t) - 1)
    moved = float(np.max(np.abs(run.q[-1] - run.q[0])))
    assert moved > 1e-3, "the test must move something"
    assert difference(result, run) < TOLERANCE
    assert result["problem"] is None
    assert path.stat().st_size - replay.stat().st_size < 300_000


@pytest.mark.thorough
@pytest.mark.parametrize(("law", "wind"), [("energy", 0.0), ("particle", 0.0), ("body", 0.0), ("energy", 3.0)])
def test_flights_with_tracking_laws(law: str, wind: float, tmp_path: Path) -> None:
    from heavytop.copters import fly, quadcopter

    flight = fly(quadcopter(), "step", law, until=1.0, wind=wind)
    assert flight.integral == bool(wind)
    path = flight.show(tmp_path / "live.html", live=True)
    result = simulated(path, len(flight.run.t) - 1)
    # the hull in wind has drag, so the motion is that of a flight in still air with drag: compare its own native run
    from heavytop.copters import tuned_run

    run, gains = tuned_run(flight)
    assert difference(result, run) < 1e-9  # the reference is interpolated
    assert [gain.name for gain in gains] == ["damping", "turning damping", "stiffness", "turning stiffness"]
    assert {"wind x", "stiffness"} <= set(result["names"])
    panels = {panel["title"]: panel["unit"] for panel in json.loads(page_parts(path)["document"])["live"]["panels"]}
    assert (panels["Inputs"], panels["Wind"]) == ("N", "m/s")


@pytest.mark.thorough
def test_stops_and_ropes_are_simulated_as_rigid_contacts_are(tmp_path: Path) -> None:
    system = ht.System(name="stop")
    system.body("a", joint=ht.Prismatic("z"), inertia=ht.Inertia.of(ht.Sphere(0.1), density=500.0))
    system.limit("a", -0.5, 1.0, hard=True)
    path: Any = system.derive().show(tmp_path / "a.html", live=True)
    assert json.loads(page_parts(path)["document"])["live"]["integrator"] == "moreau"
