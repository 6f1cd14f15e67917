"""Maneuvers: desired motions of vehicles, each with its feasibility report. ``make("looping", vehicle)`` finds them by name.

>>> from heavytop.copters import quadcopter
>>> make("looping", quadcopter()).check().is_feasible()
True
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from heavytop._elsewhere import missing_from
from heavytop.control import Reference
from heavytop.copters.maneuvers.acrobatics import (
    barrel_roll as barrel_roll,
    flip as flip,
    hover_roll as hover_roll,
    inverted as inverted,
    knife_edge as knife_edge,
    level_loop as level_loop,
    looping as looping,
    reversible,
)
from heavytop.copters.maneuvers.base import Maneuver as Maneuver, sequence as sequence
from heavytop.copters.maneuvers.paths import (
    along as along,
    circle as circle,
    eight as eight,
    helix as helix,
    hover as hover,
    landing as landing,
    recovery as recovery,
    step as step,
    takeoff as takeoff,
    transport as transport,
    waypoints as waypoints,
)
from heavytop.copters.vehicle import Vehicle
from heavytop.errors import ControlError, unknown_name
from heavytop.plan import Plan

MANEUVERS: dict[str, Callable[..., Maneuver]] = {
    maneuver.__name__.replace("_", "-"): maneuver
    for maneuver in (
        hover, step, recovery, eight, circle, helix, waypoints, looping, flip, barrel_roll, inverted, knife_edge, hover_roll, level_loop, transport,
        landing, takeoff,
    )
}  # fmt: skip
_LOADED = ("hover", "step", "transport")
_WITH_LIMBS = ("hover", "step", "eight", "circle", "helix", "waypoints")
_WITH_LEVERS = ("hover", "step", "recovery", "eight", "circle", "helix", "waypoints", "looping")
_FULLY_ACTUATED = ("hover-roll", "level-loop")


def suited(vehicle: Vehicle) -> tuple[str, ...]:
    """Names of the maneuvers for a vehicle of this kind.

    >>> from heavytop.copters import quadcopter
    >>> "flip" in suited(quadcopter()), "level-loop" in suited(quadcopter())
    (True, False)
    """
    if vehicle.airframe.load is not None:
        return _LOADED
    if vehicle.limbs:
        return _WITH_LIMBS
    if any(vehicle.levers):
        return _WITH_LEVERS
    excluded = {"transport", *(() if vehicle.full is None else ("landing", "takeoff"))}
    if not vehicle.fully_actuated:
        excluded |= {*_FULLY_ACTUATED, *(() if reversible(vehicle) else ("inverted",))}
    return tuple(name for name in MANEUVERS if name not in excluded)


def listed_name(name: str) -> str:
    """The listed name of a maneuver; underscores may replace hyphens.

    >>> listed_name("Hover_Roll")
    'hover-roll'
    """
    key = name.strip().lower().replace("_", "-")
    if key not in MANEUVERS:
        raise unknown_name("maneuver", name, MANEUVERS)
    return key


def make(name: str, vehicle: Vehicle, **options: Any) -> Maneuver:
    """Return the named maneuver for a vehicle; underscores may replace hyphens. Options are those of its function.

    >>> from heavytop.copters import quadcopter
    >>> make("hover", quadcopter(), duration=2.0).duration
    2.0
    """
    key = listed_name(name)
    if key not in suited(vehicle):
        raise ControlError(f"{vehicle.name!r} cannot fly {key!r}. It can fly: {', '.join(suited(vehicle))}.")
    return MANEUVERS[key](vehicle, **options)


def as_maneuver(given: Any, vehicle: Vehicle) -> Maneuver:
    """The maneuver of a vehicle from a name, a maneuver, a reference or a plan of its model.

    >>> from heavytop.control import Reference
    >>> from heavytop.copters import quadcopter
    >>> craft = quadcopter()
    >>> as_maneuver(Reference.set_point(craft.model), craft).name
    'reference'
    """
    if isinstance(given, str):
        return make(given, vehicle)
    if isinstance(given, Maneuver):
        return given
    reference = given.reference if isinstance(given, Plan) else given
    if not isinstance(reference, Reference):
        several = " Join several with maneuvers.sequence(...)." if isinstance(given, list | tuple) else ""
        raise ControlError(
            f"a maneuver must be a name, a Maneuver, a Reference or a Plan of {vehicle.name!r}, got {type(given).__name__}.{several}"
        )
    if reference.model is not vehicle.model and reference.model.key != vehicle.model.key:
        raise ControlError(
            f"the reference belongs to another model, {reference.model.name!r}: make it with the model of {vehicle.name!r}, vehicle.model."
        )
    return Maneuver(vehicle, reference, "plan" if isinstance(given, Plan) else "reference")


if not TYPE_CHECKING:  # type checkers should find misspelled names
    __getattr__ = missing_from(__name__, globals())
