"""XML elements: read from untrusted files, with their lines, and written.

Expat of the standard library parses (docs/decisions.md says why it is not lxml). Document type declarations, and with them entities and
external references, are rejected, so that neither expansion bombs nor references to other files exist. Size, depth and number of elements
are bounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn
from xml.parsers import expat

import numpy as np

from heavytop.errors import FileFormatError

LARGEST_FILE = 20_000_000
"""Bytes; the largest known robot description has 3 MB."""
DEEPEST = 400
"""Levels of nesting."""
MOST_ELEMENTS = 200_000
LONGEST_NAME = 200
"""Characters of a tag, an attribute's name or a name in the file."""
LONGEST_NUMBERS = 100_000
"""Characters of an attribute that holds numbers."""


@dataclass(eq=False)
class Element:
    """An element that was read: tag, attributes, file and line of its start, children, text."""

    tag: str
    attributes: dict[str, str]
    file: str
    line: int
    children: list[Element] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text inside, without surrounding white space."""
        return "".join(self.texts).strip()

    @property
    def where(self) -> str:
        """File and line, as messages begin."""
        return f"{self.file}:{self.line}"

    def error(self, message: str) -> FileFormatError:
        """An error in this element."""
        return FileFormatError(f"{self.where}: <{self.tag}>: {message}")

    def all(self, *tags: str) -> Iterator[Element]:
        """Children with one of the tags, in order."""
        return (child for child in self.children if child.tag in tags)

    def first(self, tag: str) -> Element | None:
        """The first child with that tag."""
        return next(self.all(tag), None)

    def need(self, tag: str) -> Element:
        """The first child with that tag; raise a FileFormatError if it is missing."""
        found = self.first(tag)
        if found is None:
            raise self.error(f"needs a child <{tag}>, has {_listed(c.tag for c in self.children)}.")
        return found

    def get(self, name: str, default: str | None = None) -> str | None:
        """An attribute as text."""
        return self.attributes.get(name, default)

    def string(self, name: str) -> str:
        """A required attribute as text, without surrounding white space."""
        value = self.attributes.get(name, "").strip()
        if not value:
            raise self._missing(name)
        if len(value) > LONGEST_NAME:
            raise self.error(f"{name} has {len(value)} characters; at most {LONGEST_NAME} are allowed.")
        return value

    def numbers(self, name: str, count: int | None = None, default: Sequence[float] | None = None) -> np.ndarray:
        """An attribute with ``count`` (None: any number of) finite numbers separated by white space."""
        text = self.attributes.get(name)
        if text is None:
            if default is None:
                raise self._missing(name)
            return np.array(default, dtype=float)
        if len(text) > LONGEST_NUMBERS:
            raise self.error(f"{name} has {len(text)} characters; at most {LONGEST_NUMBERS} are read.")
        try:
            values = [float(part) for part in text.replace("_", "?").split()]  # Python takes 1_000 for a number
        except ValueError:
            raise self.error(f"{name} must hold numbers, got {_shortened(text)}.") from None
        if not all(math.isfinite(value) for value in values):
            raise self.error(f"{name} must hold finite numbers, got {_shortened(text)}.")
        if count is not None and len(values) != count:
            raise self.error(f"{name} must hold {count} numbers, got {_shortened(text)}.")
        return np.array(values)

    def number(self, name: str, default: float | None = None) -> float:
        """An attribute with one finite number."""
        return float(self.numbers(name, 1, None if default is None else [default])[0])

    def walk(self) -> Iterator[Element]:
        """This element and everything below it."""
        stack: list[Element] = [self]
        while stack:
            element = stack.pop()
            yield element
            stack.extend(reversed(element.children))

    def _missing(self, name: str) -> FileFormatError:
        return self.error(f"needs the attribute {name!r}, has {_listed(self.attributes)}.")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(_shortened(name) for name in list(dict.fromkeys(names))[:8]) or "none"


def _shortened(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


def read_xml(path: Path) -> Element:
    """The root element of a file."""
    try:
        if path.is_dir():
            example = str(path / "robot.urdf")
            raise FileFormatError(f"{str(path)!r} is a folder: give the path of the file in it, such as {example!r}.")
        if not path.is_file():
            named = "" if path.suffix else " Built-in systems: ht.library.load(name); vehicles: ht.copters.load(name)."
            raise FileFormatError(f"there is no file {str(path)!r}.{named}")
        size = path.stat().st_size
        if size > LARGEST_FILE:
            raise FileFormatError(f"{str(path)!r} has {size} bytes; at most {LARGEST_FILE} are read.")
        content = path.read_bytes()
    except FileFormatError:
        raise
    except (OSError, ValueError) as error:
        raise FileFormatError(f"cannot read {str(path)!r}: {error}.") from error
    return parse_xml(content, str(path))


def parse_xml(content: bytes, file: str = "<text>") -> Element:
    """The root element of XML text; ``file`` is its name in messages.

    >>> root = parse_xml(b'<robot name="arm"><link name="base"/></robot>', "arm.urdf")
    >>> root.first("link").line, root.string("name")
    (1, 'arm')
    """
    parser = expat.ParserCreate()
    document = Element("", {}, file, 0)
    stack, count = [document], 0

    def reject(reason: str) -> NoReturn:
        raise FileFormatError(f"{file}:{parser.CurrentLineNumber}: {reason}")

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        if any(len(name) > LONGEST_NAME for name in (tag, *attributes)):
            reject(f"a name has more than {LONGEST_NAME} characters.")
        if len(stack) > DEEPEST:
            reject(f"the file has more than {DEEPEST} levels.")
        if count > MOST_ELEMENTS:
            reject(f"the file has more than {MOST_ELEMENTS} elements.")
        element = Element(tag, attributes, file, parser.CurrentLineNumber)
        if attributes.get("name", "").strip():
            element.string("name")  # checks its length
        stack[-1].children.append(element)
        stack.append(element)

    def declaration(*_: object) -> NoReturn:
        reject(
            "document type declarations, entities and external references are rejected. A robot file needs none: remove them, and write "
            "the values in their place."
        )

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _: stack.pop()
    parser.CharacterDataHandler = lambda text: stack[-1].texts.append(text)
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = parser.ExternalEntityRefHandler = declaration
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        raise FileFormatError(f"{file}:{error.lineno}: this is not well-formed XML: {reason}.") from None
    except FileFormatError:
        raise
    except (LookupError, ValueError) as error:
        raise FileFormatError(f"{file}: the encoding of this XML is not readable: {error}.") from None
    return document.children[0]


def spaced(values: Any) -> str:
    """Numbers separated by blanks, in the shortest form that reads back as the same.

    >>> spaced([1.0, 0.1, -0.0])
    '1 0.1 0'
    """
    return " ".join(repr(float(x) + 0.0).removesuffix(".0") for x in np.reshape(values, -1))


class Tag:
    """An element to write.

    >>> root = Tag("robot", name="a<b")
    >>> _ = root.add("link", name="base")
    >>> print(root.document())
    <?xml version="1.0" encoding="utf-8"?>
    <robot name="a&lt;b">
      <link name="base"/>
    </robot>
    <BLANKLINE>
    """

    def __init__(self, tag: str, /, **attributes: str) -> None:
        self.name, self.attributes, self.text = tag, attributes, ""
        self.children: list[Tag] = []

    def add(self, tag: str, /, **attributes: str) -> Tag:
        """Append a child and return it."""
        self.children.append(Tag(tag, **attributes))
        return self.children[-1]

    def document(self) -> str:
        """The whole file."""
        from xml.sax.saxutils import escape, quoteattr  # imports urllib, http and ssl

        lines = ['<?xml version="1.0" encoding="utf-8"?>']
        stack: list[tuple[Tag | str, int]] = [(self, 0)]  # a chain of bodies nests deeper than Python recurses
        while stack:
            item, depth = stack.pop()
            indent = "  " * depth
            if isinstance(item, str):
                lines.append(f"{indent}{item}")
                continue
            opening = item.name + "".join(f" {key}={quoteattr(value)}" for key, value in item.attributes.items())
            if item.children:
                lines.append(f"{indent}<{opening}>")
                stack.append((f"</{item.name}>", depth))
                stack += [(child, depth + 1) for child in reversed(item.children)]
            elif item.text:
                lines.append(f"{indent}<{opening}>{escape(item.text)}</{item.name}>")
            else:
                lines.append(f"{indent}<{opening}/>")
        return "\n".join(lines) + "\n"
