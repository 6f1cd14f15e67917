"""A chain of particles on springs between two points, in wind."""

import numpy as np
from common import BLUE, GREY, RED, plt, save, trajectory
from heavytop_mechanics import Drag, ParticleSpring, ParticleSystem

from heavytop.coordinates import Vector

n = 9
springs = [ParticleSpring(60.0, i, i + 1) for i in range(n - 1)]
springs += [ParticleSpring(60.0, 0, (0.0, 0.0, 0.0)), ParticleSpring(60.0, n - 1, (2.0, 0.0, 0.0))]
s = ParticleSystem(
    Vector(3 * n),
    np.full(n, 0.1),
    lambda q: np.reshape(q, (n, 3)),
    gravity=(0, 0, -9.81),
    springs=springs,
    drags=[Drag(0.15, i, lambda t: np.stack([2.0 + 0 * t, 3 * np.sin(2 * t), 0 * t])) for i in range(n)],
)
start = np.zeros((2, n, 3))
start[0, :, 0] = np.linspace(0.2, 1.8, n)
t = np.linspace(0, 3, 301)
run = trajectory(
    lambda z, t: np.concatenate([z[3 * n :], s.acceleration(z[: 3 * n], z[3 * n :], t)]), start.reshape(-1), t
)

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4))
for k in range(0, 301, 30):
    r = run[k, : 3 * n].reshape(n, 3)
    line = np.concatenate([[[0, 0, 0]], r, [[2, 0, 0]]])
    left.plot(line[:, 0], line[:, 2], "-o", ms=3, lw=0.9, color=plt.cm.viridis(k / 301))
left.set(xlabel="x in m", ylabel="z in m", title="every 0.3 s", aspect="equal")
q, v = run[:, : 3 * n], run[:, 3 * n :]
right.plot(t, s.kinetic_energy(q, v), color=BLUE, label="T")
right.plot(t, s.potential_energy(q) - s.potential_energy(q)[0], color=RED, label="V - V(0)")
right.plot(t, s.dissipation(q, v, t), color=GREY, label="R in W")
right.set(xlabel="time in s", ylabel="J")
right.legend()
figure.tight_layout()
save(figure, "particles")
