"""Steps of many trajectories: what a Lie-group step costs beside its evaluations, and beside MuJoCo's rollout."""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

import numpy as np

from heavytop.bench.agreement import check
from heavytop.bench.measure import Effort, Work, best_times
from heavytop.bench.peers import missing
from heavytop.bench.report import Ratio, Report
from heavytop.bench.trees import tricopter_load
from heavytop.copters import quadcopter
from heavytop.geometry.quaternion import quaternion_from_rotation
from heavytop.simulate import simulate
from heavytop.system import Model

TITLE = "RKMK4 steps of many trajectories, one core, ns per step of one trajectory"
STEP = 1e-3
STEPS = 500
TRAJECTORIES = 128
WITHIN, AHEAD = 1.4, 50.0

NOTES = (
    f"step: heavytop.simulate of {TRAJECTORIES} trajectories over {STEPS} steps on one thread, records only of the ends, as a whole.",
    "packed, arrays: forward dynamics of one state in a batch as in the benchmark 'forward'. The limit is held against packed.",
    "mujoco: rollout of the same quadcopter with the same thrusts and RK4, states of all steps recorded as rollout always does, "
    "one thread; its ends agree with ours.",
)


def run(effort: Effort) -> Report:
    """Measure the tricopter with load against its forward dynamics, the quadcopter against MuJoCo."""
    report = Report("simulate", TITLE, missing=missing("mujoco"), notes=list(NOTES))
    effort = replace(
        effort, seconds=3 * effort.seconds
    )  # a run is long beside an evaluation, and a quiet moment for it is rarer
    tricopter(report, effort)
    quad(report, effort)
    return report


def size(effort: Effort) -> tuple[int, int]:
    """Trajectories and steps."""
    return (8, 10) if effort.seconds == 0 else (TRAJECTORIES, STEPS)


def steps_of(model: Model, q: np.ndarray, v: np.ndarray, u: np.ndarray, steps: int) -> Any:
    """The run of all trajectories."""
    return simulate(
        model, (q, v), steps * STEP, STEP, "rkmk4", inputs=u[None], record_every=steps, threads=1, progress=False
    )


def tricopter(report: Report, effort: Effort) -> None:
    """A step against four evaluations of the forward dynamics, both per trajectory."""
    model, (count, steps) = tricopter_load().derive(), size(effort)
    rng = np.random.default_rng(0)
    q, v = model.random(rng, (count,)), 0.1 * rng.standard_normal((count, model.nv))
    u = 0.1 * rng.standard_normal((count, model.nu))
    kernel = model.compiled("acceleration")
    rows = np.arange(8 * -(-count // kernel.lanes) * kernel.lanes) % count
    packed = kernel.packed(len(rows) // kernel.lanes)
    packed.fill(q[rows], v[rows], u[rows], model.parameter_vector())
    arguments = q[rows], v[rows], u[rows], model.parameter_vector()
    works: dict[str, Work] = {
        "step": lambda: steps_of(model, q, v, u, steps),
        "packed": packed.run,
        "arrays": lambda: kernel(*arguments),
    }
    times = best_times(works, effort)
    step, forward, arrays = times["step"] / (count * steps), times["packed"] / len(rows), times["arrays"] / len(rows)
    report.row(system="tricopter-load", step_ns=step * 1e9, packed_ns=forward * 1e9, arrays_ns=arrays * 1e9)
    report.limit("tricopter-load: step / 4 evaluations", step / (4 * forward), WITHIN, "x")
    report.ratios.append(Ratio("tricopter-load: step / 4 evaluations on arrays", step / (4 * arrays), at_least=False))


def quad(report: Report, effort: Effort) -> None:
    """A step against one of MuJoCo, the same vehicle with the same constant thrusts."""
    model, (count, steps) = quadcopter().model, size(effort)
    rng = np.random.default_rng(1)
    q, v = model.random(rng, (count,)), rng.standard_normal((count, 6))
    u = rng.uniform(1.5, 3.0, (count, 4))
    works: dict[str, Work] = {"step": lambda: steps_of(model, q, v, u, steps)}
    if not report.missing:
        rollout = Rollout(q, v, u, steps)
        end = steps_of(model, q, v, u, steps)
        check("mujoco, positions of the quadcopter", end.q[-1, :, :3], rollout.run()[:, :3])
        works["mujoco"] = rollout.run
    times = {name: t / (count * steps) for name, t in best_times(works, effort).items()}
    report.row(system="quadcopter", **{f"{name}_ns": t * 1e9 for name, t in times.items()})
    if "mujoco" in times:
        report.ratio("quadcopter: step / mujoco rollout RK4", times["mujoco"] / times["step"], AHEAD)


MJCF = """<mujoco><option timestep="{step}" gravity="0 0 -9.81" integrator="RK4">
<flag contact="disable" constraint="disable"/></option>
<worldbody><body><freejoint/><inertial pos="0 0 0" mass="0.9" diaginertia="0.008 0.008 0.014"/>
<site name="s0" pos="0.2 0 0"/><site name="s1" pos="0 0.2 0"/><site name="s2" pos="-0.2 0 0"/><site name="s3" pos="0 -0.2 0"/>
</body></worldbody><actuator>
<motor site="s0" gear="0 0 1 0 0 0.016"/><motor site="s1" gear="0 0 1 0 0 -0.016"/>
<motor site="s2" gear="0 0 1 0 0 0.016"/><motor site="s3" gear="0 0 1 0 0 -0.016"/>
</actuator></mujoco>"""
"""The default quadcopter of heavytop.copters: torque of a propeller along its axis, thrust times (-1)^k 0.016 m."""


class Rollout:
    """The quadcopter in MuJoCo, from the same states with the same thrusts."""

    def __init__(self, q: np.ndarray, v: np.ndarray, u: np.ndarray, steps: int) -> None:
        mujoco: Any = importlib.import_module("mujoco")
        self.rollout: Any = importlib.import_module("mujoco.rollout")
        self.model = mujoco.MjModel.from_xml_string(MJCF.format(step=STEP))
        self.data = mujoco.MjData(self.model)
        R = np.swapaxes(q[:, 3:].reshape(-1, 3, 3), 1, 2)
        velocity = np.hstack([np.matvec(R, v[:, :3]), v[:, 3:]])  # linear velocities in world axes
        self.start = np.hstack([np.zeros((len(q), 1)), q[:, :3], quaternion_from_rotation(R), velocity])
        self.control = np.repeat(u[:, None], steps, axis=1)
        self.states = np.empty((len(q), steps, self.start.shape[1]))

    def run(self) -> np.ndarray:
        """All steps of all trajectories; (n, 13) positions, quaternions and velocities at the end."""
        self.rollout.rollout(
            self.model,
            self.data,
            self.start,
            self.control,
            state=self.states,
            sensordata=np.empty((*self.states.shape[:2], 0)),
        )
        return self.states[:, -1, 1:]
