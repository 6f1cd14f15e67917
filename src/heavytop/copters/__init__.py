"""Multicopters: vehicles with models, prototypes, limits and shapes; maneuvers; flights."""

from typing import TYPE_CHECKING

from heavytop._elsewhere import missing_from
from heavytop.copters import maneuvers as maneuvers, stacks as stacks
from heavytop.copters.airframe import Airframe as Airframe, Hanging as Hanging, Rotor as Rotor, ring as ring
from heavytop.copters.authority import Authority as Authority
from heavytop.copters.battery import Battery as Battery
from heavytop.copters.catalogue import load as load
from heavytop.copters.command_plant import CommandPlant as CommandPlant
from heavytop.copters.composition import (
    LAW_NAMES,
    LONGEST_DELAY,
    ROBUST,
    Composition,
    Conditions as Conditions,
    as_law,
    integral_action,
    on_grid,
)
from heavytop.copters.failover import Failover as Failover
from heavytop.copters.flight import (
    Flight as Flight,
    angle_between,
    at_limits,
    change_per_sample,
    commands_of,
    desired_poses,
    distance_between,
    flown_poses,
    fly as fly,
)
from heavytop.copters.limbs import Limb as Limb
from heavytop.copters.live.flight import HOVER, SPEEDS, LiveFlight, Snapshot, vehicle_names
from heavytop.copters.live.gains import Recipe, StoredGains, Tunable, recipe_of, tunable
from heavytop.copters.live.tuned_run import ScaledGain, tuned_run
from heavytop.copters.loads import (
    quadcopter_with_load as quadcopter_with_load,
    tricopter_with_load as tricopter_with_load,
)
from heavytop.copters.performance import (
    hover_power as hover_power,
    hover_time as hover_time,
    largest_payload as largest_payload,
    lifted_payload as lifted_payload,
)
from heavytop.copters.propulsion import Propulsion as Propulsion, typical_propulsion
from heavytop.copters.robust_controller import (
    agile_frequencies as agile_frequencies,
    agile_law as agile_law,
    agile_prototype as agile_prototype,
    robust_controller as robust_controller,
)
from heavytop.copters.rotor_failure import (
    Remaining as Remaining,
    dead_rotor_law as dead_rotor_law,
    remaining as remaining,
)
from heavytop.copters.rotor_plant import RotorPlant as RotorPlant
from heavytop.copters.skids import Skids as Skids
from heavytop.copters.stacks import BATTERY, STICKS, is_stack
from heavytop.copters.tricopter_detailed import tricopter_with_load_full as tricopter_with_load_full
from heavytop.copters.vehicle import GRAVITY, LAWS, Vehicle as Vehicle
from heavytop.copters.vehicles import (
    bicopter as bicopter,
    hexacopter as hexacopter,
    multicopter as multicopter,
    octocopter as octocopter,
    quadcopter as quadcopter,
    tilting_thrusts as tilting_thrusts,
    tricopter as tricopter,
)

if not TYPE_CHECKING:  # type checkers should find misspelled names
    __getattr__ = missing_from(__name__, globals())
