"""Shares and quantiles with confidence intervals; numbers about a whole result, chunk by chunk, as a store may hold more than memory does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop.errors import SweepError, unknown_name
from heavytop.sweep.grid import DRAW
from heavytop.sweep.measure import FAILED, GOOD

if TYPE_CHECKING:
    import xarray
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from heavytop.sweep.store import Store

if TYPE_CHECKING:
    from heavytop.sweep.result import Result


SAMPLE = 1_000_000
"""Points from which medians and other quantiles of larger results are taken."""
SAMPLED_BOXES = 32

Box = tuple[slice, ...]


def boxes(result: Result, *names: str) -> Iterator[tuple[Box, list[np.ndarray]]]:
    """Places and values of variables that have the dimensions of the sweep: the chunks of a store, or the whole result."""
    shape = result.data["outcome"].shape
    store = None if result.store is None else Store(result.store)
    if store is None or store.chunks.shape != shape:
        yield tuple(slice(0, n) for n in shape), [np.asarray(result.data[n].values) for n in names]
        return
    for index in range(len(store.chunks)):
        yield store.chunks.region(index), [np.asarray(store.values(n, index)) for n in names]


def valid(values: np.ndarray, outcome: np.ndarray) -> np.ndarray:
    """Where values of a measure count: at points that were computed and did not fail, if they are finite; truth values also where it failed.

    Integers have no NaN: missing ones are the least of their type.

    >>> valid(np.array([3, -(2**63), -(2**63)]), np.array([0, FAILED, -1])).tolist()
    [True, False, False]
    """
    computed = outcome >= 0
    return computed if values.dtype.kind == "b" else computed & (outcome != FAILED) & np.isfinite(values)


@dataclass(frozen=True)
class Spread:
    """Least, median, largest and mean of the valid values of a measure, and how many there are."""

    least: float
    median: float
    largest: float
    mean: float
    count: int


def spread(result: Result, name: str) -> Spread | None:
    """The spread of a measure; None if nothing is valid. The median of more than a million points is that of a part of them."""
    least, largest, total, count = np.inf, -np.inf, 0.0, 0
    for _, (values, outcome) in boxes(result, name, "outcome"):
        counted = values[valid(values, outcome)].astype(float)
        if len(counted):
            least, largest = min(least, counted.min()), max(largest, counted.max())
            total, count = total + float(counted.sum()), count + len(counted)
    if not count:
        return None
    return Spread(float(least), float(np.median(sample(result, name))), float(largest), total / count, count)


def sample(result: Result, name: str, most: int = SAMPLE) -> np.ndarray:
    """Valid values of a measure: all of them, or those of a part of the points, the same at every call."""
    places = points(result, most)
    values = pick(result, name, places)
    return values[valid(values, pick(result, "outcome", places))].astype(float)


def points(result: Result, most: int) -> np.ndarray:
    """Flat indices of at most ``most`` points, spread over the chunks of the result; the same at every call."""
    rng, shape = np.random.default_rng(0), result.data["outcome"].shape
    if result.points <= most:
        return np.arange(result.points)
    store = None if result.store is None else Store(result.store)
    if store is None:
        return np.sort(rng.choice(result.points, most, replace=False))
    chunks = store.chunks
    chosen = np.sort(rng.choice(len(chunks), min(len(chunks), SAMPLED_BOXES), replace=False))
    found = []
    for index in chosen.tolist():
        region = chunks.region(index)
        counts = [s.stop - s.start for s in region]
        size = int(np.prod(counts))
        inside = np.sort(rng.choice(size, min(size, -(-most // len(chosen))), replace=False))
        place = [i + s.start for i, s in zip(np.unravel_index(inside, counts), region, strict=True)]
        found.append(np.ravel_multi_index(place, shape))
    return np.concatenate(found)[:most]


def places(result: Result, flat: np.ndarray) -> tuple[np.ndarray, ...]:
    """Positions along each dimension of points by their flat indices."""
    return np.unravel_index(flat, result.data["outcome"].shape) if result.dims else ()


def pick(result: Result, name: str, flat: np.ndarray) -> np.ndarray:
    """Values of a variable at points; of a store only the chunks that hold them are read."""
    import xarray

    place = places(result, flat)
    array = result.data[name]
    at = {d: xarray.DataArray(i, dims="point") for d, i in zip(result.dims, place, strict=True) if d in array.dims}
    return np.asarray(array.isel(at).values) if at else np.broadcast_to(array.values, flat.shape)


def sums(result: Result, name: str, kept: Sequence[str], most: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Sum and number of the values of a measure over all dimensions but the kept ones; only :func:`valid` ones count.

    With ``most``, neighbours along a kept dimension share a cell where there would be more cells than that; see :func:`width`.
    """
    widths = [width(result.data.sizes[d], most) for d in kept]
    cells = [-(-result.data.sizes[d] // w) for d, w in zip(kept, widths, strict=True)]
    total, count = np.zeros(cells), np.zeros(cells, dtype=int)
    axes = tuple(k for k, d in enumerate(result.dims) if d not in kept)
    order = [[d for d in result.dims if d in kept].index(d) for d in kept]
    for region, (values, outcome) in boxes(result, name, "outcome"):
        counted = valid(values, outcome)
        bounds = [region[result.dims.index(d)] for d in kept]
        place = np.ix_(*(np.arange(s.start, s.stop) // w for s, w in zip(bounds, widths, strict=True)))
        np.add.at(total, place, np.where(counted, values, 0).astype(float).sum(axes).transpose(order))
        np.add.at(count, place, counted.sum(axes).transpose(order))
    return total, count


def binned_sums(
    result: Result, name: str, axes: Sequence[str], edges: Sequence[np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Sum and number of the values of a measure in bins of variables that have one dimension each, drawn ones for example.

    >>> import heavytop as ht
    >>> drawn = ht.sweep(lambda x, y: {"z": x + y}, {"x": ht.uniform(), "y": ht.uniform()}, draws=100)
    >>> binned_sums(drawn, "z", ("x", "y"), (np.linspace(0, 1, 3), np.linspace(0, 1, 2)))[1].sum()
    np.int64(100)
    """
    shape = tuple(len(e) - 1 for e in edges)
    total, count = np.zeros(shape), np.zeros(shape, dtype=int)
    columns = [(result.dims.index(str(result.data[a].dims[0])), result.data[a].values) for a in axes]
    for region, (values, outcome) in boxes(result, name, "outcome"):
        counted = valid(values, outcome)
        place = []
        for (axis, column), e in zip(columns, edges, strict=True):
            bins = np.clip(np.searchsorted(e, column[region[axis]], "right") - 1, 0, len(e) - 2)
            lead = [1] * values.ndim
            lead[axis] = len(bins)
            place.append(np.broadcast_to(bins.reshape(lead), values.shape)[counted])
        np.add.at(total, tuple(place), values[counted].astype(float))
        np.add.at(count, tuple(place), 1)
    return total, count


def width(size: int, most: int | None) -> int:
    """Number of neighbours along a dimension that share a cell, for at most ``most`` cells.

    >>> width(1000, 400), width(300, 400), width(300, None)
    (3, 1, 1)
    """
    return 1 if most is None else -(-size // most)


def extremes(result: Result, name: str, most: int) -> tuple[list[int], int]:
    """Flat indices of the points with the largest values, the largest first, and of the one with the least."""
    shape = result.data["outcome"].shape
    largest: list[tuple[float, int]] = []
    least = (np.inf, 0)
    for region, (values, outcome) in boxes(result, name, "outcome"):
        flat = values.astype(float).reshape(-1)
        counted = np.flatnonzero(valid(values, outcome))
        if not len(counted):
            continue
        top = counted[np.argsort(-flat[counted], kind="stable")[:most]]
        low = counted[np.argmin(flat[counted])]
        largest += [(-float(flat[k]), _whole(k, region, shape)) for k in top]
        largest = sorted(largest)[:most]
        least = min(least, (float(flat[low]), _whole(low, region, shape)))
    return [index for _, index in largest], least[1]


def _whole(inside: int, region: Box, shape: tuple[int, ...]) -> int:
    """Flat index in the whole result from that in a box."""
    place = np.unravel_index(inside, [s.stop - s.start for s in region]) if region else ()
    return int(np.ravel_multi_index([i + s.start for i, s in zip(place, region, strict=True)], shape)) if region else 0


def share_interval(successes: Any, trials: Any, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Exact confidence interval of a share (Clopper and Pearson 1934): covers it with at least the stated confidence.

    The ends are those of ``scipy.stats.binomtest(k, n).proportion_ci(method="exact")``, for arrays. Wilson's interval is shorter, but
    covers shares near 0 and 1 with 80 % only where it states 95 %.

    >>> low, high = share_interval(9, 10)
    >>> float(low.round(3)), float(high.round(3))
    (0.555, 0.997)
    """
    from scipy.stats import beta

    if not 0 < confidence < 1:
        raise SweepError(f"a confidence lies between 0 and 1, got {confidence}.")
    k, n = np.asarray(successes, dtype=float), np.asarray(trials, dtype=float)
    if np.any(~((k >= 0) & (k <= n) & (n < np.inf))):
        raise SweepError("successes lie between 0 and the number of trials, which is finite.")
    tail = (1 - confidence) / 2
    low = np.where(k > 0, beta.ppf(tail, k, n - k + 1), 0.0)
    return low, np.where(k < n, beta.ppf(1 - tail, k + 1, n - k), 1.0)


def share(
    data: xarray.Dataset, name: str, over: str | Sequence[str] | None = None, confidence: float = 0.95
) -> xarray.Dataset:
    """Share of true values of a variable along dimensions (default: draws, or all), with the exact interval ``low`` to ``high``.

    Points that were not computed do not count; failed points and NaN count as false.
    """
    import xarray

    if name not in data:
        raise unknown_name("measure", name, [str(n) for n in data.data_vars])
    values = data[name]
    if values.dtype.kind == "f" and not bool(((values == 0) | (values == 1) | values.isnull()).all()):
        raise SweepError(
            f"{name!r} is a number, not a condition: measure one, such as measure={{'{name}_small': lambda run: run[...] < 1}}, or "
            f"assign one to the dataset (result.data.assign(small=result.{name} < 1))."
        )
    computed = data["outcome"] >= 0
    true = data[name].astype(bool) & data[name].notnull() & computed
    if data[name].dtype.kind in "iu":  # integers have no NaN
        true &= data["outcome"] != FAILED
    dims = _reduced(true, over, [DRAW] if DRAW in true.dims else list(true.dims))
    k, n = true.sum(dims), computed.sum(dims)
    low, high = share_interval(k.values, n.values, confidence)
    return xarray.Dataset(
        {"share": k / n.where(n > 0), "low": (k.dims, low), "high": (k.dims, high), "trials": n},
        attrs={"confidence": confidence},
    )


def _reduced(values: xarray.DataArray, over: str | Sequence[str] | None, default: Sequence[Any]) -> list[Any]:
    """Dimensions along which values are reduced."""
    dims = list(default) if over is None else [over] if isinstance(over, str) else list(over)
    if lost := [dim for dim in dims if dim not in values.dims]:
        raise unknown_name("dimension", str(lost[0]), [str(d) for d in values.dims])
    return dims


def quantiles(
    data: xarray.Dataset, level: float, names: Sequence[str], over: str | Sequence[str] | None, confidence: float
) -> xarray.Dataset:
    """Quantiles of measures along dimensions (default: draws), with intervals; see :meth:`.Result.quantile`."""
    import xarray

    outcome = data["outcome"]
    if over is None and DRAW not in outcome.dims:
        raise SweepError(
            "nothing in this sweep is random: name the dimensions of a quantile, over=result.dims for all of them."
        )
    found: dict[str, Any] = {}
    for name in names:
        if name not in data:
            raise unknown_name("measure", name, [str(n) for n in data.data_vars])
        values = data[name]
        dims = _reduced(values, over, [DRAW])
        good = outcome.isin(GOOD) & np.isfinite(values)
        counted = values.astype(float).where(good, np.inf).where(outcome >= 0)  # NaN: not computed
        kept = [d for d in values.dims if d not in dims]
        rows = counted.transpose(*kept, *dims).values.reshape(*(values.sizes[d] for d in kept), -1)
        estimates = np.full((3, *rows.shape[:-1]), np.nan)
        for place in np.ndindex(rows.shape[:-1]):
            if len(computed := rows[place][~np.isnan(rows[place])]):
                estimates[:, *place] = quantile_interval(computed, level, confidence)
        for suffix, numbers in zip(("", "_low", "_high"), estimates, strict=True):
            found[f"{name}{suffix}"] = (kept, numbers, values.attrs)
    coords = {n: c for n, c in data.coords.items() if not any(d in dims for d in c.dims)} if names else {}
    return xarray.Dataset(found, coords, {"level": level, "confidence": confidence})


def quantile_interval(values: np.ndarray, level: float, confidence: float = 0.95) -> tuple[float, float, float]:
    """Return a quantile and its confidence interval from order statistics, which assumes nothing about the distribution.

    >>> quantile_interval(np.arange(1000.0), 0.5)
    (499.5, 468.0, 531.0)
    """
    from scipy.stats import quantile_test

    if not (0 < level < 1 and 0 < confidence < 1):
        raise SweepError(f"a quantile and a confidence lie between 0 and 1, got {level} and {confidence}.")
    x = np.asarray(values, dtype=float).reshape(-1)
    if len(x) == 0 or np.isnan(x).any():
        raise SweepError("a quantile needs values, and none that is NaN.")
    low, high = quantile_test(x, p=level).confidence_interval(confidence)  # NaN: too few values for this end
    low, high = -np.inf if np.isnan(low) else low, np.inf if np.isnan(high) else high
    with np.errstate(invalid="ignore"):
        value = float(np.quantile(x, level))  # NaN between infinite values
    return np.inf if np.isnan(value) else value, float(low), float(high)
