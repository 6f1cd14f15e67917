"""URDF in: every joint type, inertial frames, mimic joints, names, meshes, and files that are wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import heavytop as ht
from heavytop.errors import FileFormatError, ModelError
from heavytop.geometry import se3, so3
from heavytop.io import xml_elements

INERTIAL = (
    '<inertial><origin xyz="0.1 -0.2 0.3" rpy="0.4 0.5 -0.6"/><mass value="1.5"/>'
    '<inertia ixx="0.3" ixy="0.01" ixz="-0.02" iyy="0.4" iyz="0.03" izz="0.5"/></inertial>'
)
MOMENT = np.array([[0.3, 0.01, -0.02], [0.01, 0.4, 0.03], [-0.02, 0.03, 0.5]])
TURN = so3.from_roll_pitch_yaw([0.4, 0.5, -0.6])
BODY = ht.Inertia(1.5, (0.1, -0.2, 0.3), TURN @ MOMENT @ TURN.T)
AT = se3.pose(so3.from_roll_pitch_yaw([0.3, -0.2, 1.1]), np.array([0.5, 0.1, -0.7]))
ORIGIN = '<origin xyz="0.5 0.1 -0.7" rpy="0.3 -0.2 1.1"/>'


def joint(name: str, kind: str, parent: str, child: str, more: str = "") -> str:
    return f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>{more}</joint>'


def link(name: str, more: str = INERTIAL) -> str:
    return f'<link name="{name}">{more}</link>'


def robot(*parts: str) -> str:
    return '<robot name="test">\n' + "\n".join(parts) + "\n</robot>"


@pytest.fixture
def load(tmp_path: Path):
    def write(text: str | bytes, name: str = "robot.urdf", **options):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return ht.load(path, **options)

    return write


@pytest.mark.parametrize(
    ("kind", "axis", "ours"),
    [
        ("revolute", "0.6 0 0.8", ht.Revolute((0.6, 0, 0.8))),
        ("continuous", "0 -2 0", ht.Revolute("-y")),
        ("prismatic", "0.6 0 -0.8", ht.Prismatic((0.6, 0, -0.8))),
        ("floating", None, ht.Free()),
        ("planar", "0 0 1", ht.Planar()),
    ],
)
def test_joint_types_equal_the_same_system_written_by_hand(load, kind, axis, ours) -> None:
    more = ORIGIN + (f'<axis xyz="{axis}"/>' if axis else "")
    more += '<limit lower="-1" upper="2" velocity="3" effort="4"/>' if kind in ("revolute", "prismatic") else ""
    model = load(robot(link("base", ""), link("arm"), joint("j", kind, "base", "arm", more))).derive(native=False)
    system = ht.System()
    system.body("arm", at=AT, joint=ours, inertia=BODY)
    twin = system.derive(native=False)
    q, v = model.random(1), np.linspace(-1, 1, model.nv)
    assert_allclose(model.mass_matrix(q), twin.mass_matrix(q), atol=1e-14)
    assert_allclose(model.acceleration(q, v), twin.acceleration(q, v), atol=1e-12)
    assert_allclose(model.pose("world", "arm", q), twin.pose("world", "arm", q), atol=1e-15)
    assert model.q_names[0].startswith("j.")


def test_planar_joint_moves_across_its_axis(load) -> None:
    axis = np.array([0.6, 0.0, 0.8])
    text = robot(link("base", ""), link("puck"), joint("j", "planar", "base", "puck", '<axis xyz="0.6 0 0.8"/>'))
    model = load(text).derive(native=False)
    G = model.pose("world", "puck", [0.3, -0.4, 0.7])
    assert abs(G[:3, 3] @ axis) < 1e-15
    assert_allclose(G[:3, :3], so3.exp(0.7 * axis), atol=1e-15)
    assert_allclose(model.pose("world", "puck", [0.0, 0.0, 0.0]), np.eye(4), atol=1e-15)


def test_free_base_and_fixed_base(load) -> None:
    text = robot(link("base"), link("arm"), joint("j", "revolute", "base", "arm"))
    assert load(text).derive(native=False).nv == 1
    assert load(text, base="free").derive(native=False).nv == 7
    with pytest.raises(ht.errors.ModelError, match="base must be 'fixed' or 'free', got 'floating'"):
        load(text, base="floating")


def test_mimic_joints_equal_a_reduction_by_hand(load) -> None:
    """M, c and the potential of the coupled model are those of the free one along q(w) = T w + offset."""
    mimic = '<mimic joint="a" multiplier="-0.5" offset="0.2"/>'
    again = '<mimic joint="b" multiplier="2" offset="0.1"/>'
    axes = ['<axis xyz="0.6 0 0.8"/>', '<axis xyz="0 1 0"/>', '<axis xyz="1 0 0"/>']

    def text(b: str, c: str) -> str:
        return robot(
            *(link(name) for name in ("base", "one", "two", "three")),
            joint("a", "revolute", "base", "one", ORIGIN + axes[0]),
            joint("b", "revolute", "one", "two", ORIGIN + axes[1] + b),
            joint("c", "prismatic", "base", "three", ORIGIN + axes[2] + c),
        )

    coupled, free = load(text(mimic, again)).derive(native=False), load(text("", "")).derive(native=False)
    assert coupled.v_names == ("a.rate",)
    T, offset, v = np.array([1.0, -0.5, -1.0]), np.array([0.0, 0.2, 0.5]), np.array([1.7])
    q = np.array([0.8])
    full_q, full_v = T * q[0] + offset, T * v[0]
    assert_allclose(coupled.mass_matrix(q)[0, 0], T @ free.mass_matrix(full_q) @ T, rtol=1e-13)
    assert_allclose(coupled.bias(q, v)[0], T @ free.bias(full_q, full_v), rtol=1e-12)
    assert_allclose(coupled.gravity_force(q)[0], T @ free.gravity_force(full_q), rtol=1e-13)
    assert_allclose(coupled.energy(q, v), free.energy(full_q, full_v), rtol=1e-13)
    assert_allclose(coupled.pose("world", "three", q), free.pose("world", "three", full_q), atol=1e-15)
    a = coupled.acceleration(q, v)
    assert_allclose(coupled.inverse_dynamics(q, v, a), [0.0], atol=1e-12)


def test_damping_friction_and_limits_act_where_joints_move(load) -> None:
    """As in many files: <dynamics> and <limit> on fixed joints, on joints that follow others, on massless links."""
    dynamics = '<dynamics damping="0.7" friction="0.2"/><limit lower="-1" upper="2" velocity="3" effort="4"/>'
    mimic = '<mimic joint="a" multiplier="-2" offset="0.1"/>'
    model = load(
        robot(
            *(link(name) for name in ("base", "one", "two", "tool")),
            link("mount", ""),
            joint("a", "revolute", "base", "one", ORIGIN + dynamics),
            joint("b", "revolute", "one", "two", ORIGIN + dynamics + mimic),
            joint("c", "fixed", "two", "tool", ORIGIN + dynamics),
            joint("d", "fixed", "base", "mount", ORIGIN + dynamics),
        )
    ).derive()
    v = 0.004
    expected = (0.7 + 4 * 0.7) * v + 0.2 * np.tanh(v / 0.01) + 2 * 0.2 * np.tanh(2 * v / 0.01)
    assert_allclose(model.dissipation_force([0.3], [v]), [expected], rtol=1e-12)
    assert np.isfinite(model.acceleration([0.3], [v])).all()
    limits = model.description.limits
    assert set(limits) == {"a", "b"}
    assert (limits["a"].lower, limits["b"].effort) == (-1.0, 4.0)


def test_names_stay_as_they_are(load) -> None:
    text = robot(link("base/link.1", ""), link("arm 2"), joint("j.a/b", "revolute", "base/link.1", "arm 2"))
    model = load(text).derive(native=False)
    assert model.q_names == ("j.a/b.angle",)
    assert model.body_names == ("arm 2",)
    assert model.pose("base/link.1", "arm 2", [0.1]).shape == (4, 4)


def test_root_named_world_is_the_world(load) -> None:
    text = robot(link("world", ""), link("arm"), joint("j", "revolute", "world", "arm"))
    assert load(text).derive(native=False).nv == 1
    with pytest.raises(FileFormatError, match=r"robot\.urdf:2: the root link is 'world'"):
        load(text, base="free")


def test_limits_transmissions_and_report(load) -> None:
    text = robot(
        link("base", ""),
        link("arm", INERTIAL + '<collision><geometry><sphere radius="1"/></geometry></collision>'),
        joint("j", "revolute", "base", "arm", '<limit lower="-1" upper="2" velocity="3" effort="4"/>'),
        '<transmission name="t"><joint name="j"/><actuator name="m"><mechanicalReduction>50</mechanicalReduction></actuator></transmission>',
        '<gazebo reference="arm"/>',
    )
    system = load(text)
    assert (system.limits["j"].lower, system.limits["j"].upper) == (-1.0, 2.0)
    assert (system.limits["j"].velocity, system.limits["j"].effort) == (3.0, 4.0)
    assert_allclose(system.derive(native=False).input_matrix([0.0]), [[50.0]])
    assert [(item.what, item.name) for item in system.report.losses] == [
        ("collision geometry", "arm"),
        ("gazebo", "arm"),
    ]
    assert "robot.urdf:6: gazebo 'arm' is lost: settings of a simulator" in str(system.report)
    with pytest.raises(FileFormatError, match="strict=True, but 2"):
        load(text, strict=True)


def test_impossible_inertia_is_used_and_reported(load) -> None:
    text = robot(
        link("base", ""),
        link("arm", '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="9"/></inertial>'),
        joint("j", "revolute", "base", "arm", '<axis xyz="0 0 1"/>'),
    )
    system = load(text)
    assert_allclose(system.derive(native=False).mass_matrix([0.0]), [[9.0]])
    assert "no body has these moments" in system.report.changes[0].note


def test_meshes_are_found_and_never_outside_of_the_package(load, tmp_path) -> None:
    (tmp_path / "package.xml").write_text("<package/>")
    inside = tmp_path / "part.stl"
    inside.write_text("solid")
    package = tmp_path / "meshes_pkg" / "m"
    package.mkdir(parents=True)
    (package / "a.obj").write_text("")
    secret = tmp_path.parent / "secret.stl"
    secret.write_text("solid")

    def visual(name: str) -> str:
        return f'<visual><geometry><mesh filename="{name}"/></geometry></visual>'

    names = [
        "part.stl",
        "package://meshes_pkg/m/a.obj",
        "package:///meshes_pkg/m/a.obj",
        "../secret.stl",
        str(secret),
        "package://x/../a.stl",
        "http://a/b.stl",
    ]
    names += [
        "package://meshes_pkg/../../secret.stl",
        f"file://{secret}",
        "a" * 300 + ".stl",
        f"package://{'p' * 300}/a.stl",
    ]
    names += ["a" * 5000, "a\x01.stl".replace("\x01", "%00")]
    system = load(
        robot(link("base", "".join(visual(n) for n in names)), link("arm"), joint("j", "revolute", "base", "arm"))
    )
    assert [item.name for item in system.report.losses] == names[3:]


WRONG = {
    "truncated": (robot(link("base"))[:60], r"robot\.urdf:\d+: this is not well-formed XML"),
    "empty": ("", r"robot\.urdf:1: this is not well-formed XML: no element found"),
    "binary": (b"\x00\x01\x02", "not well-formed XML"),
    "other root": ("<model/>", r"robot\.urdf:1: <model>: a robot file begins with <robot>"),
    "no link": ("<robot/>", "it has no <link>"),
    "no name": (robot("<link/>"), r"robot\.urdf:2: <link>: needs the attribute 'name'"),
    "same name": (robot(link("a"), link("a")), r"robot\.urdf:3: <link>: the name 'a' is taken"),
    "cycle": (
        robot(link("a"), link("b"), joint("i", "fixed", "a", "b"), joint("j", "fixed", "b", "a")),
        r"robot\.urdf:\d: the joints form a cycle",
    ),
    "own parent": (robot(link("a"), joint("i", "fixed", "a", "a")), "the joints form a cycle"),
    "two parents": (
        robot(link("a"), link("b"), link("c"), joint("i", "fixed", "a", "c"), joint("j", "fixed", "b", "c")),
        r"robot\.urdf:6: link 'c' is carried by two joints",
    ),
    "no parent": (
        robot(link("a"), joint("i", "fixed", "b", "a")),
        r"robot\.urdf:3: joint 'i' has the parent 'b', which is not a link",
    ),
    "no type": (robot(link("a"), link("b"), joint("i", "screw", "a", "b")), "has the type 'screw'; known are fixed"),
    "negative mass": (
        robot(link("a", '<inertial><mass value="-1"/></inertial>')),
        r"robot\.urdf:2: <mass>: the mass of link 'a' must not",
    ),
    "nan": (
        robot(link("a", '<inertial><mass value="nan"/></inertial>')),
        r"robot\.urdf:2: <mass>: value must hold finite numbers",
    ),
    "no number": (robot(link("a", '<inertial><mass value="1 kg"/></inertial>')), "value must hold numbers, got '1 kg'"),
    "zero axis": (
        robot(link("a"), link("b"), joint("i", "revolute", "a", "b", '<axis xyz="0 0 0"/>')),
        "must be finite and not zero",
    ),
    "two numbers": (
        robot(link("a"), link("b"), joint("i", "fixed", "a", "b", '<origin xyz="1 2"/>')),
        "xyz must hold 3 numbers",
    ),
    "limits": (
        robot(link("a"), link("b"), joint("i", "revolute", "a", "b", '<limit lower="2" upper="1"/>')),
        "the lower limit 2 is above the upper limit 1",
    ),
    "negative effort": (
        robot(link("a"), link("b"), joint("i", "revolute", "a", "b", '<limit effort="-1"/>')),
        r"robot\.urdf:4: <limit>: the limit of the effort must not be negative, got -1",
    ),
    "negative speed": (
        robot(link("a"), link("b"), joint("i", "continuous", "a", "b", '<limit velocity="-2"/>')),
        r"robot\.urdf:4: <limit>: the limit of the velocity must not be negative, got -2",
    ),
    "mimic of itself": (
        robot(link("a"), link("b"), joint("i", "revolute", "a", "b", '<mimic joint="i"/>')),
        "joint 'i' mimics itself: i -> i",
    ),
    "bomb": (
        '<!DOCTYPE r [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;">]><robot name="&b;"/>',
        r"robot\.urdf:1: document type declarations",
    ),
    "external": ('<!DOCTYPE r SYSTEM "file:///etc/passwd"><robot/>', "document type declarations"),
    "deep": ("<a>" * 100_000, "the file has more than 400 levels"),
    "long name": (robot(link("n" * 10_000_000)), "name has 10000000 characters; at most 200 are allowed"),
    "many links": (
        "<robot>" + "".join(f'<link name="n{k}"/>' for k in range(6000)) + "</robot>",
        "at most 5000 are read",
    ),
    "huge axis": (
        robot(link("a"), link("b"), joint("j", "revolute", "a", "b", '<axis xyz="1e308 1e308 1e308"/>')),
        r"robot\.urdf:4: <axis>: the axis of joint 'j' must be finite and not zero",
    ),
    "long list of numbers": (
        robot(link("a"), link("b"), joint("j", "revolute", "a", "b", f'<axis xyz="{"0 " * 1_000_000}"/>')),
        r"robot\.urdf:4: <axis>: xyz has 2000000 characters",
    ),
    "number of Python": (
        robot(link("a"), link("b"), joint("j", "revolute", "a", "b", '<axis xyz="1_0 0 0"/>')),
        r"robot\.urdf:4: <axis>: xyz must hold numbers",
    ),
    "two roots": (
        robot(link("a"), link("b"), link("c"), joint("j", "revolute", "a", "b")),
        r"robot\.urdf:\d+: link 'c' is carried by no joint, and neither is 'a'",
    ),
    "scale of one number": (
        robot(link("a", '<visual><geometry><mesh filename="a.stl" scale="1"/></geometry></visual>')),
        r"robot\.urdf:\d+: <mesh>: scale must hold 3 numbers",
    ),
    "xacro": ('<robot xmlns:xacro="http://x"><xacro:arm/></robot>', "Rename it to end in .xacro"),
    "encoding": ('<?xml version="1.0" encoding="martian"?><robot/>', "robot.urdf"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_files_are_typed_errors_with_their_line(load, case) -> None:
    text, message = WRONG[case]
    with pytest.raises(FileFormatError, match=message):
        load(text)


def test_lines_are_those_where_elements_begin(load) -> None:
    """In tags of several lines, and in files of more than 2^16 lines."""
    wrong = '<link\n  name="a">\n <inertial>\n<mass\n value="x"\n/></inertial></link>'
    with pytest.raises(FileFormatError, match=r"robot\.urdf:5: <mass>"):
        load(robot(wrong))
    with pytest.raises(FileFormatError, match=r"robot\.urdf:70005: <mass>"):
        load(robot("\n" * 69_999, wrong))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "iso-8859-1", "cp1252"])
def test_encodings(load, encoding) -> None:
    text = f'<?xml version="1.0" encoding="{encoding}"?>' + robot(
        link("tête", ""), joint("é", "fixed", "world", "tête")
    )
    assert "tête" in load(text.encode(encoding)).describe().graph.frames


def test_number_of_elements_is_bounded(load, monkeypatch) -> None:
    monkeypatch.setattr(xml_elements, "MOST_ELEMENTS", 1000)
    with pytest.raises(FileFormatError, match=r"robot\.urdf:2: the file has more than 1000 elements"):
        load("<robot>\n" + "<a/>" * 3000 + "</robot>")


def test_paths_that_are_not_robot_files(tmp_path) -> None:
    with pytest.raises(FileFormatError, match="there is no file"):
        ht.load(tmp_path / "nothing.urdf")
    with pytest.raises(FileFormatError, match=r"is a folder: give the path of the file in it"):
        ht.load(tmp_path)
    with pytest.raises(FileFormatError, match="there is no file|pip install xacro"):
        ht.load(tmp_path / "robot.xacro")


def test_wrong_couplings_are_rejected() -> None:
    system = ht.System()
    system.body("a", joint=ht.Coupled(ht.Revolute("z"), "b"), inertia=ht.Inertia(1.0, moment_at_com=(1, 1, 1)))
    with pytest.raises(ht.errors.UnknownNameError, match=r"unknown joint \(that 'a' follows\) 'b'"):
        system.derive()
    system.body("b", joint=ht.Free(), inertia=ht.Inertia(1.0, moment_at_com=(1, 1, 1)))
    with pytest.raises(ht.errors.ModelError, match="joint 'a' follows 'b', which must be a Revolute joint"):
        system.derive()
    with pytest.raises(ht.errors.ModelError, match="only a Revolute or Prismatic joint can follow"):
        ht.Coupled(ht.Free(), "b")


def test_invalid_names_are_changed_and_reported(load) -> None:
    text = robot(link("a:b"), link("j.moved"), joint("j", "planar", "a:b", "j.moved", more='<axis xyz="1 2 3"/>'))
    system = load(text)
    assert {"a_b", "j.moved", "j.moved_"} <= set(system.derive(native=False).description.graph.frames)
    assert [(item.what, item.name, item.note) for item in system.report.changes] == [("link", "a:b", "named 'a_b'")]


def test_inputs_of_transmissions_have_valid_names(load) -> None:
    text = robot(
        link("a"), link("b"), joint("left/j.1", "revolute", "a", "b"),
        '<transmission name="t"><joint name="left/j.1"/><actuator name="m"/></transmission>',
    )  # fmt: skip
    assert load(text).derive(native=False).u_names == ("left_j_1",)


def test_a_joint_that_mimics_nothing_moves_independently(load) -> None:
    arm = joint("i", "revolute", "a", "b", '<mimic joint="k"/>')
    system = load(robot(link("a"), link("b", INERTIAL), arm))
    assert system.derive(native=False).nv == 1
    assert [(item.what, item.name) for item in system.report.losses] == [("mimic", "i")]
    assert "'k' does not exist" in str(system.report)


def test_robot_without_inertia_has_kinematics_and_a_page_only(load, tmp_path) -> None:
    shape = '<visual><geometry><box size="1 .1 .1"/></geometry></visual>'
    text = robot(link("a", shape), link("b", shape), joint("i", "revolute", "a", "b", '<axis xyz="0 0 1"/>'))
    model = load(text).derive(native=False)
    assert_allclose(model.pose("world", "b", [np.pi / 2])[:2, :2], [[0, -1], [1, 0]], atol=1e-15)
    assert_allclose(model.jacobian("world", "b", [0.3])[:, 0], [0, 0, 0, 0, 0, 1])
    assert model.show(tmp_path / "page.html").is_file()
    with pytest.raises(ModelError, match="no body of 'test' has inertia.*no dynamics"):
        model.acceleration([0.0], [0.0])


def test_equal_lines_of_the_report_are_one(load) -> None:
    ball = '<collision><geometry><sphere radius="1"/></geometry></collision>'
    system = load(robot(link("a", ball), link("b", 3 * ball), joint("i", "fixed", "a", "b")))
    (line,) = str(system.report).splitlines()[1:]
    assert line.endswith(":2, 3: 4 times collision geometry ('a', 'b') is lost: there are no contacts")
    assert len(system.report.losses) == 4
