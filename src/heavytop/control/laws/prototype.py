"""The prototype: the desired inertia, damping and stiffness of the controlled system.

Each is given by its moments (total, centre, second moment), per body for inertia and per pair of bodies for damping and
stiffness, exactly like the model's own. Off-diagonal moments (centres away from the centre of mass) make an
underactuated vehicle move sideways: they couple the lateral position to the tilt.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from heavytop._arrays import Array, is_symbolic
from heavytop.errors import ControlError
from heavytop.geometry import se3, so3
from heavytop.system import RELATIVE_TOLERANCE, WORLD, Damping, Inertia, Moments, Stiffness

if TYPE_CHECKING:
    from heavytop.control.linear.lqr import Weights
    from heavytop.control.linear.prototype_design import Design
    from heavytop.system import Model

Pair = tuple[str, str]
M = TypeVar("M", bound=Moments)


class DesiredInertia(Inertia):
    """Inertia of a prototype. It need not be physical: the triangle inequality of the principal moments is not required,
    only a nonnegative energy of every motion.

    >>> DesiredInertia(1.0, com=(0, 0, 0.1)).com
    array([0. , 0. , 0.1])
    """

    @classmethod
    def check_physical(cls, moments: np.ndarray, where: str) -> None:
        _check_not_negative(moments, where)


class DesiredDamping(Damping):
    """Damping of a prototype; like :class:`DesiredInertia` it need not be physical.

    >>> DesiredDamping(3.0).total
    array(3.)
    """

    @classmethod
    def check_physical(cls, moments: np.ndarray, where: str) -> None:
        _check_not_negative(moments, where)


def _check_not_negative(moments: np.ndarray, where: str) -> None:
    smallest = np.linalg.eigvalsh(se3.Vee(moments))[0]
    if smallest < -RELATIVE_TOLERANCE * np.max(np.abs(moments)):
        raise ControlError(
            f"{where} of a prototype: its 6x6 matrix must not have the negative eigenvalue {smallest:.6g}."
        )


@dataclass(frozen=True, eq=False)
class Prototype:
    """Desired moments of a system.

    Parameters
    ----------
    inertia : body -> :class:`.Inertia` (relative to the world).
    damping : body, or pair (a, b) -> :class:`.Damping` of b relative to a; a single name means relative to the world.
    stiffness : body, or pair (a, b) -> :class:`.Stiffness` of b relative to a.

    Examples
    --------
    >>> prototype = Prototype({"hull": Inertia(1.0, moment_at_com=(0.02, 0.02, 0.03))},
    ...                       {"hull": Damping(4.0, moment_at_center=(0.4, 0.4, 0.5))},
    ...                       {"hull": Stiffness(4.0, moment_at_center=(2.0, 2.1, 2.2))})
    >>> list(prototype.stiffness)
    [('world', 'hull')]
    """

    inertia: Mapping[str, Inertia]
    damping: Mapping[Pair, Damping] = field(default_factory=dict)
    stiffness: Mapping[Pair, Stiffness] = field(default_factory=dict)
    design: Design | None = field(default=None, repr=False)
    """Requested and achieved poles, if made by :meth:`for_model`."""

    def __repr__(self) -> str:
        """
        >>> Prototype({"hull": Inertia(1.0)}, {"hull": Damping(4.0)}, {("hull", "load"): Stiffness(2.0)})
        Prototype(inertia of hull; damping of hull; stiffness of hull-load)
        """
        parts = [f"inertia of {', '.join(self.inertia)}"]
        for kind, pairs in (("damping", self.damping), ("stiffness", self.stiffness)):
            names = ", ".join(b if a == WORLD else f"{a}-{b}" for a, b in pairs)
            parts += [f"{kind} of {names}"] if names else []
        return f"Prototype({'; '.join(parts)})"

    def __post_init__(self) -> None:
        if not self.inertia:
            raise ControlError("a prototype needs the inertia of at least one body.")
        object.__setattr__(self, "inertia", dict(self.inertia))
        object.__setattr__(self, "damping", _pairs(self.damping))
        object.__setattr__(self, "stiffness", _pairs(self.stiffness))

    @classmethod
    def of_body(cls, inertia: Inertia, damping: Damping, stiffness: Stiffness, body: str = "hull") -> Prototype:
        """Prototype of one free body; all three distributions must be strictly positive."""
        prototype = cls({body: inertia}, {(WORLD, body): damping}, {(WORLD, body): stiffness})
        prototype.check_positive()
        return prototype

    def check_positive(self) -> None:
        """Raise a ControlError unless every distribution has a positive total and a positive moment about its own centre.

        Sufficient for one body: then the energy of the prototype is positive and it is damped in every direction. For several bodies
        the laws check the sums over the whole system.
        """
        for body, inertia in self.inertia.items():
            check_positive(inertia, f"inertia of {body!r}")
        for kind, pairs in (("damping", self.damping), ("stiffness", self.stiffness)):
            for (a, b), moments in pairs.items():
                check_positive(moments, f"{kind} between {a!r} and {b!r}")

    def shifted(self, offset: Any) -> Prototype:
        """The prototype with all centres moved by an offset (3,) in body axes, m: of a body whose centre of mass is not its origin.

        >>> made = Prototype({"hull": Inertia(1.0)}, {"hull": Damping(4.0)}).shifted((0.02, 0.0, 0.0))
        >>> made.damping["world", "hull"].center
        array([0.02, 0.  , 0.  ])
        """

        def moved(parts: Mapping[Any, Any]) -> dict[Any, Any]:
            return {k: type(m)(m.total, m.center + np.asarray(offset), m.moment_at_center) for k, m in parts.items()}

        return Prototype(moved(self.inertia), moved(self.damping), moved(self.stiffness))

    @property
    def frames(self) -> tuple[str, ...]:
        """Names of all bodies and frames of the prototype."""
        names = [*self.inertia, *(name for pair in (*self.damping, *self.stiffness) for name in pair)]
        return tuple(dict.fromkeys(names))

    @classmethod
    def for_model(
        cls,
        model: Model,
        q: Array | None = None,
        v: Array | None = None,
        *,
        poles: Sequence[complex] | complex | None = None,
        weights: Weights | None = None,
        bodies: Sequence[str] | None = None,
        quiet: bool = True,
    ) -> Prototype:
        """Prototype of any system from the poles of its law at rest, or from weights of a linear-quadratic regulator.

        Every distribution is positive. ``print(prototype.design.report())`` lists requested and achieved poles.

        Parameters
        ----------
        model : model of the plant, with loops, velocity constraints or a basis if it has them.
        q : configuration of rest (nq,) that inputs can hold; None: the neutral one. :func:`.equilibrium` finds others.
        v : velocity (nv,) of a steady motion instead of rest, such as that of a car at speed: the poles are then those of :func:`.particle_law`
            along it. The velocity coordinates must be constant, and the equations must not change along the motion.
        poles : poles of the deviations that the inputs reach (1/s), complex ones in conjugate pairs; one number for all.
        weights : instead of poles, weights of deviations and inputs; the poles are then those of the linear-quadratic regulator.
        bodies : bodies with designed inertia, damping and stiffness; None: all with inertia. Leave out wheels that spin.
        quiet : False: print the report.

        Raises
        ------
        ControlError
            The configuration cannot be held, the number of poles is wrong, or the best prototype found is unstable. A
            :class:`.MissedPolesWarning` reports poles that differ by more than 1 %.

        Examples
        --------
        >>> import heavytop as ht
        >>> cart_pole = ht.library.cart_pole().derive(native=False)
        >>> made = Prototype.for_model(cart_pole, poles=[-2, -2.5, -3 + 1j, -3 - 1j])
        >>> print(made.design.report())
        requested   -2.0000   +0.0000i   achieved   -2.0000   +0.0000i
        requested   -2.5000   +0.0000i   achieved   -2.5000   +0.0000i
        requested   -3.0000   -1.0000i   achieved   -3.0000   -1.0000i
        requested   -3.0000   +1.0000i   achieved   -3.0000   +1.0000i
        >>> made.design.is_met
        True
        """
        from heavytop.control.linear.linearised_loop import MissedPolesWarning
        from heavytop.control.linear.prototype_design import design

        parts, found = design(model, q, v, poles, weights, bodies)
        if not quiet:
            print(found.report())
        elif not found.is_met:
            warnings.warn(
                f"the requested poles of {model.name!r} cannot be achieved:\n{found.report()}\nRequest others, or choose other bodies (bodies=).",
                MissedPolesWarning,
                stacklevel=3,
            )
        return cls(parts["inertia"], parts["damping"], parts["stiffness"], found)

    @classmethod
    def from_poles(
        cls,
        lateral: Sequence[complex],
        vertical: Sequence[complex],
        yaw: Sequence[complex],
        *,
        mass: float = 1.0,
        spread: float = 0.02,
        offset: float = 0.0,
        yaw_inertia: float = 0.01,
        lever: float = 0.0,
        gravity: float = 9.81,
        body: str = "hull",
    ) -> Prototype:
        """Prototype of a hovering vehicle from the poles of its linearised closed loop.

        Parameters
        ----------
        lateral : four poles of the motion x, y with tilt; vertical : two; yaw : two (1/s). Complex ones in conjugate pairs.
        mass : desired mass in kg; it scales everything and does not alter the closed loop.
        spread : J, desired tilt inertia per mass about the centre of oscillation, m^2.
        offset : desired height of the centre of mass above the centre of oscillation, m.
        yaw_inertia : desired inertia about the vertical, kg m^2.
        lever : eps = (tilt inertia) / (mass x height of the lateral force above the centre of mass), m. Zero for a
            quadcopter; ``lateral_lever`` computes it. The centre of oscillation lies eps below the centre of mass.

        Raises
        ------
        ControlError
            The poles are unstable, or one of the three inequalities that make the moments positive fails.

        Examples
        --------
        >>> quad = Prototype.from_poles([-2, -2, -6.4 + 4.8j, -6.4 - 4.8j], [-2, -2], poles_of(3.0, 0.9))
        >>> round(float(quad.stiffness["world", "hull"].center[2]), 7)
        0.1304791
        """
        p3, p2, p1, p0 = _polynomial(lateral, 4, "lateral")
        q1, q0 = _polynomial(vertical, 2, "vertical")
        J, s, g = spread, offset, gravity
        lower = p1 * J / (g * q1)  # l', height of the centre of damping
        height = p0 * J / (g * q0)  # h', height of the centre of stiffness
        conditions = (
            (J - s**2, f"inertia: spread > offset^2 fails, {J:.6g} <= {s**2:.6g}. Take a larger spread"),
            (
                p3 * q1 * g**2 / p1**2 - J,
                f"damping: spread < p3 q1 g^2 / p1^2 fails, {J:.6g} >= {p3 * q1 * g**2 / p1**2:.6g}. Take a smaller spread",
            ),
            (
                p2 * J - g * s - q0 * height**2,
                f"stiffness: p2 spread - g offset > q0 h^2 fails, {p2 * J - g * s:.6g} <= {q0 * height**2:.6g}. "
                "Take a smaller spread or a smaller offset",
            ),
        )
        for margin, message in conditions:
            if not margin > 0:
                raise ControlError(f"these poles give no positive prototype of {body!r}: {message}.")
        totals, moments = (mass, mass * q1, mass * q0), (mass * J, p3 * mass * J, mass * (p2 * J - g * s))
        second = _Second(totals, (s, lower, height), moments)
        return cls._hovering((second, second), (lever, lever), yaw, yaw_inertia, body)

    @classmethod
    def matched(
        cls,
        lateral: Sequence[complex],
        vertical_stiffness: float,
        yaw: Sequence[complex],
        *,
        levers: tuple[float, float],
        height: float,
        mass: float = 1.0,
        yaw_inertia: float = 0.01,
        gravity: float = 9.81,
        body: str = "hull",
    ) -> Prototype:
        """As :meth:`from_poles` for a vehicle whose two lateral directions have different levers (a bicopter).

        Both directions share one centre, which determines the vertical damping: q1/q0 = p1/p0 with q0 = ``vertical_stiffness``
        (1/s^2). Centre of damping and of stiffness coincide, ``height`` above the centre of mass.

        Parameters
        ----------
        levers : eps of the motion along x (tilt about y) and along y (tilt about x), m.
        """
        p3, p2, p1, p0 = _polynomial(lateral, 4, "lateral")
        q0, g = float(vertical_stiffness), gravity
        q1 = q0 * p1 / p0
        seconds = []
        for lever, axis in zip(levers, "xy", strict=True):
            tall = height + lever
            J = g * q0 * tall / p0
            if not lever**2 < J:
                raise ControlError(
                    f"these poles give no positive prototype of {body!r} along {axis}: inertia: g q0 (height + lever) / p0 > lever^2 "
                    f"fails, {J:.6g} <= {lever**2:.6g}. Take a larger height or slower vertical poles."
                )
            totals, moments = (mass, mass * q1, mass * q0), (mass * J, p3 * mass * J, mass * (p2 * J - g * lever))
            seconds.append(_Second(totals, (lever, tall, tall), moments))
        return cls._hovering((seconds[0], seconds[1]), levers, yaw, yaw_inertia, body)

    @classmethod
    def hanging_load(
        cls,
        lateral: Sequence[complex],
        lever: float,
        *,
        mass: float = 1.5,
        share: float = 0.3,
        hull_moment: Sequence[float] = (0.02, 0.02, 0.03),
        hull_frequency: float = 8.0,
        twist: tuple[float, float, float] = (0.001, 0.004, 0.004),
        anchor: str = "hull",
        gravity: float = 9.81,
        hull: str = "hull",
        load: str = "load",
    ) -> Prototype:
        """Prototype of a fully actuated vehicle with a load on a spherical joint, from the lateral poles of the load.

        A translation relative to the world, the load's rotation about the joint, and the hull's own rotation, critically damped.

        Parameters
        ----------
        lateral : four poles of the lateral motion with the swing of the load, 1/s.
        lever : eps = (moment of the load about the joint) / (its mass x length), m; see :func:`lateral_lever`.
        mass : desired mass of the translation, kg. share : desired inertia about the joint, in units of lever^2 mass.
        hull_moment, hull_frequency : desired inertia (kg m^2) and natural frequency (rad/s) of the hull's rotation.
        twist : inertia, damping and stiffness of the load about its own axis.
        anchor : body of the translation: "hull", poles exact for a joint in the hull's origin; or "load", whose
            origin is the joint: poles exact for any place of the joint.
        """
        p3, p2, p1, p0 = _polynomial(lateral, 4, "lateral")
        if anchor not in (hull, load):
            raise ControlError(f"anchor must be {hull!r} or {load!r}, got {anchor!r}.")
        inner = share * lever**2 * mass
        total = lever**2 * mass + inner
        stiff, damp = p0 * total / (gravity * lever), p1 * total / (gravity * lever)
        swing = (inner, p3 * total - lever**2 * damp, p2 * total - lever**2 * stiff - gravity * lever * mass)
        for what, value in zip(("inertia", "damping", "stiffness"), swing, strict=True):
            if not value > 0:
                raise ControlError(
                    f"these poles give no positive prototype of {load!r}: its {what} about the joint would be {value:.6g}. "
                    "Take faster or better damped pairs of poles, or a larger share."
                )
        turn = np.asarray(hull_moment, dtype=float)
        turns = (turn, 2 * hull_frequency * turn, hull_frequency**2 * turn)
        parts = []
        for kind, amount, about_hull, k in zip(
            (DesiredInertia, DesiredDamping, Stiffness), (mass, damp, stiff), turns, range(3), strict=True
        ):
            on = {hull: 0.0, load: 0.0, anchor: amount}
            about_joint = (swing[k], swing[k], twist[k])
            parts.append(
                {hull: kind(on[hull], np.zeros(3), about_hull), load: kind(on[load], np.zeros(3), about_joint)}
            )
        return cls(parts[0], parts[1], parts[2])

    @classmethod
    def _hovering(
        cls,
        along: tuple[_Second, _Second],
        levers: tuple[float, float],
        yaw: Sequence[complex],
        yaw_inertia: float,
        body: str,
    ) -> Prototype:
        """Moments about the centre of mass from those about the centres of oscillation of the motions along x and y."""
        damping_z, stiffness_z = (yaw_inertia * c for c in _polynomial(yaw, 2, "yaw"))
        kinds = ((DesiredInertia, 0, yaw_inertia), (DesiredDamping, 1, damping_z), (Stiffness, 2, stiffness_z))
        made: list[Any] = []
        for kind, k, about_z in kinds:
            total = along[0].totals[k]
            center = along[0].centers[k] - levers[0]
            # tilting about x moves the body along y and vice versa; Steiner to the distribution's own centre
            about_y, about_x = (second.moments[k] - total * second.centers[k] ** 2 for second in along)
            what = f"{kind.kind} of {body!r}"
            for axis, value in zip("xyz", (about_x, about_y, about_z), strict=True):
                if not value > 0:
                    raise ControlError(
                        f"{what}: the moment about {axis} at its centre must be positive, got {value:.6g}."
                    )
            made.append(kind(total, (0.0, 0.0, center), (about_x, about_y, about_z)))
        return cls.of_body(made[0], made[1], made[2], body)


class _Second(NamedTuple):
    """Totals and, about the centre of oscillation, centres and second moments of inertia, damping and stiffness."""

    totals: tuple[float, float, float]
    centers: tuple[float, float, float]
    moments: tuple[float, float, float]


def check_positive(moments: Moments, what: str) -> None:
    """Raise a ControlError unless the total and the moment about the own centre are positive."""
    if is_symbolic(moments.total, moments.center, moments.moment_at_center):
        return
    if not moments.total > 0:
        raise ControlError(f"{what} is not positive: its total must be > 0, got {float(moments.total):.6g}.")
    values = np.linalg.eigvalsh(moments.moment_at_center)
    if not values[0] > 0:
        raise ControlError(
            f"{what} is not positive: the moment about its own centre S - t wed(c) wed(c)^T must be positive definite, "
            f"its smallest eigenvalue is {values[0]:.6g}. Its moment about the body origin is "
            f"{np.diag(moments.moment_at_origin).tolist()} and its centre {moments.center.tolist()}: move the centre towards the "
            "origin or increase the moment."
        )


def moments_about_origin(kind: type[M], total: float, center: Sequence[float], moment: Sequence[float]) -> M:
    """Inertia, damping or stiffness from the second moment about the body origin (Steiner)."""
    c = so3.wed(np.asarray(center, dtype=float))
    return kind(total, center, np.diag(np.asarray(moment, dtype=float)) - total * (c.T @ c))


def poles_of(frequency: float, damping: float) -> tuple[complex, complex]:
    """The two roots of L^2 + 2 zeta w L + w^2.

    >>> poles_of(2.0, 1.0)
    ((-2+0j), (-2+0j))
    """
    real, root = -damping * frequency, frequency * np.emath.sqrt(damping**2 - 1)
    return complex(real + root), complex(real - root)


def lateral_lever(moment: float, mass: float, height: float) -> float:
    """eps = moment / (mass height): distance of the centre of oscillation below the centre of mass (docs/control/tuning.md), m.

    ``height`` is that of the effective point of attack of the lateral force above the centre of mass. For a hanging load take its
    moment about the joint and the distance of its centre of mass from the joint.

    >>> lateral_lever(0.02, 1.0, 0.1)
    0.19999999999999998
    """
    if height == 0:
        raise ControlError(
            "a lateral force through the centre of mass has no lever; use lever=0 only without such a force."
        )
    return moment / (mass * height)


def _polynomial(poles: Sequence[complex], degree: int, what: str) -> np.ndarray:
    """Coefficients of L^(n-1) ... L^0 of the monic polynomial with these roots."""
    roots = np.asarray(poles, dtype=complex)
    if roots.shape != (degree,):
        raise ControlError(f"the {what} motion has {degree} poles, got {roots.size}.")
    if not np.all(np.isfinite(roots)) or not np.all(np.real(roots) < 0):
        raise ControlError(f"the {what} poles must be finite with negative real parts, got {list(poles)}.")
    coefficients = np.poly(roots)
    if np.max(np.abs(np.imag(coefficients))) > 1e-9 * np.max(np.abs(coefficients)):
        raise ControlError(f"complex {what} poles must come in conjugate pairs, got {list(poles)}.")
    return np.real(coefficients)[1:]


def _pairs(given: Mapping[Any, M]) -> dict[Pair, M]:
    return {(WORLD, key) if isinstance(key, str) else (key[0], key[1]): value for key, value in given.items()}
