"""Mechanisms with closed loops: the rigid-body benchmark problems of the IFToMM technical committee for multibody dynamics.

Each function returns a new :class:`~heavytop.system.System`; ``*_start`` returns the published initial configuration and velocity.
"""

from __future__ import annotations

import numpy as np

from heavytop.errors import ModelError
from heavytop.geometry import se3, so3
from heavytop.library.pendulums import ACCENT, DARK, GREY, WHITE, bar
from heavytop.system import Box, Inertia, JointForce, Model, Prismatic, Revolute, Sphere, System

ROD = Inertia(1.0, com=(0.5, 0.0, 0.0), moment_at_com=(0.0, 1 / 12, 1 / 12))
"""Slender rod along x: 1 kg, 1 m."""


def four_bars(count: int = 2) -> System:
    """N four-bar windows in a row: N + 1 cranks on the ground and N couplers, every link 1 m and 1 kg (problem A02).

    One degree of freedom; N + 1 where all links lie in one line. Joints: ``crank0`` ... ``crankN``, ``coupler0`` ...

    >>> len(four_bars(5).describe().loops)
    5
    """
    if not 1 <= count <= 10_000:
        raise ModelError(f"four_bars needs one window at least and 10000 at most, got {count}.")
    system = System(gravity=(0.0, -9.81, 0.0), name=f"four-bars-{count}")
    for i in range(count + 1):
        system.body(f"crank{i}", at=(i, 0.0, 0.0), joint=Revolute("z"), inertia=ROD)
    for i in range(count):
        system.body(f"coupler{i}", parent=f"crank{i}", at=(1.0, 0.0, 0.0), joint=Revolute("z"), inertia=ROD)
        system.loop(f"coupler{i}", f"crank{i + 1}", Revolute("z"), at_a=(1.0, 0.0, 0.0), at_b=(1.0, 0.0, 0.0))
    return system


