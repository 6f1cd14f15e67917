"""Multicopters: model, prototype of the control, limits and shape; and the inputs and limits of rotors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._arrays import Array, finite_matrix
from heavytop._format import Overview, Shown
from heavytop.compile import Traced, trace_of
from heavytop.control import (
    FeedbackLaw,
    Integral,
    Law,
    Prototype,
    Sector,
    Sensors,
    TiltLimits,
    body_law,
    box_qp,
    energy_law,
    particle_law,
)
from heavytop.copters.airframe import Airframe, Rotor
from heavytop.copters.propulsion import Propulsion
from heavytop.copters.skids import Skids, typical_skids
from heavytop.errors import ControlError, ModelError, unknown_name
from heavytop.functions import Value
from heavytop.ocp import Limits
from heavytop.system import GRAVITY as GRAVITY, Inertia, Model, System, Thruster, Wrench, at_defaults

if TYPE_CHECKING:
    from heavytop.copters.battery import Battery
    from heavytop.copters.limbs import Limb
    from heavytop.copters.tricopter_detailed import FullPlant


COMMANDED = "demand"
"""Channel of controllers that contain the actuators, such as :class:`.Actuated`: the inputs that these are given."""
PAYLOAD_SIZE = (0.06, 0.06, 0.06)
"""Edges (m) of the box of a payload."""
PAYLOAD_PLACE = (0.0, 0.0, -0.06)
"""Centre (m) of the box on the hull."""
PAYLOAD_BOX = Inertia(1.0, PAYLOAD_PLACE, np.square(PAYLOAD_SIZE) / 6)
"""The box with 1 kg."""
LAWS: Mapping[str, Callable[..., FeedbackLaw]] = {"energy": energy_law, "particle": particle_law, "body": body_law}


@dataclass(frozen=True, eq=False)
class Vehicle(Value, Shown):
    """A multicopter.

    Attributes
    ----------
    model : model of the vehicle.
    prototype : prototype of its default control.
    limits : limits of the inputs, or None.
    airframe : rotors and load.
    describe : returns a new description of the system, which may be changed (payload, drag) and derived.
    virtual : model with independent inputs for the law, if the rotors are redundant.
    parameters : for reports, name -> text.
    levers : heights eps (m) of the motions along x and y, see :func:`.lateral_lever`; zero for fixed rotors.
    drag : air drag of the hull for flights in wind, N s/m.
    propulsion : coefficients of propellers, motors and frame, if known.
    full : a more detailed plant that flies instead of the model, if any.
    sensors : if described.
    limbs : links of arms, grippers, gimbals; their coordinates and inputs follow those of the hull.
    skids : on which it stands, if described; typical ones otherwise.
    firmware : settings of flight stacks by their names, see :mod:`heavytop.copters.stacks`.
    battery : battery for flights with a flight stack; None: the voltage is constant.

    Examples
    --------
    >>> from heavytop.copters import quadcopter
    >>> craft = quadcopter()
    >>> craft.name, craft.mass, craft.model.nu
    ('quadcopter', 0.9, 4)
    """

    _made_by = "ht.copters.load(NAME or FILE.toml)"

    model: Model
    prototype: Prototype
    limits: Limits | None
    airframe: Airframe
    describe: Callable[[], System]
    virtual: Model | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    levers: tuple[float, float] = (0.0, 0.0)
    drag: float = 0.1
    propulsion: Propulsion | None = None
    full: FullPlant | None = None
    sensors: Sensors | None = None
    limbs: tuple[Limb, ...] = ()
    firmware: Mapping[str, Mapping[str, float | str]] = field(default_factory=dict)
    skids: Skids | None = None
    battery: Battery | None = None

    @property
    def name(self) -> str:
        return self.model.name

    def __repr__(self) -> str:
        return f"Vehicle({self.name!r}: {self.mass:.4g} kg, {len(self.airframe.rotors)} rotors, {self.model.nu} inputs)"

    def _overview(self) -> Overview:
        facts = {"mass": f"{self.mass:.4g} kg", "rotors": str(len(self.airframe.rotors)), "inputs": str(self.model.nu)}
        return Overview(f"Vehicle {self.name}", tuple((facts | dict(self.parameters)).items()))

    @property
    def plant(self) -> Model:
        """The model that flies: the detailed one, if any."""
        return self.model if self.full is None else self.full.model

    @property
    def mass(self) -> float:
        """Mass of all bodies, kg."""
        return self.model.mass

    @property
    def weight(self) -> float:
        """Weight of all bodies in the gravity of the model, N."""
        return weight_of(self.model)

    @property
    def fully_actuated(self) -> bool:
        """Whether the hull can be pushed and turned in all six directions."""
        return int(np.linalg.matrix_rank(wrench_matrix(self.airframe.rotors).T)) == 6

    def with_payload(self, payload: float = 0.0, varied: Sequence[str] = ()) -> System:
        """A new description of the vehicle with a mass (kg) fixed below its hull; a negative one is missing there.

        ``varied`` : "payload", "mass": those that are parameters, kg. The mass is that of the whole vehicle without payload; the difference from
        the described one is in the centre of mass of the hull, so moments of inertia stay.

        >>> from heavytop.copters import quadcopter
        >>> quadcopter().with_payload(-0.1).derive(native=False).mass
        0.8
        >>> quadcopter().with_payload(varied=("mass",)).derive(native=False).parameter_names
        ('mass',)
        """
        system = self.describe()
        given: Array = system.parameter("payload", 0.0) if "payload" in varied else payload
        more: Array = system.parameter("mass", self.mass) - self.mass if "mass" in varied else 0.0
        if "payload" in varied or "mass" in varied or payload:
            self.check_payload(payload)
            hull = system.describe().inertias["hull"]
            moments = hull.moments + given * PAYLOAD_BOX.moments + more * Inertia(1.0, hull.com).moments
            system.set_inertia("hull", Inertia.from_moments(moments))
        return system

    @cached_property
    def _hull(self) -> tuple[np.ndarray, np.ndarray]:
        """Moments (4, 4) of the hull, and of 1 kg in its centre of mass, at the defaults of all parameters."""
        description = self.describe().describe()
        hull, parameters = description.inertias["hull"], description.parameters
        return at_defaults(hull.moments, parameters), at_defaults(Inertia(1.0, hull.com).moments, parameters)

    def least_payload(self, mass: Any = None) -> np.ndarray:
        """The least payload (...) in kg, mostly negative, with which the hull still has a possible inertia.

        ``mass`` : (...) of the whole vehicle without payload, kg; None: its own. The mass and the moments of the payload's box are missing below the
        hull, so the least payload is reached long before the mass is zero.

        >>> from heavytop.copters import quadcopter
        >>> round(float(quadcopter().least_payload()), 3)
        -0.202
        """
        hull, unit = self._hull
        more = np.asarray(0.0 if mass is None else np.asarray(mass, dtype=float) - self.mass)
        inverse = np.linalg.inv(np.linalg.cholesky(PAYLOAD_BOX.moments))
        # hull + payload box >= 0 where payload >= - (least eigenvalue of the hull relative to the box)
        return -np.linalg.eigvalsh(inverse @ (hull + more[..., None, None] * unit) @ inverse.T)[..., 0]

    def check_payload(self, payload: float, mass: float | None = None) -> None:
        """Raise a ModelError unless the vehicle with a payload has a possible inertia.

        >>> from heavytop.copters import quadcopter
        >>> quadcopter().check_payload(-0.1)
        """
        least = float(self.least_payload(mass))
        if payload < least - 1e-9 * self.mass:
            whole = "" if mass is None else f" with mass = {mass:g} kg"
            raise ModelError(
                f"payload of {self.name!r}{whole} must be at least {least:.4g} kg, got {payload:g}: no hull has the inertia that would remain "
                f"without it (a box of {100 * PAYLOAD_SIZE[0]:g} cm, {-100 * PAYLOAD_PLACE[2]:g} cm below the origin)."
            )

    @property
    def landing_gear(self) -> Skids:
        """Its skids, or typical ones."""
        return self.skids or typical_skids(self.airframe.rotors)

    @property
    def standing_height(self) -> float:
        """Height of the hull's origin over the ground z = 0 when the vehicle stands on it, m."""
        return self.landing_gear.height(self.weight)

    def grounded(self) -> Vehicle:
        """The vehicle over the ground z = 0, which its skids touch: its description has the contact, its model and its law do not."""
        if self.full is not None:
            raise ControlError(
                f"{self.name!r} has a detailed plant, which has no skids: it can neither land nor take off."
            )

        def describe() -> System:
            system = self.describe()
            self.landing_gear.add_to(system, self.weight)
            return system

        return replace(self, describe=describe)

    def law(
        self,
        kind: str = "energy",
        limits: bool | Limits = True,
        integral: Integral | Sequence[Integral] = (),
        prototype: Prototype | None = None,
    ) -> FeedbackLaw:
        """The tracking law of a kind ("energy", "particle", "body").

        Parameters
        ----------
        limits : whether with the vehicle's limits, or other limits. prototype : default: that of the vehicle.
        """
        if kind not in LAWS:
            raise unknown_name("law", kind, LAWS)
        bounds = limits if isinstance(limits, Limits) else self.limits if limits else None
        prototype = prototype or self.prototype
        if self.virtual is None:
            return LAWS[kind](self.model, prototype, bounds, integral)

        return RedundantLaw(self, LAWS[kind](self.virtual, prototype, None, integral), bounds)


