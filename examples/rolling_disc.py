"""A disc rolls without slipping: a nonholonomic system in minimal velocity coordinates, and the path of its contact point."""

import numpy as np
from _example import figure, finish, folder, page

import heavytop as ht

out = folder(__doc__)

model = ht.library.rolling_disc().derive()
print(f"{model.nq} coordinates, {model.nv} velocities: {', '.join(model.v_names)}")

fig, axes = figure(figsize=(6.5, 6))
for lean, color in ((0.1, "#0072b2"), (0.3, "#d55e00"), (0.5, "#009e73")):
    R = ht.geometry.so3.rotation_about("x", lean)
    q = model.neutral().copy()
    q[2] = 0.5 * np.cos(lean)
    q[3:12] = R.T.reshape(9)
    start = model.assemble(q, np.zeros(model.nv)) if model.is_constrained else (q, np.zeros(model.nv))
    v = np.array(start[1])
    v[:] = [0.0, 4.0, 0.6][: model.nv]  # rolling and a little turning
    run = ht.simulate(model, (start[0], v), until=10.0, step=1e-3, record_every=5)
    print(f"lean {np.degrees(lean):.0f} degrees: energy drift {run.invariants['energy'].drift:.1e} J")
    axes.plot(run["disc.x"], run["disc.y"], color=color, lw=1.3, label=f"{np.degrees(lean):.0f} degrees")
axes.set(xlabel="x in m", ylabel="y in m", title="Centre of a rolling disc, seen from above", aspect="equal")
axes.legend(title="lean at the start")
finish(fig, out / "rolling_disc.png")
page(run, out / "rolling_disc.html")