def four_bars_start(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Cranks upright, the first coupler point moving with 1 m/s to the right."""
    cranks = (model.nv + 1) // 2
    q = np.concatenate([np.full(cranks, np.pi / 2), np.full(model.nv - cranks, -np.pi / 2)])
    v = np.concatenate([np.full(cranks, -1.0), np.full(model.nv - cranks, 1.0)])
    return model.assemble(q, v)


ANDREWS_POINTS = {"A": (-0.06934, -0.00227), "B": (-0.03635, 0.03273), "C": (0.014, 0.072)}


def andrews() -> System:
    """Andrews' squeezing mechanism: seven links in a plane, three loops, driven by 33 N mm without friction (problem A03).

    Joints in order: ``K1`` (crank), ``K2``, ``K3``, ``K5``, ``K4``, ``K7``, ``K6``. No gravity.

    >>> [loop.name for loop in andrews().describe().loops]
    ['K2-K3', 'K2-K4', 'K2-K6']
    """
    (xa, ya), (xb, yb), (xc, yc) = (ANDREWS_POINTS[k] for k in "ABC")
    system = System(gravity=(0.0, 0.0, 0.0), name="andrews")

    def link(
        name: str, parent: str, at: tuple[float, float], mass: float, com: tuple[float, float], moment: float
    ) -> None:
        inertia = Inertia(mass, com=(*com, 0.0), moment_at_com=(moment / 2, moment / 2, moment))
        system.body(name, parent=parent, at=(*at, 0.0), joint=Revolute("z"), inertia=inertia)

    link("K1", "world", (0.0, 0.0), 0.04325, (0.00092, 0.0), 2.194e-6)
    link("K2", "K1", (0.007, 0.0), 0.00365, (-0.0115, 0.0), 4.410e-7)
    link("K3", "world", (xb, yb), 0.02373, (0.01043, -0.01874), 5.255e-6)
    link("K5", "world", (xa, ya), 0.07050, (0.02308, 0.00916), 1.169e-5)
    link("K4", "K5", (0.04, 0.0), 0.00706, (0.0, -(0.02 - 0.01421)), 5.667e-7)
    link("K7", "world", (xa, ya), 0.05498, (-0.00449, -0.01228), 1.912e-5)
    link("K6", "K7", (0.0, -0.04), 0.00706, (0.02 - 0.01421, 0.0), 5.667e-7)
    end = (-0.028, 0.0, 0.0)  # the point E of K2 where three links meet
    system.loop("K2", "K3", Revolute("z"), at_a=end, at_b=(0.0, -0.035, 0.0), name="K2-K3")
    system.loop("K2", "K4", Revolute("z"), at_a=end, at_b=(0.0, -0.02, 0.0), name="K2-K4")
    system.loop("K2", "K6", Revolute("z"), at_a=end, at_b=(0.02, 0.0, 0.0), name="K2-K6")
    system.strut("world", "K3", at_a=(xc, yc, 0.0), at_b=(0.02, -0.018, 0.0), stiffness=4530.0, rest_length=0.07785)
    system.input("motor", JointForce("K1"))
    return system


def andrews_start(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """The published start: crank angle -0.0620, at rest."""
    beta, theta, gamma, phi, delta, omega, epsilon = (
        -0.0617138900142764496358948458001,
        0.0,
        0.455279819163070380255912382449,
        0.222668390165885884674473185609,
        0.487364979543842550225598953530,
        -0.222668390165885884674473185609,
        1.23054744454982119249735015568,
    )
    return model.assemble([beta, theta, gamma, delta, phi, epsilon, omega])


def bricard() -> System:
    """Bricard's mechanism: five rods (1 m, 1 kg, section 0.1 m x 0.1 m) and six revolute joints in a closed chain (problem A04).

    Counting equations gives no degree of freedom; the orthogonal axes leave one. Joints: ``rod1`` ... ``rod5``.

    >>> len(bricard().describe().joints)
    5
    """
    system = System(gravity=(0.0, -9.81, 0.0), name="bricard")
    corners = np.array([(0, 0, 0), (1, 0, 0), (1, -1, 0), (1, -1, 1), (0, -1, 1), (0, 0, 1)], dtype=float)
    axes = "yzxyzx"
    along, across = 0.1**2 / 6, (1 + 0.1**2) / 12
    for k in range(5):
        direction = corners[k + 1] - corners[k]
        moment = np.where(np.abs(direction) > 0.5, along, across)
        parent = "world" if k == 0 else f"rod{k}"
        at = corners[k] if k == 0 else corners[k] - corners[k - 1]
        inertia = Inertia(1.0, com=0.5 * direction, moment_at_com=moment)
        system.body(f"rod{k + 1}", parent=parent, at=at, joint=Revolute(axes[k]), inertia=inertia)
    system.loop("world", "rod5", Revolute(axes[5]), at_a=corners[5], at_b=corners[5] - corners[4], name="closure")
    return system


def governor() -> System:
    """The stiff flyball governor: shaft, slider, two rods with 5 kg at their ends, stiff struts to the slider (problem A05).

    Joints: ``shaft`` (about z), ``slider`` (height above the ground along the shaft), ``rod1``, ``rod2`` (angle below horizontal).

    >>> governor().describe().graph.frames
    ('world', 'shaft', 'slider', 'rod1', 'rod2')
    """
    density, half = 3000.0, 0.05
    system = System(name="governor")
    rod_mass, width = density * 1.0 * 0.01**2, 0.01
    thin, long = rod_mass * width**2 / 6, rod_mass * (1.0 + width**2) / 12
    system.body("shaft", joint=Revolute("z"), inertia=Inertia(rod_mass, (0, 0, 0.5), (long, long, thin)))
    cube = density * 0.1**3
    side = cube * 0.1**2 / 6
    system.body("slider", parent="shaft", joint=Prismatic("z"), inertia=Inertia(cube, moment_at_com=(side, side, side)))
    rod = Inertia(rod_mass, (0.5, 0, 0), (thin, long, long)) + Inertia(5.0, (1.0, 0, 0))
    for name, angle in (("rod1", 0.0), ("rod2", np.pi)):
        turn = so3.rotation_about("z", angle)
        at = se3.pose(turn, turn @ (half, 0.0, 0.0) + (0.0, 0.0, 1.0))
        system.body(name, parent="shaft", at=at, joint=Revolute("y"), inertia=rod)
        system.strut(
            "slider", name, at_a=turn @ (half, 0.0, 0.0), at_b=(0.5, 0, 0), stiffness=8e5, rest_length=0.5, damping=4e4
        )
        bar(system, name, np.zeros(3), np.array([1.0, 0.0, 0.0]), 0.012, GREY)
        system.shape(name, Sphere(0.09), (1.0, 0.0, 0.0), ACCENT)
    bar(system, "shaft", np.zeros(3), np.array([0.0, 0.0, 1.05]), 0.02, DARK)
    bar(system, "shaft", np.array([-half, 0.0, 1.0]), np.array([half, 0.0, 1.0]), 0.015, DARK)
    system.shape("slider", Box((0.1, 0.1, 0.1)), color=WHITE)
    return system


def governor_start(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Slider at 0.5 m, rods 30 degrees below the horizontal, one revolution per second about the shaft."""
    return np.array([0.0, 0.5, np.pi / 6, np.pi / 6]), np.array([2 * np.pi, 0.0, 0.0, 0.0])
