"""Exudyn: the free body with its explicit Lie-group methods."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from heavytop_bench.peers.base import FreeBody, FreeBodyMethod, FreeState, Peer


class Exudyn(Peer):
    """The comparisons with Exudyn."""

    name = module = "exudyn"

    def free_body(self) -> tuple[FreeBodyMethod, ...]:
        """Explicit Lie-group integration of orders 4 and 6."""
        return (FreeBodyMethod("exudyn RK44", _runs("RK44")), FreeBodyMethod("exudyn RK67", _runs("RK67")))


def _runs(solver: str) -> Callable[[FreeBody, float, int], Callable[[], FreeState]]:
    """``SolveDynamic`` with an explicit Lie-group method on a node with a rotation vector."""

    def make(body: FreeBody, h: float, steps: int) -> Callable[[], FreeState]:
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

        def run() -> FreeState:
            mbs.SolveDynamic(settings, solverType=kind)
            omega = np.array(mbs.GetNodeOutput(node, output.AngularVelocityLocal))
            return omega, np.array(mbs.GetNodeOutput(node, output.RotationMatrix)).reshape(3, 3)

        run.keep = container  # type: ignore[attr-defined]
        return run

    return make


PEER = Exudyn()
