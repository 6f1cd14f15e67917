"""Built-in systems with contact from their starts: periods, turning over, clearances, energy."""

from __future__ import annotations

import numpy as np
import pytest

import heavytop as ht
from heavytop import library

pytestmark = pytest.mark.thorough


def run(name: str, until: float, integrator: str = "moreau", **options: float) -> ht.Run:
    model = library.load(name).derive()
    start = library.start(name, model)
    assert start is not None
    found = ht.simulate(model, start, until, options.get("step", library.step(name)), integrator)
    assert found.outcome.ok, found.outcome
    return found


def test_a_woodpecker_pecks_periodically() -> None:
    """The toy settles on its limit cycle: equal times between pecks, and a fixed distance down the pole for each."""
    found = run("woodpecker", 1.5)
    pecks = found.contacts["beak"].touchdowns
    assert np.ptp(np.diff(pecks)[3:]) < 3e-4
    assert 0.12 < np.diff(pecks)[-1] < 0.15
    assert found.contacts["sleeve"].gap.min() > -1e-8


def test_the_block_of_a_slider_crank_stays_between_its_rails() -> None:
    found = run("slider-crank", 0.1)
    gaps = np.stack([contact.gap for contact in found.contacts.values()])
    assert gaps.min() > -1e-6
    assert gaps.max() > 1e-3  # and leaves each of them
    assert found.contacts["block"].touchdowns.size > 2


def test_pins_stay_in_their_bores() -> None:
    found = run("loose-four-bar", 1.0, step=5e-4)
    assert min(contact.gap.min() for contact in found.contacts.values()) > -1e-6
    assert found.invariants["energy"].relative < 1e-5


def test_a_tippe_top_turns_over() -> None:
    """From 6 degrees to more than 150, while its centre of mass rises."""
    found = run("tippe-top", 2.2, "rkmk4")
    tilt = np.rad2deg(np.arccos(np.clip(found.q[:, 11], -1.0, 1.0)))
    assert tilt[0] < 6.0
    assert tilt.max() > 150.0
    assert found.q[np.argmax(tilt), 2] > found.q[0, 2] + 0.004


def test_billiard_balls_share_the_momentum() -> None:
    """Friction with the cloth is the only outer force along it: momentum falls by its impulse, and energy balances exactly."""
    found = run("billiard", 0.4)
    speeds = found.v.reshape(-1, 4, 6)[:, :, :2]
    cloth = np.sum([found.contacts[name].force[1:, :2] for name in ("cue", "one", "two", "three")], axis=0)
    change = 0.17 * (speeds[-1].sum(axis=0) - speeds[0].sum(axis=0))
    assert np.allclose(change, cloth.sum(axis=0) * 1e-3, atol=1e-10)
    assert np.linalg.norm(speeds[-1, 2:], axis=1).min() > 0.2
    assert found.invariants["energy"].relative < 1e-12


def test_the_tilt_of_eulers_disc_falls_as_rolling_resistance_states() -> None:
    """E = 3/2 m g a sin(alpha) and the power m g rolling Omega sin(alpha) with Omega^2 sin(alpha) = 4 g/a, for small tilts."""
    found = run("euler-disc", 3.0, "rkmk4")
    root = np.sqrt(np.sin(np.arccos(found.q[:, 11])))
    assert np.polyfit(found.t, root, 1)[0] == pytest.approx(-2 / 3 * 3e-4 / 0.0375 * np.sqrt(9.81 / 0.0375), rel=0.02)
    assert np.abs(found.q[:, :2]).max() < 1e-3  # the centre rests


def test_eulers_disc_lies_down() -> None:
    found = run("euler-disc", 10.0, "rkmk4")
    assert abs(found.q[-1, 2]) < 1e-5


def test_a_gripper_catches_its_box() -> None:
    """Pads with 10 N each and friction 0.4 hold up to 8 N."""
    found = run("gripper", 0.5)
    assert np.abs(found.v[-1]).max() < 1e-6
    assert -1e-3 < found.q[-1, 2] < -5e-4  # it fell while they closed
    assert found.contacts["box"].use[-1] < 1.0
