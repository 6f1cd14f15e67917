"""The heavy top: nutation and precession on the sphere, without angles and their singularities."""

import numpy as np
from _example import figure, finish, folder, page

import heavytop as ht

out = folder(__doc__)

model = ht.library.heavy_top().derive()
identity = np.eye(3).T.reshape(9)
paths = {}
for spin in (30.0, 60.0, 150.0):
    run = ht.simulate(
        model, (identity, [0.0, spin, -4.61538]), until=3.0, step=2e-4, integrator="rkmk6", record_every=20
    )
    R = run.q.reshape(-1, 3, 3).swapaxes(1, 2)  # stored column by column
    paths[spin] = R @ [0.0, 1.0, 0.0]
    print(f"spin {spin:g} rad/s: {', '.join(f'{n} {i.drift:.1e} {i.unit}' for n, i in run.invariants.items())}")

fig, axes = figure(figsize=(6.5, 6), subplot_kw={"projection": "3d"})
u, v = np.meshgrid(np.linspace(0, 2 * np.pi, 40), np.linspace(0, np.pi, 20))
axes.plot_wireframe(np.cos(u) * np.sin(v), np.sin(u) * np.sin(v), np.cos(v), color="#c8d0d7", lw=0.4)
for (spin, path), color in zip(paths.items(), ("#0072b2", "#d55e00", "#009e73"), strict=True):
    axes.plot(*path.T, color=color, lw=1.4, label=f"{spin:g} rad/s")
axes.set(xlabel="x", ylabel="y", zlabel="z", title="Path of the centre of mass of the heavy top")
axes.set_aspect("equal")
axes.legend(title="spin")
finish(fig, out / "heavy_top.png")
page(run, out / "heavy_top.html")
