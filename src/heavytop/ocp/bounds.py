"""Limits of inputs and bounds of states: one parser for laws, predictive control and plans.

Inputs are limited by a pair, by :class:`.Limits`, by a mapping from names to pairs, or by the joint limits of a system or a robot file
(``system.limits``). A disturbance may make bounds of states impossible, so in predictive control they are soft.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate, is_symbolic, part, shape, symbol
from heavytop._format import format_vector
from heavytop.compile import on_symbols
from heavytop.errors import ControlError, ShapeError, unknown_name, wrong_shape
from heavytop.functions import Value
from heavytop.system import WORLD, Inertia, JointForce, JointLimits, Model, at_defaults
from heavytop.system.joints import Joint

Pair = tuple[np.ndarray, np.ndarray]
Bounded = Callable[[Array, Array, Array], Array]
"""A function of (q, v, p)."""
Row = tuple[Bounded, Any, Any, str]
"""The bounded function, its lower and upper bounds, its label."""

SIDES = 4
"""Pairs of sides of the pyramid that approximates a cone."""
UPSIDE_DOWN = 1e-3
"""Least 1 + cos(tilt) of the stereographic image of a tilt."""


@dataclass(frozen=True, eq=False)
class Limits:
    """Lower and upper limits of the inputs.

    Parameters
    ----------
    lower, upper : one number for all inputs or (nu,) numbers; infinite means unlimited.
    torque_priority : weight rho of rotations relative to translations when an input is at its limit. 1 is the plain projection, with which
        an inverted vehicle falls forever; 100 recovers it; 1e4 or more is practically lexicographic. It has no effect unless a limit is
        active. None uses the metric of the prototype itself.
    inertia : body -> inertia that weights translations against rotations; None: that of the prototype.

    Examples
    --------
    >>> Limits(0.0, 6.0).lower, Limits(0.0, 6.0).upper
    (0.0, 6.0)
    """

    lower: Any
    upper: Any
    torque_priority: float | None = 100.0
    inertia: Mapping[str, Inertia] | None = None

    @classmethod
    def of(cls, given: Limits | tuple[Any, Any] | None) -> Limits | None:
        """Limits from themselves, from a pair (lower, upper), or None."""
        return given if given is None or isinstance(given, Limits) else cls(*given)

    def bounds(self, model: Model) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper limits (nu,), checked."""
        sides = []
        for name, value in (("lower", self.lower), ("upper", self.upper)):
            array = np.asarray(value, dtype=float)
            if array.shape not in ((), (model.nu,)):
                raise wrong_shape(f"{name} limits of {model.name!r}", (model.nu,), array.shape)
            if np.any(np.isnan(array)):
                raise ShapeError(f"{name} limits of {model.name!r} must be numbers, got {array.tolist()}.")
            sides.append(np.broadcast_to(array, (model.nu,)).copy())
        for name, low, high in zip(model.u_names, *sides, strict=True):
            if low > high:
                raise ControlError(f"limits of input {name!r}: the lower one {low:g} is above the upper one {high:g}.")
        if self.torque_priority is not None and not self.torque_priority > 0:
            raise ControlError(f"torque_priority must be positive, got {self.torque_priority}.")
        return sides[0], sides[1]


