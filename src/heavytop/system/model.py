"""A derived model: NumPy in, NumPy out, leading batch axes everywhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from heavytop._arrays import Array, Floats, concatenate, is_symbolic
from heavytop._repr_html import Overview, Shown
from heavytop.compile import Kernel, export_c
from heavytop.errors import ModelError, ShapeError
from heavytop.geometry import linalg
from heavytop.system.answers import Answers
from heavytop.system.constraints.assembly import GUESSES, assemble_any
from heavytop.system.constraints.constraints import check_constraints
from heavytop.system.constraints.scaling import ASSEMBLED
from heavytop.system.description.array_labels import entries_of, nominal_of
from heavytop.system.dynamics import tangent
from heavytop.system.dynamics.sparse_ldl import independent_rows
from heavytop.system.dynamics.tangent import MinimalTangent
from heavytop.system.evaluation import Parameters
from heavytop.system.overviews import model_overview
from heavytop.system.validation.functions import check_elements, check_joints
from heavytop.system.validation.singularities import check_friction

if TYPE_CHECKING:
    from heavytop.equations.equations import Equations
    from heavytop.show.inline import InlinePage


class Model(Answers, Shown):
    """Equations of motion ``M a + c + D v + fK + fG = B u`` with ``q' = A(q) v`` and ``phi(q) = 0``.

    Every method takes numbers with leading batch axes (they broadcast) or symbols. ``parameters`` maps names to values that
    replace the defaults; they broadcast like the state.

    Attributes
    ----------
    nq, nv, nu : numbers of configuration coordinates, velocity coordinates and inputs.
    q_names, v_names, u_names, parameter_names : their names, ``joint.component``.
    parameters : nominal values of the parameters by name, a new dictionary each time.
    """

    def recipe(self) -> tuple[Any, ...]:
        """The description; the equations are derived from it again, and native code is found in the cache."""
        return Model, (self.description, self.native)

    def __repr__(self) -> str:
        return f"Model({self.name!r}: nq={self.nq}, nv={self.nv}, nu={self.nu}, bodies={len(self.body_names)})"

    def _overview(self) -> Overview:
        return model_overview(self)

    def check(self) -> None:
        """Find what is wrong with the description now rather than at the first evaluation."""
        fingerprint = self.description.fingerprint
        if fingerprint is not None and Kernel.from_cache(f"{fingerprint} acceleration") is not None:
            return  # the same description was checked and compiled before
        check_joints(self.description)
        check_elements(self.expressions.dynamics, self.expressions.p)
        if self.description.loops or self.description.constraints:
            check_constraints(self)

    # --- configurations ---------------------------------------------------------------------------------------------------

    def integrate(self, q: Array, v: Array, dt: Any) -> Floats:
        """The configuration after moving with constant joint velocities for the time ``dt``; it stays on the manifold."""
        q, v, dt = self._configuration(q), self._vector(v, self.nv, "velocity v"), np.asarray(dt, dtype=float)
        if not np.all(np.isfinite(dt)):
            raise ShapeError(f"the time dt to move {self.name!r} for must be finite, got {dt[~np.isfinite(dt)][0]}.")
        return self.coordinates.integrate(q, self._joint_velocity(q, v), dt)

    def difference(self, q0: Array, q1: Array) -> Floats:
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

    def _joint_velocity(self, q: Floats, v: Floats) -> Floats:
        """The joints' own (parent-relative) velocities."""
        return self.evaluate("joint_velocity", q, v)

    # --- coordinates ------------------------------------------------------------------------------------------------------

    def kinematics_matrix(self, q: Array, parameters: Parameters = None) -> Floats:
        """A (..., nq, nv) of q' = A v."""
        return self.evaluate("kinematics_matrix", self._configuration(q), parameters=parameters)

    def rate(self, q: Array, v: Array, parameters: Parameters = None) -> Floats:
        """q' (..., nq)."""
        q, v = self._configuration(q), self._vector(v, self.nv, "velocity v")
        return self.evaluate("rate", q, v, parameters=parameters)

    def constraints(self, q: Array, parameters: Parameters = None) -> Floats:
        """phi(q) (..., m): relations of the coordinates, then loops and holonomic constraints; zero where all of them hold.

        Unlike the other methods it takes a q off the manifold.
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
        """How far loops and constraints are missed: phi(q) of the holonomic ones, and Phi v + b."""
        self._need_constraints("constraint_residuals")
        q, v = self._configuration(q), self._vector(v, self.nv, "velocity v")
        position = self.evaluate("position_residual", q, parameters=parameters)
        return position, self.evaluate("velocity_residual", q, v, parameters=parameters)

    def constraint_forces(
        self, q: Array, v: Array, u: Array | None = None, parameters: Parameters = None
    ) -> dict[str, Floats]:
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
        tolerance: float = ASSEMBLED,
    ) -> tuple[Floats, Floats]:
        """A consistent start near the guess: closed loops and admissible velocities.

        Parameters
        ----------
        q, v : guess (nq,), (nv,); None: neutral configuration, or a random one if loops do not close from there; at rest.
        fixed : joints whose configuration and velocity stay as given (drive a mechanism by its crank).
        tolerance : what may be left of the equations of positions beside the length of the system, of those of directions beside 1.
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
        Phi, M = self.constraint_jacobian(q, parameters), self.mass_matrix(q, parameters)
        return self.nv - independent_rows(Phi, M, self.expressions.constrained.groups)

    def minimal_tangent(
        self, q: Array, v: Array | None = None, independent: Sequence[str] = (), parameters: Parameters = None
    ) -> MinimalTangent:
        """Minimal coordinates of the deviations from states that satisfy loops and constraints, as :meth:`linearize` uses them.

        ``independent`` names joints whose coordinates shall be among them; by default the best conditioned choice at the first state.

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
                f"{method}: {self.name!r} has no loops or constraints left to enforce (a basis satisfies them already)."
            )

    # --- equations of motion ----------------------------------------------------------------------------------------------

    def mass_matrix(self, q: Array, parameters: Parameters = None) -> Floats:
        """M (..., nv, nv), symmetric positive definite (eq. 3.125a)."""
        return self._finite("mass_matrix", self._configuration(q), parameters=parameters)

    def bias(self, q: Array, v: Array, parameters: Parameters = None) -> Floats:
        """c (..., nv): Coriolis and gyroscopic forces (eq. 3.125b)."""
        q, v = self._configuration(q), self._vector(v, self.nv, "velocity v")
        return self._finite("bias", q, v, parameters=parameters)

    def coriolis_matrix(self, q: Array, v: Array, parameters: Parameters = None) -> Floats:
        """C (..., nv, nv) with C v = c and d/dt(M) - 2 C skew-symmetric, in any velocity coordinates."""
        q, v = self._configuration(q), self._vector(v, self.nv, "velocity v")
        return self._finite("coriolis_matrix", q, v, parameters=parameters)

    def damping_matrix(self, q: Array, parameters: Parameters = None) -> Floats:
        """D (..., nv, nv) of dampers and quadratic dissipation functions (eq. 3.125c)."""
        return self._finite("damping_matrix", self._configuration(q), parameters=parameters)

    def dissipation_force(self, q: Array, v: Array, parameters: Parameters = None) -> Floats:
        """f^D = dR/dv (..., nv): D v and the forces of dissipation functions that are not quadratic."""
        q, v = self._configuration(q), self._vector(v, self.nv, "velocity v")
        return self._finite("dissipation_force", q, v, parameters=parameters)

    def stiffness_force(self, q: Array, parameters: Parameters = None) -> Floats:
        """f^K (..., nv): gradient of the spring energy and of the user's potentials (eq. 3.125d)."""
        return self._finite("stiffness_force", self._configuration(q), parameters=parameters)

    def gravity_force(self, q: Array, parameters: Parameters = None) -> Floats:
        """f^G (..., nv): gradient of the gravity energy (eq. 3.125e, erratum 0.41)."""
        return self._finite("gravity_force", self._configuration(q), parameters=parameters)

    def applied_force(self, q: Array, v: Array, parameters: Parameters = None) -> Floats:
        """The user's generalised forces f(q, v) (..., nv) on the right-hand side."""
        q, v = self._configuration(q), self._vector(v, self.nv, "velocity v")
        return self._finite("applied_force", q, v, parameters=parameters)

    def input_matrix(self, q: Array, parameters: Parameters = None) -> Floats:
        """B (..., nv, nu): generalised force per unit of each input."""
        return self._finite("input_matrix", self._configuration(q), parameters=parameters)

    def acceleration(self, q: Array, v: Array, u: Array | None = None, parameters: Parameters = None) -> Floats:
        """Forward dynamics a (..., nv) (eq. 3.126b); ``u`` None means no input."""
        q, v, u = (
            self._configuration(q, closed=True, parameters=parameters),
            self._vector(v, self.nv, "velocity v"),
            self._inputs(u),
        )
        a = self._finite("acceleration", q, v, u, parameters=parameters)
        if self.description.rubs and not is_symbolic(a):
            check_friction(self, q, v, parameters)
        return a

    def inverse_dynamics(self, q: Array, v: Array, a: Array, parameters: Parameters = None) -> Floats:
        """Generalised force (..., nv) that the inputs must supply for the acceleration ``a``: M a + c + D v + fK + fG - f."""
        q, v, a = (
            self._configuration(q),
            self._vector(v, self.nv, "velocity v"),
            self._vector(a, self.nv, "acceleration a"),
        )
        return self._finite("inverse_dynamics", q, v, a, parameters=parameters)

    def acceleration_derivatives(
        self, q: Array, v: Array, u: Array | None = None, parameters: Parameters = None
    ) -> tuple[Floats, Floats, Floats, Floats]:
        """The acceleration a (..., nv) and its derivatives: along the velocity coordinates (d_i a), by v, by u.

        With loops, velocity constraints or a basis: by the minimal coordinates (xi, eta) of :meth:`minimal_tangent`, and by u.
        """
        q, v, u = self._configuration(q), self._vector(v, self.nv, "velocity v"), self._inputs(u)
        if not self._is_tree:
            minimal, given = self.minimal_tangent(q, v, parameters=parameters), self._inputs(u)
            return tangent.acceleration_derivatives(self, q, v, given, parameters, minimal)
        return self._finite("acceleration_derivatives", q, v, u, parameters=parameters)

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
        q, v, u = (
            self._configuration(q, closed=True, parameters=parameters),
            self._vector(v, self.nv, "velocity v"),
            self._inputs(u),
        )
        if not self.parameter_names:
            raise ModelError(
                f"{self.name!r} has no parameters. Make some with system.parameter(name, value) and use them in its description."
            )
        return self._finite("parameter_derivatives", q, v, u, parameters=parameters)

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
        velocities: :meth:`minimal_tangent` tells which, and what they mean for all others. ``independent`` names joints to choose.
        Without ``v`` and ``u`` they are zero. About an arm that motors hold, give the inputs that hold it, ``u=control.equilibrium(model, q).u``:
        a :class:`.NotAtRestWarning` tells where the model does not stay at q without inputs.

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
            tangent.tell_motion(self, np.asarray(q), self.parameter_vector(parameters), found[0])
        return found

    def show(self, path: str | Path | None = None, q: Array | None = None, limits: Any = None) -> Path | InlinePage:
        """Write a page (html) of the system at ``q`` (default: neutral) with a slider for every joint of one axis.

        Sliders stay within the limits of the joints; ``limits`` (joint name -> ``ht.JointLimits``) replaces those of the system.
        Without a ``path`` the page is returned as an object that a notebook shows in place.
        """
        from heavytop.show.inline import InlinePage
        from heavytop.show.pose_page import pose_report, write_pose_page

        limits = self.description.limits if limits is None else limits
        return InlinePage(pose_report(self, q, limits)) if path is None else write_pose_page(self, path, q, limits)

    def to_urdf(self, path: str | Path, limits: Any = None, strict: bool = False) -> Any:
        """Write the system as URDF and return the report of what the format cannot hold (``strict``: raise it).

        ``limits`` (joint name -> ``ht.JointLimits``) replaces those of the system. Parameters are written as their values.
        """
        from heavytop.io.save_robot import save_urdf

        return save_urdf(self.description, path, limits, strict)

    def to_mjcf(self, path: str | Path, limits: Any = None, strict: bool = False) -> Any:
        """Write the system as MJCF, as :meth:`to_urdf` does."""
        from heavytop.io.save_robot import save_mjcf

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
        of them if it is in the equations; header and README name all entries and tell the nominal values of parameters.
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

    def equations(self, names: Mapping[str, str] | None = None) -> Equations:
        """The equations of motion to read: SymPy expressions, text, LaTeX; ``names`` replaces names of symbols."""
        from heavytop.equations.equations import Equations

        return Equations(self, names)
