"""Laws on closed loops, rolling and bases, with spare inputs: the identities that hold on trees hold there too."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from heavytop_bench.laws import hexacopter
from scipy.linalg import null_space

import heavytop as ht
from heavytop import System
from heavytop.control import (
    ClosedLoop,
    DesiredDamping,
    DesiredInertia,
    JointBlock,
    Law,
    Noisy,
    Prototype,
    body_law,
    computed_torque,
    energy_balance,
    energy_law,
    hover,
    linearize,
    particle_law,
)
from heavytop.errors import ControlError
from heavytop.system import Inertia, JointForce, Model, Planar, Revolute, Stiffness, Wrench

LAWS = {"particle": particle_law, "body": body_law, "energy": energy_law}
ROD = Inertia(1.0, com=(0.5, 0.0, 0.0), moment_at_com=(0.01, 1 / 12, 1 / 12))
OTHER = Inertia(0.7, com=(0.2, 0.1, 0.0), moment_at_com=(0.02, 0.05, 0.06))


def five_bar(motors: tuple[str, ...], closed: bool = True) -> System:
    """Two cranks 1.5 m apart, a link on each, their ends joined: two degrees of freedom."""
    system = System(gravity=(0.0, -9.81, 0.0), name="five-bar")
    for name, at in (("left", 0.0), ("right", 1.5)):
        system.body(name, at=(at, 0.0, 0.0), joint=Revolute("z"), inertia=ROD)
        system.body(f"{name}_link", parent=name, at=(1.0, 0.0, 0.0), joint=Revolute("z"), inertia=OTHER)
    if closed:
        system.loop("left_link", "right_link", Revolute("z"), at_a=(1.0, 0.0, 0.0), at_b=(1.0, 0.0, 0.0))
    for name in motors:
        system.input(name, JointForce(name))
    return system


def prototype_of(bodies: tuple[str, ...], scale: float = 1.0) -> Prototype:
    """Different moments on every body, all off the centres of mass."""
    parts = []
    for kind, factor in ((DesiredInertia, 1.0), (DesiredDamping, 5.0), (Stiffness, 9.0)):
        part = {}
        for k, name in enumerate(bodies):
            total = factor * scale * (1.0 + 0.3 * k)
            part[name] = kind(total, (0.4 + 0.05 * k, 0.1, 0.0), total * np.array([0.2, 0.25, 0.3]))
        parts.append(part)
    return Prototype(*parts)


@cache
def model_of(motors: tuple[str, ...], closed: bool = True) -> Model:
    return five_bar(motors, closed).derive(native=False)


@cache
def law_of(kind: str, motors: tuple[str, ...], metric: str = "prototype", closed: bool = True) -> Law:
    model = model_of(motors, closed)
    return LAWS[kind](model, prototype_of(model.body_names), metric=metric)


def states(model: Model, count: int = 2) -> list[tuple[np.ndarray, ...]]:
    """Actual and desired states with closed loops, and accelerations that keep them closed."""
    rng, found = np.random.default_rng(0), []
    guess = np.array([1.9, -0.9, 1.2, 0.9])
    for _ in range(count):
        parts = []
        for _ in range(2):
            q, v = model.assemble(guess + 0.3 * rng.standard_normal(4), rng.standard_normal(4))
            parts += [q, v]
        a_R = model.acceleration(parts[2], parts[3], rng.standard_normal(model.nu))
        found.append((*parts, a_R))
    return found


def inputs(law: Law, *state: Any) -> np.ndarray:
    """u, interpreted: compiling would take longer than all calls."""
    return law.traced_law(*state, law.model.parameter_vector())[0]


def diagnostics(law: Law, *state: np.ndarray) -> dict[str, np.ndarray]:
    """Diagnostics, interpreted."""
    traced = law.traced_diagnostics
    return dict(zip(traced.outputs, traced(*state, law.model.parameter_vector()), strict=True))


def directions(model: Model, q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """N (nv, nu) from differences of accelerations, which are linear in the inputs."""
    still = model.acceleration(q, v, np.zeros(model.nu))
    return np.stack([model.acceleration(q, v, unit) - still for unit in np.eye(model.nu)], axis=1)


def desired_inertia(law: Law, q: np.ndarray) -> np.ndarray:
    J = {b: law.model.jacobian("world", b, q) for b in law.prototype.inertia}
    return np.sum([J[b].T @ m.matrix @ J[b] for b, m in law.prototype.inertia.items()], axis=0)


@pytest.mark.parametrize("kind", ["particle", "body"])
@pytest.mark.parametrize("metric", ["prototype", "model"])
def test_fully_actuated_closed_loop_is_the_prototype_in_the_admissible_directions(kind: str, metric: str) -> None:
    """T^T (M_bar a + c_bar) = 0 with c_bar from the law of the open chain and T from the rows of the loop."""
    motors = ("left", "right")
    law, free = law_of(kind, motors, metric), law_of(kind, ("left", "left_link", "right", "right_link"), closed=False)
    model = law.model
    for q, v, q_R, v_R, a_R in states(model):
        a = model.acceleration(q, v, inputs(law, q, v, q_R, v_R, a_R))
        wish = diagnostics(free, q, v, q_R, v_R, a_R)["a_d"]
        T = null_space(model.constraint_jacobian(q))
        assert T.shape == (4, 2)
        missing = T.T @ desired_inertia(law, q) @ (a - wish)
        assert np.max(np.abs(missing)) < 1e-10 * (1 + np.max(np.abs(a)))


@pytest.mark.parametrize("metric", ["prototype", "model"])
def test_fully_actuated_energy_law_has_the_desired_acceleration(metric: str) -> None:
    law = law_of("energy", ("left", "right"), metric)
    for state in states(law.model):
        a = law.model.acceleration(*state[:2], inputs(law, *state))
        np.testing.assert_allclose(a, diagnostics(law, *state)["a_d"], atol=1e-10 * (1 + np.max(np.abs(a))))


@pytest.mark.parametrize("kind", LAWS)
@pytest.mark.parametrize("metric", ["prototype", "model"])
def test_residual_is_orthogonal_to_what_the_inputs_can_do(kind: str, metric: str) -> None:
    law = law_of(kind, ("left",), metric)
    model = law.model
    for q, v, q_R, v_R, a_R in states(model):
        a = model.acceleration(q, v, inputs(law, q, v, q_R, v_R, a_R))
        missing = a - diagnostics(law, q, v, q_R, v_R, a_R)["a_d"]
        assert np.max(np.abs(missing)) > 1e-2
        measure = desired_inertia(law, q) if metric == "prototype" else model.mass_matrix(q)
        left = directions(model, q, v).T @ measure @ missing
        np.testing.assert_allclose(left, 0.0, atol=1e-10 * (1 + np.max(np.abs(a))))


def test_the_metric_matters_where_inputs_are_missing() -> None:
    q, v, q_R, v_R, a_R = states(model_of(("left",)))[0]
    one, other = (inputs(law_of("energy", ("left",), metric), q, v, q_R, v_R, a_R) for metric in ("prototype", "model"))
    assert np.max(np.abs(one - other)) > 1e-2
    with pytest.raises(ControlError, match="'mass'"):
        energy_law(model_of(("left",)), prototype_of(("left",)), metric="mass")


@pytest.mark.parametrize("kind", LAWS)
def test_on_the_reference_the_acceleration_is_that_of_the_reference(kind: str) -> None:
    law = law_of(kind, ("left", "right"))
    for *_, q, v, a_R in states(law.model):
        a = law.model.acceleration(q, v, inputs(law, q, v, q, v, a_R))
        np.testing.assert_allclose(a, a_R, atol=1e-9 * (1 + np.max(np.abs(a_R))))


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["particle", "body"])
def test_invariance_under_a_change_of_coordinates(kind: str) -> None:
    """Four free bodies in the plane and five loops: other coordinates, other constraints, the same torque and the same motion."""
    law = law_of(kind, ("left",))
    system = System(gravity=(0.0, -9.81, 0.0), name="all joints cut")
    bodies = law.model.body_names
    for name in bodies:
        system.body(name, joint=Planar(), inertia=OTHER if name.endswith("link") else ROD)
    for name, at in (("left", 0.0), ("right", 1.5)):
        system.loop("world", name, Revolute("z"), at_a=(at, 0.0, 0.0))
        system.loop(name, f"{name}_link", Revolute("z"), at_a=(1.0, 0.0, 0.0))
    system.loop("left_link", "right_link", Revolute("z"), at_a=(1.0, 0.0, 0.0), at_b=(1.0, 0.0, 0.0))
    system.input("left", Wrench("left", moment=(0.0, 0.0, 1.0)))
    other = system.derive(native=False)
    cut = LAWS[kind](other, law.prototype)

    def planar(q: np.ndarray, v: np.ndarray, a: np.ndarray) -> tuple[np.ndarray, ...]:
        parts: list[list[float]] = [[], [], []]
        for name in bodies:
            pose, J = law.model.pose("world", name, q), law.model.jacobian("world", name, q)
            R, twist = pose[:2, :2], J @ v
            rate = J @ a + law.model.jacobian_rate("world", name, q, v) @ v
            turned = R @ (rate[:2] + twist[5] * np.array([-twist[1], twist[0]]))
            parts[0] += [*pose[:2, 3], np.arctan2(R[1, 0], R[0, 0])]
            parts[1] += [*(R @ twist[:2]), twist[5]]
            parts[2] += [*turned, rate[5]]
        return tuple(np.array(part) for part in parts)

    for q, v, q_R, v_R, a_R in states(law.model):
        (Q, V, _), (Q_R, V_R, A_R) = planar(q, v, a_R), planar(q_R, v_R, a_R)
        u, same = inputs(law, q, v, q_R, v_R, a_R), inputs(cut, Q, V, Q_R, V_R, A_R)
        np.testing.assert_allclose(same, u, rtol=1e-9)
        expected = planar(q, v, law.model.acceleration(q, v, u))[2]
        np.testing.assert_allclose(other.acceleration(Q, V, same), expected, atol=1e-8)


# --- rolling and bases ------------------------------------------------------------------------------------------------------


def driven_car(basis: str | None) -> Model:
    """The car with a drive: by multipliers, with the speed of the rear axle, or with that of the front wheel as velocity."""
    system = ht.library.car(minimal=basis == "rear")
    system.input("drive", Wrench("chassis", force=(1.0, 0.0, 0.0)))
    if basis == "front":
        system.basis(_front_wheel, ("front_speed", "steer_rate"))
    return system.derive(native=False)


def _front_wheel(q, w):
    speed = w[0] * np.cos(q[3])
    return ht.vector(speed * np.cos(q[2]), speed * np.sin(q[2]), w[0] * np.sin(q[3]) / 2.5, w[1])


def car_states(models: dict[str | None, Model]) -> dict[str | None, list[np.ndarray]]:
    """One state, one reference and one acceleration of it, in the velocities of each model."""
    rng = np.random.default_rng(3)
    listed: dict[str | None, list[np.ndarray]] = {key: [] for key in models}
    for _ in range(2):
        q, (speed, steer) = rng.uniform(-0.6, 0.6, 4), rng.standard_normal(2)
        front = speed / np.cos(q[3])
        v = np.array([speed * np.cos(q[2]), speed * np.sin(q[2]), speed * np.tan(q[3]) / 2.5, steer])
        listed["rear"] += [q, np.array([speed, steer])]
        listed["front"] += [q, np.array([front, steer])]
        listed[None] += [q, v]
    for key, model in models.items():
        q_R, v_R = listed[key][2:]
        listed[key].append(model.acceleration(q_R, v_R, np.array([3.0, -200.0])))
    return listed


@pytest.mark.thorough
@pytest.mark.parametrize("kind", LAWS)
def test_invariance_under_a_change_of_the_basis(kind: str) -> None:
    models = {key: driven_car(key) for key in (None, "rear", "front")}
    prototype, found = prototype_of(("chassis", "front"), 100.0), {}
    for key, arguments in car_states(models).items():
        q, v, *_ = arguments
        model = models[key]
        law = LAWS[kind](model, prototype)
        u = inputs(law, *arguments)
        found[key] = np.concatenate([u, _joint_acceleration(model, q, v, u)])
    for key in ("rear", "front"):
        np.testing.assert_allclose(found[key], found[None], rtol=1e-9, atol=1e-9)


def _joint_acceleration(
    model: Model, q: np.ndarray, v: np.ndarray, u: np.ndarray | None, a: np.ndarray | None = None
) -> np.ndarray:
    """Acceleration of the configuration: d/dt(T) v + T a with the rates T v, by Richardson's extrapolation of central differences."""
    a = model.acceleration(q, v, u) if a is None else a
    slopes = []
    for h in (2e-3, 1e-3, 5e-4):
        rates = [model.rate(q + s * h * model.rate(q, v), v) for s in (1.0, -1.0)]
        slopes.append((rates[0] - rates[1]) / (2 * h))
    fine = [(4 * b - c) / 3 for c, b in pairwise(slopes)]
    return (16 * fine[1] - fine[0]) / 15 + model.rate(q, a)


