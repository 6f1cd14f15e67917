"""A derived model: NumPy in, NumPy out, leading batch axes everywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from heavytop._arrays import Array, concatenate, is_symbolic, numbers
from heavytop._travel import Unchanging
from heavytop.compile import Kernel, Traced, export_c
from heavytop.coordinates import Product
from heavytop.errors import ConfigurationError, ModelError, ShapeError, unknown_name, wrong_shape
from heavytop.geometry import linalg
from heavytop.system.assembly import assemble
from heavytop.system.checks import check_elements, check_inertia
from heavytop.system.constraints import check_constraints
from heavytop.system.description import Description
from heavytop.system.elimination import independent_rows
from heavytop.system.expressions import Expressions

if TYPE_CHECKING:
    from heavytop.equations.equations import Equations

Parameters = Mapping[str, Any] | None

NEEDS_INERTIA = ("acceleration", "motion", "acceleration_derivatives", "linearization")
"""Functions that solve with the mass matrix; poses and Jacobians of bodies without mass need no inertia."""
CHECKED_UP_TO = 30
"""Up to so many velocity coordinates a model is checked for velocities that move no mass before it is solved for accelerations."""
CLOSED_TOLERANCE = 1e-6
"""Largest miss of a loop equation (m, or dimensionless for directions) that counts as closed."""


class Model(Unchanging):
    """Equations of motion ``M a + c + D v + fK + fG = B u`` with ``q' = A(q) v`` and ``phi(q) = 0``.

    Every method takes numbers with leading batch axes (they broadcast) or symbols. ``parameters`` maps names to values that
    replace the defaults; they broadcast like the state.

    Attributes
    ----------
    nq, nv, nu : numbers of configuration coordinates, velocity coordinates and inputs.
    q_names, v_names, u_names, parameter_names : their names, ``joint.component``.
    """

    def __init__(self, description: Description, native: bool = True) -> None:
        self.description = description
        self.expressions = Expressions(description)
        self.name = description.name
        self.native = native
        self._inertia_checked = False
        self._kernels: dict[tuple[str, int | None, int | None], Kernel] = {}

    def recipe(self) -> tuple[Any, ...]:
        """The description; the equations are derived from it again, and native code is found in the cache."""
        return Model, (self.description, self.native)

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
    def parameter_names(self) -> tuple[str, ...]:
        """Names of the parameters."""
        return tuple(p.name for p in self.description.parameters)

    @property
    def body_names(self) -> tuple[str, ...]:
        """Names of the bodies with inertia."""
        return tuple(self.description.inertias)

    def __repr__(self) -> str:
        return f"Model({self.name!r}: nq={self.nq}, nv={self.nv}, nu={self.nu}, bodies={len(self.body_names)})"

    def check(self) -> None:
        """Find what is wrong with the description now rather than at the first evaluation."""
        fingerprint = self.description.fingerprint
        if fingerprint is not None and Kernel.from_cache(f"{fingerprint} acceleration") is not None:
            return  # the same description was checked and compiled before
        check_elements(self.expressions.dynamics, self.expressions.p)
        if self.description.loops or self.description.constraints:
            check_constraints(self)

    # --- configurations ---------------------------------------------------------------------------------------------------

    def neutral(self) -> np.ndarray:
        """The configuration of no displacement (nq,)."""
        return self.coordinates.neutral()

    def random(self, rng: Any = None, shape: tuple[int, ...] = ()) -> np.ndarray:
        """Random configurations (*shape, nq); ``rng`` is a generator or a seed."""
        return self.coordinates.random(rng, shape)

    def integrate(self, q: Array, v: Array, dt: Any) -> np.ndarray:
        """The configuration after moving with constant joint velocities for the time ``dt``; it stays on the manifold."""
        q, v, dt = self._configuration(q), self._vector(v, self.nv, "velocity v"), np.asarray(dt, dtype=float)
        if not np.all(np.isfinite(dt)):
            raise ShapeError(f"the time dt to move {self.name!r} for must be finite, got {dt[~np.isfinite(dt)][0]}.")
        return self.coordinates.integrate(q, self._joint_velocity(q, v), dt)

    def difference(self, q0: Array, q1: Array) -> np.ndarray:
        """Constant velocity (..., nv) that leads from q0 to q1 in unit time: ``integrate(q0, difference(q0, q1), 1) = q1``.

        With minimal velocities of a constrained system it is the one that comes nearest.
        """
        q0, q1 = self._configuration(q0), self._configuration(q1)
        delta = self.coordinates.difference(q0, q1)
        d = self.description
        if d.velocity is None and d.basis is None and all(e.joint.velocity_frame == "relative" for e in d.joints):
            return delta
        drift = self.evaluate("joint_velocity", q0, np.zeros(self.nv))
        return np.matvec(linalg.pseudo_inverse(self.evaluate("joint_rows", q0)), delta - drift)

    def _joint_velocity(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """The joints' own (parent-relative) velocities."""
        return self.evaluate("joint_velocity", q, v)

    # --- evaluation -------------------------------------------------------------------------------------------------------

    def traced(self, name: str) -> Traced:
        """The traced function behind a method, for back ends and inspection."""
        if name in NEEDS_INERTIA and not self._inertia_checked and self.nv <= CHECKED_UP_TO:
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

    def evaluate(self, name: str, *arguments: Array, parameters: Parameters = None) -> Any:
        """The function of that name at the given arrays, natively for numbers; only shapes are checked."""
        p = self.parameter_vector(parameters)
        if is_symbolic(*arguments, p) or not self.native:
            results = self.traced(name)(*arguments, p)
        else:
            results = self.compiled(name)(*arguments, p)
        return results[0] if len(results) == 1 else results

    def parameter_vector(self, parameters: Parameters = None) -> np.ndarray:
        """Values (..., np) of all parameters: the defaults, with the given ones replaced."""
        values = self.description.parameter_values()
        if not parameters:
            return values
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
            return np.stack(np.broadcast_arrays(*columns), axis=-1)
        except ValueError:
            got = ", ".join(f"{p.name} {c.shape}" for p, c in zip(self.description.parameters, columns, strict=True))
            raise ShapeError(f"the parameters of {self.name!r} do not broadcast: {got}.") from None

    def _configuration(self, q: Array, closed: bool = False, parameters: Parameters = None) -> Array:
        if is_symbolic(q):
            return q
        q = numbers(q, f"configuration q of {self.name!r}")
        if q.ndim == 0 or q.shape[-1] != self.nq:
            hint = f"Its coordinates are {', '.join(self.q_names)}."
            if q.ndim and q.shape[-1] == self.nv:
                hint = (
                    f"It has nq = {self.nq} configuration coordinates but nv = {self.nv} velocity coordinates. " + hint
                )
            raise wrong_shape(f"configuration q of {self.name!r}", ("...", self.nq), q.shape, hint)
        q = self.coordinates.check(q, f"configuration q of {self.name!r}")
        if closed and self.is_constrained and np.any(self.holonomic_rows):
            self._check_closed(q, parameters)
        return q

    def _check_closed(self, q: np.ndarray, parameters: Parameters) -> None:
        miss = np.max(np.abs(self.evaluate("position_residual", q, parameters=parameters)), initial=0.0)
        if miss > CLOSED_TOLERANCE:
            raise ConfigurationError(
                f"configuration q of {self.name!r} does not close its loops: their equations miss by {miss:.3g}, allowed is "
                f"{CLOSED_TOLERANCE:g}. Get a consistent start from model.assemble(q)."
            )

    def _vector(self, x: Array, size: int, what: str) -> Array:
        if is_symbolic(x):
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

    # --- kinematics -------------------------------------------------------------------------------------------------------

    def kinematics_matrix(self, q: Array, parameters: Parameters = None) -> np.ndarray:
        """A (..., nq, nv) of q' = A v."""
        return self.evaluate("kinematics_matrix", self._configuration(q), parameters=parameters)

    def rate(self, q: Array, v: Array, parameters: Parameters = None) -> np.ndarray:
        """q' (..., nq)."""
        q, v = self._configuration(q), self._vector(v, self.nv, "velocity v")
        return self.evaluate("rate", q, v, parameters=parameters)

    def constraints(self, q: Array, parameters: Parameters = None) -> np.ndarray:
        """phi(q) (..., m): relations of the coordinates, then loops and holonomic constraints; zero where all of them hold.

        Unlike the other methods it takes a q off the manifold.
        """
        q = self._vector(q, self.nq, "configuration q")
        phi = self.coordinates.constraints(q)
        if not self.is_constrained:
            return phi
        return concatenate(phi, self.evaluate("position_residual", q, parameters=parameters))

    def commutation(self, q: Array, parameters: Parameters = None) -> np.ndarray:
        """Commutation coefficients gamma^k_ij (..., nv, nv, nv), indexed [k, i, j] (eq. 2.19)."""
        return self.evaluate("commutation", self._configuration(q), parameters=parameters)

    def connection(self, q: Array, parameters: Parameters = None) -> np.ndarray:
        """Levi-Civita connection coefficients Gamma_ijk (..., nv, nv, nv), c_i = Gamma_ijk v^j v^k (eq. 3.112)."""
        return self.evaluate("connection", self._configuration(q), parameters=parameters)

    def pose(self, a: str, b: str, q: Array, parameters: Parameters = None) -> np.ndarray:
        """G_ab (..., 4, 4): pose of frame b in frame a."""
        return self.evaluate(f"pose:{a}:{b}", self._configuration(q), parameters=parameters)

    def jacobian(self, a: str, b: str, q: Array, parameters: Parameters = None) -> np.ndarray:
        """J_ab (..., 6, nv): body twist (linear, angular) of b relative to a is J_ab v."""
        return self.evaluate(f"jacobian:{a}:{b}", self._configuration(q), parameters=parameters)

    # --- constraints ------------------------------------------------------------------------------------------------------

    @property
    def is_constrained(self) -> bool:
        """Whether loops or constraints act that the velocity coordinates do not already satisfy."""
        return self.expressions.is_constrained

    @property
    def constraint_names(self) -> tuple[str, ...]:
        """Names of the loops and constraints."""
        return tuple(c.name for c in (*self.description.loops, *self.description.constraints))

    @property
    def holonomic_rows(self) -> np.ndarray:
        """Which rows of :meth:`constraint_jacobian` belong to equations phi(q) = 0: booleans (m,)."""
        rows = self.expressions.constrained.rows
        return np.concatenate([np.full(r.Phi.shape[0], r.phi is not None) for r in rows])

    def constraint_jacobian(self, q: Array, parameters: Parameters = None) -> np.ndarray:
        """Phi (..., m, nv): loops and constraints demand Phi v + b = 0. Rows may be redundant."""
        self._need_constraints("constraint_jacobian")
        return self.evaluate("constraint_jacobian", self._configuration(q), parameters=parameters)

    def constraint_residuals(self, q: Array, v: Array, parameters: Parameters = None) -> tuple[np.ndarray, np.ndarray]:
        """How far loops and constraints are missed: phi(q) of the holonomic ones, and Phi v + b."""
        self._need_constraints("constraint_residuals")
        q, v = self._configuration(q), self._vector(v, self.nv, "velocity v")
        position = self.evaluate("position_residual", q, parameters=parameters)
        return position, self.evaluate("velocity_residual", q, v, parameters=parameters)

    def constraint_forces(
        self, q: Array, v: Array, u: Array | None = None, parameters: Parameters = None
    ) -> dict[str, np.ndarray]:
        """Ideal reactions by name: for a loop the wrench (..., 6) (force, moment) on its body b in the axes and at the origin of the
        joint frame there; for other constraints the generalised force (..., nv). Redundant equations share a reaction arbitrarily.
        """
        self._need_constraints("constraint_forces")
        q, v, u = (
            self._configuration(q, closed=True, parameters=parameters),
            self._vector(v, self.nv, "velocity v"),
            self._inputs(u),
        )
        forces = self.evaluate("constraint_forces", q, v, u, parameters=parameters)
        return dict(zip(self.constraint_names, forces if isinstance(forces, tuple) else (forces,), strict=True))

    def assemble(
        self,
        q: Array | None = None,
        v: Array | None = None,
        fixed: tuple[str, ...] = (),
        parameters: Parameters = None,
        tolerance: float = 1e-12,
    ) -> tuple[np.ndarray, np.ndarray]:
        """A consistent start near the guess: closed loops and admissible velocities.

        Parameters
        ----------
        q, v : guess (nq,), (nv,); None: neutral configuration, at rest.
        fixed : joints whose configuration and velocity stay as given (drive a mechanism by its crank).
        """
        guess_q: np.ndarray = self.neutral() if q is None else self._configuration(q)
        guess_v: np.ndarray = np.zeros(self.nv) if v is None else self._vector(v, self.nv, "velocity v")
        if not self.is_constrained:
            return guess_q, guess_v
        return assemble(self, guess_q, guess_v, fixed, parameters, tolerance)

    def degrees_of_freedom(self, q: Array, parameters: Parameters = None) -> int:
        """Velocity coordinates less the independent constraints at one configuration ``q``."""
        if not self.is_constrained:
            return self.nv
        return self.nv - independent_rows(self.constraint_jacobian(q, parameters), self.mass_matrix(q, parameters))

    def _need_tree(self, method: str) -> None:
        if self.description.loops or self.description.constraints:
            raise ModelError(
                f"{method}: {self.name!r} has loops or velocity constraints, for which tangent coordinates of the tree are too "
                "many. Derive a model of the tree with minimal coordinates."
            )

    def _need_constraints(self, method: str) -> None:
        if not self.is_constrained:
            raise ModelError(
                f"{method}: {self.name!r} has no loops or constraints left to enforce (a basis satisfies them already)."
            )

    # --- equations of motion ----------------------------------------------------------------------------------------------

    def mass_matrix(self, q: Array, parameters: Parameters = None) -> np.ndarray:
        """M (..., nv, nv), symmetric positive definite (eq. 3.125a)."""
        return self.evaluate("mass_matrix", self._configuration(q), parameters=parameters)

    def bias(self, q: Array, v: Array, parameters: Parameters = None) -> np.ndarray:
        """c (..., nv): Coriolis and gyroscopic forces (eq. 3.125b)."""
        q, v = self._configuration(q), self._vector(v, self.nv, "velocity v")
        return self.evaluate("bias", q, v, parameters=parameters)

    def coriolis_matrix(self, q: Array, v: Array, parameters: Parameters = None) -> np.ndarray:
        """C (..., nv, nv) with C v = c and d/dt(M) - 2 C skew-symmetric, in any velocity coordinates."""
        q, v = self._configuration(q), self._vector(v, self.nv, "velocity v")
        return self.evaluate("coriolis_matrix", q, v, parameters=parameters)

    def damping_matrix(self, q: Array, parameters: Parameters = None) -> np.ndarray:
        """D (..., nv, nv) of dampers and quadratic dissipation functions (eq. 3.125c)."""
        return self.evaluate("damping_matrix", self._configuration(q), parameters=parameters)

    def dissipation_force(self, q: Array, v: Array, parameters: Parameters = None) -> np.ndarray:
        """f^D = dR/dv (..., nv): D v and the forces of dissipation functions that are not quadratic."""
        q, v = self._configuration(q), self._vector(v, self.nv, "velocity v")
        return self.evaluate("dissipation_force", q, v, parameters=parameters)

    def stiffness_force(self, q: Array, parameters: Parameters = None) -> np.ndarray:
        """f^K (..., nv): gradient of the spring energy and of the user's potentials (eq. 3.125d)."""
        return self.evaluate("stiffness_force", self._configuration(q), parameters=parameters)

    def gravity_force(self, q: Array, parameters: Parameters = None) -> np.ndarray:
        """f^G (..., nv): gradient of the gravity energy (eq. 3.125e, erratum 0.41)."""
        return self.evaluate("gravity_force", self._configuration(q), parameters=parameters)

    def applied_force(self, q: Array, v: Array, parameters: Parameters = None) -> np.ndarray:
        """The user's generalised forces f(q, v) (..., nv) on the right-hand side."""
        q, v = self._configuration(q), self._vector(v, self.nv, "velocity v")
        return self.evaluate("applied_force", q, v, parameters=parameters)

    def input_matrix(self, q: Array, parameters: Parameters = None) -> np.ndarray:
        """B (..., nv, nu): generalised force per unit of each input."""
        return self.evaluate("input_matrix", self._configuration(q), parameters=parameters)

    def acceleration(self, q: Array, v: Array, u: Array | None = None, parameters: Parameters = None) -> np.ndarray:
        """Forward dynamics a (..., nv) (eq. 3.126b); ``u`` None means no input."""
        q, v, u = (
            self._configuration(q, closed=True, parameters=parameters),
            self._vector(v, self.nv, "velocity v"),
            self._inputs(u),
        )
        a = self.evaluate("acceleration", q, v, u, parameters=parameters)
        if not is_symbolic(a) and not np.all(np.isfinite(a)):
            raise ConfigurationError(
                f"the acceleration of {self.name!r} is not finite: its mass matrix is singular there. Some velocity "
                "coordinate moves no mass (a joint that carries only massless bodies, or a mass on its own axis), or Euler "
                "angles are at their singularity."
            )
        return a

    def inverse_dynamics(self, q: Array, v: Array, a: Array, parameters: Parameters = None) -> np.ndarray:
        """Generalised force (..., nv) that the inputs must supply for the acceleration ``a``: M a + c + D v + fK + fG - f."""
        q, v, a = (
            self._configuration(q),
            self._vector(v, self.nv, "velocity v"),
            self._vector(a, self.nv, "acceleration a"),
        )
        return self.evaluate("inverse_dynamics", q, v, a, parameters=parameters)

    def kinetic_energy(self, q: Array, v: Array, parameters: Parameters = None) -> np.ndarray:
        """T (...,) in J."""
        q, v = self._configuration(q), self._vector(v, self.nv, "velocity v")
        return self.evaluate("kinetic_energy", q, v, parameters=parameters)

    def potential_energy(self, q: Array, parameters: Parameters = None) -> np.ndarray:
        """V (...,) in J: gravity, springs and the user's potentials."""
        return self.evaluate("potential_energy", self._configuration(q), parameters=parameters)

    def energy(self, q: Array, v: Array, parameters: Parameters = None) -> np.ndarray:
        """T + V (...,) in J."""
        q, v = self._configuration(q), self._vector(v, self.nv, "velocity v")
        return self.evaluate("energy", q, v, parameters=parameters)

    def acceleration_derivatives(
        self, q: Array, v: Array, u: Array | None = None, parameters: Parameters = None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """The acceleration a (..., nv) and its derivatives: along the velocity coordinates (d_i a), by v, by u."""
        self._need_tree("acceleration_derivatives")
        q, v, u = self._configuration(q), self._vector(v, self.nv, "velocity v"), self._inputs(u)
        return self.evaluate("acceleration_derivatives", q, v, u, parameters=parameters)

    def linearize(
        self, q: Array, v: Array | None = None, u: Array | None = None, parameters: Parameters = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """Linear equations x' = A x + B du about a motion, in tangent coordinates x = (eps, dv) (2 nv).

        ``eps`` is the displacement q - q_ref = A(q) eps and ``dv`` the deviation of the velocity coordinates; redundant coordinates add
        no spurious states.

        Returns
        -------
        A : (..., 2 nv, 2 nv), B : (..., 2 nv, nu).

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
        self._need_tree("linearize")
        q, v = self._configuration(q), np.zeros(self.nv) if v is None else self._vector(v, self.nv, "velocity v")
        return self.evaluate("linearization", q, v, self._inputs(u), parameters=parameters)

    def export_c(
        self,
        folder: str | Path,
        functions: Sequence[str] = ("acceleration", "mass_matrix", "bias"),
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

        The test vectors are random states on the manifold. Parameters are the last argument of each function.
        """
        rng = np.random.default_rng(0)
        samples = {
            "q": self.random(rng, (5,)) if not self.is_constrained else np.stack([self.assemble()[0]] * 5),
            "p": np.broadcast_to(self.parameter_vector(), (5, len(self.parameter_names))),
        }
        for label, size in (("v", self.nv), ("u", self.nu), ("a", self.nv)):
            samples[label] = rng.standard_normal((5, size))
        traced = {name: self.traced(name) for name in functions}
        vectors = {name: [samples[label] for label in t.inputs] for name, t in traced.items()}
        return export_c(folder, traced, precision, name=self.name, vectors=vectors, footprint=footprint)

    def equations(self, names: Mapping[str, str] | None = None) -> Equations:
        """The equations of motion to read: SymPy expressions, text, LaTeX; ``names`` replaces names of symbols."""
        from heavytop.equations.equations import Equations

        return Equations(self, names)
