"""Chunks of zarr arrays as files: encoded as zarr encodes them, whole or not at all, and on the disk before anything says that they are there.

A chunk of a sweep is a dozen small files. Handing them to zarr one by one costs more than making them, and leaves pieces behind where
the process is killed; so they are written here, by the format (zarr v3: ``bytes`` or ``vlen-utf8``, then ``zstd`` with a checksum).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from heavytop._files import work_folder

LEVEL, LEAST_LEVEL = 0, -1
"""Of the compression: the usual one of zstd, and one that leaves numbers as they are; what is read does not depend on it."""
PROBE, WORTH = 32_768, 0.85
"""Bytes of a chunk that are compressed first, and the share that must be left of them at most for the rest to be compressed, too."""


def compressor() -> Any:
    """What arrays of a store are made with."""
    from zarr.codecs import ZstdCodec

    return ZstdCodec(level=LEVEL, checksum=True)


@cache
def _codecs() -> tuple[Any, Any, Any]:
    from numcodecs import VLenUTF8, Zstd

    return Zstd(level=LEVEL, checksum=True), Zstd(level=LEAST_LEVEL, checksum=True), VLenUTF8()


def _compressed(content: np.ndarray) -> bytes:
    """Numbers as a frame of zstd. Random ones would take long for a few percent: a piece from the middle tells."""
    usual, quick, _ = _codecs()
    flat = content.reshape(-1).view(np.uint8)
    if len(flat) > 4 * PROBE:
        begin = (len(flat) - PROBE) // 2
        if len(usual.encode(flat[begin : begin + PROBE])) > WORTH * PROBE:
            return quick.encode(flat)
    return usual.encode(flat)


@dataclass(frozen=True)
class ChunkFormat:
    """How the chunks of an array are written: their shape, type (``str`` for texts) and the value that needs no file."""

    shape: tuple[int, ...]
    dtype: Any
    fill: Any

    def encoded(self, values: np.ndarray) -> bytes | None:
        """Values of one chunk as the content of its file; None if all of them are the fill value, as no file says so too."""
        usual, _, texts = _codecs()
        whole = np.asarray(values, dtype=object if self.dtype is str else self.dtype)
        if self.dtype is str:
            if not any(value != self.fill for value in whole.reshape(-1).tolist()):
                return None
        elif _all_fill(whole, self.fill):
            return None
        if whole.shape != self.shape:  # at the edge of the array
            padded = np.full(self.shape, self.fill, dtype=whole.dtype)
            padded[tuple(slice(0, n) for n in whole.shape)] = whole
            whole = padded
        if self.dtype is str:
            return usual.encode(texts.encode(whole.reshape(-1)))
        return _compressed(np.ascontiguousarray(whole, dtype=whole.dtype.newbyteorder("<")))

    def decoded(self, content: bytes | None) -> np.ndarray:
        """Values of one chunk from the content of its file, as it was written: whole, also at the edge of the array."""
        if content is None:
            return np.full(self.shape, self.fill, dtype=object if self.dtype is str else self.dtype)
        usual, _, texts = _codecs()
        raw = usual.decode(content)
        if self.dtype is str:
            return np.asarray(texts.decode(raw), dtype=object).reshape(self.shape)
        return np.frombuffer(raw, dtype=self.dtype.newbyteorder("<")).reshape(self.shape)


def digest(files: Mapping[str, bytes | None]) -> int:
    """62 bits that change with the names and contents of files, and with which of them there are."""
    made = blake2b(digest_size=8)
    for name, content in sorted(files.items()):
        told = "none" if content is None else f"{len(content)} {crc32(content)}"  # quick: it costs the sweep a share
        made.update(f"{name} {told}\n".encode())
    return int.from_bytes(made.digest(), "little") >> 2


def content_of(path: Path) -> bytes | None:
    """The content of a file; None if there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _all_fill(values: np.ndarray, fill: Any) -> bool:
    if not values.size:
        return True
    first = values.reshape(-1)[0]
    if not (first == fill or (first != first and fill != fill)):
        return False
    return bool(np.all(np.isnan(values) if fill != fill else values == fill))


def file_of(root: Path, name: str, place: Sequence[int]) -> Path:
    """The file of a chunk."""
    return root.joinpath(name, "c", *map(str, place))


def put(files: Mapping[Path, bytes | None], beside: Path) -> None:
    """Put contents in their places; None takes a file away. When this returns, all of it is on the disk.

    Parameters
    ----------
    beside : folder of the same file system in which the files are written before they get their names.
    """
    folders: dict[Path, None] = {}
    with work_folder(beside, "chunk") as work:
        written = {work / str(k): item for k, item in enumerate(files.items()) if item[1] is not None}
        for temporary, (_, content) in written.items():
            temporary.write_bytes(content or b"")
        _sync(written)
        for temporary, (target, _) in written.items():
            folders |= dict.fromkeys(_made(target.parent))
            temporary.replace(target)
            folders[target.parent] = None
    for target, content in files.items():
        if content is None and target.exists():
            target.unlink()
            folders[target.parent] = None
    _sync(folders)


def _made(folder: Path) -> list[Path]:
    """Make a folder; the folders that have a new entry by that."""
    if folder.is_dir():
        return []
    above = _made(folder.parent)
    folder.mkdir(exist_ok=True)
    return [*above, folder.parent]


def settle(folder: Path) -> None:
    """Wait until all files of a folder are on the disk."""
    _sync([*folder.rglob("*"), folder])


def _sync(paths: Iterable[Path]) -> None:
    for path in paths:
        if os.name != "posix" and path.is_dir():
            continue
        handle = os.open(path, os.O_RDONLY if os.name == "posix" else os.O_RDWR)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
