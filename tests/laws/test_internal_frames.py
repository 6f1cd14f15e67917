"""Internal frames: the same accelerations with fewer operations, whatever the joints, placements and forces."""

from __future__ import annotations

import numpy as np
import pytest

import heavytop as ht
from heavytop.errors import ModelError
from heavytop.geometry import se3, so3
from heavytop.system.dynamics.solve import scalars
from heavytop.system.kinematics.internal_frames import constant_stages, internal_tree, regrouped, zxz
from heavytop.system.kinematics.spatial_transforms import Slide, Turn, Whole, to_parent, wrench_to_parent


def random_inertia(rng: np.random.Generator) -> ht.Inertia:
    points = rng.standard_normal((6, 3)) * 0.2
    return ht.Inertia.from_particles(rng.uniform(0.1, 0.5, 6), points + rng.standard_normal(3) * 0.1)


def placement(rng: np.random.Generator) -> np.ndarray:
    """Oblique, aligned, shifted along one axis only, or a hair off aligned."""
    kind = rng.integers(5)
    r = rng.standard_normal(3) * 0.4
    if kind == 0:
        return se3.pose(so3.random(rng), r)
    if kind == 1:
        return se3.pose(np.eye(3), r * np.eye(3)[rng.integers(3)])
    turns = se3.pose(so3.exp(np.eye(3)[rng.integers(3)] * rng.choice([0.5, 1.0, -0.5]) * np.pi).round(12), r)
    tilt = 10.0 ** rng.uniform(-14, -4) if kind == 2 else 0.0
    return turns @ se3.pose(so3.exp(np.eye(3)[rng.integers(3)] * tilt), np.zeros(3))


JOINTS = (
    lambda rng: ht.Revolute("xyz"[rng.integers(3)]),
    lambda rng: ht.Revolute(rng.standard_normal(3)),
    lambda rng: ht.Revolute("-y", coordinates="circle"),
    lambda rng: ht.Revolute(rng.standard_normal(3), coordinates="circle"),
    lambda rng: ht.Prismatic("xyz"[rng.integers(3)]),
    lambda rng: ht.Prismatic(rng.standard_normal(3)),
    lambda rng: ht.Spherical("quaternion"),
    lambda rng: ht.Spherical("matrix", "absolute"),
    lambda rng: ht.Universal(("x", "z")),
    lambda rng: ht.Planar(),
    lambda rng: ht.Cylindrical(rng.standard_normal(3)),
    lambda rng: ht.Free("quaternion", "mixed"),
    lambda rng: ht.Fixed(),
)


def random_tree(seed: int, bodies: int = 7, forces: bool = True) -> ht.System:
    rng = np.random.default_rng(seed)
    system, hinges, names = ht.System(gravity=rng.standard_normal(3) * 5), [], ["world"]
    for k in range(bodies):
        parent, name = names[rng.integers(max(0, k - 2), k + 1)], f"b{k}"
        joint = ht.Free() if k == 0 and seed % 3 == 0 else JOINTS[rng.integers(len(JOINTS))](rng)
        if hinges and rng.random() < 0.2:
            source, own = hinges[rng.integers(len(hinges))], ht.Revolute(rng.standard_normal(3))
            joint = ht.Coupled(own, source, ratio=float(rng.uniform(-2, 2)), offset=0.3)
        if isinstance(joint, ht.Revolute | ht.Prismatic) and joint.coordinates.nq == 1:
            hinges.append(name)
            if rng.random() < 0.3:
                system.armature(name, 0.05, gear_ratio=3.0)
            system.input(f"motor_{name}", ht.JointForce(name))
        system.body(name, parent=parent, at=placement(rng), joint=joint, inertia=random_inertia(rng))
        names.append(name)
        system.frame(f"tool_{name}", name, placement(rng))
    if forces:
        system.strut("world", f"tool_{names[-1]}", at_a=(0, 0, 2), stiffness=20.0, rest_length=0.5, damping=0.3)
        system.damper(names[1], names[-1], ht.Damping(0.2, moment_at_center=(0.1, 0.1, 0.1)))
        system.input("push", ht.Wrench(f"tool_{names[-2]}", force=(1, 2, 3), moment=(0.1, 0, 0), frame="world"))
    return system


