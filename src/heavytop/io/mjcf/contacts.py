"""Section <contact> of MJCF: pairs of geoms that touch, and pairs of bodies that do not."""

from __future__ import annotations

from heavytop.io.mjcf.document import Defaults, name_of
from heavytop.io.mjcf.geoms import slide_friction
from heavytop.io.robot import ContactPair, Robot
from heavytop.io.xml_elements import Element
from heavytop.system import WORLD


def read_contacts(section: Element, robot: Robot, defaults: Defaults) -> None:
    """Add the pairs of a section, and mark the bodies that do not touch the world."""
    for element in section.children:
        e = defaults.apply(element, None)
        name = name_of(e)
        if e.tag == "pair":
            shapes = e.string("geom1"), e.string("geom2")
            friction = None if e.get("friction") is None else slide_friction(e)
            if e.get("condim") is not None and e.number("condim") == 1:
                friction = 0.0
            margin = None if e.get("margin") is None else e.number("margin")
            robot.pairs.append(ContactPair(name, e.where, shapes, friction, margin))
        elif e.tag == "exclude":
            bodies = e.string("body1"), e.string("body2")
            for body in bodies:
                if body not in robot.links:
                    raise e.error(f"names the body {body!r}, which does not exist.")
            if WORLD in bodies:
                for body in bodies:
                    robot.links[body].touches_floor = False
            robot.report.represented("exclude", name or " and ".join(bodies), e.where)
        else:
            robot.report.lost(e.tag, name, e.where, "not read inside <contact>")
