"""The rigid body as a DAE: energy and length of the quaternion with projection and with discrete multipliers."""

import numpy as np
from common import BLUE, RED, plt, save
from heavytop_mechanics import ScalablePose, bodies

import heavytop as ht

body = bodies.scalable_body(1.5, np.diag([2.0, 1.4, 0.9]), rigid=True)
start = ScalablePose().neutral(), np.array([0.1, 0.2, 0.3, 0.0, 0.6, -1.1, 2.0])
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3))
for method, color, label in (
    ("projected_rk4", RED, "RK4, taken back onto the constraint"),
    ("energy_momentum", BLUE, "discrete gradient and multipliers"),
):
    run = ht.simulate(body, start, until=100.0, step=0.1, integrator=method)
    left.semilogy(run.t, np.abs(run.energy / run.energy[0] - 1) + 1e-17, color=color, lw=1, label=label)
    right.semilogy(run.t, np.abs(np.linalg.norm(run.q[:, 3:], axis=1) - 1) + 1e-17, color=color, lw=1)
left.set(xlabel="time in s", ylabel="error of the energy", ylim=(1e-17, 1))
right.set(xlabel="time in s", ylabel="$||A| - 1|$", ylim=(1e-17, 1))
left.legend(fontsize=8, loc="upper left")
figure.tight_layout()
save(figure, "energy_momentum")
