"""Systems that the time moves: hand-derived equations, moving frames, and the power of the drivers."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import numpy as np
import pytest

import heavytop as ht
from heavytop.errors import ModelError, ShapeError
from heavytop.geometry import se3, so3
from heavytop.system.joints import Joint

BUILDERS = ("acceleration", "explicit_acceleration", "recursive_acceleration", "internal_acceleration")
T, THETA, OMEGA, G = 0.7, 0.4, 0.9, 9.81


def crane(mass: float = 2.0, length: float = 1.2, moment: float = 0.3) -> ht.System:
    """A load on a trolley whose place is given."""
    system = ht.System(name="crane")
    drive = ht.Prescribed(ht.Prismatic("x"), lambda t: 0.5 * np.sin(1.3 * t))
    system.body("trolley", joint=drive, inertia=ht.Inertia(10.0))
    load = ht.Inertia(mass, com=(0, 0, -length), moment_at_com=(moment,) * 3)
    system.body("load", parent="trolley", joint=ht.Revolute("y"), inertia=load)
    return system


def moved_pivot() -> ht.System:
    """A pendulum whose pivot moves in its plane."""
    system = ht.System(name="moved pivot")
    t = system.time
    at = (0.2 * np.cos(3 * t), 0.0, 0.1 * np.sin(20 * t))
    system.body("rod", at=at, joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
    return system


def rotating_hoop() -> ht.System:
    """A bead on a hoop that turns about its vertical diameter, not uniformly."""
    system = ht.System(name="hoop")
    system.body("hoop", joint=ht.Prescribed(ht.Revolute("z"), lambda t: 2 * t + 0.3 * np.sin(t)))
    system.body("bead", parent="hoop", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -0.5)))
    return system


def by_hand(name: str) -> float:
    """Angular acceleration from Lagrange's equations, derived by hand; com at (-l sin, 0, -l cos)."""
    s, c = np.sin(THETA), np.cos(THETA)
    if name == "crane":
        pivot = -0.5 * 1.3**2 * np.sin(1.3 * T)
        return 2.0 * 1.2 * (c * pivot - G * s) / (0.3 + 2.0 * 1.2**2)
    if name == "pivot":
        return c * (-0.2 * 9 * np.cos(3 * T)) - s * (G - 0.1 * 400 * np.sin(20 * T))
    spin = 2 + 0.3 * np.cos(T)
    return spin**2 * s * c - G / 0.5 * s


@pytest.mark.parametrize(("name", "make"), [("crane", crane), ("pivot", moved_pivot), ("hoop", rotating_hoop)])
def test_equations_by_hand(name: str, make: Any) -> None:
    model = make().derive(native=False)
    assert model.nv == 1
    assert model.parameter_names == ("time",)
    expected, time = by_hand(name), {"time": T}
    for builder in BUILDERS:
        found = model.evaluate(builder, np.array([THETA]), np.array([OMEGA]), np.zeros(0), parameters=time)
        np.testing.assert_allclose(found, [expected], rtol=1e-12)
    np.testing.assert_allclose(model.inverse_dynamics([THETA], [OMEGA], [expected], time), 0.0, atol=1e-12)


def test_times_broadcast_like_parameters() -> None:
    model = crane().derive(native=False)
    times = np.linspace(0.0, 2.0, 5)
    together = model.acceleration([THETA], [OMEGA], parameters={"time": times})
    alone = [model.acceleration([THETA], [OMEGA], parameters={"time": t}) for t in times]
    np.testing.assert_array_equal(together, alone)
    assert model.acceleration([THETA], [OMEGA]) == model.acceleration([THETA], [OMEGA], parameters={"time": 0.0})


# --- moving frames ------------------------------------------------------------------------------------------------------


def arm(at: Any = None, turned: Any = None) -> ht.System:
    """A spatial arm with an absolute attitude, on a support."""
    system = ht.System(name="arm")
    place = at(system.time) if at is not None else np.eye(4)
    system.frame("support", "world", place)
    shoulder = ht.Spherical("quaternion", velocity="absolute" if turned is None else "relative")
    inertia = ht.Inertia(1.0, com=(0.5, 0, 0.1), moment_at_com=(0.1, 0.2, 0.25))
    system.body("upper", parent="support", at=(0.1, 0.2, 0.3), joint=shoulder, inertia=inertia)
    system.body("lower", parent="upper", at=(1.0, 0, 0), joint=ht.Revolute("y"), inertia=inertia)
    return system


