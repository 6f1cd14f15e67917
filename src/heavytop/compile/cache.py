"""Disk cache of object code: checked, bounded, safe for concurrent processes.

One file per entry. A file is written under a temporary name and then renamed, so a reader sees a whole file or
none; a checksum detects damage by a full disk or a crash, and a damaged file counts
as absent. A folder that cannot be written is not an error: then nothing is stored.

Entries are run as code. So folders and files that another user owns or can write are not used, after a warning. Beyond that, entries
with a valid checksum are trusted.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from heavytop._checksum import seal, unsealed
from heavytop._files import sweep_leftovers, whole_file
from heavytop.errors import FileFormatError
from heavytop.functions import PACKAGES

_MAGIC = b"HTOPOBJ3"
_SUFFIX = ".htobj"
DEFAULT_LIMIT = 512 * 2**20
"""Total size in bytes above which the least recently used entries are removed."""


def cache_folder() -> Path:
    """Folder of compiled code: $HEAVYTOP_CACHE, or the platform's folder for caches.

    Users without a home (without an account, as in containers) get a private temporary folder.

    >>> import os
    >>> from unittest.mock import patch
    >>> with patch.dict(os.environ, {"HEAVYTOP_CACHE": "somewhere"}):
    ...     print(cache_folder())
    ...
    somewhere
    """
    if chosen := os.environ.get("HEAVYTOP_CACHE"):
        return Path(os.path.expanduser(chosen))  # the name of an unknown user stays as written, as in a shell
    try:
        if sys.platform == "win32":
            return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "heavytop" / "cache"
        if sys.platform == "darwin":
            return Path.home() / "Library" / "Caches" / "heavytop"
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "heavytop"
    except RuntimeError:
        number = os.geteuid() if hasattr(os, "geteuid") else "cache"
        return Path(os.environ.get("TMPDIR") or "/tmp") / f"heavytop-{number}"


class CacheWarning(UserWarning):
    """Warning that the cache of native code is not used."""


@dataclass(frozen=True)
class Entry:
    """Plain data and object code of a key."""

    meta: dict[str, Any]
    data: bytes


@dataclass(frozen=True)
class CacheStats:
    """State of the cache folder; ``trusted`` is False if other users can write to it."""

    folder: Path
    entries: int
    bytes: int
    limit: int
    writable: bool
    trusted: bool


class Cache:
    """A folder of checked entries.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cache = Cache(folder)
    ...     _ = cache.put("key", {"lanes": 4}, b"code")
    ...     cache.get("key").meta, cache.get("other")
    ({'lanes': 4}, None)
    """

    def __init__(self, folder: str | Path | None = None, limit: int = DEFAULT_LIMIT) -> None:
        self.folder = Path(folder) if folder is not None else cache_folder()
        self.limit = limit

    def path(self, key: str) -> Path:
        """File of a key."""
        return self.folder / (hashlib.sha256(key.encode()).hexdigest()[:40] + _SUFFIX)

    def __contains__(self, key: str) -> bool:
        """Whether there is a file for a key; it is not read."""
        path = self.path(key)
        return path.is_file() and _trusted(self.folder)

    def get(self, key: str) -> Entry | None:
        """The entry of a key, or None; a damaged file is removed."""
        path = self.path(key)
        content = self._read(path)
        if content is None:
            return None
        entry = _decode(key, content)
        with contextlib.suppress(OSError):
            if entry is None:
                path.unlink()
            else:
                os.utime(path)  # the eviction goes by time of use
        return entry

    def _read(self, path: Path) -> bytes | None:
        """Content of a file that only this user can write."""
        try:
            if not _trusted(self.folder):
                return None
            with open(path, "rb") as file:
                return file.read() if _trusted(path, os.fstat(file.fileno())) else None
        except OSError:
            return None

    def put(self, key: str, meta: dict[str, Any], data: bytes) -> bool:
        """Store an entry; False if the folder does not take it."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not _trusted(self.folder):
                return False
            # not durable: the checksum detects damage by a power failure
            with whole_file(self.path(key), "", mode=0o600, durable=False) as temporary:
                temporary.write_bytes(_encode(key, meta, data))
        except (OSError, FileFormatError):
            return False
        self._evict()
        return True

    def clear(self) -> int:
        """Remove all entries and leftovers of killed processes; return the number of files."""
        removed = 0
        for path, _ in self._files():
            with contextlib.suppress(OSError):
                path.unlink()
                removed += 1
        return removed + sweep_leftovers(self.folder)

    def stats(self) -> CacheStats:
        """Number of entries and their size."""
        sizes = [status.st_size for _, status in self._files()]
        nearest = next((p for p in (self.folder, *self.folder.parents) if p.exists()), self.folder)
        foreign = self.folder.exists() and _foreign(self.folder.stat())
        return CacheStats(
            self.folder, len(sizes), sum(sizes), self.limit, os.access(nearest, os.W_OK), trusted=not foreign
        )

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        try:
            paths = [p for p in self.folder.iterdir() if p.suffix == _SUFFIX and not p.name.startswith(".")]
        except OSError:
            return
        for path in paths:
            with contextlib.suppress(OSError):
                yield path, path.stat()

    def _evict(self) -> None:
        """Bring the total below the limit; remove leftovers of killed processes."""
        sweep_leftovers(self.folder)
        files = sorted(self._files(), key=lambda item: item[1].st_mtime)
        total = sum(status.st_size for _, status in files)
        for path, status in files[:-1]:
            if total <= self.limit:
                break
            with contextlib.suppress(OSError):
                path.unlink()
            total -= status.st_size


