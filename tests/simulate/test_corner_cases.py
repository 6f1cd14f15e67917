"""Where two features of a run meet: events and work, references and batches, error control and laws, files and odd shapes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray

import heavytop as ht
from heavytop.errors import FileFormatError, ModelError, SimulationError
from heavytop.simulate import Ending
from heavytop.simulate.integrators.base import Integrator
from heavytop.simulate.outcome import SEVERITY
from heavytop.sweep import OUTCOMES


@pytest.fixture(scope="module")
def arm() -> ht.Model:
    system = ht.System(name="arm")
    system.body("arm", joint=ht.Revolute("z"), inertia=ht.Inertia(1.0, com=(1, 0, 0)))
    system.input("motor", ht.JointForce("arm"))
    return system.derive()


@pytest.mark.thorough
@pytest.mark.parametrize("integrator", ["rkmk4", "rkmk45"])
def test_work_up_to_a_terminal_event(arm: ht.Model, integrator: str) -> None:
    event = ht.Event(lambda t, q, v: q[0] - 0.9)
    run = ht.simulate(arm, ([0.0], [1.0]), 1.0, 0.01, integrator, inputs=[2.0], record_every=50, events=event)
    np.testing.assert_allclose(run.work[:, 0], 2 * run.q[:, 0], atol=1e-9)
    assert run.invariants["energy"].relative < 1e-9


@pytest.mark.thorough
def test_an_unsolved_step_counts_from_its_own_time() -> None:
    system = ht.System(name="stone")
    system.body("b", joint=ht.Free(), inertia=ht.Inertia(1.0, com=(0, 0, 0.1), moment_at_com=(0.1, 0.2, 0.3)))
    model = system.derive()
    for until in (0.5, 1.0):
        hasty = ht.EnergyMomentum(iterations=2)
        run = ht.simulate(model, (model.neutral(), [1, 2, 3, 8, 1, 2]), until, 0.5, hasty)
        assert run.outcome.time == 0.5
        assert "was not solved" in str(run.outcome)
        assert "iterations" in str(run.outcome)
        assert len(run) == 1


def test_options_of_a_users_integrator_count(arm: ht.Model) -> None:
    class Euler(Integrator):
        name, order = "euler", 1

        def __init__(self, damping: float) -> None:
            self.damping = damping

        def step(self, plant: Any, state: Any, h: Any) -> Any:
            rates = plant.at(state, 0.0).rates
            return plant.retract(state, rates.replaced(v=rates.v - self.damping * state.v) * h)

    ends = [ht.simulate(arm, ([0.0], [1.0]), 0.5, 0.01, Euler(d)).v[-1, 0] for d in (0.0, 5.0)]
    assert ends[0] == pytest.approx(1.0)
    assert ends[1] == pytest.approx(0.95**50, rel=1e-12)


@pytest.mark.parametrize("integrator", ["rkmk4", "rkmk45"])
def test_batch_axes_of_a_reference(arm: ht.Model, integrator: str, tmp_path: Path) -> None:
    law = ht.Feedback(
        lambda q, signal: 3.0 * (signal - q),
        ("q", "signal"),
        signal_size=1,
        samples=lambda t: np.sin(t)[:, None, None] * np.arange(3.0)[None, :, None],
    )
    run = ht.simulate(arm, ([0.0], [0.0]), 3.0, 1e-3 if integrator == "rkmk4" else 0.05, integrator, control=law)
    assert run.q.shape[1:] == (3, 1)
    assert run.outcomes.shape == (3,)
    assert run.timing.trajectories == 3
    np.testing.assert_array_equal(run.q[:, 0], 0.0)
    np.testing.assert_allclose(run.q[:, 2], 2 * run.q[:, 1], rtol=1e-6, atol=1e-12)  # the loop is linear
    assert run.q[-1, 1, 0] > 0.1
    run.save(tmp_path / "run.nc")


def test_error_control_keeps_channels_and_memory_of_a_law(arm: ht.Model) -> None:
    law = ht.Feedback(lambda q, z: {"u": -q + 0 * z, "z_next": z + 1, "err": 2 * q}, ("q", "z"), memory=[0.0])
    runs = {
        name: ht.simulate(arm, ([0.1], [0.0]), 1.0, 0.1, name, control=law, record_every=2)
        for name in ("rkmk8", "rkmk45")
    }
    fixed, adaptive = runs["rkmk8"], runs["rkmk45"]
    assert fixed.channels.keys() == adaptive.channels.keys() == {"err", "z"}
    for name in ("err", "z"):
        np.testing.assert_allclose(adaptive.channels[name], fixed.channels[name], atol=1e-7)


@pytest.mark.parametrize("name", ["residual", "z"])
def test_channels_of_the_run_itself_are_taken(arm: ht.Model, name: str) -> None:
    law = ht.Feedback(lambda q, v: {"u": -v, name: 7 + 0 * q}, ("q", "v"))
    with pytest.raises(SimulationError, match=f"the output '{name}' of Feedback is a reserved channel name"):
        ht.simulate(arm, ([0.0], [1.0]), 0.3, 0.1, control=law)


def test_very_short_runs_are_runs(arm: ht.Model) -> None:
    run = ht.simulate(arm, ([0.0], [1.0]), 5e-7, 1.0, inputs=[2.0])
    assert run.t[-1] == 5e-7
    assert run.q[-1, 0] == pytest.approx(5e-7)


def test_error_control_that_stops_early_keeps_the_last_state(arm: ht.Model) -> None:
    run = ht.simulate(arm, ([0.0], [1.0]), 100.0, 50.0, ht.RKMK45(max_steps=20, max_step=0.1))
    assert run.outcome.ending.value == "step_limit"
    assert 0 < run.t[-1] == run.outcome.time < 50
    assert run.final[0][0] == pytest.approx(run.t[-1])


@pytest.mark.parametrize("integrator", ["rkmk4", "rkmk45"])
def test_nothing_to_do(arm: ht.Model, integrator: str) -> None:
    event = ht.Event(lambda t, q, v: q[0] - 0.9)
    law = ht.Feedback(lambda v: -v, ("v",))
    none = ht.simulate(arm, (np.zeros((0, 1)), [1.0]), 0.1, 0.01, integrator, events=event)
    assert none.q.shape[1:] == (0, 1)
    still = ht.simulate(arm, (np.zeros((3, 1)), [1.0]), 0.0, 0.01, integrator, control=law)
    assert still.q.shape == (1, 3, 1)


def test_batches_without_a_compiler(arm: ht.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEAVYTOP_NATIVE", "0")
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    run = ht.simulate(arm, (np.zeros((3, 1)), [1.0]), 0.05, 0.01, "rkmk6")
    np.testing.assert_allclose(run.q[-1], 0.05)


@pytest.mark.thorough
def test_files_of_odd_shapes_and_names(tmp_path: Path) -> None:
    system = ht.System(name="arm")
    m = system.parameter("m", 1.0)
    system.body("arm", joint=ht.Revolute("z"), inertia=ht.Inertia(m, com=(1, 0, 0)))
    system.input("motor", ht.JointForce("arm"))
    law = ht.Feedback(lambda q, v: {"u": -v, "a/b": q, "c": np.stack([q, v])}, ("q", "v"))
    start = np.zeros((3, 2, 1)), [1.0]
    run = ht.simulate(system.derive(), start, 0.1, 0.01, control=law, parameters={"m": np.ones((3, 1))})
    assert run.parameters["m"].shape == (3, 2)
    run.save(tmp_path / "run.nc")
    back = ht.Run.load(tmp_path / "run.nc")
    np.testing.assert_array_equal(back.channels["a/b"], run.channels["a/b"])
    np.testing.assert_array_equal(back.channels["c"], run.channels["c"])


@pytest.mark.parametrize("lost", ["q", "outcome", "end_time"])
def test_damaged_files(arm: ht.Model, tmp_path: Path, lost: str) -> None:
    ht.simulate(arm, ([0.0], [1.0]), 0.1, 0.01).save(tmp_path / "run.nc")
    with xarray.open_dataset(tmp_path / "run.nc", engine="h5netcdf") as data:
        data.load().drop_vars(lost).to_netcdf(tmp_path / "damaged.nc", engine="h5netcdf")
    with pytest.raises(FileFormatError, match="damaged or was changed"):
        ht.Run.load(tmp_path / "damaged.nc", checked=False)


def test_links_stay_links_and_devices_stay_devices(arm: ht.Model, tmp_path: Path) -> None:
    run = ht.simulate(arm, ([0.0], [1.0]), 0.1, 0.01)
    link, target = tmp_path / "link.nc", tmp_path / "target.nc"
    link.symlink_to(target)
    run.save(link)
    assert link.is_symlink()
    assert target.stat().st_size > 1000
    with pytest.raises(FileFormatError, match="device or a pipe"):
        run.save("/dev/null")
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize(
    "function",
    [lambda t, q, v: q[7], lambda t, q: q[0], lambda t, q, v: None, lambda t, q, v: 1.0 if q[0] > 0 else -1.0],
    ids=["index", "arguments", "nothing", "if"],
)
def test_events_that_fail_are_named(arm: ht.Model, function: Any) -> None:
    with pytest.raises(SimulationError, match="event 'mine'"):
        ht.simulate(arm, ([0.0], [1.0]), 0.1, 0.01, events=ht.Event(function, name="mine"))


def test_every_ending_has_its_place() -> None:
    assert set(SEVERITY) == set(Ending)
    assert set(OUTCOMES) == {ending.value for ending in Ending} | {"failed"}


def test_dynamics_need_coordinates() -> None:
    with pytest.raises(ModelError, match="coordinates of 'x' must be an object of heavytop.coordinates, got a str"):
        ht.UserDynamics("q", lambda q, v: v, name="x")  # type: ignore[arg-type]
