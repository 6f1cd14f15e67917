"""A free body that turns about its middle axis: it flips again and again, and four integrators keep its invariants differently."""

import numpy as np
from _example import figure, finish, folder, page

import heavytop as ht

out = folder(__doc__)

system = ht.System(gravity=(0, 0, 0), name="tennis racket")
system.body("racket", joint=ht.Spherical(), inertia=ht.Inertia(1.0, moment_at_com=(0.01, 0.02, 0.028)))
model = system.derive()
start = (np.eye(3).reshape(9), [0.01, 6.0, 0.01])

fig, (left, right) = figure(ncols=2, figsize=(10, 4))
for name, color in zip(
    ("rkmk4", "rkmk8", "energy_momentum", "variational"), ("#0072b2", "#d55e00", "#009e73", "#cc79a7"), strict=True
):
    run = ht.simulate(model, start, until=60.0, step=1e-2, integrator=name)
    error = np.abs(run.energy / run.energy[0] - 1)
    print(
        f"{name:16} energy {error.max():.1e}, angular momentum {max(i.relative for n, i in run.invariants.items() if 'angular' in n):.1e}"
    )
    right.semilogy(run.t, np.maximum.accumulate(np.maximum(error, 1e-17)), color=color, label=name)
    if name == "rkmk8":
        left.plot(run.t, run.v, label=["x", "y", "z"])
left.set(xlabel="t in s", ylabel="angular velocity in rad/s", title="it flips", xlim=(0, 30))
left.legend()
right.set(xlabel="t in s", ylabel="relative error of the energy", title="step 10 ms")
right.legend()
finish(fig, out / "tumbling_body.png")
page(run, out / "tumbling_body.html")
