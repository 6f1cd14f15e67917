"""What URDF elements hold that the reader knows; whatever else stands in them is reported, so that no misspelling is silent."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from heavytop.errors import did_you_mean
from heavytop.io.import_report import TransferReport
from heavytop.io.xml_source import Element

NOT_READ = {
    "gazebo": "settings of a simulator",
    "sensor": "sensors do not act on the motion",
    "ros2_control": "settings of a controller",
}
"""Elements that are deliberately not represented, and why."""

MOST_LINES = 5
"""Lines that one entry of the report names."""
MOST_KINDS = 100
"""Entries; a file with more unknown kinds is no URDF, and they are counted only."""


class Known(NamedTuple):
    """Names of attributes, of children that count once, and of children that may come several times."""

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
"""By tag, or by tags of parent and child where the same tag means something else there. Elements without a row are not looked into:
they hold text (``type``) or are reported as a whole (``collision``, ``calibration``, ``safety_controller``)."""


class Kind(NamedTuple):
    """What one entry of the report is about; ``near`` are the names that may have been meant."""

    what: str
    name: str
    note: str
    near: tuple[str, ...] = ()


@dataclass(eq=False)
class Leftovers:
    """What stands in elements that are read and is not read itself: one entry for each kind and parent, with its lines."""

    found: dict[Kind, list[Element]] = field(default_factory=dict)

    def look(self, element: Element, key: str) -> None:
        """Note what is unknown in an element of the kind ``key`` of the table, and in everything below it that is read."""
        known, inside = KNOWN[key], " of ".join(f"<{tag}>" for tag in reversed(key.split("/")))
        for name in element.attributes:
            if name not in known.attributes and name != "xmlns" and not name.startswith("xmlns:"):
                self._note(element, Kind("attribute", name, f"not read inside {inside}", known.attributes))
        seen: set[str] = set()
        for child in element.children:
            if child.tag in known.once and child.tag in seen:
                self._note(child, Kind("element", child.tag, f"only the first one inside {inside} is read"))
                continue
            seen.add(child.tag)
            if child.tag in (*known.once, *known.many):
                below = f"{key}/{child.tag}" if f"{key}/{child.tag}" in KNOWN else child.tag
                if below in KNOWN and key != "robot":
                    self.look(child, below)
            elif child.tag in NOT_READ:
                self._note(child, Kind("element", child.tag, f"{NOT_READ[child.tag]}, here inside {inside}"))
            elif key == "material" and child.tag == "texture":
                if child.get("filename"):
                    self._note(child, Kind("element", child.tag, "shapes have a colour and no texture"))
            elif key != "geometry" or child is not element.children[0]:  # a visual tells about its shape itself
                near = (*known.once, *known.many)
                self._note(child, Kind("element", child.tag, f"not read inside {inside}", near))

    def look_at_root(self, root: Element, represented: Iterable[Element]) -> None:
        """Note what is unknown in <robot> and in those of its children that are in the system."""
        self.look(root, "robot")
        for element in represented:
            self.look(element, element.tag)

    def tell(self, report: TransferReport) -> None:
        """Add the entries to a report, each with the line where it stands first and how often it does."""
        kinds = list(self.found)
        for kind in kinds[:MOST_KINDS]:
            found = self.found[kind]
            lines = list(dict.fromkeys(str(element.line) for element in found))
            shown = ", ".join(lines[:MOST_LINES]) + (" and more" if len(lines) > MOST_LINES else "")
            often = f" ({len(found)} times, line{'s' * (len(lines) > 1)} {shown})" if len(found) > 1 else ""
            given = found[0].attributes if kind.what == "attribute" else ()
            hint = did_you_mean(kind.name.lower(), (name for name in kind.near if name not in given))
            report.lost(
                kind.what, kind.name, found[0].where, f"{kind.note}{often}.{hint}" if hint else kind.note + often
            )
        if more := kinds[MOST_KINDS:]:
            report.lost(
                "more", "", self.found[more[0]][0].where, f"{len(more)} further kinds of elements and attributes"
            )

    def _note(self, at: Element, kind: Kind) -> None:
        self.found.setdefault(kind, []).append(at)
