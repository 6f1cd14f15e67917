"""Files appear whole or not at all, alone and as a set; damaged files are rejected before anything reads them."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from processes import finish, shell, start

import heavytop as ht
from heavytop._checksum import seal
from heavytop._files import sweep_leftovers, whole_file, write_set, write_whole
from heavytop.compile import export_c, trace
from heavytop.errors import FileFormatError

OLD = {"a.h": "old", "a.c": "old", "Makefile": "old"}
NEW = {"a.h": "new", "a.c": "new", "Makefile": "new"}


def read_set(folder: Path) -> dict[str, str]:
    return {p.name: p.read_text() for p in folder.iterdir()}


# --- full disk -------------------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_a_full_disk_does_not_end_the_process(small_disk: Path) -> None:
    """HDF5 crashed the process when it closed a file on a full disk."""
    code = """
import sys
import heavytop as ht
from heavytop.errors import FileFormatError
system = ht.System(name="pendulum")
system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
run = ht.simulate(system.derive(), ([0.1], [0.0]), 20.0, 0.01)
try:
    run.save(sys.argv[1])
except FileFormatError as error:
    print(error)
"""
    done = finish(code, str(small_disk / "run.nc"))
    assert done.returncode == 0, done.stderr
    assert "No space left on device" in done.stdout
    assert list(small_disk.iterdir()) == []


@pytest.mark.thorough
def test_the_shell_reports_a_full_disk(small_disk: Path) -> None:
    arguments = ["simulate", "pendulum", "--until", "20", "--every", "1", "--out", str(small_disk / "run.nc")]
    done = shell(*arguments)
    assert done.returncode == 2, done.stderr
    assert "No space left" in done.stdout + done.stderr
    assert list(small_disk.iterdir()) == []


@pytest.mark.thorough
def test_a_full_disk_keeps_the_old_files(run: ht.Run, small_disk: Path) -> None:
    kept = small_disk / "out"
    kept.mkdir()
    write_set(kept, OLD, "a.h")
    (small_disk / "run.png").write_text("old")
    (small_disk / "run.html").write_text("old")
    huge = dict.fromkeys(OLD, "x" * 50000)
    (kept / "notes.txt").write_text("mine")
    for write in (
        lambda: run.plot(small_disk / "run.png"),
        lambda: run.show(small_disk / "run.html"),
        lambda: write_set(kept, huge, "a.h"),
        lambda: write_set(small_disk / "other", huge, "a.h"),
    ):
        with pytest.raises(FileFormatError, match="No space left"):
            write()
    assert sorted(p.name for p in small_disk.iterdir()) == ["out", "run.html", "run.png"]
    assert read_set(kept) == OLD | {"notes.txt": "mine"}
    assert (small_disk / "run.png").read_text() == "old"


# --- places that cannot be written -----------------------------------------------------------------------------------------


def writers(run: ht.Run) -> dict[str, Callable[[Path], object]]:
    function = {"f": trace(lambda x: 2 * x, {"x": ()}, name="f")}
    return {
        "netcdf": run.save,
        "plot": lambda path: run.plot(path.with_suffix(".png")),
        "page": run.show,
        "export": lambda path: export_c(path, function),
    }


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["netcdf", "plot", "page", "export"])
def test_places_that_cannot_be_written(run: ht.Run, tmp_path: Path, kind: str) -> None:
    write = writers(run)[kind]
    (tmp_path / "file").write_text("old")
    for path in (tmp_path / ("n" * 300), tmp_path / "file" / "inside", tmp_path / "nul\0l", Path("/proc/no/where")):
        with pytest.raises(FileFormatError):
            write(path)
    assert read_set(tmp_path) == {"file": "old"}


def test_names_as_long_as_the_disk_takes(run: ht.Run, tmp_path: Path) -> None:
    path = tmp_path / ("n" * 252 + ".nc")
    run.save(path)
    np.testing.assert_array_equal(ht.Run.load(path).q, run.q)


def test_a_folder_that_vanishes(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()

    def write() -> None:
        with whole_file(folder / "a.txt", "a.txt") as temporary:
            temporary.unlink()
            folder.rmdir()

    with pytest.raises(FileFormatError, match="No such file"):
        write()
    assert list(tmp_path.iterdir()) == []


def test_no_permission(run: ht.Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run.nc").write_text("old")

    def fail(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("heavytop._files.os.open", fail)  # root may write anywhere
    with pytest.raises(FileFormatError, match="Permission denied"):
        run.save(tmp_path / "run.nc")
    assert read_set(tmp_path) == {"run.nc": "old"}


# --- sets ------------------------------------------------------------------------------------------------------------------

KILLED = """
import os, signal, sys
from pathlib import Path
import heavytop._files as files
left = int(sys.argv[2])
def trip(event, arguments):
    global left
    if event in ("os.rename", "os.mkdir", "open", "os.remove", "os.rmdir", "os.chmod", "ctypes.call_function") and armed:
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
armed = False
sys.addaudithook(trip)
new = {"a.h": "new", "a.c": "new", "Makefile": "new"}
armed = True
files.write_set(sys.argv[1], new, "a.h")
"""


@pytest.mark.thorough
@pytest.mark.parametrize("foreign", [False, True])
def test_a_set_is_never_mixed(tmp_path: Path, foreign: bool) -> None:
    """Killed before every single change of the disk: the old set, the new one, or one without its header."""
    seen = set()
    for step in range(60):
        folder = tmp_path / f"out{step}"
        write_set(folder, OLD, "a.h")
        if foreign:
            (folder / "notes.txt").write_text("mine")
        done = finish(KILLED, str(folder), str(step))
        found = {k: v for k, v in read_set_of_files(folder).items() if k != "notes.txt"}
        if foreign:
            assert (folder / "notes.txt").read_text() == "mine"
            assert found in (OLD, NEW) or "a.h" not in found
        else:
            assert found in (OLD, NEW)
        seen.add(str(sorted(found.items())))
        if done.returncode == 0:
            break
        assert done.returncode == -signal.SIGKILL, done.stderr
    else:
        raise AssertionError("the export never came to its end")
    assert len(seen) >= 2
    write_set(folder, NEW, "a.h")
    sweep_leftovers(tmp_path)
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".")]


def read_set_of_files(folder: Path) -> dict[str, str]:
    return {p.name: p.read_text() for p in folder.iterdir() if not p.name.startswith(".")}


def test_an_error_puts_the_old_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_set(tmp_path, OLD, "a.h")
    (tmp_path / "notes.txt").write_text("mine")
    rename, calls = Path.rename, []

    def fifth_fails(self: Path, target: Path) -> Path:
        calls.append(target)
        if len(calls) == 5:
            raise OSError(5, "Input/output error")
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", fifth_fails)
        with pytest.raises(FileFormatError, match="Input/output error"):
            write_set(tmp_path, NEW, "a.h")
    assert read_set(tmp_path) == OLD | {"notes.txt": "mine"}
    write_set(tmp_path, NEW, "a.h")
    assert read_set(tmp_path) == NEW | {"notes.txt": "mine"}


def test_a_later_process_removes_what_a_killed_one_left(tmp_path: Path) -> None:
    code = """
