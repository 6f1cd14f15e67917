"""Energy of a slider-crank near its singular configuration."""

import numpy as np
from common import BLUE, RED, plt, save

import heavytop as ht

rod = ht.Inertia(1.0, com=(0.5, 0, 0), moment_at_com=(1e-3, 1 / 12, 1 / 12))
system = ht.System(name="slider-crank")
system.body("crank", joint=ht.Revolute("y"), inertia=rod)
system.body("rod", parent="crank", at=(1, 0, 0), joint=ht.Revolute("y"), inertia=rod)
system.body("slider", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
system.loop("slider", "rod", ht.Revolute("y"), at_b=(1.0001, 0, 0), name="pin")
model = system.derive()
start = model.assemble([0.5, -1.0, 1.7], [3.0, 0.0, 0.0], fixed=("crank",))
figure, axes = plt.subplots(figsize=(7, 3))
for method, color in (("rkmk4", RED), ("rkmk45", BLUE)):
    run = ht.simulate(model, start, until=4.0, step=2e-3, integrator=method)
    error = np.abs(run.energy - run.energy[0]) / np.max(run.kinetic_energy)
    axes.semilogy(run.t, error + 1e-16, color=color, label=f"{method}: {run.outcome.ending.value}")
    axes.plot(run.t[-1], error[-1] + 1e-16, "o", color=color)
axes.set(xlabel="time in s", ylabel="error of the energy", ylim=(1e-13, 1e-1), xlim=(0, 4.1))
axes.legend(fontsize=8)
save(figure, "singular_configurations")
