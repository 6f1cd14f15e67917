"""The action along a curve and its first variation (thesis, eqs 2.26 to 2.30; Hamilton's principle with forces, eq. 3.12).

A curve is given by its values at quadrature nodes: times (m,), configurations (m, nq), velocities (m, nv). Numbers only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from heavytop._arrays import Array, as_array
from heavytop.coordinates import Coordinates
from heavytop.errors import wrong_shape
from heavytop_mechanics import euler_lagrange
from heavytop_mechanics.functions import Evaluator, Function, along, applied, gradient, scalar_function, shapes


class Nodes(NamedTuple):
    """Quadrature nodes: times (m,) and weights (m,) in s."""

    t: np.ndarray
    weights: np.ndarray


def gauss_nodes(start: float, stop: float, intervals: int = 20, order: int = 8) -> Nodes:
    """Gauss-Legendre nodes on equal intervals, exact for piecewise polynomials of degree ``2 order - 1``.

    >>> nodes = gauss_nodes(0.0, 1.0)
    >>> float(np.sum(nodes.weights * nodes.t**3).round(12))
    0.25
    """
    x, w = np.polynomial.legendre.leggauss(order)
    edges = np.linspace(start, stop, intervals + 1)
    half = 0.5 * np.diff(edges)[:, None]
    return Nodes((edges[:-1, None] + half * (1 + x)).reshape(-1), (half * w).reshape(-1))


def action(coordinates: Coordinates, lagrangian: Function, nodes: Nodes, q: Array, v: Array) -> float:
    """``J = int L(q, v, t) dt`` (eq. 2.26)."""
    return float(np.sum(nodes.weights * _evaluator(coordinates, lagrangian)(q, v, nodes.t)))


def _evaluator(coordinates: Coordinates, lagrangian: Function) -> Evaluator:
    energy = scalar_function(lagrangian, 2, "a Lagrangian")
    return Evaluator(lambda q, v, t: energy(q, v, t)[0], shapes(coordinates, "q v t"), "L")


class Curve(NamedTuple):
    """Configurations (m, nq) and velocities (m, nv) at the nodes."""

    q: np.ndarray
    v: np.ndarray


def varied_curve(coordinates: Coordinates, q: Array, v: Array, h: Array, h_rate: Array, eps: float) -> Curve:
    """The neighbouring curve ``q + eps A(q) h`` and its velocity ``Y(q) q'`` (eqs 2.27, 2.28), correct to first order in eps.

    ``h`` (m, nv) are the variation coordinates, zero at both ends, ``h_rate`` their time derivative.
    """

    def vary(q: Array, v: Array, h: Array, h_rate: Array, eps: Array) -> tuple[Array, Array]:
        kinematics = as_array(coordinates.kinematics_matrix(q))
        chi = np.matvec(kinematics, h)
        rate = coordinates.rate(q, v)
        chi_rate = along(chi, q, rate) + np.matvec(kinematics, h_rate)
        varied = q + eps * chi
        return varied, np.matvec(coordinates.left_inverse(varied), rate + eps * chi_rate)

    inputs = shapes(coordinates, "q v h h_rate") | {"eps": ()}
    return Curve(*Evaluator(vary, inputs, "varied_curve")(q, v, h, h_rate, eps))


def first_variation(
    coordinates: Coordinates,
    lagrangian: Function,
    nodes: Nodes,
    q: Array,
    v: Array,
    h: Array,
    h_rate: Array,
    force: Function | None = None,
    dissipation: Function | None = None,
) -> float:
    """``int (d_i L h^i + dL/dv^i (gamma^i_kj v^k h^j + h'^i) + f_i h^i) dt`` (eq. 2.29): zero on motions.

    The last term is the virtual work of the forces; its sign is that of erratum 0.23: ``delta T + delta' W``.
    """
    energy, applied_force = scalar_function(lagrangian, 2, "a Lagrangian"), applied(coordinates, force, dissipation)

    def integrand(q: Array, v: Array, h: Array, h_rate: Array, t: Array) -> Array:
        value = energy(q, v, t)
        slope = gradient(value, q) @ as_array(coordinates.kinematics_matrix(q))
        gamma = coordinates.commutation(q)
        turning = np.stack([np.vecdot(v, np.matvec(gamma[i], h)) for i in range(coordinates.nv)])  # gamma^i_kj v^k h^j
        total = np.vecdot(slope, h) + np.vecdot(gradient(value, v), turning + h_rate)
        return total + np.vecdot(applied_force(q, v, t), h)

    value = Evaluator(integrand, shapes(coordinates, "q v h h_rate t"), "first_variation")
    return float(np.sum(nodes.weights * value(q, v, h, h_rate, nodes.t)))


def euler_lagrange_variation(
    coordinates: Coordinates,
    lagrangian: Function,
    nodes: Nodes,
    q: Array,
    v: Array,
    a: Array,
    h: Array,
    force: Function | None = None,
    dissipation: Function | None = None,
) -> float:
    """The first variation after integration by parts (eq. 2.30, erratum 0.12), for ``h`` that vanish at both ends."""
    residual = euler_lagrange.residual(coordinates, lagrangian, force, dissipation)
    return float(-np.sum(nodes.weights * np.vecdot(np.asarray(h, dtype=float), residual(q, v, a, nodes.t))))


def discrete_action(coordinates: Coordinates, lagrangian: Function, t: Array, q: Array) -> np.ndarray:
    """The midpoint action (...) of points ``q`` (..., m, nq) at times ``t`` (m,).

    ``sum_k h_k L(q_k o exp(d_k / 2), d_k / h_k, t_k + h_k / 2)`` with ``d_k = difference(q_k, q_k+1)``. Motions make it stationary up
    to the square of the step, with respect to every inner point.
    """
    t, q = np.asarray(t, dtype=float), np.asarray(q, dtype=float)
    if q.ndim < 2 or q.shape[-2:] != (len(t), coordinates.nq):
        raise wrong_shape("the points q of a discrete action", ("...", len(t), coordinates.nq), q.shape)
    value, step = _evaluator(coordinates, lagrangian), np.diff(t)
    delta = coordinates.difference(q[..., :-1, :], q[..., 1:, :])
    middle = coordinates.retract(q[..., :-1, :], 0.5 * delta)
    return np.sum(step * value(middle, delta / step[:, None], t[:-1] + 0.5 * step), axis=-1)
