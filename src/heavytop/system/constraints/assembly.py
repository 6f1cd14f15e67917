"""Consistent starts: find configurations and velocities that satisfy loops and constraints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._arrays import Floats
from heavytop.errors import ConfigurationError, unknown_name
from heavytop.system.constraints.scaling import inverse_beside
from heavytop.system.dynamics.sparse_ldl import RANK_TOLERANCE

if TYPE_CHECKING:
    from heavytop.system.model import Model

RANK = RANK_TOLERANCE**0.5
"""Singular values of Phi below this share of the largest count as zero, as in the elimination at run time."""
ITERATIONS = 100
LONGEST_STEP = 0.5
"""Of an iteration: rad, or beside the length of the system. Ways that slide and lead nearer are gone at once: a place may be far away."""
ROUNDING = 1e-9
"""Miss beside the sizes of the equations that rounding may leave far from the origin: there an assembly ends when it gets no better."""
SIZES = ("row_sizes", "velocity_sizes")
GUESSES = 20
"""Random guesses where none is given and loops do not close from the neutral one."""


def assemble_any(
    model: Model, guesses: Sequence[Floats], v: Floats, fixed: tuple[str, ...], parameters: Any, tolerance: float
) -> tuple[Floats, Floats]:
    """A start from the first guess that leads to one; the error is that of the first guess."""
    error: ConfigurationError | None = None
    for q in guesses:
        try:
            return assemble(model, q, v, fixed, parameters, tolerance)
        except ConfigurationError as failed:
            error = error or failed
    raise error or ConfigurationError(f"{model.name!r} cannot be assembled without a guess.")


def assemble(
    model: Model, q: Floats, v: Floats, fixed: tuple[str, ...], parameters: Any, tolerance: float
) -> tuple[Floats, Floats]:
    """Gauss-Newton with rank-revealing steps from the guess (q, v); joints in ``fixed`` keep their configuration and velocity."""
    free = np.ones(model.nv, dtype=bool)
    labels = tuple(model.coordinates.names or ())
    for label in fixed:
        if label not in labels:
            raise unknown_name("joint (the name of the body it carries)", label, labels)
        free[model.coordinates.v_slice(label)] = False
    before, holonomic = np.inf, model.holonomic_rows
    slides = np.array([unit == "m/s" for unit in model.v_units])
    for _ in range(ITERATIONS):
        phi = model.evaluate("position_residual", q, parameters=parameters)
        miss = _miss(model, q, parameters)
        if miss < tolerance or (miss < ROUNDING and miss > 0.5 * before):
            break
        before = miss
        sizes, scale, rows = (
            model.evaluate(name, q, parameters=parameters) for name in (*SIZES, "constraint_jacobian")
        )
        allowed = np.where(free, rows[holonomic], 0.0)
        step = -inverse_beside(allowed, sizes[holonomic], scale, RANK) @ phi
        turn = np.max(np.abs(step), initial=0.0, where=~slides)
        step *= min(1.0, LONGEST_STEP / max(turn, 1e-300))
        length, there = np.max(np.abs(step / scale)), _moved(model, q, step, parameters)
        if length > LONGEST_STEP and not _miss(model, there, parameters) < miss:
            there = _moved(model, q, step * (LONGEST_STEP / length), parameters)
        q = there
    else:
        raise ConfigurationError(
            f"{model.name!r} cannot be assembled from this guess: after {ITERATIONS} steps the loop constraints are still violated by "
            f"{np.max(np.abs(phi)):.3g}. Give a configuration nearer to a closed one, check the lengths, or fix fewer joints."
        )
    sizes, scale, Phi = (model.evaluate(name, q, parameters=parameters) for name in (*SIZES, "constraint_jacobian"))
    residual = model.evaluate("velocity_residual", q, v, parameters=parameters)
    asked, v = v, v - inverse_beside(np.where(free, Phi, 0.0), sizes, scale, RANK) @ residual
    _, left, terms = model.evaluate("misses", q, v, parameters=parameters)
    terms = np.maximum(terms, model.evaluate("misses", q, asked, parameters=parameters)[2])
    if not np.max(np.abs(left), initial=0.0) <= 1e-8 * np.max(terms, initial=0.0):
        missed = np.max(np.abs(model.evaluate("velocity_residual", q, v, parameters=parameters)))
        raise ConfigurationError(
            f"no velocity of the free joints of {model.name!r} satisfies the constraints: they are violated by {missed:.3g}. Fix fewer joints."
        )
    return q, v


def _miss(model: Model, q: Floats, parameters: Any) -> float:
    """Largest miss of loops and holonomic constraints beside their sizes."""
    return float(np.max(np.abs(model.evaluate("position_miss", q, parameters=parameters)), initial=0.0))


def _moved(model: Model, q: Floats, step: Floats, parameters: Any) -> Floats:
    """The configuration displaced by ``step`` (nv,); what the time moves meanwhile is no part of it."""
    if model.description.time is None:
        return model.integrate(q, step, 1.0)
    rows = model.evaluate("joint_rows", q, parameters=parameters)
    return model.coordinates.integrate(q, rows @ step, 1.0)
