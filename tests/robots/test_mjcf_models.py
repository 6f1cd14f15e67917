"""Parts of MJCF models: attached models, stored states, joints that follow others, meshes in the file, shapes fitted to meshes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import heavytop as ht
from heavytop.errors import FileFormatError
from heavytop.geometry import quaternion, se3, so3

BOX = '<geom type="box" size=".1 .2 .3" pos=".1 0 .2"/>'
CORNERS = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 3]], dtype=float)
FACES = np.array([[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])


def model_of(tmp_path: Path, text: str, name: str = "robot.xml") -> ht.Model:
    (tmp_path / name).write_text(text)
    return ht.load(tmp_path / name).derive(native=False)


def same_motion(first: ht.Model, second: ht.Model, seed: int = 0) -> None:
    rng = np.random.default_rng(seed)
    q, v, u = first.random(rng), rng.standard_normal(first.nv), rng.standard_normal(first.nu)
    assert (first.nv, first.nu) == (second.nv, second.nu)
    assert_allclose(first.acceleration(q, v, u), second.acceleration(q, v, u), rtol=1e-12, atol=1e-12)


# --- attached models ------------------------------------------------------------------------------------------------------

GRIPPER = (
    '<mujoco model="gripper"><compiler angle="radian" autolimits="false"/><option gravity="0 0 5"/>'
    '<default><joint damping="2"/><default class="finger"><joint damping="0.5" ref="0.1"/></default></default><worldbody>'
    '<geom size=".1" pos="0 0 .3"/><site name="mount" pos="0 0 1"/>'
    f'<body name="palm" pos="0 .1 0" euler="0.2 0.3 0"><joint name="turn" axis="1 0 0"/><joint name="tilt" axis="0 1 0" pos=".1 0 0"/>{BOX}'
    f'<body name="left" pos="0 0 .4"><joint name="l" class="finger"/>{BOX}<site name="tip" pos="0 0 .2"/></body></body>'
    f'<body name="other"><joint name="o"/>{BOX}</body></worldbody>'
    '<tendon><fixed name="t" stiffness="3"><joint joint="l" coef="2"/></fixed><spatial name="rope" stiffness="4"><site site="mount"/>'
    '<site site="tip"/></spatial></tendon>'
    '<actuator><position name="close" joint="l" kp="5" dampratio="1"/><motor joint="o" name="m"/></actuator>'
    '<keyframe><key name="open" qpos="0.1 0.2 0.3 0.4"/></keyframe></mujoco>'
)
PLACE = 'pos=".3 0 .1" euler="0.1 0.2 0.3"'


def scene(inner: str, asset: str = "", rest: str = "") -> str:
    return (
        f'<mujoco><compiler angle="radian"/>{asset}<worldbody><body name="arm"><joint name="j" axis="0 1 0"/>{BOX}<frame {PLACE}>{inner}'
        f"</frame></body></worldbody>{rest}</mujoco>"
    )


@pytest.mark.thorough
def test_attached_model_equals_the_same_bodies_written_in_place(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "gripper.xml").write_text(GRIPPER)
    asset = '<asset><model name="g" file="parts/gripper.xml"/></asset>'
    path = tmp_path / "scene.xml"
    path.write_text(scene('<attach model="g" prefix="right_"/>', asset))
    system = ht.load(path)
    attached = system.derive(native=False)
    inside = GRIPPER[GRIPPER.index("<worldbody>") + 11 : GRIPPER.index("</worldbody>")].replace(
        '<geom size=".1" pos="0 0 .3"/>', ""
    )
    rest = GRIPPER[GRIPPER.index("</worldbody>") + 12 : GRIPPER.index("<keyframe>")]
    inside = inside.replace('class="finger"', 'damping="0.5" ref="0.1"')
    for name in ("turn", "tilt", "o"):
        inside = inside.replace(f'<joint name="{name}"', f'<joint damping="2" name="{name}"')
    in_place = model_of(tmp_path, scene(inside, rest=rest))
    assert attached.q_names == ("j.angle", *(f"right_{n}.angle" for n in ("turn", "tilt", "l", "o")))
    assert tuple(attached.description.inputs) == ("right_close", "right_m")
    assert system.gravity[2] == -9.81  # options are those of the whole
    same_motion(attached, in_place)
    q = np.linspace(0.1, 0.5, 5)
    assert_allclose(attached.pose("world", "right_tip", q), in_place.pose("world", "tip", q), atol=1e-14)
    assert_allclose(system.keyframes["right_open"].q, [0, 0.1, 0.2, 0.2, 0.4])


def test_actuators_of_attached_models_follow_those_of_the_model(tmp_path: Path) -> None:
    """As in MuJoCo 4.0; stored controls have this order."""
    (tmp_path / "gripper.xml").write_text(GRIPPER)
    asset = '<asset><model name="g" file="gripper.xml"/></asset>'
    rest = (
        '<actuator><motor name="own" joint="right_l"/><muscle name="lost" joint="j"/></actuator>'
        '<keyframe><key name="k" qpos="1 2 3 4 5" ctrl="1 2 3 4"/></keyframe>'
    )
    (tmp_path / "scene.xml").write_text(scene('<attach model="g" prefix="right_"/>', asset, rest))
    system = ht.load(tmp_path / "scene.xml")
    assert tuple(system.derive(native=False).u_names) == ("own", "right_close", "right_m")
    assert_allclose(system.keyframes["k"].u, [1, 3, 4])
    assert_allclose(system.keyframes["k"].q, [1, 2, 3, 3.9, 5])


def test_attached_body_brings_the_parts_that_name_it_only(tmp_path: Path) -> None:
    (tmp_path / "gripper.xml").write_text(GRIPPER)
    asset = '<asset><model name="g" file="gripper.xml"/></asset>'
    twice = '<attach model="g" body="palm" prefix="a/"/><attach model="g" body="left" prefix="b/"/>'
    model = model_of(tmp_path, scene(twice, asset))
    assert model.q_names == ("j.angle", "a/turn.angle", "a/tilt.angle", "a/l.angle", "b/l.angle")
    assert tuple(model.description.inputs) == ("a_close", "b_close")
    at = se3.pose(so3.exp([0.1, 0, 0]) @ so3.exp([0, 0.2, 0]) @ so3.exp([0, 0, 0.3]), np.array([0.3, 0, 0.1]))
    assert_allclose(
        model.pose("arm", "b/left", model.neutral()), at @ se3.pose(np.eye(3), np.array([0, 0, 0.4])), atol=1e-14
    )


@pytest.mark.parametrize(
    ("attach", "message"),
    [
        ('<attach model="x" prefix="a"/>', "names the model 'x', which is not an asset"),
        ('<attach model="g" body="x" prefix="a"/>', "names the body 'x', which the model 'g' does not have"),
        ('<attach model="g" prefix="a"/><attach model="g" prefix="a"/>', "the name 'aleft' is taken"),
        ('<attach model="lost" prefix="a"/>', "cannot attach 'lost.xml': there is no file"),
        ('<attach model="own" prefix="a"/>', "attached to each other more than"),
    ],
)
def test_wrong_attachments_are_typed_errors(tmp_path: Path, attach: str, message: str) -> None:
    (tmp_path / "gripper.xml").write_text(GRIPPER)
    asset = '<asset><model name="g" file="gripper.xml"/><model name="lost" file="lost.xml"/><model name="own" file="robot.xml"/></asset>'
    with pytest.raises(FileFormatError, match=message):
        model_of(tmp_path, scene(attach, asset))


# --- stored states --------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_keyframes_are_starts_in_coordinates_of_the_model(tmp_path: Path) -> None:
    """A free body on a turned frame, a ball, a slide with a reference; controls of the actuators that are read."""
    path = tmp_path / "robot.xml"
    path.write_text(
        '<mujoco><compiler angle="radian"/><worldbody><body name="a" pos="1 2 3" euler="0.3 0 0"><freejoint name="f"/>'
        f'{BOX}<body name="b"><joint name="s" type="slide" ref="0.5"/>{BOX}<body name="c"><joint name="k" type="ball"/>{BOX}</body></body></body>'
        '</worldbody><actuator><motor joint="s" name="m"/><muscle joint="s" name="n"/><motor joint="s" name="p"/></actuator>'
        '<keyframe><key name="home" time="2" qpos="4 5 6 .5 .5 .5 .5 0.7 0 1 0 0" qvel="1 2 3 4 5 6 7 8 9 10" ctrl="1 2 3"/>'
        '<key qpos="1 2"/><key name="rest"/></keyframe></mujoco>'
    )
    system = ht.load(path)
    model = system.derive(native=False)
    assert list(system.keyframes) == ["home", "rest"]
    home = system.keyframes["home"]
    pose = se3.pose(quaternion.rotation_from_quaternion(np.full(4, 0.5)), np.array([4.0, 5, 6]))
    assert_allclose(model.pose("world", "a", home.q), pose, atol=1e-14)
    assert_allclose(model.pose("a", "b", home.q)[2, 3], 0.2)
    assert_allclose(model.pose("b", "c", home.q)[:3, :3], np.diag([1, -1, -1]), atol=1e-14)
    twist = model.twist("world", "a", home.q, home.v)
    assert_allclose(pose[:3, :3] @ twist[:3], [1, 2, 3], atol=1e-14)
    assert_allclose(twist[3:], [4, 5, 6])
    assert_allclose(home.v[6:], [7, 8, 9, 10])
    assert_allclose(home.u, [1, 3])
    assert home.time == 2.0
    assert_allclose(system.keyframes["rest"].q, model.neutral(), atol=1e-14)
    assert ("keyframe", "key2") in [(item.what, item.name) for item in system.report.losses]
    run = ht.simulate(model, home, until=0.02, step=0.01)
    assert_allclose(run.q[0], home.q)


# --- joints that follow others --------------------------------------------------------------------------------------------


def chain(*equalities: str) -> str:
    bodies = "".join(
        f'<body name="b{k}" pos="0 0 .3"><joint name="j{k}" axis="0 1 .2" damping=".3" ref=".{k}"/>{BOX}'
        for k in range(4)
    )
    return (
        f'<mujoco><compiler angle="radian"/><worldbody>{bodies}{4 * "</body>"}</worldbody><equality>{"".join(equalities)}</equality>'
        '<tendon><fixed name="t" stiffness="3"><joint joint="j1" coef="2"/><joint joint="j3" coef="-1"/></fixed></tendon>'
        '<actuator><position joint="j1" kp="5"/><motor tendon="t"/></actuator></mujoco>'
    )


def test_linear_equalities_are_couplings_with_the_motion_of_constraints(tmp_path: Path) -> None:
    """A chain of followers; the acceleration is that of the constrained model with all coordinates."""
    equalities = (
        '<joint joint1="j1" joint2="j2" polycoef="0.2 -0.5 0 0 0"/>',
        '<joint joint1="j2" joint2="j0" polycoef="0.1 2 0 0 0"/>',
    )
    coupled = model_of(tmp_path, chain(*equalities))
    # a relation that binds a follower a second time keeps the constraints: it is redundant here
    constrained = model_of(
        tmp_path, chain(*equalities, '<joint joint1="j1" joint2="j2" polycoef="0.2 -0.5 0 0 1e-300"/>')
    )
    assert (coupled.nv, coupled.is_constrained) == (2, False)
    assert (constrained.nv, constrained.is_constrained) == (4, True)
    x, w, u = np.array([0.3, 0.7]), np.array([-0.4, 1.1]), np.array([0.5, -2.0])
    q2, v2 = 2 * x[0] + 0.1, 2 * w[0]
    q, v = np.array([x[0], 0.2 - 0.5 * q2, q2, x[1]]), np.array([w[0], -0.5 * v2, v2, w[1]])
    q, v = constrained.assemble(q, v)
    a = constrained.acceleration(q, v, u)
    assert_allclose(coupled.acceleration(x, w, u), a[[0, 3]], rtol=1e-9)


@pytest.mark.parametrize(
    ("equalities", "nv", "constrained"),
    [
        (('<joint joint1="j1" joint2="j0" polycoef="0 1 2 0 0"/>',), 4, True),
        (('<joint joint1="j1" polycoef="0.3 0 0 0 0"/>',), 4, True),
        (('<joint joint1="j1" joint2="j0"/>', '<joint joint1="j0" joint2="j1"/>'), 4, True),
        (
            (
                '<joint joint1="j1" joint2="j0"/>',
                '<joint joint1="j2" joint2="j0"/>',
                '<joint joint1="j3" joint2="j1"/>',
            ),
            1,
            False,
        ),
        (('<joint joint1="j1" joint2="j0"/>', '<joint joint1="j2" joint2="j1" polycoef="0 0 1 0 0"/>'), 4, True),
    ],
)
def test_only_independent_linear_relations_become_couplings(
    tmp_path: Path, equalities, nv: int, constrained: bool
) -> None:
    model = model_of(tmp_path, chain(*equalities))
    assert (model.nv, model.is_constrained) == (nv, constrained)


# --- meshes ---------------------------------------------------------------------------------------------------------------


def mesh_model(tmp_path: Path, mesh: str, geom: str = '<geom type="mesh" mesh="m"/>', compiler: str = "") -> ht.Model:
    body = f'<body name="a"><joint name="j"/>{geom}</body>'
    asset = f'<compiler {compiler}/><asset><mesh name="m" {mesh}/></asset>'
    return model_of(tmp_path, f"<mujoco>{asset}<worldbody>{body}</worldbody></mujoco>")


def flat(x: np.ndarray) -> str:
    return " ".join(f"{value:g}" for value in np.reshape(x, -1))


@pytest.mark.thorough
def test_meshes_in_the_file_and_of_mujocos_format_have_the_inertia_of_their_solid(tmp_path: Path) -> None:
    solid = ht.Inertia.of(ht.Triangles(CORNERS, FACES), density=1000.0)
    header = np.array([len(CORNERS), 0, 1, len(FACES)], "<i4").tobytes()
    parts = (CORNERS.astype("<f4"), np.zeros((1, 2), "<f4"), FACES.astype("<i4"))
    (tmp_path / "m.msh").write_bytes(header + b"".join(part.tobytes() for part in parts))
    for mesh in (f'vertex="{flat(CORNERS)}" face="{flat(FACES)}"', f'vertex="{flat(CORNERS)}"', 'file="m.msh"'):
        made = mesh_model(tmp_path, mesh).description.inertias["a"]
        assert_allclose(made.total, 500)
        assert_allclose(made.center, CORNERS.mean(axis=0))
        assert_allclose(made.moment_at_center, solid.moment_at_com, rtol=1e-12, atol=1e-9)
    mirrored = mesh_model(
        tmp_path, f'vertex="{flat(CORNERS)}" face="{flat(FACES)}" scale="1 -1 2"'
    ).description.inertias["a"]
    assert_allclose(mirrored.center, CORNERS.mean(axis=0) * [1, -1, 2])
    (tmp_path / "m.msh").write_bytes(header)
    with pytest.raises(FileFormatError, match="its size is not that of its counts"):
        mesh_model(tmp_path, 'file="m.msh"')
    for wrong in ('vertex="0 0 0 1 1 1"', f'vertex="{flat(CORNERS)}" face="0 1 9"', 'vertex="0 0 0 1 0 0 0 1 0 1 1 0"'):
        with pytest.raises(FileFormatError, match=r"robot\.xml:1: <(mesh|geom)>"):
            mesh_model(tmp_path, wrong)


@pytest.mark.parametrize("kind", ["box", "ellipsoid", "cylinder", "capsule", "sphere"])
def test_primitives_fitted_to_a_brick_are_in_its_place(tmp_path: Path, kind: str) -> None:
    """The box of equal inertia of a brick is the brick, by its inertia and by its extent, wherever and however turned it is."""
    half, turn, middle = np.array([0.1, 0.2, 0.5]), so3.exp([0.3, -0.5, 0.8]), np.array([0.4, -0.1, 0.2])
    signs = np.array(np.meshgrid((-1, 1), (-1, 1), (-1, 1))).reshape(3, -1).T
    vertices = f'vertex="{" ".join(repr(float(x)) for x in (signs * half @ turn.T + middle).reshape(-1))}"'
    shapes = {
        "box": [ht.Box(tuple(2 * half))] * 2,
        "ellipsoid": [ht.Ellipsoid(tuple(half))] * 2,
        "cylinder": [ht.Cylinder(0.15, 1.0), ht.Cylinder(0.2, 1.0)],
        "capsule": [ht.Capsule(0.15, 2 * (0.5 - 0.075)), ht.Capsule(0.2, 2 * 0.3)],
        "sphere": [ht.Sphere(0.8 / 3), ht.Sphere(0.5)],
    }
    for compiler, shape in zip(("", 'fitaabb="true"'), shapes[kind], strict=True):
        made = mesh_model(tmp_path, vertices, f'<geom type="{kind}" mesh="m"/>', compiler).description.inertias["a"]
        volume, _, moment = shape.unit_moments()
        assert_allclose(made.total, 1000 * volume, rtol=1e-9)
        assert_allclose(made.center, middle, atol=1e-9)
        assert_allclose(made.moment_at_center, 1000 * turn @ moment @ turn.T, rtol=1e-6, atol=1e-6)


def test_height_field_has_the_inertia_that_mujoco_gives_it(tmp_path: Path) -> None:
    text = (
        '<mujoco><asset><hfield name="h" nrow="2" ncol="2" size="1 1 1 .1"/></asset><worldbody><body name="a"><joint name="j"/>'
        '<geom type="hfield" hfield="h"/></body></worldbody></mujoco>'
    )
    made = model_of(tmp_path, text).description.inertias["a"]
    assert_allclose(made.total, 2400)  # MuJoCo 4.0: a box of 2 x 2 x 0.6 m
    assert_allclose(np.diag(made.moment_at_center), [872, 872, 1600])


# --- loops of rounded dimensions ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tilt", [0.0, 1e-8, 1e-7])
def test_loop_with_axes_that_are_parallel_up_to_rounding_is_assembled(tmp_path: Path, tilt: float) -> None:
    """A four-bar linkage with spherical joints has redundant equations; with tilted axes they contradict each other by the tilt."""
    inertial = '<inertial pos="0 0 .15" mass="1" diaginertia=".01 .01 .001"/>'
    model = model_of(
        tmp_path,
        f'<mujoco><worldbody><body name="a"><joint name="j" axis="0 1 0"/>{inertial}<body name="b" pos="0 0 .3"><joint name="k" axis="{tilt} 1 0"/>'
        f'{inertial}<site name="s" pos="0 0 .4"/></body></body><body name="c" pos=".3 0 0"><joint name="l" axis="0 1 {-tilt}"/>{inertial}'
        '<site name="t" pos="0 0 .3"/></body></worldbody><equality><connect site1="s" site2="t"/></equality></mujoco>',
    )
    q, v = model.assemble(np.array([0.2, 0.5, 0.1]), np.array([1.0, 0.0, 0.0]))
    assert model.degrees_of_freedom(q) == 1
    assert np.max(np.abs(model.constraint_residuals(q, v)[0])) <= max(tilt, 1e-12)
    assert np.max(np.abs(v)) > 0.1
