"""Multicopters: vehicles with models, prototypes, limits and shapes; maneuvers; flights."""

from heavytop._gate import gate as _gate
from heavytop.copters import maneuvers as maneuvers
from heavytop.copters.airframe import Airframe as Airframe
from heavytop.copters.airframe import Hanging as Hanging
from heavytop.copters.airframe import Rotor as Rotor
from heavytop.copters.airframe import ring as ring
from heavytop.copters.catalogue import load as load
from heavytop.copters.conditions import Conditions as Conditions
from heavytop.copters.dead_rotor import dead_rotor_law as dead_rotor_law
from heavytop.copters.failover import Failover as Failover
from heavytop.copters.flight import Flight as Flight
from heavytop.copters.flight import fly as fly
from heavytop.copters.full import tricopter_with_load_full as tricopter_with_load_full
from heavytop.copters.limbs import Limb as Limb
from heavytop.copters.loads import load_prototype as load_prototype
from heavytop.copters.loads import quadcopter_with_load as quadcopter_with_load
from heavytop.copters.loads import tricopter_with_load as tricopter_with_load
from heavytop.copters.multicopter import hexacopter as hexacopter
from heavytop.copters.multicopter import multicopter as multicopter
from heavytop.copters.multicopter import octocopter as octocopter
from heavytop.copters.propulsion import Propulsion as Propulsion
from heavytop.copters.remaining import Remaining as Remaining
from heavytop.copters.remaining import remaining as remaining
from heavytop.copters.robust import agile_law as agile_law
from heavytop.copters.robust import agile_prototype as agile_prototype
from heavytop.copters.robust import robust_controller as robust_controller
from heavytop.copters.rotor_plant import RotorPlant as RotorPlant
from heavytop.copters.vehicle import Vehicle as Vehicle
from heavytop.copters.vehicles import bicopter as bicopter
from heavytop.copters.vehicles import quadcopter as quadcopter
from heavytop.copters.vehicles import tilting_thrusts as tilting_thrusts
from heavytop.copters.vehicles import tricopter as tricopter

_gate(__name__, "maneuvers")
