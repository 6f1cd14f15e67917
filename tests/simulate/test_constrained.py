"""Runs with loops and velocity constraints: reference trajectories, published figures, invariants, and no drift."""

import json
from pathlib import Path

import numpy as np
import pytest

import heavytop as ht
from heavytop.errors import ConfigurationError, SimulationError
from heavytop.library import mechanisms, nonholonomic

GOLDEN = Path(__file__).parents[1] / "golden"


@pytest.mark.parametrize("minimal", [True, False])
@pytest.mark.thorough
def test_sleigh_follows_the_reference_for_ten_seconds(minimal):
    data = json.loads((GOLDEN / "b_chaplygin_sleigh.json").read_text())["trajectory"]
    model = nonholonomic.chaplygin_sleigh(minimal).derive()
    start = np.array(data["initial"])
    q, w = start[:4], start[4:]
    v = w if minimal else nonholonomic.chaplygin_sleigh().derive().evaluate("joint_velocity", q, w)
    run = ht.simulate(model, (q, v), until=10.0, step=5e-4, record_every=1000, integrator="rkmk8")
    states = np.array(data["state"])
    np.testing.assert_allclose(run.t, data["t"], atol=1e-12)
    np.testing.assert_allclose(run.q, states[:, :4], atol=1e-9)
    if minimal:
        np.testing.assert_allclose(run.v, states[:, 4:], atol=1e-9)
    else:
        slip = model.constraint_residuals(run.q, run.v)[1]
        assert np.max(np.abs(slip)) < 1e-12
    energy = model.energy(run.q, run.v)
    np.testing.assert_allclose(energy, energy[0], rtol=1e-11)


@pytest.mark.thorough
def test_ball_on_a_turntable_runs_in_circles():
    """The centre moves on a circle with 2/7 of the table's angular velocity, wherever and however it starts."""
    rate = 2.0
    model = nonholonomic.rolling_ball(turntable=rate).derive()
    q = model.neutral()
    q[:2] = 0.3, -0.1
    w = np.array([1.0, -0.5, 4.0])
    run = ht.simulate(model, (q, w), until=2 * np.pi / (2 / 7 * rate), step=np.pi / 1000 / rate * 7, integrator="rkmk8")
    np.testing.assert_allclose(run.q[-1, :2], run.q[0, :2], atol=1e-8)
    center = run.q[:-1, :2].mean(axis=0)
    radii = np.linalg.norm(run.q[:, :2] - center, axis=1)
    assert np.ptp(radii) < 1e-8
    spin = np.einsum("tij,tj->ti", run.q[:, 3:12].reshape(-1, 3, 3).transpose(0, 2, 1), run.v)[:, 2]
    np.testing.assert_allclose(spin, spin[0], rtol=1e-9)  # no moment about the vertical


@pytest.mark.thorough
def test_disc_keeps_energy_and_rolls_steadily():
    """A disc that rolls upright at constant speed goes straight; tilted, its energy stays and its rim does not slip."""
    model = nonholonomic.rolling_disc().derive()
    q = model.neutral()
    q[2] = 0.5
    straight = ht.simulate(model, (q, np.array([0.0, 6.0, 0.0])), until=2.0, step=1e-3, record_every=100)
    np.testing.assert_allclose(straight.q[-1, :3], [6.0, 0.0, 0.5], atol=1e-9)
    wobble = ht.simulate(model, (q, np.array([0.3, 6.0, 0.8])), until=5.0, step=1e-3, record_every=100)
    energy = model.energy(wobble.q, wobble.v)
    np.testing.assert_allclose(energy, energy[0], rtol=1e-9)
    # height of the centre = radius times the sine of the inclination: the disc stays on the ground
    R_zy = wobble.q[:, 8]
    np.testing.assert_allclose(wobble.q[:, 2], 0.5 * np.sqrt(1 - R_zy**2), atol=1e-9)


@pytest.mark.thorough
def test_car_drives_a_circle_of_the_right_radius():
    model = nonholonomic.car().derive()
    steer = 0.2
    run = ht.simulate(model, ([0, 0, 0, steer], [5.0, 0.0]), until=3.0, step=1e-3, record_every=10)
    radius = 2.5 / np.tan(steer)
    np.testing.assert_allclose(np.hypot(run.q[:, 0], run.q[:, 1] - radius), radius, rtol=1e-6)


@pytest.mark.thorough
def test_snakeboard_moves_by_shifting_momentum():
    """Rotor and wheels swing in phase: the board travels without a push from outside, and its wheels do not slip."""
    model = nonholonomic.snakeboard().derive()
    times = np.arange(0.0, 8.0, 1e-3)
    swing = np.stack([0.9 * np.sin(2 * times), 0.02 * np.sin(2 * times), -0.02 * np.sin(2 * times)], axis=-1)
    q = model.neutral()
    q[4:] = 0.3, -0.3
    run = ht.simulate(model, (q, np.zeros(6)), until=8.0, step=1e-3, inputs=swing, record_every=100)
    assert np.linalg.norm(run.q[-1, :2]) > 0.1
    assert np.max(np.abs(model.constraint_residuals(run.q, run.v)[1])) < 1e-12


