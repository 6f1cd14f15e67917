"""Predictive control in simulations, inside wrappers, in batches, with soft bounds, copied and pickled."""

from __future__ import annotations

import copy
import pickle
import threading
from pathlib import Path

import numpy as np
import pytest
from systems import lengthening_arm

import heavytop as ht
from heavytop import control
from heavytop.control import Within
from heavytop.errors import ControlError, HeavytopError, ShapeError, SimulationError, SweepError, UnknownNameError

SHORT = {"horizon": 8, "step": 0.05}


@pytest.fixture(scope="module")
def cart() -> ht.Model:
    return ht.library.cart_pole().derive()


@pytest.fixture(scope="module")
def quad() -> ht.Model:
    return ht.library.quadcopter().derive()


@pytest.fixture(scope="module")
def start(quad: ht.Model) -> tuple[np.ndarray, np.ndarray]:
    return quad.integrate(quad.neutral(), np.array([1.0, 0, 0, 2.0, 0, 0]), 1.0), np.zeros(6)


def ahead_of(quad: ht.Model, **options) -> control.Predictive:
    return control.mpc(quad, **({"limits": (0.0, 8.8)} | SHORT | options))


@pytest.mark.thorough
def test_as_a_controller_and_as_a_function(quad: ht.Model, start) -> None:
    """The same motion; every run starts with a fresh memory."""
    ahead = ahead_of(quad)
    options = {"until": 1.0, "step": 0.01, "control_step": 0.05}
    called = ht.simulate(quad, start, inputs=ahead, **options)
    first, again = (ht.simulate(quad, start, control=ahead, **options) for _ in range(2))
    np.testing.assert_array_equal(first.q, called.q)
    np.testing.assert_array_equal(first.u, called.u)
    np.testing.assert_array_equal(first.q, again.q)
    np.testing.assert_array_equal(first.channels["seen_q"][::5], first.q[::5])


@pytest.mark.thorough
def test_each_trajectory_of_a_batch_has_its_memory(quad: ht.Model, start) -> None:
    ahead = ahead_of(quad)
    starts = np.stack([start[0], quad.neutral() + np.r_[0.5, np.zeros(11)]])
    options = {"until": 0.5, "step": 0.01, "control_step": 0.05}
    both = ht.simulate(quad, (starts, np.zeros(6)), control=ahead, **options)
    for k, q in enumerate(starts):
        one = ht.simulate(quad, (q, np.zeros(6)), control=ahead, **options)
        np.testing.assert_allclose(both.q[:, k], one.q, atol=1e-9)


@pytest.mark.thorough
def test_delayed_measurements(quad: ht.Model, start) -> None:
    """Against a function that keeps the states of the last two samples."""
    options = {"until": 1.0, "step": 0.01, "control_step": 0.05}
    wrapped = ht.simulate(quad, start, control=control.Delayed(ahead_of(quad), 2, start), **options)
    ahead, kept = ahead_of(quad), [start, start]

    def late(t, q, v):
        kept.append((q.copy(), v.copy()))
        return ahead(t, *kept[-3])

    np.testing.assert_allclose(wrapped.q, ht.simulate(quad, start, inputs=late, **options).q, atol=1e-12)


@pytest.mark.thorough
def test_inside_noise_actuators_and_wind(quad: ht.Model, start) -> None:
    noisy = control.Noisy(ahead_of(quad, horizon=20), quad, 1e-3, 1e-2)
    run = ht.simulate(quad, start, until=5.0, step=0.01, control=noisy)
    assert 1e-4 < np.linalg.norm(run.q[-1, :3]) < 0.05
    slow = control.Actuated(ahead_of(quad, horizon=20), control.Propellers(0.03), start=np.full(4, 2.2))
    run = ht.simulate(quad, start, until=6.0, step=0.01, control=slow)
    assert np.linalg.norm(run.q[-1, :3]) < 1e-5
    assert np.abs(run.channels["demand"] - run.u).max() > 1.0
    blown = ht.library.quadcopter()
    control.add_wind(blown, "hull", 0.1)
    windy = control.Windy(ahead_of(quad, horizon=20), control.ConstantWind((1.0, 0, 0)))
    run = ht.simulate(blown.derive(), start, until=6.0, step=0.01, control=windy, control_step=0.05)
    assert 0.005 < run.q[-1, 0] < 0.05  # no integral action: a steady offset in wind


