"""References: curves, flatness, flips, waypoints, feasibility."""

from __future__ import annotations

import numpy as np
import pytest

import heavytop as ht
from heavytop import control, vector
from heavytop.control import (
    Reference,
    circle,
    derivatives,
    figure_eight,
    flat_reference,
    looping,
    minimum_snap,
    recorded_reference,
    rest_to_rest,
    smoothstep,
    thrust_reference,
)
from heavytop.errors import ControlError, ShapeError
from heavytop.geometry import se3, so3


def consistent(reference: Reference, times: np.ndarray, tolerance: float = 1e-6) -> None:
    """q' = A(q) v and v' = a, by central differences."""
    h = 1e-4
    model = reference.model
    q, v, a = reference(times)
    (q1, v1, _), (q2, v2, _) = reference(times + h), reference(times - h)
    np.testing.assert_allclose(model.rate(q, v), (q1 - q2) / (2 * h), atol=tolerance * (1 + np.max(np.abs(v)) ** 3))
    np.testing.assert_allclose(a, (v1 - v2) / (2 * h), atol=tolerance * (1 + np.max(np.abs(a)) ** 2))


# --- curves -----------------------------------------------------------------------------------------------------------------


def test_smoothstep() -> None:
    assert [float(smoothstep(s)) for s in (-1.0, 0.0, 1.0, 2.0)] == [0.0, 0.0, 1.0, 1.0]
    values = derivatives(lambda t: np.reshape(smoothstep(t), (1,)), 5)(np.array([1e-9, 1 - 1e-9]))
    for order in range(1, 5):
        np.testing.assert_allclose(values[order], 0.0, atol=1e-3)
    assert np.min(np.abs(values[5])) > 1e3


def test_rest_to_rest() -> None:
    curve = rest_to_rest((1, 2, 3), (4, 4, 4), 2.0, begin=1.0)
    np.testing.assert_allclose(curve(np.array([0.0, 2.0, 5.0])), [(1, 2, 3), (2.5, 3, 3.5), (4, 4, 4)])
    with pytest.raises(ControlError, match="duration"):
        rest_to_rest((0, 0, 0), (1, 1, 1), 0.0)


def test_minimum_snap_passes_the_points_at_rest_and_is_smooth() -> None:
    points, times = np.array([[0, 0, 0], [2, 1, 1], [3, -1, 2], [0, 0, 1]]), np.array([0.0, 1.5, 2.5, 4.5])
    curve = minimum_snap(points, times)
    np.testing.assert_allclose(curve(times), points, atol=1e-10)
    traced = derivatives(curve, 6)
    np.testing.assert_allclose(traced(times)[0], points, atol=1e-10)
    ends = [value[[0, -1]] for value in traced(np.array([1e-12, 4.5 - 1e-12]))]
    for order in (1, 2, 3):
        np.testing.assert_allclose(ends[order], 0.0, atol=1e-8)
    before, after = traced(times[1:3] - 1e-9), traced(times[1:3] + 1e-9)
    for order in range(7):
        np.testing.assert_allclose(before[order], after[order], atol=1e-4 * (1 + np.max(np.abs(after[order]))))


def test_minimum_snap_is_a_minimum() -> None:
    points, times = np.array([[0.0], [1.0], [0.5]]), np.array([0.0, 1.0, 2.0])
    curve = minimum_snap(points, times)

    def snap(extra) -> float:
        t = np.linspace(0, 2, 4001)
        values = derivatives(lambda t: curve(t) + extra(t), 4)(t)[4][:, 0]
        return float(np.trapezoid(values**2, t))

    def bump(size):  # vanishes with three derivatives at both ends and at the point in the middle
        return lambda t: np.reshape(size * (t * (t - 2.0)) ** 4 * (t - 1.0), (1,))

    least = snap(lambda t: np.reshape(0.0 * t, (1,)))
    assert snap(bump(1e-2)) > least
    assert snap(bump(-1e-2)) > least


