"""The run as data: names, units, energies, invariants, report, files, figures."""

from __future__ import annotations

import copy
import inspect
import os
import pickle
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import heavytop as ht
from heavytop.errors import FileFormatError, SimulationError, UnknownNameError
from heavytop.show import plot_energies, plot_invariants, plot_phase, plot_run, plot_signals
from heavytop.simulate import Ending, Invariant, simulate


@cache
def crane() -> ht.Model:
    """A trolley with a spherical pendulum, damped, with a motor and a parameter."""
    system = ht.System(name="crane")
    load = system.parameter("load", 2.0)
    system.body("trolley", joint=ht.Prismatic("x"), inertia=ht.Inertia(3.0))
    hook = ht.Inertia(load, com=(0, 0, -1), moment_at_com=(0.1, 0.1, 0.1))
    system.body("hook", parent="trolley", joint=ht.Spherical("quaternion"), inertia=hook)
    system.damper("world", "trolley", ht.Damping(0.5))
    system.input("motor", ht.JointForce("trolley"))
    return system.derive()


@pytest.fixture(scope="module")
def run() -> ht.Run:
    model = crane()
    law = ht.Feedback(lambda q, v: {"u": -2 * q[:1] - 3 * v[:1], "track_error": q[:1]}, ("q", "v"))
    event = ht.Event(lambda t, q, v: v[0], name="turn", terminal=False)
    return ht.simulate(
        model,
        (model.neutral() + np.array([0.5, 0, 0, 0, 0]), [1.0, 0.3, 2.0, 0.5]),
        3.0,
        0.01,
        control=law,
        events=event,
    )


@pytest.fixture(scope="module")
def batch() -> ht.Run:
    model = crane()
    q = np.broadcast_to(model.neutral(), (3, 2, 5))
    v = np.random.default_rng(0).standard_normal((3, 2, 4)) + np.array([1.0, 0, 0, 0])
    loads = np.array([1.0, 3.0])
    stop = ht.Event(lambda t, q, v: q[0] - 0.2, name="wall")
    return ht.simulate(model, (q, v), 1.0, 0.01, record_every=10, parameters={"load": loads}, events=stop, balance=True)


def test_the_package_tells_about_its_function() -> None:
    assert ht.simulate.__doc__ == simulate.__doc__
    assert inspect.signature(ht.simulate) == inspect.signature(simulate)
    assert list(inspect.signature(ht.simulate).parameters)[:4] == ["model", "start", "until", "step"]


@pytest.mark.thorough
def test_signals_by_name(run: ht.Run) -> None:
    np.testing.assert_array_equal(run["trolley.x"], run.q[:, 0])
    np.testing.assert_array_equal(run["trolley/x"], run.q[:, 0])
    np.testing.assert_array_equal(run["hook.omega_y"], run.v[:, 2])
    np.testing.assert_array_equal(run["hook"], run.q[:, 1:])
    np.testing.assert_array_equal(run["motor"], run.u[:, 0])
    np.testing.assert_array_equal(run["track_error"], run.q[:, :1])
    np.testing.assert_array_equal(run["energy"], run.energy)
    assert "hook/omega_x" in run
    assert "hok" not in run
    with pytest.raises(
        UnknownNameError, match=r"unknown signal of run 'crane' 'hook.omega'. Did you mean 'hook.omega_"
    ):
        run["hook.omega"]
    assert [run.unit(n) for n in ("trolley.x", "hook.w", "hook.omega_x", "motor", "energy")] == [
        "m",
        "1",
        "rad/s",
        "N",
        "J",
    ]


def test_energies_are_those_of_the_model(run: ht.Run) -> None:
    model = crane()
    np.testing.assert_allclose(run.energy, model.energy(run.q, run.v), rtol=1e-13)
    np.testing.assert_allclose(run.kinetic_energy + run.potential_energy, run.energy)


