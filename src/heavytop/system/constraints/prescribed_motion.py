"""Jumps of prescribed motions during a run: a frame that jumps needs an infinite force.

Equations do not show a jump: a derivative is taken on both sides of it, never across it. A jump shows as a change of a value that its rate does not
explain. For a value f with the rate f' the trapezium rule has the error

    f(b) - f(a) - (b - a) (f'(a) + f'(b)) / 2 = O((b - a)^3)

where f is smooth and O(b - a) where its rate jumps; only a jump of f itself stays when the interval is halved again and again.
"""

from __future__ import annotations

from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING

import numpy as np

from heavytop._arrays import concatenate, depends_on, directional
from heavytop.compile import Traced, trace_of
from heavytop.errors import SimulationError
from heavytop.system.constraints.constraints import as_symbols
from heavytop.system.dynamics.rheonomic import with_time
from heavytop.system.kinematics.kinematics import ONE, Motion

if TYPE_CHECKING:
    from heavytop.system.model import Model

MOST_INTERVALS, MOST_FOLLOWED, MOST_SETS, MOST_KEPT = 4096, 256, 64, 256
"""Intervals of a run, intervals that are halved, sets of parameters, and cached runs."""
HALVINGS, SPAN = 60, 1e-7
"""Halvings of an interval with a jump, and the distance, relative to the time in s, at which its size is measured."""
JUMP = 1e-6
"""Smallest jump, relative to the largest change within the run."""
ROUNDING = 1e-11
"""Relative rounding error of a value."""
SMALLEST = 1e-150
"""Smallest jump of an entry that is zero at all instants."""
POSITION, VELOCITY = 12, 6