@dataclass(frozen=True, eq=False)
class Within(Value):
    """A function of the state with soft bounds.

    Parameters
    ----------
    function : function of (q, v) in NumPy notation; a number or (m,). lower, upper : numbers or (m,); infinite: no bound.
    label : a name for messages.
    of_parameters : the same function of (q, v, p), if it depends on parameters of the model (nominal ones in ``function``).

    Examples
    --------
    >>> import heavytop as ht
    >>> quad = ht.library.quadcopter().derive()
    >>> level = Within.cone(quad, "hull", 0.5)
    >>> floor = Within.half_space(quad, "hull", (0, 0, 1), 0.1)
    >>> level, floor
    (Within('hull' within 0.5 rad of (0, 0, 1)), Within('hull' above 0.1 m along (0, 0, 1)))
    >>> held = ht.control.mpc(quad, horizon=3, limits=(0, 9), within=[level, floor])
    """

    function: Callable[[Array, Array], Array]
    lower: Any = -np.inf
    upper: Any = np.inf
    label: str = "user-defined function"
    of_parameters: Bounded | None = None

    def __repr__(self) -> str:
        return f"Within({self.label})"

    @classmethod
    def cone(cls, model: Model, frame: str, angle: float, axis: Any = (0, 0, 1), about: Any = (0, 0, 1)) -> Within:
        """The ``axis`` of a frame stays within ``angle`` (rad, below half a turn) of the direction ``about`` of the world.

        The tilt is bounded by its stereographic image, a vector of length tan(tilt / 2), which is smooth at zero tilt and grows up to half a
        turn; the cone by an inscribed pyramid of 2 * SIDES sides, which loses at most 8 % of the angle.
        """
        if not 0 < angle < np.pi:
            raise ControlError(f"the angle of a cone must lie between 0 and pi, got {angle!r} rad.")
        own, wanted = _direction(axis, "the axis of a cone"), _direction(about, "the direction of a cone")
        pose = _pose(model, frame)
        first = _direction(np.cross(wanted, np.eye(3)[np.argmin(np.abs(wanted))]), "a side of a cone")
        turns = np.pi / SIDES * np.arange(SIDES)
        sides = np.outer(np.cos(turns), first) + np.outer(np.sin(turns), np.cross(wanted, first))

        def tilt(q: Array, v: Array, p: Array) -> Array:
            pointing = np.matvec(pose(q, p)[:3, :3], own)
            return np.matvec(sides, pointing) / np.maximum(1.0 + np.vecdot(wanted, pointing), UPSIDE_DOWN)

        most = float(np.cos(np.pi / (2 * SIDES)) * np.tan(0.5 * angle))
        return cls._of_frame(model, tilt, -most, most, f"{frame!r} within {angle:g} rad of {format_vector(about, 6)}")

    @classmethod
    def half_space(cls, model: Model, frame: str, normal: Any, distance: float, offset: Any = (0, 0, 0)) -> Within:
        """The point ``offset`` of a frame stays where ``normal . r >= distance`` (m)."""
        if not np.isfinite(distance):
            raise ControlError(f"the distance of a half-space must be finite, got {distance!r} m.")
        n, at = _direction(normal, "the normal of a half-space"), _triple(offset, "the offset of a point")
        pose = _pose(model, frame)

        def height(q: Array, v: Array, p: Array) -> Array:
            G = pose(q, p)
            return np.vecdot(n, G[:3, 3] + np.matvec(G[:3, :3], at))

        label = f"{frame!r} above {distance:g} m along {format_vector(normal, 6)}"
        return cls._of_frame(model, height, float(distance), np.inf, label)

    @classmethod
    def _of_frame(cls, model: Model, bounded: Bounded, lower: float, upper: float, label: str) -> Within:
        nominal = model.parameter_vector()
        return cls(lambda q, v: bounded(q, v, nominal), lower, upper, label, bounded)


def _triple(value: Any, what: str) -> np.ndarray:
    array = np.asarray(value, dtype=float)
    if array.shape != (3,) or not np.all(np.isfinite(array)):
        raise wrong_shape(what, (3,), array.shape, "Three finite numbers.")
    return array


def _direction(value: Any, what: str) -> np.ndarray:
    array = _triple(value, what)
    length = float(np.linalg.norm(array))
    if not length > 0:
        raise ControlError(f"{what} must have a length, got {array.tolist()}.")
    return array / length


def _pose(model: Model, frame: str) -> Callable[[Array, Array], Array]:
    traced = model.traced(f"pose:{WORLD}:{frame}")  # raises for an unknown frame
    return lambda q, p: traced.expressions(q, p)[0]


@dataclass(frozen=True, eq=False)
class StateBounds:
    """All soft bounds of states of a controller in one function.

    Attributes
    ----------
    lower, upper : (m,). labels : names for messages.
    """

    parts: tuple[tuple[Bounded, int], ...]
    lower: np.ndarray
    upper: np.ndarray
    labels: tuple[str, ...]

    @property
    def size(self) -> int:
        """Number of bounded values m."""
        return len(self.lower)

    def values(self, q: Array, v: Array, p: Array) -> Array:
        """The bounded values (m,) with the parameters p of the model."""
        return concatenate(*(np.reshape(function(q, v, p), (size,)) for function, size in self.parts))


