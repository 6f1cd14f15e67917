"""Limbs of a vehicle: links of an arm, a gripper, a gimbal, each with a joint, a motor and a desired motion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from heavytop._arrays import Array, is_symbolic
from heavytop._format import Brief
from heavytop.control import DesiredDamping, DesiredInertia, Prototype
from heavytop.copters.vehicle import GRAVITY
from heavytop.errors import ModelError, wrong_shape
from heavytop.geometry import se3
from heavytop.system import Inertia, JointForce, Model, Stiffness, System
from heavytop.system.joints import Joint, Revolute

LIGHT = 1e-3
"""Desired inertia of a limb's rotation about its joint, kg m^2, or of its sliding, kg: a twentieth of the hull's tilt. Heavier limbs move the poles
of the hull; lighter ones react more to forces that the hull cannot make, because swinging the arm also pushes the hull sideways."""

CALM = 8.0
"""Frequency (rad/s) of the control of a long link, or of one that is not a pendulum."""


@dataclass(frozen=True, eq=False, repr=False)
class Limb(Brief):
    """A body on a joint with a motor: a link from the joint to its tip.

    Parameters
    ----------
    name : name of the body and its joint.
    mass : kg.
    tip : (3,) end of the link in its own frame, m; the joint is at the origin.
    joint : one with one coordinate; default: it turns about y.
    parent : the hull or another limb. at : (3,) of the joint in the parent's frame, m; default: the tip of the parent limb, the hull's origin.
    inertia : default: a slender rod of the mass from the joint to the tip.
    force : largest torque (N m) or force (N) of the motor.
    frequency, damping : joint-control frequency (rad/s) and damping ratio. Default frequency: 8 rad/s, for short links that of their pendulum:
        a gust that accelerates the hull by a causes a joint error of about a / g times the squared ratio of the pendulum's frequency to this one.
    path : desired motion of the joint: a number, or a function of time in NumPy notation (rad, m).

    Examples
    --------
    >>> arm = Limb("upper", 0.2, tip=(0.0, 0.0, -0.3))
    >>> arm.inertia.com, round(float(arm.inertia.moment_at_com[0, 0]), 6)
    (array([ 0.  ,  0.  , -0.15]), 0.001502)
    """

    name: str
    mass: float
    tip: Any = (0.0, 0.0, -0.2)
    joint: Joint = field(default_factory=lambda: Revolute("y"))
    parent: str = "hull"
    at: Any = None
    inertia: Any = None
    force: float = np.inf
    frequency: float | None = None
    damping: float = 1.0
    path: float | Callable[[Array], Array] = 0.0

    def __post_init__(self) -> None:
        tip = np.asarray(self.tip, dtype=float)
        if tip.shape != (3,):
            raise wrong_shape(f"tip of the limb {self.name!r}", (3,), tip.shape, "Give x, y and z in m.")
        if not np.all(np.isfinite(tip)):
            raise ModelError(f"tip of the limb {self.name!r} must be finite, got {tip.tolist()}.")
        for what in ("mass", "force", "frequency", "damping"):
            value = 1.0 if what == "frequency" and self.frequency is None else getattr(self, what)
            if not value > 0 or (what != "force" and not np.isfinite(value)):
                raise ModelError(f"{what} of the limb {self.name!r} must be positive and finite, got {value}.")
        if not callable(self.path) and not np.isfinite(self.path):
            raise ModelError(f"path of the limb {self.name!r} must be a finite number or a function of time.")
        coordinates = self.joint.coordinates
        if coordinates.nq != 1 or coordinates.nv != 1:
            raise ModelError(
                f"the joint of the limb {self.name!r} must have one coordinate, such as Revolute('y') or Prismatic('z'); it has "
                f"{coordinates.nq}. Use two limbs in a row for two axes."
            )
        object.__setattr__(self, "tip", tip)
        if self.inertia is None:
            length = float(np.linalg.norm(tip))
            radius = max(0.02 * length, 5e-3)
            along = np.outer(tip, tip) / max(length, 1e-12) ** 2
            across = self.mass * (length**2 / 12 + radius**2 / 4)  # a solid cylinder about its centre
            rod = across * (np.eye(3) - along) + self.mass * radius**2 / 2 * along
            object.__setattr__(self, "inertia", Inertia(self.mass, com=0.5 * tip, moment_at_com=rod))

    @property
    def control_frequency(self) -> float:
        """Frequency of the control of the joint, rad/s: the given one or the default.

        >>> round(Limb("camera", 0.08, tip=(0.03, 0.0, 0.0)).control_frequency, 1)
        21.9
        """
        if self.frequency is not None:
            return self.frequency
        axis, body = self.joint.turns_about, self.inertia
        if axis is None or any(map(is_symbolic, (body.mass, body.com, body.moment_at_com))):
            return CALM
        mass, com, about = float(body.mass), np.asarray(body.com), np.asarray(body.moment_at_com)
        lever = np.cross(axis, com)
        pendulum = GRAVITY * mass * np.linalg.norm(lever) / (axis @ about @ axis + mass * lever @ lever)
        return max(CALM, float(np.sqrt(pendulum)))

    @property
    def motor(self) -> str:
        return f"motor_{self.name}"


def check_limbs(limbs: Sequence[Limb]) -> tuple[Limb, ...]:
    """The limbs; raises a ModelError unless the parent of each is the hull or a limb before it.

    >>> [limb.name for limb in check_limbs([Limb("a", 0.1), Limb("b", 0.1, parent="a")])]
    ['a', 'b']
    """
    known = ["hull"]
    for limb in limbs:
        if limb.name in known:
            raise ModelError(f"two bodies have the name {limb.name!r}.")
        if limb.parent not in known:
            raise ModelError(f"the parent {limb.parent!r} of the limb {limb.name!r} must be one of {', '.join(known)}.")
        known.append(limb.name)
    return tuple(limbs)


def add_limbs(system: System, limbs: Sequence[Limb]) -> None:
    """Add the bodies and their motors to a system with the body "hull"."""
    tips = {limb.name: limb.tip for limb in limbs}
    for limb in limbs:
        at = tips.get(limb.parent, np.zeros(3)) if limb.at is None else limb.at
        system.body(limb.name, parent=limb.parent, at=at, joint=limb.joint, inertia=limb.inertia)
    for limb in limbs:
        system.input(limb.motor, JointForce(limb.name))


def limb_prototype(base: Prototype, limbs: Sequence[Limb]) -> Prototype:
    """The prototype of a hull with limbs: every limb on a light spring and damper towards its parent."""
    inertia, damping, stiffness = dict(base.inertia), dict(base.damping), dict(base.stiffness)
    zero = (0.0, 0.0, 0.0)
    for limb in limbs:
        w, pair = limb.control_frequency, (limb.parent, limb.name)
        total, turn = (LIGHT, 0.0) if limb.joint.kind == "prismatic" else (0.0, LIGHT)
        inertia[limb.name] = DesiredInertia(total, zero, (max(turn, 1e-9),) * 3)
        damping[pair] = DesiredDamping(2 * limb.damping * w * total, zero, (2 * limb.damping * w * turn,) * 3)
        stiffness[pair] = Stiffness(w**2 * total, zero, (w**2 * turn,) * 3)
    return Prototype(inertia, damping, stiffness)


def center_below(model: Model) -> float:
    """Depth of the centre of mass of all bodies below the hull's origin in the neutral configuration, m."""
    q = model.neutral()
    inertias = model.description.inertias
    height = sum(
        float(i.mass) * float(se3.transform(model.pose("hull", b, q), np.asarray(i.com, dtype=float))[2])
        for b, i in inertias.items()
    )
    return -height / model.mass
