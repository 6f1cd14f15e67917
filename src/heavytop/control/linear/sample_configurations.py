"""Configurations at which laws are looked at before they are used: the neutral one and random ones, with closed loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from heavytop._arrays import Floats
from heavytop.errors import ControlError, HeavytopError

if TYPE_CHECKING:
    from heavytop.system.model import Model

TRIES = 12
"""Random guesses per sample from which loops are closed, as long as none of them closes."""


def sample_configurations(model: Model, count: int = 3) -> Floats:
    """Configurations (n, nq), the neutral one first where it is one; with loops those near random guesses that close.

    >>> import heavytop as ht
    >>> sample_configurations(ht.library.cart_pole().derive(native=False)).shape
    (4, 2)
    """
    guesses = np.vstack([model.neutral(), model.random(0, (count,))])
    if not model.is_constrained or not any(rows.phi is not None for rows in model.expressions.constrained.rows):
        return guesses
    found: list[Floats] = []
    for k, guess in enumerate((*guesses, *model.random(1, (TRIES * count,)))):
        if k > count and len(found) >= 2:
            break
        try:
            found.append(model.assemble(guess)[0])
        except HeavytopError:
            continue
    if not found:
        raise ControlError(
            f"no configuration of {model.name!r} closes its loops from {1 + (TRIES + 1) * count} random guesses: its law cannot be examined. Check "
            "the lengths: model.assemble(guess) must find one."
        )
    return np.array(found)


def freedom_of(model: Model, samples: Floats) -> int:
    """Degrees of freedom away from singular configurations: the least of the samples."""
    return min(model.degrees_of_freedom(q) for q in samples) if model.is_constrained else model.nv
