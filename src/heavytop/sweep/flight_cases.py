"""Flights of a vehicle at the points of a sweep: maneuver, law, conditions, delay, lag and start; the usual measures of flights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate
from heavytop.control import Actuated, Propellers
from heavytop.control.laws.wrapper import Seen
from heavytop.copters import catalogue
from heavytop.copters.composition import ROBUST, Composition
from heavytop.copters.conditions import Conditions
from heavytop.copters.flight import Flight, angle_between, desired_poses, distance_between, flown_poses
from heavytop.copters.maneuvers import Maneuver, make
from heavytop.copters.vehicle import Vehicle
from heavytop.errors import ControlError, SweepError, unknown_name
from heavytop.geometry import so3
from heavytop.ocp.inverse_inputs import needed_inputs
from heavytop.simulate import Run, prepare
from heavytop.simulate.dynamics import as_dynamics
from heavytop.sweep.cases import Values, call, groups, is_function, key_of, names_of
from heavytop.sweep.event_ends import first_of
from heavytop.sweep.measure import Measured, Measures, as_measures
from heavytop.sweep.models import ModelCases, attitude_blocks, unit_of
from heavytop.sweep.stacked_controllers import Remade, Stacked

NEAR, UPRIGHT = 0.3, np.deg2rad(15.0)
"""A flight has recovered if it ends so near to the reference (m) and turned away from it by less than that (rad)."""
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
"""What can be set or varied about a flight, beside the vehicle and its start, with the usual values."""
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
"""Start of the hull: its attitude (3, 3), or a tilt (rad) towards a heading (rad), on top of where the maneuver begins."""
MOST_PARTS = 1024
"""Vehicles, maneuvers, laws and plants that are kept for further points."""


class FlightCases(ModelCases):
    """A vehicle, its name, or a function of variables that makes it, with the options of a flight."""

    def __init__(
        self, vehicle: Any, options: Mapping[str, Any], measure: Any, trajectories: bool = False, seed: int = 0
    ) -> None:
        unknown = [name for name in options if name not in SETTINGS and name != "threads"]
        if unknown:
            raise unknown_name("option of a sweep over flights", unknown[0], (*SETTINGS, "threads"))
        measures = Measures({"": flight_measures}) if measure is None else as_measures(measure)
        super().__init__(vehicle, {}, measures, trajectories)
        self.given = {"seed": seed, **options}

    def check(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        used = {n for value in (self.subject, *self.given.values()) if is_function(value) for n in names_of(value)}
        known = (*SETTINGS, "vehicle", *START, *used)
        own: tuple[str, ...] = ()
        if not is_function(self.subject) and "vehicle" not in names:
            own = self._own_names(as_dynamics(_vehicle(self.subject).model))
        for name in names:
            if name not in known and name not in own:
                raise unknown_name("variable of a sweep over flights", name, (*known, *own))
        if self.given.get("law") == ROBUST and "law" not in names:
            raise _not_in_batches()
        if "attitude" in names and {"tilt", "heading"} & set(names):
            raise SweepError("the start has either an attitude or a tilt with a heading, not both.")

    def _settings(self) -> Mapping[str, Any]:
        return {name: value for name, value in self.given.items() if name not in self.names}

    def unit(self, name: str) -> str:
        fixed = not is_function(self.subject) and "vehicle" not in self.names
        return UNITS.get(name) or (unit_of(as_dynamics(_vehicle(self.subject).model), name) if fixed else "")

    @property
    def apart(self) -> tuple[str, ...]:
        found = [n for n in self.names if n in SETTINGS or n == "vehicle"]
        for value in (self.subject, *self.given.values()):
            if is_function(value):
                found += [n for n in names_of(value) if n in self.names]
        return tuple(dict.fromkeys(found))

    def _plan(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        key = tuple((name, key_of(value)) for name, value in sorted(chosen.items()))
        known = self.__dict__.setdefault("_plans", {})
        if key not in known:
            while len(known) > 256:
                del known[next(name for name in known if name != ("parts",))]
            if len(known.get(("parts",), ())) > MOST_PARTS:  # a function makes a vehicle for every point
                known[("parts",)].clear()
            known[key] = chosen, self._made(chosen)
        return known[key][1]

    def _shared(self, kind: str, key: Any, build: Any) -> Any:
        """Vehicles, maneuvers, laws and plants are made once for all plans."""
        known = self.__dict__.setdefault("_plans", {}).setdefault(("parts",), {})
        if (kind, key) not in known:
            known[kind, key] = build()
        return known[kind, key]

    def _made(self, chosen: Mapping[str, Any]) -> dict[str, Any]:
        settings = {
            **SETTINGS,
            **{n: call(v, chosen) if is_function(v) else v for n, v in self.given.items() if n != "threads"},
        }
        settings |= {n: v for n, v in chosen.items() if n in SETTINGS}
        if str(settings["law"]) == ROBUST:
            raise _not_in_batches()
        subject = chosen.get("vehicle", call(self.subject, chosen) if is_function(self.subject) else self.subject)
        _, vehicle = self._shared("vehicle", key_of(subject), lambda: (subject, _vehicle(subject)))
        flown, law = settings["maneuver"], str(settings["law"])
        maneuver = flown
        if isinstance(flown, str):
            maneuver = self._shared("maneuver", (id(vehicle), flown), lambda: make(flown, vehicle))
        payload, delay = float(settings["payload"]), float(settings["delay"])
        noise = None if settings["noise"] is None else float(settings["noise"])
        conditions = Conditions.of(vehicle, settings["wind"], noise, payload, int(settings["seed"]), delay)
        step, limits, rotors = float(settings["step"]), bool(settings["limits"]), bool(settings["rotors"])
        until = None if settings["until"] is None else float(settings["until"])
        if settings["lag"] and (rotors or vehicle.full is not None):
            raise ControlError(f"the rotors of {vehicle.name!r} already lag in this flight: omit lag=.")
        composed = Composition(
            vehicle, maneuver, law, conditions, limits, settings["integral"], rotors, step, until
        )  # fmt: skip
        made = self._shared("law", (id(vehicle), law, limits, composed.integrating), lambda: composed.feedback)
        key = (id(vehicle), payload, bool(conditions.wind), rotors)
        plant: Any = self._shared("plant", key, lambda: composed.plant)
        return {
            "model": plant,
            "control": FlightLoop(composed, composed.tracking(made), settings),
            "until": float(composed.end),
            "step": step,
            "integrator": settings["integrator"],
            "flown": (vehicle, maneuver),
            **({} if settings["record_every"] is None else {"record_every": int(settings["record_every"])}),
        }

    def _runner(self, plan: Mapping[str, Any], values: Values, count: int, every: int) -> Any:
        loop = plan["control"]
        loops = loop.controllers if isinstance(loop, Stacked) else (loop,) * count
        vehicle, maneuver = plan["flown"]
        own = as_dynamics(vehicle.model)
        q = np.array(np.broadcast_to(loops[0].start[0], (count, own.nq)))
        v = np.array(np.broadcast_to(loops[0].start[1], (count, own.nv)))
        for k, name in enumerate((*own.q_names, *own.v_names)):
            if name in values:
                (q[:, k] if k < own.nq else v[:, k - own.nq])[...] = values[name]
        _turn(own, q, values)
        start = loops[0].composed.start((q, v))
        parameters = {name: values[name] for name in own.parameter_names if name in values}
        if lost := [name for name in parameters if name not in as_dynamics(plan["model"]).parameter_names]:
            raise SweepError(
                f"the plant of this flight of {vehicle.name!r} has no parameter {lost[0]!r}, its model has."
            )
        if isinstance(loop, Stacked):
            around = {id(one): one.around(start) for one in dict.fromkeys(loops)}
            control: Any = Stacked([around[id(one)] for one in loops], loops[0].memo)
        else:
            control = Remade(loop.around(start), loop.memo)
        options = {n: plan[n] for n in ("until", "step", "integrator")}
        options |= {
            "control": control,
            "record_every": every,
            "threads": self.given.get("threads", 1),
            "progress": False,
        }
        run = prepare(plan["model"], **options).ready(start, parameters)
        return lambda: Flown(run(), vehicle, maneuver)

    def run(self, values: Values) -> Any:
        """The flight of one point, with all records."""
        plan = self._plan(next(groups(values, self.apart))[0])
        padded = {n: np.concatenate([v, v]) for n, v in values.items()}
        flown = self._runner(plan, padded, 2, int(plan.get("record_every", 1)))()
        return Flight.of(plan["control"].composed, first_of(flown.run))


def _not_in_batches() -> SweepError:
    return SweepError(
        f"the law {ROBUST!r} is not flown in batches: sweep a function of one point that returns copters.fly(vehicle, ..., law={ROBUST!r})."
    )


def _vehicle(subject: Any) -> Vehicle:
    if isinstance(subject, Vehicle):
        return subject
    if isinstance(subject, str):
        return catalogue.load(subject)
    raise SweepError(f"a sweep over flights needs a vehicle or its name, got {type(subject).__name__}.")


def _turn(own: Any, q: np.ndarray, values: Values) -> None:
    """Set the attitude of the hull at the start."""
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


# --- controllers: made when their starts are known ----------------------------------------------------------------------------------


class FlightLoop:
    """The controller of a flight before its start is known: a delay begins with what is seen there."""

    def __init__(self, composed: Composition, tracking: Any, settings: Mapping[str, Any]) -> None:
        self.composed, self.tracking, self.settings = composed, tracking, dict(settings)
        self.start = composed.maneuver.start
        self.vehicle, self.conditions = composed.vehicle, composed.conditions
        self.memo: dict[Any, Any] = {}
        self._made: Any = None

    def around(self, start: tuple[np.ndarray, np.ndarray]) -> Any:
        """The whole controller from the start of the plant, with the lag next to the law."""
        if not self.conditions.delay and self._made is not None:
            return self._made
        tracking, step = self.tracking, float(self.settings["step"])
        if self.settings["lag"]:
            low, high = self._bounds()
            propellers = Propellers(float(self.settings["lag"]), lowest=low, highest=high)
            tracking = Lagging(tracking, propellers, self._hover(), sample_time=step)
        self._made = self.composed.controller(start, tracking)
        return self._made

    def _bounds(self) -> tuple[float, float]:
        limits = self.vehicle.limits
        if limits is None or not self.settings["limits"]:
            return -np.inf, np.inf
        lower, upper = limits.bounds(self.vehicle.model)
        return float(np.min(lower)), float(np.max(upper))

    def _hover(self) -> np.ndarray:
        """Inputs at rest on the reference, without the limits."""
        model, (q, _) = self.vehicle.model, self.start
        rest = np.zeros(model.nv)
        return needed_inputs(model, q, rest, rest)

    # what decides whether two loops share their native code; see shared_code.likeness

    @property
    def signal_size(self) -> int:
        """Of the whole controller."""
        return self._any().signal_size

    @property
    def state_size(self) -> int:
        """Of the whole controller."""
        return self._any().state_size

    def _any(self) -> Any:
        return self.around(self.composed.start((self.start[0][None], self.start[1][None])))

    def sampled(self, period: float | None) -> Any:
        """The controller at a period."""
        return self._any().sampled(period)

    def traced(self, model: Any) -> Any:
        """The function of the controller."""
        return self._any().traced(model)


class Lagging(Actuated):
    """Propellers whose lag is in the memory: flights that differ in it share their native code."""

    def __init__(self, controller: Any, actuators: Propellers, start: np.ndarray, sample_time: float) -> None:
        super().__init__(controller, actuators, start, sample_time)
        self.propellers = actuators
        self.kept = float(np.exp(-sample_time / actuators.time_constant))
        self.own_state_size += 1

    def first(self) -> np.ndarray:
        """The levels, and which part of a level is left after a period."""
        return np.append(super().first(), self.kept)

    def acted(self, at: Seen, u: Array) -> Array:
        """What the actuators give."""
        return self.actuators.output(at.z[:-1])

    def following(self, at: Seen, u: Array) -> Array:
        """The exact response to a demand held over a period; the part stays."""
        levels, kept = at.z[:-1], at.z[-1]
        return concatenate(levels * kept + self.propellers.target(u) * (1 - kept), at.z[-1:])


# --- batches of flights, as measures see them ------------------------------------------------------------------------------------------


class Flown:
    """A batch of flights as measures see it: the run, with the errors along the maneuver.

    Attributes of the run are attributes of it; ``flown["position_error"]`` and ``flown["attitude_error"]`` are (records, *batch).
    """

    def __init__(self, run: Run, vehicle: Vehicle, maneuver: Maneuver) -> None:
        self.run, self.vehicle, self.maneuver = run, vehicle, maneuver

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "run":
            raise AttributeError(name)
        return getattr(self.run, name)

    def __getitem__(self, name: str) -> np.ndarray:
        return getattr(self, name) if name in ("position_error", "attitude_error") else self.run[name]

    def with_run(self, run: Run) -> Flown:
        """Another run of the same flight."""
        return Flown(run, self.vehicle, self.maneuver)

    @cached_property
    def _poses(self) -> tuple[np.ndarray, np.ndarray]:
        """Of the hull and of its reference."""
        return flown_poses(self.vehicle, self.run), desired_poses(self.vehicle, self.maneuver, self.run)

    @cached_property
    def position_error(self) -> np.ndarray:
        """Distance of the hull from the reference, m."""
        return distance_between(*self._poses)

    @cached_property
    def attitude_error(self) -> np.ndarray:
        """Angle between the attitudes of hull and reference, rad."""
        return angle_between(*self._poses)

    @property
    def recovered(self) -> np.ndarray:
        """Whether the flight ends near the reference and upright."""
        return (self.position_error[-1] < NEAR) & (self.attitude_error[-1] < UPRIGHT)


def flight_measures(flown: Any) -> dict[str, Any]:
    """The usual measures: ``recovered``, and errors at the end and at most."""
    position = flown.position_error
    with np.errstate(invalid="ignore"):
        largest = np.fmax.reduce(position, axis=0)
    return {
        "recovered": flown.recovered,
        "position_error": Measured(position[-1], "m"),
        "position_error_max": Measured(largest, "m"),
        "attitude_error": Measured(flown.attitude_error[-1], "rad"),
    }
