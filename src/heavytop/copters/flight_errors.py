"""How far flown bodies are from where the maneuver leads them, for one flight or a batch of them."""

from __future__ import annotations

import numpy as np

from heavytop.copters.maneuvers import Maneuver
from heavytop.copters.vehicle import Vehicle
from heavytop.geometry import se3, so3
from heavytop.simulate import Run


def flown_poses(vehicle: Vehicle, run: Run, body: str = "hull") -> np.ndarray:
    """(n, *batch, 4, 4) poses of a body in a run; NaN where the run has no finite configuration."""
    plant = vehicle.plant
    q = run.q[..., : plant.nq]
    gone = np.asarray(~np.isfinite(q).all(axis=-1))
    pose = plant.pose("world", body, np.where(gone[..., None], plant.neutral(), q))
    return np.where(gone[..., None, None], np.nan, pose)


def desired_poses(vehicle: Vehicle, maneuver: Maneuver, run: Run, body: str = "hull") -> np.ndarray:
    """(n, *ones, 4, 4) poses of a body on the reference at the times of a run, with an axis of one for each of its batch."""
    pose = vehicle.model.pose("world", body, maneuver(run.t)[0])
    return pose.reshape(len(pose), *(1,) * len(run.batch), 4, 4)


def distance_between(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Distance (...) of the origins of pose a (..., 4, 4) and pose b, m."""
    return np.linalg.norm(a[..., :3, 3] - b[..., :3, 3], axis=-1)


def angle_between(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Rotation angle (...) from pose a (..., 4, 4) to pose b, rad."""
    R = np.swapaxes(se3.rotation(a), -1, -2) @ se3.rotation(b)
    sine = 0.5 * np.linalg.norm(so3.vee2(R), axis=-1)
    cosine = 0.5 * (np.trace(R, axis1=-2, axis2=-1) - 1.0)
    return np.arctan2(sine, cosine)