@pytest.mark.parametrize("kind", ["particle", "body"])
@pytest.mark.parametrize("basis", [None, "rear", "front"])
def test_fully_actuated_rolling_is_the_prototype_in_the_admissible_directions(kind: str, basis: str | None) -> None:
    """T^T M_bar (a - a_d) = 0 with a_d of the sliding car and T from the formulas of rolling."""
    free = System(gravity=(0.0, 0.0, 0.0), name="sliding car")
    free.body("chassis", joint=Planar(), inertia=OTHER)
    free.body("front", parent="chassis", at=(2.5, 0.0, 0.0), joint=Revolute("z"), inertia=OTHER)
    free.input("steer", JointForce("front"))
    prototype = prototype_of(("chassis", "front"), 100.0)
    models = {key: driven_car(key) for key in (None, "rear", "front")}
    sliding, model = LAWS[kind](free.derive(native=False), prototype), models[basis]
    law = LAWS[kind](model, prototype)
    listed = car_states(models)
    q, v, q_R, v_R, a_R = listed[basis]
    a = _joint_acceleration(model, q, v, inputs(law, q, v, q_R, v_R, a_R))
    wish = diagnostics(
        sliding, q, listed[None][1], q_R, listed[None][3], _joint_acceleration(model, q_R, v_R, None, a_R)
    )["a_d"]
    T = np.array([[np.cos(q[2]), np.sin(q[2]), np.tan(q[3]) / 2.5, 0.0], [0.0, 0.0, 0.0, 1.0]]).T
    missing = T.T @ desired_inertia(sliding, q) @ (a - wish)
    assert np.max(np.abs(missing)) < 1e-10 * np.max(np.abs(desired_inertia(sliding, q) @ a))


