"""A tricopter carries a load over three metres in least time; the load swings by at most 30 degrees, and by how much without that bound?"""

import numpy as np
from _example import figure, finish, folder

from heavytop.plan import problems
from heavytop.show import write_page
from heavytop.show.plan_report import plan_report

out = folder(__doc__)

fig, axes = figure(ncols=2, figsize=(11, 4), sharex=True)
for angle, color in ((np.radians(30), "#0072b2"), (np.radians(170), "#d55e00")):
    # a small cost on rotation: otherwise spinning is free, the optimum is flat and convergence takes minutes
    plan = problems.load_transport(angle=angle, turns=1e-3).plan(tolerance=1e-5)
    t = np.linspace(0, plan.duration, 400)
    q, _, _ = plan.reference(t)
    up = plan.model.pose("world", "load", q)[:, 2, 2]
    swing = np.degrees(np.arccos(np.clip(up, -1, 1)))
    label = f"swing up to {swing.max():.0f} degrees: {plan.duration:.2f} s"
    print(plan.report())
    axes[0].plot(t, swing, color=color, label=label)
    axes[1].plot(t, q[:, 0], color=color, label="x of the hull")
axes[0].set(xlabel="t in s", ylabel="load in degrees from the vertical", title="swing of the load")
axes[0].set_ylim(0, 75)
axes[0].legend()
axes[1].set(xlabel="t in s", ylabel="x in m", title="way of the vehicle")
finish(fig, out / "plan_load.png")
print(f"page: {write_page(plan_report(plan), out / 'plan_load.html')}")
