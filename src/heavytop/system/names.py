"""Names: one is reserved, and some characters have a meaning where names are joined."""

from __future__ import annotations

import re

from heavytop.errors import ModelError

WORLD = "world"
"""The inertial frame: a frame like any other, except that nothing moves it."""


def check_name(name: object, what: str) -> None:
    """Raise unless ``name`` can be part of names such as ``hull.x`` and of names in files."""
    if not isinstance(name, str) or not re.fullmatch(r"[\w-]+", name):
        raise ModelError(f"{what} needs a name of letters, digits, '_' and '-', got {name!r}.")
