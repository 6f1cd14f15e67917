"""Bodies that touch: bouncing ball, billiard, rocking block, Euler's disc, rattleback, gripper, tippe top.

Contact is rigid, for ``integrator="moreau"``, except for the tippe top and Euler's disc: a contact patch and rolling resistance need compliant
contact and any other integrator.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from heavytop._arrays import Array
from heavytop.geometry import se3, so3
from heavytop.system import Box, Cylinder, Ellipsoid, Free, Inertia, JointForce, Model, Prismatic, Rim, Sphere, System

STEEL, WOOD, PAINT = "#8d99a6", "#b5803c", "#d55e00"
BALL = 0.028575
"""Radius of a billiard ball in m."""
DISC = 0.0375
"""Radius of Euler's disc in m."""


def bouncing_ball() -> System:
    """A ball of 0.1 kg and 5 cm radius that bounces, slips and rolls on a plane: friction 0.3, restitution 0.8, both parameters.

    >>> bouncing_ball().derive(native=False)
    Model('bouncing ball': nq=12, nv=6, nu=0, bodies=1)
    """
    mass, radius = 0.1, 0.05
    system = System(name="bouncing ball")
    friction, restitution = system.parameter("friction", 0.3), system.parameter("restitution", 0.8)
    inertia = Inertia(mass, moment_at_com=np.full(3, 0.4 * mass * radius**2))
    system.body("ball", joint=Free(velocity="mixed"), inertia=inertia)
    system.shape("ball", Sphere(radius), color=PAINT)
    system.ground()
    system.contact("ball", "ground", Sphere(radius), friction=friction, restitution=restitution)
    return system


def rocking_block() -> System:
    """Housner's block of 0.2 m x 0.04 m x 0.8 m that rocks on its edges without bouncing.

    >>> rocking_block().derive(native=False).body_names
    ('block',)
    """
    shape = Box((0.2, 0.04, 0.8))
    system = System(name="rocking block")
    system.body(
        "block", joint=Free(velocity="mixed"), inertia=Inertia.of(shape, density=1.0 / float(np.prod(shape.size)))
    )
    system.shape("block", shape, color=WOOD)
    system.ground(friction=0.6)
    system.contact("block", "ground", shape)
    return system


def euler_disc() -> System:
    """Euler's disc: a disc of 0.4 kg and 3.75 cm radius that rolls on its rim, faster the flatter it lies, until rolling resistance stops it.

    With the lever arm ``rolling`` of the resisting moment the root of the sine of the tilt falls by 2/3 rolling/radius sqrt(g/radius) per second.

    >>> euler_disc().derive(native=False).nv
    6
    """
    mass, radius = 0.4, DISC
    system = System(name="Euler's disc")
    inertia = Inertia(mass, moment_at_com=mass * radius**2 * np.array([0.25, 0.25, 0.5]))
    system.body("disc", joint=Free(velocity="mixed"), inertia=inertia)
    system.shape("disc", Cylinder(radius, 0.004), color=STEEL)
    system.shape("disc", Box((1.6 * radius, 0.006, 0.0044)), color=PAINT)
    system.ground(friction=0.8)
    rolling = system.parameter("rolling", 3e-4)
    soft = {"stiffness": 1e6, "exponent": 1.0, "restitution": (0.2, 0.1), "slip_speed": 0.01}
    system.contact("disc", "ground", Rim(radius), rolling=rolling, **soft)
    return system


