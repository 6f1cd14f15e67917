"""Environments: a batch equals its environments alone, bit by bit; the physics is that of runs; the interfaces are those of gymnasium."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import heavytop as ht
from heavytop.errors import ModelError, ShapeError, SimulationError, UnknownNameError
from heavytop.gym import EnvTask

gymnasium = pytest.importorskip("gymnasium")
MODES = ["same_step", *(pytest.param(mode, marks=pytest.mark.thorough) for mode in ("next_step", "disabled"))]


def short(**changes: Any) -> dict[str, Any]:
    """Hovering quadcopters that are soon lost or out of time, with a lag and drawn numbers in every episode."""
    return {"horizon": 0.25, "lag": 0.03, "limits": (0.0, 30.0)} | changes


@pytest.mark.thorough
@pytest.mark.parametrize("mode", MODES)
def test_batch_equals_single_environments(mode: str) -> None:
    """Seed by seed, bit by bit, over several episodes each, against gymnasium's own loop over single environments."""
    n = 5
    options = short()
    envs = ht.env("quadcopter", "recovery", num_envs=n, autoreset=mode, **options)
    alone = gymnasium.vector.SyncVectorEnv(
        [lambda: ht.env("quadcopter", "recovery", **options).single() for _ in range(n)],
        autoreset_mode=gymnasium.vector.AutoresetMode[mode.upper()],
    )
    mine, theirs = envs.reset(seed=7), alone.reset(seed=7)
    assert (mine[0] == theirs[0]).all()
    rng, ended = np.random.default_rng(0), 0
    for _ in range(70):
        actions = rng.uniform(-1, 1, (n, 4)).astype(np.float32)
        mine, theirs = envs.step(actions), alone.step(actions)
        for a, b in zip(mine[:4], theirs[:4], strict=True):
            assert a.dtype == b.dtype
            assert (a == b).all()
        over = mine[2] | mine[3]
        ended += int(over.sum())
        if mode == "same_step" and over.any():
            assert (mine[4]["_final_obs"] == theirs[4]["_final_obs"]).all()
            for k in np.flatnonzero(over):
                assert (mine[4]["final_obs"][k] == theirs[4]["final_obs"][k]).all()
        if mode == "disabled" and over.any():
            mine, theirs = (e.reset(options={"reset_mask": over}) for e in (envs, alone))
            assert (mine[0] == theirs[0]).all()
    assert ended >= 2 * n


@pytest.mark.thorough
def test_checker_of_gymnasium() -> None:
    from gymnasium.utils.env_checker import check_env

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_env(ht.env("quadcopter", "hover").single(), skip_render_check=True)
        check_env(ht.env(ht.library.cart_pole(), "swing-up", limits=20.0).single(), skip_render_check=True)


