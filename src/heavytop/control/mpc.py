"""Predictive control on the manifold: at every sample one step of an optimisation over the next moves (real-time iteration).

The motion over the horizon is kept as nodes (q, v) and held inputs. A sample linearises all steps in the charts around the nodes (one
native call), eliminates the states (condensing), solves a quadratic program for the inputs with its limits, and moves the nodes
by the solution, as far as gaps between the moves let the linearisation be trusted; a motion in a dead end is begun anew along the straight
way to the reference. Deviations from the reference are measured by the rotation vector, which is defined for every attitude: there is no start
from which the cost or its slope is undefined. The cost of what comes after the horizon is that of the linear-quadratic regulator.
"""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter
from typing import Any

import numpy as np

from heavytop._arrays import Array
from heavytop._travel import Portable
from heavytop.control.allocation import Limits
from heavytop.control.charts import is_turn
from heavytop.control.horizon_motion import Linear, Prediction
from heavytop.control.lqr import cost_of_rest
from heavytop.control.mpc_qp import QuadraticProgram, solver
from heavytop.control.needed import needed_inputs
from heavytop.control.rates import ChartRates
from heavytop.control.reference import Reference
from heavytop.control.weights import Weights
from heavytop.errors import ControlError, unknown_name
from heavytop.system.model import Model

TRUST, LARGE_GAP = (0.2, 1.5), 0.3
"""Bounds of the turn (rad) of a node in one step of the optimisation; it halves while gaps of attitudes (rad) are large, else doubles."""
FAR_TURN, PATIENCE, SETTLING = 1.0, 4, 10
"""A motion that is turned by more than this (rad) and costs more than so many samples before is given up, if it had time to settle."""
HOPELESS_GAP = 100.0
"""Gap of attitudes (2 tan of half the angle) that no linearisation closes."""


