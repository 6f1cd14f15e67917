"""The native time loop: order, records, tables, tails, threads, failures, and the interpreter as a second opinion."""

import numpy as np
import pytest

from heavytop.compile import Call, Repeat, Schedule, Stepper, trace
from heavytop.errors import ModelError, ShapeError, UnknownNameError


def oscillator(x, u, w):
    """x'' = -w^2 x + u as a first-order system."""
    return np.stack([x[1], u - w * w * x[0]], axis=-1)


def rk4(with_sampling=False):
    f = trace(oscillator, {"x": (2,), "u": (), "w": ()}, name="oscillator")
    half = trace(lambda x, k, h: x + 0.5 * h * k, {"x": (2,), "k": (2,), "h": ()}, name="half")
    full = trace(lambda x, k, h: x + h * k, {"x": (2,), "k": (2,), "h": ()}, name="full")
    join = trace(
        lambda x, a, b, c, d, h: x + h / 6 * (a + 2 * b + 2 * c + d),
        {"x": (2,), "a": (2,), "b": (2,), "c": (2,), "d": (2,), "h": ()},
        name="join",
    )
    energy = trace(lambda x, w: 0.5 * (x[1] ** 2 + (w * x[0]) ** 2), {"x": (2,), "w": ()}, name="energy")
    law = trace(lambda x, t: -0.3 * x[1] + 0.1 * np.sin(t), {"x": (2,), "t": ()}, name="law")
    advance = [
        Call("f", ("x", "u", "w"), ("k1",)),
        Call("half", ("x", "k1", "h"), ("y",)),
        Call("f", ("y", "u", "w"), ("k2",)),
        Call("half", ("x", "k2", "h"), ("y",)),
        Call("f", ("y", "u", "w"), ("k3",)),
        Call("full", ("x", "k3", "h"), ("y",)),
        Call("f", ("y", "u", "w"), ("k4",)),
        Call("join", ("x", "k1", "k2", "k3", "k4", "h"), ("x",)),
    ]
    buffers = {"x": 2, "y": 2, "k1": 2, "k2": 2, "k3": 2, "k4": 2, "u": (), "w": (), "h": (), "E": ()}
    return Schedule(
        {"f": f, "half": half, "full": full, "join": join, "energy": energy, "law": law},
        buffers,
        ("x",),
        advance,
        sample=[Call("law", ("x", "time"), ("u",), every=5)] if with_sampling else [],
        observe=[Call("energy", ("x", "w"), ("E",))],
        constants=("w", "h"),
        tables=() if with_sampling else ("u",),
        record=("x", "E", "u"),
    )


@pytest.fixture(scope="module")
def stepper():
    return Stepper(rk4())


@pytest.fixture(scope="module")
def sampled():
    return Stepper(rk4(with_sampling=True))


def start(count, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(count, 2)), 1 + rng.random(count)


def test_order_four(stepper):
    errors = []
    for steps in (20, 40, 80):
        run = stepper.run({"x": [1.0, 0.0]}, {"w": 2.0, "h": 3.0 / steps}, {"u": [0.0]}, steps=steps)
        errors.append(np.abs(run.state["x"] - [np.cos(6.0), -2 * np.sin(6.0)]).max())
    orders = np.log2(np.array(errors[:-1]) / errors[1:])
    assert np.all(np.abs(orders - 4) < 0.2)


