"""States of models and frames in the conventions of other programs.

A free body is (pose, body twist xi = (v, omega), its rate, wrench) here. With R the attitude the programs have

    Pinocchio   q = (r, xyzw)   v = (v, omega)         a = (v', omega')                       f = (force, moment)
    MuJoCo      q = (r, wxyz)   v = (R v, omega)       a = (R (v' + omega x v), omega')        f = (R force, moment)
    Drake       q = (wxyz, r)   v = (R omega, R v)     a = (R omega', R (v' + omega x v))      f = (R moment, R force)
    Exudyn      q = (r, wxyz)   v = (R v, omega)       as MuJoCo (Lie-group node with the angular velocity in body axes)
    SymPy       q = (r, wxyz)   v = (R v, omega)       as MuJoCo (speeds: velocity of the origin in N, angular velocity in B)
    ROS         q = (r, xyzw)   v = (v, omega)         as Pinocchio (Odometry: twist in the axes of child_frame_id)
    RotorPy     q = (r, xyzw)   v = (R v, omega)       as MuJoCo

The pose is relative to the world; for a body on another body, relative to the joint. Planar joints are (x, y, angle) and their rates here and
in Drake; Pinocchio has (x, y, cos, sin) and velocities in axes of the moved body.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np

from heavytop._arrays import Floats, Numbers, numbers
from heavytop.coordinates import Attitude
from heavytop.errors import ModelError, unknown_name, wrong_shape
from heavytop.geometry import quaternion, se3
from heavytop.io.conventions.states import (
    BodyState,
    Layout,
    ModelState,
    Place,
    add_linear,
    angle_of,
    before_free_joint,
    body_state,
    check,
    drake_layout,
    from_angle,
    joint_state,
    mujoco_layout,
    of_joint,
    own_layout,
    pinocchio_layout,
    planar_to_body_axes,
)  # fmt: skip
from heavytop.io.robot import JointKind
from heavytop.system import Edge, Model

NEEDS_VELOCITY = "accelerations need the velocity too: their conversion depends on it."


@dataclass(frozen=True)
class Convention:
    """A program's form of free bodies and quaternions."""

    scalar_first: bool
    world_linear: bool
    """Linear velocities in world axes."""
    world_angular: bool = False
    rotation_first: bool = False
    """Attitude before position, angular before linear."""

    def quat(self, R: Floats) -> Floats:
        wxyz = quaternion.quaternion_from_rotation(R)
        return wxyz if self.scalar_first else np.roll(wxyz, -1, axis=-1)

    def rotation(self, quat: Floats) -> Floats:
        wxyz = quat if self.scalar_first else np.roll(quat, 1, axis=-1)
        return quaternion.rotation_from_quaternion(quaternion.normalize(wxyz))

    def encode(self, body: BodyState) -> ModelState:
        """The entries of a free body."""
        R, r = se3.rotation(body.pose), se3.position(body.pose)
        rate = body.rate
        if rate is not None and body.twist is not None and self.world_linear:
            rate = add_linear(rate, np.cross(body.twist[..., 3:], body.twist[..., :3]))
        parts = (self.quat(R), r) if self.rotation_first else (r, self.quat(R))
        return ModelState(np.concatenate(parts, axis=-1), *(self._turn(R, x) for x in (body.twist, rate, body.wrench)))

    def decode(self, parts: ModelState) -> BodyState:
        """The inverse of :meth:`encode`."""
        quat, r = (parts.q[..., :4], parts.q[..., 4:]) if self.rotation_first else (parts.q[..., 3:], parts.q[..., :3])
        R = self.rotation(quat)
        twist, rate, wrench = (self._turn(np.swapaxes(R, -1, -2), x, back=True) for x in parts[1:])
        if rate is not None and twist is not None and self.world_linear:
            rate = add_linear(rate, -np.cross(twist[..., 3:], twist[..., :3]))
        return BodyState(se3.pose(R, r), twist, rate, wrench)

    def _turn(self, R: Floats, x: Floats | None, back: bool = False) -> Floats | None:
        """A twist or wrench turned by R and reordered."""
        if x is None:
            return None
        linear, angular = (x[..., 3:], x[..., :3]) if back and self.rotation_first else (x[..., :3], x[..., 3:])
        linear = np.matvec(R, linear) if self.world_linear else linear
        angular = np.matvec(R, angular) if self.world_angular else angular
        return np.concatenate([angular, linear] if self.rotation_first and not back else [linear, angular], axis=-1)


PINOCCHIO = Convention(scalar_first=False, world_linear=False)
MUJOCO = Convention(scalar_first=True, world_linear=True)
DRAKE = Convention(scalar_first=True, world_linear=True, world_angular=True, rotation_first=True)
ROTORPY = Convention(scalar_first=False, world_linear=True)
CONVENTIONS = {
    "drake": DRAKE,
    "exudyn": MUJOCO,
    "mujoco": MUJOCO,
    "pinocchio": PINOCCHIO,
    "ros": PINOCCHIO,
    "rotorpy": ROTORPY,
    "sympy": MUJOCO,
}


