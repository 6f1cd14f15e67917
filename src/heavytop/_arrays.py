"""Array helpers that let one formula run on numbers and on symbols.

Numbers are NumPy arrays with any leading batch axes. Symbols are ``casadi.ArrayInterface`` values over ``SX``: they follow
NumPy for zero to two axes (ufuncs, ``@``, ``np.matvec``, ``np.vecdot``, ``np.cross``, ``np.stack``, ...) but support neither
``...`` in an index nor broadcasting of batch axes. Everything in ``geometry``, ``coordinates`` and ``system``
is written with NumPy and these helpers, so the same line computes a number, traces a program and yields a derivative.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from itertools import accumulate, pairwise
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from heavytop.errors import ShapeError, wrong_shape

if TYPE_CHECKING:
    import casadi

Array: TypeAlias = Any
"""A float array with leading batch axes, or a symbolic array of the same trailing shape. Any, since CasADi's arrays have no type."""

Floats: TypeAlias = NDArray[np.float64]
"""Numbers, never symbols; the docstring says the shape."""

Flags: TypeAlias = NDArray[np.bool_]
"""Truth values, one for each entry of a batch."""

Numbers: TypeAlias = ArrayLike
"""Input that becomes :data:`Floats`: numbers, sequences of numbers, arrays."""

if TYPE_CHECKING:
    Seed: TypeAlias = np.random.Generator | int | None
    """Source of random numbers: a generator, a seed, or None for new ones every time."""
else:
    Seed = Any  # numpy.random is imported where it is used


def is_symbolic(*values: object) -> bool:
    """Whether any value is a CasADi symbolic array (without importing CasADi)."""
    for value in values:  # noqa: SIM110 (a generator would cost as much as all the checks)
        if type(value) is not np.ndarray and _is_symbol(value):
            return True
    return False


def _is_symbol(value: object) -> bool:
    return hasattr(value, "to_casadi") or type(value).__module__ == "casadi.casadi"


def as_array(value: Any, what: str = "a value") -> Array:
    """A new array of numbers, symbols or nested sequences of both; ``what`` names them in errors.

    >>> as_array((1, 2, 3))
    array([1., 2., 3.])
    """
    if is_symbolic(value):
        return value
    if isinstance(value, (list, tuple)) and _holds_symbols(value):
        return np.stack([as_array(item, what) for item in value], axis=0)
    return numbers(value, what).copy()


def constant(value: Any, what: str = "a value") -> Array:
    """As :func:`as_array`, but read-only: a constant of a description, which cannot change after equations were derived from it.

    >>> constant((1, 2, 3))[0] = 5.0
    Traceback (most recent call last):
    ValueError: assignment destination is read-only
    """
    array = as_array(value, what)
    if is_symbolic(array):
        return _read_only_symbols()(array) if hasattr(array, "to_casadi") else array
    array.setflags(write=False)
    return array


@cache
def _read_only_symbols() -> type:
    import casadi

    class ReadOnlySymbols(casadi.ArrayInterfaceSX):
        """Expressions whose entries cannot be replaced; results computed from them are ordinary arrays."""

        def __setitem__(self, index: Any, value: Any) -> None:
            raise ValueError("assignment destination is read-only")

    return ReadOnlySymbols


def freeze_fields(instance: Any) -> None:
    """Replace the arrays, symbols and lists in the fields of a frozen dataclass by constants."""
    for item in fields(instance):
        value = getattr(instance, item.name)
        if isinstance(value, np.ndarray | list) or is_symbolic(value):
            object.__setattr__(instance, item.name, constant(value, item.name))


def numbers(value: Any, what: str = "a value") -> np.ndarray:
    """Real numbers as a float array; a ShapeError that names ``what`` for text, ragged lists and complex numbers."""
    if isinstance(value, np.ndarray) and value.dtype == np.float64:
        return value
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "fiub":
            raise TypeError
        return array.astype(float)
    except (TypeError, ValueError):
        from heavytop._format import shortened

        hint = " Give the numbers in their order, without names." if isinstance(value, Mapping) else ""
        raise ShapeError(
            f"{what} must be real numbers in a regular array, got {shortened(repr(value))}.{hint}"
        ) from None


def trailing(value: Array, shape: tuple[int, ...], what: str) -> Array:
    """The array ``value`` if its last axes are ``shape`` (numbers may have leading batch axes); else a ShapeError.

    >>> trailing((1, 2, 3), (3,), "axis")
    array([1., 2., 3.])
    """
    array = as_array(value)
    got = tuple(array.shape)
    if (got if is_symbolic(array) else got[-len(shape) :]) != shape:
        raise wrong_shape(what, shape if is_symbolic(array) else ("...", *shape), got)
    return array


