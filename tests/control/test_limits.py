"""Limits of the inputs: the quadratic program, torque priority, recovery, bad limits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from heavytop._arrays import jacobian, symbol
from heavytop.compile import Kernel, Program, trace, trace_of
from heavytop.compile.passes.lazy_branches import usual_size
from heavytop.control import ClosedLoop, Limits, Prototype, box_qp, energy_law, random_states, region_of_attraction
from heavytop.errors import ControlError, ShapeError
from heavytop.geometry import so3
from heavytop.system import Damping, Free, Inertia, JointForce, Prismatic, Stiffness, System

TILTED = np.deg2rad(179.0)


def problem(seed: int, n: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    L = rng.standard_normal((n, n)) + 0.3 * np.eye(n)
    lower = rng.uniform(-1.0, 0.0, n)
    return L @ L.T + 0.05 * np.eye(n), 2 * rng.standard_normal(n), lower, lower + rng.uniform(0.0, 1.0, n)


def optimality(H: np.ndarray, x: np.ndarray, u: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> float:
    """Distance from Karush, Kuhn and Tucker's conditions: u = clip(u - gradient)."""
    gradient = H @ (u - x)
    return float(np.max(np.abs(u - np.clip(u - gradient, lower, upper))))


@given(st.integers(0, 10_000), st.integers(1, 5))
@settings(max_examples=40, deadline=None)
@pytest.mark.thorough
def test_box_qp_is_optimal(seed: int, n: int) -> None:
    H, x, lower, upper = problem(seed, n)
    u = box_qp(H, x, lower, upper)
    assert np.all((u >= lower) & (u <= upper))
    assert optimality(H, x, u, lower, upper) < 1e-9 * (1 + np.max(np.abs(H)))


def test_box_qp_with_missing_limits() -> None:
    H, x, lower, upper = problem(3, 4)
    lower[0], upper[1], lower[2], upper[2] = -np.inf, np.inf, -np.inf, np.inf
    u = box_qp(H, x, lower, upper)
    assert np.all((u >= lower) & (u <= upper))
    assert optimality(H, x, u, lower, upper) < 1e-9
    free = np.full(4, np.inf)
    np.testing.assert_array_equal(box_qp(H, x, -free, free), x)


def test_box_qp_traced_is_the_same() -> None:
    H, _, lower, upper = problem(5, 4)
    traced = trace(lambda H, x: box_qp(H, x, lower, upper), {"H": (4, 4), "x": (4,)})
    for seed in range(20):
        x = 2 * np.random.default_rng(seed).standard_normal(4)
        np.testing.assert_allclose(traced(H, x)[0], box_qp(H, x, lower, upper), atol=1e-12)


def test_the_inertia_that_weighs_limits(lab) -> None:
    """The prototype's own by default; another one decides otherwise, and only where a limit is active."""
    craft = lab.vehicle("quadcopter")
    own = craft.prototype.inertia
    heavy = {"hull": Inertia(1e4, moment_at_com=(0.02, 0.02, 0.04))}
    laws = [
        energy_law(craft.model, craft.prototype, Limits(0.0, 6.0, inertia=inertia)).traced_law
        for inertia in (None, own, heavy)
    ]
    rest = (np.zeros(6), craft.model.neutral(), np.zeros(6), np.zeros(6), [])
    for place, differs in (((0.0, 0.0, 0.0), False), ((40.0, 10.0, -30.0), True)):
        plain, same, other = (law(lab.configuration(place), *rest)[0] for law in laws)
        np.testing.assert_array_equal(plain, same)
        assert np.allclose(plain, other, atol=1e-9) != differs


@pytest.mark.parametrize("n", [5, 7, 10])
def test_the_path_of_active_sets_is_optimal(n: int) -> None:
    _, _, lower, upper = problem(0, n)
    lower[0], upper[1] = -np.inf, np.inf
    traced = trace(lambda H, x: box_qp(H, x, lower, upper), {"H": (n, n), "x": (n,)})
    cases = [problem(seed, n)[:2] for seed in range(60)]
    results = traced(np.array([H for H, _ in cases]), np.array([x for _, x in cases]))[0]
    assert np.all((results >= lower) & (results <= upper))
    assert np.mean(np.any((results == lower) | (results == upper), axis=1)) > 0.9
    for (H, x), u in zip(cases, results, strict=True):
        assert optimality(H, x, u, lower, upper) < 1e-9 * (1 + np.max(np.abs(H)))


