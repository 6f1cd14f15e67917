"""Loopings, flips, rolls, inverted flight, knife edge."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from heavytop._arrays import Array, vector
from heavytop.control import curves, thrust_reference
from heavytop.control.curves import smoothstep
from heavytop.control.flatness import flat_reference
from heavytop.copters.maneuvers.actuated import turning
from heavytop.copters.maneuvers.base import Maneuver
from heavytop.copters.maneuvers.paths import along, eased
from heavytop.copters.vehicle import Vehicle
from heavytop.errors import ControlError


def looping(vehicle: Vehicle, radius: float = 1.5, turn: float = 3.6, plane: str = "xz", rest: float = 1.4) -> Maneuver:
    """A loop in a vertical plane ("xz" or "yz") from rest to rest within ``turn`` seconds, the thrust axis along the force.

    Examples
    --------
    >>> from heavytop.copters import quadcopter
    >>> low, high = looping(quadcopter()).thrusts()
    >>> float(low.min().round(3)), float(high.max().round(3))
    (2.157, 5.591)
    """
    if plane not in ("xz", "yz"):
        raise ControlError(f"a looping lies in the plane 'xz' or 'yz', got {plane!r}.")
    base = curves.looping(radius, turn)
    if plane == "xz":
        curve, side = base, (0.0, 1.0, 0.0)
    else:
        curve, side = (lambda t: vector(0.0 * t, base(t)[0], base(t)[2])), None
    marks = [(turn / 2, "upside down"), (turn, "loop ends")]
    if any(vehicle.levers):
        return along(vehicle, curve, turn + rest, "looping", side=side, moments=marks)
    reference = flat_reference(vehicle.model, curve, side, None if side else (1.0, 0.0, 0.0), turn + rest)
    return Maneuver(vehicle, reference, "looping", moments=marks)


def barrel_roll(vehicle: Vehicle, radius: float = 1.0, length: float = 6.0, turn: float = 3.4) -> Maneuver:
    """Fly ahead and turn once about the direction of flight, on a helix that lies on its side."""
    ramp = 1.0
    duration = turn + 2 * ramp
    clock = eased(duration, ramp)

    def position(t: Array) -> Array:
        phase = 2 * np.pi * smoothstep((t - ramp) / turn)
        ahead = length / (duration - ramp) * clock(t)
        return vector(ahead, radius * np.sin(phase), radius * (1 - np.cos(phase)))

    reference = flat_reference(vehicle.model, position, heading=(1.0, 0.0, 0.0), duration=duration + 1.0)
    return Maneuver(vehicle, reference, "barrel-roll", moments=[(duration / 2, "upside down")])


def flip(vehicle: Vehicle, turn: float = 0.9, axis: Any = "y", begin: float = 0.75, duration: float = 2.4) -> Maneuver:
    """One turn about a horizontal axis on the spot, as short as ``turn`` seconds; back at rest in the starting place."""
    reference = thrust_reference.flip(vehicle.model, begin, turn, duration, axis=axis)
    marks = [(begin + turn / 2, "upside down")]
    return Maneuver(vehicle, reference, "flip", duration + 1.0, moments=marks)


def inverted(vehicle: Vehicle, turn: float = 1.2, stay: float = 2.0, length: float = 2.0) -> Maneuver:
    """Turn upside down, stay so (a fully actuated vehicle flies ahead), turn on.

    A vehicle with fixed rotors needs reversible thrust for it: limits below zero.
    """
    begin = 0.8
    again = begin + turn + stay
    total = again + turn + 0.8

    def angle(t: Array) -> Array:
        return np.pi * (smoothstep((t - begin) / turn) + smoothstep((t - again) / turn))

    marks = [(begin + turn, "upside down"), (again, "turns back")]
    if vehicle.fully_actuated:
        curve = curves.rest_to_rest((0.0, 0.0, 0.0), (length, 0.0, 0.0), stay + turn, begin + turn / 2)
        return turning(vehicle, curve, angle, "x", total, "inverted", moments=marks)
    if vehicle.limits is not None and not np.all(np.asarray(vehicle.limits.lower) < 0):
        raise ControlError(
            f"the rotors of {vehicle.name!r} cannot push backwards, so it cannot stay upside down. Give them a negative least thrust, "
            "quadcopter(thrust=(-6, 6)), or fly 'looping' or 'flip'."
        )
    knots = (begin, begin + turn, again, again + turn)
    reference = _turned(vehicle, angle, lambda th, g: g * np.cos(th), total, knots, "x", free=False)
    return Maneuver(vehicle, reference, "inverted", total + 1.0, moments=marks)


def knife_edge(vehicle: Vehicle, length: float = 2.5, turn: float = 1.2, bank: float = np.pi / 2) -> Maneuver:
    """Bank by 90 degrees and pass a narrow gap.

    A fully actuated vehicle flies ahead banked; one with fixed rotors crosses the gap sideways in free fall.
    """
    if vehicle.fully_actuated:
        begin, stay = 0.5, 3.0
        again = begin + turn + stay

        def angle(t: Array) -> Array:
            return bank * (smoothstep((t - begin) / turn) - smoothstep((t - again) / turn))

        curve = curves.rest_to_rest((0.0, 0.0, 0.0), (length, 0.0, 0.0), stay + turn, begin + turn / 2)
        marks = [(begin + turn, "knife edge"), (again, "turns back")]
        return turning(vehicle, curve, angle, "x", again + turn + 1.0, "knife-edge", moments=marks)
    total = 2.8
    first, second = 0.8, total - 0.8 - 0.6

    def bump(t: Array) -> Array:
        return bank * (smoothstep((t - first) / 0.6) - smoothstep((t - second) / 0.6))

    knots = (first, first + 0.6, second, second + 0.6)
    reference = _turned(vehicle, bump, lambda th, g: g * np.cos(th), total, knots, "x", free=True)
    return Maneuver(vehicle, reference, "knife-edge", total + 1.0, moments=[(total / 2, "gap")])


def _turned(
    vehicle: Vehicle,
    angle: Callable[[Array], Array],
    base: Callable[[np.ndarray, float], np.ndarray],
    duration: float,
    knots: Sequence[float],
    axis: str,
    free: bool,
    terms: int = 18,
) -> Any:
    """Attitude angle(t) about ``axis`` with the specific thrust base(angle) plus the least correction that brings the vehicle to rest.

    The correction is sum c_i sin^4(pi t/T) cos(i pi t/T). It makes the final velocity vanish and the final height, and unless ``free``
    the final place sideways.
    """
    g = float(np.linalg.norm(vehicle.model.description.gravity))
    edges = np.array([0.0, *knots, duration])

    def shapes(t: np.ndarray) -> np.ndarray:
        phase = np.pi * t / duration
        return np.sin(phase)[:, None] ** 4 * np.cos(phase[:, None] * np.arange(terms))

    x, w = np.polynomial.legendre.leggauss(80)
    t = np.concatenate([(a + b) / 2 + (b - a) / 2 * x for a, b in zip(edges, edges[1:], strict=False)])
    weight = np.concatenate([(b - a) / 2 * w for a, b in zip(edges, edges[1:], strict=False)])
    s, th = shapes(t), angle(t)
    gram = (s * weight[:, None]).T @ s + 1e-6 * np.eye(terms)
    sideways = np.sin(th) if axis == "y" else -np.sin(th)
    direction = np.stack([sideways, np.cos(th)])
    drift = base(th, g) * direction - np.array([[0.0], [g]])
    rows, right = [], []
    for k, moment in ((0, weight), (1, weight), (1, weight * (duration - t)), (0, weight * (duration - t))):
        if free and len(rows) == 3:
            break
        rows.append((moment * direction[k]) @ s)
        right.append(-np.sum(moment * drift[k]))
    conditions = np.array(rows)
    zero = np.zeros((len(rows), len(rows)))
    solved = np.linalg.solve(
        np.block([[gram, conditions.T], [conditions, zero]]), np.concatenate([np.zeros(terms), right])
    )
    c = solved[:terms]

    def thrust(t: np.ndarray) -> np.ndarray:
        return base(angle(t), g) + shapes(t) @ c

    return thrust_reference.thrust_reference(vehicle.model, angle, thrust, axis, duration, breaks=list(knots))
