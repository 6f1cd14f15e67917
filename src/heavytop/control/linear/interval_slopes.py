"""Interval slopes: bounds of a function, and of the matrix S(x) with f(x) - f(c) = S(x) (x - c), over boxes.

Slopes are tighter than derivatives (Krawczyk and Neumaier 1985): for x in a box, S is bounded by quotients (f(x) - f(c)) / (x - c) with the
fixed centre c. Every operation rounds outwards: the exact result lies between the floating-point neighbours of the computed bounds (sine, cosine,
exponential and arc tangent: the second neighbours). A box is a row; all rows are evaluated together.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from heavytop.errors import ControlError


@dataclass(frozen=True, eq=False)
class Interval:
    """Bounds low <= x <= high, arrays of one shape.

    Examples
    --------
    >>> two = Interval(np.array([1.0]), np.array([2.0])) * Interval(np.array([-1.0]), np.array([3.0]))
    >>> bool(two.low <= -2.0), bool(two.high >= 6.0)
    (True, True)
    """

    low: np.ndarray
    high: np.ndarray

    @classmethod
    def of(cls, x: Any) -> Interval:
        """A number or an array without width."""
        x = np.asarray(x, dtype=float)
        return cls(x, x)

    @classmethod
    def outward(cls, low: np.ndarray, high: np.ndarray, neighbours: int = 1) -> Interval:
        """Bounds moved outwards by rounding errors."""
        for _ in range(neighbours):
            low, high = np.nextafter(low, -np.inf), np.nextafter(high, np.inf)
        return cls(low, high)

    def __add__(self, other: Interval) -> Interval:
        return self.outward(self.low + other.low, self.high + other.high)

    def __sub__(self, other: Interval) -> Interval:
        return self.outward(self.low - other.high, self.high - other.low)

    def __neg__(self) -> Interval:
        return Interval(-self.high, -self.low)

    def __mul__(self, other: Interval) -> Interval:
        ends = [a * b for a in (self.low, self.high) for b in (other.low, other.high)]
        return self.outward(np.minimum.reduce(ends), np.maximum.reduce(ends))

    def inverse(self) -> Interval:
        """1 / x; unbounded if x may be zero."""
        safe = (self.low > 0) | (self.high < 0)
        low, high = np.where(safe, self.low, 1.0), np.where(safe, self.high, 1.0)
        found = self.outward(1 / high, 1 / low)
        return Interval(np.where(safe, found.low, -np.inf), np.where(safe, found.high, np.inf))

    def hull(self, other: Interval) -> Interval:
        """The smallest interval around both."""
        return Interval(np.minimum(self.low, other.low), np.maximum(self.high, other.high))

    def within(self, other: Interval) -> Interval:
        """The part in the other one."""
        return Interval(np.maximum(self.low, other.low), np.minimum(self.high, other.high))

    def column(self) -> Interval:
        """With an axis for the entries of a slope."""
        return Interval(self.low[:, None], self.high[:, None])

    @property
    def middle(self) -> np.ndarray:
        return 0.5 * (self.low + self.high)

    @property
    def radius(self) -> np.ndarray:
        """Largest distance from the middle."""
        return np.nextafter(np.maximum(self.high - self.middle, self.middle - self.low), np.inf)


def _monotone(function: Callable[[np.ndarray], np.ndarray]) -> Callable[[Interval], Interval]:
    return lambda x: Interval.outward(function(x.low), function(x.high), 2)


def _wave(function: Callable[[np.ndarray], np.ndarray], top: float) -> Callable[[Interval], Interval]:
    """Range of a sine or cosine with its largest value at ``top``."""

    def found(x: Interval) -> Interval:
        ends = np.stack([function(x.low), function(x.high)])
        margin = 1e-12 * (1 + np.abs(x.low) + np.abs(x.high))

        def passes(at: float) -> np.ndarray:
            """Whether at + 2 pi k may lie inside."""
            low, high = (x.low - margin - at) / (2 * np.pi), (x.high + margin - at) / (2 * np.pi)
            return np.floor(high) >= np.ceil(low)

        bounds = Interval.outward(np.min(ends, axis=0), np.max(ends, axis=0), 2)
        low, high = np.maximum(bounds.low, -1.0), np.minimum(bounds.high, 1.0)
        return Interval(np.where(passes(top + np.pi), -1.0, low), np.where(passes(top), 1.0, high))

    return found


_cosine, _sine = _wave(np.cos, 0.0), _wave(np.sin, 0.5 * np.pi)


def _square(x: Interval) -> Interval:
    ends = np.stack([x.low * x.low, x.high * x.high])
    found = Interval.outward(np.min(ends, axis=0), np.max(ends, axis=0))
    return Interval(np.where((x.low <= 0) & (x.high >= 0), 0.0, np.maximum(found.low, 0.0)), found.high)


def _root(x: Interval) -> Interval:
    return _monotone(np.sqrt)(Interval(np.maximum(x.low, 0.0), np.maximum(x.high, 0.0)))


FUNCTIONS: dict[str, tuple[Callable[[Interval], Interval], Callable[[Interval], Interval]]] = {
    "sin": (_sine, _cosine),
    "cos": (_cosine, lambda x: -_sine(x)),
    "sq": (_square, lambda x: x + x),
    "sqrt": (_root, lambda x: (_root(x) + _root(x)).inverse()),
    "inv": (Interval.inverse, lambda x: -_square(x).inverse()),
    "atan": (_monotone(np.arctan), lambda x: (Interval.of(1.0) + _square(x)).inverse()),
    "exp": (_monotone(np.exp), _monotone(np.exp)),
}
"""Range and derivative of functions of one variable."""


@dataclass(frozen=True, eq=False)
class Slope:
    """Value at the centre (), range (rows,) and slopes (rows, nx) of an expression."""

    centre: Interval
    value: Interval
    slope: Interval

    def __add__(self, other: Slope) -> Slope:
        return Slope(self.centre + other.centre, self.value + other.value, self.slope + other.slope)

    def __sub__(self, other: Slope) -> Slope:
        return Slope(self.centre - other.centre, self.value - other.value, self.slope - other.slope)

    def __neg__(self) -> Slope:
        return Slope(-self.centre, -self.value, -self.slope)

    def __mul__(self, other: Slope) -> Slope:
        # f g - f(c) g(c) = S_f g(x) + f(c) S_g = S_g f(x) + g(c) S_f; in each box the narrower one
        one = self.slope * other.value.column() + self.centre * other.slope
        two = other.slope * self.value.column() + other.centre * self.slope
        first = (np.sum(one.high - one.low, axis=1) <= np.sum(two.high - two.low, axis=1))[:, None]
        slope = Interval(np.where(first, one.low, two.low), np.where(first, one.high, two.high))
        return Slope(self.centre * other.centre, self.value * other.value, slope)

    def through(self, name: str) -> Slope:
        """A function of one variable of the expression."""
        function, derivative = FUNCTIONS[name]
        centre, value = function(self.centre), function(self.value)
        near = self.value.hull(Interval(self.centre.low + 0 * self.value.low, self.centre.high + 0 * self.value.high))
        factor = derivative(near)
        away = self.value - self.centre
        quotient = (value - centre) * away.inverse()
        apart = (away.low > 0) | (away.high < 0)
        both = factor.within(quotient)
        low, high = np.where(apart, both.low, factor.low), np.where(apart, both.high, factor.high)
        return Slope(centre, value, self.slope * Interval(low, high).column())

    def bounded(self, bound: float, sign: float) -> Slope:
        """The smaller one (sign 1) or larger one (-1) of the expression and a number."""

        def cut(x: Interval) -> Interval:
            pick = np.minimum if sign > 0 else np.maximum
            return Interval(pick(x.low, bound), pick(x.high, bound))

        near = self.value.hull(Interval(self.centre.low + 0 * self.value.low, self.centre.high + 0 * self.value.high))
        free = near.high <= bound if sign > 0 else near.low >= bound
        factor = Interval(np.where(free, 1.0, 0.0), np.ones_like(self.value.low))
        return Slope(cut(self.centre), cut(self.value), self.slope * factor.column())


def slopes_of(function: Any, arguments: list[Slope]) -> list[Slope]:
    """Slopes of the outputs of a CasADi function of scalars (SX) for those of its inputs.

    Raises
    ------
    ControlError
        The function contains an operation without interval slopes.
    """
    import casadi

    names = {getattr(casadi, key): key[3:].lower() for key in dir(casadi) if key.startswith("OP_")}
    work: dict[int, Slope] = {}
    results: dict[int, Slope] = {}
    zero = arguments[0]
    nothing = Interval(np.zeros_like(zero.slope.low), np.zeros_like(zero.slope.low))
    constants: dict[int, float] = {}
    for k in range(function.n_instructions()):
        name = names[function.instruction_id(k)]
        to, of = function.instruction_output(k), function.instruction_input(k)
        for place in to:
            constants.pop(place, None)
        if name == "input":
            offset = sum(function.numel_in(i) for i in range(of[0]))
            work[to[0]] = arguments[offset + of[1]]
        elif name == "const":
            x = float(function.instruction_constant(k))
            constants[to[0]] = x
            work[to[0]] = Slope(Interval.of(x), Interval.of(np.full_like(zero.value.low, x)), nothing)
        elif name == "output":
            offset = sum(function.numel_out(i) for i in range(to[0]))
            results[offset + to[1]] = work[of[0]]
        elif name in ("add", "sub", "mul"):
            a, b = work[of[0]], work[of[1]]
            work[to[0]] = a + b if name == "add" else a - b if name == "sub" else a * b
        elif name == "div":
            work[to[0]] = work[of[0]] * work[of[1]].through("inv")
        elif name == "neg":
            work[to[0]] = -work[of[0]]
        elif name == "twice":
            work[to[0]] = work[of[0]] + work[of[0]]
        elif name in FUNCTIONS:
            work[to[0]] = work[of[0]].through(name)
        elif name in ("fmin", "fmax") and (of[0] in constants or of[1] in constants):
            a, b = (of[0], of[1]) if of[1] in constants else (of[1], of[0])
            work[to[0]] = work[a].bounded(constants[b], 1.0 if name == "fmin" else -1.0)
        else:
            raise ControlError(
                f"the closed loop contains the operation {name!r}, for which there are no interval bounds."
            )
    return [results[i] for i in sorted(results)]
