"""Environments for stable-baselines3, which has an interface of its own for batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from heavytop.errors import SimulationError

if TYPE_CHECKING:
    from heavytop.gym.vector_env import NativeVectorEnv


def vec_env(envs: NativeVectorEnv) -> Any:
    """A ``stable_baselines3.common.vec_env.VecEnv`` on environments with reset in the same step."""
    try:
        from stable_baselines3.common.vec_env import VecEnv  # pyright: ignore
    except ImportError:
        raise SimulationError("this adapter needs stable-baselines3: pip install stable-baselines3.") from None

    class NativeVecEnv(VecEnv):
        def __init__(self) -> None:
            self.envs, self._actions = envs, np.zeros(envs.action_space.shape or ())
            super().__init__(envs.num_envs, envs.single_observation_space, envs.single_action_space)

        def reset(self) -> np.ndarray:
            seeds = self._seeds
            seen, _ = self.envs.reset(seed=None if all(s is None for s in seeds) else seeds)
            self._reset_seeds()
            return seen

        def step_async(self, actions: np.ndarray) -> None:
            self._actions = actions

        def step_wait(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
            seen, reward, terminated, truncated, info = self.envs.step(self._actions)
            over = terminated | truncated
            infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
            for k in np.flatnonzero(over).tolist():
                infos[k] = {"terminal_observation": info["final_obs"][k], "TimeLimit.truncated": bool(truncated[k])}
            return seen, reward.astype(np.float32), over, infos

        def close(self) -> None:
            self.envs.close()

        def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
            value = getattr(self.envs, attr_name, None)
            return [value for _ in self._rows(indices)]

        def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
            raise SimulationError("the environments of a batch have no attributes of their own that could be set.")

        def env_method(self, method_name: str, *arguments: Any, indices: Any = None, **options: Any) -> list[Any]:
            raise SimulationError(f"the environments of a batch have no individual methods, such as {method_name!r}.")

        def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
            return [False for _ in self._rows(indices)]

        def _rows(self, indices: Any) -> Sequence[int]:
            return range(self.num_envs) if indices is None else [indices] if isinstance(indices, int) else list(indices)

    return NativeVecEnv()
