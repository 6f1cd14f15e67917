"""Whether rotors can carry a hull and turn it: linear programs over their thrusts, before anything is derived."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from heavytop._format import format_vector
from heavytop.copters.airframe import Airframe, Rotor
from heavytop.copters.vehicle import wrench_matrix
from heavytop.errors import ModelError

DIRECTIONS = {"thrust": 2, "roll": 3, "pitch": 4, "yaw": 5}
"""Rows of the wrenches."""
LEAST = 1e-4
"""Least moment of a controlled direction, relative to the weight at the farthest rotor."""
FEW = 8
"""Most rotors for which also pairs are tried that should spin the other way."""
STRONGEST = 1e3
"""Largest thrust of rotors without a limit, relative to the weight."""
LEVEL = {"roll": 0.0, "pitch": 0.0}


def check_hover(name: str, rotors: Sequence[Rotor], weight: float, com: Any = (0.0, 0.0, 0.0)) -> None:
    """Raise a ModelError that names the rotors unless they can carry a hull at rest and turn it both ways.

    Parameters
    ----------
    rotors : fixed or tilting ones; turning is not checked if all their drag ratios are zero or fewer than four forces act.
    weight : N. com : (3,) centre of mass, m.

    Examples
    --------
    >>> from heavytop.copters.airframe import ring
    >>> check_hover("quad", ring(4, 0.2, drag_ratio=0.02, thrust=(0.0, 6.0)), weight=9.0)
    >>> check_hover("quad", ring(4, 0.2, drag_ratio=0.02, thrust=(0.0, 2.0)), weight=9.0)
    Traceback (most recent call last):
    ...
    heavytop.errors.ModelError: the rotors of 'quad' cannot carry it: level they lift at most 8 N of its weight of 9 N. Give them more thrust.
    """
    W, (low, high) = _wrenches(rotors, com), input_bounds_of(rotors, weight)
    margin = LEAST * weight * Airframe(rotors).reach
    if not np.all(np.isfinite(W)) or not 0 < weight < np.inf:
        return  # rejected by name when the system is described
    if _is_easy(W, low, high, weight, margin):
        return
    if reach(W, low, high, LEVEL | {"thrust": weight}, "yaw") is None:
        raise ModelError(f"the rotors of {name!r} cannot carry it: {_reason(rotors, com, W, low, high, weight)}")
    if W.shape[1] < 4 or not any(rotor.drag_ratio for rotor in rotors) or _turning(W, low, high, weight) > margin:
        return
    turns = W[5] if W.shape[1] == len(rotors) else [rotor.drag_ratio for rotor in rotors]
    spins = {sign: [k for k, turn in enumerate(turns, 1) if turn * sign > 0] for sign in (1, -1)}
    listed = ", ".join(
        f"the torque of {_numbered(spins[sign])} is {word}"
        for sign, word in ((1, "positive"), (-1, "negative"))
        if spins[sign]
    )
    remedy = _remedy(rotors, com, weight, margin)
    raise ModelError(f"the rotors of {name!r} cannot turn it about z both ways while they carry it: {listed}. {remedy}")


def _is_easy(W: np.ndarray, low: np.ndarray, high: np.ndarray, weight: float, margin: float) -> bool:
    """Whether the least thrusts that carry the weight and turn it both ways are within their limits: then no program is needed."""
    inverse = np.linalg.pinv(W[2:6])
    for moment in (margin, -margin):
        required = np.array([weight, 0.0, 0.0, 2 * moment])
        u = inverse @ required
        met = np.max(np.abs(W[2:6] @ u - required)) <= 1e-3 * margin
        if not met or np.any(u < low) or np.any(u > high):
            return False
    return True


def _reason(rotors: Sequence[Rotor], com: Any, W: np.ndarray, low: np.ndarray, high: np.ndarray, weight: float) -> str:
    """Why the weight cannot be carried without moments about x and y, as text."""
    lift, least = reach(W, low, high, LEVEL, "thrust"), reach(W, low, high, LEVEL, "thrust", -1.0)
    if lift is not None and least is not None and lift >= weight:
        return f"their least thrusts lift {-least:.4g} N, more than its weight of {weight:.4g} N. Lower them."
    lifted = f"level they lift at most {max(lift or 0.0, 0.0):.4g} N of its weight of {weight:.4g} N."
    whole = float(np.sum(np.maximum(high * W[2], low * W[2])))
    if whole < weight:
        return f"{lifted} Give them more thrust."
    listed = "; ".join(f"rotor {k} at {format_vector(rotor.at)}" for k, rotor in enumerate(rotors, 1))
    return f"{lifted} Unbalanced they could lift {whole:.4g} N. Check places and the centre of mass {format_vector(com)}: {listed}."


def _remedy(rotors: Sequence[Rotor], com: Any, weight: float, margin: float) -> str:
    """Which rotors should spin the other way, or another remedy, as text."""
    spinning = [k for k, rotor in enumerate(rotors) if rotor.drag_ratio]
    low, high = input_bounds_of(rotors, weight)
    for count in (1, 2) if len(spinning) <= FEW else (1,):
        found = []
        for chosen in combinations(spinning, count):
            signs = [-1.0 if k in chosen else 1.0 for k in range(len(rotors))]
            found.append((_turning(_wrenches(rotors, com, signs), low, high, weight), chosen))
        best, chosen = max(found, default=(0.0, ()))
        if best > margin:
            return f"Change the sign of {_numbered([k + 1 for k in chosen])}: then they can."
    more = _turning(_wrenches(rotors, com), low, 1.5 * high, weight)
    if more > margin:
        return "Carrying it leaves them no thrust to turn it with: give them more thrust."
    if more > 0.01 * margin:
        return "Their torques are too small for so large an airframe: give them larger ones (drag_ratio), or tilt rotors across their arms."
    return "Give neighbours opposite signs of their torque (drag_ratio), or tilt rotors across their arms."


def _turning(W: np.ndarray, low: np.ndarray, high: np.ndarray, weight: float) -> float:
    """The smaller of the moments about z to both sides, N m, with the weight carried and no moment about x and y."""
    both = [reach(W, low, high, LEVEL | {"thrust": weight}, "yaw", sign) for sign in (1.0, -1.0)]
    return min(-np.inf if b is None else b for b in both)


def _wrenches(rotors: Sequence[Rotor], com: Any, signs: Sequence[float] | None = None) -> np.ndarray:
    """Wrenches (6, n) about the centre of mass, with changed signs of the torques of some rotors."""
    W = wrench_matrix(rotors)
    if signs is not None:
        drags = [(r.drag_ratio, d, s) for r, s in zip(rotors, signs, strict=True) for d in r.directions]
        W[3:] += np.array([(s - 1.0) * ratio * direction for ratio, direction, s in drags]).T
    W[3:] -= np.cross(np.asarray(com, dtype=float), W[:3].T).T
    return W


def input_bounds_of(rotors: Sequence[Rotor], weight: float) -> tuple[np.ndarray, np.ndarray]:
    """Least and largest value of every input; a tilting rotor may push any way."""
    low, high = [], []
    for rotor in rotors:
        least, largest = rotor.thrust[0], min(rotor.thrust[1], STRONGEST * weight)
        fixed = rotor.tilt is None
        low += [max(least, -STRONGEST * weight)] if fixed else [-largest] * 2
        high += [largest] if fixed else [largest] * 2
    return np.array(low), np.array(high)


def reach(
    W: np.ndarray, low: np.ndarray, high: np.ndarray, fixed: dict[str, float], name: str, sign: float = 1.0
) -> float | None:
    """Largest amount (times ``sign``) of a wrench in one direction with others fixed; None if that is impossible."""
    from scipy.optimize import linprog

    most = max(float(np.max(np.abs([low, high]))), 1e-300)
    sizes = np.maximum(most * np.max(np.abs(W), axis=1), 1e-300)  # the tolerances of the solver are absolute
    pure, rows = W * most / sizes[:, None], [DIRECTIONS[k] for k in fixed]
    found: Any = linprog(
        -sign * pure[DIRECTIONS[name]],
        A_eq=pure[rows] if rows else None,
        b_eq=np.array(list(fixed.values())) / sizes[rows] if rows else None,
        bounds=list(zip(low / most, high / most, strict=True)),
    )
    return float(-found.fun) * float(sizes[DIRECTIONS[name]]) if found.status == 0 else None


def _numbered(numbers: Sequence[int]) -> str:
    return f"rotor{'' if len(numbers) == 1 else 's'} {', '.join(map(str, numbers))}"
