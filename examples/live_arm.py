"""A Panda arm held by computed torque: pull it with the mouse and feel its stiffness; add mass to a link that the law does not know."""

import numpy as np
from _example import folder

import heavytop as ht
from heavytop import control

out = folder(__doc__)
model = ht.library.panda().derive()
pose = np.array([0.0, -0.4, 0.0, -2.0, 0.0, 1.8, 0.6])
law = control.computed_torque(model, stiffness=40.0, damping=12.0)
run = ht.simulate(model, (pose + 0.3, np.zeros(7)), until=6.0, step=2e-3, control=law, reference=pose, record_every=5)
print(f"error after 6 s: {np.abs(run.q[-1] - pose).max():.1e} rad")
print(f"page: {run.show(out / 'live_arm.html', live=True)}")
