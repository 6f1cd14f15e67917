"""Polynomials as short SymPy expressions: common factors first, then collected by velocities and by coordinates."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from functools import cache
from math import gcd, isfinite
from typing import Any

from heavytop.equations.polynomial import PARAMETER, VELOCITY, Monomial, Poly, Ring, inverse, times

FACTOR_UP_TO = 14
"""Largest number of terms of a polynomial that is also factorised."""


@cache
def number(value: float) -> Any:
    """A float as SymPy number: 0.5 is 1/2, 0.866... is sqrt(3)/2, 9.81 stays a decimal.

    >>> number(-0.125), number(2.0), number(3**0.5 / 4)
    (-1/8, 2, sqrt(3)/4)
    """
    import sympy

    if not isfinite(value):
        return sympy.Float(value)
    simple = _simple_fraction(value)
    if simple is not None:
        return sympy.Rational(simple.numerator, simple.denominator)
    for radicand in (2, 3):
        simple = _simple_fraction(value / radicand**0.5)
        if simple is not None and simple.denominator <= 16 and abs(simple.numerator) <= 16:
            return sympy.Rational(simple.numerator, simple.denominator) * sympy.sqrt(radicand)
    return sympy.Float(repr(float(f"{value:.15g}")))


def _simple_fraction(value: float) -> Fraction | None:
    """The fraction equal to the number with a denominator of twos and threes up to 64, or None."""
    for denominator in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64):
        numerator = round(value * denominator)
        if abs(numerator) <= 10**6 and abs(value * denominator - numerator) <= 4e-15 * abs(numerator):
            return Fraction(numerator, denominator)
    return None


class Collector:
    """Turns polynomials of a ring into SymPy expressions."""

    def __init__(self, ring: Ring) -> None:
        self.ring = ring

    # --- plain and collected ------------------------------------------------------------------------------------------------

    def monomial(self, mono: Monomial) -> Any:
        """A product of powers of generators."""
        import sympy

        return sympy.Mul(*(self.ring.generators[g].expression ** e for g, e in mono))

    def plain(self, poly: Poly) -> Any:
        """Common factors times the sum of the remaining terms."""
        import sympy

        factor, common, poly = self._content(poly)
        total = sympy.Add(*(number(k) * self.monomial(mono) for mono, k in poly.items()))
        return number(factor) * self.monomial(common) * total

    def expression(self, poly: Poly) -> Any:
        """The form collected by velocities, by coordinates and by parameters, with common factors first."""
        return self._collect(poly, VELOCITY)

    def _collect(self, poly: Poly, level: int) -> Any:
        import sympy

        if not poly:
            return sympy.Integer(0)
        factor, common, poly = self._content(poly)
        outside = number(factor) * self.monomial(common)
        if len(poly) == 1:
            ((mono, k),) = poly.items()
            return outside * number(k) * self.monomial(mono)
        groups = self._groups(poly, level)
        while len(groups) == 1 and level > PARAMETER:
            level -= 1
            groups = self._groups(poly, level)
        if level == PARAMETER:
            return outside * self._nested(poly)
        similar: dict[Any, list[tuple[Monomial, Poly]]] = {}
        for mono, part in groups.items():
            similar.setdefault(_shape(part), []).append((mono, part))
        terms = []
        for members in similar.values():
            part = members[0][1]
            if len(members) == 1 or len(part) == 1:
                terms += [self.monomial(mono) * self._collect(part, level - 1) for mono, part in members]
            else:
                lead = part[min(part)]
                joined = sympy.Add(*(number(other[min(other)] / lead) * self.monomial(mono) for mono, other in members))
                terms.append(joined * self._collect(part, level - 1))
        return outside * sympy.Add(*terms)

    def _groups(self, poly: Poly, level: int) -> dict[Monomial, Poly]:
        """The polynomial as a sum over monomials of the generators at that level."""
        groups: dict[Monomial, Poly] = {}
        for mono, k in poly.items():
            upper = tuple((g, e) for g, e in mono if self.ring.generators[g].level >= level)
            lower = tuple((g, e) for g, e in mono if self.ring.generators[g].level < level)
            groups.setdefault(upper, {})[lower] = k
        return groups

    def _nested(self, poly: Poly) -> Any:
        """Factor out the most frequent generator, recursively."""
        import sympy

        counts = Counter(g for mono in poly for g, e in mono if e > 0)
        often = [(n, g) for g, n in counts.items() if n > 1]
        if not often:
            return sympy.Add(*(number(k) * self.monomial(mono) for mono, k in poly.items()))
        most = max(often, key=lambda pair: (pair[0], -pair[1]))[1]
        exponent = min(e for mono in poly for g, e in mono if g == most and e > 0)
        factor: Monomial = ((most, exponent),)
        with_it = {times(m, inverse(factor)): k for m, k in poly.items() if dict(m).get(most, 0) > 0}
        without = {m: k for m, k in poly.items() if dict(m).get(most, 0) <= 0}
        scale, common, with_it = self._content(with_it)
        inner = self._nested(with_it)
        product = number(scale) * self.monomial(times(factor, common)) * inner
        return product + self._nested(without) if without else product

    def _content(self, poly: Poly) -> tuple[float, Monomial, Poly]:
        """Common number, common monomial and the rest."""
        exponents = [dict(mono) for mono in poly]
        shared = set.intersection(*(set(e) for e in exponents))
        common: Monomial = tuple(sorted((g, min(e[g] for e in exponents)) for g in shared))
        factor = _common_number(poly)
        lowered = inverse(common)
        return factor, common, {times(mono, lowered): k / factor for mono, k in poly.items()}

    # --- the shortest of several forms --------------------------------------------------------------------------------------

    def shortest(self, poly: Poly) -> Any:
        """The form with the fewest operations: collected, with doubled angles, or factorised."""
        import sympy

        doubled = self.ring.doubled_angles(poly)
        forms = [self.expression(doubled)] if doubled != poly else []
        forms.append(self.expression(poly))
        if len(poly) <= FACTOR_UP_TO:
            forms += [_factorised(form) for form in forms if isinstance(form, (sympy.Add, sympy.Mul))]
        return min(forms, key=lambda form: form.count_ops())


def _factorised(expression: Any) -> Any:
    import sympy

    if expression.atoms(sympy.Float) or expression.atoms(sympy.Piecewise):
        return expression
    return sympy.factor(expression)


def _shape(poly: Poly) -> frozenset[tuple[Monomial, float]]:
    """A key that is equal for polynomials that are multiples of each other."""
    lead = poly[min(poly)]
    return frozenset((m, float(f"{k / lead:.12g}")) for m, k in poly.items())


def _common_number(poly: Poly) -> float:
    """A factor of all terms that leaves simple numbers, most of them or the first one positive."""
    values = list(poly.values())
    negative = sum(v < 0 for v in values)
    flip = 2 * negative > len(values) or (2 * negative == len(values) and poly[min(poly)] < 0)
    sign = -1.0 if flip else 1.0
    if all(abs(abs(v) - abs(values[0])) <= 1e-13 * abs(v) for v in values):
        return sign * abs(values[0])
    fractions = [_simple_fraction(v) for v in values]
    known = [f for f in fractions if f is not None]
    if len(known) < len(fractions):
        return sign
    return sign * gcd(*(f.numerator for f in known)) / gcd(*(f.denominator for f in known))
