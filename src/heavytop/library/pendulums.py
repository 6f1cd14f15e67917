"""Pendulums (simple, double, on a cart, on a turning arm, chains) and single bodies that rotate in space."""

from __future__ import annotations

import numpy as np

from heavytop.errors import ModelError
from heavytop.geometry import se3, so3
from heavytop.system import Capsule, Cylinder, Free, Inertia, JointForce, Prismatic, Revolute, Spherical, System

WHITE, GREY, DARK, ACCENT = "#e8eaed", "#8a9099", "#2b2f36", "#d2691e"
LONGEST = 1000
"""Largest number of links of a chain: more would take minutes to derive."""


def bar(system: System, body: str, start: np.ndarray, end: np.ndarray, radius: float, color: str) -> None:
    """Add a capsule between two points (3,) of a body, unless they coincide."""
    along = np.asarray(end, dtype=float) - start
    length = float(np.linalg.norm(along))
    if length > 0.0:
        pose = se3.pose(so3.rotation_with_z(along / length), start + along / 2)
        system.shape(body, Capsule(radius, length), pose, color)


def check_links(n: int) -> None:
    """Raise a ModelError if a chain cannot have ``n`` links."""
    if not 1 <= n <= LONGEST:
        raise ModelError(f"a chain needs 1 to {LONGEST} links, got {n!r}.")


def pendulum() -> System:
    """A point mass ``m`` on a rod of length ``l`` without mass; theta = 0 hangs down, theta grows about the y axis.

    >>> pendulum().derive().equations().M
    Matrix([[l**2*m]])
    """
    system = System(name="pendulum")
    m, l, g = (system.parameter(name, value) for name, value in (("m", 1.3), ("l", 0.8), ("g", 9.81)))
    system.gravity = (0.0, 0.0, -g)
    system.body("bob", inertia=Inertia(m, com=(0.0, 0.0, -l)))
    system.connect("world", "bob", Revolute("y"), name="theta")
    system.input("tau", JointForce("theta"))
    return system


def double_pendulum() -> System:
    """Two point masses on two massless rods; theta_2 is the angle of the second rod relative to the first.

    >>> double_pendulum().derive(native=False)
    Model('double pendulum': nq=2, nv=2, nu=0, bodies=2)
    """
    system = System(name="double pendulum")
    values = {"m_1": 1.0, "m_2": 0.8, "l_1": 1.0, "l_2": 0.7, "g": 9.81}
    m_1, m_2, l_1, l_2, g = (system.parameter(*pair) for pair in values.items())
    system.gravity = (0.0, 0.0, -g)
    system.body("upper", inertia=Inertia(m_1, com=(0.0, 0.0, -l_1)))
    system.body("lower", inertia=Inertia(m_2, com=(0.0, 0.0, -l_2)))
    system.connect("world", "upper", Revolute("y"), name="theta_1")
    system.connect("upper", "lower", Revolute("y"), at=(0.0, 0.0, -l_1), name="theta_2")
    return system


def cart_pole() -> System:
    """A pole on a cart that is pushed by ``F`` along the x axis; theta = 0 is upright.

    >>> cart_pole().derive(native=False)
    Model('cart and pole': nq=2, nv=2, nu=1, bodies=2)
    """
    system = System(name="cart and pole")
    values = {"m_c": 1.0, "m_p": 0.1, "l": 0.5, "g": 9.81}
    m_c, m_p, l, g = (system.parameter(*pair) for pair in values.items())
    system.gravity = (0.0, 0.0, -g)
    system.body("cart", inertia=Inertia(m_c))
    system.body("pole", inertia=Inertia(m_p, com=(0.0, 0.0, l)))
    system.connect("world", "cart", Prismatic("x"), name="x")
    system.connect("cart", "pole", Revolute("y"), name="theta")
    system.input("F", JointForce("x"))
    return system


