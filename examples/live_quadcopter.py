"""A quadcopter flies an eight in the page: turn its gains, switch on wind, pull it off its path and watch it return."""

from _example import folder

from heavytop.copters import fly, quadcopter

out = folder(__doc__)
flight = fly(quadcopter(), "eight")
print(f"largest distance from the reference: {1000 * flight.position_error.max():.2g} mm")
print(f"page: {flight.show(out / 'live_quadcopter.html', live=True)}")
