"""Laws that every force element obeys, wherever it acts. Elements are found by looking; one without an example fails a test."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from systems import all_joints, along, directions, flow, mixing, random_inertia, random_pose

import heavytop as ht
from heavytop.errors import ModelError
from heavytop.system import forces
from heavytop.system.forces import ForceElement, JointElement, PairElement

JOINTS = (
    "revolute-angle",
    "revolute-circle",
    "prismatic",
    "universal",
    "planar",
    "custom-screw",
    "spherical-matrix-relative",
    "spherical-quaternion-absolute",
    "spherical-euler-relative",
    "free-quaternion-body",
    "free-matrix-mixed",
    "free-quaternion-unified",
)
SIZES = {"revolute": 1, "prismatic": 1, "custom-screw": 1, "universal": 2, "planar": 3, "spherical": 3, "free": 6}

Numbers = Callable[[float], Any]
"""Turns a number into an argument of the element: the number itself, or a parameter of that value."""


class Tether(PairElement):
    """The element of somebody else: a rope that only pulls, given by its energy and the whole force of a damped one."""

    def __init__(self, a: str, b: str, length: Any, stiffness: Any, viscosity: Any = 0.0) -> None:
        self.a, self.b, self.length, self.stiffness, self.viscosity = a, b, length, stiffness, viscosity

    def energy(self, pose):
        distance = np.sqrt(np.vecdot(pose[:3, 3], pose[:3, 3]))
        return 0.5 * self.stiffness * np.maximum(distance - self.length, 0.0) ** 2

    def dissipation(self, pose, twist):
        distance = np.sqrt(np.vecdot(pose[:3, 3], pose[:3, 3]))
        rate = np.vecdot(np.matvec(pose[:3, :3].T, pose[:3, 3]), twist[:3]) / distance
        return 0.5 * self.viscosity * np.where(distance > self.length, 1.0, 0.0) * rate**2


def on_the_ground(height: Any, **options: Any) -> ForceElement:
    """A large ball around the tip, which touches the ground in all configurations."""
    system = ht.System()
    system.body("tip", joint=ht.Free())
    system.ground(height=height)
    law = {"bristles": 0.5} if "length" in options else {"slip_speed": 0.5}
    system.contact("tip", "ground", ht.Sphere(6.0), friction=0.4, stiffness=3.0, restitution=(0.6, 1.0), **law)
    return dataclasses.replace(system._elements[-1], **options)


def a_tyre(relaxation: Any = None, **options: Any) -> ForceElement:
    """A large wheel around the tip."""
    system = ht.System()
    system.body("tip", joint=ht.Free())
    system.ground(friction=0.8)
    system.tyre("tip", radius=6.0, stiffness=3.0, slip=3.0, cornering=2.0, relaxation=relaxation)
    return dataclasses.replace(system._elements[-1], **options)


def examples(joint: str, n: int, number: Numbers) -> dict[str, Callable[[], ForceElement]]:
    """One or more of each element; those in a joint of n velocities with different numbers for each."""
    each = lambda *values: ht.vector(*(number(x) for x in np.resize(values, n)))  # noqa: E731
    f, s = forces, ht.Stiffness
    make: dict[str, Callable[[Any], ForceElement]] = {
        "Spring": lambda k: f.Spring("base", "tip", s(k, (0.1, 0.2, 0.0), (1.0, 2.0, 1.5))),
        "Damper": lambda k: f.Damper("base", "tip", ht.Damping(0.1 * k, (0.1, 0.2, 0.0), (0.1, 0.2, 0.15))),
        "Strut": lambda k: f.Strut(
            "base", "tip", np.array([0.4, 0.1, 0.0]), np.array([0.0, 0.3, -0.2]), k, number(0.2), number(0.4)
        ),
        "Tether": lambda k: Tether("world", "tip", number(0.05), k, number(0.3)),
        "Potential": lambda k: f.Potential(lambda q: k * np.cos(q[0]) + 0.3 * q[-1] * q[1]),
        "Dissipation": lambda k: f.Dissipation(lambda q, v: 0.1 * k * (1 + v[1] ** 2) ** 1.5),
        "Force": lambda k: f.Force(lambda q, v: 0.2 * k * np.sin(q[0]) * v),
        "JointSpring": lambda k: f.JointSpring(joint, k * each(2.0, 3.0, 4.0), each(0.3, -0.2, 0.1)),
        "JointDamper": lambda k: f.JointDamper(joint, k * each(0.2, 0.3, 0.4)),
        "JointFriction": lambda k: f.JointFriction(
            joint, k * each(0.5, 0.7), number(0.2), k * each(0.9, 1.1), number(0.5), number(0.3)
        ),
        "JointStop": lambda k: f.JointStop(
            joint, each(-0.3, -0.1), each(0.2, 0.1), k * each(5.0, 7.0), each(0.5), number(0.3)
        ),
        "Armature": lambda k: f.Armature(joint, each(0.02, 0.03, 0.05), k),
        "CompliantContact": lambda k: on_the_ground(None, stiffness=k, rolling=number(0.1)),
        "HeightContact": lambda k: on_the_ground(lambda x, y: 0.1 * np.sin(x) + 0.05 * y, stiffness=k),
        "BristleContact": lambda k: on_the_ground(None, stiffness=k, length=number(0.5)),
        "JointBristles": lambda k: f.JointBristles(joint, k * each(0.5), number(0.3), tuple("xyzabc"[:n]), "bristles"),
        "Tyre": lambda k: a_tyre(stiffness=k, slip=number(3.0), cornering=number(2.0)),
        "RelaxingTyre": lambda k: a_tyre(2.0, stiffness=k, slip=number(3.0), cornering=number(2.0)),
    }
    return {name: lambda make=make: make(number(3.0)) for name, make in make.items()}


def size_of(joint: str) -> int:
    return next(n for prefix, n in SIZES.items() if joint.startswith(prefix))


def discovered() -> Iterator[type[ForceElement]]:
    """Every concrete element in a file of the package."""
    for info in pkgutil.iter_modules(forces.__path__):
        module = importlib.import_module(f"{forces.__name__}.{info.name}")
        for value in vars(module).values():
            ours = inspect.isclass(value) and value.__module__ == module.__name__ and issubclass(value, ForceElement)
            if ours and any(map(value.gives, ("energy", "dissipation", "resistance", "force", "inertia"))):
                yield value


NAMES = tuple(examples("middle", 1, float))
IN_JOINTS = tuple(name for name, e in examples("middle", 1, float).items() if isinstance(e(), JointElement))
ALL = [(name, joint) for name in NAMES for joint in (JOINTS if name in IN_JOINTS else ("spherical-matrix-relative",))]
ALL += [(name, f"{joint} remapped") for name in NAMES for joint in ("universal", "spherical-quaternion-absolute")]
QUICK = ("spherical-quaternion-absolute", "spherical-matrix-relative")
CASES = [
    pytest.param(name, joint, marks=() if joint in (QUICK if name in IN_JOINTS else QUICK[1:]) else pytest.mark.slow)
    for name, joint in ALL
]

every_case = pytest.mark.parametrize(("name", "joint"), CASES)


@cache
def model_with(name: str, joint: str, symbolic: bool = False) -> ht.Model:
    """Three bodies, the middle one on the given joint, with one element."""
    kind, *remapped = joint.split(" ")
    rng = np.random.default_rng(3)
    system = ht.System(gravity=(0.4, -0.3, -9.7), name=f"{name} in {joint}")
    system.body("base", at=random_pose(rng), joint=ht.Revolute((1.0, 2.0, -1.0)), inertia=random_inertia(rng))
    system.body("middle", parent="base", at=random_pose(rng), joint=all_joints(rng)[kind], inertia=random_inertia(rng))
    system.body("tip", parent="middle", at=random_pose(rng), joint=ht.Universal(), inertia=random_inertia(rng))

    def number(value: float) -> Any:
        return system.parameter(f"p{len(system._parameters)}", value) if symbolic else value

    system.add(examples("middle", size_of(kind), number)[name]())
    return system.derive(mixing if remapped else None, native=False)


def states(model: ht.Model, seed: int, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Configurations within about a radian of neutral, where no rotation vector jumps, and velocities."""
    rng = np.random.default_rng(seed)
    base = np.broadcast_to(model.neutral(), (count, model.nq))
    return model.integrate(base, 0.5 * rng.standard_normal((count, model.nv)), 1.0), rng.standard_normal(
        (count, model.nv)
    )


