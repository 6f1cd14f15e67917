"""A bicopter flies an eight. It is not flat: a virtual copy of it flies ahead and makes the reference exactly feasible."""

from _example import flown, folder

import heavytop as ht

out = folder(__doc__)

bicopter = ht.copters.bicopter()
eight = ht.maneuvers.eight(bicopter, length=3.0, width=1.5, rate=0.9, laps=1)
print(f"force that no input supplies: {eight.check().largest_residual:.1e} N")
flight = ht.copters.fly(bicopter, eight)
print(f"largest distance from the reference: {1000 * flight.position_error.max():.3f} mm")
flown(flight, out / "bicopter_eight.html")
