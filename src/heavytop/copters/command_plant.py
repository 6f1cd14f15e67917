"""The plant of a vehicle driven by motor commands, with the coefficients that a log of a flight can determine.

Rotor k with the command c_k in 0 ... 1 and the battery voltage U makes the thrust

    T_k = thrust c_k^command_exponent (U / U_0)^voltage_exponent

along an axis that may lean a little against the measured body axes (tilt). Drag is linear and acts above the origin (the rotors are there, and
flapping adds to it), which turns the body; rates are damped. Commands are taken as they reach the propellers: delay and lag are unknowns of the
identification (``ht.identify.Delay``, ``Lag``). A long flight has no mean moment and no mean force, whatever the centre of mass, differences
between the rotors, the battery and the mounting of the sensors. With a trim the moments of slowly averaged commands are subtracted, thrusts are
scaled by the ``lift``-th power of the weight per thrust of these commands, and the thrust is along the mean vertical in body axes. Rotors that are
accelerated turn the body about their axes, and their angular momentum turns with it; the acceleration of a rotor is the difference between the given
and the lagging command, divided by the lag.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from heavytop._arrays import Array, concatenate, part, transpose, vector
from heavytop.control import Hull
from heavytop.copters.propulsion import typical_propulsion
from heavytop.copters.vehicle import Vehicle
from heavytop.errors import ModelError
from heavytop.geometry import se3
from heavytop.simulate import UserDynamics

LEAST_COMMAND = 1e-3


class CommandPlant(UserDynamics):
    """A vehicle with fixed rotors whose inputs are motor commands.

    Inputs: commands (0 ... 1) ``command0`` ..., then ``voltage`` (V) if there is a battery, then ``given0`` ..., the same commands without lag, if
    ``spin``, then, if ``trim``, ``lean0`` and ``lean1``, means of x and y of the vertical in body axes, and ``trim0`` ..., slowly averaged commands.
    Parameters: ``mass``; ``moment_x``, ``moment_y``, ``moment_z`` (kg m^2); ``thrust`` (N at full command), ``command_exponent``,
    ``voltage_exponent``; ``torque_ratio`` (m); ``drag_x``, ``drag_y``, ``drag_z`` (N/(m/s)), ``drag_height`` (m); ``damping_x``, ``damping_y``,
    ``damping_z`` (N m/(rad/s)); ``com_x``, ``com_y`` (m); ``tilt_x``, ``tilt_y`` (rad); with ``trim`` ``lift`` (0 to 1); with ``spin``
    ``spin_torque`` (N m per difference of a given and a lagging command: angular momentum of a rotor at full command per lag) and
    ``spin_momentum`` (N m s of a rotor at full command).

    Parameters
    ----------
    vehicle : one free body with fixed rotors. voltage : nominal battery voltage U_0, V; None: the battery is not measured.
    trim : whether mean moments and forces are removed; ``lean0`` and ``lean1`` are measurements of the motion, ``measured_inputs``, which keep their
        first value in a prediction. spin : whether the rotors have moments of inertia.

    Examples
    --------
    >>> from heavytop.copters import load
    >>> plant = CommandPlant(load("crazyflie"), voltage=3.7)
    >>> plant.u_names[:5]
    ('command0', 'command1', 'command2', 'command3', 'voltage')
    """

    def __init__(self, vehicle: Vehicle, voltage: float | None = None, trim: bool = True, spin: bool = False) -> None:
        rotors = vehicle.airframe.rotors
        if any(rotor.tilt is not None for rotor in rotors):
            raise ModelError(f"{vehicle.name!r} has tilting rotors; a CommandPlant has fixed ones.")
        hull = Hull.of(vehicle.model)
        self.vehicle, self.voltage, self.trim, self.spin, self.hull = vehicle, voltage, trim, spin, hull
        p = vehicle.propulsion or typical_propulsion(vehicle)
        count = len(rotors)
        hover = np.sqrt(vehicle.weight / count / p.thrust_coefficient)
        drag, inflow = count * hover * p.rotor_drag, count * hover * p.inflow
        x, y, z = np.diag(hull.moment).tolist()
        parameters = {
            "mass": hull.mass,
            "moment_x": x,
            "moment_y": y,
            "moment_z": z,
            "thrust": p.thrust_range[1],
            "command_exponent": 1.0,
            "voltage_exponent": 1.0 if voltage is not None else 0.0,
            "torque_ratio": p.drag_ratio,
            "drag_x": drag,
            "drag_y": drag,
            "drag_z": inflow,
            "drag_height": 0.0,
            "damping_x": 0.0,
            "damping_y": 0.0,
            "damping_z": 0.0,
            "com_x": 0.0,
            "com_y": 0.0,
            "tilt_x": 0.0,
            "tilt_y": 0.0,
        }
        if trim:
            parameters |= {"lift": 0.0}
        if spin:
            parameters |= {"spin_torque": 0.0, "spin_momentum": 0.0}
        commands = tuple(f"command{k}" for k in range(count))
        battery = () if voltage is None else ("voltage",)
        given = tuple(f"given{k}" for k in range(count)) if spin else ()
        self.measured_inputs = ("lean0", "lean1") if trim else ()
        averaged = (*self.measured_inputs, *(f"trim{k}" for k in range(count))) if trim else ()
        super().__init__(
            vehicle.model.coordinates,
            self._rates,
            inputs=(*commands, *battery, *given, *averaged),
            parameters=parameters,
            name=f"{vehicle.name} with motor commands",
        )

    def _thrusts(self, commands: Array, u: Array, p: Mapping[str, Array]) -> list[Array]:
        count = len(self.vehicle.airframe.rotors)
        full = p["thrust"]
        if self.voltage is not None:
            full = full * np.exp(p["voltage_exponent"] * np.log(np.maximum(u[count], 0.1) / self.voltage))
        least = [np.maximum(commands[k], LEAST_COMMAND) for k in range(count)]
        return [full * np.exp(p["command_exponent"] * np.log(c)) for c in least]

    def _moments(self, thrusts: list[Array], p: Mapping[str, Array]) -> Array:
        """(3,) moments of the rotors about the origin."""
        total = np.zeros(3)
        for T, rotor in zip(thrusts, self.vehicle.airframe.rotors, strict=True):
            turn = np.cross(rotor.at, rotor.axis) + float(np.sign(rotor.drag_ratio)) * p["torque_ratio"] * rotor.axis
            total = total + T * turn
        return total

    def _spin(self, u: Array, omega: Array, p: Mapping[str, Array]) -> Array:
        """(3,) moment -h_dot - omega x h of the angular momentum h of the rotors, which turn against their torque on the body."""
        count = len(self.vehicle.airframe.rotors)
        first = self.u_names.index("given0")
        torque, momentum = np.zeros(3), np.zeros(3)
        for k, rotor in enumerate(self.vehicle.airframe.rotors):
            axis = float(np.sign(rotor.drag_ratio)) * rotor.axis
            torque = torque + p["spin_torque"] * (part(u, first, first + count)[k] - u[k]) * axis
            momentum = momentum - p["spin_momentum"] * u[k] * axis
        return torque - np.cross(omega, momentum)

    def _rates(self, q: Array, v: Array, u: Array, p: Mapping[str, Array]) -> Array:
        rotors = self.vehicle.airframe.rotors
        count = len(rotors)
        motion = self.vehicle.model.description.joints[0].joint
        back = transpose(se3.rotation(motion.pose(q)))
        velocity, omega = part(v, 0, 3), part(v, 3, 6)
        thrusts, axis = self._thrusts(part(u, 0, count), u, p), vector(p["tilt_x"], p["tilt_y"], 0.0 * p["tilt_x"])
        mean: list[Array] = []
        if self.trim:
            first = len(self.u_names) - count
            mean = self._thrusts(part(u, first, first + count), u, p)
            weight = p["mass"] * float(np.linalg.norm(self.hull.gravity))
            scale = np.exp(p["lift"] * np.log(weight / sum(mean[1:], mean[0])))
            thrusts, mean = ([scale * T for T in Ts] for Ts in (thrusts, mean))
            axis = axis + vector(u[first - 2], u[first - 1], 0.0 * p["mass"])
        total = sum(thrusts[1:], thrusts[0])
        push = np.zeros(3)
        for T, rotor in zip(thrusts, rotors, strict=True):
            push = push + T * rotor.axis
        drag = -vector(p["drag_x"] * velocity[0], p["drag_y"] * velocity[1], p["drag_z"] * velocity[2])
        moment = self._moments(thrusts, p)
        if self.trim:
            moment = moment - self._moments(mean, p)
        if self.spin:
            moment = moment + self._spin(u, omega, p)
        across = vector(-p["drag_height"] * drag[1], p["drag_height"] * drag[0], 0.0 * p["mass"])
        offset = vector(-p["com_y"] * total, p["com_x"] * total, 0.0 * p["mass"])
        rates = vector(*(p[f"damping_{axis}"] * omega[k] for k, axis in enumerate("xyz")))
        J = [p["moment_x"], p["moment_y"], p["moment_z"]]
        spin = vector(*(J[k] * omega[k] for k in range(3)))
        moment = moment + across + offset - rates - np.cross(omega, spin)
        weight = np.matvec(back, self.hull.gravity)
        linear = (push + total * axis + drag) / p["mass"] + weight - np.cross(omega, velocity)
        return concatenate(linear, vector(*(moment[k] / J[k] for k in range(3))))
