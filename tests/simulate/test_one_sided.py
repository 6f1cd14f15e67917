"""Hard stops, ropes and sticking friction; contacts with loops, velocity constraints, bases and moving frames."""

from __future__ import annotations

import numpy as np
import pytest

import heavytop as ht
from heavytop.errors import ConfigurationError, ModelError

G = 9.81


def oscillator() -> ht.System:
    system = ht.System(gravity=(0.0, 0.0, 0.0), name="oscillator")
    system.body("mass", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.joint_spring("mass", stiffness=100.0)
    return system


@pytest.mark.thorough
def test_dry_friction_sticks() -> None:
    """Den Hartog 1931: the amplitude falls by 2 F / k each half period; with k = 100, F = 7 from 1 it sticks at -0.02 after 7 half periods."""
    system = oscillator()
    system.joint_friction("mass", coulomb=7.0, sticking=True)
    run = ht.simulate(system.derive(), ([1.0], [0.0]), 5.0, 1e-3, "moreau")
    moving = run.t[np.flatnonzero(np.abs(run.v[:, 0]) > 1e-10)[-1]]
    assert run.outcome.ok
    assert abs(run.q[-1, 0] + 0.02) < 2e-5
    assert abs(moving - 0.7 * np.pi) < 2e-3
    assert abs(run.v[-1, 0]) < 1e-12
    assert abs(run.contacts["mass friction"].force[-1, 0] + 100 * 0.02) < 1e-2  # holds the spring


@pytest.mark.thorough
@pytest.mark.parametrize(("e", "exact"), [(1.0, 0.707107), (0.8, 0.231704)])
def test_an_oscillator_bounces_off_a_hard_stop(e: float, exact: float) -> None:
    """Five impacts at x = 0: e^5 sin(0.75 pi)."""
    system = oscillator()
    system.limit("mass", lower=0.0, hard=True, restitution=e)
    model, errors = system.derive(), []
    for step in (2e-3, 1e-3, 5e-4):
        run = ht.simulate(model, ([1.0], [0.0]), 0.525 * np.pi, step, "moreau")
        errors.append(abs(run.q[-1, 0] - exact))
        assert run.outcome.ok
        assert run.q.min() > -1e-9
    assert errors[1] < 3e-5


@pytest.mark.thorough
def test_a_rope_goes_slack_and_taut() -> None:
    """A ball with v0^2 = 3.5 g l leaves the circle at cos(phi) = -1/2 and flies for 4 sin(phi) sqrt(-l cos(phi) / g)."""
    system = ht.System(gravity=(0.0, -G, 0.0), name="rope")
    system.body("ball", joint=ht.Planar(), inertia=ht.Inertia(1.0, moment_at_com=(1, 1, 1)))
    system.rope("world", "ball", 1.0)
    run = ht.simulate(system.derive(), ([0.0, -1.0, 0.0], [np.sqrt(3.5 * G), 0.0, 0.0]), 2.5, 1e-3, "moreau")
    rope = run.contacts["rope"]
    tension, angle = np.linalg.norm(rope.force, axis=-1), np.unwrap(np.arctan2(run.q[:, 0], -run.q[:, 1]))
    slack = int(np.flatnonzero((tension[1:-1] > 0) & (tension[2:] == 0) & (run.t[1:-1] > 0.1))[0]) + 1
    taut = int(np.flatnonzero((tension > 0) & (run.t > run.t[slack] + 0.05))[0])
    assert abs(tension[2] - 4.5 * G) < 5e-3
    assert abs(angle[slack] - 2 * np.pi / 3) < 2e-3
    assert abs(run.t[taut] - run.t[slack] - 0.78207) < 2e-3
    assert rope.gap.min() > -1e-8
    assert run.invariants["energy"].relative < 1e-12


def swinging(system: ht.System) -> ht.Model:
    """A rod on a pivot whose tip hits the floor."""
    system.frame("low", "world", (0.0, 0.0, -0.3))
    system.contact("rod", "low", ht.Points([(1.0, 0.0, 0.0)]), friction=0.4, restitution=0.5)
    return system.derive()


@pytest.mark.thorough
def test_loops_constraints_and_bases_give_the_motion_of_the_joint() -> None:
    """The same rod by a revolute joint, a loop, velocity constraints and a basis: impacts, friction and rest."""
    inertia = ht.Inertia(1.0, com=(0.5, 0, 0), moment_at_com=(0.01, 1 / 12, 1 / 12))
    joint = ht.System(name="joint")
    joint.body("rod", joint=ht.Revolute("y"), inertia=inertia)
    model = swinging(joint)
    reference = ht.simulate(model, ([0.0], [0.0]), 1.0, 2e-4, "moreau")
    assert reference.outcome.ok

    def held(v: np.ndarray) -> np.ndarray:
        return ht.vector(v[0], v[1], v[2], v[3], v[5])

    loop, rolling, basis = (ht.System(name=name) for name in ("loop", "rolling", "basis"))
    for system in (loop, rolling, basis):
        system.body("rod", joint=ht.Free(), inertia=inertia)
    loop.loop("world", "rod", ht.Revolute("y"))
    rolling.constrain(lambda q, v: held(v))
    basis.constrain(lambda q, v: held(v))
    basis.basis(lambda q, w: ht.vector(0 * w[0], 0 * w[0], 0 * w[0], 0 * w[0], w[0], 0 * w[0]), ["w"])
    for system in (loop, rolling, basis):
        other = swinging(system)
        run = ht.simulate(other, (other.neutral(), np.zeros(other.nv)), 1.0, 2e-4, "moreau")
        R = run.q[:, 3:].reshape(-1, 3, 3)
        angle = np.arctan2(-R[:, 0, 2], R[:, 0, 0])
        assert run.outcome.ok
        assert np.abs(angle - reference.q[:, 0]).max() < 1e-4
        if "loops" in run.invariants:
            assert run.invariants["loops"].drift < 1e-9


@pytest.mark.thorough
def test_a_ball_bounces_on_a_shaken_table() -> None:
    system = ht.System(name="table")
    system.body("ball", joint=ht.Prismatic("z"), inertia=ht.Inertia(1.0))
    system.frame("table", "world", ht.vector(0.0, 0.0, 0.01 * np.sin(20 * system.time)))
    system.contact("ball", "table", ht.Sphere(0.1), friction=0.0, restitution=0.5)
    run = ht.simulate(system.derive(), ([0.3], [0.0]), 2.0, 5e-4, "moreau")
    assert run.outcome.ok
    assert run.contacts["ball"].gap.min() > -1e-8
    assert run.invariants["energy"].relative < 1e-12


def test_mistakes_are_reported() -> None:
    system = oscillator()
    with pytest.raises(ModelError, match="end"):
        system.limit("mass", hard=True)
    with pytest.raises(ModelError, match="static"):
        system.joint_friction("mass", coulomb=1.0, static=2.0, sticking=True)
    with pytest.raises(ModelError, match="length"):
        system.rope("world", "mass", -1.0)
    system.rope("world", "nothing", 1.0)
    with pytest.raises(ModelError, match="nothing"):
        system.describe()
    free = ht.System()
    free.body("ball", joint=ht.Free(), inertia=ht.Inertia(1.0, moment_at_com=(1, 1, 1)))
    free.limit("ball", 0.0, 1.0, hard=True)
    with pytest.raises(ModelError, match="coordinates"):
        ht.simulate(free.derive(), (free.derive().neutral(), np.zeros(6)), 0.1, 1e-2, "moreau")


def test_a_start_within_the_ground_or_beyond_a_stop_is_an_error() -> None:
    """The first step would push the bodies apart and supply the energy for it."""
    system = ht.System(name="box")
    system.body("box", joint=ht.Prismatic("z"), inertia=ht.Inertia(1.0))
    system.ground(friction=0.5)
    system.contact("box", "ground", ht.Box((0.2, 0.2, 0.2)))
    system.limit("box", upper=1.0, hard=True)
    model = system.derive()
    starts = np.array([[0.1], [0.2], [0.08]])
    with pytest.raises(ConfigurationError, match=r"'box' \(trajectory 2\).* 0\.02 m at 'box'"):
        ht.simulate(model, (starts, np.zeros((3, 1))), 0.1, 1e-2, "moreau")
    with pytest.raises(ConfigurationError, match=r"0\.5 .*'box limit'"):
        ht.simulate(model, ([1.5], [0.0]), 0.1, 1e-2, "moreau")
    assert ht.simulate(model, ([0.1 - 1e-5], [0.0]), 0.1, 1e-2, "moreau").outcome.ok
    rope = ht.System(name="rope")
    rope.body("ball", joint=ht.Free(), inertia=ht.Inertia(1.0, moment_at_com=(1, 1, 1)))
    rope.rope("world", "ball", 1.0)
    model, far = rope.derive(), np.zeros(12)
    far[:] = model.neutral()
    far[2] = -1.25
    with pytest.raises(ConfigurationError, match=r"0\.25 m at 'rope'"):
        ht.simulate(model, (far, np.zeros(6)), 0.1, 1e-2, "moreau")
