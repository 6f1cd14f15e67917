"""Crocoddyl: optimal motions by differential dynamic programming on Pinocchio's manifolds.

Its inputs are limited by ``SolverBoxFDDP``. A goal is a cost at the end, so its weight is raised in three steps, each from the motion before.
Inputs are held, steps are its RK4, all models are its own compiled ones: joints by ``ActuationModelFull``, propellers by
``ActuationModelFloatingBaseThrusters``. For a joint without an input behind one that has one there is none, so that model of the inputs is a class
in Python, as in its own examples, and no times are compared. (``SolverIntro``, which knows constraints, stayed at its guess.)
"""

from __future__ import annotations

import importlib
from functools import partial
from typing import Any

import numpy as np

from heavytop._arrays import Floats
from heavytop.errors import ModelError
from heavytop.geometry import se3
from heavytop.io import conventions
from heavytop.system import WORLD, JointForce, Thruster, at_defaults, unit_axis
from heavytop_bench.peers.base import MotionCase, MotionFound, MotionTrial, Peer

ENDS = (1e2, 1e4, 1e6)
"""Weights of the squared distance from the goal, times that of the effort."""
ITERATIONS = 300
ROOT = "root_joint"
"""Crocoddyl's name for the joint of a free body."""


class Crocoddyl(Peer):
    """The comparisons with Crocoddyl."""

    name = module = "crocoddyl"

    def motion(self, case: MotionCase) -> tuple[MotionTrial, ...]:
        """From the start held, and from the straight way on the manifold."""
        posed = PosedMotion(case)
        return tuple(
            MotionTrial(posed.accelerations, partial(posed.solve, guess), posed.is_native)
            for guess in ("rest", "straight")
        )


