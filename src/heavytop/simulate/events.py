"""Events: zeros of functions of the motion, located to tolerance.

The functions are evaluated at the ends of all steps and at three points within each, where the state is interpolated (with error control also at the
distance of the records). Where these values, or parabolas through three of them, cross zero more than once, the step is evaluated again there. So two
crossings within a step are found if they are a quarter of the step apart, and closer ones of smooth functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from math import prod
from typing import Any, NamedTuple

import numpy as np

from heavytop._arrays import Array, as_array, concatenate, is_symbolic, symbol, to_sx
from heavytop._format import Brief
from heavytop.compile import Traced, on_symbols, trace, trace_of
from heavytop.errors import ModelError, SimulationError, unknown_name
from heavytop.functions import Value
from heavytop.simulate.dynamics import Dynamics
from heavytop.simulate.outcome import place_in
from heavytop.system import CompliantContact, Contact, Edge, JointLimits, Model


@dataclass(frozen=True, repr=False)
class Event(Brief, Value):
    """A zero crossing of a function of time and state.

    Parameters
    ----------
    function : ``fn(t, q, v)`` in NumPy notation; one number. Where it is NaN the run raises a SimulationError.
    name : shown in the outcome.
    direction : 1 rising only, -1 falling only, 0 both.
    terminal : whether the trajectory ends there.
    tolerance : tolerance for the time in s.

    Two crossings within a step are found if they are a quarter of the step apart, closer ones if the function is smooth.

    Examples
    --------
    >>> touch_down = Event(lambda t, q, v: q[2], name="touch-down", direction=-1)
    """

    function: Callable[[Array, Array, Array], Array]
    name: str = "event"
    direction: int = 0
    terminal: bool = True
    tolerance: float = 1e-10

    def __post_init__(self) -> None:
        if not callable(self.function):
            raise SimulationError(f"event {self.name!r} needs a function of (t, q, v), got {self.function!r}.")
        if self.direction not in (-1, 0, 1):
            raise SimulationError(f"direction of event {self.name!r} must be -1, 0 or 1, got {self.direction!r}.")
        if not isinstance(self.tolerance, int | float | np.number) or not self.tolerance > 0:
            raise SimulationError(f"tolerance of event {self.name!r} must be positive, got {self.tolerance!r}.")


@dataclass(frozen=True, repr=False)
class Occurrence(Brief):
    """One crossing: which event, when, of which trajectory, and the state there.

    ``moment`` has all that is recorded at a terminal event, until the run is saved.

    >>> Occurrence("touchdown", 1.2, (), np.zeros(1), np.zeros(1), terminal=True).time
    1.2
    """

    name: str
    time: float
    trajectory: tuple[int, ...]
    q: np.ndarray
    v: np.ndarray
    terminal: bool
    moment: Any = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Reached:
    """States (m, n) within steps, and the values (m, events) of all event functions there."""

    values: np.ndarray
    q: np.ndarray
    v: np.ndarray
    work: np.ndarray | None = None
    memory: np.ndarray | None = None


def as_events(events: Any) -> tuple[Event, ...]:
    """A tuple of events from an event, a function, or a sequence of both."""
    if events is None:
        return ()
    if isinstance(events, Event) or callable(events):
        events = (events,)
    if not isinstance(events, Iterable):
        raise SimulationError(f"events must be ht.Event, a function of (t, q, v) or several of them, got {events!r}.")
    result = []
    for number, item in enumerate(events):
        if not isinstance(item, Event):
            if not callable(item):
                raise SimulationError(f"an event must be an ht.Event or a function of (t, q, v), got {item!r}.")
            item = Event(item, name=getattr(item, "__name__", "event").replace("<lambda>", f"event{number + 1}"))
        result.append(item)
    return tuple(result)


def trace_events(events: Sequence[Event], dynamics: Dynamics) -> Traced:
    """All event functions as one: (t, q, v) -> values (n,)."""

    def values(t: Array, q: Array, v: Array) -> dict[str, Array]:
        rows = []
        for event in events:
            value = on_symbols(event.function, f"event {event.name!r}", SimulationError)(t, q, v)
            if value is None or not (is_symbolic(value) or isinstance(value, int | float | np.generic | np.ndarray)):
                raise SimulationError(f"event {event.name!r} must return one number, got {value!r}.")
            if (size := getattr(value, "shape", ())) not in ((), (1,)):
                raise SimulationError(f"event {event.name!r} must return one number, got shape {size}.")
            if _is_truth(value):
                raise SimulationError(
                    f"event {event.name!r} returns a boolean; return a number that crosses zero, "
                    "such as q[0] - 0.3 instead of q[0] < 0.3, and direction=-1 or 1."
                )
            rows.append(np.reshape(value + 0 * t, (1,)))
        return {"events": concatenate(*rows)}

    shapes = {"t": (), "q": (dynamics.nq,), "v": (dynamics.nv,)}
    return trace(values, shapes, name="events")


def _is_truth(value: Array) -> bool:
    """Whether a value is a comparison or a combination of some."""
    if not is_symbolic(value):
        return isinstance(value, bool | np.bool_)
    import casadi

    tests = (casadi.OP_LT, casadi.OP_LE, casadi.OP_EQ, casadi.OP_NE, casadi.OP_NOT, casadi.OP_AND, casadi.OP_OR)
    return any(to_sx(value).is_op(test) for test in tests)


POINTS = np.linspace(0.0, 1.0, 5)
"""Fractions of a step at which event functions are evaluated."""
GRAZED = 0.05
"""Extremum of a parabola, relative to the values it passes through, from which on it is evaluated whether the function crosses zero there."""
ROUNDS = 4
"""Extrema that are evaluated in a step."""


class Brackets(NamedTuple):
    """Intervals (m,) with one crossing each: number of the step, number of the event, fractions of the step and values at both ends."""

    step: np.ndarray
    event: np.ndarray
    low: np.ndarray
    high: np.ndarray
    before: np.ndarray
    after: np.ndarray


def crossings(
    values: np.ndarray, events: Sequence[Event], exact: Callable[[np.ndarray, np.ndarray], np.ndarray]
) -> Brackets:
    """Where the event functions cross zero in the direction of their events.

    Parameters
    ----------
    values : (m, 5, events) at :data:`POINTS` of m steps; those within may be interpolated.
    exact : steps (k,) and fractions (k,) -> values (k, events) there.
    """
    crossed = _crosses(values[:, :-1], values[:, 1:])
    once = _crosses(values[:, 0], values[:, -1]) & (crossed.sum(axis=1) == 1)
    suspect = (crossed.any(axis=1) & ~once) | _extrema(POINTS[:, None], values)[1].any(axis=1)
    step, event = np.nonzero(once & ~suspect)
    single = Brackets(step, event, 0.0 * step, 0.0 * step + 1.0, values[step, 0, event], values[step, -1, event])
    found = [single]
    step, event = np.nonzero(suspect)
    if len(step):
        x, f = np.broadcast_to(POINTS, (len(step), 5)).copy(), values[step, :, event]
        for k in (1, 2, 3):
            f[:, k] = exact(step, x[:, k])[np.arange(len(step)), event]
        for _ in range(ROUNDS):
            where, grazes, depth = _extrema(x[..., None], f[..., None])
            row = np.flatnonzero(grazes.any(axis=1))
            if not len(row):
                break
            new = where[row, np.argmin(np.where(grazes, depth, np.inf), axis=1)[row, 0], 0]
            values_there = np.full(len(step), np.nan)
            values_there[row] = exact(step[row], new)[np.arange(len(row)), event[row]]
            # all rows get a point, so that they stay equally long: the others their end again
            x = np.concatenate([x, np.ones((len(step), 1))], axis=1)
            f = np.concatenate([f, f[:, -1:]], axis=1)
            x[row, -1], f[row, -1] = new, values_there[row]
            order = np.argsort(x, axis=1, kind="stable")
            x, f = np.take_along_axis(x, order, axis=1), np.take_along_axis(f, order, axis=1)
        row, part = np.nonzero(_crosses(f[:, :-1], f[:, 1:]))
        found.append(Brackets(step[row], event[row], x[row, part], x[row, part + 1], f[row, part], f[row, part + 1]))
    result = Brackets(*(np.concatenate(parts) for parts in zip(*found, strict=True)))
    direction = np.array([event.direction for event in events])[result.event]
    wanted = np.where(result.before < 0, direction >= 0, direction <= 0)
    return Brackets(*(array[wanted] for array in result))


def _crosses(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    return ((before < 0) & (after >= 0)) | ((before > 0) & (after <= 0))


def _extrema(x: np.ndarray, f: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Vertices of parabolas through three neighbours of ``f`` (m, n, events) of one sign at ``x``: place, whether it reaches zero, depth."""
    (xa, xb, xc), (fa, fb, fc) = ((y[..., :-2, :], y[..., 1:-1, :], y[..., 2:, :]) for y in (x, f))
    sign = np.sign(fb)
    with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
        slope = (fb - fa) / (xb - xa)
        bend = ((fc - fb) / (xc - xb) - slope) / (xc - xa)
        place = 0.5 * (xa + xb) - 0.5 * slope / bend
        depth = sign * (fa + slope * (place - xa) + bend * (place - xa) * (place - xb))
        least = np.minimum(np.abs(fa), np.abs(fc))
        grazes = (sign * fa > 0) & (sign * fc > 0) & (sign * bend > 0) & (place > xa) & (place < xc)
        grazes &= depth < GRAZED * np.maximum(least, np.abs(fb))
        # a point that was evaluated is not evaluated again
        grazes &= (np.abs(place - xb) > 1e-3 * (xc - xa)) & (place - xa > 1e-6) & (xc - place > 1e-6)
        depth = depth / np.maximum(least, np.abs(fb))
    return place, grazes, depth


