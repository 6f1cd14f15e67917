"""Runs as pages: bodies where the model says, in the size that their inertia says, with names, units and numbers."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import heavytop as ht
from heavytop.errors import SimulationError
from heavytop.library import load
from heavytop.library.mechanisms import governor_start
from heavytop.show import Report, report_of
from heavytop.show.linkage import axis_labels, upright
from heavytop.show.page import SIZE_LIMIT
from heavytop.show.shape_meshes import MassProperties, equivalent_solid
from heavytop.simulate import UserDynamics


def crane() -> ht.Model:
    """A trolley on a rail with a spherical pendulum, a motor and a parameter."""
    system = ht.System(name="crane")
    length = system.parameter("length", 1.0)
    system.body("trolley", joint=ht.Prismatic("x"), inertia=ht.Inertia(3.0))
    hook = ht.Inertia(2.0, com=(0, 0, -length), moment_at_com=(0.1, 0.1, 0.1))
    system.body("hook", parent="trolley", joint=ht.Spherical("quaternion"), inertia=hook)
    system.input("motor", ht.JointForce("trolley"))
    return system.derive()


@pytest.fixture(scope="module")
def run() -> ht.Run:
    model = crane()
    turn = ht.Event(lambda t, q, v: q[0] - 0.3, name="gate", terminal=False)
    start = (model.neutral(), [1.0, 0.3, 2.0, 0.5])
    return ht.simulate(model, start, 1.0, 0.01, inputs=[0.5], events=turn, balance=True)


@pytest.fixture(scope="module")
def report(run: ht.Run) -> Report:
    return report_of(run)


@pytest.fixture(scope="module")
def batch() -> ht.Run:
    model = crane()
    q = np.broadcast_to(model.neutral(), (2, 2, 5))
    v = np.array([1.0, 0, 0, 0]) * np.array([[0.5, 1.0], [2.0, 3.0]])[..., None]
    wall = ht.Event(lambda t, q, v: q[0] - 0.4, name="wall")
    return ht.simulate(model, (q, v), 0.5, 0.01, parameters={"length": np.array([1.0, 2.0])}, events=wall)


def places(report: Report, name: str) -> np.ndarray:
    """Vertices (T, n, 3) of the first mesh of a body."""
    body = report.scene.bodies[name]
    motion = np.asarray(body.motion)
    return body.meshes[0].vertices @ np.swapaxes(motion[:, :3, :3], -1, -2) + motion[:, None, :3, 3]


@pytest.mark.thorough
def test_show_writes_a_page(run: ht.Run, tmp_path: Path) -> None:
    path = run.show(tmp_path / "run.html")
    text = path.read_text("utf-8")
    assert path.stat().st_size < SIZE_LIMIT
    for word in ("Crane", "hook", "trolley", "motor", "path of hook", "length", "rkmk4", "Drift of energy", "gate"):
        assert word in text


@pytest.mark.thorough
def test_bodies_have_the_poses_of_the_model(run: ht.Run, report: Report) -> None:
    model = crane()
    pose = model.pose("world", "hook", run.q)
    center = pose[:, :3, 3] - pose[:, :3, 2]
    drawn = places(report, "hook")
    np.testing.assert_allclose((drawn.min(axis=1) + drawn.max(axis=1)) / 2, center, atol=0.02)
    np.testing.assert_allclose(np.asarray(report.scene.bodies["hook"].motion)[:, :3, :3], pose[:, :3, :3], atol=1e-12)
    np.testing.assert_allclose(report.scene.trails["path of hook"].points, center, atol=1e-12)
    assert list(report.scene.trails) == ["path of hook"]
    # a ball: s = r^2 / 5 = J / (2 m)
    np.testing.assert_allclose(np.ptp(drawn[0][:, 2]) / 2, np.sqrt(2.5 * 0.1 / 2.0), rtol=1e-6)
    assert report.scene.ground is not None
    assert report.scene.ground <= drawn[..., 2].min()


@pytest.mark.thorough
def test_panels_have_names_and_units(run: ht.Run, report: Report) -> None:
    panels = {panel.title: panel for panel in report.panels}
    assert [(p.title, p.unit) for p in report.panels][:6] == [
        ("Positions", "m"),
        ("Angle of body axes to the vertical", "°"),
        ("Velocities", "m/s"),
        ("Angular velocities", "rad/s"),
        ("Inputs", "N"),
        ("Energies", "J"),
    ]
    np.testing.assert_array_equal(panels["Positions"].series["trolley"], run["trolley.x"])
    assert list(panels["Angular velocities"].series) == ["hook.omega_x", "hook.omega_y", "hook.omega_z"]
    np.testing.assert_allclose(panels["Energies"].series["total"], run.energy)
    tilt = panels["Angle of body axes to the vertical"].series["z axis"]
    np.testing.assert_allclose(np.cos(np.radians(tilt)), crane().pose("world", "hook", run.q)[:, 2, 2], atol=1e-7)
    drift = report.panels[-1]
    assert drift.title == "Drift of energy"
    assert 1.0 <= np.max(np.abs(drift.series["drift"])) < 10.0
    assert drift.unit.startswith("relative, in 10⁻")


def test_numbers(report: Report) -> None:
    tables = {table.title: table for table in report.tables}
    assert ("outcome", "finished: reached t = 1 s") in tables["Run"].rows
    assert ("steps", "100") in tables["Run"].rows
    assert ("length", "1") in tables["Parameters"].rows
    assert "energy" in {row[0] for row in tables["Drift"].rows}
    assert tables["Bodies"].rows[0] == ("trolley", "3\u00a0kg", "point mass")
    assert [marker.label for marker in report.markers] == ["gate", "gate"]
    assert report.subtitle == "rkmk4, step 0.01 s, 1 s of motion"


@pytest.mark.thorough
def test_one_trajectory_of_a_batch(batch: ht.Run) -> None:
    chosen = report_of(batch, (1, 1))
    assert report_of(batch, 3).subtitle == chosen.subtitle
    assert "trajectory (1, 1) of 2 x 2" in chosen.subtitle
    # it is cut at its end, and hangs on the longer rope of its parameter
    assert chosen.scene.times[-1] < 0.2 < report_of(batch).scene.times[-1]
    path = chosen.scene.trails["path of hook"].points
    np.testing.assert_allclose(path[0], [0, 0, -2], atol=1e-12)
    assert ("length", "2") in next(t for t in chosen.tables if t.title == "Parameters").rows
    with pytest.raises(SimulationError, match=r"'crane' has trajectories 0 to 3, got index 4"):
        report_of(batch, 4)
    with pytest.raises(SimulationError, match=r"within the batch \(2, 2\), got \(0, 2\)"):
        report_of(batch, (0, 2))


def test_runs_that_cannot_be_shown_are_rejected(run: ht.Run, tmp_path: Path) -> None:
    swing = UserDynamics(ht.coordinates.Circle(), lambda q, v: ht.vector(-9.81 * q[1]), name="swing")
    made = ht.simulate(swing, ([0.0, 1.0], [0.0]), until=0.1, step=0.01)
    with pytest.raises(SimulationError, match=r"'swing' was made from UserDynamics, which has .* no bodies to show"):
        made.show(tmp_path / "page.html")
    run.save(tmp_path / "run.nc")
    loaded = ht.Run.load(tmp_path / "run.nc")
    with pytest.raises(SimulationError, match=r"'crane' has no model.*report_of\(run, model=model\)"):
        loaded.show(tmp_path / "page.html")
    assert list(report_of(loaded, model=crane()).scene.bodies) == ["trolley", "hook", "fixed parts"]
    with pytest.raises(SimulationError, match="is a single trajectory, got index 1"):
        run.show(tmp_path / "page.html", index=1)
    with pytest.raises(SimulationError, match="at least two records of the motion, run 'crane' has 1"):
        report_of(replace(run, t=run.t[:1], q=run.q[:1], v=run.v[:1], u=run.u[:1]))
    assert not (tmp_path / "page.html").exists()


@pytest.mark.thorough
def test_gravity_points_down_in_the_picture() -> None:
    model = load("four-bars:1").derive()  # its gravity is along -y
    q, v = model.assemble([np.pi / 2, np.pi / 2, -np.pi / 2], [-1.0, -1.0, 1.0])
    report = report_of(ht.simulate(model, (q, v), 0.2, 0.01))
    crank = np.asarray(report.scene.bodies["crank0"].motion)
    np.testing.assert_allclose(crank[0, :3, 0], [0, 0, 1], atol=1e-12)
    assert report.scene.axes == ("z", "x")
    assert "fixed parts" in report.scene.bodies


@pytest.mark.parametrize("gravity", [(0, 0, -9.81), (0, 0, 9.81), (1, 0, 0), (1, -2, 0.5), (0, 0, 0)])
def test_upright_is_a_rotation(gravity: tuple[float, ...]) -> None:
    R = upright(np.array(gravity, dtype=float))
    np.testing.assert_allclose(R @ R.T, np.eye(3), atol=1e-14)
    assert np.linalg.det(R) == pytest.approx(1.0)
    np.testing.assert_allclose(R @ gravity, [0, 0, -float(np.linalg.norm(gravity))], atol=1e-12)
    names = axis_labels(R)
    for k, name in enumerate(names):
        if name:
            axis = np.eye(3)["xyz".index(name[-1])] * (-1 if len(name) == 2 else 1)
            np.testing.assert_allclose(R @ axis, np.eye(3)[k], atol=1e-9)


def test_solids_have_the_size_of_bodies_with_those_moments() -> None:
    m, r, h, a = 2.0, 0.3, 0.8, np.array([0.2, 0.5, 0.9])
    across = m * (3 * r**2 + h**2) / 12
    rod = equivalent_solid(MassProperties(m, np.zeros(3), np.diag([m * r**2 / 2, across, across])), 0.01, "body")[0]
    np.testing.assert_allclose(np.ptp(rod.vertices, axis=0), [h, 2 * r, 2 * r], rtol=1e-2)
    moments = m / 12 * (np.sum(a**2) - a**2)
    brick = equivalent_solid(MassProperties(m, np.ones(3), np.diag(moments)), 0.01, "body")[0]
    np.testing.assert_allclose(np.ptp(brick.vertices, axis=0), a, rtol=1e-12)
    np.testing.assert_allclose(brick.vertices.mean(axis=0), 1.0, rtol=1e-12)
    thin = MassProperties(m, np.zeros(3), np.diag([1.0, 1.0, 2.0]) * m * r**2 / 4)
    disc = equivalent_solid(thin, 0.01, "body")[0]
    assert 0 < np.ptp(disc.vertices[:, 2]) < 0.1 * r
    assert thin.symmetry == 2
    small = equivalent_solid(thin, 0.01, "body", widest=0.1)[0]
    np.testing.assert_allclose(np.ptp(small.vertices[:, 0]), 0.2, rtol=1e-2)
    point = equivalent_solid(MassProperties(m, np.zeros(3), np.zeros((3, 3))), 0.05, "body")[0]
    assert point.radius == pytest.approx(0.05)


@pytest.mark.thorough
def test_struts_thrusters_and_circles() -> None:
    model = load("governor").derive()
    report = report_of(ht.simulate(model, governor_start(model), 0.01, 1e-4))
    a, b = (np.asarray(report.scene.bodies[f"strut 1 {end}"].motion) for end in ("tube", "rod"))
    reach = sum(report.scene.bodies[f"strut 1 {end}"].radius for end in ("tube", "rod"))
    assert np.max(np.linalg.norm(a[:, :3, 3] - b[:, :3, 3], axis=-1)) < reach
    copter = load("quadcopter").derive()
    flight = ht.simulate(copter, (copter.neutral(), np.zeros(6)), 0.1, 0.01, inputs=[2.0, 2.2, 2.4, 2.2])
    scene = report_of(flight).scene
    np.testing.assert_allclose(scene.arrows["F_3"].vector[0], [0, 0, 2.4], atol=1e-12)
    assert {mesh.role for mesh in scene.bodies["hull"].meshes} >= {"propeller", "accent"}
    system = ht.System(name="wheel")
    system.body("wheel", joint=ht.Revolute("z", coordinates="circle"), inertia=ht.Inertia(1.0, moment_at_com=(1, 1, 2)))
    turning = ht.simulate(system.derive(), ([1.0, 0.0], [5.0]), 2.0, 0.01)
    angles = next(panel for panel in report_of(turning).panels if panel.title == "Angles")
    assert angles.series["wheel"][-1] == pytest.approx(10.0)


@pytest.mark.thorough
def test_a_batch_is_drawn_with_its_range_and_its_count(batch: ht.Run) -> None:
    report = report_of(batch)
    panel = next(p for p in report.panels if p.bands)
    assert panel.band_label == "band: range of 4 trajectories"
    for name, (low, high) in panel.bands.items():
        assert np.all(low <= panel.series[name])
        assert np.all(panel.series[name] <= high)
    assert any(np.any(high > low) for low, high in panel.bands.values())
    assert "; 4 trajectories" in batch.plot().get_suptitle()


@pytest.mark.thorough
def test_each_path_has_its_own_colour() -> None:
    model = ht.library.load("tricopter-load").derive()
    run = ht.simulate(model, (model.neutral(), np.full(model.nv, 0.5)), until=0.1, step=0.01)
    roles = [trail.role for trail in report_of(run).scene.trails.values()]
    assert len(roles) > 2
    assert len(set(roles)) == len(roles)


@pytest.mark.thorough
def test_figures_draw_themselves_in_notebooks(run: ht.Run) -> None:
    assert run.plot()._repr_png_().startswith(b"\x89PNG")


@pytest.mark.thorough
def test_inputs_of_one_kind_have_a_unit() -> None:
    system = ht.System(name="pushed")
    system.body("hull", joint=ht.Free(), inertia=ht.Inertia(1.0, moment_at_com=(0.1, 0.1, 0.1)))
    system.input("push", ht.Wrench("hull", force=(1, 0, 0)))
    system.input("twist", ht.Wrench("hull", moment=(0, 0, 1)))
    system.input("both", ht.Wrench("hull", force=(1, 0, 0), moment=(0, 0, 1)))
    model = system.derive()
    assert model.u_units == ("N", "N m", "")
    run = ht.simulate(model, (model.neutral(), np.zeros(6)), until=0.1, step=0.01, inputs=[1.0, 1.0, 1.0])
    units = [panel.unit for panel in report_of(run).panels if panel.title == "Inputs"]
    assert units == ["N", "N m", "SI units"]


def test_user_defined_velocities_are_not_called_inputs() -> None:
    system = ht.System(name="pendulum")
    system.body("bob", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
    model = system.derive(velocity=lambda q, v: ht.vector(2.0 * v[0]))
    run = ht.simulate(model, ([0.1], [0.0]), until=0.1, step=0.01)
    assert [p.unit for p in report_of(run).panels if p.title == "Velocities"] == ["SI units"]


@pytest.mark.thorough
def test_a_motion_that_diverged_has_a_page(tmp_path: Path) -> None:
    model = load("double-pendulum").derive()
    run = ht.simulate(model, ([1.0, 0.5], [0.0, 0.0]), until=400.0, step=2.0)
    assert not run.outcome.ok
    assert np.nanmax(np.abs(run.v)) > 1e39  # beyond 32-bit floats
    assert run.show(tmp_path / "diverged.html").stat().st_size > 10_000


def test_pages_of_batches_have_trajectories_to_choose(tmp_path: Path) -> None:
    model = ht.library.load("pendulum").derive(native=False)
    run = ht.simulate(model, (np.linspace(0.1, 1.0, 9)[:, None], np.zeros(1)), until=0.2, step=0.05)
    text = run.show(tmp_path / "batch.html", index=3).read_text("utf-8")
    document, last = (
        json.loads(re.findall(rf'id="{name}">(.*?)</script>', text)[0]) for name in ("document", "document-5")
    )
    assert document["choices"] == [f"{k} of 9" for k in (3, 0, 2, 5, 6, 8)]
    assert "trajectory 8 of 9" in last["subtitle"]
    assert 'id="snapshot-5"' in text


@pytest.mark.thorough
def test_small_angles_are_not_hidden_by_spinning_wheels() -> None:
    system = ht.System(name="segway", gravity=(0, 0, 0))
    system.body("axle", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    for name in ("wheel", "pitch"):
        system.body(name, parent="axle", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, moment_at_com=(1, 1, 1)))
    run = ht.simulate(system.derive(native=False), ([0, 0, 0], [1.0, 30.0, 0.1]), until=1.0, step=0.1)
    angles = {p.title: list(p.series) for p in report_of(run).panels if p.title.startswith("Angles")}
    assert angles == {"Angles, small": ["pitch"], "Angles, large": ["wheel"]}


def test_closed_contacts_are_bars() -> None:
    """A soft ball that falls from 0.2 m touches once within 0.3 s, at sqrt(2 h/g)."""
    system = ht.System(name="ball")
    system.body("ball", joint=ht.Prismatic("z"), inertia=ht.Inertia(1.0))
    system.ground(friction=0.0)
    system.contact("ball", "ground", ht.Sphere(0.1), stiffness=1e5, restitution=(0.8, 1.0))
    model = system.derive(native=False)
    run = ht.simulate(model, ([0.3], [0.0]), until=0.3, step=1e-3)
    bars = next(panel for panel in report_of(run).panels if panel.is_bars)
    closed = bars.series["ball"]
    assert set(closed) == {0.0, 1.0}
    assert np.sum(np.abs(np.diff(closed))) == 2.0
    assert run.t[np.argmax(closed)] == pytest.approx(np.sqrt(0.4 / 9.81), abs=2e-3)
    axes = next(axes for axes in run.plot().axes if "contact" in axes.get_title())
    assert axes.get_ylim()[0] < 0.0  # room for the bars
    assert not [panel for panel in report_of(ht.simulate(model, ([3.0], [0.0]), 0.1, 1e-3)).panels if panel.is_bars]
