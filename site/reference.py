"""The reference: a page for each package with a table of its names, and a page for each name."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from types import ModuleType

import api_page
from api_page import Export

NOT_OURS = "object,str,int,float,tuple,dict,Enum,Exception,BaseException,Warning,local"
"""Classes whose inherited members are not listed."""
_STAR = re.compile(r"(?<![\\*`])\*(?=[\w.])")


def write(target: Path) -> None:
    """Pages of all packages and of all names below ``target``."""
    (target / "names").mkdir(parents=True, exist_ok=True)
    modules = {m.__name__: found for m in api_page.public_modules() if (found := _code(m))}
    homes: dict[int, Export] = {}  # names exported by several packages have one page, at their shortest path
    for export in sorted((e for exports in modules.values() for e in exports), key=lambda e: e.path.count(".")):
        homes.setdefault(id(export.value), export)
    for export in homes.values():
        (target / "names" / f"{export.path}.rst").write_text(_name(export), encoding="utf-8")
    for name, exports in modules.items():
        (target / f"{name}.rst").write_text(_package(name, exports, homes), encoding="utf-8")
    lines = [*_title("Reference"), "Every public name, with shapes, units and an example that runs.", ""]
    lines += [".. toctree::", "   :maxdepth: 1", "", *(f"   {name}" for name in modules), ""]
    (target / "index.rst").write_text("\n".join(lines), encoding="utf-8")


def escaped(text: str) -> str:
    """A docstring with escaped stars of shapes, ``(*batch, n)``, and bars of norms.

    >>> print(escaped("(*batch, n) of |x| and ``*q``"))
    (\\*batch, n) of \\|x\\| and ``*q``
    """
    parts = re.split(r"(``.*?``)", text)
    return "".join(p if p.startswith("``") else _STAR.sub(r"\\*", p).replace("|", "\\|") for p in parts)


def _code(module: ModuleType) -> list[Export]:
    return sorted((e for e in api_page.exports_of(module) if e.is_code), key=lambda e: e.name.lower())


def _title(text: str) -> list[str]:
    return [text, "=" * len(text), ""]


def _package(name: str, exports: list[Export], homes: dict[int, Export]) -> str:
    text = sys.modules[name].__doc__ or ""
    lines = [*_title(name), escaped(api_page.first_sentence(text)), "", ".. list-table::", "   :widths: 30 70", ""]
    for export in exports:
        lines += [f"   * - :doc:`{export.name} <names/{homes[id(export.value)].path}>`"]
        lines += [f"     - {escaped(api_page.first_sentence(export.docstring))}"]
    own = [export.path for export in exports if homes[id(export.value)] is export]
    lines += ["", ".. toctree::", "   :hidden:", "", *(f"   names/{path}" for path in own), ""]
    return "\n".join(lines)


def _name(export: Export) -> str:
    lines = [*_title(export.name), f".. currentmodule:: {export.module}", ""]
    if inspect.isclass(export.value):
        lines += [f".. autoclass:: {export.name}", "   :members:", f"   :inherited-members: {NOT_OURS}"]
    else:
        lines += [f".. autofunction:: {export.name}"]
    return "\n".join([*lines, ""])
