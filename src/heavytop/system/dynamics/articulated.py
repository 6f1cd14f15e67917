"""Recursions over the tree with a number of operations linear in the number of bodies.

Inverse dynamics (recursive Newton-Euler) and forward dynamics (articulated bodies), in body coordinates, and the mass matrix (composite bodies), as
an expression or at one configuration in numbers. The velocity coordinates of a joint are parent-relative here; joints that use absolute velocities
are converted at the end. The acceleration of a body is that of its origin in body axes with the angular acceleration; it differs from the rate of the
body twist by omega x v.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from heavytop._arrays import Array, block, concatenate, is_symbolic, shape, sparse, split, submatrix, to_sx, transpose
from heavytop.geometry import se3, so3
from heavytop.system.description import WORLD
from heavytop.system.description.graph import Step
from heavytop.system.dynamics.equation_terms import EquationTerms
from heavytop.system.dynamics.solve import solve_definite, symmetric
from heavytop.system.kinematics.kinematics import Kinematics, adjoint_inverse


class Actions:
    """Body wrenches (6,) by frame; generalised forces and rotor inertias by joint (parent-relative velocities)."""

    def __init__(self, kinematics: Kinematics) -> None:
        self.kinematics = kinematics
        self._edges = {edge.label: edge for edge in kinematics.edges if edge.joint.coordinates.nv}
        self._coupled = {e.label: e.joint for e in kinematics.edges if e.joint.follows is not None}
        self.wrenches: dict[str, Array] = defaultdict(lambda: np.zeros(6))
        self.joints: dict[str, Array] = {k: np.zeros(e.joint.coordinates.nv) for k, e in self._edges.items()}
        self.rotors: dict[str, Array] = {}
        self.couplings: list[tuple[str, str, Array]] = []
        """(joint, body, K (3, n)): kinetic energy omega^T K w of rotors that a body carries and a joint drives."""

    def wrench(self, a: str, b: str, wrench: Array) -> None:
        """``wrench`` on b in axes of b; its reaction -Ad(G_ba)^T wrench on a."""
        self.wrenches[b] = self.wrenches[b] + wrench
        if a != WORLD:
            Ad = se3.Ad(self.kinematics.pose(b, a))
            self.wrenches[a] = self.wrenches[a] - np.matvec(transpose(Ad), wrench)

    def size(self, label: str) -> int:
        """Number of velocities of a joint, also of one that follows another."""
        return self.kinematics.v_of[label].shape[0]

    def joint(self, label: str, force: Array) -> None:
        """A force conjugate to the parent-relative velocities of a joint; with an absolute velocity a moment between its bodies.

        On a coupled joint it is felt by the joint that this one follows.
        """
        if label in self._coupled:
            source = str(self._coupled[label].follows)
            self.joint(source, np.matvec(transpose(self._coupled[label].follow_matrix(self.size(source))), force))
            return
        edge = self._edges[label]
        if edge.joint.velocity_frame == "absolute":
            self.wrench(edge.a, edge.b, concatenate(np.zeros(3), force))
        else:
            self.joints[label] = self.joints[label] + force

    def generalised(self, force: Array) -> None:
        """A force on the joints' own velocities: on a joint, or for an absolute angular velocity a moment on its body."""
        sizes = [edge.joint.coordinates.nv for edge in self._edges.values()]
        for edge, part in zip(self._edges.values(), split(force, sizes), strict=True):
            if edge.joint.velocity_frame == "absolute":
                self.wrenches[edge.b] = self.wrenches[edge.b] + concatenate(np.zeros(3), part)
            else:
                self.joints[edge.label] = self.joints[edge.label] + part

    def rotor(self, label: str, inertia: Array) -> None:
        """An inertia (n, n) that moves with the parent-relative velocities of a joint."""
        if label in self._coupled:
            source = str(self._coupled[label].follows)
            share = self._coupled[label].follow_matrix(self.size(source))
            self.rotor(source, transpose(share) @ inertia @ share)
            return
        self.rotors[label] = self.rotors[label] + inertia if label in self.rotors else inertia

    def couple(self, label: str, body: str, K: Array) -> None:
        """Kinetic energy omega^T K w (K of shape (3, n)) of the velocities w of a joint and the angular velocity of a body."""
        if label in self._coupled:
            source = str(self._coupled[label].follows)
            self.couple(source, body, K @ self._coupled[label].follow_matrix(self.size(source)))
        elif body != WORLD:
            self.couplings.append((label, body, K))

    def on(self, frame: str) -> Array:
        """The wrench (6,) on a frame."""
        return self.wrenches.get(frame, np.zeros(6))


