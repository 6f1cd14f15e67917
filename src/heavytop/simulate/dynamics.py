"""Dynamics: coordinates and a motion function, of a model or from user-defined functions (``user_dynamics``)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cache, cached_property
from math import isfinite
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._arrays import Array, concatenate, jacobian, shape, substitute, symbol, to_sx, vector
from heavytop.compile import Functions, Kernel, Traced, trace_of
from heavytop.coordinates import Coordinates
from heavytop.errors import ConfigurationError, ModelError, SimulationError
from heavytop.functions import Value
from heavytop.simulate.outcome import place_in
from heavytop.system import MANIFOLD_TOLERANCE, POINT, with_time

if TYPE_CHECKING:
    from heavytop.system import ContactRows, EquationTerms, Model


EXCHANGED = 1e-3
"""Error of the balance relative to the energy exchanged above which a trajectory is wrong."""
TOUCHED = 1e-4
"""The same with compliant contacts: an impact in too few steps misses the balance by a fortieth of what it misses of the velocity."""


OVERLAP = 1e-4
"""Depth in m (rad) up to which rigid bodies may overlap at the start: the first step moves them apart."""


class Dynamics(Value, ABC):
    """A system in the form ``q' = A(q) w(q, v)``, ``v' = a(q, v, u, p)`` with ``A`` of its ``coordinates``.

    Attributes
    ----------
    name : name of the system.
    coordinates : where ``q`` lives; ``w`` are the velocities of its blocks.
    v_names, u_names, parameter_names : names of the rest.
    equations_key : key of the functions for native code on disk, or None.
    has_time : whether the last parameter is the time; the caller must set it.

    Examples
    --------
    >>> import heavytop as ht
    >>> ht.UserDynamics.__mro__[1] is Dynamics
    True
    """

    name: str
    coordinates: Coordinates
    u_names: tuple[str, ...]
    parameter_names: tuple[str, ...]
    equations_key: str | None = None
    has_time: bool = False

    @property
    def q_names(self) -> tuple[str, ...]:
        """Names of the configuration coordinates."""
        return self.coordinates.q_names

    @cached_property
    def v_names(self) -> tuple[str, ...]:
        """Names of the velocity coordinates."""
        return self.coordinates.v_names

    @cached_property
    def nq(self) -> int:
        """Number of configuration coordinates."""
        return self.coordinates.nq

    @cached_property
    def nv(self) -> int:
        """Number of velocity coordinates."""
        return len(self.v_names)

    @property
    def nu(self) -> int:
        """Number of inputs."""
        return len(self.u_names)

    @cached_property
    def q_units(self) -> tuple[str, ...]:
        """Unit of each configuration coordinate."""
        return self.coordinates.q_units

    @cached_property
    def v_units(self) -> tuple[str, ...]:
        """Unit of each velocity coordinate."""
        return self.coordinates.v_units

    @cached_property
    def u_units(self) -> tuple[str, ...]:
        """Unit of each input; empty where unknown."""
        return ("",) * self.nu

    @cached_property
    def labels(self) -> dict[str, Any]:
        """All names and units, by the name of the property."""
        return {f"{x}_{kind}": getattr(self, f"{x}_{kind}") for kind in ("names", "units") for x in "qvu"}

    @abstractmethod
    def motion(self) -> Traced:
        """(q, v, u, p) -> (joint_velocity, acceleration, ...); further outputs are recorded as channels."""

    def energies(self) -> Traced | None:
        """(q, v, p) -> (kinetic, potential) in J; None if unknown."""
        return None

    def power(self) -> Traced | None:
        """(q, v, u, p) -> (input, dissipated) power in W, and that of drivers if there are any; None if nothing enters or leaves."""
        return None

    @property
    def is_balanced(self) -> bool:
        """Whether energies and power are all that the motion exchanges, so that their balance can be watched."""
        return False

    @property
    def contact_names(self) -> tuple[str, ...]:
        """Names of rigid contacts and other inequalities, which only some integrators solve."""
        return ()

    def contact_rows(self) -> ContactRows | None:
        """Rows of rigid contacts and constraints; None without contacts."""
        return None

    def contact_points(self) -> Traced | None:
        """(q, p) -> gap (k,), point (k, 3), axes (k, 9) of all points of contacts in world axes; None without contacts."""
        return None

    def contact_coefficients(self) -> Traced | None:
        """(q, p) -> coefficients of friction (units,) of the rows of contacts."""
        return None

    def contact_jacobian(self) -> Traced | None:
        """(q, p) -> rows J (m, nv) of contacts and constraints."""
        return None

    def potential(self) -> Traced | None:
        """(q, p) -> potential energy in J; None if unknown."""
        return None

    @property
    def sensed_contacts(self) -> tuple[str, ...]:
        """Names of the contacts whose forces a law can read."""
        return ()

    def contact_sensor(self) -> Traced:
        """(q, v, impulse, h, p) -> their forces (3 n,) in N on the bodies, world axes; impulses of rigid contacts in the step before."""
        raise SimulationError(f"{self.name!r} has no contacts.")

    def compliant_contacts(self) -> Traced | None:
        """(q, v, p) -> points (k, 8) of each compliant contact by name: force and position in world axes, gap, use of friction; None without."""
        return None

    @property
    def balance_tolerance(self) -> float:
        """Error of the balance of energy, relative to the energy exchanged, above which a motion is wrong."""
        return EXCHANGED

    def drivers(self) -> Traced | None:
        """(q, v, u, p) -> power in W of each driver, by name; None if there are none."""
        return None

    def at_times(self, p: np.ndarray, t: Any) -> np.ndarray:
        """Parameters (..., np) with the time set to ``t`` (...); ``p`` itself if there is no time among them."""
        return with_time(p, t) if self.has_time else p

    def stage(self) -> tuple[Traced, Traced] | None:
        """The motion where loops or constraints act, in two functions; None if there are none.

        (q, v, u, p) -> (w, a, near), and (q, v, u, p, w, a, near) -> (w, a), which is called where ``near`` is not zero.
        """
        return None

    def projection(self) -> tuple[Traced, Traced] | None:
        """What takes a state back to loops and constraints, in two functions; None if there are none to enforce.

        (q, v, p) -> (q, v, near) least away, and (q, v before, p, v, near) -> v, which is called where ``near`` is not zero.
        """
        return None

    def force(self) -> Traced | None:
        """(q, v, u, p) -> generalised force (nv,) that is no gradient of a potential; None if there is none."""
        return None

    def power_forces(self) -> Traced | None:
        """(q, v, u, p) -> generalised forces (nv,) of inputs, supplied and resisting ones, whose powers :meth:`power` has, and the weight.

        None if they are unknown or nothing enters or leaves.
        """
        return None

    def slopes(self) -> Traced:
        """(q, v, u, p, a, lam) -> derivatives of the motion in implicit form: r_a, r_delta, r_v, r_u, w_v, Phi, s_delta, s_v.

        r(q, v, u, a) = Phi^T lam are the equations of motion, s(q, v, a) = 0 the accelerations of loops and constraints, w the velocities of the
        coordinates' blocks and theta the displacements along them. By default r = a - acceleration(q, v, u).
        """
        sizes = {"q": self.nq, "v": self.nv, "u": self.nu, "p": len(self.parameter_names), "a": self.nv, "lam": 0}
        s = {name: symbol(name, size) for name, size in sizes.items()}
        w, a, *_ = self.motion().expressions(s["q"], s["v"], s["u"], s["p"])
        outputs = {
            "r_a": np.eye(self.nv),
            "r_delta": along_velocities(self.coordinates, -a, s["q"]),
            "r_v": jacobian(-a, s["v"]),
            "r_u": jacobian(-a, s["u"]) if self.nu else np.zeros((self.nv, 0)),
            "w_v": jacobian(w, s["v"]),
            **_no_rows(self.coordinates.nv, self.nv),
        }
        return trace_of("slopes", s, outputs)

    def secant(self) -> Traced | None:
        """(q, v, p, dv) -> S dv (nv,) with the secants S of friction (:meth:`.ForceElement.secant`); None if there is none."""
        return None

    def multipliers(self) -> Traced | None:
        """(q, v, u, p) -> multipliers lam (m,) of the rows in :meth:`slopes`; None if there are none."""
        return None

    def momentum(self) -> Traced | None:
        """(q, v, p) -> linear and angular momentum about the origin, in world axes (6,); None if unknown."""
        return None

    def balance(self) -> Traced | None:
        """(q, v, a, u, p) -> M a less all forces but reactions of loops and constraints (nv,); None if unknown."""
        return None

    def joint_velocity(self) -> Traced | None:
        """(q, v, p) -> velocities w (nw,) of the coordinates' blocks; None if they are v."""
        return None

    def rows(self) -> Traced | None:
        """(q, p) -> (Phi (m, nv), drift b (m,), phi (m,)) of loops and constraints; None if there are none to enforce.

        They demand Phi v + b = 0, and phi = 0 in those of :attr:`holonomic_rows`.
        """
        return None

    @property
    def holonomic_rows(self) -> np.ndarray:
        """Which rows belong to equations phi(q) = 0: booleans (m,)."""
        return np.zeros(0, dtype=bool)

    @property
    def row_groups(self) -> list[int]:
        """For each row a number that it shares with those of the same constraint and unit."""
        return list(range(len(self.holonomic_rows)))

    def residual(self) -> Traced | None:
        """(q, v, p) -> (position, velocity) residuals of loops and constraints; None if there are none."""
        return None

    def relative_residuals(self) -> Traced | None:
        """(q, v, p) -> (position, velocity, terms) of residuals relative to their sizes; ``terms``: magnitudes summed in velocity."""
        return None

    def sizes(self) -> Traced | None:
        """(q, p) -> size of each velocity coordinate, times 1/s (nv,); None: 1."""
        return None

    def guards(self, step: float) -> tuple[Any, ...]:
        """Terminal events at which the equations end; ``step`` is the size of a step."""
        return ()

    def is_on_manifold(self, q: Any) -> bool:
        """Whether this is one configuration on its manifold, by a fast test; False: the coordinates must check it."""
        return False

    def why_not_finite(self, q: np.ndarray, v: np.ndarray, p: np.ndarray) -> str:
        """Why the motion is not finite at a state, as text."""
        return "the motion is not finite."

    def kept(self) -> Traced | None:
        """(q, v, p) -> quantities that are monitored; None without loops or drivers.

        Kinetic and potential energy, residuals of constraints (phi, and Phi v + b where there is no phi) and the speed (1/s), all relative to
        their sizes; branches of loops, gain of friction, accelerations of driven frames and momenta they carry.
        """
        return None

    def weak_constraint(self, q: np.ndarray, start: np.ndarray, p: np.ndarray) -> str | None:
        """Description of the constraint that is nearly singular at ``q`` but not at ``start``, or None."""
        return None

    def check_gaps(self, q: np.ndarray, p: np.ndarray) -> None:
        """Raise where bodies overlap at the start: the first step would push them apart and supply the energy."""

    def check_start(self, q: np.ndarray, v: np.ndarray, p: np.ndarray) -> None:
        """Raise a ConfigurationError for a start that satisfies all equations and is wrong nevertheless."""
        return

    @abstractmethod
    def parameter_vector(self, parameters: Mapping[str, Any] | None = None) -> np.ndarray:
        """Values (..., np) of all parameters."""

    @cached_property
    def functions(self) -> Functions:
        """The functions above as one table."""
        return Functions(lambda name: getattr(self, name)())

    def kernel(self, name: str) -> Kernel | None:
        """Native code of one of the functions above, by its name."""
        return self.functions.kernel(name)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}: nq={self.nq}, nv={self.nv}, nu={self.nu})"


