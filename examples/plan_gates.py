"""A quadcopter through three gates in least time: the plan, and which thrusts limit it."""

import numpy as np
from _example import figure, finish, folder

from heavytop.plan import problems
from heavytop.show import write_page
from heavytop.show.plan_report import plan_report

out = folder(__doc__)

task = problems.quadcopter_gates()
plan = task.plan()
print(plan.report())

t = np.linspace(0, plan.duration, 400)
q, v, _ = plan.reference(t)
fig, (left, right) = figure(ncols=2, figsize=(11, 4), width_ratios=(3, 2))
left.plot(q[:, 0], q[:, 1], color="#0072b2")
axis = q[::12, 9:12]  # the thrust axis
left.quiver(q[::12, 0], q[::12, 1], axis[:, 0], axis[:, 1], color="#d55e00", width=0.003, label="thrust axis")
for k, place in enumerate([(3, 2, 1), (6, -2, 2), (9, 0, 1)]):
    left.plot(*place[:2], "o", ms=12, mfc="none", mec="black")
    left.annotate(
        f"gate {k + 1}: {plan.phase_times[k]:.2f} s", place[:2], (-8, (-18, 14, 14)[k]), textcoords="offset points"
    )
left.set(
    xlabel="x in m",
    ylabel="y in m",
    title=f"three gates in {plan.duration:.3f} s, from above",
    ylim=(-2.8, 2.8),
    aspect="equal",
)
left.legend(loc="lower left")
for name, thrust in zip(task.model.u_names, plan.u.T, strict=True):
    right.step(plan.times, thrust, where="post", lw=0.9, label=name)
right.set(xlabel="t in s", ylabel="thrust in N", ylim=(-1.5, 7.5), title="some limit is active nearly always")
right.legend(ncols=4, loc="lower center")
finish(fig, out / "plan_gates.png")
print(f"page: {write_page(plan_report(plan), out / 'plan_gates.html')}")
