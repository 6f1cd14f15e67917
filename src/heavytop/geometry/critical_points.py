"""All critical points of ``V(R) = -tr(P R)`` on SO(3), classified (section 2.4, eqs 2.61-2.68).

With ``P = X diag(sigma) Y^T`` (proper rotations) and ``R = Y Rbar X^T`` the function is ``-tr(diag(sigma) Rbar)``. Its
critical points are isolated (R0 to R3), circles (R4, R5, R7), spheres (R6, R8) or everything, depending on which of the
eigenvalues ``0 <= lambda_1 <= lambda_2 <= lambda_3`` of ``Vee(diag(sigma))`` coincide or vanish: eight cases.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from heavytop._arrays import Array, Floats, components, matrix, vector
from heavytop.errors import ModelError
from heavytop.geometry import so3
from heavytop.geometry.polar import ProperSVD, lambda_from_sigma, proper_svd
from heavytop.geometry.quaternion import scaled_rotation

Kind = Literal["minimum", "saddle", "maximum", "constant"]

# case -> its critical sets with their kinds, in the order of the thesis
_CASES: dict[str, tuple[tuple[str, Kind], ...]] = {
    "distinct": (("R0", "minimum"), ("R1", "saddle"), ("R2", "saddle"), ("R3", "maximum")),
    "lambda1=lambda2": (("R0", "minimum"), ("R3", "maximum"), ("R4", "saddle")),
    "lambda2=lambda3": (("R0", "minimum"), ("R1", "saddle"), ("R5", "maximum")),
    "triple": (("R0", "minimum"), ("R6", "maximum")),
    "lambda1=0": (("R7", "minimum"), ("R2", "saddle"), ("R3", "maximum")),
    "lambda1=0, lambda2=lambda3": (("R7", "minimum"), ("R5", "maximum")),
    "lambda1=lambda2=0": (("R8", "minimum"), ("R3", "maximum")),
    "zero": (("SO(3)", "constant"),),
}
_DIMENSION = {"R4": 1, "R5": 1, "R6": 2, "R7": 1, "R8": 2, "SO(3)": 3}


def value(P: Array, R: Array) -> Array:
    """``-tr(P R)`` (...) (eq. 2.61)."""
    return -so3.trace(P @ R)


def gradient(P: Array, R: Array) -> Array:
    """``vee2(P R)`` (..., 3), with respect to the body angular velocity (eq. 2.64)."""
    return so3.vee2(P @ R)


def hessian(P: Array, R: Array) -> Array:
    """Second derivatives ``d_i d_j V`` (..., 3, 3) with row i and column j: ``Vee(P R)`` (eq. 2.65, there transposed).

    They do not commute; at critical points the matrix is symmetric.
    """
    return so3.Vee(P @ R)


def member(label: str, parameter: Array = ()) -> Array:
    """The rotation Rbar (..., 3, 3) of a critical set (eqs 2.67a-i, errata 0.18, 0.19).

    ``parameter`` is empty for R0 to R3, a unit vector (c, s) for the circles R4, R5, R7, a unit vector (qx, qy, qz) for
    the sphere R6, (qw, qx, qy) for R8, and a unit quaternion for "SO(3)".

    >>> member("R4", [1.0, 0.0])
    array([[-1.,  0.,  0.],
           [ 0.,  1.,  0.],
           [ 0.,  0., -1.]])
    """
    match label:
        case "R0" | "R1" | "R2" | "R3":
            signs = ((1.0, 1.0, 1.0), (1.0, -1.0, -1.0), (-1.0, 1.0, -1.0), (-1.0, -1.0, 1.0))
            return np.diag(signs[int(label[1])])
        case "R4":
            c, s = components(parameter)
            return matrix([[-c, s, 0.0], [s, c, 0.0], [0.0, 0.0, -1.0]])
        case "R5":
            c, s = components(parameter)
            return matrix([[-1.0, 0.0, 0.0], [0.0, c, s], [0.0, s, -c]])
        case "R6":
            x, y, z = components(parameter)
            return scaled_rotation(vector(0.0 * x, x, y, z))
        case "R7":
            c, s = components(parameter)
            return matrix([[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]])
        case "R8":
            w, x, y = components(parameter)
            return scaled_rotation(vector(w, x, y, 0.0 * w))
        case "SO(3)":
            return scaled_rotation(parameter)
    raise ModelError(f"a critical set is one of 'R0' to 'R8' or 'SO(3)', got {label!r}.")


def critical_value(label: str, lam: Array) -> float:
    """Value of V on a critical set in terms of the eigenvalues lambda (3,) (eqs 2.67a-i)."""
    l1, l2, l3 = lam
    return {
        "R0": -(l1 + l2 + l3) / 2,
        "R1": (3 * l1 - l2 - l3) / 2,
        "R2": (3 * l2 - l1 - l3) / 2,
        "R3": (3 * l3 - l1 - l2) / 2,
        "R4": l1 - l3 / 2,
        "R5": l2 - l1 / 2,
        "R6": l1 / 2,
        "R7": -(l2 + l3) / 2,
        "R8": -l3 / 2,
        "SO(3)": 0.0,
    }[label]


def critical_spectrum(label: str, lam: Array) -> Floats:
    """Eigenvalues (3,) of the Hessian on a critical set, ascending (eqs 2.67a-i)."""
    l1, l2, l3 = lam
    spectrum = {
        "R0": (l3, l2, l1),
        "R1": (l3 - l1, l2 - l1, -l1),
        "R2": (l3 - l2, l1 - l2, -l2),
        "R3": (l2 - l3, l1 - l3, -l3),
        "R4": (l3 - l1, 0.0, -l1),
        "R5": (0.0, l1 - l2, -l2),
        "R6": (0.0, 0.0, -l1),
        "R7": (l3, l2, 0.0),
        "R8": (l3, 0.0, 0.0),
        "SO(3)": (0.0, 0.0, 0.0),
    }[label]
    return np.sort(np.array(spectrum, dtype=float))


def classify(lam: Array, tolerance: float = 1e-9) -> str:
    """Which of the eight eigenvalue cases holds for lambda (3,), ascending; equality within ``tolerance * lambda_3``.

    >>> classify([0.0, 2.0, 2.0])
    'lambda1=0, lambda2=lambda3'
    """
    l1, l2, l3 = (float(x) for x in lam)
    limit = tolerance * l3
    if l3 <= 0.0:
        return "zero"
    low, high = l2 - l1 <= limit, l3 - l2 <= limit
    if l1 <= limit:
        return "lambda1=lambda2=0" if l2 <= limit else "lambda1=0, lambda2=lambda3" if high else "lambda1=0"
    if low and high:
        return "triple"
    return "lambda1=lambda2" if low else "lambda2=lambda3" if high else "distinct"


@dataclass(frozen=True, eq=False)
class CriticalSet:
    """A connected set of critical points of ``-tr(P R)``.

    Attributes
    ----------
    label : "R0" to "R8" or "SO(3)".
    kind : minimum, saddle, maximum or constant.
    strict : a minimum or maximum that no neighbour attains; False for saddles.
    dimension : 0 point, 1 circle, 2 sphere (R6 as axes: projective plane), 3 the whole group.
    value : V on the set.
    spectrum : (3,) eigenvalues of the Hessian, ascending.
    frames : the rotations X, Y with ``R = Y Rbar X^T``.
    """

    label: str
    kind: Kind
    strict: bool
    dimension: int
    value: float
    spectrum: Floats
    frames: ProperSVD

    def member(self, parameter: Array = ()) -> Floats:
        """The critical rotation R (..., 3, 3) for a parameter as in :func:`member`."""
        return self.frames.Y @ member(self.label, parameter) @ self.frames.X.T

    def random(self, rng: np.random.Generator, shape: tuple[int, ...] = ()) -> Floats:
        """Random critical rotations (*shape, 3, 3) of this set."""
        if self.dimension == 0:
            return np.broadcast_to(self.member(), (*shape, 3, 3))
        parameter = rng.standard_normal((*shape, self.dimension + 1))
        return self.member(parameter / np.linalg.norm(parameter, axis=-1, keepdims=True))


def critical_sets(P: Array, tolerance: float = 1e-9) -> tuple[CriticalSet, ...]:
    """All critical sets of ``-tr(P R)`` for a matrix ``P`` (3, 3).

    >>> [(c.label, c.kind, c.strict) for c in critical_sets(np.diag([3.0, 1.0, -1.0]))]
    [('R7', 'minimum', False), ('R2', 'saddle', False), ('R3', 'maximum', True)]
    """
    frames = proper_svd(P)
    lam = lambda_from_sigma(frames.sigma)
    return tuple(
        CriticalSet(
            label=label,
            kind=kind,
            strict=kind in ("minimum", "maximum") and label not in _DIMENSION,
            dimension=_DIMENSION.get(label, 0),
            value=critical_value(label, lam),
            spectrum=critical_spectrum(label, lam),
            frames=frames,
        )
        for label, kind in _CASES[classify(lam, tolerance)]
    )
