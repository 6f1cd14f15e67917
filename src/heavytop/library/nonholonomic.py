"""Systems with velocity constraints: skates, rolling bodies, vehicles.

Each function returns a new :class:`~heavytop.system.System`. With ``minimal=True`` it has minimal velocity coordinates, so that the
constraints hold exactly; otherwise multipliers enforce them. With ``symbolic=True`` masses, moments, lengths and gravity are parameters.
"""

from __future__ import annotations

import numpy as np

from heavytop._arrays import Array, column, concatenate, part, transpose, unflatten_columns, vector
from heavytop.errors import ModelError
from heavytop.geometry import se3, so3
from heavytop.system import GRAVITY, Box, Cylinder, Free, Inertia, JointForce, Planar, Revolute, Sphere, System

FLAT = (0.0, 0.0, 0.0)
"""No gravity along the plane of motion."""
RUBBER, STEEL, WOOD, PAINT = "#2b3036", "#8d99a6", "#b5803c", "#d55e00"
ACROSS = so3.rotation_about("x", np.pi / 2)
"""Turns the axis of a cylinder to y: a wheel that rolls along x."""


def _named(system: System, symbolic: bool, **values: float) -> tuple[Array, ...]:
    """The numbers, or parameters of these names; ``g`` is also the gravity of the system."""
    made = {name: system.parameter(name, value) if symbolic else value for name, value in values.items()}
    if "g" in made:
        system.gravity = (0.0, 0.0, -made["g"])
    return tuple(made.values())


def _wheels(system: System, body: str, radius: float, width: float, *places: tuple[float, float, float]) -> None:
    """Wheels with their axes along y, each with a spoke."""
    for place in places:
        at = se3.pose(ACROSS, np.array(place))
        system.shape(body, Cylinder(radius, width), at, RUBBER)
        system.shape(body, Box((1.5 * radius, 0.2 * radius, 1.1 * width)), at, STEEL)


def skate(minimal: bool = True, symbolic: bool = False) -> System:
    """A skate on level ice: it glides along its blade and never sideways (Suslov's problem in the plane).

    >>> skate().derive(native=False)
    Model('skate': nq=3, nv=2, nu=0, bodies=1)
    """
    system = System(gravity=FLAT, name="skate")
    m, J = _named(system, symbolic, m=2.0, J=0.3)
    system.body("skate", joint=Planar(), inertia=Inertia(m, moment_at_com=(J / 2, J / 2, J)))
    system.shape("skate", Box((0.9, 0.006, 0.05)), (0.0, 0.0, 0.025), STEEL)
    system.shape("skate", Box((0.6, 0.18, 0.1)), (0.0, 0.0, 0.1), PAINT)
    system.constrain(lambda q, v: _sideways(q[2], v[0], v[1]), name="blade")
    if minimal:
        system.basis(lambda q, w: vector(w[0] * np.cos(q[2]), w[0] * np.sin(q[2]), w[1]), ("speed", "turn_rate"))
    return system


def chaplygin_sleigh(minimal: bool = True, symbolic: bool = False) -> System:
    """The modified Chaplygin sleigh of document 004: a runner b behind the centre of mass, an elastic rotor hinged there.

    Velocities (minimal): runner speed u, turn rate, rotor rate. Spring energy k1 delta^2 + k2 delta^4.

    >>> chaplygin_sleigh().derive(native=False)
    Model('chaplygin-sleigh': nq=4, nv=3, nu=0, bodies=2)
    """
    values = {"m_c": 5.0, "m_r": 1.5, "J_c": 0.4, "J_r": 0.05, "a": 0.3, "b": 0.25, "k_1": 2.0, "k_2": 1.0}
    system = System(gravity=FLAT, name="chaplygin-sleigh")
    m_c, m_r, J_c, J_r, a, b, k1, k2 = _named(system, symbolic, **values)
    system.body("sleigh", joint=Planar(), inertia=Inertia(m_c, moment_at_com=(J_c / 2, J_c / 2, J_c)))
    rotor = Inertia(m_r, com=(a, 0.0, 0.0), moment_at_com=(J_r / 2, J_r / 2, J_r))
    system.body("rotor", parent="sleigh", joint=Revolute("z"), inertia=rotor)
    system.shape("sleigh", Box((0.6, 0.35, 0.05)), (0.0, 0.0, 0.06), WOOD)
    system.shape("sleigh", Box((0.25, 0.01, 0.08)), (-values["b"], 0.0, 0.0), STEEL)
    for side in (0.15, -0.15):
        system.shape("sleigh", Sphere(0.03), (0.2, side, 0.0), RUBBER)
    length = values["a"]
    system.shape("rotor", Box((2 * length, 0.05, 0.03)), (length / 2, 0.0, 0.12), STEEL)
    system.shape("rotor", Sphere(0.06), (length, 0.0, 0.12), PAINT)
    system.potential(lambda q: k1 * q[3] ** 2 + k2 * q[3] ** 4)
    system.constrain(lambda q, v: _sideways(q[2], v[0], v[1]) - b * v[2], name="runner")

    def velocities(q: Array, w: Array) -> Array:
        c, s = np.cos(q[2]), np.sin(q[2])
        return vector(c * w[0] - b * s * w[1], s * w[0] + b * c * w[1], w[1], w[2])  # eq. 60

    if minimal:
        system.basis(velocities, ("u", "turn_rate", "rotor_rate"))
    return system


