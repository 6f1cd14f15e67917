"""A plate in a whirl: the fluid carries it until the dissipation vanishes."""

import numpy as np
from common import BLUE, GREEN, RED, plt, save, trajectory
from heavytop_mechanics import rayleigh, rigid_body

from heavytop.coordinates import Pose
from heavytop.geometry import se3

pose = Pose()
points = np.array([[x, y, 0.0] for x in (-0.5, 0.5) for y in (-0.2, 0.2)])
mass = se3.Vee(rigid_body.moments(np.full(4, 0.25), points))
damping = se3.Vee(rigid_body.moments(np.full(4, 0.2), points))
whirl = np.array([0.0, 0, 0, 0, 0, 1.0])  # the fluid turns about the world's z axis


def rate(z, t):
    g, xi = pose.pose(z[:12]), z[12:]
    force = -(damping @ rayleigh.relative_twist(g, xi, np.eye(4), whirl))
    hold = -1.0 * g[:3, 3]  # a spring that keeps the plate near the centre
    wrench = np.concatenate([g[:3, :3].T @ hold, np.zeros(3)])
    return np.concatenate([pose.rate(z[:12], xi), rigid_body.acceleration(mass, g, xi, force=force + wrench)])


t = np.linspace(0, 20, 400)
start = np.concatenate([pose.from_pose(se3.pose(np.eye(3), np.array([1.2, 0.0, 0.0]))), np.zeros(6)])
run = trajectory(rate, start, t)
relative = np.stack(
    [
        rayleigh.relative_twist(g, xi, np.eye(4), whirl)
        for g, xi in zip(pose.pose(run[:, :12]), run[:, 12:], strict=True)
    ]
)

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4))
grid = np.stack(np.meshgrid(np.linspace(-1.4, 1.4, 9), np.linspace(-1.4, 1.4, 9)), axis=-1)
left.quiver(grid[..., 0], grid[..., 1], -grid[..., 1], grid[..., 0], color=BLUE, alpha=0.35, width=0.004)
left.plot(run[:, 0], run[:, 1], color=RED)
for k in range(0, 400, 50):
    corners = se3.transform(pose.pose(run[k, :12]), points[[0, 1, 3, 2, 0]])
    left.plot(corners[:, 0], corners[:, 1], color="k", lw=0.8)
left.set(aspect="equal", title="plate on a spring in a whirl", xlabel="x in m", ylabel="y in m")
right.plot(t, run[:, 17], color=GREEN, label="angular velocity in rad/s")
right.plot(t, rigid_body.kinetic_energy(damping, relative), color=RED, label=r"$\mathcal{R}$ in W")
right.axhline(1.0, color=BLUE, ls=":", label="of the fluid")
right.set(xlabel="time in s")
right.legend(fontsize=8)
figure.tight_layout()
save(figure, "rayleigh")
