"""How a flight is put together: the law, the plant, and everything that stands between them.

From the law outwards: integral action, the reference, the drives of a detailed plant, sensors with noise and delay, rotors, wind.
:func:`.fly` and sweeps over flights both compose by what is written here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from heavytop.control.laws.base import BaseController
from heavytop.control.laws.integral import Integral
from heavytop.control.laws.law import FeedbackLaw
from heavytop.copters.conditions import Conditions
from heavytop.copters.maneuvers import Maneuver
from heavytop.copters.rotor_plant import OnRotors, RotorPlant
from heavytop.copters.vehicle import Vehicle
from heavytop.errors import ControlError
from heavytop.simulate import Controller
from heavytop.system.model import Model

INTEGRAL_SHARE = 0.6
"""Gain of the integral action per stiffness of the prototype, 1/s."""


def integral_action(vehicle: Vehicle) -> Integral:
    """The integral action that suits the prototype of a vehicle."""
    stiffness = [s.total for (a, b), s in vehicle.prototype.stiffness.items() if (a, b) == ("world", "hull")]
    return Integral("hull", gain=INTEGRAL_SHARE * float(stiffness[0]), limit=3.0)


def law_of(vehicle: Vehicle, kind: str, limits: bool, integral: bool) -> FeedbackLaw:
    """The law of a vehicle, with the vehicle's limits and with integral action if they are wanted."""
    return vehicle.law(kind, limits, integral_action(vehicle) if integral else ())


def along(controller: BaseController, maneuver: Maneuver, step: float, integral: bool) -> BaseController:
    """A controller that follows a maneuver; what is integrated is sampled with the ``step`` (s) of the flight."""
    return controller.with_reference(maneuver, sample_time=step if integral else None)


def plant_of(vehicle: Vehicle, conditions: Conditions, rotors: bool) -> Model | RotorPlant:
    """What flies under these conditions; with ``rotors`` their speeds lag, unless a detailed plant has its own.

    Raises
    ------
    ControlError
        The vehicle has limbs, which a plant with rotors would leave limp.
    """
    if rotors and vehicle.limbs:
        raise ControlError(
            f"{vehicle.name!r} has limbs: rotors=True is made for a hull without moving parts. Fly it with rotors=False."
        )
    if rotors and vehicle.full is None:
        return RotorPlant(vehicle, system=conditions.system(vehicle), wind=bool(conditions.wind))
    return conditions.plant(vehicle)


@dataclass(frozen=True, eq=False)
class Composition:
    """A vehicle in its plant under conditions: where the plant starts, and the controller as the plant meets it."""

    vehicle: Vehicle
    conditions: Conditions
    plant: Any

    def start(self, state: tuple[Any, Any]) -> tuple[Any, Any]:
        """State of the plant from one of the vehicle, (..., nq) and (..., nv); its rotors and drives begin as in hovering."""
        if isinstance(self.plant, RotorPlant):
            return self.plant.start(*state)
        return state if self.vehicle.full is None else self.vehicle.full.start(*state)

    def controller(self, tracking: Any, start: tuple[Any, Any], step: float) -> Controller:
        """The whole controller around one that knows the reference; ``start`` of the plant is what it sees first, ``step`` its sample period."""
        controller = tracking if self.vehicle.full is None else self.vehicle.full.controller(tracking)
        rotors, seen = isinstance(self.plant, RotorPlant), self.vehicle.plant
        first = (start[0][..., : seen.nq], start[1][..., : seen.nv]) if rotors else start
        controller = self.conditions.measured(controller, seen, first, step)
        if rotors:
            controller = OnRotors(controller, self.vehicle)
        return self.conditions.blown(controller)
