"""The three tracking laws.

All laws make the system move like a prototype that is attached to the reference; they differ in their definition of the error:

* :func:`particle_law`: the distance of every particle from its place on the reference,
* :func:`body_law`: the motion of the error pose G_R^-1 G of every body,
* :func:`energy_law`: a velocity error on the configuration space. Recommended.

They are identical while the reference does not rotate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from heavytop._arrays import Array
from heavytop.control.laws.body import body_bias, body_dissipation, body_energy
from heavytop.control.laws.energy import EnergyBlock, Transport, default_blocks
from heavytop.control.laws.integral import Integral
from heavytop.control.laws.law import Law, Place
from heavytop.control.laws.law_checks import check_model
from heavytop.control.laws.law_terms import LawTerms
from heavytop.control.laws.particle import particle_bias, particle_dissipation, particle_energy
from heavytop.control.laws.prototype import Prototype
from heavytop.control.laws.tilting_law import TiltingLaw
from heavytop.control.limits.thrust_sector import TiltLimits
from heavytop.functions import recipe
from heavytop.ocp import Limits
from heavytop.system import Model

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
    """The particle-based law: every particle of the prototype is drawn to its own place on the reference.

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

    def diagnostics() -> dict[str, Array]:
        return {"W": particle_energy(terms), "dissipation": particle_dissipation(terms), "defect": NO_BALANCE}

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

    def diagnostics() -> dict[str, Array]:
        defect = np.asarray(0.0) if len(terms.inertias) == 1 else NO_BALANCE
        return {"W": body_energy(terms), "dissipation": body_dissipation(terms), "defect": defect}

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
    return _law(kind, terms, carried.bias, diagnostics, limits, integral, metric, at)


def _law(
    kind: str,
    terms: LawTerms,
    bias: Array,
    diagnostics: Callable[[], Mapping[str, Array]],
    limits: LimitsLike,
    integral: Integral | Sequence[Integral],
    metric: str,
    at: Place,
) -> Law:
    given = Limits.of(limits)
    make = TiltingLaw if isinstance(given, TiltLimits) else Law
    return make(kind, terms, bias, diagnostics, given, _terms(integral), metric, at)


def _law_terms(model: Model, prototype: Prototype) -> LawTerms:
    check_model(model)
    return LawTerms(model, prototype)


def _terms(integral: Integral | Sequence[Integral]) -> tuple[Integral, ...]:
    return (integral,) if isinstance(integral, Integral) else tuple(integral)
