"""Pinocchio: forward dynamics and their derivatives, and the free body with the loops that its users write.

Timing excludes the cost of a call from Python: the same function of the same arguments is timed on a model without bodies, and that
time is subtracted.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from heavytop._arrays import Floats
from heavytop.geometry.quaternion import rotation_from_quaternion
from heavytop.io import conventions
from heavytop_bench.measure import Work
from heavytop_bench.peers.base import AGREE, FreeBody, FreeBodyMethod, FreeState, Peer, RobotCase, Trial
from heavytop_bench.states import States
from heavytop_bench.trees import WORLD, Tree

DERIVATIVE_CALLS, SINGLE_CALLS, BODY_CALLS = 20, 50, 50
SLOW_STEPS = 2048


class Pinocchio(Peer):
    """The comparisons with Pinocchio."""

    name, module = "pin", "pinocchio"

    def forward(self, tree: Tree, states: States) -> Trial:
        """``abaInParallel`` on one thread over the batch."""
        engine = PinocchioTree(tree)
        return Trial((engine.accelerations(states.rows(AGREE)),), engine.batch(states), len(states.q))

    def robot(self, case: RobotCase) -> Trial:
        """``abaInParallel`` on one thread, on the model that Pinocchio makes of the file."""
        pin: Any = importlib.import_module("pinocchio")
        free = (pin.JointModelFreeFlyer(),) if case.is_free else ()
        model = pin.buildModelFromUrdf(str(case.file), *free)
        state = conventions.to_pinocchio(case.model, case.q, case.v, force=case.forces, peer=model)
        columns = [np.asfortranarray(a.T) for a in (state.q, state.v, state.force) if a is not None]
        result, pool = np.zeros((model.nv, len(case.q)), order="F"), pin.ModelPool(model, 1)

        def work() -> None:
            pin.abaInParallel(1, pool, *columns, result)

        work()
        ours = conventions.from_pinocchio(case.model, state.q, state.v, a=result.T, peer=model).a
        return Trial((np.asarray(ours)[:AGREE],), work, len(case.q))

    def single(self, tree: Tree, states: States) -> Trial:
        """``aba``, called from Python."""
        engine = PinocchioTree(tree)
        work, idle = engine.single(states, "aba", SINGLE_CALLS)
        return Trial((engine.accelerations(states.rows(AGREE)),), work, SINGLE_CALLS, idle)

    def derivatives(self, tree: Tree, states: States) -> Trial:
        """``computeABADerivatives``, called from Python."""
        engine = PinocchioTree(tree)
        work, idle = engine.single(states, "computeABADerivatives", DERIVATIVE_CALLS)
        return Trial(engine.derivatives(states.rows(AGREE)), work, DERIVATIVE_CALLS, idle)

    def free_body(self) -> tuple[FreeBodyMethod, ...]:
        """Classical RK4 and the semi-implicit loop of its examples, both in Python."""

        def evaluations(body: FreeBody) -> Trial:
            return PinocchioBody(body).evaluations(BODY_CALLS)

        return (
            FreeBodyMethod("pin RK4", _runs("runge_kutta"), most_steps=SLOW_STEPS, evaluations=evaluations),
            FreeBodyMethod("pin semi-implicit", _runs("semi_implicit"), is_rival=False),
        )


class PinocchioTree:
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

    def arguments(self, states: States) -> tuple[Floats, Floats, Floats]:
        """Configurations, velocities, generalised forces: one state per row."""
        return states.configurations(scalar_last=True), states.v, states.forces()

    def accelerations(self, states: States) -> Floats:
        """Forward dynamics of all states, in our coordinates."""
        rows = zip(*self.arguments(states), strict=True)
        return np.array([self.pin.aba(self.model, self.data, *row) for row in rows])

    def derivatives(self, states: States) -> tuple[Floats, Floats, Floats]:
        """Derivatives of the accelerations by displacements, velocities and forces, for joints with constant coordinates."""
        results = []
        for row in zip(*self.arguments(states), strict=True):
            # the matrices belong to Pinocchio's workspace; of the inverse mass matrix it fills the upper triangle
            by_q, by_v, inverse = self.pin.computeABADerivatives(self.model, self.data, *row)
            results.append((by_q.copy(), by_v.copy(), np.triu(inverse) + np.triu(inverse, 1).T))
        by_q, by_v, inverse = (np.array(part) for part in zip(*results, strict=True))
        return by_q, by_v, inverse

    def batch(self, states: States) -> Work:
        """A call that evaluates all states with ``abaInParallel`` on one thread."""
        columns = [np.asfortranarray(a.T) for a in self.arguments(states)]
        result = np.zeros((self.model.nv, len(states.q)), order="F")
        pin, pool = self.pin, self.pool
        return lambda: pin.abaInParallel(1, pool, *columns, result)

    def single(self, states: States, function: str, calls: int) -> tuple[Work, Work]:
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


class PinocchioBody:
    """The body in Pinocchio, which offers forward dynamics and one exponential step; the loop is Python."""

    def __init__(self, body: FreeBody) -> None:
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

    def start(self) -> tuple[Floats, Floats]:
        """Configuration and velocity."""
        return self.pin.neutral(self.model), np.concatenate([np.zeros(3), self.body.omega])

    def state(self, q: Floats, v: Floats) -> FreeState:
        """Angular velocity and rotation matrix."""
        return v[3:].copy(), rotation_from_quaternion(np.roll(q[3:], 1) / np.linalg.norm(q[3:]))

    def runge_kutta(self, h: float, steps: int) -> FreeState:
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

    def semi_implicit(self, h: float, steps: int) -> FreeState:
        """The loop of Pinocchio's examples: ``v += a h``, then ``q = integrate(q, v h)``."""
        q, v = self.start()
        for _ in range(steps):
            v = v + h * self.pin.aba(self.model, self.data, q, v, self.force)
            q = self.pin.integrate(self.model, q, h * v)
        return self.state(q, v)

    def evaluations(self, calls: int) -> Trial:
        """``calls`` evaluations of the forward dynamics, less as many calls on a model without bodies."""
        q, v = self.start()

        def work() -> None:
            for _ in range(calls):
                self.pin.aba(self.model, self.data, q, v, self.force)

        def idle() -> None:
            for _ in range(calls):
                self.pin.aba(self.empty, self.empty_data, self.nothing, self.nothing, self.nothing)

        return Trial((), work, calls, idle)


def _runs(method: str) -> Callable[[FreeBody, float, int], Callable[[], FreeState]]:
    def make(body: FreeBody, h: float, steps: int) -> Callable[[], FreeState]:
        run = getattr(PinocchioBody(body), method)
        return lambda: run(h, steps)

    return make


PEER = Pinocchio()
