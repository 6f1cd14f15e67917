"""A quadcopter flies a looping within the limits of its rotors: feasibility, flight, page."""

from _example import flown, folder

import heavytop as ht

out = folder(__doc__)

quad = ht.copters.quadcopter()
loop = ht.maneuvers.looping(quad, radius=1.5, turn=3.6)
print(loop.check().report())
loop.check().require()  # raises an error if it is infeasible

flight = ht.copters.fly(quad, loop)
for name, value in flight.numbers().items():
    print(f"{name:28} {value:.4g}")
flown(flight, out / "quadcopter_looping.html")
