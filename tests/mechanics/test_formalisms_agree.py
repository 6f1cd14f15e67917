"""Ten mechanical systems, each by every formalism that applies: the accelerations agree to 1e-10."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from heavytop_mechanics import (
    Drag,
    ParticleSpring,
    ParticleSystem,
    QuasiCoordinates,
    ScalablePose,
    euler_lagrange,
    gauss,
    gibbs_appell,
    hamilton,
    lagrange_dalembert,
    lagrangian,
    levi_civita,
    minimal,
    multipliers,
    rayleigh,
    rigid_body,
    scalable_body,
    spatial_newton_euler,
    unified,
)
from heavytop_mechanics.functions import Evaluator
from heavytop_mechanics.moving_frame import MovingFrame, block_gyroscopic, block_mass, from_frames
from heavytop_mechanics.moving_frame_examples import ChaplyginSleigh, RotaryPendulum

import heavytop as ht
from heavytop import vector
from heavytop._arrays import transpose
from heavytop.coordinates import Angle, Circle, EulerAngles, Pose, Product, Quaternion, Rotation, UnifiedPose, Vector
from heavytop.geometry import se3, so3, spatial

GOLDEN = Path(__file__).parents[1] / "golden"
GRAVITY = (0.3, -0.2, -9.81)
RNG = np.random.default_rng(5)
BODY_POINTS = np.array([[0.3, 0.0, 0.1], [-0.2, 0.25, 0.0], [0.0, -0.3, 0.4], [0.1, 0.1, -0.5], [0.0, 0.0, 0.7]])
BODY_MASSES = np.array([0.5, 0.8, 0.3, 1.1, 0.4])


def of_particles(s: ParticleSystem, q, v, t=0.0, constraints=None, rheonomic=False) -> dict[str, np.ndarray]:
    """Every formalism that a particle system allows."""
    c = s.coordinates
    loads = {"force": s.generalised_force, "dissipation": s.dissipation}
    flow = hamilton.flow(c, s.lagrangian, **loads)
    n = 3 * s.count

    def linear(q, t):
        return transpose(s.jacobian(q, t)) @ np.reshape(s.weighted(s.explicit_velocity(q, t)), (n,))

    def rest(q, t):
        moving = s.explicit_velocity(q, t)
        return 0.5 * np.sum(s.weighted(moving) * moving) - s.potential_energy(q, t)

    results = {
        "projection of forces (3.22)": s.acceleration(q, v, t),
        "d'Alembert (3.23)": lagrange_dalembert.particle_acceleration(s, q, v, t),
        "Gauss, least squares (3.24)": gauss.particle_acceleration(s, q, v, t),
        "Euler-Lagrange (2.31)": euler_lagrange.acceleration(c, s.lagrangian, **loads)(q, v, t),
        "quadratic Lagrangian (2.44)": euler_lagrange.quadratic_acceleration(c, s.mass_matrix, linear, rest, **loads)(
            q, v, t
        ),
        "Hamilton (2.37)": flow.acceleration(q, v, t),
        "Gibbs-Appell (3.30)": gibbs_appell.acceleration(c, s.acceleration_energy, s.potential_energy, **loads)(
            q, v, t
        ),
    }
    if not rheonomic:
        results["Levi-Civita (3.35)"] = levi_civita.acceleration(c, s.mass_matrix, s.potential_energy, **loads)(q, v, t)
    if constraints is not None:
        results |= released(s, q, v, t, constraints)
    return results


def released(s: ParticleSystem, q, v, t, constraints) -> dict[str, np.ndarray]:
    """Cartesian particles with multipliers (3.9), Udwadia-Kalaba and the quadratic program (3.11)."""
    n = 3 * s.count
    free = Vector(n)
    r, velocity = s.position(q, t).reshape(n), s.velocity_of_particles(q, v, t).reshape(n)
    forces = s.applied_forces(q, v, t).reshape(n)
    mass = np.diag(np.repeat(s.masses, 3))
    phi, right = multipliers.Constraints(free, constraints).equations(r, velocity, t)
    accelerations = {
        "multipliers (3.9)": multipliers.constrained(mass, forces, phi, right).acceleration,
        "Udwadia-Kalaba (M12)": multipliers.udwadia_kalaba(mass, np.linalg.solve(mass, forces), phi, right),
        "Gauss, quadratic program (3.11)": gauss.quadratic_program(mass, np.linalg.solve(mass, forces), phi, right),
    }
    drift = s.acceleration_of_particles(q, v, np.zeros(s.coordinates.nv), t).reshape(n)
    jacobian = s.jacobian(q, t)
    back = {}
    for name, a in accelerations.items():
        solution, *_ = np.linalg.lstsq(jacobian, a - drift, rcond=None)
        np.testing.assert_allclose(jacobian @ solution + drift, a, atol=1e-9 * (1 + np.max(np.abs(a))))
        back[name] = solution
    return back


# --- the systems ----------------------------------------------------------------------------------------------------------------


def particle_on_circle():
    s = ParticleSystem(Circle(), [1.3], lambda q: [vector(0.8 * q[0], 0.8 * q[1], 0.0)], gravity=(9.81, 0.0, 0.0))
    q, v = np.array([0.6, 0.8]), np.array([1.7])
    results = of_particles(s, q, v, constraints=lambda r: vector(r[0] ** 2 + r[1] ** 2 - 0.64, r[2]))
    model = minimal.MinimalModel(
        1, lambda q, v: 0.5 * 1.3 * 0.64 * v[0] ** 2, lambda q: -1.3 * 9.81 * 0.8 * np.cos(q[0])
    )
    results["Lagrange, minimal (1.2)"] = model.acceleration([np.arctan2(0.8, 0.6)], v)
    results["by hand"] = np.array([-9.81 / 0.8 * 0.8])
    return results


def double_pendulum():
    c = Product((Circle(), Circle()), names=("upper", "lower"))

    def positions(q):
        upper = vector(0.7 * q[0], 0.7 * q[1], 0.0)
        return [upper, upper + vector(0.5 * q[2], 0.5 * q[3], 0.0)]

    s = ParticleSystem(
        c,
        [1.0, 0.6],
        positions,
        gravity=(9.81, 0.4, 0.0),
        drags=(Drag(0.3, 1, (0.5, -0.2, 0.0)),),
        springs=(ParticleSpring(4.0, 0, 1),),
    )
    q, v = np.array([np.cos(0.4), np.sin(0.4), np.cos(2.0), np.sin(2.0)]), np.array([1.1, -2.3])

    def rods(r):
        first, between = r[:3], r[3:] - r[:3]
        return vector(np.vecdot(first, first) - 0.49, np.vecdot(between, between) - 0.25, r[2], r[5])

    results = of_particles(s, q, v, constraints=rods)

    def links(q):
        first = so3.rotation_about("z", q[0])
        second = so3.rotation_about("z", q[1])
        end = 0.7 * first[:, 0]
        return [se3.pose(first, end), se3.pose(second, end + 0.5 * second[:, 0])]

    def forces(q, v):
        angles = vector(np.cos(q[0]), np.sin(q[0]), np.cos(q[1]), np.sin(q[1]))
        table = s.applied_forces(angles, v)
        zero = np.zeros(3)
        return np.concatenate([table[0, :], zero, table[1, :], zero])

    frames = from_frames(Vector(2), links, [1.0, 0.6], [1e-300 * np.ones(3)] * 2, forces)
    results["moving frame (51)"] = frames.acceleration([0.4, 2.0], v)
    return results


def cart_and_pendulum():
    def positions(q):
        return [vector(q[0], 0.0, 0.0), vector(q[0] + 0.6 * np.sin(q[1]), 0.0, -0.6 * np.cos(q[1]))]

    def push(q, v, t):
        return [vector(2.0 - v[0], 0.0, 0.0), vector(0.0, 0.0, 0.3 * np.sin(t))]

    s = ParticleSystem(
        Vector(2),
        [2.0, 0.5],
        positions,
        gravity=(0, 0, -9.81),
        springs=(ParticleSpring(7.0, 0, (0.2, 0.0, 0.0)),),
        force=push,
    )
    q, v, t = np.array([0.3, 0.9]), np.array([-0.4, 1.8]), 0.7

    def guides(r):
        rod = r[3:] - r[:3]
        return vector(r[1], r[2], r[4], np.vecdot(rod, rod) - 0.36)

    results = of_particles(s, q, v, t, constraints=guides)
    model = minimal.MinimalModel(2, lambda q, v: s.kinetic_energy(q, v), lambda q: s.potential_energy(q))
    results["Lagrange, minimal (1.2)"] = model.acceleration(q, v, s.generalised_force(q, v, t))
    return results


def bead_on_rotating_hoop():
    """Explicit time: the hoop turns with a prescribed, changing speed."""

    def positions(q, t):
        turn = 3.0 * t + 0.2 * np.sin(t)
        arm = 0.5 * np.sin(q[0])
        return [vector(arm * np.cos(turn), arm * np.sin(turn), -0.5 * np.cos(q[0]))]

    s = ParticleSystem(Angle(), [0.4], positions, gravity=GRAVITY, drags=(Drag(0.2, 0, lambda t: vector(t, 0.0, 1.0)),))
    return of_particles(s, np.array([0.8]), np.array([2.1]), 0.6, rheonomic=True)


def pendulum_on_vibrating_support():
    """Explicit time in the constraint, in a spring and in the external force; redundant coordinates."""

    def support(t):
        return vector(0.3 * np.sin(5 * t), 0.1 * np.cos(3 * t), 0.0)

    s = ParticleSystem(
        Circle(),
        [0.9],
        lambda q, t: [support(t) + vector(0.6 * q[1], -0.6 * q[0], 0.0)],
        gravity=(0, -9.81, 0),
        springs=(ParticleSpring(3.0, 0, support),),
        force=lambda q, v, t: [vector(np.sin(t), v[0] * np.cos(t), 0.0)],
    )

    def rod(r, t):
        arm = r - support(t)
        return vector(np.vecdot(arm, arm) - 0.36, arm[2])

    return of_particles(s, np.array([np.cos(1.0), np.sin(1.0)]), np.array([-3.0]), 0.4, constraints=rod, rheonomic=True)


def rotating(attitude):
    return lambda q: np.stack([np.matvec(attitude.rotation_matrix(q), h) for h in BODY_POINTS], axis=0)


def heavy_top():
    """A top of five particles about a fixed point: rotation matrix, quaternion, Euler angles; bodies instead of particles."""
    R, omega = so3.exp(np.array([0.4, -0.7, 0.3])), np.array([1.2, -0.8, 2.5])
    results = {}
    for attitude in (Rotation(), Quaternion(), EulerAngles()):
        s = ParticleSystem(
            attitude, BODY_MASSES, rotating(attitude), gravity=GRAVITY, drags=(Drag(0.1, 4, (1.0, 0.0, 0.0)),)
        )
        q = attitude.from_rotation_matrix(R)
        results |= {f"{name}, {type(attitude).__name__}": a for name, a in of_particles(s, q, omega).items()}
    theta = spatial_newton_euler.rotational_inertia(BODY_MASSES, BODY_POINTS)
    tip = BODY_POINTS[4]
    slip = R @ np.cross(omega, tip) - np.array([1.0, 0.0, 0.0])
    torque = np.cross(BODY_MASSES @ BODY_POINTS, R.T @ np.array(GRAVITY)) - np.cross(tip, R.T @ (0.1 * slip))
    results["Euler's equations (1.8)"] = minimal.euler_rotation(theta, omega, torque)

    euler = minimal.euler_angle_body(theta)
    angles = so3.to_roll_pitch_yaw(R)
    Y = so3.roll_pitch_yaw_rates(angles)
    rates = np.linalg.solve(Y, omega)
    second = euler.acceleration(angles, rates, torque)
    Y_rate = Evaluator(
        lambda q, v: ht._arrays.directional(so3.roll_pitch_yaw_rates(q), q, v), {"q": (3,), "v": (3,)}, "rate"
    )(angles, rates)
    results["Lagrange, Euler angles (1.7)"] = Y @ second + Y_rate @ rates
    return results


def free_body():
    """Five particles fixed to each other, on springs, in a fluid: particles, 6-vectors, 4 x 4 matrices, spatial vectors, unified
    velocities, nine rigid rods with multipliers."""
    pose = Pose("quaternion")
    anchors = np.array([[0.5, 0.2, 0.1], [-0.4, 0.3, 0.9], [0.2, -0.8, 0.5]])
    stiffness = np.array([11.0, 7.0, 5.0])
    drag = np.array([0.4, 0.2, 0.3, 0.1, 0.5])
    wind = np.array([0.7, -0.4, 0.2])

    def positions(q):
        return se3.transform(pose.pose(q), BODY_POINTS)

    s = ParticleSystem(
        pose,
        BODY_MASSES,
        positions,
        gravity=GRAVITY,
        springs=[ParticleSpring(k, i, a) for i, (k, a) in enumerate(zip(stiffness, anchors, strict=True))],
        drags=[Drag(d, i, wind) for i, d in enumerate(drag)],
    )
    q, xi = pose.random(3), np.array([0.4, -0.3, 0.9, 1.1, -2.0, 0.6])
    pairs = [(i, j) for i in range(5) for j in range(i)]  # ten distances, nine of them independent

    def rods(r):
        points = np.reshape(r, (5, 3))
        lengths = [np.vecdot(points[i, :] - points[j, :], points[i, :] - points[j, :]) for i, j in pairs]
        return vector(
            *(
                length - np.sum((BODY_POINTS[i] - BODY_POINTS[j]) ** 2)
                for length, (i, j) in zip(lengths, pairs, strict=True)
            )
        )

    results = of_particles(s, q, xi, constraints=rods)
    G = pose.pose(q)
    moments = rigid_body.moments(BODY_MASSES, BODY_POINTS)
    mass = se3.Vee(moments)
    form = rigid_body.springs(stiffness, BODY_POINTS[:3], anchors).minimum()
    friction = rayleigh.body_drag(drag, BODY_POINTS, se3.rotation(G), xi, np.tile(wind, (5, 1)))
    results["rigid body (3.96)"] = rigid_body.acceleration(
        mass, G, xi, GRAVITY, stiffness=form.moments, rest=form.rest, force=-friction
    )
    rest = rigid_body.stiffness_force_from_matrix(form.matrix, G, form.rest)
    load = -rest - friction - rigid_body.gravity_force_from_moments(moments, G, GRAVITY)
    inertia = spatial.swap_matrix(mass)
    spatial_rate = spatial_newton_euler.body_acceleration(inertia, spatial.swap(xi), spatial.swap(load))
    results["Newton-Euler, spatial (S20)"] = spatial.swap(spatial_rate)

    center = BODY_MASSES @ BODY_POINTS / BODY_MASSES.sum()
    at_center = se3.pose(np.eye(3), center)
    shift = se3.Ad_inverse(at_center)  # twist of the frame at the centre of mass
    hexahedral = UnifiedPose.hexahedral((0.5, 1.5, 0.8))
    w = hexahedral.unified_velocity(shift @ xi)
    force = unified.force_of_wrench(hexahedral, se3.Ad(at_center).T @ load)
    theta = spatial_newton_euler.rotational_inertia(BODY_MASSES, BODY_POINTS - center)
    w_rate = unified.acceleration(hexahedral, BODY_MASSES.sum(), theta, w, force)
    results["unified velocities (002, 51)"] = np.linalg.solve(shift, hexahedral.body_velocity(w_rate))
    return results


def rotary_pendulum():
    # the reference parameters have J_p2 > J_p1 + J_p3, which no rod has and System rejects
    p = RotaryPendulum(Jp=(0.0011998, 0.00122, 4e-05))
    q, v = np.array([1.83, 1.85]), np.array([-0.75, 1.26])
    c = Vector(2)
    loads = {
        "force": lambda q, v: vector(p.tau, 0.0),
        "dissipation": lambda q, v: 0.5 * p.B_r * v[0] ** 2 + 0.5 * p.B_p * v[1] ** 2,
    }
    L = lagrangian(p.kinetic_energy, p.potential_energy)
    motion = p.derive()
    b, _, drift, force, _ = motion.terms(q, v)
    results = {
        "moving frame (51)": motion.acceleration(q, v),
        "Euler-Lagrange (2.31)": euler_lagrange.acceleration(c, L, **loads)(q, v),
        "Hamilton (2.37)": hamilton.flow(c, L, **loads).acceleration(q, v),
        "Levi-Civita (3.36)": levi_civita.acceleration(
            c, levi_civita.metric_of(c, p.kinetic_energy), p.potential_energy, **loads
        )(q, v),
        "d'Alembert (3.23)": lagrange_dalembert.acceleration(b, p.mass(), drift, force),
        "Lagrange, minimal (1.2)": minimal.MinimalModel(2, p.kinetic_energy, p.potential_energy).acceleration(
            q, v, [p.tau - p.B_r * v[0], -p.B_p * v[1]]
        ),
    }
    complement = np.linalg.svd(b.T)[2][2:]  # null space: A B = 0
    mass = p.mass()
    full = multipliers.udwadia_kalaba(mass, np.linalg.solve(mass, force), complement, complement @ drift)
    results["Udwadia-Kalaba (M12)"] = np.linalg.lstsq(b, full - drift, rcond=None)[0]
    full = gauss.quadratic_program(mass, np.linalg.solve(mass, force), complement, complement @ drift)
    results["Gauss, quadratic program (3.11)"] = np.linalg.lstsq(b, full - drift, rcond=None)[0]

    arm = spatial_newton_euler.spatial_inertia(p.m_r, np.array([0.5 * p.L_r, 0, 0]), np.diag(p.Jr))
    rod = spatial_newton_euler.spatial_inertia(p.m_p, np.array([0, 0, 0.5 * p.L_p]), np.diag(p.Jp))
    links = [
        spatial_newton_euler.Link(screw=[0, 0, 1, 0, 0, 0], inertia=arm),
        spatial_newton_euler.Link(
            screw=[1, 0, 0, 0, 0, 0], inertia=rod, at=se3.pose(np.eye(3), [p.L_r, 0, 0]), parent=0
        ),
    ]
    torque = np.array([p.tau - p.B_r * v[0], -p.B_p * v[1]])
    results["recursive Newton-Euler (S20)"] = spatial_newton_euler.acceleration(links, q, v, torque, (0, 0, -p.g))

    system = ht.System(gravity=(0, 0, -p.g))
    system.body("arm", joint=ht.Revolute("z"), inertia=ht.Inertia(p.m_r, (0.5 * p.L_r, 0, 0), p.Jr))
    system.body(
        "rod",
        parent="arm",
        at=(p.L_r, 0, 0),
        joint=ht.Revolute("x"),
        inertia=ht.Inertia(p.m_p, (0, 0, 0.5 * p.L_p), p.Jp),
    )
    system.dissipation(loads["dissipation"])
    system.input("motor", ht.JointForce("arm"))
    results["System (3.126)"] = system.derive().acceleration(q, v, [p.tau])
    golden = json.loads((GOLDEN / "b_rotary_pendulum.json").read_text())["states"][0]
    reference = RotaryPendulum().derive().acceleration(np.array(golden["q"]), np.array(golden["qdot"]))
    np.testing.assert_allclose(reference, golden["qddot"], rtol=1e-11)
    return results


def chaplygin_sleigh():
    """Nonholonomic: only formalisms without commutation coefficients, or with the slip released."""
    p = ChaplyginSleigh()
    q, v = np.array([-0.7, 0.5, 2.2, -1.1]), np.array([0.8, 1.6, -2.0])
    names = ("x", "y", "theta", "delta")
    quasi = QuasiCoordinates(names, ("u", "turn", "rotor"), p.kinematics, complete=False)
    motion = p.derive()

    def spring(q):
        return p.k1 * q[3] ** 2 + p.k2 * q[3] ** 4

    def acceleration_energy(q, v, a):
        b = p.constraint_matrix(q)
        full = b @ a + ht._arrays.directional(b @ v, q, p.kinematics(q) @ v)
        return 0.5 * np.vecdot(full, p.mass() @ full)

    results = {
        "moving frame (51)": motion.acceleration(q, v),
        "Gibbs-Appell (3.30)": gibbs_appell.acceleration(quasi, acceleration_energy, spring)(q, v),
    }
    b, _, drift, force, _ = motion.terms(q, v)
    results["d'Alembert (3.23)"] = lagrange_dalembert.acceleration(b, p.mass(), drift, force)

    # all four velocities (u, side slip, turn, rotor) in the Lagrangian, the slip released afterwards
    def full_kinematics(q):
        c, s = np.cos(q[2]), np.sin(q[2])
        return ht.matrix([[c, -s, -p.b * s, 0], [s, c, p.b * c, 0], [0, 0, 1, 0], [0, 0, 0, 1]])

    hamel = QuasiCoordinates(names, ("u", "slip", "turn", "rotor"), full_kinematics)

    def kinetic(q, rates):
        x, y, turn, rotor = (rates[i] for i in range(4))
        spin = q[2] + q[3]
        rx, ry = x - p.a * np.sin(spin) * (turn + rotor), y + p.a * np.cos(spin) * (turn + rotor)
        sleigh = p.m_c * (x * x + y * y) + p.J_c * turn**2
        return 0.5 * (sleigh + p.m_r * (rx * rx + ry * ry) + p.J_r * (turn + rotor) ** 2)

    def quasi_lagrangian(q, v):
        return kinetic(q, full_kinematics(q) @ v) - spring(q)

    released = multipliers.release(hamel, quasi_lagrangian, velocity=lambda q, v: v[1])
    a = released(q, np.array([v[0], 0.0, v[1], v[2]])).acceleration
    assert abs(a[1]) < 1e-12
    results["Euler-Lagrange-Hamel and multiplier (2.31, 3.9)"] = a[[0, 2, 3]]

    # rates of (x, y, theta, delta) with the side slip as a velocity constraint
    def slip(q, rates):
        return -rates[0] * np.sin(q[2]) + rates[1] * np.cos(q[2]) - p.b * rates[2]

    plain = Vector(4, names)
    rates = np.asarray(p.kinematics(q)) @ v
    cartesian = multipliers.release(plain, lambda q, v: kinetic(q, v) - spring(q), velocity=slip)(q, rates)
    bend = Evaluator(
        lambda q, v: ht._arrays.directional(p.kinematics(q) @ v, q, p.kinematics(q) @ v), {"q": (4,), "v": (3,)}
    )
    results["multipliers, rates (3.9)"] = np.linalg.lstsq(
        p.kinematics(q), cartesian.acceleration - bend(q, v), rcond=None
    )[0]

    complement = np.linalg.svd(b.T)[2][3:]
    free = np.linalg.solve(p.mass(), force)
    for name, solver in (
        ("Udwadia-Kalaba (M12)", multipliers.udwadia_kalaba),
        ("Gauss, quadratic program (3.11)", gauss.quadratic_program),
    ):
        full = solver(p.mass(), free, complement, complement @ drift)
        results[name] = np.linalg.lstsq(b, full - drift, rcond=None)[0]
    return results


def scalable():
    """A body that may grow: seven degrees of freedom, particles, quaternion coordinates, generalised velocities."""
    c = ScalablePose()
    points = BODY_POINTS - BODY_MASSES @ BODY_POINTS / BODY_MASSES.sum()
    q, u = c.random(4), np.array([0.3, -0.2, 0.5, 0.4, 1.0, -0.7, 0.9])
    forces = RNG.standard_normal((5, 3))
    s = ParticleSystem(
        c,
        BODY_MASSES,
        lambda q: np.stack([c.position(q, h) for h in points], axis=0),
        force=lambda q, v: forces + np.zeros((5, 3)),
    )
    results = of_particles(s, q, u)
    theta = spatial_newton_euler.rotational_inertia(BODY_MASSES, points)
    mass = scalable_body.mass_matrix(BODY_MASSES.sum(), theta)
    loads = scalable_body.loads(c.scale_and_rotation(q)[1], points, forces)
    results["scalable body (001, 93)"] = scalable_body.acceleration(mass, q, u, loads)
    qd = c.rate(q, u)
    qdd = scalable_body.coordinate_acceleration(mass, q, qd, loads)
    Q, Qd = scalable_body.rate_matrix(q), scalable_body.rate_matrix_rate(qd)
    results["quaternion coordinates (001, 70)"] = Q @ qdd + Qd @ qd
    return results


def check_connection(model, c, q, v, bias, tables) -> None:
    """K61: (3.35), the sum over bodies (3.112), the identities (3.33a, b) and the particle sums of the reference data."""
    gamma, connection, mass = (
        np.asarray(c.commutation(q)),
        levi_civita.connection(c, model.mass_matrix, q),
        model.mass_matrix(q),
    )
    np.testing.assert_allclose(connection, model.connection(q), atol=1e-10)
    np.testing.assert_allclose(np.einsum("ijk,j,k->i", connection, v, v), bias, rtol=1e-10, atol=1e-10)
    lowered = np.einsum("sij,sk->ijk", gamma, mass)
    np.testing.assert_allclose(
        lowered, np.einsum("kji->ijk", connection) - np.einsum("kij->ijk", connection), atol=1e-10
    )
    slope = Evaluator(
        lambda q, v: ht._arrays.directional(model.mass_matrix(q), q, model.rate(q, v)), {"q": (30,), "v": (15,)}
    )
    slopes = np.moveaxis(slope(q, np.eye(15)), 0, -1)  # d_k M_ij
    np.testing.assert_allclose(slopes, connection + np.swapaxes(connection, 0, 1), atol=1e-10)
    np.testing.assert_allclose(particle_connection(model, q, tables), connection, atol=1e-9)


def particle_connection(model, q, tables) -> np.ndarray:
    """The definition (3.32): Gamma_ijk = sum m d_i r . d_k d_j r over the particles of all bodies; d_k by exact differentiation."""

    def rows(q):
        parts = []
        for name, table in tables.items():
            R, body = se3.rotation(model.pose("world", name, q)), model.jacobian("world", name, q)
            parts += [R @ (body[:3, :] - so3.wed(h) @ body[3:, :]) for h in table[:, 1:]]
        return np.concatenate(parts, axis=0)

    w = np.repeat(np.concatenate([table[:, 0] for table in tables.values()]), 3)
    count = len(w)
    flat = Evaluator(
        lambda q, v: np.reshape(
            ht._arrays.directional(np.reshape(rows(q), (15 * count,)), q, model.rate(q, v)), (count, 15)
        ),
        {"q": (30,), "v": (15,)},
    )
    J, slopes = Evaluator(rows, {"q": (30,)})(q), flat(q, np.eye(15))  # slopes[k, :, j] = d_k d_j r
    return np.einsum("p,pi,kpj->ijk", w, J, slopes)


def tricopter_with_load():
    """Eight bodies, 30 coordinates, 15 velocities (thesis, examples 6 and 7), against the reference data as well."""
    golden = json.loads((GOLDEN / "c_tricopter.json").read_text())
    p = golden["parameters"]
    bodies = ["world", "hull", "load", "arm1", "propeller1", "arm2", "propeller2", "arm3", "propeller3"]
    system = ht.System(gravity=p["a_G"])

    def inertia(i):
        table = np.array(p["mass_particles_[w,hx,hy,hz]"][str(i)])
        return ht.Inertia.from_particles(table[:, 0], table[:, 1:])

    system.body("hull", joint=ht.Free("matrix"), inertia=inertia(1))
    load = ht.Spherical("matrix", velocity="absolute")
    system.body("load", parent="hull", at=(0, 0, p["h_L"]), joint=load, inertia=inertia(2))
    for k, phi in enumerate(p["phi"]):
        place = se3.pose(so3.rotation_about("z", phi), [p["l_A"] * np.cos(phi), p["l_A"] * np.sin(phi), 0])
        system.body(f"arm{k + 1}", parent="hull", at=place, joint=ht.Revolute("x"), inertia=inertia(3 + 2 * k))
    for k in range(3):
        joint = ht.Revolute("z", coordinates="circle")
        system.body(
            f"propeller{k + 1}", parent=f"arm{k + 1}", at=(0, 0, p["h_P"]), joint=joint, inertia=inertia(4 + 2 * k)
        )
    for pair, rows in p["damper_particles_(a,b)_fluid_fixed_in_a_[w,h]"].items():
        a, b = (bodies[int(i)] for i in pair.split(","))
        system.damper(a, b, ht.Damping.from_particles(np.array(rows)[:, 0], np.array(rows)[:, 1:]))
    for pair, rows in p["springs_(a,b)_[k,h in b(3),p in a(3)]"].items():
        a, b = (bodies[int(i)] for i in pair.split(","))
        table = np.array(rows)
        system.spring(a, b, ht.Stiffness.from_springs(table[:, 0], table[:, 1:4], table[:, 4:]))
    model = system.derive()
    state = golden["states"][0]
    q, v = np.array(state["x"]), np.array(state["xi"])

    def left_inverse(q):
        """v = T Y q': the joints' own velocities, then the absolute angular velocity of the load."""
        R = np.reshape(q[12:21], (3, 3))  # rows are the columns of the load's rotation
        pick = np.eye(15)
        own = model.coordinates.left_inverse(q)
        return pick @ own + pick[:, 6:9] @ (R @ own[3:6, :])

    c = QuasiCoordinates(model.q_names, model.v_names, model.kinematics_matrix, left_inverse)

    def potential(q):
        return model.potential_energy(q)

    def dissipation(q, v):
        return 0.5 * np.vecdot(v, model.damping_matrix(q) @ v)

    L = lagrangian(lambda q, v: model.kinetic_energy(q, v), potential)
    loads = {"dissipation": dissipation}
    inertias = {name: model.description.inertias[name] for name in bodies[1:]}

    def acceleration_energy(q, v, a):
        total = 0.0
        for name, moment in inertias.items():
            J = model.jacobian("world", name, q)
            rate = J @ a + ht._arrays.directional(J @ v, q, model.rate(q, v))
            total = total + rigid_body.acceleration_energy(moment.matrix, J @ v, rate)
        return total

    results = {
        "System (3.126)": model.acceleration(q, v),
        "reference data": np.array(state["xi_dot_free_damped"]),
        "Euler-Lagrange (2.31)": euler_lagrange.acceleration(c, L, **loads)(q, v),
        "Hamilton (2.37)": hamilton.flow(c, L, **loads).acceleration(q, v),
        "Levi-Civita (3.35)": levi_civita.acceleration(c, lambda q: model.mass_matrix(q), potential, **loads)(q, v),
        "Gibbs-Appell (3.30)": gibbs_appell.acceleration(c, acceleration_energy, potential, **loads)(q, v),
    }

    particles = p["mass_particles_[w,hx,hy,hz]"]
    tables = {name: np.array(particles[str(i)]) for i, name in enumerate(bodies) if i}
    check_connection(model, c, q, v, np.array(state["c"]), tables)

    # bodies as carriers: accelerations J a + J' v, weights M_b, forces -ad^T and gravity; springs and dampers as joint forces
    J = np.concatenate([model.jacobian("world", name, q) for name in inertias])
    mass = np.zeros((48, 48))
    wrench, drift = np.zeros(48), np.zeros(48)
    turn = Evaluator(
        lambda q, v: np.concatenate(
            [ht._arrays.directional(model.jacobian("world", n, q) @ v, q, model.rate(q, v)) for n in inertias]
        ),
        {"q": (30,), "v": (15,)},
    )
    drift = turn(q, v)
    for i, (name, moment) in enumerate(inertias.items()):
        part = slice(6 * i, 6 * i + 6)
        mass[part, part] = moment.matrix
        xi, G = J[part] @ v, model.pose("world", name, q)
        gyroscopic = spatial_newton_euler.body_wrench(moment.matrix, xi, np.zeros(6))
        wrench[part] = -gyroscopic - rigid_body.gravity_force(moment.matrix, G, p["a_G"])
    extra = -model.stiffness_force(q) - model.dissipation_force(q, v)
    spread = wrench + mass @ J @ np.linalg.solve(J.T @ mass @ J, extra)  # a wrench with the same generalised force
    results["Newton-Euler, projected (S20, 3.125)"] = lagrange_dalembert.acceleration(J, mass, drift, spread)
    root = np.linalg.cholesky(mass).T
    results["Gauss, least squares (3.24)"] = np.linalg.lstsq(
        root @ J, root @ (np.linalg.solve(mass, spread) - drift), rcond=None
    )[0]

    centres = {name: se3.pose(np.eye(3), moment.com) for name, moment in inertias.items()}

    def constraint_matrix(q):
        rows = []
        for name, place in centres.items():
            body = se3.Ad_inverse(place) @ model.jacobian("world", name, q)
            rotation = se3.rotation(model.pose("world", name, q))
            rows += [rotation @ body[:3, :], body[3:, :]]
        return np.concatenate(rows, axis=0)

    masses = [float(m.mass) for m in inertias.values()]
    moments = [m.moment_at_com for m in inertias.values()]
    full_mass = block_mass(masses, moments)
    weights = np.concatenate([np.concatenate([m * np.array(p["a_G"]), np.zeros(3)]) for m in masses])

    numeric_B = Evaluator(constraint_matrix, {"q": (30,)})(q)
    joint = numeric_B @ np.linalg.solve(numeric_B.T @ numeric_B, extra)
    frames = MovingFrame(
        (30, 15), model.kinematics_matrix, constraint_matrix, full_mass, lambda q, v: weights + joint, block_gyroscopic
    )
    results["moving frame (51)"] = frames.acceleration(q, v)
    return results


SYSTEMS = (
    particle_on_circle,
    double_pendulum,
    cart_and_pendulum,
    bead_on_rotating_hoop,
    pendulum_on_vibrating_support,
    heavy_top,
    free_body,
    rotary_pendulum,
    chaplygin_sleigh,
    scalable,
    pytest.param(tricopter_with_load, marks=pytest.mark.thorough),
)


@pytest.mark.parametrize("system", SYSTEMS, ids=lambda f: f.__name__)
def test_all_formalisms_give_the_same_acceleration(system) -> None:
    results = {name: np.asarray(a) for name, a in system().items()}
    assert len(results) >= 7
    reference = np.median(np.stack(list(results.values())), axis=0)
    size = np.max(np.abs(reference))
    spread = {name: float(np.max(np.abs(a - reference)) / size) for name, a in results.items()}
    assert max(spread.values()) < 1e-10, spread


def test_the_commutation_coefficients_matter() -> None:
    """Euler-Lagrange without gamma is wrong by more than its forces: the agreement above is not a coincidence."""
    theta = np.diag([1.0, 2.0, 3.0])
    c = Rotation()
    omega = np.array([1.0, 1.0, 1.0])
    right = euler_lagrange.acceleration(c, lambda q, w: 0.5 * np.vecdot(w, theta @ w))(c.neutral(), omega)
    naive = np.zeros(3)  # d/dt(Theta omega) = 0
    assert np.max(np.abs(right - naive)) > 0.3
