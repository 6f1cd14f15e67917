"""Charts, minimal coordinates of a neighbourhood of a configuration, and the dynamics of a model in them.

``q = chart(q_bar, e)`` with ``e`` (nv,) around the centre ``q_bar``: joint coordinates are shifted, positions of free bodies are shifted
along the axes of the world, attitudes are rotated by the rotation vector ``e`` (in body axes), which is regular up to a full turn. A
motion with joint velocities ``w`` has ``e' = chart_rate(q_bar, e, w)``; :func:`residual` compares two configurations, regular up to
rotations by half a turn.

The dynamics are ``x' = rho(x, u)`` with ``x = (e, v)``, with exact first and second derivatives as native code. The derivatives of steps of any
Runge-Kutta method follow from these by the chain rule (:mod:`heavytop.ocp.shooting`), so that the programs depend on the model only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Self

import numpy as np

from heavytop._arrays import Array, concatenate, from_sx, jacobian, part, split, substitute, symbol, to_sx, transpose
from heavytop.compile import Kernel, Traced, trace_of
from heavytop.coordinates import Attitude, Coordinates, EulerAngles, Pose, Product, Vector
from heavytop.errors import ControlError
from heavytop.functions import Portable, store
from heavytop.geometry import so3
from heavytop.system import TIME, Model, solve_definite, symmetric


def chart(coordinates: Product, q_bar: Array, e: Array) -> Array:
    """The configuration (nq,) with the coordinates e (nv,) in the chart around q_bar (nq,); numbers with batch axes, or symbols.

    Examples
    --------
    >>> import heavytop as ht
    >>> model = ht.library.quadcopter().derive()
    >>> chart(model.coordinates, model.neutral(), np.array([1.0, 0, 0, 0, 0, np.pi / 2])).round(3)[:6] + 0.0
    array([1., 0., 0., 0., 1., 0.])
    """
    parts = zip(coordinates.blocks, coordinates.split_q(q_bar), coordinates.split_v(e), strict=True)
    return concatenate(*(_chart(block, q, d) for block, q, d in parts))


def chart_rate(coordinates: Product, q_bar: Array, e: Array, w: Array) -> Array:
    """The rate e' (nv,) of a motion with the joint velocities w (nv,)."""
    c = coordinates
    parts = zip(c.blocks, c.split_q(q_bar), c.split_v(e), c.split_v(w), strict=True)
    return concatenate(*(_rate(block, q, d, velocity) for block, q, d, velocity in parts))


def residual(coordinates: Product, q0: Array, q1: Array) -> Array:
    """Difference (nv,) of q1 from q0: zero if they agree, the coordinates of q1 in the chart around q0 up to third order.

    Attitudes are compared by Cayley's map ``2 tan(angle / 2)``: no branches, no second zero.
    """
    return _between(coordinates, q0, q1, cayley=True)


def place(coordinates: Product, q_bar: Array, q: Array) -> Array:
    """The e (nv,) with ``chart(q_bar, e) = q``: the shortest one."""
    return _between(coordinates, q_bar, q, cayley=False)


def is_turn(coordinates: Product) -> np.ndarray:
    """Which entries of e (nv,) belong to rotation vectors, whose chart ends at a full turn."""
    turns = []
    for block in coordinates.blocks:
        if isinstance(block, Pose):
            turns += [False] * 3 + [not isinstance(block.attitude_block, EulerAngles)] * 3
        else:
            turns += [isinstance(block, Attitude) and not isinstance(block, EulerAngles)] * block.nv
    return np.array(turns, dtype=bool)


def _chart(block: Coordinates, q: Array, e: Array) -> Array:
    if isinstance(block, Pose):
        r, attitude = block.split(q)
        return concatenate(r + part(e, 0, 3), _chart(block.attitude_block, attitude, part(e, 3, 6)))
    if isinstance(block, EulerAngles):
        return q + e
    return block.retract(q, e)


