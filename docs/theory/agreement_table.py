"""One system by every formalism: the table of agreement.md. Run it to update the page.

The system is a top of five particles that turns about a fixed point, in gravity and wind.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from heavytop_mechanics import (
    Drag,
    ParticleSystem,
    euler_lagrange,
    gauss,
    gibbs_appell,
    hamilton,
    lagrange_dalembert,
    levi_civita,
    minimal,
    moving_frame,
    multipliers,
    rigid_body,
    spatial_newton_euler as sne,
    unified,
)
from heavytop_mechanics.functions import Evaluator

from heavytop import vector
from heavytop._arrays import directional
from heavytop.coordinates import Quaternion, Rotation, UnifiedPose, Vector
from heavytop.geometry import se3, so3, spatial

PAGE = Path(__file__).parent / "agreement.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"

MASSES = np.array([0.5, 0.8, 0.3, 1.1, 0.4])
POINTS = np.array([[0.3, 0.0, 0.1], [-0.2, 0.25, 0.0], [0.0, -0.3, 0.4], [0.1, 0.1, -0.5], [0.0, 0.0, 0.7]])
GRAVITY, WIND, DRAG = np.array([0.0, 0.0, -9.81]), np.array([1.0, 0.0, 0.0]), 0.1
ROTATION, OMEGA = so3.exp(np.array([0.4, -0.7, 0.3])), np.array([1.2, -0.8, 2.5])
MASS = MASSES.sum()
COM = MASSES @ POINTS / MASS


def top(attitude) -> ParticleSystem:
    """The top in the coordinates of an attitude block."""
    return ParticleSystem(
        attitude,
        MASSES,
        lambda q: np.stack([np.matvec(attitude.rotation_matrix(q), h) for h in POINTS], axis=0),
        gravity=GRAVITY,
        drags=(Drag(DRAG, 4, WIND),),
    )


def with_particles() -> dict[str, np.ndarray]:
    """Formalisms that take energies or particles."""
    c = Rotation()
    s, q, v = top(c), c.from_rotation_matrix(ROTATION), OMEGA
    loads = {"force": s.generalised_force, "dissipation": s.dissipation}
    rows = {
        "[Particles, projected](particles.md) (3.22)": s.acceleration(q, v),
        "[Lagrange-d'Alembert](lagrange_dalembert.md) (3.23)": lagrange_dalembert.particle_acceleration(s, q, v),
        "[Gauss, least squares](gauss.md) (3.24)": gauss.particle_acceleration(s, q, v),
        "[Euler-Lagrange](euler_lagrange.md), rotation matrix (2.31)": euler_lagrange.acceleration(
            c, s.lagrangian, **loads
        )(q, v),
        "[Hamilton](hamilton.md) (2.37)": hamilton.flow(c, s.lagrangian, **loads).acceleration(q, v),
        "[Gibbs-Appell](gibbs_appell.md) (3.30)": gibbs_appell.acceleration(
            c, s.acceleration_energy, s.potential_energy, **loads
        )(q, v),
        "[Levi-Civita](levi_civita.md) (3.35)": levi_civita.acceleration(c, s.mass_matrix, s.potential_energy, **loads)(
            q, v
        ),
    }
    quaternion = Quaternion()
    other = top(quaternion)
    rows["[Euler-Lagrange](euler_lagrange.md), quaternion (2.31)"] = euler_lagrange.acceleration(
        quaternion, other.lagrangian, other.generalised_force, other.dissipation
    )(quaternion.from_rotation_matrix(ROTATION), v)
    return rows | released(s, q, v)


def released(s: ParticleSystem, q: np.ndarray, v: np.ndarray) -> dict[str, np.ndarray]:
    """Fifteen Cartesian coordinates, held by rods to one another and to the fixed point."""
    pairs = [(i, j) for i in range(5) for j in range(i)]

    def rods(r):
        p = np.reshape(r, (5, 3))
        lengths = [np.vecdot(p[i, :], p[i, :]) for i in range(5)]
        lengths += [np.vecdot(p[i, :] - p[j, :], p[i, :] - p[j, :]) for i, j in pairs]
        return vector(*lengths)

    r, velocity = s.position(q).reshape(15), s.velocity_of_particles(q, v).reshape(15)
    phi, right = multipliers.Constraints(Vector(15), rods).equations(r, velocity)
    mass, force = np.diag(np.repeat(MASSES, 3)), s.applied_forces(q, v).reshape(15)
    free = np.linalg.solve(mass, force)
    solutions = {
        "[Multipliers](multipliers.md), 15 dependent rods (3.9)": multipliers.constrained(
            mass, force, phi, right
        ).acceleration,
        "[Udwadia-Kalaba](multipliers.md) (004, 22)": multipliers.udwadia_kalaba(mass, free, phi, right),
        "[Gauss, quadratic program](gauss.md) (3.11)": gauss.quadratic_program(mass, free, phi, right),
    }
    drift = s.acceleration_of_particles(q, v, np.zeros(3)).reshape(15)
    return {name: np.linalg.lstsq(s.jacobian(q), a - drift, rcond=None)[0] for name, a in solutions.items()}


def with_bodies() -> dict[str, np.ndarray]:
    """Formalisms that take bodies: the fixed point is a constraint on a free body, or the frame's origin."""
    theta = sne.rotational_inertia(MASSES, POINTS)
    tip, back = POINTS[4], ROTATION.T
    push = back @ (-DRAG * (ROTATION @ np.cross(OMEGA, tip) - WIND))  # force at the tip in body coordinates
    torque = np.cross(MASS * COM, back @ GRAVITY) + np.cross(tip, push)
    rows = {"[Euler's equations](minimal.md) (1.8)": minimal.euler_rotation(theta, OMEGA, torque)}

    angles = so3.to_roll_pitch_yaw(ROTATION)
    rates_of = so3.roll_pitch_yaw_rates(angles)
    rates = np.linalg.solve(rates_of, OMEGA)
    second = minimal.euler_angle_body(theta).acceleration(angles, rates, torque)
    turning = Evaluator(
        lambda q, v: directional(so3.roll_pitch_yaw_rates(q) @ v, q, v), {"q": (3,), "v": (3,)}, "turning"
    )(angles, rates)
    rows["[Lagrange, Euler angles](minimal.md) (1.7)"] = rates_of @ second + turning

    pose = se3.pose(ROTATION, np.zeros(3))
    xi = np.concatenate([np.zeros(3), OMEGA])
    mass = se3.Vee(rigid_body.moments(MASSES, POINTS))
    wrench = np.concatenate([push, np.cross(tip, push)])
    hold = np.eye(6)[:3]
    free = rigid_body.acceleration(mass, pose, xi, GRAVITY, force=wrench)
    rows["[Rigid body](rigid_body.md) on a multiplier (3.96)"] = multipliers.udwadia_kalaba(
        mass, free, hold, np.zeros(3)
    )[3:]
    load = spatial.swap(wrench - rigid_body.gravity_force(mass, pose, GRAVITY))
    spatial_rate = sne.body_acceleration(spatial.swap_matrix(mass), spatial.swap(xi), load)
    held = multipliers.udwadia_kalaba(mass, spatial.swap(spatial_rate), hold, np.zeros(3))
    rows["[Newton-Euler, spatial vectors](spatial_newton_euler.md) (003)"] = held[3:]
    rows["[Unified velocities](unified.md) (002, 51)"] = by_unified(load, mass, xi)
    rows["[Moving frame](moving_frame.md) (004, 51)"] = by_moving_frame(push)
    return rows


