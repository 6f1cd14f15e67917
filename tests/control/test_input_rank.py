"""Inputs that lose their effect at some configurations: found by a search, named, and with bounded inputs."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy.optimize import minimize

import heavytop as ht
from heavytop import System
from heavytop.control import DesiredDamping, DesiredInertia, Law, Prototype, energy_law
from heavytop.control.limits.allocation import DAMPING, LOST, STEPS, InputRank
from heavytop.errors import HeavytopError
from heavytop.system import Inertia, JointForce, Revolute, Spherical, Stiffness, Wrench

ROD = Inertia(1.0, com=(0.5, 0.0, 0.0), moment_at_com=(0.01, 1 / 12, 1 / 12))
BALL = Inertia(2.0, moment_at_com=(0.3, 0.4, 0.5))
WORST = 1.2 / np.sqrt(DAMPING)
"""Largest value of (1 - (eps / (l + eps))^4) / sqrt(l): input of a direction per error, in units of its usual effect."""


def boom() -> System:
    """A boom pulled by a force of fixed direction: no lever along it."""
    system = System(name="boom")
    system.body("boom", joint=Revolute("z"), inertia=ROD)
    system.frame("tip", "boom", at=(1.0, 0.0, 0.0))
    system.input("pull", Wrench("tip", force=(0.0, 1.0, 0.0), frame="world"))
    return system


def arm() -> System:
    """Two links moved by forces on the tip: stretched, they cannot make it longer."""
    system = System(name="arm")
    system.body("upper", joint=Revolute("z"), inertia=ROD)
    system.body("lower", parent="upper", at=(1.0, 0.0, 0.0), joint=Revolute("z"), inertia=ROD)
    system.frame("tip", "lower", at=(1.0, 0.0, 0.0))
    for name, force in (("east", (1.0, 0.0, 0.0)), ("north", (0.0, 1.0, 0.0))):
        system.input(name, Wrench("tip", force=force, frame="world"))
    return system


def magnets() -> System:
    """A satellite with coils along body axes on a turning boom: moments about three axes that can become two."""
    system = System(gravity=(0.0, 0.0, 0.0), name="satellite")
    system.body("hull", joint=Spherical(), inertia=BALL)
    system.body("boom", parent="hull", joint=Revolute("y"), inertia=Inertia(0.5, moment_at_com=(0.1, 0.2, 0.1)))
    system.input("hull_x", Wrench("hull", moment=(1.0, 0.0, 0.0)))
    system.input("hull_y", Wrench("hull", moment=(0.0, 1.0, 0.0)))
    system.input("boom_x", Wrench("boom", moment=(1.0, 0.0, 0.0)))
    return system


def crank() -> System:
    """A four-bar with unequal links driven at its rocker: no torque at the dead points of the crank."""
    system = System(gravity=(0.0, -9.81, 0.0), name="crank and rocker")
    system.body("crank", joint=Revolute("z"), inertia=ROD)
    system.body("coupler", parent="crank", at=(0.5, 0.0, 0.0), joint=Revolute("z"), inertia=ROD)
    system.body("rocker", at=(1.5, 0.0, 0.0), joint=Revolute("z"), inertia=ROD)
    system.loop("coupler", "rocker", Revolute("z"), at_a=(1.4, 0.0, 0.0), at_b=(1.0, 0.0, 0.0))
    system.input("motor", JointForce("rocker"))
    return system


def car() -> System:
    """A car driven at its rear axle: with the front wheel across it only turns about that axle."""
    system = ht.library.car(minimal=False)
    system.input("drive", Wrench("chassis", force=(1.0, 0.0, 0.0)))
    return system


def made(build: Callable[[], System]) -> Law:
    model = build().derive(native=False)
    parts = []
    for kind, factor in ((DesiredInertia, 1.0), (DesiredDamping, 4.0), (Stiffness, 4.0)):
        parts.append(
            {name: kind(factor, (0.3, 0.1, 0.0), factor * np.array([0.2, 0.3, 0.4])) for name in model.body_names}
        )
    return energy_law(model, Prototype(*parts))


def share(law: Law, guess: np.ndarray) -> float:
    """Smallest share of the usual effect at the admissible configuration nearest to a guess, else 1."""
    try:
        q = closed(law, guess)
    except HeavytopError:
        return 1.0
    assert law.rank is not None
    return float(law.rank.shares(law._effect(q, law.model.parameter_vector())[0])[0][0])


def closed(law: Law, x: np.ndarray) -> np.ndarray:
    coordinates = law.model.coordinates
    q = coordinates.retract(coordinates.neutral(), x)
    return law.model.assemble(q)[0] if law.model.description.loops else q


@pytest.mark.parametrize("build", [boom, arm, magnets, crank, car])
@pytest.mark.thorough
def test_losses_of_rank_are_named_and_bounded(build: Callable[[], System]) -> None:
    law = made(build)
    model, rng, found = law.model, np.random.default_rng(1), 0
    for _ in range(3):
        start = rng.uniform(-1.2, 1.2, model.coordinates.nv)
        options = {"maxfev": 120, "fatol": 1e-18, "xatol": 1e-10}
        best = minimize(lambda x: share(law, x), start, method="Nelder-Mead", options=options).x
        if not share(law, best) < LOST:
            continue
        found += 1
        # on the spot, and all around it
        for size in (0.0, 1e-12, 1e-8, 1e-5, 1e-3, 1e-2):
            q = closed(law, best + size * rng.standard_normal(best.shape))
            v = (
                model.assemble(q, rng.standard_normal(model.nv), fixed=())[1]
                if model.is_constrained
                else rng.standard_normal(model.nv)
            )
            q_R, zero = closed(law, start), np.zeros(model.nv)
            u = law.traced_law(q, v, q_R, zero, zero, model.parameter_vector())[0]
            diagnostics = dict(
                zip(
                    law.traced_diagnostics.outputs,
                    law.traced_diagnostics(q, v, q_R, zero, zero, model.parameter_vector()),
                    strict=True,
                )
            )
            assert np.all(np.isfinite(u))
            rate = model.evaluate("acceleration", q, v, np.zeros(model.nu))
            J = {b: model.jacobian("world", b, q) for b in law.prototype.inertia}
            M_bar = sum(J[b].T @ m.matrix @ J[b] for b, m in law.prototype.inertia.items())
            error = np.sqrt((diagnostics["a_d"] - rate) @ M_bar @ (diagnostics["a_d"] - rate))
            assert law.rank is not None
            assert np.sqrt(u @ law.rank.usual @ u) <= WORST * np.sqrt(model.nu) * error * (1 + 1e-6)
        names = law.lost_directions(closed(law, best))
        assert names
        assert any(repr(name) in names[0] for name in model.u_names)
    assert found, "the search must find a place where an input is lost"


def test_diagnostics_of_rank_and_lost_direction() -> None:
    law = made(boom)
    here = law.diagnostics(np.array([[0.3], [np.pi / 2]]), np.zeros(1), np.zeros(1))
    np.testing.assert_array_equal(here["rank"], [1, 0])
    np.testing.assert_array_equal(np.abs(here["lost"]), [[0.0], [1.0]])
    assert here["shares"][0, 0] > 0.1 > LOST > here["shares"][1, 0]


def test_the_pseudo_inverse_is_exact_where_regular_and_smooth_where_not() -> None:
    """One direction with share l: the input is g / l up to the filter, which is smooth and bounded in l."""
    rank = InputRank(np.eye(1), np.zeros((1, 0)), np.ones(1), False, False)
    shares = np.logspace(-12, 0, 200)
    u = np.array([rank.damped(np.array([[x]]), np.array([np.sqrt(x)]))[0] for x in shares])
    np.testing.assert_allclose(u, (1 - (DAMPING / (shares + DAMPING)) ** STEPS) / np.sqrt(shares), rtol=1e-9)
    assert u.max() < WORST
    np.testing.assert_allclose(u[shares > 0.05], 1 / np.sqrt(shares[shares > 0.05]), rtol=1e-13)
