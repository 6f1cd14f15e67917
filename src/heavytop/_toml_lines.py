"""Where the keys of a TOML text are: the parser tells the line of a syntax error, not that of a key."""

from __future__ import annotations

import re

_TABLE = re.compile(r"^\s*(\[\[?)\s*([A-Za-z0-9_\-.]+)\s*\]\]?\s*(?:#.*)?$")
_KEY = re.compile(r"""^\s*["']?([A-Za-z0-9_\-]+|(?<=["'])[^"']+)["']?\s*=""")

Path = tuple[str | int, ...]


def key_lines(text: str) -> dict[Path, int]:
    """Line (from 1) of every key and table by its path: ("rotors", "radius"), ("rotor", 0, "at").

    >>> key_lines("mass = 1\\n[[rotor]]\\nat = [0, 0, 0]\\n")[("rotor", 0, "at")]
    3
    """
    lines: dict[Path, int] = {}
    counts: dict[str, int] = {}
    table: Path = ()
    depth = 0  # open brackets: inside an array over several lines there are no keys
    for number, line in enumerate(text.splitlines(), start=1):
        if depth == 0:
            header, key = _TABLE.match(line), _KEY.match(line)
            if header:
                name = header.group(2)
                if header.group(1) == "[[":
                    counts[name] = counts.get(name, -1) + 1
                    table = (name, counts[name])
                else:
                    table = (name,)
                lines.setdefault((name,), number)
                lines[table] = number
                continue
            if key:
                lines[(*table, key.group(1))] = number
        depth += _opened(line)
    return lines


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
