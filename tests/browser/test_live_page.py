"""Live pages in a real browser, from file://: they simulate as native code does, can be pulled, changed and shared, and fetch nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser.chromium import Tab, chromium, find_chromium
from browser.test_report_page import picture_folder
from show.live_node import SYSTEMS, difference, library_run

import heavytop as ht
from heavytop.copters import fly, quadcopter

pytestmark = pytest.mark.browser

READY = "window.heavytop && (heavytop.state.ready || heavytop.state.failed)"
DESKTOP, PHONE = (1400, 900), (400, 860)
STILL = {"prefers_reduced_motion": "reduce"}


@pytest.fixture(scope="module")
def browser() -> Iterator[Tab]:
    executable = find_chromium()
    if executable is None:
        pytest.fail("no Chromium found; install it (on Debian: apt-get install chromium)")
    with chromium(executable) as tab:
        yield tab


@pytest.fixture(scope="module")
def run() -> ht.Run:
    model = ht.library.double_pendulum().derive()
    return ht.simulate(model, ([0.5, 0.3], [0.0, 0.2]), until=1.0, step=1e-3)


@pytest.fixture(scope="module")
def address(run: ht.Run, tmp_path_factory: pytest.TempPathFactory) -> str:
    page: Any = run.show(tmp_path_factory.mktemp("live") / "double pendulum.html", live=True)
    return page.as_uri()


def opened(tab: Tab, address: str, size: tuple[int, int] = DESKTOP, scheme: str = "light", still: bool = True) -> Tab:
    tab.size(*size, mobile=size == PHONE)
    tab.media(prefers_color_scheme=scheme, prefers_reduced_motion="reduce" if still else "no-preference")
    tab.errors.clear()
    tab.requests.clear()
    tab.open("about:blank")
    tab.open(address, READY, timeout=120)
    assert tab.evaluate("heavytop.state.failed") is None
    return tab


def on_screen(tab: Tab, body: str, share: float = 1.0) -> tuple[float, float]:
    """Where the centre of mass of a body is, or a point on the way to it."""
    center = f"""(() => {{ const {{ stage, motion }} = heavytop, live = motion.live;
        const path = live.paths.find((p) => p.name === "path of {body}"), m = heavytop.poses()[path.frame];
        const c = path.center.map((x) => {share} * x), V = stage.world.camera.position.constructor;
        const p = new V(...[0, 1, 2].map((i) => m[i] * c[0] + m[4 + i] * c[1] + m[8 + i] * c[2] + m[12 + i])).project(stage.world.camera);
        const box = stage.host.getBoundingClientRect();
        return [box.left + ((p.x + 1) / 2) * box.width, box.top + ((1 - p.y) / 2) * box.height]; }})()"""
    x, y = tab.evaluate(center)
    return x, y


def test_same_numbers_as_native_code(browser: Tab, run: ht.Run, address: str) -> None:
    tab = opened(browser, address)
    assert not tab.evaluate("heavytop.state.playing"), "reduced motion"
    state = tab.evaluate("(heavytop.motion.advance(1000, 1000), [...heavytop.motion.q, ...heavytop.motion.v])")
    assert state == pytest.approx([*run.q[-1], *run.v[-1]], rel=1e-12, abs=1e-12)
    assert tab.errors == []
    assert [url for url in tab.requests if not url.startswith(("file:", "blob:", "data:", "about:"))] == []


def test_every_system_of_the_library_as_native_code(browser: Tab, tmp_path: Path) -> None:
    """All steps of a run in Chromium, from file://, to 1e-12 of the largest numbers of the motion."""
    for name in SYSTEMS:
        run = library_run(name)
        page: Any = run.show(tmp_path / f"{name.replace(':', ' ')}.html", live=True)
        tab, steps = opened(browser, page.as_uri()), len(run.t) - 1
        q, v = tab.evaluate(
            f"(heavytop.motion.advance({steps}, {steps}), [[...heavytop.motion.q], [...heavytop.motion.v]])"
        )
        assert difference({"q": np.array(q), "v": np.array(v)}, run) < 1e-12, name
        assert tab.evaluate("heavytop.motion.problem") is None, name
        assert tab.errors == [], name


def test_runs_steps_and_restarts(browser: Tab, address: str) -> None:
    tab = opened(browser, address, still=False)
    tab.wait("heavytop.state.frames > 5 && heavytop.motion.time > 0.05")
    tab.key(" ", 32)
    assert not tab.evaluate("heavytop.state.playing")
    before = tab.evaluate("heavytop.motion.time")
    tab.key("ArrowRight", 39)
    assert tab.evaluate("heavytop.motion.time") > before
    tab.evaluate("document.getElementById('restart').click()")
    assert tab.evaluate("heavytop.motion.time") == 0
    tab.evaluate("document.getElementById('faster').click()")
    assert tab.evaluate("document.getElementById('speed').textContent") == "2×"
    assert tab.errors == []


