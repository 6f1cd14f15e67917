"""Equations phi(G) = 0 that a joint imposes on the pose G of its two frames when it closes a kinematic loop.

Joints know their own; :func:`derived_closure` finds those of any joint from its pose and Jacobian.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from heavytop._arrays import Array, Floats, jacobian, substitute, symbol, transpose, vector
from heavytop.compile import trace
from heavytop.errors import ModelError
from heavytop.geometry import se3
from heavytop.system.dynamics.solve import solve_definite

if TYPE_CHECKING:
    from heavytop.system.joints.base import Joint

ITERATIONS = 4
"""Steps towards the configuration of a joint with a given pose; one is exact where the Jacobian is constant."""
REACH = 1.0
"""Displacement (rad, m) within which a derived closure must hold."""


def across(axis: Floats, r: Array) -> Array:
    """Components (2,) of r across the axis."""
    first, second = _normals(axis)
    return vector(np.vecdot(first, r), np.vecdot(second, r))


def aligned(axis: Floats, R: Array) -> Array:
    """Two equations that hold when the axis, carried along with the second frame, is parallel to itself."""
    return across(axis, np.matvec(R, axis))


def same_sense(axis: Floats, R: Array) -> Array:
    """Positive (1,) where the carried axis points the same way, negative where it points back."""
    return vector(np.vecdot(axis, np.matvec(R, axis)))


def upright(R: Array) -> Array:
    """Positive (1,) for turns of less than a quarter: of two frames whose axes are parallel only the equal ones."""
    return vector(R[0, 0] + R[1, 1] + R[2, 2] - 1.0)


def _normals(axis: Floats) -> tuple[np.ndarray, np.ndarray]:
    """Two unit vectors that complete ``axis`` to a right-handed frame; along the coordinate axes where ``axis`` is."""
    seed = np.eye(3)[int(np.argmin(np.abs(axis)))]
    first = np.cross(axis, seed)
    first = first / np.linalg.norm(first)
    return first, np.cross(axis, first)


def derived_closure(joint: Joint, G: Array) -> Array:
    """phi(G) of any joint: the twist (6,) from its nearest pose G_j(q) to G, without the directions in which it moves if they are constant.

    ``q`` is found by Gauss-Newton steps from the neutral configuration, written out. Where phi vanishes in all six components, G is
    a pose of the joint; of the six equations only 6 - nv are independent then.
    """
    block = joint.coordinates
    if block.nv >= 6:
        raise ModelError(
            f"a {type(joint).__name__} joint cannot close a loop: it allows every motion. Use a joint with fewer degrees of freedom, or "
            "state the equations: system.constrain(lambda q: ...)."
        )
    probe = symbol("q", block.nq)
    J = joint.jacobian(probe)
    constant = _constant(joint)
    q = block.neutral()
    for _ in range(1 if constant is not None else ITERATIONS):
        error = se3.log(se3.inverse(joint.pose(q)) @ G)
        if constant is not None:
            step = np.matvec(np.linalg.pinv(constant), error)
        else:
            S = substitute(J, probe, q)
            step = solve_definite(transpose(S) @ S, np.matvec(transpose(S), error))
        q = block.retract(q, step)
    error = se3.log(se3.inverse(joint.pose(q)) @ G)
    if constant is None:
        return error
    held = np.linalg.svd(constant)[0][:, block.nv :]
    return np.matvec(held.T, error)


def check_closure(joint: Joint) -> None:
    """Raise a ModelError unless the joint's own poses satisfy its closure, at random configurations not far from neutral."""
    rng, block = np.random.default_rng(0), joint.coordinates
    both = trace(
        lambda q: joint.closure(joint.pose(q) if block.nq else np.eye(4) + 0 * q[0]),
        {"q": (max(block.nq, 1),)},
        name="closure",
    )
    slope = _closure_slope(joint)
    for _ in range(5):
        q = block.retract(block.neutral(), rng.uniform(-REACH, REACH, block.nv)) if block.nq else np.zeros(1)
        error = float(np.max(np.abs(both(q)[0]), initial=0.0))
        if not error < 1e-6:
            raise ModelError(
                f"a {type(joint).__name__} joint cannot close a loop: its equations are violated by {error:.3g} at one of its poses, because they "
                "could not be derived from its pose. Give the joint a method closure(G) that returns them."
            )
        if slope is not None and block.nq:
            held = int(np.linalg.matrix_rank(slope(q)[0], rtol=1e-6))
            moves = int(np.linalg.matrix_rank(np.asarray(joint.jacobian(q), dtype=float)))
            if held < 6 - moves:
                raise ModelError(
                    f"closure(G) of {type(joint).__name__} leaves {6 - held} of six motions free at one of its poses, but the joint has "
                    f"{moves}: equations are missing. Omit closure to have it derived, or add them."
                )


def _closure_slope(joint: Joint) -> Callable[[Array], Sequence[Array]] | None:
    """dphi/dxi (m, 6) at the pose G(q) moved by a small twist xi; None if the joint leaves its closure to be derived."""
    if type(joint).closure.__module__ == "heavytop.system.joints.base" or not joint.coordinates.nq:
        return None
    xi = symbol("xi", 6)

    def slope(q: Array) -> Array:
        phi = joint.closure(joint.pose(q) @ (np.eye(4) + se3.wed(xi)))
        return substitute(jacobian(phi, xi), xi, np.zeros(6))

    return trace(slope, {"q": (joint.coordinates.nq,)}, name="closure_slope")


def _constant(joint: Joint) -> Floats | None:
    """The Jacobian (6, nv) of a joint for which it is the same everywhere, else None."""
    block = joint.coordinates
    if block.nq == 0:
        return np.zeros((6, 0))
    samples = [np.asarray(joint.jacobian(q), dtype=float) for q in block.random(np.random.default_rng(0), (4,))]
    same = all(np.max(np.abs(sample - samples[0]), initial=0.0) < 1e-12 for sample in samples)
    return samples[0] if same else None
