"""Forward dynamics by the articulated-body recursion in internal frames.

The acceleration of a carrier is that of its origin in its own axes with the angular acceleration, as in :mod:`heavytop.system.dynamics.articulated`.
On the way to the world the recursion carries for each body the quadratic function

    1/2 a^T I a + p^T a + sum_k w_k (U_k^T a - f_k) + 1/2 sum_kl w_k D_kl w_l

of its acceleration a and of the joint accelerations w_k that cannot be eliminated yet, because joints outside of its subtree share them
(:class:`~heavytop.Coupled` joints). Without such joints no w_k is left over, and this is the articulated-body algorithm.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from heavytop._arrays import Array
from heavytop.errors import ModelError
from heavytop.geometry import se3
from heavytop.system.description import WORLD
from heavytop.system.dynamics.articulated import Actions, collect_actions
from heavytop.system.dynamics.equation_terms import EquationTerms
from heavytop.system.dynamics.solve import from_scalars, scalars
from heavytop.system.kinematics.internal_frames import (
    Axis,
    BodyMoments,
    Carrier,
    constant_stages,
    internal_tree,
    regrouped,
)
from heavytop.system.kinematics.spatial_transforms import (
    Blocks,
    FrameStage,
    Pair,
    Slide,
    Turn,
    Vector,
    Whole,
    apply,
    cross,
    dot,
    is_zero,
    plus,
    reduced,
    scaled,
    to_parent,
    wrench_to_parent,
)

Variable = tuple[str, int]
"""A joint acceleration: name of the joint and index of its velocity."""


@dataclass(eq=False)
class Elimination:
    """``w = (f - U . a - sum_l D_l w_l) / D`` for one joint acceleration."""

    variable: Variable
    U: Pair
    f: Any
    D: Any
    others: dict[Variable, Any]


@dataclass(eq=False)
class Form:
    """The quadratic function of the acceleration of a body and of the joint accelerations that are not yet eliminated."""

    inertia: Blocks
    bias: Pair
    U: dict[Variable, Pair] = field(default_factory=dict)
    f: dict[Variable, Any] = field(default_factory=dict)
    D: dict[frozenset[Variable], Any] = field(default_factory=dict)

    def add_velocity(self, variable: Variable, S: Pair) -> None:
        """Let the acceleration be that of the parent plus S times the joint acceleration."""
        for other, column in self.U.items():
            key = frozenset((variable, other))
            coupling = dot(S, column)
            self.D[key] = self.D.get(key, 0.0) + (coupling + coupling if other == variable else coupling)
        column, own = apply(self.inertia, S), frozenset((variable,))
        self.D[own] = self.D.get(own, 0.0) + dot(S, column)
        self.f[variable] = self.f.get(variable, 0.0) - dot(S, self.bias)
        self.U[variable] = plus(self.U[variable], column) if variable in self.U else column

    def add_spin(self, variable: Variable, K: Vector) -> None:
        """Let a joint acceleration turn the body with it through a rotor on it: the energy has the term K . omega times the velocity."""
        column = scalars(np.zeros(3)), K
        self.U[variable] = plus(self.U[variable], column) if variable in self.U else column
        self.f.setdefault(variable, 0.0)

    def eliminate(self, variable: Variable, keeps: bool = True, unit: tuple[int, Any] | None = None) -> Elimination:
        """Take out a joint acceleration; the form itself is brought up to date where it ``keeps`` being used.

        ``unit`` is, for a joint along a coordinate axis without rotor inertia, the row (0 to 5) that vanishes with it, and the force
        in the joint, which is the entry of the bias there.
        """
        U, f, D = self.U.pop(variable), self.f.pop(variable), self.D.pop(frozenset((variable,)))
        others = {k: self.D.pop(frozenset((variable, k))) for k in self.U if frozenset((variable, k)) in self.D}
        if is_zero(D):
            raise ModelError(
                f"joint {variable[0]!r} moves no mass. Give inertia to the bodies that it carries, with a moment about its axis (a point mass "
                "on the axis has none)."
            )
        names, inverse = list(others), 1.0 / D
        if keeps:
            V = scaled(inverse, U)
            self.inertia = reduced(self.inertia, U, V)
            self.bias = plus(self.bias, scaled(f, V))
            if unit is not None:
                self.inertia = _cleared(self.inertia, unit[0])
                self.bias[unit[0] // 3][unit[0] % 3] = unit[1]
        for k, coupling in others.items():
            share = coupling * inverse
            self.U[k] = plus(self.U[k], scaled(-share, U))
            self.f[k] = self.f[k] - share * f
            for other in names[names.index(k) :]:
                key = frozenset((k, other))
                self.D[key] = self.D.get(key, 0.0) - share * others[other]
        return Elimination(variable, U, f, D, others)

    def move(self, zeta: Pair) -> None:
        """Let the acceleration be another one plus ``zeta``."""
        self.bias = plus(self.bias, apply(self.inertia, zeta))
        for k, column in self.U.items():
            self.f[k] = self.f[k] - dot(column, zeta)

    def transport(self, stages: list[FrameStage]) -> None:
        """From the child frame to the parent frame."""
        self.inertia, self.bias = to_parent(stages, self.inertia), wrench_to_parent(stages, self.bias)
        self.U = {k: wrench_to_parent(stages, column) for k, column in self.U.items()}

    def merge(self, child: Form) -> None:
        """Add the form of a child, given in the frame of this one."""
        A, B, D = (x + y for x, y in zip(self.inertia, child.inertia, strict=True))
        self.inertia, self.bias = (A, B, D), plus(self.bias, child.bias)
        for k, column in child.U.items():
            self.U[k] = plus(self.U[k], column) if k in self.U else column
            self.f[k] = self.f.get(k, 0.0) + child.f[k]
        for key, value in child.D.items():
            self.D[key] = self.D.get(key, 0.0) + value


class CarriedBody:
    """A carrier at (q, v): its link to the parent, its angular velocity, the velocities of its joint."""

    def __init__(
        self, carrier: Carrier, parent: CarriedBody | None, dynamics: EquationTerms, moments: BodyMoments
    ) -> None:
        self.carrier, self.parent, self.moments = carrier, parent, moments
        self.joint, self.label = carrier.step.edge.joint, carrier.step.edge.label
        kinematics = dynamics.kinematics
        q, v = kinematics.q_of[self.label], kinematics.relative_v[self.label]
        rates = list(scalars(v))
        if carrier.axis is None:
            link, S = kinematics.links[carrier.name], kinematics.subspace[carrier.name]
            pose = scalars(carrier.at @ link.pose)
            self.stages: list[FrameStage] = [Whole(pose[:3, :3], pose[:3, 3])]
            self.position: Vector = pose[:3, 3]
            columns = scalars(S) if S.shape[1] else np.zeros((6, 0))
            self.S = [(columns[:3, j], columns[3:, j]) for j in range(S.shape[1])]
            twist, bias = scalars(link.twist), scalars(kinematics.subspace_bias[carrier.name])
            carried = self._carried()
            self.omega = carried + twist[3:]
            linear = bias[:3] + cross(self.omega + carried, twist[:3])
            self.zeta: Pair = (linear, bias[3:] + cross(self.omega, twist[3:]))
        else:
            (rate,) = rates
            self.stages, self.position = axis_link(carrier, carrier.axis, self._angle(q))
            zero, z = scalars(np.zeros(3)), scalars(np.array([0.0, 0.0, 1.0]))
            carried = self._carried()
            if carrier.axis.slides:
                self.S, self.omega = [(z, zero)], carried
                twice = cross(self.omega, z)
                self.zeta = (np.array([(x + x) * rate for x in twice], dtype=object), zero)
            else:
                self.S, self.omega = [(zero, z)], carried.copy()
                self.omega[2] = carried[2] + rate
                self.zeta = (zero, np.array([x * rate for x in cross(carried, z)], dtype=object))

        if self.joint.follows is not None:
            own = np.array([np.concatenate(column) for column in self.S], dtype=object).T
            felt = own @ scalars(self.joint.follow_matrix(kinematics.v_of[self.source].shape[0]))
            self.S = [(felt[:3, j], felt[3:, j]) for j in range(felt.shape[1])]

    @property
    def source(self) -> str:
        """The joint whose velocity this one has."""
        return self.label if self.joint.follows is None else self.joint.follows

    @cached_property
    def is_free(self) -> bool:
        """Whether the joint lets the body move in every way relative to the world, with its body twist as velocities."""
        columns = np.array([np.concatenate(column) for column in self.S], dtype=object)
        if self.parent is not None or columns.shape != (6, 6):
            return False
        return all(_is_one(x) if i == j else is_zero(x) for (i, j), x in np.ndenumerate(columns))

    @property
    def variables(self) -> list[Variable]:
        """The accelerations of the joint."""
        return [(self.source, k) for k in range(len(self.S))]

    def _carried(self) -> Vector:
        omega = scalars(np.zeros(3)) if self.parent is None else self.parent.omega
        for stage in reversed(self.stages):
            omega = stage.angular(omega)
        return omega

    def _angle(self, q: Array) -> tuple[Any, Any]:
        """For a sliding joint the displacement; for a turning one cosine and sine of its angle plus the offset."""
        axis, offset = self.carrier.axis, self.carrier.offset
        if axis is not None and axis.slides:
            return scalars(q)[0], 0.0
        quarters = offset / (np.pi / 2.0)
        is_quarter = float(quarters).is_integer()
        if q.shape[0] == 1:
            angle = q if is_quarter else q + offset
            c, s = scalars(np.cos(angle))[0], scalars(np.sin(angle))[0]
            turn = (1.0, 0.0)
        else:
            c, s = scalars(q)
            turn = (1.0, 0.0) if is_quarter else (float(np.cos(offset)), float(np.sin(offset)))
        if is_quarter:
            turn = ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))[int(quarters) % 4]
        return c * turn[0] - s * turn[1], s * turn[0] + c * turn[1]

    @cached_property
    def spin(self) -> np.ndarray:
        """W = wed(omega)^2 (3, 3): W r is the centripetal acceleration of a point."""
        x, y, z = self.omega
        xx, yy, zz, xy, xz, yz = x * x, y * y, z * z, x * y, x * z, y * z
        W = np.empty((3, 3), dtype=object)
        W.reshape(-1)[:] = [-(yy + zz), xy, xz, xy, -(xx + zz), yz, xz, yz, -(xx + yy)]
        return W

    @cached_property
    def lift(self) -> Vector | None:
        """Centripetal acceleration (3,) of the origin in axes of the parent: W_parent r; None if the parent is at rest."""
        if self.parent is None:
            return None
        return self.parent.spin @ self.position

    def form(self, actions: Actions, places: list[tuple[str, np.ndarray]]) -> Form:
        """Inertia and gyroscopic wrench of the body itself, less the wrenches that act on it."""
        first, second = scalars(np.reshape(self.moments.first, (3,))), scalars(self.moments.second)
        mass = scalars(np.reshape(self.moments.mass, (1,)))[0]
        x, y, z = first
        A, B = scalars(np.zeros((3, 3))), scalars(np.zeros((3, 3)))
        for i in range(3):
            A[i, i] = mass
        B[0, 1], B[0, 2], B[1, 0], B[1, 2], B[2, 0], B[2, 1] = z, -y, -z, x, y, -x
        bias = scalars(np.zeros(3)), scalars(np.zeros(3))
        if any(not is_zero(entry) for entry in first):
            bias = self.spin @ first, bias[1]
        bias = bias[0], cross(self.omega, second @ self.omega)
        for frame, pose in places:
            if frame in actions.wrenches:
                wrench = scalars(actions.on(frame))
                placed = scalars(pose)
                moved = Whole(placed[:3, :3], placed[:3, 3]).wrench((wrench[:3], wrench[3:]))
                bias = plus(bias, scaled(-1.0, moved))
        return Form((A, B, second), bias)


def axis_link(carrier: Carrier, axis: Axis, moved: tuple[Any, Any]) -> tuple[list[FrameStage], Vector]:
    """Stages of a link with one axis from the child to the parent, and the position of the child's origin in axes of the parent."""
    at = np.asarray(carrier.at)
    stages, position = constant_stages(at), scalars(at[:3, 3])
    if not axis.slides:
        return [Turn(2, *moved), *stages], position
    along = scalars(at[:3, 2])
    for k in range(3):
        position[k] = position[k] + along[k] * moved[0]
    return [Slide(2, moved[0]), *stages], position