def test_galilei() -> None:
    """On a support in uniform motion everything goes on as at rest."""
    rest, model = arm().derive(native=False), arm(lambda t: (1.5 * t, -0.4 * t, 2.0 * t)).derive(native=False)
    q, v = rest.random(3), np.array([0.1, -0.4, 0.5, 0.7])
    for builder in BUILDERS:
        moved = model.evaluate(builder, q, v, np.zeros(0), parameters={"time": T})
        np.testing.assert_allclose(moved, rest.evaluate(builder, q, v, np.zeros(0)), atol=1e-12)


def test_accelerated_support_is_gravity() -> None:
    """Einstein's lift: a support with the acceleration b is a field of -b."""
    lift = arm(lambda t: (0.25 * t * t, 0.0, 1.5 * t * t)).derive(native=False)
    still = arm()
    still.gravity = (-0.5, 0.0, -9.81 - 3.0)
    q, v = lift.random(4), np.array([0.3, -0.2, 0.1, 0.4])
    expected = still.derive(native=False).acceleration(q, v)
    np.testing.assert_allclose(lift.acceleration(q, v, parameters={"time": T}), expected, atol=1e-12)


def test_rotating_support_gives_centrifugal_and_coriolis_forces() -> None:
    """A puck on a turntable moves on a straight line in the world."""
    system = ht.System(gravity=(0, 0, 0))
    rate, growth = 1.1, 0.6
    system.body("table", joint=ht.Prescribed(ht.Revolute("z"), lambda t: rate * t + growth * t * t))
    system.body("puck", parent="table", joint=ht.Planar(), inertia=ht.Inertia(2.0, moment_at_com=(0.1, 0.1, 0.2)))
    model = system.derive(native=False)
    q, v = np.array([0.5, -0.3, 0.2]), np.array([0.4, 0.7, 0.3])
    omega, alpha = rate + 2 * growth * T, 2 * growth
    across = np.array([[0.0, -1.0], [1.0, 0.0]])
    r, w = q[:2], v[:2]
    expected = omega**2 * r - 2 * omega * across @ w - alpha * across @ r
    for builder in BUILDERS:
        a = model.evaluate(builder, q, v, np.zeros(0), parameters={"time": T})
        np.testing.assert_allclose(a, [*expected, -alpha], atol=1e-12)


def test_support_in_general_motion_against_a_driven_joint() -> None:
    """A free joint whose acceleration is forced to that of the given motion moves the rest alike, with the driver's wrench as its force."""

    def pose(t: Any) -> Any:
        turn = so3.rotation_about("z", 0.8 * t) @ so3.rotation_about("x", 0.5 * np.sin(t))
        return se3.pose(turn, ht.vector(0.3 * np.sin(2 * t), 0.2 * t * t, 0.1 * np.cos(t)))

    given = arm(pose, turned=True)
    free = ht.System()
    free.body("support", joint=ht.Free(), inertia=ht.Inertia(1e-9, moment_at_com=(1e-9,) * 3))
    arm_inertia = ht.Inertia(1.0, com=(0.5, 0, 0.1), moment_at_com=(0.1, 0.2, 0.25))
    free.body("upper", parent="support", at=(0.1, 0.2, 0.3), joint=ht.Spherical("quaternion"), inertia=arm_inertia)
    free.body("lower", parent="upper", at=(1.0, 0, 0), joint=ht.Revolute("y"), inertia=arm_inertia)
    model, other = given.derive(native=False), free.derive(native=False)
    time, eps = {"time": T}, 1e-4
    q, v = model.random(5), np.array([0.3, -0.2, 0.1, 0.4])
    a = model.acceleration(q, v, parameters=time)
    twist = model.twist("world", "support", q, v, time)
    ends = [model.twist("world", "support", q, v, {"time": T + s}) for s in (eps, -eps)]
    rate = (ends[0] - ends[1]) / (2 * eps)
    G = model.pose("world", "support", q, time)
    whole = np.concatenate([G[:3, 3], G[:3, :3].T.reshape(-1), q])
    np.testing.assert_allclose(other.pose("world", "support", whole), G, atol=1e-15)
    force = other.inverse_dynamics(whole, np.concatenate([twist, v]), np.concatenate([rate, a]))
    np.testing.assert_allclose(force[6:], 0.0, atol=1e-6)
    np.testing.assert_allclose(model.driver_wrenches(q, v, parameters=time)["support"], force[:6], atol=1e-6)


