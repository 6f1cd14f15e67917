"""Damaged and mutated files: netCDF, caches, airframes, robots."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from campaign.mutations import damaged, mutated, revalued
from processes import finish

import heavytop as ht
from heavytop.compile import Cache, Kernel, trace
from heavytop.errors import FileFormatError, HeavytopError

AIRFRAMES = Path(ht.copters.__file__).parent / "catalogue"


def test_netcdf(tmp_path: Path, record, size) -> None:
    system = ht.System(name="pendulum")
    system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
    ht.simulate(system.derive(), ([[0.1], [0.2]], [0.0]), 1.0, 0.01).save(tmp_path / "run.nc")
    content = (tmp_path / "run.nc").read_bytes()
    rng = np.random.default_rng(0)
    failures, tries = [], size(600, 60)
    for k in range(tries):
        changed = damaged(content, rng)
        (tmp_path / "damaged.nc").write_bytes(changed)
        try:
            ht.Run.load(tmp_path / "damaged.nc")
            if changed != content:
                failures.append(f"try {k}: loaded")
        except FileFormatError:
            pass
        except BaseException as error:
            failures.append(f"try {k}: {error!r}")
    record("damaged netCDF files", tries, failures)


def test_caches(tmp_path: Path, record, size) -> None:
    code = """
import sys, warnings
import numpy as np
sys.path.insert(0, sys.argv[1])
from mutations import damaged
from heavytop.compile import Cache, Kernel, trace
warnings.simplefilter("error")
cache = Cache(sys.argv[2])
traced = trace(lambda x: 2 * np.sin(x), {"x": (3,)}, name="f")
expected = Kernel(traced, fingerprint="f", cache=cache)([1.0, 2.0, 3.0])[0]
rng = np.random.default_rng(1)
for k in range(int(sys.argv[3])):
    for path in list(cache.folder.iterdir()):
        if rng.random() < 0.7:
            path.write_bytes(damaged(path.read_bytes(), rng))
    Kernel.from_cache("f", cache=cache)
    got = Kernel(traced, fingerprint="f", cache=cache)([1.0, 2.0, 3.0])[0]
    assert np.array_equal(got, expected), k
