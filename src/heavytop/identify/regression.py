"""Base parameters of arms by linear regression: inverse dynamics are linear in mass, first moments and moments of inertia of every body.

    M a + c + f = Y(q, v, a) pi + rest,    pi = (m, m c, I) of each body, I about the origin of the body.

Only some combinations of pi, the base parameters, appear in motions; a QR decomposition of Y with column pivoting finds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from heavytop._arrays import jacobian, matrix, symbol, vector
from heavytop._format import Brief
from heavytop.compile import Kernel, trace_of
from heavytop.errors import IdentificationError, wrong_shape
from heavytop.identify.result import INTERVAL
from heavytop.system import Inertia, Model, Parameter, at_defaults

ENTRIES = ("m", "mx", "my", "mz", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz")
"""Inertial parameters of a body in the order of Pinocchio: mass, first moments, moments about the origin of the body."""
RANK = 1e-9
"""Diagonal entries of R below this share of the largest one are zero."""


class Regressor:
    """Inverse dynamics of a model as a linear function of its inertial parameters; exact, by differentiation.

    Parameters
    ----------
    model : without loops and constraints.

    Attributes
    ----------
    names : (10 b,) such as "panda_link1 Ixx". values : (10 b,) of the model.

    Examples
    --------
    >>> import heavytop as ht
    >>> arm = ht.library.double_pendulum().derive()
    >>> regressor = ht.identify.Regressor(arm)
    >>> q, v, a = [0.3, 0.5], [1.0, -0.2], [0.1, 0.4]
    >>> Y, rest = regressor(q, v, a)
    >>> np.allclose(Y @ regressor.values + rest, arm.inverse_dynamics(q, v, a))
    True
    """

    def __init__(self, model: Model) -> None:
        if model.is_constrained:
            raise IdentificationError(
                f"{model.name!r} has loops or constraints, whose reactions inverse dynamics do not have. Use ht.identify."
            )
        d = model.description
        inertias, new, values = dict(d.inertias), [], []
        self.bodies = tuple(inertias)
        for k, (body, inertia) in enumerate(inertias.items()):
            m, com, moment = (
                np.asarray(at_defaults(x, d.parameters)) for x in (inertia.mass, inertia.com, inertia.moment_at_com)
            )
            if not m > 0:
                raise IdentificationError(f"the body {body!r} has no mass; a regressor needs one to start from.")
            about = moment + m * (com @ com * np.eye(3) - np.outer(com, com))
            pi = [m, *(m * com), about[0, 0], about[0, 1], about[1, 1], about[0, 2], about[1, 2], about[2, 2]]
            symbols = [symbol(f"pi_{k}_{entry}") for entry in ENTRIES]
            new += [Parameter(f"pi_{k}_{e}", s, float(x)) for e, s, x in zip(ENTRIES, symbols, pi, strict=True)]
            values += [float(x) for x in pi]
            inertias[body] = _from_linear(symbols)
        self.model = model
        self.parametrised = Model(replace(d, inertias=inertias, parameters=(*d.parameters, *new)), native=True)
        self.names = tuple(f"{body} {entry}" for body in self.bodies for entry in ENTRIES)
        self.values = np.array(values)
        e = self.parametrised.expressions
        first = len(d.parameters)
        torque = e.inverse_dynamics()
        Y = jacobian(torque, e.p)[:, first:]
        inputs = {label: getattr(e, label) for label in ("q", "v", "a", "p")}
        self._kernel = Kernel(trace_of("regressor", inputs, {"Y": Y, "torque": torque}))
        self._p = self.parametrised.parameter_vector()

    def __call__(self, q: Any, v: Any, a: Any) -> tuple[np.ndarray, np.ndarray]:
        """Y (..., nv, 10 b) and the rest (..., nv) that does not depend on inertias, at states and accelerations."""
        q, v, a = (np.asarray(x, dtype=float) for x in (q, v, a))
        Y, torque = self._kernel(q, v, a, self._p)
        return Y, torque - np.matvec(Y, self.values)


def _from_linear(pi: Sequence[Any]) -> Inertia:
    m, hx, hy, hz, xx, xy, yy, xz, yz, zz = pi
    c = [hx / m, hy / m, hz / m]
    h = [hx, hy, hz]
    square = c[0] * h[0] + c[1] * h[1] + c[2] * h[2]
    about = [[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]
    central = [[about[i][j] - (square if i == j else 0.0) + c[i] * h[j] for j in range(3)] for i in range(3)]
    return Inertia(m, com=vector(*c), moment_at_com=matrix(central))


@dataclass(frozen=True, eq=False, repr=False)
class BaseParameters(Brief):
    """Combinations of inertial parameters that determine the torques of an arm.

    Attributes
    ----------
    values, deviations : (r,) and their standard deviations. combinations : (r, 10 b) with ``values = combinations pi``.
    columns : (r,) the parameters in ``names`` that represent them. noise : (nv,) standard deviation of the torques.

    Examples
    --------
    >>> import heavytop as ht
    >>> arm = ht.library.double_pendulum().derive()
    >>> q, v, a = np.random.default_rng(0).standard_normal((3, 50, 2))
    >>> ht.identify.base_parameters(arm, q, v, a, arm.inverse_dynamics(q, v, a)).combinations.shape
    (6, 20)
    """

    values: np.ndarray
    deviations: np.ndarray
    combinations: np.ndarray
    columns: np.ndarray
    noise: np.ndarray
    regressor: Regressor = field(repr=False)

    @property
    def intervals(self) -> np.ndarray:
        """(r, 2), 95 %."""
        half = INTERVAL * self.deviations
        return np.stack([self.values - half, self.values + half], axis=-1)

    @property
    def names(self) -> tuple[str, ...]:
        """Text of each combination."""
        made = []
        for row in self.combinations:
            terms = [(k, x) for k, x in enumerate(row) if abs(x) > 1e-9 * np.abs(row).max()]
            made.append(" ".join(f"{x:+.4g} [{self.regressor.names[k]}]" for k, x in terms))
        return tuple(made)

    @property
    def nearest(self) -> np.ndarray:
        """(10 b,) inertial parameters with these combinations, nearest to those of the model: a start for other methods."""
        C, start = self.combinations, self.regressor.values
        return start + np.linalg.lstsq(C, self.values - C @ start, rcond=None)[0]

    def torques(self, q: Any, v: Any, a: Any) -> np.ndarray:
        """(..., nv) torques of a motion."""
        Y, rest = self.regressor(q, v, a)
        return np.matvec(Y[..., self.columns], self.values) + rest


def base_parameters(model: Model | Regressor, q: Any, v: Any, a: Any, torques: Any) -> BaseParameters:
    """Base parameters of an arm from its motion and torques, by weighted linear least squares.

    Parameters
    ----------
    model : model of the arm, or its :class:`Regressor`, to reuse it.
    q, v, a : (n, nq), (n, nv), (n, nv) configurations, velocities and accelerations. torques : (n, nv), measured.

    Examples
    --------
    >>> import heavytop as ht
    >>> arm = ht.library.double_pendulum().derive()
    >>> rng = np.random.default_rng(0)
    >>> q, v, a = rng.standard_normal((3, 50, 2))
    >>> found = ht.identify.base_parameters(arm, q, v, a, arm.inverse_dynamics(q, v, a))
    >>> len(found.values), np.allclose(found.torques(q, v, a), arm.inverse_dynamics(q, v, a))
    (6, True)
    """
    from scipy.linalg import qr

    regressor = model if isinstance(model, Regressor) else Regressor(model)
    torques, nv = np.asarray(torques, dtype=float), regressor.model.nv
    if torques.ndim != 2 or torques.shape[1] != nv:
        raise wrong_shape("torques", ("n", nv), torques.shape)
    Y, rest = regressor(q, v, a)
    if len(Y) != len(torques):
        raise wrong_shape("torques", (len(Y), nv), torques.shape)
    target = torques - rest
    if not (np.isfinite(Y).all() and np.isfinite(target).all()):
        raise IdentificationError("the motion and the torques must be finite. Leave out samples that are not numbers.")
    n, _, columns = Y.shape
    found: Any = qr(Y.reshape(n * nv, columns), mode="r", pivoting=True)
    R, order = found
    diagonal = np.abs(np.diag(R))
    rank = int(np.sum(diagonal > RANK * diagonal[0]))
    if n * nv < 2 * rank:
        raise IdentificationError(f"{n} samples of {nv} torques are too few for {rank} base parameters.")
    kept = np.sort(order[:rank])
    others = np.setdiff1d(np.arange(columns), kept)
    flat = Y.reshape(n * nv, columns)
    combinations = np.zeros((rank, columns))
    combinations[:, kept] = np.eye(rank)
    combinations[:, others] = np.linalg.lstsq(flat[:, kept], flat[:, others], rcond=None)[0]
    combinations[np.abs(combinations) < 1e-10] = 0.0
    noise = estimate = np.ones(nv)
    values = scale = np.ones(rank)
    A = np.zeros((n * nv, rank))
    size = np.maximum(np.sqrt(np.mean(target**2, axis=0)), 1e-300)
    for _ in range(4):  # levels of the noise of each joint, then the weights of its torques
        noise = estimate
        A = (Y[..., kept] / noise[:, None]).reshape(n * nv, rank)
        scale = 1.0 / np.linalg.norm(A, axis=0)
        values = scale * np.linalg.lstsq(A * scale, (target / noise).reshape(-1), rcond=None)[0]
        left = target - np.matvec(Y[..., kept], values)
        estimate = np.maximum(np.sqrt((left**2).sum(axis=0) / (n - rank / nv)), 1e-12 * size)
    inverse = np.linalg.inv(np.linalg.qr(A * scale, mode="r"))
    deviations = scale * np.linalg.norm(inverse, axis=1)
    return BaseParameters(values, deviations, combinations, kept, noise, regressor)
