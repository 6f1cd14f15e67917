"""Ports, at which force elements act: between two frames, in a joint, or on all coordinates; displacements of joints."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._arrays import (
    Array,
    Floats,
    as_array,
    block,
    concatenate,
    from_columns,
    is_symbolic,
    shape,
    sparse,
    submatrix,
    substitute,
    symbol,
    to_sx,
    transpose,
)
from heavytop.coordinates import Coordinates
from heavytop.errors import ModelError, wrong_shape
from heavytop.geometry import se3, so3
from heavytop.system.description import WORLD
from heavytop.system.kinematics.kinematics import Kinematics

if TYPE_CHECKING:
    from heavytop.system.dynamics.articulated import Actions

REACHES = (0.03, 0.3, 1.0, 3.0, 30.0)
"""Distances in m at which elements between bodies are checked, both slack and taut."""


class Port(ABC):
    """A configuration x, a velocity w (n,) with w = rows v, and the forces (n,) conjugate to it."""

    def __init__(self, kinematics: Kinematics) -> None:
        self.kinematics = kinematics

    forces: str
    """Noun for the forces in messages."""
    configuration: Array
    """The argument x of elements."""
    velocity: Array
    """w (n,)."""

    @property
    @abstractmethod
    def rows(self) -> Array:
        """(n, nv) of w = rows v."""

    @property
    def size(self) -> int:
        """n."""
        return self.velocity.shape[0]

    def generalised(self, force: Array) -> Array:
        """rows^T force (nv,)."""
        return np.matvec(transpose(self.rows), force)

    @property
    @abstractmethod
    def flat(self) -> Array:
        """The configuration as a vector."""

    @abstractmethod
    def probe(self) -> Array:
        """Symbols in place of :attr:`flat`, by which an expression can be differentiated."""

    @abstractmethod
    def view(self, flat: Array) -> Array:
        """The argument x of elements from a flat configuration."""

    @abstractmethod
    def kinematics_matrix(self, flat: Array) -> Array:
        """Rate of the flat configuration per unit of each velocity."""

    @abstractmethod
    def samples(self, rng: np.random.Generator, count: int) -> Floats:
        """Random flat configurations (count, ...). Numbers."""

    @abstractmethod
    def place(self, force: Array, actions: Actions) -> None:
        """Apply a force in the recursions over the tree."""

    def neutral(self) -> Array:
        """x in the neutral configuration of the system."""
        return substitute(self.configuration, self.kinematics.q, self.kinematics.coordinates.neutral())


class PairPort(Port):
    """Frame b relative to frame a: x the pose (4, 4), w the body twist (6,), forces are wrenches on b."""

    forces = "entries, force and moment"

    def __init__(self, kinematics: Kinematics, a: str, b: str) -> None:
        super().__init__(kinematics)
        self.a, self.b = a, b
        self.motion = kinematics.motion(a, b)
        self.configuration, self.velocity = self.motion.pose, self.motion.twist

    @property
    def rows(self) -> Array:
        return self.motion.jacobian

    @property
    def flat(self) -> Array:
        return np.reshape(self.configuration[:3, :], (12,))

    def probe(self) -> Array:
        return symbol("G", 12)

    def view(self, flat: Array) -> Array:
        return np.concatenate([np.reshape(flat, (3, 4)), np.array([[0.0, 0.0, 0.0, 1.0]])], axis=0)

    def kinematics_matrix(self, flat: Array) -> Array:
        G = self.view(flat)
        return from_columns(*(np.reshape((G @ se3.wed(unit))[:3, :], (12,)) for unit in np.eye(6)))

    def samples(self, rng: np.random.Generator, count: int) -> Floats:
        reach = np.resize(REACHES, count)[:, None]
        poses = se3.pose(so3.random(rng, (count,)), reach * rng.standard_normal((count, 3)))
        return poses[:, :3, :].reshape(count, 12)

    def place(self, force: Array, actions: Actions) -> None:
        actions.wrench(self.a, self.b, force)


class JointPort(Port):
    """One joint: x its coordinates, w its parent-relative velocities."""

    forces = "forces, one for each velocity of the joint"

    def __init__(self, kinematics: Kinematics, label: str) -> None:
        super().__init__(kinematics)
        self.label = label
        self.configuration, self.velocity = kinematics.q_of[label], kinematics.relative_v[label]

    carrier: str | None = None
    """The body whose angular velocity belongs to w too, if any."""

    @cached_property
    def coordinates(self) -> Coordinates:
        """The coordinate block of the joint; for one that follows another, its block if it were independent."""
        return next(edge.joint.own_coordinates for edge in self.kinematics.edges if edge.label == self.label)

    @cached_property
    def rows(self) -> Array:
        return self.kinematics.joint_velocity_rows(self.label)

    @cached_property
    def bias(self) -> Array:
        """Rate (n,) of w at zero acceleration: d/dt(rows) v."""
        if not is_symbolic(self.velocity):
            return np.zeros(self.size)
        return self.kinematics.rate_of(self.velocity)

    def ad(self, w: Array) -> Array:
        """ad(w) (n, n) of the joint's velocities: ad(w) y = [w, y], with entries gamma^k_ij w^i (eq. 2.19)."""
        gamma = self.coordinates.commutation(self.configuration)
        return transpose(from_columns(*(np.matvec(transpose(g), w) for g in gamma)))

    @property
    def flat(self) -> Array:
        return self.configuration

    @cached_property
    def _probe(self) -> Array:
        is_plain = is_symbolic(self.configuration) and to_sx(self.configuration).is_valid_input()
        return self.configuration if is_plain else symbol("x", self.coordinates.nq)

    def probe(self) -> Array:
        return self._probe

    def view(self, flat: Array) -> Array:
        return flat

    def kinematics_matrix(self, flat: Array) -> Array:
        return self.coordinates.kinematics_matrix(flat)

    def samples(self, rng: np.random.Generator, count: int) -> Floats:
        return self.coordinates.random(rng, (count,))

    def place(self, force: Array, actions: Actions) -> None:
        actions.joint(self.label, force)

    def neutral(self) -> Any:
        return self.coordinates.neutral()


