"""Time stepping for rigid contacts, hard stops, ropes and sticking friction, second order on the manifold.

Moreau's and Jean's step works with velocities and impulses, so that impacts, resting contacts and free flight are the same formula:

    q_m = q0 o exp(h/2 w0),     v_free = v0 + h a(q_m, v_half),     v1 = v_free + M^-1 J^T lam,     q1 = q_m o exp(h/2 w1)

with the rows J, the mass matrix M and the gaps half way; lam and u = J v1 + bias obey Signorini's and Coulomb's laws (``contact_solver``).
Four changes make it second order (docs/theory/nonsmooth.md):

1. Contacts are not switched on by the sign of the gap: all that do not approach fast must end the step in front of the surface.
2. An impact is an approach that free acceleration does not explain; what bounces less rests, with a velocity of exactly zero.
3. An impact within the step rebounds with the velocity it has there, and moves q1 to where it leads.
4. Contacts closed before are held symmetrically over the step, their last impulses predict v_half, and v1 is corrected at q1.

The energy they take, ``lam . (u- + u+) / 2`` and the potential energy of the move, is part of the dissipated energy of the balance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from heavytop._arrays import Array, as_array, vector
from heavytop.compile import Shape, Traced
from heavytop.errors import SimulationError
from heavytop.simulate.integrators.base import Integrator
from heavytop.simulate.integrators.contact_solver import EPS, ContactSolver, guarded
from heavytop.simulate.plant import Plant, PlantState
from heavytop.system import DRY, HELD, POINT

DEPTH = 1e-12
"""Depth in m of a new contact above which it is moved out of the surface."""
PUSHES = 2
"""Times that it is moved: the gap is not linear in the move."""


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
    >>> system.body("ball", joint=ht.Free(velocity="mixed"), inertia=ht.Inertia.of(ht.Sphere(0.1), density=100.0))
    >>> system.ground(friction=0.2)
    >>> system.contact("ball", "ground", ht.Sphere(0.1))
    >>> model = system.derive()
    >>> q, v = model.neutral(), np.zeros(6)
    >>> q[2], v[0] = 0.1, 1.0
    >>> run = ht.simulate(model, (q, v), until=0.5, step=1e-2, integrator="moreau")
    >>> abs(run.v[-1, 0] - 5 / 7) < 1e-12  # it slips until it rolls
    np.True_
    """

    name = "moreau"
    order = 2
    records = ("residual", "unsolved", "ill_posed", "impulse", "contact_work")
    enforces_constraints = True
    integrates_work = True
    unilateral = True

    def __init__(self, tolerance: float = 1e-9, iterations: int = 200) -> None:
        if not isinstance(tolerance, float) or not 0 < tolerance < 1:
            raise SimulationError(f"tolerance of Moreau must be a speed between 0 and 1 m/s, got {tolerance!r}.")
        if not isinstance(iterations, int) or iterations < 2:
            raise SimulationError(f"Moreau needs at least 2 iterations, a whole number, got {iterations!r}.")
        self.tolerance, self.iterations = tolerance, iterations

    def __repr__(self) -> str:
        return f"Moreau(tolerance={self.tolerance!r}, iterations={self.iterations})"

    def carries(self, plant: Plant) -> Mapping[str, Shape]:
        rows = contact_solver(plant).m
        numbers = dict.fromkeys(("residual", "steps", "unsolved", "ill_posed"), ())
        return {"impulse": (rows,), "steady": (rows,), "contact_work": (3,), **numbers}

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
        self.coordinates = plant.need_group()
        self.velocity = plant.dynamics.joint_velocity()

    def moved(self, q: Array, v: Array, time: Array, p: Array, ahead: bool = False) -> Array:
        """q o exp(time w(q, v)); ``ahead``: with the velocities w at the place it leads to, as its mirror image in time."""
        c = self.coordinates
        if self.velocity is None:
            return c.retract(q, time * v)
        (w,) = self.plant.call(self.velocity, q, v, p)
        if ahead:
            (there,) = self.plant.kept(c.retract(q, time * w))
            (w,) = self.plant.call(self.velocity, there, v, p)
        return c.retract(q, time * w)

    def end(self) -> PlantState:
        """The state at the end of the step."""
        plant, state, h, solver = self.plant, self.state, self.h, self.solver
        last = state.own["impulse"]
        p0, p_m, p_1 = plant.p_at(0.0), plant.p_at(0.5), plant.p_at(1.0)
        (q_m,) = plant.kept(self.moved(state.q, state.v, 0.5 * h, p0))
        u, z_rate = plant.input_at(state.replaced(q=q_m), 0.5)
        _, a = plant.motion_at(q_m, state.v, u, p_m)
        going, bend = self.near(q_m, state.v + h * a, p0, p_m, last)
        geometry = self.geometry(q_m, p_m, going)
        (push,) = plant.call(solver.respond, geometry["J"], geometry["L"], geometry["D"], state.own["steady"])
        middle = state.replaced(q=q_m, v=state.v + 0.5 * (h * a + push))
        if plant.memory is not None and z_rate is not None:
            middle = middle.replaced(memory=state.of(plant.memory) + 0.5 * h * z_rate)
        if plant.control.kind == "continuous":
            u, z_rate = plant.input_at(middle, 0.5)
        _, a = plant.motion_at(q_m, middle.v, u, p_m)
        (v_free,) = plant.kept(state.v + h * a)
        rows = [geometry[name] for name in ("gap", "J", "drift", "mu", "e")]

        def problem(v_free: Array, v_after: Array) -> tuple[Array, ...]:
            """Arguments of the contact problem."""
            return (*rows, state.v, v_free, v_after, last, bend, h)

        posed = plant.call(solver.prepare, *problem(v_free, v_free))
        change, lam, residual = self.solve(geometry, v_free, posed, state.own["steady"], going)
        # after an impact once more, with the forces and arrivals of the velocities it leads to, and with the support before it
        struck = as_array(0.0)
        for k in range(solver.count):
            struck = np.where(posed[5][k] > 0.0, 1.0, struck)
        share = np.minimum(np.maximum(0.5 - self.mean_delay(lam, *posed[4:]) / h, 0.0), 1.0)
        support = np.where(struck > 0.0, share, 0.0) * state.own["steady"]
        struck, share, support = plant.kept(struck, share, support)
        v_1, mean = plant.kept(v_free + change, 0.5 * (state.v + v_free + change))
        a = self.guarded(plant.motion, (q_m, mean, u, p_m), struck)[1]
        (v_again,) = plant.kept(np.where(struck > 0.0, state.v + h * a + share * push, v_free))
        posed = self.guarded(solver.prepare, problem(v_again, v_1), struck, posed)
        found = self.solve(geometry, v_again, posed, lam, struck)
        change, lam, residual = (
            np.where(struck > 0.0, new, old) for new, old in zip(found, (change, lam, residual), strict=True)
        )
        v_1, lam, residual = plant.kept(v_again + change, lam, residual)
        *_, delay, hit = posed
        normal, friction = plant.call(solver.account, geometry["J"], state.v, v_1, lam + support)
        parts = (geometry[name] for name in ("J", "W", "drift", "mu"))
        (gain,) = plant.call(solver.gain, *parts, state.v, v_free, lam, hit)
        (q_1,) = plant.kept(self.moved(q_m, v_1, 0.5 * h, p_m, ahead=True))
        q_1, lifted, along = self.delayed(geometry, q_1, lam, delay, hit, u, p_m, p_1)
        there = self.geometry(q_1, p_1, going)
        q_1, pushed, more, again = self.push_out(there, q_1, struck, going, u, p_1)
        v_1, lam, steady, closing, late = self.close(there, v_1, lam, hit, going)
        work = vector(normal, friction, lifted + pushed + closing)
        residual = np.maximum(residual, np.maximum(again, late))
        along = along + more
        return self.booked(
            state.replaced(q=q_1, v=v_1), middle, u, z_rate, work, along, lam + support, steady, residual, gain
        )

    def near(self, q_m: Array, v_free: Array, p0: Array, p: Array, last: Array) -> tuple[Array, Array]:
        """1 where contacts may act in this step, else 0; the change of the rates of the gaps in the step by curvature."""
        plant, solver, h = self.plant, self.solver, self.h
        _, begin = plant.call(solver.gaps, self.state.q, self.state.v, p0)
        gap, before = plant.call(solver.gaps, q_m, self.state.v, p)
        bend = 2.0 * (before - begin)
        if solver.always:
            going, bend = plant.kept(as_array(1.0), bend)
            return going, bend
        _, free = plant.call(solver.gaps, q_m, v_free, p)
        found = as_array(0.0)
        for unit in solver.units:
            k = unit.gap
            change = np.abs(free[k] - before[k]) + np.abs(bend[k])
            touches = np.logical_or(
                gap[k] + 0.5 * h * (np.minimum(before[k], free[k]) - change) <= 0.0, last[unit.first] > 0.0
            )
            found = np.where(touches, 1.0, found)
        found, bend = plant.kept(found, bend)
        return found, bend

    def guarded(
        self, traced: Traced, inputs: Sequence[Array], going: Array, old: Sequence[Array] = ()
    ) -> tuple[Array, ...]:
        """Results of a function where ``going``, the ``old`` ones or zero elsewhere; skipped if no trajectory needs it."""
        plant = self.plant
        function = plant.dynamics.functions.get(("guarded", traced), lambda: guarded(traced))
        old = plant.kept(*(old or [np.zeros(size) for size in traced.outputs.values()]))
        return plant.changed(function, old, *inputs, *old, going)

    def geometry(self, q: Array, p: Array, going: Array) -> dict[str, Array]:
        """Entries of the contact problem at q, by name; zero where nothing is near."""
        found = self.guarded(self.solver.geometry, (q, p), going)
        return dict(zip(self.solver.sizes, found, strict=True))

    def solve(
        self,
        geometry: Mapping[str, Array],
        v_free: Array,
        posed: Sequence[Array],
        start: Array,
        going: Array,
        unit: Array | float = 1.0,
    ) -> tuple[Array, Array, Array]:
        """Change of the velocities by the impulses, these, and the residual in m/s, times ``unit``; zero where not ``going``.

        ``posed`` has bias, cone, on and two of the units, ``start`` the impulses to begin with.
        """
        plant, solver = self.plant, self.solver
        bias, cone, on, two = posed[:4]
        given = [geometry[name] for name in ("J", "M", "L", "D", "W")]
        (first,) = plant.call(solver.respond, geometry["J"], geometry["L"], geometry["D"], start)
        tolerance = plant.kept(as_array(self.method.tolerance * unit))[0]

        def body(done: Array, *iterated: Array) -> Sequence[Array]:
            (open_,) = plant.kept(np.where(done > 0.0, 0.0, 1.0))
            fixed = (*given, v_free, bias, cone, on, two, tolerance)
            state = plant.changed(solver.improve, (done, *iterated), *fixed, done, *iterated, open_)
            (poor,) = plant.kept(state[-1] * 1.0)
            return plant.changed(solver.search, state, *fixed, *state, poor)

        rest = np.where(going > 0.0, 0.0, 1.0)
        begin = (rest, v_free + first, start * 1.0, as_array(EPS), as_array(1.0), np.zeros(plant.nv), as_array(0.0))
        _, _, lam, *_ = plant.repeat(self.method.iterations, body, *begin, ends=True)
        (lam,) = plant.kept(lam * going)
        blank = plant.kept(np.zeros(plant.nv), as_array(0.0))
        parts = [geometry[name] for name in ("J", "L", "D", "W")]
        change, residual = plant.changed(solver.finish, blank, *parts, v_free, bias, cone, on, two, lam, *blank, going)
        return change, lam, residual

    def delayed(
        self,
        geometry: Mapping[str, Array],
        q: Array,
        lam: Array,
        delay: Array,
        hit: Array,
        u: Array,
        p_m: Array,
        p_1: Array,
    ) -> tuple[Array, Array, Array]:
        """q moved to where impacts at their own times lead, by M^-1 J^T (delay lam); energy it takes, work of inputs along it.

        An impact at s h moves q by s h v0 + (1 - s) h v1, and not by h (v0 + v1) / 2; the delay is h / 2 - s h. Impulses of other contacts in
        the same step are answers to it: theirs is the mean delay.
        """
        plant, solver, mean = self.plant, self.solver, self.mean_delay(lam, delay, hit)
        shares = [
            np.where(hit[k] > 0.0, delay[k], mean) * lam[i] for k, unit in enumerate(solver.units) for i in unit.rows
        ]
        (move,) = plant.call(solver.respond, geometry["J"], geometry["L"], geometry["D"], vector(*shares))
        return self.displaced(q, move, u, p_m, p_1)

    def mean_delay(self, lam: Array, delay: Array, hit: Array) -> Array:
        """Mean delay of the impacts of a step, weighted by their impulses; 0 without any."""
        total, weight = as_array(0.0), as_array(0.0)
        for k, unit in enumerate(self.solver.units):
            own = hit[k] * lam[unit.first]
            total, weight = total + own * delay[k], weight + own
        return np.where(weight > 0.0, total / np.where(weight > 0.0, weight, 1.0), 0.0)

    def displaced(self, q: Array, move: Array, u: Array, p: Array, p_1: Array) -> tuple[Array, Array, Array]:
        """q o exp(move), the energy that it takes less the work of inputs, and this work."""
        plant = self.plant
        (there,) = plant.kept(self.moved(q, move, as_array(1.0), p))
        potential = plant.dynamics.potential()
        if potential is None or plant.power is None:
            raise SimulationError(f"Moreau needs the energies of {plant.name!r}.")
        (before,), (after,) = (plant.call(potential, place, p_1) for place in (q, there))
        along = plant.call(plant.power, q, move, u, p_1)[0]
        return there, after - before - along, along

    def lift(
        self, geometry: Mapping[str, Array], q: Array, depth: Sequence[Array], u: Array, p: Array
    ) -> tuple[Array, Array, Array, Array]:
        """q moved least in the metric of M so that the gaps of points grow by at least ``depth`` where this is not zero.

        With the energy it takes, the work of inputs along it and the residual in m/s.
        """
        plant, solver = self.plant, self.solver
        bias: list[Any] = [as_array(0.0)] * solver.m
        needed = as_array(0.0)
        for k, unit in enumerate(solver.units):
            bias[unit.first] = -depth[k]
            needed = np.where(depth[k] > 0.0, 1.0, needed)
        on = [np.where(x > 0.0, 1.0, 0.0) for x in depth]
        bias_, on_, needed, zeros = plant.kept(vector(*bias), vector(*on), needed, np.zeros(solver.count))
        rest, none = plant.kept(np.zeros(plant.nv), np.zeros(solver.m))
        move, _, residual = self.solve(geometry, rest, (bias_, zeros, on_, zeros), none, needed, self.h)
        return *self.displaced(q, move, u, p, p), residual / self.h

    def push_out(
        self, geometry: Mapping[str, Array], q: Array, struck: Array, going: Array, u: Array, p: Array
    ) -> tuple[Array, Array, Array, Array]:
        """q moved out of surfaces into which rotations within the step took new contacts, and all in a step with an impact."""
        plant, solver, last = self.plant, self.solver, self.state.own["impulse"]
        taken, along, residual = as_array(0.0), as_array(0.0), as_array(0.0)
        for _ in range(PUSHES):
            gap, _ = plant.call(solver.gaps, q, self.state.v, p)
            depth = []
            for unit in solver.units:
                if unit.kind != POINT:
                    depth.append(as_array(0.0))
                    continue
                new = np.logical_and(np.logical_or(last[unit.first] <= 0.0, struck > 0.0), going > 0.0)
                depth.append(np.where(np.logical_and(new, gap[unit.gap] < -DEPTH), -gap[unit.gap], 0.0))
            q, more, work, missed = self.lift(geometry, q, depth, u, p)
            taken, along, residual = plant.kept(taken + more, along + work, np.maximum(residual, missed))
        return q, taken, along, residual

    def close(
        self, geometry: Mapping[str, Array], v: Array, lam: Array, hit: Array, going: Array
    ) -> tuple[Array, Array, Array, Array, Array]:
        """v at the end of the step corrected in the rows there; all impulses, those without impacts, energy it takes, residual."""
        plant, solver = self.plant, self.solver
        on, kept = [], []
        for k, unit in enumerate(solver.units):
            if unit.kind == POINT:
                closed = np.where(np.logical_and(lam[unit.first] > 0.0, hit[k] <= 0.0), 1.0, 0.0)
            else:
                closed = as_array(1.0 if unit.kind == HELD else 0.0)
            on.append(closed)
            kept += [closed * lam[i] for i in unit.rows]
        on_, start = plant.kept(vector(*on), vector(*kept))
        (push,) = plant.call(solver.respond, geometry["J"], geometry["L"], geometry["D"], start)
        (v_free,) = plant.kept(v - push)
        zeros = plant.kept(np.zeros(solver.count))[0]
        posed = (geometry["drift"], geometry["mu"], on_, zeros)
        change, total, residual = self.solve(geometry, v_free, posed, start, going)
        (v_1,) = plant.kept(v_free + change)
        added = plant.kept(total - start)[0]
        normal, friction = plant.call(solver.account, geometry["J"], v, v_1, added)
        lasting = [lam[i] if unit.kind == DRY else total[i] for unit in solver.units for i in unit.rows]
        every, steady = plant.kept(lam + added, vector(*lasting))
        return v_1, every, steady, normal + friction, residual

    def booked(
        self,
        end: PlantState,
        middle: PlantState,
        u: Array,
        z_rate: Array | None,
        work: Array,
        along: Array,
        lam: Array,
        steady: Array,
        residual: Array,
        gain: Array,
    ) -> PlantState:
        """The end with the work done, the records and the verdicts."""
        plant, state, h = self.plant, self.state, self.h
        lost = -(work[0] + work[1] + work[2])
        if plant.work is not None or plant.flow is not None:
            powers = plant.call(plant.power, middle.q, 0.5 * (state.v + end.v), u, plant.p_at(0.5))  # type: ignore[arg-type]
            done = [h * power for power in powers]
            done[0], done[1] = done[0] + along, done[1] + lost
            if plant.work is not None:
                end = end.replaced(work=state.of(plant.work) + vector(*done))
            if plant.flow is not None:
                end = end.replaced(flow=state.of(plant.flow) + vector(*done))
        if plant.memory is not None and z_rate is not None:
            end = end.replaced(memory=state.of(plant.memory) + h * z_rate)
        own = state.own
        steps = own["steps"] + 1
        unsolved = np.where(residual <= self.method.tolerance, 0.0, steps)
        paradox = np.where(gain < 1.0, 0.0, steps)
        return end.keeping(
            impulse=lam,
            steady=steady,
            contact_work=own["contact_work"] + work,
            residual=np.maximum(own["residual"], residual),
            steps=steps,
            unsolved=np.where(own["unsolved"] > 0.0, own["unsolved"], unsolved),
            ill_posed=np.where(own["ill_posed"] > 0.0, own["ill_posed"], paradox),
        )
