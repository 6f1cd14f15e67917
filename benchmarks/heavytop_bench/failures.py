"""Rows of ``bench fly``: failed rotors that nothing announces, on vehicles from 28 g to 9 kg with four, six and eight rotors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from heavytop._arrays import Array, vector
from heavytop.control import Seen, Sensors, Windy, Wrapper
from heavytop.copters import RotorPlant, Vehicle, hexacopter, load, octocopter, quadcopter, robust_controller
from heavytop.copters.maneuvers import make
from heavytop.simulate import simulate
from heavytop_bench.fleet import STEP, Gusts, heavy_hexacopter, skewed_quadcopter, tiny_quadcopter
from heavytop_bench.reality import level, starts
from heavytop_bench.report import BenchReport

WITHIN = 5.0
"""Largest distance (m) from the set point during a flight that counts as held."""
AGAIN = 0.5
"""Distance (m) at the end of a flight that has returned."""
KINDS = {
    "dead": ("health", 0.0),
    "lost blade": ("thrust", 0.0),
    "stuck": ("stuck", 1.0),
    "half thrust": ("thrust", 0.5),
}
"""Parameter of the plant of each failure, and its value."""
VEHICLES: Mapping[str, Callable[[], Vehicle]] = {
    "Hummingbird": lambda: load("hummingbird"),
    "racer": lambda: load("racer"),
    "Crazyflie": lambda: load("crazyflie"),
    "quadcopter": quadcopter,
    "35 g quadcopter": tiny_quadcopter,
    "quadcopter, 2 cm off": skewed_quadcopter,
    "hexacopter": hexacopter,
    "octocopter": octocopter,
    "9 kg hexacopter": heavy_hexacopter,
}


@dataclass(frozen=True)
class Failure:
    """A kind of failure, its rotors, and gusts (m/s)."""

    kind: str
    rotors: tuple[int, ...] = (0,)
    wind: float = 0.0

    @property
    def name(self) -> str:
        """The kind, the number of rotors and the wind as text."""
        count = "" if len(self.rotors) == 1 else f"{len(self.rotors)} rotors "
        wind = f", wind {self.wind:g} m/s" if self.wind else ""
        return f"{count}{self.kind}{wind}"


SINGLE = (Failure("dead"), Failure("lost blade"), Failure("stuck"), Failure("half thrust"))
WINDY = tuple(Failure(kind, wind=3.0) for kind in KINDS)
PAIR = (Failure("lost blade", (0, 2)),)
"""Two rotors without which every vehicle here can hold its position."""


@dataclass(frozen=True)
class Held:
    """Shares of the flights within 5 m all the time and back at the end, the largest distance (m), the share with the right rotors given up."""

    name: str
    held: float
    back: float
    farthest: float
    found: float


class Stops(Wrapper):
    """Commands of rotors that end at a time: they stop then."""

    def __init__(self, controller: Any, rotors: Sequence[int], time: float) -> None:
        super().__init__(controller)
        self.rotors, self.time = tuple(rotors), time

    def acted(self, at: Seen, u: Array) -> Array:
        return vector(
            *(np.where(at.t > self.time, 0.0, u[k]) if k in self.rotors else u[k] for k in range(at.model.nu))
        )


def fail(
    craft: Vehicle,
    failures: Sequence[Failure] = SINGLE,
    count: int = 200,
    seconds: float = 15.0,
    spread: tuple[float, float, float] | None = None,
) -> list[Held]:
    """Fly all failures from ``count`` starts each in one batch, all from the first moment; ``spread`` None: from hovering."""
    plant, nu = RotorPlant(craft, uncertain=True, wind=True), craft.model.nu
    q, v = level(count) if spread is None else starts(count, spread)
    q, v = (np.tile(x, (len(failures), 1)) for x in (q, v))
    flown = robust_controller(craft, Sensors(), failures=True).with_reference(craft.model.neutral())
    gusts = Gusts(np.repeat([f.wind for f in failures], count))
    parameters: dict[str, np.ndarray] = {}
    for k in range(nu):
        for name, sound in (("health", 1.0), ("thrust", 1.0), ("stuck", 0.0)):
            values = [KINDS[f.kind][1] if k in f.rotors and KINDS[f.kind][0] == name else sound for f in failures]
            parameters[f"rotor{k}_{name}"] = np.repeat(values, count)
    run = simulate(
        plant, plant.start(q, v), seconds, STEP, control=Windy(flown, gusts), control_step=STEP, parameters=parameters, balance=False,
        record_every=4, progress=False,
    )  # fmt: skip
    finite = np.asarray(np.isfinite(run.q).all(axis=-1))
    off = np.where(finite, np.linalg.norm(np.where(finite[..., None], run.q[..., :3], 0.0), axis=-1), np.inf)
    dead = run.channels["dead"][-1] > 0.5
    results = []
    for i, f in enumerate(failures):
        own = slice(i * count, (i + 1) * count)
        wanted = np.isin(np.arange(nu), f.rotors if f.kind != "half thrust" else ())
        results.append(
            Held(
                f.name,
                float(np.mean(off[:, own].max(axis=0) < WITHIN)),
                float(np.mean(off[-1, own] < AGAIN)),
                float(off[:, own].max()),
                float(np.mean(np.all(dead[own] == wanted, axis=-1))),
            )
        )
    return results


def in_a_flip(craft: Vehicle, times: Sequence[float], seconds: float = 8.0) -> list[tuple[float, float]]:
    """Distance (m) at the end, and the largest drop (m), for rotors that stop at each of these times (s) of a flip, which is followed by hovering."""
    course = make("flip", craft)
    plant = RotorPlant(craft)
    flown = robust_controller(craft, Sensors(), failures=True).with_reference(course)
    results = []
    for time in times:
        run = simulate(
            plant, plant.start(*course.start), course.horizon + seconds, STEP, control=Stops(flown, (0,), time), control_step=STEP,
            balance=False, record_every=4, progress=False,
        )  # fmt: skip
        off = np.linalg.norm(run.q[:, :3] - course(run.t)[0][:, :3], axis=-1)
        results.append((float(off[-1]), float(-run.q[:, 2].min())))
    return results


QUADCOPTERS = ("Hummingbird", "racer", "quadcopter")
TIMES = (0.5, 0.8, 1.0, 1.2, 1.4, 1.6)


def rows(report: BenchReport, count: int) -> None:
    """All failures of all vehicles; limits for those whose remaining rotors carry them from the first moment."""
    for name, make_craft in VEHICLES.items():
        craft = make_craft()
        carried = craft.model.nu > 4 or name in QUADCOPTERS
        for held in fail(craft, SINGLE + WINDY + PAIR, count):
            label = f"{name}, {held.name}, not announced"
            report.row(
                flight=label, within_5_m=held.held, recovered=held.back, farthest_m=held.farthest, isolated=held.found
            )
            if carried:
                report.ratio(f"{label}: share within 5 m for 15 s", held.held, 1.0 if craft.model.nu > 4 else 0.95)
    for (end, drop), time in zip(in_a_flip(load("hummingbird"), TIMES), TIMES, strict=True):
        report.row(
            flight=f"Hummingbird, rotor dead {time:g} s after the start of a flip", median_end_m=end, drop_m=drop
        )
        report.limit(f"rotor dead {time:g} s after the start of a flip: distance at the end", end, AGAIN, "m")
