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
duration, rest), each with its own constraints, ``[[phase.gate]]`` for example.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import Parameter, signature
from pathlib import Path
from typing import Any

import numpy as np

from heavytop import library
from heavytop._toml_lines import TomlText, read_text
from heavytop.coordinates import Pose
from heavytop.errors import FileFormatError, HeavytopError, PlanError
from heavytop.ocp import needed_inputs
from heavytop.plan.constraints import (
    Between,
    Cone,
    Constraint,
    Gate,
    HalfSpace,
    KeepIn,
    KeepOut,
    KeepOutBox,
    Rest,
    swing,
)
from heavytop.plan.costs import Cost, Effort, Jerk, Speed, Sum, Time
from heavytop.plan.problem import Phase
from heavytop.plan.problem_builder import bounds_of, check_options, check_phase, span
from heavytop.plan.problems import Task
from heavytop.system import Model

TOP = (
    "system", "start", "goal", "duration", "steps", "limits", "rates", "reserve", "cost", "guesses", "inputs", "method", "tolerance", "periodic",
    "phase",
)  # fmt: skip
OPTIONS = ("steps", "reserve", "guesses", "inputs", "method", "tolerance", "periodic")
PATH, END = "path", "end"
"""When a constraint of a phase holds: along its path, or at its end."""


def _cone(frame: str, degrees: float, axis: Any = (0.0, 0.0, 1.0), about: Any = (0.0, 0.0, 1.0)) -> Cone:
    return Cone(frame, float(np.radians(degrees)), axis, about)


def _swing(load: str, degrees: float, axis: Any = (0.0, 0.0, 1.0)) -> Cone:
    return swing(load, float(np.radians(degrees)), axis)


KINDS: dict[str, Callable[..., Constraint]] = {
    "gate": Gate,
    "keep_out": KeepOut,
    "keep_out_box": KeepOutBox,
    "box": KeepIn,
    "half_space": HalfSpace,
    "cone": _cone,
    "swing": _swing,
    "between": Between,
}
"""Constraints by the names of their tables, whose keys are the arguments."""