# --- power ----------------------------------------------------------------------------------------------------------------


def full() -> ht.System:
    """A crane with everything that does work."""
    system = crane()
    system.joint_damper("load", damping=0.3)
    system.damper("world", "load", ht.Damping(0.2))
    system.input("motor", ht.JointForce("load"))
    system.input("fan", ht.Thruster("load", axis="x"))
    system.potential(lambda q: 3 * (q[0] - np.sin(system.time)) ** 2)
    system.force(lambda q, v: ht.vector(0.3 * np.cos(system.time) - v[0]))
    system.spring("world", "load", ht.Stiffness(5.0, (0, 0, -1.0)), rest=(0.1, 0, 0.2))
    system.gravity = ht.vector(0.0, 0.0, -9.81 - np.sin(system.time))
    return system


def balance_error(model: ht.Model, q: Any, v: Any, u: Any, time: float = T, eps: float = 1e-5) -> float:
    """Relative error of the power balance along the motion, by differences."""
    now = {"time": time}
    a, power = model.acceleration(q, v, u, now), model.power(q, v, u, now)
    w = model.evaluate("joint_velocity", q, v, parameters=now)

    def energy(s: float) -> float:
        return float(model.energy(model.coordinates.retract(q, s * w), v + s * a, {"time": time + s}))

    rate = (energy(eps) - energy(-eps)) / (2 * eps)
    assert power.driver == pytest.approx(sum(model.driver_power(q, v, u, now).values()), abs=1e-12)
    return float(abs(rate - (power.input + power.supplied - power.dissipated + power.driver)) / (1 + abs(rate)))


def test_power_of_a_system_with_everything() -> None:
    model = full().derive(native=False)
    assert model.driver_names == ("trolley", "potentials")
    assert balance_error(model, np.array([THETA]), np.array([OMEGA]), np.array([0.5, 2.0])) < 1e-8
    assert abs(model.power([THETA], [OMEGA], [0.5, 2.0], {"time": T}).driver) > 0.01


def test_drivers_force_is_that_of_newton() -> None:
    """The trolley feels the drive, and the load that hangs on it."""
    model, time = crane().derive(native=False), {"time": T}
    a = float(model.acceleration([THETA], [OMEGA], parameters=time)[0])
    pivot = -0.5 * 1.3**2 * np.sin(1.3 * T)
    com = pivot - 1.2 * (np.cos(THETA) * a - np.sin(THETA) * OMEGA**2)
    force = 10.0 * pivot + 2.0 * com
    found = model.driver_wrenches([THETA], [OMEGA], parameters=time)["trolley"]
    assert found[0] == pytest.approx(force, rel=1e-12)
    power = model.driver_power([THETA], [OMEGA], parameters=time)["trolley"]
    assert power == pytest.approx(force * 0.5 * 1.3 * np.cos(1.3 * T), rel=1e-12)


def test_absolute_velocities_and_velocity_maps_that_change_with_time() -> None:
    system = arm(lambda t: se3.pose(so3.rotation_about((1, 2, 2), t + np.sin(t)), ht.vector(0.0, 0.1 * t, 0.0)))
    own = system.derive(native=False)
    q, v = own.random(3), np.array([0.1, -0.4, 0.5, 0.7])
    assert balance_error(own, q, v, None) < 1e-7

    def velocity(q: Any, v: Any) -> Any:
        return ht.vector(v[0] + np.sin(system.time) * v[3], v[1], v[2], v[3] * (2 + np.cos(q[0] * system.time)))

    other = system.derive(velocity=velocity, native=False)
    w = np.array([v[0] + np.sin(T) * v[3], v[1], v[2], v[3] * (2 + np.cos(q[0] * T))])
    assert balance_error(other, q, w, None) < 1e-7
    for name, power in own.driver_power(q, v, parameters={"time": T}).items():
        assert other.driver_power(q, w, parameters={"time": T})[name] == pytest.approx(power, rel=1e-10)


# --- constraints that move ------------------------------------------------------------------------------------------------


