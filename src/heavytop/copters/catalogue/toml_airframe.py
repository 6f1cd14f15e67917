"""An airframe from TOML text, checked key by key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, NamedTuple

import numpy as np

from heavytop._toml_lines import Path, TomlText
from heavytop.control.observers.sensors import Sensor, Sensors
from heavytop.copters.airframe import Rotor
from heavytop.copters.hover_feasibility import check_hover
from heavytop.copters.limbs import Limb, check_limbs
from heavytop.copters.propulsion import TYPICAL_LAG, Propulsion
from heavytop.copters.vehicle import GRAVITY, Vehicle
from heavytop.copters.vehicles import multicopter
from heavytop.errors import HeavytopError
from heavytop.system.joints import Prismatic, Revolute


class Field(NamedTuple):
    """What a key must hold: a test, words for it, whether it may be left out and what it is then."""

    test: Callable[[Any], bool]
    words: str
    required: bool = True
    default: Any = None


def _number(x: Any) -> bool:
    return (
        isinstance(x, int | float) and not isinstance(x, bool) and abs(x) < 2.0**63
    )  # TOML's own limit for whole numbers


def _positive(x: Any) -> bool:
    return _number(x) and x > 0


def _not_negative(x: Any) -> bool:
    return _number(x) and x >= 0


def _vector(x: Any) -> bool:
    return isinstance(x, list) and len(x) == 3 and all(map(_number, x))


def _drag(x: Any) -> bool:
    return _vector(x) and all(map(_not_negative, x))


def _moment(x: Any) -> bool:
    if isinstance(x, list) and len(x) == 3 and all(isinstance(row, list) for row in x):
        return all(map(_vector, x)) and bool(np.allclose(x, np.transpose(x)))
    return _vector(x) and all(map(_positive, x))


def _range(x: Any) -> bool:
    return isinstance(x, list) and len(x) == 2 and all(map(_number, x)) and x[0] < x[1]


def _texts(x: Any) -> bool:
    return isinstance(x, str) or (isinstance(x, list) and all(isinstance(line, str) for line in x))


TOP = {
    "name": Field(lambda x: isinstance(x, str) and bool(x.strip()), "a text"),
    "title": Field(lambda x: isinstance(x, str), "a text", False, ""),
    "source": Field(_texts, "a text or a list of texts", False, ()),
    "mass": Field(_positive, "a positive number (kg)"),
    "moment": Field(_moment, "three positive numbers, or a symmetric 3 x 3 matrix (kg m^2)"),
    "com": Field(_vector, "three numbers (m)", False, [0.0, 0.0, 0.0]),
    "parasitic_drag": Field(_drag, "three non-negative numbers (N/(m/s)^2)", False, [0.0, 0.0, 0.0]),
    "agility": Field(_positive, "a positive number", False, 1.0),
    "rotors": Field(lambda x: isinstance(x, dict), "a table [rotors]"),
    "sensors": Field(lambda x: isinstance(x, dict), "a table [sensors]", False, None),
    "limb": Field(lambda x: isinstance(x, list) and all(isinstance(r, dict) for r in x), "tables [[limb]]", False, []),
    "rotor": Field(
        lambda x: isinstance(x, list) and bool(x) and all(isinstance(r, dict) for r in x), "tables [[rotor]]"
    ),
}
ROTORS = {
    "thrust_coefficient": Field(_positive, "a positive number (N/(rad/s)^2)"),
    "torque_coefficient": Field(_not_negative, "a non-negative number (N m/(rad/s)^2)"),
    "speed": Field(_range, "[least, largest] angular velocity (rad/s)"),
    "time_constant": Field(_not_negative, "a non-negative number (s)", False, TYPICAL_LAG),
    "radius": Field(_positive, "a positive number (m)", False, 0.1),
    "rotor_drag": Field(_not_negative, "a non-negative number (kg/rad)", False, 0.0),
    "inflow": Field(_not_negative, "a non-negative number (kg/rad)", False, 0.0),
    "translational_lift": Field(_not_negative, "a non-negative number (kg/m)", False, 0.0),
}
ROTOR = {
    "at": Field(_vector, "three numbers (m)"),
    "axis": Field(lambda x: _vector(x) and any(x), "three numbers, not all zero", False, [0.0, 0.0, 1.0]),
    "torque": Field(
        lambda x: x in (1, -1, 0) and not isinstance(x, bool), "1, -1 or 0: the sign of the torque on the hull"
    ),
}


LIMB = {
    "name": Field(lambda x: isinstance(x, str) and bool(x.strip()), "a text"),
    "mass": Field(_positive, "a positive number (kg)"),
    "tip": Field(_vector, "three numbers (m)"),
    "parent": Field(lambda x: isinstance(x, str), 'the name of a limb before it, or "hull"', False, "hull"),
    "at": Field(_vector, "three numbers (m)", False, None),
    "axis": Field(lambda x: _vector(x) and any(x), "three numbers, not all zero", False, [0.0, 1.0, 0.0]),
    "slides": Field(lambda x: isinstance(x, bool), "true or false", False, False),
    "force": Field(_positive, "a positive number (N m, or N if it slides)", False, np.inf),
    "frequency": Field(_positive, "a positive number (rad/s)", False, None),
    "angle": Field(_number, "a number (rad, or m if it slides)", False, 0.0),
    "swing": Field(_number, "a number (rad, or m if it slides)", False, 0.0),
    "period": Field(_positive, "a positive number (s)", False, 6.0),
}
"""A joint moves as angle + swing sin(2 pi t / period)."""
SENSORS = {
    name: Field(
        lambda x: x is False or isinstance(x, dict),
        "a table with noise, bias and delay, or false if there is none",
        False,
        {},
    )
    for name in ("position", "attitude", "velocity", "gyro", "accelerometer", "rotor_speeds")
}
"""What is not mentioned is perfect."""
SENSOR = {
    "noise": Field(_not_negative, "a non-negative number (standard deviation of a sample)", False, 0.0),
    "bias": Field(_not_negative, "a non-negative number (standard deviation of a constant error)", False, 0.0),
    "delay": Field(_not_negative, "a non-negative number (s)", False, 0.0),
}


class _Checker(TomlText):
    """Checks tables of one file against fields."""

    def table(self, given: Mapping[str, Any], fields: Mapping[str, Field], path: Path = ()) -> dict[str, Any]:
        """Values of all fields; unknown, missing and wrong keys are errors."""
        for key in given:
            if key not in fields:
                near = get_close_matches(key, fields, n=1)
                hint = f" Did you mean {near[0]!r}?" if near else f" Known here: {', '.join(fields)}."
                raise self.wrong((*path, key), f"unknown key {key!r}.{hint}")
        result = {}
        for key, field in fields.items():
            if key not in given:
                if field.required:
                    raise self.wrong(path, f"{_spoken(path)} needs the key {key!r}: {field.words}.")
                result[key] = field.default
                continue
            if not field.test(given[key]):
                raise self.wrong((*path, key), f"{key!r} must be {field.words}, got {given[key]!r}.")
            result[key] = given[key]
        return result


def _spoken(path: Path) -> str:
    if not path:
        return "an airframe"
    if len(path) == 1:
        return f"[{path[0]}]"
    return f"[[{path[0]}]] number {path[1] + 1}" if isinstance(path[1], int) else f"{path[1]!r} in [{path[0]}]"


def read_airframe(text: str, name: str = "airframe.toml") -> Vehicle:
    """The vehicle that a TOML text describes.

    Parameters
    ----------
    text : content of the file. name : of the file, for messages.

    Examples
    --------
    >>> read_airframe("name = 'x'\\nmas = 1.0\\n")
    Traceback (most recent call last):
    heavytop.errors.FileFormatError: airframe.toml, line 2: unknown key 'mas'. Did you mean 'mass'?
    """
    checker = _Checker(text, name)
    top = checker.table(checker.content, TOP)
    common = checker.table(top["rotors"], ROTORS, ("rotors",))
    propulsion = Propulsion(
        thrust_coefficient=common["thrust_coefficient"],
        torque_coefficient=common["torque_coefficient"],
        speed=tuple(common["speed"]),
        time_constant=common["time_constant"],
        rotor_drag=common["rotor_drag"],
        inflow=common["inflow"],
        translational_lift=common["translational_lift"],
        parasitic_drag=tuple(top["parasitic_drag"]),
    )
    sensors = None if top["sensors"] is None else _sensors(checker, top["sensors"])
    rotors = []
    for k, entry in enumerate(top["rotor"]):
        values = checker.table(entry, ROTOR, ("rotor", k))
        ratio = values["torque"] * propulsion.drag_ratio
        rotors.append(Rotor(values["at"], values["axis"], ratio, propulsion.thrust_range, radius=common["radius"]))
    limbs = _limbs(checker, top["limb"])
    lift = sum(max(map(abs, rotor.thrust)) for rotor in rotors)
    weight = GRAVITY * (top["mass"] + sum(limb.mass for limb in limbs))
    if lift < weight and np.isfinite(propulsion.drag_ratio):
        raise checker.wrong(
            ("rotors", "speed"),
            f"the rotors push with {lift:.3g} N at most, and {top['name']!r} weighs {weight:.3g} N: it cannot fly. Check 'mass' (kg), "
            "'thrust_coefficient' (N/(rad/s)^2) and 'speed' (rad/s, not revolutions per minute).",
        )
    try:
        if not limbs:  # an arm moves the centre of mass
            check_hover(top["name"], rotors, weight, top["com"])
    except HeavytopError as error:
        raise checker.wrong(("rotor", 0), str(error)) from None
    try:
        return multicopter(
            rotors,
            top["mass"],
            top["moment"],
            com=top["com"],
            agility=top["agility"],
            name=top["name"],
            propulsion=propulsion,
            sensors=sensors,
            limbs=limbs,
        )
    except HeavytopError as error:
        raise checker.wrong(("moment",), str(error)) from None


def _limbs(checker: _Checker, given: list[Mapping[str, Any]]) -> list[Limb]:
    """The limbs of tables [[limb]]."""
    found: list[Limb] = []
    for k, entry in enumerate(given):
        v = checker.table(entry, LIMB, ("limb", k))
        joint = Prismatic(v["axis"]) if v["slides"] else Revolute(v["axis"])
        path = _swinging(v["angle"], v["swing"], v["period"]) if v["swing"] else v["angle"]
        kept = {key: v[key] for key in ("tip", "parent", "at", "force", "frequency")}
        known = {"hull", *(limb.name for limb in found)}
        try:
            found = list(check_limbs([*found, Limb(v["name"], v["mass"], joint=joint, path=path, **kept)]))
        except HeavytopError as error:
            raise checker.wrong(("limb", k, "name" if v["parent"] in known else "parent"), str(error)) from None
    return found


def _swinging(angle: float, swing: float, period: float) -> Callable[[Any], Any]:
    return lambda t: angle + swing * np.sin(2 * np.pi * t / period)


def _sensors(checker: _Checker, given: Mapping[str, Any]) -> Sensors:
    """The sensors of a table [sensors]."""
    found: dict[str, Sensor | None] = {}
    for name, entry in checker.table(given, SENSORS, ("sensors",)).items():
        if entry is False:
            if name not in ("accelerometer", "rotor_speeds"):
                raise checker.wrong(("sensors", name), f"{name!r} must be measured: a law needs the whole state.")
            found[name] = None
        else:
            found[name] = Sensor(**checker.table(entry, SENSOR, ("sensors", name)))
    return Sensors(**found)  # pyright: ignore[reportArgumentType]
