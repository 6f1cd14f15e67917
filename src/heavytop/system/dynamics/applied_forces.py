"""Forces sorted by where they act in the tree, for the recursions over it."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from heavytop._arrays import Array, concatenate, split, transpose
from heavytop.geometry import se3
from heavytop.system.description.names import WORLD
from heavytop.system.kinematics.kinematics import Kinematics


class Actions:
    """Body wrenches (6,) by frame; generalised forces and rotor inertias by joint (parent-relative velocities)."""

    def __init__(self, kinematics: Kinematics) -> None:
        self.kinematics = kinematics
        self._edges = {edge.label: edge for edge in kinematics.edges if edge.joint.coordinates.nv}
        self._coupled = {e.label: e.joint for e in kinematics.edges if e.joint.follows is not None}
        self.wrenches: dict[str, Array] = defaultdict(lambda: np.zeros(6))
        self.joints: dict[str, Array] = {k: np.zeros(e.joint.coordinates.nv) for k, e in self._edges.items()}
        self.rotors: dict[str, Array] = {}
        self.couplings: list[tuple[str, str, Array]] = []
        """(joint, body, K (3, n)): kinetic energy omega^T K w of rotors that a body carries and a joint drives."""

    def wrench(self, a: str, b: str, wrench: Array) -> None:
        """``wrench`` on b in axes of b; its reaction -Ad(G_ba)^T wrench on a."""
        self.wrenches[b] = self.wrenches[b] + wrench
        if a != WORLD:
            Ad = se3.Ad(self.kinematics.pose(b, a))
            self.wrenches[a] = self.wrenches[a] - np.matvec(transpose(Ad), wrench)

    def size(self, label: str) -> int:
        """Number of velocities of a joint, also of one that follows another."""
        return self.kinematics.v_of[label].shape[0]

    def joint(self, label: str, force: Array) -> None:
        """A force conjugate to the parent-relative velocities of a joint; with an absolute velocity a moment between its bodies.

        On a coupled joint it is felt by the joint that this one follows.
        """
        if label in self._coupled:
            source = str(self._coupled[label].follows)
            self.joint(source, np.matvec(transpose(self._coupled[label].follow_matrix(self.size(source))), force))
            return
        edge = self._edges[label]
        if edge.joint.velocity_frame == "absolute":
            self.wrench(edge.a, edge.b, concatenate(np.zeros(3), force))
        else:
            self.joints[label] = self.joints[label] + force

    def generalised(self, force: Array) -> None:
        """A force on the joints' own velocities: on a joint, or for an absolute angular velocity a moment on its body."""
        sizes = [edge.joint.coordinates.nv for edge in self._edges.values()]
        for edge, part in zip(self._edges.values(), split(force, sizes), strict=True):
            if edge.joint.velocity_frame == "absolute":
                self.wrenches[edge.b] = self.wrenches[edge.b] + concatenate(np.zeros(3), part)
            else:
                self.joints[edge.label] = self.joints[edge.label] + part

    def rotor(self, label: str, inertia: Array) -> None:
        """An inertia (n, n) that moves with the parent-relative velocities of a joint."""
        if label in self._coupled:
            source = str(self._coupled[label].follows)
            share = self._coupled[label].follow_matrix(self.size(source))
            self.rotor(source, transpose(share) @ inertia @ share)
            return
        self.rotors[label] = self.rotors[label] + inertia if label in self.rotors else inertia

    def couple(self, label: str, body: str, K: Array) -> None:
        """Kinetic energy omega^T K w (K of shape (3, n)) of the velocities w of a joint and the angular velocity of a body."""
        if label in self._coupled:
            source = str(self._coupled[label].follows)
            self.couple(source, body, K @ self._coupled[label].follow_matrix(self.size(source)))
        elif body != WORLD:
            self.couplings.append((label, body, K))

    def on(self, frame: str) -> Array:
        """The wrench (6,) on a frame."""
        return self.wrenches.get(frame, np.zeros(6))