class ModelDynamics(Dynamics):
    """A derived model."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.name, self.coordinates = model.name, model.coordinates
        self.nq, self.nv, self.parameter_names = model.nq, model.nv, model.parameter_names
        self.v_names, self.u_names = model.v_names, model.u_names
        self.q_units, self.v_units, self.u_units = model.q_units, model.v_units, model.u_units
        self.equations_key = model.description.equations_key
        self.has_time = model.description.time is not None
        self._equations_of_q = len(model.coordinates.constraint_names)

    def is_on_manifold(self, q: Any) -> bool:
        if type(q) is not np.ndarray or q.shape != (self.nq,) or q.dtype != np.float64 or not isfinite(q.dot(q)):
            return False
        if not self._equations_of_q:
            return True
        if not self.model.native:
            return False
        (phi,) = self._manifold(q, self._nominal)
        return bool(phi.dot(phi) <= MANIFOLD_TOLERANCE**2)

    @cached_property
    def _manifold(self) -> Kernel:
        return self.model.compiled("constraints")

    def _make_key(self) -> str | None:
        return self.model.key

    def kernel(self, name: str) -> Kernel | None:
        functions, text = self.model.functions, f"dynamics {name}"
        functions.add(text, getattr(self, name))
        return functions.kernel(text)

    def motion(self) -> Traced:
        return self.model.traced("motion")

    def stage(self) -> tuple[Traced, Traced] | None:
        if not self.model.is_constrained:
            return None
        e = self.model.expressions
        first = self._make("motion", ("q", "v", "u"), e.stage())
        given = {label: symbol(label, *size) for label, size in first.outputs.items()}
        more = {"w": given["w"], "a": given["a"], "near": given["near"]}
        return first, self._make("motion near", ("q", "v", "u"), e.stage_near_singular(**more), more)

    def projection(self) -> tuple[Traced, Traced] | None:
        if not self.model.is_constrained:
            return None
        e = self.model.expressions
        more = {"projected": symbol("projected", self.nv), "near": symbol("near")}
        second = self._make("project near", ("q", "v"), e.projection_near_singular(**more), more)
        return self._make("project", ("q", "v"), e.projection()), second

    def energies(self) -> Traced:
        energies = {"kinetic": self._terms.kinetic_energy, "potential": self._terms.potential_energy}
        return self._make("energies", ("q", "v"), energies)

    @property
    def is_balanced(self) -> bool:
        return True

    @property
    def contact_names(self) -> tuple[str, ...]:
        d = self.model.description
        return tuple(item.name for item in (*d.contacts, *d.inequalities))

    def contact_rows(self) -> ContactRows | None:
        return self.model.expressions.contact_rows if self.contact_names else None

    def contact_points(self) -> Traced | None:
        return self.model.traced("contact_points") if self.contact_names else None

    def contact_coefficients(self) -> Traced | None:
        rows = self.contact_rows()
        return None if rows is None else self._make("contact_coefficients", ("q",), {"mu": rows.friction})

    @property
    def sensed_contacts(self) -> tuple[str, ...]:
        return self.model.sensed_contacts

    def contact_sensor(self) -> Traced:
        e, h, found = self.model.expressions, symbol("h"), {}
        rows = self.contact_rows()
        impulse = symbol("impulse", 0 if rows is None else sum(unit.size for unit in rows.units))
        if rows is not None:
            axes = rows.world_points()["axes"]
            for k, unit in enumerate(rows.units[: len(rows.points)]):
                force = found.get(unit.name, np.zeros(3))
                for i in range(unit.size):
                    force = force + impulse[unit.first + i] / h * axes[k, 3 * i : 3 * i + 3]
                found[unit.name] = force
        found |= {name: sum(x[k, :3] for k in range(shape(x)[0])) for name, x in e.contact_forces().items()}
        forces = concatenate(np.zeros(0), *(found[name] for name in self.sensed_contacts))
        inputs = {"q": e.q, "v": e.v, "impulse": impulse, "h": h, "p": e.p}
        return trace_of("contact_sensor", inputs, {"contacts": forces})

    def contact_jacobian(self) -> Traced | None:
        rows = self.contact_rows()
        return None if rows is None else self._make("contact_jacobian", ("q",), {"J": rows.J})

    def potential(self) -> Traced:
        return self.model.traced("potential_energy")

    def why_not_finite(self, q: np.ndarray, v: np.ndarray, p: np.ndarray) -> str:
        from heavytop.system import why_not_finite

        return why_not_finite(self.model, q, v, p)

    def kept(self) -> Traced | None:
        outputs = self.model.expressions.kept()
        return None if outputs is None else self._make("kept", ("q", "v"), outputs)

    def _parameters(self, p: np.ndarray) -> dict[str, np.ndarray]:
        return {name: p[..., i] for i, name in enumerate(self.parameter_names)}

    def weak_constraint(self, q: np.ndarray, start: np.ndarray, p: np.ndarray) -> str | None:
        from heavytop.system.validation import singularities as singular

        return singular.weak_constraint(self.model, q, start, self._parameters(p))

    def check_start(self, q: np.ndarray, v: np.ndarray, p: np.ndarray) -> None:
        from heavytop.system.validation import singularities as singular

        self.model.check_branches(q, self._parameters(p))
        singular.check_start(self.model, q, v, self._parameters(p))

    def contact_gaps(self) -> Traced | None:
        """(q, p) -> gaps (k,) in m (rad) of the points of contacts, ropes and stops; None if there are none."""
        rows = self.contact_rows()
        if rows is None:
            return None
        gaps = [rows.gaps[unit.gap] for unit in rows.units if unit.kind == POINT]
        return self._make("contact_gaps", ("q",), {"gaps": vector(*gaps)}) if gaps else None

    def check_gaps(self, q: np.ndarray, p: np.ndarray) -> None:
        rows, kernel = self.contact_rows(), self.kernel("contact_gaps")
        if rows is None or kernel is None:
            return
        (gaps,) = kernel(q, p)
        if np.min(gaps) >= -OVERLAP:
            return
        place = np.unravel_index(int(np.argmin(gaps)), gaps.shape)  # the first that is not a number, if there is one
        name = [unit.name for unit in rows.units if unit.kind == POINT][place[-1]]
        where = place_in(tuple(int(k) for k in place[:-1]))
        if np.isnan(gaps[place]):
            raise ConfigurationError(
                f"the gap of {name!r} is not a number at the start of {self.name!r}{where}. Give its ground a height that is defined there."
            )
        if place[-1] < len(rows.points):
            what = f"overlaps by {-gaps[place]:.3g} m at {name!r}"
            remedy = (
                "Move the body to the surface (for a rope: the ends together), for example by raising it by this depth"
            )
        else:
            what = f"is {-gaps[place]:.3g} (m or rad) beyond the end of {name!r}"
            remedy = "Start between the ends, or move them"
        raise ConfigurationError(
            f"the start of {self.name!r}{where} {what}, at most {OVERLAP:g} is accepted. {remedy}."
        )

    @property
    def _terms(self) -> EquationTerms:
        return self.model.expressions.dynamics

    @property
    def _rubbing(self) -> Array:
        """Generalised force (nv,) of friction that depends on reactions."""
        e = self.model.expressions
        return e.constrained.friction_force(e.u) if self.model.description.has_reaction_friction else np.zeros(self.nv)

    def force(self) -> Traced | None:
        if self._terms.is_conservative:
            return None
        force = self._terms.nonpotential_force(self.model.expressions.u) + self._rubbing
        return self._make("force", ("q", "v", "u"), {"force": force})

    def compliant_contacts(self) -> Traced | None:
        return self.model.traced("contact_forces") if self.model.compliant_contacts else None

    @property
    def balance_tolerance(self) -> float:
        return TOUCHED if self.model.compliant_contacts else EXCHANGED

    def power_forces(self) -> Traced | None:
        e = self.model.expressions
        if e.is_driven or self._terms.is_conservative:
            return None
        outputs = {
            "input": self._terms.input_force(e.u),
            "supplied": self._terms.supplied_force,
            "resisting": self._terms.dissipation_force - self._rubbing,
            "weight": -self._terms.gravity_force,
        }
        return self._make("power_forces", ("q", "v", "u"), outputs)

    def slopes(self) -> Traced:
        e, m = self.model.expressions, self.model
        slopes = m.traced("tangent_slopes")
        found = dict(zip(slopes.outputs, slopes.expressions(e.q, e.v, e.u, e.a, e.lam, e.p), strict=True))
        outputs = {name: found[name] for name in ("r_a", "r_delta", "r_v")}
        outputs["r_u"] = -self._terms.input_matrix
        outputs["w_v"] = found["w_v"]
        rows = (
            {"Phi": e.constrained.Phi, "s_delta": found["s_delta"], "s_v": found["s_v"]} if m.is_constrained else None
        )
        outputs |= rows or _no_rows(self.coordinates.nv, self.nv)
        inputs = {label: getattr(e, label) for label in ("q", "v", "u", "p", "a", "lam")}
        return trace_of("slopes", inputs, outputs)

    def secant(self) -> Traced | None:
        e, dv = self.model.expressions, symbol("dv", self.nv)
        force = self._terms.secant_force(dv)
        return None if force is None else trace_of("secant", {"q": e.q, "v": e.v, "p": e.p, "dv": dv}, {"force": force})

    def multipliers(self) -> Traced | None:
        return self.model.traced("multipliers") if self.model.is_constrained else None

    def drivers(self) -> Traced | None:
        e = self.model.expressions
        return self._make("drivers", ("q", "v", "u"), e.driver_powers()) if e.is_driven else None

    def power(self) -> Traced | None:
        e = self.model.expressions
        if self._terms.is_conservative and not e.is_driven and not self.contact_names:
            return None
        power = e.power()
        if not e.is_driven:  # else it is in there
            power["dissipated"] = power["dissipated"] - np.vecdot(e.v, self._rubbing)
        power["input"] = power["input"] + power.pop("supplied")
        return self._make("power", ("q", "v", "u"), power)

    def residual(self) -> Traced | None:
        c = self.model.expressions
        if not c.is_constrained:
            return None
        outputs = {"position": c.constrained.position_residual, "velocity": c.constrained.velocity_residual}
        return self._make("residual", ("q", "v"), outputs)

    def relative_residuals(self) -> Traced | None:
        e = self.model.expressions
        return self._make("relative_residuals", ("q", "v"), e.sizes.relative_residuals()) if e.is_constrained else None

    def sizes(self) -> Traced | None:
        return self.model.traced("velocity_sizes")

    def balance(self) -> Traced:
        e = self.model.expressions
        value = e.inverse_dynamics() - self._terms.input_force(e.u)
        if self.model.description.basis is None:  # else it is part of the applied force
            value = value - self._terms.nonideal_force - self._rubbing
        return self._make("balance", ("q", "v", "a", "u"), {"balance": value})

    def joint_velocity(self) -> Traced | None:
        traced = self.model.traced("joint_velocity")
        return None if _is_identity(traced, self.nv) else traced

    def rows(self) -> Traced | None:
        if not self.model.is_constrained:
            return None
        parts = self.model.expressions.constrained.rows
        drift = concatenate(*(r.drift for r in parts))
        phi = concatenate(*(np.zeros(shape(r.drift)) if r.phi is None else r.phi for r in parts))
        return self._make("rows", ("q",), {"Phi": self.model.expressions.constrained.Phi, "drift": drift, "phi": phi})

    @property
    def holonomic_rows(self) -> np.ndarray:
        return self.model.holonomic_rows if self.model.is_constrained else np.zeros(0, dtype=bool)

    @property
    def row_groups(self) -> list[int]:
        return self.model.expressions.constrained.groups if self.model.is_constrained else []

    def momentum(self) -> Traced:
        return self._make("momentum", ("q", "v"), {"momentum": concatenate(*self._terms.momentum)})

    def _make(
        self, name: str, inputs: tuple[str, ...], outputs: Mapping[str, Array], more: Mapping[str, Array] | None = None
    ) -> Traced:
        e = self.model.expressions
        return trace_of(name, {label: getattr(e, label) for label in (*inputs, "p")} | dict(more or {}), outputs)

    @cached_property
    def _nominal(self) -> np.ndarray:
        return self.model.parameter_vector()

    def parameter_vector(self, parameters: Mapping[str, Any] | None = None) -> np.ndarray:
        return self.model.parameter_vector(parameters) if parameters else self._nominal.copy()


def along_velocities(coordinates: Coordinates, value: Array, q: Array) -> Array:
    """Derivative (m, nw) of a vector (m,) by displacements along the velocities of the coordinates: q + A delta instead of q."""
    delta = symbol("delta", coordinates.nv)
    moved = substitute(value, q, q + np.matvec(coordinates.kinematics_matrix(q), delta))
    return substitute(jacobian(moved, delta), delta, np.zeros(coordinates.nv))


def _no_rows(nw: int, nv: int) -> dict[str, Array]:
    """Rows of loops and constraints where there are none."""
    return {"Phi": np.zeros((0, nv)), "s_delta": np.zeros((0, nw)), "s_v": np.zeros((0, nv))}


def _is_identity(velocity: Traced, nv: int) -> bool:
    """Whether (q, v, p) -> w gives v itself."""
    import casadi

    q, v, p = (symbol(name, *size) for name, size in velocity.inputs.items())
    w = velocity.expressions(q, v, p)[0]
    return shape(w) == (nv,) and casadi.is_equal(to_sx(w), to_sx(v), 2)


@cache
def _model_class() -> type[Model]:
    from heavytop.system import Model

    return Model


def as_dynamics(subject: Any) -> Dynamics:
    """The dynamics behind a model, a vehicle (with ``describe`` and ``model``), or dynamics itself."""
    if isinstance(subject, Dynamics):
        return subject
    Model, model = _model_class(), subject
    if not isinstance(model, Model) and hasattr(subject, "describe") and hasattr(subject, "model"):
        model = subject.model  # a law and a reference have a model too, but it would move without them
    if isinstance(model, Model):
        return model.functions.get(ModelDynamics, lambda: ModelDynamics(model))
    hint = ""
    if hasattr(subject, "derive"):
        hint = " Call .derive() first."
    elif hasattr(subject, "traced") or hasattr(subject, "with_reference"):
        hint = " A law controls a model: simulate(model, start, ..., control=law)."
    raise ModelError(
        f"simulate needs a derived model (system.derive()), a vehicle or Dynamics, got {type(subject).__name__}.{hint}"
    )


def usual_integrator(model: Any) -> str:
    """``moreau`` for a model with rigid contacts, stops or ropes, otherwise ``rkmk4``."""
    return "moreau" if as_dynamics(model).contact_names else "rkmk4"