def rolling_disc(radius: float = 0.5, mass: float = 1.0, minimal: bool = True, symbolic: bool = False) -> System:
    """A thin disc that rolls upright or tilted on a level plane without slipping.

    Its axis is y of its frame, so it is upright in the neutral configuration. Minimal velocities: its angular velocity in body axes.
    The point of contact is undefined when the disc lies flat.

    >>> rolling_disc().derive(native=False)
    Model('rolling-disc': nq=12, nv=3, nu=0, bodies=1)
    """
    system = System(name="rolling-disc")
    m, r, _ = _named(system, symbolic, m=mass, r=radius, g=GRAVITY)
    moment = m * r**2 / 4
    system.body("disc", joint=Free(), inertia=Inertia(m, moment_at_com=(moment, 2 * moment, moment)))

    thickness = 0.06 * radius
    upright = se3.pose(ACROSS, np.zeros(3))
    system.shape("disc", Cylinder(radius, thickness), upright, STEEL)
    system.shape("disc", Cylinder(0.12 * radius, 2.5 * thickness), upright, RUBBER)
    system.shape("disc", Box((1.9 * radius, 0.12 * radius, 1.1 * thickness)), upright, PAINT)

    def contact(q: Array) -> Array:
        """From the centre to the lowest point of the rim, in body axes."""
        up = column(transpose(_rotation(q)), 2)  # world z in body axes
        length = np.sqrt(up[0] ** 2 + up[2] ** 2)
        return vector(-r * up[0] / length, 0.0, -r * up[2] / length)

    system.constrain(lambda q, v: v[:3] + np.cross(v[3:], contact(q)), name="rolling")
    if minimal:
        system.basis(lambda q, w: concatenate(-np.cross(w, contact(q)), w), ("omega_x", "omega_y", "omega_z"))
    return system


def rolling_ball(
    radius: float = 0.1, mass: float = 1.0, turntable: float = 0.0, minimal: bool = True, symbolic: bool = False
) -> System:
    """A homogeneous ball that rolls on a horizontal table which turns with the angular velocity ``turntable`` (rad/s).

    Its centre moves on a circle with 2/7 of the table's angular velocity.

    >>> rolling_ball().derive(native=False)
    Model('rolling-ball': nq=12, nv=3, nu=0, bodies=1)
    """
    system = System(name="rolling-ball")
    m, r, _, turn = _named(system, symbolic, m=mass, r=radius, g=GRAVITY, Omega=turntable)
    moment = 2 * m * r**2 / 5
    system.body("ball", joint=Free(velocity="mixed"), inertia=Inertia(m, moment_at_com=(moment, moment, moment)))

    system.shape("ball", Sphere(radius), color=STEEL)
    for axis in ("x", "y"):
        turned = se3.pose(so3.rotation_about(axis, np.pi / 2), np.zeros(3))
        system.shape("ball", Cylinder(1.01 * radius, 0.15 * radius), turned, PAINT)

    def velocity(q: Array, omega_body: Array) -> Array:
        """World velocity of the centre: that of the table below it, plus omega x (radius e_z)."""
        omega = np.matvec(_rotation(q), omega_body)
        return vector(-turn * q[1] + r * omega[1], turn * q[0] - r * omega[0], 0.0)

    system.constrain(lambda q, v: v[:3] - velocity(q, v[3:]), name="rolling")
    if minimal:
        system.basis(lambda q, w: concatenate(velocity(q, w), w), ("omega_x", "omega_y", "omega_z"))
    return system


