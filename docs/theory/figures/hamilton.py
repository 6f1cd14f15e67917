"""The flow of Hamilton's equations of a pendulum."""

import numpy as np
from common import BLUE, GREY, RED, plt, save, trajectory
from heavytop_mechanics import hamilton

from heavytop.coordinates import Circle

L = lambda q, v: 0.5 * v[0] ** 2 + q[0]  # noqa: E731
H = hamilton.Legendre(Circle(), L)
flow = hamilton.equations(Circle(), lambda q, p: H(q, p))
angle, p = np.meshgrid(np.linspace(-np.pi, np.pi, 121), np.linspace(-3, 3, 81))
q = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
value = H(q, p[..., None])

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4))
left.contour(angle, p, value, levels=np.linspace(-0.9, 4, 15), colors=GREY, linewidths=0.8)
left.contour(angle, p, value, levels=[1.0], colors=RED, linewidths=1.6)
coarse = np.s_[::8, ::8]
rates = flow(q[coarse], p[..., None][coarse])
left.quiver(angle[coarse], p[coarse], p[coarse], rates.p[..., 0], color=BLUE, width=0.004)
left.set(xlabel="angle", ylabel="momentum $p$", title="level sets of $H$ and the flow")
t = np.linspace(0, 30, 600)
run = trajectory(lambda z, t: np.concatenate(flow(z[:2], z[2:])), np.array([np.cos(2.0), np.sin(2.0), 0.3]), t)
error = H(run[:, :2], run[:, 2:]) - H(run[0, :2], run[0, 2:])
right.plot(t, error, color=BLUE)
right.set(xlabel="time in s", ylabel="$H(t) - H(0)$", title="conserved to the tolerance of the integrator")
figure.tight_layout()
save(figure, "hamilton")
