"""Sensors of MJCF files as functions of the state: finite differences, gravity, momentum. Their values are compared with MuJoCo among the peers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import heavytop as ht
from heavytop.errors import FileFormatError
from heavytop.geometry import quaternion

GEOM = '<geom type="box" size=".1 .2 .3" pos=".1 0 .2" euler="10 20 30"/>'
SENSORS = (
    '<framepos name="p" objtype="site" objname="s"/><framelinvel name="v" objtype="site" objname="s"/>'
    '<framelinacc name="a" objtype="site" objname="s"/>'
    '<framepos name="pr" objtype="body" objname="b" reftype="site" refname="i"/>'
    '<framelinvel name="vr" objtype="body" objname="b" reftype="site" refname="i"/>'
    '<framequat name="r" objtype="site" objname="s"/><frameangvel name="w" objtype="site" objname="s"/>'
    '<frameangacc name="wa" objtype="site" objname="s"/>'
    '<velocimeter name="vb" site="s"/><gyro name="g" site="s"/><accelerometer name="f" site="s"/><gyro name="cut" site="s" cutoff=".01"/>'
    '<subtreecom name="c" body="b"/><subtreelinvel name="cv" body="b"/><subtreeangmom name="L" body="a"/>'
    '<jointpos name="jp" joint="k"/><jointvel name="jv" joint="k"/><actuatorpos name="ap" actuator="t"/><actuatorfrc name="af" actuator="t"/>'
    '<jointactuatorfrc name="jf" joint="k"/><touch name="lost" site="s"/><e_kinetic name="e"/>'
)


@pytest.fixture
def robot(tmp_path: Path) -> ht.System:
    path = tmp_path / "robot.xml"
    path.write_text(
        f'<mujoco><worldbody><body name="a"><freejoint name="f"/>{GEOM}<site name="i" pos=".1 .2 .3" euler="10 20 30"/><body name="b" pos="0 0 .5">'
        f'<joint name="k" axis="0 1 .2" ref="20"/>{GEOM}<site name="s" pos=".1 0 0" euler="0 40 0"/></body></body></worldbody>'
        f'<actuator><position name="t" joint="k" kp="3" kv=".2" gear="-2"/></actuator><sensor>{SENSORS}</sensor></mujoco>'
    )
    return ht.load(path)


def test_sensors_are_the_rates_and_turns_of_each_other(robot: ht.System) -> None:
    """Velocities are rates of positions along the motion, proper accelerations those of velocities without gravity; body axes are turned ones."""
    model, sensors = robot.derive(native=False), robot.sensors
    rng, h = np.random.default_rng(0), 1e-5
    q, v, u = model.random(rng), rng.standard_normal(model.nv), rng.standard_normal(model.nu)
    a = model.acceleration(q, v, u)
    after, before = ((model.integrate(q, v + s * h / 2 * a, s * h), v + s * h * a) for s in (1, -1))

    def value(name: str) -> np.ndarray:
        return sensors[name](model, q, v, u)

    def rate(name: str) -> np.ndarray:
        return (sensors[name](model, *after, u) - sensors[name](model, *before, u)) / (2 * h)

    assert_allclose(rate("p"), value("v"), atol=1e-6)
    assert_allclose(rate("pr"), value("vr"), atol=1e-6)
    assert_allclose(rate("c"), value("cv"), atol=1e-6)
    assert_allclose(rate("v") - [0, 0, -9.81], value("a"), atol=1e-5)
    assert_allclose(rate("w"), value("wa"), atol=1e-5)
    assert_allclose(rate("jp"), value("jv"), atol=1e-8)
    R = quaternion.rotation_from_quaternion(value("r"))
    for world, body in (("v", "vb"), ("w", "g"), ("a", "f")):
        assert_allclose(value(world), R @ value(body), atol=1e-12)
    assert_allclose(value("jp"), np.deg2rad(20) + q[-1])
    force = 3 * (u[0] + 2 * value("jp")) + 0.2 * 2 * value("jv")  # kp (u - l) - kv l', l = -2 (q + ref)
    assert_allclose(value("ap"), -2 * value("jp"))
    assert_allclose(value("af"), force)
    assert_allclose(value("jf"), -2 * force)
    assert np.max(np.abs(value("cut"))) <= 0.01
    assert_allclose(value("e"), [model.kinetic_energy(q, v)])
    assert ("sensor", "lost") in [(item.what, item.name) for item in robot.report.losses]
    batch = sensors["f"](model, np.tile(q, (3, 1)), v, u)
    assert_allclose(batch, np.tile(value("f"), (3, 1)))


@pytest.mark.thorough
def test_angular_momentum_is_conserved_in_free_flight_and_an_accelerometer_at_rest_shows_gravity(
    robot: ht.System,
) -> None:
    model, sensors = robot.derive(), robot.sensors
    rng = np.random.default_rng(1)
    run = ht.simulate(model, (model.random(rng), rng.standard_normal(model.nv)), until=0.5, step=0.005)
    L = sensors["L"](model, run.q, run.v)
    assert_allclose(L, np.broadcast_to(L[0], L.shape), atol=1e-7)
    # a body in free fall feels nothing: here all bodies fall together
    q = model.neutral()
    held = robot.derive(native=False)
    servo = [-2 * np.deg2rad(20)]
    assert_allclose(sensors["f"](held, q, np.zeros(model.nv), servo), 0, atol=1e-12)


@pytest.mark.parametrize(
    "sensor",
    ['<gyro site="x"/>', '<jointpos joint="f"/>', '<framepos objtype="site" objname="x"/>', '<subtreecom body="x"/>'],
)
def test_sensors_of_nothing_are_typed_errors(tmp_path: Path, sensor: str) -> None:
    path = tmp_path / "robot.xml"
    path.write_text(
        f'<mujoco><worldbody><body name="a"><freejoint name="f"/>{GEOM}</body></worldbody><sensor>{sensor}</sensor></mujoco>'
    )
    with pytest.raises(FileFormatError, match=r"robot\.xml:1: <"):
        ht.load(path)
