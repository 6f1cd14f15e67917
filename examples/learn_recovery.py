"""A policy by the gradient of the simulator: a network of 1,796 weights learns in seconds to recover a quadcopter from any attitude."""

from time import process_time

import numpy as np
from _example import folder, page

import heavytop as ht
from heavytop.compile import export_c

out, rng, B, quad = folder(__doc__), np.random.default_rng(0), 128, ht.copters.quadcopter()
model, hover = quad.model, quad.weight / 4


def policy(q, v, gains):  # thrusts between nothing and twice those of hover
    R = ht.matrix([[q[3], q[6], q[9]], [q[4], q[7], q[10]], [q[5], q[8], q[11]]])
    x = np.concatenate([R.T @ q[:3] / np.sqrt(1 + q[:3] @ q[:3]), q[3:12], 0.3 * v[:3], 0.15 * v[3:]], axis=-1)
    for k in range(3):
        x = np.tanh(np.matvec(gains[f"W{k}"], x) + gains[f"b{k}"])
    return hover * (1 + x)


def cost(t, q, v, u):  # distance, speeds, tilt and effort
    away, fast, turning = (np.sqrt(x @ x + 0.05) for x in (q[:3], v[:3], v[3:]))
    return away + 0.6 * fast + 0.15 * turning + 1.5 * (1 - q[11]) + 0.02 * (u / hover - 1) @ (u / hover - 1)


def starts(n, rng):  # any attitude, half a metre away, 1 m/s and 2 rad/s
    q = np.concatenate([0.5 * rng.standard_normal((n, 3)), model.random(rng, (n,))[:, 3:]], axis=1)
    return q, rng.standard_normal((n, 6)) * [1, 1, 1, 2, 2, 2]


def recovered(weights, seed):  # upright within 10 degrees, at most 0.3 m away and 0.3 m/s fast after 5 s
    q, v = whole(starts(1000, np.random.default_rng(seed)), gains=weights).final
    near, slow = (np.linalg.norm(x[:, :3], axis=1) < 0.3 for x in (q, v))
    return float(np.mean(near & slow & (q[:, 11] > np.cos(np.radians(10)))))


shapes = {"W0": (32, 18), "b0": (32,), "W1": (32, 32), "b1": (32,), "W2": (4, 32), "b2": (4,)}
weights = {n: (n[0] == "W") * (0.2 if n == "W2" else 1) * rng.normal(0, s[-1] ** -0.5, s) for n, s in shapes.items()}
law, loss = ht.Feedback(policy, ("q", "v", "gains"), gains=weights), ht.Loss(running=cost)
whole, short = (ht.prepare(model, T, 0.01, control=law, threads=2, progress=False) for T in (5.0, 1.5))
short.gradient(loss, starts(B, rng), by=("gains",))  # compiles, once and for all
(q, v), mean, square, spent = starts(B, rng), dict.fromkeys(shapes, 0.0), dict.fromkeys(shapes, 0.0), 0.0
for k in range(1, 101):  # Adam; no flight dominates; a third of them start again
    spent -= process_time()
    found = short.gradient(loss, (q, v), gains=weights, by=("gains",))
    share = np.minimum(1, 10 / np.sqrt(sum((g.reshape(B, -1) ** 2).sum(1) for g in found.gains.values()))) / B
    for n, g in ((n, np.tensordot(share, g, 1)) for n, g in found.gains.items()):
        mean[n], square[n] = 0.9 * mean[n] + 0.1 * g, 0.99 * square[n] + 0.01 * g * g
        weights[n] = weights[n] - 5e-3 * mean[n] / (1 - 0.9**k) / (np.sqrt(square[n] / (1 - 0.99**k)) + 1e-8)
    again = (rng.random((B, 1)) < 1 / 3) | (np.linalg.norm(found.end[0][:, :3], axis=1, keepdims=True) > 6)
    q, v = (np.where(again, a, b) for a, b in zip(starts(B, rng), found.end, strict=True))
    spent += process_time()
    if k % 10 == 0 and recovered(weights, 1) >= 0.98:
        break
print(f"{100 * recovered(weights, 2):.1f} % of 1000 fresh starts after {spent:.1f} s of processor time, {k} gradients")
constant = ht.Feedback(lambda q, v: policy(q, v, weights), ("q", "v")).traced(model)
export_c(out / "policy_c", {"policy": constant}, name="policy", vectors={"policy": list(starts(16, rng))})
page(ht.simulate(model, starts(1, rng), 4.0, 0.01, control=law, gains=weights), out / "learn_recovery.html")
