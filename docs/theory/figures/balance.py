"""A pendulum on a vibrating support: energy, Hamiltonian, and where both come from."""

import numpy as np
from common import BLUE, GREY, RED, plt, save, trajectory
from heavytop_mechanics import Drag, ParticleSystem, balance

from heavytop import vector
from heavytop.coordinates import Circle

s = ParticleSystem(
    Circle(),
    [1.0],
    lambda q, t: [vector(q[1], 0.1 * np.sin(8 * t) - q[0], 0.0)],
    gravity=(0, -9.81, 0),
    drags=(Drag(0.15, 0),),
)
c = s.coordinates
t = np.linspace(0, 6, 1201)
run = trajectory(
    lambda z, t: np.concatenate([c.rate(z[:2], z[2:]), s.acceleration(z[:2], z[2:], t)]),
    np.array([np.cos(1.0), np.sin(1.0), 0.0]),
    t,
)
q, v = run[:, :2], run[:, 2:]
a = s.acceleration(q, v, t)
energy = s.kinetic_energy(q, v, t) + s.potential_energy(q, t)
rate = balance.energy_rate(s)(q, v, a, t)
friction = balance.power(c, dissipation=s.dissipation)(q, v, t)
summed = np.concatenate([[0], np.cumsum((rate[1:] + rate[:-1]) / 2 * np.diff(t))])
lost = np.concatenate([[0], np.cumsum((friction[1:] + friction[:-1]) / 2 * np.diff(t))])

figure, axis = plt.subplots(figsize=(8, 3.4))
axis.plot(t, energy - energy[0], color=BLUE, label="$W = T + V$")
axis.plot(t[::25], summed[::25], "o", color="k", ms=3, label="integral of (3.43)")
axis.plot(t, balance.hamiltonian(s)(q, v, t) - energy[0], color=RED, lw=1, label=r"$\mathcal{H}$")
axis.plot(t, lost, color=GREY, ls="--", label="work of friction alone")
axis.set(xlabel="time in s", ylabel="J", title="the support pumps energy; the Hamiltonian is not the energy")
axis.legend(fontsize=8, ncols=2)
save(figure, "balance")