def test_bad_waypoints() -> None:
    with pytest.raises(ControlError, match="must increase"):
        minimum_snap([[0, 0], [1, 1]], [1.0, 1.0])
    with pytest.raises(ShapeError, match=r"times of minimum_snap.*\(3,\)"):
        minimum_snap([[0, 0], [1, 1], [2, 2]], [0.0, 1.0])


def test_plane_of_a_curve() -> None:
    np.testing.assert_allclose(circle(2.0, 1.0, "yz")(np.pi / 2), (0, 0, 2), atol=1e-15)
    with pytest.raises(ControlError, match="'w'"):
        circle(1.0, 1.0, "xw")


# --- flatness ---------------------------------------------------------------------------------------------------------------


def test_looping_numbers(lab) -> None:
    reference, _ = lab.manoeuvre("loop")
    report = reference.feasibility(samples=6001)
    assert (report.lower.min(), report.upper.max()) == (pytest.approx(2.157, abs=6e-4), pytest.approx(5.591, abs=6e-4))
    assert report.largest_residual < 1e-12
    _, v, _ = reference(np.linspace(0, 6, 6001))
    assert np.linalg.norm(v[:, 3:], axis=1).max() == pytest.approx(7.545, abs=6e-4)
    assert np.linalg.norm(v[:, :3], axis=1).max() == pytest.approx(6.44, abs=6e-3)
    consistent(reference, np.linspace(0.1, 5.0, 40))


def test_eights_are_feasible(lab) -> None:
    reference, _ = lab.manoeuvre("eight1.5")
    report = reference.feasibility(samples=4001)
    assert (report.lower.min(), report.upper.max()) == (pytest.approx(-0.93, abs=6e-3), pytest.approx(7.32, abs=6e-3))
    consistent(reference, np.linspace(0.0, 4.0, 40))


def free_fall(t):
    """The specific force is (t - 1) (3 + t, 0, 8 - 3 t): it changes its sign at t = 1."""
    return vector(t**4 / 12 + t**3 / 3 - 1.5 * t**2, 0.0 * t, -(t**4) / 4 + 11 * t**3 / 6 - (8 + 9.81) * t**2 / 2)


def test_through_free_fall(lab) -> None:
    model = lab.vehicle("quadcopter").model
    reference = flat_reference(model, free_fall, side=(0, 1, 0), duration=2.0)
    assert reference.traced is None
    np.testing.assert_allclose(reference.breaks, (1.0,), atol=1e-12)
    report = reference.feasibility()
    assert report.largest_residual < 1e-12
    thrust = report.inputs.sum(axis=1)
    assert np.all(np.diff(np.sign(thrust)) <= 0)
    assert thrust.max() > 1.0 > -1.0 > thrust.min()
    consistent(reference, np.linspace(0.1, 1.9, 60))
    for offset in (1e-13, 1e-9, 1e-5, 1e-3, 1.0001e-3, 2e-3):
        near, far = reference(1.0 - offset), reference(1.0 + offset)
        for x, y in zip(near, far, strict=True):
            np.testing.assert_allclose(x, y, atol=60 * offset + 1e-9)


def test_near_free_fall_is_rejected(lab) -> None:
    model = lab.vehicle("quadcopter").model
    with pytest.raises(ControlError, match="nearly vanishes"):
        flat_reference(model, lambda t: free_fall(t) + vector(0.0, 0.001 * t**2, 0.0), side=(0, 1, 0), duration=2.0)

    def fall(t):
        return vector((t - 1.0) ** 5, 0.0 * t, -9.81 / 2 * t**2)

    with pytest.raises(ControlError, match="t = 1 s together with its rate"):
        flat_reference(model, fall, side=(0, 1, 0), duration=2.0)


