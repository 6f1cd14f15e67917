"""Equal problems share their native code: only the first plan compiles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heavytop as ht
from heavytop.compile import loader
from heavytop.plan import Between, Distance, Effort, Gate, KeepOut, Own, OwnCost, Plan, Rest, Speed, Time


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Numbers of loaded and of compiled functions."""
    counts = {"loaded": 0, "compiled": 0}

    def counted(name: str, function: Any) -> Any:
        def call(*arguments: Any) -> Any:
            counts[name] += 1
            return function(*arguments)

        return call

    monkeypatch.setattr(loader, "load", counted("loaded", loader.load))
    monkeypatch.setattr(loader, "compile_side_by_side", counted("compiled", loader.compile_side_by_side))
    return counts


def swing(model: ht.Model, x: float, floor: float = -3.0) -> Plan:
    """Constraints and costs are built again for every plan, user-defined functions too."""
    path = [KeepOut("pole", (x + 9.0, 0, 0), 0.5), Between("x.x", -5.0, 5.0)]
    path += [Own(lambda q, t: q[0] + 0.1 * t, floor, 9.0, name="wall")]
    cost = 0.01 * Effort() + 1e-3 * Speed() + OwnCost(lambda v: 1e-4 * v[1] ** 2)
    return ht.plan(model, [x, np.pi], [0, 0], 2.0, limits=(-20, 20), path=path, cost=cost, steps=16, tolerance=1e-2)


@pytest.mark.thorough
def test_another_start_compiles_nothing(counts: dict[str, int]) -> None:
    model = ht.library.cart_pole().derive()
    first = swing(model, 0.0)
    assert counts["loaded"] > 0
    counts.update(loaded=0, compiled=0)
    second = swing(model, 0.4, -2.5)
    assert counts == {"loaded": 0, "compiled": 0}
    assert second.cost != first.cost


def test_an_equal_model_compiles_nothing(counts: dict[str, int]) -> None:
    first = swing(ht.library.cart_pole().derive(), 0.0)
    counts["compiled"] = 0
    second = swing(ht.library.cart_pole().derive(), 0.0)
    assert counts["compiled"] == 0
    assert second.cost == first.cost


@pytest.mark.thorough
def test_gates_and_distances_compile_once(counts: dict[str, int]) -> None:
    model = ht.library.quadcopter().derive()
    hover = ht.plan.problems.hover_input(model)

    reference = ht.control.Reference.set_point(model, model.neutral())

    def near(height: float) -> Plan:
        start = model.neutral().copy()
        start[2] = height
        cost = Effort(about=hover) + Distance(reference, speeds=0.1)
        return ht.plan(model, start, [Rest()], 1.0, limits=(0, 9), cost=cost, steps=8, tolerance=1e-2)

    def through(height: float) -> Plan:
        goal = model.neutral().copy()
        goal[0] = 2.0
        cost = Time() + 1e-3 * Effort(about=hover)
        gate = Gate("hull", (1.0, 0.0, height))
        return ht.plan(model, model.neutral(), goal, limits=(0, 9), path=[gate], cost=cost, steps=8, tolerance=1e-1)

    for make in (near, through):
        make(0.1)
        counts.update(loaded=0, compiled=0)
        make(0.2)
        assert counts == {"loaded": 0, "compiled": 0}


@pytest.mark.thorough
def test_functions_are_distinguished_by_their_expressions() -> None:
    """A function that reads a changed variable is another function, whether or not it is the same object."""
    model, wall = ht.library.cart_pole().derive(), {"at": -9.0}
    bound = Own(lambda q: q[0] - wall["at"], 0.0, np.inf, name="wall")

    def leftmost() -> float:
        options = {"limits": (-20, 20), "cost": 0.01 * Effort(), "steps": 16, "tolerance": 1e-2}
        return float(ht.plan(model, [0, np.pi], [0, 0], 2.0, path=[bound], **options).q[:, 0].min())

    free = leftmost()
    wall["at"] = 0.5 * free
    assert leftmost() == pytest.approx(0.5 * free, abs=1e-6)
