"""A quadcopter lands on compliant skids in wind: touch-down, forces of the skids, rest."""

import numpy as np
from _example import figure, finish, flown, folder

import heavytop as ht

out = folder(__doc__)

quad = ht.copters.quadcopter()
flight = ht.copters.fly(quad, ht.maneuvers.landing(quad, height=1.5, duration=2.5), wind=2.0)
skids = flight.run.contacts["skids"]
print(flight.outcome)
print(f"touch-down at {skids.touchdowns[0]:.2f} s, largest force {np.linalg.norm(skids.force, axis=-1).max():.1f} N")
print(
    f"at the end the skids carry {100 * skids.force[-1, 2] / quad.weight:.0f} % of the weight at {np.abs(flight.run.v[-1, :3]).max():.0e} m/s"
)

fig, (upper, lower) = figure(nrows=2, figsize=(8, 6), sharex=True)
upper.plot(flight.t, flight.pose()[:, 2, 3], color="#0072b2", label="hull")
upper.plot(flight.t, flight.pose(desired=True)[:, 2, 3], color="black", ls="--", lw=0.9, label="reference")
upper.axhline(0.0, color="#888888", lw=0.7)
upper.set(ylabel="height in m")
upper.legend()
lower.plot(flight.t, skids.force[:, 2], color="#d55e00", label="skids")
lower.plot(flight.t, flight.thrusts.sum(axis=1), color="#009e73", lw=0.9, label="thrust")
lower.axhline(quad.weight, color="#888888", lw=0.7, label="weight")
lower.set(xlabel="t in s", ylabel="force in N", ylim=(-1, 3 * quad.weight))
lower.legend()
finish(fig, out / "landing_forces.png")
flown(flight, out / "landing_quadcopter.html")
