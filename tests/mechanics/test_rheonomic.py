"""Three systems that the time moves, by every formalism: those that know the time, and those that solve for the driver's force."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from heavytop_mechanics import (
    ParticleSystem,
    balance,
    euler_lagrange,
    gauss,
    gibbs_appell,
    hamilton,
    lagrange_dalembert,
    levi_civita,
    minimal,
    multipliers,
    spatial_newton_euler,
)
from heavytop_mechanics.moving_frame import block_mass, from_frames

import heavytop as ht
from heavytop import vector
from heavytop._arrays import transpose
from heavytop.coordinates import Angle, Vector
from heavytop.geometry import se3, so3

G, MASS, LENGTH, T = 9.81, 1.3, 0.6, 0.7
Q, V = np.array([0.4]), np.array([0.9])
BUILDERS = ("acceleration", "explicit_acceleration", "recursive_acceleration", "internal_acceleration")


def pivot(t: Any) -> Any:
    """Height of a pivot."""
    return 0.1 * np.sin(7 * t)


def spin(t: Any) -> Any:
    """Angle of a hoop."""
    return 3 * t + 0.2 * np.sin(t)


def trolley(t: Any) -> Any:
    """Place of a trolley."""
    return 0.5 * np.sin(1.3 * t)


class Example:
    """A point mass on an arm, with the driven coordinate s: place (s, angle) -> position (3,), and the joint of the driver."""

    def __init__(self, motion: Callable, place: Callable, joint: ht.system.joints.Joint, screw: list[float]) -> None:
        self.motion, self.place, self.joint, self.screw = motion, place, joint, screw

    def model(self) -> ht.Model:
        system = ht.System(name="driven")
        system.body("base", joint=ht.Prescribed(self.joint, self.motion))
        arm = ht.Inertia(MASS, com=(0, 0, -LENGTH))
        system.body("arm", parent="base", joint=ht.Revolute("y"), inertia=arm)
        return system.derive(native=False)

    def particles(self) -> ParticleSystem:
        place, motion = self.place, self.motion
        return ParticleSystem(Angle(), [MASS], lambda q, t: [place(motion(t), q[0])], gravity=(0, 0, -G))


def hanging(shift: Callable) -> Callable:
    return lambda s, angle: shift(s) + vector(-LENGTH * np.sin(angle), 0.0, -LENGTH * np.cos(angle))


def on_the_hoop(s: Any, angle: Any) -> Any:
    across = -LENGTH * np.sin(angle)
    return vector(across * np.cos(s), across * np.sin(s), -LENGTH * np.cos(angle))


EXAMPLES = {
    "moved pivot": Example(pivot, hanging(lambda s: vector(0.0, 0.0, s)), ht.Prismatic("z"), [0, 0, 0, 0, 0, 1.0]),
    "rotating hoop": Example(spin, on_the_hoop, ht.Revolute("z"), [0, 0, 1.0, 0, 0, 0]),
    "crane": Example(trolley, hanging(lambda s: vector(s, 0.0, 0.0)), ht.Prismatic("x"), [0, 0, 0, 1.0, 0, 0]),
}


def knowing_the_time(example: Example) -> dict[str, np.ndarray]:
    """Formalisms that take r(q, t), L(q, v, t), S(q, v, a, t)."""
    s, c, n = example.particles(), Angle(), 3

    def linear(q, t):
        return transpose(s.jacobian(q, t)) @ np.reshape(s.weighted(s.explicit_velocity(q, t)), (n,))

    def rest(q, t):
        moving = s.explicit_velocity(q, t)
        return 0.5 * np.sum(s.weighted(moving) * moving) - s.potential_energy(q, t)

    return {
        "projection of forces (3.22)": s.acceleration(Q, V, T),
        "d'Alembert (3.23)": lagrange_dalembert.particle_acceleration(s, Q, V, T),
        "Gauss, least squares (3.24)": gauss.particle_acceleration(s, Q, V, T),
        "Euler-Lagrange (2.31)": euler_lagrange.acceleration(c, s.lagrangian)(Q, V, T),
        "quadratic Lagrangian (2.44)": euler_lagrange.quadratic_acceleration(c, s.mass_matrix, linear, rest)(Q, V, T),
        "Hamilton (2.37)": hamilton.flow(c, s.lagrangian).acceleration(Q, V, T),
        "Gibbs-Appell (3.30)": gibbs_appell.acceleration(c, s.acceleration_energy, s.potential_energy)(Q, V, T),
    }


def released(example: Example) -> dict[str, np.ndarray]:
    """The particle in space, held by constraints that move with the time."""
    s = example.particles()
    mass, forces = MASS * np.eye(3), np.array([0.0, 0.0, -MASS * G])

    def arm(r, t):
        """Length, and the plane of the swing."""
        if example.motion is spin:
            across = np.vecdot(r, vector(-np.sin(spin(t)), np.cos(spin(t)), 0.0))
            return vector(np.vecdot(r, r) - LENGTH**2, across)
        top = example.place(example.motion(t), 0.0) + np.array([0.0, 0.0, LENGTH])
        return vector(np.vecdot(r - top, r - top) - LENGTH**2, r[1])

    r, velocity = s.position(Q, T).reshape(3), s.velocity_of_particles(Q, V, T).reshape(3)
    phi, right = multipliers.Constraints(Vector(3), arm).equations(r, velocity, T)
    free = forces / MASS
    found = {
        "multipliers (3.9)": multipliers.constrained(mass, forces, phi, right).acceleration,
        "Udwadia-Kalaba (M12)": multipliers.udwadia_kalaba(mass, free, phi, right),
        "Gauss, quadratic program (3.11)": gauss.quadratic_program(mass, free, phi, right),
    }
    drift = s.acceleration_of_particles(Q, V, np.zeros(1), T).reshape(3)
    return {k: np.linalg.lstsq(s.jacobian(Q, T), a - drift, rcond=None)[0] for k, a in found.items()}


def driven_coordinate_and_force(example: Example) -> dict[str, np.ndarray]:
    """Formalisms without time: the driven coordinate is one more, with the force that gives it its acceleration."""
    eps = 3e-3
    s = float(example.motion(T))
    rate, second = (
        float(sum(w * example.motion(T + k * eps) for k, w in zip(range(-3, 4), weights, strict=True)) / eps**order)
        for order, weights in (
            (1, (-1 / 60, 3 / 20, -3 / 4, 0, 3 / 4, -3 / 20, 1 / 60)),
            (2, (1 / 90, -3 / 20, 3 / 2, -49 / 18, 3 / 2, -3 / 20, 1 / 90)),
        )
    )
    q, v = np.array([s, Q[0]]), np.array([rate, V[0]])
    light = 1e-3  # the hoop has a moment, the trolley a mass: it does not matter for the arm
    both = ParticleSystem(Vector(2), [MASS], lambda q: [example.place(q[0], q[1])], gravity=(0, 0, -G))

    def kinetic(q, v):
        return both.kinetic_energy(q, v) + 0.5 * light * v[0] ** 2

    def given(acceleration: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """The force on s for which its acceleration is that of the driver; accelerations are linear in it."""
        rest, pushed = acceleration(np.zeros(2)), acceleration(np.array([1.0, 0.0]))
        return (rest + (second - rest[0]) / (pushed[0] - rest[0]) * (pushed - rest))[1:]

    model = minimal.MinimalModel(2, kinetic, lambda q: both.potential_energy(q))
    metric = lambda q: both.mass_matrix(q) + np.diag([light, 0.0])  # noqa: E731

    def by_connection(u):
        return levi_civita.acceleration(Vector(2), metric, both.potential_energy, force=lambda q, v: u)(q, v)

    def frames(q):
        base = example.joint.pose(q[:1])
        turn = so3.rotation_about("y", q[1])
        return [base @ se3.pose(turn, np.matvec(turn, np.array([0.0, 0.0, -LENGTH])))]

    point = spatial_newton_euler.spatial_inertia(MASS, np.array([0.0, 0, -LENGTH]), np.zeros((3, 3)))
    links = [
        spatial_newton_euler.Link(screw=example.screw, inertia=np.zeros((6, 6))),
        spatial_newton_euler.Link(screw=[0, 1.0, 0, 0, 0, 0], inertia=point, parent=0),
    ]

    def torque(a: float) -> float:
        done = spatial_newton_euler.inverse_dynamics(links, q, v, np.array([second, a]), gravity=(0, 0, -G))
        return float(done.forces[1])

    def by_frames(u):
        loads = lambda q, v: np.concatenate([np.array([0.0, 0.0, -MASS * G]), np.zeros(3)])  # noqa: E731
        moving = from_frames(Vector(2), frames, [MASS], [1e-300 * np.ones(3)], loads)
        B = moving.matrix(q)
        M = B.T @ block_mass([MASS], [1e-300 * np.ones(3)]) @ B
        return moving.acceleration(q, v) + np.linalg.solve(M, u)

    return {
        "Lagrange, minimal (1.2)": given(lambda u: model.acceleration(q, v, u)),
        "Levi-Civita (3.35)": given(by_connection),
        "Newton-Euler, spatial": np.array([torque(0.0) / (torque(0.0) - torque(1.0))]),
        "moving frame (51)": given(by_frames),
    }


@pytest.mark.parametrize("name", EXAMPLES)
def test_all_formalisms_agree(name: str) -> None:
    example = EXAMPLES[name]
    model = example.model()
    expected = model.acceleration(Q, V, parameters={"time": T})
    for builder in BUILDERS:
        found = model.evaluate(builder, Q, V, np.zeros(0), parameters={"time": T})
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    for formalism, a in (knowing_the_time(example) | released(example)).items():
        np.testing.assert_allclose(a, expected, rtol=1e-11, err_msg=formalism)
    for formalism, a in driven_coordinate_and_force(example).items():
        np.testing.assert_allclose(a, expected, rtol=1e-8, err_msg=formalism)  # the driver's motion by differences


@pytest.mark.parametrize("name", EXAMPLES)
def test_power_of_the_driver_is_the_rate_of_the_energy(name: str) -> None:
    """The layer of particles has the rate from dE/dt, the model from the reactions."""
    example, now = EXAMPLES[name], {"time": T}
    model, s = example.model(), example.particles()
    a = model.acceleration(Q, V, parameters=now)
    power = model.driver_power(Q, V, parameters=now)["base"]
    assert power == pytest.approx(float(balance.energy_rate(s)(Q, V, a, T)), rel=1e-10)
    assert abs(power) > 0.1
