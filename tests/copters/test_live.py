"""The live flight: it recovers, converges, stays bounded and finite, and obeys from any thread."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from heavytop.control import ConstantWind, VonKarman, hover, numbers_of
from heavytop.copters import LAWS, LiveFlight, load, quadcopter, vehicle_names
from heavytop.copters.live.flight import LONGEST, PUSH_SECONDS, placed
from heavytop.copters.live.gains import recipe_of, tunable
from heavytop.errors import ControlError, ShapeError, SimulationError, UnknownNameError


@pytest.fixture(scope="module")
def shared() -> LiveFlight:
    return LiveFlight("quadcopter", background=False)


@pytest.fixture
def flight(shared: LiveFlight) -> LiveFlight:
    """A quadcopter at rest at (0, 0, 1.5)."""
    shared.speed(1.0)
    shared.pause(False)
    shared.wind(None)
    shared.set_point((0.0, 0.0, 1.5), 0.0)
    shared.choose(law="energy")
    shared.reset()
    shared.advance(0.0)
    return shared


def errors(flight: LiveFlight, seconds: float, step: float = 0.05) -> np.ndarray:
    """Tracking error at every ``step``."""
    found = []
    for _ in range(round(seconds / step)):
        flight.advance(step)
        assert np.all(np.isfinite(flight.snapshot.u))
        found.append(flight.snapshot.tracking_error)
    return np.array(found)


def wait_for(reached: Callable[[], bool]) -> None:
    """Until something has happened in another thread; a minute at most."""
    end = time.monotonic() + 60
    while not reached() and time.monotonic() < end:
        time.sleep(0.01)
    assert reached()


# --- motion -------------------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_it_rests_at_the_set_point(flight: LiveFlight) -> None:
    flight.advance(1.0)
    s = flight.snapshot
    assert s.tracking_error < 1e-9
    assert s.u == pytest.approx(np.full(4, 0.9 * 9.81 / 4))
    assert s.position == pytest.approx([0.0, 0.0, 1.5])


@pytest.mark.thorough
def test_a_push_gives_its_impulse_and_is_recovered_from(flight: LiveFlight) -> None:
    start = flight.snapshot.time
    flight.push((0.0, 0.0, 0.9))  # an upward push does not turn it: v = J / m, less the reaction of the law
    flight.advance(PUSH_SECONDS)
    assert flight.snapshot.time == pytest.approx(start + PUSH_SECONDS)
    speed = flight._native.seen(flight._state)[1][2]
    assert 0.7 < speed < 1.0
    away = errors(flight, 6.0)
    assert away.max() > 0.1
    assert away[-1] < 0.005


@pytest.mark.thorough
@pytest.mark.parametrize("impulse", [(1.5, 0, 0), (0, -4.0, 0), (2.0, 2.0, -1.0)])
def test_pushes_in_all_directions_are_recovered_from(flight: LiveFlight, impulse: tuple[float, ...]) -> None:
    flight.push(impulse)
    away = errors(flight, 6.0)
    assert away.max() > 0.2
    assert away[-1] < 0.01
    assert flight.snapshot.lost == 0


def test_a_twist_turns_it_and_it_turns_back(flight: LiveFlight) -> None:
    flight.push(twist=(0.1, 0.0, 0.0))
    flight.advance(0.1)
    assert flight.snapshot.attitude_error > 0.2
    flight.advance(5.0)
    assert flight.snapshot.attitude_error < 0.01


def test_it_goes_to_a_new_set_point_with_a_new_heading(flight: LiveFlight) -> None:
    flight.set_point((3.0, -2.0, 4.0), 1.2)
    away = errors(flight, 8.0)
    assert away[0] > 4.0
    assert away[-1] < 1e-3
    G = flight.snapshot.poses["hull"]
    assert G[:3, 3] == pytest.approx([3.0, -2.0, 4.0], abs=2e-3)
    assert np.arctan2(G[1, 0], G[0, 0]) == pytest.approx(1.2, abs=1e-3)


def test_a_steady_wind_shifts_it_by_a_bounded_offset(flight: LiveFlight) -> None:
    flight.wind(ConstantWind((5.0, 0.0, 0.0)))
    away = errors(flight, 10.0)
    assert 0.05 < away[-1] < 0.6
    assert abs(away[-1] - away[-20]) < 1e-3
    assert flight.snapshot.position[0] > 0
    assert flight.snapshot.wind == pytest.approx([5.0, 0.0, 0.0])
    flight.wind(None)
    assert errors(flight, 8.0)[-1] < 1e-3


def test_turbulence_keeps_it_near(flight: LiveFlight) -> None:
    flight.wind(VonKarman((4.0, 0.0, 0.0), intensity=1.0, length=20.0, waves=60))
    away = errors(flight, 10.0)
    assert away.max() < 1.0
    assert np.std(away[-100:]) > 1e-4


def test_a_maneuver_begins_at_the_set_point(flight: LiveFlight) -> None:
    flight.set_point((1.0, 2.0, 3.0))
    flight.advance(6.0)
    flight.fly("waypoints")
    flight.advance(0.1)
    assert flight.snapshot.maneuver == "waypoints"
    assert flight.snapshot.reference["hull"][:3, 3] == pytest.approx([1.0, 2.0, 3.0], abs=0.05)
    assert errors(flight, 3.0).max() < 0.05
    assert np.linalg.norm(flight.snapshot.position - [1.0, 2.0, 3.0]) > 0.5
    assert errors(flight, 5.0).max() < 0.05
    assert flight.snapshot.maneuver == "hover"


def test_the_end_of_a_maneuver_becomes_the_set_point(flight: LiveFlight) -> None:
    flight.fly("step")  # by (3, 0, 1)
    errors(flight, 6.2)
    assert flight.snapshot.maneuver == "hover"
    assert flight.snapshot.set_point == pytest.approx([3.0, 0.0, 2.5])
    assert flight.snapshot.tracking_error < 0.01


def test_recovery_begins_upside_down(flight: LiveFlight) -> None:
    flight.fly("recovery")
    flight.advance(0.0)
    assert flight.snapshot.poses["hull"][2, 2] < -0.9
    away = errors(flight, 8.0)
    assert away.max() > 0.5
    assert away[-1] < 0.01


def test_a_maneuver_that_cannot_be_flown_leaves_a_note(flight: LiveFlight) -> None:
    flight.fly("hover-roll")
    flight.advance(0.1)
    assert "'quadcopter' cannot fly 'hover-roll'" in flight.snapshot.note
    assert flight.snapshot.maneuver == "hover"


# --- clock --------------------------------------------------------------------------------------------------------------------


def test_pause_stops_the_clock_and_speed_scales_it(flight: LiveFlight) -> None:
    flight.pause()
    start = flight.snapshot.time
    flight.advance(0.5)
    assert flight.snapshot.time == start
    assert flight.snapshot.paused
    flight.pause(False)
    flight.speed(0.25)
    flight.advance(0.4)
    assert flight.snapshot.time == pytest.approx(start + 0.1)
    with pytest.raises(SimulationError, match=r"speed must lie in \(0, 10\], got 0"):
        flight.speed(0)


def test_parts_of_a_step_are_not_forgotten(flight: LiveFlight) -> None:
    start = flight.snapshot.time
    for _ in range(100):
        flight.advance(0.0004)
    assert flight.snapshot.time == pytest.approx(start + 0.04)


def test_the_motion_does_not_depend_on_the_frame_rate(flight: LiveFlight) -> None:
    ends = []
    for frame in (0.005, 0.02):
        flight.reset()
        flight.push((1.0, 0.0, 0.0), (0.0, 0.02, 0.0))
        errors(flight, 1.0, frame)
        ends.append(flight.snapshot.position)
    assert ends[0] == pytest.approx(ends[1], abs=1e-12)


class Wall:
    """A wall clock that only waiting moves, each time a little too far."""

    def __init__(self, late: list[float]) -> None:
        self.now, self.late = 100.0, list(reversed(late))

    def perf_counter(self) -> float:
        return self.now

    def wait(self, seconds: float) -> bool:
        if not self.late:
            return True
        self.now += seconds + self.late.pop()
        return False


@pytest.mark.parametrize(
    ("late", "lost"), [([0.0] * 50, 0.0), ([0.003, 0.0, 0.012] * 20, 0.0), ([0.0, 3.0, 0.0], 3.01 - LONGEST)]
)
def test_it_keeps_real_time(late: list[float], lost: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulated time is the time on the wall, apart from a hold-up, after which it does not race."""
    flight, wall = LiveFlight("tricopter"), Wall(late)
    monkeypatch.setattr(sys.modules[LiveFlight.__module__], "time", wall)
    monkeypatch.setattr(flight, "_ended", wall)
    start = flight.snapshot.time
    flight._keep_going(100.0)
    assert flight.snapshot.time - start == pytest.approx(wall.now - 100.0 - lost, abs=1.1e-3)


