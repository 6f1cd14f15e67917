"""Systems of the library as plain data that every engine can be built from."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from heavytop import library
from heavytop._arrays import Floats
from heavytop.errors import ModelError
from heavytop.geometry import se3
from heavytop.system import Model, System
from heavytop.system.joints import Joint

WORLD = "world"


@dataclass(frozen=True, eq=False)
class TreeLink:
    """A body, the joint that carries it and where that joint sits in the parent.

    Attributes
    ----------
    joint : "free", "ball", or the axis "x", "y", "z" of a revolute joint.
    rotation : (3, 3) axes of the joint in the parent.
    position : (3,) its origin there, m.
    com : (3,) centre of mass, m.
    moment : (3, 3) at the centre of mass, in body axes.
    """

    name: str
    parent: str
    joint: str
    rotation: Floats
    position: Floats
    mass: float
    com: Floats
    moment: Floats


@dataclass(frozen=True, eq=False)
class Tree:
    """A system whose joints every engine knows, also as links in an order where parents come first; its hinges have motors."""

    name: str
    system: System
    links: tuple[TreeLink, ...]

    @classmethod
    def of(cls, name: str, system: System) -> Tree:
        """The data of a system; ``name`` is that of its row in the reports.

        >>> [link.joint for link in Tree.of("arm", library.random_chain(2)).links]
        ['z', 'z']
        """
        description = system.describe()
        links = []
        for edge in description.graph.edges:
            inertia, place = description.inertias[edge.b], np.asarray(edge.at, dtype=float)
            links.append(
                TreeLink(
                    edge.b,
                    edge.a,
                    _kind(edge.joint),
                    se3.rotation(place),
                    se3.position(place),
                    float(np.asarray(inertia.mass)),
                    np.asarray(inertia.com, dtype=float),
                    np.asarray(inertia.moment_at_com, dtype=float),
                )
            )
        return cls(name, system, tuple(links))

    def derive(self) -> Model:
        """The model of the tree."""
        return self.system.derive()


PEER_KINDS = {"floating": "free", "spherical": "ball"}


def _kind(joint: Joint) -> str:
    if joint.kind == "revolute":
        for name, axis in zip("xyz", np.eye(3), strict=True):
            if np.array_equal(np.asarray(joint.turns_about, dtype=float), axis):
                return name
    if joint.kind in PEER_KINDS:
        return PEER_KINDS[joint.kind]
    raise ModelError(
        f"{joint!r} is not a joint that benchmarks know: peers are given Free, Spherical, and Revolute about x, y or z."
    )


@cache
def tricopter_load() -> Tree:
    """A tricopter with three tilting arms and propellers and a load on a ball joint: 8 bodies, 15 degrees of freedom."""
    return Tree.of("tricopter-load", library.bare_tricopter_load())


@cache
def panda() -> Tree:
    """The Franka Panda arm."""
    return Tree.of("panda", library.panda())


@cache
def chain(n: int) -> Tree:
    """``n`` links with random inertias."""
    return Tree.of(f"chain-{n}", library.random_chain(n))
