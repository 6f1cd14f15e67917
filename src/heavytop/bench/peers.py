"""Other engines, built from the same parameters and driven with the same states.

Each peer is optional. Timing excludes the cost of a call from Python: the same function of the same arguments is timed on a model
without bodies (Pinocchio) or replaced by a check that only scans the velocities (MuJoCo), and that time is subtracted.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
from typing import Any

import numpy as np

from heavytop.bench.states import States
from heavytop.bench.trees import WORLD, Link, Tree
from heavytop.geometry.quaternion import quaternion_from_rotation

MODULES = {"pin": "pinocchio", "mujoco": "mujoco", "exudyn": "exudyn"}
"""Distribution -> module."""


def versions() -> dict[str, str]:
    """Versions of the peers that are installed."""
    return {
        name: importlib.metadata.version(name)
        for name, module in MODULES.items()
        if importlib.util.find_spec(module) is not None
    }


def missing(*names: str) -> list[str]:
    """Which of the named peers are not installed."""
    return [name for name in names if name not in versions()]


class Pinocchio:
    """The tree in Pinocchio."""

    def __init__(self, tree: Tree) -> None:
        self.pin: Any = importlib.import_module("pinocchio")
        pin = self.pin
        kinds = {
            "free": pin.JointModelFreeFlyer,
            "ball": pin.JointModelSpherical,
            "x": pin.JointModelRX,
            "y": pin.JointModelRY,
            "z": pin.JointModelRZ,
        }
        self.model = pin.Model()
        ids = {WORLD: 0}
        for link in tree.links:
            place = pin.SE3(link.rotation, link.position)
            ids[link.name] = self.model.addJoint(ids[link.parent], kinds[link.joint](), place, link.name)
            inertia = pin.Inertia(link.mass, link.com, link.moment)
            self.model.appendBodyToJoint(ids[link.name], inertia, pin.SE3.Identity())
        self.data = self.model.createData()
        self.empty = pin.Model()
        self.empty_data = self.empty.createData()
        self.pool = pin.ModelPool(self.model, 1)

    def arguments(self, states: States) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Configurations, velocities, generalised forces: one state per row."""
        return states.configurations(scalar_last=True), states.v, states.forces()

    def accelerations(self, states: States) -> np.ndarray:
        """Forward dynamics of all states, in our coordinates."""
        rows = zip(*self.arguments(states), strict=True)
        return np.array([self.pin.aba(self.model, self.data, *row) for row in rows])

    def derivatives(self, states: States) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Derivatives of the accelerations by displacements, velocities and forces, for joints with constant coordinates."""
        results = []
        for row in zip(*self.arguments(states), strict=True):
            # the matrices belong to Pinocchio's workspace; of the inverse mass matrix it fills the upper triangle
            by_q, by_v, inverse = self.pin.computeABADerivatives(self.model, self.data, *row)
            results.append((by_q.copy(), by_v.copy(), np.triu(inverse) + np.triu(inverse, 1).T))
        by_q, by_v, inverse = (np.array(part) for part in zip(*results, strict=True))
        return by_q, by_v, inverse

    def batch(self, states: States):
        """A call that evaluates all states with ``abaInParallel`` on one thread."""
        columns = [np.asfortranarray(a.T) for a in self.arguments(states)]
        result = np.zeros((self.model.nv, len(states.q)), order="F")
        pin, pool = self.pin, self.pool
        return lambda: pin.abaInParallel(1, pool, *columns, result)

    def single(self, states: States, function: str, calls: int):
        """``calls`` calls of a function of one state, and as many on the empty model."""
        row = [a[0].copy() for a in self.arguments(states)]
        none = [np.zeros(0)] * 3
        run = getattr(self.pin, function)

        def work() -> None:
            for _ in range(calls):
                run(self.model, self.data, *row)

        def idle() -> None:
            for _ in range(calls):
                run(self.empty, self.empty_data, *none)

        return work, idle


class MuJoCo:
    """The tree in MuJoCo, without contacts and constraints."""

    def __init__(self, tree: Tree) -> None:
        self.mujoco: Any = importlib.import_module("mujoco")
        self.model = self.mujoco.MjModel.from_xml_string(mjcf(tree))
        self.data = self.mujoco.MjData(self.model)

    def _set(self, states: States, k: int) -> None:
        self.data.qpos[:] = states.configurations(scalar_last=False)[k]
        self.data.qvel[:] = states.mixed_velocities()[k]
        self.data.qfrc_applied[:] = states.forces()[k]

    def accelerations(self, states: States) -> np.ndarray:
        """Forward dynamics of all states, in our coordinates."""
        results = []
        for k in range(len(states.q)):
            self._set(states, k)
            self.mujoco.mj_forward(self.model, self.data)
            results.append(self.data.qacc.copy())
        return states.from_mixed_accelerations(np.array(results))

    def single(self, states: States, calls: int):
        """``calls`` calls of ``mj_forward``, and as many of a check that only scans the velocities."""
        self._set(states, 0)
        mujoco, model, data = self.mujoco, self.model, self.data

        def work() -> None:
            for _ in range(calls):
                mujoco.mj_forward(model, data)

        def idle() -> None:
            for _ in range(calls):
                mujoco.mj_checkVel(model, data)

        return work, idle


def mjcf(tree: Tree) -> str:
    """The tree as a MuJoCo model description."""
    children: dict[str, list[Link]] = {}
    for link in tree.links:
        children.setdefault(link.parent, []).append(link)

    def text(values: Any) -> str:
        return " ".join(f"{x:.17g}" for x in np.ravel(values))

    def body(link: Link) -> str:
        axis = {"x": "1 0 0", "y": "0 1 0", "z": "0 0 1"}
        joint = {"free": "<freejoint/>", "ball": '<joint type="ball"/>'}.get(link.joint)
        I = link.moment
        moments = (I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2])
        return (
            f'<body name="{link.name}" pos="{text(link.position)}" quat="{text(quaternion_from_rotation(link.rotation))}">'
            + (joint or f'<joint type="hinge" axis="{axis[link.joint]}"/>')
            + f'<inertial pos="{text(link.com)}" mass="{link.mass:.17g}" fullinertia="{text(moments)}"/>'
            + "".join(body(child) for child in children.get(link.name, []))
            + "</body>"
        )

    return (
        '<mujoco><compiler angle="radian" balanceinertia="false" boundmass="0" boundinertia="0"/>'
        '<option gravity="0 0 -9.81" integrator="Euler"><flag contact="disable" constraint="disable"/></option>'
        f"<worldbody>{''.join(body(link) for link in children[WORLD])}</worldbody></mujoco>"
    )
