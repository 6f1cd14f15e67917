"""Checks of a description that need its kinematics: inputs, user-defined functions, inertia."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from heavytop._arrays import Array, depends_on, is_symbolic, to_sx
from heavytop.compile import NOT_MATH, holds_nan, trace_of
from heavytop.errors import HeavytopError, ModelError, ShapeError, unknown_name
from heavytop.system.description.inputs import BodyWrench, JointAction
from heavytop.system.dynamics.articulated import composite_mass_matrix, has_composites
from heavytop.system.dynamics.equation_terms import EquationTerms
from heavytop.system.validation.singularities import check_ranks

if TYPE_CHECKING:
    from heavytop.system.description.description import Description
    from heavytop.system.model import Model


VERIFIED = "heavytop.system.forces."
"""Package of elements whose consistency is shown by tests instead of at every derivation."""

EXPLICIT_UP_TO = 30
"""Number of velocity coordinates up to which the mass matrix is traced to be checked."""
SINGULAR = 1e-13
"""Smallest eigenvalue of the mass matrix, scaled to a unit diagonal, that rounding can leave of zero."""
INDEFINITE = 1e-9
"""Negative eigenvalue of the mass matrix, scaled to a unit diagonal, that rounding cannot cause."""


def check_joints(description: Description) -> None:
    """Raise a ModelError for inconsistent user-defined joints: sizes, poses outside SE(3), a Jacobian or bias of another motion."""
    parameters = [(p.symbol, p.value) for p in description.parameters]
    joints = [edge.joint for edge in description.graph.edges] + [loop.joint for loop in description.loops]
    for joint in joints:
        if not joint.is_built_in:
            joint.verify(parameters=parameters)


def check_elements(dynamics: EquationTerms, p: Array) -> None:
    """Raise an error for invalid bodies, inputs, potentials, dissipations and forces of a system; ``p`` are the symbolic parameters (np,)."""
    description = dynamics.description
    if dynamics.nv == 0:
        raise ModelError(
            f"{description.name!r} has no degree of freedom: no body has a joint that moves. Add one with "
            "system.body(name, joint=ht.Revolute(...), inertia=...)."
        )
    if not description.inertias and not description.is_kinematic:
        raise ModelError(
            f"no body of {description.name!r} has inertia, so there is nothing to move. Give at least one body "
            "inertia=ht.Inertia(...)."
        )
    if description.time is not None:
        _check_time(dynamics, description.time)
    known = [dynamics.q, dynamics.v, p]
    for name, element in description.inputs.items():
        try:
            for action in element.actions(dynamics.kinematics):
                value = _check_action(dynamics, action)
                _check_symbols(value, known, "its force", description.name)
        except HeavytopError as error:
            raise type(error)(f"input {name!r}: {error}") from None
    for terms in dynamics.elements:
        for piece, value in terms.checked_pieces():
            _check_symbols(value, known, terms.element.name_of(piece), description.name)
        if not type(terms.element).__module__.startswith(VERIFIED):
            terms.verify(p, description.parameter_values())


def _check_time(dynamics: EquationTerms, time: Array) -> None:
    """Raise a ModelError for an inertia that depends on time: the momentum of mass that comes or goes is unknown."""
    inertias = {f"the inertia of {name!r}": i.moments for name, i in dynamics.description.inertias.items()}
    inertias |= {terms.element.title: terms.inertia for terms in dynamics.elements if terms.inertia is not None}
    for what, value in inertias.items():
        if depends_on(value, time):
            raise ModelError(
                f"{what} of {dynamics.description.name!r} depends on the time. Mass that comes or goes carries momentum, which the description "
                "does not include: model the moving bodies, or the force of the jet."
            )


def check_inertia(model: Model) -> None:
    """Raise a ModelError when a velocity moves no mass (M singular at several configurations), almost none in a loop, or M is indefinite."""
    if not model.description.inertias:
        raise ModelError(
            f"no body of {model.name!r} has inertia: it has poses, Jacobians and pictures, and no dynamics. Give its bodies "
            "inertia=ht.Inertia(...); in a robot file, <inertial>."
        )
    if model.nv > EXPLICIT_UP_TO:
        _check_inertia_of_many(model)
        return
    q = np.concatenate([model.neutral()[None], model.random(0, (2,))])
    worst = []
    masses = model.traced("mass_matrix").interpret(q, model.parameter_vector())[0]
    for M in masses:
        size = np.sqrt(np.abs(np.diag(M)))
        if not np.all(np.isfinite(M)):
            return
        if np.any(size == 0.0):
            worst.append((0.0, int(np.argmin(size))))
            continue
        values, vectors = np.linalg.eigh(M / np.outer(size, size))
        worst.append((values[0], int(np.argmax(np.abs(vectors[:, 0])))))
    value, index = min(worst)
    if value < -INDEFINITE:
        raise ModelError(
            f"the kinetic energy of {model.name!r} is negative for some velocities, most of all {model.v_names[index]!r} (smallest eigenvalue of the "
            f"mass matrix {value:.1e} after scaling its diagonal to one). A body that carries a rotor, system.armature(..., body=...), has the "
            "inertia of both: give it at least that of its rotors."
        )
    value, index = max(worst)
    if value < SINGULAR:
        raise ModelError(
            f"velocity {model.v_names[index]!r} of {model.name!r} moves no mass: the mass matrix is singular (smallest eigenvalue "
            f"{value:.1e} after scaling its diagonal to one). Give inertia to the bodies that this joint carries, with a moment "
            "about its axis (a point mass on the axis has none)."
        )
    if model.is_constrained:
        check_ranks(model, q, masses)


def why_not_finite(model: Model, q: np.ndarray, v: np.ndarray, p: np.ndarray) -> str:
    """The reason why the equations are not finite at a state (..., nq), (..., nv) with parameters (..., np), as text."""
    expressions = model.expressions
    symbols = {"q": expressions.q, "v": expressions.v, "p": expressions.p}
    for terms in expressions.dynamics.elements:
        if terms.exerted is None or not is_symbolic(terms.exerted):
            continue
        force = trace_of("force", symbols, {"force": terms.exerted}).interpret(q, v, p)[0]
        if not np.all(np.isfinite(force)):
            return (
                f"{terms.element.title} has no finite force there. For example, a strut has no direction when its end points coincide; "
                "move them apart."
            )
    if not np.all(np.isfinite(model.traced("mass_matrix").interpret(q, p)[0])):
        return "its mass matrix is not finite there. Euler angles may be at their singularity."
    return (
        "its mass matrix is singular there. Some velocity coordinate moves no mass (a joint that carries only massless bodies, or a mass "
        "on its own axis), or Euler angles are at their singularity."
    )


def _check_inertia_of_many(model: Model) -> None:
    """As :func:`check_inertia` for many velocities: M in numbers, then the pivots of its elimination from the tips.

    A pivot is the inertia that a joint moves when all joints behind it are free. One configuration at which none vanishes suffices.
    """
    n = model.nv
    for q in model.random(0, (2,)):
        M = _mass_matrix_of_many(model, q)
        M_given = M.copy()
        if not np.all(np.isfinite(M)):
            return
        size, worst, weakest = np.diag(M).copy(), np.inf, 0
        for k in reversed(range(n)):
            share = M[k, k] / size[k] if size[k] > 0.0 else 0.0
            if share < worst:
                worst, weakest = share, k
            if share < SINGULAR:
                break
            M[:k, :k] -= np.outer(M[:k, k], M[k, :k]) / M[k, k]
        if worst >= SINGULAR:
            if model.is_constrained:
                check_ranks(model, q[None], [M_given])
            return
    raise ModelError(
        f"velocity {model.v_names[weakest]!r} of {model.name!r} moves no mass: the mass matrix is singular (pivot {worst:.1e} relative to its "
        "diagonal). Give inertia to the bodies that this joint carries, with a moment about its axis (a point mass on the axis has none)."
    )


def _mass_matrix_of_many(model: Model, q: np.ndarray) -> np.ndarray:
    """M (nv, nv) at a configuration by composite bodies or, where these do not apply, by columns from inverse dynamics, whose program is short."""
    n, zero, p, dynamics = model.nv, np.zeros(model.nv), model.parameter_vector(), model.expressions.dynamics
    if has_composites(dynamics):
        return composite_mass_matrix(dynamics, model.expressions.p, q, p)
    columns = np.concatenate([np.zeros((1, n)), np.eye(n)])
    states = np.broadcast_to(q, (n + 1, model.nq)), np.broadcast_to(zero, (n + 1, n))
    forces = model.traced("inverse_dynamics").interpret(*states, columns, np.broadcast_to(p, (n + 1, len(p))))[0]
    return (forces[1:] - forces[0]).T


def _check_action(dynamics: EquationTerms, action: BodyWrench | JointAction) -> Array:
    """Return the force or wrench of an action, after checks of its point of attack and of finiteness."""
    kinematics = dynamics.kinematics
    if isinstance(action, JointAction):
        kinematics.joint_velocity_row(action.joint, action.index)
        value = action.force
    else:
        for frame in (action.frame, action.relative_to):
            if frame not in kinematics.chains:
                raise unknown_name("body or frame", frame, kinematics.chains)
        value = action.wrench
    if not _is_finite(value):
        raise ShapeError(
            "its force, moment, point of attack and gear must be finite numbers, got nan or inf among them."
        )
    return value


def _is_finite(value: Array) -> bool:
    """Whether all constants in an expression are finite."""
    if not is_symbolic(value):
        return bool(np.all(np.isfinite(value)))
    import casadi

    entries = to_sx(value)
    constants = [entry for entry in casadi.vertsplit(entries) if entry.is_constant()]
    return all(np.isfinite(float(entry)) for entry in constants)


def _check_symbols(value: Array, known: list[Array], what: str, name: str) -> None:
    """Raise a ModelError for an expression with symbols that are neither coordinates nor parameters of the system."""
    if not is_symbolic(value):
        if value is None or not np.all(np.isfinite(np.asarray(value, dtype=float))):
            raise ModelError(f"{what} of {name!r} must return finite numbers, got {value}. {NOT_MATH}")
        return
    import casadi

    declared = {s.element_hash() for vector in known for s in casadi.symvar(to_sx(vector))}
    foreign = [str(s) for s in casadi.symvar(to_sx(value)) if s.element_hash() not in declared]
    if foreign:
        raise ModelError(
            f"{what} of {name!r} uses symbols that are not parameters of it: {', '.join(foreign)}. Declare them with "
            "system.parameter(name, value) of the same system."
        )
    inputs = casadi.symvar(to_sx(value))
    if holds_nan(casadi.Function("probe", inputs, [to_sx(value)])):
        raise ModelError(f"{what} of {name!r} turned a symbol into the number nan. {NOT_MATH}")
