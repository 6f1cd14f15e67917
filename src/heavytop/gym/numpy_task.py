"""Tasks in plain NumPy: start of episodes and outcome of a step as functions of whole batches, called outside the native step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from heavytop._arrays import Array
from heavytop.compile import Kernel
from heavytop.errors import SimulationError
from heavytop.gym.actions import Action
from heavytop.gym.draws import MOST, Draw
from heavytop.gym.task import At, EnvTask
from heavytop.system import Model


@dataclass(frozen=True, eq=False, repr=False)
class BatchAt(At):
    """The states of a batch after a step as arrays with a leading axis."""

    def pose(self, body: str) -> tuple[Array, Array]:
        G = self.model.pose("world", body, self.q, parameters=self._parameters())
        return G[..., :3, :3], G[..., :3, 3]

    def twist(self, body: str) -> tuple[Array, Array]:
        V = self.model.twist("world", body, self.q, self.v, parameters=self._parameters())
        return V[..., :3], V[..., 3:]

    def _parameters(self) -> dict[str, Any]:
        return dict(zip(self.model.parameter_names, np.moveaxis(self.p, -1, 0), strict=True))


class NumpyTask:
    """The functions of a task on batches; shapes and numbers that they return are checked.

    Attributes
    ----------
    draws, goal_size, observation_size : numbers, found by one trial start.
    """

    def __init__(self, model: Model, task: EnvTask, action: Action) -> None:
        self._model, self._task, self._action = model, task, action
        self._inputs = Kernel(action.traced(model))
        draw = Draw(np.full((1, MOST), 0.5))
        goal = self._start(draw, 1)[2]
        self.draws, self.goal_size = max(draw.used, 1), goal.shape[1]
        seen = self.first(np.full((1, self.draws), 0.5), model.parameter_vector())[3]
        self.observation_size = seen.shape[1]

    def first(self, draws: np.ndarray, p: np.ndarray) -> tuple[np.ndarray, ...]:
        """Start of episodes: q, v, goal and observation from random numbers (n, draws) and parameters."""
        n, action = len(draws), self._action
        q, v, goal = self._start(Draw(draws), n)
        nothing = np.zeros((n, action.size))
        memory = (np.tile(action.initial_state(), (n, 1)),) if action.lag else ()
        u = self._inputs(q, v, nothing, p, *memory)
        u = u[0] if isinstance(u, tuple) else u
        seen = self._observed(BatchAt(self._model, q, v, u, nothing, goal, p, np.zeros(n)), n)
        return q, v, goal, seen

    def outcome(self, at: BatchAt, lost: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Observation (n, k), reward (n,) and end (n,) after a step; of ``lost`` states (n,), which are not finite, at the neutral state."""
        n = len(at.q)
        if lost.any():
            rows = lost[:, None]
            neutral = np.where(rows, self._model.neutral(), at.q), np.where(rows, 0.0, at.v), np.where(rows, 0.0, at.u)
            at = replace(at, q=neutral[0], v=neutral[1], u=neutral[2])
        reward = self._checked("reward", self._task.reward(at), (n,))
        ends = np.zeros(n) if self._task.terminated is None else self._task.terminated(at)
        return self._observed(at, n), reward, self._checked("terminated", ends, (n,))

    def _start(self, draw: Draw, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        result = self._task.reset(draw)
        if not isinstance(result, tuple | list) or len(result) not in (2, 3):
            raise SimulationError(f"reset of the task must return (q, v) or (q, v, goal), got {type(result).__name__}.")
        q = self._checked("q of reset", result[0], (n, self._model.nq))
        v = self._checked("v of reset", result[1], (n, self._model.nv))
        goal = self._checked("goal of reset", result[2], (n, -1)) if len(result) == 3 else np.zeros((n, 0))
        return q, v, goal

    def _observed(self, at: BatchAt, n: int) -> np.ndarray:
        return self._checked("observation", self._task.observation(at), (n, -1))

    def _checked(self, what: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
        """The value as floats of a shape, in which -1 is any length; values without the axis of the batch are those of all environments."""
        array = np.asarray(value, dtype=float)
        if array.ndim == len(shape) - 1:
            array = np.broadcast_to(array, (shape[0], *array.shape))
        if array.ndim != len(shape) or any(n not in (-1, k) for n, k in zip(shape, array.shape, strict=True)):
            expected = ", ".join("any" if n < 0 else str(n) for n in shape)
            raise SimulationError(
                f"{what} of a task with traced=False must have the shape ({expected}), one row per environment, got {np.shape(value)}."
            )
        if not np.isfinite(array).all():
            row = int(np.flatnonzero(~np.isfinite(array.reshape(len(array), -1)).all(axis=1))[0])
            raise SimulationError(f"{what} of the task is not finite in environment {row}: {array[row]}.")
        return array


Outcome = Callable[[BatchAt, np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]
"""The outcome of a step outside the native code."""