def test_every_element_has_an_example() -> None:
    found = {cls.__name__ for cls in discovered()}
    assert {"Spring", "JointStop", "Armature"} <= found
    assert found <= set(NAMES)


@every_case
def test_force_is_the_gradient_of_the_energy(name: str, joint: str) -> None:
    model = model_with(name, joint)
    for q in states(model, 1, 3)[0]:
        slope = [
            along(lambda t, q=q, d=d: model.potential_energy(flow(model, q, d, t)), 1e-3) for d in directions(model)
        ]
        expected = model.stiffness_force(q) + model.gravity_force(q)
        assert_allclose(slope, expected, rtol=0, atol=2e-7 * max(1.0, np.max(np.abs(expected))))


@every_case
def test_power_is_balanced(name: str, joint: str) -> None:
    """d/dt(T + V) is the supplied less the dissipated power, and the latter is not negative."""
    model = model_with(name, joint)
    for q, v in zip(*states(model, 2, 3), strict=True):
        a = model.acceleration(q, v)
        rate = along(lambda t, q=q, v=v, a=a: model.energy(flow(model, q, v, t), v + np.multiply.outer(t, a)), 2e-4)
        resisted = v @ model.dissipation_force(q, v)
        assert resisted >= 0.0
        scale = max(1.0, float(np.abs(a) @ np.abs(model.mass_matrix(q)) @ np.abs(v)))
        assert_allclose(rate, v @ model.applied_force(q, v) - resisted, rtol=0, atol=1e-6 * scale)


