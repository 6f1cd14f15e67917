"""Coordinate blocks (redundant configurations, minimal velocities) and the calculus on them."""

from heavytop.coordinates import calculus as calculus
from heavytop.coordinates.attitude import Attitude as Attitude
from heavytop.coordinates.attitude import EulerAngles as EulerAngles
from heavytop.coordinates.attitude import Quaternion as Quaternion
from heavytop.coordinates.attitude import Rotation as Rotation
from heavytop.coordinates.base import Coordinates as Coordinates
from heavytop.coordinates.general import GeneralCoordinates as GeneralCoordinates
from heavytop.coordinates.pose import Pose as Pose
from heavytop.coordinates.product import Product as Product
from heavytop.coordinates.scalable import ScalablePose as ScalablePose
from heavytop.coordinates.unified import LinearVelocities as LinearVelocities
from heavytop.coordinates.unified import UnifiedPose as UnifiedPose
from heavytop.coordinates.vector import Angle as Angle
from heavytop.coordinates.vector import Circle as Circle
from heavytop.coordinates.vector import Vector as Vector
