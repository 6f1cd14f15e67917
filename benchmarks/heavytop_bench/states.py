"""Random states of a tree, and the same states in the coordinates of every engine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from heavytop._arrays import unflatten_columns
from heavytop.geometry import quaternion_from_rotation
from heavytop.system import Model
from heavytop_bench.trees import Tree

SIZES = {"free": (12, 6), "ball": (9, 3)}
"""Configuration and velocity coordinates of a joint; revolute joints have one of each."""


@dataclass(frozen=True, eq=False)
class States:
    """``count`` states: configurations q, velocities v and motor torques u of our model, one per row."""

    tree: Tree
    q: np.ndarray
    v: np.ndarray
    u: np.ndarray

    @classmethod
    def random(cls, tree: Tree, model: Model, count: int, seed: int = 0) -> States:
        """Configurations all over the manifold, velocities and torques of order one."""
        rng = np.random.default_rng(seed)
        return cls(
            tree,
            model.random(rng, (count,)),
            rng.standard_normal((count, model.nv)),
            rng.standard_normal((count, model.nu)),
        )

    def configurations(self, scalar_last: bool) -> np.ndarray:
        """q with quaternions instead of rotation matrices: xyzw if ``scalar_last`` (Pinocchio), else wxyz (MuJoCo)."""
        parts, at = [], 0
        for link in self.tree.links:
            size = SIZES.get(link.joint, (1, 1))[0]
            own = self.q[:, at : at + size]
            if size > 1:
                position, R = own[:, :-9], unflatten_columns(own[:, -9:], 3)
                quaternion = quaternion_from_rotation(R)
                own = np.hstack([position, np.roll(quaternion, -1, axis=1) if scalar_last else quaternion])
            parts.append(own)
            at += size
        return np.hstack(parts)

    def forces(self) -> np.ndarray:
        """Motor torques as generalised forces: zero where a joint has no motor."""
        columns, k = [], 0
        for link in self.tree.links:
            size = SIZES.get(link.joint, (1, 1))[1]
            if size == 1:
                columns.append(self.u[:, k : k + 1])
                k += 1
            else:
                columns.append(np.zeros((len(self.u), size)))
        return np.hstack(columns)

    def rows(self, count: int) -> States:
        """The first ``count`` states."""
        return States(self.tree, self.q[:count], self.v[:count], self.u[:count])

    def _root(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Attitude of a free root and its angular velocity."""
        if self.tree.links[0].joint != "free":
            return None
        return unflatten_columns(self.q[:, 3:12], 3), self.v[:, 3:6]

    def mixed_velocities(self) -> np.ndarray:
        """v with the linear velocity of a free root in world axes (MuJoCo)."""
        root, v = self._root(), self.v.copy()
        if root is not None:
            v[:, :3] = np.matvec(root[0], v[:, :3])
        return v

    def from_mixed_accelerations(self, a: np.ndarray) -> np.ndarray:
        """Accelerations in our coordinates from those with world axes: R^T r'' - omega x v."""
        root, a = self._root(), a.copy()
        if root is not None:
            R, omega = root
            a[:, :3] = np.matvec(np.swapaxes(R, -1, -2), a[:, :3]) - np.cross(omega, self.v[:, :3])
        return a
