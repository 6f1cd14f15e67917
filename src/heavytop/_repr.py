"""Short representations of objects."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

import numpy as np

from heavytop._arrays import is_symbolic

FEW = 16
"""Numbers of an array that are written out."""


def brief(value: Any) -> str:
    """A value in a few characters: six digits, arrays as tuples or by their shape, functions by their names.

    >>> brief(np.array([0.1, 2.0, 1 / 3])), brief(np.zeros((400, 3))), brief(np.sin), brief({"rest": 0.5})
    ('(0.1, 2, 0.333333)', 'array (400, 3)', 'sin', "{'rest': 0.5}")
    """
    if is_symbolic(value):
        text = str(value)
        return text if len(text) <= 40 else f"symbols {value.shape}"
    if isinstance(value, float | np.floating):
        return f"{value:.6g}"
    if isinstance(value, np.ndarray):
        if value.size > FEW:
            return f"array {value.shape}"
        return brief(value.tolist()) if value.ndim else brief(value[()])
    if isinstance(value, tuple | list):
        return f"({', '.join(map(brief, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key!r}: {brief(item)}' for key, item in value.items())}}}"
    if callable(value) and not isinstance(value, type) and hasattr(value, "__name__"):
        return value.__name__.strip("<>")
    return repr(value)


def counted(number: int, what: str) -> str:
    """A number with its noun.

    >>> counted(1, "input"), counted(2, "input"), counted(0, "body")
    ('1 input', '2 inputs', '0 bodies')
    """
    many = f"{what[:-1]}ies" if what.endswith("y") else f"{what}s"
    return f"{number} {what if number == 1 else many}"


class Brief:
    """A dataclass (with ``repr=False``) that is shown by the fields that differ from their defaults."""

    def __repr__(self) -> str:
        kept = [f for f in fields(self) if f.repr and not _is_default(getattr(self, f.name), f.default)]  # type: ignore[arg-type]
        return f"{type(self).__name__}({', '.join(f'{f.name}={brief(getattr(self, f.name))}' for f in kept)})"


def _is_default(value: Any, default: Any) -> bool:
    if default is MISSING or is_symbolic(value):
        return False
    try:
        return value is default or bool(np.array_equal(value, default))
    except (TypeError, ValueError):
        return False