class PrescribedMotions:
    """Frames and anchors of a model with a prescribed motion.

    Examples
    --------
    >>> import heavytop as ht
    >>> system = ht.System(name="lift")
    >>> system.body("cabin", joint=ht.Prescribed(ht.Prismatic("z"), lambda t: np.maximum(t - 1.0, 0.0)))
    >>> system.body("lamp", parent="cabin", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
    >>> model = system.derive(native=False)
    >>> PrescribedMotions(model).check(model.parameter_vector(), 0.0, 0.9, 100)
    >>> PrescribedMotions(model).check(model.parameter_vector(), 0.0, 2.0, 100)
    Traceback (most recent call last):
    heavytop.errors.SimulationError: the velocity of 'cabin' of 'lift' jumps by 1 at t = 1 s...
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self._fine: set[tuple[bytes, float, float, int]] = set()

    @cached_property
    def _motions(self) -> dict[str, Motion]:
        """Name -> motion relative to the parent."""
        d = self.model.description
        places = {edge.label: edge.at for edge in d.graph.edges}
        places |= {
            f"{side} of loop {loop.name}": at
            for loop in d.loops
            for side, at in (("at_a", loop.at_a), ("at_b", loop.at_b))
        }
        return {
            name: Motion.given(as_symbols(at), d.time, 0)
            for name, at in places.items()
            if d.time is not None and depends_on(at, d.time)
        }

    @cached_property
    def _function(self) -> Traced | None:
        """p -> (values (18 k,), rates): twelve entries of each pose and six of each twist."""
        if not self._motions:
            return None
        parts = [x for m in self._motions.values() for x in (np.reshape(m.pose[:3, :], (POSITION,)), m.twist)]
        values = concatenate(*(as_symbols(x) for x in parts))
        rates = directional(values, self.model.description.time, ONE)
        return trace_of("given", {"p": self.model.expressions.p}, {"values": values, "rates": rates})

    def check(self, p: np.ndarray, start: float, end: float, steps: int) -> None:
        """Raise where a frame or its velocity jumps between two times in s; ``p`` (..., np) are the parameters.

        A pulse between two of 4096 instants, or of the ``steps`` if they are fewer, is not seen; of more than 64 different sets of parameters
        64, evenly spread over the sorted ones, are checked.
        """
        if self._function is None or not end > start:
            return
        key = sha256(p.tobytes()).digest(), start, end, steps
        if key in self._fine:
            return
        sets = np.unique(p.reshape(-1, p.shape[-1]), axis=0)
        for own in sets[:: max(1, -(-len(sets) // MOST_SETS))]:
            self._check(self._function, own, np.linspace(start, end, min(max(steps, 2), MOST_INTERVALS) + 1))
        if len(self._fine) >= MOST_KEPT:
            self._fine.clear()
        self._fine.add(key)

    def _check(self, function: Traced, p: np.ndarray, t: np.ndarray) -> None:
        def sample(t: np.ndarray) -> np.ndarray:
            """Values and rates (n, 2, k)."""
            return np.stack(function.interpret(with_time(p, t)), axis=-2)

        f = sample(t)
        if not np.all(np.isfinite(f)):
            row, _, column = np.argwhere(~np.isfinite(f))[0]
            raise SimulationError(
                f"the motion of {self._name(column)} is not finite at t = {t[row]:g} s. Give it a motion for all times of the run."
            )
        low, high = np.min(f[:, 0], axis=0), np.max(f[:, 0], axis=0)
        least = _smallest_jumps(low, high)
        t, f = (
            np.stack([t[:-1], t[1:]], axis=-1),
            np.stack([f[:-1], f[1:]], axis=1),
        )  # (n, 2) and (n, 2, 2, k): both ends
        for _ in range(HALVINGS):
            worst = np.max(_trapezium_error(t, f) / least, axis=-1)
            kept = np.argsort(worst)[::-1][:MOST_FOLLOWED]
            kept = kept[worst[kept] > 1.0]
            if not kept.size:
                return
            t, f = t[kept], f[kept]
            middle = np.mean(t, axis=-1)
            f_m = sample(middle)
            low, high = np.minimum(low, np.min(f_m[:, 0], axis=0)), np.maximum(high, np.max(f_m[:, 0], axis=0))
            least = _smallest_jumps(low, high)  # between the instants of the run it may move faster
            halves = [(t.copy(), f.copy()) for _ in range(2)]
            for end, (times, values) in zip((1, 0), halves, strict=True):
                times[:, end], values[:, end] = middle, f_m
            errors = [np.max(_trapezium_error(*half) / least, axis=-1) for half in halves]
            first = errors[0] > errors[1]
            t = np.where(first[:, None], halves[0][0], halves[1][0])
            f = np.where(first[:, None, None, None], halves[0][1], halves[1][1])
        error = _trapezium_error(t, f)
        row, column = np.unravel_index(np.argmax(error / least), error.shape)
        around = t[row] + SPAN * (1.0 + np.abs(t[row])) * np.array(
            [-1.0, 1.0]
        )  # at the jump itself may be a mean of both sides
        size = _trapezium_error(around[None], sample(around)[None])[0, column]
        kind = "" if column % (POSITION + VELOCITY) < POSITION else "the velocity of "
        raise SimulationError(
            f"{kind}{self._name(int(column))} jumps by {size:.6g} at t = {t[row, 1]:.6g} s: its driver would need an infinite "
            "force. Give it a motion with a continuous velocity, rounded off where it turns (an acceleration that jumps is fine)."
        )

    def _name(self, column: int) -> str:
        return f"{list(self._motions)[column // (POSITION + VELOCITY)]!r} of {self.model.name!r}"


def _smallest_jumps(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """Smallest jump (k,) that raises an error: relative to the changes of entries of its kind between ``low`` and ``high``, and to their rounding."""
    least = np.empty(len(low))
    for k in range(0, len(low), POSITION + VELOCITY):
        for part in (slice(k, k + POSITION), slice(k + POSITION, k + POSITION + VELOCITY)):
            largest = max(np.max(np.abs(low[part])), np.max(np.abs(high[part])))
            least[part] = JUMP * np.max(high[part] - low[part]) + ROUNDING * largest + SMALLEST
    return least


def _trapezium_error(t: np.ndarray, f: np.ndarray) -> np.ndarray:
    """Error (n, k) of the trapezium rule between two times (n, 2) with values and rates (n, 2, 2, k)."""
    return np.abs(f[:, 1, 0] - f[:, 0, 0] - 0.5 * np.diff(t, axis=-1) * (f[:, 0, 1] + f[:, 1, 1]))
