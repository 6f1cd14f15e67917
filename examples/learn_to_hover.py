"""Learn to hover by random search: 512 linear policies fly 4096 quadcopters at the same time; a page of the best one's episode."""

import time

import numpy as np
from _example import folder

import heavytop as ht

POLICIES, EACH, GENERATIONS, ELITE, STEPS = 512, 8, 25, 32, 200
out = folder(__doc__)
envs = ht.env("quadcopter", "hover", num_envs=POLICIES * EACH, action="rates", horizon=3.0)


def fly(weights: np.ndarray, seed: int) -> np.ndarray:
    """Mean reward (policies,) of one episode of every environment; each policy flies EACH of them."""
    seen, _ = envs.reset(seed=seed)
    total, alive = np.zeros(envs.num_envs), np.ones(envs.num_envs, dtype=bool)
    own = weights.astype(np.float32)
    for _ in range(STEPS):
        grouped = seen.reshape(len(own), EACH, seen.shape[1])
        actions = np.clip(grouped @ own[:, :-1] + own[:, -1:], -1, 1).reshape(envs.num_envs, -1)
        seen, reward, terminated, _, _ = envs.step(actions)
        total += np.where(alive, reward, 0.0)
        alive &= ~terminated
    return total.reshape(len(own), EACH).mean(axis=1) / STEPS


# the cross-entropy method: draw policies, keep the best, draw around them
rng, clock = np.random.default_rng(0), time.process_time()
shape = envs.program.observation_size + 1, envs.program.action.size
mean, spread = np.zeros(shape), np.full(shape, 0.3)
for generation in range(GENERATIONS):
    weights = mean + spread * rng.normal(size=(POLICIES, *shape))
    rewards = fly(weights, seed=10_000 * generation)
    best = weights[np.argsort(rewards)[-ELITE:]]
    mean, spread = best.mean(axis=0), best.std(axis=0) + 0.05 * 0.9**generation
    if generation % 6 == 0:
        print(f"generation {generation}: mean reward {rewards.mean():.3f}, best {rewards.max():.3f}")
steps = GENERATIONS * STEPS * envs.num_envs
print(f"{steps / 1e6:.0f} million steps in {time.process_time() - clock:.1f} s of processor time")

run = envs.episode(lambda seen: np.clip(seen @ mean[:-1] + mean[-1], -1, 1), seed=7)
off = float(np.linalg.norm(run.q[-1, :3]))
print(f"{run.outcome}; {off:.2f} m from the goal after {run.t[-1]:g} s")
assert off < 0.3
run.show(out / "learn_to_hover.html")
