"""Actuators of MJCF as inputs: gain times control, and the part that depends on the state as springs and dampers in joints."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heavytop.io.mjcf.document import Defaults
from heavytop.io.robot import FLOATING, SPHERICAL, Actuator, Robot, ServoSpring
from heavytop.io.xml_source import Element

LAWS = ("motor", "position", "velocity", "general", "damper")


@dataclass(frozen=True)
class ActuatorLaw:
    """force = gain control + b0 + b1 length + b2 velocity of the transmission."""

    gain: float
    b0: float = 0.0
    b1: float = 0.0
    b2: float = 0.0


def read_actuators(section: Element, robot: Robot, defaults: Defaults, zeros: dict[str, float]) -> None:
    """All actuators of a section, in order."""
    names = {actuator.name for actuator in robot.actuators}
    for element in section.children:
        e = defaults.apply(element, None)
        target = e.get("joint") or e.get("jointinparent") or e.get("tendon") or e.get("site") or ""
        name = (e.get("name") or "").strip() or f"{e.tag}_{target}"
        if name in names:
            raise e.error(f"the actuator name {name!r} is taken.")
        names.add(name)
        law, reason = _law(e)
        if law is None:
            robot.report.lost("actuator", name, e.where, reason)
            continue
        reason = _transmit(e, name, law, robot, zeros)
        if reason:
            robot.report.lost("actuator", name, e.where, reason)
        else:
            robot.report.represented("actuator", name, e.where, f"input {name!r}")


def _law(e: Element) -> tuple[ActuatorLaw | None, str]:
    if e.tag not in LAWS:
        return None, f"actuators of the kind {e.tag!r} are not read"
    if e.get("dyntype", "none") != "none" or e.number("timeconst", 0.0):
        return None, "it has a state of its own"
    if e.tag == "motor":
        return ActuatorLaw(1.0), ""
    if e.tag == "position":
        if e.number("dampratio", 0.0):
            return None, "its damping ratio depends on the inertia at the start"
        kp = e.number("kp", 1.0)
        return ActuatorLaw(kp, 0.0, -kp, -e.number("kv", 0.0)), ""
    if e.tag == "velocity":
        kv = e.number("kv", 1.0)
        return ActuatorLaw(kv, 0.0, 0.0, -kv), ""
    if e.tag == "damper":
        return None, "its input changes a damping"
    gain, bias = e.numbers("gainprm", None, (1.0,)), e.numbers("biasprm", None, (0.0,))
    if e.get("gaintype", "fixed") != "fixed" and np.any(gain[1:]):
        return None, "its gain depends on the state"
    if e.get("biastype", "none") == "none":
        return ActuatorLaw(float(gain[0])), ""
    if e.get("biastype") != "affine":
        return None, f"its bias is {e.get('biastype')!r}"
    b0, b1, b2 = (*bias[:3].tolist(), 0.0, 0.0, 0.0)[:3]
    return ActuatorLaw(float(gain[0]), b0, b1, b2), ""


def _transmit(e: Element, name: str, law: ActuatorLaw, robot: Robot, zeros: dict[str, float]) -> str:
    """Add the input; the reason why not, or an empty text."""
    gear = np.zeros(6)
    given = e.numbers("gear", None, (1.0,))[:6]
    gear[: len(given)] = given
    limits = None
    if e.get("ctrlrange") is not None and e.get("ctrllimited", "auto") != "false":
        low, high = e.numbers("ctrlrange", 2).tolist()
        limits = (low, high)
    joint_name = e.get("joint") or e.get("jointinparent")
    if joint_name:
        joint = robot.joints.get(joint_name)
        if joint is None:
            raise e.error(f"names the joint {joint_name!r}, which does not exist.")
        if joint.kind == FLOATING or (joint.kind == SPHERICAL and not e.get("joint")):
            return "its force is fixed in other axes than those of the joint"
        terms = tuple((joint_name, k, law.gain * float(gear[k])) for k in range(3 if joint.kind == SPHERICAL else 1))
        if joint.kind == SPHERICAL and (law.b0 or law.b1 or law.b2):
            return "the bias of a servo in a ball joint is not read"
        _bias(law, [(joint_name, float(gear[0]))], robot, zeros, e)
        robot.actuators.append(Actuator(name, terms, e.where, limits=limits))
        return ""
    if e.get("tendon"):
        tendon = next((t for t in robot.tendons if t.name == e.get("tendon")), None)
        if tendon is None:
            raise e.error(f"names the tendon {e.get('tendon')!r}, which does not exist.")
        if not tendon.terms:
            return "it pulls a spatial tendon"
        if law.b0 or law.b1 or law.b2:
            return "the bias of a servo on a tendon is not read"
        terms = tuple((joint, 0, law.gain * float(gear[0]) * c) for joint, c in tendon.terms)
        robot.actuators.append(Actuator(name, terms, e.where, limits=limits))
        return ""
    if e.get("site"):
        if e.get("refsite") or law.b0 or law.b1 or law.b2:
            return "it has a reference site or a bias"
        if not any(frame.name == e.get("site") for frame in robot.frames):
            raise e.error(f"names the site {e.get('site')!r}, which does not exist.")
        wrench = tuple((law.gain * gear).tolist())
        robot.actuators.append(Actuator(name, (), e.where, e.get("site"), wrench, limits))
        return ""
    return "its transmission is not read"


def _bias(law: ActuatorLaw, terms: list[tuple[str, float]], robot: Robot, zeros: dict[str, float], e: Element) -> None:
    """b0 + b1 l + b2 l' with l = gear q as a spring -k (q - rest) and a damper in the joint."""
    if not (law.b0 or law.b1 or law.b2):
        return
    ((joint, gear),) = terms
    stiffness, damping = -law.b1 * gear * gear, -law.b2 * gear * gear
    if stiffness == 0 and law.b0:
        raise e.error("a constant bias without a stiffness is not read.")
    if stiffness < 0 or damping < 0:
        raise e.error("a bias that pushes away (negative stiffness or damping) is not read.")
    rest = gear * law.b0 / stiffness - zeros.get(joint, 0.0) if stiffness else 0.0
    robot.springs.append(ServoSpring(joint, stiffness, rest, damping, e.where))
