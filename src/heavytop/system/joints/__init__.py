"""The joints: each is a block of coordinates and a map to SE(3)."""

from heavytop.system.joints.base import Joint as Joint
from heavytop.system.joints.coupled import Coupled as Coupled
from heavytop.system.joints.custom import Custom as Custom
from heavytop.system.joints.prescribed import Prescribed as Prescribed
from heavytop.system.joints.single_axis import Cylindrical as Cylindrical
from heavytop.system.joints.single_axis import Prismatic as Prismatic
from heavytop.system.joints.single_axis import Revolute as Revolute
from heavytop.system.joints.single_axis import Universal as Universal
from heavytop.system.joints.spatial import Fixed as Fixed
from heavytop.system.joints.spatial import Free as Free
from heavytop.system.joints.spatial import Planar as Planar
from heavytop.system.joints.spatial import Spherical as Spherical