def forward_dynamics(dynamics: EquationTerms, u: Array) -> Array:
    """Acceleration (nv,) of a tree by the recursion in internal frames: outward velocities, inward inertias, outward accelerations."""
    description, kinematics = dynamics.description, dynamics.kinematics
    actions = collect_actions(dynamics, u)
    tree = internal_tree(description, kinematics.steps)
    moments = regrouped(tree.carriers)
    bodies: dict[str, CarriedBody] = {}
    places: dict[str, list[tuple[str, np.ndarray]]] = {name: [] for name in (WORLD, *tree.carriers)}
    for frame, (owner, pose) in tree.place.items():
        places[owner].append((frame, pose))
    for name, carrier in tree.carriers.items():
        bodies[name] = CarriedBody(carrier, bodies.get(carrier.parent), dynamics, moments[name])
    forms = {name: body.form(actions, places[name]) for name, body in bodies.items()}
    source = {body.label: body for body in bodies.values() if body.joint.follows is None}
    carried: dict[Variable, list[str]] = {}
    for label, frame, K in actions.couplings:
        owner, pose = tree.place[frame]
        if owner != WORLD:
            turned = scalars(se3.rotation(pose) @ K)
            for j, variable in enumerate(source[label].variables):
                forms[owner].add_spin(variable, turned[:, j])
                carried.setdefault(variable, []).append(owner)
    sites = _sites(bodies, carried)
    eliminated: dict[tuple[str, bool], list[Elimination]] = {}
    world = Form(tuple(scalars(np.zeros((3, 3))) for _ in range(3)), (scalars(np.zeros(3)), scalars(np.zeros(3))))  # pyright: ignore[reportArgumentType]
    forms[WORLD] = world
    for name, body in reversed(bodies.items()):
        form = forms[name]
        eliminated[name, False] = [form.eliminate(k) for k in sites.get((name, False), ())]
        alone = not form.U  # nothing else moves with the velocities of this joint
        _join(form, body, actions)
        at_joint = sites.get((name, True), ())
        moves = body.carrier.parent != WORLD or len(form.U) > len(at_joint)
        eliminated[name, True] = [
            form.eliminate(k, moves, _unit(body, i, actions) if alone else None) for i, k in enumerate(at_joint)
        ]
        if moves:
            form.move(body.zeta)
            form.transport(body.stages)
            if body.lift is not None:
                form.move((body.lift, scalars(np.zeros(3))))
            forms[body.carrier.parent].merge(form)
    base = scalars(dynamics.gravity.base_acceleration())
    acceleration: dict[str, Pair] = {WORLD: (base[:3], base[3:])}
    eliminated[WORLD, False] = [world.eliminate(k, keeps=False) for k in sites.get((WORLD, False), ())]
    w: dict[Variable, Any] = {}
    _resolve(eliminated[WORLD, False], acceleration[WORLD], w)
    result: dict[str, list[Any]] = {}
    for name, body in bodies.items():
        a = acceleration[body.carrier.parent]
        if body.lift is not None:
            a = a[0] + body.lift, a[1]
        for stage in reversed(body.stages):
            a = stage.acceleration(a)
        a = plus(a, body.zeta)
        if (
            body.is_free and body.label not in actions.rotors
        ):  # the form gives the acceleration itself, whatever that of the parent
            _resolve(eliminated[name, True], None, w)
            total = np.array([w[k] for k in body.variables], dtype=object)
            w |= dict(zip(body.variables, total - np.concatenate(a), strict=True))
            a = total[:3], total[3:]
        else:
            _resolve(eliminated[name, True], a, w)
            for S, variable in zip(body.S, body.variables, strict=True):
                a = plus(a, scaled(w[variable], S))
        acceleration[name] = a
        _resolve(eliminated[name, False], a, w)
        is_absolute = body.joint.velocity_frame == "absolute"
        result[body.label] = list(a[1]) if is_absolute else [w[k] for k in body.variables]
    return from_scalars(np.array([x for edge in description.joints for x in result[edge.label]], dtype=object))


