"""Systems with rigid contact, for ``integrator="moreau"``: a bouncing ball, a rocking block, Euler's disc, a rattleback, a gripper."""

from __future__ import annotations

import numpy as np

from heavytop._arrays import Array
from heavytop.geometry import se3, so3
from heavytop.system import Box, Cylinder, Ellipsoid, Free, Inertia, JointForce, Model, Prismatic, Rim, Sphere, System

STEEL, WOOD, PAINT = "#8d99a6", "#b5803c", "#d55e00"


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
    """Euler's disc: a disc of 0.4 kg and 3.75 cm radius that spins on its rim and settles.

    >>> euler_disc().derive(native=False).nv
    6
    """
    mass, radius = 0.4, 0.0375
    system = System(name="Euler's disc")
    inertia = Inertia(mass, moment_at_com=mass * radius**2 * np.array([0.25, 0.25, 0.5]))
    system.body("disc", joint=Free(velocity="mixed"), inertia=inertia)
    system.shape("disc", Cylinder(radius, 0.004), color=STEEL)
    system.shape("disc", Box((1.6 * radius, 0.006, 0.0044)), color=PAINT)
    system.ground(friction=0.8)
    system.contact("disc", "ground", Rim(radius))
    return system


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
    """A gripper of two pads that holds a box of 0.5 kg by friction 0.4; inputs are the forces of the pads.

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
        system.input(side, JointForce(side))
    return system


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
