"""An airframe of your own in TOML: six rotors on a long frame, flown in wind with an unknown payload."""

from _example import flown, folder

import heavytop as ht

out = folder(__doc__)

rotors = [(0.25, 0.15), (0.0, 0.3), (-0.25, 0.15), (-0.25, -0.15), (0.0, -0.3), (0.25, -0.15)]
text = """
name = "long hexacopter"
mass = 1.8
moment = [0.03, 0.025, 0.05]

[rotors]
thrust_coefficient = 9e-6
torque_coefficient = 1.6e-7
speed = [0.0, 950.0]
radius = 0.12
"""
for k, (x, y) in enumerate(rotors):
    text += f"\n[[rotor]]\nat = [{x}, {y}, 0.0]\ntorque = {1 if k % 2 else -1}\n"
path = out / "long_hexacopter.toml"
path.write_text(text, encoding="utf-8")

craft = ht.copters.load(path)
print(f"{craft.model.nu} rotors, {craft.virtual.nu} independent directions")
flight = ht.copters.fly(craft, "eight", wind=3.0, payload=0.2)
print(
    f"distance: {100 * flight.position_error.max():.1f} cm at most; thrusts {flight.thrusts.min():.2f} to {flight.thrusts.max():.2f} N"
)
flown(flight, out / "own_airframe.html")
