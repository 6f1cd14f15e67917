"""The description of a system as immutable data: graph of frames, shapes, moments, inputs, names."""

from __future__ import annotations

import re

from heavytop.errors import ModelError

TIME = "time"
"""The name of the time among the parameters."""
GRAVITY = 9.81
"""Acceleration of free fall where none is given, m/s^2."""
WORLD = "world"
"""The inertial frame: a frame like any other, except that nothing moves it."""


def check_frame_name(name: object) -> None:
    """Raise unless ``name`` can name a body or frame: names of robot files also hold '.', '/', '+' and spaces, but no colon, which
    separates names in ``pose:a:b``."""
    if not isinstance(name, str) or not re.fullmatch(r"[\w./+-]+( +[\w./+-]+)*", name):
        raise ModelError(
            f"a body or frame needs a name of letters, digits, spaces, '_', '-', '.', '/' and '+', got {name!r}."
        )


def check_name(name: object, what: str) -> None:
    """Raise unless ``name`` can be part of names such as ``hull.x`` and of names in files."""
    if not isinstance(name, str) or not re.fullmatch(r"[\w-]+", name):
        raise ModelError(f"{what} needs a name of letters, digits, '_' and '-', got {name!r}.")
