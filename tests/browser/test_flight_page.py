"""Pages of real flights in a real browser: they load without complaint, move, and show what flew."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser.chromium import Tab, chromium, find_chromium

from heavytop.copters import catalogue, fly
from heavytop.show import write_flight

pytestmark = pytest.mark.browser

READY = "window.heavytop && (heavytop.state.ready || heavytop.state.failed)"


@pytest.fixture(scope="module")
def browser() -> Iterator[Tab]:
    executable = find_chromium()
    if executable is None:
        pytest.fail("no Chromium found; install it (on Debian: apt-get install chromium)")
    with chromium(executable) as tab:
        yield tab


@pytest.mark.parametrize(
    ("vehicle", "maneuver"),
    [
        ("quadcopter", "looping"),
        ("tricopter", "hover-roll"),
        ("tricopter", "level-loop"),
        ("bicopter", "eight"),
        ("quadcopter-with-load", "transport"),
        ("tricopter-with-load-full", "transport"),
    ],
)
def test_flight_page(browser: Tab, vehicle: str, maneuver: str, tmp_path: Path) -> None:
    page = write_flight(fly(catalogue.load(vehicle), maneuver), tmp_path / "flight.html")
    browser.size(1400, 900)
    browser.errors.clear()
    browser.requests.clear()
    browser.open(page.as_uri(), READY, timeout=120)
    assert browser.evaluate("heavytop.state.failed") is None
    before = browser.evaluate("heavytop.state.time")
    browser.wait(f"heavytop.state.time > {before} + 0.05", timeout=60)
    browser.evaluate("heavytop.play(false)")
    browser.evaluate("heavytop.seek(2.0)")
    assert browser.evaluate("heavytop.state.time") == pytest.approx(2.0, abs=0.05)
    folder = Path(os.environ.get("HEAVYTOP_SCREENSHOTS", tmp_path))
    assert browser.picture(folder / f"{vehicle}-{maneuver}.png").stat().st_size > 20_000
    assert browser.errors == []
    assert all(url.startswith(("file:", "data:", "blob:")) for url in browser.requests)
