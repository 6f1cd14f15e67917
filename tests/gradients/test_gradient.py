"""Gradients of whole motions against extrapolated differences of the same runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from extrapolation import slope

import heavytop as ht
from heavytop.errors import SimulationError, UnknownNameError

LOSS = ht.Loss(
    end=lambda t, q, v: q[0] * v[0] + t * q[0],
    running=lambda t, q, v, u: q[0] ** 2 + np.vecdot(v, v) * (1 + t),
)


def top(**options: Any) -> ht.Model:
    return ht.library.load("heavy-top").derive(**options)


def arm() -> ht.Model:
    system = ht.System(name="arm")
    system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1.0)))
    system.input("motor", ht.JointForce("rod"))
    return system.derive()


def relative_error(
    loss: Any, model: Any, start: tuple[Any, Any], rng: np.random.Generator, inputs: Any = None, **options: Any
) -> float:
    """Largest difference between the gradient and differences along a random direction of start, parameters and inputs."""
    (q, v), c = (np.asarray(x, dtype=float) for x in start), model.coordinates
    found = ht.gradient(loss, model, (q, v), inputs=inputs, **options)
    names, p = model.parameter_names, model.parameter_vector()
    d_q, d_v = rng.standard_normal((*q.shape[:-1], c.nv)), rng.standard_normal(v.shape)
    if model.is_constrained:
        d_q, d_v = 0 * d_q, 0 * d_v
    d_p = dict(zip(names, 0.1 * p * rng.standard_normal(len(p)), strict=True))
    d_u = None if inputs is None else rng.standard_normal(np.shape(inputs))

    def value(e: float) -> np.ndarray:
        moved = {name: value + e * d_p[name] for name, value in zip(names, p, strict=True)}
        u = None if inputs is None else np.asarray(inputs) + e * d_u
        return ht.gradient(
            loss, model, (np.asarray(c.retract(q, e * d_q)), v + e * d_v), inputs=u, parameters=moved, by=(), **options
        ).value

    along = (found.q * d_q).sum(-1) + (found.v * d_v).sum(-1) + sum(found.parameters[n] * d_p[n] for n in names)
    if d_u is not None:
        along = along + np.moveaxis(found.inputs * d_u.reshape(found.inputs.shape), (0, -1), (-2, -1)).sum((-1, -2))
    return float(np.max(np.abs(along - slope(value)) / np.abs(along)))


@pytest.mark.thorough
def test_start_and_parameters_of_a_top() -> None:
    model, rng = top(), np.random.default_rng(1)
    start = model.random(rng, (2,)), rng.standard_normal((2, 3))
    assert relative_error(LOSS, model, start, rng, until=0.2, step=0.01) < 1e-9


@pytest.mark.thorough
def test_checkpoints_change_nothing_and_respect_their_bound() -> None:
    model, rng = top(), np.random.default_rng(2)
    start = model.random(rng, (2,)), rng.standard_normal((2, 3))
    whole = ht.gradient(LOSS, model, start, until=1.0, step=0.01)
    parts = ht.gradient(LOSS, model, start, until=1.0, step=0.01, memory=20_000)
    np.testing.assert_allclose(parts.value, whole.value, rtol=1e-14)
    np.testing.assert_allclose(parts.q, whole.q, rtol=1e-12)
    for name, value in whole.parameters.items():
        np.testing.assert_allclose(parts.parameters[name], value, rtol=1e-12)
    with pytest.raises(SimulationError, match="at least"):
        ht.gradient(LOSS, model, start, until=1.0, step=0.01, memory=1000)


@pytest.mark.thorough
def test_held_inputs_and_events_of_an_arm() -> None:
    model, rng = arm(), np.random.default_rng(3)
    event = ht.Event(lambda t, q, v: q[0] - 0.6 - 0.1 * t, direction=1, tolerance=1e-14)
    inputs = 8 + rng.standard_normal((10, 1))
    options = {"until": 1.0, "step": 0.02, "control_step": 0.1, "events": event}
    assert relative_error(ht.Loss(end=LOSS.end), model, ([0.1], [0.5]), rng, inputs=inputs, **options) < 1e-9
    ended = ht.gradient(LOSS, model, ([0.1], [0.5]), inputs=inputs, **options)
    assert ended.end[0][0] == pytest.approx(
        0.6 + 0.1 * ht.simulate(model, ([0.1], [0.5]), inputs=inputs, **options).t[-1]
    )


@pytest.mark.thorough
def test_gains_of_a_law_with_memory() -> None:
    model = arm()

    def law(q: Any, v: Any, z: Any, gains: Any) -> dict[str, Any]:
        u = -gains["stiffness"] * q - gains["damping"] * v - z
        return {"u": u, "z_next": z + 0.02 * gains["integral"] * q}

    control = ht.Feedback(
        law, ("q", "v", "z", "gains"), memory=np.zeros(1), gains={"stiffness": 3.0, "damping": 1.0, "integral": 2.0}
    )
    options = {"until": 1.0, "step": 0.01, "control": control, "control_step": 0.02}
    found = ht.gradient(LOSS, model, ([1.0], [0.0]), **options)
    for name, value in control.tunable_gains.items():
        expected = slope(
            lambda e, name=name, value=value: (
                ht.gradient(LOSS, model, ([1.0], [0.0]), gains={name: value + e}, by=(), **options).value
            )
        )
        assert found.gains[name] == pytest.approx(expected, rel=1e-9)


@pytest.mark.thorough
def test_sensitivities_agree_with_the_gradient() -> None:
    model = arm()
    inputs = np.linspace(0, 1, 10)[:, None]
    options = {"until": 0.5, "step": 0.05, "inputs": inputs}
    run = ht.simulate(model, ([0.3], [0.1]), sensitivities=("start", "parameters", "inputs"), **options)
    found = ht.gradient(lambda t, q, v: q[0], model, ([0.3], [0.1]), **options)
    s = run.sensitivities
    np.testing.assert_allclose(s.start[-1, 0], [found.q[0], found.v[0]], rtol=1e-12)
    np.testing.assert_allclose(s.inputs[-1, 0], found.inputs, rtol=1e-11)
    y, slopes = s.of(lambda t, q, v: ht.vector(np.sin(q[0]), v[0]))
    np.testing.assert_allclose(slopes["start"][:, 0], np.cos(run.q) * s.start[:, 0], rtol=1e-12)
    np.testing.assert_allclose(y[:, 0], np.sin(run.q[:, 0]))


def test_mistakes_are_named() -> None:
    model = arm()
    with pytest.raises(UnknownNameError, match="'starts'"):
        ht.gradient(LOSS, model, ([0.1], [0.0]), 0.1, 0.01, by=("starts",))
    with pytest.raises(SimulationError, match="Python at every sample"):
        ht.gradient(LOSS, model, ([0.1], [0.0]), 0.1, 0.01, inputs=lambda t, q, v: [0.0])
    with pytest.raises(SimulationError, match="ht.Loss"):
        ht.gradient(3.0, model, ([0.1], [0.0]), 0.1, 0.01)
    with pytest.raises(SimulationError, match="gains"):
        ht.gradient(LOSS, model, ([0.1], [0.0]), 0.1, 0.01, by=("gains",))
    with pytest.raises(SimulationError, match="end="):
        ht.Loss()


@pytest.mark.thorough
@pytest.mark.parametrize(
    "integrator", ["rkmk4", "rkmk6", "rkmk8", "rkmk45", "projected_rk4", "energy_momentum", "variational", "ros2"]
)
def test_every_integrator(integrator: str) -> None:
    model, rng = ht.library.load("quadcopter").derive(), np.random.default_rng(4)
    start = model.random(rng, (3,)), 0.3 * rng.standard_normal((3, 6))
    inputs = 2.2 + 0.3 * rng.standard_normal((10, 3, 4))
    loss = ht.Loss(
        end=lambda t, q, v: q[0] * q[4] + v[1] + t * q[2], running=lambda t, q, v, u: np.vecdot(v, v) + u[0] * q[2]
    )
    options = {"until": 0.4, "step": 0.01, "control_step": 0.04, "integrator": integrator}
    assert relative_error(loss, model, start, rng, inputs=inputs, **options) < 1e-9


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("governor", 2e-4),
        ("rolling-disc", 0.004),
        ("rolling-ball", 0.01),
        ("snakeboard", 0.01),
        ("car", 0.01),
        ("bare-tricopter-load", 1e-3),
        ("panda", 1e-3),
    ],
)
def test_loops_rolling_bases_and_trees(name: str, step: float) -> None:
    model, rng = ht.library.load(name).derive(), np.random.default_rng(5)
    start = ht.library.start(name, model)
    if start is None:
        q, v = model.random(rng), 0.3 * rng.standard_normal(model.nv)
        start = model.assemble(model.neutral(), v) if model.is_constrained else (q, v)
    inputs = rng.standard_normal((50, model.nu)) if model.nu else None
    loss = ht.Loss(end=lambda t, q, v: np.vecdot(q, q) + v[0], running=lambda t, q, v, u: np.vecdot(v, v))
    assert relative_error(loss, model, start, rng, inputs=inputs, until=50 * step, step=step) < 1e-9


@pytest.mark.thorough
def test_starts_on_a_loop() -> None:
    """The derivative along closed configurations, which the loop itself gives."""
    model = ht.library.load("four-bars").derive()
    q0, v0 = ht.library.start("four-bars", model)
    found = ht.simulate(model, (q0, v0), 0.1, 0.002, sensitivities="start").sensitivities.start[-1]
    speed = np.linspace(-1, 1, model.nv)

    def moved(e: float) -> tuple[np.ndarray, np.ndarray]:
        return model.assemble(q0 + e * speed, v0)

    tangent = slope(lambda e: np.concatenate(moved(e)), 1e-3)
    expected = slope(
        lambda e: np.concatenate([x[-1] for x in (lambda r: (r.q, r.v))(ht.simulate(model, moved(e), 0.1, 0.002))]),
        1e-3,
    )
    np.testing.assert_allclose(found @ tangent, expected, atol=1e-8 * np.abs(expected).max())


@pytest.mark.thorough
@pytest.mark.parametrize("case", ["held", "slow", "continuous", "delay and lag", "limits", "error control", "implicit"])
def test_laws(case: str) -> None:
    from heavytop import control
    from heavytop.copters import quadcopter

    craft, rng = quadcopter(), np.random.default_rng(6)
    model = craft.model
    law = craft.law(limits=case == "limits").with_reference(model.neutral())
    options: dict[str, Any] = {"until": 0.2, "step": 0.005}
    if case == "slow":
        options["control_step"] = 0.01
    if case in ("continuous", "implicit"):
        options["hold"] = "continuous"
    if case == "delay and lag":
        late = control.Delayed(law, samples=2, start=(model.neutral(), np.zeros(6)))
        law = control.Actuated(late, control.Propellers(0.03), start=np.full(4, 2.2))
    if case == "error control":
        options |= {"integrator": "rkmk45", "control_step": 0.01}
    if case == "implicit":
        options["integrator"] = "energy_momentum"
    start = (
        np.asarray(model.coordinates.retract(model.neutral(), 0.4 * rng.standard_normal((2, 6)))),
        0.4 * rng.standard_normal((2, 6)),
    )
    loss = ht.Loss(end=lambda t, q, v: q[0] + v[1], running=lambda t, q, v, u: np.vecdot(v, v) + 0.1 * np.vecdot(u, u))
    assert relative_error(loss, model, start, rng, control=law, **options) < 3e-9
