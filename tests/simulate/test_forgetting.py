"""Who writes an integrator and forgets something is told so; no number is computed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heavytop as ht
from heavytop._arrays import symbol
from heavytop.errors import HeavytopError, SimulationError, UnknownNameError
from heavytop.simulate import Control
from heavytop.simulate.integrators.base import Integrator
from heavytop.simulate.plant import Plant, PlantState


@cache
def driven_arm() -> ht.Model:
    """A driven pendulum: beside v it has the work as a flat part."""
    system = ht.System(name="arm")
    system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
    system.input("motor", ht.JointForce("rod"))
    return system.derive()


def method(step: Callable[..., Any], **attributes: Any) -> Integrator:
    kind = type("Own", (Integrator,), {"name": "own", "order": 1, "step": step, **attributes})
    return kind()


def run(integrator: Any) -> ht.Run:
    return ht.simulate(driven_arm(), ([0.3], [0.1]), 0.02, 0.01, integrator, inputs=[0.5])


def euler(self: Integrator, plant: Plant, state: PlantState, h: Any) -> PlantState:
    return plant.advance(state, plant.at(state, 0.0).rates * h)


def test_a_complete_one_runs() -> None:
    ours = run(method(euler))
    assert ours.outcome.ok
    assert ours.work is not None
    # Euler's first step by hand: q moves with v, the work of the input is u v h
    np.testing.assert_allclose(ours.q[1], 0.3 + 0.01 * 0.1, rtol=1e-14)
    np.testing.assert_allclose(ours.work[1, 0], 0.5 * 0.1 * 0.01, rtol=1e-13)


# --- integrators that cannot be compared -------------------------------------------------------------------------------------

DAMPED = """
import sys
import numpy as np
import heavytop as ht
from heavytop.simulate import RKMK4

class Damped(RKMK4):
    def __init__(self, factor):
        self.factor = factor
    def step(self, plant, state, h):
        end = super().step(plant, state, h)
        return end.replaced(v=self.factor * end.v)