@pytest.mark.thorough
def test_events_and_adaptive_steps(cart: ht.Model) -> None:
    """An event between two samples is located with the input held there; adaptive steps give the same motion."""
    ahead = control.mpc(cart, [1.0, 0.0], limits=(-20, 20), **SHORT)
    begin = ([0.0, 0.0], [0.0, 0.0])
    whole = ht.simulate(cart, begin, until=1.5, step=0.01, control=ahead, control_step=0.05)
    for k in (100, 102):  # in the step that starts with a sample, and in one between samples
        place = 0.5 * (whole.q[k, 0] + whole.q[k + 1, 0])
        there = ht.Event(lambda t, q, v, place=place: q[0] - place, name="there", terminal=True)
        stopped = ht.simulate(cart, begin, until=1.5, step=0.01, control=ahead, control_step=0.05, events=there)
        assert stopped.t[-1] == pytest.approx(whole.t[k] + 0.005, abs=1e-4)
    fine = ht.simulate(cart, begin, until=1.5, step=0.05, control=ahead, integrator="rkmk45")
    np.testing.assert_allclose(fine.q[-1], whole.q[-1], atol=1e-6)


@pytest.mark.thorough
def test_another_reference(cart: ht.Model) -> None:
    ahead = control.mpc(cart, [0.0, 0.0], limits=(-20, 20), horizon=30)
    run = ht.simulate(
        cart, ([0, 0], [0, 0]), until=6.0, step=0.01, control=ahead, reference=[0.7, 0.0], control_step=0.05
    )
    assert run.q[-1, 0] == pytest.approx(0.7, abs=1e-3)


@pytest.mark.parametrize(
    ("act", "error", "message"),
    [
        (
            lambda c, a: ht.simulate(c, ([0, 0], [0, 0]), 1.0, 0.01, control=a, hold="continuous"),
            SimulationError,
            "zero-order",
        ),
        (lambda c, a: control.linearize(c, a, [0.0, 0.0]), ControlError, "Python"),
        (lambda c, a: control.export_controller(a, "nowhere", 0.01), ControlError, "export_c"),
        (lambda c, a: a(0.0, [0.0, 0.0, 0.0], [0.0, 0.0]), ShapeError, "predictive control"),
        (lambda c, a: a(0.0, np.zeros((3, 2)), np.zeros((3, 2))), ControlError, "batch axis"),
        (lambda c, a: a(np.nan, [0.0, 0.0], [0.0, 0.0]), ControlError, "finite time"),
        (lambda c, a: a.with_reference([0.0, 0.0, 0.0]), ShapeError, "set point"),
        (lambda c, a: control.lqr(c, [0.0, 0.0], "heavy"), ControlError, "Weights"),
        (lambda c, a: control.lqr(c, [0.0, 0.0]).region([-1.0]), ControlError, "positive"),
        (lambda c, a: control.lqr(c, [0.0, 0.0]).region([1.0], samples=0), ControlError, "samples"),
    ],
)
def test_unsupported_uses_are_rejected(cart: ht.Model, act, error, message: str) -> None:
    with pytest.raises(error, match=message):
        act(cart, control.mpc(cart, [0.0, 0.0], **SHORT))


def test_another_plant_is_rejected(cart: ht.Model, quad: ht.Model) -> None:
    with pytest.raises(ControlError, match=f"'{cart.name}' with nq = 2.*'{quad.name}' has nq = {quad.nq}"):
        ht.simulate(quad, (quad.neutral(), np.zeros(6)), 0.1, 0.01, control=control.mpc(cart, [0.0, 0.0], **SHORT))


# --- soft bounds -----------------------------------------------------------------------------------------------------------------