def test_one_slider_changes_the_motion(browser: Tab, address: str) -> None:
    """One action of the reader: the pendulum is longer, in the picture and in the motion."""
    tab = opened(browser, address)
    before = on_screen(tab, "lower")
    x, y, width = tab.evaluate(
        "(() => { const b = heavytop.settings.find((n) => n.name === 'l_1').box.getBoundingClientRect(); "
        "return [b.left, b.top + b.height / 2, b.width]; })()"
    )
    tab.mouse("mousePressed", x + 0.75 * width, y, button="left", buttons=1)
    tab.mouse("mouseReleased", x + 0.75 * width, y, button="left")
    value = tab.evaluate("heavytop.motion.p[heavytop.settings.find((n) => n.name === 'l_1').index]")
    assert value > 1.5
    assert np.linalg.norm(np.subtract(on_screen(tab, "lower"), before)) > 10
    length = tab.evaluate(
        "(() => { const [a, b] = [1, 2].map((k) => heavytop.poses()[k]); "
        "return Math.hypot(...[12, 13, 14].map((i) => a[i] - b[i])); })()"
    )
    assert length == pytest.approx(value)
    assert "p2" in json.loads(tab.evaluate("decodeURIComponent(location.hash.slice(1))"))


def test_pull_with_the_mouse(browser: Tab, address: str) -> None:
    tab = opened(browser, address)
    x, y = on_screen(tab, "lower", 0.6)
    tab.mouse("mouseMoved", x, y)
    tab.mouse("mousePressed", x, y, button="left", buttons=1)
    tab.mouse("mouseMoved", x + 150, y - 160, button="left", buttons=1)
    assert tab.evaluate("heavytop.state.playing"), "the pull starts the motion"
    camera = tab.evaluate("heavytop.stage.world.camera.position.toArray()")
    tab.wait("heavytop.motion.time > 1.0", 60)
    place = on_screen(tab, "lower", 0.6)
    assert np.hypot(place[0] - x, place[1] - y) > 60
    assert tab.evaluate("heavytop.stage.world.camera.position.toArray()") == pytest.approx(camera), "the camera stays"
    tab.mouse("mouseReleased", x + 150, y - 160, button="left")
    assert tab.evaluate("heavytop.motion.live.holds.every((k) => heavytop.motion.p[k] === 0)")
    assert tab.evaluate("heavytop.motion.drift()") < 1e-6
    assert tab.evaluate("heavytop.motion.problem") is None


def test_pull_with_a_finger_on_a_phone(browser: Tab, address: str) -> None:
    tab = opened(browser, address, PHONE)
    x, y = on_screen(tab, "lower", 0.6)
    tab.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
    for k in range(1, 6):
        tab.call("Input.dispatchTouchEvent", type="touchMove", touchPoints=[{"x": x + 12 * k, "y": y - 14 * k}])
    tab.wait("heavytop.motion.time > 0.5", 60)
    held = tab.evaluate("heavytop.motion.live.holds.filter((k) => heavytop.motion.p[k] === 1).length")
    tab.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    assert held == 1
    assert tab.evaluate("heavytop.motion.live.holds.every((k) => heavytop.motion.p[k] === 0)")
    assert tab.evaluate("document.documentElement.scrollWidth") <= PHONE[0]


def test_program_and_link_hold_the_settings(browser: Tab, address: str, tmp_path: Path) -> None:
    tab = opened(browser, address)
    tab.evaluate("heavytop.put(heavytop.settings.find((n) => n.name === 'm_2'), 1.7)")
    tab.evaluate("heavytop.put(heavytop.settings.find((n) => n.name === 'theta_1'), 1.1)")
    link = tab.evaluate("location.href")
    program = tab.evaluate("heavytop.python()").replace("live.html", str(tmp_path / "again.html"))
    names: dict[str, Any] = {}
    exec(program, names)  # the program of the page runs
    own: ht.Run = names["run"]
    assert own.parameters["m_2"] == 1.7
    assert own.q[0, 0] == pytest.approx(1.1)
    tab = opened(browser, link)
    steps = round(own.settings.until / own.settings.step)
    state = tab.evaluate(f"(heavytop.motion.advance({steps}, {steps}), [...heavytop.motion.q, ...heavytop.motion.v])")
    assert state == pytest.approx([*own.q[-1], *own.v[-1]], rel=1e-11, abs=1e-11)
    tab = opened(browser, link.partition("#")[0] + "#%7B%22p0%22%3A%22evil%22%2C%22__proto__%22%3A1%7D")
    assert tab.evaluate("heavytop.motion.p[0]") == 1.0
    assert tab.errors == []


