"""States, accelerations, forces and poses in the conventions of other programs, and back.

Each program has a pair of functions ``to_NAME(model, q, v, a, force)`` and ``from_NAME(model, ...)`` that return a :class:`ModelState`.
Arrays have leading batch axes; omitted arguments are None in the result. docs/conventions.md has the formulas.
"""

from heavytop.io.conventions.frames import (
    pose_from_ned as pose_from_ned,
    pose_to_ned as pose_to_ned,
    quaternion_from_xyzw as quaternion_from_xyzw,
    quaternion_to_xyzw as quaternion_to_xyzw,
    twist_from_angular_first as twist_from_angular_first,
    twist_to_angular_first as twist_to_angular_first,
)
from heavytop.io.conventions.programs import (
    frame_from as frame_from,
    frame_to as frame_to,
    from_drake as from_drake,
    from_exudyn as from_exudyn,
    from_mujoco as from_mujoco,
    from_pinocchio as from_pinocchio,
    from_ros as from_ros,
    from_rotorpy as from_rotorpy,
    from_sympy as from_sympy,
    to_drake as to_drake,
    to_exudyn as to_exudyn,
    to_mujoco as to_mujoco,
    to_pinocchio as to_pinocchio,
    to_ros as to_ros,
    to_rotorpy as to_rotorpy,
    to_sympy as to_sympy,
)
from heavytop.io.conventions.states import BodyState as BodyState, ModelState as ModelState
