"""``ht.env``: an environment from a system and a task."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from heavytop.copters import Vehicle, load
from heavytop.errors import ModelError, SimulationError, unknown_name
from heavytop.gym.program import program
from heavytop.gym.task import EnvTask
from heavytop.gym.tasks import FOR_SYSTEMS, FOR_VEHICLES
from heavytop.system import System

if TYPE_CHECKING:
    from heavytop.gym.vector_env import NativeVectorEnv


def names() -> tuple[str, ...]:
    """Names of the built-in tasks: those of multicopters, then those of any system.

    >>> names()[0], names()[-1]
    ('hover', 'swing-up')
    """
    return (*FOR_VEHICLES, *FOR_SYSTEMS)


def env(
    system: Any,
    task: str | EnvTask,
    num_envs: int = 1,
    *,
    autoreset: str = "next_step",
    dtype: Any = "float32",
    threads: int | None = 1,
    **changes: Any,
) -> NativeVectorEnv:
    """Make a batch of identical environments, a ``gymnasium.vector.VectorEnv``; needs the extra ``gym``.

    Step, observation, reward and end are one native program over the batch; episodes that end are started again by a native function of random
    numbers that depend on the seed of the environment and the number of its episode only, so an environment of a batch equals the same one alone,
    bit by bit.

    Parameters
    ----------
    system : a vehicle, its name, a derived model or a system. task : a :class:`EnvTask`, or the name of a built-in one (:func:`names`).
    num_envs : number of environments; ``.single()`` of the result is one as a ``gymnasium.Env``.
    autoreset : "next_step", "same_step" or "disabled", as in gymnasium.
    dtype : dtype of observations and actions. threads : number of threads for large batches; None: one per processor.
    changes : fields of the task to replace: action, horizon, period, substeps, lag, limits, randomized.

    Examples
    --------
    >>> import heavytop as ht
    >>> envs = ht.env("quadcopter", "hover", num_envs=64)
    >>> obs, info = envs.reset(seed=0)
    >>> obs, reward, terminated, truncated, info = envs.step(envs.action_space.sample())
    >>> obs.shape, reward.shape, obs.dtype.name
    ((64, 22), (64,), 'float32')
    """
    try:
        from heavytop.gym.vector_env import NativeVectorEnv
    except ImportError as error:
        raise SimulationError(f"environments need the package {error.name!r}: pip install 'heavytop[gym]'.") from None
    subject = load(system) if isinstance(system, str) else system.derive() if isinstance(system, System) else system
    made = _task(subject, task) if isinstance(task, str) else task
    if not isinstance(made, EnvTask):
        raise SimulationError(f"task must be a heavytop.gym.EnvTask or one of {', '.join(names())}, got {task!r}.")
    for name in changes:
        if name not in EnvTask.__dataclass_fields__:
            raise unknown_name("argument of ht.env", name, EnvTask.__dataclass_fields__)
    if not isinstance(num_envs, int) or num_envs < 1:
        raise SimulationError(f"num_envs must be 1, 2, ..., got {num_envs!r}.")
    return NativeVectorEnv(program(subject, replace(made, **changes), threads), num_envs, autoreset, dtype)


def _task(subject: Any, name: str) -> EnvTask:
    if name in FOR_VEHICLES:
        if not isinstance(subject, Vehicle):
            raise ModelError(
                f"the task {name!r} is for multicopters (ht.copters); tasks of any system are {', '.join(FOR_SYSTEMS)}."
            )
        return FOR_VEHICLES[name](subject)
    if name not in FOR_SYSTEMS:
        raise unknown_name("task", name, names())
    return FOR_SYSTEMS[name](subject.model if isinstance(subject, Vehicle) else subject)
