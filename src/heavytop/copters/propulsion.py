"""Propellers and motors as a test flight feels them: rotor speeds that lag behind, drag of rotors and frame.

The controller commands thrusts and knows none of this. With the velocity a = R^T r' of the hull through the air and a_k = a + omega x p_k
that of rotor k:

    n_k' = (n_k,cmd - n_k) / tau,    n_k,cmd = sqrt(thrust_k / k_eta), limited,
    thrust_k = k_eta n_k^2 + k_h (a_kx^2 + a_ky^2),    drag at the hub: -n_k diag(k_d, k_d, k_z) a_k,
    torque_k = +-k_m n_k^2,    drag of the frame: -|a| diag(c) a,

the model of RotorPy (Folk, Paulos, Kumar 2023, after Svacha, Mohta, Kumar 2017).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._arrays import Array, concatenate, part, vector
from heavytop.control.measurements import OnPart
from heavytop.coordinates import Product, Vector
from heavytop.errors import ModelError
from heavytop.simulate.dynamics import UserDynamics

if TYPE_CHECKING:
    from heavytop.copters.vehicle import Vehicle


@dataclass(frozen=True)
class Propulsion:
    """Coefficients of propellers and frame.

    Parameters
    ----------
    thrust_coefficient : k_eta, N/(rad/s)^2. torque_coefficient : k_m, N m/(rad/s)^2.
    speed : least and largest angular velocity, rad/s. time_constant : tau of the motors, s.
    rotor_drag, inflow : k_d, k_z, kg/rad. translational_lift : k_h, kg/m. parasitic_drag : c (3,), N/(m/s)^2.

    Examples
    --------
    >>> Propulsion(1e-5, 2e-7, (0.0, 1000.0)).thrust_range
    (0.0, 10.0)
    """

    thrust_coefficient: float
    torque_coefficient: float
    speed: tuple[float, float]
    time_constant: float = 0.0
    rotor_drag: float = 0.0
    inflow: float = 0.0
    translational_lift: float = 0.0
    parasitic_drag: tuple[float, float, float] = (0.0, 0.0, 0.0)

    @property
    def drag_ratio(self) -> float:
        """Torque per thrust, m."""
        return self.torque_coefficient / self.thrust_coefficient

    @property
    def thrust_range(self) -> tuple[float, float]:
        """Least and largest thrust of a rotor in still air, N."""
        low, high = self.speed
        return self.thrust_coefficient * low**2, self.thrust_coefficient * high**2


class RotorPlant(UserDynamics):
    """A vehicle with rotor speeds as states and drag, made from a vehicle whose model the controller knows.

    Coordinates: those of the hull, and the angles of the rotors; velocities: those of the hull, and the rotor speeds. Inputs: the
    commanded thrusts.

    Parameters
    ----------
    vehicle : one free body with fixed rotors and ``propulsion``.
    drag : whether air drag acts.
    """

    def __init__(self, vehicle: Vehicle, drag: bool = True) -> None:
        if vehicle.propulsion is None or vehicle.virtual is not None:
            raise ModelError(
                f"{vehicle.name!r} has no propulsion, or more rotors than independent directions: no rotor plant exists."
            )
        self.vehicle, self.drag = vehicle, drag
        count = len(vehicle.airframe.rotors)
        model = vehicle.model
        coordinates = Product((model.coordinates, Vector(count)), names=("body", "rotors"))
        super().__init__(
            coordinates,
            self._rates,
            inputs=tuple(f"command{k}" for k in range(count)),
            name=f"{vehicle.name} with rotors",
        )

    def _rates(self, q: Array, v: Array, u: Array) -> Array:
        model, p = self.vehicle.model, self.vehicle.propulsion
        if p is None:
            raise ModelError("no propulsion.")
        rotors = self.vehicle.airframe.rotors
        pose_q, twist, speeds = part(q, 0, model.nq), part(v, 0, 6), part(v, 6, 6 + len(rotors))
        low, high = p.speed
        lag = 1.0 / max(p.time_constant, 1e-6)
        rates, wrench = [], np.zeros(6)
        air, omega = part(twist, 0, 3), part(twist, 3, 6)
        size = np.sqrt(np.vecdot(air, air) + 1e-18)
        if self.drag:
            wrench = concatenate(-size * np.asarray(p.parasitic_drag) * air, np.zeros(3))
        resistance = np.array([p.rotor_drag, p.rotor_drag, p.inflow])
        for k, rotor in enumerate(rotors):
            wanted = np.sqrt(np.maximum(u[k], 0.0) / p.thrust_coefficient)
            wanted = np.minimum(np.maximum(wanted, low), high)
            n = speeds[k]
            rates.append(lag * (wanted - n))
            force = p.thrust_coefficient * n * n * rotor.axis
            if self.drag:
                local = air + np.cross(omega, rotor.at)
                across = local[0] * local[0] + local[1] * local[1]
                force = force - n * resistance * local + p.translational_lift * across * rotor.axis
            moment = (
                np.cross(rotor.at, force) + float(np.sign(rotor.drag_ratio)) * p.torque_coefficient * n * n * rotor.axis
            )
            wrench = wrench + concatenate(force, moment)
        (a,) = self.passive.traced("acceleration").expressions(pose_q, twist, wrench, self.passive.parameter_vector())
        return concatenate(a, vector(*rates))

    @property
    def passive(self) -> Any:
        """The hull with a wrench as input."""
        if "_passive" not in self.__dict__:
            from heavytop.copters.vehicles import hull
            from heavytop.system.inputs import Wrench

            inertia = self.vehicle.model.description.inertias["hull"]
            system = hull("hull", float(inertia.mass), np.asarray(inertia.moment_at_com), com=np.asarray(inertia.com))
            for k, name in enumerate(("fx", "fy", "fz", "mx", "my", "mz")):
                unit = np.eye(6)[k]
                system.input(name, Wrench("hull", force=unit[:3], moment=unit[3:]))
            self._passive = system.derive()
        return self._passive

    def start(self, q: Any, v: Any, thrusts: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """State (q, v) with rotor speeds that make the thrusts (default: those of hovering)."""
        p, vehicle = self.vehicle.propulsion, self.vehicle
        if p is None:
            raise ModelError("no propulsion.")
        count = len(vehicle.airframe.rotors)
        if thrusts is None:
            thrusts = np.full(count, vehicle.mass * 9.81 / count)
        speeds = np.sqrt(np.maximum(np.asarray(thrusts, dtype=float), 0.0) / p.thrust_coefficient)
        q, v = np.asarray(q, dtype=float), np.asarray(v, dtype=float)
        shape = np.broadcast_shapes(q.shape[:-1], v.shape[:-1])
        angles = np.zeros((*shape, count))
        q = np.broadcast_to(q, (*shape, q.shape[-1]))
        v = np.broadcast_to(v, (*shape, v.shape[-1]))
        return np.concatenate([q, angles], -1), np.concatenate([v, np.broadcast_to(speeds, (*shape, count))], -1)


class OnRotors(OnPart):
    """A controller of the hull's motion, in a plant that also has rotors."""

    def __init__(self, controller: Any, vehicle: Vehicle) -> None:
        super().__init__(controller, vehicle.model)
