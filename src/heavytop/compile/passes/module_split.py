"""A long module cut into several that are compiled in parallel.

The parts of a long program (:func:`.llvm.emit`) are separate functions. Here they go into modules of about equal length, independent
of each other; the first module keeps the rest and only declares them. The cuts depend only on the text: the object code is the same
on a machine with one processor.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

SHARE = 150_000
"""Characters of a module of parts, about fifteen hundred instructions."""
_PART = re.compile(r"define internal (void @(\w+_(?:part|text)\d+)\(.*) \{")
_NAME = re.compile(r"@([\w.]+)\(")


@dataclass(frozen=True)
class Modules:
    """``main`` has everything but the functions in ``parts``, which it declares."""

    main: str
    parts: tuple[str, ...]


def cut_module(text: str, share: int = SHARE) -> Modules:
    """Cut IR text if its parts are long enough.

    >>> part = "define internal void @f_part{0}(ptr %x) nounwind {{\\n  store i8 {0}, ptr %x\\n  ret void\\n}}\\n"
    >>> text = part.format(0) + part.format(1) + "define void @f(ptr %x) {\\n  call void @f_part1(ptr %x)\\n  ret void\\n}\\n"
    >>> modules = cut_module(text, share=60)
    >>> len(modules.parts), modules.main.splitlines()[:2]
    (2, ['declare void @f_part0(ptr %x) nounwind', 'declare void @f_part1(ptr %x) nounwind'])
    >>> cut_module(text).main == text
    True
    """
    functions, rest = _functions(text)
    heads, bodies = [], []
    helpers: dict[str, str] = {}
    for function in functions:
        if found := _PART.match(function):
            heads.append(f"declare {found[1]}\n")
            bodies.append(function.replace("define internal ", "define ", 1))
        elif found := _NAME.search(function):
            helpers[found[1]] = function
    if sum(map(len, bodies)) < 2 * share:
        return Modules(text, ())
    known = "".join(line for line in rest.splitlines(keepends=True) if line.startswith(("declare", "!")))
    groups: list[str] = []
    for body in bodies:
        if groups and len(groups[-1]) + len(body) // 2 <= share:
            groups[-1] += body
        else:
            groups.append(body)
    main = "".join([*heads, rest, *helpers.values()])
    return Modules(main, tuple(group + _called(group, helpers) + known for group in groups))


def _functions(text: str) -> tuple[list[str], str]:
    """The definitions of functions, and everything else."""
    found, rest, at = [], [], 0
    for match in re.finditer(r"^define .*?^\}\n", text, re.MULTILINE | re.DOTALL):
        rest.append(text[at : match.start()])
        found.append(match[0])
        at = match.end()
    return found, "".join([*rest, text[at:]])


def _called(text: str, helpers: dict[str, str]) -> str:
    """The helpers that a text calls, directly or indirectly; they are internal, so every module can have a copy."""
    needed: dict[str, str] = {}
    new: Sequence[str] = [text]
    while new:
        names = {name for body in new for name in _NAME.findall(body)} & (helpers.keys() - needed.keys())
        new = [helpers[name] for name in sorted(names)]
        needed |= {name: helpers[name] for name in sorted(names)}
    return "".join(needed.values())
