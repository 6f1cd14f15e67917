"""A model whose time is one of its coordinates: ``t' = 1``. Equations and constraints that depend on the time are planned like all others.

A plan of free duration does not know when a node is passed. With the time as a coordinate of the node this is one more row, ``t_{k+1} = t_k +
h``, and all derivatives by the durations follow like those by places.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import Parameter, signature
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate, symbol
from heavytop._pickling import Unchanging
from heavytop.compile import Traced, trace_of
from heavytop.coordinates import Product, Vector
from heavytop.errors import PlanError
from heavytop.system.description.names import TIME
from heavytop.system.model import Model

ONE = np.ones(1)
TIME_ARGUMENT = "t"
ARGUMENTS = ("q", "v", "u", TIME_ARGUMENT)
"""What functions of the user may ask for."""


@dataclass(frozen=True)
class _Mark:
    """What is asked of a description here."""

    fingerprint: str | None
    time: Any
    velocity: Any
    basis: Any


class Clocked(Unchanging):
    """A model with the time as its last coordinate; q is (q, t).

    Attributes
    ----------
    inner : the model. p stays as it is: the entry of the time in it is not used.
    """

    def __init__(self, inner: Model) -> None:
        self.inner = inner
        c, d = inner.coordinates, inner.description
        self.coordinates = Product((*c.blocks, Vector(1)), names=(*(c.names or ()), TIME))
        mark = None if d.fingerprint is None else f"{d.fingerprint} clocked"
        self.description = _Mark(mark, d.time, d.velocity, d.basis)
        self.name, self.nq, self.nv, self.nu = inner.name, inner.nq + 1, inner.nv, inner.nu
        self.q_names, self.v_names, self.u_names = (*inner.q_names, TIME), inner.v_names, inner.u_names
        self.parameter_names, self.is_constrained = inner.parameter_names, inner.is_constrained
        self._traced: dict[str, Traced] = {}

    @classmethod
    def of(cls, model: Model) -> Clocked:
        """The same object for the same model, so that native code is found again."""
        known = vars(model).get("_clocked")
        if known is None:
            known = vars(model)["_clocked"] = cls(model)
        return known

    def traced(self, name: str) -> Traced:
        """As of the model, with q = (q, t); rates of coordinates get the 1 of the time."""
        if name not in self._traced:
            inner = self.inner.traced(name)
            sizes = {**{label: shape[0] for label, shape in inner.inputs.items()}, "q": self.nq}
            own = {label: symbol(label, size) for label, size in sizes.items()}
            values = {**own, "q": own["q"][: self.nq - 1]}
            if self.description.time is not None:
                n = len(self.parameter_names)
                values["p"] = concatenate(own["p"][: n - 1], own["q"][self.nq - 1 :])
            results = list(inner.expressions(*(values[label] for label in inner.inputs)))
            if name in ("motion", "rate"):
                results[0] = concatenate(results[0], ONE)
            self._traced[name] = trace_of(name, own, dict(zip(inner.outputs, results, strict=True)))
        return self._traced[name]

    # --- what guesses ask for -----------------------------------------------------------------------------------------------

    def neutral(self) -> np.ndarray:
        """The neutral configuration at the time 0."""
        return np.append(self.inner.neutral(), 0.0)

    def assemble(self, parameters: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """A consistent state; its time is 0, whatever that of the parameters is."""
        q, v = self.inner.assemble(parameters=parameters)[:2]
        return np.append(q, 0.0), v

    def integrate(self, q: np.ndarray, v: np.ndarray, dt: float) -> np.ndarray:
        """As of the model."""
        return np.append(self.inner.integrate(q[:-1], v, dt), q[-1] + dt)

    def difference(self, q0: np.ndarray, q1: np.ndarray) -> np.ndarray:
        """As of the model: velocities (..., nv)."""
        return self.inner.difference(q0[..., :-1], q1[..., :-1])

    def _joint_velocity(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        return np.append(self.inner._joint_velocity(q[:-1], v), 1.0)


def _wanted(function: Callable[..., Any]) -> tuple[str, ...] | None:
    """Which of q, v, u and t a function takes by these names; None: it has other names, and takes (q, v, u) in this order."""
    try:
        parameters = signature(function).parameters
    except (TypeError, ValueError):
        return None
    fixed = any(p.kind in (Parameter.POSITIONAL_ONLY, Parameter.VAR_POSITIONAL) for p in parameters.values())
    needed = [name for name, p in parameters.items() if p.default is Parameter.empty]
    return None if fixed or not set(needed) <= set(ARGUMENTS) else tuple(n for n in ARGUMENTS if n in parameters)


def takes_time(function: Callable[..., Any]) -> bool:
    """Whether a function of the user depends on the time: it has an argument ``t``."""
    return TIME_ARGUMENT in (_wanted(function) or ())


def call(function: Callable[..., Array], scene: Any) -> Array:
    """A function of the user at a moment, with those of q, v, u and t that it takes."""
    given = {"q": scene.configuration, "v": scene.v, "u": scene.u}
    wanted = _wanted(function)
    if wanted is None:
        return function(*given.values())
    if TIME_ARGUMENT in wanted:
        if not isinstance(scene.model, Clocked):
            raise PlanError("a function that takes the time t needs a plan that knows it.")
        given[TIME_ARGUMENT] = scene.q[scene.model.nq - 1]
    return function(**{name: given[name] for name in wanted})
