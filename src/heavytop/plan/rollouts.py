"""Guesses that are motions: batches of smooth random inputs, simulated from the start, the nearest led to the goal.

A straight guess is no motion of a system that its inputs do not control to first order, such as a car that has to move aside. Inputs
``u = u_hover + sum_k (pi k / T)^2 (a_k cos(pi k t / T) + b_k sin(pi k t / T))``, in units of the input for 1 m/s^2 or 1 rad/s^2, move every driven
coordinate by an amount of the order of a_k, b_k, whatever the duration T. Levenberg-Marquardt steps on a, b and T, with slopes by differences,
lead the nearest trajectories to the goal. Every step is one batch of simulations.
"""

from __future__ import annotations

import numpy as np

from heavytop.ocp import NodeLayout, State, chart, intervals, place
from heavytop.plan.guess import Guess, fixed_ends, straight
from heavytop.plan.problem import Problem
from heavytop.simulate import Tableau

LANES, KEPT = 256, 8
"""Random inputs simulated for a guess; trajectories that are led to the goal."""
TERMS = 5
"""Frequencies of the inputs."""
SIZES, LONGER = (0.1, 1.0), 4.0
"""Range of the sizes of a_k, b_k (m, rad); largest logarithm of the duration over that of the straight guess, if it is free."""
STEPS, NEAR = 20, 0.1
"""Largest number of steps to the goal; part of the least distance without inputs at which they end."""
DAMPING = np.array([0.1, 1.0, 10.0, 100.0])
"""Factors of the last damping that are tried together."""
DIFFERENCE = 1e-5


