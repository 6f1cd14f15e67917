"""Scenes and reports check their arguments and never change them."""

from __future__ import annotations

import numpy as np
import pytest

from heavytop.errors import ModelError, ShapeError, UnknownNameError
from heavytop.show import Arrow, Body, Panel, Report, Scene, Spin, Table, Trail
from heavytop.show.meshes import box

TIMES = np.linspace(0, 1, 5)
STILL = np.tile(np.eye(4), (5, 1, 1))


def hull() -> Body:
    return Body([box((1, 1, 1))], STILL)


def test_arrays_are_read_only_copies() -> None:
    times = TIMES.copy()
    scene = Scene(times, {"hull": hull()})
    times[0] = -7
    assert scene.times[0] == 0
    with pytest.raises(ValueError, match="read-only"):
        scene.times[0] = 1
    with pytest.raises(TypeError):
        scene.bodies["other"] = hull()  # type: ignore[index]


@pytest.mark.parametrize(
    ("build", "error", "text"),
    [
        (lambda: Scene(TIMES, {}), ModelError, r"at least one body"),
        (lambda: Scene(TIMES[::-1], {"hull": hull()}), ModelError, r"times 0 and 1 are 1 s and 0\.75 s"),
        (lambda: Scene([0.0], {"hull": hull()}), ShapeError, r"must have shape \(T >= 2,\), got \(1,\)"),
        (
            lambda: Scene(np.linspace(0, 1, 6), {"hull": hull()}),
            ShapeError,
            r"motion of body 'hull' must have shape \(6, \.\.\.\), got \(5,\)",
        ),
        (lambda: Scene(TIMES, {"hull": hull()}, follow="hul"), UnknownNameError, r"Did you mean 'hull'\?"),
        (lambda: Scene(TIMES, {"hull": hull()}, trails={"p": Trail(np.zeros((4, 3)))}), ShapeError, r"trail 'p'"),
        (
            lambda: Scene(TIMES, {"hull": hull()}, arrows={"f": Arrow(np.zeros((4, 3)), np.zeros((4, 3)))}),
            ShapeError,
            r"arrow 'f'",
        ),
        (
            lambda: Scene(TIMES, {"hull": hull(), "rotor": Body([], Spin("hul", np.eye(4), TIMES))}),
            UnknownNameError,
            r"Did you mean 'hull'\?",
        ),
        (
            lambda: Scene(
                TIMES,
                {"h": hull(), "a": Body([], Spin("h", np.eye(4), TIMES)), "b": Body([], Spin("a", np.eye(4), TIMES))},
            ),
            ModelError,
            r"'b' spins on 'a', which spins itself",
        ),
        (lambda: Body([], np.zeros((5, 3, 3))), ShapeError, r"poses of a body must have shape \(T, 4, 4\)"),
        (lambda: Trail(np.zeros((5, 3)), role="paht"), UnknownNameError, r"Did you mean 'path'\?"),
        (lambda: Panel("Thrust", "N", {}), ModelError, r"panel 'Thrust' needs at least one curve"),
        (lambda: Panel("Thrust", "N", {"a": TIMES}, limits=(1, 0)), ModelError, r"must be \(low, high\), got \(1, 0\)"),
        (
            lambda: Panel("Thrust", "N", {"a": TIMES}, references={"b": TIMES}),
            UnknownNameError,
            r"unknown curve of panel 'Thrust' 'b'",
        ),
        (lambda: Panel("Thrust", "N", {"a": [0, np.inf]}), ShapeError, r"curve 'a' of panel 'Thrust' must be finite"),
        (lambda: Table("Numbers", [("a", "1"), ("b",)]), ModelError, r"got \[1, 2\]"),
        (
            lambda: Report("r", "", Scene(TIMES, {"hull": hull()}), [Panel("P", "m", {"a": [1.0, 2.0]})]),
            ShapeError,
            r"curve 'a' of panel 'P' must have shape \(5,\), got \(2,\)\. .* give the panel its own times",
        ),
    ],
)
def test_bad_input_is_rejected(build, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        build()


def test_a_panel_may_have_its_own_times() -> None:
    panel = Panel("P", "m", {"a": [1.0, 2.0]}, times=[0.0, 1.0])
    report = Report("r", "", Scene(TIMES, {"hull": hull()}), [panel])
    np.testing.assert_array_equal(report.panel_times(panel), [0.0, 1.0])


def test_the_camera_follows_the_first_body_that_does_not_spin() -> None:
    rotor = Body([], Spin("hull", np.eye(4), TIMES))
    assert Scene(TIMES, {"rotor": rotor, "hull": hull()}).follow == "hull"
