"""The oracle: the motion of a :class:`~oracle.description.SystemData` by Newton and Euler in maximal coordinates.

Every body has the position of its centre of mass, a rotation matrix and, in world axes, a velocity and an angular velocity: X. Every joint,
also a coupled one, has velocities y. Six rows per joint, ``L X = S y + drift``, state that the pose of b is that of a times the motion of the
joint; they and their rates come from derivatives along curves (:mod:`~oracle.jets`). Loops are joints whose velocities are eliminated. Dense
linear algebra does the rest. Nothing of heavytop is imported, and no formula of it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from oracle.description import (
    WORLD,
    Body,
    Edge,
    Element,
    Joint,
    Loop,
    Number,
    Par,
    Place,
    Smooth,
    State,
    SystemData,
    Wave,
)
from oracle.jets import (
    Jet,
    arctan,
    axial,
    cross,
    displacement_matrix,
    dot,
    jet,
    join,
    rotation_vector,
    sin,
    skew_matrix,
    solve3,
    sqrt,
    stack,
    turn,
)

RANK = 1e-9
"""Singular values of the scaled constraints below this share of the largest one are zero."""


# --- joints ---------------------------------------------------------------------------------------------------------------


def attitude_matrix(attitude: str, q: Jet) -> Jet:
    """The rotation matrix of the coordinates of an attitude."""
    if attitude == "matrix":
        return stack([q[0:3], q[3:6], q[6:9]]).T
    if attitude == "euler":
        return turn((0, 0, 1), q[2]) @ turn((0, 1, 0), q[1]) @ turn((1, 0, 0), q[0])
    w, x, y, z = (q[i] for i in range(4))
    return stack(
        [
            stack([w * w + x * x - y * y - z * z, 2 * (x * y - w * z), 2 * (x * z + w * y)]),
            stack([2 * (x * y + w * z), w * w - x * x + y * y - z * z, 2 * (y * z - w * x)]),
            stack([2 * (x * z - w * y), 2 * (y * z + w * x), w * w - x * x - y * y + z * z]),
        ]
    )


def attitude_rate(attitude: str, q: Jet, omega: Any) -> Jet:
    """Rates of the coordinates of an attitude for the angular velocity omega in axes of the moved frame."""
    if attitude == "matrix":
        R = attitude_matrix(attitude, q) @ skew_matrix(omega)
        return R.each(lambda part: part.T.reshape(9))
    if attitude == "quaternion":
        w, r = q[0], q[1:4]
        vector = w * omega + cross(r, omega)
        return 0.5 * stack([-dot(r, omega), vector[0], vector[1], vector[2]])
    # omega = e_x roll' + Rx^T (e_y pitch' + Ry^T e_z yaw')
    back = turn((1, 0, 0), -q[0])
    columns = stack(
        [jet([1.0, 0, 0]), back @ np.array([0.0, 1, 0]), back @ (turn((0, 1, 0), -q[1]) @ np.array([0.0, 0, 1]))]
    )
    return solve3(columns.T, jet(omega))


def unified_matrix() -> np.ndarray:
    """w = D xi: speeds of the six face centres of a cube along their directions."""
    points = np.array([[0, -1, 0], [0, 1, 0], [0, 0, -1], [0, 0, 1], [-1, 0, 0], [1, 0, 0]], dtype=float)
    directions = np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]]) / np.sqrt(2)
    return np.hstack([directions, np.cross(points, directions)])


def joint_rate(joint: Joint, q: Jet, v: np.ndarray) -> Jet:
    """q' for the velocities v relative to frame a."""
    if joint.kind == "revolute" and joint.circle:
        return stack([-q[1] * v[0], q[0] * v[0]])
    if joint.kind == "spherical":
        return attitude_rate(joint.attitude, q, v)
    if joint.kind == "free":
        if joint.velocity == "unified":
            v = np.linalg.solve(unified_matrix(), v)
        turned = attitude_rate(joint.attitude, q[3:], v[3:])
        along = jet(v[:3]) if joint.velocity == "mixed" else attitude_matrix(joint.attitude, q[3:]) @ v[:3]
        return join(along, turned)
    return jet(v)


def joint_tangent(joint: Joint, q: np.ndarray, v: np.ndarray) -> Jet:
    """q along the motion with the velocities v, to first order."""
    return Jet(q, joint_rate(joint, jet(q), v).f0)


def joint_curve(joint: Joint, q: np.ndarray, v: np.ndarray) -> Jet:
    """q along the motion with constant velocities v."""
    if not np.any(v):
        return jet(q)
    first = joint_rate(joint, jet(q), v).f0
    return Jet(q, first, joint_rate(joint, Jet(q, first), v).f1)


def joint_pose(joint: Joint, q: Jet) -> tuple[Jet, Jet]:
    """Rotation and position of frame b in the joint frame."""
    still, none = jet(np.eye(3)), jet(np.zeros(3))
    if joint.kind == "fixed":
        return still, none
    if joint.kind == "revolute":
        if joint.circle:
            K = skew_matrix(joint.axes[0])
            return np.eye(3) + q[1] * K + (1 - q[0]) * (K @ K), none
        return turn(joint.axes[0], q[0]), none
    if joint.kind == "prismatic":
        return still, q[0] * joint.axes[0]
    if joint.kind == "cylindrical":
        return turn(joint.axes[0], q[0]), q[1] * joint.axes[0]
    if joint.kind == "universal":
        return turn(joint.axes[0], q[0]) @ turn(joint.axes[1], q[1]), none
    if joint.kind == "planar":
        return turn((0, 0, 1), q[2]), stack([q[0], q[1], 0.0])
    if joint.kind == "spherical":
        return attitude_matrix(joint.attitude, q), none
    if joint.kind == "free":
        return attitude_matrix(joint.attitude, q[3:]), q[:3]
    R, p = still, none
    for what, axis, slopes, bends in joint.stages:
        amount = dot(slopes, q) + dot(bends, sin(q))
        if what == "turn":
            R = R @ turn(axis, amount)
        else:
            p = p + R @ (amount * axis)
    return R, p


def neutral(joint: Joint) -> np.ndarray:
    if joint.kind == "revolute" and joint.circle:
        return np.array([1.0, 0.0])
    if joint.kind in ("spherical", "free"):
        turned = {"matrix": np.eye(3).reshape(9), "quaternion": np.array([1.0, 0, 0, 0]), "euler": np.zeros(3)}[
            joint.attitude
        ]
        return np.concatenate([np.zeros(3), turned]) if joint.kind == "free" else turned
    return np.zeros(joint.nv)


def exp_rotation(d: np.ndarray) -> np.ndarray:
    angle = float(np.linalg.norm(d))
    return np.eye(3) if angle == 0 else turn(d / angle, angle).f0


