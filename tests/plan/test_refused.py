"""What cannot be planned is told before a solver starts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from plan.test_transcription import DEFAULTS

import heavytop as ht
from heavytop.errors import FileFormatError, HeavytopError, PlanError
from heavytop.plan import (
    AtPose,
    Distance,
    Effort,
    Gate,
    Guess,
    HalfSpace,
    KeepIn,
    KeepOut,
    Own,
    OwnCost,
    Phase,
    Point,
    Rest,
    Speed,
    Time,
)  # fmt: skip
from heavytop.plan.problem_builder import describe
from heavytop.plan.study import read_study


class Never:
    """A solver that must not be asked."""

    name = "never"

    def solve(self, *given: Any, **options: Any) -> Any:
        raise AssertionError("the solver was started")


@pytest.fixture(scope="module")
def cart() -> ht.Model:
    return ht.library.cart_pole().derive()


@pytest.fixture(scope="module")
def ball() -> ht.Model:
    """A ball that can be pushed along all axes."""
    system = ht.System(gravity=(0, 0, 0), name="ball")
    parent = "world"
    for axis in "xyz":
        system.body(axis, parent=parent, joint=ht.Prismatic(axis), inertia=ht.Inertia(1.0))
        system.input(f"F{axis}", ht.JointForce(axis))
        parent = axis
    return system.derive()


CART: dict[str, tuple[dict[str, Any], str]] = {
    "guesses": ({"guesses": -3}, "at least 0"),
    "iterations": ({"iterations": 0}, "at least 1"),
    "solver": ({"solver": "ipopt"}, "Ipopt"),
    "steps": ({"steps": 10**9}, "from 2 to"),
    "cost that is a vector": ({"cost": OwnCost(lambda q: q)}, "must return a number"),
    "cost without function": ({"cost": OwnCost(3)}, "needs a function"),  # pyright: ignore
    "cost that fails": ({"cost": OwnCost(lambda q: q[9])}, "out of bounds"),
    "cost that is no number": ({"cost": OwnCost(lambda q, u: u[0] ** 2 + np.sqrt(-1 - q[0] ** 2))}, "at node 0"),
    "constraint that is no number": ({"path": [Own(lambda u: np.log(-1 - u[0] ** 2), 0, 9, name="log")]}, "log is"),
    "bounds of another size": ({"path": [Own(lambda q: q, 0, np.ones(3))]}, "upper bound"),
    "about": ({"cost": Effort(about=np.nan)}, "about of Effort"),
    "negative weights": ({"cost": Effort(weights=-1.0)}, "not negative"),
    "speed": ({"cost": Speed(np.nan)}, "weights of Speed"),
    "method": ({"method": "euler"}, "'collocation'"),
    "short guess": ({"guess": Guess(*(np.zeros((5, n)) for n in (2, 2, 1)), np.ones(1))}, "q of the guess"),
}


@pytest.mark.parametrize(("options", "text"), CART.values(), ids=CART)
def test_arguments(cart: ht.Model, options: dict[str, Any], text: str) -> None:
    with pytest.raises(HeavytopError, match=text):
        ht.plan(cart, [0, np.pi], [0, 0], 2.0, **({"solver": Never()} | options))


def test_phases(cart: ht.Model) -> None:
    for phase, text in ((Phase(1.0, 1.0, 0), "steps of a phase"), (Phase(np.nan, 1.0, 5), "duration")):
        with pytest.raises(PlanError, match=text):
            ht.plan(cart, [0, np.pi], [0, 0], phases=[phase], solver=Never())


def test_speed_that_is_too_low_for_the_longest_duration(cart: ht.Model) -> None:
    with pytest.raises(PlanError, match="the distance of 10 is 8 too far"):
        ht.plan(cart, [0, 0], [10, 0], (0.5, 2.0), limits={"x.v_x": (-1, 1)}, solver=Never())


@pytest.mark.parametrize(
    ("path", "goal", "text"),
    [
        ([Gate("z", (1, 0, 0)), KeepOut("z", (1, 0, 0.1), 0.5)], None, "phase 1 .* by 0.4"),
        ([Gate("z", (1, 0, 5)), KeepIn("z", (-9,) * 3, (9, 9, 2))], None, "by 3"),
        ([Gate("z", (1, 0, 5)), HalfSpace("z", (0, 0, -1), -4.0)], None, "by 1"),
        ([], [Point("z", (1, 0, 0)), Point("z", (3, 0, 0))], "the goal .* by 2"),
    ],
)
def test_points_that_contradict_constraints(ball: ht.Model, path, goal, text: str) -> None:
    with pytest.raises(PlanError, match=text):
        ht.plan(ball, [0, 0, 0], [2, 0, 0] if goal is None else goal, path=path, solver=Never())


def test_point_out_of_reach() -> None:
    system = ht.System(name="arm")
    for name, parent, at in (("a", "world", (0, 0, 0)), ("b", "a", (0, 0, 1))):
        system.body(name, parent=parent, at=at, joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, 0.5)))
        system.input(f"M{name}", ht.JointForce(name))
    arm, tip = system.derive(), (0, 0, 1)
    goal = [
        Point("b", (1, 0.5, 0), tip),
        Rest(),
    ]  # beside the plane in which it moves; beyond its links: test_contradictions
    with pytest.raises(
        PlanError, match=r"^the goal of 'arm': no configuration was found from 12 starts.* by 0\.5.*\(guess="
    ) as caught:
        ht.plan(arm, [np.pi, 0], goal, 2.0, solver=Never())
    assert "cannot" not in str(caught.value)
    with pytest.raises(AssertionError, match="the solver was started"):  # who gives a guess is believed
        ht.plan(arm, [np.pi, 0], goal, 2.0, guess=ht.control.Reference.set_point(arm, [1, 1]), solver=Never())
    assert describe(arm, [np.pi, 0], [Point("b", (1.2, 0, 0), tip), Rest()], 2.0, **DEFAULTS).steps == 6


def test_poses_and_planes() -> None:
    for G in (2 * np.eye(4), np.full((4, 4), np.nan)):
        with pytest.raises(PlanError, match="rotation matrix"):
            AtPose("hull", G)
    with pytest.raises(PlanError, match="must be finite"):
        HalfSpace("hull", (0, 0, 1), np.nan)


def test_references_and_guesses_of_other_models(cart: ht.Model, ball: ht.Model) -> None:
    other = ht.control.Reference.set_point(ball, [0, 0, 0])
    with pytest.raises(PlanError, match="one of 'ball'"):
        ht.plan(cart, [0, np.pi], [0, 0], 2.0, cost=Distance(other), solver=Never())
    with pytest.raises(PlanError, match="motion of 'ball'"):
        ht.plan(cart, [0, np.pi], [0, 0], 2.0, guess=other, solver=Never())


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("stpes = 3", "line 6: .*'stpes'"),
        ("[[keep_out]]\ncentre = [1, 0, 0]", "line 7: .*'centre'"),
        ('[[keep_out]]\ncenter = [1, 0, 0]\nradius = -1\nframe = "pole"', "line 6: .*radius"),
        ("[start]\nq = [0.0]", "line 7: q of .start. needs 2 numbers"),
    ],
)
def test_studies_tell_the_line(tmp_path, line: str, text: str) -> None:
    file = tmp_path / "study.toml"
    file.write_text(f'system = "cart-pole"\n\n# comment\nsteps = 9\n\n{line}\n\n[goal]\nq = [0, 0]\n', "utf-8")
    with pytest.raises(FileFormatError, match=text):
        read_study(file)


def test_a_free_body_that_is_too_slow() -> None:
    model = ht.library.quadcopter().derive()
    start, goal = model.neutral(), model.neutral().copy()
    goal[:3] = 3.0, 0.0, 4.0
    limits = {**dict.fromkeys(model.u_names, (0.0, 7.0)), **dict.fromkeys(model.v_names[:3], (-1.0, 2.0))}
    with pytest.raises(
        PlanError, match="has to move by 5 m, and with its limited velocities it comes 3.4641 m far in 1 s"
    ):
        ht.plan(model, start, goal, 1.0, limits=limits, solver=Never())
    with pytest.raises(AssertionError, match="was started"):  # 6.9 m in 2 s: it may be
        ht.plan(model, start, goal, 2.0, limits=limits, solver=Never())


@pytest.mark.parametrize(("given", "told"), [((-20.0, 20.0, 1.0), "3 values"), ([5.0], "1 values")])
def test_limits_are_pairs(given: Any, told: str) -> None:
    cart = ht.library.cart_pole().derive()
    with pytest.raises(PlanError, match=told):
        ht.plan(cart, [0, np.pi], [0, 0], 2.0, limits=given, solver=Never())
    with pytest.raises(PlanError, match="number of seconds"):
        ht.plan(cart, [0, np.pi], [0, 0], True, limits=(-20, 20), solver=Never())


# --- by force: the momentum of the whole system -----------------------------------------------------------------------------

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
    """Sideways all of the thrust: half of the time there, half of it back."""
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


def test_a_planned_motion_at_the_edge_is_not_refused(ball: ht.Model) -> None:
    """A sled in least time: what the solver finds is what the momentum allows, and not refused with its own duration."""
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


def test_momentum_says_nothing_where_the_world_pushes() -> None:
    """A spring, a damper to the world or a hinge may do what inputs cannot."""
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


def test_a_free_arm_cannot_shift_its_centre_of_mass() -> None:
    from heavytop.plan import problems

    model = problems.free_arm().derive()
    with pytest.raises(PlanError, match="by force"):
        ht.plan(model, model.neutral(), _moved(model, 0.5, 0.0, 0.0), 6.0, limits=(-5, 5), solver=Never())
    with STARTED:  # it drifts there
        drift = np.zeros(model.nv)
        drift[0] = 0.1
        ht.plan(model, (model.neutral(), drift), (_moved(model, 0.6, 0, 0), drift), 6.0, limits=(-5, 5), solver=Never())


def test_forces_of_inputs_in_every_direction() -> None:
    """Random vehicles: no force that inputs within their limits make is beyond what the check thinks possible."""
    from heavytop.plan.feasibility.momentum import outer_push

    rng = np.random.default_rng(0)
    for _ in range(20):
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
        problem = describe(model, model.neutral(), model.neutral(), 2.0, **(DEFAULTS | {"limits": (low, high)}))
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
