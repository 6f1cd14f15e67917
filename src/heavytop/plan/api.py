"""``plan``: from a model, a start and a goal to an optimal motion within limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from heavytop._progress import Progress
from heavytop.errors import PlanError
from heavytop.ocp import Fatrop
from heavytop.ocp.solvers import Solver, default_solver
from heavytop.plan.constraints import Constraint
from heavytop.plan.costs import Cost
from heavytop.plan.guess import as_guess
from heavytop.plan.infeasible import InfeasibleError
from heavytop.plan.necessary_conditions import check_numbers
from heavytop.plan.problem import Phase
from heavytop.plan.problem_builder import Duration, ProblemArguments, build_problem, check_options
from heavytop.plan.result import Plan
from heavytop.plan.solve import STRAIGHT_SHARE, SolveOptions, best_of, further_starts, is_swing_up, retried, solve
from heavytop.system import Model


def plan(
    model: Model,
    start: Any,
    goal: Any = None,
    duration: Duration = None,
    *,
    limits: Any = None,
    rates: Any = None,
    reserve: float = 0.0,
    path: Sequence[Constraint] = (),
    cost: Cost | None = None,
    guess: Any = None,
    guesses: int | None = None,
    steps: int | None = None,
    phases: Sequence[Phase] | None = None,
    inputs: str = "held",
    method: str = "auto",
    periodic: bool = False,
    parameters: Mapping[str, Any] | None = None,
    tolerance: float = 1e-8,
    iterations: int = 1000,
    solver: Solver | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Plan:
    """Plan an optimal motion on the manifold.

    Parameters
    ----------
    model : a derived model with inputs.
    start : configuration (nq,) at rest, state (q, v), or constraints on an unknown start.
    goal : the same for the end.
    duration : seconds, a pair (shortest, longest), or None: free.
    limits : pair (lower, upper) of the inputs, or mapping from names of inputs, velocities and coordinates to pairs and from joints to their
        :class:`.JointLimits`, such as ``system.limits``.
    rates : limits of the rates of the inputs: a number, a pair or a mapping; inputs are then linear in time.
    reserve : share of the inputs reserved for feedback: limits are moved towards the inputs in balance by this share. A plan
        of least time leaves a law no input to correct with; 0.1 to 0.2 is enough for parameters that are 10 % wrong.
    path : path constraints (:class:`KeepOut`, :class:`KeepIn`, :class:`Cone`, ...) and gates in order (:class:`Gate`).
    cost : the minimised cost; default: time with a little effort if the duration is free, otherwise effort. User-defined functions of costs and
        constraints are traced when the plan is made.
    guess : a :class:`Plan`, :class:`~heavytop.control.Reference` or :class:`~heavytop.simulate.Run`; None: straight on the manifold.
    guesses : number of random guesses tried besides the first one; the best plan is returned, and ``plan.starts`` has all costs. None: eight
        with at most 400 iterations each if no guess is given and a joint without input turns by more than a quarter turn in a given
        time (swing-ups have many optima), otherwise 0. If no guess is given and the straight one has no success, up to eight simulated motions
        with at most 400 iterations each are tried in any case.
    steps : number of intervals with held (or linear) inputs; default: 60.
    phases : instead of duration, steps and gates: phases with their own durations, steps and constraints.
    inputs : "held" or "linear" between the nodes.
    method : "shooting" integrates intervals by explicit steps, "collocation" by implicit ones (Radau points, the stages eliminated);
        "auto" collocates stiff motions, unless the solver is :class:`Fatrop`, which takes explicit steps only.
    periodic : the motion ends in the state in which it starts.
    tolerance : largest difference of an interval from a fine simulation; the integration is refined until it is met.
    iterations : largest number of iterations of one solution; all solutions from the default guess have at most three times as many.
    solver : default: IPOPT with native callbacks.
    progress : show progress; None: on a terminal, after a second. Ctrl-C returns the best motion so far.

    Raises
    ------
    PlanError
        The arguments contradict each other; or no motion fulfils them: then the error states which constraint is violated when and by how much.

    Examples
    --------
    >>> import numpy as np
    >>> import heavytop as ht
    >>> cart = ht.library.cart_pole().derive()
    >>> swing = ht.plan(cart, start=[0, np.pi], goal=[0, 0], duration=2.0, limits=(-20, 20), steps=40, tolerance=1e-4)
    >>> swing.q[-1].round(6) + 0.0
    array([0., 0.])
    """
    if method == "auto" and isinstance(solver, Fatrop):
        method = "shooting"
    check_options(tolerance=tolerance, guesses=guesses or 0, iterations=iterations)
    problem = build_problem(
        ProblemArguments(
            model, start, goal, duration, limits, rates, reserve, path, cost, steps, phases, inputs, method, periodic, parameters
        )
    )  # fmt: skip
    if solver is not None and not callable(getattr(solver, "solve", None)):
        raise PlanError(f"solver must be Ipopt(), Fatrop(), Nlpsol() or an object with a method solve, got {solver!r}.")
    first = as_guess(problem, guess)
    check_numbers(problem, first)
    with Progress(f"plan of {model.name}", progress) as bar:
        callback = lambda iteration, cost, violation: bar.update(1.0 - 0.98**iteration)  # noqa: E731
        options = SolveOptions(default_solver() if solver is None else solver, tolerance, iterations, callback)
        if guesses:
            return best_of(problem, [first], guesses, seed, options)
        if guess is not None:
            return solve(problem, first, options)
        try:
            plan = solve(problem, first, replace(options, ration=STRAIGHT_SHARE * iterations))
        except InfeasibleError as error:
            failure = error
        else:
            if guesses is None and plan.converged and is_swing_up(problem):
                return further_starts(problem, plan, seed, options)
            return plan
        # a straight guess may be a dead end, simulated motions are not
        return retried(problem, failure, seed, options)
