"""Expensive sides of choices are skipped if no lane needs them, without any effect on values."""

from __future__ import annotations

import numpy as np
import pytest

from heavytop.compile import Kernel, Program, trace
from heavytop.compile.backends.lanes import Lanes
from heavytop.compile.backends.llvm import emit
from heavytop.compile.passes.lazy_branches import lazy_sides
from heavytop.geometry import se3, so3


def sides_of(function, inputs):
    program = Program.from_traced(trace(function, inputs, name="f"))
    return program, lazy_sides(program, 0, len(program.code), program.homes.keys())


def operations(program, nodes):
    return {str(program.code[k].op) for k in nodes}


def test_the_closed_form_of_exp_is_behind_a_branch():
    program, sides = sides_of(lambda phi: so3.exp(phi), {"phi": (3,)})
    assert len(sides) == 1
    assert {"sin", "cos", "sqrt"} <= operations(program, sides[0].nodes)
    rest = set(range(len(program.code))) - set(sides[0].nodes)
    assert not {"sin", "cos", "sqrt"} & operations(program, rest)
    assert not sides[0].when


def test_what_others_read_is_computed_in_any_case():
    def function(x):
        shared = np.sin(x[0])
        return np.stack([np.where(x[1] < 0, 1.0, np.exp(shared) * np.tanh(x[0])), shared], axis=-1)

    program, sides = sides_of(function, {"x": (2,)})
    assert len(sides) == 1
    assert "sin" not in operations(program, sides[0].nodes)
    assert {"exp", "tanh"} <= operations(program, sides[0].nodes)


def test_cheap_sides_stay():
    _, sides = sides_of(lambda x: np.where(x[0] < 0, x[1] * x[1], x[1] + 1), {"x": (2,)})
    assert sides == []