@every_case
def test_both_builders_agree(name: str, joint: str) -> None:
    model = model_with(name, joint)
    q, v = states(model, 4, 3)
    u, p = np.zeros((3, 0)), model.parameter_vector()
    explicit = model.traced("explicit_acceleration").interpret(q, v, u, p)[0]
    scale = max(1.0, float(np.max(np.abs(explicit))))
    if "remapped" not in joint:
        recursive = model.traced("recursive_acceleration").interpret(q, v, u, p)[0]
        assert_allclose(recursive, explicit, rtol=0, atol=1e-10 * scale)
    assert_allclose(model.inverse_dynamics(q, v, explicit), 0, atol=1e-10 * scale)


@every_case
def test_mass_matrix_and_coriolis_matrix_belong_to_the_kinetic_energy(name: str, joint: str) -> None:
    model = model_with(name, joint)
    q, v = (x[0] for x in states(model, 5, 1))
    M, C = model.mass_matrix(q), model.coriolis_matrix(q, v)
    assert_allclose(0.5 * v @ M @ v, model.kinetic_energy(q, v), rtol=1e-12)
    assert_allclose(C @ v, model.bias(q, v), rtol=0, atol=1e-11 * max(1.0, float(np.max(np.abs(C)))))
    N = along(lambda t: model.mass_matrix(flow(model, q, v, t))) - 2 * C
    assert_allclose(N + N.T, 0, atol=1e-7 * max(1.0, float(np.max(np.abs(C)))))


@pytest.mark.parametrize("name", NAMES)
def test_parameters_may_stand_for_numbers(name: str) -> None:
    plain, symbolic = (model_with(name, "revolute-angle", flag) for flag in (False, True))
    assert symbolic.parameter_names
    q, v = states(plain, 6, 3)
    assert_allclose(symbolic.acceleration(q, v), plain.acceleration(q, v), rtol=1e-12)
    assert_allclose(symbolic.energy(q, v), plain.energy(q, v), rtol=1e-12)
    more = {symbolic.parameter_names[0]: 2.5}
    assert np.max(np.abs(symbolic.acceleration(q, v, parameters=more) - plain.acceleration(q, v))) > 1e-6


@every_case
def test_given_and_derived_pieces_agree(name: str, joint: str) -> None:
    model = model_with(name, joint)
    e = model.expressions
    for terms in e.dynamics.elements:
        terms.verify(e.p, model.parameter_vector())


