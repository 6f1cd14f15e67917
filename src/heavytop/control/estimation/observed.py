"""The estimator in a control loop: simulated sensors of any model, and a controller that is given estimates."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate, part, split
from heavytop.control.estimation.estimator import Estimator
from heavytop.control.estimation.model_sensors import ModelSensor
from heavytop.control.laws.wrapper import PartialPlant, Seen, Wrapper
from heavytop.control.observers.measurements import Stream, as_members, check_part
from heavytop.errors import ControlError
from heavytop.system import Model


class Instrumented(Wrapper):
    """A controller with simulated readings of the sensors of any model as signals: noisy, biased and late.

    The signals have the names of the sensors. Every sample has a new reading; an estimator uses those that its sensors take. Readings of inputs and
    accelerations are those of the inputs held over the last sample. For sampled control.

    Parameters
    ----------
    controller : gets the readings, for example an :class:`.Estimated` one. model : model of the sensors, the first coordinates of the plant.
    sensors : sensors of the model. seed : seed of noise and biases. members : batch axes whose members have different noise.

    Examples
    --------
    >>> import heavytop as ht
    >>> from heavytop.control import EncoderSensor
    >>> model = ht.library.load("furuta").derive()
    >>> probe = ht.Feedback(lambda encoder: {"u": 0 * encoder[:1], "read": encoder}, ("encoder",))
    >>> measured = Instrumented(probe, model, [EncoderSensor(model.q_names, noise=1e-3)])
    >>> run = ht.simulate(model, (np.array([0.1, 0.2]), np.zeros(2)), 0.1, 0.01, control=measured)
    >>> float(abs(run.channels["read"] - run.q).max()) < 5e-3
    True
    """

    def __init__(
        self, controller: Any, model: Model, sensors: Any, seed: int = 0, members: int | tuple[int, ...] = ()
    ) -> None:
        super().__init__(controller)
        self.model, self.sensors, self.seed, self.members = model, tuple(sensors), seed, as_members(members)

    depends_on_period = True  # pyright: ignore[reportAssignmentType]

    @property
    def provides(self) -> Mapping[str, int]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return {s.label: s.reading_size for s in self.sensors}

    @property
    def own_signal_size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        return sum(s.size for s in self.sensors)

    def _late(self, sensor: ModelSensor) -> int:
        return 0 if self.sample_time is None else round(sensor.delay / self.sample_time)

    @property
    def own_state_size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """1 after the first sample, the last inputs, and the readings that have not arrived yet."""
        return 1 + self.model.nu + sum(self._late(s) * s.reading_size for s in self.sensors)

    def plant(self, model: Any) -> PartialPlant:
        check_part(self.model, model)
        known = dict(getattr(model, "signals", ())) | dict(self.provides)
        return PartialPlant(
            model.name, model.nq, model.nv, tuple(model.u_names), tuple(model.parameter_names), tuple(known.items())
        )

    def own_signal(self, times: np.ndarray) -> np.ndarray:
        """Noise and biases (n, *members, sizes)."""
        if self.sample_time is None:
            raise ControlError("simulated sensors need the sample period: simulate with hold='zero-order'.")
        noise, walk, first = self._streams
        number = np.floor(times / self.sample_time + 1e-3).astype(int)
        count = int(np.max(number, initial=-1)) + 1
        wander = np.cumsum(walk.first(count), axis=0)[number] * self._deviations("walk") * np.sqrt(self.sample_time)
        return noise.at(times, self.sample_time) * self._deviations("noise") + wander + first

    @cached_property
    def _streams(self) -> tuple[Stream, Stream, np.ndarray]:
        shape = (*self.members, self.own_signal_size)
        first = np.random.default_rng((self.seed, 1)).standard_normal(shape) * self._deviations("bias")
        return Stream(self.seed, shape), Stream(self.seed + 2**31, shape), first

    def _deviations(self, what: Any) -> np.ndarray:
        return np.concatenate([s.deviations(what) for s in self.sensors])

    def _now(self, at: Seen) -> list[Array]:
        if "readings" in at.shared:
            return at.shared["readings"]
        m = self.model
        q, v, u = part(at.q, 0, m.nq), part(at.v, 0, m.nv), part(at.z, 1, 1 + m.nu)
        p = part(at.p, 0, len(m.parameter_names)) if m.parameter_names else np.zeros(0)
        errors = split(at.signal, [s.size for s in self.sensors])
        found = [
            s.moved(s.traced(m).expressions(at.t, q, v, u, np.zeros(m.nv), p)[0], e)
            for s, e in zip(self.sensors, errors, strict=True)
        ]
        at.shared["readings"] = found
        return found

    def seen(self, at: Seen) -> dict[str, Array]:
        """The readings that arrive."""
        found, place = {}, 1 + self.model.nu
        for s, now in zip(self.sensors, self._now(at), strict=True):
            late = self._late(s)
            width = late * s.reading_size
            old = part(at.z, place + width - s.reading_size, place + width) if late else now
            found[s.label] = np.where(at.z[0] > 0.5, old, now) if late else now
            place += width
        return found

    def following(self, at: Seen, u: Array) -> Array:
        parts, place = [np.ones(1), part(u, 0, self.model.nu)], 1 + self.model.nu
        for s, now in zip(self.sensors, self._now(at), strict=True):
            late, size = self._late(s), s.reading_size
            if late:
                # before the first sample all readings were the present ones
                older = [part(at.z, place + k * size, place + (k + 1) * size) for k in range(late - 1)]
                parts += [now, *(np.where(at.z[0] > 0.5, slot, now) for slot in older)]
            place += late * size
        return concatenate(*parts)


class Estimated(Wrapper):
    """A controller that receives the estimates of a filter instead of the state. For sampled control at the period of the estimator.

    The readings are signals with the names of the sensors, from :class:`.Instrumented`; a sensor without a signal reads its output from the measured
    state further out, such as that of :class:`.Sensed`. Reports ``nis``, the normalised squared residual of each sensor.

    Parameters
    ----------
    controller : the wrapped controller. estimator : its model is that of the controller. start : first memory (*batch, memory_size), see
        :meth:`.Estimator.begin`.

    Examples
    --------
    >>> import heavytop as ht
    >>> from heavytop.control import EncoderSensor, Instrumented
    >>> model = ht.library.cart_pole().derive()
    >>> encoders = [EncoderSensor(model.q_names, noise=1e-3)]
    >>> filter_ = ht.estimator(model, encoders, 0.01, disturbance=0.1)
    >>> law = ht.control.lqr(model, model.neutral())
    >>> loop = Instrumented(filter_.observer(law, filter_.begin([0.0, 0.05], [0.0, 0.0])), model, encoders)
    >>> run = ht.simulate(model, ([0.0, 0.05], [0.0, 0.0]), 5.0, 0.01, control=loop)
    >>> bool(abs(run.q[-1]).max() < 0.02)
    True
    """

    def __init__(self, controller: Any, estimator: Estimator, start: Any) -> None:
        super().__init__(controller)
        self.estimator, self.start = estimator, np.asarray(start, dtype=float)
        if self.start.shape[-1:] != (estimator.memory_size,):
            raise ControlError(
                f"start must be a memory of {estimator.memory_size} numbers from estimator.begin(...), got shape {self.start.shape}."
            )

    @property
    def own_state_size(self) -> int:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Memory of the filter, number of samples, and the last inputs or angular velocity."""
        return self.estimator.memory_size + 1 + self._kept

    @property
    def _kept(self) -> int:
        return 3 if self.estimator.inputs == "imu" else self.estimator.model.nu

    def first(self) -> np.ndarray:
        return concatenate(self.start, np.zeros(1 + self._kept))

    def plant(self, model: Any) -> Any:
        own = self.estimator.model
        check_part(own, model)
        signals = tuple(dict(getattr(model, "signals", ())).items())
        return PartialPlant(model.name, own.nq, own.nv, tuple(model.u_names), tuple(model.parameter_names), signals)

    def _reading(self, at: Seen, sensor: ModelSensor) -> Array:
        if sensor.label in at.signals:
            return at.signals[sensor.label]
        m = self.estimator.model
        q, v = part(at.q, 0, m.nq), part(at.v, 0, m.nv)
        p = np.asarray(self.estimator.parameters)
        return sensor.traced(m).expressions(at.t, q, v, np.zeros(m.nu), np.zeros(m.nv), p)[0]

    def _filtered(self, at: Seen) -> tuple[Array, Array, dict[str, Array]]:
        """The memory after this sample, the values to keep, the normalised squared residuals."""
        if "filtered" in at.shared:
            return at.shared["filtered"]
        own, f = self.estimator, self.estimator.functions
        if abs(at.period / own.period - 1) > 0.01:
            raise ControlError(
                f"the estimator has the period {own.period:g} s, the controller is sampled every {at.period:g} s."
            )
        size = own.memory_size
        z, count, kept = part(at.z, 0, size), at.z[size], part(at.z, size + 1, self.own_state_size)
        started = count > 0.5
        if own.inputs == "imu":
            gyro, accelerometer = (self._reading(at, s) for s in own._units)
            i = concatenate(0.5 * (np.where(started, kept, gyro) + gyro), accelerometer)
            kept = gyro
        else:
            i = kept
        z = np.where(started, f.predict.expressions(z, i)[0], z)
        nis = {}
        for s in own.measured:
            every, late = f.steps_of(s)
            since = count - late
            use = np.where((since > -0.5) * (np.fmod(since + 0.5, every) < 1.0) > 0, 1.0, 0.0)
            z, _, length, _ = f.updates[s.label].expressions(z, self._reading(at, s), use)
            nis[s.label] = use * length
        for s, _ in f.copy_slots:
            z = f.copies[s.label].expressions(z, np.where(np.fmod(count + 0.5, f.steps_of(s)[0]) < 1.0, 1.0, 0.0))[0]
        at.shared["filtered"] = z, kept, nis
        return z, kept, nis

    def seen(self, at: Seen) -> Mapping[str, Array]:
        """The estimated state; without the bias also the accelerometer."""
        own, f = self.estimator, self.estimator.functions
        z, kept, _ = self._filtered(at)
        m = f.parts(z)
        b = f.input_bias(m.b)
        if own.inputs != "imu":
            return dict(zip(("q", "v"), own.process.state(m.x, b, m.i), strict=True))
        q, v = own.process.state(m.x, b, concatenate(kept, np.zeros(3)))
        unit = own._units[1].label
        corrected = {unit: at.signals[unit] - part(b, 3, 6)} if unit in at.signals else {}
        return {"q": q, "v": v} | corrected

    def channels(self, at: Seen, u: Array) -> Mapping[str, Array]:
        """Estimates and residuals."""
        _, _, nis = self._filtered(at)
        seen = self.seen(at)
        return {"q_estimated": seen["q"], "v_estimated": seen["v"], "nis": np.stack(list(nis.values()), axis=-1)}

    def following(self, at: Seen, u: Array) -> Array:
        z, kept, _ = self._filtered(at)
        count = np.reshape(at.z[self.estimator.memory_size] + 1.0, (1,))
        last = kept if self.estimator.inputs == "imu" else part(u, 0, self.estimator.model.nu)
        return concatenate(z, count, last)
