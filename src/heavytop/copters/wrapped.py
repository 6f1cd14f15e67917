"""Controllers around a controller: the same reference and memory, in a plant that has more to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._arrays import Array, part, symbol
from heavytop.compile import Traced, trace_of

if TYPE_CHECKING:
    from heavytop.control.tracking import Controller
    from heavytop.system.model import Model


class Wrapped:
    """A controller of the first coordinates of a larger plant.

    Parameters
    ----------
    inner : the controller.
    own : the model it was made for; its coordinates come first in those of the plant.
    """

    def __init__(self, inner: Controller, own: Model) -> None:
        self.inner, self.own = inner, own
        self.signal_size, self.state_size = inner.signal_size, inner.state_size

    def initial_state(self) -> np.ndarray:
        """The memory of the inner controller."""
        return self.inner.initial_state()

    def signal(self, times: Any) -> np.ndarray:
        """Samples of the reference."""
        return self.inner.signal(times)

    def traced(self, model: Any) -> Traced:
        """The inner controller at its part of the state, its inputs turned into those of the plant."""
        inner = self.inner.traced(self.own)
        sizes: dict[str, Any] = {
            "t": None,
            "q": model.nq,
            "v": model.nv,
            "signal": self.signal_size,
            "z": self.state_size,
        }
        symbols = {name: symbol(name, size) for name, size in sizes.items() if size != 0}
        q, v = symbols["q"], symbols["v"]
        values = {**symbols, "q": part(q, 0, self.own.nq), "v": part(v, 0, self.own.nv)}
        results = dict(zip(inner.outputs, inner.expressions(*(values[name] for name in inner.inputs)), strict=True))
        results["u"] = self.inputs(results["u"], q, v)
        return trace_of(type(self).__name__, symbols, results)

    def inputs(self, u: Array, q: Array, v: Array) -> Array:
        """Inputs of the plant from those that the inner controller wants and the state of the plant."""
        return u