def test_a_rolling_car_keeps_its_constraints_and_follows() -> None:
    """On the reference the acceleration is that of the reference."""
    model = driven_car("rear")
    law = energy_law(model, prototype_of(("chassis", "front"), 100.0))
    q, v = np.array([0.1, -0.2, 0.3, 0.2]), np.array([2.0, 0.1])
    a = np.array([0.4, -0.2])
    np.testing.assert_allclose(model.acceleration(q, v, inputs(law, q, v, q, v, a)), a, atol=1e-10)


# --- energy -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("blocks", [None, (JointBlock("left"), JointBlock("right"))])
def test_power_balance_of_the_energy_law_on_a_loop(blocks) -> None:
    """W' = -dissipation + defect at random states, by central differences along both motions; no defect with the cranks as blocks."""
    model = model_of(("left", "right"))
    bodies = model.body_names
    cranks = {("world", n): Stiffness(0.0, moment_at_center=(1.0, 1.0, 8.0)) for n in ("left", "right")}
    prototype = Prototype(prototype_of(bodies).inertia, prototype_of(bodies).damping, cranks)
    law = energy_law(model, prototype, blocks=blocks)
    for q, v, q_R, v_R, a_R in states(model):
        here = diagnostics(law, q, v, q_R, v_R, a_R)
        a, h, W = model.acceleration(q, v, inputs(law, q, v, q_R, v_R, a_R)), 1e-5, []
        for s in (h, -h):
            moved = (x + s * model.rate(x, y + 0.5 * s * z) for x, y, z in ((q, v, a), (q_R, v_R, a_R)))
            one, other = moved
            W.append(diagnostics(law, one, v + s * a, other, v_R + s * a_R, a_R)["W"])
        rate = (W[0] - W[1]) / (2 * h)
        assert rate == pytest.approx(here["defect"] - here["dissipation"], rel=1e-5, abs=1e-5)
        if blocks is not None:
            assert abs(here["defect"]) < 1e-10


