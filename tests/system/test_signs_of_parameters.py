"""Constants given by parameters must have the right sign: in single runs, batches and sweeps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import heavytop as ht
from heavytop.errors import ModelError
from heavytop.system.validation.physical_parameters import PhysicalConstants

NOT_NEGATIVE: dict[str, Callable[[ht.System, Any], None]] = {
    "damping of joint damper": lambda s, x: s.joint_damper("arm", damping=x),
    "stiffness of joint spring": lambda s, x: s.joint_spring("arm", stiffness=x),
    "coulomb of joint friction": lambda s, x: s.joint_friction("arm", coulomb=x),
    "viscous of joint friction": lambda s, x: s.joint_friction("arm", coulomb=1.0, viscous=x),
    "static of joint friction": lambda s, x: s.joint_friction("arm", coulomb=1.0, static=x),
    "stiffness of joint stop": lambda s, x: s.joint_stop("arm", upper=1.0, stiffness=x),
    "damping of joint stop": lambda s, x: s.joint_stop("arm", upper=1.0, stiffness=1.0, damping=x),
    "lower": lambda s, x: s.joint_stop("arm", lower=0.0, upper=x, stiffness=1.0),
    "inertia of armature": lambda s, x: s.armature("arm", inertia=x),
    "stiffness of strut": lambda s, x: s.strut("world", "arm", at_a=(2, 0, 0), at_b=(1, 0, 0), stiffness=x),
    "rest_length of strut": lambda s, x: s.strut("world", "arm", at_a=(2, 0, 0), at_b=(1, 0, 0), rest_length=x),
    "damping of strut": lambda s, x: s.strut("world", "arm", at_a=(2, 0, 0), at_b=(1, 0, 0), damping=x),
    "damping of damper": lambda s, x: s.damper("world", "arm", ht.Damping(x)),
    "damping of damper: moment": lambda s, x: s.damper("world", "arm", ht.Damping(1.0, (0, 0, 0), (x, x, x))),
    "stiffness of spring": lambda s, x: s.spring("world", "arm", ht.Stiffness(x)),
    "coulomb of joint friction in": lambda s, x: s.joint_friction("arm", coulomb=x, sticking=True),
    "friction of contact": lambda s, x: s.contact("arm", "world", ht.Sphere(0.1), friction=x),
    "stiffness of spring: moment": lambda s, x: s.spring("world", "arm", ht.Stiffness(1.0, (0, 0, 0), (x, x, x))),
}
POSITIVE: dict[str, Callable[[ht.System, Any], None]] = {
    "stribeck_speed of joint friction": lambda s, x: s.joint_friction("arm", coulomb=1.0, static=2.0, stribeck_speed=x),
    "smoothing of joint friction": lambda s, x: s.joint_friction("arm", coulomb=1.0, smoothing=x),
    "length of rope": lambda s, x: s.rope("world", "arm", x),
    "smoothing of joint stop": lambda s, x: s.joint_stop("arm", upper=1.0, stiffness=1.0, smoothing=x),
}


def arm(part: Callable[[ht.System, Any], None], value: float | None = None) -> ht.System:
    """A body in a joint with a part whose constant is a parameter, or a number."""
    system = ht.System(name="robot")
    system.body("arm", joint=ht.Revolute("z"), inertia=ht.Inertia(1.0, com=(1, 0, 0)))
    part(system, system.parameter("x", 1.0) if value is None else value)
    return system


@pytest.mark.parametrize("what", [*NOT_NEGATIVE, *POSITIVE])
def test_signs_of_parameters_are_checked_as_those_of_numbers(what: str) -> None:
    part = (NOT_NEGATIVE | POSITIVE)[what]
    with pytest.raises(ModelError):
        arm(part, -2.0)
    model = arm(part).derive(native=False)
    name = "joint stop" if what == "lower" else what.split(":")[0]
    with pytest.raises(ModelError, match=rf"{name}.* in 'robot' with x = -2: .*(must|no moment may) .* \[?-2"):
        model.acceleration([0.1], [0.2], parameters={"x": -2.0})
    model.acceleration([0.1], [0.2], parameters={"x": np.array([2.0, 3.0])})
    if what in POSITIVE:
        with pytest.raises(ModelError, match="it must be positive"):
            model.acceleration([0.1], [0.2], parameters={"x": 0.0})
    else:
        model.acceleration([0.1], [0.2], parameters={"x": 0.0})


def test_signs_in_runs_batches_prepared_runs_and_sweeps() -> None:
    model = arm(NOT_NEGATIVE["damping of joint damper"]).derive()
    for value in (-2.0, np.array([1.0, -2.0])):
        with pytest.raises(ModelError, match=r"damping of joint damper in 'arm' .* with x = -2: .* got -2"):
            ht.simulate(model, ([0.0], [1.0]), until=0.1, step=1e-2, parameters={"x": value})
    with pytest.raises(ModelError, match="with x = -2"):
        ht.prepare(model, until=0.1, step=1e-2)(([0.0], [1.0]), {"x": -2.0})
    with pytest.raises(ht.errors.HeavytopError, match="with x = -2"):
        ht.sweep(model, over={"x": [1.0, -2.0]}, start=([0.0], [1.0]), until=0.1, step=1e-2, measure="final")


def test_parameters_without_a_sign_cost_nothing() -> None:
    system = arm(NOT_NEGATIVE["damping of joint damper"])
    free = system.parameter("f", 1.0)
    system.force(lambda q, v: free * q)
    check = PhysicalConstants(system.describe())
    assert check.names == {"x"}
    assert system.derive(native=False).parameter_vector({"f": -1.0}).tolist() == [1.0, -1.0]


RESTITUTION: dict[str, Callable[[ht.System, Any], None]] = {
    "contact": lambda s, x: s.contact("arm", "world", ht.Sphere(0.1), at=(0, 0, 1), friction=0.0, restitution=x),
    "limit": lambda s, x: s.limit("arm", 0.0, 1.0, hard=True, restitution=x),
    "rope": lambda s, x: s.rope("world", "arm", 1.0, restitution=x),
}


@pytest.mark.parametrize("part", RESTITUTION)
def test_restitution_given_by_a_parameter_is_from_0_to_1(part: str) -> None:
    model = arm(RESTITUTION[part]).derive(native=False)
    model.acceleration([0.1], [0.2], parameters={"x": np.array([0.0, 1.0])})
    for wrong in (-0.2, 1.2):
        with pytest.raises(ModelError, match=rf"restitution of .*{part}.*x = {wrong}: it must not be negative"):
            model.acceleration([0.1], [0.2], parameters={"x": np.array([0.5, wrong])})
    with pytest.raises(ModelError, match="from 0 to 1, got 1.2"):
        arm(RESTITUTION[part], 1.2)


def test_constants_of_contacts_are_single_numbers() -> None:
    system = ht.System(name="robot")
    system.body("arm", joint=ht.Revolute("z"), inertia=ht.Inertia(1.0, com=(1, 0, 0)))
    with pytest.raises(ModelError, match=r"friction of ground 'ground' .* one number, got \[0.1, 0.2\]"):
        system.ground(friction=[0.1, 0.2])
    system.ground(friction=0.1)
    with pytest.raises(ModelError, match="stiffness of contact 'arm' .* one number"):
        system.contact("arm", "ground", ht.Sphere(0.1), stiffness=[1e4, 1e4])
    with pytest.raises(ModelError, match="'grund' is not a ground"):
        system.contact("arm", "grund", ht.Sphere(0.1))
    with pytest.raises(ModelError, match="hard=True"):
        system.limit("arm", 0.0, 1.0, restitution=0.5)
