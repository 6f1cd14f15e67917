"""A joint from any coordinates and any pose function."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Unpack

from heavytop._arrays import Array, as_array
from heavytop._format import brief
from heavytop.coordinates import Coordinates
from heavytop.system.joints.base import Joint
from heavytop.system.joints.parts import JointParts, checked_parts


class Custom(Joint):
    """A joint given by coordinates and a pose ``G(q)`` written in NumPy notation.

    Its body Jacobian and the rate of it are derived exactly (eq. 3.123). The pose is verified to stay in SE(3).

    Parameters
    ----------
    coordinates : any :class:`~heavytop.coordinates.Coordinates`.
    pose : function of q (nq,) that returns the (4, 4) pose of the moved frame in the joint frame.

    Examples
    --------
    A screw joint that advances 5 mm per radian:

    >>> import numpy as np, heavytop as ht
    >>> from heavytop.geometry import se3, so3
    >>> def screw(q):
    ...     return se3.pose(so3.rotation_about("z", q[0]), ht.vector(0.0, 0.0, 0.005 * q[0]))
    >>> joint = Custom(ht.coordinates.Angle(), screw)
    >>> joint.jacobian(np.array([0.3]))[:, 0]
    array([0.   , 0.   , 0.005, 0.   , 0.   , 1.   ])
    """

    def __init__(self, coordinates: Coordinates, pose: Callable[[Array], Array], **parts: Unpack[JointParts]) -> None:
        self.parts = checked_parts("Custom", parts)
        self.coordinates = coordinates
        self._pose = pose
        self.verify()

    def _arguments(self) -> Iterable[str]:
        return (repr(self.coordinates), brief(self._pose))

    def pose(self, q: Array) -> Array:
        return as_array(self._pose(q))
