"""Rigid and compliant contact of robots from files, one core: steps of solo12 compared with those of MuJoCo, and other robots."""

from __future__ import annotations

import importlib
import importlib.util
import re
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from heavytop._arrays import Floats
from heavytop.io import load
from heavytop.simulate import Feedback, simulate
from heavytop.system import JointForce, Model, Sphere, System
from heavytop_bench.measure import BenchEffort, best_times
from heavytop_bench.peers import Peer
from heavytop_bench.report import BenchReport
from heavytop_bench.robots import ROBOTS, robots_folder

TITLE = "contact: steps of 1 ms of a standing robot, one core, ns per step and trajectory"
FEET = ("FL_FOOT", "FR_FOOT", "HL_FOOT", "HR_FOOT")
LEGS = tuple(f"{leg}_{joint}" for leg in ("FL", "FR", "HL", "HR") for joint in ("HAA", "HFE", "KFE"))
POSE = np.array([0.0, 0.8, -1.6] * 2 + [0.0, -0.8, 1.6] * 2)
RADIUS, STEP, SMALL, KP, KD = 0.016, 1e-3, 2e-5, 6.0, 0.1
BATCH, ALONE, COMPLIANT = 10.0, 1.5, 20.0
NOTES = (
    "solo12 stands on four feet, with springs and dampers as control; processor time. Compliant steps are of 0.02 ms, as large as friction allows.",
    "in the air: moreau with the robot one metre above the floor, relative to rkmk4 without contact.",
    "MuJoCo: mj_step with its Newton solver, elliptic cones and Euler's method, called from Python for one robot.",
)


def run(effort: BenchEffort, peers: Sequence[Peer] | None = None) -> BenchReport:
    """Measure solo12, alone and in a batch."""
    report = BenchReport("contact", TITLE, notes=list(NOTES))
    folder = robots_folder()
    if folder is None:
        report.missing.append("example-robot-data")
        report.row(case="none", ns=0.0)
        return report
    tiny = effort.seconds == 0
    count, steps = (4, 4) if tiny else (256, 200)
    file = folder / ROBOTS["solo12"]
    rigid, soft, free = (solo(file, kind) for kind in ("rigid", "compliant", "none"))
    law = Feedback(lambda q, v: -KP * (q[12:] - POSE) - KD * v[6:], ("q", "v"))

    def work(model: Model, integrator: str, n: int, height: float = 0.0, step: float = STEP) -> Callable[[], object]:
        q, v = np.tile(stance(model), (n, 1)), np.zeros((n, model.nv))
        q[:, 2] += height
        start, until = (q if n > 1 else q[0], v if n > 1 else v[0]), (steps if n > 1 else 10 * steps) * step
        return lambda: simulate(model, start, until, step, integrator, control=law, record_every=steps)

    works: dict[str, Callable[[], object]] = {
        "moreau, batch": work(rigid, "moreau", count),
        "moreau in the air, batch": work(rigid, "moreau", count, 1.0),
        "compliant rkmk4, batch": work(soft, "rkmk4", count, step=SMALL),
        "no contact rkmk4, batch": work(free, "rkmk4", count),
        "moreau, alone": work(rigid, "moreau", 1),
        "no contact rkmk4, alone": work(free, "rkmk4", 1),
    }
    sizes = {name: steps * (count if "batch" in name else 10) for name in works}
    if importlib.util.find_spec("mujoco") is None:
        report.missing.append("mujoco")
    else:
        works["mujoco, alone"], sizes["mujoco, alone"] = mujoco_steps(rigid, steps), steps
    times = {name: 1e9 * seconds / sizes[name] for name, seconds in best_times(works, effort).items()}
    for name, value in times.items():
        report.row(case=name, ns=value)
    if "mujoco, alone" in times:
        peer = times["mujoco, alone"]
        report.ratio("moreau in a batch / mujoco", peer / times["moreau, batch"], BATCH)
        report.ratio("moreau alone / mujoco", peer / times["moreau, alone"], ALONE)
        report.ratio("compliant rkmk4 in a batch / mujoco", peer / times["compliant rkmk4, batch"], COMPLIANT)
    report.ratio("no contact / moreau in the air", times["no contact rkmk4, batch"] / times["moreau in the air, batch"])
    return report


def solo(file: Path, kind: str) -> Model:
    """Solo12 with four feet: "rigid", "compliant" or "none"."""
    system: System = load(str(file), base="free")
    if kind != "none":
        system.ground(friction=0.8)
        stiffness: dict[str, Any] = {"stiffness": 1e5, "restitution": (0.2, 1.0)} if kind == "compliant" else {}
        for foot in FEET:
            system.contact(foot, "ground", Sphere(RADIUS), **stiffness)
    for joint in LEGS:
        system.input(joint, JointForce(joint))
    return system.derive()


def stance(model: Model) -> Floats:
    """The configuration in which all feet touch the floor."""
    q = np.asarray(model.neutral())
    q[12:] = POSE
    q[2] = RADIUS - min(model.pose("world", foot, q)[2, 3] for foot in FEET)
    return q


def mujoco_steps(model: Model, steps: int) -> Callable[[], object]:
    """Steps of the same robot in MuJoCo, from the same stance."""
    mujoco: Any = importlib.import_module("mujoco")
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "solo.xml"
        model.to_mjcf(file)
        text = file.read_text("utf-8")
    for part in (r"<geom[^>]*/>", r"<mesh[^>]*/>", r"<actuator>.*</actuator>", r"<contact>.*</contact>"):
        text = re.sub(part, "", text, flags=re.S)
    floor = '<geom name="floor" type="plane" size="0 0 1" contype="1" conaffinity="0" friction="0.8 0 0"/>'
    text = text.replace("<worldbody>", "<worldbody>" + floor)
    for foot in FEET:
        ball = f'<geom type="sphere" size="{RADIUS}" contype="0" conaffinity="1" mass="0" friction="0.8 0 0"/>'
        text = re.sub(rf'(<body name="{foot}"[^>]*>)', r"\1" + ball, text)
    text = text.replace("<option ", f'<option timestep="{STEP}" cone="elliptic" solver="Newton" ')
    gains = f'biastype="affine" gainprm="{KP}" biasprm="0 {-KP} {-KD}"'
    drives = "".join(f'<general name="{joint}" joint="{joint}" {gains}/>' for joint in LEGS)
    engine = mujoco.MjModel.from_xml_string(text.replace("</mujoco>", f"<actuator>{drives}</actuator></mujoco>"))
    data = mujoco.MjData(engine)
    q = stance(model)

    def work() -> None:
        mujoco.mj_resetData(engine, data)
        data.qpos[2] = q[2]
        for joint, angle in zip(LEGS, POSE, strict=True):
            data.joint(joint).qpos[0], data.actuator(joint).ctrl[0] = angle, angle
        for _ in range(steps):
            mujoco.mj_step(engine, data)

    return work
