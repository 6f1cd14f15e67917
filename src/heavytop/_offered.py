"""Which names a module offers: for completion, and for the page of all public names."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from types import ModuleType


def offered(module: ModuleType) -> list[str]:
    """Public names of a package (what it re-exports or defines) or of a module (what it defines), in the order of the source.

    >>> from heavytop import io
    >>> "load_run" in offered(io), "netcdf" in offered(io)
    (True, False)
    """
    if getattr(module, "__file__", None) is None:
        return []
    names: list[str] = []
    is_package = hasattr(module, "__path__")
    for node in top_level(ast.parse(inspect.getsource(module)).body):
        if isinstance(node, ast.ImportFrom) and is_package:
            names += [alias.name for alias in node.names if alias.asname == alias.name]
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and is_package:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names += [target.id for target in targets if isinstance(target, ast.Name)]
    return list(dict.fromkeys(name for name in names if not name.startswith("_")))


def top_level(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements of a module, also those under a condition."""
    for node in body:
        if isinstance(node, ast.If):
            yield from top_level(node.body)
            yield from top_level(node.orelse)
        else:
            yield node


def completion(module: ModuleType) -> list[str]:
    """What ``dir`` of a package shows: the names it offers, not the modules that it is made of; all of them where there is no source.

    >>> from heavytop import control
    >>> "lqr" in dir(control), "lqr" in vars(control), "allocation" in dir(control), "allocation" in vars(control)
    (True, True, False, True)
    """
    try:
        names = [name for name in offered(module) if hasattr(module, name)]
    except (OSError, SyntaxError):
        names = [name for name in vars(module) if not name.startswith("_")]
    return sorted({*names, *(name for name in vars(module) if name.startswith("__"))})