def read_study(path: str | Path, model: Model | None = None) -> Task:
    """Read the problem of a TOML file.

    Parameters
    ----------
    model : to plan for; None: the built-in system named in the file.

    Raises
    ------
    FileFormatError
        The file is not TOML, or a key or value is invalid; the message names it.
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
        return _Study(file, model).task()
    except (TypeError, ValueError) as error:
        if isinstance(error, HeavytopError):
            raise
        raise FileFormatError(f"{path}: {error}.") from None


@dataclass(frozen=True, eq=False)
class _Study:
    """A file and the model it is read for."""

    file: TomlText
    model: Model

    def task(self) -> Task:
        """The problem of the file."""
        file, data = self.file, self.file.content
        if "goal" not in data and not data.get("periodic"):
            raise FileFormatError(f"{file.name}: the table [goal] is missing (position, or q and v).")
        options: dict[str, Any] = {name: data[name] for name in OPTIONS if name in data}
        if "phase" in data:
            options["phases"] = self._phases()
        else:
            options["duration"] = _as_tuple(data.get("duration", "free"))
        for name in ("limits", "rates"):
            if name in data:
                options[name] = _as_tuple(data[name])
        options["path"] = [
            self._constraint((kind, i), table) for kind in KINDS for i, table in enumerate(self._tables(kind, data))
        ]
        for name, value in options.items():
            with self._at_line(name):
                self._check_option(name, value)
        start = self._state("start", data.get("start", {}))
        if "cost" in data:
            options["cost"] = self._cost(data["cost"], start[0])
        goal = self._state("goal", data["goal"]) if "goal" in data else None
        path = Path(file.name)
        return Task(path.stem, f"study {path.name}", self.model, start, goal, options)

    def _check_option(self, name: str, value: Any) -> None:
        if name in ("limits", "rates"):
            bounds_of(self.model, **({"limits": None, "rates": None} | {name: value}))
        elif name == "duration":
            span(value)
        elif name == "periodic" and not isinstance(value, bool):
            raise PlanError(f"periodic must be true or false, got {value!r}.")
        else:
            check_options(**{name: value})

    @contextmanager
    def _at_line(self, *keys: str | int) -> Iterator[None]:
        """Add the line of a key to errors."""
        try:
            yield
        except (HeavytopError, TypeError, ValueError) as error:
            raise self.file.wrong(keys, error) from None

    def _tables(self, kind: str, data: Mapping[str, Any], around: tuple[str | int, ...] = ()) -> list[Any]:
        given, name = data.get(kind, []), ".".join(str(key) for key in (*around[:1], kind))
        if not isinstance(given, list) or not all(isinstance(table, Mapping) for table in given):
            raise self.file.wrong((*around, kind), f"{kind} must be given as tables [[{name}]].")
        return given

    def _phases(self) -> list[Phase]:
        """The phases of the file, each with its constraints."""
        file, data, phases = self.file, self.file.content, []
        for key in ("duration", "steps", "gate"):
            if key in data:
                raise file.wrong((key,), f"with [[phase]], {key} belongs to the phases.")
        for i, table in enumerate(self._tables("phase", data)):
            keys = ("phase", i)
            file.check_keys(table, ("steps", "duration", "rest", *KINDS), keys, "key of [[phase]]")
            if "steps" not in table:
                raise file.wrong(keys, "[[phase]] needs 'steps'.")
            with self._at_line(*keys, "duration"):
                shortest, longest = span(_as_tuple(table.get("duration", "free")))
            with self._at_line(*keys, "steps"):
                check_phase(Phase(shortest, longest, table["steps"]))
            if not isinstance(table.get("rest", False), bool):
                raise file.wrong((*keys, "rest"), f"rest must be true or false, got {table['rest']!r}.")
            parts: dict[str, list[Constraint]] = {PATH: [], END: [Rest()] if table.get("rest") else []}
            for kind in KINDS:
                for k, given in enumerate(self._tables(kind, table, keys)):
                    when = given.get("when", END if kind == "gate" else PATH)
                    if when not in parts or (kind == "gate" and when == PATH):
                        allowed = '"end"' if kind == "gate" else '"path" or "end"'
                        raise file.wrong((*keys, kind, k, "when"), f"when must be {allowed}, got {when!r}.")
                    rest = {key: value for key, value in given.items() if key != "when"}
                    parts[when].append(self._constraint((*keys, kind, k), rest))
            phases.append(Phase(shortest, longest, table["steps"], tuple(parts[PATH]), tuple(parts[END])))
        return phases

    def _constraint(self, keys: tuple[str | int, ...], table: Mapping[str, Any]) -> Constraint:
        """The constraint of a table, whose path of keys ends with its kind and its number."""
        kind = str(keys[-2])
        make = KINDS[kind]
        arguments = dict(signature(make.__init__ if isinstance(make, type) else make).parameters)
        arguments.pop("self", None)
        self.file.check_keys(table, arguments, keys, f"key of [[{kind}]]")
        for name, argument in arguments.items():
            if name not in table and argument.default is Parameter.empty:
                raise self.file.wrong(keys, f"[[{kind}]] needs {name!r}.")
        with self._at_line(*keys):
            made = make(**table)
            made.check(self.model)
        return made

    def _state(self, what: str, table: Any) -> tuple[np.ndarray, np.ndarray]:
        file, model = self.file, self.model
        if not isinstance(table, Mapping):
            raise file.wrong((what,), f"{what} must be a table [{what}] with q and v or position, got {table!r}.")
        file.check_keys(table, ("q", "v", "position"), (what,), f"key of [{what}]")
        q = np.array(table.get("q", model.neutral()), dtype=float)
        v = np.array(table.get("v", np.zeros(model.nv)), dtype=float)
        for key, value, size in (("q", q, model.nq), ("v", v, model.nv)):
            if value.shape != (size,):
                raise file.wrong((what, key), f"{key} of [{what}] needs {size} numbers, got shape {value.shape}.")
        if "position" in table:
            position = np.asarray(table["position"], dtype=float)
            blocks = zip(model.coordinates.names or (), model.coordinates.blocks, strict=True)
            free = [name for name, block in blocks if isinstance(block, Pose)]
            if not free or position.shape != (3,):
                message = f"position in [{what}] needs three numbers and a system with a free body."
                raise file.wrong((what, "position"), message)
            start = model.coordinates.q_slice(free[0]).start
            q[start : start + 3] = position
        return q, v

    def _cost(self, table: Any, q: np.ndarray) -> Cost:
        allowed = ("time", "effort", "speed", "jerk_of")
        if not isinstance(table, Mapping) or not table:
            raise self.file.wrong(
                ("cost",),
                f"cost must be a table such as cost = {{ time = 1.0 }} of {', '.join(allowed)}, got {table!r}.",
            )
        self.file.check_keys(table, allowed, ("cost",), "cost")
        terms: list[tuple[float, Cost]] = []
        for key, value in table.items():
            with self._at_line("cost", key):
                if key == "effort":
                    zero = np.zeros(self.model.nv)
                    term: Cost = float(value) * Effort(about=needed_inputs(self.model, q, zero, zero))
                elif key == "jerk_of":
                    term = Jerk(str(value))
                else:
                    term = float(value) * (Time() if key == "time" else Speed())
                term.check(self.model)
            terms += term.terms
        return Sum(tuple(terms))


def _as_tuple(given: Any) -> Any:
    """Lists of a TOML file, also inside a table, as tuples."""
    if isinstance(given, Mapping):
        return {key: _as_tuple(value) for key, value in given.items()}
    return tuple(given) if isinstance(given, list) else given
