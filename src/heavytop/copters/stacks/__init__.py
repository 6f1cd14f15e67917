"""Flight stacks in the loop: the firmware that will fly a vehicle flies its model, in lock-step."""

from collections.abc import Callable

from heavytop.copters.stacks import betaflight, raptor
from heavytop.copters.stacks.ardupilot import ArduPilot as ArduPilot
from heavytop.copters.stacks.betaflight import Betaflight as Betaflight
from heavytop.copters.stacks.pilot import PositionPilot as PositionPilot
from heavytop.copters.stacks.px4 import Px4 as Px4
from heavytop.copters.stacks.raptor import Raptor as Raptor
from heavytop.copters.stacks.stack import (
    BATTERY,
    STICKS,
    Desired as Desired,
    Imu as Imu,
    Link as Link,
    Measurements as Measurements,
    Stack as Stack,
    StackController as StackController,
    StackError as StackError,
    Sticks as Sticks,
    is_stack,
)
from heavytop.errors import unknown_name

STACKS: dict[str, Callable[..., Stack]] = {
    "betaflight": Betaflight,
    "px4": Px4,
    "ardupilot": ArduPilot,
    "raptor": Raptor,
}
"""Stacks by name."""


def stack(name: str, path: str | None = None) -> Stack:
    """Return the named stack, with the path of its program if given.

    >>> stack("betaflight").name
    'Betaflight'
    """
    if name not in STACKS:
        raise unknown_name("flight stack", name, STACKS)
    if path is None:
        return STACKS[name]()
    if name == "raptor":
        raise StackError("RAPTOR is a Python package and has no program: omit the path.")
    return STACKS[name](path=path)


def found() -> dict[str, str]:
    """Which stacks are available here: name -> state as text.

    >>> list(found())
    ['Betaflight', 'PX4', 'ArduPilot', 'RAPTOR']
    """
    given = "with the path of its program"
    return {"Betaflight": betaflight.state(), "PX4": given, "ArduPilot": given, "RAPTOR": raptor.state()}
