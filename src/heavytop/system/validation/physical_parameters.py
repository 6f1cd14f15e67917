"""Physical consistency at given parameters: no negative mass, no negative moment about any axis, no negative damping.

Default values are checked completely when the system is described. Other values are checked here, by signs: of the mass and the principal
minors of the moments at the centre, also of dampings and springs, and of the constants that elements declare to be positive or not negative. That
takes a few products for each set of parameters, and nothing for parameters that enter none of them; negative signs are checked again with a
tolerance for rounding. Moments that only violate the triangle inequality are accepted: slightly wrong parameters of flat bodies do so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from heavytop._arrays import Array, Floats, as_array, concatenate, depends_on, is_symbolic, shape, vector
from heavytop.compile import numpy_function, trace_of
from heavytop.errors import ModelError
from heavytop.system.contacts.one_sided import Rope, StickingFriction
from heavytop.system.description.description import Description
from heavytop.system.description.moments import RELATIVE_TOLERANCE, Moments, Stiffness

ROUNDING = 1e-12
"""Negative minors below this share of the same power of the trace count as rounding."""
MINORS = (Moments.check_physical.__qualname__, Stiffness.check_physical.__qualname__)
"""Rules under which no moment at the centre may be negative."""


@dataclass(frozen=True, eq=False)
class Signed:
    """Moments or a constant (an array) that must not be negative; ``strict``: nor zero."""

    title: str
    value: Any
    strict: bool
    entering: tuple[int, ...]

    @property
    def signs(self) -> Array:
        """Numbers that must not be negative."""
        if isinstance(self.value, Moments):
            return _signs(self.value)
        flat = np.reshape(self.value, (int(np.prod(shape(self.value))),))
        return np.where(flat > 0.0, flat, -1.0) if self.strict else flat


class PhysicalConstants:
    """Inertias and constants of a description that depend on parameters.

    >>> import heavytop as ht
    >>> system = ht.System(name="stick")
    >>> inertia = ht.Inertia(system.parameter("m", 1.0), com=(0, 0, -1))
    >>> system.body("rod", joint=ht.Revolute("y"), inertia=inertia)
    >>> check = PhysicalConstants(system.describe())
    >>> sorted(check.names)
    ['m']
    >>> check(np.array([-2.0]))
    Traceback (most recent call last):
    ...
    heavytop.errors.ModelError: inertia of 'rod' in 'stick' with m = -2: the mass must not be negative, got -2.
    """

    def __init__(self, description: Description) -> None:
        self.description = description
        self.signed = tuple(_signed(description))
        parameters = description.parameters
        self.names = frozenset(parameters[k].name for item in self.signed for k in item.entering)
        self._signs: Callable[..., Any] | None = None

    def __call__(self, p: Floats) -> None:
        """Raise a ModelError for the first inconsistent set among the parameters (..., np)."""
        if self._signs is None:
            signs = concatenate(*(item.signs for item in self.signed))
            self._signs = numpy_function(trace_of("signs", {"p": self._p}, {"signs": signs}))
        signs = self._signs(p)[0]
        if not signs.size or signs.min() >= 0.0:
            return
        start = 0
        for item in self.signed:
            end = start + shape(item.signs)[0]
            wrong = np.min(signs[..., start:end], axis=-1) < 0.0
            for row in p[wrong] if p.ndim > 1 else [p] if wrong else []:
                self._check_closely(item, row)
            start = end

    @property
    def _p(self) -> Array:
        return vector(*(parameter.symbol for parameter in self.description.parameters))

    def _check_closely(self, item: Signed, p: Floats) -> None:
        parameters = self.description.parameters
        given = ", ".join(f"{parameters[k].name} = {p[k]:g}" for k in item.entering)
        where = f"{item.title} in {self.description.name!r} with {given}"
        if not isinstance(item.value, Moments):
            values = trace_of("constant", {"p": self._p}, {"value": item.value}).interpret(p)[0]
            needed = "must be positive" if item.strict else "must not be negative"
            raise ModelError(f"{where}: it {needed}, got {np.asarray(values).tolist()}.")
        outputs = {"total": item.value.total, "moment": item.value.moment_at_center}
        total, moment = trace_of("moments", {"p": self._p}, outputs).interpret(p)
        if total < 0.0:
            raise ModelError(f"{where}: the {item.value.names[0]} must not be negative, got {total:g}.")
        principal = np.linalg.eigvalsh(moment)
        if principal[0] < -RELATIVE_TOLERANCE * max(principal[-1], 0.0):
            raise ModelError(
                f"{where}: no moment may be negative, the principal ones are {np.array2string(principal, precision=6)}."
            )


def _signed(description: Description) -> Iterable[Signed]:
    """All constants whose sign depends on parameters, except those that also depend on the time, which a run sets."""
    parts = [(f"inertia of {body!r}", inertia, False) for body, inertia in description.inertias.items()]
    for element in description.elements:
        for strict, constants in ((False, element.not_negative()), (True, element.positive())):
            parts += [(f"{label} of {element.title}", value, strict) for label, value in constants.items()]
    for contact in description.contacts:
        parts += [(f"friction of contact {contact.name!r}", contact.friction, False)]
        parts += _restitution(f"contact {contact.name!r}", contact.restitution)
    for item in description.inequalities:
        if isinstance(item, StickingFriction):
            parts += [(f"coulomb of joint friction in {item.joint!r}", item.coulomb, False)]
        else:
            parts += _restitution(f"{item.name!r}", item.restitution)
        if isinstance(item, Rope):
            parts += [(f"length of rope {item.name!r}", item.length, True)]
    for title, value, strict in parts:
        is_moments = isinstance(value, Moments)
        own = value.moments if is_moments else as_array(value)
        if not is_symbolic(own) or (description.time is not None and depends_on(own, description.time)):
            continue
        entering = tuple(k for k, p in enumerate(description.parameters) if depends_on(own, p.symbol))
        yield Signed(title, value if is_moments else own, strict, entering)


def _restitution(where: str, value: Any) -> list[tuple[str, Any, bool]]:
    """A coefficient from 0 to 1 as two numbers that must not be negative."""
    return [(f"restitution of {where}", value, False), (f"1 - restitution of {where}", 1.0 - value, False)]


def _signs(moments: Moments) -> Array:
    """The mass and the principal minors of the moments at the centre."""
    S = moments.moment_at_center
    if not is_symbolic(S) or type(moments).check_physical.__qualname__ not in MINORS:
        return vector(moments.total)  # a class with another rule
    trace = S[0, 0] + S[1, 1] + S[2, 2]
    pairs = [S[i, i] * S[j, j] - S[i, j] ** 2 + ROUNDING * trace**2 for i, j in ((0, 1), (0, 2), (1, 2))]
    whole = (
        S[0, 0] * (S[1, 1] * S[2, 2] - S[1, 2] ** 2)
        - S[0, 1] * (S[0, 1] * S[2, 2] - S[1, 2] * S[0, 2])
        + S[0, 2] * (S[0, 1] * S[1, 2] - S[1, 1] * S[0, 2])
    )
    singles = [S[i, i] + ROUNDING * trace for i in range(3)]
    return concatenate(vector(moments.total, *singles), vector(*pairs, whole + ROUNDING * trace**3))
