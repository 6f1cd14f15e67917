"""How a run ended, as data."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum


class Ending(Enum):
    """Ways a trajectory ends; ``ended`` is where the equations themselves end, as for a body that shrinks to a point,
    ``controller_failed`` where the law reports that it has no input, ``lost`` where it reports that it has given up,
    ``unsolved`` where the contact problem of a step was not solved.

    >>> [ending.name for ending in Ending][:2]
    ['finished', 'event']
    """

    finished = "finished"
    event = "event"
    diverged = "diverged"
    interrupted = "interrupted"
    step_limit = "step_limit"
    ended = "ended"
    lost = "lost"
    jumped = "jumped"
    ill_posed = "ill_posed"
    unsolved = "unsolved"
    controller_failed = "controller_failed"


@dataclass(frozen=True)
class Outcome:
    """How a trajectory (or a batch: the worst of them) ended.

    Attributes
    ----------
    ending : which way.
    message : what happened, when, to which trajectory, and the likely cause.
    time : end time in s.
    trajectory : index in the batch of one that ended by itself, by an event, by divergence or where what it keeps jumped; empty for a
        single trajectory, and for those that went as far as the run did, which share one outcome.

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

    @property
    def alone(self) -> Outcome:
        """The same of the trajectory on its own, without its place in a batch."""
        return replace(self, message=self.message.replace(place_in(self.trajectory), "", 1), trajectory=())

    def __str__(self) -> str:
        return f"{self.ending.value}: {self.message}"

    def __repr__(self) -> str:
        return f"Outcome({self})"


def place_in(trajectory: tuple[int, ...]) -> str:
    """The place of a trajectory in a batch as text.

    >>> place_in((3,)), place_in(())
    (' (trajectory 3)', '')
    """
    return f" (trajectory {trajectory[0] if len(trajectory) == 1 else trajectory})" if trajectory else ""


SEVERITY = (
    Ending.finished,
    Ending.event,
    Ending.step_limit,
    Ending.interrupted,
    Ending.jumped,
    Ending.lost,
    Ending.ill_posed,
    Ending.unsolved,
    Ending.controller_failed,
    Ending.ended,
    Ending.diverged,
)


def summary(early: list[Outcome], usual: Outcome, count: int) -> Outcome:
    """The worst outcome of ``count`` trajectories, with the number of its kind.

    ``early`` are those that ended by themselves; all others share the ``usual`` one.
    """
    if count == 0:
        return Outcome(Ending.finished, "empty batch", usual.time)
    if count == 1:
        return early[0] if early else usual
    rest = [usual] if len(early) < count else []
    chosen = max([*early, *rest], key=lambda o: (SEVERITY.index(o.ending), -o.time))
    if chosen is usual:
        same = count - len(early)
        if chosen.ending is Ending.finished:
            return Outcome(chosen.ending, f"all {same} trajectories {chosen.message}", chosen.time)
    else:
        same = sum(o.ending is chosen.ending for o in early)
    return Outcome(
        chosen.ending, f"{same} of {count} trajectories; first: {chosen.message}", chosen.time, chosen.trajectory
    )