model = ht.library.pendulum().derive()
print(ht.simulate(model, ([1.0], [0.0]), 0.1, 0.1, Damped(float(sys.argv[1])), balance=False).v[-1, 0])
"""


class Factor:
    """An object that may change, so that what holds it has no key."""

    def __init__(self, value: float) -> None:
        self.value = value


class Damped(ht.simulate.RKMK4):
    def __init__(self, factor: Factor) -> None:
        self.factor = factor

    def step(self, plant: Plant, state: PlantState, h: Any) -> PlantState:
        end = super().step(plant, state, h)
        return end.replaced(v=self.factor.value * end.v)


@pytest.mark.thorough
def test_integrators_without_a_key_do_not_share_native_code() -> None:
    whole, half = (run(Damped(Factor(value))) for value in (1.0, 0.5))
    np.testing.assert_allclose(half.v[1], 0.5 * whole.v[1], rtol=1e-14)


@pytest.mark.thorough
def test_user_defined_integrators_are_not_found_on_disk(tmp_path: Path) -> None:
    """Another program, or the same after an edit, has another integrator under the same number."""
    (tmp_path / "damped.py").write_text(DAMPED)
    environment = {**os.environ, "HEAVYTOP_CACHE": str(tmp_path / "cache")}

    def speed(factor: str) -> float:
        command = [sys.executable, str(tmp_path / "damped.py"), factor]
        return float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)

    assert speed("1.0") == pytest.approx(2.0 * speed("0.5"), rel=1e-14)


# --- steps that do not return their end ---------------------------------------------------------------------------------------


def returns_nothing(self: Integrator, plant: Plant, state: PlantState, h: Any) -> None:
    plant.advance(state, plant.at(state, 0.0).rates * h)


def returns_arrays(self: Integrator, plant: Plant, state: PlantState, h: Any) -> Any:
    return state.q, state.v


def returns_rates(self: Integrator, plant: Plant, state: PlantState, h: Any) -> Any:
    return plant.at(state, 0.0).rates


def returns_a_foreign_state(self: Integrator, plant: Plant, state: PlantState, h: Any) -> PlantState:
    return Plant(plant.dynamics, Control("table"), True, self).state()


@pytest.mark.parametrize("step", [returns_nothing, returns_arrays, returns_rates, returns_a_foreign_state])
def test_a_step_must_return_a_state_of_its_plant(step: Callable[..., Any]) -> None:
    with pytest.raises(SimulationError, match="step of Own must return the state at the end of the step"):
        run(method(step))


# --- parts, names, symbols ----------------------------------------------------------------------------------------------------


def without_a_part(self: Integrator, plant: Plant, state: PlantState, h: Any) -> PlantState:
    rates = plant.at(state, 0.0).rates
    return plant.advance(state, plant.rates(rates.w, {plant.v: rates.v}) * h)


def test_rates_need_every_part() -> None:
    with pytest.raises(SimulationError, match="'work' is missing"):
        run(method(without_a_part))


def test_rates_have_no_other_parts() -> None:
    def with_another(self: Integrator, plant: Plant, state: PlantState, h: Any) -> PlantState:
        rates = plant.at(state, 0.0).rates
        flats = {flat: rates.of(flat) for flat in plant.flats}
        return plant.advance(state, plant.rates(rates.w, flats | {plant.q: rates.v}) * h)

    with pytest.raises(SimulationError, match="'q' is not a flat part"):
        run(method(with_another))


@pytest.mark.parametrize("name", ["w", "v"])
def test_rates_have_the_shape_of_their_part(name: str) -> None:
    def with_a_wrong_shape(self: Integrator, plant: Plant, state: PlantState, h: Any) -> PlantState:
        rates = plant.at(state, 0.0).rates
        flats = {flat: rates.of(flat) for flat in plant.flats}
        if name == "v":
            flats[plant.v] = rates.v[0]
        return plant.advance(state, plant.rates(rates.w[0] if name == "w" else rates.w, flats) * h)

    with pytest.raises(SimulationError, match=rf"rate of {name} .* shape \(1,\), got \(\)"):
        run(method(with_a_wrong_shape))


@pytest.mark.parametrize("label", ["name", "order"])
def test_an_integrator_needs_name_and_order(label: str) -> None:
    complete = {"name": "own", "order": 1, "step": euler}
    kind = type("Own", (Integrator,), {k: v for k, v in complete.items() if k != label})
    with pytest.raises(SimulationError, match=f"Own must have a class attribute '{label}'"):
        run(kind())


def test_an_integrator_needs_a_step() -> None:
    kind: Any = type("Own", (Integrator,), {"name": "own", "order": 1})
    with pytest.raises(TypeError, match="step"):
        kind()


@pytest.mark.parametrize("factor", ["symbol", "array"])
def test_a_symbol_does_not_multiply_rates_from_the_left(factor: str) -> None:
    def reversed_product(self: Integrator, plant: Plant, state: PlantState, h: Any) -> PlantState:
        rates = plant.at(state, 0.0).rates
        return plant.advance(state, h * rates if factor == "symbol" else state.v * rates)

    with pytest.raises((TypeError, HeavytopError)) as caught:
        run(method(reversed_product))
    if factor == "symbol":
        assert "rates * h" in str(caught.value)


def test_a_number_multiplies_rates_from_either_side() -> None:
    def scaled(self: Integrator, plant: Plant, state: PlantState, h: Any) -> PlantState:
        rates = plant.at(state, 0.0).rates
        return plant.advance(state, (np.float64(0.25) * rates + 0.5 * rates + rates * 0.25) * h)

    np.testing.assert_allclose(run(method(scaled)).v, run(method(euler)).v, rtol=1e-14)


def carries(self: Integrator, plant: Plant) -> Mapping[str, tuple[int, ...]]:
    return {"last": ()}


def test_only_what_is_carried_can_be_kept() -> None:
    def misspelled(self: Integrator, plant: Plant, state: PlantState, h: Any) -> PlantState:
        return euler(self, plant, state, h).keeping(lost=h)

    with pytest.raises(UnknownNameError, match="'lost'"):
        run(method(misspelled, carries=carries))


def test_what_is_kept_has_the_shape_that_was_told() -> None:
    def of_another_shape(self: Integrator, plant: Plant, state: PlantState, h: Any) -> PlantState:
        return euler(self, plant, state, h).keeping(last=state.v)

    with pytest.raises(SimulationError, match=r"last has shape \(\), but the step gives it shape \(1,\)"):
        run(method(of_another_shape, carries=carries))


def test_only_what_is_carried_can_be_recorded() -> None:
    with pytest.raises(UnknownNameError, match="'lost'"):
        run(method(euler, carries=carries, records=("lost",)))


def test_a_step_computes_with_its_own_symbols_only() -> None:
    def with_a_foreign_symbol(self: Integrator, plant: Plant, state: PlantState, h: Any) -> PlantState:
        return euler(self, plant, state, h * symbol("guess"))

    with pytest.raises(SimulationError, match="a symbol that is not a value of this step"):
        run(method(with_a_foreign_symbol))


def test_a_step_does_not_compute_with_another_plant() -> None:
    def with_values_of_another(self: Integrator, plant: Plant, state: PlantState, h: Any) -> PlantState:
        other = Plant(plant.dynamics, Control("table"), True, self)
        return euler(self, plant, state, other.h)

    with pytest.raises(SimulationError, match="a symbol that is not a value of this step"):
        run(method(with_values_of_another))


def test_rates_of_another_plant_do_not_move_a_state() -> None:
    def with_rates_of_another(self: Integrator, plant: Plant, state: PlantState, h: Any) -> PlantState:
        other = Plant(plant.dynamics, Control("table"), True, self)
        return plant.advance(state, other.at(other.state(), 0.0).rates * h)

    with pytest.raises(SimulationError, match="another plant"):
        run(method(with_rates_of_another))
