"""XML from a file of unknown origin: elements that know their line, and nothing that reaches outside of the file.

Parsed by Expat from the standard library. Document type declarations, and with them entities and external references, are refused,
so that neither expansion bombs nor references to other files exist. Size, depth and number of elements are bounded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

import numpy as np

from heavytop.errors import FileFormatError

LARGEST_FILE = 20_000_000
"""Bytes; the largest robot description that is known has 3 MB."""
DEEPEST = 400
"""Levels of nesting; a chain of nested bodies beyond it is no robot."""
MOST_ELEMENTS = 200_000
LONGEST_NAME = 200
"""Characters of a tag, an attribute's name or a name in the file."""

LONGEST_NUMBERS = 100_000
"""Characters of an attribute that holds numbers."""


@dataclass(eq=False)
class Element:
    """One element: tag, attributes, children, text, and where it stands."""

    tag: str
    attributes: dict[str, str]
    file: str
    line: int
    children: list[Element] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text inside, without white space around it."""
        return "".join(self.texts).strip()

    @property
    def where(self) -> str:
        """File and line, as messages begin."""
        return f"{self.file}:{self.line}"

    def error(self, message: str) -> FileFormatError:
        """The error for something wrong in this element."""
        return FileFormatError(f"{self.where}: <{self.tag}>: {message}")

    def all(self, *tags: str) -> Iterator[Element]:
        """Children with one of the tags, in order."""
        return (child for child in self.children if child.tag in tags)

    def first(self, tag: str) -> Element | None:
        """The first child with that tag."""
        return next(self.all(tag), None)

    def need(self, tag: str) -> Element:
        """The first child with that tag; a FileFormatError if there is none."""
        found = self.first(tag)
        if found is None:
            raise self.error(f"needs a child <{tag}>, has {self._listed([c.tag for c in self.children])}.")
        return found

    def get(self, name: str, default: str | None = None) -> str | None:
        """An attribute as text."""
        return self.attributes.get(name, default)

    def string(self, name: str) -> str:
        """An attribute that must be there, as text without white space around it."""
        value = self.attributes.get(name, "").strip()
        if not value:
            raise self.error(f"needs the attribute {name!r}, has {self._listed(self.attributes)}.")
        if len(value) > LONGEST_NAME:
            raise self.error(f"{name} has {len(value)} characters; at most {LONGEST_NAME} are allowed.")
        return value

    def numbers(self, name: str, count: int | None = None, default: Sequence[float] | None = None) -> np.ndarray:
        """An attribute that holds finite numbers separated by white space; ``count`` of them, or any number."""
        text = self.attributes.get(name)
        if text is None:
            if default is None:
                raise self.error(f"needs the attribute {name!r}, has {self._listed(self.attributes)}.")
            return np.array(default, dtype=float)
        if len(text) > LONGEST_NUMBERS:
            raise self.error(f"{name} has {len(text)} characters; at most {LONGEST_NUMBERS} are read.")
        try:
            if "_" in text:  # 1_000 is a number to Python only
                raise ValueError
            values = [float(part) for part in text.split()]
        except ValueError:
            raise self.error(f"{name} must hold numbers, got {_shown(text)}.") from None
        if not all(math.isfinite(value) for value in values):
            raise self.error(f"{name} must hold finite numbers, got {_shown(text)}.")
        if count is not None and len(values) != count:
            raise self.error(f"{name} must hold {count} numbers, got {_shown(text)}.")
        return np.array(values)

    def number(self, name: str, default: float | None = None) -> float:
        """An attribute that holds one finite number."""
        return float(self.numbers(name, 1, None if default is None else [default])[0])

    def walk(self) -> Iterator[Element]:
        """This element and everything below it."""
        stack: list[Element] = [self]
        while stack:
            element = stack.pop()
            yield element
            stack.extend(reversed(element.children))

    @staticmethod
    def _listed(names) -> str:
        shown = list(dict.fromkeys(names))[:8]
        return ", ".join(_shown(name) for name in shown) if shown else "none"


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "...")


def read_xml(path: Path) -> Element:
    """The root element of a file."""
    try:
        if path.is_dir():
            raise FileFormatError(
                f"{str(path)!r} is a folder: give the path of the file in it, such as {str(path / 'robot.urdf')!r}."
            )
        if not path.is_file():
            raise FileFormatError(f"there is no file {str(path)!r}.")
        size = path.stat().st_size
        if size > LARGEST_FILE:
            raise FileFormatError(f"{str(path)!r} has {size} bytes; at most {LARGEST_FILE} are read.")
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"cannot read {str(path)!r}: {error}.") from error
    return parse_xml(content, str(path))


def parse_xml(content: bytes, file: str = "<text>") -> Element:
    """The root element of XML text; ``file`` is the name that messages give.

    >>> root = parse_xml(b'<robot name="arm"><link name="base"/></robot>', "arm.urdf")
    >>> root.first("link").line, root.string("name")
    (1, 'arm')
    """
    parser = expat.ParserCreate()
    builder = _Builder(parser, file)
    try:
        parser.Parse(content, True)
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        raise FileFormatError(f"{file}:{error.lineno}: this is not well-formed XML: {reason}.") from None
    except (LookupError, ValueError) as error:  # unknown encodings
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"{file}: this is not readable XML: {error}.") from None
    if builder.root is None:
        raise FileFormatError(f"{file}: this XML has no element.")
    return builder.root


class _Builder:
    """Builds the tree from the parser's calls and refuses what a robot file does not need."""

    def __init__(self, parser: expat.XMLParserType, file: str) -> None:
        self.parser, self.file = parser, file
        self.root: Element | None = None
        self.stack: list[Element] = []
        self.count = 0
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._text
        parser.StartDoctypeDeclHandler = self._refuse
        parser.EntityDeclHandler = self._refuse
        parser.ExternalEntityRefHandler = self._refuse

    def _refuse(self, *_: object) -> int:
        raise FileFormatError(
            f"{self.file}:{self.parser.CurrentLineNumber}: document type declarations, entities and external references are refused. "
            "A robot file needs none: remove them, and write the values in their place."
        )

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        line = self.parser.CurrentLineNumber
        self.count += 1
        if len(tag) > LONGEST_NAME or any(len(name) > LONGEST_NAME for name in attributes):
            raise FileFormatError(f"{self.file}:{line}: a name has more than {LONGEST_NAME} characters.")
        if len(attributes.get("name", "")) > LONGEST_NAME:
            size = len(attributes["name"])
            raise Element(tag, {}, self.file, line).error(
                f"name has {size} characters; at most {LONGEST_NAME} are allowed."
            )
        if self.count > MOST_ELEMENTS or len(self.stack) >= DEEPEST:
            limit = f"{DEEPEST} levels" if len(self.stack) >= DEEPEST else f"{MOST_ELEMENTS} elements"
            raise FileFormatError(f"{self.file}:{line}: the file has more than {limit}.")
        element = Element(tag, attributes, self.file, line)
        if self.stack:
            self.stack[-1].children.append(element)
        else:
            self.root = element
        self.stack.append(element)

    def _end(self, tag: str) -> None:
        self.stack.pop()

    def _text(self, data: str) -> None:
        if self.stack:
            self.stack[-1].texts.append(data)
