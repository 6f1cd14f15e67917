"""Polynomials in named quantities, simplified by trigonometry and by the constraints of the coordinates.

The entries of equations of motion are polynomials in velocities, parameters, coordinates, sines and cosines. A polynomial is
a dictionary from monomials to numbers; a monomial is a sorted tuple of (generator, exponent). :class:`Ring` owns the
generators and the rules that shorten a polynomial without changing its value on the manifold:

    sin(a) cos(b) +- cos(a) sin(b) = sin(a +- b),    cos(a) cos(b) -+ sin(a) sin(b) = cos(a +- b),
    and every relation sum_i k_i m_i = 0 between products of two generators (c^2 + s^2 = 1, R^T R = R R^T = I, cofactors).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

Monomial = tuple[tuple[int, int], ...]
Poly = dict[Monomial, float]
Angle = tuple[tuple[int, int], ...]
"""An integer linear combination of generators: ((generator, factor), ...), the first factor positive."""

DUST = 1e-14
"""A sum this much smaller than its summands is rounding."""
SMALLEST = 1e-15
"""A constant smaller than this, or a term smaller than this relative to the largest one, is rounding."""
ONE: Monomial = ()

PARAMETER, COORDINATE, VELOCITY = 0, 1, 2
"""Levels of generators; an expression is collected by the higher ones first."""


@dataclass(frozen=True)
class Generator:
    """A variable of the polynomials; ``expression`` is its SymPy form."""

    expression: Any
    level: int
    trig: tuple[str, Angle] | None = None


def constant(value: float) -> Poly:
    """A number as a polynomial."""
    return {ONE: value} if abs(value) >= SMALLEST else {}


def add(a: Poly, b: Poly, factor: float = 1.0) -> Poly:
    """a + factor b."""
    total = dict(a)
    for mono, k in b.items():
        accumulate(total, mono, factor * k)
    return total


def accumulate(total: Poly, mono: Monomial, value: float) -> None:
    """Add ``value`` to one coefficient, in place; a sum that cancels up to rounding is removed."""
    old = total.get(mono)
    if old is None:
        total[mono] = value
        return
    new = old + value
    if abs(new) <= DUST * max(abs(old), abs(value)):
        del total[mono]
    else:
        total[mono] = new


def scaled(a: Poly, factor: float) -> Poly:
    """factor a."""
    return {mono: factor * k for mono, k in a.items()} if factor else {}


def times(a: Monomial, b: Monomial) -> Monomial:
    """Product of two monomials."""
    if not a:
        return b
    if not b:
        return a
    exponents = dict(a)
    for generator, exponent in b:
        exponents[generator] = exponents.get(generator, 0) + exponent
    return tuple(sorted((g, e) for g, e in exponents.items() if e))


def inverse(mono: Monomial) -> Monomial:
    """1 / mono."""
    return tuple((g, -e) for g, e in mono)


def multiply(a: Poly, b: Poly) -> Poly:
    """a b, expanded."""
    if len(a) < len(b):
        a, b = b, a
    product: Poly = {}
    for right, l in b.items():
        for left, k in a.items():
            accumulate(product, times(left, right), k * l)
    return product


def without_dust(poly: Poly) -> Poly:
    """The polynomial without terms due to rounding."""
    least = SMALLEST * max(map(abs, poly.values()), default=0.0)
    return {mono: k for mono, k in poly.items() if abs(k) > least}


def _close(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-12 * abs(a)


class Ring:
    """The generators of a family of polynomials and the rules between them."""

    def __init__(self) -> None:
        self.generators: list[Generator] = []
        self._known: dict[object, int] = {}
        self._relations: dict[Monomial, list[tuple[tuple[Monomial, float], ...]]] = {}
        self._active: set[int] = set()

    # --- generators -----------------------------------------------------------------------------------------------------------

    def generator(self, expression: Any, level: int, trig: tuple[str, Angle] | None = None) -> int:
        """Number of the generator with that SymPy expression, which is added if it is new."""
        number = self._known.get(expression)
        if number is None:
            number = self._known[expression] = len(self.generators)
            self.generators.append(Generator(expression, level, trig))
        return number

    def variable(self, expression: Any, level: int) -> Poly:
        """A generator as a polynomial."""
        return {((self.generator(expression, level), 1),): 1.0}

    def level(self, poly: Poly) -> int:
        """The highest level among the generators of a polynomial."""
        return max((self.generators[g].level for mono in poly for g, _ in mono), default=PARAMETER)

    def sine(self, function: str, angle: Angle) -> tuple[int, float]:
        """The generator sin or cos of an angle, and its sign."""
        sign = 1.0
        if angle[0][1] < 0:
            angle, sign = tuple((g, -k) for g, k in angle), -1.0 if function == "sin" else 1.0
        key = (function, angle)
        if key not in self._known:
            import sympy

            argument = sympy.Add(*(k * self.generators[g].expression for g, k in angle))
            number = self.generator(getattr(sympy, function)(argument), COORDINATE, (function, angle))
            self._known[key] = number
            other = ("cos" if function == "sin" else "sin", angle)
            if other in self._known:
                partner = self._known[other]
                self.relate([(((number, 2),), 1.0), (((partner, 2),), 1.0), (ONE, -1.0)])
            else:
                self.sine(other[0], angle)
            self._active.add(number)
        return self._known[key], sign

    def angle_of(self, poly: Poly) -> Angle | None:
        """The polynomial as an integer linear combination of coordinates, or None."""
        parts = []
        for mono, k in poly.items():
            if len(mono) != 1 or mono[0][1] != 1 or k != int(k) or self.generators[mono[0][0]].trig:
                return None
            parts.append((mono[0][0], int(k)))
        return tuple(sorted(parts)) or None

    def relate(self, relation: Iterable[tuple[Monomial, float]]) -> None:
        """Declare sum_i k_i m_i = 0, used where it shortens a polynomial. Terms are products of at most two generators."""
        terms = tuple(relation)
        if any(sum(e for _, e in mono) > 2 or any(e < 0 for _, e in mono) for mono, _ in terms):
            return
        for mono, _ in terms:
            if sum(e for _, e in mono) == 2:
                self._relations.setdefault(mono, []).append(terms)
                self._active.update(g for g, _ in mono)

    # --- simplification ---------------------------------------------------------------------------------------------------------

    def reduce(self, poly: Poly, limit: int = 400) -> Poly:
        """An equal polynomial with fewer terms if the rules find one; one longer than ``limit`` is returned unchanged."""
        if not 1 < len(poly) <= limit:
            return poly
        poly = dict(poly)
        changed = True
        while changed:
            changed = False
            for mono in list(poly):
                while mono in poly and self._shorten(poly, mono):
                    changed = True
        return poly

    def _shorten(self, poly: Poly, mono: Monomial) -> bool:
        """Apply the first rule that shortens the polynomial through one of its monomials, in place."""
        for pair in self._pairs(mono):
            if self._by_angle_sum(poly, mono, pair):
                return True
            for relation in self._relations.get(pair, ()):
                if self._by_relation(poly, times(mono, inverse(pair)), relation):
                    return True
        return False

    def _pairs(self, mono: Monomial) -> Iterator[Monomial]:
        """The products of two generators that divide a monomial and have rules."""
        active = [(g, e) for g, e in mono if e > 0 and g in self._active]
        for g, e in active:
            if e > 1:
                yield ((g, 2),)
        for (g, _), (h, _) in combinations(active, 2):
            yield ((g, 1), (h, 1))

    def _by_relation(self, poly: Poly, cofactor: Monomial, relation: Sequence[tuple[Monomial, float]]) -> bool:
        """Subtract t cofactor (sum_i k_i m_i) if that removes more terms than it makes."""
        monos = [times(m, cofactor) for m, _ in relation]
        shares = [poly.get(mono, 0.0) / k for mono, (_, k) in zip(monos, relation, strict=True)]
        absent = shares.count(0.0)
        for t in shares:
            if t and sum(_close(t, share) for share in shares) > absent:
                for mono, (_, k) in zip(monos, relation, strict=True):
                    accumulate_close(poly, mono, -t * k)
                return True
        return False

    def _by_angle_sum(self, poly: Poly, mono: Monomial, pair: Monomial) -> bool:
        """Join sin(a) cos(b) with cos(a) sin(b), and cos(a) cos(b) with sin(a) sin(b)."""
        g, h = pair[0][0], pair[-1][0]
        first, second = self.generators[g].trig, self.generators[h].trig
        if first is None or second is None:
            return False
        (f, a), (s, b) = first, second
        if g == h or a == b:
            return False
        swapped = self._trig_pair("cos" if f == "sin" else "sin", a, "cos" if s == "sin" else "sin", b)
        rest = times(mono, inverse(pair))
        partner = times(rest, swapped)
        k, l = poly[mono], poly.get(partner, 0.0)
        if not l or not _close(abs(k), abs(l)):
            return False
        same = k * l > 0
        if f == s:  # cos a cos b -+ sin a sin b = cos(a +- b)
            joined, number = ("cos", _combine(a, b, -1 if same else 1)), k if f == "cos" else l
        elif f == "sin":  # sin a cos b +- cos a sin b = sin(a +- b)
            joined, number = ("sin", _combine(a, b, 1 if same else -1)), k
        else:  # cos a sin b +- sin a cos b = sin(b +- a)
            joined, number = ("sin", _combine(b, a, 1 if same else -1)), k
        del poly[mono], poly[partner]
        generator, sign = self.sine(*joined)
        accumulate(poly, times(rest, ((generator, 1),)), sign * number)
        return True

    def _trig_pair(self, f: str, a: Angle, s: str, b: Angle) -> Monomial:
        (g, _), (h, _) = self.sine(f, a), self.sine(s, b)
        return tuple(sorted(((g, 1), (h, 1))))

    def doubled_angles(self, poly: Poly) -> Poly:
        """sin(a) cos(a) = sin(2 a) / 2 and cos(a)^2 - sin(a)^2 = cos(2 a) wherever they occur."""
        result = dict(poly)
        for mono, k in poly.items():
            exponents = dict(mono)
            for g, e in mono:
                trig = self.generators[g].trig
                if trig is None or mono not in result:
                    continue
                function, angle = trig
                cosine = self._known[("cos", angle)]
                sine = self._known[("sin", angle)]
                if function == "sin" and e == 1 and exponents.get(cosine) == 1:
                    rest = times(mono, ((sine, -1), (cosine, -1)))
                    generator, sign = self.sine("sin", _combine(angle, angle, 1))
                    del result[mono]
                    accumulate(result, times(rest, ((generator, 1),)), sign * k / 2)
                elif function == "cos" and e == 2:
                    rest = times(mono, ((cosine, -2),))
                    partner = times(rest, ((sine, 2),))
                    if partner in result and _close(result[partner], -k):
                        generator, sign = self.sine("cos", _combine(angle, angle, 1))
                        del result[mono], result[partner]
                        accumulate(result, times(rest, ((generator, 1),)), sign * k)
        return result


def accumulate_close(total: Poly, mono: Monomial, value: float) -> None:
    """Like :func:`accumulate`, but values that agree to twelve digits cancel."""
    old = total.get(mono, 0.0)
    if old and _close(old, -value):
        del total[mono]
    else:
        total[mono] = old + value


def _combine(a: Angle, b: Angle, sign: int) -> Angle:
    """a + sign b."""
    factors = dict(a)
    for g, k in b:
        factors[g] = factors.get(g, 0) + sign * k
    return tuple(sorted((g, k) for g, k in factors.items() if k))
