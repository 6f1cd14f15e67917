"""The table of robots in docs/contact.md: rigid contact of robots from files, one trajectory on one core.

    python benchmarks/contact_robots.py

``moreau`` at 1 ms for 1 s, position servos in all joints as a continuous law; time is the least processor time of four runs.
Needs example-robot-data.
"""

from __future__ import annotations

import re
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from heavytop_bench.robots import ROBOTS, robots_folder

import heavytop as ht

FEET = ("LF", "RF", "LH", "RH")
BENT = {"LEG_HIP_P": -0.453786, "LEG_KNEE": 0.872665, "LEG_ANKLE_P": -0.418879}
SOLE = [(x, y, -0.1) for x in (-0.1, 0.15) for y in (-0.05, 0.05)]
BALL, FINGER, GAP = 0.0335, 0.0098, 1e-4
Start = tuple[ht.Model, np.ndarray, ht.Feedback]


def with_servos(system: ht.System, joints: Sequence[str], pose: np.ndarray, kp: float, kd: float, first: int) -> Start:
    """The model, its configuration with the joints at the pose, and servos; the joints come after ``first`` velocities of a base."""
    for joint in joints:
        system.input(joint.replace(".", "_"), ht.JointForce(joint))
    model = system.derive()
    start, n = first and 12, len(joints)
    q = np.asarray(model.neutral())
    q[start : start + n] = pose
    law = lambda q, v: -kp * (q[start : start + n] - pose) - kd * v[first : first + n]  # noqa: E731
    return model, q, ht.Feedback(law, ("q", "v"))


def anymal(folder: Path) -> Start:
    system = ht.load(str(folder / ROBOTS["anymal"]), base="free")
    system.ground(friction=0.8)
    for leg in FEET:
        system.contact(f"{leg}_FOOT", "ground", ht.Sphere(0.031))
    joints = [f"{leg}_{joint}" for leg in FEET for joint in ("HAA", "HFE", "KFE")]
    pose = np.array([-0.1, 0.7, -1.0, 0.1, 0.7, -1.0, -0.1, -0.7, 1.0, 0.1, -0.7, 1.0])
    model, q, law = with_servos(system, joints, pose, 400.0, 20.0, 6)
    q[2] = GAP + 0.031 - min(model.pose("world", f"{leg}_FOOT", q)[2, 3] for leg in FEET)
    return model, q, law


def humanoid(folder: Path) -> Start:
    system = ht.load(str(folder / "simple_humanoid_description/urdf/simple_humanoid.urdf"), base="free")
    system.ground(friction=0.8)
    for foot in ("r_ankle", "l_ankle"):
        system.contact(foot, "ground", ht.Points(SOLE))
    joints = (system.derive().coordinates.names or ())[1:]
    pose = np.array([BENT.get(joint[1:], 0.0) for joint in joints])
    model, q, law = with_servos(system, joints, pose, 2000.0, 40.0, 6)
    q[2] = GAP + 0.1 - min(model.pose("world", foot, q)[2, 3] for foot in ("r_ankle", "l_ankle"))
    return model, q, law


def hand(folder: Path) -> Start:
    """The hand with its palm up, without the damping and friction of its file, catches a ball."""
    text = (folder / ROBOTS["allegro"]).read_text("utf-8")
    text = re.sub(r"<dynamics[^>]*/>", "", re.sub(r"<(visual|collision)>.*?</\1>", "", text, flags=re.S))
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "hand.urdf"
        file.write_text(text, "utf-8")
        system = ht.load(str(file))
    system.gravity = (-9.81, 0.0, 0.0)
    ball = ht.Sphere(BALL)
    system.body("ball", joint=ht.Free(), inertia=ht.Inertia.of(ball, density=1000.0))
    points = []
    for k in range(0, 16, 4):
        points += [(f"link_{k + j}.0", z, FINGER) for j, z in ((1, 0.01), (1, 0.035), (2, 0.015), (3, 0.01))]
        points.append((f"link_{k + 3}.0_tip", 0.0, 0.012))
    for n, (link, z, radius) in enumerate(points):
        shape = ht.Sphere(radius)
        system.contact(link, "ball", shape, at=(0.0, 0.0, z), against=ball, friction=0.8, name=f"point{n}")
    pose = np.array([0.0, -0.15, 1.0, 0.8] * 3 + [1.2, 0.3, 0.3, 0.5])
    model, q, law = with_servos(system, [f"joint_{k}.0" for k in range(16)], pose, 1.0, 0.01, 0)
    centres = [(model.pose("world", link, q) @ (0.0, 0.0, z, 1.0))[:3] for link, z, _ in points]
    place = 0.5 * (centres[1] + centres[6])
    heights = []
    for centre, (_, _, radius) in zip(centres, points, strict=True):
        away = np.sum((centre - place)[1:] ** 2)
        if away < (BALL + radius + GAP) ** 2:
            heights.append(centre[0] + np.sqrt((BALL + radius + GAP) ** 2 - away))
    q[16:19] = max(heights), *place[1:]
    return model, q, law


def main() -> None:
    folder = robots_folder()
    if folder is None:
        raise SystemExit("example-robot-data is not installed.")
    for make in (anymal, humanoid, hand):
        model, q, law = make(folder)
        best = np.inf
        for _ in range(5):  # the first one compiles
            start = time.process_time()
            run = ht.simulate(model, (q, np.zeros(model.nv)), 1.0, 1e-3, "moreau", control=law, balance=True)
            best = min(best, time.process_time() - start)
        contacts = run.contacts.values()
        assert run.work is not None
        balance = np.abs(run.energy - run.work[:, 0] + run.work[:, 1] - run.energy[0]).max() / np.abs(run.energy).max()
        print(
            f"{make.__name__}: {run.outcome}; {model.nv} velocities; {sum(int(np.sum(c.gaps[-1] < 1e-6)) for c in contacts)} points closed,"
            f" force {np.linalg.norm(sum(c.force[-1] for c in contacts)):.6g} N, depth {-min(c.gaps.min() for c in contacts):.1g} m,"
            f" balance {balance:.1g}, {best:.4f} ms per step",
            flush=True,
        )


if __name__ == "__main__":
    main()
