"""Time stepping for rigid contacts, hard stops, ropes and sticking friction, second order on the manifold.

A step consists of spans, mostly of one, that end where something strikes. In a span the system moves freely for half its time, gets the impulses
of its contacts, and moves freely for the other half:

    q_m, v- = F(q0, v0),     v+ = v- + M^-1 J^T lam,     q1, v1 = F(q_m, v+)

with the flow F of ``rkmk4`` over half of the span and the rows J, the mass matrix M and the gaps at q_m; lam and u+ = J v+ + bias obey the laws of
Signorini and Coulomb (``contact_solver``). As the impulses act at one configuration, the energy they take is exactly lam . (u- + u+) / 2, in all
components of v. Four rules make it second order (docs/theory/nonsmooth.md):

1. Contacts are not switched on by the sign of the gap: all that do not approach fast must end the span in front of the surface.
2. An impact is an approach that smooth forces do not explain; what bounces less rests, with a velocity of exactly zero.
3. Impacts end spans: they are solved at their own time and configuration, and release no energy. So does sliding that stops.
4. Velocities in the rows of closed contacts are corrected at the end of each span.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from heavytop._arrays import Array, as_array, vector
from heavytop.compile import Shape
from heavytop.errors import SimulationError
from heavytop.simulate.integrators.base import Integrator
from heavytop.simulate.integrators.contact_solver import EPS, HIT, SLIPS, ContactSolver
from heavytop.simulate.integrators.rkmk import stage_rates
from heavytop.simulate.integrators.tableaus import RK4
from heavytop.simulate.plant import Plant, PlantState, Rates
from heavytop.system import DRY, HELD, POINT

ROUNDS = 96
"""Most spans that a step tries; in the last one nothing bounces."""
TOUCHING = 1e-6
"""Time, relative to the step, to which an impact is found."""
DEPTH = 1e-12
"""Gap in m that counts as closed."""
SHORTEST = 1e-9
"""Share of a step below which a span is over at its start."""
DEEP = 1e-7
"""Depth in m at the end of a span from which it is tried again in halves; four times as much for contacts closed before."""
HALVES = 1 / 64
"""Least share of a step that is tried so."""
RELEASED, FALLEN = 1e-2, 1e-1
"""Energy from which contacts release too much in a span: share of the kinetic energy, and of that of a fall in the span, which they stop. Less is
an error of third order, which alternates."""
ROUNDING = 1e-15
"""Sum of velocities, relative to their sizes, that is rounding: zero."""
TURNS = 6
"""Spans of a step that may end where sliding stops."""
LONG = 0.1
"""Share of a step from which the end of a span shows how well gaps are predicted."""
SETTLED = 4
"""Rounds in which the velocities in the rows may come to rest with the response half way."""
SETTLED_BY = 1e-2
"""Share of the tolerance to which they come to rest so."""
FAR, FAR_SPEEDS = 1e3, 4.0
"""Acceleration in m/s^2 and multiple of the speed with which no contact is expected to close; those that do are noticed at the end of a span."""
CALM = 1e-3
"""Largest velocity from which it is worth trying whether a step rests."""
STILL = 1e-4
"""Velocities, relative to those of a fall in the step, below which a step rests."""
TINY = 1e-300
NEWTON = 6
"""Rounds for the time of an impact."""


class Moreau(Integrator):
    """Rigid contact (:meth:`heavytop.System.contact`) with impacts and Coulomb friction; order 2, first order in the time of accumulation points.

    Parameters
    ----------
    tolerance : largest residual of a solved step in m/s: velocities in the rows of contacts by which Signorini's and Coulomb's laws are missed.
        A step with a larger one ends the trajectory as ``unsolved``.
    iterations : most rounds of Newton's method in a step.

    The record ``residual`` has the largest residual so far.

    Examples
    --------
    >>> import heavytop as ht
    >>> system = ht.System(name="ball")
    >>> system.body("ball", joint=ht.Free(), inertia=ht.Inertia.of(ht.Sphere(0.1), density=100.0))
    >>> system.ground(friction=0.2)
    >>> system.contact("ball", "ground", ht.Sphere(0.1))
    >>> model = system.derive()
    >>> q, v = model.neutral(), np.zeros(6)
    >>> q[2], v[0] = 0.1, 1.0
    >>> run = ht.simulate(model, (q, v), until=0.5, step=1e-2, integrator="moreau")
    >>> abs(np.linalg.norm(run.v[-1, :3]) - 5 / 7) < 1e-7  # it slips until it rolls
    np.True_
    """

    name = "moreau"
    order = 2
    records = ("residual", "unsolved", "ill_posed", "impulse", "contact_work")
    enforces_constraints = True
    integrates_work = True
    unilateral = True

    def __init__(self, tolerance: float = 1e-9, iterations: int = 1000) -> None:
        if not isinstance(tolerance, float) or not 0 < tolerance < 1:
            raise SimulationError(f"tolerance of Moreau must be a speed between 0 and 1 m/s, got {tolerance!r}.")
        if not isinstance(iterations, int) or iterations < 2:
            raise SimulationError(f"Moreau needs at least 2 iterations, a whole number, got {iterations!r}.")
        self.tolerance, self.iterations = tolerance, iterations

    def __repr__(self) -> str:
        return f"Moreau(tolerance={self.tolerance!r}, iterations={self.iterations})"

    def carries(self, plant: Plant) -> Mapping[str, Shape]:
        solver = contact_solver(plant)
        rows, units = solver.m, solver.count
        numbers = dict.fromkeys(("residual", "steps", "unsolved", "ill_posed", "known"), ())
        own: dict[str, Shape] = {
            "contact_work": (3,),
            "impulse": (rows,),
            "steady": (rows,),
            **dict.fromkeys(("lag", "gap", "rate"), (solver.sizes["gap"],)),
            "held": (units,),
            "slid": (units,),
        }
        return own | numbers

    def step(self, plant: Plant, state: PlantState, h: Array) -> PlantState:
        return _Step(self, plant, state, h).end()


def contact_solver(plant: Plant) -> ContactSolver:
    """The contact problem of a plant, made once."""
    rows = plant.dynamics.contact_rows()
    if rows is None:
        raise SimulationError(
            f"{plant.name!r} has no rigid contacts, hard stops, ropes or sticking friction. Use integrator='rkmk4'."
        )
    return plant.dynamics.functions.get(ContactSolver, lambda: ContactSolver(rows))


class _Step:
    """One step being written down."""

    def __init__(self, method: Moreau, plant: Plant, state: PlantState, h: Array) -> None:
        self.method, self.plant, self.state, self.h, self.solver = method, plant, state, h, contact_solver(plant)
        plant.need_group()

    def end(self) -> PlantState:
        """The state at the end of the step."""
        plant, state, own = self.plant, self.state, self.state.own
        zero, one = as_array(0.0), as_array(1.0)
        begin = (zero, state, own["held"], own["slid"], own["steady"], np.zeros(self.solver.m), np.zeros(3), zero)
        if self.solver.rests and plant.memory not in plant.flats:
            (calm,) = plant.kept(np.where(np.max(np.abs(state.v)) <= CALM, 1.0, 0.0))
            begin = self.when(calm, self.rest, *begin)
        done, state, held, slid, steady, *sums = begin
        known = np.where(done > 0.0, 0.0, own["known"])
        start = (
            done,
            zero,
            one,
            zero,
            zero,
            state,
            known,
            own["gap"],
            own["rate"],
            held,
            slid,
            steady,
            own["lag"],
            *sums,
            zero,
        )
        done, *_, end, known, gap, rate, held, slid, steady, lag, lam, work, residual, gain = plant.repeat(
            ROUNDS, self.span, *start, ends=True
        )
        for i in range(self.solver.sizes["gap"]):
            residual = np.where(np.abs(gap[i]) < np.inf, residual, np.inf)  # a body has left the domain of its surface
        steps = own["steps"] + 1
        solved = np.logical_and(residual <= self.method.tolerance, done > 0.0)
        unsolved, paradox = np.where(solved, 0.0, steps), np.where(gain < 1.0, 0.0, steps)
        return self.booked(end, work).keeping(
            impulse=lam,
            known=known,
            gap=gap,
            rate=rate,
            held=held,
            slid=slid,
            steady=steady,
            lag=lag,
            contact_work=own["contact_work"] + work,
            residual=np.maximum(own["residual"], residual),
            steps=steps,
            unsolved=np.where(own["unsolved"] > 0.0, own["unsolved"], unsolved),
            ill_posed=np.where(own["ill_posed"] > 0.0, own["ill_posed"], paradox),
        )

    def rest(
        self,
        done: Array,
        begin: PlantState,
        held: Array,
        slid: Array,
        steady: Array,
        lam: Array,
        work: Array,
        residual: Array,
    ) -> Sequence[PlantState | Array]:
        """A step in which all contacts that press stick, and all velocities are small relative to those of a fall: ``done`` if it is one.

        It moves along the velocities at its end, v + h a + M^-1 J^T lam with J v = 0 in what sticks, so that nothing falls for half of the step to
        be pushed back. Equilibria stay what they are, and contacts take no energy there; of what still moves, the error is of second order, by less
        than ``STILL`` of a fall.
        """
        plant, solver, h = self.plant, self.solver, self.h
        geometry, first = self.geometry(begin.q, as_array(0.0)), plant.at(begin, 0.0).rates
        (v,) = plant.kept(begin.v + h * first.v)
        (before,) = plant.call(solver.moved, geometry["J"], v)
        bias, cone, kinds = [geometry["drift"][i] for i in range(solver.m)], [], [unit.kind for unit in solver.units]
        for k, unit in enumerate(solver.units):
            mu = geometry["mu"][k]
            cone.append(mu * h if unit.kind == DRY else mu)
            if unit.gap is not None:
                gap = geometry["gap"][unit.gap]
                bias[unit.first] = bias[unit.first] + np.where(held[k] > 0.0, gap, np.maximum(gap, 0.0)) / h
        posed = plant.kept(vector(*bias), vector(*cone), np.ones(solver.count))
        change, after, found, missed, *_ = self.solve(geometry, v, before, posed, steady * h, np.zeros(solver.m))
        small = ROUNDING * (np.abs(begin.v) + h * np.abs(first.v) + np.abs(change))
        v_1 = np.where(np.abs(v + change) > small, v + change, 0.0)
        fall = STILL * h * np.max(np.abs(first.v))
        still = np.logical_and(np.max(np.abs(begin.v)) <= fall, np.max(np.abs(v_1)) <= fall)
        still = np.logical_and(still, missed <= self.method.tolerance)
        presses = []
        for k, unit in enumerate(solver.units):
            own = [found[i] for i in unit.rows]
            presses.append(np.where(own[0] > 0.0, 1.0, 0.0) if kinds[k] == POINT else as_array(0.0))
            lands = np.logical_and(held[k] <= 0.0, geometry["gap"][unit.gap] > DEPTH) if kinds[k] == POINT else False
            friction = sum((found[i] * found[i] for i in solver.sideways(unit)), as_array(0.0))
            most = SLIPS * posed[1][k] * (1.0 if kinds[k] == DRY else own[0])
            slips = friction >= most * most if solver.sideways(unit) and kinds[k] != HELD else False
            moves = np.logical_or(lands, slips)
            moves = moves if kinds[k] == DRY else np.logical_and(presses[k] > 0.0, moves)
            still = np.logical_and(still, np.logical_not(moves))
        (v_1,) = plant.kept(v_1)
        end = plant.retract(begin, plant.displacement(h, (1.0,), [plant.at(begin.replaced(v=v_1), 0.0).rates]))
        normal, friction = self.work(after, after, found)
        (rests,) = plant.kept(np.where(still, 1.0, 0.0))
        new = (
            vector(*presses),
            np.zeros(solver.count),
            found / h,
            found,
            vector(normal, friction, as_array(0.0)),
            missed,
        )
        old = (held, slid, steady, lam, work, residual)
        chosen = [np.where(rests > 0.0, a, b) for a, b in zip(new, old, strict=True)]
        end = plant.chosen(rests > 0.0, end.replaced(v=v_1), begin)
        return [rests, end, *chosen]

    def span(
        self,
        done: Array,
        elapsed: Array,
        share: Array,
        rounds: Array,
        alert: Array,
        begin: PlantState,
        known: Array,
        gap: Array,
        rate: Array,
        held: Array,
        slid: Array,
        steady: Array,
        lag: Array,
        lam: Array,
        work: Array,
        residual: Array,
        gain: Array,
    ) -> Sequence[PlantState | Array]:
        """Try a ``share`` of the step from ``begin`` on; take it if nothing strikes before its end, else shorten it.

        Arguments and results: whether the step is done, the part of it that is, the share to try, rounds so far, whether contacts act though they
        seem far away, the state, whether its gaps and their rates are known, these, units that were closed and that slid, last forces, errors of
        predicted gaps relative to tau^3, and sums over the spans: impulses, work, residual, gain.
        """
        plant, solver, h = self.plant, self.solver, self.h
        last = rounds >= ROUNDS - 1
        (share,) = plant.kept(np.where(last, 1.0 - elapsed, share))
        first, p = plant.at(begin, elapsed).rates, plant.p_at(elapsed)
        gaps = solver.sizes["gap"]
        (stale,) = plant.kept(np.where(np.logical_or(done > 0.0, np.logical_and(known > 0.0, alert <= 0.0)), 0.0, 1.0))
        if gaps:
            gap, rate = plant.changed(solver.renewed, (gap, rate), begin.q, begin.v, p, gap, rate, stale)
        tau, by, some = share * h, [], alert
        for k, unit in enumerate(solver.units):
            if unit.kind == POINT:  # beyond this distance it is free; if it is not, the span is tried again
                reach = h * (FAR_SPEEDS * np.abs(rate[unit.gap]) + h * FAR)
                by.append(np.logical_and(held[k] <= 0.0, np.logical_or(alert > 0.0, gap[unit.gap] <= reach)))
                some = np.where(by[-1], 1.0, some)
            else:
                by.append(False)
        bend, some = plant.kept(np.zeros(gaps), some)
        if gaps:
            (bend,) = plant.changed(solver.approach, (bend,), begin.q, begin.v, p, first.w, first.v, bend, some)
        fast, near = [], np.maximum(alert, 1.0 if solver.always else 0.0)
        for k, unit in enumerate(solver.units):
            if unit.kind != POINT:
                fast.append(as_array(0.0))
                continue
            g, u, bends = gap[unit.gap], rate[unit.gap], bend[unit.gap]
            # a gap that curves away explains no approach
            strikes = np.logical_and(by[k], np.logical_and(u < HIT * h * np.minimum(bends, 0.0), np.logical_not(last)))
            fast.append(np.where(strikes, 1.0, 0.0))
            acts = np.logical_and(np.logical_not(strikes), g + tau * (u - tau * np.abs(bends)) <= 0.0)
            near = np.where(np.logical_or(np.logical_and(by[k], acts), held[k] > 0.0), 1.0, near)
        near = np.where(tau > 0.0, near, 0.0)
        fast, near, tau, elapsed_1 = plant.kept(vector(*fast), near, tau, elapsed + share)
        half = np.where(near > 0.0, 0.5, 1.0) * share
        middle = self.flow(begin, first, half, elapsed)

        def pushed(end: PlantState, *_: Array) -> Sequence[PlantState | Array]:
            return self.kick(begin, end, tau, elapsed, share, gap, fast, held, slid, steady, lag, tau * first.v)

        none, zero = np.zeros(solver.m), as_array(0.0)
        start = (middle, none, np.zeros(3), zero, zero, as_array(1.0), zero, zero)
        end, impulse, worked, missed, gained, turn, settled, most = self.when(near, pushed, *start)
        gap_1, rate_1 = plant.call(solver.gaps, end.q, end.v, plant.p_at(elapsed_1))
        hits, late, some, surprised, deep = [], {}, as_array(0.0), as_array(0.0), as_array(0.0)
        long, lags = share > LONG, [lag[i] for i in range(solver.sizes["gap"])]
        for k, unit in enumerate(solver.units):
            if unit.gap is not None:
                pressed = (
                    held[k] * np.where(impulse[unit.first] > 0.0, 1.0, 0.0) if unit.kind == POINT else as_array(1.0)
                )
                missed_by = (gap_1[unit.gap] - (1.0 - share) * gap[unit.gap]) / np.where(long, tau, h) ** 3
                lags[unit.gap] = np.where(pressed > 0.0, lags[unit.gap] + np.where(long, missed_by, 0.0), 0.0)
            if unit.kind != POINT:
                hits.append(as_array(0.0))
                continue
            g, u, g_1, u_1 = gap[unit.gap], rate[unit.gap], gap_1[unit.gap], rate_1[unit.gap]
            close = TOUCHING * h * np.abs(u) + DEPTH
            late[k] = np.where(np.logical_and(fast[k] > 0.0, g_1 < -close), 1.0, 0.0)
            some = np.maximum(some, late[k])
            hits.append(np.where(np.logical_and(fast[k] > 0.0, np.logical_and(g_1 <= close, u_1 < 0.0)), 1.0, 0.0))
            missed_it = np.logical_and(np.logical_and(near <= 0.0, fast[k] <= 0.0), g_1 < -close)
            surprised = np.where(np.logical_and(missed_it, tau > 0.0), 1.0, surprised)
            sinks = np.logical_and(g_1 < -DEEP * np.where(held[k] > 0.0, 4.0, 1.0), g_1 < 0.5 * g)
            deep = np.where(np.logical_and(fast[k] <= 0.0, sinks), 1.0, deep)
        deep = np.where(gained >= 1.0, 1.0, deep)  # where friction jams only half way, the span is too long
        struck = as_array(0.0)
        for hit in hits:
            struck = np.maximum(struck, hit)

        def strike(_: Array) -> Sequence[Array]:
            times = as_array(1.0)
            for k, is_late in late.items():
                i = solver.units[k].gap
                time = root(gap[i], tau * rate[i], gap_1[i], tau * rate_1[i])
                times = np.where(is_late > 0.0, np.minimum(times, time), times)
            return [times]

        struck, deep, surprised, some, hits = plant.kept(struck, deep, surprised, some, vector(*hits))
        (first_hit,) = self.when(some, strike, as_array(1.0))
        first_hit = np.minimum(first_hit, np.where(rounds < TURNS, turn, 1.0))
        halves = np.logical_and(np.logical_and(deep > 0.0, near > 0.0), share > HALVES)
        part = share * np.where(halves, np.minimum(first_hit, 0.5), first_hit)
        early = np.logical_or(first_hit < 1.0, halves)
        again = np.logical_and(np.logical_or(early, surprised > 0.0), np.logical_not(last))
        taken = np.where(np.logical_or(again, done > 0.0), 0.0, 1.0)
        shorter = np.where(early, np.where(part > SHORTEST, part, 0.0), share)
        taken, shorter = plant.kept(taken, shorter)
        (needed,) = plant.kept(taken * np.maximum(near * (1.0 - settled), struck))

        def closed(v: Array, *_: Array) -> Sequence[Array]:
            return self.close(end, v, elapsed_1, gap_1, impulse, hits, struck, held, slid, tau * np.abs(first.v))

        rests = vector(*(settled if u.kind == POINT else zero for u in solver.units)) * pressing(solver, impulse)
        free = (end.v * 1.0, impulse * 1.0, np.zeros(3), zero, rests, np.zeros(solver.count), settled * impulse)
        v_1, total, more, late_residual, held_1, slid_1, lasting = self.when(needed, closed, *free)
        released = np.logical_and(np.sum(worked + more) > most, near > 0.0)
        released = np.logical_and(released, np.logical_and(share > HALVES, np.logical_not(last)))
        ok = np.logical_and(taken > 0.0, np.logical_not(released))
        done_1 = np.where(np.logical_and(ok, elapsed_1 >= 1.0 - SHORTEST), 1.0, done)
        shorter = np.where(np.logical_and(released, taken > 0.0), 0.5 * share, shorter)
        end = plant.chosen(ok, end.replaced(v=v_1), begin)
        worse = np.maximum(residual, np.maximum(missed, late_residual))
        return (
            done_1,
            np.where(ok, elapsed_1, elapsed),
            np.where(ok, 1.0 - elapsed_1, np.where(done > 0.0, share, shorter)),
            rounds + 1.0,
            np.where(ok, 0.0, np.maximum(alert, surprised)),
            end,
            np.where(done > 0.0, known, np.where(needed > 0.0, 0.0, 1.0)),
            np.where(ok, gap_1, gap),
            np.where(ok, rate_1, rate),
            np.where(ok, held_1, held),
            np.where(ok, slid_1, slid),
            np.where(np.logical_and(ok, tau > 0.0), lasting / np.where(tau > 0.0, tau, 1.0), steady),
            np.where(ok, vector(*lags), lag) if lags else lag,
            np.where(ok, lam + total, lam),
            np.where(ok, work + more + worked, work),
            np.where(ok, worse, residual),
            np.where(ok, np.maximum(gain, gained), gain),
        )

    def flow(self, state: PlantState, first: Rates | None, share: Array, elapsed: Array) -> PlantState:
        """The motion without contacts over a share of the step; ``first``: its rates, if they are known."""
        plant, h = self.plant, share * self.h
        k = stage_rates(plant, state, h, RK4, part=(elapsed, share), first=first or plant.at(state, elapsed).rates)
        return plant.retract(state, plant.displacement(h, RK4.b, k))

    def when(
        self, needed: Array, body: Callable[..., Sequence[PlantState | Array]], *start: PlantState | Array
    ) -> list[Any]:
        """States and arrays replaced by what ``body`` makes of them where ``needed``; skipped if no trajectory needs it."""
        plant = self.plant

        def once(done: Array, *old: Any) -> Sequence[PlantState | Array]:
            new: list[Any] = list(body(*old))
            same = done > 0.0
            return [
                as_array(1.0),
                *(
                    plant.chosen(same, a, b) if isinstance(a, PlantState) else np.where(same, a, b)
                    for a, b in zip(old, new, strict=True)
                ),
            ]

        _, *found = plant.repeat(1, once, np.where(needed > 0.0, 0.0, 1.0), *start, ends=True)
        return found

    def geometry(self, q: Array, c: Array) -> dict[str, Array]:
        """Entries of the contact problem at q and ``c`` of the step, by name."""
        return dict(zip(self.solver.sizes, self.plant.call(self.solver.geometry, q, self.plant.p_at(c)), strict=True))

    def kick(
        self,
        begin: PlantState,
        middle: PlantState,
        tau: Array,
        elapsed: Array,
        share: Array,
        gap: Array,
        fast: Array,
        held: Array,
        slid: Array,
        steady: Array,
        lag: Array,
        fall: Array,
    ) -> Sequence[PlantState | Array]:
        """The end of a span with the impulses of contacts half way; these, their work, residual, gain, turn, whether the end is :meth:`settled`,
        the most work allowed.

        ``fall`` is the change of v in the span without contacts.
        """
        plant, solver = self.plant, self.solver
        half = elapsed + 0.5 * share
        (u,) = plant.call(solver.velocities, begin.q, begin.v, plant.p_at(elapsed))
        geometry = self.geometry(middle.q, half)
        rows = [geometry[name] for name in ("gap", "J", "drift", "W", "mu")]
        given = (middle.v, gap, u, fast, held, slid, steady, lag, tau, share)
        bias, cone, on, before = plant.call(solver.prepare, *rows, *given)
        none = np.zeros(solver.m)
        problem = (bias, cone, on)
        change, after, lam, residual, *response = self.solve(geometry, middle.v, before, problem, steady * tau, none)
        (v,) = plant.kept(middle.v + change)
        normal, friction = self.work(before, after, lam)
        parts = (geometry[name] for name in ("W", "drift", "mu"))
        closed = [
            np.where(held[k] > 0.0, 1.0, 0.0 if unit.gap is None else np.where(gap[unit.gap] <= DEPTH, 1.0, 0.0))
            for k, unit in enumerate(solver.units)
        ]
        (gain,) = plant.call(solver.gain, *parts, u, before, lam, vector(*closed), share)
        parts = (geometry[name] for name in ("J", "L", "D", "W", "drift"))
        (turn,) = plant.call(solver.turn, *parts, before, after, u, lam, cone)
        end = self.flow(middle.replaced(v=v), None, 0.5 * share, half)
        closing, settled = as_array(0.0), as_array(0.0)
        if solver.settles:
            v, lam, closing, settled = self.settled(geometry, response, end, lam, elapsed + share, np.abs(fall))
            end = end.replaced(v=v)
        kinetic = plant.call(solver.kinetic, geometry["M"], begin.v, fall)
        most = RELEASED * kinetic[0] + FALLEN * kinetic[1]
        return end, lam, vector(normal, friction, closing), residual, gain, turn, settled, most

    def settled(
        self,
        geometry: Mapping[str, Array],
        response: Sequence[Array],
        end: PlantState,
        lam: Array,
        c: Array,
        fall: Array,
    ) -> tuple[Array, Array, Array, Array]:
        """Velocities in the rows of closed contacts corrected at the end of a span, with the response to impulses half way.

        Newton's method with a Jacobian that is a little late: it serves contacts that stick before and after, :meth:`close` all others; ``fall`` as
        there. Returns v, all impulses of the span, the work, and whether the contacts are settled; if not, v and the impulses as they were.
        """
        plant, solver = self.plant, self.solver
        poor, acts, factors = response
        p, parts = plant.p_at(c), [geometry[name] for name in ("J", "L", "D")]
        (u,) = plant.call(solver.velocities, end.q, end.v, p)

        def sweep(done: Array, v: Array, total: Array, u: Array) -> Sequence[Array]:
            v_1, total_1 = plant.call(solver.settle, *parts, acts, factors, v, total, u, done)
            (u_1,) = plant.call(solver.velocities, end.q, v_1, p)
            missed = as_array(0.0)
            for i in range(solver.m):
                missed = np.maximum(missed, acts[i] * np.abs(u_1[i]))
            rests = np.where(missed <= SETTLED_BY * self.method.tolerance, 1.0, 0.0)
            over = done > 0.0
            return (
                np.maximum(done, rests),
                np.where(over, v, v_1),
                np.where(over, total, total_1),
                np.where(over, u, u_1),
            )

        done, v, total, _ = plant.repeat(SETTLED, sweep, poor, end.v * 1.0, lam * 1.0, u * 1.0, ends=True)
        fine = np.logical_and(done > 0.0, poor <= 0.0)
        for k, unit in enumerate(solver.units):
            if unit.kind == POINT:
                own, first = [total[i] for i in unit.rows], acts[unit.first] > 0.0
                size = sum((x * x for x in own[1:]), as_array(0.0))
                sticks = np.logical_and(own[0] > 0.0, size <= (SLIPS * geometry["mu"][k] * own[0]) ** 2)
                fine = np.logical_and(fine, np.logical_or(np.logical_not(first), sticks))
        size = ROUNDING * (np.abs(end.v) + np.abs(v - end.v) + fall)
        (v,) = plant.kept(np.where(fine, np.where(np.abs(v) > size, v, 0.0), end.v))
        (closing,) = plant.call(solver.kinetic_change, end.q, end.v, v, p)
        return v, np.where(fine, total, lam), closing, np.where(fine, 1.0, 0.0)

    def close(
        self,
        end: PlantState,
        v: Array,
        c: Array,
        gap: Array,
        lam: Array,
        hits: Array,
        struck: Array,
        held: Array,
        slid: Array,
        fall: Array,
    ) -> Sequence[Array]:
        """Impacts at the end of a span, and velocities in the rows of closed contacts corrected there.

        ``fall`` is the size of the change of v in the span without contacts.
        Returns v, all impulses of the span, work (normal, friction, closing), residual, units that are closed and that slide, lasting impulses.
        """
        plant, solver = self.plant, self.solver
        geometry = self.geometry(end.q, c)
        (before,) = plant.call(solver.moved, geometry["J"], v)
        (u,) = plant.kept(before + geometry["drift"])
        bias, on, slips, start, rebounds = [geometry["drift"][i] for i in range(solver.m)], [], [], [], []
        for k, unit in enumerate(solver.units):
            own = [lam[i] for i in unit.rows]
            mu, rebound, size = geometry["mu"][k], as_array(0.0), as_array(0.0)
            if unit.kind == HELD:
                closed, slides = as_array(1.0), as_array(0.0)
            elif unit.kind == DRY:
                closed, slides = as_array(0.0), as_array(0.0)
            else:
                touches = np.logical_and(struck > 0.0, np.logical_or(gap[unit.gap] <= DEPTH, held[k] > 0.0))
                on_now = np.logical_or(np.logical_or(own[0] > 0.0, hits[k] > 0.0), touches)
                closed = np.where(on_now, 1.0, 0.0)
                size = sum((x * x for x in own[1:]), as_array(0.0))
                slides = np.where(np.logical_and(own[0] > 0.0, size >= (SLIPS * mu * own[0]) ** 2), 1.0, 0.0)
                rebound = hits[k] * geometry["e"][k] * np.maximum(-u[unit.first], 0.0)
                bias[unit.first] = bias[unit.first] - rebound
            # impacts leave the impulses of the span as they are; without one, what slides fast keeps the direction of its friction
            smooth, sideways = np.where(struck > 0.0, 0.0, 1.0), list(unit.rows)[1:]
            slower = HIT * solver.compliance(geometry["W"], unit) * mu * own[0]
            speed = sum((u[i] * u[i] for i in sideways), as_array(0.0))
            ahead = np.where(smooth * slides > 0.0, speed / (slower * np.sqrt(size) + TINY), 0.0)
            for x, i in zip(own[1:], sideways, strict=True):
                bias[i] = bias[i] - ahead * x
            on.append(closed)
            slips.append(slides)
            rebounds.append(rebound)
            start += [closed * smooth * x for x in own]
        bias_, on_, start_, slips_ = plant.kept(*(vector(*x) for x in (bias, on, start, slips)))
        (rebounds_,) = plant.kept(vector(*rebounds))
        found = self.solve(geometry, v, before, (bias_, geometry["mu"], on_), start_, start_)[:4]
        change, after, total, residual = self.passive(geometry, v, before, u, on_, struck, *found)
        size = ROUNDING * (np.abs(v) + np.abs(change) + fall)
        v_1, added = plant.kept(np.where(np.abs(v + change) > size, v + change, 0.0), total - start_)
        normal, friction = self.work(before, after, added)
        held_1, slid_1, lasting = [], [], []
        for k, unit in enumerate(solver.units):
            i = unit.first
            if unit.kind != POINT:
                held_1.append(as_array(0.0))
                slid_1.append(as_array(0.0))
                lasting += [lam[j] + added[j] for j in unit.rows]
                continue
            stays = np.logical_and(total[i] > 0.0, rebounds_[k] <= 0.0)
            held_1.append(np.where(stays, 1.0, 0.0))
            sideways = sum((total[j] * total[j] for j in list(unit.rows)[1:]), as_array(0.0))
            slipped = np.logical_and(total[i] > 0.0, sideways >= (SLIPS * geometry["mu"][k] * total[i]) ** 2)
            slid_1.append(np.where(struck > 0.0, np.where(slipped, 1.0, 0.0), slips_[k]))
            lasting += [np.where(struck > 0.0, lam[j], lam[j] + added[j]) for j in unit.rows]
        hit = struck > 0.0
        work = vector(np.where(hit, normal, 0.0), np.where(hit, friction, 0.0), np.where(hit, 0.0, normal + friction))
        return v_1, lam + added, work, residual, vector(*held_1), vector(*slid_1), vector(*lasting)

    def work(self, before: Array, after: Array, lam: Array) -> list[Array]:
        """Normal and friction work ``lam . J (v + v_new) / 2`` in J of impulses, with the velocities J v in the rows ``before`` and ``after``."""
        normal, friction = as_array(0.0), as_array(0.0)
        for unit in self.solver.units:
            for i in unit.rows:
                work = 0.5 * lam[i] * (before[i] + after[i])
                if i == unit.first and unit.kind != DRY:
                    normal = normal + work
                else:
                    friction = friction + work
        return self.plant.kept(normal, friction)

    def passive(
        self,
        geometry: Mapping[str, Array],
        v: Array,
        before: Array,
        u: Array,
        on: Array,
        struck: Array,
        change: Array,
        after: Array,
        lam: Array,
        residual: Array,
    ) -> list[Array]:
        """The solution of an impact (as :meth:`solve` returns it) with the part of its rebound that releases no energy.

        With friction, Newton's law may return more energy than there was. Without restitution it never does, and all mixtures of both solutions
        obey Coulomb's law: the energy lam . (u- + u+) / 2 is a quadratic function of the share of the first one.
        """
        plant = self.plant
        gained = np.vecdot(lam, u + 0.5 * (after - before))
        (gains,) = plant.kept(np.where(np.logical_and(struck > 0.0, gained > 0.0), 1.0, 0.0))

        def damped(change: Array, after: Array, lam: Array, residual: Array) -> Sequence[Array]:
            bias, cone = geometry["drift"], geometry["mu"]
            dull, after_0, lam_0, missed, *_ = self.solve(
                geometry, v, before, (bias, cone, on), lam, np.zeros(self.solver.m)
            )
            du_0, du = after_0 - before, after - before
            # energy a x^2 + b x + c of the share x; it is positive at 1 and not at 0
            c, e = np.vecdot(lam_0, u + 0.5 * du_0), np.vecdot(lam, u + 0.5 * du)
            a = 0.5 * np.vecdot(lam - lam_0, du - du_0)
            b = e - c - a
            share = -2.0 * c / (b + np.sqrt(np.maximum(b * b - 4.0 * a * c, 0.0)) + TINY)
            share = np.minimum(np.maximum(share, 0.0), 1.0)
            mixed = [y + share * (x - y) for x, y in ((change, dull), (after, after_0), (lam, lam_0))]
            return plant.kept(*mixed, np.maximum(residual, missed))

        return self.when(gains, damped, change, after, lam, residual)

    def solve(
        self, geometry: Mapping[str, Array], v: Array, before: Array, posed: Sequence[Array], start: Array, base: Array
    ) -> list[Array]:
        """Change of the velocities v, velocities in the rows after it, impulses, the residual in m/s, and if it was tried, the rest of ``direct``.

        ``before`` are the velocities J v in the rows, ``posed`` has bias, cone and on of the units, ``start`` the impulses to begin with, ``base``
        those that v contains.
        """
        plant, solver = self.plant, self.solver
        given = [geometry[name] for name in ("J", "M", "L", "D", "W")]
        parts = [geometry[name] for name in ("J", "L", "D", "W")]
        tolerance, v, before, start, base = plant.kept(
            as_array(self.method.tolerance), *(x * 1.0 for x in (v, before, start, base))
        )
        if solver.dense:
            given_all = (*parts, *posed, before, start, base, tolerance)
            change, after, lam, missed, poor, acts, factors = plant.call(solver.direct, *given_all)
            response = [poor, acts, factors]
        else:
            change, after, missed = plant.call(solver.finish, *parts, *posed, before, start, base)
            lam, poor, response = start, np.where(missed > 0.0, 1.0, 0.0), []

        def found(*_: Array) -> Sequence[Array]:
            def body(done: Array, *iterated: Array) -> Sequence[Array]:
                (open_,) = plant.kept(np.where(done > 0.0, 0.0, 1.0))
                fixed = (*given, *posed, v_free, tolerance)
                state = plant.changed(solver.improve, (done, *iterated), *fixed, done, *iterated, open_)
                (poor,) = plant.kept(state[-1] * 1.0)
                return plant.changed(solver.search, state, *fixed, *state, poor)

            response = [geometry[name] for name in ("J", "L", "D")]
            (less,), (first,) = (plant.call(solver.respond, *response, x) for x in (base, start))
            (v_free,) = plant.kept(v - less)
            none = np.zeros(plant.nv)
            begin = (as_array(0.0), v_free + first, start * 1.0, as_array(EPS), as_array(1.0), none, as_array(0.0))
            lam = plant.repeat(self.method.iterations, body, *begin, ends=True)[2]
            change, after, residual = plant.call(solver.finish, *parts, *posed, before, lam, base)
            return change, after, lam, residual

        return self.when(poor, found, change, after, lam, missed) + response

    def booked(self, end: PlantState, work: Array) -> PlantState:
        """The end with the energy that contacts took."""
        plant = self.plant
        lost = -(work[0] + work[1] + work[2])
        for name, slot in (("work", plant.work), ("flow", plant.flow)):
            if slot is not None:
                done = [as_array(0.0)] * slot.shape[0]
                done[1] = lost
                end = end.replaced(**{name: end.of(slot) + vector(*done)})
        return end


def pressing(solver: ContactSolver, lam: Array) -> Array:
    """1 for units whose first impulse is positive, else 0 (units,)."""
    return vector(*(np.where(lam[unit.first] > 0.0, 1.0, 0.0) for unit in solver.units))


def root(begin: Array, slope: Array, end: Array, slope_end: Array) -> Array:
    """Where in [0, 1] the cubic with these values and slopes at 0 and 1 falls below zero, by Newton's method."""
    rise = end - begin
    square, cube = 3.0 * rise - 2.0 * slope - slope_end, slope + slope_end - 2.0 * rise
    falls = rise < 0.0
    x = np.minimum(np.maximum(np.where(falls, -begin / np.where(falls, rise, -1.0), 0.0), 0.0), 1.0)
    for _ in range(NEWTON):
        value = begin + x * (slope + x * (square + x * cube))
        steep = slope + x * (2.0 * square + 3.0 * x * cube)
        downwards = steep < 0.0
        x = np.minimum(np.maximum(x - np.where(downwards, value / np.where(downwards, steep, -1.0), 0.0), 0.0), 1.0)
    return x
