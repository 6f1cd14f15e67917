"""Unknown elements and attributes of URDF: each has an entry in the report."""

from __future__ import annotations

from pathlib import Path

import pytest

import heavytop as ht
from heavytop.errors import FileFormatError
from heavytop.io.urdf.vocabulary import KNOWN, MOST_KINDS

MASS = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial>'
DRIVE = '<transmission name="t"><type>simple</type><joint name="j"/><actuator name="m">{}</actuator></transmission>'


@pytest.fixture
def load(tmp_path: Path):
    def write(joint: str = "", link: str = "", root: str = "", attributes: str = "", **options):
        path = tmp_path / "robot.urdf"
        path.write_text(
            f'<robot name="r" {attributes}>\n<link name="a"/>\n<link name="b">{MASS}{link}</link>\n'
            f'<joint name="j" type="continuous"><parent link="a"/><child link="b"/>\n{joint}</joint>\n{root}</robot>'
        )
        return ht.load(path, **options)

    return write


MISSPELT = {
    "axis": (
        {"joint": '<axsi xyz="0 0 1"/>'},
        ":5: element 'axsi' is lost: not read inside <joint>. Did you mean 'axis'?",
    ),
    "dynamics": (
        {"joint": '<dynamic damping="0.2"/>'},
        ":5: element 'dynamic' is lost: not read inside <joint>. Did you mean 'dynamics'?",
    ),
    "damping": (
        {"joint": '<dynamics dampng="0.2"/>'},
        ":5: attribute 'dampng' is lost: not read inside <dynamics>. Did you mean 'damping'?",
    ),
    "effort": (
        {"joint": '<limit efort="10"/>'},
        ":5: attribute 'efort' is lost: not read inside <limit>. Did you mean 'effort'?",
    ),
    "capitals": (
        {"joint": '<limit EFFORT="10"/>'},
        ":5: attribute 'EFFORT' is lost: not read inside <limit>. Did you mean 'effort'?",
    ),
    "next to the right one": (
        {"joint": '<limit effort="1" command_effort="10"/>'},
        ":5: attribute 'command_effort' is lost: not read inside <limit>",
    ),
    "second axis": (
        {"joint": '<axis xyz="0 0 1"/><axis xyz="0 1 0"/>'},
        ":5: element 'axis' is lost: only the first one inside <joint> is read",
    ),
    "origin of a link": (
        {"link": '<origin xyz="0 0 1"/>'},
        ":3: element 'origin' is lost: not read inside <link>",
    ),
    "quaternion": (
        {"joint": '<origin quat_xyzw="0 0 1 0"/>'},
        ":5: attribute 'quat_xyzw' is lost: not read inside <origin>",
    ),
    "shape": (
        {"link": '<visual><geometry><spere radius="1"/></geometry></visual>'},
        ":3: visual 'spere' is lost: unknown geometry. Did you mean 'sphere'?",
    ),
    "size of a shape": (
        {"link": '<visual><geometry><sphere radius="1" colour="red"/></geometry></visual>'},
        ":3: attribute 'colour' is lost: not read inside <sphere>",
    ),
    "texture": (
        {
            "link": '<visual><geometry><sphere radius="1"/></geometry><material name=""><texture filename="a.png"/></material></visual>'
        },
        ":3: element 'texture' is lost: shapes have a colour and no texture",
    ),
    "reduction": (
        {"root": DRIVE.format("<mechanicalReducton>50</mechanicalReducton>")},
        ":6: element 'mechanicalReducton' is lost: not read inside <actuator> of <transmission>. Did you mean 'mechanicalReduction'?",
    ),
    "top level": (
        {"root": '<jiont name="k"/>'},
        ":6: element 'jiont' is lost: not read inside <robot>. Did you mean 'joint'?",
    ),
    "sensor in a link": (
        {"link": '<sensor name="s"><camera/></sensor>'},
        ":3: element 'sensor' is lost: sensors do not act on the motion, here inside <link>",
    ),
}


@pytest.mark.parametrize("case", MISSPELT)
def test_unknown_parts_are_lost_by_name_and_line(load, case) -> None:
    parts, expected = MISSPELT[case]
    report = load(**parts).report
    assert [str(item).split("robot.urdf")[1] for item in report.losses] == [expected]
    with pytest.raises(FileFormatError, match="strict=True, but 1"):
        load(**parts, strict=True)


def test_equal_kinds_are_counted_in_one_entry(load) -> None:
    shapes = "".join(
        f'\n<visual drake:k="{k}"><geometry><sphere radius="1"/></geometry><drake:x/></visual>' for k in range(7)
    )
    losses = load(link=shapes).report.losses
    assert [(item.what, item.name) for item in losses] == [("attribute", "drake:k"), ("element", "drake:x")]
    assert losses[0].where.endswith("robot.urdf:4")
    assert losses[1].note == "not read inside <visual> (7 times, lines 4, 5, 6, 7, 8 and more)"


def test_contents_of_lost_parts_are_not_inspected(load) -> None:
    root = '<gazebo reference="a"><x y="1"/></gazebo><transmission name="t" other="1"><joint name="none"/><x/></transmission>'
    more = {"joint": '<calibration x="1"/>', "link": "<collision><x/></collision>"}
    losses = load(root=root, **more).report.losses
    assert sorted(item.what for item in losses) == ["calibration", "collision geometry", "gazebo", "transmission"]


def test_files_without_mistakes_lose_nothing(load) -> None:
    joint = '<origin xyz="0 0 1" rpy="0 0 0"/><axis xyz="0 0 1"/><limit effort="1" velocity="0"/><dynamics damping="1" friction="1"/>'
    material = '<material name="m"><color rgba="1 0 0 1"/><texture filename=""/></material>'
    link = f'<visual name="v"><origin/><geometry><box size="1 1 1"/></geometry>{material}</visual>'
    drive = DRIVE.format("<hardwareInterface>effort</hardwareInterface><mechanicalReduction>2</mechanicalReduction>")
    attributes = 'version="1.0" xmlns="http://ros.org" xmlns:xacro="http://ros.org/xacro"'
    assert load(joint, link, drive, attributes, strict=True).report.losses == ()


def test_number_of_entries_is_bounded(load) -> None:
    losses = load(link="".join(f"<x{k}/>" for k in range(2000))).report.losses
    assert len(losses) == MOST_KINDS + 1
    assert losses[-1].note == f"{2000 - MOST_KINDS} further kinds of elements and attributes"


def test_written_files_hold_known_names_only(load, tmp_path: Path) -> None:
    load('<axis xyz="0 0 1"/><dynamics damping="1"/>', root=DRIVE.format("")).derive(native=False).to_urdf(
        tmp_path / "again.urdf"
    )
    assert ht.load(tmp_path / "again.urdf", strict=True).report.losses == ()


def test_every_row_of_the_table_is_reached() -> None:
    children = {key: (*known.once, *known.many) for key, known in KNOWN.items()}
    reached = {"robot"} | {tag for key in children for tag in children[key]}
    assert {key.split("/")[-1] for key in KNOWN} <= reached
