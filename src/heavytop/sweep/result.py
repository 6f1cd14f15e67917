"""The result of a sweep."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._format import Overview, Shown, listed
from heavytop.errors import SweepError, require_extra, unknown_name
from heavytop.sweep.grid import DRAW, TIME
from heavytop.sweep.measure import OUTCOMES
from heavytop.sweep.statistics import boxes
from heavytop.sweep.store import DONE, GIVEN_UP, Store, check_store, coordinates
from heavytop.sweep.study import StoredVariable, Study

if TYPE_CHECKING:
    import xarray


_NUMBERS = re.compile(r"(?<![\w.])[-+]?\d+(\.\d*)?(e[-+]?\d+)?\b")


class Result(Shown):
    """The result of a sweep: a dataset from which every run can be repeated.

    Attributes
    ----------
    data : ``xarray.Dataset`` with the dimensions and coordinates of the sweep; its variables are the measures, ``outcome`` (codes, see
        its attribute ``meaning``), ``end_time`` and ``cause``. With a store it is read when it is used.
    study : the study; None if a store was only opened.

    ``result["q"]``, ``result.q`` and the methods of the dataset (``sel``, ``mean``, ...) are those of ``data``.

    Examples
    --------
    >>> import heavytop as ht
    >>> result = ht.sweep(lambda x: {"double": 2 * x}, over={"x": [1.0, 2.0]})
    >>> result, result.outcomes()
    (Result(x: 2), {'finished': 2})
    """

    def __init__(self, data: xarray.Dataset, study: Study | None = None, store: Path | None = None) -> None:
        self.data, self.study, self.store = data, study, store

    def __getitem__(self, name: Any) -> Any:
        return self.data[name]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "data":
            raise AttributeError(name)
        if name == "to_csv":
            raise AttributeError("'Result' object has no attribute 'to_csv': write result.to_dataframe().to_csv(path).")
        return getattr(self.data, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(n for n in map(str, self.data.variables) if n.isidentifier())})

    def __repr__(self) -> str:
        where = f", {self.store}" if self.store else ""
        sizes = ", ".join(f"{dim}: {self.data.sizes[dim]}" for dim in self.dims)
        return f"Result({sizes}{where})"

    def _overview(self) -> Overview:
        rows = [(dim, str(self.data.sizes[dim])) for dim in self.dims]
        rows += [(f"ended: {how}", f"{count:,}") for how, count in self.outcomes().items()]
        measures = [str(name) for name in self.data.data_vars if name not in ("outcome", "end_time", "cause")]
        rows.append(("measures", listed(measures)))
        return Overview("Sweep" + (f" in {self.store}" if self.store else ""), tuple(rows))

    @property
    def dims(self) -> tuple[str, ...]:
        """Dimensions of the sweep."""
        return tuple(str(d) for d in self.data["outcome"].dims)

    @property
    def points(self) -> int:
        """Number of points."""
        return int(self.data["outcome"].size)

    def outcomes(self) -> dict[str, int]:
        """Number of points by outcome; "open": not computed."""
        found: dict[int, int] = {}
        for _, (values,) in boxes(self, "outcome"):
            for code, count in zip(*np.unique(values, return_counts=True), strict=True):
                found[int(code)] = found.get(int(code), 0) + int(count)
        return {("open" if c < 0 else OUTCOMES[c]): found[c] for c in sorted(found)}

    def causes(self) -> dict[str, int]:
        """Number of points by cause of failure or early end: the event, or the message.

        Causes that differ only in their numbers, such as times, count as one, with the numbers of the first.
        """
        found: Counter[str] = Counter()
        first: dict[str, str] = {}
        for _, (values,) in boxes(self, "cause"):
            texts = Counter(str(text) for text in values.reshape(-1).tolist() if text)
            for text, count in texts.items():
                found[first.setdefault(_NUMBERS.sub("#", text), text)] += count
        return dict(sorted(found.items(), key=lambda item: (-item[1], item[0])))

    def place(self, **chosen: Any) -> tuple[int, ...]:
        """Index of a point along every dimension, from the values of variables or positions along dimensions.

        A dimension with a coordinate takes the nearest value of it, if the given one lies among its values or within half a cell of them; others
        (``draw``) take the position.
        """
        index = dict.fromkeys(self.dims, 0)
        for name, value in chosen.items():
            if name not in self.dims:
                raise unknown_name("dimension of the sweep", name, self.dims)
            size = self.data.sizes[name]
            if name in self.data.coords and self.data[name].dims == (name,):
                labels = self.data[name].values
                if labels.dtype.kind in "fiu":
                    index[name] = _nearest(name, labels, value)
                else:
                    texts = [str(x) for x in labels]
                    if str(value) not in texts:
                        raise unknown_name(f"value of {name}", str(value), texts)
                    index[name] = texts.index(str(value))
            elif not 0 <= int(value) < size:
                raise SweepError(f"{name} has the positions 0 to {size - 1}, got {value}.")
            else:
                index[name] = int(value)
        return tuple(index.values())

    def rerun(self, **chosen: Any) -> Any:
        """Run one point again with all records: the same bits as in the sweep. Dimensions that are not named are at their first position.

        Returns the run, or the value of a function of one point.
        """
        if self.study is None:
            raise SweepError(
                "a store does not contain the study: call sweep(..., store=...) with the same study again."
            )
        return self.study.cases.run(self.study.at(self.place(**chosen)))

    def share(self, name: str, over: str | Sequence[str] | None = None, confidence: float = 0.95) -> xarray.Dataset:
        """Share of points at which a measure (or condition) is true, with its exact confidence interval, along ``over`` or over draws.

        ``over`` : a dimension, or several; ``over=result.dims`` for one share of all points.
        """
        from heavytop.sweep.statistics import share

        return share(self.data, name, over, confidence)

    def quantile(
        self,
        level: float,
        names: str | Sequence[str] | None = None,
        over: str | Sequence[str] | None = None,
        confidence: float = 0.95,
    ) -> xarray.Dataset:
        """Quantiles of measures over draws, with confidence intervals from order statistics, which assume nothing about the distribution.

        Parameters
        ----------
        level : between 0 and 1. names : measures; None: all numbers but trajectories. over : dimensions; None: the draws.

        Returns
        -------
        Dataset
            For each measure ``name``, ``name_low`` and ``name_high``. Points that failed or diverged count as infinite, points that were not
            computed do not count; an end of an interval is infinite if there are too few points for it.

        Examples
        --------
        >>> import heavytop as ht
        >>> drawn = ht.sweep(lambda x: {"y": 1 + x}, {"x": ht.uniform()}, draws=1000)
        >>> found = drawn.quantile(0.99, confidence=0.95)
        >>> bool(found.y_low < found.y < found.y_high), bool(found.y_low < 1.99 < found.y_high)
        (True, True)
        """
        from heavytop.sweep.statistics import quantiles

        if isinstance(level, str):
            raise SweepError(f"the level is the first argument, then the names: result.quantile(0.99, {level!r}).")
        if names is None:
            numbers = [n for n, v in self.data.data_vars.items() if v.dtype.kind in "fiu" and TIME not in v.dims]
            names = [str(n) for n in numbers if n not in ("outcome", "end_time")]
        return quantiles(self.data, level, [names] if isinstance(names, str) else names, over, confidence)

    def show(self, path: str | Path, runs: int = 0) -> Path:
        """Write a self-contained page: maps, histograms, parallel coordinates, shares, points with the way to their runs.

        The first ``runs`` listed points are run again; their 3-D pages are written into a folder next to the page and linked.
        """
        from heavytop.show import write_sweep

        return write_sweep(self, path, runs)


def open_result(path: str | Path, study: Study | None = None, *, check: bool = True) -> Result:
    """The result in a store, as far as it got; arrays are read when they are used.

    Parameters
    ----------
    check : read all files first and compare them with the checksums of their chunks; damage is an error that names it. Without the
        check a lost file reads as missing values.

    Examples
    --------
    >>> import heavytop as ht
    >>> _ = ht.sweep(lambda x: {"double": 2 * x}, over={"x": [1.0, 2.0]}, store="study.zarr")  # doctest: +SKIP
    >>> open_result("study.zarr")["double"].values  # doctest: +SKIP
    array([2., 4.])
    """
    require_extra("data", "the result of a sweep")
    import xarray

    store = Store(path)
    varied, dims = store.attributes["varied"], store.attributes["dimensions"]
    if check:
        check_store(store)
    data = xarray.open_zarr(str(store.path), consolidated=False, chunks=None)
    data = data.set_coords([name for name in varied if name in data]).drop_vars("done")
    data = data.transpose(*dims, ...)[[*store.entries, "outcome", "end_time", "cause"]]  # in the order of the study
    texts = {n: c.astype(object) for n, c in data.coords.items() if c.dtype.kind == "T" and DRAW not in c.dims}
    data = data.assign_coords(texts)
    marks = store.marks()
    attributes: dict[str, Any] = {"study": "\n".join(store.lines), "chunks": len(marks)}
    attributes |= {"done": int(np.sum(marks == DONE)), "given_up": int(np.sum(marks == GIVEN_UP))}
    return Result(data.assign_attrs(attributes), study, store.path)


def _nearest(name: str, labels: np.ndarray, value: Any) -> int:
    """Place of the value of a dimension that lies next to a given one, which may be half a cell outside of them."""
    try:
        wanted = float(value)
    except (TypeError, ValueError):
        raise SweepError(f"{name} takes numbers, got {value!r}.") from None
    low, high = float(np.min(labels)), float(np.max(labels))
    spare = 0.5 * (high - low) / max(len(labels) - 1, 1) + 1e-9 * max(abs(low), abs(high))
    if not low - spare <= wanted <= high + spare:  # NaN neither
        raise SweepError(f"{name} goes from {low:g} to {high:g} in this sweep, got {value}.")
    return int(np.argmin(np.abs(labels - wanted)))


def in_memory(study: Study, arrays: Mapping[str, np.ndarray], layout: Mapping[str, StoredVariable]) -> Result:
    """The result of a sweep without a store."""
    import xarray

    dims = tuple(study.grid.sizes)
    data: dict[str, Any] = {
        n: ((*dims, *e.dims), arrays[n], {"units": e.unit} if e.unit else {}) for n, e in layout.items()
    }
    data["outcome"] = (dims, arrays["outcome"], {"meaning": list(OUTCOMES)})
    data["end_time"] = (dims, arrays["end_time"], {"units": "s"})
    data["cause"] = (dims, arrays["cause"])
    coords: dict[str, Any] = {n: (d, v, {"units": u} if u else {}) for n, v, d, u in coordinates(study, layout)}
    for variable in study.grid.variables.values():
        if variable.distribution is not None:
            values = study.grid.own_values(variable, [slice(0, study.grid.sizes[DRAW])])
            further = (f"{variable.name}_{k}" for k in range(len(variable.shape)))
            coords[variable.name] = ((DRAW, *further), values, {"units": variable.unit} if variable.unit else {})
    return Result(xarray.Dataset(data, coords, {"study": "\n".join(study.lines)}), study)