class PosedMotion:
    """A motion as Crocoddyl takes it."""

    def __init__(self, case: MotionCase) -> None:
        self.case, self.lib, self.pin = case, importlib.import_module("crocoddyl"), importlib.import_module("pinocchio")
        self.model, self.is_native = self._model(), True
        state = self.state = self.lib.StateMultibody(self.model)
        self.act = self._actuation()
        nu = self.act.nu
        weights = np.full(nu, 2.0 * case.weight)  # it halves squares
        self.ends = [self._state(q) for q in (case.start, case.goal)]
        lib, hold = self.lib, self.lib.ControlParametrizationModelPolyZero(nu)
        effort = lib.CostModelResidual(
            state, lib.ActivationModelWeightedQuad(weights), lib.ResidualModelControl(state, case.about)
        )
        running = lib.CostModelSum(state, nu)
        running.addCost("effort", effort, 1.0)
        self.running = lib.DifferentialActionModelFreeFwdDynamics(state, self.act, running)
        step = lib.IntegratedActionModelRK(self.running, hold, lib.RKType.four, case.duration / case.steps)
        step.u_lb, step.u_ub = case.low, case.high
        self.problems = []
        for weight in ENDS:
            last = lib.CostModelSum(state, nu)
            there = lib.CostModelResidual(state, lib.ResidualModelState(state, self.ends[1], nu))
            last.addCost("goal", there, 2.0 * weight * case.weight)
            end = lib.DifferentialActionModelFreeFwdDynamics(state, self.act, last)
            self.problems.append(
                lib.ShootingProblem(
                    self.ends[0], [step] * case.steps, lib.IntegratedActionModelRK(end, hold, lib.RKType.four, 0.0)
                )
            )

    def _model(self) -> Any:
        """Pinocchio's model of the same bodies and joints."""
        pin, described = self.pin, self.case.model.description
        value = lambda x: at_defaults(x, described.parameters)  # noqa: E731
        model, ids = pin.Model(), {WORLD: 0}
        model.gravity.linear = value(described.gravity)
        for edge in described.joints:
            if edge.joint.kind == "floating":
                joint = pin.JointModelFreeFlyer()
            elif edge.joint.kind == "prismatic":
                joint = pin.JointModelPrismaticUnaligned(value(edge.joint.slides_along))
            elif edge.joint.kind == "revolute":
                joint = pin.JointModelRevoluteUnaligned(value(edge.joint.turns_about))
            else:
                raise ModelError(f"joint {edge.label!r} is not one that this comparison knows.")
            at = value(edge.at)
            name = ROOT if edge.joint.kind == "floating" else edge.label
            ids[edge.b] = model.addJoint(ids[edge.a], joint, pin.SE3(se3.rotation(at), se3.position(at)), name)
            body = described.inertias[edge.b]
            inertia = pin.Inertia(float(value(body.mass)), value(body.com), value(body.moment_at_com))
            model.appendBodyToJoint(ids[edge.b], inertia, pin.SE3.Identity())
        return model

    def _actuation(self) -> Any:
        """Its model of the inputs."""
        given, lib, pin = self.case.model.description, self.lib, self.pin
        inputs: list[Any] = list(given.inputs.values())
        if all(isinstance(i, Thruster) for i in inputs):
            value = lambda x: at_defaults(x, given.parameters)  # noqa: E731
            kinds, made = lib.ThrusterType, []
            for one, low, high in zip(inputs, self.case.low, self.case.high, strict=True):
                if not np.allclose(value(unit_axis(one.axis, one.body)), (0.0, 0.0, 1.0)):
                    raise ModelError("its propellers push along z.")
                torque = float(value(one.drag_ratio))
                sense = kinds.CW if torque >= 0 else kinds.CCW
                made.append(
                    lib.Thruster(pin.SE3(np.eye(3), value(one.at)), abs(torque), sense, float(low), float(high))
                )
            return lib.ActuationModelFloatingBaseThrusters(self.state, made)
        if not all(isinstance(i, JointForce) for i in inputs):
            raise ModelError("inputs are propellers or forces in joints here.")
        places = [self.model.joints[self.model.getJointId(i.body)].idx_v for i in inputs]
        if places == list(range(self.model.nv)):
            return lib.ActuationModelFull(self.state)
        self.is_native = False
        return _some_joints(lib, self.state, places)

    def _state(self, q: Floats) -> Floats:
        """A configuration at rest in its coordinates."""
        return np.concatenate([self._configurations(q), np.zeros(self.model.nv)])

    def _configurations(self, q: Floats) -> Floats:
        return np.asarray(conventions.to_pinocchio(self.case.model, q).q)

    def accelerations(self, q: Floats, v: Floats, u: Floats) -> Floats:
        """Forward dynamics by its differential model, in heavytop's coordinates; joints are the same."""
        data, rows = self.running.createData(), []
        for place, speed, given in zip(self._configurations(q), v, u, strict=True):
            self.running.calc(data, np.concatenate([place, speed]), given)
            rows.append(np.array(data.xout))
        return np.array(rows)

    def solve(self, guess: str) -> MotionFound:
        """The motion from a guess: the goal weighs more and more."""
        count, (start, goal) = self.case.steps, self.ends
        shares = np.linspace(0.0, 1.0, count + 1) if guess == "straight" else np.zeros(count + 1)
        xs = [self.state.integrate(start, s * self.state.diff(start, goal)) for s in shares]
        us = [self.case.about] * count
        iterations, done = 0, True
        for problem in self.problems:
            solver = self.lib.SolverBoxFDDP(problem)
            done = solver.solve(xs, us, ITERATIONS, False, 1e-9)
            xs, us, iterations = solver.xs, solver.us, iterations + int(solver.iter)
        u = np.array([np.array(one) for one in us])
        return MotionFound(u, iterations, f"BoxFDDP from {guess}" + ("" if done else ", not converged"))


def _some_joints(lib: Any, state: Any, places: list[int]) -> Any:
    """Forces in some of the joints."""
    columns = np.eye(state.nv)[:, places]

    class SomeJoints(lib.ActuationModelAbstract):
        def __init__(self) -> None:
            lib.ActuationModelAbstract.__init__(self, state, len(places))

        def calc(self, data: Any, x: Floats, u: Floats) -> None:
            data.tau = columns @ u

        def calcDiff(self, data: Any, x: Floats, u: Floats) -> None:
            data.dtau_du = columns

    return SomeJoints()


PEER = Crocoddyl()
