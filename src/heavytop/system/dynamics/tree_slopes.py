"""Derivatives of the inverse dynamics of a tree in closed form, without differentiating anything.

After Singh, Russell and Wensing (2022), for joints whose subspace S is constant in the moved body. All is written in an inertial frame that coincides
with the frame of the root at the instant: distances from the origin of the world never enter. With the velocity V and acceleration A of a body
(of the world: minus gravity), psi = V_p x S, phi = A_p x S + V_p x psi of the parent p, S' = V x S, and the sums over the bodies that a joint carries

    I, 2 B = V x* I - I V x + (I V) x*,   f = I A + V x* I V

the derivatives of the joint forces along the velocity coordinates (eq. 2.13) and by v are, for a joint i carried by j (i = j included),

    d_j tau_i = S_i^T (2 B_i psi_j + I_i phi_j)                          dtau_i/dv_j = S_i^T (2 B_i S_j + I_i (psi_j + S'_j))
    d_i tau_j = S_j^T (2 B_i psi_i + I_i phi_i + S_i x* f_i)  (i != j)   dtau_j/dv_i = S_j^T (2 B_i S_i + I_i (psi_i + S'_i)).

For rigid bodies 2 B is [[J', 0], [0, 0]] - [[n x, 0], [2 p x, 0]] with the rate J' of the moment of inertia at the origin, the angular momentum n
and the linear momentum p; motions are (angular, linear) here, and forces (moment, force).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from heavytop._arrays import Array, depends_on, is_symbolic, split
from heavytop.system.description import WORLD
from heavytop.system.dynamics.equation_terms import EquationTerms
from heavytop.system.dynamics.internal_dynamics import CarriedBody, Variable
from heavytop.system.dynamics.solve import from_scalars, scalars
from heavytop.system.kinematics.internal_frames import BodyMoments, internal_tree, regrouped
from heavytop.system.kinematics.spatial_transforms import Vector, cross, mirrored, plus, scaled, times, wrench_to_parent

Screw = tuple[Vector, Vector]
"""(angular, linear) of a motion, (moment, force) of a wrench, about the origin of the inertial frame."""


def is_closed_form(dynamics: EquationTerms) -> bool:
    """Whether :func:`rigid_slopes` applies: relative velocities, subspaces constant in the moved bodies, no frame that the time moves."""
    kinematics = dynamics.kinematics
    if kinematics.transform is not None or kinematics.time is not None:
        return False
    for step in kinematics.steps:
        S, joint = kinematics.subspace[step.frame], step.edge.joint
        if joint.velocity_frame == "absolute":
            return False
        one_axis = joint.kind in ("revolute", "prismatic")
        if not (step.forward or one_axis) or (is_symbolic(S) and depends_on(S, kinematics.q)):
            return False
    return True


def rigid_slopes(dynamics: EquationTerms, a: Array) -> tuple[Array, Array, Array]:
    """Derivatives (nv, nv) of the force that the bodies' inertia and weight need: by a, along the velocity coordinates, and by v."""
    kinematics, description = dynamics.kinematics, dynamics.description
    edges = description.joints
    accelerations = dict(zip([e.label for e in edges], split(a, [e.joint.coordinates.nv for e in edges]), strict=True))
    tree = internal_tree(description, kinematics.steps)
    moments = regrouped(tree.carriers)
    carried: dict[str, CarriedBody] = {}
    bodies: dict[str, _Body] = {}
    for name, carrier in tree.carriers.items():
        carried[name] = CarriedBody(carrier, carried.get(carrier.parent), dynamics, moments[name])
        own, label = carried[name], carried[name].source
        rates = [scalars(kinematics.v_of[label]), scalars(accelerations[label])] if own.S else []
        parent = bodies.get(carrier.parent)
        bodies[name] = _Body(own, parent, moments[name], rates, scalars(dynamics.gravity.base_acceleration())[:3])
    order = [(e.label, k) for e in edges for k in range(e.joint.coordinates.nv)]
    place = {variable: k for k, variable in enumerate(order)}
    results = [np.zeros((len(order), len(order)), dtype=object) for _ in range(3)]
    for name, body in reversed(bodies.items()):
        _columns(body, place, results)
        if tree.carriers[name].parent != WORLD:
            bodies[tree.carriers[name].parent].carry(body)
    M, Dq, Dv = (from_scalars(result) for result in results)
    return M, Dq, Dv


@dataclass
class _Column:
    """A velocity of a joint: S and what follows from it."""

    variable: Variable
    S: Screw
    psi: Screw
    phi: Screw
    bent: Screw
    """psi + S'."""