def is_finite(array: np.ndarray) -> bool:
    """Whether all entries are finite; for short vectors several times faster than ``np.isfinite(array).all()``.

    >>> is_finite(np.array([1.0, 2.0])), is_finite(np.array([1.0, np.nan])), is_finite(np.array([1e308, 1e308]))
    (True, False, True)
    """
    return (array.ndim == 1 and array.size < 64 and isfinite(sum(array.tolist()))) or bool(np.isfinite(array).all())


def finite_matrix(value: Any, what: str) -> np.ndarray:
    """Finite real numbers (..., m, n), as LAPACK does not terminate for infinities."""
    array = numbers(value, what)
    if array.ndim < 2:
        raise wrong_shape(what, ("...", "m", "n"), array.shape)
    if not np.all(np.isfinite(array)):
        raise ShapeError(f"{what} must be finite, got NaN or infinity among its entries.")
    return array


def _holds_symbols(value: Iterable[Any]) -> bool:
    return any(_holds_symbols(item) if isinstance(item, (list, tuple)) else is_symbolic(item) for item in value)


def components(x: Array) -> tuple[Array, ...]:
    """Entries along the last axis of ``x`` (..., n): a tuple of n arrays (...)."""
    if is_symbolic(x):
        return tuple(iter(x))
    x = np.asarray(x, dtype=float)
    return tuple(x if x.ndim == 1 else np.moveaxis(x, -1, 0))


def entry(x: Array, first: int, *rest: int) -> Array:
    """The entry ``x[..., i]`` or ``x[..., i, j]``."""
    if is_symbolic(x):
        return x[(first, *rest)] if rest else x[first]
    return x[(..., first, *rest)]


def column(matrix: Array, j: int) -> Array:
    """Column ``j`` of ``matrix`` (..., m, n): shape (..., m)."""
    return matrix[:, j] if is_symbolic(matrix) else matrix[..., :, j]


def part(x: Array, start: int, stop: int) -> Array:
    """The slice ``x[..., start:stop]`` of a vector."""
    return x[start:stop] if is_symbolic(x) else x[..., start:stop]


def submatrix(matrix: Array, rows: slice, columns: slice) -> Array:
    """The block ``matrix[..., rows, columns]``."""
    return matrix[rows, columns] if is_symbolic(matrix) else matrix[..., rows, columns]


def split(x: Array, sizes: Sequence[int]) -> tuple[Array, ...]:
    """Cut the last axis of ``x`` into consecutive parts of the given sizes."""
    bounds = list(pairwise(accumulate(sizes, initial=0)))
    if is_symbolic(x):
        return tuple(x[start:stop] for start, stop in bounds)
    return tuple([x[..., start:stop] for start, stop in bounds])


def vector(*entries: Array) -> Array:
    """Stack scalars (...) into a vector (..., n); numbers and symbols may be mixed.

    >>> vector(1.0, 2.0)
    array([1., 2.])
    """
    if all(isinstance(e, float) for e in entries):  # NumPy's scalars as well
        return np.array(entries)
    if is_symbolic(*entries):
        return np.stack(entries, axis=-1)
    return np.stack(np.broadcast_arrays(*(np.asarray(e, dtype=float) for e in entries)), axis=-1)


def matrix(rows: Sequence[Sequence[Array]]) -> Array:
    """Build a matrix (..., m, n) from rows of scalars (...).

    >>> matrix([[1.0, 0.0], [0.0, 1.0]])
    array([[1., 0.],
           [0., 1.]])
    """
    flat = vector(*(e for row in rows for e in row)) if len(rows) else np.zeros(0)
    shape = (len(rows), len(rows[0]) if len(rows) else 0)
    if any(len(row) != shape[1] for row in rows):
        raise ShapeError(f"the rows of a matrix must be equally long, got {[len(row) for row in rows]}.")
    return np.reshape(flat, shape) if is_symbolic(flat) else flat.reshape(flat.shape[:-1] + shape)


def concatenate(*parts: Array) -> Array:
    """Join vectors (..., n_k) along the last axis, broadcasting their batch axes."""
    if is_symbolic(*parts):
        return np.concatenate(parts, axis=-1)
    arrays = [np.asarray(p, dtype=float) for p in parts]
    batch = np.broadcast_shapes(*(a.shape[:-1] for a in arrays))
    return np.concatenate([np.broadcast_to(a, batch + a.shape[-1:]) for a in arrays], axis=-1)


def block(rows: Sequence[Sequence[Array]]) -> Array:
    """Join matrices (..., m_i, n_j) into a block matrix, broadcasting their batch axes."""
    if any(is_symbolic(*row) for row in rows):
        return np.concatenate([np.concatenate(row, axis=1) for row in rows], axis=0)
    arrays = [[np.asarray(m, dtype=float) for m in row] for row in rows]
    batch = np.broadcast_shapes(*(m.shape[:-2] for row in arrays for m in row))
    return np.concatenate(
        [np.concatenate([np.broadcast_to(m, batch + m.shape[-2:]) for m in row], axis=-1) for row in arrays], axis=-2
    )