class RotorPort(JointPort):
    """A joint and a body: w are the velocities (n,) of the joint and the angular velocity (3,) of the body in its own axes."""

    forces = "forces, one for each velocity of the joint, and a moment"

    def __init__(self, kinematics: Kinematics, label: str, carrier: str) -> None:
        super().__init__(kinematics, label)
        self.carrier, self.motion = carrier, kinematics.motion(WORLD, carrier)
        self.joint_velocity = self.velocity
        self.velocity = concatenate(self.joint_velocity, self.motion.twist[3:])

    @property
    def joint_size(self) -> int:
        """n."""
        return self.joint_velocity.shape[0]

    @cached_property
    def rows(self) -> Array:
        turning = submatrix(self.motion.jacobian, slice(3, 6), slice(None))
        return sparse(np.concatenate([self.kinematics.joint_velocity_rows(self.label), turning], axis=0))

    @cached_property
    def bias(self) -> Array:
        own = np.zeros(self.joint_size)
        if is_symbolic(self.joint_velocity):
            own = self.kinematics.rate_of(self.joint_velocity)
        return concatenate(own, self.motion.bias[3:])

    def ad(self, w: Array) -> Array:
        """ad (n + 3, n + 3): that of the joint, and the cross product."""
        n = self.joint_size
        return block([[super().ad(w[:n]), np.zeros((n, 3))], [np.zeros((3, n)), so3.wed(w[n:])]])

    def place(self, force: Array, actions: Actions) -> None:
        n = self.joint_size
        actions.joint(self.label, force[:n])
        actions.wrench(WORLD, str(self.carrier), concatenate(np.zeros(3), force[n:]))


