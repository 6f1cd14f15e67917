"""What every question to a model goes through: names and sizes, checks of arguments, native code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Self, TypeVar

import numpy as np

from heavytop._arrays import Array, Floats, Seed, is_finite, is_symbolic, numbers
from heavytop._likeness import Lasting
from heavytop._pickling import Unchanging
from heavytop.compile import Kernel, Traced
from heavytop.coordinates import Product
from heavytop.errors import ConfigurationError, ModelError, ShapeError, unknown_name, wrong_shape
from heavytop.system.bound_function import ModelFunction
from heavytop.system.constraints.scaling import CLOSED
from heavytop.system.description.description import Description
from heavytop.system.expressions import Expressions
from heavytop.system.validation.functions import check_inertia, why_not_finite
from heavytop.system.validation.physical_parameters import PhysicalConstants

Parameters = Mapping[str, Any] | None
Made = TypeVar("Made")

NEEDS_INERTIA = ("acceleration", "motion", "acceleration_derivatives", "parameter_derivatives", "linearization")
"""Functions that solve with the mass matrix; poses and Jacobians of bodies without mass need no inertia."""
QUICK_FROM = 8
"""After so many single configurations their manifold is checked by native code, which must be made first."""
MANIFOLD_TOLERANCE = 1e-6
"""Largest violation of phi(q) = 0 by a configuration that a caller gives."""


class Evaluation(Unchanging, Lasting):
    """The functions of a described system, evaluated on numbers or symbols."""

    def __init__(self, description: Description, native: bool = True) -> None:
        self.description = description
        self.expressions = Expressions(description)
        self.name = description.name
        self.native = native
        self._inertia_checked = False
        self._configurations_seen = 0
        self._kernels: dict[tuple[str, int | None, int | None], Kernel] = {}
        self._companions: dict[Callable[..., Any], Any] = {}

    def companion(self, make: Callable[[Self], Made]) -> Made:
        """What another layer makes of this model, ``make(model)``: made once, and let go together with the model.

        A dictionary of that layer with weak keys would never let go, because what is made refers to the model.

        >>> import heavytop as ht
        >>> system = ht.System()
        >>> system.body("ball", joint=ht.Free(), inertia=ht.Inertia(2.0, moment_at_com=(1, 1, 1)))
        >>> model = system.derive()
        >>> model.companion(repr) is model.companion(repr)
        True
        """
        if make not in self._companions:
            self._companions[make] = make(self)
        return self._companions[make]

    # --- sizes and names --------------------------------------------------------------------------------------------------

    @property
    def coordinates(self) -> Product:
        """The product of the joints' coordinate blocks."""
        return self.expressions.coordinates

    @property
    def nq(self) -> int:
        """Number of configuration coordinates."""
        return self.expressions.nq

    @property
    def nv(self) -> int:
        """Number of velocity coordinates: the degrees of freedom."""
        return self.expressions.nv

    @property
    def nu(self) -> int:
        """Number of inputs."""
        return self.expressions.nu

    @property
    def q_names(self) -> tuple[str, ...]:
        """Names of the configuration coordinates."""
        return self.coordinates.q_names

    @cached_property
    def v_names(self) -> tuple[str, ...]:
        """Names of the velocity coordinates."""
        if self.description.basis is not None:
            return self.description.basis.names
        if self.description.velocity is not None:
            return tuple(f"w_{i + 1}" for i in range(self.nv))
        return self.coordinates.v_names

    @property
    def u_names(self) -> tuple[str, ...]:
        """Names of the inputs."""
        return tuple(self.description.inputs)

    @property
    def q_units(self) -> tuple[str, ...]:
        """Unit of each configuration coordinate; "1" for pure numbers, empty where unknown."""
        return tuple(unit for edge in self.description.joints for unit in edge.joint.q_units)

    @property
    def v_units(self) -> tuple[str, ...]:
        """Unit of each velocity coordinate; empty where unknown, as for those of the user."""
        if self.description.velocity is not None or self.description.basis is not None:
            return ("",) * self.nv
        return tuple(unit for edge in self.description.joints for unit in edge.joint.v_units)

    @property
    def u_units(self) -> tuple[str, ...]:
        """Unit of each input; empty where unknown."""
        joints = {edge.label: edge.joint for edge in self.description.joints}
        inputs = self.description.inputs.values()
        return tuple(getattr(element, "unit", lambda joints: "")(joints) for element in inputs)

    @property
    def parameter_names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return tuple(p.name for p in self.description.parameters)

    @property
    def parameters(self) -> dict[str, float]:
        """Nominal values of the parameters by name: those that hold where a call gives no others.

        >>> import heavytop as ht
        >>> ht.library.pendulum().derive().parameters["g"]
        9.81
        """
        return dict(zip(self.parameter_names, self._default_parameters.tolist(), strict=True))

    @property
    def body_names(self) -> tuple[str, ...]:
        """Names of the bodies with inertia."""
        return tuple(self.description.inertias)

    @property
    def is_constrained(self) -> bool:
        """Whether loops or constraints act that the velocity coordinates do not already satisfy."""
        return self.expressions.is_constrained

    @property
    def holonomic_rows(self) -> np.ndarray:
        """Which rows of :meth:`constraint_jacobian` belong to equations phi(q) = 0: booleans (m,)."""
        rows = self.expressions.constrained.rows
        return np.concatenate([np.full(r.Phi.shape[0], r.phi is not None) for r in rows])

    def neutral(self) -> Floats:
        """The configuration of no displacement (nq,)."""
        return self.coordinates.neutral()

    def random(self, rng: Seed = None, shape: int | tuple[int, ...] = ()) -> Floats:
        """Random configurations (*shape, nq); ``rng`` is a generator or a seed, ``shape`` the batch or its length.

        >>> import heavytop as ht
        >>> ht.library.quadcopter().derive().random(0, 100).shape
        (100, 12)
        """
        return self.coordinates.random(rng, (shape,) if isinstance(shape, int) else shape)

    # --- evaluation -------------------------------------------------------------------------------------------------------

    def traced(self, name: str) -> Traced:
        """The traced function behind a method, for back ends and inspection."""
        if name in NEEDS_INERTIA and not self._inertia_checked:
            check_inertia(self)
            self._inertia_checked = True
        return self.expressions.traced(name)

    def compiled(self, name: str = "acceleration", lanes: int | None = None, threads: int | None = 1) -> Kernel:
        """The native code behind a method: a kernel that takes plain arrays, checks shapes only, and tells ``stats()``.

        Parameters
        ----------
        name : a method ("acceleration", "mass_matrix", ...), "pose:a:b" or "jacobian:a:b".
        lanes : states evaluated together; None: what suits the processor. Kernels of other lanes may differ by rounding.
        threads : threads over large batches; None: one per processor.
        """
        key = (name, lanes, threads)
        if key not in self._kernels:
            fingerprint = self.description.fingerprint
            if fingerprint is None:
                self._kernels[key] = Kernel(self.traced(name), lanes, threads)
            else:
                self._kernels[key] = Kernel.cached(f"{fingerprint} {name}", lambda: self.traced(name), lanes, threads)
        return self._kernels[key]

    def function(self, name: str, parameters: Parameters = None, threads: int | None = 1) -> ModelFunction:
        """The function of that name with its parameters bound, for loops, filters and optimisers that call it very often.

        Parameters
        ----------
        name : as in :meth:`compiled`.
        parameters : values that differ from the defaults.
        threads : threads over large batches; None: one per processor.

        >>> import heavytop as ht
        >>> model = ht.library.pendulum().derive()
        >>> energy = model.function("energy")
        >>> bool(energy(np.array([0.3]), np.array([1.0])) == model.energy([0.3], [1.0]))
        True
        """
        has_time = self.description.time is not None
        return ModelFunction(self.compiled(name, threads=threads), self.parameter_vector(parameters), has_time)

    def evaluate(self, name: str, *arguments: Array, parameters: Parameters = None) -> Any:
        """The function of that name at the given arrays, natively for numbers; only shapes are checked."""
        p = self.parameter_vector(parameters) if parameters else self._default_parameters
        if is_symbolic(*arguments, p) or not self.native:
            results = self.traced(name)(*arguments, p)
        else:
            kernel = self._kernels.get((name, None, 1)) or self.compiled(name)
            results = kernel(*arguments, p)
        return results[0] if len(results) == 1 else results

    def _finite(self, name: str, q: Array, *further: Array, parameters: Parameters = None) -> Any:
        """The function of that name at a checked state (q, v, ...); what is not finite there raises an error that tells why."""
        results = self.evaluate(name, q, *further, parameters=parameters)
        for result in results if isinstance(results, tuple) else (results,):
            if not is_symbolic(result) and not is_finite(result):
                v = further[0] if further else np.zeros(self.nv)
                why = why_not_finite(self, q, v, self.parameter_vector(parameters))
                raise ConfigurationError(f"the {name.replace('_', ' ')} of {self.name!r} is not finite: {why}")
        return results

    @cached_property
    def _default_parameters(self) -> Floats:
        values = self.description.parameter_values()
        values.setflags(write=False)
        return values

    def parameter_vector(self, parameters: Parameters = None) -> Floats:
        """Values (..., np) of all parameters: the defaults, with the given ones replaced."""
        if not parameters:
            return self._default_parameters.copy()
        if not isinstance(parameters, Mapping):
            raise ModelError(f"parameters of {self.name!r} must be a mapping from names to values, got {parameters!r}.")
        for name in parameters:
            if name not in self.parameter_names:
                raise unknown_name(f"parameter of {self.name!r}", str(name), self.parameter_names)
        columns = [
            numbers(parameters.get(p.name, p.value), f"parameter {p.name!r} of {self.name!r}")
            for p in self.description.parameters
        ]
        for p, column in zip(self.description.parameters, columns, strict=True):
            if not np.all(np.isfinite(column)):
                raise ShapeError(f"parameter {p.name!r} of {self.name!r} must be finite.")
        try:
            values = np.stack(np.broadcast_arrays(*columns), axis=-1)
        except ValueError:
            got = ", ".join(f"{p.name} {c.shape}" for p, c in zip(self.description.parameters, columns, strict=True))
            raise ShapeError(f"the parameters of {self.name!r} do not broadcast: {got}.") from None
        if not self._physical.names.isdisjoint(parameters):
            self._physical(values)
        return values

    @cached_property
    def _physical(self) -> PhysicalConstants:
        return PhysicalConstants(self.description)

    def _configuration(self, q: Array, closed: bool = False, parameters: Parameters = None) -> Array:
        if is_symbolic(q):
            return q
        if not self._is_on_manifold(q):
            q = self._checked_configuration(q)
        if closed and self._has_loops:
            self._check_closed(q, parameters)
        return q

    @cached_property
    def _has_loops(self) -> bool:
        """Whether equations phi(q) = 0 hold beyond those of the coordinates."""
        return self.is_constrained and bool(np.any(self.holonomic_rows))

    def _is_on_manifold(self, q: Array) -> bool:
        """Whether this is one configuration, finite and on its manifold, by the quickest test; False: look closer."""
        if type(q) is not np.ndarray or q.shape != (self.nq,) or q.dtype != np.float64 or not is_finite(q):
            return False
        if not self._equations_of_q:
            return True
        self._configurations_seen += 1
        if self._configurations_seen <= QUICK_FROM or not self.native:
            return False
        (phi,) = self._manifold(q, self._default_parameters)
        return phi.dot(phi) <= MANIFOLD_TOLERANCE**2

    @cached_property
    def _manifold(self) -> Kernel:
        return self.compiled("constraints")

    @cached_property
    def _equations_of_q(self) -> int:
        return len(self.coordinates.constraint_names)

    def _checked_configuration(self, q: Array) -> Floats:
        q = numbers(q, f"configuration q of {self.name!r}")
        if q.ndim == 0 or q.shape[-1] != self.nq:
            hint = f"Its coordinates are {', '.join(self.q_names)}."
            if q.ndim and q.shape[-1] == self.nv:
                hint = (
                    f"It has nq = {self.nq} configuration coordinates but nv = {self.nv} velocity coordinates. " + hint
                )
            raise wrong_shape(f"configuration q of {self.name!r}", ("...", self.nq), q.shape, hint)
        return self.coordinates.check(q, f"configuration q of {self.name!r}", MANIFOLD_TOLERANCE)

    def _check_closed(self, q: Floats, parameters: Parameters) -> None:
        miss = np.max(np.abs(self.evaluate("position_miss", q, parameters=parameters)), initial=0.0)
        if not miss <= CLOSED:
            worst = np.max(np.abs(self.evaluate("position_residual", q, parameters=parameters)))
            raise ConfigurationError(
                f"configuration q of {self.name!r} does not close its loops: it violates their constraints by {worst:.3g}, {miss:.3g} of their size "
                f"(tolerance {CLOSED:g}). Get a consistent start from model.assemble(q)."
            )
        self.check_branches(q, parameters)

    def check_branches(self, q: Floats, parameters: Parameters = None) -> None:
        """Raise a ConfigurationError where a loop closes with a joint turned by half a turn, which its equations cannot tell apart."""
        if not self.is_constrained or not self.expressions.branch_names:
            return
        values = self.evaluate("loop_branches", q, parameters=parameters)
        wrong = np.argwhere(~(values > 0))
        if len(wrong):
            name = self.expressions.branch_names[wrong[0][-1]]
            raise ConfigurationError(
                f"loop {name!r} of {self.name!r} is closed upside down: the frames of its joint face each other the wrong way round. Give a "
                "configuration on the other side, or turn at_a or at_b by half a turn if this is how it is built."
            )

    def _vector(self, x: Array, size: int, what: str) -> Array:
        if is_symbolic(x):
            return x
        if type(x) is np.ndarray and x.shape == (size,) and x.dtype == np.float64 and is_finite(x):
            return x
        x = numbers(x, f"{what} of {self.name!r}")
        if x.ndim == 0 or x.shape[-1] != size:
            hint = ""
            if what.startswith("velocity") and x.ndim and x.shape[-1] == self.nq:
                hint = (
                    f"It has nq = {self.nq} configuration coordinates but nv = {self.nv} velocity coordinates. "
                    "Did you pass the rate of q?"
                )
            raise wrong_shape(f"{what} of {self.name!r}", ("...", size), x.shape, hint)
        if not np.all(np.isfinite(x)):
            raise ShapeError(f"{what} of {self.name!r} must be finite, got {x[~np.isfinite(x)][0]} among its entries.")
        return x

    def _inputs(self, u: Array | None) -> Array:
        return np.zeros(self.nu) if u is None else self._vector(u, self.nu, "input u")