@pytest.mark.parametrize("joint", ["spherical-matrix-relative", "spherical-quaternion-relative", "free-matrix-body"])
def test_springs_and_stops_have_derivatives_at_rest(joint: str) -> None:
    """Logarithms of rotations are differentiated again for linear equations, also where nothing is displaced."""
    system = ht.System(gravity=(0, 0, 0))
    joints = all_joints(np.random.default_rng(0))
    system.body("b", joint=joints[joint], inertia=ht.Inertia(2.0, moment_at_com=(1.0, 2.0, 2.5)))
    system.joint_spring("b", stiffness=3.0)
    system.joint_stop("b", lower=-1.0, upper=1.0, stiffness=100.0, damping=1.0)
    model = system.derive(native=False)
    A, _ = model.linearize(model.neutral())
    n = model.nv
    assert_allclose(A[n:, :n], -np.linalg.solve(model.mass_matrix(model.neutral()), 3.0 * np.eye(n)), atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_energy_of_a_run_is_balanced(name: str) -> None:
    model = model_with(name, "universal")
    q, v = states(model, 7, 1)
    run = ht.simulate(model, (q[0], v[0]), until=0.2, step=1e-3, progress=False)
    assert run.invariants["energy"].relative < 1e-6


@pytest.mark.thorough
def test_energy_of_a_run_with_all_elements_is_balanced() -> None:
    system = ht.System()
    system.body(
        "middle", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -0.5), moment_at_com=(0.1, 0.1, 0))
    )
    system.body("tip", parent="middle", at=(0, 0, -1), joint=ht.Revolute("x"), inertia=ht.Inertia(1.0, (0, 0, -0.4)))
    system.frame("base", "world", (0.1, 0.2, 0.3))
    for name, make in examples("middle", 1, float).items():
        element = make()
        if (
            name not in ("CompliantContact", "HeightContact", "Tyre") and not element.states
        ):  # tests/contact has their balance
            system.add(element)
    run = ht.simulate(system.derive(), ([0.5, -0.3], [1.0, 2.0]), until=1.0, step=2e-3, progress=False)
    assert run.work is not None
    assert np.min(np.max(np.abs(run.work), axis=0)) > 0.05  # supplied and dissipated
    assert run.invariants["energy"].relative < 1e-6


def test_an_element_that_contradicts_itself() -> None:
    class Liar(Tether):
        def force(self, pose, twist):
            return ht.vector(*(-2.0 * self.stiffness * pose[:3, 3]), 0.0, 0.0, 0.0)

    class WrongGradient(Tether):
        def energy_gradient(self, pose):
            return ht.vector(*(self.stiffness * pose[:3, 3]), 0.0, 0.0, 0.0)

    class WrongResistance(forces.JointDamper):
        def resistance(self, q, v):
            return 2 * self.viscosity * v

    for element, text in (
        (Liar("world", "b", 0.5, 3.0), r"contradicts itself: force\(x, w\)"),
        (WrongGradient("world", "b", 0.5, 3.0), r"contradicts itself: energy_gradient\(x\)"),
        (WrongResistance("b", 3.0), r"contradicts itself: resistance\(x, w\)"),
    ):
        system = ht.System()
        system.body("b", joint=ht.Free(), inertia=ht.Inertia(2.0, moment_at_com=(1.0, 2.0, 2.5)))
        system.add(element)
        with pytest.raises(ht.errors.ModelError, match=text):
            system.derive()


def test_a_force_that_holds_the_energy_and_more_is_split() -> None:
    """The part of a whole force that is no gradient supplies power; nothing is counted twice."""

    class Driven(JointElement):
        joint = "b"

        def energy(self, q):
            return 1.5 * q[0] ** 2

        def force(self, q, v):
            return -3.0 * q + 0.4 * v

    system = ht.System(gravity=(0, 0, 0))
    system.body("b", joint=ht.Prismatic("x"), inertia=ht.Inertia(2.0))
    system.add(Driven())
    model = system.derive(native=False)
    assert_allclose(model.acceleration([0.5], [2.0]), [(-1.5 + 0.8) / 2.0])
    assert_allclose(model.stiffness_force([0.5]), [1.5])
    assert_allclose(model.applied_force([0.5], [2.0]), [0.8])


def test_incomplete_elements() -> None:
    class Nothing(JointElement):
        joint = "b"

        def enrgy(self, q):
            return q[0]

    class OnlyGradient(JointElement):
        joint = "b"

        def energy_gradient(self, q):
            return q

        def force(self, q, v):
            return q

    system = ht.System()
    with pytest.raises(ht.errors.ModelError, match="nothing in 'b' does nothing"):
        system.add(Nothing())
    with pytest.raises(ht.errors.ModelError, match="energy_gradient.*not energy"):
        system.add(OnlyGradient())