def test_energy_balance(run: ht.Run) -> None:
    assert run.work is not None
    assert run.work[-1, 1] > 0.1  # the damper dissipated
    assert abs(run.work[-1, 0]) > 0.1  # the motor worked
    assert run.invariants["energy"].relative < 1e-8
    assert run.invariants["phi"].drift < 1e-13
    assert run.invariants["quaternion norm"].drift < 1e-13
    assert "angular momentum z" not in run.invariants


def test_energy_balance_is_of_the_order_of_the_method() -> None:
    model = crane()
    start = model.neutral(), np.array([1.0, 0.3, 2.0, 0.5])
    drifts = [ht.simulate(model, start, 1.0, h, inputs=[1.0]).invariants["energy"].drift for h in (0.04, 0.02, 0.01)]
    assert np.polyfit(np.log([4, 2, 1]), np.log(drifts), 1)[0] > 3.7


@pytest.mark.thorough
def test_which_momenta_are_conserved() -> None:
    def names(model: ht.Model, **options: object) -> set[str]:
        run = ht.simulate(model, (model.neutral(), np.ones(model.nv)), 0.1, 0.01, **options)
        return {name for name in run.invariants if "momentum" in name}

    def body(gravity: float) -> ht.System:
        system = ht.System(gravity=(0, 0, -gravity), name="body")
        system.body("body", joint=ht.Free(), inertia=ht.Inertia(1.0, com=(0.1, 0, 0), moment_at_com=(1, 2, 2.5)))
        return system

    axes = [f"{kind} momentum {axis}" for kind in ("linear", "angular") for axis in "xyz"]
    assert names(body(0.0).derive()) == set(axes)
    assert names(body(9.81).derive()) == {axes[0], axes[1], axes[5]}
    pushed = body(0.0)
    pushed.input("jet", ht.Thruster("body", at=(0.3, 0, 0)))
    assert names(pushed.derive()) == set(axes)  # the jet is off
    assert names(pushed.derive(), inputs=[1.0]) == set()
    held = body(0.0)
    held.spring("world", "body", ht.Stiffness(3.0))
    assert names(held.derive()) == {axes[3], axes[4], axes[5]}  # a central force


def test_invariant_drift() -> None:
    values = np.array([[1.0, 2.0], [1.5, 2.0], [np.nan, 1.9]])
    assert Invariant(values, "J", 10.0).drift == 0.5
    assert Invariant(values, "J", 10.0).relative == 0.05


def test_report(run: ht.Run, batch: ht.Run, capsys: pytest.CaptureFixture[str]) -> None:
    text = run.report(show=False)
    assert capsys.readouterr().out == ""
    assert run.report() is None  # nothing that a notebook would show again
    assert capsys.readouterr().out == text + "\n"
    for part in ("crane: finished: reached t = 3 s", "energy in J", "dissipated", "quaternion norm", "steps/s", "turn"):
        assert part in text
    assert "track_error" in text
    many = batch.report(show=False)
    assert "6 trajectories (3, 2)" in many
    assert "wall" in many
    assert max(map(len, text.splitlines())) <= 100


def same(a: ht.Run, b: ht.Run) -> None:
    for name in ("t", "q", "v", "u", "kinetic_energy", "potential_energy"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), strict=True)
    assert a.outcome == b.outcome
    assert a.outcomes.shape == b.outcomes.shape
    assert all(x == y for x, y in zip(a.outcomes.reshape(-1), b.outcomes.reshape(-1), strict=True))
    for name in (
        "name",
        "integrator",
        "q_names",
        "v_names",
        "u_names",
        "q_units",
        "v_units",
        "u_units",
        "settings",
        "timing",
    ):
        assert getattr(a, name) == getattr(b, name)
    assert a.channels.keys() == b.channels.keys()
    for name, values in a.channels.items():
        np.testing.assert_array_equal(values, b.channels[name], strict=True)
    assert a.parameters.keys() == b.parameters.keys()
    for name, values in a.parameters.items():
        np.testing.assert_array_equal(values, b.parameters[name])
    np.testing.assert_array_equal(a.work, b.work)
    assert len(a.events) == len(b.events)
    for x, y in zip(a.events, b.events, strict=True):
        assert (x.name, x.time, x.trajectory, x.terminal) == (y.name, y.time, y.trajectory, y.terminal)
        np.testing.assert_array_equal(x.q, y.q)
    assert a.invariants.keys() == b.invariants.keys()
    for name, invariant in a.invariants.items():
        np.testing.assert_array_equal(invariant.values, b.invariants[name].values)
        assert (invariant.unit, invariant.reference) == (b.invariants[name].unit, b.invariants[name].reference)
    assert a.report(show=False) == b.report(show=False)


