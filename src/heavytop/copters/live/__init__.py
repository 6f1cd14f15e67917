"""Flights in real time that obey commands: the cockpit without its window."""

from heavytop.copters.live.flight import LiveFlight as LiveFlight, Snapshot as Snapshot
from heavytop.copters.live.gains import Gain as Gain, Recipe as Recipe, recipe_of as recipe_of
from heavytop.copters.live.tuned_run import ScaledGain, tuned_run
