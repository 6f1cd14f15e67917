"""Kill -9 in the middle of every kind of write, and disks that are full."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from processes import finish

KINDS = ("netcdf", "page", "figure", "export", "cache", "plan", "predictive", "robot")

KILLER = """
import json, os, re, signal, sys
from pathlib import Path
import numpy as np
import heavytop as ht
from heavytop.compile import Cache, Kernel, export_c, trace
from heavytop.errors import FileFormatError
kind, count, seed, folder = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4])
system = ht.System(name="pendulum")
system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
model = system.derive()
runs = [ht.simulate(model, ([0.1], [0.0]), until, 0.01) for until in (0.5, 1.0)]
functions = [{"f": trace(lambda x: k * np.sin(x), {"x": (3,)}, name="f")} for k in (2.0, 3.0)]
if kind == "page":  # rendered once: what is tried is the writing
    from heavytop.show import report_of
    from heavytop.show import page as pages
    from heavytop.show.page import write_page
    reports = [report_of(run) for run in runs]
    rendered = {id(report): sys.modules["heavytop.show.page"].page(report) for report in reports}
    sys.modules["heavytop.show.page"].page = lambda report: rendered[id(report)]
if kind == "figure":
    from heavytop.show import plots
    figures = [plots.new_figure(2.0, 1.0) for _ in runs]
    for k, figure in enumerate(figures):
        figure.set_layout_engine("none")
        figure.add_axes((0.2, 0.2, 0.7, 0.7)).plot([0.0, 1.0 + k])
if kind == "plan":
    from dataclasses import replace
    found = ht.plan.problems.swing_up_cart_pole(steps=10).plan(tolerance=0.1)
    plans = [found, replace(found, cost=found.cost + 1.0)]
if kind == "predictive":  # traced and sampled once: what is tried is the writing
    from heavytop.compile.backends import c_export as export
    from heavytop.control.mpc import export as mpc_export
    system.input("motor", ht.JointForce("rod"))
    ahead = [ht.control.mpc(system.derive(), horizon=3, limits=(-bound, bound)) for bound in (1.0, 2.0)]
    texts, rows, current = {}, {}, [0]
    traced, sampled = export.c_texts, mpc_export._samples
    def c_texts(*a, **k):
        if current[0] not in texts:
            texts[current[0]] = traced(*a, **k)
        return texts[current[0]][0], dict(texts[current[0]][1])
    def samples(law):
        if current[0] not in rows:
            rows[current[0]] = sampled(law)
        return rows[current[0]]
    export.c_texts, mpc_export._samples = c_texts, samples
if kind == "robot":
    from heavytop.io.mesh_files import stl
    corner = np.eye(4, 3)
    robots = []
    for k, size in enumerate((1.0, 2.0)):
        (folder / f"source{k}").mkdir()
        (folder / f"source{k}" / "part.stl").write_bytes(stl(size * corner, np.array([[0, 1, 2], [0, 1, 3]])))
        robot = ht.System(name="robot")
        robot.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(size, com=(0, 0, -1), moment_at_com=(0.1, 0.1, 0.1)))
        robot.shape("rod", ht.Mesh(str(folder / f"source{k}" / "part.stl")))
        robots.append(robot.derive())
def write(place, which):
    if kind == "netcdf":
        runs[which].save(place / "run.nc")
    elif kind == "page":
        write_page(reports[which], place / "run.html")
    elif kind == "figure":
        plots.written(figures[which], place / "run.png")
    elif kind == "export":
        export_c(place / "c", functions[which])
    elif kind == "plan":
        plans[which].save(place / "best.plan")
    elif kind == "predictive":
        current[0] = which
        ahead[which].export_c(place / "c")
    elif kind == "robot":
        robots[which].to_urdf(place / "robot.urdf")
    else:
        Cache(place / "cache").put("key", {"which": which}, bytes([which]) * 50000)
def content(place):
    if kind == "robot":  # the file and the meshes that it names; others may lie beside them
        text = (place / "robot.urdf").read_text()
        names = re.findall('filename="([^"]*)"', text)
        for name in names:
            text = text.replace(name, "mesh")
        return [text, *((place / name).read_bytes() for name in names)]
    return {str(p.relative_to(place)): p.read_bytes() for p in sorted(place.rglob("*")) if p.is_file() and ".part" not in p.name
            and not any(".part" in part for part in p.relative_to(place).parts)}
wanted = []
for which in (0, 1):
    clean = folder / f"clean{which}"
    clean.mkdir()
    write(clean, which)
    wanted.append(content(clean))
