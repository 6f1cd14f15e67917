"""The points of a sweep: named variables on named dimensions, as in xarray.

Variables that share a dimension vary together, other dimensions multiply. Distributions share the dimension ``draw``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, prod
from typing import Any

import numpy as np

from heavytop.errors import SweepError
from heavytop.sweep.distributions import Distribution

DRAW = "draw"
"""The dimension of all random variables."""
TIME = "time"
"""The dimension of trajectories."""
RESERVED = ("outcome", "end_time", "cause", "done", "chunk", "zarr.json")
"""Names in every result or store: no variable, dimension or measure can have them."""
MOST_POINTS = 10**15
"""Of a sweep; more could not be counted by the generator of the draws and by arrays."""


@dataclass(frozen=True, eq=False)
class Variable:
    """A variable of the sweep: values (*sizes of dims, *shape) or a distribution over draws, and the unit."""

    name: str
    dims: tuple[str, ...]
    values: np.ndarray | None = None
    distribution: Distribution | None = None
    unit: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one value."""
        if self.values is not None:
            return self.values.shape[len(self.dims) :]
        return self.distribution.shape if self.distribution is not None else ()


@dataclass(frozen=True, eq=False)
class Zipped:
    """Variables that vary together along an own dimension. Made by :func:`zipped`."""

    dimension: str
    values: Mapping[str, Any]


def zipped(dimension: str, **values: Sequence[Any]) -> Zipped:
    """Variables that vary together: ``over={"pair": ht.sweep.zipped("pair", mass=[1, 2], arm=[0.1, 0.2])}``.

    >>> zipped("pair", mass=[1, 2], arm=[0.1, 0.2]).dimension
    'pair'
    """
    return Zipped(dimension, values)


