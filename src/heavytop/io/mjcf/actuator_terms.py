"""Actuators of MJCF in one form: <motor>, <position> and <velocity> are <general> with certain parameters, also in defaults.

force = (g0 + g1 l + g2 l') control + b0 + b1 l + b2 l'     with l = gear length of the transmission
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from heavytop.io.xml_elements import Element

ACTUATORS = ("motor", "position", "velocity", "general", "damper")
ACTUATORS += ("cylinder", "muscle", "adhesion", "intvelocity", "dcmotor", "plugin")  # not read
"""Tags of actuators; they share their defaults."""
MERGED = ("size", "gear", "gainprm", "biasprm", "dynprm")
"""Attributes whose trailing numbers may be left to the class."""
KIND = "kind"
"""Internal attribute: the tag from which the parameters come."""
UNREAD = "unread"
"""Internal attribute: the reason why an actuator cannot be an input."""


def merged(inherited: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Attributes of an element over those of its class."""
    result = {**inherited, **own}
    for name in MERGED:
        if name in inherited and name in own:
            given = own[name].split()
            result[name] = " ".join([*given, *inherited[name].split()[len(given) :]])
    return result


def as_general(e: Element, classes: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Attributes of an actuator as those of <general>; ``classes`` are those of its class and of the enclosing classes, in this form."""
    inherited: Mapping[str, str] = classes[0] if classes else {}
    # gains are inherited from actuators of the same kind
    alike = next((given for given in classes if given.get(KIND) in ("general", e.tag)), {})
    own = {name: value for name, value in e.attributes.items() if name != "class"}
    result = merged(inherited, own) | {KIND: e.tag}
    if e.tag != "general":
        result.pop(UNREAD, None)
    if e.tag == "motor":
        result |= {"gaintype": "fixed", "gainprm": "1", "biastype": "none", "biasprm": "0 0 0", "dyntype": "none"}
    elif e.tag == "position":
        kp, kv = e.number("kp", _at(alike, "gainprm", 0, 1.0)), e.number("kv", -_at(alike, "biasprm", 2, 0.0))
        if "kv" in own and kv < 0:
            raise e.error(f"kv must not be negative, got {kv:g}.")
        result |= {"gaintype": "fixed", "gainprm": f"{kp!r}", "biastype": "affine", "biasprm": f"0 {-kp!r} {-kv!r}"}
        if e.number("timeconst", 0.0):
            result["dyntype"] = "filterexact"
    elif e.tag == "velocity":
        kv = e.number("kv", _at(alike, "gainprm", 0, 1.0))
        result |= {"gaintype": "fixed", "gainprm": f"{kv!r}", "biastype": "affine", "biasprm": f"0 0 {-kv!r}"}
        result["dyntype"] = "none"
    elif e.tag == "damper":
        result[UNREAD] = "its input is a damping coefficient"
    elif e.tag != "general":
        result[UNREAD] = f"actuators of the kind {e.tag!r} are not read"
    return result


def _at(attributes: Mapping[str, str], name: str, index: int, default: float) -> float:
    values = attributes.get(name, "").split()
    try:
        return float(values[index]) if index < len(values) else default
    except ValueError:
        return default  # an error where the default itself is read
