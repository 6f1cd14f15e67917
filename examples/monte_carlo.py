"""A thousand flights of a quadcopter from anywhere, upside down included, in one call."""

import numpy as np
from _example import figure, finish, folder, page

import heavytop as ht
from heavytop.geometry import se3, so3

out = folder(__doc__)

quad = ht.copters.quadcopter()
rng = np.random.default_rng(1)
count = 1000
angles = np.radians(rng.uniform(0, 175, count))
axes_of_turn = rng.standard_normal((count, 3))
axes_of_turn /= np.linalg.norm(axes_of_turn, axis=1, keepdims=True)
poses = se3.pose(so3.exp(angles[:, None] * axes_of_turn), rng.uniform(-3, 3, (count, 3)))
q = np.concatenate([poses[:, :3, 3], poses[:, :3, :3].swapaxes(1, 2).reshape(count, 9)], axis=1)
v = np.concatenate([rng.uniform(-2, 2, (count, 3)), rng.uniform(-4, 4, (count, 3))], axis=1)

run = ht.simulate(
    quad.model, (q, v), until=8.0, step=2e-3, control=quad.law(), reference=quad.model.neutral(), record_every=5
)
distance = np.linalg.norm(run.q[..., :3], axis=-1)
print(
    f"{np.sum(distance[-1] < 0.05)} of {count} are back within 5 cm after 8 s; {run.timing.steps_per_second:,.0f} steps/s"
)

fig, (left, right) = figure(ncols=2, figsize=(10, 4))
low, middle, high = np.quantile(distance, (0.05, 0.5, 0.95), axis=1)
left.fill_between(run.t, low, high, color="#56b4e9", alpha=0.5, label="5 to 95 %")
left.plot(run.t, middle, color="#0072b2", label="median")
left.set(xlabel="t in s", ylabel="distance in m", title=f"{count} flights home")
left.legend()
right.scatter(np.degrees(angles), -run.q[..., 2].min(axis=0) + q[:, 2], s=5, color="#d55e00")
right.set(xlabel="angle at the start in degrees", ylabel="height lost in m", title="loss of height")
finish(fig, out / "monte_carlo.png")
page(run, out / "monte_carlo.html")
