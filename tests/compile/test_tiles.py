"""Long programs run part by part over tiles of states, without any effect on values."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from compile.chain import chain

from heavytop.compile import Call, Kernel, Program, Schedule, Stepper, trace
from heavytop.compile.passes.buffers import place_buffers
from heavytop.compile.passes.tiles import TILE, TILE_ABOVE
from heavytop.compile.schedule import in_order


@pytest.fixture(scope="module")
def arm():
    """An arm whose forward dynamics is longer than a tile's threshold."""
    traced = chain(7)
    assert len(Program.from_traced(traced).code) > TILE_ABOVE
    return traced


@pytest.mark.thorough
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


@pytest.mark.thorough
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


@pytest.fixture(scope="module")
def falling_arm(arm):
    """Semi-implicit Euler steps of the arm: long enough that trajectories go through a step in tiles."""
    move = trace(
        lambda q, v, a, h: {"q": q + h * (v + h * a), "v": v + h * a},
        {"q": (7,), "v": (7,), "a": (7,), "h": ()},
        name="move",
    )
    calls = [Call("arm", ("q", "v", "u"), ("a",)), Call("move", ("q", "v", "a", "h"), ("q", "v"))]
    buffers = {"q": 7, "v": 7, "u": 7, "a": 7, "h": ()}
    return Schedule({"arm": arm, "move": move}, buffers, ("q", "v"), calls, constants=("h",), tables=("u",))


@pytest.mark.thorough
def test_trajectories_do_not_depend_on_their_place_in_a_tile(falling_arm, monkeypatch):
    stepper = Stepper(falling_arm, 4)
    count = 2 * TILE * 4 + 3
    q, v, u = 0.1 * np.random.default_rng(2).normal(size=(3, count, 7))
    h = np.linspace(1e-4, 1e-3, count)

    def run(rows, steps=20):
        state = {"q": q[rows], "v": v[rows]}
        return stepper.run(state, {"h": h[rows]}, {"u": u[None, rows]}, steps=steps, hold={"u": steps})

    whole = run(slice(None))
    for rows in (slice(0, 1), slice(0, 5), slice(40, 60), slice(count - 3, count)):
        part = run(rows)
        for name in ("q", "v"):
            np.testing.assert_array_equal(part.records[name], whole.records[name][:, rows])
            np.testing.assert_array_equal(part.state[name], whole.state[name][rows])
    monkeypatch.setenv("HEAVYTOP_NATIVE", "0")
    slow = Stepper(falling_arm).run({"q": q, "v": v}, {"h": h}, {"u": u[None]}, steps=20, hold={"u": 20})
    np.testing.assert_allclose(whole.records["q"], slow.records["q"], rtol=1e-9, atol=1e-12)


def test_blocks_of_steps_leave_tiles_as_they_are(falling_arm, monkeypatch):
    stepper = Stepper(falling_arm, 4)
    q, v, u = 0.1 * np.random.default_rng(3).normal(size=(3, TILE * 4 + 1, 7))
    arguments = {"q": q, "v": v}, {"h": 1e-3}, {"u": u[None]}
    whole = stepper.run(*arguments, steps=30, hold={"u": 30})
    monkeypatch.setattr("heavytop.compile.stepper.CALL_BUDGET", 1)
    parts = stepper.run(*arguments, steps=30, hold={"u": 30})
    for name in ("q", "v"):
        np.testing.assert_array_equal(parts.records[name], whole.records[name])


def test_failures_of_a_tile_are_dated_one_by_one(falling_arm, monkeypatch):
    stepper = Stepper(falling_arm, 4)
    count = TILE * 4
    q, v, u = 0.1 * np.random.default_rng(4).normal(size=(3, count, 7))
    bad = [0, 6, 7, count - 1]
    v[bad] = 1e200
    v[bad] *= 10.0 ** np.arange(0, -120, -30)[:, None]  # the slower, the later
    arguments = {"q": q, "v": v}, {"h": 1e-3}, {"u": u[None]}
    result = stepper.run(*arguments, steps=50, hold={"u": 50})
    assert set(np.flatnonzero(result.failed >= 0)) == set(bad)
    assert len(set(result.failed[bad])) > 1
    with monkeypatch.context() as patch:
        patch.setenv("HEAVYTOP_NATIVE", "0")
        slow = Stepper(falling_arm).run(*arguments, steps=50, hold={"u": 50})
    np.testing.assert_array_equal(result.failed, slow.failed)
    good = np.setdiff1d(np.arange(count), bad)
    assert np.all(np.isfinite(result.state["q"][good]))


def test_buffers_share_places_only_when_they_never_meet():
    one = trace(lambda x: x + 1, {"x": (3,)}, name="one")
    names = ["a", "b", "c", "d"]
    pairs = [("x", "a"), ("a", "b"), ("b", "c"), ("c", "d"), ("d", "x")]
    calls = [Call("one", (source,), (target,)) for source, target in pairs]
    schedule = Schedule({"one": one}, dict.fromkeys(("x", *names), 3), ("x",), calls)
    offsets, size = place_buffers(schedule.layout, in_order(schedule.items, 2))
    assert size == 9  # the state, and two buffers in turn
    for (_, first), (_, second) in pairwise(pairs):
        assert abs(offsets[first] - offsets[second]) >= 3
    assert offsets["a"] == offsets["c"]
