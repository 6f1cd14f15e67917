"""``ht.stepper``: one step as a function equals the runs of ``ht.simulate`` and leaves the time loop to the caller."""

from __future__ import annotations

import numpy as np
import pytest

import heavytop as ht
from heavytop.errors import ConfigurationError, ShapeError, SimulationError


@pytest.fixture(scope="module")
def model() -> ht.Model:
    return ht.library.quadcopter().derive()


def batch_of(model: ht.Model, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    return model.random(rng, (n,)), rng.normal(size=(n, model.nv)), rng.uniform(0.0, 4.0, (n, model.nu))


@pytest.mark.thorough
def test_steps_equal_a_run_with_samples(model: ht.Model) -> None:
    """Ten calls with other inputs each are one run with these samples, also where the caller changes arrays in place."""
    q, v, _ = batch_of(model, 7)
    samples = np.random.default_rng(2).uniform(0.0, 4.0, (10, 7, model.nu))
    run = ht.simulate(model, (q, v), until=0.05, step=0.0025, inputs=samples, control_step=0.005)
    step = ht.stepper(model, 0.005, substeps=2)
    here, there, u = (q.copy(), v.copy()), (q.copy(), v.copy()), np.empty((7, model.nu))
    advance = step.bind(*there, u)
    for k, now in enumerate(samples):
        here = step(*here, now)
        u[:] = now
        advance()
        assert np.allclose(here[0], run.q[2 * k + 2], rtol=0, atol=1e-13)
        assert np.allclose(here[1], run.v[2 * k + 2], rtol=0, atol=1e-12)
    assert (here[0] == there[0]).all()
    assert (here[1] == there[1]).all()


@pytest.mark.thorough
def test_results_do_not_depend_on_the_batch_or_the_threads(model: ht.Model) -> None:
    q, v, u = batch_of(model, 2003)
    q1, v1 = ht.stepper(model, 0.01, threads=1)(q, v, u)
    q3, v3 = ht.stepper(model, 0.01, threads=3)(q, v, u)
    assert (q1 == q3).all()
    assert (v1 == v3).all()
    part = ht.stepper(model, 0.01)(q[5:8], v[5:8], u[5:8])
    assert (part[0] == q1[5:8]).all()
    assert (part[1] == v1[5:8]).all()


def test_results_go_to_given_arrays(model: ht.Model) -> None:
    q, v, u = batch_of(model, 5)
    step = ht.stepper(model, 0.01)
    expected = step(q, v, u)
    before = q.copy()
    out = np.empty_like(q), np.empty_like(v)
    assert step(q, v, u, out=out)[0] is out[0]
    assert (q == before).all()
    assert (out[0] == expected[0]).all()
    step(q, v, u, out=(q, v))
    assert (q == expected[0]).all()
    assert (v == expected[1]).all()


def test_parameters_of_each_trajectory() -> None:
    system = ht.System(name="swing")
    length = system.parameter("length", 1.0)
    system.body("bob", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=ht.vector(0.0, 0.0, -length)))
    model = system.derive()
    lengths = np.array([0.5, 1.0, 2.0])
    _, v = ht.stepper(model, 1e-3)(np.full((3, 1), 0.5), np.zeros((3, 1)), parameters={"length": lengths})
    assert np.allclose(v[:, 0], -1e-3 * 9.81 / lengths * np.sin(0.5), rtol=1e-5)


