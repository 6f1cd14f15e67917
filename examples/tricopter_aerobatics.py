"""A fully actuated tricopter turns on the spot, banks by 90 degrees and flies upside down; its page shows the tilting propellers."""

import numpy as np
from _example import flown, folder

import heavytop as ht

out = folder(__doc__)

tricopter = ht.copters.tricopter()
for name in ("hover-roll", "level-loop", "knife-edge", "inverted"):
    maneuver = ht.maneuvers.make(name, tricopter)
    least, largest = maneuver.thrusts()
    flight = ht.copters.fly(tricopter, maneuver)
    tilt = np.degrees(np.abs(np.unwrap(tricopter.airframe.tilts(flight.u), axis=0))).max()
    print(
        f"{name:11} thrusts {least.min():.2f} to {largest.max():.2f} N, tilt up to {tilt:.0f} degrees, "
        f"error {1000 * flight.position_error.max():.2f} mm"
    )
    if name == "hover-roll":
        flown(flight, out / "tricopter_aerobatics.html")
