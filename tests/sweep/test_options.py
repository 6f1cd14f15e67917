"""Names and options of a sweep have an effect or raise."""

from __future__ import annotations

import inspect
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import heavytop as ht
from heavytop import copters
from heavytop.errors import FileFormatError, SweepError, UnknownNameError
from heavytop.sweep import flight_cases, read_study


def cart(mass: float = 1.0) -> ht.Model:
    system = ht.System(gravity=(0, 0, 0), name="cart")
    drag = system.parameter("drag", 0.0)
    system.body("cart", joint=ht.Prismatic("x"), inertia=ht.Inertia(mass))
    system.force(lambda q, v: -drag * v)
    system.input("motor", ht.JointForce("cart"))
    return system.derive()


MODEL = cart()
TIMES = {"until": 0.5, "step": 0.1}


def test_an_incomplete_name_is_answered_with_its_entries() -> None:
    for name in ("cart", "crat"):
        with pytest.raises(UnknownNameError, match=r"Did you mean 'cart\.x' or 'cart\.v_x'\?"):
            ht.sweep(MODEL, {name: [1.0, 2.0]}, **TIMES)
    with pytest.raises(UnknownNameError, match=r"Did you mean 'hull\.x', 'hull\.y', 'hull\.z', 'hull\.R_xx', \.\.\.\?"):
        ht.sweep(copters.quadcopter(), {"hul": [1.0, 2.0]}, maneuver="hover")


def test_known_names_are_listed_once() -> None:
    with pytest.raises(UnknownNameError) as caught:
        ht.sweep(copters.quadcopter(), {"zzz": [1.0]}, maneuver="hover")
    listed = str(caught.value).partition("Known: ")[2].rstrip(".").split(", ")
    assert len(listed) == len(set(listed))


@pytest.mark.thorough
def test_models_made_by_functions_must_have_the_names() -> None:
    with pytest.raises(SweepError, match="'drga'.*Did you mean 'drag'"):
        ht.sweep(cart, {"mass": [1.0, 2.0], "drga": [0.0, 1.0]}, start=([0.0], [1.0]), **TIMES)
    result = ht.sweep(cart, {"mass": [1.0, 2.0], "drag": [0.0, 1.0]}, start=([0.0], [1.0]), **TIMES)
    assert len(np.unique(result.q.values)) == 3
    taken = ht.sweep(lambda **values: cart(values["mass"]), {"mass": [1.0, 2.0]}, inputs=[1.0], **TIMES)
    assert np.allclose(taken.q.values.ravel(), [0.125, 0.0625])


def test_arguments_of_events_are_not_variables() -> None:
    for name in ("t", "q", "v"):
        with pytest.raises(UnknownNameError, match=f"'{name}'"):
            ht.sweep(MODEL, {name: [1.0, 2.0]}, events=lambda t, q, v: q[0] - 5, **TIMES)


def test_a_reference_needs_a_law() -> None:
    with pytest.raises(SweepError, match="reference= needs a law in control= that follows it"):
        ht.sweep(MODEL, {"drag": [0.0]}, reference=[0.0], **TIMES)


@pytest.mark.thorough
def test_a_take_alone_is_a_measure() -> None:
    options: dict[str, Any] = {"inputs": lambda drag: 1.0 + drag[:, None], **TIMES}
    result = ht.sweep(MODEL, {"drag": [1.0, 2.0]}, measure=ht.sweep.take("motor", "max"), **options)
    assert result.motor_max.values.tolist() == [2.0, 3.0]
    result = ht.sweep(MODEL, {"drag": [1.0, 2.0]}, measure=[ht.sweep.take("motor"), "cart.x"], **options)
    assert list(result.data.data_vars)[:2] == ["motor", "cart.x"]


def leaking() -> copters.Vehicle:
    """A quadcopter with a force unknown to its law."""
    plain = copters.quadcopter()

    def describe() -> ht.System:
        system = plain.describe()
        push = system.parameter("push", 0.0)
        system.force(lambda q, v: ht.vector(push + 0 * v[0], *(0 * v[k] for k in range(1, 6))))
        return system

    return replace(plain, model=describe().derive(), describe=describe)


