"""Feasible references of vehicles with arms: the path of the common centre of mass, and the paths of the joints.

For any joint motion the thrust accelerates the centre of mass c of all bodies together, M (c'' - g) = f b. So c takes the place of the origin
of a hull without arms: the thrust axis is along c'' - g, a heading or a side vector turns the hull about it, the joints move as prescribed,
and the hull's origin is c minus the centre of mass relative to it. Moments of the rotors and motors of the joints supply the rest exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

from heavytop._arrays import Array, as_array, concatenate, directional, scale, shape, substitute
from heavytop.control.references.curves import Curve
from heavytop.control.references.flatness import attitude_about, unit_vector
from heavytop.control.references.reference import Reference, check_regular, with_defaults
from heavytop.coordinates import Pose
from heavytop.errors import ControlError, unknown_name, wrong_shape
from heavytop.geometry import se3
from heavytop.system import Expressions, Model

SAMPLES = 401
"""Times at which a reference is checked when it is made."""
Paths = Mapping[str, Any]
"""Joint -> its coordinate: a number, (n,) numbers, or a function of time in NumPy notation."""


def tree_reference(
    model: Model,
    curve: Curve,
    joints: Paths | None = None,
    *,
    side: Any = None,
    heading: Any = None,
    attitude: Callable[[Array], Array] | None = None,
    duration: float | None = None,
    period: float | None = None,
) -> Reference:
    """Reference of a vehicle with arms, exactly feasible if the rotors supply a thrust and three moments and every joint has a motor.

    Parameters
    ----------
    model : a tree with one free body, the hull, whose rotors push along its z axis.
    curve : t -> position (3,) of the centre of mass of all bodies, in NumPy notation, four times differentiable.
    joints : coordinates of joints by name: a number or a function of time (rad, m). Others stay in their neutral position.
    side, heading : as in :func:`.flat_reference`.
    attitude : t -> rotation (3, 3) of the hull, for a fully actuated vehicle; the curve is still that of the centre of mass.
    duration, period : duration and period of the motion, s.

    Raises
    ------
    ControlError
        The attitude is undetermined somewhere: no thrust, or its axis along the side or heading vector.

    Examples
    --------
    >>> import heavytop as ht
    >>> from heavytop.control import circle
    >>> from heavytop.copters import quadcopter
    >>> system = quadcopter().describe()
    >>> system.body("arm", parent="hull", joint=ht.Revolute("y"), inertia=ht.Inertia(0.1, com=(0.0, 0.0, -0.1)))
    >>> system.input("motor", ht.JointForce("arm"))
    >>> path = tree_reference(system.derive(), circle(1.0, 1.0), {"arm": lambda t: 0.4 * np.sin(t)}, duration=6.0)
    >>> path.feasibility().largest_residual < 1e-9
    True
    """
    if sum(x is not None for x in (side, heading, attitude)) > 1:
        raise ControlError("give only one of the side vector, the heading vector and the attitude.")
    description = model.description
    hulls = [edge for edge in description.joints if edge.joint.kind == "floating"]
    if len(hulls) != 1:
        raise ControlError(f"{model.name!r} has {len(hulls)} free bodies, but a vehicle with arms has one: its hull.")
    hull, paths = hulls[0], dict(joints or {})
    known = {edge.label: edge for edge in description.joints if edge is not hull and edge.joint.coordinates.nq}
    for name in paths:
        if name not in known:
            raise unknown_name("joint", name, known)
    e = Expressions(description)
    gravity = description.gravity
    offset = with_defaults(_center(e, hull.b), model)
    one = np.asarray(1.0)

    def configuration(t: Array) -> Array:
        c = as_array(curve(t))
        if shape(c) != (3,):
            raise wrong_shape("the curve of the centre of mass", (3,), shape(c))
        if attitude is not None:
            R = attitude(t)
        else:
            force = directional(directional(c, t, one), t, one) - gravity
            R, *_ = attitude_about(unit_vector(force, np.zeros(3), np.zeros(3)), side, heading)
        rest = {label: _joint_coordinates(paths.get(label), edge, t) for label, edge in known.items()}
        # the centre of mass relative to the hull does not depend on the hull's own coordinates
        parts = [
            np.asarray(hull.joint.coordinates.neutral(), dtype=float) if edge is hull else rest[edge.label]
            for edge in description.joints
            if edge.joint.coordinates.nq
        ]
        away = substitute(offset, e.q, concatenate(*parts))
        G = se3.inverse(with_defaults(hull.at, model)) @ se3.pose(R, c - np.matvec(R, away))
        own = cast(Pose, hull.joint.coordinates).from_pose(G)
        return concatenate(
            *(own if edge is hull else rest[edge.label] for edge in description.joints if edge.joint.coordinates.nq)
        )

    reference = Reference.from_function(model, configuration, duration=duration, period=period)
    check_regular(reference, SAMPLES)
    return reference


def _center(e: Expressions, hull: str) -> Array:
    """Centre of mass (3,) of all bodies in the hull's frame."""
    total, moment = 0.0, np.zeros(3)
    for body, inertia in e.description.inertias.items():
        total = total + inertia.mass
        moment = moment + inertia.mass * se3.transform(e.kinematics.pose(hull, body), as_array(inertia.com))
    return scale(1 / total, moment, 1)


def _joint_coordinates(path: Any, edge: Any, t: Array) -> Array:
    size = edge.joint.coordinates.nq
    value = edge.joint.coordinates.neutral() if path is None else path(t) if callable(path) else path
    value = as_array(value)
    if shape(value) == () and size == 1:
        value = np.reshape(value, (1,))
    if shape(value) != (size,):
        raise wrong_shape(f"path of the joint {edge.label!r}", (size,), shape(value))
    return value
