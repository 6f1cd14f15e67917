"""Consistent starts: find configurations and velocities that satisfy loops and constraints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._arrays import Floats
from heavytop.errors import ConfigurationError, unknown_name
from heavytop.system.constraints.scaling import CLOSED, scaled_pseudo_inverse
from heavytop.system.dynamics.sparse_ldl import RANK_TOLERANCE

if TYPE_CHECKING:
    from heavytop.system.model import Model

RANK = RANK_TOLERANCE**0.5
"""Singular values of Phi below this share of the largest count as zero, as in the elimination at run time."""
ITERATIONS = 100
LONGEST_STEP = 0.5
"""Largest step of an iteration, in rad or in lengths of the system; longer steps of sliding joints are taken where they reduce the residual."""
LEAST_RESIDUAL = CLOSED / 2
"""Relative residual below which an assembly ends as soon as it stops improving: rounding errors far from the origin, or rounded dimensions of a
mechanism with redundant constraints, such as axes of a robot file that are parallel to six digits."""
SIZES = ("row_sizes", "velocity_sizes")
GUESSES = 20
"""Number of random guesses if none is given and loops do not close from the neutral configuration."""


def assemble_any(
    model: Model, guesses: Sequence[Floats], v: Floats, fixed: tuple[str, ...], parameters: Any, tolerance: float
) -> tuple[Floats, Floats]:
    """Assemble from the first guess that succeeds; if none does, raise the error of the first one."""
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
        error = _residual(model, q, parameters)
        # loops of rounded dimensions that are closed more than once have a least residual
        if error < tolerance or (error < LEAST_RESIDUAL and error > 0.5 * before):
            break
        before = error
        sizes, scale, rows = (
            model.evaluate(name, q, parameters=parameters) for name in (*SIZES, "constraint_jacobian")
        )
        allowed = np.where(free, rows[holonomic], 0.0)
        step = -scaled_pseudo_inverse(allowed, sizes[holonomic], scale, RANK) @ phi
        turn = np.max(np.abs(step), initial=0.0, where=~slides)
        step *= min(1.0, LONGEST_STEP / max(turn, 1e-300))
        length, there = np.max(np.abs(step / scale)), _displaced(model, q, step, parameters)
        if length > LONGEST_STEP and not _residual(model, there, parameters) < error:
            there = _displaced(model, q, step * (LONGEST_STEP / length), parameters)
        q = there
    else:
        raise ConfigurationError(
            f"{model.name!r} cannot be assembled from this guess: after {ITERATIONS} steps the loop constraints are still violated by "
            f"{np.max(np.abs(phi)):.3g}. Give a configuration nearer to a closed one, check the lengths, or fix fewer joints."
        )
    sizes, scale, Phi = (model.evaluate(name, q, parameters=parameters) for name in (*SIZES, "constraint_jacobian"))
    residual = model.evaluate("velocity_residual", q, v, parameters=parameters)
    given, v = v, v - scaled_pseudo_inverse(np.where(free, Phi, 0.0), sizes, scale, RANK) @ residual
    _, left, terms = model.evaluate("relative_residuals", q, v, parameters=parameters)
    terms = np.maximum(terms, model.evaluate("relative_residuals", q, given, parameters=parameters)[2])
    if not np.max(np.abs(left), initial=0.0) <= CLOSED * np.max(terms, initial=0.0):
        worst = np.max(np.abs(model.evaluate("velocity_residual", q, v, parameters=parameters)))
        raise ConfigurationError(
            f"no velocity of the free joints of {model.name!r} satisfies the constraints: they are violated by {worst:.3g}. Fix fewer joints."
        )
    return q, v


def _residual(model: Model, q: Floats, parameters: Any) -> float:
    """Largest relative residual of loops and holonomic constraints."""
    return float(np.max(np.abs(model.evaluate("relative_position_residual", q, parameters=parameters)), initial=0.0))


def _displaced(model: Model, q: Floats, step: Floats, parameters: Any) -> Floats:
    """The configuration displaced by ``step`` (nv,), at a fixed time."""
    if model.description.time is None:
        return model.integrate(q, step, 1.0)
    rows = model.evaluate("joint_rows", q, parameters=parameters)
    return model.coordinates.integrate(q, rows @ step, 1.0)
