"""A kernel bound to fixed arrays: evaluated repeatedly without checking its arguments."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from heavytop.compile.jit import aligned
from heavytop.compile.kernel import Kernel
from heavytop.compile.native_function import CALL_BUDGET
from heavytop.errors import ShapeError, wrong_shape
from heavytop.functions import BoundHere


class Bound(BoundHere):
    """``outputs = kernel(*inputs)`` for fixed arrays; a call evaluates the present content of the inputs.

    Parameters
    ----------
    kernel : the function.
    inputs : (count, *shape) rows, or one row (*shape) for all. outputs : (count, *shape). Rows are contiguous float64, with any distance, so that
        they can be parts of larger arrays. Inputs and outputs must not overlap.

    Examples
    --------
    >>> from heavytop.compile import trace
    >>> kernel = Kernel(trace(lambda x: x * x, {"x": (3,)}, name="square"))
    >>> x, y = np.ones((5, 3)), np.zeros((5, 3))
    >>> square = Bound(kernel, [x], [y])
    >>> x[1] = 2.0
    >>> square()
    >>> y[1]
    array([4., 4., 4.])
    """

    def __init__(self, kernel: Kernel, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        signature = kernel.signature
        shapes = [*signature.inputs.items(), *signature.outputs.items()]
        arrays = [*inputs, *outputs]
        if len(inputs) != len(signature.inputs) or len(outputs) != len(signature.outputs):
            raise ShapeError(
                f"{signature.name} has {len(signature.inputs)} inputs and {len(signature.outputs)} outputs, got {len(inputs)} and "
                f"{len(outputs)} arrays."
            )
        self._kernel, self._inputs, self._outputs = kernel, list(inputs), list(outputs)
        count = len(outputs[0])
        words = np.zeros(2 + 2 * len(arrays), dtype=np.int64)
        for k, (array, (label, shape)) in enumerate(zip(arrays, shapes, strict=True)):
            common = k < len(inputs) and array.shape == shape
            if array.shape != ((count, *shape) if not common else shape):
                raise wrong_shape(f"{label} of {signature.name}", (count, *shape), array.shape)
            row = array if common or not count else array[0]
            if array.dtype != np.float64 or not row.flags.c_contiguous:
                raise ShapeError(
                    f"{label} of {signature.name} must be float64 with contiguous rows, got {array.dtype}."
                )
            words[2 + 2 * k], words[3 + 2 * k] = array.ctypes.data, 0 if common or count < 2 else array.strides[0]
        self._native = kernel.native and count * max(kernel.stats().instructions, 1) <= CALL_BUDGET
        if self._native and kernel._code is not None:
            self._scratch = aligned(max(kernel._code.meta["scratch"], 1) * kernel.lanes)
            words[0], words[1] = count, self._scratch.ctypes.data
            self._words, self._address, self._rows = words, words.ctypes.data, kernel._rows

    def __call__(self) -> None:
        if self._native:
            self._rows(self._address)
            return
        for place, result in zip(self._outputs, self._kernel(*self._inputs), strict=True):
            place[...] = result
