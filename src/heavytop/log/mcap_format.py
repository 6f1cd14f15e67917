"""MCAP files whose messages have a fixed size: written and read as arrays, a chunk at a time.

The layout is that of the MCAP specification (mcap.dev/spec); messages are CDR with ``ros2msg`` schemas, which Foxglove and PlotJuggler read. A
message without sequences and with constant texts has a fixed size, so a chunk is one structured array: millions of messages take seconds instead of
minutes.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any, BinaryIO
from zlib import crc32

import numpy as np

from heavytop.errors import FileFormatError

OWN_LIBRARY = "heavytop"
MAGIC = b"\x89MCAP0\r\n"
HEADER, FOOTER, SCHEMA, CHANNEL, MESSAGE, CHUNK, MESSAGE_INDEX, CHUNK_INDEX = 1, 2, 3, 4, 5, 6, 7, 8
STATISTICS, SUMMARY_OFFSET, DATA_END = 0x0B, 0x0E, 0x0F
CDR_LITTLE_ENDIAN = b"\x00\x01\x00\x00"
CHUNK_BYTES = 4 << 20
_MESSAGE_HEAD = 9 + 2 + 4 + 8 + 8
_SIZES = {"float64": 8, "int32": 4, "uint32": 4}


@dataclass(frozen=True, eq=False)
class Topic:
    """A channel of messages of fixed size.

    Attributes
    ----------
    schema, definition : name and text of the ROS 2 message.
    parts : (name, kind) of its fields in order; kind is float64, int32, uint32, a shape of float64, or the bytes of a constant text.
    fill : writes the fields of messages ``rows`` to a structured array.
    metadata : metadata of the channel.
    """

    name: str
    schema: str
    definition: str
    parts: Sequence[tuple[str, Any]]
    fill: Callable[[np.ndarray, slice], None]
    metadata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class OwnTopic:
    """A channel as it was read: columns (n,), type of its messages, units and original names of columns."""

    columns: Mapping[str, np.ndarray]
    type: str
    units: Mapping[str, str]
    names: Mapping[str, str]


# --- CDR ------------------------------------------------------------------------------------------------------------------------


def cdr_layout(parts: Sequence[tuple[str, Any]]) -> tuple[np.dtype, list[tuple[int, bytes]]]:
    """The structured type of a message with its encapsulation header, and (offset, bytes) of its constants.

    Numbers are aligned to their size, counted from the end of the header.

    >>> dtype, constants = cdr_layout([("sec", "int32"), ("name", b"hull"), ("x", "float64")])
    >>> dtype.fields["x"][1], dtype.itemsize, constants
    (20, 28, [(0, b'\\x00\\x01\\x00\\x00'), (8, b'\\x05\\x00\\x00\\x00hull\\x00')])
    """
    names, formats, offsets, at = [], [], [], 4
    constants = [(0, CDR_LITTLE_ENDIAN)]
    for name, kind in parts:
        size = 4 if isinstance(kind, bytes) else _SIZES[kind] if isinstance(kind, str) else 8
        at += -(at - 4) % size
        if isinstance(kind, bytes):
            text = struct.pack("<I", len(kind) + 1) + kind + b"\0"
            constants.append((at, text))
            at += len(text)
            continue
        shape = () if isinstance(kind, str) else tuple(kind)
        names.append(name)
        formats.append(((kind if isinstance(kind, str) else "float64"), shape))
        offsets.append(at)
        at += size * prod(shape)
    return np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": at}), constants


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack("<I", len(data)) + data


def _record(opcode: int, content: bytes) -> bytes:
    return struct.pack("<BQ", opcode, len(content)) + content


def _map(entries: Mapping[str, str]) -> bytes:
    content = b"".join(_string(k) + _string(v) for k, v in entries.items())
    return struct.pack("<I", len(content)) + content


# --- writing --------------------------------------------------------------------------------------------------------------------


def write_messages(file: BinaryIO, topics: Sequence[Topic], times: np.ndarray, library: str) -> None:
    """Write one message of every topic for each of the ``times`` (n,), int64 in ns, ascending."""
    rows = _Rows(topics)
    file.write(MAGIC + _record(HEADER, _string("ros2") + _string(library)))
    schemas = b"".join(
        _record(SCHEMA, struct.pack("<H", k + 1) + _string(t.schema) + _string("ros2msg") + _string(t.definition))
        for k, t in enumerate(topics)
    )
    channels = b"".join(
        _record(CHANNEL, struct.pack("<HH", k + 1, k + 1) + _string(t.name) + _string("cdr") + _map(t.metadata))
        for k, t in enumerate(topics)
    )
    file.write(schemas + channels)
    per_chunk = max(CHUNK_BYTES // rows.size, 1)
    indices = [
        rows.chunk(file, slice(k, min(k + per_chunk, len(times))), times) for k in range(0, len(times), per_chunk)
    ]
    file.write(_record(DATA_END, struct.pack("<I", 0)))
    start = file.tell()
    counts = b"".join(struct.pack("<HQ", k + 1, len(times)) for k in range(len(topics)))
    ends = (int(times[0]), int(times[-1])) if len(times) else (0, 0)
    statistics = struct.pack("<QHIIIIQQ", len(times) * len(topics), len(topics), len(topics), 0, 0, len(indices), *ends)
    groups = [
        (SCHEMA, schemas),
        (CHANNEL, channels),
        (STATISTICS, _record(STATISTICS, statistics + struct.pack("<I", len(counts)) + counts)),
        (CHUNK_INDEX, b"".join(indices)),
    ]
    summary, offsets, at = b"", b"", start
    for opcode, content in groups:
        if content:
            offsets += _record(SUMMARY_OFFSET, struct.pack("<BQQ", opcode, at, len(content)))
        summary += content
        at += len(content)
    footer = struct.pack("<BQQQ", FOOTER, 20, start, at)
    file.write(summary + offsets + footer + struct.pack("<I", crc32(summary + offsets + footer)) + MAGIC)


class _Rows:
    """All messages of one time as one row of a structured array."""

    def __init__(self, topics: Sequence[Topic]) -> None:
        self.topics, self.offsets, self.size = topics, [], 0
        names, formats, offsets, constants = [], [], [], []
        for k, topic in enumerate(topics):
            layout, fixed = cdr_layout(topic.parts)
            self.offsets.append(self.size)
            head = struct.pack("<BQHI", MESSAGE, 22 + layout.itemsize, k + 1, 0)
            constants.append((self.size, head))
            data = self.size + _MESSAGE_HEAD
            constants += [(data + at, text) for at, text in fixed]
            for label, at in (("sequence", 11), ("log", 15), ("publish", 23)):
                names.append(f"{k}.{label}")
                formats.append("<u4" if label == "sequence" else "<i8")
                offsets.append(self.size + at)
            names.append(f"{k}.data")
            formats.append(layout)
            offsets.append(data)
            self.size = data + layout.itemsize
        self.dtype = np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": self.size})
        blank = bytearray(self.size)
        for at, text in constants:
            blank[at : at + len(text)] = text
        self.blank = np.frombuffer(bytes(blank), np.uint8)

    def chunk(self, file: BinaryIO, rows: slice, times: np.ndarray) -> bytes:
        """Write the messages of some times with their indices; return the record for the summary."""
        n, now = rows.stop - rows.start, times[rows]
        raw = np.tile(self.blank, (n, 1))
        array = raw.view(self.dtype)[:, 0]
        for k, topic in enumerate(self.topics):
            array[f"{k}.sequence"] = np.arange(rows.start, rows.stop)
            array[f"{k}.log"] = array[f"{k}.publish"] = now
            topic.fill(array[f"{k}.data"], rows)
        start, size = file.tell(), raw.nbytes
        head = (
            struct.pack("<QQQI", int(now[0]), int(now[-1]), size, crc32(raw.data))
            + _string("")
            + struct.pack("<Q", size)
        )
        file.write(struct.pack("<BQ", CHUNK, len(head) + size) + head)
        file.write(raw.data)
        chunk_length, places, index_start = file.tell() - start, b"", file.tell()
        for k, at in enumerate(self.offsets):
            entries = np.empty((n, 2), dtype="<i8")
            entries[:, 0], entries[:, 1] = now, at + self.size * np.arange(n)
            places += struct.pack("<HQ", k + 1, file.tell())
            file.write(_record(MESSAGE_INDEX, struct.pack("<HI", k + 1, entries.nbytes) + entries.tobytes()))
        content = (
            struct.pack("<QQQQ", int(now[0]), int(now[-1]), start, chunk_length)
            + struct.pack("<I", len(places))
            + places
        )
        content += struct.pack("<Q", file.tell() - index_start) + _string("") + struct.pack("<QQ", size, size)
        return _record(CHUNK_INDEX, content)


# --- reading --------------------------------------------------------------------------------------------------------------------


def read_own_mcap(path: Path) -> dict[str, OwnTopic] | None:
    """The topics of a file written by :func:`write_messages`; None if another program wrote it."""
    data = path.read_bytes()
    reader = _Reader(data, str(path))
    opcode, content = reader.record(len(MAGIC))
    if opcode != HEADER or not reader.text(content, 4 + struct.unpack_from("<I", data, content)[0]).startswith(
        OWN_LIBRARY
    ):
        return None
    return reader.topics()


class _Reader:
    def __init__(self, data: bytes, name: str) -> None:
        self.data, self.name = data, name

    def wrong(self, why: str) -> FileFormatError:
        return FileFormatError(f"{self.name!r} is damaged or was changed: {why}.")

    def record(self, at: int) -> tuple[int, int]:
        """Opcode of the record at an offset, and where its content begins."""
        if at + 9 > len(self.data):
            raise self.wrong(f"it ends at byte {len(self.data)}, within a record")
        opcode, size = struct.unpack_from("<BQ", self.data, at)
        if at + 9 + size > len(self.data):
            raise self.wrong(f"the record at byte {at} claims {size} bytes, the file has {len(self.data)}")
        self.end = at + 9 + size
        return opcode, at + 9

    def text(self, start: int, offset: int = 0) -> str:
        at = start + offset
        (size,) = struct.unpack_from("<I", self.data, at)
        return self.data[at + 4 : at + 4 + size].decode()

    def topics(self) -> dict[str, OwnTopic]:
        schemas: dict[int, tuple[str, str]] = {}
        channels: dict[int, tuple[str, int, dict[str, str]]] = {}
        chunks: list[np.ndarray] = []
        at, opcode = len(MAGIC), HEADER
        while opcode != DATA_END:
            opcode, start = self.record(at)
            if opcode == SCHEMA:
                number, name = struct.unpack_from("<H", self.data, start)[0], self.text(start, 2)
                encoding = self.text(start, 6 + len(name.encode()))
                schemas[number] = name, self.text(start, 10 + len(name.encode()) + len(encoding))
            elif opcode == CHANNEL:
                number, schema = struct.unpack_from("<HH", self.data, start)
                topic = self.text(start, 4)
                place = start + 8 + len(topic.encode())
                place += 4 + len(self.text(place).encode())
                channels[number] = topic, schema, self._metadata(place)
            elif opcode == CHUNK:
                chunks.append(self._chunk(start))
            at = self.end
        parsed = {number: fixed_fields(schemas[schema][1]) for number, (_, schema, _) in channels.items()}
        read = {n: cdr_layout(parts)[0] for n, parts in parsed.items() if parts is not None}
        arrays = self._messages(chunks, channels, read, parsed)
        made = {}
        for number, (topic, schema, metadata) in channels.items():
            if number in arrays:
                names = json.loads(metadata.get("names", "{}"))
                made[topic] = OwnTopic(
                    arrays[number], schemas[schema][0], json.loads(metadata.get("units", "{}")), names
                )
        return made

    def _metadata(self, at: int) -> dict[str, str]:
        end = at + 4 + struct.unpack_from("<I", self.data, at)[0]
        at, found = at + 4, {}
        while at < end:
            key = self.text(at)
            at += 4 + len(key.encode())
            value = self.text(at)
            at += 4 + len(value.encode())
            found[key] = value
        return found

    def _chunk(self, start: int) -> np.ndarray:
        """The bytes of the messages of a chunk."""
        _, _, size, checksum = struct.unpack_from("<QQQI", self.data, start)
        compression = self.text(start, 28)
        if compression:
            raise self.wrong(f"a chunk is compressed with {compression!r}")
        begin = start + 28 + 4 + 8
        raw = np.frombuffer(self.data, np.uint8, size, begin)
        if crc32(raw.data) != checksum:
            raise self.wrong(f"the checksum of the chunk at byte {start} is wrong")
        return raw

    def _messages(
        self, chunks: list[np.ndarray], channels: Any, read: dict[int, np.dtype], parsed: Any
    ) -> dict[int, Any]:
        """Columns of every channel: all chunks consist of equal rows with one message of each channel."""
        collected: dict[int, list[np.ndarray]] = {number: [] for number in read}
        for raw in chunks:
            at, places = 0, []
            first = None
            while at < len(raw):
                opcode, size, number = struct.unpack_from("<BQH", raw.data, at)
                if opcode != MESSAGE or number not in channels:
                    raise self.wrong("a chunk holds another record than messages")
                if number == first:
                    break
                first = number if first is None else first
                places.append((number, at))
                at += 9 + size
            if not places or len(raw) % at:
                raise self.wrong("the messages of a chunk do not have the same size")
            rows = raw.reshape(-1, at)
            for number, place in places:
                if number in read:
                    begin, layout = place + _MESSAGE_HEAD, read[number]
                    collected[number].append(rows[:, begin : begin + layout.itemsize])
        result = {}
        for number, blocks in collected.items():
            table = (
                np.ascontiguousarray(np.concatenate(blocks))
                if blocks
                else np.zeros((0, read[number].itemsize), np.uint8)
            )
            array = table.view(read[number])[:, 0]
            result[number] = {name: array[name].copy() for name in read[number].names or ()}
        return result


def fixed_fields(definition: str) -> list[tuple[str, str]] | None:
    """The fields of a flat ROS 2 message of numbers after its stamp; None if it has others.

    >>> fixed_fields("builtin_interfaces/Time stamp\\nfloat64 x\\n")
    [('stamp.sec', 'int32'), ('stamp.nanosec', 'uint32'), ('x', 'float64')]
    """
    own = definition.split("=" * 80)[0]
    found = []
    for line in own.splitlines():
        if not line.strip():
            continue
        kind, _, name = line.strip().partition(" ")
        if kind == "builtin_interfaces/Time":
            found += [(f"{name}.sec", "int32"), (f"{name}.nanosec", "uint32")]
        elif kind in _SIZES:
            found.append((name, kind))
        else:
            return None
    return found
