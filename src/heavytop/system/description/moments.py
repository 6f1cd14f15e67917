"""Inertia, damping and stiffness as moments of a particle distribution: one family of 4x4 matrices.

Particles with weights w_p at body positions h_p have the zeroth, first and second moments

    X' = sum_p w_p [h_p; 1] [h_p; 1]^T = [[Wed(S), t c], [t c^T, t]]          (eqs 3.94a-c, erratum 0.32)

with total t, centre c and moment matrix S about the body origin (written like an inertia matrix). X' carries masses (inertia),
drag coefficients (damping) or spring constants (stiffness). Its 6x6 form ``Vee(X')`` acts on body twists (linear, angular).
Entries may be symbolic parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np

from heavytop._arrays import Array, Floats, as_array, block, constant, is_symbolic, matrix, transpose
from heavytop._format import Overview, Shown, brief, matrix_latex
from heavytop.errors import ModelError, ShapeError, wrong_shape
from heavytop.functions import Value
from heavytop.geometry import polar, se3, so3
from heavytop.system.description.shapes import Shape

RELATIVE_TOLERANCE = 1e-9
"""Negative eigenvalues of a moment matrix below this share of the largest one count as rounding."""


@dataclass(frozen=True, eq=False)
class Moments(Value, Shown):
    """Total, centre and moment about the centre of a weighted particle distribution.

    Parameters
    ----------
    total : sum of the weights.
    center : (3,) weighted mean position in the body frame, in m.
    moment_at_center : (3, 3) matrix, or (3,) its diagonal: sum of w (|h|^2 I - h h^T) about the centre.
    """

    total: Array
    center: Array = (0.0, 0.0, 0.0)
    moment_at_center: Array = (0.0, 0.0, 0.0)

    kind = "moments"
    names = ("total", "center", "moment_at_center")

    def __post_init__(self) -> None:
        kind, (total_name, center_name, moment_name) = self.kind, self.names
        given = zip(self.names, (self.total, self.center, self.moment_at_center), strict=True)
        total, center, moment = (as_array(value, f"{name} of {kind}") for name, value in given)
        if total.shape != ():
            raise wrong_shape(f"{total_name} of {kind}", (), total.shape)
        if center.shape != (3,):
            raise wrong_shape(f"{center_name} of {kind}", (3,), center.shape)
        if moment.shape == (3,):
            moment = matrix([[moment[0], 0.0, 0.0], [0.0, moment[1], 0.0], [0.0, 0.0, moment[2]]])
        if moment.shape != (3, 3):
            hint = "Give the full matrix or its three diagonal entries."
            raise wrong_shape(f"{moment_name} of {kind}", (3, 3), moment.shape, hint)
        for label, value in zip(self.names, (total, center, moment), strict=True):
            if not is_symbolic(value) and not np.all(np.isfinite(value)):
                raise ShapeError(f"{label} of {kind} must be finite, got {value.tolist()}.")
        if not is_symbolic(moment):
            _check_symmetric(moment, f"{moment_name} of {kind}")
        for label, value in zip(("total", "center", "moment_at_center"), (total, center, moment), strict=True):
            object.__setattr__(self, label, constant(value))
        if not is_symbolic(total, center, moment):
            self.check_physical(self.moments, kind)

    def __repr__(self) -> str:
        pairs = zip(self.names, self._texts(), strict=True)
        return f"{type(self).__name__}({', '.join(f'{name}={text}' for name, text in pairs)})"

    def _overview(self) -> Overview:
        formula = "" if is_symbolic(self.moments) else f"X' = {matrix_latex(self.moments)}"
        return Overview(type(self).__name__, tuple(zip(self.names, self._texts(), strict=True)), formula)

    def _texts(self) -> tuple[str, str, str]:
        """Total, centre and moment as short texts; a diagonal moment by its diagonal."""
        total, center, moment = self.total, self.center, self.moment_at_center
        if is_symbolic(total, center, moment):
            return str(total), str(center), str(moment)
        diagonal = np.diagonal(moment)
        shown = diagonal if np.array_equal(moment, np.diag(diagonal)) else moment
        return f"{float(total):.6g}", brief(center), brief(shown)

    @classmethod
    def check_physical(cls, moments: Floats, where: str) -> None:
        """Raise a ModelError when no distribution of this kind has the 4x4 ``moments``."""
        if moments[3, 3] < 0:
            raise ModelError(f"{where}: the {cls.names[0]} must not be negative, got {moments[3, 3]:g}.")
        # X' is positive semidefinite where the second moment at the centre is; so kg and kg m^2 are not compared
        second = np.linalg.eigvalsh(_second_moment_at_center(moments))
        if second[0] >= -RELATIVE_TOLERANCE * max(np.max(np.abs(np.diag(moments)[:3])), 0.0):
            return
        values = np.linalg.eigvalsh(moments)
        principal = np.linalg.eigvalsh(so3.Vee(_second_moment_at_center(moments)))
        raise ModelError(
            f"{where}: no distribution of particles has these moments. Their 4x4 moment matrix must be positive semidefinite, but its "
            f"smallest eigenvalue is {values[0]:.6g} (largest {values[-1]:.6g}). The principal moments at the centre are "
            f"{np.array2string(principal, precision=6)}: each must be at most the sum of the other two. Check the units, the "
            "reference point (moments are about the centre, in body axes) and the signs of the products of inertia."
        )

    @property
    def moments(self) -> Array:
        """The 4x4 matrix X' of zeroth, first and second moments about the body origin."""
        first = self.total * self.center
        second = so3.Wed(self.moment_at_center) + np.outer(first, self.center)
        return block([[second, np.reshape(first, (3, 1))], [np.reshape(first, (1, 3)), np.reshape(self.total, (1, 1))]])

    @property
    def matrix(self) -> Array:
        """The 6x6 matrix Vee(X') = [[t I, t wed(c)^T], [t wed(c), S]] for body twists (linear, angular)."""
        return se3.Vee(self.moments)

    @property
    def moment_at_origin(self) -> Array:
        """The moment matrix S about the body origin (Steiner): S = S_c - t wed(c)^2."""
        c = so3.wed(self.center)
        return self.moment_at_center + self.total * (transpose(c) @ c)

    @classmethod
    def from_moments(cls, moments: Array) -> Self:
        """From the 4x4 matrix X' about the body origin."""
        moments = as_array(moments)
        if moments.shape != (4, 4):
            raise wrong_shape(f"moments of {cls.kind}", (4, 4), moments.shape)
        total = moments[3, 3]
        if is_symbolic(moments):
            center = moments[:3, 3] / total
        else:
            center = moments[:3, 3] / total if total != 0 else np.zeros(3)
            if total == 0 and np.any(moments[:3, 3] != 0):
                raise ModelError(
                    f"{cls.kind}: the first moment {moments[:3, 3]} of a distribution of total zero must vanish."
                )
        return cls(total, center, so3.Vee(_second_moment_at_center(moments)))

    @classmethod
    def from_particles(cls, weights: Array, positions: Array) -> Self:
        """From particles: weights (n,) and body positions (n, 3).

        >>> Inertia.from_particles([1.0, 1.0], [[1, 0, 0], [-1, 0, 0]]).moment_at_center.diagonal()
        array([0., 2., 2.])
        """
        weights, positions = np.asarray(weights, dtype=float), np.asarray(positions, dtype=float)
        if weights.ndim != 1:
            raise wrong_shape(f"weights of {cls.kind}", ("n",), weights.shape)
        if positions.shape != (len(weights), 3):
            raise wrong_shape(f"positions of {cls.kind}", (len(weights), 3), positions.shape)
        total = weights.sum()
        center = weights @ positions / total if total else np.zeros(3)
        arms = positions - center
        return cls(total, center, so3.Vee((weights[:, None] * arms).T @ arms))

    def shifted(self, pose: Array) -> Self:
        """The distribution in another body frame: ``pose`` (4, 4) is the present frame in the new one."""
        R, r = se3.rotation(pose), se3.position(pose)
        return type(self)(self.total, r + np.matvec(R, self.center), R @ self.moment_at_center @ transpose(R))

    def __add__(self, other: Self) -> Self:
        """The union of two distributions in the same frame."""
        if type(other) is not type(self):
            return NotImplemented
        return type(self).from_moments(self.moments + other.moments)


