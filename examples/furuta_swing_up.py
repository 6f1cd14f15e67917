"""The rotary pendulum swings up along a plan and is stabilised upright by the energy-based law with specified poles."""

import numpy as np
from _example import figure, finish, folder, page

import heavytop as ht
from heavytop import control

out = folder(__doc__)

model = ht.library.furuta().derive()
plan = ht.plan(model, start=[0, np.pi], goal=[0, 0], duration=2.0, limits=(-0.3, 0.3), cost=ht.plan.Effort())
print(plan.report())

prototype = control.Prototype.for_model(model, poles=[-3, -4, -9 + 3j, -9 - 3j])
print(prototype.design.report())
law = control.energy_law(model, prototype, limits=(-0.6, 0.6))

rng = np.random.default_rng(0)
starts = np.array([0.0, np.pi]) + rng.normal(scale=0.02, size=(10, 2))
run = ht.simulate(
    model, (starts, np.zeros((10, 2))), until=6.0, step=1e-3, control=law, reference=plan.reference, record_every=10
)
upright = np.abs(np.sin(run.q[-1] / 2)).max(axis=-1) < 0.02
print(f"{np.mean(upright):.0%} of 10 disturbed starts stand upright after 6 s; poles {law.poles().round(2)}")

fig, (left, right) = figure(ncols=2, figsize=(10, 4))
left.plot(run.t, np.degrees(run.q[:, :, 1]), color="#0072b2", lw=0.8)
left.set(xlabel="t in s", ylabel="pendulum in degrees", title="ten starts along the plan, then held")
right.plot(run.t, run.u[:, :, 0], color="#d55e00", lw=0.6)
right.set(xlabel="t in s", ylabel="torque in N m", title="input")
finish(fig, out / "furuta_swing_up.png")
page(run, out / "furuta_swing_up.html")
