"""Parts that a user writes and gets wrong: every mistake is an error with a name, none is a number."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import heavytop as ht
from heavytop import control
from heavytop.errors import ControlError, ModelError, SimulationError, UnknownNameError
from heavytop.geometry import se3, so3
from heavytop.simulate.integrators import Integrator
from heavytop.system.joints import Joint


def arm(joint: Joint, **options: Any) -> ht.System:
    system = ht.System(name="arm", **options)
    system.body(
        "arm", joint=joint, inertia=ht.Inertia(1.0, com=(0.5, 0.1, 0.0), moment_at_com=np.diag([0.1, 0.3, 0.3]))
    )
    return system


# --- joints -------------------------------------------------------------------------------------------------------------------


class Screw(Joint):
    """Turns about z and advances."""

    def __init__(self, pitch: Any = 0.05) -> None:
        self.pitch = pitch

    @property
    def coordinates(self) -> ht.coordinates.Coordinates:
        return ht.coordinates.Angle()

    def pose(self, q):
        return se3.pose(so3.rotation_about("z", q[0]), ht.vector(0.0, 0.0, self.pitch * q[0]))


class OtherJacobian(Screw):
    """A Jacobian without the pitch."""

    def jacobian(self, q):
        return np.array([[0.0], [0.0], [0.0], [0.0], [0.0], [1.0]]) + 0 * q[0]


class OtherBias(Screw):
    """A bias of another motion."""

    def bias(self, q, v):
        return np.array([1.0, 0.0, 0.0, 0.0, 0.0, 0.0]) * v[0] ** 2


class Inherited(ht.Revolute):
    """An own pose with the Jacobian of a hinge."""

    def pose(self, q):
        return se3.pose(so3.rotation_about("z", q[0]), ht.vector(0.0, 0.0, 0.05 * q[0]))


class Stretched(Screw):
    """No rotation."""

    def pose(self, q):
        return se3.pose(1.1 * so3.rotation_about("z", q[0]), ht.vector(0.0, 0.0, 0.0))


class LongJacobian(Screw):
    """Seven rows."""

    def jacobian(self, q):
        return np.zeros((7, 1)) + 0 * q[0]


class Misspelled(Screw):
    """No such frame."""

    velocity_frame = "absolut"


@pytest.mark.parametrize(
    ("joint", "complaint"),
    [
        (OtherJacobian(), r"OtherJacobian: jacobian\(q\) does not match its pose: .* instead of .*0\.05"),
        (OtherBias(), r"OtherBias: bias\(q, v\) does not match its pose"),
        (Inherited("z"), r"Inherited: jacobian\(q\) does not match its pose.*Derive the class from Joint"),
        (Stretched(), r"Stretched: the given pose G\(q\) is not in SE\(3\)"),
        (LongJacobian(), r"LongJacobian: jacobian\(q\) must be an array of shape \(6, 1\), got shape \(7, 1\)"),
        (Misspelled(), "velocity_frame must be 'relative' or 'absolute', got 'absolut'"),
        (Screw(ht.System().parameter("pitch", 0.1)), "uses symbols that are not parameters of the system: pitch"),
    ],
)
def test_a_joint_that_contradicts_itself(joint: Joint, complaint: str) -> None:
    with pytest.raises(ModelError, match=complaint):
        arm(joint).derive(native=False)


def test_a_joint_may_hold_a_parameter() -> None:
    system = ht.System(name="nut")
    pitch = system.parameter("pitch", 0.0)
    system.body("nut", joint=Screw(pitch), inertia=ht.Inertia(3.0, moment_at_com=np.diag([0.1, 0.1, 0.02])))
    found = system.derive(native=False).acceleration([0.0], [0.0], parameters={"pitch": 0.05})
    np.testing.assert_allclose(found, -3.0 * 9.81 * 0.05 / (0.02 + 3.0 * 0.05**2), rtol=1e-12)


class Loose(Screw):
    """Equations of a cylinder: the thread is missing."""

    def closure(self, G):
        return ht.vector(G[0, 3], G[1, 3], G[0, 2], G[1, 2])


def test_equations_of_a_loop_are_complete() -> None:
    system = ht.System(name="press")
    system.body("ram", joint=ht.Prismatic("z"), inertia=ht.Inertia(3.0))
    with pytest.raises(ModelError, match="Loose leaves 2.* has 1"):
        system.loop("world", "ram", Loose())
    with pytest.raises(ModelError, match="Inherited"):
        system.loop("world", "ram", Inherited("z"))


# --- force elements -----------------------------------------------------------------------------------------------------------


class Lopsided(ht.JointElement):
    """An inertia that is no quadratic form."""

    joint = "arm"

    def inertia(self):
        return np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])


def test_inertia_of_an_element_is_symmetric() -> None:
    system = arm(ht.Spherical())
    system.add(Lopsided())
    with pytest.raises(ModelError, match="lopsided in 'arm'.*symmetric"):
        system.derive(native=False)


class Deflecting(ht.JointElement):
    """A resistance with a part across the velocity, which does no work."""

    joint = "arm"
    matrix = np.array([[1.0, 2.0, 0.0], [-2.0, 1.0, 0.0], [0.0, 0.0, 1.0]])

    def resistance(self, q, w):
        return np.matvec(self.matrix, w)


def test_the_damping_matrix_times_the_velocity_is_the_resistance() -> None:
    system = arm(ht.Spherical())
    system.add(Deflecting())
    model = system.derive(native=False)
    np.testing.assert_array_equal(model.damping_matrix(model.neutral()), Deflecting.matrix)


class Dormant(ht.JointElement):
    """A gradient three times too large, of an energy that is zero by default."""

    joint = "arm"

    def __init__(self, stiffness: Any) -> None:
        self.stiffness = stiffness

    def energy(self, q):
        return 0.5 * self.stiffness * q[0] ** 2

    def energy_gradient(self, q):
        return 3.0 * self.stiffness * q


def test_a_coefficient_that_is_zero_hides_no_contradiction() -> None:
    system = arm(ht.Revolute("y"))
    system.add(Dormant(system.parameter("stiffness", 0.0)))
    with pytest.raises(ModelError, match="dormant in 'arm'.*energy_gradient"):
        system.derive(native=False)


class Assigned(ht.JointElement):
    """An energy that is an attribute of the object."""

    joint = "arm"

    def __init__(self) -> None:
        self.energy = lambda q: q[0] ** 2

    def dissipation(self, q, w):
        return w[0] ** 2


def test_a_method_set_as_an_attribute() -> None:
    with pytest.raises(ModelError, match="energy.*attribute"):
        arm(ht.Revolute("y")).add(Assigned())


@pytest.mark.parametrize("make", [lambda k: np.array([k]), lambda k: [k]], ids=["array", "list"])
def test_a_reused_buffer_changes_no_element_and_no_cache(make: Any) -> None:
    def derived(stiffness: Any) -> ht.Model:
        system = arm(ht.Revolute("y"), gravity=(0, 0, 0))
        system.joint_spring("arm", stiffness=stiffness)
        return system.derive()

    derived(make(4.03125)).acceleration([1.0], [0.0])  # from now on it is known and not derived again
    buffer = make(4.03125)
    model = derived(buffer)
    buffer[0] = 400.0
    assert model.stiffness_force([1.0]) == derived(make(4.03125)).stiffness_force([1.0]) == 4.03125


# --- integrators --------------------------------------------------------------------------------------------------------------


class Theta(Integrator):
    """Between Euler's method and Heun's."""

    name, order, stable_up_to = "theta", 1, 1.0

    def __init__(self, theta: Any) -> None:
        self.theta = theta

    def step(self, plant, state, h):
        k1 = plant.at(state, 0.0).rates
        k2 = plant.at(plant.retract(state, k1 * h), 1.0).rates
        return plant.advance(state, (k1 + (k2 - k1) * self.theta) * h)


class Written(Theta):
    """The same in other words."""

    def step(self, plant, state, h):
        k1 = plant.at(state, 0.0).rates
        k2 = plant.at(plant.retract(state, k1 * h), 1.0).rates
        return plant.advance(state, -((k1 * (self.theta - 1.0) - k2 * self.theta) / 2.0) * (2.0 * h))


def test_an_integrator_depends_on_its_settings() -> None:
    model = arm(ht.Revolute("y")).derive(native=False)

    def end(method: Integrator) -> float:
        return ht.simulate(model, ([0.5], [0.1]), 0.2, 0.01, method).q[-1, 0]

    assert end(Theta(0.5)) != end(Theta(0.0))
    assert end(Written(0.5)) == pytest.approx(end(Theta(0.5)), abs=1e-13)


class TooManyWeights(Theta):
    """Three weights for two rates."""

    def step(self, plant, state, h):
        k = plant.at(state, 0.0).rates
        return plant.advance(state, plant.displacement(h, (0.5, 0.25, 0.25), (k, k)))


def test_no_weight_is_dropped() -> None:
    with pytest.raises(SimulationError, match="3 weights for 2 rates"):
        ht.simulate(arm(ht.Revolute("y")).derive(native=False), ([0.5], [0.1]), 0.2, 0.01, TooManyWeights(0.0))


# --- wrappers -----------------------------------------------------------------------------------------------------------------


class NoMemory(control.Wrapper):
    """Forgets own_state_size."""

    def seen(self, at):
        return {"v": at.z}

    def rate(self, at, u):
        return (at.v - at.z) / 0.05


class NoMemoryToSee(control.Wrapper):
    """Sees a memory that it does not have."""

    def seen(self, at):
        return {"v": at.z}


class OtherName(control.Wrapper):
    """Changes what no law takes."""

    def seen(self, at):
        return {"velocity": 0.5 * at.v}


class Nothing(control.Wrapper):
    """Lacks a return."""

    def seen(self, at):
        changed = {"v": 0.5 * at.v}  # noqa: F841


@pytest.mark.parametrize(
    ("wrapper", "kind", "complaint"),
    [
        (NoMemory, ControlError, "NoMemory.*own_state_size"),
        (NoMemoryToSee, ControlError, r"NoMemoryToSee.*'v'.*\(1,\).*\(0,\)"),
        (OtherName, UnknownNameError, "OtherName.*'velocity'"),
        (Nothing, ControlError, "Nothing.*None"),
    ],
)
def test_a_wrapper_without_effect(wrapper: Any, kind: type[Exception], complaint: str) -> None:
    system = ht.System()
    system.body("cart", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.input("motor", ht.JointForce("cart"))
    law = wrapper(ht.Feedback(lambda q, v: -4.0 * q - 3.0 * v, ("q", "v")))
    with pytest.raises(kind, match=complaint):
        ht.simulate(system.derive(native=False), ([1.0], [0.0]), 0.1, 0.01, control=law)
