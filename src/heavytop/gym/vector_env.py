"""The environments themselves: a ``gymnasium.vector.VectorEnv`` on native steps, and one of its environments as a ``gymnasium.Env``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from heavytop.compile import BoundSteps
from heavytop.errors import ShapeError, SimulationError, unknown_name, wrong_shape
from heavytop.gym.draws import uniform
from heavytop.gym.numpy_task import BatchAt
from heavytop.gym.program import AGE, DONE, GOAL, OBSERVATION, REWARD, EnvProgram
from heavytop.simulate import Run, simulate

MODES = {"next_step": AutoresetMode.NEXT_STEP, "same_step": AutoresetMode.SAME_STEP, "disabled": AutoresetMode.DISABLED}


class NativeVectorEnv(VectorEnv):
    """A batch of environments. Made by :func:`heavytop.gym.env`.

    Attributes
    ----------
    q, v : (n, nq), (n, nv) states, float64; they may be changed between steps. goal : (n, g) goals of the episodes.
    parameters : (n, np), or (np,) if none is drawn. program : the task as native code.
    """

    def __init__(self, program: EnvProgram, num_envs: int, autoreset: str, dtype: Any) -> None:
        if autoreset not in MODES:
            raise unknown_name("autoreset", str(autoreset), MODES)
        self.program, self.num_envs, self._dtype = program, num_envs, np.dtype(dtype)
        self.autoreset_mode = self._mode = MODES[autoreset]
        self.metadata = {"autoreset_mode": self._mode, "render_modes": []}
        n, model, task = num_envs, program.model, program.task
        action = gymnasium.spaces.Box(-1.0, 1.0, (program.action.size,), dtype=self._dtype.type)
        seen = gymnasium.spaces.Box(-np.inf, np.inf, (program.observation_size,), dtype=self._dtype.type)
        self.single_action_space, self.single_observation_space = action, seen
        self.action_space, self.observation_space = batch_space(action, n), batch_space(seen, n)
        self.q, self.v = np.tile(model.neutral(), (n, 1)), np.zeros((n, model.nv))
        self.goal, self._age, self._action = (
            np.zeros((n, program.goal_size)),
            np.zeros(n),
            np.zeros((n, program.action.size)),
        )
        self.parameters = np.tile(program.parameters, (n, 1)) if program.randomized else program.parameters.copy()
        self._seen, self._reward, self._ends = np.zeros((n, program.observation_size)), np.zeros(n), np.zeros(n)
        self._seeds = np.random.SeedSequence().generate_state(n, np.uint64)
        self._episodes, self._steps, self._over = (
            np.zeros(n, dtype=np.uint64),
            np.zeros(n, dtype=np.int64),
            np.zeros(n, dtype=bool),
        )
        self._most = max(round(task.horizon / task.period), 1)
        at, layout = program.terminals, program.stepper.layout
        self._memory = np.zeros((n, program.action.state_size))
        kept = {at.q: self.q, at.v: self.v}
        kept |= {at.memory: self._memory} if at.memory is not None else {}
        self._extra = {name: np.zeros((n, *layout.shapes[name])) for name in layout.persistent if name not in kept}
        self._inputs = np.zeros((n, model.nu))
        constants = {at.p: self.parameters, at.h: np.asarray(task.period / task.substeps)}
        records = {at.u: self._inputs}
        if program.outcome is None:  # the outcome of a step is part of it
            constants |= {GOAL: self.goal, AGE: self._age}
            records = {OBSERVATION: self._seen, REWARD: self._reward, DONE: self._ends}
        self._advance = BoundSteps(
            program.stepper,
            kept | self._extra,
            constants,
            {at.signals[0][1]: self._action},
            records,
            task.period / task.substeps,
        )
        self._begun = False

    def __repr__(self) -> str:
        return f"NativeVectorEnv({self.program.model.name!r}, {self.num_envs} environments)"

    # --- episodes -----------------------------------------------------------------------------------------------------------

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start new episodes of all environments, or of those of ``options["reset_mask"]``.

        Parameters
        ----------
        seed : seed of the first environment, from which the others follow, or one seed for each (None keeps the current one).
        """
        rows = np.arange(self.num_envs)
        if options is not None and "reset_mask" in options:
            mask = options["reset_mask"]
            if (
                not isinstance(mask, np.ndarray)
                or mask.dtype != np.bool_
                or mask.shape != (self.num_envs,)
                or not mask.any()
            ):
                raise ShapeError(
                    f"options['reset_mask'] must be a boolean array ({self.num_envs},) with at least one True, got {mask!r}."
                )
            rows = np.flatnonzero(mask)
        if seed is not None:
            seeds = [seed + k for k in range(self.num_envs)] if isinstance(seed, int | np.integer) else list(seed)
            if len(seeds) != self.num_envs:
                raise ShapeError(f"seed must be one number or {self.num_envs} of them, got {len(seeds)}.")
            for k in rows.tolist():
                if (own := seeds[k]) is not None:
                    self._seeds[k], self._episodes[k] = np.uint64(int(own) % 2**64), 0
        self._start(rows)
        self._begun = True
        return self._observed(), {}

    def _start(self, rows: np.ndarray) -> None:
        """New episodes of some environments; their observations are in place."""
        program = self.program
        self._episodes[rows] += np.uint64(1)
        own = len(program.randomized)
        numbers = uniform(self._seeds[rows], self._episodes[rows], program.draws + own)
        p = self.parameters
        if own:
            for k, (place, low, high) in enumerate(program.randomized):
                p[rows, place] = low + (high - low) * numbers[:, program.draws + k]
            p = p[rows]
        q, v, goal, seen = program.first(numbers[:, : program.draws], p)
        self.q[rows], self.v[rows], self.goal[rows], self._seen[rows] = q, v, goal, seen
        self._memory[rows] = program.action.initial_state()
        self._steps[rows], self._over[rows] = 0, False

    def step(self, actions: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """One action of each environment (n, size)."""
        if not self._begun:
            raise gymnasium.error.ResetNeeded("call reset before step.")
        given = np.asarray(actions, dtype=float)
        if given.shape != self._action.shape:
            hint = f"{self.num_envs} environments with {self._action.shape[1]} entries each, see action_space."
            raise wrong_shape("actions", self._action.shape, given.shape, hint)
        self._action[...] = given
        waiting = np.flatnonzero(self._over) if self._over.any() else None
        if waiting is not None and self._mode is AutoresetMode.DISABLED:
            raise SimulationError(
                f"{len(waiting)} environments have ended: start them again with reset(options={{'reset_mask': terminated | truncated}}) before "
                "the next step."
            )
        self._steps += 1
        np.multiply(self._steps, self.program.task.period, out=self._age)
        for array in self._extra.values():
            array.fill(0.0)
        self._advance(self.program.task.substeps)
        if self.program.outcome is not None:
            self._judge()
        terminated = self._ends != 0.0
        info: dict[str, Any] = {}
        failed = self._advance.failed >= 0
        if failed.any():
            self._diverged(failed, terminated, info)
        truncated = (self._steps >= self._most) & ~terminated
        reward = self._reward.copy()
        if waiting is not None:  # the step that starts a new episode does nothing else
            reward[waiting], terminated[waiting], truncated[waiting] = 0.0, False, False
            self._start(waiting)
        self._over = terminated | truncated
        if self._mode is AutoresetMode.SAME_STEP and self._over.any():
            rows = np.flatnonzero(self._over)
            final = np.full(self.num_envs, None, dtype=object)
            final[rows] = list(self._seen[rows].astype(self._dtype))
            info |= {"final_obs": final, "_final_obs": self._over.copy()}
            self._start(rows)
        return self._observed(), reward, terminated, truncated, info

    def _judge(self) -> None:
        """Observation, reward and end of a task in NumPy."""
        outcome, model = self.program.outcome, self.program.model
        if outcome is None:
            return
        bounded = np.clip(self._action, -1.0, 1.0)
        at = BatchAt(model, self.q, self.v, self._inputs, bounded, self.goal, self.parameters, self._age)
        self._seen[...], self._reward[...], self._ends[...] = outcome(at, self._advance.failed >= 0)

    def _diverged(self, failed: np.ndarray, terminated: np.ndarray, info: dict[str, Any]) -> None:
        """States that are no longer finite end their episodes, with a reward of 0 and the last finite observation replaced by zeros."""
        terminated |= failed
        bad = failed | ~np.isfinite(self._reward)
        self._reward[bad], self._seen[bad] = 0.0, np.nan_to_num(self._seen[bad], nan=0.0, posinf=0.0, neginf=0.0)
        info |= {"diverged": failed.copy(), "_diverged": failed.copy()}

    def _observed(self) -> np.ndarray:
        return self._seen.astype(self._dtype)

    # --- one environment ------------------------------------------------------------------------------------------------------

    def single(self) -> SingleEnv:
        """One environment of the same task as a ``gymnasium.Env``."""
        return SingleEnv(NativeVectorEnv(self.program, 1, "disabled", self._dtype))

    def episode(self, policy: Callable[[np.ndarray], Any], seed: int = 0) -> Run:
        """One episode of a policy ``fn(observation) -> action`` as a run, which has pages, plots and files.

        The run is that of ``ht.simulate`` with the actions of the episode; it is cut where the episode ends.
        """
        env, program = self.single(), self.program
        seen, _ = env.reset(seed=seed)
        start, done, actions = (env.vector.q[0].copy(), env.vector.v[0].copy()), False, []
        own = {
            name: float(env.vector.parameters[0, program.model.parameter_names.index(name)])
            for name in program.task.randomized
        }
        while not done:
            actions.append(np.asarray(policy(seen), dtype=float).reshape(program.action.size))
            seen, _, terminated, truncated, _ = env.step(actions[-1].astype(self._dtype))
            done = terminated or truncated
        given = np.stack(actions).astype(self._dtype).astype(float)
        law = replace(program.action, samples=tuple(map(tuple, given.tolist())))
        task = program.task
        return simulate(
            program.model, start, until=len(actions) * task.period, step=task.period / task.substeps, control=law, control_step=task.period,
            parameters=own or None,
        )  # fmt: skip

    def stable_baselines(self) -> Any:
        """The same environments as a ``VecEnv`` of stable-baselines3."""
        from heavytop.gym.stable_baselines import vec_env

        return vec_env(NativeVectorEnv(self.program, self.num_envs, "same_step", self._dtype))


class SingleEnv(gymnasium.Env):
    """One environment. Made by :meth:`NativeVectorEnv.single`."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (as in gymnasium)

    def __init__(self, vector: NativeVectorEnv) -> None:
        self.vector = vector
        self.action_space, self.observation_space = vector.single_action_space, vector.single_observation_space

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        seen, info = self.vector.reset(seed=seed)
        return seen[0], info

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.vector._over[:] = False  # gymnasium allows steps after the end
        given = np.asarray(action, dtype=float)
        if given.shape != self.action_space.shape:
            raise wrong_shape("action", self.vector._action.shape[1:], given.shape, "See action_space.")
        seen, reward, terminated, truncated, info = self.vector.step(given[None])
        own = {name: bool(value[0]) for name, value in info.items() if not name.startswith("_")}
        return seen[0], float(reward[0]), bool(terminated[0]), bool(truncated[0]), own
