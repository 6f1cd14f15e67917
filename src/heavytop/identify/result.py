"""The result of an identification: values with intervals, what the logs do not determine, residuals, predictions of other logs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from heavytop._format import Brief, counted
from heavytop.identify.fit import WEAK, Fit
from heavytop.identify.prediction import OpenLoopPrediction, predict
from heavytop.identify.shooting import WindowShooting

INTERVAL = 1.959963984540054
"""Standard deviations on either side of a 95 % interval."""
NULL_SHARE = 0.05
"""Entries of a null direction below this share of its largest one are left out."""
POOR = 1.0
"""A combination whose standard deviation exceeds this multiple of the values is not determined."""


@dataclass(frozen=True, eq=False, repr=False)
class Identification(Brief):
    """Parameters identified from logs.

    Attributes
    ----------
    values : name -> identified value, in SI units; inertias as mass, centre of mass and moments about it.
    deviations : name -> standard deviation, infinite where the logs do not determine the value.
    intervals : name -> (low, high), 95 %.
    covariance, correlations : (n, n), in the order of ``values``.
    noise : channel -> estimated standard deviation of the measurement.
    undetermined : descriptions of combinations of parameters that have no or hardly any effect on the outputs.
    converged : whether the last step of the search was small. steps : number of steps of the search.

    Examples
    --------
    >>> import heavytop as ht
    >>> model = ht.library.pendulum().derive()
    >>> run = ht.simulate(model, ([1.0], [0.0]), until=2.0, step=0.01, parameters={"l": 1.1})
    >>> found = ht.identify(model, run, parameters=["l"], outputs=["q"])
    >>> round(found.parameters["l"], 6), found.undetermined
    (1.1, ())
    """

    values: dict[str, float]
    deviations: dict[str, float]
    covariance: np.ndarray
    noise: dict[str, float]
    undetermined: tuple[str, ...]
    at_bounds: tuple[str, ...]
    converged: bool
    steps: int
    model: Any = field(repr=False)
    shooting: WindowShooting = field(repr=False)
    fit: Fit = field(repr=False)
    inputs: tuple[str, ...] = ()
    source: Any = field(default=None, repr=False)
    flown: Callable[[Any], Any] | None = field(default=None, repr=False)
    """The part of a log that is predicted; None: all of it."""

    @classmethod
    def of(cls, model: Any, shooting: WindowShooting, fit: Fit, inputs: Sequence[str], source: Any) -> Identification:
        """From the end of a search."""
        unknowns = shooting.unknowns
        names = unknowns.reported()
        values = unknowns.values(fit.point.z)
        T = unknowns.slopes(fit.point.z)
        covariance_z, null = _covariance(fit)
        covariance = T @ covariance_z @ T.T
        deviations = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        moves = np.abs(T @ null) / np.where(values != 0, np.abs(values), 1.0)[:, None]
        moved = (moves > NULL_SHARE * moves.max(axis=0, initial=0.0)).any(axis=1)
        deviations = np.where(moved, np.inf, deviations)
        bound = tuple(unknowns.entries[k].name for k in np.flatnonzero(~fit.free))
        return cls(
            dict(zip(names, values.tolist(), strict=True)),
            dict(zip(names, deviations.tolist(), strict=True)),
            covariance,
            dict(zip(shooting.outputs.channels, fit.noise.tolist(), strict=True)),
            _undetermined(names, values, T, covariance, null),
            bound,
            fit.converged,
            fit.steps,
            model,
            shooting,
            fit,
            tuple(inputs),
            source,
        )

    @property
    def parameters(self) -> dict[str, float]:
        """Identified parameters of the model, as ``simulate(..., parameters=...)`` takes them."""
        return self.shooting.unknowns.parameters(self.fit.point.z)

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """Name -> 95 % interval."""
        return {
            name: (value - INTERVAL * self.deviations[name], value + INTERVAL * self.deviations[name])
            for name, value in self.values.items()
        }

    @property
    def correlations(self) -> np.ndarray:
        """(n, n) correlations of the estimates."""
        d = np.sqrt(np.maximum(np.diag(self.covariance), 1e-300))
        return self.covariance / np.outer(d, d)

    @property
    def residuals(self) -> dict[str, np.ndarray]:
        """Signal -> (samples, windows, m), model minus measurement in minimal coordinates; NaN where nothing was measured."""
        r = np.where(self.shooting.windows.seen, self.fit.shot.residuals, np.nan)
        ends = np.cumsum([0, *self.shooting.outputs.sizes])
        return {s: r[..., ends[k] : ends[k + 1]] for k, s in enumerate(self.shooting.outputs.signals)}

    def spectrum(self) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Residuals by frequency: frequencies (k,) in Hz, channel -> amplitude density (k,), root mean square over the windows per root of Hz.

        White noise is flat; a peak or a rise at low frequencies is a part of the motion that the model does not have. Of windows that are compared
        whole, if there are any.
        """
        whole = self.shooting.windows.seen.all(axis=(0, 2))
        r = self.fit.shot.residuals[:, whole] if whole.any() else self.fit.shot.residuals
        n, step = r.shape[0], self.shooting.trials[0].step
        shaped = np.fft.rfft((r - r.mean(axis=0)) * np.hanning(n)[:, None, None], axis=0)
        power = np.mean(np.abs(shaped) ** 2, axis=1) * 2 * step / max(float(np.sum(np.hanning(n) ** 2)), 1e-300)
        return np.fft.rfftfreq(n, step), dict(zip(self.shooting.outputs.channels, np.sqrt(power).T, strict=True))

    def predict(self, logs: Any, horizon: float = 0.5, every: float | None = None) -> OpenLoopPrediction:
        """Predict other logs open loop, from measured states with the logged inputs.

        Parameters
        ----------
        logs : as in :func:`identify`; for multicopters, the part in flight.
        horizon : length of a prediction, s. every : time between starts, s; default: the horizon.

        Examples
        --------
        >>> import heavytop as ht
        >>> model = ht.library.pendulum().derive()
        >>> run = ht.simulate(model, ([1.0], [0.0]), until=2.0, step=0.01)
        >>> found = ht.identify(model, run, parameters=["l"], outputs=["q"])
        >>> bool(found.predict(run, horizon=0.5).mean()["q"] < 1e-6)
        True
        """
        if self.flown is not None:
            logs = [self.flown(log) for log in (logs if isinstance(logs, list | tuple) else [logs])]
        return predict(self, logs, horizon, every)

    def plot(self) -> Any:
        """A matplotlib figure: uncertainty, correlations, residuals by frequency and along the windows."""
        from heavytop.identify.report import figure

        return figure(self)

    def page(self, path: str | Path) -> Path:
        """Write a self-contained HTML page with the figure and the tables."""
        from heavytop.identify.report import page

        return page(self, path)

    def save(self, path: str | Path, airframe: str | Path | None = None) -> Path:
        """Write the identified values: a multicopter as ``.toml``, with everything else from the file ``airframe``; a model as ``.urdf``."""
        from heavytop.identify.files import save

        return save(self, path, airframe)

    def summary(self) -> str:
        """The result as text.

        Examples
        --------
        >>> import heavytop as ht
        >>> model = ht.library.pendulum().derive()
        >>> run = ht.simulate(model, ([1.0], [0.0]), until=2.0, step=0.01)
        >>> found = ht.identify(model, run, parameters=["m", "l"], outputs=["q"])
        >>> print("\\n".join(found.summary().splitlines()[-2:]))
        not determined:
          m changes no output
        """
        width = max(len(name) for name in self.values)
        lines = [
            f"{self.shooting.dynamics.name}: {counted(len(self.values), 'unknown')} from {counted(len(self.shooting.trials), 'log')}, "
            f"{counted(len(self.shooting.windows), 'window')} of {self.shooting.windows.length} samples"
            + ("" if self.converged else "; the search did not converge")
        ]
        for name, value in self.values.items():
            deviation = self.deviations[name]
            text = "not determined" if not np.isfinite(deviation) else f"+- {INTERVAL * deviation:.3g}"
            lines.append(
                f"  {name:<{width}}  {value:>13.6g}  {text}{'  (at its bound)' if name in self.at_bounds else ''}"
            )
        lines.append("noise (standard deviation of a sample):")
        lines += [f"  {name}: {value:.3g}" for name, value in self.noise.items()]
        strong = self._strong_correlations()
        if strong:
            lines.append("strong correlations:")
            lines += [f"  {a}, {b}: {value:+.3f}" for a, b, value in strong]
        if self.undetermined:
            lines.append("not determined:")
            lines += [f"  {text}" for text in self.undetermined]
        return "\n".join(lines)

    def _strong_correlations(self) -> list[tuple[str, str, float]]:
        names, C = list(self.values), self.correlations
        known = [np.isfinite(self.deviations[name]) for name in names]
        return [
            (a, names[j], float(C[i, j]))
            for i, a in enumerate(names)
            for j in range(i + 1, len(names))
            if known[i] and known[j] and abs(C[i, j]) > 0.95
        ]

    def __str__(self) -> str:
        return self.summary()


