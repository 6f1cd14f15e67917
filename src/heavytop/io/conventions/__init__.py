"""States, accelerations, forces and poses in the conventions of other programs, and back.

Each program has a pair of functions ``to_NAME(model, q, v, a, force)`` and ``from_NAME(model, ...)`` that return a :class:`ModelState`.
Arrays have leading batch axes; omitted arguments are None in the result. docs/conventions.md has the formulas.
"""

from heavytop.io.conventions.frames import pose_from_ned as pose_from_ned
from heavytop.io.conventions.frames import pose_to_ned as pose_to_ned
from heavytop.io.conventions.frames import quaternion_from_xyzw as quaternion_from_xyzw
from heavytop.io.conventions.frames import quaternion_to_xyzw as quaternion_to_xyzw
from heavytop.io.conventions.frames import twist_from_angular_first as twist_from_angular_first
from heavytop.io.conventions.frames import twist_to_angular_first as twist_to_angular_first
from heavytop.io.conventions.programs import frame_from as frame_from
from heavytop.io.conventions.programs import frame_to as frame_to
from heavytop.io.conventions.programs import from_drake as from_drake
from heavytop.io.conventions.programs import from_exudyn as from_exudyn
from heavytop.io.conventions.programs import from_mujoco as from_mujoco
from heavytop.io.conventions.programs import from_pinocchio as from_pinocchio
from heavytop.io.conventions.programs import from_ros as from_ros
from heavytop.io.conventions.programs import from_rotorpy as from_rotorpy
from heavytop.io.conventions.programs import from_sympy as from_sympy
from heavytop.io.conventions.programs import to_drake as to_drake
from heavytop.io.conventions.programs import to_exudyn as to_exudyn
from heavytop.io.conventions.programs import to_mujoco as to_mujoco
from heavytop.io.conventions.programs import to_pinocchio as to_pinocchio
from heavytop.io.conventions.programs import to_ros as to_ros
from heavytop.io.conventions.programs import to_rotorpy as to_rotorpy
from heavytop.io.conventions.programs import to_sympy as to_sympy
from heavytop.io.conventions.states import BodyState as BodyState
from heavytop.io.conventions.states import ModelState as ModelState
