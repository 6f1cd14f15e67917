"""Copy propagation: outputs equal to inputs cost nothing."""

from __future__ import annotations

import numpy as np
import pytest

from heavytop.compile import Call, Program, Schedule, Stepper, trace
from heavytop.compile.passes.buffers import lasting_buffers, without_copies
from heavytop.compile.schedule import in_order


def move(v):
    """A copy and something new."""
    return {"w": v + 0, "a": -0.1 * v}


def schedule(calls, record=("x", "v")):
    functions = {
        "move": trace(move, {"v": (2,)}, name="move"),
        "join": trace(lambda x, w, a: {"x": x + w + a}, {"x": (2,), "w": (2,), "a": (2,)}, name="join"),
        "slow": trace(lambda v, a: {"v": v + a}, {"v": (2,), "a": (2,)}, name="slow"),
    }
    return Schedule(functions, dict.fromkeys(("x", "v", "w", "a"), 2), ("x", "v"), calls, record=record)


MOVE, JOIN, SLOW = (
    Call("move", ("v",), ("w", "a")),
    Call("join", ("x", "w", "a"), ("x",)),
    Call("slow", ("v", "a"), ("v",)),
)


def simplified(plan):
    calls = in_order(plan.items)
    programs = {call.function: Program.from_traced(plan.functions[call.function]) for call in calls}
    return without_copies(programs, calls, lasting_buffers(plan.layout))


def test_a_copy_is_read_where_it_came_from():
    programs, calls = simplified(schedule([MOVE, JOIN, SLOW]))
    assert [call.outputs for call in calls] == [("a",), ("x",), ("v",)]
    assert calls[1].inputs == ("x", "v", "a")
    assert len(programs["move"].outputs) == 1


@pytest.mark.parametrize("calls", [[MOVE, SLOW, JOIN], [MOVE, SLOW, MOVE, JOIN]], ids=["overwritten", "written twice"])
def test_a_copy_that_outlives_its_source_stays(calls):
    programs, kept = simplified(schedule(calls))
    assert len(programs["move"].outputs) == 2
    assert list(kept) == calls


def test_a_recorded_copy_stays():
    plan = schedule([MOVE, JOIN, SLOW])
    recorded = Schedule(plan.functions, plan.buffers, plan.state, [JOIN, SLOW], sample=[MOVE], record=("x", "v", "w"))
    programs, _ = simplified(recorded)
    assert len(programs["move"].outputs) == 2


def test_parts_of_inputs_are_no_copies():
    half = Program.from_traced(trace(lambda v: {"w": v[:2]}, {"v": (3,)}, name="half"))
    turned = Program.from_traced(trace(lambda v: {"w": v[::-1]}, {"v": (2,)}, name="turned"))
    for program in (half, turned):
        programs, _ = without_copies({"f": program}, [Call("f", ("v",), ("w",))], ())
        assert len(programs["f"].outputs) == 1


@pytest.mark.parametrize("calls", [[MOVE, JOIN, SLOW], [MOVE, SLOW, JOIN], [MOVE, SLOW, MOVE, JOIN]])
@pytest.mark.parametrize("lanes", [1, 4])
def test_same_numbers_as_the_interpreter(calls, lanes, monkeypatch):
    plan = schedule(calls)
    x, v = np.random.default_rng(0).normal(size=(2, 7, 2))
    fast = Stepper(plan, lanes).run({"x": x, "v": v}, steps=5)
    monkeypatch.setenv("HEAVYTOP_NATIVE", "0")
    slow = Stepper(plan).run({"x": x, "v": v}, steps=5)
    for name in ("x", "v"):
        np.testing.assert_allclose(fast.records[name], slow.records[name], rtol=1e-14)


def test_a_chain_of_copies_does_not_outlive_its_source(monkeypatch):
    functions = {
        "same": trace(lambda x: {"y": x + 0}, {"x": (2,)}, name="same"),
        "more": trace(lambda a: {"b": a + 1.0}, {"a": (2,)}, name="more"),
        "add": trace(lambda s, c: {"r": s + c}, {"s": (2,), "c": (2,)}, name="add"),
    }
    calls = [
        Call("same", ("a",), ("b",)),
        Call("same", ("b",), ("c",)),
        Call("more", ("a",), ("a",)),
        Call("add", ("s", "c"), ("s",)),
    ]
    plan = Schedule(functions, dict.fromkeys("abcs", 2), ("a", "s"), calls)
    start = {"a": np.zeros(2), "s": np.zeros(2)}
    fast = Stepper(plan).run(start, steps=3).records["s"][:, 0]
    np.testing.assert_array_equal(fast, [0, 0, 1, 3])
    monkeypatch.setenv("HEAVYTOP_NATIVE", "0")
    np.testing.assert_array_equal(Stepper(plan).run(start, steps=3).records["s"][:, 0], fast)
