"""Disturbances of a vehicle vary within one native batch, with the results of single flights."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

import heavytop as ht
from heavytop import copters
from heavytop.control import Delayed
from heavytop.errors import ControlError, ModelError, SweepError

QUAD = copters.quadcopter()
SHORT = {"maneuver": "hover", "until": 0.2, "step": 0.01}


@pytest.mark.thorough
def test_each_point_equals_the_single_flight() -> None:
    over = {
        "payload": ht.uniform(-0.15, 0.3),
        "wind": ht.uniform(0.0, 5.0),
        "delay": ht.choice([0.0, 0.01, 0.03]),
        "noise": ht.uniform(0.0, 1.0),
        "seed": ht.choice([1, 2]),
    }
    swept = ht.sweep(QUAD, over, draws=3, **SHORT)
    assert (swept.outcome.values == 0).all()
    for draw in range(3):
        given = {name: swept.data[name].values[draw].item() for name in over}
        single = copters.fly(QUAD, "hover", step=0.01, until=0.2, **given)
        assert swept.position_error.values[draw] == pytest.approx(single.position_error[-1], abs=1e-13)
        assert swept.rerun(draw=draw).position_error[-1] == swept.position_error.values[draw]


def test_values_that_only_change_numbers_need_one_group() -> None:
    study = ht.sweep.make_study(
        QUAD, {"payload": ht.uniform(0.1, 0.2), "wind": ht.uniform(1, 2), "mass": ht.uniform(0.8, 1.0)}, 50, **SHORT
    )
    assert study.groups == ((), 1)
    robust = ht.sweep.make_study(QUAD, {"payload": [0.1, 0.2], "noise": [0.5, 1.0]}, law="robust", **SHORT)
    assert robust.groups == (("noise",), 2)


@pytest.mark.thorough
def test_the_true_mass_falls_as_newton_says() -> None:
    mass = np.array([0.7, 0.9, 1.2])
    swept = ht.sweep(QUAD, {"mass": mass}, maneuver="hover", until=0.01, step=0.01, integral=False, measure="hull.v_z")
    thrust = QUAD.weight  # the law keeps the nominal mass, and the first command acts in the whole step
    assert np.allclose(swept["hull.v_z"].values, (thrust / mass - 9.81) * 0.01, atol=1e-12)


@pytest.mark.thorough
def test_impossible_points_fail_alone() -> None:
    swept = ht.sweep(QUAD, {"delay": [0.0, 0.004, 0.01]}, **SHORT)
    assert swept.outcome.values.tolist() == [0, 5, 0]
    assert "0.4 samples" in next(iter(swept.causes()))
    swept = ht.sweep(QUAD, {"payload": [-2.0, -0.1, 0.1]}, **SHORT)
    assert swept.outcome.values.tolist() == [5, 0, 0]
    assert "payload of 'quadcopter' must be at least -0.2" in next(iter(swept.causes()))


@pytest.mark.thorough
def test_a_flight_without_a_part_of_its_mass() -> None:
    assert copters.fly(QUAD, "hover", payload=-0.2, step=0.01, until=0.1).outcome.ok
    with pytest.raises(ModelError, match="payload of 'quadcopter' must be at least -0.2.* got -1"):
        copters.fly(QUAD, "hover", payload=-1.0, step=0.01, until=0.1)


@pytest.mark.thorough
def test_trajectories_with_and_without_wind() -> None:
    """Still air is a wind of zero."""
    swept = ht.sweep(QUAD, {"wind": [0.0, 4.0]}, trajectories=True, **SHORT)
    wind = swept.data["u_t"].sel(input=["wind_x", "wind_y", "wind_z"])
    assert not wind[0].any()
    assert wind[1].any()
    for k, speed in enumerate([0.0, 4.0]):
        single = copters.fly(QUAD, "hover", wind=speed, step=0.01, until=0.2)
        assert np.allclose(swept.data["u_t"][k, :, :4], single.run.u[:, :4], rtol=0, atol=1e-12)


@pytest.mark.thorough
def test_sweep_and_flight_reject_the_same_payloads() -> None:
    least = float(QUAD.least_payload())
    payloads = [1.01 * least, 0.99 * least]
    with pytest.raises(ModelError, match="payload"):
        QUAD.with_payload(payloads[0])
    assert QUAD.with_payload(payloads[1]).describe().inertias["hull"].mass == pytest.approx(QUAD.mass + payloads[1])
    swept = ht.sweep(QUAD, {"payload": payloads, "mass": [0.9, 0.1]}, **SHORT)
    assert swept.outcome.values.tolist() == [[5, 5], [0, 5]]
    assert all("payload" in cause for cause in swept.causes())


@pytest.mark.thorough
def test_trajectories_with_different_ages_of_their_measurements() -> None:
    system = ht.System(gravity=(0, 0, 0), name="cart")
    system.body("cart", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.input("motor", ht.JointForce("cart"))
    model, brake = system.derive(), ht.Feedback(lambda q, v: -q - v, ("q", "v"))
    start = (np.array([1.0]), np.array([0.5]))
    ages = np.array([1, 3, 5])
    several = ht.simulate(model, start, 1.0, 0.05, control=Delayed(brake, ages, start, longest=8))
    for k, age in enumerate(ages):
        single = ht.simulate(model, start, 1.0, 0.05, control=Delayed(brake, int(age), start))
        assert np.array_equal(several.q[:, k], single.q)
    with pytest.raises(ControlError, match="longest must be at least"):
        Delayed(brake, ages, start, longest=4)


@pytest.mark.thorough
def test_gains_vary_within_a_batch() -> None:
    over = {"position_frequency": [1.7, 2.3], "tilt_damping": [0.7, 0.9]}
    swept = ht.sweep(QUAD, over, measure=ht.sweep.take("hull.x", "end"), **SHORT, integral=False, wind=2.0)
    assert ht.sweep.make_study(QUAD, over, **SHORT).groups == ((), 1)
    recipe = copters.recipe_of(QUAD)
    for place, (frequency, damping) in zip(np.ndindex(2, 2), itertools.product(*over.values()), strict=True):
        prototype = recipe.prototype({"position frequency": frequency, "tilt damping": damping})
        single = copters.fly(
            replace(QUAD, prototype=prototype), "hover", step=0.01, until=0.2, integral=False, wind=2.0
        )
        assert swept["hull.x"].values[place] == pytest.approx(single.run.q[-1, 0], abs=1e-12)
    with pytest.raises(SweepError, match="not with 'robust'"):
        ht.sweep(QUAD, over, law="robust", **SHORT)
