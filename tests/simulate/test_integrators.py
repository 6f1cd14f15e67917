"""Laws of the integrators: order by regression, invariants over a million steps, who may use which."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from heavytop_mechanics import ScalablePose
from scipy.special import ellipj, ellipk

import heavytop as ht
from heavytop.coordinates import GeneralCoordinates
from heavytop.errors import SimulationError, UnknownNameError
from heavytop.simulate import EnergyMomentum, UserDynamics, integrators
from heavytop.simulate.integrators import INTEGRATORS

ORDERS = {
    "rkmk4": (4, [0.04, 0.02, 0.01, 0.005]),
    "projected_rk4": (4, [0.04, 0.02, 0.01, 0.005]),
    "rkmk6": (6, [0.04, 0.03125, 0.025, 0.02]),
    "rkmk8": (8, [0.05, 0.04, 0.03125, 0.025]),
    "energy_momentum": (2, [0.01, 0.005, 0.0025]),
    "variational": (2, [0.01, 0.005, 0.0025]),
    "ros2": (2, [0.01, 0.005, 0.0025]),
}


@cache
def free_body(attitude: str = "matrix") -> ht.Model:
    system = ht.System(gravity=(0, 0, 0), name="free body")
    system.body("body", joint=ht.Spherical(attitude=attitude), inertia=ht.Inertia(1.0, moment_at_com=(1.0, 2.0, 3.0)))
    return system.derive()


@cache
def chain() -> ht.Model:
    """A rotor arm that carries a spherical pendulum: configuration-dependent mass, gravity."""
    system = ht.System(name="arm with pendulum")
    rod = ht.Inertia(1.0, com=(0, 0, -0.5), moment_at_com=(0.1, 0.1, 0.02))
    system.body("arm", joint=ht.Revolute("y"), inertia=rod)
    system.body("bob", parent="arm", at=(0, 0, -1), joint=ht.Spherical("quaternion"), inertia=rod)
    return system.derive()


@cache
def damped() -> ht.Model:
    """A free body in a fluid, on a spring, pushed by a thruster."""
    system = ht.System(name="damped")
    system.body("body", joint=ht.Free(), inertia=ht.Inertia(1.0, com=(0, 0, 0.1), moment_at_com=(0.1, 0.12, 0.15)))
    system.damper("world", "body", ht.Damping(0.3, (0, 0, 0.05), (0.02, 0.02, 0.03)))
    system.spring("world", "body", ht.Stiffness(4.0, (0, 0, 0), (0.5, 0.6, 0.7)))
    system.input("jet", ht.Thruster("body", at=(0.1, 0, 0), axis=(0.6, 0, 0.8)))
    return system.derive()


def regression(model: ht.Model, start: tuple, until: float, name: str, **options: object) -> np.ndarray:
    """Slopes of the errors in configuration and velocity."""
    order, steps = ORDERS[name]
    if order >= 6 and model.name == "free body":  # slow enough for longer steps
        steps = [4 * step for step in steps]
    exact = ht.simulate(model, start, until, min(steps) / 10, "rkmk8", record_every=10**7, **options)
    errors = []
    for step in steps:
        run = ht.simulate(model, start, until, step, name, record_every=10**7, **options)
        assert run.outcome.ok
        q = np.linalg.norm(model.coordinates.difference(exact.q[-1], run.q[-1]))
        errors.append([q, np.linalg.norm(run.v[-1] - exact.v[-1])])
    return np.polyfit(np.log(steps), np.log(errors), 1)[0]


SYSTEMS: dict[str, tuple[Callable[[], ht.Model], float, dict[str, object]]] = {
    "free body": (free_body, 2.0, {}),
    "chain": (chain, 1.0, {}),
    "damped": (damped, 1.0, {"inputs": [3.0]}),
}


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize("system", SYSTEMS)
def test_order(name: str, system: str) -> None:
    make, until, options = SYSTEMS[system]
    model = make()
    rng = np.random.default_rng(5)
    start = model.neutral(), rng.uniform(0.5, 1.5, model.nv)
    order = ORDERS[name][0]
    slopes = regression(model, start, until, name, **options)
    np.testing.assert_allclose(slopes, order, atol=0.1 if order <= 4 else 0.35)


@pytest.mark.parametrize("name", [*ORDERS, "rkmk45"])
def test_a_million_steps_of_free_tumbling(name: str) -> None:
    """Ten thousand seconds of diag(1, 2, 3) at dt = 0.01: on the manifold for all, exact invariants where promised."""
    model = free_body("quaternion" if name == "projected_rk4" else "matrix")
    start = model.neutral(), np.array([0.5, 1.0, 0.1])
    until = 1e4 if name not in ("rkmk45", "ros2") else 100.0
    run = ht.simulate(model, start, until, 0.01, name, record_every=1000)
    assert run.outcome.ok
    energy = run.energy / run.energy[0] - 1
    assert run.invariants["phi"].drift < 1e-12
    momentum = max(i.relative for key, i in run.invariants.items() if key.startswith("angular"))
    if name == "energy_momentum":
        assert np.max(np.abs(energy)) < 1e-11
        assert momentum < 1e-11
    if name == "variational":
        # it oscillates with an amplitude of order h^2 and does not drift: the last tenth looks like the first
        first, last = energy[: len(energy) // 10], energy[-len(energy) // 10 :]
        assert np.max(np.abs(energy)) < 1e-5
        assert np.ptp(last) < 1.05 * np.ptp(first)
        assert abs(np.mean(last) - np.mean(first)) < 0.05 * np.ptp(first)
        assert momentum < 1e-11
    if name in ("rkmk6", "rkmk8"):
        assert np.max(np.abs(energy)) < 1e-8


@pytest.mark.thorough
def test_energy_momentum_in_gravity_and_under_load() -> None:
    run = ht.simulate(chain(), (chain().neutral(), [1.0, 2.0, -1.0, 0.5]), 20.0, 0.01, "energy_momentum")
    assert run.invariants["energy"].relative < 1e-12
    assert run.channels["residual"].max() < 1e-9
    model = damped()
    driven = ht.simulate(model, (model.neutral(), np.ones(6)), 5.0, 0.005, "energy_momentum", inputs=[2.0])
    assert driven.work is not None
    assert abs(driven.work[-1]).min() > 0.1  # both input and dissipation take part
    assert driven.invariants["energy"].relative < 1e-13


def test_energy_momentum_at_rest_stays_at_rest() -> None:
    model = chain()
    run = ht.simulate(model, (model.neutral(), np.zeros(4)), 1.0, 0.01, "energy_momentum")
    assert run.outcome.ok
    assert np.max(np.abs(run.v)) < 1e-12


def test_energy_momentum_passes_turning_points() -> None:
    """At a turning point the mean velocity vanishes, and with it the direction of the correction."""
    system = ht.System(name="pendulum")
    system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
    run = ht.simulate(system.derive(), ([1.0], [0.0]), 50.0, 0.01, "energy_momentum")
    assert run.invariants["energy"].relative < 1e-12
    assert np.sum(np.diff(np.sign(run.v[:, 0])) != 0) > 40


@pytest.mark.thorough
def test_variational_conserves_every_momentum_of_a_floating_chain() -> None:
    system = ht.System(gravity=(0, 0, -9.81), name="floating")
    part = ht.Inertia(1.0, com=(0, 0, -0.3), moment_at_com=(0.1, 0.12, 0.08))
    system.body("a", joint=ht.Free(), inertia=part)
    system.body("b", parent="a", at=(0, 0, -0.5), joint=ht.Spherical(velocity="absolute"), inertia=part)
    model = system.derive()
    run = ht.simulate(model, (model.neutral(), np.linspace(-1, 1, 9)), 2.0, 0.01, "variational")
    kept = {"linear momentum x", "linear momentum y", "angular momentum z"}
    assert kept <= set(run.invariants)
    assert "linear momentum z" not in run.invariants  # gravity
    assert max(run.invariants[name].relative for name in kept) < 1e-12


def test_projected_method_for_coordinates_of_the_user() -> None:
    """A bead on a paraboloid z = x^2 + y^2, given by A and phi alone."""
    surface = GeneralCoordinates(
        lambda q: ht.matrix([[1.0, 0.0], [0.0, 1.0], [2 * q[0], 2 * q[1]]]),
        lambda q: ht.vector(q[2] - q[0] ** 2 - q[1] ** 2),
        nq=3,
        nv=2,
        neutral=[0.0, 0.0, 0.0],
    )
    g = 9.81

    def acceleration(q, v):
        # L = 1/2 (x'^2 + y'^2 + z'^2) - g z with z = x^2 + y^2
        x, y, (vx, vy) = q[0], q[1], (v[0], v[1])
        push = -(2 * g + 4 * (vx * vx + vy * vy))
        scale = 1 / (1 + 4 * x * x + 4 * y * y)
        return ht.vector(push * scale * x, push * scale * y)

    def kinetic(q, v):
        rise = 2 * q[0] * v[0] + 2 * q[1] * v[1]
        return 0.5 * (v[0] ** 2 + v[1] ** 2 + rise**2)

    bead = UserDynamics(surface, acceleration, kinetic=kinetic, potential=lambda q: g * q[2], name="bead")
    start = [0.5, 0.0, 0.25], [0.0, 2.0]
    ends = [ht.simulate(bead, start, 2.0, h, "projected_rk4").q[-1] for h in (0.02, 0.01, 0.005, 0.0025)]
    differences = [np.linalg.norm(a - b) for a, b in pairwise(ends)]
    assert np.log2(differences[0] / differences[1]) == pytest.approx(4.0, abs=0.2)
    assert np.log2(differences[1] / differences[2]) == pytest.approx(4.0, abs=0.1)
    run = ht.simulate(bead, start, 20.0, 0.005, "projected_rk4")
    assert run.invariants["phi"].drift < 1e-14
    assert run.invariants["energy"].relative < 1e-8
    exact = ht.simulate(bead, start, 20.0, 0.005, "energy_momentum")
    assert exact.invariants["energy"].relative < 1e-13
    assert exact.invariants["phi"].drift < 1e-12


@pytest.mark.thorough
def test_batch_equals_single_runs() -> None:
    model = free_body("quaternion")
    rng = np.random.default_rng(0)
    q, v = model.random(rng, (3, 2)), rng.standard_normal((3, 2, 3))
    for name in (name for name, kind in INTEGRATORS.items() if not kind.unilateral):  # the others need contacts
        many = ht.simulate(model, (q, v), 0.5, 0.01, name, record_every=10)
        assert many.q.shape == (6, 3, 2, model.nq)
        one = ht.simulate(model, (q[2, 1], v[2, 1]), 0.5, 0.01, name, record_every=10)
        np.testing.assert_allclose(many.q[:, 2, 1], one.q, atol=1e-12)
        np.testing.assert_allclose(many.v[:, 2, 1], one.v, atol=1e-12)


def test_integrators_by_name_class_and_object() -> None:
    assert isinstance(integrators.as_integrator(ht.RKMK6), ht.RKMK6)
    assert repr(integrators.as_integrator(ht.RKMK45(1e-6))) == "RKMK45(rtol=1e-06, atol=1e-10)"
    with pytest.raises(UnknownNameError, match=r"unknown integrator 'rk4'. Did you mean 'rkmk4'?"):
        ht.simulate(free_body(), (free_body().neutral(), np.zeros(3)), 1.0, 0.1, "rk4")
    with pytest.raises(SimulationError, match="integrator must be a name"):
        integrators.as_integrator(4)
    with pytest.raises(SimulationError, match="at least 2 iterations"):
        ht.Variational(1)


def test_group_methods_refuse_coordinates_that_are_no_group() -> None:
    body = UserDynamics(ScalablePose(), lambda q, v: 0 * v, name="scalable")
    start = ScalablePose().neutral(), np.zeros(7)
    for name in ("rkmk4", "rkmk45", "variational", "ros2"):
        with pytest.raises(SimulationError, match=r"not a Lie group.*projected_rk4"):
            ht.simulate(body, start, 1.0, 0.1, name)
    with pytest.raises(SimulationError, match="EnergyMomentum needs the energy of 'scalable'"):
        ht.simulate(body, start, 1.0, 0.1, "energy_momentum")


@pytest.mark.parametrize("attitude", ["matrix", "quaternion"])
@pytest.mark.parametrize("com", [(0.0, 0.0, 0.0), (0.1, 0.2, -0.3)])
@pytest.mark.thorough
def test_energy_momentum_on_a_free_body(attitude: str, com: tuple[float, ...]) -> None:
    """Turning and flying in large steps: momenta, and the path of the mass centre."""
    moment, velocity, duration = np.array([0.3, 0.4, 0.5]), np.array([1.0, -2.0, 0.5, 3.0, 1.0, 2.0]), 100.0
    system = ht.System(gravity=(0, 0, 0), name="stone")
    system.body("stone", joint=ht.Free(attitude), inertia=ht.Inertia(2.0, com=com, moment_at_com=tuple(moment)))
    model = system.derive()
    method = EnergyMomentum(iterations=25)  # the iteration gains a digit or less at such a step
    run = ht.simulate(model, (model.neutral(), velocity), duration, 0.05, method)
    kept = {key: i.relative for key, i in run.invariants.items() if key.startswith("linear") or key == "energy"}
    assert len(kept) == 4
    assert max(kept.values()) < 1e-11, kept
    R = model.pose("world", "stone", run.q)[:, :3, :3]
    spin = np.einsum("tij,j,tj->ti", R, moment, run.v[:, 3:])
    np.testing.assert_allclose(spin, np.broadcast_to(spin[0], spin.shape), atol=1e-11)
    if not any(com):
        np.testing.assert_allclose(run.q[:, :3], run.t[:, None] * velocity[:3], atol=1e-9)
        assert all(i.relative < 1e-11 for key, i in run.invariants.items() if key.startswith("angular"))


@pytest.mark.thorough
def test_energy_momentum_in_gravity_is_of_second_order_in_path_and_spin() -> None:
    system = ht.System(name="stone")
    system.body("stone", joint=ht.Free(), inertia=ht.Inertia(2.0, moment_at_com=(0.3, 0.4, 0.5)))
    model = system.derive()
    errors = []
    for step in (0.02, 0.01, 0.005):
        run = ht.simulate(model, (model.neutral(), [1.0, -2.0, 0.5, 3.0, 1.0, 2.0]), 2.0, step, "energy_momentum")
        R = run.q[-1, 3:].reshape(3, 3).T
        spin = R @ (np.array([0.3, 0.4, 0.5]) * run.v[-1, 3:])
        path = np.linalg.norm(run.q[-1, :3] - [2.0, -4.0, 1.0 - 0.5 * 9.81 * 4])
        errors.append((path, np.linalg.norm(spin - [0.9, 0.4, 1.0])))
        assert run.invariants["energy"].relative < 1e-12
    ratios = np.log2(np.array(errors)[:-1] / np.array(errors)[1:])
    np.testing.assert_allclose(ratios, 2.0, atol=0.1)


# --- honest step control ---------------------------------------------------------------------------------------------------


@cache
def controlled(kind: str) -> tuple[ht.Model, float]:
    """A system and the size of its random velocities."""
    system = ht.System(name=kind)
    bar = ht.Inertia(1.0, com=(0.05, 0, -0.5), moment_at_com=(0.1, 0.12, 0.03))
    if kind in ("matrix", "quaternion"):  # spinning
        system.body("body", joint=ht.Free(attitude=kind), inertia=bar)
        return system.derive(), 20.0
    if kind == "top":  # spinning fast
        symmetric = ht.Inertia(1.0, com=(0, 0, 0.2), moment_at_com=(0.02, 0.02, 0.01))
        system.body("top", joint=ht.Spherical(), inertia=symmetric)
        return system.derive(), 100.0
    if kind == "stiff":
        stiffness, damping = system.parameter("stiffness", 1e4), system.parameter("damping", 1.0)
        system.body("cart", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
        system.body("rod", parent="cart", joint=ht.Revolute("y"), inertia=bar)
        system.potential(lambda q: 0.5 * stiffness * q[0] ** 2)
        system.dissipation(lambda q, v: 0.5 * damping * v[0] ** 2)
        return system.derive(), 2.0
    first = ht.Prescribed(ht.Prismatic("x"), lambda t: 0.2 * np.sin(7 * t)) if kind == "crane" else ht.Spherical()
    system.body("a", joint=first, inertia=bar)
    system.body("b", parent="a", at=(0, 0, -1), joint=ht.Spherical(), inertia=bar)
    return system.derive(), 5.0


def global_error(kind: str, rng: np.random.Generator) -> float:
    """Largest true error at a record of a random run of rkmk45, relative to what was tolerated."""
    model, fast = controlled(kind)
    c, records = model.coordinates, 10
    q = c.retract(c.neutral(), rng.normal(size=c.nv) * ([0.01, 1.0] if kind == "stiff" else 1.0))
    v = rng.normal(size=model.nv) * fast * 10 ** rng.uniform(-1, 0)
    p = {"stiffness": 10 ** rng.uniform(2, 6), "damping": 10 ** rng.uniform(-1, 3.5)} if kind == "stiff" else {}
    rtol, until = 10 ** rng.uniform(-10, -3), 10 ** rng.uniform(-0.5, 0.5)
    method = ht.RKMK45(rtol=rtol, atol=0.01 * rtol)
    run = ht.simulate(model, (q, v), until, until / records, method, parameters=p)
    finer = max(4 * run.timing.steps, 200) // records + 1
    true = ht.simulate(
        model, (q, v), until, until / records / finer, "rkmk8", parameters=p, record_every=finer, balance=False
    )
    assert run.outcome.ok
    assert true.outcome.ok
    tolerated = 0.01 * rtol + rtol * np.maximum.accumulate(np.abs(true.v))
    errors = np.concatenate([c.difference(true.q, run.q) / rtol, (run.v - true.v) / tolerated], axis=-1)
    return float(np.max(np.sqrt(np.mean(errors**2, axis=-1))))


@pytest.mark.thorough
def test_error_control_keeps_its_tolerance() -> None:
    rng = np.random.default_rng(1)
    assert max(global_error("top", rng) for _ in range(10)) < 3.0


@pytest.mark.thorough
def test_error_control_keeps_its_tolerance_on_200_problems() -> None:
    rng = np.random.default_rng(0)
    kinds = ("matrix", "quaternion", "top", "stiff", "crane", "arm")
    errors = np.array([global_error(kind, rng) for kind in kinds for _ in range(34)])
    assert np.mean(errors <= 3.0) >= 0.99
    assert np.median(errors) < 1.0


@pytest.mark.parametrize(
    ("until", "rtol", "error", "most"),
    [
        (1e2, 1e-15, 1e-12, 1e5),  # as far as rounding allows
        (1e3, 1e-8, 1e-9, 5e5),  # rkmk4 takes a million for such an error
        pytest.param(1e4, 1e-8, 1e-8, 1e7, marks=pytest.mark.thorough),
        pytest.param(1e4, 1e-4, 1e-4, 2e6, marks=pytest.mark.thorough),
    ],
)
def test_error_control_of_long_runs(until: float, rtol: float, error: float, most: float) -> None:
    """A pendulum from rest keeps the tolerance, compared with the exact motion, over up to 5000 periods; rounding ends no run."""
    system = ht.System(name="pendulum")
    system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
    run = ht.simulate(system.derive(), ([0.3], [0.0]), until, 0.1, ht.RKMK45(rtol=rtol, atol=0.01 * rtol))
    assert run.outcome.ok, run.outcome
    m = np.sin(0.15) ** 2
    exact = 2 * np.arcsin(np.sqrt(m) * ellipj(ellipk(m) - np.sqrt(9.81) * run.t, m)[0])
    assert np.max(np.abs(run.q[:, 0] - exact)) < error
    assert run.timing.steps < most


@pytest.mark.thorough
def test_spins_of_more_than_half_a_turn_per_step_are_reported() -> None:
    system = ht.System(gravity=(0, 0, 0))
    system.body("wheel", joint=ht.Revolute("z"), inertia=ht.Inertia(1.0, moment_at_com=(1, 1, 1)))
    model = system.derive()
    run = ht.simulate(model, ([0.0], [20.0]), 10.0, 1.0, "rkmk45")
    assert re.search(r"finished: reached t = 10 s; steps of up to \d+ turns", str(run.outcome))
    assert "turns" not in str(ht.simulate(model, ([0.0], [20.0]), 1.0, 0.1, ht.RKMK45(max_step=0.1)).outcome)
    assert "up to 3.2 turns in a step. Take a step below 0.16 s" in ht.simulate(
        model, ([0.0], [20.0]), 10.0, 1.0
    ).report(show=False)