def _rate(block: Coordinates, q_bar: Array, e: Array, w: Array) -> Array:
    if isinstance(block, Pose):
        q = _chart(block, q_bar, e)
        moved = part(block.rate(q, w), 0, 3)
        turned = _rate(block.attitude_block, block.split(q_bar)[1], part(e, 3, 6), part(w, 3, 6))
        return concatenate(moved, turned)
    if isinstance(block, EulerAngles):
        return block.rate(q_bar + e, w)
    if block.is_group:
        return block.tangent_inverse(e, w)
    # q = chart(e), q' = (dq/de) e'
    at = symbol("e", block.nv)
    slope = substitute(jacobian(block.retract(q_bar, at), at), at, e)
    rate = block.rate(block.retract(q_bar, e), w)
    return solve_definite(symmetric(transpose(slope) @ slope), np.matvec(transpose(slope), rate))


def _between(block: Coordinates, q0: Array, q1: Array, cayley: bool) -> Array:
    """Difference (nv,) of q1 from q0; that of attitudes by Cayley's map or as a rotation vector."""
    if isinstance(block, Product):
        parts = zip(block.blocks, block.split_q(q0), block.split_q(q1), strict=True)
        return concatenate(*(_between(inner, a, b, cayley) for inner, a, b in parts))
    if isinstance(block, Pose):
        (r0, a0), (r1, a1) = block.split(q0), block.split(q1)
        return concatenate(r1 - r0, _between(block.attitude_block, a0, a1, cayley))
    if isinstance(block, EulerAngles):
        return q1 - q0
    if isinstance(block, Attitude) and cayley:
        return so3.cayley_inverse(transpose(block.rotation_matrix(q0)) @ block.rotation_matrix(q1))
    return block.difference(q0, q1)


Expression = tuple[Array, Array, Mapping[str, Array]]
"""Value (m,), the symbols (n,) by which it is differentiated, further symbols by name."""


class Derivatives(Portable):
    """A traced vector function with native code for its values, its Jacobian and the Hessian of ``lam . value``.

    Parameters
    ----------
    name : name of the function.
    build : returns the expression.
    fingerprint : text that determines the function, or None.
    """

    def __init__(self, name: str, build: Callable[[], Expression], fingerprint: str | None = None) -> None:
        self.name, self._build, self.fingerprint = name, build, fingerprint

    @cached_property
    def _expression(self) -> tuple[Array, Array, dict[str, Array]]:
        import casadi

        value, variables, symbols = self._build()
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
        """Structural nonzeros of the Jacobian (m, n) and of the Hessian (n, n) of all values."""
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


