"""Trees of bodies without springs and dampers, with a motor in every hinge: any engine can represent them, so benchmarks use them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from heavytop.geometry import se3, so3
from heavytop.library.copters import look_like_a_tricopter
from heavytop.library.pendulums import DARK, GREY, WHITE, bar, check_links
from heavytop.system import Cylinder, Free, Inertia, JointForce, Revolute, Spherical, System


def look_like_an_arm(system: System, names: Sequence[str], positions: Sequence[np.ndarray], radius: float) -> None:
    """Add a drum around the z axis of every hinge and a bar to the next one; ``positions`` (3,) of the hinges in their parents."""
    bar(system, "world", np.zeros(3), positions[0], 1.1 * radius, DARK)
    ends = [*positions[1:], np.array([0.0, 0.0, 2.0 * radius])]
    for name, end in zip(names, ends, strict=True):
        system.shape(name, Cylinder(radius, 2.6 * radius), color=GREY)
        bar(system, name, np.zeros(3), end, 0.85 * radius, WHITE)


def _with_motors(system: System, *hinges: str) -> System:
    for name in hinges:
        system.input(f"motor_{name}", JointForce(name))
    return system


def bare_tricopter_load() -> System:
    """A tricopter with three tilting arms and propellers and a load on a ball joint, without drag: 8 bodies, 15 degrees of freedom.

    The velocities are body twists and parent-relative angular velocities.

    >>> bare_tricopter_load().derive()
    Model('tricopter with load, bare': nq=27, nv=15, nu=6, bodies=8)
    """
    system = System(name="tricopter with load, bare")
    system.body("hull", joint=Free(), inertia=Inertia(1.0, (0, 0, 0.01), (0.010, 0.012, 0.020)))
    load = Inertia(0.3, (0, 0, -0.5), (0.0010, 0.0012, 0.0015))
    system.body("load", parent="hull", at=(0, 0, -0.05), joint=Spherical(), inertia=load)
    hinges = []
    for k in range(3):
        R = so3.rotation_about("z", 2 * np.pi * k / 3)
        arm, propeller = f"arm{k}", f"propeller{k}"
        tilting = Inertia(0.1, (0, 0, 0.01), (1e-4, 2e-4, 2.5e-4))
        system.body(arm, parent="hull", at=se3.pose(R, R @ [0.25, 0, 0]), joint=Revolute("x"), inertia=tilting)
        spinning = Inertia(0.02, moment_at_com=(4e-5, 6e-5, 1e-4))
        system.body(propeller, parent=arm, at=(0, 0, 0.05), joint=Revolute("z"), inertia=spinning)
        hinges += [arm, propeller]
    roots = [so3.rotation_about("z", 2 * np.pi * k / 3) @ [0.25, 0, 0] for k in range(3)]
    look_like_a_tricopter(system, hinges[::2], roots, 0.05)
    return _with_motors(system, *hinges)


def panda() -> System:
    """The Franka Panda arm: seven hinges with motors, parameters of its URDF, the fingers locked.

    >>> panda().derive()
    Model('panda': nq=7, nv=7, nu=7, bodies=7)
    """
    joints = json.loads(Path(__file__).with_name("panda.json").read_text(encoding="utf-8"))["joints"]
    system, parent = System(name="panda"), "world"
    for joint in joints:
        system.body(
            joint["name"],
            parent=parent,
            at=se3.pose(np.array(joint["rotation"]), np.array(joint["position"])),
            joint=Revolute(joint["axis"]),
            inertia=Inertia(joint["mass"], np.array(joint["com"]), np.array(joint["moment_at_com"])),
        )
        parent = joint["name"]
    look_like_an_arm(system, [j["name"] for j in joints], [np.array(j["position"]) for j in joints], 0.055)
    return _with_motors(system, *(joint["name"] for joint in joints))


def random_chain(n: int = 5) -> System:
    """``n`` links with random inertias and a motor in every hinge; consecutive axes are perpendicular.

    >>> random_chain(3).derive()
    Model('random chain of 3': nq=3, nv=3, nu=3, bodies=3)
    """
    check_links(n)
    rng = np.random.default_rng(n)
    quarter = np.array([[1.0, 0, 0], [0, 0, -1], [0, 1, 0]])
    system = System(name=f"random chain of {n}")
    for k in range(n):
        mass, com, spread = 1 + rng.random(), 0.1 * rng.standard_normal(3), 0.1 * rng.standard_normal((3, 3))
        moment = mass * so3.Vee(spread @ spread.T + 0.02 * np.eye(3))
        R = np.eye(3) if k == 0 else (quarter if k % 2 else quarter.T)
        r = np.zeros(3) if k == 0 else np.array([0.3, 0, 0.1])
        parent = f"link{k - 1}" if k else "world"
        system.body(
            f"link{k}", parent=parent, at=se3.pose(R, r), joint=Revolute("z"), inertia=Inertia(mass, com, moment)
        )
    names = [f"link{k}" for k in range(n)]
    look_like_an_arm(system, names, [np.zeros(3)] + [np.array([0.3, 0.0, 0.1])] * (n - 1), 0.03)
    return _with_motors(system, *names)