def test_a_result_is_never_lazy():
    def function(x):
        side = np.exp(x[0])
        return np.stack([np.where(x[0] < 0, 0.0, side), side], axis=-1)

    _, sides = sides_of(function, {"x": (1,)})
    assert sides == []


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("chunk", [None, 20])
def test_all_mixtures_of_lanes(lanes, chunk):
    """Every lane takes its own side: all combinations of small, large, zero and undefined angles."""
    traced = trace(lambda xi: se3.exp(xi), {"xi": (6,)}, name="exp")
    kernel = Kernel(traced, lanes, chunk=chunk)
    scales = np.array([0.0, 1e-3, 0.999, 1.001, 30.0, 1e12])
    mixtures = np.stack(np.meshgrid(*[scales] * 4, indexing="ij"), axis=-1).reshape(-1)
    directions = np.random.default_rng(0).normal(size=(mixtures.size, 6))
    directions /= np.linalg.norm(directions[:, 3:], axis=1, keepdims=True)
    xi = directions * mixtures[:, None]
    result, expected = kernel(xi)[0], traced.interpret(xi)[0]
    calm = mixtures < 1e6
    np.testing.assert_allclose(result[calm], expected[calm], rtol=1e-13, atol=1e-13)
    np.testing.assert_allclose(result[~calm, :3, :3], expected[~calm, :3, :3], atol=1e-3)  # 1e12 rad, rounded by 1e-4
    single = np.stack([kernel(row)[0] for row in xi[:: xi.shape[0] // 50]])
    np.testing.assert_array_equal(single, result[:: xi.shape[0] // 50])
    undefined = xi[:8].copy()
    undefined[3] = np.nan
    assert np.isnan(kernel(undefined)[0][3]).any()
    np.testing.assert_array_equal(np.delete(kernel(undefined)[0], 3, axis=0), np.delete(result[:8], 3, axis=0))


def random_function(seed, length=120):
    """Straight-line nonsense with choices that share, nest and follow each other."""
    rng = np.random.default_rng(seed)
    recipe = [(rng.integers(0, 8), *rng.integers(0, 1 << 30, size=4)) for _ in range(length)]

    def function(x):
        values = [x[i] for i in range(4)]
        conditions = []
        for kind, a, b, c, d in recipe:
            p, q = values[-1 - a % min(len(values), 12)], values[-1 - b % len(values)]
            if kind == 0:
                values.append(np.sin(p) + 0.5 * np.cos(q))
            elif kind == 1:
                values.append(np.tanh(p * q))
            elif kind == 2:
                values.append(np.sqrt(1 + p * p))
            elif kind == 3:
                values.append(p / (1 + q * q))
            elif kind in (4, 5):
                if not conditions or c % 3 == 0:
                    conditions.append(values[-1 - c % len(values)] < values[-1 - d % len(values)] + 0.1)
                values.append(np.where(conditions[c % len(conditions)], p, q))
            else:
                values.append(0.7 * p - q if kind == 6 else p + 0.3 * q)
        return np.stack(values[-6:], axis=-1)

    return function


@pytest.mark.parametrize(
    "seed", [seed if seed < 10 else pytest.param(seed, marks=pytest.mark.thorough) for seed in range(40)]
)
def test_random_programs_equal_the_interpreter(seed):
    traced = trace(random_function(seed), {"x": (4,)}, name="nonsense")
    x = np.random.default_rng(seed).normal(size=(41, 4))
    expected = traced.interpret(x)[0]
    for lanes, chunk in ((1, 23), (4, None)):
        np.testing.assert_allclose(Kernel(traced, lanes, chunk=chunk)(x)[0], expected, rtol=1e-11, atol=1e-11)


def test_random_programs_have_lazy_sides():
    found = 0
    for seed in range(25):
        _, sides = sides_of(random_function(seed), {"x": (4,)})
        found += len(sides)
    assert found > 10


@pytest.mark.parametrize("long", [False, True])
@pytest.mark.parametrize("lanes", [1, 4])
def test_one_side_that_reads_a_choice_of_the_same_condition(long, lanes):
    def function(x):
        condition = x[0] > 0
        a = np.where(condition, np.exp(np.sin(x[0])), x[0])
        y = np.where(condition, a, np.arctan(2 * a))
        for k in range(600 if long else 1):
            y = y + 1e-3 * y * (x[1] + k * 1e-3)
        return y + a

    traced = trace(function, {"x": (2,)}, name="nested")
    x = np.array([[-1.0, 0.5], [1.0, 0.5], [-0.3, 0.1], [0.0, 0.0]])
    np.testing.assert_allclose(Kernel(traced, lanes)(x)[0], traced.interpret(x)[0], rtol=1e-13)


def test_the_machine_code_branches_around_the_expensive_side():
    program = Program.from_traced(
        trace(lambda x: np.where(x[0] < 1, x[1], np.exp(x[1]) * np.tanh(x[0])), {"x": (2,)}, name="f")
    )
    text = emit(program, "f", Lanes(4), len(program.code), fma=True).text
    before, _, inside = text.partition("br i1")
    assert "@each_exp" not in before
    assert "@each_exp" in inside
    assert "phi <4 x double> [ poison" in inside


@pytest.mark.parametrize("lanes", [1, 4])
def test_a_condition_that_is_undefined(lanes):
    traced = trace(lambda x: np.where(x[0], np.exp(x[1]), np.arctan(x[1])), {"x": (2,)}, name="f")
    x = np.array([[np.nan, 0.5], [0.0, 0.5], [1.0, 0.5], [-2.0, 0.5]])
    np.testing.assert_allclose(Kernel(traced, lanes)(x)[0], np.exp([0.5, 0, 0.5, 0.5]) * [1, np.arctan(0.5), 1, 1])


def test_sides_that_need_each_other_are_not_both_lazy():
    def function(x):
        first, second = x[0] < 0, x[1] < 0
        a = np.where(second, np.exp(np.sin(x[2])), x[3])
        b = np.where(first, np.exp(np.tanh(a)), x[3])
        return np.stack([np.where(second, np.arctan(x[2]) * np.exp(x[2]), b), b, np.where(first, np.sin(x[0]) * a, a)])

    traced = trace(function, {"x": (4,)}, name="f")
    x = np.random.default_rng(0).normal(size=(33, 4))
    for lanes in (1, 4):
        np.testing.assert_allclose(Kernel(traced, lanes)(x)[0], traced.interpret(x)[0], rtol=1e-12)
