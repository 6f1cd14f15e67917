"""A short text that determines the equations of a described system, so that native code is found without deriving them again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from heavytop._arrays import is_symbolic, to_sx
from heavytop._version import __version__
from heavytop.system.description.description import Description, Parameter
from heavytop.system.description.moments import Moments
from heavytop.system.joints import Joint


class _Unknown(Exception):
    """Something whose content cannot be compared."""


def fingerprint(description: Description) -> str | None:
    """Hash of everything that enters the equations; None if a part cannot be compared (functions, classes of the user).

    It walks all fields of the description, whatever they are called, except those marked as not entering the equations.
    """
    digest = hashlib.sha256(f"heavytop {__version__}".encode())
    try:
        for text in _texts(description, description.parameters):
            digest.update(text.encode())
            digest.update(b"|")
    except _Unknown:
        return None
    return f"{description.name} {digest.hexdigest()}"


def _texts(value: Any, parameters: tuple[Parameter, ...]) -> Iterable[str]:
    """The content of a value as a stream of texts, structure included."""
    if value is None or isinstance(value, (str, bool, int)):
        yield repr(value)
    elif is_symbolic(value):
        yield _expression(value, parameters)
    elif isinstance(value, (float, np.ndarray, np.generic)):
        array = np.asarray(value, dtype=float)
        yield f"{array.shape}{array.tolist()!r}"
    elif not _is_ours(value):
        raise _Unknown
    elif isinstance(value, Joint):
        description = value.describe()
        if description is None:
            raise _Unknown
        yield type(value).__qualname__
        yield from _texts(description, parameters)
    elif isinstance(value, Moments):
        yield type(value).__qualname__
        yield from _texts((value.total, value.center, value.moment_at_center), parameters)
    elif isinstance(value, Mapping):
        yield f"map{len(value)}"
        for key, item in value.items():
            yield from _texts((key, item), parameters)
    elif isinstance(value, (tuple, list)):
        yield f"list{len(value)}"
        for item in value:
            yield from _texts(item, parameters)
    elif is_dataclass(value):
        yield type(value).__qualname__
        for field in fields(value):
            if field.metadata.get("enters_equations", True):
                yield field.name
                yield from _texts(getattr(value, field.name), parameters)
    else:
        raise _Unknown


def _is_ours(value: Any) -> bool:
    """Whether the class of a value is part of the library; subclasses of the user may compute something else."""
    return type(value).__module__.split(".")[0] in ("heavytop", "builtins")


def _expression(value: Any, parameters: tuple[Parameter, ...]) -> str:
    import casadi

    symbols = [to_sx(p.symbol) for p in parameters]
    function = casadi.Function("e", symbols, [to_sx(value)], {"allow_free": True})
    return f"{value.shape}{function.serialize()}"
