"""Smoothers on the manifold: all readings of a motion, or those of a moving window, relinearised.

About a motion x_k the errors xi_k of an estimator satisfy, to first order,

    xi_0 ~ N(m, P_0),     xi_{k+1} = F_k xi_k + d_k + w_k,     r_k = H_k xi_k + n_k,
    d_k = difference(x_{k+1}, step(x_k)),     r_k = residual(y_k, h(x_k)),

which a forward filter and a backward pass (Rauch, Tung and Striebel) solve exactly. Moving the motion by the solution, x_k <- retract(x_k, xi_k), and
repeating this is Gauss-Newton iteration on the manifold: its limit is the most probable motion.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from heavytop._arrays import numbers
from heavytop.control.estimation.estimator import Estimator, along_batch
from heavytop.errors import ControlError


@dataclass(frozen=True, eq=False)
class Smoothed:
    """Smoothed states.

    Attributes
    ----------
    t : (n,) s. q, v : (n, *batch, nq), (n, *batch, nv). biases : sensor -> (n, *batch, size). covariance : (n, *batch, ne, ne).
    change : largest entry of the last correction, small once the iterations have converged.

    Examples
    --------
    >>> import heavytop as ht
    >>> model = ht.library.pendulum().derive()
    >>> own = ht.estimator(model, [ht.control.EncoderSensor(model.q_names, noise=0.01)], 0.01, disturbance=0.1)
    >>> own.smooth(own.begin([0.5], [0.0]), np.zeros((3, 1)), {"encoder": np.full((3, 1), 0.5)}, iterations=3).change < 1e-9
    True
    """

    t: np.ndarray
    q: np.ndarray
    v: np.ndarray
    biases: dict[str, np.ndarray] = field(repr=False)
    covariance: np.ndarray = field(repr=False)
    x: np.ndarray = field(repr=False)
    change: float


@dataclass
class _Motion:
    """States (n, *batch, nx) and biases (n, *batch, nb) about which the equations are linear, and the first expected state."""

    x: np.ndarray
    b: np.ndarray
    x0: np.ndarray
    b0: np.ndarray
    P0: np.ndarray


def smooth(own: Estimator, start: Any, inputs: Any, readings: Mapping[str, Any], iterations: int = 1) -> Smoothed:
    """Estimates from all readings of a motion.

    Parameters
    ----------
    start, inputs, readings : as in :meth:`.Estimator.filter`; late readings are used at the time when they were taken. Gates are not used.
    iterations : 1: the smoother of Rauch, Tung and Striebel about the filtered motion; more: iterated towards the most probable motion.

    Examples
    --------
    >>> import heavytop as ht
    >>> from heavytop.control import EncoderSensor
    >>> model = ht.library.pendulum().derive()
    >>> filter_ = ht.estimator(model, [EncoderSensor(model.q_names, noise=0.05)], 0.01, disturbance=0.1)
    >>> start = filter_.begin([0.5], [0.0], 0.2, 0.2)
    >>> drawn = filter_.draw(start, np.zeros((200, 1)), seed=0)
    >>> smoothed = smooth(filter_, start, np.zeros((200, 1)), drawn.readings)
    >>> filtered = filter_.filter(start, np.zeros((200, 1)), drawn.readings)
    >>> bool(abs(smoothed.q - drawn.q).mean() < abs(filtered.q - drawn.q).mean())
    True
    """
    if iterations < 1:
        raise ControlError(f"a smoother needs 1 iteration or more, got {iterations}.")
    filtered = own.filter(start, inputs, readings)
    z = numbers(start, "start")
    x0, b0, _ = own._parts(z)
    motion = _Motion(filtered.x, filtered.b, x0, b0, own.covariance(z))
    taken, i = _taken(own, readings), numbers(inputs, "inputs")
    change, P = np.inf, filtered.covariance
    for _ in range(iterations):
        change, P = _iterate(own, motion, i, taken, filtered.t)
    q, v = own.kernels["state"](motion.x, motion.b, along_batch(i, motion.x.shape[1:-1]))
    return Smoothed(filtered.t, q, v, own.split_biases(motion.b), P, motion.x, change)


def moving_horizon(
    own: Estimator, start: Any, inputs: Any, readings: Mapping[str, Any], window: int, iterations: int = 3
) -> Smoothed:
    """Estimates at every sample from the last ``window`` samples, relinearised; the filter's prediction at the window's start summarises older ones.

    Parameters
    ----------
    start, inputs, readings : as in :meth:`.Estimator.filter`. window : samples. iterations : iterations of each window, from its last solution.

    Examples
    --------
    >>> import heavytop as ht
    >>> from heavytop.control import EncoderSensor
    >>> model = ht.library.pendulum().derive()
    >>> filter_ = ht.estimator(model, [EncoderSensor(model.q_names, noise=0.05)], 0.01, disturbance=0.1)
    >>> start = filter_.begin([0.5], [0.0], 0.2, 0.2)
    >>> drawn = filter_.draw(start, np.zeros((40, 1)), seed=0)
    >>> moving_horizon(filter_, start, np.zeros((40, 1)), drawn.readings, window=10).q.shape
    (40, 1)
    """
    if window < 2 or iterations < 1:
        raise ControlError(f"a moving horizon needs at least 2 samples and 1 iteration, got {window} and {iterations}.")
    z, i = numbers(start, "start"), numbers(inputs, "inputs")
    taken = _taken(own, readings)
    filtered = own.filter(start, inputs, readings)
    x0, b0, _ = own._parts(z)
    first, P0 = (
        (np.broadcast_to(x0, filtered.x.shape[1:]), np.broadcast_to(b0, filtered.b.shape[1:])),
        own.covariance(z),
    )
    x, b = filtered.x[:1], filtered.b[:1]
    found_x, found_b, found_P, change = [], [], [], 0.0
    for k in range(len(i)):
        begin = max(0, k + 1 - window)
        if k:
            nx, _F, _Q = own.functions.slopes_kernel(x[-1], b[-1], i[k - 1], filtered.t[k - 1])
            x, b = np.concatenate([x, nx[None]]), np.concatenate([b, b[-1:]])
        if k + 1 > window:  # the window moves: predict its first state without the reading that leaves
            motion = _Motion(x[:2], b[:2], *first, P0)
            part = {name: y[begin - 1 : begin + 1] for name, y in taken.items()}
            first, P0 = _carried(own, motion, i[begin - 1], part, filtered.t[begin - 1])
            x, b = x[1:], b[1:]
        motion = _Motion(x, b, *first, P0)
        part = {name: y[begin : k + 1] for name, y in taken.items()}
        P = None
        for _ in range(iterations):
            change, P = _iterate(own, motion, i[begin : k + 1], part, filtered.t[begin : k + 1])
        x, b = motion.x, motion.b
        assert P is not None
        found_x.append(x[-1])
        found_b.append(b[-1])
        found_P.append(P[-1])
    xs, bs = np.stack(found_x), np.stack(found_b)
    q, v = own.kernels["state"](xs, bs, along_batch(i, xs.shape[1:-1]))
    return Smoothed(filtered.t, q, v, own.split_biases(bs), np.stack(found_P), xs, change)


def _taken(own: Estimator, readings: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """Readings at the samples when they were taken."""
    found = {}
    for name, value in readings.items():
        y = numbers(value, f"readings of {name!r}")
        late = own.functions.steps_of(own.sensor(name))[1]
        found[name] = np.concatenate([y[late:], np.full((late, *y.shape[1:]), np.nan)]) if late else y
    return found


def _offset(own: Estimator, x0: np.ndarray, b0: np.ndarray, x1: np.ndarray, b1: np.ndarray) -> np.ndarray:
    """Errors (..., ne) of (x1, b1) relative to (x0, b0)."""
    lead = np.broadcast_shapes(x0.shape[:-1], x1.shape[:-1])
    e = own.kernels["difference"](np.broadcast_to(x0, (*lead, x0.shape[-1])), x1)[0]
    return np.concatenate([e, np.broadcast_to(b1 - b0, (*lead, b0.shape[-1]))], axis=-1)


def _corrected(own: Estimator, m: np.ndarray, P: np.ndarray, row: Any) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance after the readings of one sample."""
    for r, H, R, there in row:
        S = H @ P @ np.swapaxes(H, -1, -2) + R
        K = np.swapaxes(np.linalg.solve(S, H @ P), -1, -2) * there[..., None, None]
        m = m + np.matvec(K, r - np.matvec(H, m))
        kept = np.eye(P.shape[-1]) - K @ H
        P = kept @ P @ np.swapaxes(kept, -1, -2) + K @ R @ np.swapaxes(K, -1, -2)
    return m, P