@pytest.mark.thorough
def test_files_round_trip_exactly(run: ht.Run, batch: ht.Run, tmp_path: Path) -> None:
    assert batch.outcome.ending is Ending.event
    assert np.any(np.isnan(batch.q))
    for name, made in (("one", run), ("many", batch)):
        path = tmp_path / f"{name}.nc"
        made.save(path)
        loaded = ht.Run.load(path)
        same(made, loaded)
        loaded.save(tmp_path / "again.nc")
        same(made, ht.Run.load(tmp_path / "again.nc"))
    assert sorted(p.name for p in tmp_path.iterdir()) == ["again.nc", "many.nc", "one.nc"]


def test_file_without_inputs_and_with_many_events(tmp_path: Path) -> None:
    system = ht.System(name="pendulum")
    system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
    event = ht.Event(lambda t, q, v: q[0], terminal=False, name="through the bottom, with a long name" * 20)
    made = ht.simulate(system.derive(), ([[0.5], [1.0]], [0.0]), 100.0, 0.01, events=event, record_every=100)
    assert len(made.events) > 100  # more than an attribute of an HDF5 file can hold
    made.save(tmp_path / "run.nc")
    same(made, ht.Run.load(tmp_path / "run.nc"))


@pytest.mark.thorough
@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.parametrize("stiffness", [None, 1e4])
def test_contacts_are_saved_with_the_run(tmp_path: Path, batch: tuple[int, ...], stiffness: float | None) -> None:
    """A run that is read has no model, but the forces, gaps and points of its contacts, ropes, stops and sticking frictions."""
    system = ht.System(name="lift/drop")
    system.body("lift", joint=ht.Prismatic("z"), inertia=ht.Inertia(2.0))
    system.ground(friction=0.5)
    system.contact("lift", "ground", ht.Sphere(0.1), stiffness=stiffness)
    if stiffness is None:
        system.limit("lift", 0.0, 0.2, hard=True)
        system.rope("world", "lift", 1.0)
    q = np.broadcast_to([0.15], (*batch, 1))
    step, integrator = (1e-2, "moreau") if stiffness is None else (1e-3, "rkmk4")
    made = simulate(system.derive(), (q, np.zeros_like(q)), until=0.3, step=step, integrator=integrator)
    made.save(tmp_path / "run.nc")
    read = ht.Run.load(tmp_path / "run.nc")
    assert list(read.contacts) == list(made.contacts)
    assert len(read.contacts) == (1 if stiffness else 3)
    for name, record in made.contacts.items():
        assert type(read.contacts[name]) is type(record)
        np.testing.assert_equal(vars(read.contacts[name]), vars(record))
    assert np.any(made.contacts["lift"].force)
    read.save(tmp_path / "again.nc")
    np.testing.assert_equal(vars(ht.Run.load(tmp_path / "again.nc").contacts["lift"]), vars(made.contacts["lift"]))


