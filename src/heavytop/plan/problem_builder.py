"""From the arguments of :func:`heavytop.plan` to a checked :class:`Problem`; whatever cannot work is said here, before a solver starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from heavytop._arrays import numbers
from heavytop.errors import PlanError, ShapeError, unknown_name, wrong_shape
from heavytop.ocp.bounds import Limits, joint_inputs, joint_states
from heavytop.ocp.inverse_inputs import needed_inputs
from heavytop.ocp.problem import Bounds, State
from heavytop.plan.constraints import Between, Constraint, Gate, Own
from heavytop.plan.costs import Cost, Distance, Effort, Jerk, OwnCost, Time
from heavytop.plan.feasibility.reach import check_ends, check_meetings
from heavytop.plan.loops import closed, followed
from heavytop.plan.problem import Phase, Problem
from heavytop.plan.time_augmented_model import Clocked, takes_time
from heavytop.system import JointLimits
from heavytop.system.constraints.scaling import CLOSED
from heavytop.system.model import Model

STEPS, MOST_STEPS = 60, 10_000
"""Intervals where none are given, and at most."""
METHODS = ("auto", "shooting", "collocation")
INPUTS = ("held", "linear")
HEAVY = 30.0
"""Input (N, N m) that an acceleration of 1 m/s^2 or 1 rad/s^2 takes, beyond which a solver counts it in such units."""
Duration = float | tuple[float, float] | str | None


def describe(
    model: Model,
    start: Any,
    goal: Any,
    duration: Duration,
    *,
    limits: Any,
    rates: Any,
    path: Sequence[Constraint],
    cost: Cost | None,
    steps: int | None,
    phases: Sequence[Phase] | None,
    inputs: str,
    parameters: Mapping[str, Any] | None,
    periodic: bool,
    reserve: float = 0.0,
    method: str = "auto",
    guessed: bool = False,
) -> Problem:
    """The problem, checked; ``guessed``: a motion is given from which the solver starts."""
    if not isinstance(model, Model):
        hint = " Call .derive() first." if hasattr(model, "derive") else ""
        raise PlanError(f"plan needs a derived model, got {type(model).__name__}.{hint}")
    if model.nu == 0:
        raise PlanError(f"{model.name!r} has no inputs: there is nothing to plan. Add system.input(...).")
    if phases is not None and steps is not None:
        raise PlanError(f"with phases=, steps belong to the phases: Phase(..., steps={steps!r}).")
    steps = STEPS if steps is None else steps
    for name, value in (("steps", steps), ("inputs", inputs), ("method", method), ("reserve", reserve)):
        check_option(name, value)
    p = model.parameter_vector(parameters)
    if p.ndim != 1:
        raise PlanError("a plan takes one value of each parameter, not batches.")
    bounds, extra = bounds_of(model, limits, rates)
    first, begin = _end(model, start, "start", parameters)
    last, end = _end(model, goal, "goal", parameters)
    if last is None and not end and not periodic:
        raise PlanError("a plan needs a goal: a configuration, a state (q, v) or constraints such as Point(frame, at).")
    path = (*_constraints(path, "path"), *extra)
    gates = tuple(c for c in path if isinstance(c, Gate))
    whole = tuple(c for c in path if not isinstance(c, Gate))
    parts = _phases(phases, gates, duration, int(steps), end)
    cost = _cost(model, cost, parts)
    if any(isinstance(term, Jerk) for _, term in cost.terms) or bounds.rate is not None:
        inputs = "linear"
    given = dict(zip(model.parameter_names, p, strict=True))
    place = _first_place(model, first, last, given)
    hover = _hover(model, place, given)
    if first is None and model.is_constrained:
        begin = (closed(model, place, given), *begin)
    every = (*whole, *begin, *(c for phase in parts for c in (*phase.path, *phase.end)))
    clocked = model.description.time is not None or _ask_for_time(every, cost)
    subject: Any = Clocked.of(model) if clocked else model
    for constraint in every:
        constraint.check(subject)
    follows = None if last is None else followed(model, last, parameters)
    if clocked:
        begun = float(p[-1]) if model.description.time is not None else 0.0
        first = None if first is None else State(np.append(first.q, begun), first.v)
        last = None if last is None else State(np.append(last.q, np.nan), last.v)
        follows = None if follows is None else np.insert(follows, model.coordinates.nv, False)
    problem = Problem(
        model=subject, parameters=p, start=first, goal=last, phases=parts, bounds=_kept_back(bounds, hover, reserve),
        cost=cost, path=whole, begin=begin, periodic=periodic, linear=inputs == "linear",
        total=None if phases is not None or not gates else span(duration), hover=hover, method=method, follows=follows,
        units=_units(model, place, given),
    )  # fmt: skip
    check_ends(problem)
    check_meetings(problem, guessed)
    return problem


def check_option(name: str, value: Any) -> None:
    """Raise a PlanError for a value that an option of a plan cannot have."""
    whole = int(value) if isinstance(value, int | np.integer) and not isinstance(value, bool) else -1
    for counted, least in (("steps", 2), ("steps of a phase", 1)):
        if name == counted and not least <= whole <= MOST_STEPS:
            raise PlanError(f"{name} must be a whole number from {least} to {MOST_STEPS}, got {value!r}.")
    if name == "inputs" and not (isinstance(value, str) and value in INPUTS):
        raise PlanError(f"inputs must be 'held' or 'linear', got {value!r}.")
    if name == "method" and not (isinstance(value, str) and value in METHODS):
        raise PlanError(f"method must be one of {', '.join(map(repr, METHODS))}, got {value!r}.")
    if name == "reserve" and not 0 <= _number(value, name) < 1:
        raise PlanError(f"reserve must be a share of the inputs, at least 0 and below 1, got {value!r}.")
    if name == "tolerance" and not 0 < _number(value, name) < np.inf:
        raise PlanError(f"tolerance must be a positive number, got {value!r}.")
    for counted, least in (("guesses", 0), ("iterations", 1)):
        if name == counted and whole < least:
            raise PlanError(f"{name} must be a whole number of at least {least}, got {value!r}.")


def _ask_for_time(constraints: Sequence[Constraint], cost: Cost) -> bool:
    """Whether a function of the user takes the time."""
    inner = [c.inner for c in constraints if isinstance(c, Own)]
    return any(map(takes_time, [*inner, *(term.inner for _, term in cost.terms if isinstance(term, OwnCost))]))


# --- states and constraints ---------------------------------------------------------------------------------------------------


def _end(model: Model, given: Any, what: str, parameters: Any) -> tuple[State | None, tuple[Constraint, ...]]:
    """A state, or constraints, or both: (state, constraints)."""
    if given is None:
        return None, ()
    if isinstance(given, Constraint):
        return None, (given,)
    if isinstance(given, State):
        given = (given.q, given.v)
    if isinstance(given, tuple | list) and given and all(isinstance(c, Constraint) for c in given):
        return None, tuple(given)
    pair = isinstance(given, tuple | list) and len(given) == 2 and np.ndim(given[0]) > 0
    q, v = given if pair else (given, np.zeros(model.nv))
    q = model.coordinates.check(numbers(q, f"{what} q"), f"{what} q of {model.name!r}")
    v = numbers(v, f"{what} v")
    if q.ndim != 1:
        raise wrong_shape(f"{what} q of {model.name!r}", (model.nq,), q.shape, "One state, without batch axes.")
    if v.shape != (model.nv,):
        names = ", ".join(model.v_names)
        raise wrong_shape(f"{what} v of {model.name!r}", (model.nv,), v.shape, f"The velocities are {names}.")
    if not np.all(np.isfinite(v)):
        raise ShapeError(f"{what} v of {model.name!r} must be finite.")
    if model.is_constrained and not (what == "goal" and model.description.time is not None):
        position, velocity, terms = model.evaluate("misses", q, v, parameters=parameters)
        if not (np.all(np.abs(position) <= CLOSED) and np.all(np.abs(velocity) <= CLOSED * (1.0 + terms))):
            missed = [np.max(np.abs(r), initial=0.0) for r in model.constraint_residuals(q, v, parameters)]
            raise PlanError(
                f"the {what} of {model.name!r} violates its loops or constraints by {max(missed):.3g}. "
                "model.assemble(q, v) gives a consistent state near a guess."
            )
    return State(q, v), ()


def _constraints(given: Any, what: str) -> tuple[Constraint, ...]:
    items = (given,) if isinstance(given, Constraint) else tuple(given)
    for item in items:
        if not isinstance(item, Constraint):
            raise PlanError(
                f"{what} takes constraints (Gate, KeepOut, KeepOutBox, KeepIn, HalfSpace, Cone, Between, Own, ...), got {item!r}."
            )
    return items


# --- bounds -------------------------------------------------------------------------------------------------------------------


def bounds_of(model: Model, limits: Any, rates: Any) -> tuple[Bounds, tuple[Constraint, ...]]:
    """Bounds of inputs and velocities, and constraints for limited coordinates."""
    u = np.full(model.nu, -np.inf), np.full(model.nu, np.inf)
    v = np.full(model.nv, -np.inf), np.full(model.nv, np.inf)
    extra: list[Constraint] = []
    if isinstance(limits, Mapping):
        known = (*model.u_names, *model.v_names, *model.q_names)
        for name, (low, high) in _by_name(model, limits).items():
            for names, sides in ((model.u_names, u), (model.v_names, v)):
                if name in names:
                    sides[0][names.index(name)], sides[1][names.index(name)] = low, high
                    break
            else:
                if name not in known:
                    raise unknown_name(f"input, velocity or coordinate of {model.name!r}", str(name), known)
                extra.append(Between(name, low, high))
    elif limits is not None:
        if isinstance(limits, tuple | list) and len(limits) != 2:
            raise PlanError(f"limits must be a pair (lower, upper) of inputs, got {len(limits)} values: {limits!r}.")
        try:
            u = _as_limits(limits).bounds(model)
        except TypeError:
            raise PlanError(
                f"limits must be a pair (lower, upper) of inputs or a mapping from names to pairs, got {limits!r}."
            ) from None
    return Bounds(u, v, None if rates is None else _rate_bounds(model, rates)), tuple(extra)


def _by_name(model: Model, limits: Mapping[Any, Any]) -> dict[Any, tuple[float, float]]:
    """Pairs by names of inputs, velocities and coordinates; what is named itself counts more than the limits of its joint."""
    pairs: dict[Any, tuple[float, float]] = {}
    for name, given in limits.items():
        if isinstance(given, JointLimits):
            pairs |= joint_inputs(model, name, given) | joint_states(model, name, given)
    return pairs | {n: _pair(n, given) for n, given in limits.items() if not isinstance(given, JointLimits)}


def _kept_back(bounds: Bounds, hover: np.ndarray, reserve: float) -> Bounds:
    """Bounds of the inputs drawn towards balance by the share ``reserve`` of the way; a side beyond which balance lies stays."""
    low, high = bounds.u
    middle = np.clip(hover, low, high)  # infinite limits stay
    towards = [np.where(np.isfinite(side), middle - side, 0.0) for side in (low, high)]
    return replace(bounds, u=(low + reserve * towards[0], high + reserve * towards[1]))


def _number(value: Any, what: str) -> float:
    """A number, or an error that names it: texts and arrays are none."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.number):
        raise PlanError(f"{what} must be a number, got {value!r}.")
    return float(value)


