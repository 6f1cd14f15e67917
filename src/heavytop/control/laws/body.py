"""The body-based law: the error pose of every body moves like a free rigid body with springs and dampers.

With E = G^-1 G_R the twist of the error is ``xi_E = xi - Ad_E xi_R``, and it obeys
``M_bar xi_E' - ad(xi_E)^T M_bar xi_E + D_bar xi_E + vee2((I - E) K_bar') = 0`` (docs/control/laws.md).
"""

from __future__ import annotations

import numpy as np

from heavytop._arrays import Array, transpose
from heavytop.control.laws.law_terms import LawTerms, Term
from heavytop.geometry import se3


def error_twist(t: Term) -> tuple[Array, Array]:
    """xi_E = xi - Ad_E xi_R (6,), and Ad_E xi_R itself."""
    carried = np.matvec(se3.Ad(t.error), t.reference.twist)
    return t.motion.twist - carried, carried


def body_bias(terms: LawTerms) -> Array:
    """c_bar (nv,) of the body-based law."""
    total = terms.stiffness_force
    for t in terms.inertias:
        xi_E, carried = error_twist(t)
        # feedforward d/dt(Ad_E xi_R) = Ad_E xi_R' - ad(xi_E) Ad_E xi_R
        feedforward = np.matvec(se3.Ad(t.error), t.reference_rate) - np.matvec(se3.ad(xi_E), carried)
        momentum = np.matvec(t.matrix, xi_E)
        wrench = np.matvec(t.matrix, t.motion.bias - feedforward) - np.matvec(transpose(se3.ad(xi_E)), momentum)
        total = total + t.generalised(wrench)
    for t in terms.dampings:
        total = total + t.generalised(np.matvec(t.matrix, error_twist(t)[0]))
    return total


def body_energy(terms: LawTerms) -> Array:
    """W = sum_b xi_E^T M_bar xi_E / 2 + V_bar, in J."""
    total = terms.stiffness_energy
    for t in terms.inertias:
        xi_E, _ = error_twist(t)
        total = total + 0.5 * np.vecdot(xi_E, np.matvec(t.matrix, xi_E))
    return total


def body_dissipation(terms: LawTerms) -> Array:
    """sum_ab xi_E^T D_bar xi_E, in W."""
    total = 0.0
    for t in terms.dampings:
        xi_E, _ = error_twist(t)
        total = total + np.vecdot(xi_E, np.matvec(t.matrix, xi_E))
    return total
