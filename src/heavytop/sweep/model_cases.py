"""A model, or anything else that can be simulated, at the points of a sweep, in native batches as large as possible."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from heavytop._arrays import Numbers
from heavytop.compile import Traced
from heavytop.coordinates import Attitude, Pose, Product
from heavytop.errors import SweepError, unknown_name, wrong_shape
from heavytop.functions import key, store
from heavytop.simulate import BoundLaw, Dynamics, Ending, RecordGrid, Run, RunSpec, as_dynamics, as_events
from heavytop.sweep.cases import (
    LEAST,
    MANY,
    Cases,
    Output,
    Values,
    call,
    call_rows,
    groups,
    is_function,
    join,
    names_of,
    places,
    reason,
    taken,
)
from heavytop.sweep.grid import TIME
from heavytop.sweep.measure import ONLY_ENDS, Measured, Measures, endings

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


@dataclass(frozen=True, eq=False)
class Group:
    """Points of equal structure.

    Attributes
    ----------
    spec : their run, without start, parameters and varying inputs. law : its bound law, if any. period : its sampling period, s.
    code : equal for groups that run in one batch.
    """

    spec: RunSpec
    law: BoundLaw | None
    period: float
    code: Any

    @property
    def all_records(self) -> int:
        """Steps between records, if all are kept."""
        return 1 if self.spec.record_every == ONLY_ENDS else self.spec.record_every

    @property
    def own_signal_size(self) -> int:
        """Entries of a sample of the signal that each trajectory has by itself."""
        return 0

    @classmethod
    def of(cls, spec: RunSpec, *more: Any, **fields: Any) -> Any:
        """The group of a run; ``more`` : further values that must be equal within a batch."""
        dynamics, subject = spec.dynamics_and_subject()
        parts = spec.parts(dynamics, subject)
        law = parts.plan.control.law
        others = [getattr(spec, name) for name in ("until", "step", "record_every", "start_time", "balance", "threads")]
        sizes = None if law is None else (law.signal_size, law.state_size)
        code = key(dynamics, parts.code, spec.integrator, spec.events, sizes, others, *more)
        period = parts.plan.every * parts.step
        return cls(spec=spec, law=law, period=period, code=object() if None in (parts.code, code) else code, **fields)


class StackedLaws:
    """Laws with the same function that differ in signals and first memories, one of them for each trajectory of a batch."""

    def __init__(self, laws: Sequence[BoundLaw], which: np.ndarray) -> None:
        self.laws, self.which = laws, which
        self.signal_size, self.state_size = laws[0].signal_size, laws[0].state_size
        self.causes = laws[0].causes

    def traced(self, model: Any) -> Traced:
        """The function of all of them."""
        return self.laws[0].traced

    def signal(self, times: Numbers) -> np.ndarray:
        """Samples (n, batch, m); a law may have one for all trajectories, or one for each."""
        samples = [law.signal(np.asarray(times)) for law in self.laws]
        if len(samples) == 1 and samples[0].ndim > 2:
            return samples[0]
        return np.stack([_of_trajectory(samples[law], k, 2) for k, law in enumerate(self.which)], axis=1)

    def initial_state(self) -> np.ndarray:
        """First memories (batch, s); a law may have one, or one for each trajectory."""
        first = [law.initial_state() for law in self.laws]
        if len(first) == 1 and first[0].ndim > 1:
            return first[0]
        return np.stack([_of_trajectory(first[law], k, 1) for k, law in enumerate(self.which)])

    @property
    def host(self) -> Any:
        """The laws together, if they are computed in Python at every sample (:class:`heavytop.simulate.controller.Host`)."""
        return None if self.laws[0].host is None else self

    @property
    def answer_size(self) -> int:
        """Number of inputs of each."""
        return self.laws[0].host.answer_size

    def sessions(self, count: int) -> list[Any]:
        """A session of the law of each trajectory."""
        made = [iter(law.host.sessions(int(np.sum(self.which == k)))) for k, law in enumerate(self.laws)]
        return [next(made[law]) for law in self.which]


def _of_trajectory(values: np.ndarray, k: int, ndim: int) -> np.ndarray:
    """Numbers of trajectory k from an array of ``ndim`` axes, or of one more, that of the batch, before the last."""
    return values[..., k, :] if values.ndim > ndim else values


class ModelCases(Cases):
    """A model, vehicle or dynamics with the options of :func:`heavytop.simulate`.

    Variables of the sweep are parameters of the model, coordinates and velocities at the start (``"rod.angle"``, ``"hull.attitude"``),
    options of the simulation, or arguments of functions that are given as options.
    """

    def __init__(
        self,
        subject: Any,
        options: Mapping[str, Any],
        measures: Measures,
        trajectories: bool = False,
        names: Sequence[str] = (),
    ) -> None:
        unknown = [name for name in options if name not in (*STRUCTURE, *BATCHED, "threads")]
        if unknown:
            raise unknown_name("option of a sweep over a model", unknown[0], (*STRUCTURE, *BATCHED, "threads"))
        self.subject, self.measures, self.trajectories, self.names = subject, measures, trajectories, tuple(names)
        self.options = dict(options)
        if "events" in options:
            self.options["events"] = as_events(options["events"])

    def check(self) -> None:
        for name in ("until", "step"):
            if name not in self.options and name not in self.names:
                raise SweepError(f"a sweep over a model needs {name}=, as simulate does.")
        if is_function(self.subject):
            return  # the names of the model are checked when it is made
        known = own_names(as_dynamics(self.subject))
        if both := [name for name in self.names if name in STRUCTURE and name in known]:
            raise SweepError(
                f"{both[0]!r} is an option of the simulation and a name of the model: rename that of the model, or vary another name that a "
                "function takes."
            )
        self._check_own(known)

    @property
    def _used(self) -> set[str]:
        """Variables that are options, or arguments of functions."""
        used = {name for name in STRUCTURE if name in self.names}
        for option, value in (("model", self.subject), *self.options.items()):
            if is_function(value) and not (option == "inputs" and _of_time(value)):
                used |= {*names_of(value), *taken(value, self.names)}
        return used

    def _check_own(self, known: Sequence[str]) -> None:
        """Raise an error if one of the other variables is not a name of the model."""
        used = self._used
        for name in self.names:
            if name not in used and name not in known:
                raise unknown_name(
                    "variable of the sweep: no parameter, start coordinate or option has this name",
                    name,
                    (*known, *used),
                )

    @property
    def apart(self) -> tuple[str, ...]:
        found = [n for n in self.names if n in STRUCTURE]
        for name, value in (("model", self.subject), *self.options.items()):
            if is_function(value) and name not in BATCHED:
                found += taken(value, self.names)
        return tuple(dict.fromkeys(found))

    @property
    def target(self) -> int:
        return FEW_KEPT if self.trajectories else self._fewer_if_long(MANY)

    @property
    def least(self) -> int:
        return 1 if self.trajectories or self.apart else self._fewer_if_long(LEAST)

    def _fewer_if_long(self, points: int) -> int:
        """The number of points for runs of the usual length; fewer, for as much work, if they are longer."""
        settings = self._settings()
        begin, end, step = (settings.get(name) for name in ("start_time", "until", "step"))
        known = all(isinstance(x, int | float) for x in (end, step)) and step > 0  # pyright: ignore
        steps = (float(end) - float(begin or 0.0)) / float(step) if known else np.nan  # pyright: ignore
        steps = USUAL_STEPS if np.isnan(steps) else steps  # the simulation rejects NaN
        return int(np.clip(points * USUAL_STEPS / max(steps, 1.0), 1, points))

    def _settings(self) -> Mapping[str, Any]:
        """Options that do not vary."""
        return {name: value for name, value in self.options.items() if name not in self.names}

    def unit(self, name: str) -> str:
        dynamics = None if is_function(self.subject) else as_dynamics(self.subject)
        return _UNITS.get(name, "") if dynamics is None else unit_of(dynamics, name) or _UNITS.get(name, "")

    # --- evaluation -----------------------------------------------------------------------------------------------------------

    def evaluate(self, values: Values) -> Output:
        count = len(next(iter(values.values()))) if values else 1
        outputs: list[tuple[np.ndarray, Output]] = []
        together: dict[Any, list[tuple[Group, np.ndarray]]] = {}
        for chosen, rows in self._split(values):
            group = chosen if isinstance(chosen, Exception) else _tried(self._group, chosen)
            if isinstance(group, Exception):
                outputs.append((rows, Output.failed(len(rows), reason(group))))
            else:
                together.setdefault(group.code, []).append((group, rows))
        for members in together.values():
            outputs += self._batches(members, values)
        return join(outputs, count)

    def _split(self, values: Values) -> Iterator[tuple[dict[str, Any] | Exception, np.ndarray]]:
        """Rows of equal structure, and the values that determine it, or the error of these points."""
        yield from groups(values, self.apart)

    def _group(self, chosen: Mapping[str, Any]) -> Group:
        """The group of points with these values of the variables that change the structure."""
        where = None if self.key is None else key(chosen)
        return store.get(None if where is None else ("sweep", self.key, where), lambda: self._make_group(chosen))

    def _make_group(self, chosen: Mapping[str, Any]) -> Group:
        options = {name: value for name, value in self.options.items() if name not in BATCHED}
        options |= {name: chosen[name] for name in STRUCTURE if name in chosen}
        options = {n: call(v, chosen) if is_function(v) else v for n, v in options.items()}
        control: Any = options.get("control")
        reference = options.get("reference")
        if reference is not None and hasattr(control, "with_reference"):  # else the simulation rejects it
            options |= {"control": control.with_reference(reference), "reference": None}
        model = self.subject
        if is_function(model):
            model = call(model, chosen)
            self._check_own(own_names(as_dynamics(model)))
        inputs: Any = self.options.get("inputs")
        if inputs is not None and not (is_function(inputs) and not _of_time(inputs)):
            options["inputs"] = inputs if is_function(inputs) else np.asarray(inputs, dtype=float)
        return Group.of(RunSpec(model, **{"record_every": self.default_record_every, "progress": False, **options}))

    @property
    def default_record_every(self) -> int:
        """Steps between records."""
        return ONLY_ENDS if self.measures.only_ends and not self.trajectories else 1

    def _batches(self, members: list[tuple[Group, np.ndarray]], values: Values) -> list[tuple[np.ndarray, Output]]:
        """Run groups whose native code is the same."""
        rows = np.concatenate([r for _, r in members])
        which = np.repeat(np.arange(len(members)), [len(r) for _, r in members])
        size, ahead = _batch_size(members[0][0]), 1 if "inputs" in self.options else AHEAD  # inputs may be large
        parts = [slice(begin, begin + size) for begin in range(0, len(rows), size)]
        found: list[tuple[np.ndarray, Output]] = []
        for begin in range(0, len(parts), ahead):
            some = parts[begin : begin + ahead]
            ready = [_tried(self._ready, [g for g, _ in members], which[p], _rows(values, rows[p])) for p in some]
            for part, run in zip(some, ready, strict=True):
                chosen = rows[part]
                output = run if isinstance(run, Exception) else _tried(self._output, run, len(chosen))
                if isinstance(output, Output):
                    found.append((chosen, output))
                elif len(chosen) == 1:
                    found.append((chosen, Output.failed(1, reason(output))))
                else:  # one bad point must not spoil the others
                    for k, group in enumerate(which[part]):
                        found += self._batches([(members[group][0], chosen[k : k + 1])], values)
        return found

    def _ready(self, members: Sequence[Group], which: np.ndarray, values: Values) -> Callable[[], Run]:
        """Prepare a batch up to the native call; ``which`` : the group of each point."""
        count, spec = len(which), members[0].spec
        dynamics = as_dynamics(spec.model)
        start, parameters = self._start(dynamics, values, count), self._parameters(dynamics, values, count)
        changes: dict[str, Any] = {}
        if (inputs := self._inputs(dynamics, values, count)) is not None:
            changes["inputs"] = inputs
        if members[0].law is not None and (len(members) > 1 or key(spec.control) is None):
            changes["control"] = StackedLaws([g.law for g in members if g.law is not None], which)
        return (replace(spec, **changes) if changes else spec).ready(start, parameters)

    def _output(self, batch: Callable[[], Run], count: int) -> Output:
        """Run a batch and measure it."""
        run = batch()
        if run.outcome.ending is Ending.interrupted:
            raise KeyboardInterrupt
        measured = self.measures(run, count)
        if self.trajectories:
            measured |= _trajectories(run)
        return Output(measured, *endings(run))

    def run(self, values: Values) -> Run:
        group = self._group(next(groups(values, self.apart))[0])
        dynamics = as_dynamics(group.spec.model)
        (q, v), parameters = self._start(dynamics, values, 1), self._parameters(dynamics, values, 1)
        changes: dict[str, Any] = {"record_every": group.all_records}
        if (inputs := self._inputs(dynamics, values, 1)) is not None:
            changes["inputs"] = inputs[:, 0]
        single = {name: np.reshape(value, ()) for name, value in parameters.items()}
        return replace(group.spec, **changes)((q[0], v[0] if v.ndim > 1 else v), single)

    # --- values that vary within a batch -------------------------------------------------------------------------------------------

    def _inputs(self, dynamics: Dynamics, values: Values, count: int) -> np.ndarray | None:
        """Samples (n, count, nu) of inputs that are a function of variables."""
        inputs: Any = self.options.get("inputs")
        if inputs is None or not is_function(inputs) or _of_time(inputs):
            return None
        (found,) = call_rows("inputs", inputs, values, count, lambda found: [found], [(dynamics.nu,)], samples=True)
        found = np.broadcast_to(found, (count, dynamics.nu)) if found.ndim == 1 else found
        return found[None] if found.ndim == 2 else found

    def _parameters(self, dynamics: Dynamics, values: Values, count: int) -> dict[str, Any]:
        given: Any = self.options.get("parameters") or {}
        if is_function(given):
            names: list[str] = []

            def numbers(found: Mapping[str, Any]) -> list[Any]:
                names[:] = names or found
                if set(names) != set(found):
                    raise SweepError(
                        f"parameters= must return the same names at all points, got {names} and {list(found)}."
                    )
                return [found[name] for name in names]

            given = dict(zip(names, call_rows("parameters", given, values, count, numbers, None), strict=True))
        return {**given, **{name: values[name] for name in dynamics.parameter_names if name in values}}

    def _start(self, dynamics: Dynamics, values: Values, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Configurations (count, nq) and velocities (count, nv) or (nv,)."""
        given: Any = self.options.get("start")
        if given is None:
            given = dynamics.coordinates.neutral(), np.zeros(dynamics.nv)
        if is_function(given):
            given = call_rows("start", given, values, count, tuple, [(dynamics.nq,), (dynamics.nv,)])
        q, v = (np.asarray(part, dtype=float) for part in given)
        for what, array, size in (("q", q, dynamics.nq), ("v", v, dynamics.nv)):
            if array.shape not in ((), (size,), (count, size)):
                raise wrong_shape(f"start {what} of {dynamics.name!r}", (size,), array.shape)
        q = np.broadcast_to(q, (count, dynamics.nq))
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


