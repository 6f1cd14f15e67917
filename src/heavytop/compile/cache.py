"""Disk cache of object code: checked, bounded, safe for many processes at once.

One file per entry. A file is written under a temporary name and then renamed, so a reader sees a whole file or
none; a checksum over the content finds what a full disk or a crash may still have damaged, and such a file counts
as absent. A folder that cannot be written is no error: then nothing is stored.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

_MAGIC = b"HTOPOBJ1"
_SUFFIX = ".htobj"
_TEMPORARY = ".part"
DEFAULT_LIMIT = 512 * 2**20
"""Total size of the cache in bytes at which the entries unused for longest are removed."""


def cache_folder() -> Path:
    """Where compiled code is kept: $HEAVYTOP_CACHE, or the platform's folder for caches."""
    if chosen := os.environ.get("HEAVYTOP_CACHE"):
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local") / "heavytop" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "heavytop"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "heavytop"


@dataclass(frozen=True)
class Entry:
    """What was stored under a key: plain data and object code."""

    meta: dict[str, Any]
    data: bytes


@dataclass(frozen=True)
class CacheStats:
    """State of the cache folder."""

    folder: Path
    entries: int
    bytes: int
    limit: int
    writable: bool


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

    def get(self, key: str) -> Entry | None:
        """The entry of a key, or None; a damaged file is removed."""
        path = self.path(key)
        try:
            content = path.read_bytes()
        except OSError:
            return None
        entry = _decode(key, content)
        with contextlib.suppress(OSError):
            if entry is None:
                path.unlink()
            else:
                os.utime(path)  # the eviction goes by time of use
        return entry

    def put(self, key: str, meta: dict[str, Any], data: bytes) -> bool:
        """Store an entry; False if the folder does not take it."""
        temporary: Path | None = None
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            handle, name = tempfile.mkstemp(dir=self.folder, suffix=_TEMPORARY)
            temporary = Path(name)
            with os.fdopen(handle, "wb") as file:
                file.write(_encode(key, meta, data))
            os.replace(temporary, self.path(key))
        except OSError:
            if temporary is not None:
                with contextlib.suppress(OSError):
                    temporary.unlink()
            return False
        self._evict()
        return True

    def clear(self) -> int:
        """Remove all entries and leftovers of killed processes; return how many files went."""
        removed = 0
        for path, _ in self._files(_SUFFIX, _TEMPORARY):
            with contextlib.suppress(OSError):
                path.unlink()
                removed += 1
        return removed

    def stats(self) -> CacheStats:
        """Number of entries and their size."""
        sizes = [status.st_size for _, status in self._files(_SUFFIX)]
        nearest = next((p for p in (self.folder, *self.folder.parents) if p.exists()), self.folder)
        return CacheStats(self.folder, len(sizes), sum(sizes), self.limit, os.access(nearest, os.W_OK))

    def _files(self, *suffixes: str) -> Iterator[tuple[Path, os.stat_result]]:
        try:
            paths = [p for p in self.folder.iterdir() if p.suffix in suffixes]
        except OSError:
            return
        for path in paths:
            with contextlib.suppress(OSError):
                yield path, path.stat()

    def _evict(self) -> None:
        """Bring the total below the limit; drop temporary files that no process can still be writing."""
        now = time.time()
        for path, status in self._files(_TEMPORARY):
            if now - status.st_mtime > 3600:
                with contextlib.suppress(OSError):
                    path.unlink()
        files = sorted(self._files(_SUFFIX), key=lambda item: item[1].st_mtime)
        total = sum(status.st_size for _, status in files)
        for path, status in files[:-1]:
            if total <= self.limit:
                break
            with contextlib.suppress(OSError):
                path.unlink()
            total -= status.st_size


def _encode(key: str, meta: dict[str, Any], data: bytes) -> bytes:
    header = json.dumps({"key": key, "meta": meta}).encode()
    body = len(header).to_bytes(8, "little") + header + data
    return _MAGIC + hashlib.sha256(body).digest() + body


def _decode(key: str, content: bytes) -> Entry | None:
    start = len(_MAGIC)
    body = content[start + 32 :]
    if content[:start] != _MAGIC or len(body) < 8 or hashlib.sha256(body).digest() != content[start : start + 32]:
        return None
    stop = 8 + int.from_bytes(body[:8], "little")
    header = json.loads(body[8:stop])
    return Entry(header["meta"], body[stop:]) if header["key"] == key else None


@cache
def source_stamp() -> str:
    """A fingerprint of this library's own source files, so that an entry made by other code is never used."""
    root = Path(__file__).resolve().parent.parent
    stamp = hashlib.sha256()
    for folder, folders, files in os.walk(root):
        folders.sort()
        for name in sorted(files):
            if name.endswith(".py"):
                status = os.stat(os.path.join(folder, name))
                stamp.update(f"{os.path.relpath(folder, root)}/{name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return stamp.hexdigest()
