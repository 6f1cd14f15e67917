"""Values: equal ones share their key and their code, nothing can change them, and user-defined code is never mistaken for another."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections import deque
from dataclasses import FrozenInstanceError, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heavytop as ht
from heavytop import control, copters
from heavytop.functions import key, stable_key
from heavytop.simulate.integrators import RKMK4, RKMK45


def cart() -> ht.Model:
    system = ht.System(gravity=(0, 0, 0), name="cart")
    system.body("cart", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.input("motor", ht.JointForce("cart"))
    return system.derive()


def end(model: ht.Model, law: Any) -> float:
    return float(ht.simulate(model, ([1.0], [0.0]), 0.1, 0.01, control=law).v[-1, 0])


# --- equal values ---------------------------------------------------------------------------------------------------------------


def values() -> list[Any]:
    quad = copters.quadcopter()
    law = quad.law()
    hover = control.Reference.set_point(quad.model)
    return [
        ht.library.load("double-pendulum").derive(),
        ht.library.load("tricopter-load").derive(),
        quad,
        copters.load("crazyflie"),
        law,
        law.with_reference(hover),
        law.with_reference(hover).sampled(0.01),
        RKMK4(),
        RKMK45(rtol=1e-6),
        hover,
        ht.Inertia(1.0, com=(0, 0, 1)),
        ht.prepare(ht.library.pendulum().derive(), until=1.0, step=0.01),
    ]


@pytest.mark.parametrize("index", range(12))
def test_equal_calls_have_equal_keys_here_and_elsewhere(index: int) -> None:
    value = values()[index]
    assert value.key is not None
    assert value.key == values()[index].key == pickle.loads(pickle.dumps(value)).key


@pytest.mark.thorough
def test_keys_are_the_same_in_another_process() -> None:
    program = (
        "import heavytop as ht\nfrom heavytop import copters\n"
        "quad = copters.quadcopter()\n"
        "print(quad.key, quad.law().key, ht.library.load('double-pendulum').derive().key)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    quad = copters.quadcopter()
    assert done.stdout.split() == [quad.key, quad.law().key, ht.library.load("double-pendulum").derive().key]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (1.0, 1),
        (0.0, -0.0),
        ((1.0, 2.0), [1.0, 2.0]),
        (np.zeros(2), np.zeros((1, 2))),
        (np.zeros(2), np.zeros(2, dtype=np.float32)),
        ({"a": 1.0}, {"b": 1.0}),
        ("ab", ("a", "b")),
        (RKMK45(rtol=1e-6), RKMK45(rtol=1e-7)),
        (ht.Inertia(1.0), ht.Inertia(2.0)),
        (ht.Revolute("z"), ht.Revolute("y")),
    ],
)
def test_different_values_have_different_keys(one: Any, other: Any) -> None:
    assert key(one) == key(one)
    assert key(one) != key(other)


def test_equal_flights_trace_nothing_again(monkeypatch: pytest.MonkeyPatch) -> None:
    copters.fly(copters.quadcopter(), "hover", until=0.02)
    traced = []
    law = type(copters.quadcopter().law())
    original = law.composed
    monkeypatch.setattr(law, "composed", lambda self, model: traced.append(self) or original(self, model))
    copters.fly(copters.quadcopter(), "hover", until=0.02)
    assert not traced


# --- nothing changes a value ----------------------------------------------------------------------------------------------------


def test_an_attribute_cannot_be_set() -> None:
    brake = ht.Feedback(lambda v: -v, ("v",))
    with pytest.raises(FrozenInstanceError, match=r"'arguments'.*dataclasses\.replace"):
        brake.arguments = ("q",)
    assert replace(brake, arguments=("q",)).arguments == ("q",)
    event = ht.Event(lambda t, q, v: q[0])
    with pytest.raises(FrozenInstanceError, match=r"'terminal'.*dataclasses\.replace"):
        event.terminal = False


def test_arrays_of_a_value_are_its_own_and_read_only() -> None:
    axis = np.array([0.0, 0.0, 1.0])
    joint = ht.Revolute(axis)
    before = joint.key
    axis[0] = 1.0
    assert (
        joint.key == before == ht.Revolute([0.0, 0.0, 1.0]).key or ht.Revolute(np.array([0.0, 0.0, 1.0])).key == before
    )
    reference = control.Reference.set_point(cart(), np.array([0.5]))
    law = control.computed_torque(cart(), stiffness=1.0, damping=1.0).with_reference(np.array([0.3]))
    for value in (reference, law):
        for part in vars(value).values():
            if isinstance(part, np.ndarray):
                with pytest.raises(ValueError, match="read-only"):
                    part[...] = 0.0


# --- user-defined code ----------------------------------------------------------------------------------------------------------

K = 2.0
GAINS = deque([2.0])
FILE: Path = Path("gain.txt")


def reads_a_name(v: Any) -> Any:
    return -K * v


def reads_globals(v: Any) -> Any:
    return -globals()["K"] * v


def reads_the_environment(v: Any) -> Any:
    return -float(os.environ["HEAVYTOP_TEST_GAIN"]) * v


def reads_a_deque(v: Any) -> Any:
    return -GAINS[0] * v


def reads_a_file(v: Any) -> Any:
    return -float(FILE.read_text()) * v


@pytest.fixture
def set_gain(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Sets the gain of all functions above."""
    monkeypatch.setattr(sys.modules[__name__], "FILE", tmp_path / "gain.txt")

    def set_all(gain: float) -> None:
        monkeypatch.setattr(sys.modules[__name__], "K", gain)
        monkeypatch.setenv("HEAVYTOP_TEST_GAIN", str(gain))
        GAINS[0] = gain
        FILE.write_text(str(gain))

    return set_all