class Predictive(Portable):
    """A predictive controller; a function of (t, q, v) for ``simulate(..., inputs=controller, control_step=controller.step)``.

    Made by :func:`mpc`. It remembers the motion it expects between calls; :meth:`reset` forgets it.

    Attributes
    ----------
    step, horizon : length of a move in s, number of moves. q, v, u : the expected motion (N + 1, nq), (N + 1, nv), (N, nu).
    seconds : time of each call so far. failures : calls whose quadratic program had no solution; then the inputs planned before are used.
    restarts : how often the expected motion was given up.

    Examples
    --------
    >>> import heavytop as ht
    >>> upright = mpc(ht.library.cart_pole().derive(), [0.0, 0.0], horizon=5, limits=(-20, 20))
    >>> isinstance(upright, Predictive), upright.horizon
    (True, 5)
    """

    def __init__(
        self,
        model: Model,
        reference: Reference,
        horizon: int,
        step: float,
        weights: Weights,
        limits: tuple[np.ndarray, np.ndarray] | None,
        speeds: tuple[np.ndarray, np.ndarray],
        iterations: int,
    ) -> None:
        self.model, self.reference, self.horizon, self.step = model, reference, horizon, step
        self.iterations, self.rates = iterations, ChartRates.of(model)
        self._ahead = Prediction(self.rates, step)
        self._turns = np.nonzero(is_turn(model.coordinates))[0]
        free = np.full(model.nu, np.inf)
        self._limits = (-free, free) if limits is None else limits
        self._weights = weights.vectors(model)
        final = self._final_cost(weights)
        self._program = QuadraticProgram(
            horizon, self.rates.nx, model.nu, self._weights[0] * step, final, self._weights[1] * step, self._limits,
            (speeds[0], speeds[1], self.rates.ne),
        )  # fmt: skip
        self._known: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None
        self._constant = reference.duration is None and reference.traced is not None and _is_constant(reference)
        self.reset()

    def __repr__(self) -> str:
        return f"Predictive({self.model.name!r}: {self.horizon} moves of {self.step:g} s)"

    def _final_cost(self, weights: Weights) -> np.ndarray:
        """P of the regulator where the reference ends or rests; without one ten times the weights."""
        Q, R = (np.diag(w) * self.step for w in self._weights)
        end = self.reference.duration or 0.0
        q, v, _ = self.reference(end)
        if np.max(np.abs(v), initial=0.0) < 1e-6:
            try:
                return cost_of_rest(self.model, q, self.step, Q, R, lambda t: self._balance(q)[None])
            except ControlError:
                pass
        return 10.0 * Q

    def _balance(self, q: np.ndarray) -> np.ndarray:
        """Inputs (nu,) that come nearest to holding q."""
        zero = np.zeros(self.model.nv)
        return needed_inputs(self.model, q, zero, zero)

    # --- the loop -----------------------------------------------------------------------------------------------------------

    def reset(self) -> None:
        """Forget the expected motion and the measured times."""
        self.q = self.v = self.u = np.zeros(0)
        self._time: float | None = None
        self.seconds: list[float] = []
        self.failures = self.restarts = 0
        self._program.forget()
        self._costs: list[float] = []
        self._wait, self._trust = PATIENCE, TRUST[1]

    def _begin(self, q: np.ndarray, v: np.ndarray, wanted: np.ndarray) -> None:
        n = self.horizon
        self.q = np.broadcast_to(q, (n + 1, len(q))).copy()
        self.v = np.broadcast_to(v, (n + 1, len(v))).copy()
        self.u = np.clip(wanted, *self._limits).copy()

    def _shift(self, moves: int) -> None:
        for _ in range(min(moves, self.horizon)):
            for nodes in (self.q, self.v, self.u):
                nodes[:-1] = nodes[1:]

    def _wanted(self, t: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """q_R, v_R at the nodes 1 to N, and the inputs they need in the moves."""
        if self._constant and self._known is not None:
            return self._known
        times = t + self.step * np.arange(self.horizon + 1)
        q, v, a = self.reference(times)
        if self._constant:
            u = np.broadcast_to(self._balance(q[0]), (self.horizon, self.model.nu))
        else:
            u = needed_inputs(self.model, q[:-1], v[:-1], a[:-1])
        self._known = q[1:], v[1:], u
        return self._known

    def __call__(self, t: float, q: Array, v: Array) -> np.ndarray:
        """The input (nu,) at the time t (s) in the state (q, v)."""
        clock = perf_counter()
        q_R, v_R, u_R = self._wanted(float(t))
        if self._time is None or t < self._time:
            self._begin(np.asarray(q, dtype=float), np.asarray(v, dtype=float), u_R)
            self._time = float(t)
        else:
            moves = int((t - self._time) / self.step + 1e-6)
            if moves:
                self._shift(moves)
                self._time += moves * self.step
        self.q[0], self.v[0] = q, v
        for _ in range(self.iterations):
            self._iterate(q_R, v_R, u_R)
        self.seconds.append(perf_counter() - clock)
        return self.u[0].copy()

    def _iterate(self, q_R: np.ndarray, v_R: np.ndarray, u_R: np.ndarray) -> None:
        ne = self.rates.ne
        linear = self._ahead.linear(self.q, self.v, self.u, q_R, v_R)
        deviation = self._program.weighed(linear.away)
        if self._is_dead_end(linear, deviation, u_R):
            self._restart(q_R, v_R, u_R)
            linear = self._ahead.linear(self.q, self.v, self.u, q_R, v_R)
            deviation = self._program.weighed(linear.away)
        solved = self._program.solve(linear, deviation, self.u, u_R, self.v[1:])
        if solved is None:
            self.failures += 1  # the inputs that were planned before are used
            planned = self.u
            self._restart(q_R, v_R, u_R)
            self.u = planned
            return
        du, dx = solved
        turned = np.linalg.norm(dx[:, self._turns], axis=1)
        if turned.max(initial=0.0) > self._trust:
            dx *= (self._trust / np.maximum(turned, self._trust))[:, None]
        self.u = np.clip(self.u + du, *self._limits)  # rounding of the solver
        self.q[1:] = self._ahead.moved(self.q[1:], dx[:, :ne])
        self.v[1:] += dx[:, ne:]

    def _is_dead_end(self, linear: Linear, deviation: np.ndarray, u_R: np.ndarray) -> bool:
        """Whether a gap is too large to be closed, or a far turned motion becomes ever more expensive; trusts steps as gaps tell.

        There are dead ends: upside down without thrust no small change helps, as thrust pushes the wrong way and a turn alone changes
        nothing.
        """
        gap = np.abs(linear.defect[:, self._turns]).max(initial=0.0)
        low, high = TRUST
        self._trust = max(0.5 * self._trust, low) if gap > LARGE_GAP else min(2.0 * self._trust, high)
        far = np.abs(linear.away[:, self._turns]).max(initial=0.0) > FAR_TURN
        cost = self._program.cost(deviation, self.u - u_R)
        self._costs = [*self._costs[-PATIENCE:], cost]
        self._wait -= 1
        stuck = self._wait <= 0 and far and cost > self._costs[0]
        if not stuck and np.isfinite(cost) and gap < HOPELESS_GAP:
            return False
        self._wait, self._trust = PATIENCE + SETTLING, high
        return True

    def _restart(self, q_R: np.ndarray, v_R: np.ndarray, u_R: np.ndarray) -> None:
        """Expect a way straight on the manifold to the reference within half the horizon."""
        self.restarts += 1
        self.q[1:], moved = self._ahead.straight(self.q[0], q_R)
        self.v[1:] = moved if moved.shape == v_R.shape else v_R
        self.u = np.clip(u_R, *self._limits)

    def report(self) -> str:
        """Times of the calls so far (the first one compiles and is left out)."""
        taken = np.array(self.seconds[1:] or [np.nan]) * 1e3
        return (
            f"{len(taken)} samples: median {np.median(taken):.3f} ms, 99.9 % below {np.quantile(taken, 0.999):.3f} ms, longest "
            f"{taken.max():.3f} ms; {self.failures} without a solution, {self.restarts} restarted"
        )


def mpc(
    model: Model,
    reference: Reference | Array | None = None,
    *,
    horizon: int = 20,
    step: float = 0.05,
    cost: Weights | None = None,
    limits: Any = None,
    speeds: Mapping[str, tuple[float, float]] | None = None,
    iterations: int = 1,
) -> Predictive:
    """Predictive control by real-time iteration.

    Parameters
    ----------
    model : what is predicted.
    reference : motion to follow, or configuration (nq,) to hold; default: the neutral one.
    horizon, step : number and length (s) of the moves that are looked ahead; the controller is sampled with this step.
    cost : weights of deviations from the reference.
    limits : of the inputs: pair (lower, upper) or :class:`.Limits`; they are always kept.
    speeds : name of a velocity -> (lower, upper); kept as well as possible (slacks), as a disturbance may make it impossible.
    iterations : linearisations per sample.

    Examples
    --------
    >>> import heavytop as ht
    >>> cart = ht.library.cart_pole().derive()
    >>> upright = ht.control.mpc(cart, [0.0, 0.0], horizon=30, limits=(-20, 20))
    >>> run = ht.simulate(cart, ([0.5, 0.4], [0, 0]), until=6.0, step=0.01, inputs=upright, control_step=0.05)
    >>> bool(abs(run.q[-1]).max() < 1e-2)
    True
    """
    if not isinstance(horizon, int) or horizon < 2:
        raise ControlError(f"the horizon must be a whole number of at least 2 moves, got {horizon!r}.")
    if not 0 < step < np.inf:
        raise ControlError(f"the step of predictive control must be positive, got {step!r} s.")
    if not isinstance(iterations, int) or iterations < 1:
        raise ControlError(f"iterations must be 1, 2, ..., got {iterations!r}.")
    solver()
    if not isinstance(reference, Reference):
        reference = Reference.set_point(model, reference)
    bounds = None if limits is None else (limits if isinstance(limits, Limits) else Limits(*limits)).bounds(model)
    low, high = np.full(model.nv, -np.inf), np.full(model.nv, np.inf)
    for name, (least, most) in (speeds or {}).items():
        if name not in model.v_names:
            raise unknown_name(f"velocity of {model.name!r}", name, model.v_names)
        if not least < most:
            raise ControlError(f"limits of {name!r}: the lower one {least:g} is not below the upper one {most:g}.")
        low[model.v_names.index(name)], high[model.v_names.index(name)] = least, most
    return Predictive(model, reference, horizon, float(step), cost or Weights(), bounds, (low, high), iterations)


def _is_constant(reference: Reference) -> bool:
    """Whether a traced reference does not depend on time."""
    import casadi

    traced = reference.traced
    return traced is not None and all(
        casadi.jacobian_sparsity(out, t).nnz() == 0 for t in [casadi.SX.sym("t")] for out in traced.function.call([t])
    )
