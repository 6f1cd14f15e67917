"""Vehicles with arms: description, law, flight, page, TOML, mistakes."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

import heavytop as ht
from heavytop.copters import Conditions, Limb, Rotor, Vehicle, fly, load, maneuvers, multicopter
from heavytop.errors import FileFormatError, ModelError
from heavytop.geometry import se3

ARM = (
    Limb("upper", 0.15, tip=(0, 0, -0.25), at=(0, 0, -0.05), force=4.0, path=lambda t: 0.4 * np.sin(t)),
    Limb("lower", 0.10, tip=(0.2, 0, 0), parent="upper", force=2.0, path=0.3),
)


def y6_rotors() -> list[Rotor]:
    return [
        Rotor((0.3 * np.cos(a), 0.3 * np.sin(a), z), drag_ratio=spin * 0.02, thrust=(0.0, 9.0))
        for a in (np.pi / 3, np.pi, -np.pi / 3)
        for z, spin in ((0.04, 1), (-0.04, -1))
    ]


@cache
def y6() -> Vehicle:
    return multicopter(y6_rotors(), 1.8, (0.03, 0.03, 0.05), name="Y6 with arm", limbs=ARM)


def test_description_of_a_vehicle_with_an_arm() -> None:
    craft = y6()
    assert (craft.model.nv, craft.model.nu) == (8, 8)
    assert craft.model.u_names[-2:] == ("motor_upper", "motor_lower")
    assert craft.mass == pytest.approx(2.05)
    lower, upper = craft.limits.bounds(craft.model)
    np.testing.assert_array_equal(lower, [0.0] * 6 + [-4.0, -2.0])
    np.testing.assert_array_equal(upper, [9.0] * 6 + [4.0, 2.0])
    # the second link begins at the tip of the first
    pose = craft.model.pose("upper", "lower", craft.model.neutral())
    np.testing.assert_allclose(pose[:3, 3], (0, 0, -0.25))


def test_inertia_of_a_rod() -> None:
    """Equal to the integral over the particles of the rod, up to its thickness."""
    tip = np.array([0.1, -0.2, 0.3])
    s = np.linspace(0.0, 1.0, 20_001)[:, None] * tip
    off = s - s.mean(axis=0)
    moment = 0.4 * (np.mean(np.sum(off**2, axis=1)) * np.eye(3) - off.T @ off / len(off))
    np.testing.assert_allclose(Limb("rod", 0.4, tip=tip).inertia.moment_at_com, moment, atol=1e-4)


@pytest.mark.thorough
def test_maneuver_leads_the_common_centre_of_mass_and_the_joints() -> None:
    craft = y6()
    maneuver = maneuvers.circle(craft, laps=1)
    report = maneuver.check()
    report.require()
    assert report.largest_residual < 1e-9
    q, _, _ = maneuver(np.linspace(0.0, maneuver.duration, 7))
    np.testing.assert_allclose(q[:, -1], 0.3)
    center = sum(
        float(i.mass) * se3.transform(craft.model.pose("world", b, q), np.asarray(i.com, dtype=float))
        for b, i in craft.model.description.inertias.items()
    )
    np.testing.assert_allclose(center[:, 2], 0.0, atol=1e-12)
    assert "flip" not in maneuvers.suited(craft)


@pytest.mark.slow
def test_flight_with_an_arm_tracks_exactly_in_calm_and_well_in_wind(tmp_path) -> None:
    """On its feasible reference the law commands what the reference needs: the error is that of the sampling."""
    from heavytop.show import write_flight

    calm = fly(y6(), "eight")
    assert calm.outcome.ok
    assert calm.position_error.max() < 1e-3
    windy = fly(y6(), "eight", wind=4.0)
    assert windy.outcome.ok
    assert windy.position_error.max() < 0.15
    assert windy.numbers()["joint error max [rad]"] < 0.15
    page = write_flight(windy, tmp_path / "arm.html").read_text(encoding="utf-8")
    assert "tip of lower" in page
    assert "Joints" in page


@pytest.mark.slow
def test_poles_at_rest_are_those_of_the_prototype() -> None:
    """The lever of the common centre of mass keeps the slow lateral poles; a limb's desired inertia moves the fast ones."""
    hanging = Limb("rod", 0.3, tip=(0, 0, -0.3))
    craft = multicopter(y6_rotors(), 1.8, (0.03, 0.03, 0.05), limbs=[hanging])
    found = ht.control.hover(craft.law(limits=False)).poles
    for pole, near in ((-2.0, 0.15), (-6.4 + 4.8j, 0.6)):
        assert np.min(np.abs(found - pole)) < near
    assert np.max(found.real) < -1.0


