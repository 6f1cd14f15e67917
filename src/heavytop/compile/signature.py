"""Names and trailing shapes of the inputs and outputs of a function of arrays, and their broadcasting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from heavytop._arrays import Array, numbers
from heavytop.errors import ShapeError, wrong_shape

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Signature:
    """Inputs and outputs of a compiled function.

    Attributes
    ----------
    inputs, outputs : name -> trailing shape, in order. Leading axes of the arguments are batch axes.

    Examples
    --------
    >>> s = Signature("f", {"R": (3, 3), "x": (3,)}, {"y": (3,)})
    >>> s.batch([np.zeros((5, 1, 3, 3)), np.zeros((4, 3))])
    (5, 4)
    """

    name: str
    inputs: dict[str, Shape]
    outputs: dict[str, Shape]

    @cached_property
    def input_sizes(self) -> tuple[int, ...]:
        """Number of scalars of each input."""
        return tuple(prod(shape) for shape in self.inputs.values())

    @cached_property
    def output_sizes(self) -> tuple[int, ...]:
        """Number of scalars of each output."""
        return tuple(prod(shape) for shape in self.outputs.values())

    def check_count(self, arguments: Sequence[Array]) -> None:
        """Raise a ShapeError for a wrong number of arguments."""
        if len(arguments) != len(self.inputs):
            names = ", ".join(self.inputs)
            raise ShapeError(f"{self.name}({names}) takes {len(self.inputs)} arrays, got {len(arguments)}.")

    def arrays(self, arguments: Sequence[Array]) -> list[np.ndarray]:
        """The arguments as float arrays; a ShapeError for a wrong number of them, complex numbers or text."""
        self.check_count(arguments)
        return [
            array.astype(float, copy=False)
            if isinstance(array, np.ndarray) and array.dtype.kind in "fiubO"
            else numbers(array, f"{label} of {self.name}")
            for label, array in zip(self.inputs, arguments, strict=True)
        ]

    def batch(self, arrays: Sequence[np.ndarray]) -> Shape:
        """Check the trailing shapes and broadcast the leading ones."""
        batches = []
        for array, (label, shape) in zip(arrays, self.inputs.items(), strict=True):
            if array.ndim < len(shape) or array.shape[array.ndim - len(shape) :] != shape:
                raise wrong_shape(f"{label} of {self.name}", ("...", *shape), array.shape)
            batches.append(array.shape[: array.ndim - len(shape)])
        distinct = set(batches) - {()}
        if len(distinct) < 2:
            return distinct.pop() if distinct else ()
        try:
            return np.broadcast_shapes(*distinct)
        except ValueError:
            got = ", ".join(f"{label} {array.shape}" for label, array in zip(self.inputs, arrays, strict=True))
            raise ShapeError(f"the batch axes of {self.name} do not broadcast: {got}.") from None

    def flat_inputs(self, arguments: Sequence[Array]) -> tuple[Shape, list[np.ndarray]]:
        """Check the arguments, broadcast their batch axes; return the batch shape and arrays of shape (batch, size)."""
        arrays = self.arrays(arguments)
        batch = self.batch(arrays)
        flat = [
            np.broadcast_to(array, batch + shape).reshape(prod(batch), size)
            for array, shape, size in zip(arrays, self.inputs.values(), self.input_sizes, strict=True)
        ]
        return batch, flat

    def shape_outputs(self, batch: Shape, results: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
        """Give flat results (batch, size) their batch and trailing shapes."""
        return tuple(
            np.asarray(result).reshape(batch + shape)
            for result, shape in zip(results, self.outputs.values(), strict=True)
        )

    @classmethod
    def from_description(cls, data: dict[str, Any]) -> Signature:
        """Inverse of ``dataclasses.asdict``, also of the lists that JSON makes of tuples."""
        inputs, outputs = ({name: tuple(shape) for name, shape in data[key].items()} for key in ("inputs", "outputs"))
        return cls(data["name"], inputs, outputs)
