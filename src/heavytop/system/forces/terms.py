"""A force element at its port: energy, forces and inertia as expressions, derived where it does not define them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np

from heavytop._arrays import (
    Array,
    Floats,
    depends_on,
    is_symbolic,
    jacobian,
    shape,
    substitute,
    symbol,
    to_sx,
    transpose,
)
from heavytop.compile import on_symbols
from heavytop.errors import ModelError
from heavytop.system.dynamics.solve import linear_part
from heavytop.system.forces.base import ForceElement
from heavytop.system.forces.ports import Port
from heavytop.system.kinematics.kinematics import Kinematics

SAMPLES = 20
AGREEMENT = 1e-6
"""Largest relative difference between a method of an element and its derivation from the other methods."""


class ElementTerms:
    """Expressions of one element at its port; forces are conjugate to the port's velocity (n,), or None."""

    def __init__(self, element: ForceElement, kinematics: Kinematics) -> None:
        self.port: Port = element.port(kinematics)
        self.element = element.resolved(self.port)

    def gives(self, *pieces: str) -> bool:
        """Whether the element defines any of these methods."""
        return any(map(self.element.gives, pieces))

    @cached_property
    def energy(self) -> Array:
        """V."""
        return self._scalar("energy", self.port.configuration)

    def energy_depends_on(self, time: Array) -> bool:
        """Whether V depends on time explicitly, at a fixed configuration."""
        return self.gives("energy") and depends_on(self._scalar("energy", self.port.view(self._x)), time)

    @cached_property
    def stiffness(self) -> Array | None:
        """Gradient (n,) of V along the velocities."""
        if not self.gives("energy"):
            return None
        if self.gives("energy_gradient"):
            return self._vector("energy_gradient", self.port.configuration)
        return self._inserted(self._derived_gradient)

    @cached_property
    def resistance(self) -> Array | None:
        """Resisting force (n,)."""
        if self.gives("resistance"):
            return self._vector("resistance", self.port.configuration, self.port.velocity)
        return self._inserted(self._derived_resistance) if self.gives("dissipation") else None

    @cached_property
    def damping(self) -> Array | None:
        """Matrix (n, n) of the linear part of the resistance."""
        if self.gives("damping"):
            return self._matrix("damping", self.port.configuration)
        if not self.gives("resistance", "dissipation"):
            return None
        matrix = linear_part(self._probed_resistance, self._w)
        return None if matrix is None else self._inserted(matrix)

    @cached_property
    def has_symmetric_damping(self) -> bool:
        """Whether the damping matrix is symmetric; with gyroscopic resistance it is not."""
        return self.damping is None or not self.gives("resistance", "damping") or _is_symmetric(self.damping)

    @cached_property
    def nonlinear_resistance(self) -> Array | None:
        """The resistance (n,) beyond the damping matrix."""
        if self.resistance is None or linear_part(self._probed_resistance, self._w) is not None:
            return None
        linear = 0.0 if self.damping is None else np.matvec(self.damping, self.port.velocity)
        return self.resistance - linear

    def secant(self, direction: Array) -> Array | None:
        """Secant of friction times a velocity (n,)."""
        if not self.gives("secant"):
            return None
        return np.matvec(self._matrix("secant", self.port.configuration, self.port.velocity), direction)

    @cached_property
    def applied(self) -> Array | None:
        """Force (n,) whose power is supplied: the total force without those of the energy and the resistance."""
        if not self.gives("force") or self.gives("resistance", "dissipation"):
            return None
        total = self._vector("force", self.port.configuration, self.port.velocity)
        return total if self.stiffness is None else total + self.stiffness

    @cached_property
    def exerted(self) -> Array | None:
        """Total force (n,) of the element, without its inertia."""
        parts = [-part for part in (self.resistance, self.stiffness) if part is not None]
        parts += [] if self.applied is None else [self.applied]
        return sum(parts[1:], parts[0]) if parts else None

    @cached_property
    def inertia(self) -> Array | None:
        """Constant matrix (n, n)."""
        if not self.gives("inertia"):
            return None
        value = self._matrix("inertia")
        if not hasattr(self.port, "ad"):
            raise ModelError(f"{self.element.title} defines inertia(), which only elements in joints can have.")
        if not _is_symmetric(value):
            raise ModelError(f"inertia() of {self.element.title} must be a symmetric matrix.")
        return value

    # --- derivation -------------------------------------------------------------------------------------------------------------

    @cached_property
    def _x(self) -> Array:
        return self.port.probe()

    @cached_property
    def _w(self) -> Array:
        """The velocity, or symbols in its place where it is an expression."""
        velocity = self.port.velocity
        return velocity if _is_plain(velocity) else symbol("w", self.port.size)

    def _inserted(self, expression: Array) -> Array:
        """An expression of the probes at the actual configuration and velocity."""
        if self._x is not self.port.flat:
            expression = substitute(expression, self._x, self.port.flat)
        return expression if self._w is self.port.velocity else substitute(expression, self._w, self.port.velocity)

    @cached_property
    def _derived_gradient(self) -> Array:
        """A^T dV/dx (n,) at the probe."""
        V = self._scalar("energy", self.port.view(self._x))
        if not is_symbolic(V):
            return np.zeros(self.port.size)
        slope = jacobian(np.reshape(V, (1,)), self._x)[0, :]
        return np.matvec(transpose(self.port.kinematics_matrix(self._x)), slope)

    @cached_property
    def _derived_resistance(self) -> Array:
        """dR/dw (n,) at the probes."""
        R = self._scalar("dissipation", self.port.view(self._x), self._w)
        return jacobian(np.reshape(R, (1,)), self._w)[0, :] if is_symbolic(R) else np.zeros(self.port.size)

    @cached_property
    def _probed_resistance(self) -> Array:
        if self.gives("resistance"):
            return self._vector("resistance", self.port.view(self._x), self._w)
        return self._derived_resistance

    # --- calls of the element ---------------------------------------------------------------------------------------------------

    def _call(self, piece: str, *arguments: Array) -> Any:
        what = (
            f"{piece} of {self.element.title}" if type(self.element).kind is ForceElement.kind else self.element.title
        )
        value = on_symbols(getattr(self.element, piece), what)(*arguments)
        if value is None:
            raise ModelError(f"{what} must return numbers, got None. Does it lack a return?")
        return value

    def _shaped(
        self, piece: str, arguments: tuple[Array, ...], shapes: tuple[tuple[int, ...], ...], noun: str
    ) -> Array:
        value = self._call(piece, *arguments)
        if shape(value) not in shapes:
            raise ModelError(f"{self.element.name_of(piece)} must return {noun}, got an array of shape {shape(value)}.")
        return value

    def _scalar(self, piece: str, *arguments: Array) -> Array:
        value = self._shaped(piece, arguments, ((), (1,)), "one number (an energy or power)")
        return np.reshape(value, ()) if shape(value) else value

    def _vector(self, piece: str, *arguments: Array) -> Array:
        n = self.port.size
        return self._shaped(piece, arguments, ((n,),), f"{n} {self.port.forces}")

    def _matrix(self, piece: str, *arguments: Array) -> Array:
        n = self.port.size
        return self._shaped(piece, arguments, ((n, n),), f"a matrix of shape {(n, n)}")

    def checked_pieces(self) -> list[tuple[str, Array]]:
        """All expressions of the element, by the method that defines them."""
        pieces = {
            "energy": self.energy,
            "energy_gradient": self.stiffness,
            "resistance" if self.gives("resistance") else "dissipation": self.resistance,
            "damping": self.damping,
            "force": self.applied,
            "inertia": self.inertia,
        }
        return [(piece, value) for piece, value in pieces.items() if value is not None]

    # --- verification -----------------------------------------------------------------------------------------------------------

    def verify(self, p: Array, values: Floats) -> None:
        """Raise a ModelError when the element contradicts itself at random states; ``values`` are those of the parameters ``p``."""
        for name, given, meaning, expected in self._given_twice():
            self._compare(name, given, meaning, expected, p, values)

    def _given_twice(self) -> Iterator[tuple[str, Array, str, Array]]:
        """(method, its result, meaning, result derived from other methods); a force without a resistance is compared at rest only."""
        x, w, n = self.port.view(self._x), self._w, self.port.size
        if self.gives("energy_gradient"):
            given = self._vector("energy_gradient", x)
            yield "energy_gradient(x)", given, "the gradient of its energy(x)", self._derived_gradient
        if self.gives("resistance") and self.gives("dissipation"):
            given = self._vector("resistance", x, w)
            yield "resistance(x, w)", given, "dR/dw of its dissipation(x, w)", self._derived_resistance
        if self.gives("damping") and (matrix := linear_part(self._probed_resistance, w)) is not None:
            yield "damping(x)", self._matrix("damping", x), "the slope of its resistance", matrix
        if not self.gives("force"):
            return
        expected = -self._derived_gradient if self.gives("energy") else np.zeros(n)
        if self.gives("resistance", "dissipation"):
            given, meaning = self._vector("force", x, w), "minus the gradient of its energy and minus its resistance"
            yield "force(x, w)", given, meaning, expected - self._probed_resistance
        elif self.gives("energy"):
            given = self._vector("force", x, np.zeros(n))
            yield "force(x, 0) at rest", given, "minus the gradient of its energy(x)", expected

    def _compare(self, name: str, given: Array, meaning: str, expected: Array, p: Array, values: Floats) -> None:
        import casadi

        n = self.port.size
        w = self._w if _is_plain(self._w) else symbol("w", n)
        function = casadi.Function(
            "compare", [to_sx(self._x), to_sx(w), to_sx(p)], [to_sx(given), to_sx(expected)], {"allow_free": True}
        )
        if function.has_free():
            return  # foreign symbols are reported elsewhere
        rng, nearby = np.random.default_rng(0), np.random.default_rng(1)
        for number, x in enumerate(self.port.samples(rng, SAMPLES)):
            # every other one near the default values: a coefficient that is zero by default hides its factor
            moved = number % 2 == 1
            near = nearby.uniform(0.1, 0.2, values.shape) * np.maximum(np.abs(values), 1.0) if moved else 0.0
            results = function.call([x, rng.standard_normal(n), values + near])
            a, b = (np.asarray(result.full()).reshape(-1) for result in results)
            finite = np.all(np.isfinite(a)), np.all(np.isfinite(b))
            if not any(finite) or (moved and not all(finite)):
                continue
            if not np.max(np.abs(a - b)) <= AGREEMENT * (1e-3 + np.max(np.abs(a)) + np.max(np.abs(b))):
                raise ModelError(
                    f"{self.element.title} contradicts itself: {name} should be {meaning}, but at a random state it is "
                    f"{np.array2string(a, precision=4)} instead of {np.array2string(b, precision=4)}. Leave {name.split('(')[0]} out "
                    "to have it derived, or correct one of the two."
                )


def _is_symmetric(matrix: Array) -> bool:
    """Whether a matrix equals its transpose, up to rounding if it holds symbols."""
    if not is_symbolic(matrix):
        return bool(np.allclose(matrix, np.transpose(matrix), rtol=1e-9, atol=0.0))
    import casadi

    skew = to_sx(matrix) - to_sx(transpose(matrix))
    symbols = casadi.symvar(to_sx(matrix))
    rng = np.random.default_rng(0)
    function = casadi.Function("skew", symbols, [skew, to_sx(matrix)])
    for _ in range(3):
        left, all_ = (np.abs(x.full()) for x in function.call([float(x) for x in rng.uniform(0.5, 1.5, len(symbols))]))
        if np.all(np.isfinite(all_)) and np.max(left) > 1e-9 * np.max(all_):
            return False
    return True


def _is_plain(value: Array) -> bool:
    """Whether an array consists of symbols only, so that one can differentiate with respect to it."""
    return is_symbolic(value) and bool(to_sx(value).is_valid_input())
