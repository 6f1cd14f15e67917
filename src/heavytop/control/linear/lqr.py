"""Linear-quadratic regulator along a motion, on the manifold.

Deviations are places in the chart around the reference and differences of velocities, ``x = (place(q_R, q), v - v_R)``, so that there are
no redundant states and no singularity within half a turn. The motion is cut into steps whose derivatives are exact
(:mod:`heavytop.ocp.shooting`); Riccati's recursion gives the gains of ``u = u_R - K(t) x``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._arrays import Array, Numbers, concatenate, numbers, split, symbol
from heavytop.compile import Traced, trace_of
from heavytop.control.laws.base import BaseController
from heavytop.control.laws.law_checks import PART, check_sizes
from heavytop.control.references.reference import Reference
from heavytop.errors import ControlError, unknown_name, wrong_shape
from heavytop.ocp import ChartRates, NodeLayout, Shooting, chart, input_bounds, is_turn, needed_inputs, place
from heavytop.simulate import RK4, simulate
from heavytop.system import Model, entries_of

if TYPE_CHECKING:
    from heavytop.compile import Precision
    from heavytop.control.linear.certificate import Certificate
    from heavytop.control.linear.loop import FeedbackLoop
    from heavytop.control.linear.margins import Margins


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights of squared deviations per second: of places, velocities and inputs.

    Parameters
    ----------
    places : a number or one for each entry of the chart; None: 10, and 5 for the rotation vectors of attitudes (``Free``, ``Spherical``). The angle
        of a revolute joint has the weight 10.
    speeds : a number or (nv,); None: 1, and 0.1 for the angular velocities of attitudes.
    inputs : a number or (nu,).

    Examples
    --------
    >>> import heavytop as ht
    >>> Weights(places=2.0).vectors(ht.library.cart_pole().derive())[0]
    array([2., 2., 1., 1.])
    """

    places: Any = None
    speeds: Any = None
    inputs: Any = 0.1

    def vectors(self, model: Model) -> tuple[np.ndarray, np.ndarray]:
        """Weights of (e, v) (nx,) and of the inputs (nu,), checked."""
        turns = is_turn(model.coordinates)
        speeds = np.where(turns, 0.1, 1.0) if len(turns) == model.nv else np.ones(model.nv)
        rows = (
            ("places", np.where(turns, 5.0, 10.0) if self.places is None else self.places, len(turns)),
            ("speeds", speeds if self.speeds is None else self.speeds, model.nv),
            ("inputs", self.inputs, model.nu),
        )
        values = []
        for name, given, size in rows:
            array = numbers(given, f"weights of {name}")
            if array.shape not in ((), (size,)):
                raise wrong_shape(f"weights of {name}", (size,), array.shape)
            if not np.all(np.isfinite(array)) or np.any(array < 0) or (name == "inputs" and np.any(array <= 0)):
                least = "positive" if name == "inputs" else "zero or positive"
                raise ControlError(f"weights of {name} must be {least} and finite, got {array.tolist()}.")
            values.append(np.broadcast_to(array, (size,)))
        return np.concatenate(values[:2]), values[2].copy()


MARGIN = 1e-10
"""Least distance of the modes of a regulated step from the unit circle."""


