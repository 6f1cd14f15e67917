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

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from heavytop import library
from heavytop.control.needed import needed_inputs
from heavytop.coordinates import Pose
from heavytop.errors import FileFormatError, HeavytopError, unknown_name
from heavytop.plan.constraints import Between, Cone, Constraint, Gate, HalfSpace, KeepIn, KeepOut
from heavytop.plan.costs import Cost, Effort, Jerk, Speed, Time
from heavytop.plan.problems import Task
from heavytop.system.model import Model

TOP = (
    "system", "start", "goal", "duration", "steps", "limits", "rates", "reserve", "cost", "guesses", "inputs", "tolerance", "periodic", "gate",
    "keep_out", "box", "half_space", "cone", "between",
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
        The file is no TOML, or a key or value has no meaning; the message names it.
    """
    path = Path(path)
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FileFormatError(f"{path}: no valid TOML: {error}.") from None
    except OSError as error:
        raise FileFormatError(f"cannot read the study {str(path)!r}: {error.strerror or error}.") from None
    for key in data:
        if key not in TOP:
            raise FileFormatError(f"{path}: {unknown_name('key', key, TOP)}")
    if model is None:
        name = data.get("system")
        if not isinstance(name, str):
            raise FileFormatError(
                f'{path}: system = "NAME" is missing. Built-in systems: {", ".join(library.names())}.'
            )
        model = library.load(name).derive()
    try:
        return _task(path, data, model)
    except (TypeError, ValueError) as error:
        if isinstance(error, HeavytopError):
            raise
        raise FileFormatError(f"{path}: {error}.") from None


def _task(path: Path, data: Mapping[str, Any], model: Model) -> Task:
    if "goal" not in data and not data.get("periodic"):
        raise FileFormatError(f"{path}: the table [goal] is missing (position, or q and v).")
    options: dict[str, Any] = {
        name: data[name] for name in ("steps", "reserve", "guesses", "inputs", "tolerance", "periodic") if name in data
    }
    duration = data.get("duration", "free")
    options["duration"] = tuple(duration) if isinstance(duration, list) else duration
    for name in ("limits", "rates"):
        if name in data:
            value = data[name]
            if isinstance(value, Mapping):
                value = {key: tuple(pair) for key, pair in value.items()}
            options[name] = tuple(value) if isinstance(value, list) else value
    for kind in KINDS:
        if not isinstance(data.get(kind, []), list):
            raise FileFormatError(f"{path}: {kind} must be given as tables [[{kind}]].")
    options["path"] = [_constraint(path, kind, table) for kind in KINDS for table in data.get(kind, [])]
    start = _state(path, "start", data.get("start", {}), model)
    if "cost" in data:
        options["cost"] = _cost(path, data["cost"], model, start[0])
    goal = _state(path, "goal", data["goal"], model) if "goal" in data else None
    return Task(path.stem, f"study {path.name}", model, start, goal, options)


def _constraint(path: Path, kind: str, table: Any) -> Constraint:
    known = KINDS[kind]
    if not isinstance(table, Mapping):
        raise FileFormatError(f"{path}: {kind} must be given as tables [[{kind}]].")
    for key in table:
        if key not in (*known.needed, *known.allowed):
            raise FileFormatError(f"{path}: {unknown_name(f'key of [[{kind}]]', key, (*known.needed, *known.allowed))}")
    if missing := [key for key in known.needed if key not in table]:
        raise FileFormatError(f"{path}: [[{kind}]] needs {missing[0]!r}.")
    return known.make(**table)


def _state(path: Path, what: str, table: Any, model: Model) -> tuple[np.ndarray, np.ndarray]:
    allowed = ("q", "v", "position")
    if not isinstance(table, Mapping):
        raise FileFormatError(f"{path}: {what} must be a table [{what}] with q and v or position, got {table!r}.")
    for key in table:
        if key not in allowed:
            raise FileFormatError(f"{path}: {unknown_name(f'key of [{what}]', key, allowed)}")
    q = np.array(table.get("q", model.neutral()), dtype=float)
    if "position" in table:
        place = np.asarray(table["position"], dtype=float)
        free = [
            n
            for n, b in zip(model.coordinates.names or (), model.coordinates.blocks, strict=True)
            if isinstance(b, Pose)
        ]
        if not free or place.shape != (3,):
            raise FileFormatError(f"{path}: position in [{what}] needs three numbers and a system with a free body.")
        start = model.coordinates.q_slice(free[0]).start
        q[start : start + 3] = place
    return q, np.array(table.get("v", np.zeros(model.nv)), dtype=float)


def _cost(path: Path, table: Any, model: Model, q: np.ndarray) -> Cost:
    allowed = ("time", "effort", "speed", "jerk_of")
    total: Cost | None = None
    if not isinstance(table, Mapping):
        raise FileFormatError(f"{path}: cost must be a table such as cost = {{ time = 1.0 }}, got {table!r}.")
    for key, value in table.items():
        if key not in allowed:
            raise FileFormatError(f"{path}: {unknown_name('cost', key, allowed)}")
        if key == "effort":
            zero = np.zeros(model.nv)
            term: Cost = float(value) * Effort(about=needed_inputs(model, q, zero, zero))
        elif key == "jerk_of":
            term = Jerk(str(value))
        else:
            term = float(value) * (Time() if key == "time" else Speed())
        total = term if total is None else total + term
    if total is None:
        raise FileFormatError(f"{path}: cost = {{}} is empty; it takes {', '.join(allowed)}.")
    return total