def test_it_goes_on_in_its_own_thread() -> None:
    flight = LiveFlight("tricopter")
    flight.start()
    try:
        wait_for(lambda: flight.snapshot.time > 0.1)
        # commands of many threads
        threads = [
            threading.Thread(target=lambda k=k: [flight.push((0.01 * k, 0, 0)) for _ in range(20)]) for k in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wait_for(lambda: flight.snapshot.position[0] > 1e-3)
    finally:
        flight.stop()
    stopped = flight.snapshot.time
    time.sleep(0.1)
    assert flight.snapshot.time == stopped


# --- gains --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", vehicle_names())
def test_the_gains_at_the_start_are_those_of_the_vehicle(name: str) -> None:
    vehicle = load(name)
    given, made = numbers_of(vehicle.prototype), numbers_of(recipe_of(vehicle).prototype())
    assert given.keys() == made.keys()
    for key, value in given.items():
        assert made[key] == pytest.approx(value, rel=1e-4, abs=1e-12), key


def test_gains_place_the_poles() -> None:
    vehicle = quadcopter()
    wanted = {"position frequency": 2.6, "position damping": 0.7, "tilt frequency": 11.0, "height frequency": 3.1}
    prototype = recipe_of(vehicle).prototype(wanted)
    poles = hover(replace(vehicle, prototype=prototype).law()).poles
    for w, zeta in ((2.6, 0.7), (11.0, 0.8), (3.1, 1.0), (3.0, 0.9)):
        pole = -zeta * w + 1j * w * np.sqrt(1 - zeta**2)
        assert np.min(np.abs(poles - pole)) < 1e-4, (w, zeta)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("quadcopter", "particle"),
        ("hexacopter", "body"),
        ("quadcopter-with-load", "energy"),
        *(
            pytest.param(name, kind, marks=pytest.mark.thorough)
            for name in ("quadcopter", "hexacopter", "quadcopter-with-load")
            for kind in LAWS
        ),
    ],
)
def test_a_law_with_gains_as_parameters_is_the_law_of_the_prototype(name: str, kind: str) -> None:
    vehicle = load(name)
    prototype = recipe_of(vehicle).prototype({"position frequency": 1.4, "height frequency": 2.2})
    tuned = tunable(vehicle, kind)
    rng = np.random.default_rng(1)
    q, q_R = vehicle.model.random(rng), vehicle.model.random(rng)
    v, v_R, a_R = rng.standard_normal((3, vehicle.model.nv))
    u = tuned.law.traced_law.interpret(q, v, q_R, v_R, a_R, tuned.values(prototype))[0]
    # without limits: their metric keeps the vehicle's own inertia
    free = replace(vehicle, prototype=prototype, limits=None)
    tuned_free = tunable(replace(vehicle, limits=None), kind)
    values = tuned_free.values(prototype)
    expected = free.law(kind).traced_law.interpret(q, v, q_R, v_R, a_R, vehicle.model.parameter_vector())[0]
    assert tuned_free.law.traced_law.interpret(q, v, q_R, v_R, a_R, values)[0] == pytest.approx(
        expected, rel=1e-9, abs=1e-9
    )
    low, high = vehicle.limits.bounds(vehicle.model)
    assert np.all((u >= low - 1e-9) & (u <= high + 1e-9))


