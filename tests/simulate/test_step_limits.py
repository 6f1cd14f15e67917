"""Random runs with steps below and beyond their limits: what ends as finished is right to 1 % of the energy exchanged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest

import heavytop as ht
from heavytop.simulate import Ending

ROD = ht.Inertia(1.0, com=(0.5, 0, 0), moment_at_com=(1e-3, 1 / 12, 1 / 12))
BALL = ht.Inertia(1.0, moment_at_com=(0.1, 0.2, 0.3))
FINER = 20
"""Steps of the reference for each step of a run."""


@dataclass(frozen=True)
class Kind:
    """A family of systems: ``build`` declares its parameters, ``rate`` is about their fastest mode in 1/s, ``start`` draws a state."""

    build: Callable[[], ht.System]
    ranges: dict[str, tuple[float, float]]
    rate: Callable[[dict[str, float]], float]
    start: Callable[[np.random.Generator, ht.Model], tuple[np.ndarray, np.ndarray]]


def spread(nq: int, size: float = 1.0) -> Callable[[np.random.Generator, ht.Model], tuple[np.ndarray, np.ndarray]]:
    return lambda rng, _: (size * rng.uniform(-1, 1, nq), 2 * size * rng.uniform(-1, 1, nq))


def oscillator() -> ht.System:
    s = ht.System(name="oscillator")
    s.body("a", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    s.joint_spring("a", stiffness=s.parameter("k", 100.0))
    s.joint_damper("a", damping=s.parameter("d", 1.0))
    s.input("F", ht.JointForce("a"))
    return s


def bouncing_ball() -> ht.System:
    s = ht.System(name="bouncing ball")
    s.body("a", joint=ht.Prismatic("z"), inertia=ht.Inertia(1.0))
    s.joint_stop("a", lower=0.0, stiffness=s.parameter("k", 1e5), damping=s.parameter("d", 1.0))
    return s


def rubbing_block() -> ht.System:
    s = ht.System(gravity=(3.0, 0, -9), name="rubbing block")
    s.body("a", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    s.joint_friction("a", coulomb=s.parameter("c", 5.0), smoothing=s.parameter("w", 1e-3))
    s.input("F", ht.JointForce("a"))
    return s


def pendulum_with_stop() -> ht.System:
    s = ht.System(name="pendulum with stops")
    s.body("a", joint=ht.Revolute("y"), inertia=ROD)
    s.joint_stop("a", lower=0.5, upper=2.5, stiffness=s.parameter("k", 1e4), damping=s.parameter("d", 1.0))
    s.joint_friction("a", coulomb=0.2, smoothing=0.05)
    return s


def chain_of_springs() -> ht.System:
    s = ht.System(gravity=(0, 0, 0), name="chain of springs")
    for a, b in (("world", "a"), ("a", "b"), ("b", "c")):
        s.body(b, parent=a, at=(1, 0, 0), joint=ht.Prismatic("x"), inertia=ht.Inertia(0.5))
        s.joint_spring(b, stiffness=s.parameter(f"k_{b}", 100.0))
    s.joint_damper("c", damping=s.parameter("d", 1.0))
    s.input("F", ht.JointForce("a"))
    return s


def trolley() -> ht.System:
    s = ht.System(name="trolley")
    size, rate = s.parameter("A", 0.1), s.parameter("w", 10.0)
    s.body("t", joint=ht.Prescribed(ht.Prismatic("x"), lambda t: size * np.sin(rate * t)), inertia=ht.Inertia(10.0))
    s.body("load", parent="t", joint=ht.Revolute("y", damping=0.1), inertia=ht.Inertia(2.0, com=(0, 0, -1)))
    return s


def shaken_strut() -> ht.System:
    s = ht.System(name="shaken strut")
    s.body("b", joint=ht.Planar(), inertia=BALL)
    s.frame("end", "world", ht.vector(-2 + 0.3 * np.sin(s.parameter("w", 5.0) * s.time), 0.0, 0.0))
    s.strut("end", "b", stiffness=s.parameter("k", 200.0), rest_length=2.0, damping=s.parameter("d", 2.0))
    return s


def double_pendulum() -> ht.System:
    s = ht.System(name="double pendulum")
    s.body("a", joint=ht.Revolute("y"), inertia=ROD)
    s.body("b", parent="a", at=(1, 0, 0), joint=ht.Revolute("y"), inertia=ROD)
    s.joint_spring("b", stiffness=s.parameter("k", 50.0))
    s.joint_damper("a", damping=s.parameter("d", 0.5))
    s.input("M", ht.JointForce("b"))
    return s


def body_on_struts() -> ht.System:
    s = ht.System(name="body on struts")
    s.body("b", joint=ht.Free("quaternion"), inertia=BALL)
    stiffness, damping = s.parameter("k", 200.0), s.parameter("d", 1.0)
    for j, place in enumerate(((1, 0, 1), (-1, 1, 1), (-1, -1, 1))):
        s.frame(f"hook {j}", "world", place)
        s.frame(f"eye {j}", "b", (0.2 * place[0], 0.2 * place[1], 0.1))
        s.strut(f"hook {j}", f"eye {j}", stiffness=stiffness, rest_length=1.0, damping=damping)
    return s


def slider_crank() -> ht.System:
    s = ht.System(name="slider-crank")
    s.body("crank", joint=ht.Revolute("y"), inertia=ROD)
    s.body("rod", parent="crank", at=(1, 0, 0), joint=ht.Revolute("y"), inertia=ROD)
    s.body("slider", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    s.joint_friction("slider", coulomb=s.parameter("c", 2.0), smoothing=s.parameter("w", 0.05))
    s.joint_spring("slider", stiffness=s.parameter("k", 50.0), rest=2.0)
    s.loop("slider", "rod", ht.Revolute("y"), at_b=(1.5, 0, 0), name="pin")
    s.input("M", ht.JointForce("crank"))
    return s


def closed(rng: np.random.Generator, model: ht.Model) -> tuple[np.ndarray, np.ndarray]:
    crank = rng.uniform(0.3, 1.5)
    return model.assemble([crank, -1.0, 2.0], [rng.uniform(-4, 4), 0, 0], fixed=("crank",))


def floating(rng: np.random.Generator, model: ht.Model) -> tuple[np.ndarray, np.ndarray]:
    return model.coordinates.retract(model.neutral(), 0.2 * rng.uniform(-1, 1, 6)), rng.uniform(-1, 1, 6)


KINDS = {
    kind.build.__name__: kind
    for kind in (
        Kind(oscillator, {"k": (1, 1e4), "d": (0.01, 100)}, lambda p: p["k"] ** 0.5 + p["d"], spread(1)),
        Kind(
            bouncing_ball,
            {"k": (1e3, 1e7), "d": (0.01, 100)},
            lambda p: p["k"] ** 0.5 + p["d"],
            lambda rng, _: (rng.uniform(0.1, 1, 1), rng.uniform(-1, 1, 1)),
        ),
        Kind(rubbing_block, {"c": (1, 10), "w": (1e-4, 0.1)}, lambda p: p["c"] / p["w"], spread(1)),
        Kind(
            pendulum_with_stop,
            {"k": (100, 1e6), "d": (0.01, 100)},
            lambda p: (3 * p["k"]) ** 0.5 + 3 * p["d"],
            lambda rng, _: (rng.uniform(0.6, 2.4, 1), rng.uniform(-3, 3, 1)),
        ),
        Kind(
            chain_of_springs,
            {"k_a": (1, 1e4), "k_b": (1, 1e4), "k_c": (1, 1e4), "d": (0.01, 10)},
            lambda p: (8 * max(p["k_a"], p["k_b"], p["k_c"])) ** 0.5 + 2 * p["d"],
            spread(3, 0.3),
        ),
        Kind(trolley, {"A": (1e-3, 0.3), "w": (1, 100)}, lambda p: 3 + p["w"], spread(1)),
        Kind(
            shaken_strut,
            {"w": (1, 50), "k": (10, 1e4), "d": (0.01, 50)},
            lambda p: p["k"] ** 0.5 + p["d"] + p["w"],
            spread(3, 0.3),
        ),
        Kind(
            double_pendulum,
            {"k": (1, 1e4), "d": (0.01, 10)},
            lambda p: 5 + (20 * p["k"]) ** 0.5 + 10 * p["d"],
            spread(2),
        ),
        Kind(
            body_on_struts,
            {"k": (10, 1e4), "d": (0.01, 30)},
            lambda p: (6 * p["k"]) ** 0.5 + 6 * p["d"],
            floating,
        ),
        Kind(
            slider_crank,
            {"c": (0.5, 5), "w": (1e-3, 0.1), "k": (1, 1e4)},
            lambda p: 5 + (2 * p["k"]) ** 0.5 + p["c"] / p["w"],
            closed,
        ),
    )
}


@cache
def model_of(name: str) -> ht.Model:
    return KINDS[name].build().derive()


def run_of(name: str, seed: int, batches: bool) -> tuple[str, float, float]:
    """The ending of a random run, its error of the final energy and its error of the reference, relative to the energy exchanged."""
    rng, kind, model = np.random.default_rng([list(KINDS).index(name), seed]), KINDS[name], model_of(name)
    p = {key: float(np.exp(rng.uniform(np.log(a), np.log(b)))) for key, (a, b) in kind.ranges.items()}
    step = float(np.exp(rng.uniform(np.log(0.05), np.log(6.0)))) / kind.rate(p)
    steps = int(rng.integers(50, 400))
    if step * steps > 5.0:
        steps = max(int(5.0 / step), 3)
    starts = [kind.start(rng, model) for _ in range(3)]
    q, v = (np.stack(parts) for parts in zip(*starts, strict=True))
    if not batches:
        q, v = q[0], v[0]
    inputs = None
    if model.nu:
        samples = max(steps // 10, 1)
        inputs = rng.uniform(0, 5) * np.sin(rng.uniform(0, 20) * step * 10 * np.arange(samples + 1))[:, None]
    options = {"parameters": p, "inputs": inputs, "progress": False}
    held = {} if inputs is None else {"control_step": 10 * step}
    run = ht.simulate(model, (q, v), steps * step, step, **options, **held)
    if run.outcome.ending is not Ending.finished:
        finished = np.array([o.ending is Ending.finished for o in run.outcomes.ravel()])
        if not finished.any():
            return run.outcome.ending.name, 0.0, 0.0
    references = [
        ht.simulate(model, (q, v), steps * step, step / n, **options, **held, balance=True, record_every=n)
        for n in (FINER, 2 * FINER)
    ]
    fine, finer = references
    if not (fine.outcome.ok and finer.outcome.ok):
        return "no reference", 0.0, 0.0
    stored = np.abs(finer.potential_energy - finer.potential_energy[0])
    worked = 0.0 if finer.work is None else np.max(np.sum(np.abs(finer.work), axis=-1), axis=0)
    exchanged = np.max(finer.kinetic_energy, axis=0) + np.max(stored, axis=0) + worked
    error = (
        np.abs(run.energy[-1] - finer.energy[-1]) / exchanged if len(run) == len(finer) else np.full(q.shape[:-1], 0)
    )
    unsure = np.abs(fine.energy[-1] - finer.energy[-1]) / exchanged
    ok = np.array([o.ending is Ending.finished for o in run.outcomes.ravel()])
    ending = "finished" if ok.all() else "partly finished"
    return ending, float(np.max(np.where(ok, error.ravel(), 0))), float(np.max(np.where(ok, unsure.ravel(), 0)))


def check(name: str, seeds: range) -> None:
    results = [run_of(name, seed, batches=seed % 2 == 1) for seed in seeds]
    wrong = [
        (seed, error)
        for seed, (ending, error, unsure) in zip(seeds, results, strict=True)
        if "finished" in ending and error > 0.01 + 10 * unsure
    ]
    assert not wrong, wrong
    assert any(ending == "finished" for ending, _, _ in results)
    assert any(ending != "finished" for ending, _, _ in results)


@pytest.mark.parametrize("name", ["oscillator", "bouncing_ball", "chain_of_springs"])
@pytest.mark.thorough
def test_ten_random_runs_that_finish_are_right(name: str) -> None:
    check(name, range(10))


@pytest.mark.thorough
@pytest.mark.parametrize("name", list(KINDS))
def test_fifty_random_runs_that_finish_are_right(name: str) -> None:
    check(name, range(50))