UPPER, LOWER = slice(0, 3), slice(3, 6)


def is_recursive(dynamics: EquationTerms) -> bool:
    """Whether the forward recursion applies: the joints' own velocity coordinates, no joint that follows another one, no carried rotor."""
    edges = dynamics.description.graph.edges
    plain = all(edge.joint.follows is None for edge in edges) and all(
        port.carrier is None for port, _ in dynamics.rotors
    )
    return dynamics.kinematics.transform is None and plain


def collect_actions(dynamics: EquationTerms, u: Array) -> Actions:
    """Force elements and inputs as wrenches on bodies and forces in joints; no gravity, no inertia of bodies."""
    actions = Actions(dynamics.kinematics)
    for terms in dynamics.elements:
        if terms.exerted is not None:
            terms.port.place(terms.exerted, actions)
    for port, rotor in dynamics.rotors:
        matrix, n = rotor.matrix, actions.size(port.label)
        actions.rotor(port.label, submatrix(matrix, slice(0, n), slice(0, n)))
        if port.carrier is not None:
            actions.couple(port.label, port.carrier, submatrix(matrix, slice(n, n + 3), slice(0, n)))
        if port.size > 1:  # a single velocity commutes with itself
            port.place(-rotor.force(np.zeros(port.size)), actions)
    for k, element in enumerate(dynamics.description.inputs.values()):
        for action in element.actions(dynamics.kinematics):
            action.place(u[k], actions)
    return actions


def inverse_dynamics(dynamics: EquationTerms, a: Array, *, bodies: bool = True) -> Array:
    """Generalised force (nv,) that the inputs must supply for the acceleration ``a`` (recursive Newton-Euler).

    Without ``bodies`` their inertia and weight are left out: what remains are force elements and rotors.
    """
    kinematics, description = dynamics.kinematics, dynamics.description
    actions = collect_actions(dynamics, np.zeros(len(description.inputs)))
    edges = description.joints
    a_of = dict(zip([e.label for e in edges], split(a, [e.joint.coordinates.nv for e in edges]), strict=True))
    coupled = {e.label: e.joint.follows for e in description.graph.edges if e.joint.follows is not None}
    share = {
        e.label: e.joint.follow_matrix(kinematics.v_of[coupled[e.label]].shape[0])
        for e in description.graph.edges
        if e.label in coupled
    }
    a_of |= {label: np.matvec(share[label], a_of[source]) for label, source in coupled.items()}
    acceleration = {WORLD: dynamics.gravity.base_acceleration()}
    relative = dict(a_of)
    wrench: dict[str, Array] = {}
    for step in kinematics.steps:
        total = adjoint_inverse(kinematics.links[step.frame].pose, acceleration[step.parent]) + _transport(
            dynamics, step
        )
        if step.edge.joint.velocity_frame == "absolute":
            relative[step.edge.label] = a_of[step.edge.label] - total[3:]
            total = concatenate(total[:3], a_of[step.edge.label])
        elif step.edge.label in a_of:
            total = total + np.matvec(kinematics.subspace[step.frame], a_of[step.edge.label])
        acceleration[step.frame] = total
        wrench[step.frame] = -actions.on(step.frame)
        if bodies and step.frame in description.inertias:
            wrench[step.frame] = wrench[step.frame] + _gyroscopic(dynamics, step)
            wrench[step.frame] = wrench[step.frame] + np.matvec(description.inertias[step.frame].matrix, total)
    forces = {edge.label: np.zeros(edge.joint.coordinates.nv) for edge in edges}
    rotors = {label: np.matvec(matrix, relative[label]) for label, matrix in actions.rotors.items()}
    for label, body, K in actions.couplings:
        rotors[label] = rotors[label] + np.matvec(transpose(K), acceleration[body][3:])
        wrench[body] = wrench[body] + concatenate(np.zeros(3), np.matvec(K, relative[label]))
    for step in reversed(kinematics.steps):
        label, f = step.edge.label, wrench[step.frame]
        rotor = rotors.get(label, np.zeros(3))
        if step.edge.joint.velocity_frame == "absolute":
            # the joint transmits a force but no moment apart from that of its rotor
            forces[label], f = f[3:] + rotor, concatenate(f[:3], -rotor)
        elif label in coupled:
            felt = np.matvec(transpose(kinematics.subspace[step.frame] @ share[label]), f)
            forces[coupled[label]] = forces[coupled[label]] + felt
        elif label in a_of:
            forces[label] = forces[label] + np.matvec(transpose(kinematics.subspace[step.frame]), f)
            forces[label] = forces[label] - actions.joints[label]
            if label in rotors:
                forces[label] = forces[label] + rotor
        if step.parent != WORLD:
            wrench[step.parent] = wrench[step.parent] + _force_to_parent(kinematics.links[step.frame].pose, f)
    return concatenate(*(forces[edge.label] for edge in edges))


