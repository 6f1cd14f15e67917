"""Overviews of systems, models and distributions for notebooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from heavytop._arrays import is_symbolic
from heavytop._format import brief, format_vector, listed
from heavytop._repr_html import Overview, matrix_latex
from heavytop.errors import HeavytopError

if TYPE_CHECKING:
    from heavytop.system.description.moments import Moments
    from heavytop.system.model import Model
    from heavytop.system.system import System

EQUATION = r"M(q)\,\dot v + c(q, v) + D(q)\,v + f_K(q) + f_G(q) = B(q)\,u,\qquad \dot q = A(q)\,v"


def system_overview(system: System) -> Overview:
    """Frames, joints, what acts, inputs and parameters of a description."""
    joints = [f"{edge.label} ({type(edge.joint).__name__.lower()}: {edge.a} to {edge.b})" for edge in system._edges]
    rows = [("bodies", listed(system._inertias)), ("joints", listed(joints))]
    more = (
        ("loops", [loop.name for loop in system._loops]),
        ("constraints", [constraint.name for constraint in system._constraints]),
        ("force elements", [type(element).__name__ for element in system._elements]),
        ("inputs", list(system._inputs)),
        ("parameters", [f"{p.name} = {p.value:.6g}" for p in system._parameters.values()]),
        ("time", ["moves frames or changes forces"] * _depends_on_time(system)),
    )
    rows += [(what, listed(names)) for what, names in more if names]
    gravity = "symbolic" if is_symbolic(system.gravity) else f"{format_vector(system.gravity, 6)} m/s²"
    return Overview(f"System {system.name}", (*rows, ("gravity", gravity)))


def _depends_on_time(system: System) -> bool:
    try:
        return system.describe().time is not None
    except HeavytopError:  # the description is not complete yet
        return False


def model_overview(model: Model) -> Overview:
    """Sizes, names and the form of the equations of a model."""
    rows = [
        ("bodies", listed(model.body_names)),
        (f"q ({model.nq})", listed(model.q_names)),
        (f"v ({model.nv})", listed(model.v_names)),
        (f"u ({model.nu})", listed(model.u_names)),
    ]
    if model.is_constrained:
        rows.append(("constraints", listed(model.constraint_names)))
    if not model.is_constrained:  # otherwise they depend on the configuration
        rows.append(("degrees of freedom", str(model.nv)))
    rows.append(("parameters", listed(f"{p.name} = {p.value:.6g}" for p in model.description.parameters)))
    reaction = r" + \Phi(q)^T \lambda,\qquad \phi(q) = 0" if model.is_constrained else ""
    return Overview(f"Model {model.name}", tuple(rows), EQUATION.replace(r"\,u,", rf"\,u{reaction},"))


def moments_overview(moments: Moments) -> Overview:
    """Total, centre and moment of a distribution, and its matrix of moments."""
    rows = tuple(zip(moments.names, texts_of(moments), strict=True))
    label = "X'" if not is_symbolic(moments.moments) else ""
    formula = f"{label} = {matrix_latex(moments.moments)}" if label else ""
    return Overview(type(moments).__name__, rows, formula)


def texts_of(moments: Moments) -> tuple[str, str, str]:
    """Its three numbers as short texts; a diagonal moment by its diagonal."""
    total, center, moment = moments.total, moments.center, moments.moment_at_center
    if is_symbolic(total, center, moment):
        return str(total), str(center), str(moment)
    diagonal = np.diagonal(moment)
    shown = diagonal if np.array_equal(moment, np.diag(diagonal)) else moment
    return f"{float(total):.6g}", brief(center), brief(shown)
