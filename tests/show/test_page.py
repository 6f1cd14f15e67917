"""The page is one file, small, safe, complete and written atomically."""

from __future__ import annotations

import base64
import json
import re
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from show.demo import looping

from heavytop.errors import FileFormatError
from heavytop.geometry.quaternion import rotation_from_quaternion
from heavytop.show import Body, Report, Scene, Spin, Table, Trail, page as page_module, palette, write_page
from heavytop.show.airframes import airframe
from heavytop.show.meshes import propeller
from heavytop.show.pack import FRAME_BYTES, pack_report
from heavytop.show.page import SIZE_LIMIT, page
from heavytop.show.viewer import extent_of, grid_spacing, platform_radius, scene_meshes


@pytest.fixture(scope="module")
def report() -> Report:
    return looping(load=True)


@pytest.fixture(scope="module")
def text(report: Report) -> str:
    return page(report)


def part(text: str, name: str) -> str:
    match = re.search(rf'<script type="[a-z/]+" id="{name}">(.*?)</script>', text, re.DOTALL)
    assert match is not None
    return match[1]


def test_an_ordinary_page_is_below_two_megabytes(text: str) -> None:
    assert len(text.encode()) < 2_000_000


def test_the_page_carries_its_data(text: str, report: Report) -> None:
    document = json.loads(part(text, "document"))
    block = np.frombuffer(zlib.decompress(base64.b64decode(part(text, "block"))), "<f4")
    assert document["title"] == report.title
    frames = document["scene"]["frames"]
    at = np.linspace(frames["first"], frames["last"], frames["count"])
    place = document["scene"]["bodies"][0]["data"]
    data = block[place["start"] : place["start"] + place["size"]].reshape(-1, 7)
    poses = report.scene.bodies["hull"].motion
    assert isinstance(poses, np.ndarray)
    nearest = np.searchsorted(report.scene.times, at).clip(0, len(poses) - 1)
    np.testing.assert_allclose(data[:, 4:], poses[nearest, :3, 3], atol=0.02)
    np.testing.assert_allclose(rotation_from_quaternion(data[:, :4].astype(float)), poses[nearest, :3, :3], atol=0.03)
    panel = document["panels"][3]
    place = panel["series"][3]["data"]
    values = block[place["start"] : place["start"] + place["size"]]
    assert values.max() == pytest.approx(report.panels[3].series["rotor 4"].max())
    assert panel["limits"] == [0.0, 9.0]


def test_the_page_makes_no_requests_and_forbids_them(text: str) -> None:
    own = re.sub(r'<script type="[a-z/]+" id="\w+">.*?</script>', "", text, flags=re.DOTALL)
    addresses = set(re.findall(r"https?://[^\s\"'<>]+", own))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name space, not a request
    assert "default-src 'none'" in own
    assert not re.search(r"<(link|img|iframe)\b|@import|\bsrc=", own)


@pytest.mark.thorough
def test_text_is_escaped(report: Report) -> None:
    nasty = '</script><script>alert(1)</script>\u2028 & "x" ${y}'
    text = page(replace(report, title=nasty, notes=(nasty,), tables=(Table(nasty, [(nasty, nasty)]),)))
    assert "<script>alert" not in text
    assert json.loads(part(text, "document"))["notes"] == [nasty]


def test_every_placeholder_of_the_template_is_filled(text: str) -> None:
    assert not re.search(r"\$(title|style|script|document|block|snapshot|viewer)\b", text)
    assert text.count("<script") == 5


def eight_rotors_for_a_minute() -> Report:
    t = np.linspace(0, 60, 60_001)
    poses = np.tile(np.eye(4), (len(t), 1, 1))
    poses[:, :3, 3] = np.stack([np.cos(t), np.sin(2 * t), 2 + np.sin(0.3 * t)], axis=-1)
    angles = 2 * np.pi * np.arange(8) / 8
    tips = 0.4 * np.stack([np.cos(angles), np.sin(angles), 0 * angles], axis=-1)
    bodies = {"hull": Body(airframe(tips, 0.12), poses)}
    for k in range(8):
        bodies[f"arm {k}"] = Body([propeller(0.12)], poses)
        bodies[f"rotor {k}"] = Body([propeller(0.12)], Spin("hull", np.eye(4), 500.0 * t))
    scene = Scene(t, bodies, ghosts={"hull": bodies["hull"]}, trails={"path": Trail(poses[:, :3, 3])})
    base = looping()
    many = [
        replace(p, series={n: np.resize(v, len(t)) for n, v in p.series.items()}, references={})
        for p in base.panels * 2
    ]
    return replace(base, scene=scene, panels=many)


