"""Agreement check: an engine is timed only if its accelerations agree with heavytop's."""

from __future__ import annotations

import numpy as np

from heavytop.errors import HeavytopError

TOLERANCE = 1e-9
"""Largest difference, relative to the largest acceleration of the state."""


class DisagreementError(HeavytopError, RuntimeError):
    """A peer computes other results, so a comparison of times would be meaningless."""


def check(what: str, ours: np.ndarray, theirs: np.ndarray) -> float:
    """The largest relative difference over states (the first axis).

    Raises
    ------
    DisagreementError : the difference exceeds :data:`TOLERANCE`, or a number is not finite.
    """
    axes = tuple(range(1, ours.ndim))
    difference = float(np.max(np.max(np.abs(ours - theirs), axis=axes) / np.max(np.abs(theirs), axis=axes)))
    if not difference <= TOLERANCE:
        raise DisagreementError(
            f"{what}: the results differ by {difference:.3g} of the largest one (tolerance {TOLERANCE:g}). No time is reported."
        )
    return difference