def forward_dynamics(dynamics: EquationTerms, u: Array) -> Array:
    """Acceleration (nv,) by the articulated-body recursion: outward velocities, inward inertias, outward accelerations."""
    kinematics, description = dynamics.kinematics, dynamics.description
    actions = collect_actions(dynamics, u)
    inertia: dict[str, Array] = {}
    bias: dict[str, Array] = {}
    for step in kinematics.steps:
        body = description.inertias.get(step.frame)
        inertia[step.frame] = np.zeros((6, 6)) if body is None else body.matrix
        bias[step.frame] = _gyroscopic(dynamics, step) - actions.on(step.frame)
    joints: dict[str, tuple[Array, Array, Array]] = {}
    for step in reversed(kinematics.steps):
        S, zeta = kinematics.subspace[step.frame], _transport(dynamics, step)
        inertia_a, bias_a = inertia[step.frame], bias[step.frame]
        if S.shape[1]:
            U = inertia_a @ S
            D = symmetric(transpose(S) @ U)
            rotor = actions.rotors.get(step.edge.label)
            D = D if rotor is None else symmetric(D + rotor)
            force = actions.joints[step.edge.label] - np.matvec(transpose(S), bias_a)
            joints[step.frame] = (U, D, force)
            if step.parent == WORLD:
                continue
            U_D = transpose(solve_definite(D, transpose(U)))
            inertia_a = symmetric(inertia_a - U @ transpose(U_D))
            inertia_a = _without(inertia_a, S) if rotor is None else inertia_a
            bias_a = bias_a + np.matvec(U_D, force)
        if step.parent == WORLD:
            continue
        bias_a = bias_a + np.matvec(inertia_a, zeta)
        pose = kinematics.links[step.frame].pose
        inertia[step.parent] = inertia[step.parent] + _inertia_to_parent(pose, inertia_a)
        bias[step.parent] = bias[step.parent] + _force_to_parent(pose, bias_a)
    acceleration = {WORLD: dynamics.gravity.base_acceleration()}
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


def _transport(dynamics: EquationTerms, step: Step) -> Array:
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


def _gyroscopic(dynamics: EquationTerms, step: Step) -> Array:
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


def has_composites(dynamics: EquationTerms) -> bool:
    """Whether composite bodies give the mass matrix: a tree of joints with own velocities relative to the parent, without explicit time."""
    own = all(step.edge.joint.velocity_frame != "absolute" for step in dynamics.kinematics.steps)
    return own and dynamics.description.time is None and is_recursive(dynamics)


def composite_mass_matrix(dynamics: EquationTerms, p_symbols: Array, q: np.ndarray, p: np.ndarray) -> np.ndarray:
    """M (nv, nv) at the configuration q (nq,) with parameters p (np,) by composite bodies (Walker and Orin 1982).

    Only the links are traced: their poses, subspaces and inertias.
    """
    kinematics, steps = dynamics.kinematics, dynamics.kinematics.steps
    links = [kinematics.links[s.frame].pose for s in steps]
    subspaces = [kinematics.subspace[s.frame] for s in steps]
    rotors = [(port.label, rotor.matrix) for port, rotor in dynamics.rotors]
    parts = [*links, *subspaces, *_body_inertias(dynamics), *(matrix for _, matrix in rotors)]
    values, n = _numbers(parts, dynamics.q, p_symbols, q, p), len(steps)
    M, columns = np.zeros((dynamics.nv, dynamics.nv)), _columns(dynamics)
    for own, index, entries in _composite_blocks(steps, columns, values[:n], values[n : 2 * n], values[2 * n : 3 * n]):
        M[np.ix_(own, index)] = entries
        M[np.ix_(index, own)] = entries.T
    for (label, _), matrix in zip(rotors, values[3 * n :], strict=True):
        at = np.ix_(columns[label], columns[label])
        M[at] = M[at] + matrix[: len(columns[label]), : len(columns[label])]
    return M


