"""Commutation and connection coefficients of a system in any velocity coordinates."""

from __future__ import annotations

import numpy as np

from heavytop._arrays import Array, column, directional, from_columns, is_symbolic, matrix, sparse, transpose
from heavytop.errors import ModelError
from heavytop.system.dynamics.equation_terms import EquationTerms
from heavytop.system.dynamics.solve import inverse_of_map
from heavytop.system.kinematics.kinematics import Kinematics


def commutation(kinematics: Kinematics) -> tuple[Array, ...]:
    """gamma^k_ij as nv matrices [k][i, j] (eqs 2.17-2.19).

    For velocities v = T(q) w the coefficients of the joints' own blocks transform by
    gamma'^k_ij = W^k_s (gamma^s_ab T_i^a T_j^b + d_i T_j^s - d_j T_i^s) with W = T^-1.
    """
    own = kinematics.coordinates.commutation(kinematics.q)
    T = sparse(
        np.concatenate([kinematics.relative_rows(e.label) for e in kinematics.edges if e.joint.coordinates.nv], axis=0)
    )
    T = T if kinematics.transform is None else T @ kinematics.transform
    if not is_symbolic(own[0]) and _is_identity(T):
        return tuple(own)
    n, A = kinematics.nv, kinematics.kinematics_matrix
    if T.shape[0] != n:
        raise ModelError(
            "a basis of constrained velocities has no commutation coefficients: its directions may leave their own span."
        )
    rates = [directional(T, kinematics.q, column(A, i)) for i in range(n)]  # rates[i][s, j] = d_i T_j^s
    W = inverse_of_map(T)
    raw = []
    for s in range(n):
        bent = transpose(T) @ own[s] @ T
        slopes = matrix([[rates[i][s, j] for j in range(n)] for i in range(n)])
        raw.append(bent + slopes - transpose(slopes))
    return tuple(sum(W[k, s] * raw[s] for s in range(n)) for k in range(n))


def _is_identity(T: Array) -> bool:
    import casadi

    return bool(casadi.is_equal(casadi.densify(T.to_casadi()), casadi.SX.eye(T.shape[0]), 1))


def connection(dynamics: EquationTerms) -> tuple[Array, ...]:
    """Gamma_ijk as nv matrices [k][i, j]: sum_b J^T (M_b d_k J + Gamma_b(J_k) J) (eq. 3.112, erratum 0.38)."""
    dynamics.need_rest("connection")
    kinematics = dynamics.kinematics
    A = kinematics.kinematics_matrix

    def along(k: int) -> Array:
        total = np.zeros((dynamics.nv, dynamics.nv))
        for t in dynamics.inertia_terms:
            J = t.jacobian
            change = t.matrix @ directional(J, kinematics.q, column(A, k)) + t.connection(column(J, k)) @ J
            total = total + transpose(J) @ change
        return total

    return tuple(along(k) for k in range(dynamics.nv))


def stacked_last(matrices: tuple[Array, ...]) -> Array:
    """Matrices [k][i, j] as one flat vector in the order of an array [i, j, k]."""
    columns = [np.reshape(m, (m.shape[0] * m.shape[1],)) for m in matrices]
    return np.reshape(from_columns(*columns), (len(columns) * columns[0].shape[0],))


def stacked_first(matrices: tuple[Array, ...]) -> Array:
    """Matrices [k][i, j] as one flat vector in the order of an array [k, i, j]."""
    rows = [np.reshape(m, (m.shape[0] * m.shape[1],)) for m in matrices]
    return np.reshape(transpose(from_columns(*rows)), (len(rows) * rows[0].shape[0],))
