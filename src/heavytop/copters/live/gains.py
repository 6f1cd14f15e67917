"""Gains of a vehicle that can be changed in flight: frequencies and damping ratios instead of moments.

A recipe makes prototypes from gains for a kind of vehicle. The numbers of the prototype enter native code as parameters (:func:`tunable`), so
new gains need no compilation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate, part, symbol
from heavytop.control import (
    DISTRIBUTIONS,
    FeedbackLaw,
    Integral,
    Law,
    Prototype,
    Seen,
    Tracking,
    body_law,
    default_blocks,
    energy_law,
    moments_of,
    moved_blocks,
    numbers_of,
    particle_law,
    poles_of,
    symbolic_prototype,
    with_numbers,
)
from heavytop.copters.loads import slung_prototype
from heavytop.copters.vehicle import GRAVITY, LAWS, RedundantLaw, Vehicle
from heavytop.errors import ControlError, unknown_name
from heavytop.ocp import Limits
from heavytop.system import WORLD, Damping, Inertia, Model, Stiffness

DEFAULT_SPREAD = 0.02
"""Desired tilt inertia per mass (m^2) at a tilt frequency of 8 rad/s."""


@dataclass(frozen=True)
class Gain:
    """A gain with its initial value, range and unit."""

    name: str
    value: float
    low: float
    high: float
    unit: str = "rad/s"


@dataclass(frozen=True, eq=False)
class Recipe:
    """The gains of a vehicle, and the prototypes made of them.

    >>> from heavytop.copters import quadcopter
    >>> recipe = recipe_of(quadcopter())
    >>> [(gain.name, round(gain.value, 3)) for gain in recipe.gains][:2]
    [('position frequency', 2.0), ('position damping', 1.0)]
    """

    gains: tuple[Gain, ...]
    make: Callable[[Mapping[str, float]], Prototype]

    @property
    def defaults(self) -> dict[str, float]:
        """Name -> initial value."""
        return {gain.name: gain.value for gain in self.gains}

    def prototype(self, values: Mapping[str, float] | None = None) -> Prototype:
        """The prototype of these gains, initial ones by default; raises a ControlError if none is positive."""
        for name in values or {}:
            if name not in self.defaults:
                raise unknown_name("gain", name, self.defaults)
        return self.make(self.defaults | dict(values or {}))


def recipe_of(vehicle: Vehicle) -> Recipe:
    """The recipe of a kind of vehicle."""
    if vehicle.airframe.load is not None:
        return _carrying(vehicle) if vehicle.fully_actuated else _slung(vehicle)
    if vehicle.fully_actuated:
        return _actuated(vehicle)
    return _tilting(vehicle) if any(vehicle.levers) else _hovering(vehicle)


# --- recipes ------------------------------------------------------------------------------------------------------------------


def _hovering(vehicle: Vehicle) -> Recipe:
    """Parallel thrusts: four lateral poles, two vertical ones, two of the yaw (section 2.1 of the control notes)."""
    m, d, k = (moments_of(vehicle.prototype, kind)[WORLD, "hull"] for kind, _ in DISTRIBUTIONS)
    J, q1, q0 = (float(x) for x in (m.moment_at_origin[1, 1] / m.total, d.total / m.total, k.total / m.total))
    p3, p2 = (float(x.moment_at_origin[1, 1] / m.moment_at_origin[1, 1]) for x in (d, k))
    g = vehicle.weight / vehicle.mass or GRAVITY
    p1, p0 = g * q1 * float(d.center[2]) / J, g * q0 * float(k.center[2]) / J
    slow, fast = pairs([1.0, p3, p2, p1, p0])
    yaw = [1.0, *(float(x.moment_at_center[2, 2] / m.moment_at_center[2, 2]) for x in (d, k))]
    gains = (
        *pair_gains("position", slow),
        *pair_gains("tilt", fast),
        *pair_gains("height", pairs([1.0, q1, q0])[0]),
        *pair_gains("yaw", pairs(yaw)[0]),
    )

    def make(x: Mapping[str, float]) -> Prototype:
        lateral = [*poles(x, "position"), *poles(x, "tilt")]
        vertical = poles(x, "height")
        c3, c2, c1, c0 = np.real(np.poly(lateral))[1:]
        d1, d0 = np.real(np.poly(vertical))[1:]
        # at most half of the bound by the inequalities of Prototype.from_poles
        largest = min(c3 * d1 * g**2 / c1**2, c2 * d0 * g**2 / c0**2)
        spread = min(DEFAULT_SPREAD * (8.0 / x["tilt frequency"]) ** 2, 0.5 * largest)
        turn = float(m.moment_at_center[2, 2] / m.total)
        return Prototype.from_poles(lateral, vertical, poles(x, "yaw"), spread=spread, yaw_inertia=turn, gravity=g)

    return Recipe(gains, make)


def _tilting(vehicle: Vehicle) -> Recipe:
    """A bicopter: a common centre of both directions fixes the damping of the height."""
    gains = (
        *pair_gains("position", (2.0, 1.0)),
        *pair_gains("tilt", (8.0, 0.8)),
        pair_gains("height", (2.0, 1.0))[0],
        *pair_gains("yaw", (3.0, 0.9)),
    )

    def make(x: Mapping[str, float]) -> Prototype:
        lateral = [*poles(x, "position"), *poles(x, "tilt")]
        return Prototype.matched(
            lateral, x["height frequency"] ** 2, poles(x, "yaw"), levers=vehicle.levers, height=0.07
        )

    return Recipe(gains, make)


def _actuated(vehicle: Vehicle) -> Recipe:
    """Six independent directions: the translation as a whole and the rotation as a whole."""
    m, d, k = (moments_of(vehicle.prototype, kind)[WORLD, "hull"] for kind, _ in DISTRIBUTIONS)
    theta = np.diagonal(m.moment_at_center)
    parts = {
        "position": [1.0, float(d.total / m.total), float(k.total / m.total)],
        "attitude": [1.0, float(d.moment_at_center[0, 0] / theta[0]), float(k.moment_at_center[0, 0] / theta[0])],
    }
    gains = tuple(gain for name, polynomial in parts.items() for gain in pair_gains(name, pairs(polynomial)[0]))

    def make(x: Mapping[str, float]) -> Prototype:
        (w, z), (w_r, z_r) = ((x[f"{name} frequency"], x[f"{name} damping"]) for name in parts)
        mass = float(m.total)
        return Prototype.of_body(
            Inertia(mass, m.center, m.moment_at_center),
            Damping(2 * z * w * mass, moment_at_center=2 * z_r * w_r * theta),
            Stiffness(w**2 * mass, moment_at_center=w_r**2 * theta),
        )

    return Recipe(gains, make)


def _carrying(vehicle: Vehicle) -> Recipe:
    """A fully actuated vehicle with a load: position and swing."""
    gains = (*pair_gains("position", (1.5, 1.0)), *pair_gains("swing", (4.0, 0.8)))
    return Recipe(
        gains, lambda x: Prototype.hanging_load([*poles(x, "position"), *poles(x, "swing")], vehicle.levers[0])
    )


def _slung(vehicle: Vehicle) -> Recipe:
    """A vehicle with parallel thrusts and a load below its centre: position, swing and tilt, and the height."""
    load = vehicle.airframe.load
    masses = {name: float(inertia.mass) for name, inertia in vehicle.model.description.inertias.items()}
    body, cable = (load.body, load.cable) if load is not None else ("load", 0.0)
    depth = vehicle.levers[0] - masses[body] * cable / sum(masses.values())
    swing, tilt = (pairs(np.real(np.poly([p, np.conj(p)])))[0] for p in (-1.8 + 0.87j, -4.5 + 2.2j))
    gains = (
        *pair_gains("position", (1.5, 1.0)),
        *pair_gains("swing", swing),
        *pair_gains("tilt", tilt),
        *pair_gains("height", (2.0, 1.0)),
    )

    def make(x: Mapping[str, float]) -> Prototype:
        lateral = [p for name in ("position", "swing", "tilt") for p in poles(x, name)]
        q1, q0 = np.real(np.poly(poles(x, "height")))[1:]
        return slung_prototype(vehicle.levers[0], depth, lateral, vertical=(q1, q0))

    return Recipe(gains, make)


def pair_gains(name: str, pair: tuple[float, float]) -> tuple[Gain, Gain]:
    """Gains of a pair of poles: frequency and damping ratio with their ranges."""
    w, z = pair
    return (
        Gain(f"{name} frequency", round(w, 6), round(0.4 * w, 2), round(2.0 * w, 2)),
        Gain(f"{name} damping", round(z, 6), round(min(0.3, 0.5 * z), 2), round(max(1.5, 1.5 * z), 2), "1"),
    )


def poles(values: Mapping[str, float], name: str) -> tuple[complex, complex]:
    """The two poles of a named pair."""
    return poles_of(values[f"{name} frequency"], values[f"{name} damping"])


def pairs(polynomial: Any) -> list[tuple[float, float]]:
    """Frequencies and damping ratios of the pairs of roots of a monic polynomial, slow ones first.

    >>> [(round(float(w), 6), round(float(z), 6)) for w, z in pairs(np.poly([-2, -2, -6.4 + 4.8j, -6.4 - 4.8j]).real)]
    [(2.0, 1.0), (8.0, 0.8)]
    """
    roots = np.roots(np.asarray(polynomial, dtype=float))
    roots = roots[np.lexsort((roots.imag, np.abs(roots).round(6)))]
    found = []
    for a, b in roots.reshape(-1, 2):
        w = float(np.sqrt(np.real(a * b)))
        found.append((w, float(-np.real(a + b) / (2 * w))))
    return found


# --- prototypes whose numbers are parameters ----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Tunable:
    """A law with the numbers of its prototype as parameters of its model.

    Attributes
    ----------
    law : law of a model with the parameters ``names``. pattern : the fixed numbers, mostly zeros.
    """

    law: FeedbackLaw
    names: tuple[str, ...]
    pattern: Mapping[str, float]

    def values(self, prototype: Prototype) -> np.ndarray:
        """The parameters (n,) of a prototype."""
        numbers = numbers_of(prototype)
        if numbers.keys() != {*self.names, *self.pattern}:
            raise ControlError(f"the prototype has another structure: it was not made for {self.law.model.name!r}.")
        for name, value in self.pattern.items():
            if abs(numbers[name] - value) > 1e-12:
                raise ControlError(
                    f"the prototype has another structure: {name} must stay {value:g}, got {numbers[name]:g}."
                )
        return np.array([numbers[name] for name in self.names])


def tunable(vehicle: Vehicle, kind: str, integral: Integral | Sequence[Integral] = ()) -> Tunable:
    """The law of a kind ("energy", "particle", "body") for all prototypes with the structure of the vehicle's own."""
    if kind not in LAWS:
        raise unknown_name("law", kind, LAWS)
    numbers = numbers_of(vehicle.prototype)
    symbols = {name: symbol(name.replace(" ", "_")) for name, value in numbers.items() if value != 0.0}
    prototype = symbolic_prototype(vehicle.prototype, numbers | symbols)
    model = with_numbers(vehicle.model, symbols, numbers)
    # for all gains, limited inputs are weighted by the inertia of the vehicle's own prototype
    limits = vehicle.limits and replace(vehicle.limits, inertia=vehicle.prototype.inertia)
    if vehicle.virtual is None:
        law: FeedbackLaw = _law(kind, model, vehicle, prototype, limits, integral)
    else:
        virtual = with_numbers(vehicle.virtual, symbols, numbers)
        tuned = replace(vehicle, model=model, virtual=virtual, prototype=prototype)
        law = RedundantLaw(tuned, _law(kind, virtual, vehicle, prototype, None, integral), limits)
    fixed = {name: value for name, value in numbers.items() if name not in symbols}
    return Tunable(law, tuple(symbols), fixed)