def loop_with_a_moving_anchor() -> ht.System:
    system = ht.System(name="loop")
    bar = ht.Inertia(1.0, com=(0.5, 0, 0), moment_at_com=(0.1,) * 3)
    table = ht.Inertia(1.0, moment_at_com=(1, 1, 1))
    system.body("table", joint=ht.Prescribed(ht.Revolute("z"), lambda t: 0.4 * np.sin(t)), inertia=table)
    system.body("a", parent="table", joint=ht.Revolute("y"), inertia=bar)
    system.body("b", parent="a", at=(1.0, 0, 0), joint=ht.Revolute("y"), inertia=bar)
    system.body("c", parent="b", at=(1.2, 0, 0), joint=ht.Revolute("y"), inertia=bar)
    anchor = (1.6 + 0.1 * np.sin(2 * system.time), 0.0, 0.2 * np.cos(system.time))
    system.loop("table", "c", ht.Revolute("y"), at_a=anchor, at_b=(1.0, 0, 0), name="end")
    return system


def planes() -> ht.System:
    """A free body on a plane that moves, dragged along a rail that moves."""
    system = ht.System(name="planes")
    body = ht.Inertia(1.0, com=(0.1, 0, 0.2), moment_at_com=(0.1, 0.2, 0.25))
    system.body("m", joint=ht.Free("quaternion"), inertia=body)
    system.constrain(lambda q: q[2] - 0.3 * np.sin(2 * system.time) * q[0], name="ramp")
    system.constrain(lambda q, v: v[0] - 0.3 * np.cos(system.time) * v[1] - 0.2 * q[1] * system.time, name="drag")
    return system


@pytest.mark.parametrize("make", [loop_with_a_moving_anchor, planes])
def test_constraints_that_move(make: Any) -> None:
    """The start fulfils them, the acceleration keeps them, and their drivers' power closes the balance."""
    model, time = make().derive(native=False), {"time": T}
    guess = [0.8, -1.5, 0.7] if model.nq == 3 else model.random(1)
    q, v = model.assemble(guess, 0.3 * np.ones(model.nv), parameters=time)
    for residual in model.constraint_residuals(q, v, time):
        np.testing.assert_allclose(residual, 0.0, atol=1e-11)
    a, w = model.acceleration(q, v, parameters=time), v
    residuals = []
    for s in (1e-3, 5e-4):
        moved = model.coordinates.retract(q, s * w + 0.5 * s * s * a)
        residuals.append(np.max(np.abs(model.constraint_residuals(moved, v + s * a, {"time": T + s})[1])))
    assert 3.5 < residuals[0] / residuals[1] < 4.5  # of second order: the acceleration is consistent
    assert balance_error(model, q, v, None) < 1e-7
    assert all(abs(power) > 1e-3 for power in model.driver_power(q, v, parameters=time).values())


def test_basis_with_a_drift_is_the_constrained_system() -> None:
    system = ht.System(gravity=(0, 0, 0))
    skate = ht.Inertia(1.0, com=(0.1, 0, 0), moment_at_com=(0.1, 0.1, 0.2))
    system.body("skate", joint=ht.Planar(), inertia=skate)
    side = lambda: 0.5 * np.sin(system.time)  # noqa: E731
    system.constrain(lambda q, v: v[1] * np.cos(q[2]) - v[0] * np.sin(q[2]) - side())
    held, now = system.derive(native=False), {"time": T}
    q = np.array([0.1, 0.2, 0.5])
    _, v = held.assemble(q, np.array([1.0, 0.2, 0.3]), parameters=now)

    def basis(q: Any, w: Any) -> Any:
        c, s = np.cos(q[2]), np.sin(q[2])
        return ht.vector(w[0] * c - side() * s, w[0] * s + side() * c, w[1])

    system.basis(basis, names=("speed", "turn"))
    free = system.derive(native=False)
    w = np.array([v[0] * np.cos(q[2]) + v[1] * np.sin(q[2]), v[2]])
    assert balance_error(held, q, v, None) < 1e-8
    assert balance_error(free, q, w, None) < 1e-8
    powers = [sum(m.driver_power(q, x, parameters=now).values()) for m, x in ((held, v), (free, w))]
    assert powers[0] == pytest.approx(powers[1], rel=1e-10)


