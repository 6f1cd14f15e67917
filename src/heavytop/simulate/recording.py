"""The problem of a run, and the records of its time loop."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import ceil, isfinite, prod

import numpy as np

from heavytop._memory import available_memory
from heavytop.compile import Steps
from heavytop.errors import SimulationError
from heavytop.simulate.dynamics import Dynamics
from heavytop.simulate.events import Event, EventLog
from heavytop.simulate.inputs import InputPlan
from heavytop.simulate.integrators.base import Integrator
from heavytop.simulate.step_assembly import Terminals

SHARE = 0.8
"""Largest share of the available memory that a record may use."""
SMALL = 16e6
"""Records below this size (bytes) skip the memory check, which takes as long as a short run."""


@dataclass(frozen=True, eq=False)
class RunProblem:
    """Everything that defines a run.

    Attributes
    ----------
    q, v, p : (*batch, n) start and parameters.
    memory : memory of the law at the start.
    step, steps : size in s, number.
    balance, watched : whether work is integrated along and recorded, and whether the balance of energy is watched.
    breakpoints : times in s at which steps end.
    gains : (*batch, g) of the law.
    """

    dynamics: Dynamics
    integrator: Integrator
    plan: InputPlan
    q: np.ndarray
    v: np.ndarray
    p: np.ndarray
    memory: np.ndarray
    batch: tuple[int, ...]
    start_time: float
    step: float
    steps: int
    record_every: int
    events: tuple[Event, ...]
    balance: bool
    watched: bool
    threads: int | None
    progress: bool | None
    breakpoints: tuple[float, ...] = ()
    gains: np.ndarray = field(default_factory=lambda: np.zeros(0))

    @property
    def count(self) -> int:
        """Number of trajectories."""
        return prod(self.batch) if self.batch else 1

    @property
    def grid(self) -> RecordGrid:
        """When records are taken."""
        return RecordGrid(self.steps, self.record_every, self.start_time, self.step)

    @property
    def one_sided(self) -> float:
        """Distance in s at which the equations are evaluated before and after a breakpoint: a jump there is in none of its steps."""
        return 4 * float(np.spacing(max(abs(self.start_time), abs(self.start_time + self.step * self.steps))))

    def rows(self, array: np.ndarray) -> np.ndarray:
        """An array (..., n) as one row for each trajectory."""
        if not self.batch and array.ndim == 1:
            return array[None]
        return np.broadcast_to(array, (*self.batch, array.shape[-1])).reshape(self.count, array.shape[-1])


@dataclass(slots=True)
class RecordGrid:
    """The records of a run: one before every ``every``-th step, and the end.

    There may be 10^9 of them, and Ctrl-C does not wait for arrays of that length: nothing here is longer than requested.

    Examples
    --------
    >>> grid = RecordGrid(5, 2)
    >>> len(grid), grid.numbers(), grid.places(np.array([4, 5])), grid.until(4)
    (4, array([0, 2, 4, 5]), array([2, 3]), 3)
    """

    steps: int
    every: int
    start_time: float = 0.0
    step: float = 1.0

    def __len__(self) -> int:
        return -(-self.steps // self.every) + 1

    def until(self, done: int) -> int:
        """How many records there are up to the start of step ``done``."""
        return len(self) if done == self.steps else done // self.every + 1

    def numbers(self, first: int = 0, after: int | None = None) -> np.ndarray:
        """Numbers of the steps of records ``first`` to ``after - 1``; all if not given."""
        numbers = np.arange(first, len(self) if after is None else after)
        if self.every > 1:
            numbers *= self.every
            np.minimum(numbers, self.steps, out=numbers)
        return numbers

    def places(self, numbers: np.ndarray) -> np.ndarray:
        """Which records those of steps are; the next one where there is none."""
        return numbers if self.every == 1 else -(-numbers // self.every)

    def times(self, first: int = 0, after: int | None = None) -> np.ndarray:
        """Times of records in s."""
        return self.start_time + self.step * self.numbers(first, after)


def check_room(problem: RunProblem, entries: Callable[[], int]) -> None:
    """Raise a SimulationError with the numbers and the remedies if the records (``entries`` each) would not fit into memory."""
    every, count = problem.record_every, max(problem.count, 1)
    records = problem.steps / every + 2
    if (
        32.0 * records * count * (problem.q.shape[-1] + problem.v.shape[-1]) < SMALL
    ):  # with everything recorded besides q and v
        return
    record = 8.0 * (entries() * count + 1)  # with the time
    needed, room = records * record, SHARE * available_memory()
    if needed <= room:
        return
    least = max(every + 1, ceil(problem.steps / (room / record - 2))) if room > 3 * record else problem.steps
    raise SimulationError(
        f"the record would hold about {needed / 8:.2g} numbers ({needed / 1e9:.3g} GB), but {max(room, 0.0) / 1e9:.3g} GB of memory are available: "
        f"{problem.steps:,} steps, {problem.count:,} trajectories. Raise record_every (now {every}) to {least} or more, or run fewer "
        "trajectories at once, for example with a sweep into a store."
    )


@dataclass(frozen=True)
class Records:
    """Arrays with the same leading axes: (n, *batch, ...) for a run, without n for one moment.

    Attributes
    ----------
    q, v, u : configuration, velocities, input.
    work : work of inputs and dissipation. memory : memory of the law. residual : residual of implicit steps. None where there is none.
    channels : by their names.
    """

    q: np.ndarray
    v: np.ndarray
    u: np.ndarray | None = None
    work: np.ndarray | None = None
    memory: np.ndarray | None = None
    residual: np.ndarray | None = None
    channels: Mapping[str, np.ndarray] = field(default_factory=dict)

    @classmethod
    def of(cls, steps: Steps, terminals: Terminals) -> Records:
        """The records of native steps."""

        def get(name: str | None) -> np.ndarray | None:
            return None if name is None else steps.records[name]

        return cls(
            steps.records[terminals.q],
            steps.records[terminals.v],
            steps.records[terminals.u],
            get(terminals.work),
            get(terminals.memory),
            get(terminals.own.get("residual")),
            {label: steps.records[name] for label, name in terminals.channels.items()},
        )

    def each(self, change: Callable[[np.ndarray], np.ndarray]) -> Records:
        """All arrays, changed."""

        def maybe(array: np.ndarray | None) -> np.ndarray | None:
            return None if array is None else change(array)

        channels = {name: change(array) for name, array in self.channels.items()}
        return Records(
            change(self.q),
            change(self.v),
            maybe(self.u),
            maybe(self.work),
            maybe(self.memory),
            maybe(self.residual),
            channels,
        )

    def pairs(self, other: Records) -> list[tuple[np.ndarray, np.ndarray | None]]:
        """The arrays of both that belong together; None where the other has none."""
        own = (self.q, self.v, self.u, self.work, self.memory, self.residual)
        theirs = (other.q, other.v, other.u, other.work, other.memory, other.residual)
        pairs = [(a, b) for a, b in zip(own, theirs, strict=True) if a is not None]
        return pairs + [(array, other.channels.get(name)) for name, array in self.channels.items()]

    def with_last(self, moment: Records, n: int) -> Records:
        """The first ``n`` records and one more; missing entries are held. Where there is a record behind, it is overwritten."""
        last = {id(array): row for array, row in self.pairs(moment)}

        def join(array: np.ndarray) -> np.ndarray:
            row = last[id(array)]
            if row is None:
                row = array[n - 1] if n else np.full(array.shape[1:], np.nan)
            if len(array) == n:
                return np.concatenate([array, np.asarray(row)[None]])
            array[n] = row
            return array[: n + 1]

        return self.each(join)

    def at(
        self, q: np.ndarray, v: np.ndarray, work: np.ndarray | None = None, memory: np.ndarray | None = None
    ) -> Records:
        """The same at another state; what is None stays."""
        memory = self.memory if memory is None else memory
        return replace(self, q=q, v=v, work=self.work if work is None else work, memory=memory)


@dataclass
class Recording:
    """What the time loop leaves behind.

    Attributes
    ----------
    t : (n,) times of the records.
    records : records of all trajectories.
    failed : (*batch,) time at which a trajectory was first not finite; NaN where it stayed finite.
    events : all crossings, and where they ended a trajectory; None: there are no events.
    watched, law_failures, ledger : (*batch, n) state of the energy monitor, status of the law, energy exchanged; None if there is none.
    reached : time up to which the run got.
    turns : most turns of a joint in a step that the method chose.
    """

    t: np.ndarray
    records: Records
    failed: np.ndarray
    events: EventLog | None
    watched: np.ndarray | None = None
    law_failures: np.ndarray | None = None
    ledger: np.ndarray | None = None
    reached: float = 0.0
    interrupted: bool = False
    limited: bool = False
    compile_seconds: float = 0.0
    wall_seconds: float = 0.0
    steps: int = 0
    turns: float = 0.0

    @property
    def has_early_ends(self) -> bool:
        """Whether a trajectory failed or met a terminal event."""
        if self.failed.ndim == 0:
            return isfinite(self.failed) or (self.events is not None and isfinite(self.events.stopped[0]))
        return bool(
            np.isfinite(self.failed).any() or (self.events is not None and np.isfinite(self.events.stopped).any())
        )

    @property
    def stopped(self) -> np.ndarray:
        """(*batch,) time of the terminal event; NaN where there was none."""
        return (
            np.full(self.failed.shape, np.nan)
            if self.events is None
            else self.events.stopped.reshape(self.failed.shape)
        )
