"""Multicopters: vehicles with models, prototypes and limits."""

from heavytop.copters.vehicles import Vehicle as Vehicle
from heavytop.copters.vehicles import bicopter as bicopter
from heavytop.copters.vehicles import quadcopter as quadcopter
from heavytop.copters.vehicles import tilting_thrusts as tilting_thrusts
from heavytop.copters.vehicles import tricopter as tricopter
from heavytop.copters.vehicles import tricopter_with_load as tricopter_with_load
