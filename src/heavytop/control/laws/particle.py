"""The particle-based law: every particle of the prototype is drawn to its own place on the reference.

Each particle should obey ``mbar_p (r'' - r_R'') + dbar_p (r' - r_R') + kbar_p (r - r_R) = 0``; the sum of the projections on the
directions in which the system can move is the prototype equation (docs/control/laws.md).
"""

from __future__ import annotations

import numpy as np

from heavytop._arrays import Array
from heavytop.control.laws.law_terms import LawTerms
from heavytop.geometry import se3


def particle_bias(terms: LawTerms) -> Array:
    """c_bar (nv,) of the particle-based law."""
    total = terms.stiffness_force
    for t in terms.inertias:
        xi, xi_R = se3.wed(t.motion.twist), se3.wed(t.reference.twist)
        actual = se3.wed(t.motion.bias) + xi @ xi
        desired = t.error @ (se3.wed(t.reference_rate) + xi_R @ xi_R)
        total = total + t.generalised(se3.vee2((actual - desired) @ t.moments))
    for t in terms.dampings:
        velocity = se3.wed(t.motion.twist) - t.error @ se3.wed(t.reference.twist)
        total = total + t.generalised(se3.vee2(velocity @ t.moments))
    return total


def particle_energy(terms: LawTerms) -> Array:
    """W = sum_p mbar_p |r' - r_R'|^2 / 2 + V_bar, in J: it decreases by the damping while the reference does not rotate."""
    total = terms.stiffness_energy
    for t in terms.inertias:
        velocity = t.motion.pose @ se3.wed(t.motion.twist) - t.reference.pose @ se3.wed(t.reference.twist)
        total = total + 0.5 * np.trace(velocity @ t.moments @ np.swapaxes(velocity, 0, 1))
    return total


def particle_dissipation(terms: LawTerms) -> Array:
    """2 R = sum_p dbar_p |r' - r_R'|^2, in W."""
    total = 0.0
    for t in terms.dampings:
        velocity = t.motion.pose @ se3.wed(t.motion.twist) - t.reference.pose @ se3.wed(t.reference.twist)
        total = total + np.trace(velocity @ t.moments @ np.swapaxes(velocity, 0, 1))
    return total