def test_the_path_agrees_with_all_faces() -> None:
    """A fifth input that is coupled to no other one does not change the four."""
    for seed in range(20):
        H, x, lower, upper = problem(seed, 4)
        wide = np.eye(5)
        wide[:4, :4] = H
        u = box_qp(wide, np.append(x, 3.0), np.append(lower, -1.0), np.append(upper, 1.0))
        np.testing.assert_allclose(u, np.append(box_qp(H, x, lower, upper), 1.0), atol=1e-13)


@pytest.mark.parametrize("n", [5, 8])
def test_metrics_of_rotors_with_priority_of_torques(n: int) -> None:
    """Badly conditioned, and with symmetric demands, where many limits are met at the same time."""
    lower, upper, rng = np.zeros(n), np.ones(n), np.random.default_rng(4)
    angle = 2 * np.pi * np.arange(n) / n
    rows = np.stack([np.ones(n), np.sin(angle), np.cos(angle), 0.3 * (-1.0) ** np.arange(n)])
    H = rows.T @ (np.array([1.0, 1e4, 1e4, 1e2])[:, None] * rows) + np.eye(n)
    traced = trace(lambda x: box_qp(H, x, lower, upper), {"x": (n,)})
    demands = [*(rows.T @ rng.uniform(-3, 3, (4, 60))).T, *np.outer([-2.0, 0.0, 0.5, 1.0, 7.0], np.ones(n))]
    for x, u in zip(demands, traced(np.array(demands))[0], strict=True):
        assert optimality(H, x, u, lower, upper) < 1e-9


@pytest.mark.parametrize("n", [3, 6])
def test_box_qp_has_derivatives(n: int) -> None:
    """Free inputs follow the target, active ones do not move; infinite limits leave no NaN."""
    H, _, lower, upper = problem(5, n)
    lower[0], upper[1] = -np.inf, np.inf
    x = symbol("x", n)
    slope = trace_of("slope", {"x": x}, {"slope": jacobian(box_qp(H, x, lower, upper), x)})
    inside = np.where(np.isfinite(lower), np.maximum(lower, -1.0), -1.0) + 1e-3
    np.testing.assert_allclose(slope(np.minimum(inside, upper))[0], np.eye(n), atol=1e-12)
    far = np.where(np.isfinite(upper), upper + 5.0, lower - 5.0)
    D, u, h = slope(far)[0], box_qp(H, far, lower, upper), 1e-6
    steps = [(box_qp(H, far + h * e, lower, upper) - u) / h for e in np.eye(n)]
    np.testing.assert_allclose(D, np.array(steps).T, atol=1e-6)


def chain(links: int) -> tuple[System, Prototype]:
    """Carts side by side, each with its own force: as many inputs as wanted."""
    system = System(name="carts")
    for k in range(links):
        system.body(f"cart{k}", joint=Prismatic("x"), inertia=Inertia(1.0 + k))
        system.input(f"force{k}", JointForce(f"cart{k}"))
    names = [f"cart{k}" for k in range(links)]
    prototype = Prototype(
        {n: Inertia(1.0) for n in names}, {n: Damping(2.0) for n in names}, {n: Stiffness(1.0) for n in names}
    )
    return system, prototype


@pytest.mark.thorough
def test_a_law_with_many_limited_inputs() -> None:
    system, prototype = chain(8)
    law = energy_law(system.derive(), prototype, limits=(-1.0, 1.0))
    u = law.traced_law(np.linspace(-3, 3, 8), *np.zeros((4, 8)), [])[0]
    np.testing.assert_allclose(u, np.clip(-np.linspace(-3, 3, 8) * (1.0 + np.arange(8)), -1, 1), atol=1e-12)


