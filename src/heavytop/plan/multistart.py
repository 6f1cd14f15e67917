"""Multi-start: the best plan of several guesses; on Linux they are solved in parallel."""

from __future__ import annotations

import multiprocessing
import os
import sys
from dataclasses import replace
from typing import Any

import numpy as np

from heavytop.plan.feasibility.infeasible import InfeasibleError
from heavytop.plan.guess import Guess, random
from heavytop.plan.problem import Problem
from heavytop.plan.result import Plan
from heavytop.plan.solve import SolveOptions, solve


def best_of(problem: Problem, first: list[Guess], count: int, seed: int, options: SolveOptions) -> Plan:
    """The plan of least cost from the first guesses and ``count`` random ones.

    Guess i depends on the seed and i only, so that more guesses never make the result worse.
    """
    options = replace(options, callback=None)
    trials = [*first, *(random(problem, np.random.default_rng([seed, i])) for i in range(count))]
    costs = _costs(problem, trials, replace(options, tolerance=np.inf))
    ranked = [k for k in np.argsort(costs, kind="stable") if np.isfinite(costs[k])]
    if not ranked:
        return solve(problem, trials[0], options)  # raises the reason
    error: InfeasibleError | None = None
    for k in ranked:
        try:
            return solve(problem, trials[k], options)
        except InfeasibleError as caught:
            error = caught
    raise error if error is not None else AssertionError("no guess was tried")


def _costs(problem: Problem, trials: list[Guess], options: SolveOptions) -> np.ndarray:
    """Cost from every guess on the coarsest integration; infinite without a plan."""

    def cost(guess: Guess) -> float:
        try:
            return solve(problem, guess, options).cost
        except InfeasibleError:
            return np.inf

    workers = min(len(trials), os.cpu_count() or 1)
    if workers < 2 or not sys.platform.startswith("linux"):
        return np.array([cost(guess) for guess in trials])
    costs = [cost(trials[0])]  # compiles the functions of the others
    context: Any = multiprocessing.get_context("fork")
    rest = trials[1:]
    shares = [list(range(w, len(rest), workers)) for w in range(workers)]
    pipes = []
    for share in shares:
        receive, send = context.Pipe(duplex=False)
        work = context.Process(
            target=lambda s=share, pipe=send: pipe.send([(i, cost(rest[i])) for i in s]), daemon=True
        )
        work.start()
        send.close()
        pipes.append((receive, work))
    found = np.full(len(rest), np.inf)
    for receive, work in pipes:
        try:
            for i, value in receive.recv():
                found[i] = value
        except EOFError:
            pass  # a process that died: its guesses count as failed
        work.join()
    return np.concatenate([costs, found])
