"""Sensors of a vehicle with noise, biases and delays: their description, and the wrapper that simulates them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate, flatten_columns, part, split, transpose, unflatten_columns
from heavytop.control.laws.wrapper import PartialPlant, Seen, Wrapper
from heavytop.control.observers.hull import Hull, HullMotion
from heavytop.control.observers.measurements import Stream, as_members, check_part
from heavytop.errors import ControlError
from heavytop.geometry import so3
from heavytop.system import Model


@dataclass(frozen=True, eq=False)
class Sensor:
    """One sensor.

    Parameters
    ----------
    noise : standard deviation of each sample. bias : standard deviation of the constant error of a flight. In the unit of the measurement.
    delay : age of the measurements, s; one number, or one per member of a batch. Rounded to whole samples.

    Examples
    --------
    >>> Sensor(noise=0.005, delay=0.01).delay
    0.01
    """

    noise: float = 0.0
    bias: float = 0.0
    delay: Any = 0.0

    def __post_init__(self) -> None:
        for name in ("noise", "bias", "delay"):
            value = np.asarray(getattr(self, name), dtype=float)
            if not np.all(np.isfinite(value) & (value >= 0)):
                raise ControlError(f"the {name} of a sensor must not be negative, got {getattr(self, name)}.")


@dataclass(frozen=True, eq=False)
class Sensors:
    """The sensors of a vehicle. Accelerometer and rotor speeds may be None: not measured.

    Parameters
    ----------
    position : m. attitude : rad. velocity : m/s, world axes. gyro : rad/s.
    accelerometer : specific force in body axes, mean over a sample, m/s^2. rotor_speeds : rad/s.
    seed : seed of noise and biases.

    Examples
    --------
    >>> Sensors(accelerometer=None).names
    ('position', 'attitude', 'velocity', 'gyro', 'rotor_speeds')
    >>> Sensors().late(0.02).gyro.delay
    0.02
    """

    position: Sensor = Sensor()
    attitude: Sensor = Sensor()
    velocity: Sensor = Sensor()
    gyro: Sensor = Sensor()
    accelerometer: Sensor | None = Sensor()
    rotor_speeds: Sensor | None = Sensor()
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("position", "attitude", "velocity", "gyro"):
            if not isinstance(getattr(self, name), Sensor):
                raise ControlError(
                    f"every vehicle measures its {name}: give {name}=Sensor(...), or omit it for a perfect sensor; got "
                    f"{getattr(self, name)!r}."
                )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the sensors."""
        return tuple(f.name for f in fields(self) if isinstance(getattr(self, f.name), Sensor))

    def late(self, delay: Any) -> Sensors:
        """The same sensors, all with the delay ``delay`` s."""
        return replace(self, **{name: replace(getattr(self, name), delay=delay) for name in self.names})

    def scaled(self, factor: float) -> Sensors:
        """The same sensors with noise and biases times a factor."""
        sensors = {name: getattr(self, name) for name in self.names}
        return replace(
            self, **{n: replace(s, noise=factor * s.noise, bias=factor * s.bias) for n, s in sensors.items()}
        )


SIZES = {"position": 3, "attitude": 3, "velocity": 3, "gyro": 3, "accelerometer": 3}
"""Entries of the noise; that of an attitude is a rotation vector."""


