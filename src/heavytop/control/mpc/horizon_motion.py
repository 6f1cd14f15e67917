"""Prediction over a horizon: gaps between moves and their Jacobians, deviations from a reference.

Moves are Runge-Kutta steps of order 4 in the chart around their first node. All moves of a horizon are one native batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from heavytop._arrays import Array, concatenate, jacobian, split, substitute, symbol
from heavytop.compile import Bound, Kernel, Traced, trace_of
from heavytop.control.laws.law import FeedbackLaw
from heavytop.functions import BoundHere
from heavytop.ocp import ChartRates, StateBounds, chart, place, residual


class Linear(NamedTuple):
    """All moves to first order.

    Attributes
    ----------
    defect : (N, nx) gaps between the ends of moves and the next nodes. A, B : (N, nx, nx), (N, nx, nu) their Jacobians.
    away : (N, nx) deviation from the reference at the nodes 1 to N. turn : (N, nx, nx) its Jacobian.
    """

    defect: np.ndarray
    A: np.ndarray
    B: np.ndarray
    away: np.ndarray
    turn: np.ndarray


class Prediction:
    """Moves of a fixed length.

    Parameters
    ----------
    rates : chart dynamics of the model. step : length of a move in s. bounds : soft bounds of states, or None.
    parameters : values by name; default: those of the model. recovery : law of :meth:`recovered`, or None.
    """

    def __init__(
        self,
        rates: ChartRates,
        step: float,
        bounds: StateBounds | None = None,
        parameters: Mapping[str, Any] | None = None,
        recovery: FeedbackLaw | None = None,
    ) -> None:
        self.rates, self.step, self.bounds, self.recovery = rates, step, bounds, recovery
        self._p = rates.parameters(parameters)

    def _trace_linear(self) -> Traced:
        """(q, v, u, q_1, v_1, q_R, v_R, h, p) -> the fields of :class:`Linear`."""
        r, c = self.rates, self.rates.model.coordinates
        nq, nv = r.model.nq, r.nv
        sizes = {"q": nq, "v": nv, "u": r.nu, "q_1": nq, "v_1": nv, "q_R": nq, "v_R": nv}
        s = {name: symbol(name, size) for name, size in sizes.items()} | {"h": symbol("h")}
        p = symbol("p", len(self._p))
        y = symbol("y", r.nx + r.nu)
        e, dv, du = split(y, (r.ne, r.nv, r.nu))
        end = self._move(s["q"], concatenate(e, s["v"] + dv), s["u"] + du, s["h"], p)
        defect = concatenate(residual(c, s["q_1"], chart(c, s["q"], end[: r.ne])), end[r.ne :] - s["v_1"])
        moved = symbol("moved", r.nx)
        away = concatenate(place(c, s["q_R"], chart(c, s["q_1"], moved[: r.ne])), s["v_1"] + moved[r.ne :] - s["v_R"])
        zero = lambda expression, variables: substitute(expression, variables, np.zeros(variables.shape))  # noqa: E731
        slope = zero(jacobian(defect, y), y)
        outputs = {
            "defect": zero(defect, y), "A": slope[:, : r.nx], "B": slope[:, r.nx :],
            "away": zero(away, moved), "turn": zero(jacobian(away, moved), moved),
        }  # fmt: skip
        return trace_of("prediction", {**s, "p": p}, outputs)

    def _move(self, q: Array, x: Array, u: Array, h: Array, p: Array) -> Array:
        """The end (nx,) of a move from x in the chart around q."""
        rho = self.rates.rho.traced_value
        rate = lambda x: rho.expressions(concatenate(x, u), q, p)[0]  # noqa: E731
        k1 = rate(x)
        k2 = rate(x + 0.5 * h * k1)
        k3 = rate(x + 0.5 * h * k2)
        k4 = rate(x + h * k3)
        return x + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    def _trace_recovery(self) -> Traced:
        """(q, v, q_R, v_R, a_R, h, p) -> the end (q_1, v_1) of a move with the inputs u of the law in the middle of the move.

        Inputs are held over the move, while a body that spins turns by a large angle: those of its start would push in the wrong direction.
        """
        r, c, law = self.rates, self.rates.model.coordinates, self.recovery
        if law is None:
            raise TypeError("there is no law of recovery")
        sizes = {"q": r.model.nq, "v": r.nv, "q_R": r.model.nq, "v_R": r.nv, "a_R": r.nv}
        s = {name: symbol(name, size) for name, size in sizes.items()}
        h, p = symbol("h"), symbol("p", len(self._p))
        wanted, x = list(s.values())[2:], concatenate(np.zeros(r.ne), s["v"])
        u = law.traced_law.expressions(s["q"], s["v"], *wanted, p)[0]
        half = x + 0.5 * h * r.rho.traced_value.expressions(concatenate(x, u), s["q"], p)[0]
        u = law.traced_law.expressions(chart(c, s["q"], half[: r.ne]), half[r.ne :], *wanted, p)[0]
        end = self._move(s["q"], x, u, h, p)
        q_1 = c.project(chart(c, s["q"], end[: r.ne]))
        return trace_of("recovery", {**s, "h": h, "p": p}, {"q_1": q_1, "v_1": end[r.ne :], "u": u})

    def _trace_straight(self) -> Traced:
        """(q, q_R, left, before, h) -> the point where the part ``left`` of the path from q to q_R remains, and the velocity there."""
        c, nq = self.rates.model.coordinates, self.rates.model.nq
        s = {"q": symbol("q", nq), "q_R": symbol("q_R", nq)} | {name: symbol(name) for name in ("left", "before", "h")}
        away = place(c, s["q_R"], s["q"])
        here, last = (chart(c, s["q_R"], s[name] * away) for name in ("left", "before"))
        return trace_of("straight", s, {"q_1": c.project(here), "w": c.difference(last, here) / s["h"]})

    def _trace_kept(self) -> Traced:
        """(q, v, p) -> bounded values (m,) and their Jacobian (m, nx) by the deviation in the chart around q."""
        r, c, bounds = self.rates, self.rates.model.coordinates, self.bounds
        s = {"q": symbol("q", r.model.nq), "v": symbol("v", r.nv), "p": symbol("p", len(self._p))}
        if bounds is None:
            return trace_of("kept", s, {"value": np.zeros(0), "slope": np.zeros((0, r.nx))})
        moved = symbol("moved", r.nx)
        value = bounds.values(chart(c, s["q"], moved[: r.ne]), s["v"] + moved[r.ne :], s["p"])
        outputs = {"value": value, "slope": jacobian(value, moved)}
        return trace_of("kept", s, {k: substitute(x, moved, np.zeros(r.nx)) for k, x in outputs.items()})

    def _kernel(self, name: str, build: Callable[[], Traced]) -> Kernel:
        mark = self.rates.model.description.equations_key
        return Kernel(build()) if mark is None else Kernel.cached(f"{mark} {name}", build)

    @cached_property
    def _linear(self) -> Kernel:
        return self._kernel("prediction", self._trace_linear)

    @cached_property
    def _straight(self) -> Kernel:
        return self._kernel("straight", self._trace_straight)

    @cached_property
    def _recovery(self) -> Kernel:
        return Kernel(self._trace_recovery(), lanes=1)

    @cached_property
    def _moved(self) -> Kernel:
        """(q, e) -> chart(q, e), projected on the manifold."""
        return self._kernel("move", self._trace_move)

    def _trace_move(self) -> Traced:
        c = self.rates.model.coordinates
        q, e = symbol("q", self.rates.model.nq), symbol("e", self.rates.ne)
        return trace_of("move", {"q": q, "e": e}, {"q": c.project(chart(c, q, e))})

    def trace(self, what: str) -> Traced:
        """The exported function "prediction", "straight", "move" or "recovery"."""
        return {
            "prediction": self._trace_linear, "straight": self._trace_straight, "move": self._trace_move, "recovery": self._trace_recovery,
        }[what]()  # fmt: skip

    @cached_property
    def _kept(self) -> Kernel:
        return Kernel(self._trace_kept())  # user-defined functions have no key

    def kept(self, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """Bounded values (N + 1, m) at nodes q (N + 1, nq), v (N + 1, nv), and their Jacobians (N + 1, m, nx); None without bounds."""
        if self.bounds is None:
            return None
        value, slope = self._kept(q, v, self._p)
        return value, slope

    def linear(self, q: np.ndarray, v: np.ndarray, u: np.ndarray, q_R: np.ndarray, v_R: np.ndarray) -> Linear:
        """All moves between the nodes q (N + 1, nq), v (N + 1, nv) with the inputs u (N, nu) to first order."""
        return Linear(*self._linear(q[:-1], v[:-1], u, q[1:], v[1:], q_R, v_R, self.step, self._p))

    def moved(self, q: np.ndarray, e: np.ndarray) -> np.ndarray:
        """Configurations (..., nq) at the places e (..., ne) of the charts around q (..., nq)."""
        return self._moved(q, e)[0]

    def straight(self, q: np.ndarray, q_R: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Nodes (N, nq) and joint velocities (N, nv) on the straight path from q (nq,) to q_R (N, nq), which ends after N / 2 moves."""
        left = np.maximum(1.0 - np.arange(len(q_R) + 1) / max(len(q_R) // 2, 1), 0.0)
        nodes, speeds = self._straight(q, q_R, left[1:], left[:-1], self.step)
        return nodes, speeds


class Moves(BoundHere):
    """The moves of one horizon in preallocated arrays, which the next call overwrites.

    Parameters
    ----------
    prediction : prediction of one move. count : number of moves.
    """

    def __init__(self, prediction: Prediction, count: int) -> None:
        r, nq = prediction.rates, prediction.rates.model.nq
        self._q, self._v, self._u = np.zeros((count + 1, nq)), np.zeros((count + 1, r.nv)), np.zeros((count, r.nu))
        self._q_R, self._v_R, self._e = np.zeros((count, nq)), np.zeros((count, r.nv)), np.zeros((count, r.ne))
        nx = r.nx
        shapes = (nx,), (nx, nx), (nx, r.nu), (nx,), (nx, nx)
        self._result = Linear(*(np.zeros((count, *shape)) for shape in shapes))
        self._ends = np.zeros((count, nq))
        q, v, h, self._step = self._q, self._v, np.array(prediction.step), prediction.step
        given = [q[:-1], v[:-1], self._u, q[1:], v[1:], self._q_R, self._v_R, h, prediction._p]
        self._linear = Bound(prediction._linear, given, self._result)
        self._move = Bound(prediction._moved, [q[1:], self._e], [self._ends])
        self._a_R, self._recovery = np.zeros((count, r.nv)), []
        if prediction.recovery is not None:
            for k in range(count):
                one = slice(k, k + 1)
                given = [q[one], v[one], self._q_R[one], self._v_R[one], self._a_R[one], h, prediction._p]
                self._recovery.append(
                    Bound(prediction._recovery, given, [q[k + 1 : k + 2], v[k + 1 : k + 2], self._u[one]])
                )

    def linear(self, q: np.ndarray, v: np.ndarray, u: np.ndarray, q_R: np.ndarray, v_R: np.ndarray) -> Linear:
        """All moves between the nodes q (N + 1, nq), v (N + 1, nv) with the inputs u (N, nu) to first order."""
        self._q[:], self._v[:], self._u[:], self._q_R[:], self._v_R[:] = q, v, u, q_R, v_R
        self._linear()
        return self._result

    def moved(self, e: np.ndarray) -> np.ndarray:
        """The nodes 1 to N of the last :meth:`linear`, moved to the places e (N, ne) of their charts."""
        self._e[:] = e
        self._move()
        return self._ends

    def recovered(
        self, q: np.ndarray, v: np.ndarray, q_R: np.ndarray, v_R: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Nodes q (N + 1, nq), v (N + 1, nv) and inputs (N, nu) of the law of recovery from q (nq,), v (nv,).

        The reference q_R (N, nq), v_R (N, nv) is that at the ends of the moves.
        """
        self._q[0], self._v[0], self._q_R[:], self._v_R[:] = q, v, q_R, v_R
        self._a_R[:-1] = np.diff(v_R, axis=0) / self._step
        self._a_R[-1] = self._a_R[-2]
        for move in self._recovery:
            move()
        return self._q, self._v, self._u