def _trusted(path: Path, status: os.stat_result | None = None) -> bool:
    """Whether only this user (or the administrator) can write a file or folder; warn if not."""
    status = path.stat() if status is None else status
    why = _foreign(status)
    if why:
        _warn_foreign(str(path), why)
    return not why


def _foreign(status: os.stat_result) -> str:
    """Who else can write it; empty if no one."""
    if sys.platform == "win32":  # folders of a user's profile belong to the user
        return ""
    if status.st_uid not in (os.geteuid(), 0):
        return f"belongs to another user (number {status.st_uid})"
    return "can be written by others" if status.st_mode & 0o022 else ""


@cache
def _warn_foreign(path: str, why: str) -> None:
    warnings.warn(
        f"the cache {path!r} {why} and is not used, since its content is run as code. Run chmod go-w {path!r} if it is yours, "
        "or set HEAVYTOP_CACHE to another folder. Until then every process compiles again.",
        CacheWarning,
        stacklevel=2,
    )


def _encode(key: str, meta: dict[str, Any], data: bytes) -> bytes:
    header = json.dumps({"key": key, "meta": meta, "bytes": len(data)}).encode()
    content = _MAGIC + len(header).to_bytes(8, "little") + header + data
    return content + seal(content)


def _decode(key: str, file: bytes) -> Entry | None:
    """The entry, or None for anything that :func:`_encode` does not write."""
    content = unsealed(file)
    if content is None or not content.startswith(_MAGIC):
        return None
    start = len(_MAGIC) + 8
    stop = start + int.from_bytes(content[len(_MAGIC) : start], "little")
    try:
        header = json.loads(content[start:stop])
        meta, data = header["meta"], content[stop:]
        fits = header["key"] == key and isinstance(meta, dict) and header["bytes"] == len(data)
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return Entry(meta, data) if fits else None


@cache
def source_stamp() -> str:
    """A digest of the source files of heavytop's packages, so that an entry made by other code is never used."""
    stamp = hashlib.sha256()
    for package in PACKAGES:
        spec = find_spec(package)
        for folder in (spec and spec.submodule_search_locations) or ():
            stamp.update("".join(sorted(_stamps(folder, package))).encode())
    return stamp.hexdigest()


def _stamps(folder: str, name: str) -> Iterator[str]:
    """Name, size and time of every source file in a folder."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith(".py"):
                status = entry.stat()
                yield f"{name}/{entry.name} {status.st_size} {status.st_mtime_ns}\n"
            elif entry.is_dir() and entry.name != "__pycache__":
                yield from _stamps(entry.path, f"{name}/{entry.name}")