class EventLog:
    """Crossings of a run: looked for, located and ordered here, whatever the time loop.

    Attributes
    ----------
    occurrences : all of them.
    stopped : (trajectories,) time of the terminal event; NaN where there was none.
    endings : trajectory -> what the time loop knew at its terminal event.
    """

    def __init__(self, events: Sequence[Event], batch: Sequence[int]) -> None:
        self.events, self.batch = tuple(events), tuple(batch)
        self.stopped = np.full(prod(self.batch), np.nan) if batch else np.array([np.nan])
        self.occurrences: list[Occurrence] = []
        self.endings: dict[tuple[int, ...], Any] = {}

    def search(
        self,
        found: Brackets,
        rows: np.ndarray,
        begin: np.ndarray,
        length: np.ndarray,
        reach: Callable[[np.ndarray], Reached],
        ending: Callable[[int], Any],
    ) -> None:
        """Locate the crossings that were found in some steps and record them.

        Parameters
        ----------
        found : m of them. rows : (m,) their trajectories. begin, length : (m,) of their steps in s.
        reach : times (m,) after the begin of the steps -> what is reached there.
        ending : what the time loop knows of the step of crossing k, as an object whose method ``at`` moves it to another state.
        """
        which, m = found.event, np.arange(len(rows))
        tolerance = np.array([self.events[w].tolerance for w in which])
        times = locate(
            lambda x: reach(x).values[m, which],
            found.before,
            found.after,
            tolerance,
            found.high * length,
            found.low * length,
        )
        last = reach(times)
        now = begin + times
        for k in np.argsort(now, kind="stable"):
            if now[k] > self.stopped[rows[k]]:
                continue
            event = self.events[which[k]]
            index = tuple(int(i) for i in np.unravel_index(rows[k], self.batch)) if self.batch else ()
            moment = None
            if event.terminal:
                self.stopped[rows[k]] = now[k]
                others = (None if array is None else array[k] for array in (last.work, last.memory))
                moment = self.endings[index] = ending(k).at(last.q[k], last.v[k], *others)
            state = last.q[k], last.v[k]
            self.occurrences.append(Occurrence(event.name, float(now[k]), index, *state, event.terminal, moment))

    def check_numbers(self, values: np.ndarray, t: np.ndarray, rows: np.ndarray, valid: np.ndarray) -> None:
        """Raise if an event function (m, events) of trajectories (m,) at times (m,) is NaN at a ``valid`` state, before the trajectory ended."""
        bad = np.isnan(values) & (valid & ~(t > self.stopped[rows]))[:, None]
        if not bad.any():
            return
        k, which = np.argwhere(bad)[np.argmin(t[np.argwhere(bad)[:, 0]])]
        index = tuple(int(i) for i in np.unravel_index(rows[k], self.batch)) if self.batch else ()
        raise SimulationError(
            f"event {self.events[which].name!r} is NaN at t = {t[k]:.10g} s{place_in(index)}, so its crossings cannot be detected. Write it as a "
            "function that is a number at all states of the run (for example without roots of negative numbers)."
        )

    def forget_after(self, time: float) -> None:
        """Drop what happened later, unless it ended a trajectory."""
        self.occurrences = [o for o in self.occurrences if o.time <= time or o.terminal]

    def in_order(self) -> tuple[Occurrence, ...]:
        """All occurrences in order of time."""
        if not self.occurrences:
            return ()
        return tuple(sorted(self.occurrences, key=lambda o: o.time))


