"""Random systems for tests: every joint inside a moving chain, and random trees with every kind of force element."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

import heavytop as ht
from heavytop.geometry import se3, so3
from heavytop.system.joints import Joint

ATTITUDES = ("matrix", "quaternion", "euler")


def random_inertia(rng: np.random.Generator) -> ht.Inertia:
    """Five particles of about 1 kg within about 0.3 m: any inertia, not aligned with the body axes."""
    return ht.Inertia.from_particles(rng.uniform(0.1, 0.4, 5), 0.3 * rng.standard_normal((5, 3)))


def random_damping(rng: np.random.Generator) -> ht.Damping:
    """Damping with offset centre."""
    return ht.Damping.from_particles(rng.uniform(0.05, 0.3, 5), 0.3 * rng.standard_normal((5, 3)))


def random_pose(rng: np.random.Generator) -> np.ndarray:
    """A pose with a position of about 0.3 m."""
    return se3.pose(so3.random(rng), 0.3 * rng.standard_normal(3))


def screw(q):
    """A screw of varying pitch about an oblique axis."""
    axis = np.array([2.0, -1.0, 2.0]) / 3.0
    return se3.pose(so3.rotation_about(axis, q[0]), (0.2 * q[0] + 0.1 * np.sin(q[0])) * axis)


def slider_on_turntable(q):
    """Two coordinates whose Jacobian depends on both: turn about z, then slide along a curve."""
    return se3.pose(so3.rotation_about("z", q[0]), ht.vector(np.cos(q[0]) * q[1], np.sin(q[0]) * q[1], 0.1 * q[1] ** 2))


@cache
def custom_joints() -> dict[str, Joint]:
    """The joints of users; each is verified when it is made."""
    return {
        "custom-screw": ht.Custom(ht.coordinates.Angle(), screw),
        "custom-slider": ht.Custom(ht.coordinates.Vector(2), slider_on_turntable),
    }


def all_joints(rng: np.random.Generator) -> dict[str, Joint]:
    """One of each joint and of each choice of its coordinates."""
    axis = lambda: rng.standard_normal(3)  # noqa: E731
    joints: dict[str, Joint] = {
        "revolute-angle": ht.Revolute(axis()),
        "revolute-circle": ht.Revolute(axis(), coordinates="circle"),
        "prismatic": ht.Prismatic(axis()),
        "universal": ht.Universal((axis(), axis())),
        "cylindrical": ht.Cylindrical(axis()),
        "planar": ht.Planar(),
        "fixed": ht.Fixed(),
        **custom_joints(),
    }
    for attitude in ATTITUDES:
        for frame in ("relative", "absolute"):
            joints[f"spherical-{attitude}-{frame}"] = ht.Spherical(attitude, frame)
        for velocity in ("body", "mixed", "unified"):
            joints[f"free-{attitude}-{velocity}"] = ht.Free(attitude, velocity)
    return joints


JOINTS = tuple(all_joints(np.random.default_rng(0)))
"""Names of all joints."""


def sandwich(joint: str) -> ht.System:
    """The joint between two moving bodies, with dampers, a spring, an input and a parameter."""
    rng = np.random.default_rng(JOINTS.index(joint))
    system = ht.System(gravity=(0.4, -0.3, -9.7), name=joint)
    scale = system.parameter("scale", 1.2)
    system.body("base", at=random_pose(rng), joint=ht.Revolute((1.0, 2.0, -1.0)), inertia=random_inertia(rng))
    system.body("middle", parent="base", at=random_pose(rng), joint=all_joints(rng)[joint], inertia=random_inertia(rng))
    light = random_inertia(rng)
    heavier = ht.Inertia(scale * light.mass, light.com, scale * light.moment_at_com)
    system.body("tip", parent="middle", at=scale * np.array([0.3, 0.1, -0.2]), joint=ht.Universal(), inertia=heavier)
    system.damper("base", "middle", random_damping(rng))
    system.damper("world", "tip", random_damping(rng))
    springs = rng.uniform(1, 4, 5), rng.standard_normal((5, 3)), rng.standard_normal((5, 3))
    system.spring("base", "tip", ht.Stiffness.from_springs(*springs))
    if joint != "fixed":
        system.input("motor", ht.JointForce("middle", gear=scale))
    system.input("thrust", ht.Thruster("tip", at=(0.1, -0.2, 0.3), axis=(1.0, 2.0, 0.5), drag_ratio=0.1))
    return system


def random_tree(
    seed: int, joints: Sequence[str], reverse: bool = True, velocity: Callable | None = None
) -> tuple[ht.System, Callable | None]:
    """A tree over the given joints with random parents, scrambled declaration, edges in both directions and every element."""
    rng = np.random.default_rng(seed)
    system = ht.System(gravity=rng.standard_normal(3) * 5, name=f"tree-{seed}")
    mass = system.parameter("mass", 0.7)
    stiffness = system.parameter("stiffness", 3.0)
    names = [f"b{i}" for i in range(len(joints))]
    pool = all_joints(rng)
    parents = ["world", *(names[rng.integers(0, i)] for i in range(1, len(names)))]
    order = rng.permutation(len(names))
    for i in order:
        inertia = random_inertia(rng)
        if i == 0:
            inertia = ht.Inertia(mass * 2, inertia.com, inertia.moment_at_com)
        joint, at = pool[joints[i]], random_pose(rng)
        if reverse and i > 0 and joint.velocity_frame == "relative" and rng.random() < 0.5:
            system.body(names[i], inertia=inertia)
            system.connect(names[i], parents[i], joint, at=at, name=names[i])
        else:
            system.body(names[i], parent=parents[i], at=at, joint=joint, inertia=inertia)
    system.frame("sensor", names[-1], random_pose(rng))
    system.spring(names[0], names[-1], ht.Stiffness(stiffness, (0.1, 0.2, 0.0), (1.0, 2.0, 1.5)))
    system.spring("world", names[1], ht.Stiffness(2.0, (0.0, 0.1, 0.0), (1.0, 0.5, 1.0)), rest=random_pose(rng))
    system.spring(names[0], "world", ht.Stiffness(1.0, (0.3, 0.0, 0.0), (0.2, 0.2, 0.3)), rest=(0.1, 0.2, 0.3))
    system.damper("world", "sensor", random_damping(rng))
    system.damper(names[1], names[0], random_damping(rng))
    system.damper(names[0], names[-1], random_damping(rng))
    system.potential(lambda q: stiffness * np.cos(q[0]) + 0.3 * q[-1] * q[1] + 0.1 * q[-1] ** 4)
    system.dissipation(lambda q, v: 0.5 * (1.5 + np.sin(q[0])) * (v[0] + 0.5 * v[-1]) ** 2)
    system.dissipation(lambda q, v: 0.1 * (1 + v[1] ** 2) ** 1.5)
    system.force(lambda q, v: 0.2 * mass * np.sin(q[0]) * v)
    system.input("thrust", ht.Thruster(names[-1], at=(0.1, -0.2, 0.3), axis=(1.0, 2.0, 0.5), drag_ratio=0.1))
    system.input("push", ht.Wrench("sensor", force=(1.0, 0.5, -1.0), moment=(0.1, 0.2, 0.3), frame="world"))
    system.input("inner", ht.Wrench(names[-1], moment=(1.0, 0.0, 2.0), force=(1.0, 1.0, 0.0), relative_to=names[0]))
    system.input("motor", ht.JointForce(names[1], gear=2.0))
    return system, velocity


def mixing(q, v):
    """Velocity coordinates that mix all joints and depend on the configuration."""
    return v + 0.3 * np.sin(q[0]) * ht.vector(*(v[i + 1] if i + 1 < v.shape[0] else 0.0 for i in range(v.shape[0])))


TREES: dict[str, Callable[[], tuple[ht.System, Callable | None]]] = {
    "tree-free-root": lambda: random_tree(
        1, ["free-quaternion-body", "revolute-angle", "prismatic", "revolute-circle"]
    ),
    "tree-spherical": lambda: random_tree(
        2, ["spherical-matrix-relative", "universal", "spherical-quaternion-absolute", "revolute-angle"]
    ),
    "tree-absolute-chain": lambda: random_tree(
        3, ["spherical-matrix-absolute", "prismatic", "spherical-quaternion-absolute", "cylindrical"]
    ),
    "tree-custom": lambda: random_tree(
        4, ["planar", "custom-screw", "custom-slider", "revolute-angle", "fixed", "universal"]
    ),
    "tree-mixed": lambda: random_tree(5, ["free-matrix-mixed", "spherical-euler-relative", "cylindrical"]),
    "tree-unified": lambda: random_tree(6, ["free-quaternion-unified", "planar", "revolute-circle"]),
    "tree-free-inside": lambda: random_tree(7, ["revolute-angle", "free-matrix-body", "prismatic"]),
    "tree-remapped": lambda: random_tree(8, ["universal", "spherical-matrix-relative", "prismatic"], velocity=mixing),
}

SYSTEMS = (*JOINTS, *TREES)
"""Names of all systems: about thirty."""


@cache
def model_of(name: str) -> ht.Model:
    """The derived model of a named system, interpreted: many functions, each called a few times."""
    if name in TREES:
        system, velocity = TREES[name]()
        return system.derive(velocity, native=False)
    return sandwich(name).derive(native=False)


def state_of(model: ht.Model, seed: int = 0, shape: tuple[int, ...] = ()) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A random configuration, velocity and input."""
    rng = np.random.default_rng(seed)
    return model.random(rng, shape), rng.standard_normal((*shape, model.nv)), rng.standard_normal((*shape, model.nu))


