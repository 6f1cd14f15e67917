"""Systems with known parameters and noisy logs of their motions, for tests of identification."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

import heavytop as ht


@dataclass(frozen=True, eq=False)
class Case:
    """A system, its unknowns and outputs, and noisy logs of it.

    ``noise`` is the standard deviation of the configuration in minimal coordinates, or of each signal.
    """

    model: Any
    start: Any
    unknowns: list[Any]
    truth: dict[str, float]
    inputs: np.ndarray
    step: float
    noise: float
    outputs: tuple[str, ...] = ("q",)
    window: float | None = 0.5

    def run(self) -> ht.Run:
        until = self.step * len(self.inputs)
        return ht.simulate(
            self.model, self.start, until, self.step, inputs=self.inputs, parameters=self.truth, balance=False
        )

    def logs(self, count: int, seed: int = 0) -> list[dict[str, np.ndarray]]:
        run, rng = self.run(), np.random.default_rng(seed)
        assert run.outcome.ok
        coordinates = self.model.coordinates
        u = np.concatenate([self.inputs, self.inputs[-1:]])
        delta = self.noise * rng.standard_normal((count, *run.q.shape[:-1], coordinates.nv))
        q = coordinates.retract(np.broadcast_to(run.q, (count, *run.q.shape)), delta)
        return [{"t": run.t, "u": u, "q": np.asarray(noisy)} for noisy in q]

    def identify(self, log: Any, **options: Any) -> Any:
        options = {"window": self.window} | options
        return ht.identify(self.model, log, self.unknowns, self.outputs, **options)


def waves(n: int, step: float, amplitudes: Any, frequencies: Any, seed: int = 0) -> np.ndarray:
    """(n, nu) sums of sines with random phases."""
    t = step * np.arange(n)[:, None, None]
    phases = np.random.default_rng(seed).uniform(0, 2 * np.pi, (len(amplitudes), len(frequencies)))
    return np.sin(2 * np.pi * np.asarray(frequencies) * t + phases).sum(axis=-1) * np.asarray(amplitudes)


def quadcopter() -> Case:
    model = ht.library.quadcopter().derive()
    step, n = 0.02, 120
    u = 2.2 + waves(n, step, [0.12, 0.1, 0.11, 0.13], [0.7, 1.9, 4.3])
    truth = {"m": 0.95, "J_1": 0.0086, "J_2": 0.0077, "J_3": 0.0151, "kappa": 0.017}
    start = (model.neutral(), np.zeros(6))
    return Case(model, start, list(truth), truth, u, step, 0.001, window=0.6)


def furuta() -> Case:
    model = ht.library.furuta().derive()
    step, n = 0.02, 100
    nominal = model.parameters
    truth = {"m_p": 1.1 * nominal["m_p"], "B_r": 1.3 * nominal["B_r"], "B_p": 0.8 * nominal["B_p"]}
    u = waves(n, step, [0.02], [0.5, 1.1, 2.3])
    return Case(model, ([0.0, 2.5], [0.0, 0.0]), list(truth), truth, u, step, 0.004, window=1.0)


def car() -> Case:
    system = ht.System(gravity=(0.0, 0.0, 0.0), name="car")
    mass, base = system.parameter("mass", 1100.0), system.parameter("wheelbase", 2.4)
    system.body("chassis", joint=ht.Planar(), inertia=ht.Inertia(mass, (1.2, 0, 0), (800.0, 800.0, 1500.0)))
    steering = ht.Inertia(20.0, moment_at_com=(0.5, 0.5, 1.0))
    system.body("front", parent="chassis", at=(2.5, 0.0, 0.0), joint=ht.Revolute("z"), inertia=steering)
    system.input("steer", ht.JointForce("front"))
    system.input("drive", ht.Wrench("chassis", force=(1, 0, 0)))
    system.constrain(lambda q, v: np.cos(q[2]) * v[1] - np.sin(q[2]) * v[0], name="rear")
    system.constrain(
        lambda q, v: np.cos(q[2] + q[3]) * v[1] - np.sin(q[2] + q[3]) * v[0] + base * np.cos(q[3]) * v[2], name="front"
    )
    system.basis(
        lambda q, w: ht.vector(w[0] * np.cos(q[2]), w[0] * np.sin(q[2]), w[0] * np.tan(q[3]) / base, w[1]),
        ("speed", "steer_rate"),
    )
    model = system.derive()
    step, n = 0.05, 80
    u = waves(n, step, [1.2, 1500.0], [0.3, 0.7, 1.3])
    truth = {"mass": 1200.0, "wheelbase": 2.5}
    return Case(model, ([0.0, 0.0, 0.0, 0.1], [6.0, 0.0]), list(truth), truth, u, step, 0.01, window=1.0)


def four_bar() -> Case:
    system = ht.System(gravity=(0.0, -9.81, 0.0), name="four-bar")
    crank, coupler = system.parameter("crank_mass", 1.0), system.parameter("coupler_mass", 1.0)
    friction = system.parameter("friction", 0.2)
    for k, mass in enumerate((crank, 1.0)):
        rod = ht.Inertia(mass, (0.5, 0, 0), ht.vector(0.0, mass / 12, mass / 12))
        system.body(f"crank{k}", at=(k, 0.0, 0.0), joint=ht.Revolute("z"), inertia=rod)
    rod = ht.Inertia(coupler, (0.5, 0, 0), ht.vector(0.0, coupler / 12, coupler / 12))
    system.body("coupler", parent="crank0", at=(1.0, 0.0, 0.0), joint=ht.Revolute("z"), inertia=rod)
    system.loop("coupler", "crank1", ht.Revolute("z"), at_a=(1.0, 0.0, 0.0), at_b=(1.0, 0.0, 0.0))
    system.joint_damper("crank0", damping=friction)
    system.input("motor", ht.JointForce("crank0"))
    model = system.derive()
    step, n = 0.02, 75
    u = waves(n, step, [3.0], [0.5, 1.3])
    truth = {"crank_mass": 1.2, "coupler_mass": 0.9, "friction": 0.3}
    start = model.assemble([1.3, 1.3, -1.3], [0.5, 0.5, -0.5])
    return Case(model, start, list(truth), truth, u, step, 0.004, window=0.5)
