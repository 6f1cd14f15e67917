"""Linear algebra on symbols: solves that stay small, and fast scalars.

An operator of CasADi's Python class first determines the types of its operands, which takes eight times as long as the operation. A recursion
over a tree makes hundreds of operations per body, so it uses :class:`Scalar`, whose type is known.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._arrays import Array, Floats, depends_on, from_sx, is_symbolic, jacobian, shape, substitute, to_sx
from heavytop.errors import ModelError

if TYPE_CHECKING:
    import casadi

# CasADi's numbers of operations, fixed in its enumeration `casadi::Operation`
_ADD, _SUB, _MUL, _DIV = 1, 2, 3, 4
SINGULAR_MAP = "velocity(q, v) does not determine v: the map is singular (two new velocities depend on each other)."


class Scalar:
    """One CasADi scalar with the four operations; the other operand may be a number.

    Examples
    --------
    >>> import casadi
    >>> x = Scalar(casadi.SX.sym("x"))
    >>> (2.0 * x - x * 0.0 + 1.0).sx
    SX(((2.*x)+1))
    """

    __slots__ = ("_binary", "sx")

    def __init__(self, sx: casadi.SX) -> None:
        self.sx = sx
        self._binary = type(sx).binary

    def is_zero(self) -> bool:
        """Whether it is the number zero."""
        return self.sx.is_zero()

    def is_one(self) -> bool:
        """Whether it is the number one."""
        return self.sx.is_one()

    def __neg__(self) -> Scalar:
        return Scalar(-self.sx)

    def __add__(self, other: Any) -> Any:
        if type(other) is Scalar:
            return Scalar(self._binary(_ADD, self.sx, other.sx))
        return self if other == 0.0 else Scalar(self._binary(_ADD, self.sx, other))

    def __radd__(self, other: Any) -> Any:
        return self if other == 0.0 else Scalar(self._binary(_ADD, other, self.sx))

    def __sub__(self, other: Any) -> Any:
        if type(other) is Scalar:
            return Scalar(self._binary(_SUB, self.sx, other.sx))
        return self if other == 0.0 else Scalar(self._binary(_SUB, self.sx, other))

    def __rsub__(self, other: Any) -> Any:
        return Scalar(self._binary(_SUB, other, self.sx))

    def __mul__(self, other: Any) -> Any:
        if type(other) is Scalar:
            return Scalar(self._binary(_MUL, self.sx, other.sx))
        return NotImplemented if isinstance(other, np.ndarray) else self._times(other)

    def __rmul__(self, other: Any) -> Any:
        return self._times(other)

    def _times(self, number: float) -> Any:
        if number == 0.0:
            return 0.0
        return self if number == 1.0 else Scalar(self._binary(_MUL, number, self.sx))

    def __truediv__(self, other: Any) -> Any:
        return Scalar(self._binary(_DIV, self.sx, other.sx if type(other) is Scalar else other))

    def __rtruediv__(self, other: Any) -> Any:
        return Scalar(self._binary(_DIV, other, self.sx))


def scalars(x: Array) -> np.ndarray:
    """An array of numbers or symbols as an array of the same shape of single scalars.

    >>> scalars(np.eye(2))
    array([[1.0, 0.0],
           [0.0, 1.0]], dtype=object)
    """
    out = np.empty(x.shape, dtype=object)
    if is_symbolic(x):
        flat = to_sx(x)
        out.reshape(-1)[:] = [Scalar(flat[k]) for k in range(flat.shape[0])]
    else:
        out.reshape(-1)[:] = np.asarray(x, dtype=float).reshape(-1).tolist()
    return out


def from_scalars(x: np.ndarray) -> Array:
    """The symbolic array of an array of scalars and numbers.

    >>> from_scalars(np.array([1.0, 2.0], dtype=object)).shape
    (2,)
    """
    import casadi

    entries = [entry.sx if type(entry) is Scalar else casadi.SX(entry) for entry in x.reshape(-1)]
    return from_sx(casadi.vertcat(*entries), x.shape)


def symmetric(matrix: Array) -> Array:
    """Mirror the upper triangle, so that both halves share their expressions."""
    if not is_symbolic(matrix):
        return matrix
    import casadi

    return casadi.ArrayInterface(casadi.triu2symm(casadi.triu(casadi.SX(matrix.to_casadi()))), 2)


def solve_definite(matrix: Array, right: Array) -> Array:
    """x with matrix x = right, for a symmetric positive definite matrix (sparse LDL^T on symbols).

    ``right`` is a vector (n,) or a matrix (n, m).
    """
    if not is_symbolic(matrix, right):
        vector = np.ndim(right) == np.ndim(matrix) - 1
        x = np.linalg.solve(matrix, right[..., None] if vector else right)
        return x[..., 0] if vector else x
    import casadi

    if matrix.shape[0] == 1:
        return right / (matrix[0, 0])
    D, LT, permutation = casadi.ldl(casadi.sparsify(_sx(matrix)))
    is_vector = len(right.shape) == 1
    rhs = to_sx(right) if is_vector else casadi.densify(_sx(right))
    x = casadi.ldl_solve(rhs, D, LT, permutation)
    return casadi.ArrayInterface(x.T, 1) if is_vector else casadi.ArrayInterface(x, 2)


def half_solve(matrix: Array, right: Array) -> tuple[Array, Array]:
    """Y = L^-1 right and W = D^-1 Y (n, m) with matrix = L D L^T, so that right^T matrix^-1 right = Y^T W, without a solution.

    Of a symbolic symmetric positive definite matrix (n, n) and a symbolic right side (n, m).
    """
    import casadi

    D, LT, permutation = casadi.ldl(casadi.sparsify(_sx(matrix)))
    Y = casadi.densify(_sx(right))[permutation, :]
    for k in range(1, Y.shape[0]):
        Y[k, :] -= LT[:k, k].T @ Y[:k, :]
    W = casadi.repmat(1.0 / D, 1, Y.shape[1]) * Y
    return casadi.ArrayInterface(Y, 2), casadi.ArrayInterface(W, 2)


def inverse_definite(matrix: Array) -> Array:
    """The inverse of a symbolic symmetric positive definite matrix (n, n), by M = L^T D L from the last row on.

    For the mass matrix of a tree no entry that is zero becomes another number (Featherstone 2005).
    """
    n = shape(matrix)[0]
    W = scalars(matrix)
    L, Y, inverse = (np.zeros((n, n), dtype=object) for _ in range(3))
    pivots: list[Any] = [0.0] * n
    for k in reversed(range(n)):
        pivots[k] = 1.0 / W[k, k]
        for i in range(k):
            L[k, i] = W[k, i] * pivots[k]
        for i in range(k):
            for j in range(i + 1):
                W[i, j] = W[i, j] - L[k, i] * W[k, j]
    for j in range(n):
        for i in range(j + 1, n):
            Y[i, j] = -L[i, j] - L[i, j + 1 : i] @ Y[j + 1 : i, j]
        Y[j, j] = 1.0
    for i in range(n):
        weighted = [Y[i, k] * pivots[k] for k in range(i + 1)]
        for j in range(i, n):
            inverse[i, j] = inverse[j, i] = sum(w * Y[j, k] for k, w in enumerate(weighted))
    return from_scalars(inverse)


def product(A: Array, B: Array) -> Array:
    """A @ B of symbolic matrices (n, n), (n, m), whose entries are sums in the order of the columns of A."""
    return from_scalars(scalars(A) @ scalars(B))


def linear_part(expression: Array, variables: Array) -> Array | None:
    """The matrix W with expression = W variables for a symbolic vector that is linear in the variables, else None."""
    if not is_symbolic(expression):
        return None if np.any(expression) else np.zeros((shape(expression)[0], shape(variables)[0]))
    W = jacobian(expression, variables)
    at_zero = to_sx(substitute(expression, variables, np.zeros(shape(variables))))
    return W if at_zero.is_zero() and not depends_on(W, variables) else None


def inverse_of_map(matrix: Array) -> Array:
    """Inverse of a symbolic square matrix, accurate wherever the matrix is well conditioned.

    The matrix is permuted to block triangular form, which is solved by substitution: maps of velocities are mostly triangular up to permutation,
    and then only diagonal entries are divided by. Larger blocks are inverted as numbers or, if they hold symbols, by orthogonalisation: pivots
    chosen once would vanish at some states.
    """
    import casadi

    W = casadi.sparsify(_sx(matrix))
    n = W.shape[0]
    if casadi.sprank(W) < n:
        raise ModelError(SINGULAR_MAP)
    _, rows, columns, starts, _, _, _ = W.sparsity().btf()
    W, units = W[rows, columns], casadi.SX.eye(n)[rows, :]
    solved = casadi.SX(0, n)
    for start, stop in itertools.pairwise(starts):
        right = units[start:stop, :] - W[start:stop, :start] @ solved
        solved = casadi.vertcat(solved, casadi.sparsify(_solve_block(W[start:stop, start:stop], right)))
    inverse = casadi.SX(n, n)
    inverse[columns, :] = solved
    return casadi.ArrayInterface(casadi.sparsify(inverse), 2)


def _solve_block(block: Any, right: Any) -> Any:
    """block^-1 right of CasADi matrices, for an irreducible block."""
    import casadi

    if block.shape[0] == 1:
        return right if block.is_one() else right / block
    if block.is_constant():
        return casadi.SX(casadi.DM(np.linalg.inv(casadi.DM(block).full()))) @ right
    n = block.shape[0]
    A, triangle = casadi.horzcat(block, right), casadi.SX(n, n + right.shape[1])
    for k in range(n):
        # modified Gram-Schmidt on [W | right], backward stable without an orthogonal Q (Bjoerck 1967)
        size = casadi.sqrt(casadi.sumsqr(A[:, k]))
        unit = A[:, k] / size
        rest = casadi.sparsify(unit.T @ A[:, k + 1 :])
        A[:, k + 1 :] -= unit @ rest
        triangle[k, k], triangle[k, k + 1 :] = size, rest
    return casadi.solve(triangle[:, :n], triangle[:, n:])


def at_numbers(value: Array, pairs: Collection[tuple[Array, Any]]) -> Floats:
    """A possibly symbolic array with numbers in place of symbols; a ValueError names symbols that are left.

    >>> from heavytop._arrays import symbol
    >>> x = symbol("x", 2)
    >>> at_numbers(2.0 * x, [(x, np.array([1.0, 3.0]))])
    array([2., 6.])
    """
    if not is_symbolic(value):
        return np.asarray(value, dtype=float)
    import casadi

    symbols, numbers = zip(*((to_sx(s), casadi.DM(n)) for s, n in pairs), strict=True) if pairs else ((), ())
    function = casadi.Function("at_numbers", list(symbols), [casadi.densify(to_sx(value))], {"allow_free": True})
    if function.has_free():
        raise ValueError(", ".join(function.get_free()))
    return np.asarray(function.call(list(numbers))[0].full()).reshape(tuple(value.shape))


def _sx(x: Array):
    import casadi

    return casadi.SX(x.to_casadi()) if is_symbolic(x) else casadi.SX(casadi.DM(np.atleast_2d(x)))
