"""Accept array-likes of a given trailing shape and refuse everything else."""

from __future__ import annotations

from heavytop._arrays import Array, as_array, is_symbolic
from heavytop.errors import wrong_shape


def trailing(value: Array, shape: tuple[int, ...], what: str) -> Array:
    """The array ``value`` if its last axes are ``shape`` (leading batch axes allowed for numbers).

    >>> trailing((1, 2, 3), (3,), "axis")
    array([1., 2., 3.])
    """
    array = as_array(value)
    got = tuple(array.shape)
    if (got if is_symbolic(array) else got[-len(shape) :]) != shape:
        expected = shape if is_symbolic(array) else ("...", *shape)
        raise wrong_shape(what, expected, got)
    return array
