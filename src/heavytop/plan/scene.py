"""State of one node as symbols, with the frames of the model by name: the argument of constraint and cost functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import Parameter, signature

import numpy as np

from heavytop._arrays import Array, symbol
from heavytop.errors import PlanError
from heavytop.ocp import ChartRates, Derivatives, Expression
from heavytop.system import WORLD, Model

ARGUMENTS = ("q", "v", "u", "t")
"""Arguments that user-defined functions may have."""


@dataclass(frozen=True, eq=False)
class NodeScene:
    """One moment of a motion.

    Attributes
    ----------
    rates : rates of the model. q, v, u : configuration, velocity and input. p : parameters. constants : those of the constraint or cost.
    u_rate : rates of the inputs, for costs that depend on them.
    """

    rates: ChartRates
    q: Array
    v: Array
    u: Array
    p: Array
    constants: Array
    u_rate: Array | None = None

    @property
    def model(self) -> Model:
        """The model."""
        return self.rates.model

    @property
    def time(self) -> Array:
        """The time in s."""
        if not self.rates.has_time:
            raise PlanError("a function that takes the time t needs a plan with the time as a coordinate.")
        return self.q[self.model.nq]

    def pose(self, frame: str, seen_from: str = WORLD) -> Array:
        """G (4, 4) of a frame."""
        return self.rates.traced(f"pose:{seen_from}:{frame}").expressions(self.q, self.p)[0]

    def point(self, frame: str, offset: Array = (0.0, 0.0, 0.0)) -> Array:
        """Position (3,) in the world of the point ``offset`` of a frame."""
        G = self.pose(frame)
        return G[:3, 3] + np.matvec(G[:3, :3], np.asarray(offset, dtype=float))

    def twist(self, frame: str, seen_from: str = WORLD) -> Array:
        """Body twist (6,) of a frame: (linear, angular)."""
        J = self.rates.traced(f"jacobian:{seen_from}:{frame}").expressions(self.q, self.p)[0]
        return np.matvec(J, self.v)

    def acceleration(self) -> Array:
        """Rates of the velocity coordinates (nv,)."""
        return self.rates.traced("motion").expressions(self.q, self.v, self.u, self.p)[1]

    def call(self, function: Callable[..., Array]) -> Array:
        """A user-defined function, with those of q, v, u and t that it takes."""
        names = _argument_names(function)
        q = self.q[: self.model.nq] if self.rates.has_time else self.q
        given = {"q": q, "v": self.v, "u": self.u}
        if names is None:
            return function(*given.values())
        if "t" in names:
            given["t"] = self.time
        return function(**{name: given[name] for name in names})


def _argument_names(function: Callable[..., Array]) -> tuple[str, ...] | None:
    """Those of q, v, u and t that a function takes by name; None: it has other names, and takes (q, v, u) in this order."""
    try:
        parameters = signature(function).parameters
    except (TypeError, ValueError):
        return None
    fixed = any(p.kind in (Parameter.POSITIONAL_ONLY, Parameter.VAR_POSITIONAL) for p in parameters.values())
    needed = [name for name, p in parameters.items() if p.default is Parameter.empty]
    return None if fixed or not set(needed) <= set(ARGUMENTS) else tuple(n for n in ARGUMENTS if n in parameters)


def takes_time(function: Callable[..., Array]) -> bool:
    """Whether a user-defined function has an argument ``t``."""
    return "t" in (_argument_names(function) or ())


def node_function(
    rates: ChartRates, name: str, function: Callable[[NodeScene], Array], constants: int = 0
) -> Derivatives:
    """``function(scene)`` (m,) with derivatives with respect to (e, v, u) in the chart of a node; ``constants``: their number."""

    def build() -> Expression:
        (y, symbols, q), numbers = rates.node, symbol("constants", constants)
        scene = NodeScene(rates, q, y[rates.ne : rates.nx], y[rates.nx :], symbols["p"], numbers)
        return function(scene) + 0.0 * y[0], y, {**symbols, "constants": numbers}  # a constant is a function too

    return rates.shared(f"node_{name}", build)


def check_frame(model: Model, frame: str) -> None:
    """Raise an UnknownNameError with the declared frames unless the model has one of that name."""
    model.traced(f"pose:{WORLD}:{frame}")
