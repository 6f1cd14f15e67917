"""A model at a glance: bodies, joints, sizes, equations or their structure, one acceleration."""

from __future__ import annotations

from collections import Counter
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
from rich.console import Group
from rich.table import Table
from rich.text import Text

from heavytop._format import counted
from heavytop.equations import SymbolNames, form, unicode_name
from heavytop.equations.symbol_names import symbol_names
from heavytop.errors import HeavytopError
from heavytop.system import Model

if TYPE_CHECKING:
    from rich.console import RenderableType

SHOWN_UP_TO = 2000
"""Operations of the largest system whose equations are typeset for the summary."""
LINES_UP_TO = 60
"""Lines of equations that the summary shows; longer ones only with --text."""
PATTERN_UP_TO = 40
"""Rows of the mass matrix whose pattern is drawn."""
ROWS_UP_TO = 12
"""Joints, inputs and parameters that are listed one by one."""


def summary(model: Model, target: str, seconds: float) -> RenderableType:
    """A model on one screen; ``seconds`` : duration of the derivation."""
    names = symbol_names(model)
    acceleration = _acceleration(model, seconds)
    parts: list[RenderableType] = [_title(model), Text(), _joints(model, names)]
    if model.nu:
        parts += [Text(), _inputs(model)]
    if model.parameter_names:
        parts += [Text(), _parameters(model)]
    parts += [Text(), *_equations(model, target), Text(), acceleration]
    return Group(*parts)


def _title(model: Model) -> Text:
    d = model.description
    m = len(model.coordinates.constraint_names)
    sizes = [
        counted(len(d.inertias), "body"),
        f"{counted(model.nv, 'degree')} of freedom" if not model.is_constrained else counted(model.nv, "velocity"),
        counted(model.nq, "coordinate") + (f" ({counted(m, 'constraint')} between them)" if m else ""),
    ]
    counts = {"input": len(d.inputs), "parameter": len(d.parameters), **Counter(e.kind for e in d.elements)}
    sizes += [counted(count, word) for word, count in counts.items() if count]
    if model.is_constrained:
        sizes.append(counted(len(model.constraint_names), "loop or constraint", "loops and constraints"))
    return Text.assemble((model.name, "bold"), "\n", ", ".join(sizes))


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    for column in columns:
        table.add_column(column)
    return table


def _joints(model: Model, names: SymbolNames) -> Table:
    table = _table("joint", "type", "between", "coordinates", "velocities")
    joints = model.description.joints
    q = v = 0
    for edge in joints:
        block = edge.joint.coordinates
        own_q = names.q[q : q + block.nq]
        own_v = names.v[v : v + block.nv] if model.nv == model.coordinates.nv else ()
        q, v = q + block.nq, v + block.nv
        if table.row_count < ROWS_UP_TO:
            kind = type(edge.joint).__name__.lower()
            table.add_row(edge.label, kind, f"{edge.a} → {edge.b}", _listed(own_q), _listed(own_v))
    if len(joints) > ROWS_UP_TO:
        table.add_row(f"... {len(joints) - ROWS_UP_TO} more")
    return table


def _listed(names: tuple[str, ...]) -> str:
    shown = [unicode_name(name) for name in names]
    return ", ".join(shown) if len(shown) <= 3 else f"{shown[0]} ... {shown[-1]} ({len(shown)})"


def _inputs(model: Model) -> Table:
    table = _table("input", "what")
    for name, element in list(model.description.inputs.items())[:ROWS_UP_TO]:
        on = getattr(element, "body", None)
        table.add_row(unicode_name(name), type(element).__name__ + (f" on {on}" if on else ""))
    if model.nu > ROWS_UP_TO:
        table.add_row(f"... {model.nu - ROWS_UP_TO} more")
    return table


def _parameters(model: Model) -> Text:
    pairs = [f"{unicode_name(p.name)} = {p.value:.6g}" for p in model.description.parameters[: 2 * ROWS_UP_TO]]
    more = len(model.parameter_names) - len(pairs)
    return Text.assemble(("parameters  ", "dim"), ", ".join(pairs) + (f", ... {more} more" if more else ""))


# --- equations --------------------------------------------------------------------------------------------------------------


def _equations(model: Model, target: str) -> list[RenderableType]:
    equations = model.equations()
    if equations.instructions <= SHOWN_UP_TO and not equations.definitions:
        lines = equations.text(width=98).splitlines()[1:]
        end = next((k for k, line in enumerate(lines) if line.strip().startswith("constraints phi")), len(lines))
        if end <= LINES_UP_TO:
            return [Text.assemble(("equations  ", "dim"), form(equations)), Text("\n".join(lines[:end]).strip("\n"))]
    return _structure(model, equations.instructions, target)


def _structure(model: Model, instructions: int, target: str) -> list[RenderableType]:
    """The pattern of the mass matrix and where to find the rest."""
    pattern = Table(box=None, padding=0, show_header=False)
    q = model.coordinates.random(0)
    (M,) = model.traced("mass_matrix").interpret(q, model.parameter_vector())
    size = np.sqrt(np.diagonal(M))
    filled = np.abs(M) > 1e-12 * np.outer(size, size)
    rows = ["".join("■ " if entry else "· " for entry in row).rstrip() for row in filled]
    pattern.add_row(Text("\n".join(rows[:PATTERN_UP_TO]), no_wrap=True))
    return [
        Text.assemble(("equations  ", "dim"), f"{instructions} operations, too long for one screen. See all with"),
        Text(f"  heavytop derive {target} --text       (or --latex, --json; --out FILE)"),
        Text(),
        Text("entries of the mass matrix that are not zero", style="dim"),
        pattern,
    ]


def _acceleration(model: Model, seconds: float) -> RenderableType:
    """One acceleration at a stated state, and the times."""
    start = perf_counter()
    try:
        state, a = _first(model)
    except HeavytopError as error:
        return Text(f"derived in {seconds:.2f} s; no acceleration at the states tried: {error}", style="dim")
    first = perf_counter() - start
    a = np.where(np.abs(a) < 1e-14 * np.max(np.abs(a), initial=0.0), 0.0, a)
    shown = ", ".join(f"{value:.6g}" for value in a[:8]) + (", ..." if model.nv > 8 else "")
    return Group(
        Text.assemble(("acceleration  ", "dim"), f"a = ({shown})"),
        Text(f"              {state}", style="dim"),
        Text.assemble(("time  ", "dim"), f"derived in {seconds:.2f} s, first acceleration {first:.2f} s later"),
    )


def _first(model: Model) -> tuple[str, np.ndarray]:
    """A description of a state, and the acceleration there."""
    v = np.full(model.nv, 0.1)
    if model.is_constrained:
        q, v = model.assemble(model.neutral(), v)
        where = "at the consistent state nearest to the neutral configuration and v = 0.1, u = 0"
        return where, model.acceleration(q, v)
    try:
        q = model.integrate(model.neutral(), v, 1.0)
        where = "after 1 s with all velocities 0.1 from the neutral configuration, v = 0.1, u = 0"
        return where, model.acceleration(q, v)
    except HeavytopError:
        return "at model.random(0), v = 0.1, u = 0", model.acceleration(model.random(0), v)
