"""A model, or anything that can be simulated, at the points of a sweep."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from heavytop.coordinates import Pose, Product
from heavytop.coordinates.attitude import Attitude
from heavytop.errors import SweepError, unknown_name
from heavytop.simulate import Run, RunSpec, prepare
from heavytop.simulate.dynamics import Dynamics, as_dynamics
from heavytop.simulate.outcome import Ending
from heavytop.simulate.recording import RecordGrid
from heavytop.sweep.cases import (
    LEAST,
    MANY,
    Cases,
    Output,
    Values,
    call,
    groups,
    is_function,
    join,
    key_of,
    names_of,
    places,
    reason,
    taken,
)
from heavytop.sweep.event_ends import first_of
from heavytop.sweep.grid import TIME
from heavytop.sweep.measure import ONLY_ENDS, Measured, Measures, endings
from heavytop.sweep.stacked_controllers import Stacked, likeness

STRUCTURE = (
    "integrator",
    "control",
    "reference",
    "until",
    "step",
    "hold",
    "control_step",
    "events",
    "start_time",
    "record_every",
    "balance",
)
"""Options of a simulation whose values cannot differ within a batch; they may be functions of variables of the sweep."""
BATCHED = ("start", "inputs", "parameters")
"""Options that may be functions of arrays of values."""
BATCH = 4096
"""Trajectories of one native call: enough to fill the lanes, few enough for the cache."""
AHEAD = 8
"""Batches whose starts are made one after the other before the first of them runs: the code that makes them stays in the cache."""
FEW_KEPT = 256
"""Points of a chunk whose trajectories are kept."""
USUAL_STEPS = 200
"""Steps of the runs for which the sizes of chunks are meant; with longer runs chunks have fewer points."""
_UNITS: dict[str, str] = dict.fromkeys(("until", "step", "control_step", "start_time"), "s")
MOST_BYTES = 256e6
"""Records of one native call."""


class ModelCases(Cases):
    """A model, vehicle or dynamics with the options of :func:`heavytop.simulate`.

    Variables of the sweep are parameters of the model, coordinates and velocities at the start (``"rod.angle"``, ``"hull.attitude"``),
    options of the simulation, or arguments of functions that are given as options.
    """

    def __init__(
        self, subject: Any, options: Mapping[str, Any], measures: Measures, trajectories: bool = False
    ) -> None:
        unknown = [name for name in options if name not in (*STRUCTURE, *BATCHED, "threads")]
        if unknown:
            raise unknown_name("option of a sweep over a model", unknown[0], (*STRUCTURE, *BATCHED, "threads"))
        self.subject, self.options, self.measures, self.trajectories = subject, dict(options), measures, trajectories
        self.names: tuple[str, ...] = ()
        self.left: tuple[str, ...] = ()

    def check(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        used = {n for n in STRUCTURE if n in names}
        for option, value in (("model", self.subject), *self.options.items()):
            if is_function(value) and option != "events" and not (option == "inputs" and _of_time(value)):
                used |= {*names_of(value), *taken(value, names)}
        for name in ("until", "step"):
            if name not in self.options and name not in names:
                raise SweepError(f"a sweep over a model needs {name}=, as simulate does.")
        known = () if is_function(self.subject) else self._own_names(as_dynamics(self.subject))
        if both := [name for name in names if name in STRUCTURE and name in known]:
            raise SweepError(
                f"{both[0]!r} is an option of the simulation and a name of the model: rename that of the model, or vary another name that a "
                "function takes."
            )
        self.left = tuple(name for name in names if name not in used and name not in known)
        if not is_function(self.subject):  # otherwise whether the model has such a name is seen when it is made
            self._check_left(known, used)

    def _check_left(self, known: Sequence[str], used: Iterable[str] = ()) -> None:
        for name in self.left:
            if name not in known:
                raise unknown_name(
                    "variable of the sweep: no parameter, start coordinate or option has this name",
                    name,
                    (*known, *used),
                )

    @staticmethod
    def _own_names(dynamics: Dynamics) -> tuple[str, ...]:
        return (*dynamics.parameter_names, *dynamics.q_names, *dynamics.v_names, *attitude_blocks(dynamics))

    @property
    def apart(self) -> tuple[str, ...]:
        found = [n for n in self.names if n in STRUCTURE]
        for name, value in (("model", self.subject), *self.options.items()):
            if is_function(value) and name not in (*BATCHED, "events"):
                found += taken(value, self.names)
        return tuple(dict.fromkeys(found))

    @property
    def target(self) -> int:
        return FEW_KEPT if self.trajectories else self._fewer_if_long(MANY)

    @property
    def least(self) -> int:
        return 1 if self.trajectories or self.apart else self._fewer_if_long(LEAST)

    def _fewer_if_long(self, points: int) -> int:
        """So many points of runs of the usual length, or as much work in longer ones."""
        settings = self._settings()
        begin, end, step = (settings.get(name) for name in ("start_time", "until", "step"))
        known = all(isinstance(x, int | float) for x in (end, step)) and step > 0  # pyright: ignore
        steps = (float(end) - float(begin or 0.0)) / float(step) if known else np.nan  # pyright: ignore
        steps = USUAL_STEPS if np.isnan(steps) else steps  # the simulation tells what is wrong with NaN
        return int(np.clip(points * USUAL_STEPS / max(steps, 1.0), 1, points))

    def _settings(self) -> Mapping[str, Any]:
        """Options, where they do not vary."""
        return {name: value for name, value in self.options.items() if name not in self.names}

    def unit(self, name: str) -> str:
        dynamics = None if is_function(self.subject) else as_dynamics(self.subject)
        return _UNITS.get(name, "") if dynamics is None else unit_of(dynamics, name) or _UNITS.get(name, "")

    # --- evaluation -----------------------------------------------------------------------------------------------------------

    def evaluate(self, values: Values) -> Output:
        count = len(next(iter(values.values()))) if values else 1
        outputs: list[tuple[np.ndarray, Output]] = []
        alike: dict[Any, list[tuple[dict[str, Any], np.ndarray]]] = {}
        for chosen, rows in groups(values, self.apart):
            try:
                plan = self._plan(chosen)
                alike.setdefault(likeness(plan, self.apart), []).append((plan, rows))
            except (KeyboardInterrupt, MemoryError, SweepError):
                raise
            except Exception as error:
                outputs.append((rows, Output.failed(len(rows), reason(error))))
        for plans in alike.values():
            outputs += self._batch(plans, values)
        return join(outputs, count)

    def _plan(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        """Subject and options of a group."""
        key = tuple((name, key_of(value)) for name, value in sorted(chosen.items()))
        known = self.__dict__.setdefault("_plans", {})
        if key not in known:
            plan = {name: value for name, value in self.options.items() if name not in BATCHED}
            plan |= {name: chosen[name] for name in STRUCTURE if name in chosen}
            plan = {n: call(v, chosen) if is_function(v) and n != "events" else v for n, v in plan.items()}
            reference = plan.pop("reference", None)
            if hasattr(plan.get("control"), "with_reference") and reference is not None:
                plan["control"] = plan["control"].with_reference(reference)
            elif reference is not None:  # the simulation tells what is wrong
                plan["reference"] = reference
            plan["model"] = call(self.subject, chosen) if is_function(self.subject) else self.subject
            if is_function(self.subject):
                self._check_left(self._own_names(as_dynamics(plan["model"])))
            while len(known) > 256:
                del known[next(iter(known))]
            known[key] = chosen, plan
        return known[key][1]

    def recipe(self) -> tuple[Any, ...]:
        """Without the plans, which are made again."""
        made, arguments, *state = super().recipe()
        return made, arguments, {name: value for name, value in state[0].items() if name != "_plans"}

    def _batch(self, plans: list[tuple[dict[str, Any], np.ndarray]], values: Values) -> list[tuple[np.ndarray, Output]]:
        """Runs of groups whose native code is the same."""
        rows = np.concatenate([r for _, r in plans])
        which = np.repeat(np.arange(len(plans)), [len(r) for _, r in plans])
        size, ahead = self._size(plans[0][0]), 1 if "inputs" in self.options else AHEAD  # inputs may be large
        parts = [slice(begin, begin + size) for begin in range(0, len(rows), size)]
        found: list[tuple[np.ndarray, Output]] = []
        for begin in range(0, len(parts), ahead):
            some = parts[begin : begin + ahead]
            ready = [_tried(self._ready, plans, which[part], rows[part], values) for part in some]
            for part, run in zip(some, ready, strict=True):
                chosen = rows[part]
                output = run if isinstance(run, Exception) else _tried(self._output, run, len(chosen))
                if isinstance(output, Output):
                    found.append((chosen, output))
                elif len(chosen) == 1:
                    found.append((chosen, Output.failed(1, reason(output))))
                else:  # one bad point must not spoil the others
                    for k, law in enumerate(which[part]):
                        found += self._batch([(plans[law][0], chosen[k : k + 1])], values)
        return found

    def _size(self, plan: Mapping[str, Any]) -> int:
        dynamics = as_dynamics(plan["model"])
        try:
            seconds = float(plan["until"]) - float(plan.get("start_time", 0.0))
            records = max(seconds / float(plan["step"]) / self._every(plan), 0.0) + 2
        except (TypeError, ValueError, ArithmeticError):
            return 2  # no times and counts: the simulation says which and why
        return int(
            max(2, min(BATCH, MOST_BYTES / (8 * records * (dynamics.nq + 2 * dynamics.nv + 2 * dynamics.nu + 4))))
        )

    def _every(self, plan: Mapping[str, Any]) -> int:
        if "record_every" in plan:
            return plan["record_every"]
        return ONLY_ENDS if self.measures.only_ends and not self.trajectories else 1

    def _ready(
        self, plans: Sequence[tuple[dict[str, Any], np.ndarray]], laws: np.ndarray, rows: np.ndarray, values: Values
    ) -> Callable[[], Run]:
        """A batch up to the native call: points (rows,) with the plans of their numbers (laws,)."""
        plan, place = plans[0][0], places(rows)
        values = {name: v[place] for name, v in values.items()}
        if len(rows) == 1:  # a single trajectory would run through other code, with other rounding
            values, laws = {n: np.concatenate([v, v]) for n, v in values.items()}, np.repeat(laws, 2)
        if len(plans) > 1 and plan.get("control") is not None:
            plan = {**plan, "control": Stacked([plans[k][0]["control"] for k in laws])}
        return self._runner(plan, values, max(len(rows), 2), self._every(plan))

    def _output(self, batch: Callable[[], Run], count: int) -> Output:
        """Run a batch and measure it."""
        run = batch()
        if run.outcome.ending is Ending.interrupted:
            raise KeyboardInterrupt
        measured = self.measures(run, max(count, 2))
        codes, times, causes = endings(run)
        if self.trajectories:
            measured |= _trajectories(run)
        if count == 1:
            measured = {n: Measured(m.values[:1], m.unit, m.dims, m.labels) for n, m in measured.items()}
            codes, times, causes = codes[:1], times[:1], {k: t for k, t in causes.items() if k == 0}
        return Output(measured, codes, times, causes)

    def _runner(self, plan: Mapping[str, Any], values: Values, count: int, every: int) -> Callable[[], Run]:
        """The simulation of a batch, ready to be called."""
        dynamics = as_dynamics(plan["model"])
        start, parameters = self._start(dynamics, values, count), self._parameters(dynamics, values)
        inputs: Any = self.options.get("inputs")
        if inputs is not None and is_function(inputs) and not _of_time(inputs):
            return _prepared(plan, every, _table(call(inputs, values))).ready(start, parameters)
        known = self.__dict__.setdefault("_plans", {})
        of, run = known.get(every, (None, None))
        if of is not plan:
            run = _prepared(plan, every, inputs)
            known[every] = plan, run
        return run.ready(start, parameters)

    def _parameters(self, dynamics: Dynamics, values: Values) -> dict[str, Any]:
        given: Any = self.options.get("parameters") or {}
        found = dict(call(given, values) if is_function(given) else given)
        return found | {name: values[name] for name in dynamics.parameter_names if name in values}

    def _start(self, dynamics: Dynamics, values: Values, count: int) -> tuple[np.ndarray, np.ndarray]:
        given: Any = self.options.get("start")
        if given is None:
            given = dynamics.coordinates.neutral(), np.zeros(dynamics.nv)
        q, v = call(given, values) if is_function(given) else given
        q = np.broadcast_to(np.asarray(q, dtype=float), (count, dynamics.nq))
        v = np.asarray(v, dtype=float)
        blocks = attitude_blocks(dynamics) if any(name.endswith("attitude") for name in values) else {}
        turned = {name: where for name, where in blocks.items() if name in values}
        angles = {k: values[name] for k, name in enumerate(dynamics.q_names) if name in values}
        speeds = {k: values[n] for k, n in enumerate(dynamics.v_names) if n in values and n not in dynamics.q_names}
        if angles or turned:
            q = np.array(q)
        if speeds or v.shape != (dynamics.nv,):
            v = np.array(np.broadcast_to(v, (count, dynamics.nv)))
        for k, numbers in angles.items():
            q[:, k] = numbers
        for k, numbers in speeds.items():
            v[:, k] = numbers
        for name, (place, block) in turned.items():
            q[:, place] = block.from_rotation_matrix(np.asarray(values[name], dtype=float))
        return q, v

    def run(self, values: Values) -> Run:
        plan = self._plan(next(groups(values, self.apart))[0])
        padded = {n: np.concatenate([v, v]) for n, v in values.items()}
        return first_of(self._runner(plan, padded, 2, int(plan.get("record_every", 1)))())


def _prepared(plan: Mapping[str, Any], every: int, inputs: Any) -> RunSpec:
    """All of a plan but the start."""
    options = {n: v for n, v in plan.items() if n not in ("model", "record_every") and v is not None}
    return prepare(
        plan["model"],
        record_every=every,
        progress=False,
        **options,
        **({} if inputs is None else {"inputs": inputs}),
    )


def _tried(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function gives, or the error that makes its points fail; an error of the study itself is raised."""
    try:
        return function(*arguments)
    except (KeyboardInterrupt, MemoryError, SweepError):
        raise
    except Exception as error:
        return error


