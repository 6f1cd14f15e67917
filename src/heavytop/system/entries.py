"""What the entries of a model's arrays are, for those who read exported code."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from heavytop.system.model import Model


def entries_of(model: Model, labels: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Names of the entries of those arrays among ``labels`` whose entries the model names.

    >>> import heavytop as ht
    >>> entries_of(ht.library.cart_pole().derive(), ["q_R", "z"])
    {'q_R': ('x.x', 'theta.angle')}
    """
    named = {
        "q": model.q_names, "v": model.v_names, "u": model.u_names, "p": model.parameter_names,
        "q_R": model.q_names, "v_R": model.v_names, "a_R": tuple(f"d/dt {name}" for name in model.v_names),
        "u_R": model.u_names,
    }  # fmt: skip
    wanted = set(labels)
    return {label: names for label, names in named.items() if label in wanted}


def nominal_of(model: Model, labels: Iterable[str]) -> dict[str, tuple[float, ...]]:
    """Nominal values of the parameters p, if they are among ``labels``; the time, which is the last of them, has none."""
    values = tuple(model.parameter_vector().tolist())
    return {"p": values if model.description.time is None else values[:-1]} if "p" in labels else {}