def displacement(joint: Joint, q: Jet, rest: np.ndarray) -> Jet:
    """The displacement from the rest position, which itself is given as a displacement from neutral."""
    if joint.kind == "revolute" and joint.circle:
        c, s = np.cos(rest[0]), np.sin(rest[0])
        along, across = q[0] * c + q[1] * s, q[1] * c - q[0] * s
        return stack([2 * arctan(across / (sqrt(along * along + across * across) + along))])
    if joint.kind == "spherical":
        return rotation_vector(exp_rotation(rest).T @ attitude_matrix(joint.attitude, q))
    if joint.kind != "free":
        return q - rest
    D = unified_matrix() if joint.velocity == "unified" else np.eye(6)
    rest = np.linalg.solve(D, rest)
    R0 = exp_rotation(rest[3:])
    R, p = joint_pose(joint, q)
    turned = rotation_vector(R0.T @ R)
    if joint.velocity == "mixed":
        moved = p - rest[:3]
    else:
        p0 = displacement_matrix(jet(rest[3:])).f0 @ rest[:3] if np.any(rest[3:]) else rest[:3]
        moved = solve3(displacement_matrix(turned), R0.T @ (p - p0))
    return D @ join(moved, turned)


# --- the system -----------------------------------------------------------------------------------------------------------


@dataclass
class Motion:
    """Pose and velocity of a body: centre of mass c, rotation R, velocity of c and angular velocity in world axes; centre in the body."""

    c: np.ndarray
    R: np.ndarray
    vc: np.ndarray
    omega: np.ndarray
    com: np.ndarray

    @property
    def origin(self) -> np.ndarray:
        return self.c - self.R @ self.com

    @property
    def origin_velocity(self) -> np.ndarray:
        return self.vc - np.cross(self.omega, self.R @ self.com)

    def curve(self) -> tuple[Jet, Jet]:
        """Rotation and position of the origin along the motion without acceleration of X."""
        W = skew_matrix(self.omega)
        R = Jet(self.R, W @ self.R, W @ W @ self.R)
        return R, Jet(self.c, self.vc) - R @ self.com


@dataclass
class Row:
    """Six rows of a joint: p and R of b less those reached through a, with their rates at zero acceleration; per velocity of the joint S."""

    S: np.ndarray
    drift: np.ndarray
    bias: np.ndarray


