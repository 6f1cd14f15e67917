"""What is recorded at the events that end trajectories of a batch: between two records, so the arrays of the run do not have it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from heavytop.simulate import Ending, Run

AT_EVENTS = (Ending.event, Ending.ended)
"""Endings at a zero of some function: an event of the user, or where the equations end."""
_OTHER_NAMES = {"z": "memory", "residual": "residual"}
"""Channels of a run that the time loop keeps by itself."""


class EventEnds(NamedTuple):
    """Trajectories that ended at an event: their places in the batch, and a run with one record of each, in this order."""

    places: tuple[np.ndarray, ...]
    run: Any


def at_events(run: Any) -> EventEnds | None:
    """Of a batch, or of something that has its attributes and is made again by ``with_run``; None if no trajectory ended at an event.

    Examples
    --------
    >>> import heavytop as ht
    >>> model = ht.library.load("pendulum").derive()
    >>> start = [[-0.1], [-0.2], [0.3]], [1.0]
    >>> run = ht.simulate(model, start, until=0.1, step=0.06, events=lambda t, q, v: q[0] + 0.05)
    >>> ends = at_events(run)
    >>> ends.places[0].tolist(), ends.run.q.round(6).tolist(), ends.run.energy.shape
    ([0], [[-0.05]], (1,))
    """
    if not run.events or not run.batch:
        return None
    found = {o.trajectory: o for o in reversed(run.events) if o.terminal}
    ended = [o for index, o in found.items() if run.outcomes[index].ending in AT_EVENTS]
    if not ended:
        return None
    places = tuple(np.array([o.trajectory for o in ended]).T)
    times = np.array([o.time for o in ended])
    before = np.maximum(np.searchsorted(run.t, times, side="right") - 1, 0)

    def row(values: np.ndarray, known: list[Any]) -> np.ndarray:
        """The known value of each; missing ones are held from the record before."""
        held = values[(before, *places)]
        return np.stack([h if t is None else np.asarray(t) for h, t in zip(held, known, strict=True)])

    def channel(name: str) -> list[Any]:
        if name in _OTHER_NAMES:
            return [getattr(o.moment, _OTHER_NAMES[name], None) for o in ended]
        return [None if o.moment is None else o.moment.channels.get(name) for o in ended]

    alone = replace(
        run if isinstance(run, Run) else run.run,
        t=times,
        q=np.stack([o.q for o in ended]),
        v=np.stack([o.v for o in ended]),
        u=row(run.u, [getattr(o.moment, "u", None) for o in ended]),
        work=None if run.work is None else row(run.work, [getattr(o.moment, "work", None) for o in ended]),
        channels={name: row(values, channel(name)) for name, values in run.channels.items()},
        parameters={n: np.broadcast_to(value, run.batch)[places] for n, value in run.parameters.items()},
        events=(),
        stored={},
    )
    return EventEnds(places, alone if isinstance(run, Run) else run.with_run(alone))
