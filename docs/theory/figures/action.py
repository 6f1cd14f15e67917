"""The action of curves close to a motion and close to a curve that is not a motion."""

import numpy as np
from common import BLUE, GREY, RED, plt, save, trajectory
from heavytop_mechanics import action, euler_lagrange

from heavytop.coordinates import Circle

c = Circle()
L = lambda q, v: 0.5 * v[0] ** 2 + 9.81 * q[0]  # noqa: E731
a = euler_lagrange.acceleration(c, L)
nodes = action.gauss_nodes(0.0, 0.9, 15)
t = np.concatenate([[0.0], nodes.t])
run = trajectory(
    lambda z, t: np.concatenate([c.rate(z[:2], z[2:]), a(z[:2], z[2:])]), np.array([np.cos(1.2), np.sin(1.2), 0.0]), t
)[1:]
end = np.arctan2(run[-1, 1], run[-1, 0])
angle = 1.2 + (end - 1.2) * nodes.t / 0.9  # constant speed: no motion of the pendulum
straight = np.stack([np.cos(angle), np.sin(angle)], axis=-1), np.full((len(angle), 1), (end - 1.2) / 0.9)
h = np.sin(np.pi * nodes.t / 0.9)[:, None]
h_rate = np.pi / 0.9 * np.cos(np.pi * nodes.t / 0.9)[:, None]

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2))
eps = np.linspace(-0.4, 0.4, 17)
for label, color, (q, v) in (("motion", BLUE, (run[:, :2], run[:, 2:])), ("constant speed", RED, straight)):
    values = []
    for e in eps:
        varied = action.varied_curve(c, q, v, h, h_rate, e)
        values.append(action.action(c, L, nodes, *varied))
        if abs(e) > 0:
            left.plot(nodes.t, np.arctan2(varied.q[:, 1], varied.q[:, 0]), color=GREY, lw=0.4)
    left.plot(nodes.t, np.arctan2(q[:, 1], q[:, 0]), color=color, label=label)
    slope = action.first_variation(c, L, nodes, q, v, h, h_rate)
    middle = values[len(eps) // 2]
    right.plot(eps, np.array(values) - middle, "o", color=color, ms=4)
    right.plot(eps, slope * eps, color=color, lw=1, ls="--", label=f"first variation {slope:.2g}")
left.set(xlabel="time in s", ylabel="angle", title="curves with the same ends")
left.legend()
right.set(xlabel=r"$\varepsilon$", ylabel=r"$J(\varepsilon) - J(0)$", title="their actions", ylim=(-1, 1))
right.legend()
figure.tight_layout()
save(figure, "action")
