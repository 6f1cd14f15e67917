"""Known contents of URDF elements; everything else in them is reported, so that no misspelling is silent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from heavytop.errors import did_you_mean
from heavytop.io.import_report import TransferReport
from heavytop.io.xml_elements import Element

NOT_READ = {
    "gazebo": "settings of a simulator",
    "sensor": "sensors do not act on the motion",
    "ros2_control": "settings of a controller",
}
"""Elements that are deliberately not represented, with the reason."""

MOST_LINES = 5
"""Lines listed in one entry of the report."""
MOST_KINDS = 100
"""Entries; further unknown kinds are only counted."""


class Known(NamedTuple):
    """Names of attributes, of children that occur once, and of children that may occur several times."""

    attributes: tuple[str, ...] = ()
    once: tuple[str, ...] = ()
    many: tuple[str, ...] = ()


SHAPES = ("box", "cylinder", "sphere", "capsule", "mesh")
KNOWN = {
    "robot": Known(("name", "version"), many=("link", "joint", "material", "transmission", *NOT_READ)),
    "link": Known(("name", "type"), ("inertial",), ("visual", "collision")),
    "inertial": Known((), ("origin", "mass", "inertia")),
    "origin": Known(("xyz", "rpy")),
    "mass": Known(("value",)),
    "inertia": Known(("ixx", "ixy", "ixz", "iyy", "iyz", "izz")),
    "visual": Known(("name",), ("origin", "geometry", "material")),
    "geometry": Known((), many=SHAPES),
    "box": Known(("size",)),
    "cylinder": Known(("radius", "length")),
    "sphere": Known(("radius",)),
    "capsule": Known(("radius", "length")),
    "mesh": Known(("filename", "scale")),
    "material": Known(("name",), ("color",)),
    "color": Known(("rgba",)),
    "joint": Known(
        ("name", "type"),
        ("origin", "parent", "child", "axis", "limit", "dynamics", "mimic", "calibration", "safety_controller"),
    ),
    "parent": Known(("link",)),
    "child": Known(("link",)),
    "axis": Known(("xyz",)),
    "limit": Known(("lower", "upper", "velocity", "effort")),
    "dynamics": Known(("damping", "friction")),
    "mimic": Known(("joint", "multiplier", "offset")),
    "transmission": Known(("name", "type"), ("type",), ("joint", "actuator")),
    "transmission/joint": Known(("name",), ("role",), ("hardwareInterface",)),
    "transmission/actuator": Known(("name",), ("mechanicalReduction", "role"), ("hardwareInterface",)),
}
"""By tag, or by tags of parent and child where the same tag has another meaning. Elements without a row are not inspected: they hold text
(``type``) or are reported as a whole (``collision``, ``calibration``, ``safety_controller``)."""


class Unknown(NamedTuple):
    """The subject of one entry of the report; ``near`` are the names that may have been meant."""

    what: str
    name: str
    note: str
    near: tuple[str, ...] = ()


def report_unknown(root: Element, represented: Iterable[Element], report: TransferReport) -> None:
    """Report unknown contents of <robot> and of its represented children: one entry for each kind, with its first line and its count."""
    found: dict[Unknown, list[Element]] = {}
    _inspect(root, "robot", found)
    for element in represented:
        _inspect(element, element.tag, found)
    report_kinds(found, report)


def report_kinds(found: dict[Unknown, list[Element]], report: TransferReport) -> None:
    """Report each kind of unknown content, with its first line, its count and names that may have been meant."""
    for kind, elements in list(found.items())[:MOST_KINDS]:
        note, lines = kind.note, list(dict.fromkeys(str(element.line) for element in elements))
        if len(elements) > 1:
            shown = ", ".join(lines[:MOST_LINES]) + (" and more" if len(lines) > MOST_LINES else "")
            note += f" ({len(elements)} times, line{'s' * (len(lines) > 1)} {shown})"
        given = elements[0].attributes if kind.what == "attribute" else ()
        hint = did_you_mean(kind.name.lower(), (name for name in kind.near if name not in given))
        report.lost(kind.what, kind.name, elements[0].where, f"{note}.{hint}" if hint else note)
    if more := list(found.values())[MOST_KINDS:]:
        report.lost("more", "", more[0][0].where, f"{len(more)} further kinds of elements and attributes")


def _inspect(element: Element, key: str, found: dict[Unknown, list[Element]]) -> None:
    """Collect unknown contents of an element of the kind ``key`` of the table, and of everything below it that is read."""
    known, inside = KNOWN[key], " of ".join(f"<{tag}>" for tag in reversed(key.split("/")))

    def note(at: Element, what: str, name: str, text: str, near: tuple[str, ...] = ()) -> None:
        found.setdefault(Unknown(what, name, text, near), []).append(at)

    for name in element.attributes:
        if name not in known.attributes and name != "xmlns" and not name.startswith("xmlns:"):
            note(element, "attribute", name, f"not read inside {inside}", known.attributes)
    seen: set[str] = set()
    for child in element.children:
        if child.tag in known.once and child.tag in seen:
            note(child, "element", child.tag, f"only the first one inside {inside} is read")
            continue
        seen.add(child.tag)
        if child.tag in (*known.once, *known.many):
            below = f"{key}/{child.tag}" if f"{key}/{child.tag}" in KNOWN else child.tag
            if below in KNOWN and key != "robot":
                _inspect(child, below, found)
        elif child.tag in NOT_READ:
            note(child, "element", child.tag, f"{NOT_READ[child.tag]}, here inside {inside}")
        elif key == "material" and child.tag == "texture":
            if child.get("filename"):
                note(child, "element", child.tag, "shapes have a colour and no texture")
        elif key != "geometry" or child is not element.children[0]:  # the reader of visuals reports shapes
            note(child, "element", child.tag, f"not read inside {inside}", (*known.once, *known.many))
