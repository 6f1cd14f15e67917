"""Environments of 4096 quadcopters with observation, reward and new episodes: steps per second of processor time, compared with others.

The physics differs, and the table says how: no two of these environments have the same vehicle, rotor model, observation and reward. Each step is one
action of 10 ms.
"""

from __future__ import annotations

import importlib.util
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import heavytop as ht
from heavytop_bench import hummingbird
from heavytop_bench.measure import BenchEffort
from heavytop_bench.peers import Peer, divide
from heavytop_bench.report import BenchReport

TITLE = (
    "Environments with observation, reward and reset, 4096 quadcopters: environment steps per second of processor time"
)
PERIOD = 0.01
TARGET, ROTORPY_TARGET = 5e6, 20.0


def run(effort: BenchEffort, peers: Sequence[Peer] | None = None) -> BenchReport:
    """All environments that are installed; ``peers=()`` leaves the others out."""
    rolling, missing = divide(peers, "rollout")
    report = BenchReport("env", TITLE, missing=missing)
    count = max(effort.batch, 16)
    others: dict[str, Callable[[int], tuple[Callable[[], Any], int, str]]] = {
        "RotorPy": _rotorpy,
        "crazyflow": _crazyflow,
        "l2f": _l2f,
    }
    needs = {"RotorPy": "torchdiffeq", "crazyflow": "jax", "l2f": "l2f"}
    candidates: dict[str, tuple[Callable[[], Any], int, str]] = {
        "motor commands": _ours(count, "inputs", 0.0),
        "motor commands with lag": _ours(count, "inputs", 0.03),
        "thrust and body rates": _ours(count, "rates", 0.0),
        "task in NumPy": _in_numpy(count),
    }
    with _one_thread():
        for name, make in others.items() if peers != () and effort.seconds else ():
            if importlib.util.find_spec(name.lower()) is None or importlib.util.find_spec(needs[name]) is None:
                report.missing.append(name)
                continue
            try:
                candidates[name] = make(count)
            except (ImportError, RuntimeError, TypeError) as error:  # crazyflow needs SCIPY_ARRAY_API=1 and Python 3.12
                report.missing.append(f"{name} ({str(error).split('.')[0].strip()})")
        rates = _rates(candidates, effort)
    for name, (_, size, physics) in candidates.items():
        report.row(environment=name, environments=size, steps_per_second=rates[name], physics=physics)
    report.ratio("motor commands: steps per second / 5 million", rates["motor commands"] / TARGET, 1.0)
    if "RotorPy" in rates:
        report.ratio(
            "motor commands against RotorPy's vector environment",
            rates["motor commands with lag"] / rates["RotorPy"],
            ROTORPY_TARGET,
        )
    for name in ("crazyflow", "l2f"):
        if name in rates:
            report.ratio(
                f"motor commands against {name} on the processor", rates["motor commands with lag"] / rates[name], 1.0
            )
    for peer in rolling if effort.seconds else ():
        rollout = hummingbird.rollout_steps_per_second(peer)
        physics = (
            "quaternion, RK4, one step of 10 ms, no rotor lag, no drag; states only: no observation, reward and reset"
        )
        report.row(environment=f"{peer.name} rollout", environments=64, steps_per_second=rollout, physics=physics)
        report.ratio(f"motor commands against the rollout of {peer.name}", rates["motor commands"] / rollout, 1.0)
    report.notes.append(
        "one thread each; least processor time over alternating blocks; random actions, so episodes end and start again all the time."
    )
    return report


@contextmanager
def _one_thread() -> Iterator[None]:
    """torch on one thread; XLA has no such switch after its start, so processor time of all threads counts."""
    if importlib.util.find_spec("torch") is not None:
        import torch  # pyright: ignore

        torch.set_num_threads(1)
    yield


def _rates(candidates: dict[str, tuple[Callable[[], Any], int, str]], effort: BenchEffort) -> dict[str, float]:
    best = dict.fromkeys(candidates, np.inf)
    end, rounds = time.perf_counter() + 3 * effort.seconds, 0
    while rounds < min(effort.rounds, 8) or time.perf_counter() < end:
        rounds += 1
        for name, (work, _, _) in candidates.items():
            work()
            start = time.process_time()
            work()
            best[name] = min(best[name], max(time.process_time() - start, 1e-9))
    return {name: size / best[name] for name, (_, size, _) in candidates.items()}


def _ours(count: int, action: str, lag: float) -> tuple[Callable[[], Any], int, str]:
    envs = ht.env("quadcopter", "hover", num_envs=count, action=action, lag=lag, period=PERIOD, threads=1)
    envs.reset(seed=0)
    actions = np.random.default_rng(0).uniform(-1, 1, (count, 4)).astype(np.float32)
    rotor = "first-order rotor lag" if lag else "no rotor lag"
    return (
        lambda: envs.step(actions),
        count,
        f"rotation matrix, Lie-group RK4, one step of 10 ms, {rotor}, no drag; float64; 22 observations",
    )


