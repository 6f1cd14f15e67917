"""Events: zeros of functions of the motion, located to tolerance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate, is_symbolic, to_sx
from heavytop._format import Brief
from heavytop.compile import Traced, on_symbols, trace
from heavytop.errors import SimulationError
from heavytop.functions import Value
from heavytop.simulate.dynamics import Dynamics


@dataclass(frozen=True, repr=False)
class Event(Brief, Value):
    """A crossing of zero.

    Parameters
    ----------
    function : ``fn(t, q, v)`` in NumPy notation; one number.
    name : shown in the outcome.
    direction : 1 rising only, -1 falling only, 0 both.
    terminal : whether the trajectory ends there.
    tolerance : of the time in s.

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


def crossings(values: np.ndarray, events: Sequence[Event]) -> np.ndarray:
    """Rows (step, trajectory, event) where ``values`` (steps + 1, trajectories, events) cross zero between two steps."""
    before, after = values[:-1], values[1:]
    rising = (before < 0) & (after >= 0)
    falling = (before > 0) & (after <= 0)
    direction = np.array([event.direction for event in events])
    found = (rising & (direction >= 0)) | (falling & (direction <= 0))
    return np.argwhere(found)


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
        found: np.ndarray,
        before: np.ndarray,
        after: np.ndarray,
        begin: np.ndarray,
        length: np.ndarray,
        reach: Callable[[np.ndarray], Reached],
        ending: Callable[[int], Any],
    ) -> None:
        """Locate the crossings that were found in some steps and take them down.

        Parameters
        ----------
        found : (m, 2) trajectory and event of each.
        before, after : (m,) values of the event function at the ends of the step.
        begin, length : (m,) of the step in s.
        reach : times (m,) after the begin of the steps -> what is reached there.
        ending : what the time loop knows of the step of crossing k, as an object whose method ``at`` moves it to another state.
        """
        rows, which = found.T
        m = np.arange(len(rows))
        tolerance = np.array([self.events[w].tolerance for w in which])
        times = locate(lambda x: reach(x).values[m, which], before, after, tolerance, length)
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

    def forget_after(self, time: float) -> None:
        """Drop what happened later, unless it ended a trajectory."""
        self.occurrences = [o for o in self.occurrences if o.time <= time or o.terminal]

    def in_order(self) -> tuple[Occurrence, ...]:
        """All occurrences in order of time."""
        if not self.occurrences:
            return ()
        return tuple(sorted(self.occurrences, key=lambda o: o.time))


def locate(
    evaluate: Callable[[np.ndarray], np.ndarray], before: np.ndarray, after: np.ndarray, tolerance: np.ndarray, h: Any
) -> np.ndarray:
    """Times (m,) in (0, h] where m functions cross zero, by the method of Illinois safeguarded by bisection.

    Parameters
    ----------
    evaluate : values (m,) at times (m,).
    before, after : values at 0 and at h.
    tolerance : wanted width of the brackets (m,).
    """
    low, high = np.zeros(len(before)), np.zeros(len(before)) + h
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
