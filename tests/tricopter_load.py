"""The tricopter with suspended load of the reference data (thesis, examples 6 and 7), through the public interface."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import heavytop as ht
from heavytop.geometry import se3, so3

GOLDEN = Path(__file__).parent / "golden"
LOAD, ARMS, PROPELLERS = "load", ("arm1", "arm2", "arm3"), ("propeller1", "propeller2", "propeller3")
NAMES = ("world", "hull", LOAD, *(name for pair in zip(ARMS, PROPELLERS, strict=True) for name in pair))
"""Our names of the bodies 0 to 8 of the document."""


@cache
def reference() -> dict[str, Any]:
    """The reference data."""
    return json.loads((GOLDEN / "c_tricopter.json").read_text())


def states() -> list[dict[str, np.ndarray]]:
    """The stored states as arrays."""
    return [{key: np.array(value) for key, value in state.items()} for state in reference()["states"]]


def inertia_of(body: int) -> ht.Inertia:
    """Inertia of a body of the document from its particles."""
    particles = np.array(reference()["parameters"]["mass_particles_[w,hx,hy,hz]"][str(body)])
    return ht.Inertia.from_particles(particles[:, 0], particles[:, 1:])


def joints_of(attitude: str, load_velocity: str) -> dict[str, tuple[str, Any, ht.system.joints.Joint]]:
    """Body -> (parent, joint frame in the parent, joint)."""
    p = reference()["parameters"]
    joints: dict[str, Any] = {
        "hull": ("world", None, ht.Free(attitude)),
        LOAD: ("hull", (0, 0, p["h_L"]), ht.Spherical(attitude, load_velocity)),
    }
    for arm, propeller, phi in zip(ARMS, PROPELLERS, p["phi"], strict=True):
        place = se3.pose(so3.rotation_about("z", phi), [p["l_A"] * np.cos(phi), p["l_A"] * np.sin(phi), 0])
        joints[arm] = ("hull", place, ht.Revolute("x"))
        joints[propeller] = (arm, (0, 0, p["h_P"]), ht.Revolute("z", coordinates="circle"))
    return joints


COORDINATE_ORDER = ("hull", LOAD, *ARMS, *PROPELLERS)
"""Order of the joints in the x and xi of the reference data."""


def tricopter(
    attitude: str = "matrix",
    load_velocity: str = "relative",
    order: tuple[str, ...] = COORDINATE_ORDER,
    against: tuple[str, ...] = (),
) -> ht.System:
    """The system; bodies declared in ``order``, the transformations to those in ``against`` given in the opposite direction."""
    p = reference()["parameters"]
    system = ht.System(gravity=p["a_G"], name="tricopter-load")
    joints = joints_of(attitude, load_velocity)
    for name in order:
        parent, at, joint = joints[name]
        inertia = inertia_of(NAMES.index(name))
        if name in against:
            system.body(name, inertia=inertia)
        else:
            system.body(name, parent=parent, at=at, joint=joint, inertia=inertia)
    for name in against:
        parent, at, joint = joints[name]
        # G_parent_name = at joint(q)  <=>  G_name_mount = joint(q)^-1, G_mount_parent = at^-1
        system.frame(f"{name}_mount", parent, np.eye(4) if at is None else at)
        system.connect(name, f"{name}_mount", Inverse(joint), name=name)
    add_forces(system)
    return system


class Inverse(ht.system.joints.Joint):
    """A joint seen from its other side: the pose is inverted, the coordinates stay."""

    def __init__(self, joint: ht.system.joints.Joint) -> None:
        self.joint = joint

    @property
    def coordinates(self):
        return self.joint.coordinates

    def pose(self, q):
        return se3.inverse(self.joint.pose(q))


def add_forces(system: ht.System) -> None:
    """Dampers and springs of the reference data."""
    p = reference()["parameters"]
    for pair, rows in p["damper_particles_(a,b)_fluid_fixed_in_a_[w,h]"].items():
        a, b = (NAMES[int(i)] for i in pair.split(","))
        rows = np.array(rows)
        system.damper(a, b, ht.Damping.from_particles(rows[:, 0], rows[:, 1:]))
    for pair, rows in p["springs_(a,b)_[k,h in b(3),p in a(3)]"].items():
        a, b = (NAMES[int(i)] for i in pair.split(","))
        rows = np.array(rows)
        system.spring(a, b, ht.Stiffness.from_springs(rows[:, 0], rows[:, 1:4], rows[:, 4:7]))


def load_rotation(x: np.ndarray) -> np.ndarray:
    """R of the load in the hull from the stored coordinates."""
    return x[..., 12:21].reshape((*x.shape[:-1], 3, 3)).swapaxes(-1, -2)


def relative_transform(x: np.ndarray) -> np.ndarray:
    """T with xi = T v: stored velocities (absolute load velocity) from those with relative load velocity (eq. 3.109a)."""
    T = np.eye(15)
    T[6:9, 3:6] = load_rotation(x).T
    return T


def to_quaternions(x: np.ndarray) -> np.ndarray:
    """The stored configuration with quaternions in place of the two rotation matrices."""
    attitude = ht.coordinates.Quaternion()
    hull = attitude.from_rotation_matrix(x[3:12].reshape(3, 3).T)
    load = attitude.from_rotation_matrix(load_rotation(x))
    return np.concatenate([x[:3], hull, load, x[21:]])
