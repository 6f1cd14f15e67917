"""Model, law and integrator as one native function: the closed loop for analysis and for flights of many vehicles at once.

Runge and Kutta's classical scheme on (q, v), the law evaluated in every stage, the configuration projected back to its manifold after
each step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from heavytop._arrays import Array, symbol
from heavytop.compile import Call, Schedule, Stepper, Traced, trace
from heavytop.control.setting import trace_of
from heavytop.control.tracking import Controller
from heavytop.errors import ControlError, SimulationError
from heavytop.system.model import Model

SIGNALS = ("signal_0", "signal_1", "signal_2")


@dataclass(frozen=True)
class Flight:
    """A closed-loop motion: t (n,), q (n, ..., nq), v (n, ..., nv), u (n, ..., nu), z (n, ..., s)."""

    t: np.ndarray
    q: np.ndarray
    v: np.ndarray
    u: np.ndarray
    z: np.ndarray


class ClosedLoop:
    """A plant with its controller.

    Parameters
    ----------
    plant : the model that moves; it may differ from the one the law was made for.
    controller : a law with a reference, ``law.with_reference(reference)``.
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
        controller = self.controller.traced(plant)
        results = controller.expressions(*(s[name] for name in controller.inputs))
        values = dict(zip(controller.outputs, results, strict=True))
        u = values["u"]
        z_rate = values.get("z_rate", np.zeros(0))
        if self.controller.state_size and "z_rate" not in values:
            raise ControlError("this controller has a sampled state (z_next); simulate it with sampled control.")
        (rate,) = plant.traced("rate").expressions(s["q"], s["v"], s["p"])
        (a,) = plant.traced("acceleration").expressions(s["q"], s["v"], u, s["p"])
        return {"q_rate": rate, "v_rate": a, "z_rate": z_rate, "u": u}

    @cached_property
    def flow(self) -> Traced:
        """The closed loop as traced function (t, q, v, signal, z, p) -> (q_rate, v_rate, z_rate, u)."""
        return trace_of("flow", self.inputs, self.expressions)

    @cached_property
    def _stepper(self) -> Stepper:
        return Stepper(self._schedule(), threads=None)

    def _schedule(self) -> Schedule:
        sizes = {"q": self.plant.nq, "v": self.plant.nv, "z": self.controller.state_size}
        m, project = self.controller.signal_size, self.plant.coordinates.project
        shapes = {name: (size,) for name, size in sizes.items()}
        rates = {f"k{name}": shape for name, shape in shapes.items()}

        def move(*x: Array) -> tuple[Array, ...]:
            return tuple(x[i] + x[6] * x[i + 3] for i in range(3))

        def finish(q: Array, v: Array, z: Array, *k: Array) -> tuple[Array, ...]:
            h = k[-1]
            sums = [k[i] + 2 * k[i + 3] + 2 * k[i + 6] + k[i + 9] for i in range(3)]
            return project(q + h / 6 * sums[0]), v + h / 6 * sums[1], z + h / 6 * sums[2]

        all_rates = {f"{name}_{stage}": shape for stage in range(4) for name, shape in rates.items()}
        functions = {
            "flow": self.flow,
            "clock": trace(lambda t, h: (t + h / 2, t + h, h / 2), {"t": (), "h": ()}, name="clock"),
            "move": trace(move, {**shapes, **rates, "h": ()}, name="move"),
            "finish": trace(finish, {**shapes, **all_rates, "h": ()}, name="finish"),
        }
        times, halves = ("time", "t_1", "t_1", "t_2"), ("half", "half", "h")
        names = tuple(sizes)

        def evaluate(stage: int, state: tuple[str, ...]) -> Call:
            signal = SIGNALS[(0, 1, 1, 2)[stage]]
            outputs = (*(f"k{name}_{stage}" for name in names), "u" if stage == 0 else "u_stage")
            return Call("flow", (times[stage], state[0], state[1], signal, state[2], "p"), outputs)

        advance = [Call("clock", ("time", "h"), ("t_1", "t_2", "half"))]
        for stage in range(1, 4):
            moved = tuple(f"{name}_moved" for name in names)
            previous = tuple(f"k{name}_{stage - 1}" for name in names)
            advance += [Call("move", (*names, *previous, halves[stage - 1]), moved), evaluate(stage, moved)]
        advance.append(Call("finish", (*names, *all_rates, "h"), names))
        buffers: dict[str, Any] = {**shapes, **{f"{name}_moved": s for name, s in shapes.items()}, **all_rates}
        buffers |= {"h": (), "half": (), "t_1": (), "t_2": (), "p": len(self.plant.parameter_names)}
        buffers |= {"u": self.plant.nu, "u_stage": self.plant.nu, **dict.fromkeys(SIGNALS, m)}
        return Schedule(
            functions,
            buffers,
            names,
            advance,
            sample=(evaluate(0, names),),
            constants=("h", "p", *(() if m else SIGNALS)),
            tables=SIGNALS if m else (),
            record=(*names, "u"),
        )

    def fly(
        self,
        start: tuple[Array, Array],
        until: float,
        step: float = 1e-3,
        record_every: int = 1,
        parameters: Mapping[str, Any] | None = None,
    ) -> Flight:
        """Integrate from start = (q, v), with any leading batch axes, for the time ``until``.

        Raises a SimulationError naming the time if a state stops being finite.
        """
        q, v = self.plant.coordinates.check(start[0], "start q"), np.asarray(start[1], dtype=float)
        steps = round(until / step)
        batch = np.broadcast_shapes(q.shape[:-1], v.shape[:-1])
        z = np.broadcast_to(self.controller.initial_state(), (*batch, self.controller.state_size))
        constants: dict[str, Array] = {"h": step, "p": self.plant.parameter_vector(parameters)}
        tables: dict[str, Array] = {}
        if self.controller.signal_size:
            samples = self.controller.signal(np.arange(2 * steps + 3) * (step / 2))
            lead = (len(samples), *(1,) * len(batch), samples.shape[-1])
            samples = samples.reshape(lead)
            tables = {name: samples[k : k + 2 * steps + 1 : 2] for k, name in enumerate(SIGNALS)}
        else:
            constants |= {name: np.zeros(0) for name in SIGNALS}
        run = self._stepper.run(
            {"q": q, "v": v, "z": z}, constants, tables, steps=steps, step_size=step, record_every=record_every
        )
        if np.any(run.failed >= 0):
            first = int(np.min(run.failed[run.failed >= 0]))
            raise SimulationError(
                f"the closed loop of {self.plant.name!r} left finite numbers at t = {first * step:.6g} s: it is unstable there, or the "
                "step is too large."
            )
        r = run.records
        return Flight(run.recorded * step, r["q"], r["v"], r["u"], r["z"])
