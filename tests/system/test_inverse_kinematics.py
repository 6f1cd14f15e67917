"""Inverse kinematics: poses are reached within limits, optima are those of an independent solver, obstacles are named."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import least_squares, minimize

import heavytop as ht
from heavytop.errors import ConfigurationError, ModelError, ShapeError, UnknownNameError
from heavytop.geometry import se3, so3


def planar(lengths: tuple[float, ...] = (1.0, 0.8, 0.5)) -> ht.System:
    """A planar arm in the x-z plane with a frame ``tip``."""
    system = ht.System(name="planar")
    parent, reach = "world", 0.0
    for k, length in enumerate(lengths):
        name = f"link{k}"
        inertia = ht.Inertia(1.0, com=(0.5 * length, 0, 0))
        system.body(name, parent=parent, at=(reach, 0, 0), joint=ht.Revolute("y"), inertia=inertia)
        parent, reach = name, length
    system.frame("tip", parent, at=(reach, 0, 0))
    return system


def spatial() -> ht.System:
    """An arm with six hinges and limits."""
    system = ht.System(name="spatial arm")
    offsets = [(0, 0, 0.4), (0, 0.1, 0), (0.5, 0, 0), (0.4, 0, 0), (0, 0, 0.1), (0.1, 0, 0)]
    parent = "world"
    for k, (axis, at) in enumerate(zip("zyyxyx", offsets, strict=True)):
        joint = ht.Revolute(axis, limits=(-2.5, 2.5))
        system.body(f"link{k}", parent=parent, at=at, joint=joint, inertia=ht.Inertia(1.0 + k, com=(0.1, 0, 0.05)))
        parent = f"link{k}"
    system.frame("tool", parent, at=(0.1, 0.0, 0.05))
    return system


ARM = spatial().derive()


def test_two_links_have_the_two_solutions_of_the_law_of_cosines() -> None:
    model = planar((1.0, 0.8)).derive()
    point = np.array([0.9, 0.0, -0.7])
    elbow = np.arccos((point @ point - 1.0 - 0.64) / 1.6)
    for start, sign in (((0.3, 0.5), 1), ((1.5, -0.5), -1)):
        q = model.inverse_kinematics({"tip": point}, start).require()
        assert q[1] == pytest.approx(sign * elbow, abs=1e-9)
        np.testing.assert_allclose(model.pose("world", "tip", q)[:3, 3], point, atol=1e-9)


def test_reachable_poses_are_reached_within_limits() -> None:
    rng = np.random.default_rng(3)
    poses = ARM.pose("world", "tool", rng.uniform(-2.5, 2.5, (300, 6)))
    found = ARM.inverse_kinematics({"tool": poses})
    assert found.reached.all(), found.report()
    np.testing.assert_allclose(ARM.pose("world", "tool", found.q), poses, atol=1e-8)
    assert np.abs(found.q).max() <= 2.5
    # one by one, and in another shape, the answers are the same
    again = ARM.inverse_kinematics({"tool": poses[:6].reshape(2, 3, 4, 4)})
    np.testing.assert_array_equal(again.q.reshape(6, 6), found.q[:6])
    alone = ARM.inverse_kinematics({"tool": poses[4]})
    np.testing.assert_allclose(ARM.pose("world", "tool", alone.q), poses[4], atol=1e-8)


@pytest.mark.thorough
def test_a_tool_is_a_part_of_its_frame() -> None:
    tool = se3.pose(so3.rotation_about("y", 0.7), [0.1, -0.05, 0.2])
    q = np.array([0.3, -0.8, 1.1, 0.2, 0.9, -0.4])
    target = ARM.pose("world", "tool", q) @ tool
    found = ARM.inverse_kinematics(q0=q + 0.2, tasks=ht.PoseTask("tool", target, at=tool)).require()
    np.testing.assert_allclose(ARM.pose("world", "tool", found) @ tool, target, atol=1e-8)


@pytest.mark.thorough
def test_targets_relative_to_a_moving_frame() -> None:
    q = np.array([0.3, -0.8, 1.1, 0.2, 0.9, -0.4])
    wanted = ARM.pose("link1", "tool", q)
    found = ARM.inverse_kinematics(tasks=ht.PoseTask("tool", wanted, relative_to="link1", weight=(1, 1, 1, 0, 0, 0)))
    np.testing.assert_allclose(ARM.pose("link1", "tool", found.require())[:3, 3], wanted[:3, 3], atol=1e-9)


@pytest.mark.thorough
def test_the_least_posture_is_that_of_another_solver() -> None:
    rest = np.array([0.2, -0.5, 0.9, 0.1, 0.4, 0.0])
    point, aim = np.array([0.55, 0.2, 0.6]), np.array([1.5, 0.4, 0.1])
    tasks = [ht.GazeTask("tool", aim, axis="x"), ht.PostureTask(rest)]
    found = ARM.inverse_kinematics({"tool": point}, tasks=tasks)

    def hard(q: np.ndarray) -> np.ndarray:
        G = ARM.pose("world", "tool", q)
        sight = np.cross(G[:3, 0], aim - G[:3, 3])
        return np.concatenate([G[:3, 3] - point, sight[:2]])

    rivals = minimize(
        lambda q: 0.5 * np.sum((q - rest) ** 2), found.require(), constraints={"type": "eq", "fun": hard},
        bounds=[(-2.5, 2.5)] * 6, method="SLSQP", options={"ftol": 1e-15, "maxiter": 300},
    )  # fmt: skip
    np.testing.assert_allclose(found.q, rivals.x, atol=1e-6)
    assert found.residuals["position of 'tool'"] < 1e-9
    assert found.residuals["gaze of 'tool'"] < 1e-9


@pytest.mark.thorough
def test_the_nearest_configuration_is_a_minimum_to_second_order() -> None:
    target = se3.pose(so3.rotation_about("z", 0.4), [1.6, 0.3, 0.5])
    found = ARM.inverse_kinematics({"tool": target})
    assert not found.reached
    assert found.outcome == "unreachable"
    assert found.rank < 6

    def cost(q: np.ndarray) -> float:
        G = ARM.pose("world", "tool", q)
        return 0.5 * np.sum((G[:3, 3] - target[:3, 3]) ** 2) + 0.5 * np.sum(so3.log(target[:3, :3].T @ G[:3, :3]) ** 2)

    options = {"ftol": 1e-16, "gtol": 1e-10}
    polished = minimize(cost, found.q, bounds=[(-2.5, 2.5)] * 6, method="L-BFGS-B", options=options)
    assert cost(found.q) <= polished.fun * (1 + 1e-9)
    starts = np.random.default_rng(0).uniform(-2.5, 2.5, (20, 6))
    best = min(minimize(cost, q, bounds=[(-2.5, 2.5)] * 6, method="L-BFGS-B").fun for q in starts)
    assert cost(found.q) <= best * (1 + 1e-6)
    with pytest.raises(ConfigurationError, match="unreachable"):
        found.require()


@pytest.mark.thorough
def test_joints_in_the_way_are_named() -> None:
    q = np.array([0.3, -0.8, 1.1, 0.2, 0.9, -0.4])
    target = ARM.pose("world", "tool", q)
    found = ARM.inverse_kinematics({"tool": target}, limits={"link2": (-0.2, 0.2), "link4": (-3.0, 3.0)})
    assert found.outcome == "limits"
    assert "link2" in found.blocking[()]
    assert "'link2'" in found.report()
    assert -0.2 <= found.q[2] <= 0.2
    assert ARM.inverse_kinematics({"tool": target}, limits={}).reached


@pytest.mark.thorough
def test_the_first_priority_comes_first() -> None:
    model = planar().derive()
    near, far = np.array([1.2, 0.0, 0.5]), np.array([0.0, 0.0, 3.0])
    tasks = [ht.PositionTask("tip", near), ht.PositionTask("link2", far, at=(0.25, 0, 0), priority=2)]
    found = model.inverse_kinematics(tasks=tasks)
    assert found.reached
    both = found.residuals["position of 'link2'"]
    # on the circle of configurations with the tip in place no other one is nearer
    for k in range(200):
        q = model.inverse_kinematics({"tip": near}, q0=[0.03 * k - 3.0, 0.5, 0.5]).q
        assert np.linalg.norm((model.pose("world", "link2", q) @ [0.25, 0, 0, 1])[:3] - far) >= both - 1e-9
    swapped = [ht.PositionTask("tip", near, priority=2), ht.PositionTask("link2", far, at=(0.25, 0, 0))]
    other = model.inverse_kinematics(tasks=swapped)
    assert not other.reached
    assert other.residuals["position of 'link2'"] < both - 0.1
    assert other.residuals["position of 'tip'"] > 0.1


@pytest.mark.thorough
def test_weights_of_zero_free_their_rows() -> None:
    model = planar().derive()
    G = se3.pose(np.eye(3), [1.1, 55.0, 0.4])
    found = model.inverse_kinematics(tasks=ht.PoseTask("tip", G, weight=(1, 0, 1, 0, 1, 0)))
    assert found.reached
    np.testing.assert_allclose(model.pose("world", "tip", found.q)[[0, 2], 3], [1.1, 0.4], atol=1e-9)
    np.testing.assert_allclose(found.q.sum(), 2 * np.pi * np.round(found.q.sum() / (2 * np.pi)), atol=1e-9)


@pytest.mark.thorough
def test_loops_stay_closed() -> None:
    model = ht.library.four_bars(1).derive()
    closed, _ = model.assemble()
    turned, _ = model.assemble(closed + np.array([0.4, 0.0, 0.0]), fixed=("crank0",))
    target = model.pose("world", "coupler0", turned)
    found = model.inverse_kinematics({"coupler0": target}, closed)
    assert found.reached
    assert np.abs(model.constraints(found.q)).max() < 1e-9
    away = model.inverse_kinematics({"coupler0": target[:3, 3] + [0.5, 0.0, 0.0]}, closed)
    assert away.outcome == "unreachable"
    assert np.abs(model.constraints(away.q)).max() < 1e-9


@pytest.mark.thorough
def test_a_free_base_stands_on_its_feet_below_its_centre_of_mass() -> None:
    system = ht.System(name="biped")
    system.body("hull", joint=ht.Free(), inertia=ht.Inertia(5.0, moment_at_com=(0.1, 0.1, 0.1)))
    for side, y in (("left", 0.1), ("right", -0.1)):
        hip, knee = ht.Revolute("y", limits=(-1.5, 1.5)), ht.Revolute("y", limits=(0.0, 2.5))
        system.body(
            f"{side} thigh", parent="hull", at=(0, y, -0.1), joint=hip, inertia=ht.Inertia(1.0, com=(0, 0, -0.2))
        )
        system.body(
            f"{side} shank",
            parent=f"{side} thigh",
            at=(0, 0, -0.4),
            joint=knee,
            inertia=ht.Inertia(0.5, com=(0, 0, -0.2)),
        )
        system.frame(f"{side} foot", f"{side} shank", at=(0, 0, -0.4))
    model = system.derive()
    feet = {"left foot": (0.1, 0.1, 0.0), "right foot": (-0.1, -0.1, 0.0)}
    tasks = [ht.CenterOfMassTask((0.0, 0.0, 0.0), weight=(1, 1, 0)), ht.DirectionTask("hull", (0, 0, 1))]
    found = model.inverse_kinematics(feet, tasks=tasks)
    assert found.reached, found.report()
    np.testing.assert_allclose(model.center_of_mass(found.q)[:2], 0.0, atol=1e-9)
    for foot, place in feet.items():
        np.testing.assert_allclose(model.pose("world", foot, found.q)[:3, 3], place, atol=1e-9)
    np.testing.assert_allclose(model.pose("world", "hull", found.q)[:3, 2], [0, 0, 1], atol=1e-8)


@pytest.mark.thorough
def test_parameters_and_followers_count() -> None:
    system = ht.System(name="gripper")
    length = system.parameter("length", 1.0)
    system.body("arm", joint=ht.Revolute("z"), inertia=ht.Inertia(1.0, com=(0.5, 0, 0)))
    system.body("slide", parent="arm", at=(length, 0.0, 0.0), joint=ht.Prismatic("x"), inertia=ht.Inertia(0.1))
    follower = ht.Coupled(ht.Prismatic("x"), "slide", ratio=-2.0, limits=(-0.3, 0.0))
    system.body("other", parent="arm", joint=follower, inertia=ht.Inertia(0.1))
    model = system.derive()
    lengths = np.array([0.9, 1.0, 1.1])
    found = model.inverse_kinematics({"slide": (0.0, 1.1, 0.0)}, parameters={"length": lengths})
    assert found.reached.tolist() == [False, True, True]  # the follower lets the slide go from 0 to 0.15
    assert found.outcome.tolist() == ["limits", "reached", "reached"]
    np.testing.assert_allclose(found.q[1:, 1], [0.1, 0.0], atol=1e-9)


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda m: m.inverse_kinematics({"tol": np.eye(4)}), UnknownNameError, "Did you mean 'tool'"),
        (lambda m: m.inverse_kinematics({"tool": 2 * np.eye(4)}), ModelError, "is not a pose"),
        (lambda m: m.inverse_kinematics({"tool": np.eye(3)[:2, :2]}), ShapeError, "pose .* or a point"),
        (lambda m: m.inverse_kinematics(), ModelError, "needs a target"),
        (lambda m: m.inverse_kinematics({"tool": (np.nan, 0, 0)}), ShapeError, "finite"),
        (lambda m: m.inverse_kinematics({"tool": (0, 0, 1)}, limits={"lnk1": (0, 1)}), UnknownNameError, "link1"),
        (lambda m: m.inverse_kinematics({"tool": (0, 0, 1)}, limits={"link1": (1, 0)}), ModelError, "empty"),
        (lambda m: m.inverse_kinematics({"tool": (0, 0, 1)}, q0=np.zeros(4)), ShapeError, "6"),
        (lambda m: ht.PoseTask("tool", np.eye(4), weight=-1.0), ModelError, "not negative"),
        (lambda m: ht.PoseTask("tool", np.eye(4), weight=(1, 2)), ModelError, "6"),
        (lambda m: ht.PositionTask("tool", (0, 0, 1), priority=0), ModelError, "1 or more"),
    ],
)
def test_mistakes(call, error, text) -> None:
    with pytest.raises(error, match=text):
        call(ARM)


def random_robot(rng: np.random.Generator, count: int, is_free: bool) -> ht.System:
    """Hinges, slides and balls with random axes and places, on a free base or on the world."""
    system, parent = ht.System(name=f"random {count}"), "world"
    if is_free:
        system.body("base", joint=ht.Free(), inertia=ht.Inertia(3.0, moment_at_com=(0.1, 0.1, 0.1)))
        parent = "base"
    for k in range(count):
        low, high = -rng.uniform(0.5, 3.0), rng.uniform(0.5, 3.0)
        joints = (
            ht.Revolute(rng.standard_normal(3), limits=(low, high)),
            ht.Prismatic(rng.standard_normal(3), limits=(0.2 * low, 0.2 * high)),
            ht.Spherical(),
        )
        at = se3.pose(so3.random(rng), 0.3 * rng.standard_normal(3))
        joint = joints[rng.choice(3, p=(0.6, 0.2, 0.2))]
        system.body(
            f"b{k}", parent=parent, at=at, joint=joint, inertia=ht.Inertia(1.0, com=0.1 * rng.standard_normal(3))
        )
        parent = f"b{k}"
    system.frame("tool", parent, at=0.2 * rng.standard_normal(3))
    return system


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_random_robots_against_bounded_least_squares(seed) -> None:
    rng = np.random.default_rng(seed)
    model = random_robot(rng, int(rng.integers(3, 7)), is_free=seed == 4).derive()
    lower, upper = np.full(model.nv, -np.inf), np.full(model.nv, np.inf)
    place = {}
    for name, own in model.description.limits.items():
        place[name] = model.coordinates.q_slice(name).start, model.coordinates.v_slice(name).start
        lower[place[name][1]], upper[place[name][1]] = own.lower, own.upper
    q = model.random(rng, 40)
    for k, i in place.values():
        q[:, k] = rng.uniform(lower[i], upper[i], 40)
    poses = model.pose("world", "tool", q)
    found = model.inverse_kinematics({"tool": poses})
    assert found.reached.all(), found.report()
    np.testing.assert_allclose(model.pose("world", "tool", found.q), poses, atol=1e-8)
    far = poses[:3].copy()
    far[:, :3, 3] += 1.5 * rng.standard_normal((3, 3))
    nearest = model.inverse_kinematics({"tool": far})

    def rest(x: np.ndarray, base: np.ndarray, target: np.ndarray) -> np.ndarray:
        G = model.pose("world", "tool", model.integrate(base, x, 1.0))
        return np.concatenate([G[:3, 3] - target[:3, 3], so3.log(target[:3, :3].T @ G[:3, :3])])

    for target, own in zip(far, nearest.q, strict=True):
        best = np.inf
        for base in (own, *q[:10]):
            low, high = lower.copy(), upper.copy()
            for k, i in place.values():
                low[i], high[i] = lower[i] - base[k] - 1e-12, upper[i] - base[k] + 1e-12
            options = {"xtol": 1e-12, "ftol": 1e-12, "gtol": 1e-12}
            best = min(
                best, least_squares(rest, np.zeros(model.nv), bounds=(low, high), args=(base, target), **options).cost
            )
        assert 0.5 * np.sum(rest(np.zeros(model.nv), own, target) ** 2) <= best * (1 + 1e-8) + 1e-16


def test_message_of_a_matrix_that_is_not_a_pose() -> None:
    with pytest.raises(ModelError, match="^pose of 'tool' is not a pose"):
        ht.PoseTask("tool", np.ones((4, 4)))
