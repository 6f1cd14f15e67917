"""Actions in [-1, 1] as laws inside the native step: inputs, thrust and body rates, velocities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate, part, symbol, vector
from heavytop._format import Brief
from heavytop.compile import Traced, trace_of
from heavytop.copters import Vehicle
from heavytop.errors import ModelError
from heavytop.functions import Value
from heavytop.ocp import input_bounds, named_limits

HULL = "hull"


@dataclass(frozen=True, eq=False, repr=False)
class Action(Brief, Value):
    """A law whose signal is the action. Subclasses give ``size`` and :meth:`commanded`.

    Attributes
    ----------
    lower, upper : (nu,) limits of the inputs. lag : time constant of the actuators in s; 0: none. trim : (nu,) inputs at the start of an episode.
    period : s between actions. samples : (n, size) actions of an episode, for runs.

    Examples
    --------
    >>> Inputs(lower=(0.0,), upper=(2.0,)).size
    1
    """

    lower: Any = ()
    upper: Any = ()
    lag: float = 0.0
    trim: Any = ()
    period: float = 0.01
    samples: Any = field(default=(), repr=False)

    @property
    def size(self) -> int:
        """Length of an action."""
        return len(self.lower)

    @property
    def signal_size(self) -> int:
        """Length of an action."""
        return self.size

    @property
    def state_size(self) -> int:
        """Length of the memory: the inputs behind the lag."""
        return len(self.lower) if self.lag else 0

    def initial_state(self) -> np.ndarray:
        """The inputs at the start of an episode."""
        return np.asarray(self.trim, dtype=float) if self.lag else np.zeros(0)

    def signal(self, times: np.ndarray) -> np.ndarray:
        """Actions (n, size) at times: the sample of the period they lie in."""
        given = np.asarray(self.samples, dtype=float).reshape(-1, self.size)
        if not len(given):
            return np.zeros((len(times), self.size))
        return given[np.clip(np.floor(np.asarray(times) / self.period + 1e-6).astype(int), 0, len(given) - 1)]

    def commanded(self, q: Array, v: Array, p: Array, action: Array) -> Array:
        """The inputs (nu,) that an action commands, before limits and lag."""
        raise NotImplementedError

    def expression(self, q: Array, v: Array, p: Array, action: Array, z: Array) -> dict[str, Array]:
        """Inputs u and next memory."""
        low, high = np.asarray(self.lower, dtype=float), np.asarray(self.upper, dtype=float)
        wanted = np.minimum(np.maximum(self.commanded(q, v, p, action), low), high)
        if not self.lag:
            return {"u": wanted}
        # first-order lag, exact for a command that is held for the period
        reached = z + (1.0 - np.exp(-self.period / self.lag)) * (wanted - z)
        return {"u": reached, "z_next": reached}

    def traced(self, model: Any) -> Traced:
        """The law as a function of q, v, signal, p and, with a lag, z."""
        sizes = {
            "q": model.nq,
            "v": model.nv,
            "signal": self.size,
            "p": len(model.parameter_names),
            "z": self.state_size,
        }
        s = {name: symbol(name, n) for name, n in sizes.items() if name != "z" or self.lag}
        bounded = np.minimum(np.maximum(s["signal"], -1.0), 1.0)
        outputs = self.expression(s["q"], s["v"], s["p"], bounded, s.get("z", np.zeros(0)))
        return trace_of("action", s, outputs)


@dataclass(frozen=True, eq=False, repr=False)
class Inputs(Action):
    """The inputs themselves, for example motor commands: -1 is the lower limit, 1 the upper one.

    Examples
    --------
    >>> Inputs(lower=(0.0, 0.0), upper=(6.0, 6.0), lag=0.03, trim=(2.0, 2.0)).state_size
    2
    """

    def commanded(self, q: Array, v: Array, p: Array, action: Array) -> Array:
        low, high = np.asarray(self.lower, dtype=float), np.asarray(self.upper, dtype=float)
        return 0.5 * (low + high) + 0.5 * (high - low) * action


@dataclass(frozen=True, eq=False, repr=False)
class _Cascade(Action):
    """Actions of a multicopter above its rotors: a wrench, shared by the rotors.

    Attributes
    ----------
    vehicle : with a hull of six degrees of freedom. rates : largest body rates (3,) in rad/s. gain : 1/s, of the body rates.
    """

    vehicle: Any = None
    rates: Any = (6.0, 6.0, 3.0)
    gain: float = 20.0

    def _wrench(self, v: Array, thrust: Array, rates: Array) -> Array:
        """The inputs for a thrust (N) and body rates (3,): tau = J gain (rates - omega) + omega x J omega."""
        J, allocation = self._matrices
        omega = v[3:6]
        torque = np.matvec(J, self.gain * (rates - omega)) + np.cross(omega, np.matvec(J, omega))
        return np.matvec(allocation, concatenate(np.reshape(thrust, (1,)), torque))

    @property
    def _matrices(self) -> tuple[np.ndarray, np.ndarray]:
        """Inertia (3, 3) of the hull, and the inputs (nu, 4) per thrust and torque."""
        model = self.vehicle.model
        neutral = model.neutral()
        return model.mass_matrix(neutral)[3:6, 3:6], np.linalg.pinv(model.input_matrix(neutral)[2:6])

    @property
    def most_thrust(self) -> float:
        """Sum of the upper limits along z, N."""
        return float(self.vehicle.model.input_matrix(self.vehicle.model.neutral())[2] @ np.asarray(self.upper))

    @property
    def size(self) -> int:
        return 4

    def _attitude(self, q: Array, p: Array) -> Array:
        model = self.vehicle.model
        return model.traced(f"pose:world:{HULL}").expressions(q, part(p, 0, len(model.parameter_names)))[0][:3, :3]


@dataclass(frozen=True, eq=False, repr=False)
class BodyRates(_Cascade):
    """Collective thrust and body rates: (thrust, omega_x, omega_y, omega_z); thrust -1 is none, 1 is the rotors' maximum.

    Examples
    --------
    >>> import heavytop as ht
    >>> env = ht.env("quadcopter", "hover", action="rates")  # doctest: +SKIP
    """

    def commanded(self, q: Array, v: Array, p: Array, action: Array) -> Array:
        return self._wrench(v, 0.5 * (action[0] + 1.0) * self.most_thrust, np.asarray(self.rates) * action[1:])


@dataclass(frozen=True, eq=False, repr=False)
class Tilts(_Cascade):
    """Collective thrust, roll, pitch and yaw rate: tilts of at most ``tilt`` rad relative to the heading.

    Examples
    --------
    >>> Tilts(lower=(0.0,) * 4, upper=(6.0,) * 4).size
    4
    """

    tilt: float = 0.7
    stiffness: float = 8.0

    def commanded(self, q: Array, v: Array, p: Array, action: Array) -> Array:
        R = self._attitude(q, p)
        roll, pitch = self.tilt * action[1], self.tilt * action[2]
        # the desired thrust axis in the body: that of the world's z, tilted in the horizontal plane of the heading
        up = R[2, :]
        wanted = up + vector(np.sin(pitch), -np.sin(roll), np.zeros(()))
        turn = np.cross(vector(0.0, 0.0, 1.0), wanted)
        rates = self.stiffness * concatenate(turn[:2], np.zeros(1)) + vector(0.0, 0.0, self.rates[2] * action[3])
        return self._wrench(v, 0.5 * (action[0] + 1.0) * self.most_thrust, rates)


@dataclass(frozen=True, eq=False, repr=False)
class Velocity(_Cascade):
    """Velocity of the hull in world axes and yaw rate: (v_x, v_y, v_z, yaw rate), of at most ``speed`` m/s.

    Examples
    --------
    >>> Velocity(lower=(0.0,) * 4, upper=(6.0,) * 4, speed=2.0).speed
    2.0
    """

    speed: float = 3.0
    acceleration_gain: float = 2.0
    stiffness: float = 8.0

    def commanded(self, q: Array, v: Array, p: Array, action: Array) -> Array:
        R = self._attitude(q, p)
        weight = self.vehicle.weight
        mass = self.vehicle.mass
        error = self.speed * action[:3] - np.matvec(R, v[:3])
        force = mass * self.acceleration_gain * error + vector(0.0, 0.0, weight)
        length = np.sqrt(np.vecdot(force, force) + 1e-12)
        turn = np.cross(vector(0.0, 0.0, 1.0), np.matvec(R.T, force) / length)
        rates = self.stiffness * concatenate(turn[:2], np.zeros(1)) + vector(0.0, 0.0, self.rates[2] * action[3])
        return self._wrench(v, np.vecdot(force, R[:, 2]), rates)


KINDS = {"rates": BodyRates, "attitude": Tilts, "velocity": Velocity}


def action_of(kind: Any, subject: Any, model: Any, limits: Any, lag: float, period: float) -> Action:
    """The action of an environment by its name, within limits, for a period.

    Parameters
    ----------
    kind : "inputs", "rates", "attitude", "velocity", or an :class:`Action`, whose limits and period are then replaced.
    """
    low, high = _bounds(subject, model, limits)
    trim = (
        np.clip(np.full(model.nu, subject.weight / model.nu), low, high)
        if isinstance(subject, Vehicle)
        else np.clip(0.0, low, high)
    )
    common: dict[str, Any] = {
        "lower": tuple(low.tolist()), "upper": tuple(high.tolist()), "lag": float(lag), "trim": tuple(trim.tolist()), "period": float(period),
    }  # fmt: skip
    if isinstance(kind, Action):
        from dataclasses import replace

        return replace(kind, **common)
    if kind == "inputs":
        return Inputs(**common)
    if kind not in KINDS:
        from heavytop.errors import unknown_name

        raise unknown_name("action", str(kind), ("inputs", *KINDS))
    if not isinstance(subject, Vehicle) or model.nv != 6:
        raise ModelError(
            f"actions {kind!r} need a multicopter without limbs and loads, got {model.name!r}. Use action='inputs'."
        )
    return KINDS[kind](**common, vehicle=subject)


def _bounds(subject: Any, model: Any, limits: Any) -> tuple[np.ndarray, np.ndarray]:
    if limits is None:
        limits = getattr(subject, "limits", None)
    if limits is None and named_limits(model, model.description.limits, model.u_names):
        limits = model.description.limits  # efforts of the joints
    if limits is None:
        raise ModelError(
            f"the inputs of {model.name!r} have no limits: give limits=(lower, upper), numbers or one for each of {', '.join(model.u_names)}."
        )
    pair: Any = limits.bounds(model) if hasattr(limits, "bounds") else limits
    if isinstance(limits, Mapping):
        pair = input_bounds(model, limits)
    if np.ndim(pair) == 0:
        pair = (-abs(float(pair)), abs(float(pair)))
    low, high = (np.broadcast_to(np.asarray(side, dtype=float), (model.nu,)) for side in pair)
    if not (np.isfinite(low).all() and np.isfinite(high).all() and (low < high).all()):
        raise ModelError(
            f"limits of the inputs of {model.name!r} must be finite and lower < upper, got {low.tolist()} and {high.tolist()}."
        )
    return low, high
