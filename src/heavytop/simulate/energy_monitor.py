"""The watch over what a motion keeps: after every step, natively, whether the energy, the loops or their branches jumped.

Close to a singular configuration of loops an integrator may go wrong without a number that is not finite. What remains is the balance
``B = T + V - work of the inputs + dissipated energy``, which the exact motion keeps. A step misses it by ``e = |B_new - B_old|``. Truncation makes
that small and smooth; what exceeds ``COUNTED`` of the largest kinetic energy so far is added up, and a sum above ``LOST`` ends the
trajectory. Three things explain an error by themselves and are let through: rounding of large energies, power that changes within the
step (``h |P_new - P_old|``), as where friction changes its sign, and accelerations of drivers that do (``h |p| |alpha_new - alpha_old|`` with the
momentum p of what they carry).

Drivers, which move constraints or frames as functions of time, bring in work as inputs do. Where it is not integrated along, only the equations of
the constraints are watched.

The alarm is a NaN in a part of the state that nothing else reads, so that the native loop notes the step as it notes one that diverges.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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
    loss : errors of the energy that count, relative to the largest kinetic energy.
    miss : largest residual of loops and constraints, relative to their sizes (:mod:`heavytop.system.constraints.scaling`); that of velocity
        constraints also relative to the largest speed so far. branch : least value of their branches; negative is wrong.
    gain : of friction by its own reaction; at 1 the acceleration is no longer unique.
    q : (nq,) configuration at the largest error of a step; the last one where friction is what ended it.
    """

    loss: float
    miss: float
    branch: float
    gain: float
    q: np.ndarray

    @classmethod
    def of(cls, row: np.ndarray, nq: int) -> Watched:
        """From the numbers of one trajectory."""
        return cls(float(row[LOSS]), float(row[MISS]), float(row[BRANCH]), float(row[GAIN]), row[HEAD : HEAD + nq])

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
    kinetic, potential, miss, _, speed, _, _, drive, _ = kernel(q, v, p)
    first, place = np.zeros((*kinetic.shape, HEAD + dynamics.nq + drive.shape[-1])), HEAD + dynamics.nq
    first[..., BALANCE], first[..., FASTEST], first[..., BRANCH] = kinetic + potential, kinetic, 1.0
    # the first step closes the loops of a rounded start: what that changes of the energy is no error of a step
    first[..., SPEED], first[..., CLOSING] = speed, np.max(np.abs(miss), axis=-1, initial=0.0) > ASSEMBLED
    first[..., HEAD:place], first[..., place:] = q, drive
    return first


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
        entering, lost, *driven = power.expressions(s["q"], s["v"], more["u"], s["p"])
        given = sum(driven, entering - lost)
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
