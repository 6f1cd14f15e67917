"""Status of a law: the cause that ends a trajectory for which it has no input.

A law may give an output ``status`` (): 0 where its input is good, k where it has none for its k-th cause; the texts are ``causes`` of the
law. The first status that is not zero is kept in the native loop with the configuration at the start of that step. It raises an alarm
there, as the watch does: a NaN in a part of the state that nothing else reads, so that a trajectory ends even if what is around the law
hides the NaN among its inputs. A method that may reject steps raises none: the last failure counts if the step size vanishes there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from heavytop._arrays import concatenate, symbol, vector
from heavytop.compile import Traced, trace_of

STATUS = "status"
"""Name of the output."""
CODE, ALARM, HEAD = range(3)
"""Entries of a failure: the status, 0 or NaN, then the configuration."""


@dataclass(frozen=True)
class LawFailure:
    """What a law said of one trajectory: which of its causes (from 1 on) and the configuration (nq,)."""

    cause: int
    q: np.ndarray

    @classmethod
    def of(cls, row: np.ndarray) -> LawFailure | None:
        """From the numbers of one trajectory; None if the law had nothing to say."""
        return cls(round(float(row[CODE])), row[HEAD:]) if row[CODE] > 0 else None

    def text(self, causes: Sequence[str]) -> str:
        """The cause as text."""
        if self.cause <= len(causes):
            return causes[self.cause - 1]
        return f"status {self.cause}"


@cache
def first() -> Traced:
    """(seen, status) -> seen, the first that is not zero: later stages start from what it left."""
    seen, status = symbol("seen"), symbol("status")
    fresh = np.logical_and(seen == 0.0, status > 0.0)
    return trace_of("first_status", {"seen": seen, "status": status}, {"seen": np.where(fresh, status, seen)})


def keep(nq: int, rejects: bool) -> Traced:
    """(q, status, law_failure) -> law_failure, for a step that begins at ``q``; ``rejects``: the method may do the step again."""
    q, status, before = symbol("q", nq), symbol("status"), symbol("law_failure", HEAD + nq)
    failed = status > 0.0
    alarm = np.where(failed, 0.0 if rejects else np.nan, 0.0)
    fresh = failed if rejects else np.logical_and(failed, before[CODE] == 0.0)
    after = np.where(fresh, concatenate(vector(status, alarm), q), before)
    return trace_of("law_failure", {"q": q, "status": status, "law_failure": before}, {"law_failure": after})
