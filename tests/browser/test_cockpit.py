"""The cockpit in a real browser: it draws, its levers move the vehicle, Ctrl-C ends it cleanly.

Screenshots are kept in the folder named by HEAVYTOP_SCREENSHOTS, if it is set.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from browser.chromium import Tab, chromium, find_chromium

pytestmark = pytest.mark.browser

READY = "document.querySelector('canvas') && document.querySelector('[data-number=error]')"
HARMLESS = ("THREE.Clock: This module has been deprecated",)
"""Messages of the viewer's own libraries."""
WINDOW = (1000, 700)
PARAMETERS = ("vehicle", "maneuver", "time", "error", "attitude", "wind", "pace", "inputs")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def started(*options: str) -> tuple[subprocess.Popen[str], str]:
    """A cockpit in a new process, and its address."""
    source = str(Path(__file__).parents[2] / "src")
    process = subprocess.Popen(
        [sys.executable, "-m", "heavytop", "cockpit", "--no-open", "--port", str(free_port()), *options],
        env={**os.environ, "PYTHONPATH": source, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=lambda: signal.signal(
            signal.SIGINT, signal.SIG_DFL
        ),  # a shell in the background ignores it, and so would its children
    )
    said = []
    for line in process.stdout or ():
        said.append(line)
        if found := re.search(r"the cockpit is at (http://\S+)", line):
            return process, found.group(1)
    raise RuntimeError("the cockpit ended: " + "".join(said))


@pytest.fixture(scope="module")
def cockpit() -> Iterator[str]:
    pytest.importorskip("viser")
    process, address = started()
    yield address
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 0


@pytest.fixture(scope="module")
def tab(cockpit: str) -> Iterator[Tab]:
    executable = find_chromium()
    if executable is None:
        pytest.fail("no Chromium found; install it (on Debian: apt-get install chromium)")
    with chromium(executable) as page:
        page.size(*WINDOW)
        page.open(cockpit, READY, timeout=180)
        yield page


def number(tab: Tab, name: str) -> float:
    text = tab.evaluate(f"document.querySelector('[data-number={name}]').innerText")
    found = re.search(r"-?\d+(\.\d+)?", text)
    assert found is not None, text
    return float(found.group())


def click(tab: Tab, label: str) -> None:
    script = f"[...document.querySelectorAll('button')].find((b) => b.innerText.trim() === {label!r})"
    tab.wait(f"Boolean({script})", timeout=60)
    tab.evaluate(f"{script}.click()")


def watch(tab: Tab, name: str) -> str:
    """An expression for the largest value that the page has shown of a number, independent of the rate of evaluation."""
    kept = f"window.most_{name}"
    tab.evaluate(
        f"""(() => {{
            {kept} = 0;
            const look = () => {{
                const shown = document.querySelector('[data-number={name}]');
                {kept} = Math.max({kept}, shown ? parseFloat(shown.innerText) || 0 : 0);
            }};
            new MutationObserver(look).observe(document.body, {{ subtree: true, childList: true, characterData: true }});
        }})()"""
    )
    return kept


def picture(tab: Tab, tmp_path: Path, name: str) -> Path:
    folder = Path(os.environ.get("HEAVYTOP_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    return tab.picture(folder / name)


def dark_pixels(path: Path) -> int:
    """Pixels as dark as the vehicle, left of the panel; ground, grid and background are light."""
    from matplotlib.image import imread

    picture = imread(path)[:, : WINDOW[0] - 340, :3]
    return int(np.sum(np.max(picture, axis=-1) < 0.45))


def test_it_shows_its_numbers_and_its_time_advances(tab: Tab, tmp_path: Path) -> None:
    for name in PARAMETERS:
        assert tab.evaluate(f"Boolean(document.querySelector('[data-number={name}]').innerText.trim())"), name
    start = number(tab, "time")
    tab.wait(f"parseFloat(document.querySelector('[data-number=time]').innerText) > {start} + 2", timeout=60)
    assert number(tab, "pace") > 0
    for _ in range(120):  # the view fades in
        if dark_pixels(picture(tab, tmp_path, "cockpit.png")) >= 100:
            break
        time.sleep(0.5)
    else:
        pytest.fail("no vehicle in the picture")


def test_a_push_moves_the_vehicle_and_it_recovers(tab: Tab, tmp_path: Path) -> None:
    assert number(tab, "error") < 0.01
    most = watch(tab, "error")
    click(tab, "+x")
    tab.wait(f"{most} > 0.1", timeout=60)
    picture(tab, tmp_path, "cockpit push.png")
    tab.wait("parseFloat(document.querySelector('[data-number=error]').innerText) < 0.02", timeout=30)


def test_a_twist_turns_it(tab: Tab) -> None:
    most = watch(tab, "attitude")
    click(tab, "yaw")
    tab.wait(f"{most} > 5", timeout=60)
    tab.wait("parseFloat(document.querySelector('[data-number=attitude]').innerText) < 2", timeout=30)


def test_reset_and_pause_are_obeyed(tab: Tab) -> None:
    click(tab, "up")
    click(tab, "Reset")
    tab.wait("parseFloat(document.querySelector('[data-number=error]').innerText) < 0.01", timeout=30)
    click(tab, "Pause")
    tab.wait("document.querySelector('[data-number=maneuver]').innerText.includes('paused')", timeout=30)
    start = number(tab, "time")
    time.sleep(0.5)
    assert number(tab, "time") == start
    click(tab, "Go on")
    tab.wait(f"parseFloat(document.querySelector('[data-number=time]').innerText) > {start}", timeout=30)


def test_the_page_logs_no_errors_and_requests_no_other_host(tab: Tab, cockpit: str) -> None:
    assert [e for e in tab.errors if not e.startswith(HARMLESS)] == []
    own = (cockpit, cockpit.replace("http", "ws"), "data:", "blob:")
    assert [url for url in tab.requests if not url.startswith(own)] == []


def test_ctrl_c_lands_it() -> None:
    pytest.importorskip("viser")
    process, _ = started("--vehicle", "tricopter")
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=30) == 0
    said = process.stdout.read() if process.stdout else ""
    assert "landed." in said
    assert "Traceback" not in said
