"""Sensors of a robot file as functions of the state, with the values that MuJoCo gives them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from heavytop._arrays import Floats, numbers
from heavytop.geometry import quaternion, se3
from heavytop.io.actuation import Actuation
from heavytop.io.robot import RobotSensor
from heavytop.system import WORLD, Model, at_defaults

AXES = {"framexaxis": 0, "frameyaxis": 1, "framezaxis": 2}
ACCELERATED = ("accelerometer", "framelinacc", "frameangacc")


@dataclass(frozen=True, eq=False)
class SensorFunction:
    """A sensor: ``sensor(model, q, v, u)`` is its value (..., n); positions need q only, accelerations the inputs u (default 0).

    ``kind`` is its name in MJCF, ``target`` the frame, body, joint or actuator it measures. Noise is not added.
    """

    name: str
    kind: str
    target: str
    given: RobotSensor
    actuation: Actuation
    zeros: Mapping[str, float]
    frames: Mapping[str, str]

    def __call__(self, model: Model, q: Any, v: Any = None, u: Any = None) -> Floats:
        """The value at a state."""
        q = numbers(q, "q")
        v = np.zeros((*q.shape[:-1], model.nv)) if v is None else numbers(v, "v")
        u = np.zeros((*q.shape[:-1], model.nu)) if u is None else numbers(u, "u")
        value = self._value(model, q, v, u)
        return value if not self.given.cutoff else np.clip(value, -self.given.cutoff, self.given.cutoff)

    def _value(self, model: Model, q: Floats, v: Floats, u: Floats) -> Floats:
        kind = self.kind
        if kind in ("e_potential", "e_kinetic"):
            energy = model.potential_energy(q) if kind == "e_potential" else model.kinetic_energy(q, v)
            return np.asarray(energy)[..., None]
        if kind.startswith("subtree"):
            return self._of_subtree(model, q, v)
        if kind in ("ballquat", "ballangvel"):
            if kind == "ballangvel":
                return v[..., model.coordinates.v_slice(self.target)]
            edge = next(edge for edge in model.description.joints if edge.label == self.target)
            R = se3.rotation(edge.joint.pose(q[..., model.coordinates.q_slice(self.target)]))
            return quaternion.quaternion_from_rotation(R)
        if kind.endswith(("frc", "pos", "vel")) and not kind.startswith("frame"):
            return self._along(model, q, v, u)[..., None]
        return self._of_frame(model, q, v, u)

    # --- frames -----------------------------------------------------------------------------------------------------------------

    def _place(self, model: Model, name: str, is_inertial: bool, q: Floats) -> tuple[str, Floats]:
        """The frame of the model that carries an object, and the object in it."""
        name = self.frames.get(name, name)
        if not is_inertial or name not in model.description.inertias:
            return name, np.eye(4)
        body = model.description.inertias[name]
        center = at_defaults(body.center, model.description.parameters)
        return name, se3.pose(np.eye(3), center)

    def _of_frame(self, model: Model, q: Floats, v: Floats, u: Floats) -> Floats:
        name, offset = self._place(model, self.target, self.given.at_center, q)
        base, base_offset = self._place(model, self.given.reference or WORLD, self.given.reference_at_center, q)
        kind = self.kind
        if kind in ("gyro", "velocimeter", *ACCELERATED):
            base, base_offset = WORLD, np.eye(4)
        pose = se3.inverse(base_offset) @ model.pose(base, name, q) @ offset
        R = se3.rotation(pose)
        if kind == "framepos":
            return se3.position(pose)
        if kind == "framequat":
            return quaternion.quaternion_from_rotation(R)
        if kind in AXES:
            return R[..., :, AXES[kind]]

        def moved(twist: Floats) -> Floats:
            """A twist of the carrying frame at the object, in its axes."""
            omega = twist[..., 3:]
            linear = twist[..., :3] + np.cross(omega, se3.position(offset))
            return np.concatenate([linear, omega], axis=-1).astype(float, copy=False)

        twist = moved(model.twist(base, name, q, v))
        if kind == "gyro":
            return twist[..., 3:]
        if kind == "velocimeter":
            return twist[..., :3]
        if kind in ("framelinvel", "frameangvel"):
            return np.matvec(R, twist[..., :3] if kind == "framelinvel" else twist[..., 3:])
        rate = moved(model.twist_rate(base, name, q, v, model.acceleration(q, v, u)))
        if kind == "frameangacc":
            return np.matvec(R, rate[..., 3:])
        # proper acceleration v' + omega x v - R^T g, in axes of the sensor or of the world
        gravity = at_defaults(model.description.gravity, model.description.parameters)
        proper = rate[..., :3] + np.cross(twist[..., 3:], twist[..., :3])
        proper = proper - np.matvec(np.swapaxes(R, -1, -2), gravity)
        return proper if kind == "accelerometer" else np.matvec(R, proper)

    def _of_subtree(self, model: Model, q: Floats, v: Floats) -> Floats:
        """Centre of mass, its velocity, or the angular momentum about it, of a body with everything that it carries."""
        inside = {self.target}
        for step in model.description.graph.spanning_tree():
            if step.parent in inside:
                inside.add(step.frame)
        total, moment, momentum, spin = 0.0, np.zeros(3), np.zeros(3), np.zeros(3)
        for name, body in model.description.inertias.items():
            if name not in inside:
                continue
            values = (
                at_defaults(x, model.description.parameters) for x in (body.total, body.center, body.moment_at_center)
            )
            mass, center, J = values
            pose, twist = model.pose(WORLD, name, q), model.twist(WORLD, name, q, v)
            R = se3.rotation(pose)
            at = se3.transform(pose, center)
            speed = np.matvec(R, twist[..., :3] + np.cross(twist[..., 3:], center))
            total, moment, momentum = total + float(mass), moment + mass * at, momentum + mass * speed
            spin = spin + np.matvec(R, np.matvec(J, twist[..., 3:])) + mass * np.cross(at, speed)
        middle = moment / total
        if self.kind == "subtreecom":
            return middle
        return momentum / total if self.kind == "subtreelinvel" else spin - np.cross(middle, momentum)

    # --- lengths and forces -------------------------------------------------------------------------------------------------

    def _along(self, model: Model, q: Floats, v: Floats, u: Floats) -> Floats:
        """Length, rate or force along a joint, a tendon or an actuator."""
        if self.kind.endswith("frc"):
            total = np.zeros(np.broadcast_shapes(q.shape[:-1], u.shape[:-1]))
            for k, law in enumerate(self.actuation.laws):
                if law.name in self.given.shares:
                    total = total + self.given.shares[law.name] * (law.scale * u[..., k] + law.bias(q, v))
            return total
        total: Floats = np.zeros(q.shape[:-1])
        edges = {edge.label: edge.joint for edge in model.description.graph.edges}
        for joint, c in self.given.terms:
            source = edges[joint].follows or joint
            x = q[..., model.coordinates.q_slice(source)]
            w = v[..., model.coordinates.v_slice(source)]
            if edges[joint].follows is not None:
                x, w = edges[joint].follow(x, w)
            total = total + c * (w[..., 0] if self.kind.endswith("vel") else x[..., 0] + self.zeros.get(joint, 0.0))
        return total
