"""Singular configurations of loops and constraints: where they are, and which starts there determine no motion.

Where rows of Phi become dependent, branches of motion may meet. A velocity along one of them fulfils Phi v + b = 0 and has an acceleration
with Phi a + d/dt(Phi) v + d/dt(b) = 0. A velocity between them fulfils the first equation only: no motion continues it. At rest the
acceleration takes the place of the velocity, since v = a t to first order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._format import format_vector
from heavytop.errors import ConfigurationError, ModelError
from heavytop.system.dynamics.sparse_ldl import RANK_TOLERANCE, independent_rows, scaled_compliance

if TYPE_CHECKING:
    from heavytop.system.model import Model

RESIDUAL = 1e-4
"""Largest residual of Phi a + d/dt(Phi) v + d/dt(b) = 0 relative to its terms."""
INDEPENDENT = 1e-3
"""Smallest singular value of Phi, relative to the largest, of constraints that certainly are independent."""
WEAK = 1e-2
"""Share of its scale below which a row that is independent elsewhere indicates a singular configuration nearby."""


def weakest_constraint(model: Model, Phi: np.ndarray, M: np.ndarray, rank: int) -> tuple[str, float]:
    """Name of the loop or constraint whose row comes nearest to the span of the others, and its share of its scale.

    ``rank`` is the number of independent rows away from singular configurations.
    """
    constrained = model.expressions.constrained
    values, vectors = np.linalg.eigh(scaled_compliance(Phi, M, constrained.groups))
    owners = [rows.name for rows in constrained.rows for _ in range(rows.Phi.shape[0])]
    weights = dict.fromkeys(owners, 0.0)
    for owner, weight in zip(owners, vectors[:, -rank] ** 2, strict=True):
        weights[owner] += float(weight)
    return max(weights, key=lambda name: weights[name]), max(float(values[-rank]), 0.0)


def check_ranks(model: Model, configurations: np.ndarray, masses: Iterable[np.ndarray]) -> None:
    """Raise a ModelError where a constraint that is independent counts as dependent, because some bodies are far too light.

    ``masses`` are the mass matrices (nv, nv) at the ``configurations``. The accelerations decide by S = Phi M^-1 Phi^T; Phi itself, made pure
    numbers by sizes, does not depend on masses.
    """
    p, groups = model.parameter_vector(), model.expressions.constrained.groups
    for q, M in zip(configurations, masses, strict=True):
        Phi, rows, columns = (
            model.traced(name).interpret(q, p)[0] for name in ("constraint_jacobian", "row_sizes", "velocity_sizes")
        )
        if not all(np.all(np.isfinite(x)) for x in (Phi, rows, columns, M)):
            continue
        pure = np.linalg.svd(Phi * columns / np.where(rows > 0.0, rows, np.inf)[:, None], compute_uv=False)
        rank = int(np.sum(pure > INDEPENDENT * np.max(pure, initial=0.0)))
        if independent_rows(Phi, M, groups) < rank:
            name, share = weakest_constraint(model, Phi, M, rank)
            raise ModelError(
                f"the masses and moments of inertia of {model.name!r} differ too much: its constraints are independent, but {name!r} is lost to "
                f"rounding in Phi M^-1 Phi^T ({share:.1g} of its scale, needed {RANK_TOLERANCE:g}). Give its lightest body more inertia, or replace "
                "this body by a constraint: a rod without mass is system.constrain(lambda q: ...) or system.strut(...)."
            )


def weak_constraint(model: Model, q: np.ndarray, start: np.ndarray, parameters: Any) -> str | None:
    """A description of the nearly singular loop or constraint at ``q``, or None; ``start`` is a configuration that is not singular."""
    if not model.is_constrained:
        return None
    rank = model.nv - model.degrees_of_freedom(start, parameters)
    Phi, M = model.constraint_jacobian(q, parameters), model.mass_matrix(q, parameters)
    name, share = weakest_constraint(model, Phi, M, rank)
    kind = "loop" if name in {loop.name for loop in model.description.loops} else "constraint"
    return f"{kind} {name!r} is nearly singular ({share:.1g} of its scale)" if share < WEAK else None


def check_start(model: Model, q: np.ndarray, v: np.ndarray, parameters: Any) -> None:
    """Raise a ConfigurationError for a start at a singular configuration that determines no motion."""
    if not model.is_constrained:
        return
    check_friction(model, q, v, parameters)
    u = np.zeros(model.nu)
    a, residual, size = model.evaluate("constraint_acceleration", q, v, u, parameters=parameters)
    wrong = _undetermined(model, residual, size)
    resting = ~np.any(v, axis=-1)
    if np.any(resting) and np.any(a):
        moved = np.where(resting[..., None], a, v)
        _, residual, size = model.evaluate("constraint_acceleration", q, moved, u, parameters=parameters)
        wrong = wrong | (resting & _undetermined(model, residual, size))
    if not np.any(wrong):
        return
    first = tuple(np.argwhere(wrong)[0].tolist())
    where = f" of trajectory {first[0] if len(first) == 1 else first}" if first else ""
    place = np.broadcast_to(q, (*wrong.shape, q.shape[-1]))[first]
    own = {k: np.broadcast_to(x, wrong.shape)[first] for k, x in dict(parameters or {}).items()}
    freedom, at_rest = model.degrees_of_freedom(place, own), bool(np.broadcast_to(resting, wrong.shape)[first])
    why = "at rest none of them is preferred" if at_rest else "this velocity lies along none of them"
    raise ConfigurationError(
        f"the start{where} of {model.name!r} is a singular configuration, q = {format_vector(place)}: its loops and constraints leave {freedom} "
        f"degrees of freedom there, branches of motion meet, and {why}. Start a little off it (model.assemble(q, v) from a guess that is bent), or "
        "with a velocity along one branch (that of a run which passes through)."
    )


def check_friction(model: Model, q: np.ndarray, v: np.ndarray, parameters: Any) -> None:
    """Raise a ConfigurationError where friction with its own reaction leaves no or several accelerations (Painleve's paradox)."""
    if not model.description.has_reaction_friction:
        return
    gain = np.max(model.evaluate("friction_gain", q, v, parameters=parameters), initial=0.0)
    if not gain < 1.0:
        raise ConfigurationError(
            f"the acceleration of {model.name!r} is not determined: its friction feeds back on its reaction with a gain of {gain:.3g}; from 1 on "
            "no acceleration or several fulfil the equations (Painleve's paradox). Lower the friction, or model the contact as compliant."
        )


def _undetermined(model: Model, residual: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Whether the equations of accelerations are not fulfilled: booleans (*batch,)."""
    floor = 1e-9 * np.max(size, axis=-1, initial=0.0) + 1e-12
    wrong = np.zeros(residual.shape[:-1], dtype=bool)
    groups = np.array(model.expressions.constrained.groups)
    for group in np.unique(groups):
        rows = groups == group
        allowed = RESIDUAL * np.max(size[..., rows], axis=-1) + floor
        wrong |= ~(np.max(np.abs(residual[..., rows]), axis=-1) <= allowed)
    return wrong
