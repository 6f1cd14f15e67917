"""Code of others is never run, and nothing in the cache can bring the process down."""

import json
import os
import warnings
from pathlib import Path

import numpy as np
import pytest
from processes import finish

from heavytop.compile import Cache, CacheWarning, Kernel, trace
from heavytop.compile import cache as module

posix = pytest.mark.skipif(os.name != "posix", reason="owners and modes are those of POSIX")


@pytest.fixture(autouse=True)
def warn_again() -> None:
    module._warn_foreign.cache_clear()


def double():
    return trace(lambda x: 2 * x, {"x": (3,)}, name="double")


def made(folder: Path) -> Cache:
    cache = Cache(folder)
    Kernel(double(), fingerprint="f", cache=cache)
    return cache


@posix
def test_folders_that_others_can_write_are_not_used(tmp_path: Path) -> None:
    """An object swapped in such a folder was run without a word."""
    cache = made(tmp_path)
    for mode in (0o777, 0o770, 0o702):
        tmp_path.chmod(mode)
        module._warn_foreign.cache_clear()
        with pytest.warns(CacheWarning, match=r"can be written by others.*chmod go-w.*HEAVYTOP_CACHE"):
            assert Kernel.from_cache("f", cache=cache) is None
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # said once
            assert not cache.put("x", {}, b"")
            assert cache.get("x") is None
        assert not cache.stats().trusted
    tmp_path.chmod(0o755)
    assert Kernel.from_cache("f", cache=cache) is not None
    assert cache.stats().trusted


@posix
def test_files_that_others_can_write_are_not_used(tmp_path: Path) -> None:
    cache = made(tmp_path)
    for path in tmp_path.iterdir():
        path.chmod(0o666)
    with pytest.warns(CacheWarning, match="can be written by others"):
        assert Kernel.from_cache("f", cache=cache) is None
    assert len(list(tmp_path.iterdir())) == 2  # nothing of others is removed


