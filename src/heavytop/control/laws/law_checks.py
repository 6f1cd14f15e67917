"""Conditions for the existence of a law: a positive prototype, effective inputs, limits that allow rest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._arrays import depends_on, finite_matrix
from heavytop.compile import trace_of
from heavytop.control.limits.allocation import InputRank, pivots
from heavytop.errors import ControlError, ModelError

if TYPE_CHECKING:
    from heavytop.control.laws.law import Law
    from heavytop.ocp import Limits
    from heavytop.system import Model

SINGULAR = 1e-12
"""Ratio of the smallest to the largest eigenvalue below which a matrix counts as singular."""


def check_law(law: Law) -> InputRank:
    """Return the usual effect of the inputs; raise a ControlError if the law does not exist in the sample configurations."""
    model = law.model
    if model.nu == 0:
        raise ControlError(f"{model.name!r} has no inputs to control it with. Add system.input(...).")
    s, projection = law.terms, law.projection
    H = projection.metric(projection.directions)
    outputs = {
        "M_bar": s.mass_matrix,
        "D_bar": s.damping_matrix,
        "K_bar": s.stiffness_matrix,
        "H": H,
        "pivots": pivots(H),
        "B": s.dynamics.input_matrix,
    }
    traced = trace_of("check", {"q": s.actual.q, "p": s.actual.p}, outputs)
    values = dict(zip(outputs, traced(s.samples, model.parameter_vector()), strict=True))
    sizes = model.traced("velocity_sizes")(s.samples, model.parameter_vector())[0]
    for matrix, what in (("M_bar", "inertia"), ("D_bar", "damping"), ("K_bar", "stiffness")):
        _check_positive(values[matrix], sizes, f"{what} {matrix}", model.v_names, strict=what == "inertia")
    _check_effect(law, values["H"])
    if law.limits is not None and not model.is_constrained:
        _check_rest_within_limits(law, law.limits, values["B"][0])
    return InputRank.of(
        values["H"], np.nan_to_num(values["pivots"], posinf=0.0, neginf=0.0), not depends_on(H, s.actual.q)
    )


def _check_positive(matrices: np.ndarray, sizes: np.ndarray, what: str, names: tuple[str, ...], strict: bool) -> None:
    """``sizes`` (nv,) of the velocities make translations and rotations comparable."""
    for matrix, size in zip(matrices, np.broadcast_to(sizes, matrices.shape[:-1]), strict=True):
        values, vectors = np.linalg.eigh(matrix * np.outer(size, size))
        floor = SINGULAR * max(np.max(np.abs(values)), 1e-300)
        if (values[0] > floor) if strict else (values[0] >= -floor):
            continue
        direction = names[int(np.argmax(np.abs(vectors[:, 0])))]
        need = "positive definite" if strict else "positive semidefinite"
        raise ControlError(
            f"the {what} of the prototype must be {need}, but its smallest eigenvalue is {values[0]:.6g}, mainly along {direction!r}. "
            f"Give the bodies that move there more {what.split()[0]}."
        )


def _check_effect(law: Law, H: np.ndarray) -> None:
    model = law.model
    effect = np.max(np.abs(np.diagonal(H, axis1=-2, axis2=-1)), axis=0)
    if np.any(effect > 0.0) and np.all(np.isfinite(effect)):
        return
    raise ControlError(
        f"the inputs {', '.join(map(repr, model.u_names))} of {model.name!r} have no effect: B = 0 in all directions that its constraints allow. "
        "Let them act on a joint or a body that can move."
    )


def _check_rest_within_limits(law: Law, limits: Limits, B: np.ndarray) -> None:
    """If the model can rest in its neutral configuration without limits, it must with them."""
    from scipy.optimize import lsq_linear

    model = law.model
    needed = model.inverse_dynamics(model.neutral(), np.zeros(model.nv), np.zeros(model.nv))
    sizes = model.traced("velocity_sizes")(model.neutral(), model.parameter_vector())[0]
    B, needed = finite_matrix(B, "the input matrix") * sizes[:, None], needed * sizes  # all as moments
    strongest = float(np.max(np.abs(B), initial=0.0)) or 1.0
    B, needed = B / strongest, needed / strongest
    lower, upper = limits.bounds(model)
    forced = np.abs(B) @ np.maximum(np.maximum(lower, -upper), 0.0)  # least effect of limits that exclude zero
    scale = float(np.max(np.maximum(np.abs(needed), forced), initial=0.0))
    if not scale:
        return  # no input is needed or forced
    u, *_ = np.linalg.lstsq(B, needed, rcond=None)
    if np.max(np.abs(B @ u - needed)) > 1e-6 * scale:
        return  # no rest there even without limits
    slack = 1e-9 * (scale + np.abs(u))  # also keeps equal limits apart
    nearest = lsq_linear(B, needed, bounds=(lower - slack, upper + slack), method="bvls")
    if np.max(np.abs(B @ nearest.x - needed)) <= 1e-6 * scale:
        return
    outside = [
        (n, x, a, b)
        for n, x, a, b, s in zip(model.u_names, u, lower, upper, slack, strict=True)
        if not a - s <= x <= b + s
    ]
    listed = "; ".join(f"{n!r} must supply {x:.4g}, allowed {a:g} to {b:g}" for n, x, a, b in outside)
    raise ControlError(
        f"{model.name!r} cannot hover within these limits in its neutral configuration: {listed or 'no combination balances gravity'}."
    )


def need_timeless(model: Any) -> None:
    """Raise a ControlError for a model that depends on time explicitly."""
    if getattr(getattr(model, "description", None), "time", None) is not None:
        raise ControlError(
            f"laws and references require time-invariant systems, but {model.name!r} depends on time explicitly. Write the law as "
            "ht.Feedback(lambda t, q, v: ...), or drive the prescribed joint by an input."
        )


def check_model(model: Any) -> None:
    """Raise an error unless ``model`` is a derived model."""
    if not hasattr(model, "expressions"):
        raise ModelError(f"a law needs a derived model (system.derive()), got {type(model).__name__}.")
    need_timeless(model)


def check_tree(model: Any, what: str) -> None:
    """Raise a ControlError unless ``model`` is a derived model of a tree without velocity constraints."""
    check_model(model)
    closed = [item.name for item in (*model.description.loops, *model.description.constraints)]
    if closed:
        raise ControlError(
            f"{what} supports tree systems; {model.name!r} has the constraints {', '.join(map(repr, closed))}. Use energy_law, which satisfies them."
        )


def check_sizes(own: Model, other: Any, what: str, hint: str, sizes: tuple[str, ...] = ("nq", "nv", "nu")) -> None:
    """Raise a ControlError unless another model or plant has the sizes of the one that something was made for."""
    for size in sizes:
        made, got = getattr(own, size), getattr(other, size)
        if got != made:
            raise ControlError(
                f"{what} was made for {own.name!r} with {size} = {made}, but {other.name!r} has {size} = {got}. {hint}"
            )


PART = "OnPart(controller, model) controls a part of a plant."
"""What to do with a plant that has more coordinates."""