def test_gains_take_effect_immediately_and_softer_ones_are_slower(flight: LiveFlight) -> None:
    left = []
    for frequency in (2.0, 1.2):
        flight.reset()
        flight.gains({"height frequency": frequency})
        flight.push((0.0, 0.0, 1.0))
        left.append(errors(flight, 2.0)[-1])
        assert flight.snapshot.gains["height frequency"] == frequency
    assert left[1] > 2 * left[0]


def test_impossible_gains_leave_a_note(flight: LiveFlight) -> None:
    before = flight.snapshot.gains
    flight.gains({"height frequency": -1.0})
    flight.advance(0.01)
    assert "negative real parts" in flight.snapshot.note
    assert flight.snapshot.gains == before
    flight.gains({"speed of light": 1.0})
    flight.advance(0.01)
    assert "unknown gain 'speed of light'" in flight.snapshot.note
    with pytest.raises(ControlError, match="another structure"):
        tunable(quadcopter(), "body").values(load("tricopter-with-load").prototype)


# --- vehicles -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "hexacopter",
        "tricopter-with-load",
        *(
            pytest.param(name, marks=pytest.mark.thorough)
            for name in ("tricopter", "bicopter", "quadcopter-with-load", "crazyflie")
        ),
    ],
)
@pytest.mark.thorough
def test_every_vehicle_recovers_from_a_push_and_a_step(name: str) -> None:
    flight = LiveFlight(name, background=False)
    flight.push(flight.snapshot.vehicle.mass * np.array([0.4, 0.3, 0.0]))
    assert errors(flight, 10.0)[-1] < 0.05
    flight.set_point((2.0, 1.0, 2.5))
    assert errors(flight, 10.0)[-1] < 0.05
    assert flight.snapshot.lost == 0


