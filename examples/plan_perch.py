"""A quadcopter lands on a wall: it arrives at rest with its axis level, and there is only one moment at which that can be."""

import numpy as np
from _example import figure, finish, folder

from heavytop.plan import problems

out = folder(__doc__)

plan = problems.quadcopter_perch().plan()
print(plan.report())
t = np.linspace(0, plan.duration, 300)
q, v, _ = plan.reference(t)
pose = plan.model.pose("world", "hull", q)
tilt = np.degrees(np.arccos(np.clip(pose[:, 2, 2], -1, 1)))
fig, (way, angle, thrust) = figure(ncols=3, figsize=(14, 4))
way.plot(pose[:, 0, 3], pose[:, 2, 3], color="#0072b2")
for k in range(0, len(t), 25):
    place, side = pose[k, [0, 2], 3], pose[k, [0, 2], 0]
    way.plot(*np.transpose([place - 0.25 * side, place + 0.25 * side]), color="k", lw=2)
way.axvline(4.0, color="#999999", lw=4)
way.set(xlabel="x in m", ylabel="z in m", title="way to the wall", aspect="equal")
angle.plot(t, tilt, color="#0072b2", label="tilt in degrees")
angle.plot(t, 10 * np.linalg.norm(v[:, :3], axis=1), color="#d55e00", label="10 x speed in m/s")
angle.set(xlabel="t in s", title="level axis and rest come together")
angle.legend()
thrust.step(plan.times[:-1], plan.u[:-1], where="post")
thrust.set(xlabel="t in s", ylabel="thrust in N", title="thrusts of the rotors")
finish(fig, out / "plan_perch.png")