def by_unified(load: np.ndarray, mass: np.ndarray, xi: np.ndarray) -> np.ndarray:
    """Six unified velocities of the body at its centre of mass, then the fixed point as a constraint."""
    hexahedral = UnifiedPose("hexahedral")
    shift = se3.Ad_inverse(se3.pose(np.eye(3), COM))
    w = hexahedral.unified_velocity(shift @ xi)
    force = unified.force_of_wrench(hexahedral, np.linalg.inv(shift).T @ spatial.swap(load))
    theta = sne.rotational_inertia(MASSES, POINTS - COM)
    free = np.linalg.solve(shift, hexahedral.body_velocity(unified.acceleration(hexahedral, MASS, theta, w, force)))
    return multipliers.udwadia_kalaba(mass, free, np.eye(6)[:3], np.zeros(3))[3:]


def by_moving_frame(push: np.ndarray) -> np.ndarray:
    """One body with its frame at the centre of mass."""
    c = Rotation()

    def frames(q):
        rotation = c.rotation_matrix(q)
        return [se3.pose(rotation, rotation @ COM)]

    gamma = np.concatenate([MASS * GRAVITY + ROTATION @ push, np.cross(POINTS[4] - COM, push)])
    theta = sne.rotational_inertia(MASSES, POINTS - COM)
    motion = moving_frame.from_frames(c, frames, [MASS], [theta], lambda q, v: gamma)
    return motion.acceleration(c.from_rotation_matrix(ROTATION), OMEGA)


def results() -> dict[str, np.ndarray]:
    """Angular acceleration (3,) in rad/s^2 by every formalism."""
    return with_particles() | with_bodies()


def spread(rows: dict[str, np.ndarray]) -> float:
    """Largest deviation from the median, relative to the largest component."""
    table = np.stack(list(rows.values()))
    middle = np.median(table, axis=0)
    return float(np.max(np.abs(table - middle)) / np.max(np.abs(middle)))


def table(rows: dict[str, np.ndarray]) -> str:
    """The rows as a Markdown table with twelve decimals."""
    lines = ["| formalism | a_x | a_y | a_z |", "| --- | ---: | ---: | ---: |"]
    lines += [f"| {name} | " + " | ".join(f"{x:.12f}" for x in a) + " |" for name, a in rows.items()]
    return "\n".join(lines)


def main() -> None:
    """Write the table into the page."""
    rows = results()
    text = PAGE.read_text("utf-8")
    start, stop = text.index(BEGIN) + len(BEGIN), text.index(END)
    PAGE.write_text(f"{text[:start]}\n{table(rows)}\n{text[stop:]}", "utf-8")
    print(f"{len(rows)} formalisms, relative spread {spread(rows):.1e}")


if __name__ == "__main__":
    main()
