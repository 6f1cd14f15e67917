"""The report page in a real browser: it moves, scrubs, follows, makes no requests and logs no errors.

Screenshots are kept in the folder named by HEAVYTOP_SCREENSHOTS, if it is set.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from browser.chromium import Tab, chromium, find_chromium
from show.demo import looping

from heavytop.show import Report, write_page

pytestmark = pytest.mark.browser

READY = "window.heavytop && (heavytop.state.ready || heavytop.state.failed)"
DESKTOP = (1400, 900)
PHONE = (390, 844)


@pytest.fixture(scope="module")
def report() -> Report:
    return looping(load=True)


@pytest.fixture(scope="module")
def address(report: Report, tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_page(report, tmp_path_factory.mktemp("page") / "looping with load.html").as_uri()


@pytest.fixture(scope="module")
def browser() -> Iterator[Tab]:
    executable = find_chromium()
    if executable is None:
        pytest.fail("no Chromium found; install it (on Debian: apt-get install chromium)")
    with chromium(executable) as tab:
        yield tab


@pytest.fixture
def tab(browser: Tab, address: str) -> Tab:
    """The page, freshly loaded on a desktop and playing."""
    browser.size(*DESKTOP)
    browser.media(prefers_color_scheme="light", prefers_reduced_motion="no-preference")
    browser.errors.clear()
    browser.requests.clear()
    browser.open(address, READY, timeout=120)
    assert browser.evaluate("heavytop.state.failed") is None
    return browser


def picture_folder(tmp_path: Path) -> Path:
    folder = Path(os.environ.get("HEAVYTOP_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def pause_at(tab: Tab, t: float) -> None:
    tab.evaluate(f"heavytop.play(false); heavytop.seek({t})")
    # two frames: one for the drawing, one for the screen
    tab.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


def view_pixels(tab: Tab) -> list[int]:
    """Red, green, blue, alpha of the 3-D view, every seventh pixel."""
    return tab.evaluate(
        """(() => { const gl = heavytop.stage.world.renderer.getContext();
        const all = new Uint8Array(gl.drawingBufferWidth * gl.drawingBufferHeight * 4);
        gl.readPixels(0, 0, gl.drawingBufferWidth, gl.drawingBufferHeight, gl.RGBA, gl.UNSIGNED_BYTE, all);
        const some = []; for (let i = 0; i < all.length; i += 28) some.push(all[i], all[i + 1], all[i + 2], all[i + 3]);
        return some; })()"""
    )


def test_it_plays_by_itself_without_errors_or_requests(tab: Tab) -> None:
    before = tab.evaluate("heavytop.state.time")
    tab.wait(f"heavytop.state.time > {before} + 0.05", timeout=60)
    first = tab.evaluate("heavytop.stage.bodies[0].matrix")
    tab.wait(f"heavytop.state.time > {before} + 0.9", timeout=60)
    assert tab.evaluate("heavytop.stage.bodies[0].matrix") != first
    assert tab.evaluate("document.getElementById('play').getAttribute('aria-label')") == "Pause"
    assert tab.errors == []
    assert [url for url in tab.requests if not url.startswith(("file:", "blob:", "data:"))] == []
    assert len([url for url in tab.requests if url.startswith("file:")]) == 1


def test_the_page_shows_the_text_of_the_report(tab: Tab, report: Report) -> None:
    assert tab.evaluate("document.title") == report.title
    shown = tab.evaluate("document.body.innerText")
    for text in (
        report.subtitle,
        *report.notes,
        *(v for _, v in report.highlights),
        *(c for t in report.tables for r in t.rows for c in r),
    ):
        assert text in shown


def test_bodies_have_the_poses_of_the_report(tab: Tab, report: Report) -> None:
    poses = report.scene.bodies["hull"].motion
    assert isinstance(poses, np.ndarray)
    for k in (0, 613, 1404, 2000):
        pause_at(tab, float(report.scene.times[k]))
        matrix = np.array(tab.evaluate("heavytop.stage.bodies[0].matrix")).reshape(4, 4).T
        np.testing.assert_allclose(matrix, poses[k], atol=4e-3)  # frames at 60 Hz, samples at 400 Hz
        drawn = tab.evaluate("Array.from(heavytop.stage.objects.get('body:hull:body').matrixWorld.elements)")
        np.testing.assert_allclose(np.array(drawn).reshape(4, 4).T, matrix, atol=1e-5)


def test_propellers_turn_in_their_sense_at_any_speed(tab: Tab) -> None:
    tab.evaluate("heavytop.play(false); heavytop.seek(1)")
    # from one picture to the next, at full speed (five turns a picture) and in slow motion (a fraction of a turn)
    step = """((from, dt) => { const angle = () => ["propeller 1", "propeller 2"].map((n) => heavytop.stage.turned.get(n).shown);
        heavytop.stage.setTime(from, 1 / 60); const a = angle();
        heavytop.stage.setTime(from + dt, 1 / 60); const b = angle();
        return [b[0] - a[0], b[1] - a[1], heavytop.stage.objects.get('blur:propeller 1:blur').visible]; })"""
    first, second, blurred = tab.evaluate(f"{step}(1.0, 1 / 60)")
    assert 0 < first < 1
    assert -1 < second < 0
    assert blurred is True
    for k in range(8):
        first, second, blurred = tab.evaluate(f"{step}({1.05 + k * 1e-3}, 5e-4)")
    # 210 sqrt(2.45) rad/s during half a millisecond
    assert first == pytest.approx(0.165, rel=0.1)
    assert second == pytest.approx(-0.165, rel=0.1)
    assert blurred is False


def test_the_slider_the_keys_and_the_plots_set_the_time(tab: Tab) -> None:
    tab.evaluate("const s = document.getElementById('time'); s.value = 3.2; s.dispatchEvent(new Event('input')); 0")
    assert tab.evaluate("[heavytop.state.time, heavytop.state.playing]") == [3.2, False]
    assert tab.evaluate("document.getElementById('clock').textContent") == "3.20 s"
    tab.key("ArrowLeft", 37)
    assert tab.evaluate("heavytop.state.time") == pytest.approx(3.15)
    tab.key("End", 35)
    assert tab.evaluate("heavytop.state.time") == pytest.approx(5.0)
    tab.key("Home", 36)
    assert tab.evaluate("heavytop.state.time") == 0
    tab.key(" ", 32)
    tab.wait("heavytop.state.playing && heavytop.state.time > 0")
    tab.key(" ", 32)
    assert tab.evaluate("heavytop.state.playing") is False
    x, y, width, height = tab.evaluate(
        "(() => { const b = document.querySelector('.plot').getBoundingClientRect(); return [b.x, b.y, b.width, b.height]; })()"
    )
    for kind, buttons in (("mousePressed", 1), ("mouseReleased", 0)):
        tab.mouse(kind, x + width / 2, y + height / 2, "left", buttons)
    assert 1.5 < tab.evaluate("heavytop.state.time") < 3.5


def test_plots_are_drawn_and_read_out(tab: Tab, report: Report) -> None:
    pause_at(tab, 2.0)
    panels = tab.evaluate(
        """[...document.querySelectorAll('.panel')].map((p) => [p.querySelector('h2').firstChild.textContent,
        p.querySelectorAll('path.curve:not(.wanted)').length, p.querySelectorAll('path.wanted').length,
        [...p.querySelectorAll('output')].map((o) => Number(o.textContent.replace('−', '-')))])"""
    )
    assert [p[0] for p in panels] == [panel.title for panel in report.panels]
    k = int(np.searchsorted(report.scene.times, 2.0))
    for shown, panel in zip(panels, report.panels, strict=True):
        assert shown[1:3] == [len(panel.series), len(panel.references)]
        assert shown[3] == pytest.approx([float(v[k]) for v in panel.series.values()], rel=0.02, abs=0.02)
    lefts = tab.evaluate(
        "heavytop.stage && [...document.querySelectorAll('.plot clipPath rect')].map((r) => r.getAttribute('x'))"
    )
    assert len(set(lefts)) == 1  # the same time is at the same place in every plot
    first = "document.querySelector('.curve-name')"
    tab.evaluate(f"{first}.click()")
    assert tab.evaluate("document.querySelector('.panel').querySelectorAll('path.curve:not(.wanted)').length") == 2
    assert tab.evaluate(f"{first}.getAttribute('aria-pressed')") == "false"


def test_the_camera_follows_and_fits(tab: Tab) -> None:
    pause_at(tab, 0.0)
    inside = """(() => { const { camera } = heavytop.stage.world; const V = camera.position.constructor; let worst = 0;
        for (let t = 0; t <= 5; t += 0.1) { heavytop.seek(t); const m = heavytop.stage.bodies[0].matrix;
        const p = new V(m[12], m[13], m[14]).project(camera); worst = Math.max(worst, Math.abs(p.x), Math.abs(p.y)); } return worst; })()"""
    assert 0.4 < tab.evaluate(inside) < 1.0  # overview: always in the picture, and not tiny
    tab.evaluate("heavytop.seek(1); heavytop.camera('follow')")
    offset = """(() => { const m = heavytop.stage.bodies[0].matrix, p = heavytop.stage.world.camera.position;
        return [p.x - m[12], p.y - m[13], p.z - m[14]]; })()"""
    before = tab.evaluate(offset)
    tab.evaluate("heavytop.seek(2.6)")
    assert tab.evaluate(offset) == pytest.approx(before, abs=1e-6)
    assert tab.evaluate("document.getElementById('camera').value") == "follow"


def test_dragging_turns_the_view_and_frees_the_camera(tab: Tab) -> None:
    pause_at(tab, 1.0)
    before = tab.evaluate("heavytop.stage.world.camera.position.toArray()")
    tab.mouse("mousePressed", 500, 450, "left", 1)
    for k in range(1, 6):
        tab.mouse("mouseMoved", 500 + 20 * k, 450, "left", 1)
    tab.mouse("mouseReleased", 600, 450, "left", 0)
    tab.wait(f"Math.abs(heavytop.stage.world.camera.position.x - ({before[0]})) > 0.1")
    assert tab.evaluate("document.getElementById('camera').value") == "free"


def test_toggles_change_the_picture(tab: Tab) -> None:
    pause_at(tab, 1.9)
    full = np.array(view_pixels(tab)).reshape(-1, 4)
    orange = int(np.sum((full[:, 0] > 180) & (full[:, 1] > 60) & (full[:, 1] < 140) & (full[:, 2] < 60)))
    assert orange > 10
    assert np.mean(full[:, 3] > 0) > 0.2  # ground and bodies cover a good part, the rest is clear
    for what in ("arrows", "ghosts", "trails"):
        tab.evaluate(f"document.getElementById('show-{what}').click()")
    pause_at(tab, 1.9)
    bare = np.array(view_pixels(tab)).reshape(-1, 4)
    assert np.sum((bare[:, 0] > 180) & (bare[:, 1] > 60) & (bare[:, 1] < 140) & (bare[:, 2] < 60)) < orange / 2
    assert tab.evaluate("heavytop.stage.trails.every((t) => !t.object.visible)")


def test_reduced_motion_is_respected(tab: Tab, address: str) -> None:
    tab.media(prefers_reduced_motion="reduce")
    tab.open(address, READY, timeout=120)
    time.sleep(0.5)
    assert tab.evaluate("[heavytop.state.playing, heavytop.state.time]") == [False, 0]


def test_without_webgl_the_plots_and_numbers_remain(tab: Tab, address: str) -> None:
    script = """const get = HTMLCanvasElement.prototype.getContext;
        HTMLCanvasElement.prototype.getContext = function (kind, ...rest) {
            return /webgl/.test(kind) ? null : get.call(this, kind, ...rest); };"""
    number = tab.call("Page.addScriptToEvaluateOnNewDocument", source=script)["identifier"]
    try:
        tab.open(address, READY)
        assert "no WebGL 2" in tab.evaluate("document.getElementById('message').textContent")
        assert tab.evaluate("document.querySelectorAll('path.curve').length") > 5
        tab.evaluate("heavytop.seek(2)")
        assert tab.evaluate("document.getElementById('clock').textContent") == "2.00 s"
        assert tab.errors == []
    finally:
        tab.call("Page.removeScriptToEvaluateOnNewDocument", identifier=number)


def test_it_fits_a_phone(tab: Tab, tmp_path: Path) -> None:
    tab.size(*PHONE, scale=2, mobile=True)
    tab.evaluate("heavytop.camera('overview')")
    pause_at(tab, 1.9)
    assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE[0]
    assert tab.evaluate(
        "document.querySelector('.panels').getBoundingClientRect().top > document.querySelector('.show').getBoundingClientRect().bottom - 1"
    )
    small = tab.evaluate(
        "[...document.querySelectorAll('.transport button, .transport select')].filter((b) => !b.hidden && b.offsetHeight < 34).length"
    )
    assert small == 0
    folder = picture_folder(tmp_path)
    assert tab.picture(folder / "phone.png").stat().st_size > 20_000
    tab.picture(folder / "phone-whole.png", whole=True)


def test_pictures_of_the_desktop(tab: Tab, tmp_path: Path) -> None:
    folder = picture_folder(tmp_path)
    pause_at(tab, 1.9)
    assert tab.picture(folder / "desktop.png").stat().st_size > 40_000
    light = view_pixels(tab)
    tab.evaluate("heavytop.camera('follow'); document.getElementById('show-labels').click()")
    pause_at(tab, 1.9)
    assert tab.evaluate("[...document.querySelectorAll('.tag-force')].filter((n) => !n.hidden).length") > 0
    tab.picture(folder / "follow.png")
    tab.evaluate("heavytop.camera('overview')")
    tab.media(prefers_color_scheme="dark")
    pause_at(tab, 1.9)
    tab.picture(folder / "dark.png")
    dark = np.array(view_pixels(tab)).reshape(-1, 4)
    assert dark[dark[:, 3] > 250, :3].mean() < np.array(light).reshape(-1, 4)[:, :3].mean()
    tab.call("Emulation.setEmulatedMedia", media="print", features=[])
    tab.picture(folder / "print.png", whole=True)
    tab.call("Emulation.setEmulatedMedia", media="", features=[])
