"""TOML texts with the lines of their keys, for error messages: the parser reports the line of a syntax error, not that of a key."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from heavytop.errors import FileFormatError, unknown_name

_TABLE = re.compile(r"^\s*(\[\[?)\s*([A-Za-z0-9_\-.]+)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""^\s*["']?([A-Za-z0-9_\-]+|(?<=["'])[^"']+)["']?\s*=""")
_STRING = re.compile(r'"(?:\\.|[^"\\])*"|\'[^\']*\'')

Keys = tuple[str | int, ...]


def key_lines(text: str) -> dict[Keys, int]:
    """Line (from 1) of every key and table by its path: ("rotors", "radius"), ("rotor", 0, "at"), ("phase", 1, "gate", 0, "at").

    >>> key_lines("mass = 1\\n[[rotor]]\\nat = [0, 0, 0]\\n")[("rotor", 0, "at")]
    3
    """
    lines: dict[Keys, int] = {}
    counts: dict[Keys, int] = {}
    table: Keys = ()
    depth = 0  # open brackets: there are no keys inside an array over several lines
    for number, line in enumerate(text.splitlines(), start=1):
        if depth == 0 and (header := _TABLE.match(line)):
            table = ()
            *outer, name = header[2].split(".")
            for part in outer:  # [a.b] belongs to the last [[a]]
                table = (*table, part)
                table = (*table, counts[table]) if table in counts else table
            table = (*table, name)
            lines.setdefault(table, number)
            if header[1] == "[[":
                counts[table] = counts.get(table, -1) + 1
                table = (*table, counts[table])
            lines[table] = number
            continue
        if depth == 0 and (key := _KEY.match(line)):
            lines[(*table, key[1])] = number
        bare = _STRING.sub("", line).split("#", 1)[0]
        depth += bare.count("[") - bare.count("]")
    return lines


def read_text(path: str | Path, what: str) -> str:
    """The text of a file; a FileFormatError names the reason if it cannot be read.

    >>> read_text("missing.toml", "study")
    Traceback (most recent call last):
    heavytop.errors.FileFormatError: cannot read the study 'missing.toml': the file does not exist.
    """
    try:
        return Path(path).read_text("utf-8")
    except FileNotFoundError:
        reason = "the file does not exist"
    except OSError as error:
        reason = error.strerror or str(error)
    except UnicodeDecodeError as error:
        reason = str(error)
    raise FileFormatError(f"cannot read the {what} {str(path)!r}: {reason}.")


class TomlText:
    """Content of a TOML text, and errors with the name of its file and the line of a key.

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
        """File and line of a key, or of the nearest enclosing table."""
        while keys and keys not in self.lines:
            keys = keys[:-1]
        return f"{self.name}, line {self.lines[keys]}" if keys else self.name

    def wrong(self, keys: Keys, message: object) -> FileFormatError:
        """The error with a message about a key."""
        return FileFormatError(f"{self.at(*keys)}: {message}")

    def check_keys(self, table: Iterable[str], known: Iterable[str], keys: Keys = (), kind: str = "key") -> None:
        """Raise a FileFormatError for an unknown key of a table."""
        names = tuple(known)
        for key in table:
            if key not in names:
                raise self.wrong((*keys, key), unknown_name(kind, key, names))
