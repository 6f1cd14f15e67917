"""Names: one is reserved, and some characters have a meaning where names are joined."""

from __future__ import annotations

from heavytop.errors import ModelError

WORLD = "world"
"""The inertial frame: a frame like any other, except that nothing moves it."""


def check_name(name: object, what: str) -> None:
    """Raise unless ``name`` can be part of names such as ``hull.x`` and of names in files."""
    if not isinstance(name, str) or not name or any(c in name for c in ".:/ "):
        raise ModelError(f"{what} needs a name without dots, colons, slashes and spaces, got {name!r}.")
