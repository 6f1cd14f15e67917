"""Measurements: noisy and late ones, and controllers that measure only a part of the plant."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate, part, split, vector
from heavytop.control.laws.wrapper import Seen, Wrapper
from heavytop.errors import ControlError, wrong_shape
from heavytop.system import Model


class Stream:
    """Independent normal numbers, cached: sample k does not depend on the number of samples drawn."""

    def __init__(self, seed: int, shape: tuple[int, ...]) -> None:
        self._seed, self._drawn = seed, np.zeros((0, *shape))

    def first(self, count: int) -> np.ndarray:
        """At least ``count`` samples."""
        if count > len(self._drawn):
            shape = (max(count, 2 * len(self._drawn)), *self._drawn.shape[1:])
            self._drawn = np.random.default_rng(self._seed).standard_normal(shape)
        return self._drawn

    def at(self, times: np.ndarray, period: float) -> np.ndarray:
        """The samples (n, *shape) that are held at the times (n,), a new one every ``period`` s from t = 0 on."""
        number = np.floor(times / period + 1e-3).astype(int)
        if np.any(number < 0):
            raise ControlError(f"noise begins at t = 0, it has no value at t = {np.min(times):g} s.")
        return self.first(int(np.max(number, initial=-1)) + 1)[number]


def as_members(members: int | tuple[int, ...]) -> tuple[int, ...]:
    """Batch axes from one number or several."""
    return (members,) if isinstance(members, int) else tuple(members)


class Noisy(Wrapper):
    """A controller with noisy measurements: q moved by a random displacement, v with a random error.

    Parameters
    ----------
    model : whose state is measured.
    configuration, velocity : standard deviations, one number or one per velocity, in their units (m, rad; m/s, rad/s), also (*batch, n) with one
        row per trajectory; with a basis those of the configuration are along the velocities of joints.
    seed : seed of the noise: the same in every run; an array (n,) has one seed per trajectory.
    members : batch axes whose members have different noise, for example (200,); default: all share it.
    period : s between independent measurements; default: the sample period of the simulation. Required for continuous control.

    Notes
    -----
    The noise is a function of time, held over a period: a simulation that reads it twice gets the same value.

    Examples
    --------
    >>> import heavytop as ht
    >>> model = ht.library.pendulum().derive()
    >>> brake = ht.Feedback(lambda v: -v, ("v",))
    >>> Noisy(brake, model, configuration=0.01, velocity=0.05, seed=1).state_size
    0
    """

    def __init__(
        self,
        controller: Any,
        model: Model,
        configuration: Any = 0.0,
        velocity: Any = 0.0,
        seed: int | np.ndarray = 0,
        members: int | tuple[int, ...] = (),
        period: float | None = None,
    ) -> None:
        super().__init__(controller)
        self.model, self.seed, self.period, self.members = model, seed, period, as_members(members)
        if period is not None and not period > 0:
            raise ControlError(f"the period of noise must be positive, got {period}.")
        self._sizes = (model.coordinates.nv, model.nv)
        sides = []
        for what, value, size in zip(
            ("configuration", "velocity"), (configuration, velocity), self._sizes, strict=True
        ):
            array = np.asarray(value, dtype=float)
            if array.ndim and array.shape[-1] != size:
                raise wrong_shape(f"noise of the {what}", (size,), array.shape)
            if not np.all(array >= 0):
                raise ControlError(f"the standard deviation of the {what} must not be negative, got {array.tolist()}.")
            sides.append(array if array.ndim else np.full(size, array))
        lead = np.broadcast_shapes(*(side.shape[:-1] for side in sides))
        self.deviation = np.concatenate([np.broadcast_to(s, (*lead, s.shape[-1])) for s in sides], axis=-1)
        self.own_signal_size = sum(self._sizes)

    @property
    def depends_on_period(self) -> bool:
        return self.period is None

    def own_signal(self, times: np.ndarray) -> np.ndarray:
        """The noise at the times (n, *members, sizes of configuration and velocity)."""
        period = self.period or self.sample_time
        if period is None:
            raise ControlError(
                "continuous control has no sample period for the noise: give Noisy(..., period=...), or sample it: "
                "simulate(..., hold='zero-order')."
            )
        if np.ndim(self.seed):
            drawn = np.stack([stream.at(times, period) for stream in self._streams], axis=1)
            return drawn[:, np.unique(self.seed, return_inverse=True)[1]] * self.deviation
        drawn = self._streams[0].at(times, period)
        return (drawn[:, None] if self.deviation.ndim > 1 and not self.members else drawn) * self.deviation

    @cached_property
    def _streams(self) -> list[Stream]:
        """One for each of the different seeds."""
        return [Stream(int(seed), (*self.members, self.own_signal_size)) for seed in np.unique(self.seed)]

    def seen(self, at: Seen) -> dict[str, Array]:
        if (at.model.nq, at.model.nv) != (self.model.nq, self.model.nv):
            raise ControlError(
                f"the noise was made for {self.model.name!r} with nq = {self.model.nq}, nv = {self.model.nv}; {at.model.name!r} has "
                f"nq = {at.model.nq}, nv = {at.model.nv}. Put Noisy inside the wrapper that hides the rest of the plant."
            )
        eps, dv = split(at.signal, self._sizes)
        return {"q": self.model.coordinates.retract(at.q, eps), "v": at.v + dv}


class Delayed(Wrapper):
    """A controller with measurements that are some samples old. For sampled control only.

    Parameters
    ----------
    samples : age of the measurements; an array (*batch) for trajectories with different ages, which share their native code.
    start : (q, v) that the controller gets until the first measurement arrives.
    longest : samples that are stored if the ages differ; default: the largest age.

    Examples
    --------
    >>> import heavytop as ht
    >>> model = ht.library.pendulum().derive()
    >>> brake = ht.Feedback(lambda v: -v, ("v",))
    >>> Delayed(brake, samples=2, start=(model.neutral(), np.zeros(1))).state_size
    4
    >>> Delayed(brake, samples=np.array([1, 2, 5]), start=(model.neutral(), np.zeros(1))).state_size
    11
    """

    depends_on_period = False  # pyright: ignore[reportAssignmentType]

    def __init__(
        self, controller: Any, samples: int | np.ndarray, start: tuple[Any, Any], longest: int | None = None
    ) -> None:
        ages = np.asarray(samples)
        if not np.all(ages == np.floor(ages)) or not np.all(ages >= 1):
            raise ControlError(f"samples of a delay must be whole numbers, 1 or more, got {samples!r}.")
        super().__init__(controller)
        self.samples = int(np.max(ages))
        """The number of stored samples."""
        self.ages = None if ages.ndim == 0 else ages.astype(float)
        if longest is not None:
            if self.ages is None or longest < self.samples:
                raise ControlError(
                    f"longest must be at least the largest of several ages, got {longest} for {samples!r}."
                )
            self.samples = longest
        q, v = (np.asarray(x, dtype=float) for x in start)
        self._sizes = (q.shape[-1], v.shape[-1])
        lead = np.broadcast_shapes(q.shape[:-1], v.shape[:-1], () if self.ages is None else self.ages.shape)
        self._start = np.concatenate([np.broadcast_to(x, (*lead, x.shape[-1])) for x in (q, v)], axis=-1)
        self.own_state_size = self.samples * self._start.shape[-1] + (self.ages is not None)

    def first(self) -> np.ndarray:
        stored = np.concatenate([self._start] * self.samples, axis=-1)
        if self.ages is None:
            return stored
        ages = np.broadcast_to(self.ages, stored.shape[:-1])
        return np.concatenate([stored, ages[..., None]], axis=-1)

    def seen(self, at: Seen) -> dict[str, Array]:
        if self._sizes != (at.model.nq, at.model.nv):
            raise wrong_shape(
                f"start (q, v) of the delay for {at.model.name!r}", (at.model.nq, at.model.nv), self._sizes
            )
        q, v = split(part(at.z, 0, sum(self._sizes)), self._sizes)
        return {"q": q, "v": v}

    def following(self, at: Seen, u: Array) -> Array:
        size = sum(self._sizes)
        if self.ages is None:
            return concatenate(part(at.z, size, self.own_state_size), at.q, at.v)
        # each trajectory stores a measurement where it is the first after as many samples as its age
        now, age = concatenate(at.q, at.v), at.z[self.own_state_size - 1]
        stored = [part(at.z, k * size, (k + 1) * size) for k in range(1, self.samples)] + [now]
        return concatenate(
            *(np.where(age == k, now, old) for k, old in enumerate(stored, 1)),
            part(at.z, self.own_state_size - 1, self.own_state_size),
        )


def check_part(own: Model, plant: Any) -> None:
    """Raise a ControlError unless the plant has at least the coordinates of a model."""
    if plant.nq < own.nq or plant.nv < own.nv:
        raise ControlError(
            f"{own.name!r} with nq = {own.nq}, nv = {own.nv} is not part of {plant.name!r} with nq = {plant.nq}, nv = {plant.nv}."
        )


class OnPart(Wrapper):
    """A controller of a part of the plant: the first coordinates of the plant are those of the controller's model.

    Parameters
    ----------
    controller : for the part. model : model of the part.

    Examples
    --------
    >>> import heavytop as ht
    >>> model = ht.library.pendulum().derive()
    >>> brake = ht.Feedback(lambda v: -v, ("v",))
    >>> OnPart(brake, model).state_size
    0
    """

    def __init__(self, controller: Any, model: Model) -> None:
        super().__init__(controller)
        self.model = model

    def plant(self, model: Any) -> Model:
        check_part(self.model, model)
        return self.model

    def seen(self, at: Seen) -> dict[str, Array]:
        """The part's state and, once the controller has a reference, its parameters."""
        values = {"q": part(at.q, 0, self.model.nq), "v": part(at.v, 0, self.model.nv)}
        if "p" in at.used and not self.needs_reference:
            names = tuple(at.model.parameter_names)
            if missing := [name for name in self.model.parameter_names if name not in names]:
                raise ControlError(
                    f"the controller of the part has the parameter {missing[0]!r}, which {at.model.name!r} lacks."
                )
            values["p"] = vector(*(at.p[names.index(name)] for name in self.model.parameter_names))
        return values
