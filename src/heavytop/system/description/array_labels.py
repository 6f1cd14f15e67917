"""What the entries of a model's arrays are, for those who read exported code."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from heavytop.system.model import Model


def entries_of(model: Model, labels: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Names and units, where they are known, of the entries of those arrays among ``labels`` whose entries the model names.

    >>> import heavytop as ht
    >>> entries_of(ht.library.cart_pole().derive(), ["q_R", "z"])
    {'q_R': ('x.x [m]', 'theta.angle [rad]')}
    """
    q, v, u = (
        tuple(f"{name} [{unit}]" if unit not in ("", "1") else name for name, unit in zip(names, units, strict=True))
        for names, units in (
            (model.q_names, model.q_units),
            (model.v_names, model.v_units),
            (model.u_names, model.u_units),
        )
    )
    rates = tuple(f"d/dt {name}".replace("/s]", "/s^2]") for name in v)
    named = {"q": q, "v": v, "u": u, "p": model.parameter_names, "q_R": q, "v_R": v, "a_R": rates, "u_R": u}
    wanted = set(labels)
    return {label: names for label, names in named.items() if label in wanted}


def nominal_of(model: Model, labels: Iterable[str]) -> dict[str, tuple[float, ...]]:
    """Nominal values of the parameters p, if they are among ``labels``; the time, which is the last of them, has none."""
    values = tuple(model.parameter_vector().tolist())
    return {"p": values if model.description.time is None else values[:-1]} if "p" in labels else {}
