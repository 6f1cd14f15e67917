"""Files of the chunks of a store: encoded by zarr in memory, then put in place whole or not at all, and on the disk before they are marked as done.

zarr would write them one by one, without waiting for the disk, and a killed process would leave its partial files behind.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from heavytop._files import work_folder


def encoded(array: Any, region: tuple[slice, ...], values: np.ndarray) -> dict[str, bytes]:
    """Name -> content of the files of a zarr array with values in a region; chunks that hold only the fill value have none."""
    from zarr import Array, AsyncArray
    from zarr.storage import MemoryStore, StorePath

    files: dict[str, Any] = {}
    memory = Array(AsyncArray(array.metadata, StorePath(MemoryStore(files), array.path)))
    memory[region] = values
    return {name: buffer.to_bytes() for name, buffer in files.items()}


def digest(files: Mapping[str, bytes | None]) -> int:
    """62 bits that change with the names and contents of files; None: the file does not exist."""
    made = blake2b(digest_size=8)
    for name, content in sorted(files.items()):
        checksum = "none" if content is None else f"{len(content)} {crc32(content)}"  # fast: it delays the sweep
        made.update(f"{name} {checksum}\n".encode())
    return int.from_bytes(made.digest(), "little") >> 2


def content_of(path: Path) -> bytes | None:
    """The content of a file; None if it does not exist."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def file_name(array: str, place: Sequence[int]) -> str:
    """Name of the file of a chunk in the store."""
    return "/".join((array, "c", *map(str, place)))


def put(root: Path, files: Mapping[str, bytes | None], temporary: Path) -> None:
    """Put files in place below ``root``; None removes a file. On return all of it is on the disk.

    ``temporary`` : a folder of the same file system in which the files are written before they get their names.
    """
    folders: dict[Path, None] = {}
    with work_folder(temporary, "chunk") as work:
        written = {work / str(k): item for k, item in enumerate(files.items()) if item[1] is not None}
        for path, (_, content) in written.items():
            path.write_bytes(content or b"")
        _sync(written)
        for path, (name, _) in written.items():
            folders |= dict.fromkeys(_make((root / name).parent))
            path.replace(root / name)
            folders[(root / name).parent] = None
    for name, content in files.items():
        if content is None and (root / name).exists():
            (root / name).unlink()
            folders[(root / name).parent] = None
    _sync(folders)


def _make(folder: Path) -> list[Path]:
    """Make a folder; return the folders that have a new entry."""
    if folder.is_dir():
        return []
    above = _make(folder.parent)
    folder.mkdir(exist_ok=True)
    return [*above, folder.parent]


def sync_folder(folder: Path) -> None:
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
