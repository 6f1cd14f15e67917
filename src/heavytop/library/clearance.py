"""Mechanisms with clearance, for ``integrator="moreau"``: slider-crank, four-bar linkage, woodpecker toy; they move in the x-y plane."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from heavytop._arrays import Array
from heavytop.geometry import se3, so3
from heavytop.system import (
    Bore,
    Box,
    Cylinder,
    Inertia,
    JointForce,
    Model,
    Planar,
    Points,
    Prismatic,
    Revolute,
    Sphere,
    System,
)

STEEL, BLUE, PAINT = "#8d99a6", "#0072b2", "#d55e00"
DOWN = (0.0, -9.81, 0.0)
CRANK, COUPLER, ROCKER, FOUNDATION = 1.0, 4.0, 2.5, 3.0
"""Lengths of the four-bar linkage in m."""
PIN, HOLE = 0.055, 0.06
"""Radii of its pins and of their bores in m."""
SLEEVE, REACH, POLE = 0.0031, 0.0058, 0.0025
"""Inner radius and half the height of the woodpecker's sleeve, radius of the pole in m."""


def _rod(system: System, body: str, length: float, width: float, color: str, at: Array | None = None) -> None:
    """A bar along x from the origin, or around ``at``."""
    system.shape(body, Box((length, width, 0.5 * width)), (0.5 * length, 0.0, 0.0) if at is None else at, color)


def slider_crank() -> System:
    """A slider-crank whose block has 1 mm clearance between two rails; friction 0.01, restitution 0.4.

    >>> slider_crank().derive(native=False).body_names
    ('crank', 'rod', 'block')
    """
    crank, rod, half_length, half_height, clearance = 0.153, 0.306, 0.05, 0.025, 0.001
    system = System(gravity=DOWN, name="slider-crank")
    friction, restitution = system.parameter("friction", 0.01), system.parameter("restitution", 0.4)
    for name, parent, at, mass, length, moment in (
        ("crank", "world", 0.0, 0.038, crank, 7.4e-5),
        ("rod", "crank", crank, 0.038, rod, 5.9e-4),
        ("block", "rod", rod, 0.076, 0.0, 2.7e-6),
    ):
        inertia = Inertia(mass, com=(0.5 * length, 0.0, 0.0), moment_at_com=(moment, moment, moment))
        system.body(name, parent=parent, at=(at, 0.0, 0.0), joint=Revolute("z"), inertia=inertia)
    _rod(system, "crank", crank, 0.012, STEEL)
    _rod(system, "rod", rod, 0.01, BLUE)
    system.shape("block", Box((2 * half_length, 2 * half_height, 0.03)), color=PAINT)
    corners = Points([(x, y, 0.0) for x in (-half_length, half_length) for y in (-half_height, half_height)])
    for rail, sign in (("upper rail", -1.0), ("lower rail", 1.0)):
        facing = so3.rotation_about("x", -0.5 * np.pi * sign)  # z of the rail points at the block
        system.frame(rail, "world", se3.pose(facing, (0.0, -sign * (half_height + clearance), 0.0)))
        system.contact("block", rail, corners, friction=friction, restitution=restitution)
    system.shape("world", Box((0.35, 0.004, 0.05)), (0.36, half_height + clearance + 0.002, 0.0), STEEL)
    system.shape("world", Box((0.35, 0.004, 0.05)), (0.36, -half_height - clearance - 0.002, 0.0), STEEL)
    return system