def test_law_without_active_limits_is_the_unlimited_one(lab) -> None:
    free, limited = lab.law("quadcopter", "Ed"), lab.law("quadcopter", "Ed", (0.0, 6.0, 100.0))
    q = lab.configuration((0.05, -0.02, 0.1), so3.exp([0.02, 0.01, -0.05]))
    arguments = (q, np.full(6, 0.01), lab.configuration(), np.zeros(6), np.zeros(6), [])
    np.testing.assert_allclose(limited.traced_law(*arguments)[0], free.traced_law(*arguments)[0], rtol=1e-12)


def test_limits_hold_and_the_nearest_input_is_chosen(lab) -> None:
    free, limited = lab.law("quadcopter", "Ed"), lab.law("quadcopter", "Ed", (0.0, 6.0, None))
    model, rng = lab.vehicle("quadcopter").model, np.random.default_rng(1)
    q = model.random(rng, (30,))
    v = rng.standard_normal((30, 6))
    arguments = (q, v, model.neutral(), np.zeros(6), np.zeros(6), [])
    u, target = limited.traced_law(*arguments)[0], free.traced_law(*arguments)[0]
    assert np.all((u >= 0) & (u <= 6))
    assert np.mean(np.any(u != target, axis=1)) > 0.5
    N = np.linalg.solve(model.mass_matrix(model.neutral()), model.input_matrix(model.neutral()))
    H = N.T @ free.prototype.inertia["hull"].matrix @ N
    for k in range(30):
        assert optimality(H, target[k], u[k], np.zeros(4), np.full(4, 6.0)) < 1e-8


# --- recovery: the limited columns of the set-point table ---------------------------------------------------------------------


@pytest.mark.thorough
def test_set_points_with_limits(lab) -> None:
    model = lab.vehicle("quadcopter").model
    over = so3.exp([TILTED, 0, 0])
    starts = [((5, 0, 0), None), ((0, 0, 5), None), ((0, 0, 0), over), ((5, 0, 0), over)]
    q = np.stack([lab.configuration(r, R) for r, R in starts])
    plain = lab.law("quadcopter", "Ed", (0.0, 6.0, None))
    flight = ClosedLoop(model, plain.with_reference(model.neutral())).fly((q, np.zeros(6)), 8.0)
    assert lab.settle(flight, 0) == pytest.approx(3.435, abs=1.1e-3)
    assert lab.settle(flight, 1) == pytest.approx(3.386, abs=1.1e-3)
    assert lab.settle(flight, 3) == pytest.approx(3.803, abs=1.1e-3)
    assert flight.q[:, 3, 2].min() == pytest.approx(-0.978, abs=6e-4)
    # inverted without position error: the plain projection falls with zero thrust
    assert np.max(np.abs(flight.u[2000:, 2])) < 1e-9
    assert flight.q[-1, 2, 2] < -100.0
    priority = lab.law("quadcopter", "Ed", (0.0, 6.0, 100.0))
    flight = ClosedLoop(model, priority.with_reference(model.neutral())).fly((q[2:3], np.zeros(6)), 8.0)
    assert lab.settle(flight, 0) == pytest.approx(4.319, abs=1.1e-3)
    assert flight.q[:, 0, 2].min() == pytest.approx(-3.873, abs=6e-4)


@pytest.mark.slow
def test_almost_inverted_needs_more_priority(lab) -> None:
    model = lab.vehicle("quadcopter").model
    q = lab.configuration(R=so3.exp([np.deg2rad(179.99), 0, 0]))[None]
    drops = {}
    for priority in (None, 100.0, 1e4):
        law = lab.law("quadcopter", "Ed", (0.0, 6.0, priority))
        flight = ClosedLoop(model, law.with_reference(model.neutral())).fly((q, np.zeros(6)), 20.0)
        drops[priority] = (np.linalg.norm(flight.q[-1, 0, :3]) < 0.05, flight.q[:, 0, 2].min())
    assert not drops[None][0]
    assert not drops[100.0][0]
    assert drops[1e4][0]
    assert drops[1e4][1] == pytest.approx(-13.6, abs=0.1)


@pytest.mark.slow
def test_thousand_random_starts_with_limits_all_recover(lab) -> None:
    """Within 20 m and up to 179.9 degrees; sampled evidence, not a proof. The time it takes is a row of ``heavytop bench fly``."""
    model = lab.vehicle("quadcopter").model
    controller = lab.law("quadcopter", "Ed", (0.0, 6.0, 100.0)).with_reference(model.neutral())
    start = random_states(model, 1000, 1, distance=20.0)
    assert region_of_attraction(model, controller, start, until=30.0, step=5e-3).share == 1.0


