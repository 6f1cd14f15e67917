"""<replicate>: copies of a part of the tree, each moved relative to the previous one, with numbered names."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from heavytop.geometry import quaternion
from heavytop.io.mjcf.document import CompilerSettings
from heavytop.io.robot import MOST_LINKS
from heavytop.io.xml_elements import Element, spaced

MOST_COPIES = 50_000
"""Elements of all copies in total."""


def expand_replicas(element: Element, settings: CompilerSettings) -> None:
    """Replace every <replicate> below an element by a <frame> for each copy."""
    _Copies(settings).expand(element)


class _Copies:
    """Makes and counts copies; nested ones multiply."""

    def __init__(self, settings: CompilerSettings) -> None:
        self.settings, self.made = settings, 0

    def expand(self, element: Element) -> None:
        children: list[Element] = []
        for child in element.children:
            self.expand(child)
            children += self._copies(child) if child.tag == "replicate" else [child]
        element.children = children

    def _copies(self, e: Element) -> list[Element]:
        count = e.number("count")
        if not 1 <= count <= MOST_LINKS or count != int(count):
            raise e.error(f"count must be a whole number from 1 to {MOST_LINKS}, got {count:g}.")
        offset, angles = e.numbers("offset", 3, (0.0, 0.0, 0.0)), e.numbers("euler", 3, (0.0, 0.0, 0.0))
        place, width, separator = np.zeros(3), len(str(int(count))), e.get("sep", "") or ""
        copies = []
        for k in range(int(count)):
            self._count(e)
            # R_k = euler(k angles), p_k+1 = p_k + R_k offset
            R = self.settings.euler_rotation(k * angles)
            suffix = f"{separator}{k:0{width}d}"
            frame = {"pos": spaced(place), "quat": spaced(quaternion.quaternion_from_rotation(R))}
            if e.get("childclass"):
                frame["childclass"] = e.get("childclass") or ""
            inner = [self._copy(child, suffix, e) for child in e.children]
            copies.append(Element("frame", frame, e.file, e.line, inner))
            place = place + R @ offset
        return copies

    def _copy(self, element: Element, suffix: str, e: Element) -> Element:
        self._count(e)
        attributes = dict(element.attributes)
        if attributes.get("name"):
            attributes["name"] += suffix
        children = [self._copy(child, suffix, e) for child in element.children]
        return replace(element, attributes=attributes, children=children)

    def _count(self, e: Element) -> None:
        self.made += 1
        if self.made > MOST_COPIES:
            raise e.error(f"the copies have more than {MOST_COPIES} elements in total.")
