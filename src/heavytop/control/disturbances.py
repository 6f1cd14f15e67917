"""Disturbances: rotor drag, wind, turbulence, noisy and late measurements.

Drag and wind act on the plant: they are added to the described system. Noise and delay act on what the controller sees: they wrap a
controller. Everything random has a seed and is the same in every run.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, Protocol

import numpy as np

from heavytop._arrays import Array, concatenate, part, split, vector
from heavytop.compile import Traced, trace_of
from heavytop.control.actuators import insert, memory, symbols_of
from heavytop.control.sampling import Resampling
from heavytop.control.tracking import Controller
from heavytop.errors import ControlError, unknown_name, wrong_shape
from heavytop.system.inputs import Wrench
from heavytop.system.joints import Free
from heavytop.system.model import Model
from heavytop.system.moments import Damping
from heavytop.system.system import System

WIND_AXES = ("wind_x", "wind_y", "wind_z")


def add_rotor_drag(system: System, body: str, coefficient: float) -> None:
    """Drag of the rotors of a free body: a force -coefficient (v_x, v_y, 0) in its axes, at its origin, in N s/m times m/s.

    In the rotor plane the drag of propellers is linear in the velocity; along the axis there is (nearly) none.
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
    """Air that moves past a body: drag (N s/m) times the wind velocity at a point, as three inputs, and drag against its own motion.

    The inputs wind_x, wind_y, wind_z take the wind velocity in world axes (m/s). A controller for the system without wind is
    completed by :class:`Windy`.
    """
    system.damper("world", body, Damping(drag, at))
    system.frame(f"{body}_air", body, at)
    for name, axis in zip(WIND_AXES, np.eye(3), strict=True):
        system.input(name, Wrench(f"{body}_air", force=drag * axis, frame="world"))


class Wind(Protocol):
    """Wind velocity as function of time."""

    def at(self, times: np.ndarray) -> np.ndarray:
        """Velocity (n, 3) in world axes at the times (n,), m/s."""
        ...


@dataclass(frozen=True)
class ConstantWind:
    """Wind of constant velocity (3,), m/s."""

    velocity: Any

    def at(self, times: np.ndarray) -> np.ndarray:
        return np.broadcast_to(np.asarray(self.velocity, dtype=float), (len(times), 3))


@dataclass(frozen=True)
class Gust:
    """A gust of the shape 1 - cos: from ``begin`` on for ``length`` seconds, ``peak`` (3,) in the middle, m/s."""

    peak: Any
    begin: float
    length: float

    def at(self, times: np.ndarray) -> np.ndarray:
        phase = np.clip((np.asarray(times) - self.begin) / self.length, 0.0, 1.0)
        return 0.5 * (1 - np.cos(2 * np.pi * phase))[:, None] * np.asarray(self.peak, dtype=float)