import sys, time
from heavytop._files import whole_file
with whole_file(sys.argv[1], "a.txt") as temporary:
    print("writing", flush=True)
    time.sleep(60)
"""
    process = start(code, str(tmp_path / "a.txt"))
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    sweep_leftovers(tmp_path)
    assert len(list(tmp_path.iterdir())) == 1  # its writer lives
    process.kill()
    process.communicate()
    assert len(list(tmp_path.iterdir())) == 1
    write_whole(tmp_path / "a.txt", "whole", "a.txt")
    assert read_set(tmp_path) == {"a.txt": "whole"}


def test_permissions_are_those_of_the_user(tmp_path: Path) -> None:
    write_whole(tmp_path / "a.txt", "a", "a.txt")
    (tmp_path / "b.txt").touch()
    assert (tmp_path / "a.txt").stat().st_mode == (tmp_path / "b.txt").stat().st_mode
    (tmp_path / "a.txt").chmod(0o640)
    write_whole(tmp_path / "a.txt", "b", "a.txt")
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o640


# --- damaged files ---------------------------------------------------------------------------------------------------------


def test_every_damage_is_found(run: ht.Run, tmp_path: Path) -> None:
    run.save(tmp_path / "run.nc")
    content = (tmp_path / "run.nc").read_bytes()
    rng = np.random.default_rng(0)
    damaged = [content[: int(k)] for k in rng.integers(0, len(content), 40)]
    for place in rng.integers(0, len(content), 200):
        flipped = bytearray(content)
        flipped[place] ^= 1 << int(rng.integers(8))
        damaged.append(bytes(flipped))
    damaged += [content + b"x", content[:100] + content[101:], b""]
    for case in damaged:  # a flipped bit hung for half a minute
        (tmp_path / "damaged.nc").write_bytes(case)
        with pytest.raises(FileFormatError):
            ht.Run.load(tmp_path / "damaged.nc")


def test_shapes_beyond_the_file_are_rejected(run: ht.Run, tmp_path: Path) -> None:
    """A forged file with a right checksum requires 8 TB."""
    path = tmp_path / "run.nc"
    with h5py.File(path, "w") as file:
        file.create_dataset("q", shape=(10**12,), dtype=float, chunks=(1000,))
    content = path.read_bytes()
    path.write_bytes(content + seal(content))
    with pytest.raises(FileFormatError, match="'q' claims 8000000000000 bytes in a file of"):
        ht.Run.load(path)


def test_a_channel_that_claims_numbers_it_does_not_have(run: ht.Run, tmp_path: Path) -> None:
    from heavytop.io import netcdf

    data = run.to_xarray()
    text = data["metadata"].values.item().replace('"channels": {}', '"channels": {"x": [1000000, 1000000]}')
    assert "1000000" in text
    made = netcdf._netcdf(data.assign(metadata=((), np.array(text, dtype=object))))
    (tmp_path / "run.nc").write_bytes(bytes(made) + seal(made))
    with pytest.raises(FileFormatError, match="numbers of channel 'x' are missing"):
        ht.Run.load(tmp_path / "run.nc")


def test_files_of_other_programs_read_ours(run: ht.Run, tmp_path: Path) -> None:
    import xarray

    run.save(tmp_path / "run.nc")
    with xarray.open_dataset(tmp_path / "run.nc") as data:  # the engine is guessed from the first bytes
        np.testing.assert_array_equal(data.q.values, run.q)
        assert data.time.attrs["units"] == "s"


def test_the_descriptor_is_closed(run: ht.Run, tmp_path: Path) -> None:
    if not Path("/proc/self/fd").is_dir():
        pytest.skip("descriptors are counted in /proc")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        run.save(tmp_path / "run.nc")
        ht.Run.load(tmp_path / "run.nc")
    assert len(os.listdir("/proc/self/fd")) <= before + 1


@pytest.mark.thorough
def test_a_failed_save_leaves_nothing_for_the_collector() -> None:
    """A view of the file in memory stayed in the frames of the error: collecting it complained, and ended Python 3.12.1."""
    code = """
import gc
import heavytop as ht
from heavytop.errors import FileFormatError
run = ht.simulate(ht.library.pendulum().derive(), ([1.0], [0.0]), until=0.1, step=0.01)
def fail():
    try:
        run.save("/dev/null/run.nc")
    except FileFormatError as error:
        kept = error  # in a cycle: the error, its traceback, this frame
    assert kept
fail()
gc.collect()
print("alive")
"""
    done = finish(code)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "alive", "")
