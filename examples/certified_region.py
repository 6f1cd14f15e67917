"""Which pushes does a balanced pole survive for certain: proven region of attraction compared with flights."""

import numpy as np
from _example import figure, finish, folder

import heavytop as ht
from heavytop import control

out = folder(__doc__)

model = ht.library.cart_pole().derive()
law = control.lqr(model, [0.0, 0.0])
found = law.certified_region(radius=0.8)
print(found.report())
print("states in the region at which V increases, of 200,000:", found.counterexamples(200_000))

# angles and rates of the pole, cart at rest in place
angle, rate = np.meshgrid(np.linspace(-1.4, 1.4, 41), np.linspace(-8, 8, 41), indexing="ij")
starts = np.stack([0 * angle, angle], -1).reshape(-1, 2), np.stack([0 * rate, rate], -1).reshape(-1, 2)
run = ht.simulate(
    model, starts, 8.0, 4e-3, control=law, hold="continuous", record_every=10**9, balance=False, progress=False,
    raise_on_failure=False,
)  # fmt: skip
back = np.isfinite(run.q[-1]).all(-1) & (np.abs(np.nan_to_num(run.q[-1], nan=9.0)).max(-1) < 0.05)

fig, ax = figure(figsize=(6, 4.2))
ax.contourf(np.degrees(angle), rate, back.reshape(angle.shape), levels=[0.5, 1.5], colors=["#cfe3f1"])
P = found.P[np.ix_([1, 3], [1, 3])]
turn = np.linspace(0, 2 * np.pi, 200)
edge = found.radius * np.linalg.solve(np.linalg.cholesky(P).T, np.stack([np.cos(turn), np.sin(turn)]))
ax.plot(np.degrees(edge[0]), edge[1], color="#d55e00")
ax.set(xlabel="pole in degrees", ylabel="rate in rad/s", title="returns in flights (blue), proven (line); cart at rest")
finish(fig, out / "certified_region.png")
