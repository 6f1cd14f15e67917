"""A four-bar linkage whose lengths are sliders: the loop closes itself after each change, and the page reports where it cannot be closed."""

import numpy as np
from _example import folder

import heavytop as ht

out = folder(__doc__)
system = ht.System(gravity=(0.0, 0.0, -9.81), name="crank and rocker")
ground, crank, coupler, rocker = (
    system.parameter(name, value)
    for name, value in (("ground", 1.5), ("crank", 0.5), ("coupler", 1.4), ("rocker", 1.0))
)


def rod(length):
    """A slender rod of 1 kg/m from the joint along x."""
    thin = length**3 / 12
    return ht.Inertia(length, com=(length / 2, 0.0, 0.0), moment_at_com=(0.01 * thin, thin, thin))


system.body("crank bar", joint=ht.Revolute("y"), inertia=rod(crank))
system.body("coupler bar", parent="crank bar", at=(crank, 0.0, 0.0), joint=ht.Revolute("y"), inertia=rod(coupler))
system.body("rocker bar", at=(ground, 0.0, 0.0), joint=ht.Revolute("y"), inertia=rod(rocker))
system.loop("coupler bar", "rocker bar", ht.Revolute("y"), at_a=(coupler, 0.0, 0.0), at_b=(rocker, 0.0, 0.0))
system.input("motor", ht.JointForce("crank bar"))
model = system.derive()
start = model.assemble([-0.5, 0.2, -1.6], [-6.0, 0.0, 0.0], fixed=("crank bar",))
run = ht.simulate(model, start, until=10.0, step=1e-3, record_every=10)
run.report()
turns = np.ptp(run.q[:, 0]) / (2 * np.pi)
print(f"the crank turns {turns:.1f} times in 10 s")
print(f"page: {run.show(out / 'live_four_bar.html', live=True)}")