def _covariance(fit: Fit) -> tuple[np.ndarray, np.ndarray]:
    """Covariance (nz, nz) of the determined directions, and null directions (nz, k)."""
    free = fit.free
    norms = np.linalg.norm(fit.J, axis=0)
    dead = fit.dead & free
    used = np.flatnonzero(free & ~dead)
    scale = 1.0 / norms[used]
    n = len(norms)
    covariance = np.zeros((n, n))
    null = [np.eye(n)[k] for k in np.flatnonzero(dead)]
    if len(used):
        A = fit.J[:, used] * scale
        _, sv, Vt = np.linalg.svd(np.linalg.qr(A, mode="r"), full_matrices=False)
        good = sv > WEAK * sv[0]
        W = scale[:, None] * Vt[good].T / sv[good]
        covariance[np.ix_(used, used)] = W @ W.T
        for row in Vt[~good]:
            direction = np.zeros(n)
            direction[used] = scale * row
            null.append(direction)
    return covariance, np.array(null).T.reshape(n, len(null))


def _undetermined(
    names: Sequence[str], values: np.ndarray, T: np.ndarray, covariance: np.ndarray, null: np.ndarray
) -> tuple[str, ...]:
    """Combinations that change no output, and those that the noise hides."""
    size = np.where(values != 0, np.abs(values), 1.0)
    found = [_named(names, (T @ direction) / size, values, "no output") for direction in null.T]
    relative = covariance / np.outer(size, size)
    strengths, directions = np.linalg.eigh(relative)
    for strength, direction in zip(strengths, directions.T, strict=True):
        if np.sqrt(max(strength, 0.0)) > POOR:
            found.append(_named(names, direction, values, "the outputs less than the noise does"))
    return tuple(found)


def _named(names: Sequence[str], direction: np.ndarray, values: np.ndarray, what: str) -> str:
    largest = float(np.abs(direction).max())
    if largest == 0:
        return f"a combination of the unknowns changes {what}"
    share = direction / direction[int(np.argmax(np.abs(direction)))]
    members = [(str(names[k]), share[k]) for k in np.argsort(-np.abs(share)) if abs(share[k]) > NULL_SHARE]
    if len(members) == 1:
        return f"{members[0][0]} changes {what}"
    if all(abs(s - 1.0) < 0.02 for _, s in members):
        return f"{', '.join(name for name, _ in members)} share a scale: the same factor on all of them changes {what}"
    moves = ", ".join(f"{name} by {s:+.3g} %" for name, s in members)
    return f"a change of {moves} (of their values) changes {what}"
