"""Prepared runs: equal to simulate at any moment, whatever was changed since the last one."""

from __future__ import annotations

import gc
import pickle
import random
import threading
import weakref
from collections.abc import Callable
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from heavytop._likeness import likeness

import heavytop as ht
from heavytop.control.laws.wrapper import Wrapper
from heavytop.errors import HeavytopError, SimulationError
from heavytop.simulate.dynamics import as_dynamics

START = (np.array([0.3]), np.array([0.1]))
SETTING = {"gain": 1.0}
FACTOR = np.array([1.0])
MODULE = SimpleNamespace(gain=1.0)


@cache
def arm() -> ht.Model:
    system = ht.System(name="arm")
    system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
    system.input("motor", ht.JointForce("rod"))
    return system.derive()


def end(run: Callable[[], ht.Run]) -> float:
    return float(run().u[0, 0])


class Weak(Wrapper):
    """Inputs times a factor."""

    def __init__(self, controller: Any, factor: Any) -> None:
        super().__init__(controller)
        self.factor = factor

    def acted(self, at: Any, u: Any) -> Any:
        return self.factor * u


class Filtered(Weak):
    """With a memory, so that sampling makes a copy of it."""

    own_state_size = 1

    def rate(self, at: Any, u: Any) -> Any:
        return u - at.z


class Plain:
    """A law without a base class."""

    gain = 1.0

    def traced(self, model: Any) -> Any:
        return ht.Feedback(lambda v: -self.gain * v, ("v",)).traced(model)


def feedback_of_globals(v: Any) -> Any:
    return -SETTING["gain"] * FACTOR * MODULE.gain * v


def changed_attribute() -> tuple[Any, Callable[[], None]]:
    law = Weak(ht.Feedback(lambda v: -v, ("v",)), 1.0)
    return law, lambda: setattr(law, "factor", 2.0)


def changed_inside() -> tuple[Any, Callable[[], None]]:
    inner = Weak(ht.Feedback(lambda v: -v, ("v",)), 1.0)
    return Weak(inner, 1.0), lambda: setattr(inner, "factor", 2.0)


def changed_with_memory() -> tuple[Any, Callable[[], None]]:
    law = Filtered(ht.Feedback(lambda v: -v, ("v",)), 1.0)
    return law, lambda: setattr(law, "factor", 2.0)


def changed_array() -> tuple[Any, Callable[[], None]]:
    factor = np.array([1.0])
    return Weak(ht.Feedback(lambda v: -v, ("v",)), factor), lambda: factor.__setitem__(0, 2.0)


def changed_closure() -> tuple[Any, Callable[[], None]]:
    gain = 1.0

    def double() -> None:
        nonlocal gain
        gain = 2.0

    return ht.Feedback(lambda v: -gain * v, ("v",)), double


def changed_default() -> tuple[Any, Callable[[], None]]:
    gains = [1.0]
    return ht.Feedback(partial(lambda v, gains: -gains[0] * v, gains=gains), ("v",)), lambda: gains.__setitem__(0, 2.0)


def changed_global() -> tuple[Any, Callable[[], None]]:
    return ht.Feedback(feedback_of_globals, ("v",)), lambda: SETTING.update(gain=2.0)


def changed_global_array() -> tuple[Any, Callable[[], None]]:
    return ht.Feedback(feedback_of_globals, ("v",)), lambda: FACTOR.__setitem__(0, 2.0)


def changed_global_object() -> tuple[Any, Callable[[], None]]:
    return ht.Feedback(feedback_of_globals, ("v",)), lambda: setattr(MODULE, "gain", 2.0)


def changed_class() -> tuple[Any, Callable[[], None]]:
    kind = type("Own", (Plain,), {"gain": 1.0})
    return kind(), lambda: setattr(kind, "gain", 2.0)


def changed_method() -> tuple[Any, Callable[[], None]]:
    kind = type("Own", (Weak,), {})
    law = kind(ht.Feedback(lambda v: -v, ("v",)), 1.0)
    return law, lambda: setattr(kind, "acted", lambda self, at, u: 2.0 * u)


CHANGES = [value for name, value in sorted(globals().items()) if name.startswith("changed_")]


