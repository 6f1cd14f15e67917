"""How a run ended, as data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Ending(Enum):
    """Ways a trajectory ends."""

    finished = "finished"
    event = "event"
    diverged = "diverged"
    interrupted = "interrupted"
    step_limit = "step_limit"


@dataclass(frozen=True)
class Outcome:
    """How a trajectory (or a batch: the worst of them) ended.

    Attributes
    ----------
    ending : which way.
    message : what happened, when, to which trajectory, and the likely cause.
    time : of the end in s.
    trajectory : index in the batch; empty for a single one.

    Examples
    --------
    >>> str(Outcome(Ending.finished, "reached t = 1 s", 1.0))
    'finished: reached t = 1 s'
    """

    ending: Ending
    message: str
    time: float
    trajectory: tuple[int, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the trajectory went as far as it should: to the end or to a terminal event."""
        return self.ending in (Ending.finished, Ending.event)

    def __str__(self) -> str:
        return f"{self.ending.value}: {self.message}"


SEVERITY = (Ending.finished, Ending.event, Ending.step_limit, Ending.interrupted, Ending.diverged)


def worst(outcomes: list[Outcome]) -> Outcome:
    """The summary of a batch: its worst outcome, told with how many there are of that kind."""
    if len(outcomes) == 1:
        return outcomes[0]
    chosen = max(outcomes, key=lambda o: (SEVERITY.index(o.ending), -o.time))
    same = sum(o.ending is chosen.ending for o in outcomes)
    if chosen.ending is Ending.finished:
        return Outcome(chosen.ending, f"all {same} trajectories {chosen.message}", chosen.time)
    text = f"{same} of {len(outcomes)} trajectories; first: {chosen.message}"
    return Outcome(chosen.ending, text, chosen.time, chosen.trajectory)