class Rollouts:
    """Simulations of a problem from its start to its goal, by an integration method of its intervals.

    >>> import heavytop as ht
    >>> from heavytop.plan.problem_builder import ProblemArguments, build_problem
    >>> from heavytop.simulate import RK4
    >>> cart = ht.library.cart_pole().derive()
    >>> problem = build_problem(ProblemArguments(cart, [0, 0], [0.5, 0], 2.0, steps=20))
    >>> guess = Rollouts(problem, RK4, 1).guess(np.random.default_rng(0))
    >>> guess.u.shape
    (21, 1)
    """

    def __init__(self, problem: Problem, tableau: Tableau, substeps: int) -> None:
        self.problem, rates = problem, problem.rates
        self.layout = NodeLayout(rates.ne, rates.nv, rates.nu)
        self.steps = intervals(rates, self.layout, tableau, substeps)
        self.straight = straight(problem)
        s, k = (np.arange(problem.steps) + 0.5) / problem.steps, np.arange(1, TERMS + 1)[:, None]
        squares = (np.pi * k) ** 2
        self.basis = np.concatenate([squares * np.cos(np.pi * k * s), squares * np.sin(np.pi * k * s)])
        self.per_acceleration = self._per_acceleration()
        self.count = rates.nu * len(self.basis)
        self.goal = problem.goal
        if problem.goal is not None:
            self.goal = State(np.where(np.isnan(problem.goal.q), 0.0, problem.goal.q), problem.goal.v)
        elif problem.periodic:
            self.goal = State(self.straight.q[0], self.straight.v[0])
        fixed = np.ones(rates.nx, dtype=bool) if problem.follows is None else ~problem.follows
        if problem.timed:
            fixed[rates.ne - 1] = False
        self.fixed = fixed

    def _per_acceleration(self) -> np.ndarray:
        """Inputs (nu,) for an acceleration of 1 m/s^2 or 1 rad/s^2 at the start."""
        rates, q = self.problem.rates, self.straight.q[0]
        z = np.zeros((1 + rates.nu, rates.nx + rates.nu))
        z[:, rates.nx :] = self.problem.hover
        z[1:, rates.nx :] += np.eye(rates.nu)
        a = rates.rho.value(z, np.tile(q, (len(z), 1)), self.problem.parameters)[0][:, rates.ne :]
        pushed = np.max(np.abs(a[1:] - a[0]), axis=1, initial=0.0)
        return 1.0 / np.where(np.isfinite(pushed) & (pushed > 1e-12), pushed, 1.0)

    def simulate(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """q (N + 1, L, nq), v (N + 1, L, nv), u (N, L, nu) and durations (L, phases) for a, b and logarithms of durations x (L, n)."""
        problem, rates, lanes = self.problem, self.problem.rates, len(x)
        spans = np.array([(phase.shortest, phase.longest) for phase in problem.phases])
        durations = np.clip(self.straight.durations * np.exp(x[:, self.count :]), spans[:, 0], spans[:, 1])
        waves = x[:, : self.count].reshape(lanes, rates.nu, -1) @ self.basis
        u = problem.hover + self.per_acceleration * waves.transpose(2, 0, 1) / durations.sum(axis=1)[:, None] ** 2
        u = np.clip(u, *problem.bounds.u)
        h = (durations / [phase.steps for phase in problem.phases])[:, problem.phase_of_interval]
        q = np.empty((problem.steps + 1, lanes, rates.nq))
        v = np.empty((problem.steps + 1, lanes, rates.nv))
        q[0], v[0], y = self.straight.q[0], self.straight.v[0], np.zeros((lanes, self.layout.size))
        for k in range(problem.steps):
            y[:, self.layout.v], y[:, self.layout.c] = v[k], u[k]
            ends = self.steps.run(y, h[:, k].copy(), q[k], problem.parameters).ends
            q[k + 1] = rates.coordinates.project(chart(rates.coordinates, q[k], ends[:, self.layout.e]))
            v[k + 1] = ends[:, self.layout.v]
        return q, v, u, durations

    def misses(self, x: np.ndarray) -> np.ndarray:
        """Distances (L, m) from the goal and from constraints at the ends of phases; velocities count by a quarter of the duration, up to 1 s."""
        problem, rates, (q, v, _, durations) = self.problem, self.problem.rates, self.simulate(x)
        rows = []
        if self.goal is not None:
            off = place(rates.coordinates, q[-1], np.broadcast_to(self.goal.q, q[-1].shape))
            slow = np.minimum(1.0, 0.25 * durations.sum(axis=1))[:, None]
            rows.append(np.concatenate([off, (self.goal.v - v[-1]) * slow], axis=1)[:, self.fixed])
        z = np.zeros((len(x), rates.nx + rates.nu))
        for phase, end in zip(problem.phases, problem.ends, strict=True):
            z[:, rates.ne : rates.nx] = v[end]
            for constraint in phase.end:
                bound = problem.bound_constraints[constraint]
                value = bound.function.value(z, q[end], problem.parameters, constraint.constants)[0]
                rows.append(np.clip(value, bound.lower, bound.upper) - value)
        return np.concatenate(rows, axis=1)

    @np.errstate(all="ignore")  # of diverging trajectories, which are infinitely far from the goal
    def guess(self, rng: np.random.Generator) -> Guess:
        """A motion from random inputs that ends near the goal."""
        x = np.zeros((LANES, self.count + len(self.problem.phases)))
        order = np.tile(np.arange(1, TERMS + 1), 2 * self.problem.rates.nu)
        sizes = np.exp(rng.uniform(np.log(SIZES[0]), np.log(SIZES[1]), (LANES, 1)))
        x[:, : self.count] = sizes * rng.standard_normal((LANES, self.count)) / order**2
        x[:, self.count :] = rng.uniform(0.0, LONGER, (LANES, 1))
        off = self.misses(x)
        nearest = np.argsort(_length(off), kind="stable")[:KEPT]
        x, off, damping = x[nearest], off[nearest], np.full(KEPT, 1e-2)
        near = NEAR * _length(self.misses(np.zeros_like(x[:1])))
        for _ in range(STEPS):
            if np.all(_length(off) < near):
                break
            x, off, damping = self._nearer(x, off, damping)
        # the smallest inputs: large ones lead through singular places of the equations
        return self._motion(
            x[int(np.argmin(np.linalg.norm(x[:, : self.count], axis=1) + 1e3 * np.maximum(_length(off) - near, 0.0)))]
        )

    def _nearer(self, x: np.ndarray, off: np.ndarray, damping: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """A Levenberg-Marquardt step of every trajectory, the best of several dampings."""
        lanes, n = x.shape
        moved = (x[:, None] + DIFFERENCE * np.eye(n)).reshape(-1, n)
        slope = np.nan_to_num(self.misses(moved).reshape(lanes, n, -1) - off[:, None]) / DIFFERENCE  # (L, n, m)
        normal = np.swapaxes(slope, 1, 2) @ slope
        m = normal.shape[1]
        size = np.trace(normal, axis1=1, axis2=2) / m + 1e-12
        tried = damping[:, None] * DAMPING
        damped = normal[:, None] + (tried * size[:, None])[..., None, None] * np.eye(m)
        weights = np.linalg.solve(damped, np.broadcast_to(off[:, None, :, None], (lanes, len(DAMPING), m, 1)))
        there = x[:, None] - (slope[:, None] @ weights)[..., 0]
        missed = self.misses(there.reshape(-1, n)).reshape(lanes, len(DAMPING), m)
        best = np.argmin(_length(missed), axis=1)
        lane = np.arange(lanes)
        nearer = _length(missed[lane, best]) < _length(off)
        return (
            np.where(nearer[:, None], there[lane, best], x),
            np.where(nearer[:, None], missed[lane, best], off),
            np.where(nearer, tried[lane, best], damping * DAMPING[-1]),
        )

    def _motion(self, x: np.ndarray) -> Guess:
        q, v, u, durations = self.simulate(x[None])
        return fixed_ends(self.problem, Guess(q[:, 0], v[:, 0], np.concatenate([u, u[-1:]])[:, 0], durations[0]))


def _length(off: np.ndarray) -> np.ndarray:
    """Norms of distances (..., m); infinite for trajectories that diverge."""
    length = np.linalg.norm(off, axis=-1)
    return np.where(np.isfinite(length), length, np.inf)
