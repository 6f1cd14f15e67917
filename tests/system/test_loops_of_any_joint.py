"""Any joint closes a loop; loops hold only the way round that was meant."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from systems import all_joints

import heavytop as ht
from heavytop.errors import ConfigurationError, ModelError
from heavytop.geometry import se3, so3
from heavytop.system.joints import Joint

JOINTS = all_joints(np.random.default_rng(0))
CLOSING = [name for name, joint in JOINTS.items() if joint.coordinates.nv < 6]


class Helical(Joint):
    """The joint of somebody else: a screw, given by nothing but its pose."""

    def __init__(self, pitch: float) -> None:
        self.pitch = pitch
        self._coordinates = ht.coordinates.Angle()

    @property
    def coordinates(self) -> ht.coordinates.Coordinates:
        return self._coordinates

    def pose(self, q):
        return se3.pose(so3.rotation_about("z", q[0]), ht.vector(0.0, 0.0, self.pitch * q[0]))


def derived(joint: Joint) -> Joint:
    """The same joint without own equations."""
    bare = type(f"Bare{type(joint).__name__}", (type(joint),), {"closure": Joint.closure})
    copied = object.__new__(bare)
    copied.__dict__.update(joint.__dict__)
    return copied


def screw_press(pitch: float, closing: Joint | None = None) -> ht.System:
    """A ram that slides along z and a spindle that turns about z, joined by a screw."""
    system = ht.System(gravity=(0, 0, -9.81), name="press")
    system.body("ram", joint=ht.Prismatic("z"), inertia=ht.Inertia(3.0, moment_at_com=(0.1, 0.1, 0.1)))
    system.body("spindle", joint=ht.Revolute("z"), inertia=ht.Inertia(1.0, moment_at_com=(0.1, 0.1, 0.02)))
    system.loop("spindle", "ram", closing or Helical(pitch), name="thread")
    return system


def test_a_screw_closes_a_loop() -> None:
    """m z'' and I theta'' with z = -pitch theta: the ram cannot turn, so the spindle turns the other way."""
    pitch = 0.05
    model = screw_press(pitch).derive(native=False)
    assert model.degrees_of_freedom(model.neutral()) == 1
    q, v = model.assemble([0.02, 0.0], [0.0, 1.0], fixed=("spindle",))
    assert_allclose(v, [-pitch, 1.0], atol=1e-12)
    a = model.acceleration(q, v)
    assert_allclose(a[0], -pitch * a[1], atol=1e-12)
    assert_allclose(a[1], 3.0 * 9.81 * pitch / (0.02 + 3.0 * pitch**2), rtol=1e-12)


@pytest.mark.thorough
def test_a_screw_keeps_its_thread_in_a_run() -> None:
    model = screw_press(0.05).derive()
    run = ht.simulate(model, model.assemble(), until=0.3, step=1e-3, progress=False)
    assert abs(run.q[-1, 1]) > 0.5
    assert_allclose(run.q[:, 0], -0.05 * run.q[:, 1], atol=1e-9)
    assert run.invariants["energy"].relative < 1e-8


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.thorough if name.startswith("custom") else ()) for name in CLOSING]
)
def test_derived_equations_have_the_rank_of_the_joint(name: str) -> None:
    """On poses of the joint phi vanishes, and exactly the motions that it allows keep it zero."""
    joint = JOINTS[name]
    bare = derived(joint)
    block = joint.coordinates
    slope = lambda j, G, xi: (j(G @ se3.exp(1e-5 * xi)) - j(G @ se3.exp(-1e-5 * xi))) / 2e-5  # noqa: E731
    rng = np.random.default_rng(1)
    for j in (joint, bare):
        phi = numeric_closure(j)
        for _ in range(2):
            q = block.retract(block.neutral(), rng.uniform(-0.8, 0.8, block.nv))
            G = joint.pose(q) if block.nq else np.eye(4)
            assert_allclose(phi(G), 0, atol=1e-8)
            H = np.stack([slope(phi, G, xi) for xi in np.eye(6)], axis=1)
            S = np.asarray(joint.jacobian(q)) if block.nq else np.zeros((6, 0))
            assert_allclose(H @ S, 0, atol=1e-5)
            assert np.linalg.matrix_rank(H, tol=1e-3) == 6 - block.nv


def numeric_closure(joint: Joint):
    from heavytop.compile import trace

    traced = trace(lambda G: joint.closure(G), {"G": (4, 4)}, name="closure")
    return lambda G: traced(G)[0]


def test_joints_that_cannot_close_a_loop() -> None:
    class Wrong(Helical):
        def closure(self, G):
            return se3.position(G)

    with pytest.raises(ModelError, match=r"Wrong.*closure\(G\)"):
        screw_press(0.05, Wrong(0.05))
    with pytest.raises(ModelError, match="Free.*loop"):
        screw_press(0.05, ht.Free())
    with pytest.raises(ModelError, match="Coupled.*loop"):
        screw_press(0.05, ht.Coupled(ht.Revolute("z"), "spindle"))


@pytest.mark.parametrize(
    ("joint", "turn"),
    [
        (ht.Fixed(), (np.pi, 0, 0)),
        (ht.Revolute("z"), (np.pi, 0, 0)),
        (ht.Prismatic("z"), (np.pi, 0, 0)),
        (ht.Planar(), (0, np.pi, 0)),
        (ht.Cylindrical("z"), (0, np.pi, 0)),
    ],
)
def test_a_loop_that_closes_upside_down(joint: Joint, turn) -> None:
    system = ht.System(name="weld")
    system.body("b", joint=ht.Spherical("matrix"), inertia=ht.Inertia(1.0, moment_at_com=(1.0, 1.0, 1.0)))
    system.loop("world", "b", joint, name="hook")
    model = system.derive(native=False)
    flipped = model.coordinates.retract(model.neutral(), np.array(turn, dtype=float))
    assert_allclose(model.constraint_residuals(flipped, np.zeros(3))[0], 0, atol=1e-12)
    for ask in (
        lambda: model.acceleration(flipped, np.zeros(3)),
        lambda: model.assemble(flipped),
        lambda: ht.simulate(model, (flipped, np.zeros(3)), until=0.1, step=0.01, progress=False),
    ):
        with pytest.raises(ConfigurationError, match="'hook' of 'weld'"):
            ask()
    assert np.all(np.isfinite(model.acceleration(model.neutral(), np.zeros(3))))


@pytest.mark.parametrize("name", ["revolute-angle", "prismatic", "universal", "cylindrical", "planar", "fixed"])
def test_the_branch_excludes_all_poses_that_the_joint_cannot_reach(name: str) -> None:
    """Wherever the equations vanish, found from random poses, the branch is positive if and only if the joint can stand there."""
    from scipy.optimize import least_squares

    from heavytop.compile import trace

    joint, rng = JOINTS[name], np.random.default_rng(3)
    block, phi = joint.coordinates, numeric_closure(joint)
    branch = trace(lambda G: {"value": joint.closure_branch(G)}, {"G": (4, 4)}, name="branch")
    flipped = 0
    for G in se3.random(rng, (5,)):
        found = least_squares(lambda x, G=G: phi(G @ se3.exp(x)), np.zeros(6), xtol=1e-15, ftol=1e-15, gtol=1e-15)
        assert np.max(np.abs(found.fun)) < 1e-9
        H = G @ se3.exp(found.x)

        def miss(x, q, H=H):
            return (joint.pose(block.retract(q, x)) - H).ravel()

        starts = block.random(rng, (6,)) if block.nq else []
        fits = [np.max(np.abs(least_squares(miss, np.zeros(block.nv), args=(q,)).fun)) for q in starts]
        reached = min([*fits, np.inf if block.nq else np.max(np.abs(H - np.eye(4)))]) < 1e-5
        assert reached == bool(np.all(branch(H)[0] >= 0.0))
        flipped += not reached
    assert flipped or name == "universal"
