"""How many arguments of functions have a type that says something, in percent.

    python scripts/typed_arguments.py [FOLDER]        # default: src/heavytop

Counted are all arguments but ``self`` and ``cls``. ``Any``, and ``Array``, which is Any where a symbol may come, say nothing.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

SILENT = {"Any", "Array"}


def arguments(tree: ast.AST) -> Iterator[ast.arg]:
    """All arguments of all functions but self and cls."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            given = node.args
            every = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, [given.vararg, given.kwarg])]
            yield from (argument for argument in every if argument.arg not in ("self", "cls"))


def kind(argument: ast.arg) -> str:
    """One of typed, symbol (Array), any, none."""
    if argument.annotation is None:
        return "none"
    names = {node.id for node in ast.walk(argument.annotation) if isinstance(node, ast.Name)} - {"None"}
    if names and names <= SILENT:
        return "symbol" if "Array" in names else "any"
    return "typed"


def count(folder: Path) -> Counter[str]:
    """Arguments by kind.

    >>> [kind(a) for a in arguments(ast.parse("def f(self, a, b: int, c: Any, d: Array | None): ..."))]
    ['none', 'typed', 'any', 'symbol']
    """
    result: Counter[str] = Counter()
    for path in sorted(folder.rglob("*.py")):
        result.update(kind(a) for a in arguments(ast.parse(path.read_text(encoding="utf-8"))))
    return result


if __name__ == "__main__":
    found = count(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1] / "src" / "heavytop")
    total = found.total()
    print(
        f"{total} arguments: "
        + ", ".join(f"{name} {number} ({100 * number / total:.1f} %)" for name, number in found.items())
    )
    print(f"typed, of those where no symbol may come: {100 * found['typed'] / (total - found['symbol']):.1f} %")
