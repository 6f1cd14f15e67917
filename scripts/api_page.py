"""Write docs/api.md, the page of all public names, from the packages themselves.

    python scripts/api_page.py            # write the page
    python scripts/api_page.py --check    # exit code 1 if the page is out of date

Public names are those that the ``__init__.py`` of a package exports by ``from ... import name as name`` or defines without an underscore. A
module that is exported this way (``heavytop.geometry.so3``) contributes the functions and classes that it defines without an underscore.

Each of them needs a docstring and an entry. A name exported by a package also needs an example that runs as a doctest, in its docstring or, for
a class, in that of a method, except exceptions and warnings. For exported modules the examples are counted per module.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "heavytop"
COMPANIONS = {"benchmarks": "heavytop_bench", "theory": "heavytop_mechanics"}
"""Folders of the other packages in the wheel."""
ROOMS = {"functions", "ocp"}
"""Packages below ``heavytop`` that only other packages import from; like the packages inside packages they have no section."""
PAGE = ROOT / "docs" / "api.md"
INTRODUCTION = """# Public names

All names that the packages export, with their arguments and the first sentence of their docstrings. Arguments after `*` are
given by keyword; `=` marks optional ones.
`help(name)` in Python shows the rest, with shapes, units, defaults and an example that runs:

```python
import heavytop as ht

help(ht.gradient)
help(ht.System.contact)
```

`python scripts/api_page.py` writes this page; a test compares it with the code.
"""


def offered(module: ModuleType) -> list[str]:
    """Public names of a package (re-exported or defined) or of a module (defined), in the order of the source.

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


@dataclass(frozen=True)
class Export:
    """A public name: the exporting module and the object."""

    module: str
    name: str
    value: Any

    @property
    def path(self) -> str:
        """``module.name``."""
        return f"{self.module}.{self.name}"

    @property
    def is_code(self) -> bool:
        """Whether it is a class or a function, which can have a docstring."""
        return inspect.isclass(self.value) or inspect.isroutine(self.value) or hasattr(self.value, "__wrapped__")

    @property
    def docstring(self) -> str:
        """Its docstring, unless inherited."""
        return inspect.cleandoc(getattr(self.value, "__doc__", None) or "") if self.is_code else ""

    @property
    def is_exception(self) -> bool:
        """Whether it is an error or a warning."""
        return inspect.isclass(self.value) and issubclass(self.value, BaseException)

    @property
    def examples(self) -> int:
        """Number of examples in its docstring or, for a class, in those of its methods."""
        texts = [self.docstring]
        if inspect.isclass(self.value):
            # numbers and tuples of a class have the docstrings of int and tuple, which contain examples
            members = [m for m in vars(self.value).values() if callable(m) or hasattr(m, "__get__")]
            texts += [getattr(member, "__doc__", None) or "" for member in members]
        return sum(text.count(">>> ") for text in texts)


def exports_of(module: ModuleType) -> list[Export]:
    """The exports of a module, without modules."""
    found = [Export(module.__name__, name, getattr(module, name)) for name in offered(module)]
    return [export for export in found if not inspect.ismodule(export.value)]


def public_modules() -> list[ModuleType]:
    """Return heavytop, the packages users import from, and the modules that these export."""
    layers = sorted({path.parent.name for path in PACKAGE.glob("*/__init__.py")} - ROOMS)
    names = ("heavytop", *(f"heavytop.{layer}" for layer in layers), *COMPANIONS.values())
    modules = [importlib.import_module(name) for name in names]
    for module in list(modules):
        values = [getattr(module, name) for name in offered(module)]
        modules += [v for v in values if inspect.ismodule(v) and v.__name__.startswith("heavytop")]
    return sorted({id(m): m for m in modules}.values(), key=lambda m: m.__name__)


def first_sentence(text: str) -> str:
    """The first paragraph up to its first full stop, on one line; full stops of code and of "eq." do not count.

    >>> first_sentence("A joint\\nof two bodies, ``a . b``. More.")
    'A joint of two bodies, ``a . b``.'
    """
    paragraph = " ".join(text.split("\n\n")[0].split())
    sentence = re.match(r"((?>``.*?``)|[^`]|`(?!`))*?(?<!\beq)(?<!\beqs)\.(?= )", paragraph)
    return sentence[0] if sentence else paragraph


def arguments(export: Export) -> str:
    """The arguments of a function or class without types and defaults; empty for others.

    >>> from heavytop import Sphere, stepper
    >>> arguments(Export("heavytop", "Sphere", Sphere))
    '(radius)'
    >>> arguments(Export("heavytop", "stepper", stepper))[:40]
    '(model, step, control=, *, substeps=, in'
    """
    if not export.is_code or export.is_exception or (inspect.isclass(export.value) and issubclass(export.value, Enum)):
        return ""
    try:
        parameters = inspect.signature(export.value).parameters.values()
    except (TypeError, ValueError):
        return ""
    if [p.kind for p in parameters] == [inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD]:
        return "()"  # a class without arguments
    given: list[str] = []
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and not any(name.startswith("*") for name in given):
            given.append("*")
        mark = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        given.append(f"{mark}{p.name}{'' if p.default is p.empty else '='}")
    return f"({', '.join(given)})"


def entry(export: Export) -> str:
    """A row of the page."""
    text = first_sentence(export.docstring) if export.is_code else f"a {type(export.value).__name__}"
    return f"| `{export.name}{arguments(export)}` | {text.replace('|', chr(92) + '|')} |"


def page(modules: list[ModuleType]) -> str:
    """The complete page."""
    parts = [INTRODUCTION]
    for module in modules:
        exports = sorted(exports_of(module), key=lambda e: e.name.lower())
        if exports:
            rows = "\n".join(map(entry, exports))
            about = first_sentence(inspect.cleandoc(module.__doc__ or ""))
            parts.append(f"## {module.__name__}\n\n{about}\n\n| name | |\n| --- | --- |\n{rows}\n")
    return "\n".join(parts)


def faults(modules: list[ModuleType], text: str) -> list[str]:
    """Faults of the public names: no docstring, no example, no entry on the page."""
    found: list[str] = []
    for module in modules:
        if not (module.__doc__ or "").strip():
            found.append(f"{module.__name__}: has no docstring")
        start = text.find(f"## {module.__name__}\n")
        section = text[start : text.find("\n## ", start + 1) % (len(text) + 1)] if start >= 0 else ""
        exports = exports_of(module)
        is_package = hasattr(module, "__path__")
        if not is_package and not any(export.examples or export.is_exception for export in exports):
            found.append(f"{module.__name__}: has no example that runs as a doctest")
        for export in exports:
            if export.is_code and not export.docstring:
                found.append(f"{export.path}: has no docstring")
            if is_package and export.is_code and not export.examples and not export.is_exception:
                found.append(f"{export.path}: has no example that runs as a doctest")
            if entry(export) not in section:
                found.append(f"{export.path}: has no entry (or an old one) on the page; run python scripts/api_page.py")
    return found


def main() -> int:
    """Write or check the page."""
    sys.path[:0] = [str(PACKAGE.parent), *(str(ROOT / folder) for folder in COMPANIONS)]
    text = page(public_modules())
    if "--check" in sys.argv[1:]:
        return int(PAGE.read_text(encoding="utf-8") != text)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