class Maximal:
    """Everything about one state of a system; ``parameters`` replace the values of its description."""

    def __init__(self, system: SystemData, state: State, parameters: Mapping[str, float] | None = None) -> None:
        self.system, self.state = system, state
        self.parameters = {**system.parameters, **(parameters or {})}
        self.t = Jet(state.t, 1.0)
        self.places: dict[int, tuple[Jet, Jet]] = {}
        self.gaps: dict[str, float] = {}
        self.loop_velocity: dict[str, np.ndarray] = {}
        self.body = {body.name: body for body in system.bodies}
        self.index = {body.name: 6 * i for i, body in enumerate(system.bodies)}
        self.size = 6 * len(system.bodies)
        self.edge = {edge.name: edge for edge in system.edges}
        self.slot: dict[str, slice] = {}
        count = 0
        for edge in system.edges:
            if edge.joint.nv and not edge.joint.motion:
                self.slot[edge.name] = slice(count, count + edge.joint.nv)
                count += edge.joint.nv
        self.ny = count
        self.own: dict[str, slice] = {}
        count = 0
        for edge in system.joints:
            self.own[edge.name] = slice(count, count + edge.joint.nv)
            count += edge.joint.nv
        self.nv = count
        self._poses()
        self._equations()

    # numbers

    def number(self, x: Number) -> Jet:
        if isinstance(x, Par):
            return jet(x.factor * self.parameters[x.name] + x.offset)
        if isinstance(x, Wave):
            return x.mean + x.amplitude * sin(x.rate * self.t + x.phase)
        return jet(x)

    def value(self, x: Any) -> Any:
        """Floats in place of numbers, also inside of tuples."""
        if isinstance(x, tuple | list):
            return np.array([self.value(part) for part in x])
        return self.number(x).f0 if isinstance(x, Par | Wave) else np.asarray(x, dtype=float)

    def each(self, x: Any, n: int) -> np.ndarray:
        return np.broadcast_to(self.value(x), (n,)).astype(float)

    def place(self, at: Place) -> tuple[Jet, Jet]:
        found = self.places.get(id(at))
        if found is None:
            R = at.R @ turn(at.axis, self.number(at.angle)) if not _is_zero(at.angle) else jet(at.R)
            found = self.places[id(at)] = R, stack([self.number(x) for x in at.p])
        return found

    def smooth(self, f: Smooth, curves: Mapping[str, Jet]) -> Jet:
        total = self.number(f.constant)
        for c, name, component, w, p in f.terms:
            total = total + c * sin(w * curves[name][component] + p)
        return total

    # kinematics

    def _poses(self) -> None:
        """Poses and velocities of all bodies, from the world on."""
        self.motion = {WORLD: Motion(np.zeros(3), np.eye(3), np.zeros(3), np.zeros(3), np.zeros(3))}
        self.q: dict[str, np.ndarray] = {}
        self.y: dict[str, np.ndarray] = {}
        left = list(self.system.edges)
        while left:
            ready = [e for e in left if (e.a in self.motion or e.b in self.motion) and self._knows(e)]
            assert ready, "the bodies are not connected"
            for edge in ready:
                left.remove(edge)
                self._move(edge)

    def _knows(self, edge: Edge) -> bool:
        return not edge.joint.source or edge.joint.source in self.q

    def _move(self, edge: Edge) -> None:
        joint = edge.joint
        forward = edge.a in self.motion
        if joint.source:
            source = self.edge[joint.source].joint
            ratio, offset = float(self.number(joint.ratio).f0), float(self.number(joint.offset).f0)
            self.q[edge.name] = ratio * self.q[joint.source] + offset
            self.y[edge.name] = ratio * self.y[joint.source]
            assert source.nv == 1
        elif joint.is_independent:
            self.q[edge.name] = np.asarray(self.state.q[edge.name], dtype=float)
            given = np.asarray(self.state.v[edge.name], dtype=float)
            if joint.velocity == "absolute":  # of b, in its axes; the relative one follows
                assert forward
                still = self._reached(self.motion[edge.a], edge, np.zeros(joint.nv))
                given = given - still[0].f0.T @ axial(still[0].f1 @ still[0].f0.T)
            self.y[edge.name] = given
        y = self.y.get(edge.name, np.zeros(0))
        if forward:
            R, p = self._reached(self.motion[edge.a], edge, y)
            name = edge.b
        else:
            Rb, pb = self.motion[edge.b].curve()
            Rj, pj = self._relative(edge, y)
            R = Rb @ Rj.T
            p = pb - R @ pj
            name = edge.a
        com = self.value(self.body[name].com)
        c = p + R @ com
        self.motion[name] = Motion(c.f0, R.f0, c.f1, axial(R.f1 @ R.f0.T), com)

    def _relative(self, edge: Edge, y: np.ndarray) -> tuple[Jet, Jet]:
        """Frame b in frame a along the motion with constant velocities y of the joint."""
        joint = edge.joint
        R0, p0 = self.place(edge.at)
        if joint.motion:
            curve = stack([self.number(x) for x in joint.motion])
        elif joint.nv:
            curve = joint_curve(joint, self.q[edge.name], y)
        else:
            curve = jet(np.zeros(0))
        Rj, pj = joint_pose(joint, curve)
        return R0 @ Rj, p0 + R0 @ pj

    def _reached(self, motion: Motion, edge: Edge, y: np.ndarray) -> tuple[Jet, Jet]:
        Ra, pa = motion.curve()
        R, p = self._relative(edge, y)
        return Ra @ R, pa + Ra @ p

    def row(self, edge: Edge) -> Row:
        """The rows of a joint, at b."""
        joint, n = edge.joint, edge.joint.nv if not edge.joint.motion else 0
        y = self.y.get(edge.name, np.zeros(0))
        a, b = self.motion[edge.a], self.motion[edge.b]
        R, p = self._relative(edge, np.zeros(n))
        drift = np.concatenate([a.R @ p.f1, a.R @ axial(R.f1 @ R.f0.T)])
        axes = a.R @ self.place(edge.at)[0].f0
        columns = []
        for unit in np.eye(n):
            Rj, pj = joint_pose(joint, joint_tangent(joint, self.q[edge.name], unit))
            columns.append(np.concatenate([axes @ pj.f1, axes @ axial(Rj.f1 @ Rj.f0.T)]))
        R, p = self._reached(a, edge, y)
        _, pb = b.curve()
        bias = np.concatenate([p.f2 - pb.f2, axial(R.f2 @ R.f0.T)])
        return Row(np.array(columns).T.reshape(6, n), drift, bias)

    def _left(self, edge: Edge) -> np.ndarray:
        """L (6, size): velocity and angular velocity of b less those of a at the same point."""
        L = np.zeros((6, self.size))
        point = self.motion[edge.b].origin
        for name, sign in ((edge.b, 1.0), (edge.a, -1.0)):
            if name != WORLD:
                k = self.index[name]
                L[:3, k : k + 3] += sign * np.eye(3)
                L[:3, k + 3 : k + 6] -= sign * skew_matrix(point - self.motion[name].c)
                L[3:, k + 3 : k + 6] += sign * np.eye(3)
        return L

    def _equations(self) -> None:
        """X' = N z' + gamma, y' = K z', X = N z + drift, with the velocities z of the independent joints relative to their parents."""
        edges = self.system.edges
        assert len(edges) == len(self.system.bodies)
        rows = [self.row(edge) for edge in edges]
        L = np.vstack([self._left(edge) for edge in edges])
        S = np.zeros((self.size, self.ny))
        for i, (edge, row) in enumerate(zip(edges, rows, strict=True)):
            if edge.name in self.slot:
                S[6 * i : 6 * i + 6, self.slot[edge.name]] = row.S
        K = np.zeros((self.ny, self.nv))
        for edge in edges:
            if edge.name in self.own:
                K[self.slot[edge.name], self.own[edge.name]] = np.eye(edge.joint.nv)
            elif edge.joint.source:
                K[self.slot[edge.name], self.own[edge.joint.source]] = float(self.number(edge.joint.ratio).f0)
        solved = np.linalg.solve(
            L, np.column_stack([S @ K, np.concatenate([r.drift for r in rows]), np.concatenate([r.bias for r in rows])])
        )
        self.tree = np.hstack([L, -S]), np.concatenate([r.bias for r in rows])
        self.N, self.drift, self.gamma = solved[:, : self.nv], solved[:, self.nv], solved[:, self.nv + 1]
        self.K = K
        self.z = np.concatenate([np.zeros(0), *(self.y[e.name] for e in self.system.joints)])
        X = np.concatenate(
            [np.zeros(0), *(np.concatenate([m.vc, m.omega]) for n, m in self.motion.items() if n != WORLD)]
        )
        order = np.concatenate([np.arange(self.index[n], self.index[n] + 6) for n in self.motion if n != WORLD])
        self.X = np.zeros(self.size)
        self.X[order] = X
        assert np.allclose(self.X, self.N @ self.z + self.drift, rtol=1e-9, atol=1e-9 * (1 + np.max(np.abs(self.X))))
        self.N_all, self.gamma_all = np.vstack([self.N, K]), np.concatenate([self.gamma, np.zeros(self.ny)])

    @cached_property
    def curves(self) -> dict[str, Jet]:
        """Coordinates of the independent joints along the motion at z' = 0."""
        return {e.name: joint_curve(e.joint, self.q[e.name], self.y[e.name]) for e in self.system.joints}

    def unit_curves(self, k: int) -> dict[str, Jet]:
        """Coordinates along the k-th unit of z, at a fixed time."""
        unit = np.eye(self.nv)[k]
        return {e.name: joint_tangent(e.joint, self.q[e.name], unit[self.own[e.name]]) for e in self.system.joints}

    # velocities v of the user: v = V z + v0, v' = V z' + v_bias

    @cached_property
    def own_velocity(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        V, v0, bias = np.eye(self.nv), np.zeros(self.nv), np.zeros(self.nv)
        for edge in self.system.joints:
            if edge.joint.velocity == "absolute":
                V[self.own[edge.name]], v0[self.own[edge.name]], bias[self.own[edge.name]] = self._absolute(edge)
        return V, v0, bias

    def _absolute(self, edge: Edge) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        back, k = self.motion[edge.b].R.T, self.index[edge.b] + 3
        return back @ self.N[k : k + 3], back @ self.drift[k : k + 3], back @ self.gamma[k : k + 3]

    @cached_property
    def v(self) -> np.ndarray:
        V, v0, _ = self.own_velocity
        return V @ self.z + v0

    # --- inertia ----------------------------------------------------------------------------------------------------------

    def moment(self, body: Body) -> np.ndarray:
        """About the centre of mass, in world axes."""
        R = self.motion[body.name].R
        return R @ (float(self.number(body.moment_factor).f0) * body.moment) @ R.T

    @cached_property
    def mass(self) -> np.ndarray:
        """Of (X, y), with rotors."""
        n = self.size
        M = np.zeros((n + self.ny, n + self.ny))
        for body in self.system.bodies:
            k = self.index[body.name]
            M[k : k + 3, k : k + 3] = float(self.number(body.mass).f0) * np.eye(3)
            M[k + 3 : k + 6, k + 3 : k + 6] = self.moment(body)
        for element in self.system.elements:
            if element.kind == "armature":
                part, y = self._rotor(element)
                where = slice(n + self.slot[element.a].start, n + self.slot[element.a].stop)
                M[where, where] += part
                if element.b:
                    k, spin = self.index[element.b] + 3, y[:, None]
                    M[k : k + 3, where] += spin
                    M[where, k : k + 3] += spin.T
        return M

    def _rotor(self, element: Element) -> tuple[np.ndarray, np.ndarray]:
        """Inertia on the velocities of the joint, and spin momentum per velocity of it in world axes."""
        size = self.edge[element.a].joint.nv
        inertia, gear = self.each(element.data["inertia"], size), self.each(element.data["gear_ratio"], size)
        axis = np.zeros(3)
        if element.b:
            axis = self.motion[element.b].R @ np.asarray(element.data["axis"]) * float(inertia[0] * gear[0])
        return np.diag(inertia * gear**2), axis

    def _inertia_forces(self) -> np.ndarray:
        """Velocity terms of Newton and Euler on the right-hand side."""
        F = np.zeros(self.size + self.ny)
        for body in self.system.bodies:
            k, omega = self.index[body.name], self.motion[body.name].omega
            F[k + 3 : k + 6] -= np.cross(omega, self.moment(body) @ omega)
        for element in self.system.elements:
            if element.kind != "armature":
                continue
            part, spin = self._rotor(element)
            joint, y = self.edge[element.a].joint, self.y[element.a]
            where = slice(self.size + self.slot[element.a].start, self.size + self.slot[element.a].stop)
            F[where] -= self._lie_terms(joint, part, y)
            if element.b:
                k, omega = self.index[element.b] + 3, self.motion[element.b].omega
                F[k : k + 3] -= y[0] * np.cross(omega, spin)
        return F

    def _lie_terms(self, joint: Joint, inertia: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Velocity terms of the energy y . inertia y / 2 where y is no rate of coordinates."""
        if joint.kind == "spherical":
            return np.cross(y, inertia @ y)
        if joint.kind != "free":
            return np.zeros(len(y))
        C = np.linalg.inv(unified_matrix()) if joint.velocity == "unified" else np.eye(6)
        back = np.linalg.inv(C)
        xi = C @ y
        h = back.T @ inertia @ y  # momentum conjugate to xi
        v, omega = xi[:3], xi[3:]
        if joint.velocity == "mixed":
            terms = np.concatenate([np.zeros(3), np.cross(omega, h[3:])])
        else:
            terms = np.concatenate([np.cross(omega, h[:3]), np.cross(omega, h[3:]) + np.cross(v, h[:3])])
        return C.T @ terms

    # --- forces -----------------------------------------------------------------------------------------------------------

    def apply(self, F: np.ndarray, name: str, point: np.ndarray, force: np.ndarray, moment: np.ndarray) -> None:
        """A force at a point and a moment on a body, in world axes."""
        if name != WORLD:
            k = self.index[name]
            F[k : k + 3] += force
            F[k + 3 : k + 6] += moment + np.cross(point - self.motion[name].c, force)

    def on_joint(self, F: np.ndarray, name: str, force: np.ndarray) -> None:
        where = self.slot[name]
        F[self.size + where.start : self.size + where.stop] += force

    @cached_property
    def gravity(self) -> np.ndarray:
        return self.value(self.system.gravity)

    @cached_property
    def forces(self) -> dict[str, np.ndarray]:
        """On (X, y), or on the user's velocities v ("user"), by origin: "inertia", "gravity", "conservative", "resistance", "supplied", "input"."""
        zero = np.zeros(self.size + self.ny)
        F = {kind: zero.copy() for kind in ("gravity", "conservative", "resistance", "supplied", "input")}
        F["inertia"] = self._inertia_forces()
        for body in self.system.bodies:
            k = self.index[body.name]
            F["gravity"][k : k + 3] += float(self.number(body.mass).f0) * self.gravity
        for element in self.system.elements:
            getattr(self, f"_{element.kind}")(element, F)
        for given in self.system.inputs:
            getattr(self, f"_{given.kind}")(given, F["input"], self.state.u.get(given.name, 0.0))
        return F

    def _between(self, a: str, b: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Pose (R, p) of b in a, and velocity of the origin of b and angular velocity relative to a, in axes of b."""
        A, B = self.motion[a], self.motion[b]
        arm = B.origin - A.origin
        velocity = B.origin_velocity - A.origin_velocity - np.cross(A.omega, arm)
        return A.R.T @ B.R, A.R.T @ arm, B.R.T @ velocity, B.R.T @ (B.omega - A.omega)

    def _pair(self, F: np.ndarray, a: str, b: str, force: np.ndarray, moment: np.ndarray) -> None:
        """A wrench on b in its axes at its origin, and the opposite one on a."""
        B = self.motion[b]
        self.apply(F, b, B.origin, B.R @ force, B.R @ moment)
        self.apply(F, a, B.origin, -B.R @ force, -B.R @ moment)

    def _spring_parts(self, element: Element) -> tuple[Any, ...]:
        d = element.data
        k, h = float(self.value(d["total"])), self.value(d["center"])
        moment = float(self.value(d["factor"])) * d["moment"]
        if d["rest"] is None:
            rest_R, rest_p = self._neutral_pose(element.a, element.b)
        else:
            R, p = self.place(d["rest"])
            rest_R, rest_p = R.f0, p.f0
        return k, h, 0.5 * np.trace(moment) * np.eye(3) - moment, rest_R, rest_p

    def _neutral_pose(self, a: str, b: str) -> tuple[np.ndarray, np.ndarray]:
        still = {e.name: np.zeros(e.joint.nv) for e in self.system.joints}
        q = {e.name: neutral(e.joint) for e in self.system.joints}
        plain = replace(self.system, elements=(), inputs=(), loops=(), velocity_rows=(), position_rows=())
        at = Maximal(plain, State(q, still, self.state.t), self.parameters)
        R, p, _, _ = at._between(a, b)
        return R, p

    def _spring(self, element: Element, F: dict[str, np.ndarray]) -> None:
        k, h, second, R0, p0 = self._spring_parts(element)
        R, p, _, _ = self._between(element.a, element.b)
        force = -k * (p + R @ h - p0 - R0 @ h)  # at the centre, in axes of a
        X = R @ second @ R0.T
        moment = -2 * axial(X)
        force, moment = R.T @ force, R.T @ moment
        self._pair(F["conservative"], element.a, element.b, force, moment + np.cross(h, force))

    def _springs(self, element: Element, F: dict[str, np.ndarray]) -> None:
        """Springs of zero rest length, one by one."""
        A, B = self.motion[element.a], self.motion[element.b]
        for k, b, a in zip(*(element.data[name] for name in ("k", "points_b", "points_a")), strict=True):
            pa, pb = A.origin + A.R @ a, B.origin + B.R @ b
            self.apply(F["conservative"], element.b, pb, k * (pa - pb), np.zeros(3))
            self.apply(F["conservative"], element.a, pa, k * (pb - pa), np.zeros(3))

    def _damper(self, element: Element, F: dict[str, np.ndarray]) -> None:
        d = element.data
        total, center = float(self.value(d["total"])), self.value(d["center"])
        _, _, v, omega = self._between(element.a, element.b)
        force = -total * (v + np.cross(omega, center))
        moment = -float(self.value(d["factor"])) * d["moment"] @ omega + np.cross(center, force)
        self._pair(F["resistance"], element.a, element.b, force, moment)

    def _drag(self, element: Element, F: dict[str, np.ndarray]) -> None:
        """Quadratic drag and a cubic spring of the origins."""
        c, k = float(self.value(element.data["drag"])), float(self.value(element.data["cubic"]))
        R, p, v, _ = self._between(element.a, element.b)
        self._pair(F["resistance"], element.a, element.b, -c * np.sqrt(v @ v + 0.01) * v, np.zeros(3))
        self._pair(F["conservative"], element.a, element.b, -k * (p @ p) * (R.T @ p), np.zeros(3))

    def _strut_line(self, element: Element) -> tuple[np.ndarray, np.ndarray, np.ndarray, float, float]:
        A, B = self.motion[element.a], self.motion[element.b]
        ra, rb = A.R @ self.value(element.data["at_a"]), B.R @ self.value(element.data["at_b"])
        line = B.origin + rb - A.origin - ra
        length = float(np.linalg.norm(line))
        speed = B.origin_velocity + np.cross(B.omega, rb) - A.origin_velocity - np.cross(A.omega, ra)
        return A.origin + ra, B.origin + rb, line / length, length, float(speed @ line) / length

    def _strut(self, element: Element, F: dict[str, np.ndarray]) -> None:
        d = element.data
        pa, pb, line, length, speed = self._strut_line(element)
        pull = float(self.value(d["stiffness"])) * (length - float(self.value(d["rest_length"])))
        for kind, size in (("conservative", pull), ("resistance", float(self.value(d["damping"])) * speed)):
            self.apply(F[kind], element.b, pb, -size * line, np.zeros(3))
            self.apply(F[kind], element.a, pa, size * line, np.zeros(3))

    def _displaced(self, name: str, rest: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Displacement of a joint and its rate per velocity (n, n)."""
        joint, q = self.edge[name].joint, self.q[name]
        curves = [displacement(joint, joint_tangent(joint, q, unit), rest) for unit in np.eye(joint.nv)]
        return curves[0].f0, np.array([c.f1 for c in curves]).T

    def _joint_spring(self, element: Element, F: dict[str, np.ndarray]) -> None:
        n = self.edge[element.a].joint.nv
        delta, T = self._displaced(element.a, self.each(element.data["rest"], n))
        self.on_joint(F["conservative"], element.a, -T.T @ (self.each(element.data["stiffness"], n) * delta))

    def _joint_damper(self, element: Element, F: dict[str, np.ndarray]) -> None:
        y = self.y[element.a]
        self.on_joint(F["resistance"], element.a, -self.each(element.data["damping"], len(y)) * y)

    def _joint_friction(self, element: Element, F: dict[str, np.ndarray]) -> None:
        y, d = self.y[element.a], element.data
        n = len(y)
        coulomb, static = self.each(d["coulomb"], n), self.each(d["static"], n)
        level = coulomb + (static - coulomb) * np.exp(-((y / d["stribeck_speed"]) ** 2))
        self.on_joint(F["resistance"], element.a, -level * np.tanh(y / d["smoothing"]) - self.each(d["viscous"], n) * y)

    def _joint_stop(self, element: Element, F: dict[str, np.ndarray]) -> None:
        d, y = element.data, self.y[element.a]
        delta, T = self._displaced(element.a, np.zeros(len(y)))
        rate = T @ y
        for end, sign in ((d["lower"], -1.0), (d["upper"], 1.0)):
            depth = np.maximum(sign * (delta - end), 0.0)
            s = d["smoothing"]
            push = np.where(depth < s, depth**2 / (2 * s), depth - 0.5 * s)
            share = np.minimum(depth / s, 1.0)
            touch = 3 * share**2 - 2 * share**3
            self.on_joint(F["conservative"], element.a, -T.T @ (sign * float(self.value(d["stiffness"])) * push))
            self.on_joint(F["resistance"], element.a, -T.T @ (float(self.value(d["damping"])) * touch * rate))

    def _quartic(self, element: Element, F: dict[str, np.ndarray]) -> None:
        """Energy c/4 x^4 of the first coordinate and resistance d w^3."""
        joint, q = self.edge[element.a].joint, self.q[element.a]
        y = self.y[element.a]
        first = np.array([joint_tangent(joint, q, unit).f1[0] for unit in np.eye(joint.nv)])
        self.on_joint(F["conservative"], element.a, -float(self.value(element.data["c"])) * q[0] ** 3 * first)
        self.on_joint(F["resistance"], element.a, -float(self.value(element.data["d"])) * y**3)

    def _armature(self, element: Element, F: dict[str, np.ndarray]) -> None:
        return

    def _user(self, F: np.ndarray, force: np.ndarray) -> None:
        """A generalised force on the user's velocities v."""
        for edge in self.system.joints:
            part = force[self.own[edge.name]]
            if edge.joint.velocity == "absolute":
                self.apply(F, edge.b, self.motion[edge.b].c, np.zeros(3), self.motion[edge.b].R @ part)
            else:
                self.on_joint(F, edge.name, part)

    def _potential(self, element: Element, F: dict[str, np.ndarray]) -> None:
        gradient = self.gradient(element.data["f"])
        for edge in self.system.joints:
            self.on_joint(F["conservative"], edge.name, -gradient[self.own[edge.name]])

    def _dissipation(self, element: Element, F: dict[str, np.ndarray]) -> None:
        """1/2 f(q)^2 (g . v)^2."""
        f = float(self.smooth(element.data["f"], self.curves).f0)
        g = element.data["g"]
        self._user(F["resistance"], -(f**2) * (g @ self.v) * g)

    def _force(self, element: Element, F: dict[str, np.ndarray]) -> None:
        """f(q) g (1 + h . v)."""
        f = float(self.smooth(element.data["f"], self.curves).f0)
        self._user(F["supplied"], f * element.data["g"] * (1.0 + element.data["h"] @ self.v))

    def _thruster(self, given: Any, F: np.ndarray, u: float) -> None:
        body, d = self.motion[given.target], given.data
        axis = body.R @ d["axis"]
        self.apply(
            F,
            given.target,
            body.origin + body.R @ self.value(d["at"]),
            u * axis,
            u * float(self.value(d["drag_ratio"])) * axis,
        )

    def _joint_force(self, given: Any, F: np.ndarray, u: float) -> None:
        force = np.zeros(self.edge[given.target].joint.nv)
        force[given.data["index"]] = u * float(self.value(given.data["gear"]))
        self.on_joint(F, given.target, force)

    def _wrench(self, given: Any, F: np.ndarray, u: float) -> None:
        d, body = given.data, self.motion[given.target]
        R = body.R if d["frame"] == "body" else np.eye(3)
        force, moment = u * R @ self.value(d["force"]), u * R @ self.value(d["moment"])
        self.apply(F, given.target, body.origin, force, moment)
        self.apply(F, d["relative_to"], body.origin, -force, -moment)

    # --- constraints ------------------------------------------------------------------------------------------------------

    @cached_property
    def loop_rows(self) -> dict[str, tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        """By loop: rows of z', right-hand side of them, residual of velocities, C (6, m), and the frame of b (R, p)."""
        return {loop.name: self._loop(loop) for loop in self.system.loops}

    def _loop(self, loop: Loop) -> Any:
        """The rows of a joint from the frame at_a of a to the frame at_b of b, without the directions in which it moves."""
        a, b = self.motion[loop.a], self.motion[loop.b]
        Ra, pa = a.curve()
        R1, p1 = self.place(loop.at_a)
        Rb, pb = b.curve()
        R2, p2 = self.place(loop.at_b)
        Rf, pf = Rb @ R2, pb + Rb @ p2  # the frame at b
        Ae, ae = Ra @ R1, pa + Ra @ p1  # the frame at a
        q = np.asarray(self.state.q.get(loop.name, np.zeros(0)), dtype=float)
        n = loop.joint.nv

        def carried(y: np.ndarray) -> tuple[Jet, Jet]:
            Rj, pj = joint_pose(loop.joint, joint_curve(loop.joint, q, y) if n else jet(np.zeros(0)))
            return Ae @ Rj, ae + Ae @ pj

        base = carried(np.zeros(n))
        self.gaps[loop.name] = float(max(np.max(np.abs(base[0].f0 - Rf.f0)), np.max(np.abs(base[1].f0 - pf.f0))))
        columns = []
        for unit in np.eye(n):
            R, p = carried(unit)
            columns.append(np.concatenate([p.f1 - base[1].f1, axial((R.f1 - base[0].f1) @ R.f0.T)]))
        S = np.array(columns).T.reshape(6, n)
        relative = np.concatenate([pf.f1 - base[1].f1, axial((Rf.f1 - base[0].f1) @ Rf.f0.T)])
        y = np.linalg.lstsq(S, relative, rcond=None)[0] if n else np.zeros(0)
        self.loop_velocity[loop.name] = y
        R, p = carried(y)
        bias = np.concatenate([pf.f2 - p.f2, axial((Rf.f2 - R.f2) @ Rf.f0.T)])
        C = np.linalg.svd(S)[0][:, n:] if n else np.eye(6)
        L = np.zeros((6, self.size))
        for name, sign in ((loop.b, 1.0), (loop.a, -1.0)):
            if name != WORLD:
                k = self.index[name]
                L[:3, k : k + 3] += sign * np.eye(3)
                L[:3, k + 3 : k + 6] -= sign * skew_matrix(pf.f0 - self.motion[name].c)
                L[3:, k + 3 : k + 6] += sign * np.eye(3)
        rows = C.T @ L @ self.N
        size = np.linalg.norm(C.T @ L, axis=1) * np.max(np.abs(self.N))
        rows[np.linalg.norm(rows, axis=1) < 1e-12 * size] = 0.0  # rounding
        return rows, -C.T @ (L @ self.gamma + bias), C.T @ relative, C, Rf.f0

    @cached_property
    def constraint_rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Phi z' = right, and the residual of the velocities, of all loops and constraints."""
        rows, right, residual = [np.zeros((0, self.nv))], [np.zeros(0)], [np.zeros(0)]
        for part in self.loop_rows.values():
            rows.append(part[0])
            right.append(part[1])
            residual.append(part[2])
        V, _, v_bias = self.own_velocity
        v = self.v
        for row in self.system.velocity_rows:
            line, rate = np.zeros(self.nv), 0.0
            for name, component, f in row.terms:
                k = self.own[name].start + component
                value = self.smooth(f, self.curves)
                line[k] += value.f0
                rate += float(value.f1) * v[k]
            drift = self.smooth(row.drift, self.curves)
            rows.append((line @ V)[None])
            right.append(np.array([-rate - drift.f1 - line @ v_bias]))
            residual.append(np.array([line @ v + drift.f0]))
        for row in self.system.position_rows:
            along = self.smooth(row.f, self.curves)
            rows.append(self.gradient(row.f)[None])
            right.append(np.array([-along.f2]))
            residual.append(np.array([along.f1]))
        return np.vstack(rows), np.concatenate(right), np.concatenate(residual)

    def gradient(self, f: Smooth) -> np.ndarray:
        """Along the velocities z, at a fixed time."""
        still = replace(f, constant=0.0)
        return np.array([self.smooth(still, self.unit_curves(k)).f1 for k in range(self.nv)])

    @property
    def gap(self) -> float:
        """Largest violation of loops and position rows."""
        _ = self.loop_rows
        return max(
            [
                0.0,
                *self.gaps.values(),
                *(abs(float(self.smooth(row.f, self.curves).f0)) for row in self.system.position_rows),
            ]
        )

    @cached_property
    def work(self) -> np.ndarray:
        """Nonideal forces of velocity rows, on (X, y)."""
        F = np.zeros(self.size + self.ny)
        for row in self.system.velocity_rows:
            if row.work:
                self._user(F, -row.work * self.v)
        return F

    # --- solution ---------------------------------------------------------------------------------------------------------

    @cached_property
    def reduced(self) -> tuple[np.ndarray, np.ndarray]:
        """Inertia and force on z without constraints."""
        total = sum(self.forces.values()) + self.work
        M = self.N_all.T @ self.mass @ self.N_all
        return 0.5 * (M + M.T), self.N_all.T @ (total - self.mass @ self.gamma_all)

    @cached_property
    def solution(self) -> tuple[np.ndarray, np.ndarray, float]:
        """z', the multipliers of all rows, and the condition."""
        M, f = self.reduced
        scale = 1 / np.sqrt(np.diag(M))
        scaled = scale[:, None] * M * scale
        values, vectors = np.linalg.eigh(scaled)
        root = vectors / np.sqrt(values)  # root root^T = scaled^-1
        free = root @ (root.T @ (scale * f))
        Phi, right, _ = self.constraint_rows
        condition = float(values[-1] / values[0])
        if not len(Phi):
            return scale * free, np.zeros(0), condition
        size = np.linalg.norm(Phi * scale, axis=1)
        size = np.where(size > 0, size, 1.0)
        A = (Phi * scale / size[:, None]) @ root
        U, s, Wt = np.linalg.svd(A, full_matrices=False)
        rank = int(np.sum(s > RANK))
        if not rank:
            self.rank, self.independent = 0, U[:, :0]
            return scale * free, np.zeros(len(Phi)), condition
        U, s, Wt = U[:, :rank], s[:rank], Wt[:rank]
        miss = (right - Phi @ (scale * free)) / size
        step = (U.T @ miss) / s
        zdot = scale * (free + root @ (Wt.T @ step))
        lam = (U @ (step / s)) / size
        self.rank, self.independent = rank, U
        return zdot, lam, condition * float((s[0] / s[-1]) ** 2)

    @property
    def condition(self) -> float:
        return self.solution[2]

    @cached_property
    def degrees_of_freedom(self) -> int:
        return self.nv - (self.rank if len(self.constraint_rows[0]) and self.solution else 0)

    @cached_property
    def own_acceleration(self) -> np.ndarray:
        """Rates of the joints' own velocities v."""
        V, _, bias = self.own_velocity
        return V @ self.solution[0] + bias

    @cached_property
    def force_scale(self) -> float:
        """Largest acceleration that the single forces would cause: rounding is relative to it."""
        M, _ = self.reduced
        parts = [self.N_all.T @ part for part in (*self.forces.values(), self.work, self.mass @ self.gamma_all)]
        accelerations = np.linalg.solve(M, np.array(parts).T)
        return float(
            max(np.max(np.abs(accelerations), initial=0.0), np.max(np.abs(self.solution[0]), initial=0.0), 0.01)
        )

    def is_determined(self, name: str) -> bool:
        """Whether the reaction of a loop follows from the motion."""
        _ = self.solution
        start = 0
        for loop, part in self.loop_rows.items():
            if loop == name:
                block = self.independent[start : start + len(part[0])]  # rows of an orthonormal basis of the row space
                return bool(np.allclose(block @ block.T, np.eye(len(block)), atol=1e-7))
            start += len(part[0])
        raise KeyError(name)

    def loop_reaction(self, name: str) -> np.ndarray:
        """Wrench on b in axes and at the origin of the joint frame there."""
        lam, start = self.solution[1], 0
        for loop, part in self.loop_rows.items():
            size = len(part[0])
            if loop == name:
                wrench = part[3] @ lam[start : start + size]
                return np.concatenate([part[4].T @ wrench[:3], part[4].T @ wrench[3:]])
            start += size
        raise KeyError(name)

    # --- in the velocities of the model -----------------------------------------------------------------------------------

    @cached_property
    def map(self) -> tuple[np.ndarray, np.ndarray]:
        """W and its rate in w = W v."""
        W, rate = np.zeros((self.nv, self.nv)), np.zeros((self.nv, self.nv))
        for i, j, f in self.system.velocity_map or ():
            value = self.smooth(f, self.curves)
            W[i, j] += value.f0
            rate[i, j] += value.f1
        return W, rate

    def _model(self, own: np.ndarray, rate: bool) -> np.ndarray:
        """Velocities, or accelerations, of the model from those of the joints."""
        system = self.system
        if system.velocity_map is not None:
            W, W_dot = self.map
            return W @ own + (W_dot @ self.v if rate else 0.0)
        own = own.copy()
        for name, frame in system.velocity_frames.items():
            if frame == "absolute":
                V, v0, bias = self._absolute(self.edge[name])
                own[self.own[name]] = V @ (self.solution[0] if rate else self.z) + (bias if rate else v0)
        if system.basis is not None:
            return own[[self.own[name].start + int(k) for name, k in (label.split("/") for label in system.basis)]]
        return own

    @property
    def model_velocity(self) -> np.ndarray:
        return self._model(self.v, False)

    @property
    def acceleration(self) -> np.ndarray:
        return self._model(self.own_acceleration, True)

    # --- energies and power -----------------------------------------------------------------------------------------------

    @cached_property
    def kinetic_energy(self) -> float:
        x = np.concatenate([self.X, self.K @ self.z])
        return 0.5 * float(x @ self.mass @ x)

    @cached_property
    def potential_energy(self) -> float:
        total = 0.0
        for body in self.system.bodies:
            total -= float(self.number(body.mass).f0) * float(self.gravity @ self.motion[body.name].c)
        for element in self.system.elements:
            d = element.data
            if element.kind == "spring":
                k, h, second, R0, p0 = self._spring_parts(element)
                R, p, _, _ = self._between(element.a, element.b)
                gap = p + R @ h - p0 - R0 @ h
                total += 0.5 * k * float(gap @ gap) + 0.5 * float(np.trace((R - R0) @ second @ (R - R0).T))
            elif element.kind == "springs":
                R, p, _, _ = self._between(element.a, element.b)
                for k, b, a in zip(d["k"], d["points_b"], d["points_a"], strict=True):
                    total += 0.5 * float(k) * float(np.sum((p + R @ b - a) ** 2))
            elif element.kind == "strut":
                length = self._strut_line(element)[3]
                total += 0.5 * float(self.value(d["stiffness"])) * (length - float(self.value(d["rest_length"]))) ** 2
            elif element.kind == "joint_spring":
                n = self.edge[element.a].joint.nv
                delta, _ = self._displaced(element.a, self.each(d["rest"], n))
                total += 0.5 * float(self.each(d["stiffness"], n) @ delta**2)
            elif element.kind == "joint_stop":
                delta, _ = self._displaced(element.a, np.zeros(self.edge[element.a].joint.nv))
                for depth in (np.maximum(d["lower"] - delta, 0.0), np.maximum(delta - d["upper"], 0.0)):
                    s = d["smoothing"]
                    stored = np.where(depth < s, depth**3 / (6 * s), 0.5 * depth**2 - 0.5 * s * depth + s**2 / 6)
                    total += float(self.value(d["stiffness"])) * float(np.sum(stored))
            elif element.kind == "quartic":
                total += 0.25 * float(self.value(d["c"])) * self.q[element.a][0] ** 4
            elif element.kind == "drag":
                _, p, _, _ = self._between(element.a, element.b)
                total += 0.25 * float(self.value(d["cubic"])) * float(p @ p) ** 2
            elif element.kind == "potential":
                total += float(self.smooth(d["f"], self.curves).f0)
        return total

    def power(self, kind: str) -> float:
        """Of the forces of one kind."""
        return float(self.forces[kind] @ np.concatenate([self.X, self.K @ self.z]))

    def momentum(self) -> tuple[np.ndarray, np.ndarray]:
        """Linear and angular momentum of the bodies about the origin of the world, without rotors."""
        linear, angular = np.zeros(3), np.zeros(3)
        for body in self.system.bodies:
            m, at = float(self.number(body.mass).f0), self.motion[body.name]
            linear = linear + m * at.vc
            angular = angular + np.cross(at.c, m * at.vc) + self.moment(body) @ at.omega
        return linear, angular


def _is_zero(x: Number) -> bool:
    return isinstance(x, int | float) and x == 0.0


# --- states -----------------------------------------------------------------------------------------------------------------


def moved(joint: Joint, q: np.ndarray, y: np.ndarray, h: float) -> np.ndarray:
    """A curve of coordinates with the velocities y at h = 0, on their manifold."""
    if joint.kind == "revolute" and joint.circle:
        c, s = np.cos(h * y[0]), np.sin(h * y[0])
        return np.array([q[0] * c - q[1] * s, q[0] * s + q[1] * c])
    if joint.kind == "spherical":
        return moved_attitude(joint.attitude, q, y, h)
    if joint.kind == "free":
        rate = joint_rate(joint, jet(q), y).f0
        omega = np.linalg.solve(unified_matrix(), y)[3:] if joint.velocity == "unified" else y[3:]
        return np.concatenate([q[:3] + h * rate[:3], moved_attitude(joint.attitude, q[3:], omega, h)])
    return q + h * y


def moved_attitude(attitude: str, q: np.ndarray, omega: np.ndarray, h: float) -> np.ndarray:
    if attitude == "matrix":
        return (attitude_matrix(attitude, jet(q)).f0 @ exp_rotation(h * omega)).T.reshape(9)
    step = q + h * attitude_rate(attitude, jet(q), omega).f0
    return step / np.linalg.norm(step) if attitude == "quaternion" else step


def with_own_frames(system: SystemData) -> SystemData:
    """The system whose joints have the velocities of the model as their own."""
    frames = system.velocity_frames
    joints = [replace(e.joint, velocity=frames[e.name]) if e.name in frames else e.joint for e in system.edges]
    edges = tuple(replace(e, joint=joint) for e, joint in zip(system.edges, joints, strict=True))
    return replace(system, edges=edges, velocity_frames={})


def at_model_velocity(
    system: SystemData, state: State, w: np.ndarray, parameters: Mapping[str, float] | None = None
) -> State:
    """The state whose velocities in the model are w."""
    at = Maximal(system, state, parameters)
    if system.velocity_map is not None:
        own = np.linalg.solve(at.map[0], w)
    elif system.basis is not None:
        own = np.zeros(at.nv)
        own[[at.own[name].start + int(k) for name, k in (label.split("/") for label in system.basis)]] = w
        for row in system.velocity_rows:
            values = [(at.own[name].start + k, float(at.smooth(f, at.curves).f0)) for name, k, f in row.terms]
            own[values[0][0]] = -sum(value * own[k] for k, value in values[1:]) - float(
                at.smooth(row.drift, at.curves).f0
            )
    elif system.velocity_frames:
        named = replace(state, v={name: w[where] for name, where in at.own.items()})
        own = Maximal(with_own_frames(system), named, parameters).z.copy()
        for edge in system.joints:
            if edge.joint.velocity == "absolute":
                own[at.own[edge.name]] = w[at.own[edge.name]]
    else:
        own = w
    return replace(state, v={name: own[where] for name, where in at.own.items()})


def along(system: SystemData, state: State, z: np.ndarray, h: float) -> State:
    """The state with all coordinates moved by h along the velocities z of the joints, loops included."""
    at = Maximal(system, state)
    q = {edge.name: moved(edge.joint, at.q[edge.name], z[at.own[edge.name]], h) for edge in system.joints}
    if system.loops:
        still = replace(system, edges=tuple(replace(e, joint=_relative(e.joint)) for e in system.edges))
        shown = Maximal(still, replace(state, v={name: z[where] for name, where in at.own.items()}))
        drift = Maximal(still, replace(state, v={name: 0 * z[where] for name, where in at.own.items()}))
        _ = shown.loop_rows, drift.loop_rows
        for loop in system.loops:
            y = shown.loop_velocity[loop.name] - drift.loop_velocity[loop.name]
            q[loop.name] = moved(loop.joint, state.q[loop.name], y, h)
    return replace(state, q=q)


def _relative(joint: Joint) -> Joint:
    return replace(joint, velocity="") if joint.velocity == "absolute" else joint


WEIGHTS = (4 / 5, -1 / 5, 4 / 105, -1 / 280)
"""Of the central difference of eighth order."""


def derivative(f: Callable[[float], np.ndarray], h: float) -> tuple[np.ndarray, float]:
    """f'(0) by differences, and an estimate of its error; smaller steps where f bends sharply."""
    best: tuple[Any, float] = (np.zeros(0), np.inf)
    for size in (h, 0.2 * h, 0.04 * h):
        coarse, fine = (
            sum(w * (f(k * step) - f(-k * step)) for k, w in enumerate(WEIGHTS, start=1)) / step
            for step in (size, 0.7 * size)
        )
        doubt = float(np.max(np.abs(coarse - fine), initial=0.0))
        if doubt < best[1]:
            best = fine, doubt
        if best[1] <= 1e-11 * float(np.max(np.abs(fine), initial=1.0)):
            break
    return best


def consistent(system: SystemData, state: State) -> State:
    """The state with velocities moved onto the constraints."""
    for _ in range(3):
        at = Maximal(system, state)
        Phi, _, residual = at.constraint_rows
        if not len(Phi) or np.max(np.abs(residual)) < 1e-13 * (1 + np.max(np.abs(at.z))):
            break
        z = at.z - np.linalg.lstsq(Phi, residual, rcond=RANK)[0]
        V, v0, _ = at.own_velocity
        v = V @ z + v0
        state = replace(state, v={name: v[where] for name, where in at.own.items()})
    return state
