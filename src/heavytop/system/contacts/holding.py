"""Contacts that are held: the points that touch at a configuration as ball joints that close loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from heavytop._arrays import Array, Floats
from heavytop.errors import ModelError, unknown_name
from heavytop.geometry import se3
from heavytop.system.description import WORLD
from heavytop.system.description.description import Description, Loop
from heavytop.system.joints import Spherical

if TYPE_CHECKING:
    from heavytop.system.model import Model


def held_description(
    model: Model, names: Sequence[str], q: Array, within: float, parameters: Mapping[str, Array] | None
) -> Description:
    """The description of a model whose rigid contacts ``names`` (none: all that touch at q) are loops (:meth:`.Model.holding`)."""
    contacts = model.description.contacts
    known = tuple(contact.name for contact in contacts)
    for name in names:
        if name not in known:
            raise unknown_name("rigid contact", name, known)
    loops: list[Loop] = []
    held: list[str] = []
    gaps, points, _ = model.evaluate("contact_points", q, parameters=parameters) if known else ((), (), ())
    units = [unit.name for unit in model.expressions.contact_rows.units] if known else []
    for contact in contacts:
        here = [k for k, name in enumerate(units) if name == contact.name]
        touching = [k for k in here if gaps[k] <= within]
        if names and contact.name not in names:
            continue
        if names and not touching:
            raise ModelError(
                f"contact {contact.name!r} does not touch at this configuration: its gap is {min(gaps[k] for k in here):.3g} m, more than "
                f"{within:g} m. Move the body to the surface, or raise within=."
            )
        depth = max((-float(gaps[k]) for k in touching), default=0.0)
        if depth > within:
            raise ModelError(
                f"contact {contact.name!r} penetrates at this configuration by {depth:.3g} m, more than {within:g} m, and would be held so. Move the "
                "body to the surface, or raise within=."
            )
        for number, k in enumerate(touching, 1):
            label = contact.name if len(touching) == 1 else f"{contact.name} {number}"
            at_a, at_b = (
                _at(model.pose(WORLD, frame, q, parameters=parameters), points[k])
                for frame in (contact.partner, contact.body)
            )
            loops.append(Loop(label, contact.partner, contact.body, Spherical(), at_a, at_b))
        if touching:
            held.append(contact.name)
    if not loops:
        raise ModelError(f"no rigid contact of {model.name!r} touches within {within:g} m at this configuration.")
    kept = tuple(contact for contact in contacts if contact.name not in held)
    return replace(model.description, contacts=kept, loops=(*model.description.loops, *loops))


def _at(frame: Floats, point: Floats) -> Floats:
    """Pose (4, 4) without turn, in the axes of a frame with a pose (4, 4), at a point (3,) of the world."""
    return se3.pose(np.eye(3), se3.transform(se3.inverse(frame), point))