def test_failed_write_leaves_the_old_file(run: ht.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.nc"
    path.write_text("old")

    def fail(*_: object, **__: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(FileFormatError, match="disk full"):
        run.save(path)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["run.nc"]


def test_bad_files_are_told(run: ht.Run, tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match="there is no file"):
        ht.Run.load(tmp_path / "missing.nc")
    (tmp_path / "text.nc").write_text("hello")
    with pytest.raises(FileFormatError, match="is not a readable netCDF file"):
        ht.Run.load(tmp_path / "text.nc")
    import xarray

    xarray.Dataset({"x": ("t", [1.0])}).to_netcdf(tmp_path / "other.nc", engine="h5netcdf")
    with pytest.raises(
        FileFormatError, match=r"was not written by Run.save: expected format 'heavytop run 1', got None"
    ):
        ht.Run.load(tmp_path / "other.nc", checked=False)
    with pytest.raises(FileFormatError, match=r"no checksum at its end.*Run.load\(path, checked=False\)"):
        ht.Run.load(tmp_path / "other.nc")
    with pytest.raises(FileFormatError, match=r"the folder .* does not exist"):
        run.save(tmp_path / "nowhere" / "run.nc")


def test_xarray_has_names_and_units(run: ht.Run, batch: ht.Run) -> None:
    data = run.to_xarray()
    np.testing.assert_array_equal(data.q.sel(coordinate="trolley.x"), run.q[:, 0])
    assert data.time.attrs["units"] == "s"
    assert data.velocity.attrs["units"] == list(run.v_units)
    assert data.kinetic_energy.attrs["units"] == "J"
    assert batch.to_xarray().q.dims == ("time", "trajectory0", "trajectory1", "coordinate")


def test_run_without_energy_says_so() -> None:
    fall = ht.simulate_dynamics(
        ht.coordinates.Vector(1), lambda q, v: np.array([-1.0]), ([0.0], [0.0]), 1.0, 0.1, name="thing"
    )
    assert not fall.has_energy
    assert fall.invariants == {}
    with pytest.raises(SimulationError, match=r"the energy of 'thing' is unknown. Give kinetic="):
        _ = fall.energy
    lines = [line for line in fall.report(show=False).splitlines() if "energy" in line]
    assert len(lines) == 1
    assert "the balance of energy is not monitored" in lines[0]


@pytest.mark.thorough
def test_a_batch_without_its_work_says_why_it_has_no_energy_balance() -> None:
    system = ht.System(name="damped")
    system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -0.5)))
    system.joint_damper("rod", damping=0.1)
    model = system.derive()
    start, options = (np.zeros((3, 1)), np.ones((3, 1))), {"until": 0.1, "step": 0.01}
    bare = ht.simulate(model, start, **options)
    assert bare.invariants == {}
    text = bare.report(show=False)
    assert "batches leave out the energy balance" in text
    assert "simulate(..., balance=True) has it." in text
    assert max(map(len, text.splitlines())) <= 100
    with pytest.raises(SimulationError, match="no invariants to draw: batches leave out .* has it."):
        plot_invariants(bare)
    assert "leave out" not in ht.simulate(model, start, balance=True, **options).report(show=False)
    assert "leave out" not in ht.simulate(model, (np.zeros(1), np.ones(1)), **options).report(show=False)


def axis_labels(figure: object) -> list[tuple[str, str]]:
    return [(a.get_xlabel(), a.get_ylabel()) for a in figure.axes if a.get_visible()]  # type: ignore[attr-defined]


@pytest.mark.thorough
def test_figures_tell_units(run: ht.Run, batch: ht.Run, tmp_path: Path) -> None:
    figure = plot_run(run, tmp_path / "run.png")
    assert (tmp_path / "run.png").stat().st_size > 20_000
    labels = axis_labels(figure)
    assert all(x == "time in s" and y for x, y in labels)
    for unit in ("in m", "in rad/s", "in N", "in J", "dimensionless"):
        assert any(y.endswith(unit) for _, y in labels), unit
    titles = [a.get_title() for a in figure.axes]
    assert "energies (potential from its start)" in titles
    assert "drift of invariants (relative)" in titles
    assert plot_run(batch).axes
    assert axis_labels(plot_energies(run)) == [("time in s", "in J")]
    assert plot_invariants(run).axes[0].get_yscale() == "log"
    phase = plot_phase(run, "trolley.x", "trolley.v_x", tmp_path / "phase.svg")
    assert axis_labels(phase) == [("trolley.x in m", "trolley.v_x in m/s")]
    assert len(plot_signals(run, ["trolley.x", "motor", "hook.w"]).axes) == 3