@pytest.mark.thorough
def test_episode_is_a_run_of_the_same_physics() -> None:
    """The states of an environment are those of ``ht.simulate`` with its actions, lag and parameters included."""
    system = ht.System(name="cart and pole")
    mass = system.parameter("mass", 0.3)
    system.body("cart", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.body("pole", parent="cart", joint=ht.Revolute("y"), inertia=ht.Inertia(mass, com=(0, 0, 0.5)))
    system.input("push", ht.JointForce("cart"))
    envs = ht.env(system, "balance", limits=10.0, lag=0.05, horizon=0.6, randomized={"mass": (0.1, 0.9)})
    run = envs.episode(lambda seen: np.sin(5 * seen[:1]), seed=3)
    env = envs.single()
    seen, _ = env.reset(seed=3)
    assert 0.1 <= run.parameters["mass"] <= 0.9
    assert env.vector.parameters[0, 0] == run.parameters["mass"]
    for k in range(len(run.t) // 2):
        assert np.allclose(env.vector.q[0], run.q[2 * k], atol=1e-12)
        assert np.allclose(env.vector.v[0], run.v[2 * k], atol=1e-12)
        seen, *_ = env.step(np.sin(5 * seen[:1]))


@pytest.mark.thorough
@pytest.mark.parametrize("action", ["rates", "velocity", "attitude"])
def test_cascades_do_what_they_are_told(action: str) -> None:
    """Body rates and velocities reach the command; no tilt command keeps the vehicle level."""
    envs = ht.env("quadcopter", "hover", num_envs=8, action=action, horizon=5.0, limits=(0.0, 10.0))
    envs.reset(seed=1)
    vehicle = ht.copters.load("quadcopter")
    hover = 2 * vehicle.weight / 40.0 - 1
    commands = {"rates": [hover, 0.1, 0.0, 0.2], "velocity": [0.2, -0.1, 0.1, 0.3], "attitude": [hover, 0.0, 0.0, 0.5]}
    given = np.tile(np.array(commands[action], dtype=np.float32), (8, 1))
    for _ in range(60 if action == "rates" else 250):
        *_, terminated, _, _ = envs.step(given)
    assert not terminated.any()
    R = envs.q[:, 3:12].reshape(-1, 3, 3).swapaxes(1, 2)
    if action == "rates":
        assert np.allclose(envs.v[:, 3:], [0.6, 0.0, 0.6], atol=0.02)
    elif action == "velocity":
        assert np.allclose(np.matvec(R, envs.v[:, :3]), [0.6, -0.3, 0.3], atol=0.02)
        assert np.allclose(envs.v[:, 5], 0.9, atol=0.02)
    else:
        assert (R[:, 2, 2] > 0.999).all()
        assert np.allclose(envs.v[:, 5], 1.5, atol=0.02)


@pytest.mark.thorough
@pytest.mark.parametrize("task", ["hover", "recovery", "tracking", "gates"])
def test_tasks_of_multicopters(task: str) -> None:
    """Rewards are finite and best where the task says; a batch keeps going for several episodes."""
    envs = ht.env("quadcopter", task, num_envs=64, action="velocity", horizon=1.0)
    seen, _ = envs.reset(seed=0)
    assert np.isfinite(seen).all()
    rng = np.random.default_rng(0)
    for _ in range(120):
        seen, reward, *_ = envs.step(rng.uniform(-1, 1, (64, 4)))
        assert np.isfinite(seen).all()
        assert np.isfinite(reward).all()
    if task == "gates":
        return
    envs.q[0], envs.v[0] = envs.program.model.neutral(), 0.0
    if task == "hover":
        _, reward, *_ = envs.step(np.zeros((64, 4)))
        assert reward[0] > 0.95
        assert reward[0] == reward.max()


@pytest.mark.thorough
def test_payload_and_drag_are_drawn_for_every_episode() -> None:
    """At the thrust of the bare vehicle each one falls with the acceleration of its own payload; drag slows each by its own coefficient."""
    vehicle = ht.copters.load("quadcopter")
    envs = ht.env(
        vehicle,
        "hover",
        num_envs=50,
        limits=(0.0, 10.0),
        randomized={"payload": (0.05, 0.4), "drag": (0.0, 0.5)},
        horizon=0.1,
    )
    envs.reset(seed=2)
    payload, drag = envs.parameters.T
    assert 0.05 <= payload.min() < 0.1 < 0.35 < payload.max() <= 0.4
    envs.q[:], envs.v[:] = vehicle.model.neutral(), 0.0
    envs.v[:, 0] = 1.0
    hover = np.full((50, 4), 2 * vehicle.weight / 40.0 - 1)
    envs.step(hover)
    total = vehicle.mass + payload
    assert np.allclose(envs.v[:, 2], -0.01 * 9.81 * payload / total, rtol=2e-2, atol=1e-4)
    assert np.allclose(
        1 - envs.v[:, 0], 1 - np.exp(-0.01 * drag / total), rtol=0.05
    )  # the payload below turns it a little
    before = payload.copy()
    for _ in range(12):
        envs.step(hover)
    assert not (envs.parameters[:, 0] == before).any()


@pytest.mark.thorough
def test_starts_are_spread_and_repeatable() -> None:
    envs = ht.env("quadcopter", "recovery", num_envs=2000)
    envs.reset(seed=11)
    first = envs.q.copy()
    R = first[:, 3:12].reshape(-1, 3, 3)
    assert np.abs(R.mean(axis=0)).max() < 0.05  # all attitudes alike
    assert np.abs(np.linalg.det(R) - 1).max() < 1e-12
    assert first[:, :3].std(axis=0) == pytest.approx(np.full(3, 1 / np.sqrt(3)), rel=0.05)
    assert envs.v[:, 3:].std() == pytest.approx(3.0, rel=0.05)
    envs.reset()
    assert not (envs.q == first).any(axis=0).all()
    envs.reset(seed=11)
    assert (envs.q == first).all()


@pytest.mark.thorough
def test_swing_up_rewards_the_top() -> None:
    envs = ht.env(ht.library.cart_pole(), "swing-up", num_envs=2, limits=20.0)
    envs.reset(seed=0)
    envs.q[:], envs.v[:] = [[0.0, 0.0], [0.0, np.pi]], 0.0
    _, reward, *_ = envs.step(np.zeros((2, 1)))
    assert sorted(reward.round(2).tolist()) == [0.0, 1.0]


@pytest.mark.thorough
def test_own_task_and_its_mistakes() -> None:
    model = ht.library.cart_pole().derive()
    good: dict[str, Any] = {
        "reset": lambda draw: (draw.uniform(-0.1, 0.1, 2), np.zeros(2)),
        "observation": lambda at: np.concatenate([at.q, at.v]),
        "reward": lambda at: 1.0 - at.q[1] ** 2,
        "terminated": lambda at: np.abs(at.q[1]) > 0.5,
        "limits": (-10.0, 10.0),
    }
    envs = ht.env(model, EnvTask(**good), num_envs=3)
    seen, _ = envs.reset(seed=0)
    assert seen.shape == (3, 4)
    envs.q[1, 1] = 0.6
    _, _, terminated, *_ = envs.step(np.zeros((3, 1)))
    assert terminated.tolist() == [False, True, False]
    for change, text in (
        ({"reset": lambda draw: (draw.uniform(0, 1, 3), np.zeros(2))}, r"\(2,\)"),
        ({"reset": lambda draw: draw.uniform(0, 1)}, "goal"),
        ({"observation": lambda at: at.q[0]}, "vector"),
        ({"reward": lambda at: at.q}, "one number"),
        ({"reward": lambda at: 1.0 if at.q[0] > 0 else 0.0}, "reward"),
        ({"horizon": -1.0}, "horizon"),
        ({"substeps": 0}, "substeps"),
    ):
        with pytest.raises(SimulationError, match=text):
            ht.env(model, EnvTask(**(good | change)))
    with pytest.raises(ModelError, match="limits"):
        ht.env(model, EnvTask(**(good | {"limits": None})))


def cart_pole_task(**changes: Any) -> EnvTask:
    """A task whose functions hold for symbols and, with ``traced=False``, for batches."""
    parts: dict[str, Any] = {
        "reset": lambda draw: (draw.uniform(-0.1, 0.1, 2), draw.normal(0.3, 2), draw.uniform(0.0, 1.0, 1)),
        "observation": lambda at: np.concatenate([at.q, at.v, at.goal, at.u], axis=-1),
        "reward": lambda at: 1.0 - np.vecdot(at.q, at.q) - 0.1 * np.vecdot(at.action, at.action),
        "terminated": lambda at: np.vecdot(at.q, at.q) > 0.02,
        "limits": (-10.0, 10.0),
        "horizon": 0.2,
        "lag": 0.02,
    }
    return EnvTask(**(parts | changes))


@pytest.mark.thorough
def test_task_in_numpy_equals_the_traced_one() -> None:
    model = ht.library.cart_pole().derive()
    envs = [
        ht.env(model, cart_pole_task(traced=traced), num_envs=6, autoreset="same_step", dtype="float64")
        for traced in (True, False)
    ]
    first = [env.reset(seed=3)[0] for env in envs]
    assert np.allclose(first[0], first[1], rtol=1e-15, atol=1e-15)
    rng, ended = np.random.default_rng(0), 0
    for _ in range(60):
        actions = rng.uniform(-1, 1, (6, 1))
        mine, theirs = (env.step(actions) for env in envs)
        assert np.allclose(mine[0], theirs[0], rtol=1e-14, atol=1e-14)
        assert np.allclose(mine[1], theirs[1], rtol=1e-14, atol=1e-14)
        assert (mine[2] == theirs[2]).all()
        assert (mine[3] == theirs[3]).all()
        ended += int((mine[2] | mine[3]).sum())
    assert ended > 12


@pytest.mark.thorough
def test_task_in_numpy_may_branch_and_use_frames() -> None:
    """A batch equals single environments; poses, velocities and parameters are those of each environment."""
    system = ht.System(name="arm")
    length = system.parameter("length", 0.4)
    system.body("arm", joint=ht.Revolute("z"), inertia=ht.Inertia(0.5, com=ht.vector(length, 0.0, 0.0)))
    system.body("tip", parent="arm", at=ht.vector(length, 0.0, 0.0), joint=ht.Fixed(), inertia=ht.Inertia(0.1))
    system.input("torque", ht.JointForce("arm"))

    def observation(at: Any) -> np.ndarray:
        (_, place), (linear, angular) = at.pose("tip"), at.twist("tip")
        return np.column_stack([place, linear, angular, at.distance(np.zeros(1))])

    def reward(at: Any) -> np.ndarray:
        return np.array([1.0 if x > 0 else -1.0 for x in at.q[:, 0]])  # a branch on a number

    task = EnvTask(
        reset=lambda draw: (draw.uniform(-1.0, 1.0, 1), draw.uniform(-1.0, 1.0, 1)),
        observation=observation,
        reward=reward,
        limits=(-2.0, 2.0),
        horizon=0.05,
        randomized={"length": (0.3, 0.5)},
        traced=False,
    )
    envs = ht.env(system, task, num_envs=4, autoreset="same_step", dtype="float64")
    alone = gymnasium.vector.SyncVectorEnv(
        [lambda: ht.env(system, task, dtype="float64").single() for _ in range(4)],
        autoreset_mode=gymnasium.vector.AutoresetMode.SAME_STEP,
    )
    mine, theirs = envs.reset(seed=5)[0], alone.reset(seed=5)[0]
    for _ in range(12):
        assert (mine == theirs).all()
        lengths = envs.parameters[:, envs.program.model.parameter_names.index("length")]
        assert np.allclose(np.linalg.norm(mine[:, :3], axis=1), lengths)
        assert np.allclose(mine[:, 4], lengths * mine[:, 8])
        assert np.allclose(mine[:, 9], envs.q[:, 0])
        actions = envs.action_space.sample()
        mine, reward_mine, *_ = envs.step(actions)
        theirs, reward_theirs, *_ = alone.step(actions)
        assert (reward_mine == reward_theirs).all()


def test_mistakes_of_tasks_in_numpy_are_reported() -> None:
    model = ht.library.cart_pole().derive()
    for change, text in (
        ({"reset": lambda draw: (draw.uniform(0, 1, 3), np.zeros(2))}, r"\(1, 2\)"),
        ({"reset": lambda draw: draw.uniform(0, 1)}, "goal"),
        ({"observation": lambda at: np.full((1, 2), np.nan)}, "observation.*not finite"),
    ):
        with pytest.raises(SimulationError, match=text):
            ht.env(model, cart_pole_task(traced=False, **change))
    envs = ht.env(model, cart_pole_task(traced=False, reward=lambda at: at.q), num_envs=3)
    envs.reset(seed=0)
    with pytest.raises(SimulationError, match=r"reward.*\(3\).*\(3, 2\)"):
        envs.step(np.zeros((3, 1)))
    lost = ht.env(model, cart_pole_task(traced=False), num_envs=3, autoreset="same_step")
    lost.reset(seed=0)
    lost.v[1] = 1e200
    seen, reward, terminated, _, info = lost.step(np.zeros((3, 1)))
    assert terminated.tolist() == [False, True, False] == info["diverged"].tolist()
    assert np.isfinite(seen).all()
    assert np.isfinite(reward).all()


@pytest.mark.thorough
def test_mistakes_are_reported() -> None:
    with pytest.raises(UnknownNameError, match="task"):
        ht.env("quadcopter", "hovver")
    with pytest.raises(UnknownNameError, match="autoreset"):
        ht.env("quadcopter", "hover", autoreset="never")
    with pytest.raises(UnknownNameError, match="action"):
        ht.env("quadcopter", "hover", action="thoughts")
    with pytest.raises(ModelError, match="multicopters"):
        ht.env(ht.library.cart_pole(), "hover")
    with pytest.raises(UnknownNameError, match="parameter"):
        ht.env("quadcopter", "hover", randomized={"mass": (1.0, 2.0)})
    with pytest.raises(ModelError, match="loops"):
        ht.env(ht.library.four_bars(2), "reference", limits=1.0)
    envs = ht.env("quadcopter", "hover", num_envs=2, autoreset="disabled", horizon=0.01)
    with pytest.raises(gymnasium.error.ResetNeeded):
        envs.step(np.zeros((2, 4)))
    with pytest.raises(ShapeError, match="seed"):
        envs.reset(seed=[1, 2, 3])
    envs.reset(seed=1)
    envs.step(np.zeros((2, 4)))
    with pytest.raises(SimulationError, match="reset_mask"):
        envs.step(np.zeros((2, 4)))


@pytest.mark.thorough
def test_diverged_environments_end_and_start_again() -> None:
    envs = ht.env("quadcopter", "hover", num_envs=3, autoreset="same_step")
    envs.reset(seed=0)
    envs.v[1] = 1e200
    seen, reward, terminated, _, info = envs.step(np.zeros((3, 4)))
    assert terminated.tolist() == [False, True, False]
    assert np.isfinite(seen).all()
    assert np.isfinite(reward).all()
    assert info["diverged"].tolist() == [False, True, False]


@pytest.mark.gym
def test_stable_baselines_learns_to_balance() -> None:
    """PPO balances the cart and pole within 60,000 steps, through the adapter."""
    sb3 = pytest.importorskip("stable_baselines3")
    envs = ht.env(ht.library.cart_pole(), "balance", num_envs=32, limits=15.0, horizon=2.0).stable_baselines()
    model = sb3.PPO(
        "MlpPolicy", envs, n_steps=64, batch_size=512, n_epochs=8, gamma=0.98, learning_rate=1e-3, seed=0, device="cpu"
    )

    def lasting() -> float:
        env, lengths = ht.env(ht.library.cart_pole(), "balance", limits=15.0, horizon=2.0).single(), []
        for seed in range(20):
            seen, _ = env.reset(seed=1000 + seed)
            steps, over = 0, False
            while not over:
                seen, _, terminated, truncated, _ = env.step(model.predict(seen, deterministic=True)[0])
                steps, over = steps + 1, terminated or truncated
            lengths.append(steps)
        return float(np.mean(lengths))

    before = lasting()
    model.learn(60_000)
    assert lasting() > max(1.5 * before, 150)


@pytest.mark.gym
def test_arrays_are_shared_with_torch() -> None:
    torch = pytest.importorskip("torch")
    envs = ht.env("quadcopter", "hover", num_envs=4)
    seen, _ = envs.reset(seed=0)
    tensor = torch.from_dlpack(seen)
    assert tensor.data_ptr() == seen.ctypes.data
    _, reward, *_ = envs.step(torch.zeros(4, 4))
    assert np.isfinite(reward).all()


@pytest.mark.gym
def test_torchrl_collects_rollouts() -> None:
    """TorchRL starts ended environments again by masks: the step after an end begins near the top."""
    pytest.importorskip("torchrl")
    from torchrl.envs import GymWrapper

    options: dict[str, Any] = {"num_envs": 8, "limits": 15.0, "horizon": 0.3, "autoreset": "disabled"}
    wrapped = GymWrapper(ht.env(ht.library.cart_pole(), "balance", **options))
    wrapped.set_seed(0)
    data = wrapped.rollout(100, break_when_any_done=False)
    done = data["next", "done"][..., 0].numpy()
    assert data["next", "reward"].shape == (8, 100, 1)
    assert done.sum() >= 3 * 8
    assert np.abs(data["observation"].numpy()[:, 1:][done[:, :-1]]).max() < 1.0


@pytest.mark.gym
def test_skrl_trains(tmp_path: Any) -> None:
    """PPO of skrl improves the reward of a cart and pole within 200 updates of 32 environments."""
    pytest.importorskip("skrl")
    import torch
    from skrl.agents.torch.ppo import PPO, PPO_CFG
    from skrl.envs.wrappers.torch import wrap_env
    from skrl.memories.torch import RandomMemory
    from skrl.models.torch import DeterministicMixin, GaussianMixin, Model
    from skrl.trainers.torch import SequentialTrainer
    from torch import nn

    torch.manual_seed(0)
    envs = ht.env(ht.library.cart_pole(), "balance", num_envs=32, limits=15.0, horizon=2.0)
    env = wrap_env(envs, wrapper="gymnasium")

    class Policy(GaussianMixin, Model):
        def __init__(self) -> None:
            Model.__init__(self, observation_space=env.observation_space, action_space=env.action_space, device="cpu")
            GaussianMixin.__init__(self)
            self.net, self.spread = (
                nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1)),
                nn.Parameter(torch.zeros(1)),
            )

        def compute(self, inputs: Any, role: Any = "") -> Any:
            return self.net(inputs["observations"]), {"log_std": self.spread}

    class Value(DeterministicMixin, Model):
        def __init__(self) -> None:
            Model.__init__(self, observation_space=env.observation_space, action_space=env.action_space, device="cpu")
            DeterministicMixin.__init__(self)
            self.net = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))

        def compute(self, inputs: Any, role: Any = "") -> Any:
            return self.net(inputs["observations"]), {}

    policy = Policy()

    def lasting() -> float:
        single, steps = envs.single(), 0
        for seed in range(20):
            seen, over = single.reset(seed=seed)[0], False
            while not over:
                with torch.no_grad():
                    action = policy.net(torch.from_numpy(seen)[None])[0].numpy()
                seen, _, terminated, truncated, _ = single.step(action)
                steps, over = steps + 1, terminated or truncated
        return steps / 20

    before = lasting()
    config = PPO_CFG(rollouts=32, learning_epochs=8, mini_batches=2)
    config.experiment.directory, config.experiment.write_interval, config.experiment.checkpoint_interval = (
        str(tmp_path),
        0,
        0,
    )
    agent = PPO(
        models={"policy": policy, "value": Value()}, memory=RandomMemory(memory_size=32, num_envs=32), cfg=config,
        observation_space=env.observation_space, action_space=env.action_space, device="cpu",
    )  # fmt: skip
    SequentialTrainer(
        env=env, agents=agent, cfg={"timesteps": 1500, "headless": True, "disable_progressbar": True}
    ).train()
    assert lasting() > 1.5 * before


@pytest.mark.thorough
def test_efforts_of_joints_limit_the_inputs() -> None:
    system = ht.System()
    system.body("arm", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -0.5)))
    system.input("motor", ht.JointForce("arm", gear=2.0))
    system.limit("arm", effort=6.0)
    envs = ht.env(system, "balance", num_envs=2)
    assert (envs.program.action.lower, envs.program.action.upper) == (pytest.approx([-3.0]), pytest.approx([3.0]))
    given = ht.env(system, "balance", limits=1.0)
    assert given.program.action.upper == pytest.approx([1.0])


def test_actions_of_a_wrong_shape_are_named() -> None:
    envs = ht.env("quadcopter", "hover", num_envs=3)
    envs.reset(seed=0)
    with pytest.raises(ShapeError, match=r"actions must have shape \(3, 4\), got \(4,\)"):
        envs.step(np.zeros(4))
    with pytest.raises(ShapeError, match=r"got \(3, 2\)"):
        envs.step(np.zeros((3, 2)))
    alone = envs.single()
    alone.reset(seed=0)
    with pytest.raises(ShapeError, match=r"action must have shape \(4,\), got \(3,\)"):
        alone.step(np.zeros(3))
