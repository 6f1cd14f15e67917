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


def test_losses_have_their_lines_and_strict_refuses_them(load) -> None:
    text = mjcf(f'<body><joint name="j"/>{INERTIAL}<geom size="0.1"/></body>', "<sensor/>\n<contact/>\n<keyframe/>")
    report = load(text).report
    assert [(item.what, item.where.rpartition(":")[2]) for item in report.losses] == [
        ("contact geometry", "4"),
        ("sensor", "6"),
        ("contact", "7"),
        ("keyframe", "8"),
    ]
    with pytest.raises(FileFormatError, match="strict=True, but 4 things cannot be represented"):
        load(text, strict=True)


HINGE = f'<body name="a"><joint name="j"/>{INERTIAL}</body>'
WRONG = {
    "truncated": (mjcf(HINGE)[:90], r"robot\.xml:\d+: this is no well-formed XML"),
    "empty": ("", r"robot\.xml:1: this is no well-formed XML"),
    "binary": (b"\x00\xff\x13", r"robot\.xml:\d+: this is no well-formed XML"),
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
    "no mesh": (mjcf('<body><joint/><geom type="mesh" mesh="m"/></body>'), r"robot\.xml:4: <geom>: .*'m', which is no asset"),
    "actuator of nothing": (mjcf(HINGE, '<actuator><motor joint="k"/></actuator>'), r"robot\.xml:6: <motor>: .*'k'"),
    "tendon of nothing": (
        mjcf(HINGE, '<tendon><fixed><joint joint="k"/></fixed></tendon>'),
        r"robot\.xml:6: <tendon>: names the joint 'k', which does not exist",
    ),
    "equality of nothing": (mjcf(HINGE, '<equality><connect body1="a" body2="z" anchor="0 0 0"/></equality>'), r"robot\.xml:6: .*'z'"),
    "missing parent": (mjcf(HINGE, '<equality><joint joint1="j" joint2="k"/></equality>'), r"robot\.xml:6: .*'k'"),
    "bomb": (
        '<!DOCTYPE m [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;">]><mujoco model="&b;"/>',
        r"robot\.xml:1: document type declarations, entities and external references are refused",
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
    "macro": (mjcf("<replicate count='3'><body/></replicate>"), r"robot\.xml:"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_files_are_typed_errors_with_their_line(load, tmp_path: Path, case) -> None:
    (tmp_path.parent / "secret.xml").write_text("<mujoco/>")
    text, message = WRONG[case]
    with pytest.raises(FileFormatError, match=message):
        load(text)


def test_includes_may_not_go_round(load, tmp_path: Path) -> None:
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
