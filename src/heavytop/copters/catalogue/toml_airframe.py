"""An airframe from TOML text, checked key by key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from heavytop._toml_lines import Keys, TomlText
from heavytop.control import Sensor, Sensors
from heavytop.copters.airframe import Rotor
from heavytop.copters.battery import Battery
from heavytop.copters.hover_feasibility import check_hover
from heavytop.copters.limbs import Limb, check_limbs
from heavytop.copters.propulsion import TYPICAL_LAG, Propulsion
from heavytop.copters.skids import Skids
from heavytop.copters.stacks import STACKS
from heavytop.copters.vehicle import GRAVITY, Vehicle
from heavytop.copters.vehicles import multicopter
from heavytop.errors import HeavytopError
from heavytop.system.joints import Prismatic, Revolute

REQUIRED = object()


class Field(NamedTuple):
    """A key of a table: test and description of its value, and its default; a field without a default is required."""

    test: Callable[[Any], bool]
    text: str
    default: Any = REQUIRED


def _number(x: Any) -> bool:
    return isinstance(x, int | float) and not isinstance(x, bool) and abs(x) < 2.0**63  # TOML's limit of integers


def _positive(x: Any) -> bool:
    return _number(x) and x > 0


def _not_negative(x: Any) -> bool:
    return _number(x) and x >= 0


def _vector(x: Any, entry: Callable[[Any], bool] = _number) -> bool:
    return isinstance(x, list) and len(x) == 3 and all(map(entry, x))


def _direction(x: Any) -> bool:
    return _vector(x) and any(x)


def _moment(x: Any) -> bool:
    if _vector(x, _vector):
        return bool(np.allclose(x, np.transpose(x)))
    return _vector(x, _positive)


def _bounce(x: Any) -> bool:
    return isinstance(x, list) and len(x) == 2 and all(map(_positive, x)) and x[0] <= 1


def _share(x: Any) -> bool:
    return _positive(x) and x <= 1


def _range(x: Any) -> bool:
    return isinstance(x, list) and len(x) == 2 and all(map(_number, x)) and x[0] < x[1]


def _text(x: Any) -> bool:
    return isinstance(x, str) and bool(x.strip())


def _texts(x: Any) -> bool:
    return isinstance(x, str) or (isinstance(x, list) and all(isinstance(line, str) for line in x))


def _table(x: Any) -> bool:
    return isinstance(x, dict)


def _tables(x: Any) -> bool:
    return isinstance(x, list) and all(map(_table, x))


TOP = {
    "name": Field(_text, "a text"),
    "title": Field(lambda x: isinstance(x, str), "a text", ""),
    "source": Field(_texts, "a text or a list of texts", ()),
    "mass": Field(_positive, "a positive number (kg)"),
    "moment": Field(_moment, "three positive numbers, or a symmetric 3 x 3 matrix (kg m^2)"),
    "com": Field(_vector, "three numbers (m)", [0.0, 0.0, 0.0]),
    "parasitic_drag": Field(
        lambda x: _vector(x, _not_negative), "three non-negative numbers (N/(m/s)^2)", [0.0, 0.0, 0.0]
    ),
    "agility": Field(_positive, "a positive number", 1.0),
    "rotors": Field(_table, "a table [rotors]"),
    "sensors": Field(_table, "a table [sensors]", None),
    "skids": Field(_table, "a table [skids]", None),
    "battery": Field(_table, "a table [battery]", None),
    "limb": Field(_tables, "tables [[limb]]", []),
    "firmware": Field(_table, "tables [firmware.NAME] with settings of a flight stack", {}),
    "rotor": Field(lambda x: _tables(x) and bool(x), "tables [[rotor]]"),
}
ROTORS = {
    "thrust_coefficient": Field(_positive, "a positive number (N/(rad/s)^2)"),
    "torque_coefficient": Field(_not_negative, "a non-negative number (N m/(rad/s)^2)"),
    "speed": Field(_range, "[least, largest] angular velocity (rad/s)"),
    "time_constant": Field(_not_negative, "a non-negative number (s)", TYPICAL_LAG),
    "radius": Field(_positive, "a positive number (m)", 0.1),
    "rotor_drag": Field(_not_negative, "a non-negative number (kg/rad)", 0.0),
    "inflow": Field(_not_negative, "a non-negative number (kg/rad)", 0.0),
    "translational_lift": Field(_not_negative, "a non-negative number (kg/m)", 0.0),
}
SKIDS = {
    "points": Field(
        lambda x: isinstance(x, list) and len(x) > 2 and all(map(_vector, x)),
        "three or more points of three numbers (m)",
    ),
    "radius": Field(_not_negative, "a non-negative number (m)", 0.01),
    "friction": Field(_not_negative, "a non-negative number", 0.6),
    "stiffness": Field(_positive, "a positive number (N/m^1.5)", None),
    "restitution": Field(_bounce, "[coefficient, speed (m/s)]", [0.2, 1.0]),
}
BATTERY = {
    "cells": Field(lambda x: isinstance(x, int) and _positive(x), "a number of cells in series"),
    "capacity": Field(_positive, "a positive number (Ah)"),
    "resistance": Field(_positive, "a positive number (ohm)"),
    "voltage": Field(_positive, "a positive number (V)", None),
    "efficiency": Field(_share, "a number above 0 and at most 1", 0.7),
    "charge": Field(_share, "a number above 0 and at most 1", 1.0),
}
ROTOR = {
    "at": Field(_vector, "three numbers (m)"),
    "axis": Field(_direction, "three numbers, not all zero", [0.0, 0.0, 1.0]),
    "torque": Field(
        lambda x: x in (1, -1, 0) and not isinstance(x, bool), "1, -1 or 0: the sign of the torque on the hull"
    ),
}
LIMB = {
    "name": Field(_text, "a text"),
    "mass": Field(_positive, "a positive number (kg)"),
    "tip": Field(_vector, "three numbers (m)"),
    "parent": Field(lambda x: isinstance(x, str), 'the name of a limb before it, or "hull"', "hull"),
    "at": Field(_vector, "three numbers (m)", None),
    "axis": Field(_direction, "three numbers, not all zero", [0.0, 1.0, 0.0]),
    "slides": Field(lambda x: isinstance(x, bool), "true or false", False),
    "force": Field(_positive, "a positive number (N m, or N if it slides)", np.inf),
    "frequency": Field(_positive, "a positive number (rad/s)", None),
    "angle": Field(_number, "a number (rad, or m if it slides)", 0.0),
    "swing": Field(_number, "a number (rad, or m if it slides)", 0.0),
    "period": Field(_positive, "a positive number (s)", 6.0),
}
"""A joint moves as angle + swing sin(2 pi t / period)."""
_SENSOR = Field(lambda x: x is False or _table(x), "a table with noise, bias and delay, or false if there is none", {})
SENSORS: dict[str, Field] = dict.fromkeys(
    ("position", "attitude", "velocity", "gyro", "accelerometer", "rotor_speeds"), _SENSOR
)
"""Sensors that are not mentioned are perfect."""
SENSOR = {
    "noise": Field(_not_negative, "a non-negative number (standard deviation of a sample)", 0.0),
    "bias": Field(_not_negative, "a non-negative number (standard deviation of a constant error)", 0.0),
    "delay": Field(_not_negative, "a non-negative number (s)", 0.0),
}


class _Airframe(TomlText):
    """A file with checked tables."""

    def table(self, given: Mapping[str, Any], fields: Mapping[str, Field], path: Keys = ()) -> dict[str, Any]:
        """Values of all fields; raises a FileFormatError for unknown, missing and wrong keys."""
        self.check_keys(given, fields, path)
        values = {}
        for key, field in fields.items():
            values[key] = given.get(key, field.default)
            if values[key] is REQUIRED:
                raise self.wrong(path, f"{_table_name(path)} needs the key {key!r}: {field.text}.")
            if key in given and not field.test(given[key]):
                raise self.wrong((*path, key), f"{key!r} must be {field.text}, got {given[key]!r}.")
        return values


def _table_name(path: Keys) -> str:
    if not path:
        return "an airframe"
    if len(path) == 1:
        return f"[{path[0]}]"
    return f"[[{path[0]}]] number {path[1] + 1}" if isinstance(path[1], int) else f"{path[1]!r} in [{path[0]}]"


def read_airframe(text: str, name: str = "airframe.toml") -> Vehicle:
    """The vehicle described by a TOML text.

    Parameters
    ----------
    text : content of the file. name : name of the file, for messages.

    Examples
    --------
    >>> read_airframe("name = 'x'\\nmas = 1.0\\n")
    Traceback (most recent call last):
    heavytop.errors.FileFormatError: airframe.toml, line 2: unknown key 'mas'. Did you mean 'mass'? Known: 'name', ...
    """
    file = _Airframe(text, name)
    top = file.table(file.content, TOP)
    common = file.table(top["rotors"], ROTORS, ("rotors",))
    radius, common["speed"] = common.pop("radius"), tuple(common["speed"])
    propulsion = Propulsion(**common, parasitic_drag=tuple(top["parasitic_drag"]))
    sensors = None if top["sensors"] is None else _sensors(file, top["sensors"])
    rotors = []
    for k, entry in enumerate(top["rotor"]):
        values = file.table(entry, ROTOR, ("rotor", k))
        ratio = values["torque"] * propulsion.drag_ratio
        rotors.append(Rotor(values["at"], values["axis"], ratio, propulsion.thrust_range, radius=radius))
    limbs = _limbs(file, top["limb"])
    skids = None
    if top["skids"] is not None:
        given = file.table(top["skids"], SKIDS, ("skids",))
        skids = Skids(**{**given, "restitution": tuple(given["restitution"])})
    battery = None if top["battery"] is None else Battery(**file.table(top["battery"], BATTERY, ("battery",)))
    firmware = _firmware(file, top["firmware"])
    lift = sum(max(map(abs, rotor.thrust)) for rotor in rotors)
    weight = GRAVITY * (top["mass"] + sum(limb.mass for limb in limbs))
    if lift < weight and np.isfinite(propulsion.drag_ratio):
        raise file.wrong(
            ("rotors", "speed"),
            f"the rotors push with {lift:.3g} N at most, and {top['name']!r} weighs {weight:.3g} N: it cannot fly. Check 'mass' (kg), "
            "'thrust_coefficient' (N/(rad/s)^2) and 'speed' (rad/s, not revolutions per minute).",
        )
    try:
        if not limbs:  # an arm moves the centre of mass
            check_hover(top["name"], rotors, weight, top["com"])
    except HeavytopError as error:
        raise file.wrong(("rotor", 0), str(error)) from None
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
            skids=skids,
            battery=battery,
            firmware=firmware,
        )
    except HeavytopError as error:
        raise file.wrong(("moment",), str(error)) from None


def _firmware(file: _Airframe, given: Mapping[str, Any]) -> dict[str, dict[str, float | str]]:
    """Settings of the tables [firmware.NAME]."""
    file.check_keys(given, dict.fromkeys(STACKS), ("firmware",))
    for name, table in given.items():
        if not _table(table):
            raise file.wrong(("firmware", name), f"[firmware.{name}] must be a table of settings, got {table!r}.")
        for key, value in table.items():
            if not (_number(value) or _text(value)):
                raise file.wrong(("firmware", name, key), f"{key!r} must be a number or a text, got {value!r}.")
    return {name: dict(table) for name, table in given.items()}


def _limbs(file: _Airframe, given: list[Mapping[str, Any]]) -> list[Limb]:
    """The limbs of tables [[limb]]."""
    found: list[Limb] = []
    for k, entry in enumerate(given):
        v = file.table(entry, LIMB, ("limb", k))
        joint = Prismatic(v["axis"]) if v["slides"] else Revolute(v["axis"])
        path = _swinging(v["angle"], v["swing"], v["period"]) if v["swing"] else v["angle"]
        kept = {key: v[key] for key in ("tip", "parent", "at", "force", "frequency")}
        known = {"hull", *(limb.name for limb in found)}
        try:
            found = list(check_limbs([*found, Limb(v["name"], v["mass"], joint=joint, path=path, **kept)]))
        except HeavytopError as error:
            raise file.wrong(("limb", k, "name" if v["parent"] in known else "parent"), str(error)) from None
    return found


def _swinging(angle: float, swing: float, period: float) -> Callable[[Any], Any]:
    return lambda t: angle + swing * np.sin(2 * np.pi * t / period)


def _sensors(file: _Airframe, given: Mapping[str, Any]) -> Sensors:
    """The sensors of a table [sensors]."""
    found: dict[str, Sensor | None] = {}
    for name, entry in file.table(given, SENSORS, ("sensors",)).items():
        if entry is False:
            if name not in ("accelerometer", "rotor_speeds"):
                raise file.wrong(("sensors", name), f"{name!r} must be measured: a law needs the whole state.")
            found[name] = None
        else:
            found[name] = Sensor(**file.table(entry, SENSOR, ("sensors", name)))
    return Sensors(**found)  # pyright: ignore[reportArgumentType]
