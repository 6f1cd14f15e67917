"""Pictures of tutorials and guides in docs/images/guides, taken from pages of runs in a browser.

``python scripts/tutorial_pictures.py [NAME ...]`` writes them. It needs Chromium and the extra ``browser``.
"""

from __future__ import annotations

import contextlib
import re
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from moving_picture import ROOT, chromium, find_chromium, taken

import heavytop as ht
from heavytop import control

TARGET = ROOT / "docs" / "images" / "guides"
SIZE = (640, 400)
Shot = tuple[Path, float, float]
"""The page of a run, the time of the picture in s, and the distance of the camera relative to the overview."""


def files_of(name: str, folder: Path) -> list[Path]:
    """The files that a tutorial writes, in ``folder``."""
    text = (ROOT / "docs" / "tutorials" / f"{name}.md").read_text("utf-8")
    written = []
    for file, content in re.findall(r"<!-- file: ([\w.]+) -->\n```\w+\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        (folder / file).write_text(content, "utf-8")
        written.append(folder / file)
    return written


def run_of(name: str, folder: Path) -> dict[str, Any]:
    """The names that the programs of a tutorial define, run in ``folder``."""
    matplotlib.use("Agg")
    files_of(name, folder)
    text = (ROOT / "docs" / "tutorials" / f"{name}.md").read_text("utf-8")
    names: dict[str, Any] = {}
    with contextlib.chdir(folder):
        for program in re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
            exec(program, names)
    return names


def drone(folder: Path) -> Shot:
    """The airframe of the tutorial on its course."""
    scout = ht.copters.load(str(files_of("drone", folder)[0]))
    course = ht.maneuvers.waypoints(scout, [(0, 0, 0), (4, 0, 1), (4, 3, 2), (0, 3, 1), (0, 0, 0)], speed=2.5)
    flight = ht.copters.fly(scout, course, wind=4.0, step=0.005)
    return flight.show(folder / "drone.html"), 0.66 * flight.t[-1], 0.62


def mechanics(folder: Path) -> Shot:
    """A tricopter with a load swings freely."""
    tri = ht.copters.load("tricopter-with-load")
    flight = ht.copters.fly(tri, "transport", step=0.005)
    return flight.show(folder / "mechanics.html"), 0.3 * flight.t[-1], 0.85


def robots(folder: Path) -> Shot:
    """The double pole of the tutorial recovers."""
    model = ht.load(str(files_of("robots", folder)[0]), base="fixed").derive()
    law = control.lqr(model, model.neutral(), limits=(-40, 40))
    run = ht.simulate(model, ([0.3, 0.25, -0.1], [0, 0, 0]), until=4.0, step=1e-3, control=law, record_every=10)
    return run.show(folder / "robots.html"), 0.1, 1.1


def control_engineers(folder: Path) -> Shot:
    """A cart swings up its pole."""
    cart = ht.library.cart_pole().derive()
    plan = ht.plan(cart, start=[0, np.pi], goal=[0, 0], duration=2.0, limits=(-20, 20), steps=40, tolerance=1e-6)
    law = control.lqr(cart, plan.reference, inputs=plan.inputs)
    run = ht.simulate(cart, ([0.0, np.pi], [0, 0]), until=3.0, step=1e-3, control=law, record_every=10)
    return run.show(folder / "control.html"), 1.45, 0.95


def multibody(folder: Path) -> Shot:
    """Three windows of four bars: closed loops."""
    model = ht.library.load("four-bars:3").derive()
    run = ht.simulate(model, ht.library.start("four-bars:3", model), until=2.0, step=1e-3, record_every=10)
    return run.show(folder / "multibody.html"), 0.9, 0.8


def simulate(folder: Path) -> Shot:
    """A chaotic double pendulum."""
    model = ht.library.double_pendulum().derive()
    run = ht.simulate(model, ([2.6, 1.0], [0.0, 0.0]), until=3.0, step=1e-3, record_every=10)
    return run.show(folder / "simulate.html"), 2.4, 0.95


def contact(folder: Path) -> Shot:
    """A ball bounces."""
    system = ht.System(name="ball")
    system.body("ball", joint=ht.Free(velocity="mixed"), inertia=ht.Inertia.of(ht.Sphere(0.12), density=190.0))
    system.ground(friction=0.3)
    system.contact("ball", "ground", ht.Sphere(0.12), restitution=0.8)
    system.shape("ball", ht.Sphere(0.12), color="#d55e00")
    model = system.derive()
    q, v = model.neutral(), np.zeros(6)
    q[2], v[0] = 1.1, 1.0
    run = ht.simulate(model, (q, v), until=2.4, step=1e-3, integrator="moreau", record_every=10)
    return run.show(folder / "contact.html"), 1.95, 0.85


def firmware(folder: Path) -> Shot:
    """Betaflight flies the airframe of the tutorial in wind."""
    run_of("firmware", folder)
    return folder / "scout.html", 1.9, 0.8


def learning(folder: Path) -> Shot:
    """The trained policy of the tutorial balances the pole."""
    made = run_of("learning", folder)
    start = [-0.3, 0.3], [0.5, 0.5]
    run = ht.simulate(made["model"], start, until=3.0, step=0.02, control=made["law"], gains=made["weights"])
    return run.show(folder / "learning.html"), 0.1, 1.0


def log_to_flight(folder: Path) -> Shot:
    """The small quadcopter of the logs flies an eight."""
    flight = ht.copters.fly(ht.copters.load("crazyflie"), "eight", rotors=True, step=0.01, until=0.9)
    return flight.show(folder / "log_to_flight.html"), 0.85, 0.8


def kinematics(folder: Path) -> Shot:
    """An arm with seven joints."""
    model = ht.library.load("panda").derive()
    return model.show(folder / "kinematics.html", q=model.random(3)), 0.0, 0.95


SHOTS: dict[str, Callable[[Path], Shot]] = {
    "drone": drone,
    "mechanics": mechanics,
    "robots": robots,
    "control": control_engineers,
    "multibody": multibody,
    "simulate": simulate,
    "contact": contact,
    "firmware": firmware,
    "learning": learning,
    "log_to_flight": log_to_flight,
    "kinematics": kinematics,
}


def main() -> int:
    """Take the pictures that are named, or all; the exit code."""
    executable = find_chromium()
    if executable is None:
        print("no Chromium found: install it, or put it on the path")
        return 1
    TARGET.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[1:] or SHOTS:
            page, t, nearer = SHOTS[name](Path(folder))
            with chromium(executable) as tab:
                picture = taken(tab, Path(page), [t], SIZE, nearer)[0]
            picture.quantize(128).save(TARGET / f"{name}.png", optimize=True)
            print(f"wrote docs/images/guides/{name}.png: {(TARGET / f'{name}.png').stat().st_size / 1e3:.0f} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
