"""Sensors of any model: the output as a function of time, state and inputs, its manifold, noise, bias, rate and delay."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from heavytop._arrays import Array, concatenate, flatten_columns, part, symbol, transpose, unflatten_columns
from heavytop.compile import Traced, on_symbols, trace_of
from heavytop.errors import ControlError, unknown_name
from heavytop.functions import Value
from heavytop.geometry import se3, so3
from heavytop.system import WORLD, Model, at_defaults


class Instant:
    """The arguments of an output: symbols t (), q (nq,), v (nv,), u (nu,), disturbing accelerations w (nv,), parameters p (np,)."""

    def __init__(self, model: Model) -> None:
        self.model, self.t = model, symbol("t")
        self.q, self.v, self.u = symbol("q", model.nq), symbol("v", model.nv), symbol("u", model.nu)
        self.w, self.p = symbol("w", model.nv), symbol("p", len(model.parameter_names))

    def pose(self, frame: str) -> Array:
        """Pose (4, 4) of a frame in the world."""
        return self._of(f"pose:{WORLD}:{frame}", self.q)

    def twist(self, frame: str) -> Array:
        """Twist (6,) of a frame relative to the world in its own axes."""
        return self._of(f"twist:{WORLD}:{frame}", self.q, self.v)

    def twist_rate(self, frame: str) -> Array:
        """Rate (6,) of the twist, with the acceleration of the model and the disturbance w."""
        a = self._of("acceleration", self.q, self.v, self.u) + self.w
        return self._of(f"twist_rate:{WORLD}:{frame}", self.q, self.v, a)

    def _of(self, name: str, *arguments: Array) -> Array:
        return self.model.traced(name).expressions(*arguments, self.p)[0]

    def symbols(self) -> dict[str, Array]:
        """All arguments in order."""
        return {name: getattr(self, name) for name in ("t", "q", "v", "u", "w", "p")}


@dataclass(frozen=True, eq=False, kw_only=True)
class ModelSensor(Value):
    """Base of the sensors of an :func:`.estimator`: output, noise, bias, rate and delay.

    Parameters
    ----------
    name : unique among the sensors of an estimator; None: that of the kind.
    noise : standard deviation of a sample, one number or one per entry, in the unit of the output.
    bias : standard deviation of the constant error at the start; walk : intensity of its random walk, per square root of a second. A sensor with
        either has a bias that is estimated.
    period : s between readings; None: one in every step of the estimator. delay : age of a reading on arrival, s.
    gate : probability with which a consistent reading is accepted (chi-square test of the innovation); None: all readings are accepted.

    Examples
    --------
    >>> GyroSensor("hull", noise=0.01, bias=0.05).size
    3
    """

    name: str | None = None
    noise: Any = 0.01
    bias: Any = 0.0
    walk: Any = 0.0
    period: float | None = None
    delay: float = 0.0
    gate: float | None = None

    kind = "sensor"
    size = 3
    """Entries of an error of the output."""
    units = ("",)
    """Unit of the entries; the last one is repeated."""

    def __post_init__(self) -> None:
        for name in ("noise", "bias", "walk"):
            value = np.asarray(getattr(self, name), dtype=float)
            if value.shape not in ((), (self.size,)) or not np.all(np.isfinite(value) & (value >= 0)):
                several = f" or {self.size} numbers" if self.size > 1 else ""
                raise ControlError(
                    f"{name} of {self.label!r} must be a number{several}, not negative, got {getattr(self, name)}."
                )
        if not np.all(np.asarray(self.noise) > 0):
            raise ControlError(f"noise of {self.label!r} must be positive: a filter cannot use a perfect reading.")
        if not (np.isfinite(self.delay) and self.delay >= 0) or (self.period is not None and not self.period > 0):
            raise ControlError(
                f"period and delay of {self.label!r} must be positive and not negative, got {self.period}, {self.delay}."
            )
        if self.gate is not None and not 0 < self.gate < 1:
            raise ControlError(f"gate of {self.label!r} must be a probability between 0 and 1, got {self.gate}.")
        if self.has_bias and self.reading_size != self.size:
            raise ControlError(f"{self.label!r} has outputs on a manifold, for which no bias can be estimated.")

    @property
    def label(self) -> str:
        """The name, or that of the kind."""
        return self.kind if self.name is None else self.name

    @property
    def reading_size(self) -> int:
        """Numbers of a reading; more than ``size`` where the output is a rotation matrix."""
        return self.size

    @property
    def has_bias(self) -> bool:
        """Whether a bias is estimated."""
        return bool(np.any(self.bias) or np.any(self.walk))

    def deviations(self, what: Literal["noise", "bias", "walk"]) -> np.ndarray:
        """Standard deviations (size,)."""
        return np.broadcast_to(np.asarray(getattr(self, what), dtype=float), (self.size,))

    def check(self, model: Model) -> None:
        """Raise an error unless the model has the frames and coordinates of the sensor."""

    def ideal(self, at: Instant) -> Array:
        """The output (reading_size,) without errors."""
        raise NotImplementedError

    def traced(self, model: Model) -> Traced:
        """The output as function of t, q, v, u, w and p."""
        at = Instant(model)
        return trace_of(f"sensor {self.label}", at.symbols(), {"y": self.ideal(at)})

    # --- the manifold of the output ---------------------------------------------------------------------------------------------

    def moved(self, y: Array, e: Array) -> Array:
        """The reading with the error e (size,)."""
        return y + e

    def residual(self, reading: Array, y: Array) -> Array:
        """The error e (size,) with ``moved(y, e) = reading``."""
        return reading - y

    def lift(self, y: Array) -> Array:
        """The matrix (size, reading_size) that takes changes of a reading to errors."""
        return np.eye(self.size)


def _check_frame(model: Model, frame: str) -> None:
    frames = model.description.graph.frames
    if frame not in frames:
        raise unknown_name("frame", frame, frames)


@dataclass(frozen=True, eq=False)
class _OfFrame(ModelSensor):
    """A sensor on a frame, at a point given in its axes."""

    frame: str
    at: Any = field(default=(0.0, 0.0, 0.0), kw_only=True)

    def check(self, model: Model) -> None:
        _check_frame(model, self.frame)

    def _pose(self, at: Instant) -> tuple[Array, Array]:
        """Place (3,) and rotation (3, 3) of the sensor."""
        G = at.pose(self.frame)
        return se3.transform(G, np.asarray(self.at, dtype=float)) if np.any(self.at) else se3.position(G), se3.rotation(
            G
        )

    def _velocity(self, at: Instant) -> tuple[Array, Array]:
        """Velocity (3,) of the point in axes of the frame, and angular velocity (3,)."""
        xi = at.twist(self.frame)
        v, omega = part(xi, 0, 3), part(xi, 3, 6)
        return (v + np.cross(omega, np.asarray(self.at, dtype=float)) if np.any(self.at) else v), omega


@dataclass(frozen=True, eq=False)
class GyroSensor(_OfFrame):
    """Angular velocity (3,) of a frame in its axes, rad/s.

    >>> GyroSensor("hull", noise=0.01).label
    'gyro'
    """

    kind, units = "gyro", ("rad/s",)

    def ideal(self, at: Instant) -> Array:
        return self._velocity(at)[1]


@dataclass(frozen=True, eq=False)
class AccelerometerSensor(_OfFrame):
    """Specific force (3,) at a point of a frame, in its axes: acceleration minus gravity, m/s^2.

    >>> AccelerometerSensor("hull", noise=0.1, at=(0.0, 0.0, 0.02)).units
    ('m/s^2',)
    """

    kind, units = "accelerometer", ("m/s^2",)

    def ideal(self, at: Instant) -> Array:
        v, omega = self._velocity(at)
        rate = at.twist_rate(self.frame)
        place = np.asarray(self.at, dtype=float)
        a = part(rate, 0, 3) + (np.cross(part(rate, 3, 6), place) if np.any(place) else 0.0)
        gravity = at_defaults(at.model.description.gravity, at.model.description.parameters)
        return a + np.cross(omega, v) - np.matvec(transpose(self._pose(at)[1]), gravity)


@dataclass(frozen=True, eq=False)
class PositionSensor(_OfFrame):
    """Position (3,) of a point of a frame in the world, m.

    >>> PositionSensor("hull", noise=0.5, period=0.2).period
    0.2
    """

    kind, units = "position", ("m",)

    def ideal(self, at: Instant) -> Array:
        return self._pose(at)[0]


@dataclass(frozen=True, eq=False)
class VelocitySensor(_OfFrame):
    """Velocity (3,) of a point of a frame in axes of the world, as of GPS, m/s; ``body=True``: in axes of the frame, as of optical flow.

    >>> VelocitySensor("hull", noise=0.1).body
    False
    """

    body: bool = field(default=False, kw_only=True)
    kind, units = "velocity", ("m/s",)

    def ideal(self, at: Instant) -> Array:
        v, _ = self._velocity(at)
        return v if self.body else np.matvec(self._pose(at)[1], v)


@dataclass(frozen=True, eq=False)
class HeightSensor(_OfFrame):
    """Height (1,) of a point of a frame along a direction of the world, as of a barometer, m.

    >>> HeightSensor("hull", noise=0.2, bias=1.0).size
    1
    """

    up: Any = field(default=(0.0, 0.0, 1.0), kw_only=True)
    kind, units, size = "height", ("m",), 1

    def ideal(self, at: Instant) -> Array:
        return np.reshape(np.vecdot(np.asarray(self.up, dtype=float), self._pose(at)[0]), (1,))


@dataclass(frozen=True, eq=False)
class DirectionSensor(_OfFrame):
    """A known direction of the world (3,) in axes of a frame: magnetometer, sun sensor, horizon.

    >>> DirectionSensor("hull", noise=0.02, of=(0.4, 0.0, -0.9)).label
    'direction'
    """

    of: Any = field(default=(1.0, 0.0, 0.0), kw_only=True)
    kind, units = "direction", ("1",)

    def ideal(self, at: Instant) -> Array:
        return np.matvec(transpose(self._pose(at)[1]), np.asarray(self.of, dtype=float))


@dataclass(frozen=True, eq=False)
class DistanceSensor(_OfFrame):
    """Distance (1,) of a point of a frame from a point of another frame, m: beacons, ultra-wideband.

    >>> DistanceSensor("hull", noise=0.1, to=(2.0, 0.0, 1.0)).size
    1
    """

    to: Any = field(default=(0.0, 0.0, 0.0), kw_only=True)
    other: str = field(default=WORLD, kw_only=True)
    kind, units, size = "distance", ("m",), 1

    def check(self, model: Model) -> None:
        super().check(model)
        _check_frame(model, self.other)

    def ideal(self, at: Instant) -> Array:
        to = np.asarray(self.to, dtype=float)
        place = to if self.other == WORLD else se3.transform(at.pose(self.other), to)
        away = self._pose(at)[0] - place
        return np.reshape(np.sqrt(np.vecdot(away, away)), (1,))


@dataclass(frozen=True, eq=False)
class AttitudeSensor(_OfFrame):
    """Rotation matrix of a frame, column by column (9,); its noise is a rotation vector (3,) in axes of the frame, rad.

    >>> AttitudeSensor("hull", noise=0.01).reading_size
    9
    """

    kind, units = "attitude", ("rad",)

    @property
    def reading_size(self) -> int:
        return 9

    def ideal(self, at: Instant) -> Array:
        return flatten_columns(self._pose(at)[1])

    def moved(self, y: Array, e: Array) -> Array:
        return flatten_columns(unflatten_columns(y, 3) @ so3.exp(e))

    def residual(self, reading: Array, y: Array) -> Array:
        return so3.log(transpose(unflatten_columns(y, 3)) @ unflatten_columns(reading, 3))

    def lift(self, y: Array) -> Array:
        from heavytop.coordinates import Rotation

        return Rotation().left_inverse(y)


@dataclass(frozen=True, eq=False)
class PoseSensor(_OfFrame):
    """Position and rotation matrix of a frame (12,), such as from motion capture; noise (6,): position in world axes, then attitude.

    >>> PoseSensor("hull", noise=(0.002,) * 3 + (0.004,) * 3, period=0.01, delay=0.02).size
    6
    """

    kind, units, size = "pose", ("m", "m", "m", "rad"), 6

    @property
    def reading_size(self) -> int:
        return 12

    def ideal(self, at: Instant) -> Array:
        r, R = self._pose(at)
        return concatenate(r, flatten_columns(R))

    def moved(self, y: Array, e: Array) -> Array:
        turned = unflatten_columns(part(y, 3, 12), 3) @ so3.exp(part(e, 3, 6))
        return concatenate(part(y, 0, 3) + part(e, 0, 3), flatten_columns(turned))

    def residual(self, reading: Array, y: Array) -> Array:
        away = transpose(unflatten_columns(part(y, 3, 12), 3)) @ unflatten_columns(part(reading, 3, 12), 3)
        return concatenate(part(reading, 0, 3) - part(y, 0, 3), so3.log(away))

    def lift(self, y: Array) -> Array:
        from heavytop._arrays import block
        from heavytop.coordinates import Rotation

        turned = Rotation().left_inverse(part(y, 3, 12))
        return block([[np.eye(3), np.zeros((3, 9))], [np.zeros((3, 3)), turned]])


@dataclass(frozen=True, eq=False)
class EncoderSensor(ModelSensor):
    """Coordinates of joints (n,), rad or m; ``rates=True``: their velocities.

    Parameters
    ----------
    coordinates : names of configuration coordinates (``model.q_names``), or with ``rates`` of velocities (``model.v_names``); or one name.

    Examples
    --------
    >>> EncoderSensor(("arm.angle", "pendulum.angle"), noise=1e-3).size
    2
    """

    coordinates: tuple[str, ...] | str
    rates: bool = field(default=False, kw_only=True)
    kind = "encoder"

    def __post_init__(self) -> None:
        names = (self.coordinates,) if isinstance(self.coordinates, str) else tuple(self.coordinates)
        object.__setattr__(self, "coordinates", names)
        super().__post_init__()

    @property
    def size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return len(self.coordinates)

    def ideal(self, at: Instant) -> Array:
        names, x = (at.model.v_names, at.v) if self.rates else (at.model.q_names, at.q)
        return concatenate(*(part(x, k, k + 1) for k in map(tuple(names).index, self.coordinates)))

    def check(self, model: Model) -> None:
        names = model.v_names if self.rates else model.q_names
        for name in self.coordinates:
            if name not in names:
                raise unknown_name("velocity" if self.rates else "coordinate", name, names)


@dataclass(frozen=True, eq=False)
class FunctionSensor(ModelSensor):
    """Any function of the state, in NumPy notation.

    Parameters
    ----------
    function : function of (t, q, v, u), returns (count,). count : its number of entries.

    Examples
    --------
    >>> FunctionSensor(lambda t, q, v, u: q[:1] ** 2, 1, noise=0.1).size
    1
    """

    function: Callable[..., Array]
    count: int
    kind = "function"

    @property
    def size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.count

    def ideal(self, at: Instant) -> Array:
        return on_symbols(self.function, f"sensor {self.label}", ControlError)(at.t, at.q, at.v, at.u)