def input_bounds(model: Model, limits: Any, what: str = "limits", error: type[Exception] = ControlError) -> Pair | None:
    """Lower and upper limits (nu,) of the inputs, infinite where unlimited; None if there are none.

    Parameters
    ----------
    limits : None, a pair (lower, upper), :class:`.Limits`, a mapping from inputs to pairs, or from joints to :class:`.JointLimits`.
    what, error : name of the argument for messages, and the class of errors.
    """
    if limits is None:
        return None
    if isinstance(limits, Mapping):
        lower, upper = np.full(model.nu, -np.inf), np.full(model.nu, np.inf)
        for name, pair in named_limits(model, limits, model.u_names, what, error).items():
            k = model.u_names.index(name)
            lower[k], upper[k] = pair
        return lower, upper
    if not isinstance(limits, Limits):
        if not isinstance(limits, Sequence | np.ndarray) or isinstance(limits, str) or len(limits) != 2:
            raise error(
                f"{what} must be a pair (lower, upper), Limits(lower, upper), a mapping such as {{{model.u_names[0]!r}: (-1, 1)}}, or joint "
                f"limits (system.limits); got {limits!r}."
            )
        limits = Limits(*limits)
    return limits.bounds(model)


def named_limits(
    model: Model,
    limits: Mapping[Any, Any],
    names: Sequence[str],
    what: str = "limits",
    error: type[Exception] = ControlError,
) -> dict[str, tuple[float, float]]:
    """Limits by name of an entry, the only parser of such mappings: for laws, predictive control and plans.

    Parameters
    ----------
    limits : entry -> pair (lower, upper), or joint -> :class:`.JointLimits`. A joint limit applies to the joint's coordinate, velocity and inputs; an
        entry given by its own name takes precedence.
    names : the entries that may be limited, from ``model.u_names``, ``model.v_names`` and ``model.q_names``. Joint limits of others are ignored.
    what, error : name of the argument for messages, and the class of errors.
    """
    expanded: dict[str, tuple[float, float]] = {}
    direct: dict[str, tuple[float, float]] = {}
    for name, given in limits.items():
        if isinstance(given, JointLimits):
            expanded |= _joint_inputs(model, name, given, what)
            if any(entry not in model.u_names for entry in names):
                for entry, (low, high) in _joint_states(model, name, given, error).items():
                    # joints that follow another one limit its coordinate, too
                    lower, upper = expanded.get(entry, (-np.inf, np.inf))
                    expanded[entry] = _pair((max(low, lower), min(high, upper)), f"{what} of {entry!r}", error)
        elif name not in names:
            raise unknown_name(f"{_kinds(model, names)} of {model.name!r} (in {what})", str(name), names)
        else:
            direct[name] = _pair(given, f"{what} of {name!r}", error)
    return {name: pair for name, pair in (expanded | direct).items() if name in names}


def _kinds(model: Model, names: Sequence[str]) -> str:
    kinds = {"input": model.u_names, "velocity": model.v_names, "coordinate": model.q_names}
    present = [kind for kind, entries in kinds.items() if not set(entries).isdisjoint(names)]
    return " or ".join(filter(None, (", ".join(present[:-1]), present[-1]))) if present else "entry"


def _joint_inputs(model: Model, name: Any, given: JointLimits, what: str = "limits") -> dict[str, tuple[float, float]]:
    """Limits of the inputs that drive a joint, by their names."""
    joints = _movable(model)
    if name not in joints:
        raise unknown_name(f"joint of {model.name!r} (in {what})", str(name), joints)
    pairs: dict[str, tuple[float, float]] = {}
    for entry, element in zip(model.u_names, model.description.inputs.values(), strict=True):
        if isinstance(element, JointForce) and element.body == name and given.effort is not None:
            most = given.effort / abs(float(element.gear))
            pairs[entry] = -most, most
    return pairs


def _movable(model: Model) -> dict[str, Joint]:
    """Joints by name: those with coordinates, and those that follow another one, such as the mimic joints of robot files."""
    edges = model.description.graph.edges
    return {edge.label: edge.joint for edge in edges if edge.joint.coordinates.nq or edge.joint.follows is not None}


def _joint_states(
    model: Model, name: Any, given: JointLimits, error: type[Exception] = ControlError
) -> dict[str, tuple[float, float]]:
    """Limits of coordinate and velocity of a joint, by their names; empty for a joint with several coordinates.

    Those of a joint that follows another one, ratio q + offset, limit the coordinate q of that one.
    """
    pairs: dict[str, tuple[float, float]] = {}
    joint = _movable(model)[name]
    source = joint.follows or name
    own = joint.follow(np.zeros(1), np.ones(1))
    offset, ratio = (float(at_defaults(x, model.description.parameters)[0]) for x in own)
    q_names = model.q_names[model.coordinates.q_slice(source)]
    if len(q_names) != 1 or ratio == 0:
        return pairs
    ends = -np.inf if given.lower is None else given.lower, np.inf if given.upper is None else given.upper
    low, high = _pair(ends, f"limits of {name!r}", error)
    if np.isfinite(low) or np.isfinite(high):
        low, high = sorted(((low - offset) / ratio, (high - offset) / ratio))
        pairs[q_names[0]] = low, high
    if given.velocity is None:
        return pairs
    if model.v_names != model.coordinates.v_names:
        raise error(
            f"the velocity of joint {name!r} is limited, but {model.name!r} has its own velocity coordinates. Limit these by their "
            f"names, such as {model.v_names[0]!r}, or limit inputs only."
        )
    speed, most = model.v_names[model.coordinates.v_slice(source)][0], given.velocity / abs(ratio)
    pairs[speed] = _pair((-most, most), f"limits of {speed!r}", error)
    return pairs


