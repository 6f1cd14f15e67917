"""Gaps, normals and points of contact pairs: rates against finite differences, numbers against symbols, distances against sampling."""

from __future__ import annotations

import numpy as np
import pytest

import heavytop as ht
from heavytop._arrays import symbol
from heavytop.compile import trace_of
from heavytop.errors import ModelError
from heavytop.geometry import se3
from heavytop.system import Contact, Height, Plane, Solid

AT = se3.exp(np.array([0.1, -0.2, 0.05, 0.4, -0.3, 0.7]))
ROUND = (
    ht.Sphere(0.3),
    ht.Capsule(0.2, 0.5),
    ht.Box((0.3, 0.4, 0.5)),
    ht.Points([(0.1, 0.2, 0.3), (0.0, -0.4, 0.1)], 0.05),
)
LOW = (ht.Ellipsoid((0.3, 0.2, 0.1)), ht.Cylinder(0.3, 0.4), ht.Rim(0.25))
SOLIDS = (ht.Sphere(0.4), ht.Capsule(0.3, 0.6), ht.Box((0.5, 0.6, 0.7)), ht.Cylinder(0.4, 0.5), ht.Bore(2.0))
HILLS = Height(lambda x, y: 0.1 * np.sin(2.0 * x) + 0.05 * x * y)
PAIRS = [
    *((shape, Plane()) for shape in (*ROUND, *LOW)),
    *((shape, Solid(solid)) for shape in ROUND for solid in SOLIDS),
]


def contact(shape: object, surface: object) -> Contact:
    return Contact("pair", "b", "a", shape, AT, surface)


@pytest.mark.parametrize(("shape", "surface"), PAIRS, ids=lambda x: type(getattr(x, "shape", x)).__name__)
def test_the_rate_of_a_gap_is_the_velocity_along_its_normal(shape: object, surface: object) -> None:
    rng = np.random.default_rng(3)
    pose, twist, eps = se3.random(rng, (20,)), rng.standard_normal((20, 6)), 1e-6
    ahead, here, behind = (contact(shape, surface).candidates(pose @ se3.exp(s * twist)) for s in (eps, 0.0, -eps))
    moving = getattr(surface, "is_flat", False) and isinstance(shape, ht.Cylinder | ht.Rim)
    for k, point in enumerate(here):
        rate = (ahead[k].gap - behind[k].gap) / (2 * eps)
        exact = np.vecdot(point.normal, point.velocity(twist))
        close = np.isclose(rate, exact, atol=1e-7)
        assert np.all(close) or (not moving and np.mean(close) > 0.85)  # an edge may lie between the two poses
        axes = np.stack([point.normal, *point.tangents], axis=-1)
        assert np.allclose(np.swapaxes(axes, -1, -2) @ axes, np.eye(3), atol=1e-12)
        assert np.allclose(np.linalg.det(axes), 1.0)


@pytest.mark.parametrize("shape", [*ROUND, *LOW], ids=lambda x: type(x).__name__)
def test_no_point_of_a_shape_is_below_its_lowest_candidate(shape: object) -> None:
    """Over many random points of the solid the least height above a plane is that of the candidates, to sampling."""
    rng = np.random.default_rng(5)
    pose = se3.random(rng, (6,))
    least = np.min([c.gap for c in contact(shape, Plane()).candidates(pose)], axis=0)
    turn = rng.standard_normal((4000, 3))
    turn /= np.linalg.norm(turn, axis=1, keepdims=True)
    surface = {
        ht.Sphere: lambda: 0.3 * turn,
        ht.Capsule: lambda: 0.2 * turn + np.array([0, 0, 0.25]) * np.sign(turn[:, 2:]),
        ht.Box: lambda: turn / np.max(np.abs(turn) / (0.5 * np.array([0.3, 0.4, 0.5])), axis=1, keepdims=True),
        ht.Points: lambda: np.concatenate([0.05 * turn + place for place in ((0.1, 0.2, 0.3), (0.0, -0.4, 0.1))]),
        ht.Ellipsoid: lambda: turn * np.array([0.3, 0.2, 0.1]),
        ht.Cylinder: lambda: np.stack(
            [0.3 * np.cos(10 * turn[:, 0]), 0.3 * np.sin(10 * turn[:, 0]), 0.2 * np.sign(turn[:, 2])], axis=-1
        ),
        ht.Rim: lambda: np.stack(
            [0.25 * np.cos(10 * turn[:, 0]), 0.25 * np.sin(10 * turn[:, 0]), 0 * turn[:, 2]], axis=-1
        ),
    }[type(shape)]()
    height = se3.transform((pose @ AT)[:, None], surface[None])[..., 2].min(axis=1)
    assert np.all(height >= least - 1e-12)
    assert np.all(height <= least + 0.02)


