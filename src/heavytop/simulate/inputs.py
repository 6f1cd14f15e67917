"""Inputs and control as the time loop runs them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import isfinite
from typing import Any

import numpy as np

from heavytop._arrays import numbers
from heavytop.errors import ShapeError, SimulationError
from heavytop.simulate.controller import bind
from heavytop.simulate.dynamics import Dynamics
from heavytop.simulate.plant import Control

Callback = Callable[[float, np.ndarray, np.ndarray], Any]
HOLDS = ("zero-order", "continuous")


@dataclass(frozen=True, eq=False)
class InputPlan:
    """How the input of every step comes about.

    Attributes
    ----------
    control : what the native step does.
    table : (samples, *batch, nu) for ``control.kind == "table"``.
    callback : Python function that fills the table while the run goes on; None otherwise.
    every : steps per sample.
    """

    control: Control
    table: np.ndarray
    callback: Callback | None
    every: int

    @cached_property
    def calls_python(self) -> bool:
        """Whether Python is called at every sample."""
        law = self.control.law
        return self.callback is not None or (law is not None and law.host is not None)

    def with_samples(self, inputs: Any, dynamics: Dynamics, steps: int) -> InputPlan:
        """The plan with other samples (samples, ..., nu) of the inputs."""
        if self.control.kind != "table" or self.callback is not None:
            raise SimulationError("samples of inputs cannot take the place of a law or a function.")
        return replace(self, table=_table(inputs, dynamics, steps, self.every))

    @property
    def batch(self) -> tuple[int, ...]:
        """Batch axes of the table."""
        return self.table.shape[1:-1]


def plan_inputs(
    dynamics: Dynamics,
    subject: Any,
    *,
    inputs: Any,
    control: Any,
    reference: Any,
    hold: str,
    control_step: float | None,
    step: float,
    steps: int,
    given: float,
) -> InputPlan:
    """Check the arguments of ``simulate`` that concern inputs and decide how they are run."""
    if inputs is not None and control is not None:
        raise SimulationError("give either inputs= (samples or a function) or control= (a law), not both.")
    if reference is not None and control is None:
        raise SimulationError("reference= needs a law in control= that follows it.")
    if hold not in HOLDS:
        raise SimulationError(f"hold must be one of {', '.join(map(repr, HOLDS))}, got {hold!r}.")
    every = _steps_per_sample(control_step, step, steps, given)
    zeros = np.zeros((1, dynamics.nu))
    if control is not None:
        if hold == "continuous" and control_step is not None:
            raise SimulationError("control_step= belongs to hold='zero-order'; a continuous law has no sample time.")
        period = every * step if hold == "zero-order" else None
        law = bind(control, dynamics, subject, reference, period)
        if law.host is not None and period is None:
            raise SimulationError(
                f"{control!r} is computed in Python at every sample, so it cannot run continuously: simulate it with hold='zero-order'."
            )
        kind = "sampled" if hold == "zero-order" else "continuous"
        return InputPlan(Control(kind, law, every if kind == "sampled" else 1), zeros, None, every)
    if callable(inputs):
        _check_arguments(inputs)
        return InputPlan(Control("table"), zeros, inputs, every)
    table = zeros if inputs is None else _table(inputs, dynamics, steps, every)
    return InputPlan(Control("table"), table, None, every)


def _check_arguments(callback: Callback) -> None:
    try:
        inspect.signature(callback).bind(0.0, None, None)
    except TypeError as error:
        raise SimulationError(
            f"inputs must be a function of (t, q, v), but calling this one as f(t, q, v) fails: {error}."
        ) from None
    except ValueError:  # some built-in functions have no signature
        return


def _steps_per_sample(control_step: float | None, step: float, steps: int, given: float) -> int:
    """From the step that is taken; the ``given`` one may be longer, as a whole number of steps makes up the run."""
    if control_step is None:
        return 1
    if not isinstance(control_step, int | float | np.number) or not isfinite(control_step):
        raise SimulationError(f"control_step must be a finite number of seconds, got {control_step!r}.")
    ratio = float(control_step) / step
    every = round(ratio)
    if every < 1 or abs(ratio - every) > 1e-6 * every:
        shortened = ""
        if abs(given - step) > 1e-9 * given:
            shortened = (
                f" The step of {given:g} s was shortened so that {steps} of them make up the run of {steps * step:g} s: give a duration "
                "that is a multiple of control_step, and a step that divides it."
            )
        raise SimulationError(
            f"control_step must be a whole multiple of the step {step:g} s, got {control_step!r} = {ratio:.6g} steps.{shortened}"
        )
    return every


def _table(inputs: Any, dynamics: Dynamics, steps: int, every: int) -> np.ndarray:
    table = numbers(inputs, f"inputs of {dynamics.name!r}")
    if table.ndim == 0 or table.shape[-1] != dynamics.nu:
        names = ", ".join(dynamics.u_names) or "none"
        raise ShapeError(
            f"inputs of {dynamics.name!r} must have shape ({dynamics.nu},) or (samples, ..., {dynamics.nu}), got "
            f"{table.shape}. The inputs are: {names}."
        )
    if not np.all(np.isfinite(table)):
        raise ShapeError(f"inputs of {dynamics.name!r} must be finite.")
    if table.ndim == 1:
        table = table[None]
    needed = -(-steps // every)
    if table.shape[0] not in (1, needed, needed + 1):
        raise ShapeError(
            f"inputs of {dynamics.name!r} have {table.shape[0]} samples along the first axis; {steps} steps with "
            f"{every} step(s) per sample need {needed} (or one, held throughout)."
        )
    return table


def call_back(callback: Callback, t: float, q: np.ndarray, v: np.ndarray, nu: int) -> np.ndarray:
    """The input (1, *batch, nu) from a user-defined function, checked."""
    u = numbers(callback(t, q, v), f"inputs(t, q, v) at t = {t:g} s")
    if u.shape not in ((nu,), (*q.shape[:-1], nu)):
        raise ShapeError(
            f"inputs(t, q, v) must return an array of shape {(*q.shape[:-1], nu)} (or ({nu},)), got {u.shape} at t = {t:g} s."
        )
    if not np.all(np.isfinite(u)):
        raise SimulationError(f"inputs(t, q, v) is not finite at t = {t:g} s: {u}.")
    return np.broadcast_to(u, (1, *q.shape[:-1], nu))