def test_two_zeros(lab) -> None:
    """The specific force (t - 1) (t - 2) (1, 0, 3 + t) vanishes twice."""
    model = lab.vehicle("quadcopter").model

    def curve(t):
        x = t**4 / 12 - t**3 / 2 + t**2  # integrates t^2 - 3 t + 2 twice
        z = t**5 / 20 - 7 * t**3 / 6 + 3 * t**2 - 9.81 * t**2 / 2  # (t^2 - 3 t + 2) (t + 3) = t^3 - 7 t + 6
        return vector(x, 0.0 * t, z)

    reference = flat_reference(model, curve, side=(0, 1, 0), duration=3.0)
    np.testing.assert_allclose(reference.breaks, (1.0, 2.0), atol=1e-9)
    assert reference.feasibility().largest_residual < 1e-12
    consistent(reference, np.linspace(0.1, 2.9, 61))


def test_singular_heading(lab) -> None:
    model = lab.vehicle("quadcopter").model
    with pytest.raises(ControlError, match="singular at t = "):
        flat_reference(model, looping(1.5, 3.6), heading=(0, 0, 1.0), duration=3.6)
    with pytest.raises(ControlError, match="not both"):
        flat_reference(model, looping(1.5, 3.6), heading=(1, 0, 0), side=(0, 1, 0))


# --- prescribed thrust ---------------------------------------------------------------------------------------------------------


def test_flip_numbers(lab) -> None:
    reference, _ = lab.manoeuvre("flip")
    t = np.linspace(0.0, 2.4, 4801)
    q, v, _ = reference(t)
    report = reference.feasibility(samples=4801)
    assert q[:, 2].max() == pytest.approx(1.132, abs=6e-4)
    assert np.abs(q[:, 0]).max() == pytest.approx(0.0167, abs=6e-5)
    assert np.linalg.norm(v[:, 3:], axis=1).max() == pytest.approx(17.18, abs=6e-3)
    assert (report.lower.min(), report.upper.max()) == (pytest.approx(-1.92, abs=6e-3), pytest.approx(3.27, abs=6e-3))
    f = report.inputs.sum(axis=1) / 0.9
    assert (f.min(), f.max()) == (pytest.approx(-4.97, abs=6e-3), pytest.approx(13.51, abs=6e-3))
    assert report.largest_residual < 1e-12
    consistent(reference, np.linspace(0.05, 2.35, 60))
    # rest to rest in the starting place
    q, v, _ = reference(np.array([2.4 - 1e-9, 2.4, 3.0]))
    np.testing.assert_allclose(q, np.broadcast_to(lab.configuration(), q.shape), atol=1e-9)
    np.testing.assert_allclose(v, 0.0, atol=1e-8)


def test_thrust_reference_of_constant_thrust_is_a_parabola(lab) -> None:
    model = lab.vehicle("quadcopter").model
    reference = thrust_reference(
        model, lambda t: 0.0 * t, lambda t: np.full(len(t), 12.0), duration=2.0, start=(1, 2, 3)
    )
    q, v, _ = reference(np.array([0.5, 1.5]))
    np.testing.assert_allclose(q[:, 2], 3 + 0.5 * (12 - 9.81) * np.array([0.25, 2.25]), rtol=1e-12)
    np.testing.assert_allclose(v[:, 2], (12 - 9.81) * np.array([0.5, 1.5]), rtol=1e-12)


# --- other references ------------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_pose_curve_in_any_coordinates() -> None:
    from heavytop.copters import tricopter

    def pose(t):
        return se3.pose(so3.rotation_about("x", np.sin(t)) @ so3.rotation_about("z", 2 * t), vector(t, np.cos(t), 0.0))

    for attitude, velocity in (("matrix", "body"), ("quaternion", "mixed"), ("matrix", "unified")):
        model = tricopter(attitude=attitude, velocity=velocity).model
        reference = Reference.from_pose(model, pose)
        consistent(reference, np.linspace(0.1, 1.3, 7))
        np.testing.assert_allclose(model.pose("world", "hull", reference(0.4)[0]), pose(0.4), atol=1e-12)


