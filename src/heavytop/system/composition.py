"""Systems inside systems: elements, inputs, joints and functions of one system under other names and with a part of the coordinates."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._arrays import Array, as_array, concatenate, part, shape
from heavytop.errors import ModelError
from heavytop.functions import Value
from heavytop.system.description import WORLD
from heavytop.system.description.description import FunctionConstraint, Loop
from heavytop.system.description.graph import Edge
from heavytop.system.forces import ForceElement
from heavytop.system.joints import Joint

if TYPE_CHECKING:
    from heavytop.system.system import System

Rename = Callable[[str], str]


@dataclass(frozen=True)
class Prefixed:
    """Names of an attached system: with a prefix, and its world is the frame ``mount``.

    >>> names = Prefixed("left/", "left/mount")
    >>> names("elbow"), names("world"), names.plain("motor")
    ('left/elbow', 'left/mount', 'left_motor')
    """

    prefix: str
    mount: str

    def __call__(self, name: str) -> str:
        return self.mount if name == WORLD else f"{self.prefix}{name}"

    def plain(self, name: str) -> str:
        """Name of an input or parameter, which has letters, digits, '_' and '-' only."""
        return re.sub(r"[^\w-]", "_", self.prefix) + name


def renamed_element(element: ForceElement, name: Rename, q: slice, v: slice) -> ForceElement:
    """A force element of an attached system whose coordinates are the parts ``q`` and ``v`` of those of the whole."""
    if element.reads_coordinates:
        return replace(element, function=PartFunction(element.function, q, v, element.gives("force")))  # pyright: ignore
    return element.renamed(name)


def renamed_joint(joint: Joint, name: Rename, label: str) -> Joint:
    """A joint that follows another one, by its new name; other joints are unchanged."""
    if joint.follows is None:
        return joint
    return joint.following(name(joint.follows), label)


def renamed_edge(edge: Edge, name: Rename) -> Edge:
    """A transformation between frames under other names."""
    return replace(
        edge, a=name(edge.a), b=name(edge.b), label=name(edge.label), joint=renamed_joint(edge.joint, name, edge.label)
    )


def renamed_loop(loop: Loop, name: Rename) -> Loop:
    """A loop between frames under other names."""
    return replace(loop, name=name(loop.name), a=name(loop.a), b=name(loop.b))


def renamed_constraint(constraint: FunctionConstraint, name: Rename, q: slice, v: slice) -> FunctionConstraint:
    """A constraint on a part of the coordinates, under another name."""
    work, friction = (
        None if f is None else PartFunction(f, q, v, True) for f in (constraint.work, constraint.friction)
    )
    function = PartFunction(constraint.function, q, v, False)
    return replace(constraint, name=name(constraint.name), function=function, work=work, friction=friction)


@dataclass(frozen=True, eq=False)
class PartFunction(Value):
    """A function of q, or of q and v, of a part of the coordinates; ``is_force``: its value (n,) is filled up with zeros."""

    function: Callable[..., Array]
    q: slice
    v: slice
    is_force: bool

    def __call__(self, q: Array, *further: Array) -> Array:
        inner = [part(v, self.v.start, self.v.stop) for v in further]
        value = self.function(part(q, self.q.start, self.q.stop), *inner)
        if not self.is_force:
            return value
        size = shape(further[0])[0]
        return concatenate(np.zeros(self.v.start), as_array(value), np.zeros(size - self.v.stop))


def scene(systems: Mapping[str, Any], *, gravity: Any = None, name: str = "scene") -> System:
    """Combine several robots, vehicles and objects into one system.

    Parameters
    ----------
    systems : name -> system, or (system, at) with its place: a position (3,) or pose (4, 4) in the world. Frames and joints of each are
        called ``name/frame``, inputs and parameters ``name_input``.
    gravity : (3,) m/s^2; None: that of the first system.
    name : name of the combined system.

    Examples
    --------
    >>> import heavytop as ht
    >>> both = scene({"left": ht.library.pendulum(), "right": (ht.library.pendulum(), (1, 0, 0))})
    >>> both.derive().q_names
    ('left/theta.angle', 'right/theta.angle')
    """
    from heavytop.system.system import System

    if not systems:
        raise ModelError(
            "a scene needs at least one system, such as ht.scene({'arm': arm, 'part': (part, (0.5, 0, 0))})."
        )
    placed = {label: item if isinstance(item, tuple) else (item, None) for label, item in systems.items()}
    first, _ = next(iter(placed.values()))
    made = System(first.gravity if gravity is None else gravity, name)
    for label, (system, at) in placed.items():
        made.attach(system, at=at, prefix=f"{label}/")
    return made
