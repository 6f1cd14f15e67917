"""Mechanisms that pass through singular configurations: aligned bars, where a row of Phi vanishes and branches cross."""

from __future__ import annotations

import numpy as np
import pytest

import heavytop as ht

ROD = ht.Inertia(1.0, com=(0.5, 0, 0), moment_at_com=(1e-3, 1 / 12, 1 / 12))
HINGE = ht.Revolute("y")


def starts(count: int, least: float, most: float, seed: int | None) -> tuple[np.ndarray, np.ndarray]:
    """Angles and speeds of the crank: evenly spaced, or random."""
    if seed is None:
        return np.linspace(least, most, count), np.linspace(1.0, 6.0, count)
    generator = np.random.default_rng(seed)
    return generator.uniform(least, most, count), generator.uniform(1.0, 6.0, count) * generator.choice([-1, 1], count)


def four_bar(
    count: int, last: float = 1.0, ground: float = 1.0, seed: int | None = None
) -> tuple[ht.Model, np.ndarray, np.ndarray]:
    """Four bars of equal length, or a longer ground; it flattens twice in every turn. ``last`` is the mass of the last bar."""
    system = ht.System(name="equal four-bar")
    masses = {"a": ROD, "b": ROD, "c": ht.Inertia(last, com=(0.5, 0, 0), moment_at_com=(1e-3, last / 12, last / 12))}
    for name, parent in (("a", "world"), ("b", "a"), ("c", "b")):
        system.body(name, parent=parent, at=(1, 0, 0) if parent != "world" else None, joint=HINGE, inertia=masses[name])
    system.loop("world", "c", HINGE, at_a=(ground, 0, 0), at_b=(1, 0, 0), name="pin")
    model = system.derive()
    angle, speed = starts(count, 0.3, 2.7, seed)
    q = np.stack([-angle, angle, -np.pi - angle], axis=-1)
    v = np.stack([-speed, speed, -speed], axis=-1)
    if ground != 1.0:
        closed = [model.assemble(a, b, fixed=("a",)) for a, b in zip(q, v, strict=True)]
        q, v = np.array([x for x, _ in closed]), np.array([x for _, x in closed])
    return model, q, v


def slider_crank(count: int, rod: float = 1.0, seed: int | None = None) -> tuple[ht.Model, np.ndarray, np.ndarray]:
    """Crank and rod of equal length: when the slider is at the hinge of the crank, they may turn together."""
    system = ht.System(name="equal slider-crank")
    system.body("crank", joint=HINGE, inertia=ROD)
    system.body("rod", parent="crank", at=(1, 0, 0), joint=HINGE, inertia=ROD)
    system.body("slider", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.loop("slider", "rod", HINGE, at_b=(rod, 0, 0), name="pin")
    model = system.derive()
    angle, speed = starts(count, 0.2, 1.2, seed)
    other = np.arcsin(np.sin(angle) / rod)
    place = np.cos(angle) + rod * np.cos(other)
    closed = [
        model.assemble([a, -a - b, x], [w, -2 * w, -2 * np.sin(a) * w], fixed=("crank",))
        for a, b, x, w in zip(angle, other, place, speed, strict=True)
    ]
    return model, np.array([q for q, _ in closed]), np.array([v for _, v in closed])


def energy_error(run: ht.Run, model: ht.Model) -> np.ndarray:
    """Largest change of the energy of each trajectory beside its largest kinetic energy."""
    return np.nanmax(np.abs(run.energy - run.energy[0]), axis=0) / np.nanmax(run.kinetic_energy, axis=0)


@pytest.mark.parametrize("mechanism", [four_bar, slider_crank])
@pytest.mark.parametrize("integrator", ["rkmk4", "rkmk8"])
@pytest.mark.thorough
def test_exact_passes_are_clean(mechanism, integrator: str) -> None:
    model, q, v = mechanism(24)
    run = ht.simulate(model, (q, v), until=5.0, step=1e-3, integrator=integrator, record_every=20, progress=False)
    assert run.outcome.ok
    assert np.max(energy_error(run, model)) < 1e-5
    assert np.max(np.abs(model.constraint_residuals(run.q, run.v)[0])) < 1e-9


@pytest.mark.thorough
def test_the_four_bar_that_lost_its_energy() -> None:
    """From one start it gained a hundredfold speed at the first flat configuration, and the run was called finished."""
    rod = ht.Inertia(mass=1.0, com=(0.5, 0, 0), moment_at_com=(0, 1 / 12, 1 / 12))
    system = ht.System(gravity=(0, -9.81, 0), name="four-bar")
    system.body("crank", joint=ht.Revolute("z"), inertia=rod)
    system.body("coupler", parent="crank", at=(1, 0, 0), joint=ht.Revolute("z"), inertia=rod)
    system.body("rocker", at=(1, 0, 0), joint=ht.Revolute("z"), inertia=rod)
    system.loop("coupler", "rocker", ht.Revolute("z"), at_a=(1, 0, 0), at_b=(1, 0, 0), name="pin")
    model = system.derive()
    start = (np.array([np.pi / 2, -np.pi / 2, np.pi / 2]), 1.2 * np.array([-1.0, 1.0, -1.0]))
    run = ht.simulate(model, start, until=10.0, step=1e-3, integrator="rkmk8", record_every=10)
    assert run.outcome.ok
    assert energy_error(run, model) < 1e-6


def test_a_row_that_vanishes_is_seen_to_vanish() -> None:
    """Where the bars are aligned the mechanism has one more degree of freedom, whatever the size of what is left of the row."""
    model, _, _ = four_bar(1)
    assert model.degrees_of_freedom([-1.0, 1.0, -np.pi - 1.0]) == 1
    for angle in (0.0, 1e-7):  # aligned, and aligned within the tolerance
        assert model.degrees_of_freedom([-angle, angle, -np.pi - angle]) == 2


@pytest.mark.slow
@pytest.mark.parametrize("integrator", ["rkmk4", "rkmk8", "rkmk45"])
@pytest.mark.parametrize("step", [2e-3, 1e-3, 2.5e-4])
@pytest.mark.parametrize("mechanism", ["four-bar", "slider-crank"])
@pytest.mark.parametrize("longer", [0.0, 1e-3, 1e-4, 1e-5, 1e-6])
def test_share_of_clean_passes(mechanism: str, integrator: str, step: float, longer: float) -> None:
    """From random starts: exact passes are clean, all of them; near misses, where one link is a little longer, are clean or told."""
    length = 1.0 + longer
    if mechanism == "four-bar":
        model, q, v = four_bar(256, ground=length, seed=1)
    else:
        model, q, v = slider_crank(256, rod=length, seed=2)
    every = max(1, round(0.02 / step))
    run = ht.simulate(model, (q, v), until=10.0, step=step, integrator=integrator, record_every=every, progress=False)
    clean = energy_error(run, model) < 1e-3
    told = np.array([not outcome.ok for outcome in run.outcomes])
    print(
        f"{model.name} + {longer:g}, {integrator}, {step * 1e3:g} ms: of {len(q)} starts {100 * np.mean(clean & ~told):.1f} % clean, "
        f"{100 * np.mean(told):.1f} % told, {np.sum(~clean & ~told)} silently wrong"
    )
    assert np.all(clean | told)
    assert longer or not np.any(told)
