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
frame), ``[[cone]]`` (frame, degrees), ``[[swing]]`` (load, degrees) and ``[[between]]`` (name, lower, upper). Phases are ``[[phase]]`` (steps,
duration, rest), each with constraints of its own, ``[[phase.gate]]`` for example.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from heavytop import library
from heavytop._toml_lines import TomlText, read_text
from heavytop.coordinates import Pose
from heavytop.errors import FileFormatError, HeavytopError, PlanError
from heavytop.ocp.inverse_inputs import needed_inputs
from heavytop.plan.constraints import Between, Cone, Constraint, Gate, HalfSpace, KeepIn, KeepOut, Rest, swing
from heavytop.plan.costs import Cost, Effort, Jerk, Speed, Time
from heavytop.plan.keep_out_box import KeepOutBox
from heavytop.plan.problem import Phase
from heavytop.plan.problem_builder import bounds_of, check_option, span
from heavytop.plan.problems import Task
from heavytop.system.model import Model

TOP = (
    "system", "start", "goal", "duration", "steps", "limits", "rates", "reserve", "cost", "guesses", "inputs", "method", "tolerance", "periodic",
    "phase",
)  # fmt: skip
OPTIONS = ("steps", "reserve", "guesses", "inputs", "method", "tolerance", "periodic")
PATH, END = "path", "end"
"""When a constraint of a phase holds: all the way, or where the phase ends."""


@dataclass(frozen=True)
class _Kind:
    """How a table of a constraint becomes one."""

    make: Callable[..., Constraint]
    needed: tuple[str, ...]
    allowed: tuple[str, ...] = ()


def _cone(frame: str, degrees: float, axis: Any = (0.0, 0.0, 1.0), about: Any = (0.0, 0.0, 1.0)) -> Cone:
    return Cone(frame, float(np.radians(degrees)), axis, about)


def _swing(load: str, degrees: float, axis: Any = (0.0, 0.0, 1.0)) -> Cone:
    return swing(load, float(np.radians(degrees)), axis)