READERS = [reads_a_name, reads_globals, reads_the_environment, reads_a_deque, reads_a_file]


@pytest.mark.parametrize("function", READERS)
def test_a_function_is_frozen_in_a_value_and_read_again_in_a_new_one(function: Any, set_gain: Any) -> None:
    model, start = cart(), ([0.0], [1.0])
    set_gain(2.0)
    kept = ht.Feedback(function, ("v",))

    def last(law: ht.Feedback) -> float:
        return float(ht.simulate(model, start, 0.1, 0.01, control=law).v[-1, 0])

    first = last(kept)
    set_gain(3.0)
    assert last(kept) == first
    assert last(ht.Feedback(function, ("v",))) < first


@pytest.mark.parametrize("function", READERS)
def test_events_references_and_wrappers_read_their_functions_again(function: Any, set_gain: Any) -> None:
    class Braked(control.Wrapper):
        def acted(self, at: Any, u: Any) -> Any:
            return u + function(at.q)

    model, start = cart(), ([0.0], [1.0])

    def results() -> list[float]:
        event = ht.Event(lambda t, q, v: function(q)[0] + 0.2, terminal=True)
        run = ht.simulate(model, start, 1.0, 0.01, events=[event])
        reference = control.Reference.from_function(model, lambda t: function(ht.vector(t)))
        wrapped = Braked(ht.Feedback(lambda q: -q, ("q",)))
        return [float(run.t[-1]), float(reference(1.0)[0][0]), end(model, wrapped)]

    set_gain(2.0)
    first = results()
    set_gain(4.0)
    second = results()
    assert first[:2] == pytest.approx([0.1, -2.0])
    assert second[:2] == pytest.approx([0.05, -4.0])
    assert second[2] == pytest.approx(end(model, ht.Feedback(lambda q: -5.0 * q, ("q",))), rel=1e-12)
    assert first[2] == pytest.approx(end(model, ht.Feedback(lambda q: -3.0 * q, ("q",))), rel=1e-12)


def test_an_object_that_is_not_a_value_is_traced_every_time() -> None:
    class Plain:
        gain = 1.0

        def traced(self, model: ht.Model) -> Any:
            return ht.Feedback(lambda q: -self.gain * q, ("q",)).traced(model)

    law, model = Plain(), cart()
    first = end(model, law)
    law.gain = 2.0
    assert end(model, law) == pytest.approx(2 * first, rel=1e-2)


def test_a_wrapper_with_a_container_that_may_change_is_traced_every_time() -> None:
    class Scaled(control.Wrapper):
        def __init__(self, controller: Any) -> None:
            super().__init__(controller)
            self.factors = deque([1.0])

        def acted(self, at: Any, u: Any) -> Any:
            return self.factors[0] * u

    law, model = Scaled(ht.Feedback(lambda q: -q, ("q",))), cart()
    assert law.key is None
    first = end(model, law)
    law.factors[0] = 2.0
    assert end(model, law) == pytest.approx(2 * first, rel=1e-2)


def test_two_laws_of_one_user_class_are_two() -> None:
    class Scaled(control.Wrapper):
        factor = 1.0

        def acted(self, at: Any, u: Any) -> Any:
            return self.factor * u

    model, inner = cart(), ht.Feedback(lambda q: -q, ("q",))
    first = end(model, Scaled(inner))
    Scaled.factor = 2.0
    assert end(model, Scaled(inner)) == pytest.approx(2 * first, rel=1e-2)


def test_a_model_derived_again_reads_its_functions_again() -> None:
    stiffness = [1.0]
    system = ht.System(gravity=(0, 0, 0))
    system.body("cart", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.potential(lambda q: 0.5 * stiffness[0] * q[0] ** 2)
    first = system.derive()
    assert first.acceleration([1.0], [0.0])[0] == -1.0
    stiffness[0] = 4.0
    assert first.acceleration([1.0], [0.0])[0] == -1.0
    assert system.derive().acceleration([1.0], [0.0])[0] == -4.0


def test_cached_functions_and_methods_of_objects_are_user_code() -> None:
    one, other = (cache(eval("lambda x: " + text)) for text in ("x", "2 * x"))
    assert key(one) is None
    first, second = ht.Feedback(one, ("q",)), ht.Feedback(other, ("q",))
    assert first.key != second.key
    assert key(np.random.default_rng(0).normal) is None
    assert key(np.sin) == key(np.sin) != key(np.cos)
    assert key(len) == key(len) != key(sum)


def test_stable_keys_see_code_closures_and_globals(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(gain: float) -> Any:
        return lambda v: -gain * v

    assert stable_key(make(1.0)) == stable_key(make(1.0)) != stable_key(make(2.0))
    before = stable_key(reads_a_name)
    monkeypatch.setattr(sys.modules[__name__], "K", 5.0)
    assert stable_key(reads_a_name) != before
