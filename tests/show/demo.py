"""An artificial flight: a quadcopter flies a looping with a slung load, a little off its reference."""

from __future__ import annotations

import numpy as np

from heavytop.geometry import rotation_with_z
from heavytop.show import Arrow, Body, Marker, Panel, Report, Scene, Spin, Table, Trail
from heavytop.show.airframes import airframe, slung_load
from heavytop.show.meshes import propeller

GRAVITY = np.array([0.0, 0.0, -9.81])
MASS = 1.0
ROTORS = np.array([(0.17, 0.17, 0.03), (-0.17, 0.17, 0.03), (-0.17, -0.17, 0.03), (0.17, -0.17, 0.03)])
PROPELLER = 0.125
LIMITS = (0.0, 9.0)


def smooth_step(t: np.ndarray, start: float, stop: float) -> np.ndarray:
    s = np.clip((t - start) / (stop - start), 0.0, 1.0)
    return s**4 * (35 - 84 * s + 70 * s**2 - 20 * s**3)


def reference_path(t: np.ndarray) -> np.ndarray:
    phi = 2 * np.pi * smooth_step(t, 0.9, 3.3)
    x = -1.6 + 3.2 * smooth_step(t, 0.2, 4.2) + 1.25 * np.sin(phi)
    y = 0.35 * np.sin(np.pi * smooth_step(t, 0.4, 4.4))
    z = 1.1 + 1.25 * (1 - np.cos(phi))
    return np.stack([x, y, z], axis=-1)


def poses_along(t: np.ndarray, path: np.ndarray) -> np.ndarray:
    """Poses whose z axis is along the thrust that the path needs."""
    force = np.gradient(np.gradient(path, t, axis=0), t, axis=0) - GRAVITY
    z = force / np.linalg.norm(force, axis=-1, keepdims=True)
    y = np.array([0.0, 1.0, 0.0]) - z * z[:, 1:2]
    y /= np.linalg.norm(y, axis=-1, keepdims=True)
    poses = np.tile(np.eye(4), (len(t), 1, 1))
    poses[:, :3, :3] = np.stack([np.cross(y, z), y, z], axis=-1)
    poses[:, :3, 3] = path
    return poses


def looping(duration: float = 5.0, rate: float = 400.0, load: bool = False) -> Report:
    """The flight as a report."""
    t = np.linspace(0.0, duration, round(duration * rate) + 1)
    wanted = reference_path(t)
    error = (
        0.16
        * np.exp(-0.5 * ((t - 2.2) / 0.7) ** 2)[:, None]
        * np.stack([np.cos(5 * t), 0.5 * np.sin(3 * t), np.sin(4 * t)], -1)
    )
    path = wanted + error
    poses, ghost = poses_along(t, path), poses_along(t, wanted)
    acceleration = np.gradient(np.gradient(path, t, axis=0), t, axis=0)
    total = MASS * np.linalg.norm(acceleration - GRAVITY, axis=-1)
    turn = 0.5 * np.sin(2 * np.pi * t) * np.exp(-((t - 2.2) ** 2))
    thrust = np.clip(total[:, None] / 4 + turn[:, None] * np.array([1, -1, -1, 1]), *LIMITS)
    speed = 210 * np.sqrt(np.maximum(thrust, 0.3))

    bodies = {"hull": Body(airframe(ROTORS, PROPELLER), poses)}
    arrows = {}
    for k, at in enumerate(ROTORS):
        mount = np.eye(4)
        mount[:3, 3] = at
        sense = 1.0 if k % 2 == 0 else -1.0
        angle = sense * np.concatenate([[0.0], np.cumsum(speed[:-1, k] * np.diff(t))])
        bodies[f"propeller {k + 1}"] = Body([propeller(PROPELLER, clockwise=sense < 0)], Spin("hull", mount, angle))
        origin = poses[:, :3, 3] + poses[:, :3, :3] @ at
        arrows[f"thrust {k + 1}"] = Arrow(origin, thrust[:, k, None] * poses[:, :3, 2], scale=0.075, unit="N")
    trails = {"path": Trail(path), "reference": Trail(wanted, role="reference", dashed=True)}
    if load:
        cable = np.tile(np.eye(4), (len(t), 1, 1))
        tilt = np.stack([0.5 * np.sin(2.2 * t), 0.2 * np.sin(1.7 * t), np.ones_like(t)], -1)
        cable[:, :3, :3] = rotation_with_z(tilt / np.linalg.norm(tilt, axis=-1, keepdims=True))
        cable[:, :3, 3] = path
        bodies["load"] = Body(slung_load(0.55, 0.14), cable)
        trails["path of the load"] = Trail(path - 0.55 * cable[:, :3, 2], role="load path")

    velocity = np.gradient(path, t, axis=0)
    kinetic = 0.5 * MASS * np.sum(velocity**2, axis=-1)
    potential = MASS * 9.81 * path[:, 2]
    cosine = np.sum(poses[:, :3, 2] * ghost[:, :3, 2], axis=-1)
    angle_error = np.degrees(np.arccos(np.clip(cosine, -1, 1)))
    distance = np.linalg.norm(error, axis=-1)
    panels = (
        Panel(
            "Position", "m", dict(zip("xyz", path.T, strict=True)), references=dict(zip("xyz", wanted.T, strict=True))
        ),
        Panel("Tracking error", "m", {"distance": distance}),
        Panel("Attitude error", "°", {"angle": angle_error}),
        Panel("Thrusts", "N", {f"rotor {k + 1}": thrust[:, k] for k in range(4)}, limits=LIMITS),
        Panel("Energies", "J", {"kinetic": kinetic, "potential": potential, "total": kinetic + potential}),
    )
    numbers = Table(
        "Numbers",
        [
            ("position error", f"{distance.max():.3f} m", f"{np.sqrt(np.mean(distance**2)):.3f} m"),
            ("attitude error", f"{angle_error.max():.1f}°", f"{np.sqrt(np.mean(angle_error**2)):.1f}°"),
            ("thrust of a rotor", f"{thrust.max():.2f} N", f"{np.sqrt(np.mean(thrust**2)):.2f} N"),
        ],
        columns=("", "max", "RMS"),
    )
    parameters = Table(
        "Vehicle",
        [
            ("mass", f"{MASS:.3f} kg"),
            ("moments of inertia", "0.012, 0.013, 0.021 kg m²"),
            ("arm length", "0.240 m"),
            ("propeller radius", f"{PROPELLER:.3f} m"),
            ("thrust per rotor", "0 to 9 N"),
        ],
    )
    return Report(
        title="Quadcopter, looping",
        subtitle="A made-up flight with <reference> & a wobble, 5 s at 400 Hz",
        scene=Scene(t, bodies, ghosts={"hull": Body(bodies["hull"].meshes, ghost)}, trails=trails, arrows=arrows),
        panels=panels,
        highlights=(
            ("max position error", f"{100 * distance.max():.1f} cm"),
            ("RMS position error", f"{100 * np.sqrt(np.mean(distance**2)):.1f} cm"),
            ("max attitude error", f"{angle_error.max():.1f}°"),
            ("largest thrust", f"{100 * thrust.max() / LIMITS[1]:.0f} % of limit"),
        ),
        tables=(numbers, parameters),
        notes=("The reference is feasible. The wobble is added by hand, so that the ghost differs from the vehicle.",),
        markers=(Marker(0.9, "loop begins"), Marker(2.1, "upside down"), Marker(3.3, "loop ends")),
    )
