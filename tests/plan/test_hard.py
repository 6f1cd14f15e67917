"""Plans from the default guess with badly scaled numbers, or with singularities that coarse steps jump over."""

from __future__ import annotations

import numpy as np
import pytest
from plan.test_transcription import program

import heavytop as ht
from heavytop.errors import PlanError
from heavytop.ocp import Transcription
from heavytop.ocp.solvers import Solution, SolveRequest
from heavytop.plan import Effort, InfeasibleError, Ipopt, KeepOut, Nlpsol, OwnCost, Plan, Speed, solve as solving
from heavytop.plan.problem_builder import HEAVY
from heavytop.plan.result import Attempt


def car(unit: float = 1.0) -> ht.Model:
    system = ht.library.car()
    system.input("drive", ht.Wrench("chassis", force=(unit, 0, 0)))
    return system.derive()


def aside(model: ht.Model, path=(), unit: float = 1.0):
    cost = 1e-4 * Effort(weights=[1.0, unit**2]) + Speed()
    return ht.plan(model, np.zeros(4), [6.0, 2.0, 0.0, 0.0], 4.0, path=path, cost=cost, steps=40, iterations=300)


@pytest.mark.thorough
def test_car_around_an_obstacle_from_the_default_guess() -> None:
    """The straight guess passes the centre of the sphere; forces in N move a tonne."""
    plan = aside(car(), [KeepOut("chassis", (3.0, 1.0, 0.0), 0.5)])
    assert plan.accuracy < 1e-8
    assert plan.cost == pytest.approx(1589.86, rel=1e-4)
    assert np.linalg.norm(plan.q[:, :2] - [3.0, 1.0], axis=1).min() > 0.5 - 1e-6


@pytest.mark.thorough
def test_coarse_steps_do_not_jump_over_a_singularity() -> None:
    """Steps of order 4 let the wheels pass 90 degrees at a third less cost, which is not a motion: it is solved again with accurate steps."""
    plan = aside(car())
    assert plan.attempts[0].defect > solving.COARSE
    assert plan.accuracy < 1e-8
    assert np.abs(plan.q[:, 3]).max() < 1.0
    assert plan.cost == pytest.approx(1384.0545, rel=1e-4)


@pytest.mark.thorough
def test_units_of_inputs_do_not_change_the_plan() -> None:
    """A sled of ten tonnes, pushed in N and in kN, and by a solver that does not scale."""
    plans = []
    for unit, solver in ((1.0, None), (1000.0, None), (1.0, Nlpsol())):
        system = ht.System(gravity=(0, 0, 0), name="sled")
        system.body("sled", joint=ht.Prismatic("x"), inertia=ht.Inertia(1e4))
        system.input("F", ht.JointForce("sled", gear=unit))
        model, limits = system.derive(), (-2e4 / unit, 2e4 / unit)
        cost = Speed() + 1e-9 * unit**2 * Effort()
        plans.append(ht.plan(model, [0.0], [1.0], 2.0, limits=limits, cost=cost, steps=20, solver=solver))
        u = plans[-1].u * unit
        np.testing.assert_allclose(u, plans[0].u, atol=1.0)
        assert plans[-1].cost == pytest.approx(plans[0].cost, rel=1e-6)
    assert plans[0].problem.units == pytest.approx([1e4])
    assert plans[1].problem.units == pytest.approx([1.0])  # 10 kN for 1 m/s^2 is below HEAVY
    assert HEAVY > 10.0
    labels = [{item.label.split(" of ")[0].split()[0] for item in plan.active} for plan in plans]
    assert labels[0] == labels[1] == labels[2]


@pytest.mark.thorough
def test_multipliers_do_not_depend_on_the_scaling() -> None:
    """Bounds and dynamics have the multipliers that another solver finds without scaling."""
    model = car()
    limits = {"drive": (-3000.0, 3000.0)}
    options = {"limits": limits, "cost": 1e-4 * Effort() + Speed(), "steps": 12}
    ends = ([0.0, 0, 0, 0], [3.0, 0.2, 0, 0])
    ours, other = (ht.plan(model, *ends, 4.0, tolerance=1e-3, solver=s, **options) for s in (None, Nlpsol()))
    assert ours.cost == pytest.approx(other.cost, rel=1e-7)
    for name, values in other.multipliers.items():
        scale = max(1.0, np.abs(values).max())
        np.testing.assert_allclose(ours.multipliers[name] / scale, values / scale, atol=1e-5)


def test_units_of_linear_inputs() -> None:
    made, _ = program(car(), np.zeros(4), np.array([6.0, 2.0, 0, 0]), None, limits=(-1e4, 1e4), rates=1e4, steps=4)
    units = made.nodes(made.units)
    layout = made.layout
    assert np.all(units[:, layout.s] == units[:, layout.c])
    assert units[0, layout.s][1] == pytest.approx(made.problem.units[1])
    assert made.problem.units[1] > 1000.0
    assert np.all(units[:, : made.rates.nx] == 1.0)


