"""MuJoCo: forward dynamics, the free body with its integrators, the rollout of a multicopter with constant thrusts.

Timing of the forward dynamics excludes the cost of a call from Python: a check that only scans the velocities is timed, too, and that
time is subtracted.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np

from heavytop._arrays import Floats
from heavytop.copters import Vehicle
from heavytop.errors import ModelError
from heavytop.geometry import quaternion_from_rotation
from heavytop.geometry.quaternion import rotation_from_quaternion
from heavytop.io import conventions
from heavytop_bench.measure import Work
from heavytop_bench.peers.base import AGREE, FreeBody, FreeBodyMethod, FreeState, Peer, RobotCase, Trial
from heavytop_bench.states import States
from heavytop_bench.trees import WORLD, Tree, TreeLink

CALLS = 20


class MuJoCo(Peer):
    """The comparisons with MuJoCo."""

    name = module = "mujoco"

    def forward(self, tree: Tree, states: States) -> Trial:
        """``mj_forward``, called from Python."""
        engine = MuJoCoTree(tree)
        work, idle = engine.single(states, CALLS)
        return Trial((engine.accelerations(states.rows(AGREE)),), work, CALLS, idle)

    def robot(self, case: RobotCase) -> Trial:
        """``mj_forward``, called from Python, on our export as MJCF without constraints."""
        mujoco: Any = importlib.import_module("mujoco")
        file = case.scratch / f"{case.file.stem}.xml"
        case.model.to_mjcf(file)
        added = _with_possible_inertias(file)
        try:
            model = mujoco.MjModel.from_xml_path(str(file))
        except ValueError as error:
            raise ModelError(str(error)) from None
        for name, moment in added.items():
            model.body(name).inertia -= moment
        model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
        data = mujoco.MjData(model)
        state = conventions.to_mujoco(case.model, case.q[:AGREE], case.v[:AGREE], force=case.forces[:AGREE], peer=model)
        results = []
        for row in zip(*(part for part in state if part is not None), strict=True):
            data.qpos[:], data.qvel[:], data.qfrc_applied[:] = row
            mujoco.mj_forward(model, data)
            results.append(data.qacc.copy())
        ours = conventions.from_mujoco(case.model, state.q, state.v, a=np.array(results), peer=model).a
        return Trial((np.asarray(ours),), *_forward_calls(mujoco, model, data))

    def free_body(self) -> tuple[FreeBodyMethod, ...]:
        """RK4, and Euler's method, which is the default."""
        return (
            FreeBodyMethod("mujoco RK4", _free_body_runs("RK4")),
            FreeBodyMethod("mujoco Euler", _free_body_runs("Euler"), is_rival=False),
        )

    def rollout(self, craft: Vehicle, q: Floats, v: Floats, u: Floats, step: float, steps: int) -> Trial:
        """``mujoco.rollout`` on one thread; the states of all steps are recorded, as it always does."""
        rollout = Rollout(craft, q, v, u, step, steps)
        return Trial((rollout.run()[:, :3],), rollout.run, len(q) * steps)


