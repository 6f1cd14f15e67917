"""Transcription of an optimal control problem to a nonlinear program: multiple shooting in charts around the nodes of a guess.

Variables are the y = (e, v, [s], [tau], c) of every node (:mod:`heavytop.ocp.shooting`): no redundant coordinates, no unit-norm
constraints. Rows are the residuals between the end of every interval and the next node, then the constraints at nodes. See
docs/plan/theory.md.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from heavytop.compile import Bound
from heavytop.ocp.charts import Derivatives, chart
from heavytop.ocp.collocation import intervals
from heavytop.ocp.node_blocks import Block
from heavytop.ocp.problem import OptimalControlProblem
from heavytop.ocp.shooting import NodeLayout, Trajectory, interval_patterns
from heavytop.ocp.solvers.nonlinear_program import NonlinearProgram
from heavytop.simulate import Tableau

NEAR = 0.1
"""Largest distance (m, rad) from the goal of dependent coordinates in the search for a plan; beyond lies another closure of the loops."""


class Transcription(NonlinearProgram):
    """The nonlinear program of a problem around given centres.

    Parameters
    ----------
    problem : the problem. centres : (N + 1, nq) centres of the charts.
    tableau, substeps : integration of intervals. blocks : constraints and costs at nodes.
    integrand : cost per time with its constants, or None. time_weight : weight of the duration.

    Attributes
    ----------
    lower, upper : bounds of the variables. rates, layout, shooting : those of the nodes and intervals.
    weights : (N,) lengths of intervals, as part of
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
        entries = np.arange(self.size)
        for block in blocks:
            block.prepare(np.r_[entries[: r.nx], entries[self.layout.u]])
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

    # --- rows ---------------------------------------------------------------------------------------------------------------

    @cached_property
    def link_rows(self) -> np.ndarray:
        """Intervals with the duration of the next one."""
        phase = self.problem.phase_of_interval
        return np.nonzero(phase[:-1] == phase[1:])[0] if self.layout.free else np.zeros(0, dtype=int)

    @cached_property
    def rate_sides(self) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
        """Inputs (m,) and bounds (m,) of their rates that become rows of every interval if the duration is free: upper, then lower ones.

        An infinite bound has no row.
        """
        if not (self.layout.linear and self.layout.free) or self.problem.bounds.rate is None:
            return ()
        low, high = self.problem.bounds.rate
        return tuple((np.nonzero(np.isfinite(side))[0], side[np.isfinite(side)]) for side in (high, low))

    @property
    def bounded_total(self) -> bool:
        """Whether a row bounds the sum of the durations."""
        low, high = self.problem.total or (0.0, np.inf)
        return self.layout.free and len(self.problem.phases) > 1 and (low > 0.0 or high < np.inf)

    @cached_property
    def offsets(self) -> dict[str, int]:
        """First row of each group of rows."""
        sizes = {
            "dynamics": self.count * self.rates.nx,
            "inputs": self.count * (self.layout.s.stop - self.layout.s.start),
            "durations": len(self.link_rows),
            "rates": sum(self.count * len(inputs) for inputs, _ in self.rate_sides),
            "periodic": self.rates.nx if self.problem.periodic else 0,
            "total": int(self.bounded_total),
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
        lower, upper = np.zeros(self.rows), np.zeros(self.rows)
        start = self.offsets["rates"]
        for side, (inputs, _), free in zip((lower, upper), self.rate_sides, (-np.inf, np.inf), strict=False):
            side[start : start + self.count * len(inputs)] = free
            start += self.count * len(inputs)
        if self.problem.periodic and self.problem.timed:  # the time goes on
            time = self.offsets["periodic"] + self.rates.ne - 1
            lower[time], upper[time] = -np.inf, np.inf
        if self.bounded_total:
            lower[self.offsets["total"]], upper[self.offsets["total"]] = self.problem.total or (0.0, np.inf)
        for i, block in enumerate(self.constraints):
            place = slice(self.offsets[f"block{i}"], self.offsets[f"block{i}"] + block.rows)
            lower[place], upper[place] = block.lower.ravel(), block.upper.ravel()
        return lower, upper

    @cached_property
    def row_labels(self) -> list[tuple[str, int]]:
        """Label and node of every row."""
        steps = range(self.count)
        names = [f"place along {name!r}" for name in self.rates.coordinates.v_names]
        names += map(repr, self.problem.model.v_names)
        labels = [(f"dynamics ({name})", k) for k in steps for name in names]
        labels += [("inputs", k) for k in steps for _ in range(self.layout.s.stop - self.layout.s.start)]
        labels += [("duration", int(k)) for k in self.link_rows]
        labels += [("rate of inputs", k) for inputs, _ in self.rate_sides for k in steps for _ in inputs]
        labels += [("periodicity", self.count)] * (self.rates.nx if self.problem.periodic else 0)
        labels += [("whole duration", self.count)] * int(self.bounded_total)
        for block in self.constraints:
            nodes = zip(block.labels, block.nodes.tolist(), strict=True)
            labels += [row for row in nodes for _ in range(block.lower.shape[1])]
        return labels

    @cached_property
    def linear_part(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows, columns and coefficients of all terms that are linear in the variables."""
        N, ny, nx, ne, layout = self.count, self.size, self.rates.nx, self.rates.ne, self.layout
        k, velocity = np.arange(N)[:, None], np.arange(self.rates.nv)
        terms: list[tuple[np.ndarray, np.ndarray, float | np.ndarray]] = []
        terms.append((k * nx + ne + velocity, (k + 1) * ny + layout.v.start + velocity, -1.0))
        if layout.linear:  # s_{k+1} = s_k + c_k
            i = np.arange(layout.nu)
            for node, place, sign in ((0, layout.s, 1.0), (0, layout.c, 1.0), (1, layout.s, -1.0)):
                terms.append((self.offsets["inputs"] + k * layout.nu + i, (k + node) * ny + place.start + i, sign))
        for node, sign in ((0, 1.0), (1, -1.0)):  # tau_{k+1} = tau_k
            rows = self.offsets["durations"] + np.arange(len(self.link_rows))
            terms.append((rows, (self.link_rows + node) * ny + layout.tau, sign))
        start = self.offsets["rates"]
        for inputs, bound in self.rate_sides:  # c <= bound * length
            rows = start + k * len(inputs) + np.arange(len(inputs))
            terms.append((rows, k * ny + layout.c.start + inputs, 1.0))
            terms.append((rows, k * ny + layout.tau + 0 * inputs, -bound * self.weights[:, None]))
            start += rows.size
        for node, sign in ((N, 1.0), (0, -1.0)) if self.problem.periodic else ():
            terms.append((self.offsets["periodic"] + ne + velocity, node * ny + layout.v.start + velocity, sign))
        if self.bounded_total:
            terms.append((np.full(N, self.offsets["total"]), k[:, 0] * ny + layout.tau, self.weights))
        rows, columns = (np.concatenate([np.ravel(term[i]) for term in terms]) for i in (0, 1))
        return rows, columns, np.concatenate([np.broadcast_to(c, r.shape).ravel() for r, _, c in terms])

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
        total = float(self._run(x)[0].costs.sum()) + self.time_weight * float(self.lengths(x).sum())
        Y = self.nodes(x)
        return total + sum(float(b.cost_weights @ b.values(Y, self.centres, self.p)[:, 0]) for b in self.costs)

    def gradient(self, x: np.ndarray) -> np.ndarray:
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
        Y, (rows, columns, coefficients) = self.nodes(x), self.linear_part
        values = np.bincount(rows, weights=coefficients * x[columns], minlength=self.rows)
        run, gaps, _ = self._run(x)
        dynamics = values[: self.offsets["inputs"]].reshape(self.count, -1)
        dynamics += np.concatenate([gaps, run.ends[:, self.rates.ne :]], axis=1)
        if self.problem.periodic:
            values[self.offsets["periodic"] :][: self.rates.ne] = self.rates.link.value(*self._ends(Y))[0][0]
        for i, block in enumerate(self.constraints):
            values[self.offsets[f"block{i}"] :][: block.rows] = block.values(Y, self.centres, self.p).ravel()
        return values

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
        N, ny, nx, ne = self.count, self.size, self.rates.nx, self.rates.ne
        k, entries = np.arange(N)[:, None], []
        for node, mask in ((0, self._patterns.slope), (1, self._patterns.next_slope)):
            r, c = np.nonzero(mask)
            entries.append(((k * nx + r).ravel(), ((k + node) * ny + c).ravel()))
        entries.append(self.linear_part[:2])
        if self.problem.periodic:
            r, c = np.nonzero(self.rates.link.patterns[0])
            entries.append((self.offsets["periodic"] + r, np.where(c < ne, N * ny + c, c - ne)))
        entries += [b.jacobian_structure(self.offsets[f"block{i}"], ny) for i, b in enumerate(self.constraints)]
        rows, columns = (np.concatenate([entry[i] for entry in entries]).astype(np.int32) for i in (0, 1))
        return rows, columns

    def jacobian(self, x: np.ndarray) -> np.ndarray:
        N, ne, nx = self.count, self.rates.ne, self.rates.nx
        Y = self.nodes(x)
        run, _, link = self._run(x)
        full = np.empty((N, nx, self.size))
        np.matmul(link[:, :, :ne], run.slopes[:, :ne], out=full[:, :ne])
        full[:, ne:] = run.slopes[:, ne:]
        of_node, of_next, *_ = self._entries
        parts = [_entries_of(full, of_node), _entries_of(link, of_next), self.linear_part[2]]
        if self.problem.periodic:
            slope = self.rates.link.first(*self._ends(Y))[1][0]
            parts.append(slope[np.nonzero(self.rates.link.patterns[0])])
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
        if self.problem.periodic:
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
        dynamics = lam[: N * nx].reshape(N, nx)
        of_coordinates = (dynamics[:, None, :ne] @ link[:, :, :ne])[:, 0]
        adjoint = np.concatenate([of_coordinates, dynamics[:, ne:]], axis=1)
        total = self.shooting.hessians(run, adjoint, cost_weight)
        *_, curve, cross, last = self._entries
        parts = []
        if P.linked:
            _, second, multipliers, _, _, bent = self._links
            multipliers[...] = dynamics[:, :ne]
            second()
            D = run.slopes[:, :ne]
            DT = np.swapaxes(D, 1, 2)
            total += DT @ (bent[:, :ne, :ne] @ D)
            parts = [_entries_of(DT @ bent[:, :ne, ne:], cross), _entries_of(bent, last)]
        parts.insert(0, _entries_of(total, curve))
        if self.problem.periodic:
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