def attempt(steps: int, defect: float) -> Attempt:
    return Attempt(8, 1, steps, 10, 0.0, 0.0, defect)


def test_refinement_ends_when_it_stagnates() -> None:
    assert solving._stagnates([attempt(10, 1e-2), attempt(20, 9e-3), attempt(40, 8e-3)])
    assert not solving._stagnates([attempt(10, 1e-2), attempt(20, 9e-3), attempt(40, 1e-3)])
    assert not solving._stagnates([attempt(10, 1e-2), attempt(10, 9e-3), attempt(20, 8e-3)])
    assert not solving._stagnates([attempt(10, 1e-2), attempt(20, 9e-3)])


def test_solutions_that_are_not_motions_raise(monkeypatch: pytest.MonkeyPatch) -> None:
    """No integration reproduces the solution, from the guess and with half the steps."""
    cart = ht.library.cart_pole().derive()
    monkeypatch.setattr(solving, "COARSE", 0.0)
    with pytest.raises(PlanError, match="10 steps .* singularity"):
        ht.plan(cart, [0.0, 0.0], [0.1, 0.0], 1.0, steps=5, guess="straight")


@pytest.mark.thorough
def test_diverging_iterates_do_not_warn() -> None:
    """A cost without a lower bound drives the inputs to infinity; the error is typed, without warnings of NumPy."""
    cart = ht.library.cart_pole().derive()
    with pytest.raises(PlanError, match="no plan of 'cart and pole' was found"):  # a warning would be an error
        ht.plan(cart, [0, 0], [1, 0], 1.0, cost=OwnCost(lambda u: -(u[0] ** 2)), steps=10, iterations=60)


class Counting(Ipopt):
    """IPOPT that notes the iterations of all solutions of a problem itself, without those of its diagnosis."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: list[int] = []

    def solve(self, request: SolveRequest) -> Solution:
        solution = super().solve(request)
        if isinstance(request.program, Transcription):
            self.counts.append(solution.iterations)
        return solution


@pytest.mark.thorough
def test_solutions_share_a_ration_of_iterations() -> None:
    """A snakeboard at rest, wheels straight, has no way forwards to first order: all solutions from a guess end within its ration."""
    board, solver = ht.library.snakeboard().derive(), Counting()
    ahead = board.neutral()
    ahead[0] = 0.5
    with pytest.raises(
        InfeasibleError, match="Tried: the straight guess and 8 simulated motions with at most 10 iterations each"
    ):
        ht.plan(board, board.neutral(), ahead, solver=solver, iterations=10, steps=20)
    # 30 from the straight guess, 10 from each simulated motion
    assert 10 <= sum(solver.counts) <= 110 + len(solver.counts)


def checked_motion(plan: Plan, goal: np.ndarray) -> None:
    """The inputs alone, simulated with other steps, lead to the goal at rest."""
    np.testing.assert_allclose(plan.q[-1], goal, atol=1e-8)
    run = ht.simulate(plan.model, (plan.q[0], plan.v[0]), plan.duration, 1e-3, inputs=plan.u[:-1].repeat(100, axis=0))
    np.testing.assert_allclose(run.q[-1], goal, atol=1e-5)
    np.testing.assert_allclose(run.v[-1], 0.0, atol=1e-5)


@pytest.mark.thorough
@pytest.mark.parametrize("limited", [True, False])
def test_a_snakeboard_starts_from_rest(limited: bool) -> None:
    """No input pushes it: simulated motions are the guesses, of which some are solved; their number is reported."""
    board = ht.library.snakeboard().derive()
    goal = board.neutral()
    goal[0] = 1.0
    limits = dict.fromkeys(("front.angle", "back.angle"), (-1.2, 1.2)) if limited else None
    plan = ht.plan(board, board.neutral(), goal, 6.0, limits=limits)
    assert plan.accuracy < 1e-8
    assert plan.cost < (0.6 if limited else 0.9)
    checked_motion(plan, goal)
    assert plan.starts is not None
    assert plan.starts.costs[0] == np.inf
    assert f"best of {len(plan.starts.costs)} starts" in plan.report()
    assert ("falls further outside" in plan.message) is not limited
    q, v, _ = plan.reference(np.linspace(0.0, plan.duration, 400))
    for residual in board.constraint_residuals(q, v):
        assert np.abs(residual).max(initial=0.0) < 1e-15


@pytest.mark.thorough
def test_a_car_parks_aside() -> None:
    """3 m aside at rest, wheels straight at both ends, without a limit of the steering."""
    model, goal = car(), np.array([0.0, 3.0, 0.0, 0.0])
    plan = ht.plan(model, np.zeros(4), goal)
    assert plan.accuracy < 1e-8
    assert np.abs(plan.q[:, 3]).max() < 1.5
    np.testing.assert_allclose(plan.q[-1], goal, atol=1e-8)
    assert plan.starts is not None
    assert np.isfinite(plan.starts.costs).sum() >= 1
