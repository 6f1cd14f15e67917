"""Betaflight in lock-step: take-off, an eight in wind, a slung load, and a motor that fails; each flight with its page."""

from _example import flown, folder

from heavytop.copters import fly, quadcopter, quadcopter_with_load, stacks

out = folder(__doc__)
firmware = stacks.Betaflight()  # built once from its source distribution; gcc and make are needed
craft = quadcopter()

flights = {
    "takeoff": fly(craft, "takeoff", firmware),
    "eight": fly(craft, "eight", firmware, wind=3.0, rotors=True, until=8.0),
    "load": fly(quadcopter_with_load(load_mass=0.2, cable=1.0), "hover", firmware, wind=2.0, rotors=True, until=4.0),
    "failure": fly(craft, "hover", stacks.StackController(craft, firmware, failures={1: 1.0}), rotors=True, until=2.0),
}
for name, flight in flights.items():
    n = flight.numbers()
    print(f"{name:8} {flight.outcome}; at most {n['position error max [m]']:.2f} m from the reference")
    flown(flight, out / f"betaflight_{name}.html")
