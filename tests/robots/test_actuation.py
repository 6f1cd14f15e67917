"""Actuators of MJCF files: ranges of commands and forces, filters and integrators, between commands and the inputs of the model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import heavytop as ht

BODY = '<inertial pos="0 0 0" mass="1" diaginertia="0.5 0.5 0.5"/>'


def loaded(tmp_path: Path, actuators: str, joint: str = "", more: str = "") -> ht.System:
    path = tmp_path / "robot.xml"
    path.write_text(
        f'<mujoco><compiler angle="radian"/><option gravity="0 0 0"/><worldbody><body name="a"><joint name="j" ref="0.3" {joint}/>{BODY}'
        f'<body name="b"><joint name="k"/>{BODY}</body></body></worldbody>{more}<actuator>{actuators}</actuator></mujoco>'
    )
    return ht.load(path)


def force(system: ht.System, q, v, commands) -> np.ndarray:
    """Generalised forces (2,) of the actuators with all their bounds."""
    model, actuation = system.derive(native=False), system.actuation()
    return (
        model.input_matrix(q) @ actuation.inputs(q, v, commands)
        - model.stiffness_force(q)
        - model.dissipation_force(q, v)
    )


@pytest.mark.parametrize("command", [-9.0, -0.2, 0.1, 0.4, 9.0])
def test_force_of_a_servo_is_bounded(tmp_path: Path, command: float) -> None:
    """gear clip(kp (clip(c) - l) - kv l', range) with l = gear (q + ref), as MuJoCo computes it."""
    servo = '<position name="p" joint="j" kp="5" kv="0.4" gear="-2" ctrlrange="-3 4" forcerange="-2 1"/>'
    q, v = np.array([0.2, 0.0]), np.array([0.7, 0.0])
    length, rate = -2 * (q[0] + 0.3), -2 * v[0]
    expected = -2 * np.clip(5 * (np.clip(command, -3, 4) - length) - 0.4 * rate, -2, 1)
    assert_allclose(force(loaded(tmp_path, servo), q, v, [command]), [expected, 0], atol=1e-13)


def test_total_force_in_a_joint_is_bounded(tmp_path: Path) -> None:
    """A motor, a servo and a tendon pull at the same joint; the bound holds for their sum, and the other joint keeps its own."""
    more = '<tendon><fixed name="t"><joint joint="j" coef="2"/><joint joint="k" coef="-1"/></fixed></tendon>'
    actuators = (
        '<motor name="m" joint="j" gear="3"/><position name="p" joint="j" kp="5"/><motor name="r" tendon="t" gear="4"/>'
    )
    system = loaded(tmp_path, actuators, 'actuatorfrcrange="-6 7"', more)
    q, v = np.array([0.2, -0.1]), np.array([0.7, 0.3])
    for commands in ([0.1, 0.5, 0.0], [3.0, 2.0, 1.0], [-3.0, 0.0, -1.0], [0.0, 0.0, 5.0]):
        m, p, r = commands
        total = 3 * m + 5 * (p - 0.5) + 8 * r
        assert_allclose(force(system, q, v, commands), [np.clip(total, -6, 7), -4 * r], atol=1e-12)
    batch = system.actuation().inputs(np.tile(q, (4, 1)), v, np.zeros(3))
    assert_allclose(batch, np.tile(system.actuation().inputs(q, v, np.zeros(3)), (4, 1)))


def test_filters_and_integrators_are_states_of_the_law(tmp_path: Path) -> None:
    """Constant commands: activations 1 - exp(-t / lag) and t, bounded by actrange; the inputs of the run are these."""
    actuators = (
        '<general name="filter" joint="j" dyntype="filter" dynprm="0.2"/><intvelocity name="ramp" joint="k" kp="0.1" actrange="0 0.3"/>'
        '<motor name="plain" joint="k" ctrlrange="-1 1"/>'
    )
    system = loaded(tmp_path, actuators)
    assert system.input_lags == {"filter": 0.2, "ramp": np.inf}
    assert system.input_limits == {"ramp": (0.0, 0.3), "plain": (-1.0, 1.0)}
    law = system.actuation().feedback(lambda t, q, v: ht.vector(1.0, 1.0, 7.0), activation=[0.5, 0.0, 0.0])
    run = ht.simulate(system.derive(), ([0.0, 0.0], [0.0, 0.0]), until=0.5, step=0.01, control=law, hold="continuous")
    assert_allclose(run.u[:, 0], 1 - 0.5 * np.exp(-run.t / 0.2), atol=1e-7)
    assert_allclose(run.u[:, 1], np.minimum(run.t, 0.3), atol=1e-9)
    assert_allclose(run.u[:, 2], 1.0)


def test_clamped_servo_in_native_code_equals_the_closed_form(tmp_path: Path) -> None:
    """A servo far from its goal pushes with its largest force: q = F / (2 J) t^2."""
    servo = '<position name="p" joint="j" kp="1000" forcerange="-2 2"/>'
    system = loaded(tmp_path, servo)
    q0 = np.array([-0.3, 0.0])
    law = system.actuation().feedback(lambda t, q, v: ht.vector(50.0))
    run = ht.simulate(system.derive(), (q0, np.zeros(2)), until=1.0, step=0.02, control=law, hold="continuous")
    assert str(run.outcome).startswith("finished")
    # the moment of the second body is felt through its joint without friction: it does not turn
    assert_allclose(run.q[:, 0] + 0.3, 2.0 / 0.5 / 2 * run.t**2, atol=1e-9)
