"""From the records of the time loop to a :class:`~heavytop.simulate.run.Run`: outcomes, causes, names, units."""

from __future__ import annotations

from math import inf, isfinite
from typing import Any

import numpy as np

from heavytop.simulate.controller import LOST, LawFailure, reason
from heavytop.simulate.dynamics import Dynamics
from heavytop.simulate.energy_monitor import (
    AMPLIFIED,
    AT_REST,
    BALANCE,
    FASTEST,
    NEVER,
    OPEN,
    ROUNDING,
    SELDOM,
    SINCE,
    SPEED,
    WORST,
    Ledger,
    Watched,
)
from heavytop.simulate.invariants import HALF_A_TURN
from heavytop.simulate.outcome import Ending, Outcome, place_in, summary
from heavytop.simulate.recording import Recording, Records, RunProblem
from heavytop.simulate.run import Run, Settings, Timing

COARSE = 0.5
"""|lambda| h of a mode above which a step loses more of its energy than the ledger allows."""
CLOSE_BY = 4
"""Records on each side of the time of an error in which its cause is sought."""
MOST_CAUSES = 100
"""Trajectories of a batch whose divergence is looked into."""
BLOWN_UP = 1e15
"""Coordinates and velocities beyond which it is no wonder that forces are not finite."""
UNSOLVED = 1e-6
"""Relative change in the last iteration of an implicit step above which its equations count as unsolved."""
RESOLVED_WELL = 0.01
"""|lambda| h of the fastest mode below which an implicit step that is not solved is not too large."""
UNSOLVED_STEP = "unsolved"
"""Channel of methods that report the first step they could not solve; 0: none."""
PARADOX_STEP = "ill_posed"
"""Channel of methods that report the first step in which contacts left no or several motions; 0: none."""


def make_run(problem: RunProblem, recording: Recording, model: Any) -> Run:
    """Assemble the run; a single trajectory that ended early is cut there, in a batch the rest of it is NaN."""
    _mark_unsolved(problem, recording)
    unbalanced = _unbalanced(problem, recording) | _near_misses(problem, recording)
    outcomes, outcome = _outcomes(problem, recording, unbalanced)
    t, records = _cut(problem, recording)
    dynamics = problem.dynamics
    channels = {name: array for name, array in records.channels.items() if name not in (UNSOLVED_STEP, PARADOX_STEP)}
    if records.memory is not None:
        channels["z"] = records.memory
    if records.residual is not None:
        channels["residual"] = records.residual
    return Run(
        name=dynamics.name,
        integrator=problem.integrator.name,
        t=t,
        q=records.q,
        v=records.v,
        u=records.u if records.u is not None else np.zeros((*records.q.shape[:-1], 0)),
        outcome=outcome,
        outcomes=outcomes,
        **dynamics.labels,
        channels=channels,
        work=records.work,
        events=() if recording.events is None else recording.events.in_order(),
        parameters={
            name: np.broadcast_to(problem.p[..., i], problem.batch) if problem.p.ndim > 1 else problem.p[i]
            for i, name in enumerate(dynamics.parameter_names)
        },
        settings=Settings(
            problem.step, problem.start_time + problem.step * problem.steps, problem.start_time, problem.record_every
        ),
        timing=Timing(recording.compile_seconds, recording.wall_seconds, recording.steps, max(problem.count, 1)),
        dynamics=dynamics,
        model=model,
        origin=problem,
    )


def _mark_unsolved(problem: RunProblem, recording: Recording) -> None:
    """Implicit steps that were not solved count as failures from there on."""
    residual, numbers = recording.records.residual, recording.records.channels.get(UNSOLVED_STEP)
    if residual is None or not len(residual):
        return
    if numbers is not None:
        for steps in (numbers, recording.records.channels.get(PARADOX_STEP)):
            if steps is not None:
                since = np.where(steps[-1] > 0, problem.start_time + problem.step * steps[-1], np.nan)
                recording.failed[...] = np.fmin(recording.failed, since)
        return
    bad = ~(residual < UNSOLVED)
    since = np.where(np.any(bad, axis=0), recording.t[np.argmax(bad, axis=0)], np.nan)
    recording.failed[...] = np.fmin(recording.failed, since)