def locate(
    evaluate: Callable[[np.ndarray], np.ndarray],
    before: np.ndarray,
    after: np.ndarray,
    tolerance: np.ndarray,
    h: Any,
    start: Any = 0.0,
) -> np.ndarray:
    """Times (m,) in (start, h] where m functions cross zero, by the method of Illinois safeguarded by bisection.

    Parameters
    ----------
    evaluate : values (m,) at times (m,).
    before, after : values at start and at h.
    tolerance : wanted width of the brackets (m,).
    """
    low, high = np.zeros(len(before)) + start, np.zeros(len(before)) + h
    f_low, f_high = before.copy(), after.copy()
    for sweep in range(80):
        open_ = (high - low > tolerance) & (f_high != 0)
        if not np.any(open_):
            break
        with np.errstate(invalid="ignore", divide="ignore"):
            guess = high - f_high * (high - low) / (f_high - f_low)
        middle = 0.5 * (low + high)
        # keep a little distance from the ends, so that the bracket shrinks from both sides
        inside = (guess > low + 0.4 * tolerance) & (guess < high - 0.4 * tolerance)
        trial = np.where(inside & (sweep % 3 != 2), guess, middle)
        value = evaluate(np.where(open_, trial, high))
        same = np.sign(value) == np.sign(before)
        up, down = open_ & same, open_ & ~same
        f_high = np.where(up, 0.5 * f_high, f_high)
        low, f_low = np.where(up, trial, low), np.where(up, value, f_low)
        f_low = np.where(down, 0.5 * f_low, f_low)
        high, f_high = np.where(down, trial, high), np.where(down, value, f_high)
    return high


