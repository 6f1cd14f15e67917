"""Inputs that robot files have and systems do not: one actuator that acts on several joints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from heavytop.system.inputs import JointAction
from heavytop.system.kinematics import Kinematics


@dataclass(frozen=True)
class SharedForce:
    """A generalised force on several velocity coordinates: ``terms`` are (joint, index of the velocity, gear)."""

    terms: tuple[tuple[str, int, float], ...]

    def actions(self, kinematics: Kinematics) -> Sequence[JointAction]:
        """What one unit of the input does."""
        return tuple(JointAction(joint, index, gear) for joint, index, gear in self.terms)