def _unbalanced(problem: RunProblem, recording: Recording) -> dict[tuple[int, ...], Ledger]:
    """Trajectories that are finite but whose balance of energy is wrong: they end where it became so."""
    rows = recording.ledger
    if rows is None or (rows[SINCE] >= NEVER if rows.ndim == 1 else (rows[..., SINCE] >= NEVER).all()):
        return {}
    found: dict[tuple[int, ...], Ledger] = {}
    for index in map(tuple, np.argwhere((rows[..., SINCE] < NEVER) & np.isnan(recording.failed)).tolist()):
        here = (slice(None), *index)
        q, v = recording.records.q[here], recording.records.v[here]
        if max(problem.step * np.max(np.abs(v)), np.max(np.abs(q - q[0]))) <= AT_REST * (1.0 + np.max(np.abs(q))):
            continue  # at rest: what moves it is rounding, and so is what its energy misses
        found[index] = Ledger.of(rows[index])
        recording.failed[index] = found[index].since
    return found


def _near_misses(problem: RunProblem, recording: Recording) -> dict[tuple[int, ...], Watched]:
    """Smaller errors, where a constraint was nearly singular: there they change the motion that follows, and the trajectory ends."""
    found: dict[tuple[int, ...], Watched] = {}
    if recording.watched is None:
        return found
    rows = np.broadcast_to(recording.watched, (*problem.batch, recording.watched.shape[-1]))
    rounding = ROUNDING * (np.abs(rows[..., BALANCE]) + rows[..., FASTEST])
    wrong = (rows[..., WORST] > AMPLIFIED * rows[..., FASTEST] + rounding) & np.isnan(recording.failed)
    wrong &= problem.step * rows[..., SPEED] > AT_REST
    p = np.broadcast_to(problem.p, (*problem.batch, problem.p.shape[-1]))
    for index in map(tuple, np.argwhere(wrong).tolist()):
        watched = Watched.of(rows[index], problem.dynamics.nq)
        if problem.dynamics.weak_constraint(watched.q, problem.q[index], p[index]) is not None:
            q = recording.records.q[(slice(None), *index)]
            recording.failed[index] = recording.t[max(int(np.argmin(np.sum((q - watched.q) ** 2, axis=-1))), 1)]
            found[index] = watched
    return found


def _outcomes(
    problem: RunProblem, recording: Recording, unbalanced: dict[tuple[int, ...], Ledger | Watched]
) -> tuple[np.ndarray, Outcome]:
    """How each trajectory ended (*batch), and their summary."""
    usual = _usual_outcome(recording, problem.watched)
    outcomes = np.empty(problem.batch, dtype=object)
    outcomes[...] = usual
    early = _given_up(problem, recording, outcomes) if usual.ok else []
    if not recording.has_early_ends:
        return outcomes, summary(early, usual, problem.count)
    ended = np.fmin(recording.failed, recording.stopped)
    indices = np.argwhere(np.isfinite(ended))
    found = () if recording.events is None else recording.events.in_order()
    events = {o.trajectory: o.name for o in reversed(found) if o.terminal}
    for k in np.argsort(ended[np.isfinite(ended)], kind="stable").tolist():
        index = tuple(indices[k].tolist())
        explained = len(early) < MOST_CAUSES
        outcome = _early_outcome(problem, recording, index, events.get(index, ""), explained, unbalanced.get(index))
        outcomes[index] = outcome
        early.append(outcome)
    return outcomes, summary(early, usual, problem.count)