def test_law_with_memory_equals_its_run() -> None:
    """A law whose memory counts its samples: the caller carries the memory."""
    system = ht.System(name="cart")
    system.body("cart", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.input("push", ht.JointForce("cart"))
    model = system.derive()
    law = ht.Feedback(lambda q, z: {"u": -q + z, "z_next": z + 0.25}, ("q", "z"), memory=[0.0])
    run = ht.simulate(model, ([1.0], [0.0]), until=0.5, step=0.05, control=law, control_step=0.1)
    step = ht.stepper(model, 0.1, control=law, substeps=2)
    q, v, z = np.array([1.0]), np.zeros(1), step.initial_memory()
    for _ in range(5):
        q, v, z = step(q, v, memory=z)
    assert z == pytest.approx(1.25)
    assert (q == run.q[-1]).all()
    assert (v == run.v[-1]).all()
    with pytest.raises(SimulationError, match="initial_memory"):
        step([1.0], [0.0])


def test_law_follows_its_reference_or_a_given_sample() -> None:
    system = ht.System(name="cart")
    system.body("cart", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.input("push", ht.JointForce("cart"))
    model = system.derive()
    law = ht.Feedback(
        lambda q, v, signal: 4 * (signal - q) - 4 * v, ("q", "v", "signal"), 1, lambda t: np.sin(t)[:, None]
    )
    step = ht.stepper(model, 0.01, control=law)
    q, v = np.zeros(1), np.zeros(1)
    for k in range(20):
        q, v = step(q, v, time=0.01 * k)
    run = ht.simulate(model, ([0.0], [0.0]), until=0.2, step=0.01, control=law)
    assert np.allclose(q, run.q[-1], rtol=0, atol=1e-15)
    many, _ = step(np.zeros((3, 1)), np.zeros((3, 1)), [[-1.0], [0.0], [1.0]])
    assert np.sign(many[:, 0]).tolist() == [-1.0, 0.0, 1.0]


def test_time_of_a_driven_system() -> None:
    system = ht.System(name="driven")
    system.body("cart", joint=ht.Prismatic("x"), inertia=ht.Inertia(2.0))
    drive = np.cos(system.time)
    system.force(lambda q, v: ht.vector(drive))
    model = system.derive()
    _, v = ht.stepper(model, 0.01)([0.0], [0.0], time=1.0)
    assert v[0] == pytest.approx((np.sin(1.01) - np.sin(1.0)) / 2, rel=1e-9)


@pytest.mark.thorough
def test_loops_stay_closed() -> None:
    model = ht.library.four_bars(2).derive()
    q, v = ht.library.start("four-bars:2", model)
    step = ht.stepper(model, 2e-3)
    energy = model.energy(q, v)
    for _ in range(200):
        q, v = step(q, v)
    assert np.abs(model.constraint_residuals(q, v)[0]).max() < 1e-12
    assert model.energy(q, v) == pytest.approx(energy, rel=1e-6)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"q": np.zeros((3, 11))}, ShapeError, "12"),
        ({"v": np.zeros((3, 5))}, ShapeError, "(..., 6)"),
        ({"u": np.zeros((3, 3))}, ShapeError, "F_1"),
        ({"u": np.zeros((2, 4))}, ShapeError, "broadcast"),
        ({"q": np.zeros((3, 12))}, ConfigurationError, ""),
        ({"u": np.full((3, 4), np.nan)}, SimulationError, "not finite"),
    ],
)
def test_mistakes_are_reported(model: ht.Model, change: dict, error: type, text: str) -> None:
    q, v, u = batch_of(model, 3)
    given = {"q": q, "v": v, "u": u} | change
    with pytest.raises(error) as caught:
        ht.stepper(model, 0.01)(given["q"], given["v"], given["u"])
    assert text in str(caught.value)


def test_impossible_steps_are_rejected(model: ht.Model) -> None:
    with pytest.raises(SimulationError, match="positive"):
        ht.stepper(model, 0.0)
    with pytest.raises(SimulationError, match="rkmk4"):
        ht.stepper(model, 0.01, integrator="rkmk45")
    with pytest.raises(SimulationError, match="substeps"):
        ht.stepper(model, 0.01, substeps=0)
    q, v, u = batch_of(model, 3)
    with pytest.raises(ShapeError, match="contiguous"):
        ht.stepper(model, 0.01)(q, v, u, out=(q.astype(np.float32), v))


def test_a_bound_step_reports_failures_by_row(model: ht.Model) -> None:
    q, v, u = batch_of(model, 6)
    u[4] = np.inf
    advance = ht.stepper(model, 0.01).bind(q, v, u)
    advance()
    assert (advance.failed >= 0).tolist() == [False, False, False, False, True, False]
