"""Live pages: a step in WebAssembly compared with the same step as native code, and a frame of many trajectories, in node and in Chromium."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from heavytop import library
from heavytop.compile import Stepper
from heavytop.control import lqr
from heavytop.show import live_report, report_of
from heavytop.simulate import Run, live_step, simulate
from heavytop_bench.measure import BenchEffort, best_times
from heavytop_bench.peers import Peer
from heavytop_bench.report import BenchReport

TITLE = "live pages: steps in WebAssembly, one core"
SYSTEMS = ("double-pendulum", "heavy-top", "panda", "four-bars:2", "tricopter-load")
CROWDS = {"double-pendulum": 1000, "quadcopter with regulator": 200}
FRAME = 1 / 60
"""Seconds of a frame, in which as much motion is simulated."""
DURATION = 1.0
"""Seconds of the runs of crowds: their pages run in real time (those of runs below half a second in slow motion)."""
TIMES = 3.0
"""Largest time of a step relative to native code with one lane."""
NOTES = (
    "step: the step of the page with watch, hand and balance, in node and as native code with one lane; processor time, the least of several.",
    "frames in Chromium: displayed frames of the page (1400 x 900, headless, painted without a graphics processor) per second of processor "
    "time of all of its processes; on a busy machine frames are late, hold more motion and cost more.",
    "frame: all steps of 1/60 s of motion and the places of the bodies of every trajectory, without drawing.",
    "node compiles in the background: the first tenth of a second does not count.",
)
PROGRAM = """
globalThis.document = { body: { classList: { contains: () => false } } };
%s
const { live, step, functions, signals, steps, rounds } = JSON.parse(require("fs").readFileSync(0));
const bytes = (text) => new Uint8Array(Buffer.from(text, "base64"));
const motion = new Motion(live, bytes(step), bytes(functions), Float64Array.from(signals));
const used = () => { const { user, system } = process.cpuUsage(); return (user + system) / 1e6; };
const places = () => { if (live.count > 1) for (let row = 0; row < live.count; row++)
  motion.functions.tips(motion.q.subarray(row * live.nq, (row + 1) * live.nq), motion.parameters(row)); };
