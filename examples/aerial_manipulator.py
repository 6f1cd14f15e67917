"""A Y6 with a two-joint arm in wind: described, flown along an eight while the arm works, and shown."""

import numpy as np
from _example import flown, folder

import heavytop as ht
from heavytop.copters import Limb, Rotor, fly, multicopter

out = folder(__doc__)

# three arms with two propellers each, one above the other
rotors = [
    Rotor((0.3 * np.cos(a), 0.3 * np.sin(a), z), drag_ratio=spin * 0.02, thrust=(0.0, 9.0), radius=0.13)
    for a in (np.pi / 3, np.pi, -np.pi / 3)
    for z, spin in ((0.04, 1), (-0.04, -1))
]
arm = [
    Limb("upper", 0.15, tip=(0, 0, -0.25), at=(0, 0, -0.05), force=4.0, path=lambda t: 0.6 * np.sin(t)),
    Limb("lower", 0.10, tip=(0.2, 0, 0), parent="upper", force=2.0, path=lambda t: 0.5 * np.cos(1.3 * t)),
]
craft = multicopter(rotors, 1.8, (0.03, 0.03, 0.05), name="Y6 with arm", limbs=arm)

maneuver = ht.maneuvers.eight(craft)
maneuver.check().require()  # the common centre of mass on the eight, the joints on their paths: feasible within all limits
flight = fly(craft, maneuver, wind=4.0)
n = flight.numbers()
print(f"{craft.model.nu} inputs, {craft.model.nv} degrees of freedom, {craft.mass:.2f} kg")
print(f"hull: {100 * n['position error max [m]']:.1f} cm from the reference at most in wind of 4 m/s")
print(f"joints: {np.degrees(n['joint error max [rad]']):.1f} degrees at most")
print(f"thrusts {n['thrust least [N]']:.2f} to {n['thrust largest [N]']:.2f} N")
flown(flight, out / "aerial_manipulator.html")