def _as_limits(given: Any) -> Limits:
    return given if isinstance(given, Limits) else Limits(*given)


def _pair(name: str, pair: Any) -> tuple[float, float]:
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise PlanError(f"limits of {name!r} must be a pair (lower, upper), got {pair!r}.")
    low, high = (_number(x, f"a limit of {name!r}") for x in pair)
    if low == np.inf or high == -np.inf:
        raise PlanError(f"limits of {name!r} leave no number, got {pair!r}.")
    if np.isnan(low) or np.isnan(high) or low > high:
        raise PlanError(
            f"limits of {name!r} contradict each other: the lower one {low:g} is above the upper one {high:g}."
        )
    return low, high


def _rate_bounds(model: Model, rates: Any) -> tuple[np.ndarray, np.ndarray]:
    low, high = np.full(model.nu, -np.inf), np.full(model.nu, np.inf)
    if isinstance(rates, Mapping):
        for name, pair in rates.items():
            if name not in model.u_names:
                raise unknown_name(f"input of {model.name!r}", str(name), model.u_names)
            k = model.u_names.index(name)
            low[k], high[k] = _pair(f"rate of {name}", pair)
        return low, high
    if np.ndim(rates) == 0:
        largest = _number(rates, "the largest rate of the inputs")
        if not largest > 0:
            raise PlanError(f"the largest rate of the inputs must be positive, got {rates!r}.")
        return np.full(model.nu, -largest), np.full(model.nu, largest)
    if len(rates) != 2:
        raise PlanError(
            f"rates must be a pair (lower, upper), one number or a mapping from inputs to pairs, got {rates!r}."
        )
    return _as_limits(tuple(rates)).bounds(model)