def own_names(dynamics: Dynamics) -> tuple[str, ...]:
    """Variables of a model: parameters, coordinates, velocities, attitudes."""
    return (*dynamics.parameter_names, *dynamics.q_names, *dynamics.v_names, *attitude_blocks(dynamics))


def _rows(values: Values, rows: np.ndarray) -> dict[str, np.ndarray]:
    place = places(rows)
    return {name: v[place] for name, v in values.items()}


def _batch_size(group: Group) -> int:
    """Trajectories of one native call."""
    spec = group.spec
    dynamics = as_dynamics(spec.model)
    steps = (float(spec.until) - float(spec.start_time)) / float(spec.step)
    bytes_each = 8 * (steps / spec.record_every + 2) * (dynamics.nq + 2 * dynamics.nv + 2 * dynamics.nu + 4)
    bytes_each += 16 * (steps + 2) * group.own_signal_size
    return int(max(2, min(BATCH, MOST_BYTES / bytes_each)))


def _tried(function: Callable[..., Any], *arguments: Any) -> Any:
    """Return the result of a function, or the error that makes its points fail; an error of the study itself is raised."""
    try:
        return function(*arguments)
    except (MemoryError, SweepError):
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
    """Unit of a coordinate or velocity; empty for anything else."""
    for names, units in ((dynamics.q_names, dynamics.q_units), (dynamics.v_names, dynamics.v_units)):
        if name in names:
            return units[names.index(name)]
    return ""


def attitude_blocks(dynamics: Dynamics) -> dict[str, tuple[slice, Attitude]]:
    """Blocks with an attitude, by the name of the variable that sets it: "hull.attitude", and "attitude" if there is only one."""
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
