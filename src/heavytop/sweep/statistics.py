"""Shares and quantiles with confidence intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop.errors import SweepError, unknown_name
from heavytop.sweep.grid import DRAW
from heavytop.sweep.measure import FAILED

if TYPE_CHECKING:
    import xarray


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
    default = [DRAW] if DRAW in true.dims else list(true.dims)
    dims = default if over is None else [over] if isinstance(over, str) else list(over)
    if lost := [dim for dim in dims if dim not in true.dims]:
        raise unknown_name("dimension", str(lost[0]), [str(d) for d in true.dims])
    k, n = true.sum(dims), computed.sum(dims)
    low, high = share_interval(k.values, n.values, confidence)
    return xarray.Dataset(
        {"share": k / n.where(n > 0), "low": (k.dims, low), "high": (k.dims, high), "trials": n},
        attrs={"confidence": confidence},
    )


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
    return float(np.quantile(x, level)), float(low), float(high)
