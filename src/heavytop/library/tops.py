"""Single bodies that turn in space: the heavy top and the free body."""

from __future__ import annotations

from heavytop.system import Free, Inertia, Spherical, System


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