def test_programs_of_laws_and_flights_make_the_motion_of_the_page(browser: Tab, tmp_path: Path) -> None:
    furuta = ht.library.furuta().derive()
    law = ht.control.lqr(furuta, [0.0, 0.0])
    regulated = ht.simulate(furuta, ([0.3, 0.2], [0.0, 0.0]), until=1.0, step=2e-3, control=law)
    cases: list[tuple[Any, dict[str, float]]] = [
        (regulated, {"goal theta.angle": 0.4, "m_p": 0.15, "theta": 0.1}),
        (fly(quadcopter(), "step", until=1.0), {"stiffness": 6.0, "wind x": 2.0, "mass of hull": 1.0, "x": 0.1}),
    ]
    for made, changes in cases:
        page: Any = made.show(tmp_path / "a.html", live=True)
        tab = opened(browser, page.as_uri())
        for name, value in changes.items():
            tab.evaluate(f"heavytop.put(heavytop.settings.find((n) => n.name === '{name}'), {value})")
        names: dict[str, Any] = {}
        exec(tab.evaluate("heavytop.python()"), names)
        live: ht.simulate.LiveRun = names["live"]
        steps = round(live.time / tab.evaluate("heavytop.motion.h"))
        state = tab.evaluate(
            f"(heavytop.begin(), heavytop.motion.advance({steps}, {steps}), [...heavytop.motion.q, ...heavytop.motion.v])"
        )
        assert live.time == pytest.approx(1.0)
        assert state == pytest.approx([*live.q, *live.v], rel=1e-11, abs=1e-11)


def test_other_settings_in_the_address_of_an_open_page(browser: Tab, address: str) -> None:
    tab = opened(browser, address)
    tab.evaluate("location.hash = encodeURIComponent(JSON.stringify({ p2: 2.0, p0: 1e999, h0: -1, v0: 'x' }))")
    tab.wait("heavytop.motion.p[2] === 2.0")
    assert tab.evaluate("[heavytop.motion.p[0], heavytop.motion.v0[0], heavytop.motion.time]") == [1.0, 0.0, 0.0]
    assert tab.evaluate("heavytop.motion.h > 0")
    tab.evaluate("location.hash = ''")
    tab.wait("heavytop.motion.p[2] === 1.0")
    assert tab.errors == []


def test_too_large_a_step_gives_a_notice_and_a_way_on(browser: Tab, address: str) -> None:
    tab = opened(browser, address)
    tab.evaluate("heavytop.put(heavytop.settings.find((n) => n.name === 'theta_1 speed'), 6)")
    tab.evaluate("heavytop.put(heavytop.settings.find((n) => n.name === 'step'), 0.1)")
    tab.evaluate("heavytop.play(true)")
    tab.wait("heavytop.motion.problem !== null", 60)
    assert "too large" in tab.evaluate("document.getElementById('notice-text').textContent")
    assert not tab.evaluate("document.getElementById('notice').hidden")
    tab.evaluate("document.getElementById('smaller').click()")
    assert tab.evaluate("heavytop.motion.h") == pytest.approx(0.025)
    tab.wait("heavytop.motion.time > 0.2")
    assert tab.errors == []


def live_pages(folder: Path) -> dict[str, Path]:
    """Ten live pages of all kinds: trees, loops, rolling, a robot, closed loops, a batch."""
    pages: dict[str, Any] = {}
    for name in ("pendulum", "heavy-top", "four-bars:2", "bricard", "rolling-ball", "snakeboard", "panda"):
        model = ht.library.load(name).derive()
        start = ht.library.start(name, model) or (model.neutral(), np.full(model.nv, 0.5))
        start = model.assemble(*start) if model.is_constrained else start
        run = ht.simulate(model, start, until=2.0, step=1e-3, record_every=10)
        pages[name] = run.show(folder / f"{name.replace(':', ' ')}.html", live=True)
    pages["quadcopter"] = fly(quadcopter(), "step").show(folder / "quadcopter.html", live=True)
    model = ht.library.furuta().derive()
    law = ht.control.lqr(model, [0.0, 0.0])
    run = ht.simulate(model, ([0.3, 0.2], [0.0, 0.0]), until=3.0, step=2e-3, control=law)
    pages["regulated"] = run.show(folder / "regulated.html", live=True)
    model = ht.library.double_pendulum().derive()
    starts = np.tile([2.0, 0.5], (50, 1)) + np.linspace(0, 0.1, 50)[:, None]
    run = ht.simulate(model, (starts, np.zeros(2)), until=2.0, step=1e-3, record_every=10)
    pages["fifty"] = run.show(folder / "fifty.html", live=True)
    return pages


def test_ten_pages_on_desktop_and_phone_light_and_dark(browser: Tab, tmp_path: Path) -> None:
    folder = picture_folder(tmp_path)
    for name, page in live_pages(tmp_path).items():
        for size in (DESKTOP, PHONE):
            for scheme in ("light", "dark"):
                tab = opened(browser, page.as_uri(), size, scheme, still=False)
                tab.wait("heavytop.state.frames > 3 && heavytop.motion.time > 0", 60)
                time.sleep(1.3)  # K3D paints again
                tab.picture(folder / f"live {name.replace(':', ' ')} {size[0]} {scheme}.png")
                assert tab.errors == [], name
                assert tab.evaluate("heavytop.motion.problem") is None, name
                assert tab.evaluate("document.documentElement.scrollWidth") <= size[0], name
