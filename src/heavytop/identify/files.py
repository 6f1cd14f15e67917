"""Identified values in the files that vehicles and robots come from: airframe TOML and URDF."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._files import write_whole
from heavytop._toml_lines import read_text
from heavytop.copters import CommandPlant
from heavytop.errors import FileFormatError
from heavytop.system import Model

if TYPE_CHECKING:
    from heavytop.identify.result import Identification


def save(found: Identification, path: str | Path, airframe: str | Path | None) -> Path:
    """Write the values as airframe (``.toml``, from the text of another one) or robot (``.urdf``)."""
    target = Path(path)
    if target.suffix.lower() == ".toml":
        if not isinstance(found.model, CommandPlant):
            raise FileFormatError(
                "an airframe is written from the result of identify_copter; other models are saved as .urdf."
            )
        if airframe is None:
            raise FileFormatError(
                "give airframe=, the TOML file with rotors, names and everything that was not identified."
            )
        text = airframe_text(found, read_text(airframe, "airframe"))
        write_whole(target, text, "airframe.toml")
        return target
    if target.suffix.lower() == ".urdf":
        if not isinstance(found.model, Model):
            raise FileFormatError(f"a URDF is written from a derived model, got {type(found.model).__name__}.")
        d, known = found.model.description, found.parameters
        parameters = tuple(replace(p, value=known.get(p.name, p.value)) for p in d.parameters)
        Model(replace(d, parameters=parameters), native=False).to_urdf(target)
        return target
    raise FileFormatError(f"identified values are saved as .toml (airframes) or .urdf, got {str(path)!r}.")


def airframe_text(found: Identification, text: str) -> str:
    """The text of an airframe with identified values: moments, thrust and torque coefficients, time constant, drag."""
    plant: CommandPlant = found.model
    p = dict(zip(plant.parameter_names, plant.parameter_vector().tolist(), strict=True)) | found.parameters
    propulsion = plant.vehicle.propulsion
    if propulsion is None:
        raise FileFormatError(f"{plant.vehicle.name!r} was not read from an airframe file.")
    count, top = len(plant.vehicle.airframe.rotors), propulsion.speed[1]
    coefficient = p["thrust"] / top**2
    hover = np.sqrt(p["mass"] * 9.81 / count / coefficient)
    ratio = p["torque_ratio"] if p["torque_ratio"] > 0 else propulsion.drag_ratio
    top_keys: dict[str, Any] = {"moment": _moments(p["moment_x"], p["moment_y"], p["moment_z"], plant)}
    if "com_x" in found.values:
        com = plant.hull.com
        top_keys["com"] = [float(com[0]) + p["com_x"], float(com[1]) + p["com_y"], float(com[2])]
    rotor_keys: dict[str, Any] = {
        "thrust_coefficient": coefficient,
        "torque_coefficient": coefficient * ratio,
        "rotor_drag": 0.5 * (p["drag_x"] + p["drag_y"]) / (count * hover),
        "inflow": p["drag_z"] / (count * hover),
    }
    if "lag" in found.values and "lag" not in found.at_bounds:
        rotor_keys["time_constant"] = found.values["lag"]
    text = _with_keys(text, None, top_keys)
    return _with_keys(text, "rotors", rotor_keys)


def _moments(x: float, y: float, z: float, plant: CommandPlant) -> list[float]:
    """Moments of a body: that about z, which flights do not determine, keeps its ratio to the others; equal ones if a flat body has no such."""
    before = np.diag(plant.hull.moment)
    z = z * (x + y) / float(before[0] + before[1])
    if 2 * max(x, y, z) >= x + y + z:
        x = y = 0.5 * (x + y)
    return [x, y, z]


def _with_keys(text: str, table: str | None, values: dict[str, Any]) -> str:
    """TOML text with other values of some keys of a table; missing keys are added."""
    lines = text.splitlines()
    heads = [k for k, line in enumerate(lines) if re.match(r"^\s*\[", line)]
    if table is None:
        first, last = 0, heads[0] if heads else len(lines)
    else:
        first = next(k + 1 for k in heads if re.match(rf"^\s*\[\s*{table}\s*\]", lines[k]))
        last = next((k for k in heads if k >= first), len(lines))
    for key, value in values.items():
        line = f"{key} = {_number(value)}"
        place = next((k for k in range(first, last) if re.match(rf"^\s*{key}\s*=", lines[k])), None)
        if place is None:
            while last > first and not lines[last - 1].strip():
                last -= 1
            lines.insert(last, line)
            last += 1
        else:
            lines[place] = line
    return "\n".join(lines) + "\n"


def _number(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ", ".join(_number(x) for x in value) + "]"
    return f"{float(value):.9g}" if float(value) != int(value) or abs(value) > 1e15 else f"{float(value):.1f}"
