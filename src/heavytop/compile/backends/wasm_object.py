"""WebAssembly object, as LLVM writes it, -> module that a browser runs.

An object is a module that a linker completes: it imports its memory, its stack pointer and its table of functions, and has relocations, fields
that hold addresses and numbers not known yet. With one object there is nothing to link: types, functions and globals keep their numbers, only
addresses of data and numbers in the table are filled in. Function names, relocations and other custom sections are dropped.

Format: WebAssembly core specification 2.0, section 5; "linking" and "reloc" sections: tool-conventions of the WebAssembly project, version 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from heavytop.errors import CompileError

PAGE = 65536
STACK = 65536
"""Bytes of the stack, which only variables with an address use."""
CUSTOM, TYPE, IMPORT, FUNCTION, TABLE, MEMORY, GLOBAL, EXPORT, START, ELEMENT, CODE, DATA, DATA_COUNT = range(13)
_FUNCTION, _DATA, _GLOBAL, _SECTION, _TAG, _TABLE = range(6)
"""Kinds of symbols."""
_LOCAL, _UNDEFINED, _NAMED = 0x02, 0x10, 0x40
"""Flags of symbols."""
_KEPT = {0: "function", 6: "type", 7: "global", 20: "table"}
"""Relocations whose fields keep their numbers."""
_TABLE_NUMBERS = {1: "leb", 2: "word"}
_ADDRESSES = {3: "leb", 4: "leb", 5: "word"}


def unsigned(value: int, width: int = 0) -> bytes:
    """LEB128, filled up to ``width`` bytes.

    >>> unsigned(624485).hex(), unsigned(3, 5).hex()
    ('e58e26', '8380808000')
    """
    out = bytearray()
    while value > 0x7F or len(out) + 1 < width:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class Reader:
    """Reads numbers and names one after the other."""

    def __init__(self, data: bytes, at: int = 0, end: int | None = None) -> None:
        self.data, self.at, self.end = data, at, len(data) if end is None else end

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def unsigned(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    def signed(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value - (1 << shift) if byte & 0x40 else value

    def bytes(self, size: int) -> bytes:
        self.at += size
        return self.data[self.at - size : self.at]

    def name(self) -> str:
        return self.bytes(self.unsigned()).decode()

    @property
    def left(self) -> bool:
        return self.at < self.end


@dataclass(frozen=True)
class Symbol:
    """A symbol: ``index`` of its function, global or segment, ``offset`` in its segment."""

    kind: int
    flags: int
    name: str
    index: int = 0
    offset: int = 0


@dataclass
class Object:
    """The parts of an object."""

    sections: dict[int, bytes] = field(default_factory=dict)
    imports: list[tuple[str, int, bytes]] = field(default_factory=list)
    symbols: list[Symbol] = field(default_factory=list)
    alignments: list[int] = field(default_factory=list)
    relocations: dict[int, list[tuple[int, int, int, int]]] = field(default_factory=dict)
    """Section -> (kind, offset, symbol, addend)."""


def read_object(data: bytes) -> Object:
    """Read an object.

    Raises
    ------
    CompileError : the bytes are not a WebAssembly module.
    """
    if data[:8] != b"\0asm\1\0\0\0":
        raise CompileError(f"expected a WebAssembly object, got {data[:8]!r}.")
    found, reader, order = Object(), Reader(data, 8), []
    later: list[tuple[str, bytes]] = []
    while reader.left:
        number, content = reader.byte(), reader.bytes(reader.unsigned())
        order.append(number)
        if number != CUSTOM:
            found.sections[number] = content
            continue
        own = Reader(content)
        later.append((own.name(), content[own.at :]))
    found.imports = list(_imports(found.sections.get(IMPORT, b"\0")))
    for name, content in later:
        if name == "linking":
            _read_linking(found, content)
        elif name.startswith("reloc."):
            own = Reader(content)
            entries = found.relocations.setdefault(order[own.unsigned()], [])
            for _ in range(own.unsigned()):
                kind, offset, symbol = own.byte(), own.unsigned(), own.unsigned()
                entries.append((kind, offset, symbol, own.signed() if kind in (3, 4, 5, 8, 9, 11) else 0))
    return found


def _imports(content: bytes) -> Iterator[tuple[str, int, bytes]]:
    reader = Reader(content)
    for _ in range(reader.unsigned()):
        reader.name()
        name, kind, start = reader.name(), reader.byte(), reader.at
        if kind == 0:
            reader.unsigned()
        elif kind == 3:
            reader.bytes(2)
        else:  # tables have a type before their limits
            if kind == 1:
                reader.byte()
            flags = reader.byte()
            for _ in range(1 + (flags & 1)):
                reader.unsigned()
        yield name, kind, content[start : reader.at]


def _read_linking(found: Object, content: bytes) -> None:
    reader = Reader(content)
    version = reader.unsigned()
    if version != 2:
        raise CompileError(f"this LLVM writes version {version} of WebAssembly objects; version 2 is known.")
    while reader.left:
        kind, size = reader.byte(), reader.unsigned()
        own = Reader(reader.data, reader.at)
        reader.bytes(size)
        if kind == 5:  # segments
            for _ in range(own.unsigned()):
                own.name()
                found.alignments.append(1 << own.unsigned())
                own.unsigned()
        elif kind == 8:
            found.symbols = [_symbol(own, found.imports) for _ in range(own.unsigned())]


def _symbol(reader: Reader, imports: list[tuple[str, int, bytes]]) -> Symbol:
    kind, flags = reader.byte(), reader.unsigned()
    if kind == _SECTION:
        return Symbol(kind, flags, "", reader.unsigned())
    if kind == _DATA:
        name = reader.name()
        if flags & _UNDEFINED:
            return Symbol(kind, flags, name)
        index, offset, _ = reader.unsigned(), reader.unsigned(), reader.unsigned()
        return Symbol(kind, flags, name, index, offset)
    index = reader.unsigned()
    if flags & _UNDEFINED and not flags & _NAMED:
        own = {_FUNCTION: 0, _TABLE: 1, _GLOBAL: 3, _TAG: 4}[kind]
        return Symbol(kind, flags, [name for name, other, _ in imports if other == own][index], index)
    return Symbol(kind, flags, reader.name(), index)


def module_from_object(data: bytes) -> tuple[bytes, int]:
    """The module of an object, and the first free address of its memory.

    It exports its memory as ``memory`` and all functions with external linkage, and imports nothing.

    Raises
    ------
    CompileError : the object calls functions that it does not define, or has relocations that one object alone does not need.
    """
    found = read_object(data)
    if missing := [name for name, kind, _ in found.imports if kind == 0]:
        raise CompileError(f"the object calls {', '.join(missing)}, which it does not define.")
    segments, addresses, end = _placed_segments(found)
    table: list[int] = []
    for number in (CODE, DATA):
        if number in found.sections:
            found.sections[number] = _relocated(found, number, segments, addresses, table)
    globals_ = [kind for _, kind, _ in found.imports if kind == 3]
    top = -(-(end + STACK) // 16) * 16
    pages = -(-top // PAGE)
    exported = [s for s in found.symbols if s.kind == _FUNCTION and not s.flags & (_LOCAL | _UNDEFINED)]
    sections = {number: content for number, content in found.sections.items() if number != IMPORT}
    if table or any(kind == 1 for _, kind, _ in found.imports):
        size = unsigned(len(table) + 1)
        sections[TABLE] = b"\1\x70\1" + size + size
        entries = b"".join(unsigned(function) for function in table)
        sections[ELEMENT] = b"\1\0\x41\1\x0b" + unsigned(len(table)) + entries  # from entry 1 on: 0 stays empty
    sections[MEMORY] = b"\1\0" + unsigned(pages)
    if globals_:  # the stack pointer, which grows down
        sections[GLOBAL] = unsigned(len(globals_)) + len(globals_) * (b"\x7f\1\x41" + _signed(top) + b"\x0b")
    names = [("memory", 2, 0), *((s.name, 0, s.index) for s in exported)]
    entries = b"".join(_name(name) + bytes([kind]) + unsigned(index) for name, kind, index in names)
    sections[EXPORT] = unsigned(len(names)) + entries
    order = (TYPE, FUNCTION, TABLE, MEMORY, GLOBAL, EXPORT, ELEMENT, DATA_COUNT, CODE, DATA)
    body = b"".join(bytes([n]) + unsigned(len(sections[n])) + sections[n] for n in order if n in sections)
    return b"\0asm\1\0\0\0" + body, top


def _name(text: str) -> bytes:
    return unsigned(len(text.encode())) + text.encode()


def _signed(value: int) -> bytes:
    """A positive number as signed LEB128."""
    out = unsigned(value)
    return out if not out[-1] & 0x40 else out[:-1] + bytes([out[-1] | 0x80, 0])


def _placed_segments(found: Object) -> tuple[list[tuple[int, int]], list[int], int]:
    """Place of the bytes of each segment in its section, the address of each, and the end of all data.

    Offsets in an object are those of consecutive segments; here they get addresses from 1024 on, so that zero stays a null pointer.
    """
    places, addresses, at = [], [], 1024
    if DATA in found.sections:
        reader = Reader(found.sections[DATA])
        for k in range(reader.unsigned()):
            if reader.unsigned() != 0:
                raise CompileError("the object has a passive data segment, which is not supported.")
            _init_expression(reader)
            size = reader.unsigned()
            places.append((reader.at, size))
            reader.bytes(size)
            alignment = max(found.alignments[k] if k < len(found.alignments) else 16, 1)
            at = -(-at // alignment) * alignment
            addresses.append(at)
            at += size
    return places, addresses, at


def _init_expression(reader: Reader) -> None:
    if reader.byte() != 0x41:
        raise CompileError("the object has a data segment without a constant offset.")
    reader.signed()
    reader.byte()


def _relocated(
    found: Object, number: int, segments: list[tuple[int, int]], addresses: list[int], table: list[int]
) -> bytes:
    """A section with its fields filled in; functions whose address is taken are added to the ``table``."""
    content = bytearray(found.sections[number])
    for kind, offset, index, addend in found.relocations.get(number, []):
        if kind in _KEPT:
            continue
        symbol = found.symbols[index]
        if kind in _TABLE_NUMBERS and symbol.kind == _FUNCTION:
            if symbol.index not in table:
                table.append(symbol.index)
            value, form = table.index(symbol.index) + 1, _TABLE_NUMBERS[kind]
        elif kind in _ADDRESSES and symbol.kind == _DATA and not symbol.flags & _UNDEFINED:
            value, form = addresses[symbol.index] + symbol.offset + addend, _ADDRESSES[kind]
        else:
            raise CompileError(f"the object has a relocation of kind {kind} for {symbol.name!r}, which is not known.")
        field_ = value.to_bytes(4, "little") if form == "word" else unsigned(value, 5)
        content[offset : offset + len(field_)] = field_
    if number == DATA:
        parts = [unsigned(len(segments))]
        for (place, size), address in zip(segments, addresses, strict=True):
            parts.append(b"\0\x41" + _signed(address) + b"\x0b" + unsigned(size) + bytes(content[place : place + size]))
        return b"".join(parts)
    return bytes(content)
