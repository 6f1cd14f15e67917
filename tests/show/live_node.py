"""The simulation of a live page in node, from the file itself: what the page does without its pictures."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from importlib import resources
from typing import Any

import numpy as np
import pytest

import heavytop as ht

PROGRAM = """
globalThis.document = { body: { classList: { contains: () => false } } };
%s
const inflated = (text) => { const { inflateSync } = require("zlib"); const data = inflateSync(Buffer.from(text, "base64"));
  return data.buffer.slice(data.byteOffset, data.byteOffset + data.length); };
const { parts, actions, steps } = JSON.parse(require("fs").readFileSync(0));
const live = JSON.parse(parts.document).live;
const code = ["step-code", "function-code"].map((id) => new Uint8Array(inflated(parts[id])));
const motion = new Motion(live, ...code, new Float64Array(inflated(parts.signals)));
const names = live.numbers.map((n) => n.name);
const number = (name) => { if (!names.includes(name)) throw new Error(`no ${name} among ${names}`); return live.numbers[names.indexOf(name)]; };
eval(actions);
if (steps > 0) motion.advance(steps, steps);
const at = live.at, rows = (name) => (name === null ? null : Array.from(motion.step.buffers[name]));
const poses = motion.functions.poses(motion.q.subarray(0, live.nq), motion.parameters()).map((x) => Array.from(x));
process.stdout.write(JSON.stringify({ q: rows(at.q), v: rows(at.v), work: rows(at.work), time: motion.time, problem: motion.problem,
  drift: motion.problem ? null : motion.drift(), open: motion.openBy(), poses, names, h: live.h, bytes: code.map((x) => x.length) }));
"""


def need_node() -> str:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node (Debian: apt-get install nodejs)")
    return node


def page_parts(path: Any) -> dict[str, str]:
    """The data elements of a page by their ids."""
    text = path.read_text(encoding="utf-8")
    return {m[1]: m[2] for m in re.finditer(r'<script type="[^"]+" id="([\w-]+)">(.*?)</script>', text, re.DOTALL)}


def simulated(path: Any, steps: int, actions: str = "") -> dict[str, Any]:
    """The state after some steps of a live page; ``actions`` is JavaScript that may change ``motion`` before."""
    assets = resources.files("heavytop.show").joinpath("assets")
    scripts = "\n".join(assets.joinpath(name).read_text() for name in ("decode.js", "wasm.js", "live.js"))
    kept = ("document", "step-code", "function-code", "signals")
    parts = {name: text for name, text in page_parts(path).items() if name in kept}
    given = json.dumps({"parts": parts, "actions": actions, "steps": steps})
    done = subprocess.run(
        [need_node(), "-e", PROGRAM % scripts], input=given, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    result = json.loads(done.stdout)
    # JSON has no NaN
    return {name: np.array(x, dtype=float) if isinstance(x, list) and name in "qv" else x for name, x in result.items()}


def difference(result: dict[str, Any], run: Any) -> float:
    """Largest difference of the end of a run, relative to the largest values along it."""
    q, v = run.q[-1].reshape(-1), run.v[-1].reshape(-1)
    size = [max(1.0, float(np.nanmax(np.abs(x)))) for x in (run.q, run.v)]
    return max(float(np.max(np.abs(result["q"] - q))) / size[0], float(np.max(np.abs(result["v"] - v))) / size[1])


SYSTEMS = [name.replace(":N", ":4") for name in ht.library.names(contact=False)]
"""Every system of the library without contacts."""


def started(name: str) -> tuple[ht.Model, tuple[np.ndarray, np.ndarray]]:
    """A built-in system away from rest."""
    model = ht.library.load(name).derive()
    if (given := ht.library.start(name, model)) is not None:
        return model, given
    q = model.coordinates.retract(model.neutral(), np.full(model.coordinates.nv, 0.3))
    v = np.full(model.nv, 0.2)
    if name == "rolling-disc":  # upright, else it falls over within a second
        q, v = model.neutral(), np.full(model.nv, 0.2)
    return model, model.assemble(q, v) if model.is_constrained else (q, v)


def library_run(name: str) -> ht.Run:
    """A run of a system of the library, a second long, or 0.02 s with small steps."""
    model, start = started(name)
    step = ht.library.step(name)
    inputs = np.array([0.033]) if name == "andrews" else None
    return ht.simulate(model, start, until=1.0 if step > 1e-4 else 0.02, step=step, inputs=inputs)
