"""Wind: the velocity of the air as a function of time, and plants with wind and rotor drag that a controller does not know.

Random winds have a seed and are the same in every run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from heavytop._arrays import Array, part, vector
from heavytop.control.laws.wrapper import PartialPlant, Seen, Wrapper
from heavytop.errors import ControlError, unknown_name
from heavytop.geometry import rotation_with_z
from heavytop.system import Damping, System, Wrench
from heavytop.system.joints import Free


class Wind(Protocol):
    """Wind velocity as function of time."""

    def at(self, times: np.ndarray) -> np.ndarray:
        """Velocity (n, 3) in world axes at the times (n,), m/s."""
        ...


@dataclass(frozen=True)
class ConstantWind:
    """Wind of constant velocity (3,), m/s.

    >>> ConstantWind((3.0, 0.0, 0.0)).velocity
    (3.0, 0.0, 0.0)
    """

    velocity: Any

    def at(self, times: np.ndarray) -> np.ndarray:
        return np.broadcast_to(np.asarray(self.velocity, dtype=float), (len(times), 3))


@dataclass(frozen=True)
class Gust:
    """A 1 - cos gust: from ``begin`` for ``length`` seconds, ``peak`` (3,) in the middle, m/s.

    >>> Gust((5.0, 0, 0), begin=1.0, length=2.0).at(np.array([0.0, 2.0, 4.0]))[:, 0]
    array([0., 5., 0.])
    """

    peak: Any
    begin: float
    length: float

    def at(self, times: np.ndarray) -> np.ndarray:
        phase = np.clip((np.asarray(times) - self.begin) / self.length, 0.0, 1.0)
        return 0.5 * (1 - np.cos(2 * np.pi * phase))[:, None] * np.asarray(self.peak, dtype=float)


@dataclass(frozen=True)
class Breeze:
    """A mean wind with gusts of about a third of it in all directions: ``speed`` in m/s along x, or the mean velocity (3,); ``seed`` of the gusts.

    Six waves per axis between 0.5 and 6 rad/s: cheap, and defined at every time.

    >>> Breeze((3.0, 0.0, 1.0)).mean
    array([3., 0., 1.])
    >>> bool(np.all(Breeze(3.0).at(np.array([0.5])) == Breeze((3.0, 0, 0)).at(np.array([0.5]))))
    True
    """

    speed: Any
    seed: int = 0

    @property
    def mean(self) -> np.ndarray:
        """Mean velocity (3,), m/s."""
        given = np.asarray(self.speed, dtype=float)
        return np.array([float(given), 0.0, 0.0]) if given.shape == () else given

    def at(self, times: np.ndarray) -> np.ndarray:
        return self.mean + 0.3 * np.linalg.norm(self.mean, axis=-1) * self.gusts(times)

    def gusts(self, times: np.ndarray) -> np.ndarray:
        """The waves (n, 3) at the times (n,), per unit of 0.3 times the mean speed."""
        t = np.asarray(times, dtype=float)
        rng = np.random.default_rng(self.seed)
        rates = rng.uniform(0.5, 6.0, (6, 3))
        phases = rng.uniform(0.0, 2 * np.pi, (6, 3))
        sizes = np.array([1.0, 1.0, 0.5]) / np.sqrt(1 + rates)
        return np.sum(sizes * np.sin(rates * t[..., None, None] + phases), axis=-2)


@dataclass(frozen=True, eq=False)
class Breezes:
    """A :class:`Breeze` for each trajectory of a batch: ``speed`` (batch,) or (batch, 3), ``seed`` one or (batch,).

    >>> Breezes(np.array([2.0, 3.0])).at(np.array([0.5])).shape
    (1, 2, 3)
    """

    speed: Any
    seed: Any = 0

    @property
    def mean(self) -> np.ndarray:
        """Mean velocities (batch, 3), m/s."""
        given = np.asarray(self.speed, dtype=float)
        return np.multiply.outer(given, [1.0, 0.0, 0.0]) if given.ndim == 1 else given

    def at(self, times: np.ndarray) -> np.ndarray:
        """Velocities (n, batch, 3)."""
        mean = self.mean
        seeds, which = np.unique(self.seed, return_inverse=True)
        gusts = np.stack([Breeze(0.0, int(seed)).gusts(times) for seed in seeds], axis=1)[:, np.reshape(which, -1)]
        return mean + 0.3 * np.linalg.norm(mean, axis=-1)[:, None] * gusts


@dataclass(frozen=True)
class VonKarman:
    """Turbulence with von Karman's spectra, frozen and carried past the vehicle with the mean wind.

    Parameters
    ----------
    mean : (3,) mean velocity, m/s; not zero. intensity : standard deviation of each component, m/s.
    length : integral length scale, m. seed : seed of the random phases. waves : number of frequencies.
    lowest, highest : range of the frequencies, rad/s; default: from 0.01 to 300 times mean speed by length.

    The velocity is a sum of waves with random phases, so it is defined at every time.

    Examples
    --------
    >>> VonKarman((5.0, 0.0, 0.0), intensity=0.5, seed=1).length
    50.0
    """

    mean: Any
    intensity: float = 1.0
    length: float = 50.0
    seed: int = 0
    waves: int = 400
    lowest: float | None = None
    highest: float | None = None

    def __post_init__(self) -> None:
        if not (self.speed > 0 and self.length > 0 and self.intensity >= 0):
            raise ControlError(
                "von Karman turbulence needs a mean wind, a positive length and a non-negative intensity."
            )

    @property
    def speed(self) -> float:
        """Mean speed, m/s."""
        return float(np.linalg.norm(np.asarray(self.mean, dtype=float)))

    def spectrum(self, omega: Any) -> np.ndarray:
        """One-sided spectra (..., 3) along, across and above the mean wind, (m/s)^2 s/rad: each integrates to intensity^2."""
        omega = np.asarray(omega, dtype=float)
        base = self.intensity**2 * self.length / (np.pi * self.speed)
        x = (1.339 * self.length * omega / self.speed) ** 2
        along = 2 * base / (1 + x) ** (5 / 6)
        across = base * (1 + 8 / 3 * x) / (1 + x) ** (11 / 6)
        return np.stack([along, across, across], axis=-1)

    def at(self, times: np.ndarray) -> np.ndarray:
        times = np.asarray(times, dtype=float)
        rng = np.random.default_rng(self.seed)
        turn = self.speed / self.length
        edges = np.geomspace(self.lowest or 0.01 * turn, self.highest or 300 * turn, self.waves + 1)
        omega = rng.uniform(edges[:-1], edges[1:])
        amplitude = np.sqrt(2 * self.spectrum(omega) * np.diff(edges)[:, None])
        # frequencies below the lowest: a constant of random sign
        rest = np.sqrt(np.maximum(self.spectrum(0.0) * edges[0], 0.0)) * rng.standard_normal(3)
        phases = rng.uniform(0, 2 * np.pi, (self.waves, 3))
        velocity = np.empty((len(times), 3))
        for axis in range(3):
            velocity[:, axis] = np.cos(np.outer(times, omega) + phases[:, axis]) @ amplitude[:, axis] + rest[axis]
        return np.asarray(self.mean, dtype=float) + velocity @ self._axes()

    def _axes(self) -> np.ndarray:
        """Rows: unit vectors along, across and above the mean wind."""
        along = np.asarray(self.mean, dtype=float) / self.speed
        helper = np.array([0.0, 0.0, 1.0]) if abs(along[2]) < 0.9 else np.array([1.0, 0.0, 0.0])
        across, above, _ = rotation_with_z(along, np.cross(helper, along)).T
        return np.stack([along, across, above])


@dataclass(frozen=True)
class Winds:
    """The sum of several winds.

    >>> Winds((ConstantWind((1.0, 0, 0)), Gust((5.0, 0, 0), 1.0, 2.0))).at(np.array([0.0, 2.0]))[:, 0]
    array([1., 6.])
    """

    parts: tuple[Wind, ...]

    def at(self, times: np.ndarray) -> np.ndarray:
        return np.sum([wind.at(times) for wind in self.parts], axis=0)


WIND_AXES = ("wind_x", "wind_y", "wind_z")


def add_rotor_drag(system: System, body: str, coefficient: float) -> None:
    """Drag of the rotors of a free body: a force -coefficient (v_x, v_y, 0) in its axes, at its origin, in N s/m times m/s.

    In the rotor plane the drag of propellers is linear in the velocity; along the axis there is (nearly) none.

    >>> import heavytop as ht
    >>> system = ht.System()
    >>> system.body("hull", joint=ht.Free(), inertia=ht.Inertia(1.0, moment_at_com=(0.01, 0.01, 0.02)))
    >>> add_rotor_drag(system, "hull", 0.2)
    >>> model = system.derive(native=False)
    >>> model.acceleration(model.neutral(), [1.0, 0, 0, 0, 0, 0])[:3]
    array([-0.2 , -0.  , -9.81])
    """
    description = system.describe()
    labels = [edge.label for edge in description.joints]
    if body not in labels:
        raise unknown_name("body (in rotor drag)", body, labels)
    joint = description.joints[labels.index(body)].joint
    if not isinstance(joint, Free):
        raise ControlError(f"rotor drag acts on a free body; {body!r} has a {type(joint).__name__} joint.")
    before = description.joints[: labels.index(body)]
    i, j = (sum(getattr(e.joint.coordinates, n) for e in before) for n in ("nq", "nv"))

    def dissipation(q: Array, v: Array) -> Array:
        J = joint.jacobian(part(q, i, i + joint.coordinates.nq))
        twist = np.matvec(J, part(v, j, j + 6))
        return 0.5 * coefficient * (twist[0] * twist[0] + twist[1] * twist[1])

    system.dissipation(dissipation)


def add_wind(system: System, body: str, drag: float, at: Any = (0.0, 0.0, 0.0)) -> None:
    """Wind on a body: drag (N s/m) times the wind velocity at a point, as three inputs, and drag against its own motion.

    The inputs wind_x, wind_y, wind_z take the wind velocity in world axes (m/s). Wrap a controller for the
    system without wind in :class:`Windy`.

    >>> import heavytop as ht
    >>> system = ht.System()
    >>> system.body("hull", joint=ht.Free(), inertia=ht.Inertia(1.0, moment_at_com=(0.01, 0.01, 0.02)))
    >>> add_wind(system, "hull", drag=0.1)
    >>> system.derive(native=False).u_names
    ('wind_x', 'wind_y', 'wind_z')
    """
    system.damper("world", body, Damping(drag, at))
    system.frame(f"{body}_air", body, at)
    for name, axis in zip(WIND_AXES, np.eye(3), strict=True):
        system.input(name, Wrench(f"{body}_air", force=drag * axis, frame="world"))


class Windy(Wrapper):
    """A controller for a plant with the wind inputs of :func:`add_wind`; the inner controller is not given the wind.

    Parameters
    ----------
    controller : for the plant without wind.
    wind : any of :mod:`heavytop.control.disturbances.wind`.

    Examples
    --------
    >>> import heavytop as ht
    >>> model = ht.library.quadcopter().derive()
    >>> law = ht.control.lqr(model, model.neutral())
    >>> Windy(law, ht.control.VonKarman((4.0, 0.0, 0.0))).own_signal_size
    3
    """

    own_signal_size = 3

    def __init__(self, controller: Any, wind: Wind) -> None:
        super().__init__(controller)
        self.wind = wind

    def own_signal(self, times: np.ndarray) -> np.ndarray:
        return self.wind.at(times)

    @property
    def own_signal_names(self) -> tuple[tuple[str, str], ...]:
        return tuple((name.replace("_", " "), "m/s") for name in WIND_AXES)

    def plant(self, model: Any) -> PartialPlant:
        names = [name for name in model.u_names if name not in WIND_AXES]
        if len(names) + 3 != model.nu:
            raise ControlError(
                f"{model.name!r} has no wind inputs: call add_wind(system, body, drag) before deriving it. Use one Windy: "
                "Winds((...)) adds several winds."
            )
        return PartialPlant.with_inputs(model, names)

    def acted(self, at: Seen, u: Array) -> Array:
        names = [name for name in at.model.u_names if name not in WIND_AXES]
        given = {name: u[i] for i, name in enumerate(names)}
        given |= {name: at.signal[i] for i, name in enumerate(WIND_AXES)}
        return vector(*(given[name] for name in at.model.u_names))
