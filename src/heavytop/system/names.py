"""The one reserved name."""

WORLD = "world"
"""The inertial frame: a frame like any other, except that nothing moves it."""
