"""The joints: each is a block of coordinates and a map to SE(3)."""

from heavytop.system.joints.base import Joint as Joint
from heavytop.system.joints.derived import Coupled as Coupled, Custom as Custom, Prescribed as Prescribed
from heavytop.system.joints.single_axis import (
    Cylindrical as Cylindrical,
    Prismatic as Prismatic,
    Revolute as Revolute,
    Universal as Universal,
)
from heavytop.system.joints.spatial import Fixed as Fixed, Free as Free, Planar as Planar, Spherical as Spherical
