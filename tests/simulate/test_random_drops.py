"""Random bodies dropped on the floor: none sinks in, gains energy, or is called finished with a step that was not solved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from heavytop_bench.contact import FEET, LEGS, POSE, RADIUS
from heavytop_bench.robots import ROBOTS, robots_folder
from scipy.spatial import ConvexHull

import heavytop as ht
from heavytop.geometry import so3

STEP, UNTIL = 1e-3, 5.0


def floor(system: ht.System) -> Any:
    """A floor with friction and restitution as parameters; the latter."""
    system.ground(friction=system.parameter("mu", 0.5))
    return system.parameter("e", 0.0)


def box(rng: np.random.Generator) -> ht.System:
    system, shape = ht.System(name="box"), ht.Box(tuple(rng.uniform(0.1, 0.3, 3)))
    system.body("box", joint=ht.Free(), inertia=ht.Inertia.of(shape, density=500.0))
    system.contact("box", "ground", shape, restitution=floor(system))
    return system


def hull(rng: np.random.Generator) -> ht.System:
    system = ht.System(name="hull")
    points = rng.standard_normal((int(rng.integers(8, 65)), 3)) * 0.1
    points = points[ConvexHull(points).vertices]
    spread = points - points.mean(axis=0)
    moment = np.mean(np.sum(spread**2, axis=1)) * np.eye(3) - spread.T @ spread / len(spread)
    system.body("hull", joint=ht.Free(), inertia=ht.Inertia(1.0, com=points.mean(axis=0), moment_at_com=moment))
    system.contact("hull", "ground", ht.Points(points), restitution=floor(system))
    return system


def chain(rng: np.random.Generator) -> ht.System:
    system, length = ht.System(name="chain"), 0.2
    restitution = floor(system)
    for k in range(int(rng.integers(2, 7))):
        middle = 0.0 if k == 0 else 0.5 * length
        joint = {"joint": ht.Free()} if k == 0 else {"joint": ht.Revolute("yz"[k % 2]), "parent": f"link{k - 1}"}
        at = None if k == 0 else ((0.5 if k == 1 else 1.0) * length, 0.0, 0.0)
        inertia = ht.Inertia(0.16, com=(middle, 0.0, 0.0), moment_at_com=(4e-5, 5.5e-4, 5.5e-4))
        system.body(f"link{k}", inertia=inertia, **joint, **({} if at is None else {"at": at}))  # type: ignore[arg-type]
        ends = [(middle + 0.5 * sign * length, 0.0, 0.0) for sign in (-1, 1)]
        system.contact(f"link{k}", "ground", ht.Points(ends, radius=0.02), restitution=restitution)
    return system


def solo12(servos: bool) -> ht.System:
    """The robot on feet and trunk, limp or with servos."""
    folder = robots_folder()
    if folder is None:
        pytest.skip("example-robot-data is not installed")
    system = ht.load(str(folder / ROBOTS["solo12"]), base="free")
    restitution = floor(system)
    for foot in FEET:
        system.contact(foot, "ground", ht.Sphere(RADIUS), restitution=restitution)
    system.contact("base_link", "ground", ht.Box((0.4, 0.15, 0.1)), restitution=restitution, name="trunk")
    for joint in LEGS if servos else ():
        system.input(joint, ht.JointForce(joint))
    return system


def limp(rng: np.random.Generator) -> ht.System:
    return solo12(servos=False)


def quadruped(rng: np.random.Generator) -> ht.System:
    return solo12(servos=True)


def dropped(
    make: Callable[[np.random.Generator], ht.System], count: int, seed: int, until: float = UNTIL
) -> tuple[ht.Run, int]:
    """A run of ``count`` random starts, frictions and restitutions; how many of them did not finish."""
    rng = np.random.default_rng(seed)
    model = make(rng).derive()
    q, v = np.tile(model.neutral(), (count, 1)), rng.standard_normal((count, model.nv))
    R = np.asarray(so3.exp(1.5 * rng.standard_normal((count, 3))))
    q[:, 2], q[:, 3:12] = 1.5, np.swapaxes(R, 1, 2).reshape(count, 9)
    q[:, 12:] += rng.uniform(-0.5, 0.5, (count, model.nq - 12))
    v[:, 3:6] *= 5.0
    drawn = {"mu": rng.uniform(0.0, 1.2, count), "e": rng.uniform(0.0, 0.9, count)}
    servos = None
    if make in (limp, quadruped):
        q[:, 12:] += POSE
    if make is quadruped:
        servos = ht.Feedback(lambda q, v: -6.0 * (q[12:] - POSE) - 0.1 * v[6:], ("q", "v"))
    run = ht.simulate(
        model, (q, v), until, STEP, "moreau", record_every=10, balance=True, parameters=drawn, control=servos
    )
    return run, sum(not outcome.ok for outcome in run.outcomes)


def check(run: ht.Run, size: float, step: float, contact: float, balance: float) -> None:
    """No contact is deeper than 1e-6 of the size, and none supplies energy, in all that finished; all others are reported as not solved.

    ``step``, ``contact`` and ``balance`` are errors relative to the energy exchanged: of the energy and of the work of contacts within ten steps, of
    third order where limbs whirl, and of the balance, that of rkmk4 between impacts. For limp legs at 270 rad/s the last is 3e-4, and 8e-6 and
    1.5e-7 at half and a quarter of the step; for the chain that gains most energy 7.4e-6, 4.7e-7 and 3.0e-8, while its contacts have supplied none.
    Chains of four links with friction and restitution below 0.9 and 0.6 stay below 1e-6.
    """
    ok = np.array([outcome.ok for outcome in run.outcomes])
    assert {outcome.ending.value for outcome in run.outcomes} <= {"finished", "unsolved", "ill_posed"}
    assert min(pair.gaps[:, ok].min() for pair in run.contacts.values()) > -1e-6 * size  # type: ignore[union-attr]
    assert run.channels["residual"][-1, ok].max() < 1e-9
    assert run.work is not None
    supplied, lost = run.work[:, ok, 0], run.work[:, ok, 1]
    energy = run.energy[:, ok] - supplied
    gross = run.kinetic_energy[:, ok].max(axis=0) + np.ptp(run.potential_energy[:, ok], axis=0)
    assert np.max(np.diff(energy, axis=0) / gross) < step
    assert np.max((energy - energy[0]) / gross) < balance
    assert run.contact_work is not None
    assert np.max(np.diff(run.contact_work[:, ok].sum(axis=-1), axis=0) / gross) < contact
    assert np.max(np.abs(energy + lost - energy[0]) / gross) < balance


Maker = Callable[[np.random.Generator], ht.System]
CASES: dict[Maker, tuple[int, int, float, float, float, float]] = {
    box: (250, 0, 0.3, 1e-7, 1e-7, 1e-8),
    hull: (250, 0, 0.4, 1e-7, 1e-7, 1e-8),
    chain: (250, 0, 0.8, 1e-5, 1e-6, 1e-4),
    limp: (125, 8, 0.5, 1e-3, 1e-3, 1e-3),
    quadruped: (125, 2, 0.5, 1e-3, 1e-3, 1e-5),
}
"""Numbers of drops, those of them that may be reported as not solved (1 % of all), sizes, and errors."""


@pytest.mark.slow
@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_a_thousand_drops(make: Maker) -> None:
    count, most, *bounds = CASES[make]
    failed = 0
    for seed in range(5):
        run, lost = dropped(make, count // 5, seed)
        check(run, *bounds)
        failed += lost
    assert failed <= most


@pytest.mark.thorough
@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_a_few_drops(make: Maker) -> None:
    run, failed = dropped(make, 12, 7, until=1.5)
    check(run, *CASES[make][2:])
    assert failed == 0
