"""Contacts of robots from the collision geometry of their files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import heavytop as ht
from heavytop.errors import HeavytopError, ModelError

URDF = """<robot name="hopper">
<link name="base"><inertial><mass value="2"/><inertia ixx="0.02" iyy="0.02" izz="0.02" ixy="0" ixz="0" iyz="0"/></inertial>
  <collision><geometry><box size="0.2 0.2 0.1"/></geometry></collision></link>
<link name="leg"><inertial><origin xyz="0 0 -0.1"/><mass value="0.2"/><inertia ixx="1e-3" iyy="1e-3" izz="1e-4" ixy="0" ixz="0" iyz="0"/></inertial>
  <collision><origin xyz="0 0 -0.1"/><geometry><cylinder radius="0.02" length="0.2"/></geometry></collision></link>
<link name="foot"><collision><geometry><sphere radius="0.03"/></geometry></collision></link>
<joint name="hip" type="prismatic"><parent link="base"/><child link="leg"/><axis xyz="0 0 1"/>
  <limit lower="-1" upper="1" effort="9" velocity="9"/></joint>
<joint name="ankle" type="fixed"><parent link="leg"/><child link="foot"/><origin xyz="0 0 -0.2"/></joint></robot>"""
MJCF = """<mujoco model="hopper"><worldbody>
<geom name="floor" type="plane" size="0 0 1" pos="0 0 -0.1" friction="0.4 0.005 0.0001"/>
<body name="ball" pos="0 0 1"><freejoint/><geom type="sphere" size="0.1" friction="0.7" mass="1"/>
<geom type="box" size="0.2 0.2 0.2" contype="0" conaffinity="0" mass="0"/></body></worldbody></mujoco>"""


def file(tmp_path: Path, text: str, name: str) -> str:
    path = tmp_path / name
    path.write_text(text)
    return str(path)


def touching(system: ht.System) -> dict[str, float]:
    """Contact name -> friction of the rigid contacts."""
    return {contact.name: float(contact.friction) for contact in system.describe().contacts}


def test_feet_all_and_names(tmp_path: Path) -> None:
    path = file(tmp_path, URDF, "hopper.urdf")
    assert touching(ht.load(path, base="free")) == {}
    assert touching(ht.load(path, base="free", contacts="feet")) == {"foot": 0.8}
    assert list(touching(ht.load(path, base="free", contacts="all"))) == ["base", "leg", "foot"]
    assert touching(ht.load(path, base="free", contacts=["leg"], contact={"friction": 0.3})) == {"leg": 0.3}
    with pytest.raises(HeavytopError, match="toe"):
        ht.load(path, contacts=["toe"])
    with pytest.raises(ModelError, match="contacts='feet'"):
        ht.load(path, contact={"friction": 0.3})


def test_a_compliant_foot_carries_its_robot(tmp_path: Path) -> None:
    system = ht.load(file(tmp_path, URDF, "hopper.urdf"), base="free", contacts="feet", contact={"stiffness": 1e5})
    model = system.derive()
    q = model.neutral()
    q[2] = 0.23 - (2.2 * 9.81 / 1e5) ** (2 / 3)
    force = model.contact_forces(q, np.zeros(model.nv))["foot"].force
    np.testing.assert_allclose(force, [0, 0, 2.2 * 9.81], rtol=1e-9, atol=1e-9)


def test_floor_and_friction_of_mjcf(tmp_path: Path) -> None:
    """The floor is a plane of the file, the larger friction of both counts, and geoms without contact bits do not touch."""
    system = ht.load(file(tmp_path, MJCF, "ball.xml"), contacts="all", contact={"stiffness": 1e6})
    model = system.derive()
    assert not system.report.losses
    q = model.neutral()
    q[2] += -0.1 + 0.1 - (9.81 / 1e6) ** (2 / 3) - model.pose("world", "ball", q)[2, 3]
    assert model.contact_forces(q, np.zeros(6))["ball"].force[2] == pytest.approx(9.81, rel=1e-9)
    sliding = model.contact_forces(q, np.array([1.0, 0, 0, 0, 0, 0]))["ball"].force
    assert -sliding[0] / sliding[2] == pytest.approx(0.7, rel=1e-9)


PAIRS = """<mujoco model="pairs"><worldbody>
<geom name="floor" type="plane" size="0 0 1" contype="2" conaffinity="2" margin="0.001"/>
<geom name="step" type="box" size="0.5 0.5 0.1" pos="2 0 0.1"/>
<body name="ball" pos="0 0 1"><freejoint/><geom name="ball" type="sphere" size="0.1" friction="0.7" mass="1" contype="2" margin="0.002"/></body>
<body name="crate" pos="1 0 1"><freejoint/><geom name="crate" type="box" size="0.1 0.1 0.1" mass="2" margin="0.004" contype="2"/></body>
<body name="dust" pos="3 0 1"><freejoint/><geom name="dust" type="sphere" size="0.1" mass="1" contype="4" conaffinity="4"/></body>
<body name="bird" pos="4 0 1"><freejoint/><geom name="bird" type="sphere" size="0.1" mass="1" contype="2"/></body>
<body name="cone" pos="5 0 1"><freejoint/><geom name="cone" type="ellipsoid" size="0.1 0.2 0.3" mass="1" contype="4" conaffinity="4"/></body>
</worldbody><contact>
<pair name="catch" geom1="ball" geom2="crate" friction="0.25 0.25 0.01 0.001 0.001" margin="0.003"/>
<pair name="land" geom1="floor" geom2="crate" friction="0.9 0.9"/>
<pair name="climb" geom1="step" geom2="ball"/>
<pair name="kick" geom1="cone" geom2="ball"/>
<exclude body1="world" body2="bird"/></contact></mujoco>"""


def test_pairs_exclusions_filters_and_margins_of_mjcf(tmp_path: Path) -> None:
    """Margins of geoms add up, those of a pair replace them; filters and exclusions decide about the floor, pairs ignore both."""
    system = ht.load(file(tmp_path, PAIRS, "pairs.xml"), contacts="all", contact={"stiffness": 1e4})
    assert [item.name for item in system.report.losses] == ["kick"]
    model = system.derive(native=False)
    assert set(model.compliant_contacts) == {"ball", "crate", "catch", "climb"}
    names, v = ("ball", "crate", "dust", "bird", "cone"), np.zeros(model.nv)

    def placed(**places: tuple[float, float, float]) -> np.ndarray:
        q = model.neutral()
        for name, place in places.items():
            k = 12 * names.index(name)
            q[k : k + 3] += np.array(place) - model.pose("world", name, model.neutral())[:3, 3]
        return q

    on_top = placed(ball=(0.0, 0.0, 0.5), crate=(0.0, 0.0, 0.3))
    gaps = {name: float(force.gap) for name, force in model.contact_forces(on_top, v).items()}
    assert gaps["ball"] == pytest.approx(0.4 - 0.003)
    assert gaps["crate"] == pytest.approx(0.2)
    assert gaps["catch"] == pytest.approx(-0.003)
    above = model.contact_forces(placed(ball=(2.0, 0.0, 0.35)), v)
    assert above["climb"].gap == pytest.approx(0.05)
    v[0] = 1.0
    force = model.contact_forces(on_top, v)["catch"].force
    assert abs(force[0] / force[2]) == pytest.approx(0.25)
    with pytest.raises(HeavytopError, match="wing"):
        ht.load(file(tmp_path, PAIRS.replace('body2="bird"', 'body2="wing"'), "wrong.xml"))


@pytest.mark.parametrize(
    ("floor", "geom", "expected"),
    [
        ('friction="0.7" condim="1"', 'friction="0.4" condim="1"', 0.0),
        ('friction="0.7" condim="1"', 'friction="0.4"', 0.7),
        ('friction="0.7"', 'friction="0.4" priority="2"', 0.4),
        ('friction="0.3" priority="1"', 'friction="0.9"', 0.3),
        ('condim="1" priority="1"', 'friction="0.9"', 0.0),
    ],
)
def test_priority_and_condim_of_mjcf_decide_about_friction(
    tmp_path: Path, floor: str, geom: str, expected: float
) -> None:
    text = f"""<mujoco><worldbody><geom name="floor" type="plane" size="0 0 1" {floor}/>
    <body name="ball" pos="0 0 0.1"><freejoint/><geom type="sphere" size="0.1" {geom}/></body></worldbody></mujoco>"""
    [contact] = ht.load(file(tmp_path, text, "ball.xml"), contacts="all").describe().contacts
    assert contact.friction == expected


def test_solids_and_further_planes_of_the_world_are_reported(tmp_path: Path) -> None:
    text = """<mujoco><worldbody><geom type="plane" size="0 0 1"/><geom name="wall" type="plane" size="0 0 1" zaxis="1 0 0"/>
    <geom name="step" type="box" size="1 1 0.1"/><geom name="seen" type="box" size="1 1 0.1" contype="0" conaffinity="0"/>
    <body name="ball" pos="0 0 0.3"><freejoint/><geom type="sphere" size="0.1"/></body></worldbody></mujoco>"""
    system = ht.load(file(tmp_path, text, "ball.xml"), contacts="all")
    assert [item.name for item in system.report.losses] == ["wall", "step"]
    with pytest.raises(HeavytopError, match="names no link"):
        ht.load(file(tmp_path, text, "ball.xml"), contacts=[])


def test_meshes_with_vertices_in_the_file_touch(tmp_path: Path) -> None:
    text = """<mujoco><asset><mesh name="wedge" vertex="0 0 0 1 0 0 0 1 0 0 0 1"/></asset><worldbody>
<geom name="floor" type="plane" size="0 0 1"/><body name="wedge" pos="0 0 1"><freejoint/><inertial pos="0 0 0" mass="1" diaginertia="1 1 1"/>
<geom type="mesh" mesh="wedge"/></body></worldbody></mujoco>"""
    system = ht.load(file(tmp_path, text, "wedge.xml"), contacts="all")
    assert not system.report.losses
    [contact] = system.describe().contacts
    assert len(contact.candidates(np.eye(4))) == 4
