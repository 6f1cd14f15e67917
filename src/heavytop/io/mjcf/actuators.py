"""Actuators of MJCF as inputs: gain times control, with the state-dependent part as a separate spring and damper."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from heavytop.io.mjcf.document import ACTUATORS, UNREAD, CompilerSettings, Defaults, name_of
from heavytop.io.renaming import unused_name
from heavytop.io.robot import Actuator, JointKind, Robot, ServoTerm, Tendon
from heavytop.io.xml_elements import Element


@dataclass(frozen=True)
class ActuatorLaw:
    """force = gain control + b0 + b1 length + b2 velocity of the transmission."""

    gain: float
    b0: float = 0.0
    b1: float = 0.0
    b2: float = 0.0

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
        law, reason = _law(e)
        if "actuation" in settings.disabled or e.number("group", 0) in settings.silent_groups:
            law, reason = None, "it is switched off in the file"
        if law is not None:
            reason = _transmit(e, name, law, robot, zeros)
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
    if e.get("dyntype", "none") != "none":
        return None, "it has its own state"
    if e.number("dampratio", 0.0):
        return None, "its damping ratio depends on the inertia at the initial configuration"
    gain, bias = e.numbers("gainprm", None, (1.0,)), e.numbers("biasprm", None, (0.0,))
    if e.get("gaintype", "fixed") not in ("fixed", "affine") or (e.get("gaintype") == "affine" and np.any(gain[1:3])):
        return None, "its gain depends on the state"
    g = float(gain[0]) if len(gain) else 1.0
    if e.get("biastype", "none") == "none":
        return ActuatorLaw(g), ""
    if e.get("biastype") != "affine":
        return None, f"its bias is {e.get('biastype')!r}"
    b0, b1, b2 = (*bias[:3].tolist(), 0.0, 0.0, 0.0)[:3]
    if b2 > 0:
        known = "its damping ratio depends on the inertia at the initial configuration"
        return None, known if g == -b1 else "its bias pushes along the velocity"
    return ActuatorLaw(g, b0, b1, b2), ""


def _transmit(e: Element, name: str, law: ActuatorLaw, robot: Robot, zeros: dict[str, float]) -> str:
    """Add the input; return the reason if it cannot be represented, otherwise an empty text."""
    gear = np.zeros(6)
    given = e.numbers("gear", None, (1.0,))[:6]
    gear[: len(given)] = given
    made = Actuator(name, (), e.where, limits=_limits(e, name, law, robot))
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
        robot.actuators.append(replace(made, terms=terms))
        _bias(law, gear[0], zeros.get(joint_name, 0.0), robot, e, terms=((joint_name, 1.0),))
        return ""
    if e.get("tendon"):
        tendon = next((t for t in robot.tendons if t.name == e.get("tendon")), None)
        if tendon is None:
            if any(item.what == "tendon" and item.name == e.get("tendon") for item in robot.report.losses):
                return "its tendon is not represented"
            raise e.error(f"names the tendon {e.get('tendon')!r}, which does not exist.")
        robot.actuators.append(_on_tendon(made, tendon, law.gain * gear[0]))
        shift = sum(c * zeros.get(joint, 0.0) for joint, c in tendon.terms)
        _bias(law, gear[0], shift, robot, e, terms=tendon.terms, path=tendon.path)
        return ""
    if e.get("site"):
        if e.get("refsite") or law.has_bias:
            return "it has a reference site or a bias"
        if not any(frame.name == e.get("site") for frame in robot.frames):
            raise e.error(f"names the site {e.get('site')!r}, which does not exist.")
        robot.actuators.append(replace(made, frame=e.get("site"), wrench=tuple((law.gain * gear).tolist())))
        return ""
    return "its transmission is not read"


def _on_tendon(made: Actuator, tendon: Tendon, gear: float) -> Actuator:
    if tendon.path:
        return replace(made, path=tendon.path, gear=float(gear))
    return replace(made, terms=tuple((joint, 0, float(gear) * c) for joint, c in tendon.terms))


def _limits(e: Element, name: str, law: ActuatorLaw, robot: Robot) -> tuple[float, float] | None:
    """Bounds of the input: of the control, and of the force if the control alone determines it."""
    low, high = -np.inf, np.inf
    if e.get("ctrlrange") is not None and e.get("ctrllimited", "auto") != "false":
        low, high = e.numbers("ctrlrange", 2).tolist()
    if e.get("forcerange") is not None and e.get("forcelimited", "auto") != "false":
        if law.has_bias or law.gain == 0:
            robot.report.lost("forcerange", name, e.where, "the force of a servo is not limited here")
        else:
            ends = sorted(e.numbers("forcerange", 2) / law.gain)
            low, high = max(low, float(ends[0])), min(high, float(ends[1]))
            robot.report.changed("forcerange", name, e.where, "a limit of the input (system.input_limits)")
    return None if low == -np.inf and high == np.inf else (low, high)


def _bias(law: ActuatorLaw, gear: float, shift: float, robot: Robot, e: Element, **on) -> None:
    """gear (b0 + b1 l + b2 l') with l = gear (L + shift): a constant force, a stiffness and a damping on the length L of the system."""
    if law.has_bias:
        constant = float(gear * (law.b0 + law.b1 * gear * shift))
        stiffness, damping = float(-law.b1 * gear * gear), float(-law.b2 * gear * gear)
        robot.servos.append(ServoTerm(stiffness, damping, constant, e.where, **on))
