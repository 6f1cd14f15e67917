"""Derivatives of the forward dynamics in tangent coordinates and by parameters, by the implicit form.

The residual r(q, v, a, u) = M a + c + ... - B u vanishes on motions, so with the derivative d_i along the velocity coordinates (eq. 2.13)

    d a = -M^-1 (d_i r eps^i + dr/dv dv - B du),

which needs no derivative of a factorisation or recursion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from heavytop._arrays import Array, block, from_columns, jacobian, substitute, symbol, transpose
from heavytop.system.dynamics.articulated import inverse_dynamics
from heavytop.system.dynamics.solve import inverse_definite, product, solve_definite, symmetric
from heavytop.system.dynamics.tree_slopes import is_closed_form, rigid_slopes

if TYPE_CHECKING:
    from heavytop.system.expressions import Expressions


def acceleration_derivatives(e: Expressions) -> dict[str, Array]:
    """The acceleration a (nv,) and its derivatives with respect to eps (nv, nv), v (nv, nv) and u (nv, nu)."""
    a, n = e.acceleration(), e.nv
    (by_a, by_eps, by_v), B = force_slopes(e, a)
    if e.nu >= n:  # as many inputs as velocities: the inverse is a result, or nearly so
        inverse = inverse_definite(by_a)
        opposite = -inverse
        return {"a": a, "by_q": product(opposite, by_eps), "by_v": product(opposite, by_v), "by_u": inverse @ B}
    sides = [-by_eps, -by_v, B] if e.nu else [-by_eps, -by_v]
    solved = solve_definite(symmetric(by_a), np.concatenate(sides, axis=1))
    result = {"a": a, "by_q": solved[:, :n], "by_v": solved[:, n : 2 * n]}
    result["by_u"] = solved[:, 2 * n :] if e.nu else np.zeros((n, 0))
    return result


def parameter_derivatives(e: Expressions) -> Array:
    """Derivative (nv, np) of the acceleration by the parameters: -M^-1 dr/dp; with loops and constraints that of the constrained acceleration."""
    a = e.acceleration()
    if e.is_constrained or e.kinematics.transform is not None:
        return jacobian(a, e.p)
    residual = e.inverse_dynamics()
    if e.nu:
        residual = residual - np.matvec(e.dynamics.input_matrix, e.u)
    slopes = substitute(jacobian(residual, e.p), e.a, a)
    return solve_definite(e.dynamics.mass_matrix, -slopes)


def force_slopes(e: Expressions, a: Array) -> tuple[tuple[Array, Array, Array], Array]:
    """Derivatives (nv, nv) of the residual by a, along the velocity coordinates and by v at the acceleration ``a``; and the input matrix B.

    Those of the bodies are known in closed form (:mod:`heavytop.system.dynamics.tree_slopes`) unless a joint of the tree is too special; the rest
    is differentiated.
    """
    closed = is_closed_form(e.dynamics)
    residual = inverse_dynamics(e.dynamics, e.a, bodies=False) if closed else e.inverse_dynamics()
    B, n = e.dynamics.input_matrix, e.nv
    if e.nu:
        residual = residual - np.matvec(B, e.u)
    # q + A eps instead of q: one differentiation by eps gives d_i without forming derivatives by the redundant q
    eps = symbol("eps", n)
    moved = substitute(residual, e.q, e.q + np.matvec(e.kinematics.kinematics_matrix, eps))
    slopes = np.concatenate([jacobian(moved, e.a), jacobian(moved, eps), jacobian(moved, e.v)], axis=1)
    slopes = substitute(substitute(slopes, eps, np.zeros(n)), e.a, a)
    by_a, by_eps, by_v = (slopes[:, k * n : (k + 1) * n] for k in range(3))
    if closed:
        own = rigid_slopes(e.dynamics, a)
        by_a, by_eps, by_v = by_a + own[0], by_eps + own[1], by_v + own[2]
    return (by_a, by_eps, by_v), B


def linearization(e: Expressions) -> dict[str, Array]:
    """Matrices of x' = A x + B du for x = (eps, dv): displacement and velocity deviation in tangent coordinates.

    eps'^i = dv^i - gamma^i_kj v^k eps^j (eq. 2.24, erratum 0.10).
    """
    d, n = acceleration_derivatives(e), e.nv
    turning = transpose(from_columns(*(np.matvec(transpose(gamma), e.v) for gamma in e.kinematics.commutation)))
    A = block([[-turning, np.eye(n)], [d["by_q"], d["by_v"]]])
    B = np.concatenate([np.zeros((n, e.nu)), d["by_u"]], axis=0) if e.nu else np.zeros((2 * n, 0))
    return {"A": A, "B": B}
