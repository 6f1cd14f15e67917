"""The plant of a vehicle with rotor speeds and tilts that lag behind, drag of rotors and frame, and wind.

The controller commands forces. With the velocity a = R^T (r' - wind) of the hull through the air and
a_k = a + omega x p_k that of rotor k:

    n_k' = (n_k,cmd - n_k) / tau,    n_k,cmd = sqrt(thrust_k / k_eta), limited,
    thrust_k = k_eta n_k^2 + k_h (a_kx^2 + a_ky^2),    drag at the hub: -n_k diag(k_d, k_d, k_z) a_k,
    torque_k = +-k_m n_k^2,    drag of the frame: -|a| diag(c) a,

the model of RotorPy (Folk, Paulos, Kumar 2023, after Svacha, Mohta, Kumar 2017). Tilting rotors also have servos of second order:
theta'' = w^2 (theta_cmd - theta) - 2 w theta', the short way round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._arrays import Array, concatenate, is_symbolic, part, transpose, vector
from heavytop.control import WIND_AXES, Hull, OnPart
from heavytop.coordinates import Product, Vector
from heavytop.copters.propulsion import SERVO, typical_propulsion
from heavytop.errors import ModelError
from heavytop.geometry import se3
from heavytop.simulate import UserDynamics
from heavytop.system import Model, Wrench

if TYPE_CHECKING:
    from heavytop.copters.airframe import Rotor
    from heavytop.copters.vehicle import Vehicle

UNCERTAIN = {"mass_factor": 1.0, "moment_factor": 1.0, "thrust_factor": 1.0, "drag_factor": 1.0, "speed_factor": 1.0}
"""Parameters of an uncertain plant, true over assumed: mass, moments of inertia, thrust, drag, largest speed of the rotors. Further ones:
``lag`` (s), and of every rotor ``rotor0_health`` (speed over commanded speed: 0 for a dead one), ``rotor0_thrust`` (thrust and torque over those of
its speed: 0 for a lost blade) and ``rotor0_stuck`` (1 for a motor that keeps its speed whatever is commanded)."""


class RotorPlant(UserDynamics):
    """A vehicle with drag, and with rotor speeds and tilts, if any, as states.

    Coordinates: those of the vehicle, the angles of the rotors, the tilts. Inputs: those of the vehicle as commands, then the wind.

    Parameters
    ----------
    vehicle : without a more detailed plant. Its controller is made for its model. Without ``propulsion`` data typical coefficients are used.
    drag : whether air drag acts.
    payload : mass below the hull that is unknown to the controller, kg.
    wind : whether the air moves: inputs wind_x, wind_y, wind_z in m/s, see :class:`.Windy`. It acts by the drag of the propulsion, or, if that
        has no coefficients of drag, by the vehicle's ``drag``.
    varied : "payload", "mass": those that are parameters, kg, see :meth:`.Vehicle.with_payload`.
    uncertain : whether mass, moments of inertia, thrust, drag, lag and health of the rotors are parameters, see :data:`UNCERTAIN`: one
        plant for many vehicles unknown to the law. For a single free body.

    Examples
    --------
    >>> from heavytop.copters import quadcopter
    >>> plant = RotorPlant(quadcopter(), uncertain=True)
    >>> plant.nv, plant.parameter_names[:2]
    (10, ('mass_factor', 'moment_factor'))
    """

    def __init__(
        self,
        vehicle: Vehicle,
        *,
        drag: bool = True,
        payload: float = 0.0,
        wind: bool = False,
        varied: Sequence[str] = (),
        uncertain: bool = False,
    ) -> None:
        if vehicle.full is not None:
            raise ModelError(f"{vehicle.name!r} already has motors and servos: its plant is vehicle.full.model.")
        self.vehicle, self.drag, self.payload, self.wind, self.uncertain = vehicle, drag, payload, wind, uncertain
        self.varied = tuple(varied)
        self.propulsion = vehicle.propulsion or typical_propulsion(vehicle)
        self._com = Hull.of(vehicle.model).com if uncertain else np.zeros(3)
        own: Any = vehicle.model.coordinates
        blocks: list[Any] = [*own.blocks, Vector(len(self.rotors))]
        labels = [*own.names, "rotors"]
        if self._tilting:
            blocks.append(Vector(len(self._tilting)))
            labels.append("tilts")
        names = tuple(f"command{k}" for k in range(vehicle.model.nu))
        super().__init__(
            Product(tuple(blocks), names=tuple(labels)),
            self._varied if uncertain or varied else self._rates,
            inputs=(*names, *WIND_AXES) if wind else names,
            parameters=self._parameters() or None,
            name=f"{vehicle.name} with rotors",
        )

    @property
    def rotors(self) -> tuple[Rotor, ...]:
        return tuple(self.vehicle.airframe.rotors)

    @property
    def _tilting(self) -> list[int]:
        return [k for k, rotor in enumerate(self.rotors) if rotor.tilt is not None]

    @cached_property
    def passive(self) -> Model:
        """The vehicle with a wrench on its hull as further inputs."""
        system = self.vehicle.with_payload(self.payload, self.varied)
        for k, name in enumerate(("fx", "fy", "fz", "mx", "my", "mz")):
            unit = np.eye(6)[k]
            system.input(name, Wrench("hull", force=unit[:3], moment=unit[3:]))
        return system.derive()

    def _parameters(self) -> dict[str, float]:
        nominal = {"payload": self.payload, "mass": self.vehicle.mass}
        varied = {name: nominal[name] for name in self.varied}
        if not self.uncertain:
            return varied
        sound = {"health": 1.0, "thrust": 1.0, "stuck": 0.0}
        each = {f"rotor{k}_{name}": value for name, value in sound.items() for k in range(len(self.rotors))}
        return {**varied, **UNCERTAIN, "lag": self.propulsion.lag, **each}

    def _varied(self, q: Array, v: Array, u: Array, p: Mapping[str, Array]) -> Array:
        return self._rates(q, v, u, p)

    def _rates(self, q: Array, v: Array, u: Array, given: Mapping[str, Array] | None = None) -> Array:
        model, rotors, p, known = self.vehicle.model, self.rotors, self.propulsion, given or {}
        gain, rough = known.get("thrust_factor", 1.0), known.get("drag_factor", 1.0)
        count, tilting = len(rotors), self._tilting
        pose_q, speeds = part(q, 0, model.nq), part(v, model.nv, model.nv + count)
        tilts, tilt_rates = (part(x, n + count, n + count + len(tilting)) for x, n in ((q, model.nq), (v, model.nv)))
        twist, air = self._through_the_air(pose_q, part(v, 0, 6), u)
        omega = part(twist, 3, 6)
        wrench = np.zeros(6)
        if self.drag:
            own = p.air_drag.at_frame(air) if p.has_drag or not self.wind else -self.vehicle.drag * air
            wrench = concatenate(rough * own, np.zeros(3))
        lag = 1.0 / known.get("lag", p.lag)
        rates, turns, place = [], [], 0
        for k, rotor in enumerate(rotors):
            if rotor.tilt is None:
                wanted, axis = u[place], rotor.axis
            else:
                across, axial, j = u[place], u[place + 1], tilting.index(k)
                wanted = np.sqrt(across * across + axial * axial)
                error = np.arctan2(-across, axial) - tilts[j]
                turn = np.arctan2(np.sin(error), np.cos(error))
                turns.append(SERVO * SERVO * turn - 2 * SERVO * tilt_rates[j])
                axis = np.cos(tilts[j]) * rotor.axis - np.sin(tilts[j]) * rotor.tilt
            place += len(rotor.directions)
            n = speeds[k]
            follows = lag * (1.0 - known.get(f"rotor{k}_stuck", 0.0))
            rates.append(follows * (known.get(f"rotor{k}_health", 1.0) * self._speed(wanted, known) - n))
            size = n if p.speed[0] >= 0 else np.abs(n)
            share = gain * known.get(f"rotor{k}_thrust", 1.0)
            force = share * p.thrust_coefficient * n * size * axis
            if self.drag:
                local = air + np.cross(omega, rotor.at)
                force = force + rough * p.air_drag.at_rotor(n, local, axis)
            torque = share * float(np.sign(rotor.drag_ratio)) * p.torque_coefficient * n * size * axis
            wrench = wrench + concatenate(force, np.cross(rotor.at, force) + torque)
        if given is not None and self.uncertain:
            # m (a - R^T g) = f and Theta omega' + omega x Theta omega = m about the centre of mass: the factors divide force and moment
            com, force = self._com, part(wrench, 0, 3)
            lighter = force / given["mass_factor"]
            moment = (part(wrench, 3, 6) - np.cross(com, force)) / given["moment_factor"]
            wrench = concatenate(lighter, moment + np.cross(com, lighter))
        inputs = concatenate(np.zeros(place), part(u, place, model.nu), wrench)  # motors of limbs do not lag
        own = zip(self.passive.parameter_names, self.passive.parameter_vector(), strict=True)
        parameters = vector(*(known.get(name, value) if name in self.varied else value for name, value in own))
        (a,) = self.passive.traced("acceleration").expressions(pose_q, part(v, 0, model.nv), inputs, parameters)
        return concatenate(a, vector(*rates), vector(*turns) if turns else np.zeros(0))

    def _joint_velocity(self) -> Array:
        """That of the vehicle, whose loads may have absolute velocities, then those of the rotors."""
        q, v = self._symbols["q"], self._symbols["v"]
        own, p = self.passive, self.passive.parameter_vector()
        given = {"q": part(q, 0, own.nq), "v": part(v, 0, own.nv), "p": p}
        motion = own.traced("joint_velocity")
        (w,) = motion.expressions(*(given[name] for name in motion.inputs))
        return concatenate(w, part(v, own.nv, self.nv))

    def _through_the_air(self, q: Array, v: Array, u: Array) -> tuple[Array, Array]:
        """Twist (6,) of the hull in body axes, and its velocity (3,) through the air."""
        joint = self.vehicle.model.description.joints[0].joint
        own = part(q, 0, joint.coordinates.nq)
        J = joint.jacobian(own)
        twist = np.matvec(J, v) if is_symbolic(J) else v
        air = part(twist, 0, 3)
        if self.wind:
            nu = self.vehicle.model.nu
            air = air - np.matvec(transpose(se3.rotation(joint.pose(own))), part(u, nu, nu + 3))
        return twist, air

    def _speed(self, thrust: Array, known: Mapping[str, Array]) -> Array:
        """The angular velocity that makes a thrust, within its range."""
        p = self.propulsion
        low, high = p.speed
        high = high * known.get("speed_factor", 1.0)
        if low >= 0:
            wanted = np.sqrt(np.maximum(thrust, 0.0) / p.thrust_coefficient)
        else:
            wanted = np.sign(thrust) * np.sqrt(np.abs(thrust) / p.thrust_coefficient)
        return np.minimum(np.maximum(wanted, low), high)

    def start(self, q: Any, v: Any, thrusts: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """State (q, v) with level rotors at speeds that make the thrusts (default: those of hovering)."""
        p, vehicle, count = self.propulsion, self.vehicle, len(self.rotors)
        if thrusts is None:
            thrusts = np.full(count, vehicle.weight / count)
        thrusts = np.asarray(thrusts, dtype=float)
        speeds = np.sign(thrusts) * np.sqrt(np.abs(thrusts) / p.thrust_coefficient)
        speeds = np.concatenate([np.maximum(speeds, min(p.speed[0], 0.0)), np.zeros(len(self._tilting))])
        return extended_state(q, v, np.zeros(len(speeds)), speeds)

    def forces(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Forces (..., nu) that the propellers make, as inputs of the vehicle, from the state of the plant."""
        model, count = self.vehicle.model, len(self.rotors)
        n = v[..., model.nv : model.nv + count]
        thrust = self.propulsion.thrust_coefficient * n * np.abs(n)
        parts = []
        for k, rotor in enumerate(self.rotors):
            if rotor.tilt is None:
                parts.append(thrust[..., k])
            else:
                theta = q[..., model.nq + count + self._tilting.index(k)]
                parts += [-thrust[..., k] * np.sin(theta), thrust[..., k] * np.cos(theta)]
        return np.stack(parts, axis=-1)


def extended_state(q: Any, v: Any, more_q: np.ndarray, more_v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """States (..., nq), (..., nv) with further entries (m,), (n,) that all of them share."""
    lead = np.broadcast_shapes(np.shape(q)[:-1], np.shape(v)[:-1])
    pairs = ((np.asarray(q, dtype=float), more_q), (np.asarray(v, dtype=float), more_v))
    q, v = (np.concatenate([np.broadcast_to(x, (*lead, x.shape[-1])) for x in pair], axis=-1) for pair in pairs)
    return q, v


class OnRotors(OnPart):
    """A controller of the vehicle's motion, in a plant that also has rotors."""

    def __init__(self, controller: Any, vehicle: Vehicle) -> None:
        super().__init__(controller, vehicle.model)
