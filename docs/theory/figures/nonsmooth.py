"""A ball that bounces, skids and rolls: height and energies, and the velocity of its contact point."""

import numpy as np
from common import BLUE, GREEN, RED, plt, save

import heavytop as ht

system = ht.System(name="ball")
system.body("ball", joint=ht.Free(velocity="mixed"), inertia=ht.Inertia.of(ht.Sphere(0.05), density=190.0))
system.ground()
system.contact("ball", "ground", ht.Sphere(0.05), friction=0.3, restitution=0.8)
model = system.derive()
q, v = model.neutral(), np.zeros(6)
q[2], v[0] = 1.05, 2.0
run = ht.simulate(model, (q, v), until=6.0, step=1e-3, integrator="moreau")
R = run.q[:, 3:12].reshape(-1, 3, 3).swapaxes(1, 2)
velocity, omega = run.v[:, :3], np.matvec(R, run.v[:, 3:])

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3))
left.plot(run.t, run.q[:, 2] - 0.05, color=BLUE, label="height in m")
left.plot(run.t, run.energy - run.energy[-1], color=RED, label="energy in J")
left.set(xlabel="time in s")
left.legend(fontsize=8)
right.plot(run.t, velocity[:, 0], color=BLUE, label="velocity of the centre")
right.plot(run.t, velocity[:, 0] - 0.05 * omega[:, 1], color=GREEN, label="of the contact point")
right.axhline(5 / 7 * 2.0, color=RED, lw=1, ls="--", label="5/7 of the first velocity")
right.set(xlabel="time in s", ylabel="m/s")
right.legend(fontsize=8)
figure.tight_layout()
save(figure, "nonsmooth")
