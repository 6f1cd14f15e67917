"""The Chaplygin sleigh: no friction, no loss of energy, and yet it stops turning."""

import numpy as np
from _example import figure, finish, folder, page

import heavytop as ht

out = folder(__doc__)

model = ht.library.chaplygin_sleigh().derive()
print(f"velocity coordinates: {', '.join(model.v_names)}")

fig, (left, right) = figure(ncols=2, figsize=(10, 4.5))
for turning, color in ((1.0, "#0072b2"), (2.0, "#d55e00"), (4.0, "#009e73")):
    v = np.zeros(model.nv)
    v[:2] = 0.2, turning
    run = ht.simulate(model, (model.neutral(), v), until=20.0, step=1e-3, record_every=10)
    left.plot(run["sleigh.position.x"], run["sleigh.position.y"], color=color, lw=1.3)
    right.plot(run.t, run.v[:, 1], color=color, lw=1.3, label=f"{turning:g} at the start")
    print(f"start {turning:g}: ends with {run.v[-1, 1]:.1e}, energy drift {run.invariants['energy'].drift:.1e} J")
left.set(xlabel="x in m", ylabel="y in m", title="path", aspect="equal")
right.set(xlabel="t in s", ylabel=model.v_names[1], title="it straightens out")
right.legend()
finish(fig, out / "chaplygin_sleigh.png")
page(run, out / "chaplygin_sleigh.html")