class Sensed(Wrapper):
    """A controller that receives late, noisy and biased sensor measurements instead of the state.

    Reports the signals ``accelerometer`` and ``rotor_speeds`` besides the measured state. For sampled control.

    Parameters
    ----------
    controller : gets the measurements. model : model of the vehicle, one free body; the plant may have more coordinates after it, then the speeds
        of the rotors are the next velocities.
    sensors : their description. members : batch axes whose members have different noise.
    rotors : number of rotors with a measured speed; None: one per input.

    Examples
    --------
    >>> import heavytop as ht
    >>> from heavytop.copters import quadcopter
    >>> model = quadcopter().model
    >>> watch = ht.Feedback(lambda v, accelerometer: {"u": 0 * v[:4], "felt": accelerometer}, ("v", "accelerometer"))
    >>> sensed = Sensed(watch, model, Sensors(rotor_speeds=None))
    >>> run = ht.simulate(model, (model.neutral(), np.zeros(6)), 0.1, 0.01, control=sensed)
    >>> float(np.abs(run.channels["felt"][-1]).max().round(9))  # free fall
    0.0
    """

    def __init__(
        self,
        controller: Any,
        model: Model,
        sensors: Sensors | None = None,
        members: int | tuple[int, ...] = (),
        rotors: int | None = None,
    ) -> None:
        super().__init__(controller)
        self.model, self.sensors = model, sensors or Sensors()
        self.rotors = model.nu if rotors is None else rotors
        self.hull, self.members = Hull.of(model), as_members(members)

    def margins(self, *given: Any, **named: Any) -> Any:
        """Those of the controller inside: sensors do not change them."""
        return self.controller.margins(*given, **named)

    # --- sizes ---------------------------------------------------------------------------------------------------------------

    @property
    def names(self) -> tuple[str, ...]:
        return self.sensors.names

    @property
    def provides(self) -> Mapping[str, int]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return {name: self._noise_size(name) for name in self.names if name in ("accelerometer", "rotor_speeds")}

    def _noise_size(self, name: str) -> int:
        return SIZES.get(name, self.rotors)

    def _value_size(self, name: str) -> int:
        return 9 if name == "attitude" else self._noise_size(name)

    @property
    def own_signal_size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Noise of all sensors, biases included; nothing if they are perfect."""
        perfect = all(self._sensor(n).noise == 0 and self._sensor(n).bias == 0 for n in self.names)
        return 0 if perfect else sum(self._noise_size(n) for n in self.names)

    def _sensor(self, name: str) -> Sensor:
        return getattr(self.sensors, name)

    def _samples(self, name: str) -> np.ndarray:
        """Delay of a sensor in samples, () or one per member."""
        if self.sample_time is None:
            return np.asarray(0)
        return np.rint(np.asarray(self._sensor(name).delay, dtype=float) / self.sample_time).astype(int)

    @property
    def _rings(self) -> list[tuple[list[str], np.ndarray]]:
        """Sensors of equal delay, which share a ring buffer, with the delay in samples."""
        groups: dict[bytes, tuple[list[str], np.ndarray]] = {}
        for name in self.names:
            samples = self._samples(name)
            if np.max(samples) > 0:
                groups.setdefault(samples.tobytes(), ([], samples))[0].append(name)
        return list(groups.values())

    @property
    def own_state_size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """1 after the first sample, the velocity of the last sample, and the ring buffers of late measurements."""
        return 4 + sum(self._ring_size(names, samples) for names, samples in self._rings)

    def _ring_size(self, names: list[str], samples: np.ndarray) -> int:
        return int(np.max(samples)) * sum(self._value_size(n) for n in names) + (samples.ndim > 0)

    depends_on_period = True  # the accelerometer measures a mean over it  # pyright: ignore[reportAssignmentType]

    # --- the wrapper ---------------------------------------------------------------------------------------------------------

    def first(self) -> np.ndarray:
        """Empty buffers; delays of the members, if they differ."""
        parts = [np.zeros(4)]
        for names, samples in self._rings:
            count = self._ring_size(names, samples)
            if samples.ndim:
                lead = np.zeros((*samples.shape, count - 1))
                parts.append(np.concatenate([samples[..., None].astype(float), lead], axis=-1))
            else:
                parts.append(np.zeros(count))
        return concatenate(*parts)

    def plant(self, model: Any) -> PartialPlant:
        own = self.model
        check_part(own, model)
        if "rotor_speeds" in self.names and model.nv < own.nv + self.rotors:
            raise ControlError(
                f"{model.name!r} has no rotors with speeds to measure: fly a RotorPlant (copters.fly: rotors=True), or give "
                "Sensors(rotor_speeds=None)."
            )
        sizes = tuple(self.provides.items())
        return PartialPlant(model.name, own.nq, own.nv, tuple(model.u_names), tuple(model.parameter_names), sizes)

    def own_signal(self, times: np.ndarray) -> np.ndarray:
        """Noise and bias (n, *members, size) at the times."""
        if self.sample_time is None:
            raise ControlError("sensors need the sample period: simulate with hold='zero-order'.")
        noise, bias = self._streams
        return noise.at(times, self.sample_time) * self._deviation("noise") + bias

    @cached_property
    def _streams(self) -> tuple[Stream, np.ndarray]:
        shape = (*self.members, self.own_signal_size)
        constant = np.random.default_rng((self.sensors.seed, 1)).standard_normal(shape)
        return Stream(self.sensors.seed, shape), constant * self._deviation("bias")

    def _deviation(self, what: str) -> np.ndarray:
        return np.concatenate([np.full(self._noise_size(n), getattr(self._sensor(n), what)) for n in self.names])

    def _now(self, at: Seen) -> dict[str, Array]:
        """The present readings."""
        if "now" in at.shared:
            return at.shared["now"]
        hull, own = self.hull, self.model
        m = hull.motion(part(at.q, 0, own.nq), part(at.v, 0, own.nv))
        values = {"position": m.r, "attitude": m.R, "velocity": m.velocity, "gyro": m.omega}
        started = at.z[0]
        if "accelerometer" in self.names:
            # mean of the specific force over the last sample, in the axes of its middle; zero before the first
            middle = m.R @ so3.cayley(-0.5 * at.period * m.omega)
            force = (m.velocity - part(at.z, 1, 4)) / at.period - hull.gravity
            values["accelerometer"] = started * np.matvec(transpose(middle), force)
        if "rotor_speeds" in self.names:
            values["rotor_speeds"] = part(at.v, own.nv, own.nv + self.rotors)
        if self.own_signal_size:
            sizes = [self._noise_size(n) for n in self.names]
            for name, off in zip(self.names, split(at.signal, sizes), strict=True):
                if name == "attitude":
                    values[name] = values[name] @ so3.cayley(off)
                else:
                    values[name] = values[name] + (started * off if name == "accelerometer" else off)
        values["attitude"] = flatten_columns(values["attitude"])
        at.shared["now"] = values
        return values

    def _arrived(self, at: Seen) -> dict[str, Array]:
        """The readings that have arrived."""
        values, place = dict(self._now(at)), 4
        for names, samples in self._rings:
            deepest, varies = int(np.max(samples)), samples.ndim > 0
            sizes = [self._value_size(n) for n in names]
            now = concatenate(*(values[n] for n in names))
            slots = [
                part(at.z, place + varies + k * sum(sizes), place + varies + (k + 1) * sum(sizes))
                for k in range(deepest)
            ]
            late = slots[-1]
            if varies:  # the first slot is one sample old
                number, late = at.z[place], now
                for k, slot in enumerate(slots):
                    late = np.where(number == k + 1, slot, late)
            late = np.where(at.z[0] > 0.5, late, now)
            values.update(zip(names, split(late, sizes), strict=True))
            place += self._ring_size(names, samples)
        return values

    def seen(self, at: Seen) -> dict[str, Array]:
        """The measured state, accelerometer and rotor speeds."""
        got = self._arrived(at)
        R = unflatten_columns(got["attitude"], 3)
        q, v, _ = self.hull.coordinates(HullMotion(got["position"], R, got["velocity"], got["gyro"]))
        return {"q": q, "v": v} | {name: got[name] for name in self.provides}

    def following(self, at: Seen, u: Array) -> Array:
        """The present velocity, and the ring buffers one sample later."""
        values, place = self._now(at), 4
        m = self.hull.motion(part(at.q, 0, self.model.nq), part(at.v, 0, self.model.nv))
        parts: list[Array] = [np.ones(1), m.velocity]
        for names, samples in self._rings:
            deepest, varies = int(np.max(samples)), samples.ndim > 0
            width = sum(self._value_size(n) for n in names)
            now = concatenate(*(values[n] for n in names))
            if varies:
                parts.append(part(at.z, place, place + 1))
            place += varies
            kept = part(at.z, place, place + (deepest - 1) * width)
            # before the first sample all readings were the present ones
            later = [np.where(at.z[0] > 0.5, part(kept, k * width, (k + 1) * width), now) for k in range(deepest - 1)]
            parts += [now, *later]
            place += deepest * width
        return concatenate(*parts)