def accelerations(model: ht.Model, name: str, count: int = 3) -> np.ndarray:
    rng = np.random.default_rng(1)
    q, v, u = (
        model.random(rng, (count,)),
        rng.standard_normal((count, model.nv)),
        rng.standard_normal((count, model.nu)),
    )
    return model.expressions.traced(name).interpret(q, v, u, model.parameter_vector())[0]


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(k, marks=pytest.mark.slow) for k in range(4, 60))])
def test_accelerations_are_those_of_the_explicit_equations(seed: int) -> None:
    model = random_tree(seed).derive(native=False)
    explicit, internal = (accelerations(model, f"{kind}_acceleration") for kind in ("explicit", "internal"))
    M = model.mass_matrix(model.random(np.random.default_rng(1), (3,)))
    bound = 1e-13 * np.linalg.cond(M) + 1e-12
    assert np.all(np.max(np.abs(internal - explicit), axis=1) <= bound * np.max(np.abs(explicit), axis=1))


def test_accelerations_in_the_frames_of_the_user_are_the_same_to_rounding() -> None:
    system = oblique_chain(12)
    model = system.derive(native=False)
    ours, theirs = (accelerations(model, f"{kind}_acceleration") for kind in ("internal", "recursive"))
    assert np.max(np.abs(ours - theirs)) < 1e-13 * np.max(np.abs(theirs))


def oblique_chain(n: int) -> ht.System:
    rng, system = np.random.default_rng(3), ht.System()
    for k in range(n):
        parent, at = "world" if k == 0 else f"b{k - 1}", se3.pose(so3.random(rng), rng.standard_normal(3) * 0.3)
        system.body(
            f"b{k}", parent=parent, at=at, joint=ht.Revolute(rng.standard_normal(3)), inertia=random_inertia(rng)
        )
    return system


@pytest.mark.thorough
def test_oblique_chain_takes_half_the_operations() -> None:
    model = oblique_chain(12).derive(native=False)
    internal = model.traced("internal_acceleration").instructions
    assert internal < 0.52 * model.traced("recursive_acceleration").instructions
    assert model.traced("acceleration").instructions == internal
    assert internal < 12 * 400


SLOW = [pytest.param(kind, marks=pytest.mark.slow) for kind in ("below", "beside", "several")]


def couplings(kind: str) -> ht.System:
    """Joints that follow others below, above, beside them, and two such groups that are interleaved."""
    rng, system = np.random.default_rng(5), ht.System()
    follow = {
        "below": {"b2": "b1"},
        "above": {"b1": "b3"},
        "beside": {"c1": "b1", "c2": "b2"},
        "world": {"c0": "b0"},
        "interleaved": {"b2": "b0", "c1": "b1", "c2": "b0"},
        "several": {"b1": "b0", "b2": "b0", "b3": "b0", "c1": "b0"},
    }[kind]
    for branch in "bc":
        for k in range(4):
            name = f"{branch}{k}"
            joint = ht.Prismatic(rng.standard_normal(3)) if k == 3 else ht.Revolute(rng.standard_normal(3))
            if name in follow:
                joint = ht.Coupled(joint, follow[name], ratio=-0.7, offset=0.2)
            parent = f"{branch}{k - 1}" if k else "world"
            parent = "b0" if name == "c1" and kind != "world" else parent
            system.body(name, parent=parent, at=placement(rng), joint=joint, inertia=random_inertia(rng))
            system.input(f"motor_{name}", ht.JointForce(name))
    system.armature("b0", 0.1)
    return system


@pytest.mark.parametrize("kind", ["above", "interleaved", "world", *SLOW])
def test_joints_that_follow_others_anywhere_in_the_tree(kind: str) -> None:
    model = couplings(kind).derive(native=False)
    explicit, internal = (accelerations(model, f"{k}_acceleration") for k in ("explicit", "internal"))
    assert np.max(np.abs(internal - explicit)) < 1e-11 * np.max(np.abs(explicit))
    rng = np.random.default_rng(2)
    q, v, a, p = (
        model.random(rng),
        rng.standard_normal(model.nv),
        rng.standard_normal(model.nv),
        model.parameter_vector(),
    )
    forces = model.mass_matrix(q) @ a + model.bias(q, v) + model.gravity_force(q)
    (recursive,) = model.traced("inverse_dynamics").interpret(q, v, a, p)
    assert np.max(np.abs(recursive - forces)) < 1e-11 * np.max(np.abs(forces))


