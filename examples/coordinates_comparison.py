"""One motion in three sets of attitude coordinates, rotation matrix, quaternion and Euler angles: the motion does not notice."""

import numpy as np
from _example import figure, finish, folder, page

import heavytop as ht

out = folder(__doc__)


def body(attitude: str) -> ht.Model:
    system = ht.System(name=attitude)
    inertia = ht.Inertia(1.0, moment_at_com=(0.01, 0.02, 0.028))
    system.body("body", joint=ht.Free(attitude, "mixed" if attitude == "euler" else "body"), inertia=inertia)
    return system.derive()


models = {name: body(name) for name in ("matrix", "quaternion", "euler")}
fig, axes = figure(figsize=(7.5, 4.5))
for tilt, style in ((1e-1, "-"), (1e-3, "--"), (1e-5, ":")):
    heights = {}
    for name, model in models.items():
        v = np.zeros(model.nv)
        v[3], v[4] = tilt, 3.0  # it pitches over and passes the singularity of the angles at a distance
        run = ht.simulate(model, (model.neutral(), v), until=1.5, step=1e-3)
        heights[name] = model.pose("world", "body", run.q)[..., 2, :3]
        print(f"roll rate {tilt:g} rad/s, {name:10} {run.outcome}, energy {run.invariants['energy'].drift:.1e} J")
    for name, color in (("quaternion", "#d55e00"), ("euler", "#009e73")):
        count = min(len(heights[name]), len(heights["matrix"]))
        error = np.max(np.abs(heights[name][:count] - heights["matrix"][:count]), axis=-1)
        axes.semilogy(
            run.t[:count], np.maximum(error, 1e-17), style, color=color, label=f"{name}, roll rate {tilt:g} rad/s"
        )
axes.set(xlabel="t in s", ylabel="difference from the rotation matrix", title="A body pitches over, step 1 ms")
axes.legend(fontsize="small")
finish(fig, out / "coordinates_comparison.png")
page(run, out / "coordinates_comparison.html")
