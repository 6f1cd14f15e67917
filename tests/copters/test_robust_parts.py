"""The robust law of vehicles with loads and arms, controlled as rigid hulls; disturbances of trees observed on the full model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from heavytop_bench import fleet
from heavytop_bench.reality import starts

import heavytop as ht
from heavytop import control
from heavytop.control import Balanced, MomentumObserver, OnPart
from heavytop.copters import (
    Limb,
    Rotor,
    RotorPlant,
    Vehicle,
    fly,
    load,
    multicopter,
    quadcopter_with_load,
    robust_controller,
)
from heavytop.errors import ControlError


def six_rotors_with_arm() -> Vehicle:
    """Three arms with two rotors each, and a moving arm of two links below."""
    places = [(0.25 * np.cos(a), 0.25 * np.sin(a)) for a in (np.pi / 3, np.pi, -np.pi / 3)]
    rotors = [
        Rotor((x, y, z), drag_ratio=0.018 * sign, thrust=(0.0, 9.0))
        for x, y in places
        for z, sign in ((0.03, 1.0), (-0.03, -1.0))
    ]
    limbs = [
        Limb("upper", 0.15, tip=(0, 0, -0.25), at=(0, 0, -0.05), force=4.0, path=lambda t: 0.8 * np.sin(2.5 * t)),
        Limb("lower", 0.10, tip=(0.2, 0, 0), parent="upper", force=2.0, path=lambda t: 0.5 * np.cos(1.3 * t)),
    ]
    return multicopter(rotors, 1.6, (0.02, 0.02, 0.035), name="six rotors with an arm", limbs=limbs)


def test_the_observer_finds_a_constant_force() -> None:
    """A cart with a pole, pushed by a force that its model does not have: M d is that force."""
    cart = ht.library.cart_pole().derive()
    force = np.array([0.7])
    pushed = MomentumObserver(ht.Feedback(lambda v: {"u": 0 * v[:1]}, ("v",)), cart, 0.05)

    class Push(control.Wrapper):
        def acted(self, at: Any, u: Any) -> Any:
            return u + force

    run = ht.simulate(cart, ([0, np.pi], [0, 0]), until=1.0, step=2e-3, control=Push(pushed), balance=False)
    d = run.channels["unexplained_acceleration"][-1]
    M, B = cart.mass_matrix(run.q[-1]), np.array([1.0, 0.0])
    np.testing.assert_allclose(M @ d, B * force, atol=0.02)


def test_systems_with_loops_are_rejected() -> None:
    model = ht.library.four_bars().derive()
    with pytest.raises(ControlError, match="loops"):
        MomentumObserver(ht.Feedback(lambda v: v[:1], ("v",)), model)


@pytest.mark.thorough
@pytest.mark.parametrize("make", [quadcopter_with_load, six_rotors_with_arm])
def test_parts_move_with_rotors_as_without(make: Any) -> None:
    """Falling with stopped rotors: loads with absolute velocities, and motors of limbs, which do not lag."""
    craft = make()
    model, plant = craft.model, RotorPlant(craft, drag=False)
    v = np.random.default_rng(3).uniform(-1.0, 1.0, model.nv)
    u = np.zeros(model.nu)
    u[craft.airframe.inputs :] = 0.2
    drop = ht.Feedback(lambda v: u + 0 * v[0], ("v",))
    own = ht.simulate(model, (model.neutral(), v), 1.0, 1e-3, control=drop, balance=False)
    other = ht.simulate(
        plant, plant.start(model.neutral(), v, 0 * u[: craft.airframe.inputs]), 1.0, 1e-3, control=drop, balance=False
    )
    np.testing.assert_allclose(other.q[-1, : model.nq], own.q[-1], atol=1e-9)


@pytest.mark.thorough
def test_options_apply_to_vehicles_with_parts() -> None:
    def has_observer(controller: Any) -> bool:
        wrappers = []
        while isinstance(controller, control.Wrapper):
            wrappers.append(type(controller))
            controller = controller.controller
        return control.ForceObserver in wrappers

    craft = quadcopter_with_load()
    assert has_observer(robust_controller(craft))
    assert not has_observer(robust_controller(craft, observers=False))


@pytest.mark.parametrize("rotors", [False, True])
@pytest.mark.thorough
def test_a_slung_load_in_wind(rotors: bool) -> None:
    craft = quadcopter_with_load()
    rms = {
        law: fly(craft, "hover", law, wind=3.0, until=8.0, rotors=rotors).numbers()["position error rms [m]"]
        for law in ("energy", "robust")
    }
    assert rms["robust"] < 0.05 < 0.1 * rms["energy"]


@pytest.mark.thorough
def test_a_heavier_load_in_strong_wind() -> None:
    """0.24 kg instead of 0.2 kg on 1 m, wind of 5 m/s with gusts: the load stays within 10 cm RMS."""
    craft, heavier = (quadcopter_with_load(load_mass=m, cable=1.0) for m in (0.2, 0.24))
    system = heavier.describe()
    control.add_wind(system, "hull", heavier.drag)
    plant = system.derive()
    start = (craft.model.neutral(), np.zeros(9))
    flown = control.Windy(
        robust_controller(craft, rotors=False).with_reference(craft.model.neutral()), control.Breeze((5.0, 0.0, 0.0))
    )
    run = ht.simulate(plant, start, 10.0, 5e-3, control=flown, balance=False)
    G = plant.pose("world", "load", run.q)
    off = G[:, :3, 3] - G[:, :3, 2] + np.array([0.0, 0.0, 1.0])
    assert np.sqrt(np.mean(np.sum(off**2, axis=1))) < 0.1


@pytest.mark.thorough
def test_an_arm_that_moves_in_wind() -> None:
    craft = six_rotors_with_arm()
    still = fly(craft, "hover", "robust", until=6.0).numbers()
    assert still["position error rms [m]"] < 0.01  # the arm swings; its push is observed, not known in advance
    windy = fly(craft, "hover", "robust", wind=3.0, payload=0.2, noise=0.5, until=6.0).numbers()
    assert windy["position error rms [m]"] < 0.05


@pytest.mark.parametrize(("mass", "cable"), [(0.2, 1.0), (0.1, 1.5), (0.4, 0.4), (0.05, 0.3)])
def test_default_poles_of_slung_loads(mass: float, cable: float) -> None:
    craft = quadcopter_with_load(load_mass=mass, cable=cable)
    lean = MomentumObserver(Balanced(OnPart(craft.law(), craft.model), craft.model), craft.model)
    assert lean.needs_reference
    poles = craft.law(limits=False).poles()
    assert np.all(np.real(poles[np.abs(poles) > 1e-3]) < 0)


@pytest.mark.thorough
@pytest.mark.parametrize("make", [quadcopter_with_load, six_rotors_with_arm])
def test_parts_recover_with_delay_and_lag(make: Any) -> None:
    """From any attitude, with measurements that are 25 ms late and motors that lag."""
    craft = make()
    model, plant, count = craft.model, RotorPlant(craft), 12
    hulls, speeds = starts(count, (3.0, 2.0, 3.0), 5)
    q, v = np.tile(model.neutral(), (count, 1)), np.zeros((count, model.nv))
    q[:, :12], v[:, :6] = hulls, speeds
    flown = robust_controller(craft, control.Sensors().late(0.025)).with_reference(model.neutral())
    run = ht.simulate(plant, plant.start(q, v), 8.0, 5e-3, control=flown, balance=False)
    assert np.linalg.norm(run.q[-1, :, :3], axis=-1).max() < 0.2


@pytest.mark.thorough
def test_a_payload_is_picked_up_or_released_while_hovering() -> None:
    """The scale of the thrust adapts to the mass, on a vehicle from 0.5 kg to 9 kg."""
    share = np.array([-0.2, 0.2, 0.4])
    for craft, most in ((load("hummingbird"), 0.015), (fleet.heavy_hexacopter(), 0.06)):
        model, plant = craft.model, RotorPlant(craft, varied=("payload",))
        flown = robust_controller(craft, control.Sensors()).with_reference(model.neutral())
        start = plant.start(np.tile(model.neutral(), (3, 1)), np.zeros((3, 6)))
        run = ht.simulate(
            plant, start, 8.0, 5e-3, control=flown, balance=False, parameters={"payload": share * craft.mass}
        )
        np.testing.assert_allclose(run.channels["thrust_scale"][-1, :, 0], 1 / (1 + share), rtol=2e-3)
        off = np.linalg.norm(run.q[..., :3], axis=-1)
        assert off.max() < most
        assert off[-1].max() < 1e-3
