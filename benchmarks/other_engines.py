"""The figures of the README on other engines: the unstable spin with MuJoCo's steps.

    python benchmarks/other_engines.py

A free rigid body with J = diag(5.2988, 1.1775, 4.3568) turns at (0.01, 0, 100) rad/s, steps of 1 ms (document 002, section 6). Needs the extra
``peers``; the errors of the other methods are those of ``heavytop bench free-body``.
"""

from __future__ import annotations

import mujoco
import numpy as np
from heavytop_bench.free_body import QUATERNION_END, UNSTABLE

from heavytop.geometry.quaternion import rotation_from_quaternion

STEP = 1e-3
XML = """<mujoco><option timestep="{step}" integrator="{integrator}" gravity="0 0 0"/><worldbody><body><freejoint/>
<inertial pos="0 0 0" mass="1" diaginertia="{moments}"/></body></worldbody></mujoco>"""


def mujoco_run(integrator: str, seconds: float) -> tuple[float, float, np.ndarray]:
    """Time at which MuJoCo resets the state (s; NaN: never), final energy over initial energy, final attitude."""
    moments = " ".join(map(str, UNSTABLE.moment))
    model = mujoco.MjModel.from_xml_string(XML.format(step=STEP, integrator=integrator, moments=moments))
    data = mujoco.MjData(model)
    data.qvel[3:] = UNSTABLE.omega
    energy = lambda: float(0.5 * np.sum(UNSTABLE.moment * data.qvel[3:] ** 2))  # noqa: E731
    first = energy()
    for k in range(round(seconds / STEP)):
        mujoco.mj_step(model, data)
        if data.time < (k + 0.5) * STEP:  # it has reset the state
            return (k + 1) * STEP, np.nan, np.eye(3)
    return np.nan, energy() / first, rotation_from_quaternion(data.qpos[3:])


def main() -> None:
    R_end = rotation_from_quaternion(QUATERNION_END)
    print(f"mujoco {mujoco.__version__}")
    for integrator in ("Euler", "RK4"):
        print(
            f"{integrator}: error of the attitude after 1 s {np.linalg.norm(mujoco_run(integrator, 1.0)[2] - R_end):.2g}"
        )
    print(f"Euler: resets the state after {mujoco_run('Euler', 100.0)[0]:.2f} s")
    print(f"implicitfast: {mujoco_run('implicitfast', 100.0)[1]:.3f} of the energy is left after 100 s")


if __name__ == "__main__":
    main()
