"""What cannot be planned is told before a solver starts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from plan.test_transcription import DEFAULTS

import heavytop as ht
from heavytop.errors import FileFormatError, HeavytopError, PlanError
from heavytop.plan import (
    AtPose,
    Distance,
    Effort,
    Gate,
    Guess,
    HalfSpace,
    KeepIn,
    KeepOut,
    Own,
    OwnCost,
    Phase,
    Point,
    Rest,
    Speed,
)  # fmt: skip
from heavytop.plan.describe import describe
from heavytop.plan.study import read_study


class Never:
    """A solver that must not be asked."""

    name = "never"

    def solve(self, *given: Any, **options: Any) -> Any:
        raise AssertionError("the solver was started")


@pytest.fixture(scope="module")
def cart() -> ht.Model:
    return ht.library.cart_pole().derive()


@pytest.fixture(scope="module")
def ball() -> ht.Model:
    """A ball that can be pushed along all axes."""
    system = ht.System(gravity=(0, 0, 0), name="ball")
    parent = "world"
    for axis in "xyz":
        system.body(axis, parent=parent, joint=ht.Prismatic(axis), inertia=ht.Inertia(1.0))
        system.input(f"F{axis}", ht.JointForce(axis))
        parent = axis
    return system.derive()


CART: dict[str, tuple[dict[str, Any], str]] = {
    "guesses": ({"guesses": -3}, "at least 0"),
    "iterations": ({"iterations": 0}, "at least 1"),
    "solver": ({"solver": "ipopt"}, "Ipopt"),
    "steps": ({"steps": 10**9}, "from 2 to"),
    "cost that is a vector": ({"cost": OwnCost(lambda q: q)}, "must return a number"),
    "cost without function": ({"cost": OwnCost(3)}, "needs a function"),  # pyright: ignore
    "cost that fails": ({"cost": OwnCost(lambda q: q[9])}, "out of bounds"),
    "cost that is no number": ({"cost": OwnCost(lambda q, u: u[0] ** 2 + np.sqrt(-1 - q[0] ** 2))}, "at node 0"),
    "constraint that is no number": ({"path": [Own(lambda u: np.log(-1 - u[0] ** 2), 0, 9, name="log")]}, "log is"),
    "bounds of another size": ({"path": [Own(lambda q: q, 0, np.ones(3))]}, "upper bound"),
    "about": ({"cost": Effort(about=np.nan)}, "about of Effort"),
    "negative weights": ({"cost": Effort(weights=-1.0)}, "not negative"),
    "speed": ({"cost": Speed(np.nan)}, "weights of Speed"),
    "method": ({"method": "euler"}, "'collocation'"),
    "short guess": ({"guess": Guess(*(np.zeros((5, n)) for n in (2, 2, 1)), np.ones(1))}, "q of the guess"),
}


@pytest.mark.parametrize(("options", "text"), CART.values(), ids=CART)
def test_arguments(cart: ht.Model, options: dict[str, Any], text: str) -> None:
    with pytest.raises(HeavytopError, match=text):
        ht.plan(cart, [0, np.pi], [0, 0], 2.0, **({"solver": Never()} | options))


def test_phases(cart: ht.Model) -> None:
    for phase, text in ((Phase(1.0, 1.0, 0), "steps of a phase"), (Phase(np.nan, 1.0, 5), "duration")):
        with pytest.raises(PlanError, match=text):
            ht.plan(cart, [0, np.pi], [0, 0], phases=[phase], solver=Never())


def test_speed_that_is_too_low_for_the_longest_duration(cart: ht.Model) -> None:
    with pytest.raises(PlanError, match="the distance of 10 is 8 too far"):
        ht.plan(cart, [0, 0], [10, 0], (0.5, 2.0), limits={"x.v_x": (-1, 1)}, solver=Never())


@pytest.mark.parametrize(
    ("path", "goal", "text"),
    [
        ([Gate("z", (1, 0, 0)), KeepOut((1, 0, 0.1), 0.5, "z")], None, "phase 1 .* by 0.4"),
        ([Gate("z", (1, 0, 5)), KeepIn((-9,) * 3, (9, 9, 2), "z")], None, "by 3"),
        ([Gate("z", (1, 0, 5)), HalfSpace((0, 0, -1), -4.0, "z")], None, "by 1"),
        ([], [Point("z", (1, 0, 0)), Point("z", (3, 0, 0))], "the goal .* by 2"),
    ],
)
def test_points_that_contradict_constraints(ball: ht.Model, path, goal, text: str) -> None:
    with pytest.raises(PlanError, match=text):
        ht.plan(ball, [0, 0, 0], [2, 0, 0] if goal is None else goal, path=path, solver=Never())


def test_point_out_of_reach() -> None:
    system = ht.System(name="arm")
    for name, parent, at in (("a", "world", (0, 0, 0)), ("b", "a", (0, 0, 1))):
        system.body(name, parent=parent, at=at, joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, 0.5)))
        system.input(f"M{name}", ht.JointForce(name))
    arm, tip = system.derive(), (0, 0, 1)
    goal = [Point("b", (3, 0, 0), tip), Rest()]
    with pytest.raises(
        PlanError, match=r"^the goal of 'arm': no configuration was found from 12 starts.* by 1\..*\(guess="
    ) as caught:
        ht.plan(arm, [np.pi, 0], goal, 2.0, solver=Never())
    assert "cannot" not in str(caught.value)
    with pytest.raises(AssertionError, match="the solver was started"):  # who gives a guess is believed
        ht.plan(arm, [np.pi, 0], goal, 2.0, guess=ht.control.Reference.set_point(arm, [1, 1]), solver=Never())
    assert describe(arm, [np.pi, 0], [Point("b", (1.2, 0, 0), tip), Rest()], 2.0, **DEFAULTS).steps == 6


def test_poses_and_planes() -> None:
    for G in (2 * np.eye(4), np.full((4, 4), np.nan)):
        with pytest.raises(PlanError, match="rotation matrix"):
            AtPose("hull", G)
    with pytest.raises(PlanError, match="must be finite"):
        HalfSpace((0, 0, 1), np.nan, "hull")


def test_references_and_guesses_of_other_models(cart: ht.Model, ball: ht.Model) -> None:
    other = ht.control.Reference.set_point(ball, [0, 0, 0])
    with pytest.raises(PlanError, match="one of 'ball'"):
        ht.plan(cart, [0, np.pi], [0, 0], 2.0, cost=Distance(other), solver=Never())
    with pytest.raises(PlanError, match="motion of 'ball'"):
        ht.plan(cart, [0, np.pi], [0, 0], 2.0, guess=other, solver=Never())


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("stpes = 3", "line 6: .*'stpes'"),
        ("[[keep_out]]\ncentre = [1, 0, 0]", "line 7: .*'centre'"),
        ('[[keep_out]]\ncenter = [1, 0, 0]\nradius = -1\nframe = "pole"', "line 6: .*radius"),
        ("[start]\nq = [0.0]", "line 7: q of .start. needs 2 numbers"),
    ],
)
def test_studies_tell_the_line(tmp_path, line: str, text: str) -> None:
    file = tmp_path / "study.toml"
    file.write_text(f'system = "cart-pole"\n\n# comment\nsteps = 9\n\n{line}\n\n[goal]\nq = [0, 0]\n', "utf-8")
    with pytest.raises(FileFormatError, match=text):
        read_study(file)


def test_a_free_body_that_is_too_slow() -> None:
    model = ht.library.quadcopter().derive()
    start, goal = model.neutral(), model.neutral().copy()
    goal[:3] = 3.0, 0.0, 4.0
    limits = {**dict.fromkeys(model.u_names, (0.0, 7.0)), **dict.fromkeys(model.v_names[:3], (-1.0, 2.0))}
    with pytest.raises(
        PlanError, match="has to move by 5 m, and with its limited velocities it comes 3.4641 m far in 1 s"
    ):
        ht.plan(model, start, goal, 1.0, limits=limits, solver=Never())
    with pytest.raises(AssertionError, match="was started"):  # 6.9 m in 2 s: it may be
        ht.plan(model, start, goal, 2.0, limits=limits, solver=Never())


@pytest.mark.parametrize(("given", "told"), [((-20.0, 20.0, 1.0), "3 values"), ([5.0], "1 values")])
def test_limits_are_pairs(given: Any, told: str) -> None:
    cart = ht.library.cart_pole().derive()
    with pytest.raises(PlanError, match=told):
        ht.plan(cart, [0, np.pi], [0, 0], 2.0, limits=given, solver=Never())
    with pytest.raises(PlanError, match="number of seconds"):
        ht.plan(cart, [0, np.pi], [0, 0], True, limits=(-20, 20), solver=Never())
