"""Rows of ``bench fly``: the robust controller on very different vehicles, all constants from their descriptions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from heavytop._arrays import concatenate
from heavytop.control import Seen, Sensors, Windy, Wrapper
from heavytop.copters import (
    Authority,
    Limb,
    Propulsion,
    Rotor,
    RotorPlant,
    Vehicle,
    bicopter,
    hexacopter,
    load,
    multicopter,
    octocopter,
    quadcopter,
    quadcopter_with_load,
    ring,
    robust_controller,
    tricopter,
)
from heavytop.copters.maneuvers import make as make_maneuver
from heavytop.copters.propulsion import typical_propulsion
from heavytop.simulate import simulate
from heavytop_bench.reality import FAR, SPREAD, starts
from heavytop_bench.report import BenchReport

NEAR = 0.2
"""Distance (m) from the set point at the end of a flight that is recovered."""
STEP = 5e-3
SEED = 11


def described(
    name: str, mass: float, moment: Sequence[float], rotors: Sequence[Rotor], lift: float, lag: float, **options: Any
) -> Vehicle:
    """A vehicle with equal rotors whose largest thrusts are ``lift`` times its weight, with motors of the time constant ``lag``."""
    top, most = 1000.0, lift * mass * 9.81 / len(rotors)
    ratio = float(np.mean([abs(r.drag_ratio) for r in rotors]))
    limited = [Rotor(r.at, drag_ratio=r.drag_ratio, thrust=(0.0, most)) for r in rotors]
    propulsion = Propulsion(most / top**2, ratio * most / top**2, (0.0, top), lag)
    return multicopter(limited, mass, moment, name=name, propulsion=propulsion, **options)


def heavy_hexacopter() -> Vehicle:
    """9 kg, thrust to weight 1.8, motors of 60 ms."""
    return described("heavy hexacopter", 9.0, (0.45, 0.45, 0.8), ring(6, 0.55, drag_ratio=0.025), 1.8, 0.06)


def tiny_quadcopter() -> Vehicle:
    """35 g, thrust to weight 2.2, motors of 40 ms."""
    return described("tiny quadcopter", 0.035, (2.1e-5, 2.2e-5, 3.8e-5), ring(4, 0.046, drag_ratio=0.006), 2.2, 0.04)


def skewed_quadcopter() -> Vehicle:
    """Four different arms, centre of mass 2 cm off, thrust to weight 2.6, motors of 30 ms."""
    places = ((0.16, 0.12, 1), (-0.12, 0.14, -1), (-0.15, -0.10, 1), (0.11, -0.15, -1))
    rotors = [Rotor((x, y, 0.0), drag_ratio=0.018 * sign) for x, y, sign in places]
    return described("skewed quadcopter", 0.8, (0.006, 0.009, 0.013), rotors, 2.6, 0.03, com=(0.02, 0.0, 0.0))


def tilting_vehicle(make: Callable[..., Vehicle], lift: float = 2.2) -> Vehicle:
    """One with tilting rotors whose largest thrusts are ``lift`` times its weight."""
    free = make()
    return make(thrust=(0.0, lift * free.weight / len(free.airframe.rotors)))


def slung_load(mass: float = 1.0, moment: float = 1.0) -> Vehicle:
    """A quadcopter with 0.2 kg on a rod of 1 m, with factors of all masses and of the moments of inertia of its hull."""
    turn = (0.008 * moment, 0.008 * moment, 0.014 * moment)
    return quadcopter_with_load(load_mass=0.2 * mass, cable=1.0, mass=0.9 * mass, moment=turn)


def moving_arm(mass: float = 1.0, moment: float = 1.0) -> Vehicle:
    """A Y6 with an arm of 0.2 kg that swings at up to 2 rad/s, thrust to weight 2.2, with the same factors."""
    places = [(0.3 * np.cos(a), 0.3 * np.sin(a)) for a in (np.pi / 3, np.pi, -np.pi / 3)]
    most = 2.2 * 2.2 * 9.81 / 6
    rotors = [
        Rotor((x, y, z), drag_ratio=np.copysign(0.018, z), thrust=(0.0, most)) for x, y in places for z in (0.05, -0.05)
    ]
    arm = Limb("arm", 0.2 * mass, tip=(0, 0, -0.3), at=(0, 0, -0.05), force=3.0, path=lambda t: 0.8 * np.sin(2.5 * t))
    turn = (0.03 * moment, 0.03 * moment, 0.05 * moment)
    return multicopter(rotors, 2.0 * mass, turn, limbs=[arm], name="Y6 with an arm")


PARTS: Mapping[str, Callable[[float, float], Vehicle]] = {"0.2 kg on 1 m": slung_load, "Y6 with an arm": moving_arm}
"""Vehicles with parts, as functions of the factors of mass and moments."""
VEHICLES: Mapping[str, Callable[[], Vehicle]] = {
    "Hummingbird": lambda: load("hummingbird"),
    "racer": lambda: load("racer"),
    "Crazyflie": lambda: load("crazyflie"),
    "quadcopter": quadcopter,
    "hexacopter": hexacopter,
    "octocopter": octocopter,
    "9 kg hexacopter": heavy_hexacopter,
    "35 g quadcopter": tiny_quadcopter,
    "quadcopter, 2 cm off": skewed_quadcopter,
    "tricopter": lambda: tilting_vehicle(tricopter),
    "bicopter": lambda: tilting_vehicle(bicopter),
}


@dataclass(frozen=True)
class Condition:
    """Differences from the description: factors of mass, moments, lag and thrust of the first rotor; delay (s), gusts (m/s)."""

    name: str
    mass: float = 1.0
    moment: float = 1.0
    delay: float = 0.0
    lag: float = 1.0
    weak: float = 1.0
    wind: float = 0.0


CONDITIONS = (
    Condition("nominal"),
    Condition("delay 15 ms", delay=0.015),
    Condition("delay 25 ms", delay=0.025),
    Condition("lag x1.5", lag=1.5),
    Condition("delay 25 ms, lag x1.5", delay=0.025, lag=1.5),
    Condition("m +20 %, I -20 %", 1.2, 0.8),
    Condition("m -25 %, I +25 %", 0.75, 1.25),
    Condition("rotor -15 %", weak=0.85),
    Condition("gusts 8 m/s", wind=8.0),
    Condition("all combined", 1.15, 0.9, 0.015, 1.3, wind=5.0),
)
SLOW = (
    Condition("nominal"),
    Condition("delay 20 ms", delay=0.02),
    Condition("delay 40 ms", delay=0.04),
    Condition("lag x1.5", lag=1.5),
    Condition("delay 20 ms, lag x1.5", delay=0.02, lag=1.5),
    Condition("m -25 %, I +25 %", 0.75, 1.25),
)


class Weak(Wrapper):
    """A controller whose first rotor makes only a share of the commanded thrust."""

    def __init__(self, controller: Any, share: float) -> None:
        super().__init__(controller)
        self.share = share

    def acted(self, at: Seen, u: Any) -> Any:
        """The commands as they act."""
        return concatenate(self.share * u[:1], u[1:])


class Gusts:
    """Wind along x with waves, and less across, times a factor for each member."""

    def __init__(self, factors: np.ndarray) -> None:
        self.factors = factors

    def at(self, times: np.ndarray) -> np.ndarray:
        """Velocities (n, members, 3), m/s."""
        t = np.asarray(times, dtype=float)
        along = 0.6 + 0.3 * np.sin(1.7 * t) + 0.1 * np.sin(6 * t)
        wave = np.stack([along, 0.4 * np.sin(2.3 * t + 1), 0.2 * np.sin(3.1 * t)], axis=-1)
        return wave[:, None, :] * self.factors[:, None]


@dataclass(frozen=True)
class Flown:
    """Share of the starts that recover under a condition, and the largest drop (m) below the lower of start and set point."""

    name: str
    share: float
    drop: float


def recover(
    craft: Vehicle,
    conditions: Sequence[Condition] = CONDITIONS,
    count: int = 200,
    rate: float = 200.0,
    spread: tuple[float, float, float] = SPREAD,
    seconds: float = 10.0,
) -> list[Flown]:
    """Fly all conditions from ``count`` random starts each in one batch."""
    plant, period = RotorPlant(craft, uncertain=True, wind=True), 1 / rate

    def each(name: str) -> np.ndarray:
        return np.repeat([float(getattr(c, name)) for c in conditions], count)

    q, v = (np.tile(x, (len(conditions), 1)) for x in starts(count, spread, SEED))
    delays = np.round(each("delay") / period) * period
    sensors = Sensors().late(delays) if np.any(delays) else Sensors()
    flown = Windy(robust_controller(craft, sensors).with_reference(craft.model.neutral()), Gusts(each("wind")))
    inside = max(1, int(np.ceil(period / STEP - 1e-9)))
    run = simulate(
        plant,
        plant.start(q, v),
        period * round(seconds / period),
        period / inside,
        control=flown,
        control_step=period,
        parameters={
            "mass_factor": each("mass"),
            "moment_factor": each("moment"),
            "lag": each("lag") * plant.propulsion.lag,
            "rotor0_health": np.sqrt(each("weak")),
        },
        balance=False,
        record_every=4 * inside,
        progress=False,
    )
    finite = np.asarray(np.isfinite(run.q).all(axis=-1))
    place = np.where(finite[..., None], run.q[..., :3], -np.inf)
    end = np.linalg.norm(place[-1], axis=-1)
    drop = np.minimum(q[:, 2], 0.0) - place[..., 2].min(axis=0)
    parts = [slice(k * count, (k + 1) * count) for k in range(len(conditions))]
    return [
        Flown(c.name, float(np.mean(end[own] < NEAR)), float(drop[own].max()))
        for c, own in zip(conditions, parts, strict=True)
    ]


def recover_with_parts(
    make: Callable[[float, float], Vehicle],
    condition: Condition,
    count: int = 200,
    rate: float = 200.0,
    spread: tuple[float, float, float] = SPREAD,
    seconds: float = 12.0,
) -> Flown:
    """Fly a vehicle with parts that differs from the described one, which the controller is made for.

    Loads hang down at the start, arms move all the time.
    """
    craft, true, period = make(1.0, 1.0), make(condition.mass, condition.moment), 1 / rate
    p, model = typical_propulsion(craft), craft.model
    plant = RotorPlant(replace(true, propulsion=replace(p, time_constant=condition.lag * p.lag)), wind=True)
    hulls, speeds = starts(count, spread, SEED)
    q, v = np.tile(model.neutral(), (count, 1)), np.zeros((count, model.nv))
    q[:, :12], v[:, :6] = hulls, speeds
    if craft.airframe.load is not None:
        q[:, 12:21] = hulls[:, 3:12].reshape(count, 3, 3).swapaxes(1, 2).reshape(count, 9)
    delay = round(condition.delay / period) * period
    sensors = Sensors().late(delay) if delay else Sensors()
    reference = make_maneuver("hover", craft, duration=seconds)  # arms move along their paths
    flown = Weak(robust_controller(craft, sensors).with_reference(reference), condition.weak)
    inside = max(1, int(np.ceil(period / STEP - 1e-9)))
    run = simulate(
        plant, plant.start(q, v), period * round(seconds / period), period / inside,
        control=Windy(flown, Gusts(np.full(count, condition.wind))), control_step=period, balance=False, record_every=4 * inside,
        progress=False,
    )  # fmt: skip
    place = np.where(np.isfinite(run.q[..., :3]), run.q[..., :3], -np.inf)
    drop = np.minimum(q[:, 2], 0.0) - place[..., 2].min(axis=0)
    near = np.linalg.norm(place[-1] - reference(seconds)[0][:3], axis=-1) < NEAR
    return Flown(condition.name, float(np.mean(near)), float(drop.max()))


def rows(report: BenchReport, count: int, far: int) -> None:
    """All vehicles in all conditions, at three rates and at 1.1 times the promised one, and from far."""
    for name, make in VEHICLES.items():
        craft = make()
        can, least = Authority.of(craft), robust_controller(craft, Sensors()).margins().sample_rate
        report.row(
            flight=name, thrust_to_weight=can.lift, turn_rad_s2=can.tilt, least_rate_hz=least, drop_m=can.drop(np.pi, *SPREAD[1:])
        )  # fmt: skip
        found = [(f"{r.name}", r) for r in recover(craft, count=count)]
        for rate in (100.0, 50.0):
            found += [(f"{rate:g} Hz, {r.name}", r) for r in recover(craft, SLOW, count, rate)]
        found += [(f"1.1 times the least rate, {r.name}", r) for r in recover(craft, SLOW, count, 1.1 * least)]
        found += [("far starts", r) for r in recover(craft, CONDITIONS[:1], far, spread=FAR, seconds=25.0)]
        for label, one in found:
            report.row(flight=f"{name}, {label}", recovered=one.share, drop_m=one.drop)
            report.ratio(f"{name}, {label}: share recovered", one.share, 1.0)
    for name, maker in PARTS.items():
        found = [(r.name, r) for r in (recover_with_parts(maker, c, count) for c in CONDITIONS)]
        found += [(f"{rate:g} Hz", recover_with_parts(maker, CONDITIONS[0], count, rate)) for rate in (100.0, 50.0)]
        found += [("far starts", recover_with_parts(maker, CONDITIONS[0], far, spread=FAR, seconds=25.0))]
        for label, one in found:
            report.row(flight=f"{name}, {label}", recovered=one.share, drop_m=one.drop)
            report.ratio(f"{name}, {label}: share recovered", one.share, 1.0)