def _in_numpy(count: int) -> tuple[Callable[[], Any], int, str]:
    """The state as observation, and functions of a task in NumPy."""
    task = ht.gym.EnvTask(
        reset=lambda draw: (
            np.concatenate([draw.uniform(-1.0, 1.0, 3), _rows(draw.tilted(1.0))], axis=-1),
            draw.normal(1.0, 6),
        ),
        observation=lambda at: np.concatenate([at.q, at.v, at.action], axis=-1),
        reward=lambda at: 1.0 - np.sqrt(np.vecdot(at.q[:, :3], at.q[:, :3])),
        terminated=lambda at: np.abs(at.q[:, 2]) > 3.0,
        period=PERIOD,
        traced=False,
    )
    envs = ht.env("quadcopter", task, num_envs=count, threads=1)
    envs.reset(seed=0)
    actions = np.random.default_rng(0).uniform(-1, 1, (count, 4)).astype(np.float32)
    physics = "rotation matrix, Lie-group RK4, one step of 10 ms, no rotor lag, no drag; float64; 22 observations"
    return lambda: envs.step(actions), count, physics


def _rows(R: np.ndarray) -> np.ndarray:
    """Rotation matrices (n, 3, 3) column by column (n, 9)."""
    return R.swapaxes(-1, -2).reshape(-1, 9)


def _l2f(count: int) -> tuple[Callable[[], Any], int, str]:
    """Observation, step, reward, end and new episodes by l2f's functions of a batch."""
    import l2f  # pyright: ignore[reportMissingImports]

    vector = getattr(l2f, f"vector{count}")
    device, rng, env = l2f.Device(), vector.VectorRng(), vector.VectorEnvironment()
    parameters, states = vector.VectorParameters(), [vector.VectorState(), vector.VectorState()]
    vector.initialize_rng(device, rng, 0)
    vector.initialize_environment(device, env)
    vector.sample_initial_parameters(device, env, parameters, rng)
    vector.sample_initial_state(device, env, parameters, states[0], rng)
    seen = np.zeros((count, env.OBSERVATION_DIM), dtype=np.float32)
    actions = np.random.default_rng(0).uniform(-1, 1, (count, 4)).astype(np.float32)
    reward, over = np.zeros(count, dtype=np.float32), np.zeros(count, dtype=bool)

    def step() -> None:
        vector.step(device, env, parameters, states[0], actions, states[1], rng)
        vector.reward(device, env, parameters, states[0], actions, states[1], reward, rng)
        vector.terminated(device, env, parameters, states[1], over, rng)
        vector.sample_initial_state_if_truncated(device, env, parameters, states[1], over, rng)
        vector.observe(device, env, parameters, states[1], seen, rng)
        states.reverse()

    physics = (
        f"quaternion, RK4, one step of 10 ms, rotor lag, disturbances; float32; {env.OBSERVATION_DIM} observations"
    )
    return step, count, physics


def _rotorpy(count: int) -> tuple[Callable[[], Any], int, str]:
    import torch  # pyright: ignore
    from rotorpy.learning.quadrotor_environments import make_default_vec_env  # pyright: ignore
    from rotorpy.vehicles.crazyflie_params import quad_params  # pyright: ignore

    envs = make_default_vec_env(
        count, quad_params, "cmd_motor_speeds", torch.device("cpu"), sim_rate=round(1 / PERIOD), aero=False
    )
    envs.reset()
    actions = np.random.default_rng(0).uniform(-1, 1, (count, 4))
    return (
        lambda: envs.step(actions),
        count,
        "quaternion, RK4 of torchdiffeq, one step of 10 ms, first-order rotor lag, no drag; float64",
    )


def _crazyflow(count: int) -> tuple[Callable[[], Any], int, str]:
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    import jax  # pyright: ignore[reportMissingImports]
    from crazyflow.envs import ReachPosEnv  # pyright: ignore

    envs: Any = ReachPosEnv(num_envs=count, freq=round(1 / PERIOD), device="cpu")
    envs.reset(seed=0)
    low, high = envs.single_action_space.low, envs.single_action_space.high
    actions = np.random.default_rng(0).uniform(low, high, (count, len(low))).astype(np.float32)
    return (
        lambda: jax.block_until_ready(envs.step(actions)[:2]),
        count,
        "fitted second-order attitude response (so_rpy), 5 steps of 2 ms, float32; 13 observations",
    )