@dataclass(frozen=True)
class VonKarman:
    """Turbulence with von Karman's spectra, frozen and carried past the vehicle with the mean wind.

    Parameters
    ----------
    mean : (3,) mean velocity, m/s; not zero. intensity : standard deviation of each component, m/s.
    length : integral length scale, m. seed : of the random phases. waves : number of frequencies.
    lowest, highest : range of the frequencies, rad/s; default: from 0.01 to 300 times mean speed by length.

    The velocity is a sum of waves with random phases, so it is defined at every time.
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
                "von Karman turbulence needs a mean wind, a positive length and an intensity that is not negative."
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
        # what lies below the lowest frequency is a constant of random sign
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
        across = np.cross(helper, along)
        across /= np.linalg.norm(across)
        return np.stack([along, across, np.cross(along, across)])


@dataclass(frozen=True)
class Winds:
    """The sum of several winds."""

    parts: tuple[Wind, ...]

    def at(self, times: np.ndarray) -> np.ndarray:
        return np.sum([wind.at(times) for wind in self.parts], axis=0)


class Windy(Resampling):
    """A controller for a plant with the wind inputs of :func:`add_wind`: the controller knows nothing of the wind."""

    def __init__(self, controller: Controller, wind: Wind) -> None:
        self.controller, self.wind = controller, wind
        self.signal_size = controller.signal_size + 3
        self.state_size = controller.state_size

    def initial_state(self) -> np.ndarray:
        """That of the inner controller."""
        return self.controller.initial_state()

    def signal(self, times: Any) -> np.ndarray:
        """The inner signal and the wind."""
        return np.concatenate([self.controller.signal(times), self.wind.at(np.asarray(times, dtype=float))], axis=-1)

    def traced(self, model: Model) -> Traced:
        """The inner controller with the wind among the inputs."""
        names = [name for name in model.u_names if name not in WIND_AXES]
        if len(names) + 3 != model.nu:
            raise ControlError(
                f"{model.name!r} has no wind inputs: call add_wind(system, body, drag) before deriving it."
            )
        inner = self.controller.traced(_without_wind(model, len(names)))
        symbols = symbols_of(inner, self.state_size, self.signal_size)
        mine, wind = split(symbols["signal"], (self.controller.signal_size, 3))
        values = insert(inner, {**symbols, "signal": mine})
        given = dict(zip(names, (values["u"][i] for i in range(len(names))), strict=True))
        given |= dict(zip(WIND_AXES, (wind[i] for i in range(3)), strict=True))
        u = vector(*(given[name] for name in model.u_names))
        return trace_of("windy", symbols, {**values, "u": u})


def _without_wind(model: Model, nu: int) -> Any:
    """What a controller looks at in a plant, without the wind inputs."""
    return SimpleNamespace(name=model.name, nq=model.nq, nv=model.nv, nu=nu, parameter_names=model.parameter_names)


class Noisy(Resampling):
    """A controller that sees noisy measurements: q moved by a random displacement, v with a random error.

    Parameters
    ----------
    configuration, velocity : standard deviations, one number or (nv,), in the units of the velocity coordinates (m, rad; m/s, rad/s).
    seed : of the noise. Each sample is independent: meant for sampled control.
    """

    def __init__(
        self, controller: Controller, model: Model, configuration: Any = 0.0, velocity: Any = 0.0, seed: int = 0
    ) -> None:
        self.controller, self.model, self.seed = controller, model, seed
        sides = []
        for what, value in (("configuration", configuration), ("velocity", velocity)):
            array = np.asarray(value, dtype=float)
            if array.shape not in ((), (model.nv,)):
                raise wrong_shape(f"noise of the {what}", (model.nv,), array.shape)
            if not np.all(array >= 0):
                raise ControlError(f"the standard deviation of the {what} must not be negative, got {array.tolist()}.")
            sides.append(np.broadcast_to(array, (model.nv,)))
        self.deviation = np.concatenate(sides)
        self.signal_size = controller.signal_size + 2 * model.nv
        self.state_size = controller.state_size

    def initial_state(self) -> np.ndarray:
        """That of the inner controller."""
        return self.controller.initial_state()

    def signal(self, times: Any) -> np.ndarray:
        """The inner signal and the noise of every sample."""
        times = np.asarray(times, dtype=float)
        noise = np.random.default_rng(self.seed).standard_normal((*times.shape, 2 * self.model.nv)) * self.deviation
        return np.concatenate([self.controller.signal(times), noise], axis=-1)

    def traced(self, model: Model) -> Traced:
        """The inner controller at the measured state."""
        inner = self.controller.traced(model)
        symbols = symbols_of(inner, self.state_size, self.signal_size)
        mine, eps, dv = split(symbols["signal"], (self.controller.signal_size, self.model.nv, self.model.nv))
        q = self.model.coordinates.retract(symbols["q"], eps)
        values = insert(inner, {**symbols, "signal": mine, "q": q, "v": symbols["v"] + dv})
        return trace_of("noisy", symbols, values)


class Delayed(Resampling):
    """A controller that sees the state of some samples ago. For sampled control only.

    Parameters
    ----------
    samples : how many samples late. start : (q, v) that it sees until the first measurement arrives.
    """

    def __init__(self, controller: Controller, samples: int, start: tuple[Any, Any]) -> None:
        if samples < 1:
            raise ControlError(f"a delay takes at least one sample, got {samples}.")
        self.controller, self.samples = controller, samples
        self.first = np.concatenate([np.asarray(x, dtype=float) for x in start], axis=-1)
        self.signal_size = controller.signal_size
        self.state_size = samples * self.first.shape[-1] + controller.state_size

    def initial_state(self) -> np.ndarray:
        """The start, as often as samples are on the way, then the state of the inner controller."""
        waiting = np.concatenate([self.first] * self.samples, axis=-1)
        inner = self.controller.initial_state()
        return np.concatenate([waiting, np.broadcast_to(inner, (*waiting.shape[:-1], inner.shape[-1]))], axis=-1)

    def signal(self, times: Any) -> np.ndarray:
        """That of the inner controller."""
        return self.controller.signal(times)

    def traced(self, model: Model) -> Traced:
        """The inner controller at the delayed state; z_next passes the measurements on."""
        inner = self.controller.traced(model)
        symbols = symbols_of(inner, self.state_size)
        size = model.nq + model.nv
        *waiting, rest = split(symbols["z"], (*(size,) * self.samples, self.controller.state_size))
        q, v = split(waiting[0], (model.nq, model.nv))
        values = insert(inner, {**symbols, "q": q, "v": v, "z": rest})
        following = concatenate(*waiting[1:], symbols["q"], symbols["v"], memory(values, "z_next"))
        outputs = {name: value for name, value in values.items() if name != "z_next"}
        return trace_of("delayed", symbols, {**outputs, "z_next": following})