@pytest.mark.thorough
def test_parameters_of_a_vehicle_reach_its_plant() -> None:
    vehicle = leaking()
    hover = copters.maneuvers.make("hover", vehicle)
    result = ht.sweep(vehicle, {"push": [0.0, 5.0]}, maneuver=hover, until=0.5, measure={"x": "hull.x"})
    for k, push in enumerate((0.0, 5.0)):
        law = vehicle.law().with_reference(hover)
        run = ht.simulate(vehicle.model, hover.start, 0.5, 2e-3, control=law, parameters={"push": push})
        assert np.isclose(result.x.values[k], run["hull.x"][-1], rtol=0, atol=1e-12)
    assert result.x.values[1] > 1e-3
    assert result.rerun(push=5.0).run["hull.x"][-1] == result.x.values[1]


@pytest.mark.thorough
def test_the_seed_is_that_of_the_noise_too() -> None:
    quad = copters.quadcopter()
    hover = copters.maneuvers.make("hover", quad)
    options: dict[str, Any] = {"maneuver": hover, "until": 0.1, "noise": 1.0}
    varied = ht.sweep(quad, {"seed": [0, 7]}, **options).position_error.values
    given = [ht.sweep(quad, {"wind": [0.0]}, seed=seed, **options).position_error.values[0] for seed in (0, 7)]
    assert given == varied.tolist()
    assert given[0] != given[1]


@pytest.mark.thorough
def test_seeds_of_flights_run_in_one_batch(batches: list[int]) -> None:
    quad = copters.quadcopter()
    for delay in (0.0, 0.01):
        study = ht.sweep.make_study(
            quad, {"seed": range(8)}, maneuver="hover", noise=1.0, delay=delay, until=0.1, chunk=8
        )
        assert study.layout
        batches.clear()
        result = ht.sweep.run_study(study)
        assert batches == [8]
        alone = [copters.fly(quad, "hover", noise=1.0, delay=delay, seed=s, until=0.1, step=2e-3) for s in (0, 5)]
        errors = [flight.position_error[-1] for flight in alone]
        assert np.array_equal(result.position_error.values[[0, 5]], errors)


def test_options_of_flights_are_those_of_fly_except_documented_ones() -> None:
    parameters = inspect.signature(copters.fly).parameters
    assert set(parameters) - set(flight_cases.SETTINGS) == {"vehicle", "start", "report"}
    assert set(flight_cases.SETTINGS) - set(parameters) == {"lag", "mass", "record_every", "integrator"}
    others = {n for n in parameters if n in flight_cases.SETTINGS and flight_cases.SETTINGS[n] != parameters[n].default}
    assert others == {"maneuver", "step"}


@pytest.mark.slow
def test_the_robust_controller_in_batches() -> None:
    """Flights of a sweep are those of ``fly``, with noise of different seeds in one batch."""
    quad, how = copters.quadcopter(), {"maneuver": "hover", "until": 0.2, "step": 1e-3, "noise": 1.0, "rotors": True}
    result = ht.sweep(quad, over={"law": ["energy", "robust"], "seed": [0, 1]}, **how)
    for law in ("energy", "robust"):
        for seed in (0, 1):
            flight = copters.fly(quad, law=law, seed=seed, **how)
            found = {name: float(result[name].sel(law=law, seed=seed)) for name in ("position_error", "command_change")}
            assert found == {"position_error": flight.position_error[-1], "command_change": flight.command_change}
    with pytest.raises(SweepError, match="rotors=True"):
        ht.sweep(quad, over={"lag": [0.02]}, law="robust", maneuver="hover", until=0.1)


@pytest.mark.thorough
def test_commands_in_sweeps_are_those_before_the_lag() -> None:
    quad, how = copters.quadcopter(), {"maneuver": "hover", "until": 0.2, "step": 1e-3}
    result = ht.sweep(quad, over={"noise": [0.0, 40.0]}, **how)
    flight = copters.fly(quad, noise=40.0, **how)
    assert result["time_at_limits"].values.tolist() == [0.0, flight.saturated]
    assert float(result["command_change"][1]) == pytest.approx(flight.command_change, rel=1e-12)
    assert result["command_change"].attrs["units"] == "N"
    late = ht.sweep(quad, over={"lag": [0.05], "noise": [40.0]}, **how)
    assert float(late["time_at_limits"].squeeze()) > 0.3
    sparse = ht.sweep(quad, over={"noise": [40.0]}, record_every=10, **how)
    assert np.isnan(float(sparse["command_change"][0]))  # the samples between the records are unknown


