"""Common parts of the formalisms: energies as Python functions, traced once and differentiated exactly.

Energies, forces and positions are written in NumPy notation, with or without the time as their last argument. A formalism traces
them once and returns an :class:`Evaluator`: a function of numbers with leading batch axes, or of symbols, so that another
formalism can use it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from heavytop._arrays import Array, as_array, directional, is_symbolic, jacobian, to_sx, transpose
from heavytop.compile import Traced, trace
from heavytop.coordinates import Coordinates
from heavytop.errors import ConfigurationError, ModelError, wrong_shape

Function = Callable[..., Array]
"""A function in NumPy notation, with or without the time as its last argument."""

TIME = "t"


class Evaluator:
    """A traced function of named arrays; the last argument is the time and may be omitted (zero).

    Numbers may have leading batch axes, which broadcast. Symbolic arguments give symbolic results.

    Examples
    --------
    >>> kinetic = Evaluator(lambda v, t: 0.5 * np.vecdot(v, v), {"v": (2,), "t": ()})
    >>> float(kinetic([3.0, 4.0]))
    12.5
    """

    takes_time = True

    def __init__(self, function: Function, inputs: Mapping[str, tuple[int, ...]], name: str = "function") -> None:
        self.traced: Traced = trace(function, inputs, name=name)

    @property
    def inputs(self) -> dict[str, tuple[int, ...]]:
        """Names and trailing shapes of the arguments."""
        return self.traced.inputs

    def __call__(self, *arguments: Array) -> Any:
        """Return one array, or a tuple of arrays if the function has several outputs."""
        names = list(self.inputs)
        if len(arguments) == len(names) - 1 and names[-1] == TIME:
            arguments = (*arguments, 0.0)
        results = self.traced(*arguments)
        return results[0] if len(results) == 1 else results

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.traced.name}({', '.join(self.inputs)}))"


class Acceleration(Evaluator):
    """The solution ``a`` of ``M a = f``; the traced function returns ``(M, f)``.

    With numbers the linear system is solved numerically, so that large systems need no symbolic elimination.
    """

    def system(self, *arguments: Array) -> tuple[Array, Array]:
        """``M`` (..., n, n) and ``f`` (..., n)."""
        matrix, force = super().__call__(*arguments)
        return matrix, force

    def __call__(self, *arguments: Array) -> Array:
        """The acceleration (..., n)."""
        return solve(*self.system(*arguments), what=f"the mass matrix of {self.traced.name}")


def solve(matrix: Array, right: Array, what: str = "the matrix") -> Array:
    """``matrix^-1 right`` for a vector ``right`` (..., n): numbers or symbols.

    Raises
    ------
    ConfigurationError
        The matrix is singular at a numeric argument.
    """
    if is_symbolic(matrix, right):
        return np.linalg.solve(matrix, right)
    try:
        solution = np.linalg.solve(matrix, right[..., None])[..., 0]
    except np.linalg.LinAlgError:
        solution = np.full_like(right, np.nan)
    if not np.all(np.isfinite(solution)):
        raise ConfigurationError(
            f"{what} is singular or not finite there. Some velocity moves no mass, or the coordinates are at a singularity: "
            "choose other coordinates or another configuration."
        )
    return solution


def timed(function: Function | None, count: int, what: str) -> Function:
    """The function with the time as additional last argument, which is dropped if the function does not take it; None gives zero.

    Arguments with defaults do not count, so ``lambda q, v, m=2.0: ...`` is a function of two arguments.
    """
    if function is None:
        return lambda *arguments: 0.0
    if getattr(function, "takes_time", False):
        return function
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return function
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return function
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = sum(p.default is p.empty for p in positional)
    if required == count + 1:
        return function
    if required <= count <= len(positional):
        return lambda *arguments: function(*arguments[:count])
    raise ModelError(
        f"{what} must be a function of {count} arguments, or {count + 1} with the time as the last, "
        f"got one that requires {required}."
    )


def shapes(coordinates: Coordinates, names: str) -> dict[str, tuple[int, ...]]:
    """Shapes of the named arguments: q (nq,), t a number, everything else (nv,).

    >>> from heavytop.coordinates import Circle
    >>> shapes(Circle(), "q v t")
    {'q': (2,), 'v': (1,), 't': ()}
    """
    sizes: dict[str, tuple[int, ...]] = {"q": (coordinates.nq,), TIME: ()}
    return {name: sizes.get(name, (coordinates.nv,)) for name in names.split()}


# --- derivatives of symbols -----------------------------------------------------------------------------------------------------


def scalar_function(function: Function | None, count: int, what: str) -> Function:
    """:func:`timed`, with the scalar value as a vector of one entry, ready for differentiation."""
    value = timed(function, count, what)

    def scalar(*arguments: Array) -> Array:
        array = as_array(value(*arguments))
        if tuple(array.shape) not in ((), (1,)):
            raise ModelError(f"{what} must be a scalar, got an array of shape {tuple(array.shape)}.")
        return np.reshape(array, (1,))

    return scalar


def gradient(value: Array, variables: Array) -> Array:
    """``d value / d variables`` (n,) of a symbolic scalar of shape () or (1,)."""
    return jacobian(np.reshape(as_array(value), (1,)), variables)[0, :]


def slope(coordinates: Coordinates, value: Array, q: Array) -> Array:
    """The directional derivatives ``d_i value`` (nv,) of a symbolic scalar (eq. 2.13)."""
    return np.matvec(transpose(as_array(coordinates.kinematics_matrix(q))), gradient(value, q))


def time_derivative(value: Array, t: Array) -> Array:
    """The partial derivative with respect to time of a symbolic array."""
    value = as_array(value)
    return directional(value, t, 1.0) if is_symbolic(value) else np.zeros(value.shape)


def along(value: Array, variables: Array, direction: Array) -> Array:
    """The derivative of an array along ``direction``; zero for numbers."""
    value = as_array(value)
    return directional(value, variables, direction) if is_symbolic(value) else np.zeros(value.shape)


def weighted_points(weights: Array, points: Array, what: str) -> tuple[np.ndarray, np.ndarray]:
    """Weights (n,) and points (n, 3) as arrays; ``what`` the points are, for errors."""
    w, h = np.asarray(weights, dtype=float), np.asarray(points, dtype=float)
    if h.shape != (len(w), 3):
        raise wrong_shape(what, (len(w), 3), h.shape)
    return w, h


def vector_of(value: Any, size: int, what: str) -> Array:
    """A vector of ``size`` entries; the number zero denotes the zero vector."""
    array = as_array(value)
    if not is_symbolic(array) and array.shape == () and array == 0:
        return np.zeros(size)
    if tuple(array.shape) != (size,):
        raise ModelError(f"{what} must be a vector of {size} entries, got shape {tuple(array.shape)}.")
    return array


def applied(coordinates: Coordinates, force: Function | None, dissipation: Function | None) -> Function:
    """The generalised force ``f^E - f^D`` of (q, v, t), with ``f^D = dR/dv`` of a dissipation function (erratum 0.25)."""
    external = timed(force, 2, "a force")
    rayleigh = scalar_function(dissipation, 2, "a dissipation function")

    def total(q: Array, v: Array, t: Array) -> Array:
        given = vector_of(external(q, v, t), coordinates.nv, "a generalised force")
        if dissipation is None:
            return given
        return given - gradient(rayleigh(q, v, t), v)

    return total


def potential_force(coordinates: Coordinates, potential: Function | None) -> Function:
    """``f^V_i = d_i V`` as a symbolic function of (q, t) (erratum 0.25)."""
    energy = scalar_function(potential, 1, "a potential energy")
    return lambda q, t: slope(coordinates, energy(q, t), q)


def acceleration_of(
    name: str,
    coordinates: Coordinates,
    inertia: Callable[[Array, Array, Array], tuple[Array, Array]],
    potential: Function | None,
    force: Function | None,
    dissipation: Function | None,
) -> Acceleration:
    """The acceleration ``a(q, v, t)`` of ``M a + h + d_i V + dR/dv = f^E``; ``inertia(q, v, t)`` returns ``(M, h)``."""
    derivative, applied_force = potential_force(coordinates, potential), applied(coordinates, force, dissipation)

    def system(q: Array, v: Array, t: Array) -> tuple[Array, Array]:
        mass, rest = inertia(q, v, t)
        total = applied_force(q, v, t)
        if potential is not None:
            total = total - derivative(q, t)
        return mass, total - rest

    return Acceleration(system, shapes(coordinates, "q v t"), name)


def gyroscopic(coordinates: Coordinates, q: Array, v: Array, momentum: Array) -> Array:
    """``gamma^k_ij v^j p_k`` (nv,): the term that commutation coefficients add to Euler-Lagrange (eq. 2.31b). Symbols."""
    total: Array = np.zeros(coordinates.nv)
    for k, gamma in enumerate(coordinates.commutation(q)):
        total = total + momentum[k] * np.matvec(gamma, v)
    return total


def lagrangian(kinetic: Function, potential: Function | None = None) -> Function:
    """``L = T(q, v, t) - V(q, t)`` as a function of (q, v, t).

    >>> L = lagrangian(lambda q, v: 0.5 * v[0] ** 2, lambda q: 9.81 * q[0])
    >>> float(L(np.array([1.0]), np.array([2.0]), 0.0))
    -7.8100000000000005
    """
    t_energy, v_energy = timed(kinetic, 2, "a kinetic energy"), timed(potential, 1, "a potential energy")
    return lambda q, v, t: t_energy(q, v, t) - v_energy(q, t)


def is_constant_in(expression: Array, variables: Array) -> bool:
    """Whether a symbolic expression does not depend on the symbolic variables."""
    if not is_symbolic(expression):
        return True
    import casadi

    return not casadi.depends_on(casadi.simplify(to_sx(expression)), to_sx(variables))