@pytest.fixture(autouse=True)
def _as_before() -> Any:
    yield
    SETTING["gain"], FACTOR[0], MODULE.gain = 1.0, 1.0, 1.0


@pytest.mark.parametrize("case", CHANGES, ids=lambda case: case.__name__)
def test_a_law_that_changed_is_never_ignored(case: Callable[[], tuple[Any, Callable[[], None]]]) -> None:
    law, change = case()
    run = ht.prepare(arm(), 0.01, 0.01, control=law)
    ways = [lambda: run(START), lambda: ht.simulate(arm(), START, 0.01, 0.01, control=law)]
    assert [end(way) for way in ways * 2] == [-0.1] * 4
    change()
    assert [end(way) for way in ways * 2] == [-0.2] * 4


def test_equal_laws_that_part_later_do_not_meet() -> None:
    """What was found for the content of a law must not run another law that once was like it."""
    laws = [ht.Feedback(lambda signal: -signal, ("signal",), 1, samples=Samples(1.0)) for _ in range(2)]
    runs = [ht.prepare(arm(), 0.01, 0.01, control=law) for law in laws]
    assert [end(lambda run=run: run(START)) for run in runs] == [-1.0, -1.0]
    laws[0].samples.value = 2.0  # type: ignore[union-attr]
    assert [end(lambda run=run: run(START)) for run in runs] == [-2.0, -1.0]


class Samples:
    """A signal that can be set."""

    def __init__(self, value: float) -> None:
        self.value = value

    def __call__(self, times: np.ndarray) -> np.ndarray:
        return np.full((len(times), 1), self.value)


def test_events_and_integrators_count_by_content() -> None:
    level = [0.2]
    run = ht.prepare(arm(), 1.0, 0.01, events=lambda t, q, v: q[0] - level[0])
    first = run(START).events[0]
    assert abs(float(first.q[0]) - 0.2) < 1e-9
    level[0] = 0.25
    second = run(START).events[0]
    assert abs(float(second.q[0]) - 0.25) < 1e-9
    method = ht.RKMK45(rtol=1e-3)
    loose = ht.prepare(arm(), 1.0, 1.0, method)
    steps = loose(START).timing.steps
    method.rtol = 1e-10
    assert loose(START).timing.steps > steps


def test_a_method_of_the_user_counts_by_its_code() -> None:
    class Slow(ht.RKMK4):
        name = "slow"
        factor = 0.5

        def step(self, plant: Any, state: Any, h: Any) -> Any:
            return super().step(plant, state, self.factor * h)

    run = ht.prepare(arm(), 0.1, 0.1, Slow())
    halfway = run(START).q[-1]
    Slow.factor = 1.0
    np.testing.assert_array_equal(run(START).q[-1], ht.simulate(arm(), START, 0.1, 0.1).q[-1])
    assert not np.array_equal(halfway, run(START).q[-1])


def test_inputs_and_starts_are_read_at_every_call() -> None:
    u = np.array([0.5])
    run = ht.prepare(arm(), 0.1, 0.01, inputs=u)
    assert run(START).u[0, 0] == 0.5
    u[0] = 1.5
    assert run(START).u[0, 0] == 1.5
    assert ht.simulate(arm(), START, 0.1, 0.01).u[0, 0] == 0.0
    q = START[0].copy()
    before = run((q, START[1])).q
    q[0] = 0.7
    assert before[0, 0] == 0.3
    assert run((q, START[1])).q[0, 0] == 0.7


