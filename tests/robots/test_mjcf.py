"""MJCF in: the same system written by hand, and files that are wrong. Whole models are compared with MuJoCo among the peers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import heavytop as ht
from heavytop.errors import FileFormatError
from heavytop.geometry import se3, so3

INERTIAL = '<inertial pos="0.1 -0.2 0.3" mass="1.5" fullinertia="0.3 0.4 0.5 0.01 -0.02 0.03"/>'
BODY = ht.Inertia(1.5, (0.1, -0.2, 0.3), [[0.3, 0.01, -0.02], [0.01, 0.4, 0.03], [-0.02, 0.03, 0.5]])


def mjcf(bodies: str, more: str = "", compiler: str = 'angle="radian"') -> str:
    return f"<mujoco>\n<compiler {compiler}/>\n<worldbody>\n{bodies}\n</worldbody>\n{more}\n</mujoco>"


@pytest.fixture
def load(tmp_path: Path):
    def write(text: str | bytes, **options):
        path = tmp_path / "robot.xml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return ht.load(path, **options)

    return write


def test_joints_off_the_origin_equal_the_same_system_written_by_hand(load) -> None:
    """Two joints of one body, degrees, a class, a spring, a damper, a rotor, a site, a motor."""
    text = mjcf(
        f'<body name="arm" pos="0.2 0 0.5" euler="0 30 0" childclass="soft">'
        f'<joint name="yaw" axis="0 0 2" pos="0.1 0 0" damping="0.3"/><joint name="out" type="slide" axis="0.6 0.8 0"/>'
        f'{INERTIAL}<site name="tip" pos="0 0 1"/></body>',
        '<actuator><motor name="m" joint="yaw" gear="4"/></actuator>'
        '<default><default class="soft"><joint stiffness="2" springref="10" armature="0.05"/></default></default>',
        compiler='angle="degree"',
    )
    model = load(text).derive(native=False)
    system = ht.System()
    at = se3.pose(so3.exp(np.array([0, np.pi / 6, 0])), np.array([0.2, 0, 0.5]))
    pin = se3.pose(np.eye(3), np.array([0.1, 0, 0]))
    hinge = ht.Revolute("z", stiffness=2.0, rest=np.deg2rad(10), damping=0.3, armature=0.05)
    system.body("turned", at=at @ pin, joint=hinge)
    system.frame("back", "turned", (-0.1, 0, 0))
    slide = ht.Prismatic((0.6, 0.8, 0), stiffness=2.0, rest=10.0, armature=0.05)
    system.body("arm", parent="back", joint=slide, inertia=BODY)
    system.frame("tip", "arm", (0, 0, 1))
    system.input("m", ht.JointForce("turned", gear=4.0))
    twin = system.derive(native=False)
    q, v, u = np.array([0.3, -0.2]), np.array([1.0, 0.7]), np.array([0.5])
    assert model.q_names == ("yaw.angle", "out.x")
    assert_allclose(model.acceleration(q, v, u), twin.acceleration(q, v, u), rtol=1e-12)
    assert_allclose(model.energy(q, v), twin.energy(q, v), rtol=1e-13)
    assert_allclose(model.pose("world", "tip", q), twin.pose("world", "tip", q), atol=1e-14)


def test_losses_have_their_lines_and_strict_rejects_them(load) -> None:
    text = mjcf(f'<body><joint name="j"/>{INERTIAL}<geom size="0.1"/></body>', "<custom/>\n<contact/>\n<deformable/>")
    report = load(text).report
    assert [(item.what, item.where.rpartition(":")[2]) for item in report.losses] == [
        ("contact geometry", "4"),
        ("custom", "6"),
        ("deformable", "8"),
    ]
    with pytest.raises(FileFormatError, match="strict=True, but 3"):
        load(text, strict=True)


HINGE = f'<body name="a"><joint name="j"/>{INERTIAL}</body>'
WRONG = {
    "truncated": (mjcf(HINGE)[:90], r"robot\.xml:\d+: this is not well-formed XML"),
    "empty": ("", r"robot\.xml:1: this is not well-formed XML"),
    "binary": (b"\x00\xff\x13", r"robot\.xml:\d+: this is not well-formed XML"),
    "other root": ("<sdf/>", r"robot\.xml:1: "),
    "no body": (mjcf(""), r"robot\.xml:1: <mujoco>: it has no <body>"),
    "same name": (mjcf(HINGE + "\n" + HINGE), r"robot\.xml:5: .*'a'"),
    "same joint": (mjcf(HINGE + "\n" + HINGE.replace('"a"', '"b"')), r"robot\.xml:5: .*'j'"),
    "negative mass": (mjcf(HINGE.replace("1.5", "-1.5")), r"robot\.xml:4: <inertial>: .*negative"),
    "nan": (mjcf(HINGE.replace("1.5", "nan")), r"robot\.xml:4: <inertial>: mass must hold finite numbers"),
    "nan place": (mjcf(HINGE.replace("<body", '<body pos="0 nan 0"')), r"robot\.xml:4: <body>: pos must hold finite"),
    "no number": (mjcf(HINGE.replace("1.5", "heavy")), r"robot\.xml:4: <inertial>: mass must hold numbers, got 'heavy'"),
    "two numbers": (mjcf(HINGE.replace("<body", '<body pos="0 1"')), r"robot\.xml:4: <body>: pos must hold 3 numbers"),
    "zero axis": (mjcf(HINGE.replace('name="j"', 'name="j" axis="0 0 0"')), r"robot\.xml:4: .*zero"),
    "zero quat": (mjcf(HINGE.replace("<body", '<body quat="0 0 0 0"')), r"robot\.xml:4: <body>: quat must not be zero"),
    "joint type": (mjcf(HINGE.replace('name="j"', 'name="j" type="screw"')), r"robot\.xml:4: <joint>: .*'screw'"),
    "no class": (mjcf(HINGE.replace('name="j"', 'name="j" class="x"')), r"robot\.xml:4: <joint>: the class 'x' is not"),
    "negative size": (mjcf('<body><joint/><geom size="-1"/></body>'), r"robot\.xml:4: <geom>: .*-1"),
    "negative density": (mjcf('<body><joint/><geom size="1" density="-1"/></body>'), r"robot\.xml:4: <geom>: mass and dens"),
    "no mesh": (mjcf('<body><joint/><geom type="mesh" mesh="m"/></body>'), r"robot\.xml:4: <geom>: .*'m', which is not an asset"),
    "actuator of nothing": (mjcf(HINGE, '<actuator><motor joint="k"/></actuator>'), r"robot\.xml:6: <motor>: .*'k'"),
    "tendon of nothing": (
        mjcf(HINGE, '<tendon><fixed><joint joint="k"/></fixed></tendon>'),
        r"robot\.xml:6: <tendon>: names the joint 'k', which does not exist",
    ),
    "equality of nothing": (mjcf(HINGE, '<equality><connect body1="a" body2="z" anchor="0 0 0"/></equality>'), r"robot\.xml:6: .*'z'"),
    "missing parent": (mjcf(HINGE, '<equality><joint joint1="j" joint2="k"/></equality>'), r"robot\.xml:6: .*'k'"),
    "bomb": (
        '<!DOCTYPE m [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><mujoco model="&b;"/>',
        r"robot\.xml:1: document type declarations",
    ),
    "external": ('<!DOCTYPE m SYSTEM "file:///etc/passwd"><mujoco/>', r"robot\.xml:1: document type declarations"),
    "outside": (mjcf(HINGE, '<include file="../secret.xml"/>'), r"robot\.xml:6: <include>: cannot include '../secret.xml'"),
    "absolute": (mjcf(HINGE, '<include file="/etc/passwd"/>'), r"robot\.xml:6: <include>: cannot include"),
    "itself": (mjcf(HINGE, '<include file="robot.xml"/>'), r"robot\.xml:6: <include>: 'robot.xml' is included twice"),
    "deep": ("<mujoco>" + "<body>" * 100_000, "the file has more than 400 levels"),
    "long name": (mjcf(HINGE.replace('"a"', f'"{"n" * 10_000_000}"')), r"robot\.xml:4: .*10000000 characters"),
    "long joint name": (mjcf(HINGE.replace('"j"', f'"{"n" * 1_000}"')), r"robot\.xml:4: .*1000 characters"),
    "many sites": (
        mjcf("<body><joint/>" + "".join(f'<site name="s{k}"/>' for k in range(5001)) + "</body>"),
        r"robot\.xml:4: <site>: the file has more than 5000 sites",
    ),
    "many bodies": (mjcf("<body/>" * 6000), "at most 5000 are read"),
    "encoding": ('<?xml version="1.0" encoding="martian"?><mujoco/>', r"robot\.xml"),
    "copies of copies": (
        mjcf("<replicate count='2000'>" * 3 + HINGE + "</replicate>" * 3),
        r"robot\.xml:4: <replicate>: .*50000",
    ),
    "joint of the world": (mjcf(HINGE + '\n<joint name="k"/>'), r"robot\.xml:5: <joint>: the world has no joints"),
    "fitted shape": (
        mjcf('<body><joint/><geom mesh="m"/></body>', '<asset><mesh name="m" file="m.stl"/></asset>'),
        r"robot\.xml:4: <geom>: the mesh 'm' is not read",
    ),
    "sheared mesh": (
        mjcf(HINGE, '<asset><mesh name="m" file="m.stl" refquat="1 1 0 0" scale="1 2 1"/></asset>'),
        r"robot\.xml:6: <mesh>: a mesh that is turned by refquat and scaled differently",
    ),
    "no number of copies": (mjcf(f"<replicate count='0'>{HINGE}</replicate>"), r"robot\.xml:4: <replicate>: count must"),
    "lost mesh": (
        mjcf('<body name="a"><joint/><geom type="mesh" mesh="m"/></body>', '<asset><mesh name="m" file="m.stl"/></asset>'),
        r"robot\.xml:4: <geom>: the mesh 'm' is not read .*so that its inertia is unknown",
    ),
    "rope of one number": (
        mjcf(HINGE, '<tendon><fixed springlength="1 2 3"><joint joint="j"/></fixed></tendon>'),
        r"robot\.xml:6: <tendon>: springlength must hold one or two numbers, got 3",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_files_are_typed_errors_with_their_line(load, tmp_path: Path, case) -> None:
    (tmp_path / "package.xml").write_text("<package/>")
    (tmp_path.parent / "secret.xml").write_text("<mujoco/>")
    text, message = WRONG[case]
    with pytest.raises(FileFormatError, match=message):
        load(text)


def test_cyclic_includes_are_rejected(load, tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text('<mujoco>\n<include file="b.xml"/></mujoco>')
    (tmp_path / "b.xml").write_text('<mujoco>\n\n<include file="a.xml"/></mujoco>')
    with pytest.raises(FileFormatError, match=r"b\.xml:3: <include>: 'a.xml' is included twice"):
        load(mjcf(HINGE, '<include file="a.xml"/>'))


MESHES = {
    "truncated.stl": b"\x00" * 80 + (1000).to_bytes(4, "little") + b"\x00" * 70,
    "many.stl": b"\x00" * 80 + (2**32 - 1).to_bytes(4, "little"),
    "nan.obj": b"v 0 0 nan\nv 1 0 0\nv 0 1 0\nf 1 2 3\n",
    "index.obj": b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 99\n",
    "empty.obj": b"",
    "huge.ply": b"ply\nformat binary_little_endian 1.0\nelement vertex 4000000000\nproperty float x\nproperty float y\n"
    b"property float z\nelement face 1\nproperty list uchar int vertex_indices\nend_header\n",
    "bomb.dae": b'<!DOCTYPE c [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><COLLADA>&b;</COLLADA>',
    "bomb16.dae": '<?xml version="1.0" encoding="utf-16"?><!DOCTYPE c [<!ENTITY a "aaaa">]><COLLADA>&a;</COLLADA>'.encode("utf-16"),
    "broken.glb": b"glTF\x02\x00\x00\x00\xff\xff\xff\xff",
}  # fmt: skip


@pytest.mark.parametrize("name", MESHES)
def test_damaged_meshes_are_typed_errors_with_the_line_of_the_robot(load, tmp_path: Path, name) -> None:
    (tmp_path / name).write_bytes(MESHES[name])
    text = mjcf('<body><joint/><geom type="mesh" mesh="m"/></body>', f'<asset><mesh name="m" file="{name}"/></asset>')
    with pytest.raises(FileFormatError, match=r"robot\.xml:4: <geom>: .*" + name):
        load(text)


def test_an_open_mesh_needs_no_inertia_where_it_is_given(load, tmp_path: Path) -> None:
    """A mesh with holes draws a body with <inertial>; it cannot define the inertia of one without."""
    (tmp_path / "open.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
    body, asset = (
        '<body><joint/>{}<geom type="mesh" mesh="m"/></body>',
        '<asset><mesh name="m" file="open.obj"/></asset>',
    )
    system = load(mjcf(body.format(INERTIAL), asset))
    assert len(system.describe().shapes) == 1
    assert_allclose(system.derive(native=False).mass, 1.5)
    with pytest.raises(FileFormatError, match=r"robot\.xml:4: <geom>: .*open\.obj"):
        load(mjcf(body.format(""), asset))


def test_boxes_between_two_points_have_one_width(load) -> None:
    """MuJoCo ignores the second size."""
    box = '<body><joint/><geom type="box" fromto="0 0 0 0 0 .5" size=".1 .3"/></body>'
    assert_allclose(load(mjcf(box)).derive(native=False).mass, 1000 * 0.2 * 0.2 * 0.5)


def test_meshes_read_nothing_but_themselves(tmp_path: Path) -> None:
    """References of a mesh to other files, also in its own folder, are not followed."""
    import json
    import struct

    secret = tmp_path / "secret.bin"
    secret.write_bytes(struct.pack("<9f3I", 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1, 2))
    document = {
        "asset": {"version": "2.0"},
        "scenes": [{"nodes": [0]}],
        "nodes": [{"mesh": 0}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "indices": 1}]}],
        "buffers": [{"uri": "secret.bin", "byteLength": 48}],
        "bufferViews": [{"buffer": 0, "byteLength": 36}, {"buffer": 0, "byteOffset": 36, "byteLength": 12}],
        "accessors": [
            {"bufferView": 0, "componentType": 5126, "count": 3, "type": "VEC3"},
            {"bufferView": 1, "componentType": 5125, "count": 3, "type": "SCALAR"},
        ],
    }
    content = json.dumps(document).encode()
    content += b" " * (-len(content) % 4)
    chunk = struct.pack("<I4s", len(content), b"JSON") + content
    (tmp_path / "a.glb").write_bytes(struct.pack("<4sII", b"glTF", 2, 12 + len(chunk)) + chunk)
    with pytest.raises(FileFormatError, match=r"a\.glb"):
        ht.Mesh(str(tmp_path / "a.glb")).triangles  # noqa: B018


# --- actuators ----------------------------------------------------------------------------------------------------------------

DEFAULTS = {
    "general": '<general gainprm="50 2" biastype="affine" biasprm="1 -7 -3 4"/>',
    "position": '<position kp="50" kv="3"/>',
    "velocity": '<velocity kv="3"/>',
    "motor": '<motor gear="2"/>',
}
LAWS = {  # as MuJoCo compiles them: class around, class of the actuator, actuator -> gain, b0, b1, b2
    ("general", "", "<position joint='j'/>"): (50, 0, -50, -3),
    ("general", "", "<position joint='j' kp='9'/>"): (9, 0, -9, -3),
    ("general", "", "<velocity joint='j'/>"): (50, 0, 0, -50),
    ("general", "", "<general joint='j' biasprm='9'/>"): (50, 9, -7, -3),
    ("general", "", "<motor joint='j'/>"): (1, 0, 0, 0),
    ("position", "", "<general joint='j'/>"): (50, 0, -50, -3),
    ("position", "", "<position joint='j' kv='9'/>"): (50, 0, -50, -9),
    ("position", "", "<velocity joint='j'/>"): (1, 0, 0, -1),
    ("velocity", "", "<position joint='j'/>"): (1, 0, -1, 0),
    ("general", "velocity", "<position joint='j'/>"): (50, 0, -50, -3),
    ("position", "motor", "<position joint='j'/>"): (50, 0, -50, -3),
    ("position", "motor", "<general joint='j'/>"): (1, 0, 0, 0),
    ("velocity", "position", "<velocity joint='j'/>"): (3, 0, 0, -3),
}


@pytest.mark.parametrize("case", LAWS, ids=lambda case: "-".join(case))
def test_defaults_of_actuators_are_inherited_by_their_kinds(load, case) -> None:
    """A hinge with the moment of inertia 0.5 about its axis: a = gear (gain u + b0 + b1 q + b2 v) / 0.5."""
    outer, inner, actuator = case
    body = '<body><joint name="j"/><inertial pos="0 0 0" mass="1" diaginertia="0.5 0.5 0.5"/></body>'
    classes = f'{DEFAULTS[outer]}<default class="x">{DEFAULTS.get(inner, "")}</default>'
    given = actuator.replace("/>", ' class="x"/>')
    model = load(mjcf(body, f"<default>{classes}</default><actuator>{given}</actuator>")).derive(native=False)
    gain, b0, b1, b2 = LAWS[case]
    gear = 2.0 if "motor" in (outer, inner) else 1.0
    q, v, u = 0.3, -0.7, 1.1
    expected = gear * (gain * u + b0 + b1 * gear * q + b2 * gear * v) / 0.5
    assert_allclose(model.acceleration([q], [v], [u])[0], expected, rtol=1e-13)


def test_actuators_that_cannot_be_inputs_are_reported(load) -> None:
    text = mjcf(
        HINGE,
        '<actuator><motor joint="j"/><motor joint="j"/><general name="lag" joint="j" dyntype="muscle" dynprm="1"/>'
        '<motor name="strong" joint="j" forcerange="-6 6" gear="3"/>'
        '<position name="servo" joint="j" forcerange="-6 6"/><motor name="a/b c" joint="j"/></actuator>',
    )
    system = load(text)
    assert list(system.derive(native=False).u_names) == ["motor_j", "motor_j_2", "strong", "servo", "a_b_c"]
    assert system.input_limits == {"strong": (-6.0, 6.0)}
    notes = {(item.what, item.name): item.note for item in (*system.report.losses, *system.report.changes)}
    assert notes["actuator", "lag"] == "its state is of the kind 'muscle'"
    assert "system.actuation()" in notes["forcerange", "servo"]
    assert notes["actuator", "a/b c"] == "named 'a_b_c'"


def test_flags_switch_off_springs_dampers_and_actuators(load) -> None:
    soft = HINGE.replace('name="j"', 'name="j" stiffness="3" damping="2"')
    for flag in ("spring", "damper"):
        system = load(mjcf(soft, f'<option><flag {flag}="disable"/></option>'))
        model = system.derive(native=False)
        force = model.bias([0.3], [0.5]) + model.stiffness_force([0.3]) + model.dissipation_force([0.3], [0.5])
        left = 2 * 0.5 if flag == "spring" else 3 * 0.3
        assert_allclose(force[0] - model.bias([0.3], [0.5])[0], left, rtol=1e-13)
    motor = '<actuator><motor joint="j" group="2"/></actuator>'
    assert load(mjcf(soft, f'<option actuatorgroupdisable="2"/>{motor}')).derive(native=False).nu == 0
    assert load(mjcf(soft, f'<option><flag actuation="disable"/></option>{motor}')).derive(native=False).nu == 0


# --- names and copies ---------------------------------------------------------------------------------------------------------


def test_invalid_names_are_changed_everywhere(load) -> None:
    text = mjcf(
        f'<body name="robot0:arm"><joint name="robot0:slide(0)" type="slide"/>{INERTIAL}<site name="s:1"/><site name="robot0_arm"/></body>',
        '<actuator><motor name="push!" site="s:1" gear="0 0 1"/><motor name="own" site="robot0_arm" gear="0 0 1"/></actuator>'
        '<equality><weld name="w" body1="robot0:arm"/></equality>',
    )
    system = load(text)
    model = system.derive(native=False)
    assert model.q_names == ("robot0:slide(0).x",)  # joints have any name
    assert {"robot0_arm", "s_1", "robot0_arm.site"} <= set(model.description.graph.frames)
    assert model.u_names == ("push_", "own")
    assert_allclose(model.input_matrix([0.0]), [[1.0, 1.0]])
    changed = {(item.what, item.name) for item in system.report.changes}
    assert {("link", "robot0:arm"), ("site", "s:1"), ("site", "robot0_arm"), ("actuator", "push!")} <= changed


def test_generated_names_differ_from_those_of_the_file(load) -> None:
    text = mjcf(
        f'<body name="r"><joint axis="1 0 0"/>{INERTIAL}</body><body name="r2"><joint name="r"/>{INERTIAL}</body>'
        f'<body><joint/>{INERTIAL}</body><body name="body3"><joint/><joint name="x" axis="1 0 0"/>{INERTIAL}</body>'
        f'<body name="body3.joint1.link"><joint name="y"/>{INERTIAL}</body>'
    )
    model = load(text).derive(native=False)
    assert model.nv == 6
    assert len(set(model.q_names)) == 6


def test_copies_turn_by_multiples_of_the_angles_and_add_up_their_offsets(load) -> None:
    body = f'<body name="r" pos="0 1 0"><joint name="j"/>{INERTIAL}</body>'
    text = mjcf(f'<replicate count="3" sep="-" euler="0.1 0.2 0.3" offset="0.1 0 0">{body}</replicate>')
    model = load(text).derive(native=False)
    assert model.q_names == ("j-0.angle", "j-1.angle", "j-2.angle")
    R = [so3.exp([k * 0.1, 0, 0]) @ so3.exp([0, k * 0.2, 0]) @ so3.exp([0, 0, k * 0.3]) for k in range(3)]
    place = np.array([0.1, 0, 0]) + R[1] @ [0.1, 0, 0] + R[2] @ [0, 1, 0]
    pose = model.pose("world", "r-2", np.zeros(3))
    assert_allclose(pose, se3.pose(R[2], place), atol=1e-14)


def test_settings_of_balls_free_joints_and_tendons_that_are_lost(load) -> None:
    text = mjcf(
        f'<body name="c"><joint name="k" type="ball" springdamper="0.3 1"/>{INERTIAL}</body><body name="a"><joint name="j"/>{INERTIAL}</body>'
        f'<body name="b"><freejoint name="f" align="true"/>{INERTIAL}</body>',
        '<tendon><fixed name="t" stiffness="1 2" damping="0.1"><joint joint="j"/></fixed></tendon>',
    )
    assert {(item.what, item.name) for item in load(text).report.losses} == {
        ("springdamper", "k"),
        ("align", "f"),
        ("stiffness", "t"),
    }


def test_gravity_is_compensated_by_its_share(load) -> None:
    arm = HINGE.replace('name="j"', 'name="j" axis="0 1 0"')
    plain, held = load(mjcf(arm)), load(mjcf(arm.replace('"a"', '"a" gravcomp="0.75"')))
    a, b = (system.derive(native=False).acceleration([0.4], [0.0]) for system in (plain, held))
    assert_allclose(b, 0.25 * a, rtol=1e-12)
    assert held.report.losses == ()


@pytest.mark.thorough
def test_servos_and_ropes_survive_a_round_trip(load, tmp_path: Path) -> None:
    """Springs of servos join those of joints; ropes with motors, tied joints, wrenches and compensated bodies are written and read again."""
    text = mjcf(
        f'<body name="a" gravcomp="0.5"><joint name="j" stiffness="3" springref="0.4"/>{INERTIAL}<site name="s" pos="1 0 0"/>'
        f'<body name="b" pos="0 0 1"><joint name="k" axis="1 0 0" ref="0.3"/>{INERTIAL}<site name="t" pos="0 1 0"/></body></body>'
        f'<body name="c" pos="2 0 0"><joint name="l" type="slide"/>{INERTIAL}</body><site name="w" pos="0 0 3"/>',
        '<tendon><spatial name="rope" stiffness="5" springlength="0.2 0.9"><site site="s"/><site site="t"/><site site="w"/></spatial>'
        '<fixed name="band" stiffness="2" damping="0.3" springlength="-1 -0.9"><joint joint="j" coef="2"/>'
        '<joint joint="k" coef="-1"/></fixed></tendon>'
        '<actuator><position name="p" joint="j" kp="7" kv="0.5"/><motor name="pull" tendon="rope" gear="2"/>'
        '<motor name="site" site="t" gear="1 2 3 4 5 6"/><motor name="both" tendon="band"/></actuator>',
    )
    first = load(text).derive(native=False)
    report = first.to_mjcf(tmp_path / "again.xml")
    assert report.losses == ()
    second = ht.load(tmp_path / "again.xml").derive(native=False)
    rng = np.random.default_rng(3)
    q, v, u = first.random(rng), rng.standard_normal(3), rng.standard_normal(4)
    assert second.u_names == first.u_names
    assert_allclose(second.acceleration(q, v, u), first.acceleration(q, v, u), rtol=1e-11)


def test_tied_joints_survive_a_round_trip(load, tmp_path: Path) -> None:
    text = mjcf(
        HINGE + HINGE.replace('"a"', '"b"').replace('"j"', '"k"'),
        '<equality><joint name="tied" joint1="j" joint2="k" polycoef="0.1 2 0.3 0 0"/></equality>',
    )
    first = load(text).derive(native=False)
    assert first.to_mjcf(tmp_path / "again.xml").losses == ()
    second = ht.load(tmp_path / "again.xml").derive(native=False)
    q = np.array([0.1 + 2 * 0.4 + 0.3 * 0.16, 0.4])
    assert second.constraint_names == ("tied",)
    assert_allclose(second.constraint_jacobian(q), first.constraint_jacobian(q), rtol=1e-14)
    assert_allclose(first.constraint_jacobian(q)[0, 1] / first.constraint_jacobian(q)[0, 0], -2.24, rtol=1e-12)


def test_a_rest_length_of_minus_one_is_not_mistaken_for_relaxed(load, tmp_path: Path) -> None:
    text = mjcf(
        HINGE, '<tendon><fixed stiffness="2" springlength="-1.5"><joint joint="j" coef="1.5"/></fixed></tendon>'
    )
    system = load(text.replace("-1.5", "-1 -0.99999999999999989"))
    first = system.derive(native=False)
    first.to_mjcf(tmp_path / "again.xml")
    second = ht.load(tmp_path / "again.xml").derive(native=False)
    assert_allclose(second.stiffness_force([0.4]), [2 * 1.5 * (0.6 + 1)], rtol=1e-12)


def test_an_inertia_inside_of_a_frame_is_moved_with_it(load) -> None:
    turn = se3.pose(so3.exp(np.array([0, 0, np.pi / 4])), np.array([0.1, 0, 0]))
    framed = load(
        mjcf(
            f'<body name="arm"><joint name="hinge" axis="1 0 0"/><frame euler="0 0 {np.pi / 4}" pos="0.1 0 0">'
            f'<geom type="box" size=".1 .2 .3"/>{INERTIAL}</frame></body>'
        )
    ).derive(native=False)
    system = ht.System()
    R, r = se3.rotation(turn), se3.position(turn)
    moved = ht.Inertia(1.5, r + R @ BODY.com, R @ BODY.moment_at_com @ R.T)
    system.body("hinge", joint=ht.Revolute("x"), inertia=moved)
    state = np.array([0.4]), np.array([0.9])
    assert_allclose(framed.acceleration(*state), system.derive(native=False).acceleration(*state), rtol=1e-12)


BOX = '<geom type="box" size=".1 .2 .3" pos=".1 0 .2"/>'


def one_joint(joint: str = "", more: str = "", geom: str = BOX) -> str:
    return mjcf(f'<body name="a"><joint name="j" axis="0 1 0" {joint}/>{geom}</body>', more)


def acceleration(system: ht.System, q: float = 0.3, v: float = 0.5, u: float = 1.0) -> float:
    model = system.derive(native=False)
    return float(model.acceleration([q], [v], np.full(model.nu, u))[0])


# accelerations of MuJoCo 4.0 at q = 0.3, v = 0.5, u = 1
@pytest.mark.parametrize(
    ("joint", "more", "value"),
    [
        ("", '<actuator><motor joint="j" armature="3"/></actuator>', 10.545114),
        ("", '<actuator><motor joint="j" damping="3"/></actuator>', 18.078949),
        ("", '<actuator><position joint="j" kp="5" dampratio="1"/></actuator>', 17.960915),
        ('springdamper=".1 1"', "", -21.796051),
        ('frictionloss="5"', '<option><flag frictionloss="disable"/></option>', 18.203949),
        (
            'frictionloss="5"',
            '<option><flag constraint="disable"/></option><equality><joint joint1="j" polycoef=".3"/></equality>',
            18.203949,
        ),
    ],
    ids=(
        "armature of a motor",
        "damping of a motor",
        "damping ratio",
        "time constant",
        "no friction",
        "no constraints",
    ),
)
def test_accelerations_are_those_of_mujoco(load, joint: str, more: str, value: float) -> None:
    assert_allclose(acceleration(load(one_joint(joint, more))), value, atol=1e-6)


def test_forces_of_sites_given_by_two_points(load) -> None:
    site = '<site name="s" type="capsule" fromto="0 0 .2 .3 .4 .5" size=".1"/>'
    motor = '<actuator><motor site="s" gear="1 2 1 0 3 0"/></actuator>'
    assert_allclose(acceleration(load(one_joint("", motor, BOX + site))), 18.043099, atol=1e-6)


def test_ranges_of_forces_and_inherited_ranges_are_limits_of_inputs(load) -> None:
    motor = '<actuator><motor name="m" joint="j" gear="50"/></actuator>'
    system = load(one_joint('actuatorfrcrange="-1 2"', motor))
    assert system.input_limits == {"m": (-0.02, 0.04)}
    assert [item.what for item in system.report.changes] == ["actuatorfrcrange"]
    servo = '<actuator><position name="p" joint="j" kp="5" inheritrange="0.5"/></actuator>'
    system = load(one_joint('range="-1 3" ref="0.5"', servo))
    assert_allclose(system.input_limits["p"], (0.0, 2.0))
    system = load(one_joint('actuatorfrcrange="-1 2"', servo))
    lost = {item.what for item in system.report.losses}
    assert lost == {"contact geometry", "inheritrange"}
    assert [item.what for item in system.report.changes] == ["actuatorfrcrange"]  # by system.actuation()
    assert not system.input_limits


def test_delays_and_unknown_attributes_are_reported(load) -> None:
    delayed = '<actuator><motor joint="j" delay=".1" nsample="10"/></actuator>'
    system = load(one_joint('dampng="3" armature="0.1"', delayed))
    found = {(item.what, item.name): str(item) for item in system.report.losses}
    assert "robot.xml:4" in found["attribute", "dampng"]
    assert "'damping'" in found["attribute", "dampng"]
    assert ("delay", "motor_j") in found
    with pytest.raises(FileFormatError, match="dampng"):
        load(one_joint('dampng="3"'), strict=True)


def test_welds_at_an_anchor_and_without_torque(load) -> None:
    """The anchor of body 2 is held at the point of body 1 that relpose gives; without torque the body turns about it."""
    bodies = f'<body name="s"/><body name="a"><freejoint/>{INERTIAL}</body>'
    weld = '<equality><weld body1="s" body2="a" relpose="0 0 0 1 0 0 0" anchor="0 0 -1" {}/></equality>'
    for torque, left in (("", 0), ('torquescale="0"', 3)):
        model = load(mjcf(bodies, weld.format(torque))).derive(native=False)
        q, v = model.assemble(model.neutral(), np.ones(6))
        point = q[:3] + q[3:].reshape(3, 3).T @ [0, 0, -1]
        assert_allclose(point, 0, atol=1e-9)
        assert np.linalg.matrix_rank(model.constraint_jacobian(q)) == 6 - left
        assert (np.linalg.norm(v) > 0.1) == bool(left)
    assert_allclose(q[:3], [0, 0, 1], atol=1e-6)


@pytest.mark.parametrize(
    ("rule", "moment"),
    [("legacy", 21.92263358), ("exact", 20.48), ("convex", 30.24), ("shell", 404.133333)],
)
def test_meshes_have_the_inertia_of_mujoco(load, tmp_path: Path, rule: str, moment: float) -> None:
    """An L, 0.6 x 0.6 x 0.3 m with arms of 0.2 m, about an axis through (0.1, 0.2, 0.3) from its corner."""
    outline = [(0, 0), (0.6, 0), (0.6, 0.2), (0.2, 0.2), (0.2, 0.6), (0, 0.6)]
    lines = [f"v {x} {y} {z}" for z in (0, 0.3) for x, y in outline]
    for a, b, c in ((1, 2, 3), (1, 3, 4), (1, 4, 5), (1, 5, 6)):
        lines += [f"f {c} {b} {a}", f"f {a + 6} {b + 6} {c + 6}"]
    for k in range(6):
        a, b = k + 1, (k + 1) % 6 + 1
        lines += [f"f {a} {b} {b + 6}", f"f {a} {b + 6} {a + 6}"]
    geom = '<geom type="mesh" mesh="L" pos=".1 .2 .3"/>'
    asset = f'<asset><mesh name="L" file="L.obj" inertia="{rule}"/></asset>'
    for copies, changes in ((1, 0), (2, 1)):  # faces that are given twice do not count twice
        (tmp_path / "L.obj").write_text("\n".join(lines[:12] + copies * lines[12:]))
        system = load(one_joint("", asset, geom))
        assert_allclose(system.derive(native=False).mass_matrix([0.0]), [[moment]], rtol=1e-6)
        assert len(system.report.changes) == changes


def test_shapes_without_known_inertia_need_an_inertial(load) -> None:
    asset = '<asset><hfield name="h" nrow="2" ncol="2" size="1 1 1 .1"/><mesh name="m" file="missing.stl"/></asset>'
    for geom in ('<geom type="box" mesh="m"/>', '<geom type="mesh" mesh="m"/>'):
        with pytest.raises(FileFormatError, match=r"robot\.xml:4: <geom>.* is not read.*inertial"):
            load(one_joint("", asset, geom))
        system = load(one_joint("", asset, geom + INERTIAL))
        assert system.derive(native=False).mass == 1.5
        assert any(item.what in ("geom", "mesh") for item in system.report.losses)


def test_negative_compensation_of_gravity_has_no_effect(load) -> None:
    text = one_joint()
    held = text.replace('name="a"', 'name="a" gravcomp="-1.5"')
    assert acceleration(load(held)) == acceleration(load(text))


def test_includes_and_meshes_of_a_neighbouring_folder(tmp_path: Path) -> None:
    """They are read inside ``root``, by default the repository of the file or the user's own tree, and never outside."""
    (tmp_path / "arm").mkdir()
    (tmp_path / "common" / "inner").mkdir(parents=True)
    (tmp_path / "secret.xml").write_text("<mujoco/>")
    (tmp_path / "common" / "scene.xml").write_text('<mujoco><include file="inner/option.xml"/></mujoco>')
    (tmp_path / "common" / "inner" / "option.xml").write_text('<mujoco><option gravity="0 0 -1"/></mujoco>')
    (tmp_path / "common" / "part.obj").write_text(
        "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 1 4 3\nf 2 3 4\n"
    )
    asset = '<asset><mesh name="m" file="../common/part.obj"/></asset><include file="../common/scene.xml"/>'
    file = tmp_path / "arm" / "arm.xml"
    file.write_text(one_joint("", asset, '<geom type="mesh" mesh="m"/>'))
    assert ht.load(file).gravity[2] == -1.0
    tmp_path.chmod(0o777)  # not the user's own any more
    with pytest.raises(
        FileFormatError, match=r"arm\.xml:6: <include>: .*outside the folder.*ht\.load\(path, root=folder\)"
    ):
        ht.load(file)
    system = ht.load(file, root=tmp_path)
    assert_allclose(system.derive(native=False).mass, 1000 / 6)
    assert system.gravity[2] == -1.0
    with pytest.raises(FileFormatError, match="root must be a folder above"):
        ht.load(file, root=tmp_path / "common")
    (tmp_path / ".git").mkdir()
    assert ht.load(file).gravity[2] == -1.0
    (tmp_path / "common" / ".git").mkdir()
    (tmp_path / "common" / "link.xml").symlink_to(tmp_path / "secret.xml")
    (tmp_path / "common" / "b.xml").write_text(one_joint("", '<include file="link.xml"/>'))
    with pytest.raises(FileFormatError, match="outside the folder"):
        ht.load(tmp_path / "common" / "b.xml")