class _Body:
    """A carrier in the inertial frame of its root, with the sums over all that it carries."""

    def __init__(
        self, own: CarriedBody, parent: _Body | None, moments: BodyMoments, rates: list[np.ndarray], lift: Vector
    ) -> None:
        axes = [wrench_to_parent(own.stages, (scalars(axis), _zero()))[0] for axis in np.eye(3)]
        R = np.array(axes, dtype=object).T
        if parent is None:  # the inertial frame is that of the root
            V, A = (_zero(), _zero()), (_zero(), R.T @ lift)
            R, r = scalars(np.eye(3)), _zero()
        else:
            V, A = parent.V, parent.A
            R, r = parent.R @ R, parent.r + parent.R @ own.position
        self.parent, self.R, self.r = parent, R, r
        self.columns: list[_Column] = []
        moved, driven = (_zero(), _zero()), (_zero(), _zero())
        for k, (linear, angular) in enumerate(own.S):
            turn = R @ angular
            S = turn, R @ linear + cross(r, turn)
            psi = motion_cross(V, S)
            self.columns.append(_Column(own.variables[k], S, psi, plus(motion_cross(A, S), motion_cross(V, psi)), psi))
            moved, driven = plus(moved, scaled(rates[0][k], S)), plus(driven, scaled(rates[1][k], S))
        self.V = plus(V, moved)
        self.A = plus(plus(A, driven), motion_cross(V, moved))
        for column in self.columns:
            # V x S = psi + (S w) x S, and a single velocity commutes with itself
            rate = column.psi if len(own.S) == 1 else motion_cross(self.V, column.S)
            column.bent = plus(column.psi, rate)
        self._weigh(moments)

    def _weigh(self, moments: BodyMoments) -> None:
        """Inertia, its rate, momentum and force of the body itself."""
        R, r, (omega, v) = self.R, self.r, self.V
        self.mass: Any = scalars(np.reshape(moments.mass, (1,)))[0]
        first = R @ scalars(np.reshape(moments.first, (3,)))
        half = times(r, 0.5 * self.mass) + first  # so that r half^T + half r^T has the whole square of r
        self.h = times(r, self.mass) + first
        turned = R @ scalars(moments.second) @ R.T
        self.J = mirrored(turned) + _spread(r, half)
        rate = _crossed(omega, self.J)
        self.J_rate = rate + rate.T + _spread(self.h, v)
        self.n, self.p = self.momentum(self.V)
        inertial = self.momentum(self.A)
        self.f = plus(inertial, force_cross(self.V, (self.n, self.p)))

    def momentum(self, x: Screw) -> Screw:
        """I x."""
        return self.J @ x[0] + cross(self.h, x[1]), times(x[1], self.mass) - cross(self.h, x[0])

    def bend(self, x: Screw) -> Screw:
        """2 B x."""
        force = cross(x[0], self.p)
        return self.J_rate @ x[0] + cross(x[0], self.n), force + force

    def bend_back(self, x: Screw) -> Vector:
        """The angular part of 2 B^T x; the linear one is zero."""
        twice = cross(self.p, x[1])
        return self.J_rate @ x[0] + cross(self.n, x[0]) + twice + twice

    def carry(self, child: _Body) -> None:
        """Add the sums of a body that this one carries."""
        for what in ("mass", "h", "J", "J_rate", "n", "p"):
            setattr(self, what, getattr(self, what) + getattr(child, what))
        self.f = plus(self.f, child.f)


def _columns(body: _Body, place: dict[Variable, int], results: list[np.ndarray]) -> None:
    """Rows and columns of the derivatives that belong to the joint of a body."""
    M, Dq, Dv = results

    def add(matrix: np.ndarray, i: Variable, j: Variable, value: Any) -> None:
        matrix[place[i], place[j]] = matrix[place[i], place[j]] + value

    for own in body.columns:
        carried = body.momentum(own.S)
        by_q, by_v = plus(body.bend(own.psi), body.momentum(own.phi)), plus(body.bend(own.S), body.momentum(own.bent))
        back = body.bend_back(own.S)
        for other in body.columns:
            add(M, other.variable, own.variable, power(other.S, carried))
            add(Dq, other.variable, own.variable, power(other.S, by_q))
            add(Dv, other.variable, own.variable, power(other.S, by_v))
        by_q = plus(by_q, force_cross(own.S, body.f))
        ancestor = body.parent
        while ancestor is not None:
            for other in ancestor.columns:
                i, j = own.variable, other.variable
                inertia = power(other.S, carried)
                add(M, i, j, inertia)
                add(M, j, i, inertia)
                add(Dq, j, i, power(other.S, by_q))
                add(Dv, j, i, power(other.S, by_v))
                add(Dq, i, j, back @ other.psi[0] + power(other.phi, carried))
                add(Dv, i, j, back @ other.S[0] + power(other.bent, carried))
            ancestor = ancestor.parent


def motion_cross(x: Screw, y: Screw) -> Screw:
    """x times y of two motions."""
    return cross(x[0], y[0]), cross(x[0], y[1]) + cross(x[1], y[0])


def force_cross(x: Screw, w: Screw) -> Screw:
    """x times w of a motion and a wrench: the rate of a wrench that moves with x."""
    return cross(x[0], w[0]) + cross(x[1], w[1]), cross(x[0], w[1])


def power(x: Screw, w: Screw) -> Any:
    """Power of a wrench at a motion."""
    return x[0] @ w[0] + x[1] @ w[1]


def _zero() -> Vector:
    return scalars(np.zeros(3))


def _crossed(omega: Vector, X: np.ndarray) -> np.ndarray:
    """wed(omega) X."""
    return np.array([cross(omega, X[:, k]) for k in range(3)], dtype=object).T


def _spread(x: Vector, y: Vector) -> np.ndarray:
    """2 (x . y) - x y^T - y x^T: a moment of inertia at the origin for the position x and the mass moment y."""
    products = [[x[i] * y[j] for j in range(3)] for i in range(3)]
    out = np.empty((3, 3), dtype=object)
    for i in range(3):
        j, k = (i + 1) % 3, (i + 2) % 3
        both = products[j][j] + products[k][k]
        out[i, i] = both + both
        out[i, j] = out[j, i] = -(products[i][j] + products[j][i])
    return out
