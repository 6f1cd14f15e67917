"""Whether the records of a run fit into the memory, told before anything is computed."""

from __future__ import annotations

from math import ceil

from heavytop._memory import available_memory
from heavytop.errors import SimulationError
from heavytop.simulate.recording import RunProblem

SHARE = 0.8
"""Of the memory that can still be had, what a record may take."""
SMALL = 16e6
"""Bytes of a record for which nobody asks how much memory is left: the question costs as much as a short run."""


def check_room(problem: RunProblem, entries: int) -> None:
    """Raise a SimulationError with the numbers and the remedies if the records, each with so many ``entries``, need more memory than can be had."""
    every, count = problem.record_every, max(problem.count, 1)
    record = 8.0 * (entries * count + 2)  # with the time and the number of the step
    needed = (problem.steps / every + 2) * record
    room = SHARE * available_memory() if needed > SMALL else needed
    if needed <= room:
        return
    least = max(every + 1, ceil(problem.steps / (room / record - 2))) if room > 3 * record else problem.steps
    raise SimulationError(
        f"the record would hold about {needed / 8:.2g} numbers ({needed / 1e9:.3g} GB), but {max(room, 0.0) / 1e9:.3g} GB of memory can be had: "
        f"{problem.steps:,} steps, {problem.count:,} trajectories. Raise record_every (now {every}) to {least} or more, or run fewer "
        "trajectories at once, for example with a sweep into a store."
    )
