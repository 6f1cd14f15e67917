"""The three tracking laws.

All laws make the system move like a prototype that is attached to the reference; they differ in their definition of the error:

* :func:`particle_law`: the distance of every particle from its place on the reference: mbar_p (r'' - r_R'') + dbar_p (r' - r_R') + kbar_p (r - r_R)
  = 0, summed over its projections on the directions in which the system can move,
* :func:`body_law`: the error pose E = G^-1 G_R of every body, with the twist xi_E = xi - Ad_E xi_R, moves like a free rigid body with springs and
  dampers: M_bar xi_E' - ad(xi_E)^T M_bar xi_E + D_bar xi_E + vee2((I - E) K_bar') = 0,
* :func:`energy_law`: a velocity error on the configuration space. Recommended.

They are identical while the reference does not rotate (docs/control/laws.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate, from_sx, symbol, to_sx, transpose
from heavytop.compile import Traced, trace_of
from heavytop.control.laws.energy import EnergyBlock, Transport, default_blocks
from heavytop.control.laws.integral import Integral
from heavytop.control.laws.law import Law, Place
from heavytop.control.laws.law_checks import check_model
from heavytop.control.laws.law_terms import LawTerms, Term
from heavytop.control.laws.prototype import Prototype
from heavytop.control.limits.box_qp import scalars
from heavytop.control.limits.thrust_sector import TiltLimits, nearest_in_sectors
from heavytop.functions import recipe
from heavytop.geometry import se3
from heavytop.ocp import Limits
from heavytop.system import Model


def error_twist(t: Term) -> tuple[Array, Array]:
    """xi_E = xi - Ad_E xi_R (6,), and Ad_E xi_R itself."""
    carried = np.matvec(se3.Ad(t.error), t.reference.twist)
    return t.motion.twist - carried, carried


def body_bias(terms: LawTerms) -> Array:
    """c_bar (nv,) of the body-based law."""
    total = terms.stiffness_force
    for t in terms.inertias:
        xi_E, carried = error_twist(t)
        # feedforward d/dt(Ad_E xi_R) = Ad_E xi_R' - ad(xi_E) Ad_E xi_R
        feedforward = np.matvec(se3.Ad(t.error), t.reference_rate) - np.matvec(se3.ad(xi_E), carried)
        momentum = np.matvec(t.matrix, xi_E)
        wrench = np.matvec(t.matrix, t.motion.bias - feedforward) - np.matvec(transpose(se3.ad(xi_E)), momentum)
        total = total + t.generalised(wrench)
    for t in terms.dampings:
        total = total + t.generalised(np.matvec(t.matrix, error_twist(t)[0]))
    return total


def body_quadratic(terms: tuple[Term, ...]) -> Array:
    """sum xi_E^T X xi_E: twice the kinetic energy of inertias in J, the dissipation of dampings in W."""
    return sum((np.vecdot(xi_E := error_twist(t)[0], np.matvec(t.matrix, xi_E)) for t in terms), start=np.asarray(0.0))


def particle_bias(terms: LawTerms) -> Array:
    """c_bar (nv,) of the particle-based law."""
    total = terms.stiffness_force
    for t in terms.inertias:
        xi, xi_R = se3.wed(t.motion.twist), se3.wed(t.reference.twist)
        actual = se3.wed(t.motion.bias) + xi @ xi
        desired = t.error @ (se3.wed(t.reference_rate) + xi_R @ xi_R)
        total = total + t.generalised(se3.vee2((actual - desired) @ t.moments))
    for t in terms.dampings:
        velocity = se3.wed(t.motion.twist) - t.error @ se3.wed(t.reference.twist)
        total = total + t.generalised(se3.vee2(velocity @ t.moments))
    return total


def particle_quadratic(terms: tuple[Term, ...]) -> Array:
    """sum_p x_p |r' - r_R'|^2: twice the kinetic energy of inertias in J, the dissipation of dampings in W."""
    total = np.asarray(0.0)
    for t in terms:
        velocity = t.motion.pose @ se3.wed(t.motion.twist) - t.reference.pose @ se3.wed(t.reference.twist)
        total = total + np.trace(velocity @ t.moments @ np.swapaxes(velocity, 0, 1))
    return total


def _diagnostics(terms: LawTerms, quadratic: Callable[[tuple[Term, ...]], Array], defect: Array) -> dict[str, Array]:
    """W of the energy and its dissipation, in J and W. W of particles decreases by the damping while the reference does not rotate."""
    W = terms.stiffness_energy + 0.5 * quadratic(terms.inertias)
    return {"W": W, "dissipation": quadratic(terms.dampings), "defect": defect}


LimitsLike = Limits | tuple[Any, Any] | None
NO_BALANCE = np.asarray(np.nan)


@recipe
def particle_law(
    model: Model,
    prototype: Prototype,
    limits: LimitsLike = None,
    integral: Integral | Sequence[Integral] = (),
    *,
    metric: str = "prototype",
    at: Place = None,
) -> Law:
    """The particle-based law: every particle of the prototype is attracted to its place on the reference.

    Parameters
    ----------
    model : a derived model in any coordinates, also with loops, velocity constraints or a basis.
    prototype : the desired moments.
    limits : limits of the inputs: a pair (lower, upper), :class:`.Limits`, or :class:`.TiltLimits` of tilting rotors.
    integral : integral action, one term or several.
    metric : masses that measure the distance from the desired acceleration, if the inputs cannot produce it: those of the "prototype" or of the
        "model".
    at : rest configuration (nq,) or steady motion (q, v) the law is made for, the default of ``law.poles()``; an :class:`.UnstableWarning`
        reports instability there. None: the neutral configuration, if inputs can hold it.

    Notes
    -----
    On a reference that rotates faster than ``sqrt(Pibar / Thbar)`` this law is locally unstable.

    Examples
    --------
    >>> from heavytop.copters import quadcopter
    >>> craft = quadcopter()
    >>> particle_law(craft.model, craft.prototype).kind
    'particle'
    """
    terms = _law_terms(model, prototype)
    diagnostics = partial(_diagnostics, terms, particle_quadratic, NO_BALANCE)
    return _law("particle", terms, particle_bias(terms), diagnostics, limits, integral, metric, at)


@recipe
def body_law(
    model: Model,
    prototype: Prototype,
    limits: LimitsLike = None,
    integral: Integral | Sequence[Integral] = (),
    *,
    metric: str = "prototype",
    at: Place = None,
) -> Law:
    """The body-based law: the error pose of every body moves like a free body with springs and dampers.

    For one fully actuated body the error dynamics is autonomous and almost globally asymptotically stable. An underactuated vehicle
    becomes unstable with it on fast rotating references: use :func:`energy_law` there. Parameters as in :func:`particle_law`.

    >>> from heavytop.copters import quadcopter
    >>> craft = quadcopter()
    >>> law = body_law(craft.model, craft.prototype)
    >>> law(craft.model.neutral(), np.zeros(6), craft.model.neutral()).round(4)
    array([2.2072, 2.2073, 2.2072, 2.2073])
    """
    terms = _law_terms(model, prototype)
    defect = np.asarray(0.0) if len(terms.inertias) == 1 else NO_BALANCE
    diagnostics = partial(_diagnostics, terms, body_quadratic, defect)
    return _law("body", terms, body_bias(terms), diagnostics, limits, integral, metric, at)


@recipe
def energy_law(
    model: Model,
    prototype: Prototype,
    limits: LimitsLike = None,
    integral: Integral | Sequence[Integral] = (),
    *,
    transport: str = "product",
    blocks: Sequence[EnergyBlock] | None = None,
    metric: str = "prototype",
    at: Place = None,
) -> Law:
    """The energy-based law: the velocity error is a tangent vector, so the energy balance is exact. Recommended.

    Parameters
    ----------
    model, prototype, limits, integral, metric, at : as in :func:`particle_law`.
    transport : how the desired velocity is carried to the actual configuration. "product": points at the centres of stiffness and
        attitudes separately; "se3": poses as a whole.
    blocks : user-defined error blocks instead of those of ``transport``. On a system with loops, velocity constraints or a basis
        as many velocities as degrees of freedom (a crank): the energy balance is exact wherever these determine the motion; by
        default all joints, projected on the constraints.

    Examples
    --------
    >>> from heavytop.copters import quadcopter
    >>> craft = quadcopter()
    >>> law = energy_law(craft.model, craft.prototype, limits=craft.limits)
    >>> law.kind
    'energy'
    """
    terms = _law_terms(model, prototype)
    chosen = default_blocks(terms.actual, prototype, transport) if blocks is None else tuple(blocks)
    carried = Transport(terms, chosen)

    def diagnostics() -> dict[str, Array]:
        return {"W": carried.energy, "dissipation": carried.dissipation, "defect": carried.defect}

    kind = "energy" if transport == "product" or blocks is not None else "energy_se3"
    own = None if blocks is None else chosen
    return _law(kind, terms, carried.bias, diagnostics, limits, integral, metric, at, own)


def _law(
    kind: str,
    terms: LawTerms,
    bias: Array,
    diagnostics: Callable[[], Mapping[str, Array]],
    limits: LimitsLike,
    integral: Integral | Sequence[Integral],
    metric: str,
    at: Place,
    blocks: Sequence[EnergyBlock] | None = None,
) -> Law:
    given = Limits.of(limits)
    make = TiltingLaw if isinstance(given, TiltLimits) else Law
    integrals = (integral,) if isinstance(integral, Integral) else tuple(integral)
    return make(kind, terms, bias, diagnostics, given, integrals, metric, at, blocks)


def _law_terms(model: Model, prototype: Prototype) -> LawTerms:
    check_model(model)
    return LawTerms(model, prototype)


class TiltingLaw(Law):
    """A law with :class:`.TiltLimits`, made by :func:`.energy_law` and the other laws for such limits.

    With a bounded tilt rate its states are the integrals followed by the tilts (rad) of the last sample; sampled with the period of the
    limits, the next state is the commanded tilt.

    >>> import numpy as np
    >>> from heavytop.control import energy_law
    >>> from heavytop.copters import tricopter
    >>> craft = tricopter(thrust=(0.0, 7.0))
    >>> law = energy_law(craft.model, craft.prototype, craft.limits)
    >>> far = craft.model.neutral()
    >>> far[2] = -50.0
    >>> u = law(far, np.zeros(6), craft.model.neutral())
    >>> np.hypot(u[0::2], u[1::2]).round(9)
    array([7., 7., 7.])
    """

    limits: TiltLimits

    @property
    def state_size(self) -> int:
        return super().state_size + len(self.limits.rate_limited)

    def symbols(self) -> dict[str, Array]:
        """Inputs of the law: q, v, q_R, v_R, a_R, p and, with integral action or stored tilts, z."""
        symbols = self.terms.symbols()
        return symbols | {"z": concatenate(self._z, self._angles)} if self.state_size else symbols

    @cached_property
    def _angles(self) -> Array:
        return symbol("tilt", len(self.limits.rate_limited))

    @cached_property
    def traced_law(self) -> Traced:
        """The law as traced function of its :meth:`symbols`; outputs u, then z_rate if it has states."""
        import casadi

        projection, limits = self.projection, self.limits
        N = projection.directions
        angles = scalars(to_sx(self._angles))
        u, tilts = nearest_in_sectors(projection.weight(N, limits), projection.unlimited(N), limits, angles)
        outputs = {"u": u}
        rates = list(self._z_rate)
        if tilts:
            turned = from_sx(casadi.vertcat(*tilts), (len(tilts),))
            rates.append((turned - self._angles) / limits.period)
        if rates:
            outputs["z_rate"] = concatenate(*rates)
        return trace_of(f"{self.kind}_law", self.symbols(), outputs)
