"""Colours for readers with and without colour vision deficiency (Okabe and Ito), and marks that need no colour.

Colour never carries a meaning alone: curves also have mark shapes and labels at their ends, references are dashed, limits are
hatched, the ghost is translucent and labelled.
"""

from __future__ import annotations

import re
from types import MappingProxyType

BLACK = "#000000"
ORANGE = "#e69f00"
SKY = "#56b4e9"
GREEN = "#009e73"
YELLOW = "#f0e442"
BLUE = "#0072b2"
VERMILION = "#d55e00"
PURPLE = "#cc79a7"

SERIES_LIGHT = (BLUE, VERMILION, GREEN, PURPLE, "#a87400", "#2b8cc4", "#444444", "#7a6a00")
"""Curve colours on a light ground: orange, sky blue and yellow are darkened until they reach a contrast of 3 to 1."""

SERIES_DARK = (SKY, ORANGE, "#1fc79a", "#e29bc4", YELLOW, "#f2855a", "#cfd6dd", "#7fb2ff")
"""Curve colours on a dark ground, in the same order of hue families."""

MARKS = ("circle", "square", "triangle", "diamond", "cross", "plus", "down", "star")
"""Mark shapes, one per curve, in the order of the curve colours."""

# role: (on light, on dark, opacity)
ROLES: MappingProxyType[str, tuple[str, str, float]] = MappingProxyType(
    {
        "body": ("#3d4854", "#aeb9c4", 1.0),
        "arm": ("#7d8894", "#76828e", 1.0),
        "accent": (VERMILION, ORANGE, 1.0),
        "propeller": ("#20262c", "#e6ebf0", 1.0),
        "blur": ("#56616c", "#cdd6df", 0.28),
        "load": (GREEN, "#1fc79a", 1.0),
        "cable": ("#5b6670", "#9aa6b1", 1.0),
        "ghost": (PURPLE, "#e29bc4", 0.34),
        "path": (BLUE, SKY, 1.0),
        "reference": (PURPLE, "#e29bc4", 1.0),
        "load path": (GREEN, "#1fc79a", 1.0),
        "force": (VERMILION, ORANGE, 1.0),
        "torque": ("#a87400", YELLOW, 1.0),
        "ground": ("#e3e8ec", "#1d242b", 1.0),
        "grid": ("#c8d0d7", "#303a44", 1.0),
        "axis": ("#97a3ae", "#55626e", 1.0),
        "shadow": ("#bcc5cd", "#10151a", 1.0),
        **{
            f"path {k}": (light, dark, 1.0)
            for k, (light, dark) in enumerate(zip(SERIES_LIGHT, SERIES_DARK, strict=True))
        },
    }
)
"""Colour on a light ground, colour on a dark ground and opacity of every role a mesh, trail or arrow can have."""


def is_role(role: str) -> bool:
    """Whether a mesh can have the role: a name of ``ROLES``, or a colour "#rrggbb" or "#rrggbbaa"."""
    return role in ROLES or re.fullmatch(r"#[0-9a-f]{6}([0-9a-f]{2})?", role) is not None


def look(role: str) -> tuple[str, str, float]:
    """Colour on a light ground, colour on a dark ground and opacity of a role or of a colour.

    >>> look("#ff000080")
    ('#ff0000', '#ff0000', 0.5019607843137255)
    """
    if role in ROLES:
        return ROLES[role]
    return role[:7], role[:7], int(role[7:] or "ff", 16) / 255