def test_function_of_a_tree(lab) -> None:
    model = lab.vehicle("tricopter_with_load").model

    def place(t):
        hull = so3.rotation_about("z", 0.8 * t) @ so3.rotation_about("y", 0.4 * np.sin(2 * t))
        load = so3.rotation_about("x", 0.6 * np.cos(t))
        r = vector(np.sin(t), 0.5 * t, np.cos(t))
        return np.concatenate([r, np.reshape(hull.T, (9,)), np.reshape(load.T, (9,))])

    reference = Reference.from_function(model, place)
    consistent(reference, np.linspace(0.0, 2.0, 9))
    with pytest.raises(ControlError, match="single free body"):
        Reference.from_pose(model, lambda t: se3.pose(so3.rotation_about("x", t), np.zeros(3)))


def test_recorded_reference(lab) -> None:
    reference, _ = lab.manoeuvre("eight0.8")
    t = np.arange(0.0, 2.0, 2e-3)
    recorded = recorded_reference(reference.model, t, *reference(t))
    between = np.linspace(0.0, 1.9, 777)
    for x, y in zip(recorded(between), reference(between), strict=True):
        np.testing.assert_allclose(x, y, atol=1e-4)
    with pytest.raises(ControlError, match="equidistant"):
        recorded_reference(reference.model, t**2, *reference(t))


def test_delayed_reference(lab) -> None:
    reference, _ = lab.manoeuvre("loop")
    late = reference.delayed(1.0)
    for x, y in zip(late(2.5), reference(1.5), strict=True):
        np.testing.assert_allclose(x, y)
    assert np.max(np.abs(late(0.5)[1])) == 0.0


def test_set_point_is_constant(lab) -> None:
    model = lab.vehicle("quadcopter").model
    q, v, a = Reference.set_point(model, lab.configuration((1, 2, 3)))(np.zeros((2, 3)))
    assert q.shape == (2, 3, 12)
    assert np.all(v == 0)
    assert np.all(a == 0)


# --- feasibility ----------------------------------------------------------------------------------------------------------------


def test_an_infeasible_reference(lab) -> None:
    model = lab.vehicle("quadcopter").model
    sideways = Reference.from_pose(
        model, lambda t: se3.pose(np.eye(3), vector(np.sin(t), 0.0 * t, 0.0 * t)), duration=3.0
    )
    report = sideways.feasibility()
    assert not report.is_feasible()
    with pytest.raises(ControlError, match=r"t = 1.57\d* s .* force of up to 0.9"):
        report.require()


def test_a_reference_beyond_the_limits(lab) -> None:
    reference, _ = lab.manoeuvre("loop")
    reference.feasibility((0.0, 6.0)).require()
    report = reference.feasibility((0.0, 5.5))
    assert report.outside == ("thrust0", "thrust2")
    assert "beyond its limits" in report.report()
    with pytest.raises(ControlError, match=r"'thrust0' needs 2.157 to 5.591"):
        report.require()


def test_bad_references(lab) -> None:
    model = lab.vehicle("quadcopter").model
    with pytest.raises(ControlError, match="function"):
        Reference(model)
    with pytest.raises(ShapeError, match=r"\(12,\), got \(3,\)"):
        Reference.from_function(model, lambda t: vector(t, t, t))
    with pytest.raises(ControlError, match="finite times"):
        Reference.set_point(model)(np.nan)
    assert figure_eight(1.0)(0.0).shape == (3,)


