"""The momentum of the whole system bounds what limited inputs can reach; goals beyond it are rejected before a solver starts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heavytop as ht
from heavytop.errors import PlanError
from heavytop.plan import Time, problems
from heavytop.plan.necessary_conditions import outer_push
from heavytop.plan.problem_builder import ProblemArguments, build_problem


class Never:
    """A solver that must not be called."""

    name = "never"

    def solve(self, request: Any) -> Any:
        raise AssertionError("the solver was started")


@pytest.fixture(scope="module")
def cart() -> ht.Model:
    return ht.library.cart_pole().derive()


HOVER = 0.9 * 9.81 / 4
STARTED = pytest.raises(AssertionError, match="the solver was started")


def _moved(model: ht.Model, *place: float) -> np.ndarray:
    q = model.neutral().copy()
    q[:3] = place
    return q


@pytest.fixture(scope="module")
def quad() -> ht.Model:
    return ht.library.quadcopter().derive()


@pytest.mark.parametrize("duration", [1.0, (0.5, 3.0), None])
def test_thrust_below_the_weight(quad: ht.Model, duration: Any) -> None:
    goal = _moved(quad, 1.0, 0.0, 0.0)
    with pytest.raises(
        PlanError, match=r"cannot be reached by force: .*'quadcopter' push its 0.9 kg along \(0, 0, 1\)"
    ):
        ht.plan(quad, quad.neutral(), goal, duration, limits=(0.0, 0.95 * HOVER), solver=Never())
    with STARTED:
        ht.plan(quad, quad.neutral(), goal, duration, limits=(0.0, 1.05 * HOVER), solver=Never())


def test_a_fall_needs_no_thrust(quad: ht.Model) -> None:
    falling = np.zeros(6)
    falling[2] = -9.81  # a second of free fall
    below = (_moved(quad, 0.0, 0.0, -4.905), falling)
    with STARTED:
        ht.plan(quad, quad.neutral(), below, 1.0, limits=(0.0, 0.5 * HOVER), solver=Never())
    with pytest.raises(PlanError, match="by force"):  # faster than it falls
        ht.plan(quad, quad.neutral(), (below[0], 1.6 * falling), 1.0, limits=(0.0, 0.5 * HOVER), solver=Never())


@pytest.mark.parametrize(("limit", "time"), [(2.0, 0.5), (3.0, 1.2)])
def test_too_far_for_the_time(quad: ht.Model, limit: float, time: float) -> None:
    """Sideways with all of the thrust: half of the time forth, half of it back."""
    far = 0.25 * limit * 9.81 * time**2
    for factor, expected in ((1.01, pytest.raises(PlanError, match="centre of mass comes at most")), (0.99, STARTED)):
        with expected:
            ht.plan(
                quad,
                quad.neutral(),
                _moved(quad, factor * far, 0, 0),
                time,
                limits=(0.0, limit * HOVER),
                solver=Never(),
            )
    down = (
        0.5 * time**2 * (limit + 1) * (limit - 1) / (2 * limit) * 9.81
    )  # falls with (1 + limit) g, brakes with (limit - 1) g
    for factor, expected in ((1.01, pytest.raises(PlanError, match=r"along \(-?0, -?0, -1\)")), (0.99, STARTED)):
        with expected:
            goal = _moved(quad, 0, 0, -factor * down)
            ht.plan(quad, quad.neutral(), goal, time, limits=(0.0, limit * HOVER), solver=Never())


def test_a_cart_within_its_force(cart: ht.Model) -> None:
    """Only the force on the cart moves the centre of mass of cart and pole sideways: (F / m) T^2 / 4 from rest to rest."""
    far = 20.0 / 1.1 * 0.3**2 / 4
    with pytest.raises(PlanError, match=r"push its 1.1 kg along \(1, 0, 0\) with -20 to 20 N"):
        ht.plan(cart, [0, 0], [1.01 * far, 0], 0.3, limits=(-20, 20), solver=Never())
    with STARTED:
        ht.plan(cart, [0, 0], [0.99 * far, 0], 0.3, limits=(-20, 20), solver=Never())
    with STARTED:  # no limit, no bound
        ht.plan(cart, [0, 0], [100, 0], 0.3, solver=Never())
    with STARTED:  # limits of other things do not count
        ht.plan(cart, [0, 0], [100, 0], 0.3, limits={"theta.rate": (-90, 90)}, solver=Never())
    heavy = {"m_c": 9.9}
    with pytest.raises(PlanError, match="push its 10 kg"):
        ht.plan(cart, [0, 0], [0.5 * far, 0], 0.3, limits=(-20, 20), parameters=heavy, solver=Never())


@pytest.mark.thorough
def test_a_planned_motion_at_the_edge_is_accepted() -> None:
    """A sled in least time: the solution is at the bound of the momentum, and accepted with its own duration."""
    system = ht.System(gravity=(0, 0, 0), name="sled")
    system.body("sled", joint=ht.Prismatic("x"), inertia=ht.Inertia(2.0))
    system.input("F", ht.JointForce("sled"))
    sled = system.derive()
    options: dict[str, Any] = {"limits": (-4, 4), "steps": 20, "tolerance": 1e-6}
    least = ht.plan(sled, [0.0], [1.0], cost=Time(), **options)
    assert least.duration == pytest.approx(np.sqrt(2.0), rel=1e-3)
    again = ht.plan(sled, [0.0], [1.0], (0.1, least.duration * (1 + 1e-5)), cost=Time(), **options)
    assert again.duration == pytest.approx(least.duration, rel=1e-3)
    with pytest.raises(PlanError, match="by force"):
        ht.plan(sled, [0.0], [1.0], 0.99 * np.sqrt(2.0), **options)


@pytest.mark.thorough
def test_no_bound_if_the_world_pushes() -> None:
    """A spring, a damper to the world or a hinge adds external forces."""
    for extra in ("spring", "damper", "hinge"):
        system = ht.System(gravity=(0, 0, 0), name=extra)
        joint = ht.Revolute("y") if extra == "hinge" else ht.Prismatic("x")
        system.body("sled", joint=joint, inertia=ht.Inertia(2.0, com=(0, 0, 1)))
        if extra == "spring":
            system.spring("world", "sled", ht.Stiffness(1.0))
        elif extra == "damper":
            system.damper("world", "sled", ht.Damping(1.0))
        system.input("F", ht.JointForce("sled"))
        with STARTED:
            ht.plan(system.derive(), [0.0], [1.0], 0.1, limits=(-4, 4), solver=Never())


@pytest.mark.thorough
def test_a_free_arm_cannot_shift_its_centre_of_mass() -> None:
    model = problems.free_arm().derive()
    with pytest.raises(PlanError, match="by force"):
        ht.plan(model, model.neutral(), _moved(model, 0.5, 0.0, 0.0), 6.0, limits=(-5, 5), solver=Never())
    with STARTED:  # it drifts there
        drift = np.zeros(model.nv)
        drift[0] = 0.1
        ht.plan(model, (model.neutral(), drift), (_moved(model, 0.6, 0, 0), drift), 6.0, limits=(-5, 5), solver=Never())


@pytest.mark.thorough
def test_forces_of_inputs_in_every_direction() -> None:
    """Random vehicles: no force of inputs within their limits exceeds the bound."""
    rng = np.random.default_rng(0)
    for _ in range(8):
        system = ht.System(gravity=(0, 0, 0), name="random")
        system.body("hull", joint=ht.Free(), inertia=ht.Inertia(1.0, moment_at_com=(1, 1, 1)))
        system.body("arm", parent="hull", joint=ht.Revolute("x"), inertia=ht.Inertia(0.5, com=(0, 0, 0.3)))
        system.input("joint", ht.JointForce("arm"))
        system.input("inner", ht.Wrench("arm", force=rng.standard_normal(3), relative_to="hull"))
        for k, body in enumerate(rng.choice(["hull", "arm"], 4)):
            frame = ("body", "world")[k % 2]
            system.input(
                f"push{k}",
                ht.Wrench(str(body), force=rng.standard_normal(3), moment=rng.standard_normal(3), frame=frame),
            )
        model = system.derive(native=False)
        low = rng.uniform(-2, 0, 6)
        high = low + rng.uniform(0, 3, 6)
        problem = build_problem(ProblemArguments(model, model.neutral(), model.neutral(), 2.0, (low, high)))
        push = outer_push(problem)
        assert push is not None
        for _ in range(10):
            q, v, u = model.random(rng), rng.standard_normal(model.nv), np.where(rng.random(6) < 0.5, low, high)
            rate = model.acceleration(q, v, u)
            h = 1e-5  # the rate of the momentum by differences
            ahead, back = (model.momentum(model.integrate(q, v, s), v + s * rate).linear for s in (h, -h))
            force = (ahead - back) / (2 * h)
            for n in (*np.eye(3), force / np.linalg.norm(force)):
                least, most = push.along(n)
                assert least - 1e-5 <= force @ n <= most + 1e-5
