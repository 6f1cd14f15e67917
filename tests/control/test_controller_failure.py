"""Failing controllers: computed torque where B or M is singular, up to the outcome of the run."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import heavytop as ht
from heavytop.control import Wrapper, computed_torque
from heavytop.errors import ControlError, SimulationError
from heavytop.geometry import se3
from heavytop.simulate import Ending

STRETCHED = -np.pi / 2


@cache
def elbow() -> ht.Model:
    """Two rods, bent in the neutral configuration, with two forces at the tip: B is singular if they are stretched."""
    system = ht.System(name="elbow", gravity=(0, 0, 0))
    system.body("upper", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, (0.5, 0, 0), (0.01, 0.1, 0.1)))
    lower = ht.Inertia(1.0, (0, 0, -0.5), (0.1, 0.1, 0.01))
    system.body("lower", parent="upper", at=(1, 0, 0), joint=ht.Revolute("y"), inertia=lower)
    system.frame("tip", "lower", at=(0, 0, -1.0))
    for name, direction in (("sideways", (1, 0, 0)), ("upwards", (0, 0, 1))):
        system.input(name, ht.Wrench("tip", force=direction, frame="world"))
    return system.derive()


def cranked(size: float, mass: bool) -> ht.Model:
    """One body whose M (or B), 1 x 1, is cos^2 q (or cos q) of some size: it vanishes at a right angle."""
    system = ht.System(name="cranked", gravity=(0, 0, 0))
    if mass:
        joint = ht.Custom(ht.coordinates.Angle(), lambda q: se3.pose(np.eye(3), ht.vector(np.sin(q[0]), 0.0, 0.0)))
        system.body("slide", joint=joint, inertia=ht.Inertia(size))
        system.input("motor", ht.JointForce("slide"))
    else:
        system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, moment_at_com=(0.1, 0.1, 0.1)))
        system.frame("tip", "rod", at=(size, 0, 0))
        system.input("push", ht.Wrench("tip", force=(0, 0, 1), frame="world"))
    return system.derive(native=False)


def test_singular_matrices_raise_at_every_call() -> None:
    law = computed_torque(elbow(), stiffness=4.0, damping=4.0)
    q = np.array([0.3, STRETCHED])
    with pytest.raises(ControlError, match=r"'elbow' at q = \[ 0.3 .* B is singular"):
        law(q, np.zeros(2), np.zeros(2))
    with pytest.raises(ControlError, match="B is singular"):  # one of a batch
        law(np.stack([np.zeros(2), q]), np.zeros(2), np.zeros(2))
    near = q + [0.0, 1e-6]  # nearby the law is still exact
    a = elbow().acceleration(near, np.zeros(2), law(near, np.zeros(2), np.zeros(2)))
    np.testing.assert_allclose(a, -4.0 * near, rtol=1e-7)


@pytest.mark.parametrize("mass", [False, True])
@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_vanishing_matrices_are_detected_at_any_scale(size: float, mass: bool) -> None:
    law = computed_torque(cranked(size, mass), stiffness=4.0, damping=4.0)
    assert np.isfinite(law([0.7], [0.0], [0.0])).all()
    with pytest.raises(ControlError, match="M is singular" if mass else "B is singular"):
        law([np.pi / 2], [0.0], [0.0])


@pytest.mark.parametrize("hold", ["continuous", "zero-order"])
@pytest.mark.parametrize("integrator", ["rkmk4", "energy_momentum"])
def test_the_outcome_of_a_run_into_the_singularity(integrator: str, hold: str) -> None:
    """The reference is the stretched arm, where B is singular; independent of the recorded times."""
    law, q = (
        computed_torque(elbow(), stiffness=4.0, damping=4.0),
        np.array([[0.3, STRETCHED + 0.5], [0.2, STRETCHED + 0.3]]),
    )
    run = ht.simulate(
        elbow(),
        (q, np.zeros((2, 2))),
        20.0,
        0.02,
        integrator,
        control=law,
        reference=[0.5, STRETCHED],
        hold=hold,
        record_every=50,
    )
    assert [o.ending for o in run.outcomes] == 2 * [Ending.controller_failed]
    assert not run.outcome.ok
    for outcome in run.outcomes:
        assert "q = (0.5, -1.571)" in outcome.message
        assert "B is singular" in outcome.message
        assert 10.0 < outcome.time < 15.0  # e = exp(-2 t): B = 1e-11 of its usual size
    assert run.outcomes[1].trajectory == (1,)
    assert np.nanmax(run.channels["status"]) in (0.0, 1.0)


@pytest.mark.thorough
def test_with_error_control() -> None:
    law = computed_torque(elbow(), stiffness=4.0, damping=4.0)
    for hold in ("continuous", "zero-order"):
        start = (np.array([0.5, STRETCHED]), np.zeros(2))
        run = ht.simulate(elbow(), start, 0.1, 0.02, "rkmk45", control=law, reference=[0.5, 0.0], hold=hold)
        assert run.outcome.ending is Ending.controller_failed, run.outcome


def test_wrappers_cannot_hide_a_failure() -> None:
    """The trajectory ends although the wrapper replaces NaN by zero."""

    class Careless(Wrapper):
        def acted(self, at, u):
            return np.where(u == u, u, 0.0)

    law = Careless(computed_torque(elbow(), stiffness=4.0, damping=4.0)).with_reference([0.5, STRETCHED])
    run = ht.simulate(elbow(), (np.array([0.5, STRETCHED]), np.zeros(2)), 1.0, 0.02, control=law)
    assert run.outcome.ending is Ending.controller_failed
    assert "B is singular" in run.outcome.message


def test_a_user_defined_status() -> None:
    """Any law may report a status; without causes the outcome names its number."""
    system = ht.System(gravity=(0, 0, 0))
    system.body("cart", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.input("motor", ht.JointForce("cart"))
    model = system.derive(native=False)

    def law(q):
        return {"u": -q, "status": np.where(q[0] > 0.5, 3.0, 0.0)}

    run = ht.simulate(model, ([0.0], [1.0]), 1.0, 0.01, control=ht.Feedback(law, ("q",)))
    assert str(run.outcome).endswith("status 3")
    assert run.outcome.ending is Ending.controller_failed
    assert 0.5 < run.outcome.time < 0.56
    with pytest.raises(SimulationError, match="number"):
        ht.simulate(model, ([0.0], [1.0]), 1.0, 0.01, control=ht.Feedback(lambda q: {"u": -q, "status": q}, ("q",)))


def test_a_law_that_has_given_up() -> None:
    """The trajectory goes on, its outcome is lost; the others of the batch are finished, and a channel of this name alone means nothing."""
    system = ht.System(gravity=(0, 0, 0))
    system.body("cart", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.input("motor", ht.JointForce("cart"))
    model = system.derive(native=False)

    class Resigned(Wrapper):
        def channels(self, at, u):
            return {"lost": np.where(at.q[0] > 0.5, 1.0, 0.0)}

    class Explained(Resigned):
        @property
        def causes(self):
            return ("the rail ends",)

    start = (np.zeros((2, 1)), np.array([[1.0], [0.1]]))
    law = ht.Feedback(lambda q: -0.1 * q, ("q",))
    run = ht.simulate(model, start, 1.0, 0.01, control=Explained(law))
    assert [o.ending for o in run.outcomes] == [Ending.lost, Ending.finished]
    assert run.outcome.ending is Ending.lost
    assert not run.outcome.ok
    assert "the rail ends" in run.outcome.message
    assert run.t[-1] == 1.0
    assert np.isfinite(run.q).all()
    assert ht.simulate(model, start, 1.0, 0.01, control=Resigned(law)).outcome.ok
