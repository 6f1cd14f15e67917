"""Random bodies dropped on the floor: none sinks in, gains energy, or is called finished with a step that was not solved."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import heavytop as ht
from heavytop.geometry import so3

STEP, UNTIL = 1e-3, 5.0


def floor(system: ht.System, rng: np.random.Generator, most: float = 0.9) -> float:
    """A floor of random friction; a random restitution."""
    system.ground(friction=float(rng.uniform(0.2, most)))
    return float(rng.uniform(0.0, 0.6))


def box(rng: np.random.Generator) -> ht.System:
    system, shape = ht.System(name="box"), ht.Box(tuple(rng.uniform(0.1, 0.3, 3)))
    system.body("box", joint=ht.Free(), inertia=ht.Inertia.of(shape, density=500.0))
    system.contact("box", "ground", shape, restitution=floor(system, rng))
    return system


def hull(rng: np.random.Generator) -> ht.System:
    system = ht.System(name="hull")
    points = rng.standard_normal((14, 3)) * 0.1
    spread = points - points.mean(axis=0)
    moment = np.mean(np.sum(spread**2, axis=1)) * np.eye(3) - spread.T @ spread / len(spread)
    system.body("hull", joint=ht.Free(), inertia=ht.Inertia(1.0, com=points.mean(axis=0), moment_at_com=moment))
    system.contact("hull", "ground", ht.Points(points), restitution=floor(system, rng))
    return system


def chain(rng: np.random.Generator) -> ht.System:
    system, length = ht.System(name="chain"), 0.2
    restitution = floor(system, rng)
    for k in range(4):
        middle = 0.0 if k == 0 else 0.5 * length
        joint = {"joint": ht.Free()} if k == 0 else {"joint": ht.Revolute("yz"[k % 2]), "parent": f"link{k - 1}"}
        at = None if k == 0 else ((0.5 if k == 1 else 1.0) * length, 0.0, 0.0)
        inertia = ht.Inertia(0.16, com=(middle, 0.0, 0.0), moment_at_com=(4e-5, 5.5e-4, 5.5e-4))
        system.body(f"link{k}", inertia=inertia, **joint, **({} if at is None else {"at": at}))  # type: ignore[arg-type]
        ends = [(middle + 0.5 * sign * length, 0.0, 0.0) for sign in (-1, 1)]
        system.contact(f"link{k}", "ground", ht.Points(ends, radius=0.02), restitution=restitution)
    return system


def quadruped(rng: np.random.Generator) -> ht.System:
    """A trunk on four legs with springs and dampers in hips and knees; with more friction, legs that slide meet Painleve's paradox."""
    system, shape = ht.System(name="quadruped"), ht.Box((0.4, 0.2, 0.1))
    restitution = floor(system, rng, most=0.5)
    system.body("trunk", joint=ht.Free(), inertia=ht.Inertia.of(shape, density=500.0))
    system.contact("trunk", "ground", shape, restitution=restitution)
    for i, j in ((1, 1), (1, -1), (-1, 1), (-1, -1)):
        upper, lower = f"upper {i} {j}", f"lower {i} {j}"
        link = ht.Inertia(0.3, com=(0.0, 0.0, -0.08), moment_at_com=(7e-4, 7e-4, 1e-4))
        system.body(upper, parent="trunk", joint=ht.Revolute("y"), at=(0.2 * i, 0.12 * j, 0.0), inertia=link)
        system.body(lower, parent=upper, joint=ht.Revolute("y"), at=(0.0, 0.0, -0.16), inertia=link)
        for joint in (upper, lower):
            system.joint_spring(joint, stiffness=5.0)
            system.joint_damper(joint, damping=0.05)
        system.contact(lower, "ground", ht.Points([(0.0, 0.0, -0.16)], radius=0.02), restitution=restitution)
        system.contact(lower, "ground", ht.Sphere(0.02), name=f"knee {i} {j}", restitution=restitution)
    return system


def dropped(make: Callable[[np.random.Generator], ht.System], count: int, seed: int) -> tuple[ht.Run, int]:
    """A run of ``count`` random starts; how many of them did not finish."""
    rng = np.random.default_rng(seed)
    model = make(rng).derive()
    q, v = np.tile(model.neutral(), (count, 1)), rng.standard_normal((count, model.nv))
    R = np.asarray(so3.exp(1.5 * rng.standard_normal((count, 3))))
    q[:, 2], q[:, 3:12] = 1.0, np.swapaxes(R, 1, 2).reshape(count, 9)
    q[:, 12:] += rng.uniform(-0.5, 0.5, (count, model.nq - 12))
    v[:, 3:6] *= 5.0
    run = ht.simulate(model, (q, v), UNTIL, STEP, "moreau", record_every=10, balance=True)
    return run, sum(not outcome.ok for outcome in run.outcomes)


def check(run: ht.Run, size: float) -> None:
    """No contact is deeper than 1e-6 of the size, no energy is gained, and the balance closes, in all that finished."""
    ok = np.array([outcome.ok for outcome in run.outcomes])
    assert min(contact.gaps[:, ok].min() for contact in run.contacts.values()) > -1e-6 * size  # type: ignore[union-attr]
    assert run.channels["residual"][-1, ok].max() < 1e-9
    assert run.work is not None
    energy = run.energy[:, ok]
    gross, lost = energy[0].max(), run.work[:, ok, 1]
    assert np.diff(energy, axis=0).max() < 1e-6 * gross
    assert np.abs(energy + lost - energy[0]).max() < 2e-6 * gross
    assert run.contact_work is not None
    assert np.diff(run.contact_work[:, ok].sum(axis=-1), axis=0).max() < 1e-6 * gross


CASES = [(box, 0.3, 300), (hull, 0.4, 300), (chain, 0.8, 300), (quadruped, 0.6, 100)]


@pytest.mark.slow
@pytest.mark.parametrize(("make", "size", "count"), CASES, ids=[make.__name__ for make, *_ in CASES])
def test_a_thousand_drops(make: Callable[[np.random.Generator], ht.System], size: float, count: int) -> None:
    failed = 0
    for seed in range(5):
        run, lost = dropped(make, count // 5, seed)
        check(run, size)
        failed += lost
    assert failed <= 0.01 * count


@pytest.mark.thorough
@pytest.mark.parametrize("make", [hull, chain], ids=["hull", "chain"])
def test_a_few_drops(make: Callable[[np.random.Generator], ht.System]) -> None:
    run, failed = dropped(make, 12, 7)
    check(run, 0.4)
    assert failed == 0