def test_parameters_may_stand_anywhere() -> None:
    rng, system = np.random.default_rng(7), ht.System()
    mass, length, tilt = (system.parameter(*item) for item in (("mass", 1.5), ("length", 0.4), ("tilt", 0.7)))
    heavy = ht.Inertia(mass, com=(0.1, 0.2, -0.1), moment_at_com=(0.1 * mass, 0.2, 0.15))
    system.body("a", at=placement(rng), joint=ht.Revolute(rng.standard_normal(3)), inertia=random_inertia(rng))
    system.body("b", parent="a", at=(length, 0, 0.1), joint=ht.Revolute("y"), inertia=heavy)
    system.body("c", parent="b", at=placement(rng), joint=ht.Revolute((1, 2, 0.5)), inertia=heavy)
    turned = se3.pose(so3.exp(np.array([1.0, 0.0, 0.0]) * tilt), np.zeros(3))
    system.frame("mount", "c", turned)
    system.body("d", parent="mount", at=placement(rng), joint=ht.Revolute("x"), inertia=random_inertia(rng))
    model = system.derive(native=False)
    q, v = model.random(rng, (4,)), rng.standard_normal((4, 4))
    values = model.parameter_vector({"mass": 2.5, "length": 0.7, "tilt": -0.4})
    explicit, internal = (
        model.traced(f"{kind}_acceleration").interpret(q, v, np.zeros(0), values)[0]
        for kind in ("explicit", "internal")
    )
    assert np.max(np.abs(internal - explicit)) < 1e-12 * np.max(np.abs(explicit))


def test_frames_against_the_direction_of_a_joint() -> None:
    rng, system = np.random.default_rng(11), ht.System()
    for name in ("a", "b", "c"):
        system.body(name, inertia=random_inertia(rng))
    system.connect("a", "world", ht.Revolute((1, 2, 3)), at=placement(rng), name="first")
    system.connect("b", "a", ht.Prismatic((1, 0, 1)), at=placement(rng), name="second")
    system.connect("b", "c", ht.Revolute("z", coordinates="circle"), at=placement(rng), name="third")
    model = system.derive(native=False)
    explicit, internal = (accelerations(model, f"{kind}_acceleration") for kind in ("explicit", "internal"))
    assert np.max(np.abs(internal - explicit)) < 1e-12 * np.max(np.abs(explicit))


def test_stages_make_up_the_placement() -> None:
    for seed in range(60):
        at = placement(np.random.default_rng(seed))
        made = np.eye(4)
        for stage in constant_stages(at):
            made = pose_of(stage) @ made
        assert np.max(np.abs(made - at)) < 4e-15
        assert all(abs(c * c + s * s - 1) < 1e-15 for c, s in zxz(at[:3, :3]))


def pose_of(stage: object) -> np.ndarray:
    if isinstance(stage, Slide):
        return se3.pose(np.eye(3), stage.distance * np.eye(3)[stage.axis])
    assert isinstance(stage, Turn)
    return se3.pose(so3.rotation_from_circle(np.eye(3)[stage.axis], stage.c, stage.s), np.zeros(3))


@pytest.mark.parametrize("axis", range(3))
@pytest.mark.parametrize("stage", ["turn", "quarter", "half", "slide", "whole"])
def test_stages_move_inertias_and_wrenches_as_the_adjoint_does(stage: str, axis: int) -> None:
    rng = np.random.default_rng(axis)
    angle = {"turn": 0.7, "quarter": np.pi / 2, "half": np.pi}.get(stage, 0.0)
    made = {"slide": Slide(axis, 0.3)}.get(stage, Turn(axis, round(np.cos(angle), 15) + 0.0, round(np.sin(angle), 15)))
    pose = pose_of(made)
    if stage == "whole":
        pose = se3.pose(so3.random(rng), rng.standard_normal(3))
        made = Whole(scalars(pose[:3, :3]), scalars(pose[:3, 3]))
    X = rng.standard_normal((6, 6))
    M, w = X @ X.T, rng.standard_normal(6)
    A, B, D = to_parent([made], (scalars(M[:3, :3]), scalars(M[:3, 3:]), scalars(M[3:, 3:])))
    back = se3.Ad_inverse(pose)
    assert np.max(np.abs(np.block([[A, B], [B.T, D]]).astype(float) - back.T @ M @ back)) < 1e-12
    moved = np.concatenate(wrench_to_parent([made], (scalars(w[:3]), scalars(w[3:])))).astype(float)
    assert np.max(np.abs(moved - back.T @ w)) < 1e-13
    linear, angular = made.acceleration((scalars(w[:3]), scalars(w[3:])))
    assert np.max(np.abs(np.concatenate([linear, angular]).astype(float) - back @ w)) < 1e-13


def test_a_joint_without_mass_is_named() -> None:
    system = oblique_chain(31)
    system.body("tip", parent="b30", joint=ht.Revolute("x"))
    with pytest.raises(ModelError, match=r"'tip(\.rate)?'.* moves no mass"):
        system.derive(native=False).traced("acceleration")


def test_regrouped_bodies_have_few_moments() -> None:
    description = oblique_chain(4).describe()
    tree = internal_tree(description, description.graph.spanning_tree())
    for moments in regrouped(tree.carriers).values():
        assert (moments.mass, moments.first[2], moments.second[1, 1]) == (0, 0, 0)
