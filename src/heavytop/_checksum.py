"""Checksum at the end of files, verified before anything else reads them: a mark, the length of the content, its SHA-256.

HDF5 has no checksum of contiguous data, and a flipped bit in its tables can keep it busy for minutes. HDF5 ignores trailing bytes, so other
programs can still read the file.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from heavytop.errors import FileFormatError

_MARK = b"HTOPSEAL"
_SIZE = len(_MARK) + 8 + 32
_BLOCK = 2**24


def seal(content: bytes | memoryview) -> bytes:
    """The bytes to append to the content of a file.

    >>> unsealed(b"content" + seal(b"content")), unsealed(b"Content" + seal(b"content"))
    (b'content', None)
    """
    return _seal(len(content), hashlib.sha256(content).digest())


def _seal(length: int, digest: bytes) -> bytes:
    return _MARK + length.to_bytes(8, "little") + digest


def unsealed(data: bytes) -> bytes | None:
    """The content of sealed bytes; None if they were changed."""
    content = data[:-_SIZE]
    return content if data[-_SIZE:] == seal(content) else None


def check_sealed_file(path: Path, remedy: str = "") -> None:
    """Raise a FileFormatError if the content of a file does not match its checksum; ``remedy`` is added if there is no checksum."""
    try:
        with open(path, "rb") as file:
            left = length = max(0, os.fstat(file.fileno()).st_size - _SIZE)
            checksum = hashlib.sha256()
            while left and (block := file.read(min(_BLOCK, left))):
                checksum.update(block)
                left -= len(block)
            tail = file.read()
    except OSError as error:
        raise FileFormatError(f"cannot read {str(path)!r}: {error.strerror or error}.") from error
    if not tail.startswith(_MARK):
        raise FileFormatError(
            f"{str(path)!r} has no checksum at its end: it was cut short, changed or not written by this version. {remedy}"
        )
    if tail != _seal(length, checksum.digest()):
        raise FileFormatError(f"{str(path)!r} is damaged or was changed: its checksum does not match.")
