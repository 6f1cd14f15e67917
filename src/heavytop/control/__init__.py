"""Tracking control of rigid-body systems by a mechanical prototype: laws, references, limits, analysis."""

from heavytop.control.allocation import Limits as Limits
from heavytop.control.closed_loop import ClosedLoop as ClosedLoop
from heavytop.control.energy import AttitudeBlock as AttitudeBlock
from heavytop.control.energy import JointBlock as JointBlock
from heavytop.control.energy import PointBlock as PointBlock
from heavytop.control.energy import PoseBlock as PoseBlock
from heavytop.control.integral import Integral as Integral
from heavytop.control.law import Law as Law
from heavytop.control.laws import body_law as body_law
from heavytop.control.laws import energy_law as energy_law
from heavytop.control.laws import particle_law as particle_law
from heavytop.control.prototype import Prototype as Prototype
from heavytop.control.prototype import lateral_lever as lateral_lever
from heavytop.control.prototype import poles_of as poles_of
from heavytop.control.reference import Feasibility as Feasibility
from heavytop.control.reference import Reference as Reference
from heavytop.control.tracking import Controller as Controller
from heavytop.control.tracking import Tracking as Tracking
