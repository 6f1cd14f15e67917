"""The two dynamics of one body in the documents, ready to simulate: scalable body (001) and unified velocities (002)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from heavytop._arrays import Array
from heavytop.coordinates import ScalablePose, UnifiedPose
from heavytop.mechanics import scalable_body as scalable
from heavytop.mechanics import unified as unified_mechanics
from heavytop.mechanics.rigid_body import body_inertia
from heavytop.simulate.dynamics import UserDynamics


def scalable_body(
    mass: float,
    theta: Any,
    *,
    rigid: bool = False,
    loads: scalable.Loads | None = None,
    scaling_mass: float | None = None,
) -> UserDynamics:
    """The scalable body, or the rigid body as its DAE (doc 001, eqs 93 to 96), about the centre of mass.

    Coordinates (r, A) and velocities (v, nu, omega) of :class:`~heavytop.coordinates.ScalablePose`. The rigid body starts with
    ``|A| = 1`` and ``nu = 0`` and its force ``lambda`` is recorded as the channel "lambda". As the velocities are not left-invariant
    use ``projected_rk4``, or ``energy_momentum`` for the energy-consistent integration of the DAE.

    Parameters
    ----------
    mass : kg. theta : (3, 3) inertia in kg m^2.
    loads : constant resultants (force in world coordinates, scaling force, moment in body coordinates).
    scaling_mass : replaces tr(theta) / 2.

    Examples
    --------
    >>> import heavytop as ht
    >>> spinning = scalable_body(1.0, np.eye(3), rigid=True)
    >>> start = (ScalablePose().neutral(), [0.0, 0, 0, 0, 0, 0, 2.0])
    >>> ht.simulate(spinning, start, until=1.0, step=0.01, integrator="energy_momentum").channels["lambda"][-1].round(9)
    np.float64(-4.0)
    """
    matrix = scalable.mass_matrix(mass, theta, scaling_mass)
    given = scalable.NO_LOADS if loads is None else loads

    def acceleration(q: Array, u: Array) -> Array | Mapping[str, Array]:
        if not rigid:
            return scalable.acceleration(matrix, q, u, given)
        result = scalable.rigid_acceleration(matrix, q, u, given)
        return {"acceleration": result.acceleration, "lambda": result.multiplier}

    return UserDynamics(
        ScalablePose(),
        acceleration,
        kinetic=lambda q, u: 0.5 * np.vecdot(u, np.matvec(matrix, u)),
        force=None if loads is None else lambda q, u: given.vector,
        name="rigid body (DAE)" if rigid else "scalable body",
    )


def unified_body(unified: UnifiedPose, mass: float, inertia: Any) -> UserDynamics:
    """A free rigid body in unified local velocity coordinates (doc 002, eqs 44 to 61), about the centre of mass.

    ``inertia`` are the principal moments (3,) or the matrix (3, 3).
    With ``rkmk4`` this is the scheme of eqs 79 to 87 with errata 2.14 to 2.16.

    Examples
    --------
    >>> import heavytop as ht
    >>> body = unified_body(UnifiedPose("hexahedral"), 1.0, [1.0, 2.0, 3.0])
    >>> w0 = body.coordinates.unified_velocity(np.array([0.0, 0, 0, 0.1, 2.0, 0.1]))
    >>> print(ht.simulate(body, (body.coordinates.neutral(), w0), until=1.0, step=0.01).outcome)
    finished: reached t = 1 s
    """
    J = body_inertia(mass, inertia)
    matrix = unified_mechanics.closed_mass_matrix(unified, mass, J)
    inverse = np.linalg.inv(matrix)

    def acceleration(q: Array, w: Array) -> Array:
        bias = np.matvec(unified_mechanics.closed_gamma_matrix(unified, mass, J, w), w)  # eq. 51 without forces
        return -np.matvec(inverse, bias)

    return UserDynamics(
        unified,
        acceleration,
        kinetic=lambda q, w: 0.5 * np.vecdot(w, np.matvec(matrix, w)),
        name="unified body",
    )
