"""Recursions over the tree with a number of operations linear in the number of bodies.

Inverse dynamics (recursive Newton-Euler) and forward dynamics (articulated bodies), in body coordinates. The velocity coordinates of
a joint are parent-relative here; joints that use absolute velocities are converted at the end. The acceleration of a body is that of
its origin in body axes with the angular acceleration; it differs from the rate of the body twist by omega x v.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from heavytop._arrays import Array, block, concatenate, sparse, split, submatrix, transpose
from heavytop.geometry import se3, so3
from heavytop.system.dynamics import Dynamics
from heavytop.system.graph import Step
from heavytop.system.inputs import BodyWrench
from heavytop.system.joints import Coupled
from heavytop.system.kinematics import adjoint_inverse
from heavytop.system.names import WORLD
from heavytop.system.solve import solve_definite, symmetric

UPPER, LOWER = slice(0, 3), slice(3, 6)


def is_recursive(dynamics: Dynamics) -> bool:
    """Whether the recursions apply: the joints' own velocity coordinates, and no joint that follows another one."""
    edges = dynamics.description.graph.edges
    return dynamics.kinematics.transform is None and not any(isinstance(edge.joint, Coupled) for edge in edges)


@dataclass(frozen=True, eq=False)
class Actions:
    """Forces sorted by where they act: body wrenches (6,) by frame, generalised forces by joint (parent-relative velocities)."""

    wrenches: dict[str, Array]
    joints: dict[str, Array]


def collect_actions(dynamics: Dynamics, u: Array) -> Actions:
    """Springs, dampers, inputs and user forces as wrenches on bodies and forces in joints; no gravity, no inertia."""
    kinematics, description = dynamics.kinematics, dynamics.description
    wrenches: dict[str, Array] = defaultdict(lambda: np.zeros(6))
    joints: dict[str, Array] = {edge.label: np.zeros(edge.joint.coordinates.nv) for edge in description.joints}
    edges = {edge.label: edge for edge in description.joints}

    def act(a: str, b: str, wrench: Array) -> None:
        """``wrench`` on b in axes of b; its reaction -Ad(G_ba)^T wrench on a."""
        wrenches[b] = wrenches[b] + wrench
        if a != WORLD:
            Ad = se3.Ad(kinematics.pose(b, a))
            wrenches[a] = wrenches[a] - np.matvec(transpose(Ad), wrench)

    for damper in description.dampers:
        act(damper.a, damper.b, -np.matvec(damper.damping.matrix, kinematics.motion(damper.a, damper.b).twist))
    for spring, (K, motion, rest, _) in zip(description.springs, dynamics.spring_offsets(), strict=True):
        act(spring.a, spring.b, -se3.vee2((np.eye(4) - se3.inverse(motion.pose) @ rest) @ K))
    for strut in description.struts:
        motion = kinematics.motion(strut.a, strut.b)
        act(strut.a, strut.b, -strut.stiffness_wrench(motion) - strut.damping_wrench(motion))
    for k, element in enumerate(description.inputs.values()):
        for action in element.actions(kinematics):
            if isinstance(action, BodyWrench):
                act(action.relative_to, action.frame, action.wrench * u[k])
                continue
            edge = edges[action.joint]
            force = np.eye(edge.joint.coordinates.nv)[action.index] * (action.force * u[k])
            if edge.joint.velocity_frame == "absolute":
                act(edge.a, edge.b, concatenate(np.zeros(3), force))
            else:
                joints[action.joint] = joints[action.joint] + force
    if description.potentials or description.dissipations or description.forces:
        _add_generalised(dynamics, wrenches, joints)
    return Actions(dict(wrenches), joints)


def _add_generalised(dynamics: Dynamics, wrenches: dict[str, Array], joints: dict[str, Array]) -> None:
    """The user's generalised forces: on a joint, or for an absolute angular velocity a moment on its body."""
    force = dynamics.user_force
    edges = dynamics.description.joints
    for edge, part in zip(edges, split(force, [edge.joint.coordinates.nv for edge in edges]), strict=True):
        if edge.joint.velocity_frame == "absolute":
            wrenches[edge.b] = wrenches.get(edge.b, np.zeros(6)) + concatenate(np.zeros(3), part)
        else:
            joints[edge.label] = joints[edge.label] + part


