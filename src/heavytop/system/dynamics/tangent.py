"""Linear equations about a motion with loops, velocity constraints or a basis, in minimal tangent coordinates.

States that satisfy phi(q) = 0 and Phi(q) v + b(q) = 0 are a manifold. A displacement delta in the joints' own velocity coordinates
(q o exp(delta)) and a deviation dv of the velocity coordinates are tangent to it if

    H delta = 0,     Phi dv + R delta = 0,     H = d phi/d delta,  R = d(Phi v + b)/d delta.

The minimal coordinates are the deviations of independent coordinates (Wehage and Haug 1982): xi = those of delta, eta = those of dv that are
left when H and Phi are solved for the others. So delta = D xi and dv = N eta + K xi, where the rows of D and N that belong to the independent
ones are those of the identity, and K has zeros there: D and N are bases of the null spaces of H and Phi. As the choice does not change with
time, neither do these rows, and the linear equations hold along motions too.

Accelerations come from the residuals r = M a + c + ... - B u - Phi^T lam = 0 and s = Phi a + d/dt(Phi) v + d/dt(b) = 0 by implicit differentiation;
the multipliers drop out when r is projected on the null space of Phi.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._arrays import Array, as_array, concatenate, from_columns, jacobian, shape, substitute, symbol, transpose
from heavytop.errors import ConfigurationError, ModelError, unknown_name
from heavytop.system.constraints.constraints import loop_rows
from heavytop.system.constraints.scaling import scaled_pseudo_inverse
from heavytop.system.dynamics.articulated import inverse_dynamics
from heavytop.system.dynamics.sparse_ldl import RANK_TOLERANCE
from heavytop.system.dynamics.tree_slopes import is_closed_form, rigid_slopes

if TYPE_CHECKING:
    from heavytop.system.expressions import Expressions
    from heavytop.system.model import Model

DEPENDENT = RANK_TOLERANCE**0.5
"""Share of the largest below which a pivot counts as zero, as in the elimination at run time."""

TIE = 1e-8
"""Relative difference of two pivots below which their order decides, not their rounding."""

RESTS = 1e-6
"""Accelerations in m/s^2 or rad/s^2 that count as zero, and displacements in m or rad from a rest, such as pi typed with seven digits."""


class NotAtRestWarning(UserWarning):
    """A model was linearised about a configuration where it does not stay without inputs, and none were given.

    >>> issubclass(NotAtRestWarning, UserWarning)
    True
    """


def warn_if_not_at_rest(model: Model, q: np.ndarray, p: np.ndarray, A: np.ndarray) -> None:
    """Warn if the model, with the slopes A (..., nx, nx), does not rest at q (..., nq) without inputs; only the first of a batch is checked."""
    if not A.size:
        return
    place, numbers = q[(0,) * (q.ndim - 1)], p[(0,) * (p.ndim - 1)]
    a = model.traced("acceleration")(place, np.zeros(model.nv), np.zeros(model.nu), numbers)[0]
    k = int(np.argmax(np.abs(a)))
    if abs(a[k]) > RESTS * max(1.0, float(np.max(np.abs(A[(0,) * (A.ndim - 2)])))):
        warnings.warn(
            f"linearize was given no inputs for {model.name!r}, which does not rest at q without them: {model.v_names[k]!r} changes by "
            f"{a[k]:.3g} per second. Pass the inputs that hold it, u=control.equilibrium(model, q).u, or u=np.zeros(model.nu) for none.",
            NotAtRestWarning,
            stacklevel=3,
        )


@dataclass(frozen=True, eq=False)
class MinimalTangent:
    """Minimal coordinates x = (xi, eta) of the deviations from a state.

    Attributes
    ----------
    places, velocities : indices of the independent entries of delta (nw,) and of dv (nv,).
    D : (..., nw, len(places)) with delta = D xi. N : (..., nv, len(velocities)) and K : (..., nv, len(places)) with dv = N eta + K xi.
    names : names of the entries of x: displacements along velocities of joints, then deviations of velocities.

    Examples
    --------
    >>> import heavytop as ht
    >>> skate = ht.library.skate(minimal=False).derive(native=False)
    >>> skate.minimal_tangent([0.0, 0.0, 0.0]).names
    ('along skate.position.v_x', 'along skate.position.v_y', 'along skate.angle.rate', 'skate.position.v_x', 'skate.angle.rate')
    """

    places: tuple[int, ...]
    velocities: tuple[int, ...]
    D: np.ndarray
    N: np.ndarray
    K: np.ndarray
    names: tuple[str, ...]

    @property
    def size(self) -> int:
        """Length of x."""
        return len(self.places) + len(self.velocities)


def rows(e: Expressions) -> dict[str, Array]:
    """H (k, nw), Phi (m, nv) and R (m, nw) of the tangent states; with a basis Phi and R have no rows."""
    along = _along(e)
    phi = _position_residual(e)
    H = along(phi) if shape(phi)[0] else np.zeros((0, e.coordinates.nv))
    if not e.is_constrained:
        return {"H": H, "Phi": np.zeros((0, e.nv)), "R": np.zeros((0, e.coordinates.nv))}
    return {"H": H, "Phi": e.constrained.Phi, "R": along(e.constrained.velocity_residual)}


def slopes(e: Expressions) -> dict[str, Array]:
    """Derivatives by delta and v of the residuals r and s at given a and lam, and of the rates of delta; r_a is the mass matrix.

    The rate of delta is dw - gamma(w) delta for the joint velocities w (eq. 2.24, erratum 0.10).
    """
    along, w = _along(e), e.joint_velocity()
    closed = is_closed_form(e.dynamics)  # then the bodies' share is known without differentiation
    r = inverse_dynamics(e.dynamics, e.a, bodies=False) if closed else e.inverse_dynamics()
    r = r - e.dynamics.input_force(e.u)
    s = np.zeros(0)
    if e.is_constrained:
        c = e.constrained
        r = r - e.dynamics.nonideal_force - np.matvec(transpose(c.Phi), e.lam)
        s = np.matvec(c.Phi, e.a) + concatenate(*(part.bias for part in c.rows))
    turning = transpose(from_columns(*(np.matvec(transpose(g), w) for g in e.coordinates.commutation(e.q))))
    result = {"r_delta": along(r), "r_v": jacobian(r, e.v), "w_delta": along(w) - turning, "w_v": jacobian(w, e.v)}
    if e.is_constrained:
        result |= {"s_delta": along(s), "s_v": jacobian(s, e.v)}
    else:
        result |= {"s_delta": np.zeros((0, e.coordinates.nv)), "s_v": np.zeros((0, e.nv))}
    result["r_a"] = jacobian(r, e.a)
    if closed:
        for name, own in zip(("r_a", "r_delta", "r_v"), rigid_slopes(e.dynamics, e.a), strict=True):
            result[name] = result[name] + own
    return result


def _along(e: Expressions) -> Callable[[Array], Array]:
    """Derivative of a vector by delta: q + A delta instead of q, with A of the joints' own blocks."""
    delta, A = symbol("delta", e.coordinates.nv), e.coordinates.kinematics_matrix(e.q)

    def derivative(value: Array) -> Array:
        moved = substitute(value, e.q, e.q + np.matvec(A, delta))
        return substitute(jacobian(moved, delta), delta, np.zeros(e.coordinates.nv))

    return derivative


