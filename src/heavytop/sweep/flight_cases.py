"""Flights of a vehicle at the points of a sweep: maneuver, law, conditions, delay, lag and start; the default measures of flights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate
from heavytop.control import Actuated, BaseController, Propellers, Seen
from heavytop.copters import (
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
)
from heavytop.copters.maneuvers import Maneuver, make
from heavytop.errors import ControlError, SweepError, unknown_name
from heavytop.geometry import so3
from heavytop.ocp import needed_inputs
from heavytop.simulate import BoundLaw, Dynamics, Run, RunSpec, as_dynamics
from heavytop.sweep.cases import Values, call, groups, is_function, names_of
from heavytop.sweep.measure import Measured, Measures, as_measures
from heavytop.sweep.model_cases import Group, ModelCases, StackedLaws, attitude_blocks, own_names, unit_of

NEAR, UPRIGHT = 0.3, np.deg2rad(15.0)
"""A flight has recovered if it ends within this distance (m) of the reference and within this angle (rad) of its attitude."""
SETTINGS: Mapping[str, Any] = {
    "maneuver": "hover",
    "law": "energy",
    "limits": True,
    "wind": 0.0,
    "noise": None,
    "payload": 0.0,
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
    "delay": "s",
    "lag": "s",
    "step": "s",
    "until": "s",
    "tilt": "rad",
    "heading": "rad",
}
START = ("attitude", "tilt", "heading")
"""Start of the hull: its attitude (3, 3), or a tilt (rad) towards a heading (rad), relative to the start of the maneuver."""


@dataclass(frozen=True, eq=False)
class FlightGroup(Group):
    """Flights of equal structure; ``tracking`` : the law on the maneuver, with the lag next to it."""

    composed: Composition
    tracking: BaseController

    def bound_law(self, start: tuple[np.ndarray, np.ndarray]) -> BoundLaw:
        """The law from starts of the plant: a delayed law sees them until the first measurement arrives."""
        if self.law is None or not self.composed.conditions.delay:
            return self.law  # pyright: ignore
        controller: Any = self.composed.controller(start, self.tracking)
        return replace(self.law, law=controller.sampled(self.period))


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
        known = (*SETTINGS, "vehicle", *START, *used)
        own = own_names(as_dynamics(_vehicle(self.subject).model)) if self._one_vehicle else ()
        for name in names:
            if name not in known and name not in own:
                raise unknown_name("variable of a sweep over flights", name, (*known, *own))
        if "attitude" in names and {"tilt", "heading"} & set(names):
            raise SweepError("the start has either an attitude or a tilt with a heading, not both.")

    @property
    def _one_vehicle(self) -> bool:
        return not is_function(self.subject) and "vehicle" not in self.names

    def _settings(self) -> Mapping[str, Any]:
        return {name: value for name, value in self.given.items() if name not in self.names}

    def unit(self, name: str) -> str:
        return UNITS.get(name) or (
            unit_of(as_dynamics(_vehicle(self.subject).model), name) if self._one_vehicle else ""
        )

    @property
    def apart(self) -> tuple[str, ...]:
        found = [n for n in self.names if n in SETTINGS or n == "vehicle"]
        for value in (self.subject, *self.given.values()):
            if is_function(value):
                found += [n for n in names_of(value) if n in self.names]
        return tuple(dict.fromkeys(found))

    def _make_group(self, chosen: Mapping[str, Any]) -> FlightGroup:
        given = {n: call(v, chosen) if is_function(v) else v for n, v in self.given.items()}
        s = {**SETTINGS, **given, **{n: v for n, v in chosen.items() if n in SETTINGS}}
        subject = chosen.get("vehicle", call(self.subject, chosen) if is_function(self.subject) else self.subject)
        vehicle = _vehicle(subject)
        maneuver = make(s["maneuver"], vehicle) if isinstance(s["maneuver"], str) else s["maneuver"]
        noise, until = (None if s[name] is None else float(s[name]) for name in ("noise", "until"))
        conditions = Conditions.of(vehicle, s["wind"], noise, float(s["payload"]), int(s["seed"]), float(s["delay"]))
        law = as_law(s["law"], vehicle)
        limits, rotors, step = bool(s["limits"]), bool(s["rotors"]), float(s["step"])
        composed = Composition(vehicle, maneuver, law, conditions, limits, s["integral"], rotors, step, until)
        if s["lag"] and (rotors or vehicle.full is not None):
            raise ControlError(f"the rotors of {vehicle.name!r} already lag in this flight: omit lag=.")
        if s["lag"] and composed.robust:
            raise ControlError(
                "the robust controller expects the lag of the vehicle's motors: fly it with rotors=True instead of lag=."
            )
        step, period = composed.timing
        tracking = composed.tracking()
        if s["lag"]:
            tracking = _with_lag(composed, tracking, float(s["lag"]))
        every = s["record_every"]
        spec = RunSpec(
            composed.plant,
            float(composed.end),
            step,
            s["integrator"],
            composed.controller(composed.start(), tracking),
            control_step=period,
            record_every=self.default_record_every if every is None else int(every),
            threads=s.get("threads", 1),
            progress=False,
        )
        return FlightGroup.of(spec, vehicle, maneuver, composed=composed, tracking=tracking)

    def _ready(self, members: Sequence[FlightGroup], which: np.ndarray, values: Values) -> Callable[[], FlightBatch]:
        group, composed = members[0], members[0].composed
        start, parameters = self._flight_start(group, values, len(which))
        spec = group.spec
        if len(members) > 1 or composed.conditions.delay:
            spec = replace(spec, control=StackedLaws([g.bound_law(start) for g in members], which))
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
        if lost := [name for name in parameters if name not in as_dynamics(group.spec.model).parameter_names]:
            raise SweepError(
                f"the plant of this flight of {vehicle.name!r} has no parameter {lost[0]!r}, its model has."
            )
        return group.composed.start((q, v)), parameters

    def run(self, values: Values) -> Flight:
        """The flight of one point, with all records."""
        group: Any = self._group(next(groups(values, self.apart))[0])
        (q, v), parameters = self._flight_start(group, values, 1)
        start = q[0], v[0]
        control = group.composed.controller(start, group.tracking)
        spec = replace(group.spec, control=control, record_every=group.all_records)
        return Flight.of(group.composed, spec(start, {name: value[0] for name, value in parameters.items()}))


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


# --- lag of the propellers -----------------------------------------------------------------------------------------------------------


def _with_lag(composed: Composition, tracking: BaseController, lag: float) -> BaseController:
    """The law with propellers that lag behind their commands, first at hover."""
    vehicle, low, high = composed.vehicle, -np.inf, np.inf
    model, (q, _) = vehicle.model, composed.maneuver.start
    if vehicle.limits is not None and composed.limits:
        lower, upper = vehicle.limits.bounds(model)
        low, high = float(np.min(lower)), float(np.max(upper))
    rest = np.zeros(model.nv)
    hover = needed_inputs(model, q, rest, rest)  # without the limits
    return Lagging(tracking, Propellers(lag, lowest=low, highest=high), hover, sample_time=composed.step)


class Lagging(Actuated):
    """Propellers whose lag is a part of the memory: flights that differ in it share their native code."""

    def __init__(self, controller: Any, actuators: Propellers, start: np.ndarray, sample_time: float) -> None:
        super().__init__(controller, actuators, start, sample_time)
        self.propellers = actuators
        self.kept = float(np.exp(-sample_time / actuators.time_constant))
        self.own_state_size += 1

    def first(self) -> np.ndarray:
        """The levels, and the part of a level that is left after a period."""
        return np.append(super().first(), self.kept)

    def acted(self, at: Seen, u: Array) -> Array:
        """Outputs of the actuators."""
        return self.actuators.output(at.z[:-1])

    def following(self, at: Seen, u: Array) -> Array:
        """The exact response to a demand held over a period; the part stays."""
        levels, kept = at.z[:-1], at.z[-1]
        return concatenate(levels * kept + self.propellers.target(u) * (1 - kept), at.z[-1:])


# --- measures -----------------------------------------------------------------------------------------------------------------------


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