@pytest.mark.thorough
def test_energy_decreases_along_a_motion_of_a_loop() -> None:
    law = law_of("energy", ("left", "right"))
    model = law.model
    q_R, _ = model.assemble([1.9, -0.9, 1.2, 0.9])
    controller = law.with_reference(q_R)
    start = model.assemble([1.6, -0.6, 1.4, 0.8], [1.0, 0.0, -1.0, 0.0])
    run = ClosedLoop(model, controller).fly(start, until=0.4, step=2e-3)
    balance = energy_balance(controller, run)
    assert np.all(np.diff(balance.W) < 0)
    assert np.max(np.abs(balance.imbalance)) < 1e-6 * balance.W[0]


def test_poles_of_a_loop_are_those_of_the_prototype() -> None:
    """Stiffness 9 and damping 5 times the inertia, body by body: L^2 + 5 L + 9 in both directions."""
    law = law_of("energy", ("left", "right"))
    q, _ = law.model.assemble([1.9, -0.9, 1.2, 0.9])
    poles = hover(law, q).poles
    np.testing.assert_allclose(np.poly(poles), np.polymul([1, 5, 9], [1, 5, 9]), rtol=1e-6)
    again = linearize(law.model, law.with_reference(q), q)
    assert len(again.names) == 4


# --- more inputs than directions --------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_spare_inputs_share_the_load() -> None:
    """Three motors on two degrees of freedom: the same motion, smallest torques in units of their usual effect."""
    two, three = law_of("energy", ("left", "right")), law_of("energy", ("left", "right", "left_link"))
    assert three.rank is not None
    for state in states(two.model):
        q, v = state[:2]
        u = inputs(three, *state)
        same = two.model.acceleration(q, v, inputs(two, *state))
        np.testing.assert_allclose(three.model.acceleration(q, v, u), same, atol=1e-9 * (1 + np.max(np.abs(same))))
        assert np.min(np.abs(u)) > 1e-3


