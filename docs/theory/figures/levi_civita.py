"""Geodesics of a torus: a free particle by the connection of its metric."""

import numpy as np
from common import BLUE, GREEN, GREY, RED, plt, save, trajectory
from heavytop_mechanics import levi_civita

from heavytop import matrix
from heavytop.coordinates import Vector

BIG, SMALL = 2.0, 0.8
c = Vector(2, ("around", "across"))
a = levi_civita.acceleration(c, lambda q: matrix([[(BIG + SMALL * np.cos(q[1])) ** 2, 0.0], [0.0, SMALL**2]]))


def place(around, across):
    r = BIG + SMALL * np.cos(across)
    return r * np.cos(around), r * np.sin(around), SMALL * np.sin(across)


figure = plt.figure(figsize=(8, 4))
axis = figure.add_subplot(projection="3d")
u, v = np.meshgrid(np.linspace(0, 2 * np.pi, 60), np.linspace(0, 2 * np.pi, 30))
axis.plot_surface(*place(u, v), color=GREY, alpha=0.15, linewidth=0)
t = np.linspace(0, 40, 1600)
for start, color in (([0.0, 0.0, 0.36, 0.25], BLUE), ([0.0, 0.0, 0.15, 1.2], RED), ([0.5, np.pi, 0.5, 0.02], GREEN)):
    run = trajectory(lambda z, t: np.concatenate([z[2:], a(z[:2], z[2:])]), np.array(start), t)
    axis.plot(*place(run[:, 0], run[:, 1]), color=color, lw=1)
axis.set_box_aspect((2.8, 2.8, 0.9), zoom=1.4)
axis.set_axis_off()
axis.view_init(50, 20)
axis.set_title(
    "free motion on a torus: oscillating about the outer equator, winding, leaving the inner one", fontsize=9
)
save(figure, "levi_civita")
