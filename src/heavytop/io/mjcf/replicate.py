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
    made = 0

    def count(e: Element) -> None:
        nonlocal made
        made += 1
        if made > MOST_COPIES:
            raise e.error(f"the copies have more than {MOST_COPIES} elements in total.")

    def expand(element: Element) -> None:
        children: list[Element] = []
        for child in element.children:
            expand(child)
            children += copies(child) if child.tag == "replicate" else [child]
        element.children = children

    def copies(e: Element) -> list[Element]:
        number = e.number("count")
        if not 1 <= number <= MOST_LINKS or number != int(number):
            raise e.error(f"count must be a whole number from 1 to {MOST_LINKS}, got {number:g}.")
        offset, angles = e.numbers("offset", 3, (0.0, 0.0, 0.0)), e.numbers("euler", 3, (0.0, 0.0, 0.0))
        place, width, separator = np.zeros(3), len(str(int(number))), e.get("sep", "") or ""
        frames = []
        for k in range(int(number)):
            count(e)
            # R_k = euler(k angles), p_k+1 = p_k + R_k offset
            R = settings.euler_rotation(k * angles)
            frame = {"pos": spaced(place), "quat": spaced(quaternion.quaternion_from_rotation(R))}
            if e.get("childclass"):
                frame["childclass"] = e.get("childclass") or ""
            inner = [copy(child, f"{separator}{k:0{width}d}", e) for child in e.children]
            frames.append(Element("frame", frame, e.file, e.line, inner))
            place = place + R @ offset
        return frames

    def copy(element: Element, suffix: str, e: Element) -> Element:
        count(e)
        attributes = dict(element.attributes)
        if attributes.get("name"):
            attributes["name"] += suffix
        return replace(element, attributes=attributes, children=[copy(x, suffix, e) for x in element.children])

    expand(element)
