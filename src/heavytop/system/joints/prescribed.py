"""A joint whose motion is given: a driver moves it, whatever force that takes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from heavytop._arrays import Array, as_array, is_symbolic, shape
from heavytop._format import brief
from heavytop.compile import NOT_MATH, on_symbols
from heavytop.coordinates import Vector
from heavytop.errors import ModelError
from heavytop.system.joints.base import Joint
from heavytop.system.joints.spatial import Fixed


class Prescribed(Joint):
    """A joint whose coordinates are given functions of time.

    It has no coordinates and adds no degree of freedom. The force of its driver follows from the reactions: ``model.driver_power`` and the
    energy balance of a run report its power.

    Parameters
    ----------
    joint : how it moves, such as ``Prismatic("x")``.
    motion : ``motion(t)`` gives its configuration at time t in s, in NumPy notation: one number for one coordinate, else (nq,). Position
        and velocity must be continuous for the forces to be finite; a simulation raises an error for a motion that jumps.

    Examples
    --------
    A pendulum on a trolley that is driven back and forth:

    >>> import heavytop as ht
    >>> system = ht.System(name="crane")
    >>> system.body("trolley", joint=ht.Prescribed(ht.Prismatic("x"), lambda t: 0.5 * np.sin(t)), inertia=ht.Inertia(10.0))
    >>> system.body("load", parent="trolley", joint=ht.Revolute("y"), inertia=ht.Inertia(2.0, com=(0, 0, -1)))
    >>> model = system.derive(native=False)
    >>> model.nv, model.acceleration([0.0], [0.0], parameters={"time": np.pi / 2}).round(9)
    (1, array([-0.5]))
    """

    def __init__(self, joint: Joint, motion: Callable[[Array], Any]) -> None:
        if not isinstance(joint, Joint) or joint.coordinates.nv == 0:
            raise ModelError(
                f"Prescribed joint: it takes a joint that moves by itself, such as ht.Prismatic('x'), got {joint!r}."
            )
        if not callable(motion):
            raise ModelError(f"Prescribed joint: motion must be a function of the time, got {motion!r}.")
        if joint.parts:
            raise ModelError(
                f"Prescribed joint: {', '.join(joint.parts)} cannot act in a joint whose motion is given. Give the joint without, and the "
                "force as one between its bodies (system.damper, system.strut)."
            )
        self.joint, self.motion = joint, motion
        self.coordinates = Vector(0)

    def _arguments(self) -> Iterable[str]:
        return (repr(self.joint), brief(self.motion))

    def prescribed(self, at: Array, time: Array) -> tuple[Array, Joint]:
        given = on_symbols(self.motion, "motion of a prescribed joint")(time)
        size = self.joint.coordinates.nq
        value = as_array(given) if given is not None else np.zeros((0, 0))
        if size == 1 and shape(value) == ():
            value = np.reshape(value, (1,))
        if shape(value) != (size,):
            raise ModelError(
                f"motion of a prescribed joint must return the {size} coordinates of its {type(self.joint).__name__} joint, got "
                f"{'None' if given is None else f'an array of shape {shape(value)}'}."
            )
        if not is_symbolic(value) and not np.all(np.isfinite(value)):
            raise ModelError(
                f"motion of a prescribed joint must return finite numbers, got {value.tolist()}. {NOT_MATH}"
            )
        return at @ self.joint.pose(value), Fixed()

    def pose(self, q: Array) -> Array:
        raise ModelError(
            "a Prescribed joint moves with the time, not with coordinates: give it to system.body or system.connect."
        )

    def check_closure(self) -> None:
        raise ModelError(
            "a Prescribed joint cannot close a loop. Put a frame that moves into the tree (system.frame with an at that depends on "
            "system.time), and close the loop there with its inner joint."
        )
