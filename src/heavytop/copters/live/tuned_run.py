"""A flight with everything a reader of its page may change as an input: the numbers of its prototype, and steady wind."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._arrays import Array, part
from heavytop.control import DISTRIBUTIONS, ConstantWind, Seen, Tracking, Windy, add_wind, moments_of
from heavytop.copters.composition import integral_action
from heavytop.copters.live.gains import tunable
from heavytop.copters.vehicle import LAWS
from heavytop.simulate import Run, simulate
from heavytop.system import Model

if TYPE_CHECKING:
    from heavytop.copters.flight import Flight


@dataclass(frozen=True)
class ScaledGain:
    """A gain of a law: the parameters that it scales together, the first of which has its value and unit."""

    name: str
    unit: str
    parameters: tuple[str, ...]


class _Tuned(Tracking):
    """A law on its reference with the parameters of the plant, the first of which are its own."""

    def seen(self, at: Seen) -> dict[str, Array]:
        return super().seen(at) | {"p": part(at.p, 0, len(self.law.model.parameter_names))}


UNITS = {"damping": ("N s/m", "N m s/rad"), "stiffness": ("N/m", "N m/rad")}


def tuned_run(flight: Flight) -> tuple[Run, tuple[ScaledGain, ...]]:
    """The flight with a tunable law in steady wind, and its gains; the flight itself and none where sensors, delays or rotors take part."""
    c, vehicle = flight.conditions, flight.vehicle
    plain = flight.law in LAWS and not (c.noise or c.delay or c.payload or c.sensors or flight.rotors)
    if not plain or vehicle.full is not None or vehicle.limbs:
        return flight.run, ()
    vehicle = vehicle if flight.limits else replace(vehicle, limits=None)
    tuned = tunable(vehicle, flight.law, integral_action(vehicle) if flight.integral else ())
    system = vehicle.describe()
    add_wind(system, "hull", vehicle.drag)
    description = system.describe()
    known = tuned.law.model.description.parameters
    own = tuple(p for p in description.parameters if p.name not in {k.name for k in known})
    plant = Model(replace(description, parameters=(*known, *own)))
    mean: Any = np.asarray(c.wind, dtype=float) * np.eye(3)[0] if np.ndim(c.wind) == 0 else np.asarray(c.wind)
    law = Windy(_Tuned(tuned.law, flight.maneuver), ConstantWind(mean))
    settings = flight.run.settings
    start = flight.run.q[0], flight.run.v[0]
    run = simulate(plant, start, settings.until, settings.step, control=law, progress=False)
    return run, tuple(_tunings(vehicle.prototype, tuned.names))


def _tunings(prototype: Any, names: tuple[str, ...]) -> list[ScaledGain]:
    """Stiffness and damping of translation and rotation, for each pair of bodies."""
    found = []
    for kind, _ in DISTRIBUTIONS:
        if kind not in UNITS:
            continue
        for a, b in moments_of(prototype, kind):
            stem, of = f"{kind} {a} {b}", "" if b == "hull" else f" of {b}"
            rows = (
                (kind + of, ("total",)),
                (f"turning {kind}{of}", tuple(f"S{i}{j}" for i in range(3) for j in range(i, 3))),
            )
            for (label, parts), unit in zip(rows, UNITS[kind], strict=True):
                used = tuple(f"{stem} {entry}" for entry in parts if f"{stem} {entry}" in names)
                if used:
                    found.append(ScaledGain(label, unit, used))
    return found
