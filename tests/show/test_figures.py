"""Figures for papers are vector graphics with real text, equal for equal input."""

from __future__ import annotations

from pathlib import Path

import pytest
from show.demo import looping

from heavytop.errors import ModelError, UnknownNameError
from heavytop.show.figures import curves_figure, path_figure, save_figure


@pytest.fixture(scope="module")
def report():
    return looping(rate=100.0)


def test_curves_are_saved_as_text_and_vectors(tmp_path: Path, report) -> None:
    figure = curves_figure(report, ["Position", "Thrusts"])
    assert len(figure.axes) == 2
    svg = save_figure(figure, tmp_path / "curves.svg").read_text(encoding="utf-8")
    assert ">rotor 4</text>" in svg
    assert "<image" not in svg
    pdf = save_figure(figure, tmp_path / "curves.pdf").read_bytes()
    assert pdf.startswith(b"%PDF")
    assert b"/Subtype /Image" not in pdf


def test_equal_input_gives_equal_files(tmp_path: Path, report) -> None:
    for ending in ("svg", "pdf"):
        files = [
            save_figure(curves_figure(report, ["Thrusts"]), tmp_path / f"{k}.{ending}").read_bytes() for k in (1, 2)
        ]
        assert files[0] == files[1]


def test_curves_differ_without_colour(report) -> None:
    lines = [
        line for line in curves_figure(report, ["Thrusts"]).axes[0].get_lines() if line.get_label().startswith("rotor")
    ]
    assert len({line.get_marker() for line in lines}) == 4


def test_scales_of_the_path_are_equal(tmp_path: Path, report) -> None:
    figure = path_figure(report.scene, pictures=4)
    ax = figure.axes[0]
    spans = [float(abs(b - a)) for a, b in (ax.get_xlim(), ax.get_ylim(), ax.get_zlim())]
    box = ax._box_aspect
    assert [b / box[0] for b in box] == pytest.approx([s / spans[0] for s in spans])
    assert save_figure(figure, tmp_path / "path.pdf").stat().st_size > 1000


def test_bad_requests_say_what_is_wrong(tmp_path: Path, report) -> None:
    with pytest.raises(UnknownNameError, match=r"unknown panel 'Trust'"):
        curves_figure(report, ["Trust"])
    with pytest.raises(ModelError, match=r"'a\.jpg': the name must end in \.pdf, \.svg, \.eps or \.png"):
        save_figure(curves_figure(report), tmp_path / "a.jpg")
