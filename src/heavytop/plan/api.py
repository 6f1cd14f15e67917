"""``plan``: from a model, a start and a goal to an optimal motion within limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from heavytop._progress import Progress
from heavytop.errors import PlanError
from heavytop.ocp.solvers import Solver, default_solver
from heavytop.ocp.solvers.fatrop import Fatrop
from heavytop.plan.constraints import Constraint
from heavytop.plan.costs import Cost
from heavytop.plan.feasibility.infeasible import InfeasibleError
from heavytop.plan.feasibility.reach import check_numbers
from heavytop.plan.guess import as_guess
from heavytop.plan.multistart import best_of
from heavytop.plan.problem import Phase
from heavytop.plan.problem_builder import Duration, check_option, describe
from heavytop.plan.result import Plan
from heavytop.plan.solve import solve
from heavytop.system.model import Model

RETRIES = 4
"""Random guesses after a straight one that leads nowhere."""


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
    guesses: int = 0,
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
    start : configuration (nq,) at rest, state (q, v), or constraints on a start that is to be found.
    goal : the same for the end.
    duration : seconds, a pair (shortest, longest), or None: free.
    limits : pair (lower, upper) of the inputs, or mapping from names of inputs, velocities and coordinates to pairs and from joints to their
        :class:`.JointLimits`: ``system.limits`` as it is.
    rates : limits of the rates of the inputs: a number, a pair or a mapping; inputs are linear in time then.
    reserve : share of the inputs that is left to feedback: limits are drawn towards the inputs in balance by this part of the way. A plan
        in least time leaves a law nothing to correct with; 0.1 to 0.2 is enough for parameters that are 10 % wrong.
    path : constraints all the way (:class:`KeepOut`, :class:`KeepIn`, :class:`Cone`, ...) and gates in order (:class:`Gate`).
    cost : what is made least; default: time with a little effort if the duration is free, otherwise effort.
    guess : a :class:`Plan`, :class:`~heavytop.control.Reference` or :class:`~heavytop.simulate.Run`; None: straight on the manifold.
    guesses : number of random guesses that are tried beside the first one; the best plan is kept. If no guess is given and the straight
        one leads nowhere, four random ones are tried in any case.
    steps : number of intervals in which an input is held (or linear); default: 60.
    phases : instead of duration, steps and gates: parts with their own durations, steps and constraints.
    inputs : "held" or "linear" between the nodes.
    method : "shooting" integrates intervals by explicit steps, "collocation" by implicit ones (Radau's points, the stages eliminated);
        "auto" collocates where the motion is stiff, if the solver is not :class:`Fatrop`, which takes explicit steps only.
    periodic : the motion ends in the state in which it starts.
    tolerance : largest difference of an interval from a fine simulation; the integration is refined until it is met.
    iterations : of the solver at most. solver : default: IPOPT with native callbacks.
    progress : show progress; None: on a terminal, after a second. Ctrl-C returns the best motion so far.

    Raises
    ------
    PlanError
        The description contradicts itself; or no motion fulfils it: then the error says which constraint is missed when and by how much.

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
        method = "shooting"  # all that it takes
    problem = describe(
        model, start, goal, duration, limits=limits, rates=rates, path=path, cost=cost, steps=steps, phases=phases,
        inputs=inputs, parameters=parameters, periodic=periodic, reserve=reserve, method=method,
        guessed=guess is not None,
    )  # fmt: skip
    for name, value in (("tolerance", tolerance), ("guesses", guesses), ("iterations", iterations)):
        check_option(name, value)
    if solver is not None and not callable(getattr(solver, "solve", None)):
        raise PlanError(
            f"solver must be Ipopt(), Fatrop(), Nlpsol() or an object with their method solve, got {solver!r}."
        )
    solver = default_solver() if solver is None else solver
    first = as_guess(problem, guess)
    check_numbers(problem, first)
    with Progress(f"plan of {model.name}", progress) as bar:
        tell = lambda iteration, cost, violation: bar.update(1.0 - 0.98**iteration)  # noqa: E731
        if guesses:
            return best_of(problem, [first], guesses, seed, solver, tolerance, iterations)
        try:
            return solve(problem, first, solver, tolerance, iterations, tell)
        except InfeasibleError as error:
            if guess is not None:
                raise
            # a straight guess may be a dead end, where no small change helps: bent ones leave it
            try:
                return best_of(problem, [], RETRIES, seed, solver, tolerance, iterations)
            except InfeasibleError:
                raise error from None
