"""The disk cache: hits, fingerprints, damage, concurrency, limits."""

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from processes import GUARD

from heavytop._files import whole_file
from heavytop.compile import Cache, Kernel, cache_folder, trace

SCRIPT = """
import sys
import numpy as np
from heavytop.compile import Kernel, trace
kernel = Kernel(trace(lambda x: np.sin(x) + x[0] * {tag}, {{"x": (3,)}}, name="tiny"))
assert kernel.native
print(kernel(np.arange(3.0))[0].tobytes().hex())
"""


def tiny(tag=1.0):
    return trace(lambda x: np.sin(x) + x[0] * tag, {"x": (3,)}, name="tiny")


def spawn(code, folder, **options):
    root = Path(__file__).resolve().parents[2]
    sources = os.pathsep.join(str(root / name) for name in ("src", "benchmarks", "theory"))
    environment = {**os.environ, "PYTHONPATH": sources, "HEAVYTOP_CACHE": str(folder)}
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    )


def test_hit_and_miss(tmp_path):
    cache = Cache(tmp_path)
    assert not Kernel(tiny(), cache=cache).stats().cache_hit
    assert Kernel(tiny(), cache=cache).stats().cache_hit
    assert not Kernel(tiny(2.0), cache=cache).stats().cache_hit
    assert not Kernel(tiny(), 1, cache=cache).stats().cache_hit
    assert cache.stats().entries == 3
    assert cache.clear() == 3
    assert cache.stats().entries == 0
    assert not Kernel(tiny(), cache=cache).stats().cache_hit