def _sites(
    bodies: dict[str, CarriedBody], carried: dict[Variable, list[str]]
) -> dict[tuple[str, bool], list[Variable]]:
    """Where each joint acceleration is eliminated: (carrier, True) in its joint, (carrier, False) on the body after its children.

    A single joint, and one that carries all that follow it, in the joint; otherwise on the nearest body that carries all of them.
    ``carried`` are the carriers of rotors that the joint drives.
    """
    users: dict[Variable, list[str]] = {}
    for name, body in bodies.items():
        for variable in body.variables:
            users.setdefault(variable, []).append(name)
    sites: dict[tuple[str, bool], list[Variable]] = {}
    for variable, names in users.items():
        chains = [_chain(bodies, name) for name in (*names, *carried.get(variable, ()))]
        common = [x for x, *rest in zip(*chains, strict=False) if all(x == y for y in rest)]
        sites.setdefault((common[-1], common[-1] in names), []).append(variable)
    return sites


def _chain(bodies: dict[str, CarriedBody], name: str) -> list[str]:
    """Carriers from the world down to one."""
    chain = [name]
    while chain[-1] != WORLD:
        chain.append(bodies[chain[-1]].carrier.parent)
    return chain[::-1]


def _join(form: Form, body: CarriedBody, actions: Actions) -> None:
    """Bring in the accelerations of a joint, with the forces and the rotor that act in it."""
    rotor = scalars(actions.rotors[body.label]) if body.label in actions.rotors else None
    force = scalars(actions.joints[body.label]) if body.label in actions.joints else None
    for i, (variable, S) in enumerate(zip(body.variables, body.S, strict=True)):
        form.add_velocity(variable, S)
        if force is not None:
            form.f[variable] = form.f[variable] + force[i]
        if rotor is not None:
            for j in range(i + 1):
                key = frozenset((variable, body.variables[j]))
                form.D[key] = form.D.get(key, 0.0) + rotor[i, j]