def weight_of(model: Model) -> float:
    """Mass times gravity of a model with its default parameters, N."""
    return model.mass * float(np.linalg.norm(at_defaults(model.description.gravity, model.description.parameters)))


def wrench_matrix(rotors: Sequence[Rotor]) -> np.ndarray:
    """(6, inputs) force and moment on the hull about its origin per unit of every input."""
    return np.array([rotor.wrench_along(direction) for rotor in rotors for direction in rotor.directions]).T


def add_rotors(system: System, rotors: Sequence[Rotor], gain: float = 1.0, names: Sequence[str] | None = None) -> None:
    """Add one input per force direction of every rotor; the true thrust is ``gain`` times the input."""
    labels = iter(names if names is not None else input_names(rotors))
    for rotor in rotors:
        for direction in rotor.directions:
            if gain == 1.0:
                element: Thruster | Wrench = Thruster("hull", at=rotor.at, axis=direction, drag_ratio=rotor.drag_ratio)
            else:
                wrench = gain * rotor.wrench_along(direction)
                element = Wrench("hull", force=wrench[:3], moment=wrench[3:])
            system.input(next(labels), element)


def input_names(rotors: Sequence[Rotor]) -> tuple[str, ...]:
    """thrust0, thrust1, ... for fixed rotors; ft1, fz1, ft2, ... for tilting ones."""
    names: list[str] = []
    for k, rotor in enumerate(rotors):
        names += [f"thrust{k}"] if rotor.tilt is None else [f"ft{k + 1}", f"fz{k + 1}"]
    return tuple(names)


