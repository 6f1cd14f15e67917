"""Boxes to keep out of: their rounded bodies, and plans around them."""

from __future__ import annotations

import numpy as np
import pytest

import heavytop as ht
from heavytop.errors import PlanError, ShapeError
from heavytop.plan import Effort, KeepOutBox, Point


def sliders() -> ht.Model:
    system = ht.System(gravity=(0, 0, 0), name="sliders")
    system.body("x", joint=ht.Prismatic("x"), inertia=ht.Inertia(0.1))
    system.body("point", parent="x", joint=ht.Prismatic("y"), inertia=ht.Inertia(1.0))
    system.input("F_x", ht.JointForce("x"))
    system.input("F_y", ht.JointForce("point"))
    return system.derive()


@pytest.mark.thorough
def test_the_way_goes_around_the_box() -> None:
    model, low, high = sliders(), np.array([0.8, -0.6, -1.0]), np.array([1.2, 0.2, 1.0])
    box = KeepOutBox("point", low, high)
    plan = ht.plan(
        model, [0.0, 0.0], [2.0, 0.0], 2.0, limits=(-20, 20), path=[box], cost=Effort(), steps=40, tolerance=1e-6
    )
    way = model.pose("world", "point", plan.q)[:, :3, 3]
    depth = np.array([box.violation_at(position) for position in way])
    assert depth.max() < 1e-6
    assert way[:, 1].max() > 0.2  # over the nearer edge, not through
    assert way[:, 1].max() < 0.3


def test_the_rounded_body_holds_the_box() -> None:
    """Every point inside the box is outside the bounds, every point 8 % before a face, away from the edges, within."""
    box = KeepOutBox("point", (-1.0, -2.0, -0.5), (1.0, 2.0, 0.5))
    half = box.half_sides

    class Scene:
        constants = box.constants

        def __init__(self, at: np.ndarray) -> None:
            self.at = at

        def point(self, frame: str, offset: object) -> np.ndarray:
            return self.at

    rng = np.random.default_rng(0)
    for share in rng.uniform(-1, 1, (500, 3)):
        assert float(box.function(Scene(share * half))[0]) <= 1e-12
        before_a_face = 0.8 * share
        before_a_face[rng.integers(3)] = rng.choice([-1.08, 1.08])
        assert float(box.function(Scene(before_a_face * half))[0]) > 0


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        (((0, 0), (1, 1, 1)), ShapeError, "lower corner"),
        (((0, 0, 0), (1, 1, np.inf)), ShapeError, "upper corner"),
        (((0, 0, 2), (1, 1, 1)), PlanError, "must lie below"),
    ],
)
def test_bad_boxes(given: tuple[object, object], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        KeepOutBox("point", *given)


def test_a_goal_inside_is_rejected() -> None:
    box = KeepOutBox("point", (1.5, -1, -1), (2.5, 1, 1))
    with pytest.raises(PlanError, match="contradicts itself"):
        ht.plan(sliders(), [0.0, 0.0], [Point("point", (2.0, 0.0, 0.0))], 2.0, limits=(-20, 20), path=[box])
