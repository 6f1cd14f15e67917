"""Systems inside systems: a composed system moves like the same one described by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import heavytop as ht
from heavytop.errors import ModelError
from heavytop.geometry import se3, so3

ROD = ht.Inertia(1.2, com=(0.3, 0, 0), moment_at_com=(0.01, 0.05, 0.05))


def gadget() -> ht.System:
    """A part with every kind of element."""
    system = ht.System(name="gadget")
    gain = system.parameter("gain", 3.0)
    system.body("base", joint=ht.Fixed(), at=(0, 0, 0.1))
    system.body("link", parent="base", joint=ht.Revolute("y", damping=0.2, limits=(-1, 1)), inertia=ROD)
    slider = ht.Prismatic("x", stiffness=20.0, armature=0.1)
    system.body(
        "slide", parent="link", at=(0.6, 0, 0), joint=slider, inertia=ht.Inertia(0.3, moment_at_com=(0.01, 0.01, 0.01))
    )
    system.body(
        "copy", parent="link", joint=ht.Coupled(ht.Prismatic("x"), "slide", ratio=-1.0), inertia=ht.Inertia(0.2)
    )
    system.body("strap", joint=ht.Revolute("y"), at=(0.5, 0, 0), inertia=ROD)
    system.loop("strap", "slide", ht.Revolute("y"), at_a=(0.2, 0, 0.1), name="pin")
    system.strut("world", "link", at_a=(0, 0, 0.8), at_b=(0.2, 0, 0), stiffness=50.0, rest_length=0.5)
    system.potential(lambda q: gain * q[0] ** 2)
    system.force(lambda q, v: ht.vector(0.0, -0.4 * v[1] * q[0], 0.1 * v[2]))
    system.dissipation(lambda q, v: 0.1 * v[0] ** 2)
    system.input("torque", ht.JointForce("link", gear=2.0))
    system.input("push", ht.Wrench("slide", force=(0, 0, gain), frame="world"))
    system.shape("link", ht.Box((0.6, 0.05, 0.05)))
    return system


def carrier() -> ht.System:
    system = ht.System(name="carrier")
    system.body("hull", joint=ht.Free(), inertia=ht.Inertia(5.0, moment_at_com=(0.2, 0.3, 0.4)))
    system.potential(lambda q: 0.5 * q[2] ** 2)
    system.force(lambda q, v: -0.3 * v)
    system.input("thrust", ht.Thruster("hull"))
    return system


AT = se3.pose(so3.rotation_about((1, 2, 0), 0.7), [0.2, -0.1, 0.3])


def by_hand() -> ht.System:
    """The carrier with the gadget, described in one piece."""
    s = carrier_bodies = ht.System(name="by hand")
    s.body("hull", joint=ht.Free(), inertia=ht.Inertia(5.0, moment_at_com=(0.2, 0.3, 0.4)))
    gain = s.parameter("gain", 3.0)
    s.frame("ground", "hull", AT)
    s.body("link", parent="ground", at=(0, 0, 0.1), joint=ht.Revolute("y", damping=0.2), inertia=ROD)
    slider = ht.Prismatic("x", stiffness=20.0, armature=0.1)
    s.body(
        "slide", parent="link", at=(0.6, 0, 0), joint=slider, inertia=ht.Inertia(0.3, moment_at_com=(0.01, 0.01, 0.01))
    )
    s.body("copy", parent="link", joint=ht.Coupled(ht.Prismatic("x"), "slide", ratio=-1.0), inertia=ht.Inertia(0.2))
    s.body("strap", parent="ground", joint=ht.Revolute("y"), at=(0.5, 0, 0), inertia=ROD)
    s.loop("strap", "slide", ht.Revolute("y"), at_a=(0.2, 0, 0.1))
    s.strut("ground", "link", at_a=(0, 0, 0.8), at_b=(0.2, 0, 0), stiffness=50.0, rest_length=0.5)
    s.potential(lambda q: 0.5 * q[2] ** 2 + gain * q[12] ** 2)
    s.force(lambda q, v: np.concatenate([-0.3 * v[:6], ht.vector(0.0, -0.4 * v[7] * q[12], 0.1 * v[8])]))
    s.dissipation(lambda q, v: 0.1 * v[6] ** 2)
    s.input("thrust", ht.Thruster("hull"))
    s.input("torque", ht.JointForce("link", gear=2.0))
    s.input("push", ht.Wrench("slide", force=(0, 0, gain), frame="world"))
    return carrier_bodies


def test_a_composed_system_moves_like_one_described_by_hand() -> None:
    system = carrier()
    assert system.attach(gadget(), parent="hull", at=AT, prefix="g/") == "g/mount"
    model, other = system.derive(native=False), by_hand().derive(native=False)
    assert model.q_names[12:] == ("g/link.angle", "g/slide.x", "g/strap.angle")
    assert model.u_names == ("thrust", "g_torque", "g_push")
    assert model.parameters == {"g_gain": 3.0}
    assert model.constraint_names == ("g/pin",)
    assert model.description.limits["g/link"].upper == 1.0
    assert {placed.body for placed in model.description.shapes} == {"g/link"}
    rng = np.random.default_rng(2)
    q, v = other.assemble(other.random(rng) * np.where(np.arange(15) < 12, 1.0, 0.3), rng.standard_normal(9))
    u = rng.standard_normal(3)
    np.testing.assert_allclose(model.acceleration(q, v, u), other.acceleration(q, v, u), rtol=1e-9, atol=1e-9)
    changed = model.acceleration(q, v, u, {"g_gain": 5.0}), other.acceleration(q, v, u, {"gain": 5.0})
    np.testing.assert_allclose(*changed, rtol=1e-9, atol=1e-9)
    assert model.energy(q, v) == pytest.approx(other.energy(q, v))


def test_the_attached_system_is_unchanged_and_attached_twice() -> None:
    state = [0.1, 0.2], [0.3, 0.4]
    part, again = ht.library.double_pendulum(), ht.library.double_pendulum()
    before = part.derive(native=False).acceleration(*state)
    both = ht.scene({"a": part, "b": (again, (0, 1, 0))})
    np.testing.assert_array_equal(part.derive(native=False).acceleration(*state), before)
    model = both.derive(native=False)
    first, second = (np.tile(x, 2) for x in state)
    np.testing.assert_allclose(model.acceleration(first, second), np.tile(before, 2), rtol=1e-12)
    heavier = model.acceleration(first, second, parameters={"b_m_2": 3.0})
    np.testing.assert_allclose(heavier[:2], before, rtol=1e-12)
    assert np.abs(heavier[2:] - before).max() > 0.01
    with pytest.raises(ModelError, match="once more"):
        both.attach(part, prefix="c/")
    with pytest.raises(ModelError, match="taken"):
        both.attach(ht.library.double_pendulum(), prefix="a/")


def test_time_moves_an_attached_system() -> None:
    crane = ht.System(name="crane")
    crane.body("trolley", joint=ht.Prescribed(ht.Prismatic("x"), lambda t: np.sin(t)), inertia=ht.Inertia(10.0))
    crane.body("load", parent="trolley", joint=ht.Revolute("y"), inertia=ht.Inertia(2.0, com=(0, 0, -1)))
    whole = ht.System(name="hall")
    whole.attach(crane, at=(0, 0, 5), prefix="c/")
    a = whole.derive(native=False).acceleration([0.1], [0.2], parameters={"time": 0.4})
    np.testing.assert_allclose(a, crane.derive(native=False).acceleration([0.1], [0.2], parameters={"time": 0.4}))
    other = ht.System(name="other")
    other.body("x", joint=ht.Prescribed(ht.Prismatic("x"), lambda t: np.cos(t)), inertia=ht.Inertia(1.0))
    with pytest.raises(ModelError, match="both depend"):
        whole.attach(other, prefix="o/")


def test_robots_of_files_are_attached(tmp_path: Path) -> None:
    text = """<robot name="gripper"><link name="palm"><inertial><mass value="0.4"/><inertia ixx="1e-3" iyy="1e-3" izz="1e-3"/></inertial></link>
    <link name="left"><inertial><mass value="0.1"/><inertia ixx="1e-4" iyy="1e-4" izz="1e-4"/></inertial></link>
    <link name="right"><inertial><mass value="0.1"/><inertia ixx="1e-4" iyy="1e-4" izz="1e-4"/></inertial></link>
    <joint name="grip" type="prismatic"><parent link="palm"/><child link="left"/><axis xyz="0 1 0"/>
    <limit lower="0" upper="0.04" effort="20" velocity="0.2"/></joint>
    <joint name="follow" type="prismatic"><parent link="palm"/><child link="right"/><axis xyz="0 -1 0"/><mimic joint="grip"/>
    <limit lower="0" upper="0.04" effort="20" velocity="0.2"/></joint></robot>"""
    (tmp_path / "gripper.urdf").write_text(text)
    arm = ht.System(name="arm")
    arm.body("link", joint=ht.Revolute("y"), inertia=ROD)
    arm.attach(ht.load(tmp_path / "gripper.urdf"), parent="link", at=(0.6, 0, 0), prefix="hand_")
    model = arm.derive(native=False)
    assert model.q_names == ("link.angle", "hand_grip.x")
    assert model.mass == pytest.approx(1.2 + 0.6)
    assert model.description.limits["hand_follow"].velocity == 0.2
    found = model.inverse_kinematics({"hand_left": (0.5, 0.03, -np.sqrt(0.36 - 0.25))})
    assert found.reached, found.report()
    assert found.q[1] == pytest.approx(0.03, abs=1e-9)


def test_a_basis_belongs_to_the_whole() -> None:
    system = ht.System()
    system.body("skate", joint=ht.Planar(), inertia=ht.Inertia(1.0, moment_at_com=(0.1, 0.1, 0.2)))
    system.constrain(lambda q, v: v[1] * np.cos(q[2]) - v[0] * np.sin(q[2]))
    system.basis(lambda q, w: ht.vector(w[0] * np.cos(q[2]), w[0] * np.sin(q[2]), w[1]), ("speed", "turn"))
    with pytest.raises(ModelError, match="basis"):
        ht.System().attach(system)


def test_contacts_are_attached_with_their_names() -> None:
    ball = ht.System(name="ball")
    ball.ground()
    ball.body("ball", joint=ht.Free(), inertia=ht.Inertia(1.0, moment_at_com=(0.01, 0.01, 0.01)))
    ball.contact("ball", shape=ht.Sphere(0.1), stiffness=1e5, friction=0.5)
    both = ht.scene({"a": ball, "b": (ball, (1, 0, 0.5))})
    model, alone = both.derive(native=False), ball.derive(native=False)
    q, v = alone.neutral(), np.array([0.1, 0.2, -0.3, 0.4, 0.5, 0.6])
    q[2] = 0.099
    a = model.acceleration(np.tile(q, 2), np.tile(v, 2))
    np.testing.assert_allclose(a, np.tile(alone.acceleration(q, v), 2), rtol=1e-9)
    names = [element.contact.name for element in model.description.elements if hasattr(element, "contact")]
    assert len(set(names)) == 2
    assert all(name.startswith(("a/", "b/")) for name in names)