def rotor_limits(
    rotors: Sequence[Rotor], torque_priority: float | None = 100.0, period: float = 5e-3, others: Sequence[float] = ()
) -> Limits | None:
    """Limits of the inputs of rotors: boxes for fixed ones, sectors for tilting ones; None without limits.

    Parameters
    ----------
    period : sampling period, for which the tilt rates are limited, s. others : largest magnitudes of further inputs after those of the rotors.
    """
    lower, upper, sectors = [], [], []
    for rotor in rotors:
        first = len(lower)
        if rotor.tilt is None:
            lower.append(rotor.thrust[0])
            upper.append(rotor.thrust[1])
            continue
        lower += [-np.inf, -np.inf]
        upper += [np.inf, np.inf]
        sector = Sector(first, first + 1, rotor.thrust, rotor.tilt_range, rotor.tilt_rate)
        if np.isfinite(sector.thrust[1]) or sector.thrust[0] > 0 or sector.bounded or np.isfinite(sector.rate):
            sectors.append(sector)
    lower, upper = [*lower, *(-x for x in others)], [*upper, *others]
    if sectors:
        return TiltLimits(lower, upper, torque_priority, sectors=sectors, period=period)
    if not np.any(np.isfinite(lower)) and not np.any(np.isfinite(upper)):
        return None
    return Limits(lower, upper, torque_priority)


FREE_MOTION = 1e-4
"""Weight of motions in the null space relative to the smallest weight of the wrench."""


def independent(wrenches: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """U (6, r), C (r, n) = S V^T and Z (n, n - r) of a matrix W (6, n) of rank r.

    >>> U, C, Z = independent(np.array([[1.0, 1.0]] + [[0.0, 0.0]] * 5))
    >>> U.shape, C.shape, Z.shape
    ((6, 1), (1, 2), (2, 1))
    """
    U, s, Vt = np.linalg.svd(finite_matrix(wrenches, "the wrenches of the rotors"))
    rank = int(np.sum(s > 1e-9 * s[0]))
    return U[:, :rank], s[:rank, None] * Vt[:rank], Vt[rank:].T


class RedundantLaw(FeedbackLaw):
    """A law whose wrench is shared among redundant rotors. Made by :meth:`.Vehicle.law`.

    With W (6, n) of rank r the wrench per input, W = U S V^T: the law is made for r virtual inputs w, the amplitudes of the columns of U,
    and the rotors get the least thrusts for them, u = V S^-1 w. If a rotor reaches a limit, the others compensate as far as possible:
    min (u - u*)^T (C^T H C + sigma Z Z^T) (u - u*) with C = S V^T, H the metric of the virtual inputs (torque priority included) and Z the
    null space of W, in which moving thrusts costs (almost) nothing.
    """

    def __init__(self, vehicle: Vehicle, inner: FeedbackLaw, limits: Limits | None) -> None:
        if not isinstance(inner, Law):
            raise ControlError(f"a redundant law needs a law with a prototype, got {inner!r}.")
        self.vehicle, self.inner, self.limits = vehicle, inner, limits
        self.kind, self.model, self.prototype = inner.kind, vehicle.model, inner.prototype

    @property
    def state_size(self) -> int:
        return self.inner.state_size

    @cached_property
    def traced_law(self) -> Traced:
        """The law as traced function of q, v, q_R, v_R, a_R, p and, with integral action, z."""

        _, C, Z = independent(wrench_matrix(self.vehicle.airframe.rotors))
        symbols = self.inner.symbols()
        w, *more = self.inner.traced_law.expressions(*symbols.values())
        u = np.matvec(np.linalg.pinv(C), w)
        if self.limits is not None:
            projection = self.inner.projection
            weight = projection.weight(projection.directions, self.limits)
            least = float(np.min(np.linalg.norm(C, axis=1))) ** 2
            metric = C.T @ weight @ C + FREE_MOTION * least * (Z @ Z.T)
            u = box_qp(metric, u, *self.limits.bounds(self.model))
        return trace_of(f"{self.kind}_law", symbols, {"u": u, **({"z_rate": more[0]} if more else {})})
