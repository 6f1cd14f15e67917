"""Small oscillations of a four-bar and its two linear equations."""

import numpy as np
from common import BLUE, RED, plt, save

import heavytop as ht

model = ht.library.four_bars(1).derive()
q, _ = model.assemble([-np.pi / 2, -np.pi / 2, np.pi / 2])
A, _ = model.linearize(q, independent=("crank0",))
figure, axes = plt.subplots(figsize=(7, 3))
for size, color in ((0.1, BLUE), (0.6, RED)):
    start = model.assemble(q + size * np.array([1, 1, -1]), fixed=("crank0",))
    run = ht.simulate(model, start, until=5.0, step=1e-3, record_every=10)
    axes.plot(run.t, np.degrees(run.q[:, 0] - q[0]), color=color, label=f"released at {np.degrees(size):.0f} degrees")
    w = np.sqrt(-A[1, 0])
    axes.plot(run.t, np.degrees(size * np.cos(w * run.t)), "k--", lw=1)
axes.set(xlabel="time in s", ylabel="crank in degrees")
axes.legend(fontsize=8, loc="upper right")
save(figure, "linearization")
