"""From the arguments of :func:`heavytop.plan` to a checked :class:`Problem`; contradictions raise errors before a solver starts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from heavytop._arrays import numbers
from heavytop.errors import PlanError, ShapeError, wrong_shape
from heavytop.ocp import Bounds, State, input_bounds, named_limits, needed_inputs
from heavytop.plan.constraints import Between, Constraint, Gate
from heavytop.plan.costs import Cost, Distance, Effort, Jerk, Time
from heavytop.plan.loops import closed, followed
from heavytop.plan.necessary_conditions import check_ends, check_meetings
from heavytop.plan.problem import Phase, Problem
from heavytop.system import CLOSED, Model

STEPS, MOST_STEPS = 60, 10_000
"""Default and largest number of intervals."""
METHODS = ("auto", "shooting", "collocation")
INPUTS = ("held", "linear")
HEAVY = 30.0
"""Input (N, N m) per acceleration of 1 m/s^2 or 1 rad/s^2 above which a solver counts it in such units."""
Duration = float | tuple[float, float] | str | None


@dataclass(frozen=True, eq=False)
class ProblemArguments:
    """The arguments of :func:`heavytop.plan` that define the problem."""

    model: Model
    start: Any
    goal: Any = None
    duration: Duration = None
    limits: Any = None
    rates: Any = None
    reserve: float = 0.0
    path: Sequence[Constraint] = ()
    cost: Cost | None = None
    steps: int | None = None
    phases: Sequence[Phase] | None = None
    inputs: str = "held"
    method: str = "auto"
    periodic: bool = False
    parameters: Mapping[str, Any] | None = None


def build_problem(given: ProblemArguments) -> Problem:
    """The checked problem."""
    model, parameters = given.model, given.parameters
    if not isinstance(model, Model):
        hint = " Call .derive() first." if hasattr(model, "derive") else ""
        raise PlanError(f"plan needs a derived model, got {type(model).__name__}.{hint}")
    if model.nu == 0:
        raise PlanError(f"{model.name!r} has no inputs: there is nothing to plan. Add system.input(...).")
    if given.phases is not None and given.steps is not None:
        raise PlanError(f"with phases=, steps belong to the phases: Phase(..., steps={given.steps!r}).")
    steps = STEPS if given.steps is None else given.steps
    check_options(steps=steps, inputs=given.inputs, method=given.method, reserve=given.reserve)
    p = model.parameter_vector(parameters)
    if p.ndim != 1:
        raise PlanError("a plan takes one value of each parameter, not batches.")
    bounds, of_coordinates = bounds_of(model, given.limits, given.rates)
    first, begin = _end(model, given.start, "start", parameters)
    last, end = _end(model, given.goal, "goal", parameters)
    if last is None and not end and not given.periodic:
        raise PlanError("a plan needs a goal: a configuration, a state (q, v) or constraints such as Point(frame, at).")
    path = (*_constraints(given.path, "path"), *of_coordinates)
    gates = tuple(c for c in path if isinstance(c, Gate))
    whole = tuple(c for c in path if not isinstance(c, Gate))
    phases = _phases(given.phases, gates, given.duration, int(steps), end)
    cost = _cost(model, given.cost, phases)
    known = dict(zip(model.parameter_names, p, strict=True))
    q = _first_configuration(model, first, last, known)
    zero = np.zeros(model.nv)
    hover = needed_inputs(model, q, zero, zero, known)
    if first is None and model.is_constrained:
        begin = (closed(model, q, known), *begin)
    constraints = (*whole, *begin, *(c for phase in phases for c in (*phase.path, *phase.end)))
    for constraint in constraints:
        constraint.check(model)
    timed = model.description.time is not None or cost.uses_time or any(c.uses_time for c in constraints)
    follows = None if last is None else followed(model, last, parameters)
    if timed:
        start_time = float(p[-1]) if model.description.time is not None else 0.0
        first = None if first is None else State(np.append(first.q, start_time), first.v)
        last = None if last is None else State(np.append(last.q, np.nan), last.v)
        follows = None if follows is None else np.insert(follows, model.coordinates.nv, False)
    linear = any(isinstance(term, Jerk) for _, term in cost.terms) or bounds.rate is not None
    problem = Problem(
        model=model, parameters=p, start=first, goal=last, phases=phases, bounds=_reserved(bounds, hover, given.reserve),
        cost=cost, path=whole, begin=begin, periodic=given.periodic, linear=linear or given.inputs == "linear", timed=timed,
        total=None if given.phases is not None or not gates else span(given.duration), hover=hover, method=given.method,
        follows=follows, units=_units(model, q, known),
    )  # fmt: skip
    check_ends(problem)
    check_meetings(problem)
    return problem


def check_options(**options: Any) -> None:
    """Raise a PlanError for an invalid value of an option of a plan, given by its name."""
    for name, value in options.items():
        least, most = {"steps": (2, MOST_STEPS), "guesses": (0, np.inf), "iterations": (1, np.inf)}.get(name, (None, 0))
        if least is not None and not (isinstance(value, int | np.integer) and least <= value <= most):
            text = f"from {least} to {most}" if np.isfinite(most) else f"of at least {least}"
            raise PlanError(f"{name} must be a whole number {text}, got {value!r}.")
        choices = {"inputs": INPUTS, "method": METHODS}.get(name)
        if choices is not None and value not in choices:
            raise PlanError(f"{name} must be {' or '.join(map(repr, choices))}, got {value!r}.")
        if name == "reserve" and not 0 <= value < 1:
            raise PlanError(f"reserve must be a share of the inputs, at least 0 and below 1, got {value!r}.")
        if name == "tolerance" and not 0 < value < np.inf:
            raise PlanError(f"tolerance must be a positive number, got {value!r}.")


# --- states and constraints ---------------------------------------------------------------------------------------------------


def _end(model: Model, given: Any, what: str, parameters: Any) -> tuple[State | None, tuple[Constraint, ...]]:
    """State or constraints at an end: (state, constraints)."""
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
        position, velocity, terms = model.evaluate("relative_residuals", q, v, parameters=parameters)
        if not (np.all(np.abs(position) <= CLOSED) and np.all(np.abs(velocity) <= CLOSED * (1.0 + terms))):
            largest = [np.max(np.abs(r), initial=0.0) for r in model.constraint_residuals(q, v, parameters)]
            raise PlanError(
                f"the {what} of {model.name!r} violates its loops or constraints by {max(largest):.3g}. "
                "model.assemble(q, v) returns a consistent state near a guess."
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
    of_coordinates: list[Constraint] = []
    if isinstance(limits, Mapping):
        names = (*model.u_names, *model.v_names, *model.q_names)
        for name, (low, high) in named_limits(model, limits, names, error=PlanError).items():
            for entries, sides in ((model.u_names, u), (model.v_names, v)):
                if name in entries:
                    sides[0][entries.index(name)], sides[1][entries.index(name)] = low, high
                    break
            else:
                of_coordinates.append(Between(name, low, high))
    else:
        u = input_bounds(model, limits, error=PlanError) or u
    if isinstance(rates, int | float | np.number):
        if not rates > 0:
            raise PlanError(f"the largest rate of the inputs must be positive, got {rates!r}.")
        rates = (-rates, rates)
    return Bounds(u, v, input_bounds(model, rates, "rates", PlanError)), tuple(of_coordinates)


def _reserved(bounds: Bounds, hover: np.ndarray, reserve: float) -> Bounds:
    """Bounds of the inputs moved towards balance by the share ``reserve``; a side beyond which balance lies stays."""
    low, high = bounds.u
    middle = np.clip(hover, low, high)  # infinite limits stay
    towards = [np.where(np.isfinite(side), middle - side, 0.0) for side in (low, high)]
    return replace(bounds, u=(low + reserve * towards[0], high + reserve * towards[1]))


# --- phases and costs ---------------------------------------------------------------------------------------------------------


def _phases(
    given: Sequence[Phase] | None, gates: tuple[Gate, ...], duration: Duration, steps: int, end: tuple[Constraint, ...]
) -> tuple[Phase, ...]:
    if given is not None:
        if duration is not None or gates:
            raise PlanError("with phases=, durations and gates belong to the phases: Phase(..., end=[Gate(...)]).")
        parts = [check_phase(phase) for phase in given]
        if not parts:
            raise PlanError("phases must hold at least one Phase.")
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


def check_phase(phase: Phase) -> Phase:
    """The phase with its constraints as tuples; a PlanError if it is invalid."""
    span((phase.shortest, phase.longest))
    if not (isinstance(phase.steps, int | np.integer) and 1 <= phase.steps <= MOST_STEPS):
        raise PlanError(f"steps of a phase must be a whole number from 1 to {MOST_STEPS}, got {phase.steps!r}.")
    path, end = _constraints(phase.path, "the path of a phase"), _constraints(phase.end, "the end of a phase")
    if any(isinstance(c, Gate) for c in path):
        raise PlanError("a gate is passed once, at the end of a phase: Phase(..., end=[Gate(...)]).")
    return replace(phase, path=path, end=end)


def span(duration: Duration) -> tuple[float, float]:
    """Shortest and longest duration in s; the longest may be infinite."""
    if duration is None or duration == "free":
        return 0.0, np.inf
    if isinstance(duration, str) or (isinstance(duration, tuple | list) and len(duration) != 2):
        raise PlanError(
            f"duration must be a number of seconds, a pair (shortest, longest) or 'free', got {duration!r}."
        )
    low, high = map(float, duration if isinstance(duration, tuple | list) else (duration, duration))
    if not (0 <= low <= high and high > 0 and low < np.inf):
        raise PlanError(f"the duration must be positive and finite (and shortest <= longest), got {duration!r} s.")
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
    bounded = all(np.isfinite(phase.longest) for phase in phases)
    if not bounded and not any(isinstance(term, Time) and weight > 0 for weight, term in cost.terms):
        raise PlanError(
            "a free duration without cost has no optimum: add Time() to the cost, or bound it with duration=(shortest, longest)."
        )
    return cost


def _first_configuration(model: Model, start: State | None, goal: State | None, parameters: Any) -> np.ndarray:
    """A possible first configuration (nq,): the start, or one with closed loops, near the goal if there is one."""
    if start is not None:
        return start.q
    if model.is_constrained:
        near = None if goal is None or model.description.time is not None else goal.q
        return model.assemble(near, parameters=parameters)[0]
    return model.neutral()


def _units(model: Model, q: np.ndarray, parameters: Any) -> np.ndarray:
    """Units (nu,) in which a solver counts the inputs: for a car of a tonne kilonewtons, so that they have the size of its velocities."""
    still = np.zeros((1 + model.nu, model.nv))
    a = model.evaluate(
        "acceleration", np.tile(q, (len(still), 1)), still, np.eye(1 + model.nu)[:, 1:], parameters=parameters
    )
    pushed = np.max(np.abs(a[1:] - a[0]), axis=1, initial=0.0)
    needed = 1.0 / np.where(np.isfinite(pushed) & (pushed > 1e-12), pushed, 1.0)
    return np.where(needed > HEAVY, needed, 1.0)
