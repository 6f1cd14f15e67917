"""The Munthe-Kaas form of Dormand and Prince's method: step size by error control, dense output.

Every trajectory of a batch has its own time and step; one native step is one attempt, accepted or not. What dense
output needs of an attempt is recorded and evaluated afterwards: ``q(t + x h) = q o exp(theta(x))`` with the quartic theta(x) of
:func:`~heavytop.simulate.integrators.tableaus.dense_weights`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from heavytop._arrays import Array, concatenate, from_columns, vector
from heavytop.compile import Call, Schedule, Stepper
from heavytop.compile.jit import batch_lanes
from heavytop.errors import SimulationError
from heavytop.simulate.assembly import Control, Plant
from heavytop.simulate.integrators.base import need_group, weighted
from heavytop.simulate.integrators.rkmk import munthe_kaas_stages
from heavytop.simulate.integrators.tableaus import DORMAND_PRINCE4_WEIGHTS, DORMAND_PRINCE5, MIDDLE

SAFETY, SHRINK, GROW = 0.9, 0.2, 5.0
ERROR_WEIGHTS = tuple(b - e for b, e in zip(DORMAND_PRINCE5.b, DORMAND_PRINCE4_WEIGHTS, strict=True))


class RKMK45:
    """Order 5 with an embedded estimate of order 4.

    Parameters
    ----------
    rtol : local error relative to the velocities; for displacements relative to one unit (1 m, 1 rad).
    atol : absolute part of the tolerance of velocities.
    first_step : in s; None: a hundredth of the distance of the records.
    max_step : in s.
    max_steps : attempts per trajectory, after which the outcome is ``step_limit``.
    """

    name: ClassVar[str] = "rkmk45"
    order: ClassVar[int] = 5
    stable_up_to: ClassVar[float | None] = None

    def __init__(
        self,
        rtol: float = 1e-8,
        atol: float = 1e-10,
        first_step: float | None = None,
        max_step: float = np.inf,
        max_steps: int = 1_000_000,
    ) -> None:
        for label, value in (("rtol", rtol), ("atol", atol), ("max_step", max_step), ("max_steps", max_steps)):
            if not isinstance(value, int | float | np.number) or not value > 0:
                raise SimulationError(f"{label} of RKMK45 must be positive, got {value!r}.")
        self.rtol, self.atol, self.first_step = float(rtol), float(atol), first_step
        self.max_step, self.max_steps = float(max_step), int(max_steps)

    def __repr__(self) -> str:
        return f"RKMK45(rtol={self.rtol:g}, atol={self.atol:g})"

    def run(self, problem: Any, memory: np.ndarray) -> Any:
        """Integrate and return the recording."""
        from heavytop.simulate.adaptive import AdaptiveRun

        begin = time.perf_counter()
        control = problem.plan.control
        options = f"RKMK45 {control.kind} balance={problem.balance}"
        if control.kind == "continuous" and control.law is not None:
            options += f" law {control.law.fingerprint}"
        lanes = 1 if problem.count == 1 else batch_lanes()
        key = (options, lanes, problem.threads)
        stepper = problem.dynamics.steppers.recall(key, lambda: self._stepper(problem, options, lanes))
        seconds = time.perf_counter() - begin
        recording = AdaptiveRun(problem, self, stepper, memory).run()
        recording.compile_seconds = seconds
        return recording

    def _stepper(self, problem: Any, options: str, lanes: int) -> Stepper:
        mark = problem.dynamics.fingerprint
        if mark is None:
            return Stepper(self.schedule(problem), lanes, problem.threads)
        return Stepper.cached(f"{mark} {options}", lambda: self.schedule(problem), lanes, problem.threads)

    def schedule(self, problem: Any) -> Schedule:
        """One attempt."""
        control: Control = problem.plan.control
        law = control.law
        if control.kind == "continuous" and law is not None and "signal" in law.takes:
            raise SimulationError(
                "error control chooses its own times, but this law takes samples of its reference. Write the reference in "
                "terms of 't', use hold='zero-order', or take a method with a fixed step."
            )
        if control.kind == "sampled":  # the law is called between segments
            control = Control("table")
        plant = Plant(problem.dynamics, control, problem.balance, clock="t")
        need_group(plant, "RKMK45")
        plant.buffers |= {"t": (), "h": (), "next_h": (), "t_end": (), "tolerance": (3,)}
        begin = plant.function("begin", _begin, ("t", "next_h", "t_end"))
        calls = munthe_kaas_stages(plant, DORMAND_PRINCE5, keep=True)
        plant.buffers |= {f"k{i}": (plant.nw,) for i in range(1, 7)}
        ending = [self._finish(plant)]
        if "constrain" in plant.functions:
            ending.append(Call("constrain", ("q", "v", "p"), ("q", "v")))
        flats = [f.name for f in plant.flats]
        dense = ["dense_q", "dense_t", "dense_theta", *(f"dense_{name}" for name in flats)]
        state = ["q", *flats, "t", "next_h", *dense]
        return Schedule(
            plant.functions,
            plant.buffers,
            state,
            [begin, *calls, *ending],
            constants=("p", "t_end", "tolerance"),
            tables=("u",) if control.kind == "table" else (),
            record=("t", *dense),
        )

    def _finish(self, plant: Plant) -> Call:
        """Estimate the error, accept or reject, choose the next step, lay down what dense output needs."""
        flats = plant.flats
        ks = ["w0", *(f"k{i}" for i in range(1, 7))]
        rates = {f.name: [f"{f.rate}{i}" for i in range(7)] for f in flats}
        ends = ["q_end", *(f"{f.name}_step" for f in flats)]
        inputs = ["q", "t", "h", "next_h", "t_end", "tolerance", "theta_end", *ends, *ks, *(f.name for f in flats)]
        inputs += [name for names in rates.values() for name in names]
        shapes: dict[str, Any] = {"dense_q": (plant.nq,), "dense_t": (3,), "dense_theta": (plant.nw, 4)}
        shapes |= {f"dense_{f.name}": (f.size, 5) for f in flats}

        def finish(*values: Array) -> Mapping[str, Array]:
            at = dict(zip(inputs, values, strict=True))
            h, tolerance = at["h"], at["tolerance"]
            rtol, atol = tolerance[0], tolerance[1]
            k = [at[name] for name in ks]
            parts = [h * weighted(ERROR_WEIGHTS, k) / rtol]
            dense = {"dense_theta": from_columns(at["theta_end"], h * k[0], h * k[6], h * weighted(MIDDLE, k))}
            ends = {}
            for f in flats:
                r = [at[name] for name in rates[f.name]]
                step = at[f"{f.name}_step"]
                x = at[f.name]
                if f.name != "work":
                    size = np.maximum(np.abs(x), np.abs(x + step))
                    parts.append(h * weighted(ERROR_WEIGHTS, r) / (atol + rtol * size))
                dense[f"dense_{f.name}"] = from_columns(x, step, h * r[0], h * r[6], h * weighted(MIDDLE, r))
                ends[f.name] = (x, x + step)
            scaled = concatenate(*parts)
            error = np.sqrt(np.vecdot(scaled, scaled) / scaled.shape[0])
            accept = error <= 1.0  # false for NaN
            # h (0.9 error^-1/5), within limits; the smallest positive number keeps the logarithm finite
            ratio = SAFETY * np.exp(-0.2 * np.log(np.where(accept, error, 1.0) + 1e-12))
            growing = np.minimum(np.maximum(ratio, SHRINK), GROW)
            shrinking = np.where(error > 1.0, SAFETY * np.exp(-0.2 * np.log(np.where(error > 1.0, error, 1.0))), SHRINK)
            factor = np.where(accept, growing, np.maximum(shrinking, SHRINK))
            # a step cut short at the end says nothing against the step before it
            base = np.where(np.logical_and(accept, h < at["next_h"]), np.maximum(h * factor, at["next_h"]), h * factor)
            left = at["t_end"] - at["t"]
            idle = left <= 0
            last = h >= left
            moved = np.where(last, at["t_end"], at["t"] + h)
            result = {
                "q": np.where(accept, at["q_end"], at["q"]),
                "t": np.where(accept, moved, at["t"]),
                "next_h": np.where(idle, at["next_h"], np.minimum(base, tolerance[2])),
                "dense_q": at["q"],
                "dense_t": vector(at["t"], np.where(np.logical_and(accept, np.logical_not(idle)), h, 0.0), h),
                **dense,
            }
            for name, (x, end) in ends.items():
                result[name] = np.where(accept, end, x)
            return result

        return plant.function("finish", finish, inputs, **shapes)


def _begin(t: Array, next_h: Array, t_end: Array) -> Mapping[str, Array]:
    """The step of this attempt: not beyond the end."""
    return {"h": np.maximum(np.minimum(next_h, t_end - t), 0.0)}


def dense_curve(data: np.ndarray, x: np.ndarray) -> np.ndarray:
    """The quartic (..., n) at fractions ``x`` (...) from columns (end, h k_first, h k_last, h k_middle) (..., n, 4)."""
    x = np.asarray(x)[..., None]
    end, first, last, middle = np.moveaxis(data, -1, 0)
    return x * x * (3 - 2 * x) * end + x * (x - 1) ** 2 * first + x * x * (x - 1) * last + x * x * (x - 1) ** 2 * middle
