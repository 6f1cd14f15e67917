"""Describe bodies, joints and force elements; derive the model."""

from heavytop.system import forces as forces
from heavytop.system.composition import scene as scene
from heavytop.system.constraints.prescribed_motion import PrescribedMotions
from heavytop.system.constraints.scaling import ASSEMBLED, CLOSED, OPEN
from heavytop.system.contacts.contact import Candidate, Contact, Ground
from heavytop.system.contacts.features import hull_points
from heavytop.system.contacts.height_grid import HeightGrid as HeightGrid
from heavytop.system.contacts.rows import DRY, HELD, POINT, ContactRows, RowUnit
from heavytop.system.contacts.surfaces import Height, Plane, Solid
from heavytop.system.description import GRAVITY, TIME, WORLD
from heavytop.system.description.description import Description, Loop, Parameter, at_defaults
from heavytop.system.description.graph import Edge, FrameGraph, Step
from heavytop.system.description.inputs import (
    BodyWrench,
    JointAction,
    JointForce as JointForce,
    Thruster as Thruster,
    Wrench as Wrench,
    unit_axis,
)
from heavytop.system.description.moments import (
    RELATIVE_TOLERANCE,
    Damping as Damping,
    Inertia as Inertia,
    Moments,
    SpringSet as SpringSet,
    Stiffness as Stiffness,
)
from heavytop.system.description.shapes import (
    MESH_FORMATS,
    Bore as Bore,
    Box as Box,
    Capsule as Capsule,
    Cylinder as Cylinder,
    Ellipsoid as Ellipsoid,
    Mesh as Mesh,
    PlacedShape,
    Points as Points,
    Rim as Rim,
    Sphere as Sphere,
    Triangles as Triangles,
)
from heavytop.system.dynamics.articulated import Actions
from heavytop.system.dynamics.equation_terms import EquationTerms
from heavytop.system.dynamics.rheonomic import with_time
from heavytop.system.dynamics.solve import half_solve, solve_definite, symmetric
from heavytop.system.dynamics.sparse_ldl import SparseLDL, dependent_rows, minimum_degree, row_scales
from heavytop.system.dynamics.tangent import NotAtRestWarning as NotAtRestWarning, null_space, sizes
from heavytop.system.expressions import Expressions
from heavytop.system.forces import (
    ForceElement as ForceElement,
    JointElement as JointElement,
    PairElement as PairElement,
)
from heavytop.system.forces.base import Pull
from heavytop.system.forces.contact import CompliantContact
from heavytop.system.forces.inner import InnerJoint
from heavytop.system.forces.ports import Port
from heavytop.system.inverse_kinematics.result import InverseKinematics as InverseKinematics
from heavytop.system.inverse_kinematics.tasks import (
    CenterOfMassTask as CenterOfMassTask,
    DirectionTask as DirectionTask,
    FunctionTask as FunctionTask,
    GazeTask as GazeTask,
    KinematicTask,
    PoseTask as PoseTask,
    PositionTask as PositionTask,
    PostureTask as PostureTask,
)
from heavytop.system.joints import (
    Coupled as Coupled,
    Custom as Custom,
    Cylindrical as Cylindrical,
    Fixed as Fixed,
    Free as Free,
    Planar as Planar,
    Prescribed as Prescribed,
    Prismatic as Prismatic,
    Revolute as Revolute,
    Spherical as Spherical,
    Universal as Universal,
)
from heavytop.system.joints.base import JointLimits as JointLimits
from heavytop.system.kinematics.kinematics import Kinematics, Motion
from heavytop.system.model import MANIFOLD_TOLERANCE, Model as Model, entries_of, nominal_of
from heavytop.system.system import System as System
from heavytop.system.validation.functions import why_not_finite
