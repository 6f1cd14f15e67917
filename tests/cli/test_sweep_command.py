"""``heavytop sweep``: studies as files, checked with file and line; status, dry run, resuming."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import heavytop as ht
from heavytop.cli import app
from heavytop.errors import FileFormatError

pytest.importorskip("zarr")

STUDY = """\
title = "swings"
system = "pendulum"
draws = 3

[options]
until = 0.2
step = 0.01

[over]
g = { from = 1.0, to = 10.0, count = 4 }
"theta.angle" = { normal = [0.5, 0.1] }

[measure]
angle = "theta.angle"
speed = { of = "theta.rate", take = "largest" }
"""


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["sweep", *map(str, arguments)])
    return result.exit_code, result.output + (result.stderr if result.stderr_bytes else "")


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "study.toml"
    names = ht.library.load("pendulum").derive()
    path.write_text(STUDY.replace("theta.angle", names.q_names[0]).replace("theta.rate", names.v_names[0]))
    return path


@pytest.mark.thorough
def test_run_status_and_again(study: Path, tmp_path: Path) -> None:
    store = tmp_path / "study.zarr"
    code, text = run(study, "--store", store, "--page", tmp_path / "study.html")
    assert code == 0, text
    assert "12 points" in text
    assert "finished: 12" in text
    assert (tmp_path / "study.html").stat().st_size > 10_000
    code, text = run("status", store)
    assert code == 0
    assert "chunks are done" in text
    assert "seed = 0" in text
    assert run(study, "--store", store, "--resume")[0] == 0
    data = ht.sweep.open_result(store).data
    assert data.angle.dims == ("g", "draw")
    assert data.g.values.tolist() == [1, 4, 7, 10]
    assert np.all(data.speed.values > 0)


@pytest.mark.thorough
def test_everything_as_json(study: Path, tmp_path: Path) -> None:
    store, page = tmp_path / "study.zarr", tmp_path / "study.html"

    def read(*arguments: object) -> dict:
        result = CliRunner().invoke(app, ["sweep", *map(str, arguments), "--json"])
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    assert read(study, "--dry-run")["points"] == 12
    assert "12 points, 4 g x 3 draws" in run(study, "--dry-run")[1]
    made = read(study, "--store", store, "--page", page)
    assert (made["points"], made["dimensions"], made["outcomes"]) == (12, {"g": 4, "draw": 3}, {"finished": 12})
    assert made["measures"]["speed"]["unit"] == "rad/s"
    assert (made["store"], made["page"]) == (str(store), str(page))
    status = read("status", store)
    assert status["chunks"]["done"] == status["chunks"]["all"] > 0
    assert status["measures"] == made["measures"]
    assert read("show", store, "--page", page)["page"] == str(page)
    again = read("rerun", store, "--study", study, "--point", "g=6.6", "--point", "draw=2")
    assert again["outcome"]["ok"]
    assert again["point"]["g"] == 7.0  # the nearest one, that which was run
    assert "quadcopter" in read("--list")["vehicles"]


def test_a_median_of_a_sample_says_so(study: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert "median (of a sample)" not in run(study)[1]
    monkeypatch.setattr("heavytop.sweep.SAMPLE", 11)
    assert "median (of a sample)" in run(study)[1]


def test_dry_run_computes_nothing(study: Path, tmp_path: Path) -> None:
    code, text = run(study, "--dry-run", "--store", tmp_path / "x.zarr")
    assert code == 0, text
    assert "12 points" in text
    assert "speed [rad/s]" in text
    assert not (tmp_path / "x.zarr").exists()


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        ("", ()),
        ("status", ("store",)),
        ("STUDY --resume", ("--resume", "--store")),
        ("STUDY --workers 2 --scheduler tcp://x:1", ("--workers", "--scheduler")),
        ("status FOLDER", ("not the store of a sweep",)),
        ("show FOLDER/none.zarr", ("none.zarr",)),
        ("STUDY --page x.png", ("--page", ".html")),
        ("FOLDER/none.toml", ("none.toml",)),
        ("statsu FOLDER/x.zarr", ("'statsu'", "'status'")),
        ("STUDY FOLDER/x.zarr", ("--store",)),
        ("STUDY --runs 2", ("--runs", "--page")),
        ("STUDY --study STUDY", ("--study",)),
        ("status FOLDER --point g=1", ("--point", "rerun")),
        ("status FOLDER --page x.html", ("--page",)),
        ("show FOLDER --workers 2", ("--workers",)),
    ],
)
def test_misuse(study: Path, tmp_path: Path, arguments: str, names: tuple[str, ...]) -> None:
    code, text = run(*arguments.replace("STUDY", str(study)).replace("FOLDER", str(tmp_path)).split())
    assert code == 2
    assert all(name in text for name in names), text
    assert not (tmp_path / "x.zarr").exists()


def test_points_outside_of_the_study_are_rejected(study: Path, tmp_path: Path) -> None:
    store = tmp_path / "study.zarr"
    assert run(study, "--store", store)[0] == 0
    for point in ("g=300", "g=nan", "g=high", "mass=1"):
        assert run("rerun", store, "--study", study, "--point", point)[0] == 2


def test_a_point_is_run_again(study: Path, tmp_path: Path) -> None:
    store = tmp_path / "study.zarr"
    assert run(study, "--store", store)[0] == 0
    code, text = run("rerun", store, "--study", study, "--point", "g=7.0", "--point", "draw=2")
    assert code == 0, text
    assert "0.2 s" in text


@pytest.mark.parametrize(
    ("change", "line", "message"),
    [
        (("draws = 3", "draw = 3"), 3, "'draw'.*'draws'"),
        (("draws = 3", "draws = 0"), 3, "'draws'.* 0"),
        (('system = "pendulum"', 'system = "pendulm"'), 2, "'pendulm'"),
        (("step = 0.01", "stp = 0.01"), 7, "'stp'.*'step'"),
        (("count = 4", "count = 0"), 10, "range"),
        (("count = 4", "count = 2.5"), 10, "count.*2.5"),
        (("count = 4", "count = 1000000000000"), 10, "count.*100000000"),
        (("g = {", "gravity = {"), 10, "gravity"),
        (("normal = [0.5, 0.1]", "normal = [0.5, -0.1]"), 11, "-0.1"),
        (("normal = [0.5, 0.1]", "normal = [0.5, 0.1], lgo = true"), 11, "theta.angle"),
        (('take = "largest"', 'take = "biggest"'), 15, "largest.*'biggest'"),
        (("[over]", "[over"), None, "TOML"),
    ],
)
def test_mistakes_are_reported_with_file_and_line(
    study: Path, change: tuple[str, str], line: int | None, message: str
) -> None:
    text = study.read_text()
    assert change[0] in text
    with pytest.raises(FileFormatError, match=message) as error:
        ht.sweep.read_study(text.replace(*change), "study.toml")
    assert str(error.value).startswith("study.toml" if line is None else f"study.toml, line {line}:"), error.value


def test_values_that_fail_are_reported_with_file_and_line(study: Path) -> None:
    """The line is that of the first name in the message."""
    text = study.read_text().replace("step = 0.01", 'step = 0.01\nintegrator = "rkmk9"')
    with pytest.raises(FileFormatError, match=r"study\.toml, line 8: .*rkmk9"):
        ht.sweep.read_study(text, "study.toml").check()
    with pytest.raises(FileFormatError, match=r"step .* 0"):
        ht.sweep.read_study(study.read_text().replace("step = 0.01", "step = 0"), "study.toml").check()
    two = study.read_text().replace("g = {", 'l = [1.0]\n"thta.angle" = {')
    with pytest.raises(FileFormatError, match=r"study\.toml, line 11: unknown .*thta"):
        ht.sweep.read_study(two, "study.toml")
