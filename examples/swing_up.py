"""Swing a pole on a cart up: planned with least effort, then stabilised along the plan by a regulator, from a disturbed start."""

import numpy as np
from _example import figure, finish, folder, page

import heavytop as ht
from heavytop import control

out = folder(__doc__)

cart = ht.library.cart_pole().derive()
plan = ht.plan(cart, start=[0, np.pi], goal=[0, 0], duration=2.0, limits=(-20, 20), cost=0.01 * ht.plan.Effort())
print(plan.report())

law = control.lqr(cart, plan.reference, inputs=plan.inputs, limits=(-20, 20))
rng = np.random.default_rng(0)
starts = np.array([0.0, np.pi]) + rng.normal(scale=[0.05, 0.1], size=(30, 2))
run = ht.simulate(cart, (starts, np.zeros((30, 2))), until=4.0, step=1e-3, control=law, record_every=10)
print(f"{np.mean(np.abs(run.q[-1]).max(axis=-1) < 0.05):.0%} of 30 disturbed starts end upright")

fig, (left, right) = figure(ncols=2, figsize=(10, 4))
left.plot(run.t, np.degrees(run.q[:, :, 1]), color="#0072b2", lw=0.6, alpha=0.6)
t = np.linspace(0, plan.duration, 300)
left.plot(t, np.degrees(plan.reference(t)[0][:, 1]), color="black", lw=1.5, label="plan")
left.set(xlabel="t in s", ylabel="pole in degrees", title="swing-up, and 30 disturbed starts")
left.legend()
right.step(plan.times, plan.u[:, 0], where="post", color="#d55e00")
right.set(xlabel="t in s", ylabel="force in N", title=f"planned input, defect {plan.accuracy:.0e}")
finish(fig, out / "swing_up.png")
page(run, out / "swing_up.html")