def _rows(own: Estimator, motion: _Motion, i: np.ndarray, taken: Mapping[str, np.ndarray], t: np.ndarray) -> list[Any]:
    """For each sample the residuals, slopes, covariances and presence of its readings."""
    lead = motion.x.shape[:-1]
    times, inputs = along_batch(t[:, None], lead[1:])[..., 0], along_batch(i, lead[1:])
    rows: list[Any] = [[] for _ in range(len(motion.x))]
    for name, y in taken.items():
        there = np.broadcast_to(np.isfinite(y).all(axis=-1), lead)
        samples = np.flatnonzero(there.reshape(len(there), -1).any(axis=-1))
        if not len(samples):
            continue
        ideal, H, R = own.functions.output_kernels[name](
            motion.x[samples], motion.b[samples], inputs[samples], times[samples]
        )
        ok = there[samples]
        read = np.where(ok[..., None], np.broadcast_to(y[samples], ideal.shape), ideal)
        r = own.sensor(name).residual(read, ideal)
        for place, k in enumerate(samples):
            rows[k].append((r[place], H[place], R[place], ok[place].astype(float)))
    return rows


def _iterate(
    own: Estimator, motion: _Motion, i: np.ndarray, taken: Mapping[str, np.ndarray], t: np.ndarray
) -> tuple[float, np.ndarray]:
    """Solve the linear equations about the motion and move it; the largest correction, and the covariances (n, *batch, ne, ne)."""
    n, lead = len(motion.x), motion.x.shape[:-1]
    rows = _rows(own, motion, i, taken, t)
    times, inputs = along_batch(t[:, None], lead[1:])[..., 0], along_batch(i, lead[1:])
    moved, F, Q = own.functions.slopes_kernel(motion.x[:-1], motion.b[:-1], inputs[:-1], times[:-1])
    d = _offset(own, motion.x[1:], motion.b[1:], moved, motion.b[:-1])
    m, P = (
        _offset(own, motion.x[0], motion.b[0], motion.x0, motion.b0),
        np.broadcast_to(motion.P0, (*lead[1:], *motion.P0.shape[-2:])),
    )
    filtered, predicted = [], []
    for k in range(n):
        predicted.append((m, P))
        m, P = _corrected(own, m, P, rows[k])
        filtered.append((m, P))
        if k + 1 < n:
            m, P = np.matvec(F[k], m) + d[k], F[k] @ P @ np.swapaxes(F[k], -1, -2) + Q[k]
    xi, covariance = [filtered[-1][0]], [filtered[-1][1]]
    for k in range(n - 2, -1, -1):
        (m, P), (m1, P1) = filtered[k], predicted[k + 1]
        back = P @ np.swapaxes(F[k], -1, -2)
        if own.is_constrained:
            gain = back @ np.linalg.pinv(P1, rcond=1e-12, hermitian=True)
        else:
            gain = np.swapaxes(np.linalg.solve(P1, np.swapaxes(back, -1, -2)), -1, -2)
        xi.append(m + np.matvec(gain, xi[-1] - m1))
        covariance.append(P + gain @ (covariance[-1] - P1) @ np.swapaxes(gain, -1, -2))
    e = np.stack(xi[::-1])
    ne = own.process.ne
    motion.x = own.kernels["retract"](motion.x, e[..., :ne])[0]
    motion.b = motion.b + e[..., ne:]
    return float(np.max(np.abs(e), initial=0.0)), np.stack(covariance[::-1])


def _carried(
    own: Estimator, motion: _Motion, i: np.ndarray, taken: Mapping[str, np.ndarray], t: float
) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """The expected state and covariance one sample later, with the readings of the first sample of a window."""
    one = _Motion(motion.x[:1], motion.b[:1], motion.x0, motion.b0, motion.P0)
    rows = _rows(own, one, i[None], {name: y[:1] for name, y in taken.items()}, np.array([t]))
    m = _offset(own, motion.x[0], motion.b[0], motion.x0, motion.b0)
    m, P = _corrected(own, m, np.broadcast_to(motion.P0, (*m.shape[:-1], *motion.P0.shape[-2:])), rows[0])
    moved, F, Q = own.functions.slopes_kernel(motion.x[0], motion.b[0], i, t)
    e = np.matvec(F, m)
    ne = own.process.ne
    x = own.kernels["retract"](moved, e[..., :ne])[0]
    return (x, motion.b[0] + e[..., ne:]), F @ P @ np.swapaxes(F, -1, -2) + Q
