"""Shares with confidence intervals, and quantiles with theirs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop.errors import SweepError, unknown_name
from heavytop.sweep.grid import DRAW
from heavytop.sweep.measure import FAILED

if TYPE_CHECKING:
    import xarray


def wilson(successes: Any, trials: Any, confidence: float = 0.95) -> tuple[np.ndarray, np.ndarray]:
    """Confidence interval of a share (Wilson 1927): it stays within [0, 1] and is honest for few trials and for shares near 0 and 1.

    >>> low, high = wilson(9, 10)
    >>> float(low.round(3)), float(high.round(3))
    (0.596, 0.982)
    """
    from scipy.special import ndtri

    if not 0 < confidence < 1:
        raise SweepError(f"a confidence lies between 0 and 1, got {confidence}.")
    k, n = np.asarray(successes, dtype=float), np.asarray(trials, dtype=float)
    if np.any(~((k >= 0) & (k <= n) & (n < np.inf))):
        raise SweepError("successes lie between 0 and the number of trials, which is finite.")
    z = ndtri(0.5 + confidence / 2)
    with np.errstate(invalid="ignore", divide="ignore"):
        p = k / n
        centre = (p + z * z / (2 * n)) / (1 + z * z / n)
        half = z / (1 + z * z / n) * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    empty = n == 0
    return np.where(empty, 0.0, np.clip(centre - half, 0, 1)), np.where(empty, 1.0, np.clip(centre + half, 0, 1))


def share(
    data: xarray.Dataset, name: str, over: str | Sequence[str] | None = None, confidence: float = 0.95
) -> xarray.Dataset:
    """Share of true values of a variable along dimensions (default: draws, or all), with bounds ``low`` and ``high``.

    Points that were not computed do not count; points that failed, and NaN, count as false.
    """
    import xarray

    if name not in data:
        raise unknown_name("measure", name, [str(n) for n in data.data_vars])
    values = data[name]
    if values.dtype.kind == "f" and not bool(((values == 0) | (values == 1) | values.isnull()).all()):
        raise SweepError(
            f"{name!r} is a number, not a condition: measure one, such as measure={{'{name}_small': lambda run: run[...] < 1}}, or give "
            f"conditions of the dataset (result.data.assign(small=result.{name} < 1))."
        )
    computed = data["outcome"] >= 0
    true = data[name].astype(bool) & data[name].notnull() & computed
    if data[name].dtype.kind in "iu":  # which know no NaN
        true &= data["outcome"] != FAILED
    default = [DRAW] if DRAW in true.dims else list(true.dims)
    dims = default if over is None else [over] if isinstance(over, str) else list(over)
    if lost := [dim for dim in dims if dim not in true.dims]:
        raise unknown_name("dimension", str(lost[0]), [str(d) for d in true.dims])
    k, n = true.sum(dims), computed.sum(dims)
    low, high = wilson(k.values, n.values, confidence)
    return xarray.Dataset(
        {"share": k / n.where(n > 0), "low": (k.dims, low), "high": (k.dims, high), "trials": n},
        attrs={"confidence": confidence},
    )


def quantile_interval(values: np.ndarray, level: float, confidence: float = 0.95) -> tuple[float, float, float]:
    """A quantile with its confidence interval from order statistics (binomial, no assumption on the distribution).

    >>> quantile_interval(np.arange(1000.0), 0.5)
    (499.5, 468.0, 531.0)
    """
    from scipy.stats import binom

    if not (0 <= level <= 1 and 0 < confidence < 1):
        raise SweepError(f"a quantile and a confidence lie between 0 and 1, got {level} and {confidence}.")
    x = np.sort(np.asarray(values, dtype=float).reshape(-1))
    n = len(x)
    if n == 0 or np.isnan(x[-1]):
        raise SweepError("a quantile needs values, and none that is NaN.")
    tail = (1 - confidence) / 2
    # order statistics number ppf(tail) and ppf(1 - tail) + 1, counted from one; without such a value the interval is open
    low, high = int(binom.ppf(tail, n, level)) - 1, int(binom.ppf(1 - tail, n, level))
    lower = x[low] if low >= 0 else -float("inf")
    upper = x[high] if high < n else float("inf")
    return float(np.quantile(x, level)), float(lower), float(upper)