@pytest.mark.thorough
def test_a_long_flight_with_many_bodies_stays_below_the_limit() -> None:
    report = eight_rotors_for_a_minute()
    document, block = pack_report(report)
    assert len(block) < 1.1 * FRAME_BYTES + 10 * 8 * 1600 * 4
    assert document["scene"]["frames"]["count"] / 60 > 10
    assert len(page(report).encode()) < SIZE_LIMIT


def test_a_page_ends_as_browsers_expect(tmp_path: Path, report: Report) -> None:
    other = tmp_path / "run.nc"
    other.write_text("mine")
    for path in (tmp_path / "x", other):
        with pytest.raises(FileFormatError, match=r"\.html or \.htm"):
            write_page(report, path)
    assert [p.name for p in tmp_path.iterdir()] == ["run.nc"]
    assert other.read_text() == "mine"
    assert write_page(report, tmp_path / "x.HTM").exists()


@pytest.mark.thorough
def test_writing_is_all_or_nothing(tmp_path: Path, report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "flight.html"
    target.write_text("old")
    monkeypatch.setattr(page_module, "SIZE_LIMIT", 1000)
    with pytest.raises(FileFormatError, match=r"\d\.\d MB, the limit is 0 MB"):
        write_page(report, target)
    assert target.read_text() == "old"
    monkeypatch.undo()

    def full_disc(*_: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", full_disc)
        with pytest.raises(FileFormatError, match="no space left"):
            write_page(report, target)
    assert [p.name for p in tmp_path.iterdir()] == ["flight.html"]
    assert target.read_text() == "old"
    assert write_page(report, target) == target
    assert target.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert [p.name for p in tmp_path.iterdir()] == ["flight.html"]


def test_a_missing_folder_is_named(tmp_path: Path, report: Report) -> None:
    with pytest.raises(FileFormatError, match=r"nowhere"):
        write_page(report, tmp_path / "nowhere" / "flight.html")


def test_the_camera_looks_across_the_plane_of_the_loop(report: Report) -> None:
    extent = extent_of(report.scene)
    # the loop is in the x-z plane: seen from -y, 24 degrees to the side
    assert np.degrees(extent.azimuth) == pytest.approx(-90 + 24, abs=6)
    path = report.scene.trails["path"].points
    assert np.max(np.linalg.norm(path - extent.center, axis=-1)) < extent.radius


def test_every_object_has_its_meshes(report: Report) -> None:
    names = set(scene_meshes(report.scene))
    assert {
        "body:hull:body",
        "body:load:load",
        "blur:propeller 1:blur",
        "shadow:hull:shadow",
        "ghost:hull:ghost",
    } <= names
    assert {
        "trail:path",
        "trail:reference",
        "arrow:thrust 1:shaft",
        "arrow:thrust 1:head",
        "ground:grid",
        "ground:axis",
    } <= names
    assert not any(name.startswith("ground") for name in scene_meshes(replace(report.scene, ground=None)))


def test_the_ground_is_a_round_number_of_cells(report: Report) -> None:
    radius = platform_radius(extent_of(report.scene))
    cells = radius / grid_spacing(radius)
    assert cells == pytest.approx(round(cells))
    assert 4 <= cells <= 13


def luminance(color: str) -> float:
    channel = np.array([int(color[k : k + 2], 16) / 255 for k in (1, 3, 5)])
    linear = np.where(channel <= 0.04045, channel / 12.92, ((channel + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


@pytest.mark.parametrize(("colors", "ground"), [(palette.SERIES_LIGHT, "#ffffff"), (palette.SERIES_DARK, "#161c22")])
def test_curves_stand_out_from_the_ground(colors: tuple[str, ...], ground: str) -> None:
    for color in colors:
        low, high = sorted((luminance(color), luminance(ground)))
        assert (high + 0.05) / (low + 0.05) >= 3.0, color


def test_every_curve_has_its_own_mark() -> None:
    assert len(set(palette.MARKS)) == len(palette.MARKS) == len(palette.SERIES_LIGHT) == len(palette.SERIES_DARK)