def inverse_dynamics(dynamics: Dynamics, a: Array) -> Array:
    """Generalised force (nv,) that the inputs must supply for the acceleration ``a`` (recursive Newton-Euler)."""
    kinematics, description = dynamics.kinematics, dynamics.description
    actions = collect_actions(dynamics, np.zeros(len(description.inputs)))
    edges = description.joints
    a_of = dict(zip([e.label for e in edges], split(a, [e.joint.coordinates.nv for e in edges]), strict=True))
    acceleration = {WORLD: concatenate(-description.gravity, np.zeros(3))}
    wrench: dict[str, Array] = {}
    for step in kinematics.steps:
        total = adjoint_inverse(kinematics.links[step.frame].pose, acceleration[step.parent]) + _transport(
            dynamics, step
        )
        if step.edge.joint.velocity_frame == "absolute":
            total = concatenate(total[:3], a_of[step.edge.label])
        elif step.edge.label in a_of:
            total = total + np.matvec(kinematics.subspace[step.frame], a_of[step.edge.label])
        acceleration[step.frame] = total
        wrench[step.frame] = _gyroscopic(dynamics, step) - actions.wrenches.get(step.frame, np.zeros(6))
        if step.frame in description.inertias:
            wrench[step.frame] = wrench[step.frame] + np.matvec(description.inertias[step.frame].matrix, total)
    forces: dict[str, Array] = {}
    for step in reversed(kinematics.steps):
        label, f = step.edge.label, wrench[step.frame]
        if step.edge.joint.velocity_frame == "absolute":
            forces[label], f = f[3:], concatenate(f[:3], np.zeros(3))  # the joint transmits a force but no moment
        elif label in a_of:
            forces[label] = np.matvec(transpose(kinematics.subspace[step.frame]), f) - actions.joints[label]
        if step.parent != WORLD:
            wrench[step.parent] = wrench[step.parent] + _force_to_parent(kinematics.links[step.frame].pose, f)
    return concatenate(*(forces[edge.label] for edge in edges))


def forward_dynamics(dynamics: Dynamics, u: Array) -> Array:
    """Acceleration (nv,) by the articulated-body recursion: outward velocities, inward inertias, outward accelerations."""
    kinematics, description = dynamics.kinematics, dynamics.description
    actions = collect_actions(dynamics, u)
    inertia: dict[str, Array] = {}
    bias: dict[str, Array] = {}
    for step in kinematics.steps:
        body = description.inertias.get(step.frame)
        inertia[step.frame] = np.zeros((6, 6)) if body is None else body.matrix
        bias[step.frame] = _gyroscopic(dynamics, step) - actions.wrenches.get(step.frame, np.zeros(6))
    joints: dict[str, tuple[Array, Array, Array]] = {}
    for step in reversed(kinematics.steps):
        S, zeta = kinematics.subspace[step.frame], _transport(dynamics, step)
        inertia_a, bias_a = inertia[step.frame], bias[step.frame]
        if S.shape[1]:
            U = inertia_a @ S
            D = symmetric(transpose(S) @ U)
            force = actions.joints[step.edge.label] - np.matvec(transpose(S), bias_a)
            joints[step.frame] = (U, D, force)
            if step.parent == WORLD:
                continue
            U_D = transpose(solve_definite(D, transpose(U)))
            inertia_a = _without(symmetric(inertia_a - U @ transpose(U_D)), S)
            bias_a = bias_a + np.matvec(U_D, force)
        if step.parent == WORLD:
            continue
        bias_a = bias_a + np.matvec(inertia_a, zeta)
        pose = kinematics.links[step.frame].pose
        inertia[step.parent] = inertia[step.parent] + _inertia_to_parent(pose, inertia_a)
        bias[step.parent] = bias[step.parent] + _force_to_parent(pose, bias_a)
    acceleration = {WORLD: concatenate(-description.gravity, np.zeros(3))}
    result: dict[str, Array] = {}
    for step in kinematics.steps:
        total = adjoint_inverse(kinematics.links[step.frame].pose, acceleration[step.parent]) + _transport(
            dynamics, step
        )
        if step.frame in joints:
            U, D, force = joints[step.frame]
            rate = solve_definite(D, force - np.matvec(transpose(U), total))
            total = total + np.matvec(kinematics.subspace[step.frame], rate)
            result[step.edge.label] = total[3:] if step.edge.joint.velocity_frame == "absolute" else rate
        acceleration[step.frame] = total
    return concatenate(*(result[edge.label] for edge in description.joints))