@pytest.mark.parametrize("integrator", ["rkmk4", "rkmk45", "variational"])
def test_the_same_bits_as_simulate(integrator: str) -> None:
    run = ht.prepare(arm(), 0.5, 0.05, integrator, inputs=[0.3])
    starts = np.linspace(0, 1, 5)[:, None], np.zeros((5, 1))
    for start in (START, starts, ([0.3], [0.1])):
        ours, theirs = run(start), ht.simulate(arm(), start, 0.5, 0.05, integrator, inputs=[0.3])
        for name in ("t", "q", "v", "u"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    assert run(START).q.shape == (11, 1)


def test_wrong_arguments_are_told_when_prepared_or_called() -> None:
    model = arm()
    with pytest.raises(SimulationError, match="record_every must be 1, 2"):
        ht.prepare(model, 1.0, 0.1, record_every=0)
    run = ht.prepare(model, 1.0, 0.1)
    run(START)
    for wrong in (1.0, np.array([1])):  # equal to 1, which is known by now
        with pytest.raises(HeavytopError):
            ht.simulate(model, START, 1.0, 0.1, record_every=wrong)  # type: ignore[arg-type]
    with pytest.raises(SimulationError, match="start must be a pair"):
        run(np.zeros(3))  # type: ignore[arg-type]
    with pytest.raises(HeavytopError, match="start v of 'arm' must be finite"):
        run((START[0], np.array([np.nan])))
    with pytest.raises(HeavytopError, match="parameter of 'arm'"):
        run(START, {"mass": 1.0})
    with pytest.raises(SimulationError, match="either inputs="):
        ht.prepare(model, 1.0, 0.1, inputs=[1.0], control=Plain())


def test_threads_do_not_share_their_places() -> None:
    run = ht.prepare(arm(), 2.0, 0.01)
    starts = [(np.array([0.1 * k]), np.zeros(1)) for k in range(8)]
    alone = [run(start).q for start in starts]
    found: dict[int, list[np.ndarray]] = {}

    def work(k: int) -> None:
        found[k] = [run(starts[k]).q for _ in range(20)]

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k, runs in found.items():
        for q in runs:
            np.testing.assert_array_equal(q, alone[k])


# --- what an object is made of ------------------------------------------------------------------------------------------------


def test_what_cannot_be_known_is_like_nothing() -> None:
    for hidden in (np.random.default_rng(0), random.Random(0), (k for k in range(3)), iter([1])):
        assert likeness(hidden) != likeness(hidden)
        assert likeness([1.0, {"x": hidden}]) != likeness([1.0, {"x": hidden}])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (0.0, -0.0),
        (1, 1.0),
        (True, 1),
        ([1, 2], (1, 2)),
        ([[1], 2], [[1, 2]]),
        ({"a": 1}, {"a": 2}),
        (np.zeros(2), np.zeros((2, 1))),
        (np.zeros(2), np.zeros(2, dtype=np.float32)),
        (np.zeros(400), np.eye(20).ravel()),
        ({1, 2}, {1, 3}),
        (SimpleNamespace(a=1), SimpleNamespace(a=2)),
        (lambda x: x, lambda x: x + 1),
        (ht.Event(lambda t, q, v: q[0]), ht.Event(lambda t, q, v: q[0], direction=1)),
    ],
)
def test_different_things_are_told_apart(one: Any, other: Any) -> None:
    assert likeness(one) == likeness(one)
    assert likeness(one) != likeness(other)


def test_one_object_twice_is_not_two_equal_ones() -> None:
    shared = [1.0]
    assert likeness([shared, shared]) != likeness([[1.0], [1.0]])
    loop: list[Any] = [1.0]
    loop.append(loop)
    assert likeness(loop) == likeness(loop)


def test_a_prepared_run_travels() -> None:
    run = ht.prepare(arm(), 0.1, 0.01, control=ht.Feedback(feedback_of_globals, ("v",)))
    arrived = pickle.loads(pickle.dumps(run))
    np.testing.assert_array_equal(arrived(START).q, run(START).q)


def test_native_code_is_let_go_with_its_model() -> None:
    def use() -> list[weakref.ref[Any]]:
        system = ht.System(name="released")
        system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
        system.input("motor", ht.JointForce("rod"))
        model = system.derive()
        run = ht.prepare(model, 0.1, 0.01, control=ht.Feedback(lambda v: -v, ("v",)), events=lambda t, q, v: q[0] - 9)
        function = model.function("acceleration")
        run(START)
        function(*START, np.zeros(1))
        (kernel,) = model._kernels.values()
        (settled,) = as_dynamics(model).prepared._values.values()
        (code,) = settled.natives.values()
        assert kernel._code is not None
        return [weakref.ref(thing) for thing in (model, kernel._code.library, code.stepper._code.library, function)]

    held = use()
    gc.collect()
    assert [thing() for thing in held] == [None] * 4