def riccati(P: np.ndarray, A: np.ndarray, B: np.ndarray, Q: np.ndarray, R: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One step backwards: K = (R + B^T P B)^-1 B^T P A, P = Q + A^T P (A - B K)."""
    K = np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)
    new = Q + A.T @ P @ (A - B @ K)
    return 0.5 * (new + new.T), K


def stationary(
    A: np.ndarray, B: np.ndarray, Q: np.ndarray, R: np.ndarray, names: Sequence[str] = ()
) -> tuple[np.ndarray, np.ndarray]:
    """Stationary P and K; a ControlError that names the states at fault if the inputs do not stabilise the motion to first order."""
    from scipy.linalg import solve_discrete_are

    try:
        P = solve_discrete_are(A, B, Q + 1e-12 * np.eye(len(A)), R)
        K = riccati(P, A, B, Q, R)[1]
    except (np.linalg.LinAlgError, ValueError):
        K = np.full((B.shape[1], len(A)), np.nan)
    # rounding may move an uncontrollable mode off the unit circle, which yields an invalid solution
    if not np.all(np.isfinite(K)) or np.max(np.abs(np.linalg.eigvals(A - B @ K))) > 1.0 - MARGIN:
        raise ControlError(
            "no regulator exists here: to first order the inputs do not stabilise the motion. Check that it is in balance, and that "
            f"every state is controllable.{_unreached(A, B, Q, names)}"
        )
    return P, K


def _unreached(A: np.ndarray, B: np.ndarray, Q: np.ndarray, names: Sequence[str]) -> str:
    """Deviations that no input reaches, or that cost nothing, and that do not decay, as text."""
    if not names:
        return ""
    found, mixed = [], False
    for what, matrix, side in (("no input reaches", A, B), ("no weight acts on", A.T, Q)):
        rest = _beyond(matrix, side)
        if rest.shape[1] and np.max(np.abs(np.linalg.eigvals(rest.T @ matrix @ rest))) > 1.0 - LINGERING:
            size = np.linalg.norm(rest, axis=1)
            alone = [repr(name) for name, one in zip(names, size, strict=True) if 1 - one**2 < MIXED**2]
            together = [
                repr(name) for name, one in zip(names, size, strict=True) if one > MIXED and 1 - one**2 >= MIXED**2
            ]
            mixed = mixed or bool(together)
            parts = [", ".join(alone)] * bool(alone) + [f"some combinations of {', '.join(together)}"] * bool(together)
            found.append(f"{what} {' and '.join(parts)}")
    if not found:
        return ""
    which = "those of them that need not return" if mixed else "such deviations"
    return f" Here {' and '.join(found)}: leave {which} out by ignore=[...], if the others do not depend on them."


def _beyond(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Orthonormal directions (n, k) beyond the reach of B, A B, A^2 B, ..."""
    within, new = np.zeros((len(A), 0)), B / max(float(np.max(np.abs(B))), 1e-300)
    while new.shape[1] and within.shape[1] < len(A):
        left = new - within @ (within.T @ new)
        U, sizes, _ = np.linalg.svd(left, full_matrices=False)
        new = U[:, sizes > UNREACHED]
        within, new = np.concatenate([within, new], axis=1), A @ new
    return np.linalg.svd(within, full_matrices=True)[0][:, within.shape[1] :] if within.shape[1] else np.eye(len(A))


LINGERING, UNREACHED = 1e-6, 1e-7
"""Distance from the unit circle of a mode that does not decay, and relative size of the effect of the inputs on one that they do not reach."""
MIXED = 1e-4
"""Share of a deviation in directions that nothing reaches up to which it is not named, and out of them up to which it is named alone."""


def deviation_names(model: Model) -> tuple[str, ...]:
    """Names of the deviations x = (places, velocities): coordinates, ``NAME.turn_x`` for rotation vectors of attitudes, and velocities.

    >>> import heavytop as ht
    >>> deviation_names(ht.library.cart_pole().derive())
    ('x.x', 'theta.angle', 'x.v_x', 'theta.rate')
    >>> deviation_names(ht.library.quadcopter().derive())[2:5]
    ('hull.z', 'hull.turn_x', 'hull.turn_y')
    """
    turns, names, at = is_turn(model.coordinates), list(model.q_names), 0
    places: list[str] = []
    while len(places) < len(turns):
        if not turns[len(places)]:
            places.append(names[at])
            at += 1
            continue
        joint = names[at].rpartition(".")[0]
        places += [f"{joint}.turn_{axis}" for axis in "xyz"]
        while at < len(names) and names[at].rpartition(".")[0] == joint:
            at += 1
    return (*places, *model.v_names)


def ignored_entries(model: Model, ignore: Sequence[str]) -> list[int]:
    """Indices of deviations by name; the name of a joint stands for all of its own."""
    names, found = deviation_names(model), []
    for given in [ignore] if isinstance(ignore, str) else ignore:
        own = [k for k, name in enumerate(names) if name == given or name.startswith(f"{given}.")]
        if not own:
            raise unknown_name("deviation to ignore", given, names)
        found += own
    return sorted(set(found))


def periodic(A: Sequence[np.ndarray], B: np.ndarray, Q: Sequence[np.ndarray], R: np.ndarray) -> np.ndarray:
    """P (nz, nz) of the periodic solution at the start of a period of steps.

    A step maps P to H + A^T P (I + G P)^-1 A with G = B R^-1 B^T, H = Q; so do several steps, with another triple (A, G, H):
    the solution is that of one constant step with the triple of the period.
    """
    eye = np.eye(len(Q[0]))
    F, G, H = eye, np.zeros_like(eye), np.zeros_like(eye)
    for k in range(len(A)):
        BRB = B[k] @ np.linalg.solve(R, B[k].T)
        inverse = np.linalg.inv(eye + G @ Q[k])
        F, G, H = A[k] @ inverse @ F, BRB + A[k] @ inverse @ G @ A[k].T, H + F.T @ Q[k] @ inverse @ F
        G, H = 0.5 * (G + G.T), 0.5 * (H + H.T)
    values, vectors = np.linalg.eigh(G)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    return stationary(F, root, H, eye)[0]


BALANCED = 1e-6
"""Largest acceleration of a set point in balance, m/s^2 or rad/s^2, or relative to that without inputs; also displacement in m or rad."""

REPEATS = 1e-6
"""Largest difference of velocities, accelerations and inputs after a period, relative to their size."""


COUPLED = 1e-9
"""Largest effect of an ignored deviation on another one within a step."""


class MinimalSteps:
    """Deviations x = (e, v) of a model along states, in minimal coordinates z with loops and constraints: x = T z, z = x[own].

    Attributes
    ----------
    T : (n, nx, nz) at each state; the identity without constraints. own : (nz,) entries of x that are z.
        Ignored entries of x are not among them.
    """

    def __init__(
        self, model: Model, q: np.ndarray, v: np.ndarray, parameters: Any = None, ignored: Sequence[int] = ()
    ) -> None:
        self._make(model, q, v, parameters)
        kept = np.array([k not in ignored for k in self.own])
        self.names = tuple(deviation_names(model)[k] for k in self.own[kept])
        self.left_out, self.out_names = self.T[:, :, ~kept], [deviation_names(model)[k] for k in self.own[~kept]]
        if not np.any(kept):
            raise ControlError(
                f"all deviations of {model.name!r} are ignored: a regulator needs at least one of {list(self.out_names)}."
            )
        self.own, self.T = self.own[kept], self.T[:, :, kept]

    def check_independent(self, A: np.ndarray) -> None:
        """Raise a ControlError if a deviation depends on an ignored one; A (n, nx, nx) of the steps."""
        coupled = np.abs(A[:, self.own] @ self.left_out[: len(A)])
        if coupled.size and np.max(coupled) > COUPLED:
            _, row, column = np.unravel_index(int(np.argmax(coupled)), coupled.shape)
            raise ControlError(
                f"{self.out_names[column]!r} cannot be ignored: {self.names[row]!r} depends on it. Ignore both, or neither."
            )

    def _make(self, model: Model, q: np.ndarray, v: np.ndarray, parameters: Any) -> None:
        ne, nx = model.coordinates.nv, model.coordinates.nv + model.nv
        if not model.is_constrained:
            self.T, self.own = np.broadcast_to(np.eye(nx), (len(q), nx, nx)), np.arange(nx)
            return
        tangent = model.minimal_tangent(q, v, parameters=parameters)
        places, speeds = tangent.places, tangent.velocities
        self.own = np.array([*places, *(ne + k for k in speeds)])
        self.T = np.zeros((len(q), nx, len(self.own)))
        self.T[:, :ne, : len(places)], self.T[:, ne:, : len(places)] = tangent.D, tangent.K
        self.T[:, ne:, len(places) :] = tangent.N

    def expanded(self, K: np.ndarray) -> np.ndarray:
        """Gains (nu, nz) of z as gains (nu, nx) of x."""
        full = np.zeros((len(K), self.T.shape[1]))
        full[:, self.own] = K
        return full

    def whole(self, P: np.ndarray) -> np.ndarray:
        """z^T P z as a form (nx, nx) of x."""
        full = np.zeros((self.T.shape[1],) * 2)
        full[np.ix_(self.own, self.own)] = P
        return full


class LinearQuadratic(BaseController):
    """``u = u_R(t) - K(t) x`` along a reference, within limits. Made by :func:`lqr`.

    Attributes
    ----------
    times : (n,) s of the gains, interpolated linearly; after them the last gain holds, or they repeat (``period``).
    gains : (n, nu, nx). cost_to_go : (n, nx, nx) P of the remaining cost x^T P x. cost_rate : (nx, nx) of the cost per second with the
        regulator at a set point; empty along a motion.
    design : at a set point the keywords of :func:`lqr` that repeat it, as plain numbers; else empty.

    Examples
    --------
    >>> import heavytop as ht
    >>> upright = lqr(ht.library.cart_pole().derive(), [0.0, 0.0])
    >>> isinstance(upright, LinearQuadratic), upright.gains.shape[1:]
    (True, (1, 4))
    """

    def __init__(
        self,
        model: Model,
        reference: Reference,
        times: np.ndarray,
        gains: np.ndarray,
        cost_to_go: np.ndarray,
        inputs: Callable[[np.ndarray], np.ndarray],
        bounds: tuple[np.ndarray, np.ndarray] | None,
        period: float | None = None,
        ignored: Sequence[int] = (),
        cost_rate: np.ndarray | None = None,
        design: Mapping[str, Any] | None = None,
    ) -> None:
        self.design = dict(design or {})
        self.cost_rate = np.zeros((0, 0)) if cost_rate is None else cost_rate
        self.model, self.reference, self.times, self.gains = model, reference, times, gains
        self.cost_to_go, self._inputs, self._bounds, self.period = cost_to_go, inputs, bounds, period
        self.ignored = tuple(ignored)

    def __repr__(self) -> str:
        along = "at a set point" if len(self.times) == 1 else f"{len(self.times)} gains over {self.times[-1]:g} s"
        return f"LinearQuadratic({self.model.name!r}: {along})"

    @cached_property
    def _sizes(self) -> tuple[int, int, int, int]:
        m = self.model
        return m.nq, m.nv, m.nu, m.nu * (m.coordinates.nv + m.nv)

    @property
    def signal_size(self) -> int:
        return sum(self._sizes)

    @property
    def signal_names(self) -> tuple[tuple[str, str], ...]:
        m = self.model
        places = [
            (f"goal {name}", unit) if unit != "1" else ("", "") for name, unit in zip(m.q_names, m.q_units, strict=True)
        ]
        rest = [(f"rest {name}", unit) for name, unit in zip(m.u_names, m.u_units, strict=True)]
        gains = [(f"gain {u}: {x}", "") for u in m.u_names for x in deviation_names(m)]
        return (*places, *((("", ""),) * m.nv), *rest, *gains)

    def signal(self, times: Numbers) -> np.ndarray:
        t = np.asarray(times, dtype=float)
        flat = t.reshape(-1) - self.reference.start_time
        q, v, _ = self.reference(flat)
        begin, last = self.times[0], self.times[-1]
        wrapped = flat if self.period is None else begin + np.mod(flat - begin, self.period)
        inside = np.clip(np.where(flat < begin, begin, wrapped), begin, last)
        k = np.clip(np.searchsorted(self.times, inside, side="right") - 1, 0, max(len(self.times) - 2, 0))
        after = np.minimum(k + 1, len(self.times) - 1)
        length = np.where(after > k, self.times[after] - self.times[k], 1.0)
        part = ((inside - self.times[k]) / length)[:, None]
        table = self.gains.reshape(len(self.times), -1)
        gains = (1 - part) * table[k] + part * table[after]
        rows = np.concatenate([q, v, self._inputs(flat), gains], axis=1)
        return rows.reshape(*t.shape, -1)

    def composed(self, model: Any) -> Traced:
        """The controller as traced function of q, v and the signal."""
        own = self.model
        check_sizes(own, model, "the regulator", PART)
        q, v, signal = symbol("q", own.nq), symbol("v", own.nv), symbol("signal", self.signal_size)
        return trace_of(
            "lqr", {"q": q, "v": v, "signal": signal}, {"u": self._input(q, v, *split(signal, self._sizes))}
        )

    def _input(self, q: Array, v: Array, q_R: Array, v_R: Array, u_R: Array, K: Array) -> Array:
        """u within the limits; K row by row."""
        own = self.model
        x = concatenate(place(own.coordinates, q_R, q), v - v_R)
        u: Array = u_R - np.matvec(np.reshape(K, (*K.shape[:-1], own.nu, self._sizes[3] // own.nu)), x)
        if self._bounds is not None:
            u = np.minimum(np.maximum(u, self._bounds[0]), self._bounds[1])
        return u

    def __call__(self, t: Numbers, q: Array, v: Array) -> np.ndarray:
        """The input (..., nu) at the times t (s) in the states (q, v), within the limits; all broadcast."""
        model = self.model
        q = model.coordinates.check(q, f"q of {model.name!r}")
        t, v = numbers(t, "t"), numbers(v, f"v of {model.name!r}")
        if not v.ndim or v.shape[-1] != model.nv:
            raise wrong_shape(f"v of {model.name!r}", ("...", model.nv), v.shape)
        if not np.all(np.isfinite(t)):
            raise ControlError(f"the regulator needs finite times in s, got {t.tolist()}.")
        return np.asarray(self._input(q, v, *np.split(self.signal(t), np.cumsum(self._sizes)[:-1], axis=-1)))

    def poles(self) -> np.ndarray:
        """Poles (n,) of the continuous closed loop about the set point, slowest first (1/s); a moving reference has none."""
        from heavytop.control.linear.analysis import linearize

        if not self.reference.is_constant:
            raise ControlError(
                f"{self!r} follows a motion, and time-varying gains have no poles. law.region(sizes) estimates the region of attraction, "
                "law.margins() the margins of the loop frozen at sampled times."
            )
        t = self.reference.start_time
        q, v, _ = self.reference(0.0)
        return linearize(self.model, self, q, v, t, parameters=self.reference.clock(0.0, self.model)).poles

    def margins(self) -> Margins:
        """Stability margins, the worst along its motion; see :func:`.margins`."""
        from heavytop.control.linear.margins import margins

        return margins(self)

    def loop(self, t: float = 0.0) -> FeedbackLoop:
        """The linearised loop at a time (s) of its motion: loci, step responses, Bode and Nyquist plots; see :class:`.FeedbackLoop`."""
        from heavytop.control.linear.margins import loop_of

        return loop_of(self, None, t)

    def export_c(
        self, folder: str | Path, *, precision: Precision = "double", footprint: bool = False, name: str = "lqr"
    ) -> list[Path]:
        """Export the regulator as C99 without allocation, with a test and a README: ``NAME_input``.

        At a set point the function takes q and v, and returns u. Along a motion it also takes q_R, v_R, u_R and the gains K (nu x nx, row by
        row) of the time: :meth:`signal` returns them in this order, for a table or for transmission.
        """
        from heavytop.compile import export_c

        model, rng, count = self.model, np.random.default_rng(0), 16
        begin = self.reference.start_time + self.times[0]
        # the inputs of a set point may vary
        times = begin + rng.uniform(0.0, 10.0 if len(self.times) == 1 else self.times[-1] - self.times[0], count)
        rows = self.signal(times)
        fixed = bool(np.all(rows == rows[0]))
        wanted = np.split(rows, np.cumsum(self._sizes)[:-1], axis=1)
        q = chart(model.coordinates, wanted[0], 0.3 * rng.standard_normal((count, model.coordinates.nv)))
        v = wanted[1] + rng.standard_normal((count, model.nv))
        inputs: dict[str, Array] = {"q": symbol("q", model.nq), "v": symbol("v", model.nv)}
        given: list[Array] = [row[0] for row in wanted]
        if not fixed:
            sizes = zip(("q_R", "v_R", "u_R", "K"), self._sizes, strict=True)
            given = [symbol(label, size) for label, size in sizes]
            inputs |= dict(zip(("q_R", "v_R", "u_R", "K"), given, strict=True))
        law = f"{name}_input"
        traced = trace_of(law, inputs, {"u": self._input(inputs["q"], inputs["v"], *given)})
        vectors = {law: [q, v, *([] if fixed else wanted)]}
        entries = entries_of(model, [*inputs, "u"])
        return export_c(
            folder, {law: traced}, precision=precision, name=name, vectors=vectors, footprint=footprint, entries=entries
        )

    def certified_region(self, **options: Any) -> Certificate:
        """A proven region of attraction at a set point, see :func:`.certificate` and its options."""
        from heavytop.control.linear.certificate import certificate

        return certificate(self, **options)

    def region(
        self, sizes: Any, samples: int = 100, seed: int = 0, step: float | None = None, until: float | None = None
    ) -> np.ndarray:
        """Estimate the region of attraction: recovered share of random deviations of each size (in the norm of P).

        A run is recovered if its final deviation is at most a tenth of the initial one in that norm.

        Parameters
        ----------
        sizes : (m,) values of sqrt(x^T P x) at the start. samples : runs for each. seed : seed of the deviations.
        step : step of the simulation, s; default: a fifth of the step of the gains. until : its length, s; default: the duration of the motion, else
            5 s, as whole periods.

        Returns
        -------
        (m,) shares between 0 and 1.
        """
        sizes = np.atleast_1d(numbers(sizes, "sizes of deviations"))
        if sizes.ndim != 1 or not np.all((sizes > 0) & (sizes < np.inf)):
            raise ControlError(f"sizes of deviations must be positive numbers (m,), got {sizes.tolist()}.")
        if samples < 1:
            raise ControlError(f"samples must be 1, 2, ..., got {samples!r}.")
        for name, value in (("step", step), ("until", until)):
            if value is not None and not 0 < value < np.inf:
                raise ControlError(f"{name} of a sampled region must be a positive time in s, got {value!r}.")
        model, rng = self.model, np.random.default_rng(seed)
        h = float(np.diff(self.times)[0]) if len(self.times) > 1 else 0.01
        whole = 5.0 if self.period is None else self.period * np.ceil(5.0 / self.period)
        end = next(float(x) for x in (until, self.reference.duration, whole) if x is not None)
        t0, at = self.reference.start_time, self.reference.clock(0.0, model)
        q, v, _ = self.reference(0.0)
        # deviations that satisfy loops and constraints
        T = MinimalSteps(model, q[None], v[None], self.reference.clock(np.zeros(1), model), self.ignored).T[0]
        P = T.T @ self.cost_to_go[0] @ T
        root = T @ np.linalg.cholesky(np.linalg.inv(P + 1e-12 * np.trace(P) * np.eye(len(P))))
        parts = []
        for size in sizes:
            sphere = rng.standard_normal((samples, len(P)))
            x = size * np.matvec(root, sphere / np.linalg.norm(sphere, axis=1)[:, None])
            ne = model.coordinates.nv
            start = chart(model.coordinates, np.broadcast_to(q, (samples, len(q))), x[:, :ne]), v + x[:, ne:]
            if model.is_constrained:
                closed = [model.assemble(*one, parameters=at) for one in zip(*start, strict=True)]
                start = np.array([one[0] for one in closed]), np.array([one[1] for one in closed])
            run = simulate(
                model, start, t0 + end, h / 5 if step is None else step, control=self, hold="continuous", record_every=10**9,
                progress=False, start_time=t0, parameters=self.reference.parameters_of(model),
            )  # fmt: skip
            q_end, v_end, _ = self.reference(end)
            left = np.concatenate([place(model.coordinates, q_end, run.q[-1]), run.v[-1] - v_end], axis=1)
            last = np.sqrt(np.vecdot(left, np.matvec(self.cost_to_go[-1], left)))
            parts.append(float(np.mean(np.isfinite(last) & (last < 0.1 * size))))
        return np.array(parts)


def lqr(
    model: Model,
    reference: Reference | Array,
    cost: Weights | None = None,
    *,
    inputs: Callable[[np.ndarray], np.ndarray] | Array | None = None,
    limits: Any = None,
    step: float | None = None,
    final: np.ndarray | None = None,
    parameters: Mapping[str, Any] | None = None,
    Q: Any = None,
    R: Any = None,
    N: Any = None,
    ignore: Sequence[str] = (),
) -> LinearQuadratic:
    """Linear-quadratic regulator along a reference: constant at a set point, periodic along a periodic motion, else up to its end.

    The design is in discrete time, for inputs that are held over ``step``: at a set point 0.01 s by default, so the gain differs by a few percent
    from that of the continuous Riccati equation, which a small ``step`` approaches.

    Parameters
    ----------
    model : model of the plant.
    reference : a feasible motion with a duration or a period (``plan.reference``), or a configuration (nq,) that inputs within the limits
        can hold.
    cost : weights of deviations and inputs, ``Weights(places=, speeds=, inputs=)``.
    Q, R, N : instead, full matrices (nx, nx), (nu, nu) and (nx, nu) of the deviations x = (place, velocity) and of the inputs u, cost
        x^T Q x + u^T R u + 2 x^T N u per second, as in python-control. Q and R replace their part of ``cost``. Or mappings from names to weights:
        ``Q={"x.x": 10.0, ("x.x", "theta.rate"): 0.5}``, ``N={("theta.rate", "F"): 0.1}``; names left out weigh nothing in Q and N, and 1 in R.
        :func:`.deviation_names` lists the names of x.
    ignore : names of deviations, or of joints, that are not regulated, such as the angles of wheels: nothing else may depend on them.
    final : (nx, nx) terminal cost of a motion with an end; None: that of the regulator at rest, if the motion ends at rest.
    inputs : u_R(times) (n, nu), or constant ones (nu,); default: the inputs the reference requires, for a plan ``plan.inputs``.
    limits : limits of the inputs: pair, :class:`.Limits`, mapping from inputs to pairs, or joint limits (``system.limits``, of which efforts apply);
        the input saturates there.
    step : step of the gains in s, best the sample period of the controller; default: 500 steps over the motion, 0.01 s at a set point.
    parameters : values of the model's parameters by name; default: those of the reference, such as a plan, else the model's.

    Examples
    --------
    >>> import heavytop as ht
    >>> cart = ht.library.cart_pole().derive()
    >>> upright = ht.control.lqr(cart, [0.0, 0.0])
    >>> run = ht.simulate(cart, ([0.2, 0.3], [0, 0]), until=6.0, step=0.01, control=upright)
    >>> bool(abs(run.q[-1]).max() < 1e-2)
    True
    """
    if cost is not None and not isinstance(cost, Weights):
        raise ControlError(f"cost takes Weights(places=, speeds=, inputs=), got {cost!r}.")
    if not isinstance(reference, Reference):
        reference = Reference.set_point(model, reference)
    reference = reference.with_parameters(parameters, model)
    diagonals = (np.diag(x) for x in (cost or Weights()).vectors(model))
    names, ignored = (deviation_names(model), tuple(model.u_names)), ignored_entries(model, ignore)
    Q = _form("Q", _named("Q", Q, names[0], names[0]), next(diagonals))
    R = _form("R", _named("R", R, names[1], names[1]), next(diagonals))
    N = _cross(_named("N", N, *names), Q, R)
    constant, period = reference.is_constant, reference.period if reference.duration is None else None
    if not constant and period is None and reference.duration is None:
        raise ControlError(
            f"the reference of {model.name!r} moves and has neither an end nor a period: give the Reference its duration= or period=."
        )
    if final is not None and (constant or period is not None):
        raise ControlError(
            f"final is the terminal cost of a motion with an end, but the reference of {model.name!r} is "
            f"{'a set point' if constant else 'periodic'}. Omit final=, or give the Reference its duration=."
        )
    begin = 0.0 if period is None else reference.begin
    end = reference.horizon
    if step is not None and not 0 < step < np.inf:
        raise ControlError(f"the step of the regulator must be positive, got {step!r}.")
    h = step if step is not None else 0.01 if constant else (end - begin) / 500
    count = 1 if constant else max(round((end - begin) / h), 2)
    times = np.zeros(1) if constant else np.linspace(begin, end, count + 1)
    given = _needed(model, reference) if inputs is None else _of_times(model, inputs)
    A, B = linearized_steps(
        model, reference, times[:-1] if not constant else times, h if constant else (end - begin) / count, given
    )
    forms = Q, R, N
    # u = w - R^-1 N^T x takes the cross terms away
    A, Q, cross = A - B @ np.linalg.solve(R, N.T), h * (Q - N @ np.linalg.solve(R, N.T)), np.linalg.solve(R, N.T)
    R = R * h
    bounds = input_bounds(model, limits)
    if constant:
        q, v, _ = reference(times)
        at = reference.clock(0.0, model)
        _check_balance(model, q[0], v[0], given(times)[0], bounds, at)
        minimal = MinimalSteps(model, q, v, at, ignored)
        minimal.check_independent(A)
        P, K = _stationary(minimal, A[0], B[0], Q, R)
        K = K + minimal.expanded(cross @ minimal.T[0])
        mixed = forms[2] @ K
        rate = forms[0] + K.T @ forms[1] @ K - mixed - mixed.T
        design = {"reference": q[0].tolist(), "inputs": given(times)[0].tolist(), "step": h}
        design |= {name: form.tolist() for name, form in zip("QRN", forms, strict=True) if name != "N" or np.any(form)}
        design |= {} if bounds is None else {"limits": tuple(bound.tolist() for bound in bounds)}
        design |= {"ignore": list(ignore)} if ignored else {}
        known = dict(zip(model.parameter_names, model.parameter_vector(at).tolist(), strict=True))
        other = {
            p.name: known[p.name] for p in model.description.parameters if not p.is_time and known[p.name] != p.value
        }
        design |= {"parameters": other} if other else {}
        return LinearQuadratic(
            model, reference, times, K[None], P[None], given, bounds, ignored=ignored, cost_rate=rate, design=design
        )
    q, v, a = reference(times)
    minimal = MinimalSteps(model, q, v, reference.clock(times, model), ignored)
    minimal.check_independent(A)
    T, own = minimal.T, minimal.own
    if period is not None:
        _check_repeats(model, np.concatenate([v, a, given(times)], axis=1)[[0, -1]], period)
        P = periodic([A[k][own] @ T[k] for k in range(count)], B[:, own], [T[k].T @ Q @ T[k] for k in range(count)], R)
    else:
        final = _final(model, reference, end, end / count, Q, R) if final is None else final
        final = np.asarray(final, dtype=float)
        if final.shape != (T.shape[1],) * 2 or not np.all(np.isfinite(final)):
            raise wrong_shape("the terminal cost", (T.shape[1],) * 2, final.shape, "Finite numbers.")
        P = T[-1].T @ final @ T[-1]
    gains, costs = [], [minimal.whole(P)]
    for k in reversed(range(count)):
        P, K = riccati(P, A[k][own] @ T[k], B[k][own], T[k].T @ Q @ T[k], R)
        gains.append(minimal.expanded(K + cross @ T[k]))
        costs.append(minimal.whole(P))
    gains.reverse()
    costs.reverse()
    gains.append(gains[-1] if period is None else gains[0])
    return LinearQuadratic(model, reference, times, np.array(gains), np.array(costs), given, bounds, period, ignored)


def _named(what: str, given: Any, rows: tuple[str, ...], columns: tuple[str, ...]) -> Any:
    """The matrix of a mapping from names, or pairs of names, to weights; anything else is returned as it is."""
    if not isinstance(given, Mapping):
        return given
    matrix = np.eye(len(rows)) if what == "R" else np.zeros((len(rows), len(columns)))
    for names, weight in given.items():
        pair = (names, names) if isinstance(names, str) and what != "N" else tuple(names)
        if (isinstance(names, str) and what == "N") or len(pair) != 2:
            raise ControlError(f"N of the regulator maps pairs (deviation, input) to weights, got {names!r}.")
        for name, known in zip(pair, (rows, columns), strict=True):
            if name not in known:
                raise unknown_name(f"name in {what} of the regulator", name, known)
        i, j = rows.index(pair[0]), columns.index(pair[1])
        matrix[i, j] = float(weight)
        if what != "N":
            matrix[j, i] = float(weight)
    return matrix


def _cross(given: Any, Q: np.ndarray, R: np.ndarray) -> np.ndarray:
    """N (nx, nu), checked: the whole cost must not be negative."""
    shape = (len(Q), len(R))
    if given is None:
        return np.zeros(shape)
    N = numbers(given, "N of the regulator")
    if N.shape != shape:
        raise wrong_shape("N of the regulator", shape, N.shape, "One row per deviation, one column per input.")
    least = np.linalg.eigvalsh(Q - N @ np.linalg.solve(R, N.T))[0]
    if not least >= -1e-12 * max(1.0, float(np.max(np.abs(Q)))):
        raise ControlError(
            f"N of the regulator makes the cost negative: Q - N R^-1 N^T has the eigenvalue {least:.4g}. Take smaller cross terms."
        )
    return N


def _form(name: str, given: Any, default: np.ndarray) -> np.ndarray:
    """A symmetric matrix of weights, checked."""
    if given is None:
        return default
    matrix = numbers(given, f"{name} of the regulator")
    if matrix.shape != default.shape:
        what = "deviations of places and velocities" if name == "Q" else "inputs"
        raise wrong_shape(f"{name} of the regulator", default.shape, matrix.shape, f"One row per entry of the {what}.")
    least = float(np.linalg.eigvalsh(matrix)[0]) if np.allclose(matrix, matrix.T, rtol=1e-9, atol=0.0) else np.nan
    size = float(np.max(np.abs(matrix)))
    if not (least >= -1e-12 * size if name == "Q" else least > 0):
        need = "positive semidefinite" if name == "Q" else "positive definite"
        raise ControlError(f"{name} of the regulator must be symmetric and {need}, got {matrix.tolist()}.")
    return matrix


def _check_repeats(model: Model, ends: np.ndarray, period: float) -> None:
    """Check that velocities, accelerations and inputs (2, n) at both ends of a period are equal."""
    off = np.abs(ends[1] - ends[0]) / (1.0 + np.abs(ends[0]))
    if not np.max(off) <= REPEATS:
        worst = int(np.argmax(off))
        name = (*model.v_names, *(f"{name}'" for name in model.v_names), *model.u_names)[worst]
        raise ControlError(
            f"the reference of {model.name!r} does not repeat after its period of {period:g} s: {name!r} is {ends[0, worst]:.6g} at its start "
            f"and {ends[1, worst]:.6g} at its end. Correct its period=, or give a duration=."
        )


def _check_balance(
    model: Model, q: np.ndarray, v: np.ndarray, u: np.ndarray, bounds: Any, parameters: Mapping[str, Any] | None = None
) -> None:
    """Check that the inputs u (nu,) hold a set point and are within their bounds."""
    left, falling = (model.acceleration(q, v, inputs, parameters) for inputs in (u, None))
    worst = int(np.argmax(np.abs(left)))
    error = abs(left[worst]) / max(1.0, float(np.max(np.abs(falling))))
    if not error <= BALANCED:
        # tolerated if a displacement within BALANCED explains it: pi typed with seven digits is in balance
        A = model.linearize(q, v, u, parameters=parameters)[0]
        if not error <= BALANCED * np.max(np.abs(A)):
            raise ControlError(
                f"the set point of {model.name!r} is not in balance: {model.v_names[worst]!r} accelerates by {left[worst]:.4g} whatever the inputs. "
                "control.equilibrium(model, q) finds an equilibrium near it."
            )
    if bounds is not None:
        beyond = np.maximum(bounds[0] - u, u - bounds[1])
        most = int(np.argmax(beyond))
        if beyond[most] > BALANCED * max(1.0, abs(float(u[most]))):
            raise ControlError(
                f"to hold the set point of {model.name!r} the input {model.u_names[most]!r} must be {u[most]:.4g}, outside its limits "
                f"{bounds[0][most]:g} to {bounds[1][most]:g}. Choose another set point or wider limits."
            )


def _stationary(
    minimal: MinimalSteps, A: np.ndarray, B: np.ndarray, Q: np.ndarray, R: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Stationary P (nx, nx) and K (nu, nx) of all deviations at rest."""
    T, own = minimal.T[0], minimal.own
    P, K = stationary(A[own] @ T, B[own], T.T @ Q @ T, R, minimal.names)
    return minimal.whole(P), minimal.expanded(K)


def cost_of_rest(
    rest: Reference, h: float, Q: np.ndarray, R: np.ndarray, inputs: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """P (nx, nx) of the regulator at a set point; a ControlError if there is none."""
    (q, v, _), model = rest(np.zeros(1)), rest.model
    A, B = linearized_steps(model, rest, np.zeros(1), h, inputs)
    return _stationary(MinimalSteps(model, q, v, rest.clock(0.0)), A[0], B[0], Q, R)[0]


def linearized_steps(
    model: Model, reference: Reference, times: np.ndarray, h: float, inputs: Callable[[np.ndarray], np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """A (n, nx, nx) and B (n, nx, nu) of steps of length h from each time, in the charts around the reference."""
    rates = ChartRates.of(model)
    layout = NodeLayout(rates.ne, rates.nv, rates.nu)
    q, v, _ = reference(times)
    ahead, _, _ = reference(times + h)
    y = np.zeros((len(times), layout.size))
    y[:, layout.v], y[:, layout.c] = v, inputs(times + 0.5 * h)
    p = model.parameter_vector(reference.clock(times + 0.5 * h, model))  # slopes in the middle of a step
    run = Shooting(rates, layout, RK4, 1).run(y, np.full(len(times), h), q, p, slopes=True)
    ends = np.concatenate([run.ends[:, : rates.ne], np.zeros((len(times), rates.ne))], axis=1)
    _, link = rates.link.first(ends, q, ahead)
    slopes = run.slopes.copy()
    slopes[:, : rates.ne] = link[:, :, : rates.ne] @ run.slopes[:, : rates.ne]
    return slopes[:, :, : rates.nx], slopes[:, :, layout.c]


def _of_times(model: Model, inputs: Any) -> Callable[[np.ndarray], np.ndarray]:
    """Inputs as a function of times (n,)."""
    function: Callable[[np.ndarray], np.ndarray] = inputs
    if callable(function):
        return function
    u = numbers(inputs, "inputs of the regulator")
    if u.shape != (model.nu,):
        names = f"The inputs are {', '.join(model.u_names)}; inputs that vary are a function of times (n,) that returns (n, {model.nu})."
        raise wrong_shape("inputs of the regulator", (model.nu,), u.shape, names)
    return lambda times: np.broadcast_to(u, (len(times), model.nu))


def _needed(model: Model, reference: Reference) -> Callable[[np.ndarray], np.ndarray]:
    """The inputs that a reference requires, in the sense of least squares."""
    return lambda times: needed_inputs(model, *reference(times), reference.clock(times, model))


def _final(model: Model, reference: Reference, end: float, h: float, Q: np.ndarray, R: np.ndarray) -> np.ndarray:
    """Terminal cost: that of the regulator if the motion ends at an equilibrium, else a hundred times the weights."""
    q, v, _ = reference(end)
    if model.description.time is None and np.max(np.abs(v), initial=0.0) < 1e-6:
        try:
            rest = Reference.set_point(model, q).with_parameters(reference.parameters_of(model))
            return cost_of_rest(rest, h, Q, R, _needed(model, rest))
        except ControlError:
            pass  # the end cannot be held; the motion can still be regulated
    return 100.0 * Q / h