def test_a_delayed_reference_keeps_period_and_start_time() -> None:
    system = ht.System(gravity=(0, 0, 0), name="cart")
    system.body("cart", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.input("motor", ht.JointForce("cart"))
    model = system.derive()
    swing = Reference.from_function(model, lambda t: ht.vector(np.sin(2 * np.pi * t)), period=1.0)
    late = swing.delayed(0.25)
    assert (late.period, late.begin, late.horizon) == (1.0, 0.25, 1.25)
    law = control.computed_torque(model, stiffness=1.0, damping=5.0)
    np.testing.assert_allclose(
        control.floquet_exponents(law, late, steps=200), control.floquet_exponents(law, swing, steps=200)
    )
    kept = Reference(model, swing, duration=2.0, start_time=3.0, parameters={}).delayed(0.5)
    assert (kept.start_time, kept.duration) == (3.0, 2.5)
    rest = Reference.set_point(model, [1.0])
    assert rest.delayed(2.0).is_constant
    assert not swing.is_constant
    with pytest.raises(ControlError, match="-1"):
        swing.delayed(-1.0)


def test_a_recorded_reference_rests_before_and_after() -> None:
    model = ht.library.pendulum().derive()
    t = np.linspace(0, 2, 41)
    record = control.recorded_reference(model, t + 1, np.sin(t)[:, None], np.cos(t)[:, None], -np.sin(t)[:, None])
    q, v, a = record(np.array([0.0, 0.99, 1.0, 2.0, 3.0, 3.1]))
    np.testing.assert_allclose(q[:, 0], np.sin([0, 0, 0, 1, 2, 2]), atol=1e-6)
    np.testing.assert_allclose(v[:, 0], [0, 0, 1, np.cos(1), np.cos(2), 0], atol=1e-3)
    np.testing.assert_allclose(a[:, 0], [0, 0, 0, -np.sin(1), -np.sin(2), 0], atol=1e-3)


def test_options_of_constant_curves_are_kept() -> None:
    model = ht.library.cart_pole().derive()
    rest = control.Reference.from_function(model, lambda t: np.array([0.3, 0.0]), duration=2.0, start_time=5.0)
    assert (rest.duration, rest.start_time, rest.period) == (2.0, 5.0, None)
    assert control.Reference.set_point(model).period == 1.0
    with pytest.raises(TypeError, match="durration"):
        control.Reference.from_function(model, lambda t: np.array([0.3, 0.0]), durration=2.0)


# --- wrong references -------------------------------------------------------------------------------------------------------


def pendulum() -> ht.Model:
    return ht.library.pendulum().derive(native=False)


@pytest.mark.parametrize("name", ["duration", "period"])
@pytest.mark.parametrize("value", [0.0, np.nan, np.inf])
def test_durations_and_periods_are_positive(name: str, value: float) -> None:
    with pytest.raises(ControlError, match=name):
        Reference.from_function(pendulum(), lambda t: vector(np.sin(t)), **{name: value})


def test_functions_that_do_not_return_a_motion_are_rejected() -> None:
    model, one = pendulum(), np.zeros((1, 1))
    for evaluate, message in (
        (lambda t: (one, one), "three arrays.* got 2"),
        (lambda t: None, "three arrays.* got None"),
        (lambda t: (one, np.zeros(1), one), "v_R"),
        (lambda t: (np.zeros((1, 2)), one, one), "q_R"),
    ):
        with pytest.raises((ControlError, ShapeError), match=message):
            Reference(model, evaluate, duration=1.0)(0.5)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"q": np.zeros((4, 1))}, "q of a recorded reference"),
        ({"a": np.zeros((3, 2))}, "a of a recorded reference"),
        ({"v": np.full((3, 1), np.nan)}, "v of a recorded reference"),
        ({"t": [2.0, 1.0, 0.0]}, "increasing"),
        ({"t": [0.0]}, "increasing"),
        ({"t": [0.0, 1.0, 3.0]}, "equidistant"),
    ],
)
def test_wrong_records_are_rejected(changed: dict, message: str) -> None:
    record = {"t": [0.0, 1.0, 2.0], "q": np.zeros((3, 1)), "v": np.zeros((3, 1)), "a": np.zeros((3, 1))}
    assert recorded_reference(pendulum(), **record).duration == 2.0
    with pytest.raises((ControlError, ShapeError), match=message):
        recorded_reference(pendulum(), **{**record, **changed})
