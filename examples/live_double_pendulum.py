"""A double pendulum to play with: the page simulates by itself; change a length or a mass while it swings, or pull a bob."""

from _example import folder

import heavytop as ht

out = folder(__doc__)
model = ht.library.double_pendulum().derive()
run = ht.simulate(model, ([2.0, 0.6], [0.0, 0.0]), until=10.0, step=1e-3, record_every=10)
run.report()
print(f"page: {run.show(out / 'live_double_pendulum.html', live=True)}")
