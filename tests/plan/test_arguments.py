"""Invalid arguments of a plan raise errors before a solver starts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from plan.test_momentum import Never

import heavytop as ht
from heavytop.errors import ControlError, HeavytopError, PlanError, ShapeError, UnknownNameError
from heavytop.plan import (
    AtPose,
    Between,
    Distance,
    Effort,
    Gate,
    Guess,
    HalfSpace,
    KeepOut,
    Own,
    OwnCost,
    Phase,
    Rest,
    Speed,
)  # fmt: skip
from heavytop.plan.problem_builder import ProblemArguments, build_problem


@pytest.fixture(scope="module")
def sled() -> ht.Model:
    system = ht.System(gravity=(0, 0, 0), name="slider")
    system.body("sled", joint=ht.Prismatic("x"), inertia=ht.Inertia(2.0))
    system.input("F", ht.JointForce("sled"))
    return system.derive()


ARGUMENTS: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"limits": (1.0, -1.0)}, ControlError, "'F'"),
    ({"limits": {"F": (2, 1)}}, PlanError, "'F' are empty: lower 2, upper 1"),
    ({"limits": {"G": (1, 2)}}, UnknownNameError, "'G'"),
    ({"limits": {"wheel": ht.JointLimits(-1.0, 1.0)}}, UnknownNameError, "joint of 'slider'"),
    ({"limits": (-20.0, 20.0, 1.0)}, PlanError, "pair"),
    ({"limits": {"sled.x": (-1, 1)}}, PlanError, "goal .* violates 'sled.x'"),
    ({"limits": {"sled.v_x": (-1, 1)}}, PlanError, "'sled.v_x' is limited, .* 3 is 1 too far"),
    ({"rates": -1.0}, PlanError, "rate .* positive"),
    ({"duration": 0.0}, PlanError, "positive"),
    ({"duration": (2.0, 1.0)}, PlanError, "shortest <= longest"),
    ({"duration": "soon"}, PlanError, "'free'"),
    ({"duration": None, "cost": Effort()}, PlanError, "no optimum"),
    ({"duration": None, "phases": [Phase(1.0, 2.0, 6)], "steps": 55}, PlanError, "steps belong to the phases"),
    ({"duration": None, "phases": [Phase(1.0, 1.0, 0)]}, PlanError, "steps of a phase"),
    ({"duration": None, "phases": [Phase(1, 2, 5, path=(Gate("sled", (0.5, 0, 0)),))]}, PlanError, "gate"),
    ({"path": [KeepOut("wheel", (0, 0, 0), 1.0)]}, UnknownNameError, "wheel"),
    ({"path": [KeepOut("sled", (3, 0, 0), 1.0)]}, PlanError, "goal cannot be reached"),
    ({"path": [KeepOut("sled", (0, 0, 0), 1.0)]}, PlanError, "start cannot be reached"),
    ({"path": ["a wall"]}, PlanError, "a wall"),
    ({"path": [Own(lambda q: q, 0, np.ones(3))]}, ShapeError, "own constraint"),
    ({"path": [Own(lambda q: q[:0], -1.0, 1.0, "nothing")]}, PlanError, "'nothing'"),
    ({"path": [Own(lambda u: np.log(-1 - u[0] ** 2), 0, 9, name="log")]}, PlanError, "log is .* at node 0"),
    ({"goal": None}, PlanError, "needs a goal"),
    ({"goal": [1.0, 2.0]}, ShapeError, r"got \(2,\)"),
    ({"start": ([0.0], [np.nan])}, ShapeError, "finite"),
    ({"steps": 1}, PlanError, "steps"),
    ({"steps": 10**9}, PlanError, "steps"),
    ({"inputs": "cubic"}, PlanError, "inputs .* 'cubic'"),
    ({"method": "euler"}, PlanError, "method .* 'euler'"),
    ({"tolerance": 0.0}, PlanError, "tolerance"),
    ({"guesses": -3}, PlanError, "guesses"),
    ({"reserve": 1.0}, PlanError, "reserve"),
    ({"solver": "ipopt"}, PlanError, "Ipopt"),
    ({"guess": 3}, PlanError, "guess must be"),
    ({"guess": Guess(*(np.zeros((5, 1)),) * 3, np.ones(1))}, ShapeError, "q of the guess"),
    ({"cost": OwnCost(lambda q, v: np.stack([q[0], v[0]]))}, PlanError, "must return a number"),
    ({"cost": OwnCost(lambda q: q[9])}, PlanError, "out of bounds"),
    ({"cost": OwnCost(lambda q, u: u[0] ** 2 + np.sqrt(-1 - q[0] ** 2))}, PlanError, "OwnCost is .* at node 0"),
    ({"cost": Effort(about=np.nan)}, PlanError, "about of Effort"),
    ({"cost": Effort(weights=-1.0)}, PlanError, "weights of Effort"),
    ({"cost": Speed([1.0, 2.0])}, ShapeError, "weights of Speed"),
]


@pytest.mark.parametrize(("options", "error", "text"), ARGUMENTS)
def test_arguments(sled: ht.Model, options: dict[str, Any], error: type[Exception], text: str) -> None:
    arguments = {"start": [0.0], "goal": [3.0], "duration": 2.0, "solver": Never()} | options
    with pytest.raises(error, match=text):
        ht.plan(sled, **arguments)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Between("x", 2.0, 1.0), "lower 2.0, upper 1.0"),
        (lambda: Own(lambda q: q, 1.0, 0.0), "empty"),
        (lambda: AtPose("hull", 2 * np.eye(4)), "rotation matrix"),
        (lambda: HalfSpace("hull", (0, 0, 1), np.nan), "finite"),
        (lambda: KeepOut("hull", (0, 0), 1.0), "centre of a sphere"),
        (lambda: KeepOut("hull", (0, 0, 0), -1.0), "radius"),
        (lambda: -1.0 * Effort(), "non-negative"),
    ],
)
def test_constraints_and_costs(make: Any, text: str) -> None:
    with pytest.raises(HeavytopError, match=text):
        make()


def test_models(sled: ht.Model) -> None:
    with pytest.raises(PlanError, match=r"\.derive\(\)"):
        ht.plan(ht.library.cart_pole(), [0, 0], [1, 0], 1.0)  # pyright: ignore[reportArgumentType]
    with pytest.raises(PlanError, match="no inputs"):
        ht.plan(ht.library.double_pendulum().derive(), [0, 0], [1, 0], 1.0)
    other = ht.control.Reference.set_point(ht.library.cart_pole().derive(), [0, 0])
    for options in ({"cost": Distance(other)}, {"guess": other}):
        with pytest.raises(PlanError, match="cart and pole"):
            ht.plan(sled, [0.0], [1.0], 2.0, solver=Never(), **options)


def test_equal_arguments_make_equal_values() -> None:
    """Constraints and costs are values: compared by their arguments, and hashable."""
    pairs = [
        (KeepOut("hull", [1, 0, 0], 0.3), KeepOut("hull", np.array([1.0, 0, 0]), 0.3)),
        (AtPose("hull", np.eye(4)), AtPose("hull", np.eye(4))),
        (Phase(1, 2, 5, end=(Rest(),)), Phase(1, 2, 5, end=(Rest(),))),
        (Effort(about=np.ones(2)) + 2.0 * Speed(), Effort(about=[1.0, 1.0]) + 2.0 * Speed()),
    ]
    for first, second in pairs:
        assert first == second
        assert hash(first) == hash(second)
    assert KeepOut("hull", (1, 0, 0), 0.3) != KeepOut("hull", (1, 0, 0), 0.4)


def test_one_constraint_needs_no_brackets(sled: ht.Model) -> None:
    one: Any = KeepOut("sled", (5, 0, 0), 1.0)
    end: Any = Rest()
    made = build_problem(ProblemArguments(sled, [0], [1], phases=[Phase(1, 2, 5, one, end)]))
    assert (made.phases[0].path, made.phases[0].end) == ((one,), (end,))
