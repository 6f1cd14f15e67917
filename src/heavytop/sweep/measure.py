"""Measures of runs: numbers with units and names, one row for each trajectory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from heavytop.errors import SweepError, unknown_name
from heavytop.simulate import Ending, Run
from heavytop.sweep.grid import RESERVED

AT_EVENTS = (Ending.event, Ending.ended)
"""Endings at a zero of a function: a user-defined event, or the end of the equations."""
_OTHER_NAMES = {"z": "memory", "residual": "residual"}
"""Channels of a run that the time loop keeps by itself."""


class EventEnds(NamedTuple):
    """Trajectories that ended at an event: their places in the batch, and a run with one record of each, in this order."""

    places: tuple[np.ndarray, ...]
    run: Any


def at_events(run: Any) -> EventEnds | None:
    """Of a batch, or of something that has its attributes and is made again by ``with_run``; None if no trajectory ended at an event.

    Examples
    --------
    >>> import heavytop as ht
    >>> model = ht.library.load("pendulum").derive()
    >>> start = [[-0.1], [-0.2], [0.3]], [1.0]
    >>> run = ht.simulate(model, start, until=0.1, step=0.06, events=lambda t, q, v: q[0] + 0.05)
    >>> ends = at_events(run)
    >>> ends.places[0].tolist(), ends.run.q.round(6).tolist(), ends.run.energy.shape
    ([0], [[-0.05]], (1,))
    """
    if not run.events or not run.batch:
        return None
    found = {o.trajectory: o for o in reversed(run.events) if o.terminal}
    ended = [o for index, o in found.items() if run.outcomes[index].ending in AT_EVENTS]
    if not ended:
        return None
    places = tuple(np.array([o.trajectory for o in ended]).T)
    times = np.array([o.time for o in ended])
    before = np.maximum(np.searchsorted(run.t, times, side="right") - 1, 0)

    def row(values: np.ndarray, known: list[Any]) -> np.ndarray:
        """The known value of each; missing ones are held from the record before."""
        held = values[(before, *places)]
        return np.stack([h if t is None else np.asarray(t) for h, t in zip(held, known, strict=True)])

    def channel(name: str) -> list[Any]:
        if name in _OTHER_NAMES:
            return [getattr(o.moment, _OTHER_NAMES[name], None) for o in ended]
        return [None if o.moment is None else o.moment.channels.get(name) for o in ended]

    alone = replace(
        run if isinstance(run, Run) else run.run,
        t=times,
        q=np.stack([o.q for o in ended]),
        v=np.stack([o.v for o in ended]),
        u=row(run.u, [getattr(o.moment, "u", None) for o in ended]),
        work=None if run.work is None else row(run.work, [getattr(o.moment, "work", None) for o in ended]),
        channels={name: row(values, channel(name)) for name, values in run.channels.items()},
        parameters={n: np.broadcast_to(value, run.batch)[places] for n, value in run.parameters.items()},
        events=(),
        stored={},
    )
    return EventEnds(places, alone if isinstance(run, Run) else run.with_run(alone))


ONLY_ENDS = 10**9
"""Steps between records where only start and end matter."""


@dataclass(frozen=True, eq=False)
class Measured:
    """Values (trajectories, ...) with their unit, the names of further axes and the labels along these.

    Examples
    --------
    >>> Measured(np.zeros((4, 3)), "m", dims=("axis",), labels={"axis": ("x", "y", "z")}).unit
    'm'
    """

    values: Any
    unit: str = ""
    dims: tuple[str, ...] = ()
    labels: Mapping[str, Sequence[str]] | None = None


@dataclass(frozen=True)
class Take:
    """A number of a run by name. Made by :func:`take`."""

    of: str
    how: str = "end"

    def __call__(self, run: Run) -> Measured:
        """The number of every trajectory."""
        return Measured(_HOW[self.how](run, self.of), _unit(run, self.of))


def take(of: str, how: str = "end") -> Take:
    """A measure: a coordinate, velocity, input, channel or energy of a run, reduced over time.

    Parameters
    ----------
    of : its name, such as "hull.z".
    how : "end", "max", "min", "mean", "rms" or "largest" (of the absolute value).

    >>> take("hull.z", "max").how
    'max'
    """
    if how not in _HOW:
        raise unknown_name("reduction of a measure", how, _HOW)
    return Take(of, how)


def _end(run: Run, name: str) -> np.ndarray:
    end = np.array(run[name][-1], dtype=float)
    if (ends := at_events(run)) is not None:
        end[ends.places] = ends.run[name]
    return end


def _records(run: Run, name: str) -> np.ndarray:
    """Values (n, *batch, ...), with one more record for trajectories that ended at an event between two."""
    values = np.asarray(run[name], dtype=float)
    if (ends := at_events(run)) is None:
        return values
    last = np.full(values.shape[1:], np.nan)
    last[ends.places] = ends.run[name]
    last[tuple(place[np.isin(ends.run.t, run.t)] for place in ends.places)] = np.nan  # there is such a record
    return np.concatenate([values, last[None]])


def _over_time(function: Callable[..., np.ndarray], before: Callable[[np.ndarray], np.ndarray] = np.asarray) -> Any:
    def reduce(run: Run, name: str) -> np.ndarray:
        values = before(_records(run, name))
        empty = ~np.isfinite(values).any(axis=0)
        with np.errstate(invalid="ignore"):
            return np.where(empty, np.nan, function(np.where(empty, 0.0, values), axis=0))

    return reduce


_HOW: Mapping[str, Callable[[Run, str], np.ndarray]] = {
    "end": _end,
    "max": _over_time(np.nanmax),
    "min": _over_time(np.nanmin),
    "mean": _over_time(np.nanmean),
    "largest": _over_time(np.nanmax, np.abs),
    "rms": lambda run, name: np.sqrt(_over_time(np.nanmean, np.square)(run, name)),
}


def _unit(run: Run, name: str) -> str:
    for part in "qvu":
        names = getattr(run, f"{part}_names")
        if name in names:
            return getattr(run, f"{part}_units")[names.index(name)]
    return "J" if name.endswith("energy") else ""


def final(run: Run) -> dict[str, Measured]:
    """Configuration ``q`` and velocity ``v`` at the end of every trajectory.

    Examples
    --------
    >>> import heavytop as ht
    >>> model = ht.library.load("pendulum").derive()
    >>> run = ht.simulate(model, (np.zeros((5, 1)), np.ones((5, 1))), until=0.1, step=0.01)
    >>> final(run)["q"].values.shape
    (5, 1)
    """
    ends, found = at_events(run), {}
    for name, axis in (("q", "coordinate"), ("v", "velocity")):
        values = np.array(getattr(run, name)[-1], dtype=float)
        if ends is not None:
            values[ends.places] = getattr(ends.run, name)
        found[name] = Measured(values, "", (axis,), {axis: getattr(run, f"{name}_names")})
    return found


@dataclass(frozen=True)
class Measures:
    """All measures of a sweep.

    ``parts`` maps names to functions of a run; the function under the empty name returns a mapping.
    """

    parts: Mapping[str, Callable[[Any], Any]]

    @property
    def only_ends(self) -> bool:
        """Whether nothing but the end of the runs is needed."""
        return all(part is final or (isinstance(part, Take) and part.how == "end") for part in self.parts.values())

    def __call__(self, run: Run, count: int) -> dict[str, Measured]:
        """The measures of a batch of ``count`` trajectories, or of a single run with count 0."""
        found: dict[str, Measured] = {}
        for name, part in self.parts.items():
            value = part(run)
            found |= _named(value) if not name else {name: _measured(value)}
        return {name: _checked(name, value, count) for name, value in found.items()}


def _named(value: Any) -> dict[str, Measured]:
    if not isinstance(value, Mapping):
        raise SweepError(f"measure must return a mapping from names to numbers, got {type(value).__name__}.")
    return {str(name): _measured(item) for name, item in value.items()}


def _measured(value: Any) -> Measured:
    return value if isinstance(value, Measured) else Measured(value)


@lru_cache(maxsize=256)
def _usable(name: str) -> bool:
    """Whether a measure can have this name."""
    spelt = name and not name.startswith((".", "__")) and not any(c in "/\\" or not c.isprintable() for c in name)
    return bool(spelt) and name not in RESERVED


def _checked(name: str, value: Measured, count: int) -> Measured:
    if not _usable(name):
        raise SweepError(
            f"a measure cannot be called {name!r}: choose one that begins with a letter, without slashes, other than {', '.join(RESERVED)}."
        )
    array = np.asarray(value.values)
    if array.dtype.kind not in "fiub" or array.dtype.itemsize > 8:
        raise SweepError(
            f"the measure {name!r} must be numbers of at most 64 bits, got {array.dtype} such as {array.reshape(-1)[:1]}."
        )
    if count == 0:
        array = array[None]
    elif array.shape[:1] != (count,):
        raise SweepError(
            f"the measure {name!r} must give one row for each of the {count} trajectories of a batch, got shape {array.shape}. "
            "Records have time first, then the batch: run.q[-1] has shape (batch, nq)."
        )
    dims = value.dims or tuple(f"{name}_{k}" for k in range(array.ndim - 1))
    if len(dims) != array.ndim - 1:
        raise SweepError(f"the measure {name!r} has {array.ndim - 1} further axes, but {len(dims)} names for them.")
    return Measured(array, value.unit, dims, value.labels)


def as_measures(measure: Any) -> Measures:
    """Measures of the argument: None, a function of a run, a name or :func:`take`, several of them, or a mapping from names to functions."""
    if measure is None:
        return Measures({"": final})
    if isinstance(measure, Measures):
        return measure
    if isinstance(measure, str):
        return Measures({measure: take(measure)})
    if isinstance(measure, Mapping):
        bad = [name for name, part in measure.items() if not callable(part) and not isinstance(part, str)]
        if bad:
            raise SweepError(f"the measure {bad[0]!r} must be a function of a run or a name, got {measure[bad[0]]!r}.")
        return Measures({n: take(part) if isinstance(part, str) else part for n, part in measure.items()})
    if isinstance(measure, Take):
        return as_measures([measure])
    if callable(measure):
        return Measures({"": measure})
    if isinstance(measure, Sequence) and all(isinstance(part, str | Take) for part in measure):
        parts = [take(part) if isinstance(part, str) else part for part in measure]
        return Measures({part.of if part.how == "end" else f"{part.of}_{part.how}": part for part in parts})
    raise SweepError(
        f"measure must be a function of a run, names, or a mapping from names to functions, got {measure!r}."
    )


OUTCOMES = (
    "finished",
    "event",
    "diverged",
    "interrupted",
    "step_limit",
    "failed",
    "lost",
    "jumped",
    "ended",
    "ill_posed",
    "controller_failed",
    "unsolved",
)
"""Codes of the variable ``outcome``: endings of runs, and ``failed`` without a run. Stores contain them: new ones are appended."""
FAILED = OUTCOMES.index("failed")
GOOD = tuple(OUTCOMES.index(name) for name in ("finished", "event"))
"""Codes of successful runs."""


def endings(run: Run) -> tuple[np.ndarray, np.ndarray, dict[int, str]]:
    """Code and time (count,) of the end of every trajectory, and causes of early ends by index."""
    if run.outcome.ending is Ending.finished and run.outcomes.size:  # the worst of them finished: so did all
        count = run.outcomes.size
        return np.zeros(count, dtype=np.int8), np.full(count, run.outcome.time, dtype=float), {}
    flat = run.outcomes.reshape(-1).tolist()
    usual = next((o for o in flat if not o.trajectory), flat[0])  # those that went as far as the run share one outcome
    codes, times = np.full(len(flat), _CODES[usual.ending], dtype=np.int8), np.full(len(flat), usual.time, dtype=float)
    causes: dict[int, str] = {}
    events = {o.trajectory: o.name for o in reversed(run.events) if o.terminal}

    def cause(o: Any) -> str:
        return events.get(o.trajectory, "") if o.ending in AT_EVENTS else o.alone.message

    for k in [k for k, o in enumerate(flat) if o is not usual]:
        codes[k], times[k] = _CODES[flat[k].ending], flat[k].time
        if flat[k].ending is not Ending.finished:
            causes[k] = cause(flat[k])
    if usual.ending is not Ending.finished:
        causes |= {k: cause(usual) for k, o in enumerate(flat) if o is usual}
    return codes, times, causes


_CODES = {ending: OUTCOMES.index(ending.value) for ending in Ending}