def _given_up(problem: RunProblem, recording: Recording, outcomes: np.ndarray) -> list[Outcome]:
    """Enter trajectories that went as far as the run did, but whose law reports that it has given up."""
    law, codes = problem.plan.control.law, recording.records.channels.get(LOST)
    if law is None or not law.causes or codes is None or np.shape(codes)[1:] != problem.batch or not len(codes):
        return []
    gone = np.argwhere(np.isnan(np.fmin(recording.failed, recording.stopped)) & (codes[-1] > 0))
    found = []
    for index in map(tuple, gone.tolist()):
        text = (
            f"reached t = {recording.reached:.6g} s, but the law has given up: {reason(law.causes, codes[-1][index])}"
        )
        outcomes[index] = Outcome(Ending.lost, text, recording.reached)
        found.append(outcomes[index])
    return found


def _usual_outcome(recording: Recording, watched: bool) -> Outcome:
    """Of all trajectories that went as far as the run did; where their energy should be ``watched`` and is not, it says so."""
    reached = recording.reached
    if recording.interrupted:
        return Outcome(Ending.interrupted, f"stopped from outside at t = {reached:.6g} s", reached)
    if recording.limited:
        text = f"the limit of steps was reached at t = {reached:.6g} s. Loosen the tolerance or raise max_steps"
        return Outcome(Ending.step_limit, text, reached)
    spins = f"; steps of up to {recording.turns:.2g} turns" if recording.turns > HALF_A_TURN else ""
    unwatched = "; the balance of energy is not monitored" if watched and recording.ledger is None else ""
    return Outcome(Ending.finished, f"reached t = {reached:.6g} s{spins}{unwatched}", reached)


def _early_outcome(
    problem: RunProblem,
    recording: Recording,
    index: tuple[int, ...],
    event: str,
    explained: bool,
    seen: Ledger | Watched | None = None,
) -> Outcome:
    """Of a trajectory that met a terminal ``event`` or diverged, the cause of which is ``explained`` or not."""
    failed, stopped = float(recording.failed[index]), float(recording.stopped[index])
    where = place_in(index)
    if isfinite(stopped) and not failed <= stopped:
        guarded = any(guard.name == event for guard in problem.dynamics.guards(problem.step))
        return Outcome(
            Ending.ended if guarded else Ending.event, f"{event} at t = {stopped:.10g} s{where}", stopped, index
        )
    if isinstance(seen, Ledger):
        text = imbalance(problem, recording, index, seen, explained)
        return Outcome(Ending.jumped, f"t = {failed:.6g} s{where}: {text}", failed, index)
    if (watched := seen or _watched(problem, recording, index)) is not None:
        if watched.ill_posed:
            text = paradox(problem.dynamics.name, watched)
            return Outcome(Ending.ill_posed, f"t = {failed:.6g} s{where}: {text}", failed, index)
        text = jump(problem, recording, index, watched, explained)
        return Outcome(Ending.jumped, f"t = {failed:.6g} s{where}: {text}", failed, index)
    if (failure := _law_failure(problem, recording, index)) is not None:
        law = problem.plan.control.law
        text = failure.text(() if law is None else law.causes)
        place = "" if law is None or hasattr(law.host, "kind") else f"the law has no input at q = {_place(failure.q)}: "
        said = f"t = {failed:.6g} s{where}: {place}{text}"
        return Outcome(Ending.controller_failed, said, failed, index)
    if problem.integrator.unilateral and (found := _contact_failure(problem, recording, index)) is not None:
        ending, text = found
        return Outcome(ending, f"t = {failed:.6g} s{where}: {text}", failed, index)
    residual = _unsolved(recording, index)
    what = f"not finite from t = {failed:.6g} s{where} on"
    if residual is not None:
        number = round((failed - problem.start_time) / problem.step)
        which = "a step before" if UNSOLVED_STEP not in recording.records.channels else f"step {number}, the one before"
        what = f"{which} t = {failed:.6g} s{where} was not solved"
    cause = (
        likely_cause(problem, recording, index, residual)
        if explained
        else f"only the first {MOST_CAUSES} causes are analysed."
    )
    return Outcome(Ending.diverged, f"{what}: {cause}", failed, index)