def test_twin_inputs_share_equally() -> None:
    system = System(name="twins")
    system.body("bob", joint=Revolute("y"), inertia=ROD)
    for k in range(2):
        system.input(f"motor{k}", JointForce("bob"))
    law = energy_law(system.derive(native=False), prototype_of(("bob",)))
    state = ([0.3], [0.2], [0.0], [0.0], [0.0])
    u = inputs(law, *state)
    assert u[0] == pytest.approx(u[1], rel=1e-10)
    system = System(name="single")
    system.body("bob", joint=Revolute("y"), inertia=ROD)
    system.input("motor", JointForce("bob"))
    single = energy_law(system.derive(native=False), prototype_of(("bob",)))
    assert 2 * u[0] == pytest.approx(inputs(single, *state)[0], rel=1e-10)


def test_six_rotors_on_one_hull_use_the_smallest_thrusts() -> None:
    """Combinations of thrusts without effect are eliminated, not damped: none remain, and the rest is exact."""
    model = hexacopter().derive(native=False)
    law = energy_law(model, prototype_of(("hull",)))
    assert law.rank is not None
    assert law.rank.spare.shape == (6, 2)
    rng = np.random.default_rng(2)
    for _ in range(3):
        q, q_R, v, v_R, a_R = *model.random(rng, (2,)), *rng.standard_normal((3, 6))
        u = inputs(law, q, v, q_R, v_R, a_R)
        assert np.max(np.abs((law.rank.usual @ law.rank.spare).T @ u)) < 1e-13 * np.max(np.abs(u))
        missing = model.acceleration(q, v, u) - diagnostics(law, q, v, q_R, v_R, a_R)["a_d"]
        left = directions(model, q, v).T @ desired_inertia(law, q) @ missing
        assert np.max(np.abs(left)) < 1e-10 * np.max(
            np.abs(directions(model, q, v).T @ desired_inertia(law, q)) @ np.abs(missing)
        )
        # the smallest thrusts of the same effect, in units of the effect of each
        N, B = directions(model, q, v), model.input_matrix(q)
        size = np.sqrt(np.diag(N.T @ desired_inertia(law, q) @ N))
        np.testing.assert_allclose(u, np.linalg.pinv(B / size) @ (B @ u) / size, rtol=1e-9)