def test_a_sweep_that_leaves_the_batch_warns_before_it_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ht.sweep.api, "SLOW", 0.0)
    steps = np.linspace(0.05, 0.1, 20)
    with pytest.warns(
        ht.sweep.SlowSweepWarning, match=r"'step' cannot vary .* 20 combinations take about .* 0 h 0 min"
    ):
        ht.sweep(MODEL, {"step": steps, "cart.v_x": [0.0, 1.0]}, until=0.2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ht.sweep(MODEL, {"cart.x": np.linspace(0.0, 1.0, 30)}, **TIMES)
        ht.sweep(MODEL, {"step": ht.choice([0.05, 0.1]), "drag": ht.uniform()}, draws=30, until=0.2)


def test_threads_of_flights_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    quad = copters.quadcopter()
    with pytest.raises(SweepError, match="threads must be"):
        ht.sweep(quad, {"tilt": [0.0]}, maneuver="hover", until=0.1, threads=-3)
    seen: list[Any] = []
    ready = ht.simulate.RunSpec.ready
    monkeypatch.setattr(
        ht.simulate.RunSpec, "ready", lambda self, *given: (seen.append(self.threads), ready(self, *given))[1]
    )
    ht.sweep(quad, {"tilt": [0.0]}, maneuver="hover", until=0.1, threads=2)
    assert set(seen) == {2}


def test_the_seed_of_a_study_file_belongs_to_the_top() -> None:
    text = 'vehicle = "quadcopter"\n[options]\nmaneuver = "hover"\nseed = 3\n[over]\nwind = [1.0]\n'
    with pytest.raises(FileFormatError, match=r"study.toml, line 4: .*seed.*top"):
        read_study(text)


@pytest.mark.thorough
def test_laws_made_from_vectors_belong_to_their_points() -> None:
    """Rows of an array may have the same address one after the other: laws are found by the values of their point."""
    system = ht.System(gravity=(0, 0, 0))
    system.body("cart", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.input("motor", ht.JointForce("cart"))
    model = system.derive()

    def law(gains: np.ndarray) -> ht.Feedback:
        stiffness, damping = map(float, gains)
        return ht.Feedback(lambda q, v: -stiffness * q - damping * v, ("q", "v"))

    options: dict[str, Any] = {"start": ([1.0], [0.0]), "until": 0.1, "step": 0.05}
    result = ht.sweep(model, {"gains": ht.uniform([1.0, 1.0], [9.0, 9.0])}, draws=12, control=law, **options)
    gains, found = result.data["gains"].values, result.data["q"].values[:, 0]
    assert len(np.unique(gains, axis=0)) == 12
    start = options.pop("start")
    wanted = [ht.simulate(model, start, *options.values(), control=law(row)).q[-1, 0] for row in gains]
    assert np.allclose(found, wanted, rtol=0, atol=1e-12)


def test_names_that_mean_two_things_or_hold_a_slash() -> None:
    system = ht.System(gravity=(0, 0, 0))
    system.body("a/b", joint=ht.Prismatic("x", stiffness=system.parameter("step", 1.0)), inertia=ht.Inertia(1.0))
    model, options = system.derive(), {"until": 0.1, "step": 0.05}
    with pytest.raises(SweepError, match="'step' is an option of the simulation and a name of the model"):
        ht.sweep(model, {"step": [0.01, 0.05]}, until=0.1)
    with pytest.raises(SweepError, match="'a/b.x': .* has no slash"):
        ht.sweep(model, {"a/b.x": [0.1, 0.2]}, **options)
    result = ht.sweep(model, {"place": [0.1, 0.2]}, start=lambda place: (place[:, None], 0 * place[:, None]), **options)
    assert np.all(np.diff(result.data["q"].values[:, 0]) > 0)