Measure = Callable[[Array, Array], Array]


def limit_events(
    model: Model, limits: Mapping[str, JointLimits] | None = None, *, terminal: bool = True, velocity: bool = False
) -> tuple[Event, ...]:
    """Events where a joint leaves its range: one for each end, named after the joint.

    Parameters
    ----------
    model : whose joints are watched.
    limits : joint name -> bounds; None: those of the system (``system.limits``, ``ht.Revolute("z", limits=(-1, 1))``, robot files).
    terminal : whether a run ends there.
    velocity : also watch the largest speeds.

    A run that starts beyond a limit meets the event only when it comes back and leaves again.

    Examples
    --------
    >>> import heavytop as ht
    >>> system = ht.System()
    >>> system.body("rod", joint=ht.Revolute("y", limits=(None, 0.5)), inertia=ht.Inertia(1.0, com=(0, 0, 1.0)))
    >>> model = system.derive(native=False)
    >>> [event.name for event in limit_events(model)]
    ['rod at its upper limit 0.5']
    >>> run = ht.simulate(model, ([0.1], [0.0]), until=2.0, step=0.01, events=limit_events(model))
    >>> run.events[0].name, float(run.q[-1, 0].round(6))
    ('rod at its upper limit 0.5', 0.5)
    """
    found: list[Event] = []
    edges = {edge.label: edge for edge in model.description.graph.edges if not edge.joint.is_fixed}
    for label, bound in (model.description.limits if limits is None else limits).items():
        if label not in edges:
            raise unknown_name("joint (with limits)", label, edges)
        edge = edges[label]
        if edge.joint.own_coordinates.nv != 1:
            continue
        measure = _displacement(model, edge)
        if bound.lower is not None:
            found.append(_event(f"{label} at its lower limit {bound.lower:g}", measure, bound.lower, -1, terminal))
        if bound.upper is not None:
            found.append(_event(f"{label} at its upper limit {bound.upper:g}", measure, bound.upper, 1, terminal))
        if velocity and bound.velocity is not None:
            speed = _rate(model, edge)
            for sign, word in ((-1, "negative "), (1, "")):
                name = f"{label} at its largest {word}speed {bound.velocity:g}"
                found.append(_event(name, speed, sign * bound.velocity, sign, terminal))
    return tuple(found)


