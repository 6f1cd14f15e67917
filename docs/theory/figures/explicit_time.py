"""Rest of a bead on a turning hoop, and the energy balance of a crane whose trolley is given."""

import numpy as np
from common import BLUE, GOLD, GREEN, plt, save

import heavytop as ht

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), gridspec_kw={"wspace": 0.35})
g, r = 9.81, 0.5
spin = np.linspace(0, 14, 400)
angle = np.degrees(np.arccos(np.minimum(g / (np.maximum(spin, 1e-9) ** 2 * r), 1.0)))
left.plot(spin, angle, color=BLUE, label=r"stable rest")
left.plot(spin, np.where(spin**2 > g / r, 0.0, np.nan), color=BLUE, ls=":", label="unstable")
left.axvline(np.sqrt(g / r), color="k", ls=":", lw=1)
left.set(xlabel=r"spin of the hoop $\Omega$ in rad/s", ylabel="angle of the bead in degrees")
left.legend(fontsize=8, loc="center", bbox_to_anchor=(0.72, 0.35))

system = ht.System(name="crane")
drive = ht.Prescribed(ht.Prismatic("x"), lambda t: 0.5 * np.sin(1.3 * t))
system.body("trolley", joint=drive, inertia=ht.Inertia(10.0))
system.body("load", parent="trolley", joint=ht.Revolute("y"), inertia=ht.Inertia(2.0, com=(0, 0, -1.2)))
model = system.derive()
for name, color in (("rkmk4", BLUE), ("rkmk6", GREEN), ("rkmk8", GOLD)):
    steps = np.array([0.2, 0.1, 0.05, 0.025])
    runs = [ht.simulate(model, ([0.5], [0.2]), until=4.0, step=h, integrator=name) for h in steps]
    right.loglog(steps, [run.invariants["energy"].drift for run in runs], "o-", color=color, label=name)
right.set(xlabel="step in s", ylabel=r"largest $|T + V - \int P\,dt|$ in J")
right.set_xticks(steps, [f"{h:g}" for h in steps])
right.minorticks_off()
right.legend(fontsize=8)
save(figure, "explicit_time")
