"""The two dynamics of one body in the documents, ready to simulate: scalable body (001) and unified velocities (002).

Both take gravity, forces, springs and inputs at body points. All of them act through the velocity of their point, ``x' = J(q) v``: a force F
in world axes there has the generalised force ``J^T F``, and what it does to the size of a scalable body follows without further ado.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from heavytop._arrays import Array, as_array, numbers, part, transpose
from heavytop.coordinates import UnifiedPose
from heavytop.errors import ModelError, ShapeError, wrong_shape
from heavytop.geometry import se3
from heavytop.simulate import Event, UserDynamics
from heavytop_mechanics import scalable_body as scalable, unified as unified_mechanics
from heavytop_mechanics.rigid_body import body_inertia
from heavytop_mechanics.scalable_pose import ScalablePose


class BodyWithPoints(Protocol):
    """Coordinates of one body that say where its points are."""

    def position(self, q: Array, point: Array) -> Array:
        """Where the body point is, in the world."""
        ...

    def point_jacobian(self, q: Array, point: Array) -> Array:
        """J (3, nv): the velocity of the body point in world axes is J v."""
        ...

    def turned(self, q: Array, vector: Array) -> Array:
        """A vector in body axes as one in world axes."""
        ...


def _vector3(value: Any, what: str) -> np.ndarray:
    array = numbers(value, what)
    if array.shape != (3,):
        raise wrong_shape(what, (3,), array.shape)
    if not np.all(np.isfinite(array)):
        raise ShapeError(f"{what} must be finite, got {array.tolist()}.")
    return array


@dataclass(frozen=True, eq=False)
class PointForce:
    """A force at a body point: constant, a function of the motion, or per unit of an input.

    Parameters
    ----------
    point : (3,) in body axes, m; of a scalable body before scaling.
    force : (3,) N, or a function ``fn(q, v)`` in NumPy notation that gives it.
    axes : axes of the force: "world" or "body".

    Examples
    --------
    >>> PointForce((0.0, 0.0, 0.1), (0.0, 0.0, 1.0), axes="body").axes
    'body'
    """

    point: Any
    force: Any
    axes: str = "world"

    def __post_init__(self) -> None:
        object.__setattr__(self, "point", _vector3(self.point, "point of a force"))
        if not callable(self.force):
            object.__setattr__(self, "force", _vector3(self.force, "force at a point"))
        if self.axes not in ("world", "body"):
            raise ModelError(f"axes of a force at a point must be 'world' or 'body', got {self.axes!r}.")

    def generalised(self, body: BodyWithPoints, q: Array, v: Array) -> Array:
        """J^T F (nv,)."""
        force = as_array(self.force(q, v)) if callable(self.force) else self.force
        world = force if self.axes == "world" else body.turned(q, force)
        return np.matvec(transpose(body.point_jacobian(q, self.point)), world)


@dataclass(frozen=True, eq=False)
class PointSpring:
    """A spring and damper between a body point and a point of the world.

    Parameters
    ----------
    point : (3,) in body axes, m. anchor : (3,) in the world, m.
    stiffness : N/m. rest_length : m; with 0 the force is linear in the distance, otherwise the points must not meet.
    damping : N s/m, along the spring, or with ``rest_length`` 0 against the velocity of the point.

    Examples
    --------
    >>> PointSpring((0, 0, 0), (0, 0, 1.0), stiffness=20.0).rest_length
    0.0
    """

    point: Any
    anchor: Any
    stiffness: float
    rest_length: float = 0.0
    damping: float = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "point", _vector3(self.point, "point of a spring"))
        object.__setattr__(self, "anchor", _vector3(self.anchor, "anchor of a spring"))
        for name in ("stiffness", "rest_length", "damping"):
            number = numbers(getattr(self, name), f"{name} of a spring")
            if number.shape != () or not np.isfinite(number) or number < 0:
                raise ModelError(f"{name} of a spring must be one finite, non-negative number, got {number}.")
            object.__setattr__(self, name, float(number))

    def energy(self, body: BodyWithPoints, q: Array) -> Array:
        """k (l - l0)^2 / 2."""
        away = body.position(q, self.point) - self.anchor
        square = np.vecdot(away, away)
        if not self.rest_length:
            return 0.5 * self.stiffness * square
        longer = np.sqrt(square) - self.rest_length
        return 0.5 * self.stiffness * longer * longer

    def force(self, body: BodyWithPoints, q: Array) -> Array:
        """The generalised force of the spring alone (nv,)."""
        away = body.position(q, self.point) - self.anchor
        pull = -self.stiffness * away
        if self.rest_length:
            pull = pull * (1 - self.rest_length / np.sqrt(np.vecdot(away, away)))
        return np.matvec(transpose(body.point_jacobian(q, self.point)), pull)

    def resistance(self, body: BodyWithPoints, q: Array, v: Array) -> Array:
        """The generalised force of the damper (nv,)."""
        J = body.point_jacobian(q, self.point)
        speed = np.matvec(J, v)
        if self.rest_length:
            away = body.position(q, self.point) - self.anchor
            speed = away * (np.vecdot(away, speed) / np.vecdot(away, away))
        return -self.damping * np.matvec(transpose(J), speed)


class _UnifiedPoints:
    """The points of a body in unified velocities."""

    def __init__(self, unified: UnifiedPose) -> None:
        self.unified = unified

    def position(self, q: Array, point: Array) -> Array:
        pose = self.unified.pose(q)
        return se3.position(pose) + np.matvec(se3.rotation(pose), point)

    def point_jacobian(self, q: Array, point: Array) -> Array:
        return se3.rotation(self.unified.pose(q)) @ self.unified.interpolation_matrix(point)

    def turned(self, q: Array, vector: Array) -> Array:
        return np.matvec(se3.rotation(self.unified.pose(q)), vector)


class _ScalablePoints(ScalablePose):
    """The points of a scalable body."""

    def turned(self, q: Array, vector: Array) -> Array:
        return np.matvec(self.scale_and_rotation(q)[1], vector)


class _Actions:
    """Everything that acts on a body, as generalised forces and energies."""

    def __init__(
        self,
        body: BodyWithPoints,
        mass: float,
        gravity: Any,
        forces: Sequence[PointForce],
        springs: Sequence[PointSpring],
        inputs: Mapping[str, Any],
        wrench: Callable[[Any, Array], Array],
    ) -> None:
        self.body, self.mass, self.forces, self.springs = body, mass, tuple(forces), tuple(springs)
        self.inputs, self.wrench = dict(inputs), wrench
        self.gravity = None if gravity is None else _vector3(gravity, "gravity")
        for kind, items in ((PointForce, self.forces), (PointSpring, self.springs)):
            for item in items:
                if not isinstance(item, kind):
                    raise ModelError(f"expected a heavytop_mechanics.bodies.{kind.__name__}, got {item!r}.")
        if any(
            callable(getattr(item, "force", None)) and isinstance(item, PointForce) for item in self.inputs.values()
        ):
            raise ModelError("the force of an input is constant, per unit of the input; give functions as forces=.")

    @property
    def is_conservative(self) -> bool:
        return not (self.forces or self.inputs or any(spring.damping for spring in self.springs))

    def potential(self, q: Array) -> Array:
        total: Array = 0.0
        if self.gravity is not None:
            total = total - self.mass * np.vecdot(self.gravity, self.body.position(q, np.zeros(3)))
        return total + sum((spring.energy(self.body, q) for spring in self.springs), 0.0)

    def conservative(self, q: Array, v: Array) -> Array:
        total = 0 * v
        if self.gravity is not None:
            total = total + np.matvec(transpose(self.body.point_jacobian(q, np.zeros(3))), self.mass * self.gravity)
        return total + sum((spring.force(self.body, q) for spring in self.springs), 0 * v)

    def other(self, q: Array, v: Array, u: Array | None) -> Array:
        """Forces that have no potential."""
        total = sum((force.generalised(self.body, q, v) for force in self.forces), 0 * v)
        for spring in self.springs:
            if spring.damping:
                total = total + spring.resistance(self.body, q, v)
        for k, item in enumerate(self.inputs.values()):
            one = item.generalised(self.body, q, v) if isinstance(item, PointForce) else self.wrench(item, q)
            total = total + one * u[k]  # type: ignore[index]
        return total


def scalable_body(
    mass: float,
    theta: Any,
    *,
    rigid: bool = False,
    loads: scalable.Loads | None = None,
    scaling_mass: float | None = None,
    gravity: Any = None,
    forces: Sequence[PointForce] = (),
    springs: Sequence[PointSpring] = (),
    inputs: Mapping[str, PointForce | scalable.Loads] | None = None,
    constraints: Mapping[str, Callable[[Array], Array]] | None = None,
) -> UserDynamics:
    """The scalable body, or the rigid body as its DAE (doc 001, eqs 93 to 96), about the centre of mass.

    Coordinates (r, A) and velocities (v, nu, omega) of :class:`~heavytop_mechanics.ScalablePose`. The rigid body is the scalable body under
    the constraint ``|A|^2 = 1``, whose force is recorded as the channel "lambda"; it must start with ``|A| = 1`` and ``nu = 0``. Further
    constraints are of the same kind. As the velocities are not left-invariant use ``projected_rk4``, which takes every step back onto the
    constraints, or ``energy_momentum``, which enforces them by discrete multipliers and keeps the energy. A scalable body
    whose size reaches zero ends the run with an outcome that says so.

    Parameters
    ----------
    mass : kg. theta : (3, 3) inertia in kg m^2.
    loads : constant resultants (force in world coordinates, scaling force, moment in body coordinates).
    scaling_mass : replaces tr(theta) / 2.
    gravity : (3,) acceleration of free fall in world axes, m/s^2.
    forces, springs : at body points.
    inputs : name -> force at a body point, or resultant loads, per unit of the input.
    constraints : name -> function ``g(q)`` in NumPy notation that stays zero (one number or several). The channel of this name has the
        multipliers.

    Examples
    --------
    >>> import heavytop as ht
    >>> spinning = scalable_body(1.0, np.eye(3), rigid=True)
    >>> start = (ScalablePose().neutral(), [0.0, 0, 0, 0, 0, 0, 2.0])
    >>> ht.simulate(spinning, start, until=1.0, step=0.01, integrator="energy_momentum").channels["lambda"][-1].round(9)
    np.float64(-4.0)
    """
    matrix = scalable.mass_matrix(mass, theta, scaling_mass)
    inverse = np.linalg.inv(matrix)
    body = _ScalablePoints()
    given = scalable.NO_LOADS if loads is None else loads
    acting = _Actions(body, float(mass), gravity, forces, springs, inputs or {}, lambda item, q: _loads(item).vector)
    names = tuple(inputs or ())

    def acceleration(q: Array, v: Array, u: Array | None = None) -> Array:
        force = acting.conservative(q, v) + acting.other(q, v, u)
        return scalable.acceleration(matrix, q, v, given) + np.matvec(inverse, force)

    conservative = loads is None and acting.is_conservative
    held = {"lambda": scalable.constraint, **(constraints or {})} if rigid else dict(constraints or {})
    return UserDynamics(
        ScalablePose(),
        acceleration,
        inputs=names,
        kinetic=lambda q, v: 0.5 * np.vecdot(v, np.matvec(matrix, v)),
        potential=acting.potential,
        force=None if conservative else lambda q, v, u=None: given.vector + acting.other(q, v, u),
        constraints=held,
        guards=() if rigid else (_collapse,),
        name="rigid body (DAE)" if rigid else "scalable body",
    )


def _loads(item: Any) -> scalable.Loads:
    if not isinstance(item, scalable.Loads):
        raise ModelError(f"an input of a scalable body is a PointForce or Loads per unit of it, got {item!r}.")
    return item


def _collapse(step: float) -> Event:
    """The size at the end of a step that begins here, if it went on changing as it does: below zero the body collapses."""
    return Event(
        lambda t, q, v: np.vecdot(part(q, 3, 7), part(q, 3, 7)) + step * v[3],
        name="the body collapses: its scale |A|^2 reaches zero within the next step, where the equations end",
        direction=-1,
    )


def unified_body(
    unified: UnifiedPose,
    mass: float,
    inertia: Any,
    *,
    gravity: Any = None,
    forces: Sequence[PointForce] = (),
    springs: Sequence[PointSpring] = (),
    inputs: Mapping[str, Any] | None = None,
) -> UserDynamics:
    """A rigid body in unified local velocity coordinates (doc 002, eqs 44 to 61), about the centre of mass.

    With ``rkmk4`` this is the scheme of eqs 79 to 87 with errata 2.14 to 2.16. In a system of several bodies ``ht.Free(velocity="unified")``
    gives a body the same velocities.

    Parameters
    ----------
    unified : the six velocities. mass : kg. inertia : principal moments (3,) or the matrix (3, 3), kg m^2.
    gravity : (3,) acceleration of free fall in world axes, m/s^2.
    forces, springs : at body points.
    inputs : name -> force at a body point, or wrench (6,) (force, moment) in body axes at the centre of mass, per unit of the input.

    Examples
    --------
    >>> import heavytop as ht
    >>> body = unified_body(UnifiedPose("hexahedral"), 1.0, [1.0, 2.0, 3.0])
    >>> w0 = body.coordinates.unified_velocity(np.array([0.0, 0, 0, 0.1, 2.0, 0.1]))
    >>> print(ht.simulate(body, (body.coordinates.neutral(), w0), until=1.0, step=0.01).outcome)
    finished: reached t = 1 s; the balance of energy is not monitored
    """
    J = body_inertia(mass, inertia)
    matrix = unified_mechanics.closed_mass_matrix(unified, mass, J)
    inverse = np.linalg.inv(matrix)

    def wrench(item: Any, q: Array) -> Array:
        array = numbers(item, "wrench of an input")
        if array.shape != (6,):
            raise wrong_shape(
                "wrench of an input", (6,), array.shape, "Or give a heavytop_mechanics.bodies.PointForce."
            )
        return unified_mechanics.force_of_wrench(unified, array)

    acting = _Actions(_UnifiedPoints(unified), float(mass), gravity, forces, springs, inputs or {}, wrench)

    def acceleration(q: Array, w: Array, u: Array | None = None) -> Array:
        bias = np.matvec(unified_mechanics.closed_gamma_matrix(unified, mass, J, w), w)  # eq. 51
        return np.matvec(inverse, acting.conservative(q, w) + acting.other(q, w, u) - bias)

    return UserDynamics(
        unified,
        acceleration,
        inputs=tuple(inputs or ()),
        kinetic=lambda q, w: 0.5 * np.vecdot(w, np.matvec(matrix, w)),
        potential=acting.potential,
        force=None if acting.is_conservative else lambda q, w, u=None: acting.other(q, w, u),
        name="unified body",
    )
