"""Planning problems in TOML files.

    system = "quadcopter"          # a built-in system; absent: the vehicle that flies it
    steps = 80
    duration = "free"              # seconds, [shortest, longest], or "free"
    limits = [0.0, 7.0]            # of all inputs, or a table: limits = { F_1 = [0, 7], "hull.v_x" = [-9, 9] }
    cost = { time = 1.0, effort = 1e-4 }

    [goal]
    position = [12.0, 0.0, 1.0]    # of the first free body; or q = [...] with v = [...]

    [[gate]]
    frame = "hull"
    at = [3.0, 2.0, 1.0]

Further constraints are ``[[keep_out]]`` (center, radius, frame), ``[[box]]`` (lower, upper, frame), ``[[half_space]]`` (normal, distance,
frame), ``[[cone]]`` (frame, degrees) and ``[[between]]`` (name, lower, upper).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from heavytop import library
from heavytop._toml_lines import TomlText, read_text
from heavytop.control.needed import needed_inputs
from heavytop.coordinates import Pose
from heavytop.errors import FileFormatError, HeavytopError
from heavytop.plan.constraints import Between, Cone, Constraint, Gate, HalfSpace, KeepIn, KeepOut
from heavytop.plan.costs import Cost, Effort, Jerk, Speed, Time
from heavytop.plan.keep_out_box import KeepOutBox
from heavytop.plan.problems import Task
from heavytop.system.model import Model

TOP = (
    "system", "start", "goal", "duration", "steps", "limits", "rates", "reserve", "cost", "guesses", "inputs", "method", "tolerance", "periodic",
    "gate", "keep_out", "box", "half_space", "cone", "between",
)  # fmt: skip


@dataclass(frozen=True)
class _Kind:
    """How a table of a constraint becomes one."""

    make: Callable[..., Constraint]
    needed: tuple[str, ...]
    allowed: tuple[str, ...] = ()


def _cone(frame: str, degrees: float, axis: Any = (0.0, 0.0, 1.0), about: Any = (0.0, 0.0, 1.0)) -> Cone:
    return Cone(frame, float(np.radians(degrees)), axis, about)


KINDS = {
    "gate": _Kind(Gate, ("frame", "at"), ("offset", "radius")),
    "keep_out": _Kind(KeepOut, ("center", "radius", "frame"), ("offset",)),
    "keep_out_box": _Kind(KeepOutBox, ("lower", "upper", "frame"), ("offset",)),
    "box": _Kind(KeepIn, ("lower", "upper", "frame"), ("offset",)),
    "half_space": _Kind(HalfSpace, ("normal", "distance", "frame"), ("offset",)),
    "cone": _Kind(_cone, ("frame", "degrees"), ("axis", "about")),
    "between": _Kind(Between, ("name",), ("lower", "upper")),
}


def read_study(path: str | Path, model: Model | None = None) -> Task:
    """The problem of a TOML file.

    Parameters
    ----------
    model : to plan for; None: the built-in system that the file names.

    Raises
    ------
    FileFormatError
        The file is not TOML, or a key or value has no meaning; the message names it.
    """
    file = TomlText(read_text(path, "study"), str(path))
    data = file.content
    file.check_keys(data, TOP)
    if model is None:
        name = data.get("system")
        if not isinstance(name, str):
            raise FileFormatError(
                f'{path}: system = "NAME" is missing. Built-in systems: {", ".join(library.names())}.'
            )
        model = library.load(name).derive()
    try:
        return _task(file, data, model)
    except (TypeError, ValueError) as error:
        if isinstance(error, HeavytopError):
            raise
        raise FileFormatError(f"{path}: {error}.") from None


def _task(file: TomlText, data: Mapping[str, Any], model: Model) -> Task:
    if "goal" not in data and not data.get("periodic"):
        raise FileFormatError(f"{file.name}: the table [goal] is missing (position, or q and v).")
    options: dict[str, Any] = {
        name: data[name]
        for name in ("steps", "reserve", "guesses", "inputs", "method", "tolerance", "periodic")
        if name in data
    }
    duration = data.get("duration", "free")
    options["duration"] = tuple(duration) if isinstance(duration, list) else duration
    for name in ("limits", "rates"):
        if name in data:
            value = data[name]
            if isinstance(value, Mapping):
                value = {key: tuple(pair) for key, pair in value.items()}
            options[name] = tuple(value) if isinstance(value, list) else value
    options["path"] = [
        _constraint(file, kind, i, table) for kind in KINDS for i, table in enumerate(_tables(file, kind, data))
    ]
    start = _state(file, "start", data.get("start", {}), model)
    if "cost" in data:
        options["cost"] = _cost(file, data["cost"], model, start[0])
    goal = _state(file, "goal", data["goal"], model) if "goal" in data else None
    path = Path(file.name)
    return Task(path.stem, f"study {path.name}", model, start, goal, options)


def _tables(file: TomlText, kind: str, data: Mapping[str, Any]) -> list[Any]:
    given = data.get(kind, [])
    if not isinstance(given, list):
        raise FileFormatError(f"{file.at(kind)}: {kind} must be given as tables [[{kind}]].")
    return given


def _constraint(file: TomlText, kind: str, index: int, table: Any) -> Constraint:
    known, at = KINDS[kind], file.at(kind, index)
    if not isinstance(table, Mapping):
        raise FileFormatError(f"{at}: {kind} must be given as tables [[{kind}]].")
    file.check_keys(table, (*known.needed, *known.allowed), (kind, index), f"key of [[{kind}]]")
    if missing := [key for key in known.needed if key not in table]:
        raise FileFormatError(f"{at}: [[{kind}]] needs {missing[0]!r}.")
    try:
        return known.make(**table)
    except (HeavytopError, TypeError, ValueError) as error:
        raise FileFormatError(f"{at}: {error}") from None


def _state(file: TomlText, what: str, table: Any, model: Model) -> tuple[np.ndarray, np.ndarray]:
    allowed = ("q", "v", "position")
    if not isinstance(table, Mapping):
        raise FileFormatError(
            f"{file.at(what)}: {what} must be a table [{what}] with q and v or position, got {table!r}."
        )
    file.check_keys(table, allowed, (what,), f"key of [{what}]")
    q, v = (
        np.array(table.get("q", model.neutral()), dtype=float),
        np.array(table.get("v", np.zeros(model.nv)), dtype=float),
    )
    for key, value, size in (("q", q, model.nq), ("v", v, model.nv)):
        if value.shape != (size,):
            raise FileFormatError(
                f"{file.at(what, key)}: {key} of [{what}] needs {size} numbers, got shape {value.shape}."
            )
    if "position" in table:
        place = np.asarray(table["position"], dtype=float)
        free = [
            n
            for n, b in zip(model.coordinates.names or (), model.coordinates.blocks, strict=True)
            if isinstance(b, Pose)
        ]
        if not free or place.shape != (3,):
            raise FileFormatError(
                f"{file.at(what, 'position')}: position in [{what}] needs three numbers and a system with a free body."
            )
        start = model.coordinates.q_slice(free[0]).start
        q[start : start + 3] = place
    return q, v


def _cost(file: TomlText, table: Any, model: Model, q: np.ndarray) -> Cost:
    allowed = ("time", "effort", "speed", "jerk_of")
    total: Cost | None = None
    if not isinstance(table, Mapping):
        raise FileFormatError(
            f"{file.at('cost')}: cost must be a table such as cost = {{ time = 1.0 }}, got {table!r}."
        )
    file.check_keys(table, allowed, ("cost",), "cost")
    for key, value in table.items():
        if key == "effort":
            zero = np.zeros(model.nv)
            term: Cost = float(value) * Effort(about=needed_inputs(model, q, zero, zero))
        elif key == "jerk_of":
            term = Jerk(str(value))
        else:
            term = float(value) * (Time() if key == "time" else Speed())
        total = term if total is None else total + term
    if total is None:
        raise FileFormatError(f"{file.at('cost')}: cost = {{}} is empty; it takes {', '.join(allowed)}.")
    return total
