"""A function of a model for callers in a hurry: bound once, then called with as little as NumPy itself needs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from heavytop._arrays import Array
from heavytop.compile import Kernel
from heavytop.compile.signature import Shape
from heavytop.errors import ModelError, ShapeError
from heavytop.system.description.instants import with_time


class ModelFunction:
    """A function of a model as native code, its parameters bound; made by :meth:`Model.function`.

    A call checks shapes and nothing else: entries that are not finite and configurations off their manifold give results without
    meaning instead of an error. It may be called from several threads at once.

    Attributes
    ----------
    name : of the function.
    inputs, outputs : name -> trailing shape, in the order of the arguments and of the results.

    Examples
    --------
    >>> import heavytop as ht
    >>> system = ht.System()
    >>> system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
    >>> acceleration = system.derive().function("acceleration")
    >>> acceleration.inputs
    {'q': (1,), 'v': (1,), 'u': (0,)}
    >>> a = np.empty(1)
    >>> acceleration(np.array([0.1]), np.array([0.0]), np.zeros(0), out=a) is a
    True
    >>> a.round(4)
    array([-0.9794])
    """

    def __init__(self, kernel: Kernel, parameters: np.ndarray, has_time: bool = False) -> None:
        self._kernel = kernel
        self._parameters = parameters
        self._has_time = has_time
        self._single = len(kernel.outputs) == 1
        self._shapes = tuple(kernel.outputs.values())
        self._call = kernel.quick(parameters)

    @property
    def name(self) -> str:
        """The name of the function."""
        return self._kernel.signature.name

    @property
    def inputs(self) -> dict[str, Shape]:
        """Trailing shape of each argument."""
        return {label: shape for label, shape in self._kernel.inputs.items() if label != "p"}

    @property
    def outputs(self) -> dict[str, Shape]:
        """Trailing shape of each result."""
        return dict(self._kernel.outputs)

    def __call__(
        self, *arguments: Array, out: np.ndarray | Sequence[np.ndarray] | None = None
    ) -> np.ndarray | tuple[np.ndarray, ...]:
        """Evaluate: arrays with leading batch axes that broadcast; ``out``: the array, or the arrays, to be filled and returned."""
        call = self._call
        if call is not None:  # arrays of one state, exactly as they must be: nothing but native code
            if self._single:
                place = np.empty(self._shapes[0]) if out is None else out
                if call(*arguments, place):
                    return place  # type: ignore[return-value]
            elif out is None or type(out) in (tuple, list):
                places = tuple([np.empty(shape) for shape in self._shapes]) if out is None else tuple(out)
                if call(*arguments, *places):
                    return places
        self._check_count(arguments)
        if self._single:
            return self._kernel(*arguments, self._parameters, out=None if out is None else (out,))[0]  # type: ignore[arg-type]
        if out is not None and not isinstance(out, tuple | list):
            raise ShapeError(
                f"out of {self.name} must be a pair or a list of {len(self._shapes)} arrays, got {type(out).__name__}."
            )
        return self._kernel(*arguments, self._parameters, out=out)

    def at(
        self, time: Array, *arguments: Array, out: np.ndarray | Sequence[np.ndarray] | None = None
    ) -> np.ndarray | tuple[np.ndarray, ...]:
        """The same at a time (...) in s, for models whose equations depend on it."""
        if not self._has_time:
            raise ModelError(f"{self.name} does not depend on the time: nothing in its system does.")
        self._check_count(arguments)
        places = (out,) if self._single and out is not None else out
        results = self._kernel(*arguments, with_time(self._parameters, time), out=places)  # type: ignore[arg-type]
        return results[0] if self._single else results

    def _check_count(self, arguments: Sequence[Array]) -> None:
        names = self.inputs
        if len(arguments) != len(names):
            raise ShapeError(f"{self.name}({', '.join(names)}) takes {len(names)} arrays, got {len(arguments)}.")

    def __repr__(self) -> str:
        return f"ModelFunction({self.name}({', '.join(self.inputs)}) -> {', '.join(self.outputs)})"