@dataclass(frozen=True, eq=False)
class Grid:
    """Variables, dimensions with their sizes in order, and the seed of the draws."""

    variables: Mapping[str, Variable]
    sizes: Mapping[str, int]
    seed: int = 0
    labels: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Coordinates of dimensions that no variable names."""
    first_draw: int = 0

    @property
    def shape(self) -> tuple[int, ...]:
        """Points along each dimension."""
        return tuple(self.sizes.values())

    @property
    def points(self) -> int:
        """Number of points."""
        return prod(self.shape)

    def with_units(self, units: Mapping[str, str]) -> Grid:
        """The same grid, where variables without a unit have the given one."""
        known = {n: v if v.unit else replace(v, unit=units.get(n, "")) for n, v in self.variables.items()}
        return replace(self, variables=known)

    def values(self, region: Sequence[slice], draws: dict[str, np.ndarray] | None = None) -> dict[str, np.ndarray]:
        """The value of every variable at every point of a region (points, *shape), the last dimension fastest.

        ``draws`` is filled with the drawn values along their dimension.
        """
        bounds = dict(zip(self.sizes, region, strict=True))
        counts = [s.stop - s.start for s in region]
        found = {}
        for name, variable in self.variables.items():
            own = self.own_values(variable, [bounds[d] for d in variable.dims])
            if draws is not None and variable.distribution is not None:
                draws[name] = own
            axes = tuple(s.stop - s.start if d in variable.dims else 1 for d, s in bounds.items())
            order = [variable.dims.index(d) for d in self.sizes if d in variable.dims]
            tail = range(len(order), own.ndim)
            spread = np.transpose(own, [*order, *tail]).reshape((*axes, *variable.shape))
            found[name] = np.broadcast_to(spread, (*counts, *variable.shape)).reshape(-1, *variable.shape)
        return found

    def distinct(self, variable: Variable) -> int:
        """Number of different values of a variable, or a bound of it."""
        if variable.values is not None:
            plain = variable.values.dtype.kind in "fiubU" and not variable.shape
            return len(np.unique(variable.values)) if plain else prod(self.sizes[d] for d in variable.dims)
        drawn = variable.distribution
        return len(drawn.settings[0]) if drawn is not None and drawn.kind == "choice" else self.sizes[DRAW]

    def own_values(self, variable: Variable, region: Sequence[slice]) -> np.ndarray:
        """The values of a variable on its own dimensions."""
        if variable.values is not None:
            return variable.values[tuple(region)] if region else np.asarray(variable.values)
        if variable.distribution is None:
            raise SweepError(f"{variable.name!r} has neither values nor a distribution.")
        first, last = (self.first_draw + k for k in (region[0].start, region[0].stop))
        return variable.distribution.draw(self.seed, variable.name, first, last)


@dataclass(frozen=True)
class Chunks:
    """The grid cut into boxes: one of them is a piece of work and a chunk of the store."""

    shape: tuple[int, ...]
    size: tuple[int, ...]

    @property
    def counts(self) -> tuple[int, ...]:
        """Boxes along each dimension."""
        return tuple(ceil(n / c) for n, c in zip(self.shape, self.size, strict=True))

    def __len__(self) -> int:
        return prod(self.counts)

    def place(self, index: int) -> tuple[int, ...]:
        """Which box along each dimension."""
        return tuple(int(i) for i in np.unravel_index(index, self.counts)) if self.counts else ()

    def region(self, index: int) -> tuple[slice, ...]:
        """The slices of a box."""
        bounds = zip(self.place(index), self.size, self.shape, strict=True)
        return tuple(slice(i * c, min((i + 1) * c, n)) for i, c, n in bounds)

    def points(self, index: int) -> int:
        """Number of points of a box."""
        return prod(s.stop - s.start for s in self.region(index))


def cut(grid: Grid, target: int, apart: Sequence[str] = ()) -> Chunks:
    """Boxes of about ``target`` points; dimensions ``apart`` (that change the structure) are cut to single values first.

    >>> variables = {n: Variable(n, (n,), np.arange(k)) for n, k in (("a", 20), ("b", 30), ("c", 40))}
    >>> cut(Grid(variables, {"a": 20, "b": 30, "c": 40}), 500).size
    (1, 12, 40)
    >>> cut(Grid(variables, {"a": 20, "b": 30, "c": 40}), 500, apart=("c",)).size
    (16, 30, 1)
    """
    names = list(grid.sizes)
    order = [n for n in reversed(names) if n not in apart] + [n for n in reversed(names) if n in apart]
    left, size = max(target, 1), dict.fromkeys(names, 1)
    for name in order:
        size[name] = max(min(grid.sizes[name], left), 1)
        left //= size[name]
        if size[name] < grid.sizes[name]:
            break
    return Chunks(grid.shape, tuple(size[n] for n in names))


def make_grid(over: Any, draws: int | None, seed: int, first_draw: int = 0) -> Grid:
    """The grid of the argument ``over``: a mapping (see :func:`heavytop.sweep.sweep`) or an ``xarray.Dataset``."""
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise SweepError(f"seed must be a non-negative whole number, got {seed!r}.")
    if draws is not None and (isinstance(draws, bool) or not isinstance(draws, int | np.integer) or draws < 1):
        raise SweepError(f"draws must be None or 1, 2, ..., got {draws!r}.")
    if not isinstance(first_draw, int | np.integer) or first_draw < 0:
        raise SweepError(f"first_draw must be 0, 1, 2, ..., got {first_draw!r}.")
    if first_draw + (draws or 0) > MOST_POINTS:
        raise SweepError(f"draws are numbered up to {MOST_POINTS:.0e}, got first_draw={first_draw} and draws={draws}.")
    variables: dict[str, Variable] = {}
    sizes: dict[str, int] = {}
    labels: dict[str, np.ndarray] = {}
    for variable in _variables(over, labels):
        if variable.name in variables:
            raise SweepError(f"{variable.name!r} is given twice in over.")
        if variable.name == DRAW or not _usable(variable.name):
            raise SweepError(
                f"a variable of a sweep cannot be called {variable.name!r}: a name begins with a letter, has no slash, as it names an array of a "
                f"store, and is not {DRAW!r}. Vary another name, and let a function take it: start=lambda angle: ..."
            )
        if len(set(variable.dims)) < len(variable.dims):
            raise SweepError(f"{variable.name!r} has a dimension twice: {', '.join(map(repr, variable.dims))}.")
        for dim in variable.dims:
            if not _usable(dim):
                raise SweepError(f"a dimension of a sweep cannot be called {dim!r}.")
        variables[variable.name] = variable
        if variable.values is None:
            continue
        for dim, n in zip(variable.dims, variable.values.shape, strict=False):
            if n == 0:
                raise SweepError(f"{variable.name!r} has no values along {dim!r}.")
            if sizes.setdefault(dim, n) != n:
                raise SweepError(
                    f"{variable.name!r} has {n} values along {dim!r}, another variable has {sizes[dim]}: variables that share a "
                    "dimension vary together."
                )
    random = [v.name for v in variables.values() if v.distribution is not None]
    if random and draws is None:
        raise SweepError(f"{random[0]!r} is a distribution: say how often it is drawn, draws=100.")
    if draws is not None and not random:
        raise SweepError("draws= has no effect: nothing in over is a distribution such as ht.normal(0, 1).")
    if draws is not None and sizes.setdefault(DRAW, int(draws)) != draws:
        raise SweepError(
            f"{sizes[DRAW]} values are given along {DRAW!r} for draws={draws}: variables that share a dimension vary together."
        )
    if prod(sizes.values()) > MOST_POINTS:
        raise SweepError(f"a sweep has at most {MOST_POINTS:.0e} points, got {' x '.join(map(str, sizes.values()))}.")
    return Grid(variables, sizes, int(seed), labels, int(first_draw))


def _usable(name: Any) -> bool:
    """Whether a variable or dimension can have this name."""
    return (
        isinstance(name, str) and name not in (TIME, *RESERVED) and all(part.isidentifier() for part in name.split("."))
    )


def _variables(over: Any, labels: dict[str, np.ndarray]) -> Iterator[Variable]:
    if hasattr(over, "data_vars"):  # a Dataset
        for name, array in over.variables.items():
            if (
                name in over.dims
                and name in over.coords
                and any(name in v.dims for v in over.data_vars.values())
                and name not in over.data_vars
            ):
                labels[str(name)] = np.asarray(array)
            else:
                yield _from_xarray(str(name), array)
        return
    if not isinstance(over, Mapping):
        raise SweepError(f"over must map names to values or distributions, got {type(over).__name__}.")
    for name, value in over.items():
        if isinstance(value, Zipped):
            yield from (_plain(inner, items, value.dimension) for inner, items in value.values.items())
        elif isinstance(name, tuple):
            dimension = "_".join(name)
            rows = list(value)
            for row in rows:
                if isinstance(row, str) or not hasattr(row, "__len__") or len(row) != len(name):
                    raise SweepError(f"each entry of {name} needs {len(name)} values, got {row!r}.")
            yield from (_plain(n, [row[k] for row in rows], dimension) for k, n in enumerate(name))
        elif isinstance(value, Distribution):
            yield Variable(name, (DRAW,), distribution=value)
        elif hasattr(value, "dims") and hasattr(value, "values"):
            yield _from_xarray(name, value)
        else:
            yield _plain(name, value, name)


def _from_xarray(name: str, array: Any) -> Variable:
    values = np.asarray(array.values)
    return Variable(name, tuple(str(d) for d in array.dims), values, unit=str(array.attrs.get("units", "")))


def _plain(name: str, value: Any, dimension: str) -> Variable:
    if not isinstance(name, str):
        raise SweepError(f"a variable of a sweep needs a name, got {name!r}.")
    if isinstance(value, str) or (not hasattr(value, "__iter__") and not hasattr(value, "__array__")):
        return Variable(name, (), _as_values([value]).reshape(()))
    array = value if isinstance(value, np.ndarray) else _as_values(list(value))
    return Variable(name, (), array) if array.ndim == 0 else Variable(name, (dimension,), array)


def _as_values(items: list[Any]) -> np.ndarray:
    """Numbers and texts as arrays, anything else as objects."""
    if items and all(isinstance(item, str) for item in items):
        return np.array(items)
    try:
        array = np.array(items)
    except (TypeError, ValueError):
        array = np.empty(0, dtype=object)
    if array.dtype.kind in "fiub" and len(array) == len(items):
        return array
    found = np.empty(len(items), dtype=object)
    found[:] = items
    return found
