"""Elements with states: bristles of contacts and joints, tyres with a relaxation length, user-defined ones."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import heavytop as ht
from heavytop.errors import ModelError

G, MU = 9.81, 0.5
FEET = ht.Points([(0.1, 0.0, -0.05), (-0.1, 0.1, -0.05), (-0.1, -0.1, -0.05)])


def block(**contact: Any) -> ht.System:
    system = ht.System(name="block")
    tilt = system.parameter("tilt", 0.0)
    system.gravity = (G * np.sin(tilt), 0.0, -G * np.cos(tilt))
    system.body("box", joint=ht.Free(), inertia=ht.Inertia(1.0, moment_at_com=(1e-3, 1.2e-3, 1e-3)))
    system.ground(friction=MU)
    system.contact("box", "ground", FEET, stiffness=1e4, exponent=1, hysteresis=2.0, **contact)
    return system


@cache
def bristled() -> ht.Model:
    return block(bristles=1e-4).derive()


def standing(model: ht.Model) -> tuple[np.ndarray, np.ndarray]:
    q = model.neutral()
    q[2] = 0.05 - G / 3e4
    return q, np.zeros(model.nv)


@pytest.mark.thorough
def test_a_block_holds_without_creep_and_slides_with_the_exact_acceleration() -> None:
    """One batch of slopes, at 0.5, 0.9, 1.01 and 1.2 of the angle of friction."""
    model, tilt = bristled(), np.arctan(MU * np.array([0.5, 0.9, 1.01, 1.2]))
    q, v = standing(model)
    starts = np.tile(q, (4, 1)), np.tile(v, (4, 1))
    run = ht.simulate(model, starts, 2.0, 2.5e-4, parameters={"tilt": tilt}, record_every=2000, balance=True)
    assert run.outcome.ok
    assert np.max(np.abs(run.v[-1, :2, 0])) < 1e-12
    np.testing.assert_allclose(run.q[2, :2, :3], run.q[-1, :2, :3], atol=1e-9)  # from 1 s on
    gained = (run.v[-1, 2:, 0] - run.v[-2, 2:, 0]) / 0.5
    np.testing.assert_allclose((G * np.sin(tilt[2:]) - gained) / (G * np.cos(tilt[2:])), MU, rtol=3e-4)
    assert np.max(run.invariants["energy"].relative) < 1e-5
    one = ht.simulate(model, (q, v), 2.0, 2.5e-4, parameters={"tilt": tilt[1]}, record_every=2000)
    np.testing.assert_array_equal(one.q[-1], run.q[-1, 1])


@pytest.mark.thorough
def test_bristles_straighten_in_the_air() -> None:
    """A block lifts off with bent bristles; where it lands, they do not push it."""
    model = bristled()
    q, v = standing(model)
    q[2] += 0.005
    bent = np.array(v)
    bent[model.v_names.index("box bristles.x0")] = 0.02
    run = ht.simulate(model, (np.array([q, q]), np.array([v, bent])), 0.1, 2.5e-4)
    assert run.outcome.ok
    assert np.max(np.abs(run.v[-1, :, 0])) > 1e-3  # the feet are not symmetric
    np.testing.assert_allclose(run.v[100:, 1], run.v[100:, 0], atol=1e-9)  # from 25 ms of the fall of 32 ms on


@pytest.mark.thorough
def test_forces_and_use_of_the_cone() -> None:
    model = bristled()
    q, v = standing(model)
    v[model.v_names.index("box bristles.x0")] = 1e3
    found = model.contact_forces(q, v)["box"]
    np.testing.assert_allclose(found.force, [-MU * G / 3, 0.0, G], rtol=1e-9)  # never more than the cone allows
    rest = model.linearize(*standing(model))[0]
    modes = np.linalg.eigvals(rest)
    sideways = np.sqrt(MU * G / 1e-4)
    assert np.min(np.abs(np.abs(modes) - sideways)) < 0.2 * sideways


@pytest.mark.thorough
def test_friction_never_adds_energy() -> None:
    """A block thrown, spun and shaken: the dissipated energy never falls by more than the error of the integrator."""
    system = block(bristles=1e-3)
    model, rng = system.derive(), np.random.default_rng(0)
    q, v = (np.tile(x, (6, 1)) for x in standing(model))
    q[:, 2] += 0.01
    v[:, :6] = rng.uniform(-1, 1, (6, 6)) * [1, 1, 1, 3, 3, 10]
    run = ht.simulate(model, (q, v), 1.5, 1e-4, record_every=20, balance=True)
    assert run.work is not None
    assert np.min(np.diff(run.work[..., 1], axis=0)) > -1e-7
    assert np.max(np.abs(run.v[-1, :, :6])) < 1e-2


@pytest.mark.parametrize(
    "method", ["rkmk4", *(pytest.param(m, marks=pytest.mark.thorough) for m in ("rkmk45", "ros2", "energy_momentum"))]
)
def test_a_joint_sticks_with_every_integrator(method: str) -> None:
    system = ht.System()
    system.body("slider", joint=ht.Prismatic("z"), inertia=ht.Inertia(1.0))
    load = system.parameter("load", 0.0)
    system.force(lambda q, v: ht.vector(-load, *np.zeros(1)))
    system.joint_friction("slider", coulomb=12.0, bristles=1e-4)
    model = system.derive()
    held = ht.simulate(model, ([0.0, 0.0], [0.0, 0.0]), 1.0, 5e-4, method)
    assert held.outcome.ok
    assert abs(held.v[-1, 0]) < 1e-9
    assert -1e-4 < held.q[-1, 0] < -0.8e-4
    slid = ht.simulate(model, ([0.0, 0.0], [0.0, 0.0]), 1.0, 5e-4, method, parameters={"load": 4.0}, record_every=1000)
    assert G + 4.0 + (slid.v[-1, 0] - slid.v[-2, 0]) / 0.5 == pytest.approx(12.0, rel=1e-3)  # it follows within T/8
    assert slid.invariants["energy"].relative < 1e-3


def test_attached_systems_keep_their_bristles() -> None:
    whole = ht.System()
    for side in ("left/", "right/"):
        whole.attach(block(bristles=1e-4), prefix=side)
    model = whole.derive(native=False)
    assert [name for name in model.v_names if name.endswith("x0")] == ["left/box bristles.x0", "right/box bristles.x0"]


# --- tyres ------------------------------------------------------------------------------------------------------------------------

R, LOAD, C_Y, SIGMA = 0.3, 1000.0, 4e4, 0.4


def trailer(**tyre: Any) -> ht.Model:
    """A wheel that is pulled along x and may move across."""
    system = ht.System(name="trailer")
    system.body("rail", joint=ht.Prismatic("x"), inertia=ht.Inertia(1e-3))
    system.body("side", parent="rail", joint=ht.Prismatic("y"), inertia=ht.Inertia(1e-3))
    system.body("mass", parent="side", joint=ht.Prismatic("z"), inertia=ht.Inertia(LOAD / G, moment_at_com=(1, 1, 1)))
    system.body("wheel", parent="mass", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, moment_at_com=(0.5, 1, 0.5)))
    system.ground(friction=0.9)
    system.tyre("wheel", radius=R, stiffness=2e5, damping=2e3, slip=5e4, cornering=C_Y, **tyre)
    system.input("brake", ht.JointForce("wheel"))
    return system.derive()


@pytest.mark.thorough
def test_a_tyre_relaxes_over_its_length() -> None:
    """At a small constant slip angle the lateral force rises as 1 - exp(-x/sigma), to that of the tyre without relaxation."""
    lagging, direct = trailer(relaxation=SIGMA), trailer()
    speed, alpha = 20.0, 1e-4
    q = np.array([0.0, 0.0, R - (LOAD + G) / 2e5, 0.0])
    v = np.array([speed, speed * alpha, 0.0, speed / R])

    def lateral(model: ht.Model, bent: float) -> float:
        state = np.concatenate([v, np.zeros(model.nv - 4)])
        if model is lagging:
            state[-1] = np.sqrt(C_Y / SIGMA) * SIGMA * alpha * bent
        place = np.concatenate([q, np.zeros(model.nq - 4)])
        force = model.mass_matrix(place) @ model.acceleration(place, state)
        rate = model.acceleration(place, state)[-1] if model is lagging else 0.0
        return float(force[1]) if bent != 0.5 else float(rate)

    assert lateral(lagging, 1.0) == pytest.approx(lateral(direct, 1.0), rel=1e-3)
    assert abs(lateral(lagging, 0.0)) < 1e-4
    rate = lateral(lagging, 0.5)
    assert rate == pytest.approx(np.sqrt(C_Y / SIGMA) * speed * alpha * 0.5, rel=1e-2)


@pytest.mark.thorough
def test_a_braked_wheel_stops_and_holds_on_a_slope() -> None:
    tilt = np.deg2rad(8.0)
    system = ht.System(name="cart", gravity=(G * np.sin(tilt), 0, -G * np.cos(tilt)))
    system.body("rail", joint=ht.Prismatic("x"))
    system.body("mass", parent="rail", joint=ht.Prismatic("z"), inertia=ht.Inertia(100.0, moment_at_com=(1, 1, 1)))
    system.body("wheel", parent="mass", joint=ht.Revolute("y"), inertia=ht.Inertia(20.0, moment_at_com=(0.5, 1, 0.5)))
    system.ground(friction=0.9)
    system.tyre("wheel", radius=R, stiffness=2e5, damping=2e3, slip=5e4, cornering=C_Y, relaxation=SIGMA)
    system.joint_friction("wheel", coulomb=200.0, bristles=1e-3)
    model = system.derive()
    q, v = model.neutral(), np.zeros(model.nv)
    q[1], v[0], v[2] = R - 120 * G / 2e5, 5.0, 5.0 / R
    run = ht.simulate(model, (q, v), 8.0, 5e-4, "ros2", record_every=100)
    assert run.outcome.ok
    assert abs(run.v[-1, 0]) < 1e-9
    rolled = 120 + 1.0 / R**2
    decelerated = (200.0 / R - 120 * G * np.sin(tilt)) / rolled
    assert run.q[-1, 0] == pytest.approx(25.0 / (2 * decelerated), rel=5e-3)


# --- user-defined, mistakes ---------------------------------------------------------------------------------------------------------


class Maxwell(ht.JointElement):
    """A spring and a damper in series: s = sqrt(k) times the length of the spring."""

    states = ("spring",)

    def __init__(self, joint: str, stiffness: float, damping: float, memory: str) -> None:
        self.joint, self.stiffness, self.damping_, self.memory = joint, stiffness, damping, memory

    def resistance(self, q, w):
        root = np.sqrt(self.stiffness)
        return ht.vector(root * w[1], -root * w[0] + self.stiffness / self.damping_ * w[1])


def test_a_user_defined_element_relaxes() -> None:
    system = ht.System(gravity=(0, 0, 0))
    system.body("slider", joint=ht.Prismatic("z"), inertia=ht.Inertia(2.0))
    system.add(Maxwell("slider", 50.0, 4.0, "dashpot"))
    model = system.derive()
    assert model.v_names == ("slider.v_x", "dashpot.spring")
    run = ht.simulate(model, ([0.0, 0.0], [1.0, 0.0]), 1.0, 1e-3)
    A = np.array([[0.0, -np.sqrt(50.0) / 2.0], [np.sqrt(50.0), -50.0 / 4.0]])
    values, vectors = np.linalg.eig(A)
    expected = (vectors @ (np.exp(values) * np.linalg.solve(vectors, [1.0, 0.0]))).real
    np.testing.assert_allclose(run.v[-1], expected, atol=1e-9)
    assert run.invariants["energy"].relative < 1e-9


def test_plausible_mistakes() -> None:
    system = block(bristles=1e-4)
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"bristles": 0.0}, "bristles"),
        ({"bristles": 1e-4, "slip_speed": 1e-3}, "slip_speed"),
        ({"bristles": 1e-4, "patch": 1e-3}, "patch"),
    )
    for options, message in cases:
        with pytest.raises(ModelError, match=message):
            system.contact("box", "ground", ht.Sphere(0.1), stiffness=1e4, name="other", **options)
    with pytest.raises(ModelError, match="stiffness"):
        system.contact("box", "ground", ht.Sphere(0.1), name="other", bristles=1e-4)
    with pytest.raises(ModelError, match="static"):
        system.joint_friction("box", coulomb=1.0, bristles=1e-3, static=2.0)
    with pytest.raises(ModelError, match="lid"):
        system.joint_friction("lid", coulomb=1.0, bristles=1e-3)
    with pytest.raises(ModelError, match="sticking"):
        system.joint_friction("box", coulomb=1.0, bristles=1e-3, sticking=True)
    length = system.parameter("length", 1e-4)
    system.contact("box", "ground", ht.Sphere(0.1), stiffness=1e4, name="ball", bristles=length)
    model = system.derive(native=False)
    with pytest.raises(ModelError, match="length = 0"):
        model.acceleration(model.neutral(), np.zeros(model.nv), parameters={"length": 0.0})
    system.body("slider", joint=ht.Prismatic("z"), inertia=ht.Inertia(2.0))
    with pytest.raises(ModelError, match="memory"):
        system.add(Maxwell("slider", 50.0, 4.0, ""))
    hills = ht.System()
    hills.body("box", joint=ht.Free(), inertia=ht.Inertia(1.0))
    hills.ground(height=lambda x, y: 0.1 * np.sin(x), friction=0.3)
    with pytest.raises(ModelError, match="height"):
        hills.contact("box", "ground", ht.Sphere(0.1), stiffness=1e4, bristles=1e-4)
