"""Bricard's mechanism: a loop of six bars that counting says is rigid, and that moves all the same."""

import numpy as np
from _example import figure, finish, folder, page

import heavytop as ht

out = folder(__doc__)

model = ht.library.bricard().derive()
q, v = model.assemble(model.neutral(), np.zeros(model.nv))
rank = np.linalg.matrix_rank(model.constraint_jacobian(q), tol=1e-8)
print(f"{model.nq} joint angles, {len(model.constraint_names)} constraints of rank {rank}")
run = ht.simulate(model, (q, v), until=10.0, step=2e-3, integrator="projected_rk4", record_every=5)
phi = np.max(np.abs(model.constraints(run.q)), axis=-1)
energy = run.energy - run.energy[0]
print(f"largest gap of the loop: {phi.max():.1e}; drift of the energy: {np.abs(energy).max():.1e} J")

fig, (left, right) = figure(ncols=2, figsize=(10, 4))
left.plot(run.t, np.degrees(run.q), lw=1.2, label=model.q_names)
left.set(xlabel="t in s", ylabel="degrees", title="joint angles")
left.legend(fontsize="small")
right.semilogy(run.t, np.maximum(phi, 1e-17), color="#d55e00", label="gap of the loop")
right.semilogy(run.t, np.maximum(np.abs(energy), 1e-17), color="#0072b2", label="energy in J")
right.set(xlabel="t in s", title="residuals")
right.legend()
finish(fig, out / "bricard.png")
page(run, out / "bricard.html")