def _unsolved(recording: Recording, index: tuple[int, ...]) -> float | None:
    """The last relative change of an implicit step of this trajectory that was not solved; None if all were."""
    residual, numbers = recording.records.residual, recording.records.channels.get(UNSOLVED_STEP)
    if residual is None:
        return None
    if numbers is not None:
        explained = numbers[(slice(None), *index)] > 0
        return float(residual[(slice(None), *index)][explained][0]) if explained.any() else None
    bad = [float(r) for r in residual[(slice(None), *index)] if isfinite(r) and not r < UNSOLVED]
    return bad[0] if bad else None


def _contact_failure(problem: RunProblem, recording: Recording, index: tuple[int, ...]) -> tuple[Ending, str] | None:
    """Why the contact problem of a step has no good solution; None if that is not what ended the trajectory."""
    channels = recording.records.channels
    first = {name: channels[name][(-1, *index)] for name in (UNSOLVED_STEP, PARADOX_STEP)}
    steps = {name: number for name, number in first.items() if number > 0}
    if not steps or problem.start_time + problem.step * min(steps.values()) > recording.failed[index]:
        return None
    if steps.get(PARADOX_STEP, np.inf) <= steps.get(UNSOLVED_STEP, np.inf):
        return Ending.ill_posed, (
            f"Painleve's paradox: in {problem.dynamics.name!r} the friction of a sliding contact presses it together faster than its normal force "
            "separates it, so that no motion or several obey Coulomb's law. Lower the friction, or make the contact compliant (stiffness=)."
        )
    residual = _unsolved(recording, index)
    if residual == inf:
        return Ending.unsolved, (
            "a gap is not a finite number: a body has left the domain of the surface below it. Give a height that is finite wherever bodies go."
        )
    return Ending.unsolved, (
        f"the contacts of a step were not solved: Coulomb's law is missed by {residual:.2g} m/s. Take a step smaller than {problem.step:g} s, fewer "
        "points that depend on each other, or more rounds: Moreau(iterations=...)."
    )


def _watched(problem: RunProblem, recording: Recording, index: tuple[int, ...]) -> Watched | None:
    """What the watch saw of this trajectory if it ended it, else None."""
    if recording.watched is None:
        return None
    rows = np.broadcast_to(recording.watched, (*problem.batch, recording.watched.shape[-1]))
    watched = Watched.of(rows[index], problem.dynamics.nq)
    return watched if watched.raised else None


def _law_failure(problem: RunProblem, recording: Recording, index: tuple[int, ...]) -> LawFailure | None:
    """What the law said of this trajectory; None if nothing."""
    if recording.law_failures is None:
        return None
    return LawFailure.of(
        np.broadcast_to(recording.law_failures, (*problem.batch, recording.law_failures.shape[-1]))[index]
    )


def paradox(name: str, watched: Watched) -> str:
    """Painleve's paradox as text."""
    return (
        f"Painleve's paradox at q = {_place(watched.q)}: friction in {name!r} answers its own reaction with a gain of {watched.gain:.3g}, and from 1 "
        "on no acceleration or several fulfil the equations. Lower the friction, or model the contact as compliant (a spring and damper instead of "
        "the constraint)."
    )


def _place(q: np.ndarray) -> str:
    return "(" + ", ".join(f"{x:.4g}" for x in q[:8]) + (", ...)" if len(q) > 8 else ")")


