"""Starts of windows from measurements: configurations as measured, velocities as measured or from a local polynomial of the motion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from heavytop.errors import IdentificationError
from heavytop.geometry import quaternion, se3
from heavytop.identify.outputs import HULL
from heavytop.identify.trials import Trial
from heavytop.simulate import Dynamics

REACH = 4
"""Samples on either side from which a velocity is taken."""


class Starts:
    """Measured states of all samples of a log.

    Parameters
    ----------
    dynamics, body : as in :class:`.Outputs`. names : signals that may be used.
    """

    def __init__(self, dynamics: Dynamics, body: Any, names: Sequence[str]) -> None:
        self.dynamics, self.names = dynamics, set(names)
        self.body: Any = None if body is None or body.nq != dynamics.nq else body
        if not self._has_configuration():
            known = f"'q', all of {', '.join(dynamics.q_names)}" + (
                ", or 'position' and 'attitude'" if body is not None else ""
            )
            raise IdentificationError(
                f"windows of {dynamics.name!r} need starts: measure {known}, or give starts=, a pair (q, v) of arrays (n, nq), (n, nv) for each log."
            )

    @property
    def _joint(self) -> Any:
        return self.body.description.joints[0].joint

    def _has_configuration(self) -> bool:
        d = self.dynamics
        hull = self.body is not None and {"position", "attitude"} <= self.names
        return "q" in self.names or set(d.q_names) <= self.names or hull

    def at(self, trial: Trial, rows: np.ndarray, parameters: dict[str, float]) -> tuple[np.ndarray, np.ndarray]:
        """States (k, nq), (k, nv) at some samples."""
        q = self._configurations(trial)
        if "v" in self.names:
            v = trial.signals["v"][rows]
        elif set(self.dynamics.v_names) <= self.names:
            v = np.concatenate([trial.signals[name] for name in self.dynamics.v_names], axis=1)[rows]
        else:
            v = self._velocities(trial, q, rows, parameters)
        return q[rows], np.where(np.isfinite(v), v, 0.0)

    def _configurations(self, trial: Trial) -> np.ndarray:
        d, signals = self.dynamics, trial.signals
        if "q" in self.names:
            return signals["q"]
        if set(d.q_names) <= self.names:
            return np.concatenate([signals[name] for name in d.q_names], axis=1)
        block = self._joint
        R = quaternion.rotation_from_quaternion(np.nan_to_num(signals["attitude"], nan=0.5))
        kind = block.attitude
        if kind == "quaternion":
            return np.concatenate([signals["position"], signals["attitude"]], axis=1)
        if kind != "matrix":
            raise IdentificationError(
                f"a free joint with attitude={kind!r} has no starts from poses. Use 'matrix' or 'quaternion'."
            )
        q = np.concatenate([signals["position"], np.swapaxes(R, -1, -2).reshape(len(R), 9)], axis=1)
        return np.where(np.isfinite(signals["attitude"]).all(axis=1, keepdims=True), q, np.nan)

    def _velocities(self, trial: Trial, q: np.ndarray, rows: np.ndarray, parameters: dict[str, float]) -> np.ndarray:
        d = self.dynamics
        made = []
        rates = next((s for s in ("angular_velocity", "gyro") if s in self.names), None)
        for k in rows:
            near = np.arange(max(k - REACH, 0), min(k + REACH + 1, len(trial)))
            near = near[np.isfinite(q[near]).all(axis=1)]
            t = (near - k) * trial.step
            delta = np.asarray(d.coordinates.difference(np.broadcast_to(q[k], q[near].shape), q[near]))
            degree = min(2, len(near) - 1)
            w = np.polyfit(t, delta, degree)[degree - 1] if degree > 0 else np.zeros(d.coordinates.nv)
            made.append(self._from_joint_velocity(q[k], w, parameters))
        v = np.array(made)
        if self.body is not None and "position" in self.names:
            joint = self._joint
            twist = v if joint.velocity == "body" else np.matvec(joint.jacobian(q[rows]), v)
            if "velocity" in self.names:
                R = se3.rotation(joint.pose(q[rows]))
                measured = np.matvec(np.swapaxes(R, -1, -2), trial.signals["velocity"][rows])
                twist[:, :3] = np.where(np.isfinite(measured), measured, twist[:, :3])
            if rates is not None:
                measured = trial.signals[rates][rows]
                twist[:, 3:6] = np.where(np.isfinite(measured), measured, twist[:, 3:6])
            v = (
                twist
                if joint.velocity == "body"
                else np.linalg.solve(joint.jacobian(q[rows]), twist[..., None])[..., 0]
            )
        return v

    def _from_joint_velocity(self, q: np.ndarray, w: np.ndarray, parameters: dict[str, float]) -> np.ndarray:
        """v with joint velocities w nearest to the given ones."""
        d = self.dynamics
        if d.kernel("joint_velocity") is None:
            return w
        p = d.parameter_vector(parameters)
        kernel: Any = d.kernel("joint_velocity")
        zero = kernel(q, np.zeros(d.nv), p)[0]
        S = np.stack([kernel(q, unit, p)[0] - zero for unit in np.eye(d.nv)], axis=-1)
        return np.linalg.lstsq(S, w - zero, rcond=None)[0]


def used_for_starts(dynamics: Dynamics, body: Any, available: Sequence[str]) -> list[str]:
    """Signals of a log that give starts, besides those that are compared."""
    wanted = ["q", "v", *dynamics.q_names, *dynamics.v_names, *(HULL[:5] if body is not None else ())]
    return [name for name in wanted if name in available]
