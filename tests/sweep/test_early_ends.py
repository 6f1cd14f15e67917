"""Runs that end at an event: measures, trajectories, runs again and causes agree with the single run."""

from __future__ import annotations

import numpy as np
import pytest

import heavytop as ht

SPEEDS = [1.0, 1.5, 0.1]


def cart() -> ht.Model:
    system = ht.System(gravity=(0, 0, 0), name="cart")
    mass = system.parameter("mass", 1.0)
    system.body("cart", joint=ht.Prismatic("x"), inertia=ht.Inertia(mass))
    system.input("motor", ht.JointForce("cart"))
    return system.derive()


MODEL = cart()
SPEED, PLACE = MODEL.v_names[0], MODEL.q_names[0]
WALL = ht.Event(lambda t, q, v: q[0] - 0.55, name="wall")
PUSH = ht.Feedback(lambda v: {"u": 1.0 - v, "felt": 2.0 * v[0]}, ("v",))
OPTIONS = {"until": 1.0, "step": 0.1, "events": WALL, "control": PUSH}


def alone(speed: float) -> ht.Run:
    return ht.simulate(MODEL, ([0.0], [speed]), **OPTIONS)


@pytest.mark.parametrize("how", ["end", "max", "min", "mean", "rms", "largest"])
@pytest.mark.parametrize("of", [PLACE, SPEED, "motor", "felt", "energy", "kinetic_energy"])
def test_measures_see_the_event(of: str, how: str) -> None:
    result = ht.sweep(MODEL, {SPEED: SPEEDS}, measure={"m": ht.sweep.take(of, how)}, **OPTIONS)
    reduce = {
        "end": lambda x: x[-1],
        "max": np.max,
        "min": np.min,
        "mean": np.mean,
        "rms": lambda x: np.sqrt(np.mean(x**2)),
        "largest": lambda x: np.max(np.abs(x)),
    }[how]
    assert np.allclose(result.m.values, [reduce(alone(speed)[of]) for speed in SPEEDS], rtol=0, atol=1e-12)


@pytest.mark.thorough
def test_energies_at_an_event_use_its_time() -> None:
    system = ht.System(gravity=(0, 0, 0), name="pulled")
    time = system.time
    system.body("cart", joint=ht.Prismatic("x"), inertia=ht.Inertia(1.0))
    system.potential(lambda q: -(1.0 + time) * q[0])
    model = system.derive()
    over = {model.v_names[0]: [1.0, 2.0, 0.0]}
    result = ht.sweep(model, over, measure={"e": "potential_energy"}, until=0.6, step=0.1, events=WALL)
    for k, speed in enumerate(over[model.v_names[0]]):
        run = ht.simulate(model, ([0.0], [speed]), until=0.6, step=0.1, events=WALL)
        assert np.isclose(result.e.values[k], run.potential_energy[-1], rtol=0, atol=1e-12)


def test_a_point_run_again_ends_at_its_event() -> None:
    result = ht.sweep(MODEL, {SPEED: SPEEDS}, measure={"q": PLACE, "v": SPEED, "u": "motor"}, **OPTIONS)
    for k, speed in enumerate(SPEEDS):
        run, single = result.rerun(**{SPEED: speed}), alone(speed)
        assert (run.q[-1, 0], run.v[-1, 0], run.u[-1, 0], run.t[-1]) == (
            result.q.values[k],
            result.v.values[k],
            result.u.values[k],
            result.end_time.values[k],
        )
        assert run.batch == ()
        assert np.shape(run.channels["felt"]) == np.shape(run.t)
        assert np.allclose(run["felt"], single["felt"], rtol=0, atol=1e-12)
        assert (run.outcome.trajectory, run.outcome.ending) == ((), single.outcome.ending)
        assert "trajectory" not in run.outcome.message


@pytest.mark.parametrize("chunk", [1, 2, 3])
def test_trajectories_that_end_early_are_filled_up(chunk: int) -> None:
    result = ht.sweep(MODEL, {SPEED: SPEEDS}, trajectories=True, chunk=chunk, **OPTIONS)
    assert result.q_t.shape == (3, 11, 1)
    assert np.allclose(result.time.values, np.linspace(0, 1, 11))
    for k, speed in enumerate(SPEEDS):
        run = alone(speed)
        n = len(run) - (run.outcome.ending is ht.simulate.Ending.event)  # the event lies between two records
        assert np.allclose(result.q_t.values[k, :n], run.q[:n], rtol=0, atol=1e-12)
        assert np.isnan(result.q_t.values[k, n:]).all()


def test_causes_are_counted_by_kind() -> None:
    over = {SPEED: np.linspace(1, 2, 50)}
    whole, cut = (ht.sweep(MODEL, over, chunk=chunk, **OPTIONS) for chunk in (50, 7))
    assert whole.causes() == {"wall": 50}
    assert np.array_equal(whole.cause.values, cut.cause.values)  # no number of a trajectory in a batch

    def bad(x: float) -> dict[str, float]:
        if x:
            raise ArithmeticError(f"{x} is bad")
        return {"y": x}

    assert ht.sweep(bad, {"x": [0.0, 1.5, 2.5]}).causes() == {"ArithmeticError: 1.5 is bad": 2}


@pytest.mark.thorough
def test_a_loop_is_watched_and_run_again_with_its_work() -> None:
    from sweep.slider_crank import slider_crank

    model, start = slider_crank()
    speed = model.v_names[0]
    single = ht.simulate(model, start, until=4.0, step=2e-3, inputs=[0.0])
    result = ht.sweep(model, {speed: [start[1][0]]}, start=start, until=4.0, step=2e-3, inputs=[0.0])
    assert single.outcome.ending.value == "jumped"
    assert result.outcomes() == {"jumped": 1}
    run = result.rerun(**{speed: start[1][0]})
    assert run.work is not None
    assert run.work.shape == (len(run), 2)
    unwatched = ht.sweep(model, {speed: [start[1][0]]}, start=start, until=4.0, step=2e-3, inputs=[0.0], balance=False)
    assert unwatched.outcomes() == {"finished": 1}