def _transport(dynamics: Dynamics, step: Step) -> Array:
    """Acceleration of a link at zero joint acceleration and zero acceleration of its parent.

    The linear part is the acceleration of the origin, R^T r'', not the rate of its body velocity: linear velocities drop out,

        R^T omega_p x (omega_p x r) + (omega + R^T omega_p) x v_link,   omega x omega_link

    plus the rate of the joint's subspace.
    """
    kinematics = dynamics.kinematics
    link, omega = kinematics.links[step.frame], kinematics.absolute[step.frame].twist[3:]
    R_T, carried = transpose(se3.rotation(link.pose)), kinematics.absolute[step.parent].twist[3:]
    linear = np.matvec(R_T, np.cross(carried, np.cross(carried, se3.position(link.pose))))
    linear = linear + np.cross(omega + np.matvec(R_T, carried), link.twist[:3])
    return kinematics.subspace_bias[step.frame] + concatenate(linear, np.cross(omega, link.twist[3:]))


def _gyroscopic(dynamics: Dynamics, step: Step) -> Array:
    """Wrench of a body at zero acceleration of its origin: omega x (omega x m c), omega x S omega; zero for a frame without inertia."""
    inertia = dynamics.description.inertias.get(step.frame)
    if inertia is None:
        return np.zeros(6)
    omega = dynamics.kinematics.absolute[step.frame].twist[3:]
    force = np.cross(omega, np.cross(omega, inertia.total * inertia.center))
    return concatenate(force, np.cross(omega, np.matvec(inertia.moment_at_origin, omega)))


def _force_to_parent(pose: Array, wrench: Array) -> Array:
    """Ad(G^-1)^T wrench: the wrench in the axes and at the origin of the parent."""
    R, r = se3.rotation(pose), se3.position(pose)
    force = np.matvec(R, wrench[:3])
    return concatenate(force, np.matvec(R, wrench[3:]) + np.cross(r, force))


def _inertia_to_parent(pose: Array, inertia: Array) -> Array:
    """Ad(G^-1)^T inertia Ad(G^-1) of a symmetric 6x6 matrix, by 3x3 blocks."""
    R, r = se3.rotation(pose), so3.wed(se3.position(pose))
    a, b, d = (submatrix(inertia, *at) for at in ((UPPER, UPPER), (UPPER, LOWER), (LOWER, LOWER)))
    a, b, d = symmetric(R @ a @ transpose(R)), R @ b @ transpose(R), symmetric(R @ d @ transpose(R))
    upper = b - a @ r
    return symmetric(block([[a, upper], [transpose(upper), d + r @ upper - transpose(b) @ r]]))


def _without(inertia: Array, S: Array) -> Array:
    """Clear the rows and columns that the elimination of a joint along unit vectors makes zero: (I - U D^-1 S^T) S = 0."""
    import casadi

    subspace, matrix = casadi.SX(S.to_casadi()), casadi.SX(inertia.to_casadi())
    for j in range(subspace.shape[1]):
        rows = [i for i in range(6) if not subspace[i, j].is_zero()]
        if len(rows) == 1 and subspace[rows[0], j].is_constant():
            matrix[rows[0], :], matrix[:, rows[0]] = 0, 0
    return sparse(casadi.ArrayInterface(matrix, 2))
