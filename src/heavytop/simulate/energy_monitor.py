"""The watch over what a motion keeps: after every step, natively, whether the energy, the loops or their branches jumped.

Close to a singular configuration of loops an integrator may go wrong without a number that is not finite. What remains is the balance
``B = T + V - work of the inputs + dissipated energy``, which the exact motion keeps. A step misses it by ``e = |B_new - B_old|``. Truncation makes
that small and smooth; what exceeds ``COUNTED`` of the largest kinetic energy so far is added up, and a sum above ``LOST`` ends the
trajectory. Three things explain an error by themselves and are let through: rounding of large energies, dissipated power that changes within the
step (``h |P_new - P_old|``), as where friction changes its sign, and accelerations of drivers that do (``h |p| |alpha_new - alpha_old|`` with the
momentum p of what they carry).

Drivers, which move constraints or frames as functions of time, bring in work as inputs do. Where it is not integrated along, only the equations of
the constraints are watched.

The alarm is a NaN in a part of the state that nothing else reads, so that the native loop notes the step as it notes one that diverges.

The ledger is kept for every system, trees too: the error of B since the start, compared with all energy exchanged so far. E is a function of the
state and the work is integrated in every step, so that no step is left out where the ledger is updated only every few steps: as seldom as its cost
stays below ``SHARE`` of that of the steps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate, depends_on, is_symbolic, shape, symbol, vector
from heavytop.compile import Traced, trace_of
from heavytop.simulate.dynamics import Dynamics
from heavytop.simulate.tape import Slot
from heavytop.system import ASSEMBLED, OPEN

COUNTED = 1e-5
"""Error of a step relative to the largest kinetic energy from which on it counts."""
LOST = 1e-3
"""Sum of the errors that count, relative to the largest kinetic energy, at which a trajectory ends."""
AMPLIFIED = 3e-5
"""Error of one step relative to the largest kinetic energy at which a trajectory ends if a constraint was nearly singular there: the motion behind it
is another one."""
ROUNDING = 1e-12
"""Error of a step relative to the sum of all energies that rounding explains."""
AT_REST = 1e-12
"""Motion in one step (rad, or relative to the length of the system) up to which it is at rest: what moves it is rounding, and so is what its energy
misses."""

BALANCE, FASTEST, LOSS, ALARM, POWER, WORST, MISS, BRANCH, GAIN, SPEED, CLOSING, HEAD = range(12)
"""Entries of the watch: B, the largest T, the sum of errors, 0 or NaN, power, largest error of a step, misses of the equations, the least
value of the branches, the largest gain of friction, the largest speed, 1 before a step that closes the loops of a rounded start (else 0); then
the configuration of the largest error, or the last one, and the accelerations of drivers."""


@dataclass(frozen=True)
class Watched:
    """What the watch saw of one trajectory.

    Attributes
    ----------
    loss : errors of the energy that count, relative to the largest kinetic energy. worst : largest error of one step, relative to the same.
    miss : largest residual of loops and constraints, relative to their sizes (:mod:`heavytop.system.constraints.scaling`); that of velocity
        constraints also relative to the largest speed so far. branch : least value of their branches; negative is wrong.
    gain : gain by which friction changes its own reaction; at 1 the acceleration is no longer unique.
    q : (nq,) configuration at the largest error of a step; the last one where friction is what ended it.
    """

    loss: float
    worst: float
    miss: float
    branch: float
    gain: float
    q: np.ndarray

    @classmethod
    def of(cls, row: np.ndarray, nq: int) -> Watched:
        """From the numbers of one trajectory."""
        worst = float(row[WORST] / row[FASTEST]) if row[FASTEST] > 0 else 0.0
        return cls(
            float(row[LOSS]), worst, float(row[MISS]), float(row[BRANCH]), float(row[GAIN]), row[HEAD : HEAD + nq]
        )

    @property
    def raised(self) -> bool:
        """Whether it ended the trajectory."""
        return self.loss > LOST or self.miss > OPEN or self.branch < 0 or self.ill_posed

    @property
    def ill_posed(self) -> bool:
        """Whether friction with its own reaction left no or several accelerations."""
        return self.gain >= 1.0


def size(kept: Traced) -> int:
    """Numbers that the watch carries along."""
    return HEAD + kept.inputs["q"][0] + kept.outputs["drive"][0]


def beginning(dynamics: Dynamics, q: np.ndarray, v: np.ndarray, p: np.ndarray) -> np.ndarray:
    """The numbers at the start of a run (*batch, size)."""
    kernel = dynamics.kernel("kept")
    if kernel is None:
        return np.zeros(HEAD + dynamics.nq)
    values = kernel(q, v, p)
    return _first(
        values, np.broadcast_to(q, (*values[0].shape, dynamics.nq)), np.max(np.abs(values[2]), axis=-1, initial=0.0)
    )


def first_watch(dynamics: Dynamics, kept: Traced) -> Traced:
    """(q, v, p) -> watch at the start of a run, as a function."""
    s = {"q": symbol("q", dynamics.nq), "v": symbol("v", dynamics.nv), "p": symbol("p", len(dynamics.parameter_names))}
    values = kept.expressions(s["q"], s["v"], s["p"])
    return trace_of("first_watch", s, {"watch": _first(values, s["q"], _largest(values[2]))})


def _first(values: Sequence[Array], q: Array, open_by: Array) -> Array:
    """The numbers at the start from those of ``kept`` and the largest residual of a loop there."""
    kinetic, potential, _, _, speed, _, _, drive, _ = values
    zero = 0.0 * kinetic
    # the first step closes the loops of a rounded start: what that changes of the energy is no error of a step
    closing = np.where(open_by > ASSEMBLED, 1.0, 0.0)
    head = (kinetic + potential, kinetic, zero, zero, zero, zero, zero, zero + 1.0, zero, speed, closing)
    return concatenate(vector(*head), q, drive)


def watch(dynamics: Dynamics, kept: Traced, power: Traced | None, done: Slot | None) -> Traced:
    """(q, v, p, h, work, u, watch) -> watch, after a step of size ``h``; without work where none is ``done``, without u where power is None."""
    worked = done is not None
    s = {"q": symbol("q", dynamics.nq), "v": symbol("v", dynamics.nv), "p": symbol("p", len(dynamics.parameter_names))}
    before, place = symbol("watch", size(kept)), HEAD + dynamics.nq
    kinetic, potential, miss, slip, speed, branches, gains, drive, carried = kept.expressions(s["q"], s["v"], s["p"])
    balance, sizes, given = kinetic + potential, kinetic + np.abs(potential), before[POWER]
    more: dict[str, Array] = {}
    if done is not None:
        work = more["work"] = symbol("work", done.shape[0])
        balance = balance - work[0] + work[1]
        sizes = sizes + np.abs(work[0]) + np.abs(work[1])
        if done.shape[0] > 2:
            balance, sizes = balance - work[2], sizes + np.abs(work[2])
    elif dynamics.power() is not None:
        balance = before[BALANCE]
    if worked and power is not None:
        more["u"] = symbol("u", dynamics.nu)
        _, given, *_ = power.expressions(s["q"], s["v"], more["u"], s["p"])
    h = symbol("h")
    fastest = np.maximum(before[FASTEST], kinetic)
    error = np.where(before[CLOSING] > 0.0, 0.0 * balance, np.abs(balance - before[BALANCE]))
    # once the alarm was given, or the state is not finite, what was seen stays; what is only compared with the next step need not
    running = np.logical_and(before[ALARM] == 0.0, error < np.inf)
    explained = COUNTED * fastest + ROUNDING * sizes + h * np.abs(given - before[POWER])
    if shape(drive)[0]:
        explained = explained + h * np.vecdot(np.abs(carried), np.abs(drive - before[place:]))
    swiftest = np.maximum(before[SPEED], speed)
    moves = h * speed > AT_REST
    counts = np.logical_and(np.logical_and(running, moves), error > explained)
    loss = before[LOSS] + np.where(counts, error / np.where(counts, fastest, 1.0), 0.0)
    everything = concatenate(*s.values())

    def seen(value: Array, name: int, worse: Callable[[Array, Array], Array]) -> Array:
        """The worse of what was seen before and now."""
        now = worse(before[name], value)
        return np.where(running, now, before[name]) if is_symbolic(value) and depends_on(value, everything) else now

    if shape(slip)[0]:
        slipping = np.where(moves, _largest(slip) / np.where(moves, swiftest, 1.0), 0.0)
        miss = concatenate(miss, np.reshape(slipping, (1,)))
    miss = seen(_largest(miss), MISS, np.maximum)
    branch, gain = seen(_least(branches), BRANCH, np.minimum), seen(gains[0], GAIN, np.maximum)
    fine = np.logical_and(np.logical_and(loss <= LOST, miss <= OPEN), np.logical_and(branch >= 0.0, gain < 1.0))
    worst = np.logical_and(running, np.logical_or(error > before[WORST], gain >= 1.0))
    q = np.where(worst, s["q"], before[HEAD:place])
    alarm = before[ALARM] + np.where(fine, 0.0, np.nan)
    after = vector(
        balance, fastest, loss, alarm, given, np.maximum(before[WORST], error), miss, branch, gain, swiftest, 0.0
    )
    value = concatenate(after, q, drive)
    return trace_of("watch", {**s, "h": h, **more, "watch": before}, {"watch": value})


# --- the ledger -----------------------------------------------------------------------------------------------------------

SHARE = 0.005
"""Largest share of the ledger in the cost of the steps."""
SELDOM = 128
"""Most steps between two entries of the ledger."""
NEVER = 1e300
FIRST, REST, KINETIC, STORED, WORKED, ERROR, SINCE, LAST, LEDGER = range(9)
"""Entries: B and V at the start; the largest T, ``|V - V_start|`` and sum of magnitudes of all work; the largest ``|B - B_start|``; since when that
exceeds its share of the sum of the three before; time of the last entry. SINCE is NEVER if it does not, -NEVER before the first entry, and -2
NEVER where that does not count, as the first step closes the loops of a rounded start."""


@dataclass(frozen=True)
class Ledger:
    """Energy exchanged and energy lost along one trajectory.

    Attributes
    ----------
    exchanged : largest kinetic energy, change of the potential energy, and all work, in J.
    error : largest error of the balance in J; ``NEVER`` where energies overflowed.
    since : time since when it is too large; ``NEVER`` if it is not.
    """

    exchanged: float
    error: float
    since: float

    @classmethod
    def of(cls, row: np.ndarray) -> Ledger:
        """From the numbers of one trajectory."""
        return cls(float(row[KINETIC] + row[STORED] + row[WORKED]), float(row[ERROR]), float(row[SINCE]))


BLANK = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -NEVER, 0.0])
"""The ledger before its first entry."""


def flow(power: Traced) -> Traced:
    """(q, v, u, p) -> flow: the powers of inputs, of dissipation and of drivers as one vector."""
    s = {name: symbol(name, *size) for name, size in power.inputs.items()}
    return trace_of("flow", s, {"flow": vector(*power.expressions(*s.values()))})


def exchanged(largest: Array, work: Array) -> Array:
    """The largest sum of the magnitudes of all work (1,) up to the end of a step.

    It is updated in every step: at the end of a motion from rest to rest the work is zero again.
    """
    return np.maximum(largest, vector(sum(np.abs(work[k]) for k in range(shape(work)[0]))))


def ledger(dynamics: Dynamics, works: int) -> Traced:
    """(q, v, p, t, work, exchanged, ledger) -> ledger with this state entered; without the work and its sum where there are no ``works``."""
    energies = dynamics.energies()
    assert energies is not None
    s = {"q": symbol("q", dynamics.nq), "v": symbol("v", dynamics.nv), "p": symbol("p", len(dynamics.parameter_names))}
    s |= {"t": symbol("t")}
    s |= {"work": symbol("work", works), "exchanged": symbol("exchanged", 1)} if works else {}
    t, before = s["t"], symbol("ledger", LEDGER)
    first, rest, fastest, stored, worked, error, since, _ = (before[k] for k in range(LEDGER))
    entering: Any = 0.0
    if works:  # of inputs, dissipated, of drivers
        shares = [s["work"][k] for k in range(works)]
        entering = sum(sign * share for sign, share in zip((1.0, -1.0, 1.0), shares, strict=False))
        worked = s["exchanged"][0]
    kinetic, potential = energies.expressions(s["q"], s["v"], s["p"])
    balance = kinetic + potential - entering
    first, rest = np.where(since <= -NEVER, balance, first), np.where(since <= -NEVER, potential, rest)
    fastest, stored = np.maximum(fastest, kinetic), np.maximum(stored, np.abs(potential - rest))
    error = np.maximum(error, np.abs(balance - first))
    allowed = dynamics.balance_tolerance * (fastest + stored + worked) + ROUNDING * (
        kinetic + np.abs(potential) + worked
    )
    wrong_since = np.where(np.abs(since) < NEVER, since, t)
    now = np.where(error > allowed, wrong_since, NEVER)
    after = vector(first, rest, fastest, stored, worked, error, np.where(since < -NEVER, -NEVER, now), t)
    # a finite state whose energies overflow is wrong; what was exchanged before stays
    finite = np.logical_and(np.abs(balance - first) < np.inf, allowed < np.inf)
    after = np.where(finite, after, concatenate(before[:ERROR], vector(NEVER, wrong_since, t)))
    return trace_of("ledger", {**s, "ledger": before}, {"ledger": after})


def _largest(values: Array) -> Array:
    """The largest magnitude; 0 if there is none."""
    result = np.zeros(())
    for k in range(shape(values)[0]):
        result = np.maximum(result, np.abs(values[k]))
    return result


def _least(values: Array) -> Array:
    """The smallest value, at most 1."""
    result = np.ones(())
    for k in range(shape(values)[0]):
        result = np.minimum(result, values[k])
    return result
