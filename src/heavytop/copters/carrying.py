"""Robust control of vehicles with loads and limbs: the hull is controlled as one rigid body, its parts push it like a disturbance.

The rigid body has the mass of the whole and the inertia that the rotors feel: limbs with motors are locked, loads hang freely. Its controller
observes the force and the moment of the parts with those of the wind, and predicts, inverts and governs as for any hull. Motors of limbs follow
their joints' references by the accelerations of the full model; the hull follows the swing of its load, which damps it:

    x_o'' = 2 zeta w_s (v_load - v_hull) - 2 w_o x_o' - w_o^2 x_o,    horizontally, relative to the motion of the reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate, part, vector
from heavytop.compile import Traced, trace_of
from heavytop.control import Hull, HullMotion, PartialPlant, Seen, Wrapper, limited
from heavytop.copters.vehicle import Vehicle
from heavytop.copters.vehicles import multicopter
from heavytop.geometry import se3
from heavytop.system import GRAVITY, WORLD, Expressions, solve_definite

SWING, SLOW, FOLLOWED = 0.3, 0.4, 0.3
"""Damping ratio of the swing by the hull, frequency of the hull's way back per that of the swing, and largest acceleration per gravity."""


def has_parts(vehicle: Vehicle) -> bool:
    """Whether something moves relative to the hull: a load, an arm."""
    return len(vehicle.model.description.joints) > 1


def as_rigid(vehicle: Vehicle) -> Vehicle:
    """The vehicle as one rigid body: limbs locked in the neutral configuration, loads hanging freely, the mass of the whole.

    >>> from heavytop.copters.loads import quadcopter_with_load
    >>> whole = as_rigid(quadcopter_with_load())
    >>> round(whole.mass, 3), whole.model.nv
    (1.15, 6)
    """
    model = vehicle.model
    q, rest = model.neutral(), np.zeros(model.nv)
    M = model.mass_matrix(q)
    still = model.acceleration(q, rest, np.zeros(model.nu))
    B = np.array([M @ (model.acceleration(q, rest, unit) - still) for unit in np.eye(model.nu)]).T
    free = [k for k in range(6, model.nv) if np.max(np.abs(B[k])) < 1e-9 * np.max(np.abs(B))]
    felt = M[:6, :6]
    if free:
        felt = felt - M[:6, free] @ np.linalg.solve(M[np.ix_(free, free)], M[free, :6])
    mass = vehicle.mass
    S = felt[3:, :3] / mass
    com = 0.5 * np.array([S[2, 1] - S[1, 2], S[0, 2] - S[2, 0], S[1, 0] - S[0, 1]])
    C = np.array([[0, -com[2], com[1]], [com[2], 0, -com[0]], [-com[1], com[0], 0]])
    moment = felt[3:, 3:] + mass * C @ C
    joint: Any = model.description.joints[0].joint
    return multicopter(
        vehicle.airframe.rotors, mass, 0.5 * (moment + moment.T), com=com, name=vehicle.name, drag=vehicle.drag,
        propulsion=vehicle.propulsion, sensors=vehicle.sensors, attitude=joint.attitude, velocity=joint.velocity,
    )  # fmt: skip


