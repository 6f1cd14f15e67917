"""Swing up the rotary pendulum by hand: pull it with the mouse, and close to the upright position a regulator catches it."""

import numpy as np
from _example import folder

import heavytop as ht
from heavytop import control

out = folder(__doc__)
model = ht.library.furuta().derive()
regulator = control.lqr(model, [0.0, 0.0], Q=np.diag([1.0, 10.0, 0.2, 0.2]), R=[[5.0]])
CATCH, TORQUE = 0.45, 0.6
gains = dict(zip(("theta", "alpha", "theta rate", "alpha rate"), regulator.gains[0, 0], strict=True))


def catch(q, v, k):
    """The regulator where the pendulum is nearly upright, else no torque; angles within half a turn."""
    turn, lean = (np.arctan2(np.sin(q[i]), np.cos(q[i])) for i in range(2))
    wanted = -(k["theta"] * turn + k["alpha"] * lean + k["theta rate"] * v[0] + k["alpha rate"] * v[1])
    return ht.vector(np.where(np.abs(lean) < CATCH, np.minimum(np.maximum(wanted, -TORQUE), TORQUE), 0.0))


law = ht.Feedback(catch, ("q", "v", "gains"), gains=gains)
caught = ht.simulate(model, ([0.5, 0.35], [0.0, 0.0]), until=6.0, step=2e-3, control=law)
print(f"from 0.35 rad the regulator ends at {np.abs(caught.q[-1]).max():.1e} rad")
run = ht.simulate(model, ([0.0, np.pi], [0.0, 0.0]), until=10.0, step=2e-3, control=law, record_every=5)
print(f"page: {run.show(out / 'live_furuta.html', live=True)}")
