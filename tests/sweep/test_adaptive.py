"""Boundaries and quantiles: right, with few points, and the same after an interruption."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import heavytop as ht
from heavytop.errors import SweepError, UnknownNameError


def inside(x: float, y: float) -> dict[str, bool]:
    return {"ok": bool(x * x < y)}


def test_boundaries_of_all_points() -> None:
    y = np.linspace(0.1, 3.0, 9)
    edge = ht.sweep.refine(inside, "x", [0.0, 1.0, 2.0], "ok", 1e-4, over={"y": y})
    assert np.allclose(edge.data.edge, np.sqrt(y), atol=1e-4)
    assert np.all(edge.data.outside - edge.data.inside <= 1e-4)
    assert edge.points < 9 * 20
    none = ht.sweep.refine(inside, "x", [0.0, 1.0], "ok", 1e-2, over={"y": [0.25, 4.0]})
    assert np.isfinite(none.data.edge.values[0])
    assert np.isnan(none.data.edge.values[1])  # it holds everywhere
    with pytest.raises(SweepError, match="increasing"):
        ht.sweep.refine(inside, "x", [1.0, 0.0], "ok", 1e-2)


def test_a_quantile_stops_when_it_is_known() -> None:
    def point(x: float) -> dict[str, float]:
        return {"y": 5.0 + x}

    found = ht.sweep.quantile(point, {"x": ht.normal()}, "y", 0.9, relative=0.02, first=200)
    assert found.reached
    assert found.low <= 5 + 1.2815515655 <= found.high
    assert found.draws in (200, 400, 800, 1600, 3200)
    short = ht.sweep.quantile(point, {"x": ht.normal()}, "y", 0.999, relative=1e-5, first=50, most=100)
    assert not short.reached
    assert short.draws == 100


@pytest.mark.thorough
def test_intervals_cover_though_the_draws_stop_when_they_are_narrow() -> None:
    """With the confidence of a single look they cover 0.936 of the time."""

    def expected(u: np.ndarray) -> dict[str, np.ndarray]:
        return {"y": -np.log1p(-u)}

    options = {"first": 25, "most": 3200, "batched": True, "progress": False}
    found = [ht.sweep.quantile(expected, {"u": ht.uniform()}, "y", 0.5, 0.1, seed=k, **options) for k in range(300)]
    assert np.mean([f.low <= np.log(2) <= f.high for f in found]) > 0.955


@pytest.mark.thorough
def test_rounds_are_read_again_not_computed(tmp_path: Path) -> None:
    pytest.importorskip("zarr")
    log = str(tmp_path / "calls")  # a list would be a part of the study, and change it

    def point(x: float) -> dict[str, float]:
        with open(log, "a") as file:
            file.write(f"{x!r}\n")
        return {"y": 1.0 + x}

    options = {"level": 0.5, "relative": 0.05, "first": 20, "store": tmp_path / "rounds"}
    first = ht.sweep.quantile(point, {"x": ht.uniform()}, "y", **options)
    calls = Path(log).read_text().split()
    assert len(set(calls)) == first.draws
    assert len(calls) <= first.draws + 10  # every draw once, and the few that show the layout
    assert ht.sweep.quantile(point, {"x": ht.uniform()}, "y", **options) == first
    assert Path(log).read_text().split() == calls


def test_first_draw_goes_on() -> None:
    whole = ht.sweep(lambda x: {"y": x}, over={"x": ht.normal()}, draws=10)
    rest = ht.sweep(lambda x: {"y": x}, over={"x": ht.normal()}, draws=4, first_draw=6)
    assert np.array_equal(whole.y.values[6:], rest.y.values)


def test_a_boundary_without_other_dimensions_is_a_number() -> None:
    edge = ht.sweep.refine(lambda x: {"ok": x < 0.7}, "x", [0.0, 1.0], "ok", 1e-3)
    assert float(edge.data.inside) < 0.7 <= float(edge.data.outside) <= float(edge.data.inside) + 1e-3


def test_quantiles_of_models() -> None:
    model = ht.library.load("pendulum").derive()
    over = {"theta.angle": ht.uniform(0.5, 1.0)}
    found = ht.sweep.quantile(model, over, "theta.rate", 0.5, 0.1, first=100, until=0.1, step=0.01)
    assert found.reached
    assert found.value < 0
    largest = {"top": ht.sweep.take("theta.angle", "largest")}
    found = ht.sweep.quantile(model, over, largest, 0.9, 0.1, first=100, until=0.1, step=0.01)
    assert 0.9 < found.value < 1.0
    with pytest.raises(SweepError, match="one measure"):
        ht.sweep.quantile(model, over, {**largest, "more": "theta.rate"}, 0.9, until=0.1, step=0.01)
    with pytest.raises(UnknownNameError, match="'z'"):
        ht.sweep.quantile(lambda x: {"y": x}, {"x": ht.uniform()}, "z", 0.9)


@pytest.mark.thorough
def test_runs_that_end_at_an_event_count() -> None:
    model = ht.library.load("pendulum").derive()
    low = ht.simulate.Event(lambda t, q, v: q[0] - 0.1, "down")
    found = ht.sweep.quantile(
        model,
        {"theta.angle": ht.uniform(0.5, 1.0)},
        "theta.rate",
        0.5,
        0.2,
        first=50,
        until=3.0,
        step=0.01,
        events=[low],
    )
    assert np.isfinite(found.value)


def test_a_condition_that_begins_has_a_boundary() -> None:
    edge = ht.sweep.refine(lambda x, y: {"ok": x > y}, "x", [0.0, 1.0, 2.0], "ok", 1e-3, over={"y": [0.7, 1.4, 3.0]})
    assert np.allclose(edge.data.edge.values[:2], [0.7, 1.4], atol=1e-3)
    assert np.all(edge.data.inside.values[:2] > [0.7, 1.4])
    assert np.all(edge.data.outside.values[:2] <= [0.7, 1.4])
    assert np.isnan(edge.data.edge.values[2])  # it holds nowhere
    both = ht.sweep.refine(lambda x: {"ok": 0.5 < x < 1.5}, "x", [0.0, 1.0, 2.0], "ok", 1e-3)
    assert np.isclose(both.data.edge, 1.5, atol=1e-3)  # where it ends, if it does


def test_boundaries_of_models_may_have_a_start() -> None:
    model = ht.library.load("pendulum").derive()
    speed = model.v_names[0]

    def low(data: object) -> object:
        return data.q[..., 0] < 0.5  # pyright: ignore

    options = {"until": 0.1, "step": 0.01}
    here, ahead = (
        float(ht.sweep.refine(model, speed, [0.0, 20.0], low, 1e-2, start=([q], [0.0]), **options).data.edge)
        for q in (0.0, 0.3)
    )
    assert ahead < here - 2.0
