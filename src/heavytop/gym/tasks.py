"""Built-in tasks: multicopters that hover, recover, track and pass gates; systems that balance, swing up or hold a set point."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from heavytop._arrays import Array, concatenate, vector
from heavytop.copters import Vehicle
from heavytop.errors import ModelError
from heavytop.gym.draws import Draw
from heavytop.gym.task import At, EnvTask, flat

HULL = "hull"
ROOM = 5.0
"""Distance from the goal in m at which an episode of a multicopter ends."""
GATES = (2.0, 4.0, 6.0)
"""Places of the gates along x, m."""


def _pose(vehicle: Vehicle, R: Array, position: Array) -> Array:
    """Configuration of a vehicle with a free hull described by a rotation matrix."""
    model = vehicle.model
    if model.nq != 12 or model.nv != 6:
        raise ModelError(
            f"the built-in tasks of multicopters need a single free hull with a rotation matrix, got {model!r}. Define your own EnvTask."
        )
    return concatenate(position, np.reshape(R.T, (9,)))


def _seen(at: At, target: Array) -> Array:
    """Position relative to the target, attitude, velocities: what the policy of a multicopter sees (18 numbers and the last action)."""
    R, position = at.pose(HULL)
    linear, angular = at.twist(HULL)
    return flat(position - target, R.T, np.matvec(R, linear), angular, at.action)


def _close(at: At, target: Array) -> Array:
    """1 at rest upright at the target, with costs of distance, tilt, heading, velocity, rates and unsteady actions."""
    R, position = at.pose(HULL)
    linear, angular = at.twist(HULL)
    off = position - target
    cost = 1.0 * np.vecdot(off, off) + 0.5 * (1.0 - R[2, 2]) + 0.1 * (1.0 - R[0, 0])
    cost = (
        cost
        + 0.05 * np.vecdot(linear, linear)
        + 0.02 * np.vecdot(angular, angular)
        + 0.01 * np.vecdot(at.action, at.action)
    )
    return np.exp(-cost)


def _lost(at: At, target: Array) -> Array:
    _, position = at.pose(HULL)
    off = position - target
    return np.where(np.vecdot(off, off) > ROOM**2, 1.0, 0.0)


def hover(vehicle: Vehicle) -> EnvTask:
    """Hold a place, from within 0.5 m and 30 degrees of it."""

    def reset(draw: Draw) -> tuple[Array, Array]:
        q = _pose(vehicle, draw.tilted(0.5), draw.uniform(-0.5, 0.5, 3))
        return q, concatenate(draw.normal(0.3, 3), draw.normal(0.3, 3))

    origin = np.zeros(3)
    return EnvTask(reset, lambda at: _seen(at, origin), lambda at: _close(at, origin), lambda at: _lost(at, origin))


def recovery(vehicle: Vehicle) -> EnvTask:
    """Return to a place from any attitude, tumbling."""

    def reset(draw: Draw) -> tuple[Array, Array]:
        q = _pose(vehicle, draw.rotation(), draw.uniform(-1.0, 1.0, 3))
        return q, concatenate(draw.normal(1.0, 3), draw.normal(3.0, 3))

    origin = np.zeros(3)
    return EnvTask(reset, lambda at: _seen(at, origin), lambda at: _close(at, origin), lambda at: _lost(at, origin))


def tracking(vehicle: Vehicle) -> EnvTask:
    """Follow a point on a tilted circle of drawn radius (0.5 to 1.5 m), speed (up to 2 m/s) and plane."""

    def target(at: At) -> Array:
        radius, rate, phase, slope = at.goal[0], at.goal[1], at.goal[2], at.goal[3]
        angle = rate * at.t + phase
        return vector(radius * np.cos(angle), radius * np.sin(angle), slope * radius * np.cos(angle))

    def reset(draw: Draw) -> tuple[Array, Array, Array]:
        radius = draw.uniform(0.5, 1.5)
        rate, phase, slope = draw.uniform(-2.0, 2.0) / radius, draw.uniform(-np.pi, np.pi), draw.uniform(-0.5, 0.5)
        place = vector(radius * np.cos(phase), radius * np.sin(phase), slope * radius * np.cos(phase))
        return (
            _pose(vehicle, draw.tilted(0.2), place),
            concatenate(draw.normal(0.1, 3), draw.normal(0.1, 3)),
            vector(radius, rate, phase, slope),
        )

    def observation(at: At) -> Array:
        return concatenate(
            _seen(at, target(at)),
            at.goal[:2],
            vector(np.sin(at.goal[1] * at.t + at.goal[2]), np.cos(at.goal[1] * at.t + at.goal[2])),
        )

    return EnvTask(
        reset, observation, lambda at: _close(at, target(at)), lambda at: _lost(at, target(at)), horizon=10.0
    )


def gates(vehicle: Vehicle) -> EnvTask:
    """Fly along x through three gates at drawn places, rewarded by the speed towards the next; the episode ends behind the last or outside one."""

    def gate(at: At) -> tuple[Array, Array]:
        """The next gate (3,), and how far the hull is outside of the one it passes (m)."""
        _, position = at.pose(HULL)
        x, places = position[0], [vector(GATES[k], at.goal[2 * k], at.goal[2 * k + 1]) for k in range(3)]
        following = [
            np.where(x < GATES[0], places[0][i], np.where(x < GATES[1], places[1][i], places[2][i])) for i in range(3)
        ]
        outside = np.zeros(())
        for place in places:
            off = position - place
            side = np.sqrt(off[1] ** 2 + off[2] ** 2 + 1e-12)
            outside = np.maximum(outside, np.where(np.abs(off[0]) < 0.1, side - 0.5, 0.0))
        return vector(*following), outside

    def reset(draw: Draw) -> tuple[Array, Array, Array]:
        q = _pose(vehicle, draw.tilted(0.1), draw.uniform(-0.2, 0.2, 3))
        return q, concatenate(draw.normal(0.1, 3), draw.normal(0.1, 3)), draw.uniform(-1.0, 1.0, 6)

    def reward(at: At) -> Array:
        R, position = at.pose(HULL)
        linear, angular = at.twist(HULL)
        place, outside = gate(at)
        way = place - position
        speed = np.vecdot(np.matvec(R, linear), way) / np.sqrt(np.vecdot(way, way) + 1e-6)
        return speed - 0.02 * np.vecdot(angular, angular) - 5.0 * np.where(outside > 0.0, 1.0, 0.0)

    def terminated(at: At) -> Array:
        _, position = at.pose(HULL)
        _, outside = gate(at)
        beyond = np.where(position[0] > GATES[2] + 0.2, 1.0, 0.0)
        return np.maximum(np.maximum(np.where(outside > 0.0, 1.0, 0.0), beyond), _lost(at, vector(3.0, 0.0, 0.0)))

    def observation(at: At) -> Array:
        return concatenate(_seen(at, gate(at)[0]), at.goal)

    return EnvTask(reset, observation, reward, terminated, horizon=8.0)


# --- any system -------------------------------------------------------------------------------------------------------------------


def reference(model: Any, goal: Any = None, spread: float = 0.1) -> EnvTask:
    """Hold a configuration, from within ``spread`` of it."""
    at_goal = model.neutral() if goal is None else model.coordinates.check(goal, "goal of the task")

    def reset(draw: Draw) -> tuple[Array, Array]:
        off = draw.normal(spread, model.nv)
        return model.coordinates.retract(at_goal, off), draw.normal(spread, model.nv)

    def reward(at: At) -> Array:
        off = at.distance(at_goal)
        return np.exp(-np.vecdot(off, off) - 0.1 * np.vecdot(at.v, at.v) - 0.01 * np.vecdot(at.action, at.action))

    def terminated(at: At) -> Array:
        off = at.distance(at_goal)
        return np.where(np.vecdot(off, off) > 4.0, 1.0, 0.0)

    return EnvTask(reset, lambda at: flat(at.distance(at_goal), at.v), reward, terminated, substeps=2)


def _top(model: Any) -> np.ndarray:
    """The configuration of largest potential energy among those with every angle at 0 or pi."""
    angles = [k for k, unit in enumerate(model.q_units) if unit == "rad"]
    if not angles or model.nq != model.nv or len(angles) > 6:
        raise ModelError(f"swinging up needs joints with angles (at most six), got {model!r}. Define your own EnvTask.")
    corners = np.zeros((2 ** len(angles), model.nq))
    corners[:, angles] = np.pi * ((np.arange(len(corners))[:, None] >> np.arange(len(angles))) & 1)
    return corners[int(np.argmax(model.potential_energy(corners)))]


def swing_up(model: Any) -> EnvTask:
    """Swing up from anywhere and stay: the reward is the potential energy, from 0 at the lowest to 1 at the highest configuration."""
    top = _top(model)
    bottom = np.where(np.asarray(model.q_units) == "rad", np.pi - top, 0.0)
    high, low = float(model.potential_energy(top)), float(model.potential_energy(bottom))
    turning = np.array([unit == "rad" for unit in model.q_units])

    def reset(draw: Draw) -> tuple[Array, Array]:
        return bottom + draw.normal(0.1, model.nq), draw.normal(0.1, model.nv)

    def observation(at: At) -> Array:
        parts = [
            vector(np.cos(at.q[k]), np.sin(at.q[k])) if turning[k] else np.reshape(at.q[k], (1,))
            for k in range(model.nq)
        ]
        return concatenate(*parts, at.v)

    def reward(at: At) -> Array:
        energy = model.traced("potential_energy").expressions(at.q, at.p)[0]
        places = [at.q[k] ** 2 for k in range(model.nq) if not turning[k]]
        return (energy - low) / (high - low) - 0.01 * np.vecdot(at.action, at.action) - 0.02 * sum(places)

    def terminated(at: At) -> Array:
        places = [np.where(np.abs(at.q[k]) > 3.0, 1.0, 0.0) for k in range(model.nq) if not turning[k]]
        fast = np.where(np.vecdot(at.v, at.v) > 40.0**2, 1.0, 0.0)
        for place in places:
            fast = np.maximum(fast, place)
        return fast

    return EnvTask(reset, observation, reward, terminated, horizon=10.0, period=0.02, substeps=2)


def balance(model: Any) -> EnvTask:
    """Stay near the highest configuration, from within 0.1 rad of it."""
    return reference(model, _top(model))


FOR_VEHICLES: dict[str, Callable[[Any], EnvTask]] = {
    "hover": hover,
    "recovery": recovery,
    "tracking": tracking,
    "gates": gates,
}
FOR_SYSTEMS: dict[str, Callable[[Any], EnvTask]] = {"reference": reference, "balance": balance, "swing-up": swing_up}
