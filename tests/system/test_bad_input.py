"""Plausible mistakes in descriptions and arguments: each raises a typed error with the names and numbers that matter."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import heavytop as ht
from heavytop.errors import ConfigurationError, HeavytopError, ModelError, ShapeError, UnknownNameError

NAN = float("nan")
INERTIA = ht.Inertia(1.0, moment_at_com=(1, 1, 1))
STRETCHED = np.diag([2.0, 2.0, 2.0, 1.0])


def arm() -> ht.System:
    """Two bodies: a revolute joint, then a ball joint."""
    system = ht.System(name="arm")
    system.body("upper", joint=ht.Revolute("x"), inertia=INERTIA)
    system.body("lower", parent="upper", at=(0, 0, 1), joint=ht.Spherical("quaternion"), inertia=INERTIA)
    return system


def foreign() -> Any:
    """A parameter of another system."""
    return ht.System().parameter("alien", 1.0)


def custom(pose: Callable[[Any], Any]) -> ht.Custom:
    return ht.Custom(ht.coordinates.Angle(), pose)


class Spiral(ht.coordinates.Circle):
    """A circle whose rate leads off it."""

    def kinematics_matrix(self, q):
        return super().kinematics_matrix(q) + 0.1


AT_ONCE: dict[str, tuple[type[Exception], str, Callable[[ht.System], Any]]] = {
    "duplicate": (ModelError, "'upper'", lambda s: s.body("upper", joint=ht.Fixed())),
    "reserved": (ModelError, "'world'", lambda s: s.body("world", joint=ht.Fixed())),
    "frame": (ModelError, "'lower'", lambda s: s.frame("lower", "upper", (0, 0, 0))),
    "colon": (ModelError, "'a:b'", lambda s: s.body("a:b")),
    "joint name": (ModelError, "'lower'.*connect", lambda s: s.connect("world", "lower", ht.Fixed())),
    "triangle inequality": (ModelError, r"\[1\. 1\. 3\.\]", lambda s: ht.Inertia(1.0, moment_at_com=(1, 1, 3))),
    "negative mass": (ModelError, "mass.*-1", lambda s: ht.Inertia(-1.0)),
    "negative moment": (ModelError, r"\[-1\.", lambda s: ht.Inertia(1.0, moment_at_com=(-1, 1, 1))),
    "asymmetric": (
        ModelError,
        "moment_at_com.*0.1",
        lambda s: ht.Inertia(1.0, moment_at_com=[[1, 0.1, 0], [0, 1, 0], [0, 0, 1]]),
    ),
    "moment": (ShapeError, r"moment_at_com.*\(3, 3\).*\(2,\)", lambda s: ht.Inertia(1.0, moment_at_com=(1, 1))),
    "com": (ShapeError, r"com.*\(3,\).*\(2,\)", lambda s: ht.Inertia(1.0, (0, 0))),
    "mass nan": (ShapeError, "mass.*nan", lambda s: ht.Inertia(NAN)),
    "particles": (ShapeError, r"\(2, 3\).*\(1, 3\)", lambda s: ht.Inertia.from_particles([1, 2], [[1, 2, 3]])),
    "first moment": (ModelError, "zero", lambda s: ht.Inertia.from_moments(np.eye(4)[[3, 1, 2, 0]] * [1, 0, 0, 1])),
    "parameter mass": (
        ModelError,
        "'hand'.*mass.*-1",
        lambda s: s.body("hand", joint=ht.Fixed(), inertia=ht.Inertia(s.parameter("m", -1.0))),
    ),
    "foreign mass": (
        ModelError,
        "'hand'.*'arm'.*alien",
        lambda s: s.body("hand", joint=ht.Fixed(), inertia=ht.Inertia(foreign())),
    ),
    "other moments": (
        ModelError,
        "'hand'.*Inertia.*Damping",
        lambda s: s.body("hand", joint=ht.Fixed(), inertia=ht.Damping(1.0)),
    ),
    "damping": (ModelError, "-0.1", lambda s: ht.Damping(-0.1)),
    "stiffness": (ModelError, "-1", lambda s: ht.Stiffness(-1.0)),
    "stiffness moment": (ModelError, "minimum", lambda s: ht.Stiffness(1.0, moment_at_center=(-1, 1, 1))),
    "springs": (ModelError, r"\[-1\.0\]", lambda s: ht.Stiffness.from_springs([-1.0], [[0, 0, 0]], [[0, 0, 0]])),
    "spring points": (
        ShapeError,
        r"points_a.*\(1, 3\).*\(3,\)",
        lambda s: ht.Stiffness.from_springs([1.0], [[0, 0, 0]], [0, 0, 0]),
    ),
    "rest": (ShapeError, r"rest.*\(2,\)", lambda s: s.spring("upper", "lower", ht.Stiffness(1.0), rest=(0, 0))),
    "zero axis": (ModelError, "Revolute.*zero", lambda s: ht.Revolute((0, 0, 0))),
    "letter": (ModelError, "'w'", lambda s: ht.Revolute("w")),
    "axis": (ShapeError, "Prismatic", lambda s: ht.Prismatic((1, 2))),
    "parallel": (ModelError, "'x' and '-x'", lambda s: ht.Universal(("x", "-x"))),
    "coordinates": (ModelError, "'angle'.*'circle'.*'sin'", lambda s: ht.Revolute("x", coordinates="sin")),
    "attitude": (ModelError, "'quaternion'.*'quat'", lambda s: ht.Free("quat")),  # type: ignore[arg-type]
    "velocity": (ModelError, "'mixed'.*'world'", lambda s: ht.Free(velocity="world")),
    "at": (ShapeError, r"'hand'.*\(3,\).*\(2,\)", lambda s: s.body("hand", at=(0, 0), joint=ht.Fixed())),
    "at nan": (ShapeError, "'hand'.*nan", lambda s: s.body("hand", at=(0, 0, NAN), joint=ht.Fixed())),
    "reflection": (ModelError, "det = -1", lambda s: s.body("hand", at=np.diag([1, 1, -1, 1]), joint=ht.Fixed())),
    "stretched": (ModelError, "'hand'.*3 from orth", lambda s: s.body("hand", at=STRETCHED, joint=ht.Fixed())),
    "foreign at": (ModelError, "'hand'.*alien", lambda s: s.body("hand", at=(0, 0, foreign()), joint=ht.Fixed())),
    "custom pose": (ModelError, r"SE\(3\).*det R = -1", lambda s: custom(lambda q: np.diag([1.0, 1.0, -1.0, 1.0]))),
    "custom nan": (ModelError, "nan", lambda s: custom(lambda q: NAN * np.eye(4))),
    "custom shape": (ModelError, r"4x4.*\(3, 3\)", lambda s: custom(lambda q: np.eye(3))),
    "custom kinematics": (ModelError, r"A\(q\).*'rate'", lambda s: ht.Custom(Spiral(), lambda q: np.eye(4))),
    "input name": (ModelError, "'f'", lambda s: [s.input("f", ht.Thruster("upper")) for _ in range(2)]),
    "parameter name": (ModelError, "'m'", lambda s: [s.parameter("m", 1.0) for _ in range(2)]),
    "parameter nan": (ShapeError, "'m'.*nan", lambda s: s.parameter("m", NAN)),
    "parameter vector": (ShapeError, r"'m'.*\[1, 2\]", lambda s: s.parameter("m", [1, 2])),  # type: ignore[arg-type]
    "gravity": (ShapeError, r"'moon'.*\(3,\)", lambda s: ht.System(gravity=1.6, name="moon")),
    "gravity nan": (ShapeError, "gravity.*nan", lambda s: ht.System(gravity=(0, 0, NAN))),
    "name as gravity": (ModelError, "name='arm'", lambda s: ht.System("arm")),
    "shape": (ModelError, "'hull.stl'", lambda s: s.shape("upper", "hull.stl")),  # type: ignore[arg-type]
}

WHEN_DERIVED: dict[str, tuple[type[Exception], str, Callable[[ht.System], Any]]] = {
    "parent": (
        UnknownNameError,
        "'hand'.*'lover'.*'lower'",
        lambda s: s.body("hand", parent="lover", joint=ht.Fixed()),
    ),
    "frame": (UnknownNameError, "'elbow'", lambda s: s.frame("eye", "elbow", (0, 0, 0))),
    "spring": (UnknownNameError, "'hand'", lambda s: s.spring("upper", "hand", ht.Stiffness(1.0))),
    "spring with itself": (ModelError, "'upper'.*itself", lambda s: s.spring("upper", "upper", ht.Stiffness(1.0))),
    "disconnected": (ModelError, "'c', 'd'", lambda s: (s.body("c"), s.body("d", parent="c", joint=ht.Fixed()))),
    "never connected": (ModelError, r"'c'.*ht\.Free", lambda s: s.body("c", inertia=INERTIA)),
    "loop": (ModelError, r"'strut'.*loop", lambda s: s.connect("world", "lower", ht.Revolute("x"), name="strut")),
    "absolute": (
        ModelError,
        "'world'.*'c'",
        lambda s: (s.body("c", inertia=INERTIA), s.connect("c", "world", ht.Spherical(velocity="absolute"))),
    ),
    "thruster": (UnknownNameError, "'f'.*'hand'", lambda s: s.input("f", ht.Thruster("hand"))),
    "thruster axis": (ModelError, "'f'.*'upper'", lambda s: s.input("f", ht.Thruster("upper", axis=(0, 0, 0)))),
    "thruster at": (ShapeError, r"'f'.*\(2,\)", lambda s: s.input("f", ht.Thruster("upper", at=(0, 0)))),
    "thruster nan": (ShapeError, "'f'.*finite", lambda s: s.input("f", ht.Thruster("upper", at=(0, 0, NAN)))),
    "foreign": (ModelError, "'f'.*alien", lambda s: s.input("f", ht.Thruster("upper", drag_ratio=foreign()))),
    "joint": (UnknownNameError, "'f'.*'hand'", lambda s: s.input("f", ht.JointForce("hand"))),
    "index": (ModelError, "'lower' has 3.*index 3", lambda s: s.input("f", ht.JointForce("lower", 3))),
    "gear": (ShapeError, "'f'.*finite", lambda s: s.input("f", ht.JointForce("lower", 0, NAN))),
    "reaction": (UnknownNameError, "'hand'", lambda s: s.input("f", ht.Wrench("upper", relative_to="hand"))),
    "wrench frame": (ModelError, "'lower'", lambda s: s.input("f", ht.Wrench("upper", frame="lower"))),
    "moment": (ShapeError, r"moment.*\(2,\)", lambda s: s.input("f", ht.Wrench("upper", moment=(1, 0)))),
    "potential": (ModelError, r"potential.*\(5,\)", lambda s: s.potential(lambda q: q)),
    "foreign potential": (ModelError, "potential.*alien", lambda s: s.potential(lambda q: foreign() * q[0])),
    "dissipation": (ModelError, r"dissipation.*\(4,\)", lambda s: s.dissipation(lambda q, v: v)),
    "force": (ModelError, r"force.*4.*\(5,\)", lambda s: s.force(lambda q, v: q)),
    "limits": (UnknownNameError, "'elbow'", lambda s: s.limit("elbow", -1.0, 1.0)),
}

VELOCITIES: dict[str, tuple[type[Exception], str, Any]] = {
    "size": (ModelError, r"4.*\(2,\)", lambda q, v: v[:2]),
    "square": (ModelError, "linear in v", lambda q, v: v**2),
    "offset": (ModelError, "linear in v", lambda q, v: v + 1),
    "constant": (ModelError, "does not determine v", lambda q, v: np.zeros(4)),
    "repeated": (ModelError, "does not determine v", lambda q, v: ht.vector(v[0], v[0], v[1], v[2])),
    "dependent": (
        ModelError,
        "does not determine v",
        lambda q, v: ht.vector(v[0] + np.sin(q[0]) * v[1], np.cos(q[0]) * (v[0] + np.sin(q[0]) * v[1]), v[2], v[3]),
    ),
    "math": (ModelError, "NumPy", lambda q, v: math.cos(q[0]) * v),
    "frame": (ModelError, "'absolute'.*'abs'", {"lower": "abs"}),
    "revolute": (ModelError, "Revolute.*Spherical", {"upper": "absolute"}),
    "joint": (UnknownNameError, "'load'", {"load": "absolute"}),
}


@pytest.mark.parametrize(("error", "match", "mistake"), AT_ONCE.values(), ids=AT_ONCE)
def test_mistakes_found_when_made(error: type[Exception], match: str, mistake: Any) -> None:
    with pytest.raises(error, match=match):
        mistake(arm())


@pytest.mark.parametrize(("error", "match", "mistake"), WHEN_DERIVED.values(), ids=WHEN_DERIVED)
def test_mistakes_found_when_derived(error: type[Exception], match: str, mistake: Any) -> None:
    system = arm()
    mistake(system)
    with pytest.raises(error, match=match):
        system.derive()


@pytest.mark.parametrize(("error", "match", "velocity"), VELOCITIES.values(), ids=VELOCITIES)
def test_velocity_coordinates(error: type[Exception], match: str, velocity: Any) -> None:
    with pytest.raises(error, match=match):
        arm().derive(velocity)


def test_systems_without_motion() -> None:
    still = ht.System(name="still")
    with pytest.raises(ModelError, match="'still' has no degree of freedom"):
        still.derive()
    still.body("a", joint=ht.Revolute("x"))
    with pytest.raises(ModelError, match="'still' has inertia"):
        still.derive()


@pytest.fixture(scope="module")
def model() -> ht.Model:
    system = arm()
    system.parameter("k", 1.0)
    system.body("wheel", parent="lower", joint=ht.Revolute("z", coordinates="circle"), inertia=INERTIA)
    system.body("ship", joint=ht.Free(), inertia=INERTIA)
    system.input("torque", ht.JointForce("upper"))
    return system.derive()


def changed(model: ht.Model, values: dict[str, float]) -> np.ndarray:
    q = model.neutral()
    for index, value in values.items():
        q[model.q_names.index(index)] = value
    return q


ARGUMENTS: dict[str, tuple[type[Exception], str, Callable[[ht.Model], Any]]] = {
    "q": (ShapeError, r"'arm'.*19.*\(1,\).*upper.angle", lambda m: m.mass_matrix([0.0])),
    "q of nv": (ShapeError, "nq = 19.*nv = 11", lambda m: m.mass_matrix(np.zeros(11))),
    "v": (ShapeError, r"'arm'.*11.*\(3,\)", lambda m: m.bias(m.neutral(), np.zeros(3))),
    "v of nq": (ShapeError, "rate of q", lambda m: m.bias(m.neutral(), np.zeros(19))),
    "v nan": (ShapeError, "velocity.*nan", lambda m: m.bias(m.neutral(), np.full(11, NAN))),
    "u": (ShapeError, r"input.*\(2,\)", lambda m: m.acceleration(m.neutral(), np.zeros(11), np.zeros(2))),
    "u inf": (ShapeError, "input.*inf", lambda m: m.acceleration(m.neutral(), np.zeros(11), [np.inf])),
    "a": (ShapeError, "acceleration", lambda m: m.inverse_dynamics(m.neutral(), np.zeros(11), 0.0)),
    "batch": (ShapeError, "broadcast", lambda m: m.bias(np.tile(m.neutral(), (2, 1)), np.zeros((3, 11)))),
    "dt": (ShapeError, "dt.*nan", lambda m: m.integrate(m.neutral(), np.zeros(11), NAN)),
    "parameter nan": (ShapeError, "'k'", lambda m: m.mass_matrix(m.neutral(), parameters={"k": NAN})),
    "parameter": (UnknownNameError, "'mass'.*'k'", lambda m: m.mass_matrix(m.neutral(), parameters={"mass": 1.0})),
    "pose": (UnknownNameError, "'uper'.*'upper'", lambda m: m.pose("world", "uper", m.neutral())),
    "traced": (UnknownNameError, "'mass'", lambda m: m.traced("mass")),
    "q nan": (ConfigurationError, "lower.w = nan", lambda m: m.mass_matrix(changed(m, {"lower.w": NAN}))),
    "quaternion": (ConfigurationError, "'lower'.*= 3", lambda m: m.mass_matrix(changed(m, {"lower.w": 2.0}))),
    "circle": (ConfigurationError, "'wheel'.*= 0.25", lambda m: m.mass_matrix(changed(m, {"wheel.s": 0.5}))),
    "reflection": (ConfigurationError, "'ship'.*= -2", lambda m: m.mass_matrix(changed(m, {"ship.R_zz": -1.0}))),
    "in a batch": (
        ConfigurationError,
        r"\(1,\)",
        lambda m: m.mass_matrix(np.stack([m.neutral(), changed(m, {"ship.R_yx": 0.1})])),
    ),
}


@pytest.mark.parametrize(("error", "match", "mistake"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_arguments(model: ht.Model, error: type[Exception], match: str, mistake: Any) -> None:
    with pytest.raises(error, match=match) as caught:
        mistake(model)
    assert isinstance(caught.value, HeavytopError)
    assert isinstance(caught.value, ValueError)


def test_rounding_is_not_off_the_manifold(model: ht.Model) -> None:
    assert np.all(np.isfinite(model.mass_matrix(changed(model, {"lower.w": 1 + 1e-8}))))
    with pytest.raises(ConfigurationError, match="'lower'"):
        model.mass_matrix(changed(model, {"lower.w": 1 + 1e-5}))


def test_velocity_that_moves_no_mass() -> None:
    system = arm()
    system.body("vane", parent="lower", joint=ht.Revolute("x"))
    model = system.derive()
    with pytest.raises(ModelError, match="'vane.rate' of 'arm'"):
        model.acceleration(model.neutral(), np.zeros(5))


def test_massless_bodies_inside_a_chain() -> None:
    system = ht.System()
    system.body("link", joint=ht.Revolute("x"))
    system.body("bob", parent="link", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, (0, 0, -1), (0.1, 0.1, 0.1)))
    assert np.all(np.isfinite(system.derive().acceleration([0.1, 0.2], [0.3, 0.4])))


def test_a_rejected_body_can_be_declared_again() -> None:
    system = ht.System()
    for wrong in ({"inertia": ht.Damping(1.0)}, {"at": (0, 0)}):
        with pytest.raises(HeavytopError):
            system.body("ship", joint=ht.Free(), **wrong)  # type: ignore[arg-type]
    system.body("ship", joint=ht.Free(), inertia=INERTIA)
    with pytest.raises(ShapeError):
        system.frame("bow", "ship", (1, 2))
    system.frame("bow", "ship", (1, 0, 0))
    assert system.derive().nv == 6
