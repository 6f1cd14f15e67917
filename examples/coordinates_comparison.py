"""One motion in three sets of attitude coordinates: rotation matrix, quaternion, and Euler angles near their singularity."""

import numpy as np
from _example import figure, finish, folder

import heavytop as ht

out = folder(__doc__)


def body(attitude: str) -> ht.Model:
    system = ht.System(name=attitude)
    inertia = ht.Inertia(1.0, moment_at_com=(0.01, 0.02, 0.028))
    system.body("body", joint=ht.Free(attitude, "mixed" if attitude == "euler" else "body"), inertia=inertia)
    return system.derive()


fig, axes = figure(figsize=(7.5, 4.5))
pitch = ht.geometry.so3
height = {}
for attitude, color, style in (("matrix", "#0072b2", "-"), ("quaternion", "#d55e00", "--"), ("euler", "#009e73", ":")):
    model = body(attitude)
    v = np.zeros(model.nv)
    v[4], v[3] = 3.0, 0.02  # it pitches through 90 degrees, where Euler angles fail
    run = ht.simulate(model, (model.neutral(), v), until=1.5, step=1e-3)
    nose = model.pose("world", "body", run.q)[..., 2, 0]
    height[attitude] = (run.t, nose)
    axes.plot(run.t, nose, style, color=color, lw=2, label=f"{attitude}: {run.outcome.ending.name}")
    print(f"{attitude:10} nq = {model.nq}: {run.outcome}, energy {run.invariants['energy'].drift:.1e} J")
same = np.max(np.abs(height["matrix"][1] - height["quaternion"][1]))
print(f"matrix and quaternion differ by {same:.1e}")
axes.set(xlabel="t in s", ylabel="height of the nose in m", title="A body that pitches over")
axes.legend()
finish(fig, out / "coordinates_comparison.png")
