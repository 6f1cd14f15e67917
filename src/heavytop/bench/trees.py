"""The systems that are measured, as plain data that every engine can be built from."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from heavytop.geometry import se3, so3
from heavytop.system import Free, Inertia, JointForce, Model, Revolute, Spherical, System

WORLD = "world"


@dataclass(frozen=True, eq=False)
class Link:
    """A body, the joint that carries it and where that joint sits in the parent.

    Attributes
    ----------
    joint : "free", "ball", or the axis "x", "y", "z" of a revolute joint.
    moment : (3, 3) at the centre of mass, in body axes.
    """

    name: str
    parent: str
    joint: str
    rotation: np.ndarray
    position: np.ndarray
    mass: float
    com: np.ndarray
    moment: np.ndarray


@dataclass(frozen=True, eq=False)
class Tree:
    """A tree of links in an order where parents come first; every revolute joint has a motor."""

    name: str
    links: tuple[Link, ...]

    def system(self) -> System:
        """The description of the tree; velocities are those of Pinocchio: body twists, parent-relative angular velocities."""
        joints = {"free": Free, "ball": Spherical}
        system = System(name=self.name)
        for link in self.links:
            system.body(
                link.name,
                parent=link.parent,
                at=se3.pose(link.rotation, link.position),
                joint=joints[link.joint]() if link.joint in joints else Revolute(link.joint),
                inertia=Inertia(link.mass, link.com, link.moment),
            )
        for link in self.links:
            if link.joint not in joints:
                system.input(f"motor_{link.name}", JointForce(link.name))
        return system

    def derive(self) -> Model:
        """The model of the tree."""
        return self.system().derive()


def _about_z(angle: float) -> np.ndarray:
    return so3.rotation_about("z", angle)


@cache
def tricopter_load() -> Tree:
    """A tricopter with three tilting arms and propellers and a load on a ball joint: 8 bodies, 15 degrees of freedom."""
    axes, origin = np.eye(3), np.zeros(3)

    def link(name: str, parent: str, joint: str, at, mass: float, com, moments, rotation=axes) -> Link:
        return Link(name, parent, joint, rotation, np.array(at), mass, np.array(com, dtype=float), np.diag(moments))

    links = [
        link("hull", WORLD, "free", origin, 1.0, (0, 0, 0.01), (0.010, 0.012, 0.020)),
        link("load", "hull", "ball", (0, 0, -0.05), 0.3, (0, 0, -0.5), (0.0010, 0.0012, 0.0015)),
    ]
    for k in range(3):
        R = _about_z(2 * np.pi * k / 3)
        arm, propeller = f"arm{k}", f"propeller{k}"
        links.append(link(arm, "hull", "x", R @ [0.25, 0, 0], 0.1, (0, 0, 0.01), (1e-4, 2e-4, 2.5e-4), R))
        links.append(link(propeller, arm, "z", (0, 0, 0.05), 0.02, origin, (4e-5, 6e-5, 1e-4)))
    return Tree("tricopter-load", tuple(links))


@cache
def panda() -> Tree:
    """The Franka Panda arm, seven revolute joints, parameters of its URDF (``panda.json``)."""
    joints = json.loads(files("heavytop.bench").joinpath("panda.json").read_text(encoding="utf-8"))["joints"]
    links, parent = [], WORLD
    for joint in joints:
        arrays = [np.array(joint[key]) for key in ("rotation", "position", "com", "moment_at_com")]
        R, r, com, moment = arrays
        links.append(Link(joint["name"], parent, joint["axis"], R, r, joint["mass"], com, moment))
        parent = joint["name"]
    return Tree("panda", tuple(links))


@cache
def chain(n: int) -> Tree:
    """``n`` links with random inertias, axes turned by a quarter from one revolute joint to the next."""
    rng = np.random.default_rng(n)
    quarter = np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]])
    links = []
    for k in range(n):
        mass, com, spread = 1 + rng.random(), 0.1 * rng.standard_normal(3), 0.1 * rng.standard_normal((3, 3))
        moment = mass * so3.Vee(spread @ spread.T + 0.02 * np.eye(3))
        R = np.eye(3) if k == 0 else (quarter if k % 2 else quarter.T)
        r = np.zeros(3) if k == 0 else np.array([0.3, 0, 0.1])
        links.append(Link(f"link{k}", f"link{k - 1}" if k else WORLD, "z", R, r, mass, com, moment))
    return Tree(f"chain-{n}", tuple(links))