const wait = new Promise((done) => setTimeout(done, 100));
(async () => {
  for (let k = 0; k < 3; k++) { motion.advance(steps, steps); places(); motion.restart(); }
  await wait;
  let best = Infinity;
  for (let k = 0; k < rounds; k++) {
    motion.restart();
    const clock = used();
    motion.advance(steps, steps);
    places();
    best = Math.min(best, used() - clock);
  }
  console.log(JSON.stringify({ best, problem: motion.problem }));
})();
"""

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--enable-unsafe-swiftshader",
    "--enable-logging=stderr",
    "--window-size=1400,900",
)
COUNTED = 60, 240
"""Frames after which counting begins and ends."""
COUNTER = """<script>{ const [first, last] = %s;
const count = () => { const frames = window.heavytop?.state?.frames ?? 0;
  if (frames === first || frames === last) console.log(`frames ${frames}`);
  if (frames < last) requestAnimationFrame(count); };
count(); }</script>"""


def run(effort: BenchEffort, peers: Sequence[Peer] | None = None) -> BenchReport:
    """Steps of several systems, then frames of many trajectories."""
    report = BenchReport("live", TITLE, notes=list(NOTES))
    node = shutil.which("node")
    if node is None:
        report.missing.append("node")
        return report
    tiny = effort.seconds == 0
    for name in SYSTEMS[:1] if tiny else SYSTEMS:
        _step(report, effort, node, name)
    for name, count in CROWDS.items():
        _frame(report, node, name, 4 if tiny else count, 2 if tiny else 30)
    return report


def _step(report: BenchReport, effort: BenchEffort, node: str, name: str) -> None:
    model = library.load(name).derive()
    start = library.start(name, model) or (model.neutral(), np.full(model.nv, 0.2))
    made = simulate(model, start, 0.5, library.step(name))
    steps, step = round(0.5 / library.step(name)), library.step(name)
    seconds, size = _in_node(node, made, steps, 20)
    live = live_step(made.origin)  # pyright: ignore[reportArgumentType]
    stepper, at = Stepper(live.schedule, 1), live.terminals
    state = {key: value[0] for key, value in live.start.items()}
    constants = {at.p: live.parameters[0], at.h: np.asarray(step)}
    works = {"native": lambda: stepper.run(state, constants, {}, steps=steps, step_size=step, record_every=0)}
    native = best_times(works, effort)["native"]
    ours, theirs = 1e9 * seconds / steps, 1e9 * native / steps
    report.row(system=name, wasm_ns=ours, native_ns=theirs, times=ours / theirs, module_bytes=size)
    report.limit(f"{name}: a step in WebAssembly / native", ours / theirs, TIMES, "x")


def _frame(report: BenchReport, node: str, name: str, count: int, rounds: int) -> None:
    rng, step = np.random.default_rng(0), 1e-3
    if name == "double-pendulum":
        model = library.double_pendulum().derive()
        q = rng.uniform(-2.0, 2.0, (count, 2))
        made = simulate(model, (q, np.zeros((count, 2))), DURATION, step, record_every=100)
    else:
        model = library.quadcopter().derive()
        q = model.coordinates.retract(model.neutral(), 0.2 * rng.standard_normal((count, 6)))
        law = lqr(model, model.neutral())
        made = simulate(model, (q, np.zeros((count, 6))), DURATION, step, control=law, record_every=100)
    seconds, _ = _in_node(node, made, round(FRAME / step), rounds)
    report.row(system=f"{count:,} of {name}", frame_ms=1e3 * seconds, frames_per_second=1.0 / max(seconds, 1e-9))
    report.limit(f"work of a frame: {count:,} of {name}", 1e3 * seconds, 1e3 * FRAME, "ms")
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None or not Path("/proc/self/stat").exists():
        report.missing.append("chromium on Linux")
    elif count == CROWDS[name]:
        frames = _frames(browser, made)
        report.row(system=f"{count:,} of {name} in Chromium", frame_ms=1e3 / frames, frames_per_second=frames)
        report.limit(f"frame in Chromium: {count:,} of {name}", 1e3 / frames, 1e3 * FRAME, "ms")


def _frames(browser: str, made: Run) -> float:
    """Frames of the live page of a run per second of processor time."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        page = Path(str(made.show(Path(folder, "crowd.html"), live=True)))
        with page.open("a", encoding="utf-8") as file:
            file.write(COUNTER % list(COUNTED))
        command = [browser, *FLAGS, f"--user-data-dir={folder}/profile", page.as_uri()]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        used: dict[int, float] = {}
        try:
            for line in process.stderr:
                if found := re.search(r'"frames (\d+)"', line):
                    used[int(found[1])] = _processor_time(process.pid)
                if COUNTED[1] in used:
                    break
        finally:
            process.terminate()
            process.wait()
    first, last = COUNTED
    return (last - first) / (used[last] - used[first])


def _processor_time(root: int) -> float:
    """Seconds that a process and its descendants have used (Linux)."""
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        number = int(entry.parent.name)
        children.setdefault(int(fields[1]), []).append(number)
        ticks[number] = int(fields[11]) + int(fields[12])
    total, left = 0, [root]
    while left:
        number = left.pop()
        total += ticks.get(number, 0)
        left += children.get(number, [])
    return total / os.sysconf("SC_CLK_TCK")


def _in_node(node: str, made: Run, steps: int, rounds: int) -> tuple[float, int]:
    """Seconds of some steps of the page of a run, and the bytes of its module."""
    code: Any = live_report(made, report_of(made)).live
    assets = resources.files("heavytop.show").joinpath("assets")
    scripts = "\n".join(assets.joinpath(name).read_text() for name in ("decode.js", "wasm.js", "live.js"))
    given = {"live": code.document, "signals": code.signals.tolist(), "steps": steps, "rounds": rounds}
    given |= {"step": b64encode(code.step.data).decode(), "functions": b64encode(code.functions.data).decode()}
    done = subprocess.run(
        [node, "-e", PROGRAM % scripts], input=json.dumps(given), capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)["best"], len(code.step.data)
