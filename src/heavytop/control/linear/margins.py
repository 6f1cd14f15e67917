"""Stability margins of a law in gain, phase, delay, actuator lag and sampling, at rest and along a reference.

The same perturbation is assumed at all inputs. With the linearised plant x' = A x + B u and the law u = -K x the loop, cut at the inputs, has the
eigenvalues lambda_i(i w) of (i w - A)^-1 B K; it is at the edge of stability where 1 + lambda_i(i w) g e^(-i w tau) = 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop._arrays import Numbers
from heavytop._format import Brief
from heavytop.control.linear.analysis import linearize, random_states, region_of_attraction
from heavytop.control.linear.loop import FeedbackLoop
from heavytop.control.linear.lqr import LinearQuadratic, deviation_names
from heavytop.control.references.reference import Reference
from heavytop.errors import ControlError
from heavytop.simulate import Controller, Feedback

if TYPE_CHECKING:
    from heavytop.control.laws.law import FeedbackLaw

SLOWEST = 1e-3
"""Least frequency (rad/s) of modes that the loci resolve."""
NEUTRAL = 1e-4
"""Growth rate (1/s) up to which a mode counts as neutral (the spin of a slung load may be neutral)."""
LONGEST = 2.0
"""Largest lag, delay and sample period (s) considered."""


@dataclass(frozen=True, repr=False)
class Margins(Brief):
    """Stability margins: the worst case over the sampled times.

    Attributes
    ----------
    stable : whether the unperturbed loop is stable; if not, the others are zero.
    gain : (least, largest) factor on the inputs. phase : rad. delay : s.
    lag : largest time constant of actuators of first order, s. sample_rate : least rate of a sampled law, Hz.
    crossover : frequency (rad/s) at which the delay margin is reached.
    recovered, starts : share of recovered random starts, and their number; zero if none were simulated.

    Examples
    --------
    >>> Margins(True, (0.2, 4.0), 0.8, 0.03, 0.06, 25.0, 26.0).report().splitlines()[0]
    'gain margin            0.2 .. 4'
    """

    stable: bool
    gain: tuple[float, float]
    phase: float
    delay: float
    lag: float
    sample_rate: float
    crossover: float
    recovered: float = 0.0
    starts: int = 0

    def rows(self) -> list[tuple[str, str]]:
        """Names and values as text."""
        if not self.stable:
            return [("margins", "none: the loop is unstable")]
        high = f"{self.gain[1]:.3g}" if np.isfinite(self.gain[1]) else "any"
        listed = [
            ("gain margin", f"{self.gain[0]:.3g} .. {high}"),
            ("phase margin", f"{np.degrees(self.phase):.0f} deg"),
            ("delay margin", milliseconds(self.delay)),
            ("largest actuator lag", milliseconds(self.lag)),
            ("least sample rate", f"{self.sample_rate:.0f} Hz"),
        ]
        return listed + (
            [("recovered", f"{100 * self.recovered:.4g} % of {self.starts} random starts")] if self.starts else []
        )

    def report(self) -> str:
        """A short table."""
        return "\n".join(f"{what:<22} {how}" for what, how in self.rows())


def margins(
    law: FeedbackLaw | LinearQuadratic,
    reference: Reference | Numbers | None = None,
    times: Numbers | None = None,
    starts: int = 0,
) -> Margins:
    """Stability margins of a law at rest, or the worst along a reference, with equations frozen at each time.

    Parameters
    ----------
    law : with inputs inside their limits there. reference : a motion or a configuration; default: the neutral one. A regulator
        has its own.
    times : sampled times in s; default: one at rest, twelve along a motion.
    starts : number of random starts (5 m, any attitude) to simulate towards the set point.

    Examples
    --------
    >>> from heavytop.copters import quadcopter
    >>> bool(0.03 < margins(quadcopter().law(limits=False)).delay < 0.1)
    True
    """
    model = law.model
    if isinstance(law, LinearQuadratic):
        if reference is not None or starts:
            raise ControlError(
                f"{law!r} has its own reference: margins(law) takes no other. law.region(sizes) samples random deviations; control.lqr(model, "
                "reference) makes a regulator for another motion."
            )
        reference = law.reference
    elif reference is None:
        reference = model.neutral()
    if not isinstance(reference, Reference):
        reference, many = Reference.set_point(model, np.asarray(reference, dtype=float)), 1
    else:
        many = 1 if reference.is_constant else 12
    times = np.linspace(0.0, reference.horizon, many + 2)[1:-1] if times is None else np.asarray(times, dtype=float)
    found = [_at(law, reference, float(t)) for t in np.atleast_1d(times)]
    worst = Margins(
        all(m.stable for m in found),
        (max(m.gain[0] for m in found), min(m.gain[1] for m in found)),
        min(m.phase for m in found),
        min(m.delay for m in found),
        min(m.lag for m in found),
        max(m.sample_rate for m in found),
        min(found, key=lambda m: m.delay).crossover,
    )
    if not starts:
        return worst
    goal, _, _ = reference(0.0)
    tracking: Any = law.with_reference(goal)  # pyright: ignore[reportArgumentType]
    attraction = region_of_attraction(
        model, tracking, random_states(model, starts, 1), until=20.0, step=5e-3, target=lambda _: goal[:3]
    )
    return replace(worst, recovered=attraction.share, starts=starts)


def milliseconds(seconds: float) -> str:
    """A time in ms, with two digits below 10 ms.

    >>> milliseconds(0.0256), milliseconds(0.000713)
    ('26 ms', '0.71 ms')
    """
    return f"{1e3 * seconds:{'.0f' if seconds >= 0.01 else '.2g'}} ms"


def _at(law: FeedbackLaw | LinearQuadratic, reference: Reference, t: float) -> Margins:
    open_loop, cut = loop_matrices(law, reference, t)
    if np.max(np.linalg.eigvals(open_loop - cut).real) > NEUTRAL:
        return Margins(False, (1.0, 1.0), 0.0, 0.0, 0.0, np.inf, 0.0)
    phase, delay, crossover = _phase_and_delay(open_loop, cut)
    n = len(open_loop)

    def lagging(lag: float) -> bool:
        A = np.block([[open_loop, -cut], [np.eye(n) / lag, -np.eye(n) / lag]])
        return bool(np.max(np.linalg.eigvals(A).real) < NEUTRAL)

    def sampled(period: float) -> bool:
        from scipy.linalg import expm

        big = expm(period * np.block([[open_loop, -cut], [np.zeros((n, 2 * n))]]))
        return bool(np.max(np.abs(np.linalg.eigvals(big[:n, :n] + big[:n, n:]))) < 1 + NEUTRAL * max(period, 1e-3))

    def amplified(gain: float) -> bool:
        return bool(np.max(np.linalg.eigvals(open_loop - gain * cut).real) < NEUTRAL)

    high = np.inf if amplified(1e4) else _edge(amplified, 1.0, 1e4)
    low = 0.0 if amplified(1e-4) else 1 / _edge(lambda x: amplified(1 / x), 1.0, 1e4)
    return Margins(
        True, (low, high), phase, delay, _edge(lagging, 1e-4, LONGEST), 1 / _edge(sampled, 1e-4, LONGEST), crossover
    )


def loop_matrices(law: FeedbackLaw | LinearQuadratic, reference: Reference, t: float) -> tuple[np.ndarray, np.ndarray]:
    """A of the plant with its inputs held, and B K of the loop, about a reference at a time, in tangent coordinates."""
    model = law.model
    q, v, a = reference(t)
    z, p, now = law.initial_state(), None, t
    if isinstance(law, LinearQuadratic):
        p, now = reference.clock(t, model), t + reference.start_time
        tracking: Controller = law
        u = law(now, q, v)
    else:
        tracking, u = law.with_reference(reference), law(q, v, q, v, a)
    closed = linearize(model, tracking, q, v, now, z, p).A
    held = Feedback(lambda q: u + 0.0 * q[0], ("q",))
    free = linearize(model, held, q, v, now, parameters=p).A
    states = len(free)  # fewer than 2 nv with loops and constraints, more with a basis
    open_loop = closed.copy()
    open_loop[:states, :states] = free
    open_loop[:states, states:] = 0.0
    return open_loop, open_loop - closed


def loop_of(
    law: FeedbackLaw | LinearQuadratic, reference: Reference | Numbers | None = None, t: float = 0.0
) -> FeedbackLoop:
    """The loop of a law about a reference at a time (s); default: the configuration it is made for, else the neutral one."""
    model = law.model
    if isinstance(law, LinearQuadratic):
        reference = law.reference
    elif reference is None:
        place = getattr(law, "at", None)
        reference = model.neutral() if place is None else place
    if not isinstance(reference, Reference):
        reference = Reference.set_point(model, np.asarray(reference, dtype=float))
    open_loop, cut = loop_matrices(law, reference, t)
    q, v, a = reference(t)
    parameters = None
    if isinstance(law, LinearQuadratic):
        u, parameters = law(t + reference.start_time, q, v), reference.clock(t, model)
    else:
        u = law(q, v, q, v, a)
    _, B = model.linearize(q, v, u, parameters)
    more = len(open_loop) - len(B)
    B = np.concatenate([B, np.zeros((more, model.nu))])
    names = model.minimal_tangent(q, v, parameters=parameters).names if model.is_constrained else deviation_names(model)
    names = tuple(names)[: len(open_loop) - more] + tuple(f"z{i + 1}" for i in range(more))
    return FeedbackLoop(open_loop, B, np.linalg.pinv(B) @ cut, names, tuple(model.u_names), model.name)


def _frequencies(open_loop: np.ndarray, cut: np.ndarray) -> np.ndarray:
    """Frequencies (rad/s) that resolve the loci: beyond the fastest and slowest mode of open and closed loop, and dense around each."""
    modes = np.concatenate([np.linalg.eigvals(open_loop), np.linalg.eigvals(open_loop - cut)])
    sizes = np.concatenate([np.abs(modes), np.abs(modes.imag)])
    sizes = sizes[sizes > SLOWEST]
    near = np.geomspace(1e-6, 0.1, 40)
    around = np.multiply.outer(sizes, np.concatenate([1 - near, 1 + near])).ravel()
    ends = np.array([0.1, 10.0]) * ((sizes.min(), sizes.max()) if len(sizes) else (1.0, 1.0))
    return np.unique(np.concatenate([np.geomspace(min(0.02, ends[0]), max(2000.0, ends[1]), 4000), around]))


def _phase_and_delay(open_loop: np.ndarray, cut: np.ndarray) -> tuple[float, float, float]:
    """Least phase (rad) and delay (s) over all loci where they cross the unit circle, and the frequency of the latter."""

    def loci(w: float) -> np.ndarray:
        found = np.linalg.eigvals(np.linalg.solve(1j * w * np.eye(len(open_loop)) - open_loop, cut))
        return found[np.argsort(np.abs(found))]

    frequencies = _frequencies(open_loop, cut)
    beyond = np.abs(np.array([loci(float(w)) for w in frequencies])) > 1
    phase, delay, frequency = np.pi, LONGEST, 0.0
    for k, i in np.argwhere(beyond[:-1] != beyond[1:]):
        low, high = float(frequencies[k]), float(frequencies[k + 1])
        for _ in range(40):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if (abs(loci(middle)[i]) > 1) == beyond[k, i] else (low, middle)
        lead = float(np.angle(-loci(low)[i]) % (2 * np.pi))  # phase lag until it meets -1
        phase = min(phase, lead, 2 * np.pi - lead)
        if lead / low < delay:
            delay, frequency = lead / low, low
    return phase, delay, frequency


def _edge(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The largest value for which a condition holds, by bisection of the logarithm between ``low`` and ``high``."""
    if not holds(low):
        raise ControlError("the loop is stable but has no margin: the smallest perturbation destabilises it.")
    if holds(high):
        return high
    for _ in range(40):
        middle = float(np.sqrt(low * high))
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