def test_armature_is_a_geared_rotor() -> None:
    """A pendulum with armature moves like one coupled to a flywheel by a gear: (I + J n^2) a = torque."""
    system = ht.System(gravity=(0, 0, -9.81))
    system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.5, com=(0, 0, -0.4), moment_at_com=(0.1, 0.1, 0.0)))
    system.armature("rod", 2e-3, gear_ratio=20.0)
    model = system.derive(native=False)
    inertia = 0.1 + 1.5 * 0.4**2 + 2e-3 * 20.0**2
    assert_allclose(model.mass_matrix([0.3]), [[inertia]])
    assert_allclose(model.acceleration([0.3], [2.0]), [-1.5 * 9.81 * 0.4 * np.sin(0.3) / inertia])


def test_friction_has_its_three_regimes() -> None:
    system = ht.System(gravity=(0, 0, 0))
    system.body("b", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.joint_friction("b", coulomb=2.0, viscous=0.5, static=3.0, stribeck_speed=0.1, smoothing=1e-3)
    model = system.derive(native=False)
    force = lambda w: -float(model.acceleration([0.0], [w])[0])  # noqa: E731
    assert force(0.0) == 0.0
    assert_allclose(force(0.01), 3.0, rtol=0.02)
    assert_allclose(force(2.0), 2.0 + 0.5 * 2.0, rtol=1e-9)
    assert_allclose(force(-2.0), -force(2.0), rtol=1e-12)
    assert_allclose(model.damping_matrix([0.0]), [[0.5]])


def test_stop_holds_a_weight_at_its_end_and_is_smooth() -> None:
    system = ht.System(gravity=(0, 0, -10.0))
    system.body("b", joint=ht.Prismatic("z"), inertia=ht.Inertia(1.0))
    system.joint_stop("b", lower=-0.5, stiffness=1000.0, damping=20.0, smoothing=0.002)
    model = system.derive(native=False)
    assert_allclose(model.acceleration([-0.5 - 0.011], [0.0]), [0.0], atol=1e-12)  # 1000 (0.011 - 0.001) = 10
    assert_allclose(model.acceleration([3.0], [5.0]), [-10.0])
    x = np.linspace(-0.505, -0.495, 4001)[:, None]
    slope = np.diff(model.stiffness_force(x)[:, 0]) / np.diff(x[:, 0])
    assert np.max(np.abs(np.diff(slope))) < 1.05 * 1000.0 * np.diff(x[:, 0])[0] / 0.002


def test_names_and_sizes_are_checked() -> None:
    system = ht.System()
    system.body("elbow", joint=ht.Universal(), inertia=ht.Inertia(1.0, moment_at_com=(1, 1, 1)))
    system.joint_spring("elbo", stiffness=1.0)
    with pytest.raises(ht.errors.UnknownNameError, match="'elbo'.*'elbow'"):
        system.derive()
    for wrong, text in (
        (
            lambda s: s.joint_spring("elbow", stiffness=-1.0),
            "stiffness of joint spring in 'elbow' must be finite and not",
        ),
        (lambda s: s.joint_friction("elbow", coulomb=1.0, smoothing=0.0), "smoothing of .* must be positive"),
        (lambda s: s.joint_stop("elbow", stiffness=1.0), "needs an end"),
        (lambda s: s.joint_stop("elbow", lower=1.0, upper=0.0, stiffness=1.0), "lower must not exceed upper"),
    ):
        with pytest.raises(ht.errors.ModelError, match=text):
            wrong(system)
    other = ht.System()
    other.body("elbow", joint=ht.Universal(), inertia=ht.Inertia(1.0, moment_at_com=(1, 1, 1)))
    other.joint_damper("elbow", damping=(1.0, 2.0, 3.0))
    with pytest.raises(ht.errors.ShapeError, match="damping of joint damper in 'elbow'"):
        other.derive()


# --- the cache ------------------------------------------------------------------------------------------------------------------


def described(*elements: ForceElement) -> Any:
    system = ht.System(name="cached")
    system.body("base", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, moment_at_com=(1, 1, 1)))
    system.body("middle", parent="base", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, moment_at_com=(1, 1, 1)))
    system.body("tip", parent="middle", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, moment_at_com=(1, 1, 1)))
    for element in elements:
        system.add(element)
    return system.describe()


