"""Random contacts with steps below and beyond their limits: a run that ends as finished is right to 1 % of the energy exchanged."""

from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np
import pytest

import heavytop as ht
from heavytop.geometry import so3
from heavytop.simulate import Ending

SHAPES = {
    "ball": ht.Sphere(0.05),
    "capsule": ht.Capsule(0.03, 0.1),
    "box": ht.Box((0.1, 0.12, 0.06)),
    "ellipsoid": ht.Ellipsoid((0.06, 0.05, 0.04)),
}
WRONG = 1e-2
"""Error of the final energy relative to the energy exchanged from which on a run is wrong."""
AGREE = 2e-3
"""Difference of two references that can judge."""


@cache
def model_of(kind: str) -> ht.Model:
    system = ht.System(name=kind)
    system.body("body", joint=ht.Free(), inertia=ht.Inertia(1.0, moment_at_com=(1e-3, 1.2e-3, 8e-4)))
    system.ground()
    contact = {name: system.parameter(name, value) for name, value in DEFAULTS.items()}
    system.contact("body", "ground", SHAPES[kind], **contact)
    return system.derive()


DEFAULTS = {"stiffness": 1e5, "hysteresis": 1.0, "friction": 0.5, "slip_speed": 0.01}


def setting(kind: str, seed: int) -> tuple[tuple[np.ndarray, np.ndarray], dict[str, float], float, str]:
    """A random start just above the ground, parameters, a step from a twentieth of the time scales to ten times them, and an integrator."""
    rng = np.random.default_rng([list(SHAPES).index(kind), seed])
    spread = {"stiffness": (1e4, 1e7), "hysteresis": (0.05, 5.0), "friction": (0.05, 1.0), "slip_speed": (1e-3, 0.1)}
    p = {name: float(np.exp(rng.uniform(*np.log(ends)))) for name, ends in spread.items()}
    model = model_of(kind)
    q, v = model.neutral(), np.concatenate([rng.uniform(-1, 1, 3), rng.uniform(-10, 10, 3)])
    rotation = so3.exp(rng.uniform(-1, 1, 3))
    q[3:12], q[2] = rotation.T.reshape(-1), rng.uniform(0.08, 0.15)
    v[:3] = rotation.T @ np.array([v[0], v[1], -abs(v[2])])
    bounce = p["stiffness"] ** 0.4 * 3.0
    rate = max(bounce, 40.0 * p["friction"] / p["slip_speed"])
    return (q, v), p, float(np.exp(rng.uniform(*np.log([0.05, 10.0])))) / rate, rng.choice(["rkmk4", "ros2"])


def judged(kind: str, seed: int) -> str:
    """How a random run ended, and whether it is right."""
    start, p, step, method = setting(kind, seed)
    model, until = model_of(kind), 0.25
    steps = max(int(until / step), 3)
    options = {"parameters": p, "progress": False}
    run = ht.simulate(model, start, steps * step, step, method, record_every=max(steps // 50, 1), **options)
    if run.outcome.ending is not Ending.finished:
        return run.outcome.ending.name
    fine = max(int(np.ceil(20 * step / 2e-5)), 8)
    references = [
        ht.simulate(model, start, steps * step, step / n, record_every=n * steps, **options) for n in (fine, 2 * fine)
    ]
    if not all(reference.outcome.ok for reference in references):
        return "no reference"
    one, two = references
    assert two.work is not None
    energies = [float(model.energy(r.q[-1], r.v[-1], parameters=p)) for r in (run, one, two)]
    stored = np.max(np.abs(run.potential_energy - run.potential_energy[0]))
    exchanged = float(two.work[-1, 1] + np.max(run.kinetic_energy) + stored)
    if abs(energies[1] - energies[2]) > AGREE * exchanged:
        return "chaotic"
    return "finished" if abs(energies[0] - energies[2]) < WRONG * exchanged else "finished and wrong"


def tally(seeds: int) -> Counter[str]:
    return Counter(judged(kind, seed) for kind in SHAPES for seed in range(seeds))


@pytest.mark.thorough
def test_no_run_is_finished_and_wrong() -> None:
    found = tally(8)
    assert found["finished"] >= 8
    assert found["finished and wrong"] == 0, found


@pytest.mark.campaign
def test_no_run_of_five_hundred_is_finished_and_wrong() -> None:
    found = tally(125)
    assert found["finished"] >= 100
    assert found["finished and wrong"] == 0, found
