"""Long programs run part by part over tiles of states; nobody may notice."""

from __future__ import annotations

import numpy as np
import pytest
from compile.chain import chain

from heavytop.compile import Kernel, Program, trace
from heavytop.compile.entries import TILE, TILE_ABOVE


@pytest.fixture(scope="module")
def arm():
    """An arm whose forward dynamics is longer than a tile's threshold."""
    traced = chain(7)
    assert len(Program.from_traced(traced).code) > TILE_ABOVE
    return traced


@pytest.mark.parametrize("lanes", [1, 4])
def test_results_do_not_depend_on_the_place_in_a_tile(arm, lanes):
    kernel = Kernel(arm, lanes)
    assert kernel.stats().chunks > 1
    per_tile = TILE * lanes
    count = 2 * per_tile + 3
    a = np.random.default_rng(0).normal(size=(3, count, 7))
    whole = kernel(*a)[0]
    np.testing.assert_allclose(whole, arm.interpret(*a)[0], rtol=1e-9, atol=1e-9)
    for stop in (1, lanes, lanes + 1, per_tile - 1, per_tile, per_tile + 1, count):
        np.testing.assert_array_equal(kernel(*a[:, :stop])[0], whole[:stop])
    np.testing.assert_array_equal(kernel(*a[:, per_tile - 2 : per_tile + 5])[0], whole[per_tile - 2 : per_tile + 5])
    # a row shared by all states is fetched for every group of the tile
    shared = kernel(a[0], a[1, 0], a[2])[0]
    np.testing.assert_array_equal(shared, kernel(a[0], np.broadcast_to(a[1, 0], a[1].shape), a[2])[0])


def test_a_huge_angle_spoils_no_other_state_of_its_tile(arm):
    kernel = Kernel(arm)
    a = np.random.default_rng(1).normal(size=(3, TILE * kernel.lanes, 7))
    calm = kernel(*a)[0]
    wild = a.copy()
    wild[0, 5] = 1e12
    result = kernel(*wild)[0]
    others = np.arange(a.shape[1]) != 5
    np.testing.assert_array_equal(result[others], calm[others])
    np.testing.assert_allclose(result[5], arm.interpret(*wild[:, 5])[0], rtol=1e-7, atol=1e-7)


def test_shared_denominators_are_divided_by_once():
    program = Program.from_traced(trace(lambda x: x[:3] / x[3], {"x": (4,)}, name="quotients"))
    assert program.histogram["div"] == 1
    assert program.histogram["mul"] == 3
    single = Program.from_traced(trace(lambda x: x[0] / x[1], {"x": (2,)}, name="quotient"))
    assert "mul" not in single.histogram
    kernel = Kernel(trace(lambda x: x[:3] / x[3], {"x": (4,)}, name="quotients"))
    np.testing.assert_allclose(kernel([1.0, 2.0, 3.0, 7.0])[0], np.array([1, 2, 3]) / 7, rtol=3e-16)
