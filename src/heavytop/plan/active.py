"""Active bounds and constraints of a plan, with their multipliers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from heavytop.ocp import Transcription
from heavytop.ocp.solvers import Solution
from heavytop.plan.result import Active

LEAST = 1e-6
"""Smaller multipliers are left by the barrier of a solver."""


def active(program: Transcription, solution: Solution, times: np.ndarray) -> list[Active]:
    """Active bounds of inputs, velocities, rates and durations and active inequalities of the plan with nodes at ``times``."""
    return [
        *_variables(program, solution, times),
        *_rates(program, solution, times),
        *_durations(program, solution, times),
        *_constraints(program, solution, times),
    ]


def _variables(program: Transcription, solution: Solution, times: np.ndarray) -> Iterator[Active]:
    """Bounds of inputs and velocities."""
    model, layout = program.problem.model, program.layout
    for names, place in ((model.u_names, layout.u), (model.v_names, layout.v)):
        for name, column in zip(names, range(place.start, place.stop), strict=True):
            for side, nodes, lam, bound in _held(program, solution, column):
                yield Active(f"{side} limit {bound[0]:.4g} of {name!r}", times[nodes], lam)


def _held(
    program: Transcription, solution: Solution, column: int
) -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray]]:
    """Side, nodes, multipliers and bounds where one variable of the nodes is at its bounds."""
    lower, upper = program.nodes(program.lower)[:, column], program.nodes(program.upper)[:, column]
    at = program.nodes(solution.x)[:, column]
    width = np.where(
        np.isfinite(upper - lower) & (upper > lower), upper - lower, 1.0
    )  # limits may be micro- or meganewtons
    for side, multipliers, bound in (("lower", solution.lower_lam, lower), ("upper", solution.upper_lam, upper)):
        lam = program.nodes(multipliers)[:, column]
        gap = np.abs(at - bound)  # away from a bound the multiplier is left by the barrier
        nodes = np.nonzero((lower < upper) & (lam * width > np.maximum(LEAST, gap / width)))[0]
        if len(nodes):
            yield side, nodes, lam[nodes], bound[nodes]


def _rates(program: Transcription, solution: Solution, times: np.ndarray) -> Iterator[Active]:
    """Bounds of the rates of inputs: bounds of variables if the duration is fixed, otherwise rows."""
    problem, layout = program.problem, program.layout
    if problem.bounds.rate is None:
        return
    lengths, names = program.lengths(solution.x), problem.model.u_names
    text = "{} limit {:.4g} of the rate of {!r}"
    if not layout.free:
        for k, name in enumerate(names):
            for side, nodes, lam, bound in _held(program, solution, layout.c.start + k):
                rate = bound[0] / lengths[nodes[0]]
                yield Active(text.format(side, rate, name), times[nodes], lam * lengths[nodes])
        return
    values, start = program.values(solution.x), program.offsets["rates"]
    for side, (inputs, bounds) in zip(("upper", "lower"), program.rate_sides, strict=True):
        size = program.count * len(inputs)
        rows, lam = (part[start : start + size].reshape(program.count, len(inputs)) for part in (values, solution.lam))
        held = np.abs(lam) > np.maximum(LEAST, np.abs(rows))
        for j, k in enumerate(inputs):
            nodes = np.nonzero(held[:, j])[0]
            if len(nodes):
                label = text.format(side, bounds[j], names[k])
                yield Active(label, times[nodes], np.abs(lam[nodes, j]) * lengths[nodes])
        start += size


def _durations(program: Transcription, solution: Solution, times: np.ndarray) -> Iterator[Active]:
    """Bounds of the durations of phases and of the whole motion."""
    problem, layout = program.problem, program.layout
    if not layout.free:
        return
    first, several = np.r_[0, problem.ends[:-1]], len(problem.phases) > 1
    text = {"lower": "shortest", "upper": "longest"}
    for side, nodes, lam, bound in _held(program, solution, layout.tau):
        for node, one, limit in zip(nodes, lam, bound, strict=True):
            phase = np.nonzero(first == node)[0]
            if len(phase):
                of = f" of phase {phase[0] + 1}" if several else ""
                yield Active(f"{text[side]} duration {limit:.4g} s{of}", times[problem.ends[phase]], np.array([one]))
    if program.bounded_total:
        row = program.offsets["total"]
        lam, total = float(solution.lam[row]), float(times[-1])
        side, limit = ("upper", program.row_bounds[1][row]) if lam > 0 else ("lower", program.row_bounds[0][row])
        open_ = program.row_bounds[0][row] < program.row_bounds[1][row]
        if open_ and abs(lam) > max(LEAST, abs(total - limit)):
            yield Active(f"{text[side]} duration {limit:.4g} s", times[-1:], np.array([abs(lam)]))


def _constraints(program: Transcription, solution: Solution, times: np.ndarray) -> Iterator[Active]:
    """Inequalities at nodes."""
    values = program.values(solution.x)
    for i, block in enumerate(program.constraints):
        start = program.offsets[f"block{i}"]
        lam = np.abs(solution.lam[start : start + block.rows].reshape(block.lower.shape))
        rows = values[start : start + block.rows].reshape(block.lower.shape)
        gap = np.minimum(np.abs(rows - block.lower), np.abs(rows - block.upper))
        lam = np.where((block.lower < block.upper) & (lam > gap), lam, 0.0).max(axis=1)
        for label in dict.fromkeys(block.labels):
            held = np.array([other == label for other in block.labels]) & (lam > LEAST)
            if held.any():
                order = np.argsort(block.nodes[held], kind="stable")
                yield Active(label, times[block.nodes[held][order]], lam[held][order])
