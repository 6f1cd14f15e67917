"""Objects that describe a system, a motion or a result have a short repr."""

from __future__ import annotations

import numpy as np
import pytest

import heavytop as ht
from heavytop import control, copters


def sprung() -> ht.System:
    """A system with an element of each kind."""
    system = ht.System(name="sprung")
    stop = {"lower": -1.0, "upper": 1.0, "stiffness": 100.0}
    hinge = ht.Revolute("z", stiffness=2.0, damping=0.1, friction=0.1, armature=0.1, limits=stop)
    system.body("arm", joint=hinge, inertia=ht.Inertia(1.0))
    system.strut("world", "arm", at_a=(1, 0, 0), stiffness=2.0, rest_length=1.0)
    system.damper("world", "arm", ht.Damping(0.1))
    system.spring("world", "arm", ht.Stiffness(2.0))
    system.potential(lambda q: q[0])
    system.dissipation(lambda q, v: v[0] ** 2)
    system.force(lambda q, v: -v)
    system.constrain(lambda q, v: v[0], name="stuck")
    return system


@pytest.mark.parametrize(
    ("joint", "text"),
    [
        (ht.Revolute("z"), "Revolute('z')"),
        (ht.Revolute((0.6, 0.8, 0.0), stiffness=2.0), "Revolute((0.6, 0.8, 0), stiffness=2)"),
        (ht.Prismatic("x", limits=(-1.0, 1.0)), "Prismatic('x', limits=(-1, 1))"),
        (ht.Coupled(ht.Prismatic("y"), "left", ratio=-1.0), "Coupled(Prismatic('y'), 'left', ratio=-1)"),
    ],
)
def test_joints_are_printed_as_they_are_constructed(joint, text) -> None:
    assert repr(joint) == text


def test_numbers_and_functions_are_short_and_defaults_omitted() -> None:
    assert repr(ht.Thruster("hull", at=(0, 0, 1), axis="z", drag_ratio=0.1)) == (
        "Thruster(body='hull', at=(0, 0, 1), drag_ratio=0.1)"
    )
    assert repr(ht.Event(lambda t, q, v: q[0], name="stop")) == "Event(function=lambda, name='stop')"
    assert repr(ht.JointForce("arm")) == "JointForce(body='arm')"
    assert repr(sprung()) == "System('sprung': 1 body, 1 joint, 0 inputs)"


@pytest.mark.thorough
def test_no_repr_shows_addresses_or_many_numbers() -> None:
    cart = ht.library.cart_pole().derive()
    run = ht.simulate(cart, ([0.0, 0.1], [0.0, 0.0]), 1.0, 0.01)
    prototype = control.Prototype.for_model(cart, poles=[-2, -2.5, -3 + 1j, -3 - 1j])
    law = control.energy_law(cart, prototype)
    quad = copters.quadcopter()
    description = sprung().describe()
    objects = [
        *description.elements,
        *description.constraints,
        *description.joints,
        ht.Wrench("arm", force=(0, 0, 1)),
        ht.Feedback(lambda q: -q, ("q",)),
        cart.description,
        run.outcome,
        *run.invariants.values(),
        prototype,
        prototype.design,
        law,
        law.margins(),
        control.lqr(cart, [0.0, 0.0]),
        control.equilibrium(cart),
        control.hover(control.energy_law(quad.model, quad.prototype)),
        control.Reference.set_point(cart),
        control.Reference(
            cart, lambda t: (np.zeros((len(t), 2)), np.zeros((len(t), 2)), np.zeros((len(t), 2))), duration=2.0
        ),
        ht.plan.Own(lambda q: q[0]),
        ht.plan.AtPose("pole", np.eye(4)),
        quad.airframe,
        *quad.airframe.rotors,
        ht.maneuvers.hover(quad).check(),
        copters.Limb("upper", 0.1, tip=(0, 0, -0.1), force=3.0),
    ]
    for item in objects:
        assert " at 0x" not in repr(item), repr(item)
        assert "\n" not in repr(item), repr(item)
        assert len(repr(item)) < 240, repr(item)
