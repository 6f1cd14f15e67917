"""What a vehicle can carry and how long it can hover."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from heavytop.control import BaseController
from heavytop.copters.authority import Authority
from heavytop.copters.catalogue import load
from heavytop.copters.composition import Composition, Conditions, as_law
from heavytop.copters.flight import desired_poses, distance_between, flown_poses
from heavytop.copters.maneuvers import Maneuver, make
from heavytop.copters.propulsion import typical_propulsion
from heavytop.copters.vehicle import Vehicle
from heavytop.errors import ControlError, ModelError
from heavytop.ocp import needed_inputs
from heavytop.simulate import simulate

TRIED, ROUNDS = 16, 3
"""Payloads flown in one batch, and the number of batches of a search: each divides the interval by 16."""
EFFICIENCY = 0.7
"""Mechanical power of the propellers per electrical power, of typical motors and speed controllers."""


def lifted_payload(vehicle: Vehicle) -> float:
    """The payload (kg) with which a vehicle just hovers level, with no rotor beyond its limits.

    >>> from heavytop.copters import quadcopter
    >>> round(lifted_payload(quadcopter()), 3)
    1.546
    """
    return (Authority.of(vehicle).lift - 1.0) * vehicle.mass


def largest_payload(
    vehicle: Vehicle | str | Path,
    maneuver: Maneuver | str = "hover",
    law: str | BaseController = "energy",
    *,
    error: float = 0.5,
    wind: Any = 0.0,
    noise: float | None = None,
    delay: float = 0.0,
    rotors: bool = False,
    step: float = 2e-3,
    until: float | None = None,
) -> float:
    """The largest payload (kg) with which a vehicle flies a maneuver, to within 1/4096 of the payload that it can lift.

    With all smaller payloads that were tried, the vehicle also stays within ``error`` (m) of the reference. The controller does not know the payload.

    Parameters
    ----------
    error : largest distance from the reference, m. The other arguments are those of :func:`fly`.

    Returns
    -------
    float
        0 if even the vehicle without payload exceeds that distance.

    Examples
    --------
    >>> from heavytop.copters import maneuvers, quadcopter
    >>> craft = quadcopter()
    >>> found = largest_payload(craft, maneuvers.hover(craft, duration=1.0), error=0.2, step=0.01)
    >>> 0.05 < found < lifted_payload(craft)
    True
    """
    if not (np.isfinite(error) and error > 0):
        raise ControlError(f"error of a payload search must be a positive distance in m, got {error!r}.")
    vehicle = load(vehicle) if isinstance(vehicle, str | Path) else vehicle
    made = make(maneuver, vehicle) if isinstance(maneuver, str) else maneuver
    conditions = Conditions.of(vehicle, wind, noise, delay=delay)
    flight = Composition(vehicle, made, as_law(law, vehicle), conditions, rotors=rotors, step=step, until=until)
    flight = replace(flight, varied=("payload",))
    low, high = 0.0, max(lifted_payload(vehicle), 0.0)
    for _ in range(ROUNDS):
        tried = np.linspace(low, high, TRIED + 1)
        kept = _within(flight, tried, error)
        if not kept[0]:
            return 0.0
        last = int(np.argmin(kept)) - 1 if not np.all(kept) else TRIED
        if last == TRIED:
            return float(high)
        low, high = tried[last], tried[last + 1]
    return float(low)


def _within(flight: Composition, payloads: np.ndarray, error: float) -> np.ndarray:
    """Whether flights with these payloads stay within a distance of the reference."""
    start, (step, period) = flight.start(), flight.timing
    control = flight.controller(start)
    run = simulate(
        flight.plant, start, flight.end, step, "ros2" if flight.maneuver.grounded else "rkmk4",
        control=control, control_step=period, parameters={"payload": payloads}, progress=False,
    )  # fmt: skip
    distance = distance_between(flown_poses(flight.vehicle, run), desired_poses(flight.vehicle, flight.maneuver, run))
    return np.all(distance <= error, axis=0)  # NaN after an early end is not


def hover_power(vehicle: Vehicle, payload: float = 0.0, efficiency: float = EFFICIENCY) -> float:
    """Electrical power (W) for hovering: torque times angular velocity of all rotors, divided by the efficiency of motors and speed controllers.

    Without coefficients of the propellers (``propulsion``) typical ones are used.

    >>> from heavytop.copters import load
    >>> round(hover_power(load("hummingbird")))
    80
    """
    if not 0 < efficiency <= 1:
        raise ModelError(f"efficiency must be above 0 and at most 1, got {efficiency}.")
    total = vehicle.mass + payload
    if not (np.isfinite(total) and total > 0):
        raise ModelError(f"the mass with payload must be positive, got {total:g} kg.")
    model, rest = vehicle.model, np.zeros(vehicle.model.nv)
    u = needed_inputs(model, model.neutral(), rest, rest) * total / vehicle.mass
    thrusts = np.abs(vehicle.airframe.thrusts(u[..., : vehicle.airframe.inputs]))
    p = vehicle.propulsion or typical_propulsion(vehicle)
    speeds = np.sqrt(thrusts / p.thrust_coefficient)
    return float(np.sum(p.torque_coefficient * speeds**3)) / efficiency


def hover_time(vehicle: Vehicle, energy: float, payload: float = 0.0, efficiency: float = EFFICIENCY) -> float:
    """Hover time (s) with a battery energy (J): 3600 times its capacity (A h) times its voltage (V), times the usable share.

    >>> from heavytop.copters import load
    >>> energy = 3600 * 2.2 * 11.1 * 0.8  # three cells of 2.2 A h, 80 % of which are used
    >>> round(hover_time(load("hummingbird"), energy) / 60)
    15
    """
    if not (np.isfinite(energy) and energy >= 0):
        raise ModelError(f"energy of a battery must be a non-negative number of J, got {energy!r}.")
    return energy / hover_power(vehicle, payload, efficiency)
