"""Transcription of an optimal control problem to a nonlinear program: multiple shooting in charts around the nodes of a guess.

Variables are the y = (e, v, [s], [tau], c) of every node (:mod:`heavytop.ocp.shooting`): no redundant coordinates, no unit-norm
constraints. Rows are the residuals between the end of every interval and the next node, then the constraints at nodes. See
docs/plan/theory.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from heavytop.compile import Bound
from heavytop.ocp.chart_dynamics import Derivatives
from heavytop.ocp.charts import chart
from heavytop.ocp.collocation import intervals
from heavytop.ocp.node_blocks import Block
from heavytop.ocp.problem import OptimalControlProblem
from heavytop.ocp.shooting import NodeLayout, Trajectory
from heavytop.ocp.solvers.nonlinear_program import NonlinearProgram
from heavytop.ocp.sparsity import interval_patterns
from heavytop.simulate.integrators.tableaus import Tableau

NEAR = 0.1
"""Largest distance (m, rad) from the goal of dependent coordinates in the search for a plan; beyond lies another closure of the loops."""


@dataclass(frozen=True)
class Row:
    """Label and node of a row of the program."""

    label: str
    node: int


class Transcription(NonlinearProgram):
    """The nonlinear program of a problem around given centres.

    Parameters
    ----------
    problem : the problem. centres : (N + 1, nq) centres of the charts.
    tableau, substeps : integration of intervals. blocks : constraints and costs at nodes.
    integrand : cost per time with its constants, or None. time_weight : weight of the duration.

    Attributes
    ----------
    lower, upper : bounds of the variables. rates, layout, shooting : of the nodes and intervals. weights : (N,) lengths of intervals, as part of
        tau if the duration is free, else in s.
    """

    def __init__(
        self,
        problem: OptimalControlProblem,
        centres: np.ndarray,
        tableau: Tableau,
        substeps: int,
        blocks: list[Block],
        integrand: Derivatives | None = None,
        constants: np.ndarray | None = None,
        time_weight: float = 0.0,
    ) -> None:
        self.problem, self.centres, self.blocks, self.time_weight = problem, centres, blocks, time_weight
        self.rates = r = problem.rates
        self.constants = np.zeros(0) if constants is None else constants
        self.layout = NodeLayout(r.ne, r.nv, r.nu, problem.linear, problem.free)
        self.shooting = intervals(r, self.layout, tableau, substeps, integrand)
        self.count, self.size = problem.steps, self.layout.size
        self.p = problem.parameters
        phases = problem.phases
        steps = np.array([phase.steps for phase in phases], dtype=float)[problem.phase_of_interval]
        lengths = np.array([phase.shortest for phase in phases])[problem.phase_of_interval]
        self.weights = 1.0 / steps if problem.free else lengths / steps
        every = np.arange(self.size)
        for block in blocks:
            block.prepare(np.r_[every[: r.nx], every[self.layout.u]])
        self.costs = [b for b in blocks if b.weights is not None]
        self.constraints = [b for b in blocks if b.weights is None]
        self.lower, self.upper = self._variable_bounds()
        self._at: tuple[bytes, tuple[Trajectory, np.ndarray, np.ndarray]] | None = None
        self._begin = centres[:-1]  # of the intervals

    # --- sizes and bounds ---------------------------------------------------------------------------------------------------

    @property
    def variables(self) -> int:
        """Number of variables."""
        return (self.count + 1) * self.size

    def _variable_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        layout, problem = self.layout, self.problem
        lower = np.full((self.count + 1, self.size), -np.inf)
        upper = -lower
        lower[:, layout.v], upper[:, layout.v] = problem.bounds.v
        lower[:, layout.u], upper[:, layout.u] = problem.bounds.u
        if layout.linear:
            lower[:, layout.c], upper[:, layout.c] = -np.inf, np.inf
            if problem.bounds.rate is not None and not layout.free:
                for side, bound in zip((lower, upper), problem.bounds.rate, strict=True):
                    side[:-1, layout.c] = bound * self.weights[:, None]
        # the last node has no interval: its input, or change of input, and its duration are without effect
        last = np.zeros(self.size)
        if not layout.linear:
            last[layout.c] = np.clip(problem.hover, *problem.bounds.u)
        lower[-1, layout.c] = upper[-1, layout.c] = last[layout.c]
        if layout.free:
            phases = problem.phases
            first = np.r_[0, problem.ends[:-1]]
            lower[:, layout.tau], upper[:, layout.tau] = 0.0, np.inf
            lower[-1, layout.tau] = upper[-1, layout.tau] = 1.0
            lower[first, layout.tau] = [phase.shortest for phase in phases]
            upper[first, layout.tau] = [phase.longest for phase in phases]
        for node, state in ((0, problem.start), (-1, problem.goal)):
            if state is not None:
                # the centre of this node is the state itself
                lower[node, layout.e] = upper[node, layout.e] = 0.0
                lower[node, layout.v] = upper[node, layout.v] = state.v
        if problem.follows is not None:
            loose = np.nonzero(problem.follows)[0]
            for side, bound, far in ((lower, problem.bounds.v[0], -NEAR), (upper, problem.bounds.v[1], NEAR)):
                side[-1, loose] = np.r_[np.full(layout.ne, far), bound][loose]
        if problem.timed:  # the motion starts at a given time and ends at any
            time = layout.ne - 1
            lower[0, time] = upper[0, time] = 0.0
            lower[-1, time], upper[-1, time] = -np.inf, np.inf
        return lower.ravel(), upper.ravel()

    @cached_property
    def units(self) -> np.ndarray | None:
        """Units (n,) of the variables for solvers that scale; None: all are 1."""
        of_inputs = self.problem.units
        if of_inputs is None or np.all(of_inputs == 1.0):
            return None
        units = np.ones((self.count + 1, self.size))
        for place in (self.layout.s, self.layout.c) if self.layout.linear else (self.layout.c,):
            units[:, place] = of_inputs
        return units.ravel()

    @cached_property
    def _link_rows(self) -> np.ndarray:
        """Intervals with the duration of the next one."""
        if not self.layout.free:
            return np.zeros(0, dtype=int)
        phase = self.problem.phase_of_interval
        return np.nonzero(phase[:-1] == phase[1:])[0]

    @cached_property
    def _rate_sides(self) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Inputs (m,) and bounds (m,) of their rates that become rows of every interval if the duration is free: upper, then lower ones.

        An infinite bound has no row.
        """
        if not (self.layout.linear and self.layout.free) or self.problem.bounds.rate is None:
            return ()
        low, high = self.problem.bounds.rate
        return tuple((np.nonzero(np.isfinite(side))[0], side[np.isfinite(side)]) for side in (high, low))

    @cached_property
    def _periodic_rows(self) -> int:
        return self.rates.nx if self.problem.periodic else 0

    @property
    def _bounded_total(self) -> bool:
        """Whether a row bounds the sum of the durations."""
        low, high = self.problem.total or (0.0, np.inf)
        return self.layout.free and len(self.problem.phases) > 1 and (low > 0.0 or high < np.inf)

    @cached_property
    def offsets(self) -> dict[str, int]:
        """First row of each group of rows."""
        sizes = {
            "dynamics": self.count * self.rates.nx,
            "inputs": self.count * (self.layout.s.stop - self.layout.s.start),
            "durations": len(self._link_rows),
            "rates": sum(self.count * len(own) for own, _ in self._rate_sides),
            "periodic": self._periodic_rows,
            "total": int(self._bounded_total),
        }
        sizes |= {f"block{i}": block.rows for i, block in enumerate(self.constraints)}
        starts = np.concatenate([[0], np.cumsum(list(sizes.values()))])
        return dict(zip([*sizes, "end"], (int(s) for s in starts), strict=True))

    @property
    def rows(self) -> int:
        """Number of constraints."""
        return self.offsets["end"]

    @cached_property
    def row_bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds of all rows."""
        lower, upper = np.zeros(self.rows), np.zeros(self.rows)
        start = self.offsets["rates"]
        for side, (own, _), free in zip((lower, upper), self._rate_sides, (-np.inf, np.inf), strict=False):
            side[start : start + self.count * len(own)] = free
            start += self.count * len(own)
        if self._periodic_rows and self.problem.timed:  # the time goes on
            time = self.offsets["periodic"] + self.rates.ne - 1
            lower[time], upper[time] = -np.inf, np.inf
        if self._bounded_total:
            lower[self.offsets["total"]], upper[self.offsets["total"]] = self.problem.total or (0.0, np.inf)
        for i, block in enumerate(self.constraints):
            place = slice(self.offsets[f"block{i}"], self.offsets[f"block{i}"] + block.rows)
            lower[place], upper[place] = block.lower.ravel(), block.upper.ravel()
        return lower, upper

    def row(self, index: int) -> Row:
        """Label and node of a row."""
        starts = list(self.offsets.items())
        group, start = next((name, s) for name, s in reversed(starts[:-1]) if s <= index and self.offsets["end"] > s)
        inside = index - start
        if group.startswith("block"):
            block = self.constraints[int(group[5:])]
            n = inside // block.lower.shape[1]
            return Row(block.labels[n], int(block.nodes[n]))
        if group == "dynamics":
            node, component = divmod(inside, self.rates.nx)
            model = self.problem.model
            names = [f"place along {name!r}" for name in self.rates.coordinates.v_names]
            return Row(f"dynamics ({[*names, *map(repr, model.v_names)][component]})", node)
        if group == "inputs":
            return Row("inputs", inside // self.layout.nu)
        if group == "rates":
            above = self.count * len(self._rate_sides[0][0])
            inside, own = (
                (inside, self._rate_sides[0][0]) if inside < above else (inside - above, self._rate_sides[1][0])
            )
            return Row("rate of inputs", inside // len(own))
        labels = {"durations": "duration", "periodic": "periodicity", "total": "whole duration"}
        return Row(labels[group], inside if group == "durations" else self.count)

    # --- values -------------------------------------------------------------------------------------------------------------

    def nodes(self, x: np.ndarray) -> np.ndarray:
        """Variables node by node (N + 1, ny)."""
        return x[: self.variables].reshape(self.count + 1, self.size)

    def configurations(self, x: np.ndarray) -> np.ndarray:
        """q at all nodes (N + 1, nq)."""
        return chart(self.rates.coordinates, self.centres, self.nodes(x)[:, self.layout.e])

    def lengths(self, x: np.ndarray) -> np.ndarray:
        """Length of each interval (N,) in s."""
        return self.weights * self.nodes(x)[:-1, self.layout.tau] if self.layout.free else self.weights.copy()

    @property
    def _further(self) -> tuple[np.ndarray, ...]:
        """Further arguments of the integrand."""
        return () if self.shooting.integrand is None else (self.constants,)

    def _run(self, x: np.ndarray) -> tuple[Trajectory, np.ndarray, np.ndarray]:
        """The trajectory with slopes, and value and slope of the links; cached for the last x.

        Solvers mostly evaluate slopes after values, and they cost little more.
        """
        key = x.tobytes()
        if self._at is None or self._at[0] != key:
            Y = self.nodes(x)
            run = self.shooting.run(Y[:-1], self.weights, self._begin, self.p, self._further, slopes=True)
            self._place_ends(run, Y)
            first, _, _, value, slope, _ = self._links
            first()
            self._at = key, (run, value, slope)
        return self._at[1]

    @cached_property
    def _links(self) -> tuple[Bound, Bound, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Native calls for the links of all intervals: (first, second, multipliers, values, slopes, Hessians)."""
        link, ne, N = self.rates.link, self.rates.ne, self.count
        lam, value = np.empty((N, ne)), np.empty((N, ne))
        slope, bent = np.empty((N, ne, 2 * ne)), np.empty((N, 2 * ne, 2 * ne))
        places = (self._ends_at, np.ascontiguousarray(self._begin), np.ascontiguousarray(self.centres[1:]))
        return (
            Bound(link.first, places, (value, slope)),
            Bound(link.second, (lam, *places), (bent,)),
            lam,
            value,
            slope,
            bent,
        )

    @cached_property
    def _ends_at(self) -> np.ndarray:
        """Chart coordinates (N, 2 ne) at the ends of the intervals and of the next nodes."""
        return np.empty((self.count, 2 * self.rates.ne))

    def _place_ends(self, run: Trajectory, Y: np.ndarray) -> None:
        ne = self.rates.ne
        self._ends_at[:, :ne], self._ends_at[:, ne:] = run.ends[:, :ne], Y[1:, self.layout.e]

    def objective(self, x: np.ndarray) -> float:
        """The cost."""
        total = float(self._run(x)[0].costs.sum()) + self.time_weight * float(self.lengths(x).sum())
        Y = self.nodes(x)
        return total + sum(float(b.cost_weights @ b.values(Y, self.centres, self.p)[:, 0]) for b in self.costs)

    def gradient(self, x: np.ndarray) -> np.ndarray:
        """Gradient of the cost."""
        g = np.zeros((self.count + 1, self.size))
        run = self._run(x)[0]
        g[:-1] = run.cost_slopes
        if self.layout.free:
            g[:-1, self.layout.tau] += self.time_weight * self.weights
        Y = self.nodes(x)
        for block in self.costs:
            np.add.at(g, (block.nodes[:, None], block.columns), block.gradient(Y, self.centres, self.p))
        return g.ravel()

    def values(self, x: np.ndarray) -> np.ndarray:
        """Values of all rows."""
        Y, layout = self.nodes(x), self.layout
        run, gaps, _ = self._run(x)
        dynamics = np.concatenate([gaps, run.ends[:, self.rates.ne :] - Y[1:, layout.v]], axis=1)
        parts = [dynamics.ravel()]
        if layout.linear:
            parts.append((Y[:-1, layout.s] + Y[:-1, layout.c] - Y[1:, layout.s]).ravel())
        if layout.free:
            parts.append(Y[self._link_rows, layout.tau] - Y[self._link_rows + 1, layout.tau])
        for own, bound in self._rate_sides:
            parts.append((Y[:-1, layout.c][:, own] - bound * self.lengths(x)[:, None]).ravel())
        if self._periodic_rows:
            (away,) = self.rates.link.value(*self._ends(Y))
            parts += [away[0], Y[-1, layout.v] - Y[0, layout.v]]
        if self._bounded_total:
            parts.append(np.array([self.lengths(x).sum()]))
        parts += [block.values(Y, self.centres, self.p).ravel() for block in self.constraints]
        return np.concatenate(parts)

    def _ends(self, Y: np.ndarray) -> tuple[np.ndarray, ...]:
        e = np.concatenate([Y[-1, self.layout.e], Y[0, self.layout.e]])[None]
        return e, self.centres[-1:], self.centres[:1]

    # --- structure of derivatives ----------------------------------------------------------------------------------------------

    @cached_property
    def _patterns(self):
        return interval_patterns(self.shooting)

    @cached_property
    def _entries(self) -> tuple[np.ndarray, ...]:
        """Flat indices in one interval of: Jacobian by its node and by the next one; Hessian by its node, mixed, by the next one."""
        P, ny, ne = self._patterns, self.size, self.rates.ne
        flat = lambda mask, width, r0=0, c0=0: (np.nonzero(mask)[0] + r0) * width + np.nonzero(mask)[1] + c0  # noqa: E731
        return (
            flat(P.slope, ny), flat(P.next_slope, 2 * ne, 0, ne),
            flat(np.triu(P.curve), ny), flat(P.cross_curve, ne), flat(np.triu(P.next_curve), 2 * ne, ne, ne),
        )  # fmt: skip

    @cached_property
    def jacobian_structure(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns of the entries of the Jacobian."""
        N, ny, nx, ne, layout = self.count, self.size, self.rates.nx, self.rates.ne, self.layout
        k = np.arange(N)[:, None]
        r, c = np.nonzero(self._patterns.slope)
        rows, columns = [k * nx + r], [k * ny + c]
        r, c = np.nonzero(self._patterns.next_slope)
        rows.append(k * nx + r)
        columns.append((k + 1) * ny + c)
        velocity = np.arange(self.rates.nv)
        rows.append(k * nx + ne + velocity)
        columns.append((k + 1) * ny + layout.v.start + velocity)
        if layout.linear:
            i, start = np.arange(layout.nu), self.offsets["inputs"]
            for node, place in ((0, layout.s), (0, layout.c), (1, layout.s)):
                rows.append(start + k * layout.nu + i)
                columns.append((k + node) * ny + place.start + i)
        if layout.free:
            link, start = self._link_rows[:, None], self.offsets["durations"]
            for node in (0, 1):
                rows.append(start + np.arange(len(link))[:, None])
                columns.append((link + node) * ny + layout.tau)
        start = self.offsets["rates"]
        for own, _ in self._rate_sides:
            here = start + k * len(own) + np.arange(len(own))
            rows += [here, here]
            columns += [k * ny + layout.c.start + own, np.broadcast_to(k * ny + layout.tau, here.shape)]
            start += here.size
        if self._periodic_rows:
            start = self.offsets["periodic"]
            r, c = np.nonzero(self.rates.link.patterns[0])
            rows.append((start + r)[None])
            columns.append(np.where(c < ne, N * ny + c, c - ne)[None])
            for node in (N, 0):
                rows.append((start + ne + velocity)[None])
                columns.append((node * ny + layout.v.start + velocity)[None])
        if self._bounded_total:
            rows.append(np.full(N, self.offsets["total"]))
            columns.append(k[:, 0] * ny + layout.tau)
        flat_rows, flat_columns = [a.ravel() for a in rows], [a.ravel() for a in columns]
        for i, block in enumerate(self.constraints):
            r, c = block.jacobian_structure(self.offsets[f"block{i}"], ny)
            flat_rows.append(r)
            flat_columns.append(c)
        return np.concatenate(flat_rows).astype(np.int32), np.concatenate(flat_columns).astype(np.int32)

    def jacobian(self, x: np.ndarray) -> np.ndarray:
        """Entries of the Jacobian in the order of :attr:`jacobian_structure`."""
        N, ne, nx, layout = self.count, self.rates.ne, self.rates.nx, self.layout
        Y = self.nodes(x)
        run, _, link = self._run(x)
        full = np.empty((N, nx, self.size))
        np.matmul(link[:, :, :ne], run.slopes[:, :ne], out=full[:, :ne])
        full[:, ne:] = run.slopes[:, ne:]
        own, following, *_ = self._entries
        parts = [_entries_of(full, own), _entries_of(link, following), np.full(N * self.rates.nv, -1.0)]
        if layout.linear:
            parts += [np.ones(2 * N * layout.nu), np.full(N * layout.nu, -1.0)]
        if layout.free:
            parts += [np.ones(len(self._link_rows)), np.full(len(self._link_rows), -1.0)]
        for _, bound in self._rate_sides:
            slope = -bound * self.weights[:, None]
            parts += [np.ones(slope.size), slope.ravel()]
        if self._periodic_rows:
            slope = self.rates.link.first(*self._ends(Y))[1][0]
            parts += [slope[np.nonzero(self.rates.link.patterns[0])], np.ones(self.rates.nv), -np.ones(self.rates.nv)]
        if self._bounded_total:
            parts.append(self.weights)
        parts += [block.jacobian(Y, self.centres, self.p) for block in self.constraints]
        return np.concatenate(parts)

    @cached_property
    def hessian_structure(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows and columns of the entries of the Hessian: one triangle, entries of equal indices are added."""
        N, ny, ne, P = self.count, self.size, self.rates.ne, self._patterns
        k = np.arange(N)[:, None]
        rows, columns = [], []
        for mask, row, column in (
            (np.triu(P.curve), 0, 0),
            (P.cross_curve, 0, 1),
            (np.triu(P.next_curve), 1, 1),
        ):
            r, c = np.nonzero(mask)
            rows.append(((k + row) * ny + r).ravel())
            columns.append(((k + column) * ny + c).ravel())
        if self._periodic_rows:
            r, c = self._periodic_curve
            index = lambda i: np.where(i < ne, N * ny + i, i - ne)  # noqa: E731
            rows.append(index(r))
            columns.append(index(c))
        for block in (*self.constraints, *self.costs):
            r, c = block.hessian_structure(ny)
            rows.append(r)
            columns.append(c)
        r, c = np.concatenate(rows), np.concatenate(columns)
        return np.maximum(r, c).astype(np.int32), np.minimum(r, c).astype(np.int32)

    @cached_property
    def _periodic_curve(self) -> tuple[np.ndarray, np.ndarray]:
        rows, columns = np.nonzero(np.triu(self.rates.link.patterns[1]))
        return rows, columns

    def hessian(self, x: np.ndarray, lam: np.ndarray, cost_weight: float) -> np.ndarray:
        """Entries of the Hessian of ``cost_weight * objective + lam . values``."""
        N, ne, nx, P = self.count, self.rates.ne, self.rates.nx, self._patterns
        Y = self.nodes(x)
        run, _, link = self._run(x)
        own = lam[: N * nx].reshape(N, nx)
        turned = (own[:, None, :ne] @ link[:, :, :ne])[:, 0]
        adjoint = np.concatenate([turned, own[:, ne:]], axis=1)
        total = self.shooting.hessians(
            run, adjoint, cost_weight, Y[:-1], self.weights, self._begin, self.p, self._further
        )
        *_, curve, cross, last = self._entries
        parts = []
        if P.linked:
            _, second, mine, _, _, bent = self._links
            mine[...] = own[:, :ne]
            second()
            D = run.slopes[:, :ne]
            DT = np.swapaxes(D, 1, 2)
            total += DT @ (bent[:, :ne, :ne] @ D)
            parts = [_entries_of(DT @ bent[:, :ne, ne:], cross), _entries_of(bent, last)]
        parts.insert(0, _entries_of(total, curve))
        if self._periodic_rows:
            start = self.offsets["periodic"]
            (bent,) = self.rates.link.second(lam[None, start : start + ne], *self._ends(Y))
            parts.append(bent[0][self._periodic_curve])
        for i, block in enumerate(self.constraints):
            start = self.offsets[f"block{i}"]
            parts.append(
                block.hessian(Y, self.centres, self.p, lam[start : start + block.rows].reshape(block.lower.shape))
            )
        for block in self.costs:
            parts.append(block.hessian(Y, self.centres, self.p, cost_weight * block.cost_weights[:, None]))
        return np.concatenate(parts)


def _entries_of(values: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """Entries of matrices (N, m, n) at flat indices, interval by interval."""
    return np.take(values.reshape(len(values), -1), indices, axis=1).ravel()