@pytest.mark.thorough
def test_vehicle_and_law_are_changed_in_flight() -> None:
    flight = LiveFlight("tricopter")
    flight.set_point((0.0, 1.0, 2.0))
    flight.advance(0.1)
    flight.choose("bicopter")
    flight.advance(0.02)
    assert flight.snapshot.vehicle.name == "tricopter"  # flies on while the other one is compiled
    assert flight.snapshot.preparing == "compiling bicopter with the energy law"
    end = time.monotonic() + 60
    while flight.snapshot.preparing and time.monotonic() < end:
        flight.advance(0.01)
        time.sleep(0.02)
    assert flight.snapshot.vehicle.name == "bicopter"
    assert set(flight.snapshot.gains) == set(recipe_of(load("bicopter")).defaults)
    assert flight.snapshot.position == pytest.approx([0.0, 1.0, 2.0], abs=0.1)
    moving = flight.snapshot.position
    flight._background = False
    flight.choose(law="particle")
    flight.advance(0.0)
    assert flight.snapshot.law == "particle"
    assert flight.snapshot.position == pytest.approx(moving, abs=1e-3)  # another law, the same motion
    assert errors(flight, 5.0)[-1] < 0.02
    flight.choose("zeppelin")
    flight.advance(0.01)
    assert "unknown vehicle 'zeppelin'" in flight.snapshot.note
    assert flight.snapshot.vehicle.name == "bicopter"
    with pytest.raises(UnknownNameError, match="unknown law 'magic'"):
        flight.choose(law="magic")


def test_a_lost_vehicle_is_brought_back(flight: LiveFlight) -> None:
    flight.push((1e6, 0.0, 0.0))
    flight.advance(1.0)
    s = flight.snapshot
    assert s.lost >= 1
    assert "lost" in s.note
    assert np.all(np.isfinite(s.u))
    assert errors(flight, 1.0)[-1] < 0.1


def test_bad_commands_raise_where_they_are_given(flight: LiveFlight) -> None:
    with pytest.raises(ShapeError, match=r"set point must have shape \(3,\), got \(2,\)"):
        flight.set_point((1.0, 2.0))
    with pytest.raises(ShapeError, match="impulse must be finite"):
        flight.push((np.nan, 0.0, 0.0))


def test_a_set_point_is_a_configuration_at_rest() -> None:
    for name in ("quadcopter", "quadcopter-with-load"):
        vehicle = load(name)
        q = placed(vehicle, (1.0, 2.0, 3.0), 0.7)
        vehicle.model.coordinates.check(q)
        needed = vehicle.model.inverse_dynamics(q, np.zeros(vehicle.model.nv), np.zeros(vehicle.model.nv))
        assert needed[2] == pytest.approx(vehicle.mass * 9.81)
        assert np.delete(needed, 2) == pytest.approx(0.0, abs=1e-12)


def test_gains_make_no_law_that_another_shares() -> None:
    """The law with gains as parameters keeps its own prototype; only what weighs its limits is the vehicle's."""
    vehicle = load("quadcopter")
    before = numbers_of(vehicle.prototype)
    law = tunable(vehicle, "energy").law
    assert law.prototype is law.terms.prototype
    assert law.prototype is not vehicle.prototype
    assert law.limits.inertia is vehicle.prototype.inertia
    assert vehicle.limits.inertia is None
    assert numbers_of(vehicle.prototype) == before


def test_a_flight_interrupted_while_its_thread_starts_can_be_stopped(
    flight: LiveFlight, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: threading.Thread) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            flight.start()
    flight.stop()
    flight.start()  # and be started again
    flight.stop()