class SystemPort(Port):
    """All coordinates q and the joints' own velocities v."""

    forces = "generalised forces, one for each velocity coordinate of the joints"

    def __init__(self, kinematics: Kinematics) -> None:
        super().__init__(kinematics)
        self.configuration, self.velocity = kinematics.q, kinematics.own_v

    @property
    def rows(self) -> Array:
        return self.kinematics.by_model_velocity(self.kinematics.own_rows)

    def generalised(self, force: Array) -> Array:
        return self.kinematics.pulled_back(force)

    @property
    def flat(self) -> Array:
        return self.configuration

    def probe(self) -> Array:
        return self.configuration

    def view(self, flat: Array) -> Array:
        return flat

    def kinematics_matrix(self, flat: Array) -> Array:
        return self.kinematics.own_kinematics_matrix

    def samples(self, rng: np.random.Generator, count: int) -> Floats:
        return self.kinematics.coordinates.random(rng, (count,))

    def place(self, force: Array, actions: Actions) -> None:
        actions.generalised(self.kinematics.on_joints(force))

    def neutral(self) -> Any:
        return self.kinematics.coordinates.neutral()


class StatePort(Port):
    """Another port and the states s of an element (:mod:`heavytop.system.forces.inner`): x is that of the port, w its velocity and s."""

    def __init__(self, outer: Port, label: str) -> None:
        super().__init__(outer.kinematics)
        self.outer, self.inner = outer, JointPort(outer.kinematics, label)
        self.forces = f"{outer.forces}, then one for each state"
        self.configuration = outer.configuration
        self.velocity = concatenate(outer.velocity, self.inner.velocity)

    @cached_property
    def rows(self) -> Array:
        return sparse(np.concatenate([self.outer.rows, self.inner.rows], axis=0))

    @property
    def flat(self) -> Array:
        return self.outer.flat

    def probe(self) -> Array:
        return self.outer.probe()

    def view(self, flat: Array) -> Array:
        return self.outer.view(flat)

    def kinematics_matrix(self, flat: Array) -> Array:
        A = self.outer.kinematics_matrix(flat)
        return np.concatenate([A, np.zeros((A.shape[0], self.inner.size))], axis=1)

    def samples(self, rng: np.random.Generator, count: int) -> Floats:
        return self.outer.samples(rng, count)

    def place(self, force: Array, actions: Actions) -> None:
        self.outer.place(force[: self.outer.size], actions)
        self.inner.place(force[self.outer.size :], actions)

    def neutral(self) -> Any:
        return self.outer.neutral()


def spread(value: Any, size: int, what: str) -> Array:
    """One value for each velocity of a joint (n,), from one number, or symbol, or from n."""
    value = as_array(value)
    if shape(value) == ():
        return value * np.ones(size)
    if shape(value) != (size,):
        raise wrong_shape(what, (size,), shape(value), "Give one number, or one for each velocity of the joint.")
    return value


class Displacement:
    """delta (n,) with ``retract(rest, delta) = q`` and its rate ``delta' = T(delta) w``."""

    def __init__(self, coordinates: Coordinates, rest: Array) -> None:
        self.coordinates = coordinates
        self.rest = coordinates.retract(coordinates.neutral(), rest)

    @classmethod
    def at(cls, port: Port, rest: Any, what: str) -> Displacement:
        """From the rest position ``rest`` of the joint at a port: a displacement from its neutral configuration."""
        if not isinstance(port, JointPort) or not port.coordinates.is_group:
            raise ModelError(
                f"{what} measures a displacement, which this joint's coordinates do not provide. Use an energy instead: "
                "system.potential(lambda q: ...), or your own ht.JointElement."
            )
        return cls(port.coordinates, spread(rest, port.size, f"rest of {what}"))

    def of(self, q: Array) -> Array:
        """delta (n,); at most half a turn for rotations."""
        return self.coordinates.difference(self.rest, q)

    def rate(self, delta: Array, w: Array) -> Array:
        """T(delta) w (n,)."""
        return self.coordinates.tangent_inverse(delta, w)

    def pulled_back(self, delta: Array, force: Array) -> Array:
        """T(delta)^T force (n,): a force on the displacement as one on the velocities."""
        columns = [self.rate(delta, unit) for unit in np.eye(shape(delta)[0])]
        return np.matvec(np.swapaxes(from_columns(*columns), -1, -2), force)
