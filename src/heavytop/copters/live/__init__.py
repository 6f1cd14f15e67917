"""Flights in real time that obey commands: the cockpit without its window."""

from heavytop.copters.live.flight import LiveFlight as LiveFlight
from heavytop.copters.live.flight import Snapshot as Snapshot
from heavytop.copters.live.gains import Gain as Gain
from heavytop.copters.live.gains import Recipe as Recipe
from heavytop.copters.live.gains import recipe_of as recipe_of
