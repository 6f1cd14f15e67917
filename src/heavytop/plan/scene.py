"""What functions of goals, constraints and costs see: the state of one node as symbols, and the frames of the model by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from heavytop._arrays import Array, symbol
from heavytop.compile import on_symbols
from heavytop.errors import PlanError
from heavytop.ocp.chart_dynamics import ChartRates, Derivatives
from heavytop.ocp.charts import chart
from heavytop.system.description.names import WORLD
from heavytop.system.model import Model


@dataclass(frozen=True, eq=False)
class NodeScene:
    """One moment of a motion.

    Attributes
    ----------
    model : that moves. q, v, u : configuration, velocity and input. p : parameters. own : numbers of the constraint or cost itself.
    u_rate : rates of the inputs, for costs that ask for them.
    """

    model: Model
    q: Array
    v: Array
    u: Array
    p: Array
    own: Array
    u_rate: Array | None = None

    @property
    def configuration(self) -> Array:
        """q (nq,) of the described model, without the time that a plan may have added to it."""
        own = getattr(self.model, "inner", self.model).nq
        return self.q if own == self.model.nq else self.q[:own]

    def pose(self, frame: str, seen_from: str = WORLD) -> Array:
        """G (4, 4) of a frame."""
        return self.model.traced(f"pose:{seen_from}:{frame}").expressions(self.q, self.p)[0]

    def point(self, frame: str, offset: Array = (0.0, 0.0, 0.0)) -> Array:
        """Place (3,) in the world of a point with the coordinates ``offset`` in a frame."""
        G = self.pose(frame)
        return G[:3, 3] + np.matvec(G[:3, :3], np.asarray(offset, dtype=float))

    def twist(self, frame: str, seen_from: str = WORLD) -> Array:
        """Body twist (6,) of a frame: (linear, angular)."""
        J = self.model.traced(f"jacobian:{seen_from}:{frame}").expressions(self.q, self.p)[0]
        return np.matvec(J, self.v)

    def acceleration(self) -> Array:
        """Rates of the velocity coordinates (nv,)."""
        return self.model.traced("motion").expressions(self.q, self.v, self.u, self.p)[1]


def node_function(model: Model, name: str, function: Any, numbers: int, mark: str | None) -> Derivatives:
    """``function(scene)`` (m,) with derivatives by (e, v, u) in the chart of a node.

    Parameters
    ----------
    numbers : how many numbers of its own the function has (``scene.own``).
    mark : text that determines the function, or None if only its code does.
    """
    rates = ChartRates.of(model)

    def build() -> tuple[Array, Array, dict[str, Array]]:
        y, symbols = symbol("y", rates.nx + rates.nu), rates.symbols()
        own = symbol("own", numbers)
        q = chart(model.coordinates, symbols["q_bar"], y[: rates.ne])
        scene = NodeScene(model, q, y[rates.ne : rates.nx], y[rates.nx :], symbols["p"], own)
        value = on_symbols(function, name, PlanError)(scene)
        return value + 0.0 * y[0], y, {**symbols, "own": own}  # a constant is a function too

    fingerprint = model.description.fingerprint
    return Derivatives(f"node_{name}", build, None if mark is None or fingerprint is None else f"{fingerprint} {mark}")


def check_frame(model: Model, frame: str) -> None:
    """Raise an UnknownNameError with the declared frames unless the model has one of that name."""
    model.traced(f"pose:{WORLD}:{frame}")
