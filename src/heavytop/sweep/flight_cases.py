"""Flights of a vehicle at the points of a sweep: maneuver, law, conditions, delay, lag and start; the default measures of flights."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np

from heavytop.control import WIND_AXES
from heavytop.copters import (
    LONGEST_DELAY,
    ROBUST,
    Composition,
    Conditions,
    Flight,
    Vehicle,
    angle_between,
    as_law,
    at_limits,
    catalogue,
    change_per_sample,
    commands_of,
    desired_poses,
    distance_between,
    flown_poses,
    is_stack,
    on_grid,
    recipe_of,
)
from heavytop.copters.maneuvers import Maneuver, as_maneuver
from heavytop.errors import ControlError, HeavytopError, ModelError, SweepError, unknown_name
from heavytop.geometry import so3
from heavytop.simulate import Dynamics, Run, RunSpec, as_dynamics
from heavytop.sweep.cases import Output, Values, call, groups, is_function, names_of, single
from heavytop.sweep.flight_groups import MEASURED, PARAMETERS, VARIED, FlightGroup, VariedGains, gain_variable
from heavytop.sweep.measure import Measured, Measures, as_measures
from heavytop.sweep.model_cases import ModelCases, StackedLaws, attitude_blocks, own_names, unit_of

NEAR, UPRIGHT = 0.3, np.deg2rad(15.0)
"""A flight has recovered if it ends within this distance (m) of the reference and within this angle (rad) of its attitude."""
SETTINGS: Mapping[str, Any] = {
    "maneuver": "hover",
    "law": "energy",
    "limits": True,
    "wind": 0.0,
    "noise": None,
    "payload": 0.0,
    "mass": None,
    "seed": 0,
    "integral": None,
    "rotors": False,
    "delay": 0.0,
    "lag": 0.0,
    "step": 2e-3,
    "until": None,
    "record_every": None,
    "integrator": "rkmk4",
}
"""Settings of a flight other than vehicle and start, with their default values; all of them may vary."""
UNITS = {
    "wind": "m/s",
    "payload": "kg",
    "mass": "kg",
    "delay": "s",
    "lag": "s",
    "step": "s",
    "until": "s",
    "tilt": "rad",
    "heading": "rad",
}
LEAST_STORED = 16
"""Samples that a varying delay stores at least: flights with shorter ones share their code."""
ACTING = "acting"
"""Those of the varying settings that are not zero, among the values that determine the structure."""
START = ("attitude", "tilt", "heading")
"""Start of the hull: its attitude (3, 3), or a tilt (rad) towards a heading (rad), relative to the start of the maneuver."""


class FlightCases(ModelCases):
    """A vehicle, its name, or a function of variables that makes it, with the options of a flight."""

    def __init__(
        self,
        vehicle: Any,
        options: Mapping[str, Any],
        measure: Any,
        trajectories: bool = False,
        names: Sequence[str] = (),
        seed: int = 0,
    ) -> None:
        unknown = [name for name in options if name not in SETTINGS and name != "threads"]
        if unknown:
            raise unknown_name("option of a sweep over flights", unknown[0], (*SETTINGS, "threads"))
        measures = Measures({"": flight_measures}) if measure is None else as_measures(measure)
        super().__init__(vehicle, {}, measures, trajectories, names)
        self.given = {"seed": seed, **options}

    def check(self) -> None:
        names = self.names
        used = {n for value in (self.subject, *self.given.values()) if is_function(value) for n in names_of(value)}
        known = (*SETTINGS, "vehicle", *START, *used, *self._gain_names)
        own = own_names(as_dynamics(_vehicle(self.subject).model)) if self._one_vehicle else ()
        for name in names:
            if name not in known and name not in own:
                raise unknown_name("variable of a sweep over flights", name, dict.fromkeys((*known, *own)))
        if "attitude" in names and {"tilt", "heading"} & set(names):
            raise SweepError("the start has either an attitude or a tilt with a heading, not both.")

    @property
    def _gain_names(self) -> tuple[str, ...]:
        """Gains of the vehicle's laws."""
        return tuple(map(gain_variable, recipe_of(_vehicle(self.subject)).defaults)) if self._one_vehicle else ()

    @property
    def _one_vehicle(self) -> bool:
        return not is_function(self.subject) and "vehicle" not in self.names

    def _settings(self) -> Mapping[str, Any]:
        return {name: value for name, value in self.given.items() if name not in self.names}

    def unit(self, name: str) -> str:
        if name in self._gain_names and name not in UNITS:
            gains = recipe_of(_vehicle(self.subject)).gains
            return next(g.unit for g in gains if gain_variable(g.name) == name).replace("1", "")
        return UNITS.get(name) or (
            unit_of(as_dynamics(_vehicle(self.subject).model), name) if self._one_vehicle else ""
        )

    @property
    def apart(self) -> tuple[str, ...]:
        found = [n for n in self.names if n in SETTINGS or n == "vehicle"]
        found += [name for name in self._taken if name in self.names]
        together = self._together({})
        return tuple(dict.fromkeys(n for n in found if n not in together))

    @property
    def _taken(self) -> tuple[str, ...]:
        """Names that functions among vehicle and options take."""
        functions = [value for value in (self.subject, *self.given.values()) if is_function(value)]
        return tuple(name for function in functions for name in names_of(function))

    def _together(self, chosen: Mapping[str, Any]) -> tuple[str, ...]:
        """Settings that vary within a batch of that structure; before law and vehicle are known, as many as possible."""
        names = [name for name in VARIED if name in self.names and name not in self._taken]
        law = chosen.get("law", None if "law" in self.names else self.given.get("law", SETTINGS["law"]))
        known = not is_function(self.subject) and ("vehicle" in chosen or "vehicle" not in self.names)
        sensors = known and _vehicle(chosen.get("vehicle", self.subject)).sensors is not None
        own = isinstance(law, str) and law == ROBUST
        return tuple(n for n in names if n not in MEASURED or not (own or sensors or is_stack(law)))

    def _split(self, values: Values) -> Iterator[tuple[dict[str, Any] | Exception, np.ndarray]]:
        """By structure, then by the settings that act at all: zero wind, payload, noise, delay and lag change the structure."""
        gains = tuple(n for n in self._gain_names if n in self.names)
        for chosen, rows in groups(values, self.apart):
            together = [n for n in self._together(chosen) if values[n].dtype.kind in "fiub"]
            others = [n for n in VARIED if n in self.names and n not in (*together, *chosen)]
            own = {n: values[n][rows] for n in (*together, *others)}
            kinds = {n: own[n] for n in others} | {_acts(n): _acting(n, own[n]) for n in together}
            found = groups(kinds, tuple(kinds)) if kinds else [({}, np.arange(len(rows)))]
            for kind, part in found:
                acting = (*(n for n in together if kind[_acts(n)]), *gains)
                settings = chosen | {n: kind[n] for n in others} | {n: SETTINGS[n] for n in together}
                yield from self._valid(settings, acting, rows[part], {n: own[n][part] for n in acting if n in own})

    def _valid(
        self, settings: dict[str, Any], acting: tuple[str, ...], rows: np.ndarray, own: Values
    ) -> Iterator[tuple[dict[str, Any] | Exception, np.ndarray]]:
        """The points with possible values together, and the errors of the others one by one."""
        bad, longest = np.zeros(len(rows), dtype=bool), 0
        for name, value in own.items():
            signed = name in PARAMETERS or value.ndim > 1
            wrong = ~np.isfinite(value) if signed else ~(np.isfinite(value) & (value >= 0))
            bad |= wrong if wrong.ndim == 1 else np.any(wrong, axis=1)
        if "delay" in own:
            period = self._number("step", settings)
            bad |= (own["delay"] > LONGEST_DELAY) | ~on_grid(own["delay"], period)
            samples = np.round(own["delay"][~bad] / period)
            longest = max(LEAST_STORED, 1 << (int(np.max(samples, initial=1)) - 1).bit_length())
        if set(PARAMETERS) & set(own):
            bad |= self._impossible(settings, own, len(rows))
        for k in np.flatnonzero(bad):
            yield self._error(settings, {n: v[k] for n, v in own.items()}), rows[k : k + 1]
        if not np.all(bad):
            yield settings | {ACTING: acting, "longest": longest}, rows[~bad]

    def _masses(self, settings: Mapping[str, Any], own: Mapping[str, Any]) -> tuple[Vehicle, Any, Any]:
        """The vehicle, and payload and mass (None: its own) of points."""
        subject = settings.get("vehicle", call(self.subject, settings) if is_function(self.subject) else self.subject)
        payload = own["payload"] if "payload" in own else self._number("payload", settings)
        mass = own.get("mass", settings.get("mass", self.given.get("mass")))
        return _vehicle(subject), payload, call(mass, settings) if is_function(mass) else mass

    def _impossible(self, settings: Mapping[str, Any], own: Values, count: int) -> np.ndarray:
        """Whether a hull with payload and mass of a point has no possible inertia (count,)."""
        try:
            vehicle, payload, mass = self._masses(settings, own)
        except HeavytopError:
            return np.zeros(count, dtype=bool)  # the points fail with that error
        finite = np.nan_to_num(mass, nan=0.0, posinf=0.0, neginf=0.0) if mass is not None else None
        return np.broadcast_to(payload < vehicle.least_payload(finite) - 1e-9 * vehicle.mass, (count,))

    def _error(self, settings: Mapping[str, Any], own: Mapping[str, Any]) -> Exception:
        """The error of an impossible point."""
        given: dict[str, Any] = {
            n: float(v) if np.ndim(v) == 0 else v for n, v in own.items() if n in ("wind", "noise", "delay", "payload")
        }
        try:
            Conditions(**given).delay_samples(self._number("step", settings))
            if set(PARAMETERS) & set(own) and np.isfinite([own.get(n, 0.0) for n in PARAMETERS]).all():
                vehicle, payload, mass = self._masses(settings, own)
                vehicle.check_payload(float(payload), None if mass is None else float(mass))
        except HeavytopError as error:
            return error
        return ModelError(f"settings of a flight must be finite and not negative, got {dict(own)}.")

    def _number(self, name: str, chosen: Mapping[str, Any]) -> float:
        value = chosen.get(name, self.given.get(name, SETTINGS[name]))
        return float(call(value, chosen) if is_function(value) else value)

    def _make_group(self, chosen: Mapping[str, Any]) -> FlightGroup:
        given = {n: call(v, chosen) if is_function(v) else v for n, v in self.given.items()}
        s = {**SETTINGS, **given, **{n: v for n, v in chosen.items() if n in SETTINGS}}
        acting: tuple[str, ...] = chosen.get(ACTING, ())
        s |= {n: 1.0 for n in ("wind", "noise", "lag") if n in acting}
        if "delay" in acting:
            s["delay"] = s["step"]
        subject = chosen.get("vehicle", call(self.subject, chosen) if is_function(self.subject) else self.subject)
        vehicle = _vehicle(subject)
        maneuver = as_maneuver(s["maneuver"], vehicle)
        noise, until, mass = (None if s[name] is None else float(s[name]) for name in ("noise", "until", "mass"))
        conditions = Conditions.of(vehicle, s["wind"], noise, float(s["payload"]), int(s["seed"]), float(s["delay"]))
        law = as_law(s["law"], vehicle)
        limits, rotors, step = bool(s["limits"]), bool(s["rotors"]), float(s["step"])
        varied = tuple(n for n in PARAMETERS if n in acting or (n == "mass" and mass is not None))
        if mass is not None and not set(PARAMETERS) & set(acting):
            vehicle.check_payload(conditions.payload, mass)
        composed = Composition(vehicle, maneuver, law, conditions, limits, s["integral"], rotors, step, until, varied)
        if s["lag"] and (rotors or vehicle.full is not None):
            raise ControlError(f"the rotors of {vehicle.name!r} already lag in this flight: omit lag=.")
        if s["lag"] and composed.robust:
            raise ControlError(
                "the robust controller expects the lag of the vehicle's motors: fly it with rotors=True instead of lag=."
            )
        gains = VariedGains.of(composed) if set(acting) - set(VARIED) else None
        step, period = composed.timing
        every = s["record_every"]
        draft = FlightGroup(
            spec=RunSpec(
                composed.plant,
                float(composed.end),
                step,
                s["integrator"],
                control_step=period,
                record_every=self.default_record_every if every is None else int(every),
                threads=s.get("threads", 1),
                progress=False,
            ),
            law=None,
            period=composed.period,
            code=None,
            composed=composed,
            tracking=composed.tracking(),
            lag=float(s["lag"]),
            varied=acting,
            longest=chosen.get("longest", 0),
            mass=mass,
            gains=gains,
        )
        return draft.bound(vehicle, maneuver)

    def _ready(self, members: Sequence[FlightGroup], which: np.ndarray, values: Values) -> Callable[[], FlightBatch]:
        group, composed = members[0], members[0].composed
        start, parameters = self._flight_start(group, values, len(which))
        spec = group.spec
        if len(members) > 1 or group.has_own_laws:
            spec = replace(spec, control=StackedLaws([g.bound_law(start, values) for g in members], which))
        run = spec.ready(start, parameters)
        return lambda: FlightBatch(run(), composed)

    def _flight_start(
        self, group: FlightGroup, values: Values, count: int
    ) -> tuple[tuple[np.ndarray, np.ndarray], dict[str, np.ndarray]]:
        """Start of the plant (count, ...), and parameters."""
        vehicle, own = group.composed.vehicle, as_dynamics(group.composed.vehicle.model)
        q, v = (np.array(np.broadcast_to(x, (count, len(x)))) for x in group.composed.maneuver.start)
        for k, name in enumerate((*own.q_names, *own.v_names)):
            if name in values:
                (q[:, k] if k < own.nq else v[:, k - own.nq])[...] = values[name]
        _turn(own, q, values)
        parameters = {name: values[name] for name in own.parameter_names if name in values}
        parameters |= {name: np.asarray(values[name], dtype=float) for name in PARAMETERS if name in group.varied}
        if group.mass is not None and "mass" not in parameters:
            parameters["mass"] = np.full(count, group.mass)
        if lost := [name for name in parameters if name not in as_dynamics(group.spec.model).parameter_names]:
            raise SweepError(
                f"the plant of this flight of {vehicle.name!r} has no parameter {lost[0]!r}, its model has."
            )
        return group.composed.start((q, v)), parameters

    def _output(self, batch: Callable[[], Any], count: int) -> Output:
        output = super()._output(batch, count)
        if self.trajectories and "wind" in self.names:
            output.measured["u_t"] = _with_wind(output.measured["u_t"])
        return output

    def run(self, values: Values) -> Flight:
        """The flight of one point, with all records."""
        chosen = next(self._split(values))[0]
        if isinstance(chosen, Exception):
            raise chosen
        group: Any = self._group(chosen)
        (q, v), parameters = self._flight_start(group, values, 1)
        start = q[0], v[0]
        flown, control = group.single(start, single(values, 0))
        spec = replace(group.spec, control=control, record_every=group.all_records)
        return Flight.of(flown, spec(start, {name: value[0] for name, value in parameters.items()}))