def _second_moment_at_center(moments: Array) -> Array:
    """Wed(S_c) = Wed(S) - t c c^T."""
    total, first = moments[3, 3], moments[:3, 3]
    if not is_symbolic(moments) and total == 0:
        return moments[:3, :3]
    return moments[:3, :3] - np.outer(first, first) / total


def _check_symmetric(moment: Floats, where: str) -> None:
    skew = np.max(np.abs(moment - moment.T))
    if skew > RELATIVE_TOLERANCE * max(1e-300, np.max(np.abs(moment))):
        raise ModelError(f"{where} must be symmetric, but entries mirrored at the diagonal differ by up to {skew:.3g}.")


class Inertia(Moments):
    """Mass, centre of mass and rotational inertia of a rigid body.

    Parameters
    ----------
    mass : kg.
    com : (3,) centre of mass in the body frame, m.
    moment_at_com : (3, 3) inertia matrix about the centre of mass in body axes, or its (3,) diagonal, kg m^2.

    Examples
    --------
    >>> rod = Inertia(mass=2.0, com=(0, 0, 0.5), moment_at_com=(1 / 6, 1 / 6, 0.0))
    >>> rod.matrix[3, 3]
    np.float64(0.6666666666666666)
    """

    kind = "inertia"
    names = ("mass", "com", "moment_at_com")

    def __init__(self, mass: Array, com: Array = (0.0, 0.0, 0.0), moment_at_com: Array = (0.0, 0.0, 0.0)) -> None:
        super().__init__(mass, com, moment_at_com)

    @classmethod
    def of(
        cls, shape: Shape, *, density: float | None = None, mass: float | None = None, at: Array | None = None
    ) -> Inertia:
        """The inertia of a shape that is filled evenly, by its density (kg/m^3) or its mass (kg).

        ``at`` is the pose (4, 4) or position (3,) of the shape in the body frame. Meshes must be closed.

        >>> import heavytop as ht
        >>> ht.Inertia.of(ht.Box((1.0, 2.0, 3.0)), mass=12.0).moment_at_com.diagonal()
        array([13., 10.,  5.])
        """
        if (density is None) == (mass is None):
            raise ModelError("Inertia.of: give either density or mass.")
        given = float(density if mass is None else mass)  # pyright: ignore[reportArgumentType]
        if not np.isfinite(given) or given < 0:
            raise ModelError(f"Inertia.of: density or mass must be finite and not negative, got {given:g}.")
        if not hasattr(shape, "unit_moments"):
            raise ModelError(f"Inertia.of: {shape!r} has no volume. Give Inertia(mass, com, moment_at_com).")
        volume, center, moment = shape.unit_moments()
        filled = given if mass is None else given / volume
        centred = cls(filled * volume, center, filled * moment)
        if at is None:
            return centred
        pose = as_array(at)
        return centred.shifted(se3.pose(np.eye(3), pose) if pose.shape == (3,) else pose)

    @property
    def mass(self) -> Array:
        """Mass in kg."""
        return self.total

    @property
    def com(self) -> Array:
        """Centre of mass (3,) in the body frame, in m."""
        return self.center

    @property
    def moment_at_com(self) -> Array:
        """Inertia matrix (3, 3) about the centre of mass, in kg m^2."""
        return self.moment_at_center


