"""The acceleration energy of a double pendulum: the motion is where its slope equals the force."""

import numpy as np
from common import RED, plt, save
from heavytop_mechanics import ParticleSystem, gibbs_appell

from heavytop import vector
from heavytop.coordinates import Circle, Product

c = Product((Circle(), Circle()), names=("upper", "lower"))


def positions(q):
    upper = vector(q[1], -q[0], 0.0)
    return [upper, upper + vector(q[3], -q[2], 0.0)]


s = ParticleSystem(c, [1.0, 1.0], positions, gravity=(0, -9.81, 0))
q, v = np.array([np.cos(0.5), np.sin(0.5), np.cos(1.1), np.sin(1.1)]), np.array([1.0, -2.0])
best = gibbs_appell.acceleration(c, s.acceleration_energy, s.potential_energy)(q, v)
a1, a2 = np.meshgrid(np.linspace(-14, 10, 90), np.linspace(-16, 10, 90))
grid = np.stack([a1, a2], axis=-1)
S = s.acceleration_energy(q, v, grid)
objective = S + np.vecdot(s.potential_force(q), grid)

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4))
for axis, z, title in ((left, S, r"$S(a)$"), (right, objective, r"$S(a) - f \cdot a$")):
    drawn = axis.contourf(a1, a2, z, 18, cmap="Blues_r")
    figure.colorbar(drawn, ax=axis)
    axis.plot(*best, "o", color=RED)
    axis.set(xlabel="$a_1$ in rad/s²", ylabel="$a_2$ in rad/s²", title=title)
    axis.annotate("motion", best, best + np.array([1.0, 1.5]), color=RED)
left.quiver(*best, *-s.potential_force(q), color=RED, angles="xy", scale=80, width=0.01)
figure.tight_layout()
save(figure, "gibbs_appell")