def test_soft_bounds_of_coordinates(cart: ht.Model) -> None:
    """To go right the cart first goes left, unless a wall is there; a start beyond a wall returns."""
    options = {"until": 8.0, "step": 0.01, "control_step": 0.05}
    free, walled = (
        ht.simulate(
            cart,
            ([0, 0.0], [0, 0]),
            control=control.mpc(cart, [2.0, 0.0], horizon=40, limits=(-20, 20), **more),
            **options,
        )
        for more in ({}, {"states": {"x.x": (-0.05, 2.05), "theta.angle": (-0.2, 0.2)}})
    )
    assert free.q[:, 0].min() < -0.08
    assert np.abs(free.q[:, 1]).max() > 0.3
    assert walled.q[:, 0].min() > -0.06
    assert walled.q[:, 0].max() < 2.06
    assert np.abs(walled.q[:, 1]).max() < 0.21
    assert walled.q[-1, 0] == pytest.approx(2.0, abs=0.02)
    behind = control.mpc(cart, [2.0, 0.0], horizon=40, limits=(-20, 20), states={"x.x": (0.5, 3.0)})
    run = ht.simulate(cart, ([0, 0.0], [0, 0]), control=behind, **options)
    assert behind.failures == 0
    assert run.q[-1, 0] == pytest.approx(2.0, abs=0.02)


@pytest.mark.thorough
def test_cones_half_spaces_and_user_defined_functions(quad: ht.Model) -> None:
    """A quadcopter moves 3 m sideways with bounded tilt, height and a user-defined function."""
    begin, goal = (quad.neutral(), np.zeros(6)), quad.neutral() + np.r_[3.0, np.zeros(11)]
    angle = np.radians(12.0)
    within = [
        Within.cone(quad, "hull", angle),
        Within.half_space(quad, "hull", (0, 0, -1), -0.02),
        Within(lambda q, v: np.stack([v[0] + v[1], v[0] - v[1]]), -1.0, 1.0, label="speeds along the diagonals"),
    ]
    options = {"until": 6.0, "step": 0.01, "control_step": 0.05}
    free, kept = (
        ht.simulate(quad, begin, control=control.mpc(quad, goal, limits=(0.0, 8.8), within=given), **options)
        for given in ((), within)
    )
    tilt = [np.arccos(np.clip(run.q[:, quad.q_names.index("hull.R_zz")], -1, 1)).max() for run in (free, kept)]
    speed = [np.abs(run.v[:, 0]).max() + np.abs(run.v[:, 1]).max() for run in (free, kept)]
    assert tilt[0] > 2 * angle
    assert tilt[1] < 1.1 * angle
    assert free.q[:, 2].max() > 0.04
    assert kept.q[:, 2].max() < 0.025
    assert speed[0] > 2.0
    assert speed[1] < 1.02
    assert kept.q[-1, 0] == pytest.approx(3.0, abs=0.1)


def robot() -> ht.System:
    system = ht.System(name="arm")
    link = ht.Inertia(1.0, com=(0.5, 0, 0), moment_at_com=(0.01, 0.01, 0.01))
    system.body("arm", joint=ht.Revolute("z"), inertia=link)
    system.input("motor", ht.JointForce("arm", gear=2.0))
    system.limits["arm"] = ht.JointLimits(-1.0, 1.0, velocity=0.5, effort=1.0)
    return system


