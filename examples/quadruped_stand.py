"""A quadruped from a URDF file lands on its feet and stands: contacts of the file, position servos, the stiff integrator."""

from pathlib import Path

import numpy as np
from _example import figure, finish, folder, page

import heavytop as ht

out = folder(__doc__)

file = Path(__file__).parent / "robots" / "quadruped.urdf"
robot = ht.load(
    file, base="free", contacts="feet", contact={"stiffness": 1e5, "slip_speed": 1e-3, "restitution": (0.1, 0.5)}
)
joints = [name for name in robot.limits if "hip" in name or "knee" in name]
for name in joints:
    robot.input(name, ht.JointForce(name))
model = robot.derive()
stance = np.array([0.6, -1.2] * 4)
servo = ht.Feedback(lambda q, v: -60.0 * (q[12:] - stance) - 1.5 * v[6:], ("q", "v"))

q = model.neutral()
q[2], q[12:] = 0.4 * np.cos(0.6) + 0.02 + 0.1, stance  # 0.1 m above the ground
run = ht.simulate(
    model,
    (q, np.zeros(model.nv)),
    until=2.0,
    step=2.5e-4,
    integrator="ros2",
    control=servo,
    hold="continuous",
    record_every=20,
)
print(run.outcome)
total = sum(contact.force[:, 2] for contact in run.contacts.values())
print(
    f"feet carry {total[-1]:.2f} N of {model.mass * 9.81:.2f} N; balance of energy to {run.invariants['energy'].relative:.0e}"
)

fig, ax = figure(figsize=(8, 4))
for name, contact in run.contacts.items():
    ax.plot(run.t, contact.force[:, 2], label=name, lw=1.0)
ax.plot(run.t, total, color="black", lw=0.8, ls="--", label="sum")
ax.set(xlabel="t in s", ylabel="vertical force in N", ylim=(0, 4 * model.mass * 9.81))
ax.legend()
finish(fig, out / "quadruped_stand.png")
page(run, out / "quadruped_stand.html")
