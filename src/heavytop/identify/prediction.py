"""Open-loop prediction of logs: the motion simulated from measured states with the logged inputs, compared with the measurements."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._format import Brief
from heavytop.errors import IdentificationError
from heavytop.identify.shooting import SearchPoint, WindowShooting, cut
from heavytop.identify.trials import samples_of, trials_of

if TYPE_CHECKING:
    from heavytop.identify.result import Identification


@dataclass(frozen=True, eq=False, repr=False)
class OpenLoopPrediction(Brief):
    """Errors of predictions over a horizon.

    Attributes
    ----------
    t : (n,) time after the start, s. errors : signal -> (n, starts) size of the error: distance, angle, speed, ... in the unit of the signal.
    logs : (starts,) index of the log of each start.

    Examples
    --------
    >>> import heavytop as ht
    >>> model = ht.library.pendulum().derive()
    >>> run = ht.simulate(model, ([1.0], [0.0]), until=2.0, step=0.01)
    >>> ahead = ht.identify(model, run, parameters=["l"], outputs=["q"]).predict(run, horizon=0.2)
    >>> ahead.t.shape, ahead.errors["q"].shape
    ((21,), (21, 10))
    """

    t: np.ndarray
    errors: dict[str, np.ndarray]
    logs: np.ndarray = field(repr=False)

    def mean(self, log: int | None = None) -> dict[str, float]:
        """Signal -> mean error at the end of the horizon, of all logs or of one."""
        own = np.ones(len(self.logs), dtype=bool) if log is None else self.logs == log
        return {name: float(np.nanmean(error[-1, own])) for name, error in self.errors.items()}

    def over_time(self) -> dict[str, np.ndarray]:
        """Signal -> (n,) mean error after each time."""
        return {name: np.nanmean(error, axis=1) for name, error in self.errors.items()}


def predict(found: Identification, logs: Any, horizon: float, every: float | None) -> OpenLoopPrediction:
    """The prediction of logs by an identified model."""
    s, source = found.shooting, found.source
    if source is None:
        raise IdentificationError(
            "a prediction begins at measured states, and the logs of this identification have none (starts= was given)."
        )
    names = [*s.outputs.signals, *(source.names - set(s.outputs.signals))]
    trials = trials_of(logs, s.dynamics, found.inputs, names)
    step = trials[0].step
    length = samples_of(horizon, step, "horizon of predict()")
    between = length if every is None else samples_of(every, step, "every of predict()")
    windows = cut(trials, s.outputs, length, between)
    shooting = WindowShooting(s.dynamics, s.subject, trials, s.outputs, s.unknowns, windows, s.parts, s.integrator)
    z = found.fit.point.z.copy()
    z[s.unknowns.indices("bias")] = 0.0
    q, v = np.empty((len(windows), s.dynamics.nq)), np.empty((len(windows), s.dynamics.nv))
    for k, trial in enumerate(trials):
        own = windows.log == k
        q[own], v[own] = source.at(trial, windows.first[own], s.unknowns.parameters(z))
    shot = shooting.shoot(shooting.closed(SearchPoint(z, q, v)))
    r = np.where(windows.seen, shot.residuals, np.nan)
    ends = np.cumsum([0, *s.outputs.sizes])
    errors = {name: np.linalg.norm(r[..., ends[k] : ends[k + 1]], axis=-1) for k, name in enumerate(s.outputs.signals)}
    return OpenLoopPrediction(step * np.arange(length + 1), errors, windows.log)
