"""The moving picture of the README: a quadcopter flies a loop, taken from its page in a browser.

``python scripts/moving_picture.py`` writes docs/images/looping.webp (below 1 MB). It needs Chromium and the extra ``browser``.
"""

from __future__ import annotations

import base64
import sys
import tempfile
from collections.abc import Iterable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import heavytop as ht
from heavytop.show import write_flight

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from browser.chromium import chromium, find_chromium  # noqa: E402

TARGET = ROOT / "docs" / "images" / "looping.webp"
SIZE, RATE, LIMIT = (800, 560), 20.0, 1_000_000


def taken(tab: Any, page: Path, times: Iterable[float], size: tuple[int, int], nearer: float) -> list[Image.Image]:
    """Pictures of the 3-D view of a page at some times; ``nearer`` multiplies the distance of the camera in the overview."""
    width, height = size
    tab.size(1000, 900)
    tab.media(prefers_color_scheme="light", prefers_reduced_motion="reduce")
    tab.open(page.as_uri(), "window.heavytop && heavytop.state.ready")
    tab.evaluate("new Promise(done => setTimeout(done, 1500))")
    style = (
        f"body{{visibility:hidden}}.stage{{visibility:visible;position:fixed!important;inset:0 auto auto 0;z-index:9}}"
        f".stage{{width:{width}px!important;height:{height}px!important}}"
    )
    tab.evaluate(f"document.head.append(Object.assign(document.createElement('style'), {{textContent: {style!r}}}))")
    tab.evaluate("heavytop.camera('overview'); new Promise(done => setTimeout(done, 500))")
    tab.evaluate(
        "{ const { camera, controls } = heavytop.stage.world;"
        f" camera.position.sub(controls.target).multiplyScalar({nearer}).add(controls.target); controls.update(); }}"
    )
    pictures = []
    for t in times:
        tab.evaluate(
            f"heavytop.seek({t}); new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        data = tab.call("Page.captureScreenshot", format="png", clip=clip)["data"]
        pictures.append(Image.open(BytesIO(base64.b64decode(data))).convert("RGB"))
    return pictures


def main() -> int:
    """Fly, take the pictures, write the film; the exit code."""
    executable = find_chromium()
    if executable is None:
        print("no Chromium found: install it, or put it on the path")
        return 1
    quad = ht.copters.quadcopter()
    flight = ht.copters.fly(quad, ht.maneuvers.looping(quad, radius=1.5, turn=3.6))
    with tempfile.TemporaryDirectory() as folder, chromium(executable) as tab:
        page = write_flight(flight, Path(folder) / "flight.html")
        pictures = taken(tab, page, np.arange(flight.t[0], flight.t[-1], 1 / RATE), SIZE, nearer=0.9)
    for quality in (70, 55, 40, 25):
        film = BytesIO()
        pictures[0].save(
            film,
            "WEBP",
            save_all=True,
            append_images=pictures[1:],
            duration=round(1000 / RATE),
            loop=0,
            quality=quality,
            method=4,
        )
        if film.tell() < LIMIT:
            break
    else:
        print(f"the film has {film.tell() / 1e6:.1f} MB, more than {LIMIT / 1e6:.0f} MB")
        return 1
    TARGET.write_bytes(film.getvalue())
    print(f"wrote {TARGET.relative_to(ROOT)}: {len(pictures)} pictures, {film.tell() / 1e3:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
