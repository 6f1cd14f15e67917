"""Directions of the error that sensors cannot see, along a motion.

The error e_0 at the start changes the readings by H_k F_{k-1} ... F_0 e_0. The rows of all samples, each divided by the noise of its sensor, have a
null space: the directions that no reading shows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._arrays import numbers
from heavytop.control.observers.hull import Hull
from heavytop.errors import ControlError
from heavytop.geometry import se3
from heavytop.system.joints import Free

if TYPE_CHECKING:
    from heavytop.control.estimation.estimator import Estimator

THRESHOLD = 1e-7
"""Share of the largest singular value below which a direction counts as not seen; columns have unit length."""
SHOWN = 0.1
"""Share of the largest entry of a direction from which on its entries are named."""


@dataclass(frozen=True, eq=False)
class Observability:
    """The errors of an estimator that its sensors can and cannot observe.

    Attributes
    ----------
    unseen : name -> direction (ne,) of the error that no reading reveals. deviations : name of each entry of the error -> standard deviation to
        which the readings determine it, infinite where they do not.

    Examples
    --------
    >>> import heavytop as ht
    >>> from heavytop.control import AccelerometerSensor, GyroSensor, PositionSensor
    >>> model = ht.library.quadcopter().derive()
    >>> imu = GyroSensor("hull", noise=0.01), AccelerometerSensor("hull", noise=0.1)
    >>> list(ht.estimator(model, [*imu, PositionSensor("hull")], 0.01, inputs="imu").observability().unseen)
    ['heading: turn about the vertical']
    """

    unseen: dict[str, np.ndarray]
    deviations: dict[str, float] = field(repr=False)

    @property
    def complete(self) -> bool:
        """Whether every error is seen."""
        return not self.unseen

    def __str__(self) -> str:
        if self.complete:
            return "the sensors see every error"
        return "the sensors do not see: " + "; ".join(self.unseen)


def observability(
    own: Estimator, q: Any = None, v: Any = None, inputs: Any = None, samples: int = 100
) -> Observability:
    """Directions of the error that the sensors cannot observe along a motion.

    Parameters
    ----------
    q, v : first state; default: neutral and at rest. inputs : (n, ni) of the motion; default: ``samples`` of zero inputs of a model, or of a
        measuring unit at rest.

    Examples
    --------
    >>> import heavytop as ht
    >>> from heavytop.control import EncoderSensor
    >>> model = ht.library.cart_pole().derive()
    >>> filter_ = ht.estimator(model, [EncoderSensor(model.q_names[1:], noise=1e-3)], 0.01, disturbance=0.1)
    >>> print(observability(filter_, [0.0, 0.3]))
    the sensors do not see: shift of x.x; error of x.v_x
    """
    model, f = own.model, own.functions
    q = model.neutral() if q is None else model.coordinates.check(q)
    v = np.zeros(model.nv) if v is None else numbers(v, "v")
    if inputs is None:
        if samples < 1:
            raise ControlError(f"samples of observability() must be at least 1, got {samples}.")
        rest = np.zeros(own.process.ni)
        if own.inputs == "imu":
            hull = Hull.of(model)
            rest[3:] = -hull.motion(q, v).R.T @ hull.gravity
        inputs = np.tile(rest, (samples, 1))
    i = numbers(inputs, "inputs")
    if i.ndim != 2 or not len(i):
        raise ControlError(f"observability takes the inputs of one motion (n, {own.process.ni}), got shape {i.shape}.")
    x, b = own.process.start(q, v), np.zeros(f.nb)
    through, rows = np.eye(f.ne), []
    if own.is_constrained:
        through[: own.process.ne, : own.process.ne] = own._tangent_kernel(x)[0]
    first = through
    for k in range(len(i)):
        t = k * own.period
        for s in f.sensors:
            every, _ = f.steps_of(s)
            if k % every == 0:
                _, H, _ = f.output_kernels[s.label](x, b, i[k], t)
                rows.append(H @ through / s.deviations("noise")[:, None])
        x, F, _ = f.slopes_kernel(x, b, i[k], t)
        through = F @ through
    O = np.concatenate(rows)
    lengths = np.linalg.norm(O, axis=0)
    scale = np.where(lengths > THRESHOLD * lengths.max(), lengths, lengths.max())
    _, sizes, V = np.linalg.svd(O / scale, full_matrices=True)
    sizes = np.concatenate([sizes, np.zeros(f.ne - len(sizes))])
    seen = sizes > THRESHOLD * sizes[0]
    null = V[~seen].T / scale[:, None]
    if own.is_constrained and null.size:  # only errors that the constraints allow
        left, kept, _ = np.linalg.svd(first @ np.linalg.qr(null)[0], full_matrices=False)
        null = left[:, kept > 1e-5]
    deviations = np.full(f.ne, np.inf)
    inside = np.linalg.norm(V[~seen], axis=0) < 1e-6
    deviations[inside] = np.sqrt(np.sum((V[seen] / sizes[seen, None]) ** 2, axis=0))[inside] / scale[inside]
    named = dict(zip(own.error_names, deviations.tolist(), strict=True))
    return Observability(_named(own, null, q, v), named)


def _named(own: Estimator, null: np.ndarray, q: np.ndarray, v: np.ndarray) -> dict[str, np.ndarray]:
    """Directions of a null space (ne, k) by name: motions of a free body as a whole first, then combinations of few entries."""
    found: dict[str, np.ndarray] = {}
    if not null.shape[1]:
        return found
    rest = np.linalg.qr(null)[0]
    for name, direction in _symmetries(own, q, v).items():
        if not rest.shape[1]:
            break
        unit = direction / np.linalg.norm(direction)
        if np.linalg.norm(unit - rest @ (rest.T @ unit)) < 1e-5:
            found[name] = direction
            left, sizes, _ = np.linalg.svd(rest - np.outer(unit, unit @ rest), full_matrices=False)
            rest = left[:, sizes > 1e-5]
    for direction in _sparse_basis(rest).T:
        large = np.flatnonzero(np.abs(direction) >= SHOWN * np.abs(direction).max())
        found[" with ".join(own.error_names[k] for k in large)] = direction
    return found


def _sparse_basis(null: np.ndarray) -> np.ndarray:
    """A basis of the columns in reduced echelon form: each direction has few entries."""
    basis = null.T.copy()
    for row in range(len(basis)):
        j = int(np.argmax(np.abs(basis[row:]).max(axis=0)))
        k = row + int(np.argmax(np.abs(basis[row:, j])))
        basis[[row, k]] = basis[[k, row]]
        basis[row] /= basis[row, j]
        for other in range(len(basis)):
            if other != row:
                basis[other] -= basis[other, j] * basis[row]
    basis[np.abs(basis) < 1e-9] = 0.0
    return basis.T


def _symmetries(own: Estimator, q: np.ndarray, v: np.ndarray) -> dict[str, np.ndarray]:
    """Displacements of a free body as a whole: along the axes of the world, about the vertical."""
    joints = own.model.description.joints
    if not joints or not isinstance(joints[0].joint, Free) or own.is_constrained:
        return {}
    G = own.model.pose("world", joints[0].b, q)
    R, r = se3.rotation(G), se3.position(G)
    imu, count = own.inputs == "imu", own.functions.ne
    body = imu or joints[0].joint.velocity == "body"
    turn = R.T if body else np.eye(3)
    found = {}
    for k, axis in enumerate("xyz"):
        e = np.zeros(count)
        e[:3] = turn[:, k]
        found[f"position along {axis}"] = e
    up = np.array([0.0, 0.0, 1.0])
    e = np.zeros(count)
    e[:3], e[3:6] = turn @ np.cross(up, r), R.T @ up
    speed = own.process.start(q, v)[12:15] if imu else np.zeros(3)
    if imu:
        e[6:9] = R.T @ np.cross(up, speed)
    elif not body:
        n = own.model.coordinates.nv
        e[n : n + 3] = np.cross(up, v[:3])
    found["heading: turn about the vertical"] = e
    return found
