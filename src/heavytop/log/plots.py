"""Figures of logs: every signal over its own time, with its gaps."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._format import listed
from heavytop.errors import FileFormatError

if TYPE_CHECKING:
    import xarray
    from matplotlib.figure import Figure

GAP = 5.0
"""Curves are interrupted where the time between samples exceeds this multiple of its median."""


def plot_log(log: xarray.Dataset, path: str | Path | None = None) -> Figure:
    """One figure of a log: an axis with its unit for each signal; curves are interrupted in gaps and where nothing was measured.

    Parameters
    ----------
    log : a dataset of :func:`load_log`. path : where to write the figure (png, pdf, svg); None: only return it.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import heavytop as ht
    >>> columns = {"time": {"column": "t"}, "signals": {"position": {"columns": ["x", "y", "z"], "unit": "m"}}}
    >>> with TemporaryDirectory() as folder:
    ...     _ = Path(folder, "log.csv").write_text("t,x,y,z\\n0,0,0,1\\n0.1,0,0,2\\n")
    ...     figure = plot_log(ht.load_log(f"{folder}/log.csv", columns))
    ...
    >>> [axis.get_title() for axis in figure.axes]
    ['position']
    """
    from heavytop.show import COLORS, figure_grid, finish_axis, written

    signals = {}
    for name, signal in log.data_vars.items():
        time = str(signal.dims[0]) if signal.dims else ""
        if time.startswith("time") and time in log.coords and signal.ndim <= 2:
            signals[str(name)] = signal, log[time].values
    if not signals:
        raise FileFormatError(
            f"the log has no signals over a time to draw; it has {listed([str(name) for name in log.data_vars]) or 'none'}. Give a dataset of "
            "load_log()."
        )
    figure, axes = figure_grid(len(signals))
    for axis, (name, (signal, t)) in zip(axes, signals.items(), strict=True):
        values = signal.values[:, None] if signal.ndim == 1 else signal.values
        labels = [name] if signal.ndim == 1 else _labels(log, signal)
        t, values = _interrupted(t, np.asarray(values, dtype=float))
        for k, label in enumerate(labels):
            style = "-" if k < len(COLORS) else "--"
            axis.plot(t, values[:, k], style, label=label, color=COLORS[k % len(COLORS)], linewidth=0.9)
        unit = signal.attrs.get("units", "")
        finish_axis(axis, name, unit if isinstance(unit, str) else "")
    figure.suptitle(Path(str(log.attrs.get("source", "log"))).name, fontsize=10)
    return written(figure, path)


def _labels(log: xarray.Dataset, signal: Any) -> list[str]:
    """Names of the entries of a signal (n, m)."""
    axis = signal.dims[1]
    return [str(x) for x in (log[axis].values if axis in log.coords else range(signal.shape[1]))]


def _interrupted(t: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Times (n,) and values (n, m) with a NaN in each gap."""
    pace = np.diff(t)
    gaps = np.flatnonzero(pace > GAP * np.median(pace)) if len(pace) else []
    return np.insert(t, np.add(gaps, 1).astype(int), t[gaps]), np.insert(values, np.add(gaps, 1).astype(int), np.nan, 0)
