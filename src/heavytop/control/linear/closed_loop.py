"""Closed loop of plant and controller as one traced function, and its simulation."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from heavytop._arrays import Array, symbol
from heavytop.compile import Traced, trace_of
from heavytop.errors import ControlError
from heavytop.functions import Portable
from heavytop.simulate import Controller, Run, simulate
from heavytop.system import Model


class ClosedLoop(Portable):
    """A plant with its controller.

    Parameters
    ----------
    plant : the model that moves; it may differ from the one the law was made for.
    controller : a law with a reference, ``law.with_reference(reference)``.

    Examples
    --------
    >>> from heavytop.copters import quadcopter
    >>> craft = quadcopter()
    >>> from heavytop.control import energy_law
    >>> loop = ClosedLoop(craft.model, energy_law(craft.model, craft.prototype).with_reference(craft.model.neutral()))
    >>> run = loop.fly((craft.model.neutral(), np.array([0.5, 0, 0, 0, 0, 0])), until=8.0, step=0.02)
    >>> bool(np.abs(run.q[-1, 0]) < 0.01)
    True
    """

    def __init__(self, plant: Model, controller: Controller) -> None:
        if plant.nv == 0:
            raise ControlError(f"{plant.name!r} has no degree of freedom.")
        self.plant, self.controller = plant, controller

    @cached_property
    def inputs(self) -> dict[str, Array]:
        """Symbols of the flow: t or signal, q, v, z, p."""
        c, plant = self.controller, self.plant
        sizes = {"q": plant.nq, "v": plant.nv, "signal": c.signal_size, "z": c.state_size}
        symbols = {name: symbol(name, size) for name, size in sizes.items()}
        return {"t": symbol("t"), **symbols, "p": symbol("p", len(plant.parameter_names))}

    @cached_property
    def expressions(self) -> dict[str, Array]:
        """Rates of q, v and z, and the input u, as expressions in :attr:`inputs`."""
        s, plant = self.inputs, self.plant
        if getattr(self.controller, "host", None) is not None:
            raise ControlError(
                f"{self.controller!r} is computed in Python at every sample, so the closed loop cannot be linearised. "
                "Near its goal and without active limits predictive control equals control.lqr(model, reference)."
            )
        controller = self.controller.traced(plant)
        results = controller.expressions(*(s[name] for name in controller.inputs))
        values = dict(zip(controller.outputs, results, strict=True))
        u = values["u"]
        z_rate = values.get("z_rate", np.zeros(0))
        if self.controller.state_size and "z_rate" not in values:
            raise ControlError(f"{self.controller!r} has a sampled state (z_next); simulate it with sampled control.")
        (rate,) = plant.traced("rate").expressions(s["q"], s["v"], s["p"])
        (a,) = plant.traced("acceleration").expressions(s["q"], s["v"], u, s["p"])
        return {"q_rate": rate, "v_rate": a, "z_rate": z_rate, "u": u}

    @cached_property
    def flow(self) -> Traced:
        """The closed loop as traced function (t, q, v, signal, z, p) -> (q_rate, v_rate, z_rate, u)."""
        return trace_of("flow", self.inputs, self.expressions)

    def fly(
        self,
        start: tuple[Array, Array],
        until: float,
        step: float = 1e-3,
        record_every: int = 1,
        parameters: Mapping[str, Any] | None = None,
        threads: int | None = None,
        raise_on_failure: bool = True,
    ) -> Run:
        """Simulate from start = (q, v), with any leading batch axes, the law evaluated in every stage of the integrator.

        Raises a SimulationError if a state becomes infinite or NaN, unless ``raise_on_failure`` is False: then the outcome reports it.
        """
        return simulate(
            self.plant, start, until, step, "projected_rk4", control=self.controller, hold="continuous", parameters=parameters,
            record_every=record_every, balance=False, raise_on_failure=raise_on_failure, threads=threads, progress=False,
        )  # fmt: skip