print("alive")
"""
    tries = size(600, 40)
    done = finish(code, str(Path(__file__).parent), str(tmp_path / "cache"), str(tries), processor=900)
    record(
        "damaged caches",
        tries,
        [] if done.stdout.strip() == "alive" else [f"exit {done.returncode}: {done.stderr[-800:]}"],
    )


def test_stores(tmp_path: Path, record, size) -> None:
    """A store of a sweep with a file that is damaged, lost or exchanged is an error or reads as before, and is mended by the same sweep."""
    pytest.importorskip("zarr")
    from sweep import studies
    from sweep.test_store import same_files

    whole, path = tmp_path / "whole.zarr", tmp_path / "damaged.zarr"
    study = studies.squares(8, 4)
    ht.sweep.run_study(study, whole)
    expected = ht.sweep.open_result(whole).data.load()
    names = sorted(str(p.relative_to(whole)) for p in whole.rglob("*") if p.is_file())
    rng, failures, tries = np.random.default_rng(3), [], size(500, 30)
    for k in range(tries):
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(whole, path)
        name, other = (names[i] for i in rng.integers(len(names), size=2))
        content, kind = (path / name).read_bytes(), rng.integers(6)
        if kind == 0:
            (path / name).unlink()
        else:
            (path / name).write_bytes((whole / other).read_bytes() if kind == 1 else damaged(content, rng))
        try:
            found = ht.sweep.open_result(path).data.load()
            if not found.drop_attrs(deep=False).identical(expected.drop_attrs(deep=False)):
                failures.append(f"try {k}: other data after a change of {name}")
        except HeavytopError:
            pass
        except BaseException as error:
            failures.append(f"try {k}: {name}: {error!r}")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ht.sweep.DamagedStoreWarning)
                ht.sweep.run_study(study, path)
            if not same_files(path, whole):
                failures.append(f"try {k}: not mended after a change of {name}")
        except HeavytopError:  # what is not in a chunk cannot be done again
            if "/c/" in name and not name.startswith("x/"):
                failures.append(f"try {k}: {name} is not done again")
        except BaseException as error:
            failures.append(f"try {k}, done again: {name}: {error!r}")
    record("damaged stores of sweeps", tries, failures)


def survive(
    load: Callable[[Path], object],
    path: Path,
    texts: list[str],
    tries: int,
    seed: int,
    change: Callable[[str, np.random.Generator], str] = mutated,
) -> list[str]:
    """Load mutated files; whatever is no result and no error of ours is a failure."""
    rng = np.random.default_rng(seed)
    failures = []
    for k in range(tries):
        text = change(texts[k % len(texts)], rng)
        path.write_text(text, encoding="utf-8")
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                load(path)
        except HeavytopError:
            pass
        except BaseException as error:
            failures.append(f"try {k}: {type(error).__name__}: {str(error)[:200]}")
    return failures


@pytest.mark.parametrize("part", range(4))
def test_airframes(part: int, tmp_path: Path, record, size) -> None:
    texts = [path.read_text(encoding="utf-8") for path in sorted(AIRFRAMES.glob("*.toml"))]
    path, tries = tmp_path / "frame.toml", size(400, 8)
    failures = [
        *survive(ht.copters.load, path, texts, tries, part),
        *survive(ht.copters.load, path, texts, tries, part + 4, revalued),
    ]
    record("mutated airframes", 2 * tries, failures)


URDF = """<robot name="arm">
<link name="base"/>
<link name="upper"><inertial><origin xyz="0.1 -0.2 0.3" rpy="0.4 0.5 -0.6"/><mass value="1.5"/>
<inertia ixx="0.3" ixy="0.01" ixz="-0.02" iyy="0.4" iyz="0.03" izz="0.5"/></inertial></link>
<link name="lower"><inertial><mass value="0.5"/><inertia ixx="0.1" ixy="0" ixz="0" iyy="0.1" iyz="0" izz="0.1"/></inertial></link>
<joint name="shoulder" type="revolute"><parent link="base"/><child link="upper"/><origin xyz="0 0 0.5" rpy="0 0.1 0"/>
<axis xyz="0 1 0"/><limit lower="-1" upper="1" effort="10" velocity="3"/><dynamics damping="0.1" friction="0.0"/></joint>
<joint name="elbow" type="prismatic"><parent link="upper"/><child link="lower"/><axis xyz="0 0 1"/>
<limit lower="-1" upper="1" effort="10" velocity="3"/><mimic joint="shoulder" multiplier="0.5" offset="0.1"/></joint>
</robot>"""
MJCF = """<mujoco model="arm"><compiler angle="radian" autolimits="true"/>
<default><joint damping="0.1" armature="0.01"/></default>
<worldbody><body name="upper" pos="0 0 1" euler="0 0.1 0"><joint name="shoulder" type="hinge" axis="0 1 0" range="-1 1"/>
<geom type="capsule" fromto="0 0 0 0 0 -0.5" size="0.05" mass="1"/>
<body name="lower" pos="0 0 -0.5"><joint name="elbow" type="slide" axis="0 0 1" stiffness="10"/>
<inertial pos="0 0 -0.2" mass="0.5" diaginertia="0.1 0.1 0.05"/></body></body></worldbody>
<actuator><motor name="m" joint="shoulder" gear="2"/></actuator></mujoco>"""


@pytest.mark.parametrize("part", range(4))
def test_robots(part: int, tmp_path: Path, record, size) -> None:
    from heavytop.io.robot_files import load

    tries = size(550, 15)
    record("mutated robot files", tries, survive(load, tmp_path / "robot.xml", [URDF, MJCF], tries, part))


def test_the_damage_is_seen(tmp_path: Path) -> None:
    """The mutations do change something: without any, all files load."""
    from heavytop.io.robot_files import load

    for name, text in (("a.urdf", URDF), ("b.xml", MJCF)):
        (tmp_path / name).write_text(text)
        assert load(tmp_path / name) is not None
    rng = np.random.default_rng(0)
    assert len({mutated(URDF, rng) for _ in range(50)}) > 40
    cache = Cache(tmp_path / "cache")
    Kernel(trace(lambda x: 2 * x, {"x": ()}, name="f"), cache=cache)
    (path,) = cache.folder.iterdir()
    assert damaged(path.read_bytes(), rng) != path.read_bytes()
