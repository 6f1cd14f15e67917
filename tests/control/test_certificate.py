"""Proven regions of attraction: enclosures, linear loops, samples that must not contradict, parameters, limits, the energy of a body."""

from __future__ import annotations

import casadi
import numpy as np
import pytest
from scipy.linalg import solve_continuous_lyapunov

import heavytop as ht
from heavytop import control
from heavytop.control.linear.body_field import BodyField
from heavytop.control.linear.certificate import _field_of, _localised, _proved, _transformed
from heavytop.control.linear.interval_slopes import Interval, Slope, slopes_of
from heavytop.copters import multicopter, quadcopter, ring, tricopter
from heavytop.errors import ControlError, UnknownNameError


def test_slopes_enclose_differences() -> None:
    """f(x) - f(0) lies in S x for random points of random boxes."""
    x = casadi.SX.sym("x", 3)
    smooth = casadi.sin(x[0]) * casadi.cos(x[1] + 0.3) / (2 + x[2] ** 2) + casadi.atan(x[1]) - casadi.sqrt(3 + x[0])
    f = casadi.Function(
        "f", [x], [casadi.vertcat(smooth, casadi.fmin(casadi.fmax(4 * x[1], -0.5), 0.7) + casadi.exp(x[2]))]
    )
    rng = np.random.default_rng(0)
    centre, half = rng.uniform(-1, 1, (200, 3)), rng.uniform(0, 0.5, (200, 3))
    rows = [
        Slope(
            Interval.of(0.0),
            Interval(centre[:, i] - half[:, i], centre[:, i] + half[:, i]),
            Interval.of(np.eye(3)[[i] * 200]),
        )
        for i in range(3)
    ]
    found = slopes_of(f, rows)
    for _ in range(20):
        point = centre + half * rng.uniform(-1, 1, centre.shape)
        change = np.array([np.asarray(f(one) - f(np.zeros(3))).ravel() for one in point])
        for i, each in enumerate(found):
            ends = np.stack([each.slope.low * point, each.slope.high * point])
            assert np.all(np.min(ends, axis=0).sum(1) - 1e-12 <= change[:, i])
            assert np.all(change[:, i] <= np.max(ends, axis=0).sum(1) + 1e-12)


def test_a_linear_loop_is_attracted_from_everywhere() -> None:
    system = ht.System(name="cart")
    system.body("cart", joint=ht.Prismatic("x"), inertia=ht.Inertia(2.0))
    system.input("motor", ht.JointForce("cart"))
    law = control.lqr(system.derive(), [0.0])
    assert law.certified_region(radius=1e4).boxes == 1


@pytest.fixture(scope="module")
def balanced() -> control.LinearQuadratic:
    model = ht.library.cart_pole().derive()
    return control.lqr(model, [0.0, 0.0])


@pytest.mark.thorough
def test_samples_do_not_contradict_the_proof(balanced: control.LinearQuadratic) -> None:
    found = balanced.certified_region(radius=0.4)
    assert found.counterexamples(20_000) == 0
    assert found.sampled_radius(samples=20, until=6.0, step=0.01) > found.radius
    assert found.contains([0.0, 0.02], [0.0, 0.0])
    assert not found.contains([0.0, 0.3], [0.0, 0.0])
    assert "without sampling" in found.report()


def test_too_large_a_region_is_not_proven(balanced: control.LinearQuadratic) -> None:
    with pytest.raises(ControlError, match="radius of 3 was not proven: V increases at a state of radius"):
        balanced.certified_region(radius=3.0, boxes=3000)
    with pytest.raises(ControlError, match="radius of 0.4 was not proven: 3 boxes were not enough. Give more boxes"):
        balanced.certified_region(radius=0.4, boxes=3)


def test_a_radius_is_any_positive_number(balanced: control.LinearQuadratic) -> None:
    with pytest.raises(ControlError, match="radius of 3 was not proven"):
        balanced.certified_region(radius=3, boxes=3000)
    for radius in (0, -1, np.nan):
        with pytest.raises(ControlError, match="positive and finite"):
            balanced.certified_region(radius=radius)


@pytest.mark.thorough
def test_parameters_in_a_box(balanced: control.LinearQuadratic) -> None:
    """More uncertainty needs at least as many boxes."""
    sure = balanced.certified_region(radius=0.1)
    loose = balanced.certified_region(radius=0.1, uncertain={"m_p": (0.0998, 0.1002)})
    assert loose.boxes > sure.boxes
    assert "m_p in [0.0998, 0.1002]" in loose.report()
    with pytest.raises(UnknownNameError, match="'mass'"):
        balanced.certified_region(radius=0.3, uncertain={"mass": (1.0, 2.0)})


def test_limits_of_the_inputs_are_part_of_the_proof() -> None:
    model = ht.library.cart_pole().derive()
    limited = control.lqr(model, [0.0, 0.0], limits=(-4.0, 4.0))
    free = control.lqr(model, [0.0, 0.0])
    assert limited.certified_region(radius=0.1).boxes >= free.certified_region(radius=0.1).boxes
    with pytest.raises(ControlError, match="not proven: .*; input 'F' may reach a limit"):
        control.lqr(model, [0.0, 0.0], limits=(-0.1, 0.1)).certified_region(radius=0.3, boxes=3000)


