"""The mass matrix of a tree at one configuration in numbers, without a program for it: composite bodies after Walker and Orin (1982).

Only the links are traced: their poses, subspaces and inertias. From the tips to the root a body takes up what it carries; its columns of
wrenches I_c S, taken to each ancestor, give the entries S_j^T I_c S_i.
"""

from __future__ import annotations

import numpy as np

from heavytop._arrays import Array, is_symbolic, shape, to_sx
from heavytop.geometry import se3
from heavytop.system.description.names import WORLD
from heavytop.system.dynamics import articulated
from heavytop.system.dynamics.equation_terms import EquationTerms


def has_composites(dynamics: EquationTerms) -> bool:
    """Whether :func:`composite_mass_matrix` applies: a tree of joints with velocities of their own, relative to the parent, that no time moves."""
    own = all(step.edge.joint.velocity_frame != "absolute" for step in dynamics.kinematics.steps)
    return own and dynamics.description.time is None and articulated.is_recursive(dynamics)


def composite_mass_matrix(dynamics: EquationTerms, p_symbols: Array, q: np.ndarray, p: np.ndarray) -> np.ndarray:
    """M (nv, nv) at the configuration q (nq,) with parameters p (np,); ``p_symbols`` are those of the description."""
    kinematics, inertias = dynamics.kinematics, dynamics.description.inertias
    steps = kinematics.steps
    rotors = [(port.label, rotor.matrix) for port, rotor in dynamics.rotors]
    bodies = [inertias[s.frame].matrix if s.frame in inertias else np.zeros((6, 6)) for s in steps]
    links = [kinematics.links[s.frame].pose for s in steps]
    subspaces = [kinematics.subspace[s.frame] for s in steps]
    values = _numbers([*links, *subspaces, *bodies, *(matrix for _, matrix in rotors)], dynamics.q, p_symbols, q, p)
    n = len(steps)
    poses, axes, composites = values[:n], values[n : 2 * n], values[2 * n : 3 * n]
    joints = dynamics.description.joints
    ends = np.cumsum([e.joint.coordinates.nv for e in joints])
    columns = {e.label: np.arange(end - e.joint.coordinates.nv, end) for e, end in zip(joints, ends, strict=True)}
    M = np.zeros((dynamics.nv, dynamics.nv))
    carried: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {}
    place = {step.frame: k for k, step in enumerate(steps)}
    for k in reversed(range(n)):
        step, S = steps[k], axes[k]
        own = columns.get(step.edge.label, np.arange(0))
        wrenches = [*carried.pop(step.frame, []), (own, composites[k] @ S)]
        index = np.concatenate([at for at, _ in wrenches])
        F = np.concatenate([force for _, force in wrenches], axis=1)
        M[np.ix_(own, index)] = S.T @ F
        M[np.ix_(index, own)] = (S.T @ F).T
        if step.parent != WORLD:
            Ad = se3.Ad(se3.inverse(poses[k]))
            composites[place[step.parent]] = composites[place[step.parent]] + Ad.T @ composites[k] @ Ad
            carried.setdefault(step.parent, []).append((index, Ad.T @ F))
    for (label, _), matrix in zip(rotors, values[3 * n :], strict=True):
        at = np.ix_(columns[label], columns[label])
        M[at] = M[at] + matrix[: len(columns[label]), : len(columns[label])]
    return M


def _numbers(parts: list[Array], q_symbols: Array, p_symbols: Array, q: np.ndarray, p: np.ndarray) -> list[np.ndarray]:
    """Arrays of expressions in q and p as numbers."""
    import casadi

    symbolic = [is_symbolic(part) for part in parts]
    column = casadi.vertcat(
        *(to_sx(part) for part, asked in zip(parts, symbolic, strict=True) if asked), casadi.SX(0, 1)
    )
    found = casadi.Function("links", [to_sx(q_symbols), to_sx(p_symbols)], [casadi.densify(column)])(q, p)
    flat, at = np.asarray(found).ravel(), 0
    made: list[np.ndarray] = []
    for part, asked in zip(parts, symbolic, strict=True):
        size = int(np.prod(shape(part))) if asked else 0
        made.append(flat[at : at + size].reshape(shape(part)) if asked else np.asarray(part, dtype=float))
        at += size
    return made
