"""A chain of revolute joints by the articulated-body recursion: a large, realistic function to compile."""

import numpy as np

from heavytop._arrays import components, matrix, transpose, vector
from heavytop.compile import trace


def skew(a):
    x, y, z = components(a)
    return matrix([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])


def motion_transform(c, s, r, tilt):
    """6x6 map of (linear, angular) velocities of the parent to the child: rotation by angle (c, s) about z, then a
    fixed tilt."""
    rotation = matrix([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
    turned = transpose(tilt @ rotation)
    upper = np.concatenate([turned, -turned @ skew(r)], axis=1)
    lower = np.concatenate([np.zeros((3, 3)) @ turned, turned], axis=1)
    return np.concatenate([upper, lower], axis=0)


def cross_motion(v, m):
    """[v]x m for motions (linear, angular)."""
    linear = np.cross(v[3:6], m[0:3]) + np.cross(v[0:3], m[3:6])
    return np.concatenate([linear, np.cross(v[3:6], m[3:6])], axis=0)


def cross_force(v, f):
    """[v]x* f for forces (linear, angular)."""
    angular = np.cross(v[3:6], f[3:6]) + np.cross(v[0:3], f[0:3])
    return np.concatenate([np.cross(v[3:6], f[0:3]), angular], axis=0)


def chain(n, name=None):
    """Traced forward dynamics (q, v, u) -> a of n links."""
    rng = np.random.default_rng(n)
    inertias, tilts, offsets = [], [], []
    for _ in range(n):
        mass, com = 1 + rng.random(), 0.1 * rng.standard_normal(3)
        root = rng.standard_normal((3, 3)) * 0.1
        lever = np.asarray(skew(com))
        moment = root @ root.T + 0.02 * np.eye(3) - mass * lever @ lever
        inertias.append(np.block([[mass * np.eye(3), -mass * lever], [mass * lever, moment]]))
        tilts.append(np.linalg.qr(rng.standard_normal((3, 3)))[0])
        offsets.append(0.3 * rng.standard_normal(3))
    axis = np.array([0.0, 0, 0, 0, 0, 1])

    def accelerations(q, v, u):
        transforms, velocities, biases, articulated, forces = [], [], [], [], []
        velocity = np.zeros(6)
        for i in range(n):
            x = motion_transform(np.cos(q[i]), np.sin(q[i]), offsets[i], tilts[i])
            velocity = x @ velocity + axis * v[i]
            transforms.append(x)
            velocities.append(velocity)
            biases.append(cross_motion(velocity, axis * v[i]))
            articulated.append(inertias[i])
            forces.append(cross_force(velocity, inertias[i] @ velocity))
        gains, pivots, residues = [None] * n, [None] * n, [None] * n
        for i in reversed(range(n)):
            gains[i] = articulated[i][:, 5]
            pivots[i] = gains[i][5]
            residues[i] = u[i] - forces[i][5]
            if i:
                reduced = articulated[i] - np.outer(gains[i], gains[i]) / pivots[i]
                force = forces[i] + reduced @ biases[i] + gains[i] * (residues[i] / pivots[i])
                x = transforms[i]
                articulated[i - 1] = articulated[i - 1] + transpose(x) @ reduced @ x
                forces[i - 1] = forces[i - 1] + transpose(x) @ force
        acceleration = np.array([0.0, 0, 9.81, 0, 0, 0])
        result = []
        for i in range(n):
            acceleration = transforms[i] @ acceleration + biases[i]
            rate = (residues[i] - gains[i] @ acceleration) / pivots[i]
            acceleration = acceleration + axis * rate
            result.append(rate)
        return vector(*result)

    return trace(accelerations, {"q": (n,), "v": (n,), "u": (n,)}, name=name or f"chain{n}")