def recursive_mass_matrix(dynamics: EquationTerms) -> Array:
    """M (nv, nv) as an expression by composite bodies: shorter than the sum over bodies for all but small trees."""
    import casadi

    kinematics, columns = dynamics.kinematics, _columns(dynamics)
    steps = kinematics.steps
    links, subspaces = ([x[s.frame] for s in steps] for x in (kinematics.links, kinematics.subspace))
    M = casadi.SX(dynamics.nv, dynamics.nv)
    poses, inertias = [link.pose for link in links], [sparse(matrix) for matrix in _body_inertias(dynamics)]
    for own, index, entries in _composite_blocks(steps, columns, poses, subspaces, inertias):
        block_ = casadi.sparsify(casadi.SX(sparse(entries).to_casadi()))
        for a, i in enumerate(own):
            for b, j in enumerate(index):
                if not block_[a, b].is_zero():
                    M[int(i), int(j)] = block_[a, b]
                    M[int(j), int(i)] = block_[a, b]
    for port, rotor in dynamics.rotors:
        at = columns[port.label]
        added = casadi.SX(sparse(rotor.matrix).to_casadi())
        for a, i in enumerate(at):
            for b, j in enumerate(at):
                M[int(i), int(j)] = M[int(i), int(j)] + added[a, b]
    return casadi.ArrayInterface(M, 2)


def _body_inertias(dynamics: EquationTerms) -> list[Array]:
    """The 6x6 inertia of the body that each step of the tree moves."""
    inertias = dynamics.description.inertias
    return [inertias[s.frame].matrix if s.frame in inertias else np.zeros((6, 6)) for s in dynamics.kinematics.steps]


def _columns(dynamics: EquationTerms) -> dict[str, np.ndarray]:
    """Places of the velocities of each joint."""
    joints = dynamics.description.joints
    ends = np.cumsum([e.joint.coordinates.nv for e in joints])
    return {e.label: np.arange(end - e.joint.coordinates.nv, end) for e, end in zip(joints, ends, strict=True)}


def _composite_blocks(
    steps: Sequence[Step],
    columns: dict[str, np.ndarray],
    poses: Sequence[Array],
    subspaces: Sequence[Array],
    inertias: Sequence[Array],
) -> Iterator[tuple[np.ndarray, np.ndarray, Array]]:
    """Rows, columns and entries of the parts of M, from the tips to the root.

    A body takes up what it carries; its columns of wrenches I_c S, taken to each ancestor, give the entries S_j^T I_c S_i.
    """
    composites = list(inertias)
    carried: dict[str, list[tuple[np.ndarray, Array]]] = {}
    place = {step.frame: k for k, step in enumerate(steps)}
    for k in reversed(range(len(steps))):
        step, S = steps[k], subspaces[k]
        own = columns.get(step.edge.label, np.arange(0))
        wrenches = [*carried.pop(step.frame, []), *([(own, composites[k] @ S)] if len(own) else [])]
        if wrenches:
            index = np.concatenate([at for at, _ in wrenches])
            F = np.concatenate([force for _, force in wrenches], axis=1)
            if len(own):
                yield own, index, transpose(S) @ F
        if step.parent != WORLD:
            above = place[step.parent]
            composites[above] = composites[above] + _inertia_to_parent(poses[k], composites[k])
            if wrenches:
                carried.setdefault(step.parent, []).append((index, _wrenches_to_parent(poses[k], F)))


def _wrenches_to_parent(pose: Array, wrenches: Array) -> Array:
    """Ad(G^-1)^T of the columns of wrenches (6, n)."""
    R, r = se3.rotation(pose), se3.position(pose)
    force = R @ submatrix(wrenches, UPPER, slice(None))
    return np.concatenate([force, R @ submatrix(wrenches, LOWER, slice(None)) + so3.wed(r) @ force], axis=0)


def _numbers(parts: list[Array], q_symbols: Array, p_symbols: Array, q: np.ndarray, p: np.ndarray) -> list[np.ndarray]:
    """Arrays of expressions in q and p as numbers."""
    import casadi

    symbolic = [is_symbolic(part) for part in parts]
    column = casadi.vertcat(
        *(to_sx(part) for part, is_symbol in zip(parts, symbolic, strict=True) if is_symbol), casadi.SX(0, 1)
    )
    found = casadi.Function("links", [to_sx(q_symbols), to_sx(p_symbols)], [casadi.densify(column)])(q, p)
    flat, at = np.asarray(found).ravel(), 0
    made: list[np.ndarray] = []
    for part, is_symbol in zip(parts, symbolic, strict=True):
        size = int(np.prod(shape(part))) if is_symbol else 0
        made.append(flat[at : at + size].reshape(shape(part)) if is_symbol else np.asarray(part, dtype=float))
        at += size
    return made
