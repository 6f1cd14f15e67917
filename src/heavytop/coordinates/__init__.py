"""Coordinate blocks (redundant configurations, minimal velocities) with their kinematics."""

from heavytop.coordinates.attitude import (
    Attitude as Attitude,
    EulerAngles as EulerAngles,
    Quaternion as Quaternion,
    Rotation as Rotation,
)
from heavytop.coordinates.base import Coordinates as Coordinates
from heavytop.coordinates.general import GeneralCoordinates as GeneralCoordinates
from heavytop.coordinates.pose import Pose as Pose
from heavytop.coordinates.product import Product as Product
from heavytop.coordinates.unified import LinearVelocities as LinearVelocities, UnifiedPose as UnifiedPose
from heavytop.coordinates.vector import Angle as Angle, Circle as Circle, Vector as Vector