def slider_crank_start(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Stretched, the crank at 150 rad/s."""
    return model.neutral(), np.array([150.0, -225.0, 75.0])


def loose_four_bar() -> System:
    """A four-bar linkage whose three pins have a clearance of 5 mm in their bores, data of Siconos; the input is the torque at the crank.

    >>> loose_four_bar().derive(native=False).u_names
    ('motor',)
    """
    system = System(gravity=DOWN, name="loose four-bar")
    friction = system.parameter("friction", 0.1)
    moments = {length: (1e-3, length**2 / 12, length**2 / 12) for length in (CRANK, COUPLER, ROCKER)}
    crank = Inertia(1.0, com=(0.5 * CRANK, 0.0, 0.0), moment_at_com=moments[CRANK])
    system.body("crank", joint=Revolute("z"), inertia=crank)
    system.body("coupler", joint=Planar(), inertia=Inertia(1.0, moment_at_com=moments[COUPLER]))
    system.body("rocker", joint=Planar(), inertia=Inertia(1.0, moment_at_com=moments[ROCKER]))
    _rod(system, "crank", CRANK, 0.1, STEEL)
    _rod(system, "coupler", COUPLER, 0.1, BLUE, (0.0, 0.0, 0.06))
    _rod(system, "rocker", ROCKER, 0.1, PAINT, (0.0, 0.0, 0.0))
    system.frame("coupler bore", "coupler", (-0.5 * COUPLER, 0.0, 0.0))
    system.frame("rocker bore", "rocker", (0.5 * ROCKER, 0.0, 0.0))
    system.frame("bearing", "world", (FOUNDATION, 0.0, 0.0))
    for body, bore, at in (
        ("crank", "coupler bore", CRANK),
        ("coupler", "rocker bore", 0.5 * COUPLER),
        ("rocker", "bearing", -0.5 * ROCKER),
    ):
        place = (at, 0.0, 0.0)
        system.shape(body, Cylinder(PIN, 0.2), place, STEEL)
        system.contact(body, bore, Sphere(PIN), at=place, against=Bore(HOLE), friction=friction)
    system.input("motor", JointForce("crank"))
    return system


def loose_four_bar_start(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """The crank upright, all pins in the middle of their bores, at rest."""
    top, far = np.array([0.0, CRANK]), np.array([FOUNDATION, 0.0])
    across = far - top
    size = float(np.linalg.norm(across))
    coupler = np.arctan2(across[1], across[0]) + np.arccos((COUPLER**2 + size**2 - ROCKER**2) / (2 * COUPLER * size))
    joint = top + COUPLER * np.array([np.cos(coupler), np.sin(coupler)])
    rocker = np.arctan2(*(joint - far)[::-1])
    q = [0.5 * np.pi, *(0.5 * (top + joint)), coupler, *(0.5 * (far + joint)), rocker]
    return np.array(q), np.zeros(model.nv)


def woodpecker() -> System:
    """The woodpecker toy, data of Glocker: a sleeve slides, jams and bounces down a pole while a bird on a spring pecks at it.

    >>> woodpecker().derive(native=False).body_names
    ('carriage', 'sleeve', 'bird')
    """
    arm, centre, beak, height = 0.010, 0.015, 0.0201, 0.020
    system = System(gravity=DOWN, name="woodpecker")
    friction = system.parameter("friction", 0.3)
    system.body("carriage", joint=Prismatic("y"), inertia=Inertia(1.5e-4))
    spin = Inertia(1.5e-4, moment_at_com=(5e-9, 5e-9, 5e-9))
    system.body("sleeve", parent="carriage", joint=Revolute("z"), inertia=spin)
    bird = Inertia(4.5e-3, com=(centre, 0.0, 0.0), moment_at_com=(7e-7, 7e-7, 7e-7))
    system.body("bird", parent="sleeve", at=(arm, 0.0, 0.0), joint=Revolute("z"), inertia=bird)
    system.joint_spring("bird", stiffness=0.0056)
    upright = se3.pose(so3.rotation_about("x", 0.5 * np.pi), (0.0, -0.2, 0.0))
    system.shape("world", Cylinder(POLE, 0.6), upright, STEEL)
    ring = se3.pose(so3.rotation_about("x", 0.5 * np.pi), np.zeros(3))
    system.shape("carriage", Cylinder(SLEEVE, 0.002), ring, STEEL)
    system.shape("sleeve", Box((2.4 * SLEEVE, 2 * REACH, 0.006)), color=BLUE)
    system.shape("bird", Box((0.008, 0.03, 0.008)), (centre, 0.005, 0.0), PAINT)
    system.shape("bird", Box((0.014, 0.003, 0.003)), (centre - beak + 0.007, height, 0.0), "#333333")
    side = so3.rotation_about("y", 0.5 * np.pi)  # z of the frame is x of the world
    system.frame("pole", "world", se3.pose(side, (POLE, 0.0, 0.0)))
    tip = Points([(centre - beak, height, 0.0)])
    edges = Points([(SLEEVE, -REACH, 0.0), (SLEEVE, REACH, 0.0)])
    system.contact("bird", "pole", tip, friction=friction, restitution=0.5, name="beak")
    system.contact("sleeve", "pole", edges, friction=friction, name="sleeve")
    return system


def woodpecker_start(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Near the limit cycle: the sleeve jammed with its lower edge, the bird swinging down at 7.4583 rad/s."""
    jammed = np.arctan2(REACH, SLEEVE) - np.arccos(POLE / np.hypot(SLEEVE, REACH))
    q, v = model.neutral(), np.zeros(model.nv)
    q[1], q[2] = jammed, -0.2788 - jammed
    v[0], v[2] = -0.3411, -7.4583
    return q, v


STARTS: dict[str, Callable[[Model], tuple[np.ndarray, np.ndarray]]] = {
    "slider-crank": slider_crank_start,
    "loose-four-bar": loose_four_bar_start,
    "woodpecker": woodpecker_start,
}
