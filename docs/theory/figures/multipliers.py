"""The tension of a pendulum's rod is the multiplier of its length."""

import numpy as np
from common import BLUE, GREY, RED, plt, save, trajectory
from heavytop_mechanics import euler_lagrange, multipliers

from heavytop.coordinates import Circle, Vector

m, g = 1.0, 9.81
pendulum = multipliers.release(
    Vector(2), lambda q, v: 0.5 * m * np.vecdot(v, v) - m * g * q[1], lambda q: np.sqrt(np.vecdot(q, q)) - 1
)
a = euler_lagrange.acceleration(Circle(), lambda q, v: 0.5 * m * v[0] ** 2 + m * g * q[0])
t = np.linspace(0, 2.4, 240)
run = trajectory(
    lambda z, t: np.concatenate([Circle().rate(z[:2], z[2:]), a(z[:2], z[2:])]),
    np.array([np.cos(2.6), np.sin(2.6), 0.0]),
    t,
)
r = np.stack([run[:, 1], -run[:, 0]], axis=-1)
v = run[:, 2:] * np.stack([run[:, 0], run[:, 1]], axis=-1)
result = pendulum(r, v)

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4))
every = slice(None, None, 12)
left.plot(*r.T, color=GREY, lw=1)
left.quiver(*r[every].T, *result.force[every].T, color=RED, angles="xy", scale=150, width=0.006)
left.set(aspect="equal", title="force of the rod", xlabel="x in m", ylabel="y in m")
right.plot(t, -result.multipliers[:, 0], color=RED, label=r"$-\lambda$")
right.plot(t, m * (run[:, 2] ** 2 + g * run[:, 0]), color=BLUE, ls=":", lw=3, label=r"$m(l\dot\theta^2 + g\cos\theta)$")
right.axhline(0, color="k", lw=0.6)
right.set(xlabel="time in s", ylabel="tension in N", title="negative: the rod pushes")
right.legend()
figure.tight_layout()
save(figure, "multipliers")
