"""A coin that rolls without slipping on a table: pull it, tilt it, give it spin; the page shows that rolling keeps its energy."""

import numpy as np
from _example import folder

import heavytop as ht

out = folder(__doc__)
RADIUS, LEAN = 0.3, np.radians(20.0)
model = ht.library.rolling_disc(radius=RADIUS, mass=0.5).derive()
q = model.neutral().copy()
q[2] = RADIUS * np.cos(LEAN)
q[3:12] = ht.geometry.so3.rotation_about("x", LEAN).T.reshape(9)
run = ht.simulate(model, (q, [0.0, 6.0, 0.8]), until=10.0, step=1e-3, record_every=10)
run.report()
print(f"page: {run.show(out / 'live_rolling_disc.html', live=True)}")
