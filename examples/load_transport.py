"""A quadcopter carries a load that swings at the start: six poles placed by a mechanical prototype calm it on the way."""

import numpy as np
from _example import figure, finish, flown, folder

import heavytop as ht
from heavytop.control import hover

out = folder(__doc__)

quad = ht.copters.quadcopter_with_load(load_mass=0.25, cable=0.6)
print("poles of hovering:", np.unique(hover(quad.law(limits=False)).poles.round(2)))
transport = ht.maneuvers.transport(quad, to=(4.0, 0.0, 0.0), duration=4.0, swing=np.radians(25))
flight = ht.copters.fly(quad, transport)
print(f"swing at the end: {np.degrees(flight.swing_error[-1]):.2f} degrees")
flown(flight, out / "load_transport.html")

fig, axes = figure(figsize=(7, 4))
axes.plot(flight.t, np.degrees(flight.swing_error), color="#009e73", label="swing error in degrees")
axes.plot(flight.t, 100 * flight.position_error, color="#0072b2", label="distance of the hull in cm")
for time, label in transport.moments:
    axes.axvline(time, color="#97a3ae", ls=":")
    axes.annotate(label, (time, 24), rotation=90, va="top", ha="right", color="#55626e")
axes.set(xlabel="t in s", title="A load is carried over 4 m")
axes.legend()
finish(fig, out / "load_swing.png")
