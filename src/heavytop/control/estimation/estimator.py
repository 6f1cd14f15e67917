"""The estimator of a model: an error-state Kalman filter on the manifold, over arrays and batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from heavytop._arrays import Seed, numbers, symbol
from heavytop.compile import Kernel, Precision, Traced, trace_of
from heavytop.control.estimation.filter_functions import FilterFunctions, packed, unpacked
from heavytop.control.estimation.model_sensors import (
    AccelerometerSensor,
    AttitudeSensor,
    GyroSensor,
    ModelSensor,
    PositionSensor,
    VelocitySensor,
)
from heavytop.control.estimation.process import ModelProcess, Process, Strapdown
from heavytop.control.observers.hull import Hull
from heavytop.control.observers.sensors import Sensors
from heavytop.errors import ControlError, unknown_name, wrong_shape
from heavytop.functions import Value
from heavytop.system import Model

if TYPE_CHECKING:
    from heavytop.control.estimation.observability import Observability
    from heavytop.control.estimation.observed import Estimated
    from heavytop.control.estimation.smoother import Smoothed

Inputs = Literal["model", "imu"]
INPUTS = ("model", "imu")
PERFECT = 1e-6
"""Noise that a filter assumes of a perfect sensor of a vehicle."""


EQUAL = 1e-12
"""Tolerance of the test of exported filters in double precision."""
ROUNDED = 1e-9
"""Asymmetry and negative eigenvalues of a covariance, relative to its largest entry, that are rounding."""


class Drawn(NamedTuple):
    """A random motion with its readings: states (n, *batch, ...), biases and readings by sensor, inputs as they were measured.

    Examples
    --------
    >>> import heavytop as ht
    >>> model = ht.library.pendulum().derive()
    >>> own = ht.estimator(model, [ht.control.EncoderSensor(model.q_names, period=0.02)], 0.01, disturbance=0.1)
    >>> drawn = own.draw(own.begin([0.5], [0.0]), np.zeros((3, 1)), seed=0)
    >>> np.isfinite(drawn.readings["encoder"][:, 0])
    array([ True, False,  True])
    """

    q: np.ndarray
    v: np.ndarray
    biases: dict[str, np.ndarray]
    readings: dict[str, np.ndarray]
    inputs: np.ndarray


@dataclass(frozen=True, eq=False)
class Estimates:
    """Estimated states at recorded samples. Made by :meth:`Estimator.filter`.

    Attributes
    ----------
    t : (n,) s. q, v : (n, *batch, nq), (n, *batch, nv). covariance : (n, *batch, ne, ne) of the error, see :attr:`Estimator.error_names`.
    biases : sensor -> (n, *batch, size). nis : sensor -> (samples, *batch) squared normalised residuals, NaN without a reading.
    used : sensor -> (samples, *batch) whether a reading was used; the others were missing or rejected by the gate.
    last : memory (*batch, size) from which to continue.

    Examples
    --------
    >>> import heavytop as ht
    >>> model = ht.library.pendulum().derive()
    >>> own = ht.estimator(model, [ht.control.EncoderSensor(model.q_names, noise=0.01)], 0.01, disturbance=0.1)
    >>> found = own.filter(own.begin([0.5], [0.0]), np.zeros((3, 1)), {"encoder": np.full((3, 1), 0.5)})
    >>> found.q.shape, found.covariance.shape
    ((3, 1), (3, 2, 2))
    """

    estimator: Estimator = field(repr=False)
    t: np.ndarray
    x: np.ndarray = field(repr=False)
    b: np.ndarray = field(repr=False)
    q: np.ndarray
    v: np.ndarray
    covariance: np.ndarray
    nis: dict[str, np.ndarray]
    used: dict[str, np.ndarray]
    last: np.ndarray

    @property
    def biases(self) -> dict[str, np.ndarray]:
        return self.estimator.split_biases(self.b)

    def errors(self, q: Any, v: Any, biases: Mapping[str, Any] | None = None) -> np.ndarray:
        """Errors (n, *batch, ne) of the true states relative to the estimates; without true biases only those of the state."""
        own = self.estimator
        x = own.process.start(numbers(q, "q"), numbers(v, "v"))
        off = own.kernels["difference"](self.x, np.broadcast_to(x, self.x.shape))[0]
        if biases is None or not own.functions.nb:
            return off
        true = np.concatenate(
            [np.broadcast_to(biases[s.label], (*off.shape[:-1], s.size)) for s in own.functions.biased], -1
        )
        return np.concatenate([off, true - self.b], axis=-1)

    def nees(self, q: Any, v: Any, biases: Mapping[str, Any] | None = None) -> np.ndarray:
        """Squared errors (n, *batch) normalised by the covariance; of a consistent filter their mean is :meth:`expected_nees`.

        With loops and constraints the covariance has no full rank, and its pseudoinverse is taken.
        """
        e = self.errors(q, v, biases)
        P = self.covariance[..., : e.shape[-1], : e.shape[-1]]
        if self.estimator.is_constrained:
            return np.vecdot(e, np.matvec(np.linalg.pinv(P, rcond=1e-9, hermitian=True), e))
        return np.vecdot(e, np.linalg.solve(P, e[..., None])[..., 0])

    def expected_nees(self, with_biases: bool = False) -> int:
        """Degrees of freedom of the error."""
        own = self.estimator
        P = self.covariance[(-1, *(0,) * (self.covariance.ndim - 3))][: own.process.ne, : own.process.ne]
        rank = int(np.linalg.matrix_rank(P, rtol=1e-9, hermitian=True)) if own.is_constrained else own.process.ne
        return rank + (own.functions.nb if with_biases else 0)


@dataclass(frozen=True, eq=False)
class Estimator(Value):
    """An error-state Kalman filter on the manifold of a model. Made by :func:`estimator`.

    Attributes
    ----------
    model, sensors, period, inputs : as given to :func:`estimator`. disturbance : (nv,). parameters : (np,).

    Examples
    --------
    >>> import heavytop as ht
    >>> from heavytop.control import EncoderSensor
    >>> model = ht.library.pendulum().derive()
    >>> filter_ = ht.estimator(model, [EncoderSensor(model.q_names, noise=0.01)], 0.01, disturbance=0.1)
    >>> z = filter_.begin(model.neutral(), [0.0], configuration=0.1, velocity=0.5)
    >>> z = filter_.update(z, "encoder", [0.05])
    >>> filter_.state(z)[0].round(3)
    array([0.05])
    """

    model: Model
    sensors: tuple[ModelSensor, ...]
    period: float
    inputs: Inputs = "model"
    disturbance: Any = 0.0
    parameters: Any = ()

    # --- parts ----------------------------------------------------------------------------------------------------------------

    @cached_property
    def process(self) -> Process:
        """State, error and step."""
        if self.inputs == "model":
            return ModelProcess(self.model, self.period, self.disturbance, self.parameters)
        gyro, accelerometer = self._units
        return Strapdown(self.model, gyro, accelerometer, self.period)

    @cached_property
    def _units(self) -> tuple[GyroSensor, AccelerometerSensor]:
        gyro = [s for s in self.sensors if isinstance(s, GyroSensor)]
        accelerometer = [s for s in self.sensors if isinstance(s, AccelerometerSensor)]
        if len(gyro) != 1 or len(accelerometer) != 1:
            raise ControlError(
                f"inputs='imu' needs one GyroSensor and one AccelerometerSensor, got {len(gyro)} and {len(accelerometer)}."
            )
        for s in (*gyro, *accelerometer):
            if s.delay or (s.period is not None and abs(s.period - self.period) > 1e-9 * self.period):
                raise ControlError(
                    f"{s.label!r} drives the step: its period is that of the estimator, {self.period:g} s, without a delay."
                )
        return gyro[0], accelerometer[0]

    @cached_property
    def measured(self) -> tuple[ModelSensor, ...]:
        """Sensors that correct the state; those of the inputs are not among them."""
        return self.sensors if self.inputs == "model" else tuple(s for s in self.sensors if s not in self._units)

    @cached_property
    def functions(self) -> FilterFunctions:
        """The traced functions."""
        units = () if self.inputs == "model" else self._units
        return FilterFunctions(
            self.process, self.measured, units, self.period, tuple(np.asarray(self.parameters).tolist())
        )

    @property
    def is_constrained(self) -> bool:
        """Whether loops or constraints reduce the freedom of the error."""
        return self.inputs == "model" and self.model.is_constrained

    @property
    def memory_size(self) -> int:
        """Numbers of the memory of the filter."""
        return self.functions.size

    @property
    def error_names(self) -> tuple[str, ...]:
        """Name of each entry of the error."""
        axes = {3: "xyz"}
        biases = (
            f"bias {axes.get(s.size, range(s.size))[k]} of {s.label}"
            for s in self.functions.biased
            for k in range(s.size)
        )
        return (*self.process.names, *biases)

    @cached_property
    def kernels(self) -> dict[str, Kernel]:
        """Native functions of states: state (q, v) of (x, b, i), difference, retract, step with noise."""
        p, f = self.process, self.functions
        x, b, i = symbol("x", p.nx), symbol("b", f.nb), symbol("i", p.ni)
        x1, e, w, t = symbol("x1", p.nx), symbol("e", p.ne), symbol("w", p.nw), symbol("t")
        q, v = p.state(x, f.input_bias(b), i)
        made = (
            trace_of("state", {"x": x, "b": b, "i": i}, {"q": q, "v": v}),
            trace_of("difference", {"x": x, "x1": x1}, {"e": p.difference(x, x1)}),
            trace_of("retract", {"x": x, "e": e}, {"x1": p.retract(x, e)}),
            trace_of("step", {"x": x, "i": i, "w": w, "t": t}, {"x1": p.step(x, np.zeros(p.ni), i, w, t)}),
        )
        return {traced.name: Kernel(traced) for traced in made}

    def sensor(self, name: str) -> ModelSensor:
        """A sensor that corrects the state, by name."""
        for s in self.measured:
            if s.label == name:
                return s
        raise unknown_name("sensor", name, [s.label for s in self.measured])

    def split_biases(self, b: np.ndarray) -> dict[str, np.ndarray]:
        """Biases (..., nb) by sensor."""
        found, place = {}, 0
        for s in self.functions.biased:
            found[s.label] = b[..., place : place + s.size]
            place += s.size
        return found

    # --- one sample -----------------------------------------------------------------------------------------------------------

    def begin(
        self, q: Any, v: Any, configuration: Any = 0.01, velocity: Any = 0.01, covariance: Any = None, time: float = 0.0
    ) -> np.ndarray:
        """The first memory (*batch, memory_size).

        Parameters
        ----------
        q, v : (*batch, nq), (*batch, nv) expected state.
        configuration, velocity : standard deviations of the error, one number or one per entry of its part of :attr:`error_names`.
        covariance : (ne, ne) or (*batch, ne, ne) of the error instead, that of biases may be left out. time : s.
        """
        q = self.model.coordinates.check(q, f"q of {self.model.name!r}")
        v = numbers(v, "v")
        if v.shape[-1:] != (self.model.nv,):
            raise wrong_shape(f"v of {self.model.name!r}", ("...", self.model.nv), v.shape)
        if not np.isfinite(v).all():
            raise ControlError(
                f"v of {self.model.name!r} must be finite, got {v.tolist()}. Zeros with a large velocity= state that it is unknown."
            )
        x = self.process.start(q, v)
        f = self.functions
        P = self._first_covariance(configuration, velocity, covariance, x)
        biases = np.concatenate([s.deviations("bias") for s in f.biased] or [np.zeros(0)])
        batch = np.broadcast_shapes(x.shape[:-1], P.shape[:-2])
        if P.shape[-1] == self.process.ne and f.nb:
            whole = np.zeros((*P.shape[:-2], f.ne, f.ne))
            whole[..., : P.shape[-1], : P.shape[-1]] = P
            whole[..., P.shape[-1] :, P.shape[-1] :] = np.diag(biases**2)
            P = whole
        T = np.concatenate([np.eye(f.ne), *(np.eye(f.ne)[list(c)] for c in f.copied)])
        full = packed(T @ P @ T.T)
        own = np.concatenate([x, np.zeros((*x.shape[:-1], f.nb))], axis=-1)
        parts = [own] * (1 + len(f.copied)) + [full, np.zeros(self.process.ni), np.array([float(time)])]
        return np.concatenate([np.broadcast_to(p, (*batch, p.shape[-1])) for p in parts], axis=-1)

    def _first_covariance(self, configuration: Any, velocity: Any, covariance: Any, x: np.ndarray) -> np.ndarray:
        ne, n = self.process.ne, self.process.ne - (3 if self.inputs == "imu" else self.model.nv)
        if covariance is not None:
            P = numbers(covariance, "covariance")
            if P.shape[-2:] not in ((ne, ne), (self.functions.ne,) * 2):
                raise wrong_shape("covariance", (ne, ne), P.shape)
            size = np.max(np.abs(P), initial=0.0)
            if not np.max(np.abs(P - np.swapaxes(P, -1, -2)), initial=0.0) <= ROUNDED * size or not np.all(
                np.linalg.eigvalsh(P) >= -ROUNDED * size
            ):
                raise ControlError("covariance must be finite, symmetric and without negative eigenvalues.")
        else:
            parts = []
            for name, d, k in (("configuration", configuration, n), ("velocity", velocity, ne - n)):
                deviation = numbers(d, name)
                if deviation.shape not in ((), (k,)):
                    raise wrong_shape(name, (k,), deviation.shape, "One number is valid, too.")
                if not np.all(np.isfinite(deviation) & (deviation >= 0)):
                    raise ControlError(f"{name} must be standard deviations, finite and not negative, got {d}.")
                parts.append(np.broadcast_to(deviation, (k,)))
            P = np.diag(np.concatenate(parts) ** 2)
        if self.is_constrained:  # errors are tangent to the manifold
            slope = self._tangent_kernel(x)[0]
            own = P[..., :ne, :ne]
            P = slope @ own @ np.swapaxes(slope, -1, -2)
        return P

    @cached_property
    def _tangent_kernel(self) -> Kernel:
        """x -> Y A (ne, ne), the projector on tangent errors."""
        x = symbol("x", self.process.nx)
        return Kernel(trace_of("tangent", {"x": x}, {"J": self.process.Y(x) @ self.process.A(x)}))

    def predict(self, z: Any, inputs: Any = ()) -> np.ndarray:
        """The memory one period later, with the inputs (..., nu) of the model, or gyro and accelerometer (..., 6)."""
        return self.functions.predict_kernel(numbers(z, "z"), numbers(inputs, "inputs"))[0]

    def update(self, z: Any, sensor: str, reading: Any) -> np.ndarray:
        """The memory after a reading (..., reading_size) has arrived; NaN readings are not used."""
        return self._updated(numbers(z, "z"), sensor, numbers(reading, "reading"))[0]

    def _updated(self, z: np.ndarray, sensor: str, y: np.ndarray) -> tuple[np.ndarray, ...]:
        size = self.sensor(sensor).reading_size
        if y.shape[-1:] != (size,):
            raise wrong_shape(f"reading of {sensor!r}", ("...", size), y.shape)
        there = np.asarray(np.isfinite(y).all(axis=-1))
        if not there.all():
            y = np.where(there[..., None], y, self._blank(sensor))
        return self.functions.update_kernels[sensor](z, y, there.astype(float))

    def _blank(self, sensor: str) -> np.ndarray:
        """A reading without meaning that is finite on the manifold of the output."""
        size = self.sensor(sensor).reading_size
        return (
            np.eye(3).reshape(-1)
            if size == 9
            else np.concatenate([np.zeros(3), np.eye(3).reshape(-1)])
            if size == 12
            else np.zeros(size)
        )

    def copy(self, z: Any, sensor: str) -> np.ndarray:
        """The memory with a copy of the state for a late sensor: to be called when it takes a reading, after the updates of that time."""
        if sensor not in self.functions.copy_kernels:
            raise unknown_name("late sensor", sensor, self.functions.copy_kernels)
        return self.functions.copy_kernels[sensor](numbers(z, "z"), 1.0)[0]

    def state(self, z: Any) -> tuple[np.ndarray, np.ndarray]:
        """Estimated q (..., nq) and v (..., nv)."""
        x, b, i = self._parts(numbers(z, "z"))
        q, v = self.kernels["state"](x, b, i)
        return q, v

    def covariance(self, z: Any) -> np.ndarray:
        """Covariance (..., ne, ne) of the error."""
        f, z = self.functions, numbers(z, "z")
        start = sum(f.sizes[:-3])
        ne = f.ne
        return unpacked(z[..., start : start + f.sizes[-3]], f.n)[..., :ne, :ne]

    def biases(self, z: Any) -> dict[str, np.ndarray]:
        """Estimated biases by sensor."""
        return self.split_biases(self._parts(numbers(z, "z"))[1])

    def _parts(self, z: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        f = self.functions
        nx, end = self.process.nx, f.size - 1
        return z[..., :nx], z[..., nx : nx + f.nb], z[..., end - self.process.ni : end]

    # --- many samples -----------------------------------------------------------------------------------------------------------

    def filter(self, start: Any, inputs: Any, readings: Mapping[str, Any], every: int = 1) -> Estimates:
        """Estimates along arrays of inputs and readings.

        Parameters
        ----------
        start : first memory (*batch, memory_size), see :meth:`begin`.
        inputs : (n, *batch, ni): held over, or means over, the period from sample k to k + 1; the last one is not used.
        readings : sensor -> (n, *batch, reading_size) that arrive at the samples, NaN where none arrives. A reading of a late sensor that arrives at
            sample k was taken ``delay`` earlier, at a multiple of the period of the sensor.
        every : samples between recorded ones.
        """
        if not every >= 1 or every % 1:
            raise ControlError(
                f"every of filter() must be a whole number of samples, at least 1, got {every!r}. 1 records every sample."
            )
        f, z = self.functions, numbers(start, "start")
        if z.shape[-1:] != (f.size,):
            raise wrong_shape("start", ("...", f.size), z.shape, "It is the memory that begin() returns.")
        i = numbers(inputs, "inputs")
        self._check_inputs(i)
        count = len(i)
        y = {name: numbers(value, f"readings of {name!r}") for name, value in readings.items()}
        lengths = {len(value) for value in y.values() if value.ndim}
        if len(lengths) == 1 and lengths != {count}:
            hint = "Give one row for each row of the readings; the last one is not used."
            raise wrong_shape("inputs", (*lengths, "...", self.process.ni), i.shape, hint)
        for name, value in y.items():
            if value.ndim < 2 or len(value) != count or value.shape[-1] != self.sensor(name).reading_size:
                raise wrong_shape(f"readings of {name!r}", (count, "...", self.sensor(name).reading_size), value.shape)
        batch = np.broadcast_shapes(z.shape[:-1], i.shape[1:-1], *(value.shape[1:-1] for value in y.values()))
        z = np.broadcast_to(z, (*batch, f.size)).copy()
        there: dict[str, Any] = {
            name: np.isfinite(value).all(axis=-1).reshape(count, -1).any(axis=-1) for name, value in y.items()
        }
        nis = {name: np.full((count, *batch), np.nan) for name in y}
        used = {name: np.zeros((count, *batch), dtype=bool) for name in y}
        kept, times = [], []
        for k in range(count):
            for name, value in y.items():
                if there[name][k]:
                    z, _, length, accepted = self._updated(z, name, value[k])
                    ok = np.broadcast_to(np.isfinite(value[k]).all(axis=-1), batch)
                    nis[name][k], used[name][k] = np.where(ok, length, np.nan), accepted > 0.5
            for s, _ in f.copy_slots:
                if k % f.steps_of(s)[0] == 0:
                    z = f.copy_kernels[s.label](z, 1.0)[0]
            if k % every == 0:
                kept.append(z)
                times.append(z[..., -1].reshape(-1)[0])
            if k + 1 < count:
                z = f.predict_kernel(z, i[k])[0]
        recorded = np.stack(kept)
        if not np.isfinite(recorded).all():
            raise ControlError(
                f"the estimates of {self.model.name!r} are not finite: check noise, disturbance and readings."
            )
        x, b, last = self._parts(recorded)
        q, v = self.kernels["state"](x, b, last)
        return Estimates(self, np.array(times), x, b, q, v, self.covariance(recorded), nis, used, z)

    def _check_inputs(self, i: np.ndarray) -> None:
        if i.ndim < 2 or i.shape[-1] != self.process.ni:
            names = self.model.u_names if self.inputs == "model" else ("gyro (3)", "accelerometer (3)")
            raise wrong_shape("inputs", ("n", "...", self.process.ni), i.shape, f"Its entries are {', '.join(names)}.")

    def smooth(self, start: Any, inputs: Any, readings: Mapping[str, Any], iterations: int = 1) -> Smoothed:
        """Estimates from all readings, earlier and later ones: see :func:`.smooth`."""
        from heavytop.control.estimation.smoother import smooth

        return smooth(self, start, inputs, readings, iterations)

    def moving_horizon(
        self, start: Any, inputs: Any, readings: Mapping[str, Any], window: int, iterations: int = 3
    ) -> Smoothed:
        """Estimates from the readings of a moving window, relinearised: see :func:`.moving_horizon`."""
        from heavytop.control.estimation.smoother import moving_horizon

        return moving_horizon(self, start, inputs, readings, window, iterations)

    def draw(self, start: Any, inputs: Any, seed: Seed = None) -> Drawn:
        """A random motion with disturbances, biases and readings as the filter assumes them, to check its consistency.

        Parameters
        ----------
        start : memory whose covariance the error of the first state has. inputs : (n, *batch, ni) true ones. seed : generator or seed.
        """
        rng = np.random.default_rng(seed)
        f, p, z = self.functions, self.process, numbers(start, "start")
        i = numbers(inputs, "inputs")
        self._check_inputs(i)
        batch = np.broadcast_shapes(z.shape[:-1], i.shape[1:-1])
        x0, b0, _ = self._parts(z)
        values, vectors = np.linalg.eigh(self.covariance(z))
        e = np.matvec(vectors * np.sqrt(np.maximum(values, 0.0))[..., None, :], rng.standard_normal((*batch, f.ne)))
        x = self.kernels["retract"](np.broadcast_to(x0, (*batch, p.nx)), e[..., : p.ne])[0]
        b = b0 + e[..., p.ne :]
        walk = np.sqrt(f._walks())
        i = along_batch(i, batch)
        count, felt = len(i), i.copy()
        states, biases = [], []
        readings = {s.label: np.full((count, *batch, s.reading_size), np.nan) for s in f.sensors}
        t0 = z[..., -1].reshape(-1)[0]
        for k in range(count):
            states.append(x)
            biases.append(b)
            t = t0 + k * self.period
            for s in f.sensors:
                period, late = f.steps_of(s)
                if k % period == 0 and k + late < count:
                    y = f.output_kernels[s.label](x, b, i[k], t)[0]
                    noise = rng.standard_normal((*batch, s.size)) * s.deviations("noise")
                    readings[s.label][k + late] = s.moved(y, noise)
            w = rng.standard_normal((*batch, p.nw)) * p.deviations()
            if self.inputs == "imu":
                felt[k] = felt[k] + f.input_bias(b) + w
                x = self.kernels["step"](x, i[k], np.zeros(p.nw), t)[0]
            else:
                x = self.kernels["step"](x, i[k], w, t)[0]
            b = b + walk * rng.standard_normal((*batch, f.nb))
        q, v = self.kernels["state"](np.stack(states), np.zeros(f.nb), i)
        return Drawn(q, v, self.split_biases(np.stack(biases)), readings, felt)

    # --- further ----------------------------------------------------------------------------------------------------------------

    def observer(self, controller: Any, start: Any) -> Estimated:
        """A controller that is given the estimates instead of the state: see :class:`.Estimated`."""
        from heavytop.control.estimation.observed import Estimated

        return Estimated(controller, self, start)

    def observability(self, q: Any = None, v: Any = None, inputs: Any = None, samples: int = 100) -> Observability:
        """Directions of the error that the sensors cannot see along a motion: see :func:`.observability`."""
        from heavytop.control.estimation.observability import observability

        return observability(self, q, v, inputs, samples)

    def traces(self) -> dict[str, Traced]:
        """The functions of the filter by name: predict, update_SENSOR, copy_SENSOR, state."""
        f, p = self.functions, self.process
        z = symbol("z", f.size)
        m = f.parts(z)
        q, v = p.state(m.x, f.input_bias(m.b), m.i)
        found = {"predict": f.predict}
        found |= {f"update_{name}": traced for name, traced in f.updates.items()}
        found |= {f"copy_{name}": traced for name, traced in f.copies.items()}
        return found | {"state": trace_of("state", {"z": z}, {"q": q, "v": v})}

    def export_c(
        self,
        folder: str | Path,
        start: Any,
        *,
        precision: Precision = "double",
        footprint: bool = False,
        name: str = "estimator",
    ) -> list[Path]:
        """Export the filter as C99 with a test: functions of one memory z, which begins with ``start``.

        Parameters
        ----------
        start : first memory (memory_size,), see :meth:`begin`; the test uses states near it. precision, footprint, name : see :func:`.export_c`.
        """
        from heavytop.compile import export_c

        rng, count, f = np.random.default_rng(0), 8, self.functions
        z = np.broadcast_to(numbers(start, "start"), (count, f.size)).copy()
        vectors: dict[str, list[np.ndarray]] = {}
        i = rng.standard_normal((count, self.process.ni))
        for k in range(count):
            for _ in range(3 * k):
                z[k] = self.predict(z[k], i[k])
        x, b, _ = self._parts(z)
        ones = np.ones(count)
        for label in self.traces():
            kind, _, sensor = label.partition("_")
            if kind == "update":
                own = self.sensor(sensor)
                y = f.output_kernels[sensor](x, b, i, z[..., -1])[0]
                vectors[label] = [
                    z,
                    own.moved(y, rng.standard_normal((count, own.size)) * own.deviations("noise")),
                    ones,
                ]
            else:
                vectors[label] = {"predict": [z, i], "copy": [z, ones], "state": [z]}[kind]
        tolerance = EQUAL if precision == "double" else None
        return export_c(
            folder,
            self.traces(),
            precision=precision,
            footprint=footprint,
            name=name,
            vectors=vectors,
            tolerance=tolerance,
        )


def estimator(
    model: Any,
    sensors: Sequence[ModelSensor] | Sensors,
    period: float,
    *,
    inputs: Inputs = "model",
    disturbance: Any = None,
    parameters: Mapping[str, Any] | None = None,
) -> Estimator:
    """An error-state Kalman filter on the manifold for any model and its sensors.

    Parameters
    ----------
    model : a derived model, or a vehicle. sensors : their order is that of the updates at one time; or the :class:`.Sensors` of a vehicle.
    period : s between steps. Periods and delays of sensors are rounded to whole steps.
    inputs : "model": the state moves by the equations of motion with known inputs u; "imu": a free body moves by its gyro and accelerometer,
        which are then inputs of the filter, and no model of its forces is needed.
    disturbance : density of white disturbing accelerations, one number or (nv,), unit of v per square root of a second. Needed for "model".
    parameters : name -> value, those of the model by default.

    Examples
    --------
    >>> import heavytop as ht
    >>> from heavytop.control import AccelerometerSensor, GyroSensor, PoseSensor
    >>> model = ht.library.quadcopter().derive()
    >>> imu = GyroSensor("hull", noise=0.01, bias=0.02), AccelerometerSensor("hull", noise=0.1, bias=0.1)
    >>> camera = PoseSensor("hull", noise=(0.002,) * 3 + (0.004,) * 3, period=0.01, delay=0.02)
    >>> ht.estimator(model, [*imu, camera], 1e-3, inputs="imu").memory_size
    448
    """
    model = getattr(model, "model", model)
    if inputs not in INPUTS:
        raise unknown_name("inputs of an estimator", str(inputs), INPUTS)
    if not (np.isfinite(period) and period > 0):
        raise ControlError(f"the period of an estimator must be positive, got {period}.")
    given = of_vehicle(model, sensors) if isinstance(sensors, Sensors) else tuple(sensors)
    for s in given:
        if not isinstance(s, ModelSensor):
            raise ControlError(
                f"sensors= of an estimator takes sensors such as EncoderSensor(...) and PoseSensor(...), got {type(s).__name__}: {s!r}."
            )
    labels = [s.label for s in given]
    if not given or len(set(labels)) < len(labels):
        raise ControlError(f"an estimator needs sensors with different names, got {labels}: give them name=...")
    for s in given:
        s.check(model)
        for what, value in (("period", s.period), ("delay", s.delay)):
            if value and abs(value / period - round(value / period)) > 0.01 * max(1.0, value / period):
                raise ControlError(
                    f"the {what} of {s.label!r}, {value:g} s, is not a multiple of the period {period:g} s."
                )
    if model.is_constrained and model.description.time is not None:
        raise ControlError(f"{model.name!r} has constraints and depends on time; estimators do not support this.")
    density: Any = 0.0
    if inputs == "model":
        if disturbance is None:
            raise ControlError(
                "inputs='model' needs disturbance=..., the density of unknown accelerations: a filter never trusts a model fully."
            )
        density = numbers(disturbance, "disturbance")
        if density.shape not in ((), (model.nv,)):
            raise wrong_shape("disturbance", (model.nv,), density.shape, "One number, or one for each velocity.")
        if not (np.isfinite(density).all() and np.all(density >= 0)):
            raise ControlError(
                f"disturbance= of the estimator of {model.name!r} must be finite and not negative, got {density.tolist()}. It is a density, in the "
                "unit of v per square root of a second; 0 for velocities without unknown accelerations."
            )
        density = np.broadcast_to(density, (model.nv,)).copy()
    made = Estimator(model, given, float(period), inputs, density, model.parameter_vector(parameters))
    if inputs == "imu":
        made._units  # noqa: B018 (checks the sensors)
        Hull.of(model)
    return made


def along_batch(x: np.ndarray, batch: tuple[int, ...]) -> np.ndarray:
    """Samples (n, ..., m) with the axes of a batch (n, *batch, m).

    >>> along_batch(np.zeros((5, 2)), (3,)).shape
    (5, 3, 2)
    """
    missing = len(batch) + 2 - x.ndim
    return np.broadcast_to(x.reshape(len(x), *(1,) * missing, *x.shape[1:]), (len(x), *batch, x.shape[-1]))


def of_vehicle(model: Model, sensors: Sensors) -> tuple[ModelSensor, ...]:
    """Sensors of a vehicle as sensors of its model; a perfect one is given a small noise. Rotor speeds are not used."""
    hull = Hull.of(model)
    frame, at = model.description.joints[0].b, tuple(hull.com.tolist())
    kinds = {
        "gyro": GyroSensor, "accelerometer": AccelerometerSensor, "position": PositionSensor, "attitude": AttitudeSensor,
        "velocity": VelocitySensor,
    }  # fmt: skip
    found: list[ModelSensor] = []
    for name, kind in kinds.items():
        own = getattr(sensors, name)
        if own is None:
            continue
        place: dict[str, Any] = {} if kind in (GyroSensor, AttitudeSensor) else {"at": at}
        bias = own.bias if kind is not AttitudeSensor else 0.0
        found.append(kind(frame, noise=max(own.noise, PERFECT), bias=bias, delay=float(np.max(own.delay)), **place))
    return tuple(found)
