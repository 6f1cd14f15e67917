"""The page of a sweep: one file with maps, shares, histograms, parallel coordinates and the way back to every run."""

from __future__ import annotations

import base64
import csv
import html
import re
from pathlib import Path

import numpy as np
import pytest

import heavytop as ht
from heavytop.show.sweep_page import _colour_range, notable_points, page


def point(x: float, y: float, kind: str, z: float) -> dict[str, float]:
    if x == 0 and y == 0:
        raise ArithmeticError("the origin <is> bad")
    return {"r": np.hypot(x, y) + z, "inside": bool(x * x + y * y < 1)}


@pytest.mark.thorough
def test_page_has_all_parts_and_needs_no_network(tmp_path: Path) -> None:
    over = {"x": np.linspace(-1, 1, 5), "y": np.linspace(-1, 1, 5), "kind": ["a", "b"], "z": ht.normal(0, 0.1)}
    result = ht.sweep(point, over=over, draws=3)
    text = result.show(tmp_path / "x.html").read_text("utf-8")
    for part in (
        "Maps",
        "Shares with 95 %",
        "Distribution of the measures",
        "Parallel coordinates",
        "Notable points",
    ):
        assert part in text
    assert "the origin &lt;is&gt; bad" in text
    assert "http" not in text.replace("http://www.w3.org", "")
    assert "result.rerun(x=" in text
    first, why = next(iter(notable_points(result).items()))
    assert result.outcome.values[first] == 5
    assert why == "failed"
    assert {"largest r", "among the largest r", "median r", "least r", "inside"} <= {*notable_points(result).values()}
    assert len(text) > 50_000


def test_small_sweeps_have_pages(tmp_path: Path) -> None:
    for over in ({"x": [1.0, 2.0]}, {"x": [1.0]}, {}):
        result = ht.sweep(lambda x=0.0: {"y": x}, over=over)
        assert "Notable points" in page(result)


def test_draws_are_counted_on_the_page() -> None:
    result = ht.sweep(lambda z: {"y": z}, over={"z": ht.normal(0, 1)}, draws=5)
    assert "5 points: 5 draws." in page(result)


def test_missing_integers_are_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def count(x: float) -> dict[str, int]:
        if x == 1:
            raise ArithmeticError
        return {"n": int(x), "m": 2 * int(x)}

    binned: list[np.ndarray] = []
    histogram = np.histogram
    monkeypatch.setattr(np, "histogram", lambda a, bins: binned.append(a) or histogram(a, bins))
    text = page(ht.sweep(count, over={"x": np.arange(4.0)}))
    assert str(np.iinfo(np.int64).min) not in text
    assert [len(a) for a in binned] == [3, 3]
    assert min(a.min() for a in binned) >= 0


def test_runs_are_linked(tmp_path: Path) -> None:
    model = ht.library.load("pendulum").derive()
    result = ht.sweep(model, over={model.q_names[0]: [0.1, 0.2]}, measure={"v": model.v_names[0]}, until=0.1, step=0.01)
    result.show(tmp_path / "x.html", runs=1)
    assert (tmp_path / "x-runs" / "point-0.html").stat().st_size > 100_000
    assert "x-runs/point-0.html" in (tmp_path / "x.html").read_text()


def test_points_that_failed_have_no_page_and_others_take_their_place(tmp_path: Path) -> None:
    model = ht.library.load("pendulum").derive()

    def swing(angle: float) -> ht.Run:
        if angle < 0:
            raise ArithmeticError("no such angle")
        return ht.simulate(model, ([angle], [0.0]), until=0.1, step=0.01)

    result = ht.sweep(swing, over={"angle": [-1.0, 0.1, 0.2]}, measure={"v": model.v_names[0]})
    result.show(tmp_path / "x.html", runs=2)
    assert sorted(path.name for path in (tmp_path / "x-runs").iterdir()) == ["point-0.html", "point-1.html"]
    rows = re.findall(r"<tr><td>(\w[\w ]*)</td>.*?</tr>", (tmp_path / "x.html").read_text())
    assert "failed" in rows
    assert "largest v" in rows
    assert "least v" in rows


@pytest.mark.thorough
def test_numbers_are_embedded_as_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    over = {"x": [0.0, 1.0], "y": [0.0, 2.0], "kind": ["a"], "z": ht.normal(0, 0.1)}
    result = ht.sweep(point, over=over, draws=2)
    found = re.search(r"download='Sweep.csv' href='data:text/csv;base64,([^']+)'", page(result))
    assert found is not None
    table = list(csv.DictReader(base64.b64decode(found[1]).decode().splitlines()))
    assert len(table) == result.points == 8
    assert [row["outcome"] for row in table].count("failed") == 2
    last = table[-1]
    assert float(last["r"]) == result.r.values[1, 1, 0, 1]
    assert float(last["z"]) == result.z.values[1]
    monkeypatch.setattr("heavytop.show.sweep_page.MOST_ROWS", 7)
    assert "text/csv" not in page(result)


@pytest.mark.thorough
def test_calls_on_the_page_run_the_point_again() -> None:
    """The calls are Python, also with unusual names of dimensions, and return the displayed numbers."""
    model = ht.library.load("pendulum").derive()
    over = {"integrator": ["rkmk4", "rkmk6"], "theta.angle": [0.1, 0.2]}
    result = ht.sweep(model, over=over, measure={"end": "theta.rate"}, until=0.1, step=0.01)
    calls = re.findall(r"<code>(result\.rerun\(\*\*.*?\))</code>", html.unescape(page(result)))
    assert len(calls) == 4
    ends = [eval(call, {"result": result}).v[-1, 0] for call in calls]
    assert sorted(ends) == sorted(result.end.values.reshape(-1).tolist())


@pytest.mark.thorough
def test_drawn_variables_have_maps_and_nothing_random_has_no_intervals() -> None:
    drawn = ht.sweep(
        lambda x, y: {"r": np.hypot(x, y), "inside": bool(x < y)}, {"x": ht.uniform(), "y": ht.uniform()}, draws=300
    )
    assert "means of r in bins of x and y" in page(drawn)
    grid = ht.sweep(point, over={"x": np.arange(1.0, 4.0) / 10, "y": [0.1, 0.2], "kind": ["a"], "z": [0.1 + 0.2]})
    text = page(grid)
    assert "confidence" not in text
    assert "<h2>Shares</h2>" in text
    assert "0.30000000000000004" not in text.split("Notable points")[1].split("Numbers")[0]


def test_rounding_errors_have_no_map() -> None:
    result = ht.sweep(lambda x, y: {"flat": 3e-14 * x * y, "seen": 3e-9 * x * y}, {"x": [0.0, 1.0], "y": [0.0, 1.0]})
    text = page(result)
    assert "map of seen over" in text
    assert "map of flat over" not in text


def test_outliers_do_not_stretch_the_colours() -> None:
    values = np.append(np.linspace(0.0, 1.0, 100), 17.0)
    low, high, beyond = _colour_range(values)
    assert low == 0.0
    assert high < 1.1
    assert beyond == "max"