def _position_residual(e: Expressions) -> Array:
    """phi(q) of loops and holonomic constraints, also where a basis takes care of them."""
    if e.is_constrained:
        return e.constrained.position_residual
    parts = [loop_rows(loop, e.kinematics).phi for loop in e.description.loops]
    parts += [np.reshape(as_array(c.function(e.q)), (-1,)) for c in e.description.constraints if c.holonomic]
    return concatenate(*(part for part in parts if part is not None)) if parts else np.zeros(0)


# --- numbers ------------------------------------------------------------------------------------------------------------


def minimal_tangent(
    model: Model, q: np.ndarray, v: np.ndarray, parameters: Any, independent: Sequence[str]
) -> MinimalTangent:
    """Minimal coordinates of the deviations from states (..., nq), (..., nv); all states of a batch share the choice."""
    if model.description.has_reaction_friction:
        raise ModelError(
            f"{model.name!r} has friction that depends on reactions, which has no derivative where they or the velocity vanish: it cannot be "
            "linearised."
        )
    H, Phi, R = model.evaluate("tangent_rows", q, v, parameters=parameters)
    wanted = _wanted(model, independent)
    joints, columns, rows, holonomic = sizes(model, q, parameters)
    places, D = null_space(model, H, wanted, holonomic, joints)
    same = model.nv == model.coordinates.nv
    velocities, N = null_space(model, Phi, wanted if same else (), rows, columns)
    dependent = [k for k in range(model.nv) if k not in velocities]
    K = np.zeros((*Phi.shape[:-2], model.nv, len(places)))
    if dependent:
        K[..., dependent, :] = -scaled_pseudo_inverse(Phi[..., dependent], rows, columns[dependent], DEPENDENT) @ (
            R @ D
        )
    names = [f"along {model.coordinates.v_names[k]}" for k in places] + [model.v_names[k] for k in velocities]
    return MinimalTangent(places, velocities, D, N, K, tuple(names))


