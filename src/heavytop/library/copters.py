"""Flying machines: a quadcopter, and the tricopter with a suspended load of the thesis (examples 6 and 7)."""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, pi, sin

import numpy as np

from heavytop.geometry import se3, so3
from heavytop.library.pendulums import ACCENT, DARK, GREY, bar
from heavytop.system import (
    Box,
    Cylinder,
    Damping,
    Free,
    Inertia,
    JointForce,
    Revolute,
    Sphere,
    Spherical,
    System,
    Thruster,
)


def quadcopter() -> System:
    """A quadcopter with four fixed propellers on arms at 0, 90, 180 and 270 degrees that spin in alternating directions.

    >>> quadcopter().derive(native=False)
    Model('quadcopter': nq=12, nv=6, nu=4, bodies=1)
    """
    system = System(name="quadcopter")
    values = {"m": 0.9, "J_1": 0.008, "J_2": 0.008, "J_3": 0.014, "l": 0.2, "kappa": 0.016, "g": 9.81}
    m, J_1, J_2, J_3, l, kappa, g = (system.parameter(*pair) for pair in values.items())
    system.gravity = (0.0, 0.0, -g)
    system.body("hull", joint=Free(), inertia=Inertia(m, moment_at_com=(J_1, J_2, J_3)))
    for k, (x, y) in enumerate([(1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0)]):
        system.input(f"F_{k + 1}", Thruster("hull", at=(x * l, y * l, 0.0), drag_ratio=(-1) ** k * kappa))
    return system


ARM_ANGLES = (pi / 3, pi, -pi / 3)
ARM_LENGTH, PROPELLER_HEIGHT, LOAD_HEIGHT = 0.25, 0.04, -0.05

# moments of inertia about the centre of mass: xx, yy, zz, xy, xz, yz (kg m^2)
# fmt: off
HULL_MOMENT = (0.01077404714947447, 0.01106530041335553, 0.01716065243716998, 1.694197450521909e-05, -0.001242857365881251, -0.0008369826129901558)
LOAD_MOMENT = (0.001199026472929966, 0.001292122530633539, 0.001108850996436496, 2.942894411649865e-06, -9.472471706067585e-06, 3.877869291644743e-05)
ARM_MOMENTS = (
    (9.150855059099258e-05, 0.0001388865753493827, 0.0001296048740596249, -7.345992246736239e-06, 3.902736035882224e-06, 6.674860054871674e-07),
    (9.344063172843188e-05, 0.0001369482508448743, 0.000129611117426694, -1.191680857780331e-05, 3.778763037905978e-06, 1.096453047657758e-06),
    (9.624185590948771e-05, 0.0001341377910604956, 0.0001296203530300168, -1.601154603933114e-05, 3.596664931758783e-06, 1.501840617399909e-06),
)
# fmt: on


def look_like_a_tricopter(system: System, arms: Sequence[str], roots: Sequence[np.ndarray], height: float) -> None:
    """Add a hull with spokes to the ``roots`` (3,) of the arms, each with a motor and a propeller at ``height``.

    The bodies are "hull", ``arms`` and the propellers ("propeller" and the last letter of the arm).
    """
    system.shape("hull", Cylinder(0.3 * float(np.linalg.norm(roots[0])), 0.04), color=DARK)
    for arm, root in zip(arms, roots, strict=True):
        radius = 0.55 * float(np.linalg.norm(root))
        bar(system, "hull", np.zeros(3), np.asarray(root), 0.008, GREY)
        system.shape(arm, Cylinder(0.016, height), (0.0, 0.0, height / 2), ACCENT)
        system.shape(arm, Sphere(0.018), color=DARK)
        propeller = f"propeller{arm[-1]}"
        system.shape(propeller, Box((2 * radius, 0.12 * radius, 0.004)), color=DARK)
        system.shape(propeller, Cylinder(0.01, 0.014), color=DARK)


def _moment(entries: tuple[float, ...]) -> np.ndarray:
    xx, yy, zz, xy, xz, yz = entries
    return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


def tricopter_load() -> System:
    """A tricopter with tilting arms, spinning propellers and a load on a spherical joint: 8 bodies, 30 coordinates, 15 velocities.

    The angular velocity of the load is relative to the world (example 7). Inputs: three tilt torques in the arms' joints and
    three propeller torques. Frames as in eq. 3.100; inertia and air drag of every body, friction in every joint.

    >>> tricopter_load().derive()
    Model('tricopter with load': nq=30, nv=15, nu=6, bodies=8)
    """
    system = System(name="tricopter with load")
    hull = Inertia(1.0, com=(0.01, -0.005, 0.01), moment_at_com=_moment(HULL_MOMENT))
    load = Inertia(0.3, com=(0.0, 0.01, -0.4), moment_at_com=_moment(LOAD_MOMENT))
    propeller = Inertia(0.02, com=(0.001, 0.0005, 0.002), moment_at_com=(3e-6, 3.1e-5, 3.2e-5))
    system.body("hull", joint=Free(), inertia=hull)
    system.body("load", parent="hull", at=(0.0, 0.0, LOAD_HEIGHT), joint=Spherical(velocity="absolute"), inertia=load)
    for k, (angle, moment) in enumerate(zip(ARM_ANGLES, ARM_MOMENTS, strict=True), start=1):
        root = se3.pose(so3.rotation_about("z", angle), ARM_LENGTH * np.array([cos(angle), sin(angle), 0.0]))
        system.body(f"arm{k}", inertia=Inertia(0.12, com=(-0.02, 0.003, 0.015), moment_at_com=_moment(moment)))
        system.connect("hull", f"arm{k}", Revolute("x"), at=root, name=f"theta_{k}")
    for k in (1, 2, 3):
        system.body(f"propeller{k}", inertia=propeller)
        joint = Revolute("z", coordinates="circle")
        system.connect(f"arm{k}", f"propeller{k}", joint, at=(0.0, 0.0, PROPELLER_HEIGHT), name=f"p_{k}")
    system.damper("world", "hull", Damping(0.12, (0.0, 0.0, 0.02), (0.003, 0.003, 0.004)))
    system.damper("world", "load", Damping(0.03, (0.0, 0.0, -0.35), (0.0003, 0.0003, 0.0002)))
    system.damper("hull", "load", Damping(0.01, moment_at_center=(0.04, 0.04, 0.04)))
    system.damper("load", "hull", Damping(0.005, (0.02, 0.0, 0.1), (0.03, 0.02, 0.03)))
    for k in (1, 2, 3):
        system.damper("hull", f"arm{k}", Damping(0.02, (0.01, 0.0, 0.0), (0.023, 0.021, 0.022)))
        system.damper(f"arm{k}", f"propeller{k}", Damping(0.001, moment_at_center=(0.005, 0.005, 0.008)))
    roots = [ARM_LENGTH * np.array([cos(angle), sin(angle), 0.0]) for angle in ARM_ANGLES]
    look_like_a_tricopter(system, ("arm1", "arm2", "arm3"), roots, PROPELLER_HEIGHT)
    for k in (1, 2, 3):
        system.input(f"tilt_{k}", JointForce(f"theta_{k}"))
    for k in (1, 2, 3):
        system.input(f"spin_{k}", JointForce(f"p_{k}"))
    return system