def test_a_belt_without_time_has_a_driver_too() -> None:
    """A constraint with a constant drift does work although no equation depends on the time."""
    system = ht.System(gravity=(0, 0, 0))
    system.body("disc", joint=ht.Planar(), inertia=ht.Inertia(1.0, com=(0.1, 0, 0), moment_at_com=(0.1, 0.1, 0.2)))
    system.constrain(lambda q, v: v[0] - 0.3, name="belt")
    model = system.derive(native=False)
    q, v = np.array([0.0, 0.0, 0.4]), np.array([0.3, 0.1, 2.0])
    assert model.driver_names == ("belt",)
    lam = model.constraint_forces(q, v)["belt"][0]
    assert model.driver_power(q, v)["belt"] == pytest.approx(0.3 * lam)


# --- linear equations -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("absolute", [False, True])
def test_linear_equations_are_those_of_neighbouring_motions(absolute: bool) -> None:
    """The flow of the linear equations is the derivative of the flow, also where the time drives q' itself."""
    system = ht.System()
    support = ht.Prescribed(ht.Revolute((1, 2, 2)), lambda t: t + 0.5 * np.sin(2 * t))
    system.body("support", joint=support)
    ball = ht.Spherical("quaternion", velocity="absolute" if absolute else "relative")
    system.body(
        "arm", parent="support", joint=ball, inertia=ht.Inertia(1.0, com=(0.5, 0, 0.1), moment_at_com=(0.1, 0.2, 0.25))
    )
    model = system.derive(native=False)
    q, v, h, eps = model.random(3), np.array([0.1, -0.4, 0.5]), 1e-3, 1e-5
    A, _ = model.linearize(q, v, parameters={"time": T})

    def moved(q: Any, v: Any, h: float) -> tuple[Any, Any]:
        """The midpoint rule."""
        w, a = (
            model.evaluate(name, q, v, *u, parameters={"time": T})
            for name, u in (("joint_velocity", ()), ("acceleration", (np.zeros(0),)))
        )
        q_m, v_m, now = model.coordinates.retract(q, 0.5 * h * w), v + 0.5 * h * a, {"time": T + 0.5 * h}
        w = model.evaluate("joint_velocity", q_m, v_m, parameters=now)
        return model.coordinates.retract(q, h * w), v + h * model.evaluate(
            "acceleration", q_m, v_m, np.zeros(0), parameters=now
        )

    def flow(h: float) -> np.ndarray:
        columns = []
        for k in range(6):
            ends = []
            for s in (eps, -eps):
                x = np.eye(6)[k] * s
                ends.append(moved(model.coordinates.retract(q, x[:3]), v + x[3:], h))
            columns.append(
                np.concatenate([model.coordinates.difference(ends[1][0], ends[0][0]), ends[0][1] - ends[1][1]])
                / (2 * eps)
            )
        return np.stack(columns, axis=-1)

    found = (flow(h) - flow(-h)) / (2 * h)
    np.testing.assert_allclose(A, found, atol=2e-4 * np.max(np.abs(found)))
    if absolute:
        with pytest.raises(ModelError, match="depends on the time"):
            model.equations()


# --- descriptions ---------------------------------------------------------------------------------------------------------


def test_time_in_functions_is_found_when_they_are_called() -> None:
    system = ht.System()
    system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
    system.force(lambda q, v: ht.vector(np.sin(system.time)))
    twin = copy.copy(system)
    for each in (system, twin):
        model = each.derive(native=False)
        assert model.parameter_names == ("time",)
        np.testing.assert_allclose(model.acceleration([0.0], [0.0], parameters={"time": T}), [np.sin(T)])


def rod() -> ht.System:
    system = ht.System(name="rod")
    system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
    system.input("motor", ht.JointForce("rod"))
    return system


@pytest.mark.parametrize(
    "inspected", [inspect.getmembers, lambda s: hasattr(s, "time"), lambda s: copy.copy(s).time, lambda s: s.time + 1.0]
)
def test_inspecting_a_system_changes_nothing(inspected: Any) -> None:
    untouched, system = rod().derive(native=False), rod()
    inspected(system)
    model = system.derive(native=False)
    assert model.parameter_names == ()
    assert model.description.equations_key == untouched.description.equations_key


@pytest.mark.thorough
def test_predictive_control_of_an_inspected_system() -> None:
    system = rod()
    inspect.getmembers(system)
    ht.control.mpc(system.derive(), [0.0], horizon=3)


