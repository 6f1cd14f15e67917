"""A spinning body that may grow, and the force that would keep it rigid."""

import numpy as np
from common import BLUE, GREEN, GREY, RED, plt, save, trajectory
from heavytop_mechanics import ScalablePose, scalable_body as sb

theta = np.diag([2.0, 1.4, 0.9])
mass = sb.mass_matrix(1.5, theta)
c = ScalablePose()
start = np.concatenate([c.neutral(), [0, 0, 0, 0.0, 0.1, 0.2, 2.0]])
t = np.linspace(0, 4, 200)
free = trajectory(lambda z, t: np.concatenate([c.rate(z[:7], z[7:]), sb.acceleration(mass, z[:7], z[7:])]), start, t)
rigid = trajectory(
    lambda z, t: np.concatenate([c.rate(z[:7], z[7:]), sb.rigid_acceleration(mass, z[:7], z[7:]).acceleration]),
    start,
    t,
)

figure, (left, middle, right) = plt.subplots(1, 3, figsize=(10.5, 3.2))
box = np.array([[1, 0.5, 0], [-1, 0.5, 0], [-1, -0.5, 0], [1, -0.5, 0], [1, 0.5, 0]]) * 0.5
for k in range(0, 200, 33):
    corners = np.stack([c.position(free[k, :7], y) for y in box])
    left.plot(corners[:, 0], corners[:, 1], color=plt.cm.viridis(k / 200))
left.set(aspect="equal", title="a spinning scalable plate", xticks=[], yticks=[])
s = np.vecdot(free[:, 3:7], free[:, 3:7])
middle.plot(t, s, color=BLUE, label="integrated")
middle.plot(
    t[::15], sb.free_scale(theta, 1.0, 0.0, [0.1, 0.2, 2.0], t[::15]), "o", color="k", ms=3, label="closed form"
)
middle.plot(t, np.vecdot(rigid[:, 3:7], rigid[:, 3:7]), color=GREY, label="with the constraint")
middle.set(title="scale $s = |A|^2$", xlabel="time in s")
middle.legend(fontsize=8)
right.plot(
    t,
    np.linalg.norm(sb.angular_momentum(theta, free[:, :7], free[:, 7:]), axis=-1),
    color=GREEN,
    label="angular momentum, scalable",
)
right.plot(t, sb.scaling_force(theta, rigid[:, 11:]), color=RED, label=r"$\lambda$ of the rigid body in N m")
right.set(title="conserved, and held together", xlabel="time in s")
right.legend(fontsize=8)
figure.tight_layout()
save(figure, "scalable_body")