def _acts(name: str) -> str:
    """Column that says whether a setting acts."""
    return f"{name} acts"


def _acting(name: str, value: np.ndarray) -> np.ndarray:
    """Whether a setting acts (count,): mass and seed always do."""
    if name in ("mass", "seed"):
        return np.ones(len(value), dtype=bool)
    return value != 0 if value.ndim == 1 else np.any(value != 0, axis=1)


def _vehicle(subject: Any) -> Vehicle:
    if isinstance(subject, Vehicle):
        return subject
    if isinstance(subject, str):
        return catalogue.load(subject)
    raise SweepError(f"a sweep over flights needs a vehicle or its name, got {type(subject).__name__}.")


def _turn(own: Dynamics, q: np.ndarray, values: Values) -> None:
    """Set the start attitude of the hull."""
    place, block = next(iter(attitude_blocks(own).values()))
    for name, (where, kind) in attitude_blocks(own).items():
        if name in values:
            q[:, where] = kind.from_rotation_matrix(np.asarray(values[name], dtype=float))
    if "tilt" in values or "heading" in values:
        count = len(q)
        tilt = np.broadcast_to(np.asarray(values.get("tilt", np.zeros(count)), dtype=float), (count,))
        heading = np.broadcast_to(np.asarray(values.get("heading", np.zeros(count)), dtype=float), (count,))
        axis = np.stack([-np.sin(heading), np.cos(heading), np.zeros(count)], axis=-1)
        R = block.rotation_matrix(q[:, place])
        q[:, place] = block.from_rotation_matrix(R @ so3.exp(tilt[:, None] * axis))