def _pair(given: Any, what: str, error: type[Exception]) -> tuple[float, float]:
    if not isinstance(given, Sequence | np.ndarray) or isinstance(given, str) or len(given) != 2:
        raise error(f"{what} must be a pair (lower, upper), got {given!r}.")
    low, high = (float(x) for x in given)
    if not low <= high or low == np.inf or high == -np.inf:
        raise error(f"{what} are empty: lower {low:g}, upper {high:g}.")
    return low, high


def state_bounds(model: Model, speeds: Any, states: Any, within: Any, limits: Any) -> StateBounds | None:
    """The soft bounds of states of a controller; None if there are none.

    Parameters
    ----------
    speeds : velocity -> pair. states : coordinate or velocity -> pair. within : :class:`Within`, or several.
    limits : those of the inputs; joint limits also bound positions and velocities.
    """
    rows: list[Row] = []
    pairs: dict[str, tuple[float, float]] = {}
    all_names = (*model.q_names, *model.v_names)
    for what, given, names in (("speeds", speeds, model.v_names), ("states", states, all_names)):
        if given is not None and not isinstance(given, Mapping):
            raise ControlError(f"{what} must map names to pairs, such as {{{names[0]!r}: (-1, 1)}}; got {given!r}.")
        for name, pair in named_limits(model, given or {}, names, what).items():
            if name in pairs:
                raise ControlError(f"{name!r} is bounded twice, in speeds and in states. Give one pair.")
            pairs[name] = pair
    if isinstance(limits, Mapping):
        joints = {name: given for name, given in limits.items() if isinstance(given, JointLimits)}
        pairs |= {n: pair for n, pair in named_limits(model, joints, all_names).items() if n not in pairs}
    rows += [(_entry(model, name), *pair, repr(name)) for name, pair in pairs.items()]
    for item in [within] if isinstance(within, Within) else within or ():
        if not isinstance(item, Within):
            raise ControlError(f"within takes Within(function, lower, upper), got {item!r}.")
        rows.append((_bounded(item), item.lower, item.upper, item.label))
    return _together(model, rows) if rows else None


def _bounded(item: Within) -> Bounded:
    if item.of_parameters is not None:
        return item.of_parameters
    function = on_symbols(item.function, item.label, ControlError)
    return lambda q, v, p: function(q, v)


def _entry(model: Model, name: str) -> Bounded:
    if name in model.q_names:
        k = model.q_names.index(name)
        return lambda q, v, p: part(q, k, k + 1)
    k = model.v_names.index(name)
    return lambda q, v, p: part(v, k, k + 1)


def _together(model: Model, rows: Sequence[Row]) -> StateBounds:
    q, v, p = symbol("q", model.nq), symbol("v", model.nv), symbol("p", len(model.parameter_names))
    parts, lowers, uppers, labels = [], [], [], []
    for function, low, high, label in rows:
        value = function(q, v, p)
        size = int(np.prod(shape(value))) if is_symbolic(value) else 0
        if not size or len(shape(value)) > 1:
            raise ControlError(f"{label} must be a number or a vector that depends on the state (q, v).")
        sides = []
        for side in (low, high):
            array = np.asarray(side, dtype=float)
            if array.shape not in ((), (size,)):
                raise wrong_shape(f"a bound of {label}", (size,), array.shape)
            sides.append(np.broadcast_to(array, (size,)))
        if np.any(np.isnan(sides)) or not np.all(sides[0] < sides[1]):
            raise ControlError(f"{label}: the lower bound {_list(low)} is not below the upper bound {_list(high)}.")
        parts.append((function, size))
        lowers.append(sides[0])
        uppers.append(sides[1])
        labels += [label] * size
    return StateBounds(tuple(parts), np.concatenate(lowers), np.concatenate(uppers), tuple(labels))


def _list(value: Any) -> Any:
    return np.asarray(value, dtype=float).tolist()
