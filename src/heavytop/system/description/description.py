"""The description of a system as plain immutable data: the input of the derivation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from heavytop._arrays import Array, Floats
from heavytop._format import Brief, counted
from heavytop.functions import Value, is_local
from heavytop.system.contacts.contact import Contact, Ground
from heavytop.system.contacts.one_sided import Inequality
from heavytop.system.description.graph import Edge, FrameGraph
from heavytop.system.description.inputs import Input
from heavytop.system.description.moments import Inertia
from heavytop.system.description.shapes import PlacedShape
from heavytop.system.dynamics.solve import at_numbers
from heavytop.system.forces.base import ForceElement
from heavytop.system.joints import Joint
from heavytop.system.joints.base import JointLimits


@dataclass(frozen=True, eq=False, repr=False)
class Parameter(Brief):
    """A named number that remains an input: its symbol and its default value; ``is_time``: the time, which a simulation sets."""

    name: str
    symbol: Array
    value: float
    is_time: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class Loop(Brief):
    """A joint between the frame ``at_a`` of a and the frame ``at_b`` of b that closes a loop of the graph.

    ``friction(twist)`` is the wrench on b per unit of the reaction force, for the twist of b relative to a, all in the joint frame.
    """

    name: str
    a: str
    b: str
    joint: Joint
    at_a: Array
    at_b: Array
    friction: Callable[[Array], Array] | None = None


@dataclass(frozen=True, eq=False, repr=False)
class FunctionConstraint(Brief):
    """A constraint given by a function: phi(q) = 0 (holonomic) or fn(q, v) = 0, linear in v plus a drift (velocity).

    ``work(q, v)`` is the nonideal part: a generalised force whose work under virtual displacements is prescribed; ``friction(q, v)`` is one
    per unit of the reaction |lam|.
    """

    name: str
    function: Callable[..., Array]
    holonomic: bool
    work: Callable[[Array, Array], Array] | None = None
    friction: Callable[[Array, Array], Array] | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Basis(Brief):
    """Minimal velocity coordinates of a constrained system: v = function(q, w) satisfies every constraint."""

    function: Callable[[Array, Array], Array]
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Description(Value):
    """A complete system: frame graph, inertias, force elements, inputs, parameters, gravity.

    Its :attr:`equations_key` finds native code of an equal system.
    """

    name: str
    gravity: Array
    graph: FrameGraph
    inertias: Mapping[str, Inertia]
    elements: tuple[ForceElement, ...]
    inputs: Mapping[str, Input]
    parameters: tuple[Parameter, ...]
    velocity: Callable[[Array, Array], Array] | None
    loops: tuple[Loop, ...] = ()
    constraints: tuple[FunctionConstraint, ...] = ()
    basis: Basis | None = None
    shapes: tuple[PlacedShape, ...] = ()
    limits: Mapping[str, JointLimits] = field(default_factory=dict)
    is_kinematic: bool = False
    """Whether it may have no inertia at all, as robot files for drawings: poses and Jacobians, no dynamics."""
    grounds: tuple[Ground, ...] = ()
    contacts: tuple[Contact, ...] = ()
    inequalities: tuple[Inequality, ...] = ()

    def __repr__(self) -> str:
        return (
            f"Description({self.name!r}: {counted(len(self.inertias), 'body')}, {counted(len(self.inputs), 'input')})"
        )

    @cached_property
    def equations_key(self) -> str | None:
        """Key of the equations, whatever the defaults of parameters, shapes, grounds and limits; None if user-defined functions take part."""
        parameters = tuple(replace(p, value=0.0) for p in self.parameters)
        found = replace(self, parameters=parameters, shapes=(), limits={}, grounds=()).key
        return None if found is None or is_local(found) else f"{self.name} {found}"

    @property
    def has_reaction_friction(self) -> bool:
        """Whether there is friction that depends on reactions."""
        return any(item.friction is not None for item in (*self.loops, *self.constraints))

    @property
    def joints(self) -> tuple[Edge, ...]:
        """Edges that carry coordinates, in order of declaration."""
        return tuple(edge for edge in self.graph.edges if edge.joint.coordinates.nq)

    @cached_property
    def time(self) -> Array | None:
        """The symbol of the time, which is the last of the parameters; None if nothing depends on it."""
        return next((p.symbol for p in self.parameters if p.is_time), None)

    def parameter_values(self) -> Floats:
        """Default values (np,)."""
        return np.array([p.value for p in self.parameters], dtype=float)


def at_defaults(value: Array, parameters: tuple[Parameter, ...], instant: float = 0.0) -> Floats:
    """A possibly symbolic array with each parameter at its default value and the time at ``instant``."""
    return at_numbers(value, [(p.symbol, instant if p.is_time else p.value) for p in parameters])
