"""A rolling cylinder: every particle accelerates differently, the spatial acceleration is one constant vector."""

import numpy as np
from common import BLUE, GREY, RED, plt, save
from heavytop_mechanics import spatial_newton_euler as sne

from heavytop.geometry import spatial

speed, radius = 1.0, 0.5
figure, axis = plt.subplots(figsize=(8, 3.2))
for k, t in enumerate((0.0, 0.9, 1.8)):
    velocity, acceleration = sne.rolling_cylinder(speed, radius, t)
    centre = np.array([speed * t, 0.0, radius])
    angle = np.linspace(0, 2 * np.pi, 13)[:-1] - speed / radius * t
    rim = centre + radius * np.stack([np.cos(angle), 0 * angle, np.sin(angle)], axis=-1)
    particles = spatial.point_acceleration(velocity, acceleration, rim)
    circle = np.linspace(0, 2 * np.pi, 100)
    axis.plot(centre[0] + radius * np.cos(circle), radius + radius * np.sin(circle), color=GREY)
    axis.quiver(
        rim[:, 0],
        rim[:, 2],
        particles[:, 0],
        particles[:, 2],
        color=BLUE,
        angles="xy",
        scale=25,
        width=0.003,
        label="particles" if not k else None,
    )
    axis.quiver(
        0,
        0,
        acceleration[3],
        acceleration[5],
        color=RED,
        angles="xy",
        scale=12,
        width=0.006,
        label="spatial, at the frame" if not k else None,
    )
    axis.plot(centre[0], radius, "o", color="k", ms=3)
axis.plot([-0.7, 2.6], [0, 0], color="k", lw=1)
axis.plot(0, 0, "s", color=RED)
axis.set(aspect="equal", xlim=(-0.8, 2.6), ylim=(-0.15, 1.15), title=r"$A = (0, 0, 0;\ 0, 0, v^2/r)$ at every time")
axis.grid(False)
axis.legend(fontsize=8, loc="upper right")
save(figure, "spatial_newton_euler")
