"""Details of pages that newcomers stumbled over: ticks, units, rounding, speed, bands, numbers, colours, the first picture."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from browser.chromium import Tab, chromium, find_chromium

import heavytop as ht

pytestmark = pytest.mark.browser

READY = "window.heavytop && (heavytop.state.ready || heavytop.state.failed)"


@pytest.fixture(scope="module")
def browser() -> Iterator[Tab]:
    executable = find_chromium()
    if executable is None:
        pytest.fail("no Chromium found; install it (on Debian: apt-get install chromium)")
    with chromium(executable) as tab:
        tab.size(1400, 900)
        tab.media(prefers_color_scheme="dark", prefers_reduced_motion="reduce")
        yield tab


def opened(browser: Tab, run: ht.Run, folder: Path) -> Tab:
    path = Path(str(run.show(folder / "run.html")))
    browser.errors.clear()
    browser.open(path.as_uri(), READY, timeout=120)
    assert browser.evaluate("heavytop.state.failed") is None
    assert browser.errors == []
    return browser


def pendulums(until: float, count: int = 0) -> ht.Run:
    model = ht.library.double_pendulum().derive()
    q = np.array([1.0, 0.5]) + 0.1 * np.linspace(-1, 1, count)[:, None] if count else np.array([1.0, 0.5])
    steps = max(200, round(until / 0.01))
    return ht.simulate(model, (q, np.zeros(2)), until=until, step=until / steps, record_every=steps // 200)


@pytest.mark.parametrize("until", [0.05, 2.0, 8.0, 400.0])
def test_a_replay_takes_5_to_15_seconds(browser: Tab, tmp_path: Path, until: float) -> None:
    tab = opened(browser, pendulums(until), tmp_path)
    speed = tab.evaluate("heavytop.state.speed")
    assert 5.0 <= until / speed <= 15.0
    assert tab.evaluate("Number(document.getElementById('speed').value)") == speed


def test_every_axis_has_two_ticks_and_every_plot_a_unit(browser: Tab, tmp_path: Path) -> None:
    for run in (pendulums(2.0), pendulums(0.05), pendulums(2.0, 20)):
        tab = opened(browser, run, tmp_path)
        for anchor in ("end", "middle"):
            counts = tab.evaluate(
                "[...document.querySelectorAll('svg.plot')]"
                f".map(p => p.querySelectorAll('text.tick[text-anchor={anchor}]').length)"
            )
            assert min(counts) >= 2
        assert all(tab.evaluate("[...document.querySelectorAll('.panel .unit')].map(u => u.textContent)"))


def test_ticks_of_any_range(browser: Tab, tmp_path: Path) -> None:
    tab = opened(browser, pendulums(2.0), tmp_path)
    rng = np.random.default_rng(0)
    for low, width in zip(rng.normal(0, 5, 60), 10 ** rng.uniform(-3, 3, 60), strict=True):
        ticks = tab.evaluate(f"niceTicks({low}, {low + width}, 3.5).ticks")
        assert 2 <= len(ticks) <= 12
        assert low <= ticks[0] < ticks[-1] <= low + width * (1 + 1e-9)


def test_rounding_is_shown_as_zero(browser: Tab, tmp_path: Path) -> None:
    system = ht.System(name="drop")
    system.body("ball", joint=ht.Free(), inertia=ht.Inertia(1.0, moment_at_com=(0.1, 0.1, 0.1)))
    model = system.derive()
    start = model.neutral().copy()
    start[1] = 3e-16
    tab = opened(browser, ht.simulate(model, (start, np.zeros(6)), until=1.0, step=0.01), tmp_path)
    tab.evaluate("heavytop.seek(0.5)")
    shown = tab.evaluate(
        "Object.fromEntries([...document.querySelectorAll('.panel')[0].querySelectorAll('.curve-name')]"
        ".map(b => [b.querySelector('span').textContent, b.querySelector('output').textContent]))"
    )
    assert shown["y"] == "0"
    assert shown["z"].startswith("−1.2")


def test_batches_have_bands_with_the_count_and_numbers_leave_as_csv(browser: Tab, tmp_path: Path) -> None:
    run = pendulums(2.0, 20)
    tab = opened(browser, run, tmp_path)
    assert "trajectory 0 of 20" in tab.evaluate("document.getElementById('subtitle').textContent")
    assert "range of 20 trajectories" in tab.evaluate("document.querySelector('.hint').textContent")
    assert tab.evaluate("document.querySelectorAll('.panel')[0].querySelectorAll('path.range').length") == 2
    text = tab.evaluate(
        "(() => { const made = []; const own = URL.createObjectURL; URL.createObjectURL = b => { made.push(b); return own(b) };"
        " document.querySelector('a.numbers').click(); return made[0].text() })()"
    )
    head, *rows = text.strip().splitlines()
    assert head.startswith('"time in s","theta_1 in rad","least theta_1 in rad"')
    table = np.array([[float(x) for x in row.split(",")] for row in rows])
    np.testing.assert_allclose(table[:, 0], run.t, atol=1e-6)
    np.testing.assert_allclose(table[:, 1], run.q[:, 0, 0], atol=1e-6)
    np.testing.assert_allclose(table[:, 2], run.q[:, :, 0].min(axis=1), atol=1e-6)


def test_the_view_is_hidden_until_it_has_the_colours_of_the_theme(browser: Tab, tmp_path: Path) -> None:
    path = Path(str(pendulums(2.0).show(tmp_path / "run.html")))
    assert 'class="canvas waiting"' in path.read_text(encoding="utf-8")
    tab = opened(browser, pendulums(2.0), tmp_path)
    tab.wait("!document.getElementById('canvas').classList.contains('waiting')")
    color = "heavytop.stage.objects.get('ground:platform')"
    found = tab.evaluate(
        f"(() => {{ let c = null; {color}.traverse(p => {{ if (p.material && p.material.color) c = p.material.color }}); "
        "return [c.r, c.g, c.b] })()"
    )
    assert max(found) < 0.3  # dark, as the palette says


def test_tables_do_not_touch(browser: Tab, tmp_path: Path) -> None:
    for width in (1400, 900, 400):
        browser.size(width, 900)
        tab = opened(browser, pendulums(2.0), tmp_path)
        boxes = tab.evaluate(
            "[...document.querySelectorAll('.table')].map(t => { const b = t.getBoundingClientRect(); return [b.left, b.top, b.right, b.bottom] })"
        )
        assert tab.evaluate("document.documentElement.scrollWidth") <= width
        for k, a in enumerate(boxes):
            for b in boxes[k + 1 :]:
                is_next_to = a[2] + 8 <= b[0] or b[2] + 8 <= a[0]
                below = a[3] + 8 <= b[1] or b[3] + 8 <= a[1]
                assert is_next_to or below
    browser.size(1400, 900)