# --- phases and costs ---------------------------------------------------------------------------------------------------------


def _phases(
    given: Sequence[Phase] | None, gates: tuple[Gate, ...], duration: Duration, steps: int, end: tuple[Constraint, ...]
) -> tuple[Phase, ...]:
    if given is not None:
        if duration is not None or gates:
            raise PlanError("with phases=, durations and gates belong to the phases: Phase(..., end=[Gate(...)]).")
        parts = [p for p in given if isinstance(p, Phase)]
        if not parts or len(parts) != len(given):
            raise PlanError(f"phases must be a sequence of Phase, got {given!r}.")
        for i, phase in enumerate(parts):
            span((phase.shortest, phase.longest))
            check_option("steps of a phase", phase.steps)
            along, end_of_it = (
                _constraints(phase.path, "the path of a phase"),
                _constraints(phase.end, "the end of a phase"),
            )
            if any(isinstance(c, Gate) for c in along):
                raise PlanError("a gate is passed once, at the end of a phase: Phase(..., end=[Gate(...)]).")
            parts[i] = replace(phase, path=along, end=end_of_it)
        parts[-1] = replace(parts[-1], end=(*parts[-1].end, *end))
        return tuple(parts)
    shortest, longest = span(duration)
    if not gates:
        return (Phase(shortest, longest, steps, end=end),)
    count = len(gates) + 1
    if steps < 2 * count:
        raise PlanError(f"{len(gates)} gates make {count} phases, which need at least {2 * count} steps, got {steps}.")
    shares = np.diff(np.round(np.linspace(0, steps, count + 1)).astype(int))
    ends = [*((gate,) for gate in gates), end]
    # each phase has its own duration; their sum is bounded by the transcription
    return tuple(Phase(0.0, longest, int(n), end=e) for n, e in zip(shares, ends, strict=True))