@pytest.mark.parametrize("lanes", [1, None])
@pytest.mark.parametrize("record_every", [0, 1, 3, 100])
@pytest.mark.parametrize("count", [1, 3, 4, 5, 9])
def test_equals_the_interpreter(monkeypatch, lanes, record_every, count):
    x, w = start(count)
    u = np.random.default_rng(5).normal(size=(4, count))
    arguments = ({"x": x}, {"w": w, "h": 0.01}, {"u": u})
    options = {"steps": 20, "record_every": record_every, "hold": {"u": 3}, "step_size": 0.01, "start_time": 2.0}
    native = Stepper(rk4(), lanes).run(*arguments, **options)
    monkeypatch.setenv("HEAVYTOP_NATIVE", "0")
    slow = Stepper(rk4())
    assert not slow.native
    reference = slow.run(*arguments, **options)
    np.testing.assert_array_equal(native.recorded, reference.recorded)
    assert native.records["x"].shape == (0 if not record_every else 20 // record_every + 1, count, 2)
    np.testing.assert_allclose(native.state["x"], reference.state["x"], rtol=1e-13, atol=1e-14)
    for name in ("x", "E", "u"):
        np.testing.assert_allclose(native.records[name], reference.records[name], rtol=1e-13, atol=1e-14)


def test_sampled_law_is_held(sampled, monkeypatch):
    x, w = start(6)
    arguments = ({"x": x}, {"w": w, "h": 0.01})
    run = sampled.run(*arguments, steps=23, step_size=0.01)
    u = run.records["u"]
    changes = np.flatnonzero(np.any(np.diff(u, axis=0) != 0, axis=1)) + 1
    np.testing.assert_array_equal(changes, [5, 10, 15, 20])
    monkeypatch.setenv("HEAVYTOP_NATIVE", "0")
    reference = Stepper(rk4(with_sampling=True)).run(*arguments, steps=23, step_size=0.01)
    np.testing.assert_allclose(run.records["x"], reference.records["x"], rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(run.state["u"], reference.state["u"], rtol=1e-13)


def test_bits_do_not_depend_on_batch_threads_or_blocks(sampled, monkeypatch):
    x, w = start(37)
    constants = {"w": w, "h": 0.01}
    whole = sampled.run({"x": x}, constants, steps=50, step_size=0.01)
    for k in (0, 5, 36):
        alone = sampled.run({"x": x[k]}, {"w": w[k], "h": 0.01}, steps=50, step_size=0.01)
        np.testing.assert_array_equal(alone.records["x"], whole.records["x"][:, k])
        assert alone.failed.shape == ()
    from heavytop.compile import stepper as module

    monkeypatch.setattr(module, "THREAD_BUDGET", 1)
    monkeypatch.setattr(module, "CALL_BUDGET", 3000)
    threaded = Stepper(rk4(with_sampling=True), threads=3).run({"x": x}, constants, steps=50, step_size=0.01)
    for name in ("x", "E", "u"):
        np.testing.assert_array_equal(threaded.records[name], whole.records[name])
    np.testing.assert_array_equal(threaded.state["x"], whole.state["x"])


def test_continuing_gives_the_same_bits(sampled):
    x, w = start(5)
    constants = {"w": w, "h": 0.01}
    whole = sampled.run({"x": x}, constants, steps=40, step_size=0.01)
    first = sampled.run({"x": x}, constants, steps=18, step_size=0.01)
    second = sampled.run(first.state, constants, steps=22, step_size=0.01, first=18)
    np.testing.assert_array_equal(second.state["x"], whole.state["x"])
    np.testing.assert_array_equal(second.records["x"], whole.records["x"][18:])


def test_broadcast_batches_and_shared_tables(stepper):
    x = np.random.default_rng(0).normal(size=(3, 1, 2))
    w = np.linspace(1, 2, 4)
    u = np.linspace(0, 1, 11)
    run = stepper.run({"x": x}, {"w": w, "h": 0.1}, {"u": u}, steps=10)
    assert run.records["x"].shape == (11, 3, 4, 2)
    one = stepper.run({"x": x[2, 0]}, {"w": w[1], "h": 0.1}, {"u": u}, steps=10)
    np.testing.assert_array_equal(run.records["x"][:, 2, 1], one.records["x"])
    np.testing.assert_array_equal(run.records["u"][:, 0, 0], u)


def test_failure_is_dated_per_trajectory():
    blow = trace(lambda x: x * x, {"x": ()}, name="blow")
    stepper = Stepper(Schedule({"blow": blow}, {"x": ()}, ("x",), [Call("blow", ("x",), ("x",))]))
    run = stepper.run({"x": [2.0, 1.0, 0.5, 1e100, np.nan, 4.0]}, steps=20)
    # 2^(2^k) passes 2^1024 at k = 10
    np.testing.assert_array_equal(run.failed, [10, -1, -1, 2, 1, 9])
    assert run.records["x"].shape == (21, 6)
    assert run.records["x"][1, 0] == 4.0


def test_empty_batch_and_no_steps(stepper):
    run = stepper.run({"x": np.zeros((0, 2))}, {"w": 1.0, "h": 0.1}, {"u": [0.0]}, steps=3)
    assert run.records["x"].shape == (4, 0, 2)
    run = stepper.run({"x": [1.0, 2.0]}, {"w": 1.0, "h": 0.1}, {"u": [0.0]}, steps=0)
    np.testing.assert_array_equal(run.records["x"], [[1.0, 2.0]])


def test_progress_and_interrupt(stepper, monkeypatch):
    from heavytop.compile import stepper as module

    monkeypatch.setattr(module, "CALL_BUDGET", 2000)
    seen = []
    stepper.run({"x": np.ones((9, 2))}, {"w": 1.0, "h": 0.1}, {"u": [0.0]}, steps=100, progress=seen.append)
    assert len(seen) > 3
    assert seen == sorted(seen)
    assert seen[-1] == 1.0

    def interrupt(fraction):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stepper.run({"x": np.ones((9, 2))}, {"w": 1.0, "h": 0.1}, {"u": [0.0]}, steps=100, progress=interrupt)


def test_cached_schedule_is_not_built_again():
    def never():
        raise RuntimeError("must not be called")

    first = Stepper.cached("oscillator", rk4)
    second = Stepper.cached("oscillator", never)
    arguments = ({"x": [1.0, 0.0]}, {"w": 2.0, "h": 0.1}, {"u": [0.0]})
    a, b = (s.run(*arguments, steps=5).state["x"] for s in (first, second))
    np.testing.assert_array_equal(a, b)
    assert second.stats().cache_hit


def test_errors(stepper):
    good = {"w": 1.0, "h": 0.1}
    with pytest.raises(ShapeError, match="'h'.*missing"):
        stepper.run({"x": [1.0, 0.0]}, {"w": 1.0}, {"u": [0.0]}, steps=1)
    with pytest.raises(UnknownNameError, match="unknown state 'z'"):
        stepper.run({"x": [1.0, 0.0], "z": 1.0}, good, {"u": [0.0]}, steps=1)
    with pytest.raises(ShapeError, match=r"'x' must have shape \(..., 2\), got \(3,\)"):
        stepper.run({"x": [1.0, 0.0, 0.0]}, good, {"u": [0.0]}, steps=1)
    with pytest.raises(ShapeError, match=r"hold=\{'u': 0\}"):
        stepper.run({"x": [1.0, 0.0]}, good, {"u": [0.0]}, steps=1, hold={"u": 0})
    with pytest.raises(ShapeError, match="steps.*-1"):
        stepper.run({"x": [1.0, 0.0]}, good, {"u": [0.0]}, steps=-1)
    with pytest.raises(ShapeError, match="'u'"):
        stepper.run({"x": [1.0, 0.0]}, good, {"u": []}, steps=1)
    with pytest.raises(ShapeError, match="do not broadcast"):
        stepper.run({"x": np.ones((2, 2))}, {"w": np.ones(3), "h": 0.1}, {"u": [0.0]}, steps=1)
    f = trace(lambda x: x, {"x": (2,)}, name="f")
    with pytest.raises(ModelError, match="'f'.*'y'"):
        Schedule({"f": f}, {"x": 2, "y": 2}, ("x",), [Call("f", ("y",), ("x",))])
    with pytest.raises(ModelError, match=r"'y'.*\(3,\)"):
        Schedule({"f": f}, {"x": 2, "y": 3}, ("x",), [Call("f", ("x",), ("y",))])
    with pytest.raises(ModelError, match="'f'.*'p'"):
        Schedule({"f": f}, {"x": 2, "p": 2}, ("x",), [Call("f", ("x",), ("p",))], constants=("p",))
    with pytest.raises(UnknownNameError, match="unknown function 'g'"):
        Schedule({"f": f}, {"x": 2}, ("x",), [Call("g", ("x",), ("x",))])
    with pytest.raises(ModelError, match="'y'"):
        Schedule({"f": f}, {"x": 2, "y": 2}, ("x",), [Call("f", ("x",), ("y",))], record=("y",))


def test_decayed_states_rest_at_zero_and_the_mode_is_restored():
    from heavytop.compile import host

    half = trace(lambda x: 0.5 * x, {"x": ()}, name="half")
    run = Stepper(Schedule({"half": half}, {"x": ()}, ("x",), [Call("half", ("x",), ("x",))])).run(
        {"x": 1.0}, steps=1030
    )
    assert run.records["x"][1000] == 2.0**-1000
    assert run.state["x"] == (0.0 if host().x86 else 2.0**-1030)
    tiny = np.array([5e-324])
    assert (tiny * 1.0)[0] > 0


def test_buffers_may_have_any_name(monkeypatch):
    """A call that overwrites an input works on a copy, which must not be confused with another buffer."""
    grow = trace(lambda a, b: {"a": a + b, "b": b + a}, {"a": (), "b": ()}, name="grow")
    plan = Schedule({"grow": grow}, {"x": (), "x'": ()}, ("x", "x'"), [Call("grow", ("x", "x'"), ("x", "x'"))])
    fast = Stepper(plan).run({"x": 1.0, "x'": 2.0}, steps=3).records
    monkeypatch.setenv("HEAVYTOP_NATIVE", "0")
    slow = Stepper(plan).run({"x": 1.0, "x'": 2.0}, steps=3).records
    for name in ("x", "x'"):
        np.testing.assert_array_equal(fast[name], slow[name])


def test_observers_see_every_record():
    plan = rk4()
    late = [Call("energy", ("x", "w"), ("E",), every=2)]
    with pytest.raises(ModelError, match="'energy'.*every=2"):
        Schedule(
            plan.functions,
            plan.buffers,
            plan.state,
            plan.advance,
            observe=late,
            constants=plan.constants,
            tables=plan.tables,
        )


@pytest.mark.parametrize("lanes", [1, 4])
def test_a_call_is_skipped_if_no_lane_needs_it(monkeypatch, lanes):
    """A counter of requests, lane by lane; the same with and without native code, alone and in a batch."""
    check = trace(lambda x, n: np.where(np.abs(x) > 1.0, 1.0, 0.0) + 0 * n, {"x": (), "n": ()}, name="check")
    turn = trace(
        lambda x, n, needed: (np.where(needed != 0.0, -0.5 * x, x), np.where(needed != 0.0, n + 1, n)),
        {"x": (), "n": (), "needed": ()},
        name="turn",
    )
    grow = trace(lambda x: 1.25 * x, {"x": ()}, name="grow")
    calls = [
        Call("grow", ("x",), ("x",)),
        Call("check", ("x", "n"), ("needed",)),
        Call("turn", ("x", "n", "needed"), ("x", "n"), when=2),
    ]
    functions, buffers = {"check": check, "turn": turn, "grow": grow}, {"x": (), "n": (), "needed": ()}
    schedule = Schedule(functions, buffers, ("x", "n"), calls)
    x = np.linspace(0.01, 1.9, 11)
    native = Stepper(schedule, lanes).run({"x": x, "n": np.zeros(11)}, steps=40)
    alone = [Stepper(schedule, 1).run({"x": x[k], "n": 0.0}, steps=40).state["x"] for k in (0, 10)]
    monkeypatch.setenv("HEAVYTOP_NATIVE", "0")
    slow = Stepper(schedule).run({"x": x, "n": np.zeros(11)}, steps=40)
    np.testing.assert_array_equal(native.state["n"], slow.state["n"])
    np.testing.assert_allclose(native.state["x"], slow.state["x"], rtol=1e-13)
    np.testing.assert_array_equal(native.state["x"][[0, 10]], alone)
    assert 0 < np.min(native.state["n"]) < np.max(native.state["n"])
    with pytest.raises(ModelError, match="may be skipped"):
        Schedule(functions, buffers | {"y": ()}, ("x", "n"), [Call("turn", ("x", "n", "n"), ("x", "y"), when=2)])


def roots(times: int) -> Schedule:
    """Newton's iteration for the square root of ``a``: trajectories need different numbers of rounds."""
    improve = trace(
        lambda x, a, done, n: {
            "x": np.where(done, x, 0.5 * (x + a / x)),
            "done": np.where(np.abs(x * x - a) <= 1e-15 * a, 1.0, 0.0),
            "n": n + np.where(done, 0.0, 1.0),
        },
        {"x": (), "a": (), "done": (), "n": ()},
        name="improve",
    )
    begin = trace(lambda a: {"x": a, "done": 0.0 * a}, {"a": ()}, name="begin")
    loop = Repeat((Call("improve", ("x", "a", "done", "n"), ("x", "done", "n")),), times, "done")
    buffers = {"x": (), "a": (), "done": (), "n": ()}
    return Schedule(
        {"begin": begin, "improve": improve}, buffers, ("x", "done", "n"), [Call("begin", ("a",), ("x", "done")), loop],
        constants=("a",),
    )  # fmt: skip


@pytest.mark.parametrize("lanes", [1, 4])
def test_repetitions_end_when_all_trajectories_are_done(lanes: int) -> None:
    a = np.array([2.0, 1e6, 1.0, 1e12, 3.0, 0.25, 7.0])
    state = {"x": a, "done": np.zeros(7), "n": np.zeros(7)}
    together = Stepper(roots(100), lanes).run(state, {"a": a}, steps=1).state
    np.testing.assert_allclose(together["x"], np.sqrt(a), rtol=1e-15)
    assert len(set(together["n"])) > 3
    assert together["n"].max() < 40
    for k in range(7):
        alone = Stepper(roots(100), lanes).run({name: x[k] for name, x in state.items()}, {"a": a[k]}, steps=1).state
        assert all(alone[name] == together[name][k] for name in state)
    few = Stepper(roots(3), lanes).run(state, {"a": a}, steps=1).state
    assert few["n"].max() == 3
