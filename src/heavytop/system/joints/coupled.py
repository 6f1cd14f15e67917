"""A joint that follows another one: gears, parallel grippers, the mimic joints of robot files."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any, Unpack

import numpy as np

from heavytop._arrays import Array, constant, is_symbolic
from heavytop._format import brief
from heavytop.coordinates import Angle, Coordinates, Vector
from heavytop.errors import ModelError
from heavytop.system.joints.base import Joint
from heavytop.system.joints.parts import JointParts, checked_parts


class Coupled(Joint):
    """A revolute or prismatic joint whose coordinate is a linear function of that of another joint.

    It has no own coordinates: ``q_own = ratio * q_source + offset``. The coupling is exact and adds neither equations nor
    unknowns, and what acts on this joint is felt by the source.

    Parameters
    ----------
    joint : ``Revolute`` or ``Prismatic``: how this joint moves.
    source : name of the joint it follows, revolute (with coordinates "angle") or prismatic.
    ratio, offset : of the linear function; rad, m or the quotient of both.

    Examples
    --------
    Two fingers of a gripper that open by the same distance:

    >>> import heavytop as ht
    >>> system = ht.System(gravity=(0, 0, 0))
    >>> finger = ht.Inertia(0.1)
    >>> system.body("left", joint=ht.Prismatic("y"), inertia=finger)
    >>> system.body("right", joint=ht.Coupled(ht.Prismatic("y"), "left", ratio=-1.0), inertia=finger)
    >>> model = system.derive()
    >>> model.nv, model.mass_matrix([0.02])
    (1, array([[0.2]]))
    """

    def __init__(
        self, joint: Joint, source: str, ratio: Any = 1.0, offset: Any = 0.0, **parts: Unpack[JointParts]
    ) -> None:
        if joint.kind not in ("revolute", "prismatic") or joint.coordinates.nq != 1:
            raise ModelError(
                f"Coupled joint: only a Revolute or Prismatic joint can follow another one, got {joint!r}."
            )
        self.joint, self.source = joint, source
        self.parts = checked_parts("Coupled", {**joint.parts, **parts})
        self.kind, self.follows = joint.kind, source
        self.ratio, self.offset = constant(ratio), constant(offset)
        for label, value in (("ratio", self.ratio), ("offset", self.offset)):
            if value.shape != () or not (is_symbolic(value) or np.isfinite(value)):
                raise ModelError(f"Coupled joint: {label} must be one finite number, got {value!r}.")
        self.coordinates = Vector(0)

    def _arguments(self) -> Iterable[str]:
        alone = f"{type(self.joint).__name__}({', '.join(self.joint._arguments())})"  # without the parts, which this joint has
        offset = () if not is_symbolic(self.offset) and self.offset == 0 else (f"offset={brief(self.offset)}",)
        return (alone, repr(self.source), f"ratio={brief(self.ratio)}", *offset)

    @property
    def own_coordinates(self) -> Coordinates:
        return self.joint.coordinates

    @property
    def turns_about(self) -> Array | None:
        return self.joint.turns_about

    @property
    def slides_along(self) -> Array | None:
        return self.joint.slides_along

    @cached_property
    def translations(self) -> int:
        return self.joint.translations

    def check_source(self, joint: Joint | None, label: str, known: Iterable[str]) -> None:
        super().check_source(joint, label, known)
        if joint is None:
            return
        if not isinstance(joint.coordinates, Angle | Vector) or joint.coordinates.nq != 1:
            raise ModelError(
                f"joint {label!r} follows {self.source!r}, which must be a Revolute joint with coordinates 'angle' or a Prismatic one, "
                f"got {type(joint).__name__} with {joint.coordinates.nq} coordinates."
            )

    def follow(self, q: Array, v: Array) -> tuple[Array, Array]:
        """Coordinate (1,) and velocity (1,) of this joint from those of the source."""
        return self.ratio * q + self.offset, self.ratio * v

    def pose(self, q: Array) -> Array:
        return self.joint.pose(q)

    def jacobian(self, q: Array) -> Array:
        return self.joint.jacobian(q)

    def bias(self, q: Array, v: Array) -> Array:
        return self.joint.bias(q, v)

    def check_closure(self) -> None:
        raise ModelError(
            "a Coupled joint cannot close a loop, since it has no own coordinate. Put it into the tree, and close the loop with its inner joint."
        )