# --- measures -----------------------------------------------------------------------------------------------------------------------


def _with_wind(u: Measured) -> Measured:
    """Records of inputs in which still air is a wind of zero, as of plants with wind inputs."""
    names = tuple((u.labels or {})["input"])
    if names[-len(WIND_AXES) :] == WIND_AXES:
        return u
    still = np.where(np.isnan(u.values[..., :1]), np.nan, np.zeros(len(WIND_AXES)))
    return replace(
        u, values=np.concatenate([u.values, still], axis=-1), labels={**(u.labels or {}), "input": (*names, *WIND_AXES)}
    )


class FlightBatch:
    """The run of a batch of flights, for measures, with the errors along the maneuver.

    It has the attributes of the run; ``batch["position_error"]`` and ``batch["attitude_error"]`` are (records, *batch).
    """

    def __init__(self, run: Run, composed: Composition) -> None:
        self.run, self.composed = run, composed

    @property
    def vehicle(self) -> Vehicle:
        return self.composed.vehicle

    @property
    def maneuver(self) -> Maneuver:
        return self.composed.maneuver

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "run":
            raise AttributeError(name)
        return getattr(self.run, name)

    def __getitem__(self, name: str) -> np.ndarray:
        return getattr(self, name) if name in ("position_error", "attitude_error") else self.run[name]

    def with_run(self, run: Run) -> FlightBatch:
        """Another run of the same flight."""
        return FlightBatch(run, self.composed)

    @cached_property
    def _poses(self) -> tuple[np.ndarray, np.ndarray]:
        """Poses of the hull and of its reference."""
        return flown_poses(self.vehicle, self.run), desired_poses(self.vehicle, self.maneuver, self.run)

    @cached_property
    def position_error(self) -> np.ndarray:
        """Distance of the hull from the reference, m."""
        return distance_between(*self._poses)

    @cached_property
    def attitude_error(self) -> np.ndarray:
        """Angle between the attitudes of hull and reference, rad."""
        return angle_between(*self._poses)

    @cached_property
    def commands(self) -> np.ndarray:
        """Inputs (records, *batch, nu) that the controller commands, before the lag of the motors."""
        return commands_of(self.vehicle, self.run)

    @property
    def saturated(self) -> np.ndarray:
        """Share of the time with a command at a limit."""
        flown = np.isfinite(self.commands).all(axis=-1)
        if not self.composed.limited and not self.composed.rotors:
            return np.zeros(flown.shape[1:])
        held = at_limits(self.vehicle, self.commands) & flown
        return np.sum(held, axis=0) / np.maximum(np.sum(flown, axis=0), 1)

    @property
    def recovered(self) -> np.ndarray:
        """Whether the flight ends near the reference and upright."""
        return (self.position_error[-1] < NEAR) & (self.attitude_error[-1] < UPRIGHT)


def flight_measures(batch: FlightBatch) -> dict[str, Any]:
    """The default measures: ``recovered``, errors at the end and their largest values, commands at their limits and their mean change per sample."""
    position = batch.position_error
    with np.errstate(invalid="ignore"):
        largest = np.fmax.reduce(position, axis=0)
    return {
        "recovered": batch.recovered,
        "position_error": Measured(position[-1], "m"),
        "position_error_max": Measured(largest, "m"),
        "attitude_error": Measured(batch.attitude_error[-1], "rad"),
        "time_at_limits": batch.saturated,
        "command_change": Measured(
            change_per_sample(batch.vehicle, batch.run, batch.commands, batch.composed.timing[1]), "N"
        ),
    }