@pytest.fixture(scope="module")
def hovering() -> control.LinearQuadratic:
    craft = ht.library.quadcopter().derive()
    cost = control.Weights(places=[1, 1, 1, 20, 20, 5], speeds=[2, 2, 2, 1, 1, 1], inputs=1.0)
    return control.lqr(craft, craft.neutral(), cost=cost)


@pytest.mark.thorough
def test_a_region_of_a_hovering_quadcopter(hovering: control.LinearQuadratic) -> None:
    found = hovering.certified_region(radius=0.8)
    assert found.counterexamples(20_000) == 0
    assert found.sampled_radius(samples=20, until=8.0, step=0.01) > found.radius
    craft, far = hovering.model, np.zeros(6)
    assert found.contains(craft.integrate(craft.neutral(), np.array([0.1, 0, 0, 0.2, 0, 0]), 1.0), far)
    assert not found.contains(craft.integrate(craft.neutral(), np.array([0, 0, 0, 2.5, 0, 0]), 1.0), far)
    assert "rotation vector" in found.report()
    assert "turn_x" in found.report()
    with pytest.raises(ControlError, match="radius of 4 was not proven"):
        hovering.certified_region(radius=4.0)


def test_the_matrix_of_a_body_bends_less_than_its_bound(hovering: control.LinearQuadratic) -> None:
    """Second differences along random lines of rotation vectors, relative to the bound; a bound of 1 % would fail."""
    found = control.certificate(hovering, radius=0.1)
    field, T = found._field, np.linalg.cholesky(found.P)
    inverse, rng, h = np.linalg.inv(T), np.random.default_rng(0), 1e-3
    phi, n = rng.uniform(-0.6, 0.6, (200, 3)), rng.standard_normal((200, 3))
    n /= np.linalg.norm(n, axis=1, keepdims=True)
    assert isinstance(field, BodyField)
    low, middle, high = (field.matrix(phi + step * n, np.zeros((200, 3))) for step in (-h, 0.0, h))
    M = T.T @ ((low - 2 * middle + high) / h**2) @ inverse.T
    bend, most = np.linalg.norm(M + M.swapaxes(1, 2), 2, axis=(1, 2)).max(), field._bend(T.T, inverse.T, 1.1)
    assert 0.01 * most < bend < most


@pytest.mark.thorough
def test_a_region_of_a_body_whose_inputs_reach_their_limits(hovering: control.LinearQuadratic) -> None:
    craft = hovering.model
    cost = control.Weights(places=[1, 1, 1, 20, 20, 5], speeds=[2, 2, 2, 1, 1, 1], inputs=1.0)
    limited = control.lqr(craft, craft.neutral(), cost=cost, limits=(0.0, 8.8))
    found = limited.certified_region(radius=1.0)
    assert found.counterexamples(100_000) == 0
    field = found._field
    assert isinstance(field, BodyField)
    u = limited(0.0, *field.states(found._states(2000, found.radius, 0, found.P)))
    assert np.mean(np.any(u <= 0.0, axis=1)) > 0.02
    with pytest.raises(ControlError, match="not proven: .*; input '.*' may reach a limit from a radius of"):
        limited.certified_region(radius=1.4, boxes=100)
    reverse = BodyField(limited)
    reverse.K = -reverse.K
    assert not _proved(reverse, found.P, found.radius, 5000)[0]
    tight = BodyField(limited)
    tight.below = tight.room = 0.3 * tight.below  # S and x' of another vehicle: the proof depends on the limits
    assert not _proved(tight, found.P, found.radius, 5000)[0]
    tight.below = tight.room = -tight.below  # hovering demands less than the lower limit
    assert not _proved(tight, found.P, 1e-3, 5000)[0]


@pytest.mark.thorough
def test_least_shares_of_demands_hold_at_random_states(hovering: control.LinearQuadratic) -> None:
    """The share that the limits leave of every demand in a small box; bounds without the extent of the box would fail."""
    craft, rng = hovering.model, np.random.default_rng(3)
    field = BodyField(control.lqr(craft, craft.neutral(), limits=(0.0, 8.8)))
    _, to_x = _transformed(field, solve_continuous_lyapunov(field.linear().T, -field.cost_rate))
    tightest = np.inf
    for _ in range(30):
        c, h = rng.uniform(-0.5, 0.5, (1, 3)), rng.uniform(0, 0.2, (1, 3))
        z = c + h * rng.uniform(-1, 1, (500, 3))
        rest = rng.standard_normal((500, 9))
        rest *= np.sqrt(np.maximum(1.0 - np.sum(z**2, axis=1), 0.0) / np.sum(rest**2, axis=1))[:, None]
        y = np.concatenate([rest, z], axis=1)[np.sum(z**2, axis=1) < 1.0]
        x = y @ to_x.T
        demands = np.matvec(field.gains(x[:, 9:]), x)
        shares = np.clip(demands, -field.above, field.below) / demands
        kept = field._kept(to_x, 1.0, c, h)
        assert np.all(shares >= kept * (1 - 1e-9))
        tightest = min(tightest, float(np.min(shares / kept)))
    assert tightest < 1.5


