"""Forward dynamics of robots from files, one core: eight robots of example-robot-data and a chain of 100 oblique axes."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

import numpy as np

from heavytop._arrays import Floats
from heavytop.errors import ModelError
from heavytop.geometry import se3, so3
from heavytop.io.build_system import build_system
from heavytop.io.robot_files import read_robot
from heavytop.system import Inertia, JointForce, Model, Revolute, System
from heavytop_bench.agreement import check
from heavytop_bench.measure import BenchEffort, best_times
from heavytop_bench.peers import Peer, divide
from heavytop_bench.peers.base import AGREE, RobotCase
from heavytop_bench.report import BenchReport

TITLE = "forward dynamics of robots from files, one core, ns per state"
ROBOTS = {
    "ur5": "ur_description/urdf/ur5_robot.urdf",
    "xarm7": "xarm_description/urdf/xarm7.urdf",
    "allegro": "allegro_hand_description/urdf/allegro_right_hand.urdf",
    "solo12": "solo_description/robots/solo12.urdf",
    "anymal": "anymal_b_simple_description/robots/anymal.urdf",
    "talos": "talos_data/robots/talos_reduced.urdf",
    "g1": "g1_description/urdf/g1_29dof_rev_1_0.urdf",
    "icub": "icub_description/robots/icub_reduced.urdf",
}
"""Two arms, a hand, two quadrupeds, three humanoids: file below the folder of robots of example-robot-data."""
LEAST, MEDIAN, CHAIN = 14.0, 20.0, 11.0
LINKS = 100


@dataclass(frozen=True)
class MeasuredRobot:
    """A robot to measure: its file, and its model as it is loaded here."""

    name: str
    file: Path
    is_free: bool
    model: Model


def run(effort: BenchEffort, peers: Sequence[Peer] | None = None) -> BenchReport:
    """Measure all robots and the chain."""
    present, missing = divide(peers, "robot")
    report = BenchReport("robots", TITLE, missing=missing, notes=list(NOTES))
    folder = robots_folder()
    if folder is None:
        report.missing.append("example-robot-data")
    ratios: dict[str, list[float]] = {peer.name: [] for peer in present}
    with tempfile.TemporaryDirectory() as scratch:
        for case in (*_robots(folder, effort), _chain(Path(scratch), LINKS if effort.seconds else 6)):
            is_chain = case.name.startswith("chain")
            own = replace(
                effort, batch=-(-effort.batch // (4 if is_chain else 2))
            )  # long states must fit into the caches
            times = measure(case, own, present, Path(scratch), report)
            stats = case.model.compiled("acceleration").stats()
            columns = {f"{name}_ns": value for name, value in times.items()}
            report.row(system=case.name, dof=case.model.nv, instructions=stats.instructions, **columns)
            for peer in present:
                if peer.name in times:
                    target = (CHAIN if is_chain else LEAST) if peer.name == "pin" else None
                    report.ratio(f"{case.name} / {peer.name}", times[peer.name] / times["arrays"], target)
                    ratios[peer.name] += [] if is_chain else [times[peer.name] / times["arrays"]]
    for name, values in ratios.items():
        if values:
            report.ratio(f"median / {name}", median(values), MEDIAN if name == "pin" else None)
    return report


NOTES = (
    "arrays: the kernel called on NumPy arrays of states. Damping and friction of the files are left out, as Pinocchio knows none.",
    "pin: abaInParallel on one thread, on the model that Pinocchio makes of the same file.",
    "mujoco: mj_forward called from Python on our export as MJCF, constraints off, minus the time of a call that only scans the velocities. "
    "Physically impossible moments of inertia, which it rejects in files, are set afterwards.",
)


def robots_folder() -> Path | None:
    """The folder of robots of example-robot-data, which comes with the extra ``peers``."""
    found = importlib.util.find_spec("pinocchio")
    for parent in Path(found.origin).parents if found is not None and found.origin else ():
        folder = parent / "share" / "example-robot-data" / "robots"
        if folder.is_dir():
            return folder
    return None


def _robots(folder: Path | None, effort: BenchEffort) -> Iterator[MeasuredRobot]:
    """The robots; only the first where times mean nothing."""
    names = list(ROBOTS) if effort.seconds else list(ROBOTS)[:1]
    for name in names if folder is not None else ():
        file = Path(str(folder)) / ROBOTS[name]
        robot = read_robot(file)
        for joint in robot.joints.values():
            joint.damping = joint.friction = 0.0
        for link in robot.links.values():
            link.visuals.clear()  # MuJoCo does not read all formats of meshes
        is_free = robot.links.get("world") is None and name not in ("ur5", "xarm7")
        yield MeasuredRobot(name, file, is_free, build_system(robot, "free" if is_free else "fixed").derive())


def oblique_chain(n: int) -> System:
    """``n`` links with random inertias on hinges with random axes and placements.

    >>> oblique_chain(3).derive(native=False).nv
    3
    """
    rng, system = np.random.default_rng(0), System(name=f"chain{n}")
    for k in range(n):
        particles = rng.uniform(0.1, 0.5, 6), rng.standard_normal((6, 3)) * 0.2
        at = se3.pose(so3.random(rng), rng.standard_normal(3) * 0.3)
        parent = f"link{k - 1}" if k else "world"
        joint, inertia = Revolute(rng.standard_normal(3)), Inertia.from_particles(*particles)
        system.body(f"link{k}", parent=parent, at=at, joint=joint, inertia=inertia)
        system.input(f"motor{k}", JointForce(f"link{k}"))
    return system


def _chain(scratch: Path, n: int) -> MeasuredRobot:
    from heavytop.io import load

    file = scratch / "chain.urdf"
    oblique_chain(n).derive(native=False).to_urdf(file)
    return MeasuredRobot(f"chain-{n}", file, False, load(file).derive())


def measure(
    case: MeasuredRobot, effort: BenchEffort, peers: Sequence[Peer], scratch: Path, report: BenchReport
) -> dict[str, float]:
    """Nanoseconds per state, ours under "arrays"; a peer that rejects the robot is noted."""
    model, rng = case.model, np.random.default_rng(0)
    q, v = model.random(rng, (effort.batch,)), rng.standard_normal((effort.batch, model.nv))
    u, p = rng.standard_normal((effort.batch, model.nu)), model.parameter_vector()
    forces: Floats = u @ model.input_matrix(model.neutral()).T
    kernel = model.compiled("acceleration")
    ours = kernel(q, v, u, p)[0]
    candidates, trials = {"arrays": lambda: kernel(q, v, u, p)}, {}
    for peer in peers:
        try:
            trials[peer.name] = peer.robot(RobotCase(model, case.file, case.is_free, q, v, forces, scratch))
        except ModelError as error:
            report.notes.append(f"{peer.name} rejects {case.name}: {error}")
            continue
        check(f"{peer.name}, {case.name}", ours[:AGREE], *trials[peer.name].results)
        candidates |= trials[peer.name].candidates(peer.name)
    times = best_times(candidates, effort)
    return {
        "arrays": times["arrays"] / effort.batch * 1e9,
        **{name: trial.seconds(times, name) * 1e9 for name, trial in trials.items()},
    }