def jump(problem: RunProblem, recording: Recording, index: tuple[int, ...], watched: Watched, explained: bool) -> str:
    """What jumped, where, and what to do."""
    method, h = problem.integrator.name, problem.step
    if watched.branch < 0:
        what = "a loop flipped to the other side of its joint"
    elif watched.miss > OPEN:
        what = f"loops and constraints are violated by {watched.miss:.2g}"
    else:
        missed = 100 * max(watched.loss, watched.worst)
        what = (
            f"the balance of energy was missed by {missed:.2g} % of the largest kinetic energy within steps that each miss more than the error of "
            f"{method} explains"
        )
    p = np.broadcast_to(problem.p, (*problem.batch, problem.p.shape[-1]))[index]
    weak = problem.dynamics.weak_constraint(watched.q, problem.q[index], p) if explained else None
    if weak is None and explained and (drivers := problem.dynamics.drivers()) is not None:
        names = ", ".join(repr(name) for name in drivers.outputs)
        return (
            f"{what}. Look at its drivers ({names}): one that changes within a step of {h:g} s, or at once, does work that the step does not see. "
            "Take a smaller step, or let it change smoothly; where only a potential jumps, the motion is right, and balance=False goes on."
        )
    if weak is None:
        cause = f"only the first {MOST_CAUSES} causes are analysed."
        if explained:
            chosen = problem.integrator.chooses_step
            cause = "take a tighter rtol." if chosen else likely_cause(problem, recording, index)
        return f"{what}. No loop or constraint is nearly singular there: {cause}"
    smaller = (
        "a tighter rtol" if problem.integrator.chooses_step else f"a smaller step (now {h:g} s) or integrator='rkmk45'"
    )
    return (
        f"{what}. At q = {_place(watched.q)} {weak}: branches of motion come close to each other. Take {smaller}, or lengths and a start with which "
        "it passes exactly or at a distance."
    )


