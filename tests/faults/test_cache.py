"""Code of others is never run, and nothing in the cache can bring the process down."""

import os
import warnings
from pathlib import Path

import numpy as np
import pytest

from heavytop.compile import Cache, CacheWarning, Kernel, cache as module, trace

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


def test_the_entry_of_another_key_is_a_miss(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    assert cache.put("a", {}, b"code")
    cache.path("a").rename(cache.path("b"))
    assert cache.get("b") is None


def test_results_stay_the_same(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(5, 3))
    first = Kernel(double(), fingerprint="f", cache=Cache(tmp_path))(x)[0]
    again = Kernel.from_cache("f", cache=Cache(tmp_path))
    assert again is not None
    np.testing.assert_array_equal(again(x)[0], first)
