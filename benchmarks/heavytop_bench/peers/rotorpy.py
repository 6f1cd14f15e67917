"""RotorPy's side of the comparison: its Hummingbird, its controller, its trajectories, or stated figures where it is not installed."""

from __future__ import annotations

import importlib
import time
import warnings
from typing import Any

import numpy as np

from heavytop_bench.hummingbird import LOOP_RADIUS, LOOP_RATE, WAYPOINTS
from heavytop_bench.peers.base import Flights, Peer

# measured once with RotorPy 3.0.0 and its default controller, drag on (RMS in m; closed-loop steps per second; vehicle-steps per second
# of its batched mode on one thread with 10 000 vehicles): shown in the table if RotorPy is not installed
STATED = {
    "circle 1 m 0.2 Hz": 0.0548,
    "circle 1.5 m 0.5 Hz": 0.239,
    "lissajous": 0.0446,
    "minimum snap": 0.0379,
    "3 loops y-z": 0.33,
    "3 loops x-z": 3.9,
}
STATED_STEPS, STATED_BATCH = 590.0, 105_000.0


def _module(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module(f"rotorpy.{name}")


class _Loop:
    """A vertical circle at constant speed as RotorPy's flat outputs."""

    def __init__(self, direction: Any) -> None:
        self.e = np.asarray(direction, dtype=float)

    def update(self, t: float) -> dict[str, Any]:
        c, s, r, w = np.cos(LOOP_RATE * t), np.sin(LOOP_RATE * t), LOOP_RADIUS, LOOP_RATE
        up = np.array([0.0, 0.0, 1.0])
        return {
            "x": r * s * self.e + r * (1 - c) * up,
            "x_dot": r * w * (c * self.e + s * up),
            "x_ddot": r * w**2 * (-s * self.e + c * up),
            "x_dddot": r * w**3 * (-c * self.e - s * up),
            "x_ddddot": r * w**4 * (s * self.e - c * up),
            "yaw": 0.0,
            "yaw_dot": 0.0,
            "yaw_ddot": 0.0,
        }


def trajectories() -> dict[str, tuple[Any, float, float]]:
    """Name -> trajectory, duration (s), rate of the controller (Hz)."""
    circular = _module("trajectories.circular_traj").ThreeDCircularTraj
    zero = np.zeros(3)
    return {
        "circle 1 m 0.2 Hz": (circular(zero, np.array([1, 1, 0.0]), np.array([0.2, 0.2, 0.0])), 10.0, 100.0),
        "circle 1.5 m 0.5 Hz": (circular(zero, np.array([1.5, 1.5, 0.0]), np.array([0.5, 0.5, 0.0])), 10.0, 100.0),
        "lissajous": (
            _module("trajectories.lissajous_traj").TwoDLissajous(A=1, B=1, a=2, b=1, delta=0, height=0.5),
            10.0,
            100.0,
        ),
        "minimum snap": (
            _module("trajectories.minsnap").MinSnap(points=WAYPOINTS, v_avg=1.0, v_max=3, verbose=False),
            10.0,
            100.0,
        ),
        "3 loops y-z": (_Loop((0, 1, 0)), 4.5, 200.0),
        "3 loops x-z": (_Loop((1, 0, 0)), 4.5, 200.0),
    }


def _parameters() -> dict[str, Any]:
    return dict(_module("vehicles.hummingbird_params").quad_params)


def _start(**values: Any) -> dict[str, Any]:
    p = _parameters()
    speed = np.sqrt(p["mass"] * 9.81 / 4 / p["k_eta"])
    rest = {"x": np.zeros(3), "v": np.zeros(3), "q": np.array([0.0, 0, 0, 1]), "w": np.zeros(3)}
    return {**rest, "wind": np.zeros(3), "rotor_speeds": np.full(4, speed), **values}


def _fly(
    trajectory: Any, duration: float, rate: float, start: dict[str, Any], wrong: bool = False
) -> tuple[Any, Any, Any]:
    """Positions, wanted positions and quaternions (xyzw)."""
    nominal = _parameters()
    truth = dict(nominal)
    if wrong:
        truth["mass"] *= 1.1
        for key in ("Ixx", "Iyy", "Izz"):
            truth[key] *= 0.9
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        craft = _module("vehicles.multirotor").Multirotor(truth, initial_state=start)
        control = _module("controllers.quadrotor_control").SE3Control(nominal)
        state, count, dt = {k: np.array(x) for k, x in start.items()}, round(duration * rate), 1 / rate
        seen, wanted, turned = np.zeros((count, 3)), np.zeros((count, 3)), np.zeros((count, 4))
        for k in range(count):
            flat = trajectory.update(k * dt)
            seen[k], wanted[k], turned[k] = state["x"], flat["x"], state["q"]
            state = craft.step(state, control.update(k * dt, state, flat), dt)
    return seen, wanted, turned


def track(name: str, wrong: bool = False) -> tuple[float, float]:
    """RMS and largest distance (m), from the start in place with the right velocity, level."""
    trajectory, duration, rate = trajectories()[name]
    flat = trajectory.update(0.0)
    seen, wanted, _ = _fly(trajectory, duration, rate, _start(x=flat["x"], v=flat["x_dot"]), wrong)
    error = np.linalg.norm(seen - wanted, axis=1)
    return float(np.sqrt(np.mean(error**2))), float(error.max())


def recovery(angle: float, axis: str = "x", duration: float = 5.0) -> tuple[float, float]:
    """Settling time within 5 cm and 5 degrees (s, inf if never) and loss of height (m) from rest at an angle (degrees)."""
    half = np.radians(angle) / 2
    q = np.array([0.0, 0.0, 0.0, np.cos(half)])
    q["xyz".index(axis)] = np.sin(half)
    hover = _module("trajectories.hover_traj").HoverTraj()
    seen, wanted, turned = _fly(hover, duration, 200.0, _start(q=q))
    tilt = np.degrees(np.arccos(np.clip(1 - 2 * (turned[:, 0] ** 2 + turned[:, 1] ** 2), -1, 1)))
    outside = np.flatnonzero((np.linalg.norm(seen - wanted, axis=1) > 0.05) | (tilt > 5.0))
    settled = 0.0 if not len(outside) else float("inf") if outside[-1] == len(seen) - 1 else (outside[-1] + 1) / 200.0
    return settled, float(-seen[:, 2].min())


def steps_per_second(steps: int, repeats: int) -> float:
    """Closed-loop steps of 10 ms per second of CPU time from 0.1 m next to a constant set point; nothing is recorded. Best of several runs."""
    flat = _module("trajectories.hover_traj").HoverTraj().update(0.0)
    start, best = _start(x=np.array([0.1, 0.0, 0.0])), np.inf
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(repeats):
            clock = time.process_time()
            craft = _module("vehicles.multirotor").Multirotor(_parameters(), initial_state=start)
            control = _module("controllers.quadrotor_control").SE3Control(_parameters())
            state = {k: np.array(x) for k, x in start.items()}
            for k in range(steps):
                state = craft.step(state, control.update(0.01 * k, state, flat), 0.01)
            best = min(best, time.process_time() - clock)
    return steps / best


class _Flights:
    track = staticmethod(track)
    recovery = staticmethod(recovery)
    steps_per_second = staticmethod(steps_per_second)


class RotorPy(Peer):
    """The comparisons with RotorPy."""

    name = module = "rotorpy"

    def flights(self) -> Flights:
        """Its Hummingbird with its SE(3) controller."""
        return _Flights()


PEER = RotorPy()