def along(function: Callable[[np.ndarray], np.ndarray], step: float = 2e-3) -> np.ndarray:
    """Derivative at zero of a function of times (n,) that returns (n, ...), by central differences of sixth order."""
    times = step * np.array([-3.0, -2.0, -1.0, 1.0, 2.0, 3.0])
    weights = np.array([-1.0, 9.0, -45.0, 45.0, -9.0, 1.0]) / (60 * step)
    return np.tensordot(weights, function(times), axes=1)


def flow(model: ht.Model, q: np.ndarray, v: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Configurations (n, ..., nq) on a curve through q with q' = A v at time zero."""
    times = times.reshape((-1,) + (1,) * (np.ndim(q) - 1))
    return model.integrate(q, v, times)


def directions(model: ht.Model) -> np.ndarray:
    """All unit velocities (nv, nv)."""
    return np.eye(model.nv)


def jacobian_bias(model: ht.Model, a: str, b: str) -> Callable[..., np.ndarray]:
    """The function d/dt(J_ab) v of (q, v)."""
    return lambda q, v: model.twist_rate(a, b, q, v, np.zeros(model.nv))


def twist_rate(model: ht.Model, body: str, q: np.ndarray, v: np.ndarray, a: np.ndarray) -> np.ndarray:
    """Rate (6,) of the absolute body twist: a physical quantity, whatever the coordinates."""
    return model.twist_rate("world", body, q, v, a)


def lengthening_arm() -> ht.Model:
    """An arm in a hinge about y, without gravity, whose tip lies at the distance of the parameter l (1 m)."""
    system = ht.System(gravity=(0, 0, 0), name="arm")
    length = system.parameter("l", 1.0)
    system.body(
        "upper", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0.1, 0, 0), moment_at_com=(0.1, 0.1, 0.1))
    )
    system.body("tip", parent="upper", at=ht.vector(length, 0.0, 0.0), joint=ht.Fixed(), inertia=ht.Inertia(0.1))
    system.input("motor", ht.JointForce("upper"))
    return system.derive()
