"""Functions that a user gives to a system: that they can be called, and with how many arguments."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from heavytop.compile import on_symbols
from heavytop.errors import ModelError


def user_function(fn: Any, what: str) -> Any:
    """``fn`` itself, with errors on symbols that name ``what`` it is; raises a ModelError for what cannot be called."""
    if not callable(fn):
        raise ModelError(f"{what} must be a function, got {fn!r}.")
    return on_symbols(fn, what)


def argument_count(fn: Callable[..., Any]) -> int:
    """Number of positional arguments without default; 0 where ``*args`` leaves it open."""
    parameters = inspect.signature(fn).parameters.values()
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return 0
    return sum(p.default is p.empty for p in parameters)