@pytest.mark.thorough
def test_other_systems_are_rejected(hovering: control.LinearQuadratic) -> None:
    with pytest.raises(ControlError, match="uncertain"):
        hovering.certified_region(radius=0.1, uncertain={"m": (0.8, 1.0)})
    shifted = multicopter(ring(4, 0.2, drag_ratio=0.02), 1.0, (0.01, 0.01, 0.02), com=(0.02, 0.0, 0.0)).model
    with pytest.raises(ControlError, match="centre of mass"):
        control.certificate(control.lqr(shifted, shifted.neutral()))


def test_energy_below_the_saddle_converges() -> None:
    craft = tricopter()
    law = craft.law("energy", limits=False)
    level, model = control.energy_level(law), craft.model
    assert isinstance(law, control.Law)
    for axis in np.eye(3):
        # V = Pi (1 - cos) about a principal axis with the moment Pi
        angle = np.arccos(
            1 - 0.99 * level / float(axis @ law.prototype.stiffness["world", "hull"].moment_at_center @ axis)
        )
        q = model.integrate(model.neutral(), np.concatenate([np.zeros(3), angle * axis]), 1.0)
        run = control.ClosedLoop(model, law.with_reference(model.neutral())).fly((q, np.zeros(6)), until=8.0, step=0.01)
        assert np.abs(run.q[-1] - model.neutral()).max() < 1e-3
    with pytest.raises(ControlError, match="six independent inputs"):
        control.energy_level(quadcopter().law("energy", limits=False))


def test_forms_are_not_negative_where_a_box_meets_the_ball() -> None:
    """Random points of boxes of the last two or three of five coordinates, within the ball; some forms are nearly zero there."""
    rng, radius, least = np.random.default_rng(5), 0.7, np.inf
    for k in (2, 3):
        M = rng.standard_normal((300, 5, 5))
        M = M + M.swapaxes(1, 2) - 4 * np.eye(5)
        centre, half = rng.uniform(-0.5, 0.5, (300, k)), rng.uniform(0, 0.15, (300, k))
        forms, tops = _localised(M, radius, centre, half)
        assert np.allclose(np.linalg.eigvalsh(M + forms)[:, -1], tops)
        assert np.mean(tops < np.linalg.eigvalsh(M)[:, -1] - 1e-6) > 0.2
        for _ in range(200):
            z = centre + half * rng.choice([-1.0, 1.0, 0.3], centre.shape)
            rest = radius**2 - np.sum(z**2, axis=1)
            other = rng.standard_normal((300, 5 - k))
            other *= np.sqrt(np.maximum(rest, 0.0) / np.sum(other**2, axis=1))[:, None]
            y = np.concatenate([other, z], axis=1)[rest > 0]
            value = np.einsum("ni,nij,nj->n", y, forms[rest > 0], y)
            scale = np.linalg.norm(forms[rest > 0], axis=(1, 2)) * radius**2 + 1e-12
            least = min(least, float(np.min(value / scale)))
    assert -1e-12 < least < 0.01


def test_the_form_of_one_regulator_proves_nothing_for_another(balanced: control.LinearQuadratic) -> None:
    found = balanced.certified_region(radius=0.8)
    for factor in (1.0, 0.3, -1.0):
        kept = balanced.cost_to_go, balanced._inputs, balanced._bounds
        gains = factor * balanced.gains
        other = control.LinearQuadratic(balanced.model, balanced.reference, balanced.times, gains, *kept)
        assert _proved(_field_of(other, {}), found.P, found.radius, 5000)[0] == (factor == 1.0)


@pytest.mark.slow
def test_regions_of_default_weights() -> None:
    for model, radius, step in (
        (ht.library.cart_pole().derive(), 1.6, 2e-3),
        (ht.library.furuta().derive(), 0.38, 2e-3),
        (ht.library.quadcopter().derive(), 0.8, 5e-3),
    ):
        found = control.certificate(control.lqr(model, model.neutral()), radius=radius)
        assert found.counterexamples(1_000_000) == 0
        assert np.max(np.linalg.eigvalsh(found.P - found.cost)) < 1e-9 * np.max(found.cost)
        assert radius > 0.19 * found.sampled_radius(
            step=step
        )  # this radius grows in steps of 15 %: 20 % of that of the page, in steps of 5 %


@pytest.mark.slow
def test_searched_regions_of_pendulums() -> None:
    for model, weights in (
        (ht.library.cart_pole().derive(), None),
        (ht.library.furuta().derive(), control.Weights(places=[1.0, 5.0], speeds=0.1, inputs=20.0)),
    ):
        found = control.certificate(control.lqr(model, model.neutral(), weights))
        assert found.counterexamples(1_000_000) == 0
        assert found.radius > 0.2 * found.sampled_radius()
