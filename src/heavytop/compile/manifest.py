"""What must hold before object code from a file is loaded: a whole object, and metadata that belong to it.

Wrong sizes beside right code would let it write where it must not. So the code carries a digest of the sizes it was made for, and
metadata of another digest count as absent.
"""

from __future__ import annotations

import hashlib
import json
import struct
from math import prod
from typing import Any

DIGEST_NAME = "heavytop_sizes"
DIGEST_BYTES = 32
_NUMBERS = ("lanes", "scratch", "tile", "instructions", "chunks")
_GROUPS = ("state", "held", "constants", "tables", "record")


def sizes_digest(meta: dict[str, Any]) -> bytes:
    """A digest of all numbers in the metadata that decide on addresses.

    Raises
    ------
    ValueError : the metadata are not of the kind that kernels and steppers write.
    """
    try:
        numbers: dict[str, Any] = {name: _count(meta[name]) for name in _NUMBERS if name in meta}
        if "signature" in meta:
            described = meta["signature"]
            _name(described["name"])
            for group in ("inputs", "outputs"):
                numbers[group] = list(_sizes(described[group]).values())
        if "layout" in meta:
            described = meta["layout"]
            sizes = _sizes(described["shapes"])
            numbers["buffers"] = list(sizes.values())
            numbers["groups"] = [[sizes[_name(name)] for name in described[group]] for group in _GROUPS]
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"unexpected metadata: {error!r}") from None
    return hashlib.sha256(json.dumps(numbers, sort_keys=True).encode()).digest()


def digest_constant(digest: bytes) -> str:
    """The line of IR that puts a digest into the object."""
    content = "".join(f"\\{byte:02X}" for byte in digest)
    return f'\n@{DIGEST_NAME} = constant [{DIGEST_BYTES} x i8] c"{content}"\n'


def checked_metadata(meta: dict[str, Any], size: int) -> dict[str, Any]:
    """The metadata of an entry with ``size`` bytes of code, or a ValueError."""
    externals, seconds = meta.get("externals"), meta.get("compile_seconds")
    if not isinstance(externals, list) or not all(isinstance(name, str) for name in externals):
        raise ValueError("unexpected metadata: externals")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        raise ValueError("unexpected metadata: compile_seconds")
    sizes = meta.get("objects")
    if not isinstance(sizes, list) or not sizes or sum(_count(n) for n in sizes) != size:
        raise ValueError("unexpected metadata: objects")
    if _count(meta.get("lanes", 1)) < 1:
        raise ValueError("unexpected metadata: lanes")
    return meta


def whole_object(data: bytes) -> bool:
    """Whether all parts that an ELF or Mach-O object names lie within the data; LLVM reads beyond its end otherwise.

    >>> whole_object(b""), whole_object(b"\\x7fELF" + bytes(60))
    (False, False)
    """
    try:
        if data[:6] == b"\x7fELF\x02\x01":
            return _whole_elf(data)
        if data[:4] == b"\xcf\xfa\xed\xfe":
            return _whole_macho(data)
    except struct.error:
        pass
    return False


def _whole_elf(data: bytes) -> bool:
    (table,) = struct.unpack_from("<Q", data, 0x28)
    entry, count, names = struct.unpack_from("<HHH", data, 0x3A)
    if entry < 64 or not count > 0 or names >= count or table + entry * count > len(data):
        return False
    for k in range(count):
        kind, _, _, offset, size = struct.unpack_from("<IQQQQ", data, table + entry * k + 4)
        if kind != 8 and offset + size > len(data):  # 8: a part without bytes in the file
            return False
    return True


def _whole_macho(data: bytes) -> bool:
    count, size = struct.unpack_from("<II", data, 16)
    at, end = 32, 32 + size
    if end > len(data):
        return False
    for _ in range(count):
        kind, length = struct.unpack_from("<II", data, at)
        if length < 8 or at + length > end:
            return False
        if kind == 0x19:  # a segment
            offset, extent = struct.unpack_from("<QQ", data, at + 40)
            if offset + extent > len(data):
                return False
        at += length
    return True


def _sizes(pairs: Any) -> dict[str, int]:
    return {_name(name): prod(_count(n) for n in shape) for name, shape in pairs}


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**48:
        raise ValueError(f"unexpected metadata: {value!r} is not a count")
    return value


def _name(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"unexpected metadata: {value!r} is not a name")
    return value
