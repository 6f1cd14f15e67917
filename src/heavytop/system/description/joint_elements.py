"""What acts in the joints of a system under construction: springs, dampers, friction, stops, rotors, limits."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from inspect import signature
from typing import Any

import numpy as np

from heavytop._arrays import Array, Floats, as_array
from heavytop.errors import ModelError, unknown_name
from heavytop.system.forces import Armature, ForceElement, JointDamper, JointFriction, JointSpring, JointStop
from heavytop.system.joints import Joint
from heavytop.system.joints.parts import JointLimits


class ActingInJoints(ABC):
    """The part of :class:`~heavytop.System` that adds elements to joints, by their names."""

    limits: dict[str, JointLimits]
    """Joint name -> bounds. They are data: ``joint_stop`` or ``ht.simulate.limit_events`` enforce them."""

    @abstractmethod
    def add(self, element: ForceElement) -> None:
        """Add a force element."""

    @abstractmethod
    def _at_defaults(self, value: Array, where: str) -> Floats: ...

    def _act_in(self, label: str, joint: Joint) -> None:
        """Add what the keywords of a joint say."""
        parts = joint.parts
        if not parts:
            return
        if joint.is_fixed:
            raise ModelError(f"joint {label!r} does not move, so that {', '.join(parts)} cannot act in it.")
        if "stiffness" in parts:
            self.joint_spring(label, stiffness=parts["stiffness"], rest=parts.get("rest", 0.0))
        if "damping" in parts:
            self.joint_damper(label, damping=parts["damping"])
        if "friction" in parts:
            self._with_keywords(self.joint_friction, label, "friction", parts["friction"], "coulomb")
        if "armature" in parts:
            self._with_keywords(self.armature, label, "armature", parts["armature"], "inertia")
        if "limits" in parts:
            self._limit_by_keyword(label, joint, parts["limits"])

    def _with_keywords(self, method: Any, label: str, keyword: str, value: Any, first: str) -> None:
        """Call a method with one value, or with a mapping of its keywords."""
        given = value if isinstance(value, Mapping) else {first: value}
        known = [name for name in signature(method).parameters if name != "joint"]
        for name in given:
            if name not in known:
                raise unknown_name(f"keyword of {keyword}= in joint {label!r}", name, known)
        if first not in given:
            raise ModelError(f"{keyword}= of joint {label!r} needs {first!r}, got {dict(given)!r}.")
        method(label, **given)

    def _limit_by_keyword(self, label: str, joint: Joint, value: Any) -> None:
        if isinstance(value, JointLimits):
            self.limit(label, value.lower, value.upper, velocity=value.velocity, effort=value.effort)
            return
        if isinstance(value, Mapping):
            self._with_keywords(self.joint_stop, label, "limits", value, "stiffness")
            ends = value.get("lower"), value.get("upper")
            if all(end is None or isinstance(end, int | float) for end in ends):
                self.limit(label, *ends)
            return
        try:
            lower, upper = value
        except (TypeError, ValueError):
            raise ModelError(
                f"limits= of joint {label!r} must be (lower, upper), or a mapping with the keywords of system.joint_stop, got {value!r}."
            ) from None
        if joint.own_coordinates.nv != 1:
            raise ModelError(
                f"limits= of joint {label!r}: it has {joint.own_coordinates.nv} velocities, and (lower, upper) bounds one. Let stops act: "
                "limits={'lower': ..., 'upper': ..., 'stiffness': ...} with one number each for every velocity."
            )
        self.limit(label, lower, upper)

    def limit(
        self,
        joint: str,
        lower: float | None = None,
        upper: float | None = None,
        *,
        velocity: float | None = None,
        effort: float | None = None,
    ) -> None:
        """Note the bounds of a joint of one axis in :attr:`limits`: data for stops, events, sliders and robot files, no force.

        Parameters
        ----------
        joint : name of the joint.
        lower, upper : ends of its range, rad or m; None: no end.
        velocity, effort : largest speed (rad/s or m/s) and force (N m or N); None: no bound.

        Examples
        --------
        >>> import heavytop as ht
        >>> system = ht.System()
        >>> system.body("door", joint=ht.Revolute("z"), inertia=ht.Inertia(1.0, com=(0.5, 0, 0)))
        >>> system.limit("door", 0.0, 1.5)
        >>> system.joint_stop("door", stiffness=1e3)  # at these limits
        """
        where = f"limits of joint {joint!r}"
        given = {"lower": lower, "upper": upper, "velocity": velocity, "effort": effort}
        kept = {name: float(x) for name, x in given.items() if x is not None and np.isfinite(x)}
        if any(x is not None and np.isnan(x) for x in given.values()):
            raise ModelError(f"{where} must be numbers, got {given}.")
        if kept.get("lower", -np.inf) > kept.get("upper", np.inf):
            raise ModelError(f"{where}: lower must not exceed upper, got {lower} and {upper}.")
        if min(kept.get("velocity", 0.0), kept.get("effort", 0.0)) < 0.0:
            raise ModelError(f"{where}: velocity and effort must not be negative, got {velocity} and {effort}.")
        self.limits[joint] = JointLimits(**kept)

    def joint_spring(self, joint: str, *, stiffness: Array, rest: Array = 0.0) -> None:
        """Add a spring in a joint.

        Parameters
        ----------
        joint : name of the joint: that of the body it carries, or ``name`` of :meth:`connect`.
        stiffness : N m/rad or N/m; one number or one for each velocity of the joint.
        rest : relaxed displacement from the neutral configuration, rad or m; for rotations the rotation vector.
        """
        where = f"joint spring in {joint!r}"
        self._check_values(where, stiffness=stiffness)
        self._check_values(where, sign=False, rest=rest)
        self.add(JointSpring(joint, stiffness, rest))

    def joint_damper(self, joint: str, *, damping: Array) -> None:
        """Add viscous friction in a joint: ``damping`` in N m s/rad or N s/m, one number or one for each velocity of the joint."""
        self._check_values(f"joint damper in {joint!r}", damping=damping)
        self.add(JointDamper(joint, damping))

    def joint_friction(
        self,
        joint: str,
        *,
        coulomb: Array,
        viscous: Array = 0.0,
        static: Array | None = None,
        stribeck_speed: Array = 0.1,
        smoothing: Array = 0.01,
    ) -> None:
        """Add dry friction in a joint: ``(F_C + (F_S - F_C) exp(-(w / w_S)^2)) tanh(w / w_0) + d w`` against the velocity w.

        Parameters
        ----------
        joint : name of the joint.
        coulomb : F_C, N m or N; like all values one number, or one for each velocity of the joint.
        viscous : d, N m s/rad or N s/m.
        static : F_S, N m or N; None: as ``coulomb``.
        stribeck_speed : w_S, rad/s or m/s, at which the static friction has gone.
        smoothing : w_0, rad/s or m/s, within which the sign of w is smoothed; small values make the equations stiff.
        """
        where = f"joint friction in {joint!r}"
        self._check_values(where, coulomb=coulomb, viscous=viscous, static=coulomb if static is None else static)
        self._check_values(where, positive=True, stribeck_speed=stribeck_speed, smoothing=smoothing)
        self.add(JointFriction(joint, coulomb, viscous, static, stribeck_speed, smoothing))

    def joint_stop(
        self,
        joint: str,
        *,
        lower: Array | None = None,
        upper: Array | None = None,
        stiffness: Array,
        damping: Array = 0.0,
        smoothing: Array = 1e-3,
    ) -> None:
        """Add compliant stops to a joint.

        Parameters
        ----------
        joint : name of the joint.
        lower, upper : ends of its range, rad or m (for rotations of the rotation vector from the neutral attitude); None: no end. Without
            both the ends are those of ``system.limits``.
        stiffness, damping : beyond the ends, N m/rad and N m s/rad, or N/m and N s/m.
        smoothing : depth in rad or m over which the stop sets in, with a force of continuous slope.
        """
        where = f"joint stop in {joint!r}"
        if lower is None and upper is None and joint in self.limits:
            lower, upper = self.limits[joint].lower, self.limits[joint].upper
        if lower is None and upper is None:
            raise ModelError(f"{where} needs an end: lower=, upper= or both, or limits of the joint (system.limit).")
        low, high = -np.inf if lower is None else lower, np.inf if upper is None else upper
        self._check_values(where, stiffness=stiffness, damping=damping)
        self._check_values(where, positive=True, smoothing=smoothing)
        ends = [self._at_defaults(as_array(end), f"ends of {where}") for end in (low, high)]
        if not np.all(ends[0] <= ends[1]):
            raise ModelError(f"{where}: lower must not exceed upper, got {ends[0].tolist()} and {ends[1].tolist()}.")
        self.add(JointStop(joint, low, high, stiffness, damping, smoothing))

    def armature(
        self, joint: str, inertia: Array, gear_ratio: Array = 1.0, *, body: str | None = None, axis: Any = None
    ) -> None:
        """Add the inertia of a motor's rotor to a joint: ``inertia * gear_ratio**2`` on its velocity, without a further coordinate.

        Parameters
        ----------
        joint : name of the joint that the motor drives.
        inertia : of the rotor about its axis, kg m^2 (kg for sliding joints); like ``gear_ratio`` one number, or one for each velocity.
        gear_ratio : turns of the rotor per turn of the joint.
        body : the body (or frame) on which the motor is mounted; the spin of the rotor then also turns this body, exactly. The inertia of
            the body includes the rotor as if it were welded to it. None: the gyroscopic effect is left out.
        axis : of the rotor in ``body``; None: that of the joint.
        """
        where = f"armature in {joint!r}"
        self._check_values(where, inertia=inertia)
        self._check_values(where, sign=False, gear_ratio=gear_ratio)
        if axis is not None and body is None:
            raise ModelError(f"{where}: axis= is that of a rotor on a body; say on which one with body=.")
        self.add(Armature(joint, inertia, gear_ratio, body, axis))

    def _check_values(self, where: str, sign: bool = True, positive: bool = False, **values: Array) -> None:
        """Raise a ModelError for numbers (or vectors) that are not finite, or negative where ``sign``, or zero where ``positive``."""
        for label, value in values.items():
            number = self._at_defaults(as_array(value), f"{label} of {where}")
            wrong = (
                not np.all(np.isfinite(number)) or (sign and np.any(number < 0)) or (positive and np.any(number <= 0))
            )
            if number.ndim > 1 or wrong:
                asked = "positive" if positive else "finite and not negative" if sign else "finite"
                raise ModelError(
                    f"{label} of {where} must be {asked}: one number or one for each velocity, got {number.tolist()}."
                )
