"""Inverse kinematics of ten robots from files: random reachable poses within joint limits, in a batch and one by one."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from heavytop import library
from heavytop._arrays import Floats
from heavytop.geometry import so3
from heavytop.io import load
from heavytop.system import Model
from heavytop_bench.measure import BenchEffort, best_times
from heavytop_bench.peers import Peer
from heavytop_bench.report import BenchReport
from heavytop_bench.robots import robots_folder

TITLE = "inverse kinematics of robots from files, one core, microseconds per pose"
ROBOTS = {
    "ur3": ("ur_description/urdf/ur3_robot.urdf", "tool0"),
    "ur5": ("ur_description/urdf/ur5_robot.urdf", "tool0"),
    "ur10": ("ur_description/urdf/ur10_robot.urdf", "tool0"),
    "panda": ("panda_description/urdf/panda.urdf", "panda_hand"),
    "xarm7": ("xarm_description/urdf/xarm7.urdf", "link_eef"),
    "kinova": ("kinova_description/robots/kinova.urdf", "j2s6s200_end_effector"),
    "z1": ("z1_description/urdf/z1.urdf", "gripperStator"),
    "so101": ("so_arm_description/urdf/so101.urdf", "gripper_frame_link"),
    "talos arm": ("talos_data/robots/talos_left_arm.urdf", "gripper_left_base_link"),
    "tiago": ("tiago_description/robots/tiago_no_hand.urdf", "arm_tool_link"),
}
"""File below the folder of robots of example-robot-data, and the frame that is moved."""
POSES, ALONE, PINK = 1000, 20, 4
TOLERANCE = 1e-8
"""Largest entry of the error in m and rad of a solved pose."""
BATCH, SINGLE = 20.0, 2.0
STARTS, ITERATIONS = 60, 50
NOTES = (
    "batch: one call with all poses; alone: one call per pose; both without a start, 1e-9 m and rad.",
    "pin: the damped loop of Pinocchio's documentation in Python (log6, Jlog6, computeFrameJacobian, solve), from the middle of the limits, full "
    f"steps, damping 1e-6 (the fastest of several), clipped at the limits, at most {ITERATIONS} iterations and {STARTS} random starts, 1e-8.",
    "pink: solve_ik with a frame task and configuration limits by DAQP, full steps, from the same starts, 1e-8.",
    "TRAC-IK has no wheel.",
)


@dataclass(frozen=True)
class Arm:
    """A robot, its poses and the frame that is moved."""

    name: str
    file: Path
    frame: str
    model: Model
    poses: Floats


def run(effort: BenchEffort, peers: Sequence[Peer] | None = None) -> BenchReport:
    """Measure all robots."""
    report = BenchReport("inverse-kinematics", TITLE, notes=list(NOTES))
    folder = robots_folder()
    count = POSES if effort.seconds else 20
    if folder is None:  # without the files: the arm of the library, and nothing to compare it with
        report.missing.append("example-robot-data")
        model = library.panda().derive()
        frame = model.description.joints[-1].b
        arm = Arm("panda of the library", Path(), frame, model, model.pose("world", frame, within_limits(model, count)))
        times, solved = measure(arm, effort, [])
        report.row(robot=arm.name, dof=model.nv, solved=solved, **{f"{name}_us": 1e6 * t for name, t in times.items()})
        return report
    wanted = [] if peers is not None and not any(peer.name == "pin" for peer in peers) else ["pin", "pink"]
    found = {name: importlib.util.find_spec({"pin": "pinocchio"}.get(name, name)) is not None for name in wanted}
    report.missing += [name for name, there in found.items() if not there]
    ratios: dict[str, list[float]] = {}
    for arm in _arms(folder, count, list(ROBOTS) if effort.seconds else ["ur5"]):
        times, solved = measure(arm, effort, [name for name, there in found.items() if there])
        report.row(
            robot=arm.name, dof=arm.model.nv, solved=solved, **{f"{name}_us": 1e6 * t for name, t in times.items()}
        )
        if "pin" in times:
            ratios.setdefault("batch", []).append(times["pin"] / times["batch"])
            ratios.setdefault("alone", []).append(times["pin"] / times["alone"])
        effort.progress(f"{arm.name}: {times}")
    for name, target in (("batch", BATCH), ("alone", SINGLE)):
        if name in ratios:
            report.ratio(f"{name} least / pin", min(ratios[name]), target)
            report.ratio(f"{name} median / pin", median(ratios[name]), target)
    return report


def _arms(folder: Path, count: int, names: Sequence[str]):
    for name in names:
        path, frame = ROBOTS[name]
        model = load(folder / path).derive()
        yield Arm(name, folder / path, frame, model, model.pose("world", frame, within_limits(model, count)))


def within_limits(model: Model, count: int, seed: int = 1) -> Floats:
    """Random configurations (count, nq) within joint limits; joints without limits turn once around."""
    rng, q = np.random.default_rng(seed), np.tile(model.neutral(), (count, 1))
    for edge in model.description.joints:
        own = model.description.limits.get(edge.label)
        low = -np.pi if own is None or own.lower is None else own.lower
        high = np.pi if own is None or own.upper is None else own.upper
        q[:, model.coordinates.q_slice(edge.label)] = rng.uniform(low, high, (count, 1))
    return q


def measure(arm: Arm, effort: BenchEffort, peers: Sequence[str]) -> tuple[dict[str, float], float]:
    """Seconds per pose of each candidate, and the share of the poses that is solved here."""
    model, frame, poses = arm.model, arm.frame, arm.poses
    found = model.inverse_kinematics({frame: poses})
    there = model.pose("world", frame, found.q)
    off = np.abs(there[:, :3, 3] - poses[:, :3, 3]).max(axis=1)
    turned = np.abs(so3.log(np.swapaxes(poses[:, :3, :3], 1, 2) @ there[:, :3, :3])).max(axis=1)
    inside = _is_inside(model, found.q)
    solved = float(np.mean(found.reached & (off <= TOLERANCE) & (turned <= TOLERANCE) & inside))
    few = poses[: min(ALONE, len(poses))]
    candidates: dict[str, Callable[[], object]] = {
        "batch": lambda: model.inverse_kinematics({frame: poses}),
        "alone": lambda: [model.inverse_kinematics({frame: pose}) for pose in few],
    }
    counts = {"batch": len(poses), "alone": len(few)}
    for name, loop in (("pin", damped_loop), ("pink", pink_loop)):
        if name in peers:
            solve = loop(arm)
            own = few if name == "pin" else few[:PINK]
            candidates[name] = lambda solve=solve, own=own: [solve(pose) for pose in own]
            counts[name] = len(own)
    times = best_times(candidates, replace(effort, rounds=min(effort.rounds, 3)))
    return {name: seconds / counts[name] for name, seconds in times.items()}, solved


def _is_inside(model: Model, q: Floats) -> np.ndarray:
    inside = np.ones(len(q), dtype=bool)
    for edge in model.description.joints:
        own, x = model.description.limits.get(edge.label), q[:, model.coordinates.q_slice(edge.label)]
        if own is not None:
            inside &= np.all(
                (x >= (-np.inf if own.lower is None else own.lower))
                & (x <= (np.inf if own.upper is None else own.upper)),
                axis=1,
            )
    return inside


def damped_loop(arm: Arm) -> Callable[[Floats], Any]:
    """Pinocchio's damped loop with restarts: pose -> configuration, or None."""
    pin: Any = import_module("pinocchio")
    model = pin.buildModelFromUrdf(str(arm.file))
    data, frame = model.createData(), model.getFrameId(arm.frame, pin.BODY)
    low, high = model.lowerPositionLimit.copy(), model.upperPositionLimit.copy()
    for joint in model.joints:  # unbounded joints have the coordinates (cos, sin)
        if joint.nq == 2:
            low[joint.idx_q : joint.idx_q + 2], high[joint.idx_q : joint.idx_q + 2] = -np.inf, np.inf
    middle, damping = pin.neutral(model), 1e-6 * np.eye(6)
    bounded = np.isfinite(low) & np.isfinite(high)
    middle[bounded] = 0.5 * (low[bounded] + high[bounded])

    def solve(pose: Floats) -> Any:
        target = pin.SE3(pose)
        pin.seed(0)
        for start in range(STARTS):
            q = pin.randomConfiguration(model) if start else middle
            for _ in range(ITERATIONS):
                pin.framesForwardKinematics(model, data, q)
                away = data.oMf[frame].actInv(target)
                error = pin.log(away).vector
                if np.abs(error).max() < TOLERANCE:
                    return q
                J = -pin.Jlog6(away.inverse()) @ pin.computeFrameJacobian(model, data, q, frame)
                step = -J.T @ np.linalg.solve(J @ J.T + damping, error)
                q = np.clip(pin.integrate(model, q, step), low, high)
        return None

    return solve


def pink_loop(arm: Arm) -> Callable[[Floats], Any]:
    """pink's quadratic programs with restarts: pose -> configuration, or None."""
    pin: Any = import_module("pinocchio")
    pink: Any = import_module("pink")
    model = pin.buildModelFromUrdf(str(arm.file))
    data = model.createData()
    task = pink.tasks.FrameTask(arm.frame, position_cost=1.0, orientation_cost=1.0, lm_damping=1e-3)

    def solve(pose: Floats) -> Any:
        task.set_target(pin.SE3(pose))
        pin.seed(0)
        for start in range(STARTS):
            q = pin.randomConfiguration(model) if start else pin.neutral(model)
            try:
                configuration = pink.Configuration(
                    model, data, np.clip(q, model.lowerPositionLimit, model.upperPositionLimit)
                )
                for _ in range(ITERATIONS):
                    if np.abs(task.compute_error(configuration)).max() < TOLERANCE:
                        return configuration.q
                    limits = (pink.limits.ConfigurationLimit(model),)
                    velocity = pink.solve_ik(
                        configuration, [task], 1.0, solver="daqp", limits=limits, safety_break=False
                    )
                    configuration.integrate_inplace(velocity, 1.0)
            except Exception:
                continue
        return None

    return solve
