"""Poses of links straight from the neutral description, for what readers must know before there is a model."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from heavytop.geometry import se3, so3
from heavytop.io.robot import CONTINUOUS, PRISMATIC, REVOLUTE, Robot
from heavytop.system.description.names import WORLD


def link_poses(robot: Robot, q: Mapping[str, float] | None = None) -> dict[str, np.ndarray]:
    """Pose (4, 4) of each link in the world, one-axis joints at ``q`` (0 where not given), all others at rest."""
    values = q or {}
    carrier = {joint.child: joint for joint in robot.joints.values()}
    poses: dict[str, np.ndarray] = {WORLD: np.eye(4)}
    for name in robot.links:
        chain = []
        while name not in poses and name in carrier:
            chain.append(carrier[name])
            name = carrier[name].parent
        poses.setdefault(name, np.eye(4))
        for joint in reversed(chain):
            x, moved = values.get(joint.name, 0.0), np.eye(4)
            axis = joint.axis / np.linalg.norm(joint.axis)
            if joint.kind in (REVOLUTE, CONTINUOUS):
                moved = se3.pose(so3.exp(x * axis), np.zeros(3))
            elif joint.kind == PRISMATIC:
                moved = se3.pose(np.eye(3), x * axis)
            pose = poses[joint.parent] @ joint.at @ moved
            poses[joint.child] = pose if joint.after is None else pose @ joint.after
    return poses
