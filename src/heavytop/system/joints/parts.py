"""Keywords of joints, such as ``Revolute("z", stiffness=3.0, damping=0.1)``, and limits of joints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

import numpy as np

from heavytop._arrays import Array, constant
from heavytop.errors import ModelError, unknown_name


class JointParts(TypedDict, total=False):
    """Keywords of every joint; a system adds the elements together with the joint.

    ``stiffness`` and ``rest`` : of a spring, as in ``system.joint_spring``.
    ``damping`` : viscous friction, as in ``system.joint_damper``.
    ``friction`` : dry friction; a mapping holds the keywords of ``system.joint_friction``.
    ``armature`` : inertia of a rotor; a mapping holds the keywords of ``system.armature``.
    ``limits`` : (lower, upper), stored in ``system.limits``; a mapping holds the keywords of ``system.joint_stop``, which is added too.
    """

    stiffness: Array
    rest: Array
    damping: Array
    friction: Array | Mapping[str, Any]
    armature: Array | Mapping[str, Any]
    limits: Sequence[float | None] | Mapping[str, Any]


def checked_parts(joint: str, parts: Mapping[str, Any]) -> dict[str, Any]:
    """Read-only copies of the given keywords; raises an error for unknown ones and for a rest without a spring."""
    for name in parts:
        if name not in JointParts.__annotations__:
            raise unknown_name(f"keyword of {joint}", name, JointParts.__annotations__)
    kept = {name: _frozen(value) for name, value in parts.items() if value is not None}
    if "rest" in kept and "stiffness" not in kept:
        raise ModelError(f"{joint} joint: rest= belongs to a spring; give stiffness= too.")
    return kept


def _frozen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _frozen(item) for name, item in value.items()}
    return constant(value) if isinstance(value, np.ndarray) else tuple(value) if isinstance(value, list) else value


@dataclass(frozen=True)
class JointLimits:
    """Bounds of a joint of one axis, as data: position (rad or m), largest speed, largest effort; None: unbounded.

    >>> JointLimits(-1.0, 2.0).upper
    2.0
    """

    lower: float | None = None
    upper: float | None = None
    velocity: float | None = None
    effort: float | None = None