@pytest.mark.parametrize("surface", [Plane(), HILLS, Solid(ht.Box((0.5, 0.6, 0.7)))], ids=("plane", "hills", "box"))
def test_symbols_and_numbers_agree(surface: object) -> None:
    rng = np.random.default_rng(7)
    pose = se3.random(rng, (5,))
    shape = ht.Capsule(0.2, 0.5)
    flat = symbol("pose", 16)
    found = contact(shape, surface).candidates(np.reshape(flat, (4, 4)))
    outputs = {f"{name}{k}": getattr(c, name) for k, c in enumerate(found) for name in ("gap", "point", "normal")}
    symbolic = trace_of("pair", {"pose": flat}, outputs).interpret(pose.reshape(5, 16))
    numeric = [
        getattr(c, name) for c in contact(shape, surface).candidates(pose) for name in ("gap", "point", "normal")
    ]
    for a, b in zip(symbolic, numeric, strict=True):
        assert np.allclose(a, b, rtol=0.0, atol=1e-13)


def test_a_sphere_touches_a_bowl_where_the_centres_are_aligned() -> None:
    """In the bowl z = R - sqrt(R^2 - x^2 - y^2) a ball of radius r touches on the line from the centre of the bowl."""
    R, r = 1.0, 0.2
    bowl = Height(lambda x, y: R - np.sqrt(R * R - x * x - y * y))
    away = np.array([0.3, 0.2, 0.0])
    center = away + np.array([0.0, 0.0, R - np.sqrt(R * R - away @ away)])
    normal = np.array([0.0, 0.0, R]) - center
    place = se3.pose(np.eye(3), center + r * normal / np.linalg.norm(normal))
    [point] = Contact("ball", "b", "a", ht.Sphere(r), np.eye(4), bowl).candidates(place)
    assert abs(point.gap) < 1e-4
    assert np.allclose(point.normal, normal / np.linalg.norm(normal), atol=2e-3)


def test_mistakes_are_reported() -> None:
    system = ht.System()
    system.body("ball", joint=ht.Free(), inertia=ht.Inertia(1.0, moment_at_com=(1, 1, 1)))
    with pytest.raises(ModelError, match=r"system.ground\(\)"):
        system.contact("ball", shape=ht.Sphere(0.1), friction=0.5)
    system.ground()
    with pytest.raises(ModelError, match="friction"):
        system.contact("ball", shape=ht.Sphere(0.1))
    with pytest.raises(ModelError, match="restitution"):
        system.contact("ball", shape=ht.Sphere(0.1), friction=0.5, restitution=1.5)
    with pytest.raises(ModelError, match="ht.Sphere"):
        system.contact("ball", shape="sphere", friction=0.5)  # type: ignore[arg-type]
    system.contact("ball", shape=ht.Sphere(0.1), friction=0.5)
    with pytest.raises(ModelError, match="itself"):
        system.contact("ball", "ball", ht.Sphere(0.1), friction=0.5)
    system.contact("wheel", shape=ht.Sphere(0.1), friction=0.5)
    with pytest.raises(ModelError, match="wheel"):
        system.describe()


def test_what_points_do_not_see_is_reported() -> None:
    assert contact(ht.Box((1, 1, 1)), Plane()).unseen == ""
    assert "edges" in contact(ht.Box((1, 1, 1)), Solid(ht.Box((1, 1, 1)))).unseen
    assert "barrel" in contact(ht.Capsule(0.1, 1.0), Solid(ht.Box((1, 1, 1)))).unseen
    assert "hills" in contact(ht.Box((1, 1, 1)), HILLS).unseen


def test_a_pin_must_fit_in_its_bore_and_a_bore_has_no_volume() -> None:
    with pytest.raises(ModelError, match="does not fit"):
        Contact("pin", "pin", "world", ht.Sphere(0.06), np.eye(4), Solid(ht.Bore(0.05)))
    for shape in (ht.Bore(0.05), ht.Points([(0.0, 0.0, 0.0)])):
        with pytest.raises(ModelError, match="no volume"):
            ht.Inertia.of(shape, mass=1.0)


@pytest.mark.parametrize(("waves", "radius", "accuracy"), [(5.0, 0.3, 1e-9), (20.0, 0.1, 5e-6)])
def test_a_sphere_that_touches_a_wavy_height_has_no_gap(waves: float, radius: float, accuracy: float) -> None:
    """Radius times curvature 0.15 and 0.8: the lowest centre over x without overlap is found on a fine grid."""
    amplitude = 0.02
    system = ht.System(name="waves")
    system.body("ball", joint=ht.Free(), inertia=ht.Inertia.of(ht.Sphere(radius), density=100.0))
    system.ground(height=lambda x, y: amplitude * np.sin(waves * x), friction=0.0)
    system.contact("ball", "ground", ht.Sphere(radius), stiffness=1e4)
    model = system.derive()
    x = np.linspace(0.0, 2 * np.pi / waves, 41)
    near = x[:, None] + np.linspace(-radius, radius, 20001)
    cap = np.sqrt(np.maximum(radius**2 - (near - x[:, None]) ** 2, 0.0))
    q = np.tile(model.neutral(), (len(x), 1))
    q[:, 0], q[:, 2] = x, (amplitude * np.sin(waves * near) + cap).max(axis=1)
    assert np.abs(model.contact_forces(q, np.zeros((len(x), 6)))["ball"].gap).max() < accuracy
    [contact] = [e.contact for e in model.description.elements if hasattr(e, "contact")]
    assert contact.unseen == "hollows that are narrower than the roundness of the shape"