def imbalance(
    problem: RunProblem, recording: Recording, index: tuple[int, ...], ledger: Ledger, explained: bool
) -> str:
    """What the balance of energy misses, the likely cause, and what to do."""
    dynamics, method, h = problem.dynamics, problem.integrator.name, problem.step
    what = (
        f"the balance of energy is wrong by {100 * ledger.error / max(ledger.exchanged, 1e-300):.2g} % of the energy exchanged "
        f"({ledger.error:.3g} J of {ledger.exchanged:.3g} J)"
        if ledger.error < NEVER
        else "the energy is larger than any number"
    )
    if not explained:
        return f"{what}: only the first {MOST_CAUSES} causes are analysed."
    smaller = "a tighter rtol" if problem.integrator.chooses_step else f"a step smaller than {h:g} s"
    p = np.broadcast_to(problem.p, (*problem.batch, problem.p.shape[-1]))[index]
    k = min(int(np.searchsorted(recording.t, ledger.since)), len(recording.t) - 1)
    near = range(max(k - CLOSE_BY - SELDOM // problem.record_every, 0), min(k + CLOSE_BY + 1, len(recording.t)))
    here = (slice(None), *index)
    q, v = recording.records.q[here], recording.records.v[here]
    u = np.zeros((len(q), dynamics.nu)) if recording.records.u is None else recording.records.u[here]

    def rate(j: int) -> float:
        """Of the fastest mode at a record, and where its velocity leads within a step: a stop may be touched only there."""
        w, p_j = np.zeros(dynamics.coordinates.nv), dynamics.at_times(p, recording.t[j])
        motion = dynamics.kernel("motion")
        if motion is not None:
            w = np.nan_to_num(motion(q[j], v[j], u[j], p_j)[0])
        places = [dynamics.coordinates.retract(q[j], c * h * w) for c in (0.0, 0.5, 1.0)]
        return max(fastest_mode(dynamics, place, v[j], u[j], p_j) for place in places)

    rates = {j: rate(j) for j in near}
    at = max(rates, key=lambda j: rates[j])
    fastest, mode = rates[at], ""
    if problem.integrator.damps_fast_modes and fastest * h > COARSE:
        mode = (
            f"the step {h:g} s does not resolve the fastest mode, |lambda| = {fastest:.4g} 1/s near t = {recording.t[at]:.4g} s: its energy counts, "
            f"and {method} damps fast oscillations and meets a stop or contact that sets in within a step too late. Take {smaller}, or softer ones."
        )
    elif not problem.integrator.chooses_step and fastest * h > COARSE:
        mode = (
            f"the step {h:g} s is too large: near t = {recording.t[at]:.4g} s the fastest mode has |lambda| = {fastest:.4g} 1/s, and {method} needs "
            f"|lambda| h below about {COARSE:g}. Take a step below {COARSE / fastest:.2g} s, softer stops and contacts, or friction with a larger "
            "smoothing."
        )
    if (weak := dynamics.weak_constraint(q[k], problem.q[index], p)) is not None:
        return f"{what}. At q = {_place(q[k])} {weak}: branches of motion come close to each other. Take {smaller}, or another start or lengths."
    if (drivers := dynamics.drivers()) is not None:
        names = ", ".join(repr(name) for name in drivers.outputs)
        return (
            f"{what}. Look at its drivers ({names}): one that changes within a step does work that the step does not see. Take {smaller}, or let it "
            f"change smoothly; where only a potential jumps, the motion is right, and balance=False goes on. {mode}".rstrip()
        )
    if mode:
        return f"{what}: {mode}"
    other = "" if problem.integrator.chooses_step else " or integrator='rkmk45'"
    return f"{what}: {smaller}{other} resolves what changes there; balance=False switches this check off."


def likely_cause(
    problem: RunProblem, recording: Recording, index: tuple[int, ...], residual: float | None = None
) -> str:
    """Why a trajectory blew up: the step compared with the fastest mode at the start, else how the speed grew.

    ``residual`` is that of the implicit step that was not solved, if this is what happened.
    """
    h, limit = problem.step, problem.integrator.stable_up_to
    u = np.zeros(problem.dynamics.nu) if recording.records.u is None else recording.records.u[(0, *index)]
    p = np.broadcast_to(problem.p, (*problem.batch, problem.p.shape[-1]))[index]
    fastest = fastest_mode(problem.dynamics, problem.q[index], problem.v[index], u, p)
    law = problem.plan.control.law
    if limit is not None and fastest * h > 0.9 * limit:
        return (
            f"the step {h:g} s is too large. The fastest mode at the start has |lambda| = {fastest:.4g} 1/s and "
            f"{problem.integrator.name} needs |lambda| h < {limit:g}: take a step below {limit / fastest:.2g} s."
        )
    if limit is None and residual is not None and fastest * h < RESOLVED_WELL:
        return (
            f"the iteration of {problem.integrator.name} stalls, with a last relative change of {residual:.2g}, though the step {h:g} s resolves the "
            f"fastest mode at the start (|lambda| = {fastest:.4g} 1/s): rounding of the energies is as large as what moves, or forces jump. Take a "
            "larger step, a start that is not at rest, or integrator='rkmk4'."
        )
    if limit is None and (residual is not None or fastest * h > 1.0):
        changed = "" if residual is None else f", whose last relative change was {residual:.2g}"
        return (
            f"the step {h:g} s is too large for the iteration of {problem.integrator.name}{changed}. The fastest mode at the start has "
            f"|lambda| = {fastest:.4g} 1/s: take a step below {0.3 / max(fastest, 1e-300):.2g} s, or more iterations "
            f"({type(problem.integrator).__name__}(iterations=...))."
        )
    known = _no_number(problem, recording, index)
    if known:
        return known
    speed = np.max(np.abs(recording.records.v[(slice(None), *index)]), axis=-1, initial=0.0)
    good = np.flatnonzero(np.isfinite(speed))
    grown = (
        f"the largest velocity grew from {speed[0]:.3g} to {np.max(speed[good]):.3g}" if len(good) else "at the start"
    )
    blame = "the control law or its sample time" if law is not None else "a force without bound, a singular mass matrix"
    return f"{grown}; suspect {blame}, or a step ({h:g} s) that is too large later on."


def _no_number(problem: RunProblem, recording: Recording, index: tuple[int, ...]) -> str:
    """Where the equations or the law themselves give no number at the last good record; empty if they do."""
    records, dynamics = recording.records, problem.dynamics
    here = (slice(None), *index)
    good = (np.abs(records.q[here]) < BLOWN_UP).all(axis=-1) & (np.abs(records.v[here]) < BLOWN_UP).all(axis=-1)
    good &= recording.t < recording.failed[index]
    if not good.any() or np.any(~good[recording.t < recording.failed[index]]):
        return ""
    k = int(np.flatnonzero(good)[-1])
    q, v = records.q[(k, *index)], records.v[(k, *index)]
    u = np.zeros(dynamics.nu) if records.u is None else records.u[(k, *index)]
    p = np.broadcast_to(problem.p, (*problem.batch, problem.p.shape[-1]))[index]
    p = dynamics.at_times(p, recording.t[k])
    wrong = [name for name, value in zip(dynamics.u_names, u, strict=True) if not isfinite(value)]
    if wrong:
        return f"the law gives no finite number for {', '.join(map(repr, wrong))} at t = {recording.t[k]:.6g} s."
    motion = dynamics.kernel("motion")
    if motion is None or all(np.isfinite(rate).all() for rate in motion(q, v, u, p)[:2]):
        return ""
    return f"at t = {recording.t[k]:.6g} s {dynamics.why_not_finite(q, v, p)}"


def fastest_mode(dynamics: Dynamics, q: np.ndarray, v: np.ndarray, u: np.ndarray, p: np.ndarray) -> float:
    """Largest |eigenvalue| in 1/s of the linearised motion, by differences."""
    motion = dynamics.kernel("motion")
    if motion is None or not (np.all(np.isfinite(q)) and np.all(np.isfinite(v))):
        return 0.0
    n, m, eps = dynamics.nv, dynamics.coordinates.nv, 1e-6
    shift = np.concatenate([eps * np.eye(m + n), -eps * np.eye(m + n)])
    moved = dynamics.coordinates.retract(np.broadcast_to(q, (2 * (m + n), len(q))), shift[:, :m])
    rates = np.concatenate(motion(moved, v + shift[:, m:], u, p)[:2], axis=-1)
    matrix = (rates[: m + n] - rates[m + n :]).T / (2 * eps)
    return float(np.max(np.abs(np.linalg.eigvals(matrix)), initial=0.0)) if np.all(np.isfinite(matrix)) else 0.0


def _cut(problem: RunProblem, recording: Recording) -> tuple[np.ndarray, Records]:
    """Remove what lies behind the end of each trajectory."""
    t, records = recording.t, recording.records
    if not recording.has_early_ends:
        return t, records
    end = np.where(np.isfinite(recording.failed), recording.failed, np.inf)
    stop = np.where(np.isfinite(recording.stopped), recording.stopped, np.inf)
    if not problem.batch:
        n = int(np.count_nonzero((t < end) & (t <= stop)))
        if recording.events is not None and not end <= stop and (not n or stop > t[n - 1]):
            return np.append(t[:n], stop), records.with_last(recording.events.endings[()], n)
        return t[:n], records.each(lambda array: array[:n])
    late = (t.reshape(-1, *(1,) * len(problem.batch)) >= end) | (t.reshape(-1, *(1,) * len(problem.batch)) > stop)
    n = int(np.count_nonzero(~np.all(late, axis=tuple(range(1, late.ndim)))))

    def ended(array: np.ndarray) -> np.ndarray:  # in place, as another copy may not fit into the memory
        array[late] = np.nan
        return array[:n]

    return t[:n], records.each(ended)