class ChartRates(Portable):
    """Rates of a model in charts; one object for each model.

    Attributes
    ----------
    coordinates, q_names : coordinates of the configurations q (nq,) and their names, those of the model.
    rho : (e, v, u), q_bar, p -> (e', v').
    link : (e, e_1), q_bar, q_bar_1 -> residual between e_1 in the chart around q_bar_1 and e in the chart around q_bar.
    """

    has_time = False

    def __init__(self, model: Model) -> None:
        if model.nu == 0:
            raise ControlError(f"{model.name!r} has no inputs: there is nothing to choose. Add system.input(...).")
        self.model = model
        self.coordinates, self.fingerprint = self._coordinates(), self._fingerprint()
        self.q_names, self.nq = self.coordinates.q_names, self.coordinates.nq
        self.ne, self.nv, self.nu = self.coordinates.nv, model.nv, model.nu
        self.nx = self.ne + self.nv
        self.rho = Derivatives("rates", self._rho, self.fingerprint)
        self.link = Derivatives("link", self._link, self.fingerprint)

    @classmethod
    def of(cls, model: Model) -> Self:
        """The rates of a model; the same object for the same model."""
        return model.functions.get(cls, lambda: cls(model))

    def recipe(self) -> tuple[Any, ...]:
        """The rates of the model, wherever it is pickled to."""
        return type(self).of, (self.model,)

    def _coordinates(self) -> Product:
        return self.model.coordinates

    def _fingerprint(self) -> str | None:
        return self.model.description.equations_key

    def traced(self, name: str) -> Traced:
        """A function of the model, its configurations as here."""
        return self.model.traced(name)

    def symbols(self) -> dict[str, Array]:
        """q_bar and p."""
        return {"q_bar": symbol("q_bar", self.nq), "p": symbol("p", len(self.model.parameter_names))}

    @cached_property
    def node(self) -> tuple[Array, dict[str, Array], Array]:
        """Symbols of a node: y = (e, v, u), q_bar and p by name, and the configuration q (nq,) as their expression."""
        y, symbols = symbol("y", self.nx + self.nu), self.symbols()
        return y, symbols, chart(self.coordinates, symbols["q_bar"], y[: self.ne])

    def shared(self, name: str, build: Callable[[], Expression]) -> Derivatives:
        """The function of an expression. Functions with equal expressions are one object, so that each is compiled once."""
        made = Derivatives(name, build)
        key = made.traced_value.key
        return store.get(("derivatives", key), lambda: Derivatives(name, build, f"expression {key}"))

    def _rho(self) -> Expression:
        c, symbols = self.coordinates, self.symbols()
        y = symbol("y", self.nx + self.nu)
        e, v, u = split(y, (self.ne, self.nv, self.nu))
        q = chart(c, symbols["q_bar"], e)
        w, a = self.traced("motion").expressions(q, v, u, symbols["p"])[:2]
        return concatenate(chart_rate(c, symbols["q_bar"], e, w), a), y, symbols

    def _link(self) -> Expression:
        c = self.coordinates
        y = symbol("y", 2 * self.ne)
        e, e_1 = split(y, (self.ne, self.ne))
        centres = {"q_bar": symbol("q_bar", self.nq), "q_bar_1": symbol("q_bar_1", self.nq)}
        return residual(c, chart(c, centres["q_bar_1"], e_1), chart(c, centres["q_bar"], e)), y, centres

    def parameters(self, parameters: Mapping[str, Any] | None = None) -> np.ndarray:
        """One value (np,) of each parameter."""
        values = self.model.parameter_vector(parameters)
        if values.ndim != 1:
            raise ControlError("plans and predictions take one value of each parameter, not batches.")
        return values


class TimedChartRates(ChartRates):
    """Rates of a model with the time as its last coordinate, ``t' = 1``: configurations are (q, t).

    A plan of free duration does not know when a node is passed. With the time as a coordinate of the node this is one more row,
    ``t_{k+1} = t_k + h``, and derivatives with respect to the durations follow like those with respect to the other
    coordinates. The entry of the time in p is not used.
    """

    has_time = True

    def __init__(self, model: Model) -> None:
        self._traced: dict[str, Traced] = {}
        super().__init__(model)

    def _coordinates(self) -> Product:
        c = self.model.coordinates
        return Product((*c.blocks, Vector(1)), names=(*(c.names or ()), TIME))

    def _fingerprint(self) -> str | None:
        described = super()._fingerprint()
        return None if described is None else f"{described} with time"

    def traced(self, name: str) -> Traced:
        """A function of the model with q = (q, t); rates of coordinates get the 1 of the time."""
        if name not in self._traced:
            inner, nq = self.model.traced(name), self.model.nq
            sizes = {label: shape[0] for label, shape in inner.inputs.items()} | {"q": self.nq}
            given = {label: symbol(label, size) for label, size in sizes.items()}
            values = {**given, "q": given["q"][:nq]}
            if self.model.description.time is not None:
                values["p"] = concatenate(given["p"][: len(self.model.parameter_names) - 1], given["q"][nq:])
            results = list(inner.expressions(*(values[label] for label in inner.inputs)))
            if name in ("motion", "rate"):
                results[0] = concatenate(results[0], np.ones(1))
            self._traced[name] = trace_of(name, given, dict(zip(inner.outputs, results, strict=True)))
        return self._traced[name]