def furuta() -> System:
    """The rotary (Furuta) pendulum of document 004, section 4.2: theta turns the arm, alpha = 0 is the upright pendulum.

    The numbers are those of the reference data except J_p2: its 0.00125 exceeds J_p1 + J_p3, which no rigid body does.

    >>> furuta().derive(native=False)
    Model('rotary pendulum': nq=2, nv=2, nu=1, bodies=2)
    """
    system = System(name="rotary pendulum")
    values = {
        "L_r": 0.216,
        "L_p": 0.337,
        "m_r": 0.257,
        "m_p": 0.127,
        "J_r3": 0.00099829,
        "J_p1": 0.0011998,
        "J_p2": 0.0012,
    }
    values |= {"J_p3": 4e-05, "B_r": 0.0024, "B_p": 0.0024, "g": 9.81}
    L_r, L_p, m_r, m_p, J_r3, J_p1, J_p2, J_p3, B_r, B_p, g = (system.parameter(*pair) for pair in values.items())
    system.gravity = (0.0, 0.0, -g)
    # the moments 0.0002 and 0.0011 of the arm about its other axes do no work
    system.body("arm", inertia=Inertia(m_r, com=(L_r / 2, 0.0, 0.0), moment_at_com=(0.0002, 0.0011, J_r3)))
    system.body("pendulum", inertia=Inertia(m_p, com=(0.0, 0.0, L_p / 2), moment_at_com=(J_p1, J_p2, J_p3)))
    system.connect("world", "arm", Revolute("z"), name="theta")
    system.connect("arm", "pendulum", Revolute("x"), at=(L_r, 0.0, 0.0), name="alpha")
    system.dissipation(lambda q, v: 0.5 * B_r * v[0] ** 2 + 0.5 * B_p * v[1] ** 2)
    system.input("tau", JointForce("theta"))
    lengths = np.array([values["L_r"], 0.0, 0.0]), np.array([0.0, 0.0, values["L_p"]])
    system.shape("world", Cylinder(0.03, 0.12), (0.0, 0.0, -0.075), DARK)
    system.shape("arm", Cylinder(0.02, 0.03), color=GREY)
    bar(system, "arm", np.zeros(3), lengths[0], 0.008, GREY)
    bar(system, "pendulum", np.zeros(3), lengths[1], 0.006, ACCENT)
    return system


def chain(n: int = 5) -> System:
    """A chain of ``n`` identical slender rods of 1 kg and 1 m, hinged alternately about the y and x axes; each angle is relative.

    >>> chain(3).derive()
    Model('chain of 3': nq=3, nv=3, nu=0, bodies=3)
    """
    check_links(n)
    system = System(name=f"chain of {n}")
    rod = Inertia(1.0, com=(0.0, 0.0, -0.5), moment_at_com=(1 / 12, 1 / 12, 0.0005))
    for k in range(n):
        parent, at = ("world", None) if k == 0 else (f"link{k}", np.array([0.0, 0.0, -1.0]))
        system.body(f"link{k + 1}", inertia=rod)
        system.connect(parent, f"link{k + 1}", Revolute("yx"[k % 2]), at=at, name=f"theta_{k + 1}")
    return system


def heavy_top() -> System:
    """The top of Bruels, Cardona and Arnold: fixed at the origin, centre of mass at (0, 1, 0) in the body, gravity along -z.

    Its benchmark starts at R = I with the angular velocity (0, 150, -4.61538) rad/s.

    >>> heavy_top().derive(native=False)
    Model('heavy top': nq=9, nv=3, nu=0, bodies=1)
    """
    system = System(name="heavy top")
    values = {"m": 15.0, "l": 1.0, "J_1": 0.234375, "J_2": 0.46875, "J_3": 0.234375, "g": 9.81}
    m, l, J_1, J_2, J_3, g = (system.parameter(*pair) for pair in values.items())
    system.gravity = (0.0, 0.0, -g)
    system.body("top", joint=Spherical(), inertia=Inertia(m, com=(0.0, l, 0.0), moment_at_com=(J_1, J_2, J_3)))
    return system


def free_body() -> System:
    """A rigid body in free fall: position and rotation matrix, velocities in body axes, frame in the centre of mass.

    >>> free_body().derive().equations().c[3]
    -omega_y*omega_z*(J_2 - J_3)
    """
    system = System(name="free body")
    values = {"m": 1.0, "J_1": 0.012, "J_2": 0.013, "J_3": 0.021, "g": 9.81}
    m, J_1, J_2, J_3, g = (system.parameter(*pair) for pair in values.items())
    system.gravity = (0.0, 0.0, -g)
    system.body("body", joint=Free(), inertia=Inertia(m, moment_at_com=(J_1, J_2, J_3)))
    return system
