"""A falling cat: an arm on a free-floating base turns the base by 20 degrees about an axis that none of its joints has."""

import numpy as np
from _example import figure, finish, folder

from heavytop.plan import problems
from heavytop.show import write_page
from heavytop.show.plan_report import plan_report

out = folder(__doc__)

plan = problems.arm_reorientation().plan()
print(plan.report())

t = np.linspace(0, plan.duration, 300)
q, _, _ = plan.reference(t)
fig, (left, right) = figure(ncols=2, figsize=(10, 4))
left.plot(np.degrees(q[:, 12]), np.degrees(q[:, 13]), color="#0072b2")
left.set(
    xlabel="shoulder in degrees", ylabel="elbow in degrees", title="the joints go around a loop ...", aspect="equal"
)
yaw, pitch, roll = (np.degrees(np.arcsin(np.clip(q[:, k], -1, 1))) for k in (4, 5, 8))
for values, label in ((yaw, "about z"), (pitch, "about y"), (roll, "about x")):
    right.plot(t, values, label=label)
right.set(xlabel="t in s", ylabel="base in degrees", title="... and the base has turned about z")
right.legend()
finish(fig, out / "free_arm.png")
print(f"page: {write_page(plan_report(plan), out / 'free_arm.html')}")