def span(duration: Duration) -> tuple[float, float]:
    """Shortest and longest duration in s; the longest may be infinite."""
    if duration is None or duration == "free":
        return 0.0, np.inf
    if isinstance(duration, str | bool | np.bool_):
        raise PlanError(
            f"duration must be a number of seconds, a pair (shortest, longest) or 'free', got {duration!r}."
        )
    if isinstance(duration, tuple | list):
        if len(duration) != 2:
            raise PlanError(f"a duration between bounds needs two numbers, got {duration!r}.")
        low, high = (_number(x, "a bound of the duration") for x in duration)
    else:
        low = high = _number(duration, "duration")
    if not (0 <= low <= high and high > 0):
        raise PlanError(f"the duration must be positive (and shortest <= longest), got {duration!r} s.")
    if low == high and not np.isfinite(low):
        raise PlanError(f"the duration must be finite, got {duration!r}.")
    return low, high


def _cost(model: Model, cost: Cost | None, phases: tuple[Phase, ...]) -> Cost:
    free = any(phase.free for phase in phases)
    if cost is None:
        return Time() + 1e-3 * Effort() if free else Effort()
    if not isinstance(cost, Cost):
        raise PlanError(f"cost must be a cost such as Time() + 1e-3 * Effort(), got {cost!r}.")
    for _, term in cost.terms:
        term.check(model)
        if isinstance(term, Distance) and free:
            raise PlanError("the distance from a reference needs a fixed duration: give duration= in s.")
    if free and not any(isinstance(term, Time) and weight > 0 for weight, term in cost.terms):
        unbounded = any(not np.isfinite(phase.longest) for phase in phases)
        if unbounded:
            raise PlanError(
                "a free duration that costs nothing has no optimum: add Time() to the cost, or bound it with "
                "duration=(shortest, longest)."
            )
    return cost


def _first_place(model: Model, start: State | None, goal: State | None, parameters: Any) -> np.ndarray:
    """A configuration (nq,) where the motion may begin: the start, or one with closed loops, near the goal if there is one."""
    if start is not None:
        return start.q
    if model.is_constrained:
        near = None if goal is None or model.description.time is not None else goal.q
        return model.assemble(near, parameters=parameters)[0]
    return model.neutral()


def _hover(model: Model, q: np.ndarray, parameters: Any) -> np.ndarray:
    """Inputs (nu,) that come nearest to balancing the model where it starts."""
    zero = np.zeros(model.nv)
    return needed_inputs(model, q, zero, zero, parameters)


def _units(model: Model, q: np.ndarray, parameters: Any) -> np.ndarray:
    """Units (nu,) in which a solver counts the inputs: of a car of a tonne kilonewtons, so that they are of the size of its velocities."""
    still = np.zeros((1 + model.nu, model.nv))
    a = model.evaluate(
        "acceleration", np.tile(q, (len(still), 1)), still, np.eye(1 + model.nu)[:, 1:], parameters=parameters
    )
    pushed = np.max(np.abs(a[1:] - a[0]), axis=1, initial=0.0)
    needed = 1.0 / np.where(np.isfinite(pushed) & (pushed > 1e-12), pushed, 1.0)
    return np.where(needed > HEAVY, needed, 1.0)
