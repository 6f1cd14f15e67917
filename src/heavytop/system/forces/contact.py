"""Compliant contact: an elastic, dissipative normal force and friction at the candidate points of a pair of bodies.

At every candidate with the depth d = max(-gap, 0), the normal n from a to b and the velocity u of the point of b relative to a

    V = k d^(p+1) / (p+1),     N = k d^p max(0, 1 - c n . u)                 (Hunt and Crossley 1975),
    T = -mu N phi(|u_t|) u_t / |u_t|,   phi(x s) = x (3 - x^2) / 2 up to x = 1, then 1.

V is the stored energy and everything else resists, so the potential energy, the dissipated power and their balance are those of the contact. The
friction is the full one from the slip speed s on; below it, it is smooth and bodies creep. A body that hits with the speed v leaves with e v, where
ln((1 + c v) / (1 - c e v)) = c v (1 + e) for any k, p and mass (:func:`hysteresis_of`).

Rolling and spinning resistance are moments of the sizes ``rolling`` N and ``spinning`` N against the angular velocity across and along the normal. A
contact ``patch`` of radius r couples sliding and spinning (Coulomb and Contensou, in the form of Zhuravlev 1998 for the pressure of Hertz): with
the speeds u of sliding and w = r |omega_n| of spinning at the edge

    T = mu N u / (u + 8 w / (3 pi)),     M = (3 pi / 16) mu N r w / (w + (15 pi / 16) u).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from heavytop._arrays import Array, as_array, concatenate, is_symbolic, part, transpose
from heavytop._format import Brief
from heavytop.errors import ModelError
from heavytop.geometry import se3, so3
from heavytop.system.contacts.contact import Candidate, Contact
from heavytop.system.contacts.features import features
from heavytop.system.contacts.surfaces import Height, Plane, Solid
from heavytop.system.description.shapes import Bore, Ellipsoid
from heavytop.system.forces.base import ForceElement, Line, PairElement
from heavytop.system.forces.inner import bristles, released

HERTZ = 1.5
SLIP_SPEED = 0.01
"""Speed in m/s from which on friction is full, by default."""
TURN_SPEED = 0.1
"""Angular velocity in rad/s from which on rolling and spinning resistance are full, by default."""
RESTITUTION = (0.2, 1.0)
"""Coefficient of restitution and the speed in m/s to which it belongs, by default."""
TINY = 1e-30


@dataclass(frozen=True, eq=False, repr=False)
class CompliantContact(Brief, PairElement):
    """The force element of a contact with ``stiffness=`` (:meth:`.System.contact`).

    Attributes
    ----------
    contact : the pair of shapes, with the coefficient of friction.
    stiffness : k in N/m^p. exponent : p. hysteresis : c in s/m.
    slip_speed, turn_speed : s in m/s, and the same for rolling and spinning in rad/s.
    rolling, spinning : lever arms of the resisting moments in m. patch : radius of the contact patch in m.

    Examples
    --------
    >>> import heavytop as ht
    >>> system = ht.System(name="ball")
    >>> system.body("ball", joint=ht.Free(), inertia=ht.Inertia.of(ht.Sphere(0.05), density=190.0))
    >>> system.ground()
    >>> system.contact("ball", "ground", ht.Sphere(0.05), friction=0.3, stiffness=1e5, restitution=(0.8, 1.0))
    >>> model = system.derive(native=False)
    >>> q = model.neutral()
    >>> q[2] = 0.049
    >>> bool(model.acceleration(q, np.zeros(6))[2] > 20.0)
    True
    """

    contact: Contact
    stiffness: Any
    exponent: float = HERTZ
    hysteresis: Any = 0.0
    slip_speed: Any = SLIP_SPEED
    turn_speed: Any = TURN_SPEED
    rolling: Any = 0.0
    spinning: Any = 0.0
    patch: Any = 0.0
    a: str = field(default="", init=False)
    b: str = field(default="", init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "a", self.contact.partner)
        object.__setattr__(self, "b", self.contact.body)
        super().__post_init__()

    @property
    def kind(self) -> str:
        return "contact"

    @property
    def title(self) -> str:
        return f"contact {self.contact.name!r}"

    def lines(self) -> tuple[Line, ...]:
        return ()

    def renamed(self, name: Callable[[str], str]) -> CompliantContact:
        c = self.contact
        return replace(self, contact=replace(c, name=name(c.name), body=name(c.body), partner=name(c.partner)))

    def not_negative(self) -> Mapping[str, Any]:
        names = ("stiffness", "hysteresis", "rolling", "spinning", "patch")
        return {"friction": self.contact.friction} | {name: as_array(getattr(self, name)) for name in names}

    def positive(self) -> Mapping[str, Array]:
        return {"slip_speed": as_array(self.slip_speed), "turn_speed": as_array(self.turn_speed)}

    # --- geometry -----------------------------------------------------------------------------------------------------------

    def _near(self, pose: Array) -> Array | None:
        """Whether the bounding spheres of the bodies overlap, so that code in the air is skipped; None where they have none."""
        shape, surface, at = self.contact.shape, self.contact.surface, self.contact.at
        center = se3.position(pose) + np.matvec(se3.rotation(pose), se3.position(at))
        if isinstance(surface, Plane):
            return center[2] < reach(shape)
        if isinstance(surface, Solid) and not isinstance(surface.shape, Bore):
            far = reach(shape) + reach(surface.shape)
            return np.vecdot(center, center) < far * far
        return None

    def _where_near(self, pose: Array, value: Array, nothing: Array) -> Array:
        near = self._near(pose)
        return value if near is None else np.where(near, value, nothing)

    def _elastic(self, depth: Array) -> Array:
        """k d^p."""
        if self.exponent == 1.0:
            return self.stiffness * depth
        if self.exponent == HERTZ:
            return self.stiffness * depth * np.sqrt(depth + TINY)
        return self.stiffness * (depth + TINY) ** self.exponent

    # --- forces -------------------------------------------------------------------------------------------------------------

    def energy(self, pose: Array, /) -> Array:
        total = 0.0
        for candidate in self.contact.candidates(pose):
            depth = np.maximum(-candidate.gap, 0.0)
            total = total + depth * self._elastic(depth) / (self.exponent + 1.0)
        return self._where_near(pose, total, 0.0)

    def energy_gradient(self, pose: Array, /) -> Array:
        total = np.zeros(6)
        for candidate in self.contact.candidates(pose):
            push = -self._elastic(np.maximum(-candidate.gap, 0.0)) * candidate.normal
            total = total + concatenate(push, np.cross(candidate.point, push))
        return self._where_near(pose, total, np.zeros(6))

    def resistance(self, pose: Array, twist: Array, /) -> Array:
        total = np.zeros(6)
        for touch in self._touches(pose, twist):
            lost = touch.elastic * np.minimum(self.hysteresis * touch.rate, 1.0)
            force = lost * touch.candidate.normal + touch.grip * touch.sliding
            moment = touch.hold * touch.spinning + touch.roll * touch.rolling
            total = total + concatenate(force, np.cross(touch.candidate.point, force) + moment)
        return self._where_near(pose, total, np.zeros(6))

    def secant(self, pose: Array, twist: Array, /) -> Array:
        """Friction and resisting moments as a matrix: ``J^T (grip (1 - n n^T)) J`` of the points, and the same of the turning."""
        total = np.zeros((6, 6))
        for touch in self._touches(pose, twist):
            normal = touch.candidate.normal
            along = np.outer(normal, normal)
            lever = so3.wed(touch.candidate.point)  # u = v - point x w reversed: u = v + w x point = v - wed(point) w
            slide = touch.grip * (np.eye(3) - along)
            turn = touch.hold * along + touch.roll * (np.eye(3) - along)
            lower = lever @ slide
            total = total + np.concatenate(
                [
                    np.concatenate([slide, -slide @ lever], axis=1),
                    np.concatenate([lower, turn - lower @ lever], axis=1),
                ],
                axis=0,
            )
        return self._where_near(pose, total, np.zeros((6, 6)))

    def _touches(self, pose: Array, twist: Array) -> Iterator[_Touch]:
        """Forces and velocities at every candidate."""
        friction = self.contact.friction
        omega = part(twist, 3, 6)
        for candidate in self.contact.candidates(pose):
            normal, velocity = candidate.normal, candidate.velocity(twist)
            rate = np.vecdot(velocity, normal)
            sliding = velocity - rate * normal
            elastic = self._elastic(np.maximum(-candidate.gap, 0.0))
            pressure = elastic * np.maximum(1.0 - self.hysteresis * rate, 0.0)
            about = np.vecdot(omega, normal)
            spinning, rolling = about * normal, omega - about * normal
            hold = roll = 0.0
            if _is_zero(self.patch):
                grip = friction * pressure * _compact(np.vecdot(sliding, sliding), self.slip_speed)
            else:
                slide = np.sqrt(np.vecdot(sliding, sliding) + TINY)
                edge = self.patch * np.sqrt(about * about + TINY)
                grip = friction * pressure * _compact((slide + 8 / (3 * np.pi) * edge) ** 2, self.slip_speed)
                held = _compact((edge + 15 * np.pi / 16 * slide) ** 2, self.slip_speed)
                hold = 3 * np.pi / 16 * friction * pressure * self.patch**2 * held
            if not _is_zero(self.spinning):
                hold = hold + self.spinning * pressure * _compact(about * about, self.turn_speed)
            if not _is_zero(self.rolling):
                roll = self.rolling * pressure * _compact(np.vecdot(rolling, rolling), self.turn_speed)
            yield _Touch(candidate, elastic, pressure, rate, sliding, spinning, rolling, grip, hold, roll)

    def observed(self, pose: Array, twist: Array) -> list[tuple[Array, Array, Array, Array]]:
        """Force (3,) on b and position (3,) of every point in the axes of a, its gap, and its share of the full friction."""
        R, found = se3.rotation(pose), []
        for touch, drag in self._drags(pose, twist):
            force = touch.pressure * touch.candidate.normal - drag
            use = np.sqrt(np.vecdot(drag, drag)) / np.maximum(self.contact.friction * touch.pressure, TINY)
            place = se3.position(pose) + np.matvec(R, touch.candidate.point)
            found.append((np.matvec(R, force), place, touch.candidate.gap, use))
        return found

    def _drags(self, pose: Array, twist: Array) -> Iterator[tuple[_Touch, Array]]:
        """Candidates and the resistance (3,) of their friction."""
        for touch in self._touches(pose, twist):
            yield touch, touch.grip * touch.sliding


class HeightContact(CompliantContact):
    """The same over a height z = f(x, y), whose normal is the gradient of the gap only at the surface: the gradient is that of the energy."""

    energy_gradient = ForceElement.energy_gradient

    @property
    def kind(self) -> str:
        return "contact"


@dataclass(frozen=True, eq=False, repr=False)
class BristleContact(CompliantContact):
    """A contact whose points stick by bristles; their states are in the axes of the partner, two of each point over a plane.

    ``length`` is the displacement in m at which friction is full.
    """

    length: Any = 1e-4

    @property
    def kind(self) -> str:
        return "contact"

    def positive(self) -> Mapping[str, Array]:
        return {**super().positive(), "bristles": as_array(self.length)}

    @property
    def memory(self) -> str:  # type: ignore[override]
        return f"{self.contact.name} bristles"

    @property
    def _axes(self) -> int:
        return 2 if isinstance(self.contact.surface, Plane) else 3

    @property
    def states(self) -> tuple[str, ...]:  # type: ignore[override]
        count = len(list(self.contact.candidates(np.eye(4))))
        return tuple(f"{axis}{k}" for k in range(count) for axis in "xyz"[: self._axes])

    def energy_gradient(self, pose: Array, /) -> Array:
        return concatenate(super().energy_gradient(pose), np.zeros(len(self.states)))

    def _brushed(self, pose: Array, w: Array) -> Iterator[tuple[_Touch, Array, Array, Array]]:
        """Candidates, the resistance (3,) of their bristles on b, that on the states, and the damping."""
        R, n = se3.rotation(pose), self._axes
        for k, touch in enumerate(self._touches(pose, part(w, 0, 6))):
            along = np.matvec(R, touch.sliding)[:n]
            strength = self.contact.friction * touch.pressure
            on_slip, on_states, damping = bristles(strength, self.length, along, w[6 + n * k : 6 + n * (k + 1)])
            drag = np.matvec(transpose(R), concatenate(on_slip, np.zeros(3 - n)))
            if n == 3:  # the surface may bend
                drag = drag - np.vecdot(drag, touch.candidate.normal) * touch.candidate.normal
            yield touch, drag, on_states, damping

    def _drags(self, pose: Array, twist: Array) -> Iterator[tuple[_Touch, Array]]:
        for touch, drag, _, damping in self._brushed(pose, twist):
            yield touch, drag + damping * touch.sliding

    def resistance(self, pose: Array, twist: Array, /) -> Array:
        total, on_states = np.zeros(6), []
        for touch, drag, rate, damping in self._brushed(pose, twist):
            lost = touch.elastic * np.minimum(self.hysteresis * touch.rate, 1.0)
            force = lost * touch.candidate.normal + drag + damping * touch.sliding
            moment = touch.hold * touch.spinning + touch.roll * touch.rolling
            total = total + concatenate(force, np.cross(touch.candidate.point, force) + moment)
            on_states.append(rate)
        away = concatenate(np.zeros(6), released(self.length, part(twist, 6, 6 + len(self.states))))
        return self._where_near(pose, concatenate(total, *on_states), away)

    def secant(self, pose: Array, twist: Array, /) -> Array:
        n = len(self.states)
        upper = np.concatenate([super().secant(pose, part(twist, 0, 6)), np.zeros((6, n))], axis=1)
        return np.concatenate([upper, np.zeros((n, 6 + n))], axis=0)


@dataclass
class _Touch:
    """One candidate in motion: ``rate`` of the gap, ``sliding``, ``spinning`` and ``rolling`` velocities, and coefficients of what resists them."""

    candidate: Candidate
    elastic: Array
    pressure: Array
    rate: Array
    sliding: Array
    spinning: Array
    rolling: Array
    grip: Array
    hold: Array
    roll: Array


def compliant_contact(contact: Contact, **properties: Any) -> CompliantContact:
    """The force element of a contact."""
    if "bristles" in properties:
        if isinstance(contact.surface, Height):
            raise ModelError(
                f"contact {contact.name!r} has bristles, which need a plane or a body as their partner, and its ground has a height. "
                "Use slip_speed=, or rigid contact."
            )
        return BristleContact(contact, length=properties.pop("bristles"), **properties)
    return (HeightContact if isinstance(contact.surface, Height) else CompliantContact)(contact, **properties)


def _compact(squared: Array, speed: Array) -> Array:
    """phi(v)/v of the compact friction law, from v^2: (3 - x^2) / (2 s) below the speed s, 1/v above; x = v/s."""
    x = squared / (speed * speed)
    return np.where(x < 1.0, 1.5 - 0.5 * x, 1.0 / np.sqrt(np.maximum(x, 1.0))) / speed


def _is_zero(value: Any) -> bool:
    return not is_symbolic(value) and not np.any(np.asarray(value))


def reach(shape: Any) -> float:
    """Radius in m of a sphere around the origin of a shape that holds all its points.

    >>> import heavytop as ht
    >>> round(reach(ht.Capsule(0.1, 0.4)), 9)
    0.3
    """
    if isinstance(shape, Ellipsoid):
        return float(max(shape.radii))
    points = features(shape, np.array([0.0, 0.0, 1.0]))
    return max(float(np.linalg.norm(center)) + radius for center, radius in points)


def hysteresis_of(restitution: float, speed: float) -> float:
    """The coefficient c in s/m with which a body that hits with a ``speed`` leaves with ``restitution`` times this speed.

    The motion between the hits is v dv = -k d^p (1 + c v)/m dd; its integral does not depend on k, p and m: with x = c v

        ln((1 + x) / (1 - e x)) = x (1 + e),     0 < x < 1/e.

    >>> round(hysteresis_of(0.5936240, 1.0), 5)
    1.0
    """
    from scipy.optimize import brentq

    if not 0.0 < restitution <= 1.0 or not speed > 0.0:
        raise ModelError(
            f"restitution of a compliant contact must be above 0 and at most 1, at a speed above 0 m/s, got {restitution:g} at {speed:g} m/s. Give "
            "restitution=(0.2, 1.0), or 0.05 for contacts that hardly bounce."
        )
    e = restitution
    if e < 0.03:  # 1 - e x = (1 + x) exp(-x (1 + e)) is below rounding
        return 1.0 / (e * speed)
    if 1.0 - e < 1e-4:  # first terms of the series
        return 1.5 * (1.0 - e * e) / (1.0 + e**3) / speed

    def excess(x: float) -> float:
        return float(np.log1p(x) - np.log1p(-e * x) - x * (1.0 + e))

    root: Any = brentq(excess, 0.5 * (1.0 - e), (1.0 - 1e-15) / e, xtol=1e-15)
    return float(root) / speed
