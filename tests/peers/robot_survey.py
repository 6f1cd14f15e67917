"""Load robot files as users do and compare them with MuJoCo and Pinocchio; run as a script, one JSON line for each file.

    python tests/peers/robot_survey.py FILE ...

Classes: "equal" (kinematics, mass matrix, bias, passive and actuator forces with their clamps), "reported" (equal apart from losses in the report),
"refused" (a typed error), "different" (with losses that may explain it), "silent" (different without), "crash", "time".
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import heavytop as ht
from heavytop.errors import HeavytopError
from heavytop.io.build_system import SMOOTHING
from heavytop.io.renaming import input_name

mujoco, pin = pytest.importorskip("mujoco"), pytest.importorskip("pinocchio")

LIMIT = 120
"""Seconds of processor time for one file."""
TOLERANCE = 1e-7
"""Relative; MuJoCo keeps meshes in single precision."""
STATES = 2
WITHOUT_EFFECT = (
    *(
        "contact geometry",
        "collision geometry",
        "contact",
        "camera",
        "light",
        "sensor",
        "visual",
        "statistic",
        "size",
        "custom",
    ),
    *(
        "mesh",
        "texture",
        "skin",
        "gazebo",
        "calibration",
        "safety_controller",
        "keyframe",
        "act",
        "transmission",
        "mimic",
    ),
)
"""Losses that do not concern the forces compared here."""


def relative(ours: Any, theirs: Any, least: float = 0.0) -> float:
    scale = max(float(np.max(np.abs(theirs), initial=0.0)), float(np.max(np.abs(ours), initial=0.0)), least, 1e-9)
    return float(np.max(np.abs(np.asarray(ours) - theirs), initial=0.0)) / scale


def state_of(model: ht.Model, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    q, v = model.random(rng), rng.standard_normal(model.nv)
    if model.is_constrained:
        q = model.integrate(model.neutral(), 0.05 * rng.standard_normal(model.nv), 1.0)
        q, v = model.assemble(q, v)
    return q, v


def with_mujoco(path: str) -> dict[str, Any]:
    try:
        peer = mujoco.MjModel.from_xml_path(path)
    except ValueError as error:
        peer, reason = None, str(error)
    else:
        reason = ""
    system = ht.load(path)
    losses = [item for item in system.report.losses if item.what not in WITHOUT_EFFECT]
    model = system.derive(native=False)
    if peer is None:
        return {"class": "refused by the peer", "why": reason}
    off, kinds = mujoco.mjtDisableBit, {item.what for item in system.report.losses}
    peer.opt.disableflags |= off.mjDSBL_CONTACT | off.mjDSBL_LIMIT
    if any(item.what == "option" for item in losses):
        peer.opt.density = peer.opt.viscosity = 0.0
        peer.opt.wind[:] = 0.0
    if "forcerange" in kinds:
        peer.actuator_forcelimited[:] = 0
    if "actuatorfrcrange" in kinds:
        peer.jnt_actfrclimited[:] = 0
    inputs = _inputs(system, model, peer)
    data, rng, worst = mujoco.MjData(peer), np.random.default_rng(0), {"mass": 0.0}
    worst["mass"] = relative(sum(float(i.total) for i in model.description.inertias.values()), peer.body_mass.sum())
    actuation = system.actuation()
    for k in range(STATES):
        q, v = state_of(model, rng)
        commands = rng.uniform(-1, 1, model.nu) * (1.0 if k == 0 else 30.0)
        for name, value in _difference(system, model, peer, data, q, v, commands, actuation, inputs).items():
            worst[name] = max(worst.get(name, 0.0), value)
    bad = {name: value for name, value in worst.items() if value > TOLERANCE}
    if bad:
        return {"class": "different" if losses else "silent", "why": f"{bad} {sorted({str(x.what) for x in losses})}"}
    return {"class": "reported" if losses else "equal"}


def _inputs(system: ht.System, model: ht.Model, peer: Any) -> list[int | None]:
    """Actuator of MuJoCo -> input of the model; actuators that are not represented are switched off there."""
    names = list(model.description.inputs)
    found: list[int | None] = []
    for k in range(peer.nactuator):
        name = peer.actuator(k).name
        place = next((names.index(n) for n in (name, input_name(name)) if name and n in names), None)
        found.append(place)
    left = [k for k in range(len(names)) if k not in found]
    missing = [k for k, place in enumerate(found) if place is None and not peer.actuator(k).name]
    if len(left) == len(missing):
        for k, place in zip(missing, left, strict=True):
            found[k] = place
    for k, place in enumerate(found):
        if place is None:
            peer.actuator_gainprm[k] = peer.actuator_biasprm[k] = 0.0
            peer.actuator_gaintype[k] = peer.actuator_biastype[k] = 0
    return found


def _difference(system, model, peer, data, q, v, commands, actuation, inputs) -> dict[str, float]:
    to = ht.conventions.to_mujoco
    there = to(model, q, v, np.zeros(model.nv), peer=peer)
    T = to(model, np.broadcast_to(q, (model.nv, model.nq)), np.eye(model.nv), peer=peer).v.T
    data.qpos[:], data.qvel[:], data.ctrl[:] = there.q, there.v, 0.0
    for k, place in enumerate(inputs):
        if place is not None and peer.actuator_actadr[k] >= 0:
            bounds = system.input_limits.get(list(model.description.inputs)[place], (-np.inf, np.inf))
            data.act[peer.actuator_actadr[k] + peer.actuator_actnum[k] - 1] = np.clip(commands[place], *bounds)
        elif place is not None:
            data.ctrl[k] = commands[place]
    mujoco.mj_forward(peer, data)
    worst = {"pose": 0.0}
    frames = set(model.description.graph.frames)
    bodies = [b for b in range(1, peer.nbody) if peer.body(b).name in frames]
    for b in bodies[:: max(1, len(bodies) // 8)]:
        pose = model.pose("world", peer.body(b).name, q)
        worst["pose"] = max(worst["pose"], relative(pose[:3, 3], data.xpos[b], 1.0))
        worst["pose"] = max(worst["pose"], relative(pose[:3, :3], data.xmat[b].reshape(3, 3)))
    M = np.zeros((peer.nv, peer.nv))
    mujoco.mj_fullM(peer, data, M)
    worst["M"] = relative(model.mass_matrix(q), T.T @ M @ T)
    bias, theirs = model.bias(q, v) + model.gravity_force(q), T.T @ (data.qfrc_bias + M @ there.a)
    size = float(np.max(np.abs(M), initial=0.0)) * (1 + float(v @ v)) * 1e-3
    worst["bias"] = relative(bias, theirs, size)
    friction = np.zeros(peer.nv)
    if not peer.opt.disableflags & int(mujoco.mjtDisableBit.mjDSBL_FRICTIONLOSS):
        friction = peer.dof_frictionloss * np.tanh(there.v / SMOOTHING)
    passive = T.T @ (data.qfrc_passive + data.qfrc_actuator - friction)
    u = actuation.inputs(q, v, commands) if model.nu else commands
    ours = bias - model.inverse_dynamics(q, v, np.zeros(model.nv)) + model.input_matrix(q) @ u
    worst["force"] = relative(ours, passive, max(size, float(np.max(np.abs(theirs), initial=0.0))))
    return worst


def with_pinocchio(path: str) -> dict[str, Any]:
    try:
        peer = pin.buildModelFromUrdf(path)
    except (RuntimeError, ValueError) as error:
        peer, reason = None, str(error)
    else:
        reason = ""
    model = ht.load(path).derive(native=False)
    if peer is None:
        return {"class": "refused by the peer", "why": reason}
    data, rng, worst = peer.createData(), np.random.default_rng(0), {"M": 0.0, "bias": 0.0}
    for _ in range(STATES):
        q, v = state_of(model, rng)
        there = ht.conventions.to_pinocchio(model, q, v, peer=peer)
        unit = np.broadcast_to(q, (model.nv, model.nq))
        T = ht.conventions.to_pinocchio(model, unit, np.eye(model.nv), peer=peer).v.T
        full = pin.crba(peer, data, there.q)
        worst["M"] = max(worst["M"], relative(model.mass_matrix(q), T.T @ (np.triu(full) + np.triu(full, 1).T) @ T))
        theirs = T.T @ pin.rnea(peer, data, there.q, there.v, np.zeros(peer.nv))
        worst["bias"] = max(worst["bias"], relative(model.bias(q, v) + model.gravity_force(q), theirs))
    bad = {name: value for name, value in worst.items() if value > TOLERANCE}
    return {"class": "silent", "why": str(bad)} if bad else {"class": "equal"}


def inspected(path: str) -> dict[str, Any]:
    try:
        return with_pinocchio(path) if path.endswith(".urdf") else with_mujoco(path)
    except HeavytopError as error:
        return {"class": "refused", "why": f"{type(error).__name__}: {error}"}
    except Exception as error:
        return {"class": "crash", "why": repr(error)}


def main(paths: list[str]) -> None:
    for path in paths:
        child = os.fork()
        if child == 0:
            import resource

            resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT + 5))
            signal.alarm(10 * LIMIT)
            print(json.dumps({"file": path, **inspected(path)}), flush=True)
            os._exit(0)
        if os.waitpid(child, 0)[1]:
            print(json.dumps({"file": path, "class": "time"}), flush=True)


if __name__ == "__main__":
    main([str(Path(path).resolve()) for path in sys.argv[1:]])
