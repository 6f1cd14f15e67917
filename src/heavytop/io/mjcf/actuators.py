"""Actuators of MJCF as inputs: gain times control, with the state-dependent part as a separate spring and damper."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from heavytop.io.mjcf.document import ACTUATORS, UNREAD, CompilerSettings, Defaults, name_of
from heavytop.io.renaming import unused_name
from heavytop.io.robot import Actuator, JointKind, Robot, ServoTerm, Tendon
from heavytop.io.xml_elements import Element

LAGS = ("integrator", "filter", "filterexact")
"""States of actuators that are an integral or a filter of the control."""


@dataclass(frozen=True)
class ActuatorLaw:
    """force = gain control + b0 + b1 length + b2 velocity of the transmission."""

    gain: float
    b0: float = 0.0
    b1: float = 0.0
    b2: float = 0.0
    ratio: float = 0.0
    """Damping as a share of the critical one, in addition to b2."""

    @property
    def has_bias(self) -> bool:
        """Whether the force has a part independent of the control."""
        return bool(self.b0 or self.b1 or self.b2)


def read_actuators(
    section: Element, robot: Robot, defaults: Defaults, settings: CompilerSettings, zeros: dict[str, float]
) -> None:
    """All actuators of a section, in order; ``zeros`` are the coordinates of the file where those of the system are zero."""
    named = {name_of(e) for e in section.children}
    taken = {actuator.name for actuator in robot.actuators}
    for element in section.children:
        e = defaults.apply(element, None)
        target = e.get("joint") or e.get("jointinparent") or e.get("tendon") or e.get("site") or ""
        name = name_of(e) or unused_name(f"{e.tag}_{target}", (taken | named).__contains__)
        if name in taken:
            raise e.error(f"the actuator name {name!r} is taken.")
        taken.add(name)
        robot.commands.append(name)
        law, reason = _law(e)
        if "actuation" in settings.disabled or e.number("group", 0) in settings.silent_groups:
            law, reason = None, "it is switched off in the file"
        if law is not None:
            reason = _transmit(e, name, law, robot, settings, zeros)
        if reason:
            robot.report.lost("actuator", name, e.where, reason)
        else:
            robot.report.represented("actuator", name, e.where, f"input {name!r}")


def _law(e: Element) -> tuple[ActuatorLaw | None, str]:
    """The law of an actuator in the form of <general>, or the reason why it has none."""
    if e.tag not in ACTUATORS:
        raise e.error("is not an actuator.")
    if e.get(UNREAD):
        return None, e.get(UNREAD) or ""
    if e.get("dyntype", "none") not in ("none", *LAGS):
        return None, f"its state is of the kind {e.get('dyntype')!r}"
    gain, bias = e.numbers("gainprm", None, (1.0,)), e.numbers("biasprm", None, (0.0,))
    if e.get("gaintype", "fixed") not in ("fixed", "affine") or (e.get("gaintype") == "affine" and np.any(gain[1:3])):
        return None, "its gain depends on the state"
    g = float(gain[0]) if len(gain) else 1.0
    if e.get("biastype", "none") == "none":
        return ActuatorLaw(g), ""
    if e.get("biastype") != "affine":
        return None, f"its bias is {e.get('biastype')!r}"
    b0, b1, b2 = (*bias[:3].tolist(), 0.0, 0.0, 0.0)[:3]
    if b2 > 0 and g != -b1:
        return None, "its bias pushes along the velocity"
    return ActuatorLaw(g, b0, b1, min(b2, 0.0), max(b2, 0.0)), ""


def _transmit(
    e: Element, name: str, law: ActuatorLaw, robot: Robot, settings: CompilerSettings, zeros: dict[str, float]
) -> str:
    """Add the input; return the reason if it cannot be represented, otherwise an empty text."""
    gear = np.zeros(6)
    given = e.numbers("gear", None, (1.0,))[:6]
    gear[: len(given)] = given
    if law.ratio and e.get("tendon") and any(t.path for t in robot.tendons if t.name == e.get("tendon")):
        return "its damping ratio depends on the inertia along a path"
    made = Actuator(name, (), e.where, lag=_lag(e), command_range=_limits(e, name, robot, settings, zeros))
    if made.lag:
        kind = "integrator" if made.lag == np.inf else f"filter of first order, {made.lag:g} s,"
        note = f"the input is its activation; the {kind} before it is in system.input_lags"
        robot.report.changed("dyntype", name, e.where, note)
    if e.number("delay", 0.0):
        robot.report.lost("delay", name, e.where, "the input acts without delay")
    joint_name = e.get("joint") or e.get("jointinparent")
    if joint_name:
        joint = robot.joints.get(joint_name)
        if joint is None:
            raise e.error(f"names the joint {joint_name!r}, which does not exist.")
        if joint.kind == JointKind.FLOATING or (joint.kind == JointKind.SPHERICAL and not e.get("joint")):
            return "its force is fixed in axes other than those of the joint"
        if joint.kind == JointKind.SPHERICAL and law.has_bias:
            return "the bias of a servo in a ball joint is not read"
        terms = tuple(
            (joint_name, k, law.gain * float(gear[k])) for k in range(3 if joint.kind == JointKind.SPHERICAL else 1)
        )
        along = () if joint.kind == JointKind.SPHERICAL else ((joint_name, 1.0),)
        robot.actuators.append(_limited(replace(made, terms=terms, length=along), law, gear[0], e, robot, settings))
        _bias(law, gear[0], zeros.get(joint_name, 0.0), robot, e, terms=((joint_name, 1.0),), actuator=name)
        _rotor(e, name, gear, robot, terms=((joint_name, 1.0),))
        return ""
    if e.get("tendon"):
        tendon = next((t for t in robot.tendons if t.name == e.get("tendon")), None)
        if tendon is None:
            if any(item.what == "tendon" and item.name == e.get("tendon") for item in robot.report.losses):
                return "its tendon is not represented"
            raise e.error(f"names the tendon {e.get('tendon')!r}, which does not exist.")
        pulls = replace(_on_tendon(made, tendon, law.gain * gear[0]), length=tendon.terms)
        robot.actuators.append(_limited(pulls, law, gear[0], e, robot, settings))
        shift = sum(c * zeros.get(joint, 0.0) for joint, c in tendon.terms)
        _bias(law, gear[0], shift, robot, e, terms=tendon.terms, path=tendon.path, actuator=name)
        _rotor(e, name, gear, robot, terms=tendon.terms, path=tendon.path)
        return ""
    if e.get("site"):
        if e.get("refsite") or law.has_bias:
            return "it has a reference site or a bias"
        if not any(frame.name == e.get("site") for frame in robot.frames):
            raise e.error(f"names the site {e.get('site')!r}, which does not exist.")
        made = replace(made, frame=e.get("site"), wrench=tuple((law.gain * gear).tolist()))
        robot.actuators.append(_limited(made, law, 1.0, e, robot, settings))
        _rotor(e, name, gear, robot)
        return ""
    return "its transmission is not read"


def _lag(e: Element) -> float:
    """Time constant of the state of an actuator: a' = (control - a) / lag; inf for a' = control, 0 for none."""
    kind = e.get("dyntype", "none")
    if kind == "none":
        return 0.0
    return np.inf if kind == "integrator" else max(float((*e.numbers("dynprm", None, (1.0,)), 1.0)[0]), 1e-15)


def _on_tendon(made: Actuator, tendon: Tendon, gear: float) -> Actuator:
    if tendon.path:
        return replace(made, path=tendon.path, gear=float(gear))
    return replace(made, terms=tuple((joint, 0, float(gear) * c) for joint, c in tendon.terms))


def _limits(
    e: Element, name: str, robot: Robot, settings: CompilerSettings, zeros: dict[str, float]
) -> tuple[float, float]:
    """Bounds of the command."""
    if "clampctrl" in settings.disabled:
        return -np.inf, np.inf
    if settings.is_limited(e, "ctrllimited", "ctrlrange"):
        low, high = e.numbers("ctrlrange", 2).tolist()
        return low, high
    return _inherited(e, name, robot, zeros) if e.number("inheritrange", 0.0) else (-np.inf, np.inf)


def _limited(
    made: Actuator, law: ActuatorLaw, gear: float, e: Element, robot: Robot, settings: CompilerSettings
) -> Actuator:
    """The actuator with the bounds of its input: those of the command or the state, and of the force if the input alone determines it."""
    low, high = (-np.inf, np.inf) if made.lag == np.inf else made.command_range
    if made.lag and settings.is_limited(e, "actlimited", "actrange"):
        low, high = e.numbers("actrange", 2).tolist()
    made = replace(made, scale=float(law.gain * gear), ratio=float(gear))
    if settings.is_limited(e, "forcelimited", "forcerange"):
        bounds = sorted(e.numbers("forcerange", 2).tolist())
        if not law.has_bias and law.gain:
            ends = sorted(x / law.gain for x in bounds)
            low, high = max(low, ends[0]), min(high, ends[1])
            robot.report.changed("forcerange", made.name, e.where, "a limit of the input (system.input_limits)")
        elif made.length and law.gain:
            first, second = sorted(float(gear * x) for x in bounds)
            made = replace(made, force_range=(first, second))
            robot.report.changed("forcerange", made.name, e.where, "a limit of the force in system.actuation()")
        else:
            robot.report.lost("forcerange", made.name, e.where, "the force of this servo is not limited here")
    return replace(made, limits=None if low == -np.inf and high == np.inf else (low, high))


def _inherited(e: Element, name: str, robot: Robot, zeros: dict[str, float]) -> tuple[float, float]:
    """The range of the joint in coordinates of the file, widened about its middle by the factor inheritrange."""
    joint = e.get("joint") or e.get("jointinparent") or ""
    limits = robot.joints[joint].limits if joint in robot.joints else None
    if limits is None or limits.lower is None or limits.upper is None:
        robot.report.lost("inheritrange", name, e.where, "the range is not that of a joint")
        return -np.inf, np.inf
    middle = (limits.lower + limits.upper) / 2 + zeros.get(joint, 0.0)
    half = e.number("inheritrange") * (limits.upper - limits.lower) / 2
    return middle - half, middle + half


def limit_joint_forces(robot: Robot, ranges: Mapping[str, tuple[float, float]]) -> None:
    """Bound the total force of the actuators of joints: the only input of a joint by its own limits, others by ``Robot.force_ranges``."""
    for name, bounds in ranges.items():
        acting = [k for k, one in enumerate(robot.actuators) if any(term[0] == name for term in one.terms)]
        alone = [k for k in acting if len(robot.actuators[k].terms) == 1 and robot.actuators[k].terms[0][2] != 0]
        where = robot.joints[name].where
        if not acting:
            continue
        if not alone:
            note = "the total force of inputs that act on several joints is not limited here"
            robot.report.lost("actuatorfrcrange", name, where, note)
            continue
        if len(acting) > 1 or any(
            joint == name for servo in robot.servos for joint, _ in servo.terms if servo.actuator
        ):
            robot.force_ranges[name] = bounds
            robot.report.changed("actuatorfrcrange", name, where, "a limit of the total force in system.actuation()")
            continue
        one = robot.actuators[alone[0]]
        low, high = sorted(bound / one.terms[0][2] for bound in bounds)
        given = one.limits or (-np.inf, np.inf)
        robot.actuators[alone[0]] = replace(one, limits=(max(low, given[0]), min(high, given[1])))
        note = f"a limit of the input {one.name!r} (system.input_limits)"
        robot.report.changed("actuatorfrcrange", name, where, note)


def _rotor(e: Element, name: str, gear: np.ndarray, robot: Robot, terms: tuple = (), path: tuple = ()) -> None:
    """Inertia and damping of the actuator, armature and damping times gear^2 on the length of its transmission."""
    armature, damping = (float(e.number(what, 0.0) * gear[0] ** 2) for what in ("armature", "damping"))
    if damping and (terms or path):
        robot.servos.append(ServoTerm(0.0, damping, 0.0, e.where, terms, path))
    elif damping:
        robot.report.lost("damping", name, e.where, "not of an actuator at a site")
    joint = robot.joints[terms[0][0]] if len(terms) == 1 else None
    if armature and joint is not None and joint.kind != JointKind.SPHERICAL:
        joint.armature += armature * terms[0][1] ** 2
    elif armature:
        robot.report.lost("armature", name, e.where, "only of an actuator that moves one joint of one axis")


def _bias(law: ActuatorLaw, gear: float, shift: float, robot: Robot, e: Element, **on) -> None:
    """gear (b0 + b1 l + b2 l') with l = gear (L + shift): a constant force, a stiffness and a damping on the length L of the system."""
    if law.has_bias:
        constant = float(gear * (law.b0 + law.b1 * gear * shift))
        stiffness, damping = float(-law.b1 * gear * gear), float(-law.b2 * gear * gear)
        robot.servos.append(ServoTerm(stiffness, damping, constant, e.where, **on, ratio=law.ratio))
