"""``ht.tune``: gains of a law by the gradient through the closed loop, over a batch of starts and parameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from heavytop._format import Brief
from heavytop.errors import SimulationError, unknown_name
from heavytop.simulate.controller import gains_of
from heavytop.simulate.spec import prepare


@dataclass(frozen=True, eq=False, repr=False)
class TunedGains(Brief):
    """Result of :func:`tune`.

    Attributes
    ----------
    gains : name -> value: an argument of :func:`heavytop.simulate`. value : loss, the mean over the batch. start : loss of the untuned gains.
    history : loss after each iteration. runs : gradients that were computed. message : why the search ended.
    spread : least and largest loss of the batch.

    Examples
    --------
    >>> TunedGains({"k": np.array(2.0)}, 0.5, 1.0, (1.0, 0.5), 3, "converged").gains
    {'k': array(2.)}
    """

    gains: dict[str, np.ndarray]
    value: float
    start: float
    history: tuple[float, ...]
    runs: int
    message: str
    spread: tuple[float, float] = field(default=(0.0, 0.0))


def tune(
    law: Any,
    loss: Any,
    model: Any,
    over: tuple[Any, Any],
    until: float,
    step: float,
    *,
    gains: Sequence[str] | None = None,
    bounds: Mapping[str, tuple[float | None, float | None]] | None = None,
    parameters: Mapping[str, Any] | None = None,
    iterations: int = 50,
    worst: float = 0.0,
    memory: float | None = None,
    **options: Any,
) -> TunedGains:
    """Improve the gains of a law by the gradient of a loss through the closed loop, including wrappers (delay, lag, noise) and limits.

    The loss is the mean over a batch of starts (and parameters: robust gains), plus ``worst`` times a smooth maximum over it. The search is
    L-BFGS-B on gains relative to their sizes.

    Parameters
    ----------
    law : a law with gains (``ht.Feedback(..., gains={...})``), or wrappers of one. loss, model, until, step : as in :func:`heavytop.gradient`.
    over : (q, v) of shapes (n, nq) and (n, nv): the starts.
    gains : names of those that change; None: all.
    bounds : name -> (least, largest) of all entries of a gain.
    parameters : name -> value or batch of values. options : as in :func:`heavytop.simulate`: reference, hold, control_step, integrator, threads, ...

    Examples
    --------
    >>> import heavytop as ht
    >>> system = ht.System()
    >>> system.body("cart", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    >>> system.input("motor", ht.JointForce("cart"))
    >>> law = ht.Feedback(lambda q, v, gains: -gains["k"] * q - gains["d"] * v, ("q", "v", "gains"), gains={"k": 1.0, "d": 0.1})
    >>> loss = ht.Loss(running=lambda t, q, v, u: q[0] ** 2 + 0.01 * u[0] ** 2)
    >>> found = ht.tune(law, loss, system.derive(), over=([[1.0], [-2.0]], [0.0]), until=5.0, step=0.02)
    >>> found.value < 0.5 * found.start, sorted(found.gains)
    (True, ['d', 'k'])
    """
    from scipy.optimize import minimize

    own = gains_of(law)
    if not own:
        raise SimulationError(
            f"{law!r} has no gains to tune: declare them, for example ht.Feedback(function, ('q', 'v', 'gains'), gains={{...}})."
        )
    names = list(own) if gains is None else list(gains)
    for name in (*names, *(bounds or {})):
        if name not in own:
            raise unknown_name("gain", name, own)
    spec = prepare(model, until, step, control=law, **options)
    scales = {
        name: np.where(own[name] == 0.0, max(float(np.abs(own[name]).max()), 1.0), np.abs(own[name])) for name in names
    }
    history: list[float] = []
    runs = 0
    last = np.zeros(1)

    def gains_at(x: np.ndarray) -> dict[str, np.ndarray]:
        parts = np.split(x, np.cumsum([own[name].size for name in names])[:-1])
        return {
            name: own[name] + scales[name] * part.reshape(own[name].shape)
            for name, part in zip(names, parts, strict=True)
        }

    def evaluate(x: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal runs, last
        runs += 1
        try:
            found = spec.gradient(loss, over, parameters, gains_at(x), by=("gains",), memory=memory)
        except SimulationError:
            if not history:
                raise
            return 1e3 * (1.0 + abs(history[-1])), np.zeros_like(x)  # diverged: the line search goes back
        value = np.atleast_1d(found.value).reshape(-1)
        last = value
        share = np.full(value.shape, 1.0 / len(value))
        total = float(value.mean())
        if worst:
            size = max(float(value.std()), 1e-300)
            soft = np.exp((value - value.max()) / size)
            soft /= soft.sum()
            total += worst * float(value.max() + size * np.log(np.mean(np.exp((value - value.max()) / size))))
            share = share + worst * soft
        slopes = [
            np.tensordot(share, found.gains[name].reshape(len(value), -1), 1) * scales[name].reshape(-1)
            for name in names
        ]
        return total, np.concatenate(slopes)

    n = sum(own[name].size for name in names)
    limits = []
    for name in names:
        low, high = (bounds or {}).get(name, (None, None))
        for value, scale in zip(own[name].reshape(-1), scales[name].reshape(-1), strict=True):
            limits.append(tuple(None if b is None else (b - value) / scale for b in (low, high)))
    first, _ = evaluate(np.zeros(n))
    history.append(first)
    result = minimize(
        evaluate,
        np.zeros(n),
        jac=True,
        method="L-BFGS-B",
        bounds=limits,
        options={"maxiter": iterations},
        callback=lambda intermediate_result: history.append(float(intermediate_result.fun)),
    )
    best, _ = evaluate(result.x)
    found = own | gains_at(result.x)
    return TunedGains(
        found, best, first, tuple(history), runs, str(result.message), (float(last.min()), float(last.max()))
    )