def _with_possible_inertias(file: Path) -> dict[str, float]:
    """Body -> c of those whose moments J MuJoCo rejects: the file contains J + c 1 with the same principal axes, and c is subtracted again."""
    tree = ElementTree.parse(file)
    added = {}
    for body in tree.iter("body"):
        given = body.find("inertial")
        if given is None:
            continue
        xx, yy, zz, xy, xz, yz = (
            *(float(x) for x in (given.get("fullinertia") or given.get("diaginertia") or "0 0 0").split()),
            *(0.0,) * 3,
        )[:6]
        least, middle, most = np.linalg.eigvalsh([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        if least <= 1e-9 * most or least + middle <= (1 + 1e-9) * most:
            c = 2 * max(most - least - middle, -least, 0.1 * most, 1e-3)
            added[body.get("name") or ""] = c
            given.attrib.pop("diaginertia", None)
            given.set("fullinertia", " ".join(f"{x:.17g}" for x in (xx + c, yy + c, zz + c, xy, xz, yz)))
    tree.write(file)
    return added


class MuJoCoTree:
    """The tree in MuJoCo, without contacts and constraints."""

    def __init__(self, tree: Tree) -> None:
        self.mujoco: Any = importlib.import_module("mujoco")
        self.model = self.mujoco.MjModel.from_xml_string(mjcf(tree))
        self.data = self.mujoco.MjData(self.model)

    def _set(self, states: States, k: int) -> None:
        self.data.qpos[:] = states.configurations(scalar_last=False)[k]
        self.data.qvel[:] = states.mixed_velocities()[k]
        self.data.qfrc_applied[:] = states.forces()[k]

    def accelerations(self, states: States) -> Floats:
        """Forward dynamics of all states, in our coordinates."""
        results = []
        for k in range(len(states.q)):
            self._set(states, k)
            self.mujoco.mj_forward(self.model, self.data)
            results.append(self.data.qacc.copy())
        return states.from_mixed_accelerations(np.array(results))

    def single(self, states: States, calls: int) -> tuple[Work, Work]:
        """``calls`` calls of ``mj_forward``, and as many of a check that only scans the velocities."""
        self._set(states, 0)
        work, _, idle = _forward_calls(self.mujoco, self.model, self.data, calls)
        return work, idle


def _forward_calls(mujoco: Any, model: Any, data: Any, calls: int = CALLS) -> tuple[Work, int, Work]:
    """``calls`` calls of ``mj_forward``, their number, and as many of a check that only scans the velocities."""

    def work() -> None:
        for _ in range(calls):
            mujoco.mj_forward(model, data)

    def idle() -> None:
        for _ in range(calls):
            mujoco.mj_checkVel(model, data)

    return work, calls, idle


def mjcf(tree: Tree) -> str:
    """The tree as a MuJoCo model description."""
    children: dict[str, list[TreeLink]] = {}
    for link in tree.links:
        children.setdefault(link.parent, []).append(link)

    def body(link: TreeLink) -> str:
        axis = {"x": "1 0 0", "y": "0 1 0", "z": "0 0 1"}
        joint = {"free": "<freejoint/>", "ball": '<joint type="ball"/>'}.get(link.joint)
        I = link.moment
        moments = (I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2])
        return (
            f'<body name="{link.name}" pos="{_attribute(link.position)}" quat="{_attribute(quaternion_from_rotation(link.rotation))}">'
            + (joint or f'<joint type="hinge" axis="{axis[link.joint]}"/>')
            + f'<inertial pos="{_attribute(link.com)}" mass="{link.mass:.17g}" fullinertia="{_attribute(moments)}"/>'
            + "".join(body(child) for child in children.get(link.name, []))
            + "</body>"
        )

    return (
        '<mujoco><compiler angle="radian" balanceinertia="false" boundmass="0" boundinertia="0"/>'
        '<option gravity="0 0 -9.81" integrator="Euler"><flag contact="disable" constraint="disable"/></option>'
        f"<worldbody>{''.join(body(link) for link in children[WORLD])}</worldbody></mujoco>"
    )


def _free_body_runs(integrator: str) -> Callable[[FreeBody, float, int], Callable[[], FreeState]]:
    """``mj_step`` many times in one call, after a reset."""

    def make(body: FreeBody, h: float, steps: int) -> Callable[[], FreeState]:
        mujoco: Any = importlib.import_module("mujoco")
        moments = " ".join(f"{x:.17g}" for x in body.moment)
        model = mujoco.MjModel.from_xml_string(
            f'<mujoco><option timestep="{h:.17g}" gravity="0 0 0" integrator="{integrator}">'
            '<flag contact="disable" constraint="disable"/></option><worldbody><body><freejoint/>'
            f'<inertial pos="0 0 0" mass="1" diaginertia="{moments}"/></body></worldbody></mujoco>'
        )
        data = mujoco.MjData(model)

        def run() -> FreeState:
            mujoco.mj_resetData(model, data)
            data.qvel[3:] = body.omega
            mujoco.mj_step(model, data, steps)
            return data.qvel[3:].copy(), rotation_from_quaternion(data.qpos[3:] / np.linalg.norm(data.qpos[3:]))

        return run

    return make


def _attribute(values: Any) -> str:
    return " ".join(f"{x:.17g}" for x in np.ravel(values))


def vehicle_xml(craft: Vehicle, step: float) -> str:
    """A multicopter with fixed rotors: a free body with a thruster at every rotor, its torque along its axis."""
    inertia = craft.model.description.inertias["hull"]
    moments = _attribute(np.diag(np.asarray(inertia.moment_at_com, dtype=float)))
    rotors = list(enumerate(craft.airframe.rotors))
    sites = "".join(f'<site name="s{k}" pos="{_attribute(rotor.at)}"/>' for k, rotor in rotors)
    motors = "".join(f'<motor site="s{k}" gear="0 0 1 0 0 {rotor.drag_ratio:.17g}"/>' for k, rotor in rotors)
    return (
        f'<mujoco><option timestep="{step}" gravity="0 0 -9.81" integrator="RK4">'
        '<flag contact="disable" constraint="disable"/></option><worldbody><body><freejoint/>'
        f'<inertial pos="0 0 0" mass="{float(inertia.mass):.17g}" diaginertia="{moments}"/>{sites}</body></worldbody>'
        f"<actuator>{motors}</actuator></mujoco>"
    )


class Rollout:
    """The multicopter in MuJoCo, from the same states with the same thrusts."""

    def __init__(self, craft: Vehicle, q: Floats, v: Floats, u: Floats, step: float, steps: int) -> None:
        mujoco: Any = importlib.import_module("mujoco")
        self.rollout: Any = importlib.import_module("mujoco.rollout")
        self.model = mujoco.MjModel.from_xml_string(vehicle_xml(craft, step))
        self.data = mujoco.MjData(self.model)
        R = np.swapaxes(q[:, 3:].reshape(-1, 3, 3), 1, 2)
        velocity = np.hstack([np.matvec(R, v[:, :3]), v[:, 3:]])  # linear velocities in world axes
        self.start = np.hstack([np.zeros((len(q), 1)), q[:, :3], quaternion_from_rotation(R), velocity])
        self.control = np.repeat(u[:, None], steps, axis=1)
        self.states = np.empty((len(q), steps, self.start.shape[1]))

    def run(self) -> Floats:
        """All steps of all trajectories; (n, 13) positions, quaternions and velocities at the end."""
        self.rollout.rollout(
            self.model,
            self.data,
            self.start,
            self.control,
            state=self.states,
            sensordata=np.empty((*self.states.shape[:2], 0)),
        )
        return self.states[:, -1, 1:]


PEER = MuJoCo()
