"""A snakeboard at rest with straight wheels moves one metre ahead: rotor and wheels have to swing, no force pushes it."""

import numpy as np
from _example import figure, finish, folder

import heavytop as ht

out = folder(__doc__)

board = ht.library.snakeboard().derive()
goal = board.neutral()
goal[0] = 1.0
limits = dict.fromkeys(("front.angle", "back.angle"), (-1.2, 1.2))  # at 90 degrees the wheels do not guide the board
plan = ht.plan(board, board.neutral(), goal, 6.0, limits=limits)
print(plan.report())
t = np.linspace(0, plan.duration, 300)
q, v, _ = plan.reference(t)
print(f"largest sideways velocity of a wheel: {np.abs(board.constraint_residuals(q, v)[1]).max():.1e} m/s")
print(f"page: {plan.show(out / 'plan_snakeboard.html')}")
fig, (way, angle, torque) = figure(ncols=3, figsize=(14, 4))
for column, name, color in zip(
    q.T, ("x in m", "y in m", "heading in rad"), ("#0072b2", "#d55e00", "#009e73"), strict=False
):
    way.plot(t, column, color=color, label=name)
way.set(xlabel="t in s", title="board")
way.legend()
for name, color in (("rotor", "#0072b2"), ("front", "#d55e00"), ("back", "#009e73")):
    angle.plot(t, q[:, board.q_names.index(f"{name}.angle")], color=color, label=name)
angle.set(xlabel="t in s", ylabel="angle in rad", title="rotor and wheels")
angle.legend()
for u, name, color in zip(plan.u.T, board.u_names, ("#0072b2", "#d55e00", "#009e73"), strict=True):
    torque.step(plan.times, u, where="post", color=color, label=name)
torque.set(xlabel="t in s", ylabel="torque in N m", title="torques")
torque.legend()
finish(fig, out / "plan_snakeboard.png")
