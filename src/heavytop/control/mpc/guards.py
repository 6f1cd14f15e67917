"""When predictive control trusts its linearisation, and when it gives an expected motion up."""

from __future__ import annotations

TRUST, LARGE_GAP = (0.2, 1.5), 0.3
"""Bounds of the turn (rad) of a node in one step of the optimisation; it halves while gaps of attitudes (rad) are large, else doubles."""
FAR_TURN, PATIENCE, SETTLING = 1.0, 4, 10
"""A motion that is turned by more than this (rad) and costs more than so many samples before is given up, if it had time to settle."""
HOPELESS_GAP = 100.0
"""Gap of attitudes (2 tan of half the angle) that no linearisation closes."""
