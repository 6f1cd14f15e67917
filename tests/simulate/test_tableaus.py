"""Order conditions of every tableau: one for each rooted tree."""

from __future__ import annotations

from functools import cache
from math import factorial, prod

import numpy as np
import pytest

from heavytop.simulate.integrators import tableaus

Tree = tuple  # a tree is the sorted tuple of the subtrees at its root


@cache
def trees(order: int) -> tuple[Tree, ...]:
    """All rooted trees with ``order`` vertices."""
    return tuple(sorted(set(forests(order - 1, order - 1))))


def forests(vertices: int, largest: int) -> list[Tree]:
    """Multisets of trees with so many vertices in all."""
    if vertices == 0:
        return [()]
    found = []
    for size in range(1, min(vertices, largest) + 1):
        for tree in trees(size):
            for rest in forests(vertices - size, size):
                found.append(tuple(sorted((tree, *rest))))
    return sorted(set(found))


def vertices(tree: Tree) -> int:
    return 1 + sum(vertices(t) for t in tree)


def density(tree: Tree) -> int:
    return vertices(tree) * prod(density(t) for t in tree)


def weights(tree: Tree, a: np.ndarray) -> np.ndarray:
    """Elementary weights of the stages."""
    result = np.ones(len(a))
    for t in tree:
        result = result * (a @ weights(t, a))
    return result


def test_numbers_of_trees() -> None:
    assert [len(trees(n)) for n in range(1, 9)] == [1, 1, 2, 4, 9, 20, 48, 115]
    assert density(((), ())) == 3
    assert density((((),),)) == factorial(3)


TABLEAUS = {
    "RK4": tableaus.RK4,
    "BUTCHER6": tableaus.BUTCHER6,
    "COOPER_VERNER8": tableaus.COOPER_VERNER8,
    "DORMAND_PRINCE5": tableaus.DORMAND_PRINCE5,
}


@pytest.mark.parametrize("name", TABLEAUS)
def test_order_conditions(name: str) -> None:
    tableau = TABLEAUS[name]
    a, b = tableau.matrix, np.array(tableau.b)
    np.testing.assert_allclose(a.sum(axis=1), tableau.c, atol=1e-14)
    for order in range(1, tableau.order + 1):
        for tree in trees(order):
            assert b @ weights(tree, a) == pytest.approx(1 / density(tree), abs=1e-13)
    # and not one more: the stated order is the order
    defects = [abs(b @ weights(tree, a) - 1 / density(tree)) for tree in trees(tableau.order + 1)]
    assert max(defects) > 1e-6


def test_embedded_weights_are_of_order_four() -> None:
    a, b = tableaus.DORMAND_PRINCE5.matrix, np.array(tableaus.DORMAND_PRINCE4_WEIGHTS)
    for order in range(1, 5):
        for tree in trees(order):
            assert b @ weights(tree, a) == pytest.approx(1 / density(tree), abs=1e-14)
    assert max(abs(b @ weights(tree, a) - 1 / density(tree)) for tree in trees(5)) > 1e-6


@pytest.mark.parametrize("x", [0.0, 0.25, 0.5, 0.9, 1.0])
def test_dense_output_is_of_order_four(x: float) -> None:
    a, b = tableaus.DORMAND_PRINCE5.matrix, tableaus.dense_weights(np.array(x))
    for order in range(1, 5):
        for tree in trees(order):
            assert b @ weights(tree, a) == pytest.approx(x**order / density(tree), abs=1e-12)