def _trajectories(run: Run) -> dict[str, Measured]:
    """All records, with NaN from the end of each trajectory to that of the study."""
    made, found = run.settings, {}
    steps = round((made.until - made.start_time) / made.step) if made.step else 0
    times = RecordGrid(steps, made.record_every, made.start_time, made.step).times()
    times[: len(run.t)] = run.t
    for name, axis in (("q", "coordinate"), ("v", "velocity"), ("u", "input")):
        values = np.moveaxis(getattr(run, name), 0, 1)
        values = np.pad(values, ((0, 0), (0, len(times) - len(run.t)), (0, 0)), constant_values=np.nan)
        labels = {axis: getattr(run, f"{name}_names"), TIME: times}
        found[f"{name}_t"] = Measured(values, "", (TIME, axis), labels)
    return found


def unit_of(dynamics: Dynamics, name: str) -> str:
    """Unit of a coordinate or velocity; none of anything else."""
    for names, units in ((dynamics.q_names, dynamics.q_units), (dynamics.v_names, dynamics.v_units)):
        if name in names:
            return units[names.index(name)]
    return ""


def attitude_blocks(dynamics: Dynamics) -> dict[str, tuple[slice, Attitude]]:
    """Blocks with an attitude, by the name of the variable that sets it: "hull.attitude", and "attitude" if there is one only."""
    coordinates = dynamics.coordinates
    found: dict[str, tuple[slice, Attitude]] = {}
    if not isinstance(coordinates, Product):
        return found
    for name, block in zip(coordinates.names or (), coordinates.blocks, strict=True):
        place = coordinates.q_slice(name)
        if isinstance(block, Pose):
            found[f"{name}.attitude"] = slice(place.start + 3, place.stop), block.attitude_block
        elif isinstance(block, Attitude):
            found[f"{name}.attitude"] = place, block
    return found | {"attitude": next(iter(found.values()))} if len(found) == 1 else found


def _of_time(function: Any) -> bool:
    """Whether a function gives inputs at (t, q, v), not at the values of a point."""
    return tuple(names_of(function)[:3]) == ("t", "q", "v")


def _table(inputs: Any) -> np.ndarray:
    """Constant inputs (count, nu) or samples (samples, count, nu) as samples."""
    array = np.asarray(inputs, dtype=float)
    return array[None] if array.ndim == 2 else array
