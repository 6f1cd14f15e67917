"""Proven regions of attraction: of a regulator by interval bounds of a Lyapunov function, of the energy law of a body by its energy.

A regulator u = u_R - K x, within its limits if any, makes x' = f(x) with f(0) = 0. V = x^T P x with A^T P + P A negative for the Jacobian
A at 0, by default -(Q + K^T R K): V is the remaining cost to first order. With f(x) = S(x) x

    V' = x^T (P S(x) + S(x)^T P) x.

With T T^T = P and y = T^T x the region V <= rho^2 is a ball. S depends on a few coordinates only; those are ordered last, so that they depend on as
many last coordinates z of y only. The ball is covered by boxes of z, over which S is enclosed: by interval slopes (:mod:`.interval_slopes`), for
a free body by corners and second derivatives (:mod:`.body_field`). V' is negative in a box if the symmetric part M of T^T S T^-T is negative
definite for all enclosed S, after addition of multiples of forms that are not negative for y in the ball with z in the box (S-procedure,
:func:`_localised`). A box that fails is halved, and boxes outside the ball are left out. If all boxes pass, V decreases along every motion in the
ball except at rest at 0: the ball is invariant, and every motion in it converges.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._arrays import concatenate, part, symbol, to_sx
from heavytop.control.laws.law import FeedbackLaw, Law
from heavytop.control.linear.body_field import BodyField
from heavytop.control.linear.interval_slopes import Interval, Slope, slopes_of
from heavytop.control.observers.hull import Hull
from heavytop.coordinates import Angle, Pose, Vector
from heavytop.errors import ControlError, unknown_name
from heavytop.simulate import simulate

if TYPE_CHECKING:
    from heavytop.control.linear.lqr import LinearQuadratic

ATTEMPTS = 7
ROUNDING = 1e-10
"""Margin for rounding errors of sums and products of matrices, per sum of their absolute values."""

Cell = tuple[np.ndarray, np.ndarray]
"""Lower and upper bounds (np,) of the parameters."""
Enclosure = Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]
"""Matrices (rows, corners, nx, nx) of boxes with centres and half widths, and bounds (rows,) of the norms of their errors."""


class _JointField:
    """The closed loop x' = f(x) of a regulator in joint coordinates, x = (coordinates, velocities), with parameters in a box."""

    method = f"interval slopes with outward rounding, sums of matrices and eigenvalues with a margin of {ROUNDING:g}"
    boxes = 400_000

    def __init__(self, law: LinearQuadratic, uncertain: Mapping[str, tuple[float, float]]) -> None:
        import casadi

        model = law.model
        _check(law)
        self.law, self.model, self.cost_rate = law, model, law.cost_rate
        self.nv, self.nx, self.names = model.nv, 2 * model.nv, (*model.q_names, *model.v_names)
        x, p = symbol("x", self.nx), symbol("p", len(model.parameter_names))
        self.q_R, self.v_R, _ = law.reference(0.0)
        u_R = law._inputs(np.zeros(1))[0]
        q, v = self.q_R + part(x, 0, self.nv), self.v_R + part(x, self.nv, self.nx)
        u = u_R - np.matvec(law.gains[0], x)
        self.room = np.full(len(u_R), np.inf)
        if law._bounds is not None:
            self.room = np.minimum(u_R - law._bounds[0], law._bounds[1] - u_R)
            u = np.minimum(np.maximum(u, law._bounds[0]), law._bounds[1])
        (a,) = model.traced("acceleration").expressions(q, v, u, p)
        self.function = casadi.Function("closed_loop", [to_sx(x), to_sx(p)], [to_sx(concatenate(v, a))])
        self.nominal = model.parameter_vector()
        low, high = self.nominal.copy(), self.nominal.copy()
        for name, bounds in uncertain.items():
            if name not in model.parameter_names:
                raise unknown_name("parameter", name, model.parameter_names)
            k = model.parameter_names.index(name)
            low[k], high[k] = bounds
        self.cell = low, high

    def slopes(
        self, low: np.ndarray, high: np.ndarray, cell: Cell, to_x: np.ndarray | None = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Middles and radii (rows, nx, nx) of S to_x over boxes (rows, nx) of x, for all parameters of a cell; to_x by default the unit matrix."""
        rows, nx = low.shape
        zeros, basis = np.zeros((rows, nx)), np.eye(nx) if to_x is None else to_x
        given = [
            Slope(Interval.of(0.0), Interval(low[:, i], high[:, i]), Interval.of(np.broadcast_to(basis[i], (rows, nx))))
            for i in range(nx)
        ]
        for a, b in zip(*cell, strict=True):
            given.append(
                Slope(
                    Interval(np.asarray(a), np.asarray(b)),
                    Interval(np.full(rows, a), np.full(rows, b)),
                    Interval.of(zeros),
                )
            )
        with np.errstate(invalid="ignore"):  # unbounded slopes, which prove nothing
            found = slopes_of(self.function, given)
        rest = max(float(np.max(np.abs([s.centre.low, s.centre.high]))) for s in found)
        if not rest < REST:
            raise ControlError(
                f"the set point is not at rest for all parameters (rates up to {rest:.2g}), so no region around it is attracted to it."
            )
        with np.errstate(invalid="ignore"):
            middle, radius = (
                [part + zeros for part in parts]
                for parts in zip(*((s.slope.middle, s.slope.radius) for s in found), strict=True)
            )
        return np.stack(middle, 1), np.stack(radius, 1)

    @cached_property
    def boxed(self) -> np.ndarray:
        """Entries of x on which S depends, determined at random points: those outside have their whole range in every box."""
        x, found = 0.1 * np.random.default_rng(0).standard_normal((4, self.nx)), []
        for i in range(self.nx):
            low, high = x.copy(), x.copy()
            low[:, i], high[:, i] = -np.abs(x[:, i]), np.abs(x[:, i])
            if not np.max(self.slopes(low, high, (self.nominal, self.nominal))[1]) <= 1e-9:
                found.append(i)
        return np.array(found or [self.nx - 1])

    def enclosure(self, to_y: np.ndarray, to_x: np.ndarray, radius: float, cell: Cell) -> Enclosure:
        """Symmetric parts of to_y S to_x in boxes of the last coordinates y: middles (rows, 1, nx, nx), and bounds of the norms of their errors."""
        boxed, k = self.boxed, len(self.boxed)
        edge = radius * np.linalg.norm(to_x, axis=1) * (1 + 1e-6)
        back = to_x[boxed, -k:]

        def at(c: np.ndarray, h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            x, wide = np.zeros((len(c), self.nx)), np.tile(edge, (len(c), 1))
            x[:, boxed], wide[:, boxed] = c @ back.T, (h @ np.abs(back.T)) * (1 + 1e-12) + 1e-300
            S, radii = self.slopes(np.maximum(x - wide, -edge), np.minimum(x + wide, edge), cell, to_x)
            M, R = to_y @ S, np.abs(to_y) @ radii
            M, R = M + M.swapaxes(1, 2), R + R.swapaxes(1, 2)
            known = np.asarray(np.isfinite(R).all(axis=(1, 2)) & np.isfinite(M).all(axis=(1, 2)))
            M, R = np.where(known[:, None, None], M, 0.0), np.where(known[:, None, None], R, 1e100)
            size = np.minimum(np.linalg.norm(R, axis=(1, 2)), np.sqrt(R.sum(1).max(1)) * np.sqrt(R.sum(2).max(1)))
            return M[:, None], size + ROUNDING * (np.sum(np.abs(M), axis=(1, 2)) + size)

        return at

    def reach(self, to_x: np.ndarray) -> np.ndarray:
        """Largest deviation (nu,) of every input in the region without limits, per unit of its radius."""
        return np.linalg.norm(self.law.gains[0] @ to_x, axis=1)

    def linear(self) -> np.ndarray:
        """Jacobian (nx, nx) at the set point."""
        zero = np.zeros((1, self.nx))
        return self.slopes(zero, zero, (self.nominal, self.nominal))[0][0]

    def states(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """q and v of deviations (rows, nx)."""
        return self.q_R + x[:, : self.nv], self.v_R + x[:, self.nv :]

    def deviations(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Deviations (rows, nx) of states."""
        return np.concatenate([q - self.q_R, v - self.v_R], axis=1)

    def exists(self, x: np.ndarray) -> bool:
        """Whether the deviations are those of a state."""
        return True

    def rates(self, x: np.ndarray) -> np.ndarray:
        """f (rows, nx) at states (rows, nx), in floating point, parameters nominal."""
        p = np.repeat(self.nominal[:, None], len(x), axis=1)
        return np.asarray(self.function.map(len(x))(x.T, p)).T


REST = 1e-9
"""Largest rate at the set point that counts as rest: rounding of inputs that hold it."""


def _check(law: LinearQuadratic, body: bool = False) -> None:
    model = law.model
    flat = all(isinstance(block, Vector | Angle) for block in model.coordinates.blocks)
    problem = None
    if not law.reference.is_constant or law.period is not None or len(law.times) != 1:
        problem = "the regulator follows a motion"
    elif model.is_constrained or (not body and (model.nq != model.nv or not flat)):
        problem = "the model has constraints, circles or attitudes, and is not a free body"
    elif law.ignored:
        problem = "deviations are ignored"
    if problem:
        raise ControlError(f"no region is proven, because {problem}: law.region(sizes) samples it.")


@dataclass(frozen=True, eq=False, repr=False)
class Certificate:
    """A proven region of attraction x^T P x <= radius^2 of a regulator. Made by :func:`certificate`.

    Attributes
    ----------
    law : the regulator. P : (nx, nx). cost : (nx, nx) of the remaining cost x^T cost x to first order; P <= cost, so that the region contains all
        states whose cost is at most radius^2. radius : proven one; 0 if nothing was proven with the given number of boxes.
    boxes : number of boxes of the proof. uncertain : parameters and their bounds for which it holds.

    Examples
    --------
    >>> import heavytop as ht
    >>> from heavytop.control import certificate, lqr
    >>> found = certificate(lqr(ht.library.cart_pole().derive(), [0.0, 0.0]), radius=0.4)
    >>> found.radius, found.contains([0.0, 0.02], [0.0, 0.0]), found.contains([0.0, 1.0], [0.0, 0.0])
    (0.4, True, False)
    """

    law: LinearQuadratic
    P: np.ndarray
    cost: np.ndarray
    radius: float
    boxes: int
    uncertain: Mapping[str, tuple[float, float]]

    def __repr__(self) -> str:
        return f"Certificate({self.law.model.name!r}: radius {self.radius:.4g}, {self.boxes} boxes)"

    @cached_property
    def _field(self) -> _JointField | BodyField:
        return _field_of(self.law, self.uncertain)

    @property
    def amplitudes(self) -> np.ndarray:
        """(nx,) largest deviations of every coordinate and velocity in the region."""
        return self.radius * np.sqrt(np.diag(np.linalg.inv(self.P)))

    def contains(self, q: Any, v: Any) -> bool:
        """Whether a state is in the region."""
        x = self._field.deviations(np.asarray(q, dtype=float)[None], np.asarray(v, dtype=float)[None])[0]
        return bool(x @ self.P @ x <= self.radius**2)

    def _states(self, count: int, radius: float, seed: int, surface: np.ndarray | None = None) -> np.ndarray:
        """(count, nx) uniform in the region, or on the surface where a form is radius^2."""
        rng, n = np.random.default_rng(seed), len(self.P)
        y = rng.standard_normal((count, n))
        y /= np.linalg.norm(y, axis=1, keepdims=True)
        size = np.ones((count, 1)) if surface is not None else rng.uniform(0, 1, (count, 1)) ** (1 / n)
        return radius * size * y @ np.linalg.inv(np.linalg.cholesky(self.P if surface is None else surface))

    def counterexamples(self, samples: int = 1_000_000, seed: int = 0) -> int:
        """Number of random states in the region at which V does not decrease, nominal parameters: an independent check of the proof."""
        found, done = 0, 0
        while done < samples:
            count = min(100_000, samples - done)
            x = self._states(count, self.radius, seed + done)
            found += int(np.sum(np.einsum("ni,ij,nj->n", x, self.P, self._field.rates(x)) >= 0))
            done += count
        return found

    def sampled_radius(self, samples: int = 200, seed: int = 0, until: float = 10.0, step: float = 2e-3) -> float:
        """Largest radius from which all random starts of this cost, x^T cost x = radius^2, return: by flights, an estimate and no proof.

        With n samples and no failure, at most a share of 3/n of the surface is lost, with 95 % confidence. The radius grows by 15 % from
        one sample of starts to the next.
        """
        radius, best, field = max(self.radius, 1e-3), 0.0, self._field
        for _ in range(60):
            x = self._states(samples, radius, seed, self.cost)
            if not field.exists(x):
                break
            run = simulate(
                self.law.model, field.states(x), until, step, control=self.law, hold="continuous", record_every=10**9,
                progress=False, balance=False, raise_on_failure=False,
            )  # fmt: skip
            left = field.deviations(run.q[-1], run.v[-1])
            if not (
                np.all(np.isfinite(left))
                and np.all(np.einsum("ni,ij,nj->n", left, self.cost, left) < (0.1 * radius) ** 2)
            ):
                break
            best, radius = radius, 1.15 * radius
        return best

    def report(self) -> str:
        """Region and assumptions as text."""
        model = self.law.model
        sizes = ", ".join(f"{name} {a:.3g}" for name, a in zip(self._field.names, self.amplitudes, strict=True))
        box = ", ".join(f"{name} in [{a:g}, {b:g}]" for name, (a, b) in self.uncertain.items()) or "as described"
        return (
            f"proven region of attraction of {model.name!r}: x^T P x <= {self.radius**2:.4g}, deviations up to {sizes}.\n"
            f"Assumes: the described model, control without sampling, delay and noise, parameters {box}, limits "
            f"{'of the regulator' if self.law._bounds is not None else 'absent'}.\n"
            f"Proof: V' < 0 in {self.boxes} boxes, by {self._field.method}."
        )


def _field_of(law: LinearQuadratic, uncertain: Mapping[str, tuple[float, float]]) -> _JointField | BodyField:
    if len(law.model.coordinates.blocks) != 1 or not isinstance(law.model.coordinates.blocks[0], Pose):
        return _JointField(law, uncertain)
    _check(law, body=True)
    if uncertain:
        raise ControlError("the region of a free body is proven for nominal parameters: omit uncertain=.")
    return BodyField(law)


def _proved(field: _JointField | BodyField, P: np.ndarray, radius: float, most: int) -> tuple[bool, int]:
    """Whether V decreases in the whole ball of a radius for all parameters, and the number of boxes: cells of parameters are halved, too."""
    proved, count = _proved_in(field, P, radius, most, (field.nominal, field.nominal))
    low, high = field.cell
    if not proved or not np.any(high > low):
        return proved, count
    cells, usual = [(low, high)], SLACK * count
    while cells:
        low, high = cells.pop()
        proved, number = _proved_in(field, P, radius, usual, (low, high))
        count += number
        if count > most:
            return False, count
        if not proved:
            k = int(np.argmax((high - low) / np.maximum(np.abs(field.nominal), 1e-12)))
            middle = 0.5 * (low[k] + high[k])
            left, right = high.copy(), low.copy()
            left[k] = right[k] = middle
            cells += [(low, left), (right, high)]
    return True, count


SLACK = 3
"""Boxes for a cell of parameters per box for the nominal ones; a cell that needs more is halved."""


def _proved_in(field: _JointField | BodyField, P: np.ndarray, radius: float, most: int, cell: Cell) -> tuple[bool, int]:
    """The same for one cell of parameters, without halving it."""
    k, (to_y, to_x) = len(field.boxed), _transformed(field, P)
    enclosure = field.enclosure(to_y, to_x, radius, cell)
    if enclosure is None:
        return False, 0
    weight = np.sum(np.abs(to_x[field.boxed, -k:]) / np.linalg.norm(to_x[field.boxed], axis=1)[:, None], axis=0)
    centre, half = np.zeros((1, k)), np.full((1, k), radius)
    count, together = 0, max(1, TOGETHER // 2 ** int(np.isfinite(field.room).sum()))
    while len(centre):
        open_ = []
        for first in range(0, len(centre), together):
            c, h = centre[first : first + together], half[first : first + together]
            count += len(c)
            M, rest = enclosure(c, h)
            middle, few = np.mean(M, axis=1), np.flatnonzero(np.linalg.norm(c, axis=1) <= radius)[::RARELY]
            if count > most or np.any(_localised(middle[few], radius, c[few], 0 * h[few])[1] > rest[few]):
                return False, count
            forms, tops = _localised(middle, radius, c, h)
            fails = tops + rest >= 0  # the mean fails: one of the matrices does
            j = np.flatnonzero(~fails)
            fails[j] = ~np.all(_negative(M[j] + forms[j, None], rest[j, None]), axis=1)
            open_.append(fails)
        kept = np.concatenate(open_)
        centre, half = centre[kept], half[kept].copy()
        rows, i = np.arange(len(centre)), np.argmax(half * weight, axis=1)
        half[rows, i] *= 0.5
        step = np.zeros_like(half)
        step[rows, i] = half[rows, i]
        centre, half = np.concatenate([centre - step, centre + step]), np.concatenate([half, half])
        inside = np.sum(np.maximum(np.abs(centre) - half, 0.0) ** 2, axis=1) <= radius**2 * (1 + 1e-6)
        centre, half = centre[inside], half[inside]
    return True, count


def _negative(M: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """Whether the largest eigenvalues of M (..., n, n) are less than -rest (...), by the signs of the pivots of an elimination."""
    n = M.shape[-1]
    left = np.ascontiguousarray(np.moveaxis(M, (-2, -1), (0, 1)))
    left[np.arange(n), np.arange(n)] += rest + ROUNDING * np.sqrt(np.sum(left**2, axis=(0, 1)))
    negative = np.ones(M.shape[:-2], dtype=bool)
    for k in range(n):
        negative &= left[k, k] < 0
        row = left[k, k + 1 :] / np.where(negative, left[k, k], -np.inf)
        left[k + 1 :, k + 1 :] -= left[k + 1 :, k, None] * row
    return negative


def _transformed(field: _JointField | BodyField, P: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Matrices T^T and its inverse of y = T^T x, with the coordinates on which S depends last."""
    order = np.r_[np.setdiff1d(np.arange(len(P)), field.boxed), field.boxed]
    to_y, to_x = np.zeros_like(P), np.zeros_like(P)
    T = np.linalg.cholesky(P[np.ix_(order, order)])
    to_y[:, order], to_x[order] = T.T, np.triu(np.linalg.inv(T).T)
    return to_y, to_x


TOGETHER = 2000
"""Boxes that are evaluated together."""
RARELY = 10
"""Every tenth box is tested at its centre alone: where that fails, halving it does not help."""
CONES = np.array([0.02, 1.0])
"""Multipliers of the cone that are tried, per largest eigenvalue of M."""
SMALLEST, BISECTIONS = 1e-6, 9
"""Least multiplier of the ball, per largest eigenvalue of M, and bisections to find the best one."""


def _localised(M: np.ndarray, radius: float, centre: np.ndarray, half: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Forms (rows, nx, nx) that are not negative in the ball where its last coordinates z are in a box, chosen to make their sums with M negative.

    With d <= |z|: (radius^2 / d^2 - 1) |z|^2 - |rest of y|^2 >= 0. With n the direction of the centre and t the largest |z - n n^T z| / (n^T z):
    (1 + t^2) (n^T z)^2 - |z|^2 >= 0. Also returns the largest eigenvalues (rows,) of the sums.
    """
    n, k = M.shape[-1], centre.shape[1]
    away, wide = np.linalg.norm(centre, axis=1), np.linalg.norm(half, axis=1)
    axis = centre / np.maximum(away, 1e-300)[:, None]
    along, inner = np.zeros_like(M), np.diag(np.repeat([0.0, 1.0], [n - k, k]))
    along[:, -k:, -k:] = axis[:, :, None] * axis[:, None, :]
    size, near = -np.linalg.eigvalsh(M)[:, 0], 1e-3 * radius
    usable = np.where((away - wide > near), size, 0.0)
    least = np.maximum(away - wide, near)
    slope = wide * (1 + 1e-9) / least
    ratio = np.maximum((radius * (1 + 1e-6) / least) ** 2 - 1, 0.0)
    ball = ratio[:, None, None] * inner - (np.eye(n) - inner)
    cone = (1 + slope**2)[:, None, None] * along - inner
    started = M[:, None] + (usable[:, None] * CONES)[:, :, None, None] * cone[:, None]
    low, high = np.full((len(M), len(CONES)), np.log(SMALLEST)), np.zeros((len(M), len(CONES)))
    for _ in range(
        BISECTIONS
    ):  # the largest eigenvalue is convex in the multiplier, with the slope e^T ball e for its vector e
        middle = 0.5 * (low + high)
        factor = usable[:, None] * np.exp(middle)
        e = np.linalg.eigh(started + factor[:, :, None, None] * ball[:, None])[1][:, :, :, -1]
        falls = np.vecdot(np.matvec(ball[:, None], e), e) < 0
        low, high = np.where(falls, middle, low), np.where(falls, high, middle)
    forms = started - M[:, None] + (usable[:, None] * np.exp(0.5 * (low + high)))[:, :, None, None] * ball[:, None]
    forms = np.concatenate([np.zeros_like(forms[:, :1]), forms], axis=1)
    tops = np.linalg.eigvalsh(M[:, None] + forms)[:, :, -1]
    rows, i = np.arange(len(M)), np.argmin(tops, axis=1)
    return forms[rows, i], tops[rows, i]


def certificate(
    law: LinearQuadratic,
    *,
    radius: float | None = None,
    uncertain: Mapping[str, tuple[float, float]] | None = None,
    boxes: int | None = None,
) -> Certificate:
    """Prove a region of attraction of a regulator at a set point.

    Parameters
    ----------
    law : law made by :func:`.lqr`, with its limits: for sliding and turning joints, or for one free body.
    radius : radius to prove, in the norm of the cost; None: search for a large one. The form V of joints is that of the cost, or, in a search
        and where the cost would increase at a state of this radius, one that decreases at random states of a larger region; that of a body
        whose inputs may reach their limits is the cost of its loop with a share of the gains.
    uncertain : parameters of joints and bodies and their bounds, for example ``{"m_p": (0.09, 0.11)}``: the proof holds for all of them.
    boxes : largest number of boxes of one attempt; None: 400,000 for joints, 40,000 for a body.

    Raises
    ------
    ControlError
        The given radius was not proven with this number of boxes, V increases somewhere in it, or the law is not such a regulator.

    Examples
    --------
    >>> import heavytop as ht
    >>> from heavytop.control import lqr
    >>> certificate(lqr(ht.library.cart_pole().derive(), [0.0, 0.0]), radius=0.4).counterexamples(10_000)
    0
    """
    from scipy.linalg import solve_continuous_lyapunov

    given = dict(uncertain or {})
    field = _field_of(law, given)
    A = field.linear()
    cost = solve_continuous_lyapunov(A.T, -field.cost_rate)
    P = cost = 0.5 * (cost + cost.T)
    if np.max(np.linalg.eigvals(A).real) >= 0 or np.min(np.linalg.eigvalsh(cost)) <= 0:
        raise ControlError("the regulator does not stabilise its set point without sampling: no region is attracted.")
    most = field.boxes if boxes is None else boxes
    if radius is not None:
        radius = float(radius)
        if not 0 < radius < np.inf:
            raise ControlError(f"radius of a certificate must be positive and finite, got {radius:g}.")
    largest = _decreasing(field, cost)
    if isinstance(field, _JointField) and (radius is None or radius >= largest):
        P, largest = _improved(field, cost, largest)
    elif isinstance(field, BodyField) and np.any(
        (radius or largest) * field.reach(_transformed(field, cost)[1]) >= field.room
    ):
        P, largest = _weakened(field, cost, largest if radius is None else radius, radius is None)
    if radius is not None:
        proved, count = _proved(field, P, radius, most)
        if not proved:
            raise _unproven(Certificate(law, P, cost, radius, count, given), most)
        return Certificate(law, P, cost, radius, count, given)
    low, high, count = 0.0, largest, 0
    attempt = 0.3 * largest
    for _ in range(ATTEMPTS):
        proved, number = _proved(field, P, attempt, most)
        if proved:
            low, count = attempt, number
        else:
            high = attempt
        attempt = 0.5 * (low + high) if low else 0.4 * attempt
        if high < 1.08 * low:
            break
    return Certificate(law, P, cost, low, count, given)


def _sphere(count: int, n: int) -> np.ndarray:
    """Random directions (count, n)."""
    y = np.random.default_rng(1).standard_normal((count, n))
    return y / np.linalg.norm(y, axis=1, keepdims=True)


def _decreasing(field: _JointField | BodyField, P: np.ndarray) -> float:
    """A radius at which V increases at some random states: no larger one can be proven."""
    radius, x = 1e-3, _sphere(4000, len(P)) @ np.linalg.inv(np.linalg.cholesky(P))
    while field.exists(radius * x) and radius < 1e6:
        if np.any(np.einsum("ni,ij,nj->n", x, P, field.rates(radius * x)) >= 0):
            break
        radius *= 1.1
    return radius


def _weakened(field: BodyField, cost: np.ndarray, radius: float, smaller: bool) -> tuple[np.ndarray, float]:
    """P <= cost of the loop with the share of its gains for which the bounds of V' in small boxes of the ball are least, and the radius.

    With ``smaller`` the radius is reduced until these bounds are negative: less of the demands is lost in a smaller ball.
    """
    from scipy.linalg import eigh, solve_continuous_lyapunov

    forms, z = [], np.concatenate([np.zeros((1, 3)), np.repeat([0.3, 0.6, 0.9], 8)[:, None] * _sphere(24, 3)])
    for share in SHARES:
        A = field.linear(share)
        if np.max(np.linalg.eigvals(A).real) < 0:
            P = solve_continuous_lyapunov(A.T, -field.cost_rate)
            forms.append((P + P.T) / (2 * eigh(P, cost, eigvals_only=True)[-1] * (1 + 1e-12)))
    while True:
        tops = np.full(len(forms), np.inf)
        for i, P in enumerate(forms):
            enclosure = field.enclosure(*_transformed(field, P), radius, field.cell)
            if enclosure is not None:
                M, rest = enclosure(radius * z, half := np.full_like(z, EXTENT * radius))
                added = _localised(np.mean(M, axis=1), radius, radius * z, half)[0]
                tops[i] = np.max(np.linalg.eigvalsh(M + added[:, None])[:, :, -1] + rest[:, None])
        best = int(np.argmin(tops))
        if tops[best] < 0 or not smaller:
            return forms[best], radius
        radius /= 1.1


SHARES = (1.0, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)
"""Shares of the gains whose forms V are tried for a body with limits."""
EXTENT = 0.03
"""Half width of the boxes in which they are compared, per radius."""


def _improved(field: _JointField, cost: np.ndarray, largest: float) -> tuple[np.ndarray, float]:
    """P <= cost whose region is larger, by random changes of the form -(V' + 2 a V) to first order, a share a of the slowest decay; its radius."""
    from scipy.linalg import eigh, solve_continuous_lyapunov

    A, n, rng = field.linear(), len(cost), np.random.default_rng(0)
    decay = DECAY * -np.max(np.linalg.eigvals(A).real)
    y, radii = _sphere(1000, n), largest * np.geomspace(0.01, 10.0, 120)

    def made(F: np.ndarray) -> tuple[float, np.ndarray]:
        """The radius up to which V decreases at random states, and P, for the form F F^T."""
        P = solve_continuous_lyapunov((A + decay * np.eye(n)).T, -F @ F.T)
        P = 0.5 * (P + P.T)
        if np.min(np.linalg.eigvalsh(P)) <= 0:
            return 0.0, cost
        P /= eigh(P, cost, eigvals_only=True)[-1] * (1 + 1e-12)
        x = y @ np.linalg.inv(np.linalg.cholesky(P))
        first, last = 0, len(radii)
        while last - first > 1:
            k = (first + last) // 2
            slow = np.einsum("ni,ij,nj->n", x, P, field.rates(radii[k] * x)) >= -0.5 * decay * radii[k]
            first, last = (first, k) if np.any(slow) else (k, last)
        return float(radii[first]), P

    factor = np.linalg.cholesky(field.cost_rate)
    best, step = made(factor), 0.7
    for _ in range(CHANGES):
        change = step * np.tril(rng.standard_normal((n, n))) * (rng.uniform(size=(n, n)) < 0.5)
        trial = factor @ (np.eye(n) + change)
        found = made(trial)
        step = min(1.3 * step, 1.0) if found[0] > best[0] else max(0.98 * step, 0.03)
        if found[0] >= best[0]:
            best, factor = found, trial
    return best[1], best[0]


DECAY, CHANGES = 0.2, 250
"""Least decay of V as a share of that of the slowest mode, so that its proof needs fewer boxes, and random changes of V that are tried."""


def energy_level(law: FeedbackLaw) -> float:
    """Proven level of the energy W (J) of the energy-based law of a fully actuated body, below which every start converges to a set point.

    W' = -xi_e^T D_bar xi_e <= 0 with W = xi_e^T M_bar xi_e / 2 + V_bar, for the exact model without limits, sampling and delay. V_bar has its
    other critical points at half turns about the principal axes of the stiffness moment Pi about its centre, where V_bar >= 2 min(Pi). Below
    this level the set point is the only one, and LaSalle's principle proves convergence.

    Raises
    ------
    ControlError
        The law is of another kind, or has limits, or its model is not a fully actuated free body.

    Examples
    --------
    >>> from heavytop.copters import tricopter
    >>> round(energy_level(tricopter().law("energy", limits=False)), 6)
    2.6
    """
    effect = int(np.linalg.matrix_rank(Hull.of(law.model).wrenches))
    if not isinstance(law, Law) or law.kind != "energy" or law.limits is not None or law.integrals or effect < 6:
        raise ControlError(
            "the level is proven for an energy law without limits of one free body with six independent inputs."
        )
    ((_, stiffness),) = law.prototype.stiffness.items()
    return float(2 * np.min(np.linalg.eigvalsh(stiffness.moment_at_center)))


def _unproven(trial: Certificate, most: int) -> ControlError:
    """The error for a region that was not proven with ``most`` boxes, with its reason."""
    field, radius, largest = trial._field, trial.radius, _decreasing(trial._field, trial.P)
    radii = field.room / np.maximum(field.reach(np.linalg.inv(np.linalg.cholesky(trial.P)).T), 1e-300)
    k = int(np.argmin(radii))
    limited = f"input {field.model.u_names[k]!r} may reach a limit from a radius of {radii[k]:.3g} on"
    advice = "give a smaller radius, or none to search"
    if largest < radius and field.exists(
        largest * _sphere(4000, len(trial.P)) @ np.linalg.inv(np.linalg.cholesky(trial.P))
    ):
        reason = f"V increases at a state of radius {largest:.3g}" + (f"; {limited}" if radii[k] < radius else "")
    elif largest < radius:
        reason = f"it contains rotations by half a turn from a radius of {largest:.3g} on"
    elif trial.boxes > most:
        reason = f"{most} boxes were not enough" + (f"; {limited}" if radii[k] < radius else "")
        advice = "give more boxes, a smaller radius, or none to search"
    else:
        reason = "the bound of V' is not negative in one of its boxes"
    return ControlError(f"a radius of {radius:g} was not proven: {reason}. {advice.capitalize()}.")
