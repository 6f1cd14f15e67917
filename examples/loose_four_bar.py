"""A four-bar linkage whose pins rattle in their bores: contact in a mechanism, the path of each pin, and the torque that it costs."""

import numpy as np
from _example import figure, finish, folder, page

import heavytop as ht

out = folder(__doc__)
model = ht.library.loose_four_bar().derive()
q, v = ht.library.start("loose-four-bar", model)
speed = ht.Feedback(lambda t, q, v: np.reshape(-200.0 * (v[0] - 6.0 * np.minimum(t / 0.3, 1.0)), (1,)), ("t", "q", "v"))
run = ht.simulate(model, (q, v), 2.5, 2e-4, "moreau", control=speed, hold="continuous", record_every=10)
run.report()

END = {"crank": 1.0, "coupler": 2.0, "rocker": -1.25}  # m along the body
HOLE = {"coupler": -2.0, "rocker": 1.25, "world": 3.0}
fig, axes = figure(ncols=4, figsize=(14, 3.6))
turn = np.linspace(0.0, 2.0 * np.pi, 200)
for ax, (name, bore) in zip(axes, {"crank": "coupler", "coupler": "rocker", "rocker": "world"}.items(), strict=False):
    pose = model.pose(bore, name, run.q)
    pin = pose[:, :3, 3] + END[name] * pose[:, :3, 0] - [HOLE[bore], 0.0, 0.0]
    ax.plot(5.0 * np.cos(turn), 5.0 * np.sin(turn), color="#8d99a6")
    ax.plot(*(1e3 * pin[:, :2].T), lw=0.7, color="#0072b2")
    ax.set(xlabel="x in mm", title=f"pin of the {name}", aspect="equal")
axes[3].plot(run.t, run.u[:, 0], lw=0.7, color="#d55e00")
axes[3].set(xlabel="t in s", ylabel="torque in N m", title="motor")
finish(fig, out / "loose_four_bar.png")
page(run, out / "loose_four_bar.html")
