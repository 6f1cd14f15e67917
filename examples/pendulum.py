"""A pendulum from its description: equations, a batch of motions, phase portrait."""

import numpy as np
from _example import figure, finish, folder, page

import heavytop as ht

out = folder(__doc__)

system = ht.System(name="pendulum")
system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -0.5), moment_at_com=(1 / 12, 1 / 12, 0)))
model = system.derive()
print(model.equations().text())

# 41 motions with different speeds at the bottom, in one call
speeds = np.linspace(-12.0, 12.0, 41)[:, None]
run = ht.simulate(model, (np.zeros((41, 1)), speeds), until=3.0, step=1e-3, record_every=5)
energy = run.energy
print(f"largest relative drift of the energy: {np.max(np.abs(energy / energy[0] - 1)):.1e}")

fig, axes = figure(figsize=(7, 4.5))
angle = np.where(np.abs(run.q[..., 0]) < 2 * np.pi, run.q[..., 0], np.nan)
axes.plot(angle, run.v[..., 0], color="#0072b2", lw=0.8)
critical = np.sqrt(2 * 9.81 * 1.0 / (1 / 3))  # from the bottom just to the top
theta = np.linspace(-2 * np.pi, 2 * np.pi, 400)
for sign in (1, -1):
    axes.plot(
        theta,
        sign * critical * np.abs(np.cos(theta / 2)),
        color="#d55e00",
        lw=2,
        label="separatrix" if sign > 0 else None,
    )
axes.set(xlabel="angle in rad", ylabel="angular velocity in rad/s", title="Phase portrait of a rod", xlim=(-6.3, 6.3))
axes.legend()
finish(fig, out / "pendulum.png")
page(run, out / "pendulum.html", index=24)
