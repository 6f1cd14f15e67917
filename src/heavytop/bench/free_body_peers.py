"""The free rigid body in other engines: what each offers to integrate it, started from the same state.

A solver is made once per step size; only its run is timed, never the building of the model.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from heavytop.geometry.quaternion import rotation_from_quaternion

State = tuple[np.ndarray, np.ndarray]
"""Angular velocity (3,) in the body, rotation matrix (3, 3)."""


@dataclass(frozen=True, eq=False)
class Body:
    """Principal moments in kg m^2 and the initial angular velocity in rad/s; the attitude starts at the identity."""

    moment: np.ndarray
    omega: np.ndarray

    def energy(self, state: State) -> float:
        """Kinetic energy in J."""
        return 0.5 * float(state[0] @ (self.moment * state[0]))

    def momentum(self, state: State) -> np.ndarray:
        """Angular momentum in world axes."""
        return state[1] @ (self.moment * state[0])

    @property
    def start(self) -> State:
        """The initial state."""
        return self.omega, np.eye(3)


Maker = Callable[[Body, float, int], Callable[[], State]]
"""Body, step size in s, number of steps -> a call that integrates from the start to the end."""


def mujoco_runs(integrator: str) -> Maker:
    """``mj_step`` many times in one call, after a reset."""

    def make(body: Body, h: float, steps: int) -> Callable[[], State]:
        mujoco: Any = importlib.import_module("mujoco")
        moments = " ".join(f"{x:.17g}" for x in body.moment)
        model = mujoco.MjModel.from_xml_string(
            f'<mujoco><option timestep="{h:.17g}" gravity="0 0 0" integrator="{integrator}">'
            '<flag contact="disable" constraint="disable"/></option><worldbody><body><freejoint/>'
            f'<inertial pos="0 0 0" mass="1" diaginertia="{moments}"/></body></worldbody></mujoco>'
        )
        data = mujoco.MjData(model)

        def run() -> State:
            mujoco.mj_resetData(model, data)
            data.qvel[3:] = body.omega
            mujoco.mj_step(model, data, steps)
            return data.qvel[3:].copy(), rotation_from_quaternion(data.qpos[3:] / np.linalg.norm(data.qpos[3:]))

        return run

    return make


def exudyn_runs(solver: str) -> Maker:
    """``SolveDynamic`` with an explicit Lie-group method on a node with a rotation vector."""

    def make(body: Body, h: float, steps: int) -> Callable[[], State]:
        exu: Any = importlib.import_module("exudyn")
        utilities: Any = importlib.import_module("exudyn.utilities")
        container = exu.SystemContainer()
        mbs = container.AddSystem()
        inertia = utilities.RigidBodyInertia(mass=1, inertiaTensor=np.diag(body.moment))
        node = mbs.CreateRigidBody(
            inertia=inertia,
            nodeType=exu.NodeType.RotationRotationVector,
            referencePosition=[0, 0, 0],
            initialAngularVelocity=list(body.omega),
            returnDict=True,
        )["nodeNumber"]
        mbs.Assemble()
        settings = exu.SimulationSettings()
        settings.solutionSettings.writeSolutionToFile = False
        time = settings.timeIntegration
        time.numberOfSteps, time.endTime = steps, steps * h
        time.verboseMode, time.automaticStepSize = 0, False
        time.explicit.computeEndOfStepAccelerations = False
        time.explicit.useLieGroupIntegration = True
        kind, output = getattr(exu.DynamicSolverType, solver), exu.OutputVariableType

        def run() -> State:
            mbs.SolveDynamic(settings, solverType=kind)
            omega = np.array(mbs.GetNodeOutput(node, output.AngularVelocityLocal))
            return omega, np.array(mbs.GetNodeOutput(node, output.RotationMatrix)).reshape(3, 3)

        run.keep = container  # type: ignore[attr-defined]
        return run

    return make


class PinocchioBody:
    """The body in Pinocchio, which offers forward dynamics and one exponential step; the loop is Python."""

    def __init__(self, body: Body) -> None:
        pin: Any = importlib.import_module("pinocchio")
        self.pin, self.body = pin, body
        self.model = pin.Model()
        joint = self.model.addJoint(0, pin.JointModelFreeFlyer(), pin.SE3.Identity(), "body")
        inertia = pin.Inertia(1.0, np.zeros(3), np.diag(body.moment))
        self.model.appendBodyToJoint(joint, inertia, pin.SE3.Identity())
        self.model.gravity.setZero()
        self.data, self.force = self.model.createData(), np.zeros(6)
        self.empty = pin.Model()
        self.empty_data, self.nothing = self.empty.createData(), np.zeros(0)

    def start(self) -> tuple[np.ndarray, np.ndarray]:
        """Configuration and velocity."""
        return self.pin.neutral(self.model), np.concatenate([np.zeros(3), self.body.omega])

    def state(self, q: np.ndarray, v: np.ndarray) -> State:
        """Angular velocity and rotation matrix."""
        return v[3:].copy(), rotation_from_quaternion(np.roll(q[3:], 1) / np.linalg.norm(q[3:]))

    def runge_kutta(self, h: float, steps: int) -> State:
        """Classical RK4 on velocities with ``pin.integrate`` for the configuration."""
        model, data, force, aba, move = self.model, self.data, self.force, self.pin.aba, self.pin.integrate
        q, v = self.start()
        for _ in range(steps):
            a1 = aba(model, data, q, v, force).copy()
            v2 = v + h / 2 * a1
            a2 = aba(model, data, move(model, q, h / 2 * v), v2, force).copy()
            v3 = v + h / 2 * a2
            a3 = aba(model, data, move(model, q, h / 2 * v2), v3, force).copy()
            v4 = v + h * a3
            a4 = aba(model, data, move(model, q, h * v3), v4, force)
            q = move(model, q, h / 6 * (v + 2 * v2 + 2 * v3 + v4))
            v = v + h / 6 * (a1 + 2 * a2 + 2 * a3 + a4)
        return self.state(q, v)

    def semi_implicit(self, h: float, steps: int) -> State:
        """The loop of Pinocchio's examples: ``v += a h``, then ``q = integrate(q, v h)``."""
        q, v = self.start()
        for _ in range(steps):
            v = v + h * self.pin.aba(self.model, self.data, q, v, self.force)
            q = self.pin.integrate(self.model, q, h * v)
        return self.state(q, v)

    def evaluations(self, calls: int) -> tuple[Callable[[], None], Callable[[], None]]:
        """``calls`` evaluations of the forward dynamics, and as many calls on a model without bodies."""
        q, v = self.start()

        def work() -> None:
            for _ in range(calls):
                self.pin.aba(self.model, self.data, q, v, self.force)

        def idle() -> None:
            for _ in range(calls):
                self.pin.aba(self.empty, self.empty_data, self.nothing, self.nothing, self.nothing)

        return work, idle


def pinocchio_runs(method: str) -> Maker:
    """``runge_kutta`` or ``semi_implicit`` of :class:`PinocchioBody`."""

    def make(body: Body, h: float, steps: int) -> Callable[[], State]:
        run = getattr(PinocchioBody(body), method)
        return lambda: run(h, steps)

    return make


PEERS: dict[str, tuple[str, Maker]] = {
    "exudyn RK44": ("exudyn", exudyn_runs("RK44")),
    "exudyn RK67": ("exudyn", exudyn_runs("RK67")),
    "mujoco RK4": ("mujoco", mujoco_runs("RK4")),
    "mujoco Euler": ("mujoco", mujoco_runs("Euler")),
    "pin RK4": ("pin", pinocchio_runs("runge_kutta")),
    "pin semi-implicit": ("pin", pinocchio_runs("semi_implicit")),
}
"""Name -> (distribution, maker of runs)."""
