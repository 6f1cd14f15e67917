"""Stored states of a robot file in the coordinates of the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Self

import numpy as np

from heavytop._arrays import Floats
from heavytop.io.conventions.programs import from_mujoco, to_mujoco
from heavytop.io.conventions.states import own_layout
from heavytop.io.robot import StoredState
from heavytop.system import Model


class Keyframe(tuple[Floats, Floats]):
    """A stored state: the pair (q, v), a start of a simulation, with inputs ``u`` (nu,) and ``time`` in s.

    >>> q, v = Keyframe(np.zeros(1), np.ones(1), np.zeros(0))
    >>> v
    array([1.])
    """

    u: Floats
    time: float

    def __new__(cls, q: Floats, v: Floats, u: Floats, time: float = 0.0) -> Self:
        """The pair with its attributes."""
        made = super().__new__(cls, (q, v))
        made.u, made.time = u, time
        return made

    @property
    def q(self) -> Floats:
        """Configuration (nq,)."""
        return self[0]

    @property
    def v(self) -> Floats:
        """Velocity (nv,)."""
        return self[1]


def keyframe_of(model: Model, state: StoredState, zeros: Mapping[str, float]) -> Keyframe:
    """A stored state in the coordinates of a model; joints without a value are at rest in the neutral configuration."""
    places = own_layout(model)
    start = to_mujoco(model, model.neutral(), np.zeros(model.nv))
    q, v = np.array(start.q), np.array(start.v)
    for edge in model.description.joints:
        at_q, at_v, *_ = places[edge.label].slices
        if edge.label in state.positions:
            q[at_q] = state.positions[edge.label] - zeros.get(edge.label, 0.0)
        if edge.label in state.velocities:
            v[at_v] = state.velocities[edge.label]
    made = from_mujoco(model, q, v)
    u = np.array([state.controls.get(name, 0.0) for name in model.description.inputs])
    return Keyframe(made.q, np.zeros(0) if made.v is None else made.v, u, state.time)