def _resolve(eliminated: list[Elimination], a: Pair | None, w: dict[Variable, Any]) -> None:
    """The joint accelerations that were eliminated as functions of ``a`` (None: zero), last first."""
    for e in reversed(eliminated):
        force = e.f if a is None else e.f - dot(e.U, a)
        for k, coupling in e.others.items():
            force = force - coupling * w[k]
        w[e.variable] = force / e.D


def _unit(body: CarriedBody, i: int, actions: Actions) -> tuple[int, Any] | None:
    """The row of the inertia that vanishes with the acceleration of a joint along a coordinate axis, and the force in the joint."""
    entries = [*body.S[i][0], *body.S[i][1]]
    rows = [k for k, entry in enumerate(entries) if not is_zero(entry)]
    if body.label in actions.rotors or body.joint.follows is not None:
        return None
    return (rows[0], scalars(actions.joints[body.label])[i]) if len(rows) == 1 and _is_one(entries[rows[0]]) else None


def _cleared(blocks: Blocks, row: int) -> Blocks:
    """The inertia with a row and its column made exactly zero."""
    A, B, D = (X.copy() for X in blocks)
    k = row % 3
    if row < 3:
        A[k, :], A[:, k], B[k, :] = 0.0, 0.0, 0.0
    else:
        D[k, :], D[:, k], B[:, k] = 0.0, 0.0, 0.0
    return A, B, D


def _is_one(x: Any) -> bool:
    return bool(x.is_one()) if hasattr(x, "is_one") else x == 1
