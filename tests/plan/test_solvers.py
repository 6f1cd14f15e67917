"""Solvers behind one interface: tolerances, warm starts, progress and interrupts, and the diagnosis of infeasible problems."""

from __future__ import annotations

import numpy as np
import pytest
from plan.test_transcription import program

import heavytop as ht
from heavytop.ocp.solvers import SolveRequest, Status
from heavytop.plan import Fatrop, InfeasibleError, Ipopt, KeepOut, Nlpsol, Point


@pytest.fixture(scope="module")
def sled() -> ht.Model:
    system = ht.System(gravity=(0, 0, 0), name="slider")
    system.body("sled", joint=ht.Prismatic("x"), inertia=ht.Inertia(2.0))
    system.input("F", ht.JointForce("sled"))
    return system.derive()


@pytest.fixture(scope="module")
def swing_up():
    cart = ht.library.cart_pole().derive()
    made, _ = program(cart, [0, np.pi], [0, 0], 2.0, limits=(-20, 20), steps=20)
    x = np.clip(np.zeros(made.variables), made.lower, made.upper)
    return made, x


@pytest.mark.parametrize("solver", [Nlpsol(), Fatrop()])
def test_all_solvers_find_the_least_violation(solver) -> None:
    """The closest motion violates the goal by 2.5 m with every solver; without friction momentum rules it out before a solver starts."""
    system = ht.System(gravity=(0, 0, 0), name="slider")
    system.body("sled", joint=ht.Prismatic("x", damping=1e-9), inertia=ht.Inertia(2.0))
    system.input("F", ht.JointForce("sled"))
    sled = system.derive()
    for own in (Ipopt(), solver):
        with pytest.raises(InfeasibleError, match="violates the goal") as caught:
            ht.plan(sled, [0.0], [3.0], 1.0, limits=(-4.0, 4.0), steps=10, solver=own, guess="straight")
        assert caught.value.violations[0][2] == pytest.approx(2.5, abs=1e-4)


def test_elastic_programs_agree(sled: ht.Model) -> None:
    """The program of least violation in CasADi expressions has the cost and the rows of the native one."""
    import casadi

    from heavytop.plan.infeasible import Elastic

    path = [KeepOut("sled", (0.5, 1, 0), 0.3)]
    nlp, _ = program(sled, [0.0], [Point("sled", (1, 0, 0))], 1.0, limits=(-4, 4), path=path)
    for inner in (nlp, program(sled, [0.0], [1.0], 1.0, path=path)[0]):
        elastic = Elastic(inner)
        at = np.random.default_rng(0).standard_normal(len(elastic.lower))
        built = elastic.symbolic()
        cost, rows = casadi.Function("nlp", [built["x"]], [built["f"], built["g"]])(at)
        assert float(cost) == pytest.approx(elastic.objective(at))
        np.testing.assert_allclose(np.asarray(rows).ravel(), elastic.values(at), atol=1e-12)


def test_nlpsol_starts_warm(swing_up) -> None:
    made, x = swing_up
    cold = Nlpsol().solve(SolveRequest(made, x))
    warm = Nlpsol().solve(SolveRequest(made, cold.x, warm=cold))
    assert cold.status is warm.status is Status.SOLVED
    assert warm.iterations < cold.iterations / 2
    assert warm.cost == pytest.approx(cold.cost, rel=1e-8)


def test_nlpsol_reports_its_progress(swing_up) -> None:
    made, x = swing_up
    seen = []
    found = Nlpsol().solve(SolveRequest(made, x, callback=lambda *now: seen.append(now)))
    assert [now[0] for now in seen] == list(range(found.iterations + 1))
    assert seen[-1][1] == pytest.approx(found.cost, rel=1e-6)
    assert seen[0][2] > 1e-3 > 1e-8 > seen[-1][2]


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_nlpsol_can_be_interrupted(swing_up, error) -> None:
    made, x = swing_up

    def callback(iteration, cost, violation):
        if iteration == 3:
            raise error

    if error is KeyboardInterrupt:
        found = Nlpsol().solve(SolveRequest(made, x, callback=callback))
        assert (found.status, found.message, found.iterations) == (Status.STOPPED, "stopped by the user", 3)
    else:
        with pytest.raises(ZeroDivisionError):
            Nlpsol().solve(SolveRequest(made, x, callback=callback))


def test_fatrop_stops_at_the_tolerance(swing_up) -> None:
    made, x = swing_up
    loose, tight = (Fatrop().solve(SolveRequest(made, x, tolerance)) for tolerance in (1e-2, 1e-9))
    assert loose.status is tight.status is Status.SOLVED
    assert loose.iterations < tight.iterations
