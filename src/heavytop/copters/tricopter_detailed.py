"""The tricopter with load as eight bodies: hull, load, three tilting arms, three spinning propellers.

The law of the reduced vehicle computes the forces of the propellers. Servos turn the arms, motors drive the propellers; their
inertia, gyroscopic moments and reaction on the hull are part of the plant and unknown to the law.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate, vector
from heavytop.control import OnPart, Seen
from heavytop.copters.loads import tricopter_with_load
from heavytop.copters.rotor_plant import extended_state
from heavytop.copters.vehicle import COMMANDED, Vehicle, add_rotors, weight_of
from heavytop.copters.vehicles import TRICOPTER_ARMS, hull
from heavytop.functions import recipe
from heavytop.geometry import se3, so3
from heavytop.system import Inertia, JointForce, Model, System, Thruster
from heavytop.system.joints import Revolute, Spherical

TORQUE_SIGNS = (1.0, -1.0, 1.0)


@dataclass(frozen=True)
class Drives:
    """Servos and motors of the tilting propellers.

    Parameters
    ----------
    thrust_coefficient : N/(rad/s)^2. drag_ratio : torque per thrust, m.
    servo : natural frequency of the tilt servos, rad/s, critically damped. motor : rate of the speed control of the motors, 1/s.
    """

    thrust_coefficient: float = 2e-5
    drag_ratio: float = 0.018
    servo: float = 80.0
    motor: float = 40.0


@dataclass(frozen=True, eq=False)
class FullPlant:
    """The model of the eight bodies, and its controller from that of the reduced vehicle.

    Its coordinates begin with those of the reduced vehicle; then follow tilt angles and propellers. Inputs: three tilt torques, three
    motor torques, three thrusts, which follow from the propellers' speeds.
    """

    model: Model
    reduced: Model
    drives: Drives
    arm_inertia: float
    propeller_inertia: float
    signs: tuple[float, ...] = field(default=TORQUE_SIGNS)

    def controller(self, inner: Any) -> CascadedController:
        """The controller of the full plant from that of the reduced vehicle."""
        return CascadedController(inner, self)

    def start(self, q: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """State with level arms and propellers at the speeds of hovering, from one (..., nq), (..., nv) of the reduced vehicle."""
        n = np.sqrt(weight_of(self.model) / 3 / self.drives.thrust_coefficient)
        circles, spins = np.tile([1.0, 0.0], 3), -np.asarray(self.signs) * n
        return extended_state(q, v, np.concatenate([np.zeros(3), circles]), np.concatenate([np.zeros(3), spins]))

    def forces(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        """Forces (..., 6) of the propellers as inputs of the reduced vehicle, from the state of the full plant."""
        theta, spin = q[..., self.reduced.nq : self.reduced.nq + 3], v[..., self.reduced.nv + 3 : self.reduced.nv + 6]
        thrust = self.drives.thrust_coefficient * spin**2
        return np.stack([-thrust * np.sin(theta), thrust * np.cos(theta)], axis=-1).reshape(*theta.shape[:-1], 6)


class CascadedController(OnPart):
    """Forces from the law of the reduced vehicle; tilt angles and speeds from the forces; torques from both."""

    def __init__(self, controller: Any, plant: FullPlant) -> None:
        super().__init__(controller, plant.reduced)
        self.full = plant

    def acted(self, at: Seen, u: Array) -> Array:
        """Torques of servos and motors, thrusts of the propellers."""
        plant, d = self.full, self.full.drives
        q, v = at.q, at.v
        nq, nv = plant.reduced.nq, plant.reduced.nv
        tilts, spins, thrusts = [], [], []
        for k, sign in enumerate(plant.signs):
            across, axial = u[2 * k], u[2 * k + 1]
            size = np.sqrt(across * across + axial * axial + 1e-12)
            theta, rate, spin = q[nq + k], v[nv + k], v[nv + 3 + k]
            # sine and cosine of the tilt error: the short way round
            sine = (-across * np.cos(theta) - axial * np.sin(theta)) / size
            cosine = (axial * np.cos(theta) - across * np.sin(theta)) / size
            stiff = plant.arm_inertia * d.servo**2
            tilts.append(stiff * np.arctan2(sine, cosine) - 2 * plant.arm_inertia * d.servo * rate)
            wanted = -sign * np.sqrt(size / d.thrust_coefficient)
            thrust = d.thrust_coefficient * spin * spin
            # the motor carries the drag of the propeller and corrects its speed
            spins.append(-sign * d.drag_ratio * thrust + plant.propeller_inertia * d.motor * (wanted - spin))
            thrusts.append(thrust)
        return concatenate(vector(*tilts), vector(*spins), vector(*thrusts))

    def channels(self, at: Seen, u: Array) -> dict[str, Array]:
        """The forces that servos and motors are to make."""
        return {COMMANDED: u}


@recipe
def tricopter_with_load_full(
    hull_mass: float = 0.9,
    arm_mass: float = 0.08,
    propeller_mass: float = 0.02,
    arm: float = 0.25,
    height: float = 0.03,
) -> Vehicle:
    """The tricopter with load as eight bodies with 15 degrees of freedom, flown by the law of its reduced model with nine degrees of freedom.

    >>> craft = tricopter_with_load_full()
    >>> craft.full.model
    Model('tricopter_with_load_full': nq=30, nv=15, nu=9, bodies=8)
    """
    drives = Drives()
    base = tricopter_with_load()
    load = base.model.description.inertias["load"]
    at = (0.0, 0.0, -0.05)
    body = Inertia(hull_mass, moment_at_com=(0.0065, 0.0065, 0.011))
    pod = Inertia(arm_mass, com=(-0.01, 0.0, 0.5 * height), moment_at_com=(4e-5, 8e-5, 8e-5))
    blades = Inertia(propeller_mass, moment_at_com=(1.2e-5, 1.2e-5, 2.4e-5))
    roots = [se3.pose(so3.rotation_about("z", a), arm * np.array([np.cos(a), np.sin(a), 0.0])) for a in TRICOPTER_ARMS]

    def describe() -> System:
        system = hull("tricopter_with_load_full", hull_mass, body.moment_at_com)
        system.body("load", parent="hull", at=at, joint=Spherical(velocity="relative"), inertia=load)
        for k, root in enumerate(roots, start=1):
            system.body(f"arm{k}", parent="hull", at=root, joint=Revolute("x"), inertia=pod)
        for k in (1, 2, 3):
            joint = Revolute("z", coordinates="circle")
            system.body(f"propeller{k}", parent=f"arm{k}", at=(0.0, 0.0, height), joint=joint, inertia=blades)
        for k in (1, 2, 3):
            system.input(f"tilt{k}", JointForce(f"arm{k}"))
        for k in (1, 2, 3):
            system.input(f"motor{k}", JointForce(f"propeller{k}"))
        for k, sign in enumerate(TORQUE_SIGNS, start=1):
            system.input(f"thrust{k}", Thruster(f"propeller{k}", drag_ratio=sign * drives.drag_ratio))
        return system

    # one rigid body from hull, level arms and propellers
    lift = se3.pose(np.eye(3), np.array([0.0, 0.0, height]))
    lumped = body
    for root in roots:
        lumped = lumped + pod.shifted(root) + blades.shifted(root @ lift)
    reduced = hull("tricopter_with_load_full", float(lumped.mass), lumped.moment_at_com, com=lumped.com)
    add_rotors(reduced, base.airframe.rotors)
    reduced.body("load", parent="hull", at=at, joint=Spherical(velocity="relative"), inertia=load)
    model = reduced.derive()
    about_tilt = float(pod.matrix[3, 3]) + float(blades.moment_at_com[0, 0]) + propeller_mass * height**2
    plant = FullPlant(describe().derive(), model, drives, about_tilt, float(blades.moment_at_com[2, 2]))
    rows = {
        **base.parameters,
        "bodies": "8: hull, load, 3 arms, 3 propellers",
        "tilt servos": f"{drives.servo:g} rad/s",
        "motors": f"{drives.motor:g} 1/s",
    }
    return replace(base, model=model, describe=describe, parameters=rows, full=plant)
