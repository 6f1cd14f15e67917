"""Rows of ``bench fly``: failed rotors that nothing announces, on vehicles from 28 g to 9 kg with four, six and eight rotors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate
from heavytop.control import Sensors, Windy
from heavytop.coordinates import Product, Vector
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
SOUND = {"health": 1.0, "thrust": 1.0, "stuck": 0.0}
"""The parameters of a rotor that works."""
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


class Later(RotorPlant):
    """A plant whose rotors fail at a time: the parameter ``since``, s. A clock is its last coordinate."""

    def __init__(self, vehicle: Vehicle) -> None:
        super().__init__(vehicle, uncertain=True)
        own: Any = self.coordinates
        self.coordinates = Product((*own.blocks, Vector(1)), names=(*own.names, "clock"))
        self._defaults["since"] = 0.0
        self.parameter_names = tuple(self._defaults)

    def _varied(self, q: Array, v: Array, u: Array, p: Mapping[str, Array]) -> Array:
        failed = np.where(q[self.nq - 1] > p["since"], 1.0, 0.0)
        known = dict(p)
        for k in range(len(self.rotors)):
            for name, sound in SOUND.items():
                known[f"rotor{k}_{name}"] = sound + failed * (p[f"rotor{k}_{name}"] - sound)
        return concatenate(self._rates(q, v, u, known), np.zeros(1))

    def start(self, q: Any, v: Any, thrusts: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """The state, with a clock that runs from zero."""
        q, v = super().start(q, v, thrusts)
        clock = np.zeros((*q.shape[:-1], 1))
        return np.concatenate([q, clock], axis=-1), np.concatenate([v, clock + 1.0], axis=-1)


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
        for name, sound in SOUND.items():
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


def in_a_course(
    craft: Vehicle, times: Any, kind: str = "dead", course: str = "flip", rotors: Any = 0, seconds: float = 9.0
) -> tuple[np.ndarray, np.ndarray]:
    """Distances (n,) at the end and drops (n,) below the course (m) of flights whose rotor fails at these times (n,), s, of a maneuver, which is
    followed by hovering."""
    path = make(course, craft)
    plant, times = Later(craft), np.atleast_1d(np.asarray(times, dtype=float))
    flown = robust_controller(craft, Sensors(), failures=True).with_reference(path)
    name, failed = KINDS[kind]
    rotors = np.broadcast_to(rotors, times.shape)
    parameters = {f"rotor{k}_{name}": np.where(rotors == k, failed, SOUND[name]) for k in range(craft.model.nu)}
    run = simulate(
        plant, plant.start(*(np.tile(x, (len(times), 1)) for x in path.start)), path.horizon + seconds, STEP, control=flown,
        control_step=STEP, parameters={**parameters, "since": times}, balance=False, record_every=4, progress=False,
    )  # fmt: skip
    off = run.q[..., :3] - path(run.t)[0][:, None, :3]
    return np.linalg.norm(off[-1], axis=-1), np.maximum(-off[..., 2].min(axis=0), 0.0)


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
    for end, drop, time in zip(*in_a_course(load("hummingbird"), TIMES), TIMES, strict=True):
        report.row(
            flight=f"Hummingbird, rotor dead {time:g} s after the start of a flip",
            median_end_m=float(end),
            drop_m=float(drop),
        )
        report.limit(f"rotor dead {time:g} s after the start of a flip: distance at the end", float(end), AGAIN, "m")
