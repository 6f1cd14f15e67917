"""Inertia that a joint cannot tell from that of its parent is counted there: fewer numbers that are not zero, the same motion.

About an axis z a body with mass on the axis and a moment diag(J, J, 0) has the same energy at every angle and rate of the joint, so it may
as well be welded to the parent; so may the whole moment of inertia of a sliding body (base parameters, Gautier and Khalil 1990).
What is left of a turning body is (m c_x, m c_y) and five moments: it is no real body any more, and only the recursion uses it.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from heavytop.system.description.body_moments import BodyMoments
from heavytop.system.description.names import WORLD
from heavytop.system.kinematics.internal_frames import Carrier


def regrouped(carriers: Mapping[str, Carrier]) -> dict[str, BodyMoments]:
    """The moments of each carrier in its internal frame, with what its joint cannot tell apart moved towards the world."""
    moments = {name: carrier.moments for name, carrier in carriers.items()}
    for name, carrier in reversed(tuple(carriers.items())):
        own, parent = moments[name], carrier.parent
        if carrier.axis is None or not own.is_numeric or not (parent == WORLD or moments[parent].is_numeric):
            continue
        if carrier.axis.slides:
            moved = BodyMoments(0.0, np.zeros(3), own.second)
            moments[name] = BodyMoments(own.mass, own.first, np.zeros((3, 3)))
        else:
            J = own.second
            moved = BodyMoments(own.mass, np.array([0.0, 0.0, own.first[2]]), np.diag([J[1, 1], J[1, 1], 0.0]))
            left = J - moved.second
            left[1, 1] = 0.0
            moments[name] = BodyMoments(0.0, np.array([own.first[0], own.first[1], 0.0]), left)
        if parent != WORLD:
            moments[parent] = moments[parent] + moved.moved(np.asarray(carrier.at))
    return moments
