"""Results do not depend on units: the same mechanism in other units of length, mass and time moves in the same way and raises the same errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from rescaled import Units, rescaled, state_in, state_out

import heavytop as ht
from heavytop import control
from heavytop.control import Reference
from heavytop.errors import ConfigurationError, ControlError, ModelError, PlanError
from heavytop.simulate import Ending

UNITS = [(1e-6, 1e-9, 1e-3), (1e6, 1e9, 1e3)]
"""How many units of length, mass and time the new ones are: numbers of lengths are multiplied by the first, and so on."""


def rod(L: float, M: float, length: float = 1.0) -> ht.Inertia:
    moment = M * L * L * length**2 / 12
    return ht.Inertia(M, com=(0.5 * length * L, 0, 0), moment_at_com=(1e-3 * moment, moment, moment))


def four_bar(L: float = 1.0, M: float = 1.0, T: float = 1.0, away: float = 0.0) -> ht.Model:
    system = ht.System(gravity=(0, -9.81 * L / T**2, 0), name="four-bar")
    system.body("crank", at=(away * L, 0, 0), joint=ht.Revolute("z"), inertia=rod(L, M))
    system.body("coupler", parent="crank", at=(L, 0, 0), joint=ht.Revolute("z"), inertia=rod(L, M))
    system.body("rocker", at=((away + 1.3) * L, 0, 0), joint=ht.Revolute("z"), inertia=rod(L, M))
    system.loop("coupler", "rocker", ht.Revolute("z"), at_a=(L, 0, 0), at_b=(L, 0, 0), name="pin")
    system.input("motor", ht.JointForce("crank"))
    return system.derive()


def slider_crank(L: float = 1.0, M: float = 1.0, T: float = 1.0, last: float = 1.5) -> ht.Model:
    system = ht.System(gravity=(0, 0, -9.81 * L / T**2), name="slider-crank")
    system.body("crank", joint=ht.Revolute("y"), inertia=rod(L, M))
    system.body("rod", parent="crank", at=(L, 0, 0), joint=ht.Revolute("y"), inertia=rod(L, M, last))
    system.body("slider", joint=ht.Prismatic("x"), inertia=ht.Inertia(M))
    system.loop("slider", "rod", ht.Revolute("y"), at_b=(last * L, 0, 0), name="pin")
    system.input("motor", ht.JointForce("crank"))
    return system.derive()


def bead(L: float = 1.0, M: float = 1.0, T: float = 1.0) -> ht.Model:
    """A point on a circle, by an equation in other units (a square of lengths)."""
    system = ht.System((0, -9.81 * L / T**2, 0), name="bead")
    system.body("bead", joint=ht.Planar(), inertia=ht.Inertia(M, moment_at_com=np.array([1, 1, 1]) * 0.01 * M * L**2))
    system.constrain(lambda q: q[0] ** 2 + q[1] ** 2 - L**2, name="circle")
    system.input("motor", ht.JointForce("bead", index=2))
    return system.derive()


def skate(L: float = 1.0, M: float = 1.0, T: float = 1.0) -> ht.Model:
    system = ht.System((3.0 * L / T**2, 0, 0), name="skate")
    inertia = ht.Inertia(M, com=(0.3 * L, 0, 0), moment_at_com=np.array([1, 1, 1]) * 0.1 * M * L**2)
    system.body("skate", joint=ht.Planar(), inertia=inertia)
    system.constrain(lambda q, v: -np.sin(q[2]) * v[0] + np.cos(q[2]) * v[1], name="edge")
    return system.derive()


MECHANISMS = {
    "four-bar": (four_bar, [1.2, -1.0, 1.0], [2.0, 0.0, 0.0]),
    "slider-crank": (slider_crank, [0.5, -0.8, 2.2], [3.0, 0.0, 0.0]),
    "bead": (bead, [0.9, 0.3, 0.1], [0.2, -0.5, 1.0]),
    "skate": (skate, [0.1, 0.2, 0.3], [0.9, 0.4, 2.0]),
}


def in_units(model: ht.Model, q: Any, v: Any, L: float, T: float) -> tuple[np.ndarray, np.ndarray]:
    """A state in units in which lengths are L times and times T times as many."""
    of_q = np.array([L if unit == "m" else 1.0 for unit in model.q_units])
    of_v = np.array([L / T if unit == "m/s" else 1.0 / T for unit in model.v_units])
    return np.asarray(q) * of_q, np.asarray(v) * of_v


@pytest.mark.parametrize("units", [UNITS[0], *(pytest.param(u, marks=pytest.mark.thorough) for u in UNITS[1:])])
@pytest.mark.parametrize("name", MECHANISMS)
@pytest.mark.thorough
def test_the_same_mechanism_moves_alike_in_all_units(name: str, units: tuple[float, float, float]) -> None:
    make, q, v = MECHANISMS[name]
    L, M, T = units
    runs, spaces = [], []
    for model, length, time in ((make(), 1.0, 1.0), (make(L, M, T), L, T)):
        start = model.assemble(*in_units(model, q, v, length, time))
        run = ht.simulate(model, start, until=0.5 * time, step=1e-3 * time, record_every=100)
        assert run.outcome.ending is Ending.finished, run.outcome
        runs.append(in_units(model, run.q, run.v, 1 / length, 1 / time))
        A, _ = model.linearize(*start)
        spaces.append(
            (model.degrees_of_freedom(start[0]), model.minimal_tangent(*start).names, np.linalg.eigvals(A) * time)
        )
    for here, there in zip(*runs, strict=True):
        np.testing.assert_allclose(there, here, rtol=1e-10, atol=1e-10)
    assert spaces[0][:2] == spaces[1][:2]
    np.testing.assert_allclose(*(np.sort_complex(np.round(x, 7)) for _, _, x in spaces), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("units", [(1.0, 1.0, 1.0), UNITS[1], pytest.param(UNITS[0], marks=pytest.mark.thorough)])
@pytest.mark.parametrize("name", ["four-bar", "slider-crank", "bead"])
@pytest.mark.thorough
def test_a_gap_of_a_thousandth_is_rejected_in_all_units(name: str, units: tuple[float, float, float]) -> None:
    make, q, v = MECHANISMS[name]
    L, _, T = units
    model = make(*units)
    q, v = model.assemble(*in_units(model, q, v, L, T))
    moved = q + in_units(model, [1e-3] + [0.0] * (model.nq - 1), v, L, T)[0]
    with pytest.raises(ConfigurationError, match="start configuration q"):
        ht.simulate(model, (moved, v), until=0.1 * T, step=1e-3 * T)
    with pytest.raises(ConfigurationError, match=r"model\.assemble"):
        model.acceleration(moved, v)
    with pytest.raises(ConfigurationError, match="start velocity v"):
        ht.simulate(model, (q, v * [1.001, *[1.0] * (model.nv - 1)]), until=0.1 * T, step=1e-3 * T)
    with pytest.raises(PlanError, match="loops"):
        ht.plan(model, (moved, 0 * v), (q, 0 * v), duration=T, steps=5)
    nearly = q + in_units(model, [1e-8] + [0.0] * (model.nq - 1), v, L, T)[0]
    assert ht.simulate(model, (nearly, v), until=0.1 * T, step=1e-3 * T).outcome.ok


@pytest.mark.thorough
@pytest.mark.parametrize("away", [0.0, 1e4])
def test_the_place_of_a_mechanism_is_not_its_size(away: float) -> None:
    model = four_bar(away=away)
    q, v = model.assemble([1.2, -1.0, 1.0])
    np.testing.assert_allclose(q, four_bar().assemble([1.2, -1.0, 1.0])[0], atol=1e-10)
    with pytest.raises(ConfigurationError, match="constraints"):
        ht.simulate(model, (q + [1e-3, 0, 0], v), until=0.1, step=1e-3)


@pytest.mark.parametrize("units", [(1.0, 1.0, 1.0), *UNITS])
@pytest.mark.thorough
def test_a_small_residual_is_reported_in_all_units(units: tuple[float, float, float]) -> None:
    """A slider-crank of nearly equal bars at a large step loses its loop or its energy, whatever the units are."""
    L, M, T = units
    model = slider_crank(L, M, T, last=1.00001)
    start = model.assemble(*in_units(model, [0.5, -1.0, 1.7], [3.0, 0.0, 0.0], L, T), fixed=("crank",))
    run = ht.simulate(model, start, until=4.0 * T, step=2e-3 * T, record_every=50)
    assert run.outcome.ending is Ending.jumped
    assert "loop 'pin' is nearly singular" in str(run.outcome)


@pytest.mark.parametrize("units", [(1.0, 1.0, 1.0), (1e-3, 1e-8, 1.0), (1e3, 1e6, 10.0)])
def test_a_motion_is_feasible_or_not_in_all_units(units: tuple[float, float, float]) -> None:
    """A level slide lacks 41 % of the weight as lateral force; a climb lacks nothing, and only more thrust than there is."""
    L, M, T = units
    newton = M * L / T**2
    system = ht.System((0, 0, -9.81 * L / T**2), name="quadcopter")
    system.body("hull", joint=ht.Free(), inertia=ht.Inertia(M, moment_at_com=np.array([1, 1, 1.5]) * 0.01 * M * L**2))
    for k, at in enumerate([(0.2, 0, 0), (0, 0.2, 0), (-0.2, 0, 0), (0, -0.2, 0)]):
        system.input(f"thrust{k}", ht.Thruster("hull", at=np.array(at) * L, axis="z", drag_ratio=(-1) ** k * 0.02 * L))
    model = system.derive()

    def moved(x: float, z: float) -> Reference:
        def pose(t: Any) -> Any:
            way = np.sin(2 * t / T)
            return ht.matrix([[1, 0, 0, x * L * way], [0, 1, 0, 0], [0, 0, 1, z * L * way], [0, 0, 0, 1]])

        return Reference.from_pose(model, pose, duration=3.0 * T)

    slide, climb = moved(1.0, 0.0).feasibility(), moved(0.0, 1.0).feasibility((0.0, 5.0 * newton))
    assert not slide.is_feasible()
    assert slide.relative_residual == pytest.approx(0.17, abs=0.1)
    with pytest.raises(ht.errors.ControlError, match="infeasible"):
        slide.require()
    assert climb.is_feasible(1e-12)
    assert moved(0.0, 1.0).feasibility((0.0, 3.0 * newton)).outside == model.u_names


def answers(model: ht.Model, start: tuple[np.ndarray, np.ndarray], units: Units) -> dict[str, Any]:
    """Results of a model and of a motion of it, in SI units."""
    start = model.assemble(*state_in(model, *start, units))
    run = ht.simulate(model, start, until=0.1 * units.T, step=1e-3 * units.T, record_every=20)
    rest = control.equilibrium(model, start[0])
    A, _ = model.linearize(*start)
    return {
        "run": state_out(model, run.q, run.v, units),
        "invariants": sorted(run.invariants),
        "rest": (rest.is_held, len(rest.space), state_out(model, rest.q, 0 * start[1], units)),
        "freedom": model.degrees_of_freedom(start[0]),
        "poles": np.sort_complex(np.round(np.linalg.eigvals(A) * units.T, 6)),
    }


@pytest.mark.thorough
@pytest.mark.parametrize("units", [Units(1e-4, 1e-6, 1e-3), Units(1e3, 1e6, 1e2)])
@pytest.mark.parametrize("name", ["cart-pole", "four-bars:2", "skate", "quadcopter"])
def test_answers_about_the_library_are_the_same_in_all_units(name: str, units: Units) -> None:
    system = ht.library.load(name)
    usual = system.derive(native=False)
    rng = np.random.default_rng(1)
    start = ht.library.start(name, usual) or (
        usual.coordinates.integrate(usual.neutral(), 0.3 * rng.standard_normal(usual.coordinates.nv), 1.0),
        0.5 * rng.standard_normal(usual.nv),
    )
    here, there = (answers(rescaled(system, u), start, u) for u in (Units(), units))
    assert here["invariants"] == there["invariants"]
    assert here["freedom"] == there["freedom"]
    assert here["rest"][:2] == there["rest"][:2]
    for a, b in ((here[k], there[k]) for k in ("run", "poles")):
        np.testing.assert_allclose(b, a, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(there["rest"][2], here["rest"][2], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("L", [1.0, 1e-7, 1e5])
def test_impossible_moments_are_rejected_in_all_units(L: float) -> None:
    for wrong in ((-0.1, 1.0, 1.0), (1.0, 1.0, 2.1)):
        with pytest.raises(ModelError, match="moment"):
            ht.Inertia(1e-3, moment_at_com=np.array(wrong) * 1e-3 * L**2)
    ht.Inertia(1e-3, com=np.array([3.0, -2.0, 1.0]) * L, moment_at_com=np.array([1.0, 1.0, 2.0]) * 1e-3 * L**2)


@pytest.mark.thorough
@pytest.mark.parametrize("units", [Units(), Units(1e-7, 1e-9, 1e-3)])
def test_laws_do_not_depend_on_units(units: Units) -> None:
    model = rescaled(ht.library.cart_pole(), units)
    prototype = control.Prototype.for_model(model, [0.0, 0.0], poles=-2.0 / units.T)
    law = control.energy_law(model, prototype, limits=(-50.0, 50.0))
    np.testing.assert_allclose(law.poles() * units.T, -2.0, atol=0.05)
    with pytest.raises(ControlError, match="cannot hover within these limits"):
        control.energy_law(model, prototype, limits=(1.0, 50.0))  # it rests without a force, which these forbid


@pytest.mark.thorough
def test_points_on_rails_may_start_at_their_origin() -> None:
    """Coordinates near zero are not the size of a system without other lengths."""
    system = ht.System(gravity=(0, 0, 0))
    for name in ("a", "b"):
        system.body(name, joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.constrain(lambda q: q[0] + q[1])
    model = system.derive()
    run = ht.simulate(model, ([1e-8, 0.0], [1.0, -1.0]), until=0.1, step=0.01)
    assert run.outcome.ending is Ending.finished
