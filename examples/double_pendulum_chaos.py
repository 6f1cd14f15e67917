"""Two hundred double pendulums that start within a millionth of a degree: chaos, and its exact invariants."""

import numpy as np
from _example import figure, finish, folder, page

import heavytop as ht

out = folder(__doc__)

model = ht.library.double_pendulum().derive()
count = 200
q = np.tile([2.2, 2.6], (count, 1)) + np.radians(1e-6) * np.linspace(-0.5, 0.5, count)[:, None]
run = ht.simulate(model, (q, np.zeros((count, 2))), until=20.0, step=1e-3, record_every=10)

spread = np.std(run.q[..., 1], axis=1)
drift = np.max(np.abs(run.energy - run.energy[0]))
early = (spread > 1e-8) & (spread < 1e-1)
rate = np.polyfit(run.t[early], np.log(spread[early]), 1)[0]
print(f"errors grow like exp({rate:.2f} t); the energy of all {count} drifts by at most {drift:.1e} J")
print(f"{run.timing.steps_per_second:,.0f} steps/s")

fig, (left, right) = figure(ncols=2, figsize=(10, 4))
left.plot(run.t, run.q[:, ::10, 1], lw=0.7, color="#0072b2", alpha=0.6)
left.set(xlabel="t in s", ylabel="lower angle in rad", title="twenty of them")
right.semilogy(run.t[1:], spread[1:], color="#d55e00")
right.set(xlabel="t in s", ylabel="standard deviation in rad", title=f"spread, rate {rate:.2f} 1/s")
finish(fig, out / "double_pendulum_chaos.png")
page(run, out / "double_pendulum_chaos.html")
