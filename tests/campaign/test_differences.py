"""The same thing computed in two ways: random programs, random systems."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from heavytop_mechanics import QuasiCoordinates, euler_lagrange, lagrangian
from systems import all_joints, random_inertia, random_pose, state_of

import heavytop as ht
from heavytop._arrays import as_array
from heavytop.compile import Kernel, numpy_function, trace
from heavytop.coordinates import Coordinates

UNARY = [
    np.sin,
    np.cos,
    np.tanh,
    np.arctan,
    np.abs,
    np.sign,
    np.floor,
    lambda x: -x,
    lambda x: np.exp(np.minimum(x, 3.0)),
]
BINARY = [
    np.add, np.multiply, np.subtract, np.minimum, np.maximum, np.arctan2, np.hypot, np.copysign,
    lambda a, b: np.where(a < b, a, 2.0 * b), lambda a, b: np.where(a >= b, a - 1.0, b), lambda a, b: a / (1.5 + b * b),
]  # fmt: skip
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 1e300, 1e-300])


def random_program(seed: int):
    """A function of three numbers in NumPy notation; operands of an operation differ, since CasADi simplifies ``x - x``."""

    def program(x):
        rng = np.random.default_rng(seed)
        values = [x[0], x[1], x[2], x[0] + 0.5 * x[1]]
        for _ in range(int(rng.integers(3, 25))):
            if rng.random() < 0.4:
                values.append(UNARY[rng.integers(len(UNARY))](values[rng.integers(len(values))]))
            else:
                i, j = rng.choice(len(values), 2, replace=False)
                values.append(BINARY[rng.integers(len(BINARY))](values[i], values[j]))
        return ht.vector(*values[-3:])

    return program


@pytest.mark.parametrize("part", range(4))
def test_programs(part: int, record, size) -> None:
    """Native code against NumPy: finite numbers to rounding, special values where no rounding decides."""
    count = size(500, 15)
    failures = []
    for seed in range(part * count, part * count + count):
        program = random_program(seed)
        traced = trace(program, {"x": (3,)}, name="program")
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(6, 3))
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = np.array([program(row) for row in x])
            got, source = Kernel(traced)(x)[0], numpy_function(traced)(x)[0]
            # a comparison of numbers that differ by rounding may fall either way: the interpreter then agrees with the kernel
            same = np.isclose(got, expected, rtol=1e-9, atol=1e-9, equal_nan=True)
            twin = np.isclose(got, traced.interpret(x)[0], rtol=1e-9, atol=1e-9, equal_nan=True)
            if not np.all(same | twin) or not np.all(
                np.isclose(source, expected, rtol=1e-9, atol=1e-9, equal_nan=True) | twin
            ):
                failures.append(f"seed {seed}: {got} against {expected}")
            alone = Kernel(traced)(x[2])[0]
            if not np.array_equal(alone, got[2], equal_nan=True):
                failures.append(f"seed {seed}: another result alone than in a batch")
    record("programs against NumPy", count, failures)


@pytest.mark.parametrize("name", ["minimum", "maximum", "add", "multiply", "divide", "arctan2", "copysign", "hypot"])
def test_special_values(name: str, record) -> None:
    function = getattr(np, name)
    x, y = np.meshgrid(SPECIAL, SPECIAL)
    with np.errstate(all="ignore"):
        expected = function(x, y)
    got = Kernel(trace(lambda x, y: function(x, y), {"x": (), "y": ()}, name=name))(x, y)[0]
    wrong = ~np.isclose(got, expected, rtol=1e-15, equal_nan=True)
    record(
        "special values",
        x.size,
        [f"{name}({a}, {b}): {g}" for a, b, g in zip(x[wrong], y[wrong], got[wrong], strict=True)],
    )


def random_system(seed: int) -> ht.System:
    """One to three bodies in a tree with any joints, anywhere."""
    rng = np.random.default_rng(seed)
    system = ht.System(name="random", gravity=rng.normal(size=3) * 5)
    names = ["world"]
    joints = all_joints(rng)
    labels = list(joints)
    for k in range(int(rng.integers(1, 4))):
        joint = joints[labels[rng.integers(len(labels))]] if k else ht.Revolute(rng.normal(size=3))
        parent = names[rng.integers(len(names))]
        system.body(f"b{k}", parent=parent, at=random_pose(rng), joint=joint, inertia=random_inertia(rng))
        names.append(f"b{k}")
    return system


def velocities_of(model: ht.Model) -> Coordinates:
    """Coordinates with the velocities of the model: those of its joints, or absolute ones, whose q' = A(q) v has an A of its own."""
    if all(edge.joint.velocity_frame == "relative" for edge in model.description.joints):
        return model.coordinates
    A, p = model.traced("kinematics_matrix"), model.parameter_vector()
    inverse = model.coordinates.left_inverse
    rows = model.traced("joint_rows")
    return QuasiCoordinates(
        model.q_names,
        model.v_names,
        lambda q: A(q, p)[0],
        lambda q: np.linalg.solve(rows(q, p)[0], as_array(inverse(q))),
    )


@pytest.mark.parametrize("part", range(20))
def test_systems(part: int, record, size) -> None:
    """Two builders of the equations of motion and the equations of Lagrange give the same acceleration."""
    count = size(500, 2)
    failures = []
    for seed in range(part * count, part * count + count):
        model = random_system(seed).derive(native=False)
        q, v, u = state_of(model, seed)
        p = model.parameter_vector()
        explicit = model.traced("explicit_acceleration").interpret(q, v, u, p)[0]
        recursive = model.traced("recursive_acceleration").interpret(q, v, u, p)[0]
        T, V = model.traced("kinetic_energy"), model.traced("potential_energy")
        energies = lagrangian(lambda q, v, T=T, p=p: T(q, v, p)[0], lambda q, V=V, p=p: V(q, p)[0])
        lagrange = euler_lagrange.acceleration(velocities_of(model), energies)(q, v)
        condition = np.linalg.cond(model.traced("mass_matrix").interpret(q, p)[0])
        tolerance = 1e-13 * condition * (1.0 + np.max(np.abs(explicit)))
        for label, other in (("recursive", recursive), ("Lagrange", lagrange)):
            if not np.all(np.abs(other - explicit) <= max(tolerance, 1e-9)):
                failures.append(
                    f"seed {seed}, {label}: {np.max(np.abs(other - explicit)):.1e} of {np.max(np.abs(explicit)):.1e}"
                )
    record("random systems between formalisms and builders", count, failures)
