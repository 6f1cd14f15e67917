"""Adaptive studies: boundaries of conditions, and quantiles to a given accuracy.

Every round is a sweep in the same folder of stores, so an adaptive study resumes like any other: rounds that are done are read,
not computed, and the decisions that follow from them are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop.errors import SweepError, unknown_name
from heavytop.sweep.api import is_simulated, sweep
from heavytop.sweep.measure import GOOD
from heavytop.sweep.statistics import quantile_interval

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True)
class Boundary:
    """The boundary of a condition along one variable.

    Attributes
    ----------
    data : dataset with ``inside`` and ``outside``: neighbouring values at which the condition holds and does not hold, over the
        other dimensions; NaN where it never changes. ``edge`` is the middle.
    rounds, points : numbers of sweeps and points.

    Examples
    --------
    >>> edge = refine(lambda x: {"ok": x < 0.7}, "x", [0.0, 1.0], "ok", 0.1)
    >>> float(edge.data.inside), float(edge.data.outside), edge.rounds > 1
    (0.6..., 0.7..., True)
    """

    data: xarray.Dataset
    rounds: int
    points: int


def refine(
    make: Any,
    along: str,
    first: Any,
    condition: str | Callable[[Any], Any],
    tolerance: float,
    over: Mapping[str, Any] | None = None,
    store: str | Path | None = None,
    rounds: int = 40,
    **options: Any,
) -> Boundary:
    """Find where a condition ends along a variable, or begins if it never ends, by simultaneous bisection at all points of the others.

    Parameters
    ----------
    make, options : as for :func:`heavytop.sweep.sweep`.
    along : the variable. first : its first values, increasing; between two of them the condition changes at most once.
    condition : name of a measure that is true or false, or a function of the dataset of a round that gives such an array.
    tolerance : width of the interval that is enough, in units of the variable.
    over : further variables; every combination has its own edge. No distributions: each round would draw other points.
    store : folder of the stores of the rounds.

    Examples
    --------
    >>> edge = refine(lambda x, y: {"ok": x < y}, "x", [0.0, 1.0, 2.0], "ok", 1e-3, over={"y": [0.4, 1.7]})
    >>> edge.data.edge.values.round(3).tolist()
    [0.4, 1.7]
    """
    first = np.asarray(first, dtype=float)
    if first.ndim != 1 or len(first) < 2 or not np.all(np.diff(first) > 0) or not tolerance > 0:
        raise SweepError("refine needs at least two increasing values to start from, and a positive tolerance.")
    grid = sweep(make, {**(over or {}), along: first}, store=_round(store, 0), **options)
    import xarray  # after the sweep, which reports a missing extra

    holds = _condition(grid.data, condition).transpose(..., along)
    others = tuple(str(d) for d in holds.dims[:-1])
    values = np.asarray(holds.values, dtype=bool)
    ends, begins = values[..., :-1] & ~values[..., 1:], ~values[..., :-1] & values[..., 1:]
    falls = ends.any(axis=-1)
    found = falls | begins.any(axis=-1)
    at = np.where(falls, np.argmax(ends, axis=-1), np.argmax(begins, axis=-1))
    low, high = np.where(found, first[at], np.nan), np.where(found, first[at + 1], np.nan)
    inside, outside = np.where(falls, low, high), np.where(falls, high, low)
    number, points = 0, int(values.size)
    while number < rounds and np.any(np.abs(outside - inside) > tolerance):
        number += 1
        middle = np.where(found, (inside + outside) / 2, first[0])
        given = {**(over or {}), along: xarray.DataArray(middle, dims=others)}
        result = sweep(make, given, store=_round(store, number), **options)
        true = np.asarray(_condition(result.data, condition).transpose(*others).values, dtype=bool)
        inside, outside = np.where(found & true, middle, inside), np.where(found & ~true, middle, outside)
        points += int(true.size)
    coords = {d: grid.data[d] for d in others if d in grid.data.coords}
    data = {"inside": (others, inside), "outside": (others, outside), "edge": (others, (inside + outside) / 2)}
    return Boundary(xarray.Dataset(data, coords), number + 1, points)


def _condition(data: Any, condition: str | Callable[[Any], Any]) -> Any:
    if callable(condition):
        return condition(data)
    if condition not in data:
        raise SweepError(
            f"the condition {condition!r} is not a measure; there are {', '.join(map(str, data.data_vars))}."
        )
    return data[condition].astype(bool) & data[condition].notnull() & data["outcome"].isin(GOOD)


def _round(store: str | Path | None, number: int) -> Path | None:
    if store is None:
        return None
    folder = Path(store)
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"round-{number}.zarr"


@dataclass(frozen=True)
class Quantile:
    """A quantile with its confidence interval and the number of draws.

    ``reached``: whether the interval is as narrow as requested; otherwise the draws ran out.

    Examples
    --------
    >>> known = Quantile(value=1.0, low=0.99, high=1.01, draws=1000, reached=True)
    >>> known.low < known.value < known.high
    True
    """

    value: float
    low: float
    high: float
    draws: int
    reached: bool


def quantile(
    make: Any,
    over: Mapping[str, Any],
    measure: str | Mapping[str, Any],
    level: float,
    relative: float = 0.01,
    confidence: float = 0.95,
    first: int = 1000,
    most: int = 10_000_000,
    store: str | Path | None = None,
    **options: Any,
) -> Quantile:
    """Draw until the confidence interval of a quantile lies within the share ``relative`` of it.

    Every round doubles the draws and keeps the earlier ones. Failed points count as infinite.

    Parameters
    ----------
    make, over, options : as for :func:`heavytop.sweep.sweep`; all that varies is drawn.
    measure : its name (returned by the function, a default measure of flights a coordinate of a model at the end), or one entry ``{name: measure}``.
    level : which quantile, between 0 and 1 (0.9: nine of ten draws lie below it).
    relative : how far the ends of its confidence interval may lie from it, as a share of it.
    first, most : draws of the first round, and of all rounds together.
    store : folder of the stores of the rounds.

    Examples
    --------
    >>> import heavytop as ht
    >>> found = quantile(lambda x: {"y": 1 + x}, {"x": ht.uniform()}, "y", 0.9, 0.02, first=500)
    >>> abs(found.value - 1.9) < 0.02, found.reached
    (True, True)
    """
    if not 0 < level < 1 or not relative > 0:
        raise SweepError(f"a quantile lies between 0 and 1 and its width is positive, got {level} and {relative}.")
    if not first >= 1 or not most >= 1:
        raise SweepError(f"a quantile needs draws, got first={first} and most={most}.")
    name = measure if isinstance(measure, str) else next(iter(measure), "")
    if not isinstance(measure, str) and len(measure) != 1:
        raise SweepError(f"a quantile is that of one measure, got {list(measure)}.")
    if not isinstance(measure, str) or is_simulated(make, options):
        options["measure"] = measure
    seen = np.zeros(0)
    number, total = 0, min(first, most)
    while True:
        count = total - len(seen)
        result = sweep(make, over, draws=count, first_draw=len(seen), store=_round(store, number), **options)
        if name not in result.data:
            raise unknown_name("measure", name, [str(n) for n in result.data.data_vars])
        values = np.asarray(result.data[name].values, dtype=float)
        if values.shape != (count,):
            raise SweepError(
                f"a quantile is taken over draws alone: {name!r} has the dimensions {result.data[name].dims}."
            )
        seen = np.concatenate([seen, np.where(np.isin(result.data["outcome"].values, GOOD), values, np.inf)])
        # looking after every round costs coverage (0.94 instead of 0.95 was measured): half the error probability covers again
        value, low, high = quantile_interval(seen, level, (1 + confidence) / 2)
        reached = bool(np.isfinite(value) and max(value - low, high - value) <= relative * abs(value))
        if reached or total >= most:
            return Quantile(value, low, high, total, reached)
        number, total = number + 1, min(2 * total, most)