def _wanted(model: Model, independent: Sequence[str]) -> tuple[int, ...]:
    """Indices of the velocities of the joints requested as independent."""
    labels = tuple(model.coordinates.names or ())
    found: list[int] = []
    for label in independent:
        if label not in labels:
            raise unknown_name("joint (the name of the body it carries)", label, labels)
        found += range(model.coordinates.nv)[model.coordinates.v_slice(label)]
    return tuple(found)


def sizes(model: Model, q: np.ndarray, parameters: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Sizes of the joints' velocities (nw,), the velocity coordinates (nv,), the rows of Phi (m,) and of H (k,), at the first state of a batch."""
    names = ("joint_sizes", "velocity_sizes", *(["row_sizes"] if model.is_constrained else []))
    found = [model.evaluate(name, q, parameters=parameters) for name in names]
    joints, velocities, *more = (x.reshape(-1, x.shape[-1])[0] for x in found)
    if more:
        return joints, velocities, more[0], more[0][model.holonomic_rows]
    held = model.traced("tangent_rows").outputs["H"][0]
    return joints, velocities, np.zeros(0), np.ones(held)  # a basis takes care of them


def null_space(
    model: Model, matrix: np.ndarray, wanted: Sequence[int], rows: np.ndarray, columns: np.ndarray
) -> tuple[tuple[int, ...], np.ndarray]:
    """Independent columns of (..., m, n), and the basis (..., n, f) of the null space that is the identity in their rows.

    The columns are chosen at the first state: those solved for are the pivots of a QR decomposition, after the wanted ones were set aside.
    ``rows`` (m,) and ``columns`` (n,) are sizes, which make the choice one of pure numbers.
    """
    from scipy.linalg import qr

    n = matrix.shape[-1]
    if not matrix.shape[-2]:
        return tuple(range(n)), np.broadcast_to(np.eye(n), (*matrix.shape[:-2], n, n))
    matrix = np.divide(1.0, rows, out=np.zeros_like(rows), where=rows > 0.0)[:, None] * matrix * columns
    first = matrix.reshape(-1, *matrix.shape[-2:])[0]
    rank = int(np.sum(np.linalg.svd(first, compute_uv=False) > DEPENDENT * max(np.max(np.abs(first)), 1e-300)))
    others = [k for k in range(n) if k not in wanted]
    # equal columns, as of a symmetric mechanism, are solved for from the last on, whatever their rounding
    factors: Any = qr(first[:, others] * (1.0 + TIE * np.arange(len(others))), mode="economic", pivoting=True)
    _, triangle, order = factors
    pivots = np.abs(np.diag(triangle))[:rank]
    if len(pivots) < rank or not np.all(pivots > DEPENDENT * max(np.max(np.abs(first)), 1e-300)):
        raise ConfigurationError(
            f"the joints chosen as independent in {model.name!r} cannot all be chosen freely there: the constraints bind them. Name fewer."
        )
    dependent = sorted(others[k] for k in order[:rank])
    free = [k for k in range(n) if k not in dependent]
    solved = matrix[..., dependent]
    sizes = np.linalg.svd(solved, compute_uv=False)
    if rank and not np.all(sizes[..., rank - 1] > DEPENDENT * sizes[..., 0]):
        raise ConfigurationError(
            f"no choice of independent coordinates of {model.name!r} serves all these states: at one of them the constraints bind coordinates "
            "that are free at the first. Linearise them one by one, or name the joints that are independent."
        )
    basis = np.zeros((*matrix.shape[:-2], n, len(free)))
    basis[..., free, range(len(free))] = 1.0
    if rank:
        basis[..., dependent, :] = -np.linalg.pinv(solved, rcond=DEPENDENT) @ matrix[..., free]
        basis *= columns[:, None] / columns[free]
    return tuple(free), basis


def acceleration_derivatives(
    model: Model, q: np.ndarray, v: np.ndarray, u: np.ndarray, parameters: Any, tangent: MinimalTangent
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """The acceleration (..., nv) and its derivatives with respect to xi, eta and u."""
    a = model.evaluate("acceleration", q, v, u, parameters=parameters)
    parts = _slopes(model, q, v, u, a, parameters)
    by_q, by_v, by_u = _implicit(model, q, parts, parameters, tangent)
    return a, by_q, by_v, by_u


def linearization(
    model: Model, q: np.ndarray, v: np.ndarray, u: np.ndarray, parameters: Any, tangent: MinimalTangent
) -> tuple[np.ndarray, np.ndarray]:
    """A (..., nx, nx) and B (..., nx, nu) of x' = A x + B du for x = (xi, eta)."""
    a = model.evaluate("acceleration", q, v, u, parameters=parameters)
    parts = _slopes(model, q, v, u, a, parameters)
    by_q, by_v, by_u = _implicit(model, q, parts, parameters, tangent)
    moved = parts["w_delta"] @ tangent.D + parts["w_v"] @ tangent.K
    rates = np.concatenate([moved, parts["w_v"] @ tangent.N], axis=-1)[..., tangent.places, :]
    A = np.concatenate([rates, np.concatenate([by_q, by_v], axis=-1)[..., tangent.velocities, :]], axis=-2)
    still = np.zeros((*by_u.shape[:-2], len(tangent.places), model.nu))
    return A, np.concatenate([still, by_u[..., tangent.velocities, :]], axis=-2)


def _slopes(
    model: Model, q: np.ndarray, v: np.ndarray, u: np.ndarray, a: np.ndarray, parameters: Any
) -> dict[str, np.ndarray]:
    lam = np.zeros(0)
    if model.is_constrained:
        lam = model.evaluate("multipliers", q, v, u, parameters=parameters)
    values = model.evaluate("tangent_slopes", q, v, u, a, lam, parameters=parameters)
    return dict(zip(("r_delta", "r_v", "w_delta", "w_v", "s_delta", "s_v", "r_a"), values, strict=True))


def _implicit(
    model: Model, q: np.ndarray, parts: dict[str, np.ndarray], parameters: Any, tangent: MinimalTangent
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Derivatives of the acceleration by xi, eta and u from d r = 0 and d s = 0."""
    M = parts["r_a"]
    r = [parts["r_delta"] @ tangent.D + parts["r_v"] @ tangent.K, parts["r_v"] @ tangent.N]
    s = [parts["s_delta"] @ tangent.D + parts["s_v"] @ tangent.K, parts["s_v"] @ tangent.N]
    r.append(-model.evaluate("input_matrix", q, parameters=parameters) if model.nu else np.zeros((*M.shape[:-1], 0)))
    s.append(np.zeros((*parts["s_v"].shape[:-1], model.nu)))
    N = tangent.N
    metric = np.swapaxes(N, -1, -2) @ M @ N
    inverse = None
    if parts["s_v"].shape[-2]:
        _, columns, rows, _ = sizes(model, q, parameters)
        inverse = scaled_pseudo_inverse(
            model.evaluate("constraint_jacobian", q, parameters=parameters), rows, columns, DEPENDENT
        )
    found = []
    for force, bend in zip(r, s, strict=True):
        bound = np.zeros_like(force) if inverse is None else -inverse @ bend
        free = np.linalg.solve(metric, np.swapaxes(N, -1, -2) @ (-force - M @ bound))
        found.append(bound + N @ free)
    return found[0], found[1], found[2]