def test_spare_inputs_are_not_lost() -> None:
    """Three motors on two degrees of freedom: one redundant direction everywhere, none lost."""
    three = law_of("energy", ("left", "right", "left_link"))
    for q, v, q_R, *_ in states(three.model):
        here = three.diagnostics(q, v, q_R)
        assert here["rank"] == 2
        np.testing.assert_array_equal(here["lost"], 0.0)
        assert three.lost_directions(q) == ()


def test_lost_directions_exclude_redundant_ones() -> None:
    """Two parallel ropes pull a boom along its axis: their sum is lost, their difference is redundant."""
    system = System(name="two ropes")
    system.body("boom", joint=Revolute("z"), inertia=ROD)
    system.frame("tip", "boom", at=(1.0, 0.0, 0.0))
    for name in ("one", "two"):
        system.input(name, Wrench("tip", force=(0.0, 1.0, 0.0), frame="world"))
    law = energy_law(system.derive(native=False), prototype_of(("boom",)))
    assert law.lost_directions([0.3]) == ()
    assert law.lost_directions([np.pi / 2]) == ("'one' + 'two'",)
    here = law.diagnostics(np.array([[0.3], [np.pi / 2]]), np.zeros(1), np.zeros(1))
    np.testing.assert_array_equal(here["rank"], [1, 0])
    np.testing.assert_allclose(np.abs(here["lost"]), [[0.0, 0.0], [0.5**0.5, 0.5**0.5]], atol=1e-9)


@pytest.mark.thorough
def test_margins_and_noise_on_bases_and_constraints() -> None:
    """The number of deviations is not 2 nv: both forms of the car agree."""
    found = []
    for basis in (None, "rear"):
        model = driven_car(basis)
        law = particle_law(model, prototype_of(("chassis", "front"), 100.0))
        found.append(law.margins(np.zeros(4)))
        noisy = Noisy(law, model, configuration=[0.01, 0.01, 0.02, 0.03], velocity=0.1, period=0.01)
        assert noisy.signal_size == 4 + model.nv
        assert noisy.with_reference(np.zeros(4)).traced(model).outputs["u"] == (2,)
    for name in ("phase", "delay", "lag"):
        assert getattr(found[0], name) == pytest.approx(getattr(found[1], name), rel=1e-6)


def test_unsupported_laws_are_rejected() -> None:
    model = model_of(("left", "right"))
    with pytest.raises(ControlError, match="2 degrees of freedom and 4 joint velocities"):
        energy_law(model, prototype_of(model.body_names), blocks=(JointBlock("left"),))
    with pytest.raises(ControlError, match="tree"):
        computed_torque(model, stiffness=1.0, damping=1.0)