# --- states of models -------------------------------------------------------------------------------------------------------


def _to(model: Model, convention: Convention, state: ModelState, places: dict[str, Place]) -> ModelState:
    state = check(model, state)
    nq, nv = (max((place.stop(kind) for place in places.values()), default=0) for kind in "qv")
    result = _zeros(state, (nq, nv, nv, nv))
    for edge in model.description.joints:
        place = places[edge.label]
        encoded = _encode(model, convention, edge, of_joint(model, state, edge.label), place)
        _assign(result, encoded, place.slices)
    # joints that follow others here and are independent there; forces on them are not determined
    for edge in model.description.graph.edges:
        if edge.joint.follows is None or edge.label not in places:
            continue
        place, parts = places[edge.label], of_joint(model, state, edge.joint.follows)
        q, _ = edge.joint.follow(parts.q, np.zeros(1))
        v, a = (None if x is None else edge.joint.follow(parts.q, x)[1] for x in parts[1:3])
        _assign(result, ModelState(_circle(q) if place.nq == 2 else q + place.zero, v, a, None), place.slices)
    return ModelState(*result)  # pyright: ignore[reportArgumentType]


def _from(model: Model, convention: Convention, state: ModelState, places: dict[str, Place]) -> ModelState:
    if state.a is not None and state.v is None:
        raise ModelError(NEEDS_VELOCITY)
    result = _zeros(state, (model.nq, model.nv, model.nv, model.nv))
    for edge in model.description.joints:
        place = places[edge.label]
        parts = [None if x is None else x[..., cut] for x, cut in zip(state, place.slices, strict=True)]
        decoded = _decode(model, convention, edge, ModelState(*parts), place)  # pyright: ignore[reportArgumentType]
        q, v = model.coordinates.q_slice(edge.label), model.coordinates.v_slice(edge.label)
        _assign(result, decoded, (q, v, v, v))
    return ModelState(*result)  # pyright: ignore[reportArgumentType]


def _zeros(state: ModelState, sizes: tuple[int, ...]) -> list[Floats | None]:
    batch = np.broadcast_shapes(*(x.shape[:-1] for x in state if x is not None))
    return [None if x is None else np.zeros((*batch, n)) for x, n in zip(state, sizes, strict=True)]


def _assign(result: list[Floats | None], parts: ModelState, slices: tuple[slice, ...]) -> None:
    for target, value, cut in zip(result, parts, slices, strict=True):
        if target is not None and value is not None:
            target[..., cut] = value


def _circle(angle: Floats) -> Floats:
    return np.concatenate([np.cos(angle), np.sin(angle)], axis=-1)


def _encode(model: Model, convention: Convention, edge: Edge, parts: ModelState, place: Place) -> ModelState:
    if edge.joint.kind == JointKind.FLOATING:
        return convention.encode(body_state(edge, parts, before_free_joint(model, edge, place.placement)))
    if edge.joint.kind == JointKind.SPHERICAL:
        return ModelState(convention.quat(se3.rotation(edge.joint.pose(parts.q))), *parts[1:])
    if edge.joint.kind == JointKind.REVOLUTE:
        angle = angle_of(edge, parts.q)
        return ModelState(_circle(angle) if place.nq == 2 else angle + place.zero, *parts[1:])
    if edge.joint.kind == JointKind.PLANAR and place.nq == 4:
        return planar_to_body_axes(parts, 1)
    if place.nq != edge.joint.coordinates.nq:
        raise ModelError(f"joint {edge.label!r} has {edge.joint.coordinates.nq} coordinates here and {place.nq} there.")
    return ModelState(parts.q + place.zero, *parts[1:])


def _decode(model: Model, convention: Convention, edge: Edge, parts: ModelState, place: Place) -> ModelState:
    if edge.joint.kind == JointKind.FLOATING:
        return joint_state(edge, convention.decode(parts), before_free_joint(model, edge, place.placement))
    if edge.joint.kind == JointKind.SPHERICAL:
        R = convention.rotation(parts.q)
        return ModelState(cast(Attitude, edge.joint.coordinates).from_rotation_matrix(R), *parts[1:])
    if edge.joint.kind == JointKind.REVOLUTE:
        q = np.arctan2(parts.q[..., 1:], parts.q[..., :1]) if place.nq == 2 else parts.q - place.zero
        return ModelState(from_angle(edge, q), *parts[1:])
    if edge.joint.kind == JointKind.PLANAR and place.nq == 4:
        return planar_to_body_axes(parts, -1)
    return ModelState(parts.q - place.zero, *parts[1:])


class Conversion(Protocol):
    """A conversion of q (..., nq), v, a and force (..., nv); omitted ones are None. ``peer`` is the other program's model."""

    def __call__(
        self,
        model: Model,
        q: Numbers,
        v: Numbers | None = None,
        a: Numbers | None = None,
        force: Numbers | None = None,
        *,
        peer: Any = None,
    ) -> ModelState: ...


