"""TOML texts with the lines of their keys: the parser tells the line of a syntax error, not that of a key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path as FilePath
from typing import Any

from heavytop.errors import FileFormatError, unknown_name

_TABLE = re.compile(r"^\s*(\[\[?)\s*([A-Za-z0-9_\-.]+)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""^\s*["']?([A-Za-z0-9_\-]+|(?<=["'])[^"']+)["']?\s*=""")

Path = tuple[str | int, ...]


def key_lines(text: str) -> dict[Path, int]:
    """Line (from 1) of every key and table by its path: ("rotors", "radius"), ("rotor", 0, "at"), ("phase", 1, "gate", 0, "at").

    >>> key_lines("mass = 1\\n[[rotor]]\\nat = [0, 0, 0]\\n")[("rotor", 0, "at")]
    3
    """
    lines: dict[Path, int] = {}
    counts: dict[Path, int] = {}
    table: Path = ()
    depth = 0  # open brackets: inside an array over several lines there are no keys
    for number, line in enumerate(text.splitlines(), start=1):
        if depth == 0:
            header, key = _TABLE.match(line), _KEY.match(line)
            if header:
                around, name = _around(header.group(2), counts)
                table = (*around, name)
                lines.setdefault(table, number)
                if header.group(1) == "[[":
                    counts[table] = counts.get(table, -1) + 1
                    table = (*table, counts[table])
                lines[table] = number
                continue
            if key:
                lines[(*table, key.group(1))] = number
        depth += _opened(line)
    return lines


def _around(header: str, counts: dict[Path, int]) -> tuple[Path, str]:
    """The path of the table around the one that a header names, and its own name: [a.b] belongs to the last [[a]]."""
    *outer, name = header.split(".")
    path: Path = ()
    for part in outer:
        path = (*path, part)
        if path in counts:
            path = (*path, counts[path])
    return path, name


def _opened(line: str) -> int:
    """Brackets opened minus closed, outside of strings and comments."""
    bare = re.sub(r'"(?:\\.|[^"\\])*"|\'[^\']*\'', "", line).split("#", 1)[0]
    return bare.count("[") - bare.count("]")


def line_of(lines: dict[Path, int], path: Path) -> int | None:
    """Line of a path, or of the nearest table around it."""
    while path:
        if path in lines:
            return lines[path]
        path = path[:-1]
    return None


def read_text(path: str | FilePath, what: str) -> str:
    """The text of a file that holds ``what``, or a FileFormatError that says why not.

    >>> read_text("missing.toml", "study")
    Traceback (most recent call last):
    heavytop.errors.FileFormatError: cannot read the study 'missing.toml': the file does not exist.
    """
    try:
        return FilePath(path).read_text("utf-8")
    except FileNotFoundError:
        raise FileFormatError(f"cannot read the {what} {str(path)!r}: the file does not exist.") from None
    except OSError as error:
        raise FileFormatError(f"cannot read the {what} {str(path)!r}: {error.strerror or error}.") from None
    except UnicodeDecodeError as error:
        raise FileFormatError(f"cannot read the {what} {str(path)!r}: {error}.") from None


class TomlText:
    """What a TOML text holds, and errors with the name of its file and the line of a key.

    Examples
    --------
    >>> file = TomlText("steps = 3\\n[goal]\\nq = 1\\n", "study.toml")
    >>> file.content["goal"], file.at("goal", "q")
    ({'q': 1}, 'study.toml, line 3')
    >>> file.check_keys(file.content, ("step", "goal"))
    Traceback (most recent call last):
    heavytop.errors.FileFormatError: study.toml, line 1: unknown key 'steps'. Did you mean 'step'? Known: 'step', 'goal'.
    """

    def __init__(self, text: str, name: str) -> None:
        self.name, self.lines = name, key_lines(text)
        try:
            self.content: dict[str, Any] = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise FileFormatError(f"{name} is not TOML: {error}.") from None

    def at(self, *keys: str | int) -> str:
        """File and line of a key, or of the nearest table around it."""
        line = line_of(self.lines, keys)
        return self.name if line is None else f"{self.name}, line {line}"

    def wrong(self, keys: Path, message: object) -> FileFormatError:
        """The error of a message at a key."""
        return FileFormatError(f"{self.at(*keys)}: {message}")

    def check_keys(self, table: Iterable[str], known: Iterable[str], keys: Path = (), kind: str = "key") -> None:
        """Raise an error for a key of a table that means nothing."""
        names = tuple(known)
        for key in table:
            if key not in names:
                raise self.wrong((*keys, key), unknown_name(kind, key, names))
