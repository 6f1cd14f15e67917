"""Units of coordinates, by the kind of block."""

from __future__ import annotations

from heavytop.coordinates import (
    Angle,
    Attitude,
    Circle,
    Coordinates,
    EulerAngles,
    LinearVelocities,
    Pose,
    Product,
    ScalablePose,
    Vector,
)


def units_of(block: Coordinates) -> tuple[str, ...]:
    """Unit of each configuration coordinate; "1" for pure numbers, empty where unknown.

    >>> units_of(Pose("quaternion"))
    ('m', 'm', 'm', '1', '1', '1', '1')
    """
    if isinstance(block, Product):
        return tuple(unit for part in block.blocks for unit in units_of(part))
    if isinstance(block, Vector):
        return ("m",) * block.nq
    if isinstance(block, Angle | EulerAngles):
        return ("rad",) * block.nq
    if isinstance(block, Pose):
        return ("m",) * 3 + units_of(block.attitude_block)
    if isinstance(block, LinearVelocities):
        return units_of(block.base)
    if isinstance(block, ScalablePose):
        return ("m",) * 3 + ("1",) * 4
    known = block.constraint_names or isinstance(block, Attitude)
    return ("1" if known else "",) * block.nq


def rate_units(block: Coordinates) -> tuple[str, ...]:
    """Unit of each velocity coordinate; empty where unknown.

    >>> rate_units(Pose())
    ('m/s', 'm/s', 'm/s', 'rad/s', 'rad/s', 'rad/s')
    """
    if isinstance(block, Product):
        return tuple(unit for part in block.blocks for unit in rate_units(part))
    if isinstance(block, Vector):
        return ("m/s",) * block.nv
    if isinstance(block, Pose):
        return ("m/s",) * 3 + ("rad/s",) * 3
    if isinstance(block, LinearVelocities):
        return ("m/s",) * block.nv
    if isinstance(block, ScalablePose):
        return ("m/s",) * 3 + ("1/s",) + ("rad/s",) * 3
    if isinstance(block, Angle | Attitude | Circle):
        return ("rad/s",) * block.nv
    return ("",) * block.nv
