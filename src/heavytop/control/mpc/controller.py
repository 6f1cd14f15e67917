"""Predictive control on the manifold: at every sample one step of an optimisation over the next moves (real-time iteration).

The motion over the horizon is kept as nodes (q, v) and held inputs. A sample linearises all steps in the charts around the nodes (one
native call), eliminates the states (condensing), solves a quadratic program for the inputs with its limits, and moves the nodes
by the solution, within a trust region that depends on the gaps between the moves; a motion in a dead end is restarted along the straight
path to the reference; vehicles are handed over to a law of recovery (:mod:`.recovery`) while the horizon does not show their way back.
Deviations from the reference are measured by the rotation vector, which is defined for every attitude, so the cost and its gradient are
defined from every start. The terminal cost is that of the linear-quadratic regulator.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from heavytop._arrays import Array, Numbers, numbers, symbol
from heavytop.compile import Traced, trace_of
from heavytop.control.laws.base import BaseController
from heavytop.control.laws.law_checks import PART, check_sizes
from heavytop.control.linear.lqr import Weights, cost_of_rest
from heavytop.control.mpc.condensed_qp import QuadraticProgram, solver
from heavytop.control.mpc.horizon_motion import Linear, Moves, Prediction
from heavytop.control.mpc.recovery import recovery_law
from heavytop.control.references.reference import Reference
from heavytop.errors import ControlError, wrong_shape
from heavytop.functions import instance_key
from heavytop.ocp import ChartRates, StateBounds, Within, input_bounds, is_turn, needed_inputs, state_bounds
from heavytop.simulate import SEEN
from heavytop.system import Model

LONGEST = 1000
"""Largest number of moves of a horizon: work and memory grow with its square."""
KEPT_SECONDS = 1_000_000
"""Largest number of stored call times; then the older half is dropped."""
TRUST, LARGE_GAP = (0.2, 1.5), 0.3
"""Trust region: bounds of the turn (rad) of a node in one iteration; it halves while gaps of attitudes (rad) are large, else doubles."""
FAR_TURN, PATIENCE, SETTLING = 1.0, 4, 10
"""A motion turned by more than FAR_TURN (rad) whose cost has risen over PATIENCE samples is restarted, again after SETTLING more at the earliest."""
CLOSED, MORE = 0.03, 12
"""Gap (rad) up to which a far turned motion counts as closed, and most further iterations of a sample to close it."""
HOPELESS_GAP = 100.0
"""Gap of attitudes (2 tan of half the angle) that no linearisation closes."""
BACK = 0.5
"""Share of the cost at the last return from the law of recovery below which the next return follows: not both forever in turn."""
LOST = 6
"""Horizons over which every cost must exceed all earlier ones for a motion to count as lost."""
MEMORY = (
    "q",
    "v",
    "u",
    "_time",
    "_statistics",
    "_costs",
    "_wait",
    "_trust",
    "_known",
    "_handed",
    "_bar",
    "_since",
    "_cost",
    "_rising",
)
"""Attributes that change from sample to sample."""


class DivergenceWarning(UserWarning):
    """Under predictive control a motion moves ever further away from its reference.

    Examples
    --------
    >>> issubclass(DivergenceWarning, UserWarning)
    True
    """


@dataclass
class SampleStatistics:
    """Computing times of samples (s), samples without a solution, restarts, samples of the law of recovery, lost motions."""

    seconds: list[float] = field(default_factory=list)
    failures: int = 0
    restarts: int = 0
    recoveries: int = 0
    lost: int = 0


class Predictive(BaseController):
    """A predictive controller: ``simulate(..., control=controller)``, alone or inside any wrapper, or a function of (t, q, v).

    Made by :func:`mpc`. A simulation with ``control=`` starts with a fresh memory, one for each trajectory of a batch. Called by hand it
    keeps the predicted motion between calls; :meth:`reset` clears it.

    Attributes
    ----------
    step, horizon : length of a move in s, number of moves. q, v, u : the predicted motion (N + 1, nq), (N + 1, nv), (N, nu).
    seconds : computing time of each call. failures : calls whose quadratic program had no solution, which use the previously planned inputs,
        and calls in which a bounded function was not finite, which ignore that bound.
    restarts : restarts of the predicted motion. recoveries : samples that use the motion of the law of recovery. lost : motions that moved ever
        further away from the reference for six horizons; each of them gives a :class:`DivergenceWarning`.

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
        bounds: StateBounds | None,
        iterations: int,
    ) -> None:
        if model.description.time is not None:
            raise ControlError(
                f"predictive control assumes time-invariant dynamics, but {model.name!r} depends on time explicitly. "
                "control.lqr(model, reference, inputs=plan.inputs) follows a plan of such a system."
            )
        self._settings: tuple[Any, ...] = model, reference, horizon, step, weights, limits, bounds, iterations
        self.model, self.reference, self.horizon, self.step = model, reference, horizon, step
        self.iterations, self.rates = iterations, ChartRates.of(model)
        self._turns = np.nonzero(is_turn(model.coordinates))[0]
        self._angles = np.union1d(self._turns, _joint_angles(model)).astype(int)
        free = np.full(model.nu, np.inf)
        self._limits = (-free, free) if limits is None else limits
        recovery = recovery_law(model, self._limits, step)
        self._ahead = Prediction(self.rates, step, bounds, reference.parameters_of(model), recovery)
        self._weights = weights.vectors(model)
        final = self._final_cost()
        self._program = QuadraticProgram(
            horizon, self.rates.nx, model.nu, self._weights[0] * step, final, self._weights[1] * step, self._limits, bounds
        )  # fmt: skip
        self._shapes = (model.nq,), (model.nv,)
        self._known: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None
        self._constant = reference.is_constant
        self.reset()
        self._rehearse()

    def __repr__(self) -> str:
        return f"Predictive({self.model.name!r}: {self.horizon} moves of {self.step:g} s)"

    @cached_property
    def _moves(self) -> Moves:
        return Moves(self._ahead, self.horizon)

    def _rehearse(self) -> None:
        """Compile and load everything that a sample needs, so that no sample waits for it."""
        q_R, v_R, u_R = self._wanted(float(self.reference.start_time))
        self._begin(q_R[0], v_R[0], u_R)
        self._ahead.straight(self.q[0], q_R)
        self._check_bounds(self._ahead.kept(self.q[1:], self.v[1:]))
        self._iterate(q_R, v_R, u_R)
        if self._ahead.recovery is not None:
            self._recover(q_R, v_R, u_R)
        self.reset()

    def _check_bounds(self, kept: tuple[np.ndarray, np.ndarray] | None) -> None:
        """Bounded functions must have a value and a gradient at the start of the reference."""
        bounds = self._ahead.bounds
        if kept is None or bounds is None:
            return
        wrong = np.nonzero(~_known(*kept)[0])[0]
        if len(wrong):
            raise ControlError(
                f"{bounds.labels[wrong[0]]} has no finite value and slope at the start of the reference, got {kept[0][0, wrong[0]]:g}. "
                "It must be finite and smooth in all states that may occur."
            )

    # --- as a controller ------------------------------------------------------------------------------------------------------

    @property
    def host(self) -> Predictive:
        """The controller itself: it is evaluated in Python at every sample."""
        return self

    @property
    def answer_size(self) -> int:
        return self.model.nu

    def sessions(self, count: int) -> list[Callable[[float, np.ndarray, np.ndarray], np.ndarray]]:
        """``count`` controllers with fresh memories, whose statistics are those of this one; its own memory is unchanged."""
        self._statistics = statistics = SampleStatistics()
        made = [deepcopy(self) for _ in range(count)]
        for one in made:
            one._rehearse()
            one._statistics = statistics
        return list(made)

    @property
    def signal_size(self) -> int:
        """Size of the signal, which holds the inputs of a sample."""
        return self.model.nu

    def signal(self, times: Numbers) -> np.ndarray:
        """Zeros, replaced by the inputs of each sample during the run."""
        return np.zeros((*np.shape(times), self.model.nu))

    def composed(self, model: Any) -> Traced:
        """The placeholder in native code: inputs of the sample and measurements for it (:class:`heavytop.simulate.controller.Host`)."""
        own = self.model
        check_sizes(own, model, "predictive control", PART)
        s = {"t": symbol("t"), "q": symbol("q", own.nq), "v": symbol("v", own.nv), "signal": symbol("signal", own.nu)}
        return trace_of("mpc", s, {"u": s["signal"], **dict(zip(SEEN, (s["t"], s["q"], s["v"]), strict=True))})

    def with_reference(self, reference: Reference | Array) -> Predictive:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The same controller for another reference motion or set-point (nq,); parameters of the model are kept unless the reference has its own."""
        model, before, *others = self._settings
        following = _as_reference(model, reference)
        if not following.parameters:
            following = following.with_parameters(before.parameters_of(model), model)
        return Predictive(model, following, *others)

    def export_c(self, folder: str | Path, *, name: str = "predictive") -> list[Path]:
        """Export the controller as C99 without allocation and with bounded run time, with tests and a README, for a flight controller.

        One call per sample: state and reference in, inputs out (``NAME_mpc.h``). Double precision. Soft bounds of states are not exported.
        """
        from heavytop.control.mpc.export import export_predictive

        return export_predictive(self, folder, name)

    # --- copies ---------------------------------------------------------------------------------------------------------------

    def recipe(self) -> tuple[Any, ...]:
        """Settings and memory; the quadratic program is not warm-started."""
        return _remade, (self._settings, {name: vars(self)[name] for name in MEMORY})

    def __setattr__(self, name: str, value: Any) -> None:
        if name in MEMORY:
            vars(self)[name] = value
        else:
            super().__setattr__(name, value)

    def _make_key(self) -> str | None:
        return instance_key()  # a memory must not be shared

    def __deepcopy__(self, memo: dict[int, Any]) -> Predictive:
        made = memo[id(self)] = object.__new__(type(self))
        vars(made).update({k: v for k, v in vars(self).items() if k not in ("_moves", "key")})
        vars(made).update({name: deepcopy(vars(self)[name]) for name in MEMORY}, _program=self._program.copy())
        return made

    def __copy__(self) -> Predictive:
        return deepcopy(self)  # a memory must not be shared

    def _final_cost(self) -> np.ndarray:
        """P of the regulator at the end of the reference, if it rests there and a regulator exists; else ten times the weights."""
        Q, R = (np.diag(w) * self.step for w in self._weights)
        end = self.reference.duration or 0.0
        q, v, _ = self.reference(end)
        if np.max(np.abs(v), initial=0.0) < 1e-6:
            try:
                rest = Reference.set_point(self.model, q).with_parameters(self.reference.parameters_of(self.model))
                return cost_of_rest(rest, self.step, Q, R, lambda t: self._balance(q)[None])
            except ControlError:
                pass
        return 10.0 * Q

    def _balance(self, q: np.ndarray) -> np.ndarray:
        """Inputs (nu,) that hold q as closely as possible."""
        zero = np.zeros(self.model.nv)
        return needed_inputs(self.model, q, zero, zero, self.reference.parameters_of(self.model))

    # --- the loop -----------------------------------------------------------------------------------------------------------

    def reset(self) -> None:
        """Clear the predicted motion and the measured times."""
        self.q = self.v = self.u = np.zeros(0)
        self._time: float | None = None
        self._statistics = SampleStatistics()
        self._program.forget()
        self._costs: list[float] = []
        self._wait, self._trust, self._handed = PATIENCE, TRUST[1], False
        self._bar, self._since = np.inf, LOST * self.horizon
        self._cost, self._rising = 0.0, (0.0, 0)

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
        """q_R, v_R at the nodes 1 to N, and the inputs of the moves that they require."""
        if self._constant and self._known is not None:
            return self._known
        times = t - self.reference.start_time + self.step * np.arange(self.horizon + 1)
        q, v, a = self.reference(times)
        if self._constant:
            u = np.broadcast_to(self._balance(q[0]), (self.horizon, self.model.nu))
        else:
            u = needed_inputs(self.model, q[:-1], v[:-1], a[:-1], self.reference.parameters_of(self.model))
        self._known = q[1:], v[1:], u
        return self._known

    def __call__(self, t: float, q: Array, v: Array) -> np.ndarray:
        """The input (nu,) at the time t (s) in the state (q, v)."""
        clock = perf_counter()
        if not isfinite(t):
            raise ControlError(f"predictive control needs a finite time in s, got {t!r}.")
        q, v = numbers(q, "q (in predictive control)"), numbers(v, "v (in predictive control)")
        if q.shape != self._shapes[0] or v.shape != self._shapes[1]:
            raise self._wrong_state(q, v)
        q_R, v_R, u_R = self._wanted(float(t))
        if self._time is None or t < self._time:
            self._begin(q, v, u_R)
            self._time = float(t)
        else:
            moves = int((t - self._time) / self.step + 1e-6)
            if moves:
                self._shift(moves)
                self._time += moves * self.step
        if np.isfinite(q).all() and np.isfinite(v).all():
            self.q[0], self.v[0] = q, v
            if not (self._handed and self._recover(q_R, v_R, u_R)):
                self._optimize(q_R, v_R, u_R)
            self._notice(float(t))
        else:
            self._statistics.failures += 1  # the state is unknown: use the previously planned inputs
        if len(self.seconds) >= KEPT_SECONDS:
            del self.seconds[: KEPT_SECONDS // 2]
        self.seconds.append(perf_counter() - clock)
        return self.u[0].copy()

    def _wrong_state(self, q: np.ndarray, v: np.ndarray) -> Exception:
        if q.ndim == 2:
            return ControlError(
                "called by hand, predictive control has the memory of one trajectory, but the state has a batch axis: use "
                "simulate(..., control=controller), which keeps one memory per trajectory."
            )
        name, value, shape = next(x for x in zip("qv", (q, v), self._shapes, strict=True) if x[1].shape != x[2])
        return wrong_shape(f"{name} of {self.model.name!r} (in predictive control)", shape, value.shape)

    def _notice(self, t: float) -> None:
        """Warn if the cost of the predicted motion has risen for too long with inputs at their limits."""
        highest, rising = self._rising
        held = np.any((self.u <= self._limits[0]) | (self.u >= self._limits[1]))
        self._rising = (self._cost, rising + 1) if held and not self._cost <= highest else (max(highest, self._cost), 0)
        if rising + 1 == LOST * self.horizon and self._rising[1]:
            self._statistics.lost += 1
            warnings.warn(
                f"predictive control of {self.model.name!r} loses its reference: the cost of the predicted motion has risen for "
                f"{LOST * self.horizon} samples until t = {t:g} s. Its limits may be too small, its start too far away, or its reference "
                "impossible: start nearer, extend the horizon, or hold the system with another law.",
                DivergenceWarning,
                stacklevel=2,
            )

    def _optimize(self, q_R: np.ndarray, v_R: np.ndarray, u_R: np.ndarray) -> None:
        """Steps of the optimisation; more of them while the motion is open, then the law of recovery."""
        is_open, self._since = False, self._since + 1
        for _ in range(self.iterations):
            is_open = self._iterate(q_R, v_R, u_R)
        for _ in range(MORE):
            if not is_open:
                return
            is_open = self._iterate(q_R, v_R, u_R)
        if is_open and self._ahead.recovery is not None:
            self._recover(q_R, v_R, u_R)

    def _iterate(self, q_R: np.ndarray, v_R: np.ndarray, u_R: np.ndarray) -> bool:
        """One step of the optimisation; whether the motion was far turned with gaps, so that it is not yet a motion of the model."""
        linear = self._moves.linear(self.q, self.v, self.u, q_R, v_R)
        deviation = self._program.weighed(linear.away)
        gap, cost = self._watch(linear, deviation, u_R)
        turned = np.abs(linear.away[:, self._turns]).max(axis=1, initial=0.0)
        is_open = bool(gap > CLOSED and turned.max() > FAR_TURN)
        if self._ahead.recovery is not None:
            is_open = is_open or turned[-1] > FAR_TURN
        if self._is_dead_end(linear, gap, cost):
            self._wait, self._trust = PATIENCE + SETTLING, TRUST[1]
            self._restart(q_R, v_R, u_R)
            linear = self._moves.linear(self.q, self.v, self.u, q_R, v_R)
            deviation = self._program.weighed(linear.away)
        self._improve(linear, deviation, q_R, v_R, u_R)
        return is_open

    def _recover(self, q_R: np.ndarray, v_R: np.ndarray, u_R: np.ndarray) -> bool:
        """Predict the motion of the law of recovery; whether its inputs are to be used: it is far turned somewhere, or still far away."""
        self._statistics.recoveries += 1
        self._trust, self._costs = TRUST[1], []
        for kept, found in zip(
            (self.q, self.v, self.u), self._moves.recovered(self.q[0], self.v[0], q_R, v_R), strict=True
        ):
            kept[:] = found
        linear = self._moves.linear(self.q, self.v, self.u, q_R, v_R)
        self._cost = self._program.cost(self._program.weighed(linear.away), self.u - u_R)
        if not self._handed and self._since >= LOST * self.horizon:
            self._bar = np.inf
        is_far = bool(np.abs(linear.away[:, self._turns]).max() > FAR_TURN)
        self._handed, self._since = is_far or not self._cost < BACK * self._bar, 0
        if not self._handed:
            self._bar = self._cost
        return self._handed

    def _improve(
        self, linear: Linear, deviation: np.ndarray, q_R: np.ndarray, v_R: np.ndarray, u_R: np.ndarray
    ) -> None:
        """Solve the quadratic program and move the nodes by its solution."""
        ne = self.rates.ne
        kept = self._ahead.kept(self.q, self.v)
        if kept is not None and not (known := _known(*kept)).all():
            kept = self._only(kept, known)
        solved = self._program.solve(linear, deviation, self.u, u_R, kept)
        if solved is None:
            self._statistics.failures += 1  # use the previously planned inputs
            planned = self.u
            self._restart(q_R, v_R, u_R)
            self.u = planned
            return
        du, dx = solved
        turned = np.linalg.norm(dx[:, self._angles], axis=1)
        if turned.max(initial=0.0) > self._trust:
            dx *= (self._trust / np.maximum(turned, self._trust))[:, None]
        self.u = np.clip(self.u + du, *self._limits)  # rounding of the solver
        self.q[1:] = self._moves.moved(dx[:, :ne])
        self.v[1:] += dx[:, ne:]

    def _only(self, kept: tuple[np.ndarray, np.ndarray], known: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Bounded values and slopes with those that are not finite moved inside their bounds; such a sample counts as a failure."""
        self._statistics.failures += 1
        bounds: Any = self._ahead.bounds
        inside = np.broadcast_to(np.clip(0.0, bounds.lower, bounds.upper), known.shape)
        return np.where(known, kept[0], inside), np.where(known[..., None], kept[1], 0.0)

    def _watch(self, linear: Linear, deviation: np.ndarray, u_R: np.ndarray) -> tuple[float, float]:
        """The largest gap (rad) and the cost of the predicted motion; updates trust region and stored costs."""
        gap = np.abs(linear.defect[:, self._angles]).max(initial=0.0)
        low, high = TRUST
        self._trust = max(0.5 * self._trust, low) if gap > LARGE_GAP else min(2.0 * self._trust, high)
        cost = self._program.cost(deviation, self.u - u_R)
        self._costs, self._cost = [*self._costs[-PATIENCE:], cost], cost
        self._wait -= 1
        return gap, cost

    def _is_dead_end(self, linear: Linear, gap: float, cost: float) -> bool:
        """Whether a gap is too large to be closed, or the cost of a far turned motion rises.

        For example, upside down without thrust no small change reduces the cost: thrust pushes the wrong way and a turn alone changes nothing.
        """
        far = np.abs(linear.away[:, self._turns]).max(initial=0.0) > FAR_TURN
        stuck = self._wait <= 0 and far and cost > self._costs[0]
        return bool(stuck or not np.isfinite(cost) or not gap < HOPELESS_GAP)

    def _restart(self, q_R: np.ndarray, v_R: np.ndarray, u_R: np.ndarray) -> None:
        """Restart along the straight path on the manifold to the reference, reached within half the horizon."""
        self._statistics.restarts += 1
        self.q[1:], moved = self._ahead.straight(self.q[0], q_R)
        self.v[1:] = moved if moved.shape == v_R.shape else v_R
        self.u = np.clip(u_R, *self._limits)

    @property
    def seconds(self) -> list[float]:
        """Computing times of samples in s: of calls by hand since :meth:`reset`, or of all trajectories of the last simulation."""
        return self._statistics.seconds

    @property
    def failures(self) -> int:
        """Number of samples without a solution of the quadratic program, counted as in :attr:`seconds`."""
        return self._statistics.failures

    @property
    def lost(self) -> int:
        """Number of motions that moved ever further away from the reference, counted as in :attr:`seconds`."""
        return self._statistics.lost

    @property
    def recoveries(self) -> int:
        """Number of samples that start from the motion of the law of recovery, counted as in :attr:`seconds`."""
        return self._statistics.recoveries

    @property
    def restarts(self) -> int:
        """Number of restarts of the predicted motion, counted as in :attr:`seconds`."""
        return self._statistics.restarts

    def report(self) -> str:
        """Summary of the computing times of all calls."""
        if not self.seconds:
            return "0 samples"
        taken = np.array(self.seconds) * 1e3
        return (
            f"{len(taken)} sample{'s' if len(taken) > 1 else ''}: median {np.median(taken):.3f} ms, "
            f"99.9 % below {np.quantile(taken, 0.999):.3f} ms, longest {taken.max():.3f} ms; "
            f"{self.failures} without a solution, {self.restarts} restarted, {self.recoveries} by the law of recovery, {self.lost} lost"
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
    states: Mapping[str, tuple[float, float]] | None = None,
    within: Within | Sequence[Within] = (),
    iterations: int = 1,
    parameters: Mapping[str, Any] | None = None,
) -> Predictive:
    """Predictive control by real-time iteration.

    Parameters
    ----------
    model : the prediction model.
    reference : motion to follow, or configuration (nq,) to hold; default: the neutral one.
    horizon, step : number and length (s) of the predicted moves; the controller is sampled with this step.
    cost : weights of deviations from the reference.
    limits : hard limits of the inputs: pair (lower, upper), :class:`.Limits`, or a mapping from inputs to pairs. ``system.limits``, those of
        joints, limits efforts and bounds positions and velocities of the joints like ``states``.
    speeds : name of a velocity -> (lower, upper). states : name of a coordinate or a velocity -> (lower, upper).
    within : functions of the state with bounds (:class:`.Within`): cones of attitudes, half-spaces, user-defined ones. These, ``speeds`` and
        ``states`` are soft constraints (slacks), as a disturbance may make them impossible.
    iterations : linearisations per sample.
    parameters : values of the model's parameters by name; default: those of the reference, such as a plan, else the model's.

    Raises
    ------
    ControlError
        Arguments contradict each other; raised before anything is compiled.

    Examples
    --------
    >>> import heavytop as ht
    >>> cart = ht.library.cart_pole().derive()
    >>> upright = ht.control.mpc(cart, [0.0, 0.0], horizon=30, limits=(-20, 20))
    >>> run = ht.simulate(cart, ([0.5, 0.4], [0, 0]), until=6.0, step=0.01, control=upright, control_step=0.05)
    >>> bool(abs(run.q[-1]).max() < 1e-2)
    True
    """
    if horizon != int(horizon) or not 2 <= horizon <= LONGEST:
        raise ControlError(f"the horizon must be a whole number of 2 to {LONGEST} moves, got {horizon!r}.")
    if not 0 < step < np.inf:
        raise ControlError(f"the step of predictive control must be positive, got {step!r} s.")
    if iterations != int(iterations) or iterations < 1:
        raise ControlError(f"iterations must be 1, 2, ..., got {iterations!r}.")
    if not model.nu:
        raise ControlError(f"{model.name!r} has no inputs to control it with. Add one: system.input(...).")
    if cost is not None and not isinstance(cost, Weights):
        raise ControlError(f"cost takes Weights(places=, speeds=, inputs=), got {cost!r}.")
    solver()
    limited, bounds = input_bounds(model, limits), state_bounds(model, speeds, states, within, limits)
    following = _as_reference(model, reference).with_parameters(parameters, model)
    return Predictive(model, following, int(horizon), float(step), cost or Weights(), limited, bounds, int(iterations))


def _remade(settings: tuple[Any, ...], memory: dict[str, Any]) -> Predictive:
    made = Predictive(*settings)
    vars(made).update(memory)
    return made


def _as_reference(model: Model, reference: Reference | Array | None) -> Reference:
    if not isinstance(reference, Reference):
        return Reference.set_point(model, reference)
    check_sizes(model, reference.model, "predictive control", "Make the reference for this model.", ("nq", "nv"))
    return reference


def _known(value: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """Which values (..., m) and slopes (..., m, n) are finite."""
    return np.isfinite(value) & np.isfinite(slope).all(axis=-1)


def _joint_angles(model: Model) -> list[int]:
    """Entries of charts that are angles of joints."""
    units = [unit for edge in model.description.joints for unit in edge.joint.v_units]
    return [k for k, unit in enumerate(units) if unit == "rad/s"]
