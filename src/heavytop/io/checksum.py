"""A checksum at the end of a file: found before anything else reads it, so that damage is an error and nothing else.

HDF5 has no checksum of its own for contiguous data, and a flipped bit in its tables can lead it astray for minutes. It ignores
what follows its own end, so the seal does not keep other programs from reading the file.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from heavytop.errors import FileFormatError

_MAGIC = b"HTOPSEAL"
_LENGTH = len(_MAGIC) + 8 + 32
_CHUNK = 2**24


def seal(content: bytes | memoryview) -> bytes:
    """The bytes to append: a mark, the length of the content, its SHA-256."""
    return _MAGIC + len(content).to_bytes(8, "little") + hashlib.sha256(content).digest()


def check_seal(path: Path) -> None:
    """Raise a FileFormatError for a file whose content is not what its seal says.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "file"
    ...     _ = path.write_bytes(b"content" + seal(b"content"))
    ...     check_seal(path)
    ...     _ = path.write_bytes(b"Content" + seal(b"content"))
    ...     try:
    ...         check_seal(path)
    ...     except FileFormatError as error:
    ...         print(str(error).partition(" is ")[2])
    damaged or was changed: its checksum does not match.
    """
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - _LENGTH))
            tail = file.read()
            if size < _LENGTH or not tail.startswith(_MAGIC):
                raise FileFormatError(
                    f"{str(path)!r} has no checksum at its end: it was cut short, changed or not written by Run.save of this "
                    "version. Run.load(path, checked=False) reads it without the check, if you trust it."
                )
            if int.from_bytes(tail[8:16], "little") != size - _LENGTH:
                raise FileFormatError(
                    f"{str(path)!r} is damaged or was changed: its length does not match its checksum."
                )
            file.seek(0)
            checksum, left = hashlib.sha256(), size - _LENGTH
            while left and (block := file.read(min(_CHUNK, left))):
                checksum.update(block)
                left -= len(block)
    except OSError as error:
        raise FileFormatError(f"cannot read {str(path)!r}: {error.strerror or error}.") from error
    if checksum.digest() != tail[16:]:
        raise FileFormatError(f"{str(path)!r} is damaged or was changed: its checksum does not match.")