class _Spin(ht.JointElement):
    """A user-defined element whose method, not its attributes, holds the time."""

    def __init__(self, system: ht.System) -> None:
        self.joint, self.system = "rod", system

    def force(self, q: Any, w: Any) -> Any:
        return ht.vector(np.sin(self.system.time) * q[0])


class _Push:
    """A user-defined input."""

    def __init__(self, system: ht.System) -> None:
        self.system = system

    def actions(self, kinematics: Any) -> Any:
        return ht.JointForce("rod", gear=np.cos(self.system.time)).actions(kinematics)


USES: dict[str, Any] = {
    "gravity": lambda s: setattr(s, "gravity", ht.vector(0.0, 0.0, -np.cos(s.time))),
    "potential": lambda s: s.potential(lambda q: q[0] * np.sin(s.time)),
    "dissipation": lambda s: s.dissipation(lambda q, v: v[0] ** 2 * np.exp(s.time)),
    "spring": lambda s: s.joint_spring("rod", stiffness=2.0 + np.sin(s.time)),
    "input": lambda s: s.input("gear", ht.JointForce("rod", gear=2.0 + np.sin(s.time))),
    "constraint": lambda s: s.constrain(lambda q: q[0] - np.sin(s.time)),
    "velocity constraint": lambda s: s.constrain(lambda q, v: v[0] - np.sin(s.time)),
    "work": lambda s: s.constrain(lambda q, v: v[0], work=lambda q, v: ht.vector(np.sin(s.time))),
    "element": lambda s: s.add(_Spin(s)),
    "user-defined input": lambda s: s.input("push", _Push(s)),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_the_time_is_a_parameter_wherever_it_is_used(use: Any) -> None:
    system = rod()
    use(system)
    assert system.describe().time is not None
    twin = copy.copy(system)
    assert system.derive(native=False).parameter_names == twin.derive(native=False).parameter_names == ("time",)


def test_velocities_and_bases_that_use_the_time() -> None:
    system = rod()
    assert system.derive(lambda q, v: v * (2.0 + np.sin(system.time)), native=False).parameter_names == ("time",)
    assert system.derive(native=False).parameter_names == ()
    system.basis(lambda q, w: w * (2.0 + np.sin(system.time)), names=("w",))
    assert system.derive(native=False).parameter_names == ("time",)


def test_a_parameter_called_time_is_not_the_time() -> None:
    system = rod()
    system.joint_spring("rod", stiffness=system.parameter("time", 3.0))
    inspect.getmembers(system)
    assert system.derive(native=False).parameters == {"time": 3.0}


def test_functions_take_the_time() -> None:
    model = moved_pivot().derive()
    acceleration, arguments = model.function("acceleration"), (np.array([0.1]), np.array([0.2]), np.zeros(0))
    times = np.array([0.0, 0.3, T])
    expected = model.acceleration([0.1], [0.2], parameters={"time": times})
    np.testing.assert_allclose(acceleration.at(times, *arguments), expected, rtol=1e-14)
    with pytest.raises(ModelError, match="does not depend on the time"):
        rod().derive().function("acceleration").at(1.0, *arguments)


def test_equations_are_printed_with_t() -> None:
    text = moved_pivot().derive(native=False).equations().text()
    assert "sin(20·t)" in text
    assert "cos(3·t)" in text


def test_without_time_nothing_changes() -> None:
    system = ht.System()
    system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
    model = system.derive(native=False)
    assert model.parameter_names == ()
    assert model.driver_names == ()
    assert model.driver_power([0.1], [0.0]) == {}
    assert len(model.traced("power").outputs) == 3


def test_models_with_time_travel() -> None:
    model = moved_pivot().derive(native=False)
    twin = pickle.loads(pickle.dumps(model))
    assert model.description.equations_key is not None
    assert twin.description.equations_key == model.description.equations_key
    now = {"time": T}
    np.testing.assert_array_equal(
        twin.acceleration([0.1], [0.2], parameters=now), model.acceleration([0.1], [0.2], parameters=now)
    )
    other = moved_pivot()
    other.gravity = (0.0, 0.0, -9.81 * np.cos(other.time))
    assert other.derive(native=False).description.equations_key != model.description.equations_key


def timed(change: Any) -> ht.System:
    system = ht.System()
    change(system)
    return system


def _inertia(system: ht.System) -> None:
    system.body("tank", joint=ht.Prismatic("z"), inertia=ht.Inertia(2.0 - system.time))


def _screw(system: ht.System) -> None:
    class Nut(Joint):
        coordinates = ht.coordinates.Vector(1)  # pyright: ignore

        def pose(self, q: Any) -> Any:
            return se3.pose(np.eye(3), ht.vector(q[0], system.time, 0.0))

    system.body("nut", joint=Nut(), inertia=ht.Inertia(1.0))


def _coupled(system: ht.System) -> None:
    system.body("a", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.body("b", joint=ht.Coupled(ht.Prismatic("y"), "a", offset=system.time), inertia=ht.Inertia(1.0))


@pytest.mark.parametrize(
    ("change", "message"), [(_inertia, "depends on the time"), (_screw, "'nut'.*time"), (_coupled, "'b'.*time")]
)
def test_time_in_inertias_and_joints_is_rejected(change: Any, message: str) -> None:
    with pytest.raises(ModelError, match=message):
        timed(change).derive(native=False)


def test_invalid_uses_of_time() -> None:
    system = ht.System()
    stretched = ht.matrix([[1.0 + system.time, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    with pytest.raises(ModelError, match=r"not a pose at t = 0.37 s"):
        system.frame("bent", "world", se3.pose(stretched, np.zeros(3)))
    with pytest.raises(ShapeError, match="finite"):
        system.frame("gone", "world", (1.0 / system.time, 0.0, 0.0))
    with pytest.raises(ModelError, match="must return the 1 coordinates"):
        system.body("a", joint=ht.Prescribed(ht.Prismatic("x"), lambda t: np.zeros(2)))
    with pytest.raises(ModelError, match="function of the time"):
        ht.Prescribed(ht.Prismatic("x"), 3.0)  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="cannot act in a joint whose motion is given"):
        ht.Prescribed(ht.Prismatic("x", damping=1.0), lambda t: t)
    with pytest.raises(ModelError, match="points of strut"):
        system.strut("world", "world", at_a=(system.time, 0.0, 0.0), stiffness=1.0)
    with pytest.raises(ModelError, match="moves by itself"):
        ht.Prescribed(ht.Fixed(), lambda t: t)
    with pytest.raises(ModelError, match="cannot close a loop"):
        system.loop("world", "world", ht.Prescribed(ht.Prismatic("x"), lambda t: t))
    named = moved_pivot()
    named.parameter("time", 1.0)
    with pytest.raises(ModelError, match="a parameter called 'time'"):
        named.derive(native=False)
    with pytest.raises(ModelError, match="no Coriolis matrix"):
        crane().derive(native=False).coriolis_matrix([0.1], [0.2])


def test_exported_code_names_the_time(tmp_path: Any) -> None:
    system = crane()
    system.parameter("length", 1.2)
    system.derive(native=False).export_c(tmp_path, ["acceleration"])
    assert "| `p` | `length`, `time` |" in (tmp_path / "README.md").read_text("utf-8")


def test_power_of_drivers_in_absolute_velocities():
    """A body on a turning pivot in gravity that changes: the same powers in relative and absolute velocities."""
    powers = []
    for velocity in ("relative", "absolute"):
        system = ht.System()
        system.gravity = ht.vector(0.0, 1.0, -9.81 + 2.0 * np.sin(system.time))
        turned = so3.rotation_about("x", 0.5 * np.sin(system.time))
        pivot = se3.pose(turned, ht.vector(0.2, 0.1 * np.sin(2 * system.time), 0.3))
        inertia = ht.Inertia(1.0, com=(0.3, 0.1, -0.4), moment_at_com=(0.1, 0.2, 0.25))
        system.body("top", at=pivot, joint=ht.Spherical(velocity=velocity), inertia=inertia)
        model = system.derive(native=False)
        q, v, at = model.random(1), np.array([0.3, -1.0, 0.7]), {"time": 0.7}
        if velocity == "relative":
            R = model.pose("top anchor", "top", q, at)[:3, :3]
            v = v - R.T @ np.array([0.5 * np.cos(0.7), 0.0, 0.0])
        powers.append([float(power) for power in model.driver_power(q, v, parameters=at).values()])
    assert len(powers[0]) == 2
    assert np.allclose(powers[0], powers[1], rtol=1e-12)
