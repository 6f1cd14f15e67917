"""The catalogue of functions of a model: which expression each one is and which inputs it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property

import numpy as np

from heavytop._arrays import (
    Array,
    Floats,
    concatenate,
    depends_on,
    from_columns,
    is_symbolic,
    jacobian,
    shape,
    substitute,
    symbol,
    to_sx,
    transpose,
    vector,
)
from heavytop.compile import Traced, make_function, trace_of
from heavytop.coordinates import Product
from heavytop.errors import UnknownNameError, unknown_name
from heavytop.geometry import se3
from heavytop.system.constraints.constraints import ConstrainedDynamics, at_rest
from heavytop.system.constraints.scaling import SystemSizes
from heavytop.system.contacts.rows import ContactRows
from heavytop.system.description import WORLD
from heavytop.system.description.description import Description
from heavytop.system.description.graph import INSTANTS
from heavytop.system.dynamics import articulated, internal_dynamics, tangent
from heavytop.system.dynamics.derivatives import acceleration_derivatives, linearization, parameter_derivatives
from heavytop.system.dynamics.equation_terms import EquationTerms
from heavytop.system.dynamics.rheonomic import Drivers
from heavytop.system.dynamics.solve import solve_definite
from heavytop.system.forces.contact import CompliantContact
from heavytop.system.kinematics.kinematics import Kinematics, Motion

EXPLICIT_UP_TO = 8
"""Above this number of degrees of freedom the recursion is always shorter than explicit matrices."""


class Expressions:
    """Symbolic expressions of a described system in the symbols q, v, u, a and p (parameters)."""

    def __init__(self, description: Description) -> None:
        self.description = description
        self.steps = description.graph.spanning_tree()
        joints = description.joints
        self.coordinates = Product([e.joint.coordinates for e in joints], names=[e.label for e in joints])
        self.nq, self.nu = self.coordinates.nq, len(description.inputs)
        self.nv = self.coordinates.nv if description.basis is None else len(description.basis.names)
        self.q, self.v, self.u = symbol("q", self.nq), symbol("v", self.nv), symbol("u", self.nu)
        self.a = symbol("a", self.nv)

    @cached_property
    def p(self) -> Array:
        """The parameters (np,) in order of declaration."""
        return concatenate(*(np.reshape(p.symbol, (1,)) for p in self.description.parameters), symbol("none", 0))

    @cached_property
    def lam(self) -> Array:
        """The multipliers (m,) as symbols."""
        return symbol("lam", self.constrained.Phi.shape[0] if self.is_constrained else 0)

    @cached_property
    def kinematics(self) -> Kinematics:
        """Kinematics at (q, v)."""
        velocity, basis = self.description.velocity, self.description.basis
        if basis is not None:
            joint_v = symbol("joint_v", self.coordinates.nv)
            tree = self.tree(joint_v)
            return tree.with_basis(basis.function, self.v)
        tree = self.tree(self.v)
        return tree if velocity is None else tree.with_velocity(velocity, self.v, self._at_random)

    def _at_random(self, *values: Array) -> tuple[Floats, ...]:
        """Expressions of q and p at random configurations and times, each (3, ...)."""
        d = self.description
        p = np.tile(d.parameter_values(), (len(INSTANTS), 1))
        if d.time is not None:
            p[:, -1] = INSTANTS
        inputs, outputs = {"q": self.q, "p": self.p}, {f"out{k}": value for k, value in enumerate(values)}
        return trace_of("random", inputs, outputs).interpret(self.coordinates.random(0, (len(INSTANTS),)), p)

    def tree(self, v: Array, pushes: Mapping[str, Array] | None = None) -> Kinematics:
        """Kinematics at q and the joints' own velocities ``v``; ``pushes`` as there."""
        d = self.description
        return Kinematics(self.coordinates, d.graph.edges, self.steps, self.q, v, d.time, pushes)

    @cached_property
    def dynamics(self) -> EquationTerms:
        """The terms of the equations at (q, v)."""
        return EquationTerms(self.description, self.kinematics, self.q, self.v)

    @cached_property
    def mass_matrix(self) -> Array:
        """M (nv, nv), the shortest of its expressions."""
        if self.nv > EXPLICIT_UP_TO and articulated.has_composites(self.dynamics):
            return articulated.recursive_mass_matrix(self.dynamics)
        return self.dynamics.mass_matrix

    @property
    def is_constrained(self) -> bool:
        """Whether constraints act that the velocity coordinates do not already satisfy."""
        return bool(self.description.loops or self.description.constraints) and self.description.basis is None

    @cached_property
    def drivers(self) -> Drivers:
        """Drivers of frames, constraints and potentials."""
        return Drivers(self)

    @cached_property
    def is_driven(self) -> bool:
        """Whether time or a moving constraint may supply power."""
        d = self.description
        return bool((d.time is not None or d.constraints) and self.drivers.names)

    @cached_property
    def has_moving_rates(self) -> bool:
        """Whether time drives q' = A v itself: A depends on it, or q' does not vanish with v."""
        time = self.description.time
        return time is not None and (self.has_drift or depends_on(self.kinematics.kinematics_matrix, time))

    @cached_property
    def has_drift(self) -> bool:
        """Whether q' does not vanish with v: joints moved by time, or a basis with a drift."""
        drift = at_rest(self.joint_velocity(), self.kinematics)
        return is_symbolic(drift) and not to_sx(drift).is_zero()

    def driver_powers(self) -> dict[str, Array]:
        """Power of each driver by name."""
        return self.drivers.powers(self.acceleration(), self.u)

    def driver_wrenches(self) -> dict[str, Array]:
        """Wrench (6,) of each driver on the frame that it moves."""
        wrenches = self.drivers.wrenches(self.acceleration(), self.u)
        return {name: wrenches[name] for name in self.drivers.frames}

    def contact_forces(self) -> dict[str, Array]:
        """Points (k, 8) of each compliant contact by name: force (3,) on the body and position (3,) in world axes, gap, use of the friction."""
        found = {}
        for term in self.dynamics.elements:
            if isinstance(term.element, CompliantContact):
                pose = self.kinematics.pose(WORLD, term.element.contact.partner)
                rows = [
                    concatenate(np.matvec(se3.rotation(pose), force), se3.transform(pose, place), vector(gap, use))
                    for force, place, gap, use in term.element.observed(term.port.configuration, term.port.velocity)
                ]
                found[term.element.contact.name] = transpose(from_columns(*rows))
        return found

    def power(self) -> dict[str, Array]:
        """Powers of inputs, resistances and other forces; of drivers where there are any."""
        return self.drivers.balance(self.acceleration(), self.u) if self.is_driven else self.dynamics.power(self.u)

    @cached_property
    def constrained(self) -> ConstrainedDynamics:
        """Loops and constraints on top of the tree."""
        return ConstrainedDynamics(self.dynamics, self.description.loops, self.description.constraints)

    @cached_property
    def contact_rows(self) -> ContactRows:
        """Rows of contacts and constraints."""
        return ContactRows(self)

    @cached_property
    def sizes(self) -> SystemSizes:
        """Characteristic sizes of coordinates and equations."""
        return SystemSizes(self)

    # --- expressions that are more than one quantity of EquationTerms -----------------------------------------------------

    def explicit_acceleration(self) -> Array:
        """a = M^-1 (B u - c - D v - fK - fG + f) from the explicit matrices (eq. 3.126b)."""
        d = self.dynamics
        right = np.matvec(d.input_matrix, self.u) - d.passive_force if self.nu else -d.passive_force
        return solve_definite(d.mass_matrix, right)

    def recursive_acceleration(self) -> Array:
        """The same by the articulated-body recursion."""
        return articulated.forward_dynamics(self.dynamics, self.u)

    def internal_acceleration(self) -> Array:
        """The same in internal frames."""
        return internal_dynamics.forward_dynamics(self.dynamics, self.u)

    def acceleration(self) -> Array:
        """The shortest of the programs; with constraints the one that fulfils them."""
        return self._acceleration

    @cached_property
    def _acceleration(self) -> Array:
        if self.is_constrained:
            return self.constrained.acceleration(self.u)
        candidates = []
        if self.kinematics.transform is None:
            candidates.append(self.internal_acceleration)
        if articulated.is_recursive(self.dynamics) and (self.nv <= EXPLICIT_UP_TO or self._has_pairs):
            candidates.append(self.recursive_acceleration)
        if self.nv <= EXPLICIT_UP_TO or not candidates:
            candidates.insert(0, self.explicit_acceleration)
        if len(candidates) == 1:
            return candidates[0]()
        built = [(build, self._make("trial", ("q", "v", "u"), build())) for build in candidates]
        return min(built, key=lambda pair: pair[1].instructions)[0]()

    @property
    def _has_pairs(self) -> bool:
        """Whether forces depend on poses of bodies, which need the user's frames."""
        return any(element.is_between_frames for element in self.description.elements)

    def inverse_dynamics(self) -> Array:
        """f^E = M a + c + D v + fK + fG - f (recursive Newton-Euler where it applies)."""
        if self.kinematics.transform is None:
            return articulated.inverse_dynamics(self.dynamics, self.a)
        return np.matvec(self.dynamics.mass_matrix, self.a) + self.dynamics.passive_force

    # --- catalogue ----------------------------------------------------------------------------------------------------------

    @cached_property
    def catalogue(
        self,
    ) -> Mapping[str, tuple[tuple[str, ...], Callable[[], Array | tuple[Array, ...] | Mapping[str, Array]]]]:
        """Name -> (inputs, how to build the expression)."""
        d = lambda name: lambda: getattr(self.dynamics, name)  # noqa: E731
        return {
            "kinematics_matrix": (("q",), lambda: self.kinematics.kinematics_matrix),
            "rate": (("q", "v"), lambda: self.kinematics.rate),
            "constraints": (("q",), lambda: self.coordinates.constraints(self.q)),
            "commutation": (("q",), lambda: concatenate(*map(_flat, self.kinematics.commutation))),
            "connection": (("q",), lambda: _flat(from_columns(*map(_flat, self.dynamics.connection)))),
            "mass_matrix": (("q",), d("mass_matrix")),
            "bias": (("q", "v"), d("bias")),
            "coriolis_matrix": (("q", "v"), d("coriolis_matrix")),
            "damping_matrix": (("q",), d("damping_matrix")),
            "dissipation_force": (("q", "v"), d("dissipation_force")),
            "stiffness_force": (("q",), d("stiffness_force")),
            "gravity_force": (("q",), d("gravity_force")),
            "applied_force": (("q", "v"), d("applied_force")),
            "input_matrix": (("q",), d("input_matrix")),
            "poses": (("q",), self._poses),
            "contact_points": (("q",), lambda: self.contact_rows.world_points()),
            "kinetic_energy": (("q", "v"), d("kinetic_energy")),
            "potential_energy": (("q",), d("potential_energy")),
            "energy": (("q", "v"), self._energy),
            "acceleration_energy": (("q", "v", "a"), lambda: self.dynamics.acceleration_energy(self.a)),
            "center_of_mass": (("q",), d("center_of_mass")),
            "momentum": (("q", "v"), lambda: dict(zip(("linear", "angular"), self.dynamics.momentum, strict=True))),
            "power": (("q", "v", "u"), self.power),
            "driver_power": (("q", "v", "u"), self.driver_powers),
            "contact_forces": (("q", "v"), self.contact_forces),
            "driver_wrenches": (("q", "v", "u"), self.driver_wrenches),
            "acceleration": (("q", "v", "u"), self.acceleration),
            "explicit_acceleration": (("q", "v", "u"), self.explicit_acceleration),
            "recursive_acceleration": (("q", "v", "u"), self.recursive_acceleration),
            "internal_acceleration": (("q", "v", "u"), self.internal_acceleration),
            "inverse_dynamics": (("q", "v", "a"), self.inverse_dynamics),
            "acceleration_derivatives": (("q", "v", "u"), lambda: acceleration_derivatives(self)),
            "parameter_derivatives": (("q", "v", "u"), lambda: parameter_derivatives(self)),
            "tangent_rows": (("q", "v"), lambda: tangent.rows(self)),
            "tangent_slopes": (("q", "v", "u", "a", "lam"), lambda: tangent.slopes(self)),
            "linearization": (("q", "v", "u"), lambda: linearization(self)),
            "joint_velocity": (("q", "v"), self.joint_velocity),
            "joint_rows": (("q",), self._joint_rows),
            "supplied_force": (("q", "v"), d("supplied_force")),
            "constraint_jacobian": (("q",), lambda: self.constrained.Phi),
            "constraint_drift": (("q",), lambda: self.constrained.drift),
            "constraint_bias": (("q", "v"), lambda: self.constrained.bias),
            "friction_forces": (("q", "v"), lambda: self.constrained.friction_forces),
            "friction_reactions": (("q",), lambda: self.constrained.friction_reactions),
            "position_residual": (("q",), lambda: self.constrained.position_residual),
            "relative_position_residual": (("q",), lambda: self.sizes.relative_residuals()["position"]),
            "joint_sizes": (("q",), lambda: self.sizes.joints),
            "velocity_sizes": (("q",), lambda: self.sizes.velocities),
            "row_sizes": (("q",), lambda: self.sizes.rows),
            "relative_residuals": (("q", "v"), lambda: self.sizes.relative_residuals()),
            "loop_branches": (("q",), lambda: self.constrained.branches),
            "velocity_residual": (("q", "v"), lambda: self.constrained.velocity_residual),
            "projection": (("q", "v"), self.projection),
            "multipliers": (("q", "v", "u"), lambda: self.constrained.multipliers(self.u)),
            "friction_gain": (("q", "v"), self.friction_gain),
            "constraint_acceleration": (("q", "v", "u"), self._acceleration_check),
            "constraint_forces": (("q", "v", "u"), lambda: self.constrained.reactions(self.u)),
            "motion": (
                ("q", "v", "u"),
                lambda: dict(zip(("joint_velocity", "acceleration"), self._motion(), strict=True)),
            ),
        }

    def _poses(self) -> tuple[Array, ...]:
        """Pose of every frame in the world, in the order of the graph."""
        return tuple(self.kinematics.pose(WORLD, frame) for frame in self.description.graph.frames)

    @cached_property
    def _of_frames(self) -> Mapping[str, tuple[tuple[str, ...], Callable[[Motion], Array]]]:
        """Kind -> (inputs, expression) of functions of two frames, named ``kind:a:b``."""
        return {
            "pose": (("q",), lambda motion: motion.pose),
            "jacobian": (("q",), lambda motion: motion.jacobian),
            "jacobian_rate": (("q", "v"), lambda motion: self.kinematics.rate_of(motion.jacobian)),
            "twist": (("q", "v"), lambda motion: motion.twist),
            "twist_rate": (("q", "v", "a"), lambda motion: motion.rate(self.a)),
        }

    def _acceleration_check(self) -> dict[str, Array]:
        """The acceleration, the relative residual of the constraints, and the relative size of the terms of these."""
        found = self.constrained.acceleration_check(self.u)
        return {k: x if k == "a" else self.sizes.share(x, self.sizes.rows) for k, x in found.items()}

    @property
    def branch_names(self) -> tuple[str, ...]:
        """For each value of ``loop_branches`` the name of its loop."""
        rows = self.constrained.rows
        return tuple(r.name for r in rows if r.branch is not None for _ in range(shape(r.branch)[0]))

    def joint_velocity(self) -> Array:
        """Velocities in the joints' own coordinate blocks (parent-relative): q' = A_blocks(q) joint_velocity."""
        return concatenate(*(self.kinematics.relative_v[edge.label] for edge in self.description.joints))

    def _motion(self) -> tuple[Array, Array]:
        """Joint velocity and acceleration."""
        return self.joint_velocity(), self.acceleration()

    def _projected_q(self) -> Array:
        """One Newton step from q towards phi(q) = 0, least in the metric of M."""
        return self.coordinates.retract(self.q, np.matvec(self._joint_rows(), self.constrained.position_correction()))

    def friction_gain(self) -> Array:
        """Gain (1,) of the feedback from friction to its own reaction: below 1 the acceleration is unique; 0 without such friction."""
        friction = self.constrained.friction if self.is_constrained else None
        return np.zeros(1) if friction is None else np.reshape(friction.gain, (1,))

    # Where the constraints are nearly dependent, accelerations amplify errors of q and v by the inverse of the small singular value.
    # There a second function follows the usual one and replaces its results: stages are evaluated at the nearest configuration and
    # velocity that satisfy the constraints, and the velocity at the end of a step is that of the new configuration.

    def kept(self) -> dict[str, Array] | None:
        """Quantities monitored along a motion (:mod:`heavytop.simulate.energy_monitor`); None without loops, constraints and drivers.

        Energies, residuals of constraints, the speed and branches of loops, gain of friction; accelerations of driven frames and their momenta.
        """
        d, none = self.description, np.zeros(0)
        if not (d.loops or d.constraints or self.is_driven):
            return None
        held, driven = self.is_constrained, self.is_driven
        return {
            "kinetic": self.dynamics.kinetic_energy,
            "potential": self.dynamics.potential_energy,
            **(self.sizes.kept() if held else dict.fromkeys(("residual", "slip"), none)),
            "speed": self.sizes.speed,
            "branches": self.constrained.branches if held else none,
            "gain": self.friction_gain(),
            "drive": self.drivers.accelerations if driven else none,
            "carried": self.drivers.momenta if driven else none,
        }

    def stage(self) -> dict[str, Array]:
        """The motion with constraints, and ``near``: whether :meth:`stage_near_singular` is to follow."""
        w, a = self._motion()
        return {"w": w, "a": a, "near": self.constrained.near_singular()}

    def stage_near_singular(self, w: Array, a: Array, near: Array) -> dict[str, Array]:
        """The motion at the nearest consistent configuration and velocity, where ``near`` is not zero; else ``w`` and ``a``."""
        q, v = self._projected_q(), self.v + self.constrained.velocity_correction()
        moved = (substitute(substitute(rate, self.v, v), self.q, q) for rate in self._motion())
        return {
            label: np.where(near != 0.0, new, old) for label, new, old in zip(("w", "a"), moved, (w, a), strict=True)
        }

    def projection(self) -> dict[str, Array]:
        """One Newton step towards phi(q) = 0 and the velocity that satisfies the constraints, both least in the metric of M; ``near``."""
        v = self.v + self.constrained.velocity_correction()
        return {"q": self._projected_q(), "v": v, "near": self.constrained.near_singular()}

    def projection_near_singular(self, projected: Array, near: Array) -> dict[str, Array]:
        """The velocity that satisfies the constraints at ``q``, where ``near`` is not zero; else the ``projected`` one."""
        return {"v": np.where(near != 0.0, self.v + self.constrained.velocity_correction(), projected)}

    def _joint_rows(self) -> Array:
        """Rows (joint velocities, nv): joint_velocity = rows v (without drift)."""
        return jacobian(self.joint_velocity(), self.v)

    def _energy(self) -> Array:
        return self.dynamics.kinetic_energy + self.dynamics.potential_energy

    def traced(self, name: str) -> Traced:
        """The traced function of that name; poses and Jacobians are named ``pose:a:b`` and ``jacobian:a:b``."""
        return self._make(name, *self._lookup(name))

    def _lookup(self, name: str) -> tuple[tuple[str, ...], Array | tuple[Array, ...] | Mapping[str, Array]]:
        kind, *frames = name.split(":")
        if kind in self._of_frames and len(frames) == 2:
            inputs, build = self._of_frames[kind]
            return inputs, build(self.kinematics.motion(*frames))
        if name not in self.catalogue:
            error = unknown_name("function of a model", name, self.catalogue)
            raise UnknownNameError(f"{error} Poses and Jacobians are named 'pose:a:b' and 'jacobian:a:b'.")
        inputs, build = self.catalogue[name]
        return inputs, build()

    def _make(
        self, name: str, inputs: tuple[str, ...], value: Array | tuple[Array, ...] | Mapping[str, Array]
    ) -> Traced:
        symbols = {label: getattr(self, label) for label in (*inputs, "p")}
        if isinstance(value, tuple):
            outputs = {f"out{i}": part for i, part in enumerate(value)}
        else:
            outputs = dict(value) if isinstance(value, Mapping) else {name.split(":")[0]: value}
        function = make_function(f"{self.description.name}_{name}", symbols, outputs)
        shapes = {label: shape(part) for label, part in outputs.items()}
        if name in ("commutation", "connection"):
            shapes = {name: (self.nv,) * 3}
        return Traced(name, function, {label: tuple(s.shape) for label, s in symbols.items()}, shapes)


def _flat(matrix: Array) -> Array:
    """A matrix as a vector, row by row."""
    return np.reshape(matrix, (matrix.shape[0] * matrix.shape[1],))
