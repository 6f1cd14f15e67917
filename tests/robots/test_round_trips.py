"""Systems written as URDF and MJCF and read again are the same systems; losses are reported."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import heavytop as ht
from heavytop.geometry import se3, so3
from heavytop.system import JointLimits

INERTIA = ht.Inertia(1.3, (0.1, -0.2, 0.15), [[0.3, 0.01, 0.02], [0.01, 0.4, -0.03], [0.02, -0.03, 0.35]])


def pose(*phi: float) -> np.ndarray:
    return se3.pose(so3.exp(np.array(phi)), np.array([0.3, -0.1, 0.5]))


def arm() -> ht.System:
    system = ht.System(name="arm & <hand>")
    system.body("base", joint=ht.Fixed())
    system.connect("base", "upper", ht.Revolute((0.6, 0, 0.8)), pose(0.3, 0.2, -0.5), name="shoulder")
    system.body("upper", inertia=INERTIA)
    system.body("lower", parent="upper", at=pose(-0.2, 0.4, 0.1), joint=ht.Prismatic("y"), inertia=INERTIA)
    system.body("tool", parent="lower", at=pose(0.1, 0.1, 0.9), joint=ht.Fixed(), inertia=INERTIA)
    system.frame("tip", "tool", (0.0, 0.0, 0.2))
    system.body("finger", parent="tool", at=pose(0.0, 0.3, 0.0), joint=ht.Revolute("z"), inertia=INERTIA)
    system.joint_damper("shoulder", damping=0.7)
    system.input("motor", ht.JointForce("shoulder", gear=20.0))
    system.shape("upper", ht.Box((0.1, 0.2, 0.3)), at=(0.1, 0.0, 0.0), color="#ff8800")
    system.shape("tool", ht.Sphere(0.1))
    return system


def same(first: ht.Model, second: ht.Model, tolerance: float = 1e-12) -> None:
    assert first.q_names == second.q_names
    assert first.u_names == second.u_names
    rng = np.random.default_rng(0)
    q, v, u = first.random(rng), rng.standard_normal(first.nv), rng.standard_normal(first.nu)
    assert_allclose(second.mass_matrix(q), first.mass_matrix(q), atol=tolerance)
    assert_allclose(second.acceleration(q, v, u), first.acceleration(q, v, u), rtol=tolerance, atol=tolerance)
    assert_allclose(second.kinetic_energy(q, v), first.kinetic_energy(q, v), rtol=tolerance)
    common = set(first.description.graph.frames) & set(second.description.graph.frames)
    for frame in sorted(common):
        assert_allclose(second.pose("world", frame, q), first.pose("world", frame, q), atol=tolerance)


@pytest.mark.thorough
def test_urdf(tmp_path: Path) -> None:
    model = arm().derive(native=False)
    report = model.to_urdf(tmp_path / "arm.urdf", limits={"shoulder": JointLimits(-1.0, 2.0, 3.0, 4.0)})
    assert report.losses == ()
    again = ht.load(tmp_path / "arm.urdf")
    twin = again.derive(native=False)
    assert twin.u_names == ("shoulder",)  # a transmission is named after its joint
    assert [(c.name, "'shoulder'" in c.note) for c in report.changes if c.what == "input"] == [
        (name, True) for name in model.u_names
    ]
    assert again.limits["shoulder"] == JointLimits(-1.0, 2.0, 3.0, 4.0)
    rng = np.random.default_rng(0)
    q, v = model.random(rng), rng.standard_normal(model.nv)
    assert model.q_names == twin.q_names
    assert_allclose(twin.mass_matrix(q), model.mass_matrix(q), atol=1e-13)
    assert_allclose(twin.acceleration(q, v, [0.3]), model.acceleration(q, v, [0.3]), rtol=1e-12)
    assert_allclose(twin.pose("world", "tip", q), model.pose("world", "tip", q), atol=1e-14)
    assert [type(s.shape).__name__ for s in twin.description.shapes] == ["Box", "Sphere"]
    assert_allclose(twin.description.shapes[0].color, (1.0, 136 / 255, 0.0, 1.0))


@pytest.mark.thorough
def test_mjcf(tmp_path: Path) -> None:
    system = arm()
    system.joint_spring("shoulder", stiffness=3.0, rest=0.4)
    system.armature("finger", 0.01, gear_ratio=10.0)
    system.joint_friction("finger", coulomb=0.2, viscous=0.3)
    system.limit("shoulder", -1.0, 2.0, velocity=3.0, effort=4.0)
    system.frame("camera", "tool", (0.1, 0.0, 0.0))
    system.strut(
        "upper", "finger", at_a=(0.1, 0.2, 0.3), at_b=(0.0, 0.1, 0.0), stiffness=5.0, rest_length=0.2, damping=0.4
    )
    model = system.derive(native=False)
    report = model.to_mjcf(tmp_path / "arm.xml")
    assert report.losses == ()
    assert [item.what for item in report.changes] == ["joint friction", "joint"]
    again = ht.load(tmp_path / "arm.xml")
    assert again.limits["shoulder"] == JointLimits(-1.0, 2.0, effort=4.0)
    same(model, again.derive(native=False))


def test_free_spherical_and_several_joints_of_one_body(tmp_path: Path) -> None:
    system = ht.System(gravity=(0.1, 0.2, -9.0), name="octopus")
    system.body("hull", at=pose(0.3, -0.3, 0.2), joint=ht.Free(), inertia=INERTIA)
    system.body("yaw", parent="hull", at=pose(0.1, 0.5, 0.3), joint=ht.Revolute("z"))
    system.body("pitch", parent="yaw", at=pose(-0.4, 0.2, 0.3), joint=ht.Revolute((0.6, 0.8, 0.0)), inertia=INERTIA)
    system.body("ball", parent="hull", at=pose(0.7, 0.1, 0.1), joint=ht.Spherical(), inertia=INERTIA)
    model = system.derive(native=False)
    report = model.to_mjcf(tmp_path / "octopus.xml", strict=True)
    same(model, ht.load(tmp_path / "octopus.xml").derive(native=False))
    assert report.losses == ()


def test_losses_are_reported(tmp_path: Path) -> None:
    system = ht.System(gravity=(0, 0, -1.62))
    system.body("a", joint=ht.Universal(), inertia=INERTIA)
    system.potential(lambda q: q[0] ** 2)
    model = system.derive(native=False)
    report = model.to_urdf(tmp_path / "a.urdf")
    assert [item.what for item in report.losses] == ["joint", "force element", "gravity"]
    with pytest.raises(ht.errors.FileFormatError, match="strict=True, but 3"):
        model.to_urdf(tmp_path / "b.urdf", strict=True)
    assert not (tmp_path / "b.urdf").exists()


def test_loops_survive_a_round_trip(tmp_path: Path) -> None:
    system = ht.System(name="four bar")
    system.body("crank", joint=ht.Revolute("y"), inertia=INERTIA)
    system.body("rocker", at=(1.0, 0.0, 0.0), joint=ht.Revolute("y"), inertia=INERTIA)
    system.loop("crank", "rocker", ht.Spherical(), at_a=(0.5, 0.0, 1.0), at_b=(-0.5, 0.0, 1.0), name="pin")
    model = system.derive(native=False)
    assert model.to_mjcf(tmp_path / "bar.xml").losses == ()
    again = ht.load(tmp_path / "bar.xml").derive(native=False)
    assert again.constraint_names == ("pin",)
    q = np.array([0.3, -0.2])
    assert_allclose(again.constraint_jacobian(q), model.constraint_jacobian(q), atol=1e-14)


def test_meshes_are_copied_with_the_file(tmp_path: Path) -> None:
    """Meshes outside the folder are copied next to the file, as STL if MuJoCo does not read them; the shape stays the same."""
    trimesh = pytest.importorskip("trimesh")
    elsewhere, here = tmp_path / "elsewhere", tmp_path / "here"
    elsewhere.mkdir()
    here.mkdir()
    box = trimesh.creation.box((0.1, 0.2, 0.3))
    for path in (elsewhere / "a b.ply", elsewhere / "c.stl", here / "inside.stl"):
        box.export(path)
    (elsewhere / "sub").mkdir()
    box.export(elsewhere / "sub" / "c.stl")
    system = ht.System(name="shown")
    system.body("arm", joint=ht.Revolute("y"), inertia=INERTIA)
    files = (elsewhere / "a b.ply", elsewhere / "c.stl", elsewhere / "sub" / "c.stl", here / "inside.stl")
    for path in files:
        system.shape("arm", ht.Mesh(str(path), (2.0, 1.0, 1.0)), pose(0.1, 0.2, 0.3))
    model = system.derive(native=False)
    assert model.to_urdf(here / "arm.urdf").losses == ()
    assert model.to_mjcf(here / "robot.xml").losses == ()
    assert sorted(x.name for x in (here / "arm_meshes").iterdir()) == ["a_b.ply", "c.stl", "c_2.stl"]
    assert sorted(x.name for x in (here / "robot_meshes").iterdir()) == ["a_b.stl", "c.stl", "c_2.stl"]
    for path in files[:3]:
        path.unlink()
    for name in ("arm.urdf", "robot.xml"):
        shapes = ht.load(here / name).derive(native=False).description.shapes
        assert len(shapes) == 4
        for placed in shapes:
            vertices, faces = placed.shape.triangles
            assert_allclose(np.abs(vertices).max(axis=0), [0.1, 0.1, 0.15], rtol=1e-6)
            assert len(faces) == 12
            assert_allclose(placed.at, pose(0.1, 0.2, 0.3), atol=1e-14)


def test_meshes_of_two_files_in_one_folder(tmp_path: Path) -> None:
    """Files of one stem share their folder of meshes: equal ones are stored once, others under different names."""
    from heavytop.io.mesh_files import stl

    here = tmp_path / "here"
    here.mkdir()
    for k, size in enumerate((1.0, 2.0, 1.0)):
        folder = tmp_path / str(k)
        folder.mkdir()
        (folder / "part.stl").write_bytes(stl(size * np.eye(3), np.array([[0, 1, 2]])))
        system = ht.System(name="shown")
        system.body("arm", joint=ht.Revolute("y"), inertia=INERTIA)
        system.shape("arm", ht.Mesh(str(folder / "part.stl")))
        model = system.derive(native=False)
        for _ in range(2):  # writing again changes nothing
            model.to_mjcf(here / "arm.xml") if k == 1 else model.to_urdf(here / "arm.urdf")
    assert sorted(x.name for x in (here / "arm_meshes").iterdir()) == ["part.stl", "part_2.stl"]
    for name, size in (("arm.urdf", 1.0), ("arm.xml", 2.0)):
        (placed,) = ht.load(here / name).describe().shapes
        assert placed.shape.triangles[0].max() == size


def test_meshes_that_cannot_be_written_are_lost_and_strict_writes_nothing(tmp_path: Path) -> None:
    system = ht.System(name="shown")
    system.body("arm", joint=ht.Revolute("y"), inertia=INERTIA)
    system.shape("arm", ht.Mesh(str(tmp_path.parent / "gone.stl")))
    model = system.derive(native=False)
    assert [item.what for item in model.to_urdf(tmp_path / "a.urdf").losses] == ["mesh"]
    with pytest.raises(ht.errors.FileFormatError, match="strict=True"):
        model.to_mjcf(tmp_path / "a.xml", strict=True)
    assert [path.name for path in tmp_path.iterdir()] == ["a.urdf"]


def test_elements_in_ball_joints(tmp_path: Path) -> None:
    """MJCF has one number for all axes; others are lost."""
    system = ht.System(name="balls")
    ball = ht.Spherical(stiffness=2.0, damping=0.3, armature=0.05)
    system.body("even", joint=ball, inertia=INERTIA)
    system.body("uneven", parent="even", joint=ht.Spherical(damping=(0.1, 0.2, 0.3)), inertia=INERTIA)
    model = system.derive(native=False)
    report = model.to_mjcf(tmp_path / "balls.xml")
    assert [str(item.name) for item in report.losses] == ["joint damper in 'uneven'"]
    again = ht.load(tmp_path / "balls.xml").derive(native=False)
    rng = np.random.default_rng(1)
    q, v = model.random(rng), rng.standard_normal(model.nv)
    v[3:] = 0.0  # the damper that is lost is at rest
    assert_allclose(again.acceleration(q, v), model.acceleration(q, v), rtol=1e-11)


def test_free_joint_inside_the_tree_is_written_as_slides_and_a_ball(tmp_path: Path) -> None:
    """MuJoCo allows free joints only in the world; the other joints accelerate as before."""
    system = ht.System(name="ship")
    system.body("ship", joint=ht.Revolute("z"), inertia=INERTIA)
    system.body("drone", parent="ship", at=pose(0.3, 0.2, -0.5), joint=ht.Free(), inertia=INERTIA)
    model = system.derive(native=False)
    report = model.to_mjcf(tmp_path / "ship.xml", strict=True)
    assert [(item.name, item.note) for item in report.changes] == [("drone", "three slides and a ball")]
    again = ht.load(tmp_path / "ship.xml").derive(native=False)
    assert again.nv == model.nv
    rng = np.random.default_rng(0)
    q, v = model.random(rng), rng.standard_normal(model.nv)
    slides = np.concatenate([v[:1], q[4:].reshape(3, 3).T @ v[1:4], v[4:]])  # p' = R v
    assert_allclose(again.kinetic_energy(q, slides), model.kinetic_energy(q, v), rtol=1e-13)
    a, b = again.acceleration(q, slides), model.acceleration(q, v)
    assert_allclose(a[[0, 4, 5, 6]], b[[0, 4, 5, 6]], rtol=1e-12, atol=1e-12)


def test_inputs_of_joints_that_are_not_written_are_lost(tmp_path: Path) -> None:
    system = ht.System(name="gimbal")
    system.body("a", joint=ht.Universal(), inertia=INERTIA)
    system.body("b", parent="a", joint=ht.Revolute("y"), inertia=INERTIA)
    system.input("turn", ht.JointForce("a"))
    system.input("bend", ht.JointForce("b"))
    model = system.derive(native=False)
    for kind in ("mjcf", "urdf"):
        path = tmp_path / f"gimbal.{kind}"
        report = getattr(model, f"to_{kind}")(path)
        assert [(item.what, item.name) for item in report.losses] == [("joint", "a"), ("input", "turn")]
        assert ht.load(path).derive(native=False).nu == 1


@pytest.mark.thorough
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_frames_at_a_pitch_of_90_degrees(tmp_path: Path, sign: float) -> None:
    """Roll and yaw are not unique there; the rotation is."""
    system = ht.System(name="bent")
    system.body("a", joint=ht.Revolute("y"), inertia=INERTIA)
    for k, yaw in enumerate((0.0, 0.7, -2.0)):
        R = so3.exp([0, 0, yaw]) @ so3.exp([0, sign * np.pi / 2, 0]) @ so3.exp([0.4, 0, 0])
        at = se3.pose(np.round(R, 16), np.array([0, 0, 0.5]))
        system.body(f"b{k}", parent="a", at=at, joint=ht.Revolute("z"), inertia=INERTIA)
    model = system.derive(native=False)
    assert model.to_urdf(tmp_path / "bent.urdf").losses == ()
    same(model, ht.load(tmp_path / "bent.urdf").derive(native=False))


@pytest.mark.thorough
def test_what_mujoco_rejects_is_written_another_way(tmp_path: Path) -> None:
    """Point masses, massless moving bodies and more than six joints between two masses; the motion stays."""
    system = ht.System(name="string")
    system.body("fork", joint=ht.Revolute("x"))
    system.body("bob", parent="fork", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, (0, 0, -1)))
    parent = "fork"
    for k in range(8):
        system.body(f"b{k}", parent=parent, at=pose(0.1 * k, 0.2, 0.3), joint=ht.Revolute("xyz"[k % 3], armature=0.1))
        parent = f"b{k}"
    system.body("end", parent=parent, joint=ht.Fixed(), inertia=INERTIA)
    model = system.derive(native=False)
    report = model.to_mjcf(tmp_path / "string.xml", strict=True)
    assert {item.name for item in report.changes} == {"fork", "bob", "b5"}
    same(model, ht.load(tmp_path / "string.xml").derive(native=False), 1e-9)


def test_a_text_that_cannot_be_read_again_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from heavytop.io import robot_files

    model = arm().derive(native=False)
    written = robot_files.urdf_text
    monkeypatch.setattr(
        robot_files, "urdf_text", lambda *given: written(*given).replace('type="fixed"', 'type="glued"')
    )
    assert [item.what for item in model.to_urdf(tmp_path / "a.urdf").losses] == ["file"]
    monkeypatch.setattr(
        robot_files, "urdf_text", lambda *given: written(*given).replace('value="1.3"', 'value="1.2"', 1)
    )
    assert [item.what for item in model.to_urdf(tmp_path / "a.urdf").losses] == ["body"]
    monkeypatch.setattr(robot_files, "urdf_text", lambda *given: written(*given).replace('iyy="0.4"', 'iyy="0.41"'))
    assert [item.what for item in (*model.to_urdf(tmp_path / "a.urdf").changes,)][-1] == "motion"
