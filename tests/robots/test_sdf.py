"""SDF in: the same robot as URDF, frames relative to frames, nested and included models, and files that are wrong."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import heavytop as ht
from heavytop.errors import FileFormatError
from heavytop.geometry import se3, so3

INERTIAL = (
    "<inertial><pose>0.1 -0.2 0.3 0.4 0.5 -0.6</pose><mass>1.5</mass><inertia><ixx>0.3</ixx><ixy>0.01</ixy><ixz>-0.02</ixz><iyy>0.4</iyy>"
    "<iyz>0.03</iyz><izz>0.5</izz></inertia></inertial>"
)
URDF_INERTIAL = (
    '<inertial><origin xyz="0.1 -0.2 0.3" rpy="0.4 0.5 -0.6"/><mass value="1.5"/>'
    '<inertia ixx="0.3" ixy="0.01" ixz="-0.02" iyy="0.4" iyz="0.03" izz="0.5"/></inertial>'
)


def pose(*values: float) -> np.ndarray:
    return se3.pose(so3.from_roll_pitch_yaw(values[3:]), np.array(values[:3]))


def link(name: str, place: str = "", more: str = INERTIAL) -> str:
    return f'<link name="{name}">{place}{more}</link>'


def joint(name: str, kind: str, parent: str, child: str, more: str = "") -> str:
    return f'<joint name="{name}" type="{kind}"><parent>{parent}</parent><child>{child}</child>{more}</joint>'


def sdf(*parts: str, version: str = "1.9", model: str = "robot") -> str:
    return f'<sdf version="{version}">\n<model name="{model}">\n' + "\n".join(parts) + "\n</model></sdf>"


@pytest.fixture
def load(tmp_path: Path):
    def write(text: str, name: str = "robot.sdf"):
        (tmp_path / name).write_text(text)
        return ht.load(tmp_path / name)

    return write


def test_sdf_equals_the_urdf_of_the_same_robot(load) -> None:
    """Places of links are those at zero in the frame of the model; a prismatic joint off the origin of its child, springs, limits, a mimic joint."""
    dynamics = "<dynamics><damping>0.3</damping><friction>0.1</friction></dynamics>"
    limit = "<limit><lower>-1</lower><upper>2</upper><effort>-1</effort><velocity>1e16</velocity></limit>"
    axis = f"<axis><xyz>0 0.6 0.8</xyz>{limit}{dynamics}</axis>"
    follow = "<multiplier>2</multiplier><offset>0.3</offset><reference>0.1</reference>"
    mimic = f'<axis><xyz>1 0 0</xyz><mimic joint="i" axis="axis">{follow}</mimic></axis>'
    system = load(
        sdf(
            "<pose>1 0 0 0 0 0.5</pose>",
            link("base"),
            link("arm", "<pose>0.5 0.1 -0.7 0.3 -0.2 1.1</pose>"),
            link("hand", '<pose relative_to="arm">0 0 0.4 0.2 0 0</pose>'),
            joint("root", "fixed", "world", "base"),
            joint("i", "revolute", "base", "arm", axis),
            joint("k", "prismatic", "arm", "hand", mimic),
        )
    )
    urdf = (
        '<robot name="robot"><link name="world"/>'
        + "".join(f'<link name="{name}">{URDF_INERTIAL}</link>' for name in ("base", "arm", "hand"))
        + '<joint name="root" type="fixed"><parent link="world"/><child link="base"/><origin xyz="1 0 0" rpy="0 0 0.5"/></joint>'
        '<joint name="i" type="revolute"><parent link="base"/><child link="arm"/><origin xyz="0.5 0.1 -0.7" rpy="0.3 -0.2 1.1"/>'
        '<axis xyz="0 0.6 0.8"/><limit lower="-1" upper="2"/><dynamics damping="0.3" friction="0.1"/></joint>'
        '<joint name="k" type="prismatic"><parent link="arm"/><child link="hand"/><origin xyz="0 0 0.4" rpy="0.2 0 0"/><axis xyz="1 0 0"/>'
        '<mimic joint="i" multiplier="2" offset="0.1"/></joint></robot>'
    )
    twin = load(urdf, "robot.urdf")
    ours, theirs = system.derive(native=False), twin.derive(native=False)
    q, v = np.array([0.4]), np.array([-0.7])
    assert ours.q_names == theirs.q_names == ("i.angle",)
    assert_allclose(ours.acceleration(q, v), theirs.acceleration(q, v), rtol=1e-12)
    assert_allclose(ours.pose("world", "hand", q), theirs.pose("world", "hand", q), atol=1e-14)
    assert system.limits["i"] == ht.JointLimits(-1.0, 2.0)


def test_frames_joints_and_axes_relative_to_others(load) -> None:
    text = sdf(
        '<frame name="f" attached_to="arm"><pose relative_to="base">0 0 1 0 0 0.4</pose></frame>',
        '<frame name="g" attached_to="f"><pose>0.1 0 0 0 0 0</pose></frame>',
        link("base", "<pose>0 0 2 0 0 0</pose>"),
        link("arm", '<pose relative_to="g" degrees="true">0.2 0 0 90 0 0</pose>'),
        joint("root", "fixed", "world", "base"),
        joint(
            "i",
            "revolute",
            "base",
            "f",
            '<pose relative_to="f">0 0.3 0 0 0 0</pose><axis><xyz expressed_in="__model__">0 0 1</xyz></axis>',
        ),
    )
    model = load(text).derive(native=False)
    base = pose(0, 0, 2, 0, 0, 0)
    f = base @ pose(0, 0, 1, 0, 0, 0.4)
    arm = f @ pose(0.1, 0, 0, 0, 0, 0) @ pose(0.2, 0, 0, np.pi / 2, 0, 0)
    assert_allclose(model.pose("world", "arm", [0.0]), arm, atol=1e-14)
    assert_allclose(model.pose("world", "g", [0.0]), f @ pose(0.1, 0, 0, 0, 0, 0), atol=1e-14)
    pivot = f @ pose(0, 0.3, 0, 0, 0, 0)
    turned = pivot @ pose(0, 0, 0, 0, 0, 0.7) @ se3.inverse(pivot) @ arm
    assert_allclose(model.pose("world", "arm", [0.7]), turned, atol=1e-14)


def test_axes_of_old_versions_are_those_of_the_model(load) -> None:
    arm = (
        link("arm", "<pose>0 0 0 1.5707963267948966 0 0</pose>"),
        joint("i", "revolute", "world", "arm", "<axis><xyz>0 0 1</xyz></axis>"),
    )
    old, new = load(sdf(*arm, version="1.4")), load(sdf(*arm, version="1.7"), "new.sdf")
    turns = [s.derive(native=False).jacobian("world", "arm", [0.0])[3:, 0] for s in (old, new)]
    assert_allclose(turns, [[0, 1, 0], [0, 0, 1]], atol=1e-15)
    with_switch = arm[1].replace("</axis>", "<use_parent_model_frame>true</use_parent_model_frame></axis>")
    model = load(sdf(arm[0], with_switch, version="1.6"), "switch.sdf").derive(native=False)
    assert_allclose(model.jacobian("world", "arm", [0.0])[3:, 0], [0, 1, 0], atol=1e-15)


def test_universal_joint_springs_free_and_static_models(load) -> None:
    spring = "<dynamics><spring_stiffness>4</spring_stiffness><spring_reference>0.2</spring_reference></dynamics>"
    axes = f"<axis><xyz>1 0 0</xyz>{spring}</axis><axis2><xyz>0 1 0</xyz></axis2>"
    system = load(
        f'<sdf version="1.7"><world name="w"><gravity>0 0 -5</gravity><model name="a">{link("x")}{link("y")}{joint("u", "universal", "x", "y", axes)}'
        f'</model><model name="b"><static>true</static>{link("z")}</model><model name="c"><pose>0 0 3 0 0 0</pose>{link("x", more="")}</model>'
        f'<light name="sun"/></world></sdf>'
    )
    model = system.derive(native=False)
    assert model.nv == 6 + 2 + 6
    assert_allclose(system.gravity, [0, 0, -5])
    assert_allclose(model.mass, 1.5 * 3 + 1.0)
    q = model.neutral()
    assert_allclose(model.pose("world", "c/x", q), pose(0, 0, 3, 0, 0, 0))
    stiffness = model.stiffness_force(q)
    assert_allclose(stiffness[np.abs(stiffness) > 0], -0.8)
    lost = {(item.what, item.name) for item in system.report.losses}
    assert lost == {("light", "sun")}
    assert any("1 kg" in item.note for item in system.report.changes)


def test_nested_and_included_models(load, tmp_path: Path) -> None:
    folder = tmp_path / "finger"
    folder.mkdir()
    (folder / "model.sdf").write_text(sdf("<pose>9 9 9 0 0 0</pose>", link("tip"), model="finger"))
    nested = '<model name="palm"><pose>0 0 1 0 0 0</pose>' + link("plate") + "</model>"
    include = '<include><uri>model://finger</uri><name>left</name><pose relative_to="__model__">0.1 0 1 0 0 0</pose></include>'
    text = sdf(
        link("base"),
        nested,
        include,
        joint("root", "fixed", "world", "base"),
        joint("i", "revolute", "base", "palm::plate", "<axis><xyz>0 1 0</xyz></axis>"),
        joint("k", "prismatic", "palm::plate", "left::tip", "<axis><xyz>0 0 1</xyz></axis>"),
    )
    model = load(text).derive(native=False)
    assert model.q_names == ("i.angle", "k.x")
    assert_allclose(model.pose("world", "left/tip", [0.0, 0.5]), pose(0.1, 0, 1.5, 0, 0, 0), atol=1e-14)


WRONG = {
    "no model": ("<sdf version='1.7'/>", "it has no <model>"),
    "version": ("<sdf version='x'><model name='a'/></sdf>", "the version must be a number"),
    "same name": (sdf(link("a"), link("a")), r"robot\.sdf:4: <link>: the name 'a' is taken"),
    "negative mass": (sdf(link("a", more="<inertial><mass>-1</mass></inertial>")), "must not be negative"),
    "no number": (sdf(link("a", "<pose>0 0 x 0 0 0</pose>")), "must hold numbers"),
    "short pose": (sdf(link("a", "<pose>0 0 0</pose>")), "must hold 6 numbers"),
    "unknown frame": (sdf(link("a", '<pose relative_to="z">0 0 0 0 0 0</pose>')), "names the frame 'z', which does not exist"),
    "cycle": (
        sdf(link("a", '<pose relative_to="b">0 0 0 0 0 0</pose>'), link("b", '<pose relative_to="a">0 0 0 0 0 0</pose>')),
        "relative to each other in a cycle",
    ),
    "unknown link": (sdf(link("a"), joint("j", "fixed", "a", "b")), "'b'"),
    "zero axis": (sdf(link("a"), joint("j", "revolute", "world", "a", "<axis><xyz>0 0 0</xyz></axis>")), "not zero"),
    "lost include": (sdf("<include><uri>model://nothing</uri></include>"), "cannot include 'model://nothing'"),
    "auto inertia": (sdf(link("a", more='<inertial auto="true"/>')), "is not read"),
    "crossed limits": (
        sdf(link("a"), joint("j", "revolute", "world", "a", "<axis><limit><lower>1</lower><upper>0</upper></limit></axis>")),
        "the lower limit 1 is above the upper limit 0",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_wrong_files_are_typed_errors(load, case: str) -> None:
    text, message = WRONG[case]
    with pytest.raises(FileFormatError, match=message):
        load(text)


def test_xacro_is_expanded_or_the_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "robot.urdf.xacro"
    path.write_text(
        '<robot name="r" xmlns:xacro="http://www.ros.org/wiki/xacro"><xacro:property name="m" value="${1 + 0.5}"/><link name="a"/><link name="b">'
        '<inertial><origin xyz="0 0 1"/><mass value="${m}"/></inertial></link><joint name="j" type="continuous"><parent link="a"/><child link="b"/>'
        "</joint></robot>"
    )
    with monkeypatch.context() as without:
        without.setitem(__import__("sys").modules, "xacro", None)
        with pytest.raises(FileFormatError, match="pip install xacro"):
            ht.load(path)
    pytest.importorskip("xacro")
    assert ht.load(path).derive(native=False).mass == 1.5
    path.write_text('<robot name="r" xmlns:xacro="http://www.ros.org/wiki/xacro"><link name="${nothing}"/></robot>')
    with pytest.raises(FileFormatError, match="xacro cannot expand it"):
        ht.load(path)
