"""Six points and directions of unified velocities, and the unstable rotation seen by them."""

import numpy as np
from common import BLUE, GREY, RED, plt, save, trajectory
from heavytop_mechanics import unified

from heavytop.coordinates import UnifiedPose

pose = UnifiedPose("hexahedral")
figure = plt.figure(figsize=(10, 3.6))
for k, (name, chosen) in enumerate((("hexahedral", pose), ("tetrahedral", UnifiedPose("tetrahedral")))):
    axis = figure.add_subplot(1, 3, k + 1, projection="3d")
    y, b = chosen.points, chosen.directions
    axis.scatter(*y.T, color="k", s=12)
    axis.quiver(*y.T, *(0.8 * b / np.linalg.norm(b, axis=1, keepdims=True)).T, color=RED)
    if name == "hexahedral":
        for a in (-1, 1):
            for b_side in (-1, 1):
                for edge in (
                    ([-1, 1], [a, a], [b_side] * 2),
                    ([a, a], [-1, 1], [b_side] * 2),
                    ([a, a], [b_side] * 2, [-1, 1]),
                ):
                    axis.plot(*edge, color=GREY, lw=0.7)
    else:
        corners = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
        for i in range(4):
            for j in range(i):
                axis.plot(*corners[[i, j]].T, color=GREY, lw=0.7)
    axis.set_axis_off()
    axis.set_box_aspect((1, 1, 1), zoom=1.05)
    axis.set_title(name, fontsize=10)
axis = figure.add_subplot(1, 3, 3)
J = np.diag([5.2988, 1.1775, 4.3568])
t = np.linspace(0, 1, 800)
run = trajectory(
    lambda w, t: unified.acceleration(pose, 1.0, J, w), pose.unified_velocity(np.array([0, 0, 0, 0.01, 0, 100.0])), t
)
for i in (0, 2, 4):
    axis.plot(t, run[:, i], color=(BLUE, RED, "k")[i // 2], label=f"$w_{i + 1} = w_{i + 2}$", lw=1.2)
axis.set(xlabel="time in s", title="unstable rotation, speeds only")
axis.legend(fontsize=8)
save(figure, "unified")
