"""A study: cases at the points of a grid, and the layout of the result."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from types import FunctionType, MethodType
from typing import Any

import numpy as np

from heavytop._version import __version__
from heavytop.errors import SweepError
from heavytop.functions import Portable, stable_key
from heavytop.sweep.cases import Cases, Output, as_type, missing, reason, same_names
from heavytop.sweep.grid import TIME, Chunks, Grid, cut
from heavytop.sweep.measure import FAILED, Measured

MOST_CHUNKS = 10_000_000
"""Of a study: the list of them is kept in memory, and a store has as many marks."""
TRIED = 20
"""Points that are tried for the layout of the results before a study is given up."""


@dataclass(frozen=True, eq=False)
class StoredVariable:
    """A variable of the result: dimensions after those of the sweep with their sizes, type, unit, labels."""

    dims: tuple[str, ...]
    shape: tuple[int, ...]
    dtype: str
    unit: str
    labels: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Study(Portable):
    """Cases at the points of a grid.

    Attributes
    ----------
    kept : positions along dimensions whose trajectories are kept; None: all, if the cases record trajectories.
    lines : description of the study, for comparison with a store.

    Examples
    --------
    >>> from heavytop.sweep import make_study
    >>> make_study(lambda x: {"double": 2 * x}, {"x": [1.0, 2.0]}).at(1)
    {'x': array([2.])}
    """

    cases: Cases
    grid: Grid
    lines: tuple[str, ...]
    chunk: int | None = None
    kept: Mapping[str, tuple[int, ...]] | None = None

    @cached_property
    def layout(self) -> dict[str, StoredVariable]:
        """Variables of the result, from trying a few points."""
        error = ""
        for index in range(min(TRIED, self.grid.points)):
            try:
                output = self.cases.evaluate(self.at(index))
            except (KeyboardInterrupt, MemoryError, SweepError):
                raise
            except Exception as failure:
                error = reason(failure)
                continue
            if output.measured:
                self._check_names(output.measured)
                return {name: _entry(value) for name, value in output.measured.items()}
            error = output.causes.get(0, "it gives no measures.")
        raise SweepError(
            f"nothing can be measured: the first {min(TRIED, self.grid.points)} points all fail. The last says: {error}"
        )

    def _check_names(self, measured: Mapping[str, Measured]) -> None:
        """Raise a SweepError if a measure or one of its axes has a name that something else has."""
        sizes = dict(self.grid.sizes)
        taken = {*self.grid.variables, *self.grid.labels, *sizes}
        for name, value in measured.items():
            if name in taken:
                raise SweepError(
                    f"the measure {name!r} has the name of a variable of the sweep: choose another name, as in "
                    f"measure={{'end': {name!r}}}."
                )
            for dim, n in zip(value.dims, np.shape(value.values)[1:], strict=True):
                if dim in taken or dim in measured or sizes.setdefault(dim, n) != n:
                    raise SweepError(
                        f"the measure {name!r} has an axis {dim!r} with {n} values, but this name is taken: choose another one."
                    )
                labels = (value.labels or {}).get(dim)
                if labels is not None and len(labels) != n:
                    raise SweepError(f"the measure {name!r} has {n} values along {dim!r}, but {len(labels)} labels.")

    def at(self, index: int | Sequence[int]) -> dict[str, np.ndarray]:
        """Values (1, ...) of a point by its number, or by its place along each dimension."""
        number = isinstance(index, int | np.integer)
        place = (
            np.unravel_index(index, self.grid.shape) if number and self.grid.shape else () if number else tuple(index)
        )
        return self.grid.values([slice(int(i), int(i) + 1) for i in place])

    @cached_property
    def chunks(self) -> Chunks:
        """Pieces of work."""
        target = self.chunk
        if target is None:
            target = max(1, self.cases.least, min(self.cases.target, -(-self.grid.points // 8)))
        apart = {d for n in self.cases.apart for d in self.grid.variables[n].dims if n in self.grid.variables}
        chunks = cut(self.grid, target, tuple(apart))
        if len(chunks) > MOST_CHUNKS:
            raise SweepError(
                f"{self.grid.points:,} points in chunks of {chunks.size} are {len(chunks):,} chunks, more than {MOST_CHUNKS:,}: take a larger "
                f"chunk=, or fewer points."
            )
        return chunks

    @property
    def groups(self) -> tuple[tuple[str, ...], int]:
        """Variables that cannot vary within a native batch, and the number of their combinations."""
        varied = [self.grid.variables[n] for n in self.cases.apart if n in self.grid.variables]
        together = prod(self.grid.sizes[d] for d in {d for v in varied for d in v.dims})
        return tuple(v.name for v in varied), min(together, prod(self.grid.distinct(v) for v in varied))

    def compute(self, region: Sequence[slice]) -> Output:
        """The points of a region."""
        draws: dict[str, np.ndarray] = {}
        output = self.cases.evaluate(self.grid.values(region, draws))
        output.draws = draws
        if self.kept is not None:
            self._forget(output, region)
        return output

    def _forget(self, output: Output, region: Sequence[slice]) -> None:
        """Unrequested trajectories become NaN, which a store does not write."""
        wanted = np.ones([s.stop - s.start for s in region], dtype=bool)
        for axis, (name, s) in enumerate(zip(self.grid.sizes, region, strict=True)):
            if self.kept is not None and name in self.kept:
                inside = np.isin(np.arange(s.start, s.stop), self.kept[name])
                wanted &= inside.reshape([-1 if k == axis else 1 for k in range(len(region))])
        for name, value in output.measured.items():
            if TIME in value.dims:
                output.measured[name] = Measured(
                    np.where(wanted.reshape(-1, *(1,) * (np.ndim(value.values) - 1)), value.values, np.nan),
                    value.unit,
                    value.dims,
                    value.labels,
                )


def _entry(value: Measured) -> StoredVariable:
    array = np.asarray(value.values)
    return StoredVariable(value.dims, array.shape[1:], array.dtype.str, value.unit, dict(value.labels or {}))


def describe(make: Any, options: Mapping[str, Any], measure: Any, grid: Grid, trajectories: Any) -> tuple[str, ...]:
    """Lines of text that are equal for equal studies: each part with its look and its key."""
    lines = [f"heavytop {'.'.join(__version__.split('.')[:2])}", _line("make", make)]
    lines += [_line(name, value) for name, value in options.items() if name != "threads"]
    for name, v in grid.variables.items():
        shown = v.values if v.distribution is None else v.distribution
        content = v.values if v.distribution is None else (v.distribution.kind, v.distribution.settings)
        lines.append(f"over {name} {v.dims} {_line('', shown, content)[3:]}")
    lines += [f"{dim}: {size} points" for dim, size in grid.sizes.items()]
    lines += [f"first draw = {grid.first_draw}"] if grid.first_draw else []
    lines += [f"seed = {grid.seed}", _line("measure", measure), _line("trajectories", trajectories)]
    return tuple(lines)


_SHOWN = 6
"""Numbers of an array that a line shows."""


def _line(name: str, shown: Any, content: Any = None) -> str:
    return f"{name} = {_look(shown)} [{stable_key(shown if content is None else content)[:12]}]"


def _look(value: Any) -> str:
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiubU":
        flat = value.reshape(-1)
        shown = [str(x) for x in (flat if len(flat) <= _SHOWN else [*flat[: _SHOWN - 1].tolist(), flat[-1]])]
        if len(flat) > _SHOWN:
            shown.insert(-1, "...")
        return f"{value.shape} {', '.join(shown)}"
    if isinstance(value, FunctionType | MethodType):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, Mapping | list | tuple | np.ndarray):
        return f"{type(value).__name__} of {len(value)}"
    text = repr(value)
    return text if len(text) < 90 and " at 0x" not in text else type(value).__name__


def empty_arrays(study: Study) -> dict[str, np.ndarray]:
    """Arrays of all points, without values."""
    shape = study.chunks.shape
    arrays = {n: np.full((*shape, *e.shape), missing(np.dtype(e.dtype))) for n, e in study.layout.items()}
    arrays |= {"outcome": np.full(shape, -1, dtype=np.int8), "end_time": np.full(shape, np.nan)}
    return arrays | {"cause": np.full(shape, "", dtype=object)}


def write_into(
    arrays: Mapping[str, Any], region: Sequence[slice], output: Output, layout: Mapping[str, StoredVariable]
) -> None:
    """Put the results of a region into arrays of the whole sweep."""
    for name, values in shaped(output, [s.stop - s.start for s in region], layout):
        arrays[name][tuple(region)] = values


def shaped(
    output: Output, counts: Sequence[int], layout: Mapping[str, StoredVariable]
) -> Iterator[tuple[str, np.ndarray]]:
    """Name and values of every array of the layout that has values, on a box of points."""
    if output.measured:  # empty where all points failed
        same_names(output.measured, layout)
    for name, value in output.measured.items():
        entry, values = layout[name], np.asarray(value.values)
        if values.shape[1:] != entry.shape:
            raise SweepError(
                f"{name!r} has the shape {values.shape[1:]} here and {entry.shape} at the first point; a sweep keeps one shape."
            )
        if values.dtype != entry.dtype:
            dtype = np.dtype(entry.dtype)
            values = as_type(name, values, dtype, output.outcome == FAILED, f"was {dtype} at the first point")
        yield name, values.reshape((*counts, *entry.shape))
    yield "end_time", output.end_time.reshape(counts)
    if output.causes:
        causes = np.full(output.outcome.shape, "", dtype=object)
        for k, text in output.causes.items():
            causes[k] = text
        yield "cause", causes.reshape(counts)
    yield (
        "outcome",
        output.outcome.reshape(counts),
    )  # the last: an outcome in a store means that the rest of the point is there
