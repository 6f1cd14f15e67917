"""Collocation of stiff motions: tableau, derivatives through Newton's method, and plans beyond explicit steps."""

from __future__ import annotations

from dataclasses import replace

import casadi
import numpy as np
import pytest
from plan.test_transcription import check_derivatives, program

import heavytop as ht
from heavytop.errors import PlanError
from heavytop.ocp import ChartRates, NodeLayout, Shooting, symbolic
from heavytop.ocp.collocation import Collocation
from heavytop.plan import Between, Effort, Fatrop, Nlpsol, Rest, Time
from heavytop.simulate import COOPER_VERNER8, RADAU5, RADAU9
from heavytop.simulate.integrators.tableaus import radau


def flap(damping: float) -> ht.Model:
    """A pole on a cart with a light flap at its end, whose damper makes the motion stiff: rates of damping / 3.5e-6 kg m^2."""
    system = ht.System(name="flap")
    system.body("cart", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.body("pole", parent="cart", joint=ht.Revolute("y"), inertia=ht.Inertia(0.3, com=(0, 0, 0.5)))
    light = ht.Inertia(0.001, com=(0, 0, 0.05), moment_at_com=(1e-6,) * 3)
    system.body("flap", parent="pole", at=(0, 0, 1.0), joint=ht.Revolute("y"), inertia=light)
    system.joint_damper("flap", damping=damping)
    system.input("F", ht.JointForce("cart"))
    return system.derive()


GOAL = [Between("cart.x", 1, 1), Between("pole.angle", 0, 0), Rest()]


@pytest.mark.parametrize("stages", [1, 2, 3, 5])
def test_points_of_radau(stages: int) -> None:
    """Simplifying conditions B(2 s - 1), C(s), D(s - 1) make the order 2 s - 1; the last point is the end."""
    t = radau(stages)
    A, b, c = t.matrix, np.array(t.b), np.array(t.c)
    for k in range(1, 2 * stages):
        assert b @ c ** (k - 1) == pytest.approx(1 / k, abs=1e-13)
    for k in range(1, stages + 1):
        np.testing.assert_allclose(A @ c ** (k - 1), c**k / k, atol=1e-13)
    for k in range(1, stages):
        np.testing.assert_allclose((b * c ** (k - 1)) @ A, b * (1 - c**k) / k, atol=1e-13)
    assert t.implicit
    assert c[-1] == 1.0


def _ends(model: ht.Model, h: float, *method) -> np.ndarray:
    rates = ChartRates.of(model)
    layout = NodeLayout(rates.ne, rates.nv, rates.nu)
    rng = np.random.default_rng(0)
    y = np.concatenate([np.zeros((4, rates.ne)), rng.standard_normal((4, rates.nv + rates.nu))], axis=1)
    q = model.random(rng, (4,))
    kind = Collocation if method[0].implicit else Shooting
    return kind(rates, layout, *method).run(y, np.full(4, h), q, rates.parameters()).ends


@pytest.mark.parametrize(("tableau", "steps"), [(RADAU5, (0.2, 0.1)), (RADAU9, (0.4, 0.2))])
def test_order(tableau, steps) -> None:
    model = ht.library.cart_pole().derive()
    errors = [np.abs(_ends(model, h, tableau, 1) - _ends(model, h, COOPER_VERNER8, 20)).max() for h in steps]
    assert np.log2(errors[0] / errors[1]) > tableau.order + 0.5  # of one step: order + 1


@pytest.mark.parametrize("linear", [False, True])
def test_derivatives(linear: bool) -> None:
    cart = ht.library.cart_pole().derive()
    options = {"cost": Time() + 0.1 * Effort(), "rates": 50.0 if linear else None, "steps": 4}
    check_derivatives(*program(cart, [0, np.pi], [0, 0], (1.0, 3.0), 2, RADAU5, **options))


def test_casadi_states_the_same_program() -> None:
    cart = ht.library.cart_pole().derive()
    nlp, x = program(cart, [0, np.pi], [0, 0], (1.0, 3.0), 2, RADAU5, cost=Time() + 0.1 * Effort(), steps=4)
    built = symbolic(nlp)
    cost, rows = casadi.Function("nlp", [built["x"]], [built["f"], built["g"]])(x)
    np.testing.assert_allclose(float(cost), nlp.objective(x), rtol=1e-10)
    np.testing.assert_allclose(np.asarray(rows).ravel(), nlp.values(x), atol=1e-9)


@pytest.mark.thorough
def test_stiff_motion_is_collocated() -> None:
    """Explicit steps of the same length cannot follow a flap that decays within 0.4 ms; collocation follows it to the rigid limit."""
    options = {"duration": 1.5, "limits": (-20, 20), "cost": 0.01 * Effort(), "steps": 20, "tolerance": 1e-6}
    stiff, stiffer = (ht.plan(flap(d), [0, 0, 0], GOAL, **options) for d in (1e-2, 1e-1))
    assert stiff.tableau.implicit
    assert stiff.accuracy < 1e-6
    assert stiffer.cost == pytest.approx(stiff.cost, rel=1e-4)
    run = stiff.run()  # explicit steps of 0.4 ms are stable
    early = run.t < 0.4  # the pole falls without feedback
    np.testing.assert_allclose(run.q[early], stiff.reference(run.t[early])[0], atol=1e-4)


@pytest.mark.thorough
def test_mild_motion_is_shot() -> None:
    options = {"limits": (-20, 20), "cost": 0.01 * Effort(), "steps": 20, "tolerance": 1e-3}
    plan, same = (ht.plan(flap(1e-5), [0, 0, 0], GOAL, 1.5, method=m, **options) for m in ("auto", "collocation"))
    assert not plan.tableau.implicit
    assert same.tableau.implicit
    assert same.cost == pytest.approx(plan.cost, rel=1e-3)


@pytest.mark.thorough
def test_other_solvers() -> None:
    cart = ht.library.cart_pole().derive()
    options = {"limits": (-20, 20), "cost": 0.01 * Effort(), "steps": 20, "method": "collocation", "tolerance": 1e-2}
    ours, theirs = (ht.plan(cart, [0, np.pi], [0, 0], 2.0, solver=s, **options) for s in (None, Nlpsol()))
    assert theirs.cost == pytest.approx(ours.cost, rel=1e-6)
    with pytest.raises(PlanError, match="method='shooting'"):
        ht.plan(cart, [0, np.pi], [0, 0], 2.0, solver=Fatrop(), **options)


@pytest.mark.thorough
def test_fatrop_shoots_stiff_motions() -> None:
    """A sled whose speed decays by 25/s, in steps of 0.1 s: with Ipopt the motion is collocated."""
    system = ht.System(name="sled")
    system.body("sled", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.joint_damper("sled", damping=25.0)
    system.input("F", ht.JointForce("sled"))
    model = system.derive()
    ours, theirs = (
        ht.plan(model, [0], [1], 2.0, cost=Effort(), steps=20, tolerance=1e-6, solver=s) for s in (None, Fatrop())
    )
    assert ours.tableau.implicit
    assert not theirs.tableau.implicit
    assert theirs.cost == pytest.approx(ours.cost, rel=1e-5)


def test_steps_are_bounded_after_a_collocation_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The motion is only apparently stiff, and twice as many steps exceed the limit."""
    from heavytop.ocp.solvers import Status
    from heavytop.plan import Ipopt, solve

    seen = []

    class OnlyShooting(Ipopt):
        def solve(self, request):
            seen.append((request.program.shooting.tableau.implicit, request.program.count))
            found = super().solve(request)
            return replace(found, status=Status.FAILED) if seen[-1][0] else found

    stiff = iter([False, True])
    monkeypatch.setattr(solve, "_is_stiff", lambda *_: next(stiff))
    monkeypatch.setattr(solve, "MOST_REFINED", 10)
    cart = ht.library.cart_pole().derive()
    with pytest.raises(PlanError, match="does not become accurate: with 10 steps"):
        ht.plan(cart, [0, np.pi], [0, 0], 2.0, limits=(-20, 20), steps=10, tolerance=1e-15, solver=OnlyShooting())
    assert seen == [(False, 10), (True, 10)]