@pytest.mark.thorough
def test_joint_limits_of_a_system() -> None:
    """The regulator limits efforts, predictive control also bounds positions and speeds."""
    system = robot()
    model = system.derive()
    law = control.lqr(model, [0.9], limits=system.limits)
    run = ht.simulate(model, ([-0.9], [0.0]), until=4.0, step=0.01, control=law)
    assert np.abs(run.u).max() == pytest.approx(0.5)  # half the effort by the gear
    ahead = control.mpc(model, [0.9], horizon=30, limits=system.limits)
    run = ht.simulate(model, ([-0.9], [0.0]), until=8.0, step=0.01, control=ahead, control_step=0.05)
    assert np.abs(run.u).max() <= 0.5
    assert run.v.max() < 0.51
    assert run.q[-1, 0] == pytest.approx(0.9, abs=1e-3)
    same = control.lqr(model, [0.9], limits={"motor": (-0.5, 0.5)})
    np.testing.assert_array_equal(same._bounds, law._bounds)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"states": {"y": (0, 1)}}, UnknownNameError, r"(in states).*'y'"),
        ({"states": {"x.x": (1, 0)}}, ControlError, "empty"),
        ({"states": {"x.x": (0, np.nan)}}, ControlError, "empty"),
        ({"states": {"x.x": 1.0}}, ControlError, "pair"),
        ({"states": [("x.x", (0, 1))]}, ControlError, "map names"),
        ({"states": {"x.v_x": (0, 1)}, "speeds": {"x.v_x": (0, 1)}}, ControlError, "twice"),
        ({"within": [3.0]}, ControlError, "within takes"),
        ({"within": Within(lambda q, v: 1.0)}, ControlError, "depends on the state"),
        ({"within": Within(lambda q, v: q[0], 1.0, 0.0)}, ControlError, "lower bound 1"),
        ({"limits": {"z": (0, 1)}}, UnknownNameError, "input"),
        ({"limits": {"x": ht.JointLimits(1.0, 0.0)}}, ControlError, "empty"),
        ({"limits": {"z": ht.JointLimits(0.0, 1.0)}}, UnknownNameError, "joint"),
        ({"limits": 3.0}, ControlError, "pair"),
        ({"horizon": 10**6}, ControlError, "2 to 1000"),
        ({"horizon": 2.5}, ControlError, "whole number"),
        ({"step": np.nan}, ControlError, "positive"),
        ({"cost": 3.0}, ControlError, "Weights"),
    ],
)
def test_contradictions_are_rejected(cart: ht.Model, options, error, message: str) -> None:
    with pytest.raises(error, match=message):
        control.mpc(cart, [0.0, 0.0], **(SHORT | options))


def test_bad_cones_are_rejected(quad: ht.Model) -> None:
    with pytest.raises(ControlError, match="between 0 and pi"):
        Within.cone(quad, "hull", 4.0)
    with pytest.raises(ControlError, match="length"):
        Within.half_space(quad, "hull", (0, 0, 0), 1.0)
    with pytest.raises(UnknownNameError):
        Within.cone(quad, "nose", 0.5)


# --- copies, threads, states that are not finite ---------------------------------------------------------------------------------


@pytest.mark.thorough
def test_copies_have_their_own_memory(quad: ht.Model, start) -> None:
    """Copies and pickles continue from the memory of the controller, independently of each other."""
    ahead = ahead_of(quad)
    ahead(0.0, *start)
    twins = [copy.deepcopy(ahead), copy.copy(ahead), pickle.loads(pickle.dumps(ahead))]
    expected = ahead(0.05, *start)
    later = ahead(0.1, *start)
    for twin in twins:
        np.testing.assert_allclose(twin(0.05, *start), expected, atol=1e-9)
        np.testing.assert_allclose(twin(0.1, *start), later, atol=1e-9)


