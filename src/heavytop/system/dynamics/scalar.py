"""Fast symbolic scalars.

An operator of CasADi's Python class first determines the types of its operands, which takes eight times as long as the operation. A recursion
over a tree makes hundreds of operations per body, so it uses these scalars, whose type is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._arrays import Array, from_sx, is_symbolic, to_sx

if TYPE_CHECKING:
    import casadi

# CasADi's numbers of operations, fixed in its enumeration `casadi::Operation`
_ADD, _SUB, _MUL, _DIV = 1, 2, 3, 4


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
