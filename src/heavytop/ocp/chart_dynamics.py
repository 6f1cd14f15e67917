"""A model in a chart: ``x' = rho(x, u)`` with ``x = (e, v)``, its exact first and second derivatives as native code.

One batch evaluates all stages of all steps of a plan. The derivatives of steps of any Runge-Kutta method follow from these by the chain
rule (:mod:`heavytop.ocp.shooting`), so that the programs depend on the model only: they are compiled once and found in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate, from_sx, split, symbol, to_sx
from heavytop._pickling import Unchanging
from heavytop.compile import Kernel, Traced, trace_of
from heavytop.errors import ControlError
from heavytop.ocp.charts import chart, chart_rate, miss
from heavytop.system.model import Model


class Derivatives(Unchanging):
    """A traced vector function with native code for its values, its Jacobian and the Hessian of ``lam . value``.

    Parameters
    ----------
    name : of the function.
    value : expression (m,).
    variables : the symbols (n,) it is differentiated by.
    symbols : further symbols it depends on, by name.
    fingerprint : text that determines it, or None.
    """

    def __init__(
        self, name: str, value: Callable[[], tuple[Array, Array, Mapping[str, Array]]], fingerprint: str | None = None
    ) -> None:
        self.name, self._value, self.fingerprint = name, value, fingerprint

    @cached_property
    def _expression(self) -> tuple[Array, Array, dict[str, Array]]:
        import casadi

        value, variables, symbols = self._value()
        return from_sx(casadi.cse(to_sx(value)), tuple(value.shape)), variables, {"y": variables, **symbols}

    @cached_property
    def traced_value(self) -> Traced:
        """y, ... -> value (m,)."""
        value, _, symbols = self._expression
        return trace_of(self.name, symbols, {"value": value})

    @cached_property
    def traced_first(self) -> Traced:
        """y, ... -> value (m,), Jacobian (m, n)."""
        import casadi

        value, y, symbols = self._expression
        slope = casadi.jacobian(to_sx(value), to_sx(y))
        slope = casadi.ArrayInterface(casadi.densify(slope), 2)
        return trace_of(f"{self.name}_first", symbols, {"value": value, "slope": slope})

    @cached_property
    def traced_second(self) -> Traced:
        """lam, y, ... -> Hessian (n, n) of lam . value."""
        import casadi

        value, y, symbols = self._expression
        lam = symbol("lam", value.shape[0])
        hessian, _ = casadi.hessian(casadi.dot(to_sx(lam), to_sx(value)), to_sx(y))
        hessian = casadi.ArrayInterface(casadi.densify(hessian), 2)
        return trace_of(f"{self.name}_second", {"lam": lam, **symbols}, {"hessian": hessian})

    @cached_property
    def patterns(self) -> tuple[np.ndarray, np.ndarray]:
        """Where the Jacobian (m, n) and the Hessian (n, n) of all values may differ from zero."""
        import casadi

        value, y, _ = self._expression
        first = np.array(casadi.DM(casadi.jacobian_sparsity(to_sx(value), to_sx(y)), 1).full(), dtype=bool)
        lam = casadi.SX.sym("lam", value.shape[0])
        gradient = casadi.gradient(casadi.dot(lam, to_sx(value)), to_sx(y))
        second = np.array(casadi.DM(casadi.jacobian_sparsity(gradient, to_sx(y)), 1).full(), dtype=bool)
        return first, second | second.T

    def _kernel(self, kind: str) -> Kernel:
        build = lambda: getattr(self, f"traced_{kind}")  # noqa: E731
        if self.fingerprint is None:
            return Kernel(build())
        return Kernel.cached(f"{self.fingerprint} {self.name} {kind}", build)

    @cached_property
    def value(self) -> Kernel:
        """Native values."""
        return self._kernel("value")

    @cached_property
    def first(self) -> Kernel:
        """Native values with the Jacobian."""
        return self._kernel("first")

    @cached_property
    def second(self) -> Kernel:
        """Native Hessian."""
        return self._kernel("second")


class ChartRates(Unchanging):
    """The rates of a model in charts, kept with the model.

    Attributes
    ----------
    rho : (e, v, u), q_bar, p -> (e', v').
    link : (e, e_1), q_bar, q_bar_1 -> miss of the place e_1 of the chart around q_bar_1 by the place e of the one around q_bar.
    """

    def __init__(self, model: Model) -> None:
        if model.nu == 0:
            raise ControlError(f"{model.name!r} has no inputs: there is nothing to choose. Add system.input(...).")
        self.model = model
        self.ne, self.nv, self.nu = model.coordinates.nv, model.nv, model.nu
        self.nx = self.ne + self.nv
        mark = model.description.fingerprint
        self.rho = Derivatives("rates", self._rho, mark)
        self.link = Derivatives("link", self._link, mark)

    @classmethod
    def of(cls, model: Model) -> ChartRates:
        """The rates of a model; the same object for the same model."""
        known = vars(model).get("_chart_rates")
        if known is None:
            known = vars(model)["_chart_rates"] = cls(model)
        return known

    def symbols(self) -> dict[str, Array]:
        """q_bar and p."""
        return {"q_bar": symbol("q_bar", self.model.nq), "p": symbol("p", len(self.model.parameter_names))}

    def _rho(self) -> tuple[Array, Array, dict[str, Array]]:
        c, symbols = self.model.coordinates, self.symbols()
        y = symbol("y", self.nx + self.nu)
        e, v, u = split(y, (self.ne, self.nv, self.nu))
        q = chart(c, symbols["q_bar"], e)
        w, a = self.model.traced("motion").expressions(q, v, u, symbols["p"])[:2]
        return concatenate(chart_rate(c, symbols["q_bar"], e, w), a), y, symbols

    def _link(self) -> tuple[Array, Array, dict[str, Array]]:
        c = self.model.coordinates
        y = symbol("y", 2 * self.ne)
        e, e_1 = split(y, (self.ne, self.ne))
        centres = {"q_bar": symbol("q_bar", self.model.nq), "q_bar_1": symbol("q_bar_1", self.model.nq)}
        return miss(c, chart(c, centres["q_bar_1"], e_1), chart(c, centres["q_bar"], e)), y, centres

    def parameters(self, parameters: Mapping[str, Any] | None = None) -> np.ndarray:
        """One value (np,) of each parameter."""
        values = self.model.parameter_vector(parameters)
        if values.ndim != 1:
            raise ControlError("plans and predictions take one value of each parameter, not batches.")
        return values
