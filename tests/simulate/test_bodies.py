"""The bodies of documents 001 and 002 under forces, springs, inputs and constraints."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from heavytop_mechanics import ScalablePose
from heavytop_mechanics.bodies import PointForce, PointSpring, scalable_body, unified_body
from heavytop_mechanics.scalable_body import Loads

import heavytop as ht
from heavytop.coordinates import UnifiedPose
from heavytop.errors import ConfigurationError, HeavytopError, ModelError, ShapeError, SimulationError
from heavytop.simulate import Ending, UserDynamics

MASS, THETA = 1.5, np.diag([0.3, 0.4, 0.5])
GRAVITY = (0.0, 0.0, -9.81)
SPRING = PointSpring((0.1, 0.2, 0.0), (0.0, 0.0, 1.0), stiffness=30.0, rest_length=0.3, damping=0.4)
SOFT = PointSpring((-0.2, 0.0, 0.1), (0.5, 0.0, 1.0), stiffness=10.0, damping=0.2)
PUSH = PointForce((0.3, 0.0, 0.0), (0.0, 1.0, 2.0), axes="body")


def reference_system(attitude: str = "matrix") -> ht.System:
    """The same rigid body as a system."""
    system = ht.System(gravity=GRAVITY, name="stone")
    system.body("stone", joint=ht.Free(attitude), inertia=ht.Inertia(MASS, moment_at_com=THETA))
    system.strut("world", "stone", at_a=SPRING.anchor, at_b=SPRING.point, stiffness=30.0, rest_length=0.3, damping=0.4)
    soft = ht.Stiffness(10.0, SOFT.point)
    system.spring("world", "stone", soft, rest=SOFT.anchor - SOFT.point)
    system.input("push", ht.Wrench("stone", PUSH.force, np.cross(PUSH.point, PUSH.force)))
    return system


@cache
def reference_run() -> ht.Run:
    system = reference_system()

    # a damper against the velocity of the point in the world, which ht.Damping against the world is not for a moving point
    def drag(q: Any, v: Any) -> Any:
        R = np.reshape(q[3:12], (3, 3)).T
        speed = v[:3] + np.cross(v[3:], SOFT.point)
        return -0.2 * np.concatenate([speed, np.cross(SOFT.point, speed)], axis=-1) + 0 * R[0, 0]

    system.force(drag)
    model = system.derive()
    return ht.simulate(model, (model.neutral(), [0.3, -0.2, 0.5, 1.0, 2.0, -1.0]), 1.0, 2e-3, "rkmk8", inputs=[1.5])


OPTIONS: dict[str, Any] = {"gravity": GRAVITY, "springs": [SPRING, SOFT], "inputs": {"push": PUSH}}


@pytest.mark.parametrize("kind", ["hexahedral", pytest.param("tetrahedral", marks=pytest.mark.thorough)])
@pytest.mark.thorough
def test_unified_body_under_forces_moves_as_any_body(kind: str) -> None:
    pose, exact = UnifiedPose(kind), reference_run()
    body = unified_body(pose, MASS, THETA, **OPTIONS)
    start = pose.neutral(), pose.unified_velocity(exact.v[0])
    run = ht.simulate(body, start, 1.0, 2e-3, "rkmk8", inputs=[1.5])
    np.testing.assert_allclose(run.q, exact.q, atol=1e-10)
    np.testing.assert_allclose(pose.body_velocity(run.v), exact.v, atol=1e-9)
    assert run.invariants["energy"].relative < 1e-10
    np.testing.assert_allclose(run.potential_energy - run.potential_energy[0],
                               exact.potential_energy - exact.potential_energy[0], atol=1e-9)  # fmt: skip


@pytest.mark.parametrize(
    ("integrator", "step", "tolerance"),
    [("projected_rk4", 1e-3, 1e-8), pytest.param("energy_momentum", 1e-3, 1e-4, marks=pytest.mark.thorough)],
)
@pytest.mark.thorough
def test_rigid_scalable_body_under_forces_moves_as_any_body(integrator: str, step: float, tolerance: float) -> None:
    exact = reference_run()
    body = scalable_body(MASS, THETA, rigid=True, **OPTIONS)
    v = exact.v[0]
    start = ScalablePose().neutral(), np.concatenate([v[:3], [0.0], v[3:]])
    run = ht.simulate(body, start, 1.0, step, integrator, inputs=[1.5])
    scale, R = ScalablePose().scale_and_rotation(run.q)
    np.testing.assert_allclose(run.q[::2, :3], exact.q[:, :3], atol=tolerance)
    np.testing.assert_allclose(np.swapaxes(R, 1, 2).reshape(-1, 9)[::2], exact.q[:, 3:], atol=tolerance)
    assert np.max(np.abs(scale - 1)) < 1e-12
    assert np.max(np.abs(run.v[:, 3])) < 1e-12


@pytest.mark.parametrize("item", [PointForce((0.1, 0.2, 0.3), (1.0, 2.0, 3.0)), Loads(np.ones(3), 0.5, np.ones(3))])
def test_inputs_of_a_scalable_body_are_its_loads(item: Any) -> None:
    """A force at a point also stretches the body: virtual power of eq. 75."""
    q = ScalablePose().random(3)
    v = np.arange(7.0)
    body = scalable_body(MASS, THETA, inputs={"u": item})
    a = body.motion().interpret(q, v, [2.0], np.zeros(0))[1] - body.motion().interpret(q, v, [0.0], np.zeros(0))[1]
    if isinstance(item, Loads):
        loads = item
    else:
        R = ScalablePose().scale_and_rotation(q)[1]
        local = R.T @ item.force
        loads = Loads(item.force, item.point @ local, np.cross(item.point, local))
    mass = np.diag([MASS] * 3 + [0.6, 0.3, 0.4, 0.5])
    np.testing.assert_allclose(mass @ a, 2.0 * loads.vector, atol=1e-12)


# --- the DAE of document 001 ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("v", 3, 1.0), "start velocity v.*violates its constraints by 1"),
        (("q", 3, 2.0), "start configuration q.*by 3"),
    ],
)
def test_inconsistent_starts_are_refused(change: tuple[str, int, float], message: str) -> None:
    start = {"q": ScalablePose().neutral(), "v": np.zeros(7)}
    start[change[0]][change[1]] = change[2]
    with pytest.raises(ConfigurationError, match=message):
        ht.simulate(scalable_body(MASS, THETA, rigid=True), (start["q"], start["v"]), 1.0, 0.1, "projected_rk4")


@pytest.mark.parametrize("integrator", ["projected_rk4", "energy_momentum"])
def test_the_constraint_holds_at_large_steps(integrator: str) -> None:
    body = scalable_body(MASS, THETA, rigid=True)
    run = ht.simulate(body, (ScalablePose().neutral(), [1.0, 0, 0, 0, 1.0, 2.0, -1.0]), 100.0, 0.1, integrator)
    assert run.outcome.ok
    assert run.invariants["loops"].drift < 1e-13
    assert run.invariants["velocity constraints"].drift < 1e-13
    if integrator == "energy_momentum":
        assert run.invariants["energy"].relative < 1e-14
    np.testing.assert_allclose(
        run.channels["lambda"], -np.einsum("ti,ij,tj->t", run.v[:, 4:], THETA, run.v[:, 4:]), rtol=1e-9
    )


@pytest.mark.parametrize("integrator", [pytest.param("projected_rk4", marks=pytest.mark.thorough), "energy_momentum"])
@pytest.mark.thorough
def test_further_bilateral_constraints(integrator: str) -> None:
    """A heavy top as a rigid body whose point stays in place, against the spherical joint."""
    point = np.array([0.0, 0.0, -0.4])
    pose = ScalablePose()
    body = scalable_body(
        MASS, THETA, rigid=True, gravity=GRAVITY, constraints={"tip": lambda q: pose.position(q, point)}
    )
    omega = np.array([0.5, 0.2, 12.0])
    start = np.array([0.0, 0, 0.4, 1, 0, 0, 0]), np.concatenate([np.cross(omega, -point), [0.0], omega])
    run = ht.simulate(body, start, 1.0, 1e-3, integrator)
    system = ht.System(name="top")
    system.body("top", joint=ht.Spherical(), inertia=ht.Inertia(MASS, -point, THETA))
    model = system.derive()
    exact = ht.simulate(model, (model.neutral(), omega), 1.0, 1e-3, "rkmk8")
    R = pose.scale_and_rotation(run.q)[1]
    np.testing.assert_allclose(np.swapaxes(R, 1, 2).reshape(-1, 9), exact.q, atol=1e-7 if "rk4" in integrator else 2e-4)
    assert run.invariants["loops"].drift < 1e-12
    assert run.invariants["velocity constraints"].drift < 1e-12
    assert run.invariants["energy"].relative < (1e-9 if "rk4" in integrator else 1e-13)
    # the force in the tip carries the weight and the acceleration of the mass centre
    np.testing.assert_allclose(run.channels["tip"][0], MASS * (_center_acceleration(model, exact) - GRAVITY), atol=1e-9)


def _center_acceleration(model: ht.Model, run: ht.Run) -> np.ndarray:
    a, omega, c = model.acceleration(run.q[0], run.v[0]), run.v[0], np.array([0.0, 0, 0.4])
    return np.cross(a, c) + np.cross(omega, np.cross(omega, c))


# --- collapse ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("integrator", "step"),
    [
        ("projected_rk4", 1e-3),
        pytest.param("projected_rk4", 0.07, marks=pytest.mark.thorough),
        pytest.param("energy_momentum", 1e-3, marks=pytest.mark.thorough),
        pytest.param("energy_momentum", 0.07, marks=pytest.mark.thorough),
    ],
)
def test_a_body_that_collapses_ends(integrator: str, step: float) -> None:
    body = scalable_body(MASS, THETA)
    run = ht.simulate(body, (ScalablePose().neutral(), [0.0, 0, 0, -1.0, 0, 0, 0]), 2.0, step, integrator)
    assert run.outcome.ending is Ending.ended
    assert not run.outcome.ok
    assert "the body collapses: its scale |A|^2 reaches zero" in str(run.outcome)
    assert run.outcome.time == pytest.approx(1.0, abs=1.5 * step)
    assert np.all(np.sum(run.q[:, 3:] ** 2, axis=1) > 0)


def test_a_spinning_body_does_not_collapse() -> None:
    body = scalable_body(MASS, THETA)
    run = ht.simulate(body, (ScalablePose().neutral(), [0.0, 0, 0, -1.0, 0, 0, 2.0]), 2.0, 1e-3, "projected_rk4")
    assert run.outcome.ending is Ending.finished


# --- wrong descriptions -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "kind", "message"),
    [
        (lambda: PointForce((0, 0), (0, 0, 1)), ShapeError, "point of a force"),
        (lambda: PointForce((0, 0, 0), (0, 0, np.nan)), ShapeError, "must be finite"),
        (lambda: PointForce((0, 0, 0), (0, 0, 1), axes="hull"), ModelError, "'world' or 'body'"),
        (lambda: PointSpring((0, 0, 0), (0, 0, 0), -1.0), ModelError, "stiffness of a spring"),
        (lambda: unified_body(UnifiedPose("hexahedral"), 1.0, [1, 1, 1], forces=[SPRING]), ModelError, "PointForce"),
        (
            lambda: unified_body(UnifiedPose("hexahedral"), 1.0, [1, 1, 1], inputs={"u": [1.0]}).motion(),
            ShapeError,
            "wrench",
        ),
        (lambda: scalable_body(1.0, np.eye(3), inputs={"u": [1.0]}).motion(), ModelError, "PointForce or Loads"),
        (
            lambda: scalable_body(1.0, np.eye(3), constraints={"g": lambda q: 1.0}).motion(),
            ModelError,
            "does not depend",
        ),
        (
            lambda: UserDynamics(ht.coordinates.Vector(1), lambda q, v: 0 * q, constraints={"g": lambda q: q[0]}),
            ModelError,
            "give kinetic=",
        ),
    ],
)
def test_wrong_descriptions(make: Any, kind: type[HeavytopError], message: str) -> None:
    with pytest.raises(kind, match=message):
        make()


# --- the scheme of Terze ----------------------------------------------------------------------------------------------------------


def box(attitude: str) -> ht.Model:
    system = ht.System(gravity=(0, 0, 0), name="box")
    system.body("box", joint=ht.Spherical(attitude), inertia=ht.Inertia(1.0, moment_at_com=(5.2988, 1.1775, 4.3568)))
    return system.derive()


@pytest.mark.thorough
def test_terze_has_the_velocities_and_the_order_of_rkmk4() -> None:
    model, other = box("quaternion"), box("matrix")
    start = [0.01, 0.0, 100.0]
    run = ht.simulate(model, (model.neutral(), start), 1.0, 1 / 640, "terze")
    same = ht.simulate(other, (other.neutral(), start), 1.0, 1 / 640, "rkmk4")
    np.testing.assert_allclose(run.v, same.v, atol=1e-5)  # no force depends on the attitude; rounding grows by 1e8
    assert np.max(np.abs(np.linalg.norm(run.q, axis=1) - 1)) < 1e-13
    start, exact = [1.0, -2.0, 3.0], None
    errors = []
    for n in (10000, 100, 200, 400):
        end = ht.simulate(model, (model.neutral(), start), 1.0, 1 / n, "terze", record_every=n).q[-1]
        exact = end if exact is None else exact
        errors.append(np.max(np.abs(end - exact)))
    np.testing.assert_allclose(np.log2(np.array(errors[1:-1]) / errors[2:]), 4.0, atol=0.15)


def test_terze_needs_quaternions() -> None:
    model = box("matrix")
    with pytest.raises(SimulationError, match="integrates unit quaternions, but 'box' has none"):
        ht.simulate(model, (model.neutral(), [1.0, 2.0, 3.0]), 1.0, 0.1, "terze")
