"""Numbers about a whole result, box by box: what a store holds may be more than memory does."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from heavytop.sweep.measure import FAILED
from heavytop.sweep.store import Store

if TYPE_CHECKING:
    from heavytop.sweep.result import Result

SAMPLE = 1_000_000
"""Points from which medians and other quantiles of larger results are taken."""
SAMPLED_BOXES = 32

Box = tuple[slice, ...]


def boxes(result: Result, *names: str) -> Iterator[tuple[Box, list[np.ndarray]]]:
    """Places and values of variables that have the dimensions of the sweep: the chunks of a store, or the whole at once."""
    yield from _boxes(result, names, None)


def _boxes(
    result: Result, names: Sequence[str], chosen: Sequence[int] | None
) -> Iterator[tuple[Box, list[np.ndarray]]]:
    shape = result.data["outcome"].shape
    store = None if result.store is None else Store(result.store)
    if store is None or store.chunks.shape != shape:
        yield tuple(slice(0, n) for n in shape), [np.asarray(result.data[n].values) for n in names]
        return
    for index in range(len(store.chunks)) if chosen is None else chosen:
        yield store.chunks.region(index), [np.asarray(store.values(n, index)) for n in names]


def valid(values: np.ndarray, outcome: np.ndarray) -> np.ndarray:
    """Where values of a measure count: at points that were computed and did not fail, if they are finite; truth values also where it failed.

    Integers know no NaN: at points without a value they are the least of their kind.

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
    """Flat indices of at most so many points, spread over the boxes of the result; the same at every call."""
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
    """Sum and number of the values of a measure over all dimensions but the kept ones; only what is :func:`valid` counts.

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


def width(size: int, most: int | None) -> int:
    """How many neighbours along a dimension share a cell, for at most so many cells.

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