@pytest.mark.thorough
def test_limits_cost_a_bounded_number_of_instructions(lab) -> None:
    """All 81 faces of the box of four inputs, shared well: about five times the law without limits, in native code."""
    free = Kernel(lab.law("quadcopter", "Ed").traced_law).stats()
    limited = Kernel(lab.law("quadcopter", "Ed", (0.0, 6.0, 100.0)).traced_law).stats()
    assert limited.native
    assert free.instructions <= 500
    assert limited.instructions <= 2700
    # one piece, so that the solver can be skipped as a whole
    assert limited.chunks == 1


def test_inactive_limits_cost_almost_nothing(lab) -> None:
    free, limited = (
        Program.from_traced(lab.law("quadcopter", "Ed", limits).traced_law) for limits in (None, (0.0, 6.0, 100.0))
    )
    assert usual_size(limited) < usual_size(free) + 150 < len(limited.code) / 3


@pytest.mark.parametrize("n", [4, 5])
@pytest.mark.thorough
def test_lanes_within_and_beyond_their_limits_side_by_side(n: int) -> None:
    H, _, lower, upper = problem(5, n)
    kernel = Kernel(trace(lambda H, x: box_qp(H, x, lower, upper), {"H": (n, n), "x": (n,)}, name="box"), lanes=4)
    rng = np.random.default_rng(2)
    inside, beyond = rng.uniform(lower, upper, (16, n)), rng.uniform(upper, upper + 1, (16, n))
    # every pattern of four lanes
    patterns = (np.arange(16)[:, None] >> np.arange(4)) % 2 == 1
    x = np.where(patterns[..., None], inside[:, None], beyond[:, None]).reshape(64, n)
    u = kernel(H, x)[0]
    np.testing.assert_array_equal(u[patterns.ravel()], x[patterns.ravel()])
    for k in range(64):
        np.testing.assert_allclose(u[k], box_qp(H, x[k], lower, upper), atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("limits", "distance"), [(None, 5.0), (None, 20.0), ((0.0, 6.0, None), 20.0), ((0.0, 6.0, 1e6), 5.0)]
)
def test_random_starts(lab, limits, distance: float) -> None:
    model = lab.vehicle("quadcopter").model
    controller = lab.law("quadcopter", "Ed", limits).with_reference(model.neutral())
    result = region_of_attraction(model, controller, random_states(model, 300, 2, distance=distance), step=5e-3)
    assert result.share == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("distance", [5.0, 20.0])
def test_random_starts_of_the_bicopter(lab, distance: float) -> None:
    model = lab.vehicle("bicopter").model
    controller = lab.law("bicopter", "Ed").with_reference(model.neutral())
    assert (
        region_of_attraction(model, controller, random_states(model, 300, 3, distance=distance), step=5e-3).share == 1.0
    )


# --- bad input ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("limits", "error", "message"),
    [
        (
            (0.0, 2.0),
            ControlError,
            r"'quadcopter'.*'thrust0' must supply 2.207, allowed 0 to 2",
        ),
        ((3.0, 1.0), ControlError, "lower one 3.*upper one 1"),
        ((np.nan, 1.0), ShapeError, "nan"),
        (([0.0, 0.0], 6.0), ShapeError, r"\(4,\), got \(2,\)"),
        (Limits(0.0, 6.0, -1.0), ControlError, "torque_priority"),
    ],
)
def test_bad_limits(lab, limits, error: type[Exception], message: str) -> None:
    craft = lab.vehicle("quadcopter")
    with pytest.raises(error, match=message):
        energy_law(craft.model, craft.prototype, limits=limits)


def test_hover_exactly_at_the_limit_is_allowed(lab) -> None:
    craft = lab.vehicle("quadcopter")
    energy_law(craft.model, craft.prototype, limits=(0.0, 0.9 * 9.81 / 4))
    assert isinstance(craft.describe(), System)
    assert isinstance(craft.model.description.joints[0].joint, Free)
