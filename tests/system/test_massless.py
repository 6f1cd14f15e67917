"""Velocities that move no mass are named in systems of any size; what `mixed` velocities are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.testing import assert_allclose

import heavytop as ht
from heavytop.errors import ModelError
from heavytop.geometry import so3


@pytest.mark.parametrize("count", [5, 36])
@pytest.mark.parametrize("kind", ["nothing behind it", "a mass on its axis"])
def test_a_massless_joint_is_named(count: int, kind: str) -> None:
    system = ht.System(name="chain")
    rod = ht.Inertia(1.0, com=(0, 0, -0.5), moment_at_com=(0.1, 0.1, 0.01))
    for k in range(count):
        parent = f"link{k - 1}" if k else "world"
        system.body(
            f"link{k}", parent=parent, at=(0, 0, -1.0) if k else None, joint=ht.Revolute("xy"[k % 2]), inertia=rod
        )
    point = None if kind == "nothing behind it" else ht.Inertia(0.5, com=(0, 0, 0.3))
    system.body("loose", parent=f"link{count // 2}", joint=ht.Revolute("z"), inertia=point)
    with pytest.raises(ModelError, match="'loose.rate' of 'chain'"):
        system.derive(native=False).traced("acceleration")


@pytest.mark.thorough
def test_long_chains_pass_the_check() -> None:
    assert ht.library.chain(60).derive(native=False).traced("acceleration").outputs


def test_mixed_velocities_have_world_axes_for_the_origin_and_body_axes_for_the_turn() -> None:
    system = ht.System(name="body")
    inertia = ht.Inertia(2.0, com=(0.1, 0, 0.2), moment_at_com=(0.3, 0.4, 0.5))
    system.body("body", joint=ht.Free(velocity="mixed"), inertia=inertia)
    model = system.derive(native=False)
    q, v = model.random(3), np.array([0.3, -0.5, 0.7, 1.1, -0.4, 0.9])
    pose, moved = (model.pose("world", "body", x) for x in (q, model.integrate(q, v, 1e-6)))
    rate = (moved - pose) / 1e-6
    np.testing.assert_allclose(rate[:3, 3], v[:3], atol=1e-5)
    R = pose[:3, :3]
    np.testing.assert_allclose(so3.vee(R.T @ rate[:3, :3]), v[3:], atol=1e-5)
    assert np.linalg.norm(R @ v[3:] - v[3:]) > 0.1


def towed(moment: float, masses: tuple[float, float] = (100.0, 100.0)) -> ht.System:
    system = ht.System(gravity=(0, 0, 0), name="tow bar")
    system.body("truck", joint=ht.Prismatic("x"), inertia=ht.Inertia(masses[0]))
    system.body("trailer", at=(1, 0, 0), joint=ht.Prismatic("x"), inertia=ht.Inertia(masses[1]))
    bar = ht.Inertia(0.0, moment_at_com=(moment, moment, moment))
    system.body("bar", parent="truck", joint=ht.Revolute("z"), inertia=bar)
    system.loop("trailer", "bar", ht.Spherical(), at_b=(1, 0, 0), name="hitch")
    system.input("engine", ht.JointForce("truck"))
    return system


def test_a_light_body_in_a_loop_keeps_its_constraint() -> None:
    model = towed(1e-6).derive(native=False)
    rest = np.zeros(3)
    assert_allclose(model.acceleration(rest, rest, [100.0]), [0.5, 0.5, 0.0], rtol=1e-9, atol=1e-12)
    assert_allclose(model.constraint_forces(rest, rest, [100.0])["hitch"][0], -50.0)
    assert model.degrees_of_freedom(rest) == 1


@pytest.mark.parametrize("values", [{"moment": 1e-9}, {"moment": 1e-5, "masses": (1e6, 1e6)}])
@pytest.mark.parametrize(
    "call",
    [
        lambda model, rest: model.acceleration(rest, rest, [100.0]),
        lambda model, rest: model.constraint_forces(rest, rest, [100.0]),
        lambda model, rest: model.degrees_of_freedom(rest),
        lambda model, rest: ht.simulate(model, (rest, rest), 0.01, 0.01),
    ],
)
def test_a_constraint_is_not_lost_to_rounding(values: dict, call: Callable) -> None:
    model = towed(**values).derive(native=False)
    with pytest.raises(ModelError, match="'tow bar'.*'hitch'.*1e-10"):
        call(model, np.zeros(3))