class Damping(Moments):
    """Viscous damping of a body: total (N s/m), centre (m) and moment at the centre (N m s) of drag coefficients.

    >>> Damping(total=0.1, moment_at_center=(0.01, 0.01, 0.01)).matrix.diagonal()
    array([0.1 , 0.1 , 0.1 , 0.01, 0.01, 0.01])
    """

    kind = "damping"

    def __init__(
        self, total: Array = 0.0, center: Array = (0.0, 0.0, 0.0), moment_at_center: Array = (0.0, 0.0, 0.0)
    ) -> None:
        super().__init__(total, center, moment_at_center)


class SpringSet(NamedTuple):
    """The resultant of a set of springs between two bodies.

    >>> from heavytop.system import Stiffness
    >>> SpringSet(Stiffness(10.0), np.eye(4), 0.0).least_energy
    0.0
    """

    stiffness: Stiffness
    rest: Floats
    """(4, 4) pose of body b in body a where the energy is least."""
    least_energy: float
    """Energy V_0 that remains in the springs there, in J."""


class Stiffness(Moments):
    """Stiffness of a body: total (N/m), centre (m) and moment at the centre (N m) of spring constants.

    Its 4x4 matrix need not be positive semidefinite: springs with offset anchors may have an indefinite one while the energy still
    has its minimum at the rest pose (erratum 0.31). Required is that the 6x6 matrix has no negative eigenvalue.
    """

    kind = "stiffness"

    def __init__(
        self, total: Array = 0.0, center: Array = (0.0, 0.0, 0.0), moment_at_center: Array = (0.0, 0.0, 0.0)
    ) -> None:
        super().__init__(total, center, moment_at_center)

    @classmethod
    def check_physical(cls, moments: Floats, where: str) -> None:
        """Raise a ModelError when the rest pose would not be a minimum (eqs 3.71, 3.75)."""
        moment = np.linalg.eigvalsh(so3.Vee(_second_moment_at_center(moments)))
        scale = max(
            np.max(np.abs(moment)), np.max(np.abs(np.diag(moments)[:3])), 1e-300
        )  # the second: rounding of the shift
        if moments[3, 3] < 0 or moment[0] < -RELATIVE_TOLERANCE * scale:
            raise ModelError(
                f"{where}: the rest pose would not be a minimum of the energy. Needed: total >= 0 (got {moments[3, 3]:g}) and a positive "
                f"semidefinite moment at the centre (got eigenvalues {np.array2string(moment, precision=6)})."
            )

    @classmethod
    def from_springs(cls, k: Array, points_b: Array, points_a: Array) -> SpringSet:
        """Any set of linear springs of zero rest length between two bodies (eqs 3.64-3.73).

        Parameters
        ----------
        k : (n,) spring constants, N/m.
        points_b, points_a : (n, 3) end points in the frame of body b and of body a, m.

        Returns
        -------
        SpringSet : stiffness, rest pose of b in a, least energy. Where the minimum is not strict the rest pose is one of many.

        Examples
        --------
        >>> springs = Stiffness.from_springs([1.0, 1.0], [[1, 0, 0], [-1, 0, 0]], [[1, 0, 2], [-1, 0, 2]])
        >>> springs.rest[:3, 3]
        array([0., 0., 2.])
        """
        k, h, p = (np.asarray(x, dtype=float) for x in (k, points_b, points_a))
        if k.ndim != 1 or len(k) == 0:
            raise wrong_shape("spring constants k", ("n",), k.shape, "At least one spring is needed.")
        for label, points in (("points_b", h), ("points_a", p)):
            if points.shape != (len(k), 3):
                raise wrong_shape(f"{label} of the springs", (len(k), 3), points.shape)
            if not np.all(np.isfinite(points)):
                raise ShapeError(
                    f"{label} of the springs must be finite, got {points[~np.isfinite(points)][0]} among them."
                )
        if np.any(k < 0) or not np.all(np.isfinite(k)) or k.sum() == 0:
            raise ModelError(f"spring constants must be finite, not negative and not all zero, got {k.tolist()}.")
        total = k.sum()
        center, anchor = k @ h / total, k @ p / total  # eq. 3.66
        arms, anchors = h - center, p - anchor
        P_s = (k[:, None] * arms).T @ anchors  # eq. 3.70: P - k h p^T
        decomposition = polar.special_polar(P_s.T)  # P_s^T = R_R Wed(Pi_s)
        R = decomposition.R
        least = 0.5 * np.sum(k * (np.vecdot(arms, arms) + np.vecdot(anchors, anchors))) - np.trace(P_s @ R)
        rest = se3.pose(R, anchor - R @ center)  # eq. 3.69
        return SpringSet(cls(total, center, decomposition.K), rest, float(max(least, 0.0)))
