"""Poses, body Jacobians and their rates for every frame of a system, as symbolic expressions.

Along each edge of the spanning tree (eqs 3.105, 3.107, 3.124 with errata 0.35, 0.44):

    G_ac = G_ab G_bc,   J_ac = Ad(G_cb) J_ab + J_bc,   d/dt(J_ac) v = Ad(G_cb) d/dt(J_ab) v + ad(xi_ac) xi_bc + d/dt(J_bc) v.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np

from heavytop._arrays import (
    Array,
    Floats,
    column,
    concatenate,
    depends_on,
    directional,
    is_symbolic,
    jacobian,
    matrix,
    shape,
    sparse,
    split,
    submatrix,
    symbol,
    transpose,
)
from heavytop.compile import NOT_MATH
from heavytop.coordinates import Product
from heavytop.errors import ModelError, unknown_name
from heavytop.geometry import se3
from heavytop.system.description import WORLD
from heavytop.system.description.graph import Edge, Step, ancestors
from heavytop.system.dynamics.solve import SINGULAR_MAP, inverse_of_map, linear_part

ONE = np.ones(())
VelocityMap = Callable[[Array, Array], Array]
SINGULAR = 1e-10
"""Smallest singular value of a velocity map, relative to the largest, after scaling the largest entry of each row to one."""
ROUNDING = 1e-12
"""Largest error of the product of a velocity map and its inverse, relative to its terms."""
LINEAR, ANGULAR, ALL = slice(0, 3), slice(3, 6), slice(None)


class Motion:
    """Motion of one frame relative to another: pose (4, 4), body twist (6,), bias d/dt(J) v (6,), body Jacobian J (6, nv).

    The Jacobian is built on demand: the recursions over a tree never need it.
    """

    def __init__(self, pose: Array, twist: Array, bias: Array, jacobian: Callable[[], Array]) -> None:
        self.pose, self.twist, self.bias, self._jacobian = pose, twist, bias, jacobian

    @cached_property
    def jacobian(self) -> Array:
        """J (6, nv): twist = J v."""
        return sparse(self._jacobian())

    def rate(self, a: Array) -> Array:
        """Rate J a + d/dt(J) v (6,) of the twist."""
        return np.matvec(self.jacobian, a) + self.bias

    @classmethod
    def none(cls, nv: int) -> Motion:
        """A frame relative to itself."""
        return cls(np.eye(4), np.zeros(6), np.zeros(6), lambda: np.zeros((6, nv)))

    @classmethod
    def given(cls, pose: Array, time: Array, nv: int) -> Motion:
        """A frame with a prescribed motion: xi = vee(G^-1 dG/dt), independent of the velocities."""
        twist = se3.vee(se3.inverse(pose) @ directional(pose, time, ONE))
        return cls(pose, twist, directional(twist, time, ONE), lambda: np.zeros((6, nv)))

    def then(self, link: Motion) -> Motion:
        """Motion of c relative to a, from this motion of b relative to a and the ``link`` of c relative to b."""
        twist = adjoint_inverse(link.pose, self.twist) + link.twist
        turning = np.matvec(se3.ad(twist), link.twist)
        bias = adjoint_inverse(link.pose, self.bias) + turning + link.bias
        return Motion(
            self.pose @ link.pose, twist, bias, lambda: adjoint_inverse(link.pose, self.jacobian) + link.jacobian
        )

    def reversed(self) -> Motion:
        """Motion of a relative to b: J_ba = -Ad(G_ab) J_ab, and the same for the bias, since ad(xi) xi = 0 (erratum 0.44)."""
        Ad = se3.Ad(self.pose)
        twist, bias = -np.matvec(Ad, self.twist), -np.matvec(Ad, self.bias)
        return Motion(se3.inverse(self.pose), twist, bias, lambda: -(Ad @ self.jacobian))


def adjoint_inverse(pose: Array, x: Array) -> Array:
    """Ad(G^-1) x for a twist (6,) or for the columns of a Jacobian (6, n): (R^T (v - r x w), R^T w)."""
    R_T, r = transpose(se3.rotation(pose)), se3.position(pose)
    if len(x.shape) == 1:
        v, w = x[:3], x[3:]
        return concatenate(np.matvec(R_T, v - np.cross(r, w)), np.matvec(R_T, w))
    v, w = submatrix(x, LINEAR, ALL), submatrix(x, ANGULAR, ALL)
    return np.concatenate([R_T @ (v - se3.so3.wed(r) @ w), R_T @ w], axis=0)


def _check_inverse(W: Floats, T: Floats) -> None:
    """Raise a ModelError unless T (k, n, n) are the inverses of the maps W (k, n, n) at random states, to rounding."""
    finite = np.all(np.isfinite(W), axis=(1, 2))
    if not np.any(finite):
        raise ModelError(f"velocity(q, v) turned a symbol into the number nan. {NOT_MATH}")
    W, T = W[finite], T[finite]
    largest = np.max(np.abs(W), axis=2, keepdims=True)
    singular = np.linalg.svd(W / np.where(largest > 0.0, largest, 1.0), compute_uv=False)
    if not np.all(singular[:, -1] > SINGULAR * singular[:, 0]):
        raise ModelError(SINGULAR_MAP)
    error, size = np.abs(W @ T - np.eye(W.shape[1])), np.abs(W) @ np.abs(T)
    if not np.all(np.max(error, axis=(1, 2)) <= ROUNDING * np.max(size, axis=(1, 2))):
        raise ModelError(
            f"velocity(q, v) = W(q) v cannot be inverted accurately: W W^-1 differs from the identity by {np.max(error):.2g} at random states, where "
            f"W has condition {np.max(singular[:, 0] / singular[:, -1]):.2g}. Scale its rows to similar sizes, or choose velocities that depend less "
            "on each other."
        )


class Kinematics:
    """Symbolic kinematics of a tree at the configuration ``q`` and the joints' velocities ``v``.

    Parameters
    ----------
    coordinates : product of the joints' coordinate blocks, in the order of ``edges``.
    edges, steps : the transformations and the spanning tree over them.
    q, v : symbolic (nq,) and (nv,). v may itself be an expression ``T(q) w`` of other velocity coordinates w.
    time : symbol of the time, on which placements of frames may depend, or None.
    pushes : name of a moving frame -> a term added to its twist (6,), to separate the shares of several frames; biases do not contain it.
    transform, transform_bias : T (nv, nv) and d/dt(T) w (nv,) in that case; Jacobians are then with respect to w.
    """

    def __init__(
        self,
        coordinates: Product,
        edges: Sequence[Edge],
        steps: Sequence[Step],
        q: Array,
        v: Array,
        time: Array | None = None,
        pushes: Mapping[str, Array] | None = None,
    ) -> None:
        self.coordinates, self.edges, self.steps = coordinates, tuple(edges), tuple(steps)
        self.q, self.v, self.nv = q, v, coordinates.nv
        self.time, self._pushes = time, dict(pushes or {})
        self.free_velocity = v
        """The symbols of the velocity coordinates: v, or w where v is an expression of them."""
        self._joint_nv = coordinates.nv
        self.transform: Array | None = None
        self.transform_bias: Array | None = None
        labels = [edge.label for edge in edges]
        sizes = [edge.joint.coordinates.nv for edge in edges]
        self.q_of = dict(zip(labels, split(q, [edge.joint.coordinates.nq for edge in edges]), strict=True))
        self.v_of = dict(zip(labels, split(v, sizes), strict=True))
        self._follow()
        starts = np.cumsum([0, *sizes])
        self._rows_at = {label: slice(a, b) for label, a, b in zip(labels, starts, starts[1:], strict=False)}
        self._relative_rows: dict[str, Array] = {}
        self.relative_v: dict[str, Array] = {}
        """Joint label -> the joint's parent-relative velocity."""
        self.subspace: dict[str, Array] = {}
        """Frame -> (6, n) body Jacobian of its link with respect to the joint's parent-relative velocity."""
        self.subspace_bias: dict[str, Array] = {}
        """Frame -> (6,) rate of the subspace times that velocity."""
        self.links: dict[str, Motion] = {}
        """Frame -> its motion relative to the parent in the tree."""
        self.absolute = {WORLD: Motion.none(self._joint_nv)}
        """Frame -> its motion relative to the world."""
        self.chains = ancestors(steps)
        self._step_of = {step.edge.label: step for step in steps}
        self._pairs: dict[tuple[str, str], Motion] = {}
        for step in steps:
            self._advance(step)

    def _follow(self) -> None:
        """Coordinates and velocities of coupled joints from those of the joints they follow."""
        joints = {edge.label: edge.joint for edge in self.edges}
        for label, joint in joints.items():
            if joint.follows is not None:
                joint.check_source(joints.get(joint.follows), label, joints)
                source_q, source_v = self.q_of[joint.follows], self.v_of[joint.follows]
                self.q_of[label], self.v_of[label] = joint.follow(source_q, source_v)

    def _unit_rows(self, label: str) -> Array:
        return sparse(np.eye(self._joint_nv)[self._rows_at[label]])

    def _advance(self, step: Step) -> None:
        """Motion of ``step.frame`` from that of its parent."""
        edge, parent, joint = step.edge, self.absolute[step.parent], step.edge.joint
        label, q, v = edge.label, self.q_of[edge.label], self.v_of[edge.label]
        moved = joint.pose(q)
        if self.time is not None and depends_on(moved, self.time):
            raise ModelError(
                f"joint {label!r} has a pose that depends on the time explicitly. Move its placement instead (at=, or a frame with an at that "
                "depends on system.time), or prescribe it with ht.Prescribed."
            )
        pose, S = edge.at @ moved, sparse(joint.jacobian(q))
        absolute = joint.velocity_frame == "absolute"
        v_bias = np.zeros(joint.coordinates.nv)
        if absolute:
            v, v_bias = self._relative_from_absolute(step, parent, pose)
        self.relative_v[label] = v
        bias = joint.bias(q, v)
        twist, link_bias = np.matvec(S, v), bias + np.matvec(S, v_bias) if absolute else bias
        if self.is_moving(edge):
            driven = Motion.given(pose, self.time, self._joint_nv)
            twist, link_bias = driven.twist + self._pushes.get(label, 0.0), driven.bias
            bias = link_bias
        link = Motion(pose, twist, link_bias, lambda: S @ self.relative_rows(label))
        self.subspace[step.frame], self.subspace_bias[step.frame] = S, bias
        if not step.forward:
            Ad = se3.Ad(pose)
            self.subspace[step.frame], self.subspace_bias[step.frame] = -(Ad @ S), -np.matvec(Ad, bias)
            link = link.reversed()
        self.links[step.frame] = link
        motion = parent.then(link)
        if absolute:
            # by choice of the velocity coordinates the angular rows are the unit rows, and constant (eq. 3.109a, erratum 0.37)
            relative = motion
            motion = Motion(
                motion.pose,
                concatenate(motion.twist[:3], self.v_of[label]),
                concatenate(motion.bias[:3], np.zeros(3)),
                lambda: np.concatenate([submatrix(relative.jacobian, LINEAR, ALL), self._unit_rows(label)], axis=0),
            )
        self.absolute[step.frame] = motion

    def _relative_from_absolute(self, step: Step, parent: Motion, pose: Array) -> tuple[Array, Array]:
        """Parent-relative angular velocity omega - R^T omega_parent of a joint with absolute velocity, and its bias."""
        if not step.forward:
            raise ModelError(
                f"joint {step.edge.label!r} has an absolute velocity, but its body {step.edge.b!r} is nearer to the world "
                f"than its parent {step.edge.a!r}. Declare the joint with the outer body as the child, or use "
                "velocity='relative'."
            )
        R_T = transpose(se3.rotation(pose))
        carried = np.matvec(R_T, parent.twist[3:])
        omega = self.v_of[step.edge.label] - carried
        return omega, np.cross(omega, carried) - np.matvec(R_T, parent.bias[3:])

    def is_moving(self, edge: Edge) -> bool:
        """Whether the time moves a frame relative to its parent."""
        return self.time is not None and depends_on(edge.at, self.time)

    def rate_of(self, value: Array) -> Array:
        """The rate of an expression of q and of the time along the motion, at constant velocity coordinates."""
        rate = directional(value, self.q, self.rate)
        return rate if self.time is None else rate + directional(value, self.time, ONE)

    def relative_rows(self, label: str) -> Array:
        """Rows (n, nv) that give the parent-relative velocity of a joint."""
        if label not in self._relative_rows:
            rows, step = self._unit_rows(label), self._step_of[label]
            if step.edge.joint.follows is not None:
                rows = sparse(step.edge.joint.follow(np.zeros(1), self.relative_rows(step.edge.joint.follows))[1])
            elif step.edge.joint.velocity_frame == "absolute":
                R_T = transpose(se3.rotation(self.links[step.frame].pose))
                rows = sparse(rows - R_T @ submatrix(self.absolute[step.parent].jacobian, ANGULAR, ALL))
            self._relative_rows[label] = rows
        return self._relative_rows[label]

    @cached_property
    def _reframed(self) -> dict[str, tuple[Array, Array]]:
        """Velocity (3,) and its rows of joints declared with another velocity frame than that of the model."""
        found = {}
        for edge in self.edges:
            if edge.own_frame in (None, edge.joint.velocity_frame):
                continue
            label, motion = edge.label, self.absolute[self._step_of[edge.label].frame]
            if edge.own_frame == "absolute":
                found[label] = motion.twist[3:], submatrix(motion.jacobian, ANGULAR, ALL)
            else:
                found[label] = self.relative_v[label], self.relative_rows(label)
        return found

    @cached_property
    def own_v(self) -> Array:
        """Velocities (n,) that user-defined functions get: those with which the joints were declared."""
        moving = [edge.label for edge in self.edges if edge.joint.coordinates.nv]
        parts = [self._reframed.get(label, (self.v_of[label],))[0] for label in moving]
        return concatenate(*parts) if self._reframed else self.v

    @cached_property
    def own_rows(self) -> Array:
        """Rows (n, joint velocities) of own_v = rows v."""
        if not self._reframed:
            return np.eye(self._joint_nv)
        rows = {label: self._unit_rows(label) for label in self._rows_at} | {
            k: x for k, (_, x) in self._reframed.items()
        }
        return sparse(np.concatenate(list(rows.values()), axis=0))

    def on_joints(self, force: Array) -> Array:
        """A generalised force on :attr:`own_v` as one on the joints' velocities v."""
        return np.matvec(transpose(self.own_rows), force) if self._reframed else force

    def pulled_back(self, force: Array) -> Array:
        """A generalised force on :attr:`own_v` as one on the velocity coordinates of the model: T^T force."""
        force = self.on_joints(force)
        return force if self.transform is None else np.matvec(transpose(self.transform), force)

    @property
    def own_kinematics_matrix(self) -> Array:
        """A (nq, n) with q' = A times :attr:`own_v`."""
        A = self.joint_kinematics_matrix
        return A @ inverse_of_map(self.own_rows) if self._reframed else A

    def with_velocity(
        self, velocity: VelocityMap, w: Array, at_random: Callable[[Array, Array], tuple[Floats, ...]]
    ) -> Kinematics:
        """The same system in the velocity coordinates w = velocity(q, v), which must be linear in v.

        ``at_random`` evaluates expressions of q and parameters at random states.
        """
        probe = symbol("v_probe", self.nv)
        given = velocity(self.q, probe)
        if shape(given) != (self.nv,):
            raise ModelError(
                f"velocity(q, v) must return {self.nv} velocity coordinates, got an array of shape {shape(given)}."
            )
        W = linear_part(given, probe)
        if W is None:
            raise ModelError("velocity(q, v) must be linear in v (w = W(q) v), but it is not.")
        T = inverse_of_map(W)
        _check_inverse(*at_random(W, T))
        return self._in_terms_of(np.matvec(T, w), w)

    def with_basis(self, basis: VelocityMap, w: Array) -> Kinematics:
        """The same system in fewer velocity coordinates w with v = basis(q, w), linear in w plus a drift."""
        v = basis(self.q, w)
        if shape(v) != (self.nv,):
            raise ModelError(f"basis(q, w) must return the {self.nv} velocities v, got an array of shape {shape(v)}.")
        return self._in_terms_of(v, w)

    def _in_terms_of(self, v: Array, w: Array) -> Kinematics:
        """Kinematics at the velocities v(q, w) = T(q) w + drift, with Jacobians with respect to w."""
        T = jacobian(v, w)
        if depends_on(T, w):
            raise ModelError(
                "basis(q, w) must be linear in w (plus a drift), but its derivative with respect to w depends on w."
            )
        changed = Kinematics(self.coordinates, self.edges, self.steps, self.q, v, self.time)
        changed.nv, changed.free_velocity = shape(w)[0], w
        changed.transform = sparse(T)
        changed.transform_bias = changed.rate_of(v)
        return changed

    @property
    def rate(self) -> Array:
        """q' (nq,)."""
        moving = [e for e in self.edges if e.joint.coordinates.nq]
        parts = [e.joint.coordinates.rate(self.q_of[e.label], self.relative_v[e.label]) for e in moving]
        return concatenate(*parts)

    @property
    def joint_kinematics_matrix(self) -> Array:
        """A (nq, joint velocities): q' = A times the joints' own velocities."""
        blocks = [
            sparse(edge.joint.coordinates.kinematics_matrix(self.q_of[edge.label])) @ self.relative_rows(edge.label)
            for edge in self.edges
            if edge.joint.coordinates.nq
        ]
        return np.concatenate(blocks, axis=0)

    @property
    def kinematics_matrix(self) -> Array:
        """A (nq, nv) with q' = A v."""
        return self.by_model_velocity(self.joint_kinematics_matrix)

    @cached_property
    def commutation(self) -> tuple[Array, ...]:
        """gamma^k_ij as nv matrices [k][i, j] (eqs 2.17-2.19).

        For velocities v = T(q) w the coefficients of the joints' own blocks transform by
        gamma'^k_ij = W^k_s (gamma^s_ab T_i^a T_j^b + d_i T_j^s - d_j T_i^s) with W = T^-1.
        """
        import casadi

        own = self.coordinates.commutation(self.q)
        joints = [self.relative_rows(e.label) for e in self.edges if e.joint.coordinates.nv]
        T = self.by_model_velocity(sparse(np.concatenate(joints, axis=0)))
        n, A = self.nv, self.kinematics_matrix
        if T.shape[0] != n:
            raise ModelError(
                "a basis of constrained velocities has no commutation coefficients: its directions may leave their own span."
            )
        if not is_symbolic(own[0]) and casadi.is_equal(casadi.densify(T.to_casadi()), casadi.SX.eye(n), 1):
            return tuple(own)
        rates = [directional(T, self.q, column(A, i)) for i in range(n)]  # rates[i][s, j] = d_i T_j^s
        W = inverse_of_map(T)
        raw = []
        for s in range(n):
            bent = transpose(T) @ own[s] @ T
            slopes = matrix([[rates[i][s, j] for j in range(n)] for i in range(n)])
            raw.append(bent + slopes - transpose(slopes))
        return tuple(sum(W[k, s] * raw[s] for s in range(n)) for k in range(n))

    def by_model_velocity(self, jacobian: Array) -> Array:
        """A Jacobian with respect to the joints' velocities v as one with respect to the velocity coordinates of the model."""
        return jacobian if self.transform is None else sparse(jacobian @ self.transform)

    def motion(self, a: str, b: str) -> Motion:
        """Motion of frame b relative to frame a; Jacobian and bias in the chosen velocity coordinates."""
        key = (a, b)
        if key not in self._pairs:
            raw = self._relative(a, b)
            if self.transform is not None and self.transform_bias is not None:
                bias = raw.bias + np.matvec(raw.jacobian, self.transform_bias)
                self._pairs[key] = Motion(raw.pose, raw.twist, bias, lambda: self.by_model_velocity(raw.jacobian))
            else:
                self._pairs[key] = raw
        return self._pairs[key]

    def _relative(self, a: str, b: str) -> Motion:
        """Compose the links on the path from a to b over their lowest common ancestor."""
        for name in (a, b):
            if name not in self.chains:
                raise unknown_name("body or frame", name, self.chains)
        if a == WORLD:
            return self.absolute[b]
        chain_a, chain_b = self.chains[a], self.chains[b]
        common = sum(x == y for x, y in zip(chain_a, chain_b, strict=False))
        motion = Motion.none(self._joint_nv)
        for frame in reversed(chain_a[common:]):
            motion = motion.then(self.links[frame].reversed())
        for frame in chain_b[common:]:
            motion = motion.then(self.links[frame])
        return motion

    def pose(self, a: str, b: str) -> Array:
        """G_ab (4, 4)."""
        return self.motion(a, b).pose

    def jacobian(self, a: str, b: str) -> Array:
        """J_ab (6, nv)."""
        return self.motion(a, b).jacobian

    def joint_velocity_row(self, label: str, index: int) -> Array:
        """Row (nv,) that gives one velocity coordinate of a joint (parent-relative)."""
        rows = self.joint_velocity_rows(label)
        if not 0 <= index < rows.shape[0]:
            raise ModelError(f"joint {label!r} has {rows.shape[0]} velocity coordinates; index {index} does not exist.")
        return rows[index, :]

    def joint_velocity_rows(self, label: str) -> Array:
        """Rows (n, nv) that give the velocity coordinates of a joint (parent-relative)."""
        if label not in self.v_of:
            raise unknown_name("joint (the name of the body it carries)", label, self.v_of)
        return self.by_model_velocity(self.relative_rows(label))