@pytest.mark.thorough
def test_two_controllers_of_one_model_in_threads(quad: ht.Model, start) -> None:
    other = quad.neutral() + np.r_[0.5, np.zeros(11)]
    options = {"until": 1.0, "step": 0.01, "control_step": 0.05}
    found: dict[int, np.ndarray] = {}

    def fly(k: int, q: np.ndarray) -> None:
        found[k] = ht.simulate(quad, (q, np.zeros(6)), control=ahead_of(quad), progress=False, **options).q

    threads = [threading.Thread(target=fly, args=(k, q)) for k, q in enumerate((start[0], other))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for k, q in enumerate((start[0], other)):
        np.testing.assert_array_equal(
            found[k], ht.simulate(quad, (q, np.zeros(6)), control=ahead_of(quad), **options).q
        )


def test_a_state_that_is_not_finite_gives_the_planned_inputs(quad: ht.Model, start) -> None:
    ahead = ahead_of(quad)
    ahead(0.0, *start)
    planned = ahead.u[1].copy()
    np.testing.assert_array_equal(ahead(0.05, np.full(12, np.nan), np.zeros(6)), planned)
    assert ahead.failures == 1
    good = ahead(0.1, *start)
    assert np.all(np.isfinite(good))
    assert np.all(np.isfinite(ahead.q))
    with pytest.raises(HeavytopError):
        ht.simulate(quad, (np.full(12, np.nan), np.zeros(6)), 0.1, 0.01, control=ahead)


@pytest.mark.thorough
def test_a_motion_that_ends_is_held(cart: ht.Model) -> None:
    plan = ht.plan(cart, [0, 0], [0.5, 0], 1.5, limits=(-20, 20), steps=20, tolerance=1e-4)
    ahead = control.mpc(cart, plan.reference, limits=(-20, 20), horizon=30)
    run = ht.simulate(cart, ([0.02, 0.02], [0, 0]), until=6.0, step=0.01, control=ahead, control_step=0.05)
    assert run.q[-1, 0] == pytest.approx(0.5, abs=1e-3)
    with pytest.raises(ControlError, match="quadcopter"):
        control.mpc(ht.library.quadcopter().derive(), plan.reference)


@pytest.mark.thorough
def test_a_sweep_has_a_controller_for_each_point(cart: ht.Model) -> None:
    """Each point has its own goal, although the native code is the same."""

    def towards(goal: float) -> control.Predictive:
        return control.mpc(cart, [goal, 0.0], limits=(-20, 20), horizon=20)

    options = {"until": 2.0, "step": 0.05}
    found = ht.sweep(
        cart, over={"goal": [0.3, 0.6], "x.x": [0.0, 0.1]}, control=towards, trajectories=True, chunk=4, **options
    )
    for k, goal in enumerate((0.3, 0.6)):
        for j, x in enumerate((0.0, 0.1)):
            alone = ht.simulate(cart, ([x, 0.0], [0.0, 0.0]), control=towards(goal), **options)
            np.testing.assert_allclose(found.data.q_t.values[k, j, :, 0], alone.q[:, 0], atol=1e-9)
            assert alone.q[-1, 0] == pytest.approx(goal, abs=0.2)
    same = ht.sweep(cart, over={"x.x": [0.0, 0.1]}, control=towards(0.6), trajectories=True, **options)
    np.testing.assert_allclose(same.data.q_t.values, found.data.q_t.values[1], atol=1e-9)


@pytest.mark.thorough
def test_a_sweep_is_resumed_with_a_controller_that_has_run(cart: ht.Model, tmp_path: Path) -> None:
    """Its memory of other runs is not part of its key."""
    ahead = control.mpc(cart, [0.0, 0.0], limits=(-20, 20), horizon=5)
    options = {"over": {"x.x": [0.0, 0.1]}, "until": 0.2, "step": 0.05, "store": tmp_path / "swept.zarr"}
    first = ht.sweep(cart, control=ahead, **options)
    ht.simulate(cart, ([0.1, 0.0], [0.0, 0.0]), until=0.2, step=0.05, control=ahead)
    ahead(0.0, [0.1, 0.0], [0.0, 0.0])
    again = ht.sweep(cart, control=ahead, **options)
    np.testing.assert_array_equal(first.data.q, again.data.q)
    with pytest.raises(SweepError):
        ht.sweep(cart, control=control.mpc(cart, [0.5, 0.0], limits=(-20, 20), horizon=5), **options)


@pytest.mark.thorough
@pytest.mark.parametrize("length", [1.0, 3.0])
def test_bounds_of_frames_use_the_parameters(length: float) -> None:
    """Also parameters of another reference."""
    model, values = lengthening_arm(), {"l": length}
    below = Within.half_space(model, "tip", (0, 0, -1), -0.6)
    options = {"limits": (-50, 50), "within": below, "horizon": 20, "step": 0.05}
    made = control.mpc(model, [-1.0], parameters=values, **options)
    later = control.mpc(model, [0.0], **options).with_reference(
        control.Reference.set_point(model, [-1.0]).with_parameters(values)
    )
    for ahead in (made, later):
        run = ht.simulate(model, ([0.0], [0.0]), 2.0, 0.01, control=ahead, control_step=0.05, parameters=values)
        height = model.pose("world", "tip", run.q, parameters=values)[:, 2, 3]
        assert 0.59 < height.max() < 0.605


def test_joint_names_with_a_common_prefix() -> None:
    from heavytop.ocp import state_bounds

    system = ht.System(gravity=(0, 0, 0))
    heavy = ht.Inertia(1.0, com=(0.1, 0, 0), moment_at_com=(0.1, 0.1, 0.1))
    system.body("arm", joint=ht.Revolute("z"), inertia=heavy)
    system.body("arm.tip", parent="arm", joint=ht.Revolute("y"), inertia=heavy)
    system.limit("arm", lower=-2, upper=2, velocity=0.5)
    bounds = state_bounds(system.derive(), None, None, (), system.limits)
    assert bounds is not None
    assert bounds.labels == ("'arm.angle'", "'arm.rate'")
    assert bounds.upper.tolist() == [2.0, 0.5]


@pytest.mark.thorough
def test_limits_of_joints_that_follow_others() -> None:
    """Limits of a mimic joint bound the joint it follows, and the narrower one counts: laws, predictive control and plans take ``system.limits``."""
    from heavytop.ocp import state_bounds

    system = ht.System(gravity=(0, 0, 0), name="gripper")
    system.body("left", joint=ht.Prismatic("y"), inertia=ht.Inertia(0.1))
    ratio = system.parameter("ratio", -2.0)
    system.body("right", joint=ht.Coupled(ht.Prismatic("y"), "left", ratio, 0.1), inertia=ht.Inertia(0.1))
    system.input("motor", ht.JointForce("right"))
    system.limit("right", lower=-0.1, upper=0.3, velocity=1.0, effort=4.0)  # -0.1 <= left <= 0.1
    system.limit("left", lower=-0.05, upper=0.2, velocity=0.8)
    model = system.derive()
    for limits in (system.limits, dict(reversed(list(system.limits.items())))):
        bounds = state_bounds(model, None, None, (), limits)
        assert bounds is not None
        assert sorted(zip(bounds.labels, bounds.lower.tolist(), bounds.upper.tolist(), strict=True)) == [
            ("'left.v_x'", -0.5, 0.5),
            ("'left.x'", -0.05, 0.1),
        ]
    law = control.lqr(model, [0.0], limits=system.limits)
    assert law(0.0, [5.0], [0.0]).tolist() == [4.0]
    assert control.mpc(model, [0.0], horizon=3, limits=system.limits)(0.0, [0.05], [0.0]).shape == (1,)
    plan = ht.plan(model, [0.0], [0.09], limits=system.limits, steps=8, duration=1.0, tolerance=1e-4)
    assert np.abs(plan.v).max() <= 0.5 + 1e-6
    with pytest.raises(ht.errors.PlanError, match="0.1"):
        ht.plan(model, [0.0], [0.15], limits=system.limits, steps=8, duration=1.0)


def test_systems_with_explicit_time_are_rejected() -> None:
    system = ht.System(gravity=(0, 0, 0), name="blown")
    t = system.time
    system.body("cart", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.input("motor", ht.JointForce("cart"))
    system.potential(lambda q: -5.0 * np.sin(3 * t) * q[0])
    model = system.derive()
    still = control.Reference(model, lambda t: (np.zeros((len(t), 1)),) * 3, duration=1.0)
    with pytest.raises(ControlError, match="'blown'.*time"):
        control.mpc(model, still, **SHORT)


def test_simultaneous_simulations_do_not_share_a_memory(cart: ht.Model) -> None:
    """Nor do they change the memory of a controller called by hand."""
    ahead = control.mpc(cart, [0.0, 0.0], limits=(-20, 20), **SHORT)
    ahead(0.0, [0.3, 0.1], [0, 0])
    planned = ahead.u.copy()

    def end(k: int) -> np.ndarray:
        start = [0.1 * k, 0.05 * k], [0.0, 0.0]
        return ht.simulate(cart, start, 1.0, 1e-2, control=ahead, control_step=0.05).q[-1]

    alone, found = [end(k) for k in range(4)], [np.zeros(2)] * 4
    threads = [threading.Thread(target=lambda k=k: found.__setitem__(k, end(k))) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert np.array_equal(found, alone)
    assert np.array_equal(ahead.u, planned)
    assert len(ahead.seconds) == 20
