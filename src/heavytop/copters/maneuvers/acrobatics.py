"""Loopings, flips, rolls, inverted flight, knife edge; independent attitude and position of fully actuated vehicles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from heavytop._arrays import Array, finite_matrix, scale, vector
from heavytop.control import (
    Reference,
    constrained_least,
    derivatives,
    flat_reference,
    smoothstep,
    thrust_correction,
    thrust_reference,
)
from heavytop.control.references import curves
from heavytop.copters.maneuvers.base import Maneuver, finite, non_negative, positive
from heavytop.copters.maneuvers.paths import along, eased
from heavytop.copters.vehicle import Vehicle, wrench_matrix
from heavytop.errors import ControlError
from heavytop.functions import recipe
from heavytop.geometry import se3, so3

TERMS = 18
SAMPLES = 121
MARGIN = 0.02
"""Share of the range of thrust reserved for the controller."""


def rotated(
    vehicle: Vehicle,
    angle: Callable[[Array], Array],
    base: Callable[[np.ndarray, float], np.ndarray],
    duration: float,
    knots: Sequence[float],
    axis: str,
    free: bool,
) -> Reference:
    """The reference with the attitude angle(t) about ``axis`` and the specific thrust base(angle, g) plus the least correction that ends at rest.

    The correction (:func:`.thrust_correction`) has the least integral of its square such that, if possible, every rotor stays within its limits
    (a quadratic program).
    """
    g = float(np.linalg.norm(vehicle.model.description.gravity))
    edges = np.array([0.0, *knots, duration])
    gram, rows, right, shapes = thrust_correction(angle, lambda th: base(th, g), g, edges, TERMS, axis, free)
    times = np.linspace(0.0, duration, SAMPLES)[1:-1]
    low, high = thrust_bounds(vehicle, angle, times, axis)
    before = base(angle(times), g)
    c = _least(gram, rows, right, shapes(times), low - before, high - before)

    def thrust(t: np.ndarray) -> np.ndarray:
        return base(angle(t), g) + shapes(t) @ c

    return thrust_reference(vehicle.model, angle, thrust, axis, duration, breaks=list(knots))


def thrust_bounds(
    vehicle: Vehicle, angle: Callable[[Array], Array], times: np.ndarray, axis: str
) -> tuple[np.ndarray, np.ndarray]:
    """Least and largest specific thrust (n,) with every rotor within its limits while it also turns the vehicle."""
    wide = np.full(len(times), np.inf)
    if vehicle.limits is None:
        return -wide, wide
    lower, upper = vehicle.limits.bounds(vehicle.model)
    margin = MARGIN * (upper - lower)
    second = derivatives(lambda t: np.reshape(angle(t), (1,)), 2, "angle")(times)[2][:, 0]
    inertia = vehicle.model.description.inertias["hull"]
    share = np.linalg.pinv(finite_matrix(wrench_matrix(vehicle.airframe.rotors), "the wrenches of the rotors"))
    k = "xyz".index(axis)
    moment = np.zeros(6)
    moment[3 + k] = float(np.asarray(inertia.moment_at_com)[k, k])
    per_thrust = share[:, 2] * float(inertia.mass)
    turn = second[:, None] * (share @ moment)
    with np.errstate(divide="ignore"):
        low = np.max((lower + margin - turn) / per_thrust, axis=1)
        high = np.min((upper - margin - turn) / per_thrust, axis=1)
    return low, high


def _least(
    gram: np.ndarray, rows: np.ndarray, right: np.ndarray, s: np.ndarray, low: np.ndarray, high: np.ndarray
) -> np.ndarray:
    """min c^T gram c with rows c = right and low <= s c <= high; without the latter if that is impossible."""
    plain = constrained_least(gram, rows, right)
    value = s @ plain
    if np.all(value >= low) and np.all(value <= high):
        return plain
    import casadi

    A = np.vstack([rows, s])
    shape = {"h": casadi.DM(gram).sparsity(), "a": casadi.DM(A).sparsity()}
    quiet = {"print_iter": False, "print_header": False, "print_info": False, "error_on_fail": False, "max_iter": 500}
    solver = casadi.conic("thrust", "qrqp", shape, quiet)
    found = solver(h=gram, a=A, lba=np.concatenate([right, low]), uba=np.concatenate([right, high]), x0=plain)
    c = np.asarray(found["x"]).ravel()
    slack = 1e-6 * (1 + np.max(np.abs(value)))
    kept = np.all(s @ c >= low - slack) and np.all(s @ c <= high + slack)
    met = np.max(np.abs(rows @ c - right)) < 1e-9 * (1 + np.max(np.abs(right)))
    return c if solver.stats()["success"] and kept and met else plain


@recipe
def looping(vehicle: Vehicle, radius: float = 1.5, turn: float = 3.6, plane: str = "xz", rest: float = 1.4) -> Maneuver:
    """A loop in a vertical plane ("xz" or "yz") from rest to rest within ``turn`` seconds, the thrust axis along the force.

    >>> from heavytop.copters import quadcopter
    >>> low, high = looping(quadcopter()).thrusts()
    >>> float(low.min().round(3)), float(high.max().round(3))
    (2.157, 5.591)
    """
    if plane not in ("xz", "yz"):
        raise ControlError(f"plane of looping must be 'xz' or 'yz', got {plane!r}.")
    positive("looping", radius=radius, turn=turn)
    non_negative("looping", rest=rest)
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


@recipe
def barrel_roll(vehicle: Vehicle, radius: float = 1.0, length: float = 6.0, turn: float = 3.4) -> Maneuver:
    """Fly ahead and turn once about the direction of flight, on a horizontal helix.

    >>> from heavytop.copters import quadcopter
    >>> barrel_roll(quadcopter())
    Maneuver('barrel-roll' of 'quadcopter', 6.4 s)
    """
    finite("barrel-roll", radius=radius, length=length)
    positive("barrel-roll", turn=turn)
    ramp = 1.0
    duration = turn + 2 * ramp
    clock = eased(duration, ramp)

    def position(t: Array) -> Array:
        phase = 2 * np.pi * smoothstep((t - ramp) / turn)
        ahead = length / (duration - ramp) * clock(t)
        return vector(ahead, radius * np.sin(phase), radius * (1 - np.cos(phase)))

    reference = flat_reference(vehicle.model, position, heading=(1.0, 0.0, 0.0), duration=duration + 1.0)
    return Maneuver(vehicle, reference, "barrel-roll", moments=[(duration / 2, "upside down")])


@recipe
def flip(vehicle: Vehicle, turn: float = 0.9, axis: str = "y", begin: float = 1.0, duration: float = 2.9) -> Maneuver:
    """One turn about a horizontal axis ("x" or "y") within ``turn`` seconds, from rest to rest.

    With reversible rotors it ends where it started; otherwise slightly to the side, at the same height.

    >>> from heavytop.copters import quadcopter
    >>> flip(quadcopter())
    Maneuver('flip' of 'quadcopter', 3.9 s)
    """
    positive("flip", turn=turn, duration=duration)
    non_negative("flip", begin=begin)
    if turn + begin >= duration:
        raise ControlError(
            f"a flip must turn inside its duration, got begin = {begin}, turn = {turn}, duration = {duration}."
        )

    def angle(t: Array) -> Array:
        return 2 * np.pi * smoothstep((t - begin) / turn)

    reference = rotated(
        vehicle,
        angle,
        lambda th, g: g * (1 + np.cos(th)) / 2,
        duration,
        (begin, begin + turn),
        axis,
        free=not reversible(vehicle),
    )
    marks = [(begin + turn / 2, "upside down")]
    return Maneuver(vehicle, reference, "flip", duration + 1.0, moments=marks)


@recipe
def inverted(vehicle: Vehicle, turn: float = 1.2, stay: float = 2.0, length: float = 2.0) -> Maneuver:
    """Turn upside down, stay inverted (a fully actuated vehicle flies ahead), then complete the turn.

    A vehicle with fixed rotors needs reversible thrust: limits below zero.

    >>> from heavytop.copters import tricopter
    >>> inverted(tricopter())
    Maneuver('inverted' of 'tricopter', 6 s)
    """
    finite("inverted", length=length)
    positive("inverted", turn=turn, stay=stay)
    begin = 0.8
    again = begin + turn + stay
    total = again + turn + 0.8

    def angle(t: Array) -> Array:
        return np.pi * (smoothstep((t - begin) / turn) + smoothstep((t - again) / turn))

    marks = [(begin + turn, "upside down"), (again, "turns back")]
    if vehicle.fully_actuated:
        curve = curves.rest_to_rest((0.0, 0.0, 0.0), (length, 0.0, 0.0), stay + turn, begin + turn / 2)
        return _turning(vehicle, curve, angle, "x", total, "inverted", moments=marks)
    if not reversible(vehicle):
        raise ControlError(
            f"the rotors of {vehicle.name!r} cannot push backwards, so it cannot stay upside down. Give them a negative least thrust, "
            "quadcopter(thrust=(-6, 6)), or fly 'looping' or 'flip'."
        )
    knots = (begin, begin + turn, again, again + turn)
    reference = rotated(vehicle, angle, lambda th, g: g * np.cos(th), total, knots, "x", free=False)
    return Maneuver(vehicle, reference, "inverted", total + 1.0, moments=marks)


@recipe
def knife_edge(vehicle: Vehicle, length: float = 2.5, turn: float = 1.2, bank: float = np.pi / 2) -> Maneuver:
    """Bank by 90 degrees and pass a narrow gap.

    A fully actuated vehicle flies ahead banked by 90 degrees; one with fixed rotors crosses the gap sideways in free fall, banked to one
    side and then to the other to brake.

    >>> from heavytop.copters import quadcopter
    >>> knife_edge(quadcopter())
    Maneuver('knife-edge' of 'quadcopter', 5.3 s)
    """
    finite("knife-edge", length=length, bank=bank)
    positive("knife-edge", turn=turn)
    if vehicle.fully_actuated:
        begin, stay = 0.5, 3.0
        again = begin + turn + stay

        def angle(t: Array) -> Array:
            return bank * (smoothstep((t - begin) / turn) - smoothstep((t - again) / turn))

        curve = curves.rest_to_rest((0.0, 0.0, 0.0), (length, 0.0, 0.0), stay + turn, begin + turn / 2)
        marks = [(begin + turn, "knife edge"), (again, "turns back")]
        return _turning(vehicle, curve, angle, "x", again + turn + 1.0, "knife-edge", moments=marks)
    quick, back = 0.6, 0.9
    first = 1.1
    second, third = first + quick, first + quick + back
    total = third + quick + first

    def swing(t: Array) -> Array:
        rise, turn_over, rest = ((t - first) / quick, (t - second) / back, (t - third) / quick)
        return bank * (smoothstep(rise) - 2 * smoothstep(turn_over) + smoothstep(rest))

    knots = (first, second, third, third + quick)
    reference = rotated(vehicle, swing, lambda th, g: g * np.cos(th), total, knots, "x", free=True)
    return Maneuver(vehicle, reference, "knife-edge", total + 1.0, moments=[(second, "knife edge"), (third, "brakes")])


def reversible(vehicle: Vehicle) -> bool:
    """Whether the rotors can push backwards."""
    return vehicle.limits is None or bool(np.all(np.asarray(vehicle.limits.lower) < 0))


def _require_full_actuation(vehicle: Vehicle, what: str) -> None:
    if not vehicle.fully_actuated:
        raise ControlError(
            f"{what} needs a fully actuated vehicle such as the tricopter; the rotors of {vehicle.name!r} cannot push it sideways "
            "without turning it."
        )


def _turning(
    vehicle: Vehicle, curve: Any, angle: Any, axis: Any, duration: float, name: str, **options: Any
) -> Maneuver:
    """Position curve(t) (3,) with the attitude exp(angle(t) axis), both in NumPy notation."""
    _require_full_actuation(vehicle, name)
    n = np.asarray(so3.unit_axis(axis), dtype=float)

    def pose(t: Array) -> Array:
        return se3.pose(so3.exp(scale(angle(t), n, 1)), curve(t))

    return Maneuver(vehicle, Reference.from_pose(vehicle.model, pose, duration=duration), name, **options)


@recipe
def hover_roll(vehicle: Vehicle, turn: float = 3.0, axis: Any = "x", begin: float = 0.5) -> Maneuver:
    """One turn about a horizontal axis at a fixed place within ``turn`` seconds, by a fully actuated vehicle.

    >>> from heavytop.copters import tricopter
    >>> hover_roll(tricopter())
    Maneuver('hover-roll' of 'tricopter', 4.5 s)
    """
    finite("hover-roll", begin=begin)
    positive("hover-roll", turn=turn)
    angle = lambda t: 2 * np.pi * smoothstep((t - begin) / turn)  # noqa: E731
    still = lambda t: vector(0.0 * t, 0.0 * t, 0.0 * t)  # noqa: E731
    marks = [(begin, "roll begins"), (begin + turn / 2, "upside down"), (begin + turn, "roll ends")]
    return _turning(vehicle, still, angle, axis, begin + turn + 1.0, "hover-roll", moments=marks)


@recipe
def level_loop(vehicle: Vehicle, radius: float = 1.5, turn: float = 8.0, begin: float = 0.0) -> Maneuver:
    """A vertical loop of a fully actuated vehicle with the hull always level.

    >>> from heavytop.copters import tricopter
    >>> level_loop(tricopter())
    Maneuver('level-loop' of 'tricopter', 9 s)
    """
    _require_full_actuation(vehicle, "level-loop")
    finite("level-loop", radius=radius, begin=begin)
    positive("level-loop", turn=turn)

    def pose(t: Array) -> Array:
        phase = 2 * np.pi * smoothstep((t - begin) / turn)
        position = vector(radius * np.sin(phase), 0.0 * phase, radius * (1 - np.cos(phase)))
        return se3.pose(np.eye(3), position)

    reference = Reference.from_pose(vehicle.model, pose, duration=begin + turn + 1.0)
    return Maneuver(vehicle, reference, "level-loop", moments=[(begin + turn / 2, "top")])