def test_copies_and_pickles(run: ht.Run, batch: ht.Run) -> None:
    for original in (run, batch):
        thawed = pickle.loads(pickle.dumps(original))
        same(original, thawed)
        assert thawed.model is None
        assert thawed.invariants.keys() == original.invariants.keys()
        assert copy.copy(original).q is original.q
        twin = copy.deepcopy(original)
        same(original, twin)
        assert twin.model is original.model
        twin.q[:] = 0.0
        assert np.any(original.q)
        same(thawed, pickle.loads(pickle.dumps(thawed)))


def test_models_are_pickled_as_recipes(run: ht.Run) -> None:
    model = run.model
    again = pickle.loads(pickle.dumps(model))
    assert again is not model
    assert again.description.equations_key == model.description.equations_key
    assert copy.deepcopy(model) is model


@pytest.mark.parametrize("stiffness", [[0.0, 5.0], [5.0, 0.0], [0.0, 0.0]])
def test_momenta_are_those_that_all_members_of_a_batch_keep(stiffness: list[float]) -> None:
    system = ht.System(gravity=(0, 0, 0), name="anchored")
    k = system.parameter("k", 0.0)
    system.body("body", joint=ht.Free(), inertia=ht.Inertia(1.0, moment_at_com=(0.1, 0.1, 0.1)))
    system.potential(lambda q: 0.5 * k * q[0] ** 2)
    model = system.derive()
    q = model.neutral()
    q[0] = 1.0
    start = q, np.array([1.0, 1, 0, 0, 0, 0])
    run = ht.simulate(model, start, until=2.0, step=0.01, parameters={"k": stiffness})
    kept = {name for name in run.invariants if "momentum" in name}
    held = {"linear momentum y"}
    assert kept == (held if any(stiffness) else {*held, "linear momentum x", "angular momentum z"})
    assert all(run.invariants[name].drift < 1e-9 for name in kept)


def test_signals_of_bodies_whose_names_are_alike() -> None:
    """A slash stands for a dot only where no signal has it, and a joint "a" has none of the coordinates of "a.b"."""
    system = ht.System(gravity=(0, 0, 0))
    for name in ("a", "a.b", "a/b"):
        system.body(name, joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    run = simulate(system.derive(), ([1.0, 2.0, 3.0], [0.0, 0.0, 0.0]), 0.1, 0.1)
    assert [run[name][0] for name in run.q_names] == [1.0, 2.0, 3.0]
    assert [run[name][0].tolist() for name in ("a", "a.b", "a/b")] == [[1.0], [2.0], [3.0]]
    assert [run.unit(name) for name in run.q_names] == ["m"] * 3


@pytest.mark.thorough
def test_the_last_states_of_a_batch_are_those_of_single_runs_also_at_events() -> None:
    system = ht.System(gravity=(0, 0, 0))
    system.body("b", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    model, wall = system.derive(), ht.Event(lambda t, q, v: q[0] - 0.55, "wall", terminal=True)
    starts = np.array([[0.0], [0.3], [-5.0]])
    options = {"until": 1.0, "step": 0.1, "events": wall, "record_every": 3}
    batch = simulate(model, (starts, np.ones((3, 1))), **options)
    single = [simulate(model, (start, [1.0]), **options).final for start in starts]
    assert np.allclose(batch.final[0], [q for q, _ in single], rtol=0, atol=1e-12)
    assert np.allclose(batch.final[1], [v for _, v in single], rtol=0, atol=1e-12)


def test_prepared_runs_take_inputs() -> None:
    model = ht.library.pendulum().derive()
    prepared = ht.prepare(model, 0.5, 0.1)
    pushed = prepared(([0.3], [0.0]), inputs=[2.0])
    assert np.array_equal(pushed.q, ht.simulate(model, ([0.3], [0.0]), 0.5, 0.1, inputs=[2.0]).q)
    assert np.array_equal(prepared(([0.3], [0.0])).q, ht.simulate(model, ([0.3], [0.0]), 0.5, 0.1).q)