def from_columns(*columns: Array) -> Array:
    """Matrix (..., m, n) whose columns are the given vectors (..., m)."""
    if is_symbolic(*columns):
        return np.stack(columns, axis=-1)
    return np.stack(np.broadcast_arrays(*(np.asarray(c, dtype=float) for c in columns)), axis=-1)


def transpose(matrix: Array) -> Array:
    """Swap the last two axes."""
    return np.swapaxes(matrix, -1, -2)


def scale(factor: Array, x: Array, axes: int) -> Array:
    """Multiply a scalar field ``factor`` (...) with ``x`` that has ``axes`` trailing axes (1: vector, 2: matrix)."""
    if is_symbolic(factor, x):
        return factor * x
    return np.asarray(factor, dtype=float)[(...,) + (None,) * axes] * x


def flatten_columns(matrix: Array) -> Array:
    """Matrix (..., m, n) to vector (..., m n), column after column (eq. 3.51, erratum 0.3)."""
    shape = matrix.shape
    flat = transpose(matrix)
    if is_symbolic(matrix):
        return np.reshape(flat, (shape[0] * shape[1],))
    return flat.reshape((*shape[:-2], shape[-1] * shape[-2]))


def unflatten_columns(x: Array, rows: int) -> Array:
    """Vector (..., m n) to matrix (..., m, n): the inverse of :func:`flatten_columns` for ``rows`` = m."""
    if is_symbolic(x):
        return transpose(np.reshape(x, (x.shape[0] // rows, rows)))
    return transpose(x.reshape((*x.shape[:-1], x.shape[-1] // rows, rows)))


def symbol(name: str, size: int | None = None) -> Array:
    """A symbolic vector of ``size`` entries, or a symbolic scalar when ``size`` is None."""
    import casadi

    sx = casadi.SX.sym(name, 1, 1 if size is None else size)
    return casadi.ArrayInterface(sx, 0 if size is None else 1)


def to_sx(x: Array) -> casadi.SX:
    """The CasADi expression behind ``x``, flattened row by row into a dense column."""
    import casadi

    if not is_symbolic(x):
        return casadi.SX(casadi.DM(np.asarray(x, dtype=float).reshape(-1)))
    value = x.to_casadi() if hasattr(x, "to_casadi") else x
    return casadi.densify(casadi.vec(casadi.SX(value).T))


def from_sx(sx: casadi.SX, shape: tuple[int, ...]) -> Array:
    """The symbolic array of the given shape from a CasADi column that lists it row by row."""
    import casadi

    return np.reshape(casadi.ArrayInterface(sx.T, 1), shape) if shape else casadi.ArrayInterface(sx, 0)


def jacobian(expression: Array, variables: Array) -> Array:
    """Exact derivative (m, n) of a symbolic vector (m,) by a symbolic vector (n,)."""
    import casadi

    return casadi.ArrayInterface(casadi.jacobian(to_sx(expression), to_sx(variables)), 2)


def directional(expression: Array, variables: Array, direction: Array) -> Array:
    """Exact derivative of a symbolic array of any shape along ``direction``; same shape as ``expression``."""
    import casadi

    derivative = casadi.jtimes(to_sx(expression), to_sx(variables), to_sx(direction))
    return from_sx(derivative, tuple(expression.shape))


def sparse(matrix: Array) -> Array:
    """A symbolic matrix with structural zeros, which products skip. Numbers become symbols."""
    import casadi

    value = matrix.to_casadi() if is_symbolic(matrix) else casadi.DM(np.asarray(matrix, dtype=float))
    return casadi.ArrayInterface(casadi.sparsify(casadi.SX(value)), 2)


def depends_on(expression: Array, variables: Array) -> bool:
    """Whether a symbolic array depends on any of the symbolic ``variables``."""
    import casadi

    return is_symbolic(expression) and casadi.depends_on(to_sx(expression), to_sx(variables))


def substitute(expression: Array, variables: Array, values: Array) -> Array:
    """A symbolic array with the symbolic ``variables`` replaced by ``values``."""
    import casadi

    if not is_symbolic(expression):
        return expression
    return from_sx(casadi.substitute(to_sx(expression), to_sx(variables), to_sx(values)), tuple(expression.shape))


def shape(x: Array) -> tuple[int, ...]:
    """Shape of numbers or symbols (``np.shape`` takes a symbolic vector as a row matrix)."""
    return tuple(x.shape) if hasattr(x, "shape") else np.shape(x)