KINDS = {
    "gate": _Kind(Gate, ("frame", "at"), ("offset", "radius")),
    "keep_out": _Kind(KeepOut, ("center", "radius", "frame"), ("offset",)),
    "keep_out_box": _Kind(KeepOutBox, ("lower", "upper", "frame"), ("offset",)),
    "box": _Kind(KeepIn, ("lower", "upper", "frame"), ("offset",)),
    "half_space": _Kind(HalfSpace, ("normal", "distance", "frame"), ("offset",)),
    "cone": _Kind(_cone, ("frame", "degrees"), ("axis", "about")),
    "swing": _Kind(_swing, ("load", "degrees"), ("axis",)),
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
    file.check_keys(data, (*TOP, *KINDS))
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
    options: dict[str, Any] = {name: data[name] for name in OPTIONS if name in data}
    if "phase" in data:
        options["phases"] = _phases(file, data, model)
    else:
        options["duration"] = _duration(data.get("duration", "free"))
    for name in ("limits", "rates"):
        if name in data:
            options[name] = _pairs(data[name])
    options["path"] = _constraints(file, data, model)
    _check_options(file, options, model)
    start = _state(file, "start", data.get("start", {}), model)
    if "cost" in data:
        options["cost"] = _cost(file, data["cost"], model, start[0])
    goal = _state(file, "goal", data["goal"], model) if "goal" in data else None
    path = Path(file.name)
    return Task(path.stem, f"study {path.name}", model, start, goal, options)


def _duration(given: Any) -> Any:
    return tuple(given) if isinstance(given, list) else given


def _pairs(given: Any) -> Any:
    if isinstance(given, Mapping):
        return {key: tuple(pair) if isinstance(pair, list) else pair for key, pair in given.items()}
    return tuple(given) if isinstance(given, list) else given


def _check_options(file: TomlText, options: Mapping[str, Any], model: Model) -> None:
    """Raise what is wrong with the value of a key, with its line."""
    for name, value in options.items():
        with _told(file, name):
            if name in ("limits", "rates"):
                for constraint in bounds_of(model, *((value, None) if name == "limits" else (None, value)))[1]:
                    constraint.check(model)
            elif name == "duration":
                span(value)
            elif name == "periodic" and not isinstance(value, bool):
                raise PlanError(f"periodic must be true or false, got {value!r}.")
            else:
                check_option(name, value)


@contextmanager
def _told(file: TomlText, *keys: str | int) -> Iterator[None]:
    """Errors get the line of a key."""
    try:
        yield
    except (HeavytopError, TypeError, ValueError) as error:
        raise FileFormatError(f"{file.at(*keys)}: {error}") from None


def _tables(file: TomlText, kind: str, data: Mapping[str, Any], around: tuple[str | int, ...] = ()) -> list[Any]:
    given, name = data.get(kind, []), ".".join(str(key) for key in (*around[:1], kind))
    if not isinstance(given, list) or not all(isinstance(table, Mapping) for table in given):
        raise FileFormatError(f"{file.at(*around, kind)}: {kind} must be given as tables [[{name}]].")
    return given


def _constraints(file: TomlText, data: Mapping[str, Any], model: Model) -> list[Constraint]:
    """The constraints of a file, kind by kind."""
    return [
        _constraint(file, (kind, i), table, model)
        for kind in KINDS
        for i, table in enumerate(_tables(file, kind, data))
    ]


def _phases(file: TomlText, data: Mapping[str, Any], model: Model) -> list[Phase]:
    """The phases of a file, each with its constraints."""
    for key in ("duration", "steps", "gate"):
        if key in data:
            raise FileFormatError(f"{file.at(key)}: with [[phase]], {key} belongs to the phases.")
    phases = []
    for i, table in enumerate(_tables(file, "phase", data)):
        place = ("phase", i)
        file.check_keys(table, ("steps", "duration", "rest", *KINDS), place, "key of [[phase]]")
        if "steps" not in table:
            raise FileFormatError(f"{file.at(*place)}: [[phase]] needs 'steps'.")
        with _told(file, *place, "steps"):
            check_option("steps of a phase", table["steps"])
        with _told(file, *place, "duration"):
            shortest, longest = span(_duration(table.get("duration", "free")))
        if not isinstance(table.get("rest", False), bool):
            raise FileFormatError(f"{file.at(*place, 'rest')}: rest must be true or false, got {table['rest']!r}.")
        parts: dict[str, list[Constraint]] = {PATH: [], END: [Rest()] if table.get("rest") else []}
        for kind in KINDS:
            for k, own in enumerate(_tables(file, kind, table, place)):
                when = own.get("when", END if kind == "gate" else PATH)
                if when not in parts or (kind == "gate" and when == PATH):
                    allowed = '"end"' if kind == "gate" else '"path" or "end"'
                    raise FileFormatError(f"{file.at(*place, kind, k, 'when')}: when must be {allowed}, got {when!r}.")
                rest = {key: value for key, value in own.items() if key != "when"}
                parts[when].append(_constraint(file, (*place, kind, k), rest, model))
        phases.append(Phase(shortest, longest, table["steps"], tuple(parts[PATH]), tuple(parts[END])))
    return phases


def _constraint(file: TomlText, place: tuple[str | int, ...], table: Mapping[str, Any], model: Model) -> Constraint:
    """The constraint of a table; the path of the table ends with its kind and its number."""
    kind = str(place[-2])
    known, at = KINDS[kind], file.at(*place)
    file.check_keys(table, (*known.needed, *known.allowed), place, f"key of [[{kind}]]")
    if missing := [key for key in known.needed if key not in table]:
        raise FileFormatError(f"{at}: [[{kind}]] needs {missing[0]!r}.")
    with _told(file, *place):
        made = known.make(**table)
        made.check(model)
    return made


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
        with _told(file, "cost", key):
            if key == "effort":
                zero = np.zeros(model.nv)
                term: Cost = float(value) * Effort(about=needed_inputs(model, q, zero, zero))
            elif key == "jerk_of":
                term = Jerk(str(value))
            else:
                term = float(value) * (Time() if key == "time" else Speed())
            term.check(model)
        total = term if total is None else total + term
    if total is None:
        raise FileFormatError(f"{file.at('cost')}: cost = {{}} is empty; it takes {', '.join(allowed)}.")
    return total
