"""Controllers that share their native code: those of one batch, and those of one flight from many starts."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from heavytop._arrays import Numbers
from heavytop.simulate.dynamics import ModelDynamics, as_dynamics
from heavytop.sweep.cases import key_of


class Stacked:
    """Controllers that differ only in their signals and first memories, one for each trajectory of a batch."""

    def __init__(self, controllers: Sequence[Any], memo: dict[Any, Any] | None = None, period: Any = "none") -> None:
        self.controllers, self.memo, self.period = tuple(controllers), {} if memo is None else memo, period
        self.signal_size = int(getattr(controllers[0], "signal_size", 0))
        self.state_size = int(getattr(controllers[0], "state_size", 0))

    def sampled(self, period: float | None) -> Stacked:
        """All of them at one period."""
        if not hasattr(self.controllers[0], "sampled"):
            return self
        known = {id(c): c.sampled(period) for c in dict.fromkeys(self.controllers)}
        return Stacked([known[id(c)] for c in self.controllers], self.memo, period)

    def traced(self, model: Any) -> Any:
        """That of the first: they are alike."""
        key = (id(model), self.period)
        if key not in self.memo:
            self.memo[key] = self.controllers[0].traced(model)
        return self.memo[key]

    @property
    def host(self) -> Any:
        """The controllers together, if they are computed in Python at every sample (:mod:`heavytop.simulate.python_controller`)."""
        return None if getattr(self.controllers[0], "host", None) is None else self

    @property
    def answer_size(self) -> int:
        """That of each."""
        return self.controllers[0].host.answer_size

    def sessions(self, count: int) -> list[Any]:
        """One of its own controller for each trajectory."""
        hosts = [controller.host for controller in self.controllers]
        made = {id(host): iter(host.sessions(sum(h is host for h in hosts))) for host in hosts}
        return [next(made[id(host)]) for host in hosts]

    def signal(self, times: Numbers) -> np.ndarray:
        """Samples (n, batch, m)."""
        if not self.signal_size:
            return np.zeros((len(np.asarray(times)), 0))
        known = {id(c): c.signal(times) for c in dict.fromkeys(self.controllers)}
        return np.stack([known[id(c)] for c in self.controllers], axis=1)

    def initial_state(self) -> np.ndarray:
        """First memories (batch, s)."""
        if not self.state_size:
            return np.zeros(0)
        known = {id(c): c.initial_state() for c in dict.fromkeys(self.controllers)}
        rows = [known[id(c)] for c in self.controllers]  # of each trajectory, if there is one for each
        return np.stack([row[k] if row.ndim > 1 else row for k, row in enumerate(rows)])


class Remade:
    """A controller that is traced once though it is made anew for every start."""

    def __init__(self, controller: Any, memo: dict[Any, Any], period: Any = "none") -> None:
        self.controller, self.memo, self.period = controller, memo, period
        self.signal_size, self.state_size = controller.signal_size, controller.state_size
        self.signal, self.initial_state = controller.signal, controller.initial_state
        self.host = getattr(controller, "host", None)

    def sampled(self, period: float | None) -> Remade:
        """At a period."""
        return Remade(self.controller.sampled(period), self.memo, period)

    def traced(self, model: Any) -> Any:
        """The function, which does not depend on the start."""
        key = (id(model), self.period)
        if key not in self.memo:
            self.memo[key] = self.controller.traced(model)
        return self.memo[key]


def likeness(plan: Mapping[str, Any], apart: Sequence[str]) -> Any:
    """A key that is equal for plans whose native code is the same."""
    if not apart:
        return ()
    rest = tuple(
        (name, key_of(value)) for name, value in sorted(plan.items()) if name not in ("model", "control", "flown")
    )
    rest += tuple(map(id, plan.get("flown", ())))
    dynamics = as_dynamics(plan["model"])
    model = dynamics.key or id(dynamics)
    control = plan.get("control")
    if control is None or not hasattr(control, "traced"):
        return (*rest, model, key_of(control))
    subject = dynamics.model if isinstance(dynamics, ModelDynamics) else plan["model"]
    period = None if plan.get("hold") == "continuous" else float(plan.get("control_step") or plan["step"])
    sampled = control.sampled(period) if hasattr(control, "sampled") else control
    traced = sampled.traced(subject)
    content = hashlib.sha256(traced.function.serialize().encode()).hexdigest()
    return (*rest, model, content, int(getattr(control, "signal_size", 0)), int(getattr(control, "state_size", 0)))
