"""The composition of a flight: conditions, plant, start and controller of every law, for single flights and for sweeps.

From the law outwards: integral action or observers, the reference, the drives of a detailed plant, sensors with noise and delay, rotors, wind.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from heavytop._arrays import numbers
from heavytop.control import BaseController, Breeze, Delayed, Integral, Noisy, OnPart, Sensed, Sensors, Windy, add_wind
from heavytop.copters.maneuvers import Maneuver
from heavytop.copters.robust_controller import TYPICAL_SENSORS, agile_law, robust_controller
from heavytop.copters.rotor_plant import OnRotors, RotorPlant
from heavytop.copters.stacks import Stack, StackController, is_stack
from heavytop.copters.vehicle import LAWS, Vehicle
from heavytop.errors import ControlError, ModelError, unknown_name
from heavytop.functions import Value, key, store
from heavytop.simulate import Controller, Run, simulate
from heavytop.system import Model

POSITION_NOISE, TURN_NOISE = 0.005, np.deg2rad(0.3)
"""Standard deviations of measured positions (m) and attitudes (rad) for noise 1."""
SPEED_NOISE, RATE_NOISE = 0.03, 0.02
"""The same of velocities (m/s) and angular velocities (rad/s)."""
ROUNDING = 1e-6
"""Relative tolerance of a delay that is a whole number of samples."""
DEEPEST = 5e-3
"""Depth (m) of skids in the ground from which on a flight cannot start."""
LONGEST_DELAY = 2.0
"""Seconds; every sample of a delay is stored."""


@dataclass(frozen=True)
class Conditions:
    """Disturbances of a flight.

    Parameters
    ----------
    wind : mean speed along x in m/s, or mean velocity (3,) in world axes; gusts of a third of it come from all directions.
    noise : measurement noise; 1 is that of a good motion capture system with differentiated signals, or of ``sensors``.
    payload : mass in kg that is fixed below the hull and unknown to the controller; negative: a mass missing there.
    seed : seed of gusts and noise.
    delay : age of the measurements in s, a multiple of the sample period; 0: that of ``sensors``.
    sensors : sensors of the vehicle, if specified in its description; ``noise`` scales their noise and biases.

    Examples
    --------
    >>> Conditions(wind=3.0, delay=0.01).delay
    0.01
    """

    wind: Any = 0.0
    noise: float = 0.0
    payload: float = 0.0
    seed: int = 0
    delay: float = 0.0
    sensors: Sensors | None = None

    @classmethod
    def of(
        cls,
        vehicle: Vehicle,
        wind: Any = 0.0,
        noise: float | None = None,
        payload: float = 0.0,
        seed: int = 0,
        delay: float = 0.0,
    ) -> Conditions:
        """The conditions of a vehicle with its own sensors, if any; ``noise`` is 1 with them, 0 without, unless given."""
        if noise is None:
            noise = 0.0 if vehicle.sensors is None else 1.0
        return cls(wind, noise, payload, seed, delay, vehicle.sensors)

    def __post_init__(self) -> None:
        wind = numbers(self.wind, "wind of a flight")
        if wind.shape not in ((), (3,)) or not np.all(np.isfinite(wind)) or (wind.shape == () and wind < 0):
            raise ModelError(
                f"wind of a flight must be a non-negative number (m/s along x) or three finite ones (its mean velocity), got {self.wind}."
            )
        still = wind.shape == () or not np.any(wind)
        object.__setattr__(self, "wind", float(np.max(wind)) if still else tuple(wind.tolist()))
        for name in ("noise", "delay"):
            value = getattr(self, name)
            if not np.isfinite(value) or value < 0:
                raise ModelError(f"{name} of a flight must be a non-negative number, got {value}.")
        if not np.isfinite(self.payload):
            raise ModelError(f"payload of a flight must be a finite number, got {self.payload}.")
        if self.delay > LONGEST_DELAY:
            raise ModelError(f"delay of a flight must be at most {LONGEST_DELAY:g} s, got {self.delay:g}.")

    @property
    def calm(self) -> bool:
        """Whether nothing disturbs the flight."""
        return not (self.wind or self.noise or self.payload or self.delay or self.sensors is not None)

    @property
    def needs_integral(self) -> bool:
        """Whether a law needs integral action, because a force acts all the time."""
        return bool(self.wind or self.payload)

    def plant(self, vehicle: Vehicle, grounded: bool = False, varied: tuple[str, ...] = ()) -> Model:
        """The model that flies: the vehicle with payload and air drag, over the ground if ``grounded``; wind enters by three more inputs.

        ``varied`` : "payload", "mass": those that are parameters.
        """
        if not (self.wind or self.payload or grounded or varied):
            return vehicle.plant
        system = vehicle.with_payload(self.payload, varied)
        if self.wind:
            add_wind(system, "hull", vehicle.drag)
        return system.derive()

    def deviations(self, model: Model) -> tuple[np.ndarray, np.ndarray]:
        """Standard deviations (nv,) of configuration (tangent) and velocity: of lengths for translations, of angles for rotations."""
        slides: list[bool] = []
        for each in model.description.joints:
            floating, nv = each.joint.kind == "floating", each.joint.coordinates.nv
            slides += [True] * 3 + [False] * 3 if floating else [each.joint.kind == "prismatic"] * nv
        place = np.where(slides, POSITION_NOISE, TURN_NOISE)
        speed = np.where(slides, SPEED_NOISE, RATE_NOISE)
        return np.multiply.outer(self.noise, place), np.multiply.outer(self.noise, speed)

    def with_sensors(self, controller: Controller, model: Model, start: tuple[Any, Any], step: float) -> Controller:
        """The controller with noisy and late measurements of the state of ``model``; ``start`` is the first one, ``step`` the period."""
        if self.sensors is not None:
            return self._sensed(controller, model, step, self.sensors_in_flight(self.sensors))
        if self.noise:
            controller = Noisy(controller, model, *self.deviations(model), seed=self.seed + 1)
        return Delayed(controller, self.delay_samples(step), start) if self.delay else controller

    def sensors_in_flight(self, sensors: Sensors) -> Sensors:
        """The sensors with the noise and the delay of the flight."""
        sensors = replace(sensors.scaled(self.noise), seed=self.seed + 1)
        return sensors.late(self.delay) if self.delay else sensors

    def _sensed(self, controller: Any, model: Model, step: float, sensors: Sensors) -> Controller:
        """The controller with the sensors of its vehicle; a bare law uses neither accelerometer nor rotor speeds."""
        if self.delay:
            self.delay_samples(step)
        used = replace(sensors, accelerometer=None, rotor_speeds=None)
        if not any(np.any([s.noise, s.bias, np.max(s.delay)]) for s in (getattr(used, name) for name in used.names)):
            return controller
        try:
            return Sensed(OnPart(controller, model), model, used)
        except ControlError as error:
            raise ControlError(
                f"the sensors specified in {model.name!r} cannot be simulated: {error} Or fly it without them: leave "
                "[sensors] out of its file, or replace(vehicle, sensors=None)."
            ) from error

    def delay_samples(self, period: float) -> int:
        """The delay in samples; raises a ModelError unless it is a whole number of them."""
        samples = round(self.delay / period)
        if not on_grid(self.delay, period):
            below = int(self.delay / period)
            raise ModelError(
                f"a delay of {self.delay:g} s is {self.delay / period:.4g} samples of {period:g} s, but must be a whole number of them: "
                f"fly with a delay of {below * period:g} s or {(below + 1) * period:g} s, or with another step."
            )
        return samples

    def with_wind(self, controller: Controller) -> Controller:
        """The controller in a plant with wind inputs."""
        return Windy(controller, Breeze(self.wind, self.seed)) if self.wind else controller


def on_grid(delay: Any, period: float) -> np.ndarray:
    """Whether delays (s) are whole numbers of samples.

    >>> on_grid(np.array([0.01, 0.012]), 0.005)
    array([ True, False])
    """
    return np.abs(delay - np.round(np.asarray(delay) / period) * period) <= ROUNDING * np.asarray(delay)


INTEGRAL_SHARE = 0.6
"""Gain of the integral action per stiffness of the prototype, 1/s."""
ROBUST = "robust"
"""Name of the law with the observers, prediction and governor of :func:`.robust_controller`."""
LAW_NAMES = (*LAWS, ROBUST)
ROBUST_PERIOD = 5e-3
"""Shortest sample period (s) of the robust controller."""
State = tuple[Any, Any]


@dataclass(frozen=True, eq=False)
class Composition(Value):
    """A flight before it is flown. Equal flights share their plants, laws and controllers.

    Parameters
    ----------
    vehicle, maneuver : the vehicle and its reference.
    law : "energy", "particle", "body", "robust", or a controller; one without a reference follows the maneuver.
    conditions : disturbances and sensors.
    limits : whether a named law keeps the limits of the vehicle's inputs.
    integral : integral action of a named law; None: in wind or with a payload. The robust law has observers instead.
    rotors : whether rotor speeds lag behind their commands, with drag.
    step : step of the integration and sampling period of every law but the robust one, s. until : end, s; None: that of the maneuver.
    varied : "payload", "mass": those that are parameters of the plant, kg; each trajectory of a batch may have another.

    Examples
    --------
    >>> from heavytop.copters import maneuvers, quadcopter
    >>> quad = quadcopter()
    >>> flight = Composition(quad, maneuvers.hover(quad, duration=1.0), "robust", Conditions(wind=4.0))
    >>> flight.plant.u_names[4:], flight.timing
    (('wind_x', 'wind_y', 'wind_z'), (0.001, 0.005))
    """

    vehicle: Vehicle
    maneuver: Maneuver
    law: str | BaseController = "energy"
    conditions: Conditions = field(default_factory=Conditions)
    limits: bool = True
    integral: bool | None = None
    rotors: bool = False
    step: float = 1e-3
    until: float | None = None
    varied: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.law, str) and self.law not in LAW_NAMES:
            raise unknown_name("law", self.law, LAW_NAMES)
        if self.integral and not isinstance(self.law, str):
            raise ControlError("your controller has its own integral action: omit integral=.")
        if self.integral and self.robust:
            raise ControlError(
                "the robust controller estimates disturbances by observers and has no integral action: omit integral=."
            )

    @property
    def robust(self) -> bool:
        """Whether the law is the robust one."""
        return self.law == ROBUST

    @property
    def law_name(self) -> str:
        """Name of the law for reports."""
        if isinstance(self.law, str):
            return self.law
        return str(getattr(self.law.law, "kind", type(self.law.law).__name__))

    @property
    def limited(self) -> bool:
        """Whether the law limits the inputs."""
        if isinstance(self.law, str):
            return self.limits and self.vehicle.limits is not None
        return getattr(self.law.law, "limits", None) is not None

    @property
    def integrating(self) -> bool:
        """Whether the law has an integral action that the composition adds."""
        if self.robust or not isinstance(self.law, str):
            return False
        return (self.conditions.needs_integral or bool(self.varied)) if self.integral is None else self.integral

    @property
    def end(self) -> float:
        """Duration of the flight, s."""
        return self.maneuver.horizon if self.until is None else self.until

    @property
    def period(self) -> float:
        """Sample period of the controller before it is fitted to the duration, s."""
        if self.stack is not None:
            return self.stack.sample_time
        return max(self.step, ROBUST_PERIOD) if self.robust else self.step

    @property
    def stack(self) -> StackController | None:
        """The flight stack that controls the vehicle; None: a law does."""
        return self.law if isinstance(self.law, StackController) else None

    @property
    def timing(self) -> tuple[float, float | None]:
        """Step of the integration and sample period (None: the step), s. A longer period and its step are fitted to the duration."""
        if not self.robust and self.stack is None:
            return self.step, None
        step, period = min(self.step, self.period), self.period
        if self.end > 0 and step > 0:
            period = self.end / max(1, round(self.end / period))
            step = period / max(1, round(period / step))
        return step, period

    @cached_property
    def plant(self) -> Model | RotorPlant:
        """The system that flies: the vehicle with payload, wind inputs and, with ``rotors``, rotor speeds."""
        payload, wind, grounded = self.conditions.payload, bool(self.conditions.wind), self.maneuver.grounded
        varied = self.varied

        def build() -> Model | RotorPlant:
            vehicle = self.vehicle.grounded() if grounded else self.vehicle
            if self._has_rotor_plant:
                return RotorPlant(vehicle, payload=payload, wind=wind, varied=varied)
            return self.conditions.plant(vehicle, grounded, varied)

        return store.get(key("plant of a flight", self.vehicle, payload, wind, self.rotors, grounded, varied), build)

    @property
    def _has_rotor_plant(self) -> bool:
        return self.rotors and self.vehicle.full is None  # a detailed plant has its own rotors

    @cached_property
    def feedback(self) -> BaseController:
        """The law by itself, before it has its reference; the robust one with its observers and sensors."""
        if self.stack is not None:
            return self.stack.sensed(self.conditions)
        if not isinstance(self.law, str):
            return self.law
        if not self.robust:
            integral = integral_action(self.vehicle) if self.integrating else ()
            return self.vehicle.law(self.law, self.limits, integral)
        if self.conditions.delay:
            self.conditions.delay_samples(self.period)
        sensors = self.conditions.sensors_in_flight(self.vehicle.sensors or TYPICAL_SENSORS)
        law = agile_law(self.vehicle, limits=self.limits, period=self.period)
        return robust_controller(self.vehicle, sensors, law=law, rotors=self.rotors)

    def tracking(self, feedback: BaseController | None = None) -> BaseController:
        """The law on the maneuver; an added integral action is sampled with the step. ``feedback`` : an equal law that is shared."""
        law = self.feedback if feedback is None else feedback
        if not law.needs_reference:
            return law
        return law.with_reference(self.maneuver, sample_time=self.step if self.integrating else None)

    def start(self, state: State | None = None) -> State:
        """State of the plant from one (..., nq), (..., nv) of the vehicle, by default that of the maneuver; rotors and drives as in hovering."""
        q, v = self.maneuver.start if state is None else state
        if self._has_rotor_plant:
            return self.plant.start(q, v)  # pyright: ignore[reportAttributeAccessIssue]
        return (q, v) if self.vehicle.full is None else self.vehicle.full.start(q, v)

    def controller(self, start: State, tracking: BaseController | None = None) -> Controller:
        """The controller of the plant. ``start`` : of the plant, the first measurement of a delayed law; ``tracking`` : the law on the maneuver."""
        if tracking is not None:
            return self._controller(start, tracking)
        found = key("controller of a flight", self, *start)
        return store.get(found, lambda: self._controller(start, self.tracking()))

    def _controller(self, start: State, controller: Any) -> Controller:
        vehicle, conditions = self.vehicle, self.conditions
        if vehicle.full is not None:
            controller = vehicle.full.controller(controller)
        if self.stack is not None:
            controller = OnRotors(controller, vehicle) if self._has_rotor_plant else controller
        elif not self.robust:  # the robust controller has its own sensors
            seen = vehicle.plant
            first = (start[0][..., : seen.nq], start[1][..., : seen.nv])
            inner, controller = controller, conditions.with_sensors(controller, seen, first, self.period)
            # a controller with its own sensors may measure the rotors too
            if self._has_rotor_plant and not (controller is inner and has_sensors(inner)):
                controller = OnRotors(controller, vehicle)
        return conditions.with_wind(controller)

    def _check_above_ground(self, q: Any, v: Any) -> None:
        """Raise a ControlError if the skids start deep in the ground."""
        G, skids = self.vehicle.model.pose("world", "hull", np.asarray(q, dtype=float)), self.vehicle.landing_gear
        lowest = float(np.min(np.matvec(G[:3, :3], np.asarray(skids.points))[:, 2])) + float(G[2, 3]) - skids.radius
        if lowest < -DEEPEST:
            height = self.vehicle.standing_height
            raise ControlError(
                f"the flight {self.maneuver.name!r} over the ground z = 0 starts with the skids of {self.vehicle.name!r} {-lowest:.3g} m below it "
                f"(hull at z = {G[2, 3]:.3g} m; standing it is at {height:.3g} m). Start at z >= {height:.3g} m: heights of landing and takeoff are "
                "above standing (vehicle.standing_height)."
            )

    def run(self, state: State | None = None) -> Run:
        """Simulate the flight from a state of the vehicle."""
        state = None if state is None else (numbers(state[0], "q of the start"), numbers(state[1], "v of the start"))
        if self.maneuver.grounded:
            self._check_above_ground(*(self.maneuver.start if state is None else state))
        start, (step, period) = self.start(state), self.timing
        return simulate(
            self.plant,
            start,
            self.end,
            step,
            "ros2" if self.maneuver.grounded else "rkmk4",  # contact is stiff
            control=self.controller(start),
            control_step=period,
            progress=False,
        )


def integral_action(vehicle: Vehicle) -> Integral:
    """The integral action that suits the prototype of a vehicle."""
    stiffness = [s.total for (a, b), s in vehicle.prototype.stiffness.items() if (a, b) == ("world", "hull")]
    return Integral("hull", gain=INTEGRAL_SHARE * float(stiffness[0]), limit=3.0)


def has_sensors(controller: Any) -> bool:
    """Whether sensors are among the wrappers of a controller."""
    while controller is not None and not isinstance(controller, Sensed):
        controller = getattr(controller, "controller", None)
    return controller is not None


def as_law(
    law: str | BaseController | Stack | Callable[[Vehicle], BaseController], vehicle: Vehicle
) -> str | BaseController:
    """The name of a law, a controller, or the controller that a stack or a function returns for the vehicle."""
    if isinstance(law, str | BaseController):
        return law
    if is_stack(law):
        return StackController(vehicle, law)
    made = law(vehicle) if callable(law) else law
    if isinstance(made, BaseController):
        return made
    what = "law" if made is law else "the result of the function law"
    names = ", ".join(map(repr, LAW_NAMES))
    raise ControlError(f"{what} must be a controller of heavytop.control, or one of the names {names}; got {made!r}.")
