"""The nonlinear program: derivatives against finite differences, the same program in CasADi's own expressions."""

from __future__ import annotations

from collections.abc import Callable

import casadi
import numpy as np
import pytest
import scipy.sparse

import heavytop as ht
from heavytop.ocp import Transcription, symbolic
from heavytop.plan import Between, Cone, Effort, Gate, Jerk, KeepIn, KeepOut, Own, Point, Speed, Time
from heavytop.plan.guess import straight
from heavytop.plan.node_functions import NodeFunctions
from heavytop.plan.problem_builder import ProblemArguments, build_problem
from heavytop.plan.solve import first_variables
from heavytop.simulate import RADAU5, RK4, Tableau


@pytest.fixture(scope="module")
def quad() -> ht.Model:
    return ht.library.quadcopter().derive()


def program(
    model: ht.Model, start, goal, duration, substeps: int = 1, tableau: Tableau = RK4, **options
) -> tuple[Transcription, np.ndarray]:
    problem = build_problem(ProblemArguments(model, start, goal, duration, **({"steps": 6} | options)))
    guess = straight(problem)
    made = NodeFunctions(problem).transcription(guess.q, tableau, substeps)
    rng = np.random.default_rng(0)
    return made, first_variables(made, guess) + 0.1 * rng.standard_normal(made.variables)


def gates(model: ht.Model) -> tuple[Transcription, np.ndarray]:
    goal = model.neutral().copy()
    goal[:3] = 2, 0, 1
    path = [
        Gate("hull", (1, 0, 0)),
        Cone("hull", 1.0),
        KeepOut("hull", (1, 1, 0), 0.2),
        KeepIn("hull", (-9,) * 3, (9,) * 3),
    ]
    path += [Between("F_1", 0.1, 5.0), Own(lambda q, v, u: v[0] * q[0] + u[1], -9, 9)]
    cost = Time() + 0.1 * Effort(about=2.0) + 0.2 * Speed()
    return program(model, model.neutral(), goal, (1.0, 3.0), path=path, cost=cost, rates=50.0)


def periodic(model: ht.Model) -> tuple[Transcription, np.ndarray]:
    start = [Point("hull", (1, 0, 0))]
    return program(model, start, None, 1.0, substeps=2, periodic=True, cost=Effort())


def jerk(duration, tableau: Tableau) -> Callable[[ht.Model], tuple[Transcription, np.ndarray]]:
    """A swing-up of least jerk, whatever model is given."""
    cost = Time() + 0.1 * Jerk("pole", (0, 0, 0.5)) + 0.1 * Effort()
    return lambda _: program(ht.library.cart_pole().derive(), [0, np.pi], [0, 0], duration, 2, tableau, cost=cost)


JERKS = [jerk(duration, tableau) for duration, tableau in ((2.0, RK4), ((1.0, 3.0), RK4), ((1.0, 3.0), RADAU5))]


@pytest.mark.parametrize("make", [pytest.param(gates, marks=pytest.mark.thorough), periodic, *JERKS])
def test_derivatives(quad: ht.Model, make) -> None:
    check_derivatives(*make(quad))


def check_derivatives(nlp: Transcription, x: np.ndarray) -> None:
    """Gradient, Jacobian and Hessian of the Lagrangian against central differences along a random direction."""
    rng, h = np.random.default_rng(1), 1e-6
    n, lam, along = len(x), rng.standard_normal(nlp.rows), rng.standard_normal(len(x))
    lower = scipy.sparse.coo_matrix((nlp.hessian(x, lam, 0.7), nlp.hessian_structure), (n, n)).tocsr()
    hessian = lower + scipy.sparse.tril(lower, -1).T

    def jacobian(x):
        return scipy.sparse.coo_matrix((nlp.jacobian(x), nlp.jacobian_structure), (nlp.rows, n)).tocsr()

    def lagrangian_gradient(x):
        return jacobian(x).T @ lam + 0.7 * nlp.gradient(x)

    central = lambda f: (f(x + h * along) - f(x - h * along)) / (2 * h)  # noqa: E731
    np.testing.assert_allclose(central(nlp.objective), nlp.gradient(x) @ along, atol=1e-6)
    np.testing.assert_allclose(central(nlp.values), jacobian(x) @ along, atol=1e-6)
    np.testing.assert_allclose(central(lagrangian_gradient), hessian @ along, atol=1e-5)


@pytest.mark.parametrize("make", [gates, periodic, *JERKS])
def test_casadi_states_the_same_program(quad: ht.Model, make) -> None:
    nlp, x = make(quad)
    built = symbolic(nlp)
    cost, rows = casadi.Function("nlp", [built["x"]], [built["f"], built["g"]])(x)
    np.testing.assert_allclose(float(cost), nlp.objective(x), rtol=1e-12)
    np.testing.assert_allclose(np.asarray(rows).ravel(), nlp.values(x), atol=1e-11)


def test_every_row_has_a_name(quad: ht.Model) -> None:
    nlp, _ = gates(quad)
    labels = [label for label, _ in nlp.row_labels]
    assert len(labels) == nlp.rows
    assert "gate of 'hull' at (1, 0, 0)" in labels
    assert labels[0] == "dynamics (place along 'hull.v_x')"
    assert {"inputs", "rate of inputs", "duration", "whole duration"} <= set(labels)
    assert nlp.row_labels[labels.index("gate of 'hull' at (1, 0, 0)")][1] == 3