class Carrying(Wrapper):
    """A controller of the rigid hull in a vehicle with loads or limbs, whose motors it also controls.

    Parameters
    ----------
    controller : controller of ``rigid``. vehicle : with its parts. rigid : see :func:`as_rigid`.
    """

    def __init__(self, controller: Any, vehicle: Vehicle, rigid: Vehicle) -> None:
        super().__init__(controller)
        self.vehicle, self.model, self.hull = vehicle, vehicle.model, Hull.of(rigid.model)
        self.reference_model = vehicle.model

    own_state_size = 6  # place and velocity of the hull relative to the reference, for the swing

    @property
    def law(self) -> Any:
        """The law of the whole, for its model."""
        return self.vehicle.law("energy", False)

    def margins(self, *given: Any, **named: Any) -> Any:
        """Those of the controller of the hull."""
        return self.controller.margins(*given, **named)

    def plant(self, model: Any) -> PartialPlant:
        own, hull = self.model, self.hull.model
        full = PartialPlant.of(model)
        return PartialPlant(
            full.name, hull.nq + full.nq - own.nq, hull.nv + full.nv - own.nv, full.u_names[: hull.nu], (), full.signals
        )

    def _hull_part(self, q: Array, v: Array) -> tuple[Array, Array]:
        hull = self.hull.model
        return part(q, 0, hull.nq), part(v, 0, hull.nv)

    @cached_property
    def _swing(self) -> Traced:
        """Velocity (3,) of the load's centre of mass relative to the hull, world axes, as function of (q, v)."""
        hanging: Any = self.vehicle.airframe.load
        e = Expressions(self.model.description)
        load, hull = (e.kinematics.motion(WORLD, body) for body in (hanging.body, "hull"))
        twist = np.matvec(load.jacobian, e.v)
        com = np.asarray(self.model.description.inertias[hanging.body].com, dtype=float)
        velocity = np.matvec(
            se3.rotation(e.kinematics.pose(WORLD, hanging.body)), part(twist, 0, 3) + np.cross(part(twist, 3, 6), com)
        )
        own = np.matvec(se3.rotation(e.kinematics.pose(WORLD, "hull")), part(np.matvec(hull.jacobian, e.v), 0, 3))
        return trace_of("swing", {"q": e.q, "v": e.v}, {"velocity": velocity - own})

    @property
    def _frequency(self) -> float:
        """Of the load's swing, rad/s."""
        load = self.vehicle.airframe.load
        return 0.0 if load is None else float(np.sqrt(GRAVITY / load.cable))

    def _followed(self, at: Seen) -> tuple[Array, Array, Array]:
        """Place, velocity and acceleration (3,) by which the hull follows its load."""
        place, velocity = part(at.z, 0, 3), part(at.z, 3, 6)
        w = self._frequency
        if not w:
            return place, velocity, np.zeros(3)
        own = self.model
        (now,) = self._swing.expressions(part(at.q, 0, own.nq), part(at.v, 0, own.nv))
        (wanted,) = self._swing.expressions(*at.reference[:2])
        push = limited(2 * SWING * w * (now - wanted), FOLLOWED * GRAVITY)
        slow = SLOW * w
        return place, velocity, vector(push[0], push[1], 0.0 * push[0]) - 2 * slow * velocity - slow**2 * place

    def seen(self, at: Seen) -> Mapping[str, Array]:
        own, hull = self.model, self.hull
        q, v = at.q, at.v
        rest_q, rest_v = part(q, own.nq, at.model.nq), part(v, own.nv, at.model.nv)
        q_R, v_R, a_R = at.reference
        wanted, acceleration, turn = hull.reference(*self._hull_part(q_R, v_R), part(a_R, 0, hull.model.nv))
        place, velocity, push = self._followed(at)
        moved = HullMotion(wanted.r + place, wanted.R, wanted.velocity + velocity, wanted.omega)
        reference = zip(("q_R", "v_R", "a_R"), hull.coordinates(moved, acceleration + push, turn), strict=True)
        now = self._hull_part(q, v)
        return {"q": concatenate(now[0], rest_q), "v": concatenate(now[1], rest_v), "p": np.zeros(0)} | dict(reference)

    def following(self, at: Seen, u: Array) -> Array:
        place, velocity, push = self._followed(at)
        later = velocity + at.period * push
        return concatenate(place + at.period * later, later)

    def acted(self, at: Seen, u: Array) -> Array:
        """The thrusts, and the torques of the motors that accelerate their joints towards the reference."""
        limbs, own = self.vehicle.limbs, self.model
        if not limbs:
            return u
        n = len(limbs)
        q, v = part(at.q, 0, own.nq), part(at.v, 0, own.nv)
        q_R, v_R, a_R = (
            part(x, len_ - n, len_) for x, len_ in zip(at.reference, (own.nq, own.nv, own.nv), strict=True)
        )
        w = np.array([limb.control_frequency for limb in limbs])
        damping = np.array([2 * limb.damping for limb in limbs]) * w
        wanted = a_R + damping * (v_R - part(v, own.nv - n, own.nv)) + w * w * (q_R - part(q, own.nq - n, own.nq))
        accelerate = own.traced("acceleration").expressions
        p = own.parameter_vector()

        def joints(torques: Any) -> Array:
            (a,) = accelerate(q, v, concatenate(u, torques), p)
            return part(a, own.nv - n, own.nv)

        free = joints(np.zeros(n))
        columns = [joints(unit) - free for unit in np.eye(n)]
        torques = solve_definite(np.stack(columns, axis=-1), wanted - free)
        most = [limb.force for limb in limbs]
        return concatenate(u, vector(*(np.minimum(np.maximum(torques[k], -most[k]), most[k]) for k in range(n))))
