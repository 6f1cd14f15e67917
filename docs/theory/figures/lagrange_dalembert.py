"""A bead on a wire: applied force minus mass times acceleration is normal to the wire."""

import numpy as np
from common import BLUE, GREY, RED, plt, save, trajectory
from heavytop_mechanics import ParticleSystem

from heavytop import vector
from heavytop.coordinates import Vector

s = ParticleSystem(
    Vector(1), [1.0], lambda q: [vector(q[0], 0.4 * q[0] ** 2 + 0.2 * np.sin(3 * q[0]), 0.0)], gravity=(0, -9.81, 0)
)
t = np.linspace(0, 1.5, 13)
run = trajectory(lambda z, t: np.concatenate([z[1:], s.acceleration(z[:1], z[1:])]), np.array([-1.8, 0.0]), t)
q, v = run[:, :1], run[:, 1:]
r = s.position(q)[:, 0, :2]
lost = (s.applied_forces(q, v) - s.weighted(s.acceleration_of_particles(q, v, s.acceleration(q, v))))[:, 0, :2]

x = np.linspace(-2, 2, 200)
figure, axis = plt.subplots(figsize=(7, 3.6))
axis.plot(x, 0.4 * x**2 + 0.2 * np.sin(3 * x), color=GREY)
axis.plot(*r.T, "o", color="k", ms=4)
axis.quiver(
    *r.T, 0 * r[:, 0], -9.81 + 0 * r[:, 0], color=BLUE, angles="xy", scale=140, width=0.004, label="gravity $F$"
)
axis.quiver(
    *r.T,
    *lost.T,
    color=RED,
    angles="xy",
    scale=140,
    width=0.004,
    label=r"lost force $F - m\ddot r$: normal to the wire",
)
axis.set(aspect="equal", ylim=(-0.75, 1.8), xlabel="x in m", ylabel="y in m", title="positions at equal times")
axis.legend(fontsize=8, loc="upper center")
save(figure, "lagrange_dalembert")
