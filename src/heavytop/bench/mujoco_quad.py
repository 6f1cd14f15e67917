"""MuJoCo's rollout of the Hummingbird with constant thrusts: a free body with four site thrusters, no controller."""

from __future__ import annotations

import importlib
import importlib.util
import time
from typing import Any

import numpy as np

from heavytop.bench.hummingbird import vehicle


def installed() -> bool:
    """Whether MuJoCo can be imported."""
    return importlib.util.find_spec("mujoco") is not None


def _xml() -> str:
    craft = vehicle()
    inertia = craft.model.description.inertias["hull"]
    moments = " ".join(f"{m:.17g}" for m in np.diag(np.asarray(inertia.moment_at_com, dtype=float)))
    sites = "".join(
        f'<site name="s{k}" pos="{" ".join(f"{x:.17g}" for x in r.at)}"/>' for k, r in enumerate(craft.airframe.rotors)
    )
    motors = "".join(
        f'<motor site="s{k}" gear="0 0 1 0 0 {r.drag_ratio:.17g}"/>' for k, r in enumerate(craft.airframe.rotors)
    )
    return (
        '<mujoco><option timestep="0.01" gravity="0 0 -9.81" integrator="RK4"><flag contact="disable"/></option><worldbody><body>'
        f'<freejoint/><inertial pos="0 0 0" mass="{float(inertia.mass):.17g}" diaginertia="{moments}"/>{sites}</body></worldbody>'
        f"<actuator>{motors}</actuator></mujoco>"
    )


def steps_per_second(batch: int = 64, steps: int = 100, repeats: int = 8) -> float:
    """RK4 steps of 10 ms per second of CPU time on one thread, best of several runs."""
    mujoco: Any = importlib.import_module("mujoco")
    rollout: Any = importlib.import_module("mujoco.rollout")
    model = mujoco.MjModel.from_xml_string(_xml())
    data = mujoco.MjData(model)
    state = np.zeros((batch, mujoco.mj_stateSize(model, mujoco.mjtState.mjSTATE_FULLPHYSICS)))
    state[:, 4] = 1.0  # time, position, quaternion
    thrusts = np.full((batch, steps, 4), vehicle().mass * 9.81 / 4)
    best = np.inf
    for _ in range(repeats):
        clock = time.process_time()
        rollout.rollout(model, data, initial_state=state, control=thrusts)
        best = min(best, time.process_time() - clock)
    return batch * steps / best
