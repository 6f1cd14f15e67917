"""The functions of a problem as native code: the integrand of its cost and its constraints at nodes."""

from __future__ import annotations

import numpy as np

from heavytop._arrays import Array, split, symbol
from heavytop.ocp.chart_dynamics import ChartRates, Derivatives
from heavytop.ocp.charts import chart
from heavytop.ocp.node_blocks import Block
from heavytop.ocp.transcription import Transcription
from heavytop.plan.constraints import Constraint, Rest
from heavytop.plan.costs import Distance, Jerk, RunningCost, Time
from heavytop.plan.loops import followed_velocities
from heavytop.plan.problem import Problem
from heavytop.plan.scene import NodeScene, node_function
from heavytop.simulate.integrators.tableaus import RK4, Tableau


class Functions:
    """Everything of a problem that depends neither on the centres nor on the integration."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.time_weight = sum(weight for weight, term in problem.cost.terms if isinstance(term, Time))
        others = [(weight, term) for weight, term in problem.cost.terms if not isinstance(term, Time) and weight > 0]
        terms = [(weight, term) for weight, term in others if isinstance(term, RunningCost)]
        self._at_nodes = [(weight, term) for weight, term in others if isinstance(term, Distance)]
        self._terms = terms
        self.own = np.concatenate([np.r_[weight, term.own(problem.model)] for weight, term in terms] or [np.zeros(0)])
        self.integrand = self._integrand() if terms else None
        self._known: dict[str, Derivatives] = {}

    def _integrand(self) -> Derivatives:
        model, rates, terms = self.problem.model, ChartRates.of(self.problem.model), self._terms
        sizes = [1 + len(term.own(model)) for _, term in terms]
        rated = any(isinstance(term, Jerk) for _, term in terms)

        def build() -> tuple[Array, Array, dict[str, Array]]:
            y = symbol("y", rates.nx + (2 if rated else 1) * rates.nu)
            symbols, own = rates.symbols(), symbol("own", sum(sizes))
            e, v, u, u_rate = split(y, (rates.ne, rates.nv, rates.nu, rates.nu if rated else 0))
            q = chart(model.coordinates, symbols["q_bar"], e)
            total: Array = 0.0
            for (_, term), numbers in zip(terms, split(own, sizes), strict=True):
                scene = NodeScene(model, q, v, u, symbols["p"], numbers[1:], u_rate)
                total = total + numbers[0] * term.integrand(scene)
            return np.reshape(total, (1,)), y, {**symbols, "own": own}

        kinds = [term.kind for _, term in terms]
        mark = model.description.fingerprint
        known = mark is not None and all(kind is not None for kind in kinds)
        return Derivatives("integrand", build, f"{mark} {kinds}" if known else None)

    def function(self, constraint: Constraint) -> Derivatives:
        """The function of a constraint; kinds share it."""
        key = constraint.kind or f"{id(constraint)}"
        if key not in self._known:
            self._known[key] = node_function(
                self.problem.model, "constraint", constraint.function, len(constraint.own), constraint.kind
            )
        return self._known[key]

    def blocks(self) -> list[Block]:
        """All constraints at all their nodes, one block for each kind."""
        problem = self.problem
        wanted: dict[str, list[tuple[Constraint, np.ndarray]]] = {}

        def add(constraint: Constraint, nodes: np.ndarray) -> None:
            function = self.function(constraint)
            if function.patterns[0][:, ChartRates.of(problem.model).nx :].any() and not problem.linear:
                nodes = nodes[nodes < problem.steps]  # the last node has no input
            if len(nodes):
                wanted.setdefault(constraint.kind or f"{id(constraint)}", []).append((constraint, nodes))

        every = np.arange(problem.steps + 1)
        for constraint in problem.begin:
            add(constraint, every[:1])
        inner = every[int(problem.start is not None) : len(every) - int(problem.goal is not None)]
        for constraint in problem.path:
            depends = self.function(constraint).patterns[0][:, ChartRates.of(problem.model).nx :].any()
            add(constraint, every if depends else inner)
        first = 0
        for phase, last in zip(problem.phases, problem.ends, strict=True):
            nodes = every[first : last + 1]
            for constraint in phase.path:
                add(constraint, nodes[np.isin(nodes, inner)])
            for constraint in phase.end:
                add(constraint, every[last : last + 1])
            first = int(last)
        return [*(self._block(items) for items in wanted.values()), *self._cost_blocks()]

    def _cost_blocks(self) -> list[Block]:
        """Costs that are sums over nodes."""
        problem, model, blocks = self.problem, self.problem.model, []
        parts = np.array([phase.steps for phase in problem.phases], dtype=float)[problem.phase_of_interval]
        lengths = np.array([phase.shortest for phase in problem.phases])[problem.phase_of_interval] / parts
        for weight, term in self._at_nodes:
            key = f"distance {id(term)}"
            if key not in self._known:
                self._known[key] = node_function(model, "distance", term.at_node, model.nq + model.nv, None)
            times = np.concatenate([[0.0], np.cumsum(lengths)])
            q_R, v_R, _ = term.reference(times)
            nodes, own = np.arange(problem.steps + 1), np.concatenate([problem.with_time(q_R, times), v_R], axis=1)
            weights = weight * (np.r_[lengths, 0.0] + np.r_[0.0, lengths]) / 2  # trapezoidal rule
            none = np.zeros((len(nodes), 1))
            blocks.append(Block(self._known[key], nodes, own, none, none, [], weights))
        return blocks

    def _block(self, items: list[tuple[Constraint, np.ndarray]]) -> Block:
        model = self.problem.model
        repeat = lambda rows: np.concatenate(  # noqa: E731
            [np.broadcast_to(row, (len(nodes), len(row))) for row, (_, nodes) in zip(rows, items, strict=True)]
        )
        bounds = [constraint.bounds(model) for constraint, _ in items]
        return Block(
            self.function(items[0][0]),
            np.concatenate([nodes for _, nodes in items]),
            repeat([constraint.own for constraint, _ in items]),
            repeat([low for low, _ in bounds]),
            repeat([high for _, high in bounds]),
            [constraint for constraint, nodes in items for _ in nodes],
        )

    def transcription(self, centres: np.ndarray, tableau: Tableau = RK4, substeps: int = 1) -> Transcription:
        """The nonlinear program around the centres."""
        blocks = self.blocks()
        for block in blocks if self.problem.model.is_constrained else ():
            self._free_velocities(block, centres)
        program = Transcription(self.problem, centres, tableau, substeps, blocks, self.integrand, self.time_weight)
        if self.integrand is not None:
            program._integrand_own = self.own
        return program

    def _free_velocities(self, block: Block, centres: np.ndarray) -> None:
        """Rest asks for independent velocities only: the others follow by loops and constraints, which hold along the motion."""
        for k, node in enumerate(block.nodes):
            if block.constraints and isinstance(block.constraints[k], Rest):
                follows = followed_velocities(self.problem, centres[node])
                block.lower[k, follows], block.upper[k, follows] = -np.inf, np.inf
