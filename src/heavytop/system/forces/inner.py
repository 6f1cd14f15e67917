"""States of force elements: coordinates without a place, whose velocities s are the states.

An element with states acts on w = (velocity of its port, s) and resists with a force on both; s has the energy s^2/2, so that

    s' = -(resistance of s),     dissipated power = w . resistance.

Forces that are skew-symmetric in w exchange energy between bodies and states: a spring of stiffness k between a deflection z and a velocity u is
s = sqrt(k) z with the resistances sqrt(k) s on u and -sqrt(k) u on s. As the states are velocity coordinates of the model, every integrator, batch,
law, derivative and exported function contains them. Their integrals, the coordinates, act on nothing.

Bristles (:func:`bristles`) of the length z_0 and the strength F are elasto-plastic (Dupont, Armstrong and Altpeter 2000), in the form

    z = z_0 + |u| T/8,   L = sqrt(F z),   g = L/z min(1, L/|s|),   resistance g s + d u on the slip u,   s' = g u - alpha |u|/z s.

At small slip their stiffness is F/z_0; the force is at most F, and F where they slide. alpha rises from 0 at |s| = 0.7 L to 1 at L where the slip
loads them, and is 0 otherwise: what sticks does not creep. Only alpha and d >= 0 are not skew-symmetric, so friction never adds energy, however F
changes. The damping d = F T/z_0 (1 - s^2/L^2)/sqrt(1 + (u T/z_0)^2) settles a body that presses on them with its weight within T = 2 sqrt(z_0/g).
Where they slide fast they follow within T/8, so that no step needs to be shorter. Where F falls, to zero if the contact opens, what
is bent beyond L relaxes as fast: s' contains -8/T (1 - L/|s|) s for |s| > L.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from heavytop._arrays import Array
from heavytop.coordinates import Vector
from heavytop.system.description import GRAVITY
from heavytop.system.joints.base import Joint

YIELD = 0.7
"""Share of the strength up to which bristles only bend."""
TINY = 1e-30


class _States(Vector):
    """States s as velocities, J^(1/2)."""

    @property
    def v_names(self) -> tuple[str, ...]:
        return self.q_names

    @property
    def q_units(self) -> tuple[str, ...]:
        return ("",) * self.nq

    @property
    def v_units(self) -> tuple[str, ...]:
        return ("",) * self.nv


class InnerJoint(Joint):
    """The states of a force element: velocities that move nothing, with the energy s^2/2.

    >>> InnerJoint(("x", "y")).coordinates.v_names
    ('x', 'y')
    """

    def __init__(self, names: Sequence[str]) -> None:
        self.coordinates = _States(len(names), tuple(names))
        self.parts = {"armature": 1.0}

    def _arguments(self) -> tuple[str, ...]:
        return (repr(tuple(self.coordinates.q_names)),)

    def pose(self, q: Array) -> Array:
        return np.eye(4)

    def jacobian(self, q: Array) -> Array:
        return np.zeros((6, self.coordinates.nv))

    def bias(self, q: Array, v: Array) -> Array:
        return np.zeros(6)


def bristles(strength: Array, length: Any, slip: Array, s: Array) -> tuple[Array, Array, Array]:
    """Resistance (n,) on the ``slip``, that on the states ``s`` (n,), and the damping d, which is not part of the former."""
    settling = 2.0 * np.sqrt(length / GRAVITY)
    speed = np.sqrt(np.vecdot(slip, slip) + TINY)
    bent = length + speed * settling / 8.0
    limit = strength * bent
    share = np.vecdot(s, s) / np.maximum(limit, TINY)
    gain = np.sqrt(np.maximum(limit, TINY)) / bent * np.where(share < 1.0, 1.0, 1.0 / np.sqrt(np.maximum(share, 1.0)))
    gain = np.where(strength > 0.0, gain, 0.0)
    above = np.minimum(np.maximum((np.sqrt(share + TINY) - YIELD) / (1.0 - YIELD), 0.0), 1.0)
    alpha = np.where(np.minimum(strength, np.vecdot(s, slip)) > 0.0, above * above * (3.0 - 2.0 * above), 0.0)
    hasty = speed * settling / length
    damping = strength * settling / length * np.maximum(1.0 - share, 0.0) / np.sqrt(1.0 + hasty * hasty)
    excess = np.where(share > 1.0, 1.0 - 1.0 / np.sqrt(np.maximum(share, 1.0)), 0.0)
    return gain * s, alpha * speed / bent * s - gain * slip + excess * released(length, s), damping


def released(length: Any, s: Array) -> Array:
    """Resistance (n,) on the states of bristles that nothing holds."""
    return 4.0 / np.sqrt(length / GRAVITY) * s