rng = np.random.default_rng(seed)
CHANGES = ("os.rename", "os.mkdir", "open", "os.remove", "os.rmdir", "os.chmod", "os.truncate", "ctypes.dlsym", "ctypes.call_function")
failures, kills = [], 0
limit = 4
while kills < count:
    place = folder / f"try{kills}"
    place.mkdir(exist_ok=True)
    write(place, 0)
    step = int(rng.integers(0, limit))
    child = os.fork()
    if child == 0:
        left = [step]
        def trip(event, arguments):
            if event in CHANGES:
                left[0] -= 1
                if left[0] < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(trip)
        try:
            write(place, 1)
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        kills += 1
        limit = max(limit, step + 8)
        found = content(place)
        if found not in wanted:
            failures.append(f"{kind}, step {step}: {list(found)!r:.300}")
        write(place, 1)
        if content(place) != wanted[1]:
            failures.append(f"{kind}, step {step}: cannot be written again")
    else:
        limit = max(4, step)
    if len(list(folder.iterdir())) > 40:
        import shutil
        for old in folder.glob("try*"):
            shutil.rmtree(old)
print(json.dumps(failures))
"""


@pytest.mark.parametrize("kind", KINDS)
def test_kill(kind: str, tmp_path: Path, record, size) -> None:
    """After the kill the old file or the new one is there, whole, or the old or new set; the next write succeeds."""
    if not hasattr(os, "fork"):
        pytest.skip("needs fork")
    count = size(60 if kind in ("page", "figure", "plan", "predictive", "robot") else 150, 6)
    done = finish(KILLER, kind, str(count), "0", str(tmp_path), processor=1200)
    assert done.returncode == 0, done.stderr[-2000:]
    record("kill -9 while writing", count, json.loads(done.stdout.splitlines()[-1]))


FULL = """
import json, os, sys
from pathlib import Path
import numpy as np
import heavytop as ht
from heavytop.compile import Cache, export_c, trace
from heavytop.errors import FileFormatError
disk, count = Path(sys.argv[1]), int(sys.argv[2])
system = ht.System(name="pendulum")
system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
run = ht.simulate(system.derive(), ([0.1], [0.0]), 20.0, 0.01)
functions = {"f": trace(lambda x: np.sin(x) * np.arange(1.0, 301.0), {"x": (300,)}, name="f")}
plan = ht.plan.problems.swing_up_cart_pole(steps=10).plan(tolerance=0.1)
driven = ht.System(name="driven")
driven.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
driven.input("motor", ht.JointForce("rod"))
ahead = ht.control.mpc(driven.derive(), horizon=3, limits=(-1.0, 1.0))
writers = {
    "plan": lambda: plan.save(disk / "best.plan"),
    "plan page": lambda: plan.show(disk / "plan.html"),
    "plan figure": lambda: plan.plot(disk / "plan.png"),
    "predictive": lambda: ahead.export_c(disk / "mpc"),
    "robot": lambda: driven.derive().to_mjcf(disk / "robot.xml"),
    "netcdf": lambda: run.save(disk / "run.nc"),
    "page": lambda: run.show(disk / "run.html"),
    "figure": lambda: run.plot(disk / "run.png"),
    "export": lambda: export_c(disk / "c", functions),
    "cache": lambda: Cache(disk).put("key", {}, bytes(60000)),
}
rng = np.random.default_rng(0)
failures = []
for k in range(count):
    room = int(rng.integers(0, 16)) * 4096
    ballast = disk / "ballast"
    ballast.write_bytes(bytes(max(0, 65536 - room)))
    for kind, write in writers.items():
        before = {p.name for p in disk.iterdir()}
        try:
            result = write()
            if kind == "cache" and result is False:
                raise FileFormatError("not stored")
        except FileFormatError:
            if {p.name for p in disk.iterdir()} != before:
                failures.append(f"{kind} with {room} bytes of room left {sorted({p.name for p in disk.iterdir()} - before)}")
        except BaseException as error:
            failures.append(f"{kind} with {room} bytes of room: {error!r}")
        import shutil
        for path in disk.iterdir():
            if path.name != "ballast":
                shutil.rmtree(path) if path.is_dir() else path.unlink()
print(json.dumps([count * len(writers), failures]))
"""


def test_full_disk(tmp_path: Path, record, size) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)], capture_output=True).returncode:
        pytest.skip("this machine does not mount a small disk")
    try:
        done = finish(FULL, str(disk), str(size(20, 2)), processor=600)
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    assert done.returncode == 0, f"exit {done.returncode}: {done.stderr[-2000:]}"
    tries, failures = json.loads(done.stdout.splitlines()[-1])
    record("writes to a full disk", tries, failures)