def car(wheelbase: float = 2.5, minimal: bool = True, symbolic: bool = False) -> System:
    """A car in the plane: rear wheels that do not slip sideways, front wheels that steer (a bicycle model).

    Input: the steering torque ``steer``, N m; a drive force (N) is added as below. Minimal velocities: speed of the rear axle, steering rate.

    >>> car().derive(native=False)
    Model('car': nq=4, nv=2, nu=1, bodies=2)
    >>> import heavytop as ht
    >>> driven = car()
    >>> driven.input("drive", ht.Wrench("chassis", force=(1, 0, 0)))
    >>> driven.derive(native=False).u_names
    ('steer', 'drive')
    """
    if wheelbase <= 0:
        raise ModelError(f"the wheelbase of a car must be positive, got {wheelbase}.")
    system = System(gravity=FLAT, name="car")
    m, J, m_f, J_f, l = _named(system, symbolic, m=1200.0, J=1500.0, m_f=20.0, J_f=1.0, l=wheelbase)
    across = 800.0 if not symbolic else J / 2  # does no work in the plane
    system.body("chassis", joint=Planar(), inertia=Inertia(m, (0.5 * l, 0, 0), (across, across, J)))
    steering = Inertia(m_f, moment_at_com=(J_f / 2, J_f / 2, J_f))
    system.body("front", parent="chassis", at=(l, 0.0, 0.0), joint=Revolute("z"), inertia=steering)
    wheel, track = 0.13 * wheelbase, 0.3 * wheelbase
    system.shape(
        "chassis", Box((1.6 * wheelbase, 0.62 * wheelbase, 0.22 * wheelbase)), (0.5 * wheelbase, 0, 1.6 * wheel), PAINT
    )
    system.shape(
        "chassis", Box((0.75 * wheelbase, 0.55 * wheelbase, 0.2 * wheelbase)), (0.4 * wheelbase, 0, 3.2 * wheel), STEEL
    )
    for body in ("chassis", "front"):
        _wheels(system, body, wheel, 0.6 * wheel, (0.0, track, wheel), (0.0, -track, wheel))
    system.constrain(lambda q, v: _sideways(q[2], v[0], v[1]), name="rear")
    system.constrain(lambda q, v: _sideways(q[2] + q[3], v[0], v[1]) + l * np.cos(q[3]) * v[2], name="front")
    system.input("steer", JointForce("front"))
    if minimal:
        system.basis(
            lambda q, w: vector(w[0] * np.cos(q[2]), w[0] * np.sin(q[2]), w[0] * np.tan(q[3]) / l, w[1]),
            ("speed", "steer_rate"),
        )
    return system


def snakeboard(minimal: bool = False, symbolic: bool = False) -> System:
    """The snakeboard: a board with steerable wheel sets at both ends and a rotor on top, moved by shifting angular momentum.

    Inputs: rotor torque, front and back steering torque. The two wheel sets are steered independently. The constraints lose rank
    when the wheels are straight, so multipliers are the default.

    >>> snakeboard().derive(native=False)
    Model('snakeboard': nq=6, nv=6, nu=3, bodies=4)
    """
    if minimal:
        raise ModelError(
            "the snakeboard has no global minimal basis: its constraints lose rank when the wheels are straight."
        )
    half = 0.3
    system = System(gravity=FLAT, name="snakeboard")
    values = {"m": 6.0, "J": 0.2, "m_r": 2.0, "J_r": 0.16, "m_w": 0.5, "J_w": 0.003, "l": half}
    m, J, m_r, J_r, m_w, J_w, l = _named(system, symbolic, **values)
    system.body("board", joint=Planar(), inertia=Inertia(m, moment_at_com=(J / 2, J / 2, J)))
    rotor = Inertia(m_r, moment_at_com=(J_r / 2 + 0.02, J_r / 2 + 0.02, J_r))
    system.body("rotor", parent="board", joint=Revolute("z"), inertia=rotor)
    for name, x in (("front", l), ("back", -l)):
        wheels = Inertia(m_w, moment_at_com=(2 * J_w / 3, 2 * J_w / 3, J_w))
        system.body(name, parent="board", at=(x, 0.0, 0.0), joint=Revolute("z"), inertia=wheels)
        system.shape(name, Box((0.1, 0.16, 0.015)), (0.0, 0.0, 0.075), WOOD)
        system.shape(name, Cylinder(0.01, 0.18), se3.pose(ACROSS, np.array([0.0, 0.0, 0.03])), STEEL)
        _wheels(system, name, 0.03, 0.025, (0.0, 0.09, 0.03), (0.0, -0.09, 0.03))
    system.shape("board", Box((2 * half, 0.05, 0.02)), (0.0, 0.0, 0.055), WOOD)
    system.shape("rotor", Cylinder(0.2, 0.02), (0.0, 0.0, 0.14), STEEL)
    system.shape("rotor", Box((0.38, 0.03, 0.03)), (0.0, 0.0, 0.14), PAINT)
    system.shape("rotor", Cylinder(0.015, 0.07), (0.0, 0.0, 0.1), RUBBER)
    for name, x, index in (("front", l, 4), ("back", -l, 5)):
        system.constrain(
            lambda q, v, x=x, index=index: _sideways(q[2] + q[index], v[0], v[1]) + x * np.cos(q[index]) * v[2],
            name=name,
        )
    for name in ("rotor", "front", "back"):
        system.input(name, JointForce(name))
    return system


def _sideways(heading: Array, x_rate: Array, y_rate: Array) -> Array:
    """Velocity across a heading in the plane."""
    return y_rate * np.cos(heading) - x_rate * np.sin(heading)


def _rotation(q: Array) -> Array:
    """Rotation matrix of a free body with matrix attitude, the first body in q."""
    return unflatten_columns(part(q, 3, 12), 3)