def contact_events(model: Model, *names: str, gap: float | None = None, terminal: bool = False) -> tuple[Event, ...]:
    """Events where contacts close and open, rigid or compliant: "NAME touches down" and "NAME lifts off".

    Parameters
    ----------
    model : with the contacts.
    names : contacts; none: all.
    gap : distance in m below which a contact counts as closed, 1e-6 by default: a rigid contact at rest has a gap of zero up to rounding. Rigid
        contacts with restitution need it: a bounce is found if the gap is below it for a quarter of a step, so specify at least
        ``speed * step / 8``.
    terminal : whether a run ends there.

    They are located in every trajectory of a batch, like all events; ``run.contacts[name].touchdowns`` are times of records.

    Examples
    --------
    >>> import heavytop as ht
    >>> system = ht.System(name="crate")
    >>> system.body("crate", joint=ht.Prismatic("z"), inertia=ht.Inertia(2.0))
    >>> system.ground(friction=0.5)
    >>> system.contact("crate", "ground", ht.Box((0.2, 0.2, 0.2)))
    >>> model = system.derive()
    >>> run = ht.simulate(model, ([1.1], [0.0]), 1.0, 1e-3, "moreau", events=contact_events(model))
    >>> [(event.name, round(event.time, 5)) for event in run.events]  # sqrt(2/g)
    [('crate touches down', 0.45152)]
    """
    rigid = {contact.name: contact for contact in model.description.contacts}
    elements = (e.contact for e in model.description.elements if isinstance(e, CompliantContact))
    contacts = rigid | {contact.name: contact for contact in elements}
    for name in names:
        if name not in contacts:
            raise unknown_name("contact", name, contacts)
    if gap is not None and not gap > 0.0:
        raise ModelError(f"gap must be a distance above zero, for example 1e-6 m, got {gap!r}.")
    found: list[Event] = []
    for name in names or contacts:
        e = rigid[name].restitution if name in rigid else 0.0
        if gap is None and (is_symbolic(e) or np.any(e)):
            raise ModelError(
                f"contact {name!r} has restitution: it bounces within a step. Specify gap=, the distance in m below which it counts as closed, at "
                "least the speed times an eighth of the step."
            )
        measure = partial(_excess, least=_lowest_gap(model, contacts[name]), bound=1e-6 if gap is None else gap)
        for sign, what in ((-1, "touches down"), (1, "lifts off")):
            found.append(Event(measure, name=f"{name} {what}", direction=sign, terminal=terminal))
    return tuple(found)


def _excess(t: Array, q: Array, v: Array, least: Traced, bound: float) -> Array:
    return least(t, q)[0] - bound


def _lowest_gap(model: Model, contact: Contact) -> Traced:
    """(t, q) -> the smallest gap of a contact."""
    e = model.expressions
    gaps = [candidate.gap for candidate in contact.candidates(e.kinematics.pose(contact.partner, contact.body))]
    time = symbol("t") if e.description.time is None else e.description.time
    try:
        return trace_of("gap", {"t": time, "q": e.q}, {"gap": as_array(reduce(np.minimum, gaps))})
    except RuntimeError as error:
        raise ModelError(
            f"the gap of contact {contact.name!r} depends on parameters: write an event for it, ht.Event(lambda t, q, v: ...)."
        ) from error


def _event(name: str, measure: Measure, bound: float, sign: int, terminal: bool) -> Event:
    """The measure less its bound, rising through zero where the bound is exceeded."""
    return Event(lambda t, q, v: sign * (measure(q, v) - bound), name, direction=1, terminal=terminal)


def _displacement(model: Model, edge: Edge) -> Measure:
    """Displacement of a joint from its neutral configuration, rad or m."""
    joint, block = edge.joint, edge.joint.own_coordinates
    place = model.coordinates.q_slice(joint.follows or edge.label)

    def measure(q: Array, v: Array) -> Array:
        return block.difference(block.neutral(), joint.follow(q[place], v)[0])[0]

    return measure


def _rate(model: Model, edge: Edge) -> Measure:
    """The velocity of a joint, rad/s or m/s."""
    if model.description.velocity is not None or model.description.basis is not None:
        raise ModelError(f"{model.name!r} has user-defined velocity coordinates: write an event for its speeds.")
    place = model.coordinates.v_slice(edge.joint.follows or edge.label)
    return lambda q, v: edge.joint.follow(q, v[place])[1][0]
