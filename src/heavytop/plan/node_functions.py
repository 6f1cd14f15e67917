"""Native functions of a problem: the integrand of its cost and its constraints at nodes."""

from __future__ import annotations

import numpy as np

from heavytop._arrays import Array, concatenate, split, symbol
from heavytop.ocp import Block, Derivatives, Expression, Transcription
from heavytop.plan.constraints import Rest
from heavytop.plan.costs import Distance, Jerk, RunningCost, Time
from heavytop.plan.loops import followed_velocities
from heavytop.plan.problem import BoundConstraint, Problem
from heavytop.plan.scene import NodeScene, node_function
from heavytop.simulate import RK4, Tableau

Placed = list[tuple[BoundConstraint, np.ndarray]]
"""Constraints with the nodes at which they hold."""


class NodeFunctions:
    """The functions of a problem, which depend neither on the chart centres nor on the integration."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.rates = problem, problem.rates
        self.time_weight = sum(weight for weight, term in problem.cost.terms if isinstance(term, Time))
        others = [(weight, term) for weight, term in problem.cost.terms if not isinstance(term, Time) and weight > 0]
        self._terms = [(weight, term) for weight, term in others if isinstance(term, RunningCost)]
        self._at_nodes = [(weight, term) for weight, term in others if isinstance(term, Distance)]
        numbers = [np.r_[weight, term.constants(problem.model)] for weight, term in self._terms]
        self.constants = np.concatenate(numbers or [np.zeros(0)])
        self.integrand = self._integrand() if self._terms else None

    def _integrand(self) -> Derivatives:
        rates = self.rates
        sizes = [1 + len(term.constants(self.problem.model)) for _, term in self._terms]
        rated = any(isinstance(term, Jerk) for _, term in self._terms)

        def build() -> Expression:
            (y, symbols, q), constants = rates.node, symbol("constants", sum(sizes))
            _, v, u = split(y, (rates.ne, rates.nv, rates.nu))
            u_rate = symbol("u_rate", rates.nu if rated else 0)
            total: Array = 0.0
            for (_, term), numbers in zip(self._terms, split(constants, sizes), strict=True):
                scene = NodeScene(rates, q, v, u, symbols["p"], numbers[1:], u_rate)
                total = total + numbers[0] * term.integrand(scene)
            variables = concatenate(y, u_rate) if rated else y
            return np.reshape(total, (1,)), variables, {**symbols, "constants": constants}

        return rates.shared("integrand", build)

    def blocks(self) -> list[Block]:
        """All constraints at all their nodes, one block for each function."""
        problem = self.problem
        placed: dict[Derivatives, Placed] = {}

        def add(found: BoundConstraint, nodes: np.ndarray) -> None:
            if found.depends_on_inputs(self.rates) and not problem.linear:
                nodes = nodes[nodes < problem.steps]  # the last node has no input
            if len(nodes):
                placed.setdefault(found.function, []).append((found, nodes))

        bound, all_nodes = problem.bound_constraints, np.arange(problem.steps + 1)
        for constraint in problem.begin:
            add(bound[constraint], all_nodes[:1])
        inner = all_nodes[int(problem.start is not None) : len(all_nodes) - int(problem.goal is not None)]
        for constraint in problem.path:
            found = bound[constraint]
            add(found, all_nodes if found.depends_on_inputs(self.rates) else inner)
        first = 0
        for phase, last in zip(problem.phases, problem.ends, strict=True):
            nodes = all_nodes[first : last + 1]
            for constraint in phase.path:
                add(bound[constraint], nodes[np.isin(nodes, inner)])
            for constraint in phase.end:
                add(bound[constraint], all_nodes[last : last + 1])
            first = int(last)
        return [*(_block(items) for items in placed.values()), *self._cost_blocks()]

    def _cost_blocks(self) -> list[Block]:
        """Costs that are sums over nodes."""
        problem, blocks = self.problem, []
        parts = np.array([phase.steps for phase in problem.phases], dtype=float)[problem.phase_of_interval]
        lengths = np.array([phase.shortest for phase in problem.phases])[problem.phase_of_interval] / parts
        times, nodes = np.concatenate([[0.0], np.cumsum(lengths)]), np.arange(problem.steps + 1)
        unbounded = np.zeros((len(nodes), 1))
        for weight, term in self._at_nodes:
            function = node_function(self.rates, "distance", term.at_node, self.rates.nq + self.rates.nv)
            q_R, v_R, _ = term.reference(times)
            constants = np.concatenate([problem.with_time(q_R, times), v_R], axis=1)
            weights = weight * (np.r_[lengths, 0.0] + np.r_[0.0, lengths]) / 2  # trapezoidal rule
            blocks.append(Block(function, nodes, constants, unbounded, unbounded, [], weights))
        return blocks

    def transcription(self, centres: np.ndarray, tableau: Tableau = RK4, substeps: int = 1) -> Transcription:
        """The nonlinear program around the centres."""
        blocks = self.blocks()
        for block in blocks if self.problem.model.is_constrained else ():
            self._free_velocities(block, centres)
        return Transcription(
            self.problem, centres, tableau, substeps, blocks, self.integrand, self.constants, self.time_weight
        )

    def _free_velocities(self, block: Block, centres: np.ndarray) -> None:
        """Rest fixes independent velocities only: the others follow from loops and constraints, which hold along the motion."""
        for k, node in enumerate(block.nodes):
            if block.constraints and isinstance(block.constraints[k], Rest):
                follows = followed_velocities(self.problem, centres[node])
                block.lower[k, follows], block.upper[k, follows] = -np.inf, np.inf


def _block(items: Placed) -> Block:
    def repeated(rows: list[np.ndarray]) -> np.ndarray:
        return np.concatenate(
            [np.broadcast_to(row, (len(nodes), len(row))) for row, (_, nodes) in zip(rows, items, strict=True)]
        )

    return Block(
        items[0][0].function,
        np.concatenate([nodes for _, nodes in items]),
        repeated([found.constraint.constants for found, _ in items]),
        repeated([found.lower for found, _ in items]),
        repeated([found.upper for found, _ in items]),
        [found.constraint for found, nodes in items for _ in nodes],
    )