@pytest.mark.thorough
def test_bricard_runs_without_drift():
    model = mechanisms.bricard().derive()
    run = ht.simulate(model, model.assemble(), until=10.0, step=1e-3, record_every=10)
    energy = model.energy(run.q, run.v)
    assert np.max(np.abs(energy - energy[0])) < 1e-8 * abs(energy[0])
    position, velocity = model.constraint_residuals(run.q, run.v)
    assert np.max(np.abs(position)) < 1e-10
    assert np.max(np.abs(velocity)) < 1e-10
    assert np.ptp(run.q, axis=0).min() > 0.5  # it does move


@pytest.mark.parametrize("count", [1, 2, pytest.param(40, marks=pytest.mark.slow)])
@pytest.mark.thorough
def test_four_bars_pass_their_singular_configuration(count):
    model = mechanisms.four_bars(count).derive()
    run = ht.simulate(model, mechanisms.four_bars_start(model), until=10.0, step=1e-3, record_every=10)
    assert np.sin(run.q[:, 0]).min() < 0 < np.sin(run.q[:, 0]).max()  # through the line
    energy = model.energy(run.q, run.v)
    assert np.max(np.abs(energy - energy[0])) < 1e-8 * abs(energy[0])
    assert np.max(np.abs(model.constraint_residuals(run.q, run.v)[0])) < 1e-10
    # all cranks turn alike although N + 1 freedoms meet in the line
    np.testing.assert_allclose(run.q[:, : count + 1], run.q[:, :1] + np.zeros(count + 1), atol=1e-6)


@pytest.mark.thorough
def test_andrews_reaches_the_published_angles():
    """Angles at 30 ms as published with the test set for initial value problems."""
    model = mechanisms.andrews().derive()
    run = ht.simulate(
        model, mechanisms.andrews_start(model), until=0.03, step=1e-5, inputs=np.array([0.033]), record_every=3000
    )
    published = {
        "beta": 0.1581077119629904e2,
        "Theta": -0.1575637105984298e2,
        "gamma": 0.4082224013073101e-1,
        "delta": 0.5244099658805304,
        "Phi": -0.5347301163226948,
        "epsilon": 0.1048080741042263e1,
        "Omega": 0.5347301163226948,
    }
    np.testing.assert_allclose(run.q[-1], list(published.values()), rtol=2e-8)


@pytest.mark.thorough
def test_governor_settles_on_stiff_struts():
    """The stiff struts keep their length to 0.2 %, energy only falls, angular momentum about the shaft is kept."""
    model = mechanisms.governor().derive()
    start = mechanisms.governor_start(model)
    run = ht.simulate(model, start, until=1.0, step=2e-5, record_every=1000)
    energy = model.energy(run.q, run.v)
    assert np.all(np.diff(energy) < 1e-9 * abs(energy[0]))
    momentum = np.einsum("tij,tj->ti", model.mass_matrix(run.q), run.v)[:, 0]
    np.testing.assert_allclose(momentum, momentum[0], rtol=1e-10)
    middle = np.stack([0.05 + 0.5 * np.cos(run.q[:, 2]), 1.0 - 0.5 * np.sin(run.q[:, 2])], axis=-1)
    length = np.hypot(middle[:, 0] - 0.05, middle[:, 1] - run.q[:, 1])
    np.testing.assert_allclose(length[5:], 0.5, rtol=2e-3)


@pytest.mark.thorough
def test_the_variational_method_refuses_constraints():
    model = mechanisms.bricard().derive()
    with pytest.raises(SimulationError, match=r"Variational keeps the structure.*'bricard' has loops"):
        ht.simulate(model, model.assemble(), until=0.1, step=1e-2, integrator="variational")


def test_loops_close_without_a_guess_also_from_stretched_links() -> None:
    """In the neutral configuration the loop has no slope towards a closed one; what is given as a guess stays the only one."""
    system = ht.System(name="stretched")
    rod = ht.Inertia(mass=1.0, com=(0.5, 0, 0), moment_at_com=(0, 1 / 12, 1 / 12))
    system.body("a", joint=ht.Revolute("z"), inertia=rod)
    system.body("b", parent="a", at=(1, 0, 0), joint=ht.Revolute("z"), inertia=rod)
    system.body("c", at=(1.3, 0, 0), joint=ht.Revolute("z"), inertia=rod)
    system.loop("b", "c", ht.Revolute("z"), at_a=(1, 0, 0), at_b=(1, 0, 0), name="pin")
    model = system.derive(native=False)
    q, v = model.assemble()
    assert all(np.max(np.abs(residual)) < 1e-10 for residual in model.constraint_residuals(q, v))
    with pytest.raises(ConfigurationError, match="from this guess"):
        model.assemble(model.neutral())