@pytest.mark.parametrize("name", NAMES)
def test_the_key_depends_on_every_field_of_an_element(name: str) -> None:
    element = examples("middle", 1, float)[name]()
    mark = described(element).equations_key
    functions = name == "HeightContact" or any(callable(value) for value in vars(element).values())
    if isinstance(element, Tether) or functions:
        assert mark is None
        return
    assert mark is not None
    assert mark != described().equations_key
    for field in dataclasses.fields(element):
        value = getattr(element, field.name)
        if isinstance(value, (float, int, np.ndarray)):
            changed = dataclasses.replace(element, **{field.name: value + 1.0})
            assert described(changed).equations_key != mark, field.name


def test_the_tether_of_another_length_is_never_served_from_the_cache() -> None:
    """Natively, one after the other, with a cache on disk."""
    energies, accelerations = [], []
    for length in (0.2, 0.4):
        system = ht.System(gravity=(0, 0, 0), name="tethered")
        system.body("b", joint=ht.Free(), inertia=ht.Inertia(2.0, moment_at_com=(1.0, 2.0, 2.5)))
        system.add(Tether("world", "b", length, 100.0))
        model = system.derive()
        q = model.neutral()
        q[0] = 1.0
        energies.append(float(model.potential_energy(q)))
        accelerations.append(float(model.acceleration(q, np.zeros(6))[0]))
    assert_allclose(energies, [0.5 * 100.0 * 0.8**2, 0.5 * 100.0 * 0.6**2])
    assert_allclose(accelerations, [-40.0, -30.0])


def test_armature_of_a_ball_joint_on_the_ground_is_a_moment_of_inertia() -> None:
    """It turns with the body, gyroscopic effect included."""
    models = []
    for moments, rotor in (((1.0, 2.0, 2.5), (0.3, 0.1, 0.7)), ((1.3, 2.1, 3.2), None)):
        system = ht.System(gravity=(0, 0, 0))
        system.body("b", joint=ht.Spherical("quaternion"), inertia=ht.Inertia(1.0, moment_at_com=moments))
        if rotor is not None:
            system.armature("b", rotor)
        models.append(system.derive(native=False))
    v = [1.0, -2.0, 0.5]
    assert_allclose(models[0].bias(models[0].neutral(), v), models[1].bias(models[1].neutral(), v), atol=1e-14)


@pytest.mark.parametrize("attitude", ["matrix", "quaternion"])
def test_gravity_does_not_act_on_an_armature_of_a_free_joint(attitude: str) -> None:
    system = ht.System(gravity=(1.0, -2.0, -9.0), name="hull")
    inertia = ht.Inertia(1.0, com=(0.1, 0.2, 0.05), moment_at_com=(0.5, 0.6, 0.7))
    system.body("hull", joint=ht.Free(attitude), inertia=inertia)
    system.armature("hull", 0.3)
    system.body("arm", parent="hull", at=(0.3, 0, 0), joint=ht.Revolute("y"), inertia=inertia)
    system.armature("arm", 0.02, 5.0, body="hull")
    model = system.derive(native=False)
    q, v = model.random(1), np.random.default_rng(1).standard_normal(model.nv)
    a = model.acceleration(q, v)
    assert_allclose(model.mass_matrix(q) @ a, -model.bias(q, v) - model.gravity_force(q), atol=1e-12)
    assert_allclose(model.inverse_dynamics(q, v, a), 0.0, atol=1e-12)


@pytest.mark.parametrize("share", [0.9, 1.1])
def test_the_inertia_of_a_body_includes_the_rotor_that_it_carries(share: float) -> None:
    """A body with less inertia than its rotor would have negative kinetic energy while it turns against the joint."""
    system = ht.System(name="satellite")
    system.body("hull", joint=ht.Free(), inertia=ht.Inertia(1.0, moment_at_com=(0.01, 0.01, 0.01)))
    system.body("wheel", parent="hull", joint=ht.Revolute("z"), inertia=ht.Inertia(0.1, moment_at_com=(0, 0, 0)))
    system.body("disc", parent="hull", joint=ht.Revolute("z"), inertia=ht.Inertia(0.1, moment_at_com=(1e-3,) * 3))
    system.armature("disc", 0.01 * share, 10.0, body="hull")
    system.armature("wheel", 1e-5)
    model = system.derive(native=False)
    if share < 1:
        assert np.linalg.eigvalsh(model.mass_matrix(model.neutral()))[0] > 0
    else:
        with pytest.raises(ModelError, match=r"'satellite' is negative .*armature\(\.\.\., body=\.\.\.\)"):
            model.acceleration(model.neutral(), np.zeros(8))
