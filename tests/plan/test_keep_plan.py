"""Figure, page and file of a plan."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from systems import lengthening_arm

import heavytop as ht
from heavytop.errors import FileFormatError, PlanError, RecipeError
from heavytop.io import save_recipe
from heavytop.plan import Plan, problems
from heavytop.show.plan_report import _limit_lines


@pytest.fixture(scope="module")
def plan() -> Plan:
    return problems.quadcopter_gates(steps=20).plan(tolerance=1e-2)


@pytest.mark.thorough
def test_the_figure_has_the_motion_and_the_limits(plan: Plan, tmp_path: Path) -> None:
    figure = plan.plot(tmp_path / "gates.png")
    assert (tmp_path / "gates.png").read_bytes().startswith(b"\x89PNG")
    inputs = figure.axes[[axes.get_title() for axes in figure.axes].index("inputs")]
    drawn = {round(float(line.get_ydata()[0]), 6) for line in inputs.get_lines() if line.get_linestyle() == "--"}
    assert drawn == {round(float(x), 6) for side in plan.problem.bounds.u for x in side}
    first = figure.axes[0].get_lines()[0]
    np.testing.assert_allclose(first.get_ydata(), plan.reference(np.asarray(first.get_xdata()))[0][:, 0])
    shaded = len(inputs.patches)
    assert 0 < shaded <= 20  # in least time an input is at a limit nearly always
    with pytest.raises(FileFormatError, match=r"\.png"):
        plan.plot(tmp_path / "gates.docx")


@pytest.mark.thorough
def test_the_page_shows_gates(plan: Plan, tmp_path: Path) -> None:
    path = plan.show(tmp_path / "gates.html")
    text = Path(str(path)).read_text()
    assert "gate 1" in text
    assert "Active limits" in text
    assert "<iframe" in plan.show()._repr_html_()
    assert "duration" in plan._repr_html_()


@pytest.mark.thorough
def test_a_saved_plan_is_the_same_plan(plan: Plan, tmp_path: Path) -> None:
    file = tmp_path / "gates.plan"
    plan.save(file)
    with pytest.raises(RecipeError, match="trust=True"):
        Plan.load(file)
    read = Plan.load(file, trust=True)
    assert read.report() == plan.report()
    t = np.linspace(0.0, plan.duration + 0.5, 7)
    for a, b in zip(read.reference(t), plan.reference(t), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(read.inputs(t), plan.inputs(t))


@pytest.mark.thorough
def test_times_must_be_finite(plan: Plan) -> None:
    with pytest.raises(PlanError, match="finite times"):
        plan.inputs([0.0, np.nan])


def test_other_files_are_rejected(tmp_path: Path) -> None:
    save_recipe(ht.library.pendulum(), tmp_path / "pendulum.recipe")
    with pytest.raises(PlanError, match="System"):
        Plan.load(tmp_path / "pendulum.recipe", trust=True)
    with pytest.raises(FileFormatError):
        Plan.load(tmp_path / "nothing.plan", trust=True)


@pytest.mark.thorough
def test_the_distance_of_a_run_uses_the_parameters_of_the_plan() -> None:
    model, values = lengthening_arm(), {"l": 3.0}
    plan = ht.plan(model, [0.0], [1.0], 1.0, limits=(-50, 50), steps=10, tolerance=1e-4, parameters=values)
    run = ht.simulate(model, ([0.1], [0.0]), 0.1, 0.05, inputs=[0.0], parameters=values)
    assert np.isclose(plan.distance(run)[0], 3.0 * 2 * np.sin(0.05), rtol=1e-12)


def test_limits_are_drawn_in_the_axes_of_their_curves() -> None:
    bounds = np.array([-5.0, -2.0, -np.inf]), np.array([5.0, 2.0, np.inf])
    assert _limit_lines(bounds, (2,)) == []
    assert [limit for limit, _ in _limit_lines(bounds, (1,))] == [-2.0, 2.0]
    both = _limit_lines(bounds, (0, 1))
    assert [limit for limit, _ in both] == [-5.0, -2.0, 5.0, 2.0]
    assert both[0][1] == both[2][1] != both[1][1]
    assert _limit_lines(None, (0,)) == []
