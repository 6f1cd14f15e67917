"""Controllers around a controller: the same reference and memory, in a plant that has more to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._arrays import Array, part, symbol
from heavytop._travel import Portable
from heavytop.compile import Traced, trace_of

if TYPE_CHECKING:
    from heavytop.control.tracking import Controller
    from heavytop.system.model import Model


class Wrapper(Portable):
    """A controller in a plant that has more to it than the model it was made for.

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
        """The inner controller at what it sees, its inputs turned into those of the plant."""
        inner = self.inner.traced(self.own)
        sizes: dict[str, Any] = {"t": None, "q": model.nq, "v": model.nv}
        sizes |= {"signal": self.signal_size, "z": self.state_size}
        symbols = {name: symbol(name, size) for name, size in sizes.items() if size != 0}
        seen = {**symbols, **self.seen(symbols)}
        results = dict(zip(inner.outputs, inner.expressions(*(seen[name] for name in inner.inputs)), strict=True))
        results["u"] = self.plant_inputs(results["u"], symbols)
        return trace_of(type(self).__name__, symbols, results)

    def seen(self, symbols: Mapping[str, Array]) -> dict[str, Array]:
        """What the inner controller is given: its part of the state, and of the signal if it shares that."""
        return {"q": part(symbols["q"], 0, self.own.nq), "v": part(symbols["v"], 0, self.own.nv)}

    def plant_inputs(self, u: Array, symbols: Mapping[str, Array]) -> Array:
        """Inputs of the plant from those that the inner controller wants, the state of the plant and the signal."""
        return u
