"""Whether the inertias of a system can move at given parameters: no negative mass, no negative moment about any axis.

The defaults are checked whole when the system is described. What is given later is checked here, by the signs of the mass and of the
principal minors of the moments at the centre: a few products for each body and set of parameters, and nothing for parameters that enter no
inertia. What looks wrong is looked at closely, with an allowance for rounding. Moments that break the triangle inequality alone are no
error here: parameters that are wrong by some percent do so for flat bodies.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from heavytop._arrays import Array, Floats, concatenate, depends_on, is_symbolic, vector
from heavytop.compile import numpy_function, trace_of
from heavytop.errors import ModelError
from heavytop.system.description import Description
from heavytop.system.moments import RELATIVE_TOLERANCE, Moments

ROUNDING = 1e-12
"""Negative minors below this share of the same power of the trace count as rounding."""


class PhysicalInertias:
    """The inertias of a description that depend on parameters.

    >>> import heavytop as ht
    >>> system = ht.System(name="stick")
    >>> inertia = ht.Inertia(system.parameter("m", 1.0), com=(0, 0, -1))
    >>> system.body("rod", joint=ht.Revolute("y"), inertia=inertia)
    >>> check = PhysicalInertias(system.describe())
    >>> sorted(check.names)
    ['m']
    >>> check(np.array([-2.0]))
    Traceback (most recent call last):
    ...
    heavytop.errors.ModelError: inertia of 'rod' in 'stick' with m = -2: the mass must not be negative, got -2.
    """

    def __init__(self, description: Description) -> None:
        parameters = description.parameters
        self.description = description
        self.entering: dict[str, tuple[int, ...]] = {}
        for body, inertia in description.inertias.items():
            if is_symbolic(inertia.total, inertia.center, inertia.moment_at_center):
                self.entering[body] = tuple(
                    k for k, p in enumerate(parameters) if depends_on(inertia.moments, p.symbol)
                )
        self.names = frozenset(parameters[k].name for own in self.entering.values() for k in own)
        self._signs: Callable[..., Any] | None = None

    def __call__(self, p: Floats) -> None:
        """Raise a ModelError for the first of the parameters (..., np) with which a body cannot be."""
        if self._signs is None:
            outputs = {f"body_{k}": _signs(self.description.inertias[b]) for k, b in enumerate(self.entering)}
            self._signs = numpy_function(trace_of("signs", {"p": self._p}, outputs))
        for body, signs in zip(self.entering, self._signs(p), strict=True):
            if signs.size and np.min(signs) < 0.0:
                for row in p[np.min(signs, axis=-1) < 0.0] if p.ndim > 1 else [p]:
                    self._look_closely(body, row)

    @property
    def _p(self) -> Array:
        return vector(*(parameter.symbol for parameter in self.description.parameters))

    def _look_closely(self, body: str, p: Floats) -> None:
        parameters, inertia = self.description.parameters, self.description.inertias[body]
        given = ", ".join(f"{parameters[k].name} = {p[k]:g}" for k in self.entering[body])
        where = f"inertia of {body!r} in {self.description.name!r} with {given}"
        outputs = {"mass": inertia.total, "moment": inertia.moment_at_center}
        mass, moment = trace_of("moments", {"p": self._p}, outputs).interpret(p)
        if mass < 0.0:
            raise ModelError(f"{where}: the mass must not be negative, got {mass:g}.")
        principal = np.linalg.eigvalsh(moment)
        if principal[0] < -RELATIVE_TOLERANCE * max(principal[-1], 0.0):
            raise ModelError(
                f"{where}: no moment may be negative, the principal ones are {np.array2string(principal, precision=6)}."
            )


def _signs(inertia: Moments) -> Array:
    """Numbers of which none is negative for a body: its mass, and the principal minors of its moments at the centre."""
    S = inertia.moment_at_center
    if not is_symbolic(S) or type(inertia).check_physical.__func__ is not Moments.check_physical.__func__:
        return vector(inertia.total)  # a class with a rule of its own asks for no more
    trace = S[0, 0] + S[1, 1] + S[2, 2]
    pairs = [S[i, i] * S[j, j] - S[i, j] ** 2 + ROUNDING * trace**2 for i, j in ((0, 1), (0, 2), (1, 2))]
    whole = (
        S[0, 0] * (S[1, 1] * S[2, 2] - S[1, 2] ** 2)
        - S[0, 1] * (S[0, 1] * S[2, 2] - S[1, 2] * S[0, 2])
        + S[0, 2] * (S[0, 1] * S[1, 2] - S[1, 1] * S[0, 2])
    )
    singles = [S[i, i] + ROUNDING * trace for i in range(3)]
    return concatenate(vector(inertia.total, *singles), vector(*pairs, whole + ROUNDING * trace**3))
