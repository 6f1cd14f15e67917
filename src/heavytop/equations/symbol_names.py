"""Short, readable names of coordinates, velocities, inputs and parameters.

A joint ``theta`` with one coordinate gives ``theta`` and ``thetadot`` (which SymPy prints with a dot), on the circle
``c_theta`` and ``s_theta``. The components of larger joints keep their names (``R_xx``, ``omega_x``) as long as these are unique
in the system; otherwise the name of the joint is inserted: ``omega_load_x``.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from heavytop._format import safe_names
from heavytop.coordinates import Circle
from heavytop.system import Model, Parameter

RESERVED = frozenset(("M", "B", "D", "c", "f", "fK", "fG", "Phi", "phi", "q", "v"))
"""Names of matrices and vectors in the equations; a parameter or joint of that name gets a suffix."""
RESERVED_WITH_CONSTRAINTS = frozenset(("b", "lam", "F", "N", "P"))
"""Further ones in the equations of loops and constraints."""
ROTATION = tuple(f"R_{row}{col}" for col in "xyz" for row in "xyz")


class SymbolNames(NamedTuple):
    """Names of the scalars of q, v, u and p."""

    q: tuple[str, ...]
    v: tuple[str, ...]
    u: tuple[str, ...]
    p: tuple[str, ...]


def dotted(name: str) -> str:
    """The name of a rate.

    >>> dotted("theta"), dotted("theta_1"), dotted("arm2")
    ('thetadot', 'thetadot_1', 'armdot_2')
    """
    match = re.fullmatch(r"([^_\d]+)_?(.*)", name)
    if match is None:
        return f"{name}dot"
    base, rest = match.groups()
    return f"{base}dot_{rest}" if rest else f"{base}dot"


def component(path: str) -> str:
    """The short name of a component of a joint.

    >>> component("position.x"), component("first.rate"), component("x_rate"), component("rate")
    ('x', 'firstdot', 'xdot', 'angledot')
    """
    parts = [part for part in path.split(".") if not re.fullmatch(r"block\d+|position", part)]
    if parts[-1] == "rate":
        return dotted("_".join(parts[:-1]) or "angle")
    if parts[-1] == "angle" and len(parts) > 1:
        parts.pop()
    name = "_".join(parts)
    return dotted(name.removesuffix("_rate")) if name.endswith("_rate") else name


def within(name: str, joint: str) -> str:
    """The name of a component with the name of the joint inserted.

    >>> within("omega_x", "load"), within("x", "hull")
    ('omega_load_x', 'x_hull')
    """
    base, _, rest = name.partition("_")
    return f"{base}_{joint}_{rest}" if rest else f"{base}_{joint}"


def symbol_names(model: Model) -> SymbolNames:
    """Readable, distinct names for a model."""
    blocks = list(zip(model.coordinates.names or (), model.coordinates.blocks, strict=True))
    short: list[tuple[list[str], list[str]]] = []
    for label, block in blocks:
        if block.nq == 1:
            short.append(([label], [dotted(label)]))
        elif isinstance(block, Circle):
            short.append(([f"c_{label}", f"s_{label}"], [dotted(label)]))
        else:
            short.append(([component(n) for n in block.q_names], [component(n) for n in block.v_names]))
    counts = Counter(name for q, v in short for name in (*q, *v))
    counts.update(model.parameter_names)
    q_names: list[str] = []
    v_names: list[str] = []
    for (label, _), (q, v) in zip(blocks, short, strict=True):
        unique = all(counts[name] == 1 for name in (*q, *v))
        q_names += q if unique else [within(name, label) for name in q]
        v_names += v if unique else [within(name, label) for name in v]
    if model.description.velocity is not None or model.description.basis is not None:
        v_names = list(model.v_names)
    taken = {*model.parameter_names, *q_names, *v_names}
    u_names = [f"u_{name}" if name in taken else name for name in model.u_names]
    given = [_letter(p, taken) for p in model.description.parameters]
    reserved = RESERVED | RESERVED_WITH_CONSTRAINTS if model.is_constrained else RESERVED
    p_names = [f"{name}_par" if name in reserved else name for name in given]
    q_names = [f"{name}_joint" if name in reserved else name for name in q_names]
    names = tuple(safe_names([*p_names, *q_names, *v_names, *u_names], "symbol"))
    np_, nq, nv = len(model.parameter_names), model.nq, model.nv
    return SymbolNames(names[np_ : np_ + nq], names[np_ + nq : np_ + nq + nv], names[np_ + nq + nv :], names[:np_])


def _letter(parameter: Parameter, taken: set[str]) -> str:
    """The name of a parameter; the time is t unless that name is taken."""
    return "t" if parameter.is_time and "t" not in taken else parameter.name


def rotations(model: Model) -> list[tuple[int, ...]]:
    """Indices in q of each rotation matrix, column by column."""
    last = [name.split(".")[-1] for name in model.q_names]
    return [tuple(range(k, k + 9)) for k in range(len(last) - 8) if tuple(last[k : k + 9]) == ROTATION]
