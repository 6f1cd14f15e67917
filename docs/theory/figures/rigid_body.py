"""A heavy top: the path of its tip on the sphere."""

import numpy as np
from common import BLUE, GREY, RED, plt, save, trajectory
from heavytop_mechanics import rigid_body

from heavytop.coordinates import Rotation
from heavytop.geometry import se3, so3

c = Rotation()
ring = np.array([[0.5 * np.cos(a), 0.5 * np.sin(a), 1.0] for a in np.linspace(0, 2 * np.pi, 6, endpoint=False)])
moments = rigid_body.moments(np.full(6, 0.3), ring)
theta = se3.Vee(moments)[3:, 3:]


def rate(z, t):
    g = se3.pose(c.rotation_matrix(z[:9]), np.zeros(3))
    xi = np.concatenate([np.zeros(3), z[9:]])
    force = rigid_body.inertia_force_from_moments(moments, xi, np.zeros(6)) + rigid_body.gravity_force_from_moments(
        moments, g, (0, 0, -9.81)
    )
    return np.concatenate([c.rate(z[:9], z[9:]), np.linalg.solve(theta, -force[3:])])


figure = plt.figure(figsize=(9, 3.6))
t = np.linspace(0, 6, 2500)
for k, (turn, spin) in enumerate((([0.0, 0.0], 18.0), ([0.0, 0.9], 18.0), ([0.0, -1.2], 18.0))):
    axis = figure.add_subplot(1, 3, k + 1, projection="3d")
    R = so3.exp(np.array([0.9, 0.0, 0.0]))
    start = np.concatenate([c.from_rotation_matrix(R), [turn[0], 0.0, spin] + R.T @ np.array([0, 0, turn[1] * 1.6])])
    run = trajectory(rate, start, t)
    tip = c.rotation_matrix(run[:, :9])[:, :, 2]
    u, v = np.meshgrid(np.linspace(0, 2 * np.pi, 30), np.linspace(0, 0.6 * np.pi, 12))
    axis.plot_wireframe(np.cos(u) * np.sin(v), np.sin(u) * np.sin(v), np.cos(v), color=GREY, lw=0.3, alpha=0.5)
    axis.plot(*tip.T, color=RED if k else BLUE, lw=1.2)
    axis.set_axis_off()
    axis.set_box_aspect((1, 1, 0.65), zoom=1.4)
    axis.view_init(40, 30)
    axis.set_title(("released at rest: cusps", "pushed along: waves", "pushed back: loops")[k], fontsize=9)
save(figure, "rigid_body")