@pytest.mark.slow
def test_recovers_from_far_with_limits() -> None:
    craft = y6()
    rng = np.random.default_rng(0)
    q = craft.model.random(rng, (12,))
    q[:, :3] = rng.uniform(-3, 3, (12, 3))
    q[:, -2:] = rng.uniform(-0.5, 0.5, (12, 2))
    law = craft.law().with_reference(craft.model.neutral())
    found = ht.control.region_of_attraction(craft.model, law, (q, np.zeros((12, 8))), until=15.0, step=5e-3)
    assert found.share == 1.0


TOML = """
name = "arm"
mass = 0.9
moment = [0.008, 0.008, 0.014]
[rotors]
thrust_coefficient = 9e-6
torque_coefficient = 1.6e-7
speed = [0.0, 950.0]
[[limb]]
name = "boom"
mass = 0.1
tip = [0.0, 0.0, -0.2]
force = 1.5
angle = 0.2
swing = 0.3
[[limb]]
name = "slide"
mass = 0.05
tip = [0.0, 0.0, -0.1]
parent = "boom"
slides = true
axis = [0, 0, 1]
"""
ROTORS = "".join(
    f"[[rotor]]\nat = [{x}, {y}, 0.0]\ntorque = {s}\n"
    for x, y, s in ((0.2, 0, 1), (0, 0.2, -1), (-0.2, 0, 1), (0, -0.2, -1))
)


def test_limbs_in_toml(tmp_path) -> None:
    path = tmp_path / "arm.toml"
    path.write_text(TOML + ROTORS, encoding="utf-8")
    craft = load(path)
    assert [limb.name for limb in craft.limbs] == ["boom", "slide"]
    assert craft.limbs[1].joint.kind == "prismatic"
    assert craft.limbs[0].path(1.5) == pytest.approx(0.2 + 0.3)
    assert craft.limits.bounds(craft.model)[1][-2] == 1.5
    path.write_text(TOML.replace("force = 1.5", "force = -1") + ROTORS, encoding="utf-8")
    with pytest.raises(FileFormatError, match=r"line 13: 'force' must be a positive number"):
        load(path)
    path.write_text(TOML.replace('parent = "boom"', 'parent = "bom"') + ROTORS, encoding="utf-8")
    with pytest.raises(FileFormatError, match=r"line 20: .*'bom' .*'slide' .*hull, boom"):
        load(path)
    path.write_text(TOML.replace('name = "slide"', 'name = "boom"') + ROTORS, encoding="utf-8")
    with pytest.raises(FileFormatError, match=r"line 17: two bodies have the name 'boom'"):
        load(path)


def test_mistakes_raise() -> None:
    with pytest.raises(ModelError, match="one coordinate"):
        Limb("arm", 0.1, joint=ht.Spherical())
    for wrong, what in (
        ({"mass": 0.0}, "mass"),
        ({"mass": np.inf}, "mass"),
        ({"tip": (np.nan, 0, 0)}, "tip"),
        ({"path": np.nan}, "path"),
        ({"frequency": np.inf}, "frequency"),
    ):
        with pytest.raises(ModelError, match=f"{what} of the limb 'arm'"):
            Limb("arm", **{"mass": 0.1, **wrong})
    for wrong in ([Limb("a", 0.1, parent="b")], [Limb("a", 0.1), Limb("a", 0.1)], [Limb("hull", 0.1)]):
        with pytest.raises(ModelError, match=r"parent|two bodies"):
            multicopter(y6_rotors(), 1.8, (0.03, 0.03, 0.05), limbs=wrong)


@pytest.mark.thorough
def test_limbs_fly_with_rotors_that_lag() -> None:
    for law in ("energy", "robust"):
        assert fly(y6(), "hover", law, rotors=True, until=2.0).numbers()["position error rms [m]"] < 0.01
    study = ht.sweep(y6(), {"tilt": [0.1, 0.2]}, until=0.02, rotors=True)
    assert np.isfinite(study["position_error"]).all()


@pytest.mark.thorough
def test_noise_of_joints_is_of_lengths_where_they_slide_and_of_angles_where_they_turn() -> None:
    craft = multicopter(
        y6_rotors(),
        1.8,
        (0.03, 0.03, 0.05),
        limbs=(
            Limb("arm", 0.1, force=3.0),
            Limb("drawer", 0.05, tip=(0.1, 0, 0), joint=ht.Prismatic("x"), parent="arm", force=5.0),
        ),
    )
    place, speed = Conditions(noise=2.0).deviations(craft.model)
    turn = 2 * np.deg2rad(0.3)
    np.testing.assert_allclose(place, [0.01] * 3 + [turn] * 4 + [0.01])
    np.testing.assert_allclose(speed, [0.06] * 3 + [0.04] * 4 + [0.06])
    flight = fly(craft, "hover", noise=1.0, until=0.5)
    assert flight.outcome.ok
    assert 1e-4 < flight.position_error.max() < 0.05