class StoredGains(Tracking):
    """A tunable law on its reference with the numbers (*batch, n) of its prototypes as memory: flights that differ in them share their native code.

    >>> from heavytop.copters import maneuvers, quadcopter
    >>> craft = quadcopter()
    >>> tuned = tunable(craft, "energy")
    >>> StoredGains(tuned, maneuvers.hover(craft), tuned.values(craft.prototype)).own_state_size == len(tuned.names)
    True
    """

    def __init__(self, tuned: Tunable, reference: Any, numbers: np.ndarray, sample_time: float | None = None) -> None:
        super().__init__(tuned.law, reference, sample_time=sample_time)
        self.numbers, self.own_state_size = numbers, numbers.shape[-1]

    def first(self) -> np.ndarray:
        """The numbers."""
        return self.numbers

    def following(self, at: Seen, u: Array) -> Array:
        """They stay."""
        return at.z

    def seen(self, at: Seen) -> dict[str, Array]:
        """The reference, and the parameters of the law with these numbers."""
        values = super().seen(at)
        return values | {"p": concatenate(part(values["p"], 0, len(values["p"]) - self.own_state_size), at.z)}


def _law(
    kind: str, model: Model, vehicle: Vehicle, prototype: Prototype, limits: Limits | None, integral: Any = ()
) -> Law:
    if kind == "energy":
        # the blocks of the velocity error are chosen by the numbers, then moved to the symbolic centres
        blocks = default_blocks(model.expressions, vehicle.prototype, "product")
        return energy_law(model, prototype, limits, integral, blocks=moved_blocks(blocks, prototype))
    return (particle_law if kind == "particle" else body_law)(model, prototype, limits, integral)
