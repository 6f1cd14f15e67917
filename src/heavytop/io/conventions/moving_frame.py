"""One frame of a body, whatever the model: pose, twist, its rate and a wrench as other programs write them for a free body."""

from __future__ import annotations

from heavytop._arrays import Floats, Numbers, numbers
from heavytop.errors import ModelError, unknown_name, wrong_shape
from heavytop.io.conventions.programs import CONVENTIONS, Convention
from heavytop.io.conventions.states import BodyState, JointState, ModelState


def frame_to(
    program: str,
    pose: Numbers,
    twist: Numbers | None = None,
    rate: Numbers | None = None,
    wrench: Numbers | None = None,
) -> ModelState:
    """Pose, twist, rate of the twist and wrench of a frame as ``program`` writes those of a free body: a state with q (..., 7).

    Parameters
    ----------
    program : "drake", "exudyn", "mujoco", "pinocchio", "ros", "rotorpy" or "sympy".
    pose : (..., 4, 4) of the frame in the world: ``model.pose("world", name, q)``.
    twist, rate : (..., 6) body twist and its rate: ``model.twist("world", name, q, v)``, ``model.twist_rate(...)``.
    wrench : (..., 6) force and moment at the origin of the frame, in its axes.

    Examples
    --------
    >>> import numpy as np
    >>> frame_to("ros", np.eye(4)).q  # position and xyzw
    array([0., 0., 0., 0., 0., 0., 1.])
    """
    convention = _convention(program)
    G = numbers(pose, "pose")
    if G.shape[-2:] != (4, 4):
        raise wrong_shape("pose", (4, 4), G.shape)
    parts = [_six(name, x) for name, x in (("twist", twist), ("rate", rate), ("wrench", wrench))]
    if parts[1] is not None and parts[0] is None:
        raise ModelError("the rate of a twist needs the twist too: its conversion depends on it.")
    return ModelState(*convention.encode(BodyState(G, *parts)))


def frame_from(
    program: str, q: Numbers, v: Numbers | None = None, a: Numbers | None = None, force: Numbers | None = None
) -> BodyState:
    """Pose (..., 4, 4), body twist, its rate and body wrench (..., 6) from what ``program`` has of a free body; the inverse of :func:`frame_to`.

    >>> frame_from("drake", [1.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0]).pose[:3, 3]
    array([1., 2., 3.])
    """
    convention = _convention(program)
    given = numbers(q, "q")
    if given.ndim == 0 or given.shape[-1] != 7:
        raise wrong_shape("q", (7,), given.shape)
    parts = [_six(name, x) for name, x in (("v", v), ("a", a), ("force", force))]
    if parts[1] is not None and parts[0] is None:
        raise ModelError("accelerations need the velocity v too: their conversion depends on it.")
    return convention.decode(JointState(given, *parts))


def _convention(program: str) -> Convention:
    if program not in CONVENTIONS:
        raise unknown_name("program", program, CONVENTIONS)
    return CONVENTIONS[program]


def _six(name: str, value: Numbers | None) -> Floats | None:
    if value is None:
        return None
    array = numbers(value, name)
    if array.ndim == 0 or array.shape[-1] != 6:
        raise wrong_shape(name, (6,), array.shape)
    return array