@posix
def test_what_others_own_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = made(tmp_path)
    if os.geteuid() == 0:
        os.chown(tmp_path, 12345, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.warns(CacheWarning, match="belongs to another user"):
        assert Kernel.from_cache("f", cache=cache) is None
    assert not cache.put("x", {}, b"")


@posix
def test_users_without_a_home_have_a_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers without an account, as containers have: the home is unknown, and pathlib raises a RuntimeError."""

    def unknown() -> Path:
        raise RuntimeError("Could not determine home directory.")

    for name in ("HOME", "HEAVYTOP_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", unknown)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    cache = Cache()
    assert cache.folder == tmp_path / f"heavytop-{os.geteuid()}"
    assert cache.put("key", {}, b"code")
    assert cache.get("key") is not None
    assert cache.folder.stat().st_mode & 0o077 == 0


def test_a_cache_of_an_unknown_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEAVYTOP_CACHE", "~nobody that is known/cache")
    assert module.cache_folder() == Path("~nobody that is known/cache")


@posix
def test_entries_are_private_whatever_the_mask(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        cache = made(tmp_path / "new")
    finally:
        os.umask(old)
    assert (tmp_path / "new").stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in cache.folder.iterdir())
    assert Kernel.from_cache("f", cache=cache) is not None


FORGED = """
import json, sys, warnings
import numpy as np
from heavytop.compile import Cache, Kernel, trace
from heavytop.compile import cache as module
cache = Cache(sys.argv[1])
double = trace(lambda x: 2 * x, {"x": (3,)}, name="double")
Kernel(double, fingerprint="f", cache=cache)
other = trace(lambda x: np.sin(x), {"x": (40,)}, name="other")
Kernel(other, cache=Cache(sys.argv[1] + "-other"))
def entries(cache):
    found = {}
    for path in cache.folder.iterdir():
        body = path.read_bytes()[40:]
        stop = 8 + int.from_bytes(body[:8], "little")
        found[path] = json.loads(body[8:stop]), body[stop:]
    return found
foreign = next(data for _, data in entries(Cache(sys.argv[1] + "-other")).values() if data)
def forge(change):
    for path, (header, data) in entries(cache).items():
        key, meta = header["key"], header["meta"]
        result = change(key, meta, data)
        if result is not None:
            path.write_bytes(module._encode(*result))
def meta_of(**changes):
    def change(key, meta, data):
        if data:
            return key, {**meta, **changes}, data
        return key, {**meta, "meta": {**meta["meta"], **changes}}, data
    return change
cases = {
    "empty": lambda k, m, d: (k, m, b""),
    "half": lambda k, m, d: (k, m, d[: len(d) // 2]) if d else None,
    "zeros": lambda k, m, d: (k, m, bytes(len(d))) if d else None,
    "foreign": lambda k, m, d: (k, m, foreign) if d else None,
    "nothing": lambda k, m, d: (k, {}, d),
    "list": lambda k, m, d: (k, [1], d),
    "scratch": meta_of(scratch=0),
    "lanes": meta_of(lanes=16),
    "lanes none": meta_of(lanes=None),
    "negative": meta_of(scratch=-1),
    "text": meta_of(scratch="many"),
    "externals": meta_of(externals=["no_such_function_anywhere"]),
    "externals odd": meta_of(externals=5),
    "seconds": meta_of(compile_seconds="x"),
    "signature": meta_of(signature={"name": "f", "inputs": [["x", [100000]]], "outputs": [["out", [3]]]}),
    "signature odd": meta_of(signature=[]),
    "points": lambda k, m, d: (k, {**m, "points_to": 5}, d) if not d else None,
}
for name, change in cases.items():
    Kernel(double, fingerprint="f", cache=cache)  # whole again
    assert Kernel.from_cache("f", cache=cache).stats().cache_hit
    forge(change)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kernel = Kernel.from_cache("f", cache=cache)
        if kernel is not None:
            assert name in (), name
        kernel = Kernel(double, fingerprint="f", cache=cache)
    assert kernel.native
    np.testing.assert_array_equal(kernel([1.0, 2.0, 3.0])[0], [2.0, 4.0, 6.0])
for text in (b"", b"{", b"[]", b"5", b'{"key": 1}', b'{"key": "k", "meta": {}}', b"[" * 100000, b"\\xff"):
    body = len(text).to_bytes(8, "little") + text
    import hashlib
    for path in cache.folder.iterdir():
        path.write_bytes(module._MAGIC + hashlib.sha256(body).digest() + body)
    assert Kernel.from_cache("f", cache=cache) is None
    Kernel(double, fingerprint="f", cache=cache)
print("alive", len(cases))
"""


def test_wrong_content_with_a_right_checksum_is_a_miss(tmp_path: Path) -> None:
    """Empty and halved objects crashed; odd headers raised KeyError, JSONDecodeError, TypeError."""
    done = finish(FORGED, str(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith("alive")


def test_the_size_in_the_header_counts(tmp_path: Path) -> None:
    whole = module._encode("k", {}, b"data")
    assert module._decode("k", whole) == module.Entry({}, b"data")
    header = json.dumps({"key": "k", "meta": {}, "bytes": 7}).encode()
    import hashlib

    body = len(header).to_bytes(8, "little") + header + b"data"
    assert module._decode("k", module._MAGIC + hashlib.sha256(body).digest() + body) is None


def test_steppers_too(tmp_path: Path) -> None:
    """A stepper whose entry is odd is made anew."""
    code = """
import os, sys
from pathlib import Path
import heavytop as ht
from heavytop.compile import cache as module
def run():
    system = ht.System(name="pendulum")
    system.body("rod", joint=ht.Revolute("y"), inertia=ht.Inertia(1.0, com=(0, 0, -1)))
    return ht.simulate(system.derive(), ([0.1], [0.0]), 1.0, 0.01).q[-1, 0]
first = run()
count = 0
for path in Path(os.environ["HEAVYTOP_CACHE"]).iterdir():
    import json
    body = path.read_bytes()[40:]
    stop = 8 + int.from_bytes(body[:8], "little")
    header, data = json.loads(body[8:stop]), body[stop:]
    meta = header["meta"]
    if data:
        meta = {**meta, "scratch": 1, "tile": 1000}
        count += 1
    path.write_bytes(module._encode(header["key"], meta, data))
assert run() == first
print(count)
"""
    done = finish(code, HEAVYTOP_CACHE=str(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) >= 1


def test_results_stay_the_same(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(5, 3))
    first = Kernel(double(), fingerprint="f", cache=Cache(tmp_path))(x)[0]
    again = Kernel.from_cache("f", cache=Cache(tmp_path))
    assert again is not None
    np.testing.assert_array_equal(again(x)[0], first)