def test_fingerprint_skips_tracing(tmp_path):
    cache = Cache(tmp_path)

    def never():
        raise RuntimeError("must not be called")

    assert Kernel.from_cache("model-1", cache=cache) is None
    first = Kernel.cached("model-1", tiny, cache=cache)
    second = Kernel.cached("model-1", never, cache=cache)
    third = Kernel.from_cache("model-1", cache=cache)
    x = np.random.default_rng(0).normal(size=(5, 3))
    for kernel in (second, third):
        assert kernel.inputs == {"x": (3,)}
        assert kernel.outputs == {"out": (3,)}
        np.testing.assert_array_equal(kernel(x)[0], first(x)[0])
    assert Kernel.from_cache("model-2", cache=cache) is None
    assert Kernel.from_cache("model-1", 1, cache=cache) is None


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "garbage", "header"])
def test_damaged_files_are_replaced(tmp_path, damage):
    cache = Cache(tmp_path)
    expected = Kernel(tiny(), fingerprint="f", cache=cache)(np.ones(3))[0]
    for path in tmp_path.iterdir():
        content = bytearray(path.read_bytes())
        if damage == "cut":
            content = content[: len(content) // 2]
        elif damage == "flip":
            content[len(content) * 3 // 4] ^= 1
        elif damage == "empty":
            content = bytearray()
        elif damage == "garbage":
            content = bytearray(b"not a cache file" * 100)
        else:
            content[40:48] = b"\xff" * 8
        path.write_bytes(content)
    assert Kernel.from_cache("f", cache=cache) is None
    again = Kernel(tiny(), fingerprint="f", cache=cache)
    assert not again.stats().cache_hit
    np.testing.assert_array_equal(again(np.ones(3))[0], expected)
    assert Kernel.from_cache("f", cache=cache) is not None


def test_entry_of_another_key_is_not_used(tmp_path):
    cache = Cache(tmp_path)
    cache.put("a", {"x": 1}, b"data")
    os.replace(cache.path("a"), cache.path("b"))
    assert cache.get("b") is None


def test_source_changes_make_fingerprints_stale(tmp_path, monkeypatch):
    from heavytop.compile import loader as code

    cache = Cache(tmp_path)
    Kernel(tiny(), fingerprint="f", cache=cache)
    monkeypatch.setattr(code, "source_stamp", lambda: "other")
    assert Kernel.from_cache("f", cache=cache) is None


@pytest.mark.parametrize("package", ["heavytop", "heavytop_mechanics"])
def test_the_stamp_depends_on_all_packages(tmp_path, monkeypatch, package):
    """Functions of the companions count by their name, so their source files must be part of the stamp."""
    from heavytop.compile import cache as module

    (tmp_path / package / "inside").mkdir(parents=True)
    for file in ("__init__.py", "inside/__init__.py", "inside/formula.py"):
        (tmp_path / package / file).write_text("")
    spec = importlib.util.spec_from_file_location(
        package, tmp_path / package / "__init__.py", submodule_search_locations=[str(tmp_path / package)]
    )
    monkeypatch.setattr(module, "find_spec", lambda name: spec if name == package else None)
    stamp = module.source_stamp.__wrapped__
    before = stamp()
    assert stamp() == before
    (tmp_path / package / "inside" / "formula.py").write_text("x = 1")
    assert stamp() != before


def test_whether_an_entry_exists_is_answered_without_reading_it(tmp_path, monkeypatch):
    cache = Cache(tmp_path)
    cache.put("a", {}, b"data")
    monkeypatch.setattr(Cache, "_read", None)
    assert "a" in cache
    assert "b" not in cache


def test_unwritable_folder(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("a file where the folder should be")
    cache = Cache(blocked / "inside")
    kernel = Kernel(tiny(), fingerprint="f", cache=cache)
    assert kernel.native
    assert not kernel.stats().cache_hit
    assert cache.get("x") is None
    assert not cache.put("x", {}, b"")
    assert cache.clear() == 0
    assert cache.stats().entries == 0


def test_read_only_folder(tmp_path, monkeypatch):
    """Reading works, writing is given up silently."""
    cache = Cache(tmp_path)
    Kernel(tiny(), cache=cache)
    if os.geteuid() == 0:  # the superuser may write anywhere, so the system call fails

        def fail(*_, **__):
            raise PermissionError(30, "read-only file system")

        monkeypatch.setattr("heavytop._files.os.open", fail)
        monkeypatch.setattr("heavytop.compile.cache.os.utime", fail)
    else:
        tmp_path.chmod(0o500)
    assert Kernel(tiny(), cache=cache).stats().cache_hit
    assert not Kernel(tiny(5.0), cache=cache).stats().cache_hit
    assert not Kernel(tiny(5.0), cache=cache).stats().cache_hit
    tmp_path.chmod(0o700)


def test_least_recently_used_goes_first(tmp_path):
    cache = Cache(tmp_path, limit=3500)
    for k in range(3):
        cache.put(f"k{k}", {}, bytes(1000))
        os.utime(cache.path(f"k{k}"), (k + 1, k + 1))
    assert cache.get("k0") is not None  # used now, so k1 is the oldest
    cache.put("k3", {}, bytes(1000))
    assert [cache.get(f"k{k}") is not None for k in range(4)] == [True, False, True, True]
    assert cache.stats().bytes <= 3500
    assert Cache(tmp_path, limit=10).put("large", {}, bytes(5000))
    assert Cache(tmp_path).get("large") is not None


def test_leftovers_of_killed_processes_are_removed(tmp_path):
    cache = Cache(tmp_path)
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with whole_file(tmp_path / "a.htobj", "") as own:
        left = own.with_name(own.name.replace(f"-{os.getpid()}-", f"-{process.pid}-"))
        left.write_bytes(b"half")
        cache.put("k", {}, b"")
        assert left.exists()  # its writer lives
        process.kill()
        process.communicate()
        cache.put("k", {}, b"")
        assert not left.exists()
        assert own.exists()
        left.write_bytes(b"half")
        assert cache.clear() == 2


@pytest.mark.thorough
def test_killed_while_writing(tmp_path):
    """A process killed in the middle of a write leaves no entry, only a temporary file; the next one works."""
    code = """
import os, sys, time
from pathlib import Path
def hang(*_):
    print("writing", flush=True)
    time.sleep(60)
Path.replace = hang
""" + SCRIPT.format(tag=7.0)
    process = spawn(code, tmp_path)
    assert process.stdout.readline() == "writing\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    process.stderr.close()
    assert [".part" in p.suffixes for p in tmp_path.iterdir()] == [True]
    kernel = Kernel(tiny(7.0), cache=Cache(tmp_path))
    assert not kernel.stats().cache_hit
    np.testing.assert_allclose(kernel(np.arange(3.0))[0], np.sin(np.arange(3.0)))


@pytest.mark.thorough
def test_many_processes_at_once(tmp_path):
    """Fifty processes compile the same function into one folder."""
    code = SCRIPT.format(tag=3.0)
    results = []
    for _ in range(5):
        processes = [spawn(code, tmp_path) for _ in range(10)]
        for process in processes:
            out, err = process.communicate(timeout=GUARD)
            assert process.returncode == 0, err
            results.append(out)
    assert len(results) == 50
    assert len(set(results)) == 1
    assert [p.suffix for p in tmp_path.iterdir()] == [".htobj"]


@pytest.mark.thorough
def test_cached_kernel_is_only_loaded_in_a_new_process(tmp_path):
    """Nothing is traced, translated or compiled; how long that takes is a row of ``heavytop bench ready``."""
    Kernel(tiny(), fingerprint="quick", cache=Cache(tmp_path))
    entries = {path: path.read_bytes() for path in tmp_path.iterdir()}
    code = """
import sys
import llvmlite.binding as llvm
import numpy as np
from heavytop.compile import Kernel, loader, program

def never(*arguments, **options):
    raise RuntimeError("a cached kernel does no work")

trace = sys.modules["heavytop.compile.trace"]
trace.make_function = program.program_from_function = loader.compile_side_by_side = llvm.create_pass_builder = never
kernel = Kernel.from_cache("quick")
print(kernel(np.ones(3))[0].tolist(), kernel.stats().cache_hit, {"casadi", "sympy", "scipy"} & sys.modules.keys())
"""
    out, err = spawn(code, tmp_path).communicate(timeout=GUARD)
    assert out.split("]") == [f"{(np.sin(np.ones(3)) + 1.0).tolist()}"[:-1], " True set()\n"], err
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == entries


def test_folder_choice(monkeypatch, tmp_path):
    monkeypatch.setenv("HEAVYTOP_CACHE", str(tmp_path / "chosen"))
    assert cache_folder() == tmp_path / "chosen"
    monkeypatch.delenv("HEAVYTOP_CACHE")
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "heavytop"
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    assert cache_folder() == tmp_path / "Library" / "Caches" / "heavytop"
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert cache_folder() == tmp_path / "local" / "heavytop" / "cache"
