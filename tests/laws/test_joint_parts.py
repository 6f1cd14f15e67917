"""Elements in joints: keywords of joints, elements in joints that follow others, rotors on bodies, limits as stops and events."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import heavytop as ht
from heavytop.errors import ModelError, UnknownNameError
from heavytop.geometry import se3, so3

BODY = ht.Inertia(1.3, (0.1, -0.2, 0.15), [[0.3, 0.01, 0.02], [0.01, 0.4, -0.03], [0.02, -0.03, 0.35]])
AT = se3.pose(so3.exp(np.array([0.4, -0.3, 0.7])), np.array([0.2, 0.1, -0.3]))

JOINTS = {
    "revolute": lambda **parts: ht.Revolute((0.6, 0.0, 0.8), **parts),
    "circle": lambda **parts: ht.Revolute("y", "circle", **parts),
    "prismatic": lambda **parts: ht.Prismatic("x", **parts),
    "cylindrical": lambda **parts: ht.Cylindrical("z", **parts),
    "universal": lambda **parts: ht.Universal(("x", "z"), **parts),
    "spherical": lambda **parts: ht.Spherical("quaternion", **parts),
    "absolute": lambda **parts: ht.Spherical("matrix", "absolute", **parts),
    "planar": lambda **parts: ht.Planar(**parts),
    "free": lambda **parts: ht.Free(**parts),
    "custom": lambda **parts: ht.Custom(ht.coordinates.Angle(), ht.Revolute("z").pose, **parts),
    "coupled": lambda **parts: ht.Coupled(ht.Revolute("y"), "first", ratio=-1.5, offset=0.2, **parts),
    "user": lambda **parts: ht.Revolute("z").having(**parts),
}


def tree(joint: ht.system.joints.Joint, by: str) -> ht.System:
    system = ht.System()
    system.body("first", joint=ht.Revolute("x"), inertia=BODY)
    if by == "body":
        system.body("second", parent="first", at=AT, joint=joint, inertia=BODY)
    else:
        system.body("second", inertia=BODY)
        system.connect("first", "second", joint, AT)
    return system


FAST = ("prismatic", "coupled", "user")


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in FAST else pytest.mark.thorough) for n in JOINTS])
def test_keywords_are_the_elements_of_the_same_names(name) -> None:
    make, rest = JOINTS[name], 0.3
    n = make().own_coordinates.nv
    friction = {"coulomb": 0.2, "static": 0.4, "smoothing": 0.5}
    stop = {"lower": [-0.2] * n, "upper": [0.4] * n, "stiffness": 30.0, "damping": 0.5}
    by_keyword = tree(
        make(stiffness=4.0, rest=rest, damping=0.7, friction=friction, armature=0.05, limits=stop), "connect"
    ).derive(native=False)
    by_hand = tree(make(), "body")
    by_hand.joint_spring("second", stiffness=4.0, rest=rest)
    by_hand.joint_damper("second", damping=0.7)
    by_hand.joint_friction("second", **friction)
    by_hand.armature("second", 0.05)
    by_hand.joint_stop("second", **stop)
    twin = by_hand.derive(native=False)
    q, v = twin.random(2), np.linspace(-1.0, 1.0, twin.nv)
    for function in ("acceleration", "explicit_acceleration", "internal_acceleration"):
        values = [m.traced(function).interpret(q, v, np.zeros(0), m.parameter_vector())[0] for m in (by_keyword, twin)]
        assert_allclose(*values, rtol=1e-13)
    first = by_keyword.expressions.traced("explicit_acceleration").interpret(q, v, np.zeros(0), np.zeros(0))[0]
    second = by_keyword.expressions.traced("internal_acceleration").interpret(q, v, np.zeros(0), np.zeros(0))[0]
    assert_allclose(first, second, rtol=1e-10, atol=1e-10)
    assert_allclose(by_keyword.energy(q, v), twin.energy(q, v), rtol=1e-14)
    assert len(by_keyword.description.elements) == 5


def test_elements_in_a_joint_that_follows_act_on_its_source() -> None:
    """By hand: with q2 = r q1 + d the energy 1/2 k (q2 - rest)^2 is one on the source, and so are power and rotor."""
    r, d = -1.5, 0.2
    coupled = tree(
        ht.Coupled(ht.Revolute("y"), "first", r, d, stiffness=4.0, rest=0.3, damping=0.7, armature=0.05), "body"
    )
    plain = tree(ht.Coupled(ht.Revolute("y"), "first", r, d), "body")
    plain.joint_spring("first", stiffness=4.0 * r**2, rest=(0.3 - d) / r)
    plain.joint_damper("first", damping=0.7 * r**2)
    plain.armature("first", 0.05, r)
    ours, twin = coupled.derive(native=False), plain.derive(native=False)
    q, v = np.array([0.7]), np.array([-1.1])
    assert_allclose(ours.acceleration(q, v), twin.acceleration(q, v), rtol=1e-13)
    assert_allclose(ours.energy(q, v), twin.energy(q, v), rtol=1e-13)
    assert_allclose(ours.power(q, v).dissipated, twin.power(q, v).dissipated, rtol=1e-13)
    a = np.array([0.4])
    assert_allclose(ours.inverse_dynamics(q, v, a), twin.inverse_dynamics(q, v, a), rtol=1e-13)


def test_wrong_keywords() -> None:
    with pytest.raises(UnknownNameError, match="'stifness'.*'stiffness'"):
        ht.Revolute("z", stifness=3.0)  # pyright: ignore
    with pytest.raises(ModelError, match="rest=.*stiffness="):
        ht.Prismatic("z", rest=1.0)
    with pytest.raises(TypeError, match="coulomb"):
        tree(ht.Revolute("z", friction={"viscous": 1.0}), "body")
    with pytest.raises(TypeError, match="'gear'"):
        tree(ht.Revolute("z", armature={"inertia": 1.0, "gear": 3.0}), "body")
    with pytest.raises(ModelError, match="'second'.*3 velocities"):
        tree(ht.Spherical(limits=(-1, 1)), "body")
    with pytest.raises(ModelError, match="'second'.*1 and -1"):
        tree(ht.Revolute("z", limits=(1, -1)), "body")
    with pytest.raises(ModelError, match="'second'.*stiffness"):
        tree(ht.Fixed().having(stiffness=1.0), "body")
    with pytest.raises(ModelError, match="loop.*damping"):
        tree(ht.Free(), "body").loop("first", "second", ht.Revolute("z", damping=1.0))
    with pytest.raises(ModelError, match="stiffness.*'second'.*-1"):
        tree(ht.Revolute("z", stiffness=-1.0), "body")


# --- rotors on bodies ------------------------------------------------------------------------------------------------------------

AXIS = np.array([0.48, 0.6, 0.64])
INERTIA, RATIO = 0.02, -12.0
ROTOR = ht.Inertia(0.3, moment_at_com=INERTIA * np.outer(AXIS, AXIS) + 0.013 * (np.eye(3) - np.outer(AXIS, AXIS)))
PLACE = np.array([0.1, 0.2, -0.05])


def machine(geared: bool, driven: str, carrier: str, base: ht.system.joints.Joint) -> ht.System:
    """A hull with an arm of two joints and a slide; a rotor on a body, as a separate body or without coordinates."""
    system = ht.System()
    system.body("hull", joint=base, inertia=BODY)
    system.body("upper", parent="hull", at=AT, joint=ht.Revolute((0.6, 0.0, 0.8)), inertia=BODY)
    system.body("lower", parent="upper", at=AT, joint=ht.Revolute("y"), inertia=BODY)
    system.body("slide", parent="hull", at=AT, joint=ht.Prismatic("x"), inertia=BODY)
    system.frame("mount", carrier, PLACE)
    joint = ht.Coupled(ht.Revolute(AXIS), driven, RATIO) if geared else ht.Fixed()
    system.body("rotor", parent="mount", joint=joint, inertia=ROTOR)
    if not geared:
        system.armature(driven, INERTIA, RATIO, body=carrier, axis=AXIS)
    return system


CASES = [("lower", "upper"), ("lower", "lower"), ("lower", "hull"), ("upper", "lower"), ("slide", "lower")]


@pytest.mark.parametrize(
    ("driven", "carrier", "base"),
    [(*case, ht.Revolute("y")) for case in CASES[:2]]
    + [pytest.param(*case, ht.Free("quaternion"), marks=pytest.mark.thorough) for case in CASES],
)
def test_rotor_on_a_body_equals_one_that_is_a_body_with_a_gear(driven, carrier, base) -> None:
    ours, twin = (machine(geared, driven, carrier, base).derive(native=False) for geared in (False, True))
    n = ours.nv
    assert twin.nv == n
    q, v, a = twin.random(1), np.linspace(-1.5, 1.0, n), np.linspace(1.0, -2.0, n)
    pairs = [(m.mass_matrix(q), m.bias(q, v), m.kinetic_energy(q, v), m.energy(q, v)) for m in (ours, twin)]
    for one, other in zip(*pairs, strict=True):
        assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    assert_allclose(ours.inverse_dynamics(q, v, a), twin.inverse_dynamics(q, v, a), rtol=1e-12, atol=1e-12)
    C = ours.coriolis_matrix(q, v)
    assert_allclose(C @ v, ours.bias(q, v), atol=1e-11)
    for one, other in zip(ours.momentum(q, v), twin.momentum(q, v), strict=True):
        assert_allclose(one, other, atol=1e-12)
    expected = twin.acceleration(q, v)
    for function in ("explicit_acceleration", "internal_acceleration", "acceleration"):
        value = ours.traced(function).interpret(q, v, np.zeros(0), np.zeros(0))[0]
        assert_allclose(value, expected, rtol=1e-10, atol=1e-10)
    assert ours.traced("internal_acceleration").instructions < twin.traced("internal_acceleration").instructions


@pytest.mark.thorough
def test_spin_of_a_rotor_turns_the_body_that_carries_it() -> None:
    """A flywheel that is sped up turns a free hull the other way, and the angular momentum stays."""
    system = ht.System(gravity=(0, 0, 0))
    system.body("hull", joint=ht.Free(), inertia=ht.Inertia(1.0, moment_at_com=(1.0, 1.0, 1.0)))
    system.body(
        "shaft", parent="hull", joint=ht.Revolute("z"), inertia=ht.Inertia(1e-3, moment_at_com=(1e-3, 1e-3, 1e-3))
    )
    system.armature("shaft", 0.01, 30.0, body="hull")
    system.input("motor", ht.JointForce("shaft"))
    model = system.derive(native=False)
    run = ht.simulate(model, (model.neutral(), np.zeros(7)), 1.0, 0.05, inputs=[2.0])
    linear, angular = model.momentum(run.q[-1], run.v[-1])
    assert_allclose([linear, angular], np.zeros((2, 3)), atol=1e-12)
    assert run.v[-1, 5] < -0.01
    assert_allclose(run.v[-1, 5] * 1.001 + (0.001 + 0.3) * run.v[-1, 6], 0.0, atol=1e-12)


def test_rotor_on_a_body_needs_its_axis() -> None:
    system = machine(False, "lower", "upper", ht.Spherical())
    system.armature("slide", 0.1, body="upper")
    with pytest.raises(ModelError, match="axis of 'upper'"):
        system.derive(native=False)
    with pytest.raises(ModelError, match="body="):
        system.armature("lower", 0.1, axis="z")
    system = machine(False, "lower", "upper", ht.Spherical())
    system.armature("hull", 0.1, body="upper", axis="z")
    with pytest.raises(ModelError, match="one velocity, got 3"):
        system.derive(native=False)
    system = machine(False, "lower", "upper", ht.Spherical())
    system.armature("lower", 0.1, body="uper", axis="z")
    with pytest.raises(UnknownNameError, match="'uper'"):
        system.derive(native=False)


# --- limits -----------------------------------------------------------------------------------------------------------------------


def rod(**parts) -> ht.System:
    system = ht.System()
    system.body("rod", joint=ht.Revolute("y", **parts), inertia=ht.Inertia(1.0, com=(0, 0, 1.0)))
    system.body("hand", parent="rod", joint=ht.Coupled(ht.Revolute("y"), "rod", 2.0, limits=(-1.0, 0.8)), inertia=BODY)
    return system


@pytest.mark.thorough
def test_limits_are_kept_written_and_met_as_events(tmp_path: Path) -> None:
    system = rod(limits=(-0.3, 0.5))
    model = system.derive(native=False)
    assert model.description.limits == {"rod": ht.JointLimits(-0.3, 0.5), "hand": ht.JointLimits(-1.0, 0.8)}
    events = ht.simulate.limit_events(model)
    assert [event.name for event in events][2:] == ["hand at its lower limit -1", "hand at its upper limit 0.8"]
    run = ht.simulate(model, ([0.1], [0.0]), 3.0, 0.02, events=events)
    assert [(e.name, round(float(e.q[0]), 9)) for e in run.events] == [("hand at its upper limit 0.8", 0.4)]
    run = ht.simulate(model, ([-0.25], [-1.0]), 3.0, 0.02, events=events)
    assert run.events[0].name == "rod at its lower limit -0.3"
    model.to_urdf(tmp_path / "rod.urdf")
    assert ht.load(tmp_path / "rod.urdf").limits["rod"] == ht.JointLimits(-0.3, 0.5, 1e9, 1e9)
    with pytest.raises(UnknownNameError, match="'rood'"):
        ht.simulate.limit_events(model, {"rood": ht.JointLimits(0.0, 1.0)})
    system.limit("nothing", 0.0, 1.0)
    with pytest.raises(UnknownNameError, match="'nothing'"):
        system.derive(native=False)


def test_speed_limits_are_events_too() -> None:
    model = rod(limits=ht.JointLimits(velocity=1.0)).derive(native=False)
    run = ht.simulate(model, ([0.1], [0.0]), 3.0, 0.02, events=ht.simulate.limit_events(model, velocity=True)[:2])
    assert run.events[0].name == "rod at its largest speed 1"
    assert_allclose(run.v[-1], [1.0], atol=1e-8)


@pytest.mark.thorough
def test_stops_act_at_the_limits_and_their_energy_is_in_the_balance() -> None:
    system = rod(limits=(-0.3, 0.5))
    system.joint_stop("rod", stiffness=500.0, damping=2.0)
    by_keyword = rod(limits={"lower": -0.3, "upper": 0.5, "stiffness": 500.0, "damping": 2.0})
    ours, twin = system.derive(native=False), by_keyword.derive(native=False)
    assert by_keyword.limits["rod"] == ht.JointLimits(-0.3, 0.5)
    free = rod().derive(native=False)
    for q, pushes in ((0.6, True), (-0.4, True), (0.1, False)):
        assert_allclose(ours.acceleration([q], [0.1]), twin.acceleration([q], [0.1]))
        assert bool(np.sign(q) * (ours.acceleration([q], [0.0]) - free.acceleration([q], [0.0]))[0] < -1.0) is pushes
    run = ht.simulate(ours, ([0.1], [0.0]), 1.5, 2e-3)
    assert np.max(run.q) < 0.75
    assert run.invariants["energy"].drift < 1e-4
    with pytest.raises(ModelError, match=r"'hnd'.*system\.limit"):
        system.joint_stop("hnd", stiffness=1.0)


def test_parts_of_two_systems_with_parameters_of_the_same_name():
    """Symbols of the same name belong to their systems, also where equal joints would be one object."""

    def model():
        system = ht.System(gravity=(0, 0, 0))
        friction = system.parameter("friction", 1.0)
        system.body("arm", joint=ht.Revolute("z").having(damping=friction), inertia=ht.Inertia(1.0, com=(1, 0, 0)))
        follower = ht.Coupled(ht.Revolute("z"), "arm", ratio=friction).having(stiffness=1.0)
        system.body("follower", joint=follower, inertia=ht.Inertia(0.0))
        return system.derive(native=False)

    first, second = model(), model()
    for made in (first, second):
        assert made.acceleration([0.0], [1.0], parameters={"friction": 2.0})[0] == -2.0
