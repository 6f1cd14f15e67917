"""A free body by Euler-Lagrange, with and without the commutation coefficients."""

import numpy as np
from common import BLUE, GREEN, RED, plt, save, trajectory
from heavytop_mechanics import euler_lagrange

from heavytop.coordinates import Rotation

THETA = np.array([1.0, 2.0, 3.0])
c = Rotation()
a = euler_lagrange.acceleration(c, lambda q, w: 0.5 * np.vecdot(w, THETA * w))
t = np.linspace(0, 25, 1500)
start = np.concatenate([c.neutral(), [0.02, 1.5, 0.0]])
run = trajectory(lambda z, t: np.concatenate([c.rate(z[:9], z[9:]), a(z[:9], z[9:])]), start, t)

figure = plt.figure(figsize=(9, 3.4))
left = figure.add_subplot(1, 2, 1)
for i, (name, color) in enumerate(zip("xyz", (BLUE, RED, GREEN), strict=True)):
    left.plot(t, run[:, 9 + i], color=color, label=rf"$\omega_{name}$")
    left.plot(t, np.full_like(t, start[9 + i]), color=color, ls=":", lw=1)
left.set(xlabel="time in s", ylabel="rad/s", title=r"with $\gamma$ (lines) and without (dots)")
left.legend(loc="upper right", fontsize=8)
right = figure.add_subplot(1, 2, 2, projection="3d")
energy = 0.5 * np.sum(THETA * start[9:] ** 2)
u, v = np.meshgrid(np.linspace(0, 2 * np.pi, 40), np.linspace(0, np.pi, 20))
axes = np.sqrt(2 * energy / THETA)
right.plot_surface(
    axes[0] * np.cos(u) * np.sin(v), axes[1] * np.sin(u) * np.sin(v), axes[2] * np.cos(v), alpha=0.15, color=BLUE
)
for omega in ([0.02, 1.5, 0.0], [0.5, 1.4, 0.3], [1.8, 0.6, 0.4], [0.3, 0.5, 1.15]):
    w0 = np.array(omega) * np.sqrt(2 * energy / np.sum(THETA * np.square(omega)))
    curve = trajectory(lambda z, t: a(c.neutral(), z), w0, np.linspace(0, 30, 1500))
    right.plot(*curve.T, color=RED, lw=1.2)
right.set(title="the same on the energy ellipsoid", xticks=[], yticks=[], zticks=[])
right.set_box_aspect(axes, zoom=1.2)
save(figure, "euler_lagrange")
