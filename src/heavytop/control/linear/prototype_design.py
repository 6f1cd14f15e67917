"""Design of a prototype for any system from the poles of its law at rest or along a steady motion.

The unknowns are totals, centres and moments about the centre of the inertia, damping and stiffness of chosen bodies, in a form that keeps
every distribution positive: t = t0 e^x, c = c0 + l x, S = L L^T with L = (diag(e^x) + lower triangle) scaled. The poles of the law are
those of ``A + B F`` (:mod:`.linearised_loop`), restricted to the deviations that the inputs reach. Let p(s) be their characteristic polynomial and p*
the requested one. Clustered poles are not smooth functions of the moments, but values of p are; so least squares is applied to

    log p(s_k) - log p*(s_k)  on the right of the imaginary axis,  then  p(s_k) / p*(s_k) - 1  around the requested poles,

from several starts, the first of which is the model's own inertia with the mean frequency of the requested poles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._arrays import Floats
from heavytop._format import Brief
from heavytop.control.linear.linearised_loop import LinearisedLoop, ahead, check_steady, moments_of, numeric, ordered
from heavytop.errors import ControlError, unknown_name
from heavytop.geometry import se3, so3
from heavytop.system import WORLD, Moments, Stiffness

if TYPE_CHECKING:
    from heavytop.control.linear.lqr import Weights
    from heavytop.system import Model

MET = 0.01
"""Relative distance within which a pole counts as achieved."""
STARTS = 8
STAY = 1e-3
"""Weight of the distance from the start, which determines moments without effect."""
AROUND = 0.4
"""Radius, relative to a pole, of the circle on which p is compared with p*."""
LOWER = ([1, 2, 2], [0, 0, 1])
NUMBERS = 10
"""Numbers of a distribution: total, centre, moment."""


@dataclass(frozen=True, eq=False, repr=False)
class Design(Brief):
    """Requested and achieved poles of :meth:`.Prototype.for_model`.

    Attributes
    ----------
    requested, achieved : (n,) poles of the deviations that the inputs reach, paired. fixed : (m,) poles that do not depend on the inputs.
    q : (nq,) the configuration of rest. v : (nv,) the velocity of the steady motion; None: rest.

    Examples
    --------
    >>> made = Design(np.array([-2.0 + 0j]), np.array([-2.5 + 0j]), np.array([0j]), np.zeros(1))
    >>> print(made.report())
    requested   -2.0000   +0.0000i   achieved   -2.5000   +0.0000i   missed
    fixed        0.0000   +0.0000i   independent of the inputs
    """

    requested: np.ndarray
    achieved: np.ndarray
    fixed: np.ndarray
    q: Floats
    v: Floats | None = None

    @property
    def missed(self) -> np.ndarray:
        """Whether each of the requested poles is missed by more than 1 % (n,)."""
        return np.abs(self.achieved - self.requested) > MET * np.abs(self.requested)

    @property
    def is_met(self) -> bool:
        """Whether all requested poles are achieved."""
        return not bool(np.any(self.missed))

    def report(self) -> str:
        """Each requested pole with the achieved one, and the fixed poles."""
        rows = [
            f"requested {_pole(a)}   achieved {_pole(g)}{'   missed' if m else ''}"
            for a, g, m in zip(self.requested, self.achieved, self.missed, strict=True)
        ]
        rows += [f"fixed     {_pole(p)}   independent of the inputs" for p in self.fixed]
        return "\n".join(rows)


def _pole(p: complex) -> str:
    return f"{p.real:9.4f} {p.imag:+9.4f}i"


def design(
    model: Model,
    q: Any = None,
    v: Any = None,
    poles: Sequence[complex] | complex | None = None,
    weights: Weights | None = None,
    bodies: Sequence[str] | None = None,
) -> tuple[dict[str, Any], Design]:
    """Inertia, damping and stiffness by body, and the poles of their law; see :meth:`.Prototype.for_model`."""
    from heavytop.control.laws.prototype import DesiredDamping, DesiredInertia, Prototype

    if model.nu == 0:
        raise ControlError(f"{model.name!r} has no inputs to control it with. Add system.input(...).")
    inertias = model.description.inertias
    chosen = tuple(inertias) if bodies is None else tuple(bodies)
    for name in chosen:
        if name not in inertias:
            raise unknown_name("body with inertia", name, inertias)
    if not chosen:
        raise ControlError("bodies=() is empty: name at least one body.")
    loop = LinearisedLoop.at(model, q, v)
    Q = loop.reached
    requested = _requested(loop, poles, weights)
    others = {b: m for b, m in inertias.items() if b not in chosen}
    problem = _Problem(
        loop, chosen, _Base.of(model, chosen, float(np.exp(np.mean(np.log(np.abs(requested)))))), others, requested
    )
    x = problem.solved()
    parts = []
    for kind, block in zip((DesiredInertia, DesiredDamping, Stiffness), problem.distributions(x), strict=True):
        parts.append({b: kind(t, c, S) for b, (t, c, S) in zip(chosen, block, strict=True)})
    parts[0] |= {
        b: DesiredInertia(float(numeric(model, m.mass)), numeric(model, m.com), numeric(model, m.moment_at_com))
        for b, m in others.items()
    }
    made = Prototype(*parts)
    F = loop.gain(*loop.matrices(made))
    achieved = np.linalg.eigvals(Q.T @ (loop.A + loop.B @ F) @ Q)
    moves = bool(np.any(loop.v))
    result = Design(requested, paired(achieved, requested), loop.fixed_poles, loop.q, loop.v if moves else None)
    if moves:
        later = LinearisedLoop.at(model, ahead(model, loop.q, loop.v), loop.v)
        F_later = later.gain(*later.matrices(made))
        check_steady(model, loop.in_joints(loop.A + loop.B @ F), later.in_joints(later.A + later.B @ F_later))
    if np.max(np.real(result.achieved)) >= 0:
        raise ControlError(
            f"no prototype of {model.name!r} with these poles was found; the best one is unstable:\n{result.report()}"
        )
    return {"inertia": parts[0], "damping": parts[1], "stiffness": parts[2]}, result


def _requested(loop: LinearisedLoop, poles: Sequence[complex] | complex | None, weights: Weights | None) -> np.ndarray:
    """The requested poles (n,): given ones, or those of the linear-quadratic regulator."""
    Q, name = loop.reached, loop.model.name
    count = Q.shape[1]
    if (poles is None) == (weights is None):
        raise ControlError("give either poles=... or weights=...")
    if not count:
        raise ControlError(f"the inputs of {name!r} have no effect at this configuration, to first order.")
    if weights is not None:
        from scipy.linalg import solve_continuous_are

        A, B = Q.T @ loop.A @ Q, Q.T @ loop.B
        meaning = np.concatenate([loop.displacement, loop.velocity]) @ Q
        w, r = weights.vectors(loop.model)
        cost = meaning.T @ (w[:, None] * meaning) + 1e-9 * np.eye(count)
        P = solve_continuous_are(A, B, cost, np.diag(r))
        return ordered(np.linalg.eigvals(A - B @ ((B.T @ P) / r[:, None])))
    wanted = np.asarray(poles, dtype=complex)
    wanted = np.broadcast_to(wanted, (count,)).copy() if wanted.ndim == 0 else wanted
    if wanted.shape != (count,):
        held = f"; {len(loop.A) - count} further ones are fixed" if len(loop.A) > count else ""
        raise ControlError(
            f"the inputs of {name!r} determine {count} poles at this configuration{held}, got {wanted.size}."
        )
    if not np.all(np.isfinite(wanted)) or not np.all(np.real(wanted) < 0):
        raise ControlError(
            f"the requested poles must be finite with negative real parts, got {wanted[np.argmax(np.real(wanted))]}."
        )
    if np.max(np.abs(np.imag(np.poly(wanted)))) > 1e-9 * np.max(np.abs(np.poly(wanted))):
        raise ControlError(f"complex poles must come in conjugate pairs, got {wanted.tolist()}.")
    return ordered(wanted)


def paired(values: np.ndarray, requested: np.ndarray) -> np.ndarray:
    """The values paired with the nearest requested ones; clusters are replaced by their mean."""
    from scipy.optimize import linear_sum_assignment

    rows, columns = linear_sum_assignment(np.abs(requested[:, None] - values[None, :]))
    result = np.empty_like(values)
    result[rows] = values[columns]
    for pole in np.unique(np.round(requested, 9)):
        same = np.abs(requested - pole) < 1e-6 * np.abs(pole)
        count = np.sum(same)
        spread = np.max(np.abs(result[same] - np.mean(result[same])))
        # eigenvalues of a cluster of m scatter by the m-th root of rounding around their mean
        if count > 1 and spread < max(0.05, 3 * 1e-15 ** (1 / count)) * abs(pole):
            result[same] = np.mean(result[same])
    return result


@dataclass(frozen=True, eq=False)
class _Base:
    """Totals (3, n), centres (n, 3), scales of moments (3, n, 3) and lengths (n,) that the unknowns are relative to."""

    totals: Floats
    centers: Floats
    roots: Floats
    lengths: Floats

    @classmethod
    def of(cls, model: Model, bodies: Sequence[str], frequency: float) -> _Base:
        inertias = [model.description.inertias[b] for b in bodies]
        masses = np.array([float(numeric(model, m.mass)) for m in inertias])
        centers = np.array([numeric(model, m.com) for m in inertias])
        moments = np.array([np.diag(numeric(model, m.moment_at_com)) for m in inertias])
        # points and rods get a moment, too
        typical = np.max(moments) + np.max(masses) * np.max(np.sum(centers**2, axis=1), initial=0.0)
        moments = np.maximum(moments, 0.05 * np.max(moments, axis=1, keepdims=True) + 1e-3 * typical)
        masses = np.maximum(masses, 1e-3 * np.max(masses))
        factors = np.array([1.0, 2 * frequency, frequency**2])
        lengths = np.sqrt(np.max(moments, axis=1) / masses + np.sum(centers**2, axis=1))
        return cls(factors[:, None] * masses, centers, np.sqrt(factors[:, None, None] * moments), lengths)


class _Problem:
    """Least squares on the values of the characteristic polynomial."""

    def __init__(
        self,
        loop: LinearisedLoop,
        bodies: Sequence[str],
        base: _Base,
        others: Mapping[str, Moments],
        requested: np.ndarray,
    ) -> None:
        self.loop, self.base, self.requested = loop, base, requested
        self.count = len(bodies)
        pairs = [(WORLD, b) for b in bodies]
        self.jacobians = np.array([loop.jacobian(pair) for pair in pairs])  # (n, 6, nv)
        # (3, n, nx, 4, 4): deviations of the particles of inertia, damping and stiffness per x
        self.seen = np.swapaxes(np.array([loop.deviations(pair) for pair in pairs]), 0, 1)
        self.fixed = loop.mass_matrix(others)
        self.fixed_bias = loop.bias({(WORLD, b): m for b, m in others.items()}, "acceleration")
        mean = float(np.exp(np.mean(np.log(np.abs(requested)))))
        angles = np.linspace(0.0, 0.5 * np.pi, 5)
        radii = mean * np.array([0.3, 0.7, 1.5, 3.0])
        self.far = np.outer(radii, np.exp(1j * angles)).ravel()
        # around a pole of higher multiplicity more points, so that they determine p
        upper, counts = np.unique(np.round(requested[np.imag(requested) >= 0], 6), return_counts=True)
        self.near = np.concatenate([p + AROUND * abs(p) * _turns(2 + n) for p, n in zip(upper, counts, strict=True)])

    def distributions(self, x: Floats) -> list[list[tuple[float, Floats, Floats]]]:
        """Total, centre and moment about the centre of inertia, damping and stiffness (3), body by body (n)."""
        return [[self._distribution(x, k, i)[:3] for i in range(self.count)] for k in range(3)]

    def _distribution(self, x: Floats, k: int, i: int) -> tuple[float, Floats, Floats, Floats]:
        """Total, centre, moment about the centre and its root L."""
        y, b = x.reshape(3, self.count, NUMBERS)[k, i], self.base
        L = np.diag(np.exp(y[4:7]))
        L[LOWER] = y[7:]
        L = b.roots[k, i][:, None] * L
        return float(b.totals[k, i] * np.exp(y[0])), b.centers[i] + b.lengths[i] * y[1:4], L @ L.T, L

    def _slopes(self, x: Floats, k: int, i: int) -> Floats:
        """Derivatives (10, 6, 6) of the matrix of a distribution by its numbers."""
        t, c, _, L = self._distribution(x, k, i)
        w, length, slopes = so3.wed(c), self.base.lengths[i], np.zeros((NUMBERS, 6, 6))
        slopes[0] = _matrix(t, w, np.zeros((3, 3)))
        for j, e in enumerate(so3.wed(np.eye(3))):
            slopes[1 + j, :3, 3:], slopes[1 + j, 3:, :3] = -length * t * e, length * t * e
            slopes[1 + j, 3:, 3:] = -length * t * (e @ w + w @ e)
        for j, (row, column) in enumerate(((0, 0), (1, 1), (2, 2), *zip(*LOWER, strict=True))):
            root = np.zeros((3, 3))
            root[row, column] = L[row, row] if row == column else self.base.roots[k, i][row]
            slopes[4 + j, 3:, 3:] = root @ L.T + L @ root.T
        return slopes

    def _sums(self, x: Floats) -> tuple[Floats, Floats]:
        """M_bar (nv, nv) and C (nv, nx)."""
        M_bar, bias = self.fixed, self.fixed_bias
        for k, row in enumerate(self.distributions(x)):
            for i, (t, c, S) in enumerate(row):
                J, X = self.jacobians[i], _matrix(t, so3.wed(c), S)
                bias = bias + J.T @ se3.vee2(self.seen[k, i] @ moments_of(X)).T
                if k == 0:
                    M_bar = M_bar + J.T @ X @ J
        return M_bar, bias

    def gain(self, x: Floats) -> tuple[Floats, Floats]:
        M_bar, bias = self._sums(x)
        return self.loop.gain(M_bar, bias), M_bar

    def closed(self, x: Floats) -> Floats:
        """A + B F in the deviations that the inputs reach."""
        Q = self.loop.reached
        return Q.T @ (self.loop.A + self.loop.B @ self.gain(x)[0]) @ Q

    def values(self, x: Floats, points: np.ndarray) -> np.ndarray:
        """p(s) / p*(s) at points (m,)."""
        poles = np.linalg.eigvals(self.closed(x))
        return np.prod((points[:, None] - poles) / (points[:, None] - self.requested), axis=1)

    def residual(self, x: Floats, start: Floats, far: bool, stay: float) -> Floats:
        if far:
            ratio = self.values(x, self.far)
            wrong = np.log(np.where(np.abs(ratio) > 1e-12, ratio, 1e-12))
        else:
            wrong = self.values(x, self.near) - 1.0
        return np.concatenate([np.real(wrong), np.imag(wrong), stay * (x - start)])

    def jacobian(self, x: Floats, _start: Floats, far: bool, stay: float) -> Floats:
        """Derivative of the residual: d log p = -tr((s - A)^-1 dA) and H dF = -N^T (dMbar (a_x + N F) + dC)."""
        loop, points = self.loop, self.far if far else self.near
        F, M_bar = self.gain(x)
        Q, N = loop.reached, loop.directions
        closed = Q.T @ (loop.A + loop.B @ F) @ Q
        solved = np.linalg.solve(points[:, None, None] * np.eye(len(closed)) - closed, Q.T @ loop.B + 0j)
        Y = Q @ solved @ (np.linalg.pinv(N.T @ M_bar @ N, rcond=1e-12, hermitian=True) @ N.T)  # (m, nx, nv)
        slope = np.empty((len(points), 3, self.count, NUMBERS), dtype=complex)
        for i, J in enumerate(self.jacobians):
            back = Y @ J.T  # (m, nx, 6)
            for k in range(3):
                seen = self.seen[k, i] + (se3.wed((J @ (loop.by_x + N @ F)).T) if k == 0 else 0.0)
                forces = se3.vee2(seen[:, None] @ moments_of(self._slopes(x, k, i)))  # (nx, 10, 6)
                slope[:, k, i] = np.einsum("mxa,xja->mj", back, forces)
        slope = slope.reshape(len(points), -1)
        if not far:
            slope = self.values(x, points)[:, None] * slope
        return np.concatenate([np.real(slope), np.imag(slope), stay * np.eye(len(x))])

    def solved(self) -> Floats:
        """The best of several starts; the search ends when all poles are achieved."""
        from scipy.optimize import least_squares

        rng, best, least = np.random.default_rng(0), None, np.inf
        options: dict[str, Any] = {"method": "trf", "max_nfev": 300, "xtol": 1e-12, "ftol": 1e-12, "gtol": 1e-12}
        for k in range(STARTS):
            x = (0.6 if k else 0.0) * rng.standard_normal(3 * self.count * NUMBERS)
            for far, stay in ((True, 10 * STAY), (False, STAY), (False, 1e-3 * STAY)):
                x = least_squares(self.residual, x, jac=self.jacobian, args=(x, far, stay), **options).x  # pyright: ignore
            found = paired(np.linalg.eigvals(self.closed(x)), self.requested)
            error = float(np.max(np.abs(found - self.requested) / np.abs(self.requested)))
            error += 1e3 if np.max(np.real(found)) >= 0 else 0.0
            if error < least:
                best, least = x, error
            if least < 0.1 * MET:
                break
        if best is None:
            raise ControlError("no prototype was found: the closed loop is not finite from any start.")
        return best


def _turns(count: int) -> np.ndarray:
    """Points (count,) on the unit circle, none the conjugate of another."""
    return np.exp(2j * np.pi * (np.arange(count) + 0.36) / count)


def _matrix(t: float, w: Floats, S: Floats) -> Floats:
    """[[t I, t w^T], [t w, S - t w w]] (6, 6) with w = wed(c)."""
    return np.block([[t * np.eye(3), -t * w], [t * w, S - t * w @ w]])
