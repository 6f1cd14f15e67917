"""Equilibria: inputs and configurations in balance with all acting forces; the space of equilibria; causes of imbalance.

The unknowns are a displacement delta along the joint velocities, the inputs u and the multipliers lam; the equations are those of
motion and of the loops at v = a = 0:

    f(q) - B(q) u - Phi(q)^T lam = 0,     phi(q) = 0.

Each step of Levenberg's method solves their exact linearisation in the sense of least squares, within the limits of the inputs, and with a
preference: for a small displacement, or for small inputs. The null space of the linearised equations is
the tangent space of the equilibria. A remaining residual is a generalised force that cannot be balanced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._arrays import Array, Floats
from heavytop._format import brief, counted
from heavytop.errors import ControlError, unknown_name
from heavytop.ocp import Limits

if TYPE_CHECKING:
    from heavytop.system import Model

STEPS = 100
ROUNDING = 1e-15
"""Displacement, in rad or relative to the lengths of the model, that rounding explains: no float is closer to a half turn than pi."""
HELD = 1e-8
"""Residual, as a share of the forces or of the size of the loops, that counts as balanced."""
RANK = 1e-7
"""Singular values below this share of the largest count as zero."""
RELUCTANT = 1e-3
"""Size of a step in quantities that should stay, relative to one in the others."""


@dataclass(frozen=True, eq=False)
class Equilibrium:
    """An equilibrium, or the nearest state to one.

    Attributes
    ----------
    q : (nq,), u : (nu,), multipliers : (m,) reactions of loops and constraints.
    left : (nv,) unbalanced generalised force; zero if ``is_held``.
    is_held : whether the model rests there.
    space : (k, nw + nu) orthonormal tangent directions of the equilibria nearby: displacements along joint velocities, changes of inputs.
    at_limit : names of the inputs at a limit. names : (nw + nu,) of the columns of ``space``. v_names : (nv,) of ``left``.
    reasons : unbalanced forces and their causes, as text.

    Examples
    --------
    >>> import heavytop as ht
    >>> found = equilibrium(ht.library.pendulum().derive(native=False), [0.1], prefer="inputs")
    >>> isinstance(found, Equilibrium), found.reasons
    (True, ())
    """

    q: Floats
    u: Floats
    multipliers: Floats
    left: Floats
    is_held: bool
    space: Floats
    at_limit: tuple[str, ...]
    names: tuple[str, ...]
    v_names: tuple[str, ...]
    reasons: tuple[str, ...]

    def __repr__(self) -> str:
        nearby = f", {counted(len(self.space), 'direction')} of others nearby" if self.is_held else ""
        return f"Equilibrium({'held' if self.is_held else 'not held'}: q={brief(self.q)}, u={brief(self.u)}{nearby})"

    def report(self) -> str:
        """Inputs, tangent directions of the equilibria, and unbalanced forces."""
        u_names = self.names[len(self.names) - len(self.u) :]
        rows = [f"{name} = {value:.6g}" for name, value in zip(u_names, self.u, strict=True)]
        rows += [f"{name} is at its limit" for name in self.at_limit]
        rows += ["held" if self.is_held else "not held", *self.reasons]
        if self.is_held:
            rows.append(
                f"{counted(len(self.space), 'direction')} of equilibria{':' if len(self.space) else ': isolated'}"
            )
            rows += [f"  {_combination(direction, self.names)}" for direction in self.space]
        return "\n".join(rows)


def equilibrium(
    model: Model,
    q: Array | None = None,
    u: Array | None = None,
    *,
    fixed: Sequence[str] = (),
    limits: Limits | tuple[Any, Any] | None = None,
    prefer: str = "configuration",
    parameters: Mapping[str, Any] | None = None,
) -> Equilibrium:
    """Find inputs and a configuration at rest near a guess.

    Parameters
    ----------
    model : a derived model.
    q, u : guess (nq,), (nu,); None: the neutral configuration, no input.
    fixed : joints that keep their position in the guess.
    limits : limits of the inputs, pair or :class:`.Limits`.
    prefer : "configuration" moves q as little as possible; "inputs" moves it to reduce the inputs.

    Examples
    --------
    >>> import heavytop as ht
    >>> found = equilibrium(ht.library.quadcopter().derive(native=False))
    >>> found.is_held, found.u.round(3).tolist(), len(found.space)
    (True, [2.207, 2.207, 2.207, 2.207], 4)
    >>> equilibrium(ht.library.cart_pole().derive(native=False), [0.0, 0.5], fixed=("theta",)).is_held
    False
    """
    if prefer not in ("configuration", "inputs"):
        raise ControlError(f"prefer must be 'configuration' or 'inputs', got {prefer!r}.")
    return _Search(model, fixed, limits, prefer, parameters).run(q, u)


class _Search:
    def __init__(self, model: Model, fixed: Sequence[str], limits: Any, prefer: str, parameters: Any) -> None:
        if model.expressions.is_driven:
            raise ControlError(f"{model.name!r} is driven by constraints or time: it is never at rest.")
        if model.description.has_reaction_friction:
            raise ControlError(
                f"{model.name!r} has friction that depends on reactions: every configuration nearby is at rest."
            )
        self.model, self.p = model, model.parameter_vector(parameters)
        given = Limits.of(limits)
        free = np.full(model.nu, np.inf)
        self.bounds = (-free, free) if given is None else given.bounds(model)
        self.limited = given is not None
        held = np.zeros(model.coordinates.nv, dtype=bool)
        labels = tuple(model.coordinates.names or ())
        for name in fixed:
            if name not in labels:
                raise unknown_name("joint (the name of the body it carries)", name, labels)
            held[model.coordinates.v_slice(name)] = True
        self.movable = np.nonzero(~held)[0]
        self.turns = np.array([unit != "m/s" for unit in model.coordinates.v_units])[self.movable]
        self.rows = model.traced("constraint_jacobian").outputs["constraint_jacobian"][0] if model.is_constrained else 0
        self.places, self.pushes = (RELUCTANT, 1.0) if prefer == "configuration" else (1.0, RELUCTANT)
        self.stays = prefer == "configuration"

    def _call(self, name: str, *arguments: Any) -> Any:
        return self.model.traced(name)(*arguments, self.p)

    def measure(self, q: Floats, u: Floats) -> None:
        """Scales of unknowns and equations: lengths of the model and forces at the guess.

        Forces times the sizes of their velocities are moments, whose largest is the scale of inputs and reactions.
        """
        m = self.model
        joints, self.sizes = (self._call(name, q)[0] for name in ("joint_sizes", "velocity_sizes"))
        self.lengths = joints[self.movable]
        rows = self._call("row_sizes", q)[0] if self.rows else np.zeros(0)
        weights = np.divide(1.0, rows, out=np.zeros_like(rows), where=rows > 0.0)
        self.weights = weights[m.holonomic_rows] if self.rows else weights
        B = self._call("input_matrix", q)[0] if m.nu else np.zeros((m.nv, 0))
        levers = np.max(np.abs(B) * self.sizes[:, None], axis=0, initial=0.0)
        force, push = self._call("inverse_dynamics", q, np.zeros(m.nv), np.zeros(m.nv))[0], np.abs(B) @ np.abs(u)
        largest = float(np.max(np.maximum(np.abs(force), push) * self.sizes, initial=0.0))
        slopes = self._call("tangent_slopes", q, np.zeros(m.nv), u, np.zeros(m.nv), np.zeros(self.rows))[0]
        stiff = np.max(np.abs(slopes[:, self.movable]) * self.sizes[:, None] * self.lengths, initial=0.0)
        self.scale = max(largest, float(stiff)) or 1.0
        self.reach = np.concatenate(
            [
                self.places * self.lengths,
                self.pushes * self.scale / np.where(levers > 0.0, levers, 1.0),
                self.scale * np.where(rows > 0.0, weights, 1.0),
            ]
        )

    def equations(self, q: Floats, u: Floats, lam: Floats) -> tuple[Floats, Floats, Floats]:
        """The residual (nv + k,), its derivative with respect to the unknowns, and the sizes of its terms."""
        m, rest = self.model, np.zeros(self.model.nv)
        force = self._call("inverse_dynamics", q, rest, rest)[0]
        B = self._call("input_matrix", q)[0] if m.nu else np.zeros((m.nv, 0))
        H, Phi, _ = self._call("tangent_rows", q, rest)
        slopes = self._call("tangent_slopes", q, rest, u, rest, lam)[0]
        left = force - B @ u - Phi.T @ lam
        terms = np.abs(np.stack([force, B @ u, Phi.T @ lam])) * self.sizes
        scale = float(np.max(terms, initial=0.0))
        scale = max(scale, ROUNDING / HELD * self.scale) if scale else self.scale
        size = scale / self.sizes
        J = np.concatenate([slopes[:, self.movable], -B, -Phi.T], axis=1)
        if not len(H):
            return left, J, size
        weights = self.weights if m.is_constrained else np.ones(len(H))
        gap = weights * self._call("position_residual", q)[0] if m.is_constrained else np.zeros(len(H))
        below = np.concatenate([weights[:, None] * H[:, self.movable], np.zeros((len(H), m.nu + self.rows))], axis=1)
        return (
            np.concatenate([left, scale * gap]),
            np.concatenate([J, scale * below]),
            np.concatenate([size, np.full(len(H), scale)]),
        )

    def run(self, q: Any, u: Any) -> Equilibrium:
        m = self.model
        place = m.neutral() if q is None else m.coordinates.check(q, "q")
        push = np.clip(np.zeros(m.nu) if u is None else np.asarray(u, dtype=float), *self.bounds)
        lam, damping = np.zeros(self.rows), 1e-6
        self.measure(place, push)
        if self.stays:
            push, lam = self._in_place(place, push, lam)
        left, J, size = self.equations(place, push, lam)
        start = size
        cost = float(np.sum((left / start) ** 2))
        for _ in range(STEPS):
            if np.all(np.abs(left) <= 0.01 * HELD * size):
                break
            step = self._step(J / start[:, None], left / start, damping, push, self.reach)
            moved = self._moved(place, push, lam, step)
            trial, slopes, new = self.equations(*moved)
            value = float(np.sum((trial / start) ** 2))
            if value < cost:
                small = np.max(np.abs(step / self.reach)) < 1e-13
                (place, push, lam), left, J, damping = moved, trial, slopes, max(0.2 * damping, 1e-14)
                size = np.maximum(size, new)
                self._lengthen(step)
                if small or cost - value < 1e-14 * cost:
                    break
                cost = value
            elif damping > 1e6:
                break
            else:
                damping *= 5.0
        return self._result(place, push, lam, left, J, size)

    def _lengthen(self, step: Floats) -> None:
        """Scale translations by the largest displacement so far: a small body on a long rail moves farther than its own length."""
        n = len(self.movable)
        self.lengths = np.where(self.turns, self.lengths, np.maximum(self.lengths, np.abs(step[:n])))
        self.reach = np.concatenate([self.places * self.lengths, self.reach[n:]])

    def _in_place(self, q: Floats, u: Floats, lam: Floats) -> tuple[Floats, Floats]:
        """Inputs and reactions that hold q, if they exist; otherwise the given ones.

        A step in q as well would move it even from an exact guess, as that reduces the inputs.
        """
        n, nu = len(self.movable), self.model.nu
        reach = np.concatenate([np.zeros(n), self.reach[n:]])
        push, reaction = u, lam
        for damping in (1e-12, 1e-14):  # linear equations: the second step removes the error of the damping
            left, J, size = self.equations(q, push, reaction)
            step = self._step(J / size[:, None], left / size, damping, push, reach)
            push, reaction = np.clip(push + step[n : n + nu], *self.bounds), reaction + step[n + nu :]
        left, _, size = self.equations(q, push, reaction)
        return (push, reaction) if np.all(np.abs(left) <= 0.01 * HELD * size) else (u, lam)

    def _step(self, J: Floats, left: Floats, damping: float, push: Floats, reach: Floats) -> Floats:
        """Levenberg's step, the inputs within their limits."""
        matrix = np.concatenate([J * reach, np.sqrt(damping) * np.eye(len(reach))])
        right = np.concatenate([-left, np.zeros(len(reach))])
        if not self.limited:
            return reach * np.linalg.lstsq(matrix, right, rcond=None)[0]
        from scipy.optimize import lsq_linear

        low, high = np.full(len(reach), -np.inf), np.full(len(reach), np.inf)
        inputs = slice(len(self.movable), len(self.movable) + self.model.nu)
        low[inputs], high[inputs] = ((side - push) / reach[inputs] for side in self.bounds)
        slack = 1e-12 * (1.0 + np.abs(push) / reach[inputs])  # keeps equal limits apart
        low[inputs] -= slack
        high[inputs] += slack
        return reach * lsq_linear(matrix, right, bounds=(low, high), method="bvls").x

    def _moved(self, q: Floats, u: Floats, lam: Floats, step: Floats) -> tuple[Floats, Floats, Floats]:
        delta = np.zeros(self.model.coordinates.nv)
        n, nu = len(self.movable), self.model.nu
        delta[self.movable] = step[:n]
        size = np.max(np.abs(step[:n]), initial=0.0, where=self.turns)
        delta *= min(1.0, 0.5 / size) if size else 1.0  # at most half a radian
        push = np.clip(u + step[n : n + nu], *self.bounds)
        return self.model.coordinates.retract(q, delta), push, lam + step[n + nu :]

    def _result(self, q: Floats, u: Floats, lam: Floats, left: Floats, J: Floats, size: Floats) -> Equilibrium:
        m, nw, n = self.model, self.model.coordinates.nv, len(self.movable)
        held = bool(np.all(np.abs(left) <= HELD * size))
        low, high = self.bounds
        at_limit = (u <= low) | (u >= high)
        keep = np.concatenate([np.ones(n, dtype=bool), ~at_limit, np.ones(self.rows, dtype=bool)])
        pure = self.reach / np.concatenate([np.full(n, self.places), np.full(m.nu, self.pushes), np.ones(self.rows)])
        _, s, Vt = np.linalg.svd(J[:, keep] * pure[keep] / size[:, None])
        rank = int(np.sum(s > RANK * max(s[0], 1e-300))) if len(s) else 0
        whole = np.zeros((len(Vt) - rank, nw + m.nu + self.rows))
        columns = np.concatenate([self.movable, nw + np.arange(m.nu), nw + m.nu + np.arange(self.rows)])[keep]
        whole[:, columns], sizes = Vt[rank:], np.ones(whole.shape[1])
        sizes[columns] = pure[keep]
        space = _orthonormal(whole[:, : nw + m.nu], sizes[: nw + m.nu])
        names = (*(f"along {name}" for name in m.coordinates.v_names), *m.u_names)
        stays = tuple(name for name, yes in zip(m.u_names, at_limit, strict=True) if yes)
        reasons = () if held else self._reasons(left, J, size, bool(stays))
        return Equilibrium(q, u, lam, np.where(held, 0.0, left[: m.nv]), held, space, stays, names, m.v_names, reasons)

    def _reasons(self, left: Floats, J: Floats, size: Floats, limited: bool) -> tuple[str, ...]:
        """Unbalanced forces along velocity coordinates, and their causes."""
        m, reasons = self.model, []
        if np.any(np.abs(left[m.nv :]) > HELD * size[m.nv :]):
            reasons.append("the loops do not close near the guess: see model.assemble(guess)")
        for k in np.argsort(-np.abs(left[: m.nv])):
            if abs(left[k]) <= HELD * size[k] or len(reasons) == 4:
                break
            helped = np.max(np.abs(J[k] * self.reach), initial=0.0) > RANK * size[k]
            why = "no input, reaction or free displacement acts there"
            if helped:
                why = "the inputs are at their limits" if limited else "the forces that act there are needed elsewhere"
            unit = "N" if "v_" in m.v_names[k] else "N m"
            reasons.append(f"{left[k]:.4g} {unit} is unbalanced along {m.v_names[k]!r}: {why}")
        return tuple(reasons)


def _orthonormal(rows: Floats, sizes: Floats) -> Floats:
    """An orthonormal basis of the span of rows whose columns are scaled by ``sizes``."""
    if not len(rows):
        return rows
    _, s, Vt = np.linalg.svd(rows, full_matrices=False)
    basis = Vt[s > RANK * max(s[0], 1e-300)] if len(s) else rows[:0]
    basis = np.linalg.svd(basis * sizes, full_matrices=False)[2] if len(basis) else basis
    return basis * np.sign(basis[np.arange(len(basis)), np.argmax(np.abs(basis), axis=1)])[:, None]


def _combination(direction: Floats, names: Sequence[str]) -> str:
    large = np.max(np.abs(direction))
    parts = [f"{x / large:+.3g} {name}" for x, name in zip(direction, names, strict=True) if abs(x) > 1e-3 * large]
    return ", ".join(parts)
