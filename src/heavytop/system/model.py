"""A derived model: NumPy in, NumPy out, leading batch axes everywhere."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import numpy as np

from heavytop._arrays import Array, Floats, Seed, concatenate, is_finite, is_symbolic, numbers, shape
from heavytop._elsewhere import Advised
from heavytop._format import Overview, Shown, listed
from heavytop.compile import Functions, Kernel, Shape, Traced, export_c
from heavytop.coordinates import Product
from heavytop.errors import ConfigurationError, ModelError, ShapeError, unknown_name, wrong_shape
from heavytop.functions import Value, instance_key, is_local
from heavytop.geometry import linalg
from heavytop.system.constraints.assembly import GUESSES, assemble_any
from heavytop.system.constraints.constraints import check_constraints
from heavytop.system.constraints.scaling import ASSEMBLED, CLOSED
from heavytop.system.contacts.holding import held_description
from heavytop.system.description.description import Description, at_defaults
from heavytop.system.dynamics import tangent
from heavytop.system.dynamics.rheonomic import with_time
from heavytop.system.dynamics.sparse_ldl import dependent_rows, independent_rows
from heavytop.system.dynamics.tangent import MinimalTangent
from heavytop.system.expressions import Expressions
from heavytop.system.forces.contact import CompliantContact
from heavytop.system.inverse_kinematics.result import InverseKinematics
from heavytop.system.inverse_kinematics.solve import inverse_kinematics
from heavytop.system.inverse_kinematics.tasks import KinematicTask
from heavytop.system.validation.functions import check_elements, check_inertia, check_joints, why_not_finite
from heavytop.system.validation.physical_parameters import PhysicalConstants
from heavytop.system.validation.singularities import check_friction

if TYPE_CHECKING:
    from heavytop.equations import Equations
    from heavytop.show import InlinePage

Parameters = Mapping[str, Any] | None
Made = TypeVar("Made")

NEEDS_INERTIA = (
    *("acceleration", "motion", "acceleration_derivatives", "parameter_derivatives", "linearization"),
    *("multipliers", "constraint_forces", "constraint_acceleration"),
)
"""Functions that solve with the mass matrix; other functions need no inertia."""
QUICK_FROM = 8
"""Number of single configurations after which the manifold is checked by compiled code."""
EQUATION = r"M(q)\,\dot v + c(q, v) + D(q)\,v + f_K(q) + f_G(q) = B(q)\,u,\qquad \dot q = A(q)\,v"
MANIFOLD_TOLERANCE = 1e-6
"""Largest violation of phi(q) = 0 by a given configuration."""


class Momentum(NamedTuple):
    """Linear momentum (..., 3) in kg m/s and angular momentum (..., 3) in kg m^2/s, in world axes."""

    linear: Floats
    angular: Floats


class Power(NamedTuple):
    """Power (...) in W of the inputs, of dissipation, of all other nonconservative forces (supplied), and of drivers.

    The energy of the system changes at the rate ``input + supplied - dissipated + driver``.
    """

    input: Floats
    dissipated: Floats
    supplied: Floats
    driver: Floats | float = 0.0


class ContactForce(NamedTuple):
    """Force (..., 3) in N on the body of a contact, in world axes, and the least gap (...) in m of its points, negative where it touches."""

    force: Floats
    gap: Floats


class ModelFunction:
    """A function of a model as native code, its parameters bound; made by :meth:`Model.function`.

    A call checks only shapes: entries that are not finite and configurations off their manifold lead to meaningless results instead of an
    error. Several threads may call it at the same time.

    Attributes
    ----------
    name : name of the function.
    inputs, outputs : name -> trailing shape, in the order of the arguments and of the results.

    Examples
    --------
    >>> import heavytop as ht
    >>> system = ht.System()
    >>> system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
    >>> acceleration = system.derive().function("acceleration")
    >>> acceleration.inputs
    {'q': (1,), 'v': (1,), 'u': (0,)}
    >>> a = np.empty(1)
    >>> acceleration(np.array([0.1]), np.array([0.0]), np.zeros(0), out=a) is a
    True
    >>> a.round(4)
    array([-0.9794])
    """

    def __init__(self, kernel: Kernel, parameters: np.ndarray, has_time: bool = False) -> None:
        self._kernel = kernel
        self._parameters = parameters
        self._has_time = has_time
        self._single = len(kernel.outputs) == 1
        self._shapes = tuple(kernel.outputs.values())
        self._call = kernel.fast_call(parameters)

    @property
    def name(self) -> str:
        """Name of the function."""
        return self._kernel.signature.name

    @property
    def inputs(self) -> dict[str, Shape]:
        """Trailing shape of each argument."""
        return {label: shape for label, shape in self._kernel.inputs.items() if label != "p"}

    @property
    def outputs(self) -> dict[str, Shape]:
        """Trailing shape of each result."""
        return dict(self._kernel.outputs)

    def __call__(
        self, *arguments: Array, out: np.ndarray | Sequence[np.ndarray] | None = None
    ) -> np.ndarray | tuple[np.ndarray, ...]:
        """Evaluate at arrays with leading batch axes, which broadcast; ``out``: the array, or the arrays, to be filled and returned."""
        call = self._call
        if call is not None:  # arrays of one state with the right type and layout: native code only
            if self._single:
                place = np.empty(self._shapes[0]) if out is None else out
                if call(*arguments, place):
                    return place  # type: ignore[return-value]
            elif out is None or type(out) in (tuple, list):
                places = tuple([np.empty(shape) for shape in self._shapes]) if out is None else tuple(out)
                if call(*arguments, *places):
                    return places
        self._check_count(arguments)
        if self._single:
            return self._kernel(*arguments, self._parameters, out=None if out is None else (out,))[0]  # type: ignore[arg-type]
        if out is not None and not isinstance(out, tuple | list):
            raise ShapeError(
                f"out of {self.name} must be a pair or a list of {len(self._shapes)} arrays, got {type(out).__name__}."
            )
        return self._kernel(*arguments, self._parameters, out=out)

    def at(
        self, time: Array, *arguments: Array, out: np.ndarray | Sequence[np.ndarray] | None = None
    ) -> np.ndarray | tuple[np.ndarray, ...]:
        """Evaluate at a time (...) in s, for models whose equations depend on it."""
        if not self._has_time:
            raise ModelError(f"{self.name} does not depend on the time.")
        self._check_count(arguments)
        places = (out,) if self._single and out is not None else out
        results = self._kernel(*arguments, with_time(self._parameters, time), out=places)  # type: ignore[arg-type]
        return results[0] if self._single else results

    def _check_count(self, arguments: Sequence[Array]) -> None:
        names = self.inputs
        if len(arguments) != len(names):
            raise ShapeError(f"{self.name}({', '.join(names)}) takes {len(names)} arrays, got {len(arguments)}.")

    def __repr__(self) -> str:
        return f"ModelFunction({self.name}({', '.join(self.inputs)}) -> {', '.join(self.outputs)})"


class Model(Value, Shown, Advised):
    """Equations of motion ``M a + c + D v + fK + fG = B u`` with ``q' = A(q) v`` and ``phi(q) = 0``.

    Every method takes numbers with leading batch axes (they broadcast) or symbols. ``parameters`` maps names to values that
    replace the defaults; they broadcast like the state.

    Attributes
    ----------
    nq, nv, nu : numbers of configuration coordinates, velocity coordinates (the degrees of freedom of a tree) and inputs.
    q_names, v_names, u_names, parameter_names : their names, ``joint.component``.
    body_names : names of the bodies with inertia.
    coordinates : product of the joints' coordinate blocks.
    is_constrained : whether there are loops or constraints that the velocity coordinates do not already satisfy.
    parameters : nominal values of the parameters by name, a new dictionary each time.
    """

    def __init__(self, description: Description, native: bool = True) -> None:
        self.description = description
        self.expressions = Expressions(description)
        self.name = description.name
        self.native = native
        self.coordinates: Product = self.expressions.coordinates
        self.nq, self.nv, self.nu = self.expressions.nq, self.expressions.nv, self.expressions.nu
        self.q_names, self.u_names = self.coordinates.q_names, tuple(description.inputs)
        self.parameter_names = tuple(p.name for p in description.parameters)
        self.body_names = tuple(description.inertias)
        self.is_constrained = self.expressions.is_constrained
        self.functions = Functions(self._trace, description.equations_key)
        self._configurations_seen = itertools.count(1)

    def _make_key(self) -> str | None:
        found = super()._make_key()
        # equations with user-defined functions are those of the moment they were derived
        return found if found is None or not is_local(found) else instance_key()

    def __repr__(self) -> str:
        return f"Model({self.name!r}: nq={self.nq}, nv={self.nv}, nu={self.nu}, bodies={len(self.body_names)})"

    def _overview(self) -> Overview:
        rows = [
            ("bodies", listed(self.body_names)),
            (f"q ({self.nq})", listed(self.q_names)),
            (f"v ({self.nv})", listed(self.v_names)),
            (f"u ({self.nu})", listed(self.u_names)),
        ]
        if self.is_constrained:
            rows.append(("constraints", listed(self.constraint_names)))
        else:  # with constraints they depend on the configuration
            rows.append(("degrees of freedom", str(self.nv)))
        rows.append(("parameters", listed(f"{p.name} = {p.value:.6g}" for p in self.description.parameters)))
        reaction = r" + \Phi(q)^T \lambda,\qquad \phi(q) = 0" if self.is_constrained else ""
        return Overview(f"Model {self.name}", tuple(rows), EQUATION.replace(r"\,u,", rf"\,u{reaction},"))

    def check(self) -> None:
        """Raise an error for an invalid description now instead of at the first evaluation."""
        if self.functions.in_cache("acceleration"):
            return  # the same description was checked and compiled before
        check_joints(self.description)
        check_elements(self.expressions.dynamics, self.expressions.p)
        if self.description.loops or self.description.constraints:
            check_constraints(self)

    # --- sizes and names --------------------------------------------------------------------------------------------------

    @cached_property
    def v_names(self) -> tuple[str, ...]:
        """Names of the velocity coordinates."""
        if self.description.basis is not None:
            return self.description.basis.names
        if self.description.velocity is not None:
            return tuple(f"w_{i + 1}" for i in range(self.nv))
        return self.coordinates.v_names

    @property
    def q_units(self) -> tuple[str, ...]:
        """Unit of each configuration coordinate; "1" for pure numbers, empty where unknown."""
        return tuple(unit for edge in self.description.joints for unit in edge.joint.q_units)

    @property
    def v_units(self) -> tuple[str, ...]:
        """Unit of each velocity coordinate; empty where unknown, as for user-defined ones."""
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
    def parameters(self) -> dict[str, float]:
        """Nominal values of the parameters by name.

        >>> import heavytop as ht
        >>> ht.library.pendulum().derive().parameters["g"]
        9.81
        """
        return dict(zip(self.parameter_names, self._default_parameters.tolist(), strict=True))

    @property
    def holonomic_rows(self) -> np.ndarray:
        """Which rows of :meth:`constraint_jacobian` belong to equations phi(q) = 0: booleans (m,)."""
        rows = self.expressions.constrained.rows
        return np.concatenate([np.full(r.Phi.shape[0], r.phi is not None) for r in rows])

    def neutral(self) -> Floats:
        """The configuration without displacement (nq,)."""
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
        return self.functions.traced(name)  # pyright: ignore[reportReturnType]

    def _trace(self, name: str) -> Traced:
        if name in NEEDS_INERTIA:
            self._check_inertia()
        return self.expressions.traced(name)

    def _check_inertia(self) -> None:
        self.functions.get("inertia checked", lambda: check_inertia(self))

    def compiled(self, name: str = "acceleration", lanes: int | None = None, threads: int | None = 1) -> Kernel:
        """The compiled code behind a method: a kernel that takes plain arrays, checks only shapes, and reports ``stats()``.

        Parameters
        ----------
        name : a method ("acceleration", "mass_matrix", ...), "pose:a:b" or "jacobian:a:b".
        lanes : states evaluated together; None: as suits the processor. Kernels with other lanes may differ by rounding.
        threads : threads over large batches; None: one per processor.
        """
        return self.functions.kernel(name, lanes, threads)  # pyright: ignore[reportReturnType]

    def function(self, name: str, parameters: Parameters = None, threads: int | None = 1) -> ModelFunction:
        """The named function with its parameters bound, for loops, filters and optimisers that call it very often.

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
        """The named function at the given arrays, by compiled code for numbers; only shapes are checked."""
        p = self.parameter_vector(parameters) if parameters else self._default_parameters
        if is_symbolic(*arguments, p) or not self.native:
            results = self.traced(name)(*arguments, p)
        else:
            results = self.compiled(name)(*arguments, p)
        return results[0] if len(results) == 1 else results

    def _finite(self, name: str, q: Array, *further: Array, parameters: Parameters = None) -> Any:
        """The named function at a checked state (q, v, ...); raises an error with the reason if it is not finite."""
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
        """Values (..., np) of all parameters: the given ones, else the defaults."""
        if not parameters:
            return self._default_parameters.copy()
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
        """Whether this is one configuration, finite and on its manifold, by a fast test; False: check closely, as in the first calls."""
        if type(q) is not np.ndarray or q.shape != (self.nq,) or q.dtype != np.float64 or not is_finite(q):
            return False
        if not self._equations_of_q:
            return True
        if next(self._configurations_seen) <= QUICK_FROM or not self.native:
            return False
        (phi,) = self._manifold(q, self._default_parameters)
        return bool(phi.dot(phi) <= MANIFOLD_TOLERANCE**2)

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
        relative = np.max(np.abs(self.evaluate("relative_position_residual", q, parameters=parameters)), initial=0.0)
        if not relative <= CLOSED:
            worst = np.max(np.abs(self.evaluate("position_residual", q, parameters=parameters)))
            raise ConfigurationError(
                f"configuration q of {self.name!r} does not close its loops: they are violated by {worst:.3g}, {relative:.3g} of their size "
                f"(tolerance {CLOSED:g}). Get a consistent start from model.assemble(q)."
            )
        self.check_branches(q, parameters)

    def check_branches(self, q: Floats, parameters: Parameters = None) -> None:
        """Raise a ConfigurationError for a loop that is closed with its joint turned by half a turn, which also satisfies the equations."""
        if not self.is_constrained or not self.expressions.branch_names:
            return
        values = self.evaluate("loop_branches", q, parameters=parameters)
        wrong = np.argwhere(~(values > 0))
        if len(wrong):
            name = self.expressions.branch_names[wrong[0][-1]]
            raise ConfigurationError(
                f"loop {name!r} of {self.name!r} is closed upside down: the frames of its joint are turned by half a turn. Give a configuration on "
                "the other side, or turn at_a or at_b by half a turn if it is built like this."
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

    def _state(self, q: Array, v: Array, closed: bool = False, parameters: Parameters = None) -> tuple[Array, Array]:
        return self._configuration(q, closed, parameters), self._vector(v, self.nv, "velocity v")

    def _rates(self, a: Array) -> Array:
        return self._vector(a, self.nv, "acceleration a")

    def _inputs(self, u: Array | None) -> Array:
        return np.zeros(self.nu) if u is None else self._vector(u, self.nu, "input u")

    # --- configurations ---------------------------------------------------------------------------------------------------

    def integrate(self, q: Array, v: Array, dt: Any) -> Floats:
        """The configuration after moving with constant joint velocities for the time ``dt``; it stays on the manifold."""
        q, v, dt = self._configuration(q), self._vector(v, self.nv, "velocity v"), np.asarray(dt, dtype=float)
        if not np.all(np.isfinite(dt)):
            raise ShapeError(f"the time dt to move {self.name!r} for must be finite, got {dt[~np.isfinite(dt)][0]}.")
        return self.coordinates.integrate(q, self.evaluate("joint_velocity", q, v), dt)

    def difference(self, q0: Array, q1: Array) -> Floats:
        """Constant velocity (..., nv) from q0 to q1 in unit time: ``integrate(q0, difference(q0, q1), 1) = q1``.

        With minimal velocities of a constrained system it is the least-squares solution.
        """
        q0, q1 = self._configuration(q0), self._configuration(q1)
        delta = self.coordinates.difference(q0, q1)
        d = self.description
        if d.velocity is None and d.basis is None and all(e.joint.velocity_frame == "relative" for e in d.joints):
            return delta
        drift = self.evaluate("joint_velocity", q0, np.zeros(self.nv))
        return np.matvec(linalg.pseudo_inverse(self.evaluate("joint_rows", q0)), delta - drift)

    # --- coordinates ------------------------------------------------------------------------------------------------------

    def kinematics_matrix(self, q: Array, parameters: Parameters = None) -> Floats:
        """A (..., nq, nv) of q' = A v."""
        return self.evaluate("kinematics_matrix", self._configuration(q), parameters=parameters)

    def rate(self, q: Array, v: Array, parameters: Parameters = None) -> Floats:
        """q' (..., nq)."""
        return self.evaluate("rate", *self._state(q, v), parameters=parameters)

    def constraints(self, q: Array, parameters: Parameters = None) -> Floats:
        """phi(q) (..., m): relations of the coordinates, then loops and holonomic constraints; zero where they hold.

        Unlike for other methods, q may be off the manifold.
        """
        q = self._vector(q, self.nq, "configuration q")
        phi = self.coordinates.constraints(q)
        if not self.is_constrained:
            return phi
        return concatenate(phi, self.evaluate("position_residual", q, parameters=parameters))

    def commutation(self, q: Array, parameters: Parameters = None) -> Floats:
        """Commutation coefficients gamma^k_ij (..., nv, nv, nv), indexed [k, i, j] (eq. 2.19)."""
        return self.evaluate("commutation", self._configuration(q), parameters=parameters)

    def connection(self, q: Array, parameters: Parameters = None) -> Floats:
        """Levi-Civita connection coefficients Gamma_ijk (..., nv, nv, nv), c_i = Gamma_ijk v^j v^k (eq. 3.112)."""
        return self.evaluate("connection", self._configuration(q), parameters=parameters)

    # --- constraints ------------------------------------------------------------------------------------------------------

    @property
    def constraint_names(self) -> tuple[str, ...]:
        """Names of the loops and constraints."""
        return tuple(c.name for c in (*self.description.loops, *self.description.constraints))

    def constraint_jacobian(self, q: Array, parameters: Parameters = None) -> Floats:
        """Phi (..., m, nv): loops and constraints demand Phi v + b = 0. Rows may be redundant."""
        self._need_constraints("constraint_jacobian")
        return self.evaluate("constraint_jacobian", self._configuration(q), parameters=parameters)

    def constraint_residuals(self, q: Array, v: Array, parameters: Parameters = None) -> tuple[Floats, Floats]:
        """Residuals of loops and constraints: phi(q) of the holonomic ones, and Phi v + b."""
        self._need_constraints("constraint_residuals")
        q, v = self._state(q, v)
        position = self.evaluate("position_residual", q, parameters=parameters)
        return position, self.evaluate("velocity_residual", q, v, parameters=parameters)

    def constraint_forces(
        self, q: Array, v: Array, u: Array | None = None, parameters: Parameters = None
    ) -> dict[str, Floats]:
        """Ideal reactions by name: for a loop the wrench (..., 6) (force, moment) on its body b in the axes and at the origin of the
        joint frame there; for other constraints the generalised force (..., nv). Redundant equations share a reaction arbitrarily
        (:meth:`redundant_constraints`).
        """
        self._need_constraints("constraint_forces")
        q, v = self._state(q, v, closed=True, parameters=parameters)
        forces = self.evaluate("constraint_forces", q, v, self._inputs(u), parameters=parameters)
        return dict(zip(self.constraint_names, forces if isinstance(forces, tuple) else (forces,), strict=True))

    def assemble(
        self,
        q: Array | None = None,
        v: Array | None = None,
        fixed: tuple[str, ...] = (),
        parameters: Parameters = None,
        tolerance: float = ASSEMBLED,
    ) -> tuple[Floats, Floats]:
        """A consistent state near the guess: closed loops and admissible velocities.

        Parameters
        ----------
        q, v : guess (nq,), (nv,); None: neutral configuration, or a random one if loops do not close from there; at rest.
        fixed : joints whose configuration and velocity stay as given (drive a mechanism by its crank).
        tolerance : largest residual: of positions relative to the length of the system, of directions relative to 1.
        """
        guess_q: Floats = self.neutral() if q is None else self._configuration(q)
        guess_v: Floats = np.zeros(self.nv) if v is None else self._vector(v, self.nv, "velocity v")
        if not self.is_constrained:
            return guess_q, guess_v
        guesses = [guess_q]
        if q is None and not fixed:  # links that are stretched in the neutral configuration do not close from there
            guesses += list(self.random(np.random.default_rng(0), (GUESSES,)))
        start = assemble_any(self, guesses, guess_v, fixed, parameters, tolerance)
        self.check_branches(start[0], parameters)
        return start

    def degrees_of_freedom(self, q: Array, parameters: Parameters = None) -> int:
        """Velocity coordinates less the independent constraints at one configuration ``q``."""
        if not self.is_constrained:
            return self.nv
        self._check_inertia()
        Phi, M = self.constraint_jacobian(q, parameters), self.mass_matrix(q, parameters)
        return self.nv - independent_rows(Phi, M, self.expressions.constrained.groups)

    def redundant_constraints(self, q: Array, parameters: Parameters = None) -> tuple[str, ...]:
        """Names of the loops and constraints whose forces are not unique at one configuration ``q``: other forces have the same effect.

        >>> import heavytop as ht
        >>> system = ht.System()
        >>> system.body("table", joint=ht.Free(), inertia=ht.Inertia(1.0, moment_at_com=(1, 1, 1)))
        >>> system.ground(friction=0.5)
        >>> system.contact("table", "ground", ht.Points([(1, 0, 0), (-1, 1, 0), (-1, -1, 0)]))
        >>> held = system.derive(native=False).holding(q=[0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1])
        >>> held.redundant_constraints(held.neutral())  # three points that stick share their friction
        ('table 1', 'table 2', 'table 3')
        """
        if not self.is_constrained:
            return ()
        loose = iter(dependent_rows(self.constraint_jacobian(q, parameters)).tolist())
        rows = [(part.name, shape(part.drift)[0]) for part in self.expressions.constrained.rows]
        redundant = {name for name, size in rows for is_loose in itertools.islice(loose, size) if is_loose}
        return tuple(name for name in self.constraint_names if name in redundant)

    def minimal_tangent(
        self, q: Array, v: Array | None = None, independent: Sequence[str] = (), parameters: Parameters = None
    ) -> MinimalTangent:
        """Minimal coordinates of deviations from states that satisfy loops and constraints, as used by :meth:`linearize`.

        ``independent`` names joints whose coordinates must be among them; by default the best conditioned choice at the first state.

        Examples
        --------
        >>> import heavytop as ht
        >>> model = ht.library.four_bars(1).derive(native=False)
        >>> model.minimal_tangent(model.assemble([1.2, 1.0, -1.0])[0], independent=("crank0",)).names
        ('along crank0.rate', 'crank0.rate')
        """
        q = self._configuration(q, closed=True, parameters=parameters)
        velocity: Any = np.zeros(self.nv) if v is None else self._vector(v, self.nv, "velocity v")
        return tangent.minimal_tangent(self, q, velocity, parameters, independent)

    @property
    def _is_tree(self) -> bool:
        d = self.description
        return not (d.loops or d.constraints or self.expressions.has_moving_rates)

    def _need_constraints(self, method: str) -> None:
        if not self.is_constrained:
            raise ModelError(
                f"{method}: {self.name!r} has no loops or constraints to enforce (a basis satisfies them already)."
            )

    # --- equations of motion ----------------------------------------------------------------------------------------------

    def mass_matrix(self, q: Array, parameters: Parameters = None) -> Floats:
        """M (..., nv, nv), symmetric positive definite (eq. 3.125a)."""
        return self._finite("mass_matrix", self._configuration(q), parameters=parameters)

    def bias(self, q: Array, v: Array, parameters: Parameters = None) -> Floats:
        """c (..., nv): Coriolis and gyroscopic forces (eq. 3.125b)."""
        return self._finite("bias", *self._state(q, v), parameters=parameters)

    def coriolis_matrix(self, q: Array, v: Array, parameters: Parameters = None) -> Floats:
        """C (..., nv, nv) with C v = c and d/dt(M) - 2 C skew-symmetric, in any velocity coordinates."""
        return self._finite("coriolis_matrix", *self._state(q, v), parameters=parameters)

    def damping_matrix(self, q: Array, parameters: Parameters = None) -> Floats:
        """D (..., nv, nv) of dampers and quadratic dissipation functions (eq. 3.125c)."""
        return self._finite("damping_matrix", self._configuration(q), parameters=parameters)

    def dissipation_force(self, q: Array, v: Array, parameters: Parameters = None) -> Floats:
        """f^D = dR/dv (..., nv): D v and the forces of dissipation functions that are not quadratic."""
        return self._finite("dissipation_force", *self._state(q, v), parameters=parameters)

    def stiffness_force(self, q: Array, parameters: Parameters = None) -> Floats:
        """f^K (..., nv): gradient of the spring energy and of the user's potentials (eq. 3.125d)."""
        return self._finite("stiffness_force", self._configuration(q), parameters=parameters)

    def gravity_force(self, q: Array, parameters: Parameters = None) -> Floats:
        """f^G (..., nv): gradient of the gravity energy (eq. 3.125e, erratum 0.41)."""
        return self._finite("gravity_force", self._configuration(q), parameters=parameters)

    def applied_force(self, q: Array, v: Array, parameters: Parameters = None) -> Floats:
        """The user's generalised forces f(q, v) (..., nv) on the right-hand side."""
        return self._finite("applied_force", *self._state(q, v), parameters=parameters)

    def input_matrix(self, q: Array, parameters: Parameters = None) -> Floats:
        """B (..., nv, nu): generalised force per unit of each input."""
        return self._finite("input_matrix", self._configuration(q), parameters=parameters)

    def acceleration(self, q: Array, v: Array, u: Array | None = None, parameters: Parameters = None) -> Floats:
        """Forward dynamics a (..., nv) (eq. 3.126b); ``u`` None means no input."""
        q, v = self._state(q, v, closed=True, parameters=parameters)
        a = self._finite("acceleration", q, v, self._inputs(u), parameters=parameters)
        if self.description.has_reaction_friction and not is_symbolic(a):
            check_friction(self, q, v, parameters)
        return a

    def inverse_dynamics(self, q: Array, v: Array, a: Array, parameters: Parameters = None) -> Floats:
        """Generalised force (..., nv) required of the inputs for the acceleration ``a``: M a + c + D v + fK + fG - f."""
        return self._finite("inverse_dynamics", *self._state(q, v), self._rates(a), parameters=parameters)

    def acceleration_derivatives(
        self, q: Array, v: Array, u: Array | None = None, parameters: Parameters = None
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """The acceleration a (..., nv) and its derivatives: along the velocity coordinates (d_i a), by v, by u.

        With loops, velocity constraints or a basis: by the minimal coordinates (xi, eta) of :meth:`minimal_tangent`, and by u.
        """
        (q, v), given = self._state(q, v), self._inputs(u)
        if not self._is_tree:
            minimal = self.minimal_tangent(q, v, parameters=parameters)
            return tangent.acceleration_derivatives(self, q, v, given, parameters, minimal)
        return self._finite("acceleration_derivatives", q, v, given, parameters=parameters)

    def parameter_derivatives(
        self, q: Array, v: Array, u: Array | None = None, parameters: Parameters = None
    ) -> Floats:
        """Derivatives (..., nv, np) of the acceleration by the parameters, in the order of ``parameter_names``; exact.

        Examples
        --------
        >>> import heavytop as ht
        >>> system = ht.System()
        >>> length = system.parameter("length", 2.0)
        >>> system.body("bob", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -length)))
        >>> system.derive().parameter_derivatives([0.1], [0.0]).round(4)
        array([[0.2448]])
        """
        q, v = self._state(q, v, closed=True, parameters=parameters)
        if not self.parameter_names:
            raise ModelError(
                f"{self.name!r} has no parameters. Declare them with system.parameter(name, value) and use them in its description."
            )
        return self._finite("parameter_derivatives", q, v, self._inputs(u), parameters=parameters)

    def linearize(
        self,
        q: Array,
        v: Array | None = None,
        u: Array | None = None,
        parameters: Parameters = None,
        *,
        independent: Sequence[str] = (),
    ) -> tuple[Floats, Floats]:
        """Linear equations x' = A x + B du about a motion, in tangent coordinates x = (eps, dv) (2 nv).

        ``eps`` is the displacement q - q_ref = A(q) eps and ``dv`` the deviation of the velocity coordinates; redundant coordinates add
        no spurious states. With loops, velocity constraints or a basis x = (xi, eta) are the deviations of independent coordinates and
        velocities: :meth:`minimal_tangent` returns which, and the dependence of all others on them. ``independent`` names joints to choose.
        ``v`` and ``u`` default to zero. About an arm that motors hold, give the inputs that hold it, ``u=control.equilibrium(model, q).u``:
        a :class:`.NotAtRestWarning` is issued if the model does not stay at q without inputs.

        Returns
        -------
        A : (..., 2 nv, 2 nv), B : (..., 2 nv, nu); with constraints nx instead of 2 nv.

        Examples
        --------
        >>> import heavytop as ht
        >>> system = ht.System()
        >>> system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
        >>> A, _ = system.derive().linearize([0.0])
        >>> A.round(3) + 0.0
        array([[ 0.  ,  1.  ],
               [-9.81,  0.  ]])
        """
        left_out = v is None and u is None
        q, v = self._configuration(q), np.zeros(self.nv) if v is None else self._vector(v, self.nv, "velocity v")
        if not self._is_tree:
            velocity: Any = v
            minimal = self.minimal_tangent(q, velocity, independent, parameters)
            found = tangent.linearization(self, q, velocity, self._inputs(u), parameters, minimal)
        else:
            found = self._finite("linearization", q, v, self._inputs(u), parameters=parameters)
        if left_out and self.nu and not is_symbolic(q):
            tangent.warn_if_not_at_rest(self, np.asarray(q), self.parameter_vector(parameters), found[0])
        return found

    # --- frames -----------------------------------------------------------------------------------------------------------

    def pose(self, a: str, b: str, q: Array, parameters: Parameters = None) -> Floats:
        """G_ab (..., 4, 4): pose of frame b in frame a."""
        return self.evaluate(f"pose:{a}:{b}", self._configuration(q), parameters=parameters)

    def jacobian(self, a: str, b: str, q: Array, parameters: Parameters = None) -> Floats:
        """J_ab (..., 6, nv): body twist (linear, angular) of b relative to a is J_ab v."""
        return self.evaluate(f"jacobian:{a}:{b}", self._configuration(q), parameters=parameters)

    def jacobian_rate(self, a: str, b: str, q: Array, v: Array, parameters: Parameters = None) -> Floats:
        """d/dt(J_ab) (..., 6, nv) along the motion (eq. 3.124c, erratum 0.44)."""
        return self.evaluate(f"jacobian_rate:{a}:{b}", *self._state(q, v), parameters=parameters)

    def twist(self, a: str, b: str, q: Array, v: Array, parameters: Parameters = None) -> Floats:
        """xi_ab (..., 6): linear and angular velocity of frame b relative to frame a, in axes of b (eq. 3.104)."""
        return self.evaluate(f"twist:{a}:{b}", *self._state(q, v), parameters=parameters)

    def twist_rate(
        self, a: str, b: str, q: Array, v: Array, acceleration: Array, parameters: Parameters = None
    ) -> Floats:
        """d/dt(xi_ab) = J_ab a + d/dt(J_ab) v (..., 6) for the velocity rates ``acceleration`` (nv,)."""
        name = f"twist_rate:{a}:{b}"
        return self.evaluate(name, *self._state(q, v), self._rates(acceleration), parameters=parameters)

    def inverse_kinematics(
        self,
        targets: Mapping[str, Any] | None = None,
        q0: Array | None = None,
        *,
        limits: Mapping[str, Any] | None = None,
        tasks: KinematicTask | Sequence[KinematicTask] = (),
        parameters: Parameters = None,
        tolerance: float = 1e-9,
        restarts: int = 100,
        seed: int = 0,
        threads: int | None = 1,
    ) -> InverseKinematics:
        """Configurations that put frames where ``targets`` and ``tasks`` require them, within joint limits and with closed loops.

        Parameters
        ----------
        targets : frame -> its pose (..., 4, 4) or position (..., 3) in the world; leading axes are a batch, solved by native code.
        q0 : (..., nq) where the search starts; solutions near it are preferred. None: from the nearest of many random configurations.
        limits : joint -> ``ht.JointLimits`` or (lower, upper); None: those of the system, ``{}``: none.
        tasks : further tasks: ``ht.PoseTask``, ``PositionTask``, ``DirectionTask``, ``GazeTask``, ``CenterOfMassTask``, ``PostureTask``,
            ``FunctionTask``, with weights and priorities.
        parameters : values of parameters that differ from the defaults.
        tolerance : largest residual in m and rad of a target that is reached.
        restarts : further starts of a target that is not reached.
        seed : seed of the random configurations.
        threads : threads over large batches; None: one per processor.

        Returns
        -------
        InverseKinematics : with ``q``, ``reached``, ``outcome``, ``residuals``; ``require()`` returns q or raises an error with the obstacle.

        Examples
        --------
        >>> import heavytop as ht
        >>> system = ht.System()
        >>> for name, parent in (("upper", "world"), ("lower", "upper")):
        ...     system.body(name, parent=parent, at=(0, 0, 0 if parent == "world" else 1), joint=ht.Revolute("y"), inertia=ht.Inertia(1.0))
        >>> system.frame("tip", "lower", at=(0, 0, 1))
        >>> arm = system.derive()
        >>> points = np.array([(0.5, 0.0, 1.0), (1.0, 0.0, 1.0)])
        >>> found = arm.inverse_kinematics({"tip": points}, q0=[0.1, 0.2])
        >>> np.allclose(arm.pose("world", "tip", found.require())[:, :3, 3], points)
        True
        """
        return inverse_kinematics(self, targets, q0, limits, tasks, parameters, tolerance, restarts, seed, threads)

    # --- mass and momentum --------------------------------------------------------------------------------------------------

    @property
    def mass(self) -> float:
        """Total mass in kg, with all parameters at their defaults."""
        total = sum((inertia.mass for inertia in self.description.inertias.values()), np.zeros(()))
        return float(at_defaults(total, self.description.parameters))

    def center_of_mass(self, q: Array, parameters: Parameters = None) -> Floats:
        """Centre of mass (..., 3) of all bodies in the world, m."""
        return self._finite("center_of_mass", self._configuration(q), parameters=parameters)

    def momentum(self, q: Array, v: Array, about: Any = None, parameters: Parameters = None) -> Momentum:
        """Linear and angular momentum of all bodies in world axes.

        Parameters
        ----------
        about : point of the angular momentum: None for the origin of the world, "center_of_mass", or a point (..., 3) in the world.

        Examples
        --------
        >>> import heavytop as ht
        >>> system = ht.System()
        >>> system.body("ball", joint=ht.Free(), inertia=ht.Inertia(2.0, moment_at_com=(1, 1, 1)))
        >>> model = system.derive()
        >>> model.momentum(model.neutral(), [3.0, 0, 0, 0, 0, 0.5]).linear
        array([6., 0., 0.])
        """
        q, v = self._state(q, v)
        linear, angular = self._finite("momentum", q, v, parameters=parameters)
        if about is None:
            return Momentum(linear, angular)
        if isinstance(about, str):
            if about != "center_of_mass":
                raise ModelError(f"momentum: about must be None, 'center_of_mass' or a point (..., 3), got {about!r}.")
            point = self.center_of_mass(q, parameters)
        else:
            point = numbers(about, "about")
            if point.ndim == 0 or point.shape[-1] != 3:
                raise wrong_shape("about of momentum", ("...", 3), point.shape)
        return Momentum(linear, angular - np.cross(point, linear))

    # --- energy and power ---------------------------------------------------------------------------------------------------

    def kinetic_energy(self, q: Array, v: Array, parameters: Parameters = None) -> Floats:
        """T (...,) in J."""
        return self._finite("kinetic_energy", *self._state(q, v), parameters=parameters)

    def potential_energy(self, q: Array, parameters: Parameters = None) -> Floats:
        """V (...,) in J: gravity, springs and the user's potentials."""
        return self._finite("potential_energy", self._configuration(q), parameters=parameters)

    def energy(self, q: Array, v: Array, parameters: Parameters = None) -> Floats:
        """T + V (...,) in J."""
        return self._finite("energy", *self._state(q, v), parameters=parameters)

    def acceleration_energy(self, q: Array, v: Array, a: Array, parameters: Parameters = None) -> Floats:
        """S (...) in J/s^2: half the sum of mass times squared acceleration (eq. 3.113); its gradient with respect to ``a`` is M a + c."""
        return self._finite("acceleration_energy", *self._state(q, v), self._rates(a), parameters=parameters)

    def power(self, q: Array, v: Array, u: Array | None = None, parameters: Parameters = None) -> Power:
        """Power of the inputs, of dissipation, of all other nonconservative forces, and of drivers."""
        return Power(*self._finite("power", *self._state(q, v), self._inputs(u), parameters=parameters))

    def contact_forces(self, q: Array, v: Array, parameters: Parameters = None) -> dict[str, ContactForce]:
        """Force (..., 3) in N on the body of each compliant contact, in world axes, and its gap in m, negative where it touches.

        Examples
        --------
        >>> import heavytop as ht
        >>> system = ht.System(name="ball")
        >>> system.body("ball", joint=ht.Free(), inertia=ht.Inertia(2.0, moment_at_com=(1e-3, 1e-3, 1e-3)))
        >>> system.ground(friction=0.5)
        >>> system.contact("ball", "ground", ht.Sphere(0.05), stiffness=1e6)
        >>> model = system.derive(native=False)
        >>> q = model.neutral()
        >>> q[2] = 0.05 - (2.0 * 9.81 / 1e6) ** (2 / 3)
        >>> model.contact_forces(q, np.zeros(6))["ball"].force.round(6) + 0.0
        array([ 0.  ,  0.  , 19.62])
        """
        names = self.compliant_contacts
        if not names:
            raise ModelError(f"{self.name!r} has no compliant contacts: system.contact(..., stiffness=...).")
        found = self._finite("contact_forces", *self._state(q, v), parameters=parameters)
        parts = [found] if len(names) == 1 else found
        return {
            name: ContactForce(x[..., :3].sum(axis=-2), x[..., 6].min(axis=-1))
            for name, x in zip(names, parts, strict=True)
        }

    def holding(self, *names: str, q: Array, within: float = 1e-6, parameters: Parameters = None) -> Model:
        """The model in which rigid contacts are held: every point that touches at ``q`` becomes a ball joint, a loop with the name of its contact.

        For :meth:`linearize`, :meth:`equilibrium`, ``control.lqr`` and plans, which ignore rigid contacts. It is valid while the contacts neither
        open nor slide: ``held.constraint_forces`` returns the forces; ``held.redundant_constraints`` names those that are not unique. Round shapes
        do not roll.

        Parameters
        ----------
        names : contacts; none: all that touch.
        q : (nq,) configuration.
        within : gap in m up to which a point touches, and depth up to which it may penetrate.

        Loops of contacts with several points are called "name 1", "name 2" and so on; contacts that are not held stay as they are.

        Examples
        --------
        >>> import heavytop as ht
        >>> system = ht.System(name="pole")
        >>> system.body("pole", joint=ht.Free(), inertia=ht.Inertia(1.0, moment_at_com=(0.1, 0.1, 0.01)))
        >>> system.ground(friction=0.5)
        >>> system.contact("pole", "ground", ht.Points([(0.0, 0.0, -0.5)]))
        >>> model = system.derive(native=False)
        >>> q = model.neutral()
        >>> q[2] = 0.5
        >>> held = model.holding("pole", q=q)
        >>> held.constraint_forces(q, np.zeros(6))["pole"][:3].round(6) + 0.0
        array([0.  , 0.  , 9.81])
        """
        model = Model(held_description(self, names, self._configuration(q), within, parameters), self.native)
        model.check()
        return model

    @property
    def sensed_contacts(self) -> tuple[str, ...]:
        """Names of the contacts whose forces laws read with ``contacts``: rigid ones, then compliant ones.

        >>> import heavytop as ht
        >>> system = ht.System()
        >>> system.body("foot", joint=ht.Prismatic("z"), inertia=ht.Inertia(1.0))
        >>> system.ground(friction=0.5)
        >>> system.contact("foot", "ground", ht.Sphere(0.02))
        >>> system.derive(native=False).sensed_contacts
        ('foot',)
        """
        return (*(c.name for c in self.description.contacts), *self.compliant_contacts)

    @property
    def compliant_contacts(self) -> tuple[str, ...]:
        """Names of the compliant contacts."""
        return tuple(e.contact.name for e in self.description.elements if isinstance(e, CompliantContact))

    @property
    def driver_names(self) -> tuple[str, ...]:
        """Drivers of the system: moving frames, moving constraints, time-dependent ``"potentials"``."""
        return self.expressions.drivers.names if self.expressions.is_driven else ()

    def driver_power(
        self, q: Array, v: Array, u: Array | None = None, parameters: Parameters = None
    ) -> dict[str, Floats]:
        """Power (...) in W of each driver, from the reactions on it.

        Examples
        --------
        A turntable that is sped up; the driver supplies the kinetic energy of the ball in its slot:

        >>> import heavytop as ht
        >>> system = ht.System()
        >>> system.body("table", joint=ht.Prescribed(ht.Revolute("z"), lambda t: 0.5 * t * t))
        >>> system.body("ball", parent="table", joint=ht.Prismatic("x"), inertia=ht.Inertia(2.0))
        >>> model = system.derive(native=False)
        >>> model.driver_power([0.5], [0.0], parameters={"time": 3.0})
        {'table': array(1.5)}
        """
        return self._of_drivers("driver_power", self.driver_names, q, v, u, parameters)

    def driver_wrenches(
        self, q: Array, v: Array, u: Array | None = None, parameters: Parameters = None
    ) -> dict[str, Floats]:
        """Wrench (..., 6) (force, moment) of each driver on its frame, in the axes and at the origin of that frame."""
        names = tuple(self.expressions.drivers.frames) if self.expressions.is_driven else ()
        return self._of_drivers("driver_wrenches", names, q, v, u, parameters)

    def _of_drivers(
        self, function: str, names: tuple[str, ...], q: Array, v: Array, u: Array | None, parameters: Parameters
    ) -> dict[str, Floats]:
        q, v = self._state(q, v)
        if not names:
            return {}
        values = self._finite(function, q, v, self._inputs(u), parameters=parameters)
        return dict(zip(names, values if isinstance(values, tuple) else (values,), strict=True))

    # --- pages, files, equations to read --------------------------------------------------------------------------------

    def show(
        self,
        path: str | Path | None = None,
        q: Array | None = None,
        limits: Any = None,
        *,
        live: bool = False,
        v: Array | None = None,
        step: float = 1e-3,
    ) -> Path | InlinePage:
        """Write a page (HTML) of the system at ``q`` (default: neutral) with a slider for every joint of one axis.

        Sliders stay within the limits of the joints; ``limits`` (joint name -> ``ht.JointLimits``) replaces those of the system.
        Without a ``path`` the page is returned as an object that a notebook displays.

        A ``live`` page simulates the motion from (``q``, ``v``) itself, without Python, with this ``step`` in s: bodies can be pulled, parameters and
        the start changed (:meth:`.Run.show`).
        """
        from heavytop.show import InlinePage, live_model_report, pose_report, write_page, write_pose_page

        if live:
            report = live_model_report(self, q, v, step)
            return InlinePage(report) if path is None else write_page(report, path)
        limits = self.description.limits if limits is None else limits
        return InlinePage(pose_report(self, q, limits)) if path is None else write_pose_page(self, path, q, limits)

    def to_urdf(self, path: str | Path, limits: Any = None, strict: bool = False) -> Any:
        """Write the system as URDF and return a report of everything the format cannot represent (``strict``: raise it as an error).

        ``limits`` (joint name -> ``ht.JointLimits``) replaces those of the system. Parameters are written as their values.
        """
        from heavytop.io import save_urdf

        return save_urdf(self.description, path, limits, strict)

    def to_mjcf(self, path: str | Path, limits: Any = None, strict: bool = False) -> Any:
        """Write the system as MJCF, as :meth:`to_urdf` does."""
        from heavytop.io import save_mjcf

        return save_mjcf(self.description, path, limits, strict)

    def export_c(
        self,
        folder: str | Path,
        functions: Sequence[str] = ("acceleration", "mass_matrix", "bias"),
        *,
        precision: Literal["double", "float"] = "double",
        footprint: bool = False,
    ) -> list[Path]:
        """Write dependency-free C99 of some functions: source, header, a test with vectors, README and Makefile.

        Parameters
        ----------
        folder : made if it does not exist.
        functions : names of methods, or "pose:a:b" and "jacobian:a:b".
        precision : type of all numbers in the C code.
        footprint : measure code and stack size for a Cortex-M7 (needs arm-none-eabi-gcc).

        The test vectors are random states on the manifold. Parameters are the last argument of each function, with the time in s as the last
        of them if the equations depend on it; header and README list all entries and the nominal values of parameters.
        """
        rng = np.random.default_rng(0)
        samples = {
            "q": self.random(rng, (5,)) if not self.is_constrained else np.stack([self.assemble()[0]] * 5),
            "p": np.tile(self.parameter_vector(), (5, 1)),
        }
        if self.description.time is not None and not self.is_constrained:
            samples["p"][:, -1] = rng.uniform(0.0, 3.0, 5)
        for label, size in (("v", self.nv), ("u", self.nu), ("a", self.nv)):
            samples[label] = rng.standard_normal((5, size))
        traced = {name: self.traced(name) for name in functions}
        vectors = {name: [samples[label] for label in t.inputs] for name, t in traced.items()}
        used = {label for t in traced.values() for label in t.inputs}
        return export_c(
            folder, traced, precision=precision, name=self.name, vectors=vectors, footprint=footprint, entries=entries_of(self, used),
            nominal=nominal_of(self, used),
        )  # fmt: skip

    def export_fmu(self, path: str | Path, **options: Any) -> Path:
        """Write an FMU for other simulators; ``options`` are those of :func:`heavytop.fmi.export_fmu`: version, start, step, control, ..."""
        from heavytop.fmi import export_fmu

        return export_fmu(self, path, **options)

    def equations(self, names: Mapping[str, str] | None = None) -> Equations:
        """The equations of motion as SymPy expressions, text and LaTeX; ``names`` replaces names of symbols."""
        from heavytop.equations import Equations

        return Equations(self, names)


def entries_of(model: Model, labels: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Names, with units where known, of the entries of the model's arrays among ``labels``, for exported code.

    >>> import heavytop as ht
    >>> entries_of(ht.library.cart_pole().derive(), ["q_R", "z"])
    {'q_R': ('x.x [m]', 'theta.angle [rad]')}
    """
    pairs = (model.q_names, model.q_units), (model.v_names, model.v_units), (model.u_names, model.u_units)
    q, v, u = (
        tuple(f"{name} [{unit}]" if unit not in ("", "1") else name for name, unit in zip(*pair, strict=True))
        for pair in pairs
    )
    rates = tuple(f"d/dt {name}".replace("/s]", "/s^2]") for name in v)
    named = {"q": q, "v": v, "u": u, "p": model.parameter_names, "q_R": q, "v_R": v, "a_R": rates, "u_R": u}
    wanted = set(labels)
    return {label: names for label, names in named.items() if label in wanted}


def nominal_of(model: Model, labels: Iterable[str]) -> dict[str, tuple[float, ...]]:
    """Nominal values of the parameters p, if they are among ``labels``, without the time, which is the last of them."""
    values = tuple(model.parameter_vector().tolist())
    return {"p": values if model.description.time is None else values[:-1]} if "p" in labels else {}