def euler_disc_start(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Steady rolling, tilted by 0.3 rad: the centre rests, and the point of contact runs around with sqrt(4 g/(radius sin(tilt)))."""
    tilt = 0.3
    turned = np.asarray(so3.rotation_about("x", tilt))
    q, v = model.neutral(), np.zeros(6)
    q[2], q[3:12] = DISC * np.sin(tilt), turned.T.ravel()
    v[4] = -np.sqrt(4.0 * 9.81 * np.sin(tilt) / DISC)
    return q, v


def rattleback() -> System:
    """A rattleback, data of Kane and Levinson 1982: half an ellipsoid whose principal axes are turned, which reverses its spin.

    >>> rattleback().derive(native=False).nv
    6
    """
    shape = Ellipsoid((0.2, 0.03, 0.02))
    moment = np.array([[2e-4, -2e-5, 0.0], [-2e-5, 1.6e-3, 0.0], [0.0, 0.0, 1.7e-3]])
    system = System(name="rattleback")
    system.body("stone", joint=Free(), inertia=Inertia(1.0, moment_at_com=moment))
    system.shape("stone", shape, (0.0, 0.0, 0.01), WOOD)
    system.ground(friction=2.0)
    system.contact("stone", "ground", shape, at=(0.0, 0.0, 0.01))
    return system


def gripper() -> System:
    """A gripper of two pads that holds a box of 0.5 kg by friction 0.4: springs close it with 10 N, inputs are further forces of the pads.

    >>> gripper().derive(native=False).u_names
    ('left', 'right')
    """
    box = Box((0.1, 0.1, 0.1))
    system = System(name="gripper")
    system.body("box", joint=Free(), inertia=Inertia.of(box, density=500.0))
    system.shape("box", box, color=WOOD)
    for side, sign in (("left", 1.0), ("right", -1.0)):
        system.body(side, joint=Prismatic("x"), inertia=Inertia(0.1))
        system.shape(side, Box((0.02, 0.06, 0.12)), (-0.01 * sign, 0.0, 0.0), STEEL)
        system.frame(f"{side} pad", side, se3.pose(so3.rotation_about("y", sign * np.pi / 2), np.zeros(3)))
        system.contact("box", f"{side} pad", box, friction=0.4)
        system.joint_spring(side, stiffness=200.0)
        system.input(side, JointForce(side))
    return system


def gripper_start(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """The box between the pads, which are 1 cm away from it and snap shut."""
    q = model.neutral()
    q[-2:] = -0.06, 0.06
    return q, np.zeros(model.nv)


def billiard() -> System:
    """Four billiard balls of 170 g on a cloth: friction 0.2 with the cloth, 0.06 and restitution 0.95 among the balls.

    >>> billiard().derive(native=False).body_names
    ('cue', 'one', 'two', 'three')
    """
    ball, names = Sphere(BALL), ("cue", "one", "two", "three")
    system = System(name="billiard")
    inertia = Inertia(0.17, moment_at_com=np.full(3, 0.4 * 0.17 * BALL**2))
    system.ground(friction=0.2)
    for k, (name, color) in enumerate(zip(names, ("#f0ead6", "#e69f00", "#0072b2", "#d55e00"), strict=True)):
        system.body(name, joint=Free(velocity="mixed"), inertia=inertia)
        system.shape(name, ball, color=color)
        system.contact(name, "ground", ball, restitution=0.5)
        for other in names[:k]:
            system.contact(name, other, ball, against=ball, friction=0.06, restitution=0.95, name=f"{name} and {other}")
    return system


def billiard_start(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Three balls in a triangle 1 mm apart, the cue ball with 2 m/s and side spin on its way to them."""
    q, v = model.neutral().reshape(4, 12), np.zeros((4, 6))
    apart = 2.0 * BALL + 1e-3
    q[:, :3] = [(-0.5, 0.004, BALL), (0.0, 0.0, BALL), *((0.87 * apart, s * 0.5 * apart, BALL) for s in (1, -1))]
    v[0, 0], v[0, 5] = 2.0, 30.0
    return q.ravel(), v.ravel()


def tippe_top() -> System:
    """A tippe top of 6 g, data of Leine and Glocker 2003: a sphere with a low centre of mass and a stem, which turns over.

    Friction of a point would not turn it over fast; its contact is compliant with a small patch (Coulomb and Contensou).

    >>> tippe_top().derive(native=False).nv
    6
    """
    mass, radius, low, stem, above = 6e-3, 0.015, 0.003, 0.005, 0.016
    system = System(name="tippe top")
    inertia = Inertia(mass, moment_at_com=(8e-7, 8e-7, 7e-7))
    system.body("top", joint=Free(velocity="mixed"), inertia=inertia)  # at the centre of mass
    system.shape("top", Sphere(radius), (0.0, 0.0, low), WOOD)
    system.shape("top", Cylinder(0.3 * stem, 0.012), (0.0, 0.0, low + radius), PAINT)
    system.shape("top", Sphere(stem), (0.0, 0.0, low + above), PAINT)
    system.ground(friction=system.parameter("friction", 0.3))
    soft = {"stiffness": 1e5, "restitution": (0.3, 1.0), "slip_speed": 5e-3, "patch": 5e-4}
    system.contact("top", "ground", Sphere(radius), at=(0.0, 0.0, low), name="body", **soft)
    system.contact("top", "ground", Sphere(stem), at=(0.0, 0.0, low + above), name="stem", **soft)
    return system


def tippe_top_start(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """Spinning at 180 rad/s, tilted by 0.1 rad."""
    tilt = np.asarray(so3.rotation_about("x", 0.1))
    q, v = model.neutral(), np.zeros(6)
    q[3:12] = tilt.T.ravel()
    q[2], v[5] = 0.015 - 0.003 * np.cos(0.1), 180.0
    return q, v


def _dropped(model: Model) -> tuple[np.ndarray, np.ndarray]:
    """The ball 1 m above the ground, moving along and with backspin."""
    q, v = model.neutral(), np.zeros(6)
    q[2], v[0], v[4] = 1.05, 0.5, -20.0
    return q, v


def _tilted(
    axis: str, angle: float, omega: tuple[float, float, float], world: bool = True
) -> Callable[[Model], tuple[np.ndarray, np.ndarray]]:
    """A free body on the ground, turned about an axis, with an angular velocity (world axes) about its lowest point.

    ``world``: whether the linear velocity of its joint is in world axes, not in body axes.
    """

    def begin(model: Model) -> tuple[np.ndarray, np.ndarray]:
        turned = np.asarray(so3.rotation_about(axis, angle))
        q = model.neutral()
        q[3:12] = turned.T.ravel()
        q = resting_on_ground(model, q)
        gap, points, *_ = model.traced("contact_points").interpret(q, model.parameter_vector())
        arm = points.reshape(-1, 3)[int(np.argmin(gap))] - q[:3]
        velocity = np.cross(arm, omega)
        return q, np.concatenate([velocity if world else turned.T @ velocity, turned.T @ np.array(omega)])

    return begin


STARTS: dict[str, Callable[[Model], tuple[np.ndarray, np.ndarray]]] = {
    "bouncing-ball": _dropped,
    "rocking-block": _tilted("y", 0.2, (0.0, 0.0, 0.0)),
    "euler-disc": euler_disc_start,
    "rattleback": _tilted("x", np.deg2rad(0.5), (0.0, 0.0, -5.0), world=False),
    "gripper": gripper_start,
    "billiard": billiard_start,
    "tippe-top": tippe_top_start,
}


def resting_on_ground(model: Model, q: Array) -> np.ndarray:
    """The configuration q (nq,) of a free body moved along z so that its lowest point touches the ground.

    >>> model = bouncing_ball().derive(native=False)
    >>> float(resting_on_ground(model, model.neutral())[2])
    0.05
    """
    gap = model.traced("contact_points").interpret(q, model.parameter_vector())[0]
    moved = np.array(q, dtype=float)
    moved[2] -= gap.min()
    return moved