def _conversions(program: str, title: str, note: str, layout: Layout = own_layout) -> tuple[Conversion, Conversion]:
    """The functions ``to_PROGRAM`` and ``from_PROGRAM``."""

    def conversion(name: str, convert: Any, summary: str) -> Conversion:
        def function(
            model: Model,
            q: Numbers,
            v: Numbers | None = None,
            a: Numbers | None = None,
            force: Numbers | None = None,
            *,
            peer: Any = None,
        ) -> ModelState:
            given = (None if x is None else numbers(x, label) for label, x in (("v", v), ("a", a), ("force", force)))
            return convert(model, CONVENTIONS[program], ModelState(numbers(q, "q"), *given), layout(model, peer))

        function.__name__ = function.__qualname__ = name
        function.__doc__ = (
            f"{summary}: {note}\n\n>>> import heavytop as ht\n>>> model = ht.library.free_body().derive(native=False)"
            f"\n>>> theirs = to_{program}(model, model.neutral())"
            f"\n>>> bool((from_{program}(model, theirs.q).q == model.neutral()).all())\nTrue\n"
        )
        return function

    to = conversion(f"to_{program}", _to, f"Convert a state to {title}")
    return to, conversion(f"from_{program}", _from, f"Convert a state from {title}")


to_pinocchio, from_pinocchio = _conversions(
    "pinocchio",
    "Pinocchio",
    "(r, xyzw), velocities in body axes. With ``peer`` (a ``pinocchio.Model``) in its order of joints, matched by name.",
    pinocchio_layout,
)
to_mujoco, from_mujoco = _conversions(
    "mujoco",
    "MuJoCo (``qpos``, ``qvel``, ``qacc``, ``qfrc``)",
    "(r, wxyz), velocity in world and omega in body axes. With ``peer`` (a ``mujoco.MjModel``) in its order, zeros at its ``qpos0``.",
    mujoco_layout,
)
to_drake, from_drake = _conversions(
    "drake",
    "Drake",
    "(wxyz, r) with (omega, v) in world axes. With ``peer`` (a finalized ``MultibodyPlant``) in its order of joints, matched by name.",
    drake_layout,
)
to_exudyn, from_exudyn = _conversions(
    "exudyn", "Exudyn", "Lie-group nodes (r, wxyz), velocity in world and omega in body axes."
)
to_sympy, from_sympy = _conversions(
    "sympy", "SymPy mechanics", "(r, wxyz), speeds: velocity in N, angular velocity in B."
)
to_ros, from_ros = _conversions("ros", "ROS", "Pose (r, xyzw), Twist and Wrench (linear, angular) in axes of the body.")
to_rotorpy, from_rotorpy = _conversions("rotorpy", "RotorPy", "x and v in world axes, q as xyzw, w in body axes.")


# --- one frame of any model -------------------------------------------------------------------------------------------------


def frame_to(
    program: str,
    pose: Numbers,
    twist: Numbers | None = None,
    rate: Numbers | None = None,
    wrench: Numbers | None = None,
) -> ModelState:
    """Convert pose, twist, rate of the twist and wrench of a frame to the free body of a program: a state with q (..., 7).

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
    G, parts = numbers(pose, "pose"), _twists(twist=twist, rate=rate, wrench=wrench)
    if G.shape[-2:] != (4, 4):
        raise wrong_shape("pose", (4, 4), G.shape)
    return _convention(program).encode(BodyState(G, *parts))


def frame_from(
    program: str, q: Numbers, v: Numbers | None = None, a: Numbers | None = None, force: Numbers | None = None
) -> BodyState:
    """Convert the free body of a program to pose (..., 4, 4), body twist, its rate and body wrench (..., 6); the inverse of :func:`frame_to`.

    >>> frame_from("drake", [1.0, 0.0, 0.0, 0.0, 1.0, 2.0, 3.0]).pose[:3, 3]
    array([1., 2., 3.])
    """
    given, parts = numbers(q, "q"), _twists(v=v, a=a, force=force)
    if given.ndim == 0 or given.shape[-1] != 7:
        raise wrong_shape("q", (7,), given.shape)
    return _convention(program).decode(ModelState(given, *parts))


def _convention(program: str) -> Convention:
    if program not in CONVENTIONS:
        raise unknown_name("program", program, CONVENTIONS)
    return CONVENTIONS[program]


def _twists(**given: Numbers | None) -> list[Floats | None]:
    arrays = [None if x is None else numbers(x, name) for name, x in given.items()]
    for name, array in zip(given, arrays, strict=True):
        if array is not None and (array.ndim == 0 or array.shape[-1] != 6):
            raise wrong_shape(name, (6,), array.shape)
    if arrays[1] is not None and arrays[0] is None:
        raise ModelError(NEEDS_VELOCITY)
    return arrays
