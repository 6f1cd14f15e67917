"""Inputs as samples, functions and laws: sampled and continuous, with memory, references and channels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm

import heavytop as ht
from heavytop.compile import trace
from heavytop.errors import ShapeError, SimulationError, UnknownNameError

J = 1.0  # moment of inertia of the arm about its axis


@pytest.fixture(scope="module")
def arm() -> ht.Model:
    system = ht.System(gravity=(0, 0, 0), name="arm")
    mass = system.parameter("mass", 1.0)
    system.body("arm", joint=ht.Revolute("z"), inertia=ht.Inertia(mass, com=(1, 0, 0)))
    system.input("motor", ht.JointForce("arm"))
    return system.derive()


START = ([0.3], [1.0])
A = np.array([[0.0, 1.0], [0.0, 0.0]])
B = np.array([0.0, 1.0])
GAIN = np.array([[-4.0, -1.5]])


def held(steps: int, every: int, h: float) -> np.ndarray:
    """The sampled closed loop by matrix exponentials."""
    block = np.zeros((3, 3))
    block[:2, :2], block[:2, 2] = A, B
    x, path = np.array([0.3, 1.0]), [np.array([0.3, 1.0])]
    step = expm(block * h)
    for k in range(steps):
        if k % every == 0:
            u = GAIN @ x
        x = (step @ np.concatenate([x, u]))[:2]
        path.append(x)
    return np.array(path)


@pytest.mark.parametrize("integrator", ["rkmk4", "rkmk8", "rkmk45", "projected_rk4", "energy_momentum", "variational"])
@pytest.mark.parametrize("every", [1, 5])
def test_sampled_law_is_held(arm: ht.Model, integrator: str, every: int) -> None:
    law = ht.Feedback(lambda q, v: GAIN[0, 0] * q + GAIN[0, 1] * v, ("q", "v"))
    run = ht.simulate(arm, START, 2.0, 0.02, integrator, control=law, control_step=0.02 * every)
    expected = held(100, every, 0.02)
    np.testing.assert_allclose(run.q[:, 0], expected[:, 0], atol=1e-11)
    np.testing.assert_allclose(run.v[:, 0], expected[:, 1], atol=1e-11)
    samples = expected[np.arange(101) // every * every]
    np.testing.assert_allclose(run.u, samples @ GAIN.T, atol=1e-10)


@pytest.mark.parametrize(("integrator", "tolerance"), [("rkmk4", 1e-6), ("rkmk8", 1e-13), ("rkmk45", 1e-7)])
def test_continuous_law(arm: ht.Model, integrator: str, tolerance: float) -> None:
    law = ht.Feedback(lambda q, v: GAIN[0, 0] * q + GAIN[0, 1] * v, ("q", "v"))
    run = ht.simulate(arm, START, 2.0, 0.02, integrator, control=law, hold="continuous")
    exact = np.array([expm((A + np.outer(B, GAIN)) * t) @ [0.3, 1.0] for t in run.t])
    np.testing.assert_allclose(np.stack([run.q[:, 0], run.v[:, 0]], axis=1), exact, atol=tolerance)
    np.testing.assert_allclose(run.u, exact @ GAIN.T, atol=10 * tolerance)


def test_continuous_law_sees_time_and_signal_at_the_stages(arm: ht.Model) -> None:
    """u = sin(3 t) + r(t), r sampled: order 4 only if both are taken at the stage times."""

    def exact(t: float) -> float:
        # double integral of sin(3 t) + cos(2 t)
        return 0.3 + t - np.sin(3 * t) / 9 + t / 3 + (1 - np.cos(2 * t)) / 4

    law = ht.Feedback(
        lambda t, signal: ht.vector(np.sin(3 * t) + signal[0]),
        ("t", "signal"),
        signal_size=1,
        samples=lambda times: np.cos(2 * times)[:, None],
    )
    errors = []
    for step in (0.2, 0.1, 0.05):
        run = ht.simulate(arm, START, 2.0, step, control=law, hold="continuous")
        errors.append(abs(run.q[-1, 0] - exact(2.0)))
    assert np.log2(errors[0] / errors[1]) == pytest.approx(4, abs=0.3)
    assert np.log2(errors[1] / errors[2]) == pytest.approx(4, abs=0.2)
    with pytest.raises(SimulationError, match="error control chooses its own times"):
        ht.simulate(arm, START, 1.0, 0.1, "rkmk45", control=law, hold="continuous")


@pytest.mark.thorough
def test_memory_of_a_continuous_law(arm: ht.Model) -> None:
    """A PI controller with a constant disturbance has no offset; against SciPy."""

    def law_of(q: Any, v: Any, z: Any) -> dict[str, Any]:
        return {"u": -6 * q - 4 * v - z + 0.5, "error": q, "z_rate": 3 * q}

    law = ht.Feedback(law_of, ("q", "v", "z"), memory=[0.2])
    run = ht.simulate(arm, START, 10.0, 0.01, "rkmk6", control=law, hold="continuous")
    right = lambda t, y: [y[1], -6 * y[0] - 4 * y[1] - y[2] + 0.5, 3 * y[0]]  # noqa: E731
    exact = solve_ivp(right, (0, 10), [0.3, 1.0, 0.2], rtol=1e-12, atol=1e-13).y[:, -1]
    got = [run.q[-1, 0], run.v[-1, 0], run.channels["z"][-1, 0]]
    np.testing.assert_allclose(got, exact, atol=1e-9)
    np.testing.assert_array_equal(run.channels["error"], run.q)
    adaptive = ht.simulate(arm, START, 10.0, 0.1, "rkmk45", control=law, hold="continuous")
    np.testing.assert_allclose(adaptive.channels["z"][-1], run.channels["z"][-1], atol=1e-7)


@pytest.mark.parametrize("integrator", ["rkmk4", "rkmk45"])
@pytest.mark.parametrize("every", [1, 4])
def test_memory_of_a_sampled_law_moves_once_per_sample(arm: ht.Model, integrator: str, every: int) -> None:
    law = ht.Feedback(lambda z: {"u": 0 * z, "z_next": z + 1}, ("z",), memory=[0.0])
    run = ht.simulate(arm, START, 1.0, 0.01, integrator, control=law, control_step=0.01 * every, record_every=4)
    if integrator == "rkmk4":
        np.testing.assert_array_equal(run.channels["z"][:, 0], np.ceil(np.arange(0, 101, 4) / every))
    # blocks of the time loop must not count twice: a long run counts exactly
    long = ht.simulate(arm, START, 100.0, 0.01, control=law, record_every=10**4)
    assert long.channels["z"][-1, 0] == 10**4


def test_arrays_and_functions_give_the_same(arm: ht.Model) -> None:
    times = 0.02 * np.arange(100)
    samples = np.sin(times)[:, None]
    table = ht.simulate(arm, START, 2.0, 0.02, inputs=samples)
    function = ht.simulate(arm, START, 2.0, 0.02, inputs=lambda t, q, v: [np.sin(t)])
    law = ht.simulate(arm, START, 2.0, 0.02, control=ht.Feedback(lambda t: ht.vector(np.sin(t)), ("t",)))
    np.testing.assert_allclose(table.q, function.q, atol=1e-14)
    np.testing.assert_allclose(table.q, law.q, atol=1e-12)
    coarse = ht.simulate(arm, START, 2.0, 0.02, inputs=samples[::5], control_step=0.1)
    seen: list[float] = []
    called = ht.simulate(arm, START, 2.0, 0.02, inputs=lambda t, q, v: seen.append(t) or [np.sin(t)], control_step=0.1)
    np.testing.assert_allclose(coarse.q, called.q, atol=1e-14)
    np.testing.assert_allclose(seen, 0.1 * np.arange(20), atol=1e-12)


def test_batches_of_starts_parameters_and_inputs(arm: ht.Model) -> None:
    masses = np.array([0.5, 1.0, 2.0])
    starts = np.zeros((4, 1, 1)), np.array([0.0, 1.0, 2.0, 3.0])[:, None, None]
    run = ht.simulate(arm, starts, 1.0, 0.1, inputs=[2.0], parameters={"mass": masses})
    assert run.batch == (4, 3)
    exact = starts[1][..., 0] + 0.5 * 2.0 / masses
    np.testing.assert_allclose(run.q[-1, ..., 0], exact, atol=1e-13)
    own = np.stack([np.zeros((10, 1)), np.ones((10, 1))], axis=1)
    run = ht.simulate(arm, ([0.0], [0.0]), 1.0, 0.1, inputs=own)
    np.testing.assert_allclose(run.q[-1, :, 0], [0.0, 0.5], atol=1e-14)
    called = ht.simulate(arm, (np.zeros((2, 1)), [0.0]), 1.0, 0.1, inputs=lambda t, q, v: np.array([[0.0], [1.0]]))
    np.testing.assert_allclose(called.q, run.q, atol=1e-14)


class WithReference:
    """A law of the protocol without any base class."""

    signal_size = 1

    def __init__(self, path: Any = None) -> None:
        self.path = path

    def with_reference(self, path: Any) -> WithReference:
        return WithReference(path)

    def signal(self, times: np.ndarray) -> np.ndarray:
        return np.asarray(self.path(times))[:, None]

    def traced(self, model: ht.Model) -> Any:
        shapes = {"q": (model.nq,), "v": (model.nv,), "signal": (1,)}
        return trace(lambda q, v, signal: {"u": 25 * (signal - q) - 10 * v, "position_error": q - signal}, shapes)


def test_reference_is_given_to_the_law(arm: ht.Model) -> None:
    run = ht.simulate(arm, START, 5.0, 0.01, control=WithReference(), reference=lambda t: 0.5 + 0 * t)
    assert abs(run.q[-1, 0] - 0.5) < 1e-3
    assert "position_error" in run.report(show=False)
    with pytest.raises(SimulationError, match="Feedback has no method with_reference"):
        ht.simulate(arm, START, 1.0, 0.1, control=ht.Feedback(lambda q: q, ("q",)), reference=np.sin)
    with pytest.raises(SimulationError, match="reference= needs a law"):
        ht.simulate(arm, START, 1.0, 0.1, reference=np.sin)


def law_with(outputs: dict[str, int], takes: dict[str, int] | None = None, **members: Any) -> Any:
    class Law:
        def traced(self, model: ht.Model) -> Any:
            shapes = {name: (size,) for name, size in (takes or {"q": 1}).items()}
            return trace(lambda *x: {name: np.zeros(size) + 0 * x[0][0] for name, size in outputs.items()}, shapes)

    for name, value in members.items():
        setattr(Law, name, value)
    return Law()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"control": 3}, "control must be a law with a method traced"),
        ({"control": lambda t, q, v: [0.0]}, r"A function of \(t, q, v\) can be wrapped, ht.Feedback"),
        ({"control": law_with({"force": 1})}, r"first output of a control law must be 'u' of shape \(1,\)"),
        ({"control": law_with({"u": 2})}, r"gives 'u' of shape \(2,\)"),
        ({"control": law_with({"u": 1}, {"x": 1})}, r"may take t, q, v, signal, p, z, gains, contacts; Law takes 'x'"),
        ({"control": law_with({"u": 1}, {"q": 2})}, r"takes 'q' of shape \(2,\); here it has shape \(1,\)"),
        (
            {"control": law_with({"u": 1}, {"z": 1}, state_size=1)},
            "a sampled law with memory must output 'z_next'",
        ),
        (
            {"control": law_with({"u": 1, "z_rate": 1}, {"z": 1}, state_size=1)},
            r"must output 'z_next' of shape \(1,\). It outputs 'z_rate': simulate it with hold='continuous'",
        ),
        ({"control": law_with({"u": 1}), "inputs": [0.0]}, "either inputs= .* or control="),
        ({"control": law_with({"u": 1}), "hold": "first-order"}, "hold must be one of 'zero-order', 'continuous'"),
        ({"control": law_with({"u": 1}), "control_step": 0.15}, "control_step must be a whole multiple of the step"),
        (
            {"control": law_with({"u": 1}), "control_step": 0.1, "hold": "continuous"},
            "a continuous law has no sample time",
        ),
        ({"inputs": np.zeros((7, 1))}, r"have 7 samples along the first axis; 10 steps .* need 10"),
        ({"inputs": np.zeros(2)}, r"inputs of 'arm' must have shape \(1,\).*The inputs are: motor"),
        ({"inputs": [np.nan]}, "inputs of 'arm' must be finite"),
        ({"inputs": lambda t, q, v: [1.0, 2.0]}, r"inputs\(t, q, v\) must return an array of shape \(1,\)"),
        ({"inputs": lambda t, q, v: [np.inf]}, r"not finite at t = 0 s"),
    ],
)
def test_bad_inputs_are_told(arm: ht.Model, options: dict[str, Any], message: str) -> None:
    with pytest.raises((SimulationError, ShapeError), match=message):
        ht.simulate(arm, START, 1.0, 0.1, **options)


def test_unknown_parameter_and_start(arm: ht.Model) -> None:
    with pytest.raises(UnknownNameError, match=r"unknown parameter of 'arm' 'mas'. Did you mean 'mass'?"):
        ht.simulate(arm, START, 1.0, 0.1, parameters={"mas": 1.0})
    with pytest.raises(ShapeError, match=r"start v of 'arm' must have shape \(\.\.\., 1\), got \(2,\)"):
        ht.simulate(arm, ([0.0], [0.0, 0.0]), 1.0, 0.1)
    with pytest.raises(SimulationError, match=r"start must be a pair \(q0, v0\)"):
        ht.simulate(arm, [0.0], 1.0, 0.1)  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match=r"batch axes do not broadcast: start q \(2,\), start v \(3,\)"):
        ht.simulate(arm, (np.zeros((2, 1)), np.zeros((3, 1))), 1.0, 0.1)
    with pytest.raises(SimulationError, match="step must be positive, got 0"):
        ht.simulate(arm, START, 1.0, 0)
    with pytest.raises(SimulationError, match="until = -1 s lies before start_time = 0 s"):
        ht.simulate(arm, START, -1.0, 0.1)
    with pytest.raises(SimulationError, match="until must be a finite number of seconds, got nan"):
        ht.simulate(arm, START, float("nan"), 0.1)
    with pytest.raises(SimulationError, match="record_every must be 1, 2"):
        ht.simulate(arm, START, 1.0, 0.1, record_every=0)


def test_a_step_that_was_shortened_is_named_beside_the_one_given() -> None:
    model = ht.library.pendulum().derive()
    brake = ht.Feedback(lambda v: -v, ("v",))
    with pytest.raises(
        SimulationError, match=r"step of 0.003 s was shortened so that 334 of them make up the run of 1 s"
    ):
        ht.simulate(model, ([0.1], [0.0]), 1.0, 0.003, control=brake, control_step=0.03)
    with pytest.raises(SimulationError, match=r"= 1\.5 steps\.$"):
        ht.simulate(model, ([0.1], [0.0]), 1.0, 0.01, control=brake, control_step=0.015)
